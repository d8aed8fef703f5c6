"""How often users repeat an item: it decides which of two equal queries is the quicker one."""

from setwise.analytics.aggregation import Aggregation
from setwise.analytics.engines.template import Template

SELDOM = 2.0
"""Up to this many rows for every user and item, numbering rows beats grouping them first."""


def matters(aggregation: Aggregation) -> bool:
    """Whether there is a choice: sums must be grouped, and without a bound nothing is ranked."""
    return aggregation.sampled is not None and aggregation.value is None


def probe(template: Template, aggregation: Aggregation, some: str) -> str:
    """Return how many rows, and how many pairs of user and item, all rows of some of the users are."""
    return f"SELECT SUM(n) AS found, COUNT(*) AS pairs FROM ({template.pairs(aggregation, some)}) AS pairs"


def seldom(found: int | None, pairs: int) -> bool:
    """Whether rows should be numbered as they are; either form gives the same histogram, sooner or later."""
    return found is not None and found <= SELDOM * pairs

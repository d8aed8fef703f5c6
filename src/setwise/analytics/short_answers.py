"""What would have shown more items, from parameters alone: said with an answer that came out short."""

from dataclasses import replace
from fractions import Fraction

from setwise.analytics.query import Query
from setwise.analytics.statistics import release_of, statistics_error
from setwise.errors import SetwiseError
from setwise.mechanisms.planning.planner import plan
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.planning.statistics import plan_statistics

_FEWER_CONTRIBUTIONS = (20, 5, 1)
_LARGER_EPSILONS = (Fraction(1), Fraction(5))
_WORTHWHILE = 0.75
"""The share of today's lead that another parameter must do with to be named."""


def what_shows_more(query: Query, total: Total) -> str:
    """Return which lead an item needed to be shown, and which parameters would have shown more; "" where none would.

    Each parameter is planned as a question of its own, so the numbers are those its preview would have.
    """
    needed = _lead(query, total)
    if query.domain is not None or needed is None:
        return ""
    remedies = [*_by_contributions(query, total, needed), *_by_epsilon(query, total, needed)]
    found = f"an item is shown when its count is {needed:,} above those left out"
    return (
        f"{found}; {' or '.join(remedies)} would do"
        if remedies
        else f"{found}; more can be shown from a list of public items"
    )


def _by_contributions(query: Query, total: Total, needed: int) -> list[str]:
    for bound in _FEWER_CONTRIBUTIONS:
        if query.contributions is None or bound < query.contributions:
            lead = _lead(replace(query, contributions=bound), total)
            if lead is not None and lead <= _WORTHWHILE * needed:
                return [f"{lead:,} with contributions = {bound} (at most {bound} item{'s' * (bound > 1)} of a user)"]
    return []


def _by_epsilon(query: Query, total: Total, needed: int) -> list[str]:
    for epsilon in _LARGER_EPSILONS:
        if total.epsilon < epsilon:
            lead = _lead(query, replace(total, epsilon=epsilon))
            if lead is not None and lead <= _WORTHWHILE * needed:
                return [f"{lead:,} with epsilon = {float(epsilon):g}"]
    return []


def _lead(query: Query, total: Total) -> int | None:
    """Return by how much an item must lead to be shown, or None where that is no matter or cannot be planned."""
    try:
        if query.counted is None:
            error = statistics_error(
                plan_statistics(query.bounds, total, [release_of(each) for each in query.statistics])
            )
        else:
            error = plan(query.bounds, total).preview
    except SetwiseError:
        return None
    return None if error.detectable is None else max(error.detectable, error.shortfall or 0)

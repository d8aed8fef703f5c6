"""What an engine is asked for: whose rows are grouped by what, and how much of each user may count."""

from dataclasses import dataclass

from setwise.analytics.filter.expression import Filter
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Label, distinct_labels

EVERYTHING = "all"
"""The label of the one group of an aggregation without an item column."""

LARGEST_BOUND = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """A bounded histogram: one user moves at most `contributions` counts, each by at most `per_item`.

    Of the rows that pass `where` and have a user, an item and, with a `domain`, an item of it, every user keeps
    `contributions` distinct items, drawn uniformly (all of them when it is None), and counts under each of them the
    number of their rows, or the sum of `value`, clipped to 0 .. `per_item`. Without `item` all rows are one group,
    labelled `EVERYTHING`. Rows without an item are dropped, or count under the label `null_item`.

    >>> Aggregation(user="user_id", item="word", contributions=0)
    Traceback (most recent call last):
        ...
    setwise.errors.InvalidParameter: contributions must be a whole number between 1 and 1099511627776, not 0
    """

    user: str
    item: str | None = None
    value: str | None = None
    contributions: int | None = None
    per_item: int = 1
    where: Filter | None = None
    domain: tuple[Label, ...] | None = None
    null_item: Label | None = None

    def __post_init__(self) -> None:
        for name in ("contributions", "per_item"):
            bound = getattr(self, name)
            if bound is None and name == "contributions":
                continue
            if not isinstance(bound, int) or isinstance(bound, bool) or not 1 <= bound <= LARGEST_BOUND:
                raise InvalidParameter(f"{name} must be a whole number between 1 and {LARGEST_BOUND}, not {bound!r}")
        for name in ("user", "item", "value"):
            column = getattr(self, name)
            if column is not None and (not isinstance(column, str) or not column):
                raise InvalidParameter(f"{name} must be the name of a column, not {column!r}")
        if not isinstance(self.user, str):
            raise InvalidParameter("user must be the name of a column, not None")
        if self.domain is not None:
            object.__setattr__(self, "domain", distinct_labels(self.domain))
        if self.null_item is not None:
            distinct_labels([self.null_item])
        if self.item is None and (self.domain is not None or self.null_item is not None):
            raise InvalidParameter("a domain or a label for missing items needs an item column: give item")

    @property
    def sampled(self) -> int | None:
        """How many items each user keeps at random; None when users keep every item they have."""
        return None if self.item is None else self.contributions

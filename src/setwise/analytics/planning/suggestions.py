"""Suggestions for questions about private groups: which parameters would also show groups with fewer users."""

from dataclasses import dataclass, replace
from fractions import Fraction

from setwise.analytics.planning.expected_error import releases_of, statistics_error
from setwise.analytics.query import Query
from setwise.analytics.statistics.statistic import GROUP_BOUNDS
from setwise.errors import SetwiseError
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.planning.planner import plan
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.planning.statistics import plan_statistics

_FEWER_CONTRIBUTIONS = (20, 5, 1)
_FEWER_ROWS = (16, 4)
_LARGER_EPSILONS = (Fraction(1), Fraction(5))
_WORTHWHILE = 0.75
"""Another parameter is suggested only if the lead that it needs is at most this share of the lead needed now."""


def suggest_parameters(query: Query, total: Total, *, weighable: bool = False, largest: float | None = None) -> str:
    """Return a sentence on how large an item's count must be for the item to be shown, and how to show smaller items.

    An item is a private group of the answer, and its count the exact one. For example: "an item is shown with
    probability 95% if its count is at least 300, or at least 120 with epsilon = 1".

    - `total` is the budget of the `query`.
    - `weighable` is True if groups can be found in rounds (several noisy passes over the table).
    - `largest` is an estimate, from released numbers, of the largest count of an item that is not shown; None if there
      is no estimate. Parameters that would show only items with counts above `largest` are not suggested, because they
      would show nothing new.

    Returns "" if the items are public, if the answer has no detection threshold, or if planning fails.
    """
    lead = _lead(query, total, weighable)
    if query.domain is not None or lead is None:
        return ""
    needed = lead.count
    most = _WORTHWHILE * needed if largest is None else min(_WORTHWHILE * needed, largest)
    changes = [
        *_by_rows(query, total, most, weighable),
        *_by_contributions(query, total, most, weighable),
        *_by_epsilon(query, total, most, weighable),
    ]
    condition = f"an item is shown with probability {float(CONFIDENCE):.0%} if its count is {lead.in_words()}"
    if lead.above_rank is not None:  # "at least 70 above that of rank 13, or at least 20 with epsilon = 5"
        changes = [change.replace(_above(lead.above_rank), "") for change in changes]
    return (
        f"{condition}, or {' or '.join(changes)}"
        if changes
        else f"{condition}; more can be shown from a list of public items"
    )


def _by_rows(query: Query, total: Total, most: float, weighable: bool) -> list[str]:
    """Return a list with one phrase that suggests a lower limit on the rows of one user in a group, or an empty list.

    With a lower limit, counts of rows need less noise, so an item (a group) is shown from a smaller count on. But of
    users with many rows in a group, fewer rows are counted. Limits of 16 and 4 rows are tried in this order, if they
    are below the limit of `query`. The phrase is about the first limit with which an item whose count is `most` would
    be shown, such as "at least 120 with per_item = 16, in SQL COUNT(*, contribution_bounds_per_group => (0, 16)) (at
    most 16 rows of a user count in an item; others are left out)".

    `total` is the budget of the `query`. `weighable` is True if groups can be found in several noisy passes over the
    table.
    """
    counted = query.counted
    if counted is None or counted.most_rows is None:
        return []
    for rows in _FEWER_ROWS:
        if rows < counted.most_rows:
            lead = _lead(replace(query, statistics=(counted.with_rows(rows, rows),)), total, weighable)
            if lead is not None and lead.count <= most:
                clause = f"COUNT({'*' if counted.column is None else '..'}, {GROUP_BOUNDS} => (0, {rows}))"
                return [
                    f"{lead.in_words()} with per_item = {rows}, in SQL {clause} "
                    f"(at most {rows} rows of a user count in an item; others are left out)"
                ]
    return []


def _by_contributions(query: Query, total: Total, most: float, weighable: bool) -> list[str]:
    """Return a list with one phrase that suggests a lower limit on the groups of one user, or an empty list.

    With a lower limit, counts need less noise, so an item (a group) is shown from a smaller count on. Limits of 20, 5
    and 1 groups are tried in this order, if they are below the limit of `query`. The phrase is about the first limit
    with which an item whose count is `most` would be shown, such as "at least 120 with contributions = 5 (at most 5
    items of a user; others are left out)". The count in the phrase, here 120, is the least count with which an item is
    then shown; it is at most `most`.

    `total` is the budget of the `query`. `weighable` is True if groups can be found in several noisy passes over the
    table.
    """
    for bound in _FEWER_CONTRIBUTIONS:
        if query.contributions is None or bound < query.contributions:
            lead = _lead(replace(query, contributions=bound), total, weighable)
            if lead is not None and lead.count <= most:
                return [
                    f"{lead.in_words()} with contributions = {bound} "
                    f"(at most {bound} item{'s' * (bound > 1)} of a user; others are left out)"
                ]
    return []


def _by_epsilon(query: Query, total: Total, most: float, weighable: bool) -> list[str]:
    """Return a list with one phrase that proposes a larger epsilon, or an empty list if no epsilon that is tried helps.

    The phrase names the smallest tried epsilon with which an item needs a count of at most `most` to be shown, such as
    "at least 120 with epsilon = 5". Epsilons of 1 and 5 are tried, if they are above that of `total`.

    - `total` is the budget of the `query`.
    - `weighable` is True if groups can be found in several noisy passes over the table.
    """
    for epsilon in _LARGER_EPSILONS:
        if total.epsilon < epsilon:
            lead = _lead(query, replace(total, epsilon=epsilon), weighable)
            if lead is not None and lead.count <= most:
                return [f"{lead.in_words()} with epsilon = {float(epsilon):g}"]
    return []


@dataclass(frozen=True, slots=True)
class _Lead:
    """The `count` from which on an item (a private group) is shown with probability 95%.

    If only the items with the highest counts can be shown, `count` is a difference: an item is shown if its count is at
    least this much above that of the item of the rank `above_rank` (or above 0 if there are fewer items). `above_rank`
    is None if an item only has to exceed a fixed threshold.
    """

    count: int
    above_rank: int | None

    def in_words(self) -> str:
        """Return a phrase such as "at least 70" or "at least 70 above that of rank 13"."""
        return f"at least {self.count:,}{'' if self.above_rank is None else _above(self.above_rank)}"


def _above(rank: int) -> str:
    return f" above that of rank {rank:,}"


def _lead(query: Query, total: Total, weighable: bool) -> _Lead | None:
    """Return the count from which on an item (a private group) is shown with probability 95%; None if it is not known.

    If the mechanism shows all items above a fixed threshold, the result is the count with which an item exceeds this
    threshold. If only the items with the highest counts take part, the result is a difference: by how much the count of
    an item must be above the highest count that does not take part. A mechanism may also pick an item although the
    count of another item is higher, by up to a known number (`shortfall`); the result is at least this number. It is
    None if the answer has no detection threshold, or if planning fails.

    `total` is the budget of the `query`. `weighable` is True if groups can be found in rounds (several noisy passes
    over the table).
    """
    bounds = replace(query.bounds, weighable=weighable)
    try:
        if query.counted is None:
            error = statistics_error(query, plan_statistics(bounds, total, releases_of(query.statistics)))
        else:
            error = plan(bounds, total).preview
    except SetwiseError:
        return None
    if error.detectable is None:
        return None
    return _Lead(max(error.detectable, error.shortfall or 0), error.above_rank)

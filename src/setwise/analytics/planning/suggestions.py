"""Suggestions for questions about private groups: which parameters would also show groups with fewer users.

A suggestion compares the counts that groups need with the counts of the same rows. So where a private search found the
limits on a user, a larger epsilon is suggested together with these limits: with a larger epsilon alone, the search may
find wider ones, whose counts need more. Where limits were found, no lower limit is suggested, because it would lower
the counts as well, and the search has weighed both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from setwise.analytics.planning.mechanism_choice import choose_mechanism
from setwise.analytics.planning.plan import ExecutablePlan
from setwise.analytics.query import FEWEST_SEARCHED, Query
from setwise.analytics.statistics import Count
from setwise.analytics.statistics.statistic import GROUP_BOUNDS
from setwise.errors import SetwiseError
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.release import Item

_FEWER_CONTRIBUTIONS = 20
"""The limit on a user's groups that is suggested where a top k states none."""

_FEWER_ROWS = (16, 4)
_LARGER_EPSILONS = (Fraction(1), Fraction(2), Fraction(5))
_WORTHWHILE = 0.75
"""Another parameter is suggested only if the lead that it needs is at most this share of the lead needed now."""

_MEASURE_LEFT_OUT = "; contributions = auto finds how many groups of a user to count, and measures what is left out"

_LIST_PUBLIC_GROUPS = "if the list of groups is public, state it as the domain: every group is then shown"


def _list_public_groups(query: Query, lead: "_Lead", largest: float | None) -> str:
    """Return a phrase that suggests to state public groups as the domain, and says which of them are then shown.

    A top k shows only the k groups with the highest noisy counts. The result is "" if their counts would be lost in the
    noise, because `largest`, an estimate of the largest count of a group that is not shown, is below the noise of a
    count. `largest` is None if there is no estimate.
    """
    if query.k is None:
        return _LIST_PUBLIC_GROUPS
    if largest is not None and lead.radius is not None and largest < lead.radius:
        return ""
    shown = f"the {query.k} with the highest noisy counts are then shown"
    return f"if the list of groups is public, state it as the domain: {shown}"


_FAR_ABOVE = 4
"""If the smallest released group has this many times the users from which on groups are shown, hardly any is hidden.

Sizes of groups are rarely so far apart; a hint on hidden groups would then only be read in vain.
"""


def hint_for_answer(
    planned: ExecutablePlan, items: Sequence[Item], users: Sequence[float | None], *, is_short: bool
) -> str:
    """Return a sentence that tells the analyst how to see more items (groups) than the released `items`; or "".

    For example: "an item is shown with probability 95% if its count is at least 300, or at least 120 with epsilon = 1".

    - `planned` is the question's plan.
    - `users` has the noisy number of users of each item; empty if it is not known.
    - `is_short` is True if the answer has no item, or fewer than the k asked for.

    The result is "" if nothing that could be changed is known to help, or if the account pays with guarantees that it
    registered in advance, because such a question states no epsilon that could be raised.
    """
    query, total = planned.query, planned.total
    if total is None or (query.k is not None and not is_short):
        return ""
    if query.domain is not None:
        return suggest_for_public_groups(query)
    weighable, found = planned.is_weighable, planned.largest_group is not None
    counts = [item.count for item in items]
    if is_short:
        largest = min((guess for guess in (planned.largest_group, *counts) if guess is not None), default=None)
        return suggest_parameters(query, total, weighable=weighable, found=found, largest=largest)
    known = counts if query.counted is not None and query.per_item == 1 else users
    numbers = [number for number in known if number is not None]
    if numbers and len(numbers) == len(items) and min(numbers) > _FAR_ABOVE * (planned.plan.error.detectable or 0):
        return ""
    return suggest_for_hidden_groups(query, total, weighable=weighable, found=found)


def suggest_parameters(
    query: Query, total: Total, *, weighable: bool = False, found: bool = False, largest: float | None = None
) -> str:
    """Return a sentence on how large a group must be to be shown, and how to show smaller groups.

    For example: "an item is shown with probability 95% if its count is at least 300, or at least 120 with epsilon = 1;
    if the list of groups is public, state it as the domain: every group is then shown".

    - `total` is the budget of the `query`.
    - `weighable` is True if groups can be found in rounds (several noisy passes over the table).
    - `found` is True if a private search found the limits on a user's groups and rows that `query` has.
    - `largest` is an estimate, from released numbers, of the largest count of a group that is not shown; None if there
      is no estimate. Parameters that would show only groups with counts above `largest` are not suggested, because they
      would show nothing new.

    Returns "" if the groups are public, if the answer has no detection threshold, or if planning fails.
    """
    lead = _lead(query, total, weighable)
    if query.domain is not None or lead is None:
        return ""
    most = _WORTHWHILE * lead.count if largest is None or lead.is_of_users else min(_WORTHWHILE * lead.count, largest)
    counts_rows = query.k is not None and isinstance(query.counted, Count) and query.per_item > 1
    if found and counts_rows:
        changes = _by_users(query, total, weighable)
    else:
        changes = _by_epsilon(query, total, most, weighable, found)
    if not found:
        changes = [
            *_by_rows(query, total, most, weighable),
            *_by_contributions(query, total, most, weighable),
            *changes,
        ]
    public = _list_public_groups(query, lead, largest)
    condition = f"an item is shown with probability {float(CONFIDENCE):.0%} if {lead.in_words()}"
    if lead.above_rank is not None:  # "at least 70 above that of rank 13, or at least 20 with epsilon = 5"
        changes = [change.replace(_above(lead.above_rank), "") for change in changes]
    return "; ".join(filter(None, (", or ".join((condition, *changes)), public)))


def suggest_for_hidden_groups(query: Query, total: Total, *, weighable: bool = False, found: bool = False) -> str:
    """Return a sentence on how to show more of the private groups, for an answer that may hide some; or "".

    For example: "groups of about 14 users are shown with epsilon = 2 and contributions = 1; if the list of groups is
    public, state it as the domain: every group is then shown". The arguments are those of `suggest_parameters`.
    """
    lead = _lead(query, total, weighable)
    if query.domain is not None or query.item is None or lead is None or lead.above_rank is not None:
        return ""
    measured = "" if found or query.contributions == 1 else _MEASURE_LEFT_OUT
    for epsilon in _LARGER_EPSILONS:
        better = _lead(query, replace(total, epsilon=epsilon), weighable) if epsilon > total.epsilon else None
        if better is not None and better.above_rank is None and 2 * better.count <= lead.count:
            shown = f"{better.size_in_words(query)} are shown with {_epsilon_in_words(query, epsilon, found)}"
            return f"{shown}; {_LIST_PUBLIC_GROUPS}{measured}"
    return f"{_LIST_PUBLIC_GROUPS}{measured}"


def suggest_for_public_groups(query: Query) -> str:
    """Return a sentence that suggests to bound the public groups in which one user counts, where nothing bounds them.

    Without a bound, a user is taken to be in every group, and the noise grows with the number of groups. Returns "" if
    the query has a bound, few groups, or a top k, whose picks do not depend on a bound.
    """
    size = len(query.domain or ())
    if query.contributions is not None or query.k is not None or size < FEWEST_SEARCHED:
        return ""
    return (
        f"each user is taken to count in all {size:,} groups; contributions = auto finds in how many they do, "
        "and intervals are then narrower if it is a few"
    )


def _by_rows(query: Query, total: Total, most: float, weighable: bool) -> list[str]:
    """Return a list with one phrase that suggests a lower limit on the rows of one user in a group, or an empty list.

    With a lower limit, counts of rows need less noise, so an item (a group) is shown from a smaller count on. But of
    users with many rows in a group, fewer rows are counted. Limits of 16 and 4 rows are tried in this order, if they
    are below the limit of `query`. The phrase is about the first limit with which an item whose count is `most` would
    be shown, such as "at least 120 with per_item = 16, or in SQL COUNT(*, contribution_bounds_per_group => (0, 16)) (at
    most 16 rows of a user then count in an item, so its count may be lower)".

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
                return [
                    f"{lead.amount_in_words()} with {_rows_in_words(rows)} "
                    f"(at most {rows} rows of a user then count in an item, so its count may be lower)"
                ]
    return []


def _by_contributions(query: Query, total: Total, most: float, weighable: bool) -> list[str]:
    """Return a list with one phrase that suggests a limit on the groups of one user, or an empty list.

    A top k may state no limit; its counts then need more noise. The phrase is, for example, "at least 120 with
    contributions = 20 (at most 20 items of a user then count, so counts may be lower)". It is made only if an item is
    then shown from a count of at most `most` on. Where `query` states a limit, no lower one is suggested, because how
    much it would lower the counts is not known.

    `total` is the budget of the `query`. `weighable` is True if groups can be found in several noisy passes over the
    table.
    """
    if query.contributions is not None:
        return []
    lead = _lead(replace(query, contributions=_FEWER_CONTRIBUTIONS), total, weighable)
    if lead is None or lead.count > most:
        return []
    return [
        f"{lead.amount_in_words()} with contributions = {_FEWER_CONTRIBUTIONS} "
        f"(at most {_FEWER_CONTRIBUTIONS} items of a user then count, so counts may be lower)"
    ]


def _by_epsilon(query: Query, total: Total, most: float, weighable: bool, found: bool) -> list[str]:
    """Return a list with one phrase that proposes a larger epsilon, or an empty list if no epsilon that is tried helps.

    The phrase names the smallest tried epsilon with which an item needs a count of at most `most` to be shown, such as
    "at least 120 with epsilon = 5". Epsilons of 1, 2 and 5 are tried, if they are above that of `total`.

    - `total` is the budget of the `query`.
    - `weighable` is True if groups can be found in several noisy passes over the table.
    - `found` is True if a private search found the limits on a user, which the phrase then names.
    """
    for epsilon in _LARGER_EPSILONS:
        if total.epsilon < epsilon:
            lead = _lead(query, replace(total, epsilon=epsilon), weighable)
            if lead is not None and lead.count <= most:
                return [f"{lead.amount_in_words()} with {_epsilon_in_words(query, epsilon, found)}"]
    return []


def _by_users(query: Query, total: Total, weighable: bool) -> list[str]:
    """Return a list with one phrase that suggests a top k of users in place of rows, or an empty list.

    The limits that were found for a top k of rows leave out most groups of a user, so counts are far lower than the
    table's own, and no number of rows says from which count of users a group would be shown. Users need no limits. The
    phrase is, for example, "at least 217 above that of rank 1,001 if users are counted in place of rows, in SQL by
    COUNT(DISTINCT ..) of the user column (at least 51 with epsilon = 5)".
    """
    by_users = replace(query, statistics=(Count(),), contributions=None)
    now = _lead(by_users, total, weighable)
    if now is None:
        return []
    better = ""
    for epsilon in _LARGER_EPSILONS:
        lead = _lead(by_users, replace(total, epsilon=epsilon), weighable) if epsilon > total.epsilon else None
        if lead is not None and 2 * lead.count <= now.count:
            better = f" ({lead.amount_in_words()} with epsilon = {float(epsilon):g})"
            break
    counted = "if users are counted in place of rows, in SQL by COUNT(DISTINCT ..) of the user column"
    return [f"{now.amount_in_words()} {counted}{better}"]


def _epsilon_in_words(query: Query, epsilon: Fraction, found: bool) -> str:
    """Return a phrase that states a larger epsilon, such as "epsilon = 5, contributions = 1 and per_item = 2".

    If a private search `found` the limits of `query` on a user's groups and rows, the phrase states them as well. A
    count of users has no limit on rows.
    """
    stated = [f"epsilon = {float(epsilon):g}"]
    if found and query.contributions is not None:
        stated.append(f"contributions = {query.contributions}")
    if found and isinstance(query.counted, Count) and (query.counted.most_rows or 1) > 1:  # 1 counts users
        stated.append(_rows_in_words(query.counted.most_rows or 1))
    return f"{', '.join(stated[:-1])}{' and ' * (len(stated) > 1)}{stated[-1]}"


def _rows_in_words(rows: int) -> str:
    """Return a phrase that states a limit on the rows of a user in a group, as a parameter and as a call in SQL."""
    return f"per_item = {rows}, or in SQL COUNT(*, {GROUP_BOUNDS} => (0, {rows}))"


@dataclass(frozen=True, slots=True)
class _Lead:
    """The `count` from which on an item (a private group) is shown with probability 95%.

    If only the items with the highest counts can be shown, `count` is a difference: an item is shown if its count is at
    least this much above that of the item of the rank `above_rank` (or above 0 if there are fewer items). `above_rank`
    is None if an item only has to exceed a fixed threshold. `is_of_users` is True if items are found by their users,
    although rows are counted or a column is added up; `count` is then a number of users. The noise of a count is within
    `radius` with probability 95%; None if that is not known.
    """

    count: int
    above_rank: int | None
    is_of_users: bool
    radius: float | None = None

    def in_words(self) -> str:
        """Return a condition such as "its count is at least 70 above that of rank 13" or "it has at least 70 users"."""
        verb = "it has" if self.is_of_users else "its count is"
        return f"{verb} {self.amount_in_words()}{' users' * self.is_of_users}"

    def size_in_words(self, query: Query) -> str:
        """Return a phrase such as "groups of about 70 users" or, for sums, "groups whose sum of price is about 70"."""
        if self.is_of_users or query.per_item == 1:
            return f"groups of about {self.count:,} users"
        column = None if query.counted is None else query.counted.column
        if column is None:
            return f"groups of about {self.count:,} rows"
        return f"groups whose sum of {column} is about {self.count:,}"

    def amount_in_words(self) -> str:
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
    try:
        choice = choose_mechanism(query, replace(query.bounds, weighable=weighable), total, certified=False)
    except SetwiseError:
        return None
    error = choice.error
    if error.detectable is None:
        return None
    return _Lead(
        max(error.detectable, error.shortfall or 0), error.above_rank, choice.threshold_is_of_users(query), error.radius
    )

"""Choice of the mechanism that answers a query within an (epsilon, delta), and its expected error."""

from contextlib import suppress
from dataclasses import dataclass, replace

from setwise.analytics.planning.expected_error import releases_of, statistics_error, statistics_in_words
from setwise.analytics.planning.limits_choice import FEWEST_ROWS_BY_USERS
from setwise.analytics.planning.remembered import plan, plan_statistics
from setwise.analytics.query import Query
from setwise.errors import Unattainable
from setwise.mechanisms.planning.planner import Mechanism
from setwise.mechanisms.planning.request import Bounds, CountNoise, Total
from setwise.mechanisms.planning.rounds import FEWEST_CONTRIBUTIONS
from setwise.mechanisms.planning.statistics import StatisticsChoice
from setwise.mechanisms.release import ErrorEstimate
from setwise.mechanisms.statistics import GroupStatistics
from setwise.mechanisms.weighted_rounds import DiscoveredCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismChoice:
    """The mechanism that answers a query within its budget.

    - `name` is the name of the mechanism, and `why` a sentence that compares it with other mechanisms.
    - `error` is its expected error.
    - `close` says how close each statistic will be. It is "" if groups are found by the number that is asked for.
    """

    mechanism: Mechanism | GroupStatistics
    name: str
    why: str
    error: ErrorEstimate
    close: str

    def threshold_is_of_users(self, query: Query) -> bool:
        """Return whether private groups are shown from a number of users on, although `query` asks for other numbers.

        It may ask for counts of rows, sums or means. `error.detectable` is then a number of users.
        """
        by_users = isinstance(self.mechanism, GroupStatistics | DiscoveredCounts)
        return by_users and (query.counted is None or query.per_item > 1)


def choose_mechanism(query: Query, bounds: Bounds, total: Total, *, certified: bool = True) -> MechanismChoice:
    """Return the mechanism with about the least noise that answers `query` within the budget `total`.

    - `bounds` has the query's contribution bounds and public groups.
    - `certified`: if False, the noise scale may be an estimate only, and the mechanism must not be run.

    Raises: `InvalidParameter` if no mechanism can answer such a query, `Unattainable` if no noise in range is enough.
    """
    if query.counted is None:
        return _of_statistics(query, _plan_statistics(query, bounds, total, certified))
    if _finds_groups_by_users(query, bounds, total):
        with suppress(Unattainable):
            return _of_statistics(query, _plan_statistics(query, bounds, total, certified))
    best = plan(bounds, total)
    labels_only = total.counts is CountNoise.NONE
    error = replace(best.preview, expected_error=None, radius=None) if labels_only else best.preview
    return MechanismChoice(
        mechanism=best.mechanism, name=best.name, why=_in_sums(best.why, query), error=error, close=""
    )


def _finds_groups_by_users(query: Query, bounds: Bounds, total: Total) -> bool:
    """Return whether the private groups of `query`, a count of rows, should be found by their users.

    If groups are found by a noisy count of rows, one user may add `query.per_item` rows to a group, so a group is shown
    only from that many times as many rows on as it would need users. With at most 512 rows of a user and epsilon 0.9, a
    group needs 9,800 rows, or else 40 users. Finding groups by users takes half of the budget, so the counts have twice
    the noise. From `FEWEST_CONTRIBUTIONS` groups of a user on, the planner of counts finds groups by users by itself.

    Sums are not found by users, because most users may add nearly as much as the bound. Nor are counts whose budget was
    derived from a wanted accuracy, because they would cost up to twice the epsilon. A mechanism that the question names
    is taken as it is, and a top k finds its groups by the counts that rank them. `bounds` and `total` are the query's
    contribution bounds and its budget.
    """
    return (
        query.statistics[0].kind == "count"
        and query.per_item >= FEWEST_ROWS_BY_USERS
        and bounds.domain is None
        and bounds.k is None
        and bounds.limit is None
        and bounds.weighable
        and bounds.contributions is not None
        and bounds.contributions < FEWEST_CONTRIBUTIONS
        and total.mechanism is None
        and not total.from_accuracy
        and total.counts is not CountNoise.NONE
    )


def _plan_statistics(query: Query, bounds: Bounds, total: Total, certified: bool) -> StatisticsChoice:
    return plan_statistics(replace(bounds, per_item=1), total, releases_of(query.statistics), certified=certified)


def _of_statistics(query: Query, choice: StatisticsChoice) -> MechanismChoice:
    """Return `choice`, the planned mechanism for the statistics of `query`, with its expected error."""
    close = statistics_in_words(query, choice)
    return MechanismChoice(
        mechanism=choice.mechanism,
        name=choice.name,
        why=f"{choice.name}: {close}",
        error=statistics_error(query, choice),
        close=close,
    )


def _in_sums(why: str, query: Query) -> str:
    """Return `why`, the text that compares mechanisms for counts, about sums if `query` ranks groups by sums."""
    counted = query.counted
    if counted is None or counted.column is None:
        return why
    sums = why.replace("counts off by", f"{counted.subject} off by")
    sums = sums.replace("items whose count is", "items whose sum is")
    return sums.replace("then counts the items found,", f"then adds up {counted.column} of the items found,")

"""A cache for the planner of mechanisms, because the SELECTs of a statement often need the same plan.

A plan depends only on the query's contribution bounds, its public groups and its budget, and not on rows, filters or
the name of the table.
"""

from collections.abc import Sequence
from functools import lru_cache

from setwise.mechanisms.planning import planner, statistics
from setwise.mechanisms.planning.planner import Choice
from setwise.mechanisms.planning.request import Bounds, Total
from setwise.mechanisms.planning.statistics import StatisticsChoice
from setwise.mechanisms.statistic_release import StatisticRelease

_MOST_LABELS = 50
"""A query with more public groups is planned anew, because the memory would hold all their labels."""

_MOST_PLANS = 512
"""The most plans of each function that are remembered; the one that was not used for longest is forgotten first."""


def plan(bounds: Bounds, total: Total) -> Choice:
    """Return the mechanism that the planner chooses for one count or sum of each group; the result is cached.

    `bounds` are the query's contribution bounds (to how many groups one user adds, and how much) and its public groups,
    and `total` is its (epsilon, delta). A query with more than 50 public groups (`_MOST_LABELS`) is planned anew each
    time, because the cache would have to keep all their labels.
    """
    if len(bounds.domain or ()) > _MOST_LABELS:
        return planner.plan(bounds, total)
    return _plan(bounds, total, repr((bounds, total)))


def plan_statistics(
    bounds: Bounds, total: Total, wanted: Sequence[StatisticRelease], *, certified: bool
) -> StatisticsChoice:
    """Return the mechanism that the planner chooses for the statistics `wanted` of each group; the result is cached.

    `bounds` are the query's contribution bounds (to how many groups one user adds, and how much) and its public groups,
    and `total` is its (epsilon, delta). If `certified` is False, the noise scale is only an estimate, and the mechanism
    must not be run. A query with more than 50 public groups (`_MOST_LABELS`) is planned anew each time, because the
    cache would have to keep all their labels.
    """
    if len(bounds.domain or ()) > _MOST_LABELS:
        return statistics.plan_statistics(bounds, total, wanted, certified=certified)
    releases = tuple(wanted)
    return _plan_statistics(bounds, total, releases, certified, repr((bounds, total, releases)))


@lru_cache(maxsize=_MOST_PLANS)
def _plan(bounds: Bounds, total: Total, text: str) -> Choice:  # noqa: ARG001 - `text` tells 1, 1.0 and True apart
    return planner.plan(bounds, total)


@lru_cache(maxsize=_MOST_PLANS)
def _plan_statistics(
    bounds: Bounds,
    total: Total,
    wanted: tuple[StatisticRelease, ...],
    certified: bool,
    text: str,  # noqa: ARG001 - `text` tells 1, 1.0 and True apart
) -> StatisticsChoice:
    return statistics.plan_statistics(bounds, total, wanted, certified=certified)

"""The planner of mechanisms with a memory, because the SELECTs of a statement often ask for equal noise.

A plan depends on the query's bounds and its budget alone: on no row, filter or name of a table.
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
    """Return `planner.plan(bounds, total)`, which may have been computed before."""
    if len(bounds.domain or ()) > _MOST_LABELS:
        return planner.plan(bounds, total)
    return _plan(bounds, total, repr((bounds, total)))


def plan_statistics(
    bounds: Bounds, total: Total, wanted: Sequence[StatisticRelease], *, certified: bool
) -> StatisticsChoice:
    """Return the result of `statistics.plan_statistics`, which may have been computed before."""
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

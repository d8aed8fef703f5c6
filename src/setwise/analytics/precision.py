"""How close the statistics of an answer are: their releases, the error to expect, and what their intervals promise."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from setwise.analytics.query import Query
from setwise.analytics.statistics import Statistic
from setwise.mechanisms.planning.statistics import StatisticsChoice
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate, Estimate
from setwise.mechanisms.statistics import GroupRelease, GroupStatistics, StatisticRelease, UsersFound


def releases_of(statistics: Sequence[Statistic]) -> list[StatisticRelease]:
    """Return the release of each statistic of a query; the planner chooses the noise scales."""
    return [statistic.release(statistics) for statistic in statistics]


def statistics_error(choice: StatisticsChoice) -> ErrorEstimate:
    """Return the error to expect: of finding groups, and of the first statistic where it is known in whole units."""
    discovery = choice.mechanism.discovery
    found = None if discovery is None else discovery.preview()
    radius, error = choice.mechanism.statistics[0].error(found, CONFIDENCE)
    return ErrorEstimate(
        confidence=CONFIDENCE,
        expected_error=error,
        radius=radius,
        detectable=None if found is None else found.detectable,
        shortfall=None if found is None else found.shortfall,
    )


def statistics_note(query: Query, confidence: Fraction, number: str) -> str:
    """Return what the intervals of an answer promise, and which statistics have none.

    `number` says which number the intervals hold, such as "the exact number".
    """
    sure = f"{float(confidence):.0%}"
    sentences = []
    selected = query.item is not None and (query.domain is None or query.k is not None)
    by_discovery = [selected and isinstance(release, UsersFound) for release in releases_of(query.statistics)]
    if any(by_discovery):
        sentences.append(f"On average {sure} of the intervals of users hold {number}.")
    others = [statistic for statistic, found in zip(query.statistics, by_discovery, strict=True) if not found]
    if any(statistic.has_interval for statistic in others):
        which = "other interval holds it" if sentences else f"interval holds {number}"
        sentences.append(f"Each {which} with probability {sure}.")
    sentences += [note for statistic in query.statistics if (note := statistic.interval_note)]
    if not all(statistic.has_interval for statistic in query.statistics):
        sentences.append("A quantile has no interval of values: what noise moves is its rank.")
    return " ".join(sentences)


_UNRELIABLE = "Values marked unreliable may be noise alone: their groups are small against it."


def with_reliability(query: Query, choice: GroupStatistics, release: GroupRelease) -> list[tuple[Estimate, ...]]:
    """Return the estimates of every group in units of their columns, marked where noise is large against the group.

    How many users a group has is what finding the groups released, or a count of users among the statistics.
    """
    counts = [place for place, statistic in enumerate(query.statistics) if statistic.name == "users"]
    groups = []
    for place, row in enumerate(release.estimates):
        estimates = [statistic.in_units(estimate) for statistic, estimate in zip(query.statistics, row, strict=True)]
        users = estimates[counts[0]].value if counts else release.users[place]
        judged = zip(query.statistics, choice.statistics, estimates, strict=True)
        groups.append(
            tuple(
                replace(estimate, unreliable=True) if statistic.is_unreliable(estimate, way, users) else estimate
                for statistic, way, estimate in judged
            )
        )
    return groups


def reliability_note(groups: Sequence[Sequence[Estimate]]) -> str:
    """Return a sentence about estimates that are marked unreliable; "" where none is."""
    return _UNRELIABLE if any(estimate.unreliable for estimates in groups for estimate in estimates) else ""


def statistics_in_words(query: Query, choice: StatisticsChoice) -> str:
    """Return how close each statistic will be, from parameters alone."""
    parts: list[str] = []
    together: dict[object, tuple[Statistic, list[Fraction]]] = {}
    for statistic, release in zip(query.statistics, choice.mechanism.statistics, strict=True):
        radius = statistic.planned_radius(release)
        if radius is None:
            parts.append("users as the groups were found")
        elif (key := statistic.planned_together()) is None:
            parts.append(statistic.planned_words([radius]))
        else:
            together.setdefault(key, (statistic, []))[1].append(radius)
    parts += [statistic.planned_words(radii) for statistic, radii in together.values()]
    return f"{', '.join(parts)} (with probability {float(CONFIDENCE):.0%} each)"

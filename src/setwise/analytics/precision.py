"""How close the statistics of an answer are: their releases, the error to expect, and what their intervals promise."""

from collections.abc import Sequence
from fractions import Fraction

from setwise.analytics.query import Query
from setwise.analytics.statistics import Statistic
from setwise.mechanisms.planning.statistics import StatisticsChoice
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate
from setwise.mechanisms.statistics import StatisticRelease, UsersFound


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

"""The statistics of a query in whole numbers: what users add, which release it takes, and what comes out of it.

The releases, with their noise and intervals, are in mechanisms/statistics.py.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import assert_never

from setwise.analytics.engines.aggregation import Measure
from setwise.analytics.query import Count, Mean, Quantile, Query, Statistic, Sum, statistic_name
from setwise.analytics.schema import Kind, Schema
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import LARGEST_TAU
from setwise.mechanisms.planning.statistics import StatisticsChoice
from setwise.mechanisms.quantile import LARGEST_GRID, GridQuantiles
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate, Estimate
from setwise.mechanisms.statistics import (
    NoisyMean,
    NoisyTotal,
    OneQuantile,
    StatisticRelease,
    UsersFound,
)
from setwise.mechanisms.two_phase import LaplaceCounts, noise_of

STEPS = 1000
"""Steps between low and high, unless a query says otherwise."""

SOME_USERS = 1000
"""The size of the group for which a plan says how close a mean will be; it is in proportion to one over the size."""

_UNIT = LaplaceCounts(scale=Fraction(1))


def in_steps(statistic: Statistic, schema: Schema) -> Statistic:
    """Return the statistic with its step: as given, 1 for whole sums and short integer grids, else a thousandth."""
    match statistic:
        case Count() | Sum(step=Fraction()) | Mean(step=Fraction()) | Quantile(step=Fraction()):
            return statistic
        case Sum(column=column) if schema.column(column).kind is Kind.INTEGER:
            whole = statistic.low.denominator == 1 and _high(statistic).denominator == 1
            return statistic if statistic.low == 0 and whole else replace(statistic, step=Fraction(1))
        case Sum():
            return replace(statistic, step=(_high(statistic) - statistic.low) / STEPS)
        case Quantile(column=column, low=low, high=high):
            whole = schema.column(column).kind is Kind.INTEGER and 1 <= high - low <= 10 * STEPS
            return replace(statistic, step=Fraction(1) if whole else (high - low) / STEPS)
        case Mean(low=low, high=high):
            return replace(statistic, step=(high - low) / STEPS)
        case _:
            assert_never(statistic)


def measure_of(statistic: Statistic) -> Measure:
    """Return what the engine adds up for a statistic that has its step."""
    match statistic:
        case Count(most=most, column=column):
            return Measure(column=column, counted=column is not None, most=most or 1)
        case Sum(column=column, low=low):
            least, most = round(low / _step(statistic)), round(_high(statistic) / _step(statistic))
            return Measure(column=column, step=_step(statistic), least=least, most=most)
        case Mean(column=column, per_user=rows):
            reach = _reach(statistic)
            return Measure(
                column=column,
                averaged=True,
                rows=rows,
                origin=(statistic.low + statistic.high) / 2,
                step=_step(statistic),
                least=-reach,
                most=reach,
            )
        case Quantile(column=column, low=low):
            cells = _cells(statistic)
            return Measure(
                column=column, averaged=True, origin=low, step=_step(statistic), most=cells - 1, in_cells=True
            )
        case _:
            assert_never(statistic)


def releases_of(statistics: Sequence[Statistic]) -> list[StatisticRelease]:
    """Return the release that each statistic takes, its noise left to be chosen.

    Quantiles of the same values (one column on one grid) are picked together.
    """
    return [
        _quantile_among(statistics, each) if isinstance(each, Quantile) else _release_of(each) for each in statistics
    ]


def _quantile_among(statistics: Sequence[Statistic], one: Quantile) -> OneQuantile:
    measure = measure_of(one)
    same = {
        each.at: place
        for place, each in enumerate(statistics)
        if isinstance(each, Quantile) and measure_of(each) == measure
    }
    shares = tuple(sorted(same))
    return OneQuantile(
        quantiles=GridQuantiles(shares=shares, cells=_cells(one), epsilon=Fraction(1)),
        number=shares.index(one.at),
        leader=min(same.values()),
    )


def _release_of(statistic: Count | Sum | Mean) -> StatisticRelease:
    match statistic:
        case Count(most=None | 1, column=None):
            return UsersFound()
        case Count() | Sum():
            measure = measure_of(statistic)
            return NoisyTotal(reach=_bounded(max(abs(measure.least), abs(measure.most))), noise=_UNIT)
        case Mean(per_user=rows):
            return NoisyMean(reach=_reach(statistic), rows=rows or 1, noise=_UNIT)
        case _:
            assert_never(statistic)


def in_units(statistic: Statistic, estimate: Estimate) -> Estimate:
    """Return an estimate in the units of the statistic's column.

    A mean's interval also covers the rounding of each user's own mean, of half a step at most.
    """
    match statistic:
        case Count():
            return estimate
        case Sum():
            return _scaled(estimate, Fraction(0), _step(statistic), Fraction(0))
        case Mean(low=low, high=high):
            found = _scaled(estimate, (low + high) / 2, _step(statistic), _step(statistic) / 2)
            assert found.interval is not None
            least, most = float(low), float(high)
            lower, upper = (min(max(end, least), most) for end in found.interval)
            return Estimate(value=min(max(found.value, least), most), interval=(lower, upper))
        case Quantile(low=low, high=high):
            return Estimate(value=_plain(min(low + Fraction(estimate.value) * _step(statistic), high)))
        case _:
            assert_never(statistic)


def statistics_error(choice: StatisticsChoice) -> ErrorEstimate:
    """Return the error to expect: of finding groups, and of the first statistic where it is a count or sum in steps."""
    discovery = choice.mechanism.discovery
    found = None if discovery is None else discovery.preview()
    release = choice.mechanism.statistics[0]
    radius, error = None, None
    match release:
        case NoisyTotal(reach=reach, noise=counts):
            noise = noise_of(counts, reach)
            radius, error = noise.radius(CONFIDENCE), noise.expected_absolute
        case UsersFound():
            assert found is not None
            radius, error = found.radius, found.expected_error
        case OneQuantile():
            radius = release.rank_error(CONFIDENCE)
        case NoisyMean():
            pass
        case _:
            assert_never(release)
    return ErrorEstimate(
        confidence=CONFIDENCE,
        expected_error=error,
        radius=radius,
        detectable=None if found is None else found.detectable,
        shortfall=None if found is None else found.shortfall,
    )


def statistics_note(query: Query, confidence: Fraction, number: str) -> str:
    """Return what the intervals of an answer promise, and what has none; `number` says which number they hold."""
    sure = f"{float(confidence):.0%}"
    sentences = []
    selected = query.item is not None and (query.domain is None or query.k is not None)
    found = [selected and isinstance(each, UsersFound) for each in releases_of(query.statistics)]
    if any(found):
        sentences.append(f"On average {sure} of the intervals of users hold {number}.")
    if any(
        not isinstance(each, Quantile) and not counted for each, counted in zip(query.statistics, found, strict=True)
    ):
        which = "other interval holds it" if sentences else f"interval holds {number}"
        sentences.append(f"Each {which} with probability {sure}.")
    for each in query.statistics:
        if isinstance(each, Mean):
            rounded = f"allows for the rounding of each user's own mean, by at most {float(_step(each) / 2):g}."
            sentences.append(f"That of {statistic_name(each)} {rounded}")
        if isinstance(each, Sum) and _step(each) != 1:
            rounded = f"rounded to a multiple of {float(_step(each)):g}, so by at most {float(_step(each) / 2):g}."
            sentences.append(f"That of {statistic_name(each)} is about what users add, each {rounded}")
    if any(isinstance(each, Quantile) for each in query.statistics):
        sentences.append("A quantile has no interval of values: what noise moves is its rank.")
    return " ".join(sentences)


def planned_radius(statistic: Statistic, release: StatisticRelease) -> Fraction | None:
    """Return how far intervals will reach either way, from parameters alone; None for users as they were found.

    It is in units of the column for counts, sums and means, of `SOME_USERS` users or rows, and in ranks for quantiles.
    """
    match statistic, release:
        case Count() | Sum(), NoisyTotal(reach=reach, noise=noise):
            step = Fraction(1) if isinstance(statistic, Count) else _step(statistic)
            return step * noise_of(noise, reach).radius(CONFIDENCE)
        case Mean(), NoisyMean():  # each user's own mean is rounded to a step
            return _step(statistic) * (Fraction(release.interval_reach(SOME_USERS, CONFIDENCE)) + Fraction(1, 2))
        case Quantile(), OneQuantile():
            return Fraction(release.rank_error(CONFIDENCE))
        case _:
            return None


def statistics_in_words(query: Query, choice: StatisticsChoice) -> str:
    """Return how close each statistic will be, from parameters alone."""
    parts = []
    ranks: dict[Measure, list[str]] = {}
    for statistic, release in zip(query.statistics, choice.mechanism.statistics, strict=True):
        radius = planned_radius(statistic, release)
        match statistic:
            case _ if radius is None:
                parts.append("users as the groups were found")
            case Count() | Sum():
                name = "counts" if isinstance(statistic, Count) else f"sums of {statistic.column}"
                parts.append(f"{name} within ±{float(radius):,g}")
            case Mean(column=column, per_user=rows):
                over = f"{SOME_USERS:,} {'users' if rows is None else 'rows'}"
                parts.append(f"a mean of {column} over {over} within ±{float(radius):.3g}")
            case Quantile():
                ranks.setdefault(measure_of(statistic), []).append(f"{int(radius):,}")
            case _:
                assert_never(statistic)
    for measure, within in ranks.items():
        *first, last = within
        name = "quantiles" if first else "a quantile"
        both = " and " if first else ""
        parts.append(f"{name} of {measure.column} within {', '.join(first)}{both}{last} users in rank")
    return f"{', '.join(parts)} (with probability {float(CONFIDENCE):.0%} each)"


def _high(statistic: Sum) -> Fraction:
    return Fraction(1) if statistic.high is None else statistic.high


def _step(statistic: Sum | Mean | Quantile) -> Fraction:
    return Fraction(1) if statistic.step is None else statistic.step


def _reach(statistic: Mean) -> int:
    reach = math.ceil((statistic.high - statistic.low) / 2 / _step(statistic))
    _bounded(reach * (statistic.per_user or 1))
    return max(1, reach)


def _cells(statistic: Quantile) -> int:
    cells = math.ceil((statistic.high - statistic.low) / _step(statistic)) + 1
    if cells > LARGEST_GRID:
        raise InvalidParameter(f"a quantile has at most {LARGEST_GRID:,} steps between low and high, not {cells - 1:,}")
    return cells


def _bounded(reach: int) -> int:
    if reach > LARGEST_TAU:
        raise InvalidParameter(f"a user may add at most {LARGEST_TAU:,} steps, not {reach:,}: give a larger step")
    return max(1, reach)


def _scaled(estimate: Estimate, origin: Fraction, step: Fraction, more: Fraction) -> Estimate:
    assert estimate.interval is not None
    value, lower, upper = (origin + Fraction(each) * step for each in (estimate.value, *estimate.interval))
    return Estimate(value=_plain(value), interval=(_plain(lower - more), _plain(upper + more)))


def _plain(number: Fraction) -> float:
    """Return a whole number as one, and others as a float."""
    return int(number) if number.denominator == 1 else float(number)

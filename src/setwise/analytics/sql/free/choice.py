"""Wider confidence intervals for released rows of which a statement shows a few, chosen by their noisy numbers."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.query import Query
from setwise.analytics.statistics import Count, Distinct, Statistic, Sum
from setwise.mechanisms.intervals import radius_after_choice
from setwise.mechanisms.release import Estimate, Item


def allow_for_choice(
    answers: Sequence[PrivateAnswer], queries: Sequence[Query], share: Fraction
) -> tuple[list[PrivateAnswer], bool]:
    """Return `answers` with wider intervals, because noisy numbers choose the rows shown, and whether all surely hold.

    - `answers` are the released (noisy) answers of a statement's private queries, which are `queries`.
    - `share` is the share of the released rows that the statement shows.

    Noise of rows with high numbers is high, so the intervals of chosen rows would hold too seldom. Each interval is
    widened to both sides, whatever the statement chooses by, so that on average it holds as often as is stated. A value
    is marked unreliable if its wider interval reaches 0.
    The intervals of private groups stay as they are, because a threshold on noisy counts has chosen the released rows
    as well. So do those of statistics whose noise is not symmetric, such as means. Gaussian noise of several counts may
    be partly shared, and how often intervals hold is then proven only if the number of rows shown is fixed; so the
    second result is False if any of `answers` has Gaussian noise.
    """
    wider = [_widened(answer, query, share) for answer, query in zip(answers, queries, strict=False)]
    symmetric = all(query.domain is not None and all(map(_is_symmetric, query.statistics)) for query in queries)
    return wider, symmetric and not any("gaussian" in answer.mechanism for answer in answers)


def _is_symmetric(statistic: Statistic) -> bool:
    """Return whether the noise of `statistic` has a symmetric law, so that its intervals can be widened."""
    return isinstance(statistic, Count | Sum | Distinct)


def _widened(answer: PrivateAnswer, query: Query, share: Fraction) -> PrivateAnswer:
    """Return `answer`, to `query`, with wider intervals where groups are public and the noise is symmetric."""
    if query.domain is None:
        return answer

    def widened_item(item: Item) -> Item:
        if not item.estimates:
            if item.count is None or item.interval is None:
                return item
            drawn = item.count if item.noisy is None else max(item.noisy, 0)
            lower, upper = _widened_ends(drawn, item.interval, answer.confidence, share, 1.0)
            return replace(item, interval=(max(0, math.floor(lower)), math.ceil(upper)))
        estimates = tuple(
            _widened_estimate(estimate, answer.confidence, share, statistic) if _is_symmetric(statistic) else estimate
            for estimate, statistic in zip(item.estimates, query.statistics, strict=False)
        )
        return replace(item, estimates=estimates)

    return replace(answer, items=tuple(map(widened_item, answer.items)))


def _widened_estimate(estimate: Estimate, confidence: float, share: Fraction, statistic: Statistic) -> Estimate:
    """Return `estimate`, a noisy value of `statistic`, with a wider interval; only that of a sum may go below 0."""
    if estimate.interval is None:
        return estimate
    lower, upper = _widened_ends(estimate.value, estimate.interval, confidence, share, float(statistic.error_unit))
    reaches_zero = lower <= 0 <= upper and lower < upper
    return Estimate(
        value=estimate.value,
        interval=(lower if isinstance(statistic, Sum) else max(0.0, lower), upper),
        unreliable=estimate.unreliable or reaches_zero,
    )


def _widened_ends(
    drawn: float, interval: tuple[float, float], confidence: float, share: Fraction, step: float
) -> tuple[float, float]:
    """Return the ends of `interval`, which is around the noisy number `drawn`, after widening it to both sides.

    An end that was cut at 0 is nearer to `drawn` than the other one, so the farther end tells how large the noise is.
    `step` is the unit of the noise: the noise is a whole number of steps.
    """
    radius = radius_after_choice(max(interval[1] - drawn, drawn - interval[0]) / step, confidence, share) * step
    return min(interval[0], drawn - radius), max(interval[1], drawn + radius)

"""Conversion of noisy estimates into units of a column, and the check whether an interval is too wide to be useful."""

from fractions import Fraction
from typing import TYPE_CHECKING

from setwise.analytics.statistics.parameters import whole_or_float
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate


def scale_estimate(estimate: "Estimate", origin: Fraction, step: Fraction, rounding: Fraction) -> "Estimate":
    """Return `estimate` converted from rounding steps to units of the column.

    The value of `estimate` and the two ends of its interval are numbers of steps; each number x of them becomes
    `origin` + `step` * x. Then each end of the interval is moved outwards by `rounding`, in units of the column,
    because users' values were rounded to steps.
    Raises: `InvalidParameter` if the estimate has no interval.
    """
    from setwise.mechanisms.release import Estimate

    if estimate.interval is None:
        raise InvalidParameter("an estimate without an interval cannot be scaled with one")
    value, lower, upper = (origin + Fraction(each) * step for each in (estimate.value, *estimate.interval))
    return Estimate(
        value=whole_or_float(value), interval=(whole_or_float(lower - rounding), whole_or_float(upper + rounding))
    )


def raise_to_zero(estimate: "Estimate") -> "Estimate":
    """Return `estimate`, of a number that is at least 0, with a value or a lower interval end below 0 raised to 0.

    If the value is raised, the upper end of the interval is raised by the same amount. Otherwise an interval below 0
    would become 0 .. 0, which would state that the exact number is 0.
    """
    from setwise.mechanisms.release import Estimate, shown_count

    assert estimate.interval is not None
    lower, upper = estimate.interval
    value = shown_count(estimate.value)
    return Estimate(value=value, interval=(shown_count(lower), upper + value - estimate.value))


HALF = Fraction(1, 2)
"""The share of the range of possible values that the interval of an unreliable estimate covers."""


def covers_share(estimate: "Estimate", low: Fraction, high: Fraction, share: Fraction) -> bool:
    """Return whether the confidence interval of `estimate` is at least `share` times as wide as `low` .. `high`.

    `low` and `high` are the least and the greatest possible value. An interval that is nearly as wide as their distance
    says little about the exact value. The result is False for an estimate without an interval.
    """
    return estimate.interval is not None and estimate.interval[1] - estimate.interval[0] >= share * (high - low)

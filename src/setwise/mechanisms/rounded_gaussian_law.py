"""The weights of a rounded Gaussian, bounded in integer interval arithmetic.

W(z) is the integral of exp(-x^2 / (2v)) over [z - 1/2, z + 1/2]. With x = z + u it is exp(-z^2 / (2v)) times a power
series in A = z^2 / (4 v^2) whose terms are all positive, with factors that do not depend on z:

    W(z) = exp(-z^2 / (2v)) sum_m J_m A^m / (2m)!,    J_m = the integral of t^(2m) exp(-t^2 / (8v)) over [0, 1].
"""

from dataclasses import dataclass
from fractions import Fraction

from setwise.mechanisms.fixed_point import ceil_divide, ceil_shift, exp_minus


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedGaussian:
    """The law of round(X), X Gaussian of mean 0 and the given variance."""

    variance: Fraction
    bound: None = None


def rounded_weights(law: RoundedGaussian, precision: int, negligible: int) -> tuple[list[tuple[int, int]], int]:
    """Return bounds on W(0), W(1), ... at `precision` bits, and on the sum of all that follow.

    Ensures: what follows is below `negligible` units.
    """
    v = law.variance
    low_g = high_g = 1 << precision
    low_ratio, high_ratio = exp_minus(1 / (2 * v), precision)
    low_fall, high_fall = exp_minus(1 / v, precision)
    series = _Series(v, precision)
    sizes: list[tuple[int, int]] = []
    z = 0
    while True:
        if high_g < negligible:
            beyond = _integral_beyond(z - Fraction(1, 2), v, precision)
            if beyond < negligible:
                return sizes, beyond
        low, high = series.at(z)
        sizes.append(((low_g * low) >> precision, ceil_shift(high_g * high, precision)))
        z += 1
        low_g, high_g = (low_g * low_ratio) >> precision, ceil_shift(high_g * high_ratio, precision)
        low_ratio, high_ratio = (low_ratio * low_fall) >> precision, ceil_shift(high_ratio * high_fall, precision)


def _integral_beyond(x: Fraction, variance: Fraction, precision: int) -> int:
    """Return an upper bound on the integral from x > 0 on, which is at most exp(-x^2 / (2v)) v / x."""
    most = exp_minus(x * x / (2 * variance), precision)[1] * variance / x
    return ceil_divide(most.numerator, most.denominator)


class _Series:
    """Bounds on sum_m J_m A^m / (2m)! for any z; the J_m are computed once."""

    def __init__(self, variance: Fraction, precision: int) -> None:
        self._variance, self._precision = variance, precision
        self._factors: list[tuple[int, int]] = []

    def at(self, z: int) -> tuple[int, int]:
        precision = self._precision
        a = Fraction(z * z) / (4 * self._variance * self._variance)
        low_a = (a.numerator << precision) // a.denominator
        high_a = low_a + 1
        low_power = high_power = 1 << precision
        low = high = 0
        m = 0
        while True:
            low_j, high_j = self._factor(m)
            low += (low_power * low_j) >> precision
            high += ceil_shift(high_power * high_j, precision)
            grow = (2 * m + 1) * (2 * m + 2)
            # The J_m fall and are below 1, so once A is half of `grow` all later terms sum to at most this power.
            if 2 * high_a <= grow << precision and high_power <= 1:
                return low, high + 1
            low_power = ((low_power * low_a) >> precision) // grow
            high_power = ceil_divide(ceil_shift(high_power * high_a, precision), grow)
            m += 1

    def _factor(self, m: int) -> tuple[int, int]:
        while len(self._factors) <= m:
            self._factors.append(_integral(len(self._factors), self._variance, self._precision))
        return self._factors[m]


def _integral(m: int, variance: Fraction, precision: int) -> tuple[int, int]:
    """Return bounds on J_m = exp(-q) sum_j (2q)^j / ((2m + 1)(2m + 3) ... (2m + 1 + 2j)), where q = 1 / (8v)."""
    step = 1 / (4 * variance)
    low_term, high_term = (1 << precision) // (2 * m + 1), ceil_divide(1 << precision, 2 * m + 1)
    low = high = 0
    j = 0
    while True:
        low += low_term
        high += high_term
        j += 1
        shrink = step / (2 * m + 1 + 2 * j)
        # Once a term is at most half the one before it, all later terms sum to at most the last.
        if 2 * shrink <= 1 and high_term <= 1:
            break
        low_term = low_term * shrink.numerator // shrink.denominator
        high_term = ceil_divide(high_term * shrink.numerator, shrink.denominator)
    low_factor, high_factor = exp_minus(step / 2, precision)
    return (low * low_factor) >> precision, ceil_shift((high + 1) * high_factor, precision)

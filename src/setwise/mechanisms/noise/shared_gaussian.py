"""Gaussian noise of which counts share a part: one draw for all of them and one for each.

Neighbours add or remove a user, so all counts move the same way, and noise that is common to all of them is cheap. Fix
d labels before noise is drawn; a user adds between 0 and tau to at most Delta of them. For theta in [0, 1/2] let
Q = Delta (1 - 2 theta) + d theta^2, r >= sqrt(Q) and f = r + theta. Noise of variance r f (tau sigma)^2 on each count
and of variance theta f (tau sigma)^2 once, on all of them, costs at most one Gaussian of parameter sigma, and each
count has deviation f tau sigma. Independent noise is theta = 0, f = sqrt(Delta).

Theorem: docs/mechanisms.md, Theorem 1.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from setwise.accounting.brackets import float_above, float_below
from setwise.errors import InvalidParameter
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, SMALLEST_NOISE
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.parameters import positive_integer, probability, rational
from setwise.mechanisms.randomness import WORD, Randomness

_CLOSE_TO_BEST = 1.01
"""The denominator of theta is the smallest that keeps f within this factor of the least: it widens the tables."""

_LARGEST_DENOMINATOR = 64
_ROOT_BITS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGaussianNoise:
    """Integer noise for `labels` counts: (own + common) / denominator, rounded, ties by a fair coin.

    `own` and `common` are the deviations of two Gaussians, both rounded to whole numbers: one drawn for each count, one
    drawn once. For a whole count c, c plus this noise is (denominator * c + own + common) / denominator, rounded: so it
    post-processes noise on the whole numbers denominator * c.
    """

    labels: int
    denominator: int
    own: Fraction
    common: Fraction

    def __post_init__(self) -> None:
        positive_integer("labels", self.labels)
        positive_integer("denominator", self.denominator, _LARGEST_DENOMINATOR)
        for name in ("own", "common"):
            object.__setattr__(self, name, rational(name, getattr(self, name), SMALLEST_NOISE, LARGEST_NOISE))

    def draw(self, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
        """Return the noise of all counts; they must be drawn together, because they share a part."""
        if count != self.labels:
            raise InvalidParameter(f"the noise is for {self.labels} counts, not for {count}")
        own = RoundedGaussianNoise(sigma=self.own).draw(count, randomness, width)
        common = RoundedGaussianNoise(sigma=self.common).draw(1, randomness, width)
        return self.combined(own, common, randomness.words(count, 1).astype(np.int64))

    def combined(
        self, own: NDArray[np.int64], common: NDArray[np.int64], coins: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return (own + common) / denominator to the nearest whole number; a coin of 1 rounds a tie down."""
        doubled = 2 * (own + common) + self.denominator
        tied = doubled % (2 * self.denominator) == 0
        return np.asarray(doubled // (2 * self.denominator) - np.where(tied, coins, 0), dtype=np.int64)

    @property
    def sigma(self) -> Fraction:
        """At least the deviation of a count's noise before rounding."""
        return Fraction(_root_above(self.own**2 + self.common**2)) / self.denominator

    @property
    def own_sigma(self) -> Fraction:
        """The deviation of what is a count's own: only this sets two counts apart."""
        return self.own / self.denominator

    def radius(self, confidence: Fraction) -> int:
        """Return an r with P[|Z| <= r] >= confidence.

        |Z| > r means |own + common| >= denominator (r + 1/2), and the two Gaussians behind them are within 1 of that.
        """
        outside = float_below(1 - probability("confidence", confidence))
        reach = float_above(self.sigma) * -float(ndtri(outside / 2)) * (1.0 + 1e-12)
        return max(0, math.ceil(reach + 1.0 / self.denominator - 0.5))

    @property
    def variance(self) -> Fraction:
        """About the variance, less the 1/12 that rounding to whole numbers adds anyhow.

        Rounding the parts adds 1/12 to that of each. Rounding multiples of 1/denominator adds a little more than 1/12
        where there are ties and a little less where there are none.
        """
        ties = Fraction(1, 6) if self.denominator % 2 == 0 else Fraction(-1, 12)
        return self.sigma**2 + (Fraction(1, 6) + ties) / self.denominator**2

    @property
    def expected_absolute(self) -> float:
        """About E|Z|: that of the rounded Gaussian of the same variance."""
        return RoundedGaussianNoise(sigma=_root_above(self.variance)).expected_absolute

    @property
    def standard_deviation(self) -> float:
        """About the square root of E[Z^2]: that of the rounded Gaussian of the same variance."""
        return RoundedGaussianNoise(sigma=_root_above(self.variance)).standard_deviation


def gaussian_count_noise(
    labels: int, contributions: int | None, per_item: int, sigma: Fraction
) -> RoundedGaussianNoise | SharedGaussianNoise:
    """Return the noise on counts that min(labels, contributions) uses of gaussian:sigma pay for.

    Together they are one Gaussian of parameter sigma / sqrt(uses), so the deviation of a count is
    per_item * sigma * f / sqrt(uses). Where sharing would gain less than 1%, or less than its extra rounding loses,
    noise is independent.

    >>> gaussian_count_noise(10, None, 1, Fraction(10)).radius(Fraction(95, 100))
    13
    """
    changeable = labels if contributions is None else min(labels, contributions)
    deviation = per_item * sigma
    theta = best_theta(labels, changeable)
    if theta:
        root = _root_above(squared_sensitivity(labels, changeable, theta))
        unit = theta.denominator**2 * (root + theta) * deviation**2 / changeable
        own, common = (_float_root_above(part * unit) for part in (root, theta))
        if min(own, common) >= SMALLEST_NOISE and max(own, common) <= LARGEST_NOISE:
            shared = SharedGaussianNoise(labels=labels, denominator=theta.denominator, own=own, common=common)
            if shared.variance < deviation**2:
                return shared
    return RoundedGaussianNoise(sigma=deviation)


def squared_sensitivity(labels: int, changeable: int, theta: Fraction) -> Fraction:
    """Return Q, by how much (x_i - theta tau n)_i moves, squared, in units of tau^2; n is the number of users.

    A move is convex in what the user adds, so it is largest where each of m <= changeable counts gets tau. For theta up
    to 1/2 it grows with m.
    """
    return changeable * (1 - 2 * theta) + labels * theta**2


@lru_cache(maxsize=1024)
def relative_deviations(labels: int, changeable: int) -> tuple[float, float]:
    """Return the deviations of a count and of its own part, relative to independent noise of the same cost.

    >>> [round(part, 2) for part in relative_deviations(10, 10)]
    [0.66, 0.57]
    """
    theta, alone = best_theta(labels, changeable), math.sqrt(changeable)
    factor = _factor(labels, changeable, theta)
    return factor / alone, math.sqrt((factor - float(theta)) * factor) / alone


@lru_cache(maxsize=1024)
def best_theta(labels: int, changeable: int) -> Fraction:
    """Return the theta of the smallest denominator for which f is within 1% of the least.

    sqrt(Q) + theta is convex and stationary where changeable - labels theta = sqrt(Q).

    >>> best_theta(10, 10), best_theta(10, 5), best_theta(10, 1), best_theta(1000, 2)
    (Fraction(1, 2), Fraction(1, 3), Fraction(0, 1), Fraction(0, 1))
    """
    if changeable <= 1:
        return Fraction(0)
    stationary = (changeable - math.sqrt(changeable * (labels - changeable) / (labels - 1))) / labels
    ideal = min(0.5, stationary)
    most = _CLOSE_TO_BEST * _factor(labels, changeable, Fraction(ideal))
    for denominator in range(1, _LARGEST_DENOMINATOR + 1):
        theta = min(Fraction(round(ideal * denominator), denominator), Fraction(1, 2))
        if _factor(labels, changeable, theta) <= most:
            return theta
    return Fraction(0)


def _factor(labels: int, changeable: int, theta: Fraction) -> float:
    return math.sqrt(squared_sensitivity(labels, changeable, theta)) + float(theta)


def _root_above(value: Fraction) -> Fraction:
    """Return a fraction that is at least the square root of value, and above it by at most 2^-60."""
    scaled = -(-(value.numerator << 2 * _ROOT_BITS) // value.denominator)
    root = math.isqrt(scaled)
    return Fraction(root if root * root == scaled else root + 1, 1 << _ROOT_BITS)


def _float_root_above(value: Fraction) -> Fraction:
    """Return a float, as a fraction, that is at least the square root of value."""
    return Fraction(float_above(_root_above(value)))

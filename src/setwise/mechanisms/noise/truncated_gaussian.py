"""Discrete Gaussian noise restricted by law to {-bound, ..., bound}: its truncation level, and the threshold above it.

The mechanism that adds it is `TruncatedGaussian` in ../unknown_domain.py.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from setwise.accounting.brackets import float_above
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.noise.discrete import (
    LARGEST_NOISE,
    LARGEST_TABLE_SCALE,
    SMALLEST_NOISE,
    GaussianNoise,
    gaussian_law,
    gaussian_moment,
    gaussian_radius,
)
from setwise.mechanisms.parameters import positive_integer, rational
from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.sampling.inverse_cdf import draw, weights

_LARGEST_TABLE_BOUND = 1 << 15
_LARGEST_BOUND = 1 << 62
_LARGEST_TAIL_TABLE = 1 << 18
"""Beyond it, noise that has a table has less than e^-8000 of its mass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedGaussianNoise:
    """Integer noise with P[z] proportional to exp(-z^2 / (2 sigma^2)) on {-bound..bound} and 0 elsewhere.

    Noise is restricted, never clamped: clamping piles mass on the two ends and breaks the guarantee.
    """

    sigma: Fraction
    bound: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))
        object.__setattr__(self, "bound", positive_integer("bound", self.bound, _LARGEST_BOUND))
        if self.sigma > LARGEST_TABLE_SCALE and self.bound > _LARGEST_TABLE_BOUND and 8 * self.bound < self.sigma:
            raise InvalidParameter(f"bound must be at least an eighth of sigma {self.sigma}, not {self.bound}")

    def draw(self, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
        """Return `count` independent exact draws."""
        if self.sigma <= LARGEST_TABLE_SCALE or self.bound <= _LARGEST_TABLE_BOUND:
            return draw(gaussian_law(self.sigma, self.bound), count, randomness, width)
        whole = GaussianNoise(sigma=self.sigma)
        values = whole.draw(count, randomness, width)
        outside = np.flatnonzero(np.abs(values) > self.bound)
        while len(outside):
            values[outside] = whole.draw(len(outside), randomness, width)
            outside = outside[np.abs(values[outside]) > self.bound]
        return values

    def radius(self, confidence: Fraction) -> int:
        """Return an r with P[|Z| <= r] >= confidence; never above the bound."""
        return gaussian_radius(self.sigma, self.bound, confidence)

    def log_tail(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log P[Z >= z] for each z, minus infinity beyond the bound.

        Where no table holds the law it is that of the continuous Gaussian between half-integers. By the midpoint rule
        each weight is off by the factor 1 + (z/sigma)^2 / (24 sigma^2) at most: by less than 1e-3 up to 300 deviations.
        """
        if self.sigma <= LARGEST_TABLE_SCALE or self.bound <= _LARGEST_TABLE_BOUND:
            reach = min(self.bound, _LARGEST_TAIL_TABLE)
            return _log_tails(self.sigma, reach)[np.clip(sizes, -reach, reach + 1) + reach]
        wide, end = float(self.sigma), self.bound + 0.5
        log_beyond = float(log_ndtr(-end / wide))
        log_from = log_ndtr((0.5 - np.clip(sizes, -self.bound, self.bound)) / wide)
        log_between = log_from + np.log1p(-np.exp(log_beyond - log_from)) - math.log1p(-2.0 * math.exp(log_beyond))
        return np.where(sizes > self.bound, -np.inf, log_between)

    @property
    def expected_absolute(self) -> float:
        """E|Z|."""
        return gaussian_moment(self.sigma, self.bound, 1)

    @property
    def standard_deviation(self) -> float:
        """The square root of E[Z^2]."""
        return math.sqrt(gaussian_moment(self.sigma, self.bound, 2))


@lru_cache(maxsize=32)
def _log_tails(sigma: Fraction, bound: int) -> NDArray[np.float64]:
    """Return log P[Z >= z] for z in -bound..bound+1."""
    log_weights = -0.5 * (np.arange(bound, -bound - 1, -1, dtype=np.float64) / float(sigma)) ** 2
    tails = np.logaddexp.accumulate(log_weights)[::-1]
    return np.append(tails - tails[0], -np.inf)


class Threshold(StrEnum):
    """Which noisy counts are released, given the truncation level T."""

    TIGHT = "tight"
    """Those above T: a count of 0 can never pass it, and the neighbour that does is in the excluded event already."""
    PAPER = "paper"
    """Those above T + tau, as in the paper; kept for comparison."""

    def cutoff(self, level: int, tau: int) -> int:
        """Return the number a noisy count must exceed."""
        return level if self is Threshold.TIGHT else level + tau


_PRECISION = 512
_SMALLEST_SHARE = 1e-60


def continuous_failure(level: float, tau: float, deviation: float) -> float:
    """Return the mass a truncated Gaussian puts where its shift by tau has none: the paper's 1 - P[E].

    It is (Phi(T/s) - Phi((T - tau)/s)) / (2 Phi(T/s) - 1) with s the standard deviation, written with the lower tails
    so that it keeps its relative accuracy when it is small.

    Theorem: eq:truncationLevel.
    """
    window = float(ndtr((tau - level) / deviation) - ndtr(-level / deviation))
    return window / (1.0 - 2.0 * float(ndtr(-level / deviation)))


def continuous_truncation_level(contributions: int, tau: float, sigma: float, delta: float) -> float:
    """Return the T that solves the paper's equation: contributions * failure(T) = delta, noise deviation tau * sigma.

    Theorem: eq:truncationLevel.

    >>> round(continuous_truncation_level(1, 1.0, 10.0, 1e-6), 6)
    46.548649
    """
    share = delta / contributions
    if not _SMALLEST_SHARE <= share < 1.0:
        raise Unattainable(f"delta / contributions must lie between {_SMALLEST_SHARE:g} and 1, not {share!r}")
    deviation = tau * sigma

    # At tau / 2 the overlap is empty and the failure is 1; beyond 38 deviations it leaves the range of floats.
    least, most = tau / 2, tau + 38.0 * deviation
    while most - least > max(1e-12 * (tau + deviation), 1e-14 * most):
        middle = (least + most) / 2
        least, most = (middle, most) if continuous_failure(middle, tau, deviation) > share else (least, middle)
    return most


@lru_cache(maxsize=64)
def truncation_level(contributions: int, tau: int, sigma: Fraction, delta: Fraction) -> int:
    """Return the smallest integer T >= tau with contributions * delta1(T) <= delta, by a certified upper bound.

    delta1(T) = sum_{z=T-tau+1}^{T} g(z) / sum_{z=-T}^{T} g(z), g(z) = exp(-z^2 / (2 tau^2 sigma^2)): the mass that
    noise restricted to {-T..T} puts where its shift by tau has none.

    Theorem: docs/truncated-gaussian-on-the-lattice.md, Proposition 1.

    >>> truncation_level(100, 5, Fraction(10), Fraction("1e-10"))
    352
    """
    deviation, share = tau * sigma, delta / contributions
    # g falls, so sums are below integrals: the continuous level, rounded up, is always enough. The margin covers
    # the floats it was computed in.
    enough = continuous_truncation_level(contributions, float(tau), float_above(sigma), float(delta) * (1.0 - 1e-9))
    most = max(tau, math.ceil(enough * (1.0 + 1e-9)))
    if deviation > LARGEST_TABLE_SCALE:
        return most
    sizes, _ = weights(gaussian_law(deviation, bound=most), _PRECISION, negligible=0)
    low_sums, high_sums = [0], [0]  # of the weights of 1..z
    for low, high in sizes[1:]:
        low_sums.append(low_sums[-1] + low)
        high_sums.append(high_sums[-1] + high)
    one = 1 << _PRECISION

    def holds(level: int) -> bool:
        # A difference of upper sums is the sum of the upper weights of the window: an upper bound.
        window = high_sums[level] - high_sums[level - tau]
        return window * share.denominator <= share.numerator * (one + 2 * low_sums[level])

    least = tau - 1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most

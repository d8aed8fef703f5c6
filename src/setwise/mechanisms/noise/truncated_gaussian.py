"""Discrete Gaussian noise truncated to {-bound, ..., bound}: its law, the choice of the bound, and a threshold.

Groups are released if their noisy counts exceed the threshold. The mechanism that adds this noise and compares is
`TruncatedGaussian` in ../unknown_domain.py.
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
from setwise.records import set_fields

_LARGEST_TABLE_BOUND = 1 << 15
_LARGEST_BOUND = 1 << 62
_LARGEST_TAIL_TABLE = 1 << 18
"""Largest z for which the probabilities P[Z >= z] of truncated noise Z are computed one by one.

Noise for which such a table is made has less than e^-8000 of its probability beyond this z.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedGaussianNoise:
    """Integer noise with P[z] proportional to exp(-z^2 / (2 sigma^2)) on {-bound, ..., bound} and 0 elsewhere.

    The law is conditioned on the interval, never clamped: clamping would put extra mass on the two ends and break the
    guarantee.
    """

    sigma: Fraction
    bound: int

    def __post_init__(self) -> None:
        set_fields(
            self,
            sigma=rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE),
            bound=positive_integer("bound", self.bound, _LARGEST_BOUND),
        )
        if self.sigma > LARGEST_TABLE_SCALE and self.bound > _LARGEST_TABLE_BOUND and 8 * self.bound < self.sigma:
            raise InvalidParameter(f"bound must be at least an eighth of sigma {self.sigma}, not {self.bound}")

    def draw(self, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
        """Return `count` independent exact draws of truncated Gaussian noise, from random words of `width` bits.

        `randomness` is the source of random words. Their `width` affects only the speed, not the distribution.
        """
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
        """Return an r such that the truncated noise Z has P[|Z| <= r] >= `confidence`.

        r is at most `bound`, the level at which the noise is truncated.
        """
        return gaussian_radius(self.sigma, self.bound, confidence)

    def log_tail(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log P[Z >= z] of truncated Gaussian noise Z, for each z in `sizes`; minus infinity beyond the bound.

        Confidence intervals of counts above a threshold are computed from it. The probability P[Z >= z] has a relative
        error of less than 1e-3 for z up to 300 standard deviations.
        """
        # If the noise is too wide for a table of its law, P[z] is approximated by the integral of the continuous
        # Gaussian from z - 1/2 to z + 1/2. By the midpoint rule each P[z] is then off by at most the factor 1 +
        # (z/sigma)^2 / (24 sigma^2).
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
        """E|Z|, the mean absolute value of the truncated Gaussian noise Z."""
        return gaussian_moment(self.sigma, self.bound, 1)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of the truncated Gaussian noise."""
        return math.sqrt(gaussian_moment(self.sigma, self.bound, 2))


@lru_cache(maxsize=32)
def _log_tails(sigma: Fraction, bound: int) -> NDArray[np.float64]:
    """Return log P[Z >= z], for z from -bound to bound + 1, of Gaussian noise Z of `sigma` truncated at `bound`.

    The table is used for confidence intervals of counts that were released because they exceeded a threshold.
    """
    log_weights = -0.5 * (np.arange(bound, -bound - 1, -1, dtype=np.float64) / float(sigma)) ** 2
    tails = np.logaddexp.accumulate(log_weights)[::-1]
    return np.append(tails - tails[0], -np.inf)


class Threshold(StrEnum):
    """Which threshold a noisy count must exceed so that its group is released.

    The noise is truncated: it lies in {-T, ..., T}. The most that one user adds to a count is tau.

    - TIGHT: the threshold is T.
    - PAPER: the threshold is T + tau, as in the paper that describes the mechanism; kept for comparison.
    """

    TIGHT = "tight"
    """A noisy count must exceed T. Noise never lifts a count of 0 above T. A group that only one of two neighbouring
    tables has can exceed T only in the outright failure that delta bounds.
    """
    PAPER = "paper"
    """Counts above T + tau, as in the paper; kept for comparison."""

    def cutoff(self, level: int, tau: int) -> int:
        """Return the number that a group's noisy count must exceed for the group to be released.

        The noise lies between -`level` and `level`, and one user adds at most `tau` to a count. The result is `level`
        for TIGHT: a group that no other user has exceeds it only in the outright failure that delta bounds. It is
        `level` + `tau` for PAPER, the threshold in the paper that this package implements.
        """
        return level if self is Threshold.TIGHT else level + tau


_PRECISION = 512
_SMALLEST_SHARE = 1e-60


def continuous_failure(level: float, tau: float, deviation: float) -> float:
    """Return the probability that truncated Gaussian noise falls where the same noise shifted by `tau` cannot fall.

    This is an outright failure: the noisy count could come from only one of two neighbouring tables whose counts differ
    by `tau`, so everything may be revealed. The noise is a continuous Gaussian of standard deviation `deviation`,
    conditioned on [-level, level].

    Theorem: the paper's equation for the truncation level (eq:truncationLevel).
    """
    # The probability is (Phi(T/s) - Phi((T - tau)/s)) / (2 Phi(T/s) - 1), with T = level and s = deviation; the paper
    # writes it as 1 - P[E]. It is computed from lower tails, so that a small probability keeps its relative accuracy.
    window = float(ndtr((tau - level) / deviation) - ndtr(-level / deviation))
    return window / (1.0 - 2.0 * float(ndtr(-level / deviation)))


def continuous_truncation_level(contributions: int, tau: float, sigma: float, delta: float) -> float:
    """Return the level T at which Gaussian noise truncated to [-T, T] fails outright with probability at most `delta`.

    One user adds at most `tau` to each of at most `contributions` counts, and the noise has standard deviation tau *
    `sigma`. A noisy count fails if only one of two neighbouring tables can produce it, because it then shows which of
    them was read. T is chosen so that contributions * continuous_failure(T, tau, tau * sigma) = delta.

    Theorem: the paper's equation for the truncation level (eq:truncationLevel).
    Raises: `Unattainable` if delta / contributions is below 1e-60 or not below 1.

    >>> round(continuous_truncation_level(1, 1.0, 10.0, 1e-6), 6)
    46.548649
    """
    share = delta / contributions
    if not _SMALLEST_SHARE <= share < 1.0:
        raise Unattainable(f"delta / contributions must lie between {_SMALLEST_SHARE:g} and 1, not {share!r}")
    deviation = tau * sigma

    # At tau / 2 the overlap is empty and the failure is 1; beyond 38 deviations the failure leaves the range of floats.
    least, most = tau / 2, tau + 38.0 * deviation
    while most - least > max(1e-12 * (tau + deviation), 1e-14 * most):
        middle = (least + most) / 2
        least, most = (middle, most) if continuous_failure(middle, tau, deviation) > share else (least, middle)
    return most


_FLOAT_ERROR = 1e-8
"""Bound on the relative error of sums of weights that are computed by floats. Each weight exp(-x) with x <= 700 has an
error below 1e-12, and sums over at most 10^7 weights of a falling sequence, also differences of two such sums over
neighbouring tails, have one below 1e-9."""


def _level_by_floats(tau: int, deviation: float, share: float, most: int) -> int | None:
    """Return the smallest integer level at which truncated noise fails with probability at most `share`.

    This is the fast way of `truncation_level`. Returns None if the rounding errors of floats leave the level uncertain.
    Noise truncated at a level fails if it falls where the same noise shifted by `tau` cannot fall.

    - `deviation` is the parameter of the integer Gaussian noise before it is truncated.
    - `share` is the probability of failure that is allowed for one count: its share of delta.
    - `most` is a level that is known to be enough.
    """
    # The computation is in floats. It is certain only if the failure probability is below `share` at the level, and
    # above it at the level minus 1, by more than the error of floats. The result is then that of exact arithmetic in
    # `truncation_level`, but found a hundred times faster for wide noise.
    z = np.arange(most + 2, dtype=np.float64)
    exponents = 0.5 * (z / deviation) ** 2
    if exponents[-1] > 700.0:
        return None
    size = np.exp(-exponents)
    size[-1] = 0.0  # the level is at most `most`, so that the tails may end there
    tails = np.cumsum(size[::-1])[::-1]  # tails[z] is the sum of the weights from z to `most`
    levels = np.arange(tau, most + 1)
    window = tails[levels - tau + 1] - tails[levels + 1]
    if tau == 1:
        window = size[levels]
    whole = 1.0 + 2.0 * (tails[1] - tails[levels + 1])
    holds = window * (1.0 + _FLOAT_ERROR) <= share * whole * (1.0 - _FLOAT_ERROR)
    fails = window * (1.0 - _FLOAT_ERROR) > share * whole * (1.0 + _FLOAT_ERROR)
    first = int(np.argmax(holds))
    if not holds[first:].all() or not fails[:first].all():
        return None
    return int(levels[first])


@lru_cache(maxsize=64)
def truncation_level(contributions: int, tau: int, sigma: Fraction, delta: Fraction) -> int:
    """Return an integer T >= tau such that integer Gaussian noise on counts may be truncated to {-T, ..., T}.

    The noise has parameter tau * `sigma`, and a user adds at most `tau` to each of at most `contributions` counts.
    Truncated noise fails if it falls where the same noise, shifted by tau, cannot fall, because such a value shows
    which of two neighbouring tables was counted. T is so large that `contributions` times the probability of a failure
    is at most `delta`. It is the smallest such level, unless the noise is too wide for a table of its law; then T may
    be larger.

    Theorem: docs/truncated-gaussian-on-the-lattice.md, Proposition 1.
    Raises: `Unattainable` if delta / contributions is below 1e-60.

    >>> truncation_level(100, 5, Fraction(10), Fraction("1e-10"))
    352
    """
    # T may be used if it is proved that contributions * delta1(T) <= `delta`, where delta1(T) is the probability that
    # noise conditioned on {-T, ..., T} falls where the same noise shifted by tau cannot fall. With g(z) = exp(-z^2 / (2
    # tau^2 sigma^2)), delta1(T) = sum_{z=T-tau+1}^{T} g(z) / sum_{z=-T}^{T} g(z).
    deviation, share = tau * sigma, delta / contributions
    # g falls, so sums are below integrals, and the continuous level, rounded up, is always enough. The margin covers
    # the rounding errors of the floats by which the level was computed.
    enough = continuous_truncation_level(contributions, float(tau), float_above(sigma), float(delta) * (1.0 - 1e-9))
    most = max(tau, math.ceil(enough * (1.0 + 1e-9)))
    if deviation > LARGEST_TABLE_SCALE:
        return most
    decided = _level_by_floats(tau, float(deviation), float(share), most)
    if decided is not None:
        return decided
    sizes, _ = weights(gaussian_law(deviation, bound=most), _PRECISION, negligible=0)
    low_sums, high_sums = [0], [0]  # sums of the lower and the upper bounds of the weights of 1, ..., z
    for low, high in sizes[1:]:
        low_sums.append(low_sums[-1] + low)
        high_sums.append(high_sums[-1] + high)
    one = 1 << _PRECISION

    def holds(level: int) -> bool:
        """Return whether exact integer arithmetic proves that the noise may be truncated to {-level, ..., level}.

        One user moves a count by at most `tau`. Noise truncated at `level` may fall where the same noise moved by `tau`
        cannot fall, with some probability p. The noise may be truncated there if `contributions` * p <= `delta`. These
        three names are variables of the function around this function.
        """
        # A difference of sums of upper bounds is the sum of the window's upper bounds, so it is an upper bound.
        window = high_sums[level] - high_sums[level - tau]
        return window * share.denominator <= share.numerator * (one + 2 * low_sums[level])

    least = tau - 1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most

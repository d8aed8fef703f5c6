"""Discrete Laplace and Gaussian noise: P[z] proportional to exp(-|z| / scale), or to exp(-z^2 / (2 sigma^2)).

Noise of moderate scale is drawn from a table of its whole law (sampling/inverse_cdf.py). Laplace noise of larger scale
is drawn digit by digit. Gaussian noise of larger scale is drawn by rejection: draws of Laplace noise are accepted with
probabilities of the form exp(-gamma) for a rational gamma, and each of these decisions is exact.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from setwise.accounting.brackets import float_above, float_below
from setwise.mechanisms.parameters import probability, rational
from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.sampling.fixed_point import exp_minus
from setwise.mechanisms.sampling.inverse_cdf import OneSided, TwoSided, draw
from setwise.records import set_fields

SMALLEST_NOISE = Fraction(1, 100)
LARGEST_NOISE = Fraction(10**9)
LARGEST_TABLE_SCALE = 2048
"""Up to this noise scale one table holds the whole law; the table takes a tenth of a second to build."""

_DIGIT = 2048
"""The base of the digits in which the size of wide noise is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceNoise:
    """Integer noise with P[z] proportional to exp(-|z| / scale), drawn exactly.

    >>> LaplaceNoise(scale=Fraction(10)).radius(Fraction(95, 100))
    30
    """

    scale: Fraction

    def __post_init__(self) -> None:
        set_fields(self, scale=rational("scale", self.scale, SMALLEST_NOISE, LARGEST_NOISE))

    def draw(self, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
        """Return `count` independent exact draws of integer Laplace noise, made from random words of `width` bits.

        `randomness` is the source of random words. Their `width` affects only the speed, not the distribution.
        """
        if self.scale <= LARGEST_TABLE_SCALE:
            return draw(TwoSided(first=1 / self.scale), count, randomness, width)
        values = np.empty(count, dtype=np.int64)
        pending = np.arange(count)
        while len(pending):
            # A sign and a size represent 0 twice, so -0 is rejected and drawn again.
            sizes = self._sizes(len(pending), randomness, width)
            negative = randomness.words(len(pending), 1).astype(np.bool_)
            values[pending] = np.where(negative, -sizes, sizes)
            pending = pending[negative & (sizes == 0)]
        return values

    def _sizes(self, count: int, randomness: Randomness, width: int) -> NDArray[np.int64]:
        """Return `count` draws of the absolute value of Laplace noise, P[m] proportional to exp(-m / scale).

        `randomness` is the source of random words, and `width` the number of bits of each.
        """
        # The draws are made digit by digit in base 2048. For m = d0 + 2048 d1 + ..., exp(-m / scale) is a product of
        # one factor per digit, so the digits are independent and each needs only a small table.
        sizes = np.zeros(count, dtype=np.int64)
        base = 1
        while self.scale / base > LARGEST_TABLE_SCALE:
            digit = OneSided(first=base / self.scale, bound=_DIGIT - 1)
            sizes += base * draw(digit, count, randomness, width)
            base *= _DIGIT
        return sizes + base * draw(OneSided(first=base / self.scale), count, randomness, width)

    def radius(self, confidence: Fraction) -> int:
        """Return the smallest r such that Laplace noise Z has P[|Z| <= r] >= `confidence`.

        P[|Z| > r] = 2 q^(r+1) / (1 + q) with q = exp(-1/scale).
        """
        outside = float(1 - probability("confidence", confidence))
        step = float(1 / self.scale)
        # The factor 1 + 1e-12 covers the rounding of these few float operations.
        least = math.log(2.0 / (outside * (1.0 + math.exp(-step)))) / step - 1.0
        return max(0, math.ceil(least * (1.0 + 1e-12)))

    def log_tail(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log P[Z >= z] of integer Laplace noise Z, for each z in `sizes`.

        Confidence intervals of counts above a threshold are computed from it. P[Z >= z] is q^z / (1 + q) for z >= 1,
        and 1 - q^(1-z) / (1 + q) for smaller z, with q = exp(-1/scale).
        """
        step = 1.0 / float(self.scale)
        log_total = math.log1p(math.exp(-step))
        above = -np.maximum(sizes, 1) * step - log_total
        below = np.log1p(-np.exp(-np.maximum(1 - sizes, 0) * step - log_total))
        return np.where(sizes >= 1, above, below)

    @property
    def expected_absolute(self) -> float:
        """The mean absolute value of Laplace noise Z: E|Z| = 1 / sinh(1/scale)."""
        return 1.0 / math.sinh(1.0 / float(self.scale))

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of integer Laplace noise: 1 / (sqrt(2) sinh(1/(2 scale)))."""
        return 1.0 / (math.sqrt(2.0) * math.sinh(0.5 / float(self.scale)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianNoise:
    """Integer noise with P[z] proportional to exp(-z^2 / (2 sigma^2)), drawn exactly.

    >>> GaussianNoise(sigma=Fraction(10)).radius(Fraction(95, 100))
    20
    """

    sigma: Fraction

    def __post_init__(self) -> None:
        set_fields(self, sigma=rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))

    def draw(self, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
        """Return `count` independent exact draws of discrete Gaussian noise, made from random words of `width` bits.

        `randomness` is the source of random words. Their `width` affects only the speed, not the distribution.
        """
        if self.sigma <= LARGEST_TABLE_SCALE:
            return draw(gaussian_law(self.sigma, bound=None), count, randomness, width)
        return _by_rejection(self.sigma, count, randomness, width)

    def radius(self, confidence: Fraction) -> int:
        """Return an r such that discrete Gaussian noise Z has P[|Z| <= r] >= `confidence`.

        It is the smallest such r, or one more if sigma is large, because wide noise is bounded by a continuous
        Gaussian.
        """
        return gaussian_radius(self.sigma, None, confidence)

    @property
    def expected_absolute(self) -> float:
        """E|Z|, the mean absolute value of discrete Gaussian noise Z."""
        return gaussian_moment(self.sigma, None, 1)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of discrete Gaussian noise, which is never above sigma."""
        return math.sqrt(gaussian_moment(self.sigma, None, 2))


def gaussian_law(sigma: Fraction, bound: int | None) -> TwoSided:
    """Return the distribution of discrete Gaussian noise of parameter `sigma`, as an object from which to draw.

    If `bound` is not None, the noise is conditioned on {-bound, ..., bound}.
    """
    return TwoSided(first=1 / (2 * sigma * sigma), second=1 / (sigma * sigma), bound=bound)


def _by_rejection(sigma: Fraction, count: int, randomness: Randomness, width: int) -> NDArray[np.int64]:
    """Return `count` exact discrete Gaussian draws of parameter `sigma`, by rejection from discrete Laplace noise.

    This serves noise that is too wide for a table of its distribution. `randomness` is the source of random words, and
    `width` the number of bits of each.

    Theorem: CanonneKaSt20.
    """
    # The Laplace noise Y has scale t = floor(sigma) + 1, so P[Y] is proportional to exp(-|Y|/t). Y is accepted with
    # probability exp(-(|Y| - sigma^2/t)^2 / (2 sigma^2)). The product of the two is exp(-Y^2 / (2 sigma^2)) times a
    # constant, which is the discrete Gaussian law.
    scale = math.floor(sigma) + 1
    proposal = LaplaceNoise(scale=Fraction(scale))
    variance, peak = sigma * sigma, sigma * sigma / scale
    values = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        candidates = proposal.draw(max(16, int(1.4 * (count - filled))), randomness, width)
        sizes = np.abs(candidates)
        gammas = (sizes - float(peak)) ** 2 / float(2 * variance)

        def gamma(index: int, sizes: NDArray[np.int64] = sizes) -> Fraction:
            """Return the exact g such that the Laplace draw with this `index` is accepted with probability exp(-g).

            The rejection sampling draws Laplace noise and accepts some draws, which then have the discrete Gaussian
            distribution. `sizes` has the absolute value of each Laplace draw.
            """
            return (int(sizes[index]) - peak) ** 2 / (2 * variance)

        accepted = candidates[heads(gammas, gamma, randomness, width)][: count - filled]
        values[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return values


RADIUS = 2.0**-44
"""Relative error assumed for a probability exp(-gamma) that floats compute; the true error is far smaller.

A random draw that is closer to the probability than this error is decided by exact arithmetic.
"""


def heads(
    gammas: NDArray[np.float64],
    exact: Callable[[int], Fraction],
    randomness: Randomness,
    width: int = WORD,
) -> NDArray[np.bool_]:
    """Return for each of several coins whether it lands heads; coin i does with probability exp(-`exact(i)`).

    Rejection sampling of noise tosses one coin for each candidate draw, to decide whether the candidate is accepted.

    - `gammas` are float approximations of the exponents exact(i), one for each coin. Most tosses are decided with them,
      because floats are fast.
    - `exact(i)` is the exact exponent; it is computed only if floats cannot decide the toss.
    - `width` is the number of bits of each random word that is drawn from `randomness`.

    Requires: |gammas[i] - exact(i)| <= 2^-46 (1 + gammas[i]), exact(i) >= 0.
    """
    # Each coin is tossed by comparing a random word with its probability. If floating-point error could change the
    # result, integer arithmetic decides instead.
    words = randomness.words(len(gammas), width)
    uniform = words.astype(np.float64) * 2.0**-width
    chance = np.exp(-gammas)
    slack = RADIUS * (1.0 + gammas) * chance + 2.0**-52
    result = uniform < chance
    undecided = np.flatnonzero(np.abs(uniform - chance) <= slack + 2.0**-width)
    for index in undecided:
        result[index] = _decide_exactly(exact(int(index)), int(words[index]), width, randomness)
    return result


def _decide_exactly(gamma: Fraction, word: int, width: int, randomness: Randomness) -> bool:
    """Return whether U < exp(-gamma) for a uniform random number U in [0, 1] whose first `width` bits are `word`.

    So the result is True with probability exp(-gamma), as a toss of a coin by which a draw of noise is accepted.
    Further random words are drawn and appended to the bits of U until the comparison is certain. `randomness` is the
    source of random words.
    """
    bits = width
    if gamma == 0:
        return True
    while True:
        low, high = exp_minus(gamma, bits)
        if word + 1 <= low:
            return True
        if word >= high:
            return False
        word = (word << width) | int(randomness.words(1, width)[0])
        bits += width


@lru_cache(maxsize=32)
def _absolute_law(sigma: Fraction, bound: int | None) -> NDArray[np.float64]:
    """Return P[|Z| = 0], P[|Z| = 1], ... for discrete Gaussian noise Z, as floats with a relative error of about 1e-12.

    Radii and moments of the noise are computed from these probabilities. With a `bound`, Z is conditioned on {-bound,
    ..., bound}. Values of |Z| beyond 40 * sigma + 2 are left out.

    Requires: sigma is at most `LARGEST_TABLE_SCALE`.
    """
    last = math.ceil(40 * sigma) + 1 if bound is None else min(bound, math.ceil(40 * sigma) + 1)
    sizes = np.arange(last + 1, dtype=np.float64)
    weights = np.exp(-0.5 * (sizes / float(sigma)) ** 2)
    weights[1:] *= 2.0
    return np.asarray(weights / weights.sum())


def gaussian_radius(sigma: Fraction, bound: int | None, confidence: Fraction) -> int:
    """Return an r such that discrete Gaussian noise Z of parameter sigma has P[|Z| <= r] >= confidence.

    If `bound` is not None, the law of Z is conditioned on {-bound, ..., bound}, so large values are less likely.
    """
    # For wide noise the result comes from P[|Z| > r] <= 2 Phi(-r/sigma). Proof: the weight exp(-z^2 / (2 sigma^2))
    # falls with |z|, so its sum beyond r is at most its integral. Its sum over all integers is at least sigma sqrt(2
    # pi), by Poisson summation.
    outside = 1 - probability("confidence", confidence)
    if sigma > LARGEST_TABLE_SCALE:
        least = math.ceil(float_above(sigma) * -float(ndtri(float_below(outside) / 2)) * (1.0 + 1e-12))
    else:
        law = _absolute_law(sigma, bound)
        beyond = np.cumsum(law[::-1])[::-1]  # P[|Z| >= r]
        least = int(np.searchsorted(-beyond, -float_below(outside) * (1.0 - 1e-11))) - 1
    return max(0, least) if bound is None else max(0, min(least, bound))


def gaussian_moment(sigma: Fraction, bound: int | None, power: int) -> float:
    """Return E|Z|^power, for power 1 or 2, of discrete Gaussian noise Z of parameter sigma.

    Expected errors that plans state are computed from it. If `bound` is not None, Z is conditioned on {-bound, ...,
    bound}. For noise that is too wide for a table, the result is the moment of the continuous Gaussian without a bound,
    which is at least as large.
    """
    if sigma > LARGEST_TABLE_SCALE:
        return float(sigma) * math.sqrt(2.0 / math.pi) if power == 1 else float(sigma) ** 2
    law = _absolute_law(sigma, bound)
    return float(np.sum(law * np.arange(len(law), dtype=np.float64) ** power))

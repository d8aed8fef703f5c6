"""Gaussian noise rounded to whole numbers: exactly the law of round(X) for X normal with mean 0.

For a whole count c, c + round(X) = round(c + X), so the release is post-processing of the Gaussian mechanism. It costs
exactly one use of `gaussian:SIGMA`, and composes like any other Gaussian use. Noise with the discrete Gaussian law has
the same zCDP guarantee but another privacy loss, so it could not be charged as a Gaussian.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from setwise.accounting.brackets import float_above, float_below
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, LARGEST_TABLE_SCALE, RADIUS, SMALLEST_NOISE, GaussianNoise
from setwise.mechanisms.parameters import probability, rational
from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.sampling.fixed_point import exp_minus
from setwise.mechanisms.sampling.inverse_cdf import RoundedGaussian, draw
from setwise.records import set_fields

_SMALLEST_TABLE_SIGMA = Fraction(1, 4)
"""Smallest sigma for which a table is used. Below it the weights span so many orders of magnitude that their bounds
would need thousands of bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedGaussianNoise:
    """Integer noise with the law of a Gaussian of standard deviation sigma rounded to whole numbers, drawn exactly.

    >>> RoundedGaussianNoise(sigma=Fraction(10)).radius(Fraction(95, 100))
    20
    """

    sigma: Fraction

    def __post_init__(self) -> None:
        set_fields(self, sigma=rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))

    def draw(self, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
        """Return `count` independent exact draws of rounded Gaussian noise, made from random words of `width` bits.

        If sigma is small enough for a table of the distribution, the draws are looked up in the table. Otherwise they
        are made by rejection sampling. `randomness` is the source of random words; their `width` affects only the
        speed, not the distribution.
        """
        if _SMALLEST_TABLE_SIGMA <= self.sigma <= LARGEST_TABLE_SCALE:
            return draw(RoundedGaussian(variance=self.sigma * self.sigma), count, randomness, width)
        return self._by_rejection(count, randomness, width)

    def _by_rejection(self, count: int, randomness: Randomness, width: int) -> NDArray[np.int64]:
        """Return `count` independent exact draws of round(X), by rejection; X is Gaussian of standard deviation sigma.

        This serves noise that is too wide for a table of its distribution. `randomness` is the source of random words,
        and `width` the number of bits of each.

        Theorem: Karney16.
        """
        # Write |X| = n + u with a whole part n and a fraction u. Its density is proportional to exp(-n^2 / (2 sigma^2))
        # times exp(-(2 n u + u^2) / (2 sigma^2)). So a candidate takes n from a discrete Gaussian draw and u uniformly
        # from [0, 1), and is accepted with probability equal to the second factor. |X| rounds to n if the first bit of
        # u is 0, and to n + 1 if it is 1.
        values = np.empty(count, dtype=np.int64)
        whole_part_noise = GaussianNoise(sigma=self.sigma)
        filled = 0
        while filled < count:
            sizes = whole_part_noise.draw(max(16, int(2.2 * (count - filled))), randomness, width)
            sizes = sizes[sizes >= 0]
            parts = randomness.words(len(sizes), width)
            accepted = self._coins(sizes, parts, randomness, width)
            rounded = (sizes + (parts >> np.uint64(width - 1)).astype(np.int64))[accepted][: count - filled]
            negative = randomness.words(len(rounded), 1).astype(np.bool_)
            values[filled : filled + len(rounded)] = np.where(negative, -rounded, rounded)
            filled += len(rounded)
        return values

    def _coins(
        self, sizes: NDArray[np.int64], parts: NDArray[np.uint64], randomness: Randomness, width: int
    ) -> NDArray[np.bool_]:
        """Return for each candidate of the rejection sampling of rounded Gaussian noise whether it is accepted.

        A candidate n + u, with whole part n and fraction u, is accepted with probability exp(-(2 n u + u^2) / (2
        sigma^2)). `sizes` are the whole parts n, and `parts` the first `width` random bits of the fractions u. Further
        bits of u are drawn from `randomness` only if they are needed for the decision.
        """
        # Floating point decides if neither the missing bits of u nor rounding error can change the decision. Otherwise
        # more bits are drawn.
        words = randomness.words(len(sizes), width)
        grain = 2.0**-width
        fractions = parts.astype(np.float64) * grain
        variance = 2.0 * float(self.sigma) ** 2
        gammas = fractions * (2.0 * sizes + fractions) / variance
        chance = np.exp(-gammas)
        loose = RADIUS * (1.0 + gammas) + grain * (2.0 * sizes + 3.0) / variance
        uniform = words.astype(np.float64) * grain
        result = uniform < chance
        for index in np.flatnonzero(np.abs(uniform - chance) <= loose * chance + grain + 2.0**-52):
            result[index] = self._decide_exactly(
                int(sizes[index]), int(parts[index]), int(words[index]), width=width, randomness=randomness
            )
        return result

    def _decide_exactly(self, size: int, part: int, word: int, *, width: int, randomness: Randomness) -> bool:
        """Return whether a candidate n + u of the rejection sampling of rounded Gaussian noise is accepted.

        The candidate is accepted if a uniform random number V in [0, 1) is below exp(-(2 n u + u^2) / (2 sigma^2)).
        Bits of u and V are drawn from `randomness` until it is certain whether V is below.

        - n is the whole part `size`, and `part` the first `width` bits of the fraction u.
        - `word` is the first `width` bits of V.
        """
        # Further bits of u and V are drawn until the comparison is certain.
        bits = width
        while True:
            nearest, farthest = Fraction(part, 1 << bits), Fraction(part + 1, 1 << bits)
            if word + 1 <= exp_minus(self._gamma(size, farthest), bits)[0]:
                return True
            if word >= exp_minus(self._gamma(size, nearest), bits)[1]:
                return False
            more = randomness.words(2, width)
            part, word = (part << width) | int(more[0]), (word << width) | int(more[1])
            bits += width

    def _gamma(self, size: int, part: Fraction) -> Fraction:
        """Return the exponent g = (2 n u + u^2) / (2 sigma^2) for n = `size` and u = `part`.

        In the rejection sampling of rounded Gaussian noise, a candidate n + u, with whole part n and fraction u, is
        accepted with probability exp(-g).
        """
        return part * (2 * size + part) / (2 * self.sigma * self.sigma)

    def radius(self, confidence: Fraction) -> int:
        """Return an r such that rounded Gaussian noise Z has P[|Z| <= r] >= `confidence`.

        Z is a Gaussian X rounded to whole numbers, so |Z| > r means |X| >= r + 1/2.
        """
        outside = float_below(1 - probability("confidence", confidence))
        least = float_above(self.sigma) * -float(ndtri(outside / 2)) * (1.0 + 1e-12) - 0.5
        return max(0, math.ceil(least))

    def log_tail(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log P[Z >= z] of rounded Gaussian noise Z, for each z in `sizes`.

        Confidence intervals of counts above a threshold are computed from it. Z is a Gaussian X rounded to whole
        numbers, so Z >= z means X >= z - 1/2.
        """
        return np.asarray(log_ndtr((0.5 - sizes) / float(self.sigma)), dtype=np.float64)

    @property
    def expected_absolute(self) -> float:
        """E|Z|, the mean absolute value of rounded Gaussian noise Z."""
        return _moment(self.sigma, 1)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of rounded Gaussian noise; for wide noise it is sqrt(sigma^2 + 1/12)."""
        return math.sqrt(_moment(self.sigma, 2))


@lru_cache(maxsize=64)
def _moment(sigma: Fraction, power: int) -> float:
    """Return E|Z|^power, for power 1 or 2, of Z = round(X), where X is Gaussian with standard deviation sigma.

    Expected errors that plans state are computed from it. The computation uses P[|Z| >= r] = 2 Phi(-(r - 1/2) / sigma).
    For wide noise rounding changes E|X| by less than the accuracy of a float, and adds 1/12 to the variance.
    """
    wide = float(sigma)
    if sigma > LARGEST_TABLE_SCALE:
        return wide * math.sqrt(2.0 / math.pi) if power == 1 else wide**2 + 1.0 / 12.0
    sizes = np.arange(1, math.ceil(40 * sigma) + 2, dtype=np.float64)
    beyond = 2.0 * ndtr(-(sizes - 0.5) / wide)
    return float(np.sum(beyond if power == 1 else beyond * (2.0 * sizes - 1.0)))

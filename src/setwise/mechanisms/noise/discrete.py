"""Discrete Laplace and Gaussian noise: P[z] proportional to exp(-|z| / scale), or to exp(-z^2 / (2 sigma^2)).

A table holds the law of noise that is not too wide. Wide Laplace noise is written in digits, and wide Gaussian noise is
accepted from it by coins that land heads with probability exp(-gamma), exactly.
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

SMALLEST_NOISE = Fraction(1, 100)
LARGEST_NOISE = Fraction(10**9)
LARGEST_TABLE_SCALE = 2048
"""Up to this scale one table holds the whole law; its table takes a tenth of a second to build."""

_DIGIT = 2048
"""The base in which the size of wide noise is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceNoise:
    """Integer noise with P[z] proportional to exp(-|z| / scale), drawn exactly.

    >>> LaplaceNoise(scale=Fraction(10)).radius(Fraction(95, 100))
    30
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", rational("scale", self.scale, SMALLEST_NOISE, LARGEST_NOISE))

    def draw(self, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
        """Return `count` independent exact draws."""
        if self.scale <= LARGEST_TABLE_SCALE:
            return draw(TwoSided(first=1 / self.scale), count, randomness, width)
        values = np.empty(count, dtype=np.int64)
        left = np.arange(count)
        while len(left):
            # A signed size counts 0 twice; turning away -0 makes it count once.
            sizes = self._sizes(len(left), randomness, width)
            negative = randomness.words(len(left), 1).astype(np.bool_)
            values[left] = np.where(negative, -sizes, sizes)
            left = left[negative & (sizes == 0)]
        return values

    def _sizes(self, count: int, randomness: Randomness, width: int) -> NDArray[np.int64]:
        """Return geometric sizes, P[m] proportional to exp(-m / scale), written in digits.

        exp(-(d0 + d1 B + ...) / scale) is a product, so the digits are independent and each has a small table.
        """
        sizes = np.zeros(count, dtype=np.int64)
        place = 1
        while self.scale / place > LARGEST_TABLE_SCALE:
            digit = OneSided(first=place / self.scale, bound=_DIGIT - 1)
            sizes += place * draw(digit, count, randomness, width)
            place *= _DIGIT
        return sizes + place * draw(OneSided(first=place / self.scale), count, randomness, width)

    def radius(self, confidence: Fraction) -> int:
        """Return the smallest r with P[|Z| <= r] >= confidence: P[|Z| > r] = 2 q^(r+1) / (1 + q), q = exp(-1/scale)."""
        outside = float(1 - probability("confidence", confidence))
        step = float(1 / self.scale)
        # The margin covers the rounding of these few float operations.
        least = math.log(2.0 / (outside * (1.0 + math.exp(-step)))) / step - 1.0
        return max(0, math.ceil(least * (1.0 + 1e-12)))

    def log_tail(self, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log P[Z >= z] for each z: P is q^z / (1 + q) from 1 on, and 1 - q^(1-z) / (1 + q) below."""
        step = 1.0 / float(self.scale)
        both = math.log1p(math.exp(-step))
        above = -np.maximum(sizes, 1) * step - both
        below = np.log1p(-np.exp(-np.maximum(1 - sizes, 0) * step - both))
        return np.where(sizes >= 1, above, below)

    @property
    def expected_absolute(self) -> float:
        """E|Z| = 2q / (1 - q^2) = 1 / sinh(1/scale)."""
        return 1.0 / math.sinh(1.0 / float(self.scale))

    @property
    def standard_deviation(self) -> float:
        """The square root of 2q / (1 - q)^2, that is 1 / (sqrt(2) sinh(1/(2 scale)))."""
        return 1.0 / (math.sqrt(2.0) * math.sinh(0.5 / float(self.scale)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianNoise:
    """Integer noise with P[z] proportional to exp(-z^2 / (2 sigma^2)), drawn exactly.

    >>> GaussianNoise(sigma=Fraction(10)).radius(Fraction(95, 100))
    20
    """

    sigma: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))

    def draw(self, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
        """Return `count` independent exact draws."""
        if self.sigma <= LARGEST_TABLE_SCALE:
            return draw(gaussian_law(self.sigma, bound=None), count, randomness, width)
        return _by_rejection(self.sigma, count, randomness, width)

    def radius(self, confidence: Fraction) -> int:
        """Return an r with P[|Z| <= r] >= confidence: the smallest, or one more where sigma is large."""
        return gaussian_radius(self.sigma, None, confidence)

    @property
    def expected_absolute(self) -> float:
        """E|Z|."""
        return gaussian_moment(self.sigma, None, 1)

    @property
    def standard_deviation(self) -> float:
        """The square root of E[Z^2]; never above sigma."""
        return math.sqrt(gaussian_moment(self.sigma, None, 2))


def gaussian_law(sigma: Fraction, bound: int | None) -> TwoSided:
    """Return the discrete Gaussian of parameter sigma, restricted to {-bound..bound} when there is a bound."""
    return TwoSided(first=1 / (2 * sigma * sigma), second=1 / (sigma * sigma), bound=bound)


def _by_rejection(sigma: Fraction, count: int, randomness: Randomness, width: int) -> NDArray[np.int64]:
    """Return exact discrete Gaussian draws by rejection from discrete Laplace noise of scale t = floor(sigma) + 1.

    Accepting Y with probability exp(-(|Y| - sigma^2/t)^2 / (2 sigma^2)) leaves
    exp(-|Y|/t) exp(-(|Y| - sigma^2/t)^2 / (2 sigma^2)), which is exp(-Y^2 / (2 sigma^2)) times a constant.

    Theorem: CanonneKaSt20.
    """
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
            return (int(sizes[index]) - peak) ** 2 / (2 * variance)

        accepted = candidates[heads(gammas, gamma, randomness, width)][: count - filled]
        values[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return values


RADIUS = 2.0**-44
"""What the float arithmetic of a coin is trusted to, relative to its probability; its true error is far smaller."""


def heads(
    gammas: NDArray[np.float64],
    exact: Callable[[int], Fraction],
    randomness: Randomness,
    width: int = WORD,
) -> NDArray[np.bool_]:
    """Return for each coin i whether it lands heads, which has probability exp(-exact(i)).

    Floating point decides a coin only where its error radius cannot matter; the rest go to integer arithmetic.

    Requires: |gammas[i] - exact(i)| <= 2^-46 (1 + gammas[i]), exact(i) >= 0.
    """
    words = randomness.words(len(gammas), width)
    uniform = words.astype(np.float64) * 2.0**-width
    chance = np.exp(-gammas)
    slack = RADIUS * (1.0 + gammas) * chance + 2.0**-52
    result = uniform < chance
    undecided = np.flatnonzero(np.abs(uniform - chance) <= slack + 2.0**-width)
    for index in undecided:
        result[index] = _settled(exact(int(index)), int(words[index]), width, randomness)
    return result


def _settled(gamma: Fraction, word: int, width: int, randomness: Randomness) -> bool:
    """Return whether U < exp(-gamma), where U starts with `word`, appending words until that is certain."""
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
def _folded(sigma: Fraction, bound: int | None) -> NDArray[np.float64]:
    """Return P[|Z| = 0], P[|Z| = 1], ... as floats, to a relative accuracy of 1e-12, for sigma in table range."""
    last = math.ceil(40 * sigma) + 1 if bound is None else min(bound, math.ceil(40 * sigma) + 1)
    sizes = np.arange(last + 1, dtype=np.float64)
    weights = np.exp(-0.5 * (sizes / float(sigma)) ** 2)
    weights[1:] *= 2.0
    return np.asarray(weights / weights.sum())


def gaussian_radius(sigma: Fraction, bound: int | None, confidence: Fraction) -> int:
    """Return an r with P[|Z| <= r] >= confidence under the discrete Gaussian, restricted to {-bound..bound} if given.

    For wide noise: P[|Z| > r] <= 2 Phi(-r/sigma), because g falls, so that its sum beyond r is at most its
    integral, and the sum of g over the integers is at least sigma sqrt(2 pi) (Poisson summation). Restricting the
    law to a bound only moves mass inwards.
    """
    outside = 1 - probability("confidence", confidence)
    if sigma > LARGEST_TABLE_SCALE:
        least = math.ceil(float_above(sigma) * -float(ndtri(float_below(outside) / 2)) * (1.0 + 1e-12))
    else:
        law = _folded(sigma, bound)
        beyond = np.cumsum(law[::-1])[::-1]  # P[|Z| >= r]
        least = int(np.searchsorted(-beyond, -float_below(outside) * (1.0 - 1e-11))) - 1
    return max(0, least) if bound is None else max(0, min(least, bound))


def gaussian_moment(sigma: Fraction, bound: int | None, power: int) -> float:
    """Return E|Z|^power for power 1 or 2; for wide noise, of the unrestricted continuous law, which is larger."""
    if sigma > LARGEST_TABLE_SCALE:
        return float(sigma) * math.sqrt(2.0 / math.pi) if power == 1 else float(sigma) ** 2
    law = _folded(sigma, bound)
    return float(np.sum(law * np.arange(len(law), dtype=np.float64) ** power))

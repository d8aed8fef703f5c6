"""Discrete Laplace noise: P[z] proportional to exp(-|z| / scale) on the integers."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.parameters import probability, rational
from setwise.mechanisms.randomness import WORD, Randomness
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

"""Discrete Gaussian noise restricted by law to {-bound, ..., bound}."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.errors import InvalidParameter
from setwise.mechanisms.gaussian_noise import GaussianNoise, gaussian_law, gaussian_moment, gaussian_radius
from setwise.mechanisms.inversion import draw
from setwise.mechanisms.laplace_noise import LARGEST_NOISE, LARGEST_TABLE_SCALE, SMALLEST_NOISE
from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.rational import positive_integer, rational

_LARGEST_TABLE_BOUND = 1 << 15
_LARGEST_BOUND = 1 << 62


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

    @property
    def expected_absolute(self) -> float:
        """E|Z|."""
        return gaussian_moment(self.sigma, self.bound, 1)

    @property
    def standard_deviation(self) -> float:
        """The square root of E[Z^2]."""
        return math.sqrt(gaussian_moment(self.sigma, self.bound, 2))

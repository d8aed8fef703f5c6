"""Discrete Gaussian noise: P[z] proportional to exp(-z^2 / (2 sigma^2)) on the integers."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from setwise.mechanisms.noise.laplace import LARGEST_NOISE, LARGEST_TABLE_SCALE, SMALLEST_NOISE, LaplaceNoise
from setwise.mechanisms.parameters import float_above, float_below, probability, rational
from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.sampling.bernoulli_exp import heads
from setwise.mechanisms.sampling.inverse_cdf import TwoSided, draw


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

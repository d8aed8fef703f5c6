"""Independent statements of the noise laws, and randomness that tests can script."""

import mpmath
import numpy as np
from scipy.special import ndtr

from setwise.mechanisms.noise.discrete import GaussianNoise, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise


class ExhaustedError(Exception):
    """A script ran out of words."""


class Script:
    """Randomness that replays given words, whatever width is asked for."""

    def __init__(self, words):
        self.words_left = list(words)

    def words(self, count, width=64):
        if count > len(self.words_left):
            raise ExhaustedError
        taken, self.words_left = self.words_left[:count], self.words_left[count:]
        assert all(word < 2**width for word in taken)
        return np.array(taken, dtype=np.uint64)


def exact(value):
    return mpmath.mpf(value.numerator) / value.denominator


def weight(noise, z):
    """The unnormalised weight of z, from the definition of the law."""
    match noise:
        case LaplaceNoise(scale=scale):
            return mpmath.exp(-abs(z) / exact(scale))
        case GaussianNoise(sigma=sigma):
            return mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * exact(sigma) ** 2))
        case RoundedGaussianNoise(sigma=sigma):
            # Tails, not a difference of distribution functions near 1.
            low = (abs(z) - mpmath.mpf(1) / 2) / exact(sigma)
            return mpmath.ncdf(-low) - mpmath.ncdf(-low - 1 / exact(sigma))
        case TruncatedGaussianNoise(sigma=sigma, bound=bound):
            return mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * exact(sigma) ** 2)) if abs(z) <= bound else mpmath.mpf(0)


def reach(noise, tail=60):
    """Beyond this no law here has more than e^-tail of its mass, up to a small factor."""
    match noise:
        case LaplaceNoise(scale=scale):
            return int(tail * scale) + 2
        case GaussianNoise(sigma=sigma) | RoundedGaussianNoise(sigma=sigma):
            return int(sigma * int((2 * tail) ** 0.5 + 1)) + 2
        case TruncatedGaussianNoise(bound=bound):
            return bound


def probabilities(noise, tail=60):
    """P[z] for z in -reach..reach as high-precision numbers."""
    end = reach(noise, tail)
    weights = [weight(noise, z) for z in range(end + 1)]
    total = 2 * mpmath.fsum(weights) - weights[0]
    half = [w / total for w in weights]
    return half[:0:-1] + half


def float_probabilities(noise):
    """P[z] for z in -reach..reach as floats, fast enough for wide noise."""
    end = reach(noise, 45)
    z = np.arange(-end, end + 1, dtype=np.float64)
    spread = float(noise.scale if isinstance(noise, LaplaceNoise) else noise.sigma)
    match noise:
        case LaplaceNoise():
            weights = np.exp(-np.abs(z) / spread)
        case RoundedGaussianNoise():
            weights = ndtr(-(np.abs(z) - 0.5) / spread) - ndtr(-(np.abs(z) + 0.5) / spread)
        case _:
            weights = np.exp(-0.5 * (z / spread) ** 2)
    return weights / weights.sum()

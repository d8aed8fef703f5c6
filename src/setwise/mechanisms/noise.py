"""The noise laws, and the one place where noise meets a private count."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.laplace_noise import LaplaceNoise
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.rounded_gaussian_noise import RoundedGaussianNoise
from setwise.mechanisms.truncated_gaussian_noise import TruncatedGaussianNoise

Noise: TypeAlias = LaplaceNoise | RoundedGaussianNoise | TruncatedGaussianNoise


def with_noise(counts: NDArray[np.int64], noise: Noise, randomness: Randomness) -> NDArray[np.int64]:
    """Return the counts with an independent exact draw of `noise` added to each."""
    return counts + noise.draw(len(counts), randomness)

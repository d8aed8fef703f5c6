"""Where to look: the exponential tilts under which a sum of losses has a given mean or a given tail.

Nothing is certified by a tilt; a good one makes the certified bounds tight.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from setwise.accounting.grid import multiples
from setwise.accounting.lattice import LossLattice

_LARGEST_TILT = 1e5


@dataclass(frozen=True, slots=True)
class Part:
    """`count` independent losses with the same lattice distribution."""

    lattice: LossLattice
    count: int


def cumulant(parts: Sequence[Part], tilt: float) -> float:
    """Return log E[exp(tilt x)] of the sum, x counted from the shifts."""
    return math.fsum(part.count * _moments(part.lattice, tilt)[0] for part in parts)


def _moments(lattice: LossLattice, tilt: float) -> tuple[float, float, float]:
    """Return log E[exp(tilt x)], and mean and variance of x under the tilt."""
    x = multiples(lattice.step, lattice.first, lattice.mass.size)
    exponent = tilt * x
    with np.errstate(divide="ignore"):
        exponent += np.log(lattice.mass)
    top = float(exponent.max())
    weight = np.exp(np.maximum(exponent - top, -700.0))  # no denormal numbers, which are slow
    total = float(weight.sum())
    mean = float((weight * x).sum()) / total
    return top + math.log(total), mean, float((weight * (x - mean) ** 2).sum()) / total


@dataclass(frozen=True, slots=True)
class Saddle:
    """A coarse version of a sum of losses."""

    parts: tuple[Part, ...]

    def at(self, tilt: float) -> tuple[float, float, float]:
        """Return the cumulant, mean and variance of the sum under the tilt."""
        height = mean = variance = 0.0
        for part in self.parts:
            one = _moments(part.lattice, tilt)
            height += part.count * one[0]
            mean += part.count * one[1]
            variance += part.count * one[2]
        return height, mean, variance

    def for_loss(self, loss: float) -> float:
        """Return the tilt, of either sign, under which the mean is about `loss`."""
        tilt = 0.0
        for _ in range(30):
            _, mean, variance = self.at(tilt)
            change = (loss - mean) / max(variance, 1e-300)
            largest = 1.0 + abs(tilt)
            tilt += min(max(change, -largest), largest)
            if abs(loss - mean) <= 1e-3 * math.sqrt(variance) or abs(tilt) > _LARGEST_TILT:
                break
        return tilt

    def for_delta(self, delta: float) -> float:
        """Return the tilt, at least 0, whose mean is about where the tail has probability delta."""
        target = math.log(delta)
        _, _, variance = self.at(0.0)
        tilt = math.sqrt(-2.0 * target / variance)
        for _ in range(30):
            height, mean, variance = self.at(tilt)
            excess = height - tilt * mean - target
            if abs(excess) < 0.05 or tilt > _LARGEST_TILT:
                break
            tilt = min(2.0 * tilt, max(0.5 * tilt, tilt + excess / max(tilt * variance, 1e-300)))
        return tilt

"""Certified privacy profiles on a grid, and how far the grid must reach.

A profile f(x) is the optimal delta at epsilon = x of everything still to come. Profiles fall with x, are convex in
u = exp(x), and satisfy f(-x) = 1 - exp(-x) + exp(-x) f(x), so x >= 0 is all that is stored: values at x_i = i h.

*Upper* profiles are read between grid points along chords in u (above, because f is convex in u) and beyond the last
point as constant (above, because f falls). *Lower* profiles are read between grid points along the continuation of the
next chord (below, because f is convex in u), and as 0 beyond the last.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAST_REACH = 6.4
"""Tuning: standard deviations of grid kept at least beyond the point that will be read; from there f counts as flat."""

_POSITION = 1e-11
"""Charged, relative to the value, for the rounding of positions between grid points."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Certified lower and upper values at x = 0, h, 2h, ...; `rounding` is the relative error not yet charged."""

    step: float
    lower: Floats
    upper: Floats
    rounding: float = 0.0

    @property
    def end(self) -> float:
        """The last grid point."""
        return self.step * (self.upper.size - 1)

    def read_upper(self, x: Floats) -> Floats:
        """Return upper bounds on f at any x, rounding charged."""
        size = np.abs(x)
        position = np.minimum(size / self.step, self.upper.size - 1.0)
        cell = np.minimum(position.astype(np.int64), max(0, self.upper.size - 2))
        share = np.clip(np.expm1((position - cell) * self.step) / math.expm1(self.step), 0.0, 1.0)
        after = np.minimum(cell + 1, self.upper.size - 1)
        value = (1.0 - share) * self.upper[cell] + share * self.upper[after]
        value *= 1.0 + self.rounding + _POSITION
        mirrored: Floats = np.where(x < 0.0, -np.expm1(-size) + np.exp(-size) * value, value)
        return np.minimum(mirrored, 1.0)

    def read_lower(self, x: Floats) -> Floats:
        """Return lower bounds on f at any x, rounding charged."""
        size = np.abs(x)
        position = size / self.step
        # A tie counts as on the node, and is charged.
        after = np.ceil(position * (1.0 - 1e-15) - 1e-12).astype(np.int64)
        known = after < self.lower.size
        at = np.where(known, after, 0)
        value = np.where(known, self.lower[at], 0.0)
        # The chord to the next point, continued back to x, runs below f; its slope is at least this.
        following = np.minimum(at + 1, self.upper.size - 1)
        drop = np.maximum(0.0, self.lower[at] * (1 - self.rounding) - self.upper[following] * (1 + self.rounding))
        back = -np.expm1(np.minimum(0.0, (position - after) * self.step))
        value = value + np.where(known, drop * back / math.expm1(self.step), 0.0)
        value *= 1.0 - self.rounding - _POSITION
        return np.where(x < 0.0, -np.expm1(-size) + np.exp(-size) * value, value)


def nothing_to_come(step: float) -> Profile:
    """Return the profile max(0, 1 - exp(x)) of no mechanism at all."""
    return Profile(step, np.zeros(1), np.zeros(1))


@dataclass(frozen=True, slots=True)
class Band:
    """How far a profile must reach when the whole loss, of the given variance, is to be read at about `end`.

    `depth` is about -log delta there: a profile is read as constant beyond its last point, and that must be well below
    delta. With an infinite `end` a profile reaches to the largest loss, beyond which it vanishes.
    """

    step: float
    end: float
    variance: float
    depth: float

    def size(self, done: float, support: float) -> int:
        """Return the grid points for a profile whose mechanisms have variance `done` and losses up to `support`."""
        if self.end == math.inf:
            return math.ceil(support / self.step) + 2
        spread = math.sqrt(max(0.0, done * (self.variance - done) / self.variance))
        deviations = max(_LEAST_REACH, math.sqrt(2.0 * self.depth))
        reach = min(support, self.end * min(1.0, done / self.variance) + deviations * spread)
        return math.ceil(reach / self.step) + 2


@dataclass(frozen=True, slots=True)
class TailProfile:
    """The profile of the last mechanisms of an interaction, and the variance and largest loss of these."""

    profile: Profile
    variance: float = 0.0
    support: float = 0.0

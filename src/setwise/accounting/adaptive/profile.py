"""Certified privacy profiles on a grid.

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
        after = np.ceil(position * (1.0 - 1e-15) - 1e-12).astype(
            np.int64
        )  # a tie counts as on the node, and is charged
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

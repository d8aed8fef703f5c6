"""A finite privacy-loss distribution, enumerated."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.intervals import UNIT, Bracket, probability
from setwise.accounting.losses.lattice import multiples
from setwise.accounting.losses.two_point import binomial_masses, odds_of_low, top_loss

Floats = NDArray[np.float64]


class Loss(Protocol):
    """A composed privacy loss that knows its delta at any epsilon."""

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return delta at each x and the absolute error of each."""
        ...


@dataclass(frozen=True, slots=True)
class Atoms:
    """Losses and their probabilities; masses left out sum to at most `dropped`."""

    loss: Floats
    mass: Floats
    relative_error: float
    dropped: float

    @property
    def size(self) -> int:
        """The number of atoms."""
        return int(self.mass.size)

    def times(self, other: "Atoms") -> "Atoms":
        """Return the distribution of the sum of two independent losses."""
        return Atoms(
            (self.loss[:, None] + other.loss[None, :]).ravel(),
            (self.mass[:, None] * other.mass[None, :]).ravel(),
            self.relative_error + other.relative_error + UNIT,
            self.dropped + other.dropped,
        )

    def average(self, inner: Loss, x: float) -> Bracket:
        """Return the delta at epsilon = x of these atoms composed with another loss: E[delta_inner(x - loss)]."""
        # Positions are rounded, and next to a largest loss that shows: both ends are read on their safe side.
        moved = np.where(self.loss == 0.0, 0.0, 8 * UNIT * (abs(x) + np.abs(self.loss)))
        if not moved.any():
            value, error = inner.delta(x - self.loss)
            upper, lower = value + error, value - error
        else:
            value, error = inner.delta(np.concatenate((x - self.loss - moved, x - self.loss + moved)))
            upper, lower = (value + error)[: self.size], (value - error)[self.size :]
        relative = self.relative_error + (self.size + 8) * UNIT
        above = float((self.mass * upper).sum()) * (1 + relative) + self.dropped
        below = float((self.mass * np.maximum(lower, 0.0)).sum()) * (1 - relative)
        return Bracket(min(1.0, probability(below, 0.0).lower), max(below, probability(above, 0.0).upper))


NOTHING = Atoms(np.zeros(1), np.ones(1), 0.0, 0.0)
"""No loss at all."""


def two_point_atoms(high: float, low: float, count: int, smallest_ratio: float) -> Atoms:
    """Return the atoms of `count` two-point mechanisms with log likelihood ratios high > 0 > low."""
    masses = binomial_masses(count, odds_of_low(high, low), smallest_ratio)
    loss = top_loss(high, low, count, masses) - multiples(high - low, 0, masses.mass.size)
    return Atoms(loss, masses.mass, masses.relative_error, masses.dropped)


_OUTER_RATIO = 1e-120
"""Enumerated masses below this share of their mode are dropped and charged; far below any delta of interest."""


def enumerated(responses: Iterable[tuple[float, int]], most: int) -> Atoms | None:
    """Return the atoms of randomized responses, (epsilon, count), together; None when there are more than `most`."""
    atoms = NOTHING
    for epsilon, count in responses:
        group = two_point_atoms(epsilon, -epsilon, count, _OUTER_RATIO)
        if atoms.size * group.size > most:
            return None
        atoms = atoms.times(group)
    return atoms

"""Finite privacy losses: repeated two-point mechanisms, which are binomials on a lattice, and enumerated atoms.

Generalized randomized response has one outcome of log likelihood ratio `high` >= 0 and one of `low` <= 0.
Repeated n times, with I the number of low outcomes, the loss is n high - (high - low) I with I binomial.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import ELEMENTARY, UNIT, Bracket, probability
from setwise.accounting.losses.lattice import LatticeTail, lattice_tail, multiples

Floats = NDArray[np.float64]

_SMALLEST_RATIO = 1e-285
"""Masses this far below the mode are dropped and charged: they lie near the end of the range of floats."""

_UNITS_PER_STEP = 2 + 1 + 4 * ELEMENTARY
"""Roundings in one ratio of neighbouring masses (its odds included) and in multiplying it on."""


def odds_of_low(high: float, low: float) -> float:
    """Return P[low outcome] / P[high outcome] for the pair with those log likelihood ratios.

    Theorem: defn:gen_rr, with high = t and low = t - epsilon.
    """
    return math.exp(low) * math.expm1(-high) / math.expm1(low)


def worst_t(epsilon: float, tilt: float) -> float:
    """Return the t in (0, epsilon) that maximises E[exp(tilt loss)] of generalized randomized response.

    Against a tail that falls like exp(-tilt x), this is the worst of all epsilon-BR mechanisms.
    """
    short = math.exp(-tilt * epsilon)
    scale = -1.0 / math.expm1(-epsilon)
    v = tilt * (short + (1.0 - short) * scale) / ((1.0 - short) * scale * math.exp(-epsilon) * (1.0 + tilt))
    return min(max(math.log(v), 1e-3 * epsilon), (1 - 1e-3) * epsilon)


@dataclass(frozen=True, slots=True)
class Masses:
    """Consecutive masses of a binomial, from `first` on, and what was dropped outside them."""

    first: int
    mass: Floats
    relative_error: float
    dropped: float


def binomial_masses(count: int, odds: float, smallest_ratio: float = _SMALLEST_RATIO) -> Masses:
    """Return Bin(count, odds / (1 + odds)) by ratios from its mode, normalised by its own sum.

    Requires: count >= 1, odds > 0.
    Ensures: each mass within `relative_error` of the truth; all masses left out sum to at most `dropped`.
    """
    probability = odds / (1.0 + odds)
    mode = min(count, math.floor((count + 1) * probability))
    exponent = -math.log(smallest_ratio) + 5.0
    # Bernstein: beyond this distance the masses are below smallest_ratio times the mode's.
    reach = exponent / 3 + math.sqrt((exponent / 3) ** 2 + 2 * exponent * count * probability * (1 - probability))
    width = math.ceil(reach) + 2
    last, first = min(count, mode + width), max(0, mode - width)
    above = np.arange(mode, last, dtype=np.float64)
    below = np.arange(mode, first, -1, dtype=np.float64)
    rising = np.cumprod((count - above) / (above + 1.0) * odds)
    falling = np.cumprod(below / (count - below + 1.0) / odds)
    weight = np.concatenate((falling[::-1], [1.0], rising))
    keep = np.flatnonzero(weight >= smallest_ratio)
    start, stop = int(keep[0]), int(keep[-1]) + 1
    complete = start == 0 and stop == weight.size and first == 0 and last == count
    weight = weight[start:stop]
    total = float(weight.sum())
    farthest = max(mode - (first + start), first + stop - 1 - mode)
    error = (farthest * _UNITS_PER_STEP + 64) * UNIT
    dropped = 0.0 if complete else 2.0 * (count + 1) * smallest_ratio / total
    return Masses(first + start, weight / total, 2 * error, dropped)


def two_point_loss(high: float, low: float, count: int, smallest_ratio: float = _SMALLEST_RATIO) -> LatticeTail:
    """Return the composed loss of `count` mechanisms with log likelihood ratios high > 0 > low."""
    masses = binomial_masses(count, odds_of_low(high, low), smallest_ratio)
    top = top_loss(high, low, count, masses)
    return lattice_tail(top, high - low, masses.mass, masses.relative_error, masses.dropped)


def top_loss(high: float, low: float, count: int, masses: Masses) -> float:
    """Return the largest loss among the masses kept: exact where two large products nearly cancel.

    Where there is one product, its rounding is charged by those who read the loss.
    """
    step = high - low
    return float(Fraction(high) * count - Fraction(step) * masses.first) if masses.first else high * count


def randomized_response(epsilon: float, count: int, smallest_ratio: float = _SMALLEST_RATIO) -> LatticeTail:
    """Return the composed loss of `count` randomized responses: the worst of all epsilon-DP mechanisms.

    Theorem: thm:opt_DPCOMP.
    """
    return two_point_loss(epsilon, -epsilon, count, smallest_ratio)


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

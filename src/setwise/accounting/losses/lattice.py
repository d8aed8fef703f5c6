"""Privacy-loss distributions on a lattice: certified from above and from below.

For the bound from above, the loss between two lattice points is split between them so that both its probability and
its likelihood ratio are kept. Every privacy profile is convex in u = exp(x), so this can only raise delta
("connect the dots", DoroshenkoGhKaKuMa22). For the bound from below, everything nearest to a lattice point is merged,
which can only lower delta (it is a post-processing), and the merged loss is rounded down to a common offset. Both are
off by the square of the step.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.intervals import UNIT

_LARGEST_DENOMINATOR = 1000
_AGREEMENT = 1e-13


def multiples(step: float, first: int, count: int) -> NDArray[np.float64]:
    """Return first * step, (first + 1) * step, ..., as many as `count`."""
    return np.arange(first, first + count, dtype=np.float64) * step


def common_unit(values: Sequence[float]) -> float | None:
    """Return the largest unit of which every value is a whole multiple to within round-off, or None.

    >>> round(common_unit([0.1, 0.25]), 12)
    0.05
    """
    unit = Fraction(1)
    for value in values:
        ratio = value / values[0]
        fraction = Fraction(ratio).limit_denominator(_LARGEST_DENOMINATOR)
        if fraction == 0 or abs(float(fraction) - ratio) > _AGREEMENT * ratio:
            return None
        unit = Fraction(math.gcd(unit.numerator, fraction.numerator), math.lcm(unit.denominator, fraction.denominator))
    return values[0] * float(unit)


def common_step(values: Sequence[float], largest: float) -> float:
    """Return a step of at most `largest` that divides every value if any step can, else the largest value."""
    if not values:
        return largest
    unit = common_unit(values) or max(values)
    return unit / max(1, math.ceil(unit / largest * (1 - 1e-12)))


Floats = NDArray[np.float64]

_SMALLEST_MASS = 1e-280


@dataclass(frozen=True, slots=True)
class LossLattice:
    """Masses at the losses (first + i) step - shift; `infinite` is lost outright; masses have `relative_error`."""

    step: float
    first: int
    mass: Floats
    shift: float = 0.0
    infinite: float = 0.0
    relative_error: float = 0.0

    def losses(self) -> Floats:
        """Return the losses of the masses."""
        return multiples(self.step, self.first, self.mass.size) - self.shift


class LossPair:
    """One privacy loss, from above and from below, each tabulated when it is first asked for."""

    def __init__(self, above: Callable[[], LossLattice], below: Callable[[], LossLattice]) -> None:
        self._above, self._below = above, below

    @cached_property
    def upper(self) -> LossLattice:
        """The loss from above."""
        return self._above()

    @cached_property
    def lower(self) -> LossLattice:
        """The loss from below."""
        return self._below()


def from_cells(step: float, first: int, p: Floats, q: Floats, infinite: float, relative_error: float) -> LossLattice:
    """Return the lattice from above, given the P and Q masses of the losses between first + i and first + i + 1."""
    node = multiples(step, first, p.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(p > 0.0, -np.log(np.where(p > 0.0, q, 1.0) / np.where(p > 0.0, p, 1.0)) - node, 0.0)
    # Round-off may move a loss that sits on a node across it; moving it up is on the safe side.
    slack = (relative_error + 16 * UNIT) * (1.0 + np.abs(node))
    above = np.clip(above + slack, 0.0, step)
    left = p * np.exp(-above) * np.expm1(above - step) / math.expm1(-step)  # (e^(step - above) - 1) / (e^step - 1)
    mass = np.zeros(p.size + 1)
    mass[:-1] = left
    mass[1:] += p - left
    return LossLattice(step, first, np.maximum(mass, 0.0), 0.0, infinite, relative_error + 64 * UNIT)


def from_bins(step: float, first: int, p: Floats, q: Floats, infinite: float, relative_error: float) -> LossLattice:
    """Return the lattice from below, given the P and Q masses of the losses within half a step of first + i."""
    p = np.where(p > _SMALLEST_MASS, p, 0.0)  # near the end of the range of floats the ratio q / p means nothing
    node = multiples(step, first, p.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(p > 0.0, node + np.log(np.where(p > 0.0, q, 1.0) / np.where(p > 0.0, p, 1.0)), 0.0)
    slack = (relative_error + 16 * UNIT) * (1.0 + float(np.abs(node).max(initial=0.0)))
    # The far tails weigh nothing but may sit far from their node; what lies more than half a step off is moved down.
    far = below > 0.51 * step
    moved = np.where(far, np.ceil(below / step), 0.0).astype(np.int64)
    mass = np.zeros(p.size + int(moved.max(initial=0)))
    offset = int(moved.max(initial=0))
    np.add.at(mass, np.arange(p.size) - moved + offset, p)
    shift = max(0.0, float(np.where(far, 0.0, below).max(initial=0.0))) + slack
    return LossLattice(step, first - offset, mass, shift, infinite, relative_error + 64 * UNIT)


def from_atoms(step: float, loss: Floats, mass: Floats, infinite: float, relative_error: float) -> LossPair:
    """Return the pair of lattices for a finite loss distribution."""
    q = mass * np.exp(np.minimum(-loss, 700.0))  # such masses are far below the range of floats
    return LossPair(
        lambda: from_cells(*_collected(step, np.floor(loss / step + 1e-9), mass, q), infinite, relative_error),
        lambda: from_bins(*_collected(step, np.rint(loss / step), mass, q), infinite, relative_error),
    )


def _collected(step: float, index: Floats, p: Floats, q: Floats) -> tuple[float, int, Floats, Floats]:
    whole = index.astype(np.int64)
    first = int(whole.min())
    p_sums, q_sums = (np.bincount(whole - first, weights).astype(np.float64) for weights in (p, q))
    return step, first, p_sums, q_sums

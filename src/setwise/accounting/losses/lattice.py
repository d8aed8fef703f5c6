"""Privacy-loss distributions on a lattice: certified from above and from below.

For the bound from above, the loss between two lattice points is split between them so that both its probability and
its likelihood ratio are kept. Every privacy profile is convex in u = exp(x), so this can only raise delta
("connect the dots", DoroshenkoGhKaKuMa22). For the bound from below, everything nearest to a lattice point is merged,
which can only lower delta (it is a post-processing), and the merged loss is rounded down to a common offset. Both are
off by the square of the step.

The delta of such a loss is read without cancellation (`LatticeTail`). With losses top - step i of mass p_i, delta(x) is
the sum over losses above x of p_i (1 - exp(x - loss_i)). With

    E_a = sum_{i<=a} p_i exp(-step (a - i))   and   D_a = (1 - exp(-step)) sum_{b<a} E_b,

delta at any x is D_a + (1 - exp(-phi)) E_a, where a is the last index above x and phi its distance from x: two
look-ups of non-negative numbers, so relative accuracy survives however small delta is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import UNIT

Floats = NDArray[np.float64]
_Number = TypeVar("_Number", float, Floats)

_LARGEST_DENOMINATOR = 1000
_AGREEMENT = 1e-13
"""Parameters whose ratio is this close to a fraction with a denominator up to the first share a unit."""

_SMALLEST_MASS = 1e-280
"""Masses below this are left out from below: near the end of the range of floats the ratio q / p means nothing."""


def multiples(step: float, first: int, count: int) -> Floats:
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
    p = np.where(p > _SMALLEST_MASS, p, 0.0)
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


def _decayed_sums(mass: Floats, step: float) -> Floats:
    """Return E_a = sum_{i<=a} mass_i exp(-step (a - i)), scanned in blocks short enough for exp not to overflow."""
    block = min(mass.size, max(1, int(300.0 / step)))
    sums = np.empty_like(mass)
    growth = np.exp(step * np.arange(block))
    carried = 0.0
    for start in range(0, mass.size, block):
        part = mass[start : start + block]
        up = growth[: part.size]
        sums[start : start + block] = (np.cumsum(part * up) + carried * math.exp(-step)) / up
        carried = float(sums[start + part.size - 1])
    return sums


@dataclass(frozen=True, slots=True)
class LatticeTail:
    """Masses at top, top - step, ..., each within `relative_error`; masses left out sum to at most `dropped`."""

    top: float
    step: float
    mass: Floats
    relative_error: float
    dropped: float
    decayed: Floats
    base: Floats

    @property
    def rounding(self) -> float:
        """The relative error of a delta that is read at its exact place, what was left out aside."""
        last = self.mass.size - 1
        exponents = 2.0 * min(300.0, self.step * last)  # of the growth that the tables divide by
        return self.relative_error + (3 * last + exponents + 64) * UNIT

    def slack(self, size: _Number) -> _Number:
        """Return how far rounding may move an x of the given size against the losses."""
        return 8 * UNIT * (abs(self.top) + self.step * (self.mass.size - 1) + size)

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return delta at each x and the absolute error of each."""
        last = self.mass.size - 1
        index = np.ceil((self.top - x) / self.step) - 1.0
        at = np.clip(index, 0, last).astype(np.int64)
        distance = np.maximum(self.top - self.step * at - x, 0.0)
        decayed = self.decayed[at]
        value = np.where(index >= 0, self.base[at] - np.expm1(-distance) * decayed, 0.0)
        slack = self.slack(np.abs(x))
        clear = self.top - x < -slack  # x lies above every loss, whatever the rounding
        misplaced = np.where(clear, 0.0, decayed * slack)
        error = value * self.rounding + misplaced + self.dropped
        return value, error


def lattice_tail(top: float, step: float, mass: Floats, relative_error: float, dropped: float) -> LatticeTail:
    """Return the tables for masses at top, top - step, and so on."""
    decayed = _decayed_sums(mass, step)
    base = np.empty_like(decayed)
    base[0] = 0.0
    np.cumsum(decayed[:-1], out=base[1:])
    base *= -math.expm1(-step)
    return LatticeTail(top, step, mass, relative_error, dropped, decayed, base)

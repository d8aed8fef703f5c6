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

Repeated two-point mechanisms are such lattices. Generalized randomized response has one outcome of log likelihood ratio
`high` >= 0 and one of `low` <= 0; repeated n times, with I the number of low outcomes, the loss is
n high - (high - low) I with I binomial. Finite losses off a lattice are enumerated as `Atoms`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import ELEMENTARY, UNIT, Bracket, probability

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
    short, rest = math.exp(-tilt * epsilon), -math.expm1(-tilt * epsilon)
    scale = -1.0 / math.expm1(-epsilon)
    v = tilt * (short + rest * scale) / (rest * scale * math.exp(-epsilon) * (1.0 + tilt))
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
    if count == 1:
        odds = odds_of_low(high, low)
        mass = np.array([1.0, odds]) / (1.0 + odds)
        return Atoms(np.array([high, low]), mass, (_UNITS_PER_STEP + 64) * UNIT, 0.0)
    masses = binomial_masses(count, odds_of_low(high, low), smallest_ratio)
    loss = top_loss(high, low, count, masses) - multiples(high - low, 0, masses.mass.size)
    return Atoms(loss, masses.mass, masses.relative_error, masses.dropped)

"""Privacy-loss distributions on a lattice (equally spaced losses), certified from above and from below.

- From above, a loss between two lattice points is split between them, so that its probability and its likelihood ratio
  are preserved. This can only raise delta ("connect the dots", DoroshenkoGhKaKuMa22).
- From below, all losses nearest to a lattice point are merged, and the result is rounded down. This can only lower
  delta.

Both bounds have an error of the order of the squared step. `LatticeTail` reads delta from such a distribution at any
epsilon, and `Atoms` are finite losses that are not on a lattice.
"""

# Splitting can only raise delta because every privacy profile is convex in u = exp(x). Merging can only lower it
# because it is a post-processing.
#
# The delta of a loss on a lattice is read without cancellation. Let the losses be top - step i, of mass p_i. Then
# delta(x) is the sum over losses above x of p_i (1 - exp(x - loss_i)). Let E_a be the sum over i <= a of p_i exp(-step
# (a - i)), and D_a the sum over b < a of E_b, times 1 - exp(-step). Then delta at any x is D_a + (1 - exp(-phi)) E_a,
# where a is the last index above x and phi its distance from x. These are two look-ups of non-negative numbers, so
# relative accuracy survives however small delta is.
#
# Repeated two-point mechanisms are such lattices. Generalized randomized response has one outcome of log likelihood
# ratio `high` >= 0 and one of `low` <= 0. Repeated n times, with I the number of low outcomes, its loss is n high -
# (high - low) I, where I is binomial.

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import ELEMENTARY, UNIT, Bracket, probability
from setwise.errors import Unattainable

Floats = NDArray[np.float64]
_Number = TypeVar("_Number", float, Floats)

_LARGEST_DENOMINATOR = 1000
_AGREEMENT = 1e-13
"""Two parameters share a unit if their ratio agrees to this relative accuracy with a fraction whose denominator is
at most `_LARGEST_DENOMINATOR`."""

_SMALLEST_MASS = 1e-280
"""Masses below this are left out of lower bounds, because near the end of the range of floats the ratio q / p has no
correct digits."""


_MOST_POINTS = 2**25
"""Largest number of lattice points in one table: 256 MiB of floats, eight times what the largest transform takes."""


def multiples(step: float, first: int, count: int) -> Floats:
    """Return `count` multiples of `step`: first * step, (first + 1) * step, and so on.

    Raises: `Unattainable` if there would be more than `_MOST_POINTS`.
    """
    _check_points(count)
    return np.arange(first, first + count, dtype=np.float64) * step


def _check_points(count: float) -> None:
    """Raise `Unattainable` if a table of `count` equally spaced losses would be too large for the memory.

    So many losses are needed if some noise is very large, or if it is very small compared with other noise.
    """
    if not count <= _MOST_POINTS:
        raise Unattainable(
            f"the privacy losses of these uses would need a table of {count:.3g} points, more than {_MOST_POINTS}; "
            "compose uses with very little noise apart from those with very much noise"
        )


def common_unit(values: Sequence[float]) -> float | None:
    """Return the largest number of which each of `values` is a whole multiple up to rounding; None if there is none.

    Callers choose the step of a grid from it, so that all `values` are grid points.

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
    """Return a step of at most `largest` for rounding losses; `values` are multiples of the step if possible.

    A loss that is a multiple of the step is not changed by the rounding. If all `values` are multiples of one number
    (see `common_unit`), the step divides this number. Otherwise only the largest value is a multiple of the step. If
    `values` is empty, the step is `largest`.

    >>> common_step([0.5, 1.5], 0.3), common_step([], 0.3)
    (0.25, 0.3)
    """
    if not values:
        return largest
    unit = common_unit(values) or max(values)
    return unit / max(1, math.ceil(unit / largest * (1 - 1e-12)))


@dataclass(frozen=True, slots=True)
class LossLattice:
    """A privacy-loss distribution on equally spaced losses (a lattice).

    `mass[i]` is the probability of the loss (first + i) step - shift.

    - `step` is the distance of neighbouring losses.
    - `first` is a whole number, which says where the lattice begins.
    - `shift` is at least 0, and is subtracted from every loss. For a lower bound on delta, losses are rounded to
      multiples of `step`, some of them up; `shift` then lowers all of them, so that no loss is above its true value.
      For an upper bound it is 0.
    - `infinite` is the probability of an infinite loss.
    - `relative_error` bounds the relative error of each entry of `mass`.
    """

    step: float
    first: int
    mass: Floats
    shift: float = 0.0
    infinite: float = 0.0
    relative_error: float = 0.0

    def losses(self) -> Floats:
        """Return the privacy losses at the lattice points, ascending; `mass` holds their probabilities."""
        return multiples(self.step, self.first, self.mass.size) - self.shift


class LossPair:
    """Two lattices that bound one privacy loss: at every epsilon, `upper` has at least its delta, and `lower` at most.

    A lattice holds the probabilities of equally spaced losses. Each lattice is computed when it is first used: `upper`
    by calling `above`, and `lower` by calling `below`.
    """

    def __init__(self, above: Callable[[], LossLattice], below: Callable[[], LossLattice]) -> None:
        self._above, self._below = above, below

    @cached_property
    def upper(self) -> LossLattice:
        """The lattice for upper bounds: at every epsilon, its delta is at least the delta of the exact privacy loss.

        A lattice holds the probabilities of equally spaced losses. It is computed when it is first used.
        """
        return self._above()

    @cached_property
    def lower(self) -> LossLattice:
        """The lattice for lower bounds: at every epsilon, its delta is at most the delta of the exact privacy loss.

        A lattice holds the probabilities of equally spaced losses. It is computed when it is first used.
        """
        return self._below()


def from_cells(step: float, first: int, p: Floats, q: Floats, infinite: float, relative_error: float) -> LossLattice:
    """Return a distribution on equally spaced losses (a lattice) whose delta is at least that of a given privacy loss.

    The loss is given by its probabilities under P and under Q, the output distributions on two neighbouring tables. The
    probability between two lattice points is divided between them, so that the totals under P and under Q stay the
    same. This can only raise delta.

    - `p[i]` and `q[i]` are the probabilities under P and under Q of the losses between (first + i) step and (first + i
      + 1) step.
    - `infinite` is the probability of infinite losses.
    - `relative_error` bounds the relative error of each probability.
    """
    node = multiples(step, first, p.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(p > 0.0, -np.log(np.where(p > 0.0, q, 1.0) / np.where(p > 0.0, p, 1.0)) - node, 0.0)
    # Rounding may move a loss that lies on a lattice point below it. Moving every loss up keeps the bound from above.
    slack = (relative_error + 16 * UNIT) * (1.0 + np.abs(node))
    above = np.clip(above + slack, 0.0, step)
    lower_mass = (
        p * np.exp(-above) * np.expm1(above - step) / math.expm1(-step)
    )  # (e^(step - above) - 1) / (e^step - 1)
    mass = np.zeros(p.size + 1)
    mass[:-1] = lower_mass
    mass[1:] += p - lower_mass
    return LossLattice(step, first, np.maximum(mass, 0.0), 0.0, infinite, relative_error + 64 * UNIT)


def from_bins(step: float, first: int, p: Floats, q: Floats, infinite: float, relative_error: float) -> LossLattice:
    """Return a distribution on equally spaced losses (a lattice) whose delta is at most that of a given privacy loss.

    The loss is given by its probabilities under P and under Q, the output distributions on two neighbouring tables. All
    losses nearest to one lattice point become one loss, which is rounded down. This can only lower delta.

    - `p[i]` and `q[i]` are the probabilities under P and under Q of the losses within half a step of (first + i) step.
    - `infinite` is the probability of infinite losses.
    - `relative_error` bounds the relative error of each probability.
    """
    p = np.where(p > _SMALLEST_MASS, p, 0.0)
    node = multiples(step, first, p.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(p > 0.0, node + np.log(np.where(p > 0.0, q, 1.0) / np.where(p > 0.0, p, 1.0)), 0.0)
    slack = (relative_error + 16 * UNIT) * (1.0 + float(np.abs(node).max(initial=0.0)))
    # Losses in the far tails have negligible mass but may lie far from their lattice point. Those more than about half
    # a step away are moved down on their own, so that they do not enlarge the common shift.
    far = below > 0.51 * step
    steps_down = np.where(far, np.ceil(below / step), 0.0).astype(np.int64)
    offset = int(steps_down.max(initial=0))
    _check_points(p.size + offset)
    mass = np.zeros(p.size + offset)
    np.add.at(mass, np.arange(p.size) - steps_down + offset, p)
    shift = max(0.0, float(np.where(far, 0.0, below).max(initial=0.0))) + slack
    return LossLattice(step, first - offset, mass, shift, infinite, relative_error + 64 * UNIT)


def from_atoms(step: float, loss: Floats, mass: Floats, infinite: float, relative_error: float) -> LossPair:
    """Return two lattices that bound the delta of a finite loss distribution from above and from below.

    A lattice has the probabilities of equally spaced losses, to which the losses of the distribution are rounded: for
    the upper bound so that delta can only rise, for the lower bound so that delta can only fall.

    - `loss` has the values of the distribution, and `mass` their probabilities.
    - `step` is the distance of neighbouring lattice points.
    - `infinite` is the probability of an infinite loss.
    - `relative_error` bounds the relative error of each probability.
    """
    q = mass * np.exp(np.minimum(-loss, 700.0))  # losses below -700 have masses far below the range of floats
    return LossPair(
        lambda: from_cells(*_collect(step, np.floor(loss / step + 1e-9), mass, q), infinite, relative_error),
        lambda: from_bins(*_collect(step, np.rint(loss / step), mass, q), infinite, relative_error),
    )


def _collect(step: float, index: Floats, p: Floats, q: Floats) -> tuple[float, int, Floats, Floats]:
    """Return the sums of the probabilities that belong to the same lattice point, as (step, first, p_sums, q_sums).

    A lattice has equally spaced losses, and `step` is their distance, returned unchanged. `p` and `q` are probabilities
    of losses on one and on the other of two neighbouring tables, and `index` has the number of the lattice point to
    which each of them belongs. `first` is the lowest of these numbers. The sums cover every point from the lowest to
    the highest.

    Raises: `Unattainable` if there would be more than `_MOST_POINTS` points.
    """
    _check_points(float(index.max() - index.min()) + 1.0)
    points = index.astype(np.int64)
    first = int(points.min())
    p_sums, q_sums = (np.bincount(points - first, weights).astype(np.float64) for weights in (p, q))
    return step, first, p_sums, q_sums


def _decayed_sums(mass: Floats, step: float) -> Floats:
    """Return an array whose entry a is the sum over i <= a of mass[i] exp(-step (a - i)).

    `mass` has the probabilities of equally spaced losses in descending order, and `step` is their distance. The delta
    at any epsilon follows from these sums without a loop over the losses. The sums are computed in blocks so short that
    no exponential overflows.
    """
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
    """Tables from which the delta of a privacy loss with equally spaced values is read at any epsilon.

    - `mass` has the probabilities of the losses top, top - step, top - 2 step, ...
    - `relative_error` bounds the relative error of each of them.
    - `dropped` bounds the sum of the probabilities of losses that are left out.
    - `base[a]` is the delta at the epsilon that equals loss number a, which is top - a step.
    - `decayed[a]` is the sum over i <= a of mass[i] exp(-step (a - i)). With it, the delta at an epsilon between two
      losses is computed from `base`.
    """

    top: float
    step: float
    mass: Floats
    relative_error: float
    dropped: float
    decayed: Floats
    base: Floats

    @property
    def rounding(self) -> float:
        """The relative rounding error of a delta that is computed from this object's tables of privacy losses.

        A certified bound on delta adds this error and two absolute errors: the total probability of losses that the
        tables leave out (`dropped`), and the rounding of the difference of a loss and an epsilon (`slack`).
        """
        last = self.mass.size - 1
        exponents = 2.0 * min(300.0, self.step * last)  # exponents of the powers that `_decayed_sums` divides by
        return self.relative_error + (3 * last + exponents + 64) * UNIT

    def slack(self, size: _Number) -> _Number:
        """Return a bound on the rounding error of the difference of a loss in these tables and an epsilon.

        Callers move epsilon by this much to keep bounds on delta valid. `size` is the absolute value of the epsilon.
        For several epsilons it is an array of their absolute values, or the largest absolute value.
        """
        return 8 * UNIT * (abs(self.top) + self.step * (self.mass.size - 1) + size)

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the delta of this privacy loss at each epsilon in `x`, and a bound on each delta's absolute error."""
        last = self.mass.size - 1
        index = np.ceil((self.top - x) / self.step) - 1.0
        at = np.clip(index, 0, last).astype(np.int64)
        distance = np.maximum(self.top - self.step * at - x, 0.0)
        decayed = self.decayed[at]
        value = np.where(index >= 0, self.base[at] - np.expm1(-distance) * decayed, 0.0)
        slack = self.slack(np.abs(x))
        clear = self.top - x < -slack  # x lies above every loss, whatever the rounding
        with np.errstate(over="ignore"):  # the error may be infinite where x is as large as floats get
            misplaced = np.where(clear, 0.0, decayed * slack)
        error = value * self.rounding + misplaced + self.dropped
        return value, error


def lattice_tail(top: float, step: float, mass: Floats, relative_error: float, dropped: float) -> LatticeTail:
    """Return an object that gives delta at any epsilon for a privacy loss with equally spaced values (a lattice).

    - The values are `top`, `top` - `step`, ..., with the probabilities `mass` in this order.
    - `relative_error` bounds the relative error of each probability.
    - `dropped` bounds the sum of the probabilities of values that are left out.
    """
    decayed = _decayed_sums(mass, step)
    base = np.empty_like(decayed)
    base[0] = 0.0
    np.cumsum(decayed[:-1], out=base[1:])
    base *= -math.expm1(-step)
    return LatticeTail(top, step, mass, relative_error, dropped, decayed, base)


_SMALLEST_RATIO = 1e-285
"""Masses below this share of the mode's are dropped and added to `dropped`, because they lie near the end of the
range of floats."""

_UNITS_PER_STEP = 2 + 1 + 4 * ELEMENTARY
"""Rounding errors, in units of rounding, in one ratio of neighbouring masses (its odds included) and its
multiplication."""


def odds_of_low(high: float, low: float) -> float:
    """Return the odds P[low] / P[high] of a mechanism with two outcomes, whose privacy losses are `low` < 0 < `high`.

    The privacy loss of an outcome is log(P / Q), where P and Q are the outcome's probabilities on two neighbouring
    tables. The probabilities of both outcomes add up to 1 on each table, so the two losses determine the odds.

    Theorem: generalized randomized response (defn:gen_rr), with high = t and low = t - epsilon.
    """
    return math.exp(low) * math.expm1(-high) / math.expm1(low)


def worst_t(epsilon: float, tilt: float) -> float:
    """Return the t in (0, epsilon) for which randomized response with the losses t and t - epsilon is worst.

    Worst means that E[exp(tilt L)] is largest, where L is the privacy loss. Suppose that the delta of later mechanisms
    falls with the overall epsilon x like exp(-tilt x). Then no other epsilon-bounded-range mechanism used before them
    gives a larger delta.
    """
    short, complement = math.exp(-tilt * epsilon), -math.expm1(-tilt * epsilon)
    scale = -1.0 / math.expm1(-epsilon)
    v = tilt * (short + complement * scale) / (complement * scale * math.exp(-epsilon) * (1.0 + tilt))
    return min(max(math.log(v), 1e-3 * epsilon), (1 - 1e-3) * epsilon)


@dataclass(frozen=True, slots=True)
class Masses:
    """Probabilities of consecutive values of a binomial variable: `mass[i]` belongs to the value `first` + i.

    Each probability has a relative error of at most `relative_error`; the probabilities of all other values sum to at
    most `dropped`.
    """

    first: int
    mass: Floats
    relative_error: float
    dropped: float


def binomial_masses(count: int, odds: float, smallest_ratio: float = _SMALLEST_RATIO) -> Masses:
    """Return the probabilities of the values of a binomial variable, the number of successes in `count` trials.

    Trials are independent; a trial succeeds with the probability odds / (1 + odds). Values less likely than
    `smallest_ratio` times the most likely value are left out. The result states the errors in its fields
    `relative_error` and `dropped`.

    Requires: count >= 1, odds > 0.
    Ensures: each probability is within `relative_error` of the truth; those left out sum to at most `dropped`.
    """
    probability = odds / (1.0 + odds)
    mode = min(count, math.floor((count + 1) * probability))
    exponent = -math.log(smallest_ratio) + 5.0
    # By Bernstein's inequality masses beyond this distance are below smallest_ratio times the mode's.
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
    """Return the distribution of the total privacy loss of `count` equal mechanisms with two outcomes each.

    The privacy losses of the two outcomes are `high` > 0 > `low`. The result is a `LatticeTail`, from which delta is
    read at any epsilon. Total losses less likely than `smallest_ratio` times the probability of the most likely total
    loss are left out.
    """
    masses = binomial_masses(count, odds_of_low(high, low), smallest_ratio)
    top = top_loss(high, low, count, masses)
    return lattice_tail(top, high - low, masses.mass, masses.relative_error, masses.dropped)


def top_loss(high: float, low: float, count: int, masses: Masses) -> float:
    """Return the largest total privacy loss of `count` equal mechanisms that is probable enough to matter.

    Each mechanism has the loss `high`, or the smaller loss `low`. If k of them have the loss `low`, the total loss is
    (count - k) high + k low. `masses` lists the probability of each k, without those k that are too improbable to
    matter. The result is the total loss for the smallest k that is listed.
    """
    # `masses` leaves numbers below k = `masses.first` out as negligible, so the largest total is (count - k) high + k
    # low. For k = 0 it is the float count * high, whose rounding error `LatticeTail` covers. For other k two large
    # products nearly cancel, so the sum is computed with fractions.
    step = high - low
    return float(Fraction(high) * count - Fraction(step) * masses.first) if masses.first else high * count


def randomized_response(epsilon: float, count: int, smallest_ratio: float = _SMALLEST_RATIO) -> LatticeTail:
    """Return the total privacy loss of `count` randomized responses, the worst of all epsilon-DP mechanisms.

    The result is a table that gives delta at any epsilon. Total losses less likely than `smallest_ratio` times the
    probability of the most likely total loss are left out.

    Theorem: the paper's optimal composition of pure DP (thm:opt_DPCOMP).
    """
    return two_point_loss(epsilon, -epsilon, count, smallest_ratio)


class Loss(Protocol):
    """Protocol of a privacy loss, of one or several mechanisms, whose delta can be computed at any epsilon."""

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the delta of this privacy loss at each epsilon in `x`, and a bound on each delta's absolute error."""
        ...


@dataclass(frozen=True, slots=True)
class Atoms:
    """A privacy-loss distribution with finitely many values: the losses `loss`, with the probabilities `mass`.

    Each probability has a relative error of at most `relative_error`; probabilities left out sum to at most `dropped`.
    """

    loss: Floats
    mass: Floats
    relative_error: float
    dropped: float

    @property
    def size(self) -> int:
        """The number of atoms (values of positive probability) of this privacy-loss distribution."""
        return int(self.mass.size)

    def times(self, other: "Atoms") -> "Atoms":
        """Return the distribution of the sum of two independent losses, with this distribution and with `other`."""
        return Atoms(
            (self.loss[:, None] + other.loss[None, :]).ravel(),
            (self.mass[:, None] * other.mass[None, :]).ravel(),
            self.relative_error + other.relative_error + UNIT,
            self.dropped + other.dropped,
        )

    def average(self, inner: Loss, x: float) -> Bracket:
        """Return a bracket (a certified interval) for the delta at epsilon `x` of two mechanisms used together.

        This object is the distribution of the privacy loss L of the first mechanism, and `inner` is the privacy loss of
        the second. (Each may stand for a set of mechanisms.) Let d(y) be the delta of the second mechanism alone at
        epsilon y. Then the delta of both together is E[d(x - L)], the average of d over the losses of the first.
        """
        # Positions are rounded, and next to the largest loss that matters. So the upper end is read a little further
        # left and the lower end a little further right.
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
"""The privacy loss of no mechanism: 0 with probability 1."""


@lru_cache(maxsize=2048)
def two_point_atoms(high: float, low: float, count: int, smallest_ratio: float) -> Atoms:
    """Return the distribution of the total privacy loss of `count` equal mechanisms with two outcomes, value by value.

    The losses of the two outcomes are `high` > 0 > `low`. Total losses less likely than `smallest_ratio` times the
    probability of the most likely total loss are left out. Callers must not change the arrays, because results are
    cached.
    """
    # Branch and bound over boxes of parameters asks for the same losses again and again.
    if count == 1:
        odds = odds_of_low(high, low)
        mass = np.array([1.0, odds]) / (1.0 + odds)
        return Atoms(np.array([high, low]), mass, (_UNITS_PER_STEP + 64) * UNIT, 0.0)
    masses = binomial_masses(count, odds_of_low(high, low), smallest_ratio)
    loss = top_loss(high, low, count, masses) - multiples(high - low, 0, masses.mass.size)
    return Atoms(loss, masses.mass, masses.relative_error, masses.dropped)

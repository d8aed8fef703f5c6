"""Certified privacy profiles on a grid, and the bounded-range operator on them: one more mechanism before the rest.

A profile f(x) is the optimal delta at epsilon = x of everything still to come. Profiles fall with x, are convex in
u = exp(x), and satisfy f(-x) = 1 - exp(-x) + exp(-x) f(x), so x >= 0 is all that is stored: values at x_i = i h.
*Upper* profiles are read between grid points along chords in u (above, because f is convex in u) and beyond the last
point as constant (above, because f falls). *Lower* profiles are read between grid points along the continuation of the
next chord (below, because f is convex in u), and as 0 beyond the last.

The operator takes the profile f of what follows to

    (S f)(x) = sup over t in [0, epsilon] of q_t f(x - t) + (1 - q_t) f(x + epsilon - t).

Lower: t on the grid, so every argument is a grid point. Upper: on the cell p between x_p and x_{p+1} the chord of f is
a_p - b_p u / u_p, with b_p = (f_p - f_{p+1}) / (e^h - 1) and a_p = f_p + b_p. With x - t in cell p, so that
x + epsilon - t is in cell p + N, and x = x_p + (j+1) h, T = exp((j+1) h), the objective is concave in v = e^t, of the
form A - B v - C / v, and its largest value over *all* v is

    f_{p+N} + (1 - T e^-epsilon) b_{p+N} + c (a_p - a_{p+N}) (1 - sqrt(T e^-epsilon omega_p))^2,

    omega_p = (b_p - e^-epsilon b_{p+N}) / (a_p - a_{p+N}),

with c = 1 / (1 - e^-epsilon): a sum of non-negative terms. It is attained at t = (w_p + (j+1) h) / 2, where
w_p = epsilon + log(omega_p) depends on the cell alone. Chords continued beyond their cell lie below f, so no cell ever
overstates the supremum, and the cell where it is attained states it exactly. That cell has t in [w_p, w_p + h],
whatever x: each cell competes for two or three values of x only, and a step costs a few passes over the grid. No search
is trusted.
(Proof: docs/optimal-composition.md, "One step".)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import UNIT
from setwise.accounting.losses.lattice import multiples

Floats = NDArray[np.float64]

_LEAST_REACH = 6.4
"""Standard deviations of grid kept at least beyond the point that will be read; from there f counts as flat."""

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
        position = np.minimum(size / self.step, self.lower.size)  # beyond the grid, and within the range of integers
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


Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """Which cells are taken together. More competitors than needed cost time and change nothing."""

    tie: float = 1e-6
    """Cells this close to the next t, in grid steps, compete with both."""
    few_t: int = 6
    """Grid steps by which w may vary within a block whose cells are taken as a whole."""
    block: int = 12
    """Length of a block, in ranges of the mechanism (cells of one epsilon)."""


CONFIG = OperatorConfig()

_TINY = 1e-300
"""Keeps quotients and logarithms of differences that vanish finite; far below any difference that matters."""

_NEARLY_ONE = 1.0 - 1e-6
"""A profile this close to 1 has chords that differ by round-off only."""

_NONE = np.empty(0, dtype=np.int64)
_FEW = np.arange(3)[:, None]


def specification(read: Callable[[Floats], Floats], epsilon: float, x: float, points: int = 4000) -> float:
    """Return (S f)(x) by its definition, as a maximum over many t: what `BoundedRangeStep` must agree with.

    `read` returns f at any x. From a profile read from above this is a relative (epsilon / points)^2 or so below
    the upper value of the step; from one read from below it is at least the lower value.
    """
    t = np.linspace(0.0, epsilon, points + 1)
    keep = np.expm1(t - epsilon) / math.expm1(-epsilon)
    return float((keep * read(x - t) + (1.0 - keep) * read(x + epsilon - t)).max())


class BoundedRangeStep:
    """The operator S for one epsilon, its constants worked out once; `specification` says what it computes.

    Requires: cells * step >= epsilon. From above, the mechanism is taken to have the larger range cells * step; from
    below, it keeps its own probabilities and its far argument moves right, where profiles are lower.
    """

    def __init__(self, epsilon: float, cells: int, step: float) -> None:
        self.cells = cells
        self.step = step
        own, epsilon = epsilon, cells * step
        grid = multiples(step, 0, cells + 1)
        self._per_growth = 1.0 / math.expm1(step)
        self._shrink = math.exp(-epsilon)
        self._scale = -1.0 / math.expm1(-epsilon)
        self._mirror, self._decay = -np.expm1(-grid[1:]), np.exp(-grid[1:])
        # q_t on the grid, and its complement, without cancellation
        self._keep = np.maximum(np.expm1(grid - epsilon) / math.expm1(-epsilon), 0.0)
        self._flip = np.expm1(grid) / math.expm1(epsilon)
        moved = 4.0 * UNIT * own  # what the rounding of grid - own may have added to the share that keeps
        self._own_keep = np.maximum((np.expm1(grid - own) + moved) / math.expm1(-own), 0.0)
        self._own_flip = np.minimum(np.expm1(grid) / math.expm1(own), 1.0)
        # T e^-epsilon for t in [j h, (j+1) h]: how far the far chord is continued, and the root of it
        self._short = np.maximum(-np.expm1(grid[1:] - epsilon), 0.0)
        self._root = np.exp(0.5 * (grid[1:] - epsilon))
        self.rounding = (430.0 + 16.0 * epsilon) * (1.0 + cells * self._scale) * UNIT
        """Relative error of one step (docs/optimal-composition.md, rounding of the values)."""

    @cached_property
    def _square(self) -> tuple[Floats, Floats]:
        """A table that `_maximise_tail` fills, and its rows, each shifted by one more: columns are values of x."""
        table = np.full((self.cells + 1, 2 * self.cells + 1), -1.0)
        row, column = table.strides
        return table, np.lib.stride_tricks.as_strided(table, (self.cells + 1, self.cells), (row + column, column))

    def apply(self, profile: Profile, size: int) -> Profile:
        """Return S f on `size` grid points from 0 on.

        Requires: the profile is on this operator's step.
        """
        upper, choices = self._upper(profile.upper, size)
        lower = self._lower(profile.lower, size, choices)
        return Profile(self.step, lower, upper, profile.rounding + self.rounding)

    def apply_upper(self, profile: Profile, size: int) -> Profile:
        """Return S f from above on `size` grid points from 0 on; the lower values are 0.

        Requires: the profile is on this operator's step.
        """
        upper, _ = self._upper(profile.upper, size)
        return Profile(self.step, np.zeros(size), upper, profile.rounding + self.rounding)

    def _extended(self, values: Floats, size: int, beyond: float) -> Floats:
        """Return f at x = -epsilon, ..., (size - 1) h + epsilon: mirrored on the left, `beyond` on the right."""
        cells = self.cells
        f = np.empty(size + 2 * cells)
        known = min(values.size, size + cells)
        f[cells : cells + known] = values[:known]
        f[cells + known :] = beyond
        seen = f[cells + 1 : 2 * cells + 1]
        f[:cells] = (self._mirror + self._decay * seen)[::-1]
        return f

    def _upper(self, values: Floats, size: int) -> tuple[Floats, "Choices"]:
        """Return the upper values of S f, and which t on the grid were near the best for which x."""
        cells = self.cells
        f = self._extended(values, size, float(values[-1]))
        out = f[cells : cells + size].copy()  # t = 0 is allowed and reveals nothing: S f >= f
        choices = Choices([], [])
        # Cells beyond the last known value, or where f is 0 (it falls, so from there on), cannot raise any value.
        cut = values[-1] > 0.0
        count = min(size, values.size) + cells - 1 if cut else min(size + cells - 1, int(np.count_nonzero(f)))
        if count == 0:
            return out, choices
        # chords of cell p and of its partner p + cells, where f[p] is the value at x = (p - cells) h
        b = f[:-1] - f[1:]
        b *= self._per_growth
        a = f[:-1] + b
        a_near, a_far, b_near, b_far = a[:count], a[cells : cells + count], b[:count], b[cells : cells + count]
        drop_a = a_near - a_far
        drop_b = b_near - self._shrink * b_far
        # Neither is negative but for rounding, and taking it for positive is on the safe side.
        np.abs(drop_a, out=drop_a)
        np.abs(drop_b, out=drop_b)
        drop_a += _TINY
        drop_b /= drop_a
        omega = drop_b
        if f[0] > _NEARLY_ONE:
            # Where the chords differ by round-off only, t makes no difference: any value in range will do.
            omega[drop_a <= 256 * UNIT * a_near] = math.sqrt(self._shrink)
        drop_a *= self._scale
        terms = CellTerms(f[cells : cells + count], b_far, drop_a, np.sqrt(omega))
        smooth, rough, tail = self._competitors(omega)
        for j, first, last in smooth:
            lo, hi = max(first, cells - 1 - j), min(last, size + cells - 1 - j)
            if lo < hi:
                start = lo + 1 + j - cells
                stop = start + hi - lo
                value = terms.root[lo:hi] * self._root[j]
                value -= 1.0
                value *= value
                value *= drop_a[lo:hi]
                value += b_far[lo:hi] * self._short[j]
                value += terms.far[lo:hi]
                np.maximum(out[start:stop], value, out=out[start:stop])
                choices.spans.append((j, start, stop))
        if rough.size:
            self._maximise_rough_cells(rough, f, terms, omega, out, choices)
        if tail < omega.size:
            self._maximise_tail(tail, f, terms, omega, out)
            # Where the grid was cut, lower values matter little and one t will do; elsewhere all are tried.
            start = tail + 1 - cells
            middle = cells // 2
            tried = range(cells + 1) if not cut else range(middle, middle + 1)
            choices.spans.extend((j, max(start, 0), size) for j in tried)
        # Both arguments are at least x - epsilon, and f falls: where f is flat, this keeps rounding from growing.
        np.minimum(out, f[:size], out=out)
        return out, choices

    def _competitors(self, omega: Floats) -> tuple[list[tuple[int, int, int]], Integers, int]:
        """Return the smooth cells as (j, first, last), competing with t in [j h, (j+1) h]; the rough cells; the tail.

        A local maximum sits in cell p with t in [w_p, w_p + h], or, where w jumps up by more than h, at the edge of
        two cells. A block whose w varies little is smooth: every cell competes with every j that any cell of it could
        need, which covers its edges too. The tail are the cells that see the end of the grid.
        """
        tail = omega.size - self.cells - 1
        block = CONFIG.block * self.cells
        if tail < 2 * block:
            return [], np.arange(omega.size), omega.size
        blocks = tail // block
        pairs = _overlapping(blocks, block, tail)
        extremes = np.concatenate((np.minimum.reduceat(omega, pairs)[::2], np.maximum.reduceat(omega, pairs)[::2]))
        w = np.log(np.maximum(extremes, 1e-300)) / self.step + self.cells
        w[:blocks] -= CONFIG.tie
        w[blocks:] += CONFIG.tie
        floor = np.floor(w).astype(np.int64).tolist()
        smooth: list[tuple[int, int, int]] = []
        spans: dict[int, list[int]] = {}
        rough = []
        index = 0
        for (low, high), group in groupby(zip(floor[:blocks], floor[blocks:], strict=True)):
            begin, index = index, index + sum(1 for _ in group)
            first, last = begin * block, index * block if index < blocks else tail
            inside = low >= 0 and high < self.cells
            if inside and high <= low + CONFIG.few_t:
                for j in range(low, min(high + 2, self.cells)):
                    earlier = spans.get(j)
                    if earlier is not None and earlier[1] == first:
                        earlier[1] = last
                    else:
                        if earlier is not None:
                            smooth.append((j, earlier[0], earlier[1]))
                        spans[j] = [first, last]
            else:
                rough.append(np.arange(first, last))
        smooth += [(j, first, last) for j, (first, last) in spans.items()]
        return smooth, np.concatenate(rough) if rough else _NONE, tail

    def _maximise_tail(self, tail: int, f: Floats, terms: "CellTerms", omega: Floats, out: Floats) -> None:
        """Let the cells of the tail compete, and its grid points with every t: a square of values, a few operations.

        A cell has a say only near its own best t. Chords continued further would magnify rounding where f is flat, as
        it is near the end of a cut grid.
        """
        cells = self.cells
        square = terms.root[tail:, None] * self._root
        square -= 1.0
        square *= square
        square *= terms.gain[tail:, None]
        square += terms.slope[tail:, None] * self._short
        square += terms.far[tail:, None]
        w = np.log(omega[tail:] + _TINY) / self.step + cells
        square[np.abs(w[:, None] - np.arange(cells)) > 2.0] = -1.0
        edges = f[tail : omega.size, None] * self._keep[1:]
        edges += f[tail + cells : omega.size + cells, None] * self._flip[1:]
        # cell p at t in [j h, (j+1) h] and its left edge at t = (j+1) h serve x = x_p + (j+1) h
        table, shifted = self._square
        np.maximum(square, edges, out=shifted)
        best = table.max(axis=0)
        start = tail + 1 - cells
        count = min(out.size - start, 2 * cells)
        np.maximum(out[start : start + count], best[:count], out=out[start : start + count])

    def _maximise_rough_cells(
        self,
        rough: Integers,
        f: Floats,
        terms: "CellTerms",
        omega: Floats,
        out: Floats,
        choices: "Choices",
    ) -> None:
        """Let each rough cell compete with the few t that can be best in it, and each edge where w jumps up."""
        cells, size = self.cells, out.size
        # the cell before the first comes along, to see the edge between them
        w = np.log(np.maximum(omega[np.concatenate((np.maximum(rough - 1, 0), rough))], 1e-300)) / self.step + cells
        before, w = w[: rough.size], w[rough.size :]
        j = (np.floor(w - CONFIG.tie).astype(np.int64) + _FEW).ravel()
        cell = np.broadcast_to(rough, (_FEW.size, rough.size)).ravel()
        at = cell + 1 + j - cells
        ok = np.flatnonzero((j >= 0) & (j < cells) & (at >= 0) & (at < size))
        j, at, cell = j[ok], at[ok], cell[ok]
        square = (1.0 - self._root[j] * terms.root[cell]) ** 2
        np.maximum.at(out, at, terms.far[cell] + self._short[j] * terms.slope[cell] + terms.gain[cell] * square)
        choices.singles.append((j, at))
        edge = np.flatnonzero(w > before + 0.5)
        if edge.size:
            first = np.clip(before[edge], 1, cells - 1).astype(np.int64)
            many = np.clip(np.ceil(w[edge]).astype(np.int64) + 1, first, cells - 1) - first + 1
            cell = np.repeat(rough[edge], many)
            j = np.repeat(first - np.cumsum(many) + many, many) + np.arange(cell.size)
            at = cell - cells + j
            ok = np.flatnonzero((at >= 0) & (at < size))
            j, at, cell = j[ok], at[ok], cell[ok]
            np.maximum.at(out, at, self._keep[j] * f[cell] + self._flip[j] * f[cell + cells])
            choices.singles.append((j, at))

    def _lower(self, values: Floats, size: int, choices: "Choices") -> Floats:
        """Return the lower values: any t on the grid is allowed, so only those near the upper's choice are tried."""
        cells = self.cells
        f = self._extended(values, size, 0.0)
        out = f[cells : cells + size].copy()
        for j, start, stop in choices.spans:
            at = start + cells - j  # index in f of x - t for the first x
            value = self._own_keep[j] * f[at : at + stop - start]
            value += self._own_flip[j] * f[at + cells : at + cells + stop - start]
            np.maximum(out[start:stop], value, out=out[start:stop])
        for many, to in choices.singles:
            near = to + cells - many
            np.maximum.at(out, to, self._own_keep[many] * f[near] + self._own_flip[many] * f[near + cells])
        return out


class RandomizedResponseStep:
    """The operator of pure DP from above: (D f)(x) = q f(x - epsilon) + (1 - q) f(x + epsilon), epsilon = cells * step.

    Both arguments are grid points, so nothing is interpolated. An average of convex, falling, symmetric functions of u
    is one, so what is said of the values of `BoundedRangeStep` holds for these as well.
    """

    def __init__(self, cells: int, step: float) -> None:
        self.cells, self.step = cells, step
        epsilon = cells * step
        self._keep = 1.0 / (1.0 + math.exp(-epsilon))
        self._flip = math.exp(-epsilon) * self._keep
        grid = multiples(step, 1, cells)
        self._mirror, self._decay = -np.expm1(-grid), np.exp(-grid)
        self.rounding = (64.0 + 16.0 * epsilon) * UNIT
        """Relative error of one step: a few elementary functions, two products and two sums of positive terms."""

    def apply_upper(self, profile: Profile, size: int) -> Profile:
        """Return D f from above on `size` grid points from 0 on; the lower values are 0.

        Requires: the profile is on this operator's step.
        """
        cells, values = self.cells, profile.upper
        f = np.full(size + 2 * cells, float(values[-1]))  # beyond the last point f counts as constant: it falls
        known = min(values.size, size + cells)
        f[cells : cells + known] = values[:known]
        f[:cells] = (self._mirror + self._decay * f[cells + 1 : 2 * cells + 1])[::-1]
        upper = self._keep * f[:size] + self._flip * f[2 * cells :]
        return Profile(self.step, np.zeros(size), upper, profile.rounding + self.rounding)


def _overlapping(blocks: int, block: int, end: int) -> Integers:
    """Return starts and ends of blocks that share one cell with the block before, so that an edge belongs to one."""
    pairs = np.arange(0, 2 * blocks) // 2 * block
    pairs[1::2] += block
    pairs[2::2] -= 1
    pairs[-1] = end
    return pairs


@dataclass(frozen=True, slots=True)
class Choices:
    """Which t = j h came near the best for which x: runs of x as (j, start, stop), and single ones as (j, x)."""

    spans: list[tuple[int, int, int]]
    singles: list[tuple[Integers, Integers]]


@dataclass(frozen=True, slots=True)
class CellTerms:
    """Per cell: far value and slope, the gain c (a_p - a_{p+N}), and the root of omega_p."""

    far: Floats
    slope: Floats
    gain: Floats
    root: Floats

"""The operator that adds a bounded-range mechanism to a certified privacy profile on a grid of epsilons.

A privacy profile f(x) is the optimal delta at epsilon = x of all mechanisms still to come. The operator S takes f and
returns the profile of an epsilon-bounded-range mechanism followed by the mechanisms of f:

    (S f)(x) = sup over t in [0, epsilon] of q_t f(x - t) + (1 - q_t) f(x + epsilon - t),

where q_t = (1 - e^(t - epsilon)) / (1 - e^-epsilon) is the probability of the loss t in generalized randomized
response. The comment above `OperatorConfig` derives how certified bounds on S f are computed.
"""

# Profiles fall with x, are convex in u = exp(x), and satisfy f(-x) = 1 - exp(-x) + exp(-x) f(x). So only the values at
# x_i = i h >= 0 are stored.
#
# An *upper* profile is read between grid points along the chord in u, and beyond the last point as constant. A *lower*
# profile is read between grid points along the continuation of the next chord, and as 0 beyond the last point. The
# readings are bounds because f is convex in u and falls.

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.adaptive.profiles import CHORD_ROUNDING, Profile
from setwise.accounting.brackets import UNIT
from setwise.accounting.losses.lattice import multiples

Floats = NDArray[np.float64]

Integers = NDArray[np.int64]


# How the operator S is computed.
#
# Lower bound: t is restricted to the grid, so every argument is a grid point. Upper bound: on the cell p between x_p
# and x_{p+1} the chord of f is a_p - b_p u / u_p, with b_p = (f_p - f_{p+1}) / (e^h - 1) and a_p = f_p + b_p. Let
# epsilon span N cells. Let x - t be in cell p, so that x + epsilon - t is in cell p + N, and let x = x_p + (j+1) h and
# T = exp((j+1) h). Then the objective is concave in v = e^t, of the form A - B v - C / v, and its largest value over
# *all* v is
#
#     f_{p+N} + (1 - T e^-epsilon) b_{p+N} + c (a_p - a_{p+N}) (1 - sqrt(T e^-epsilon omega_p))^2,
#
#     omega_p = (b_p - e^-epsilon b_{p+N}) / (a_p - a_{p+N}),
#
# with c = 1 / (1 - e^-epsilon): a sum of non-negative terms. It is attained at t = (w_p + (j+1) h) / 2, where w_p =
# epsilon + log(omega_p) depends on the cell only. Chords continued beyond their cell lie below f, so no cell overstates
# the supremum, and the cell where the supremum is attained states it exactly. That cell has t in [w_p, w_p + h],
# whatever x is. So each cell has to be tried for only two or three values of x, and one application costs a few passes
# over the grid. The result does not depend on a numerical search. (Proof: docs/optimal-composition.md, "One step".)


@dataclass(frozen=True, slots=True)
class OperatorConfig:
    """Constants that decide which parts of a grid of epsilons are computed in one array operation, to save time.

    The class `BoundedRangeStep` uses them. It computes the privacy profile (delta as a function of epsilon) of a
    bounded-range mechanism followed by others. A grid divides the epsilons into cells. The delta in a cell is a maximum
    over t, the larger one of the two privacy losses that the mechanism can have. The t that gives the maximum is the
    best t of the cell, and only values of t near it are tried. Neighbouring cells often have nearly the same best t,
    and are then computed together, as one block. The constants change the time of a computation but not its result.
    """

    tie: float = 1e-6
    """The best t of a cell (the t that gives its delta) lies between two multiples of the grid step. If it is closer
    than this number, in grid steps, to one of these multiples, the values of t on both sides of the multiple are
    tried, because rounding may have put the best t on the wrong side."""
    few_t: int = 6
    """The cells of a block (neighbouring cells) are computed together if their best t, the t that gives the delta of a
    cell, differ by at most this many grid steps."""
    block: int = 12
    """Number of neighbouring cells in a block, as a multiple of the number of cells across the mechanism's epsilon."""


CONFIG = OperatorConfig()

_TINY = 1e-300
"""Added to differences that may vanish, so that quotients and logarithms stay finite; far below any relevant
difference."""

_NEARLY_ONE = 1.0 - 1e-6
"""If a profile is closer to 1 than this, its chords differ only by rounding."""

_NONE = np.empty(0, dtype=np.int64)
_FEW = np.arange(3)[:, None]


def specification(read: Callable[[Floats], Floats], epsilon: float, x: float, points: int = 4000) -> float:
    """Return the largest delta, at overall epsilon `x`, of one epsilon-bounded-range mechanism followed by others.

    The function follows the definition of this delta, as a maximum over t, and so is slow. Tests compare the faster
    class `BoundedRangeStep` with it.

    - `read` maps an array of epsilons to the deltas of the following mechanisms at these epsilons.
    - `points`: the maximum is over `points` + 1 values of t, the larger of the two privacy losses that the first
      mechanism (a generalized randomized response) can have.
    """
    # The result is the maximum of q_t f(x - t) + (1 - q_t) f(x + epsilon - t) over t from 0 to epsilon, where f is the
    # profile and q_t = (1 - e^(t - epsilon)) / (1 - e^-epsilon) the probability of the loss t. If `read` returns the
    # upper bounds of a `Profile`, the result is below the upper bound that `BoundedRangeStep` computes, by a share of
    # about (epsilon / points)^2. If `read` returns the lower bounds, the result is at least the lower bound that
    # `BoundedRangeStep` computes.
    t = np.linspace(0.0, epsilon, points + 1)
    keep = np.expm1(t - epsilon) / math.expm1(-epsilon)
    return float((keep * read(x - t) + (1.0 - keep) * read(x + epsilon - t)).max())


def step_rounding(epsilon: float, cells: int) -> float:
    """Return a bound on the relative rounding error with which the bounded-range operator S computes upper bounds.

    S takes the privacy profile f of later mechanisms (delta as a function of epsilon), and returns the profile of an
    epsilon-bounded-range mechanism followed by the later mechanisms. `cells` is the number N of grid cells across
    `epsilon`.

    Theorem: if the stored values of f are convex in u = e^x, the computed (S f)(x) is at least (1 - r) times the exact
    (S f)(x), where r is the result: (430 + 16 epsilon) (1 + N c) 2^-53, with c = 1 / (1 - e^-epsilon).
    """
    # Proof, with errors in units. (i) Inputs. b errs by 12 units of itself (one difference, one product, 1 / (e^h - 1))
    # and a = f_p + b by 13. So A = a - a' errs by at most 27 a. With s T and the roots in which it is used, B = s T (b
    # - s b') errs by at most (70 + 4 epsilon) s T b: 12 and 21 + epsilon for the two terms, 1 for the difference, and 2
    # (17.5 + 1.5 epsilon) for the quotient, its root, sqrt(s T) and their product. Absolute values do not raise these
    # errors, because A and B are not negative.
    #
    # (ii) The square. (A, B) -> (sqrt(A) - sqrt(B))^2 is convex, so it falls by no more than its gradient says: by the
    # error of A times |1 - sqrt(B / A)| plus the error of B times |1 - sqrt(A / B)|. Where the maximum is inside its
    # cell, sqrt(B / A) = sqrt(s T omega) = e^(t - epsilon). With q_t = c (1 - e^(t - epsilon)) the two terms times c
    # are at most 27 a q_t and (70 + 4 epsilon) e^h b q_t, because T e^-t <= e^h.
    #
    # (iii) Compared with V. f_{p+1} >= 0, so b <= f_p / (e^h - 1) <= f_p N c, and e^h b <= (1 + N c) f_p. Together the
    # error is at most (97 + 4 epsilon) (1 + N c) q_t f_p. And V >= q_t f_p / 4: if (j+1) h <= epsilon - h, take t' =
    # (j+1) h, where x - t' = x_p and q_t' >= q_t / 2. If (j+1) h = epsilon, put z = epsilon - t <= h and take epsilon -
    # t' = z/2: q_t' >= q_t / 2, and f(x - t') = f_p - b (e^(z/2) - 1) >= f_p - b (e^z - 1) / 2 >= f_p / 2, because f(x
    # - t) >= 0.
    #
    # (iv) All other operations are products and sums of non-negative terms: at most 3 N + 23 units, 3 N of them for 1 -
    # s T next to t = epsilon. The sum, 388 + 16 epsilon + 23 times 1 + N c, leaves 4 percent for products of errors.
    #
    # Where slopes are smaller than their rounding errors, the computed w_p may be wrong by more than the margin. Let nu
    # bound the error of the computed derivative of the objective in t. Around the true maximiser take the largest
    # interval on which the true derivative is at most nu in size. At its left end the computed derivative is positive
    # or t = 0, at its right end it is negative or t = epsilon. So the computed derivative changes sign inside, or an
    # end is reached; the code tries this t, which loses at most nu epsilon. Cells in which a - a' is below 256 units of
    # a count as flat: such a cell exceeds f(x) by at most c (a - a') (1 - e^(t - epsilon))^2 <= (a - a') q_t, at most 4
    # * 256 (1 + N c) units of V.
    return (430.0 + 16.0 * epsilon) * (1.0 - cells / math.expm1(-epsilon)) * UNIT


class BoundedRangeStep:
    """The operator S that puts one epsilon-bounded-range mechanism before later mechanisms.

    S takes the privacy profile f of the later mechanisms (delta as a function of epsilon), and returns the profile of
    the added mechanism followed by the later ones. At an overall epsilon x, (S f)(x) is the supremum over t in [0,
    epsilon] of q_t f(x - t) + (1 - q_t) f(x + epsilon - t), where q_t is the probability that generalized randomized
    response has the loss t. Profiles are on a grid of epsilons with this `step`, and `cells` is the number of grid
    steps that cover epsilon.

    Requires: cells * step >= epsilon.
    """

    # `cells` is the number of grid cells that epsilon spans, rounded up. For the upper bound, the mechanism is treated
    # as if it had the larger range cells * step. For the lower bound, it keeps its own q_t, and f is read not at x +
    # epsilon - t but at the grid point x + cells * step - t to its right, where f is lower.

    def __init__(self, epsilon: float, cells: int, step: float) -> None:
        self.cells = cells
        self.step = step
        true_epsilon, epsilon = epsilon, cells * step
        grid = multiples(step, 0, cells + 1)
        self._per_growth = 1.0 / math.expm1(step)
        self._shrink = math.exp(-epsilon)
        self._scale = -1.0 / math.expm1(-epsilon)
        self._mirror, self._decay = -np.expm1(-grid[1:]), np.exp(-grid[1:])
        # q_t at the grid values of t, and 1 - q_t, each computed without cancellation
        self._keep = np.maximum(np.expm1(grid - epsilon) / math.expm1(-epsilon), 0.0)
        self._flip = np.expm1(grid) / math.expm1(epsilon)
        margin = 4.0 * UNIT * true_epsilon  # rounding may enlarge q_t; the margin keeps the lower bound valid
        self._own_keep = np.maximum((np.expm1(grid - true_epsilon) + margin) / math.expm1(-true_epsilon), 0.0)
        self._own_flip = np.minimum(np.expm1(grid) / math.expm1(true_epsilon), 1.0)
        # 1 - T e^-epsilon for t in [j h, (j+1) h], which is how far the far chord is continued, and sqrt(T e^-epsilon)
        self._short = np.maximum(-np.expm1(grid[1:] - epsilon), 0.0)
        self._root = np.exp(0.5 * (grid[1:] - epsilon))
        self.rounding = step_rounding(epsilon, cells)
        """Relative rounding error of one application."""

    @cached_property
    def _square(self) -> tuple[Floats, Floats]:
        """A table, and an array with shifted rows that shares its memory, for maxima over equal sums of two indices.

        `_maximise_tail` computes one value for each pair (i, j) of a grid cell i and a whole number j. The value
        belongs to the grid point i + j, and each grid point needs the largest of its values. The second array makes
        this quick: its entry (i, j) is the entry (i, i + j) of the table. So values that are written to the pairs (0,
        2), (1, 1) and (2, 0) of the second array all come to lie in column 2 of the table, and the maximum of this
        column is the number wanted for the grid point 2.

        Both arrays are made once and reused, because making them takes time.
        """
        # A row of the table is a grid cell and a column a grid point. Cell i with the j-th value of t gives a value at
        # the grid point i + j. It is written to (i, j) of the view, which is column i + j of the table. So the maximum
        # of a column is the maximum at its grid point.
        table = np.full((self.cells + 1, 2 * self.cells + 1), -1.0)
        row, column = table.strides
        return table, np.lib.stride_tricks.as_strided(table, (self.cells + 1, self.cells), (row + column, column))

    def apply(self, profile: Profile, size: int) -> Profile:
        """Return the privacy profile of one bounded-range mechanism followed by the mechanisms of `profile`.

        A privacy profile is delta as a function of epsilon. The result has lower and upper bounds on delta at `size`
        grid points, from the first grid point of `profile` on.

        Requires: the distance between grid points of `profile` is `step`, as in this object.
        """
        upper, choices = self._upper(profile.upper, size, profile.first)
        lower = self._lower(profile.lower, size, choices, profile.first)
        return Profile(self.step, lower, upper, self._rounding_after(profile), profile.first)

    def apply_upper(self, profile: Profile, size: int) -> Profile:
        """Return an upper bound on the profile of one bounded-range mechanism followed by the mechanisms of `profile`.

        A privacy profile is delta as a function of epsilon. The result has `size` grid points, from the first grid
        point of `profile` on. To save time, lower bounds are not computed, and all lower bounds of the result are 0.

        Requires: the distance between grid points of `profile` is `step`, as in this object.
        """
        upper, _ = self._upper(profile.upper, size, profile.first)
        return Profile(self.step, np.zeros(size), upper, self._rounding_after(profile), profile.first)

    def _rounding_after(self, profile: Profile) -> float:
        """Return the relative rounding error of the profile that results if this operator is applied to `profile`.

        A privacy profile is delta as a function of epsilon, on a grid of epsilons. Errors of successive operators add
        up: the result is the rounding error of `profile` plus the rounding error of one application. If `profile`
        leaves out points at the beginning of its grid, a small error for reading delta there is added.
        """
        return profile.rounding + self.rounding + (CHORD_ROUNDING if profile.first else 0.0)

    def _extend(self, values: Floats, size: int, beyond: float) -> Floats:
        """Return the privacy profile f (delta as a function of epsilon) at the grid points from x = -epsilon on.

        The operator of an epsilon-bounded-range mechanism reads f at up to epsilon left and right of each of `size`
        grid points. With h the grid step and epsilon = N h, the result has the `size` + 2 N values f(-N h), f(-N h +
        h), and so on.

        - `values` are f at 0, h, 2h, ... Values at negative x follow from the symmetry f(-x) = 1 - exp(-x) + exp(-x)
          f(x).
        - `beyond` is the constant value given to grid points right of the last entry of `values`.
        """
        cells = self.cells
        f = np.empty(size + 2 * cells)
        count = min(values.size, size + cells)
        f[cells : cells + count] = values[:count]
        f[cells + count :] = beyond
        seen = f[cells + 1 : 2 * cells + 1]
        f[:cells] = (self._mirror + self._decay * seen)[::-1]
        return f

    def _upper(self, values: Floats, size: int, left_out: int = 0) -> tuple[Floats, "Choices"]:
        """Return upper bounds on a new privacy profile at `size` grid points, and values of t that nearly attain them.

        The new profile (delta as a function of epsilon) belongs to one bounded-range mechanism followed by other
        mechanisms. At each grid point it is a maximum over t, the larger of the two losses that the first mechanism can
        have. `_lower` computes lower bounds at the returned values of t.

        - `values` are upper bounds on the profile of the other mechanisms, at consecutive grid points.
        - `left_out` is the index of the first of these grid points, and of the first grid point of the result. The
          bounds at earlier points were dropped to save time.
        """
        # At each grid point the new profile is a supremum over t in [0, epsilon]; the second result has the t near the
        # supremum. At grid points left out the profile is bounded by the chord of `Profile.whole`.
        cells = self.cells
        f = self._extend(values, size, float(values[-1]))
        if left_out:
            f[:cells] = (self._mirror + self._decay * f[cells])[::-1]
        out = f[cells : cells + size].copy()  # t = 0 is allowed and reveals nothing, so S f >= f
        choices = Choices([], [])
        # Cells beyond the last known value cannot raise any value, nor can cells from the first zero of f on.
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
        # Neither difference is negative except by rounding, and the absolute value keeps the bound from above.
        np.abs(drop_a, out=drop_a)
        np.abs(drop_b, out=drop_b)
        drop_a += _TINY
        drop_b /= drop_a
        omega = drop_b
        if f[0] > _NEARLY_ONE:
            # Where the chords differ only by rounding, every t gives the same value, so any omega in range will do.
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
            # At the end of a cut grid the lower values hardly matter, so one t is tried; otherwise every t is.
            start = tail + 1 - cells
            middle = cells // 2
            tried = range(cells + 1) if not cut else range(middle, middle + 1)
            choices.spans.extend((j, max(start, 0), size) for j in tried)
        # Both arguments are at least x - epsilon and f falls, so (S f)(x) <= f(x - epsilon). Where f is flat, this
        # keeps rounding errors from growing with every application.
        np.minimum(out, f[:size], out=out)
        return out, choices

    def _competitors(self, omega: Floats) -> tuple[list[tuple[int, int, int]], Integers, int]:
        """Return the grid cells to evaluate, in three classes: (smooth cells, rough cells, first cell of the tail).

        The privacy profile (delta as a function of epsilon) of one more mechanism is a maximum over grid cells, the
        intervals between neighbouring grid points, and over t, the larger of the two losses that the mechanism can
        have. To save time, the three classes are evaluated in different ways.

        - Smooth cells lie next to each other and have nearly the same best t, so that they share a few t. They are
          triples (j, first, last): each of the cells first to last - 1 is tried with t from j to j + 1 grid steps.
        - Rough cells are an array of cell indices. Their best t differs much from cell to cell, so each has t of its
          own.
        - The tail has all cells from an index on. Their evaluation reads the profile of the later mechanisms beyond the
          end of its grid.

        `omega` has one positive number w for each cell: the best t in the cell is about epsilon + log(w).
        """
        # Blocks of cells in which the best t varies little are smooth (see the comment at the top of the module). Cells
        # of other blocks are rough, and are evaluated one by one. The tail are the last cells, which read the profile
        # beyond the end of the grid.
        # For the cell p let w_p = epsilon + log(omega_p), and let h be the grid step. The supremum is attained in a
        # cell p with t in [w_p, w_p + h], or at the edge between two cells where w rises by more than h. All cells of a
        # smooth block get every j that one of them needs. Each rough cell is evaluated with three j, from floor(w_p /
        # h) on, and each edge where w rises by more than half a step at every t = j' h in between. The edges of the
        # tail are evaluated at every t on the grid. More evaluations than needed overstate nothing, because a chord
        # continued beyond its cell lies below the profile. The edge after a smooth cell needs none of its own: the next
        # cell covers it.
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
        """Replace entries of `out` by the values from the grid cells from `tail` on, wherever these values are larger.

        `out` becomes the privacy profile (delta as a function of epsilon) of one bounded-range mechanism followed by
        later mechanisms. Each entry of it is a maximum, over t (the larger of the two losses that the first mechanism
        can have) and over grid cells (intervals between neighbouring grid points). Before this call, `out` has the
        maximum over the cells before `tail`; afterwards it has the maximum over all cells.

        - `tail` is the index of the first grid cell to evaluate; all cells after it are evaluated too.
        - `f` is the profile of the later mechanisms.
        - `terms` has four arrays of constants from which the values of each cell are computed (see `CellTerms`).
        - `omega` has one positive number w for each cell, which says where to look: the best t is about epsilon +
          log(w).
        """
        # The new profile is a maximum over the mechanism's parameter t. The cells from `tail` on are evaluated near the
        # t that is best in each, and the left grid point of each of these cells at every t. All values form one square
        # table, so that the work is a few array operations. A cell is not evaluated at other t, because continuing its
        # chord that far would magnify rounding errors where f is flat, as near the end of a grid.
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
        # cell p with t in [j h, (j+1) h] and its left edge with t = (j+1) h both give a value at x = x_p + (j+1) h
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
        """Replace entries of `out` by the values from the grid cells with indices `rough`, wherever these are larger.

        `out` is an upper bound, under construction, on the privacy profile (delta as a function of epsilon, at grid
        points) of two things in a row: this bounded-range mechanism, and the later mechanisms, whose profile is `f`. At
        each grid point, the bound is the maximum of many candidates. A candidate belongs to a grid cell (the interval
        between two neighbouring grid points) and to a number t, the larger of the two losses that the mechanism can
        have. This method tries the candidates of some cells; other methods try the rest.

        - `rough` has the cells whose best t (the t of the largest candidate) differs much from cell to cell. So several
          t are tried for each cell by itself, and not the same t for many cells.
        - `terms` has four arrays of constants, one number per cell, from which candidates are computed (see
          `CellTerms`).
        - `omega` has one positive number w per cell; the best t in the cell is about epsilon + log(w).
        - `choices` receives the pairs of t and grid point that were tried, because lower bounds on the profile are
          computed from the same pairs.
        """
        # Each cell is evaluated at the few t that can be best in it. An edge between two cells where the best t jumps
        # is evaluated too.
        cells, size = self.cells, out.size
        # w of the cell before each rough cell is needed to find the edges between two cells where w jumps up
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

    def _lower(self, values: Floats, size: int, choices: "Choices", left_out: int = 0) -> Floats:
        """Return lower bounds on a privacy profile (delta as a function of epsilon) at `size` consecutive grid points.

        The profile belongs to one bounded-range mechanism followed by other mechanisms. At each grid point it is a
        maximum over t, the larger of the two losses that the first mechanism can have.

        - `values` are lower bounds on the profile of the other mechanisms.
        - `choices` has the pairs of t and grid point to try. Any pair gives a lower bound; pairs near the maximum give
          a good one.
        - `left_out` is how many grid points at the beginning of the grid are not stored, neither in `values` nor in the
          result.
        """
        # The new profile is a supremum over t. The `choices` came near the upper bound. At grid points left out the
        # first stored value is used; it is a lower bound, because a profile falls with epsilon.
        cells = self.cells
        f = self._extend(values, size, 0.0)
        if left_out:
            f[:cells] = f[cells]
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
    """The operator D that puts one epsilon-DP mechanism before later mechanisms, for upper bounds.

    D takes the privacy profile f of the later mechanisms (delta as a function of epsilon), and returns the profile of
    the added mechanism followed by the later ones. At an overall epsilon x, (D f)(x) = q f(x - epsilon) + (1 - q) f(x +
    epsilon), with q = e^epsilon / (1 + e^epsilon). Profiles are on a grid of epsilons with this `step`; epsilon is
    `cells` steps.
    """

    # Both arguments of f are grid points, so nothing is interpolated. D f can be read like a result of
    # `BoundedRangeStep`, because an average of two profiles still falls, is convex in e^x, and has the symmetry f(-x) =
    # 1 - e^-x + e^-x f(x).

    def __init__(self, cells: int, step: float) -> None:
        self.cells, self.step = cells, step
        epsilon = cells * step
        self._keep = 1.0 / (1.0 + math.exp(-epsilon))
        self._flip = math.exp(-epsilon) * self._keep
        grid = multiples(step, 1, cells)
        self._mirror, self._decay = -np.expm1(-grid), np.exp(-grid)
        self.rounding = (64.0 + 16.0 * epsilon) * UNIT
        """Relative error of one application: a few elementary functions, two products, two sums of positive terms."""

    def apply_upper(self, profile: Profile, size: int) -> Profile:
        """Return an upper bound on the profile of one epsilon-DP mechanism followed by the mechanisms of `profile`.

        A privacy profile is delta as a function of epsilon. The result has the first `size` grid points. Lower bounds
        are not computed, so all lower bounds of the result are 0.

        Requires: the distance between grid points of `profile` is `step`, as in this object.
        """
        cells, values = self.cells, profile.upper
        f = np.full(size + 2 * cells, float(values[-1]))  # f falls, so a constant beyond the last point is above it
        count = min(values.size, size + cells)
        f[cells : cells + count] = values[:count]
        f[:cells] = (self._mirror + self._decay * f[cells + 1 : 2 * cells + 1])[::-1]
        upper = self._keep * f[:size] + self._flip * f[2 * cells :]
        return Profile(self.step, np.zeros(size), upper, profile.rounding + self.rounding)


def _overlapping(blocks: int, block: int, end: int) -> Integers:
    """Return the first cell and the end of each of `blocks` blocks of grid cells: start_1, end_1, start_2, end_2, ...

    The caller passes the array to `ufunc.reduceat`, which computes the minimum or maximum of a quantity in each block.
    Each block has `block` cells; only the last block may be longer, because it ends at `end`. Each block but the first
    starts one cell early, so that neighbouring blocks share the cell at the edge between them.

    >>> _overlapping(2, 4, 9).tolist()
    [0, 4, 3, 9]
    """
    pairs = np.arange(0, 2 * blocks) // 2 * block
    pairs[1::2] += block
    pairs[2::2] -= 1
    pairs[-1] = end
    return pairs


@dataclass(frozen=True, slots=True)
class Choices:
    """The values of t that are tried at each grid point when lower bounds on a new privacy profile are computed.

    The new profile (delta as a function of epsilon) is that of a bounded-range mechanism followed by others. At each
    epsilon it is a maximum over t, the larger of the two losses that the bounded-range mechanism can have. Trying only
    some t gives a lower bound. Each t tried is j times the grid step, where j is a whole number.

    - `spans` has triples (j, start, stop): this j is tried at the grid points with the indices start to stop - 1.
    - `singles` has pairs of arrays of equal length: numbers j, and the grid point (by its index) at which each j is
      tried.
    """

    # The operator is a supremum over the parameter t of a bounded-range mechanism; the t here came near the supremum in
    # the upper bound.

    spans: list[tuple[int, int, int]]
    singles: list[tuple[Integers, Integers]]


@dataclass(frozen=True, slots=True)
class CellTerms:
    """Arrays with one number for each grid cell, from which upper bounds on a new privacy profile are computed.

    A privacy profile is delta as a function of epsilon, on a grid of epsilons. The function f below is the profile of
    some mechanisms. The new profile is that of one epsilon-bounded-range mechanism followed by these mechanisms.

    The cell p is the interval between two neighbouring grid points, and x_p is its left end. Within the cell, f is
    replaced by the curve a_p - b_p exp(x - x_p), which has the same values as f at both ends of the cell and is nowhere
    below f. The new profile at one epsilon depends on f in a cell p and in the cell p + N, where N is the number of
    cells across epsilon.

    - `far` is f(x_{p+N}), and `slope` is b_{p+N}.
    - `gain` is (a_p - a_{p+N}) / (1 - e^-epsilon).
    - `root` is the square root of omega_p = (b_p - e^-epsilon b_{p+N}) / (a_p - a_{p+N}).
    """

    # The operator reads f in the cell p and in the far cell p + N.

    far: Floats
    slope: Floats
    gain: Floats
    root: Floats

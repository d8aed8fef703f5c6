"""Quantiles as cells of a grid, picked by the exponential mechanism; a cell stands for one possible result.

One quantile costs one bounded-range use, and m quantiles of the same values cost about log2(m) uses.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import float_above
from setwise.accounting.guarantees import BoundedRange
from setwise.errors import InvalidParameter
from setwise.mechanisms.known_domain import LARGEST_PICK_EPSILON, SMALLEST_RATE
from setwise.mechanisms.parameters import FINEST_RANK, positive_integer, probability, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.sampling.gumbel import Runs, gumbel_order
from setwise.records import set_fields

LARGEST_GRID = 100_000
"""Largest number of grid cells, because every pick draws noise for each cell."""

PARTS = 1024
"""Number of possible cuts through a cell. A cut divides the values of the cell between two slices in multiples of
one part."""

_UNITS = 2 * PARTS
"""Units of length in a cell. Cuts are at the odd units, so that each cut lies inside one cell."""

WEIGHT = 1000
"""Units of weight that one user divides among the cells of their rows, for quantiles over rows."""

_FINEST_SHARE = 10**5
"""Largest denominator of a share within a slice."""

_MOST_VALUES = 2**34
"""Largest number of values, more than there are people. With `_UNITS` and `_FINEST_SHARE`, scores stay below 2^62."""

_DIVIDED_UNITS, _FINEST_DIVIDED_SHARE, _MOST_USERS = 128, 10**4, 2**31
"""The same for votes that users divide: scores of 2^31 users of `WEIGHT` units each stay below 2^62 too."""


def rank_scores(cells: NDArray[np.int64], at: Fraction) -> NDArray[np.int64]:
    """Return the score of each cell of a grid: minus the cell's distance in rank from the wanted quantile.

    A cell stands for one possible result, and `cells` has the number of values in each cell. Of n values, the quantile
    `at` has the rank `at` * n. A cell with m values, after k values in earlier cells, has the ranks k to k + m. Scores
    are multiplied by the denominator of `at`, so that they are whole numbers.

    For example, the median of 9 values has the rank 4.5. The first cell below has the ranks 0 to 1, which are 3.5 away,
    and so the score -3.5 * 2:

    >>> rank_scores(np.array([1, 1, 2, 5]), Fraction(1, 2)).tolist()
    [-7, -5, -1, 0]
    """
    # A cell with m values, above k values in lower cells, has the ranks k to k + m. Its distance is that of the
    # quantile's rank from the nearest of these ranks, and 0 if the quantile's rank is one of them.
    edges = np.concatenate(([0], np.cumsum(cells)))
    return _distances(at.denominator * edges - at.numerator * edges[-1])


def _distances(edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the score of each grid cell: minus the distance of the wanted rank from the ranks of the cell's values.

    The rank of a value is the number of values below it. `edges` are the ranks at the ends of the cells, in ascending
    order, each minus the wanted rank, so cell i has the ranks from edges[i] to edges[i + 1]. The score is 0 for a cell
    whose ranks contain the wanted one. Here the wanted rank is in the second of three cells:

    >>> _distances(np.array([-3, -1, 2, 2])).tolist()
    [-1, 0, -2]
    """
    return np.asarray(-np.maximum(0, np.maximum(edges[:-1], -edges[1:])))


def score_range(at: Fraction) -> int:
    """Return a bound on how much more one user can raise one cell's score than another's.

    A score (see `rank_scores`) is minus a cell's distance in rank from the quantile with the share `at` = a/b of values
    below it. Scores are multiplied by b. If one value is added or removed, the largest change of a score minus the
    smallest is at most 2 max(a, b - a). The noise of the exponential mechanism is in proportion to this number.

    >>> score_range(Fraction(1, 2)), score_range(Fraction(9, 10))
    (2, 18)
    """
    # That is 1 value for the median and less than 2 values for any other quantile. Some grids attain the bound;
    # docs/statistics.md has the proof, and tests enumerate small grids.
    return 2 * max(at.numerator, at.denominator - at.numerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridQuantiles:
    """Selects a grid cell for each of several quantiles with the exponential mechanism.

    The possible results of a quantile are the cells of a grid. A selection of one cell is called a pick.

    - `shares` has for each quantile the share of values below it, such as 1/2 for the median, in ascending order.
    - `cells` is the number of cells of the grid.
    - `epsilon` is the bounded-range parameter of one level of picks. Several quantiles are picked level by level: first
      the middle one, then the middle one of those below and the middle one of those above, and so on.
    - `weight` says how many units one user has. With 1, a user has one value, which adds one unit to its cell. A user
      who may have several values divides `weight` units among the cells of these values, so that all users weigh the
      same.

    Theorem: DongDuRo19 for the exponential mechanism; KaplanScSt22 for halving; docs/statistics.md for the range of the
    scores and for the values that are divided.
    Requires: the units that a user adds to all cells together are at most `weight`.
    Raises: `InvalidParameter` unless the shares are ascending, lie strictly between 0 and 1 and have at most six
    decimals.
    """

    # First a position for the middle quantile is picked, at which the values are cut into two slices. Then the middle
    # one of the lower quantiles is picked from the lower slice, and so on. The values of a cell that is cut are divided
    # between the two slices in the ratio of the cut. So a user adds one value in all to the slices of a level, and a
    # level costs one `epsilon`-bounded-range use. Only the picked cells are released, in ascending order.

    shares: tuple[Fraction, ...]
    cells: int
    epsilon: Fraction
    weight: int = 1

    def __post_init__(self) -> None:
        shares = tuple(probability("at", share) for share in self.shares)
        for share, stated_share in zip(shares, self.shares, strict=True):
            if share.denominator > FINEST_RANK:
                raise InvalidParameter(f"at must be a share of at most six decimals, not {stated_share!r}")
        if not shares or sorted(set(shares)) != list(shares):
            raise InvalidParameter("quantiles need one share or more, each above the one before it")
        set_fields(self, shares=shares)
        positive_integer("cells", self.cells, LARGEST_GRID)
        positive_integer("weight", self.weight, WEIGHT)
        epsilon = rational("epsilon", self.epsilon, SMALLEST_RATE, LARGEST_PICK_EPSILON)
        set_fields(self, epsilon=epsilon)

    @property
    def guarantee(self) -> BoundedRange:
        """The privacy cost of one level of the search for several quantiles: bounded range with the field `epsilon`.

        The exponential mechanism with this epsilon picks one quantile after the other. The first level picks the middle
        quantile, which cuts the values into two parts. The next level picks one quantile in each part, and so on. All
        picks of a level together cost no more than one pick, because a user adds at most one value (or `weight` units,
        if users divide a weight among several values) to all parts together.
        """
        return BoundedRange(epsilon=float_above(self.epsilon))

    @property
    def levels(self) -> int:
        """Number of successive levels in which all quantiles are picked: floor(log2(number of quantiles)) + 1.

        The first level picks the middle quantile. Each further level picks the middle one of the quantiles that are
        left between two neighbouring earlier picks, which halves their number.
        """
        return len(self.shares).bit_length()

    def pick(self, counts: NDArray[np.int64], randomness: Randomness) -> tuple[int, ...]:
        """Return the index of the grid cell that is picked for each quantile, in ascending order of the quantiles.

        `counts` has a number for each cell of the grid. If the field `weight` is 1, every user has one value, and the
        number is how many values lie in the cell. If `weight` is larger, a user may have several values, and divides
        `weight` units among their cells; the number is then how many units lie in the cell.

        Raises: `InvalidParameter` if `counts` does not have one entry for each cell, or if there are more than 2^34
        values (2^31 users, if users divide a weight).
        """
        if len(counts) != self.cells:
            raise InvalidParameter(f"the grid has {self.cells} cells, but counts are for {len(counts)}")
        below = np.concatenate(([0], np.cumsum(counts)))
        if below[-1] > (_MOST_VALUES if self.weight == 1 else _MOST_USERS * self.weight):
            raise InvalidParameter("there are more values than the limit; a user may have only one")
        if len(self.shares) == 1:
            share = self._share(0, 0, 1)
            rate = self.epsilon / (score_range(share) * self.weight)
            return (int(gumbel_order(rank_scores(counts, share), rate, 1, randomness)[0]),)
        grid = _Slice(counts=counts, below=below, units=self._units, low=0, high=self._units * self.cells)
        return self._pick_between(grid, 0, len(self.shares), randomness)

    def _pick_between(self, values: "_Slice", first: int, last: int, randomness: Randomness) -> tuple[int, ...]:
        """Return the picked grid cells of the quantiles with indices `first` to `last` - 1, ascending.

        The middle quantile is picked first. The pick cuts `values` into two parts, from which the other quantiles are
        picked.

        - `values` are the values between the picks of the quantiles `first` - 1 and `last` (or the ends of the grid).
        - `randomness` is the source of the picks.
        """
        if first == last:
            return ()
        middle = (first + last) // 2
        share = self._share(first, middle, last)
        rate = self.epsilon / (score_range(share) * self._units * self.weight)
        if last - first == 1:
            return (values.pick_cell(share, rate, randomness),)
        cut = values.pick_cut(share, rate, randomness)
        lower, upper = values.halves(cut)
        before = self._pick_between(lower, first, middle, randomness)
        return (*before, cut // self._units, *self._pick_between(upper, middle + 1, last, randomness))

    def _share(self, first: int, middle: int, last: int) -> Fraction:
        """Return which share of the values between two quantiles picked before should lie below another quantile.

        `middle` is the index of this other quantile. It is picked among the values between the quantiles `first` - 1
        and `last`; if one of these does not exist, the end of the grid takes its place. For example, the quartile 1/4
        has the share 1/2 of the values below the median. The share is rounded to a small denominator, because
        candidates for the quantile get scores from it that have to be small whole numbers.
        """
        ends = (Fraction(0), *self.shares, Fraction(1))
        low, high = ends[first], ends[last + 1]
        finest = _FINEST_SHARE if self.weight == 1 or len(self.shares) == 1 else _FINEST_DIVIDED_SHARE
        share = ((self.shares[middle] - low) / (high - low)).limit_denominator(finest)
        return min(max(share, Fraction(1, finest)), 1 - Fraction(1, finest))

    @property
    def _units(self) -> int:
        """The number of positions into which each grid cell is divided, so that a quantile can be picked within a cell.

        Several quantiles are picked one after the other. Each picked position cuts the grid in two parts, and the next
        quantiles are picked within the parts. Only odd positions are picked, so that a cut is never at the end of a
        cell.

        The scores of positions must fit into 64 bits. They grow with the number of positions, and with the weight that
        a user with several values divides among these values. So there are fewer positions if users divide a weight.
        """
        return _UNITS if self.weight == 1 else _DIVIDED_UNITS

    def rank_error(self, number: int, confidence: Fraction) -> int:
        """Return a bound on the rank error of the quantile with index `number`, as a number of values.

        The mechanism picks a cell of a grid for each quantile. The rank error says how many values lie between this
        cell and the true quantile. With probability `confidence`, it is at most the result.
        """
        # It adds up the errors of all picks that lead to this quantile. A pick among c candidates misses the best score
        # by at most (log(c) + X) / rate, whatever was picked before. X is exponential with mean 1, and rate is epsilon
        # divided by the range of the scores. Earlier picks are the ends of the slice from which a later one is picked:
        # if the lower end is off by e in rank and the upper end by f, the target moves by (1 - share) e + share f.
        first, last = 0, len(self.shares)
        low: list[float] = []  # weight of every pick so far in the error of the slice's ends
        high: list[float] = []
        ranks: list[float] = []  # factor of X in the error of each pick; `certain` is the term with log(c)
        certain: list[float] = []
        while True:
            middle = (first + last) // 2
            share = self._share(first, middle, last)
            candidates = self.cells * (1 if last - first == 1 else self._units // 2)
            ranks.append(score_range(share) / share.denominator / float(self.epsilon))
            certain.append(ranks[-1] * math.log(candidates))
            off = [float(1 - share) * e + float(share) * f for e, f in zip(low, high, strict=True)] + [1.0]
            if number == middle:
                break
            low, high = (off if number > middle else [*low, 0.0]), (off if number < middle else [*high, 0.0])
            first, last = (first, middle) if number < middle else (middle + 1, last)
        exponential = [weight * rank for weight, rank in zip(off, ranks, strict=True) if weight]
        missed = math.fsum(weight * rank for weight, rank in zip(off, certain, strict=True))
        return math.ceil(missed + sum_quantile(exponential, float(1 - probability("confidence", confidence))))


_APART = 1.02
"""Factor by which scales of exponentials are kept apart, so that the tail of their sum has a closed form."""


def sum_quantile(scales: Sequence[float], chance: float) -> float:
    """Return a number that a sum of independent exponential random variables exceeds with probability at most `chance`.

    `scales` are the means of the variables. A quantile that the exponential mechanism selects lies some ranks away from
    the exact quantile, and such a sum bounds this number of ranks. The formula needs means that differ, so nearly equal
    means are raised a little. This makes the result larger, which is safe.

    >>> round(sum_quantile([2.0], 0.05), 3), round(sum_quantile([2.0, 1.0], 0.05), 3)
    (5.991, 7.352)
    """
    apart: list[float] = []
    for scale in sorted(scales):
        apart.append(max(scale, _APART * apart[-1]) if apart else scale)
    terms = [math.prod(a / (a - b) for b in apart if b != a) for a in apart]
    # At the upper end each exponential is exceeded with an equal part of the probability.
    least, most = 0.0, math.fsum(apart) * math.log(len(apart) / chance)
    while most - least > 1e-9 * most:
        middle = (least + most) / 2
        tail = math.fsum(term * math.exp(-middle / a) for term, a in zip(terms, apart, strict=True))
        least, most = (middle, most) if tail > chance else (least, middle)
    return most


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """The part of a grid between the positions `low` and `high`, with the values that lie there.

    A grid has one cell for each possible result. Positions are finer than cells: a cell is `units` positions long, and
    its values count as spread evenly over them. So a slice can begin or end within a cell.

    - `counts` has the number of values in each cell of the whole grid.
    - `below` has the cumulative counts: for each cell the number of values in all cells before it, and last their
      total.
    """

    # The values of a cell are spread evenly over its positions.

    counts: NDArray[np.int64]
    below: NDArray[np.int64]
    units: int
    low: int
    high: int

    @property
    def _cells(self) -> NDArray[np.int64]:
        """Indices of the grid cells that lie at least partly in this slice (between `low` and `high`); never empty."""
        return np.arange(self.low // self.units, max(self.high - 1, self.low) // self.units + 1)

    def halves(self, cut: int) -> tuple["_Slice", "_Slice"]:
        """Return the two parts of this slice of the grid: below and above the grid position `cut`."""
        lower = _Slice(counts=self.counts, below=self.below, units=self.units, low=self.low, high=cut)
        return lower, _Slice(counts=self.counts, below=self.below, units=self.units, low=cut, high=self.high)

    def pick_cell(self, share: Fraction, rate: Fraction, randomness: Randomness) -> int:
        """Return the index of the grid cell that the exponential mechanism picks as a quantile of this slice's values.

        A slice is the part of the grid between two quantiles picked before. A cell stands for one possible result. A
        cell nearer to the exact quantile has a higher score, and so is more likely to be picked.

        - `share` is the share of the slice's values below the quantile, such as 1/2 for the median.
        - `rate` is the epsilon of the pick divided by the score range: the most by which one user can raise one cell's
          score above another's.
        - `randomness` is the source of the random pick.
        """
        cells = self._cells
        edges = np.clip(self.units * np.append(cells, cells[-1] + 1), self.low, self.high)
        return int(cells[gumbel_order(_distances(self._off(edges, share)), rate, 1, randomness)[0]])

    def pick_cut(self, share: Fraction, rate: Fraction, randomness: Randomness) -> int:
        """Return the grid position (an odd number) that the exponential mechanism picks as a quantile of this slice.

        A slice is the part of the grid between two quantiles picked before. The picked position cuts the slice in two,
        for the next picks. A position nearer to the exact quantile has a higher score, and so is more likely to be
        picked.

        - `share` is the share of the slice's values below the quantile, such as 1/2 for the median.
        - `rate` is the epsilon of the pick divided by the score range: the most by which one user can raise one
          position's score above another's.
        - `randomness` is the source of the random pick.
        """
        # To save time, a run of neighbouring positions is picked first, with a probability proportional to the sum of
        # their weights, and then a position within the run. In a run the scores rise or fall by equal steps; a cell has
        # at most one rising and one falling run.
        cells = self._cells
        first = np.maximum(self.units * cells, self.low) | 1
        number = (np.minimum(self.units * (cells + 1), self.high) - first) // 2 + 1
        off = self._off(first, share)
        slopes = 2 * share.denominator * self.counts[cells]
        rising = np.where(off < 0, np.minimum(number, -(off // np.maximum(slopes, 1))), 0)
        rising = np.where((slopes == 0) & (off < 0), number, rising)  # empty cells below: the last cut is nearest
        falls, lasts = np.flatnonzero(rising < number), np.flatnonzero(rising)
        nearest = first + 2 * rising
        starts = np.concatenate((nearest[falls], nearest[lasts] - 2))
        steps = np.repeat([2, -2], [len(falls), len(lasts)])
        places = np.concatenate((falls, lasts))
        runs = Runs(slopes=slopes[places], lengths=np.concatenate((number[falls] - rising[falls], rising[lasts])))
        scores = -np.abs(self._off(starts, share))
        run = int(gumbel_order(scores, rate, 1, randomness, runs=runs)[0])
        away = -int(runs.slopes[run]) * np.arange(int(runs.lengths[run]))
        return int(starts[run] + steps[run] * gumbel_order(away, rate, 1, randomness)[0])

    def _off(self, places: NDArray[np.int64], share: Fraction) -> NDArray[np.int64]:
        """Return, for each grid position in `places`, how far it is from the wanted quantile of this slice, in ranks.

        The slice is a part of the grid. The distance is the number of the slice's values below the position minus
        `share` times the number of all its values; it is negative left of the quantile. The results are multiplied by
        the denominator of `share` and by `units`, the number of positions in a grid cell, so that they are whole
        numbers.
        """
        ends = self._below(np.array([self.low, self.high]))
        return np.asarray(share.denominator * (self._below(places) - ends[0]) - share.numerator * (ends[1] - ends[0]))

    def _below(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return, for each grid position in `places`, how many values of the whole grid lie below it, times `units`.

        A grid cell is `units` positions long, and its values are spread evenly over them. With 4 positions for each
        cell and with 3 and 5 values in the first two cells, 5.5 values lie below position 6 (in the middle of the
        second cell), so the result is 22. The factor `units` makes all results whole numbers.
        """
        cells = np.minimum(places // self.units, len(self.counts) - 1)
        return np.asarray(self.units * self.below[cells] + (places - self.units * cells) * self.counts[cells])

"""Quantiles by the exponential mechanism over a grid: a bounded-range use for one, log2(m) of them for m at once."""

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

LARGEST_GRID = 100_000
"""Cells of the finest grid: every pick draws noise for each."""

PARTS = 1024
"""Cuts through a cell: what they divide among two slices is a whole number of these parts of its values."""

_UNITS = 2 * PARTS
"""Units of length in a cell: cuts are at the odd ones, so that each lies inside one cell."""

WEIGHT = 1000
"""Units of weight that one user divides among the cells of their rows, for quantiles over rows."""

_FINEST_SHARE = 10**5
"""The largest denominator of a share within a slice."""

_MOST_VALUES = 2**34
"""More values than there are people: with `_UNITS` and `_FINEST_SHARE`, scores of as many stay below 2^62."""

_DIVIDED_UNITS, _FINEST_DIVIDED_SHARE, _MOST_USERS = 128, 10**4, 2**31
"""The same for votes that users divide: scores of 2^31 users of `WEIGHT` units each stay below 2^62 too."""


def rank_scores(cells: NDArray[np.int64], at: Fraction) -> NDArray[np.int64]:
    """Return for each cell of a grid minus how far it is from the quantile, in units of 1/b where at = a/b.

    The values of a cell have the ranks from the number below it to that number and its own: the score is minus the
    distance of the rank at * n from them, 0 in the cell that holds it.

    >>> rank_scores(np.array([1, 1, 2, 5]), Fraction(1, 2)).tolist()
    [-7, -5, -1, 0]
    """
    edges = np.concatenate(([0], np.cumsum(cells)))
    return _distances(at.denominator * edges - at.numerator * edges[-1])


def _distances(edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return minus the distance of 0 from the stretch between each edge and the next."""
    return np.asarray(-np.maximum(0, np.maximum(edges[:-1], -edges[1:])))


def score_range(at: Fraction) -> int:
    """Return the range of the change of `rank_scores` when one value is added or taken away, in units of 1/b.

    It is at most 2 max(a, b - a), 1 value for the median, less than 2 for any other, and reached: docs/statistics.md
    has the proof, and tests enumerate small grids.

    >>> score_range(Fraction(1, 2)), score_range(Fraction(9, 10))
    (2, 18)
    """
    return 2 * max(at.numerator, at.denominator - at.numerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridQuantiles:
    """Pick a cell of a grid for each share: one by the exponential mechanism, more by halving.

    A single quantile is a cell picked with probability proportional to exp(epsilon * score / range). Of several, the
    middle one is a cut of the grid, picked in the same way; it slices the values in two, and each slice has the
    quantiles of its side. The values of the cell that is cut are divided among both slices in the ratio of the cut. So
    what a user adds to all slices of a level is one value, and a level is one epsilon-bounded-range use. The values are
    never released, only the cells picked, which are in order.

    A user may divide `weight` units among several cells instead, which count as one value together. Counts and scores
    are then in such units.

    Theorem: DongDuRo19 for the exponential mechanism; KaplanScSt22 for halving; docs/statistics.md for the range of
    the scores and for the values that are divided.
    Requires: what a user adds to all `cells` together is at most `weight`.
    """

    shares: tuple[Fraction, ...]
    cells: int
    epsilon: Fraction
    weight: int = 1

    def __post_init__(self) -> None:
        shares = tuple(probability("at", share) for share in self.shares)
        for share, given in zip(shares, self.shares, strict=True):
            if share.denominator > FINEST_RANK:
                raise InvalidParameter(f"at must be a share of at most six decimals, not {given!r}")
        if not shares or sorted(set(shares)) != list(shares):
            raise InvalidParameter("quantiles need one share or more, each above the one before it")
        object.__setattr__(self, "shares", shares)
        positive_integer("cells", self.cells, LARGEST_GRID)
        positive_integer("weight", self.weight, WEIGHT)
        epsilon = rational("epsilon", self.epsilon, SMALLEST_RATE, LARGEST_PICK_EPSILON)
        object.__setattr__(self, "epsilon", epsilon)

    @property
    def guarantee(self) -> BoundedRange:
        """What one level costs."""
        return BoundedRange(epsilon=float_above(self.epsilon))

    @property
    def levels(self) -> int:
        """How many times the values are halved until every quantile is picked: log2 of their number, and 1."""
        return len(self.shares).bit_length()

    def pick(self, counts: NDArray[np.int64], randomness: Randomness) -> tuple[int, ...]:
        """Return the cell of each quantile, given how many values, or units of weight, each cell holds."""
        if len(counts) != self.cells:
            raise InvalidParameter(f"the grid has {self.cells} cells, but counts are for {len(counts)}")
        below = np.concatenate(([0], np.cumsum(counts)))
        if below[-1] > (_MOST_VALUES if self.weight == 1 else _MOST_USERS * self.weight):
            raise InvalidParameter("there are more values than people: a user has one")
        if len(self.shares) == 1:
            share = self._share(0, 0, 1)
            rate = self.epsilon / (score_range(share) * self.weight)
            return (int(gumbel_order(rank_scores(counts, share), rate, 1, randomness)[0]),)
        whole = _Slice(counts=counts, below=below, units=self._units, low=0, high=self._units * self.cells)
        return self._picked(whole, 0, len(self.shares), randomness)

    def _picked(self, held: "_Slice", first: int, last: int, randomness: Randomness) -> tuple[int, ...]:
        """Return the cells of the quantiles from `first` to before `last`, whose values the slice holds."""
        if first == last:
            return ()
        middle = (first + last) // 2
        share = self._share(first, middle, last)
        rate = self.epsilon / (score_range(share) * self._units * self.weight)
        if last - first == 1:
            return (held.pick_cell(share, rate, randomness),)
        cut = held.pick_cut(share, rate, randomness)
        lower, upper = held.halves(cut)
        before = self._picked(lower, first, middle, randomness)
        return (*before, cut // self._units, *self._picked(upper, middle + 1, last, randomness))

    def _share(self, first: int, middle: int, last: int) -> Fraction:
        """Return which share of a slice the middle one of its quantiles is above."""
        ends = (Fraction(0), *self.shares, Fraction(1))
        low, high = ends[first], ends[last + 1]
        finest = _FINEST_SHARE if self.weight == 1 or len(self.shares) == 1 else _FINEST_DIVIDED_SHARE
        share = ((self.shares[middle] - low) / (high - low)).limit_denominator(finest)
        return min(max(share, Fraction(1, finest)), 1 - Fraction(1, finest))

    @property
    def _units(self) -> int:
        """Units of length in a cell, of which every second one is a cut: fewer where users divide their votes."""
        return _UNITS if self.weight == 1 else _DIVIDED_UNITS

    def rank_error(self, number: int, confidence: Fraction) -> int:
        """Return by how many values the rank of a quantile is off at most, with the given confidence.

        One pick of c candidates misses the best score by s with probability at most c * exp(-rate s), whatever was
        picked before: by no more than (log(c) + X) / rate, with X exponential. A slice whose ends are off by e and f
        moves the target within it by (1 - share) e + share f, so what is missed adds up with a weight for each pick.
        """
        first, last = 0, len(self.shares)
        low: list[float] = []  # what the ends of the slice are off by: the weight of every pick so far
        high: list[float] = []
        ranks: list[float] = []  # what X counts in each pick, and the part that is certain
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
        exponential = [weight * each for weight, each in zip(off, ranks, strict=True) if weight]
        missed = math.fsum(weight * each for weight, each in zip(off, certain, strict=True))
        return math.ceil(missed + exceeded(exponential, float(1 - probability("confidence", confidence))))


_APART = 1.02
"""Factor by which scales of exponentials are kept apart, so that their sum has a tail of plain terms."""


def exceeded(scales: Sequence[float], chance: float) -> float:
    """Return what a sum of independent exponentials exceeds with at most the given chance.

    Nearly equal scales are raised, which only raises the sum.

    >>> round(exceeded([2.0], 0.05), 3), round(exceeded([2.0, 1.0], 0.05), 3)
    (5.991, 7.352)
    """
    apart: list[float] = []
    for scale in sorted(scales):
        apart.append(max(scale, _APART * apart[-1]) if apart else scale)
    terms = [math.prod(a / (a - b) for b in apart if b != a) for a in apart]
    least, most = 0.0, math.fsum(apart) * math.log(len(apart) / chance)  # there each is exceeded with an equal part
    while most - least > 1e-9 * most:
        middle = (least + most) / 2
        tail = math.fsum(term * math.exp(-middle / a) for term, a in zip(terms, apart, strict=True))
        least, most = (middle, most) if tail > chance else (least, middle)
    return most


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """The values between two places of the grid, `low` and `high`, in units of a cell's length.

    The values of a cell are spread evenly over it. `counts` and `below` are those of all cells.
    """

    counts: NDArray[np.int64]
    below: NDArray[np.int64]
    units: int
    low: int
    high: int

    @property
    def _cells(self) -> NDArray[np.int64]:
        """The cells that the slice has a part of, at least one."""
        return np.arange(self.low // self.units, max(self.high - 1, self.low) // self.units + 1)

    def halves(self, cut: int) -> tuple["_Slice", "_Slice"]:
        """Return the slices below and above a cut."""
        lower = _Slice(counts=self.counts, below=self.below, units=self.units, low=self.low, high=cut)
        return lower, _Slice(counts=self.counts, below=self.below, units=self.units, low=cut, high=self.high)

    def pick_cell(self, share: Fraction, rate: Fraction, randomness: Randomness) -> int:
        """Return the cell that is picked as the quantile of the slice."""
        cells = self._cells
        edges = np.clip(self.units * np.append(cells, cells[-1] + 1), self.low, self.high)
        return int(cells[gumbel_order(_distances(self._off(edges, share)), rate, 1, randomness)[0]])

    def pick_cut(self, share: Fraction, rate: Fraction, randomness: Randomness) -> int:
        """Return the place that is picked as the quantile of the slice, an odd number of units.

        Within a cell the scores of cuts rise and then fall evenly, so each side is a run: a run is picked, then a cut.
        """
        cells = self._cells
        first = np.maximum(self.units * cells, self.low) | 1
        number = (np.minimum(self.units * (cells + 1), self.high) - first) // 2 + 1
        off = self._off(first, share)
        slopes = 2 * share.denominator * self.counts[cells]
        rising = np.where(off < 0, np.minimum(number, -(off // np.maximum(slopes, 1))), 0)
        rising = np.where((slopes == 0) & (off < 0), number, rising)  # below the quantile: nearest is the last
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
        """Return by how many values the number below each place is above the quantile, over b and `units`."""
        ends = self._below(np.array([self.low, self.high]))
        return np.asarray(share.denominator * (self._below(places) - ends[0]) - share.numerator * (ends[1] - ends[0]))

    def _below(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many values are below places of the grid, in parts of `units`."""
        cells = np.minimum(places // self.units, len(self.counts) - 1)
        return np.asarray(self.units * self.below[cells] + (places - self.units * cells) * self.counts[cells])

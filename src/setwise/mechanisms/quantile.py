"""Quantiles by the exponential mechanism over a grid: one bounded-range use each."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.guarantees import BoundedRange
from setwise.errors import InvalidParameter
from setwise.mechanisms.known_domain import LARGEST_PICK_EPSILON, SMALLEST_RATE
from setwise.mechanisms.parameters import float_above, positive_integer, probability, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.sampling.gumbel import gumbel_order

LARGEST_GRID = 100_000
"""Cells of the finest grid: every pick draws noise for each."""

FINEST_RANK = 10**6
"""The largest denominator of the share below a quantile, which keeps scores whole and small."""


def rank_scores(cells: NDArray[np.int64], at: Fraction) -> NDArray[np.int64]:
    """Return for each cell of a grid minus how far it is from the quantile, in units of 1/b where at = a/b.

    With B values in lower cells and A in higher ones, the score is -|(b - a) B - a A|: 0 where exactly the share `at`
    of the other values lies below, and falling by b for each value of rank that the cell is away.

    >>> rank_scores(np.array([1, 1, 1, 1]), Fraction(1, 2)).tolist()
    [-3, -1, -1, -3]
    """
    below = np.concatenate(([0], np.cumsum(cells)[:-1]))
    above = int(cells.sum()) - below - cells
    share, whole = at.numerator, at.denominator
    return -np.abs((whole - share) * below - share * above)


def score_range(at: Fraction) -> int:
    """Return the range of the change of `rank_scores` when one value is added or taken away, in units of 1/b.

    The value itself is v. Inside the bars, cells above v change by b - a and cells below v by -a, so the score changes
    by at most b - a above and a below, either way. It cannot rise on both sides: what is inside the bars grows with the
    cell, so where it is positive below v it is positive above v too, and there the score falls. So the change lies
    within [-max(a, b - a), a] or within [-max(a, b - a), b - a], and its range is at most 2 max(a, b - a): 1 value for
    the median, less than 2 for any other. It is reached (tests enumerate small grids).

    >>> score_range(Fraction(1, 2)), score_range(Fraction(9, 10))
    (2, 18)
    """
    return 2 * max(at.numerator, at.denominator - at.numerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridQuantile:
    """Pick a cell of a grid with probability proportional to exp(epsilon * score / range): epsilon-bounded range.

    A user has at most one value, in one of the `cells`. The values are never released, only the cell picked.

    Theorem: DongDuRo19 for the exponential mechanism; `score_range` for the range of the score.
    """

    at: Fraction
    cells: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        at = probability("at", self.at)
        if at.denominator > FINEST_RANK:
            raise InvalidParameter(f"at must be a share of at most six decimals, not {self.at!r}")
        object.__setattr__(self, "at", at)
        positive_integer("cells", self.cells, LARGEST_GRID)
        epsilon = rational("epsilon", self.epsilon, SMALLEST_RATE, LARGEST_PICK_EPSILON)
        object.__setattr__(self, "epsilon", epsilon)

    @property
    def guarantee(self) -> BoundedRange:
        """What one pick costs."""
        return BoundedRange(epsilon=float_above(self.epsilon))

    def pick(self, counts: NDArray[np.int64], randomness: Randomness) -> int:
        """Return the cell picked, given how many values each cell holds."""
        if len(counts) != self.cells:
            raise InvalidParameter(f"the grid has {self.cells} cells, but counts are for {len(counts)}")
        rate = self.epsilon / score_range(self.at)
        return int(gumbel_order(rank_scores(counts, self.at), rate, 1, randomness)[0])

    def rank_error(self, confidence: Fraction) -> int:
        """Return by how many values the rank of the pick is off at most, with the given confidence.

        One pick misses the best score by s with probability at most cells * exp(-rate s), and b of it is one value.
        """
        rate = float(self.epsilon) * self.at.denominator / score_range(self.at)
        return math.ceil(math.log(self.cells / float(1 - probability("confidence", confidence))) / rate)

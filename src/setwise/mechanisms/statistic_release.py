"""The base class of mechanisms that release statistics of groups, and the tables of exact private numbers they read."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.guarantees import Guarantee
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.labels import Label
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import ErrorEstimate, Estimate, Release
from setwise.mechanisms.two_phase import Counts


@dataclass(frozen=True, slots=True, eq=False)
class GroupTable:
    """The exact numbers of every group: the private input of `GroupStatistics`. They are never released.

    A measure is a column of whole numbers that users add to groups, for example the amounts of a sum. `users` has the
    number of users of each group. Each other field is a tuple with one mapping per measure, from group labels to exact
    numbers:

    - `totals`: the sum of the measure over the group.
    - `numbers`: how many users (or rows) of the group have a value of the measure.
    - `cells`, for quantiles: an array with the number of values in each cell of the grid of possible results. If a user
      may have several values, the user divides a weight among them, and the array has units of weight instead.
    """

    users: Histogram
    totals: tuple[Mapping[Label, int], ...]
    numbers: tuple[Mapping[Label, int], ...]
    cells: tuple[Mapping[Label, NDArray[np.int64]], ...]

    def cells_of(self, place: int, label: Label, length: int) -> NDArray[np.int64]:
        """Return how many values the group `label` has in each cell of a quantile's grid, as an array.

        A cell is one possible result of the quantile, and there are `length` cells. If a user may have several values,
        each user divides a fixed weight among their values, and the result has the sum of the weights in each cell
        instead. All numbers are 0 if the group has no value.

        `place` is the index of the quantile among the measures (columns of numbers that users add to groups) of the
        table.
        """
        return self.cells[place].get(label, np.zeros(length, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupReading:
    """The input for releasing statistics of groups: the exact numbers, the groups, and the source of noise.

    - `table` has the exact numbers. Each statistic reads one or several of its columns (measures), which follow each
      other.
    - `labels` are the groups whose statistics are released.
    - `offsets` has, for each statistic, the index of its first measure.
    - `found` is the release that found the groups; None if the groups were fixed before.
    - `confidence` is the probability with which an interval holds.
    - `randomness` is the source of the noise.
    - `picked` stores picked quantiles, because all quantiles of the same values are picked at once, but later asked for
      one by one. A key is the index, among all statistics, of the first quantile of some values. Its entry is a list
      with a tuple for each group; the tuple has the index of the picked result for each quantile of these values.
    """

    table: GroupTable
    labels: tuple[Label, ...]
    offsets: tuple[int, ...]
    found: Release | None
    confidence: Fraction
    randomness: Randomness
    picked: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)

    def totals(self, place: int, measure: int = 0) -> NDArray[np.int64]:
        """Return, for every group, the exact sum of one measure: a whole number that each user adds to a group.

        A statistic reads one or several measures: a mean reads one, for example, and a variance reads two. `place` is
        the index of the statistic, and `measure` the index of the measure among those that it reads.
        """
        return _values_of(self.table.totals[self.offsets[place] + measure], self.labels)

    def numbers(self, place: int, measure: int = 0) -> NDArray[np.int64]:
        """Return, for every group, the exact number of users (or of rows) that have a value in one measure.

        A measure is a column of whole numbers that users add to groups; a mean, for example, divides the noisy sum of
        its measure by this number with noise. `place` is the index of the statistic, and `measure` the index of the
        measure among those that the statistic reads.
        """
        return _values_of(self.table.numbers[self.offsets[place] + measure], self.labels)

    def cells(self, place: int, length: int) -> list[NDArray[np.int64]]:
        """Return, for every group, the exact number of values in each of the `length` cells of a quantile's grid.

        A cell is one possible result. There is one array for each group. If a user may have several values, each user
        divides a fixed number of units of weight among their values, and the array has the number of units in each cell
        instead. `place` is the index of the quantile among all statistics.
        """
        return [self.table.cells_of(self.offsets[place], label, length) for label in self.labels]


NoiseOfScale: TypeAlias = Callable[[Fraction], Counts]
"""A function that returns Laplace or Gaussian count noise of a given noise scale."""


class StatisticRelease(ABC):
    """How one statistic, such as a sum or quantile, is released for all groups: its noise, its cost and its estimates.

    - `measures` is how many measures the statistic reads. A measure is a column of whole numbers that users add to
      groups; `GroupTable` has their exact sums.
    - `by_picks` is True if the exponential mechanism picks the value of the statistic, as for quantiles. Otherwise
      noise is added to its sums.
    """

    # The noise scale comes from the planner, or from mechanism uses (such as Gaussian noise of sigma 20) that an
    # account registered.

    __slots__ = ()

    measures: ClassVar[int] = 1
    by_picks: ClassVar[bool] = False

    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the privacy cost of releasing this statistic for one group, as guarantees that are used once each."""

    def guarantees_at(self, place: int) -> tuple[Guarantee, ...]:
        """Return the guarantees that this statistic adds to the privacy cost of one group, each used once.

        `place` is the index of this statistic among those of the query. Some statistics share a mechanism: quantiles of
        the same values are picked together. The cost of all of them is then returned for one of them only, and the
        result is empty for the others, so that nothing is charged twice.
        """
        del place
        return self.guarantees()

    @abstractmethod
    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Draw noise and return the estimate of this statistic for every group in `reading`.

        `place` is the index of this statistic among all. Estimates are in rounding steps, not in units of the column:
        mechanisms compute with whole numbers, so the values of users were rounded to multiples of a step before.
        """

    @abstractmethod
    def with_noise(self, noise_of_scale: NoiseOfScale, scale: Fraction) -> "StatisticRelease":
        """Return this statistic with noise on its sums, so that it costs about as much privacy as one noisy sum.

        `scale` is the noise scale of that one sum, to which one user adds at most 1. A statistic may need several sums,
        as a mean does; their noise is then larger, so that they cost as much together. `noise_of_scale` maps a noise
        scale to Laplace or Gaussian noise of that scale.
        """

    @abstractmethod
    def with_draws(self, counts: Counts | None, pick: Fraction | None) -> "StatisticRelease":
        """Return this statistic with a mechanism that the account registered in advance.

        Such a mechanism replaces the one that the planner would choose.

        - `counts` is the noise for sums, such as Gaussian noise of sigma 20.
        - `pick` is the epsilon of the exponential mechanism, for quantiles.

        A statistic uses one of the two arguments and ignores the other.

        Raises: `InvalidParameter` if the argument that the statistic uses is None.
        """

    def check_among(self, statistics: "Sequence[StatisticRelease]") -> None:
        """Raise `InvalidParameter` if `statistics` lacks a statistic on which this statistic depends.

        For example, quantiles of the same values are picked together, and each depends on the one to which their common
        cost is charged.
        """
        del statistics

    def error(self, discovery: ErrorEstimate | None, confidence: Fraction) -> tuple[float | None, float | None]:
        """Return the expected error of this statistic: (half-width of its interval, mean absolute error).

        Values are rounded to multiples of some step before they are added up; both errors are numbers of steps. An
        error that is not known in advance is None. `discovery` is the expected error of the release that finds the
        groups (None if no groups have to be found). `confidence` is the probability with which an interval holds.
        """
        del discovery, confidence
        return None, None

    def planning_error(self, scale: float, factor: float, discovery: ErrorEstimate | None) -> float:
        """Return the error of this statistic by which the planner compares kinds of noise; smaller is better.

        `scale` is the noise scale of a candidate plan. `factor` is the typical error of that kind of noise at scale 1,
        so `scale` * `factor` is the typical error of the plan's noise. `discovery` is the expected error of the release
        that finds the groups (None if no groups have to be found).
        """
        # A factor that is the same for all kinds of noise may be left out.
        del discovery
        return scale * factor


def _values_of(values: Mapping[Label, int], labels: tuple[Label, ...]) -> NDArray[np.int64]:
    """Return the exact `values` of the groups `labels`, in that order; 0 for a group without a value."""
    return np.array([values.get(label, 0) for label in labels], dtype=np.int64)

"""Sums, means and quantiles of groups: the noise each statistic takes, what it costs, and its estimates.

Groups are found once, by the number of their users, unless the groups are public. Every statistic is then released for
all groups found. Of j released groups at most min(j, contributions) differ between neighbouring tables, so a statistic
costs that many uses of its guarantees. All values are whole numbers: the engine has clipped and rounded what a user
adds to a group.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.guarantees import Guarantee, Use, merged
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.noisy_ratio import NoisyRatio
from setwise.mechanisms.parameters import positive_integer
from setwise.mechanisms.quantile import GridQuantiles
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate, Estimate, Release
from setwise.mechanisms.two_phase import (
    Counts,
    TwoPhaseTopK,
    guarantee_of,
    noise_of,
)
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGaussian, UnknownGumbel, UnknownLaplace

HistogramMechanism: TypeAlias = (
    KnownLaplace
    | KnownGaussian
    | KnownGumbel
    | UnknownLaplace
    | UnknownGaussian
    | TruncatedGaussian
    | UnknownGumbel
    | TwoPhaseTopK
)
"""The mechanisms that release a histogram, or the top k of one. Each can find the groups of further statistics."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupTable:
    """The exact measures of every group: the private input of `GroupStatistics`, never shown to anybody.

    `users` has the number of users of each group. The other fields have one entry for each measure of the aggregation:
    `totals` the sum of the whole numbers that users add to a group, `numbers` how many users (or rows) add something,
    and `cells`, for measures in cells, how many users add each whole number. All are looked up by label.
    """

    users: Histogram
    totals: tuple[Mapping[Label, int], ...]
    numbers: tuple[Mapping[Label, int], ...]
    cells: tuple[Mapping[Label, NDArray[np.int64]], ...]

    def cells_of(self, place: int, label: Label, length: int) -> NDArray[np.int64]:
        """Return how many users add each whole number to a group; zeros where the group has no value."""
        return self.cells[place].get(label, np.zeros(length, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupReading:
    """What the release of a statistic reads: the exact table, the groups found, and where its measures stand.

    `offsets` has the place of the first measure of each statistic. `found` is the release that found the groups, None
    when they are public. `picked` keeps the cells picked for quantiles that are picked together, by the place of the
    statistic that leads them.
    """

    table: GroupTable
    labels: tuple[Label, ...]
    offsets: tuple[int, ...]
    found: Release | None
    confidence: Fraction
    randomness: Randomness
    picked: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)

    def totals(self, place: int, measure: int = 0) -> NDArray[np.int64]:
        """Return the exact sum of every group in one measure of the statistic at `place`."""
        return _over(self.table.totals[self.offsets[place] + measure], self.labels)

    def numbers(self, place: int, measure: int = 0) -> NDArray[np.int64]:
        """Return how many users, or rows, of every group add something to one measure of the statistic at `place`."""
        return _over(self.table.numbers[self.offsets[place] + measure], self.labels)

    def cells(self, place: int, length: int) -> list[NDArray[np.int64]]:
        """Return for every group how many users add each whole number to the statistic at `place`."""
        return [self.table.cells_of(self.offsets[place], label, length) for label in self.labels]


NoiseOfScale: TypeAlias = Callable[[Fraction], Counts]
"""Makes count noise of a given noise scale: Laplace or Gaussian."""


class StatisticRelease(ABC):
    """How one statistic is released for all groups: its noise, what it costs in one group, and its estimates.

    A statistic may read several measures of the table (`measures`). It is released either with noise on sums or, where
    `by_picks`, by picks of the exponential mechanism. Its noise scale is chosen by the planner, or given by what an
    account draws.
    """

    __slots__ = ()

    measures: ClassVar[int] = 1
    by_picks: ClassVar[bool] = False

    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the guarantees of one group's release; each is one use."""

    def guarantees_at(self, place: int) -> tuple[Guarantee, ...]:
        """Return what the statistic at `place` pays for one group; nothing where another statistic pays for it."""
        del place
        return self.guarantees()

    @abstractmethod
    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Draw noise and return the estimate of every group, in whole units; the statistic stands at `place`."""

    @abstractmethod
    def with_noise(self, noise_of_scale: NoiseOfScale, scale: Fraction) -> "StatisticRelease":
        """Return the release with about the privacy cost of one noisy sum of the given noise scale.

        The noise scale is in units of what one user adds at most.
        """

    @abstractmethod
    def with_draws(self, counts: Counts | None, pick: Fraction | None) -> "StatisticRelease":
        """Return the release whose noise is `counts`, or whose picks have the bounded range `pick`.

        Raises `InvalidParameter` where the one it needs is None.
        """

    def check_among(self, statistics: "Sequence[StatisticRelease]") -> None:
        """Raise `InvalidParameter` if the statistic cannot be released together with these."""
        del statistics

    def error(self, discovery: ErrorEstimate | None, confidence: Fraction) -> tuple[int | None, float | None]:
        """Return the radius of an interval and the mean absolute error, in whole units; None where they are not known.

        `discovery` is the error of the release that finds the groups.
        """
        del discovery, confidence
        return None, None

    def planning_error(self, scale: float, factor: float, discovery: ErrorEstimate | None) -> float:
        """Return a measure of the error by which the planner compares kinds of noise.

        `factor` is the typical error of that kind of noise at a noise scale of 1.
        """
        del discovery
        return scale * factor


_ROOTS = {1: 1.0, 2: 1.414, 3: 1.732}
"""By how much wider the noise of each of several sums must be, so that all cost about as much as one sum."""


class NoisySums(StatisticRelease):
    """A statistic computed from one or several noisy sums, each with noise in proportion to what one user adds."""

    __slots__ = ()

    noise: Counts

    @property
    @abstractmethod
    def reaches(self) -> tuple[int, ...]:
        """How much one user adds at most to each of the sums, in either direction."""

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return one guarantee for each of the sums."""
        return tuple(guarantee_of(self.noise, reach) for reach in self.reaches)

    def with_noise(self, noise_of_scale: NoiseOfScale, scale: Fraction) -> "StatisticRelease":
        """Return the release with noise on each sum, wider where there are several sums."""
        root = _ROOTS[len(self.reaches)]
        wider = scale if root == 1.0 else Fraction(f"{float(scale) * root:.4g}")
        return self._with(noise_of_scale(wider))

    def with_draws(self, counts: Counts | None, pick: Fraction | None) -> "StatisticRelease":
        """Return the release whose every sum draws `counts`."""
        del pick
        if counts is None:
            raise InvalidParameter("say what each count or sum draws: give counts, such as pure:0.1")
        return self._with(counts)

    @abstractmethod
    def _with(self, noise: Counts) -> "StatisticRelease":
        """Return the same release with other noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyTotal(NoisySums):
    """A noisy sum to which one user adds at most `reach` in either direction.

    The noise scale is `reach` times that of `noise`.
    """

    reach: int
    noise: Counts

    def __post_init__(self) -> None:
        positive_integer("reach", self.reach)

    @property
    def reaches(self) -> tuple[int]:
        """How much one user adds at most to the sum, in either direction."""
        return (self.reach,)

    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Return a noisy sum of every group."""
        totals, numbers = reading.totals(place), reading.numbers(place)
        return self.release(totals, numbers, reading.confidence, reading.randomness)

    def release(
        self, totals: NDArray[np.int64], numbers: NDArray[np.int64], confidence: Fraction, randomness: Randomness
    ) -> list[Estimate]:
        """Return a noisy sum for each of the exact `totals`, with its interval; `numbers` are not read."""
        del numbers
        noise = noise_of(self.noise, self.reach)
        radius = noise.radius(confidence)
        noisy = (totals + noise.draw(len(totals), randomness)).tolist()
        return [Estimate(value=value, interval=(value - radius, value + radius)) for value in noisy]

    def error(self, discovery: ErrorEstimate | None, confidence: Fraction) -> tuple[int | None, float | None]:
        """Return the radius and the mean absolute value of the noise."""
        del discovery
        noise = noise_of(self.noise, self.reach)
        return noise.radius(confidence), noise.expected_absolute

    def _with(self, noise: Counts) -> "NoisyTotal":
        return replace(self, noise=noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMean(NoisySums):
    """A noisy sum divided by a noisy number of users, or of rows, of which one user has at most `rows`.

    Every user or row adds at most `reach` to the sum, in either direction. Sum and number are released for every group,
    so a group costs two uses; the noise of the sum is `reach` times as wide as that of the number. The interval holds
    every ratio theta for which sum - theta * number lies within what both noises explain. For Gaussian noise this is
    Fieller's interval.

    Theorem: Fieller54 for the interval.
    """

    reach: int
    noise: Counts
    rows: int = 1

    def __post_init__(self) -> None:
        positive_integer("reach", self.reach)
        positive_integer("rows", self.rows)

    @property
    def reaches(self) -> tuple[int, int]:
        """How much one user adds at most to the sum, in either direction, and to the number."""
        return self.reach * self.rows, self.rows

    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Return a noisy mean of every group, between -reach and reach."""
        totals, numbers = reading.totals(place), reading.numbers(place)
        return self.release(totals, numbers, reading.confidence, reading.randomness)

    def release(
        self, totals: NDArray[np.int64], numbers: NDArray[np.int64], confidence: Fraction, randomness: Randomness
    ) -> list[Estimate]:
        """Return a noisy mean for each pair of an exact sum and number, between -reach and reach."""
        ratio = self.ratio(confidence)
        of_sum, of_number = self.reaches
        sums = (totals + noise_of(self.noise, of_sum).draw(len(totals), randomness)).tolist()
        counts = (numbers + noise_of(self.noise, of_number).draw(len(numbers), randomness)).tolist()
        return [ratio.estimate(total, count) for total, count in zip(sums, counts, strict=True)]

    def interval_reach(self, number: int, confidence: Fraction) -> float:
        """Return how far the interval of a mean reaches from it at most, given a noisy `number` of users or rows.

        An end theta of the interval satisfies number * |theta - mean| = explained(theta), and the noises explain most
        at the largest theta.
        """
        return self.ratio(confidence).explained(float(self.reach)) / number

    def ratio(self, confidence: Fraction) -> NoisyRatio:
        """Return the quotient of the noisy sum and the noisy number, with intervals at the given confidence."""
        return NoisyRatio.of(self.reach, self.rows, self.noise, confidence)

    def _with(self, noise: Counts) -> "NoisyMean":
        return replace(self, noise=noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyVariance(NoisySums):
    """The variance of values y between -1 and 1, from noisy sums of y and 2 y^2 - 1 and a noisy number of rows.

    Both sums are in units of 1 / reach, so that one of a user's at most `rows` rows adds at most `reach` to either, in
    either direction, and 1 to the number. A group costs three uses, one for each. The variance is (1 + t) / 2 - m^2
    with the two quotients t and m, and lies between 0 and 1. Its interval combines the intervals of both quotients,
    each missed with half the probability.

    Theorem: docs/statistics.md, "Variances", for the sensitivities and the interval.
    """

    measures: ClassVar[int] = 2

    reach: int
    noise: Counts
    rows: int = 1

    def __post_init__(self) -> None:
        positive_integer("reach", self.reach)
        positive_integer("rows", self.rows)

    @property
    def reaches(self) -> tuple[int, int, int]:
        """How much one user adds at most to the sums of y and of 2 y^2 - 1, in either direction, and to the number."""
        return self.reach * self.rows, self.reach * self.rows, self.rows

    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Return a noisy variance of every group, between 0 and 1."""
        exact = (reading.totals(place), reading.totals(place, 1), reading.numbers(place))
        noisy = [
            (values + noise_of(self.noise, reach).draw(len(values), reading.randomness)).tolist()
            for values, reach in zip(exact, self.reaches, strict=True)
        ]
        ratio = self.ratio(reading.confidence)
        return [self.estimate(total, squares, count, ratio) for total, squares, count in zip(*noisy, strict=True)]

    def ratio(self, confidence: Fraction) -> NoisyRatio:
        """Return the quotient of either sum and the number; both quotients' intervals hold with the confidence."""
        return NoisyRatio.of(self.reach, self.rows, self.noise, (1 + confidence) / 2)

    def estimate(self, total: int, squares: int, count: int, ratio: NoisyRatio) -> Estimate:
        """Return the variance and its interval, from noisy sums of y and 2 y^2 - 1 in units of 1 / reach and a number.

        The interval also covers the rounding of what each user adds to either sum, by half a unit.
        """
        first, second = ratio.estimate(total, count), ratio.estimate(squares, count)
        assert first.interval is not None
        assert second.interval is not None
        low, high = (end / self.reach for end in first.interval)
        farthest, nearest = max(low * low, high * high), 0.0 if low <= 0 <= high else min(low * low, high * high)
        least, most = ((1 + end / self.reach) / 2 for end in second.interval)
        rounding = 2.0 / self.reach
        value = (1 + second.value / self.reach) / 2 - (first.value / self.reach) ** 2
        lower, upper = least - farthest - rounding, most - nearest + rounding
        value, lower, upper = (min(max(number, 0.0), 1.0) for number in (value, lower, upper))
        return Estimate(value=value, interval=(lower, upper))

    def _with(self, noise: Counts) -> "NoisyVariance":
        return replace(self, noise=noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersFound(StatisticRelease):
    """The number of users of each group, as the release that found the groups counted them, at no further cost."""

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return nothing: finding the groups has paid for their counts."""
        return ()

    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Return the counts of the release that found the groups, with their intervals."""
        del place
        assert reading.found is not None
        pairs = zip(reading.found.items, reading.found.intervals(reading.confidence), strict=True)
        return [_counted(item.count, interval) for item, interval in pairs]

    def with_noise(self, noise_of_scale: NoiseOfScale, scale: Fraction) -> "UsersFound":
        """Return the same release: it has no noise of its own."""
        del noise_of_scale, scale
        return self

    def with_draws(self, counts: Counts | None, pick: Fraction | None) -> "UsersFound":
        """Return the same release: it draws nothing of its own."""
        del counts, pick
        return self

    def error(self, discovery: ErrorEstimate | None, confidence: Fraction) -> tuple[int | None, float | None]:
        """Return the errors of the release that finds the groups."""
        del confidence
        assert discovery is not None
        return discovery.radius, discovery.expected_error

    def planning_error(self, scale: float, factor: float, discovery: ErrorEstimate | None) -> float:
        """Return the geometric mean of the radius and the mean error of the release that finds the groups."""
        del scale, factor
        assert discovery is not None
        return math.sqrt(max(1, discovery.radius or 0) * (discovery.expected_error or 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class OneQuantile(StatisticRelease):
    """One of the quantiles of the same values, which are picked together.

    `number` is its place among `quantiles`. `leader` is the place of the statistic whose cells are read and which pays
    for all quantiles of these values.
    """

    by_picks: ClassVar[bool] = True

    quantiles: GridQuantiles
    number: int
    leader: int

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return one bounded-range use for each level of the quantiles that are picked together."""
        return (self.quantiles.guarantee,) * self.quantiles.levels

    def guarantees_at(self, place: int) -> tuple[Guarantee, ...]:
        """Return the price of all quantiles of these values at their leader, and nothing at the others."""
        return self.guarantees() if place == self.leader else ()

    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Return the cell picked for this quantile in every group; the quantiles' first estimate picks all of them."""
        del place
        if self.leader not in reading.picked:
            cells = reading.cells(self.leader, self.quantiles.cells)
            reading.picked[self.leader] = [self.quantiles.pick(counts, reading.randomness) for counts in cells]
        return [Estimate(value=cells[self.number]) for cells in reading.picked[self.leader]]

    def with_noise(self, noise_of_scale: NoiseOfScale, scale: Fraction) -> "OneQuantile":
        """Return the release whose picks have a bounded range of 2 / scale.

        Such a pick satisfies the same zCDP, 1 / (2 scale^2), as Gaussian noise of that scale.
        """
        del noise_of_scale
        return replace(self, quantiles=replace(self.quantiles, epsilon=2 / scale))

    def with_draws(self, counts: Counts | None, pick: Fraction | None) -> "OneQuantile":
        """Return the release whose picks have the bounded range `pick`."""
        del counts
        if pick is None:
            raise InvalidParameter("a quantile draws one pick of each group: give discover, as bounded-range:E")
        return replace(self, quantiles=replace(self.quantiles, epsilon=pick))

    def check_among(self, statistics: Sequence[StatisticRelease]) -> None:
        """Raise `InvalidParameter` unless the leader is among the statistics with the same quantiles, and so pays."""
        if self.leader in range(len(statistics)):
            leader = statistics[self.leader]
            if isinstance(leader, OneQuantile) and (leader.leader, leader.quantiles) == (self.leader, self.quantiles):
                return
        raise InvalidParameter(f"statistic {self.leader} does not lead the quantiles that it is to pay for")

    def error(self, discovery: ErrorEstimate | None, confidence: Fraction) -> tuple[int | None, float | None]:
        """Return by how many users the rank is off at most; the mean error is not known."""
        del discovery
        return self.rank_error(confidence), None

    def planning_error(self, scale: float, factor: float, discovery: ErrorEstimate | None) -> float:
        """Return the noise scale: picks are the same whichever noise the other statistics have."""
        del factor, discovery
        return scale

    def rank_error(self, confidence: Fraction) -> int:
        """Return by how many users the rank of the quantile is off at most, with the given confidence."""
        return self.quantiles.rank_error(self.number, confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRelease:
    """The groups with the estimates of each, what was spent, and whether all groups asked for were found."""

    labels: tuple[Label, ...]
    estimates: tuple[tuple[Estimate, ...], ...]
    spent: tuple[Use, ...]
    complete: bool
    users: tuple[int | None, ...] = ()
    """The noisy number of users of each group, where finding the groups released it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatistics:
    """Find groups by their users with `discovery`, or take those of the public `domain`; then release the statistics.

    A user adds to at most `contributions` groups (None: to any number). With `k` at most k groups are found.

    Theorem: lem:peeling_lap for the number of uses of a joint release.
    """

    statistics: tuple[StatisticRelease, ...]
    contributions: int | None
    discovery: HistogramMechanism | None = None
    domain: tuple[Label, ...] = ()
    k: int | None = None

    def __post_init__(self) -> None:
        if self.contributions is not None:
            positive_integer("contributions", self.contributions)
        object.__setattr__(self, "domain", distinct_labels(self.domain))
        for statistic in self.statistics:
            statistic.check_among(self.statistics)
        if self.discovery is None and UsersFound() in self.statistics:
            raise InvalidParameter("without a discovery nobody has counted the users: ask for a noisy total")

    def guarantees(self) -> tuple[Use, ...]:
        """Return the most that one release may cost."""
        found = () if self.discovery is None else self.discovery.guarantees()
        most = self.k or len(self.domain) or None
        return merged((*found, *self._uses(most)))

    def release(self, table: GroupTable, randomness: Randomness, confidence: Fraction = CONFIDENCE) -> GroupRelease:
        """Return the statistics of the groups found, in the order of the discovery or of the domain."""
        found = None if self.discovery is None else self.discovery.release(table.users, randomness)
        cut = found if found is None or self.k is None else found.top(self.k)
        labels = self.domain if cut is None else cut.labels
        ends = np.cumsum([statistic.measures for statistic in self.statistics]).tolist()
        reading = GroupReading(
            table=table,
            labels=labels,
            offsets=(0, *ends[:-1]),
            found=cut,
            confidence=confidence,
            randomness=randomness,
        )
        columns = [statistic.estimates(place, reading) for place, statistic in enumerate(self.statistics)]
        return GroupRelease(
            labels=labels,
            estimates=tuple(zip(*columns, strict=True)) if labels else (),
            spent=merged((*(() if found is None else found.spent), *self._uses(len(labels)))),
            complete=found is None or found.complete,
            users=(None,) * len(labels) if cut is None else tuple(item.noisy for item in cut.items),
        )

    def _uses(self, groups: int | None) -> tuple[Use, ...]:
        """Return the uses of all statistics for `groups` groups; None stands for a number without a bound."""
        bounds = [bound for bound in (groups, self.contributions) if bound is not None]
        if not bounds:
            raise InvalidParameter("a user must add to a bounded number of groups: give contributions, k or a domain")
        changed = min(bounds)
        guarantees = [
            guarantee for place, statistic in enumerate(self.statistics) for guarantee in statistic.guarantees_at(place)
        ]
        return tuple(Use(guarantee, changed) for guarantee in guarantees) if changed else ()


def _over(values: Mapping[Label, int], labels: tuple[Label, ...]) -> NDArray[np.int64]:
    return np.array([values.get(label, 0) for label in labels], dtype=np.int64)


def _counted(count: float | None, interval: object) -> Estimate:
    assert count is not None
    lower, upper = getattr(interval, "lower", count), getattr(interval, "upper", count)
    return Estimate(value=count, interval=(lower, upper))

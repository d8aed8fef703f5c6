"""Sums, means, variances and quantiles of groups: the noise of each statistic, its cost and its estimates.

Groups are found once, by their noisy numbers of users, unless they are public. Every statistic is then released for all
groups found. Of j released groups at most min(j, contributions) differ between neighbouring tables, so a statistic
costs that many uses of its guarantees. All values are whole numbers, because the engine has clipped and rounded the
values that users add to groups.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.guarantees import Guarantee, Use, merged
from setwise.errors import InvalidParameter
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.noisy_ratio import NoisyRatio
from setwise.mechanisms.parameters import positive_integer
from setwise.mechanisms.quantile import GridQuantiles
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import ErrorEstimate, Estimate
from setwise.mechanisms.statistic_release import GroupReading, GroupTable, NoiseOfScale, StatisticRelease
from setwise.mechanisms.two_phase import (
    Counts,
    TwoPhaseTopK,
    guarantee_of,
    noise_of,
)
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGaussian, UnknownGumbel, UnknownLaplace
from setwise.mechanisms.weighted_rounds import WeightedRounds
from setwise.records import set_fields

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
"""The mechanisms that release a histogram, or its top k. Each of them can find the groups of further statistics."""


class NoisySums(StatisticRelease):
    """A statistic computed from one or several noisy sums.

    `noise` is the kind of noise, and its scale for a sum to which one user adds at most 1. A sum to which one user adds
    at most n, in absolute value, gets n times this scale; n is the sum's sensitivity.
    """

    __slots__ = ()

    noise: Counts

    @property
    @abstractmethod
    def reaches(self) -> tuple[int, ...]:
        """The most that one user adds to each of the statistic's sums, in absolute value: their sensitivities."""

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the privacy cost for one group: one guarantee for each noisy sum that the statistic needs."""
        return tuple(guarantee_of(self.noise, reach) for reach in self.reaches)

    def with_noise(self, noise_of_scale: NoiseOfScale, scale: Fraction) -> "StatisticRelease":
        """Return a copy of this statistic with noise on its sums, which costs about as much as one noisy sum.

        A statistic releases one, two or three noisy sums. `scale` is the noise scale of a statistic with one sum, to
        which one user adds at most 1. With more sums the scale is larger, by about the square root of their number. So
        every statistic of a query costs about the same, and the planner searches only one scale for all of them.
        `noise_of_scale` maps a noise scale to Laplace or Gaussian noise of that scale.
        """
        root = _ROOTS[len(self.reaches)]
        wider = scale if root == 1.0 else Fraction(f"{float(scale) * root:.4g}")
        return self._with(noise_of_scale(wider))

    def with_draws(self, counts: Counts | None, pick: Fraction | None) -> "StatisticRelease":
        """Return this statistic with the noise `counts` on each of its sums, for an account that registered this noise.

        An account may have registered in advance which mechanisms its questions use. They replace the mechanisms that
        the planner would choose.

        - `counts` is a kind of noise (Laplace or Gaussian) and its scale for a sum to which one user adds at most 1.
        - `pick` is the epsilon of the exponential mechanism. Only quantiles use it; it is ignored here.

        Raises: `InvalidParameter` if `counts` is None.
        """
        del pick
        if counts is None:
            raise InvalidParameter("counts is missing: give the use that each count or sum draws, such as pure:0.1")
        return self._with(counts)

    @abstractmethod
    def _with(self, noise: Counts) -> "StatisticRelease":
        """Return a copy of this statistic whose sums get noise of the kind and scale in `noise`.

        The scale is for a sum to which one user adds at most 1. A sum to which one user adds at most n gets n times the
        scale.
        """


_ROOTS = {1: 1.0, 2: 1.414, 3: 1.732}
"""Factor on the noise scale by the number of sums, so that all sums together cost about as much as one sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyTotal(NoisySums):
    """A noisy sum to which one user adds at most `reach` in absolute value (its sensitivity).

    `noise` has the kind of noise and its scale for sensitivity 1; the sum gets noise of `reach` times that scale.
    """

    reach: int
    noise: Counts

    def __post_init__(self) -> None:
        positive_integer("reach", self.reach)

    @property
    def reaches(self) -> tuple[int]:
        """The most that one user adds to the sum, in absolute value, as a tuple of one number."""
        return (self.reach,)

    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Return the noisy sum of this statistic in every group, each with its confidence interval.

        `reading` has the exact sums of all statistics in the groups; `place` is the index of this statistic in
        `reading`.
        """
        totals, numbers = reading.totals(place), reading.numbers(place)
        return self.release(totals, numbers, reading.confidence, reading.randomness)

    def release(
        self, totals: NDArray[np.int64], numbers: NDArray[np.int64], confidence: Fraction, randomness: Randomness
    ) -> list[Estimate]:
        """Return a noisy sum with its interval for each of the exact `totals`.

        - `totals` has the exact sum of each group, in rounding steps.
        - `numbers` is ignored. Other statistics, such as means, need it: it has the count of values in each group.
        - `confidence` is the probability with which an interval contains the exact sum.
        - `randomness` is the source of the noise.
        """
        del numbers
        noise = noise_of(self.noise, self.reach)
        radius = noise.radius(confidence)
        noisy = (totals + noise.draw(len(totals), randomness)).tolist()
        return [Estimate(value=value, interval=(value - radius, value + radius)) for value in noisy]

    def error(self, discovery: ErrorEstimate | None, confidence: Fraction) -> tuple[int | None, float | None]:
        """Return (radius of the interval, mean absolute error) of the noisy sum, in the units of the sum; never None.

        `confidence` is the probability with which the interval holds. `discovery`, the error of finding the groups, is
        ignored because the sum does not depend on it.
        """
        del discovery
        noise = noise_of(self.noise, self.reach)
        return noise.radius(confidence), noise.expected_absolute

    def _with(self, noise: Counts) -> "NoisyTotal":
        """Return a copy of this noisy sum with noise of the kind and scale in `noise`.

        The scale is for a sum to which one user adds at most 1. This sum gets `reach` times the scale, where `reach` is
        the most that one user adds to it.
        """
        return replace(self, noise=noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMean(NoisySums):
    """A noisy sum divided by a noisy count of users, or of rows; each group costs two uses of the noise mechanism.

    - `reach` is the largest absolute value that one user (for a mean over users) or one row (for a mean over rows) adds
      to the sum.
    - `noise` is the kind of noise, and its scale for a sum to which one user adds at most 1. That scale is multiplied
      by what one user adds at most: by `rows` for the count, and by `reach` * `rows` for the sum.
    - `rows` is the most rows of one user; 1 for a mean over users.

    Theorem: Fieller54 for the interval.
    """

    # The interval contains every ratio theta for which noise can explain sum - theta * number. For Gaussian noise it is
    # Fieller's interval.

    reach: int
    noise: Counts
    rows: int = 1

    def __post_init__(self) -> None:
        positive_integer("reach", self.reach)
        positive_integer("rows", self.rows)

    @property
    def reaches(self) -> tuple[int, int]:
        """The most that one user adds to the noisy sum, in absolute value, and to the noisy count of users or rows.

        The sum is in rounding steps.
        """
        return self.reach * self.rows, self.rows

    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Return a noisy mean with its interval for every group.

        Means are limited to [-reach, reach], where reach is the most that a user or row adds to the sum. `reading` has
        each group's exact sum and exact count of users or rows; `place` is the index of this statistic in `reading`.
        """
        totals, numbers = reading.totals(place), reading.numbers(place)
        return self.release(totals, numbers, reading.confidence, reading.randomness)

    def release(
        self, totals: NDArray[np.int64], numbers: NDArray[np.int64], confidence: Fraction, randomness: Randomness
    ) -> list[Estimate]:
        """Return a noisy mean with its interval for every group.

        `totals` has the exact sum of each group, and `numbers` the exact count of its users or rows. Means are limited
        to the range of possible means. Each interval holds with probability `confidence`.
        """
        ratio = self.ratio(confidence)
        of_sum, of_number = self.reaches
        sums = (totals + noise_of(self.noise, of_sum).draw(len(totals), randomness)).tolist()
        counts = (numbers + noise_of(self.noise, of_number).draw(len(numbers), randomness)).tolist()
        return [ratio.estimate(total, count) for total, count in zip(sums, counts, strict=True)]

    def interval_reach(self, number: int, confidence: Fraction) -> float:
        """Return the largest half-width that the interval of a mean over `number` users or rows can have.

        A plan states this number, in the units of the values, as the expected accuracy of a mean. The interval holds
        with probability `confidence`. Its half-width depends on the mean itself and is largest for the largest possible
        mean, which is assumed here; so no noisy sum is needed.

        Requires: `number`, a noisy number of users or rows, is positive.
        """
        # Let explained(theta) bound the noise in (noisy sum) - theta * number. An end theta of the interval satisfies
        # number * |theta - mean| = explained(theta). So the bound is explained(reach) / number, because explained is
        # largest at the largest possible mean, `reach`.
        return self.ratio(confidence).explained(float(self.reach)) / number

    def ratio(self, confidence: Fraction) -> NoisyRatio:
        """Return the object that divides a noisy sum by a noisy count of users or rows.

        For each quotient it also computes an interval that holds with probability `confidence`.
        """
        return NoisyRatio.of(self.reach, self.rows, self.noise, confidence)

    def _with(self, noise: Counts) -> "NoisyMean":
        """Return a copy of this mean with noise of the kind and scale in `noise`.

        The scale is for a sum to which one user adds at most 1. The mean is a noisy sum divided by a noisy count; each
        of the two gets the scale times the most that one user adds to it.
        """
        return replace(self, noise=noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyVariance(NoisySums):
    """The variance of values y between -1 and 1, computed from three noisy numbers for each group.

    The three numbers are the sum of y, the sum of 2 y^2 - 1, and the number of rows, so a group costs three uses of the
    noise mechanism. Like y, 2 y^2 - 1 lies between -1 and 1, so both sums get the same noise.

    - `reach` is a whole number: the sums are rounded to multiples of 1 / reach, and one row adds at most `reach` such
      units.
    - `rows` is the most rows of one user that count. So one user adds at most reach * rows units to each sum, and at
      most `rows` to the number of rows.
    - `noise` is the kind of noise, and its scale for a number to which one user adds at most 1. The three numbers get
      this scale times the most that one user adds to them.

    Theorem: docs/statistics.md, "Variances", for the sensitivities and the interval.
    """

    # Let m and t be the two sums divided by the number. The variance is (1 + t) / 2 - m^2, limited to between 0 and 1.
    # Its interval combines the intervals of m and t, each of which may miss with half of the allowed probability.

    measures: ClassVar[int] = 2

    reach: int
    noise: Counts
    rows: int = 1

    def __post_init__(self) -> None:
        positive_integer("reach", self.reach)
        positive_integer("rows", self.rows)

    @property
    def reaches(self) -> tuple[int, int, int]:
        """The most that one user adds to each of the three released sums, in absolute value: their sensitivities.

        The three are the sum of y, the sum of 2 y^2 - 1, and the number of rows, where y are the values, scaled to lie
        between -1 and 1. The first two are in units of 1 / `reach`.
        """
        return self.reach * self.rows, self.reach * self.rows, self.rows

    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Return a noisy variance with its interval for every group.

        The values y were scaled to lie between -1 and 1, so the variance lies between 0 and 1; the caller scales it
        back. `reading` has, for each group, the exact sum of y, the exact sum of 2 y^2 - 1, and the exact number of
        rows. `place` is the index of this statistic in `reading`.
        """
        exact = (reading.totals(place), reading.totals(place, 1), reading.numbers(place))
        noisy = [
            (values + noise_of(self.noise, reach).draw(len(values), reading.randomness)).tolist()
            for values, reach in zip(exact, self.reaches, strict=True)
        ]
        ratio = self.ratio(reading.confidence)
        return [self.estimate(total, squares, count, ratio) for total, squares, count in zip(*noisy, strict=True)]

    def ratio(self, confidence: Fraction) -> NoisyRatio:
        """Return the object that divides a noisy sum by the noisy number of rows, with an interval of the quotient.

        A variance needs two such quotients, with a noisy sum of values and one of squares. Their intervals hold
        together with probability `confidence`: each misses with probability at most half of 1 - `confidence`.
        """
        return NoisyRatio.of(self.reach, self.rows, self.noise, (1 + confidence) / 2)

    def estimate(self, total: int, squares: int, count: int, ratio: NoisyRatio) -> Estimate:
        """Return the variance of values y between -1 and 1, with its interval, from noisy sums and a noisy row count.

        The variance is the mean of y^2 minus the squared mean of y, limited to [0, 1].

        - `total` is the noisy sum of y, and `squares` the noisy sum of 2 y^2 - 1. Both are whole numbers in units of 1
          / `reach` (a field), so a `total` of `reach` is a sum of 1.
        - `count` is the noisy number of rows.
        - `ratio` is the object that divides a sum by `count`, and computes the quotient's interval.
        """
        # The interval of the variance also covers rounding: each user's contribution to a sum was rounded by at most
        # half a unit.
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
        """Return a copy of this variance with noise of the kind and scale in `noise`.

        The scale is for a sum to which one user adds at most 1. The variance is computed from three noisy sums; each of
        them gets the scale times the most that one user adds to it.
        """
        return replace(self, noise=noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersFound(StatisticRelease):
    """The number of users of each group, taken from the release that found the groups, at no further cost."""

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return no guarantees: the cost of finding the groups already covers their numbers of users."""
        return ()

    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Return each group's noisy number of users with its interval, from the release that found the groups.

        `reading` has that release; `place` is ignored.
        """
        del place
        assert reading.found is not None
        pairs = zip(reading.found.items, reading.found.intervals(reading.confidence), strict=True)
        return [_count_estimate(item.count, interval) for item, interval in pairs]

    def with_noise(self, noise_of_scale: NoiseOfScale, scale: Fraction) -> "UsersFound":
        """Return this statistic unchanged; `noise_of_scale` and `scale` are ignored.

        The noise on the number of users comes from the release that finds the groups.
        """
        del noise_of_scale, scale
        return self

    def with_draws(self, counts: Counts | None, pick: Fraction | None) -> "UsersFound":
        """Return this statistic unchanged, because its noise comes from the release that finds the groups.

        Other statistics take their noise from the guarantees that an account registered: sums from `counts`, and
        quantiles from `pick`, the epsilon of a pick. Both are ignored here.
        """
        del counts, pick
        return self

    def error(self, discovery: ErrorEstimate | None, confidence: Fraction) -> tuple[float | None, float | None]:
        """Return (radius of the interval, mean absolute error) of the noisy numbers of users, both in users.

        The release that finds the groups also counts their users, so both numbers are those of `discovery`, the
        expected error of this release (never None here). A number that `discovery` does not know is None. `confidence`
        is ignored, because `discovery` has its own.
        """
        del confidence
        assert discovery is not None
        return discovery.radius, discovery.expected_error

    def planning_error(self, scale: float, factor: float, discovery: ErrorEstimate | None) -> float:
        """Return the error of the number of users by which the planner compares plans; smaller is better.

        The mechanism that finds the groups also counts their users, so the error is taken from its expected error,
        `discovery` (never None here): it is sqrt(radius of the interval * mean absolute error), in users. `scale` and
        `factor`, which describe the noise of other statistics, are ignored.
        """
        del scale, factor
        assert discovery is not None
        return math.sqrt(max(1, discovery.radius or 0) * (discovery.expected_error or 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class OneQuantile(StatisticRelease):
    """One of several quantiles of the same values, which the exponential mechanism picks together.

    - `quantiles` is the mechanism that picks all quantiles of these values together.
    - `number` is the index of this quantile among the quantiles of these values.
    - `leader` is the index, among all statistics of the query, of the first quantile of these values. That statistic is
      charged the cost of all quantiles of these values.
    """

    by_picks: ClassVar[bool] = True

    quantiles: GridQuantiles
    number: int
    leader: int

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the cost, for one group, of all quantiles picked together: one bounded-range use per level of picks.

        The quantiles are picked level by level: each level halves the number of quantiles left between two earlier
        picks. So m quantiles take floor(log2(m)) + 1 levels (`GridQuantiles.levels`).
        """
        return (self.quantiles.guarantee,) * self.quantiles.levels

    def guarantees_at(self, place: int) -> tuple[Guarantee, ...]:
        """Return the guarantees that this quantile, with the index `place`, adds to the privacy cost of one group.

        `place` is the index of this statistic among all. Quantiles of the same values are picked together, and the cost
        of all of them is charged once, to the statistic with the index `leader`. So the result is empty for the other
        quantiles of these values.
        """
        return self.guarantees() if place == self.leader else ()

    def estimates(self, place: int, reading: GroupReading) -> list[Estimate]:
        """Return one estimate of this quantile per group: the index of the grid cell that was picked for the group.

        A grid cell is one possible result of the quantile. The estimates have no intervals.

        Quantiles of the same values are picked together. So the first call for any of them draws the picks of all, and
        stores them in `reading` (the exact numbers that were read, and the picks so far). Later calls only look them
        up. `place`, the index of this statistic, is ignored.
        """
        del place
        if self.leader not in reading.picked:
            cells = reading.cells(self.leader, self.quantiles.cells)
            reading.picked[self.leader] = [self.quantiles.pick(counts, reading.randomness) for counts in cells]
        return [Estimate(value=cells[self.number]) for cells in reading.picked[self.leader]]

    def with_noise(self, noise_of_scale: NoiseOfScale, scale: Fraction) -> "OneQuantile":
        """Return this quantile with the exponential mechanism of epsilon 2 / scale, which picks the result from a grid.

        A pick with this epsilon satisfies the same zCDP, 1 / (2 scale^2), as Gaussian noise of that scale.
        `noise_of_scale` is ignored, because no noise is added.
        """
        del noise_of_scale
        return replace(self, quantiles=replace(self.quantiles, epsilon=2 / scale))

    def with_draws(self, counts: Counts | None, pick: Fraction | None) -> "OneQuantile":
        """Return this quantile with `pick` as the epsilon of the exponential mechanism that picks its value.

        An account may have registered in advance which mechanisms its questions use. Such questions are planned with
        these mechanisms. `counts` would be the noise on counts or sums, of which a quantile has none, so it is ignored.

        Raises: `InvalidParameter` if `pick` is None.
        """
        del counts
        if pick is None:
            raise InvalidParameter(
                "discover is missing: give the use that each pick of a quantile draws, such as bounded-range:0.1"
            )
        return replace(self, quantiles=replace(self.quantiles, epsilon=pick))

    def check_among(self, statistics: Sequence[StatisticRelease]) -> None:
        """Raise `InvalidParameter` if no statistic of the query pays for this quantile; `statistics` are all of them.

        Quantiles of the same values are picked together and charged once. The statistic at the index `leader` in
        `statistics` pays for all of them, and the others cost nothing. So the statistic at this index must be a
        quantile of the same values that names itself as the leader; otherwise the picks would be free.
        """
        if self.leader in range(len(statistics)):
            leader = statistics[self.leader]
            if isinstance(leader, OneQuantile) and (leader.leader, leader.quantiles) == (self.leader, self.quantiles):
                return
        raise InvalidParameter(
            f"statistic {self.leader} must be a quantile of the same values, because it pays for all of them"
        )

    def error(self, discovery: ErrorEstimate | None, confidence: Fraction) -> tuple[int | None, float | None]:
        """Return (r, None): with probability `confidence`, the result is at most r users from the true quantile.

        The second member, the mean absolute error of other statistics, is not known for a quantile. `discovery`, the
        error of finding the groups, is ignored.
        """
        del discovery
        return self.rank_error(confidence), None

    def planning_error(self, scale: float, factor: float, discovery: ErrorEstimate | None) -> float:
        """Return the error by which the planner compares kinds of noise: always `scale`, so that no kind is preferred.

        Quantiles are picked, so their error does not depend on the kind of noise that other statistics have. `factor`
        (the error of that noise at scale 1) and `discovery` (the error of finding the groups, or None) are ignored.
        """
        del factor, discovery
        return scale

    def rank_error(self, confidence: Fraction) -> int:
        """Return a bound on how many users lie between the picked result and the true quantile (the error in rank).

        The bound holds with probability `confidence`.
        """
        return self.quantiles.rank_error(self.number, confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRelease:
    """The result of releasing statistics of groups.

    - `labels` are the groups.
    - `estimates` has for each group one estimate per statistic.
    - `spent` is the privacy cost of the release: guarantees and how often each was used.
    - `complete` is False if the release that found private groups may have missed some.
    - `users` has for each group the noisy number of its users; None if no such number was released.
    """

    labels: tuple[Label, ...]
    estimates: tuple[tuple[Estimate, ...], ...]
    spent: tuple[Use, ...]
    complete: bool
    users: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatistics:
    """The mechanism that releases `statistics` of groups, which `discovery` finds or the public `domain` lists.

    - `contributions` is the most groups to which a user adds (None: any number).
    - `discovery` is the mechanism that finds the groups, by their number of users; None if every group of the public
      `domain` is released. If `discovery` works in rounds, the caller first runs the rounds, and then calls `over` with
      the groups found.
    - `k` is the most groups that are found; None for any number.
    - `users` is empty, or has the number of users of each group in `domain`, with noise, as an earlier search released
      it. These numbers are passed on in the release; nothing is computed from them here.

    Theorem: the paper's count of uses for a joint release (lem:peeling_lap).
    """

    statistics: tuple[StatisticRelease, ...]
    contributions: int | None
    discovery: HistogramMechanism | WeightedRounds | None = None
    domain: tuple[Label, ...] = ()
    k: int | None = None
    users: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        if self.contributions is not None:
            positive_integer("contributions", self.contributions)
        set_fields(self, domain=distinct_labels(self.domain))
        for statistic in self.statistics:
            statistic.check_among(self.statistics)
        if self.discovery is None and UsersFound() in self.statistics:
            raise InvalidParameter(
                "users are counted only where a discovery finds the groups; over a public domain ask for a noisy total"
            )

    def guarantees(self) -> tuple[Use, ...]:
        """Return the largest privacy cost of one release, as uses (guarantees and how often each is used).

        The cost includes finding the groups, if they are not public, and releasing the statistics of each group.

        Raises: `InvalidParameter` if the number of groups that one user can change has no limit: `contributions` (the
        most groups of one user) is None, `k` (the most groups found) is None, and there is no list of public groups.
        """
        discovery_uses = () if self.discovery is None else self.discovery.guarantees()
        most = self.k or len(self.domain) or None
        return merged((*discovery_uses, *self._uses(most)))

    def over(self, labels: Sequence[Label], users: Sequence[float | None] = ()) -> "GroupStatistics":
        """Return the mechanism that releases the same statistics for the groups `labels`, without finding groups.

        - `labels` are the groups. They must be public: fixed in advance, or released before.
        - `users` has a noisy number of users for each group, which was released before; empty if there are none.
        """
        return replace(self, discovery=None, domain=tuple(labels), users=tuple(users))

    def release(self, table: GroupTable, randomness: Randomness, confidence: Fraction = CONFIDENCE) -> GroupRelease:
        """Return the noisy statistics of each group, in the order of the groups' discovery or of the public domain.

        - `table` has the exact numbers.
        - `randomness` is the source of the noise.
        - `confidence` is the probability with which an interval contains the exact number.

        Raises: `InvalidParameter` if the groups have to be found in several rounds over the table. The caller then runs
        the rounds first, and calls `release` of the object that `over` returns for the groups found.
        """
        if isinstance(self.discovery, WeightedRounds):
            raise InvalidParameter("groups are found in rounds first: run them, and release over the groups found")
        discovery = None if self.discovery is None else self.discovery.release(table.users, randomness)
        cut = discovery if discovery is None or self.k is None else discovery.top(self.k)
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
            spent=merged((*(() if discovery is None else discovery.spent), *self._uses(len(labels)))),
            complete=discovery is None or discovery.complete,
            users=(self.users or (None,) * len(labels)) if cut is None else tuple(item.noisy for item in cut.items),
        )

    def _uses(self, groups: int | None) -> tuple[Use, ...]:
        """Return the privacy cost of releasing the statistics for `groups` groups: guarantees and numbers of uses.

        One release needs each guarantee once for each group whose statistics one user can change. A user is in at most
        as many groups as the contribution bound (the field `contributions`; None if there is none). So the number of
        uses of each guarantee is the smaller one of `groups` and that bound. A `groups` of None stands for any number
        of groups.

        Raises: `InvalidParameter` if `groups` and the contribution bound are both None, because the cost is then
        unbounded.
        """
        bounds = [bound for bound in (groups, self.contributions) if bound is not None]
        if not bounds:
            raise InvalidParameter("a user must add to a bounded number of groups: give contributions, k or a domain")
        changed = min(bounds)
        guarantees = [
            guarantee for place, statistic in enumerate(self.statistics) for guarantee in statistic.guarantees_at(place)
        ]
        return tuple(Use(guarantee, changed) for guarantee in guarantees) if changed else ()


def _count_estimate(count: float | None, interval: object) -> Estimate:
    """Return a released `count` as an estimate with its confidence interval.

    `interval` is an object with the fields `lower` and `upper`. If it is None, because the release has no interval for
    the count, the interval of the estimate is [count, count].

    Requires: `count` is not None.
    """
    assert count is not None
    lower, upper = getattr(interval, "lower", count), getattr(interval, "upper", count)
    return Estimate(value=count, interval=(lower, upper))

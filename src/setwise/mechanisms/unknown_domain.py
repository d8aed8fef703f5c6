"""Mechanisms for an unknown domain: a group is released if its noisy count exceeds a threshold.

The threshold hides groups that only one user has: except with probability delta, no such group exceeds it. With
Laplace, Gaussian or truncated Gaussian noise, counts are released together with the groups. With Gumbel noise, only the
order of the groups is released.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from setwise.accounting.brackets import float_above, float_below
from setwise.accounting.checks import check_choice
from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    DiscreteLaplace,
    Gaussian,
    TruncatedDiscreteGaussian,
    Use,
    ZeroConcentratedDP,
)
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.known_domain import LARGEST_PICK_EPSILON, SMALLEST_RATE
from setwise.mechanisms.labels import Label
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, SMALLEST_NOISE, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.truncated_gaussian import Threshold, TruncatedGaussianNoise, truncation_level
from setwise.mechanisms.parameters import binary, positive_integer, probability, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import ErrorEstimate, Item, Release, Selection, ranked_items, with_noise
from setwise.mechanisms.sampling.fixed_point import ceil_divide, exp_minus, ln
from setwise.mechanisms.sampling.gumbel import gumbel_order
from setwise.records import set_fields

_TAIL_BITS = 512
_LARGEST_MARGIN = 1 << 61


def exceedance(scale: Fraction, margin: int) -> Fraction:
    """Return P[Z > margin] for discrete Laplace noise Z of this `scale`, rounded up to a fraction.

    A count that lies `margin` below a fixed threshold exceeds the threshold with this probability after noise. The
    probability is q^(margin+1) / (1 + q) with q = exp(-1/scale).
    """
    low_q, _ = _exp(1 / scale)
    return _exp((margin + 1) / scale)[1] / (1 + low_q)


def difference_exceedance(scale: Fraction, margin: int) -> Fraction:
    """Return P[Z1 - Z2 > margin], rounded up, where Z1 and Z2 are independent discrete Laplace noises of `scale`.

    If the noise of a count is Z1 and that of a threshold Z2, a count that lies `margin` below the threshold exceeds it
    with this probability.

    >>> float(difference_exceedance(Fraction(1), 0)) < 0.5
    True
    """
    # With q = exp(-1/scale), P[Z1 - Z2 = d] = ((1-q)/(1+q))^2 q^d (d + (1+q^2)/(1-q^2)) for d >= 0. Its sum beyond the
    # margin m is ((1-q)/(1+q))^2 q^(m+1) ((m + 1 + (1+q^2)/(1-q^2))/(1-q) + q/(1-q)^2). For wide noise this is about
    # exp(-t)(2 + t)/4 with t = m/scale.
    low, high = _exp(1 / scale)
    spread = ((1 - low) / (1 + low)) ** 2
    center = (1 + high * high) / (1 - high * high)
    tail = (margin + 1 + center) / (1 - high) + high / (1 - high) ** 2
    return spread * _exp((margin + 1) / scale)[1] * tail


def _exp(x: Fraction) -> tuple[Fraction, Fraction]:
    """Return certified (lower bound, upper bound) on exp(-x), for x >= 0, as fractions.

    The caller needs exp(-1/scale) for the tail probabilities of Laplace noise, which are made of its powers.
    """
    low, high = exp_minus(x, _TAIL_BITS)
    return Fraction(low, 1 << _TAIL_BITS), Fraction(high, 1 << _TAIL_BITS)


@lru_cache(maxsize=64)
def fixed_margin(scale: Fraction, changeable: int, delta: Fraction) -> int:
    """Return the margin of a threshold without noise: the smallest m >= 0 with changeable * P[Z > m] <= delta.

    A threshold on noisy counts must hide groups that only one of two neighbouring tables has. The threshold is the
    largest exact count that such a group can have, plus m.

    - Z is discrete Laplace noise of this `scale` on a count.
    - `changeable` is the largest number of groups to hide.
    - `delta` bounds the probability that the noisy count of any of them exceeds the threshold.

    Raises: `Unattainable` if m would exceed 2^61.
    """
    return _smallest(lambda margin: changeable * exceedance(scale, margin) <= delta)


@lru_cache(maxsize=64)
def noisy_margin(scale: Fraction, changeable: int, delta: Fraction) -> int:
    """Return the margin of a threshold with noise: the smallest m >= 0 with changeable * P[Z1 - Z2 > m] <= delta.

    A threshold on noisy counts must hide groups that only one of two neighbouring tables has. Before its noise, the
    threshold is the largest exact count that such a group can have, plus m.

    - Z1 and Z2 are independent discrete Laplace noises of this `scale`: Z1 on a count, and Z2 on the threshold.
    - `changeable` is the largest number of groups to hide.
    - `delta` bounds the probability that the noisy count of any of them exceeds the noisy threshold.

    Raises: `Unattainable` if m would exceed 2^61.
    """
    return _smallest(lambda margin: changeable * difference_exceedance(scale, margin) <= delta)


def _smallest(holds: Callable[[int], bool]) -> int:
    """Return the smallest integer m >= 0 for which `holds(m)` is true; used to find how high a threshold must be.

    Raises: `Unattainable` if m would exceed 2^61.
    Requires: if `holds` is true for some integer, it is true for all larger integers too.
    """
    most = 1
    while not holds(most):
        most *= 2
        if most > _LARGEST_MARGIN:
            raise Unattainable("no threshold below 2^61 keeps the failure probability at delta; use a larger delta")
    least = -1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownLaplace:
    """Adds Laplace noise to counts; releases the groups whose noisy count exceeds a threshold, with their noisy counts.

    - `contributions` is the most groups to which a user adds, and `per_item` the most that a user adds to one count.
    - `scale`: the noise has scale per_item * `scale`.
    - `delta` bounds the probability that a group of one user alone is released.
    - `limit`: if set, only groups with the `limit` highest exact counts can be released, and the threshold is noisy and
      depends on the next highest count. None: all positive counts take part, and the threshold is fixed.

    Theorem: RogersSuPeDuLeKaSaAh20 (unkLap), with the margin of docs/intervals.md, Proposition 1, on the integers.
    Ensures: with a limit, a release is (contributions/scale, delta)-DP. Without a limit, it costs `contributions`
    Laplace uses of epsilon 1/scale each, except in an event of probability delta.
    """

    # With a `limit` the threshold is `margin` + per_item above the lowest of the counts read (or above 0 if there are
    # fewer), plus noise.

    contributions: int
    per_item: int = 1
    scale: Fraction
    delta: Fraction
    limit: int | None = None

    def __post_init__(self) -> None:
        _check(self, "scale")
        if self.limit is not None:
            positive_integer("limit", self.limit)
        LaplaceNoise(scale=self.scale * self.per_item)  # raises InvalidParameter if this noise is too wide

    @property
    def noise(self) -> LaplaceNoise:
        """The integer Laplace noise that is added to each count.

        If the field `limit` is set, only the groups with the `limit` highest counts can be released. The threshold then
        depends on the data, so it gets noise of this kind, too.
        """
        return LaplaceNoise(scale=binary(self.scale * self.per_item))

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of one release: n * s / (noise scale).

        n is `contributions`, the most groups to which one user adds, and s is `per_item`, the most that a user adds to
        one count.
        """
        return self.contributions * self.per_item / self.noise.scale

    @property
    def margin(self) -> int:
        """How far, in units of a count, the threshold lies above the largest exact count that it must hide.

        The threshold must hide groups that can be released from only one of two neighbouring tables, such as a group
        that only one user has. The margin is so large that, with probability at least 1 - `delta`, noise lifts none of
        these groups above the threshold.
        """
        # With a `limit` on the number of labels, both the count and the threshold have noise, so the distance bounds
        # the difference of two noises.
        if self.limit is None:
            return fixed_margin(self.noise.scale, self.contributions, self.delta)
        return noisy_margin(self.noise.scale, min(self.contributions, self.limit), self.delta)

    @property
    def cutoff(self) -> int:
        """The threshold on noisy counts or, if the number of groups has a `limit`, the fixed part of the threshold.

        It is per_item (the most that one user adds to a count) plus `margin`, which covers the noise.

        - Without a `limit`, a group is released if its noisy count exceeds this number.
        - With a `limit`, only the `limit` groups with the highest exact counts can be released. Their noisy counts must
          exceed this number, plus the highest exact count of the other groups (0 if there are none), plus noise.
        """
        return self.per_item + self.margin

    def guarantees(self) -> tuple[Use, ...]:
        """Return the privacy cost of one release, as uses (guarantees and how often each is used).

        The field `limit` is the largest number of groups that can be released, or None. The cost depends on it:

        - Without a `limit`: one use of Laplace noise for each of the `contributions` groups of a user, and one (0,
          delta)-DP use for the threshold that hides rare groups.
        - With a `limit`: one (epsilon, delta)-DP use for the whole release, because the threshold then depends on the
          data, and no cheaper composition is proved.
        """
        # With a `limit`, the threshold depends on the data, and no cheaper composition is proved.
        delta = float_above(self.delta)
        if self.limit is not None:
            return (Use(ApproxDP(epsilon=float_above(self.epsilon), delta=delta)),)
        step = DiscreteLaplace(scale=float(self.noise.scale), sensitivity=self.per_item)
        return Use(step, self.contributions), Use(ApproxDP(epsilon=0.0, delta=delta))

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the expected error of the noisy counts, and how large a count must be for its group to be released.

        A planner compares mechanisms by these numbers before any data is read: they follow from the parameters alone.
        `confidence` is the probability with which an interval contains the exact count, and with which a group with a
        large enough count is released. The field `detectable` of the result has the needed size:

        - Without a `limit` (the most groups that take part), `detectable` is the exact count that a group needs.
        - With a `limit`, the threshold depends on the table: it lies above the highest exact count of the groups that
          do not take part (0 if all groups do). `detectable` is by how much a group's count must exceed that count.
        """
        if self.limit is None:
            return ErrorEstimate.of(self.noise, confidence, cutoff=self.cutoff)
        confidence = probability("confidence", confidence)
        # The noises of the count and of the threshold may each miss with half of the probability.
        reach = 2 * self.noise.radius(1 - (1 - confidence) / 2)
        estimate = ErrorEstimate.of(self.noise, confidence)
        return replace(estimate, detectable=self.cutoff + 1 + reach, above_rank=self.limit + 1)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the groups whose noisy count exceeds the threshold, with their noisy counts, highest first.

        `histogram` has the exact counts, and `randomness` is the source of the noise.
        """
        if self.limit is None:
            return _release_above_cutoff(self, histogram, randomness)
        top, next_count = _top_and_next(histogram, self.limit)
        noisy = with_noise(np.append(top.counts, np.int64(next_count + self.cutoff)), self.noise, randomness)
        return _above(self, top.labels, noisy[:-1], int(noisy[-1]), self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedGaussian:
    """Adds truncated Gaussian noise to every positive count; releases the groups whose noisy count exceeds a cutoff.

    - `contributions` is the most counts to which a user adds, and `per_item` the most that a user adds to one count.
    - `sigma`: the noise has parameter per_item * `sigma`.
    - `delta` bounds the probability of an outright failure, in which everything may be revealed. It decides the level T
      at which the noise is truncated: the noise lies in {-T, ..., T}.
    - `threshold` chooses the cutoff, which a released noisy count must exceed: T if TIGHT, and T + per_item if PAPER
      (as in the paper that this package implements).

    Theorem: the paper's truncated Gaussian (algo:truncGauss); docs/truncated-gaussian-on-the-lattice.md for the
    integers.
    Ensures: delta-approximately contributions/(2 sigma^2)-zCDP; exactly, `contributions` truncated discrete Gaussians.
    """

    # Every positive count takes part, so no limit on the number of labels is needed.

    contributions: int
    per_item: int = 1
    sigma: Fraction
    delta: Fraction
    threshold: Threshold = Threshold.TIGHT

    def __post_init__(self) -> None:
        _check(self, "sigma")
        set_fields(self, threshold=check_choice("threshold", self.threshold, Threshold))
        rational("per_item * sigma", self.sigma * self.per_item, SMALLEST_NOISE, LARGEST_NOISE)

    @property
    def deviation(self) -> Fraction:
        """The parameter of the truncated Gaussian noise on a count: the product of `per_item` and `sigma`.

        The field `per_item` is the most that one user adds to a count. The product is rounded down to a float.
        """
        return binary(self.sigma * self.per_item)

    @property
    def bound(self) -> int:
        """The level T at which the noise is truncated, in units of a count: the noise lies in {-T, ..., T}.

        Truncated noise can fail outright: a count may have a value that is possible for only one of two neighbouring
        tables. T is so large that the probability of such a failure in a release is certified to be at most `delta`
        (see `truncation_level`).
        """
        return truncation_level(self.contributions, self.per_item, self.deviation / self.per_item, self.delta)

    @property
    def noise(self) -> TruncatedGaussianNoise:
        """The noise on each count: integer Gaussian noise of parameter `deviation`, truncated to {-bound, ..., bound}.

        Both numbers are in units of a count.
        """
        return TruncatedGaussianNoise(sigma=self.deviation, bound=self.bound)

    @property
    def cutoff(self) -> int:
        """The number that a noisy count must exceed for its group to be released.

        The field `threshold` decides. TIGHT: the result is the truncation level `bound`, which the noise never exceeds.
        PAPER: it is this level plus the most that one user adds to a count.
        """
        return self.threshold.cutoff(self.bound, self.per_item)

    def guarantees(self) -> tuple[Use, ...]:
        """Return the privacy cost of one release: one use of truncated Gaussian noise for each count a user can change.

        A user can change at most `contributions` counts.
        """
        step = TruncatedDiscreteGaussian(sigma=float(self.deviation), bound=self.bound, sensitivity=self.per_item)
        return (Use(step, self.contributions),)

    def concentrated(self) -> Use:
        """Return the cost of one release as one use of delta-approximate zCDP.

        The paper that this package implements states the cost in this form, and an account that adds up zCDP parameters
        can charge it. delta bounds the probability that the truncated noise fails, that is, shows a value that only one
        of two neighbouring tables can give. rho is contributions * per_item^2 / (2 deviation^2), as for noise that is
        not truncated.
        """
        rho = self.contributions * Fraction(self.per_item) ** 2 / (2 * self.deviation**2)
        return Use(ZeroConcentratedDP(rho=float_above(rho), delta=float_above(self.delta)))

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the expected error of the noisy counts, and how large a count must be for its group to be released.

        A planner compares mechanisms by these numbers before any data is read: they follow from the parameters alone.
        `confidence` is the probability with which an interval contains the exact count, and with which a group with a
        large enough count is released.
        """
        return ErrorEstimate.of(self.noise, confidence, cutoff=self.cutoff)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the groups whose noisy count exceeds the fixed threshold `cutoff`, with noisy counts, highest first.

        `histogram` has the exact counts, and `randomness` is the source of the noise.
        """
        return _release_above_cutoff(self, histogram, randomness)


SMALLEST_SHARE = 1e-300
"""The smallest failure probability of one group for which a quantile of Gaussian noise is computed."""


def gaussian_margin(sigma: Fraction, share: Fraction) -> int:
    """Return a whole number m >= 0 with P[Z > m] <= `share`, for rounded Gaussian noise Z of deviation `sigma`.

    If a threshold is m above an exact count, the noisy count exceeds it with probability at most `share`.
    """
    # Z = round(X) > m means X >= m + 1/2. So m + 1/2 must be at least sigma times the upper quantile of the standard
    # normal at `share`. For safety the share is rounded down and sigma up, and a factor covers the rounding error of
    # the quantile.
    least = float_above(sigma) * -float(ndtri(float_below(share))) * (1.0 + 1e-12) - 0.5
    return max(0, math.ceil(least))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownGaussian:
    """Adds rounded Gaussian noise to every positive count; releases the groups whose noisy count exceeds a threshold.

    - `contributions` is the most counts to which a user adds, and `per_item` the most that a user adds to one count.
    - `sigma`: the noise has standard deviation per_item * `sigma`.
    - `delta` bounds the probability that a group of one user alone is released.

    Theorem: docs/mechanisms.md, "why that composes".
    Ensures: except in an event of probability `delta`, a release costs as much as `contributions` uses of Gaussian
    noise, each of standard deviation `sigma` times its sensitivity.
    """

    # `TruncatedGaussian` has a lower threshold. But the noise of this mechanism is Gaussian, so an account can pay for
    # it with uses registered as gaussian:SIGMA and approx:0,DELTA. Proof: compare it with a Gaussian mechanism that
    # adds noise to the labels of both neighbouring histograms. The output is the same, unless a label that only one of
    # the two has exceeds the threshold, which happens with probability at most `delta`.

    contributions: int
    per_item: int = 1
    sigma: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        _check(self, "sigma")
        RoundedGaussianNoise(sigma=self.sigma * self.per_item)  # raises InvalidParameter if this noise is too wide
        if self.delta / self.contributions < SMALLEST_SHARE:
            raise Unattainable("delta / contributions must be at least 1e-300 for a threshold")

    @property
    def noise(self) -> RoundedGaussianNoise:
        """The rounded Gaussian noise on a count, of deviation sigma * per_item (the most that a user adds to it)."""
        return RoundedGaussianNoise(sigma=binary(self.sigma) * self.per_item)

    @property
    def margin(self) -> int:
        """How far, in units of a count, the threshold lies above the largest exact count of a group with only one user.

        That largest count is `per_item`, the most that one user adds to a count. With probability at least 1 - `delta`,
        the noise on none of the user's groups exceeds the margin, so that no group of a single user is released.
        """
        return gaussian_margin(self.noise.sigma, self.delta / self.contributions)

    @property
    def cutoff(self) -> int:
        """The threshold: a group is released if its noisy count exceeds this number, `per_item` + `margin`.

        `per_item` is the largest exact count of a group that only one user has, and such a group must stay hidden. With
        probability at least 1 - `delta`, noise does not lift it by more than `margin`.
        """
        return self.per_item + self.margin

    def guarantees(self) -> tuple[Use, ...]:
        """Return the privacy cost of one release, as mechanism uses (guarantees and how often each is used).

        The cost is one use of Gaussian noise of parameter `sigma` for each of the at most `contributions` groups of one
        user, and one (0, `delta`)-DP use for the threshold that hides rare groups: with probability at most `delta`, a
        group of one user alone is shown.
        """
        step = Gaussian(sigma=float(binary(self.sigma)))
        return Use(step, self.contributions), Use(ApproxDP(epsilon=0.0, delta=float_above(self.delta)))

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the expected error of the noisy counts, and how large a count must be for its group to be released.

        A planner compares mechanisms by these numbers before any data is read: they follow from the parameters alone.
        `confidence` is the probability with which an interval contains the exact count, and with which a group with a
        large enough count is released.
        """
        return ErrorEstimate.of(self.noise, confidence, cutoff=self.cutoff)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the groups whose noisy count exceeds the threshold, with their noisy counts, highest first.

        `histogram` has the exact counts, and `randomness` is the source of the noise.
        """
        return _release_above_cutoff(self, histogram, randomness)


_PRECISION = 96
_LARGEST_OFFSET = 1 << 61


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownGumbel:
    """Releases at most k groups with the highest noisy counts above a noisy threshold, in order, without their counts.

    Groups are picked one after the other: a pick chooses the highest of the noisy threshold and the remaining noisy
    counts.

    - `limit`: only the `limit` groups with the highest exact counts take part.
    - `contributions` is the most counts to which a user adds (None: any number), and `per_item` the most that a user
      adds to one count.
    - `epsilon` is the parameter of the bounded-range guarantee of each pick.
    - `delta` bounds the probability that a group is released that only one of two neighbouring tables can show.

    Theorem: DurfeeRo19, RogersSuPeDuLeKaSaAh20; the threshold (see `offset`) has ln(min(contributions, limit) / delta).
    Ensures: outside of an event of probability delta, each pick is epsilon-BR. Picking ends when the noisy threshold is
    above all remaining noisy counts, and this last pick is charged too.
    """

    # Before its noise, the threshold is `offset` above the next highest count (or above 0 if there is none). Counts and
    # threshold get Gumbel noise.

    k: int
    limit: int
    contributions: int | None
    per_item: int = 1
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        positive_integer("k", self.k)
        positive_integer("limit", self.limit)
        if self.limit < self.k:
            raise InvalidParameter(f"limit must be at least k = {self.k}, not {self.limit}")
        if self.contributions is not None:
            positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        epsilon = rational("epsilon", self.epsilon, SMALLEST_RATE, LARGEST_PICK_EPSILON)
        set_fields(self, epsilon=epsilon, delta=probability("delta", self.delta))
        if self.offset > _LARGEST_OFFSET:
            raise InvalidParameter(f"epsilon must keep the threshold below 2^61 counts, not {self.epsilon}")

    @property
    def rate(self) -> Fraction:
        """The inverse of the Gumbel noise scale: epsilon / per_item (the most that one user adds to a count)."""
        return self.epsilon / self.per_item

    @property
    def changeable(self) -> int:
        """The largest number of groups that the threshold must hide; the more there are, the higher is the threshold.

        Neighbouring tables differ by one user. The threshold must hide each group that takes part in only one of two
        neighbouring tables. There are at most as many such groups as one user has (`contributions`), and at most
        `limit`, because only the `limit` groups with the highest exact counts take part at all.
        """
        return self.limit if self.contributions is None else min(self.contributions, self.limit)

    @property
    def offset(self) -> int:
        """The threshold's distance, in units of a count, above the highest exact count that is left out, or above 0.

        The mechanism lets only the `limit` groups with the highest exact counts take part; the next lower count is the
        highest that is left out. The threshold later gets noise. Let tau be `per_item`, the most that one user adds to
        a count, and M be `changeable`, the largest number of groups that the threshold must hide. The distance is tau +
        (tau / epsilon) ln(M / delta), with the second term rounded up.
        """
        # A label that only one of two neighbouring tables can show has a count of at most tau plus the count of rank
        # limit + 1. So its noisy count exceeds the noisy threshold with probability at most 1/(1 + exp(rate (offset -
        # tau))) < delta/M.
        gap = _log_odds(self.changeable / self.delta) / self.rate
        return self.per_item + ceil_divide(gap.numerator, gap.denominator)

    def _uses(self, picks: int) -> tuple[Use, ...]:
        """Return the privacy cost of `picks` picks as two mechanism uses (guarantees and how often each is used).

        A pick returns the group with the highest remaining noisy count, or finds that the noisy threshold is higher.

        - Each pick costs one use of bounded range, with the field `epsilon` as its parameter.
        - All picks together cost one use of (0, delta)-DP: outside of an event of probability `delta`, it costs
          nothing. The event is that a group is released that only one of two neighbouring tables can show.
        """
        return (
            Use(BoundedRange(epsilon=float_above(self.epsilon)), picks),
            Use(ApproxDP(epsilon=0.0, delta=float_above(self.delta))),
        )

    def guarantees(self) -> tuple[Use, ...]:
        """Return the largest privacy cost of one release, as uses (guarantees and how often each is used).

        The cost is k bounded-range uses, one for each pick (the choice of the next highest noisy count), and one use
        that reveals nothing unless it fails, with probability at most `delta`. It fails if the threshold is exceeded by
        a group that only one of two neighbouring tables can show.
        """
        return self._uses(self.k)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the expected error of the ranking, and the count that a group needs to be released.

        Both follow from the parameters alone, so no row is read. Only the `limit` groups with the highest exact counts
        take part. In the result:

        - `detectable` is by how much a group's exact count must exceed the highest count that does not take part (0 if
          all groups take part), so that its noisy count is above the threshold.
        - `shortfall` bounds by how much the exact count of a picked group is below the highest exact count not picked
          yet.

        Both hold with probability `confidence`.
        """
        confidence = probability("confidence", confidence)
        rate = float(self.rate)
        # A count that exceeds the threshold by s ranks below it with probability 1/(1 + exp(rate s)).
        lead = math.log(float(confidence / (1 - confidence))) / rate
        odds = self.k * (self.limit + 1) / float(1 - confidence)
        return ErrorEstimate(
            confidence=confidence,
            detectable=self.offset + max(0, math.ceil(lead)),
            above_rank=self.limit + 1,
            shortfall=math.ceil(math.log(odds) / rate),
        )

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return at most k groups whose noisy counts exceed the noisy threshold, highest first, without counts.

        `histogram` has the exact counts, and `randomness` is the source of the noise. `k` is a field.

        Ensures: the release states a cost of min(j + 1, k) uses of bounded range if it has j groups: one for each group
        and, unless k groups were found, one for the comparison that the threshold won. The `delta` is spent even if no
        group is returned.
        """
        top, next_count = _top_and_next(histogram, self.limit)
        label_count = len(top)
        scores = np.append(top.counts, np.int64(next_count + self.offset))
        order = gumbel_order(scores, self.rate, self.k, randomness).tolist()
        complete = label_count not in order
        places = order if complete else order[: order.index(label_count)]
        items = tuple(Item(label=top.labels[place]) for place in places)
        return Release(items=items, spent=self._uses(min(len(items) + 1, self.k)), complete=complete)


@lru_cache(maxsize=256)
def _log_odds(odds: Fraction) -> Fraction:
    """Return ln(odds), rounded up to a multiple of 2^-96, or 0 if `odds` is below 1.

    The caller computes from it how high a threshold must be that hides groups under Gumbel noise. `odds` is the number
    of groups to hide, divided by delta. It contains no private data, so results are cached.
    """
    return Fraction(max(0, ln(odds, _PRECISION).high), 1 << _PRECISION)


_WithCounts: TypeAlias = UnknownLaplace | TruncatedGaussian | UnknownGaussian
"""The three mechanisms that release labels and noisy counts above a threshold; they differ in their noise."""


def _check(mechanism: _WithCounts, spread: str) -> None:
    """Check the parameters of `mechanism`, and replace its delta and its noise scale by exact fractions.

    `spread` is the name of the mechanism's field with the noise scale: "scale" or "sigma".

    Raises: `InvalidParameter` for a value out of range.
    """
    positive_integer("contributions", mechanism.contributions)
    positive_integer("per_item", mechanism.per_item)
    stated_scale = getattr(mechanism, spread)
    set_fields(mechanism, **{spread: rational(spread, stated_scale, SMALLEST_NOISE, LARGEST_NOISE)})
    set_fields(mechanism, delta=probability("delta", mechanism.delta))


def _release_above_cutoff(mechanism: _WithCounts, histogram: Histogram, randomness: Randomness) -> Release:
    """Return the groups of `histogram` whose noisy count exceeds the threshold, with noisy counts, highest first.

    Only groups with a positive exact count take part. `mechanism` has the noise and the threshold (`cutoff`), and
    `randomness` is the source of the noise.
    """
    present = histogram.positive()
    noisy = with_noise(present.counts, mechanism.noise, randomness)
    return _above(mechanism, present.labels, noisy, mechanism.cutoff)


def _above(
    mechanism: _WithCounts,
    labels: tuple[Label, ...],
    noisy: NDArray[np.int64],
    threshold: int,
    limit: int | None = None,
) -> Release:
    """Return a release of those groups in `labels` whose `noisy` counts exceed `threshold`, highest first.

    - `mechanism` has the noise and the privacy cost.
    - `limit` says that `labels` has only the groups with the `limit` highest exact counts; None if it has all groups.
      If all of these groups exceed the threshold, other groups might have exceeded it too, so the release is marked as
      not complete.
    """
    passed = np.flatnonzero(noisy > threshold)
    return Release(
        items=ranked_items(tuple(labels[place] for place in passed), noisy[passed].tolist(), least=1),
        spent=mechanism.guarantees(),
        complete=limit is None or len(passed) < limit,
        noise=mechanism.noise,
        selection=Selection(candidates=len(passed), threshold=threshold),
        least=1,
    )


def _top_and_next(histogram: Histogram, limit: int) -> tuple[Histogram, int]:
    """Return the histogram of the `limit` highest counts, and the next highest count, which is 0 if there is none.

    Only the groups of the returned histogram can be released. A group is released if its noisy count exceeds a
    threshold, and the caller computes the threshold from the next highest count.
    """
    top = histogram.ranked(limit + 1)
    return top.first(limit), int(top.counts[limit]) if len(top) > limit else 0

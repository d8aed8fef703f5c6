"""The top k in two phases: first discover ranked groups, then release counts for them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias, assert_never

from setwise.accounting.guarantees import DiscreteLaplace, Gaussian, Guarantee, Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.known_domain import KnownGumbel
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, SMALLEST_NOISE, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise, gaussian_count_noise
from setwise.mechanisms.parameters import binary, positive_integer, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import ErrorEstimate, Item, Release, with_noise
from setwise.mechanisms.unknown_domain import UnknownGumbel
from setwise.records import set_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedLeastSquares:
    """Adds Gaussian noise to the counts of groups in a public order, and fits the noisy counts to that order.

    - `order` has the groups, highest count first, from an earlier release.
    - `contributions` is the most counts to which a user adds (None: any number).
    - `per_item` is the most that a user adds to a count.
    - `sigma`: the noise on a count has standard deviation at most per_item * sigma. A release costs one Gaussian use of
      parameter `sigma` for each count that one user can change.

    Theorem: the paper's ordered least squares (algo:least_squares); docs/mechanisms.md, Theorem 1.
    """

    # The fit is the closest sequence that does not rise, with negative counts raised to 0; it is post-processing.
    # Counts share a part of their noise if that makes the noise smaller at the same cost. Intervals are computed from
    # the noise before the fit.

    order: tuple[Label, ...]
    contributions: int | None
    per_item: int = 1
    sigma: Fraction

    def __post_init__(self) -> None:
        set_fields(self, order=distinct_labels(self.order))
        if self.contributions is not None:
            positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        set_fields(self, sigma=rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))
        RoundedGaussianNoise(sigma=self.sigma * self.per_item)  # raises InvalidParameter if this noise is too wide

    @property
    def noise(self) -> RoundedGaussianNoise | SharedGaussianNoise:
        """The Gaussian noise on the counts; it is added before the counts are fitted to the public order.

        The public order is the field `order`: the groups from an earlier release, highest count first.
        """
        return gaussian_count_noise(len(self.order), self.contributions, self.per_item, binary(self.sigma))

    def guarantees(self) -> tuple[Use, ...]:
        """Return the privacy cost of one release: one use of Gaussian noise for each count that one user can change.

        The result is empty if there are no groups to count.
        """
        changeable = len(self.order) if self.contributions is None else min(len(self.order), self.contributions)
        if changeable == 0:
            return ()
        return (Use(Gaussian(sigma=float(binary(self.sigma))), changeable),)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the expected error of the noisy counts, before they are fitted to their public order.

        An earlier release says which groups have higher counts; this is the public order. Fitting noisy counts to it
        never makes the sum of their squared errors larger. The result follows from the parameters alone. `confidence`
        is the probability with which the interval of a count holds.
        """
        return ErrorEstimate.of(self.noise, confidence)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return every group in its public order, with whole-number counts that do not rise along this order.

        The order says that each count is at least the next one, so the noisy counts are fitted to it by least squares.
        The noisy count before the fit is in the field `noisy` of an item. `histogram` has the exact counts, and
        `randomness` is the source of the noise.
        """
        noisy = with_noise(histogram.over(self.order), self.noise, randomness).tolist()
        fitted = zip(self.order, non_increasing(noisy), noisy, strict=True)
        items = tuple(Item(label=label, count=_round(count), noisy=value) for label, count, value in fitted)
        return Release(items=items, spent=self.guarantees(), complete=True, noise=self.noise)


def _round(count: Fraction) -> int:
    """Return the whole number nearest to `count`, a count that was fitted to the order of the groups.

    A count halfway between two whole numbers is rounded up. So rounding keeps the order of counts.
    """
    return math.floor(count + Fraction(1, 2))


def non_increasing(values: Sequence[int]) -> list[Fraction]:
    """Return the non-increasing, non-negative sequence closest to `values` in l2, as exact fractions.

    Noisy counts of groups whose order is known, highest first, are replaced by it, so that they fit the order and none
    is negative.

    Theorem: BarlowBaBrBr72 (pool adjacent violators; bounded isotonic regression).

    >>> [str(value) for value in non_increasing([5, 1, 2, -2])]
    ['5', '3/2', '3/2', '0']
    """
    # Neighbouring values that rise are replaced by their mean until none rises, in O(k) steps; then negative values are
    # replaced by 0. The second step keeps the sequence closest, because clipping a non-increasing sequence at 0 leaves
    # it non-increasing. `shown_count` in release.py says why no count is negative.
    blocks: list[tuple[int, int]] = []  # (sum, size) of each block; the means fall strictly
    for value in values:
        total, size = int(value), 1
        while blocks and blocks[-1][0] * size <= total * blocks[-1][1]:
            earlier_total, earlier_size = blocks.pop()
            total, size = total + earlier_total, size + earlier_size
        blocks.append((total, size))
    return [Fraction(max(0, total), size) for total, size in blocks for _ in range(size)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceCounts:
    """Laplace noise on counts, of scale per_item * scale, where per_item is the most that one user adds to a count.

    The noise costs (1/scale)-DP for each count that can differ between neighbouring tables.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        set_fields(self, scale=rational("scale", self.scale, SMALLEST_NOISE, LARGEST_NOISE))


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianCounts:
    """Gaussian noise on counts, of standard deviation at most per_item * sigma.

    per_item is the most that one user adds to a count. The noise costs one Gaussian use of parameter sigma for each
    count that one user can change.
    """

    # If the labels were picked in an order before, the noisy counts are replaced by the closest sequence that does not
    # rise in that order.

    sigma: Fraction

    def __post_init__(self) -> None:
        set_fields(self, sigma=rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))


Counts: TypeAlias = LaplaceCounts | GaussianCounts

UNIT_NOISE = LaplaceCounts(scale=Fraction(1))
"""Laplace noise of scale 1: the placeholder in a mechanism whose noise the planner has not chosen yet."""


def noise_of(counts: Counts, reach: int) -> LaplaceNoise | RoundedGaussianNoise:
    """Return the noise distribution for a value that one user changes by at most `reach` (its sensitivity).

    `counts` has the kind of noise (Laplace or Gaussian) and its scale for sensitivity 1, which is multiplied by
    `reach`.
    """
    match counts:
        case LaplaceCounts(scale=scale):
            return LaplaceNoise(scale=binary(scale * reach))
        case GaussianCounts(sigma=sigma):
            return RoundedGaussianNoise(sigma=binary(sigma) * reach)
        case _:
            assert_never(counts)


def guarantee_of(counts: Counts, reach: int) -> Guarantee:
    """Return the privacy guarantee of a noisy value that one user changes by at most `reach` (its sensitivity).

    `counts` has the kind of noise (Laplace or Gaussian) and its scale for sensitivity 1. The noise on the value has
    this scale times `reach`.
    """
    match counts:
        case LaplaceCounts(scale=scale):
            return DiscreteLaplace(scale=float(binary(scale * reach)), sensitivity=reach)
        case GaussianCounts(sigma=sigma):
            return Gaussian(sigma=float(binary(sigma)))
        case _:
            assert_never(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoPhaseTopK:
    """The top k in two phases: `discovery` picks groups of high noisy counts, then these get new noisy counts.

    - `discovery` adds Gumbel noise and releases the picked groups in order, but not their counts.
    - `counts` is the noise of the counts that the second phase releases.
    - `contributions` is the most groups to which a user adds (None: any number).

    Theorem: the paper's table of tasks (table:tasks); lem:peeling_lap for the number of uses.
    """

    # The labels are fixed before the noise of the counts is drawn. So of j released counts only min(j, contributions)
    # can differ between neighbouring tables, and the counts cost that many uses.

    discovery: KnownGumbel | UnknownGumbel
    counts: Counts
    contributions: int | None

    def __post_init__(self) -> None:
        if self.contributions is not None:
            positive_integer("contributions", self.contributions)
        if isinstance(self.discovery, UnknownGumbel) and self.discovery.contributions != self.contributions:
            raise InvalidParameter(
                f"contributions must be the discovery's {self.discovery.contributions}, not {self.contributions}"
            )
        noise_of(self.counts, self.discovery.per_item)  # raises InvalidParameter if this noise is too wide

    @property
    def noise(self) -> LaplaceNoise | RoundedGaussianNoise | SharedGaussianNoise:
        """The noise distribution of one count, for the largest number of groups that the first phase may pick.

        The first phase picks groups, and the second phase counts them. If fewer groups are picked, Gaussian noise may
        have another distribution, because counts may share a part of it, and the size of this part depends on the
        number of groups. Laplace noise is always the same.
        """
        match self.counts:
            case LaplaceCounts():
                return noise_of(self.counts, self.discovery.per_item)
            case GaussianCounts(sigma=sigma):
                return gaussian_count_noise(self._picks, self.contributions, self.discovery.per_item, binary(sigma))
            case _:
                assert_never(self.counts)

    @property
    def least(self) -> int:
        """The smallest exact count that a picked group can have: 1 if groups are private, and 0 if they are public."""
        return 1 if isinstance(self.discovery, UnknownGumbel) else 0

    @property
    def _picks(self) -> int:
        """Largest number of groups that the first phase, the ranking of groups by noisy counts, can pick.

        The largest cost of the second phase, which counts the picked groups, follows from this number.
        """
        return self.discovery.guarantees()[0].count

    def _count_uses(self, labels: int) -> tuple[Use, ...]:
        """Return the privacy cost of noisy counts for picked groups: the guarantee of a count and its number of uses.

        `labels` is how many groups were picked. One user can change at most `contributions` of their counts, so the
        cost is one use of the noise for each of min(`labels`, `contributions`) counts.
        """
        changeable = labels if self.contributions is None else min(labels, self.contributions)
        step = guarantee_of(self.counts, self.discovery.per_item)
        return (Use(step, changeable),) if changeable else ()

    def guarantees(self) -> tuple[Use, ...]:
        """Return the largest privacy cost of one release, which picks groups and counts them.

        The cost is stated as uses (guarantees and how often each is used). A release costs less if fewer groups are
        found.
        """
        return self.discovery.guarantees() + self._count_uses(self._picks)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the expected error of the ranking and of the counts, from the parameters alone; no data is read.

        The mechanism first picks the k groups with the highest counts, with noise, and then releases noisy counts of
        them. The result's `radius` is the half-width of a count's interval. Its `shortfall` bounds the error of the
        ranking: a picked group's exact count is at most `shortfall` below the highest count that was not picked before.
        `confidence` is the probability with which each of these two holds.
        """
        noise = self.noise
        error = self.discovery.preview(confidence)
        return replace(error, expected_error=noise.expected_absolute, radius=noise.radius(confidence))

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the picked groups in order with their noisy counts, and with the privacy cost of this release.

        `histogram` has the exact counts, and `randomness` is the source of the noise. If fewer groups are picked than
        planned, the cost is lower.
        """
        discovered = self.discovery.release(histogram, randomness)
        noise = self.noise
        match self.counts:
            case LaplaceCounts():
                noisy = with_noise(histogram.over(discovered.labels), noise, randomness).tolist()
                pairs = zip(discovered.labels, noisy, strict=True)
                items = tuple(Item(label=label, count=max(value, self.least), noisy=value) for label, value in pairs)
            case GaussianCounts(sigma=sigma):
                second = OrderedLeastSquares(
                    order=discovered.labels,
                    contributions=self.contributions,
                    per_item=self.discovery.per_item,
                    sigma=sigma,
                )
                noise, fitted = second.noise, second.release(histogram, randomness).items
                items = tuple(replace(item, count=max(item.count or 0, self.least)) for item in fitted)
            case _:
                assert_never(self.counts)
        spent = discovered.spent + self._count_uses(len(items))
        return Release(items=items, spent=spent, complete=discovered.complete, noise=noise, least=self.least)

"""The top k in two phases: discover ranked labels, then release counts for them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias, assert_never

from setwise.accounting.guarantees import DiscreteLaplace, Gaussian, Guarantee, Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import KnownGumbel
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, SMALLEST_NOISE, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise, gaussian_count_noise
from setwise.mechanisms.parameters import binary, positive_integer, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate, Item, Release, with_noise
from setwise.mechanisms.unknown_domain import UnknownGumbel


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedLeastSquares:
    """Add Gaussian noise to the counts of `order`, then take the closest non-increasing, non-negative sequence.

    `order` is public, from an earlier release. The projection is post-processing, so the cost is the Gaussian's:
    one use of parameter sigma for each count that can differ between neighbours. Counts share a part of their noise
    where that makes it narrower at this cost. Intervals come from the unprojected noise.

    Theorem: algo:least_squares; docs/mechanisms.md, Theorem 1.
    """

    order: tuple[Label, ...]
    contributions: int | None
    per_item: int = 1
    sigma: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", distinct_labels(self.order))
        if self.contributions is not None:
            positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        object.__setattr__(self, "sigma", rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))
        RoundedGaussianNoise(sigma=self.sigma * self.per_item)  # refuses noise too wide to draw

    @property
    def noise(self) -> RoundedGaussianNoise | SharedGaussianNoise:
        """The noise on the counts, before the projection."""
        return gaussian_count_noise(len(self.order), self.contributions, self.per_item, binary(self.sigma))

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs: nothing for an empty order."""
        changeable = len(self.order) if self.contributions is None else min(len(self.order), self.contributions)
        if changeable == 0:
            return ()
        return (Use(Gaussian(sigma=float(binary(self.sigma))), changeable),)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect before the projection, which can only make the sequence closer in l2."""
        return ErrorEstimate.of(self.noise, confidence)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the labels in their order with projected counts."""
        noisy = with_noise(histogram.over(self.order), self.noise, randomness).tolist()
        fitted = zip(self.order, non_increasing(noisy), noisy, strict=True)
        items = tuple(Item(label=label, count=_rounded(count), noisy=value) for label, count, value in fitted)
        return Release(items=items, spent=self.guarantees(), complete=True, noise=self.noise)


def _rounded(count: Fraction) -> int:
    """Return the nearest whole number, the higher of two; rounding a sequence keeps its order."""
    return math.floor(count + Fraction(1, 2))


def non_increasing(values: Sequence[int]) -> list[Fraction]:
    """Return the non-increasing, non-negative sequence closest to `values` in l2.

    Pools adjacent values that rise into their mean, exactly, in O(k); then clips at 0. Clipping the isotonic
    solution gives the solution with the extra constraint, because both cones are closed under it.

    Theorem: BarlowBaBrBr72 (pool adjacent violators; bounded isotonic regression).

    >>> [str(value) for value in non_increasing([5, 1, 2, -2])]
    ['5', '3/2', '3/2', '0']
    """
    blocks: list[tuple[int, int]] = []  # sums and sizes, means falling strictly
    for value in values:
        total, size = int(value), 1
        while blocks and blocks[-1][0] * size <= total * blocks[-1][1]:
            earlier_total, earlier_size = blocks.pop()
            total, size = total + earlier_total, size + earlier_size
        blocks.append((total, size))
    return [Fraction(max(0, total), size) for total, size in blocks for _ in range(size)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceCounts:
    """Counts with Laplace noise of scale per_item * scale: (1/scale)-DP for each that can differ."""

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", rational("scale", self.scale, SMALLEST_NOISE, LARGEST_NOISE))


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianCounts:
    """Counts with Gaussian noise of deviation at most per_item * sigma, projected onto the discovered order.

    It costs one use of gaussian:sigma for each count that can differ between neighbours.
    """

    sigma: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))


Counts: TypeAlias = LaplaceCounts | GaussianCounts


def noise_of(counts: Counts, reach: int) -> LaplaceNoise | RoundedGaussianNoise:
    """Return the noise on a value that one user moves by at most `reach`."""
    match counts:
        case LaplaceCounts(scale=scale):
            return LaplaceNoise(scale=binary(scale * reach))
        case GaussianCounts(sigma=sigma):
            return RoundedGaussianNoise(sigma=binary(sigma) * reach)
        case _:
            assert_never(counts)


def guarantee_of(counts: Counts, reach: int) -> Guarantee:
    """Return what releasing such a value costs."""
    match counts:
        case LaplaceCounts(scale=scale):
            return DiscreteLaplace(scale=float(binary(scale * reach)), sensitivity=reach)
        case GaussianCounts(sigma=sigma):
            return Gaussian(sigma=float(binary(sigma)))
        case _:
            assert_never(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoPhaseTopK:
    """Discover the ranked labels with Gumbel noise, then release noisy counts for them.

    The labels are fixed before the counts are drawn, so of j released counts only min(j, contributions) can differ
    between neighbours: one joint count release costs that many uses.

    Theorem: table:tasks; lem:peeling_lap for the number of uses.
    """

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
        noise_of(self.counts, self.discovery.per_item)  # refuses noise too wide to draw

    @property
    def noise(self) -> LaplaceNoise | RoundedGaussianNoise | SharedGaussianNoise:
        """The noise on the counts when all labels asked for are found; fewer may share less of it."""
        match self.counts:
            case LaplaceCounts():
                return noise_of(self.counts, self.discovery.per_item)
            case GaussianCounts(sigma=sigma):
                return gaussian_count_noise(self._picks, self.contributions, self.discovery.per_item, binary(sigma))
            case _:
                assert_never(self.counts)

    @property
    def least(self) -> int:
        """The smallest exact count a discovered label can have: an unknown domain shows only what is there."""
        return 1 if isinstance(self.discovery, UnknownGumbel) else 0

    @property
    def _picks(self) -> int:
        return self.discovery.guarantees()[0].count

    def _count_uses(self, labels: int) -> tuple[Use, ...]:
        changeable = labels if self.contributions is None else min(labels, self.contributions)
        step = guarantee_of(self.counts, self.discovery.per_item)
        return (Use(step, changeable),) if changeable else ()

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release may cost."""
        return self.discovery.guarantees() + self._count_uses(self._picks)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect, before any data is touched."""
        noise = self.noise
        found = self.discovery.preview(confidence)
        return replace(found, expected_error=noise.expected_absolute, radius=noise.radius(confidence))

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the discovered labels in order with their counts, and what both phases really cost."""
        found = self.discovery.release(histogram, randomness)
        noise = self.noise
        match self.counts:
            case LaplaceCounts():
                noisy = with_noise(histogram.over(found.labels), noise, randomness).tolist()
                pairs = zip(found.labels, noisy, strict=True)
                items = tuple(Item(label=label, count=max(value, self.least), noisy=value) for label, value in pairs)
            case GaussianCounts(sigma=sigma):
                second = OrderedLeastSquares(
                    order=found.labels,
                    contributions=self.contributions,
                    per_item=self.discovery.per_item,
                    sigma=sigma,
                )
                noise, fitted = second.noise, second.release(histogram, randomness).items
                items = tuple(replace(item, count=max(item.count or 0, self.least)) for item in fitted)
            case _:
                assert_never(self.counts)
        spent = found.spent + self._count_uses(len(items))
        return Release(items=items, spent=spent, complete=found.complete, noise=noise, least=self.least)

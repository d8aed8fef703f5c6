"""Gaussian counts of labels whose order is known, pulled back to that order by least squares."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.guarantees import Gaussian
from setwise.accounting.use import Use
from setwise.mechanisms.histogram import Histogram, Label, distinct_labels
from setwise.mechanisms.interval import CONFIDENCE
from setwise.mechanisms.laplace_noise import LARGEST_NOISE, SMALLEST_NOISE
from setwise.mechanisms.noise import with_noise
from setwise.mechanisms.preview import Preview
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.rational import binary, positive_integer, rational
from setwise.mechanisms.release import Item, Release
from setwise.mechanisms.rounded_gaussian_noise import RoundedGaussianNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedLeastSquares:
    """Add Gaussian noise to the counts of `order`, then take the closest non-increasing, non-negative sequence.

    `order` is public, from an earlier release. The projection is post-processing, so the cost is the Gaussian's:
    one use for each count that can differ between neighbours. Intervals come from the unprojected noise.

    Theorem: algo:least_squares.
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
    def noise(self) -> RoundedGaussianNoise:
        """The noise on each count, before the projection."""
        return RoundedGaussianNoise(sigma=binary(self.sigma) * self.per_item)

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs: nothing for an empty order."""
        changeable = len(self.order) if self.contributions is None else min(len(self.order), self.contributions)
        if changeable == 0:
            return ()
        return (Use(Gaussian(sigma=float(binary(self.sigma))), changeable),)

    def preview(self, confidence: Fraction = CONFIDENCE) -> Preview:
        """Return the error to expect before the projection, which can only make the sequence closer in l2."""
        noise = self.noise
        return Preview(confidence=confidence, expected_error=noise.expected_absolute, radius=noise.radius(confidence))

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the labels in their order with projected counts."""
        noisy = with_noise(histogram.over(self.order), self.noise, randomness).tolist()
        items = tuple(
            Item(label=label, count=count, noisy=value)
            for label, count, value in zip(self.order, non_increasing(noisy), noisy, strict=True)
        )
        return Release(items=items, spent=self.guarantees(), complete=True, noise=self.noise)


def non_increasing(values: Sequence[int]) -> list[float]:
    """Return the non-increasing, non-negative sequence closest to `values` in l2.

    Pools adjacent values that rise into their mean, exactly, in O(k); then clips at 0. Clipping the isotonic
    solution gives the solution with the extra constraint, because both cones are closed under it.

    Theorem: BarlowBaBrBr72 (pool adjacent violators; bounded isotonic regression).

    >>> non_increasing([5, 1, 3, -2])
    [5.0, 2.0, 2.0, 0.0]
    """
    blocks: list[tuple[int, int]] = []  # sums and sizes, means falling strictly
    for value in values:
        total, size = int(value), 1
        while blocks and blocks[-1][0] * size <= total * blocks[-1][1]:
            earlier_total, earlier_size = blocks.pop()
            total, size = total + earlier_total, size + earlier_size
        blocks.append((total, size))
    return [max(0, total) / size for total, size in blocks for _ in range(size)]

"""What a mechanism gives: labels, noisy counts, and what they cost."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.guarantees import Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Label
from setwise.mechanisms.noise.laplace import LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise
from setwise.mechanisms.parameters import probability
from setwise.mechanisms.randomness import Randomness

CONFIDENCE = Fraction(95, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The whole numbers from `lower` to `upper`."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= self.upper:
            raise InvalidParameter(f"an interval needs 0 <= lower <= upper, not [{self.lower}, {self.upper}]")

    def __contains__(self, count: float) -> bool:
        return self.lower <= count <= self.upper


def interval_around(noisy: int, radius: int) -> Interval:
    """Return the interval noisy ± radius, cut at 0.

    Ensures: with the noise law's radius at some confidence, a fixed count whose noisy value is drawn is covered with
        that probability at least. The statement is about every count given noise; it does not condition on the value
        having passed a threshold.

    >>> from setwise.mechanisms.noise.laplace import LaplaceNoise
    >>> interval_around(10, LaplaceNoise(scale=Fraction(10)).radius(CONFIDENCE))
    Interval(lower=0, upper=40)
    """
    return Interval(lower=max(0, noisy - radius), upper=max(0, noisy + radius))


Noise: TypeAlias = LaplaceNoise | RoundedGaussianNoise | TruncatedGaussianNoise


def with_noise(counts: NDArray[np.int64], noise: Noise, randomness: Randomness) -> NDArray[np.int64]:
    """Return the counts with an independent exact draw of `noise` added to each."""
    return counts + noise.draw(len(counts), randomness)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One released label; its count and the noisy value behind it, when counts were asked for.

    `count` is the answer; it differs from `noisy` where post-processing (an order known before) has improved it.
    Without such, counts are unbiased and may be negative.
    """

    label: Label
    count: int | float | None = None
    noisy: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Items, highest first; the noise on their counts; the uses that were spent; whether all asked for is there."""

    items: tuple[Item, ...]
    spent: tuple[Use, ...]
    complete: bool
    noise: Noise | None = None

    def __post_init__(self) -> None:
        if self.noise is None and any(item.noisy is not None for item in self.items):
            raise InvalidParameter("a release with noisy counts must say their noise")

    @property
    def labels(self) -> tuple[Label, ...]:
        """The released labels, highest first."""
        return tuple(item.label for item in self.items)

    def top(self, k: int) -> "Release":
        """Return the first k items; cutting is post-processing and refunds nothing."""
        return Release(items=self.items[:k], spent=self.spent, complete=self.complete, noise=self.noise)

    def intervals(self, confidence: Fraction = CONFIDENCE) -> tuple[Interval | None, ...]:
        """Return an interval for each item's true count, or None where no count was released.

        Each is centred on the noisy value itself, before any post-processing: the law of the noise is exact there.
        """
        if self.noise is None:
            return (None,) * len(self.items)
        radius = self.noise.radius(confidence)
        return tuple(None if item.noisy is None else interval_around(item.noisy, radius) for item in self.items)


def ranked_items(labels: tuple[Label, ...], noisy: list[int]) -> tuple[Item, ...]:
    """Return items by falling noisy count, equal ones by label; reads nothing but what is released."""
    pairs = sorted(zip(labels, noisy, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Item(label=label, count=value, noisy=value) for label, value in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The error to expect, from the exact noise law and the parameters alone.

    `expected_error` is E|noise| on a released count and `radius` half the width of its interval. A label whose count
    exceeds its rivals (for a fixed threshold: exceeds 0) by `detectable` is released with the stated confidence.
    A pick misses the best label left by more than `shortfall` with probability at most 1 - confidence over all
    picks. None where the mechanism has no such number.
    """

    confidence: Fraction
    expected_error: float | None = None
    radius: int | None = None
    detectable: int | None = None
    shortfall: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", probability("confidence", self.confidence))

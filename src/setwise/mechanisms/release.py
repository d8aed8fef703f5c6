"""What a mechanism gives: labels, noisy counts, and what they cost."""

from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.use import Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Label
from setwise.mechanisms.interval import CONFIDENCE, Interval, interval_around
from setwise.mechanisms.noise import Noise


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

"""What a mechanism gives: labels, noisy counts with intervals, and what they cost."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.guarantees import Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Label
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise
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


Noise: TypeAlias = LaplaceNoise | RoundedGaussianNoise | SharedGaussianNoise | TruncatedGaussianNoise


def with_noise(counts: NDArray[np.int64], noise: Noise, randomness: Randomness) -> NDArray[np.int64]:
    """Return the counts with exact draws of `noise` added: independent ones, but for the part that counts share."""
    return counts + noise.draw(len(counts), randomness)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """How noisy counts decided which items are listed: of those above the threshold, the highest.

    `candidates` is the number of noisy counts above `threshold`, or of all where it is None.
    """

    candidates: int
    threshold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A released value, and the interval that the noise leaves; None where it has none.

    `unreliable` marks a value whose noise is large against its group, as far as released numbers tell.
    """

    value: float
    interval: tuple[float, float] | None = None
    unreliable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One released label; with counts, the whole number to report, its interval, and the noisy count as it was drawn.

    `count` is `noisy` raised to the least count an item can have, or fitted to an order known before. `noisy` is
    unbiased before selection and may be negative: add up these. An item of other statistics has an estimate for each
    instead of a count.
    """

    label: Label
    count: int | None = None
    interval: tuple[int, int] | None = None
    noisy: int | None = None
    estimates: tuple[Estimate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Items, highest first; the noise on their counts; the uses that were spent; whether all asked for is there.

    `selection` says how the noisy counts chose the items, and is None where the items were fixed before their noise was
    drawn. `least` is the smallest exact count that a listed item can have.
    """

    items: tuple[Item, ...]
    spent: tuple[Use, ...]
    complete: bool
    noise: Noise | None = None
    selection: Selection | None = None
    least: int = 0

    def __post_init__(self) -> None:
        if self.noise is None and any(item.noisy is not None for item in self.items):
            raise InvalidParameter("a release with noisy counts must say their noise")
        if self.selection is not None and self.selection.candidates < len(self.items):
            raise InvalidParameter(f"{len(self.items)} items cannot be chosen from {self.selection.candidates}")

    @property
    def labels(self) -> tuple[Label, ...]:
        """The released labels, highest first."""
        return tuple(item.label for item in self.items)

    @property
    def share(self) -> Fraction:
        """The share of the candidates that is listed; 1 where the noisy counts chose nothing by their rank."""
        if self.selection is None or not self.items:
            return Fraction(1)
        return Fraction(len(self.items), self.selection.candidates)

    def top(self, k: int) -> "Release":
        """Return the first k items; cutting is post-processing and refunds nothing."""
        return replace(self, items=self.items[:k])

    def intervals(self, confidence: Fraction = CONFIDENCE) -> tuple[Interval | None, ...]:
        """Return an interval for each item's exact count, or None where no count was released.

        Each reaches from the noisy count up by the radius of the noise and down to the `lower_ends` for the chance of
        missing that selection leaves, and on to the reported count where that lies outside.

        Theorem: docs/intervals.md, Theorem 1.
        Ensures: of a list's intervals at most 1 - confidence miss, on average. Where the noisy counts decided nothing,
            or only a threshold did, every interval holds with that confidence (given that its item is listed).
        """
        confidence = probability("confidence", confidence)
        if self.noise is None or not self.items:
            return (None,) * len(self.items)
        drawn = np.array([item.noisy for item in self.items], dtype=np.int64)
        counts = np.array([item.count for item in self.items], dtype=np.int64)
        threshold = None if self.selection is None else self.selection.threshold
        miss = (1 - confidence) / 2 * self.share
        lower = lower_ends(drawn, self.noise, miss, threshold=threshold, least=self.least)
        upper = np.maximum(drawn, self.least) + self.noise.radius(confidence)
        pairs = zip(np.minimum(lower, counts).tolist(), np.maximum(upper, counts).tolist(), strict=True)
        return tuple(Interval(lower=low, upper=high) for low, high in pairs)


_TAIL_ERROR = 1e-3
"""By how much, relatively, a ratio of two tails may be misjudged; the interval is widened for it."""


def lower_ends(
    noisy: NDArray[np.int64], noise: Noise, miss: Fraction, *, threshold: int | None, least: int
) -> NDArray[np.int64]:
    """Return for each noisy count x the smallest c >= least with P[Z >= x - c | Z > threshold - c] > miss.

    Without a threshold that is x - r, where r is the smallest with P[Z > r] <= miss. With one, the left side rises with
    c because the laws are log-concave, so the c that pass form a half line, whose end is found by bisection.

    Theorem: docs/intervals.md, Lemma 2.
    Ensures: for a count c fixed beforehand, P[lower end > c | x > threshold] <= miss.
    """
    ends = np.maximum(noisy - noise.radius(1 - 2 * miss), least)
    if threshold is None:
        return ends
    if isinstance(noise, SharedGaussianNoise):
        raise InvalidParameter("counts that share their noise pass no threshold")
    log_miss = math.log(miss) - _TAIL_ERROR

    def passes(x: NDArray[np.int64], c: NDArray[np.int64]) -> NDArray[np.bool_]:
        # No difference of logarithms: both tails are 0 where bounded noise cannot lift c over the threshold.
        released = noise.log_tail(threshold + 1 - c)
        return noise.log_tail(x - c) > released + log_miss - _ROUNDING * np.abs(released)

    # Far above the threshold the condition changes nothing, and nothing below the end passes.
    moved = np.flatnonzero((ends > least) & passes(noisy, ends - 1))
    x, passing = noisy[moved], ends[moved] - 1
    failing = np.full(len(moved), least - 1)
    while (open_ := passing - failing > 1).any():
        middle = failing + (passing - failing) // 2
        right = passes(x, middle)
        passing = np.where(open_ & right, middle, passing)
        failing = np.where(open_ & ~right, middle, failing)
    ends[moved] = passing
    return ends


_ROUNDING = 1e-14
"""The relative rounding error of the logarithm of a tail."""


def ranked_items(labels: tuple[Label, ...], noisy: list[int], least: int) -> tuple[Item, ...]:
    """Return items by falling noisy count, equal ones by label; reads nothing but what is released."""
    pairs = sorted(zip(labels, noisy, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Item(label=label, count=max(value, least), noisy=value) for label, value in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEstimate:
    """The error to expect, from the exact noise law and the parameters alone.

    `expected_error` is E|noise| on a count and `radius` how far its interval reaches down where no threshold is near:
    further than up where the highest of a known domain are chosen. A label whose count exceeds its rivals (for a fixed
    threshold: exceeds 0) by `detectable` is released with the stated confidence. A pick misses the best label left by
    more than `shortfall` with probability at most 1 - confidence over all picks. None where the mechanism has no such
    number.
    """

    confidence: Fraction
    expected_error: float | None = None
    radius: int | None = None
    detectable: int | None = None
    shortfall: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", probability("confidence", self.confidence))

    @classmethod
    def of(cls, noise: Noise, confidence: Fraction, *, cutoff: int | None = None) -> "ErrorEstimate":
        """Return the error of counts with this noise, released where they exceed the `cutoff`, if there is one."""
        radius = noise.radius(confidence)
        detectable = None if cutoff is None else cutoff + 1 + radius
        return cls(confidence=confidence, expected_error=noise.expected_absolute, radius=radius, detectable=detectable)

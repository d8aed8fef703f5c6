"""What a mechanism returns: groups, noisy counts with their intervals, and the privacy cost as uses (guarantees)."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.guarantees import Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.intervals import CONFIDENCE, Interval, Noise, lower_ends
from setwise.mechanisms.labels import Label
from setwise.mechanisms.parameters import probability
from setwise.mechanisms.randomness import Randomness
from setwise.records import set_fields

_Count = TypeVar("_Count", int, float)


def with_noise(counts: NDArray[np.int64], noise: Noise, randomness: Randomness) -> NDArray[np.int64]:
    """Return the exact `counts`, each with a draw of `noise` added; `randomness` is the source of random bits.

    The draws are independent, except with `SharedGaussianNoise`: its draws have a part of the noise in common.
    """
    return counts + noise.draw(len(counts), randomness)


EXACT_NUMBER = "the exact number"
"""How notes name the number that an interval contains if every row is counted."""

NUMBER_COUNTED = f"{EXACT_NUMBER} of what is counted"
"""How notes name the number that an interval contains if bounds leave out rows or groups, or clip values."""

FITTED = (
    "Counts are fitted to the order of the list (by least squares, rounded), so neighbours can be equal. Each interval "
    "is around the count as drawn and reaches to the fitted one."
)
"""The sentence below an answer whose counts were fitted to the order of the list, and of which some were changed."""

UNRELIABLE = "Values marked unreliable may be noise alone: noise can be as large as they are."
"""The sentence below an answer in which some value is marked unreliable because of its noise."""

UNCLEAR = (
    "A mean or sum is marked unreliable if too few values stood out from noise to find its bounds at this epsilon: it "
    "may be far from that of the table. State low and high, or in SQL contribution_bounds_per_group => (low, high)."
)
"""The sentence below an answer with a mean or sum that is marked unreliable because its found bounds may be noise."""

FEW_USERS = (
    "The statistics of a group are marked unreliable if its number of users may be as small as 1: they may then be "
    "those of a group that only luck has shown."
)
"""The sentence below an answer with a group whose number of users has an interval that reaches down to 1 or 0."""

AT_BOUND = (
    "A mean at one of its clipping bounds is marked unreliable: noise or values beyond the bound may have put it there."
)
"""The sentence below an answer with a mean that is marked unreliable because it is one of its clipping bounds."""

UNCLEAR_QUANTILE = (
    "A quantile is marked unreliable if too few values stood out from noise to find its bounds at this epsilon: it "
    "may be one of these bounds, or noise. State low and high, or in SQL contribution_bounds_per_row => (low, high)."
)
"""The sentence below an answer with a quantile that is marked unreliable because its found bounds may be noise."""


def mark_reasons(interval_note: str) -> str:
    """Return the sentences in `interval_note` that say why values are marked unreliable.

    `interval_note` is the text of an answer that explains its intervals and marks; it can have other sentences, too.
    An earlier version stored sentences that name options of the command line. The notes of answers that a still earlier
    version stored have no sentence about marks. The result is then the sentence `UNRELIABLE`, which says that noise may
    be as large as the value.
    """
    interval_note = interval_note.replace("--low and --high", "low and high")
    reasons = (UNRELIABLE, FEW_USERS, AT_BOUND, UNCLEAR, UNCLEAR_QUANTILE)
    return " ".join(reason for reason in reasons if reason in interval_note) or UNRELIABLE


def noise_may_dominate(value: float | None, interval: tuple[float, float] | None) -> bool:
    """Return whether noise may be as large as the released number `value`, which is then marked unreliable.

    The result is True if `interval`, the confidence interval of the number, is at least twice as wide as the number's
    absolute value. It is False if `value` or `interval` is None, or if the interval has width 0.

    >>> noise_may_dominate(30, (0, 75)), noise_may_dominate(100, (60, 140)), noise_may_dominate(0, (0, 0))
    (True, False, False)
    """
    if value is None or interval is None:
        return False
    width = interval[1] - interval[0]
    return width > 0 and width >= 2 * abs(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A record that the listed items were chosen by their noisy counts: the highest ones above a threshold.

    `candidates` is the number of noisy counts above `threshold`, or the number of all counts if `threshold` is None. If
    there are more candidates than listed items, only the items with the highest noisy counts were listed.
    """

    candidates: int
    threshold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A released value with its confidence interval; `interval` is None if the value has no interval.

    `unreliable` marks a value that may be mostly noise, judged from released numbers alone.
    """

    value: float
    interval: tuple[float, float] | None = None
    unreliable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One released group, with its count or with estimates of other statistics.

    - `label` is the group key.
    - `noisy` is the exact count plus noise; it may be negative. To sum counts of several items, add up `noisy`.
    - `count` is the number to show to people. It is `noisy`, but at least the smallest exact count that a listed group
      can have (0 or 1). If the order of the groups was released before the counts, counts are adjusted to this order.
    - `interval` is a confidence interval of the exact count.
    - `estimates` has one entry for each statistic that is not a count, such as a mean.

    `noisy`, `count` and `interval` are None if no count was released.
    """

    # `noisy` is unbiased, apart from the selection of items by their noisy counts. `count` is fitted to the order if
    # the order of the items was released first, and then counts with Gaussian noise.

    label: Label
    count: int | None = None
    interval: tuple[int, int] | None = None
    noisy: int | None = None
    estimates: tuple[Estimate, ...] = ()

    @property
    def unreliable(self) -> bool:
        """Whether noise may be as large as the count; False if there is no count.

        An interval that reaches 0 has been cut there, and its width no longer tells how large the noise is: the exact
        count may be 0, so the shown count may be noise alone. The interval of a count that was fitted to an order is
        around the count as drawn, so its lower end is compared with 0 or 1, the smallest counts that an item can have,
        and its width is not compared with the fitted count.
        The values of other statistics have a mark of their own, in the class `Estimate`.

        >>> Item(label="a", count=54, interval=(0, 54), noisy=20).unreliable
        True
        >>> Item(label="a", count=27, interval=(27, 102), noisy=64).unreliable
        False
        """
        if self.count is None or self.interval is None:
            return False
        lower, upper = self.interval
        if lower <= 0:
            return upper > 0
        if self.noisy is not None and self.count != max(self.noisy, 1):
            return lower <= 1 < upper
        return noise_may_dominate(self.count, self.interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The result of one run of a mechanism.

    - `items` are the released groups, highest first.
    - `spent` is the privacy cost of the run: guarantees and how often each was used.
    - `complete` is False if a top k found fewer than k groups, or if a limit may have left out groups.
    - `noise` is the noise that was added to the counts; None if no counts are released.
    - `selection` says how noisy counts decided which groups are listed; None if that was decided before.
    - `least` is the smallest exact count that a listed group can have; intervals do not go below it.

    Raises: `InvalidParameter` if there are noisy counts without `noise`, or more items than candidates.
    """

    items: tuple[Item, ...]
    spent: tuple[Use, ...]
    complete: bool
    noise: Noise | None = None
    selection: Selection | None = None
    least: int = 0

    def __post_init__(self) -> None:
        if self.noise is None and any(item.noisy is not None for item in self.items):
            raise InvalidParameter("a release with noisy counts needs the noise that was added to them")
        if self.selection is not None and self.selection.candidates < len(self.items):
            raise InvalidParameter(f"{len(self.items)} items cannot be chosen from {self.selection.candidates}")

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels (group keys) of the released items, highest first."""
        return tuple(item.label for item in self.items)

    @property
    def share(self) -> Fraction:
        """The share of the candidates that are listed: number of items / number of candidates.

        A candidate is a group whose noisy count exceeds the threshold (every group, if there is no threshold). Of the
        candidates, those with the highest noisy counts are listed. A high noisy count is likely to have much noise, so
        the interval of a listed group would miss the exact count too often. So `intervals` multiplies the allowed
        probability of a miss by this share, which makes intervals wider.

        The share is 1 if noisy counts did not choose the items, or if no item is listed.
        """
        if self.selection is None or not self.items:
            return Fraction(1)
        return Fraction(len(self.items), self.selection.candidates)

    def top(self, k: int) -> "Release":
        """Return this release with only its first `k` items, at the same privacy cost (cutting is post-processing)."""
        return replace(self, items=self.items[:k])

    def intervals(self, confidence: Fraction = CONFIDENCE) -> tuple[Interval | None, ...]:
        """Return a confidence interval for each item's exact count, or None for each item if no counts were released.

        Theorem: docs/intervals.md, Theorem 1.
        Ensures: on average, at most the share 1 - confidence of a list's intervals miss the exact count. If the items
        were fixed before their noise was drawn, or only a threshold chose them, every interval holds with probability
        `confidence` (given that its item is listed).
        """
        # The upper end of an interval is the noisy count plus the radius of the noise. The lower end comes from
        # `lower_ends`, which allows for a threshold, and for listing only the highest noisy counts. If the shown count
        # lies outside of the interval, the interval is extended to contain it.
        confidence = probability("confidence", confidence)
        if self.noise is None or not self.items:
            return (None,) * len(self.items)
        noisy_counts = np.array([item.noisy for item in self.items], dtype=np.int64)
        counts = np.array([item.count for item in self.items], dtype=np.int64)
        threshold = None if self.selection is None else self.selection.threshold
        miss = (1 - confidence) / 2 * self.share
        lower = lower_ends(noisy_counts, self.noise, miss, threshold=threshold, least=self.least)
        upper = np.maximum(noisy_counts, self.least) + self.noise.radius(confidence)
        pairs = zip(np.minimum(lower, counts).tolist(), np.maximum(upper, counts).tolist(), strict=True)
        return tuple(Interval(lower=low, upper=high) for low, high in pairs)


def shown_count(noisy: _Count, least: int = 0) -> _Count:
    """Return the count to show to people for the number `noisy`: never below `least`, so that no count is negative.

    `least` is the smallest exact number that is possible: 0, or 1 for the users of a group that is listed. Raising the
    number is post-processing and costs no privacy.

    The same rule is applied to whole arrays in two places that cannot call this function: `view_of` in `live/view.py`
    rounds the counts of a live series and raises them to 0, and `non_increasing` in `mechanisms/two_phase.py` fits
    counts to a known order, where the bound 0 is a part of the fit.

    >>> shown_count(-3), shown_count(-3, 1), shown_count(7, 1)
    (0, 1, 7)
    """
    return max(noisy, least)


def ranked_items(labels: tuple[Label, ...], noisy: list[int], least: int) -> tuple[Item, ...]:
    """Return released items for the group keys `labels` with the `noisy` counts, highest count first, then by label.

    Each item also has the count to show to people: the noisy count, raised to `least` if it is lower. `least` is the
    smallest exact count that a listed group can have. The order depends only on released numbers.
    """
    pairs = sorted(zip(labels, noisy, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Item(label=label, count=shown_count(value, least), noisy=value) for label, value in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEstimate:
    """The expected error of noisy counts, in units of a count; it follows from parameters before any data is read.

    For other statistics, `expected_error` and `radius` are in the statistic's own unit, and the other numbers are about
    counts of users.

    - `expected_error` is the mean absolute noise of a count.
    - `radius` is the distance from a noisy count to the lower end of its interval. (Just above a threshold, intervals
      extend further down.)
    - `detectable` is the exact count that a group needs to be released, if groups are released above a fixed threshold.
      If the threshold depends on the data, it is by how much the group's count must exceed the highest count that does
      not take part in the release.
    - `above_rank` is the rank of that highest count, such as 1,001 if the groups with the 1,000 highest counts take
      part; None if the threshold is fixed. If there are fewer groups, the count is 0.
    - `shortfall` is for mechanisms that rank groups. If a group is picked although another group has a higher exact
      count, the counts differ by at most `shortfall`.

    `radius`, `detectable` and `shortfall` hold with probability `confidence`. A field is None if the mechanism has no
    such number.
    """

    # The upper end of an interval is as far away as the lower end, or nearer if only the highest counts of a known
    # domain are released.

    confidence: Fraction
    expected_error: float | None = None
    radius: float | None = None
    detectable: int | None = None
    above_rank: int | None = None
    shortfall: int | None = None

    def __post_init__(self) -> None:
        set_fields(self, confidence=probability("confidence", self.confidence))

    @classmethod
    def of(cls, noise: Noise, confidence: Fraction, *, cutoff: int | None = None) -> "ErrorEstimate":
        """Return the expected error of counts with this `noise`; only noisy counts above `cutoff` are released.

        The result has the mean absolute noise (`expected_error`), the `radius` that the noise exceeds with probability
        at most 1 - `confidence`, and the exact count that is released with probability `confidence` (`detectable`). If
        `cutoff` is None, all counts are released, and `detectable` is None.
        """
        radius = noise.radius(confidence)
        detectable = None if cutoff is None else cutoff + 1 + radius
        return cls(confidence=confidence, expected_error=noise.expected_absolute, radius=radius, detectable=detectable)

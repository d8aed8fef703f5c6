"""The order of the k highest scores under Gumbel noise, exactly: the exponential mechanism peeled k times."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.sampling.fixed_point import NONE, FixedInterval, exp_minus, ln

_FEW = np.uint64(1 << 24)
"""Words this close to either end leave V too loose for floats: one in 2^39."""

_NEAR_ONE = np.uint64((1 << 64) - (1 << 44))
"""From this word on 1 - V is computed from the word's complement, where 1 - V in floats would cancel."""


def float_keys(shortfalls: NDArray[np.float64], words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the middles of the keys of 64-bit words; `shortfalls` are rate * (score - highest score)."""
    with np.errstate(divide="ignore"):  # words that round to V = 1 are mended in the next two lines
        exponentials = -np.log1p((words + 0.5) * -(2.0**-64))
    high = np.flatnonzero(words >= _NEAR_ONE)
    exponentials[high] = -np.log((~words[high] + 0.5) * 2.0**-64)
    return np.asarray(shortfalls - np.log(exponentials))


def float_bounds(
    shortfalls: NDArray[np.float64], words: NDArray[np.uint64], keys: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return certain bounds on the keys whose middles are `keys`.

    With v = V and E = -ln(1 - v), d key = dv / ((1 - v) E). The word leaves v in a cell of half-width 2^-65, and
    its float is off by at most 2^-53 v (below `_NEAR_ONE`) or 2^-53 (1 - v) (above). Each float operation is
    trusted to 2^-50 relative, many times its true error, and the logarithm of a run's weight to 2^-46. Near the ends a
    bound is loose or infinite.
    """
    near_one = words >= _NEAR_ONE
    below = (words + 0.5) * 2.0**-64
    above = (~words + 0.5) * 2.0**-64
    exponentials = np.where(near_one, -np.log(above), -np.log1p(-np.where(near_one, 0.5, below)))
    absolute = 2.0**-65 + 2.0**-52 * np.where(near_one, above, below)
    rounding = 2.0**-49 * (16.0 + np.abs(shortfalls) + np.abs(np.log(exponentials)))
    radius = 1.25 * absolute / (above * exponentials)
    # Near V = 0 the middle is within ln 2 of the lower end; near V = 1 within 1 of the upper end.
    low, high = words < _FEW, ~words < _FEW
    lower = keys - rounding - np.where(high, np.inf, np.where(low, 1.0, radius))
    upper = keys + rounding + np.where(low, np.inf, np.where(high, 1.0, radius))
    return lower, upper


def is_loose(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which words are so close to an end that their key may lie far from its middle."""
    return np.asarray((words < _FEW) | (~words < _FEW))


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """For each candidate a run of scores that fall: `lengths` of them, each `slopes` below the one before it.

    A run is drawn with the sum of the weights of its scores: exp(rate * score) times the sum of exp(-rate * slope * i)
    over i below its length.
    """

    slopes: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def float_logarithms(self, rate: float) -> NDArray[np.float64]:
        """Return the logarithm of each run's sum, with an error of a few units in the last place.

        Its derivative by the logarithm of the slope is at most 1, so an error of the slope does not grow.
        """
        falls = self.slopes * rate
        with np.errstate(invalid="ignore"):
            ratios = np.expm1(-falls * self.lengths) / np.expm1(-falls)
        return np.asarray(np.log(np.where(self.slopes == 0, self.lengths, ratios)))

    def logarithm(self, index: int, rate: Fraction, precision: int) -> FixedInterval:
        """Return certain bounds on the logarithm of one run's sum."""
        fall, length = rate * int(self.slopes[index]), int(self.lengths[index])
        if fall == 0:
            return ln(Fraction(length), precision)
        bits = precision + 8 + fall.denominator.bit_length()  # 1 - exp(-fall) is at least about 1 / denominator
        one = 1 << bits
        whole, step = exp_minus(fall * length, bits), exp_minus(fall, bits)
        return FixedInterval(
            ln(Fraction(one - whole.high, one - step.low), precision).low,
            ln(Fraction(one - whole.low, one - step.high), precision).high,
        )


@dataclass(slots=True)
class ExactKey:
    """A candidate whose uniform V lies in [word, word + 1) / 2^bits; more bits may be appended.

    `weight` bounds the logarithm of the weight that the candidate has beside its shortfall, to any precision.
    Mutable on purpose: its bits are drawn only as comparisons ask for them.
    """

    index: int
    shortfall: Fraction
    word: int
    bits: int
    weight: Callable[[int], FixedInterval] = field(default=lambda _: NONE)

    def extend(self, randomness: Randomness, width: int) -> None:
        """Append one word to what is known of V."""
        self.word = (self.word << width) | int(randomness.words(1, width)[0])
        self.bits += width

    def bounds(self) -> tuple[Fraction | None, Fraction | None]:
        """Return certain bounds on the key; None where V may still be 0 or 1, so that there is none."""
        precision = 2 * self.bits + 64
        whole, unit = 1 << self.bits, 1 << precision
        weight = self.weight(precision)
        most_bits, least_bits = whole - self.word, whole - self.word - 1
        lower = upper = None
        if least_bits:  # largest V, largest E, smallest key
            largest = -ln(Fraction(least_bits, whole), precision)[0]
            lower = self.shortfall + Fraction(weight.low - ln(Fraction(largest, unit), precision).high, unit)
        if self.word:
            smallest = -ln(Fraction(most_bits, whole), precision)[1]
            upper = self.shortfall + Fraction(weight.high - ln(Fraction(smallest, unit), precision).low, unit)
        return lower, upper


def gumbel_order(
    scores: NDArray[np.int64],
    rate: Fraction,
    k: int,
    randomness: Randomness,
    width: int = WORD,
    runs: Runs | None = None,
) -> NDArray[np.intp]:
    """Return the positions of the k highest of scores + Gumbel(1/rate), highest first; all of them if there are fewer.

    The law is exactly Plackett-Luce: each next position is drawn among those left with probability proportional
    to exp(rate * score), or of a run to the sum over its scores. The noisy values themselves are never formed as
    numbers that could be released.

    Theorem: DurfeeRo19 (one-shot Gumbel noise is the peeled exponential mechanism).
    Requires: rate > 0, k >= 1, |score| <= 2^62.
    """
    k = min(k, len(scores))
    if k == 0:
        return np.empty(0, dtype=np.intp)
    words = randomness.words(len(scores), width)
    highest = int(scores.max())
    behind = scores - highest  # exact: scores lie within ±2^62
    if width != WORD:  # floats are only prepared for full words
        return _resolved(_exact(np.arange(len(scores)), behind, words, rate, width, runs), k, randomness, width)
    shortfalls = behind.astype(np.float64) * float(rate)
    if runs is not None:
        shortfalls += runs.float_logarithms(float(rate))
    keys = float_keys(shortfalls, words)
    contenders = _contenders(shortfalls, words, keys, k)
    ranked = contenders[np.argsort(-keys[contenders], kind="stable")]
    lower, upper = float_bounds(shortfalls[ranked], words[ranked], keys[ranked])
    starts, ends = _overlaps(lower, upper, k)
    for start, end in zip(starts, ends, strict=True):
        group = ranked[start:end]
        ranked[start:end] = _resolved(_exact(group, behind, words, rate, width, runs), len(group), randomness, width)
    return ranked[:k]


def _contenders(
    shortfalls: NDArray[np.float64], words: NDArray[np.uint64], keys: NDArray[np.float64], k: int
) -> NDArray[np.intp]:
    """Return every position that may be among the k highest."""
    provisional = np.argpartition(keys, len(keys) - k)[len(keys) - k :]
    lower, _ = float_bounds(shortfalls[provisional], words[provisional], keys[provisional])
    bar = float(lower.min())
    if bar == -np.inf:
        return np.arange(len(keys))
    # Away from the ends a key above the bar has a shortfall within |bar| + 28 of 0 (the logarithm of a run's weight is
    # less than that), and so a radius below this slack.
    slack = 2.0**-23 + 2.0**-48 * (abs(bar) + 28.0)
    return np.flatnonzero((keys >= bar - slack) | is_loose(words))


def _overlaps(
    lower: NDArray[np.float64], upper: NDArray[np.float64], k: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the maximal runs [start, end) of a ranking whose order is in doubt and matters for the first k."""
    lowest_so_far = np.minimum.accumulate(lower)
    highest_to_come = np.maximum.accumulate(upper[::-1])[::-1]
    breaks = np.flatnonzero(lowest_so_far[:-1] > highest_to_come[1:]) + 1
    starts = np.concatenate(([0], breaks))
    ends = np.concatenate((breaks, [len(lower)]))
    doubtful = (ends - starts > 1) & (starts < k)
    return starts[doubtful], ends[doubtful]


def _exact(
    group: NDArray[np.intp],
    behind: NDArray[np.int64],
    words: NDArray[np.uint64],
    rate: Fraction,
    width: int,
    runs: Runs | None,
) -> list[ExactKey]:
    keys = [ExactKey(index, rate * int(behind[index]), int(words[index]), width) for index in group.tolist()]
    if runs is not None:
        for key in keys:
            key.weight = partial(runs.logarithm, key.index, rate)
    return keys


def _resolved(keys: list[ExactKey], k: int, randomness: Randomness, width: int) -> NDArray[np.intp]:
    """Return the positions of the k highest keys in order, appending words wherever two cannot be told apart."""
    bounds = {key.index: key.bounds() for key in keys}
    while True:
        # Unbounded intervals sort to their open end and overlap whatever they must.
        keys.sort(key=lambda key: (bounds[key.index][1] is None, bounds[key.index][1] or 0), reverse=True)
        doubtful = _doubtful(keys, bounds, k)
        if not doubtful:
            return np.array([key.index for key in keys[:k]], dtype=np.intp)
        for key in doubtful:
            key.extend(randomness, width)
            bounds[key.index] = key.bounds()


def _doubtful(
    keys: list[ExactKey], bounds: dict[int, tuple[Fraction | None, Fraction | None]], k: int
) -> list[ExactKey]:
    """Return the keys whose interval meets that of a neighbour within the first k; `keys` fall by upper end."""
    doubtful: dict[int, ExactKey] = {}
    for place, key in enumerate(keys[:k]):
        lower = bounds[key.index][0]
        for other in keys[place + 1 :]:
            upper = bounds[other.index][1]
            if lower is not None and upper is not None and upper < lower:
                break  # all later ones end lower still
            doubtful[key.index] = key
            doubtful[other.index] = other
    return list(doubtful.values())

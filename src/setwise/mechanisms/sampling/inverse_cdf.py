"""Tables of cumulative cut points, certified by integer interval arithmetic.

To draw from a law on the integers by inversion one needs the cut points F(x) of its distribution function. A
word of w bits says that a uniform U lies in [word, word + 1) / 2^w; it decides the draw unless the word equals
floor(F(x) 2^w) for some x. The table holds those floors, each certified.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.sampling.fixed_point import ceil_divide, ceil_shift, exp_minus


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedGaussian:
    """The law of round(X), X Gaussian of mean 0 and the given variance."""

    variance: Fraction
    bound: None = None


def rounded_weights(law: RoundedGaussian, precision: int, negligible: int) -> tuple[list[tuple[int, int]], int]:
    """Return bounds on W(0), W(1), ... at `precision` bits, and on the sum of all that follow.

    Ensures: what follows is below `negligible` units.
    """
    v = law.variance
    low_g = high_g = 1 << precision
    low_ratio, high_ratio = exp_minus(1 / (2 * v), precision)
    low_fall, high_fall = exp_minus(1 / v, precision)
    series = _Series(v, precision)
    sizes: list[tuple[int, int]] = []
    z = 0
    while True:
        if high_g < negligible:
            beyond = _integral_beyond(z - Fraction(1, 2), v, precision)
            if beyond < negligible:
                return sizes, beyond
        low, high = series.at(z)
        sizes.append(((low_g * low) >> precision, ceil_shift(high_g * high, precision)))
        z += 1
        low_g, high_g = (low_g * low_ratio) >> precision, ceil_shift(high_g * high_ratio, precision)
        low_ratio, high_ratio = (low_ratio * low_fall) >> precision, ceil_shift(high_ratio * high_fall, precision)


def _integral_beyond(x: Fraction, variance: Fraction, precision: int) -> int:
    """Return an upper bound on the integral from x > 0 on, which is at most exp(-x^2 / (2v)) v / x."""
    most = exp_minus(x * x / (2 * variance), precision)[1] * variance / x
    return ceil_divide(most.numerator, most.denominator)


class _Series:
    """Bounds on sum_m J_m A^m / (2m)! for any z; the J_m are computed once."""

    def __init__(self, variance: Fraction, precision: int) -> None:
        self._variance, self._precision = variance, precision
        self._factors: list[tuple[int, int]] = []

    def at(self, z: int) -> tuple[int, int]:
        precision = self._precision
        a = Fraction(z * z) / (4 * self._variance * self._variance)
        low_a = (a.numerator << precision) // a.denominator
        high_a = low_a + 1
        low_power = high_power = 1 << precision
        low = high = 0
        m = 0
        while True:
            low_j, high_j = self._factor(m)
            low += (low_power * low_j) >> precision
            high += ceil_shift(high_power * high_j, precision)
            grow = (2 * m + 1) * (2 * m + 2)
            # The J_m fall and are below 1, so once A is half of `grow` all later terms sum to at most this power.
            if 2 * high_a <= grow << precision and high_power <= 1:
                return low, high + 1
            low_power = ((low_power * low_a) >> precision) // grow
            high_power = ceil_divide(ceil_shift(high_power * high_a, precision), grow)
            m += 1

    def _factor(self, m: int) -> tuple[int, int]:
        while len(self._factors) <= m:
            self._factors.append(_integral(len(self._factors), self._variance, self._precision))
        return self._factors[m]


def _integral(m: int, variance: Fraction, precision: int) -> tuple[int, int]:
    """Return bounds on J_m = exp(-q) sum_j (2q)^j / ((2m + 1)(2m + 3) ... (2m + 1 + 2j)), where q = 1 / (8v)."""
    step = 1 / (4 * variance)
    low_term, high_term = (1 << precision) // (2 * m + 1), ceil_divide(1 << precision, 2 * m + 1)
    low = high = 0
    j = 0
    while True:
        low += low_term
        high += high_term
        j += 1
        shrink = step / (2 * m + 1 + 2 * j)
        # Once a term is at most half the one before it, all later terms sum to at most the last.
        if 2 * shrink <= 1 and high_term <= 1:
            break
        low_term = low_term * shrink.numerator // shrink.denominator
        high_term = ceil_divide(high_term * shrink.numerator, shrink.denominator)
    low_factor, high_factor = exp_minus(step / 2, precision)
    return (low * low_factor) >> precision, ceil_shift((high + 1) * high_factor, precision)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSided:
    """The law P[z] proportional to exp(-(first |z| + second |z|(|z|-1)/2)) on the integers, or on {-bound..bound}.

    Laplace noise of scale b is first = 1/b, second = 0; Gaussian noise of variance v is first = 1/(2v), second = 1/v.
    """

    first: Fraction
    second: Fraction = Fraction(0)
    bound: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSided:
    """The law P[z] proportional to exp(-first z) on {0, 1, ..., bound}, or on all non-negative integers."""

    first: Fraction
    bound: int | None = None


Law: TypeAlias = TwoSided | OneSided | RoundedGaussian


@dataclass(frozen=True, slots=True)
class CutPoints:
    """`floors[i]` is floor(F(smallest + i) 2^width), certified and non-decreasing.

    Ensures: every cut point not in the table shares its floor, 0 or 2^width - 1, with one that is.
    """

    smallest: int
    width: int
    floors: tuple[int, ...]


@lru_cache(maxsize=32)
def cut_points(law: Law, width: int) -> CutPoints:
    """Return the certified table of `law` for words of `width` bits.

    The precision doubles until every floor is certain; a cut point is irrational, so that happens.

    >>> cut_points(OneSided(first=Fraction(1), bound=1), 8)  # 256 / (1 + 1/e) = 187.15
    CutPoints(smallest=0, width=8, floors=(187,))
    """
    guard = 64
    while True:
        table = _attempt(law, width, guard)
        if table is not None:
            return table
        guard *= 2


def _attempt(law: Law, width: int, guard: int) -> CutPoints | None:
    """Return the table computed with `guard` extra bits, or None where they leave some floor in doubt."""
    sizes, beyond = _weights(law, width + guard, negligible=1 << (guard // 2))
    tails = [(0, beyond)]  # in the end, tails[x] bounds the weight of {x, x+1, ...}
    for low, high in reversed(sizes):
        tails.append((tails[-1][0] + low, tails[-1][1] + high))
    tails.reverse()
    (whole_low, whole_high), (center_low, center_high) = tails[0], sizes[0]
    reach = len(sizes) if law.bound is None else law.bound
    match law:
        case TwoSided() | RoundedGaussian():
            total = 2 * whole_low - center_high, 2 * whole_high - center_low
            floors = [_floor(tails[x], total, width) for x in range(reach, 0, -1)]
            smallest = -reach
        case OneSided():
            total = whole_low, whole_high
            floors = []
            smallest = 0
    floors += [_floor_of_rest(tails[x], total, width) for x in range(1, reach + 1)]
    if any(low != high for low, high in floors):
        return None
    return _trimmed(smallest, width, [low for low, _ in floors])


def _trimmed(smallest: int, width: int, floors: list[int]) -> CutPoints:
    """Return the table without the far tails: words 0 and 2^width - 1 are looked up in a wider table anyway."""
    start = max(0, bisect_right(floors, 0) - 1)
    end = min(len(floors), bisect_left(floors, (1 << width) - 1) + 1)
    return CutPoints(smallest + start, width, tuple(floors[start:end]))


def _floor(tail: tuple[int, int], total: tuple[int, int], width: int) -> tuple[int, int]:
    """Return the least and the largest value of floor(tail/total 2^width)."""
    return (tail[0] << width) // total[1], (tail[1] << width) // total[0]


def _floor_of_rest(tail: tuple[int, int], total: tuple[int, int], width: int) -> tuple[int, int]:
    """Return the least and the largest value of floor((1 - tail/total) 2^width); the tail is never quite 0."""
    most = ceil_divide(tail[1] << width, total[0])
    least = max(1, ceil_divide(tail[0] << width, total[1]))
    return (1 << width) - most, (1 << width) - least


def _weights(law: Law, precision: int, negligible: int) -> tuple[list[tuple[int, int]], int]:
    match law:
        case TwoSided() | OneSided():
            return weights(law, precision, negligible)
        case RoundedGaussian():
            return rounded_weights(law, precision, negligible)
        case _:
            assert_never(law)


def weights(law: TwoSided | OneSided, precision: int, negligible: int) -> tuple[list[tuple[int, int]], int]:
    """Return bounds on the weights of 0, 1, ... (weight 1 at 0), and on the sum of all that follow.

    Ensures: an unbounded law is carried on until what follows is below `negligible` units.
    """
    second = law.second if isinstance(law, TwoSided) else Fraction(0)
    low, high = 1 << precision, 1 << precision
    low_ratio, high_ratio = exp_minus(law.first, precision)
    low_fall, high_fall = exp_minus(second, precision)
    sizes = [(low, high)]
    while law.bound is None or len(sizes) <= law.bound:
        low, high = (low * low_ratio) >> precision, ceil_shift(high * high_ratio, precision)
        low_ratio, high_ratio = (low_ratio * low_fall) >> precision, ceil_shift(high_ratio * high_fall, precision)
        # Ratios only fall, so this weight and all that follow are at most a geometric series.
        following = ceil_divide(high << precision, (1 << precision) - high_ratio)
        if law.bound is None and following < negligible:
            return sizes, following
        sizes.append((low, high))
    return sizes, 0


_CHUNK = 1 << 15
"""Draws handled at a time, so that words and results stay in the processor's cache."""

_SCAN = 1 << 18
"""Up to this many comparisons, every word is compared with every floor, so that no draw differs in its steps."""

_FEWEST_GUIDE_BITS = 14
_MOST_GUIDE_BITS = 18
"""Leading bits of a word that index the guide: enough that few buckets hold a floor, few enough to stay in cache."""


def draw(law: Law, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
    """Return `count` independent exact draws from `law`.

    Ensures: the law of each draw is `law` itself, whatever the `width` of the words it starts from; a narrow
    word only sends more draws to the refinement.
    """
    lookup = _lookup(law, width)
    values = np.empty(count, dtype=np.int64)
    for start in range(0, count, _CHUNK):
        words = randomness.words(min(_CHUNK, count - start), width)
        chunk = values[start : start + len(words)]
        undecided = lookup.invert(words, chunk)
        for index in undecided:
            chunk[index] = _refined(law, int(words[index]), width, randomness)
    return values


def _refined(law: Law, word: int, width: int, randomness: Randomness) -> int:
    """Return the draw a word that equals a cut point leads to, appending words until it equals none."""
    bits = width
    while True:
        word = (word << width) | int(randomness.words(1, width)[0])
        bits += width
        table = cut_points(law, bits)
        passed = bisect_right(table.floors, word)
        if passed == 0 or table.floors[passed - 1] != word:
            return table.smallest + passed


@dataclass(frozen=True, slots=True, eq=False)
class _Lookup:
    """A table ready for vectorised inversion.

    `guide` gives the number of floors at or below a word by its leading bits, or -1 where they do not tell.
    """

    smallest: int
    floors: NDArray[np.uint64]
    guide: NDArray[np.int32]
    shift: np.uint64

    def invert(self, words: NDArray[np.uint64], values: NDArray[np.int64]) -> NDArray[np.intp]:
        """Write the draws that `words` decide into `values` and return where a word equals a floor.

        A few draws could be timed one by one, so their steps and the memory they touch are the same whatever the
        words are. Among many, only sums of times show, and the guide is faster.
        """
        if len(words) * len(self.floors) <= _SCAN:
            return self._scan(words, values)
        passed = self.guide[(words >> self.shift).view(np.int64)]
        unclear = np.flatnonzero(passed < 0)
        searched = np.searchsorted(self.floors, words[unclear], side="right")
        passed[unclear] = searched
        np.add(passed, self.smallest, out=values)
        equal = (searched > 0) & (self.floors[searched - 1] == words[unclear])
        return np.asarray(unclear[equal], dtype=np.intp)

    def _scan(self, words: NDArray[np.uint64], values: NDArray[np.int64]) -> NDArray[np.intp]:
        column = words[:, np.newaxis]
        np.add(np.count_nonzero(self.floors <= column, axis=1), self.smallest, out=values)
        return np.flatnonzero(np.count_nonzero(self.floors == column, axis=1))


@lru_cache(maxsize=32)
def _lookup(law: Law, width: int) -> _Lookup:
    table = cut_points(law, width)
    floors = np.array(table.floors, dtype=np.uint64)
    bits = min(width, max(_FEWEST_GUIDE_BITS, min(_MOST_GUIDE_BITS, len(floors).bit_length() + 4)))
    shift = np.uint64(width - bits)
    starts = np.arange(1 << bits, dtype=np.uint64) << shift
    before = np.searchsorted(floors, starts, side="left")
    through = np.searchsorted(floors, starts | ((np.uint64(1) << shift) - np.uint64(1)), side="right")
    guide = np.where(before == through, before, -1).astype(np.int32)
    return _Lookup(table.smallest, floors, guide, shift)

"""Exact draws from laws on the integers by inversion, from certified tables of cut points.

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
from setwise.mechanisms.sampling.fixed_point import NONE, FixedInterval, ceil_divide, exp_minus


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedGaussian:
    """The law of round(X), X Gaussian of mean 0 and the given variance."""

    variance: Fraction
    bound: None = None


def rounded_weights(law: RoundedGaussian, precision: int, negligible: int) -> tuple[list[FixedInterval], int]:
    """Return bounds on W(0), W(1), ... at `precision` bits, and on the sum of all that follow.

    Ensures: what follows is below `negligible` units.
    """
    v = law.variance
    density = FixedInterval.of(Fraction(1), precision)
    ratio, fall = exp_minus(1 / (2 * v), precision), exp_minus(1 / v, precision)
    series = _Series(v, precision)
    sizes: list[FixedInterval] = []
    z = 0
    while True:
        if density.high < negligible:
            beyond = _integral_beyond(z - Fraction(1, 2), v, precision)
            if beyond < negligible:
                return sizes, beyond
        sizes.append(density.times(series.at(z), precision))
        z += 1
        density, ratio = density.times(ratio, precision), ratio.times(fall, precision)


def _integral_beyond(x: Fraction, variance: Fraction, precision: int) -> int:
    """Return an upper bound on the integral from x > 0 on, which is at most exp(-x^2 / (2v)) v / x."""
    return exp_minus(x * x / (2 * variance), precision).over(x / variance).high


class _Series:
    """Bounds on sum_m J_m A^m / (2m)! for any z; the J_m are computed once."""

    def __init__(self, variance: Fraction, precision: int) -> None:
        self._variance, self._precision = variance, precision
        self._factors: list[FixedInterval] = []

    def at(self, z: int) -> FixedInterval:
        precision = self._precision
        a = FixedInterval.of(Fraction(z * z) / (4 * self._variance * self._variance), precision)
        power = FixedInterval.of(Fraction(1), precision)
        total = NONE
        m = 0
        while True:
            total = total.plus(power.times(self._factor(m), precision))
            grow = (2 * m + 1) * (2 * m + 2)
            # The J_m fall and are below 1, so once A is half of `grow` all later terms sum to at most this power.
            if 2 * a.high <= grow << precision and power.high <= 1:
                return total.raised(1)
            power = power.times(a, precision).over(grow)
            m += 1

    def _factor(self, m: int) -> FixedInterval:
        while len(self._factors) <= m:
            self._factors.append(_integral(len(self._factors), self._variance, self._precision))
        return self._factors[m]


def _integral(m: int, variance: Fraction, precision: int) -> FixedInterval:
    """Return bounds on J_m = exp(-q) sum_j (2q)^j / ((2m + 1)(2m + 3) ... (2m + 1 + 2j)), where q = 1 / (8v)."""
    step = 1 / (4 * variance)
    term = FixedInterval.of(Fraction(1, 2 * m + 1), precision)
    total = NONE
    j = 0
    while True:
        total = total.plus(term)
        j += 1
        grow = (2 * m + 1 + 2 * j) / step
        # Once a term is at most half the one before it, all later terms sum to at most the last.
        if grow >= 2 and term.high <= 1:
            break
        term = term.over(grow)
    return total.raised(1).times(exp_minus(step / 2, precision), precision)


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
    tails = [FixedInterval(0, beyond)]  # in the end, tails[x] bounds the weight of {x, x+1, ...}
    for size in reversed(sizes):
        tails.append(tails[-1].plus(size))
    tails.reverse()
    whole, center = tails[0], sizes[0]
    reach = len(sizes) if law.bound is None else law.bound
    match law:
        case TwoSided() | RoundedGaussian():
            total = FixedInterval(2 * whole.low - center.high, 2 * whole.high - center.low)
            floors = [_floor(tails[x], total, width) for x in range(reach, 0, -1)]
            smallest = -reach
        case OneSided():
            total = whole
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


def _floor(tail: FixedInterval, total: FixedInterval, width: int) -> FixedInterval:
    """Return the least and the largest value of floor(tail/total 2^width)."""
    return FixedInterval((tail.low << width) // total.high, (tail.high << width) // total.low)


def _floor_of_rest(tail: FixedInterval, total: FixedInterval, width: int) -> FixedInterval:
    """Return the least and the largest value of floor((1 - tail/total) 2^width); the tail is never quite 0."""
    most = ceil_divide(tail.high << width, total.low)
    least = max(1, ceil_divide(tail.low << width, total.high))
    return FixedInterval((1 << width) - most, (1 << width) - least)


def _weights(law: Law, precision: int, negligible: int) -> tuple[list[FixedInterval], int]:
    match law:
        case TwoSided() | OneSided():
            return weights(law, precision, negligible)
        case RoundedGaussian():
            return rounded_weights(law, precision, negligible)
        case _:
            assert_never(law)


def weights(law: TwoSided | OneSided, precision: int, negligible: int) -> tuple[list[FixedInterval], int]:
    """Return bounds on the weights of 0, 1, ... (weight 1 at 0), and on the sum of all that follow.

    Ensures: an unbounded law is carried on until what follows is below `negligible` units.
    """
    second = law.second if isinstance(law, TwoSided) else Fraction(0)
    size = FixedInterval.of(Fraction(1), precision)
    ratio, fall = exp_minus(law.first, precision), exp_minus(second, precision)
    sizes = [size]
    while law.bound is None or len(sizes) <= law.bound:
        size, ratio = size.times(ratio, precision), ratio.times(fall, precision)
        # Ratios only fall, so this weight and all that follow are at most a geometric series.
        following = ceil_divide(size.high << precision, (1 << precision) - ratio.high)
        if law.bound is None and following < negligible:
            return sizes, following
        sizes.append(size)
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

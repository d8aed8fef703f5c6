"""Exact draws from distributions on the integers by inversion, with certified tables of cut points.

A draw by inversion is the smallest x with U < F(x), where U is uniform in [0, 1] and F is the distribution function;
the values F(x) are its cut points. A random word of w bits says that U lies in [word, word + 1) / 2^w. The word decides
the draw unless it equals floor(F(x) 2^w) for some x. The tables hold these floors, each certified.
"""

# A table has thousands of entries, and a question with a new noise scale waits until it is computed. So the loops over
# entries compute with plain pairs of integers, rounded as `FixedInterval` rounds: `a * b >> bits` is rounded down,
# `-(-a * b >> bits)` up. Making a `FixedInterval` of each pair would take a third of the time.

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
    """The distribution of round(X), where X is Gaussian with mean 0 and this `variance`.

    It has no largest value, so `bound` is always None.
    """

    variance: Fraction
    bound: None = None


def rounded_weights(law: RoundedGaussian, precision: int, negligible: int) -> tuple[list[tuple[int, int]], int]:
    """Return bounds on the weights W(0), W(1), ... of a rounded Gaussian, and a bound on the sum of all later weights.

    W(z) is the probability of the integer z up to a common factor: the integral of exp(-x^2 / (2 variance)) from z -
    1/2 to z + 1/2, where `law` has the variance. The first result has a pair (lower bound, upper bound) for each
    weight; the second result is an upper bound. All bounds are whole numbers, in units of 2^-`precision`.

    Ensures: the bound on the later weights is below `negligible`.
    """
    v = law.variance
    low = high = 1 << precision  # of the density exp(-z^2 / (2v))
    ratio_low, ratio_high = exp_minus(1 / (2 * v), precision)
    fall_low, fall_high = exp_minus(1 / v, precision)
    series = _Series(v, precision)
    sizes: list[tuple[int, int]] = []
    z = 0
    while True:
        if high < negligible:
            beyond = _integral_beyond(z - Fraction(1, 2), v, precision)
            if beyond < negligible:
                return sizes, beyond
        sum_low, sum_high = series.at(z)
        sizes.append((low * sum_low >> precision, -(-high * sum_high >> precision)))
        z += 1
        low, high = low * ratio_low >> precision, -(-high * ratio_high >> precision)
        ratio_low, ratio_high = ratio_low * fall_low >> precision, -(-ratio_high * fall_high >> precision)


def _integral_beyond(x: Fraction, variance: Fraction, precision: int) -> int:
    """Return an upper bound on the integral of exp(-t^2 / (2 `variance`)) from `x` to infinity, for `x` > 0.

    The result is a whole number, in units of 2^-`precision`. It bounds the weight of the far tail that a table of a
    rounded Gaussian leaves out. The integral is at most exp(-x^2 / (2v)) v / x, where v is the variance.
    """
    return exp_minus(x * x / (2 * variance), precision).over(x / variance).high


class _Series:
    """Bounds on the series sum_m J_m A^m / (2m)! with A = z^2 / (4 v^2), for any integer z.

    J_m is the integral of w^(2m) exp(-w^2 / (8 v)) over w from 0 to 1. The series gives the probabilities of a rounded
    Gaussian of variance v: the probability of z is in proportion to exp(-z^2 / (2v)) times this sum.
    """

    # The integrals J_m (see `_integral`) do not depend on z and are computed once, with `precision` bits.

    def __init__(self, variance: Fraction, precision: int) -> None:
        self._variance, self._precision = variance, precision
        self._quarter = 1 / (4 * variance * variance)
        self._factors: list[FixedInterval] = []

    def at(self, z: int) -> FixedInterval:
        """Return bounds on the sum over m of J_m A^m / (2m)!, where A = z^2 / (4 variance^2), for the integer `z`.

        J_m is the integral of w^(2m) exp(-w^2 / (8 variance)) from 0 to 1. The sum is a factor of the probability of z
        under a rounded Gaussian. The bounds have the number of bits after the point with which the object was made.
        """
        precision, factors = self._precision, self._factors
        square = z * z * self._quarter.numerator << precision
        a_low, a_high = square // self._quarter.denominator, ceil_divide(square, self._quarter.denominator)
        power_low = power_high = 1 << precision
        low = high = m = 0
        while True:
            factor_low, factor_high = factors[m] if m < len(factors) else self._factor(m)
            low += power_low * factor_low >> precision
            high -= -power_high * factor_high >> precision
            grow = (2 * m + 1) * (2 * m + 2)
            # The J_m fall and are at most 1, so once A is at most half of `grow`, all later terms sum to at most this
            # power.
            if power_high <= 1 and 2 * a_high <= grow << precision:
                return FixedInterval(low, high + 1)
            power_low = (power_low * a_low >> precision) // grow
            power_high = -((-power_high * a_high >> precision) // grow)
            m += 1

    def _factor(self, m: int) -> FixedInterval:
        """Return certified bounds on J_m, the integral of w^(2m) exp(-w^2 / (8 variance)) over w from 0 to 1; cached.

        The probabilities of a Gaussian of this variance that is rounded to integers are computed by a series. Its term
        with the index `m` has the factor J_m.
        """
        while len(self._factors) <= m:
            self._factors.append(_integral(len(self._factors), self._variance, self._precision))
        return self._factors[m]


def _integral(m: int, variance: Fraction, precision: int) -> FixedInterval:
    """Return bounds, at `precision` bits, on J_m: the integral of w^(2m) exp(-w^2 / (8 variance)) from 0 to 1.

    `m` is the index of a term in the series for the probabilities of a rounded Gaussian of this `variance`. With q = 1
    / (8 variance), J_m is exp(-q) sum_j (2q)^j / ((2m + 1)(2m + 3) ... (2m + 1 + 2j)).
    """
    step = 1 / (4 * variance)
    term = FixedInterval.of(Fraction(1, 2 * m + 1), precision)
    total = NONE
    j = 0
    while True:
        total = total.plus(term)
        j += 1
        grow = (2 * m + 1 + 2 * j) / step
        # Once each term is at most half the one before it, all later terms sum to at most the last one.
        if grow >= 2 and term.high <= 1:
            break
        term = term.over(grow)
    return total.raised(1).times(exp_minus(step / 2, precision), precision)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSided:
    """A symmetric law on the integers: P[z] is proportional to exp(-(first |z| + second |z|(|z|-1)/2)).

    With a `bound`, z is limited to {-bound, ..., bound}; None means all integers. For Laplace noise of scale b, `first`
    is 1/b and `second` is 0. For Gaussian noise of variance v, `first` is 1/(2v) and `second` is 1/v.
    """

    first: Fraction
    second: Fraction = Fraction(0)
    bound: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSided:
    """The law P[z] proportional to exp(-first z) on {0, 1, ..., bound}.

    A `bound` of None means all non-negative integers.
    """

    first: Fraction
    bound: int | None = None


Law: TypeAlias = TwoSided | OneSided | RoundedGaussian


@dataclass(frozen=True, slots=True)
class CutPoints:
    """The distribution function F of an integer law as a table: `floors[i]` is floor(F(smallest + i) 2^width).

    `width` is the number of bits of the random words that are looked up in the table. A word below an entry gives a
    draw of at most that entry's value, so a word is turned into a draw by a search in the table. Every entry is
    certified, and entries never fall from one value to the next.

    Ensures: the table has an entry for every value at which F is neither 0 nor 1, except in the far tails. There the
    entries would all be 0 (on the left) or 2^width - 1 (on the right); at most one of each kind is kept.
    """

    # These two entries are kept so that a word that does not decide its draw always equals an entry.

    smallest: int
    width: int
    floors: tuple[int, ...]


@lru_cache(maxsize=32)
def cut_points(law: Law, width: int) -> CutPoints:
    """Return the certified table of the distribution function F of `law`, for random words of `width` bits.

    The precision of the computation doubles until every floor(F(x) 2^width) is certain. This ends, because F(x) is
    irrational, so that F(x) 2^width is never a whole number.

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
    """Return the table of floor(F(x) 2^width) for all x, where F is the distribution function of `law`, or None.

    F is computed with `guard` bits more than `width`. The result is None if these bits do not determine floor(F(x)
    2^width) for some integer x; the caller then tries again with more bits.
    """
    sizes, beyond = _weights(law, width + guard, negligible=1 << (guard // 2))
    low, high = 0, beyond
    tails = [(low, high)]  # in the end, tails[x] bounds the weight of {x, x+1, ...}
    for size_low, size_high in reversed(sizes):
        low, high = low + size_low, high + size_high
        tails.append((low, high))
    tails.reverse()
    (whole_low, whole_high), (center_low, center_high) = tails[0], sizes[0]
    reach = len(sizes) if law.bound is None else law.bound
    match law:
        case TwoSided() | RoundedGaussian():
            total = FixedInterval(2 * whole_low - center_high, 2 * whole_high - center_low)
            below = _floors(tails[reach:0:-1], total, width)
            smallest = -reach
        case OneSided():
            total = FixedInterval(whole_low, whole_high)
            below = []
            smallest = 0
    above = _floors_of_complements(tails[1 : reach + 1], total, width)
    if below is None or above is None:
        return None
    return _trim_tails(smallest, width, below + above)


def _trim_tails(smallest: int, width: int, floors: list[int]) -> CutPoints:
    """Return the table of a distribution function F without the repeated entries of its far tails.

    `floors` are the entries floor(F(x) 2^width) for x = `smallest`, `smallest` + 1, and so on. Far to the left all
    entries are 0, and far to the right all are 2^width - 1; one entry of each kind is kept. A draw is found by
    comparing a random word of `width` bits with the entries. A word that equals an entry does not yet decide the draw,
    so more random bits are needed. Without the two kept entries, the words 0 and 2^width - 1 would seem to decide.
    """
    start = max(0, bisect_right(floors, 0) - 1)
    end = min(len(floors), bisect_left(floors, (1 << width) - 1) + 1)
    return CutPoints(smallest + start, width, tuple(floors[start:end]))


def _floors(tails: list[tuple[int, int]], total: FixedInterval, width: int) -> list[int] | None:
    """Return floor(2^width * tail / total) for each tail in `tails`; None if one of these numbers is uncertain.

    These whole numbers are the entries of a table from which integers are drawn. A tail is the weight that a
    distribution has beyond some point, and `total` is the weight of the whole distribution (a weight is a probability
    up to a common factor). Weights are known only within intervals, as (lower bound, upper bound). A table entry is
    uncertain if the two ends of the intervals give different whole numbers.
    """
    least, most = total
    floors = [(low << width) // most for low, _ in tails]
    largest = [(high << width) // least for _, high in tails]
    return floors if floors == largest else None


def _floors_of_complements(tails: list[tuple[int, int]], total: FixedInterval, width: int) -> list[int] | None:
    """Return the cut points floor(2^width * (1 - tail / total)), one for each of `tails`; None if a floor is uncertain.

    They are compared with random words of `width` bits, to draw a value 0, 1, 2, ... of a distribution. A floor is
    uncertain if the bounds of tail and total are too far apart; the caller then computes closer bounds.

    - `tails` has, for each cut point, a lower and an upper bound on the weight of all values beyond it. A weight is a
      probability times a factor that all weights have in common.
    - `total` has the two bounds on the weight of all values.
    """
    # Tails are positive, even if their lower bounds are 0.
    least, most = total
    one = 1 << width
    floors = [one + (-(high << width) // least) for _, high in tails]  # 1 - tail / total, rounded down
    largest = [one + min(-1, -(low << width) // most) for low, _ in tails]
    return floors if floors == largest else None


def _weights(law: Law, precision: int, negligible: int) -> tuple[list[tuple[int, int]], int]:
    """Return bounds on the weights of the integers 0, 1, ..., and an upper bound on the sum of all later weights.

    The weight of an integer is its probability under `law`, up to a factor that is the same for all integers. The
    bounds are pairs (lower, upper) of whole numbers in units of 2^-`precision`. For an unbounded law, the bound on the
    later weights is below `negligible` of these units.
    """
    match law:
        case TwoSided() | OneSided():
            return weights(law, precision, negligible)
        case RoundedGaussian():
            return rounded_weights(law, precision, negligible)
        case _:
            assert_never(law)


def weights(law: TwoSided | OneSided, precision: int, negligible: int) -> tuple[list[tuple[int, int]], int]:
    """Return bounds on the weights of the integers 0, 1, ..., and an upper bound on the sum of all later weights.

    The weight of an integer is its probability under `law`, divided by the probability of 0. The bounds are pairs
    (lower, upper) of whole numbers in units of 2^-`precision`.

    Ensures: for an unbounded law, the bound on the later weights is below `negligible` of these units.
    """
    second = law.second if isinstance(law, TwoSided) else Fraction(0)
    low = high = 1 << precision
    ratio_low, ratio_high = exp_minus(law.first, precision)
    fall_low, fall_high = exp_minus(second, precision)
    sizes = [(low, high)]
    while law.bound is None or len(sizes) <= law.bound:
        low, high = low * ratio_low >> precision, -(-high * ratio_high >> precision)
        if second:  # otherwise the ratio of two neighbours is the same everywhere
            ratio_low, ratio_high = ratio_low * fall_low >> precision, -(-ratio_high * fall_high >> precision)
        if law.bound is None and high < negligible:
            # Ratios only fall, so this weight and all later ones sum to at most a geometric series.
            following = ceil_divide(high << precision, (1 << precision) - ratio_high)
            if following < negligible:
                return sizes, following
        sizes.append((low, high))
    return sizes, 0


_CHUNK = 1 << 15
"""Number of draws handled at a time, so that words and results stay in the processor's cache."""

_SCAN = 1 << 18
"""Up to this many comparisons of random words with table entries, every word is compared with every entry, so that the
time of a draw does not depend on the word.
"""

_FEWEST_GUIDE_BITS = 14
_MOST_GUIDE_BITS = 18
"""Largest number of leading bits by which a random word is looked up in a first, small table, the guide.

The number is large enough that the leading bits mostly decide the draw, and small enough that the guide stays in the
cache. `_FEWEST_GUIDE_BITS` is the smallest number.
"""


def draw(law: Law, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
    """Return `count` independent exact draws from `law`, each starting from `width` random bits.

    `randomness` is the source of random words.

    Ensures: each draw has exactly the distribution `law`, whatever `width` is; the fewer bits, the more draws need
    further random words.
    """
    lookup = _lookup(law, width)
    values = np.empty(count, dtype=np.int64)
    for start in range(0, count, _CHUNK):
        words = randomness.words(min(_CHUNK, count - start), width)
        chunk = values[start : start + len(words)]
        undecided = lookup.invert(words, chunk)
        for index in undecided:
            chunk[index] = _refine_draw(law, int(words[index]), width, randomness)
    return values


def _refine_draw(law: Law, word: int, width: int, randomness: Randomness) -> int:
    """Return a draw from the distribution `law`, whose first random bits, the number `word`, do not decide it yet.

    A draw is made by comparing a uniform random number with the values of the distribution function, which stand in a
    table with as many bits as `word` has (`width`). If `word` equals an entry of the table, later bits decide on which
    side of the entry the random number lies. So random words are appended, and compared with a table of more bits,
    until there is no such entry. `randomness` is the source of random words.
    """
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
    """A table of a distribution function, prepared to turn many random words into draws.

    - `floors` are the entries of the table, in ascending order. A word that equals no entry decides its draw: the draw
      is `smallest` plus the number of entries below the word.
    - `smallest` is the draw for a word below all entries.
    - `guide` saves most searches: it maps the leading bits of a word to the number of entries that are at most the
      word, or to -1 if the leading bits do not determine that number.
    - `shift` is the number of bits of a word after the leading bits.
    """

    smallest: int
    floors: NDArray[np.uint64]
    guide: NDArray[np.int32]
    shift: np.uint64

    def invert(self, words: NDArray[np.uint64], values: NDArray[np.int64]) -> NDArray[np.intp]:
        """Write a draw into `values` for each random word that decides its draw; return the indices of the other words.

        A word decides no draw if it equals an entry of the table, because later random bits then matter. The caller
        appends random bits to such a word.
        """
        # An observer could time a few draws one by one, so for few words the steps and memory accesses do not depend on
        # the words. Of many draws only the total time is observable, so these are looked up by the leading bits of the
        # words, which is faster.
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
        """Write the draw for each random word into `values`, and return the indices of the words that decide no draw.

        The draw for a word is `smallest` plus the number of table entries (`floors`) that are at most the word. A word
        that equals an entry decides no draw, because further random bits are needed. Every word is compared with every
        entry, so steps and memory accesses do not depend on the words, and an observer who times a draw learns nothing
        about it.
        """
        column = words[:, np.newaxis]
        np.add(np.count_nonzero(self.floors <= column, axis=1), self.smallest, out=values)
        return np.flatnonzero(np.count_nonzero(self.floors == column, axis=1))


@lru_cache(maxsize=32)
def _lookup(law: Law, width: int) -> _Lookup:
    """Return a table from which random words of `width` bits are turned into draws of `law`; the result is cached.

    `law` is a distribution of whole numbers. A word is looked up in the table of its distribution function.
    """
    table = cut_points(law, width)
    floors = np.array(table.floors, dtype=np.uint64)
    bits = min(width, max(_FEWEST_GUIDE_BITS, min(_MOST_GUIDE_BITS, len(floors).bit_length() + 4)))
    shift = np.uint64(width - bits)
    starts = np.arange(1 << bits, dtype=np.uint64) << shift
    before = np.searchsorted(floors, starts, side="left")
    through = np.searchsorted(floors, starts | ((np.uint64(1) << shift) - np.uint64(1)), side="right")
    guide = np.where(before == through, before, -1).astype(np.int32)
    return _Lookup(table.smallest, floors, guide, shift)

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

from setwise.mechanisms.fixed_point import ceil_divide, ceil_shift, exp_minus
from setwise.mechanisms.rounded_gaussian_law import RoundedGaussian, rounded_weights


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

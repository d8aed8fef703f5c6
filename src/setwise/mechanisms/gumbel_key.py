"""The Gumbel key of one candidate: rate * score - ln(E), E = -ln(1 - V), V uniform and known to some bits.

Sorting candidates by decreasing key gives the order of scores with Gumbel noise of scale 1/rate. A key is held
as an interval, in floats for many candidates at once, or in integers to any precision for a few.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.fixed_point import ln
from setwise.mechanisms.randomness import Randomness

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
    trusted to 2^-50 relative, many times its true error. Near the ends a bound is loose or infinite.
    """
    near_one = words >= _NEAR_ONE
    below = (words + 0.5) * 2.0**-64
    above = (~words + 0.5) * 2.0**-64
    exponentials = np.where(near_one, -np.log(above), -np.log1p(-np.where(near_one, 0.5, below)))
    absolute = 2.0**-65 + 2.0**-52 * np.where(near_one, above, below)
    rounding = 2.0**-49 * (2.0 + np.abs(shortfalls) + np.abs(np.log(exponentials)))
    radius = 1.25 * absolute / (above * exponentials)
    # Near V = 0 the middle is within ln 2 of the lower end; near V = 1 within 1 of the upper end.
    low, high = words < _FEW, ~words < _FEW
    lower = keys - rounding - np.where(high, np.inf, np.where(low, 1.0, radius))
    upper = keys + rounding + np.where(low, np.inf, np.where(high, 1.0, radius))
    return lower, upper


def is_loose(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which words are so close to an end that their key may lie far from its middle."""
    return np.asarray((words < _FEW) | (~words < _FEW))


@dataclass(slots=True)
class ExactKey:
    """A candidate whose uniform V lies in [word, word + 1) / 2^bits; more bits may be appended.

    Mutable on purpose: its bits are drawn only as comparisons ask for them.
    """

    index: int
    shortfall: Fraction
    word: int
    bits: int

    def extend(self, randomness: Randomness, width: int) -> None:
        """Append one word to what is known of V."""
        self.word = (self.word << width) | int(randomness.words(1, width)[0])
        self.bits += width

    def bounds(self) -> tuple[Fraction | None, Fraction | None]:
        """Return certain bounds on the key; None where V may still be 0 or 1, so that there is none."""
        precision = 2 * self.bits + 64
        whole = 1 << self.bits
        most_bits, least_bits = whole - self.word, whole - self.word - 1
        lower = upper = None
        if least_bits:  # largest V, largest E, smallest key
            largest = -ln(Fraction(least_bits, whole), precision)[0]
            lower = self.shortfall - Fraction(ln(Fraction(largest, 1 << precision), precision)[1], 1 << precision)
        if self.word:
            smallest = -ln(Fraction(most_bits, whole), precision)[1]
            upper = self.shortfall - Fraction(ln(Fraction(smallest, 1 << precision), precision)[0], 1 << precision)
        return lower, upper

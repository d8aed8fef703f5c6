"""The bounds that values are clipped to, found privately from noisy counts in bins whose ends double."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.guarantees import DiscreteLaplace
from setwise.errors import InvalidParameter
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.parameters import binary
from setwise.mechanisms.randomness import Randomness

LEAST_EXPONENT, LARGEST_EXPONENT = -20, 40
"""Values of at most 2^-20 in absolute value count as 0, and the last bin of either sign holds all beyond 2^39."""

DOUBLINGS = LARGEST_EXPONENT - LEAST_EXPONENT
"""Bins of either sign: bin b > 0 holds what is above 2^(b - 21) and at most 2^(b - 20), bin -b its negative."""

_MISTAKEN = Fraction(1, 1000)
"""The probability that some bin without users is taken for one that has some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoublingBounds:
    """The ends of the outermost bins whose noisy counts stand out from noise, of -60, .., 0, .., 60.

    A user has at most one value, so one count changes by 1: all of them together are one use of Laplace noise. Where no
    count stands out, the highest is taken.

    >>> ends(-3), ends(0), ends(21)
    ((Fraction(-1, 131072), Fraction(-1, 262144)), (Fraction(0, 1), Fraction(0, 1)), (Fraction(1, 1), Fraction(2, 1)))
    """

    scale: Fraction

    @property
    def guarantee(self) -> DiscreteLaplace:
        """What the bounds cost."""
        return DiscreteLaplace(scale=float(binary(self.scale)), sensitivity=1)

    @property
    def threshold(self) -> int:
        """What a noisy count must exceed to stand out."""
        return self._noise.radius(1 - _MISTAKEN / (2 * DOUBLINGS + 1))

    @property
    def _noise(self) -> LaplaceNoise:
        return LaplaceNoise(scale=binary(self.scale))

    def release(self, counts: NDArray[np.int64], randomness: Randomness) -> tuple[Fraction, Fraction]:
        """Return low and high, low below high, given how many values each bin holds."""
        if len(counts) != 2 * DOUBLINGS + 1:
            raise InvalidParameter(f"there are {2 * DOUBLINGS + 1} bins, but counts are for {len(counts)}")
        noisy = counts + self._noise.draw(len(counts), randomness)
        standing = np.flatnonzero(noisy > self.threshold)
        found = [int(np.argmax(noisy))] if len(standing) == 0 else standing.tolist()
        low, high = ends(found[0] - DOUBLINGS)[0], ends(found[-1] - DOUBLINGS)[1]
        return (low, high) if low < high else (Fraction(0), Fraction(1))


def ends(place: int) -> tuple[Fraction, Fraction]:
    """Return the lower and the upper end of a bin."""
    if place == 0:
        return Fraction(0), Fraction(0)
    outer = Fraction(2) ** (abs(place) + LEAST_EXPONENT)
    return (outer / 2, outer) if place > 0 else (-outer, -outer / 2)

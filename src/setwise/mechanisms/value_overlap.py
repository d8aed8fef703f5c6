"""Private measurement of how many distinct values users have in common, from which limits on values are chosen.

A count of distinct values keeps at most N values of each user, and needs noise in proportion to N. If users have values
in common, a small N sees nearly all values. The measurement releases two noisy numbers: the distinct values that are
left if 1 value, or 8 values, of each user are kept. From them a growth curve is fitted, which says how many distinct
values larger limits would count.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import float_above
from setwise.accounting.guarantees import PureDP
from setwise.mechanisms.noise.discrete import SMALLEST_NOISE, LaplaceNoise
from setwise.mechanisms.parameters import binary
from setwise.mechanisms.randomness import Randomness

KEPT = (1, 8)
"""The numbers of values kept of each user for which the number of distinct values is measured; powers of two.

Other choices were one number (1), pairs (1 and 4, 1 and 16), and three or five numbers up to 16: on 18 tables these two
had the smallest errors on the whole. Each further number adds noise to all, and larger limits have too much noise.
"""

RANK_BINS = KEPT[-1].bit_length()
"""The number of bins of values, by the smallest rank that a value has at any of its users: 1, 2, 3 to 4, 5 to 8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapMeasurement:
    """The private measurement of the distinct values among the first 1, and the first 8, values of each user.

    Each user's values in a group are put into a random order. `share` is the epsilon of the measurement. Half of it is
    spent on each of the two numbers; less is spent if the noise would be too narrow to be drawn.

    Theorem: docs/statistics.md, "Limits on distinct values".
    """

    share: Fraction

    def __post_init__(self) -> None:
        _ = self._noises  # raises InvalidParameter for a scale that cannot be drawn, before anything is charged

    @property
    def guarantee(self) -> PureDP:
        """The privacy guarantee of one measurement.

        One user adds at most L to the number of distinct values among the first L values of each user. So the number
        with noise of scale s is (L / s)-DP, and the guarantee is the sum of L / s over both numbers.
        """
        losses = (Fraction(kept) / noise.scale for kept, noise in zip(KEPT, self._noises, strict=True))
        return PureDP(epsilon=float_above(sum(losses, Fraction(0))))

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales of the Laplace noise, in distinct values, of the two numbers."""
        return tuple(float(noise.scale) for noise in self._noises)

    @property
    def _noises(self) -> tuple[LaplaceNoise, ...]:
        scales = (binary(kept * len(KEPT) / self.share) for kept in KEPT)
        return tuple(LaplaceNoise(scale=max(scale, SMALLEST_NOISE)) for scale in scales)

    def draw(self, values: NDArray[np.int64], randomness: Randomness) -> tuple[int, ...]:
        """Return the two noisy numbers of distinct values, which may be published.

        - `values[i]`, which is exact and private, is the number of values whose smallest rank, among all users who
          have the value, is in bin i: 1, 2, 3 to 4, 5 to 8. A rank is a position in the random order of a user's
          values.
        - `randomness` is the source of the Laplace noise.
        """
        seen = np.cumsum(values)
        return tuple(
            int(seen[kept.bit_length() - 1] + noise.draw(1, randomness)[0])
            for kept, noise in zip(KEPT, self._noises, strict=True)
        )

    def fit(self, noisy: tuple[int, ...], pairs: tuple[float, ...], groups: int) -> "ValueGrowth":
        """Return the growth of the number of distinct values with the number of values kept; adds no noise.

        - `noisy` are the two noisy numbers of distinct values, added up over all groups.
        - `pairs` has, for each of them, about how many (user, value) pairs were kept.
        - `groups` is the number of groups over which the pairs are taken to be spread evenly.
        """
        likelihood = np.zeros(len(_CURVES))
        for number, kept, scale in zip(noisy, pairs, self.scales, strict=True):
            expected = groups * _distinct_values(np.array([kept / groups]))[:, 0]
            deviation = scale + _CURVE_ERROR * expected
            likelihood -= np.abs(number - expected) / deviation + np.log(deviation)
        weights = _prior() * np.exp(likelihood - likelihood.max())
        return ValueGrowth(weights / weights.sum())


@dataclass(frozen=True, slots=True, eq=False)
class ValueGrowth:
    """Estimates how many distinct values a number of (user, value) pairs has, for one group.

    The estimate is the mean over a family of curves; `weights` are the probabilities of the curves, given noisy
    numbers. The i-th curve is m -> c ((1 + m / c)^g - 1) / g, where m is the number of pairs, and (c, g) is
    `_CURVES[i]`. The first pair always adds a value. If g is 1, every pair does; if g is below 0, the values run out.
    """

    weights: NDArray[np.float64]

    def distinct_values(self, pairs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected number of distinct values for each number of (user, value) pairs in `pairs`."""
        return np.asarray(self.weights @ _distinct_values(pairs))


_EXPONENTS = (0.8, 0.65, 0.5, 0.3, 0.01, -0.5, -1.0, -2.0, -4.0)
"""Exponents g of the growth curves. Words of texts grow with powers from 0.5 to 0.8 (Heaps' law), the films that users
have rated about like g = -1 (of V films, m ratings have V m / (V + m)), and airports sooner reach their number."""

_CURVES = np.array([(2.0**power, exponent) for exponent in _EXPONENTS for power in range(21)] + [(1.0, 1.0)])
"""The growth curves (c, g); the last one is that of values which no two users share."""

_CURVE_ERROR = 0.05
"""How far the number of distinct values of a table is from the nearest curve, as a share of the number. Without it, one
wrong curve had all the weight where noise is small."""

_NOTHING_SHARED = 0.15
"""The probability, before anything was measured, that no two users share a value; other curves are equally likely."""


@lru_cache(maxsize=1)
def _prior() -> NDArray[np.float64]:
    """Return the probabilities of the growth curves before anything was measured."""
    others = len(_CURVES) - 1
    return np.array([(1 - _NOTHING_SHARED) / others] * others + [_NOTHING_SHARED])


def _distinct_values(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the number of distinct values by each growth curve (a row) for each number of `pairs` (a column)."""
    ends, exponents = _CURVES[:, :1], _CURVES[:, 1:]
    return np.asarray(ends / exponents * np.expm1(exponents * np.log1p(pairs[None, :] / ends)))

"""Grids that parameters fall on."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_LARGEST_DENOMINATOR = 1000
_AGREEMENT = 1e-13


def multiples(step: float, first: int, count: int) -> NDArray[np.float64]:
    """Return first * step, (first + 1) * step, ..., as many as `count`."""
    return np.arange(first, first + count, dtype=np.float64) * step


def common_unit(values: Sequence[float]) -> float | None:
    """Return the largest unit of which every value is a whole multiple to within round-off, or None.

    >>> round(common_unit([0.1, 0.25]), 12)
    0.05
    """
    unit = Fraction(1)
    for value in values:
        ratio = value / values[0]
        fraction = Fraction(ratio).limit_denominator(_LARGEST_DENOMINATOR)
        if fraction == 0 or abs(float(fraction) - ratio) > _AGREEMENT * ratio:
            return None
        unit = Fraction(math.gcd(unit.numerator, fraction.numerator), math.lcm(unit.denominator, fraction.denominator))
    return values[0] * float(unit)


def common_step(values: Sequence[float], largest: float) -> float:
    """Return a step of at most `largest` that divides every value if any step can, else the largest value."""
    if not values:
        return largest
    unit = common_unit(values) or max(values)
    return unit / max(1, math.ceil(unit / largest * (1 - 1e-12)))

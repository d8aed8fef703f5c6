"""How far above what is hidden a Laplace threshold must stand, on the integers, certified."""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from setwise.errors import Unattainable
from setwise.mechanisms.fixed_point import exp_minus

_PRECISION = 512
_LARGEST_MARGIN = 1 << 61


def exceedance(scale: Fraction, margin: int) -> Fraction:
    """Return an upper bound on P[Z > margin], Z discrete Laplace: exactly q^(margin+1) / (1 + q), q = exp(-1/scale)."""
    low_q, _ = _exp(1 / scale)
    return _exp((margin + 1) / scale)[1] / (1 + low_q)


def difference_exceedance(scale: Fraction, margin: int) -> Fraction:
    """Return an upper bound on P[Z1 - Z2 > margin], both discrete Laplace of that scale.

    With q = exp(-1/scale), P[Z1 - Z2 = d] = ((1-q)/(1+q))^2 q^d (d + (1+q^2)/(1-q^2)) for d >= 0, whose sum beyond
    the margin m is ((1-q)/(1+q))^2 q^(m+1) ((m + 1 + (1+q^2)/(1-q^2))/(1-q) + q/(1-q)^2). For wide noise this is
    exp(-t)(2 + t)/4 with t = m/scale.

    >>> float(difference_exceedance(Fraction(1), 0)) < 0.5
    True
    """
    low, high = _exp(1 / scale)
    spread = ((1 - low) / (1 + low)) ** 2
    center = (1 + high * high) / (1 - high * high)
    rest = (margin + 1 + center) / (1 - high) + high / (1 - high) ** 2
    return spread * _exp((margin + 1) / scale)[1] * rest


def _exp(x: Fraction) -> tuple[Fraction, Fraction]:
    low, high = exp_minus(x, _PRECISION)
    return Fraction(low, 1 << _PRECISION), Fraction(high, 1 << _PRECISION)


@lru_cache(maxsize=64)
def fixed_margin(scale: Fraction, changeable: int, delta: Fraction) -> int:
    """Return the smallest m >= 0 with changeable * P[Z > m] <= delta, by a certified upper bound."""
    return _smallest(lambda margin: changeable * exceedance(scale, margin) <= delta)


@lru_cache(maxsize=64)
def noisy_margin(scale: Fraction, changeable: int, delta: Fraction) -> int:
    """Return the smallest m >= 0 with changeable * P[Z1 - Z2 > m] <= delta, by a certified upper bound."""
    return _smallest(lambda margin: changeable * difference_exceedance(scale, margin) <= delta)


def _smallest(holds: Callable[[int], bool]) -> int:
    """Return the smallest non-negative integer at which a property that stays true becomes true."""
    most = 1
    while not holds(most):
        most *= 2
        if most > _LARGEST_MARGIN:
            raise Unattainable("no threshold below 2^61 keeps the failure probability at delta; use a larger delta")
    least = -1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most

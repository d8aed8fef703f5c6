"""Exact parameters: rationals within limits, and those that are floats."""

import math
from fractions import Fraction

from setwise.accounting.brackets import float_below
from setwise.accounting.checks import check_positive_integer, limit_text
from setwise.errors import InvalidParameter

LARGEST_TAU = 2**40
"""How much one user may add to one count; beyond this a count is a mistake."""

FINEST_RANK = 10**6
"""The largest denominator of the share below a quantile, which keeps scores whole and small."""


def rational(name: str, value: object, smallest: Fraction, largest: Fraction) -> Fraction:
    """Return `value` as the rational it is, when it lies in [smallest, largest]; else raise `InvalidParameter`.

    Floats are taken at their exact binary value.

    >>> rational("sigma", 0.5, Fraction(1, 10), Fraction(10))
    Fraction(1, 2)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise InvalidParameter(f"{name} must be a rational number, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidParameter(f"{name} must be finite, not {value!r}")
    exact = Fraction(value)
    if not smallest <= exact <= largest:
        limits = f"{limit_text(float(smallest))} and {limit_text(float(largest))}"
        raise InvalidParameter(f"{name} must lie between {limits}, not {_shown(value)}")
    return exact


def _shown(value: float | Fraction) -> str:
    return f"{float(value):g}" if isinstance(value, Fraction) else repr(value)


def probability(name: str, value: object) -> Fraction:
    """Return `value` as a rational strictly between 0 and 1, or raise `InvalidParameter`."""
    exact = rational(name, value, Fraction(0), Fraction(1))
    if exact in (0, 1):
        raise InvalidParameter(f"{name} must lie strictly between 0 and 1, not {_shown(exact)}")
    return exact


def positive_integer(name: str, value: object, largest: int = LARGEST_TAU) -> int:
    """Return `value` as an int between 1 and `largest`, or raise `InvalidParameter`."""
    return check_positive_integer(name, value, largest)


def binary(exact: Fraction) -> Fraction:
    """Return the largest rational at most `exact` that is a float.

    Noise is drawn with such parameters, so that the accountant, which speaks floats, prices exactly what is drawn.
    """
    return Fraction(float_below(exact))

"""Checks that turn the parameters of mechanisms into exact fractions or whole numbers within limits."""

import math
from fractions import Fraction

from setwise.accounting.brackets import float_below
from setwise.accounting.checks import check_positive_integer, limit_text
from setwise.errors import InvalidParameter

LARGEST_TAU = 2**40
"""Largest amount that one user may add to one count. A larger one is a mistake."""

FINEST_RANK = 10**6
"""Largest denominator of the share of values below a quantile, which keeps scores whole and small."""


def rational(name: str, value: object, smallest: Fraction, largest: Fraction) -> Fraction:
    """Return `value` as an exact fraction; raise `InvalidParameter` unless it lies in [smallest, largest].

    Floats are taken at their exact binary value. `name` is the parameter's name for the error message.

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
        raise InvalidParameter(f"{name} must lie between {limits}, not {_value_text(value)}")
    return exact


def _value_text(value: float | Fraction) -> str:
    """Return `value` as text for an error message; a fraction is written as a decimal number."""
    return f"{float(value):g}" if isinstance(value, Fraction) else repr(value)


def probability(name: str, value: object) -> Fraction:
    """Return `value` as an exact fraction; raise `InvalidParameter` unless it lies strictly between 0 and 1.

    `name` is the parameter's name for the error message.
    """
    exact = rational(name, value, Fraction(0), Fraction(1))
    if exact in (0, 1):
        raise InvalidParameter(f"{name} must lie strictly between 0 and 1, not {_value_text(exact)}")
    return exact


def positive_integer(name: str, value: object, largest: int = LARGEST_TAU) -> int:
    """Return `value` as an int; raise `InvalidParameter` unless it is a whole number from 1 to `largest`.

    `name` is the parameter's name for the error message.
    """
    return check_positive_integer(name, value, largest)


def binary(exact: Fraction) -> Fraction:
    """Return the largest fraction at most `exact` that a float can represent.

    Noise is drawn with parameters that floats can represent, because privacy costs are computed with floats, and must
    be the costs of exactly the noise that is drawn.
    """
    return Fraction(float_below(exact))

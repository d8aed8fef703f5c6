"""exp and ln in integer interval arithmetic: certified fixed-point bounds to any precision.

A fixed-point number of precision p is an integer standing for itself over 2^p. Every function returns a pair
(lower, upper) of such integers around the true value; lower ends are rounded down, upper ends up.
"""

from fractions import Fraction
from functools import lru_cache

_GUARD = 32
"""Extra bits that absorb the roundings inside one evaluation."""


def ceil_shift(value: int, bits: int) -> int:
    """Return value / 2^bits rounded up."""
    return -((-value) >> bits)


def ceil_divide(numerator: int, denominator: int) -> int:
    """Return the quotient rounded up."""
    return -((-numerator) // denominator)


def exp_minus(x: Fraction, precision: int) -> tuple[int, int]:
    """Return bounds on exp(-x) at `precision` bits.

    Requires: x >= 0.
    Ensures: lower <= exp(-x) 2^precision <= upper; the two differ by at most 2.

    >>> exp_minus(Fraction(0), 8)
    (256, 256)
    >>> exp_minus(Fraction(1), 20)
    (385749, 385750)
    """
    if x == 0:
        return 1 << precision, 1 << precision
    if x > precision + 1:  # exp(-x) < 2^-x < 2^-precision
        return 0, 1
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 8)
    bits = precision + 2 * halvings + _GUARD + 2 * (int(x) + 1)
    low, high = _exp_small(x / (1 << halvings), bits)
    for _ in range(halvings):
        low, high = (low * low) >> bits, ceil_shift(high * high, bits)
    return (1 << (precision + bits)) // high, ceil_divide(1 << (precision + bits), low)


def _exp_small(y: Fraction, bits: int) -> tuple[int, int]:
    """Return bounds on exp(y) for 0 < y <= 2^-7 by its series; the rest of the series is below its last term."""
    low_y = (y.numerator << bits) // y.denominator
    high_y = low_y + 1
    low = low_term = high = high_term = 1 << bits
    index = 1
    while high_term > 1:
        low_term = (low_term * low_y >> bits) // index
        high_term = ceil_divide(ceil_shift(high_term * high_y, bits), index)
        low += low_term
        high += high_term
        index += 1
    return low, high + 2  # the terms left out sum to less than the last one, which is at most 1


def _atanh_series(z: Fraction, bits: int) -> tuple[int, int]:
    """Return bounds on 2 atanh(z) for 0 <= z <= 1/3, by the series 2 (z + z^3/3 + z^5/5 + ...)."""
    numerator, denominator = z.numerator, z.denominator
    low_power = (numerator << bits) // denominator
    high_power = ceil_divide(numerator << bits, denominator)
    low_square, high_square = (low_power * low_power) >> bits, ceil_shift(high_power * high_power, bits)
    low = high = 0
    odd = 1
    while high_power > 1:
        low += low_power // odd
        high += ceil_divide(high_power, odd)
        low_power = (low_power * low_square) >> bits
        high_power = ceil_shift(high_power * high_square, bits)
        odd += 2
    return 2 * low, 2 * (high + 2)  # z^2 <= 1/9, so what is left out sums to less than 2 units


@lru_cache(maxsize=64)
def _ln_two(bits: int) -> tuple[int, int]:
    return _atanh_series(Fraction(1, 3), bits)


def ln(x: Fraction, precision: int) -> tuple[int, int]:
    """Return bounds on the natural logarithm of x at `precision` bits.

    Requires: x > 0.
    Ensures: lower <= ln(x) 2^precision <= upper; the two differ by a few units at most.

    >>> ln(Fraction(1), 8)
    (0, 0)
    >>> ln(Fraction(2), 20)
    (726817, 726818)
    """
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    mantissa = x / (Fraction(2) ** exponent)  # in (1/2, 2)
    if mantissa < 1:
        mantissa, exponent = mantissa * 2, exponent - 1
    if mantissa == 1 and exponent == 0:
        return 0, 0
    bits = precision + _GUARD + abs(exponent).bit_length()
    low, high = _atanh_series((mantissa - 1) / (mantissa + 1), bits)
    low_two, high_two = _ln_two(bits)
    if exponent >= 0:
        low, high = low + exponent * low_two, high + exponent * high_two
    else:
        low, high = low + exponent * high_two, high + exponent * low_two
    drop = bits - precision
    return low >> drop, ceil_shift(high, drop)

"""exp and ln in integer interval arithmetic: certified fixed-point bounds to any precision.

A fixed-point number of precision p is an integer n that stands for n / 2^p. Every function returns two such integers
around the true value; the lower one is rounded down and the upper one up.
"""

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

_GUARD = 32
"""Extra bits that absorb the rounding errors inside one evaluation."""


def ceil_shift(value: int, bits: int) -> int:
    """Return value / 2^bits rounded up."""
    return -((-value) >> bits)


def ceil_divide(numerator: int, denominator: int) -> int:
    """Return numerator / denominator rounded up."""
    return -((-numerator) // denominator)


class FixedInterval(NamedTuple):
    """Certified bounds on an exact value, as whole numbers in units of 2^-bits: low <= value * 2^bits <= high.

    The number of bits is not stored; the caller knows it. Products (`times`) and quotients (`over`) require values that
    are not negative.
    """

    low: int
    high: int

    @classmethod
    def of(cls, value: Fraction, bits: int) -> "FixedInterval":
        """Return the smallest interval around `value` whose ends are whole numbers in units of 2^-`bits`.

        >>> FixedInterval.of(Fraction(1, 3), 4)  # 1/3 lies between 5/16 and 6/16
        FixedInterval(low=5, high=6)
        """
        scaled = value.numerator << bits
        return cls(scaled // value.denominator, ceil_divide(scaled, value.denominator))

    def plus(self, other: "FixedInterval") -> "FixedInterval":
        """Return bounds on a sum: if this interval contains x and `other` contains y, the result contains x + y.

        Requires: both intervals have the same number of bits after the point.
        """
        return FixedInterval(self.low + other.low, self.high + other.high)

    def times(self, other: "FixedInterval", bits: int) -> "FixedInterval":
        """Return bounds on a product: if this interval contains x and `other` contains y, the result contains x y.

        Both intervals and the result have `bits` bits after the point.
        """
        return FixedInterval((self.low * other.low) >> bits, ceil_shift(self.high * other.high, bits))

    def scaled(self, factor: int) -> "FixedInterval":
        """Return bounds on a multiple: if this interval contains x, the result contains x times the integer `factor`.

        `factor` may be negative.
        """
        ends = (self.low * factor, self.high * factor)
        return FixedInterval(min(ends), max(ends))

    def over(self, divisor: Fraction | int) -> "FixedInterval":
        """Return the interval that contains this interval's value divided by the positive number `divisor`."""
        down, up = divisor.denominator, divisor.numerator
        return FixedInterval(self.low * down // up, ceil_divide(self.high * down, up))

    def dropping(self, bits: int) -> "FixedInterval":
        """Return this interval with `bits` fewer bits after the point: the lower end rounded down, the upper end up."""
        return FixedInterval(self.low >> bits, ceil_shift(self.high, bits))

    def raised(self, units: int) -> "FixedInterval":
        """Return this interval with its upper end raised by `units`, in the units of the interval (2^-bits).

        This makes bounds on the first terms of an infinite sum into bounds on the whole sum, if the other terms add up
        to at most `units`.
        """
        return FixedInterval(self.low, self.high + units)


NONE = FixedInterval(0, 0)


def exp_minus(x: Fraction, precision: int) -> FixedInterval:
    """Return certified bounds on exp(-x), as whole numbers in units of 2^-`precision`.

    Requires: x >= 0.
    Ensures: low <= exp(-x) 2^precision <= high; the two differ by at most 2.

    >>> exp_minus(Fraction(0), 8)
    FixedInterval(low=256, high=256)
    >>> exp_minus(Fraction(1), 20)
    FixedInterval(low=385749, high=385750)
    """
    if x == 0:
        return FixedInterval.of(Fraction(1), precision)
    if x > precision + 1:  # exp(-x) < 2^-x < 2^-precision
        return FixedInterval(0, 1)
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 8)
    bits = precision + 2 * halvings + _GUARD + 2 * (int(x) + 1)
    power = _exp_small(x / (1 << halvings), bits)
    for _ in range(halvings):
        power = power.times(power, bits)
    one = 1 << (precision + bits)
    return FixedInterval(one // power.high, ceil_divide(one, power.low))


def _exp_small(y: Fraction, bits: int) -> FixedInterval:
    """Return bounds on exp(y), for 0 < y <= 2^-7, with `bits` bits after the point, by the power series.

    The bounds cover the terms left out, which sum to less than the last term.
    """
    argument = FixedInterval.of(y, bits)
    total = term = FixedInterval.of(Fraction(1), bits)
    index = 1
    while term.high > 1:
        term = term.times(argument, bits).over(index)
        total = total.plus(term)
        index += 1
    return total.raised(2)  # the terms left out sum to less than the last one, which is at most 1 unit


def _atanh_series(z: Fraction, bits: int) -> FixedInterval:
    """Return bounds, with `bits` bits, on 2 atanh(z) for 0 <= z <= 1/3, by the series 2 (z + z^3/3 + z^5/5 + ...).

    Logarithms are computed from it, because ln(x) = 2 atanh((x - 1) / (x + 1)).
    """
    power = FixedInterval.of(z, bits)
    square = power.times(power, bits)
    total = NONE
    odd = 1
    while power.high > 1:
        total = total.plus(power.over(odd))
        power = power.times(square, bits)
        odd += 2
    return total.raised(2).scaled(2)  # z^2 <= 1/9, so the terms left out sum to less than 2 units


@lru_cache(maxsize=64)
def _ln_two(bits: int) -> FixedInterval:
    """Return certified bounds on ln 2 with `bits` bits, cached."""
    return _atanh_series(Fraction(1, 3), bits)


def ln(x: Fraction, precision: int) -> FixedInterval:
    """Return certified bounds on the natural logarithm of x, as whole numbers in units of 2^-`precision`.

    Requires: x > 0.
    Ensures: low <= ln(x) 2^precision <= high; the two differ by a few units at most.

    >>> ln(Fraction(1), 8)
    FixedInterval(low=0, high=0)
    >>> ln(Fraction(2), 20)
    FixedInterval(low=726817, high=726818)
    """
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    mantissa = x / (Fraction(2) ** exponent)  # in (1/2, 2)
    if mantissa < 1:
        mantissa, exponent = mantissa * 2, exponent - 1
    if mantissa == 1 and exponent == 0:
        return NONE
    bits = precision + _GUARD + abs(exponent).bit_length()
    whole = _atanh_series((mantissa - 1) / (mantissa + 1), bits).plus(_ln_two(bits).scaled(exponent))
    return whole.dropping(bits - precision)

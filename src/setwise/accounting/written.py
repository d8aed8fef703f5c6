"""Numbers for people: a few digits, and never on the wrong side of the truth."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_ROUND_OFF = Decimal("1e-12")
"""What lies beyond the twelfth digit is taken for the round-off of a float that stands for a shorter number."""


def rounded_up(value: float, digits: int = 6) -> str:
    """Write a promise with a few digits, never smaller than it is, round-off aside.

    >>> rounded_up(0.12345678), rounded_up(0.1, 4), rounded_up(0.1 * 3, 4), rounded_up(0.10001, 4)
    ('0.123457', '0.1', '0.3', '0.1001')
    """
    return _written(Context(prec=digits, rounding=ROUND_CEILING), Decimal(repr(float(value))) * (1 - _ROUND_OFF))


def rounded_down(value: float, digits: int = 6) -> str:
    """Write what is left with a few digits, never more than it is, round-off aside.

    >>> rounded_down(0.12345678), rounded_down(0.3, 4), rounded_down(4.0099999999999995e-07, 4)
    ('0.123456', '0.3', '4.01e-07')
    """
    return _written(Context(prec=digits, rounding=ROUND_FLOOR), Decimal(repr(float(value))) * (1 + _ROUND_OFF))


def _written(context: Context, value: Decimal) -> str:
    if not value.is_finite():
        return "infinity"
    return f"{float(context.create_decimal(value)):.{context.prec}g}"

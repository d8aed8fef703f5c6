"""The parameters of statistics and queries: read from JSON, checked, and written for people (digits of numbers)."""

import inspect
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias, get_args, get_type_hints

from setwise.errors import InvalidParameter

Number: TypeAlias = int | float | Fraction | Decimal
"""Any finite number. A float stands for the shortest decimal that rounds to it."""


def plain(value: object) -> object:
    """Return `value`, a parameter of a statistic, as JSON can hold it: fractions become numbers, and tuples lists."""
    match value:
        case Fraction():
            return whole_or_float(value)
        case tuple():
            return [plain(each) for each in value]
        case _:
            return value


@cache
def parameters_of(call: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the parameters of the function or class `call`, by name.

    If `call` takes ``**words: Unpack[SomeTypedDict]``, the keys of that typed dictionary are listed one by one.
    """
    parameters: dict[str, inspect.Parameter] = {}
    kinds = get_type_hints(getattr(call, "__init__") if isinstance(call, type) else call)  # noqa: B009
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            (words,) = get_args(kinds[parameter.name])
            for name, kind in get_type_hints(words).items():
                parameters[name] = inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind
                )
        else:
            parameters[parameter.name] = parameter.replace(annotation=kinds[parameter.name])
    return parameters


def build(make: Callable[..., Any], description: str, values: dict[str, object]) -> Any:  # noqa: ANN401 - what `make` makes
    """Call the function or class `make` with the keyword arguments `values`, and return its result.

    `values` come from JSON, so their names are checked first. `description` is the name of the result in messages, such
    as "a mean".
    Raises: `InvalidParameter` if an argument is unknown or a required one is missing.
    """
    known = parameters_of(make)
    for name in values:
        if name not in known:
            raise InvalidParameter(f"{description} has no {name!r}; it has {', '.join(sorted(known))}")
    needed = [name for name, each in known.items() if each.default is inspect.Parameter.empty]
    if not set(needed) <= set(values):
        raise InvalidParameter(f"{description} needs {' and '.join(map(repr, needed))}")
    return make(**values)


def exact_number(name: str, value: object) -> Fraction:
    """Return the finite number `value` as an exact fraction; a float becomes the shortest decimal that rounds to it.

    Raises: `InvalidParameter` if `value` is not a number or not finite; `name` is the parameter's name in the message.

    >>> exact_number("low", 0.1)
    Fraction(1, 10)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | Decimal):
        raise InvalidParameter(f"{name} must be a number, not {value_text(value)}")
    if not isinstance(value, Fraction) and not math.isfinite(value):
        raise InvalidParameter(f"{name} must be finite, not {value!r}")
    return Fraction(str(value)) if isinstance(value, float) else Fraction(value)


def check_column(name: str, value: object) -> str:
    """Return `value` if it is a text that can be the name of a column, and raise `InvalidParameter` otherwise.

    `name` is the parameter's name in the message.
    """
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"{name} must be the name of a column, not {value_text(value)}")
    return value


def value_text(value: object) -> str:
    """Return a value as an error message may show it.

    Text, numbers and None are shown. For other values only the type is shown, because a frame or column that was passed
    by mistake holds private data.
    """
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def whole_or_float(number: Fraction) -> float:
    """Return `number` as an int if it is a whole number, and as a float otherwise."""
    return int(number) if number.denominator == 1 else float(number)


def number_text(value: Fraction) -> str:
    """Return the number `value` as text for headings: whole numbers in full, others with six significant digits."""
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):g}"


def radius_text(radius: Fraction) -> str:
    """Return the half-width `radius` of intervals as text: whole numbers in full, others rounded up.

    Numbers below 1,000 that are not whole have four significant digits, and larger ones have no decimals.

    >>> radius_text(Fraction(1063200)), radius_text(Fraction(21264, 10)), radius_text(Fraction(70601, 10000))
    ('1,063,200', '2,127', '7.061')
    """
    if radius.denominator == 1 or radius >= 1000:
        return f"{math.ceil(radius):,}"
    unit = Fraction(10) ** (math.floor(math.log10(radius)) - 3)
    return f"{float(math.ceil(radius / unit) * unit):g}"


def range_text(low: Fraction, high: Fraction, *, is_found: bool) -> str:
    """Return the bounds `low` and `high` as text, as in "0 .. 5".

    `is_found` says that a private search found the bounds. A search may take a power of two as small as 2^-20 for a
    bound. So a found bound of at most a millionth of the other bound is shown as 0, because beside the other bound it
    hardly differs from 0.

    >>> range_text(Fraction(-1, 2**19), Fraction(256), is_found=True)
    '0 .. 256'
    >>> range_text(Fraction(-1, 2**19), Fraction(256), is_found=False)
    '-1.90735e-06 .. 256'
    """
    negligible = max(abs(low), abs(high)) / 10**6 if is_found else 0
    return " .. ".join(number_text(Fraction(0) if abs(end) <= negligible else end) for end in (low, high))

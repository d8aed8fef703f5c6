"""Checks of numbers that people give: the smallest and largest epsilon, delta, sigma and count, and the refusals.

Each function returns a valid value, or raises `InvalidParameter` with the parameter's name and value.
"""

import math
import operator
from enum import StrEnum
from typing import TypeVar

from setwise.errors import InvalidParameter

LARGEST_EPSILON = 500.0
"""Largest epsilon of one use. Beyond it a guarantee promises nothing useful, and exp(epsilon) leaves the range of
floats."""

SMALLEST_EPSILON = 1e-12
"""Smallest epsilon of one use. A smaller one is a mistake, and exp(epsilon) - 1 has lost its digits."""

LARGEST_RHO = 1e15
"""Largest rho and xi: enough for the zCDP of the largest epsilon and of the smallest noise."""

LARGEST_TOTAL = 1e6
"""Largest overall epsilon. A larger one is a mistake."""

SMALLEST_SIGMA = 1e-6

LARGEST_SCALE = 1e12
LARGEST_INTEGER = 10**12

LARGEST_COUNT = 10**9


Choice = TypeVar("Choice", bound=StrEnum)


def check_choice(name: str, value: object, choices: type[Choice]) -> Choice:
    """Return the member of the enumeration `choices` with the given value; raise `InvalidParameter` if there is none.

    `name` is the parameter's name for the error message.

    >>> from setwise.accounting.brackets import Interaction
    >>> check_choice("interaction", "batch", Interaction)
    <Interaction.BATCH: 'batch'>
    """
    try:
        return choices(value)  # type: ignore[arg-type]  # an enumeration raises ValueError for any other value
    except ValueError:
        raise InvalidParameter(f"{name} must be one of {', '.join(choices)}, not {value!r}") from None


def check_number(name: str, value: object) -> float:
    """Return `value` as a float; raise `InvalidParameter` unless it is a finite float, or an int that a float can hold.

    A bool is refused. `name` is the parameter's name for the error message.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidParameter(f"{name} must be a number, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidParameter(f"{name} must be at most 1.8e308 in size") from None
    if not math.isfinite(number):
        raise InvalidParameter(f"{name} must be finite, not {value!r}")
    return number


def check_within(name: str, value: object, smallest: float, largest: float) -> float:
    """Return `value` as a float; raise `InvalidParameter` unless it lies in [`smallest`, `largest`].

    `name` is the parameter's name for the error message.
    """
    number = check_number(name, value)
    if not smallest <= number <= largest:
        raise InvalidParameter(
            f"{name} must lie between {limit_text(smallest)} and {limit_text(largest)}, not {value!r}"
        )
    return number


def limit_text(limit: float) -> str:
    """Return `limit`, a number for an error message, as text; a round number stays round.

    Some limits are a round number raised by about 1e-12 of itself, to allow for rounding errors. So the text has six
    significant digits if the number with these digits differs from `limit` by at most the share 1e-9. Otherwise the
    text has all digits.

    >>> limit_text(500 * (1 + 1e-12)), limit_text(246913.578)
    ('500', '246913.578')
    """
    short = f"{limit:g}"
    return short if math.isclose(float(short), limit, rel_tol=1e-9) else repr(limit)


def check_epsilon(value: object, name: str = "epsilon") -> float:
    """Return `value` as an epsilon of one use; raise `InvalidParameter` if it is outside of [1e-12, 500].

    `name` is the parameter's name for the error message.
    """
    # A converted epsilon was rounded up, so it may exceed the limit by its rounding error.
    return check_within(name, value, SMALLEST_EPSILON, LARGEST_EPSILON * (1 + 1e-12))


def check_total_epsilon(value: object) -> float:
    """Return `value` as an overall epsilon; raise `InvalidParameter` if it is outside of [0, 1e6]."""
    number = check_number("epsilon", value)
    if number < 0:
        raise InvalidParameter(f"epsilon must not be negative, not {value!r}")
    if number > LARGEST_TOTAL:
        raise InvalidParameter(f"epsilon must be at most {LARGEST_TOTAL:g}, not {value!r}")
    return number


def check_delta(value: object) -> float:
    """Return `value` as a delta; raise `InvalidParameter` unless it lies strictly between 0 and 1."""
    number = check_number("delta", value)
    if not 0.0 < number < 1.0:
        raise InvalidParameter(f"delta must lie strictly between 0 and 1, not {value!r}")
    return number


def check_positive_integer(name: str, value: object, largest: int = LARGEST_INTEGER) -> int:
    """Return `value`; raise `InvalidParameter` unless it is an int from 1 to `largest`.

    `name` is the parameter's name for the error message.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}")
    if not 1 <= value <= largest:
        raise InvalidParameter(f"{name} must lie between 1 and {largest:,}, not {value!r}")
    return value


def check_failure(name: str, value: object) -> float:
    """Return `value` as a failure probability; raise `InvalidParameter` unless it is at least 0 and below 1.

    `name` is the parameter's name for the error message.
    """
    number = check_number(name, value)
    if not 0.0 <= number < 1.0:
        raise InvalidParameter(f"{name} must be at least 0 and below 1, not {value!r}")
    return number


def check_count(value: object, name: str = "count") -> int:
    """Return `value` as a number of uses; raise `InvalidParameter` unless it is a whole number from 1 to a billion.

    `name` is the parameter's name for the error message.
    """
    if isinstance(value, bool):
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}")
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}") from None
    if not 1 <= count <= LARGEST_COUNT:
        raise InvalidParameter(f"{name} must lie between 1 and {LARGEST_COUNT:,}, not {value!r}")
    return count

"""Checks of the numbers that people give: each returns a valid value or raises `InvalidParameter` naming it."""

import math
import operator
from enum import StrEnum
from typing import TypeVar

from setwise.errors import InvalidParameter

LARGEST_EPSILON = 500.0
"""Beyond this a guarantee promises nothing useful, and exp(epsilon) leaves the range of floats."""

SMALLEST_EPSILON = 1e-12
"""Below this a parameter is a mistake, and exp(epsilon) - 1 has lost its digits."""

LARGEST_RHO = 1e15
"""Enough for the zCDP of the largest epsilon and of the smallest noise."""

LARGEST_TOTAL = 1e6
"""Overall epsilons beyond this are a mistake."""

SMALLEST_SIGMA = 1e-6

LARGEST_SCALE = 1e12
LARGEST_INTEGER = 10**12

LARGEST_COUNT = 10**9


Choice = TypeVar("Choice", bound=StrEnum)


def check_choice(name: str, value: object, choices: type[Choice]) -> Choice:
    """Return the choice of that name.

    >>> from setwise.accounting.brackets import Interaction
    >>> check_choice("interaction", "batch", Interaction)
    <Interaction.BATCH: 'batch'>
    """
    try:
        return choices(value)  # type: ignore[arg-type]  # what is no name is refused
    except ValueError:
        raise InvalidParameter(f"{name} must be one of {', '.join(choices)}, not {value!r}") from None


def check_number(name: str, value: object) -> float:
    """Return a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidParameter(f"{name} must be a number, not {value!r}")
    if not math.isfinite(value):
        raise InvalidParameter(f"{name} must be finite, not {value!r}")
    return float(value)


def check_within(name: str, value: object, smallest: float, largest: float) -> float:
    """Return a number within the limits."""
    number = check_number(name, value)
    if not smallest <= number <= largest:
        raise InvalidParameter(
            f"{name} must lie between {limit_text(smallest)} and {limit_text(largest)}, not {value!r}"
        )
    return number


def limit_text(limit: float) -> str:
    """Return a limit with as many digits as it needs: six, or all where six would state another limit.

    >>> limit_text(500 * (1 + 1e-12)), limit_text(246913.578)
    ('500', '246913.578')
    """
    short = f"{limit:g}"
    return short if math.isclose(float(short), limit, rel_tol=1e-9) else repr(limit)


def check_epsilon(value: object, name: str = "epsilon") -> float:
    """Return a valid privacy-loss parameter."""
    # A converted epsilon was rounded up, and may pass the limit by its rounding.
    return check_within(name, value, SMALLEST_EPSILON, LARGEST_EPSILON * (1 + 1e-12))


def check_total_epsilon(value: object) -> float:
    """Return a valid overall epsilon (non-negative, finite)."""
    number = check_number("epsilon", value)
    if number < 0:
        raise InvalidParameter(f"epsilon must not be negative, not {value!r}")
    if number > LARGEST_TOTAL:
        raise InvalidParameter(f"epsilon must be at most {LARGEST_TOTAL:g}, not {value!r}")
    return number


def check_delta(value: object) -> float:
    """Return a probability strictly between 0 and 1."""
    number = check_number("delta", value)
    if not 0.0 < number < 1.0:
        raise InvalidParameter(f"delta must lie strictly between 0 and 1, not {value!r}")
    return number


def check_positive_integer(name: str, value: object, largest: int = LARGEST_INTEGER) -> int:
    """Return a whole number from 1 to `largest`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}")
    if not 1 <= value <= largest:
        raise InvalidParameter(f"{name} must lie between 1 and {largest:,}, not {value!r}")
    return value


def check_failure(name: str, value: object) -> float:
    """Return a chance of failure: at least 0, below 1."""
    number = check_number(name, value)
    if not 0.0 <= number < 1.0:
        raise InvalidParameter(f"{name} must be at least 0 and below 1, not {value!r}")
    return number


def check_count(value: object, name: str = "count") -> int:
    """Return a whole number of uses between 1 and a billion."""
    if isinstance(value, bool):
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}")
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}") from None
    if not 1 <= count <= LARGEST_COUNT:
        raise InvalidParameter(f"{name} must lie between 1 and {LARGEST_COUNT:,}, not {value!r}")
    return count

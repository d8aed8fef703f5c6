"""Function arguments that must be constants in values computed from rows, such as the number of decimals of ROUND."""

from setwise.analytics.rows.expression import ConstantValue, RowExpression
from setwise.errors import InvalidParameter


def decimals_of(places: RowExpression | None) -> int:
    """Return the number of decimals that `places`, the second argument of ROUND, states; 0 if `places` is None.

    Raises: `InvalidParameter` unless the argument is a constant integer from -6 to 6.
    """
    if places is None:
        return 0
    if not (isinstance(places, ConstantValue) and places.value in range(-6, 7)):
        raise InvalidParameter("ROUND takes -6 to 6 places, as a constant")
    return int(places.value)  # type: ignore[arg-type]


def substring_place(expression: RowExpression) -> int:
    """Return the integer, in characters, that `expression` states: the start or the length in a call of SUBSTR.

    Raises: `InvalidParameter` unless the argument is a constant integer from 0 to 10^9 - 1.
    """
    if not isinstance(expression, ConstantValue) or isinstance(expression.value, bool):
        raise InvalidParameter("SUBSTR takes whole numbers as constants")
    place = expression.value
    if not isinstance(place, int) or not 0 <= place < 10**9:
        raise InvalidParameter(f"SUBSTR takes whole numbers from 0 on, not {place!r}")
    return place

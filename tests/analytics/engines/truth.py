"""What a filter says about a row, in plain Python and in three values: True, False and None for unknown."""

import math
import re
from datetime import UTC, datetime
from typing import assert_never

from setwise.analytics.filter.expression import (
    Comparison,
    Conjunction,
    Disjunction,
    Expression,
    Membership,
    Missing,
    Not,
    Operator,
    Pattern,
)


def truth(expression: Expression, row: dict[str, object]) -> bool | None:
    match expression:
        case Comparison(column, operator, value):
            return compared(row[column.name], operator, value)
        case Membership(column, values):
            return some([compared(row[column.name], Operator.EQUAL, value) for value in values])
        case Pattern(column, pattern):
            text = row[column.name]
            return None if text is None else re.fullmatch(regular(pattern), str(text), re.DOTALL) is not None
        case Missing(column):
            return is_missing(row[column.name])
        case Not(part):
            inner = truth(part, row)
            return None if inner is None else not inner
        case Conjunction(parts):
            inverted = some([None if (one := truth(part, row)) is None else not one for part in parts])
            return None if inverted is None else not inverted
        case Disjunction(parts):
            return some([truth(part, row) for part in parts])
        case _:
            assert_never(expression)


def some(parts: list[bool | None]) -> bool | None:
    if True in parts:
        return True
    return None if None in parts else False


def compared(found: object, operator: Operator, value: object) -> bool | None:
    if is_missing(found):
        return None
    left, right = ordered(found), ordered(value)
    match operator:
        case Operator.EQUAL:
            return left == right
        case Operator.UNEQUAL:
            return left != right
        case Operator.LESS:
            return left < right
        case Operator.AT_MOST:
            return left <= right
        case Operator.GREATER:
            return left > right
        case Operator.AT_LEAST:
            return left >= right
        case _:
            assert_never(operator)


def is_missing(value: object) -> bool:
    """Return whether a cell has no value: it is null or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def ordered(value: object) -> object:
    """Return a value as it is compared: a time without a zone is one in UTC, as engines have points in time alone."""
    if not isinstance(value, datetime):
        return value
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def regular(pattern: str) -> str:
    return "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)

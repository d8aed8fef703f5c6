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
            return row[column.name] is None
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
    if found is None:
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


def ordered(value: object) -> tuple[int, object]:
    """Return a value as Python orders it rightly: NaN equals itself and is the greatest number of all."""
    match value:
        case float() if math.isnan(value):
            return (1, 0.0)
        case datetime():  # a time without a zone is one in UTC where an engine has points in time alone
            return (0, value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC))
        case _:
            return (0, value)


def regular(pattern: str) -> str:
    return "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)

"""A filter in SQL: identifiers quoted, constants as parameters, three-valued logic as the standard has it."""

from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

from setwise.analytics.engines.dialect import Bound, Dialect, Parameters
from setwise.analytics.filter.expression import (
    Comparison,
    Every,
    Expression,
    Membership,
    Missing,
    Not,
    Pattern,
    Some,
    Value,
)
from setwise.analytics.schema import Column, Kind


def predicate(expression: Expression, dialect: Dialect, parameters: Parameters) -> str:
    """Return the expression as SQL, in parentheses."""
    match expression:
        case Comparison(column, operator, value):
            return f"({dialect.operand(column)} {operator} {_constant(column, value, dialect, parameters)})"
        case Membership(column, values):
            operand = dialect.operand(column)
            constants = [_constant(column, value, dialect, parameters) for value in values]
            if column.kind is Kind.FLOAT:  # engines look lists up by hash, and then disagree on whether 0.0 = -0.0
                return f"({' OR '.join(f'{operand} = {constant}' for constant in constants)})"
            return f"({operand} IN ({', '.join(constants)}))"
        case Pattern(column, pattern):
            escaped = pattern.replace("\\", "\\\\")
            return f"({dialect.like(dialect.operand(column), parameters.add(escaped))})"
        case Missing(column):
            return f"({dialect.name(column.name)} IS NULL)"
        case Not(part):
            return f"(NOT {predicate(part, dialect, parameters)})"
        case Every(parts):
            return f"({' AND '.join(predicate(part, dialect, parameters) for part in parts)})"
        case Some(parts):
            return f"({' OR '.join(predicate(part, dialect, parameters) for part in parts)})"
        case _:
            assert_never(expression)


def _constant(column: Column, value: Value, dialect: Dialect, parameters: Parameters) -> str:
    return dialect.constant(column, parameters.add(_sent(value)))


def _sent(value: Value) -> Bound:
    match value:
        case datetime():
            return value.isoformat(sep=" ", timespec="microseconds")
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case bool() | int() | float() | str():
            return value
        case _:
            assert_never(value)

"""Row expressions as records: columns, constants, arithmetic, conditions, CASE, and functions of text and time.

An expression names columns without their kinds. `compile_expression` in engines/row_sql.py checks the kinds against
the columns of a table and writes the expression in the SQL of an engine.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any, TypeAlias

from setwise.analytics.filter.expression import Operator

Constant: TypeAlias = str | bool | int | float | date | datetime


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """The value of a column."""

    name: str


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A constant; text stands for a date or time where it is compared with one."""

    value: Constant


@dataclass(frozen=True, slots=True)
class ReleasedValue:
    """The number that an earlier releasing SELECT of the same statement gave, by its place in the statement.

    It is replaced by a constant (`with_released`) before an engine sees the expression.
    """

    place: int


class ArithmeticOperator(StrEnum):
    """The operations on two numbers."""

    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDED_BY = "/"
    MODULO = "%"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An operation on two numbers in floating point of 64 bits; null on overflow and on division by zero.

    Sums, differences, products and remainders of integers are integers, null from 2^53 on.
    """

    operator: ArithmeticOperator
    left: "RowExpression"
    right: "RowExpression"


@dataclass(frozen=True, slots=True)
class Compared:
    """Whether two values of one kind stand in a relation; unknown where one of them is null."""

    operator: Operator
    left: "RowExpression"
    right: "RowExpression"


@dataclass(frozen=True, slots=True)
class Matched:
    """Whether text matches a pattern of `%` and `_`; with `any_case` letters A to Z match in either case."""

    text: "RowExpression"
    pattern: str
    any_case: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a value is null."""

    value: "RowExpression"


@dataclass(frozen=True, slots=True)
class Negated:
    """True where the condition is false; unknown stays unknown."""

    condition: "RowExpression"


@dataclass(frozen=True, slots=True)
class AllOf:
    """The conjunction of conditions."""

    conditions: tuple["RowExpression", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The disjunction of conditions."""

    conditions: tuple["RowExpression", ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of CASE: where the condition is true, the value."""

    condition: "RowExpression"
    value: "RowExpression"


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true; otherwise the last value, or null."""

    branches: tuple[Branch, ...]
    otherwise: "RowExpression | None" = None


class Function(StrEnum):
    """Functions of values; `row_sql` says of which kinds."""

    COALESCE = "COALESCE"
    NULLIF = "NULLIF"
    LEAST = "LEAST"
    GREATEST = "GREATEST"
    ABS = "ABS"
    FLOOR = "FLOOR"
    CEIL = "CEIL"
    ROUND = "ROUND"
    SIGN = "SIGN"
    LOWER = "LOWER"
    UPPER = "UPPER"
    TRIM = "TRIM"
    SUBSTR = "SUBSTR"
    LENGTH = "LENGTH"
    TO_INTEGER = "TO_INTEGER"
    TO_FLOAT = "TO_FLOAT"
    TO_DATE = "TO_DATE"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of some values."""

    function: Function
    arguments: tuple["RowExpression", ...]


class TimeField(StrEnum):
    """Parts of a date or time, as integers. SUNDAY_0 counts weekdays from Sunday as 0, SUNDAY_1 as 1."""

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    WEEKDAY = "weekday"
    SUNDAY_0 = "sunday_0"
    SUNDAY_1 = "sunday_1"
    HOUR = "hour"


@dataclass(frozen=True, slots=True)
class TimePart:
    """A part of the date or time in a column, in UTC where the column has a time zone."""

    field: TimeField
    column: str


class Start(StrEnum):
    """Periods whose first day a date is moved to. A SUNDAY_WEEK begins on Sunday, a WEEK on Monday."""

    DAY = "day"
    WEEK = "week"
    SUNDAY_WEEK = "sunday week"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class PeriodStart:
    """The first day of the period that the date or time in a column lies in, as a date."""

    period: Start
    column: str


@dataclass(frozen=True, slots=True)
class UnitKey:
    """The user of a row together with a value of it, as one text; null where either is null.

    Equal texts mean the same user and the same value: the value never contains a line break where it is a date, a
    number or a condition, and text is preceded by its length.
    """

    user: str
    part: "RowExpression"


RowExpression: TypeAlias = (
    ColumnValue
    | UnitKey
    | ConstantValue
    | ReleasedValue
    | Arithmetic
    | Compared
    | Matched
    | IsNull
    | Negated
    | AllOf
    | AnyOf
    | Case
    | Call
    | TimePart
    | PeriodStart
)


def children(expression: RowExpression) -> Iterator[RowExpression]:
    """Return the expressions that an expression is made of."""
    for each in fields(expression):
        value: Any = getattr(expression, each.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Branch):
                yield part.condition
                yield part.value
            elif isinstance(part, RowExpression):
                yield part


def columns_of(expression: RowExpression) -> Iterator[str]:
    """Return the names of the columns that an expression reads, each as often as it does."""
    if isinstance(expression, ColumnValue):
        yield expression.name
    elif isinstance(expression, TimePart | PeriodStart):
        yield expression.column
    elif isinstance(expression, UnitKey):
        yield expression.user
    for each in children(expression):
        yield from columns_of(each)


def released_places(expression: RowExpression) -> Iterator[int]:
    """Return the places of the released values that an expression needs."""
    if isinstance(expression, ReleasedValue):
        yield expression.place
    for each in children(expression):
        yield from released_places(each)


def with_released(expression: RowExpression, values: Mapping[int, float | None]) -> RowExpression:
    """Return the expression with released values in their places; a value that is null makes comparisons unknown."""
    if isinstance(expression, ReleasedValue):
        found = values[expression.place]
        return Case(()) if found is None else ConstantValue(found)
    changed: dict[str, Any] = {}
    for each in fields(expression):
        value: Any = getattr(expression, each.name)
        if isinstance(value, tuple):
            changed[each.name] = tuple(
                Branch(with_released(part.condition, values), with_released(part.value, values))
                if isinstance(part, Branch)
                else with_released(part, values)
                for part in value
            )
        elif isinstance(value, RowExpression):
            changed[each.name] = with_released(value, values)
    return replace(expression, **changed)


def written(expression: RowExpression) -> str:
    """Return the expression as text: equal expressions have equal texts, and different ones different texts."""
    match expression:
        case ColumnValue(name):
            return '"' + name.replace('"', '""') + '"'
        case ConstantValue(value):
            return repr(value)
        case _:
            parts = ", ".join(_written_part(getattr(expression, each.name)) for each in fields(expression))
            return f"{type(expression).__name__}({parts})"


def _written_part(value: Any) -> str:  # noqa: ANN401 - a field of any expression
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written_part, value))}]"
    if isinstance(value, Branch):
        return f"{written(value.condition)} -> {written(value.value)}"
    return written(value) if isinstance(value, RowExpression) else repr(str(value))

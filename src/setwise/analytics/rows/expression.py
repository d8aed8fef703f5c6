"""Row expressions as records: columns, constants, arithmetic, conditions, CASE, and functions of text and time.

An expression names columns without their kinds. `compile_expression` in engines/row_sql.py checks the kinds against the
columns of a table and translates the expression to the SQL of an engine. Conditions follow SQL's three-valued logic.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any, TypeAlias

from setwise.analytics.filter.expression import Operator

Constant: TypeAlias = str | bool | int | float | date | datetime
"""A constant in a row expression."""


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """The row expression (a value computed from each row) that is the value of the column `name`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class ConstantValue:
    """The row expression (a value computed from each row) that is the constant `value`, the same for every row.

    Text that is compared with a date or time column is read as a date or time.

    Two objects of this class are equal only if their constants have the same type, so the objects for 1, 1.0 and TRUE
    differ. SQL statements with 1 and with 1.0 have answers of different types, so the stored result of one statement
    must not be returned for the other.
    """

    value: Constant

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantValue) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[type, str]:
        return type(self.value), repr(self.value)


@dataclass(frozen=True, slots=True)
class ReleasedValue:
    """A placeholder, in a value computed from each row, for the noisy number that a scalar subquery releases.

    `place` is the index of that subquery among the scalar subqueries of the statement. The subquery is answered first;
    the function `with_released` then replaces the placeholder by the number, as a constant, before an engine sees the
    expression.
    """

    place: int


LARGEST_NUMBER = 1e150
"""The largest absolute value of a number in row expressions, in constants as in results; larger numbers are null.

The product and the quotient of two such numbers do not overflow in 64-bit floats. Engines also make null of non-zero
numbers nearer to 0 than 1e-150 (`SMALLEST` in engines/row_sql.py).
"""


class ArithmeticOperator(StrEnum):
    """The arithmetic operators of row expressions (values computed from each row): +, -, *, / and %."""

    PLUS = "+"
    MINUS = "-"
    TIMES = "*"
    DIVIDED_BY = "/"
    MODULO = "%"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The operation `operator` (+, -, *, / or %) on `left` and `right`, numbers or dates.

    If both numbers are integers, the result is an integer, except for a quotient, and null if its absolute value is
    2^53 or more. In all other cases numbers are computed as 64-bit floats. The result is null on overflow and on
    division by zero. A date plus or minus a number of days is a date, and the difference of two dates is a number of
    days.
    """

    operator: ArithmeticOperator
    left: "RowExpression"
    right: "RowExpression"


@dataclass(frozen=True, slots=True)
class Compared:
    """The condition that compares `left` with `right`, two values of one kind, by `operator`, such as <=.

    The condition is unknown (neither true nor false) if one of the two values is null.
    """

    operator: Operator
    left: "RowExpression"
    right: "RowExpression"


@dataclass(frozen=True, slots=True)
class Matched:
    """The condition that `text` matches a LIKE `pattern`; `any_case` ignores the case of the letters A to Z.

    In `pattern`, a backslash stands before every %, _ and backslash that matches itself.
    """

    text: "RowExpression"
    pattern: str
    any_case: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """The condition that `value`, a value computed from each row, is null."""

    value: "RowExpression"


@dataclass(frozen=True, slots=True)
class Negated:
    """The negation (NOT) of `condition`, in three-valued logic.

    It is true where `condition` is false, false where `condition` is true, and unknown where `condition` is unknown.
    """

    condition: "RowExpression"


@dataclass(frozen=True, slots=True)
class AllOf:
    """The condition that all of `conditions` are true (AND, in three-valued logic)."""

    conditions: tuple["RowExpression", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The condition that at least one of `conditions` is true (OR, in three-valued logic)."""

    conditions: tuple["RowExpression", ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch of a CASE expression: WHEN `condition` THEN `value`."""

    condition: "RowExpression"
    value: "RowExpression"


@dataclass(frozen=True, slots=True)
class Case:
    """A CASE expression: the value of the first of `branches` whose condition is true, or else `otherwise`.

    The value is null if no condition is true and `otherwise` is None.
    """

    branches: tuple[Branch, ...]
    otherwise: "RowExpression | None" = None


class Function(StrEnum):
    """The scalar functions, such as COALESCE, that a value computed from each row may call.

    engines/row_sql.py decides which kinds of arguments each function takes. FROM_UNIX turns a number that counts units
    of time since 1970 into a time in UTC. Its second argument says how many of these units make a second: 1000 for
    milliseconds.
    """

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
    CONCAT = "CONCAT"
    TO_INTEGER = "TO_INTEGER"
    TO_FLOAT = "TO_FLOAT"
    TO_DATE = "TO_DATE"
    TO_TEXT = "TO_TEXT"
    FROM_UNIX = "FROM_UNIX"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the scalar `function`, such as ROUND, whose `arguments` are values computed from each row."""

    function: Function
    arguments: tuple["RowExpression", ...]


class TimeField(StrEnum):
    """The parts of a date or time, such as the year, that can be computed as numbers from each row.

    WEEK is the number of the ISO 8601 week, which begins on Monday. WEEKDAY counts from Monday as 1, SUNDAY_0 from
    Sunday as 0, and SUNDAY_1 from Sunday as 1. EPOCH is the number of seconds since 1970 began in UTC, as a float; all
    others are integers.
    """

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    DAY_OF_YEAR = "day of year"
    WEEKDAY = "weekday"
    SUNDAY_0 = "sunday_0"
    SUNDAY_1 = "sunday_1"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    EPOCH = "epoch"


@dataclass(frozen=True, slots=True)
class TimePart:
    """The part `field`, such as the year, of the date or time `moment`, as a number.

    Times with a time zone are read in UTC.
    """

    field: TimeField
    moment: "RowExpression"


class TimeWord(StrEnum):
    """The parts of a date or time that can be computed as text from each row, such as 07 or July.

    Numbers have leading zeros: four digits for the year, three for the day of the year, and two for all other numbers.
    HOUR_12 counts from 01 to 12, and HALF is AM or PM. Names are English.
    """

    YEAR = "YYYY"
    SHORT_YEAR = "YY"
    MONTH = "MM"
    DAY = "DD"
    DAY_OF_YEAR = "DDD"
    HOUR = "HH24"
    HOUR_12 = "HH12"
    HALF = "AM"
    MINUTE = "MI"
    SECOND = "SS"
    WEEK = "IW"
    MONTH_NAME = "Month"
    SHORT_MONTH_NAME = "Mon"
    WEEKDAY_NAME = "Day"
    SHORT_WEEKDAY_NAME = "Dy"


@dataclass(frozen=True, slots=True)
class TimeText:
    """A part of the date or time `moment` as text; `word` says which part and how it is written.

    Examples are the month as two digits (07) and the month as its English name (July).
    """

    word: TimeWord
    moment: "RowExpression"


class Start(StrEnum):
    """The lengths of periods of time, such as a month, to which times can be rounded down.

    `PeriodStart` computes the beginning of the period that contains a time. `TimeDifference` counts the periods between
    two times. A WEEK begins on Monday, a SUNDAY_WEEK on Sunday.
    """

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    SUNDAY_WEEK = "sunday week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class PeriodStart:
    """The start of the `period` (a length such as a month) that contains the date or time `moment`.

    The start is a date if the period is a day or longer, and a time otherwise.
    """

    period: Start
    moment: "RowExpression"


@dataclass(frozen=True, slots=True)
class TimeShift:
    """The date or time `moment` moved by `months` and then by `microseconds`, forwards or, if negative, backwards.

    If the target month is too short, the result is its last day: one month after January 31 is the last day of
    February. Null if the result is outside the years 1 to 9999.
    """

    moment: "RowExpression"
    months: int = 0
    microseconds: int = 0


@dataclass(frozen=True, slots=True)
class TimeDifference:
    """The number of periods from `start` to `end`, two dates or times; an integer, negative if `end` is before `start`.

    `period` is the length of a period, such as a day. By default the beginnings of periods between the two times are
    counted: from 23:59 to 00:01 is one day. If `whole`, complete periods are counted: from 23:59 to 00:01 are 0 days.
    """

    period: Start
    start: "RowExpression"
    end: "RowExpression"
    whole: bool = False


@dataclass(frozen=True, slots=True)
class UnitKey:
    """A text, computed from each row, that identifies a unit of privacy smaller than a user, such as one day of a user.

    A table whose unit of privacy is smaller uses this text in place of the user column. The text of a row is made of
    the cell in the column `user` and the value of the expression `part`, such as the day of the row. Two rows have the
    same text only if the cells and the values are the same in both rows. The text is null if the cell or the value is
    null.
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
    | TimeText
    | PeriodStart
    | TimeShift
    | TimeDifference
)
"""A row expression."""


def children(expression: RowExpression) -> Iterator[RowExpression]:
    """Yield the expressions directly inside `expression`, such as the two sides of a comparison."""
    for field in fields(expression):
        value: Any = getattr(expression, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Branch):
                yield part.condition
                yield part.value
            elif isinstance(part, RowExpression):
                yield part


def columns_of(expression: RowExpression) -> Iterator[str]:
    """Yield the names of the columns from which `expression` is computed in each row; a column may be yielded twice."""
    if isinstance(expression, ColumnValue):
        yield expression.name
    elif isinstance(expression, UnitKey):
        yield expression.user
    for child in children(expression):
        yield from columns_of(child)


def released_places(expression: RowExpression) -> Iterator[int]:
    """Yield the indexes of the scalar subqueries whose released (noisy) numbers `expression` uses."""
    if isinstance(expression, ReleasedValue):
        yield expression.place
    for child in children(expression):
        yield from released_places(child)


def with_released(expression: RowExpression, values: Mapping[int, float | None]) -> RowExpression:
    """Return `expression` with constants in place of the noisy numbers for which it has placeholders (`ReleasedValue`).

    The value of a scalar subquery, such as (SELECT AVG(x) FROM t), is released before the rows are read. `values` maps
    the index of each scalar subquery to its released number. None becomes null, so that comparisons with it are
    unknown.
    """
    if isinstance(expression, ReleasedValue):
        released = values[expression.place]
        return Case(()) if released is None else ConstantValue(released)
    changed: dict[str, Any] = {}
    for field in fields(expression):
        value: Any = getattr(expression, field.name)
        if isinstance(value, tuple):
            changed[field.name] = tuple(
                Branch(with_released(part.condition, values), with_released(part.value, values))
                if isinstance(part, Branch)
                else with_released(part, values)
                for part in value
            )
        elif isinstance(value, RowExpression):
            changed[field.name] = with_released(value, values)
    return replace(expression, **changed)


def expression_text(expression: RowExpression) -> str:
    """Return a text that identifies `expression`, a value computed from each row; no other expression has this text."""
    match expression:
        case ColumnValue(name):
            return '"' + name.replace('"', '""') + '"'
        case ConstantValue(value):
            return repr(value)
        case _:
            parts = ", ".join(_part_text(getattr(expression, each.name)) for each in fields(expression))
            return f"{type(expression).__name__}({parts})"


def _part_text(value: Any) -> str:  # noqa: ANN401 - a field of any expression
    """Return a text that identifies `value`, the value of a field of a row expression.

    `value` is a row expression, a branch of CASE, a tuple of such values, or a word such as an operator.
    """
    if isinstance(value, tuple):
        return f"[{', '.join(map(_part_text, value))}]"
    if isinstance(value, Branch):
        return f"{expression_text(value.condition)} -> {expression_text(value.value)}"
    return expression_text(value) if isinstance(value, RowExpression) else repr(str(value))

"""Compiler from row expressions, which an analyst writes over the columns of one row, to the SQL of an engine.

No row can make an expression fail, and all engines compute the same value. In columns and results, a number of absolute
value 1e150 (`LARGEST_NUMBER`) or more, a NaN and an infinity become null. PostgreSQL also fails on results that
underflow, so on PostgreSQL a number nearer to 0 than 1e-150 (`SMALLEST`) becomes 0 before it is multiplied or divided.
Text constants are written in hexadecimal digits, so that no text that people type becomes part of a statement.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import assert_never

from setwise.analytics.engines.aggregation import long_integer_advice
from setwise.analytics.engines.dialect import (
    LONGEST_SQL,
    Dialect,
    check_length,
    real_constant,
)
from setwise.analytics.engines.time_sql import TimeCompiler
from setwise.analytics.filter.expression import Operator
from setwise.analytics.filter.parser import LONGEST_PATTERN, FilterToken, TokenKind, constant
from setwise.analytics.rows.constant_arguments import decimals_of, substring_place
from setwise.analytics.rows.expression import (
    LARGEST_NUMBER,
    AllOf,
    AnyOf,
    Arithmetic,
    ArithmeticOperator,
    Call,
    Case,
    ColumnValue,
    Compared,
    ConstantValue,
    Function,
    IsNull,
    Matched,
    Negated,
    PeriodStart,
    ReleasedValue,
    RowExpression,
    Start,
    TimeDifference,
    TimePart,
    TimeShift,
    TimeText,
    TimeWord,
    UnitKey,
)
from setwise.analytics.rows.type_errors import not_a_condition, not_a_number, not_comparable, not_one_kind
from setwise.analytics.schema import NUMBER_KINDS, TIME_KINDS, Column, Kind, Schema
from setwise.errors import InvalidParameter

SMALLEST = 1e-150
"""Non-zero numbers in computations have absolute values from `SMALLEST` to `LARGEST_NUMBER`.

The product and the quotient of two such numbers neither overflow nor underflow in 64-bit floats.
"""

LARGEST_INTEGER = 2**53
"""Computed integers from this absolute value on are null, because 64-bit floats do not represent all of them."""

LONGEST_TEXT = 10_000
"""The most characters of a text that || makes; the rest is cut off."""

_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Value:
    """A compiled row expression (a value computed from one row): its SQL text `sql`, and its type `kind`, such as text.

    `tiny` is True if the value may be a number other than 0 of absolute value below 1e-150 (`SMALLEST`). The product of
    two such numbers could underflow, which is an error on some engines. So the compiler replaces a tiny factor by 0.
    """

    sql: str
    kind: Kind
    tiny: bool = False


def compile_expression(expression: RowExpression, schema: Schema, dialect: Dialect) -> Value:
    """Return the SQL of a row expression in `dialect`, and its type; `schema` has the columns that it may read.

    A row expression is a value that an analyst's SQL computes from the columns of one row.

    Raises: `InvalidParameter` if types do not fit, `UnknownColumn` for a column that is not in `schema`.
    """
    return _Compiler(schema, dialect).value(expression)


class _Compiler:
    """Compiles row expressions (values computed from one row of a table) to SQL text in the `dialect` of one engine.

    `schema` has the columns of the table. Methods return SQL text, most of them with the type of its value in a
    `Value`, and raise `InvalidParameter` if a type does not fit.
    """

    def __init__(self, schema: Schema, dialect: Dialect) -> None:
        self._schema = schema
        self._dialect = dialect
        self._times = TimeCompiler(schema, dialect, self._condition)
        self._largest_parts = 0
        """The number of characters of all compiled parts that are longer than a hundredth of `LONGEST_SQL`."""

    def value(self, expression: RowExpression) -> Value:
        """Return the SQL and the type of `expression`, a value computed from one row.

        Raises: `InvalidParameter` for types that do not fit and for SQL text that gets too long, `UnknownColumn` for a
        column that the table does not have.
        """
        value = self._value(expression)
        check_length(len(value.sql))
        if len(value.sql) > LONGEST_SQL // 100:
            self._largest_parts += len(value.sql)
            check_length(self._largest_parts // 10)  # a list of many long arguments is refused before it is joined
        return value

    def _value(self, expression: RowExpression) -> Value:  # noqa: PLR0912 - one branch for each kind of expression
        """Return the SQL and the type of `expression`, a value computed from one row; the SQL's length is not checked.

        Only `_Compiler.value` calls this method. It then raises an error if the SQL text is too long.
        """
        match expression:
            case ColumnValue(name):
                return self._column(self._schema.column(name))
            case ConstantValue(value):
                return self._constant(value)
            case ReleasedValue():
                return Value(real_constant(0.0), Kind.FLOAT)  # placeholder for planning; replaced before rows are read
            case Arithmetic():
                return self._arithmetic(expression)
            case Compared():
                return Value(self._comparison(expression), Kind.BOOLEAN)
            case Matched():
                return Value(self._like(expression), Kind.BOOLEAN)
            case IsNull(value):
                return Value(f"({self.value(value).sql} IS NULL)", Kind.BOOLEAN)
            case Negated(condition):
                return Value(f"(NOT {self._condition(condition)})", Kind.BOOLEAN)
            case AllOf(conditions):
                return Value(f"({' AND '.join(map(self._condition, conditions))})", Kind.BOOLEAN)
            case AnyOf(conditions):
                return Value(f"({' OR '.join(map(self._condition, conditions))})", Kind.BOOLEAN)
            case Case():
                return self._case(expression)
            case Call():
                return self._call(expression)
            case TimePart():
                return Value(*self._times.part(expression))
            case TimeText():
                return Value(self._times.text(expression), Kind.TEXT)
            case TimeDifference():
                return Value(self._times.difference(expression), Kind.INTEGER)
            case PeriodStart() | TimeShift():
                return Value(self._times.computed_date(expression), Kind.DATE)
            case UnitKey(user, part):
                return self._unit_key(user, part)
            case _:
                assert_never(expression)

    def _unit_key(self, user: str, part: RowExpression) -> Value:
        """Return the SQL of a text that identifies a unit of privacy, such as one day of one user.

        A unit of privacy is the set of rows that are protected together. The text is made of the value of `part`, such
        as the day, and of the value in the column named `user`. Two rows have equal texts only if both values are
        equal.
        Raises: `InvalidParameter` if the value of `part` is not text, an integer, a date or a boolean.
        """
        value = self.value(part)
        if value.kind not in (Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BOOLEAN):
            raise InvalidParameter(f"a unit is told apart by text, whole numbers or dates, not {value.kind} values")
        # The value, a line break and the user. A text can have line breaks, so its length comes first.
        parts, end = self._dialect.text(value.sql), self._text("\n")
        if value.kind is Kind.TEXT:
            length = self._dialect.text(self._dialect.text_length(value.sql))
            parts = f"{length} || {end} || {parts}"
        user_text = self._dialect.text(self._dialect.user(self._schema.column(user)))
        return Value(f"({parts} || {end} || {user_text})", Kind.TEXT)

    def _column(self, column: Column) -> Value:
        """Return the SQL and the type of the value of `column` in a row; numbers beyond `LARGEST_NUMBER` are null.

        Raises: `InvalidParameter` for a column of a type that expressions cannot compute with.
        """
        match column.kind:
            case Kind.TEXT:
                return Value(self._dialect.label(column), Kind.TEXT)
            case Kind.INTEGER:
                return Value(self._dialect.integer(column), Kind.INTEGER)
            case Kind.FLOAT | Kind.DECIMAL:
                number = self._dialect.number(column, real_constant(-LARGEST_NUMBER), real_constant(LARGEST_NUMBER))
                return Value(self._dialect.null_at_ends(number, LARGEST_NUMBER), Kind.FLOAT, tiny=True)
            case Kind.BOOLEAN | Kind.DATE | Kind.TIMESTAMP | Kind.INSTANT:
                return Value(self._dialect.name(column.name), column.kind)
            case Kind.IDENTIFIER | Kind.OTHER:
                advice = long_integer_advice(column)
                raise InvalidParameter(
                    f"column {column.name!r} holds {column.native or column.kind} values, which are not computed "
                    f"with{advice}"
                ).needing({column.name: Kind.INTEGER} if advice else {})
            case _:
                assert_never(column.kind)

    def _constant(self, value: object) -> Value:
        """Return the SQL and the type of the constant `value`: a truth value, number, date or text.

        Raises: `InvalidParameter` for a number of absolute value above `LARGEST_NUMBER`, for a time (which may only be
        compared with a column) and for values of other types.
        """
        match value:
            case bool():
                return Value("TRUE" if value else "FALSE", Kind.BOOLEAN)
            case int() if abs(value) < LARGEST_INTEGER:
                return Value(self._dialect.int64(f"({value})"), Kind.INTEGER)
            case int() | float():
                if abs(value) > LARGEST_NUMBER:
                    raise InvalidParameter(f"a constant must be at most {LARGEST_NUMBER:g} either way, not {value:g}")
                return Value(real_constant(value), Kind.FLOAT, tiny=0.0 < abs(value) < SMALLEST)
            case datetime():
                raise InvalidParameter("a time is compared with a column: write it beside one")
            case date():
                column = Column(name="constant", kind=Kind.DATE, native=self._dialect.types[Kind.DATE][0])
                return Value(self._dialect.constant(column, self._text(value.isoformat())), Kind.DATE)
            case str():
                return Value(self._text(value), Kind.TEXT)
            case _:
                raise InvalidParameter(f"a constant must be a number, text, a date or a time, not {value!r}")

    def _text(self, value: str) -> str:
        """Return the SQL of the text constant `value` in hexadecimal digits, so that no typed text becomes SQL."""
        return self._dialect.text_constant(value)

    def _arithmetic(self, expression: Arithmetic) -> Value:
        """Return the SQL and the type of the arithmetic `expression` (+, -, *, / or %).

        The SQL gives null on overflow and on division by zero. A date plus or minus a number of days is a date, and the
        difference of two dates is a number of days.
        Raises: `InvalidParameter` for other types, or if a side of % is not an integer.
        """
        if self._times.kind(expression.left) is not None:
            return self._date_arithmetic(expression)
        left, right = (self.value(each) for each in (expression.left, expression.right))
        for operand, side in ((left, expression.left), (right, expression.right)):
            if operand.kind not in NUMBER_KINDS:
                raise not_a_number(f"{expression.operator} takes two numbers", side, operand.kind)
        whole = left.kind is Kind.INTEGER and right.kind is Kind.INTEGER
        operator = expression.operator
        if operator is ArithmeticOperator.MODULO:
            if not whole:
                raise InvalidParameter("% takes two integers")
            # Null from 2^53 on, as for + and *: engines fail at -2^63 % -1, whose quotient is no 64-bit integer.
            dividend = self._dialect.int64(self._real_number(left).sql)
            return Value(f"MOD({dividend}, {self._dialect.null_if(right.sql, '0')})", Kind.INTEGER)
        numbers = [self._real_number(each) for each in (left, right)]
        if operator in (ArithmeticOperator.TIMES, ArithmeticOperator.DIVIDED_BY):
            numbers = [self._without_tiny(each) for each in numbers]
        divisor = numbers[1].sql
        if operator is ArithmeticOperator.DIVIDED_BY:
            divisor = self._dialect.null_if(divisor, "0")
        computed = f"({numbers[0].sql} {operator} {divisor})"
        if whole and operator is not ArithmeticOperator.DIVIDED_BY:
            return Value(self._dialect.int64(self._dialect.null_beyond(computed, LARGEST_INTEGER)), Kind.INTEGER)
        return Value(self._dialect.null_beyond(computed, LARGEST_NUMBER), Kind.FLOAT, tiny=True)

    def _date_arithmetic(self, expression: Arithmetic) -> Value:
        """Return the SQL of `expression`, a date plus or minus a number of days, or the days between two dates.

        Raises: `InvalidParameter` for other arithmetic with dates, and for arithmetic with times.
        """
        left, right, operator = expression.left, expression.right, expression.operator
        is_difference = operator is ArithmeticOperator.MINUS
        if self._times.kind(left) is Kind.DATE and (is_difference or operator is ArithmeticOperator.PLUS):
            kind = self._times.kind(right)
            if kind is Kind.DATE and is_difference:
                return Value(self._times.difference(TimeDifference(Start.DAY, right, left)), Kind.INTEGER)
            if kind is None and (days := self.value(right)).kind is Kind.INTEGER:
                return Value(self._times.move_date(left, operator, days.sql), Kind.DATE)
        raise InvalidParameter(
            f"{operator} takes two numbers, or a date and days: write DATE_DIFF('minute', x, y) for the time from x to "
            "y, and x + INTERVAL '1 hour' for a later time"
        )

    def _real_number(self, value: Value) -> Value:
        """Return the SQL of the number `value` as a float; an integer of absolute value 2^53 or more becomes null.

        A 64-bit float does not represent every integer from 2^53 on. A `value` that is a float already is returned
        unchanged.
        """
        if value.kind is not Kind.INTEGER:
            return value
        return Value(self._dialect.null_beyond(self._dialect.real(value.sql), LARGEST_INTEGER), Kind.FLOAT)

    def _without_tiny(self, value: Value) -> Value:
        """Return the SQL of the number `value`, with 0 in place of numbers nearer to 0 than `SMALLEST` (1e-150).

        A product of two such numbers could underflow, at which some engines fail. For other engines, and for a value
        that cannot be so small, `value` is returned unchanged.
        """
        if not value.tiny or not self._dialect.underflow_fails:
            return value
        return Value(f"CASE WHEN ABS({value.sql}) < {SMALLEST} THEN 0 ELSE {value.sql} END", Kind.FLOAT)

    def _comparison(self, expression: Compared) -> str:
        """Return the SQL condition of `expression`, a comparison of two values computed from one row.

        A text constant beside a date or time is read as a date or time.
        Raises: `InvalidParameter` if the two sides have types that cannot be compared.
        """
        sides = [expression.left, expression.right]
        for place, side in enumerate(sides):
            other = sides[1 - place]
            if isinstance(other, ConstantValue) and (column := self._time_column(side)) is not None:
                operand, written = self._dialect.operand(column), self._time_constant(column, other)
                ordered = (operand, written) if place == 0 else (written, operand)
                return f"({ordered[0]} {expression.operator} {ordered[1]})"
        if (compared := self._time_comparison(expression)) is not None:
            return compared
        for side, other in zip(sides, reversed(sides), strict=True):
            is_moment = isinstance(other, ConstantValue) and isinstance(other.value, datetime)
            if (is_moment or self._times.kind(other) is not None) and self._is_text_column(side):
                raise not_comparable((side, Kind.TEXT), (other, Kind.TIMESTAMP))
        left, right = (self.value(each) for each in sides)
        kinds = {left.kind, right.kind}
        if kinds <= set(NUMBER_KINDS):
            if kinds != {Kind.INTEGER}:
                left, right = self._real_number(left), self._real_number(right)
        elif len(kinds) > 1:
            raise not_comparable((sides[0], left.kind), (sides[1], right.kind))
        if kinds == {Kind.BOOLEAN} and expression.operator not in (Operator.EQUAL, Operator.UNEQUAL):
            raise InvalidParameter("conditions are compared with = or <> only")
        return f"({left.sql} {expression.operator} {right.sql})"

    def _time_comparison(self, expression: Compared) -> str | None:
        """Return the SQL condition of `expression` if it compares a date or time with a date, time or text constant.

        Both sides become dates if both are dates. Otherwise each becomes the number of microseconds since 0001-01-01.
        The result is None for all other comparisons, and for a comparison of two columns of the same type. The caller
        then compares the two sides as they are.
        """
        sides = (expression.left, expression.right)
        kinds = [self._times.kind(side) for side in sides]
        texts = [isinstance(side, ConstantValue) and isinstance(side.value, str) for side in sides]
        if kinds == [None, None] or not all(kind or text for kind, text in zip(kinds, texts, strict=True)):
            return None
        if kinds[0] is kinds[1] and all(isinstance(side, ColumnValue) for side in sides):
            return None
        if kinds == [Kind.DATE, Kind.DATE]:
            left, right = map(self._times.day, sides)
        else:
            left, right = map(self._times.microseconds, sides)
        return f"({left} {expression.operator} {right})"

    def _is_text_column(self, expression: RowExpression) -> bool:
        """Return whether `expression` is a column of text."""
        return isinstance(expression, ColumnValue) and self._schema.column(expression.name).kind is Kind.TEXT

    def _time_column(self, expression: RowExpression) -> Column | None:
        """Return the date or time column that `expression` names; None if it is anything else."""
        if not isinstance(expression, ColumnValue):
            return None
        column = self._schema.column(expression.name)
        return column if column.kind in TIME_KINDS else None

    def _time_constant(self, column: Column, value: ConstantValue) -> str:
        """Return the SQL of the constant `value` as a date or time of the type of `column`.

        Raises: `InvalidFilter` for text that is not a date or time of that type, `InvalidParameter` for a number.
        """
        text = value.value
        if isinstance(text, datetime):
            text = text.isoformat(sep=" ")
        elif isinstance(text, date):
            text = text.isoformat()
        if not isinstance(text, str):
            raise InvalidParameter(f"column {column.name!r} holds {column.kind} values, which a number is not")
        moment = constant(column, FilterToken(TokenKind.TEXT, text, 1))
        written = moment.isoformat(sep=" ", timespec="microseconds") if isinstance(moment, datetime) else str(moment)
        return self._dialect.constant(column, self._text(written))

    def _like(self, expression: Matched) -> str:
        """Return the SQL condition of `expression`, a LIKE or an ILIKE.

        ILIKE ignores the case of the letters A to Z.
        Raises: `InvalidParameter` if the value is not text, or the pattern is longer than `LONGEST_PATTERN`.
        """
        text = self.value(expression.text)
        if text.kind is not Kind.TEXT:
            raise InvalidParameter(f"LIKE compares text, not {text.kind} values")
        if len(expression.pattern) > LONGEST_PATTERN:
            raise InvalidParameter(f"a pattern must be at most {LONGEST_PATTERN} characters long")
        pattern, operand = expression.pattern, text.sql
        if expression.any_case:
            pattern = pattern.translate(str.maketrans(_UPPER, _LOWER))
            operand = self._dialect.translate(operand, _UPPER, _LOWER)
        return f"({self._dialect.like(operand, self._text(self._dialect.pattern(pattern)))})"

    def _condition(self, expression: RowExpression) -> str:
        """Return the SQL of `expression`, a condition on one row: its value is true, false or null.

        Raises: `InvalidParameter` if its value is of another type.
        """
        value = self.value(expression)
        check_condition(expression, value)
        return value.sql

    def _case(self, expression: Case) -> Value:
        """Return the SQL and the type of `expression`, a CASE.

        If the CASE has no branch and no ELSE, its value is null, of type float.
        Raises: `InvalidParameter` if its values are of several types that cannot be combined.
        """
        results = [branch.value for branch in expression.branches]
        if expression.otherwise is not None:
            results.append(expression.otherwise)
        if not results:
            return Value(f"NULLIF({real_constant(0.0)}, {real_constant(0.0)})", Kind.FLOAT)
        values, kind = self._to_one_kind(results, "CASE")
        branches = " ".join(
            f"WHEN {self._condition(branch.condition)} THEN {value.sql}"
            for branch, value in zip(expression.branches, values, strict=False)
        )
        last = f" ELSE {values[-1].sql}" if expression.otherwise is not None else ""
        return Value(f"CASE {branches}{last} END", kind, any(value.tiny for value in values))

    def _to_one_kind(self, expressions: Sequence[RowExpression], construct: str) -> tuple[list[Value], Kind]:
        """Return (values, type): the SQL of each of `expressions`, converted to one type, and that type.

        Integers become floats if any expression is a float; no other types are converted. `construct` is the SQL
        keyword whose values these are, such as CASE, and is named in the error message.
        Raises: `InvalidParameter` if the types still differ.
        """
        values = [self.value(each) for each in expressions]
        kinds = {value.kind for value in values}
        if kinds <= {Kind.INTEGER, Kind.FLOAT} and len(kinds) == 2:
            return [self._real_number(value) for value in values], Kind.FLOAT
        if len(kinds) != 1:
            raise not_one_kind(construct, [(each, value.kind) for each, value in zip(expressions, values, strict=True)])
        return values, kinds.pop()

    def _call(self, expression: Call) -> Value:
        """Return the SQL and the type of `expression`, a call such as COALESCE or ROUND, computed from one row.

        Raises: `InvalidParameter` if the types of its arguments do not fit.
        """
        match expression.function:
            case Function.COALESCE:
                values, kind = self._to_one_kind(expression.arguments, "COALESCE")
                return Value(f"COALESCE({', '.join(each.sql for each in values)})", kind, any(v.tiny for v in values))
            case Function.NULLIF:
                values, kind = self._to_one_kind(expression.arguments, "NULLIF")
                return Value(self._dialect.null_if(values[0].sql, values[1].sql), kind, values[0].tiny)
            case Function.LEAST | Function.GREATEST:
                return self._extreme(expression)
            case Function.ABS | Function.FLOOR | Function.CEIL | Function.ROUND | Function.SIGN:
                return self._number_function(expression.function, *expression.arguments)
            case Function.TO_INTEGER | Function.TO_FLOAT | Function.TO_DATE | Function.TO_TEXT:
                return self._conversion(expression.function, *expression.arguments)
            case Function.FROM_UNIX:
                return Value(self._times.computed_date(expression), Kind.DATE)
            case Function.CONCAT:
                return self._concatenation(expression)
            case Function.LOWER | Function.UPPER | Function.TRIM | Function.SUBSTR | Function.LENGTH:
                return self._text_function(expression)
            case _:
                assert_never(expression.function)

    def _extreme(self, expression: Call) -> Value:
        """Return the SQL and the type of `expression`, a LEAST or GREATEST of several values.

        The value is null if any argument is null, as in GoogleSQL.
        Raises: `InvalidParameter` if the arguments are conditions, or of several types that cannot be combined.
        """
        values, kind = self._to_one_kind(expression.arguments, expression.function)
        if kind is Kind.BOOLEAN:
            raise InvalidParameter(f"{expression.function} takes numbers, text or times, not conditions")
        all_present = " AND ".join(f"{value.sql} IS NOT NULL" for value in values)
        listed = ", ".join(value.sql for value in values)
        chosen = f"CASE WHEN {all_present} THEN {expression.function}({listed}) END"
        return Value(chosen, kind, any(v.tiny for v in values))

    def _number_function(
        self, function: Function, argument: RowExpression, places: RowExpression | None = None
    ) -> Value:
        """Return the SQL and the type of `function` (ABS, SIGN, FLOOR, CEIL or ROUND) of `argument`.

        `places` is the number of decimals of ROUND; None means 0. Results are integers, except for ABS of a float and
        for ROUND of a float to 1 or more decimals.
        Raises: `InvalidParameter` if the argument is not a number.
        """
        value = self.value(argument)
        if value.kind not in NUMBER_KINDS:
            raise not_a_number(f"{function} takes a number", argument, value.kind)
        if function is Function.ABS:
            if value.kind is Kind.FLOAT:
                return Value(f"ABS({value.sql})", Kind.FLOAT, value.tiny)
            return Value(self._dialect.int64(f"ABS({self._real_number(value).sql})"), Kind.INTEGER)
        if function is Function.SIGN:
            sign = f"CASE WHEN {value.sql} > 0 THEN 1 WHEN {value.sql} < 0 THEN -1 WHEN {value.sql} = 0 THEN 0 END"
            return Value(self._dialect.int64(sign), Kind.INTEGER)
        decimals = decimals_of(places)
        if value.kind is Kind.INTEGER and decimals >= 0:
            return value
        number = self._without_tiny(value).sql
        if function is Function.ROUND:
            if decimals <= 0:
                return self._round(self._real_number(value), step=10**-decimals)
            scale = real_constant(10.0**decimals)
            rounded = f"FLOOR(ABS({number}) * {scale} + 0.5) / {scale}"
            return Value(f"CASE WHEN {number} < 0 THEN -{rounded} ELSE {rounded} END", Kind.FLOAT)
        whole = self._dialect.null_beyond(f"{function}({number})", LARGEST_INTEGER)
        return Value(self._dialect.int64(whole), Kind.INTEGER)

    def _conversion(self, function: Function, argument: RowExpression) -> Value:
        """Return the SQL and the type of `argument` converted by `function` to an integer, a float, a date or text.

        A condition (true or false) becomes the integer 1 or 0, even if `function` converts to a float.
        Raises: `InvalidParameter` for values that cannot be converted.
        """
        if function is Function.TO_DATE:
            return Value(self._times.day(argument), Kind.DATE)
        if function is Function.TO_TEXT:
            return self._to_text(argument)
        value = self.value(argument)
        if value.kind is Kind.BOOLEAN:
            number = f"CASE WHEN {value.sql} THEN 1 WHEN NOT {value.sql} THEN 0 END"
            return Value(self._dialect.int64(number), Kind.INTEGER)
        if value.kind not in NUMBER_KINDS:
            raise not_a_number("a conversion to numbers takes a number here", argument, value.kind)
        if function is Function.TO_FLOAT:
            return self._real_number(value)
        return value if value.kind is Kind.INTEGER else self._round(value)

    def _to_text(self, argument: RowExpression) -> Value:
        """Return the SQL and the type of `argument` converted to text; a date becomes a text such as 2026-01-31.

        `argument` may be text, an integer, a condition (true or false) or a date.
        Raises: `InvalidParameter` for floats and times, which engines write as text in different ways.
        """
        if self._times.kind(argument) is Kind.DATE:
            words = (TimeWord.YEAR, TimeWord.MONTH, TimeWord.DAY)
            year, month, day = (self._times.text(TimeText(word, argument)) for word in words)
            return Value(f"({year} || {self._text('-')} || {month} || {self._text('-')} || {day})", Kind.TEXT)
        value = self.value(argument)
        match value.kind:
            case Kind.TEXT:
                return value
            case Kind.INTEGER:
                return Value(self._dialect.text(value.sql), Kind.TEXT)
            case Kind.BOOLEAN:
                true, false = self._text("true"), self._text("false")
                return Value(f"CASE WHEN {value.sql} THEN {true} WHEN NOT {value.sql} THEN {false} END", Kind.TEXT)
            case Kind.TIMESTAMP | Kind.INSTANT:
                raise InvalidParameter(
                    "times are not converted to text by CAST: write TO_CHAR(x, 'YYYY-MM-DD HH24:MI:SS'), "
                    "or CAST(CAST(x AS DATE) AS TEXT)"
                )
            case _:
                raise InvalidParameter(
                    f"{value.kind} values are not converted to text, because engines write them differently: "
                    "round them first, as in CAST(ROUND(x) AS INT64)"
                )

    def _round(self, value: Value, step: int = 1) -> Value:
        """Return the SQL of the number `value` rounded to a multiple of `step`, halves away from 0.

        `step` is a power of ten. The result is an integer, or null if its absolute value would be 2^53 or more.
        """
        number = self._without_tiny(value).sql
        rounded = f"FLOOR(ABS({number}) + 0.5)"
        if step > 1:
            rounded = f"FLOOR(ABS({number}) / {real_constant(step)} + 0.5) * {real_constant(step)}"
        signed = f"CASE WHEN {number} < 0 THEN -{rounded} ELSE {rounded} END"
        return Value(self._dialect.int64(self._dialect.null_beyond(signed, LARGEST_INTEGER)), Kind.INTEGER)

    def _concatenation(self, expression: Call) -> Value:
        """Return the SQL of `expression` (||), which joins texts and integers to one text; null if one of them is null.

        Characters beyond `LONGEST_TEXT` are cut off, because a statement could double a text again and again, and so
        fill the memory.
        Raises: `InvalidParameter` for other types, which engines write as text in different ways.
        """
        texts = []
        for argument in expression.arguments:
            value = self.value(argument)
            if value.kind not in (Kind.TEXT, Kind.INTEGER):
                raise InvalidParameter(f"|| joins texts and integers, not {value.kind} values")
            texts.append(value.sql if value.kind is Kind.TEXT else self._dialect.text(value.sql))
        return Value(self._dialect.substring(f"({' || '.join(texts)})", 1, LONGEST_TEXT), Kind.TEXT)

    def _text_function(self, expression: Call) -> Value:
        """Return the SQL and the type of `expression`: LOWER, UPPER, TRIM, LENGTH or SUBSTR of a text.

        LOWER and UPPER change only the letters A to Z.
        Raises: `InvalidParameter` if the argument is not text.
        """
        text = self.value(expression.arguments[0])
        if text.kind is not Kind.TEXT:
            raise InvalidParameter(f"{expression.function} takes text, not {text.kind} values")
        match expression.function:
            case Function.LOWER:
                return Value(self._dialect.translate(text.sql, _UPPER, _LOWER), Kind.TEXT)
            case Function.UPPER:
                return Value(self._dialect.translate(text.sql, _LOWER, _UPPER), Kind.TEXT)
            case Function.TRIM:
                return Value(f"TRIM(BOTH ' ' FROM {text.sql})", Kind.TEXT)
            case Function.LENGTH:
                return Value(self._dialect.int64(self._dialect.text_length(text.sql)), Kind.INTEGER)
            case _:
                first, *more = (substring_place(each) for each in expression.arguments[1:])
                if first < 1:
                    raise InvalidParameter("SUBSTR counts characters from 1")
                return Value(self._dialect.substring(text.sql, first, *more), Kind.TEXT)


def check_condition(expression: RowExpression, value: Value) -> None:
    """Raise `InvalidParameter` unless `expression` is a condition: its values are true, false or null.

    `value` is the compiled `expression`, whose type (`value.kind`) decides. `expression` itself is for the error
    message.
    """
    if value.kind is not Kind.BOOLEAN:
        raise not_a_condition(expression, value.kind)

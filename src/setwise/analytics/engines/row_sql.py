"""Row expressions and derived tables in the SQL of an engine.

No row can make an expression fail, and all engines compute it alike. Numbers that are computed with are finite and at
most `LARGEST` either way; a result beyond is null. PostgreSQL also fails on results that underflow, so an operand that
is nearer to 0 than `SMALLEST` becomes 0 before it is multiplied or divided by another such number. Text constants are
written in hexadecimal digits, so that nothing that people type stands in a statement.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import assert_never

from setwise.analytics.bins import TimeUnit
from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.filter.expression import Operator
from setwise.analytics.filter.parser import LONGEST_PATTERN, Token, TokenKind, constant
from setwise.analytics.rows.derivation import (
    AddColumns,
    Derivation,
    GroupByUser,
    KeepRows,
    NamedExpression,
    SelectColumns,
    Step,
    UserAggregate,
    UserFunction,
    check_names,
)
from setwise.analytics.rows.expression import (
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
    TimeField,
    TimePart,
    UnitKey,
    columns_of,
)
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter

LARGEST = 1e150
SMALLEST = 1e-150
"""The range of numbers that are computed with: the product and the quotient of two of them neither over- nor underflow
in floating point of 64 bits."""

LARGEST_INTEGER = 2**53
"""From here on, either way, integers that are computed are null: floating point does not hold all of them."""

_UNITS = 2**20
"""Sums of numbers that are no integers are exact sums of this many units of 1, so that they do not depend on the order
in which rows are read, which may depend on the rows of other users."""

_LARGEST_SUMMED = 2**42
"""A number that a user's sum adds up is clipped to this either way, so that its units fit in 62 bits."""

_NUMBERS = (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL)
_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT)
_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Value:
    """An expression in SQL: its text, its kind, and whether it may lie nearer to 0 than `SMALLEST` without being 0."""

    sql: str
    kind: Kind
    tiny: bool = False


def compile_expression(expression: RowExpression, schema: Schema, dialect: Dialect) -> Value:
    """Return an expression in SQL, or raise `InvalidParameter` or `UnknownColumn` where kinds do not fit."""
    return _Compiler(schema, dialect).value(expression)


@dataclass(frozen=True, slots=True)
class DerivedTable:
    """A derivation of a table with known columns, in the SQL of an engine; making one checks every kind."""

    derivation: Derivation
    source: Schema
    dialect: Dialect

    @property
    def schema(self) -> Schema:
        """The columns of the derived table."""
        schema = self.source
        for step in self.derivation.steps:
            schema = _step_schema(step, schema, self.dialect)
        return schema

    def needed(self, columns: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return the columns of the source that these columns of the derived table need; None is all columns."""
        if columns is None:
            return None
        wanted = set(columns)
        for step in reversed(self.derivation.steps):
            wanted = _needed(step, wanted)
        return tuple(name for name in self.source.names if name in wanted)

    def statement(self, relation: str) -> str:
        """Return what stands after FROM for the derived table of a relation."""
        schema = self.source
        for place, step in enumerate(self.derivation.steps):
            relation = f"({_step_sql(step, relation, schema, self.dialect)}) AS derived_{place}"
            schema = _step_schema(step, schema, self.dialect)
        return relation


def _needed(step: Step, wanted: set[str]) -> set[str]:
    match step:
        case AddColumns(columns):
            computed = {each.name for each in columns}
            return (wanted - computed) | _read(each.expression for each in columns)
        case KeepRows(condition):
            return wanted | _read([condition])
        case SelectColumns(user, columns):
            return {user} | _read(each.expression for each in columns)
        case GroupByUser(user, keys, aggregates):
            arguments = [each.argument for each in aggregates if each.argument is not None]
            return {user} | _read([*(each.expression for each in keys), *arguments])
        case _:
            assert_never(step)


def _read(expressions: Iterable[RowExpression]) -> set[str]:
    return {name for each in expressions for name in columns_of(each)}


def _step_schema(step: Step, schema: Schema, dialect: Dialect) -> Schema:
    match step:
        case AddColumns(columns):
            found = (*schema.columns, *(_column(each, schema, dialect) for each in columns))
        case KeepRows(condition):
            _check_condition(compile_expression(condition, schema, dialect))
            found = schema.columns
        case SelectColumns(columns=columns):
            found = tuple(_column(each, schema, dialect) for each in columns)
        case GroupByUser(user, keys, aggregates):
            kept = [_column(each, schema, dialect) for each in keys]
            computed = [_aggregate_column(each, schema, dialect) for each in aggregates]
            found = (_user_column(schema.column(user), dialect), *kept, *computed)
        case _:
            assert_never(step)
    check_names([column.name for column in found])
    return Schema(found)


def _step_sql(step: Step, relation: str, schema: Schema, dialect: Dialect) -> str:
    def listed(columns: Sequence[NamedExpression]) -> str:
        return ", ".join(
            f"{_selected(each.expression, schema, dialect)} AS {dialect.name(each.name)}" for each in columns
        )

    match step:
        case AddColumns(columns):
            return f"SELECT *, {listed(columns)} FROM {relation}"
        case KeepRows(condition):
            return f"SELECT * FROM {relation} WHERE {compile_expression(condition, schema, dialect).sql}"
        case SelectColumns(columns=columns):
            return f"SELECT {listed(columns)} FROM {relation}"
        case GroupByUser(user, keys, aggregates):
            column = schema.column(user)
            chosen = [f"{dialect.user(column)} AS {dialect.name(user)}"]
            chosen += [listed([each]) for each in keys]
            chosen += [f"{_aggregate(each, schema, dialect).sql} AS {dialect.name(each.name)}" for each in aggregates]
            places = ", ".join(str(place + 1) for place in range(1 + len(keys)))
            there = f"{dialect.user(column)} IS NOT NULL"
            return f"SELECT {', '.join(chosen)} FROM {relation} WHERE {there} GROUP BY {places}"
        case _:
            assert_never(step)


def _selected(expression: RowExpression, schema: Schema, dialect: Dialect) -> str:
    """Return the SQL of a column of a derived table; a plain column stays as it is."""
    if isinstance(expression, ColumnValue):
        return dialect.name(schema.column(expression.name).name)
    value = compile_expression(expression, schema, dialect)
    return dialect.truth(value.sql) if value.kind is Kind.BOOLEAN else value.sql


def _column(named: NamedExpression, schema: Schema, dialect: Dialect) -> Column:
    if isinstance(named.expression, ColumnValue):
        column = schema.column(named.expression.name)
        return Column(
            name=named.name,
            kind=column.kind,
            native=column.native,
            precision=column.precision,
            scale=column.scale,
            from_text=column.from_text,
        )
    kind = compile_expression(named.expression, schema, dialect).kind
    return Column(name=named.name, kind=kind, native=dialect.types[kind][0])


def _user_column(column: Column, dialect: Dialect) -> Column:
    if column.kind is not Kind.TEXT:
        return column
    return Column(name=column.name, kind=Kind.TEXT, native=dialect.types[Kind.TEXT][0])


def _aggregate_column(aggregate: UserAggregate, schema: Schema, dialect: Dialect) -> Column:
    kind = _aggregate(aggregate, schema, dialect).kind
    return Column(name=aggregate.name, kind=kind, native=dialect.types[kind][0])


def _aggregate(aggregate: UserAggregate, schema: Schema, dialect: Dialect) -> Value:
    """Return an aggregate of the rows of one user, in SQL."""
    if aggregate.argument is None:
        return Value(dialect.whole("COUNT(*)"), Kind.INTEGER)
    value = compile_expression(aggregate.argument, schema, dialect)
    match aggregate.function:
        case UserFunction.COUNT:
            return Value(dialect.whole(f"COUNT({value.sql})"), Kind.INTEGER)
        case UserFunction.COUNT_DISTINCT:
            return Value(dialect.whole(f"COUNT(DISTINCT {value.sql})"), Kind.INTEGER)
        case UserFunction.MIN | UserFunction.MAX:
            if value.kind is Kind.BOOLEAN:
                raise InvalidParameter(f"{aggregate.function} takes numbers, text or times, not a condition")
            return Value(f"{aggregate.function}({value.sql})", value.kind, value.tiny)
        case UserFunction.SUM | UserFunction.AVG:
            return _user_sum(aggregate.function, value, dialect)
        case _:
            assert_never(aggregate.function)


def _user_sum(function: UserFunction, value: Value, dialect: Dialect) -> Value:
    if value.kind not in _NUMBERS:
        raise InvalidParameter(f"{function} takes numbers, not {value.kind} values")
    if value.kind is Kind.INTEGER:
        total, unit = dialect.total(value.sql, None), ""
    else:
        ends = _real(_LARGEST_SUMMED), _real(-_LARGEST_SUMMED)
        near = f"CASE WHEN {value.sql} IS NOT NULL THEN GREATEST(LEAST({value.sql}, {ends[0]}), {ends[1]}) END"
        total = dialect.total(dialect.whole(f"FLOOR({near} * {_real(_UNITS)} + 0.5)"), None)
        unit = f" / {_real(_UNITS)}"
    if function is UserFunction.AVG:
        number = f"COUNT({value.sql})"
        return Value(f"{dialect.real(total)}{unit} / NULLIF({number}, 0)", Kind.FLOAT, tiny=True)
    if value.kind is not Kind.INTEGER:
        return Value(f"{dialect.real(total)}{unit}", Kind.FLOAT)
    return Value(dialect.whole(_null_from(dialect.real(total), LARGEST_INTEGER)), Kind.INTEGER)


class _Compiler:
    """Expressions over the columns of a table, in the SQL of an engine."""

    def __init__(self, schema: Schema, dialect: Dialect) -> None:
        self._schema = schema
        self._dialect = dialect

    def value(self, expression: RowExpression) -> Value:  # noqa: PLR0912 - one branch for each kind of expression
        """Return an expression in SQL."""
        match expression:
            case ColumnValue(name):
                return self._column(self._schema.column(name))
            case ConstantValue(value):
                return self._constant(value)
            case ReleasedValue():
                return Value(_real(0.0), Kind.FLOAT)  # what stands in a plan; replaced before rows are read
            case Arithmetic():
                return self._arithmetic(expression)
            case Compared():
                return Value(self._compared(expression), Kind.BOOLEAN)
            case Matched():
                return Value(self._matched(expression), Kind.BOOLEAN)
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
                return self._time_part(expression)
            case PeriodStart():
                return self._period_start(expression)
            case UnitKey(user, part):
                return self._unit_key(user, part)
            case _:
                assert_never(expression)

    def _unit_key(self, user: str, part: RowExpression) -> Value:
        """Return the user and a value as one text: the value first, which has no line break or tells its length."""
        value = self.value(part)
        if value.kind not in (Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BOOLEAN):
            raise InvalidParameter(f"a unit is told apart by text, whole numbers or dates, not {value.kind} values")
        written, end = self._dialect.text(value.sql), self._text("\n")
        if value.kind is Kind.TEXT:
            length = self._dialect.text(self._dialect.text_length(value.sql))
            written = f"{length} || {end} || {written}"
        who = self._dialect.text(self._dialect.user(self._schema.column(user)))
        return Value(f"({written} || {end} || {who})", Kind.TEXT)

    def _column(self, column: Column) -> Value:
        match column.kind:
            case Kind.TEXT:
                return Value(self._dialect.label(column), Kind.TEXT)
            case Kind.INTEGER:
                return Value(self._dialect.integer(column), Kind.INTEGER)
            case Kind.FLOAT | Kind.DECIMAL:
                number = self._dialect.number(column, _real(-LARGEST), _real(LARGEST))
                return Value(_null_at_ends(number, LARGEST), Kind.FLOAT, tiny=True)
            case Kind.BOOLEAN | Kind.DATE | Kind.TIMESTAMP | Kind.INSTANT:
                return Value(self._dialect.name(column.name), column.kind)
            case Kind.IDENTIFIER | Kind.OTHER:
                raise InvalidParameter(
                    f"column {column.name!r} holds {column.native or column.kind} values, which are not computed with"
                )
            case _:
                assert_never(column.kind)

    def _constant(self, value: object) -> Value:
        match value:
            case bool():
                return Value("TRUE" if value else "FALSE", Kind.BOOLEAN)
            case int() if abs(value) < LARGEST_INTEGER:
                return Value(self._dialect.whole(f"({value})"), Kind.INTEGER)
            case int() | float():
                if abs(value) > LARGEST:
                    raise InvalidParameter(f"a constant must be at most {LARGEST:g} either way, not {value:g}")
                return Value(_real(value), Kind.FLOAT, tiny=0.0 < abs(value) < SMALLEST)
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
        return self._dialect.text_constant(value)

    def _arithmetic(self, expression: Arithmetic) -> Value:
        left, right = (self.value(each) for each in (expression.left, expression.right))
        for each in (left, right):
            if each.kind not in _NUMBERS:
                raise InvalidParameter(f"{expression.operator} takes two numbers, not {each.kind} values")
        whole = left.kind is Kind.INTEGER and right.kind is Kind.INTEGER
        operator = expression.operator
        if operator is ArithmeticOperator.MODULO:
            if not whole:
                raise InvalidParameter("% takes two integers")
            return Value(f"MOD({left.sql}, NULLIF({right.sql}, 0))", Kind.INTEGER)
        numbers = [self._real_number(each) for each in (left, right)]
        if operator in (ArithmeticOperator.TIMES, ArithmeticOperator.DIVIDED_BY):
            numbers = [self._without_tiny(each) for each in numbers]
        divisor = numbers[1].sql if operator is not ArithmeticOperator.DIVIDED_BY else f"NULLIF({numbers[1].sql}, 0)"
        computed = f"({numbers[0].sql} {operator} {divisor})"
        if whole and operator is not ArithmeticOperator.DIVIDED_BY:
            return Value(self._dialect.whole(_null_from(computed, LARGEST_INTEGER)), Kind.INTEGER)
        return Value(_null_from(computed, LARGEST), Kind.FLOAT, tiny=True)

    def _real_number(self, value: Value) -> Value:
        """Return a number in floating point; an integer beyond `LARGEST_INTEGER` is null."""
        if value.kind is not Kind.INTEGER:
            return value
        return Value(_null_from(self._dialect.real(value.sql), LARGEST_INTEGER), Kind.FLOAT)

    def _without_tiny(self, value: Value) -> Value:
        if not value.tiny or not self._dialect.underflow_fails:
            return value
        return Value(f"CASE WHEN ABS({value.sql}) < {SMALLEST} THEN 0 ELSE {value.sql} END", Kind.FLOAT)

    def _compared(self, expression: Compared) -> str:
        sides = [expression.left, expression.right]
        for place, side in enumerate(sides):
            other = sides[1 - place]
            if isinstance(other, ConstantValue) and (column := self._time_column(side)) is not None:
                operand, written = self._dialect.operand(column), self._time_constant(column, other)
                ordered = (operand, written) if place == 0 else (written, operand)
                return f"({ordered[0]} {expression.operator} {ordered[1]})"
        left, right = (self.value(each) for each in sides)
        kinds = {left.kind, right.kind}
        if Kind.DATE in kinds and isinstance(expression.right, ConstantValue) and right.kind is Kind.TEXT:
            column = Column(name="date", kind=Kind.DATE, native=self._dialect.types[Kind.DATE][0])
            return f"({left.sql} {expression.operator} {self._time_constant(column, expression.right)})"
        if kinds <= set(_NUMBERS):
            if kinds != {Kind.INTEGER}:
                left, right = self._real_number(left), self._real_number(right)
        elif len(kinds) > 1:
            raise InvalidParameter(f"{left.kind} and {right.kind} values cannot be compared: convert one of them")
        if kinds == {Kind.BOOLEAN} and expression.operator not in (Operator.EQUAL, Operator.UNEQUAL):
            raise InvalidParameter("conditions are compared with = or <> only")
        return f"({left.sql} {expression.operator} {right.sql})"

    def _time_column(self, expression: RowExpression) -> Column | None:
        if not isinstance(expression, ColumnValue):
            return None
        column = self._schema.column(expression.name)
        return column if column.kind in _TIMES else None

    def _time_constant(self, column: Column, value: ConstantValue) -> str:
        text = value.value
        if isinstance(text, datetime):
            text = text.isoformat(sep=" ")
        elif isinstance(text, date):
            text = text.isoformat()
        if not isinstance(text, str):
            raise InvalidParameter(f"column {column.name!r} holds {column.kind} values, which a number is not")
        moment = constant(column, Token(TokenKind.TEXT, text, 1))
        written = moment.isoformat(sep=" ", timespec="microseconds") if isinstance(moment, datetime) else str(moment)
        return self._dialect.constant(column, self._text(written))

    def _matched(self, expression: Matched) -> str:
        text = self.value(expression.text)
        if text.kind is not Kind.TEXT:
            raise InvalidParameter(f"LIKE compares text, not {text.kind} values")
        if len(expression.pattern) > LONGEST_PATTERN:
            raise InvalidParameter(f"a pattern must be at most {LONGEST_PATTERN} characters long")
        pattern, operand = expression.pattern, text.sql
        if expression.any_case:
            pattern = pattern.translate(str.maketrans(_UPPER, _LOWER))
            operand = self._dialect.translated(operand, _UPPER, _LOWER)
        return f"({self._dialect.like(operand, self._text(self._dialect.pattern(pattern)))})"

    def _condition(self, expression: RowExpression) -> str:
        value = self.value(expression)
        _check_condition(value)
        return value.sql

    def _case(self, expression: Case) -> Value:
        results = [branch.value for branch in expression.branches]
        if expression.otherwise is not None:
            results.append(expression.otherwise)
        if not results:
            return Value(f"NULLIF({_real(0.0)}, {_real(0.0)})", Kind.FLOAT)
        values, kind = self._alike(results, "CASE")
        branches = " ".join(
            f"WHEN {self._condition(branch.condition)} THEN {value.sql}"
            for branch, value in zip(expression.branches, values, strict=False)
        )
        last = f" ELSE {values[-1].sql}" if expression.otherwise is not None else ""
        return Value(f"CASE {branches}{last} END", kind, any(value.tiny for value in values))

    def _alike(self, expressions: Sequence[RowExpression], what: str) -> tuple[list[Value], Kind]:
        """Return values of one kind; integers become real numbers beside real numbers."""
        values = [self.value(each) for each in expressions]
        kinds = {value.kind for value in values}
        if kinds <= {Kind.INTEGER, Kind.FLOAT} and len(kinds) == 2:
            return [self._real_number(value) for value in values], Kind.FLOAT
        if len(kinds) != 1:
            raise InvalidParameter(f"the values of {what} must be of one kind, not {' and '.join(sorted(kinds))}")
        return values, kinds.pop()

    def _call(self, expression: Call) -> Value:
        match expression.function:
            case Function.COALESCE:
                values, kind = self._alike(expression.arguments, "COALESCE")
                return Value(f"COALESCE({', '.join(each.sql for each in values)})", kind, any(v.tiny for v in values))
            case Function.NULLIF:
                values, kind = self._alike(expression.arguments, "NULLIF")
                return Value(f"NULLIF({values[0].sql}, {values[1].sql})", kind, values[0].tiny)
            case Function.LEAST | Function.GREATEST:
                return self._extreme(expression)
            case Function.ABS | Function.FLOOR | Function.CEIL | Function.ROUND | Function.SIGN:
                return self._of_number(expression.function, *expression.arguments)
            case Function.TO_INTEGER | Function.TO_FLOAT | Function.TO_DATE:
                return self._converted(expression.function, *expression.arguments)
            case Function.LOWER | Function.UPPER | Function.TRIM | Function.SUBSTR | Function.LENGTH:
                return self._of_text(expression)
            case _:
                assert_never(expression.function)

    def _extreme(self, expression: Call) -> Value:
        """Return the least or greatest of values, null where one of them is, as in GoogleSQL."""
        values, kind = self._alike(expression.arguments, expression.function)
        if kind is Kind.BOOLEAN:
            raise InvalidParameter(f"{expression.function} takes numbers, text or times, not conditions")
        there = " AND ".join(f"{value.sql} IS NOT NULL" for value in values)
        listed = ", ".join(value.sql for value in values)
        return Value(f"CASE WHEN {there} THEN {expression.function}({listed}) END", kind, any(v.tiny for v in values))

    def _of_number(self, function: Function, argument: RowExpression, places: RowExpression | None = None) -> Value:
        value = self.value(argument)
        if value.kind not in _NUMBERS:
            raise InvalidParameter(f"{function} takes a number, not {value.kind} values")
        if function is Function.ABS:
            if value.kind is Kind.FLOAT:
                return Value(f"ABS({value.sql})", Kind.FLOAT, value.tiny)
            return Value(self._dialect.whole(f"ABS({self._real_number(value).sql})"), Kind.INTEGER)
        if function is Function.SIGN:
            sign = f"CASE WHEN {value.sql} > 0 THEN 1 WHEN {value.sql} < 0 THEN -1 WHEN {value.sql} = 0 THEN 0 END"
            return Value(self._dialect.whole(sign), Kind.INTEGER)
        if value.kind is Kind.INTEGER:
            return value
        number = self._without_tiny(value).sql
        if function is Function.ROUND:
            scale = 1.0
            if places is not None:
                if not (isinstance(places, ConstantValue) and places.value in range(7)):
                    raise InvalidParameter("ROUND takes 0 to 6 places, as a constant")
                scale = 10.0 ** int(places.value)  # type: ignore[arg-type]
            rounded = f"FLOOR(ABS({number}) * {_real(scale)} + 0.5) / {_real(scale)}"
            return Value(f"CASE WHEN {number} < 0 THEN -{rounded} ELSE {rounded} END", Kind.FLOAT)
        whole = _null_from(f"{function}({number})", LARGEST_INTEGER)
        return Value(self._dialect.whole(whole), Kind.INTEGER)

    def _converted(self, function: Function, argument: RowExpression) -> Value:
        if function is Function.TO_DATE:
            return self._period_start(PeriodStart(Start.DAY, self._time_name(argument)))
        value = self.value(argument)
        if value.kind is Kind.BOOLEAN:
            return Value(
                self._dialect.whole(f"CASE WHEN {value.sql} THEN 1 WHEN NOT {value.sql} THEN 0 END"), Kind.INTEGER
            )
        if value.kind not in _NUMBERS:
            raise InvalidParameter(
                f"{value.kind} values are not converted to numbers here: give the type of the column, as in --type"
            )
        if function is Function.TO_FLOAT:
            return self._real_number(value)
        return value if value.kind is Kind.INTEGER else self._rounded(value)

    def _rounded(self, value: Value) -> Value:
        number = self._without_tiny(value).sql
        rounded = f"FLOOR(ABS({number}) + 0.5)"
        signed = f"CASE WHEN {number} < 0 THEN -{rounded} ELSE {rounded} END"
        return Value(self._dialect.whole(_null_from(signed, LARGEST_INTEGER)), Kind.INTEGER)

    def _of_text(self, expression: Call) -> Value:
        text = self.value(expression.arguments[0])
        if text.kind is not Kind.TEXT:
            raise InvalidParameter(f"{expression.function} takes text, not {text.kind} values")
        match expression.function:
            case Function.LOWER:
                return Value(self._dialect.translated(text.sql, _UPPER, _LOWER), Kind.TEXT)
            case Function.UPPER:
                return Value(self._dialect.translated(text.sql, _LOWER, _UPPER), Kind.TEXT)
            case Function.TRIM:
                return Value(f"TRIM(BOTH ' ' FROM {text.sql})", Kind.TEXT)
            case Function.LENGTH:
                return Value(self._dialect.whole(self._dialect.text_length(text.sql)), Kind.INTEGER)
            case _:
                first, *more = (_place(each) for each in expression.arguments[1:])
                if first < 1:
                    raise InvalidParameter("SUBSTR counts characters from 1")
                return Value(self._dialect.substring(text.sql, first, *more), Kind.TEXT)

    def _time_name(self, argument: RowExpression) -> str:
        if not isinstance(argument, ColumnValue):
            raise InvalidParameter("dates are taken of a column of dates or times")
        return argument.name

    def _time_part(self, expression: TimePart) -> Value:
        column = self._dated(expression.column)
        day = self._dialect.day(column)
        field = expression.field
        if field is TimeField.HOUR:
            if column.kind is Kind.DATE:
                raise InvalidParameter(f"column {column.name!r} holds dates, which have no hour")
            return Value(
                self._dialect.whole(f"CASE WHEN {day} IS NOT NULL THEN {self._dialect.hour(column)} END"), Kind.INTEGER
            )
        if field in (TimeField.SUNDAY_0, TimeField.SUNDAY_1):
            weekday = self._dialect.whole(self._dialect.date_part(TimeUnit.WEEKDAY, day))
            later = " + 1" if field is TimeField.SUNDAY_1 else ""
            return Value(self._dialect.whole(f"MOD({weekday}, 7){later}"), Kind.INTEGER)
        return Value(self._dialect.whole(self._dialect.date_part(TimeUnit(field), day)), Kind.INTEGER)

    def _period_start(self, expression: PeriodStart) -> Value:
        day = self._dialect.day(self._dated(expression.column))
        part = self._dialect.date_part
        match expression.period:
            case Start.DAY:
                return Value(day, Kind.DATE)
            case Start.WEEK:
                earlier = f"{part(TimeUnit.WEEKDAY, day)} - 1"
            case Start.SUNDAY_WEEK:
                earlier = f"MOD({self._dialect.whole(part(TimeUnit.WEEKDAY, day))}, 7)"
            case Start.MONTH:
                earlier = f"{part(TimeUnit.DAY, day)} - 1"
            case _:
                assert_never(expression.period)
        return Value(self._dialect.days_before(day, earlier), Kind.DATE)

    def _dated(self, name: str) -> Column:
        column = self._schema.column(name)
        if column.kind not in _TIMES:
            hint = f": if it is of a CSV file, give its type, as in --type {name}=date"
            raise InvalidParameter(
                f"column {name!r} holds {column.kind} values, not dates or times"
                + (hint if column.kind is Kind.TEXT else "")
            )
        return column


def _check_condition(value: Value) -> None:
    if value.kind is not Kind.BOOLEAN:
        raise InvalidParameter(f"a condition must be true or false, and {value.kind} values are not")


def _place(expression: RowExpression) -> int:
    if not isinstance(expression, ConstantValue) or isinstance(expression.value, bool):
        raise InvalidParameter("SUBSTR takes whole numbers as constants")
    place = expression.value
    if not isinstance(place, int) or not 0 <= place < 10**9:
        raise InvalidParameter(f"SUBSTR takes whole numbers from 0 on, not {place!r}")
    return place


def _null_from(number: str, end: float) -> str:
    """Return a number in floating point, null from `end` on, either way; the number stands once, so it stays short."""
    return _null_at_ends(f"GREATEST(LEAST({number}, {_real(end)}), {_real(-end)})", end)


def _null_at_ends(number: str, end: float) -> str:
    return f"NULLIF(NULLIF({number}, {_real(end)}), {_real(-end)})"


def _real(number: float) -> str:
    """Return a constant of floating point, in parentheses where it has a sign."""
    text = f"{float(number):.17e}"
    return f"({text})" if text.startswith("-") else text

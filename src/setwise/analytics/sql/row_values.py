"""Conversion of SQL expressions over the columns of one row into row expressions, which engines compute from each row.

A row expression is a record, such as `Compared`, of how a value is computed from the cells of a row. Only syntax nodes
with a known meaning are converted; every other node is refused by name.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta

from sqlglot import exp

from setwise.analytics.filter.expression import Operator
from setwise.analytics.filter.parser import DEEPEST, MOST_CONSTANTS
from setwise.analytics.rows.expression import (
    AllOf,
    AnyOf,
    Arithmetic,
    ArithmeticOperator,
    Branch,
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
    RowExpression,
    Start,
    TimeDifference,
    TimeField,
    TimePart,
    TimeShift,
    TimeText,
    TimeWord,
)
from setwise.analytics.sql.syntax import check_parts, column_name, construct_of, like_pattern, number_of, unsupported
from setwise.analytics.sql.time_units import (
    FIELDS,
    FORMATS,
    MONTHS_IN,
    STARTS,
    UNIX_UNITS,
    WEEK_STARTS,
    check_part,
    format_expression,
    format_parts,
    interval_of,
    months_later,
    shift_of,
    unit_name,
    unix_time,
    week_unit,
)
from setwise.errors import InvalidParameter

COMPUTED = (
    "columns and constants are computed with by + - * / %, CASE, IF, COALESCE, NULLIF, LEAST, GREATEST, ABS, FLOOR, "
    "CEIL, ROUND, LOWER, UPPER, TRIM, SUBSTR, LENGTH, ||, CAST, EXTRACT, DATE_TRUNC, DATE_DIFF, TO_CHAR, "
    "x + INTERVAL '1 day' and comparisons"
)
"""The functions and operators that expressions over a row may use, for error messages."""

OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.EQ: Operator.EQUAL,
    exp.NEQ: Operator.UNEQUAL,
    exp.LT: Operator.LESS,
    exp.LTE: Operator.AT_MOST,
    exp.GT: Operator.GREATER,
    exp.GTE: Operator.AT_LEAST,
}
"""The comparison operators by the syntax node that SQL has for them."""

_ARITHMETIC: dict[type[exp.Expr], ArithmeticOperator] = {
    exp.Add: ArithmeticOperator.PLUS,
    exp.Sub: ArithmeticOperator.MINUS,
    exp.Mul: ArithmeticOperator.TIMES,
    exp.Div: ArithmeticOperator.DIVIDED_BY,
    exp.Mod: ArithmeticOperator.MODULO,
}

_FUNCTIONS = {
    "COALESCE": (Function.COALESCE, 2, 50),
    **dict.fromkeys(("IFNULL", "NVL"), (Function.COALESCE, 2, 2)),
    "NULLIF": (Function.NULLIF, 2, 2),
    "LEAST": (Function.LEAST, 2, 10),
    "GREATEST": (Function.GREATEST, 2, 10),
    "ABS": (Function.ABS, 1, 1),
    "FLOOR": (Function.FLOOR, 1, 1),
    **dict.fromkeys(("CEIL", "CEILING"), (Function.CEIL, 1, 1)),
    "ROUND": (Function.ROUND, 1, 2),
    "SIGN": (Function.SIGN, 1, 1),
    "LOWER": (Function.LOWER, 1, 1),
    "UPPER": (Function.UPPER, 1, 1),
    "TRIM": (Function.TRIM, 1, 1),
    **dict.fromkeys(("SUBSTR", "SUBSTRING"), (Function.SUBSTR, 2, 3)),
    "LENGTH": (Function.LENGTH, 1, 1),
    "CHAR_LENGTH": (Function.LENGTH, 1, 1),
    "LEN": (Function.LENGTH, 1, 1),
    "CONCAT": (Function.CONCAT, 2, 10),
    **dict.fromkeys(("DATE", "TO_DATE"), (Function.TO_DATE, 1, 1)),
}
"""The supported functions by name, each with the fewest and the most arguments that it takes."""

TRUNCATIONS = ("DATE_TRUNC", "DATETIME_TRUNC", "TIMESTAMP_TRUNC", "TRUNC")
_INTEGERS = (exp.DType.BIGINT, exp.DType.INT, exp.DType.SMALLINT, exp.DType.TINYINT)
_REALS = (exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL, exp.DType.BIGDECIMAL)
_TEXTS = (exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.NVARCHAR, exp.DType.CHAR, exp.DType.NCHAR)
_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.DATETIME, exp.DType.TIMESTAMPNTZ)

Released = Callable[[exp.Expr], RowExpression]
"""A function that takes a scalar subquery, and returns its value if it reads public tables alone.

Otherwise the function adds it to the releasing SELECTs of the statement, and returns a placeholder for its value."""


class RowReader:
    """Converts SQL syntax nodes into row expressions, which engines compute from each private row.

    - `today` is the value of CURRENT_DATE.
    - `released` takes a scalar subquery, and returns a stand-in for its (noisy) value, which becomes a constant before
      the rows are read. If it is None, scalar subqueries are refused.
    """

    def __init__(self, today: date, released: Released | None = None) -> None:
        self._today = today
        self._released = released
        self._depth = 0

    def read(self, node: exp.Expr) -> RowExpression:
        """Return the row expression (a value that engines compute from each private row) for a SQL syntax node.

        Raises: `InvalidParameter` if the node is not supported, or nests more than `DEEPEST` levels deep.
        """
        self._depth += 1
        try:
            if self._depth > DEEPEST:
                raise InvalidParameter(f"an expression over rows nests more than {DEEPEST} levels deep")
            return self._read(node)
        finally:
            self._depth -= 1  # also after a refusal, because the parser goes on to name all problems of a statement

    def _read(self, node: exp.Expr) -> RowExpression:  # noqa: PLR0912 - one branch for each kind of node
        folded = self.constant_time(node)
        if folded is not None:
            return ConstantValue(folded)
        kind = type(node)
        if kind in _ARITHMETIC:
            check_parts(node, "this", "expression", "typed", "safe")
            if (moved := self._moved_time(node)) is not None:
                return moved
            return Arithmetic(_ARITHMETIC[kind], self.read(node.this), self.read(node.args["expression"]))
        if kind in OPERATORS:
            check_parts(node, "this", "expression")
            if exp.Null in (type(node.this), type(node.args["expression"])):
                raise unsupported("a comparison with NULL", "write IS NULL or IS NOT NULL")
            return Compared(OPERATORS[kind], self.read(node.this), self.read(node.args["expression"]))
        match node:
            case exp.Paren():
                check_parts(node, "this")
                return self.read(node.this)
            case exp.Column():
                return ColumnValue(column_name(node, "an expression"))
            case exp.Literal():
                return ConstantValue(str(node.this) if node.is_string else number_of(node, "a constant"))
            case exp.Neg():
                return self._negative(node)
            case exp.Boolean():
                return ConstantValue(bool(node.this))
            case exp.Null():
                return Case(())
            case exp.And() | exp.Or():
                check_parts(node, "this", "expression")
                parts = tuple(self.read(each) for each in node.flatten())
                return AllOf(parts) if kind is exp.And else AnyOf(parts)
            case exp.Not():
                check_parts(node, "this")
                return Negated(self.read(node.this))
            case exp.Is() | exp.In() | exp.Between() | exp.Like() | exp.ILike() | exp.Escape():
                return self._predicate(node)
            case exp.Case():
                return self._case(node)
            case exp.If():
                check_parts(node, "this", "true", "false")
                return self._conditional(node.this, node.args["true"], node.args.get("false"))
            case exp.Cast() | exp.TryCast():
                return self._cast(node)
            case exp.Floor() | exp.Ceil():
                check_parts(node, "this")
                return Call(Function.FLOOR if kind is exp.Floor else Function.CEIL, (self.read(node.this),))
            case exp.Substring():
                check_parts(node, "this", "start", "length")
                places = [node.args[name] for name in ("start", "length") if node.args.get(name) is not None]
                return self._call("SUBSTR", [node.this, *places])
            case exp.DPipe():
                check_parts(node, "this", "expression", "safe")
                return self._call("CONCAT", list(node.flatten()))
            case exp.Extract():
                return self._part(node)
            case exp.AtTimeZone():
                return self._moment(node)
            case exp.Subquery() if self._released is not None:
                return self._released(node)
            case exp.Anonymous():
                check_parts(node, "this", "expressions")
                return self._call(str(node.this).upper(), node.expressions)
            case _:
                raise unsupported(f"{construct_of(node)} in an expression over rows", COMPUTED)

    def constant_time(self, node: exp.Expr) -> date | datetime | None:
        """Return the date or time that `node` stands for if this value is the same for every row; None otherwise.

        Examples are DATE '2024-05-01', CURRENT_DATE, NOW() (here the start of today), and NOW() - INTERVAL '1 day'.
        """
        match node:
            case exp.Paren():
                return self.constant_time(node.this)
            case exp.CurrentDate():
                return self._today
            case exp.CurrentTimestamp() | exp.CurrentDatetime():
                return datetime.combine(self._today, datetime.min.time())
            case exp.Anonymous() if str(node.this).upper() in _NOW and not node.expressions:
                now = str(node.this).upper()
                return self._today if now == "CURRENT_DATE" else datetime.combine(self._today, datetime.min.time())
            case exp.Anonymous() if str(node.this).upper() in _SHIFTS and len(node.expressions) == 2:
                return self._shift_constant(node.expressions[0], node.expressions[1], _SHIFTS[str(node.this).upper()])
            case exp.Anonymous() if str(node.this).upper() == "DATEADD" and len(node.expressions) == 3:
                unit, number, start = node.expressions
                if type(number) in (exp.Literal, exp.Neg):
                    amount = exp.Literal.string(str(number_of(number, "DATEADD")))
                    return self._shift_constant(start, exp.Interval(this=amount, unit=exp.var(unit.name)), 1)
                return None
            case exp.Anonymous() if str(node.this).upper() in _READ_TIMES:
                return _read_time(node)
            case exp.Add() | exp.Sub() if type(node.args["expression"]) is exp.Interval:
                return self._shift_constant(node.this, node.args["expression"], 1 if type(node) is exp.Add else -1)
            case exp.Cast() if type(node.this) is exp.Literal and node.this.is_string:
                return _literal_time(node)
            case _:
                return None

    def _shift_constant(self, start: exp.Expr, interval: exp.Expr, sign: int) -> date | datetime | None:
        moment = self.constant_time(start)
        if moment is None or type(interval) is not exp.Interval:
            return None
        amount, unit = str(interval.this.name), str(interval.args.get("unit") or "").upper().rstrip("S")
        match = re.fullmatch(r"(-?\d+)\s*(\w*)", amount)
        if match is None:
            return None
        unit = unit or match[2].upper().rstrip("S")
        number = sign * int(match[1])
        if unit not in _DAYS and unit not in MONTHS_IN:
            raise unsupported(f"an INTERVAL of {unit}", "write days, weeks, months or years")
        try:
            if unit in _DAYS:
                return moment + timedelta(days=number * _DAYS[unit])
            return months_later(moment, number * MONTHS_IN[unit])
        except (OverflowError, ValueError):
            raise InvalidParameter(f"{amount} {unit} before or after is no date") from None

    def _negative(self, node: exp.Expr) -> RowExpression:
        inner = self.read(node.this)
        if isinstance(inner, ConstantValue) and isinstance(inner.value, int | float):
            return ConstantValue(-inner.value)
        return Arithmetic(ArithmeticOperator.MINUS, ConstantValue(0), inner)

    def _predicate(self, node: exp.Expr) -> RowExpression:
        inner = node.this if isinstance(node, exp.Escape) else node
        pattern = like_pattern(node) if isinstance(inner, exp.Like | exp.ILike) else ""
        predicate = self._positive_predicate(inner, pattern)
        return Negated(predicate) if inner.args.get("negate") else predicate

    def _positive_predicate(self, node: exp.Expr, pattern: str) -> RowExpression:
        value = self.read(node.this)
        match node:
            case exp.Is():
                check_parts(node, "this", "expression", "negate")
                other = node.args["expression"]
                if type(other) is exp.Null:
                    return IsNull(value)
                if type(other) is exp.Boolean:
                    is_it = Compared(Operator.EQUAL, value, ConstantValue(bool(other.this)))
                    return AllOf((Negated(IsNull(value)), is_it))
                raise unsupported(f"IS {other.sql()}", "write IS NULL, IS TRUE or IS FALSE")
            case exp.In():
                check_parts(node, "this", "expressions", "query", "negate")
                if node.args.get("query") is not None:
                    raise unsupported("IN with a subquery", "list the values, or join the table")
                if any(type(each) is exp.Null for each in node.expressions):
                    raise InvalidParameter("NULL in IN (..) equals no value: leave it out, or write OR x IS NULL")
                if len(node.expressions) > MOST_CONSTANTS:
                    raise InvalidParameter(f"IN lists more than {MOST_CONSTANTS} constants: give a domain instead")
                return AnyOf(tuple(Compared(Operator.EQUAL, value, self.read(each)) for each in node.expressions))
            case exp.Between():
                check_parts(node, "this", "low", "high", "negate")
                low, high = (self.read(node.args[end]) for end in ("low", "high"))
                return AllOf((Compared(Operator.AT_LEAST, value, low), Compared(Operator.AT_MOST, value, high)))
            case _:
                check_parts(node, "this", "expression", "negate")
                return Matched(value, pattern, type(node) is exp.ILike)

    def _case(self, node: exp.Expr) -> RowExpression:
        check_parts(node, "this", "ifs", "default")
        compared = node.args.get("this")
        branches = []
        for branch in node.args["ifs"]:
            condition = self.read(branch.this)
            if compared is not None:
                condition = Compared(Operator.EQUAL, self.read(compared), condition)
            if type(branch.args["true"]) is exp.Null:
                raise unsupported("NULL after THEN", "turn the condition round, and leave ELSE out")
            branches.append(Branch(condition, self.read(branch.args["true"])))
        default = node.args.get("default")
        otherwise = None if default is None or type(default) is exp.Null else self.read(default)
        return Case(tuple(branches), otherwise)

    def _conditional(self, condition: exp.Expr, true: exp.Expr, false: exp.Expr | None) -> RowExpression:
        if type(true) is exp.Null:
            if false is None:
                raise unsupported("NULL in both branches", "leave it out")
            return Case((Branch(Negated(self.read(condition)), self.read(false)),))
        otherwise = None if false is None or type(false) is exp.Null else self.read(false)
        return Case((Branch(self.read(condition), self.read(true)),), otherwise)

    def _cast(self, node: exp.Expr) -> RowExpression:
        check_parts(node, "this", "to", "safe", "_type")
        to = node.args["to"].this
        if to in _INTEGERS:
            return Call(Function.TO_INTEGER, (self.read(node.this),))
        if to in _REALS:
            return Call(Function.TO_FLOAT, (self.read(node.this),))
        if to is exp.DType.DATE:
            return Call(Function.TO_DATE, (self.read(node.this),))
        if to in _TIMES:
            return self.read(node.this)
        if to in _TEXTS:
            check_parts(node.args["to"], "this", "nested")
            return Call(Function.TO_TEXT, (self.read(node.this),))
        raise unsupported(f"CAST to {node.args['to'].sql()}", "cast to INT64, FLOAT64, DATE or TEXT")

    def _call(self, function: str, arguments: Sequence[exp.Expr]) -> RowExpression:
        if function in ("IF", "IIF", "IFF") and len(arguments) == 3:
            return self._conditional(*arguments)
        if function in ("SAFE_DIVIDE", "DIV0") and len(arguments) == 2:
            return Arithmetic(ArithmeticOperator.DIVIDED_BY, *map(self.read, arguments))
        if function == "MOD" and len(arguments) == 2:
            return Arithmetic(ArithmeticOperator.MODULO, *map(self.read, arguments))
        if function == "LEFT" and len(arguments) == 2:
            return Call(Function.SUBSTR, (self.read(arguments[0]), ConstantValue(1), self.read(arguments[1])))
        if (expression := self._time_call(function, arguments)) is not None:
            return expression
        if function not in _FUNCTIONS:
            raise unsupported(function, COMPUTED)
        which, fewest, most = _FUNCTIONS[function]
        if not fewest <= len(arguments) <= most:
            raise InvalidParameter(f"{function} takes {fewest} to {most} values, not {len(arguments)}")
        known = [each for each in arguments if type(each) is not exp.Null]
        if which is Function.COALESCE and len(known) == 1:
            return self.read(known[0])
        return Call(which, tuple(self.read(each) for each in (known if which is Function.COALESCE else arguments)))

    def _part(self, node: exp.Expr) -> RowExpression:
        check_parts(node, "this", "expression")
        check_part(node.this)
        return self._named_part(node.this.name, node.args["expression"])

    def _named_part(self, name: str, argument: exp.Expr) -> RowExpression:
        """Return the row expression (a value per row) for a part of `argument`, a time or the difference of two times.

        `name` is the name of the part, such as YEAR.
        """
        field = FIELDS.get(name.upper())
        if field is None:
            raise unsupported(f"the unit {name.upper()}", f"write one of {', '.join(FIELDS)}")
        inner = argument.unnest()
        if type(inner) is exp.Sub and interval_of(inner.args["expression"]) is None:
            return self._interval_part(field, inner)
        return TimePart(field, self._moment(argument))

    def _interval_part(self, field: TimeField, node: exp.Expr) -> RowExpression:
        """Return the row expression (a value computed from each row) for a part of `node`, the difference of two times.

        `field` is EPOCH (the difference in seconds) or DAY (in complete days); other fields are refused.
        """
        end, start = self._moment(node.this), self._moment(node.args["expression"])
        if field is TimeField.EPOCH:
            seconds = (TimePart(TimeField.EPOCH, end), TimePart(TimeField.EPOCH, start))
            return Arithmetic(ArithmeticOperator.MINUS, *seconds)
        if field is TimeField.DAY:
            return TimeDifference(Start.DAY, start, end, whole=True)
        raise unsupported(f"{field.upper()} of the time between two times", "write DATE_DIFF('day', x, y)")

    def _moment(self, node: exp.Expr) -> RowExpression:
        """Return the row expression (a value per row) for `node`, a date or time, without casts to TIMESTAMP or UTC.

        Such casts can be left out, because engines compute with all times in UTC.

        Raises: `InvalidParameter` for a time zone other than UTC.
        """
        inner = node.unnest()
        if type(inner) is exp.AtTimeZone:
            check_parts(inner, "this", "zone")
            check_zone(inner.args["zone"])
            return self._moment(inner.this)
        is_cast = type(inner) is exp.Anonymous and str(inner.this).upper() in ("TIMESTAMP", "DATETIME")
        if is_cast and len(inner.expressions) == 1 and self.constant_time(inner) is None:
            return self._moment(inner.expressions[0])
        return self.read(inner)

    def _moved_time(self, node: exp.Expr) -> RowExpression | None:
        """Return the row expression (a value per row) for `node`, a time plus or minus an INTERVAL; None otherwise."""
        if type(node) not in (exp.Add, exp.Sub):
            return None
        moment, interval = node.this, node.args["expression"]
        if type(node) is exp.Add and type(moment) is exp.Interval:
            moment, interval = interval, moment
        shift = interval_of(interval.unnest())
        if shift is None:
            return None
        sign = 1 if type(node) is exp.Add else -1
        return TimeShift(self._moment(moment), sign * shift[0], sign * shift[1])

    def _time_call(self, function: str, arguments: Sequence[exp.Expr]) -> RowExpression | None:
        """Return the row expression (a value per row) for `function(arguments)` if it is a time function; else None."""
        count = len(arguments)
        if function in FIELDS and count == 1:
            return self._named_part(function, arguments[0])
        if function in ("DATE_PART", "DATEPART") and count == 2:
            return self._named_part(arguments[0].name, arguments[1])
        if function in UNIX_UNITS and count == 1:
            return unix_time(function, self.read(arguments[0]))
        if function in TRUNCATIONS:
            return self._truncation(function, arguments)
        if function in FORMATS:
            node, written = format_parts(function, arguments)
            return format_expression(function, written, self._moment(node))
        if function in _DIFFERENCES:
            return self._difference(function, arguments)
        if function in _SHIFTS or function in _UNIT_SHIFTS:
            return self._shift(function, arguments)
        if function in ("MONTHNAME", "DAYNAME") and count == 1:
            word = TimeWord.MONTH_NAME if function == "MONTHNAME" else TimeWord.WEEKDAY_NAME
            return TimeText(word, self._moment(arguments[0]))
        if function == "LAST_DAY" and count == 1:
            first = PeriodStart(Start.MONTH, self._moment(arguments[0]))
            return TimeShift(TimeShift(first, months=1), microseconds=-shift_of(1, "DAY")[1])
        return None

    def _difference(self, function: str, arguments: Sequence[exp.Expr]) -> RowExpression:
        """Return the row expression (a value per row) for a call such as DATEDIFF, which counts days or other units.

        The call counts units from one date or time to another. `function` is its name. `arguments` are (unit, start,
        end), (end, start, unit), or (end, start) of DATEDIFF, which counts days. TIMESTAMPDIFF, TIMESTAMP_DIFF and
        DATE_DIFF('week', ..) count complete units. Other calls count how often a new unit begins: from 23:59 to 00:01
        is one day.
        """
        if len(arguments) == 3 and unit_name(arguments[0]):
            unit, start, end = unit_name(arguments[0]), arguments[1], arguments[2]
            if function == "DATE_DIFF" and unit == "ISOWEEK":
                first, last = (PeriodStart(Start.DAY, self._moment(each)) for each in (start, end))
                return TimeDifference(Start.WEEK, first, last, whole=True)
            unit = "ISOWEEK" if unit == "WEEK" else unit
        elif len(arguments) == 3 and unit_name(arguments[2]):
            end, start, unit = arguments[0], arguments[1], unit_name(arguments[2])
        elif len(arguments) == 2 and function == "DATEDIFF":
            end, start, unit = arguments[0], arguments[1], "DAY"
        else:
            raise InvalidParameter(
                f"{function} takes a unit and two dates, as in {function}('day', start, end) or {function}(end, start, "
                f"DAY); the units are {', '.join(STARTS)}"
            )
        return TimeDifference(
            STARTS[unit], self._moment(start), self._moment(end), whole=function in _WHOLE_DIFFERENCES
        )

    def _shift(self, function: str, arguments: Sequence[exp.Expr]) -> RowExpression:
        """Return the row expression (a value per row) for `function(arguments)`, a call such as DATE_ADD.

        Such a call moves a date or time by a number of units of time.
        """
        sign = _SHIFTS.get(function, 1)
        if len(arguments) == 2 and (shift := interval_of(arguments[1])) is not None:
            return TimeShift(self._moment(arguments[0]), sign * shift[0], sign * shift[1])
        if len(arguments) == 3 and unit_name(arguments[0]):
            number = number_of(arguments[1].unnest(), f"the number of {function}")
            if isinstance(number, int):
                months, microseconds = shift_of(sign * number, unit_name(arguments[0]).removeprefix("ISO"))
                return TimeShift(self._moment(arguments[2]), months, microseconds)
        if len(arguments) == 2 and function == "ADD_MONTHS":
            return TimeShift(self._moment(arguments[0]), *shift_of(int(number_of(arguments[1], function)), "MONTH"))
        if len(arguments) == 2 and function in ("DATE_ADD", "DATE_SUB"):
            operator = ArithmeticOperator.PLUS if sign > 0 else ArithmeticOperator.MINUS
            return Arithmetic(operator, self._moment(arguments[0]), self.read(arguments[1]))
        raise InvalidParameter(f"{function} takes a date and an interval: write x + INTERVAL '1 day' of a column x")

    def _truncation(self, function: str, arguments: Sequence[exp.Expr]) -> RowExpression:
        moment, unit = truncation_parts(function, arguments)
        if unit in WEEK_STARTS:
            days = shift_of(WEEK_STARTS[unit], "DAY")[1]
            monday = PeriodStart(Start.WEEK, TimeShift(self._moment(moment), microseconds=-days))
            return TimeShift(monday, microseconds=days)
        if unit not in STARTS:
            raise unsupported(f"{function} to {unit}", f"write one of {', '.join(STARTS)}")
        return PeriodStart(STARTS[unit], self._moment(moment))


_NOW = ("CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_DATETIME", "NOW", "TODAY", "GETDATE")
_SHIFTS = {
    **dict.fromkeys(("DATE_SUB", "TIMESTAMP_SUB", "DATETIME_SUB"), -1),
    **dict.fromkeys(("DATE_ADD", "TIMESTAMP_ADD", "DATETIME_ADD"), 1),
}
_UNIT_SHIFTS = ("DATEADD", "TIMESTAMPADD", "TIMEADD", "ADD_MONTHS")
_DIFFERENCES = ("DATEDIFF", "DATE_DIFF", "DATETIME_DIFF", "TIMESTAMPDIFF", "TIMESTAMP_DIFF")
_WHOLE_DIFFERENCES = ("TIMESTAMPDIFF", "TIMESTAMP_DIFF")
"""The functions that count whole periods, in MySQL and GoogleSQL; the others count starts of periods."""

_DAYS = {"DAY": 1, "WEEK": 7}


def truncation_parts(function: str, arguments: Sequence[exp.Expr]) -> tuple[exp.Expr, str]:
    """Return (syntax node of x, unit in capitals) for a call DATE_TRUNC(x, MONTH) or DATE_TRUNC('month', x).

    `arguments` are the arguments of the call, and `function` names it in error messages. The week of DATE_TRUNC('week',
    x) begins on Monday, as in PostgreSQL and DuckDB, and is called ISOWEEK here. The week of DATE_TRUNC(x, WEEK) begins
    on Sunday, as in GoogleSQL, and is called WEEK.
    """
    if len(arguments) not in (2, 3):
        raise InvalidParameter(f"{function} takes a column and a unit, as in {function}(x, MONTH)")
    first, second, *zone = arguments
    for argument in zone:
        check_zone(argument)
    if first.name.upper() in UNITS and (first.is_string or second.name.upper() not in UNITS):
        unit = first.name.upper()
        return second, "ISOWEEK" if unit == "WEEK" else unit
    if type(second) is exp.Anonymous:
        return first, week_unit(second)
    if second.is_string and second.name.upper() == "WEEK":
        return first, "ISOWEEK"
    if first.is_string and not second.is_string:  # a unit that is not known, such as 'decade'
        return second, first.name.upper()
    return first, second.name.upper()


UNITS = ("YEAR", "QUARTER", "MONTH", "ISOWEEK", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""The units of time that truncation accepts."""


def time_column(node: exp.Expr) -> str | None:
    """Return the name of the column that `node` stands for, with or without casts to DATE, TIMESTAMP or UTC around it.

    None if `node` is anything but a column.
    Raises: `InvalidParameter` if the node has a time zone other than UTC.
    """
    inner = node.unnest()
    if type(inner) is exp.AtTimeZone:
        check_zone(inner.args["zone"])
        inner = inner.this.unnest()
    if is_time_cast(inner):
        inner = inner.this.unnest()
    if type(inner) is exp.Anonymous and str(inner.this).upper() in ("DATE", "TIMESTAMP"):
        inner = inner.expressions[0].unnest() if len(inner.expressions) == 1 else inner
    return column_name(inner, "a date function") if type(inner) is exp.Column else None


def is_time_cast(node: exp.Expr) -> bool:
    """Return whether the syntax node `node` is a cast to DATE or TIMESTAMP."""
    return type(node) in (exp.Cast, exp.TryCast) and node.args["to"].this in (exp.DType.DATE, *_TIMES)


def check_zone(node: exp.Expr) -> None:
    """Raise `InvalidParameter` unless `node`, the syntax node of a time zone, is the text 'UTC'."""
    if type(node) is not exp.Literal or str(node.this).upper() != "UTC":
        raise unsupported(f"{construct_of(node)} as a time zone", "times are grouped in UTC: leave it out")


_READ_TIMES = ("TO_DATE", "TO_TIMESTAMP", "PARSE_DATE", "DATE", "TIMESTAMP", "DATETIME")


def _read_time(node: exp.Expr) -> date | datetime | None:
    """Return the date or time that the call `node` states, such as TO_DATE('2024-01-31', 'YYYY-MM-DD').

    The format in the call is not used, because only ISO format is read. Returns None for a text in another format, and
    for arguments that are not text constants.
    """
    texts = [str(each.this) for each in node.expressions if type(each) is exp.Literal and each.is_string]
    if not texts or len(texts) != len(node.expressions) or len(texts) > 2:
        return None
    written = texts[1] if str(node.this).upper() == "PARSE_DATE" and len(texts) == 2 else texts[0]
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        return None
    return moment.date() if "DATE" in str(node.this).upper() and len(written) == 10 else moment


def _literal_time(node: exp.Expr) -> date | datetime | None:
    written, to = str(node.this.this), node.args["to"].this
    try:
        if to is exp.DType.DATE:
            return date.fromisoformat(written)
        return datetime.fromisoformat(written) if to in _TIMES else None
    except ValueError:
        return None

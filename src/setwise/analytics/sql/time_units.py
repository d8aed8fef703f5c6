"""Conversion of units, intervals, formats and Unix times, as the dialects of SQL write dates and times.

Calls such as DATE_TRUNC over private rows are converted in `row_values.py`.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime

from sqlglot import exp

from setwise.analytics.rows.expression import (
    Arithmetic,
    ArithmeticOperator,
    Call,
    ConstantValue,
    Function,
    RowExpression,
    Start,
    TimeField,
    TimePart,
    TimeText,
    TimeWord,
)
from setwise.analytics.sql.syntax import number_of, unsupported
from setwise.errors import InvalidParameter

FIELDS = {
    "YEAR": TimeField.YEAR,
    "QUARTER": TimeField.QUARTER,
    "MONTH": TimeField.MONTH,
    "WEEK": TimeField.WEEK,
    "ISOWEEK": TimeField.WEEK,
    "WEEKISO": TimeField.WEEK,
    "WEEKOFYEAR": TimeField.WEEK,
    "DAY": TimeField.DAY,
    "DAYOFMONTH": TimeField.DAY,
    "DAYOFYEAR": TimeField.DAY_OF_YEAR,
    "DOY": TimeField.DAY_OF_YEAR,
    "HOUR": TimeField.HOUR,
    "MINUTE": TimeField.MINUTE,
    "SECOND": TimeField.SECOND,
    "EPOCH": TimeField.EPOCH,
    "DAYOFWEEK": TimeField.SUNDAY_1,
    "DOW": TimeField.SUNDAY_0,
    "WEEKDAY": TimeField.SUNDAY_0,
    "ISODOW": TimeField.WEEKDAY,
    "DAYOFWEEKISO": TimeField.WEEKDAY,
    "DAYOFWEEK_ISO": TimeField.WEEKDAY,
}
"""The parts of a date or time by the names that EXTRACT and functions such as YEAR have for them."""

STARTS = {
    "SECOND": Start.SECOND,
    "MINUTE": Start.MINUTE,
    "HOUR": Start.HOUR,
    "DAY": Start.DAY,
    "WEEK": Start.SUNDAY_WEEK,
    "ISOWEEK": Start.WEEK,
    "MONTH": Start.MONTH,
    "QUARTER": Start.QUARTER,
    "YEAR": Start.YEAR,
}
"""The periods of time by the names that units have. A WEEK begins on Sunday, as in GoogleSQL, an ISOWEEK on Monday."""

_WEEKDAYS = ("TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
WEEK_STARTS = {f"WEEK({day})": days for days, day in enumerate(_WEEKDAYS, start=1)}
"""The weeks of GoogleSQL that begin neither on Monday nor on Sunday, with the days from Monday to their first day."""


def week_unit(node: exp.Expr) -> str:
    """Return the name of the unit of time that the SQL call `node` states, such as "WEEK(TUESDAY)" for WEEK(Tuesday).

    The argument is the weekday on which weeks begin. Two units have shorter names: WEEK(SUNDAY) -> "WEEK", WEEK(MONDAY)
    -> "ISOWEEK". A call that is no unit is returned in capitals, too, as f(x) -> "F(X)", and callers refuse it.
    """
    written = f"{node.name.upper()}({', '.join(each.name.upper() for each in node.expressions)})"
    return {"WEEK(MONDAY)": "ISOWEEK", "WEEK(SUNDAY)": "WEEK"}.get(written, written)


def check_part(node: exp.Expr) -> None:
    """Raise `InvalidParameter` if `node`, the part p in EXTRACT(p FROM x), is a call such as WEEK(TUESDAY).

    Only weeks that begin on Monday can be numbered here; EXTRACT calls their number ISOWEEK.
    """
    if isinstance(node, exp.Anonymous):
        raise unsupported(f"EXTRACT({node.sql()} FROM ..)", "write ISOWEEK, the number of the week from Monday")


def week_of_released(moment: exp.Expr, days: int) -> exp.Expr:
    """Return DuckDB's SQL expression for the first day of the week that contains `moment`, a date or time.

    The expression runs over released (noisy) rows. Weeks begin `days` days after Monday: -1 is Sunday. The expression
    is null if `moment` is no date or time.
    """
    time = exp.TryCast(this=moment.copy(), to=exp.DataType.build("TIMESTAMP", dialect="duckdb"))
    shift = exp.Interval(this=exp.Literal.string(str(days)), unit=exp.var("DAY"))
    monday = exp.Anonymous(
        this="DATE_TRUNC", expressions=[exp.Literal.string("week"), exp.paren(exp.Sub(this=time, expression=shift))]
    )
    moved = exp.paren(exp.Add(this=monday, expression=shift.copy()))
    return exp.TryCast(this=moved, to=exp.DataType.build("DATE", dialect="duckdb"))


_SECOND = 1_000_000
_MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": _SECOND,
    "MINUTE": 60 * _SECOND,
    "HOUR": 3600 * _SECOND,
    "DAY": 86_400 * _SECOND,
    "WEEK": 7 * 86_400 * _SECOND,
}
MONTHS_IN = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""The number of months in each unit of time that is no fixed number of days."""
_LONGEST_MONTHS = 12 * 10_000
_LONGEST = 10_000 * 366 * _MICROSECONDS["DAY"]
"""The longest shift of a date or time, in months and in microseconds: beyond it no date is left."""

_AMOUNTS = re.compile(r"\s*([+-]?\d+)\s*([A-Za-z]*)")


def unit_name(node: exp.Expr) -> str:
    """Return the unit of time that `node` names, in capitals and in the singular, such as DAY; "" if it names none.

    - ISOWEEK is a week that begins on Monday: 'week' in quotes, as in DuckDB and PostgreSQL, or WEEK(MONDAY).
    - WEEK is a week that begins on Sunday: WEEK without quotes, as in GoogleSQL.
    """
    if type(node) is exp.Anonymous and [each.name.upper() for each in node.expressions] == ["MONDAY"]:
        return "ISOWEEK" if node.name.upper() == "WEEK" else ""
    if type(node) not in (exp.Literal, exp.Column, exp.Var):
        return ""
    name = node.name.upper().removesuffix("S")
    if name == "WEEK" and node.is_string:
        return "ISOWEEK"
    return name if name in STARTS else ""


def interval_of(node: exp.Expr) -> tuple[int, int] | None:
    """Return the constant INTERVAL `node`, such as INTERVAL '1 day', as (months, microseconds); None for other nodes.

    Raises: `InvalidParameter` for an interval that is not a constant, or has an unknown unit.
    """
    if type(node) is not exp.Interval:
        return None
    amount, unit = node.this, str(node.args.get("unit") or "")
    if type(amount) in (exp.Neg, exp.Paren) or (type(amount) is exp.Literal and not amount.is_string):
        written = str(number_of(amount.unnest(), "an INTERVAL"))
    elif type(amount) is exp.Literal:
        written = str(amount.this)
    else:
        raise unsupported("an INTERVAL that is not a constant", "write its number, as in INTERVAL '7 days'")
    months = microseconds = 0
    pairs: list[tuple[int, str]] = []
    place = 0
    while place < len(written.rstrip()):
        match = _AMOUNTS.match(written, place)
        if match is None or len(pairs) > len(_MICROSECONDS):
            raise unsupported(f"INTERVAL {written[:40]!r}", "write whole numbers and units, as in INTERVAL '1 day'")
        pairs.append((int(match[1]), match[2] or unit))
        place = match.end()
    for number, name in pairs:
        months_of, microseconds_of = shift_of(number, name)
        months, microseconds = months + months_of, microseconds + microseconds_of
    return months, microseconds


def shift_of(number: int, unit: str) -> tuple[int, int]:
    """Return the length of `number` units of time, such as 3 months, as (months, microseconds).

    The number may be negative.
    Raises: `InvalidParameter` for an unknown unit, or for more than 10,000 years.
    """
    name = unit.upper().removesuffix("S")
    months, microseconds = number * MONTHS_IN.get(name, 0), number * _MICROSECONDS.get(name, 0)
    if name not in MONTHS_IN and name not in _MICROSECONDS:
        raise unsupported(
            f"an INTERVAL of {name or number}", f"write {', '.join(_MICROSECONDS)}, {', '.join(MONTHS_IN)}"
        )
    if abs(months) > _LONGEST_MONTHS or abs(microseconds) > _LONGEST:
        raise InvalidParameter("an INTERVAL must be at most 10,000 years")
    return months, microseconds


def months_later(moment: date | datetime, months: int) -> date | datetime:
    """Return `moment` moved by `months` months; the day becomes the last day of the new month if that month is shorter.

    Raises: `InvalidParameter` if the year is out of range.
    """
    place = moment.year * 12 + moment.month - 1 + months
    year, month = divmod(place, 12)
    for day in (moment.day, 30, 29, 28):
        try:
            return moment.replace(year=year, month=month + 1, day=day)
        except ValueError:
            continue
    raise InvalidParameter("there is no such date")


_Words = dict[str, TimeWord | TimeField]

_PERCENT: _Words = {
    "Y": TimeWord.YEAR,
    "y": TimeWord.SHORT_YEAR,
    "m": TimeWord.MONTH,
    "d": TimeWord.DAY,
    "e": TimeField.DAY,
    "j": TimeWord.DAY_OF_YEAR,
    "H": TimeWord.HOUR,
    "I": TimeWord.HOUR_12,
    "p": TimeWord.HALF,
    "M": TimeWord.MINUTE,
    "S": TimeWord.SECOND,
    "B": TimeWord.MONTH_NAME,
    "b": TimeWord.SHORT_MONTH_NAME,
    "A": TimeWord.WEEKDAY_NAME,
    "a": TimeWord.SHORT_WEEKDAY_NAME,
    "V": TimeWord.WEEK,
    "Q": TimeField.QUARTER,
}
"""The letters after % of STRFTIME and FORMAT_DATE."""

_MYSQL: _Words = {
    **{letter: _PERCENT[letter] for letter in "YymdejHIpSba"},
    "c": TimeField.MONTH,
    "k": TimeField.HOUR,
    "h": TimeWord.HOUR_12,
    "i": TimeWord.MINUTE,
    "s": TimeWord.SECOND,
    "M": TimeWord.MONTH_NAME,
    "W": TimeWord.WEEKDAY_NAME,
    "v": TimeWord.WEEK,
}
"""The letters after % of MySQL's DATE_FORMAT."""

_SHORTHANDS = {"%F": "%Y-%m-%d", "%R": "%H:%M"}
_CLOCK = {True: "%H:%i:%s", False: "%H:%M:%S"}

_TO_CHAR: _Words = {
    "YYYY": TimeWord.YEAR,
    "YY": TimeWord.SHORT_YEAR,
    "MM": TimeWord.MONTH,
    "DDD": TimeWord.DAY_OF_YEAR,
    "DD": TimeWord.DAY,
    "HH24": TimeWord.HOUR,
    "HH12": TimeWord.HOUR_12,
    "HH": TimeWord.HOUR_12,
    "MI": TimeWord.MINUTE,
    "SS": TimeWord.SECOND,
    "IW": TimeWord.WEEK,
    "AM": TimeWord.HALF,
    "PM": TimeWord.HALF,
    "Q": TimeField.QUARTER,
    "MONTH": TimeWord.MONTH_NAME,
    "MON": TimeWord.SHORT_MONTH_NAME,
    "DAY": TimeWord.WEEKDAY_NAME,
    "DY": TimeWord.SHORT_WEEKDAY_NAME,
}
"""The patterns of TO_CHAR, whose names are written in the case of the pattern."""

_NAMES = (
    TimeWord.MONTH_NAME,
    TimeWord.SHORT_MONTH_NAME,
    TimeWord.WEEKDAY_NAME,
    TimeWord.SHORT_WEEKDAY_NAME,
    TimeWord.HALF,
)

_JAVA: _Words = {
    "yyyy": TimeWord.YEAR,
    "yy": TimeWord.SHORT_YEAR,
    "MMMM": TimeWord.MONTH_NAME,
    "MMM": TimeWord.SHORT_MONTH_NAME,
    "MM": TimeWord.MONTH,
    "M": TimeField.MONTH,
    "dd": TimeWord.DAY,
    "d": TimeField.DAY,
    "DDD": TimeWord.DAY_OF_YEAR,
    "HH": TimeWord.HOUR,
    "H": TimeField.HOUR,
    "hh": TimeWord.HOUR_12,
    "mm": TimeWord.MINUTE,
    "ss": TimeWord.SECOND,
    "EEEE": TimeWord.WEEKDAY_NAME,
    "EEE": TimeWord.SHORT_WEEKDAY_NAME,
    "E": TimeWord.SHORT_WEEKDAY_NAME,
    "a": TimeWord.HALF,
    "Q": TimeField.QUARTER,
}
"""The patterns of Spark's DATE_FORMAT."""

FORMATS = (
    "TO_CHAR", "STRFTIME", "DATE_FORMAT", "FORMAT_DATE", "FORMAT_DATETIME", "FORMAT_TIMESTAMP"
)  # fmt: skip
"""The functions that write a date or time as text in a format."""

_LONGEST_FORMAT = 100


def format_parts(function: str, arguments: Sequence[exp.Expr]) -> tuple[exp.Expr, str]:
    """Return (syntax node of the date or time, format) of a call such as TO_CHAR(x, 'YYYY-MM').

    `arguments` are the arguments of the call of `function`, in either order; the format must be a text constant.
    Raises: `InvalidParameter` for other arguments, or a format that is too long.
    """
    texts = [each for each in arguments if type(each) is exp.Literal and each.is_string]
    others = [each for each in arguments if type(each) is not exp.Literal]
    if len(arguments) != 2 or len(texts) != 1 or len(others) != 1:
        example = "%Y-%m" if function != "TO_CHAR" else "YYYY-MM"
        raise InvalidParameter(f"{function} takes a date or time and a format, as in {function}(x, '{example}')")
    written = str(texts[0].this)
    if len(written) > _LONGEST_FORMAT:
        raise InvalidParameter(f"a format must be at most {_LONGEST_FORMAT} characters long")
    return others[0], written


def format_expression(function: str, written: str, moment: RowExpression) -> RowExpression:
    """Return the row expression (a value computed from each row) that writes the date or time `moment` as text.

    `written` is the format, and `function` is the SQL function whose argument it is. Formats depend on the function:
    TO_CHAR has patterns such as YYYY, and STRFTIME such as %Y.
    Raises: `InvalidParameter` for a pattern that is not supported.
    """
    if function == "TO_CHAR":
        parts = _char_parts(written, moment)
    elif function == "DATE_FORMAT" and "%" not in written:
        parts = _java_parts(written, moment)
    else:
        parts = _percent_parts(function, written, moment)
    if not any(isinstance(part, TimeText | TimePart | Call) for part in parts):
        raise InvalidParameter(f"the format {written!r} of {function} names no part of a date or time")
    return Call(Function.CONCAT, tuple(parts))


def _part(word: TimeWord | TimeField, moment: RowExpression) -> RowExpression:
    """Return the row expression (a value computed from each row) for the part `word` of the date or time `moment`.

    The value is text for a `TimeWord`, such as the name of a month, and a number for a `TimeField`, such as the day.
    """
    return TimeText(word, moment) if isinstance(word, TimeWord) else TimePart(word, moment)


def _percent_parts(function: str, written: str, moment: RowExpression) -> list[RowExpression]:
    """Return row expressions for the successive parts of `written`, a format with patterns such as %Y-%m.

    A row expression is a value computed from each row. Joined, the values of all parts are the text of the date or time
    `moment`. `function` is the function that has the format, and decides which patterns are known.
    """
    is_mysql = function == "DATE_FORMAT"
    letters = _MYSQL if is_mysql else _PERCENT
    for short, long in (*_SHORTHANDS.items(), ("%T", _CLOCK[is_mysql])):
        written = written.replace(short, long)
    parts: list[RowExpression] = []
    for text in re.findall(r"%.|%|[^%]+", written, re.DOTALL):
        if not text.startswith("%"):
            parts.append(ConstantValue(text))
        elif text == "%%":
            parts.append(ConstantValue("%"))
        elif text[1:] in letters:
            parts.append(_part(letters[text[1:]], moment))
        else:
            raise unsupported(f"{text} in {function}", f"write %{', %'.join(letters)}")
    return parts


def _char_parts(written: str, moment: RowExpression) -> list[RowExpression]:
    """Return row expressions for the successive parts of `written`, a format of TO_CHAR such as YYYY-MM.

    A row expression is a value computed from each row. Joined, the values of all parts are the text of the date or time
    `moment`. Names of months and days are not padded with spaces.
    """
    # PostgreSQL pads names of months and days with spaces, unless FM stands before them; here they are never padded.
    patterns = sorted(_TO_CHAR, key=len, reverse=True)
    parts: list[RowExpression] = []
    for text in re.findall(rf'"[^"]*"|FM|{"|".join(patterns)}|[A-Z]+|[^A-Z"]+|"', written, re.DOTALL | re.IGNORECASE):
        word = _TO_CHAR.get(text.upper())
        if word is not None:
            part = _part(word, moment)
            if word in _NAMES and text[:2].isupper():
                part = Call(Function.UPPER, (part,))
            elif word in _NAMES and text.islower():
                part = Call(Function.LOWER, (part,))
            parts.append(part)
        elif len(text) > 1 and text.startswith('"'):
            parts.append(ConstantValue(text[1:-1]))
        elif text.upper() == "FM":
            continue
        elif text[0].isascii() and text[0].isalpha():
            raise unsupported(f"{text} in TO_CHAR", f"write {', '.join(_TO_CHAR)}, and other letters in double quotes")
        else:
            parts.append(ConstantValue(text))
    return parts


def _java_parts(written: str, moment: RowExpression) -> list[RowExpression]:
    """Return row expressions for the successive parts of `written`, a format of Spark's DATE_FORMAT such as yyyy-MM.

    A row expression is a value computed from each row. Joined, the values of all parts are the text of the date or time
    `moment`. Text in single quotes stands for itself.
    """
    parts: list[RowExpression] = []
    for match in re.finditer(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+|'", written):
        text = match[0]
        if match[2] is None:
            parts.append(ConstantValue(text if match[1] is None else match[1]))
        elif text in _JAVA:
            parts.append(_part(_JAVA[text], moment))
        else:
            raise unsupported(f"{text} in DATE_FORMAT", f"write {', '.join(_JAVA)}, or %Y-%m as in MySQL")
    return parts


_STRFTIME = {
    TimeWord.YEAR: "%Y",
    TimeWord.SHORT_YEAR: "%y",
    TimeWord.MONTH: "%m",
    TimeWord.DAY: "%d",
    TimeWord.DAY_OF_YEAR: "%j",
    TimeWord.HOUR: "%H",
    TimeWord.HOUR_12: "%I",
    TimeWord.HALF: "%p",
    TimeWord.MINUTE: "%M",
    TimeWord.SECOND: "%S",
    TimeWord.WEEK: "%V",
    TimeWord.MONTH_NAME: "%B",
    TimeWord.SHORT_MONTH_NAME: "%b",
    TimeWord.WEEKDAY_NAME: "%A",
    TimeWord.SHORT_WEEKDAY_NAME: "%a",
    TimeField.DAY: "%-d",
    TimeField.MONTH: "%-m",
    TimeField.HOUR: "%-H",
}
"""The parts of a date or time that formats may name, as DuckDB's STRFTIME writes them; the quarter has no pattern."""


def format_released(function: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """Return DuckDB's SQL expression for a call such as TO_CHAR(x, 'YYYY-MM') over released (noisy) rows.

    `arguments` are the arguments of the call of `function`. The same formats are accepted as over private rows, and
    they give the same texts. A value that is no date or time gives null.
    Raises: `InvalidParameter` for other arguments, or a pattern that is not supported.
    """
    moment, written = format_parts(function, arguments)
    expression = format_expression(function, written, ConstantValue(""))
    assert isinstance(expression, Call), "a format is the concatenation of its parts"
    parts = [_released_part(part, moment) for part in expression.arguments]
    text = parts[0]
    for part in parts[1:]:
        text = exp.DPipe(this=text, expression=part)
    return exp.paren(text)


def _released_part(part: RowExpression, moment: exp.Expr) -> exp.Expr:
    """Return DuckDB's SQL expression for one part of a format, such as the year, of the date or time `moment`.

    `part` is the row expression that computes the same part over private rows. `moment` is a syntax node, an expression
    over released (noisy) rows.
    """
    time = exp.TryCast(this=moment.copy(), to=exp.DataType.build("TIMESTAMP", dialect="duckdb"))
    match part:
        case ConstantValue():
            return exp.Literal.string(str(part.value))
        case Call():
            inner = _released_part(part.arguments[0], moment)
            return exp.Anonymous(this=part.function.value, expressions=[inner])
        case TimeText() if part.word in _STRFTIME:
            return exp.Anonymous(this="STRFTIME", expressions=[time, exp.Literal.string(_STRFTIME[part.word])])
        case TimePart() if part.field in _STRFTIME:
            return exp.Anonymous(this="STRFTIME", expressions=[time, exp.Literal.string(_STRFTIME[part.field])])
        case _:
            quarter = exp.Anonymous(this="QUARTER", expressions=[time])
            return exp.TryCast(this=quarter, to=exp.DataType.build("VARCHAR", dialect="duckdb"))


EPOCH_FUNCTIONS = ("TO_TIMESTAMP", "FROM_UNIXTIME", "TIMESTAMP_SECONDS")
"""Functions that convert a number of seconds since 1970 to a time."""


def seconds_of(node: exp.Expr) -> exp.Expr:
    """Return x if `node` is TO_TIMESTAMP(x), a time given in seconds since 1970; return any other node itself.

    Different seconds are different times, so GROUP BY TO_TIMESTAMP(x) and GROUP BY x give the same groups.
    """
    call = node.unnest()
    if type(call) is not exp.Anonymous or str(call.this).upper() not in EPOCH_FUNCTIONS or len(call.expressions) != 1:
        return node
    seconds: exp.Expr = call.expressions[0].unnest()
    return seconds


UNIX_UNITS = {
    **dict.fromkeys((*EPOCH_FUNCTIONS, "TO_TIMESTAMP_NTZ"), 1),
    **dict.fromkeys(("TIMESTAMP_MILLIS", "EPOCH_MS"), 1_000),
    "TIMESTAMP_MICROS": 1_000_000,
}
"""Functions that convert a number since 1970 to a time, each with the number of units in a second."""


def unix_time(function: str, number: RowExpression) -> RowExpression:
    """Return the row expression (a value per row) for the time that `function(number)` computes from a number.

    `function` is a key of `UNIX_UNITS`, such as TO_TIMESTAMP, which says whether `number` is in seconds, milliseconds
    or microseconds since the start of 1970. If `number` is a column divided by 1000 or 1000000, no division is
    computed, so that no precision is lost: in TO_TIMESTAMP(t / 1000), t is read as milliseconds.
    """
    per_second = UNIX_UNITS[function]
    match number:
        case Arithmetic(ArithmeticOperator.DIVIDED_BY, column, ConstantValue(int(divisor) | float(divisor))):
            if divisor in (1_000, 1_000_000) and per_second * divisor <= 1_000_000:
                return Call(Function.FROM_UNIX, (column, ConstantValue(per_second * int(divisor))))
        case _:
            pass
    return Call(Function.FROM_UNIX, (number, ConstantValue(per_second)))


def check_epochs(tree: exp.Expr) -> None:
    """Raise `InvalidParameter` if the statement `tree` groups by, or selects, a column of seconds since 1970 as a time.

    An example is GROUP BY TO_TIMESTAMP(x), in which every second would be a group of its own. Milliseconds and
    microseconds since 1970 are refused in the same way. The message suggests to group by a period instead.
    """
    for node in tree.find_all(exp.Anonymous):
        if str(node.this).upper() not in UNIX_UNITS or not node.expressions:
            continue
        column, parent = node.expressions[0].unnest(), node.parent
        while isinstance(parent, exp.Paren | exp.Alias):
            parent = parent.parent
        if type(column) is exp.Column and isinstance(parent, exp.Select | exp.Group):
            call = node.sql("duckdb")
            raise InvalidParameter(
                f"{call} has a group for every second: group by a period of it, as in DATE_TRUNC('week', {call}), or "
                f"compare it, as in {call} >= '2026-01-01'"
            )

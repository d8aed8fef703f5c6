"""Compiler from computed dates and times to the SQL of an engine.

A date is computed as a date of the engine, and a time as the number of microseconds since 0001-01-01, in 64 bits. That
number is never negative, so that every engine's division, which rounds towards 0, finds the period that holds a time.
0001-01-01 was a Monday, so weeks are found by dividing, too. A result outside the years 1 to 9999 is null.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import assert_never

from setwise.analytics.bins import TimeUnit
from setwise.analytics.engines.dialect import DAY_MICROSECONDS, EPOCH_DAYS, Dialect, real_constant
from setwise.analytics.rows.expression import (
    Call,
    Case,
    ColumnValue,
    ConstantValue,
    Function,
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
from setwise.analytics.schema import TIME_KINDS, Column, Kind, Schema
from setwise.errors import InvalidParameter

"""The kinds of dates and times."""

_SECOND = 1_000_000
_MICROSECONDS = {Start.SECOND: _SECOND, Start.MINUTE: 60 * _SECOND, Start.HOUR: 3600 * _SECOND}
"""Microseconds per period, of the periods that are shorter than a day."""

_DAYS = {Start.DAY: 1, Start.WEEK: 7, Start.SUNDAY_WEEK: 7}
_CLOCK = {TimeField.HOUR: (Start.HOUR, 24), TimeField.MINUTE: (Start.MINUTE, 60), TimeField.SECOND: (Start.SECOND, 60)}
"""The period that each part of the time of day counts, and the number of such parts in the next longer one."""

_MOST_DAYS = 4_000_000
"""More days than lie between two dates of the years 1 to 9999."""

_CHOICES = (Function.COALESCE, Function.NULLIF, Function.LEAST, Function.GREATEST)
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_SHORT_NAME = 3
_NUMBER_WORDS = {
    TimeWord.YEAR: (TimeField.YEAR, 4),
    TimeWord.MONTH: (TimeField.MONTH, 2),
    TimeWord.DAY: (TimeField.DAY, 2),
    TimeWord.DAY_OF_YEAR: (TimeField.DAY_OF_YEAR, 3),
    TimeWord.HOUR: (TimeField.HOUR, 2),
    TimeWord.MINUTE: (TimeField.MINUTE, 2),
    TimeWord.SECOND: (TimeField.SECOND, 2),
    TimeWord.WEEK: (TimeField.WEEK, 2),
}
"""The parts that are written as numbers, each with its number of digits."""

_NO_TIME = (
    "a date function takes a column of dates or times, or a date computed from one: write DATE_TRUNC('month', x), "
    "CAST(x AS DATE) or x + INTERVAL '1 day' of a column x"
)


class TimeCompiler:
    """Compiles dates, times and their parts, computed from each row of a table, to SQL in one engine's `dialect`.

    `schema` has the columns of the table. `condition` is the function that returns the SQL of a condition, such as one
    in a CASE. Methods raise `InvalidParameter` for a value that is neither a date nor a time.
    """

    def __init__(self, schema: Schema, dialect: Dialect, condition: Callable[[RowExpression], str]) -> None:
        self._schema = schema
        self._dialect = dialect
        self._condition = condition

    def kind(self, expression: RowExpression) -> Kind | None:
        """Return the type of `expression`, a value computed from one row, if it is a date or a time; otherwise None.

        A computed time has the type `Kind.TIMESTAMP`, in UTC. A column has its own type.
        """
        match expression:
            case ColumnValue(name):
                kind = self._schema.column(name).kind
                return kind if kind in TIME_KINDS else None
            case ConstantValue(value) if isinstance(value, date):
                return Kind.TIMESTAMP if isinstance(value, datetime) else Kind.DATE
            case PeriodStart(period, _):
                return Kind.TIMESTAMP if period in _MICROSECONDS else Kind.DATE
            case TimeShift(moment, _, microseconds):
                is_date = self.kind(moment) is Kind.DATE and microseconds % DAY_MICROSECONDS == 0
                return Kind.DATE if is_date else Kind.TIMESTAMP
            case Call(Function.TO_DATE, _):
                return Kind.DATE
            case Call(Function.FROM_UNIX, _):
                return Kind.TIMESTAMP
            case Case() | Call() if (values := _choices(expression)) is not None:
                kinds = {self.kind(each) for each in values if not _is_text(each)}
                if not kinds or None in kinds:
                    return None
                return kinds.pop() if len(kinds) == 1 else Kind.TIMESTAMP
            case _:
                return None

    def computed_date(self, expression: RowExpression) -> str:
        """Return the SQL expression of `expression`, a date computed from one row that is to become a column.

        Raises: `InvalidParameter` for a computed time (with a time of day), because engines share no column type for
        it.
        """
        if self.kind(expression) is Kind.DATE:
            return self.day(expression)
        self.microseconds(expression)  # raises first if the expression is not a time at all
        raise InvalidParameter(
            "a computed time is no column: take its date, a part or a difference, or write it as text, as in "
            "TO_CHAR(.., 'YYYY-MM-DD HH24:MI')"
        )

    def day(self, expression: RowExpression) -> str:
        """Return the SQL expression of the date, in UTC, of `expression`, a date or time computed from one row."""
        match expression:
            case ColumnValue(name):
                return self._dialect.day(self._time_column(name))
            case ConstantValue():
                return self._dialect.date_constant(_constant_time(expression).date())
            case Call(Function.TO_DATE, (argument,)):
                return self.day(argument)
            case PeriodStart(period, moment) if period not in _MICROSECONDS:
                return self._first_day(period, moment)
            case TimeShift(moment, months, microseconds) if microseconds % DAY_MICROSECONDS == 0:
                return self._later_day(self._month_later(moment, months), str(microseconds // DAY_MICROSECONDS))
            case Case() | Call() if self.kind(expression) is Kind.DATE:
                return self._choice(expression, self.day)
            case _:
                return self._dialect.numbered_day(
                    self._dialect.quotient(self.microseconds(expression), DAY_MICROSECONDS)
                )

    def microseconds(self, expression: RowExpression) -> str:
        """Return the SQL of the microseconds from 0001-01-01 to `expression`, a date or time, as a 64-bit integer.

        Raises: `InvalidParameter` if `expression` is neither a date nor a time.
        """
        match expression:
            case ColumnValue(name) if (column := self._time_column(name)).kind is not Kind.DATE:
                return self._dialect.microseconds(column)
            case ConstantValue():
                return str((_constant_time(expression) - datetime.min) // timedelta(microseconds=1))
            case PeriodStart(period, moment) if period in _MICROSECONDS:
                number = self.microseconds(moment)
                return f"({number} - MOD({number}, {_MICROSECONDS[period]}))"
            case TimeShift(moment, months, microseconds):
                if months:
                    day = self._dialect.day_number(self._month_later(moment, months))
                    number = f"({day} * {DAY_MICROSECONDS} + MOD({self.microseconds(moment)}, {DAY_MICROSECONDS}))"
                else:
                    number = self.microseconds(moment)
                return self._in_range(f"{number} + ({microseconds})", DAY_MICROSECONDS) if microseconds else number
            case Call(Function.FROM_UNIX, (number, ConstantValue(int(per_second)))):
                return self._unix_time(number, per_second)
            case Case() | Call() if self.kind(expression) in (Kind.TIMESTAMP, Kind.INSTANT):
                return self._choice(expression, self.microseconds)
            case _ if self.kind(expression) is Kind.DATE:
                return f"({self._dialect.day_number(self.day(expression))} * {DAY_MICROSECONDS})"
            case _:
                raise InvalidParameter(_NO_TIME)

    def part(self, expression: TimePart) -> tuple[str, Kind]:
        """Return (SQL, type) of a part of a date or time, such as the year; `expression` names the part and the time.

        The part is an integer, or a float for the seconds since 1970.
        Raises: `InvalidParameter` for the hour, minute or second of a date.
        """
        field, moment = expression.field, expression.moment
        if field is TimeField.EPOCH:
            return self._epoch(moment), Kind.FLOAT
        if field in _CLOCK:
            self._check_clock(field, moment)
            if field is TimeField.HOUR and isinstance(moment, ColumnValue):
                column = self._time_column(moment.name)
                number = f"CASE WHEN {self._dialect.day(column)} IS NOT NULL THEN {self._dialect.hour(column)} END"
            else:
                period, count = _CLOCK[field]
                number = f"MOD({self._dialect.quotient(self.microseconds(moment), _MICROSECONDS[period])}, {count})"
            return self._dialect.int64(number), Kind.INTEGER
        day = self.day(moment)
        match field:
            case TimeField.SUNDAY_0 | TimeField.SUNDAY_1:
                weekday = self._dialect.int64(self._dialect.date_part(TimeUnit.WEEKDAY, day))
                number = f"MOD({weekday}, 7){' + 1' if field is TimeField.SUNDAY_1 else ''}"
            case TimeField.DAY_OF_YEAR:
                first = self._first_day(Start.YEAR, moment)
                number = f"{self._dialect.day_number(day)} - {self._dialect.day_number(first)} + 1"
            case _:
                number = self._dialect.date_part(TimeUnit(field), day)
        return self._dialect.int64(number), Kind.INTEGER

    def text(self, expression: TimeText) -> str:
        """Return the SQL of a part of a date or time as text, such as 07 or July for the month.

        `expression` names the date or time (`moment`), and the part with the form of its text (`word`).
        """
        word, moment = expression.word, expression.moment
        match word:
            case TimeWord.MONTH_NAME | TimeWord.SHORT_MONTH_NAME:
                return self._name(TimeField.MONTH, moment, _MONTHS, word is TimeWord.SHORT_MONTH_NAME)
            case TimeWord.WEEKDAY_NAME | TimeWord.SHORT_WEEKDAY_NAME:
                return self._name(TimeField.WEEKDAY, moment, _WEEKDAYS, word is TimeWord.SHORT_WEEKDAY_NAME)
            case TimeWord.HALF:
                return self._name(TimeField.HOUR, moment, ["AM"] * 12 + ["PM"] * 12, False, first=0)
            case TimeWord.HOUR_12:
                hours = [f"{(hour + 11) % 12 + 1:02}" for hour in range(24)]
                return self._name(TimeField.HOUR, moment, hours, False, first=0)
            case TimeWord.SHORT_YEAR:
                return self._dialect.substring(self._digits(TimeField.YEAR, moment, 4), 3, 2)
            case _:
                field, digits = _NUMBER_WORDS[word]
                return self._digits(field, moment, digits)

    def difference(self, expression: TimeDifference) -> str:
        """Return the SQL expression of the number of periods, such as months, between two dates or times.

        `expression` names the period and the two times, `start` and `end`. If `expression.whole`, complete periods are
        counted: 0 months from 31 January to 1 February. Otherwise the beginnings of periods are counted: 1 month from
        31 January to 1 February. The number is negative if the end is before the start.
        """
        period, start, end = expression.period, expression.start, expression.end
        if period in _MICROSECONDS or (expression.whole and period in _DAYS):
            size = _MICROSECONDS.get(period) or _DAYS[period] * DAY_MICROSECONDS
            if expression.whole:
                between = f"({self.microseconds(end)} - {self.microseconds(start)})"
                return self._dialect.int64(self._dialect.quotient(between, size))
            ends = [self._dialect.quotient(self.microseconds(each), size) for each in (end, start)]
        elif period in _DAYS:
            days = [self._dialect.day_number(self.day(each)) for each in (end, start)]
            if period is Start.SUNDAY_WEEK:
                days = [f"({each} + 1)" for each in days]
            ends = days if period is Start.DAY else [self._dialect.quotient(each, 7) for each in days]
        elif expression.whole:
            return self._whole_months(period, start, end)
        else:
            ends = [self._period_number(period, each) for each in (end, start)]
        return self._dialect.int64(f"({ends[0]} - {ends[1]})")

    def move_date(self, moment: RowExpression, sign: str, days: str) -> str:
        """Return the SQL expression of the date `days` days after (or before) the date `moment`.

        `sign` is "+" for after and "-" for before. `days` is the SQL expression of a 64-bit integer or null.
        """
        # `_MOST_DAYS` is more days than the years 1 to 9999 have. Clipping keeps the sum from overflowing.
        return self._later_day(self.day(moment), f"{sign} GREATEST(LEAST({days}, {_MOST_DAYS}), -{_MOST_DAYS})")

    def _whole_months(self, period: Start, start: RowExpression, end: RowExpression) -> str:
        """Return SQL for how many complete months, quarters or years (`period`) have passed from `start` to `end`.

        From 15 January 10:00, the first month is complete on 15 February at 10:00. The number is negative or 0 if `end`
        is before `start`.
        """
        months = f"({self._period_number(Start.MONTH, end)} - {self._period_number(Start.MONTH, start)})"
        in_month = [
            f"({self.part(TimePart(TimeField.DAY, moment))[0]} * {DAY_MICROSECONDS}"
            f" + MOD({self.microseconds(moment)}, {DAY_MICROSECONDS}))"
            for moment in (end, start)
        ]
        later = f"CASE WHEN {months} > 0 AND {in_month[0]} < {in_month[1]} THEN 1 "
        later += f"WHEN {months} < 0 AND {in_month[0]} > {in_month[1]} THEN -1 ELSE 0 END"
        size = {Start.MONTH: 1, Start.QUARTER: 3, Start.YEAR: 12}[period]
        return self._dialect.int64(self._dialect.quotient(self._dialect.int64(f"({months} - {later})"), size))

    def _period_number(self, period: Start, moment: RowExpression) -> str:
        """Return SQL for a running number of the `period` (year, quarter or month) that holds the time `moment`.

        Numbers of consecutive periods differ by 1, so that a difference of two numbers counts periods. Year y has the
        number y, its quarter q the number 4 y + q, and its month m the number 12 y + m.
        """
        year = self.part(TimePart(TimeField.YEAR, moment))[0]
        match period:
            case Start.YEAR:
                return year
            case Start.QUARTER:
                return f"({year} * 4 + {self.part(TimePart(TimeField.QUARTER, moment))[0]})"
            case _:
                return f"({year} * 12 + {self.part(TimePart(TimeField.MONTH, moment))[0]})"

    def _first_day(self, period: Start, moment: RowExpression) -> str:
        """Return SQL for the first day, as a date, of the `period` (a day or longer) that holds `moment`."""
        day = self.day(moment)
        part = self._dialect.date_part
        match period:
            case Start.DAY:
                return day
            case Start.WEEK:
                return self._dialect.days_before(day, f"{part(TimeUnit.WEEKDAY, day)} - 1")
            case Start.SUNDAY_WEEK:
                return self._later_day(day, f"- MOD({self._dialect.int64(part(TimeUnit.WEEKDAY, day))}, 7)")
            case Start.MONTH:
                return self._dialect.days_before(day, f"{part(TimeUnit.DAY, day)} - 1")
            case Start.QUARTER:
                return self._dialect.first_of_month(part(TimeUnit.YEAR, day), f"{part(TimeUnit.QUARTER, day)} * 3 - 2")
            case Start.YEAR:
                return self._dialect.first_of_month(part(TimeUnit.YEAR, day), "1")
            case Start.HOUR | Start.MINUTE | Start.SECOND:
                raise AssertionError("periods shorter than a day have no first day")
            case _:
                assert_never(period)

    def _month_later(self, moment: RowExpression, months: int) -> str:
        """Return SQL for the date of `moment` moved by `months` months; null outside the years 1 to 9999.

        Dates whose result would be outside become null before they are moved, because PostgreSQL fails otherwise.
        """
        day = self.day(moment)
        if months == 0:
            return day
        if months > 0:
            bound = _first_of_month(10_000 * 12 - months)  # the first day that is too late
            extreme = "LEAST"
        else:
            late_enough = 12 - months  # the first month that is not too early; the day before it is the last too early
            bound = date.max if late_enough >= 10_000 * 12 else _first_of_month(late_enough) - timedelta(days=1)
            extreme = "GREATEST"
        excluded = self._dialect.date_constant(bound)
        kept = self._dialect.null_if(f"{extreme}({day}, {excluded})", excluded)
        return self._dialect.months_later(kept, months)

    def _later_day(self, day: str, days: str) -> str:
        """Return SQL for the date that is `days` days after the date `day`; null outside the years 1 to 9999.

        Both arguments are SQL expressions, and `days` may be negative.
        """
        if days == "0":
            return day
        return self._dialect.numbered_day(self._in_range(f"{self._dialect.day_number(day)} + ({days})", 1))

    def _in_range(self, number: str, per_day: int) -> str:
        """Return a SQL expression equal to the SQL integer `number`, a time, but null outside the years 1 to 9999.

        `number` counts days, or shorter units of time, since 0001-01-01. `per_day` is the number of such units in a
        day.
        """
        end = date.max.toordinal() * per_day
        return self._dialect.null_if(f"GREATEST(LEAST({number}, {end}), -1)", str(end), "-1")

    def _unix_time(self, number: RowExpression, per_second: int) -> str:
        """Return SQL for the microseconds from 0001-01-01 to a Unix time, which counts units of time since 1970-01-01.

        `number` must be an integer column with the Unix times, and `per_second` says how many units make a second, such
        as 1000 if the Unix times are in milliseconds. A time outside the years 1 to 9999 becomes null.
        Raises: `InvalidParameter` if `number` is not a column of integers.
        """
        column = self._schema.column(number.name) if isinstance(number, ColumnValue) else None
        if column is None or column.kind is not Kind.INTEGER:
            message = "a time is made of seconds since 1970 in a column of whole numbers, not of "
            if column is None:
                raise InvalidParameter(f"{message}a computed value")
            message += f"column {column.name!r}, which holds {column.kind} values"
            if column.kind is not Kind.TEXT and not (column.kind is Kind.FLOAT and column.from_text):
                raise InvalidParameter(f"{message}: convert it to integers")
            hint = f": if it is of a file, give its type, as in --type {column.name}=integer"
            raise InvalidParameter(message + hint).needing({column.name: Kind.INTEGER})
        start = EPOCH_DAYS * 86_400 * per_second
        end = date.max.toordinal() * 86_400 * per_second - start
        # clipped before the multiplication, because a product beyond 64 bits fails
        clamped = f"GREATEST(LEAST({self._dialect.integer(column)}, {end}), {-start - 1})"
        return self._in_range(f"({clamped} + {start}) * {_SECOND // per_second}", DAY_MICROSECONDS)

    def _epoch(self, moment: RowExpression) -> str:
        """Return SQL for the seconds from 1970-01-01 to the date or time `moment`, as a float."""
        number = self.microseconds(moment)
        seconds = f"{self._dialect.quotient(number, _SECOND)} - {EPOCH_DAYS * 86_400}"
        fraction = f"{self._dialect.real(f'MOD({number}, {_SECOND})')} / {real_constant(_SECOND)}"
        return f"({self._dialect.real(seconds)} + {fraction})"

    def _digits(self, field: TimeField, moment: RowExpression, digits: int) -> str:
        """Return SQL for the part `field` of the date or time `moment` as text: `digits` digits with leading zeros."""
        number = self._dialect.int64(f"{self.part(TimePart(field, moment))[0]} + {10**digits}")
        return self._dialect.substring(self._dialect.text(number), 2, digits)

    def _name(
        self, field: TimeField, moment: RowExpression, names: Sequence[str], is_short: bool, *, first: int = 1
    ) -> str:
        """Return SQL for the name of the part `field` of the date or time `moment`, such as July for month 7.

        `names` are the names of the numbers `first`, `first` + 1, ... If `is_short`, the result has only the first
        three letters.
        """
        branches = " ".join(
            f"WHEN {number} THEN {self._dialect.text_constant(name[:_SHORT_NAME] if is_short else name)}"
            for number, name in enumerate(names, first)
        )
        return f"CASE {self.part(TimePart(field, moment))[0]} {branches} END"

    def _choice(self, expression: Case | Call, compile_value: Callable[[RowExpression], str]) -> str:
        """Return the SQL of `expression`: CASE, COALESCE, NULLIF, LEAST or GREATEST, which choose among dates or times.

        `compile_value` returns the SQL of each of these dates or times. LEAST and GREATEST are null if one of them is
        null.
        """
        if isinstance(expression, Case):
            branches = " ".join(
                f"WHEN {self._condition(branch.condition)} THEN {compile_value(branch.value)}"
                for branch in expression.branches
            )
            last = "" if expression.otherwise is None else f" ELSE {compile_value(expression.otherwise)}"
            return f"CASE {branches}{last} END"
        values = [compile_value(each) for each in expression.arguments]
        chosen = f"{expression.function}({', '.join(values)})"
        if expression.function in (Function.COALESCE, Function.NULLIF):
            return chosen
        return f"CASE WHEN {' AND '.join(f'{value} IS NOT NULL' for value in values)} THEN {chosen} END"

    def _check_clock(self, field: TimeField, moment: RowExpression) -> None:
        """Raise `InvalidParameter` if `moment` is a date, which has no time of day and so no hour, minute or second.

        `field` is the part, such as the hour, that the analyst asked for. It is named in the message.
        """
        if self.kind(moment) is not Kind.DATE:
            return
        dates = f"column {moment.name!r} holds dates" if isinstance(moment, ColumnValue) else "dates are computed here"
        raise InvalidParameter(f"{dates}, which have no {field}")

    def _time_column(self, name: str) -> Column:
        """Return the column called `name`, which must hold dates or times.

        Raises: `InvalidParameter` if the column holds values of another type.
        """
        column = self._schema.column(name)
        if column.kind not in TIME_KINDS:
            message = f"column {name!r} holds {column.kind} values, not dates or times"
            if column.kind is not Kind.TEXT:
                raise InvalidParameter(message)
            advice = f": if it is of a file, give its type, as in --type {name}=timestamp"
            raise InvalidParameter(message + advice).needing({name: Kind.TIMESTAMP})
        return column


def _choices(expression: Case | Call) -> list[RowExpression] | None:
    """Return the values among which `expression`, such as CASE or COALESCE, chooses one; None if it chooses nothing.

    Besides CASE, these functions choose: COALESCE, NULLIF, LEAST and GREATEST.
    """
    if isinstance(expression, Case):
        values = [branch.value for branch in expression.branches]
        return values if expression.otherwise is None else [*values, expression.otherwise]
    return list(expression.arguments) if expression.function in _CHOICES else None


def _first_of_month(number: int) -> date:
    """Return the first day of month number `number`, which is 12 y + m - 1 for month m of year y.

    The caller compares dates with this day, to find those that a shift by months would move out of the years 1 to 9999.
    A `number` below 12 is a month before the year 1, and gives 0001-01-01. `number` must be below 120,000, because
    Python's dates end with the year 9999.
    """
    year, month = divmod(max(number, 12), 12)
    return date(year, month + 1, 1)


def _is_text(expression: RowExpression) -> bool:
    """Return whether `expression` is a text constant, which may state a date or time, as in '2026-01-31'."""
    return isinstance(expression, ConstantValue) and isinstance(expression.value, str)


def _constant_time(expression: ConstantValue) -> datetime:
    """Return the date or time that the constant `expression` states, in UTC and without a time zone.

    Raises: `InvalidParameter` if the constant is not a date, a time, or text in ISO format.
    """
    value = expression.value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidParameter(f"{value!r} is no date or time: write it as in '2026-01-31 12:00:00'") from None
    if not isinstance(value, date):
        raise InvalidParameter(_NO_TIME)
    if not isinstance(value, datetime):
        return datetime.combine(value, datetime.min.time())
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)

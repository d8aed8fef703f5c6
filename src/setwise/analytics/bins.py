"""Group keys from one column, `at by month`, `age by 10` or `weekday of at`: their grammar (regex) and their labels.

    age            the values of the column
    age by 10      bins of numbers of width 10, labelled by their lower end: 30 holds 30 to 39, and -10 holds -10 to -1
    at by month    periods of time, labelled 2026-01; the other units are year (2026), quarter (2026-Q1), week (the date
                   of its Monday, 2026-01-05), day (2026-01-05) and hour (2026-01-05 13:00)
    month of at    parts of time as whole numbers, here 1 to 12 in every year; the other units include hour (0 to 23),
                   weekday (1 for Monday to 7) and week (ISO week 1 to 53)

A timestamp with a time zone is read in UTC, and one without a time zone as it is written. A value that is not an
integer and lies less than a billionth of the width below the next bin belongs to the next bin, because 0.29 is stored
as slightly less than 0.29. These values belong to no bin and count as missing: nulls, floats that are not numbers,
years outside 1 to 9999, and numbers beyond 2^53 / 10^d in either direction, for a width with d decimals.
"""

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias, assert_never

from setwise.analytics.schema import NUMBER_KINDS, TIME_KINDS, Column, Kind, Schema, type_argument
from setwise.errors import InvalidParameter, UnsuitableTable

LARGEST_BINNED = 2**53
"""Numbers beyond this, in either direction, belong to no bin. A bin cannot be wider either."""

FINEST_WIDTH = 9
"""The most decimals that the width of a bin may have."""


class TimeUnit(StrEnum):
    """The units of time by which a query can group a column of times, in two ways.

    For a column `at`, ``at by month`` makes one group for each month of each year, and ``month of at`` makes one group
    for each of the 12 months, where January of all years is one group.
    """

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    WEEKDAY = "weekday"
    HOUR = "hour"


@dataclass(frozen=True, slots=True)
class Width:
    """Bins of numbers, each `width` wide: one bin holds 0 up to `width`, the next `width` up to 2 * `width`."""

    width: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.width <= LARGEST_BINNED or (self.width * 10**FINEST_WIDTH).denominator != 1:
            raise InvalidParameter(
                f"the width of bins must be a number above 0 of at most {FINEST_WIDTH} decimals, "
                f"not {float(self.width):g}"
            )

    @property
    def decimals(self) -> int:
        """The number of decimals with which labels write the lower ends of bins.

        The lower ends are multiples of `width`, and so many decimals write them exactly: 1 for bins of width 0.5, and 0
        for bins of width 10.

        >>> Width(Fraction(1, 2)).decimals, Width(Fraction(10)).decimals
        (1, 0)
        """
        return next(places for places in range(FINEST_WIDTH + 1) if (self.width * 10**places).denominator == 1)


@dataclass(frozen=True, slots=True)
class ConsecutiveTime:
    """Consecutive periods of time: with the `unit` month, every month of every year is a group of its own."""

    unit: TimeUnit

    def __post_init__(self) -> None:
        if self.unit is TimeUnit.WEEKDAY:
            raise InvalidParameter("a weekday is a part of time: write 'weekday of' and the column")


@dataclass(frozen=True, slots=True)
class RecurringTime:
    """A recurring part of time: with the `unit` month, January of all years is one group, so there are 12 groups."""

    unit: TimeUnit


Bin: TypeAlias = Width | ConsecutiveTime | RecurringTime

_UNIT = "|".join(TimeUnit)
_PART = re.compile(rf"({_UNIT}) of (.+)", re.DOTALL)
_PERIOD = re.compile(rf"(.+) by ({_UNIT})", re.DOTALL)
_WIDTH = re.compile(r"(.+) by ([0-9]+(?:\.[0-9]+)?)", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"]|"")+)"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Group:
    """A column to group by, or bins of that column; `bin` is None if the column itself is the group key.

    As text, a column whose name reads like a bin has double quotes around it.

    >>> parse_group("age by 10") == Group("age", Width(Fraction(10)))
    True
    >>> str(Group("at", RecurringTime(TimeUnit.MONTH))), str(Group("stand by 10"))
    ('month of at', '"stand by 10"')
    """

    column: str
    bin: Bin | None = None

    def __str__(self) -> str:
        name = self.column if parse_group(self.column) == Group(self.column) else _quote_name(self.column)
        match self.bin:
            case None:
                return name
            case Width(width=width):
                return f"{name} by {_number_text(width)}"
            case ConsecutiveTime(unit=unit):
                return f"{name} by {unit}"
            case RecurringTime(unit=unit):
                return f"{unit} of {name}"
            case _:
                assert_never(self.bin)

    def labels(self, schema: Schema) -> Column:
        """Return a `Column` with the name and the kind of the group keys.

        Without a `bin` the result is the table's own column. With a `bin`, such as a width of 10, the result is a new
        column that holds the labels of the bins.
        Raises: `UnsuitableTable` if values of the column's kind cannot be put into these bins; `UnknownColumn` if
        `schema` has no such column.
        """
        column = schema.column(self.column)
        match self.bin:
            case None:
                return column
            case Width(width=width):
                if column.kind not in NUMBER_KINDS:
                    raise _unsuitable(column, str(self), "numbers", "float")
                return Column(name=str(self), kind=Kind.INTEGER if width.denominator == 1 else Kind.TEXT)
            case ConsecutiveTime(unit=unit) | RecurringTime(unit=unit):
                if column.kind not in TIME_KINDS:
                    raise _unsuitable(column, str(self), "dates or times", "timestamp")
                if unit is TimeUnit.HOUR and column.kind is Kind.DATE:
                    raise UnsuitableTable(f"column {self.column!r} holds dates, which have no hour")
                return Column(name=str(self), kind=Kind.TEXT if isinstance(self.bin, ConsecutiveTime) else Kind.INTEGER)
            case _:
                assert_never(self.bin)


def parse_group(text: str) -> Group:
    """Return the group that a text stands for: a column, or a column in bins.

    - ``city`` is a column without bins.
    - ``age by 10`` divides numbers into bins of width 10.
    - ``at by month`` makes every month of every year a group, and ``month of at`` every month of the calendar, so that
      January of all years is one group.

    A name in double quotes is a column name, even if it reads like a bin, as in `"stand by 10"`.
    """
    if match := _PART.fullmatch(text):
        return Group(_name(match[2]), RecurringTime(TimeUnit(match[1])))
    if match := _PERIOD.fullmatch(text):
        return Group(_name(match[1]), ConsecutiveTime(TimeUnit(match[2])))
    if match := _WIDTH.fullmatch(text):
        return Group(_name(match[1]), Width(Fraction(match[2])))
    return Group(_name(text))


def group_of(text: str, schema: Schema) -> Group:
    """Return the grouping that `text` names: by a column, such as "age", or by bins of a column, such as "age by 10".

    `schema` has the columns of the table. If the table has a column whose whole name is `text`, the grouping is by this
    column. So a column that is called "age by 10" is not taken for bins of a column "age".
    """
    return Group(text) if text in schema.names else parse_group(text)


_QUARTER = re.compile(r"([0-9]{4})-Q([1-4])")


def period_start(label: str) -> date | datetime:
    """Return the first day, or the first moment, of the period of time that the group key `label` names.

    The result is a `datetime` for an hour and a `date` for any longer period.

    >>> [str(period_start(label)) for label in ("2026", "2026-Q2", "2026-08", "2026-08-03", "2026-08-03 13:00")]
    ['2026-01-01', '2026-04-01', '2026-08-01', '2026-08-03', '2026-08-03 13:00:00']
    """
    if len(label) > len("2026-08-03"):
        return datetime.fromisoformat(label)
    if match := _QUARTER.fullmatch(label):
        return date(int(match[1]), 3 * int(match[2]) - 2, 1)
    return date.fromisoformat(label + "-01-01"[len(label) - 4 :] if len(label) < len("2026-08-03") else label)


def _name(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    return text if quoted is None else quoted[1].replace('""', '"')


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _number_text(number: Fraction) -> str:
    return f"{(Decimal(number.numerator) / number.denominator).normalize():f}"


def _unsuitable(column: Column, group: str, wanted: str, example: str) -> UnsuitableTable:
    """Return the error for a query that groups `column` into bins that do not suit the kind of its values.

    - `group` is the query's text for the bins, such as "age by 10".
    - `wanted` names the kind of values that can be put into the bins, such as "numbers".
    - `example` is a type to suggest for a column of text, such as "float".
    """
    message = f"{group!r} needs a column of {wanted}, and {column.name!r} holds {column.kind} values"
    if column.kind is not Kind.TEXT:
        return UnsuitableTable(message)
    advice = f": if it is of a file, give its type, as in {type_argument({column.name: example})}"
    return UnsuitableTable(message + advice).needing({column.name: example})

"""Groups by parts of a column: a column itself, or bins of one, as in ``age by 10`` and ``month of at``.

age            the values of the column
age by 10      numbers in bins of that width, labelled by their lower end: 30 holds 30 to 39, and -10 holds -10 to -1
at by month    periods of time: 2026, 2026-Q1, 2026-01, 2026-01-05 (a week by its Monday, a day), 2026-01-05 13:00
month of at    parts of time as whole numbers: hour 0 to 23, weekday 1 (Monday) to 7, ISO week 1 to 53

A timestamp with a time zone is read in UTC, one without as it is written. A number that is no integer and lies less
than a billionth of the width below the next bin is in that one, because 0.29 is stored as slightly less. What is in no
bin is missing: nulls, what is no number, numbers beyond 2^53 (in units of the width's last decimal) either way, and
years outside 1 to 9999.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias, assert_never

from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter, UnsuitableTable

LARGEST_BINNED = 2**53
"""Numbers beyond this, either way, are in no bin; nor is a bin wider."""

FINEST_WIDTH = 9
"""The most decimals of a bin's width."""


class TimeUnit(StrEnum):
    """What periods and parts of time are called."""

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    WEEKDAY = "weekday"
    HOUR = "hour"


@dataclass(frozen=True, slots=True)
class Width:
    """Bins of numbers, of this width, of which one begins at 0."""

    width: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.width <= LARGEST_BINNED or (self.width * 10**FINEST_WIDTH).denominator != 1:
            raise InvalidParameter(
                f"the width of bins must be a number above 0 of at most {FINEST_WIDTH} decimals, "
                f"not {float(self.width):g}"
            )

    @property
    def decimals(self) -> int:
        """How many decimals the ends of bins have."""
        return next(places for places in range(FINEST_WIDTH + 1) if (self.width * 10**places).denominator == 1)


@dataclass(frozen=True, slots=True)
class Period:
    """Periods of time, one after the other: every month of every year is one."""

    unit: TimeUnit

    def __post_init__(self) -> None:
        if self.unit is TimeUnit.WEEKDAY:
            raise InvalidParameter("a weekday is a part of time: write 'weekday of' and the column")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of time: the months of all years are twelve."""

    unit: TimeUnit


Bin: TypeAlias = Width | Period | Part

_UNIT = "|".join(TimeUnit)
_PART = re.compile(rf"({_UNIT}) of (.+)", re.DOTALL)
_PERIOD = re.compile(rf"(.+) by ({_UNIT})", re.DOTALL)
_WIDTH = re.compile(r"(.+) by ([0-9]+(?:\.[0-9]+)?)", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"]|"")+)"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Group:
    """A column to group by, or bins of it.

    >>> parse_group("age by 10") == Group("age", Width(Fraction(10)))
    True
    >>> str(Group("at", Part(TimeUnit.MONTH))), str(Group("stand by 10"))
    ('month of at', '"stand by 10"')
    """

    column: str
    bin: Bin | None = None

    def __str__(self) -> str:
        name = self.column if parse_group(self.column) == Group(self.column) else _quoted(self.column)
        match self.bin:
            case None:
                return name
            case Width(width=width):
                return f"{name} by {_written(width)}"
            case Period(unit=unit):
                return f"{name} by {unit}"
            case Part(unit=unit):
                return f"{unit} of {name}"
            case _:
                assert_never(self.bin)

    def labels(self, schema: Schema) -> Column:
        """Return the column of labels: the column itself, or the bins as one; or raise `UnsuitableTable`."""
        column = schema.column(self.column)
        match self.bin:
            case None:
                return column
            case Width(width=width):
                if column.kind not in (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL):
                    raise _unsuitable(column, str(self), "numbers", "integer")
                return Column(name=str(self), kind=Kind.INTEGER if width.denominator == 1 else Kind.TEXT)
            case Period(unit=unit) | Part(unit=unit):
                if column.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT):
                    raise _unsuitable(column, str(self), "dates or times", "timestamp")
                if unit is TimeUnit.HOUR and column.kind is Kind.DATE:
                    raise UnsuitableTable(f"column {self.column!r} holds dates, which have no hour")
                return Column(name=str(self), kind=Kind.TEXT if isinstance(self.bin, Period) else Kind.INTEGER)
            case _:
                assert_never(self.bin)


def parse_group(text: str) -> Group:
    """Return the group that a text stands for; a name in double quotes is that of a column, whatever it reads like."""
    if found := _PART.fullmatch(text):
        return Group(_name(found[2]), Part(TimeUnit(found[1])))
    if found := _PERIOD.fullmatch(text):
        return Group(_name(found[1]), Period(TimeUnit(found[2])))
    if found := _WIDTH.fullmatch(text):
        return Group(_name(found[1]), Width(Fraction(found[2])))
    return Group(_name(text))


def group_of(text: str, schema: Schema) -> Group:
    """Return the group that a text stands for in a table: a column of that very name before any bins."""
    return Group(text) if text in schema.names else parse_group(text)


def _name(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    return text if quoted is None else quoted[1].replace('""', '"')


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _written(number: Fraction) -> str:
    return f"{(Decimal(number.numerator) / number.denominator).normalize():f}"


def _unsuitable(column: Column, group: str, wanted: str, example: str) -> UnsuitableTable:
    text = f": if it is of a CSV file, give its type, as in --type {column.name}={example}"
    return UnsuitableTable(
        f"{group!r} needs a column of {wanted}, and {column.name!r} holds {column.kind} values"
        + (text if column.kind is Kind.TEXT else "")
    )

"""What is computed of single columns: the labels of groups, and the whole numbers that users add.

A user's numbers are added up as integers, so that what one user adds does not depend on the order in which an engine
happened to read rows, nor on the rows of others. Integers are added as they are. Other numbers become whole multiples
of a unit of 2^-20 steps first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from setwise.analytics.bins import LARGEST_BINNED, Group, Part, Period, TimeUnit, Width
from setwise.analytics.engines.base import Measure
from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.schema import Kind, Schema

UNITS = 2**20
"""Units of a step in which numbers that are no integers are added up."""

LARGEST_UNITS = 2**62
"""How far from its origin a single number can be, in units; what is farther is clipped."""


def label_sql(group: Group, schema: Schema, dialect: Dialect) -> str:
    """Return the label of a row: the column's value, or its bin; null where there is none."""
    column = schema.column(group.column)
    match group.bin:
        case None:
            return dialect.label(column)
        case Width():
            return _lower_end(group.bin, group.column, schema, dialect)
        case Period(unit=unit):
            return _period(unit, group.column, schema, dialect)
        case Part(unit=unit):
            day = dialect.day(column)
            if unit is not TimeUnit.HOUR:
                return dialect.date_part(unit, day)
            return f"CASE WHEN {day} IS NOT NULL THEN {dialect.hour(column)} END"
        case _:
            assert_never(group.bin)


def _lower_end(width: Width, name: str, schema: Schema, dialect: Dialect) -> str:
    """Return the lower end of the bin of a number: an integer, or text where the width is none."""
    column = schema.column(name)
    scale = 10**width.decimals
    units = int(width.width * scale)
    if column.kind is Kind.INTEGER and scale == 1:
        number = dialect.integer(column)
        end = f"{number} - MOD(MOD({number}, {units}) + {units}, {units})"
        return f"CASE WHEN {number} BETWEEN -{LARGEST_BINNED} AND {LARGEST_BINNED} THEN {end} END"
    most = LARGEST_BINNED // scale
    number = dialect.number(column, _real(-2 * most), _real(2 * most))
    # 0.29 / 0.01 is a little less than 29 in floating point: what is that near to the next end belongs to it.
    bins = dialect.whole(f"FLOOR({number} * {_real(scale)} / {_real(units)} + 1e-9)")
    end = f"CASE WHEN {number} BETWEEN -{most} AND {most} THEN {bins} * {units} END"
    if scale == 1:
        return end
    places = width.decimals
    return dialect.text(f"CAST({end} AS DECIMAL(18, 0)) * CAST({1 / scale:.{places}f} AS DECIMAL({places}, {places}))")


def _period(unit: TimeUnit, name: str, schema: Schema, dialect: Dialect) -> str:
    column = schema.column(name)
    day = dialect.day(column)
    year = f"LPAD({dialect.text(dialect.date_part(TimeUnit.YEAR, day))}, 4, '0')"
    match unit:
        case TimeUnit.YEAR:
            return year
        case TimeUnit.QUARTER:
            return f"{year} || '-Q' || {dialect.text(dialect.date_part(unit, day))}"
        case TimeUnit.MONTH:
            return f"{year} || '-' || LPAD({dialect.text(dialect.date_part(unit, day))}, 2, '0')"
        case TimeUnit.WEEK:
            since = f"{dialect.date_part(TimeUnit.WEEKDAY, day)} - 1"
            return dialect.text(dialect.days_before(day, since))
        case TimeUnit.DAY:
            return dialect.text(day)
        case TimeUnit.HOUR:
            return f"{dialect.text(day)} || ' ' || LPAD({dialect.text(dialect.hour(column))}, 2, '0') || ':00'"
        case TimeUnit.WEEKDAY:
            raise AssertionError("no period")
        case _:
            assert_never(unit)


@dataclass(frozen=True, slots=True)
class Measures:
    """The expressions of measures: v0, v1, .. of rows, one for each column, and what a user's rows in a group add."""

    measures: Sequence[Measure]
    schema: Schema
    dialect: Dialect

    def row_values(self) -> list[str]:
        """Return for each column that is measured what its rows add up: integers, or null."""
        return [self._row_value(name) for name in self._columns()]

    def user_values(self) -> list[str]:
        """Return for each measure the whole number that a user adds to a group, null for none."""
        places = {name: f"v{place}" for place, name in enumerate(self._columns())}
        return [self._user_value(each, "" if each.column is None else places[each.column]) for each in self.measures]

    def _columns(self) -> list[str]:
        return list(dict.fromkeys(each.column for each in self.measures if each.column is not None))

    def _row_value(self, name: str) -> str:
        column = self.schema.column(name)
        if column.kind is Kind.INTEGER:
            return self.dialect.name(name)
        origin, unit = self._units(name)
        ends = [_real(origin + sign * LARGEST_UNITS * unit) for sign in (-1, 1)]
        return self.dialect.whole(
            f"FLOOR(({self.dialect.number(column, *ends)} - {_real(origin)}) / {_real(unit)} + 0.5)"
        )

    def _units(self, name: str) -> tuple[Fraction, Fraction]:
        """Return from where and in which unit the numbers of a column that holds no integers are counted."""
        taken = [each for each in self.measures if each.column == name]
        unit = min(each.step for each in taken) / UNITS
        return (taken[0].origin if all(each.averaged for each in taken) else Fraction(0)), unit

    def _user_value(self, measure: Measure, values: str) -> str:
        if measure.column is None:
            return self.dialect.whole(f"LEAST(COUNT(*), {measure.most})")
        total = self.dialect.total(values, None)
        whole = self.schema.column(measure.column).kind is Kind.INTEGER
        if measure.averaged or not whole or measure.step != 1:
            origin, unit = (Fraction(0), Fraction(1)) if whole else self._units(measure.column)
            added = self.dialect.real(total) + (f" / COUNT({values})" if measure.averaged else "")
            shift = (origin - measure.origin) / measure.step
            number = _clipped(f"{added} * {_real(unit / measure.step)} + {_real(shift)}", measure)
            number = f"FLOOR({number} + 0.5)"  # both ends are whole, so it stays between them
        else:
            number = _clipped(total, measure)
        return f"CASE WHEN COUNT({values}) > 0 THEN {self.dialect.whole(number)} END"


def _clipped(number: str, measure: Measure) -> str:
    return f"GREATEST(LEAST({number}, {measure.most}), {measure.least})"


def _real(number: Fraction | int) -> str:
    """Return a constant of floating point, in parentheses where it has a sign."""
    written = f"{float(number):.17e}"
    return f"({written})" if written.startswith("-") else written

"""What is computed of single columns: the labels of groups, and the whole numbers that users add.

A user's numbers are added up as integers, so that what one user adds does not depend on the order in which an engine
happened to read rows, nor on the rows of others. Integers are added as they are. Other numbers become whole multiples
of a unit of 2^-20 steps first.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log, nextafter
from typing import assert_never

from setwise.analytics.bins import LARGEST_BINNED, Group, Part, Period, TimeUnit, Width
from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.measure import Measure
from setwise.analytics.schema import Kind, Schema
from setwise.mechanisms.doubling_bounds import LARGEST_EXPONENT, LEAST_EXPONENT

UNITS = 2**20
"""Units of a step in which numbers that are no integers are added up."""

LARGEST_REAL_WHOLE = 2**53
"""Up to here floating point of 64 bits holds every whole number, and orders it with all that are larger."""

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
    return dialect.decimal_text(end, width.decimals)


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
    """The expressions of measures: v0, v1, .. of rows, and what a user's rows in a group add.

    Measures of a column share what its rows add up, unless they clip every value by itself, or count values.
    """

    measures: Sequence[Measure]
    schema: Schema
    dialect: Dialect

    def row_values(self) -> list[str]:
        """Return for each source of numbers what its rows add up: integers, or null."""
        return [self._row_value(measures) for measures in self._sources().values()]

    def user_sums(self, over: str = "") -> dict[str, str]:
        """Return what `user_values` are computed of, by name, so that no engine adds it up or converts it twice.

        n is the number of a user's rows in a group, c0, c1, .. that of the values of each source, and t0, t1, .. their
        sum: in floating point, unless measures tell sums apart that floating point does not; l0, h0, .. are the least
        and the greatest value, where a measure takes them. They are aggregates of the
        rows that are grouped together, or of the rows of a window (`over`).
        """
        sums = {"n": f"COUNT(*){over}"} if any(each.column is None for each in self.measures) else {}
        for place, measures in enumerate(self._sources().values()):
            first = measures[0]
            if first.is_spread:
                continue
            if first.counted or first.rows is not None or any(each.averaged for each in measures):
                sums[f"c{place}"] = f"COUNT(v{place}){over}"
            for function, extreme in (("MIN", -1), ("MAX", 1)):
                if any(each.extreme == extreme for each in measures):
                    sums[f"{_EXTREMES[extreme]}{place}"] = f"{function}(v{place}){over}"
            if not first.counted and not all(each.extreme for each in measures):
                total = self.dialect.total(f"v{place}", None) + over
                sums[f"t{place}"] = total if _needs_every_digit(measures) else self.dialect.real(total)
        return sums

    def user_values(self) -> dict[int, str]:
        """Return the whole number that a user adds to a group by each measure that is one number, null for none."""
        return {place: self._user_value(each) for place, each in enumerate(self.measures) if not each.is_spread}

    def row_name(self, measure: Measure) -> str:
        """Return the name of the column of rows that a measure reads."""
        return f"v{self._place(measure)}"

    def user_rows(self, measure: Measure) -> str:
        """Return how many values of a user in a group count for a measure by rows."""
        return self.dialect.whole(f"LEAST(c{self._place(measure)}, {measure.rows})")

    def _sources(self) -> dict[Hashable, list[Measure]]:
        """Return the measures that read the same numbers of rows."""
        sources: dict[Hashable, list[Measure]] = {}
        for each in self.measures:
            if each.column is not None:
                sources.setdefault(_source(each), []).append(each)
        return sources

    def _place(self, measure: Measure) -> int:
        return list(self._sources()).index(_source(measure))

    def _row_value(self, measures: Sequence[Measure]) -> str:
        first = measures[0]
        assert first.column is not None
        column = self.schema.column(first.column)
        if first.counted:
            return f"CASE WHEN {self.dialect.name(column.name)} IS NOT NULL THEN 1 END"
        if first.distinct is not None:
            return self.dialect.user(column)
        if first.weight is not None:
            least, most = (_real(first.origin + end * first.step) for end in (first.least, first.most))
            distance = f"({self.dialect.number(column, least, most)} - {_real(first.origin)}) / {_real(first.step)}"
            return self.dialect.whole(f"FLOOR({distance} + 0.5)")  # the number is clipped, and both ends are whole
        if column.kind is Kind.INTEGER and first.rows is None:
            return self.dialect.name(column.name)
        origin, unit = _units(measures)
        ends = (-LARGEST_UNITS, LARGEST_UNITS) if first.rows is None else (first.least * UNITS, first.most * UNITS)
        number = self.dialect.number(column, *(_real(_reached(origin, unit, end)) for end in ends))
        units = f"FLOOR(({number} - {_real(origin)}) / {_real(unit)} + 0.5)"
        if first.squared:  # of whole units, because the square of a tiny number underflows, which is an error on some
            most = _real(first.most * UNITS)
            units = f"FLOOR(2 * {units} * {units} / {most} - {most} + 0.5)"
        return self.dialect.whole(units)

    def _user_value(self, measure: Measure) -> str:
        if measure.column is None and measure.doubling:
            return self.dialect.whole(_doubled(self.dialect.real("n")))
        if measure.column is None:  # of a number of groups, the least: how many there are is not known here
            return self.dialect.whole(str(measure.least) if measure.groups else f"LEAST(n, {measure.most})")
        total, values = (f"{name}{self._place(measure)}" for name in (_EXTREMES.get(measure.extreme, "t"), "c"))
        if measure.counted and measure.doubling:
            counted = self.dialect.real(values)
            return f"CASE WHEN {values} > 0 THEN {self.dialect.whole(_doubled(counted))} END"
        if measure.counted:
            return self.dialect.whole(f"LEAST({values}, {measure.most})")
        whole = self.schema.column(measure.column).kind is Kind.INTEGER and measure.rows is None
        source = self._sources()[_source(measure)]
        ends = (_real(measure.least), _real(measure.most))  # not every engine compares integers with reals
        if measure.averaged or not whole or measure.step != 1:
            origin, unit = (Fraction(0), Fraction(1)) if whole else _units(source)
            added = self.dialect.real(total) + (f" / {values}" if measure.averaged else "")
            shift = (origin - measure.origin) / measure.step
            if measure.doubling:
                doubled = _doubled(f"{added} * {_real(unit)}")
                return f"CASE WHEN {total} IS NOT NULL THEN {self.dialect.whole(doubled)} END"
            number = _clipped(f"{added} * {_real(unit / measure.step)} + {_real(shift)}", *ends)
            if measure.rows is not None:
                number = f"{number} * {self.user_rows(measure)}"
            number = f"FLOOR({number} + 0.5)"  # both ends are whole, so it stays between them
        elif _needs_every_digit(source):
            number = _clipped(total, str(measure.least), str(measure.most))
        else:
            number = _clipped(total, *ends)
        return f"CASE WHEN {total} IS NOT NULL THEN {self.dialect.whole(number)} END"


_EXTREMES = {-1: "l", 1: "h"}
"""The letters of a user's least and greatest value of a source: l0, h0, l1, .."""


def _doubled(number: str) -> str:
    """Return the place of a number among the bins of `DoublingBounds`; an end belongs to the bin nearer to 0."""

    def place(positive: str) -> str:
        exponent = f"CEIL(LN({positive}) / {_real(log(2))} - 1e-9)"
        least, most = LEAST_EXPONENT + 1, LARGEST_EXPONENT
        return f"GREATEST(LEAST({exponent}, {most}), {least}) - {LEAST_EXPONENT}"

    small = _real(Fraction(2) ** LEAST_EXPONENT)
    above = f"WHEN {number} > {small} THEN {place(number)}"
    return f"CASE {above} WHEN {number} < -{small} THEN -({place(f'-({number})')}) ELSE 0 END"


def _needs_every_digit(measures: Sequence[Measure]) -> bool:
    """Whether whole numbers beyond those that floating point holds one by one are told apart."""
    return any(max(abs(each.least), abs(each.most)) > LARGEST_REAL_WHOLE for each in measures)


def _source(measure: Measure) -> Hashable:
    if measure.is_spread:
        return measure
    if measure.rows is None:
        return measure.column, measure.counted, measure.doubling
    return measure.column, measure.squared, measure.origin, measure.step, measure.least, measure.most


def _units(measures: Sequence[Measure]) -> tuple[Fraction, Fraction]:
    """Return from where and in which unit numbers that are no integers are counted."""
    origin = measures[0].origin if all(each.averaged for each in measures) else Fraction(0)
    return origin, min(each.step for each in measures) / UNITS


def _reached(origin: Fraction, unit: Fraction, units: int) -> float:
    """Return the number that is `units` from the origin, or the last before it whose units engines can hold.

    They subtract and divide in floating point. Where that has no number between the origin and one that is more than
    2^63 units away, clipping to the latter would fail on a row.
    """
    start, end = float(origin), float(origin + units * unit)
    while abs(end - start) / float(unit) >= 2 * LARGEST_UNITS:
        end = nextafter(end, start)
    return end


def _clipped(number: str, least: str, most: str) -> str:
    return f"GREATEST(LEAST({number}, {most}), {least})"


def _real(number: Fraction | float) -> str:
    """Return a constant of floating point, in parentheses where it has a sign."""
    written = f"{float(number):.17e}"
    return f"({written})" if written.startswith("-") else written

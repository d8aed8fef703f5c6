"""SQL expressions computed from single columns: the labels of groups, and the integers that are summed per user.

A measure is the number that each user adds to a group, such as a sum of a column. Sums are computed in integers,
because a sum of floats is rounded after each addition: it would depend on the order in which the engine reads rows, and
what one user changes in it would depend on the rows of others. Integer columns are summed as they are. Other numbers
first become integer multiples of a unit, which is 2^-20 of the step to which the measure is rounded.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log, nextafter
from typing import assert_never

from setwise.analytics.bins import LARGEST_BINNED, ConsecutiveTime, Group, RecurringTime, TimeUnit, Width
from setwise.analytics.engines.dialect import Dialect, real_constant
from setwise.analytics.measure import Measure
from setwise.analytics.schema import Kind, Schema
from setwise.mechanisms.doubling_bounds import LARGEST_EXPONENT, LEAST_EXPONENT

UNITS = 2**20
"""Units per step in which numbers that are not integers are summed."""

LARGEST_REAL_WHOLE = 2**53
"""Up to this absolute value a 64-bit float holds every integer exactly and orders it correctly among larger numbers."""

LARGEST_UNITS = 2**62
"""The greatest distance of a single number from its origin, in units; numbers farther away are clipped."""

_FINE_END, _COARSE_UNIT = 2**40, 2**8
"""A search for bounds adds up the part of a number beyond `_FINE_END` separately, in units of `_COARSE_UNIT`. The units
of the part below it are so fine, for small numbers, that 64 bits hold no more of them. Sums thus reach 2^70, far beyond
the last bin, so that a number there is counted as one that no bounds hold."""


def label_sql(group: Group, schema: Schema, dialect: Dialect) -> str:
    """Return SQL of `dialect` for the label of a row's group: the value of a column, or the range that holds the value.

    `group` names the column, and says whether its values are put into ranges: of numbers, such as 0 to 10, or of time,
    such as months. `schema` has the columns of the table. The label is null if the value is null, or if no range holds
    the value.
    """
    column = schema.column(group.column)
    match group.bin:
        case None:
            return dialect.label(column)
        case Width():
            return _lower_end(group.bin, group.column, schema, dialect)
        case ConsecutiveTime(unit=unit):
            return _period(unit, group.column, schema, dialect)
        case RecurringTime(unit=unit):
            day = dialect.day(column)
            if unit is not TimeUnit.HOUR:
                return dialect.date_part(unit, day)
            return f"CASE WHEN {day} IS NOT NULL THEN {dialect.hour(column)} END"
        case _:
            assert_never(group.bin)


def _lower_end(width: Width, name: str, schema: Schema, dialect: Dialect) -> str:
    """Return a SQL expression for the lower end of the range (bin) that holds the number in column `name`.

    All ranges have the width `width`. The lower end is an integer or, if the width is not an integer, text with as many
    decimals as the width, so that all engines write the same label. With d decimals, a number of absolute value above
    about 2^53 / 10^d gives null, because floats are not exact there. `schema` has the column, and `dialect` writes the
    SQL.
    """
    column = schema.column(name)
    scale = 10**width.decimals
    units = int(width.width * scale)
    if column.kind is Kind.INTEGER and scale == 1:
        number = dialect.integer(column)
        end = f"{number} - MOD(MOD({number}, {units}) + {units}, {units})"
        return f"CASE WHEN {number} BETWEEN -{LARGEST_BINNED} AND {LARGEST_BINNED} THEN {end} END"
    most = LARGEST_BINNED // scale
    number = dialect.number(column, real_constant(-2 * most), real_constant(2 * most))
    # In floating point 0.29 / 0.01 is slightly below 29, so a number just below the next bin is put into that bin.
    bins = dialect.int64(f"FLOOR({number} * {real_constant(scale)} / {real_constant(units)} + 1e-9)")
    end = f"CASE WHEN {number} BETWEEN -{most} AND {most} THEN {bins} * {units} END"
    if scale == 1:
        return end
    return dialect.decimal_text(end, width.decimals)


def _period(unit: TimeUnit, name: str, schema: Schema, dialect: Dialect) -> str:
    """Return a SQL expression for the period that holds the date or time in column `name`, as text.

    `schema` has the column, and `dialect` writes the SQL. For each `unit` the text is: year 2026, quarter 2026-Q1,
    month 2026-01, week 2026-01-05 (its Monday), day 2026-01-05, hour 2026-01-05 13:00.
    """
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
    """Builder of the SQL expressions, in `dialect`, for the `measures` of one aggregation.

    A measure is an integer that each user adds to a group, such as a sum of a column. What a row contributes to it is
    one value, in a SQL column v0, v1, ...; several measures can be computed from the same SQL column. `schema` has the
    columns of the table.
    """

    measures: Sequence[Measure]
    schema: Schema
    dialect: Dialect

    def row_values(self) -> list[str]:
        """Return the SQL expressions of the columns v0, v1, ..., which hold what each row contributes to the measures.

        A measure is an integer that each user adds to a group, such as a sum of a column. The expressions give integers
        or null, except for counts of distinct values, which need the table's own values. For a private search for
        clipping bounds, a number beyond -2^40 or 2^40 is split over two columns, so that sums cannot overflow 64 bits:
        one column has the number clipped to this range, and the other, among the last columns, has the part beyond it.
        """
        sources = list(self._sources().values())
        values = [self._row_value(measures) for measures in sources]
        return values + [self._excess(sources[place][0]) for place in self._excess_places()]

    def user_sums(self, over: str = "") -> dict[str, str]:
        """Return {column name: SQL aggregate over the rows of one user in one group}, from which measures are computed.

        A measure is an integer that each user adds to a group. The aggregates read the columns v0, v1, ..., each of
        which holds one value of each row. Only columns that some measure needs are returned:

        - n: the number of rows
        - c<i>: the number of rows where v<i> is not null or, if `Measure.unique` is set, the number of distinct v<i>
        - t<i>: the sum of v<i>
        - l<i> and h<i>: the least and the greatest v<i>

        `over` is appended to each aggregate: "" for a GROUP BY, or the SQL text of an OVER clause.
        """
        sums = {"n": f"COUNT(*){over}"} if any(each.column is None for each in self.measures) else {}
        for place, measures in enumerate(self._sources().values()):
            first = measures[0]
            if first.is_spread:
                continue
            if first.counted or first.rows is not None or any(each.averaged for each in measures):
                sums[f"c{place}"] = f"COUNT({'DISTINCT ' * first.unique}v{place}){over}"
            for column in (place, *self._excess_column(place)):
                for function, extreme in (("MIN", -1), ("MAX", 1)):
                    if any(each.extreme == extreme for each in measures):
                        sums[f"{_EXTREMES[extreme]}{column}"] = f"{function}(v{column}){over}"
                if not first.counted and not all(each.extreme for each in measures):
                    # a sum is a float, unless a measure needs every digit
                    total = self.dialect.total(f"v{column}", None) + over
                    sums[f"t{column}"] = total if _needs_every_digit(measures) else self.dialect.real(total)
        return sums

    def user_values(self) -> dict[int, str]:
        """Return {i: SQL expression of the integer that a user adds to a group by measure i}.

        The expressions refer to the columns that `user_sums` computes, and are null for a user who adds nothing. Left
        out are measures by which one user adds several integers to a group, such as the votes for a quantile.
        """
        return {place: self._user_value(each) for place, each in enumerate(self.measures) if not each.is_spread}

    def row_name(self, measure: Measure) -> str:
        """Return the name v<i> of the SQL column that holds, for each row, the value from which `measure` is computed.

        A measure is an integer that each user adds to a group, such as a sum of a column.
        """
        return f"v{self._place(measure)}"

    def user_rows(self, measure: Measure) -> str:
        """Return a SQL expression for the number of values that one user contributes to `measure` in one group.

        It is the number of the user's rows in the group whose value is not null, or `measure.rows`, the limit on a
        user's rows in a group, if that is less.
        """
        return self.dialect.int64(f"LEAST(c{self._place(measure)}, {measure.rows})")

    def _sources(self) -> dict[Hashable, list[Measure]]:
        """Return a dict of lists of measures: list number i has the measures computed from the SQL column v<i>.

        A measure is the integer that each user adds to a group, and v<i> holds one value of each row. The keys of the
        dict only tell the columns apart. A measure that reads no column of the table (a number of rows or of groups) is
        left out.
        """
        sources: dict[Hashable, list[Measure]] = {}
        for measure in self.measures:
            if measure.column is not None:
                sources.setdefault(_source(measure), []).append(measure)
        return sources

    def _excess_places(self) -> list[int]:
        """Return the index i of each SQL column v<i> that needs a second column for the excess of its numbers.

        A private search for clipping bounds sums numbers as integers, in units so small that a sum of numbers beyond
        -2^40 or 2^40 could overflow 64 bits. So v<i> holds the number clipped to -2^40 .. 2^40, and the second column
        holds the excess, which is the part beyond these ends, in larger units. Integer columns of the table need no
        second column.
        """
        sources = [measures[0] for measures in self._sources().values()]
        return [place for place, first in enumerate(sources) if first.doubling and not self._is_whole(first)]

    def _excess_column(self, place: int) -> list[int]:
        """Return [j] if v<j> holds the excess of the SQL column v<place>; [] if the column has no excess.

        The excess is the part of a number beyond -2^40 or 2^40. Numbers are split in this way so that sums cannot
        overflow 64 bits.
        """
        places = self._excess_places()
        return [len(self._sources()) + places.index(place)] if place in places else []

    def _excess(self, measure: Measure) -> str:
        """Return SQL for the excess of a row's number, its part beyond -2^40 or 2^40, divided by 2^8 and rounded.

        `measure` names the column of the number. The excess is 0 for numbers from -2^40 to 2^40, and negative for
        smaller numbers. It is summed apart from the rest of the number, so that sums cannot overflow 64 bits.
        """
        column = self.schema.column(str(measure.column))
        reach, end = (real_constant(size) for size in (Fraction(LARGEST_UNITS * _COARSE_UNIT), Fraction(_FINE_END)))
        # The part rises with the number, so the extremes of the parts are those of the numbers.
        beyond = (
            f"{self.dialect.number(column, f'(-{reach})', reach)} - {self.dialect.number(column, f'(-{end})', end)}"
        )
        return self.dialect.int64(f"FLOOR(({beyond}) / {real_constant(_COARSE_UNIT)} + 0.5)")

    def _is_whole(self, measure: Measure) -> bool:
        """Return whether the integers of `measure`'s column are summed as they are, without conversion to a small unit.

        True for an integer column, unless `Measure.rows`, a limit on the rows of a user, is set. With this limit each
        value is clipped before it is added, and is converted like the numbers of other columns.
        """
        return self.schema.column(str(measure.column)).kind is Kind.INTEGER and measure.rows is None

    def _place(self, measure: Measure) -> int:
        """Return the index i of the SQL column v<i>, from which `measure` is computed.

        The column v<i> holds one value of each row. A measure is an integer that each user adds to a group, such as a
        sum of a column.
        """
        return list(self._sources()).index(_source(measure))

    def _row_value(self, measures: Sequence[Measure]) -> str:
        """Return SQL for the value that a row contributes to `measures`, which all read the same column of the table.

        Null cells give null. Otherwise the value depends on the measures and on the column:

        - For counts of rows it is 1.
        - For distinct values it is the cell itself.
        - If users divide votes among integers (`Measure.weight`, for quantiles), it is the number in the cell as a
          multiple of `Measure.step`, rounded.
        - For an integer column whose values need not be clipped one by one, it is the cell itself.
        - Otherwise it is the number in the cell (or its square, for variances) as a multiple of a small unit, rounded.

        In the last three cases, a cell that is not a number gives null.
        """
        first = measures[0]
        assert first.column is not None
        column = self.schema.column(first.column)
        if first.unique:
            return self.dialect.user(column)
        if first.counted:
            return f"CASE WHEN {self.dialect.filled(column)} IS NOT NULL THEN 1 END"
        if first.distinct is not None:
            return self.dialect.user(column)
        if first.weight is not None:
            least, most = (real_constant(first.origin + end * first.step) for end in (first.least, first.most))
            offset = f"{self.dialect.number(column, least, most)} - {real_constant(first.origin)}"
            distance = f"({offset}) / {real_constant(first.step)}"
            return self.dialect.int64(f"FLOOR({distance} + 0.5)")  # stays between the bounds, which are integers
        if column.kind is Kind.INTEGER and first.rows is None:
            return self.dialect.name(column.name)
        origin, unit = _units(measures)
        ends = (-LARGEST_UNITS, LARGEST_UNITS) if first.rows is None else (first.least * UNITS, first.most * UNITS)
        number = self.dialect.number(column, *(real_constant(_reachable_end(origin, unit, end)) for end in ends))
        units = f"FLOOR(({number} - {real_constant(origin)}) / {real_constant(unit)} + 0.5)"
        if first.squared:  # in integer units: the square of a tiny number underflows, which fails on some engines
            most = real_constant(first.most * UNITS)
            units = f"FLOOR(2 * {units} * {units} / {most} - {most} + 0.5)"
        return self.dialect.int64(units)

    def _user_value(self, measure: Measure) -> str:
        """Return SQL for the integer that a user adds to a group by `measure`; null if the user adds nothing.

        The SQL refers to the columns of `user_sums`, which are computed from the user's rows in the group. The names
        below are fields of `measure`.

        - For a count, the integer is the number of rows or values, at most `most`.
        - For the number of groups that a user has (`groups`), which the rows of one group do not show, the integer is
          just `least`. The function `_counted_groups` in bounding.py later puts the number in its place.
        - Otherwise let x be the sum, mean, least or greatest of the user's values, as `measure` says. The integer is
          the distance of x from `origin` in steps of the size `step`, clipped to `least` .. `most` and rounded. If
          `rows` is set, the clipped number is multiplied by the user's number of values, at most `rows`, before it is
          rounded. But if `doubling` is set, the integer is the index, -85 to 85, of the range between powers of two
          that holds x.
        """
        if measure.column is None:  # for a number of groups only the least is known here; `_counted_groups` replaces it
            return self.dialect.int64(str(measure.least) if measure.groups else f"LEAST(n, {measure.most})")
        total, values = (f"{name}{self._place(measure)}" for name in (_EXTREMES.get(measure.extreme, "t"), "c"))
        if measure.counted:
            return self.dialect.int64(f"LEAST({values}, {measure.most})")
        whole = self._is_whole(measure)
        source = self._sources()[_source(measure)]
        # The bounds are written as floats, because some engines cannot compare floats with integers.
        ends = (real_constant(measure.least), real_constant(measure.most))
        if measure.averaged or not whole or measure.step != 1:
            origin, unit = (Fraction(0), Fraction(1)) if whole else _units(source)
            added = self.dialect.real(total) + (f" / {values}" if measure.averaged else "")
            shift = (origin - measure.origin) / measure.step
            if measure.doubling:
                number = f"{added} * {real_constant(unit)}"
                for column in self._excess_column(self._place(measure)):
                    beyond = self.dialect.real(f"{total[0]}{column}") + (f" / {values}" if measure.averaged else "")
                    number = f"({number} + {beyond} * {real_constant(_COARSE_UNIT)})"
                doubled = _doubling_bin(number)
                return f"CASE WHEN {total} IS NOT NULL THEN {self.dialect.int64(doubled)} END"
            number = _clip(f"{added} * {real_constant(unit / measure.step)} + {real_constant(shift)}", *ends)
            if measure.rows is not None:
                number = f"{number} * {self.user_rows(measure)}"
            number = f"FLOOR({number} + 0.5)"  # rounding keeps it between the bounds, which are integers
        elif _needs_every_digit(source):
            number = _clip(total, str(measure.least), str(measure.most))
        else:
            number = _clip(total, *ends)
        return f"CASE WHEN {total} IS NOT NULL THEN {self.dialect.int64(number)} END"


_EXTREMES = {-1: "l", 1: "h"}
"""The letters of the columns for a user's least (l0, l1, ...) and greatest (h0, h1, ...) value."""


def _doubling_bin(number: str) -> str:
    """Return a SQL expression for the index, -85 to 85, of the range (bin) that holds the SQL number `number`.

    A private search for clipping bounds counts users in these ranges, each of which ends at a power of two. With e =
    `LEAST_EXPONENT` = -20, bin 0 holds -2^e to 2^e, and bin i > 0 the numbers x with 2^(e+i-1) < x <= 2^(e+i). Bin 21,
    for example, holds 1 < x <= 2. Bin 85 also holds all larger numbers. Bin -i holds the negatives of bin i.
    """

    def place(positive: str) -> str:
        """Return a SQL expression for the index i, 1 to 85, of the range 2^(e+i-1) .. 2^(e+i) that holds `positive`.

        `positive` is the SQL expression of a number greater than 2^e, with e = `LEAST_EXPONENT`. Numbers above all
        ranges have i = 85.
        """
        exponent = f"CEIL(LN({positive}) / {real_constant(log(2))} - 1e-9)"
        least, most = LEAST_EXPONENT + 1, LARGEST_EXPONENT + 1
        return f"GREATEST(LEAST({exponent}, {most}), {least}) - {LEAST_EXPONENT}"

    small = real_constant(Fraction(2) ** LEAST_EXPONENT)
    above = f"WHEN {number} > {small} THEN {place(number)}"
    return f"CASE {above} WHEN {number} < -{small} THEN -({place(f'-({number})')}) ELSE 0 END"


def _needs_every_digit(measures: Sequence[Measure]) -> bool:
    """Return whether sums must be computed in integers, because a limit of one of `measures` is beyond 2^53.

    The limits are `Measure.least` and `Measure.most`, to which the sums are clipped. A 64-bit float does not hold every
    integer beyond 2^53, so sums in floats would not be exact.
    """
    return any(max(abs(each.least), abs(each.most)) > LARGEST_REAL_WHOLE for each in measures)


def _source(measure: Measure) -> Hashable:
    """Return a key that is equal for two measures if and only if they are computed from the same SQL column v<i>.

    A measure is an integer that each user adds to a group. The column v<i> holds the value that each row contributes to
    it. The caller makes one column for all measures with equal keys, so that the engine computes it only once.
    """
    if measure.is_spread:
        return measure
    if measure.rows is None:
        return measure.column, measure.counted, measure.unique, measure.doubling
    return measure.column, measure.squared, measure.origin, measure.step, measure.least, measure.most


def _units(measures: Sequence[Measure]) -> tuple[Fraction, Fraction]:
    """Return (origin, unit): an engine sums a number x of one column as the integer (x - origin) / unit, rounded.

    Sums of integers are exact, so they do not depend on the order of rows. `measures` are all measures (integers that
    users add to groups) that are computed from the sum of this column. Each is a number of steps of the size
    `Measure.step`. The unit is 2^-20 of the smallest of these steps, so that rounding to units hardly changes a
    measure. The origin is that of the first measure if all measures are means; otherwise it is 0.
    """
    # integers have exact sums
    origin = measures[0].origin if all(each.averaged for each in measures) else Fraction(0)
    return origin, min(each.step for each in measures) / UNITS


def _reachable_end(origin: Fraction, unit: Fraction, units: int) -> float:
    """Return `origin` + `units` * `unit` as a float: one end of the range to which the SQL clips numbers of the table.

    `unit` is the size of one unit, and `units` the number of units from `origin` to this end. The SQL converts the
    distance of a number from `origin`, in units, to a 64-bit integer, which fails at 2^63. So if the rounded float is
    2^63 units away or more, it is moved towards `origin` until it is nearer.
    """
    start, end = float(origin), float(origin + units * unit)
    # Engines compute a number of units in floats and convert it to 64 bits, which would fail at 2^63.
    while abs(end - start) / float(unit) >= 2 * LARGEST_UNITS:
        end = nextafter(end, start)
    return end


def _clip(number: str, least: str, most: str) -> str:
    """Return a SQL expression that clips `number` to `least` .. `most`, all three SQL expressions."""
    return f"GREATEST(LEAST({number}, {most}), {least})"

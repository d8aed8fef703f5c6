"""PostgreSQL's SQL dialect: quoting, casts, exact sums, and the salted hash that ranks a user's groups."""

from collections.abc import Sequence
from typing import ClassVar

from setwise.analytics.engines.dialect import DAY_MICROSECONDS, EPOCH_DAYS, Dialect, in_years
from setwise.analytics.schema import Column, Kind

_NUMERIC_HEADER = 4
"""The offset that PostgreSQL adds to the type modifier of a numeric."""


def postgresql_column(name: str, native: str, enumerated: bool, modifier: int) -> Column:
    """Return the `Column` called `name` of PostgreSQL's type `native`.

    `modifier` is the type modifier in the catalogue, which holds a numeric's precision and scale. `enumerated` says
    whether the type is an enumeration, which is read as text.
    """
    if native == "numeric" and modifier >= _NUMERIC_HEADER:
        digits = modifier - _NUMERIC_HEADER
        scale = (digits & 0x7FF ^ 0x400) - 0x400
        if scale >= 0:
            return Column(name=name, kind=Kind.DECIMAL, native=native, precision=digits >> 16, scale=scale)
    return Column(name=name, kind=Kind.TEXT if enumerated else PostgresqlDialect.kind_of(native), native=native)


class PostgresqlDialect(Dialect):
    """PostgreSQL's SQL dialect. All methods return SQL text for the driver psycopg.

    psycopg reads a percent sign as the beginning of a parameter, so other percent signs are doubled.
    """

    types: ClassVar = {
        Kind.TEXT: ("text", "varchar", "bpchar", "name"),
        Kind.INTEGER: ("int8", "int4", "int2"),
        Kind.FLOAT: ("float8", "float4"),
        Kind.DECIMAL: ("numeric",),
        Kind.BOOLEAN: ("bool",),
        Kind.DATE: ("date",),
        Kind.TIMESTAMP: ("timestamp",),
        Kind.INSTANT: ("timestamptz",),
        Kind.IDENTIFIER: ("uuid", "bytea"),
    }
    materializes = True
    underflow_fails = True

    def name(self, identifier: str) -> str:
        return '"' + identifier.replace('"', '""').replace("%", "%%") + '"'

    def placeholder(self, parameter: str) -> str:
        return f"%({parameter})s"

    def user(self, column: Column) -> str:
        """Return a SQL expression of the user column `column`; two of its values are equal only for the same user.

        Texts are compared by bytes, whatever the collation of the column. Zeros at the end of a decimal are removed, so
        that 7.0 and 7.00 give one user.
        """
        match column.kind:
            case Kind.TEXT:
                return self.label(column)
            case Kind.DECIMAL:
                return f"TRIM_SCALE({self.name(column.name)})"
            case _:
                return self.name(column.name)

    def label(self, column: Column) -> str:
        """Return a SQL expression for a row's group label from `column`: an integer or text.

        The label is an integer for an integer column, and text for other columns. Texts have the collation "C", which
        orders them by code point.
        """
        name = self.name(column.name)
        return f"CAST({name} AS bigint)" if column.kind is Kind.INTEGER else f'CAST({name} AS text) COLLATE "C"'

    def number(self, column: Column, least: str, most: str) -> str:
        """Return a SQL expression for a numeric column as a float, clipped to `least` .. `most`; null for NaN.

        `least` and `most` are SQL constants. Numbers nearer to 0 than 1e-150 become 0.
        """
        name = self.name(column.name)
        if column.kind is Kind.INTEGER:
            return f"CASE WHEN {name} IS NOT NULL THEN GREATEST(LEAST(CAST({name} AS float8), {most}), {least}) END"
        # PostgreSQL fails on quotients that underflow, and on decimals beyond the range of floats.
        if column.kind is Kind.DECIMAL:
            near = f"CAST(ROUND(GREATEST(LEAST({name}, {most}), {least}), 150) AS float8)"
        else:
            near = f"GREATEST(LEAST(CASE WHEN ABS({name}) < 1e-150 THEN 0 ELSE {name} END, {most}), {least})"
        return f"CASE WHEN {name} <> 'NaN' THEN {near} END"

    def text(self, value: str) -> str:
        """Return a SQL expression that casts the SQL `value` to text of collation "C", compared by code point."""
        return f'CAST({value} AS text) COLLATE "C"'

    def day(self, column: Column) -> str:
        moment = self._moment(column)
        return f"CASE WHEN {in_years(moment)} THEN CAST({moment} AS date) END"

    def microseconds(self, column: Column) -> str:
        """Return a SQL expression for the microseconds from 0001-01-01 to the time in `column`, in 64 bits.

        A time with a time zone is converted to UTC first. The result is exact, because PostgreSQL's EXTRACT returns a
        decimal.
        """
        moment = self._moment(column)
        since_epoch = self.int64(f"EXTRACT(EPOCH FROM {moment}) * 1000000")
        return f"CASE WHEN {in_years(moment)} THEN {since_epoch} + {EPOCH_DAYS * DAY_MICROSECONDS} END"

    def months_later(self, day: str, months: int) -> str:
        return f"CAST({day} + INTERVAL '{months} months' AS date)"

    def hour(self, column: Column) -> str:
        return self.int64(f"EXTRACT(HOUR FROM {self._moment(column)})")

    def _moment(self, column: Column) -> str:
        """Return a SQL expression for a date or time column as a date or a timestamp without time zone.

        A time with a zone is converted to UTC, so the result does not depend on the time zone of the session.
        """
        name = self.name(column.name)
        return f"({name} AT TIME ZONE 'UTC')" if column.kind is Kind.INSTANT else name

    def operand(self, column: Column) -> str:
        """Return a SQL expression for `column` that a filter can compare with a constant; NaN is null."""
        operand = super().operand(column)
        return f"NULLIF({operand}, 'NaN')" if column.kind in (Kind.FLOAT, Kind.DECIMAL) else operand

    def like(self, operand: str, placeholder: str) -> str:
        return f"{operand} LIKE CAST({placeholder} AS text) ESCAPE E'\\\\'"

    def text_constant(self, value: str) -> str:
        return f"convert_from(decode('{value.encode().hex()}', 'hex'), 'UTF8') COLLATE \"C\""

    def weighted_total(self, number: str, weight: str) -> str:
        """Return a SQL aggregate for the exact sum, as a numeric, of `number` * `weight`, two SQL integer expressions.

        It adds up the rows of a prepared dataset (a stored random ranking of each user's groups), in each of which
        `weight` users add the same `number` to a group. As `number` can be 2^62, the sum can exceed 64 bits.
        """
        return f"SUM(CAST({number} AS numeric) * {weight})"

    def tie_order(self, column: Column) -> tuple[str, ...]:
        """Return SQL sort keys for `column`, to be added to an ORDER BY so that they decide the order of equal rows.

        The keys of two values are equal only if no SQL statement can tell the values apart, so that the order of rows
        changes no result. Values of a type that Setwise does not know are compared as text.
        """
        text = self.text(self.name(column.name))
        match column.kind:
            # Equal decimals can differ in their text, as 7.0 and 7.00 do.
            case Kind.DECIMAL:
                return *super().tie_order(column), text
            # The type need not have an order, and a composite value can be IS NULL although COUNT counts it.
            case Kind.OTHER:
                return f"CASE WHEN {text} IS NULL THEN 0 ELSE 1 END", text
            case _:
                return super().tie_order(column)

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the SQL of a salted hash: ordering by it puts the groups of one user into a random order.

        `salt` (a SQL expression) seeds the hash of the column `user`, which seeds the hash of the first of the columns
        `labels`, and so on.
        """
        # A chain needs no separator between the values, which a label could contain.
        key = salt
        for value in (user, *labels):
            key = f"hashtextextended(CAST({value} AS text), {key})"
        return key

"""PostgreSQL's SQL: quoting, casts, the exact sum and the salted hash that engines/bounding.py asks for."""

from collections.abc import Sequence
from typing import ClassVar

from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.schema import Column, Kind

_NUMERIC_HEADER = 4


def postgresql_column(name: str, native: str, enumerated: bool, modifier: int) -> Column:
    """Return the column that the catalogue describes by its type's name and modifier."""
    if native == "numeric" and modifier >= _NUMERIC_HEADER:
        digits = modifier - _NUMERIC_HEADER
        scale = (digits & 0x7FF ^ 0x400) - 0x400
        if scale >= 0:
            return Column(name=name, kind=Kind.DECIMAL, native=native, precision=digits >> 16, scale=scale)
    return Column(name=name, kind=Kind.TEXT if enumerated else PostgresqlDialect.kind_of(native), native=native)


class PostgresqlDialect(Dialect):
    """PostgreSQL's words, for psycopg: a percent sign stands doubled wherever it is not a parameter."""

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
        """Return the column such that equal means the same user, whatever collation the column has.

        A decimal loses its zeros at the end: 7.0 and 7.00 are equal, and so must be their texts, which are hashed.
        """
        match column.kind:
            case Kind.TEXT:
                return self.label(column)
            case Kind.DECIMAL:
                return f"TRIM_SCALE({self.name(column.name)})"
            case _:
                return self.name(column.name)

    def label(self, column: Column) -> str:
        """Return the column as text or integer; the collation "C" compares by code points."""
        name = self.name(column.name)
        return f"CAST({name} AS bigint)" if column.kind is Kind.INTEGER else f'CAST({name} AS text) COLLATE "C"'

    def number(self, column: Column, least: str, most: str) -> str:
        """Return a column of numbers in floating point, clipped; null where it is none.

        The server fails on quotients that underflow, and on decimals beyond the range of floating point.
        """
        name = self.name(column.name)
        if column.kind is Kind.INTEGER:
            return f"CASE WHEN {name} IS NOT NULL THEN GREATEST(LEAST(CAST({name} AS float8), {most}), {least}) END"
        if column.kind is Kind.DECIMAL:
            near = f"CAST(ROUND(GREATEST(LEAST({name}, {most}), {least}), 150) AS float8)"
        else:
            near = f"GREATEST(LEAST(CASE WHEN ABS({name}) < 1e-150 THEN 0 ELSE {name} END, {most}), {least})"
        return f"CASE WHEN {name} <> 'NaN' THEN {near} END"

    def text(self, value: str) -> str:
        """Return a value as text; the collation "C" compares by code points."""
        return f'CAST({value} AS text) COLLATE "C"'

    def day(self, column: Column) -> str:
        moment = self._moment(column)
        years = f"{moment} >= DATE '0001-01-01' AND {moment} < DATE '10000-01-01'"
        return f"CASE WHEN {years} THEN CAST({moment} AS date) END"

    def hour(self, column: Column) -> str:
        return self.whole(f"EXTRACT(HOUR FROM {self._moment(column)})")

    def _moment(self, column: Column) -> str:
        """Return a date or time without a time zone: an instant as it is in UTC, whatever the session's zone."""
        name = self.name(column.name)
        return f"({name} AT TIME ZONE 'UTC')" if column.kind is Kind.INSTANT else name

    def like(self, operand: str, placeholder: str) -> str:
        return f"{operand} LIKE CAST({placeholder} AS text) ESCAPE E'\\\\'"

    def text_constant(self, value: str) -> str:
        return f"convert_from(decode('{value.encode().hex()}', 'hex'), 'UTF8') COLLATE \"C\""

    def weighted_total(self, number: str, weight: str) -> str:
        """Return the exact sum of products, as numerics."""
        return f"SUM(CAST({number} AS numeric) * {weight})"

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the hash that ranks an item: the salt seeds that of the user, which seeds that of the first label.

        A chain needs no separator, which a label could contain.
        """
        key = salt
        for value in (user, *labels):
            key = f"hashtextextended(CAST({value} AS text), {key})"
        return key

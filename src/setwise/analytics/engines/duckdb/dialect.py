"""DuckDB's SQL: quoting, casts, the exact sum and the salted hash that engines/bounding.py asks for."""

from collections.abc import Sequence
from typing import ClassVar

from setwise.analytics.bins import TimeUnit
from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.schema import Column, Kind


def duckdb_column(name: str, native: str) -> Column:
    """Return the column that DESCRIBE names with this type."""
    outer = native.split("(", maxsplit=1)[0]
    if outer == "DECIMAL":
        precision, scale = (int(digits) for digits in native[len("DECIMAL(") : -1].split(","))
        return Column(name=name, kind=Kind.DECIMAL, native=native, precision=precision, scale=scale)
    if native.endswith("]"):
        return Column(name=name, kind=Kind.OTHER, native="LIST")
    # An ENUM's type lists its values, which are data: only the outer word is kept.
    return Column(name=name, kind=DuckDBDialect.kind_of(outer), native=outer)


SOURCE = "source_table"
"""What a table in memory, or one that is streamed, is called in statements."""


def quoted(identifier: str) -> str:
    """Return an identifier as SQL writes it."""
    return '"' + identifier.replace('"', '""') + '"'


def sql_text(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


class DuckDBDialect(Dialect):
    """DuckDB's SQL: quoting, casts, the exact sum and the salted hash that engines/bounding.py asks for.

    `texts` are the columns u, g0, g1, .. that are text, where their hashes do not stand for them: items are ranked by
    the hashes of texts either way, so that the choice between the two changes nobody's items.
    """

    types: ClassVar = {
        Kind.TEXT: ("VARCHAR", "ENUM"),
        Kind.INTEGER: ("BIGINT", "TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
        Kind.FLOAT: ("DOUBLE", "FLOAT"),
        Kind.BOOLEAN: ("BOOLEAN",),
        Kind.DATE: ("DATE",),
        Kind.TIMESTAMP: ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
        Kind.INSTANT: ("TIMESTAMP WITH TIME ZONE",),
        Kind.IDENTIFIER: ("UUID", "BLOB", "HUGEINT", "UHUGEINT"),
    }
    materializes = True

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._texts = texts

    def name(self, identifier: str) -> str:
        return quoted(identifier)

    def placeholder(self, parameter: str) -> str:
        return f"${parameter}"

    def user(self, column: Column) -> str:
        return self.label(column) if column.kind is Kind.TEXT else self.name(column.name)

    def label(self, column: Column) -> str:
        """Return the column as text or integer; text compares by bytes, which is by code points."""
        name = self.name(column.name)
        if column.kind is Kind.INTEGER:
            return name
        # A column of a database file may have a collation under which different texts are equal.
        return f'{name} COLLATE "binary"' if column.native == "VARCHAR" else f"CAST({name} AS VARCHAR)"

    def number(self, column: Column, least: str, most: str) -> str:
        number = self.real(self.name(column.name))
        return f"CASE WHEN NOT isnan({number}) THEN GREATEST(LEAST({number}, {most}), {least}) END"

    def integer(self, column: Column) -> str:
        return (
            f"TRY_CAST({self.name(column.name)} AS BIGINT)" if column.native == "UBIGINT" else super().integer(column)
        )

    def day(self, column: Column) -> str:
        moment = self._moment(column)
        years = f"{moment} >= DATE '0001-01-01' AND {moment} < DATE '10000-01-01'"
        return f"CASE WHEN {years} THEN CAST({moment} AS DATE) END"

    def hour(self, column: Column) -> str:
        return f"EXTRACT(HOUR FROM {self._moment(column)})"

    def _moment(self, column: Column) -> str:
        """Return a date or time without a time zone: an instant as it is in UTC, whatever the session's zone."""
        name = self.name(column.name)
        match column.kind:
            case Kind.INSTANT:
                return f"CASE WHEN isfinite({name}) THEN make_timestamp(epoch_us({name})) END"
            case Kind.TIMESTAMP:
                return f"TRY_CAST({name} AS TIMESTAMP)"
            case _:
                return name

    def date_part(self, unit: TimeUnit, day: str) -> str:
        return f"EXTRACT({'ISODOW' if unit is TimeUnit.WEEKDAY else unit.upper()} FROM {day})"

    def label_constant(self, column: Column, placeholder: str) -> str:
        if column.native == "UBIGINT":  # together with a BIGINT it would become wider than any label
            return f"CAST({placeholder} AS UBIGINT)"
        return super().label_constant(column, placeholder)

    def operand(self, column: Column) -> str:
        """Return the column as it is compared with a constant.

        Constants are finite, so that NaN exceeds them all as infinity does. Compared as it is, a group of rows of a
        Parquet file would be passed over by its largest number, which leaves NaN out.
        """
        match column.kind:
            case Kind.FLOAT:
                number = self.real(self.name(column.name))
                return f"CASE WHEN isnan({number}) THEN CAST('inf' AS DOUBLE) ELSE {number} END"
            case Kind.TIMESTAMP if column.native != "TIMESTAMP":
                return f"TRY_CAST({self.name(column.name)} AS TIMESTAMP)"
            case _:
                return super().operand(column)

    def like(self, operand: str, placeholder: str) -> str:
        return f"{operand} LIKE {placeholder} ESCAPE '\\'"

    def text_constant(self, value: str) -> str:
        return f"decode(unhex('{value.encode().hex()}'))"

    def text_length(self, text: str) -> str:
        return f"LENGTH({text})"

    def weighted_total(self, number: str, weight: str) -> str:
        """Return the exact sum of products, in 128 bits."""
        return f"SUM({weight})" if number == "1" else f"SUM(CAST({number} AS HUGEINT) * {weight})"

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the hash that ranks an item; the salt enters between two rounds: as one more argument it biases.

        After it come the hashes of texts, by which items of equal rank are sorted where hashes stand for texts.
        """
        hashed = {name: f"hash({name})" for name in self._texts}
        codes = [hashed.get(name, name) for name in (user, *labels)]
        ranked = f"hash(xor(hash({', '.join(codes)}), CAST({salt} AS UBIGINT)))"
        return ", ".join([ranked, *codes[1:]] if hashed else [ranked])

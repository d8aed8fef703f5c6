"""DuckDB's SQL: quoting, casts, the exact sum and the salted hash that engines/bounding.py asks for."""

from collections.abc import Sequence

from setwise.analytics.bins import TimeUnit
from setwise.analytics.engines.dialect import scaled_decimal
from setwise.analytics.schema import Column, Kind

_TYPES = {
    Kind.TEXT: ("VARCHAR", "ENUM"),
    Kind.INTEGER: ("BIGINT", "TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    Kind.FLOAT: ("DOUBLE", "FLOAT"),
    Kind.BOOLEAN: ("BOOLEAN",),
    Kind.DATE: ("DATE",),
    Kind.TIMESTAMP: ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    Kind.INSTANT: ("TIMESTAMP WITH TIME ZONE",),
    Kind.IDENTIFIER: ("UUID", "BLOB", "HUGEINT", "UHUGEINT"),
}
"""The types of each kind; a constant is cast to the first."""

_KINDS = {native: kind for kind, types in _TYPES.items() for native in types}


def duckdb_column(name: str, native: str) -> Column:
    """Return the column that DESCRIBE names with this type."""
    outer = native.split("(", maxsplit=1)[0]
    if outer == "DECIMAL":
        precision, scale = (int(digits) for digits in native[len("DECIMAL(") : -1].split(","))
        return Column(name=name, kind=Kind.DECIMAL, native=native, precision=precision, scale=scale)
    if native.endswith("]"):
        return Column(name=name, kind=Kind.OTHER, native="LIST")
    # An ENUM's type lists its values, which are data: only the outer word is kept.
    return Column(name=name, kind=_KINDS.get(outer, Kind.OTHER), native=outer)


SOURCE = "source_table"
"""What a table in memory, or one that is streamed, is called in statements."""


def quoted(identifier: str) -> str:
    """Return an identifier as SQL writes it."""
    return '"' + identifier.replace('"', '""') + '"'


def sql_text(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


class DuckDBDialect:
    """DuckDB's SQL: quoting, casts, the exact sum and the salted hash that engines/bounding.py asks for.

    `texts` are the columns u, g0, g1, .. that are text, where their hashes do not stand for them: items are ranked by
    the hashes of texts either way, so that the choice between the two changes nobody's items.
    """

    materializes = True

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._texts = texts

    def name(self, identifier: str) -> str:
        """Return an identifier in quotes."""
        return quoted(identifier)

    def placeholder(self, parameter: str) -> str:
        """Return where the parameter of that name stands."""
        return f"${parameter}"

    def user(self, column: Column) -> str:
        """Return the column such that equal means the same user."""
        return self.label(column) if column.kind is Kind.TEXT else self.name(column.name)

    def label(self, column: Column) -> str:
        """Return the column as text or integer; text compares by bytes, which is by code points."""
        name = self.name(column.name)
        if column.kind is Kind.INTEGER:
            return name
        # A column of a database file may have a collation under which different texts are equal.
        return f'{name} COLLATE "binary"' if column.native == "VARCHAR" else f"CAST({name} AS VARCHAR)"

    def not_null(self, value: str) -> str:
        """Return the value: a null that does not occur costs nothing."""
        return value

    def number(self, column: Column, least: str, most: str) -> str:
        """Return a column of numbers in floating point, clipped; null where it is none."""
        number = f"CAST({self.name(column.name)} AS DOUBLE)"
        return f"CASE WHEN NOT isnan({number}) THEN GREATEST(LEAST({number}, {most}), {least}) END"

    def integer(self, column: Column) -> str:
        """Return a column of integers in 64 bits, null where they do not fit."""
        return f"{'TRY_CAST' if column.native == 'UBIGINT' else 'CAST'}({self.name(column.name)} AS BIGINT)"

    def real(self, number: str) -> str:
        """Return a number in floating point of 64 bits."""
        return f"CAST({number} AS DOUBLE)"

    def text(self, value: str) -> str:
        """Return a value as text; text compares by bytes, which is by code points."""
        return f"CAST({value} AS VARCHAR)"

    def decimal_text(self, units: str, places: int) -> str:
        """Return a whole number of 10^-places as text with that many decimals."""
        return self.text(scaled_decimal(units, places))

    def day(self, column: Column) -> str:
        """Return the date of a moment; null outside the years 1 to 9999."""
        moment = self._moment(column)
        years = f"{moment} >= DATE '0001-01-01' AND {moment} < DATE '10000-01-01'"
        return f"CASE WHEN {years} THEN CAST({moment} AS DATE) END"

    def hour(self, column: Column) -> str:
        """Return the hour of a moment."""
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
        """Return a part of a date as an integer."""
        return f"EXTRACT({'ISODOW' if unit is TimeUnit.WEEKDAY else unit.upper()} FROM {day})"

    def days_before(self, day: str, days: str) -> str:
        """Return the date `days` days before another."""
        return f"{day} - CAST({days} AS INTEGER)"

    def label_constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a label of the column."""
        if column.native == "UBIGINT":  # together with a BIGINT it would become wider than any label
            return f"CAST({placeholder} AS UBIGINT)"
        return f"CAST({placeholder} AS {'BIGINT' if column.kind is Kind.INTEGER else 'VARCHAR'})"

    def operand(self, column: Column) -> str:
        """Return the column as it is compared with a constant.

        Constants are finite, so that NaN exceeds them all as infinity does. Compared as it is, a group of rows of a
        Parquet file would be passed over by its largest number, which leaves NaN out.
        """
        match column.kind:
            case Kind.TEXT:
                return self.label(column)
            case Kind.FLOAT:
                number = f"CAST({self.name(column.name)} AS DOUBLE)"
                return f"CASE WHEN isnan({number}) THEN CAST('inf' AS DOUBLE) ELSE {number} END"
            case Kind.TIMESTAMP if column.native != "TIMESTAMP":
                return f"TRY_CAST({self.name(column.name)} AS TIMESTAMP)"
            case _:
                return self.name(column.name)

    def constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a value of the column's type."""
        assert column.kind is not Kind.IDENTIFIER  # the parser compares none
        native = column.native if column.kind is Kind.DECIMAL else _TYPES[column.kind][0]
        return f"CAST({placeholder} AS {native})"

    def like(self, operand: str, placeholder: str) -> str:
        """Return whether text matches a pattern in which a backslash stands for the next character itself."""
        return f"{operand} LIKE {placeholder} ESCAPE '\\'"

    def total(self, number: str, largest: int | None) -> str:
        """Return the exact sum; DuckDB adds integers in 128 bits."""
        del largest
        return f"SUM({number})"

    def weighted_total(self, number: str, weight: str) -> str:
        """Return the exact sum of products, in 128 bits."""
        return f"SUM({weight})" if number == "1" else f"SUM(CAST({number} AS HUGEINT) * {weight})"

    def whole(self, number: str) -> str:
        """Return a number that is known to fit as a 64-bit integer."""
        return f"CAST({number} AS BIGINT)"

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the hash that ranks an item; the salt enters between two rounds: as one more argument it biases.

        After it come the hashes of texts, by which items of equal rank are sorted where hashes stand for texts.
        """
        hashed = {name: f"hash({name})" for name in self._texts}
        codes = [hashed.get(name, name) for name in (user, *labels)]
        ranked = f"hash(xor(hash({', '.join(codes)}), CAST({salt} AS UBIGINT)))"
        return ", ".join([ranked, *codes[1:]] if hashed else [ranked])

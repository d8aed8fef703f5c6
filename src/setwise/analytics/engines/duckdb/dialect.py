"""DuckDB's SQL dialect: quoting, casts, exact sums, and the salted hash that ranks a user's groups."""

from collections.abc import Sequence
from typing import ClassVar

from setwise.analytics.bins import TimeUnit
from setwise.analytics.engines.dialect import DAY_MICROSECONDS, EPOCH_DAYS, Dialect, in_years
from setwise.analytics.schema import Column, Kind


def duckdb_column(name: str, native: str) -> Column:
    """Return the `Column` called `name` for a type that DuckDB's DESCRIBE prints as `native`, such as DECIMAL(18,3)."""
    outer = native.split("(", maxsplit=1)[0]
    if outer == "DECIMAL":
        precision, scale = (int(digits) for digits in native[len("DECIMAL(") : -1].split(","))
        return Column(name=name, kind=Kind.DECIMAL, native=native, precision=precision, scale=scale)
    if native.endswith("]"):
        return Column(name=name, kind=Kind.OTHER, native="LIST")
    # The printed type of an ENUM lists its values, which are private data, so only the outer word is kept.
    return Column(name=name, kind=DuckDBDialect.kind_of(outer), native=outer)


SOURCE = "source_table"
"""The name under which a table in memory, or a streamed table, is registered with DuckDB."""


def quoted(identifier: str) -> str:
    """Return `identifier`, such as a column's name, in double quotes as SQL text; its own quotes are doubled."""
    return '"' + identifier.replace('"', '""') + '"'


def sql_text(value: str) -> str:
    """Return the text `value` as a SQL literal: in single quotes, with its own quotes doubled."""
    return "'" + value.replace("'", "''") + "'"


class DuckDBDialect(Dialect):
    """DuckDB's SQL dialect; all methods return SQL text.

    In SQL, u is the user column and g0, g1, ... are label columns. A query may replace texts in them by 64-bit hashes,
    which sort faster. `texts` names the columns that still hold texts; `rank_hash`, which puts a user's groups into a
    random order, hashes these first. So the order is the same whether a text or its hash is in the column.
    """

    types: ClassVar = {
        Kind.TEXT: ("VARCHAR", "ENUM"),
        Kind.INTEGER: ("BIGINT", "TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
        Kind.FLOAT: ("DOUBLE", "FLOAT"),
        Kind.BOOLEAN: ("BOOLEAN",),
        Kind.DATE: ("DATE",),
        Kind.TIMESTAMP: ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
        Kind.INSTANT: ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
        Kind.IDENTIFIER: ("UUID", "BLOB", "HUGEINT", "UHUGEINT"),
    }
    materializes = True

    # Items are ranked by the hashes of texts in both cases (text_codes.py).
    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._texts = texts

    def name(self, identifier: str) -> str:
        return quoted(identifier)

    def placeholder(self, parameter: str) -> str:
        return f"${parameter}"

    def user(self, column: Column) -> str:
        return self.label(column) if column.kind is Kind.TEXT else self.name(column.name)

    def label(self, column: Column) -> str:
        """Return a SQL expression for a row's group label from `column`: an integer or text.

        The label is an integer for an integer column, and text for other columns. Texts are compared by code point,
        even if the column of a database file has another collation.
        """
        name = self.name(column.name)
        if column.kind is Kind.INTEGER:
            return name
        # Without COLLATE, a column of a database file could have a collation under which different texts are equal.
        return f'{name} COLLATE "binary"' if column.native == "VARCHAR" else f"CAST({name} AS VARCHAR)"

    def null_if(self, value: str, *others: str) -> str:
        """Return a SQL expression equal to the SQL expression `value`, but null if `value` equals one of `others`.

        The text of `value` is repeated in the result only if it is simple, so that nested calls do not double the time
        in which DuckDB plans the query.
        """
        # DuckDB expands NULLIF(x, y) to a CASE with x written twice, before it plans: seven nested sums took 17 s. A
        # lambda function over a list of the one element `value` has it written once.
        is_short = "CASE " not in value and "lambda " not in value
        tested = value if is_short else "kept"
        condition = f"{tested} IS DISTINCT FROM {others[0]}"  # keeps `tested` if the other one is null
        if len(others) > 1:
            condition = f"{tested} NOT IN ({', '.join(others)})"  # several others are constants
        if is_short:
            return f"CASE WHEN {condition} THEN {value} END"
        return f"list_filter([{value}], lambda kept: {condition})[1]"

    def number(self, column: Column, least: str, most: str) -> str:
        number = self.real(self.name(column.name))
        return f"CASE WHEN NOT isnan({number}) THEN GREATEST(LEAST({number}, {most}), {least}) END"

    def integer(self, column: Column) -> str:
        return (
            f"TRY_CAST({self.name(column.name)} AS BIGINT)" if column.native == "UBIGINT" else super().integer(column)
        )

    def day(self, column: Column) -> str:
        moment = self._moment(column)
        return f"CASE WHEN {in_years(moment)} THEN CAST({moment} AS DATE) END"

    def microseconds(self, column: Column) -> str:
        moment = self._moment(column)
        return f"CASE WHEN {in_years(moment)} THEN epoch_us({moment}) + {EPOCH_DAYS * DAY_MICROSECONDS} END"

    def months_later(self, day: str, months: int) -> str:
        return f"CAST({day} + INTERVAL ({months}) MONTH AS DATE)"

    def quotient(self, number: str, divisor: int) -> str:
        return f"({number} // {divisor})"

    def hour(self, column: Column) -> str:
        return f"EXTRACT(HOUR FROM {self._moment(column)})"

    def _moment(self, column: Column) -> str:
        """Return a SQL expression for a date or time column as a date or a timestamp without time zone.

        A time with a zone is converted to UTC, so the result does not depend on the time zone of the DuckDB session.
        """
        name = self.name(column.name)
        match column.kind:
            case Kind.INSTANT:
                instant = self.operand(column)
                return f"CASE WHEN isfinite({instant}) THEN make_timestamp(epoch_us({instant})) END"
            case Kind.TIMESTAMP:
                return f"TRY_CAST({name} AS TIMESTAMP)"
            case _:
                return name

    def date_part(self, unit: TimeUnit, day: str) -> str:
        return f"EXTRACT({'ISODOW' if unit is TimeUnit.WEEKDAY else unit.upper()} FROM {day})"

    def label_constant(self, column: Column, placeholder: str) -> str:
        if column.native == "UBIGINT":  # as a BIGINT, DuckDB would widen both sides to HUGEINT, which no label holds
            return f"CAST({placeholder} AS UBIGINT)"
        return super().label_constant(column, placeholder)

    def operand(self, column: Column) -> str:
        """Return a SQL expression for `column` that a filter can compare with a constant; NaN is null."""
        match column.kind:
            case Kind.FLOAT:
                number = self.real(self.name(column.name))
                return f"CASE WHEN NOT isnan({number}) THEN {number} END"
            case Kind.INSTANT if column.native == "TIMESTAMPTZ_NS":
                return f"TRY_CAST({self.name(column.name)} AS TIMESTAMP WITH TIME ZONE)"
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
        """Return a SQL aggregate for the exact sum, in 128 bits, of `number` * `weight`, two SQL integer expressions.

        It adds up the rows of a prepared dataset (a stored random ranking of each user's groups), in each of which
        `weight` users add the same `number` to a group. As `number` can be 2^62, the sum can exceed 64 bits.
        """
        return f"SUM({weight})" if number == "1" else f"SUM(CAST({number} AS HUGEINT) * {weight})"

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return SQL sort keys that put a user's groups into a uniformly random order: a salted hash, and tie-breakers.

        `user` and `labels` are the SQL columns that are hashed, and `salt` is the SQL expression of the secret random
        number. The order is the same whether the columns have texts or hashes of texts.
        """
        hashed = {name: f"hash({name})" for name in self._texts}
        codes = [hashed.get(name, name) for name in (user, *labels)]
        # The salt is mixed in between two rounds: as one more argument of a single hash it gives a biased order.
        ranked = f"hash(xor(hash({', '.join(codes)}), CAST({salt} AS UBIGINT)))"
        return ", ".join([ranked, *codes[1:]] if hashed else [ranked])

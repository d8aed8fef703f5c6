"""PostgreSQL's SQL: quoting, casts, the exact sum and the salted hash that engines/sql.py asks for."""

from collections.abc import Sequence
from typing import assert_never

from setwise.analytics.schema import Column, Kind

_NUMERIC_HEADER = 4


def postgresql_column(name: str, native: str, enumerated: bool, modifier: int) -> Column:
    """Return the column that the catalogue describes by its type's name and modifier."""
    if native == "numeric" and modifier >= _NUMERIC_HEADER:
        digits = modifier - _NUMERIC_HEADER
        scale = (digits & 0x7FF ^ 0x400) - 0x400
        if scale >= 0:
            return Column(name=name, kind=Kind.DECIMAL, native=native, precision=digits >> 16, scale=scale)
    return Column(name=name, kind=Kind.TEXT if enumerated else _kind(native), native=native)


def _kind(native: str) -> Kind:
    match native:
        case "text" | "varchar" | "bpchar" | "name":
            return Kind.TEXT
        case "int2" | "int4" | "int8":
            return Kind.INTEGER
        case "float4" | "float8":
            return Kind.FLOAT
        case "numeric":
            return Kind.DECIMAL
        case "bool":
            return Kind.BOOLEAN
        case "date":
            return Kind.DATE
        case "timestamp":
            return Kind.TIMESTAMP
        case "timestamptz":
            return Kind.INSTANT
        case "uuid" | "bytea":
            return Kind.IDENTIFIER
        case _:
            return Kind.OTHER


class PostgresqlDialect:
    """PostgreSQL's words, for psycopg: a percent sign stands doubled wherever it is not a parameter."""

    def name(self, identifier: str) -> str:
        """Return an identifier in quotes."""
        return '"' + identifier.replace('"', '""').replace("%", "%%") + '"'

    def placeholder(self, parameter: str) -> str:
        """Return where the parameter of that name stands."""
        return f"%({parameter})s"

    def user(self, column: Column) -> str:
        """Return the column such that equal means the same user, whatever collation the column has."""
        return self.label(column) if column.kind is Kind.TEXT else self.name(column.name)

    def label(self, column: Column) -> str:
        """Return the column as text or integer; the collation "C" compares by code points."""
        name = self.name(column.name)
        return f"CAST({name} AS bigint)" if column.kind is Kind.INTEGER else f'CAST({name} AS text) COLLATE "C"'

    def row(self, labels: Sequence[str]) -> str:
        """Return several labels as one value that can be grouped, ordered and hashed."""
        return f"ROW({', '.join(labels)})"

    def number(self, column: Column) -> str:
        """Return a column of numbers such that no sum can fail: null where it is none, and none beyond 1e100."""
        name = self.name(column.name)
        if column.kind is Kind.INTEGER:
            return name
        number = f"CAST({name} AS double precision)"
        return f"CASE WHEN {number} <> 'NaN' THEN GREATEST(LEAST({number}, 1e100), -1e100) END"

    def label_constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a label of the column."""
        return f"CAST({placeholder} AS {'bigint' if column.kind is Kind.INTEGER else 'text'})"

    def operand(self, column: Column) -> str:
        """Return the column as it is compared with a constant."""
        match column.kind:
            case Kind.TEXT:
                return self.label(column)
            case Kind.FLOAT:
                return f"CAST({self.name(column.name)} AS float8)"
            case _:
                return self.name(column.name)

    def constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a value of the column's type."""
        match column.kind:
            case Kind.TEXT:
                native = "text"
            case Kind.INTEGER:
                native = "bigint"
            case Kind.FLOAT:
                native = "float8"
            case Kind.BOOLEAN:
                native = "boolean"
            case Kind.DATE:
                native = "date"
            case Kind.TIMESTAMP:
                native = "timestamp"
            case Kind.INSTANT:
                native = "timestamptz"
            case Kind.DECIMAL:
                native = "numeric"
            case Kind.IDENTIFIER | Kind.OTHER:
                raise AssertionError("the parser compares no such column")
            case _:
                assert_never(column.kind)
        return f"CAST({placeholder} AS {native})"

    def like(self, operand: str, placeholder: str) -> str:
        """Return whether text matches a pattern in which a backslash stands for the next character itself."""
        return f"{operand} LIKE CAST({placeholder} AS text) ESCAPE E'\\\\'"

    def total(self, number: str, largest: int | None) -> str:
        """Return the exact sum; PostgreSQL adds integers as numerics."""
        del largest
        return f"SUM({number})"

    def weighted_total(self, number: str, weight: str) -> str:
        """Return the exact sum of products, as numerics."""
        return f"SUM(CAST({number} AS numeric) * {weight})"

    def whole(self, number: str) -> str:
        """Return a number that is known to fit as a 64-bit integer."""
        return f"CAST({number} AS bigint)"

    def rank_hash(self, user: str, item: str, salt: str) -> str:
        """Return the hash that ranks an item: the salt seeds the hash of the user, which seeds that of the item.

        A chain needs no separator, which a label could contain.
        """
        return f"hashtextextended(CAST({item} AS text), hashtextextended(CAST({user} AS text), {salt}))"

"""Spark's SQL: quoting, casts, the exact sum and the salted hash that engines/sql.py asks for."""

from collections.abc import Sequence
from typing import assert_never

from setwise.analytics.schema import Column, Kind

SAFE_IN_64_BITS = 2**20
"""Sums of numbers up to this fit in 64 bits for 2^43 users."""


def spark_column(name: str, native: str) -> Column:
    """Return the column whose type Spark writes like this."""
    if native.startswith("decimal("):
        precision, scale = (int(digits) for digits in native[len("decimal(") : -1].split(","))
        return Column(name=name, kind=Kind.DECIMAL, native=native, precision=precision, scale=scale)
    outer = native.split("(", maxsplit=1)[0].split("<", maxsplit=1)[0]
    return Column(name=name, kind=_kind(outer), native=native if outer.startswith("string") else outer)


def _kind(native: str) -> Kind:
    match native:
        case "varchar" | "char":
            return Kind.TEXT
        case _ if native.split(maxsplit=1)[0] == "string":
            return Kind.TEXT
        case "tinyint" | "smallint" | "int" | "bigint":
            return Kind.INTEGER
        case "float" | "double":
            return Kind.FLOAT
        case "boolean":
            return Kind.BOOLEAN
        case "date":
            return Kind.DATE
        case "timestamp_ntz":
            return Kind.TIMESTAMP
        case "timestamp":
            return Kind.INSTANT
        case "binary":
            return Kind.IDENTIFIER
        case _:
            return Kind.OTHER


class SparkDialect:
    """Spark's SQL: quoting, casts, the exact sum and the salted hash that engines/sql.py asks for."""

    def name(self, identifier: str) -> str:
        """Return an identifier in quotes."""
        return "`" + identifier.replace("`", "``") + "`"

    def placeholder(self, parameter: str) -> str:
        """Return where the parameter of that name stands."""
        return f":{parameter}"

    def user(self, column: Column) -> str:
        """Return the column such that equal means the same user."""
        return self._text(column) if column.kind is Kind.TEXT else self.name(column.name)

    def label(self, column: Column) -> str:
        """Return the column as text or integer, null where text is not UTF-8: Spark takes any bytes for text."""
        match column.kind:
            case Kind.INTEGER:
                return self.name(column.name)
            case Kind.TEXT:
                return f"TRY_VALIDATE_UTF8({self._text(column)})"
            case _:
                return f"CAST({self.name(column.name)} AS STRING)"

    def _text(self, column: Column) -> str:
        """Return a column of text; it compares by bytes, which is by code points."""
        name = self.name(column.name)
        return name if column.native == "string" else f"COLLATE({name}, 'UTF8_BINARY')"

    def row(self, labels: Sequence[str]) -> str:
        """Return several labels as one value that can be grouped, ordered and hashed."""
        return f"struct({', '.join(labels)})"

    def number(self, column: Column) -> str:
        """Return a column of numbers such that no sum can fail: null where it is none, and none beyond 1e100."""
        name = self.name(column.name)
        if column.kind is Kind.INTEGER:
            return name
        number = f"CAST({name} AS DOUBLE)"
        return f"CASE WHEN NOT isnan({number}) THEN GREATEST(LEAST({number}, 1e100), -1e100) END"

    def label_constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a label of the column."""
        return f"CAST({placeholder} AS {'BIGINT' if column.kind is Kind.INTEGER else 'STRING'})"

    def operand(self, column: Column) -> str:
        """Return the column as it is compared with a constant."""
        match column.kind:
            case Kind.TEXT:
                return self._text(column)
            case Kind.FLOAT:
                return f"CAST({self.name(column.name)} AS DOUBLE)"
            case _:
                return self.name(column.name)

    def constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a value of the column's type."""
        match column.kind:
            case Kind.TEXT:
                native = "STRING"
            case Kind.INTEGER:
                native = "BIGINT"
            case Kind.FLOAT:
                native = "DOUBLE"
            case Kind.BOOLEAN:
                native = "BOOLEAN"
            case Kind.DATE:
                native = "DATE"
            case Kind.TIMESTAMP:
                native = "TIMESTAMP_NTZ"
            case Kind.INSTANT:
                native = "TIMESTAMP"
            case Kind.DECIMAL:
                native = column.native
            case Kind.IDENTIFIER | Kind.OTHER:
                raise AssertionError("the parser compares no such column")
            case _:
                assert_never(column.kind)
        return f"CAST({placeholder} AS {native})"

    def like(self, operand: str, placeholder: str) -> str:
        """Return whether text matches a pattern in which a backslash stands for the next character itself."""
        return f"{operand} LIKE {placeholder}"

    def total(self, number: str, largest: int | None) -> str:
        """Return the exact sum, in decimals where 64 bits might not do."""
        small = largest is not None and largest <= SAFE_IN_64_BITS
        return f"SUM({number})" if small else f"SUM(CAST({number} AS DECIMAL(28, 0)))"

    def weighted_total(self, number: str, weight: str) -> str:
        """Return the exact sum of products: 2^62 times all rows there can be has fewer than 38 digits."""
        return f"SUM(CAST(CAST({number} AS DECIMAL(19, 0)) * CAST({weight} AS DECIMAL(19, 0)) AS DECIMAL(38, 0)))"

    def whole(self, number: str) -> str:
        """Return a number that is known to fit as a 64-bit integer."""
        return f"CAST({number} AS BIGINT)"

    def rank_hash(self, user: str, item: str, salt: str) -> str:
        """Return the hash that ranks an item; every argument seeds the hash of the next."""
        return f"xxhash64({salt}, {user}, {item})"

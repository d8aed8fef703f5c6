"""Spark's SQL: quoting, casts, the exact sum and the salted hash that engines/bounding.py asks for."""

from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar

from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.schema import Column, Kind

SAFE_IN_64_BITS = 2**20
"""Sums of numbers up to this fit in 64 bits for 2^43 users."""

_DAY = 86_400
"""Seconds of a day."""


def spark_column(name: str, native: str) -> Column:
    """Return the column whose type Spark writes like this."""
    if native.startswith("decimal("):
        precision, scale = (int(digits) for digits in native[len("decimal(") : -1].split(","))
        return Column(name=name, kind=Kind.DECIMAL, native=native, precision=precision, scale=scale)
    outer = native.split("(", maxsplit=1)[0].split("<", maxsplit=1)[0]
    return Column(
        name=name,
        kind=SparkDialect.kind_of(outer.split(maxsplit=1)[0]),
        native=native if outer.startswith("string") else outer,
    )


class SparkDialect(Dialect):
    """Spark's SQL: quoting, casts, the exact sum and the salted hash that engines/bounding.py asks for."""

    types: ClassVar = {
        Kind.TEXT: ("string", "varchar", "char"),
        Kind.INTEGER: ("bigint", "int", "smallint", "tinyint"),
        Kind.FLOAT: ("double", "float"),
        Kind.BOOLEAN: ("boolean",),
        Kind.DATE: ("date",),
        Kind.TIMESTAMP: ("timestamp_ntz",),
        Kind.INSTANT: ("timestamp",),
        Kind.IDENTIFIER: ("binary",),
    }
    iso_weekday = "DAYOFWEEK_ISO"

    def name(self, identifier: str) -> str:
        return "`" + identifier.replace("`", "``") + "`"

    def placeholder(self, parameter: str) -> str:
        return f":{parameter}"

    def user(self, column: Column) -> str:
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

    def number(self, column: Column, least: str, most: str) -> str:
        number = self.real(self.name(column.name))
        there = f"{number} IS NOT NULL AND NOT isnan({number})"  # of null, isnan is false
        return f"CASE WHEN {there} THEN GREATEST(LEAST({number}, {most}), {least}) END"

    def day(self, column: Column) -> str:
        day = f"CAST({self.name(column.name)} AS DATE)"
        if column.kind is Kind.INSTANT:
            day = f"DATE_FROM_UNIX_DATE(CAST(({_seconds(column)} - {_of_day(column)}) DIV {_DAY} AS INT))"
        return f"CASE WHEN {day} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {day} END"

    def hour(self, column: Column) -> str:
        if column.kind is Kind.INSTANT:
            return f"{_of_day(column)} DIV 3600"
        return self.whole(f"EXTRACT(HOUR FROM {self.name(column.name)})")

    def days_before(self, day: str, days: str) -> str:
        return f"DATE_SUB({day}, CAST({days} AS INT))"

    def operand(self, column: Column) -> str:
        """Return the column as it is compared with a constant.

        Constants are finite, so that NaN exceeds them all as infinity does, and adding 0 makes -0.0 equal to 0.0 also
        where values are looked up. Compared as it is, a group of rows of a Parquet file would be passed over by its
        largest number, which leaves NaN out, or by its dictionary, in which -0.0 is not 0.0.
        """
        match column.kind:
            case Kind.TEXT:
                return self._text(column)
            case Kind.FLOAT:
                number = self.real(self.name(column.name))
                return f"CASE WHEN isnan({number}) THEN CAST('inf' AS DOUBLE) ELSE {number} + 0D END"
            case _:
                return self.name(column.name)

    def pattern(self, written: str) -> str:
        """Return a pattern as a regular expression that takes the first place of every part and never another.

        LIKE would try all places of all parts: with six of them, one row of eighty characters takes minutes.
        """
        first, *others = map(_part, written.split("%"))
        between = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
        last = f".*{others[-1]}" if others else ""
        return rf"(?s)\A{first}{between}{last}\z"

    def like(self, operand: str, placeholder: str) -> str:
        return f"{operand} RLIKE {placeholder}"

    def total(self, number: str, largest: int | None) -> str:
        """Return the exact sum, in decimals where 64 bits might not do."""
        small = largest is not None and largest <= SAFE_IN_64_BITS
        return f"SUM({number})" if small else f"SUM(CAST({number} AS DECIMAL(28, 0)))"

    def weighted_total(self, number: str, weight: str) -> str:
        """Return the exact sum of products: 2^62 times all rows there can be has fewer than 38 digits."""
        return f"SUM(CAST(CAST({number} AS DECIMAL(19, 0)) * CAST({weight} AS DECIMAL(19, 0)) AS DECIMAL(38, 0)))"

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the hash that ranks an item; every argument seeds the hash of the next."""
        return f"xxhash64({', '.join([salt, user, *labels])})"


def _part(written: str) -> str:
    """Return the part of a pattern between two percent signs as a regular expression."""
    found = ""
    for character, run in groupby(written):
        length = len(list(run))
        found += f".{{{length}}}" if character == "_" else rf"\x{{{ord(character):x}}}" * length
    return found


def _seconds(column: Column) -> str:
    """Return an instant in seconds since 1970 in UTC, whatever the session's time zone."""
    return f"UNIX_SECONDS({SparkDialect().name(column.name)})"


def _of_day(column: Column) -> str:
    return f"PMOD({_seconds(column)}, {_DAY})"

"""Spark's SQL: quoting, casts, the exact sum and the salted hash that engines/bounding.py asks for."""

from collections.abc import Sequence

from setwise.analytics.bins import TimeUnit
from setwise.analytics.engines.dialect import scaled_decimal
from setwise.analytics.schema import Column, Kind

SAFE_IN_64_BITS = 2**20
"""Sums of numbers up to this fit in 64 bits for 2^43 users."""

_DAY = 86_400
"""Seconds of a day."""


_TYPES = {
    Kind.TEXT: ("string", "varchar", "char"),
    Kind.INTEGER: ("bigint", "int", "smallint", "tinyint"),
    Kind.FLOAT: ("double", "float"),
    Kind.BOOLEAN: ("boolean",),
    Kind.DATE: ("date",),
    Kind.TIMESTAMP: ("timestamp_ntz",),
    Kind.INSTANT: ("timestamp",),
    Kind.IDENTIFIER: ("binary",),
}
"""The types of each kind; a constant is cast to the first."""

_KINDS = {native: kind for kind, types in _TYPES.items() for native in types}


def spark_column(name: str, native: str) -> Column:
    """Return the column whose type Spark writes like this."""
    if native.startswith("decimal("):
        precision, scale = (int(digits) for digits in native[len("decimal(") : -1].split(","))
        return Column(name=name, kind=Kind.DECIMAL, native=native, precision=precision, scale=scale)
    outer = native.split("(", maxsplit=1)[0].split("<", maxsplit=1)[0]
    return Column(
        name=name,
        kind=_KINDS.get(outer.split(maxsplit=1)[0], Kind.OTHER),
        native=native if outer.startswith("string") else outer,
    )


class SparkDialect:
    """Spark's SQL: quoting, casts, the exact sum and the salted hash that engines/bounding.py asks for."""

    materializes = False

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

    def not_null(self, value: str) -> str:
        """Return the value: a null that does not occur costs nothing."""
        return value

    def number(self, column: Column, least: str, most: str) -> str:
        """Return a column of numbers in floating point, clipped; null where it is none."""
        number = f"CAST({self.name(column.name)} AS DOUBLE)"
        there = f"{number} IS NOT NULL AND NOT isnan({number})"  # of null, isnan is false
        return f"CASE WHEN {there} THEN GREATEST(LEAST({number}, {most}), {least}) END"

    def integer(self, column: Column) -> str:
        """Return a column of integers in 64 bits."""
        return f"CAST({self.name(column.name)} AS BIGINT)"

    def real(self, number: str) -> str:
        """Return a number in floating point of 64 bits."""
        return f"CAST({number} AS DOUBLE)"

    def text(self, value: str) -> str:
        """Return a value as text."""
        return f"CAST({value} AS STRING)"

    def decimal_text(self, units: str, places: int) -> str:
        """Return a whole number of 10^-places as text with that many decimals."""
        return self.text(scaled_decimal(units, places))

    def day(self, column: Column) -> str:
        """Return the date of a moment; null outside the years 1 to 9999."""
        day = f"CAST({self.name(column.name)} AS DATE)"
        if column.kind is Kind.INSTANT:
            day = f"DATE_FROM_UNIX_DATE(CAST(({_seconds(column)} - {_of_day(column)}) DIV {_DAY} AS INT))"
        return f"CASE WHEN {day} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {day} END"

    def hour(self, column: Column) -> str:
        """Return the hour of a moment."""
        if column.kind is Kind.INSTANT:
            return f"{_of_day(column)} DIV 3600"
        return self.whole(f"EXTRACT(HOUR FROM {self.name(column.name)})")

    def date_part(self, unit: TimeUnit, day: str) -> str:
        """Return a part of a date as an integer."""
        return self.whole(f"EXTRACT({'DAYOFWEEK_ISO' if unit is TimeUnit.WEEKDAY else unit.upper()} FROM {day})")

    def days_before(self, day: str, days: str) -> str:
        """Return the date `days` days before another."""
        return f"DATE_SUB({day}, CAST({days} AS INT))"

    def label_constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a label of the column."""
        return f"CAST({placeholder} AS {'BIGINT' if column.kind is Kind.INTEGER else 'STRING'})"

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
                number = f"CAST({self.name(column.name)} AS DOUBLE)"
                return f"CASE WHEN isnan({number}) THEN CAST('inf' AS DOUBLE) ELSE {number} + 0D END"
            case _:
                return self.name(column.name)

    def constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a value of the column's type."""
        assert column.kind is not Kind.IDENTIFIER  # the parser compares none
        native = column.native if column.kind is Kind.DECIMAL else _TYPES[column.kind][0]
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

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the hash that ranks an item; every argument seeds the hash of the next."""
        return f"xxhash64({', '.join([salt, user, *labels])})"


def _seconds(column: Column) -> str:
    """Return an instant in seconds since 1970 in UTC, whatever the session's time zone."""
    return f"UNIX_SECONDS({SparkDialect().name(column.name)})"


def _of_day(column: Column) -> str:
    return f"PMOD({_seconds(column)}, {_DAY})"

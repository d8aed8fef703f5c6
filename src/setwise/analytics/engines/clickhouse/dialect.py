"""ClickHouse's SQL: quoting, casts, the exact sum and the salted hash that engines/bounding.py asks for.

Functions compute what stands under a null as well as what does not, and a conversion that fails there fails the
statement. So every conversion here is one that cannot fail, whatever a row holds.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

from setwise.analytics.bins import TimeUnit
from setwise.analytics.engines.dialect import Dialect, scaled_decimal
from setwise.analytics.schema import Column, Kind

SAFE_IN_64_BITS = 2**20
"""Sums of numbers up to this fit in 64 bits for 2^43 users; beyond, they would wrap around without an error."""

_WRAPPED = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)", re.DOTALL)
_PARTS = {
    TimeUnit.YEAR: "toYear",
    TimeUnit.QUARTER: "toQuarter",
    TimeUnit.MONTH: "toMonth",
    TimeUnit.WEEK: "toISOWeek",
    TimeUnit.DAY: "toDayOfMonth",
    TimeUnit.WEEKDAY: "toDayOfWeek",
}
_NANOSECONDS = 10**9


def clickhouse_column(name: str, native: str) -> Column:
    """Return the column whose type ClickHouse writes like this."""
    while found := _WRAPPED.fullmatch(native):
        native = found[1]
    outer, _, inside = native.partition("(")
    if outer == "Decimal":
        precision, scale = (int(digits) for digits in inside[:-1].split(","))
        return Column(name=name, kind=Kind.DECIMAL, native=native, precision=precision, scale=scale)
    if outer == "DateTime64":
        return Column(name=name, kind=Kind.INSTANT, native=outer, scale=int(re.split("[,)]", inside)[0]))
    # The type of an Enum lists its values, which are data: only the outer word is kept.
    return Column(name=name, kind=ClickHouseDialect.kind_of(outer), native=outer)


def quoted(identifier: str) -> str:
    """Return an identifier in quotes; a backslash escapes inside them, too."""
    return "`" + identifier.replace("\\", "\\\\").replace("`", "\\`") + "`"


class ClickHouseDialect(Dialect):
    """ClickHouse's words; every parameter is sent as text and converted where it stands."""

    types: ClassVar = {
        Kind.TEXT: ("String", "FixedString", "Enum8", "Enum16"),
        Kind.INTEGER: ("Int64", "Int8", "Int16", "Int32", "UInt8", "UInt16", "UInt32", "UInt64"),
        Kind.FLOAT: ("Float64", "Float32", "BFloat16"),
        Kind.BOOLEAN: ("Bool",),
        Kind.DATE: ("Date32", "Date"),
        Kind.INSTANT: ("DateTime64", "DateTime"),  # a point in time, whatever zone it shows
        Kind.IDENTIFIER: ("UUID", "IPv4", "IPv6", "Int128", "Int256", "UInt128", "UInt256"),
    }

    def name(self, identifier: str) -> str:
        return quoted(identifier)

    def placeholder(self, parameter: str) -> str:
        return f"{{{parameter}:String}}"

    def user(self, column: Column) -> str:
        """Return the column as it is: values of one type are equal when all of their bytes are, valid text or not."""
        return self.name(column.name)

    def label(self, column: Column) -> str:
        """Return the column as text or integer, null where text is not UTF-8: ClickHouse takes any bytes for text."""
        match column.kind:
            case Kind.INTEGER:
                return self.name(column.name)
            case Kind.TEXT:
                text = self._text(column)
                return f"CASE WHEN isValidUTF8({text}) THEN {text} END"
            case _:
                return f"toString({self.name(column.name)})"

    def _text(self, column: Column) -> str:
        """Return a column of text; it compares by bytes, which is by code points. A FixedString loses its padding."""
        name = self.name(column.name)
        return name if column.native == "String" else f"toString({name})"

    def label_constant(self, column: Column, placeholder: str) -> str:
        if column.kind is not Kind.INTEGER:
            return placeholder
        # Together with an unsigned column the label may be negative, which takes more than 64 bits.
        return f"toInt128({placeholder})" if column.native == "UInt64" else f"toInt64({placeholder})"

    def not_null(self, value: str) -> str:
        """Return the value as one of a type without null: grouping by another takes twice as long."""
        return f"assumeNotNull({value})"

    def number(self, column: Column, least: str, most: str) -> str:
        number = f"toFloat64({self.name(column.name)})"
        return f"CASE WHEN NOT isNaN({number}) THEN GREATEST(LEAST({number}, {most}), {least}) END"

    def integer(self, column: Column) -> str:
        name = self.name(column.name)
        return f"accurateCastOrNull({name}, 'Int64')" if column.native == "UInt64" else f"toInt64({name})"

    def real(self, number: str) -> str:
        return f"toFloat64({number})"

    def text(self, value: str) -> str:
        return f"toString({value})"

    def decimal_text(self, units: str, places: int) -> str:
        """Return a whole number of 10^-places as text; toString would leave zeros at the end out."""
        return f"toDecimalString({scaled_decimal(units, places)}, {places})"

    def day(self, column: Column) -> str:
        """Return the date of a moment, in UTC; null outside the years 1 to 9999."""
        zone = "" if column.kind is Kind.DATE else ", 'UTC'"
        day = f"toDate32({self.name(column.name)}{zone})"
        return f"CASE WHEN {day} BETWEEN toDate32('0001-01-01') AND toDate32('9999-12-31') THEN {day} END"

    def hour(self, column: Column) -> str:
        """Return the hour of a moment, in UTC."""
        return f"toHour({self.name(column.name)}, 'UTC')"

    def date_part(self, unit: TimeUnit, day: str) -> str:
        return f"{_PARTS[unit]}({day})"

    def days_before(self, day: str, days: str) -> str:
        return f"{day} - toInt32({days})"

    def operand(self, column: Column) -> str:
        """Return the column as it is compared with a constant.

        Constants are finite, so that NaN exceeds them all as infinity does. Adding 0.0 makes -0.0 equal to 0.0 also
        where ClickHouse looks values up by hash. Times of different precision are compared as nanoseconds in 128 bits,
        because bringing them to one precision fails where it overflows.
        """
        name = self.name(column.name)
        match column.kind:
            case Kind.TEXT:
                return self._text(column)
            case Kind.FLOAT:
                return f"if(isNaN({name}), inf, toFloat64({name}) + 0.0)"
            case Kind.INSTANT if column.native == "DateTime":
                return f"toInt128(toUnixTimestamp({name})) * {_NANOSECONDS}"
            case Kind.INSTANT:
                return f"toInt128(reinterpret({name}, 'Int64')) * {10 ** (9 - (column.scale or 0))}"
            case _:
                return name

    def constant(self, column: Column, placeholder: str) -> str:
        match column.kind:
            case Kind.TEXT:
                return placeholder
            case Kind.INSTANT:
                moment = f"toDateTime64(substring({placeholder}, 1, 26), 6, 'UTC')"
                return f"toInt128(reinterpret({moment}, 'Int64')) * 1000"
            case Kind.FLOAT:
                return f"toFloat64({placeholder}) + 0.0"
            case _:
                return super().constant(column, placeholder)

    def like(self, operand: str, placeholder: str) -> str:
        return f"{operand} LIKE {placeholder}"

    def truth(self, condition: str) -> str:
        """Return a condition as a truth value: comparisons are numbers here."""
        return f"CAST({condition}, 'Nullable(Bool)')"

    def text_constant(self, value: str) -> str:
        return f"unhex('{value.encode().hex()}')"

    def translated(self, text: str, characters: str, others: str) -> str:
        return f"translateUTF8({text}, '{characters}', '{others}')"

    def substring(self, text: str, first: int, length: int | None = None) -> str:
        return f"substringUTF8({text}, {first}{'' if length is None else f', {length}'})"

    def text_length(self, text: str) -> str:
        return f"lengthUTF8({text})"

    def total(self, number: str, largest: int | None) -> str:
        """Return the exact sum, in 128 bits where 64 might not do."""
        small = largest is not None and largest <= SAFE_IN_64_BITS
        return f"SUM({number})" if small else f"SUM(toInt128({number}))"

    def weighted_total(self, number: str, weight: str) -> str:
        """Return the exact sum of products, in 128 bits: 2^62 times all rows there can be is less than 2^127."""
        return f"SUM({weight})" if number == "1" else f"SUM(toInt128({number}) * toInt128({weight}))"

    def whole(self, number: str) -> str:
        """Return a number that is known to fit as a 64-bit integer; what stands under a null need not."""
        return f"accurateCastOrNull({number}, 'Int64')"

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the hash that ranks an item: SipHash with the salt as its key."""
        return f"sipHash64Keyed(({salt}, toUInt64(0)), {', '.join([user, *labels])})"

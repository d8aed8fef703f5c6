"""ClickHouse's SQL dialect: quoting, casts, exact sums, and the salted hash that ranks a user's groups.

For a null ClickHouse stores some other value of the type, and evaluates functions on that value, too. A conversion that
fails on this value makes the statement fail. So every conversion here is one that cannot fail on any value.
"""

import re
from collections.abc import Sequence
from datetime import date
from typing import ClassVar

from setwise.analytics.bins import TimeUnit
from setwise.analytics.engines.dialect import DAY_MICROSECONDS, EPOCH_DAYS, SAFE_IN_64_BITS, Dialect, scaled_decimal
from setwise.analytics.schema import Column, Kind

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
    """Return the `Column` called `name` for a ClickHouse type `native`, such as Nullable(Int64)."""
    while wrapped := _WRAPPED.fullmatch(native):
        native = wrapped[1]
    outer, _, inside = native.partition("(")
    if outer == "Decimal":
        precision, scale = (int(digits) for digits in inside[:-1].split(","))
        return Column(name=name, kind=Kind.DECIMAL, native=native, precision=precision, scale=scale)
    if outer == "DateTime64":
        return Column(name=name, kind=Kind.INSTANT, native=outer, scale=int(re.split("[,)]", inside)[0]))
    # The printed type of an Enum lists its values, which are private data, so only the outer word is kept.
    return Column(name=name, kind=ClickHouseDialect.kind_of(outer), native=outer)


def quoted(identifier: str) -> str:
    """Return `identifier` in backticks for SQL; backslashes are doubled, because ClickHouse reads them as escapes."""
    return "`" + identifier.replace("\\", "\\\\").replace("`", "\\`") + "`"


class ClickHouseDialect(Dialect):
    """ClickHouse's SQL dialect. All methods return SQL text.

    Every parameter is sent as text, and the SQL around its placeholder converts it. The constant `collects_sets` is
    True because ClickHouse collects each user's groups as a set faster than a window function ranks them.
    """

    collects_sets: ClassVar[bool] = True

    types: ClassVar = {
        Kind.TEXT: ("String", "FixedString", "Enum8", "Enum16"),
        Kind.INTEGER: ("Int64", "Int8", "Int16", "Int32", "UInt8", "UInt16", "UInt32", "UInt64"),
        Kind.FLOAT: ("Float64", "Float32", "BFloat16"),
        Kind.BOOLEAN: ("Bool",),
        Kind.DATE: ("Date32", "Date"),
        Kind.INSTANT: ("DateTime64", "DateTime"),  # stored in UTC; the time zone of the type only affects display
        Kind.IDENTIFIER: ("UUID", "IPv4", "IPv6", "Int128", "Int256", "UInt128", "UInt256"),
    }

    def name(self, identifier: str) -> str:
        return quoted(identifier)

    def placeholder(self, parameter: str) -> str:
        return f"{{{parameter}:String}}"

    def user(self, column: Column) -> str:
        """Return the SQL expression of the user column, whose values identify users: its quoted name.

        ClickHouse compares values by their bytes. So two values are the same user if and only if their bytes are equal,
        even if they are not valid UTF-8.
        """
        return self.name(column.name)

    def label(self, column: Column) -> str:
        """Return a SQL expression for a row's group label from `column`: an integer or text.

        The label is an integer for an integer column, and text for other columns. ClickHouse's strings can hold any
        bytes; a value that is not valid UTF-8 becomes null.
        """
        match column.kind:
            case Kind.INTEGER:
                return self.name(column.name)
            case Kind.TEXT:
                text = self._text(column)
                return f"CASE WHEN isValidUTF8({text}) THEN {text} END"
            case _:
                return f"toString({self.name(column.name)})"

    def _text(self, column: Column) -> str:
        """Return a SQL expression for the text column `column` as a String.

        Strings are compared by bytes and so by code point. The zero bytes that pad a value of type FixedString are
        removed.
        """
        name = self.name(column.name)
        return name if column.native == "String" else f"toString({name})"

    def label_constant(self, column: Column, placeholder: str) -> str:
        if column.kind is not Kind.INTEGER:
            return placeholder
        # A negative label beside a UInt64 column needs a type of more than 64 bits.
        return f"toInt128({placeholder})" if column.native == "UInt64" else f"toInt64({placeholder})"

    def not_null(self, value: str) -> str:
        """Return a SQL expression that casts the SQL expression `value` to a type without null; `value` is never null.

        ClickHouse groups rows by such types twice as fast.
        """
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
        """Return a SQL expression for `units` * 10^-`places` as text, with exactly `places` decimals.

        `units` is the SQL expression of an integer. ClickHouse's toString would drop zeros at the end.
        """
        return f"toDecimalString({scaled_decimal(units, places)}, {places})"

    def day(self, column: Column) -> str:
        """Return a SQL expression for the date of a date column, or for the UTC date of a column of times.

        The date is null outside the years 1 to 9999.
        """
        zone = "" if column.kind is Kind.DATE else ", 'UTC'"
        day = f"toDate32({self.name(column.name)}{zone})"
        return f"CASE WHEN {day} BETWEEN toDate32('0001-01-01') AND toDate32('9999-12-31') THEN {day} END"

    def hour(self, column: Column) -> str:
        """Return a SQL expression for the hour of the day, 0 to 23, in UTC, of the times in `column`."""
        return f"toHour({self.name(column.name)}, 'UTC')"

    def date_part(self, unit: TimeUnit, day: str) -> str:
        return f"{_PARTS[unit]}({day})"

    def date_constant(self, day: date) -> str:
        return f"toDate32('{day.isoformat()}')"

    def day_number(self, day: str) -> str:
        return f"(toInt64(toInt32({day})) + {EPOCH_DAYS})"

    def numbered_day(self, number: str) -> str:
        return f"addDays(toDate32('1970-01-01'), {number} - {EPOCH_DAYS})"

    def first_of_month(self, year: str, month: str) -> str:
        return f"makeDate32({year}, {month}, 1)"

    def months_later(self, day: str, months: int) -> str:
        return f"addMonths({day}, {months})"

    def microseconds(self, column: Column) -> str:
        """Return a SQL expression for the microseconds from 0001-01-01 to the time in `column`, in 64 bits.

        Null outside the years 1 to 9999. Computed in 128 bits, because nanoseconds since the year 1 do not fit into 64.
        """
        number = f"intDiv({self.operand(column)} + {EPOCH_DAYS * DAY_MICROSECONDS} * toInt128(1000), 1000)"
        end = date.max.toordinal() * DAY_MICROSECONDS
        return self.int64(f"CASE WHEN {number} >= 0 AND {number} < {end} THEN {number} END")

    def quotient(self, number: str, divisor: int) -> str:
        return f"intDiv({number}, {divisor})"

    def days_before(self, day: str, days: str) -> str:
        return f"{day} - toInt32({days})"

    def operand(self, column: Column) -> str:
        """Return a SQL expression for `column` that a filter can compare with a constant.

        NaN becomes null, and -0.0 becomes 0.0. Times become nanoseconds in 128 bits,
        because a comparison of times with different precisions can fail.
        """
        name = self.name(column.name)
        match column.kind:
            case Kind.TEXT:
                return self._text(column)
            case Kind.FLOAT:
                # ClickHouse finds values of an IN list by hash, and the hashes of -0.0 and 0.0 differ.
                return f"CASE WHEN NOT isNaN({name}) THEN toFloat64({name}) + 0.0 END"
            # Converting times to a common precision fails if it overflows 64 bits.
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
        """Return a SQL expression that casts the SQL `condition` to Bool.

        Without the cast it would be an integer, which is the result of ClickHouse's comparisons.
        """
        return f"CAST({condition}, 'Nullable(Bool)')"

    def text_constant(self, value: str) -> str:
        return f"unhex('{value.encode().hex()}')"

    def translate(self, text: str, characters: str, others: str) -> str:
        return f"translateUTF8({text}, '{characters}', '{others}')"

    def substring(self, text: str, first: int, length: int | None = None) -> str:
        return f"substringUTF8({text}, {first}{'' if length is None else f', {length}'})"

    def text_length(self, text: str) -> str:
        return f"lengthUTF8({text})"

    def total(self, number: str, largest: int | None) -> str:
        """Return a SQL aggregate for the exact sum of integers, whose SQL expression is `number`.

        `largest` is their greatest absolute value; None means any 64-bit integers. The sum is computed in 128 bits if
        `largest` is None or above 2^20, because 64 bits could then overflow.
        """
        small = largest is not None and largest <= SAFE_IN_64_BITS
        return f"SUM({number})" if small else f"SUM(toInt128({number}))"

    def weighted_total(self, number: str, weight: str) -> str:
        """Return a SQL aggregate for the exact sum, in 128 bits, of `number` * `weight`, two SQL expressions.

        `number` is at most 2^62 and `weight` a number of users, so the sum is below 2^127 and cannot overflow.
        """
        return f"SUM({weight})" if number == "1" else f"SUM(toInt128({number}) * toInt128({weight}))"

    def int64(self, number: str) -> str:
        """Return a SQL expression that casts `number`, which is null or fits into 64 bits, to a 64-bit integer."""
        # Where `number` is null, ClickHouse stores an arbitrary value and casts it, too. CAST could fail on that value.
        return f"accurateCastOrNull({number}, 'Int64')"

    def value_in_row(self, function: str, value: str, rows: int) -> str:
        """Return a SQL window function, without its OVER clause, for `value` (a SQL expression) in another row.

        `function` is LAG or LEAD, which take the row that is `rows` rows before or after the current row, or
        FIRST_VALUE, which takes the first row and ignores `rows`. Nulls are not skipped, and a missing row gives null.
        """
        # ClickHouse's FIRST_VALUE skips nulls. Its LAG and LEAD give 0 or an empty text for a missing row if the type
        # has no null.
        if function == "FIRST_VALUE":
            return f"FIRST_VALUE({value}) RESPECT NULLS"
        return f"{function}(toNullable({value}), {rows})"

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the SQL of a salted hash: ordering by it puts the groups of one user into a random order.

        The hash is SipHash of the SQL columns `user` and `labels`. Its key is `salt`, the SQL expression of the secret
        salt.
        """
        return f"sipHash64Keyed(({salt}, toUInt64(0)), {', '.join([user, *labels])})"

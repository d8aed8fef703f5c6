"""Spark's SQL dialect: quoting, casts, exact sums, and which groups of a user are kept (the smallest salted hashes)."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar

from setwise.analytics.engines.dialect import DAY_MICROSECONDS, EPOCH_DAYS, SAFE_IN_64_BITS, Dialect
from setwise.analytics.schema import Column, Kind

_DAY = 86_400
"""Seconds per day."""

MOST_SMALLEST_ROWS = 1_000
"""The most rows of a user that `min_by` may hold in memory; above this, Spark sorts the rows and can spill them."""


def spark_column(name: str, native: str) -> Column:
    """Return the `Column` called `name` for a type that Spark writes as `native`, such as decimal(18,3)."""
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
    """Spark's SQL dialect. All methods return SQL text, unless their descriptions say otherwise.

    `has_min_by_number` says whether Spark's aggregate `min_by` can return several rows, as it can since Spark 4.2. The
    groups in which a user counts are then found by `min_by`, which is faster than a window function.
    """

    def __init__(self, has_min_by_number: bool = False) -> None:
        self._has_min_by_number = has_min_by_number

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
    hashes_integers_apart = True
    """The last step of `rank_hash` is xxhash64 of the label, seeded with the hash of salt and user. For a fixed seed,
    xxhash64 of an integer only multiplies by odd numbers, adds, rotates and shifts and xors, so it is a bijection."""

    def name(self, identifier: str) -> str:
        return "`" + identifier.replace("`", "``") + "`"

    def placeholder(self, parameter: str) -> str:
        return f":{parameter}"

    def user(self, column: Column) -> str:
        return self._text(column) if column.kind is Kind.TEXT else self.name(column.name)

    def label(self, column: Column) -> str:
        """Return a SQL expression for a row's group label from `column`: an integer or text.

        The label is an integer for an integer column, and text for other columns. Spark's strings can hold any bytes; a
        value that is not valid UTF-8 becomes null.
        """
        match column.kind:
            case Kind.INTEGER:
                return self.name(column.name)
            case Kind.TEXT:
                return f"TRY_VALIDATE_UTF8({self._text(column)})"
            case _:
                return f"CAST({self.name(column.name)} AS STRING)"

    def _text(self, column: Column) -> str:
        """Return a SQL expression for a text column in a collation that compares bytes, and so code points."""
        name = self.name(column.name)
        return name if column.native == "string" else f"COLLATE({name}, 'UTF8_BINARY')"

    def number(self, column: Column, least: str, most: str) -> str:
        number = self.real(self.name(column.name))
        is_number = f"{number} IS NOT NULL AND NOT isnan({number})"  # both tests, because isnan(NULL) is false
        return f"CASE WHEN {is_number} THEN GREATEST(LEAST({number}, {most}), {least}) END"

    def day(self, column: Column) -> str:
        day = f"CAST({self.name(column.name)} AS DATE)"
        if column.kind is Kind.INSTANT:
            day = f"DATE_FROM_UNIX_DATE(CAST(({_epoch_seconds(column)} - {_seconds_of_day(column)}) DIV {_DAY} AS INT))"
        return f"CASE WHEN {day} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {day} END"

    def hour(self, column: Column) -> str:
        if column.kind is Kind.INSTANT:
            return f"{_seconds_of_day(column)} DIV 3600"
        return self.int64(f"EXTRACT(HOUR FROM {self.name(column.name)})")

    def day_number(self, day: str) -> str:
        return f"(CAST(UNIX_DATE({day}) AS BIGINT) + {EPOCH_DAYS})"

    def numbered_day(self, number: str) -> str:
        return f"DATE_ADD(DATE '0001-01-01', CAST({number} AS INT))"

    def months_later(self, day: str, months: int) -> str:
        return f"ADD_MONTHS({day}, {months})"

    def microseconds(self, column: Column) -> str:
        """Return a SQL expression for the microseconds from 0001-01-01 to the time in `column`, in 64 bits.

        A time without time zone is computed from its day, hour, minute and second, because Spark's own conversion to
        microseconds would use the time zone of the session.
        """
        name, day = self.name(column.name), self.day(column)
        if column.kind is Kind.INSTANT:
            since_start = f"UNIX_MICROS({name}) + {EPOCH_DAYS * DAY_MICROSECONDS}"
            return f"CASE WHEN {day} IS NOT NULL THEN {since_start} END"
        minutes = f"CAST(EXTRACT(HOUR FROM {name}) * 60 + EXTRACT(MINUTE FROM {name}) AS BIGINT)"
        seconds = f"CAST(EXTRACT(SECOND FROM {name}) * 1000000 AS BIGINT)"
        return f"({self.day_number(day)} * {DAY_MICROSECONDS} + {minutes} * 60000000 + {seconds})"

    def quotient(self, number: str, divisor: int) -> str:
        return f"({number} DIV {divisor})"

    def days_before(self, day: str, days: str) -> str:
        return f"DATE_SUB({day}, CAST({days} AS INT))"

    def operand(self, column: Column) -> str:
        """Return a SQL expression for `column` that a filter can compare with a constant.

        NaN becomes null, and -0.0 becomes 0.0.
        """
        match column.kind:
            case Kind.TEXT:
                return self._text(column)
            case Kind.FLOAT:
                # Without + 0D, Spark skips a row group of a Parquet file by its dictionary, in which -0.0 is not 0.0.
                number = self.real(self.name(column.name))
                return f"CASE WHEN NOT isnan({number}) THEN {number} + 0D END"
            case _:
                return self.name(column.name)

    def pattern(self, written: str) -> str:
        """Return the LIKE pattern `written` as a regular expression for Spark's RLIKE (a parameter value, not SQL).

        In `written` a backslash stands before every %, _ and backslash that matches itself.
        """
        # Each text between percent signs matches only at its first possible position. Spark's own LIKE tries all
        # positions of all texts: with six texts, one row of eighty characters takes minutes.
        texts: list[list[str]] = [[]]
        for character in re.findall(r"\\.|[^\\]", written, re.DOTALL):
            if character == "%":
                texts.append([])
            else:
                texts[-1].append(character)
        first, *others = map(_part, texts)
        between = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
        last = f".*{others[-1]}" if others else ""
        return rf"(?s)\A{first}{between}{last}\z"

    def like(self, operand: str, placeholder: str) -> str:
        return f"{operand} RLIKE {placeholder}"

    def total(self, number: str, largest: int | None) -> str:
        """Return a SQL aggregate for the exact sum of integers, whose SQL expression is `number`.

        `largest` is their greatest absolute value; None means any 64-bit integers. The sum is computed in decimals if
        `largest` is None or so large that 64 bits could overflow.
        """
        small = largest is not None and largest <= SAFE_IN_64_BITS
        return f"SUM({number})" if small else f"SUM(CAST({number} AS DECIMAL(28, 0)))"

    def weighted_total(self, number: str, weight: str) -> str:
        """Return a SQL aggregate for the exact sum, as a decimal, of `number` * `weight`, two SQL expressions.

        `number` is at most 2^62 and `weight` a number of users, so the sum has fewer than 38 digits and cannot
        overflow.
        """
        return f"SUM(CAST(CAST({number} AS DECIMAL(19, 0)) * CAST({weight} AS DECIMAL(19, 0)) AS DECIMAL(38, 0)))"

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the SQL of a salted hash: ordering by it puts the groups of one user into a random order.

        The hash of `salt`, a SQL expression, seeds the hash of the column `user`, which seeds the hash of the first of
        the columns `labels`, and so on.
        """
        return f"xxhash64({', '.join([salt, user, *labels])})"

    def smallest_rows(self, columns: Sequence[str], order: str, number: int) -> str | None:
        """Return SQL text to stand after SELECT: for each SQL group, its `number` rows with the smallest `order`.

        The caller adds FROM and GROUP BY. The result rows have the columns named in `columns`; `order` is a SQL
        expression. None before Spark 4.2, and for more than `MOST_SMALLEST_ROWS` rows: a window function then ranks the
        rows.
        """
        if not self._has_min_by_number or number > MOST_SMALLEST_ROWS:
            return None
        # Spark sorts rows by user alone and holds at most `number` rows of one user, which is faster than the window's
        # sort.
        if len(columns) == 1:
            return f"explode(min_by({columns[0]}, {order}, {number})) AS {columns[0]}"
        return f"inline(min_by(struct({', '.join(columns)}), {order}, {number}))"


def _part(part: Sequence[str]) -> str:
    """Return the regular expression for `part`, the piece of a LIKE pattern between two percent signs.

    `part` lists its characters, with a backslash before a character that it escapes. An underscore without a backslash
    matches any one character, and everything else matches itself.
    """
    expression = ""
    for character, run in groupby(part):
        length = len(list(run))
        expression += f".{{{length}}}" if character == "_" else rf"\x{{{ord(character[-1]):x}}}" * length
    return expression


def _epoch_seconds(column: Column) -> str:
    """Return a SQL expression for the whole seconds from 1970-01-01 UTC to the time (with zone) in `column`.

    The result does not depend on the time zone of the Spark session.
    """
    return f"UNIX_SECONDS({SparkDialect().name(column.name)})"


def _seconds_of_day(column: Column) -> str:
    """Return a SQL expression for the seconds since midnight UTC of the time (with zone) in `column`."""
    return f"PMOD({_epoch_seconds(column)}, {_DAY})"

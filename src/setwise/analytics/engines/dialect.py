"""`Dialect`: the SQL in which engines differ. Its methods give standard SQL, and each engine overrides some of them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import ClassVar

from setwise.analytics.bins import TimeUnit
from setwise.analytics.schema import Column, Kind
from setwise.errors import InvalidParameter

SAFE_IN_64_BITS = 2**20
"""Numbers up to this can be summed in 64 bits for 2^43 users; larger sums would overflow without an error."""

DAY_MICROSECONDS = 86_400_000_000
"""Microseconds per day."""

EPOCH_DAYS = date(1970, 1, 1).toordinal() - 1
"""Days from 0001-01-01, from which computed times are counted, to 1970-01-01, from which engines count them."""


class Dialect(ABC):
    """How one engine writes SQL. Methods take and return SQL text, unless their descriptions say otherwise.

    A `Kind` is Setwise's own name of a type, such as TEXT or DATE, which is the same for all engines.
    - `types` has the engine's type names for each kind; constants are cast to the first.
    - `materializes` says that the engine can compute a common table expression once and store it (MATERIALIZED).
    - `hashes_integers_apart` says that `rank_hash`, by which a user's groups are put into a random order, gives a
      user's different integer labels different hashes. Otherwise two hashes may be equal, and the SQL sorts by the
      label, too.
    - `collects_sets` says that an aggregate that collects a user's groups as a set is faster than a window function
      that ranks them.
    - `underflow_fails` says that a statement fails if a product or quotient of floats underflows.
    - `iso_weekday` is the field of EXTRACT for the weekday (1 for Monday).
    """

    types: ClassVar[Mapping[Kind, tuple[str, ...]]]
    """The engine's type names of each kind; constants are cast to the first of them."""

    materializes: ClassVar[bool] = False
    """Whether the engine can materialise a common table expression that is read twice."""

    hashes_integers_apart: ClassVar[bool] = False
    """Whether `rank_hash` of one user never gives two different integer labels the same hash."""

    collects_sets: ClassVar[bool] = False
    """Whether `SqlEngineQuery._kept_pairs` collects each user's groups as a set, which is quicker than a window."""

    underflow_fails: ClassVar[bool] = False
    """Whether a product or quotient that underflows in floating point fails the statement."""

    iso_weekday: ClassVar[str] = "ISODOW"
    """The field of EXTRACT that gives the day of the week, 1 for Monday."""

    @classmethod
    def kind_of(cls, native: str) -> Kind:
        """Return the `Kind` of the SQL type that this engine calls `native`; `Kind.OTHER` if the name is not known."""
        return next((kind for kind, types in cls.types.items() if native in types), Kind.OTHER)

    @abstractmethod
    def name(self, identifier: str) -> str:
        """Return `identifier`, such as the name of a column, as quoted SQL text."""

    @abstractmethod
    def placeholder(self, parameter: str) -> str:
        """Return the SQL placeholder for the statement parameter named `parameter`."""

    @abstractmethod
    def user(self, column: Column) -> str:
        """Return a SQL expression of the user column `column`; two of its values are equal only for the same user.

        For the same user they are always equal, even if the column writes a value in two ways, such as 7.0 and 7.00.
        """

    @abstractmethod
    def label(self, column: Column) -> str:
        """Return a SQL expression for a row's group label from `column`: an integer or text.

        The label is an integer for an integer column, and text for other columns. Texts are compared by code point, so
        that all engines agree on which labels are equal and on their order.
        """

    def label_constant(self, column: Column, placeholder: str) -> str:
        """Return a SQL expression that casts a statement parameter to integer or text, the type of `column`'s labels.

        `placeholder` is the SQL placeholder of the parameter.
        """
        return self._cast(placeholder, Kind.INTEGER if column.kind is Kind.INTEGER else Kind.TEXT)

    def not_null(self, value: str) -> str:
        """Return a SQL expression equal to the SQL `value`, in a type without null if the engine has such types.

        Some engines group values of such types faster. The caller has left out rows in which `value` is null.
        """
        return value

    @abstractmethod
    def number(self, column: Column, least: str, most: str) -> str:
        """Return a SQL expression for a numeric column as a float, clipped to `least` .. `most`; null for NaN.

        `least` and `most` are SQL constants. No row can make the expression fail. A number nearer to 0 than 1e-150 may
        become 0, so that no later quotient underflows on an engine where that is an error.
        """

    def integer(self, column: Column) -> str:
        """Return a SQL expression for an integer column as a 64-bit integer; null for values that do not fit."""
        return self._cast(self.name(column.name), Kind.INTEGER)

    def real(self, number: str) -> str:
        """Return a SQL expression that casts the SQL expression `number` to a 64-bit float."""
        return self._cast(number, Kind.FLOAT)

    def null_if(self, value: str, *others: str) -> str:
        """Return a SQL expression equal to the SQL expression `value`, but null if `value` equals one of `others`.

        `value` occurs only once in the result, so that nested expressions stay short.
        """
        for other in others:
            value = f"NULLIF({value}, {other})"
        return value

    def null_beyond(self, number: str, end: float) -> str:
        """Return a SQL expression equal to the SQL float `number`, but null if its absolute value is at least `end`."""
        return self.null_at_ends(f"GREATEST(LEAST({number}, {real_constant(end)}), {real_constant(-end)})", end)

    def null_at_ends(self, number: str, end: float) -> str:
        """Return a SQL expression equal to the SQL number `number`, but null if the number is exactly `end` or -`end`.

        The caller has clipped `number` to -`end` .. `end`, so these two values stand for all numbers beyond the range.
        """
        return self.null_if(number, real_constant(end), real_constant(-end))

    def text(self, value: str) -> str:
        """Return a SQL expression that casts the SQL expression `value` to text, compared by code point.

        So engines agree on which texts are equal and on their order, whatever the collation of a column.
        """
        return self._cast(value, Kind.TEXT)

    def decimal_text(self, units: str, places: int) -> str:
        """Return a SQL expression for `units` * 10^-`places` as text with exactly `places` decimals.

        `units` is the SQL expression of an integer.
        """
        return self.text(scaled_decimal(units, places))

    @abstractmethod
    def day(self, column: Column) -> str:
        """Return a SQL expression for the date of a date or time column; null outside the years 1 to 9999.

        A time with a time zone is converted to UTC first.
        """

    @abstractmethod
    def hour(self, column: Column) -> str:
        """Return a SQL expression for the hour, 0 to 23, of a time column, in UTC if the column has a time zone."""

    def date_part(self, unit: TimeUnit, day: str) -> str:
        """Return a SQL expression for a part of a date, as an integer; `day` is the SQL expression of the date.

        `unit` is year, quarter, month, ISO week, day of the month or ISO weekday (1 for Monday).
        """
        return self.int64(f"EXTRACT({self.iso_weekday if unit is TimeUnit.WEEKDAY else unit.upper()} FROM {day})")

    def days_before(self, day: str, days: str) -> str:
        """Return a SQL expression for the date that is `days` days before the date `day`; both are SQL expressions."""
        return f"{day} - CAST({days} AS INTEGER)"

    def date_constant(self, day: date) -> str:
        """Return a SQL expression for the Python date `day` as a constant."""
        return f"DATE '{day.isoformat()}'"

    def day_number(self, day: str) -> str:
        """Return a SQL expression for the number of days, a 64-bit integer, from 0001-01-01 to the SQL date `day`."""
        return self.int64(f"{day} - DATE '0001-01-01'")

    def numbered_day(self, number: str) -> str:
        """Return a SQL expression for the date that is `number` days after 0001-01-01.

        `number` is the SQL expression of an integer. The caller guarantees that it is null, or that the result is in
        the years 1 to 9999.
        """
        return f"(DATE '0001-01-01' + CAST({number} AS INTEGER))"

    def first_of_month(self, year: str, month: str) -> str:
        """Return a SQL expression for the first day of a month, as a date.

        `year` and `month` are SQL expressions of integers or null.
        """
        return f"MAKE_DATE(CAST({year} AS INTEGER), CAST({month} AS INTEGER), 1)"

    @abstractmethod
    def months_later(self, day: str, months: int) -> str:
        """Return a SQL expression for the date `months` months after the SQL date `day`, or before it if negative.

        If that month has no such day (31 April), the result is the month's last day. The caller guarantees that the
        result is in the years 1 to 9999.
        """

    @abstractmethod
    def microseconds(self, column: Column) -> str:
        """Return a SQL expression for the microseconds from 0001-01-01 to the time in `column`, in 64 bits.

        A time with a time zone is converted to UTC first. Null outside the years 1 to 9999.
        """

    def quotient(self, number: str, divisor: int) -> str:
        """Return a SQL expression for the 64-bit SQL integer `number` divided by `divisor`, rounded towards 0."""
        return f"({number} / {divisor})"

    def operand(self, column: Column) -> str:
        """Return a SQL expression for `column` that a filter can compare with a constant; no value makes it fail.

        By default texts are compared by code point, all kinds of floats as 64-bit floats, and other values as they are.
        NaN is null in every engine, so that it is neither above nor below a constant.
        """
        match column.kind:
            case Kind.TEXT:
                return self.label(column)
            case Kind.FLOAT:
                return self.real(self.name(column.name))
            case _:
                return self.name(column.name)

    def filled(self, column: Column) -> str:
        """Return a SQL expression that is null where a row has no value in `column`: where the cell is null or NaN."""
        return self.operand(column) if column.kind in (Kind.FLOAT, Kind.DECIMAL) else self.name(column.name)

    def constant(self, column: Column, placeholder: str) -> str:
        """Return a SQL expression that casts a statement parameter to the type of `column`, to be compared with it.

        `placeholder` is the SQL placeholder of the parameter.
        """
        assert column.kind is not Kind.IDENTIFIER  # the filter parser refuses to compare identifiers
        if column.kind is Kind.DECIMAL:
            return f"CAST({placeholder} AS {column.native})"
        return self._cast(placeholder, column.kind)

    def pattern(self, written: str) -> str:
        """Return the LIKE pattern `written` as the value of a parameter, with which `Dialect.like` compares a text.

        By default it is `written` itself; an engine whose SQL uses regular expressions translates it. In `written`, as
        in SQL, % matches any text and _ any character, unless a backslash stands before them.
        """
        return written

    @abstractmethod
    def like(self, operand: str, placeholder: str) -> str:
        """Return a SQL condition that the text with the SQL expression `operand` matches a LIKE pattern.

        `placeholder` is the SQL placeholder of a parameter whose value `Dialect.pattern` returned.
        """

    def total(self, number: str, largest: int | None) -> str:
        """Return a SQL aggregate for the exact sum of `number`, the SQL expression of an integer.

        `largest` is the greatest absolute value that the integer can have; None allows any 64-bit integer. The engine
        may sum in 64 bits if `largest` is so small that the sum cannot overflow.
        """
        del largest  # standard SQL sums 64-bit integers in a wider type, which cannot overflow
        return f"SUM({number})"

    @abstractmethod
    def weighted_total(self, number: str, weight: str) -> str:
        """Return a SQL aggregate for the exact sum of `number` * `weight`, two SQL expressions of integers.

        It adds up the rows of a prepared dataset (a stored random ranking of each user's groups). Each of these rows
        says that `weight` users add the same `number` to a group. Because `number` can be as large as 2^62, the engine
        must use a type in which the sum cannot overflow.
        """

    def int64(self, number: str) -> str:
        """Return a SQL expression that casts the SQL `number`, which fits into 64 bits, to a 64-bit integer."""
        return self._cast(number, Kind.INTEGER)

    def truth(self, condition: str) -> str:
        """Return a SQL expression for the SQL `condition` as a value of the engine's boolean type."""
        return condition

    def text_constant(self, value: str) -> str:
        """Return a SQL expression for the Python text `value`, written as the hexadecimal digits of its UTF-8 bytes.

        So no text that people type becomes part of a statement.
        """
        return f"decode(unhex('{value.encode().hex()}'), 'UTF-8')"

    def translate(self, text: str, characters: str, others: str) -> str:
        """Return a SQL expression for the SQL `text` with its characters in `characters` replaced by those in `others`.

        `characters` and `others` are ASCII texts of equal length; each character of `characters` is replaced by the
        character at the same position of `others`.
        """
        return f"TRANSLATE({text}, '{characters}', '{others}')"

    def substring(self, text: str, first: int, length: int | None = None) -> str:
        """Return a SQL expression for the characters of the SQL `text` from position `first` on, counted from 1.

        The result has at most `length` characters; None means no limit.
        """
        return f"SUBSTRING({text}, {first}{'' if length is None else f', {length}'})"

    def text_length(self, text: str) -> str:
        """Return a SQL expression for the number of characters of the SQL `text`."""
        return f"CHAR_LENGTH({text})"

    def value_in_row(self, function: str, value: str, rows: int) -> str:
        """Return a SQL window function, without its OVER clause, for `value` (a SQL expression) in another row.

        `function` is LAG or LEAD, which take the row that is `rows` rows before or after the current row, or
        FIRST_VALUE, which takes the first row and ignores `rows`. The result is null if there is no such row.
        """
        return f"{function}({value})" if function == "FIRST_VALUE" else f"{function}({value}, {rows})"

    def tie_order(self, column: Column) -> tuple[str, ...]:
        """Return SQL sort keys for `column`, which the caller adds to an ORDER BY to sort rows that are equal so far.

        The keys of two values are equal only if no SQL statement can tell the values apart, so that the order of rows
        changes no result. Null differs from every value, and texts are compared by their bytes. If statements cannot
        compute with the column's type (`Kind.OTHER`), the only key is whether the value is null.
        """
        name = self.name(column.name)
        is_null = f"CASE WHEN {name} IS NULL THEN 0 ELSE 1 END"
        match column.kind:
            case Kind.OTHER:
                return (is_null,)
            case Kind.TEXT:
                return is_null, self.user(column)
            case Kind.FLOAT:
                return is_null, one_zero(name)
            case _:
                return is_null, name

    @abstractmethod
    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the SQL of a salted hash: ordering by it puts the groups of one user into a uniformly random order.

        `user` and `labels` are the SQL columns that are hashed: the user, and the labels of one group. `salt` is the
        SQL expression of the secret random number that decides the order.
        """

    def smallest_rows(self, columns: Sequence[str], order: str, number: int) -> str | None:
        """Return SQL text to stand after SELECT: for each SQL group, its `number` rows with the smallest `order`.

        The caller adds FROM and GROUP BY. The result rows have the columns named in `columns`; `order` is a SQL
        expression. None, the default, means that the engine has no such aggregate, and a window function must rank the
        rows instead.
        """
        # The engine has no aggregate for this, or only one whose memory grows with the size of a group.
        del columns, order, number
        return None

    def _cast(self, value: str, kind: Kind) -> str:
        """Return a SQL CAST of the SQL expression `value` to the engine's type for `kind`, Setwise's name of a type."""
        return f"CAST({value} AS {self.types[kind][0]})"


def scaled_decimal(units: str, places: int) -> str:
    """Return a SQL expression for `units` * 10^-`places` as a decimal.

    `units` is the SQL expression of an integer of at most 18 digits.
    """
    return f"CAST({units} AS DECIMAL(18, 0)) * CAST({10.0**-places:.{places}f} AS DECIMAL({places}, {places}))"


def real_constant(number: Fraction | float) -> str:
    """Return `number` as the text of a SQL floating-point constant, in parentheses if it is negative."""
    text = f"{float(number):.17e}"
    return f"({text})" if text.startswith("-") else text


def in_years(moment: str) -> str:
    """Return a SQL condition that `moment` is in the years 1 to 9999.

    `moment` is the SQL expression of a date or of a timestamp without time zone.
    """
    return f"{moment} >= DATE '0001-01-01' AND {moment} < DATE '10000-01-01'"


def one_zero(number: str) -> str:
    """Return a SQL expression for the SQL float `number` in which -0.0 becomes 0.0; NaN and infinities stay.

    Without it, some engines would put -0.0 and 0.0 into different groups.
    """
    return f"({number} + {real_constant(0.0)})"


LONGEST_SQL = 100_000
"""The most characters of SQL text for one expression, and for all expressions of one step together.

ROUND repeats its argument three times and LEAST repeats it twice, so that the text of nested calls grows exponentially.
"""


def check_length(characters: int) -> None:
    """Raise `InvalidParameter` if `characters`, the length of a SQL text, exceeds `LONGEST_SQL`."""
    if characters > LONGEST_SQL:
        raise InvalidParameter(
            f"the expressions of a SELECT become more than {LONGEST_SQL:,} characters of SQL for the engine: nest "
            "ROUND, LEAST, GREATEST, CASE and the like less deeply, or compute inner values in a subquery"
        )


def joined_text(expressions: Iterable[str]) -> str:
    """Return the SQL `expressions` as one text, separated by commas.

    Raises: `InvalidParameter` as soon as their length exceeds `LONGEST_SQL`, before the remaining ones are built.
    """
    parts: list[str] = []
    characters = 0
    for expression in expressions:
        characters += len(expression)
        check_length(characters)
        parts.append(expression)
    return ", ".join(parts)


LONGEST_EXPANDED = 2_000_000
"""The most characters of SQL text for one column after the texts of the subqueries below it are put in.

DuckDB and Spark put them in. 22 nested SELECTs of z || z AS z became four million texts, which took DuckDB 99 seconds
and 5.8 GB, whatever the rows are.
"""


def expanded_length(text: str, lengths: Mapping[str, int], dialect: Dialect) -> int:
    """Return how many characters the SQL `text` has once each column name in it is replaced by that column's SQL.

    DuckDB and Spark expand subqueries in this way. `lengths` maps a column's name to the number of characters of its
    SQL. `dialect` quotes the names.

    Raises: `InvalidParameter` if the number exceeds `LONGEST_EXPANDED`.
    """
    number = len(text) + sum(length * text.count(dialect.name(name)) for name, length in lengths.items())
    if number > LONGEST_EXPANDED:
        raise InvalidParameter(
            f"a column becomes more than {LONGEST_EXPANDED:,} characters of SQL for the engine, because each subquery "
            "repeats the columns of the subquery inside it: nest fewer subqueries that compute with the same column"
        )
    return number

"""What the shared statements need of an engine's SQL: the differences between engines."""

from collections.abc import Sequence
from typing import Protocol

from setwise.analytics.bins import TimeUnit
from setwise.analytics.schema import Column


class Dialect(Protocol):
    """The words of one engine's SQL; all expressions are given and returned as SQL text."""

    @property
    def materializes(self) -> bool:
        """Whether a part of a statement that is read twice can be held in between."""
        ...

    def name(self, identifier: str) -> str:
        """Return an identifier in quotes."""
        ...

    def placeholder(self, parameter: str) -> str:
        """Return where the parameter of that name stands."""
        ...

    def user(self, column: Column) -> str:
        """Return the column such that equal means the same user."""
        ...

    def label(self, column: Column) -> str:
        """Return the column as text or integer, compared by code points."""
        ...

    def label_constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a label of the column."""
        ...

    def not_null(self, value: str) -> str:
        """Return the user or the label of rows where it is not null, as a value that need not be looked at for that."""
        ...

    def number(self, column: Column, least: str, most: str) -> str:
        """Return a column of numbers in floating point, clipped, such that no row can fail; null where it is none.

        What is nearer to 0 than 1e-150 may be taken for 0, so that no quotient underflows where that is an error.
        """
        ...

    def integer(self, column: Column) -> str:
        """Return a column of integers in 64 bits, null where they do not fit."""
        ...

    def real(self, number: str) -> str:
        """Return a number in floating point of 64 bits."""
        ...

    def text(self, value: str) -> str:
        """Return a value as text that is compared by code points."""
        ...

    def decimal_text(self, units: str, places: int) -> str:
        """Return a whole number of 10^-places as text with that many decimals."""
        ...

    def day(self, column: Column) -> str:
        """Return the date of a moment, in UTC where the column has a time zone; null outside the years 1 to 9999."""
        ...

    def hour(self, column: Column) -> str:
        """Return the hour of a moment, in UTC where the column has a time zone."""
        ...

    def date_part(self, unit: TimeUnit, day: str) -> str:
        """Return the year, quarter, month, ISO week, day of the month or ISO weekday of a date as an integer."""
        ...

    def days_before(self, day: str, days: str) -> str:
        """Return the date `days` days before another."""
        ...

    def operand(self, column: Column) -> str:
        """Return the column as it is compared with `constant`, such that no row can fail to convert."""
        ...

    def constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a value of the column's type."""
        ...

    def like(self, operand: str, placeholder: str) -> str:
        """Return whether text matches a pattern in which a backslash stands for the next character itself."""
        ...

    def total(self, number: str, largest: int | None) -> str:
        """Return the exact sum of whole numbers, none greater than `largest`; None is the range of 64 bits."""
        ...

    def weighted_total(self, number: str, weight: str) -> str:
        """Return the exact sum of whole numbers of at most 2^62, each taken `weight` times; a row count is the most."""
        ...

    def whole(self, number: str) -> str:
        """Return a number that is known to fit as a 64-bit integer."""
        ...

    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the salted hash of a user's item by which it is ranked among that user's items."""
        ...


def scaled_decimal(units: str, places: int) -> str:
    """Return SQL for a whole number of 10^-places, of at most 18 digits, as a decimal with that many places."""
    return f"CAST({units} AS DECIMAL(18, 0)) * CAST({10.0**-places:.{places}f} AS DECIMAL({places}, {places}))"

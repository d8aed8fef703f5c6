"""What the shared statements need of an engine's SQL: standard SQL, and the places where engines differ from it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from setwise.analytics.bins import TimeUnit
from setwise.analytics.schema import Column, Kind


class Dialect(ABC):
    """The SQL of one engine; all expressions are given and returned as SQL text."""

    types: ClassVar[Mapping[Kind, tuple[str, ...]]]
    """The types of each kind; constants are cast to the first."""

    materializes: ClassVar[bool] = False
    """Whether a part of a statement that is read twice can be held in between."""

    underflow_fails: ClassVar[bool] = False
    """Whether a product or quotient that is too near to 0 for floating point fails the statement."""

    iso_weekday: ClassVar[str] = "ISODOW"
    """What EXTRACT calls the day of the week, from Monday."""

    @classmethod
    def kind_of(cls, native: str) -> Kind:
        """Return the kind of a type."""
        return next((kind for kind, types in cls.types.items() if native in types), Kind.OTHER)

    @abstractmethod
    def name(self, identifier: str) -> str:
        """Return an identifier in quotes."""

    @abstractmethod
    def placeholder(self, parameter: str) -> str:
        """Return where the parameter of that name stands."""

    @abstractmethod
    def user(self, column: Column) -> str:
        """Return the column such that equal means the same user."""

    @abstractmethod
    def label(self, column: Column) -> str:
        """Return the column as text or integer, compared by code points."""

    def label_constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a label of the column."""
        return self._cast(placeholder, Kind.INTEGER if column.kind is Kind.INTEGER else Kind.TEXT)

    def not_null(self, value: str) -> str:
        """Return the user or the label of rows where it is not null, as a value that need not be looked at for that."""
        return value

    @abstractmethod
    def number(self, column: Column, least: str, most: str) -> str:
        """Return a column of numbers in floating point, clipped, such that no row can fail; null where it is none.

        What is nearer to 0 than 1e-150 may be taken for 0, so that no quotient underflows where that is an error.
        """

    def integer(self, column: Column) -> str:
        """Return a column of integers in 64 bits, null where they do not fit."""
        return self._cast(self.name(column.name), Kind.INTEGER)

    def real(self, number: str) -> str:
        """Return a number in floating point of 64 bits."""
        return self._cast(number, Kind.FLOAT)

    def text(self, value: str) -> str:
        """Return a value as text that is compared by code points."""
        return self._cast(value, Kind.TEXT)

    def decimal_text(self, units: str, places: int) -> str:
        """Return a whole number of 10^-places as text with that many decimals."""
        return self.text(scaled_decimal(units, places))

    @abstractmethod
    def day(self, column: Column) -> str:
        """Return the date of a moment, in UTC where the column has a time zone; null outside the years 1 to 9999."""

    @abstractmethod
    def hour(self, column: Column) -> str:
        """Return the hour of a moment, in UTC where the column has a time zone."""

    def date_part(self, unit: TimeUnit, day: str) -> str:
        """Return the year, quarter, month, ISO week, day of the month or ISO weekday of a date as an integer."""
        return self.whole(f"EXTRACT({self.iso_weekday if unit is TimeUnit.WEEKDAY else unit.upper()} FROM {day})")

    def days_before(self, day: str, days: str) -> str:
        """Return the date `days` days before another."""
        return f"{day} - CAST({days} AS INTEGER)"

    def operand(self, column: Column) -> str:
        """Return the column as it is compared with `constant`, such that no row can fail to convert."""
        match column.kind:
            case Kind.TEXT:
                return self.label(column)
            case Kind.FLOAT:
                return self.real(self.name(column.name))
            case _:
                return self.name(column.name)

    def constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a value of the column's type."""
        assert column.kind is not Kind.IDENTIFIER  # the parser compares none
        if column.kind is Kind.DECIMAL:
            return f"CAST({placeholder} AS {column.native})"
        return self._cast(placeholder, column.kind)

    def pattern(self, written: str) -> str:
        """Return a pattern as `like` takes it: a backslash stands for the next character itself."""
        return written.replace("\\", "\\\\")

    @abstractmethod
    def like(self, operand: str, placeholder: str) -> str:
        """Return whether text matches what `pattern` returned."""

    def total(self, number: str, largest: int | None) -> str:
        """Return the exact sum of whole numbers, none greater than `largest`; None is the range of 64 bits."""
        del largest  # what is added up is wider than 64 bits
        return f"SUM({number})"

    @abstractmethod
    def weighted_total(self, number: str, weight: str) -> str:
        """Return the exact sum of whole numbers of at most 2^62, each taken `weight` times; a row count is the most."""

    def whole(self, number: str) -> str:
        """Return a number that is known to fit as a 64-bit integer."""
        return self._cast(number, Kind.INTEGER)

    def truth(self, condition: str) -> str:
        """Return a condition as a value of the type of truth values."""
        return condition

    def text_constant(self, value: str) -> str:
        """Return text as a constant, by its bytes in hexadecimal digits: what people type does not stand in SQL."""
        return f"decode(unhex('{value.encode().hex()}'), 'UTF-8')"

    def translated(self, text: str, characters: str, others: str) -> str:
        """Return text with some ASCII characters replaced by others, one by one."""
        return f"TRANSLATE({text}, '{characters}', '{others}')"

    def substring(self, text: str, first: int, length: int | None = None) -> str:
        """Return the characters of a text from the one numbered `first` on, at most `length` of them."""
        return f"SUBSTRING({text}, {first}{'' if length is None else f', {length}'})"

    def text_length(self, text: str) -> str:
        """Return how many characters a text has."""
        return f"CHAR_LENGTH({text})"

    @abstractmethod
    def rank_hash(self, user: str, labels: Sequence[str], salt: str) -> str:
        """Return the salted hash of a user's item by which it is ranked among that user's items."""

    def _cast(self, value: str, kind: Kind) -> str:
        return f"CAST({value} AS {self.types[kind][0]})"


def scaled_decimal(units: str, places: int) -> str:
    """Return SQL for a whole number of 10^-places, of at most 18 digits, as a decimal with that many places."""
    return f"CAST({units} AS DECIMAL(18, 0)) * CAST({10.0**-places:.{places}f} AS DECIMAL({places}, {places}))"

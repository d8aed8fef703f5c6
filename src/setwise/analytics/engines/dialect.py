"""What engines write differently: names, parameters, types, and the hash that orders a user's items."""

from typing import Protocol, TypeAlias

from setwise.analytics.schema import Column

Bound: TypeAlias = str | int | float | bool
"""A value sent beside a statement, never inside it."""


class Dialect(Protocol):
    """The words of one engine's SQL; all expressions are given and returned as SQL text."""

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

    def key(self, user: str, item: str, salt: str) -> str:
        """Return the salted hash of a user's item by which it is ranked among that user's items."""
        ...


class Parameters:
    """Values that go beside a statement, each under a name of its own."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.values: dict[str, object] = {}

    def add(self, value: object) -> str:
        """Keep a value and return where it stands in the statement."""
        name = f"p{len(self.values) + 1}"
        self.values[name] = value
        return self._dialect.placeholder(name)

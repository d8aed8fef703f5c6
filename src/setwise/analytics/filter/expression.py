"""A filter as a tree of comparisons of columns with constants, each checked against the kind of its column.

Conditions follow SQL's three-valued logic: a comparison with a null is unknown, which is neither true nor false.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias, assert_never

from setwise.analytics.schema import Column, Schema
from setwise.errors import InvalidFilter

Value: TypeAlias = str | bool | int | float | Decimal | date | datetime
"""A constant of a filter, converted to the kind of its column."""


class Operator(StrEnum):
    """The operators, such as <=, by which a filter compares a column with a constant."""

    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of `column` by `operator` with the constant `value`, which has the kind of the column.

    The comparison is unknown (neither true nor false) if the cell is null.
    """

    column: Column
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Membership:
    """The condition that `column` equals one of the constants `values`; unknown if the column is null."""

    column: Column
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The condition that the text in `column` matches the LIKE pattern `pattern`; unknown if the column is null.

    `%` stands for any text and `_` for any one character; every other character stands for itself.
    """

    column: Column
    pattern: str

    @property
    def escaped(self) -> str:
        """The pattern with every backslash doubled, for engines, which read a backslash as an escape."""
        return self.pattern.replace("\\", "\\\\")


@dataclass(frozen=True, slots=True)
class Missing:
    """The condition that `column` is null; a filter writes it as IS NULL."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of the condition `part`: true if `part` is false, false if it is true, and unknown if unknown."""

    part: "Expression"


@dataclass(frozen=True, slots=True)
class Conjunction:
    """The conjunction (AND) of `parts`: false if a part is false, else unknown if a part is unknown, else true."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Disjunction:
    """The disjunction (OR) of `parts`: true if a part is true, else unknown if a part is unknown, else false."""

    parts: tuple["Expression", ...]


Expression: TypeAlias = Comparison | Membership | Pattern | Missing | Not | Conjunction | Disjunction
"""A node of a filter's tree."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The condition on the rows that a query reads; rows for which it is false or unknown are left out.

    `text` is the filter as it was written, and `expression` its parsed form.
    """

    text: str
    expression: Expression

    def columns(self) -> tuple[Column, ...]:
        """Return the columns that the filter reads, each once."""
        return tuple(dict.fromkeys(_columns(self.expression)))

    def check(self, schema: Schema) -> None:
        """Raise unless `schema` has the columns that the filter reads, unchanged since the filter was parsed.

        Raises: `UnknownColumn` if `schema` lacks a column, `InvalidFilter` if a column of `schema` now has another kind
        or type.
        """
        for column in self.columns():
            if schema.column(column.name) != column:
                raise InvalidFilter(
                    f"the filter was parsed for another table, whose column {column.name!r} holds {column.kind} "
                    f"values: parse it for this one"
                )

    def __str__(self) -> str:
        return self.text


def _columns(expression: Expression) -> Iterator[Column]:
    """Yield the columns that a filter expression reads, each as often as it occurs."""
    match expression:
        case Comparison(column) | Membership(column) | Pattern(column) | Missing(column):
            yield column
        case Not(part):
            yield from _columns(part)
        case Conjunction(parts) | Disjunction(parts):
            for part in parts:
                yield from _columns(part)
        case _:
            assert_never(expression)

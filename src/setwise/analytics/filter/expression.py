"""A filter as a tree of comparisons of columns with constants, each checked against the kind of its column."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias, assert_never

from setwise.analytics.schema import Column, Schema
from setwise.errors import InvalidFilter

Value: TypeAlias = str | bool | int | float | Decimal | date | datetime


class Operator(StrEnum):
    """How a column is compared with a constant."""

    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Comparison:
    """The column compared with a constant of its kind; unknown where the column is null."""

    column: Column
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Membership:
    """Whether the column equals one of some constants; unknown where it is null."""

    column: Column
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Whether the text matches: `%` stands for any text, `_` for any one character, everything else for itself."""

    column: Column
    pattern: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Whether the column is null."""

    column: Column


@dataclass(frozen=True, slots=True)
class Not:
    """True where the part is false; unknown stays unknown."""

    part: "Expression"


@dataclass(frozen=True, slots=True)
class Every:
    """False where one part is false; otherwise unknown where one is unknown; otherwise true."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """True where one part is true; otherwise unknown where one is unknown; otherwise false."""

    parts: tuple["Expression", ...]


Expression: TypeAlias = Comparison | Membership | Pattern | Missing | Not | Every | Some


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows a question is about: those where the expression is true, not those where it is unknown."""

    text: str
    expression: Expression

    def columns(self) -> tuple[Column, ...]:
        """Return the columns that are read, each once."""
        return tuple(dict.fromkeys(_columns(self.expression)))

    def check(self, schema: Schema) -> None:
        """Raise unless the filter was parsed for a table with these columns."""
        for column in self.columns():
            if schema.column(column.name) != column:
                raise InvalidFilter(
                    f"the filter was parsed for another table, whose column {column.name!r} holds {column.kind} "
                    f"values: parse it for this one"
                )

    def __str__(self) -> str:
        return self.text


def _columns(expression: Expression) -> Iterator[Column]:
    match expression:
        case Comparison(column) | Membership(column) | Pattern(column) | Missing(column):
            yield column
        case Not(part):
            yield from _columns(part)
        case Every(parts) | Some(parts):
            for part in parts:
                yield from _columns(part)
        case _:
            assert_never(expression)

"""Tables derived from a private table such that every row still belongs to one user.

A derivation is a list of steps. Each step computes the rows of one user from the rows of that user alone: it adds
columns, keeps rows, selects columns, or groups by the user column and maybe others. So removing a user from the table
removes exactly the rows of that user from the derived table.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias, assert_never

from setwise.analytics.rows.expression import (
    Arithmetic,
    Call,
    ColumnValue,
    ConstantValue,
    PeriodStart,
    RowExpression,
    TimePart,
    children,
    columns_of,
    released_places,
    with_released,
    written,
)
from setwise.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class NamedExpression:
    """A column of a derived table: its name, and what it is computed of."""

    name: str
    expression: RowExpression


class UserFunction(StrEnum):
    """What may be computed of the rows of one user."""

    COUNT = "COUNT"
    COUNT_DISTINCT = "COUNT DISTINCT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"


@dataclass(frozen=True, slots=True)
class UserAggregate:
    """A column that aggregates the rows of one user: COUNT of all rows where `argument` is None."""

    name: str
    function: UserFunction
    argument: RowExpression | None = None


@dataclass(frozen=True, slots=True)
class AddColumns:
    """All columns, and some computed ones."""

    columns: tuple[NamedExpression, ...]


@dataclass(frozen=True, slots=True)
class KeepRows:
    """The rows where a condition is true."""

    condition: RowExpression


@dataclass(frozen=True, slots=True)
class SelectColumns:
    """Some columns, computed or as they are; one of them is the user column (`user`), as it is."""

    user: str
    columns: tuple[NamedExpression, ...]


@dataclass(frozen=True, slots=True)
class GroupByUser:
    """One row for every user (`user` is the column), or for every user and values of `keys`."""

    user: str
    keys: tuple[NamedExpression, ...]
    aggregates: tuple[UserAggregate, ...]


Step: TypeAlias = AddColumns | KeepRows | SelectColumns | GroupByUser


@dataclass(frozen=True, slots=True)
class Derivation:
    """The steps from a private table to one that is derived from it; without steps it is the table itself."""

    steps: tuple[Step, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    def then(self, *steps: Step) -> "Derivation":
        """Return the derivation with further steps."""
        return Derivation((*self.steps, *steps))

    @property
    def released(self) -> frozenset[int]:
        """The places of the released values that the steps need."""
        return frozenset(place for step in self.steps for part in _expressions(step) for place in released_places(part))

    @property
    def read(self) -> frozenset[str]:
        """The names of all columns that expressions of the steps read, those of earlier steps included."""
        return frozenset(name for step in self.steps for part in _expressions(step) for name in columns_of(part))

    def with_released(self, values: Mapping[int, float | None]) -> "Derivation":
        """Return the derivation with released values in their places."""
        return Derivation(tuple(_replaced(step, values) for step in self.steps))

    def __str__(self) -> str:
        return "; ".join(map(_step_text, self.steps))


NOT_DERIVED = Derivation()
"""The derivation of a table that is asked as it is."""


def _expressions(step: Step) -> Iterator[RowExpression]:
    match step:
        case AddColumns(columns) | SelectColumns(columns=columns):
            yield from (each.expression for each in columns)
        case KeepRows(condition):
            yield condition
        case GroupByUser(user, keys, aggregates):
            yield ColumnValue(user)
            yield from (each.expression for each in keys)
            yield from (each.argument for each in aggregates if each.argument is not None)
        case _:
            assert_never(step)


def _replaced(step: Step, values: Mapping[int, float | None]) -> Step:
    def named(columns: tuple[NamedExpression, ...]) -> tuple[NamedExpression, ...]:
        return tuple(NamedExpression(each.name, with_released(each.expression, values)) for each in columns)

    match step:
        case AddColumns(columns):
            return AddColumns(named(columns))
        case SelectColumns(columns=columns):
            return replace(step, columns=named(columns))
        case KeepRows(condition):
            return KeepRows(with_released(condition, values))
        case GroupByUser(keys=keys, aggregates=aggregates):
            return replace(
                step,
                keys=named(keys),
                aggregates=tuple(
                    each if each.argument is None else replace(each, argument=with_released(each.argument, values))
                    for each in aggregates
                ),
            )
        case _:
            assert_never(step)


def _step_text(step: Step) -> str:
    def named(columns: tuple[NamedExpression, ...]) -> str:
        return ", ".join(f"{written(each.expression)} AS {each.name!r}" for each in columns)

    match step:
        case AddColumns(columns):
            return f"add {named(columns)}"
        case KeepRows(condition):
            return f"where {written(condition)}"
        case SelectColumns(columns=columns):
            return f"select {named(columns)}"
        case GroupByUser(user, keys, aggregates):
            computed = ", ".join(
                f"{each.function} {'*' if each.argument is None else written(each.argument)} AS {each.name!r}"
                for each in aggregates
            )
            return f"by {user!r}, {named(keys)}: {computed}"
        case _:
            assert_never(step)


def columns_computed_with(derivation: Derivation) -> Iterator[tuple[str, bool]]:
    """Return the columns that expressions read, and whether each is only added up, multiplied and so on as a number.

    A column that is passed on under its own name is left out: what is done with it later is checked there.
    """
    for step in derivation.steps:
        match step:
            case AddColumns(columns) | SelectColumns(columns=columns):
                for each in columns:
                    passed_on = isinstance(each.expression, ColumnValue)
                    if each.expression != ColumnValue(each.name):
                        yield from _computed_with(each.expression, is_number=not passed_on)
            case KeepRows(condition):
                yield from _computed_with(condition, is_number=False)
            case GroupByUser(keys=keys, aggregates=aggregates):
                for key in keys:
                    yield from _computed_with(key.expression, is_number=False)
                for aggregate in aggregates:
                    if aggregate.argument is not None:
                        yield from _computed_with(aggregate.argument, is_number=True)
            case _:
                assert_never(step)


def _computed_with(expression: RowExpression, *, is_number: bool) -> Iterator[tuple[str, bool]]:
    number = is_number and isinstance(expression, ColumnValue | Arithmetic | ConstantValue | Call)
    if isinstance(expression, ColumnValue):
        yield expression.name, number
    elif isinstance(expression, TimePart | PeriodStart):
        yield expression.column, False
    for each in children(expression):
        yield from _computed_with(each, is_number=number)


def check_names(names: list[str]) -> None:
    """Raise if two columns of a derived table have one name, in upper or lower case."""
    lower = [name.lower() for name in names]
    for name in names:
        if lower.count(name.lower()) > 1:
            raise InvalidParameter(f"two columns are called {name!r}: give them different aliases")

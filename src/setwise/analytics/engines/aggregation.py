"""Aggregations: what a query asks of an engine, and the checks of columns that come before it is asked."""

from dataclasses import dataclass
from typing import assert_never

from setwise.analytics.bins import Group
from setwise.analytics.filter.expression import Filter
from setwise.analytics.measure import Measure
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter, UnsuitableTable
from setwise.mechanisms.labels import Cell, Label, cell_of, distinct_labels
from setwise.mechanisms.parameters import positive_integer


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """A bounded histogram: one user moves at most `contributions` counts, each by at most `per_item`.

    Of the rows that pass `where` and have a user, an item and, with a `domain`, an item of it, every user keeps
    `contributions` distinct items, drawn uniformly (all of them when it is None), and counts under each of them the
    number of their rows, or the sum of `value`, clipped to 0 .. `per_item`. Without `item` all rows are one group,
    labelled `EVERYTHING`; several columns as `item` make labels of several values. Rows without an item are dropped, or
    count under the label `null_item`. `measures` are for `Engine.statistics`, which reads neither `value` nor
    `per_item`; with `pooled` it adds up what users add to the groups they keep under the one label `EVERYTHING`.

    >>> Aggregation(user="user_id", item="word", contributions=0)
    Traceback (most recent call last):
        ...
    setwise.errors.InvalidParameter: contributions must lie between 1 and 1,099,511,627,776, not 0
    """

    user: str
    item: str | Group | tuple[str | Group, ...] | None = None
    value: str | None = None
    contributions: int | None = None
    per_item: int = 1
    where: Filter | None = None
    domain: tuple[Label, ...] | None = None
    null_item: Label | None = None
    measures: tuple[Measure, ...] = ()
    pooled: bool = False

    def __post_init__(self) -> None:
        if self.contributions is not None:
            positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        grouped = [group.column for group in self.groups]
        for name, columns in (("user", [self.user]), ("item", grouped), ("value", [self.value])):
            for column in columns:
                if not isinstance(column, str | None) or column == "" or (column is None and name == "user"):
                    raise InvalidParameter(f"{name} must be the name of a column, not {column!r}")
        if self.domain is not None:
            object.__setattr__(self, "domain", distinct_labels(self.domain))
        if self.null_item is not None:
            distinct_labels([self.null_item])
        if self.item is None and (self.domain is not None or self.null_item is not None):
            raise InvalidParameter("a domain or a label for missing items needs an item column: give item")

    @property
    def groups(self) -> tuple[Group, ...]:
        """The columns, or bins of columns, whose values are the groups; none when all rows are one."""
        if self.item is None:
            return ()
        every = self.item if isinstance(self.item, tuple) else (self.item,)
        return tuple(each if isinstance(each, Group) else Group(each) for each in every)

    @property
    def label_width(self) -> int:
        """How many columns hold the labels of what is returned."""
        return 1 if self.pooled else max(1, len(self.groups))

    @property
    def needs_salt(self) -> bool:
        """Whether something is kept of each user at random: items, or distinct values."""
        return self.items_kept_per_user is not None or any(measure.distinct for measure in self.measures)

    @property
    def items_kept_per_user(self) -> int | None:
        """How many items each user keeps at random; None when users keep every item they have."""
        return None if self.item is None else self.contributions


def check_suitable(aggregation: Aggregation, schema: Schema) -> None:
    """Raise unless the columns exist and are of kinds that can be counted exactly.

    Only types are looked at, never values: whether this raises says nothing about the rows. So a table without rows
    or without a single user is fine, and a column that holds nothing but nulls is judged by its declared type.
    """
    check_user(schema.column(aggregation.user))
    for place, group in enumerate(aggregation.groups):
        check_item(group.labels(schema), aggregation, place)
    if aggregation.value is not None:
        check_value(schema.column(aggregation.value))
    for measure in aggregation.measures:
        if measure.column is not None:
            column = schema.column(measure.column)
            if measure.distinct is not None:
                check_distinct(column)
            elif not measure.counted:
                check_measured(column)
    if aggregation.where is not None:
        aggregation.where.check(schema)


def columns_read(aggregation: Aggregation) -> set[str]:
    """Return the names of the columns that an aggregation reads."""
    measured = [measure.column for measure in aggregation.measures]
    filtered = () if aggregation.where is None else aggregation.where.columns()
    grouped = [group.column for group in aggregation.groups]
    named = {aggregation.user, *grouped, aggregation.value, *measured, *(column.name for column in filtered)}
    return {name for name in named if name is not None}


def check_user(column: Column) -> None:
    """Raise unless equal values of the column mean the same user and different ones different users."""
    match column.kind:
        case Kind.FLOAT:
            raise UnsuitableTable(
                f"column {column.name!r} cannot tell users apart, because it holds floating-point numbers: "
                f"convert it to integers or text"
            )
        case Kind.OTHER:
            raise UnsuitableTable(
                f"column {column.name!r} cannot tell users apart, because its type is {column.native or 'unknown'}: "
                f"convert it to integers or text"
            )
        case (
            Kind.TEXT | Kind.INTEGER | Kind.DECIMAL | Kind.BOOLEAN | Kind.DATE | Kind.TIMESTAMP | Kind.INSTANT
        ) | Kind.IDENTIFIER:
            return
        case _:
            assert_never(column.kind)


def check_item(column: Column, aggregation: Aggregation, place: int = 0) -> None:
    """Raise unless the column's values are text or integers, or are written as text alike by every engine."""
    match column.kind:
        case Kind.TEXT | Kind.INTEGER | Kind.DATE | Kind.BOOLEAN:
            _check_labels(column, aggregation, place)
        case Kind.FLOAT | Kind.DECIMAL | Kind.TIMESTAMP | Kind.INSTANT | Kind.IDENTIFIER | Kind.OTHER:
            raise UnsuitableTable(
                f"column {column.name!r} cannot be grouped by, because it holds {_described(column)} values: "
                f"convert it to text, integers or dates"
            )
        case _:
            assert_never(column.kind)


def check_value(column: Column) -> None:
    """Raise unless sums of the column are whole numbers."""
    if column.kind is Kind.TEXT:
        raise UnsuitableTable(
            f"column {column.name!r} cannot be summed, because it holds text: convert it to integers, or, if it is of "
            f"a CSV file, give its type, as in --type {column.name}=integer"
        )
    if column.kind is not Kind.INTEGER:
        raise UnsuitableTable(
            f"column {column.name!r} cannot be summed exactly, because it holds {_described(column)} values: "
            f"round or scale it to an integer column"
        )


def check_measured(column: Column) -> None:
    """Raise unless the column holds numbers."""
    if column.kind is Kind.TEXT:
        raise UnsuitableTable(
            f"column {column.name!r} holds text, not numbers: convert it, or, if it is of a CSV file, give its type, "
            f"as in --type {column.name}=integer or {column.name}=float"
        )
    if column.kind not in (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL):
        instead = f": count users where {column.name} = TRUE" if column.kind is Kind.BOOLEAN else ""
        raise UnsuitableTable(f"column {column.name!r} holds {_described(column)} values, not numbers{instead}")


def check_distinct(column: Column) -> None:
    """Raise unless equal values of the column are equal on every engine, so that distinct values can be counted."""
    if column.kind in (Kind.FLOAT, Kind.OTHER):
        held = "floating-point numbers" if column.kind is Kind.FLOAT else f"{column.native or 'unknown'} values"
        raise UnsuitableTable(
            f"distinct values of column {column.name!r} cannot be counted, because it holds {held}: convert it to "
            "integers, decimals or text"
        )


def label_kind(column: Column) -> type[str] | type[int]:
    """Return what the labels of an item column are."""
    return int if column.kind is Kind.INTEGER else str


def _check_labels(column: Column, aggregation: Aggregation, place: int) -> None:
    given: list[tuple[str, Cell]] = [("the domain", cell_of(label, place)) for label in (aggregation.domain or ())[:1]]
    if aggregation.null_item is not None:
        given.append(("the label of missing items", cell_of(aggregation.null_item, place)))
    for what, label in given:
        if not isinstance(label, label_kind(column)):
            wanted = "whole numbers" if label_kind(column) is int else "text"
            raise InvalidParameter(f"column {column.name!r} has labels that are {wanted}, but {what} has {label!r}")


def _described(column: Column) -> str:
    return f"{column.native or 'unknown'}" if column.kind in (Kind.OTHER, Kind.IDENTIFIER) else column.kind

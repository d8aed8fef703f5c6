"""Whether a table's columns can be read as users, items and values, by their types alone."""

from typing import assert_never

from setwise.analytics.aggregation import Aggregation
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter, UnsuitableTable
from setwise.mechanisms.histogram import Label


def check_suitable(aggregation: Aggregation, schema: Schema) -> None:
    """Raise unless the columns exist and are of kinds that can be counted exactly.

    Only types are looked at, never values: whether this raises says nothing about the rows. So a table without rows
    or without a single user is fine, and a column that holds nothing but nulls is judged by its declared type.
    """
    check_user(schema.column(aggregation.user))
    if aggregation.item is not None:
        check_item(schema.column(aggregation.item), aggregation)
    if aggregation.value is not None:
        check_value(schema.column(aggregation.value))
    if aggregation.where is not None:
        aggregation.where.check(schema)


def check_user(column: Column) -> None:
    """Raise unless equal values of the column mean the same user and different ones different users."""
    match column.kind:
        case Kind.FLOAT:
            raise UnsuitableTable(
                f"column {column.name!r} cannot tell users apart, for it holds floating-point numbers: "
                f"convert it to integers or text"
            )
        case Kind.OTHER:
            raise UnsuitableTable(
                f"column {column.name!r} cannot tell users apart, for its type is {column.native or 'unknown'}: "
                f"convert it to integers or text"
            )
        case (
            Kind.TEXT | Kind.INTEGER | Kind.DECIMAL | Kind.BOOLEAN | Kind.DATE | Kind.TIMESTAMP | Kind.INSTANT
        ) | Kind.IDENTIFIER:
            return
        case _:
            assert_never(column.kind)


def check_item(column: Column, aggregation: Aggregation) -> None:
    """Raise unless the column's values are text or integers, or are written as text alike by every engine."""
    match column.kind:
        case Kind.TEXT | Kind.INTEGER | Kind.DATE | Kind.BOOLEAN:
            _check_labels(column, aggregation)
        case Kind.FLOAT | Kind.DECIMAL | Kind.TIMESTAMP | Kind.INSTANT | Kind.IDENTIFIER | Kind.OTHER:
            raise UnsuitableTable(
                f"column {column.name!r} cannot be grouped by, for it holds {_described(column)} values: "
                f"convert it to text, integers or dates"
            )
        case _:
            assert_never(column.kind)


def check_value(column: Column) -> None:
    """Raise unless sums of the column are whole numbers."""
    if column.kind is Kind.TEXT:
        raise UnsuitableTable(
            f"column {column.name!r} cannot be summed, for it holds text: convert it to integers, or, if it is of a "
            f"CSV file, give its type, as in --type {column.name}=integer"
        )
    if column.kind is not Kind.INTEGER:
        raise UnsuitableTable(
            f"column {column.name!r} cannot be summed exactly, for it holds {_described(column)} values: "
            f"round or scale it to an integer column"
        )


def label_kind(column: Column) -> type[str] | type[int]:
    """Return what the labels of an item column are."""
    return int if column.kind is Kind.INTEGER else str


def _check_labels(column: Column, aggregation: Aggregation) -> None:
    given: list[tuple[str, Label]] = [("the domain", label) for label in (aggregation.domain or ())[:1]]
    if aggregation.null_item is not None:
        given.append(("the label of missing items", aggregation.null_item))
    for what, label in given:
        if not isinstance(label, label_kind(column)):
            wanted = "whole numbers" if label_kind(column) is int else "text"
            raise InvalidParameter(f"column {column.name!r} has labels that are {wanted}, but {what} has {label!r}")


def _described(column: Column) -> str:
    return f"{column.native or 'unknown'}" if column.kind in (Kind.OTHER, Kind.IDENTIFIER) else column.kind

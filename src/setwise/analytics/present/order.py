"""The order of the groups of an answer: bins of numbers and times in their own order, other groups by their counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from setwise.analytics.bins import Group, Part, Period, Width
from setwise.analytics.query import Query
from setwise.analytics.schema import Kind, Schema
from setwise.mechanisms.labels import Cell, Label
from setwise.mechanisms.release import Item


class Axis(StrEnum):
    """What the labels of one group column are: names, numbers, or points in time."""

    NAMES = "names"
    NUMBERS = "numbers"
    TIME = "time"


_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT)
_NUMBERS = (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL)


def axis_of(group: Group, schema: Schema, *, public: bool) -> Axis:
    """Return what the labels of a group column are.

    A column of numbers without bins often holds identifiers, which nobody wants to read in numerical order. Its labels
    are numbers only if the request lists them (`public`), as in a list of ages or star ratings.
    """
    match group.bin:
        case Period():
            return Axis.TIME
        case Width() | Part():
            return Axis.NUMBERS
        case None:
            kind = schema.column(group.column).kind
            if kind in _TIMES:
                return Axis.TIME
            return Axis.NUMBERS if public and kind in _NUMBERS else Axis.NAMES


def arranged(query: Query, axes: Sequence[Axis], items: Sequence[Item]) -> tuple[Item, ...]:
    """Return the items in the order in which people read them.

    A top k stays in the order of its ranks, and so do groups without numbers or times. Otherwise the columns of
    numbers and times are in their own order, and names stay in the order in which they first appear among `items`.
    """
    if query.k is not None or all(axis is Axis.NAMES for axis in axes):
        return tuple(items)
    first_places: list[dict[Cell, int]] = [{} for _ in axes]
    for item in items:
        for places, cell in zip(first_places, _cells(item.label), strict=True):
            places.setdefault(cell, len(places))

    def place(item: Item) -> tuple[_Place, ...]:
        columns = zip(axes, first_places, _cells(item.label), strict=True)
        return tuple(_place(cell, axis, places[cell]) for axis, places, cell in columns)

    return tuple(sorted(items, key=place))


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """Where a cell stands in its column: labels that are not of the axis (the label of missing values) stand last."""

    last: bool
    number: float
    text: str
    first_place: int


def _place(cell: Cell, axis: Axis, first_place: int) -> _Place:
    match axis:
        case Axis.NAMES:
            return _Place(last=False, number=0.0, text="", first_place=first_place)
        case Axis.TIME:
            known = isinstance(cell, str) and cell[:1].isdigit()
            return _Place(last=not known, number=0.0, text=str(cell) if known else "", first_place=first_place)
        case Axis.NUMBERS:
            number = _number(cell)
            return _Place(last=number is None, number=number or 0.0, text="", first_place=first_place)


def _number(cell: Cell) -> float | None:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def _cells(label: Label) -> tuple[Cell, ...]:
    return label if isinstance(label, tuple) else (label,)

"""The order of the groups in an answer: numbers and times in their natural order, other groups by their counts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from setwise.analytics.bins import ConsecutiveTime, Group, RecurringTime, Width
from setwise.analytics.query import Query
from setwise.analytics.schema import NUMBER_KINDS, TIME_KINDS, Kind, Schema
from setwise.mechanisms.labels import Cell, Label
from setwise.mechanisms.release import Item


class Axis(StrEnum):
    """The kind of the group keys in one group column: names, numbers, or points in time."""

    NAMES = "names"
    NUMBERS = "numbers"
    TIME = "time"


def axis_of(group: Group, schema: Schema, *, public: bool) -> Axis:
    """Return whether the group keys in the group column `group` are names, numbers or points in time.

    `schema` has the kind of the column. `public` is True if the query lists the group keys. If it is False, numbers are
    treated as names, because they are often identifiers.
    """
    match group.bin:
        case ConsecutiveTime():
            return Axis.TIME
        case Width() | RecurringTime():
            return Axis.NUMBERS
        case None:
            kind = schema.column(group.column).kind
            if kind in TIME_KINDS:
                return Axis.TIME
            return Axis.NUMBERS if public and kind in NUMBER_KINDS else Axis.NAMES


def columns_in_utc(groups: Sequence[Group], schema: Schema) -> tuple[str, ...]:
    """Return those columns of `groups` whose times have a time zone and are grouped by a unit of time, such as days.

    A unit may be a period, such as each day or each month, or may recur, such as the weekday. Engines compute the units
    of such a column in UTC, and the answer has to say so. `schema` has the kinds of the columns.
    """
    binned = [group.column for group in groups if isinstance(group.bin, ConsecutiveTime | RecurringTime)]
    return tuple(name for name in dict.fromkeys(binned) if schema.column(name).kind is Kind.INSTANT)


def arrange_items(query: Query, axes: Sequence[Axis], items: Sequence[Item]) -> tuple[Item, ...]:
    """Return `items`, the items of the answer to `query`, in the order in which people read them.

    The items of a top k keep the order of their ranks. Other items are sorted ascending by their group keys, if these
    are numbers, times, months or small integers (`small_integers`); names keep the order that they have in `items`.
    `axes` says for each group column whether its keys are names, numbers or times.
    """
    if query.k is not None or not items or any(len(_cells(item.label)) != len(axes) for item in items):
        return tuple(items)  # an answer without groups has one item, whose label is the name of a statistic
    columns = list(zip(*(_cells(item.label) for item in items), strict=True))
    months = [
        month_numbers(name, cells) or small_integers(cells) if axis is Axis.NAMES else {}
        for name, axis, cells in zip(query.groups, axes, columns, strict=True)
    ]
    if all(axis is Axis.NAMES for axis in axes) and not any(months):
        return tuple(items)
    first_places: list[dict[Cell, int]] = [{} for _ in axes]
    for item in items:
        for places, cell in zip(first_places, _cells(item.label), strict=True):
            places.setdefault(cell, len(places))

    def place(item: Item) -> tuple[_Place, ...]:
        columns = zip(axes, months, first_places, _cells(item.label), strict=True)
        return tuple(
            _Place(last=cell not in numbers, number=numbers.get(cell, 0.0), text="", first_place=places[cell])
            if numbers
            else _place(cell, axis, places[cell])
            for axis, numbers, places, cell in columns
        )

    return tuple(sorted(items, key=place))


_MONTH = re.compile(r"(\d{4})[-/](\d{1,2})")
_MONTH_NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
"""The names of the months; their first three letters are their short names."""
_MONTH_COLUMNS = ("month", "mon", "monat", "mois", "mes")
"""Words in the name of a column that holds the numbers of months."""


def month_numbers(name: str, cells: Sequence[Cell]) -> dict[Cell, float]:
    """Return for each of `cells` a number by which months are sorted in order of time; {} if the cells are not months.

    `cells` are the group keys of the text column `name`. The cells are months if each is a year and month such as
    2026-1, an English name (or its first three letters), or a number from 1 to 12. If there are fewer than twelve such
    numbers, the column's name must also have a word for month. A year and month becomes 12 * year + month, and any
    other month its number in the year. The result is {} also for fewer than two different keys, which need no order.

    >>> month_numbers("at", ["2026-10", "2026-9"])
    {'2026-10': 24322.0, '2026-9': 24321.0}
    >>> month_numbers("shoe", ["10", "9"]), month_numbers("Month", ["10", "9"])
    ({}, {'10': 10.0, '9': 9.0})
    """
    # The labels were already released, so sorting them reveals nothing more.
    texts = [cell for cell in dict.fromkeys(cells) if cell is not None]
    if not all(isinstance(text, str) for text in texts):
        return {}
    numbers: dict[Cell, float] = {}
    for text in map(str, texts):
        written = _MONTH.fullmatch(text)
        name_places = [place for place, month in enumerate(_MONTH_NAMES, 1) if text.lower() in (month, month[:3])]
        if written:
            numbers[text] = 12.0 * int(written[1]) + int(written[2])
        elif name_places:
            numbers[text] = float(name_places[0])
        elif text.isdecimal() and 1 <= int(text) <= 12:
            numbers[text] = float(text)
    plain = sum(text.isdecimal() for text in map(str, texts))
    is_named = any(word in _MONTH_COLUMNS for word in re.split(r"[\W_]+", name.lower()))
    if len(numbers) < len(texts) or len(texts) < 2 or (0 < plain < 12 and not is_named):
        return {}
    return numbers


_SMALL_INTEGERS = (range(61), range(1900, 2101))
"""Ranges of integers that are rarely identifiers: months, hours, minutes, ratings and grades; and years."""


def small_integers(cells: Sequence[Cell]) -> dict[Cell, float]:
    """Return each of `cells`, the group keys of a column of integers, as a number by which it is sorted; {} for others.

    The keys must be integers that all lie from 0 to 60, as months, hours, weekdays and ratings do, or that are all
    years from 1900 to 2100. Larger integers are often identifiers, which nobody reads in order. The result is {} also
    for fewer than two different keys.

    >>> small_integers([3, 1]), small_integers([2026, 2024, None]), small_integers([3, 802])
    ({3: 3.0, 1: 1.0}, {2026: 2026.0, 2024: 2024.0}, {})
    """
    keys = [cell for cell in dict.fromkeys(cells) if cell is not None]
    integers = [key for key in keys if isinstance(key, int) and not isinstance(key, bool)]
    fits = len(keys) > 1 and any(all(key in numbers for key in integers) for numbers in _SMALL_INTEGERS)
    return {key: float(key) for key in integers} if fits and len(integers) == len(keys) else {}


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """The sort key of one group key within its group column; two keys are compared by the first field that differs.

    - `last` is True for a key to be sorted after all others: in a column of numbers, months or times, a key that is
      none of these, such as the label for nulls.
    - `number` is the group key if the column holds numbers, and the number of the month if it holds months; 0
      otherwise.
    - `text` is the group key if the column holds times; "" otherwise.
    - `first_place` is the index of the key in the order of first appearance, which sorts names.
    """

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

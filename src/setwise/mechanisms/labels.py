"""Labels: the names of groups, text or whole numbers; without NumPy, so that commands start quickly."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

from setwise.errors import InvalidParameter

Cell: TypeAlias = str | int

Label: TypeAlias = Cell | tuple[Cell, ...]
"""The name of a group: one value, or for groups by several columns one for each column."""


def distinct_labels(labels: Iterable[object]) -> tuple[Label, ...]:
    """Return the labels, each text, an integer, or a tuple of such, or raise `InvalidParameter`.

    >>> distinct_labels([["NO", 1], ["NO", 2]])
    (('NO', 1), ('NO', 2))
    """
    tolist = getattr(labels, "tolist", None)  # of a NumPy array
    every = tolist() if tolist else [label.item() if hasattr(label, "item") else label for label in labels]
    plain = [tuple(label) if isinstance(label, list) else label for label in cast("list[object]", every)]
    _check_cells([label[0] if isinstance(label, tuple) and len(label) == 1 else label for label in plain])
    if len(set(plain)) != len(plain):
        raise InvalidParameter("labels must be distinct, but some label appears twice")
    return tuple(cast("list[Label]", plain))


def _check_cells(cells: Sequence[object]) -> None:
    """Raise unless all are text, all integers, or all tuples of one length whose places are so in turn."""
    kinds = set(map(type, cells))
    if tuple in kinds:
        rows = [cell for cell in cells if isinstance(cell, tuple)]
        if len(kinds) > 1 or len({len(row) for row in rows}) > 1:
            raise InvalidParameter("labels of several columns must all have one value for each column")
        for place in zip(*rows, strict=True):
            if any(isinstance(cell, tuple) for cell in place):
                raise InvalidParameter("a label of several columns holds text and whole numbers only")
            _check_cells(place)
        return
    for kind in kinds:
        if issubclass(kind, bool) or not issubclass(kind, str | int):
            raise InvalidParameter(f"a label must be text or a whole number, not {kind.__name__}")
    if len({issubclass(kind, str) for kind in kinds}) > 1:
        raise InvalidParameter("labels must be all text or all whole numbers, not a mixture")
    try:
        "".join(cell for cell in cells if isinstance(cell, str)).encode()
    except UnicodeEncodeError:
        raise InvalidParameter("a label must be text that UTF-8 can write, and one holds a lone surrogate") from None


def cell_of(label: Label, place: int) -> Cell:
    """Return the value of a label in one of its columns."""
    return label[place] if isinstance(label, tuple) else label

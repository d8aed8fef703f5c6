"""Labels: the keys of groups, as text or whole numbers, or tuples of them for groups by several columns.

This module does not import NumPy, so that commands start quickly.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

from setwise.errors import InvalidParameter

Cell: TypeAlias = str | int

Label: TypeAlias = Cell | tuple[Cell, ...]
"""The name of a group: one value, or for groups by several columns a tuple with one value for each column."""


NULL_TEXT = "\u2400null\u2400"
"""The label of the group of rows without a value (SQL's NULL group), in a column of text labels.

Labels cannot be null, because engines and mechanisms compare and sort them. A cell of the table that holds this very
text would be counted in the NULL group, so the text is one that nobody types: the symbol for NUL before and after it.
"""

NULL_INTEGER = -(2**63) + 1
"""The label of SQL's NULL group in a column of integer labels: the second lowest 64-bit integer."""


def distinct_labels(labels: Iterable[object]) -> tuple[Label, ...]:
    """Return `labels` (group keys) as a tuple; raise `InvalidParameter` unless they are distinct and valid.

    Each label is text, an integer, or a tuple of text and integers. Lists become tuples, and NumPy values become plain
    Python values.

    >>> distinct_labels([["NO", 1], ["NO", 2]])
    (('NO', 1), ('NO', 2))
    """
    tolist = getattr(labels, "tolist", None)  # NumPy arrays have this method
    every = tolist() if tolist else [label.item() if hasattr(label, "item") else label for label in labels]
    plain = [tuple(label) if isinstance(label, list) else label for label in cast("list[object]", every)]
    _check_cells([label[0] if isinstance(label, tuple) and len(label) == 1 else label for label in plain])
    if len(set(plain)) != len(plain):
        raise InvalidParameter("labels must be distinct, but some label appears twice")
    return tuple(cast("list[Label]", plain))


def _check_cells(cells: Sequence[object]) -> None:
    """Raise `InvalidParameter` unless the labels `cells` (group keys) can stand together in one table.

    They must be all text, all integers, or all tuples of the same length. In tuples, the entries at each position must
    be all text or all integers. Text must be valid UTF-8.
    """
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
    """Return the value that the group key `label` has in the group column with index `place`.

    For groups by several columns, `label` is a tuple with one value per column. For groups by one column, `label`
    itself is the value.

    >>> cell_of(("Oslo", 2024), 1), cell_of("Oslo", 0)
    (2024, 'Oslo')
    """
    return label[place] if isinstance(label, tuple) else label


def shown_cell(label: Label, place: int) -> Cell | None:
    """Return the value that the group key `label` has in the group column with index `place`; None for SQL's NULL.

    Labels cannot be NULL; a special text (`NULL_TEXT`) or number (`NULL_INTEGER`) stands for it, and this function
    translates it back. For groups by several columns, `label` is a tuple with one value per column. For groups by one
    column, `label` itself is the value.
    """
    cell = cell_of(label, place)
    return None if cell in (NULL_TEXT, NULL_INTEGER) else cell

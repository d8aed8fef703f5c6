"""Labels: the names of groups, text or whole numbers; without NumPy, so that commands start quickly."""

from collections.abc import Iterable
from typing import TypeAlias, cast

from setwise.errors import InvalidParameter

Label: TypeAlias = str | int


def distinct_labels(labels: Iterable[object]) -> tuple[Label, ...]:
    """Return the labels as text or as integers, or raise `InvalidParameter`."""
    tolist = getattr(labels, "tolist", None)  # of a NumPy array
    every = tolist() if tolist else [label.item() if hasattr(label, "item") else label for label in labels]
    plain = cast("list[object]", every)
    kinds = set(map(type, plain))
    for kind in kinds:
        if issubclass(kind, bool) or not issubclass(kind, str | int):
            raise InvalidParameter(f"a label must be text or a whole number, not {kind.__name__}")
    if len({issubclass(kind, str) for kind in kinds}) > 1:
        raise InvalidParameter("labels must be all text or all whole numbers, not a mixture")
    if len(set(plain)) != len(plain):
        raise InvalidParameter("labels must be distinct, but some label appears twice")
    return tuple(cast("list[Label]", plain))

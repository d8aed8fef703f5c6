"""The columns of a table and what kind of values each holds, as far as metadata tells."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from setwise.errors import InvalidParameter, UnknownColumn

NAMES_SHOWN = 50


class Kind(StrEnum):
    """What a column holds, the same words for every engine."""

    TEXT = "text"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    """A date and time of day, of no time zone."""
    INSTANT = "instant"
    """A point in time: a timestamp with a time zone."""
    IDENTIFIER = "identifier"
    """Exact but neither text nor a 64-bit number: a UUID, bytes, a wider integer."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its name, its kind, and what the engine itself calls its type.

    `precision` and `scale` say how many digits a decimal has, and how many of them after the point; None is unlimited.
    `from_text` says that the cells are text that is read as this kind: a cell that cannot be is null.
    """

    name: str
    kind: Kind
    native: str = ""
    precision: int | None = None
    scale: int | None = None
    from_text: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidParameter("a column must have a name, but one has none")
        object.__setattr__(self, "kind", Kind(self.kind))


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table that can be read, in order.

    `left_out` are the other columns, with the reason why they cannot be read, for the message about one of them.
    `version` names the version of a lake table that is read, and is empty for other tables.

    >>> schema = Schema((Column(name="user", kind=Kind.INTEGER), Column(name="word", kind=Kind.TEXT)))
    >>> schema.column("word").kind
    <Kind.TEXT: 'text'>
    >>> schema.column("item")
    Traceback (most recent call last):
        ...
    setwise.errors.UnknownColumn: the table has no column 'item'; it has 'user', 'word'
    """

    columns: tuple[Column, ...]
    left_out: Mapping[str, str] = field(default_factory=dict, compare=False)
    version: str = field(default="", compare=False)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the column of that name, or raise `UnknownColumn`."""
        for column in self.columns:
            if column.name == name:
                return column
        if name in self.left_out:
            raise UnknownColumn(f"the column {name!r} cannot be read: {self.left_out[name]}")
        raise UnknownColumn(f"the table has no column {name!r}; it has {self.listing()}")

    def listing(self) -> str:
        """Return the names of the columns for a message."""
        shown = ", ".join(repr(name) for name in self.names[:NAMES_SHOWN])
        left = len(self.columns) - NAMES_SHOWN
        return shown + (f" and {left} more" if left > 0 else "") if shown else "no columns"

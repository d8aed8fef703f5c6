"""The columns of a table, the kind of each (number, text, date, time), and the error for an unknown column."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from json import dumps

from setwise.errors import InvalidParameter, UnknownColumn
from setwise.records import set_fields

NAMES_SHOWN = 50
"""The most column names that an error message lists."""


class Kind(StrEnum):
    """The kinds of values that a column can hold, with the same names for every engine."""

    TEXT = "text"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    """A date and time of day without a time zone."""
    INSTANT = "instant"
    """A point in time: a timestamp with a time zone."""
    IDENTIFIER = "identifier"
    """An exact value that is neither text nor a 64-bit number: a UUID, bytes, or a wider integer."""
    OTHER = "other"


NUMBER_KINDS = (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL)
"""The kinds of columns that can be summed, averaged and put into bins of numbers."""

TIME_KINDS = (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT)
"""The kinds of columns that can be grouped by periods of time."""


def type_argument(types: Mapping[str, str]) -> str:
    """Return the types of columns as an error message names them, for callers in Python and of REST.

    >>> type_argument({"time": "integer"})
    'types = {"time": "integer"}'
    """
    return f"types = {dumps(types, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The column `name` of a table.

    - `kind` is its kind, and `native` the type name that the engine itself uses.
    - `precision` is how many digits a decimal has, and `scale` how many of them stand after the point. Both are None
      for other kinds and for decimals without limit.
    - `from_text` is True if the cells are text that is parsed as this kind; a cell that cannot be parsed is null.
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
        set_fields(self, kind=Kind(self.kind))

    @property
    def has_long_integers(self) -> bool:
        """Whether the column holds integers of 128 bits of DuckDB, which are not computed with as they are."""
        return self.native in ("HUGEINT", "UHUGEINT")


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table that can be read, in order.

    - `left_out` maps the names of other columns to the reason why they cannot be read.
    - `version` names the version of a lake table; "" for other tables.
    - `prepared` is True for a table that `Session.prepare` wrote, whose rows do not say from which users they come.

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
    prepared: bool = field(default=False, compare=False)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the table's columns, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the table's column called `name`.

        Raises: `UnknownColumn` if there is none, with the columns that exist in the message, or if the column cannot be
        read, with the reason.
        """
        for column in self.columns:
            if column.name == name:
                return column
        if name in self.left_out:
            raise UnknownColumn(f"the column {name!r} cannot be read: {self.left_out[name]}")
        comments = any(known.startswith("#") for known in self.names)
        hint = "; if the file begins with comments, skip_lines = N skips its first N lines" if comments else ""
        raise UnknownColumn(f"the table has no column {name!r}; it has {self.listing()}{hint}")

    def listing(self) -> str:
        """Return the names of the table's columns as text for an error message: the first 50 of them, with commas.

        If the table has more columns than 50 (`NAMES_SHOWN`), the text says how many it leaves out. The text is "no
        columns" if the table has none.
        """
        shown = ", ".join(repr(name) for name in self.names[:NAMES_SHOWN])
        more = len(self.columns) - NAMES_SHOWN
        return shown + (f" and {more} more" if more > 0 else "") if shown else "no columns"

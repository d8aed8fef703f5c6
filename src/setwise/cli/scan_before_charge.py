"""The scan of files before a question is charged: notes on standard error about lines and cells it cannot read.

A question is refused if at least half of the cells of one of its columns cannot be read.

The notes have exact numbers and are not private output, but the person who runs the command can read the files anyway.
The numbers are never part of an answer.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from setwise.analytics.engines.files import CsvOptions
from setwise.errors import UnsuitableTable

if TYPE_CHECKING:
    from setwise.analytics.schema import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToScan:
    """A table that a question reads from files: its path `source`, the format of its CSV files, and its column types.

    `csv` says how the CSV files are written, and `types` maps column names to kinds. `table_name` is the table's name
    if `source` is a database file, else None. A note suggests options; `remedy` is a text that says where to write
    them, and is "" if they are options of the command itself.
    """

    source: str
    csv: CsvOptions
    types: "Mapping[str, Kind]"
    table_name: str | None = None
    remedy: str = ""


def joined_tables(sources: Mapping[str, str], types: "Mapping[str, Kind]") -> list[TableToScan]:
    """Return the tables that a SELECT joins, so that they can be scanned for cells that cannot be read.

    `sources` maps their names to paths. Keys of `types` of the form TABLE.COLUMN give the kinds of their columns. The
    command's CSV options describe only the first table, so a joined table is read as its description file says, which
    is written by `setwise check --save`.
    """
    return [
        TableToScan(
            source=source,
            csv=CsvOptions(),
            types={
                column.removeprefix(f"{name}."): kind for column, kind in types.items() if column.startswith(f"{name}.")
            },
            remedy=f" (for a joined table: setwise check {quote(source)} with these options and --save)",
        )
        for name, source in sources.items()
    ]


def note_unread_cells(tables: Sequence[TableToScan], question: str, *, free: bool) -> None:
    """Print to standard error how many lines and cells of `tables` a question cannot read, and which options help.

    `question` is the text of the question; only columns whose names occur in it are checked. `free` is True for a
    preview, which charges nothing.
    Raises: `UnsuitableTable` if a table has no readable line, or if at most half of a column's cells can be read,
    unless the question is `free`.
    """
    from setwise.analytics.tables.unread_cells import unread_cells

    for table in tables:
        for note in unread_cells(table.source, table.table_name, table.csv, table.types, question):
            sentence = f"{Path(table.source).name}: {note.text}{table.remedy}"
            if note.mostly_unreadable and not free:
                raise UnsuitableTable(f"{sentence}; nothing was charged (--no-scan asks anyway)")
            print(f"note: {sentence}", file=sys.stderr)

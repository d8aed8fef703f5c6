"""Notes for the data holder about cells with characters that are not seen, and about values that look the same.

If some cells of a city have a NUL, a byte order mark or another kind of space, the rows of this city form two groups
that look the same in an answer.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.tables.clean_copies import with_visible_cells
from setwise.analytics.tables.scan_notes import ScanNote

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.tables import DuckDBTable


def look_alike_notes(
    table: "DuckDBTable", names: Sequence[str], csv: CsvOptions, files: Sequence[TableFile]
) -> list[ScanNote]:
    """Return a note for each of the text columns `names` in which one value is written in several ways that look alike.

    A column with invisible characters has a note, too, because a condition such as city = 'Paris' is not true of a cell
    with such a character. Blanks around cells alone cause no note here. A note suggests SQL or a shell command, which
    writes a copy of the file. `csv` says how the table's `files` are written; `files` is empty for a table in memory.
    """
    from setwise.analytics.engines.duckdb.user_counts import find_look_alikes

    notes = []
    copy = ""
    for column in find_look_alikes(table, names):
        if column.are_blanks and not column.values:
            continue  # such cells have a note if most cells of the column begin or end with blanks
        if column.are_blanks:
            remedy = f"TRIM({column.name}) in SQL leaves blanks out"
        else:
            copy = copy or (with_visible_cells(files[0], csv) if len(files) == 1 else "")
            remedy = f"a copy without such characters, and without blanks around cells: {copy}"
            remedy = remedy if copy else "take such characters out of the table"
        first, second = ascii(column.first), ascii(column.second)
        text = f"cells of {column.name!r} have characters that are not seen, such as {first} for {second}"
        if column.values:
            number = "1 value" if column.values == 1 else f"{column.values:,} values"
            ways = f"in several ways that look the same, such as {first} and {second}, and each way counts apart"
            text = f"{number} of {column.name!r} {'is' if column.values == 1 else 'are'} written {ways}"
        notes.append(ScanNote(f"{text}: {remedy}"))
    return notes

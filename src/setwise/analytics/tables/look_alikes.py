"""Notes for the data holder about cells with characters that are not seen, and about values that look the same.

If some cells of a city have a NUL, a byte order mark or another kind of space, the rows of this city form two groups
that look the same in an answer.
"""

import re
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING
from unicodedata import combining

from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.tables.copies.binary_copies import LOWER_CASE, VISIBLE_TEXT, with_changed_column
from setwise.analytics.tables.copies.clean_copies import with_changed_cells, with_visible_cells
from setwise.analytics.tables.scan_notes import ScanNote

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.tables import DuckDBTable
    from setwise.analytics.engines.duckdb.user_counts import LookAlikes


def look_alike_notes(
    table: "DuckDBTable", names: Sequence[str], csv: CsvOptions, files: Sequence[TableFile], question: str = ""
) -> list[ScanNote]:
    """Return a note for each of the text columns `names` in which one value is written in several ways that look alike.

    There is also a note about a column with invisible characters, because a condition such as city = 'Paris' is not
    true of a cell with such a character, and about a column that writes a value in several cases, as Oslo and OSLO.
    There is none if only some cells have blanks around them, and no value is written in several ways. A note suggests
    SQL, or a shell command that writes a corrected copy of the file.

    - `csv` says how the table's `files` are written; `files` is empty for a table in memory.
    - `question` is the text of the query. If it has LOWER or UPPER of a column, Oslo and OSLO are the same there, and
      need no note. These functions change only the letters A to Z.
    """
    from setwise.analytics.engines.duckdb.user_counts import find_look_alikes

    notes = _case_notes(table, names, csv, files, question)
    copy = ""
    for column in find_look_alikes(table, names):
        if column.are_blanks and (not column.values or column.name in notes):
            continue  # such cells have a note if most cells of the column begin or end with blanks
        if column.are_blanks:
            remedy = f"TRIM({column.name}) in SQL leaves blanks out"
        else:
            copy = copy or (with_visible_cells(files[0], csv) if len(files) == 1 else "")
            mending = copy or with_changed_column(table, column.name, VISIBLE_TEXT)
            remedy = f"a copy without such characters, and without blanks around cells: {mending}"
            remedy = remedy if mending else "take such characters out of the table"
        first, second = _shown(column.first), _shown(column.second)
        text = f"cells of {column.name!r} have characters that are not seen, such as {first} for {second}"
        if column.values:
            ways = f"in several ways that look the same, such as {first} and {second}, and each way counts apart"
            text = f"{_values(column)} written {ways}"
        notes[f"{column.name}, hidden"] = ScanNote(f"{text}: {remedy}", copy_command="" if column.are_blanks else copy)
    return [*notes.values()]


def _case_notes(
    table: "DuckDBTable", names: Sequence[str], csv: CsvOptions, files: Sequence[TableFile], question: str
) -> dict[str, ScanNote]:
    """Return, by column, a note about values that the column writes in several cases, such as Oslo and OSLO.

    A column has none if `question` makes these cells equal, as by LOWER(city). The arguments are those of
    `look_alike_notes`. A note ends with a shell command that writes a copy of the file, with the column in lower case
    and without blanks around its cells, if there is such a command.
    """
    from setwise.analytics.engines.duckdb.cell_counts import column_names
    from setwise.analytics.engines.duckdb.user_counts import find_cases

    notes = {}
    for column in find_cases(table, {name: _counted_text(name, question) for name in names}):
        copy = ""
        if len(files) == 1:
            copy = with_changed_cells(files[0], csv, column_names(table), column.name, "(?s:.+)", "m[0].lower()")
        copy = copy or with_changed_column(table, column.name, LOWER_CASE)
        remedy = f"a copy with {column.name!r} in lower case and without blanks: {copy}"
        remedy = remedy if copy else "write each value in one way in the table"
        ways = f"in upper and lower case, such as {_shown(column.first)} and {_shown(column.second)}"
        text = f"{_values(column)} written {ways}, and each way counts apart: {remedy}"
        notes[column.name] = ScanNote(text, copy_command=copy)
    return notes


def _counted_text(name: str, question: str) -> str:
    """Return the SQL expression that `question` makes of a cell of the column `name`, in which `cell` is the cell.

    It is trim(cell) if the question has TRIM(city), a translation of A to Z into a to z if it has LOWER(city) or
    UPPER(city), both if it has both, and else cell. Two cells count as one value in the question if their expressions
    are equal. LOWER and UPPER of SQL over private rows change only the letters A to Z.
    """
    column = rf'(?:\w+[.])?"?{re.escape(name)}(?!\w)'
    is_trimmed = re.search(rf"\bTRIM\s*\(\s*(?:(?:LOWER|UPPER)\s*\(\s*)?{column}", question, re.IGNORECASE)
    is_lowered = re.search(rf"\b(?:LOWER|UPPER)\s*\(\s*(?:TRIM\s*\(\s*)?{column}", question, re.IGNORECASE)
    text = "trim(cell)" if is_trimmed else "cell"
    return f"translate({text}, '{ascii_uppercase}', '{ascii_lowercase}')" if is_lowered else text


def _values(column: "LookAlikes") -> str:
    """Return the beginning of a sentence on values that `column` writes in several ways: "2 values of 'city' are"."""
    number = "1 value" if column.values == 1 else f"{column.values:,} values"
    return f"{number} of {column.name!r} {'is' if column.values == 1 else 'are'}"


def _shown(text: str) -> str:
    """Return `text` in quotes, with escapes for characters that are not seen and accents that join another letter."""
    return "".join(ascii(each)[1:-1] if combining(each) else each for each in repr(text))

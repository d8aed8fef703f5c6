"""Shell commands for the data holder that write a copy of a Parquet, DuckDB or SQLite file with one column changed.

The commands run Python, with DuckDB for Parquet and DuckDB files, because text tools such as sed would destroy such
files. The last word of a command is the path of the copy. There is none for several files, objects of an object store,
lake tables and views.
"""

import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from setwise.analytics.engines.csv_format import INVISIBLE
from setwise.analytics.engines.duckdb.dialect import quoted, sql_text
from setwise.analytics.engines.files import DUCKDB_MAGIC, SQLITE_MAGIC, magic_of
from setwise.analytics.engines.typed_cells import BLANKS, SPACES
from setwise.analytics.tables.copies.clean_copies import copy_of

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.tables import DuckDBTable

_BLANK_CODES = ",".join(f"chr({ord(blank)})" for blank in BLANKS)
"""The blanks around a cell that are no part of its value, as SQL that a shell does not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange:
    """A change of the text cells of one column, in SQL of DuckDB and in Python.

    - `sql` takes the SQL expression of a cell, and returns that of the new cell.
    - `python` is a Python expression of the new cell, in which c is the old one, a str or an int.
    - `before` is Python text that stands before the expression is used, such as a definition; it ends in "; ".

    None of them has double quotes, backticks, or dollar signs before letters, which a shell would change.
    """

    sql: Callable[[str], str]
    python: str
    before: str = ""


def _trimmed(cell: str) -> str:
    """Return SQL for the text with the SQL expression `cell` without blanks around it."""
    return f"trim({cell}, concat({_BLANK_CODES}))"


def _visible(cell: str) -> str:
    """Return SQL for the visible text of a cell: without characters that are not seen, with one kind of space.

    `cell` is the SQL expression of the cell. Letters with accents become one character each.
    """
    hidden, spaces = (
        "[" + "".join(f"\\x{{{ord(character):x}}}" for character in characters) + "]"
        for characters in (INVISIBLE, SPACES)
    )
    plain = f"regexp_replace(regexp_replace({cell}, '{hidden}', '', 'g'), '{spaces}', ' ', 'g')"
    return _trimmed(f"nfc_normalize({plain})")


def _without_zeros(text: str) -> str:
    """Return SQL for the text with the SQL expression `text`, in which a whole number such as +007.0 becomes 7."""
    return rf"regexp_replace({text}, '^[+]?0*([0-9]+)([.]0*)?$', '\1')"


def _python_without_zeros(text: str) -> str:
    """Return a Python expression for the text `text`, in which a whole number such as +007.0 becomes 7."""
    return rf"re.sub('^[+]?0*([0-9]+)([.]0*)?$',r'\1',{text})"


_SEEN = "unicodedata.normalize('NFC',str(c).translate(seen)).strip()"
"""A Python expression for the visible text of the cell c."""
_DEFINE_SEEN = (
    f"seen={{**dict.fromkeys(({','.join(str(ord(each)) for each in INVISIBLE)})),"
    f"**dict.fromkeys(({','.join(str(ord(each)) for each in SPACES)}),32)}}; "
)

LOWER_CASE = CellChange(sql=lambda cell: f"lower({_trimmed(cell)})", python="str(c).strip().lower()")
"""Texts in lower case, without blanks around them."""
VISIBLE_TEXT = CellChange(sql=_visible, python=_SEEN, before=_DEFINE_SEEN)
"""Texts without characters that are not seen, and without blanks around them."""
ONE_SPELLING = CellChange(
    sql=lambda cell: _without_zeros(f"lower({_trimmed(cell)})"), python=_python_without_zeros("str(c).strip().lower()")
)
"""Texts in lower case, without blanks around them, and without zeros before whole numbers."""
ONE_VISIBLE_SPELLING = CellChange(
    sql=lambda cell: _without_zeros(f"lower({_visible(cell)})"),
    python=_python_without_zeros(f"{_SEEN}.lower()"),
    before=_DEFINE_SEEN,
)
"""The same, without characters that are not seen."""


def without_texts(texts: list[str]) -> CellChange:
    """Return the change that makes the cells null that are one of `texts`, apart from blanks around them."""
    listed = ", ".join(map(sql_text, texts))
    words = ",".join(map(repr, texts))
    return CellChange(
        sql=lambda cell: f"CASE WHEN {_trimmed(f'CAST({cell} AS VARCHAR)')} NOT IN ({listed}) THEN {cell} END",
        python=f"None if str(c).strip() in ({words},) else c",
    )


def with_changed_column(table: "DuckDBTable", column: str, change: CellChange) -> str:
    """Return a shell command that copies the file of `table` and makes `change` in its column `column`; "" if none.

    Raises: an error of the engine if the table cannot be read.
    """
    from setwise.analytics.engines.duckdb.files import ParquetFiles, hive_values
    from setwise.analytics.engines.duckdb.instances import scanning

    file = table.files[0] if len(table.files) == 1 else None
    if not isinstance(file, Path) or not in_shell(quoted(column)):
        return ""
    if any(Path(f"{file}{ending}").exists() for ending in (".wal", "-wal", "-journal")):
        return ""  # a copy of the file alone would lack the newest rows
    magic = magic_of(file)
    with scanning(table):
        stored = table.stored_name()
    cell = in_shell(quoted(column))
    paths = paths_of_copy(file)
    if isinstance(table, ParquetFiles) and column not in hive_values(file):
        read = "duckdb.read_parquet(sys.argv[1], hive_partitioning=False)"
        changed = f"{read}.project(r'''* REPLACE ({change.sql(cell)} AS {cell})''')"
        return f'{_python()} -c "import duckdb,sys; {changed}.write_parquet(sys.argv[2])" {paths}'
    if magic not in (DUCKDB_MAGIC, SQLITE_MAGIC) or not in_shell(stored):
        return ""
    name = in_shell(stored)
    if magic == DUCKDB_MAGIC:
        statement = f"UPDATE {name} SET {cell} = {change.sql(cell)}"  # noqa: S608 - shown, and not run
        update = f"duckdb.connect(sys.argv[2]).execute(r'''{statement}''')"
        return f'{_python()} -c "import duckdb,shutil,sys; shutil.copy(*sys.argv[1:]); {update}" {paths}'
    return sqlite_copy(paths, change, f"UPDATE {name} SET {cell} = new({cell})")  # noqa: S608 - shown, and not run


def sqlite_copy(paths: str, change: CellChange, *statements: str) -> str:
    """Return a shell command that copies a SQLite file and runs `statements`, which call new(cell) to make `change`.

    `paths` are the paths of the file and of the copy, as words of a shell. Cells other than texts and integers stay as
    they are.
    """
    function = f"lambda c: ({change.python}) if isinstance(c,(str,int)) else c"
    run = "; ".join(f"d.execute('{statement}')" for statement in statements)
    program = (
        "import re,shutil,sqlite3,sys,unicodedata; shutil.copy(*sys.argv[1:]); "
        f"{change.before}d=sqlite3.connect(sys.argv[2]); d.create_function('new',1,{function}); {run}; d.commit()"
    )
    return f'{_python()} -c "{program}" {paths}'


def paths_of_copy(file: Path) -> str:
    """Return the paths of `file` and of a copy of it, as two words of a shell."""
    return f"{quote(str(file))} {quote(copy_of(file))}"


def in_shell(name: str) -> str:
    r"""Return the quoted SQL name `name` for use between double quotes of a shell: as a, or as \"my column\"."""
    plain = name.replace('"', "")  # of a table with its schema, too: "main"."facts"
    is_plain = re.fullmatch("[A-Za-z_][A-Za-z_0-9.]*", plain) and not {*plain.upper().split(".")} & _RESERVED
    return plain if is_plain else name.replace('"', '\\"')


_WORDS = (
    "ALL AND ANY AS ASC CASE CAST CHECK COLUMN CREATE DEFAULT DESC DISTINCT ELSE END EXCEPT FALSE FROM GROUP HAVING IN "
    "INDEX IS JOIN LIMIT NOT NULL ON OR ORDER PRIMARY REFERENCES SELECT SET TABLE THEN TO TRUE UNION UNIQUE UPDATE "
    "USER USING VALUES WHEN WHERE WITH"
)
_RESERVED = frozenset(_WORDS.split())
"""Words that DuckDB or SQLite do not read as names unless they are quoted."""


def _python() -> str:
    """Return the word of a shell that runs the Python in which Setwise, and so DuckDB, is installed."""
    found = shutil.which("python3")
    is_same = found is not None and Path(found).parent == Path(sys.executable).parent
    return "python3" if is_same else quote(sys.executable)

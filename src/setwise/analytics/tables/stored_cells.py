"""Notes for the data holder about columns of numbers in Parquet, DuckDB and SQLite files.

Some of their cells are read as null: NaN in a column of floats, and cells of SQLite that do not fit the declared type
of their column. SQLite lets a column REAL hold the text '12,50', which adds nothing to a sum. Parquet files store
durations as plain integers, so that an answer does not tell their unit.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.analytics.engines.duckdb.dialect import quoted
from setwise.analytics.engines.typed_cells import CellGrammar
from setwise.analytics.schema import Kind
from setwise.analytics.tables.copies.binary_copies import CellChange, in_shell, paths_of_copy, sqlite_copy
from setwise.analytics.tables.lost_csv import MOST_LOST
from setwise.analytics.tables.number_forms import examples
from setwise.analytics.tables.scan_notes import ScanNote
from setwise.analytics.tables.writing import ENOUGH, KIND_WORDS, guess_grammar, may_be_thousands, readable_cells

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.cell_counts import CellCount
    from setwise.analytics.engines.duckdb.tables import DuckDBTable, UnfitCells


_UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_PER_SECOND = {"ms": "1,000", "us": "1,000,000", "ns": "1,000,000,000"}


def stored_cell_notes(table: "DuckDBTable", counts: Sequence["CellCount"]) -> list[ScanNote]:
    """Return notes about columns of durations, and about cells of numbers that are null because they are NaN or unfit.

    `counts` are the counts of columns of `table`; those of columns of text are ignored. A question is to be refused if
    a tenth of a column's cells do not fit its type, or any that are negative numbers.
    """
    units = table.duration_units()
    notes = [
        ScanNote(
            f"the numbers of {count.name!r} are durations in {_UNITS[units[count.name]]}, and so are sums and means of "
            f"it: in seconds they are {_PER_SECOND[units[count.name]]} times smaller"
        )
        for count in counts
        if units.get(count.name, "s") != "s" and count.kind is Kind.INTEGER
    ]
    lossy = [count for count in counts if not count.from_text and count.filled > count.readable]
    unfit = table.unfit_cells([count.name for count in lossy]) if lossy else {}
    for count in lossy:
        if count.name in unfit:
            notes.append(_unfit_note(table, count, unfit[count.name]))
        else:
            lost = f"{count.filled - count.readable:,} of {count.filled:,} cells of {count.name!r}"
            notes.append(ScanNote(f"{lost} are NaN, which counts as null"))
    return notes


def _unfit_note(table: "DuckDBTable", count: "CellCount", unfit: "UnfitCells") -> ScanNote:
    """Return a note about the cells of a SQLite column that do not fit its declared type.

    The note ends in a shell command that writes a copy of the database with numbers in their place, if most of these
    cells are numbers written in one way. `count` has the counts of the column, and `unfit` some of the cells.
    """
    held = KIND_WORDS[count.kind]
    text = (
        f"{unfit.cells:,} of {unfit.filled:,} cells of {count.name!r} are not {held} and will be skipped, such as "
        f"{examples(unfit.texts)}, in a column declared {unfit.declared}"
    )
    grammar = _grammar_of(unfit.texts)
    command = "" if grammar is None else _with_numbers(table, count, grammar)
    is_negative = any(cell.strip().startswith(("-", "(")) for cell in unfit.texts)
    remedy = f"a copy with numbers in their place: {command}" if command else "write numbers, or NULL, in their place"
    return ScanNote(
        f"{text}: {remedy}",
        mostly_unreadable=is_negative or unfit.cells >= MOST_LOST * unfit.filled,
        copy_command=command,
        is_unsolved=not command,
    )


def _grammar_of(texts: Sequence[str]) -> CellGrammar | None:
    """Return how at least 90% of `texts` write numbers; None if they are no numbers, or if 1,234 may be 1234."""
    guess = guess_grammar({"": texts}, CellGrammar())
    is_doubtful = bool(guess.commas) or may_be_thousands(texts, "", guess.grammar)
    is_number = readable_cells(texts, Kind.FLOAT, guess.grammar) >= ENOUGH * len(texts)
    return guess.grammar if texts and is_number and not is_doubtful else None


def _with_numbers(table: "DuckDBTable", count: "CellCount", grammar: CellGrammar) -> str:
    """Return a shell command that copies a SQLite file with numbers in place of texts of a column; "" if none.

    A column of integers that has other numbers becomes a column of REAL, at the end of the table. `grammar` says how
    the cells write numbers.
    """
    file, stored = table.files[0], table.stored_name()
    if not isinstance(file, Path) or not stored or not in_shell(quoted(count.name)) or not in_shell(stored):
        return ""
    plain = "str(c)"
    for mark in grammar.thousands_marks:
        plain += f".replace(chr({ord(mark)}),'')"
    plain += f".replace('{grammar.decimal}','.').strip()"
    is_number = "re.fullmatch('[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[-+]?[0-9]+)?',t.lower())"
    change = CellChange(sql=str, python=f"(lambda t: float(t) if {is_number} else c)({plain})")
    name, cell = in_shell(stored), in_shell(quoted(count.name))
    update = f"UPDATE {name} SET {cell} = new({cell})"  # noqa: S608 - shown, and not run
    if count.kind is Kind.FLOAT:
        return sqlite_copy(paths_of_copy(file), change, update)
    old = in_shell(quoted(f"{count.name}_as_it_was"))
    return sqlite_copy(
        paths_of_copy(file),
        change,
        f"ALTER TABLE {name} RENAME COLUMN {cell} TO {old}",
        f"ALTER TABLE {name} ADD COLUMN {cell} REAL",
        f"UPDATE {name} SET {cell} = new({old})",  # noqa: S608 - shown, and not run
        f"ALTER TABLE {name} DROP COLUMN {old}",
    )

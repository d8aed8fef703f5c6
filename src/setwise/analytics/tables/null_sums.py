"""Sums and differences of columns, such as debit - credit, that are null in rows where one of the columns is empty.

A bank statement has an empty cell in one of the two columns of each line, so that the difference is null on each line,
and its sum 0. That is right in SQL, but hardly what was meant. The counts of such rows are exact, so they are only for
the data holder; the note below an answer says only what the statement says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.analytics.schema import Column, Kind
from setwise.analytics.tables.scan_notes import ScanNote, TableToScan

ADDED_KINDS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.TEXT})
"""Kinds of columns that may be added up; a column of text is one of a CSV file whose type is not declared."""
_REFUSED = 0.9
"""The share of rows in which a sum is null from which on the question is refused, because its answer would be noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NullSum:
    """A sum or difference of several columns in a SQL statement, which is null where one of the columns is null.

    - `columns` are the names of the columns, and `written` is the expression as the statement has it.
    - `coalesced` is the expression that counts a null as 0, such as COALESCE(debit, 0) - COALESCE(credit, 0).
    """

    columns: tuple[str, ...]
    written: str
    coalesced: str

    @property
    def names(self) -> str:
        """The names of the columns in words, such as "debit and credit"."""
        return " and ".join(self.columns)

    def answer_note(self) -> str:
        """Return the sentence below an answer that says which rows the expression leaves out; it reads no row."""
        return (
            f"Rows in which one of {self.names} is null are left out of {self.written}; {self.coalesced} counts a null "
            "as 0."
        )


def null_sum_notes(tables: Sequence[TableToScan], null_sums: Sequence[NullSum]) -> list[tuple[TableToScan, ScanNote]]:
    """Return pairs (table, note) about `null_sums` that are null in rows where only some of their columns are filled.

    The note refuses the question if that is so in at least 90% (`_REFUSED`) of the rows. `tables` are the tables that
    the question reads; an expression whose columns are not all numbers of one of them has no note.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_partly_filled
    from setwise.analytics.tables.unmet_values import open_to_scan

    notes = []
    for scanned in tables if null_sums else ():
        kinds = {column.name.lower(): column for column in open_to_scan(scanned, {}).schema}
        found = [each for each in null_sums if all(_is_added(kinds.get(name.lower())) for name in each.columns)]
        columns = [[kinds[name.lower()] for name in each.columns] for each in found]
        # Columns of text are read as numbers, because the statement adds them up.
        texts = {column.name: Kind.FLOAT for each in columns for column in each if column.kind is Kind.TEXT}
        table = open_to_scan(scanned, texts).table
        names = [[column.name for column in each] for each in columns]
        rows, counts = count_partly_filled(table, names) if found else (0, [])
        for each, count in zip(found, counts, strict=True):
            if count:
                text = (
                    f"in {count:,} of {rows:,} rows one of {each.names} is empty, so that {each.written} is null there "
                    f"and not counted: write {each.coalesced}"
                )
                rewritten = (each.written, each.coalesced)
                note = ScanNote(text, mostly_unreadable=count >= _REFUSED * rows, rewritten=rewritten)
                notes.append((scanned, note))
    return notes


def _is_added(column: Column | None) -> bool:
    """Return whether `column` can be an operand of a sum; False for None, a column that the table does not have."""
    return column is not None and column.kind in ADDED_KINDS

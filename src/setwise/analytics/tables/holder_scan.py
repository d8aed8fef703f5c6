"""Warnings of a Python session about rows and cells of the caller's own table that a question will not read.

`setwise.open` scans only tables that the calling program can read itself, so the program learns nothing new from exact
counts. The command line prints its own notes, and the service and agents never scan.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from setwise.analytics.engines.connect import types_of_joined
from setwise.analytics.engines.joins import Join
from setwise.analytics.schema import Kind
from setwise.analytics.tables.cell_doubts import computed_uses
from setwise.analytics.tables.scan_notes import NullSum, ScanNote, TableToScan
from setwise.analytics.tables.text_order import ordered_columns
from setwise.analytics.tables.unmet_values import join_notes, null_sum_notes, text_notes
from setwise.analytics.tables.unread_cells import named_columns, unread_cells
from setwise.errors import UnsuitableTable

_PACKAGE = str(Path(__file__).parents[2])


class UnreadCellsWarning(UserWarning):
    """Warning that a question skips rows or cells of the caller's table, or misreads them, with the exact counts.

    The warning is issued, by `warnings.warn`, before the question is charged. The argument ``scan=False`` of
    `setwise.open` turns the scan off, and ``warnings.simplefilter("error", setwise.UnreadCellsWarning)`` stops such
    questions.
    """


class HolderScan:
    """The scan of a session's tables, before each charge, for cells that a question will not read.

    The scan warns the data holder of such cells. Each column is scanned once, when a question first names it. `main` is
    the table that the session was opened on, and `joinable` has the tables, by name, that a question may join to it.
    """

    def __init__(self, main: TableToScan, joinable: Mapping[str, TableToScan]) -> None:
        self._main = main
        self._joinable = joinable
        self._scanned: set[tuple[str, str]] = set()
        self._past_sentences: set[str] = set()
        self._names: dict[str, tuple[str, ...]] = {}
        self._stopped = False

    def stop(self) -> None:
        """Stop warning the data holder: later questions are not scanned for cells that they cannot read."""
        self._stopped = True

    def with_types(self, types: Mapping[str, Kind]) -> "HolderScan":
        """Return a scan of the same tables in which the columns in `types` have other kinds, such as integer.

        `types` maps columns to kinds. A column of the session's table is given by its name alone, and a column of any
        other table (one that a question may join) as TABLE.COLUMN. All other columns keep their declared kinds.
        """

        def with_kinds(table: TableToScan, kinds: Mapping[str, Kind]) -> TableToScan:
            inferred = {*table.inferred, *(kinds.keys() - table.types.keys())}
            return replace(table, types={**table.types, **kinds}, inferred=inferred)

        joinable = {name: with_kinds(table, types_of_joined(types, name)) for name, table in self._joinable.items()}
        main_types = {name: kind for name, kind in types.items() if name.partition(".")[0] not in self._joinable}
        scan = HolderScan(with_kinds(self._main, main_types), joinable)
        scan._stopped = self._stopped
        scan._past_sentences = self._past_sentences
        return scan

    def warn(self, question: str, joins: Sequence[Sequence[Join]] = (), null_sums: Sequence[NullSum] = ()) -> None:
        """Warn of rows and cells that a question will not read, in the tables that it names.

        `question` is SQL, or a text with the names of the columns and joined tables, and `joins` are the joins of each
        SELECT. `null_sums` are its sums of columns that are null where one of the columns is. A table that cannot be
        scanned causes no warning. If Python is set to raise warnings as errors, the warning is raised.

        Raises: `UnsuitableTable` if so much is not read, or is misread, that the answer would be of no use: for
        example, if at most half of a column's cells can be read, if no key of a join meets a row, or if milliseconds
        are read as seconds.
        """
        if self._stopped:
            return
        tables = {"": self._main}
        tables |= {name: self._joinable[name] for name in named_columns([*self._joinable], question)}
        for name, table in tables.items():
            # If the table cannot be scanned, the question will be refused with an error that says what is wrong.
            columns, notes = self._scan_new_columns(name, table, question)
            self._warn_of(notes)
            # Remembered only now: if warnings are errors, the next such question has to be stopped too.
            self._scanned |= columns
        self._warn_of(self._unmet_values([*tables.values()], question, joins))
        try:
            sums = [note for _, note in null_sum_notes([*tables.values()], null_sums)]
        except Exception:  # the engine reads the table again, and reports what is wrong without a value of a row
            return
        self._warn_of(sums)

    def _warn_of(self, notes: Sequence[ScanNote]) -> None:
        """Warn of each of `notes` once, or raise `UnsuitableTable` with all of them if one refuses the question."""
        refusals = [note.text for note in notes if note.mostly_unreadable]
        sentences = [note.text for note in notes if not note.mostly_unreadable]
        if refusals:
            anyway = "nothing was charged (setwise.open(..., scan=False) asks anyway)"
            raise UnsuitableTable("; ".join([*refusals, *sentences, anyway]))
        for sentence in sentences:
            if sentence not in self._past_sentences:
                warnings.warn(sentence, UnreadCellsWarning, stacklevel=_caller_level())
        self._past_sentences.update(sentences)

    def _unmet_values(
        self, tables: Sequence[TableToScan], question: str, joins: Sequence[Sequence[Join]]
    ) -> list[ScanNote]:
        """Return notes about keys of `joins` that meet no row, and about texts in `question` that no cell has.

        `tables` are the tables that the question names. The texts of a question are scanned only once, and so are its
        joins, unless their notes refuse the question. The result is empty if a table cannot be read, because the engine
        then reports the error.
        """
        notes: list[ScanNote] = []
        try:
            for each in dict.fromkeys(map(tuple, joins)):
                if each and (mark := ("", str([*map(str, each)]))) not in self._scanned:
                    found = join_notes(self._main, self._joinable, each)
                    notes += found
                    self._scanned |= set() if any(note.mostly_unreadable for note in found) else {mark}
            if ("'", question) not in self._scanned:
                notes += [note for _, note in text_notes(tables, question)]
                self._scanned.add(("'", question))
        except Exception:  # the engine reads the table again, and reports what is wrong without a value of a row
            return notes
        return notes

    def _scan_new_columns(
        self, name: str, table: TableToScan, question: str
    ) -> tuple[set[tuple[str, str]], list[ScanNote]]:
        """Return (marks, notes): texts that say what a question reads of `table`, and notes about the cells read.

        - `name` is the table's name ("" for the session's own table), and `question` is the text of the question.
        - `marks` is a set of pairs (table name, mark). The mark "price" stands for the column price, "price<" for its
          comparison by order, and "price()" for a computation with it. The mark "" stands for the table as
          a whole, because notes about lines and users belong to no single column.
        - `notes` are for the data holder. They are empty if the marks of earlier questions include all these marks,
          because the notes were given at that time.

        Both results are empty if the table cannot be read, because the engine then reports the error.
        """
        try:
            if name not in self._names:
                self._names[name] = _column_names(table)
            new = {(name, column) for column in ("", *_scanned_columns(self._names[name], question))}
            notes = [] if new <= self._scanned else unread_cells(table, question)
        except Exception:  # the engine reads the table again, and reports what is wrong without a value of a row
            return set(), []
        prefix = f"{name}: " if name else ""
        remedies = [table.remedy if "setwise.open" in note.text else "" for note in notes]
        return new, [
            replace(note, text=f"{prefix}{note.text}{remedy}") for note, remedy in zip(notes, remedies, strict=True)
        ]


def _column_names(table: TableToScan) -> tuple[str, ...]:
    """Return the names of the columns of `table`."""
    from setwise.analytics.engines.duckdb.cell_counts import column_names
    from setwise.analytics.engines.duckdb.opening import duckdb_table

    return column_names(duckdb_table(table.source, table.table_name, table.types, table.csv))


def _scanned_columns(names: Sequence[str], question: str) -> list[str]:
    """Return a list of marks: texts that stand for the columns which `question` names, and for how it uses them.

    The scan remembers the marks of earlier questions, so that it does not scan a column twice. `names` are all columns
    of the table. A column NAME that `question` names has the mark "NAME". A question that compares the column by order
    (<, > or BETWEEN) adds the mark "NAME<", and a question that computes with it adds "NAME()" and the function of
    time. Each of these uses has notes of its own, so it is scanned separately.
    """
    compared = [f"{name}<" for name in ordered_columns(names, question)]
    return [
        *named_columns(names, question),
        *compared,
        *(f"{name}(){use}" for name, use in computed_uses(names, question)),
    ]


def _caller_level() -> int:
    """Return the `stacklevel` with which a warning names the first caller outside of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level

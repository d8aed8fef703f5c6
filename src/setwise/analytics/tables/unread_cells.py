"""A scan of tables before a query is asked: exact counts of the lines and cells that the query will not read.

The counts have no noise, so only the data holder, who owns the tables, may see them. The command line prints them on
standard error, and a Python session on a local table warns of them. They never become part of an answer, and neither
the service nor an agent calls this module.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.analytics.engines.files import apply_description, files_of, magic_of
from setwise.analytics.engines.object_store import TableFile, is_stored
from setwise.analytics.engines.prepared import read_prepared
from setwise.analytics.engines.typed_cells import CellGrammar
from setwise.analytics.schema import Kind
from setwise.analytics.tables.cell_doubts import (
    far_number_sentences,
    large_number_notes,
    offset_sentence,
    orders_sentence,
    other_words_of_yes,
    since_1970_sentence,
    stored_time_sentence,
)
from setwise.analytics.tables.check import NO_ROWS
from setwise.analytics.tables.copies.clean_copies import (
    COPY,
    signs_note,
)
from setwise.analytics.tables.copies.mixed_dates import mixed_dates
from setwise.analytics.tables.look_alikes import look_alike_notes
from setwise.analytics.tables.lost_csv import (
    MOST_LOST,
    lost_lines,
    second_table,
    total_notes,
    undecoded_cells,
)
from setwise.analytics.tables.number_forms import NumberColumn, bounds_sentence, examples, form_note
from setwise.analytics.tables.scan_notes import ScanNote, TableToScan, copies_note
from setwise.analytics.tables.sniffing import guess_quote
from setwise.analytics.tables.stored_cells import stored_cell_notes
from setwise.analytics.tables.text_order import (
    are_in_order,
    day_of,
    kind_of_texts,
    ordered_columns,
    ordered_constants,
    plain_constant,
)
from setwise.analytics.tables.user_cells import shortened_users, user_notes
from setwise.analytics.tables.writing import (
    CERTAIN_NULL_WORDS,
    DASHES,
    ENOUGH,
    KIND_WORDS,
    NULL_WORDS,
    Guess,
    commas_note,
    condition_of_words,
    grammar_words,
    guess_grammar,
    is_readable,
    may_be_thousands,
    readable_cells,
    thousands_note,
)

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.cell_counts import CellCount
    from setwise.analytics.engines.duckdb.tables import DuckDBTable


def named_columns(names: Sequence[str], question: str) -> list[str]:
    """Return those of the column `names` that occur as whole words in `question`, the text of a query.

    The scan of a table checks only these columns.
    """
    return [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question)]


def unread_cells(table: TableToScan, question: str) -> list[ScanNote]:
    """Return notes about what a query will skip or misread in a table, each with a remedy if one is known.

    - Skipped are malformed CSV lines, cells that cannot be read as their column's kind, and rows without a user.
    - Misread are words such as NULL, if they are taken for values, and numbers and dates that are compared as text.

    `question` is the text of the query. Only the user column and columns that `question` names are checked.
    """
    from setwise.analytics.engines.duckdb.cell_counts import column_names, count_stored_cells, text_samples
    from setwise.analytics.engines.duckdb.opening import untyped_table
    from setwise.analytics.engines.duckdb.user_counts import has_rows

    source, write = table.source, table.write
    types, csv = apply_description(source, table.types, table.csv)
    inferred = {*table.inferred} - apply_description(source, {}, table.csv)[0].keys()
    is_path = isinstance(source, str | Path)
    if is_path and Path(source).is_dir() and read_prepared(Path(source)) is not None:
        # The cells of a prepared dataset (random ranks of users' items) were read when it was prepared.
        return []
    files = files_of(str(source).partition("::")[0]) if is_path else ()
    is_text = bool(files) and magic_of(files[0]) is None
    if is_text and csv.quote == '"' and guess_quote(files[0], csv) == "'":
        quotes = "cells stand in single quotes, which would be read as part of them, and separators in them divide them"
        return [ScanNote(f"{quotes}: {write(['--quote', 'single'])} reads them", mostly_unreadable=True)]
    lines = [*second_table(files, csv), *lost_lines(files, csv, write)] if is_text else []
    raw = untyped_table(source, table.table_name, csv)
    if not lines and not has_rows(raw):
        return [ScanNote(f"{NO_ROWS}, and an answer would be noise alone")]
    objects = [] if is_path else _skipped_objects(source, f"{table.user or ''} {question}")
    users = user_notes(raw, table.user, types, csv, files, write, is_csv=is_text)
    seconds = large_number_notes(raw, question, types, csv, files if is_text else ())
    asked = [name for name in named_columns(column_names(raw), question) if name != table.user]
    seconds += map(ScanNote, far_number_sentences(raw, asked, types, csv.cells, write, is_text=is_text))
    if not is_text:
        seconds += stored_cell_notes(raw, count_stored_cells(raw, asked))
    if not is_text and not types and is_path and is_stored(str(source)):
        return [*users, *seconds]  # an object store is read once more for every look at the cells
    named = {*named_columns(column_names(raw), f"{table.user or ''} {question}")}
    samples = text_samples(raw, wanted=named.__contains__)
    if is_text:
        texts = {name: cells for name, cells in samples.items() if name not in types}
        noted = {word for note in users for word in note.options}
        noted |= {cell.strip() for cells in texts.values() for cell in cells if f"'{cell.strip()}'" in question}
        lines += total_notes(raw, texts, table.user, csv, files[-1], noted, question)
    names = [name for name in samples if name in named]
    if not names:
        return [*lines, *users, *objects, *seconds]
    if table.user in samples and (shortened := shortened_users(table.user, samples[table.user])):
        users.append(ScanNote(shortened, mostly_unreadable=True, is_unsolved=True))
    scan = _ColumnScan(raw, replace(table, types=types, inferred=inferred, csv=csv), files, names, samples)
    notes = scan.unconverted_notes()
    compared = [name for name in ordered_columns(names, question) if name not in scan.kinds]
    notes += seconds
    items = [name for name in names if name not in {*scan.kinds, table.user}]
    notes += look_alike_notes(raw, items, csv, files, question)
    notes += [note for name in compared if (note := scan.compared_note(name, question)) is not None]
    if is_text:
        notes += undecoded_cells(source, table.table_name, csv, files, names, write)
    return [
        *lines,
        *users,
        *objects,
        *notes,
        *scan.thousands_notes(is_text=is_text),
        *map(ScanNote, scan.doubts(question)),
    ]


class _ColumnScan:
    """Counts of the cells of the columns that a query names, and sentences about cells that are skipped or misread.

    - `raw` is the table with its cells as they are written.
    - `table` says how the cells are to be read.
    - `files` are the files of the table.
    - `names` are the columns of text that the query names.
    - `samples` has some cells of each column of text in the table.
    """

    def __init__(
        self,
        raw: "DuckDBTable",
        table: TableToScan,
        files: Sequence[TableFile],
        names: Sequence[str],
        samples: Mapping[str, Sequence[str]],
    ) -> None:
        from setwise.analytics.engines.duckdb.cell_counts import column_names

        self._raw = raw
        self._table = table
        self._files = files
        self._is_csv = bool(files) and magic_of(files[0]) is None
        self._samples = samples
        self._names = [*names]
        self._file_names = column_names(raw)  # a file of many columns has no samples of some
        self.kinds = {name: kind for name, kind in table.types.items() if name in self._names}
        self._counts = self._count(self.kinds, table.csv.cells)

    def _count(self, kinds: Mapping[str, Kind], grammar: CellGrammar) -> "tuple[CellCount, ...]":
        """Return the exact numbers of filled and of readable cells of each column that the query names.

        A cell is readable if it is a value of the kind that `kinds` has for its column's name. `grammar` says how
        numbers, dates and empty cells are written.
        """
        from setwise.analytics.engines.duckdb.cell_counts import count_cells

        return count_cells(self._raw, kinds, None, grammar, self._names).columns

    def unconverted_notes(self) -> list[ScanNote]:
        """Return a note for each column with cells that cannot be read as its kind, such as a number."""
        return [
            replace(note, mostly_unreadable=note.mostly_unreadable or self._loses_much(column))
            for column in self._counts
            if column.filled > column.readable
            for note in [self._unconverted_note(column)]
        ]

    def _loses_much(self, count: "CellCount") -> bool:
        """Return whether so many cells of a column cannot be read that an answer would be of no use.

        It is True if at most half of the cells can be read, and if a tenth or more of the cells cannot be read and is
        no word for an empty cell, such as N/A. `count` has the column's numbers of cells.
        """
        if 2 * count.readable <= count.filled:
            return True
        if count.filled - count.readable < MOST_LOST * count.filled:
            return False
        grammar = self._table.csv.cells
        lost = self._lost(count.name, count.kind, replace(grammar, null=(*grammar.null, *NULL_WORDS)))
        return lost >= MOST_LOST * count.filled

    def _unconverted_note(self, count: "CellCount") -> ScanNote:
        """Return a note: how many cells of a column cannot be read as its kind, and what the data holder can do.

        `count` has the name and kind of the column, and its numbers of filled and readable cells. What helps is an
        option with which more of the cells can be read, a SQL expression to be used in place of the column, or a shell
        command that writes a copy of the file without signs such as $. If nothing is known to help, the note shows
        some of the cells.
        """
        name, lost = count.name, count.filled - count.readable
        effect = "will be skipped"
        if count.kind is Kind.BOOLEAN:
            effect = "count as not true in every condition, as in COUNTIF, CASE and WHERE"
        text = f"{lost:,} of {count.filled:,} cells of {name!r} are not {KIND_WORDS[count.kind]} and {effect}"
        if name == self._table.user:
            text += ", so that their rows are left out of every answer"
        return self._with_remedy(text, count)

    def _with_remedy(self, text: str, count: "CellCount") -> ScanNote:
        """Return a note that begins with `text`, and says what makes the cells of a column readable as its kind.

        `count` has the name and kind of the column, and its numbers of filled and readable cells. If nothing is known
        to help, the note shows some of the cells.
        """
        name, csv = count.name, self._table.csv
        cells = [cell for cell in self._samples[name] if cell.strip() and cell.strip() not in csv.null]
        # The options are guessed from a sample: those that read the most cells.
        guess = guess_grammar({name: cells}, CellGrammar())
        if guess.commas and csv.cells.decimal != "," and csv.cells.thousands != ",":
            return ScanNote(f"{text}: {commas_note(name, self._table.write)}")
        if count.kind is Kind.BOOLEAN and cells:
            held, condition = condition_of_words(name, cells)
            remedy = f"{name} holds text such as {held}: write COUNTIF({condition}), or WHERE {condition}"
            return ScanNote(f"{text}: {remedy}", comparison=(name, condition))
        if count.kind in (Kind.DATE, Kind.TIMESTAMP) and (times := since_1970_sentence(name, cells)):
            return ScanNote(f"{text}: {times}", is_unsolved=True)
        if count.kind in (Kind.DATE, Kind.TIMESTAMP) and (orders := orders_sentence(name, cells)):
            return ScanNote(f"{text}: {orders}", mostly_unreadable=True, is_unsolved=True)
        only_file = self._files[0] if len(self._files) == 1 else None
        if count.kind in (Kind.DATE, Kind.TIMESTAMP) and (mixed := mixed_dates(cells)) is not None:
            copies = mixed.copies(name, only_file, csv, self._file_names)
            return copies_note(f"{text}: {mixed.sentence(name)}", copies, "write all dates in one way in the file")
        numbers = NumberColumn(name, cells, only_file, csv, self._file_names)
        is_number = count.kind in (Kind.INTEGER, Kind.FLOAT)
        if is_number and (form := numbers.two_marks()) is not None:
            return form_note(form, text)
        remedy, words = self._reading_remedy(count, cells, guess)
        if remedy:
            return ScanNote(f"{text}: {remedy}", options=tuple(words))
        sentence, copy = stored_time_sentence(
            name, cells, only_file, csv, self._file_names, is_dated=count.kind in (Kind.DATE, Kind.TIMESTAMP)
        )
        if sentence:
            return ScanNote(f"{text}: {sentence}", copy_command=copy, is_unsolved=not copy)
        signs = signs_note([name], self._samples, self._files[0], csv) if self._files else ""
        if signs:
            command = signs.partition(COPY)[2]
            # All numbers in parentheses are negative, so that an answer without them is too high.
            is_negative = is_number and "parentheses for a minus" in signs
            return ScanNote(
                f"{text}: {signs}", mostly_unreadable=is_negative, copy_command=command, is_unsolved=not command
            )
        if is_number and (form := numbers.form(is_number=True)) is not None:
            return form_note(form, text)
        others = [cell for cell in cells if not is_readable(cell, count.kind, csv.cells)]
        if is_number and (bounds := bounds_sentence(others)):
            return ScanNote(f"{text}: {bounds}", is_unsolved=True)
        words = sorted({cell.strip() for cell in others})
        are_words = self._files and not any(re.search("[0-9]", word) for word in words)
        if are_words and 0 < len(words) <= _MOST_WORDS and 2 * count.readable > count.filled:
            options = [part for word in words for part in ("--null", word)]
            shown = f"{self._table.write(options)} takes them for empty, which changes no number and ends this note"
            return ScanNote(f"{text}, such as {examples(others)}: {shown}", options=tuple(options))
        shown = f", such as {examples(others)}" if others else ""
        advice = "; setwise check shows how the file is written" if self._files else ""
        return ScanNote(f"{text}{shown}{advice}", is_unsolved=True)

    def _reading_remedy(self, count: "CellCount", cells: Sequence[str], guess: Guess) -> tuple[str, list[str]]:
        """Return (phrase, words): options with which more cells of a column can be read; ("", []) if no option helps.

        - `count` has the column's name and kind, and the numbers of its filled and readable cells.
        - `cells` are sampled cells of the column, and `guess` says how they seem to be written.

        The phrase has up to two parts. The first part names options that read cells which the present options do not
        read. The second part names an option that takes words such as N/A for empty cells. These cells then no longer
        count as unreadable, but no answer changes: neither an unreadable nor an empty cell adds anything to an answer.

        The words are those options of the first part that `setwise check` does not guess, because the table is no CSV
        file. There are none if the cells leave a doubt about them.
        """
        name, csv, lost = count.name, self._table.csv, count.filled - count.readable
        read = replace(guess.grammar, null=csv.null)
        kinds = (Kind.INTEGER, Kind.FLOAT) if count.kind is Kind.INTEGER else (count.kind,)
        remedies = [(kind, grammar) for grammar in (csv.cells, read) for kind in kinds]
        new_words = tuple(word for word in guess.grammar.null if word not in csv.null)

        def unread(remedy: tuple[Kind, CellGrammar]) -> int:
            """Return how many sampled cells of a column cannot be read with `remedy`.

            `remedy` is (kind, grammar): the kind of the column's values, and how its cells are written. The sampled
            cells are `cells`, an argument of the function around this one.
            """
            kind, grammar = remedy
            return sum(not is_readable(cell, kind, grammar) for cell in cells)

        kind, grammar = min(remedies, key=unread)
        clauses, still_lost = [], lost
        words: list[str] = []
        if unread((kind, grammar)) < unread(remedies[0]):
            words = [] if kind is count.kind else ["--type", f"{name}={kind}"]
            words += grammar_words(replace(grammar, null=())) if grammar is read else []
            still_lost = self._lost(name, kind, grammar)
            number = "" if still_lost == 0 else f"{lost - still_lost:,} of "
            clauses.append(f"{self._table.write(words)} reads {number}them{_other_dates(guess)}")
        else:
            kind, grammar = remedies[0]
        emptied = still_lost - self._lost(name, kind, replace(grammar, null=(*csv.null, *new_words)))
        if emptied:
            number = "" if emptied == lost else f"{emptied:,} of "
            options = self._table.write(grammar_words(CellGrammar(null=new_words)))
            ends = ", which changes no number of it and ends this note" if emptied == still_lost else ""
            clauses.append(f"{options} takes {number}them for empty{ends}; it also empties such cells of other columns")
        return "; ".join(clauses), [] if self._is_csv or guess.other_dates else words

    def _lost(self, name: str, kind: Kind, grammar: CellGrammar) -> int:
        """Return how many cells of the column `name` are not empty and cannot be read as `kind`, such as a number.

        `grammar` says how numbers, dates and empty cells are written.
        """
        (count,) = (each for each in self._count({**self.kinds, name: kind}, grammar) if each.name == name)
        return count.filled - count.readable

    def compared_note(self, name: str, question: str) -> ScanNote | None:
        """Return a note if the text column `name`, which `question` compares by order, has numbers or dates; else None.

        Such a comparison goes wrong: as text, 900 is greater than 1000. The note states options with which the cells
        are read as numbers or dates, or a command that writes a copy of the file with plain ones. It refuses the
        question, unless the order of the cells and constants as text is their order as numbers or dates.
        """
        cells, csv, write = self._samples[name], self._table.csv, self._table.write
        constants = ordered_constants(name, question)
        is_mixed = mixed_dates(cells) is not None
        kind = Kind.TIMESTAMP if is_mixed else kind_of_texts(cells, constants)
        if kind is None:
            return None
        filled = [cell for cell in cells if cell.strip()]
        text, is_right = f"{name!r} is compared as text", are_in_order(filled, constants)
        if is_right and not any(is_readable(cell, Kind.DATE, CellGrammar()) for cell in filled):
            return None
        grammar = replace(csv.cells, decimal=".", thousands="", date_format=None)
        guess = guess_grammar({name: filled}, grammar)
        if guess.commas:
            compared = (name, Kind.FLOAT, guess.grammar)
            return ScanNote(f"{text}: {commas_note(name, write)}", mostly_unreadable=True, compared=compared)
        kinds = {Kind.FLOAT: (Kind.INTEGER, Kind.FLOAT), Kind.TIMESTAMP: (Kind.DATE,)}.get(kind, (kind,))
        read = (each for each in kinds if readable_cells(filled, each, guess.grammar) >= ENOUGH * len(filled))
        wanted = next(read, None)
        if wanted is not None and not is_mixed:
            if wanted is Kind.DATE and any(":" in cell for cell in filled):
                wanted = Kind.TIMESTAMP
            words = ["--type", f"{name}={wanted}"]
            # Of a CSV file, setwise check guesses the other options; of other files it guesses none.
            others = grammar_words(guess.grammar)
            reading = f"{write([*words, *others])} reads its cells as {KIND_WORDS[wanted]}"
            words += [] if self._is_csv else others
            constants_changed = "" if is_right else _with_constants(name, question, wanted, guess)
            return ScanNote(
                f"{text}: {reading}{_other_dates(guess)}{constants_changed}",
                mostly_unreadable=not is_right,
                options=tuple(words),
                compared=(name, wanted, guess.grammar),
                is_unsolved=bool(guess.other_dates) and not self._is_csv,
            )
        days = guess_grammar({name: [day_of(cell.strip()) for cell in filled]}, grammar)
        (count,) = (each for each in self._count({**self.kinds, name: kind}, csv.cells) if each.name == name)
        held = "numbers" if kind is Kind.FLOAT else "dates or times"
        note = self._with_remedy(f"{text}, although its cells are {held}", count)
        return replace(
            note,
            text=f"{note.text}{_with_constants(name, question, kind, days) if note.copy_command else ''}",
            mostly_unreadable=True,
            compared=(name, kind, days.grammar),
        )

    def thousands_notes(self, *, is_text: bool) -> list[ScanNote]:
        """Return a note for each column of numbers such as 1.234, which may be 1234.

        The query is to be refused, unless the data holder has declared the kind of the column. `is_text` says whether
        the table is a CSV file.
        """
        csv = self._table.csv
        separator = csv.format_of(csv.suffix_of(self._files[0])).separator if is_text else ""
        numbers = [name for name, kind in self.kinds.items() if kind in (Kind.INTEGER, Kind.FLOAT)]
        return [
            ScanNote(thousands_note(name, self._table.write), mostly_unreadable=name in self._table.inferred)
            for name in numbers
            if may_be_thousands(self._samples[name], separator, csv.cells)
        ]

    def doubts(self, question: str) -> list[str]:
        """Return sentences for the data holder about cells of columns in the query that may be misread.

        The sentences are about offsets of times, blanks around words, words that may mean an empty cell, and columns
        with several words for yes. `question` is the text of the query.
        """
        csv, write, texts = self._table.csv, self._table.write, [name for name in self._names if name not in self.kinds]
        times = [name for name, kind in self.kinds.items() if kind is Kind.TIMESTAMP]
        sentences = [offset_sentence(name, self._samples[name], write) for name in times]
        sentences += [other_words_of_yes(name, self._samples[name], question) for name in texts]
        items = [name for name in texts if name != self._table.user]
        sentences += [_blanks_note(name, self._samples[name]) for name in items]
        grouped = [name for name in items if name not in ordered_columns(items, question)]
        sentences += [mixed.sentence(name) for name in grouped if (mixed := mixed_dates(self._samples[name]))]
        present = {cell.strip() for name in items for cell in self._samples[name]}
        words = sorted((present & (CERTAIN_NULL_WORDS | DASHES)) - set(csv.null))
        if words:
            options = write(grammar_words(CellGrammar(null=tuple(words))))
            remaining = self._count(self.kinds, replace(csv.cells, null=(*csv.null, *words)))
            sentences += [
                f"{column.filled - other.filled:,} cells of {column.name!r} are {' or '.join(map(repr, words))} and "
                f"count as a value: {options} takes them for empty"
                for column, other in zip(self._counts, remaining, strict=True)
                if column.filled > other.filled and column.name in items
            ]
        return [sentence for sentence in sentences if sentence]


_MOST_WORDS = 5
"""The most different words of a column, such as unknown, that a note proposes to take for empty cells."""


def _skipped_objects(frame: object, question: str) -> list[ScanNote]:
    """Return a note for each column of a pandas `frame` with objects that are not read, such as floats among texts.

    A column of Python objects is read as text. Those of its objects that do not become text, such as floats and
    datetimes, are read as null, so that a question skips them. Notes are returned only for columns whose names occur in
    `question`, the text of the query. The result is empty if `frame` is not a pandas data frame.
    """
    from setwise.analytics.engines.duckdb.arrow_cells import count_skipped_objects

    counts = count_skipped_objects(frame)
    return [
        ScanNote(
            f"{skipped:,} of {filled:,} cells of {name!r} are objects such as floats or datetimes among texts and will "
            f"be skipped: convert the column to one type first, as in frame[{name!r}].astype(str)",
            mostly_unreadable=2 * skipped >= filled,
        )
        for name, (skipped, filled) in counts.items()
        if skipped and named_columns([name], question)
    ]


def _with_constants(name: str, question: str, kind: Kind, guess: Guess) -> str:
    """Return a phrase that says how to change constants in `question` once the column `name` is read as `kind`.

    For example "; compare them with '2024-06-01' in place of '6/1/2024' then". These are the constants with which the
    question compares the column by <, > or BETWEEN.

    The phrase is "" if no constant has to change, or if more than one date format fits the cells. `guess` says how the
    cells seem to be written.
    """
    changed = {f"'{old}'": plain_constant(old, kind, guess.grammar) for old in ordered_constants(name, question)}
    phrases = [f"{new} in place of {old}" for old, new in changed.items() if new != old]
    return f"; compare them with {', and '.join(phrases)} then" if phrases and not guess.other_dates else ""


def _other_dates(guess: Guess) -> str:
    """Return a phrase such as " (or %m/%d/%Y: the cells do not tell)"; "" if the cells allow only one date format.

    `guess` has a date format that reads the sampled cells. The phrase lists the other formats that read as many.
    """
    return f" (or {' or '.join(guess.other_dates)}: the cells do not tell)" if guess.other_dates else ""


def _blanks_note(name: str, sample: Sequence[str]) -> str:
    """Return a sentence for the data holder if half or more of a column's cells begin or end with blanks; else "".

    The blanks belong to the values, so that a comparison such as country = 'NO' is False for ' NO'. The sentence says
    how SQL can leave them out. `sample` are sampled cells of the text column `name`; empty cells are not counted.
    """
    filled = [cell for cell in sample if cell.strip()]
    padded = [cell for cell in filled if cell != cell.strip(" ")]
    if not padded or 2 * len(padded) < len(filled):
        return ""
    return (
        f"cells of {name!r} begin or end with blanks, which belong to the values: TRIM({name}) in SQL leaves them out"
    )

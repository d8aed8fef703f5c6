"""A scan of files before a query is asked: exact counts of the lines and cells that the query will not read.

The counts have no noise, so only the data holder, who owns the files, may see them: the command line prints them on
standard error. They never become part of an answer, and neither the service nor an agent calls this module.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import join
from typing import TYPE_CHECKING

from setwise.analytics.engines.cells import CellGrammar
from setwise.analytics.engines.files import CsvOptions, apply_description, files_of, magic_of, open_csv
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.schema import Kind
from setwise.analytics.tables.check import sniff, total_line_note
from setwise.analytics.tables.writing import (
    CERTAIN_NULL_WORDS,
    DASHES,
    ENOUGH,
    KIND_WORDS,
    Guess,
    grammar_words,
    guess_grammar,
    is_readable,
    may_be_thousands,
    signs_note,
    thousands_note,
)

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.cell_counts import CellCount

_BLOCK = 2**22
"""Bytes that are read at a time."""


@dataclass(frozen=True, slots=True)
class ScanNote:
    """A sentence (`text`) for the data holder about lines or cells that a query skips, or reads in another meaning.

    `mostly_unreadable` is True if no line of the file can be read, or if at least half of a column's cells are not read
    as they are meant. The query is then better refused, because its answer would be about other rows than it asks for.
    """

    text: str
    mostly_unreadable: bool = False


def unread_cells(
    source: str, table: str | None, csv: CsvOptions, types: Mapping[str, Kind], question: str
) -> list[ScanNote]:
    """Return notes about lines and cells of a file that a query will skip or misread, each with a remedy.

    Lines are skipped if they are not well-formed CSV records with a cell for each column. Cells are skipped if they
    cannot be read as their column's kind or are not UTF-8. Words such as NULL are misread if they count as values, and
    numbers and dates if the query compares them as text. `source` is the file, `table` the table in a database file, or
    None; `csv` and `types` say how the file is read. `question` is the text of the query; only columns whose names
    occur in it are checked. The list is empty for files whose columns have types, such as Parquet.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_cells, text_samples
    from setwise.analytics.engines.duckdb.opening import untyped_table

    types, csv = apply_description(source, types, csv)
    files = files_of(source.partition("::")[0])
    is_text = bool(files) and magic_of(files[0]) is None
    if not is_text and not types:
        return []
    lines = _lost_lines(files, csv) if is_text else []
    if is_text and (total := total_line_note(files[-1], csv)):
        lines.append(ScanNote(total))
    raw = untyped_table(source, table, csv)
    samples = text_samples(raw)
    names = [name for name in samples if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question)]
    if not names:
        return lines
    kinds = {name: kind for name, kind in types.items() if name in names}
    counts = count_cells(raw, kinds, None, csv.cells, names).columns
    notes = [
        ScanNote(
            _unconverted(column, samples[column.name], csv, files),
            mostly_unreadable=2 * column.readable <= column.filled,
        )
        for column in counts
        if column.filled > column.readable
    ]
    compared = [name for name in names if name not in kinds and _is_ordered(name, question)]
    notes += [note for name in compared if (note := _compared_as_text(name, samples[name], csv))]
    separator = csv.format_of(csv.suffix_of(files[0])).separator if is_text else ""
    numbers = [name for name, kind in kinds.items() if kind in (Kind.INTEGER, Kind.FLOAT)]
    sentences = [thousands_note(name) for name in numbers if may_be_thousands(samples[name], separator, csv.cells)]
    texts = {cell.strip() for name in names for cell in samples[name] if name not in kinds}
    sentences += [sentence for name in names if name not in kinds and (sentence := _blanks_note(name, samples[name]))]
    words = sorted((texts & (CERTAIN_NULL_WORDS | DASHES)) - set(csv.null))
    if words:
        remaining = count_cells(raw, kinds, None, replace(csv.cells, null=(*csv.null, *words)), names).columns
        sentences += [
            f"{column.filled - other.filled:,} cells of {column.name!r} are {' or '.join(map(repr, words))} and count "
            f"as a value: {join(grammar_words(replace(csv.cells, null=tuple(words))))} takes them for empty"
            for column, other in zip(counts, remaining, strict=True)
            if column.filled > other.filled and column.name not in kinds
        ]
    if is_text and csv.encoding == "utf-8" and not all(_is_utf8(file, csv) for file in files):
        whole = untyped_table(source, table, replace(csv, encoding="latin-1"))
        decoded = count_cells(whole, {}, None, columns=names).columns
        plain = count_cells(raw, {}, None, columns=names).columns
        notes += [
            ScanNote(
                f"{column.filled - other.filled:,} of {column.filled:,} cells of {column.name!r} are not UTF-8 and "
                "will be skipped: --encoding cp1252 reads them if the file is from Windows, --encoding latin-1 if it "
                "is older",
                mostly_unreadable=2 * other.filled <= column.filled,
            )
            for column, other in zip(decoded, plain, strict=True)
            if column.filled > other.filled
        ]
    return [*lines, *notes, *map(ScanNote, sentences)]


def _lost_lines(files: Sequence[TableFile], csv: CsvOptions) -> list[ScanNote]:
    """Return a list of at most one note: how many lines of CSV files are left out as they are not well-formed records.

    Blank lines are not counted. The list is empty if all lines can be read. `csv` says how the files are written.
    """
    opened = open_csv(files, csv.format_of(csv.suffix_of(files[0])))
    counts = [file.count_lines() for file in opened]
    total, kept = sum(lines for lines, _ in counts), sum(lines for _, lines in counts)
    if kept == total:
        return []
    width = len(opened[0].names)
    malformed = f"of {width} cells (a cell too many or too few, or a stray quote)"
    if kept:
        lost = f"{total - kept:,} of {total:,} lines are not records {malformed} and will be left out"
        return [ScanNote(f"{lost}: mend them in the file; setwise check shows how it is written")]
    remedy = "setwise check shows how the file is written"
    guess = sniff(files[0], csv) if csv.columns is None else csv
    if guess is not csv and guess.columns is not None and guess.separator == csv.separator:
        names = opened[0].names[: len(guess.columns)] + guess.columns[width:]
        columns = join(["--skip-lines", str(csv.skip_lines + 1), "--no-header", "--columns", ",".join(names)])
        remedy = f"{columns} reads lines of {len(names)} cells"
    return [ScanNote(f"none of its {total:,} lines is a record {malformed}: {remedy}", mostly_unreadable=True)]


def _is_ordered(name: str, question: str) -> bool:
    """Return whether the query `question` compares the column `name` with a text literal by order: <, > or BETWEEN.

    A comparison with a number does not count, because a query that compares a text column with a number is refused.
    """
    column = rf'(?<!\w)"?{re.escape(name)}"?'
    compared = rf"{column}\s*([<>]=?|BETWEEN)\s*'|'\s*[<>]=?\s*{column}(?!\w)"
    return re.search(compared, question, re.IGNORECASE) is not None


def _compared_as_text(name: str, sample: Sequence[str], csv: CsvOptions) -> ScanNote | None:
    """Return a note if the text column `name`, which a query compares by order, holds numbers or dates; else None.

    As text, 900 is greater than 1000, and 31.01.2026 greater than 01.12.2026. The note states the options with which
    the cells are read as numbers or dates; they are guessed from `sample`, cells of the column, and `csv`, today's
    options. Dates that do not begin with the year count as mostly unreadable, because the order of such texts is not
    the order of the days.
    """
    filled = [cell for cell in sample if cell.strip()]
    guess = guess_grammar({name: filled}, replace(csv.cells, decimal=".", thousands="", date_format=None))
    for kind in (Kind.INTEGER, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP):
        readable = sum(is_readable(cell, kind, guess.grammar) for cell in filled)
        if filled and readable >= ENOUGH * len(filled):
            options = join(["--type", f"{name}={kind}", *grammar_words(guess.grammar)])
            words = f"{name!r} is compared as text: {options} reads its cells as {KIND_WORDS[kind]}"
            dated = kind in (Kind.DATE, Kind.TIMESTAMP) and guess.grammar.date_format is not None
            return ScanNote(f"{words}{_other_dates(guess)}", mostly_unreadable=dated)
    return None


def _other_dates(guess: Guess) -> str:
    """Return a clause that lists the other date formats which read as many cells as the format of `guess`.

    "" if there are no such formats.
    """
    return f" (or {' or '.join(guess.other_dates)}: the cells do not tell)" if guess.other_dates else ""


def _blanks_note(name: str, sample: Sequence[str]) -> str:
    """Return a sentence if most filled cells of the text column `name` begin or end with blanks; else "".

    A comparison such as country = 'NO' is False for ' NO'.
    """
    filled = [cell for cell in sample if cell.strip()]
    padded = [cell for cell in filled if cell != cell.strip()]
    if not padded or 2 * len(padded) < len(filled):
        return ""
    return (
        f"cells of {name!r} begin or end with blanks, which belong to the values: TRIM({name}) in SQL leaves them out"
    )


def _unconverted(count: "CellCount", sample: Sequence[str], csv: CsvOptions, files: Sequence[TableFile]) -> str:
    """Return a sentence: how many cells of a column cannot be read as its kind, and what the data holder can do.

    `count` has the numbers of cells. The sentence names an option that reads the cells; it is guessed from `sample`,
    cells of the column, and `csv`, the options that are used now. If no option reads them because of signs such as $,
    it has a command that removes the signs from the first of `files`, the files of the table.
    """
    lost = (
        f"{count.filled - count.readable:,} of {count.filled:,} cells of {count.name!r} are not "
        f"{KIND_WORDS[count.kind]} and will be skipped"
    )
    unread = [cell for cell in sample if cell.strip() and not is_readable(cell, count.kind, csv.cells)]
    unread = [cell for cell in unread if cell.strip() not in csv.null]
    cells = [cell for cell in sample if cell.strip() not in csv.null]
    guess = guess_grammar({count.name: cells}, CellGrammar())
    if any(is_readable(cell, count.kind, guess.grammar) or cell.strip() in guess.grammar.null for cell in unread):
        return f"{lost}: {join(grammar_words(guess.grammar))} reads them{_other_dates(guess)}"
    if count.kind is Kind.INTEGER and any(is_readable(cell, Kind.FLOAT, csv.cells) for cell in unread):
        return f"{lost}: --type {count.name}=float reads them"
    signs = signs_note(count.name, sample, files[0], csv.encoding) if files else ""
    return f"{lost}: {signs}" if signs else f"{lost}; setwise check shows how the file is written"


def _is_utf8(file: TableFile, csv: CsvOptions) -> bool:
    """Return whether all bytes of a text file are UTF-8; `csv` has its compression.

    True also for a file that cannot be decompressed, because the reader of the file reports that error.
    """
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with csv.format_of(csv.suffix_of(file)).decompressed(file.open("rb"), file.name) as opened:
            while block := opened.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    except OSError:
        return True
    return True

"""Notes for the data holder about lines of CSV files that are no rows of the table, and about cells that are not text.

Such lines are mended by a shell command, and cells in another encoding are read by an option.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from setwise.analytics.engines.csv_format import UTF_16, codec_name
from setwise.analytics.engines.files import CsvOptions, open_csv
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.tables.copies.clean_copies import (
    UNWRAPPED,
    can_be_copied,
    copy_of,
    with_doubled_quotes,
    with_full_lines,
    with_line_feeds,
    with_mended_quotes,
    with_unwrapped_lines,
)
from setwise.analytics.tables.copies.line_copies import first_lost_line, with_joined_thousands
from setwise.analytics.tables.scan_notes import OptionWriter, ScanNote, command_line
from setwise.analytics.tables.sniffing import guess_quote, open_file, read_sample, sniff, split_rows
from setwise.analytics.tables.text_encodings import is_decodable, scan_encoding
from setwise.analytics.tables.user_cells import USER_NULL_WORDS, is_total

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.tables import DuckDBTable

MOST_LOST = 0.1
"""The share of a file's lines, or of a column's cells, from which on a question that would not read them is refused."""


_MENDS = (
    (with_doubled_quotes, "quotes within cells are escaped by a backslash, and not doubled as CSV has them"),
    (with_line_feeds, "some lines end in carriage returns alone"),
    (with_mended_quotes, "quotes within cells are not doubled"),
)
"""Functions that return a command which writes a mended copy of a file, or "", and what is wrong with the file then."""


def lost_lines(files: Sequence[TableFile], csv: CsvOptions, write: OptionWriter) -> list[ScanNote]:
    """Return a list with a note if lines of CSV files are left out because they are malformed records; else [].

    The note says how many there are; blank lines are not counted. `csv` says how the files are written, and `write`
    turns the options that the note suggests into text.
    """
    opened = open_csv(files, csv.format_of(csv.suffix_of(files[0])))
    counts = [file.count_lines() for file in opened]
    total, kept = sum(lines for lines, _ in counts), sum(lines for _, lines in counts)
    if kept == total:
        return []
    width = len(opened[0].names)
    malformed = f"of {width} cells (a cell too many or too few, or a stray quote)"
    unquoted = csv.quote == '"' and all(guess_quote(file, csv) == "none" for file in files)
    quote_note = f"no cell stands in quotes, so a quote is part of the text: {write(['--quote', 'none'])} reads them"
    if kept:
        lost = f"{total - kept:,} of {total:,} lines are not records {malformed} and will be left out"
        is_much = total - kept >= MOST_LOST * total
        if unquoted:
            return [ScanNote(f"{lost}: {quote_note}", is_much)]
        return [_note_of_lost_lines(files, csv, opened[0].names, lost, is_much=is_much)]
    if len(files) == 1 and (copy := with_unwrapped_lines(files[0], csv)):
        return [ScanNote(f"{UNWRAPPED}{copy}", mostly_unreadable=True, copy_command=copy)]
    if len(files) == 1 and (copy := with_doubled_quotes(files[0], csv)):
        text = f"none of its {total:,} lines is a record {malformed}: quotes within cells are escaped by a backslash"
        return [ScanNote(f"{text}; a copy that is read: {copy}", mostly_unreadable=True, copy_command=copy)]
    if unquoted:
        text = f"none of its {total:,} lines is a record {malformed}: {quote_note}"
        return [ScanNote(text, mostly_unreadable=True)]
    remedy, is_unsolved = "setwise check shows how the file is written", True
    guess = sniff(files[0], csv) if csv.columns is None else csv
    if guess is not csv and guess.columns is not None and guess.separator == csv.separator:
        names = opened[0].names[: len(guess.columns)] + guess.columns[width:]
        columns = write(["--skip-lines", str(csv.skip_lines + 1), "--no-header", "--columns", ",".join(names)])
        remedy, is_unsolved = f"{columns} reads lines of {len(names)} cells", False
    if guess.separator is not None and guess.separator != csv.separator and guess.columns is None:
        remedy, is_unsolved = f"{write(['--separator', guess.separator])} reads them", False
    elif len(files) == 1 and (copy := with_mended_quotes(files[0], csv)):
        text = f"none of its {total:,} lines is a record {malformed}: quotes within cells are not doubled"
        return [ScanNote(f"{text}; a copy that is read: {copy}", mostly_unreadable=True, copy_command=copy)]
    text = f"none of its {total:,} lines is a record {malformed}: {remedy}"
    return [ScanNote(text, mostly_unreadable=True, is_unsolved=is_unsolved)]


def _note_of_lost_lines(
    files: Sequence[TableFile], csv: CsvOptions, names: Sequence[str], lost: str, *, is_much: bool
) -> ScanNote:
    """Return a note that begins with the sentence `lost`, and says why lines of CSV files are lost, or what reads them.

    `csv` says how the `files` with the columns `names` are written, and `is_much` that a query is to be refused.
    """
    name, copy = with_joined_thousands(files[0], csv, names) if len(files) == 1 else ("", "")
    if copy:
        reason = (
            f"they have a cell too many, because numbers of {name!r} from 1,000 on have commas between thousands "
            "and no quotes, so that the largest numbers would be missing"
        )
        return ScanNote(f"{lost}: {reason}; a copy that is read: {copy}", True, copy_command=copy)
    for mend, reason in _MENDS:
        if len(files) == 1 and (copy := mend(files[0], csv)):
            return ScanNote(f"{lost}: {reason}; a copy that is read: {copy}", is_much, copy_command=copy)
    if len(files) == 1 and (copy := with_full_lines(files[0], csv)):
        lost += (
            ": a copy in which a line with too few cells ends in empty ones, and cells too many are one with the "
            f"last: {copy}"
        )
        return ScanNote(lost, is_much, copy_command=copy)
    first = next(filter(None, (first_lost_line(file, csv, len(names)) for file in files)), "")
    cause = f"; {first}" if first else "; setwise check shows how the file is written"
    return ScanNote(f"{lost}: mend them in the file{cause}", is_much, is_unsolved=is_much)


_BLOCK = 2**22
"""Bytes that are read at a time."""
_LONGEST_LINE = 2**16
"""Bytes in which the lines after a blank line are looked for."""
_ENOUGH_ROWS = 1_000
"""Rows of the first table that suffice to tell which of its columns have numbers."""
_MOST_SHOWN = 80
"""The most characters of a line that a note shows."""
_VALUE = re.compile(r"[-+(]?[^\w\s]? ?[0-9].*")
"""The regular expression of a cell that begins as a number, an amount of money, a date or a time does."""


def second_table(files: Sequence[TableFile], csv: CsvOptions) -> list[ScanNote]:
    """Return a list with a note if a second table follows the first one in a file, below a blank line; else [].

    The lines of the second table would count as rows of the first. A second table is taken for one if the line after
    the blank line looks like a header, and if more lines follow it (see `_is_other_header`).

    `csv` says how the `files` are written. The note has a shell command that writes a copy of the first table alone, if
    there is one file, and if a command can copy it.
    """
    for file in files:
        form = csv.format_of(csv.suffix_of(file))
        found = _line_of_second_table(file, csv)
        if found is None:
            continue
        number, line = found
        named = "" if len(files) == 1 else f" of {file}"
        text = (
            f"line {number:,}{named} follows a blank line and looks like the header of another table, "
            f"{line.replace(form.mark, form.separator)[:_MOST_SHOWN]!r}, but the lines from there on count as rows"
        )
        copy = ""
        if len(files) == 1 and can_be_copied(file, csv.encoding):
            copy = f"head -n {number - 1} {quote(str(file))} > {quote(copy_of(file))}"
        remedy = f"a copy that ends before it: {copy}" if copy else "write each table in a file of its own"
        return [ScanNote(f"{text}: {remedy}", mostly_unreadable=True, copy_command=copy, is_unsolved=not copy)]
    return []


def _line_of_second_table(file: TableFile, csv: CsvOptions) -> tuple[int, str] | None:
    """Return (number, text) of the first line that looks like the header of a second table; None if no line does.

    The number counts all lines of the `file` from 1. A blank line may have separators alone. A blank line within a
    quoted cell is left out. `csv` says how the file is written.
    """
    form = csv.format_of(csv.suffix_of(file))
    above = csv.skip_lines + (csv.columns is None)
    mark = re.escape(form.mark.encode())
    blank = re.compile(rb"\n(?:[ \r" + mark + rb"]*\n)+(?=[^\n])")
    lines = quotes = 0
    rows: list[list[str]] = []
    sample: list[str] = []
    text = b""
    with form.open_converted(open_file(file), file.name) as opened:
        while True:
            block = opened.read(_BLOCK)
            text += block
            done, kept = 0, len(text) - _LONGEST_LINE
            for match in blank.finditer(text):
                if block and match.end() > len(text) - _LONGEST_LINE:
                    kept = min(kept, match.start())
                    break
                lines += text.count(b"\n", done, match.end())
                quotes += text.count(b'"', done, match.end())
                done = match.end()
                end = text.find(b"\n", done, done + _LONGEST_LINE)
                if lines <= above or quotes % 2 or end < 0 or not text[end : end + _MOST_SHOWN].strip():
                    continue
                if re.search(rb"[0-9]", text[done:end]):  # no header, and a file may have many blank lines
                    continue
                sample = sample or read_sample(file, form).splitlines(keepends=True)[above:]
                if len(rows) < _ENOUGH_ROWS:
                    rows = [row for row, _ in split_rows(sample[: lines - above], form.mark)]
                header = text[done:end].decode("utf-8", "replace").strip()
                if _is_other_header(split_rows([header], form.mark)[0][0], rows):
                    return lines + 1, header
            if not block:
                return None
            kept = max(done, kept)
            lines += text.count(b"\n", done, kept)
            quotes += text.count(b'"', done, kept)
            text = text[kept:]


def _is_other_header(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the line with these `cells`, below a blank line, looks like the header of another table.

    `rows` are rows above it, of which some column has numbers, dates or times. The line looks like a header if it has
    words alone, at least two and all different, no word that means an empty cell, a word in that column, and no word
    that stands in its column above. Empty cells at the end of the line are not looked at.

    >>> _is_other_header(["shop", "city"], [["Ada", "14"]]), _is_other_header(["Bob", "15"], [["Ada", "14"]])
    (True, False)
    """
    words = [*cells]
    while words and not words[-1]:
        words.pop()
    if len({*words}) < max(2, len(words)) or any(
        not word or re.search("[0-9]", word) or word in USER_NULL_WORDS for word in words
    ):
        return False
    columns = [[row[place] for row in rows if len(row) > place and row[place]] for place in range(len(words))]
    if any(word in column for word, column in zip(words, columns, strict=True)):
        return False
    return any(
        column and sum(_VALUE.fullmatch(cell) is not None for cell in column) >= (1 - MOST_LOST) * len(column)
        for column in columns
    )


def total_notes(
    table: "DuckDBTable",
    samples: Mapping[str, Sequence[str]],
    user: str | None,
    csv: CsvOptions,
    file: TableFile,
    noted: Collection[str],
    question: str = "",
) -> list[ScanNote]:
    """Return notes about lines with totals of other lines: anywhere in the `table`, and at the end of its last `file`.

    `noted` are words about which the data holder has another note. The other arguments are those of `_total_rows`.
    """
    totals = _total_rows(table, samples, user, csv, question)
    last = _total_line(file, csv, noted)
    alone = [words for note, words in totals if note.text.startswith("1 line ") and f"{words[0]!r}: if " in last]
    if last and not alone and any(f"has the cell {word!r}: " in last for _, words in totals for word in words):
        last = ""
    return [*(note for note, words in totals if words not in alone), *([ScanNote(last)] if last else [])]


def _total_rows(
    table: "DuckDBTable", samples: Mapping[str, Sequence[str]], user: str | None, csv: CsvOptions, question: str
) -> list[tuple[ScanNote, list[str]]]:
    """Return pairs (note, words) for each text column of `table` in which lines have a word such as Subtotal.

    A sum over all lines counts the amounts of such lines twice. The note has a condition that leaves the lines out.

    - `samples` has sampled cells of each text column, by name, among them the most frequent ones. The column `user` is
      left out, because a user called Total has a note of its own.
    - `csv` lists the words for an empty cell.
    - `question` is the text of the query. A column is left out if the query compares with all of its words.
    """
    from setwise.analytics.engines.duckdb.user_counts import count_users

    notes = []
    for name, cells in samples.items():
        words = sorted({cell.strip() for cell in cells if is_total(cell)} - {*csv.cells.null})
        if not words or name == user or all(f"'{word}'" in question for word in words):
            continue
        counts = count_users(table, name, csv.cells, words, is_csv=True)
        lines = sum(counts.texts.get(word, 0) for word in words)
        column = name if name.isidentifier() else f'"{name}"'
        listed = ", ".join("'" + word.replace("'", "''") + "'" for word in words)
        condition = f"{column} NOT IN ({listed})" if len(words) > 1 else f"{column} <> {listed}"
        condition = f"({condition} OR {column} IS NULL)" if counts.missing else condition
        text = (
            f"{lines:,} {'line has' if lines == 1 else 'lines have'} {' or '.join(map(repr, words))} as {name!r}: if "
            f"they are totals of other lines, a sum counts these twice, and WHERE {condition} leaves them out"
        )
        notes.append((ScanNote(text), words))
    return notes


_TAIL = 2**16
"""Bytes at the end of a file in which its last line is looked for."""


def _total_line(file: TableFile, options: CsvOptions, noted: Collection[str]) -> str:
    """Return a sentence if the last line of a text file seems to be no row, but a total or a remark; else "".

    The line is taken for a total if one of its cells is a word such as "Total". It is taken for a remark if it has
    more than two cells and only one of them is filled. A query would count such a line as one more row, of one more
    user.

    - `options` say how the file is written, and which words mean an empty cell.
    - `noted` are words in the user column about which the data holder has another note already. No sentence is
      returned if the line was recognised by one of these words, or by a word that means an empty cell.
    """
    form = options.format_of(options.suffix_of(file))
    tail = b""
    with form.open_converted(open_file(file), file.name) as opened:
        while block := opened.read(_BLOCK):
            tail = (tail + block)[-_TAIL:]
    lines = tail.decode("utf-8", "replace").strip().splitlines(keepends=True)
    # The stream has double quotes around cells, whatever the file has.
    cells = split_rows(lines[-1:], form.separator)[0][0] if lines else []
    word = next((cell for cell in cells if is_total(cell)), None)
    if word is None and len(cells) > 2 and sum(map(bool, cells)) == 1:
        word = "".join(cells)
        if word not in noted and word not in options.cells.null:
            return f"its last line has one cell alone, {word!r}: if the line is a remark and no row, take it out"
    if word is None or word in noted or word in options.cells.null:
        return ""
    return f"its last line has the cell {word!r}: if the line is a total and no row, take it out, as it would count"


def undecoded_cells(
    source: object,
    table_name: str | None,
    csv: CsvOptions,
    files: Sequence[TableFile],
    columns: Sequence[str],
    write: OptionWriter = command_line,
) -> list[ScanNote]:
    """Return a note for each of the `columns` with cells that are not text in the encoding which `csv` states.

    - `source` is the path of the table, and `files` are the table's files. `table_name` is the table's name if `source`
      is a database file, else None.
    - `csv` says how the files are written.
    - `write` turns an option into text. A note suggests options that name other encodings: those that can read every
      byte of the first file.

    The list is empty if all cells can be decoded. Files in UTF-16 are not checked.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_cells
    from setwise.analytics.engines.duckdb.opening import untyped_table

    encoding = codec_name(csv.encoding)
    forms = [csv.format_of(csv.suffix_of(file)) for file in files]
    if encoding in UTF_16 or all(is_decodable(file, form) for file, form in zip(files, forms, strict=True)):
        return []
    plain = count_cells(untyped_table(source, table_name, csv), {}, None, columns=columns).columns
    latin_1 = replace(csv, encoding="latin-1")  # decodes every byte
    decoded = count_cells(untyped_table(source, table_name, latin_1), {}, None, columns=columns).columns
    name = "UTF-8" if encoding == "utf-8" else csv.encoding
    remedy = scan_encoding(files[0], forms[0]).choices(write)
    if not remedy:  # another encoding would misread the cells that are UTF-8
        remedy = "most other such cells of the file are UTF-8, so write these in UTF-8 too"
    return [
        ScanNote(
            f"{column.filled - other.filled:,} of {column.filled:,} cells of {column.name!r} are not {name} and will "
            f"be skipped: {remedy}",
            mostly_unreadable=2 * other.filled <= column.filled,
        )
        for column, other in zip(decoded, plain, strict=True)
        if column.filled > other.filled
    ]

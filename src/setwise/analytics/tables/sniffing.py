"""Guesses, from the first lines of a text file, with which separator, encoding, header and names it can be read.

The guesses are for the data holder. Queries never use them: the data holder declares the format, so that no private row
can change how a file is read.
"""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mode
from typing import BinaryIO

from setwise.analytics.engines.csv_format import COMPRESSIONS, CsvFormat, distinct
from setwise.analytics.engines.csv_reader import SEPARATORS, looks_like_row, suggested_names
from setwise.analytics.engines.files import CSV_SEPARATORS, CsvOptions, suffix_of, unreadable_file
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.tables.text_encodings import scan_encoding
from setwise.errors import UnsuitableTable

_SAMPLE_BYTES = 2**20
"""Bytes at the beginning of a file from which its format is guessed."""
_MAGICS = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"BZh": ".bz2"}
"""The first bytes of compressed files, and the endings of their names."""

Row = list[str]
"""The cells of one record of a sample."""


def sniff(file: TableFile, declared: CsvOptions) -> CsvOptions:
    """Return the CSV options with which `file` can be read: the options `declared`, and guesses for all other options.

    The guesses are made from the first lines of the file.
    Raises: `UnsuitableTable` if the file cannot be opened or has no lines of text.
    """
    ending = _compression(file) if declared.format is None else f".{declared.format.partition('.')[2]}"
    if declared.encoding == "utf-8":
        compressed = CsvFormat(compression=COMPRESSIONS.get(ending, ""))
        declared = replace(declared, encoding=scan_encoding(file, compressed).encoding)
    text = read_sample(file, CsvFormat(compression=COMPRESSIONS.get(ending, ""), encoding=declared.encoding))
    separator = declared.separator or _separator(text)
    if declared.separator is None and _is_spaced(text, separator):
        separator += " "
    lines = text.splitlines(keepends=True)
    lines = lines[declared.skip_lines :]
    declared = replace(declared, quote=_quote(lines, separator) if declared.quote == '"' else declared.quote)
    rows = split_rows(lines, separator, declared.quote)
    if not any(any(row) for row, _ in rows):
        raise UnsuitableTable(f"{file} has no lines of text")
    return _with_names(_with_place(declared, file, separator, ending), rows)


def _with_place(declared: CsvOptions, file: TableFile, separator: str, ending: str) -> CsvOptions:
    """Return the CSV options `declared`, with a separator and a format added if reading `file` needs them.

    - `separator` is the text between cells, declared or guessed.
    - `ending` is the usual file name ending of the file's compression, such as ".gz"; "" without compression.

    The file's name may already say how to read the file: nothing is added for a file x.csv with commas, or x.tsv with
    tabs.

    - The separator is added if the format (declared, or shown by the name) implies another one, as for x.csv with tabs.
    - A format such as "csv.gz" is added, unless one is declared, if the name does not show how the file is compressed,
      or if the name is not that of a CSV file and the separator is a comma or a tab.
    """
    suffix = suffix_of(file)
    compressed_as_named = ending == (file.suffix.lower() if file.suffix.lower() in COMPRESSIONS else "")
    if declared.format is not None or (suffix in CSV_SEPARATORS and compressed_as_named):
        usual = CSV_SEPARATORS[suffix_of(Path(f"table.{declared.format}")) if declared.format else suffix]
        return replace(declared, separator=None if separator == usual else separator)
    if compressed_as_named and separator not in CSV_SEPARATORS.values():
        return replace(declared, separator=separator)
    format_name = "tsv" if separator == "\t" else "csv"
    needed = None if separator in CSV_SEPARATORS.values() else separator
    return replace(declared, separator=needed, format=format_name + ending)


def _with_names(declared: CsvOptions, rows: Sequence[tuple[Row, int]]) -> CsvOptions:
    """Return the CSV options `declared`, completed by the lines to skip, a flag for a header, and column names.

    `rows` are the records of a sample of the file, each with the number of its last line. The table begins with the
    first record that has as many cells as most records; lines above it are skipped. This first record is the header if
    its cells look like names. Otherwise, or if its names are empty or repeated, column names are added to the options.
    Names that the file lacks are made up, as column_1.
    """
    if declared.columns is not None:
        return replace(declared, header=False)
    width = mode(len(row) for row, _ in rows if any(row))  # blank lines have one cell, and may be many
    # A line with one filled cell and then empty ones is a title that a spreadsheet wrote, and not the header.
    places = [place for place, (row, _) in enumerate(rows) if len(row) == width and any(row)]
    place = next((place for place in places if any(rows[place][0][1:]) or width == 1), places[0])
    place = _below_titles(rows, places, place, width)
    above = rows[place - 1][1] if place else 0
    first, end = rows[place]
    # A header that stands in the file again, as after cat a.csv b.csv, does not make the first one a row.
    body = [
        row for row, _ in rows[place + 1 :] if len(row) == width and _comparable_cells(row) != _comparable_cells(first)
    ]
    if declared.header is None and not _guess_is_header(first, body):
        names = tuple(f"column_{number}" for number in range(1, width + 1))
        # Every line but the header may end with a separator, and so with an empty cell without a name.
        short = rows[place - 1][0] if place else []
        is_header = 1 < len(short) < width and all(short) and len({*short}) == len(short) and not looks_like_row(short)
        if is_header and not any(any(row[len(short) :]) for row in (first, *body)):
            names = (*short, *names[len(short) :])
        return replace(declared, skip_lines=declared.skip_lines + above, columns=names, header=False)
    # a header that is not one line of distinct names is skipped, and names are suggested
    if end > above + 1 or not distinct(tuple(first)):
        return replace(
            declared, skip_lines=declared.skip_lines + end, columns=tuple(suggested_names(first)), header=False
        )
    return replace(declared, skip_lines=declared.skip_lines + above, header=True if looks_like_row(first) else None)


def _below_titles(rows: Sequence[tuple[Row, int]], places: Sequence[int], place: int, width: int) -> int:
    """Return the place among `rows` of the header, if lines of titles stand above it; else `place`.

    A spreadsheet fills up lines such as "Printed,5/1/2024,," with empty cells. Such a line has at most half of its
    cells filled, unless a line with one filled cell stands above it. The header below is the first line of the filled
    `places` that has all `width` cells filled, and looks like one. `place` is the line that is the first one of the
    table otherwise.
    """
    is_titled = False
    for candidate in places[:_MOST_TITLES]:
        row = rows[candidate][0]
        if all(row):
            body = [other for other, _ in rows[candidate + 1 :] if len(other) == width]
            is_header = candidate > place and distinct(tuple(row)) and not looks_like_row(row)
            return candidate if is_header and _guess_is_header(row, body) else place
        filled = sum(map(bool, row))
        is_titled = is_titled or filled == 1
        if width < _FEWEST_CELLS or (2 * filled > width and not is_titled):
            return place
    return place


_MOST_TITLES = 20
"""The most lines of titles above a header."""


def _comparable_cells(row: Row) -> Row:
    """Return the cells of `row` in lower case and without byte order marks, to compare a header with another one."""
    return [cell.replace("\ufeff", "").casefold() for cell in row]


def _guess_is_header(first: Row, body: Sequence[Row]) -> bool:
    """Return whether the row `first` looks like the header of the rows `body` below it.

    The row does not look like one if one of its cells occurs again below itself. Otherwise, two kinds of cells are
    counted: cells that are a number or date themselves, as in a row of data; and cells that are a word above nothing
    but numbers or dates, as in a header. The row looks like a header if it has at least as many cells of the second
    kind as of the first.
    """
    names = values = 0
    for place, cell in enumerate(first):
        below = {row[place] for row in body} - {""}
        if cell in below:
            return False
        values += looks_like_row([cell])
        names += bool(below) and not looks_like_row([cell]) and all(looks_like_row([other]) for other in below)
    return names >= values


def _separator(text: str) -> str:
    """Return the separator between cells that best fits `text`, the first lines of a file.

    The result is a blank if blanks divide the lines into cells, of which those with blanks stand in quotes, as in the
    logs of web servers (see `_are_quoted_words`).

    Otherwise, the best separator is the one with which the largest share of the lines have the same number of cells,
    if this number is at least 2. If no separator has such a number, the result is a blank if blanks divide the lines
    into the columns of a table (see `are_columns`), and else a comma.
    """
    lines = [line for line in text.splitlines(keepends=True) if line.strip()]
    if _are_quoted_words(lines):
        return " "

    def agreement(separator: str) -> tuple[float, int]:
        """Return (share, length), a score of how well `separator` splits the lines of the file's beginning into cells.

        The share is the fraction of lines that have the most frequent number of cells, or 0 if this number is 1. The
        length of `separator` is part of the score so that "::" is better than ":" if both have the same share.
        """
        widths = Counter(len(row) for row, _ in split_rows(lines, separator))
        cells, share = widths.most_common(1)[0] if widths else (1, 0)
        return (share / max(1, sum(widths.values())) if cells > 1 else 0.0, len(separator))

    best = max(SEPARATORS, key=agreement)
    if agreement(best)[0] > 0:
        return best
    return " " if are_columns([row for row, _ in split_rows(lines, " ")]) else ","


def _are_quoted_words(lines: Sequence[str]) -> bool:
    """Return whether `lines` are cells with one blank between them, of which a cell with a blank stands in quotes.

    A quote within a cell may be doubled, or may follow a backslash. Nine in ten lines must be written so, with the same
    number of cells, at least 3. No CSV line with another separator after a quoted cell is written so.
    """
    if sum('"' in line for line in lines) < 0.9 * len(lines):
        return False
    quoted = [line.rstrip() for line in lines if _QUOTED_WORDS.fullmatch(line.rstrip())]
    widths = Counter(len(_QUOTED_WORD.findall(line)) for line in quoted)
    has_blank = any(" " in cell for line in quoted[:_SAMPLED_LINES] for cell in re.findall('(?<!\\S)"[^"]*', line))
    width, number = widths.most_common(1)[0] if widths else (1, 0)
    return has_blank and width >= _FEWEST_CELLS and number >= 0.9 * len(lines)


_WORD = r'(?:"(?:[^"\\]|\\.|"")*"|[^ "]+)'
_QUOTED_WORD = re.compile(_WORD)
_QUOTED_WORDS = re.compile(f"{_WORD}(?: {_WORD})*")
"""The regular expression of a line of words and of quoted texts, with one blank between two of them."""
_SAMPLED_LINES = 100
_FEWEST_CELLS = 3
"""The fewest cells of a line that blanks divide; a text of two words is no line of two cells."""


def are_columns(rows: Sequence[Row]) -> bool:
    """Return whether `rows`, lines divided at blanks, are a table: a header and columns, one of them of numbers.

    All rows must have the same number of cells, at least 2 and none empty. At least one column must have a word in the
    first row, and numbers, dates or times in all others, because texts of several words can be divided at blanks, too.
    """
    widths = {len(row) for row in rows}
    if len(rows) < _FEWEST_LINES or len(widths) > 1 or widths == {1} or not all(map(all, rows)):
        return False
    header, *body = rows
    values = [all(looks_like_row([row[place]]) for row in body) for place in range(len(header))]
    return not looks_like_row(header) and any(values)


_FEWEST_LINES = 3
"""The fewest lines, with the header, that can be told to be a table with blanks between its cells."""


def _is_spaced(text: str, separator: str) -> bool:
    """Return whether a blank follows every separator in `text`, the first lines of a file, as in 1, "Oslo", 5.

    The blank then has to be declared as a part of the separator. Otherwise a CSV reader would skip such a line, because
    the quotes of a cell must follow the separator directly. If no quote follows a blank, no line would be skipped, and
    the result is False. Lines with quotes are not checked, because a separator within quotes needs no blank.
    """
    if f'{separator} "' not in text:
        return False
    lines = [line for line in text.splitlines() if line.strip()]
    return all(line.count(separator) == line.count(f"{separator} ") or '"' in line for line in lines)


def guess_quote(file: TableFile, csv: CsvOptions) -> str:
    """Guess what the cells of `file` stand in, from its beginning: a double quote, a single quote, or "none".

    `csv` are the declared options of the file. If they declare another quote than a double quote, it is returned.
    """
    if csv.quote != '"':
        return csv.quote
    form = csv.format_of(csv.suffix_of(file))
    text = read_sample(file, form)
    return _quote(text.splitlines(keepends=True)[csv.skip_lines :], form.separator)


def _quote(lines: Sequence[str], separator: str) -> str:
    """Guess what cells of the CSV `lines` stand in: a double quote, a single quote, or "none".

    `separator` is the text between cells. The result is "none" if quotes are part of the text, as in 12" pipe: no cell
    begins with a quote, and all lines have the same number of cells. The result is a single quote in two cases:

    - Cells such as 'Oslo, Norway' occur, with a separator or a line end between single quotes. Also, more lines belong
      to records of the usual number of cells if single quotes are taken for the quote character than if double quotes
      are.
    - Every filled cell of some column is in single quotes.
    """
    if _are_quotes_text(lines, separator):
        return "none"
    if not any("'" in line for line in lines):
        return '"'
    cells = (cell for row, _ in split_rows(lines, separator, "'") for cell in row)
    # A cell in double quotes is cut at the separator here, so that only a cell in single quotes still has one.
    has_separators = any(separator in cell or "\n" in cell for cell in cells)
    if has_separators and _fit(lines, separator, "'") > _fit(lines, separator, '"'):
        return "'"
    columns: dict[int, list[str]] = {}
    for row, _ in split_rows(lines, separator)[1:]:
        for place, cell in enumerate(row):
            if cell:
                columns.setdefault(place, []).append(cell)
    quoted = [all(re.fullmatch("'[^']*'", cell) for cell in cells) for cells in columns.values() if len(cells) > 1]
    return "'" if any(quoted) else '"'


def _are_quotes_text(lines: Sequence[str], separator: str) -> bool:
    """Return whether double quotes in the CSV `lines` are part of the text, and not around cells.

    They are if some cell has one, if no cell begins with one, and if all lines, divided at each `separator`, have the
    same number of cells, at least 2.
    """
    if not any('"' in line for line in lines):
        return False
    rows = [row for row, _ in split_rows(lines, separator, "none") if any(row)]
    cells = (cell for row in rows for cell in row if '"' in cell)
    return len({len(row) for row in rows}) == 1 < len(rows[0]) and not any(cell.startswith('"') for cell in cells)


def _fit(lines: Sequence[str], separator: str, quote: str) -> int:
    """Return how many of the CSV `lines` belong to records of the most frequent width; 0 if this width is 1.

    The width of a record is its number of cells. `separator` is the text between cells, and cells may stand in the
    character `quote`. The caller compares the results for two quotes, to guess which one the file uses.

    >>> _fit(["a;b", "1;2", "3"], ";", '"'), _fit(["a;b", "1;2", "3"], ",", '"')
    (2, 0)
    """
    rows = split_rows(lines, separator, quote)
    ends = [0, *(end for _, end in rows)]
    lines_of: Counter[int] = Counter()
    for (row, end), start in zip(rows, ends, strict=False):
        lines_of[len(row)] += end - start
    width = lines_of.most_common(1)[0][0] if lines_of else 1
    return lines_of[width] if width > 1 else 0


def split_rows(lines: Sequence[str], separator: str, quote: str = '"') -> list[tuple[Row, int]]:
    """Return the records of the CSV `lines`, each as (cells, number of the line at which the record ends).

    `separator` is the text between cells. A cell may be enclosed in the character `quote`, unless that is "none", and
    may then contain separators and line breaks; a record with such a line break takes several lines. A blank line is a
    record of one empty cell.

    >>> split_rows(['a,"b,c"', ""], ",")
    [(['a', 'b,c'], 1), ([''], 2)]
    """
    mark = separator if len(separator) == 1 else "\x1f"
    is_quoted = quote != "none"
    reader = csv.reader(
        (line.replace(separator, mark) for line in lines),
        delimiter=mark,
        quotechar=quote if is_quoted else None,
        quoting=csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE,
    )
    try:
        records = [(row, reader.line_num) for row in reader]
    except csv.Error:
        records = [(line.split(separator), place) for place, line in enumerate(lines, start=1)]
    return [([cell.strip() for cell in row] or [""], end) for row, end in records]


def _compression(file: TableFile) -> str:
    """Return the file name ending, such as ".gz", of the compression that the first bytes of `file` show.

    Returns "" if the bytes show no known compression.
    """
    with open_file(file) as opened:
        start = opened.read(4)
    return next((ending for magic, ending in _MAGICS.items() if start.startswith(magic)), "")


def read_sample(file: TableFile, form: CsvFormat) -> str:
    """Return the first whole lines of `file` as text, about 1 MiB or less.

    `form` says how the file is compressed and encoded, so that its bytes can be turned into text.
    """
    with form.open_converted(open_file(file), file.name) as opened:
        start = b""
        while len(start) < _SAMPLE_BYTES and (read := opened.read(_SAMPLE_BYTES)):
            start += read
    lines = start if len(start) < _SAMPLE_BYTES else start[: start.rfind(b"\n") + 1] or start
    return lines.decode("utf-8-sig", "replace")


def open_file(file: TableFile) -> BinaryIO:
    """Return the file opened for reading bytes, or raise `UnsuitableTable` if that fails."""
    try:
        return file.open("rb")
    except OSError:
        raise unreadable_file(file) from None

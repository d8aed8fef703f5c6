"""CSV files as Arrow batches of text: whether the first line is a header, column names, empty and unreadable cells.

Empty cells, quoted or not, are null, and so are cells that are not text in the file's encoding. `csv_records` says how
a file is split into records.

To find the names of the columns, only the header is read, and the lines above it that the data holder has declared;
never a row, which is private. So the data holder must also declare that a file has no header. Otherwise its first line
would be taken for names, and the row of its first user would be lost.
"""

import csv
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from setwise.analytics.engines.csv_format import (
    INVISIBLE,
    MARKS,
    UNIT_SEPARATOR,
    CsvFormat,
    codec_name,
    distinct,
)
from setwise.analytics.engines.csv_records import Layout, Records

LONGEST_HEADER = 1_000_000
"""The number of bytes of a CSV file within which its header must end."""
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", "::": "double colons", ",": "commas"}
"""The usual separators, and their names in messages."""
_WITHOUT_INVISIBLE = dict.fromkeys(map(ord, INVISIBLE))
"""The table for `str.translate` that takes characters out of column names that nobody sees, and so could not type."""
_BOM = b"\xef\xbb\xbf"
_ARCHIVES = {
    b"\x1f\x8b": "it is compressed with gzip: end its name in .gz, or give --format csv.gz",
    b"\x28\xb5\x2f\xfd": "it is compressed with zstd: end its name in .zst, or give --format csv.zst",
    b"BZh": "it is compressed with bzip2: end its name in .bz2, or give --format csv.bz2",
    b"PK\x03\x04": "it is a zip archive or a workbook: unpack it, or save the sheet as CSV",
}
_NUMBER = r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?"
_DAY = r"\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{2,4}"
_VALUES = {
    "a number": re.compile(_NUMBER, re.IGNORECASE),
    "a date or time": re.compile(rf"({_DAY})([ T].*)?|\d\d?:\d\d(:\d\d(\.\d+)?)?"),
    "an address": re.compile(r"\S+@\S+\.\S+"),
}


class UnreadableHeader(ValueError):
    """Raised if the first line of a CSV file is not a header; the message says why, and which option to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a CSV file: its column `names`, and how the lines after it are read.

    `start` is the byte offset of the first row. `crlf` says that a carriage return before a line feed belongs to the
    line end; otherwise it is part of the last cell.
    """

    names: tuple[str, ...]
    start: int
    crlf: bool


def read_header(file: BinaryIO, form: CsvFormat) -> Header:
    """Return the header of a CSV file in the format `form`, read from `file`, its decompressed bytes in UTF-8.

    If `form` names the columns, the file has no header line, and the result has these names. Otherwise the first line
    after the skipped ones has the names, and the result of an empty file has no names.

    Raises: `UnreadableHeader` if that line is not a header of distinct names.
    """
    start = _start_of(file, form.skip_lines + (form.columns is None))
    place = _line_end(start, form.skip_lines)
    if form.columns is not None:
        mark = len(_BOM) if place == 0 and start.startswith(_BOM) else 0
        return Header(names=form.columns, start=place + mark, crlf=True)
    end = _line_end(start, form.skip_lines + 1)
    line = start[place:end]
    if not line:
        return Header(names=(), start=end, crlf=False)
    names = _names(line, form)
    if problem := _separator_line(names, form):
        raise UnreadableHeader(problem)
    if not form.certain and (problem := _missing_header_message(names) or _other_separator(names, form)):
        raise UnreadableHeader(problem)
    if not distinct(names):
        raise UnreadableHeader(_bad_names_message(names, form))
    return Header(names=names, start=end, crlf=line.endswith(b"\r\n"))


def looks_like_row(cells: Sequence[str]) -> bool:
    """Return whether the line with these `cells` looks like a row of data and not like a header.

    A line looks like a row if one of its cells is a number, a date, a time or an e-mail address.
    """
    return any(map(_kind_of_value, cells))


def _kind_of_value(cell: str) -> str:
    """Return the kind of value that `cell` looks like, such as "a number"; "" if the cell may be a column name."""
    return next((kind for kind, pattern in _VALUES.items() if pattern.fullmatch(cell)), "")


def _missing_header_message(names: Sequence[str]) -> str:
    """Return an error message if the line with the cells `names` looks like a row, so that the file has no header.

    Return "" if the line may be a header. The message does not repeat a cell, which may be private.
    """
    for place, name in enumerate(names, start=1):
        if kind := _kind_of_value(name):
            columns = ",".join(f"NAME_{number}" for number in range(1, len(names) + 1))
            return (
                f"cell {place} of its first line is {kind}, so that line looks like a row and not like a header: "
                f"give --no-header --columns {columns}, with a name for each column, for a file without a header, "
                "--skip-lines N for lines above the header, or --header if these are the names"
            )
    return ""


def suggested_names(names: Sequence[str]) -> list[str]:
    """Return names for the option --columns, as close to `names` as possible, that are distinct in lower case too.

    >>> suggested_names(["", "user", "user", "a,b"])
    ['column_1', 'user', 'user_3', 'a_b']
    """
    suggestions: list[str] = []
    taken: set[str] = set()
    for place, name in enumerate(names, start=1):
        plain = re.sub(r"[^\w .:/()-]+", "_", name).strip("_ ") or f"column_{place}"
        suggestion = plain
        while suggestion.lower() in taken:
            suggestion += f"_{place}"
        taken.add(suggestion.lower())
        suggestions.append(suggestion)
    return suggestions


def _names(line: bytes, form: CsvFormat) -> tuple[str, ...]:
    """Return the cells of the header `line` of a CSV file as column names, without blanks around them.

    `form` is the CSV format of the file.
    Raises: `UnreadableHeader` if the line cannot be split into cells because it is compressed, is in another encoding,
    has a quote that is not closed, ends in a carriage return alone, or is too long.
    """
    for archive, remedy in _ARCHIVES.items():
        if line.startswith(archive):
            raise UnreadableHeader(remedy)
    if line[:2] in MARKS or line.count(b"\0") > len(line) // 3:
        order = "" if line[:2] in MARKS else "-be" if line[:1] == b"\0" else "-le"
        raise UnreadableHeader(f"it is written in UTF-16: give --encoding utf-16{order}")
    try:
        text = line.removeprefix(_BOM).decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        encoding = codec_name(form.encoding)
        raise UnreadableHeader(
            f"its header is not {'UTF-8' if encoding == 'utf-8' else encoding}: give the encoding it was written in, "
            "which the file does not tell, such as --encoding cp1252 (Western European, on Windows), --encoding cp850 "
            "(the same, on DOS) or --encoding mac_roman; setwise check shows words as each encoding reads them"
        ) from None
    if text.count('"') % 2:
        raise UnreadableHeader(
            "its header goes on after a line end in quotes: name the columns yourself, with --skip-lines for all of "
            "its lines and --no-header --columns A,B,..."
        )
    try:
        cells = next(csv.reader([text], delimiter=form.mark), [])
    except csv.Error:
        if "\r" in text:
            raise UnreadableHeader("its lines end in carriage returns alone: convert it with tr '\\r' '\\n'") from None
        raise UnreadableHeader("its first line is too long for a header") from None
    if form.exchange is not None:
        cells = [cell.encode().translate(form.exchange).decode() for cell in cells]
    names = (cell.replace(UNIT_SEPARATOR, form.separator) for cell in cells)
    return tuple(name.translate(_WITHOUT_INVISIBLE).strip() for name in names)


def _separator_line(names: tuple[str, ...], form: CsvFormat) -> str:
    """Return an error message if the first line only states the separator, as Excel's line sep=; does; otherwise "".

    `names` are the cells of that line, and `form` is the CSV format that was tried. The message names the command-line
    options with which the file can be read.
    """
    separator_line = re.fullmatch(r'"?sep=(.)"?', form.separator.join(names), re.IGNORECASE | re.DOTALL)
    if separator_line is None:
        return ""
    separator = "" if separator_line[1] == form.separator else f"--separator {separator_option(separator_line[1])} "
    return f"its first line tells the separator and is no header: give {separator}--skip-lines {form.skip_lines + 1}"


def _other_separator(names: tuple[str, ...], form: CsvFormat) -> str:
    """Return an error message if the header has only one name, which contains another common separator; otherwise "".

    `names` is the header, and `form` the CSV format that was tried. The message suggests to declare that separator.
    """
    if len(names) != 1:
        return ""
    likely = max(SEPARATORS, key=lambda separator: (names[0].count(separator), len(separator)))
    if likely == form.separator or likely not in names[0]:
        return ""
    return (
        f"its header has one name with {SEPARATORS[likely]}: give --separator {separator_option(likely)}, "
        "or --header if it is one; setwise check finds all options together"
    )


def separator_option(separator: str) -> str:
    """Return `separator` as a person types it on the command line: quoted for the shell, and "tab" for a tab."""
    return "tab" if separator == "\t" else shlex.quote(separator)


def _bad_names_message(names: tuple[str, ...], form: CsvFormat) -> str:
    """Return the error message for a CSV header whose `names` have an empty name or the same name twice.

    `form` is the CSV format of the file. The message names the command-line options with which the file can be read.
    """
    if not any(names):
        return (
            f"its header line is blank: give --skip-lines {form.skip_lines + 1}, or more if the header is further down"
        )
    empty = next((place for place, name in enumerate(names, start=1) if not name), None)
    lower = [name.lower() for name in names]
    again = next((place for place, name in enumerate(lower) if name in lower[:place]), 0)
    first, second = names[lower.index(lower[again])], names[again]
    problem = f"its header has the name {first!r} twice"
    if first != second:
        problem = f"its header has the names {first!r} and {second!r}, which are one name in SQL"
    problem = f"name {empty} of its header is empty" if empty else problem
    named = shlex.quote(",".join(suggested_names(names)))
    return (
        f"{problem}: give --skip-lines {form.skip_lines + 1} --no-header --columns {named}, or --skip-lines N if the "
        "header stands further down"
    )


def _start_of(file: BinaryIO, lines: int) -> bytes:
    """Return the first bytes of `file`, which hold at least `lines` lines, or the whole file if it has fewer lines.

    A file without line ends could be of any size, so reading also stops when `LONGEST_HEADER` bytes or slightly more
    (at most 8 KiB) are read. The result then has fewer lines.
    """
    start = b""
    while len(start) < LONGEST_HEADER and start.count(b"\n") < lines and (read := file.read(2**13)):
        start += read
    return start or file.read(2**13)


def _line_end(start: bytes, lines: int) -> int:
    """Return the number of bytes that the first `lines` lines take in `start`, the beginning of a file.

    If `start` has fewer lines, return its length, but at most `LONGEST_HEADER`.
    """
    place = 0
    for _ in range(lines):
        end = start.find(b"\n", place) + 1
        if end == 0:
            return min(len(start), LONGEST_HEADER)
        place = end
    return place


OpenFile = Callable[[], BinaryIO]
"""Function that opens a file from its beginning."""


class CsvFile:
    """One CSV file: its header is read when the object is made, and its records can be read any number of times.

    `open_file` opens the file from its beginning, decompressed and in UTF-8. `form` is its CSV format, which may name
    the columns of a file without a header.

    Raises: `UnreadableHeader` if the file has a header line that is not a list of distinct names.
    """

    def __init__(self, open_file: OpenFile, form: CsvFormat) -> None:
        self._open = open_file
        self._format = form
        with open_file() as file:
            self._header = read_header(file, form)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the CSV file's columns, in order; empty for an empty file whose format names no columns."""
        return self._header.names

    def batches(self, columns: Sequence[str], layout: Layout | None = None) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches of the columns named `columns` as text, with records in the order of the file.

        Malformed records are left out. `layout` (number of cells, separator, block sizes) is for tests; None takes it
        from the header and the CSV format.
        """
        if not self.names:
            return
        parse, parse_kept = partial(self._parse, columns=columns), partial(self._parse_kept, columns=columns)
        for table in self._records(layout).blocks(parse, parse_kept):
            batches: Iterable[pa.RecordBatch] = table.to_batches()
            batches = map(self._with_separators, batches) if len(self._format.separator) > 1 else batches
            exchange = self._format.exchange
            yield from batches if exchange is None else (_with_exchanged_bytes(batch, exchange) for batch in batches)

    def count_lines(self) -> tuple[int, int]:
        """Return (lines, kept lines): how many lines below the header are not blank, and how many of these are read.

        The difference is the number of lines that are lost, because lines of malformed records are not read. The
        numbers have no noise, so they are for the data holder alone.
        """
        return self._records().count_lines() if self.names else (0, 0)

    def _records(self, layout: Layout | None = None) -> Records:
        """Return the well-formed records of the CSV file; malformed records are left out when they are read.

        `layout` (number of cells, separator, block sizes) is for tests; None takes it from the header and the CSV
        format.
        """
        layout = layout or Layout(width=len(self.names), separator=ord(self._format.mark), crlf=self._header.crlf)
        return Records(self._open, self._header.start, layout)

    def _with_separators(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return `batch` with the separator of the CSV files in place of each `UNIT_SEPARATOR` in a cell.

        `CsvFormat.open_converted` replaces a separator of several characters by `UNIT_SEPARATOR` everywhere, also
        inside quoted cells, where it is part of the text.
        """
        cells = [pc.replace_substring(column, UNIT_SEPARATOR, self._format.separator) for column in batch.columns]
        return pa.RecordBatch.from_arrays(cells, names=batch.schema.names)

    def _parse(self, block: bytes, columns: Sequence[str]) -> pa.Table | None:
        """Return the columns named `columns` of `block`, whole lines of CSV, as a table of text.

        Returns None if a line has another number of cells than the header, or if a cell is not UTF-8. The caller then
        removes the malformed records and parses the remaining ones.
        """
        try:
            return self._table(block, columns, pa.string())
        except pa.ArrowInvalid:
            return None

    def _parse_kept(self, records: bytes, columns: Sequence[str]) -> pa.Table:
        """Return the columns named `columns` of `records` as a table of text; cells that are not UTF-8 are null.

        `records` are bytes of CSV from which malformed records have been removed.
        """
        parsed = self._parse(records, columns)
        if parsed is not None:
            return parsed
        table = self._table(records, columns, pa.binary())
        return pa.table([decode_column(column) for column in table.columns], names=list(columns))

    def _table(self, data: bytes, columns: Sequence[str], kind: pa.DataType) -> pa.Table:
        """Return the columns named `columns` of the CSV bytes `data` as an Arrow table, all of Arrow type `kind`.

        `kind` is text or bytes. Arrow raises `ArrowInvalid` for a line with another number of cells than the header
        and, if `kind` is text, for a cell that is not UTF-8.
        """
        return pa_csv.read_csv(
            pa.py_buffer(data),
            read_options=pa_csv.ReadOptions(column_names=list(self.names), block_size=len(data) + 1),
            parse_options=pa_csv.ParseOptions(
                delimiter=self._format.mark, newlines_in_values=True, ignore_empty_lines=False
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict.fromkeys(columns, kind),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )


def _with_exchanged_bytes(batch: pa.RecordBatch, exchange: bytes) -> pa.RecordBatch:
    """Return a batch of columns of text with the bytes of its cells exchanged by the table `exchange`.

    `CsvFormat.open_converted` has exchanged quotes with other characters, also within cells. This function exchanges
    them back.
    """
    columns = []
    for column in batch.columns:
        validity, offsets, cells = column.buffers()
        swapped = None if cells is None else pa.py_buffer(cells.to_pybytes().translate(exchange))
        buffers = [validity, offsets, swapped]
        columns.append(pa.Array.from_buffers(column.type, len(column), buffers, offset=column.offset))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def decode_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return an Arrow column of bytes as a column of text, with null for bytes that are not UTF-8."""
    chunks = [pa.array([utf8_text(cell) for cell in chunk.to_pylist()], pa.string()) for chunk in column.chunks]
    return pa.chunked_array(chunks, pa.string())


def utf8_text(cell: bytes | None) -> str | None:
    """Return the bytes of `cell` as text; None if they are not UTF-8, or if `cell` is None."""
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None

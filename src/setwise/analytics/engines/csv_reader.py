"""CSV files as batches of text: one rule for every engine, under which no line decides about another (`csv_records`).

Empty cells, quoted or not, are null, and so are cells that are not text in the file's encoding.

The holder says by the options which lines stand above the rows. For the names of columns these lines alone are looked
at, never a row. So a file without a header must be called one: its first line would be taken for names, and its first
user would be lost.
"""

import csv
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from setwise.analytics.engines.csv_format import MARKS, UNIT_SEPARATOR, CsvFormat, codec_name, distinct
from setwise.analytics.engines.csv_records import Layout, Records

LONGEST_HEADER = 1_000_000
"""Bytes of a CSV file within which its header must end."""
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", "::": "double colons", ",": "commas"}
"""The usual separators, and what a message calls them."""
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
    """A first line that is no header; the message says why, and which option reads the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The names of the columns, where the first row begins in bytes, and whether lines end in CR LF."""

    names: tuple[str, ...]
    start: int
    crlf: bool


def read_header(file: BinaryIO, form: CsvFormat) -> Header:
    """Return the header of a file that `form` has opened, or raise `UnreadableHeader`; an empty file has no names."""
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
    if not form.certain and (problem := value_among(names) or _other_separator(names, form)):
        raise UnreadableHeader(problem)
    if not distinct(names):
        raise UnreadableHeader(_unnamed(names, form))
    return Header(names=names, start=end, crlf=line.endswith(b"\r\n"))


def value_among(names: Sequence[str]) -> str:
    """Return what to say of names that look like the values of a row, or ""; no value is repeated."""
    for place, name in enumerate(names, start=1):
        for kind, pattern in _VALUES.items():
            if pattern.fullmatch(name):
                return (
                    f"cell {place} of its first line is {kind}, so that line looks like a row and not like a header: "
                    "give --no-header --columns A,B,... for a file without a header, --skip-lines N for lines above "
                    "the header, or --header if these are the names"
                )
    return ""


def suggested_names(names: Sequence[str]) -> list[str]:
    """Return names for columns that can stand after --columns: as they are where they can, and distinct.

    >>> suggested_names(["", "user", "user", "a,b"])
    ['column_1', 'user', 'user_3', 'a_b']
    """
    found: list[str] = []
    for place, name in enumerate(names, start=1):
        plain = re.sub(r"[^\w .:/()-]+", "_", name).strip("_ ") or f"column_{place}"
        found.append(plain if plain not in found else f"{plain}_{place}")
    return found


def _names(line: bytes, form: CsvFormat) -> tuple[str, ...]:
    """Return the cells of a header line, without blanks around them, or raise `UnreadableHeader`."""
    for archive, remedy in _ARCHIVES.items():
        if line.startswith(archive):
            raise UnreadableHeader(remedy)
    if line[:2] in MARKS or line.count(b"\0") > len(line) // 3:
        order = "" if line[:2] in MARKS else "-be" if line[:1] == b"\0" else "-le"
        raise UnreadableHeader(f"it is written in UTF-16: give --encoding utf-16{order}")
    try:
        text = line.removeprefix(_BOM).decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        given = codec_name(form.encoding)
        raise UnreadableHeader(
            f"its header is not {'UTF-8' if given == 'utf-8' else given}: give --encoding cp1252 (Western European), "
            "or the encoding it was written in"
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
    return tuple(cell.replace(UNIT_SEPARATOR, form.separator).strip() for cell in cells)


def _other_separator(names: tuple[str, ...], form: CsvFormat) -> str:
    """Return what to say of one name with another separator in it, or ""."""
    if len(names) != 1:
        return ""
    found = max(SEPARATORS, key=lambda separator: (names[0].count(separator), len(separator)))
    if found == form.separator or found not in names[0]:
        return ""
    return (
        f"its header has one name with {SEPARATORS[found]}: give --separator {written(found)}, or --header if it is one"
    )


def written(separator: str) -> str:
    """Return a separator as it is written on the command line."""
    return "tab" if separator == "\t" else shlex.quote(separator)


def _unnamed(names: tuple[str, ...], form: CsvFormat) -> str:
    if not any(names):
        return (
            f"its header line is blank: give --skip-lines {form.skip_lines + 1}, or more if the header is further down"
        )
    empty = next((place for place, name in enumerate(names, start=1) if not name), None)
    twice = next((name for place, name in enumerate(names) if name in names[:place]), "")
    problem = f"name {empty} of its header is empty" if empty else f"its header has the name {twice!r} twice"
    named = shlex.quote(",".join(suggested_names(names)))
    return (
        f"{problem}: give --skip-lines {form.skip_lines + 1} --no-header --columns {named}, or --skip-lines N if the "
        "header stands further down"
    )


def _start_of(file: BinaryIO, lines: int) -> bytes:
    """Return the start of a file: at least `lines` lines where it has them."""
    start = b""
    while len(start) < LONGEST_HEADER and start.count(b"\n") < lines and (read := file.read(2**13)):
        start += read
    return start or file.read(2**13)


def _line_end(start: bytes, lines: int) -> int:
    """Return where a number of lines ends."""
    place = 0
    for _ in range(lines):
        end = start.find(b"\n", place) + 1
        if end == 0:
            return min(len(start), LONGEST_HEADER)
        place = end
    return place


OpenFile = Callable[[], BinaryIO]


class CsvFile:
    """One CSV file, whose header is read at once and whose records as often as they are asked for.

    Raises `UnreadableHeader` unless the file begins with a header of distinct names; an empty file has no names.
    """

    def __init__(self, open_file: OpenFile, form: CsvFormat) -> None:
        self._open = open_file
        self._format = form
        with open_file() as file:
            self._header = read_header(file, form)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self._header.names

    def batches(self, columns: Sequence[str], layout: Layout | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the chosen columns as text, in the order of the file."""
        if not self.names:
            return
        layout = layout or Layout(width=len(self.names), separator=ord(self._format.mark), crlf=self._header.crlf)
        records = Records(self._open, self._header.start, layout)
        for block, settled in records.blocks():
            batches = self._parsed(records, block, settled, columns)
            quoted = len(self._format.separator) > 1 and b'"' in block
            yield from map(self._with_separators, batches) if quoted else batches

    def _with_separators(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return cells with the separator as it was written: in quotes it is part of them."""
        cells = [pc.replace_substring(column, UNIT_SEPARATOR, self._format.separator) for column in batch.columns]
        return pa.RecordBatch.from_arrays(cells, names=batch.schema.names)

    def _parsed(self, records: Records, block: bytes, settled: bool, columns: Sequence[str]) -> list[pa.RecordBatch]:
        try:
            return list(self._table(block, columns, pa.string()).to_batches())
        except pa.ArrowInvalid:  # a line of another width, or a cell that is not UTF-8
            kept = block if settled else records.kept(block)[0]
        if not kept:
            return []
        table = self._table(kept, columns, pa.binary())
        texts = [decoded(column) for column in table.columns]
        return list(pa.table(texts, names=list(columns)).to_batches())

    def _table(self, data: bytes, columns: Sequence[str], kind: pa.DataType) -> pa.Table:
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


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return bytes as text, null where they are not UTF-8."""
    chunks = [pa.array([utf8_text(cell) for cell in chunk.to_pylist()], pa.string()) for chunk in column.chunks]
    return pa.chunked_array(chunks, pa.string())


def utf8_text(cell: bytes | None) -> str | None:
    """Return bytes as text, None where they are not UTF-8."""
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None

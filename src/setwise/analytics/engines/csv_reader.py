"""CSV files as batches of text: one rule for every engine, under which no line decides about another (`csv_records`).

Empty cells, quoted or not, are null, and so are cells that are not text in the file's encoding.
"""

import codecs
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.csv as pa_csv

from setwise.analytics.engines.csv_records import Layout, Records

LONGEST_HEADER = 1_000_000
"""Bytes of a CSV file within which its header must end."""
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}

OpenFile = Callable[[], BinaryIO]


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """How a table is written as CSV.

    `columns` are the names of the columns of files without a header; their lines may end either way. `encoding` is
    UTF-8 or one of a byte per character that holds ASCII: in others a damaged byte could shift all that follow.

    >>> CsvFormat(separator=";", encoding="cp1252").separator
    ';'
    >>> CsvFormat(encoding="utf-16")
    Traceback (most recent call last):
        ...
    ValueError: the encoding must be utf-8 or one of a byte per character such as cp1252, not 'utf-16'
    """

    separator: str = ","
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or not self.separator.isascii() or self.separator in '\r\n"':
            raise ValueError(f"the separator must be one ASCII character but no quote, not {self.separator!r}")
        if self.columns is not None and not _distinct(self.columns):
            raise ValueError(f"columns must be distinct names, not {', '.join(map(repr, self.columns)) or 'none'}")
        if not self._is_utf8() and _characters(self.encoding) is None:
            raise ValueError(
                f"the encoding must be utf-8 or one of a byte per character such as cp1252, not {self.encoding!r}"
            )

    def opened(self, file: BinaryIO, compression: str | None) -> BinaryIO:
        """Return the file decompressed and in UTF-8."""
        plain = file if compression is None else cast(BinaryIO, pa.CompressedInputStream(file, compression))
        return plain if self._is_utf8() else cast(BinaryIO, _Transcoded(plain, _characters(self.encoding) or {}))

    def _is_utf8(self) -> bool:
        try:
            return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")
        except LookupError:
            return False


class CsvFile:
    """One CSV file, whose header is read at once and whose records as often as they are asked for.

    Raises `ValueError` unless the file begins with a header of distinct names; an empty file has no names.
    """

    def __init__(self, open_file: OpenFile, form: CsvFormat) -> None:
        self._open = open_file
        self._format = form
        self._start, self._crlf = 0, True
        if form.columns is not None:
            self.names = form.columns
            return
        with open_file() as file:
            line = _first_line(file)
        self._start, self._crlf = len(line), line.endswith(b"\r\n")
        text = line.decode("utf-8-sig").rstrip("\n")
        self.names = tuple(next(csv.reader([text.removesuffix("\r")], delimiter=form.separator), ())) if line else ()
        if line and not _distinct(self.names):
            raise ValueError("the first line is no header")

    def batches(self, columns: Sequence[str], layout: Layout | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the chosen columns as text, in the order of the file."""
        if not self.names:
            return
        layout = layout or Layout(width=len(self.names), separator=ord(self._format.separator), crlf=self._crlf)
        records = Records(self._open, self._start, layout)
        for block, settled in records.blocks():
            yield from self._parsed(records, block, settled, columns)

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
                delimiter=self._format.separator, newlines_in_values=True, ignore_empty_lines=False
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
    chunks = [pa.array([_text(cell) for cell in chunk.to_pylist()], pa.string()) for chunk in column.chunks]
    return pa.chunked_array(chunks, pa.string())


def _text(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


class _Transcoded:
    """A file of a single-byte encoding, read as UTF-8; a byte that is no character becomes one that is not UTF-8."""

    def __init__(self, file: BinaryIO, characters: dict[int, str]) -> None:
        self._file = file
        self._characters = characters

    def read(self, size: int) -> bytes:
        """Return about so many bytes, and none only at the end."""
        text = self._file.read(size).decode("latin-1").translate(self._characters)
        return text.encode("utf-8", "surrogateescape")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "_Transcoded":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _characters(encoding: str) -> dict[int, str] | None:
    """Return the character of every byte of a single-byte encoding that holds ASCII, or None for other encodings."""
    every = range(256)
    try:
        characters = {byte: bytes([byte]).decode(encoding, "replace") for byte in every}
        pairs = bytes(byte for first in every for second in every for byte in (first, second)).decode(
            encoding, "replace"
        )
    except (LookupError, UnicodeError):
        return None
    if pairs != "".join(characters[first] + characters[second] for first in every for second in every):
        return None  # some bytes are one character together
    if any(characters[byte] != chr(byte) for byte in range(128)):
        return None
    return {byte: "\udcff" if character == "\ufffd" else character for byte, character in characters.items()}


def _first_line(file: BinaryIO) -> bytes:
    line = b""
    while len(line) < LONGEST_HEADER and b"\n" not in line and (read := file.read(2**13)):
        line += read
    end = line.find(b"\n") + 1
    return line[:end] if end else line[:LONGEST_HEADER]


def _distinct(names: Sequence[str]) -> bool:
    return bool(names) and len(set(names)) == len(names) and all(names)

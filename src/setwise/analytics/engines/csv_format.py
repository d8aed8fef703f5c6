"""How CSV files are written, as their holder says, and their bytes in one form: UTF-8 with one byte between cells.

The `csv_*` modules import nothing else of Setwise, because Spark sends them to its executors.
"""

import codecs
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
UTF_16 = ("utf-16", "utf-16-le", "utf-16-be")
MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
"""The byte order marks of UTF-16, and which order each tells."""
UNIT_SEPARATOR = "\x1f"
"""What stands for a separator of several characters; bytes of this value that a file has itself become `_NO_TEXT`."""
_NO_TEXT = b"\xff"
_LONGEST_SEPARATOR = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """How a table is written as CSV.

    `columns` are the names of the columns of files without a header; their lines may end either way. `encoding` is
    UTF-8, UTF-16 or one of a byte per character that holds ASCII: in others a damaged byte could shift all that follow.
    `skip_lines` says how many lines stand above the header, or above the first row. `certain` says that the first line
    is a header even if it looks like a row. `compression` is that of every file; None goes by their names.

    >>> CsvFormat(separator=";", encoding="cp1252").separator
    ';'
    >>> CsvFormat(encoding="gbk")
    Traceback (most recent call last):
        ...
    ValueError: the encoding must be utf-8, utf-16 or one of a byte per character such as cp1252, not 'gbk'
    """

    separator: str = ","
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    skip_lines: int = 0
    certain: bool = False
    compression: str | None = None

    def __post_init__(self) -> None:
        plain = all(character == "\t" or " " <= character <= "~" for character in self.separator.replace('"', "\n"))
        if not 1 <= len(self.separator) <= _LONGEST_SEPARATOR or not plain:
            raise ValueError(
                "the separator must be one to eight tabs or printable ASCII characters but no quote, not "
                f"{self.separator!r}"
            )
        if self.columns is not None and not distinct(self.columns):
            raise ValueError(f"columns must be distinct names, not {', '.join(map(repr, self.columns)) or 'none'}")
        if self.skip_lines < 0:
            raise ValueError(f"the lines to skip must be 0 or more, not {self.skip_lines}")
        name = codec_name(self.encoding)
        if name not in ("utf-8", *UTF_16) and _characters(name) is None:
            raise ValueError(
                "the encoding must be utf-8, utf-16 or one of a byte per character such as cp1252, not "
                f"{self.encoding!r}"
            )

    @property
    def mark(self) -> str:
        """The one character between cells in what `opened` returns."""
        return self.separator if len(self.separator) == 1 else UNIT_SEPARATOR

    def decompressed(self, file: BinaryIO, name: str) -> BinaryIO:
        """Return the bytes of a file of that name without its compression."""
        found = COMPRESSIONS.get(os.path.splitext(name)[1].lower()) if self.compression is None else self.compression
        return cast(BinaryIO, pa.CompressedInputStream(file, found)) if found else file

    def opened(self, file: BinaryIO, name: str) -> BinaryIO:
        """Return a file of that name decompressed, in UTF-8, with `mark` between cells."""
        plain = self.decompressed(file, name)
        encoding = codec_name(self.encoding)
        if encoding in UTF_16:
            plain = cast(BinaryIO, _Changed(plain, _Utf16(encoding)))
        elif encoding != "utf-8":
            plain = cast(BinaryIO, _Changed(plain, _single_byte(_characters(encoding) or {})))
        if len(self.separator) > 1:
            plain = cast(BinaryIO, _Changed(plain, _OneMark(self.separator.encode())))
        return plain


class _Changed:
    """A file whose bytes are changed as they are read; `change` gets b"" at the end of the file."""

    def __init__(self, file: BinaryIO, change: Callable[[bytes], bytes]) -> None:
        self._file = file
        self._change = change
        self._left = b""  # changed and not yet returned

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, and none only at the end."""
        while not self._left and (read := self._file.read(size)):
            self._left = self._change(read)
        found = self._left or self._change(b"")
        self._left = found[size:]
        return found[:size]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "_Changed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _single_byte(characters: dict[int, str]) -> Callable[[bytes], bytes]:
    """Return the change of a single-byte encoding to UTF-8; a byte that is no character becomes one that is no text."""
    return lambda read: read.decode("latin-1").translate(characters).encode("utf-8", "surrogateescape")


class _Utf16:
    """The change of UTF-16 to UTF-8; half a pair of surrogates becomes bytes that are no text."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._start = b""
        self._decoder: codecs.IncrementalDecoder | None = None

    def __call__(self, read: bytes) -> bytes:
        if self._decoder is None:
            self._start += read
            if read and len(self._start) < 2:
                return b""
            order = MARKS.get(self._start[:2])
            read = self._start[2:] if order is not None and self._encoding in ("utf-16", order) else self._start
            order = order or "utf-16-le" if self._encoding == "utf-16" else self._encoding
            self._decoder = codecs.getincrementaldecoder(order)("surrogatepass")
        try:
            return self._decoder.decode(read, final=not read).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # a byte too few at the end
            self._decoder.reset()
            return _NO_TEXT


class _OneMark:
    """The change of a separator of several characters to the unit separator, wherever reads begin and end."""

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        self._held = b""

    def __call__(self, read: bytes) -> bytes:
        if not read:
            held, self._held = self._held, b""
            return held
        whole = self._held + read.replace(UNIT_SEPARATOR.encode(), _NO_TEXT)
        *cells, last = whole.split(self._separator)
        begun = next(
            (size for size in range(len(self._separator) - 1, 0, -1) if last.endswith(self._separator[:size])), 0
        )
        self._held = last[len(last) - begun :]
        return UNIT_SEPARATOR.encode().join([*cells, last[: len(last) - begun]])


def codec_name(encoding: str) -> str:
    """Return an encoding's usual name, or as it was given if there is none of that name."""
    try:
        return codecs.lookup(encoding).name.removesuffix("-sig")
    except LookupError:
        return encoding


def distinct(names: tuple[str, ...]) -> bool:
    """Return whether there are names, each of them different and none empty."""
    return bool(names) and len(set(names)) == len(names) and all(names)


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

"""The CSV options that the data holder declares (separator, quotes, encoding, compression), and conversion to UTF-8.

Every CSV file, however it is written, is converted to one form before it is split into cells: UTF-8, with one byte
between cells, and double quotes around cells that need them. Numbers and dates inside cells are read later, as a
`CellGrammar` in typed_cells.py says. The `csv_*` modules import nothing else of Setwise, because Spark sends them to
its executors.
"""

import codecs
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""The compressions that are read, by the ending of a file's name."""
UTF_16 = ("utf-16", "utf-16-le", "utf-16-be")
MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
"""The byte order marks of UTF-16, and the encoding that each shows."""
UNIT_SEPARATOR = "\x1f"
"""The character that replaces a separator of several characters.

A byte of this value that the file itself contains becomes `_NO_TEXT`.
"""
INVISIBLE = "".join(
    chr(code)
    for code in (*range(9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F, 0xAD, 0x200B, 0x200E, 0x200F, 0x2060, 0xFEFF)
)
"""Characters that are not seen: NUL and other control characters, soft hyphens, marks of direction and of byte order.

Tabs and line ends are not among them. Nor are the joiners of Persian words and of emojis, because words with and
without these differ.
"""
QUOTES = ('"', "'", "none")
"""The characters in which cells may stand, and "none" for files in which quotes are text like any other character."""
_EXCHANGES = {"'": bytes.maketrans(b"\"'", b"'\""), "none": bytes.maketrans(b'"\x1d', b'\x1d"')}
"""Tables for `bytes.translate`, by the quote of a file, that make double quotes the only ones with a meaning.

They exchange double quotes with single ones, or with a control character that no text has, and are applied to cells
again after parsing.
"""
_NO_TEXT = b"\xff"
"""A byte that is never valid UTF-8, so that its cell is read as null."""
_LONGEST_SEPARATOR = 8
"""The most characters of a separator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """How the CSV files of a table are written.

    - `separator` is the text between cells, of one to eight characters.
    - `quote` is the character around cells that have separators or line ends in them: a double or a single quote. If
      it is "none", no cell stands in quotes, and a quote is part of the text.
    - `columns` are the column names of files without a header. None means that the files have a header.
    - `encoding` is UTF-8, UTF-16, or an encoding of one byte per character that contains ASCII.
    - `skip_lines` is the number of lines above the header or, in files without one, above the first row.
    - `certain` says that the first line is a header even if it looks like a row.
    - `compression` is the compression of every file, such as gzip; "" means none. If it is None, the ending of each
      file's name decides.

    Raises: ValueError for bad values.

    >>> CsvFormat(separator=";", encoding="cp1252").separator
    ';'
    >>> CsvFormat(encoding="gbk")
    Traceback (most recent call last):
        ...
    ValueError: the encoding must be utf-8, utf-16 or one of a byte per character such as cp1252, not 'gbk'
    """

    separator: str = ","
    quote: str = '"'
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    skip_lines: int = 0
    certain: bool = False
    compression: str | None = None

    def __post_init__(self) -> None:
        plain = all(character == "\t" or " " <= character <= "~" for character in re.sub("[\"']", "\n", self.separator))
        if not 1 <= len(self.separator) <= _LONGEST_SEPARATOR or not plain:
            raise ValueError(
                "the separator must be one to eight tabs or printable ASCII characters but no quote, not "
                f"{self.separator!r}"
            )
        if self.quote not in QUOTES:
            raise ValueError(f"the quote must be \", ' or none, not {self.quote!r}")
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
        """The one character between cells in the UTF-8 streams that `CsvFormat.open_converted` returns.

        It is the separator of the CSV files. If that has several characters, it is `UNIT_SEPARATOR` (byte 31), by which
        they are replaced.
        """
        return self.separator if len(self.separator) == 1 else UNIT_SEPARATOR

    @property
    def exchange(self) -> bytes | None:
        """The table for `bytes.translate` by which bytes are exchanged before and after parsing; None for no exchange.

        Parsers take double quotes for the ends of cells. In a file with cells in single quotes, the two kinds of quotes
        are exchanged; in a file without quotes around cells, double quotes with a control character.
        """
        return _EXCHANGES.get(self.quote)

    def decompress(self, file: BinaryIO, name: str) -> BinaryIO:
        """Return a stream of the decompressed bytes of `file`, or `file` itself if it is not compressed.

        If the `compression` of this format is None, the ending of the file's name `name`, such as .gz, shows how the
        file is compressed.
        """
        compression = (
            COMPRESSIONS.get(os.path.splitext(name)[1].lower()) if self.compression is None else self.compression
        )
        return cast(BinaryIO, pa.CompressedInputStream(file, compression)) if compression else file

    def open_converted(self, file: BinaryIO, name: str) -> BinaryIO:
        """Return a stream of `file` decompressed and in UTF-8, with one character, `CsvFormat.mark`, between cells.

        The mark is the separator or, if that has several characters, `UNIT_SEPARATOR`. `name` is the file's name, whose
        ending may show the compression. If the `quote` of the format is not a double quote, bytes are exchanged so that
        only double quotes stand around cells (`exchange`). The reader of a cell exchanges them back.
        """
        plain = self.decompress(file, name)
        encoding = codec_name(self.encoding)
        if encoding in UTF_16:
            plain = cast(BinaryIO, _ConvertedStream(plain, _Utf16Converter(encoding)))
        elif encoding != "utf-8":
            plain = cast(BinaryIO, _ConvertedStream(plain, _single_byte_converter(_characters(encoding) or {})))
        if len(self.separator) > 1:
            plain = cast(BinaryIO, _ConvertedStream(plain, _SeparatorReplacer(self.separator.encode())))
        exchange = self.exchange
        if exchange is not None:  # in UTF-8 no other character has the byte of a quote
            plain = cast(BinaryIO, _ConvertedStream(plain, lambda read: read.translate(exchange)))
        return plain


class _ConvertedStream:
    """A byte stream of the contents of `file`, converted block by block with the function `change`.

    At the end of the file `change` is called with b"", to return bytes that it held back from earlier blocks.
    """

    def __init__(self, file: BinaryIO, change: Callable[[bytes], bytes]) -> None:
        self._file = file
        self._change = change
        self._converted = b""  # converted bytes that were not returned yet

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes of the converted stream; b"" only at the end of the file."""
        while not self._converted and (read := self._file.read(size)):
            self._converted = self._change(read)
        converted = self._converted or self._change(b"")
        self._converted = converted[size:]
        return converted[:size]

    def close(self) -> None:
        """Close the file whose bytes this stream converts."""
        self._file.close()

    def __enter__(self) -> "_ConvertedStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _single_byte_converter(characters: dict[int, str]) -> Callable[[bytes], bytes]:
    """Return a function that converts bytes of a single-byte encoding to UTF-8.

    `characters` maps each byte to its character, or to a lone surrogate (a code point that is no character) if the
    encoding has no character for the byte. Such a byte is converted to a byte that is not valid UTF-8, so that its cell
    becomes null.
    """
    return lambda read: read.decode("latin-1").translate(characters).encode("utf-8", "surrogateescape")


class _Utf16Converter:
    """A callable that converts a UTF-16 byte stream to UTF-8: each call takes one block of bytes, the last call b"".

    `encoding` is Python's name of the variant of UTF-16. A byte order mark is removed. Half of a surrogate pair, which
    is no character, becomes bytes that are not valid UTF-8.
    """

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
        except UnicodeDecodeError:  # the file ends in the middle of a character
            self._decoder.reset()
            return _NO_TEXT


class _SeparatorReplacer:
    """A callable that replaces `separator`, which has several characters, by the one character `UNIT_SEPARATOR`.

    Each call takes the next block of bytes of a stream and returns converted bytes. Bytes at the end of a block that
    may begin a separator are held back for a later call. A call with b"" ends the stream and returns them.
    """

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        self._held = b""

    def __call__(self, read: bytes) -> bytes:
        if not read:
            last_bytes, self._held = self._held, b""
            return last_bytes
        whole = self._held + read.replace(UNIT_SEPARATOR.encode(), _NO_TEXT)
        *cells, last = whole.split(self._separator)
        begun = next(
            (size for size in range(len(self._separator) - 1, 0, -1) if last.endswith(self._separator[:size])), 0
        )
        self._held = last[len(last) - begun :]
        return UNIT_SEPARATOR.encode().join([*cells, last[: len(last) - begun]])


def codec_name(encoding: str) -> str:
    """Return Python's usual name of `encoding`, such as utf-8 for UTF8; an unknown name is returned unchanged."""
    try:
        return codecs.lookup(encoding).name.removesuffix("-sig")
    except LookupError:
        return encoding


def distinct(names: tuple[str, ...]) -> bool:
    """Return whether `names` are usable as column names: at least one, all different, and none of them empty.

    Names that differ only in upper and lower case are not different, because SQL takes them for one column.
    """
    return bool(names) and len({name.lower() for name in names}) == len(names) and all(names)


_KNOWN_CHARACTERS: dict[str, dict[int, str]] = {}
"""What `_characters` returned for each single-byte encoding, because computing it takes 26 ms.

A dictionary, because Spark's executors get this module by value, and a function with `lru_cache` by the module's name.
"""


def _characters(encoding: str) -> dict[int, str] | None:
    """Return the character of each byte 0 to 255 in a single-byte `encoding`; None for other encodings.

    The result is also None if bytes below 128 are not ASCII. A byte without a character maps to a lone surrogate (a
    code point that is no character).
    """
    if encoding in _KNOWN_CHARACTERS:
        return _KNOWN_CHARACTERS[encoding]
    all_bytes = range(256)
    try:
        characters = {byte: bytes([byte]).decode(encoding, "replace") for byte in all_bytes}
        pairs = bytes(byte for first in all_bytes for second in all_bytes for byte in (first, second)).decode(
            encoding, "replace"
        )
    except (LookupError, UnicodeError):
        return None
    if pairs != "".join(characters[first] + characters[second] for first in all_bytes for second in all_bytes):
        return None  # two bytes together can form one character
    if any(characters[byte] != chr(byte) for byte in range(128)):
        return None
    known = {byte: "\udcff" if character == "\ufffd" else character for byte, character in characters.items()}
    _KNOWN_CHARACTERS[encoding] = known
    return known

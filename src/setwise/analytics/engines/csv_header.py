"""The header of a CSV file: its names, or which option reads a file whose first line is no header.

The holder says by the options which lines stand above the rows. These lines alone are looked at here, never a row. So a
file without a header must be called one: its first line would be taken for names, and its first user would be lost.
"""

import csv
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from setwise.analytics.engines.csv_format import MARKS, UNIT_SEPARATOR, CsvFormat, codec_name, distinct

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

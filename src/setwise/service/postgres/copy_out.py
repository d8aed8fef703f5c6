r"""COPY (SELECT ...) TO STDOUT: parses the statement, and writes rows in PostgreSQL's text, CSV and binary form.

psql's \copy, and drivers that read whole results at once (ADBC, connectorx, polars), send this statement. The SELECT
inside is charged like any other, and repeating it returns the stored answer. A COPY of a whole table, and a COPY that
names a file or a program, is refused.
"""

import re
import struct
from collections.abc import Callable, Sequence

from setwise.service.postgres.replies import CopyFormat, Rejected, Result
from setwise.service.postgres.statements import OPAQUE
from setwise.service.postgres.values import ResultColumn, encode

BINARY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
BINARY_TRAILER = struct.pack("!h", -1)
"""The bytes before and after the rows of the binary form."""

_PARENTHESES = re.compile(rf"{OPAQUE}|(?P<open>\()|(?P<close>\))", re.DOTALL)
_COPY_QUERY = re.compile(r"COPY\s*(?=\()", re.IGNORECASE)
_TO_STDOUT = re.compile(r"\s*TO\s+STDOUT\b(.*)", re.IGNORECASE | re.DOTALL)
_OPTION = re.compile(
    r"[\s,()]*(?:"
    r"(?:FORMAT\s+)?'?(?P<form>BINARY|CSV|TEXT)\b'?"
    r"|HEADER\b(?:\s+'?(?P<header>TRUE|FALSE|ON|OFF|0|1)\b'?)?"
    r"|DELIMITER\s+(?:AS\s+)?E?'(?P<delimiter>\\t|[^'\\])'"
    r"|NULL\s+(?:AS\s+)?'(?P<null>[^'\\]{0,20})'"
    r"|ENCODING\s+'UTF-?8'"
    r"|WITH\b"
    r")[\s,()]*",
    re.IGNORECASE,
)


def parse_copy(text: str) -> tuple[str, CopyFormat]:
    """Return the SELECT inside the COPY statement `text`, and the format in which its rows are sent.

    Raises `Rejected` for a COPY that writes to a table, that copies a whole table or that names a file, and for options
    that are not known.
    """
    begin = _COPY_QUERY.match(text)
    end = _closing_parenthesis(text, begin.end()) if begin else None
    target = _TO_STDOUT.fullmatch(text, end + 1) if end is not None else None
    if begin is None or end is None or target is None:
        raise Rejected(
            "42501",
            "permission denied to copy rows: only the answer of a SELECT can be copied",
            "COPY (SELECT ...) TO STDOUT, or \\copy (SELECT ...) TO 'file' in psql.",
        )
    return text[begin.end() + 1 : end].strip(), _parse_options(target[1])


def _closing_parenthesis(text: str, begin: int) -> int | None:
    """Return the index in `text` of the parenthesis that closes the opening parenthesis at the index `begin`.

    Parentheses in quotes are skipped. Returns None if no parenthesis closes it.
    """
    depth = 0
    for match in _PARENTHESES.finditer(text, begin):
        depth += (match["open"] is not None) - (match["close"] is not None)
        if depth == 0:
            return match.start()
    return None


def _parse_options(text: str) -> CopyFormat:
    """Return the format that the options `text` of a COPY statement name; raise `Rejected` for unknown options."""
    form, has_header, delimiter, null = "text", False, None, None
    place = 0
    while place < len(text.rstrip(" \t\r\n);")):
        match = _OPTION.match(text, place)
        if match is None:
            raise Rejected("0A000", "COPY has the options FORMAT, HEADER, DELIMITER and NULL here")
        word = match[0].strip(" \t\r\n,(").upper()
        form = (match["form"] or form).lower()
        has_header = (match["header"] or "TRUE").upper() in ("TRUE", "ON", "1") if "HEADER" in word else has_header
        delimiter = match["delimiter"] or delimiter
        null = null if match["null"] is None else match["null"]
        place = match.end()
    is_csv = form == "csv"
    return CopyFormat(
        form=form,
        has_header=has_header,
        delimiter=(delimiter or ("," if is_csv else "\t")).replace("\\t", "\t"),
        null=null if null is not None else "" if is_csv else "\\N",
    )


def encode_header(copied: CopyFormat, columns: Sequence[ResultColumn]) -> bytes:
    """Return the bytes that COPY sends before the first row in the format `copied` (text, CSV or binary).

    For the binary format these are always the same bytes, by which clients recognise the format. For text and CSV they
    are a line with the names of `columns`, or nothing if the statement asks for no header.
    """
    if copied.form == "binary":
        return BINARY_HEADER
    names: list[str | None] = [column.name for column in columns]
    return _line(copied, names) if copied.has_header else b""


def row_encoder(copied: CopyFormat, result: Result) -> Callable[[Sequence[object]], bytes]:
    """Return a function that takes one row of `result` and returns its bytes in the format `copied`.

    The format is the text, CSV or binary format of COPY.
    """
    types = [column.type for column in result.columns]

    def encode_row(row: Sequence[object]) -> bytes:
        """Return the bytes of `row` in COPY's text, CSV or binary format.

        The function around this one was given the format as `copied`, and has listed the columns' types in `types`.
        """
        is_binary = copied.form == "binary"
        cells = [encode(value, type_, int(is_binary)) for value, type_ in zip(row, types, strict=True)]
        if is_binary:
            fields = (struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell for cell in cells)
            return struct.pack("!h", len(cells)) + b"".join(fields)
        return _line(copied, [None if cell is None else cell.decode("utf-8") for cell in cells])

    return encode_row


_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def _line(copied: CopyFormat, cells: Sequence[str | None]) -> bytes:
    """Return one line of a COPY with its line feed, in the format `copied`, which is text or CSV.

    `cells` are the texts of the row's cells, in which None stands for null.
    """
    is_csv = copied.form == "csv"
    written = (
        copied.null if cell is None else _quote(copied, cell) if is_csv else _escape(copied, cell) for cell in cells
    )
    return (copied.delimiter.join(written) + "\n").encode()


def _escape(copied: CopyFormat, cell: str) -> str:
    """Return `cell` as a cell of COPY's text form, with a backslash before special characters.

    Special characters are the delimiter of `copied`, the backslash, and the characters that would end a line.
    """
    return "".join(_ESCAPES.get(letter, f"\\{letter}" if letter == copied.delimiter else letter) for letter in cell)


def _quote(copied: CopyFormat, cell: str) -> str:
    """Return `cell` as a cell of COPY's CSV format, in double quotes only if it could otherwise be misread.

    Without quotes, a cell would be misread if it equals the text for null, or contains the delimiter, a quote or the
    end of a line. The text for null and the delimiter are in `copied`.
    """
    if cell != copied.null and not any(letter in cell for letter in (copied.delimiter, '"', "\n", "\r")):
        return cell
    return '"' + cell.replace('"', '""') + '"'

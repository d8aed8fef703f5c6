"""Values of results and parameters as PostgreSQL types: type identifiers (OIDs), and their text and binary forms."""

import datetime
import json
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from setwise.analytics.schema import Kind
from setwise.service.postgres.messages import ProtocolError

BOOL, INT2, INT4, INT8, OID, TEXT, NAME, VARCHAR = 16, 21, 23, 20, 26, 25, 19, 1043
FLOAT4, FLOAT8, NUMERIC = 700, 701, 1700
DATE, TIMESTAMP, TIMESTAMPTZ, JSON, UNKNOWN = 1082, 1114, 1184, 114, 705
TEXT_ARRAY = 1009

SIZES = {BOOL: 1, INT2: 2, INT4: 4, INT8: 8, OID: 4, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIMESTAMP: 8, TIMESTAMPTZ: 8}
"""Size in bytes of each type of fixed size; other types have none, which the protocol writes as -1."""

_WHOLE = (INT2, INT4, INT8, OID)
"""The types of whole numbers."""

_EPOCH = datetime.datetime(2000, 1, 1)  # PostgreSQL's binary times count microseconds from here, without a zone
_EPOCH_DAY = datetime.date(2000, 1, 1)

TYPE_OF_KIND = {
    Kind.TEXT: TEXT,
    Kind.INTEGER: INT8,
    Kind.FLOAT: FLOAT8,
    Kind.DECIMAL: NUMERIC,
    Kind.BOOLEAN: BOOL,
    Kind.DATE: DATE,
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.INSTANT: TIMESTAMPTZ,
    Kind.IDENTIFIER: TEXT,
    Kind.OTHER: TEXT,
}
"""Per kind of column, the PostgreSQL type under which the catalogue lists it."""

_DUCKDB_TYPES = {
    "BOOLEAN": BOOL,
    "TINYINT": INT2,
    "SMALLINT": INT2,
    "UTINYINT": INT2,
    "USMALLINT": INT4,
    "INTEGER": INT4,
    "UINTEGER": INT8,
    "BIGINT": INT8,
    "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "VARCHAR": TEXT,
    "JSON": JSON,
}


def type_of_duckdb(name: str) -> int:
    """Return the PostgreSQL type identifier for the DuckDB type `name`.

    A type without a counterpart gets the identifier of text.
    """
    if name.endswith("[]"):
        return TEXT_ARRAY
    if name.startswith(("DECIMAL", "HUGEINT", "UBIGINT", "UHUGEINT")):
        return NUMERIC
    return _DUCKDB_TYPES.get(name, TEXT)


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a statement's result: its name, and the identifier (OID) of its PostgreSQL type."""

    name: str
    type: int


def fit(values: Sequence[object], type_: int) -> tuple[int, list[object]]:
    """Return (type, cells): the PostgreSQL type with which a column is sent, and its cells converted to that type.

    `values` are the cells, and `type_` is the type that the client expects. The column gets one of three types:

    - `type_`, if every cell can be converted to it. The conversion is needed because, for example, dates and decimals
      are texts in an answer
    - otherwise float, if `type_` is an integer type and all cells are numbers
    - otherwise text
    """
    try:
        return type_, [None if value is None else _convert_cell(value, type_) for value in values]
    except (ValueError, InvalidOperation):
        if type_ in _WHOLE and all(value is None or isinstance(value, int | float) for value in values):
            return FLOAT8, list(values)
        return TEXT, [None if value is None else _text(value, TEXT) for value in values]


def _convert_cell(value: object, type_: int) -> object:
    """Return a cell `value` as a Python value of the PostgreSQL type `type_`.

    Raises `ValueError`, or `InvalidOperation` for a decimal, if the cell is not of that type.
    """
    if isinstance(value, str):
        return _time_of_label(value, type_) if type_ in (DATE, TIMESTAMP, TIMESTAMPTZ) else _read_text(value, type_)
    if type_ in _WHOLE and isinstance(value, float):
        if not value.is_integer():
            raise ValueError("not an integer")
        return int(value)
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    is_of_type = (
        is_number
        if type_ in (*_WHOLE, FLOAT4, FLOAT8, NUMERIC)
        else isinstance(value, bool)
        if type_ == BOOL
        else isinstance(value, datetime.date)
        if type_ in (DATE, TIMESTAMP, TIMESTAMPTZ)
        else True
    )
    if not is_of_type:
        raise ValueError("not of this type")
    return value


_PERIOD = re.compile(r"(\d{4})(?:-Q([1-4])|-(\d{2}))?")
"""Pattern of the labels of a year, a quarter and a month: 2026, 2026-Q1 and 2026-03."""


def _time_of_label(label: str, type_: int) -> datetime.date:
    """Return the date or time that an answer's `label` states; for a year, quarter or month, its beginning.

    `type_` is the PostgreSQL type to return: a date, or a time with or without zone. Raises `ValueError` if the label
    is not a time.

    >>> _time_of_label("2026-Q2", TIMESTAMP)
    datetime.datetime(2026, 4, 1, 0, 0)
    """
    if period := _PERIOD.fullmatch(label):
        month = 3 * int(period[2]) - 2 if period[2] else int(period[3] or 1)
        moment = datetime.datetime(int(period[1]), month, 1)
    else:
        moment = datetime.datetime.fromisoformat(label)
    if type_ == DATE:
        return moment.date()
    return moment.replace(tzinfo=datetime.UTC) if type_ == TIMESTAMPTZ and moment.tzinfo is None else moment


def encode(value: object, type_: int, format_: int) -> bytes | None:
    """Return a cell `value` as bytes in the text form (`format_` 0) or binary form (1) of the PostgreSQL type `type_`.

    Returns None, which stands for null, if `value` is None.
    """
    if value is None:
        return None
    return _binary(value, type_) if format_ == 1 else _text(value, type_).encode("utf-8", "replace")


def _text(value: object, type_: int) -> str:
    """Return the cell `value` in PostgreSQL's text form; `type_` is the identifier of its type."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, list | tuple):
        return "{" + ",".join(_element(element, type_) for element in value) + "}"
    if isinstance(value, dict):
        return json.dumps(value, default=str)
    return str(value)


def _float_text(value: float) -> str:
    """Return the float `value` in PostgreSQL's text form, with "NaN", "Infinity" and "-Infinity"."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _element(value: object, type_: int) -> str:
    """Return `value`, an element of an array, in PostgreSQL's text form, in double quotes where the form requires them.

    None becomes NULL. `type_` is the identifier of the PostgreSQL type with which the array is sent.
    """
    if value is None:
        return "NULL"
    text = _text(value, type_)
    if text and not any(letter in text for letter in '{},"\\ ') and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _binary(value: object, type_: int) -> bytes:
    """Return `value` as bytes in the binary form of the PostgreSQL type `type_`.

    A value is returned as UTF-8 text if the type's binary form is not supported, or if the value is not of this type.
    """
    match type_, value:
        case 16, bool():
            return b"\1" if value else b"\0"
        case 21, int():
            return struct.pack("!h", value)
        case 23, int():
            return struct.pack("!i", value)
        case 26, int():
            return struct.pack("!I", value)
        case 20, int():
            return struct.pack("!q", value)
        case 700, int() | float():
            return struct.pack("!f", value)
        case 701, int() | float() | Decimal():
            return struct.pack("!d", float(value))
        case 1082, datetime.date():
            return struct.pack("!i", (value - _EPOCH_DAY).days)
        case ((1114 | 1184), datetime.datetime()):
            plain = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
            return struct.pack("!q", (plain - _EPOCH) // datetime.timedelta(microseconds=1))
        case 1700, int() | float() | Decimal():
            return _binary_numeric(Decimal(str(value)))
        case 1009, list() | tuple():
            return _binary_texts(value)
        case _:
            return _text(value, type_).encode("utf-8", "replace")


def _binary_texts(values: Sequence[object]) -> bytes:
    """Return `values` in the binary form of a one-dimensional array of texts; an element that is None is null."""
    head = struct.pack("!iiI", int(bool(values)), int(None in values), TEXT)
    if not values:
        return head
    texts = [None if value is None else _text(value, TEXT).encode("utf-8", "replace") for value in values]
    cells = (struct.pack("!i", -1) if text is None else struct.pack("!i", len(text)) + text for text in texts)
    return head + struct.pack("!ii", len(texts), 1) + b"".join(cells)


def _binary_numeric(value: Decimal) -> bytes:
    """Return `value` in the binary form of PostgreSQL's numeric: its sign, scale and groups of four decimal digits.

    A number that is not finite is sent as NaN.
    """
    if not value.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    sign, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    all_digits = "".join(map(str, digits)) + "0" * max(0, int(exponent))
    all_digits = all_digits.rjust(scale + 1, "0")
    before, after = (all_digits[:-scale], all_digits[-scale:]) if scale else (all_digits, "")
    before = before.lstrip("0")
    before = before.rjust(-(-len(before) // 4) * 4, "0")
    after = after.ljust(-(-len(after) // 4) * 4, "0")
    weight = len(before) // 4 - 1
    groups = [int((before + after)[place : place + 4]) for place in range(0, len(before + after), 4)]
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    head = struct.pack("!hhHh", len(groups), weight if groups else 0, 0x4000 if sign else 0, scale)
    return head + struct.pack(f"!{len(groups)}H", *groups)


def literal(value: bytes | None, type_: int, format_: int) -> str:
    """Return the parameter `value`, as a client sent it, as an SQL literal that cannot inject SQL; NULL for None.

    `type_` is the identifier of the PostgreSQL type, and `format_` is 0 for text and 1 for binary.

    Raises `ProtocolError` for bytes that are not a value of the type.
    """
    if value is None:
        return "NULL"
    try:
        plain = _read_binary(value, type_) if format_ == 1 else _read_text(value.decode("utf-8"), type_)
    except (struct.error, ValueError, InvalidOperation, OverflowError):
        raise ProtocolError("a parameter is not a value of its type") from None
    match plain:
        case bool():
            return "TRUE" if plain else "FALSE"
        case int() | Decimal():
            return f"({plain})" if plain < 0 else str(plain)
        case float():
            if not math.isfinite(plain):
                raise ProtocolError("a parameter is not a finite number")
            return f"({plain!r})" if plain < 0 else repr(plain)
        case datetime.datetime():
            return f"TIMESTAMP '{plain.isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{plain.isoformat()}'"
        case _:
            return "'" + str(plain).replace("'", "''") + "'"


def _read_text(text: str, type_: int) -> object:
    """Return the Python value of a parameter in text form; `type_` is the identifier of its PostgreSQL type.

    Raises `ValueError`, or `InvalidOperation` for a decimal, if the text is not a value of that type.
    """
    if "\0" in text:
        raise ValueError("a text holds no null character")
    if type_ in _WHOLE:
        return int(text)
    if type_ in (FLOAT4, FLOAT8):
        return float(text)
    if type_ == NUMERIC:
        return Decimal(text)
    if type_ == BOOL:
        return text.lower() in ("t", "true", "1", "on", "yes")
    if type_ == DATE:
        return datetime.date.fromisoformat(text)
    if type_ in (TIMESTAMP, TIMESTAMPTZ):
        return datetime.datetime.fromisoformat(text)
    return text


def _read_binary(value: bytes, type_: int) -> object:
    """Return the Python value of a parameter in binary form; `type_` is the identifier of its PostgreSQL type.

    Raises `struct.error` or `ValueError` if the bytes are not a value of that type.
    """
    match type_:
        case 16:
            return value != b"\0"
        case 21:
            return struct.unpack("!h", value)[0]
        case 23:
            return struct.unpack("!i", value)[0]
        case 26:
            return struct.unpack("!I", value)[0]
        case 20:
            return struct.unpack("!q", value)[0]
        case 700:
            return struct.unpack("!f", value)[0]
        case 701:
            return struct.unpack("!d", value)[0]
        case 1082:
            return _EPOCH_DAY + datetime.timedelta(days=struct.unpack("!i", value)[0])
        case 1114 | 1184:
            return _EPOCH + datetime.timedelta(microseconds=struct.unpack("!q", value)[0])
        case 1700:
            return _read_numeric(value)
        case _:
            return value.decode("utf-8")


def _read_numeric(value: bytes) -> Decimal:
    """Return the number in `value`, the binary form of PostgreSQL's numeric; raise `ValueError` if it is not finite."""
    count, weight, sign, scale = struct.unpack("!hhHh", value[:8])
    if sign not in (0, 0x4000):
        raise ValueError("not a finite number")
    groups = struct.unpack(f"!{count}H", value[8:])
    total = sum(Decimal(group).scaleb(4 * (weight - place)) for place, group in enumerate(groups))
    exact = Decimal(total).quantize(Decimal(1).scaleb(-scale)) if scale else Decimal(total)
    return -exact if sign else exact

"""Values of results and parameters as PostgreSQL's types: object identifiers, and text and binary forms."""

import datetime
import json
import math
import struct
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from setwise.analytics.schema import Kind
from setwise.service.postgres.messages import ProtocolError

BOOL, INT2, INT4, INT8, OID, TEXT, NAME, VARCHAR = 16, 21, 23, 20, 26, 25, 19, 1043
FLOAT4, FLOAT8, NUMERIC = 700, 701, 1700
DATE, TIMESTAMP, TIMESTAMPTZ, JSON, UNKNOWN = 1082, 1114, 1184, 114, 705
TEXT_ARRAY = 1009

SIZES = {BOOL: 1, INT2: 2, INT4: 4, INT8: 8, OID: 4, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIMESTAMP: 8, TIMESTAMPTZ: 8}
"""The bytes of a value of each type of fixed size; other types have none, which the protocol writes as -1."""

_EPOCH = datetime.datetime(2000, 1, 1)  # PostgreSQL counts times from here, without a zone
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
"""The type under which a column of each kind is listed in the catalogue."""

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
    """Return the object identifier for a type as DuckDB writes it; types without a counterpart are sent as text."""
    if name.endswith("[]"):
        return TEXT_ARRAY
    if name.startswith(("DECIMAL", "HUGEINT", "UBIGINT", "UHUGEINT")):
        return NUMERIC
    return _DUCKDB_TYPES.get(name, TEXT)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result: its name and the object identifier of its type."""

    name: str
    type: int


def encode(value: object, type_: int, format_: int) -> bytes | None:
    """Return a cell as bytes in the text form (format 0) or the binary form (format 1) of its type; None is null."""
    if value is None:
        return None
    return _binary(value, type_) if format_ == 1 else _text(value, type_).encode("utf-8", "replace")


def _text(value: object, type_: int) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, list | tuple):
        return "{" + ",".join(_element(each, type_) for each in value) + "}"
    if isinstance(value, dict):
        return json.dumps(value, default=str)
    return str(value)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _element(value: object, type_: int) -> str:
    """Return an element of an array in its text form, quoted where the form of arrays needs it."""
    if value is None:
        return "NULL"
    text = _text(value, type_)
    if text and not any(letter in text for letter in '{},"\\ ') and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _binary(value: object, type_: int) -> bytes:
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
        case _:
            return _text(value, type_).encode("utf-8", "replace")


def _binary_numeric(value: Decimal) -> bytes:
    """Return a number as PostgreSQL's numeric: groups of four decimal digits, their weight, sign and scale."""
    if not value.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    sign, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    whole = "".join(map(str, digits)) + "0" * max(0, int(exponent))
    whole = whole.rjust(scale + 1, "0")
    before, after = (whole[:-scale], whole[-scale:]) if scale else (whole, "")
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
    """Return a parameter as a literal to put into the text of a statement.

    Numbers and booleans are written only after they were read as such, and everything else is quoted, so a parameter
    cannot become a part of the statement.

    Raises: `ProtocolError` for bytes that are not a value of the type.
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


_WHOLE = (INT2, INT4, INT8, OID)


def _read_text(text: str, type_: int) -> object:
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
    count, weight, sign, scale = struct.unpack("!hhHh", value[:8])
    if sign not in (0, 0x4000):
        raise ValueError("not a finite number")
    groups = struct.unpack(f"!{count}H", value[8:])
    total = sum(Decimal(group).scaleb(4 * (weight - place)) for place, group in enumerate(groups))
    exact = Decimal(total).quantize(Decimal(1).scaleb(-scale)) if scale else Decimal(total)
    return -exact if sign else exact

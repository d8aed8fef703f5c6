"""Version 3 of PostgreSQL's wire protocol: the bytes of messages, read and written.

Nothing here opens a connection or knows what a statement means. A client's message is read into a record; a message of
the server is a function that returns its bytes. The names are those of PostgreSQL's documentation, "Message Formats".
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

T = TypeVar("T")

PROTOCOL_3 = 196608
"""The protocol version 3.0, as the first number of a startup message."""

_SSL_REQUEST, _GSS_REQUEST, _CANCEL_REQUEST = 80877103, 80877104, 80877102

MOST_PARAMETERS = 65535
"""The most parameters of one Bind message: their number is sent as 16 bits."""


class ProtocolError(Exception):
    """A client sent bytes that are not a message of the protocol; its connection is closed."""


@dataclass(frozen=True, slots=True)
class SslRequest:
    """The client asks whether the connection can be encrypted."""


@dataclass(frozen=True, slots=True)
class GssRequest:
    """The client asks for encryption by GSSAPI, which is not offered."""


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """The client asks, on a connection of its own, to cancel what another connection runs."""

    process: int
    secret: int


@dataclass(frozen=True, slots=True)
class Startup:
    """The client begins a session with these parameters, `user` and `database` among them."""

    version: int
    parameters: Mapping[str, str]


FirstMessage: TypeAlias = SslRequest | GssRequest | CancelRequest | Startup


@dataclass(frozen=True, slots=True)
class Password:
    """The password, in clear text."""

    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """A simple query: the text may hold several statements."""

    text: str


@dataclass(frozen=True, slots=True)
class Parse:
    """Prepares a statement; `types` are the object identifiers of the parameters' types, 0 where unknown."""

    statement: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Gives a prepared statement its parameters; formats are 0 for text and 1 for binary."""

    portal: str
    statement: str
    parameter_formats: tuple[int, ...]
    parameters: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """Asks for the columns of a prepared statement ("S") or of a portal ("P")."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Runs a portal; `most` is the most rows to send, 0 for all."""

    portal: str
    most: int


@dataclass(frozen=True, slots=True)
class Close:
    """Forgets a prepared statement ("S") or a portal ("P")."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Sync:
    """Ends a group of messages of the extended protocol."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Asks for what has been answered so far."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ends the session."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A message of the protocol that this server does not take: COPY data and function calls."""

    kind: str


ClientMessage: TypeAlias = (
    Password | Query | Parse | Bind | Describe | Execute | Close | Sync | Flush | Terminate | Unsupported
)


def read_first_message(body: bytes) -> FirstMessage:
    """Return the first message of a connection from its bytes, without the four bytes of its length.

    Raises: `ProtocolError`.
    """
    reader = _Reader(body)
    code = reader.int32()
    if code == _SSL_REQUEST:
        return SslRequest()
    if code == _GSS_REQUEST:
        return GssRequest()
    if code == _CANCEL_REQUEST:
        return CancelRequest(reader.int32(), reader.uint32())
    parameters = {}
    while (name := reader.text()) != "":
        parameters[name] = reader.text()
    return Startup(code, parameters)


def read_message(kind: bytes, body: bytes) -> ClientMessage:
    """Return a client's message from its type byte and its bytes, without the four bytes of its length.

    Raises: `ProtocolError`.
    """
    reader = _Reader(body)
    match kind:
        case b"Q":
            return Query(reader.text())
        case b"P":
            return Parse(reader.text(), reader.text(), reader.several(reader.uint32))
        case b"B":
            portal, statement = reader.text(), reader.text()
            formats = reader.several(reader.int16)
            values = reader.several(reader.nullable)
            return Bind(portal, statement, formats, values, reader.several(reader.int16))
        case b"D":
            return Describe(reader.letter("SP"), reader.text())
        case b"E":
            return Execute(reader.text(), reader.int32())
        case b"C":
            return Close(reader.letter("SP"), reader.text())
        case b"S":
            return Sync()
        case b"H":
            return Flush()
        case b"X":
            return Terminate()
        case b"p":
            return Password(reader.text())
        case b"d" | b"c" | b"f" | b"F":
            return Unsupported(kind.decode())
        case _:
            raise ProtocolError(f"message type {kind!r} is not of the protocol")


class _Reader:
    """Reads the parts of one message; running past its end is a `ProtocolError`."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._place = 0

    def _take(self, count: int) -> bytes:
        end = self._place + count
        if count < 0 or end > len(self._body):
            raise ProtocolError("a message ends before its contents do")
        taken, self._place = self._body[self._place : end], end
        return taken

    def int16(self) -> int:
        value: int = struct.unpack("!h", self._take(2))[0]
        return value

    def int32(self) -> int:
        value: int = struct.unpack("!i", self._take(4))[0]
        return value

    def uint32(self) -> int:
        value: int = struct.unpack("!I", self._take(4))[0]
        return value

    def text(self) -> str:
        end = self._body.find(b"\0", self._place)
        if end < 0:
            raise ProtocolError("a text has no end")
        raw = self._body[self._place : end]
        self._place = end + 1
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("a text is not UTF-8") from None

    def letter(self, allowed: str) -> str:
        letter = self._take(1).decode("latin-1")
        if letter not in allowed:
            raise ProtocolError(f"expected one of {allowed}, not {letter!r}")
        return letter

    def nullable(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else self._take(length)

    def several(self, read: Callable[[], T]) -> tuple[T, ...]:
        return tuple(read() for _ in range(struct.unpack("!H", self._take(2))[0]))


def _message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def _text(value: str) -> bytes:
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


REFUSE_ENCRYPTION = b"N"
ACCEPT_ENCRYPTION = b"S"
AUTHENTICATION_OK = _message(b"R", struct.pack("!i", 0))
ASK_FOR_PASSWORD = _message(b"R", struct.pack("!i", 3))
PARSE_COMPLETE = _message(b"1")
BIND_COMPLETE = _message(b"2")
CLOSE_COMPLETE = _message(b"3")
NO_DATA = _message(b"n")
PORTAL_SUSPENDED = _message(b"s")
EMPTY_QUERY = _message(b"I")


def parameter_status(name: str, value: str) -> bytes:
    """Return the message that tells a client the value of a setting."""
    return _message(b"S", _text(name) + _text(value))


def backend_key(process: int, secret: int) -> bytes:
    """Return the message with the numbers that a CancelRequest must repeat."""
    return _message(b"K", struct.pack("!iI", process, secret))


def ready(*, in_transaction: bool = False, failed: bool = False) -> bytes:
    """Return the message that the server waits for the next query; clients read their transaction's state from it."""
    return _message(b"Z", (b"E" if failed else b"T") if in_transaction else b"I")


def command_complete(tag: str) -> bytes:
    """Return the message that a statement has ended; the tag is such as "SELECT 3"."""
    return _message(b"C", _text(tag))


def parameter_description(types: Sequence[int]) -> bytes:
    """Return the message with the types of a prepared statement's parameters."""
    return _message(b"t", struct.pack(f"!H{len(types)}I", len(types), *types))


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a result: its name, the object identifier and size of its type, and its format (0 text, 1 binary)."""

    name: str
    type: int
    size: int
    format: int = 0


def row_description(fields: Sequence[Field]) -> bytes:
    """Return the message with the columns of a result."""
    parts = [struct.pack("!H", len(fields))]
    for field in fields:
        parts.append(_text(field.name))
        parts.append(struct.pack("!IhIhih", 0, 0, field.type, field.size, -1, field.format))
    return _message(b"T", b"".join(parts))


def data_row(cells: Sequence[bytes | None]) -> bytes:
    """Return the message with the cells of one row; None is null."""
    parts = [struct.pack("!H", len(cells))]
    for cell in cells:
        parts.append(struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell)
    return _message(b"D", b"".join(parts))


def error(code: str, message: str, *, hint: str = "", severity: str = "ERROR", position: int | None = None) -> bytes:
    """Return the message of an error: SQLSTATE, one sentence, what to do, and the place, in characters from 1."""
    return _message(b"E", _fields(code, message, hint, severity, position))


def notice(message: str, *, hint: str = "") -> bytes:
    """Return a message that clients show beside a result."""
    return _message(b"N", _fields("00000", message, hint, "NOTICE", None))


def _fields(code: str, message: str, hint: str, severity: str, position: int | None) -> bytes:
    fields = {"S": severity, "V": severity, "C": code, "M": message, "H": hint}
    if position is not None:
        fields["P"] = str(position)
    return b"".join(letter.encode() + _text(value) for letter, value in fields.items() if value) + b"\0"

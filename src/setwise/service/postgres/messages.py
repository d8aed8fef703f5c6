"""Version 3 of PostgreSQL's wire protocol: parses the bytes of a client's messages, and writes the server's messages.

Nothing here opens a connection or interprets a statement. A client's message becomes a record; for each message of the
server, a function returns its bytes. The names are taken from PostgreSQL's documentation, "Message Formats".
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
    """Raised if a client sends bytes that are not a valid message of the protocol; its connection is then closed."""


@dataclass(frozen=True, slots=True)
class SslRequest:
    """A client's message that asks whether the connection can be encrypted with TLS."""


@dataclass(frozen=True, slots=True)
class GssRequest:
    """A client's message that asks for encryption by GSSAPI, which is not offered."""


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """A client's message, on a separate connection, that asks to cancel the statement of another connection.

    `process` and `secret` are the numbers that the server sent to the other connection.
    """

    process: int
    secret: int


@dataclass(frozen=True, slots=True)
class Startup:
    """A client's message that begins a session.

    `version` is the protocol version, the major number times 65536 plus the minor number. `parameters` are the client's
    options by name, such as `user` and `database`.
    """

    version: int
    parameters: Mapping[str, str]


FirstMessage: TypeAlias = SslRequest | GssRequest | CancelRequest | Startup


@dataclass(frozen=True, slots=True)
class Password:
    """A client's message with its password, in clear text."""

    text: str


@dataclass(frozen=True, slots=True)
class SimpleQuery:
    """A client's message of the simple protocol: SQL text that may contain several statements."""

    text: str


@dataclass(frozen=True, slots=True)
class Parse:
    """A client's message that prepares the SQL `text` as a statement with the name `statement`.

    `types` are the type identifiers (OIDs) of the statement's parameters, 0 for a type that the client does not know.
    """

    statement: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """A client's message that makes a portal: a prepared statement with parameters, ready to run.

    - `portal`: the name that the portal gets
    - `statement`: the name of the prepared statement
    - `parameters`: the encoded values, None for null
    - `parameter_formats`, `result_formats`: the formats of parameters and result columns, 0 for text and 1 for binary
    """

    portal: str
    statement: str
    parameter_formats: tuple[int, ...]
    parameters: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """A client's message that asks for the result columns of a prepared statement (`kind` "S") or of a portal ("P").

    A portal is a statement with its parameters. `name` is the name of the statement or portal.
    """

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """A client's message that runs the portal called `portal` (a statement with its parameters) and asks for its rows.

    `most` is the most rows to send; 0 means all.
    """

    portal: str
    most: int


@dataclass(frozen=True, slots=True)
class Close:
    """A client's message that drops the prepared statement (`kind` "S") or portal ("P") called `name`.

    A portal is a statement with its parameters.
    """

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Sync:
    """A client's message that ends a group of messages of the extended protocol (Parse, Bind, Execute and others).

    After an error, the server ignores messages until the next Sync.
    """


@dataclass(frozen=True, slots=True)
class Flush:
    """A client's message that asks the server to send its pending responses."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """A client's message that ends the session."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A client's message that this server does not support: data for COPY, or a function call.

    `kind` is the letter with which the message begins.
    """

    kind: str


ClientMessage: TypeAlias = (
    Password | SimpleQuery | Parse | Bind | Describe | Execute | Close | Sync | Flush | Terminate | Unsupported
)


def read_first_message(body: bytes) -> FirstMessage:
    """Return the first message of a connection, parsed from `body`: the bytes that follow its length of four bytes.

    Raises `ProtocolError` if the bytes are none of the messages with which a connection may begin.
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
    """Return a client's message, parsed from its first byte `kind` (its type) and its contents `body`.

    `body` has the bytes after the message's length. Raises `ProtocolError` for an unknown type, or if `body` cannot be
    the contents of a message of this type.
    """
    reader = _Reader(body)
    match kind:
        case b"Q":
            return SimpleQuery(reader.text())
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
    """Parses the integers, texts and bytes of one message in order.

    Its methods raise `ProtocolError` if the message ends too early or has a wrong value.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._place = 0

    def _take(self, count: int) -> bytes:
        """Return the next `count` bytes of the message; raise `ProtocolError` if it has fewer."""
        end = self._place + count
        if count < 0 or end > len(self._body):
            raise ProtocolError("a message ends before its contents do")
        field, self._place = self._body[self._place : end], end
        return field

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
            raise ProtocolError("a text in a message has no closing zero byte")
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
    """Return the bytes of a server message: its type `kind` (one byte), its length and its body."""
    return kind + struct.pack("!I", len(body) + 4) + body


def _text(value: str) -> bytes:
    """Return the text `value` as the protocol writes it: UTF-8 with a closing zero byte."""
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
COPY_DONE = _message(b"c")


def negotiate_version(unknown: Sequence[str]) -> bytes:
    """Return the server message that tells a client to use version 3.0 of the protocol (NegotiateProtocolVersion).

    `unknown` are the names of the client's protocol options that the server does not know.
    """
    return _message(b"v", struct.pack("!ii", PROTOCOL_3, len(unknown)) + b"".join(map(_text, unknown)))


def parameter_status(name: str, value: str) -> bytes:
    """Return the server message (ParameterStatus) that tells a client the `value` of the setting `name`."""
    return _message(b"S", _text(name) + _text(value))


def backend_key(process: int, secret: int) -> bytes:
    """Return the server message with `process` and `secret`, the numbers by which a client can cancel a statement."""
    return _message(b"K", struct.pack("!iI", process, secret))


def ready(*, in_transaction: bool = False, failed: bool = False) -> bytes:
    """Return the server message that tells a client to send its next query (ReadyForQuery).

    The message has the state of the session, as one letter: I outside a transaction, T inside one (`in_transaction`),
    and E inside one that has `failed`.
    """
    return _message(b"Z", (b"E" if failed else b"T") if in_transaction else b"I")


def command_complete(tag: str) -> bytes:
    """Return the server message that tells a client that a statement has run (CommandComplete).

    `tag` says what has run, for example "SELECT 3" for a SELECT with three rows.
    """
    return _message(b"C", _text(tag))


def parameter_description(types: Sequence[int]) -> bytes:
    """Return the server message with the type identifiers (OIDs) `types` of a prepared statement's parameters."""
    return _message(b"t", struct.pack(f"!H{len(types)}I", len(types), *types))


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a result as RowDescription sends it: its name, and the identifier, size and format of its type.

    The size is in bytes, -1 if it varies. The format is 0 for text and 1 for binary.
    """

    name: str
    type: int
    size: int
    format: int = 0


def row_description(fields: Sequence[Field]) -> bytes:
    """Return the server message that describes the columns (`fields`) of a result."""
    parts = [struct.pack("!H", len(fields))]
    for field in fields:
        parts.append(_text(field.name))
        parts.append(struct.pack("!IhIhih", 0, 0, field.type, field.size, -1, field.format))
    return _message(b"T", b"".join(parts))


def data_row(cells: Sequence[bytes | None]) -> bytes:
    """Return the server message with one row of a result; `cells` are its encoded cells, None for null."""
    parts = [struct.pack("!H", len(cells))]
    for cell in cells:
        parts.append(struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell)
    return _message(b"D", b"".join(parts))


def copy_out(columns: int, *, is_binary: bool) -> bytes:
    """Return the server message that announces the rows of a COPY (CopyOutResponse).

    `columns` is the number of columns of each row. `is_binary` says whether the rows come in binary form or as text.
    """
    format_ = int(is_binary)
    return _message(b"H", struct.pack("!bH", format_, columns) + struct.pack("!h", format_) * columns)


def copy_data(data: bytes) -> bytes:
    """Return the server message (CopyData) that carries `data`, one part of the bytes that COPY sends."""
    return _message(b"d", data)


def error(code: str, message: str, *, hint: str = "", severity: str = "ERROR", position: int | None = None) -> bytes:
    """Return the server message of an error: an SQLSTATE `code`, a `message` of one sentence, and an optional `hint`.

    `severity` is "ERROR", or "FATAL" if the connection is then closed. `position` is the place of the error in the
    statement, in characters counted from 1; None leaves it out.
    """
    return _message(b"E", _fields(code, message, hint, severity, position))


def notice(message: str, *, hint: str = "") -> bytes:
    """Return the server message of a notice, which clients show beside a result.

    `message` is a sentence, and `hint` says what to do ("" for none).
    """
    return _message(b"N", _fields("00000", message, hint, "NOTICE", None))


def _fields(code: str, message: str, hint: str, severity: str, position: int | None) -> bytes:
    """Return the fields of an error or notice message as bytes.

    - `code`: the SQLSTATE code
    - `message`: what is wrong, in one sentence
    - `hint`: what to do; "" for no hint
    - `severity`: a word such as "ERROR"
    - `position`: the place of the error in the statement, in characters counted from 1, or None to leave it out
    """
    fields = {"S": severity, "V": severity, "C": code, "M": message, "H": hint}
    if position is not None:
        fields["P"] = str(position)
    return b"".join(letter.encode() + _text(value) for letter, value in fields.items() if value) + b"\0"

"""Connections of PostgreSQL's protocol: startup, encryption, sign-in, simple and extended queries, cancelling.

A connection is bounded in everything that a client chooses: the time to sign in, the time it may be idle, the size of a
message, the statements and portals it keeps, and how many connections there are.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import logging
import re
import secrets
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from setwise.errors import NotSignedIn, SetwiseError, TooManyRequests
from setwise.service.postgres import messages
from setwise.service.postgres.catalogue import Result, read_statements
from setwise.service.postgres.messages import Field, ProtocolError
from setwise.service.postgres.session import REPORTED, Rejected, Reply, Session, Transaction, sqlstate
from setwise.service.postgres.values import SIZES, TEXT, Column, encode, literal

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

_LARGEST_STARTUP = 10_000
"""Bytes of a startup message; PostgreSQL's own limit."""

_MOST_KEPT = 500
"""Prepared statements, and portals, that one connection keeps."""

_FIRST_MESSAGES = 4
"""Messages before a session begins: requests for encryption, and the startup itself."""

_SYNTAX_ERROR, _PROTOCOL_VIOLATION, _INTERNAL = "42601", "08P01", "XX000"

OpenSession = Callable[[str, str, str, str], Awaitable[Session]]
"""Returns the session of (user, database, password, address), or raises `NotSignedIn` or another `SetwiseError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one connection may take, and how many there may be; times are in seconds, sizes in bytes."""

    sign_in_seconds: float = 10.0
    idle_seconds: float = 3600.0
    message_bytes: int = 1 << 20
    connections: int = 200


@dataclass(slots=True)
class _Prepared:
    text: str
    types: tuple[int, ...]


@dataclass(slots=True)
class _Portal:
    """A statement with its parameters; `reply` is kept from Describe to Execute, so that it runs once."""

    text: str
    formats: tuple[int, ...]
    reply: Reply | None = None
    sent: int = 0


@dataclass(slots=True)
class _Running:
    """A connection that can be cancelled: the secret that a CancelRequest must repeat, and what to stop."""

    secret: int
    cancel: Callable[[], Awaitable[None]]


class PostgresDoor:
    """Accepts connections and serves one session on each."""

    def __init__(self, open_session: OpenSession, *, tls: ssl.SSLContext | None, limits: Limits) -> None:
        self._open_session = open_session
        self._tls = tls
        self._limits = limits
        self._running: dict[int, _Running] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._next_process = 1

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Start to listen; the caller closes the server that is returned, and then calls `close`."""
        return await asyncio.start_server(self._accept, host, port, limit=self._limits.message_bytes + 1024)

    async def close(self) -> None:
        """End every connection."""
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) > self._limits.connections:
                writer.write(messages.error("53300", "too many connections; close some", severity="FATAL"))
                return
            await _Connection(self, reader, writer).run()
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError):
            pass  # the client has gone, or was too slow
        except ProtocolError as error:
            with contextlib.suppress(ConnectionError):
                writer.write(messages.error(_PROTOCOL_VIOLATION, str(error), severity="FATAL"))
        except asyncio.CancelledError:
            with contextlib.suppress(ConnectionError):
                writer.write(messages.error("57P01", "the service is shutting down", severity="FATAL"))
        except Exception:
            _LOG.exception("a connection of PostgreSQL's protocol failed")  # the message is ours; no value of a row
            with contextlib.suppress(ConnectionError):
                writer.write(messages.error(_INTERNAL, "the service failed; its log has the reason", severity="FATAL"))
        finally:
            self._connections.discard(task)
            with contextlib.suppress(Exception):
                writer.close()

    def register(self, cancel: Callable[[], Awaitable[None]]) -> tuple[int, int]:
        """Return the process number and the secret by which a connection can be cancelled."""
        process, self._next_process = self._next_process, self._next_process + 1
        secret = secrets.randbits(32)
        self._running[process] = _Running(secret, cancel)
        return process, secret

    def forget(self, process: int) -> None:
        """Forget a connection that has ended."""
        self._running.pop(process, None)

    async def cancel(self, process: int, secret: int) -> None:
        """Cancel what a connection runs, if the secret is its own; a wrong secret is answered by nothing at all."""
        running = self._running.get(process)
        if running is not None and hmac.compare_digest(struct.pack("!I", running.secret), struct.pack("!I", secret)):
            await running.cancel()

    @property
    def limits(self) -> Limits:
        """The limits of each connection."""
        return self._limits

    @property
    def tls(self) -> ssl.SSLContext | None:
        """How connections are encrypted; None if they are not."""
        return self._tls

    async def open_session(self, user: str, database: str, password: str, address: str) -> Session:
        """Return the session of a person on an account."""
        return await self._open_session(user, database, password, address)


class _Connection:
    """One connection from its first byte to its last."""

    def __init__(self, door: PostgresDoor, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._door = door
        self._reader = reader
        self._writer = writer
        self._encrypted = False
        self._prepared: dict[str, _Prepared] = {}
        self._portals: dict[str, _Portal] = {}
        self._skipping = False
        """After an error in the extended protocol messages are ignored until Sync."""

    async def run(self) -> None:
        """Serve the connection until the client leaves, is refused, or is idle for too long."""
        async with asyncio.timeout(self._door.limits.sign_in_seconds):
            session = await self._begin()
        if session is None:
            return
        process, secret = self._door.register(session.asker.cancel)
        try:
            for name in REPORTED:
                self._writer.write(messages.parameter_status(name, session.setting(name) or ""))
            self._writer.write(messages.backend_key(process, secret) + messages.ready())
            await self._writer.drain()
            await self._serve(session)
        finally:
            self._door.forget(process)
            session.catalogue.close()

    async def _begin(self) -> Session | None:
        for _ in range(_FIRST_MESSAGES):
            length = struct.unpack("!I", await self._reader.readexactly(4))[0]
            if not 8 <= length <= _LARGEST_STARTUP:
                raise ProtocolError("the first message has an impossible length")
            first = messages.read_first_message(await self._reader.readexactly(length - 4))
            match first:
                case messages.SslRequest():
                    await self._encrypt()
                case messages.GssRequest():
                    self._writer.write(messages.REFUSE_ENCRYPTION)
                    await self._writer.drain()
                case messages.CancelRequest(process=process, secret=secret):
                    await self._door.cancel(process, secret)
                    return None
                case messages.Startup():
                    return await self._sign_in(first)
        raise ProtocolError("a session did not begin")

    async def _encrypt(self) -> None:
        if self._door.tls is None or self._encrypted:
            self._writer.write(messages.REFUSE_ENCRYPTION)
            await self._writer.drain()
            return
        self._writer.write(messages.ACCEPT_ENCRYPTION)
        await self._writer.drain()
        await self._writer.start_tls(self._door.tls)
        self._encrypted = True

    async def _sign_in(self, startup: messages.Startup) -> Session | None:
        if startup.version >> 16 != messages.PROTOCOL_3 >> 16:
            await self._refuse("0A000", "only version 3 of the protocol is spoken here")
            return None
        address = _address(self._writer)
        if not self._encrypted and not _is_loopback(address):
            await self._refuse(
                "28000", "a password is taken over TLS only", "Connect with sslmode=require, or from this machine."
            )
            return None
        user = startup.parameters.get("user", "")
        self._writer.write(messages.ASK_FOR_PASSWORD)
        await self._writer.drain()
        password = await self._read()
        if not isinstance(password, messages.Password):
            raise ProtocolError("a password was expected")
        try:
            database = startup.parameters.get("database") or user
            session = await self._door.open_session(user, database, password.text, address)
        except NotSignedIn:
            await self._refuse(
                "28P01", f'password authentication failed for user "{user}"', "The password is your access token."
            )
            return None
        except SetwiseError as error:
            await self._refuse(sqlstate(error), str(error))
            return None
        for name, value in startup.parameters.items():
            if name in ("application_name", "client_encoding", "DateStyle", "TimeZone", "options"):
                session.settings[name.lower()] = value[:1000]
        self._writer.write(messages.AUTHENTICATION_OK)
        return session

    async def _refuse(self, code: str, message: str, hint: str = "") -> None:
        self._writer.write(messages.error(code, message, hint=hint, severity="FATAL"))
        await self._writer.drain()

    async def _read(self) -> messages.ClientMessage:
        """Return the next message; a longer one than the limit ends the connection before its bytes are kept."""
        kind = await self._reader.readexactly(1)
        length = struct.unpack("!I", await self._reader.readexactly(4))[0]
        if not 4 <= length <= self._door.limits.message_bytes:
            raise ProtocolError(f"a message may have at most {self._door.limits.message_bytes} bytes")
        return messages.read_message(kind, await self._reader.readexactly(length - 4))

    async def _serve(self, session: Session) -> None:
        while True:
            async with asyncio.timeout(self._door.limits.idle_seconds):
                message = await self._read()
            if isinstance(message, messages.Terminate):
                return
            if self._skipping and not isinstance(message, messages.Sync | messages.Query):
                continue
            try:
                await self._handle(session, message)
            except (Rejected, SetwiseError, ProtocolError) as error:
                self._fail(session, message, error)
            await self._writer.drain()

    def _fail(self, session: Session, message: messages.ClientMessage, error: Exception) -> None:
        if isinstance(error, Rejected):
            code, hint = error.code, error.hint
        elif isinstance(error, SetwiseError):
            code, hint = sqlstate(error), "" if not isinstance(error, TooManyRequests) else "Try again in a second."
        else:
            code, hint = _PROTOCOL_VIOLATION, ""
        self._writer.write(messages.error(code, _sentence(str(error)), hint=hint))
        if session.transaction is Transaction.OPEN:
            session.transaction = Transaction.FAILED
        if isinstance(message, messages.Query | messages.Sync):
            self._ready(session)
        else:
            self._skipping = True

    def _ready(self, session: Session) -> None:
        open_ = session.transaction is not Transaction.NONE
        self._writer.write(messages.ready(in_transaction=open_, failed=session.transaction is Transaction.FAILED))

    async def _handle(self, session: Session, message: messages.ClientMessage) -> None:
        match message:
            case messages.Query(text=text):
                self._skipping = False
                await self._simple(session, text)
            case messages.Parse():
                _keep(self._prepared, message.statement, _Prepared(message.text, message.types))
                self._writer.write(messages.PARSE_COMPLETE)
            case messages.Bind():
                self._bind(message)
            case messages.Describe():
                await self._describe(session, message)
            case messages.Execute(portal=name, most=most):
                await self._execute(session, name, most)
            case messages.Close(kind=kind, name=name):
                (self._prepared if kind == "S" else self._portals).pop(name, None)
                self._writer.write(messages.CLOSE_COMPLETE)
            case messages.Sync():
                self._skipping = False
                if session.transaction is Transaction.NONE:
                    self._portals.clear()
                self._ready(session)
            case messages.Flush():
                pass
            case messages.Unsupported():
                raise Rejected("0A000", "COPY and function calls are not available")
            case _:
                raise ProtocolError("a message came at the wrong place")

    async def _simple(self, session: Session, text: str) -> None:
        statements = _split(text)
        if not statements:
            self._writer.write(messages.EMPTY_QUERY)
        for statement in statements:
            reply = await session.run(statement)
            self._notify(reply)
            if reply.result is not None:
                self._send_columns(reply.result.columns, ())
                self._send_rows(reply.result, reply.result.rows, ())
            self._writer.write(messages.command_complete(reply.tag))
        self._ready(session)

    def _bind(self, message: messages.Bind) -> None:
        prepared = self._prepared.get(message.statement)
        if prepared is None:
            raise Rejected("26000", f'prepared statement "{message.statement}" does not exist')
        formats = message.parameter_formats
        values = []
        for place, value in enumerate(message.parameters):
            type_ = prepared.types[place] if place < len(prepared.types) else 0
            values.append(literal(value, type_, _format(formats, place)))
        text = _with_parameters(prepared.text, values)
        _keep(self._portals, message.portal, _Portal(text, message.result_formats))
        self._writer.write(messages.BIND_COMPLETE)

    async def _describe(self, session: Session, message: messages.Describe) -> None:
        if message.kind == "S":
            prepared = self._prepared.get(message.name)
            if prepared is None:
                raise Rejected("26000", f'prepared statement "{message.name}" does not exist')
            types = _parameter_types(prepared)
            self._writer.write(messages.parameter_description(types))
            columns = session.describe(_with_parameters(prepared.text, ["NULL"] * len(types)))
            self._send_columns(columns or (), (), or_none=True)
            return
        portal = self._portal(message.name)
        portal.reply = await session.run(portal.text)
        columns = () if portal.reply.result is None else portal.reply.result.columns
        self._send_columns(columns, portal.formats, or_none=portal.reply.result is None)

    async def _execute(self, session: Session, name: str, most: int) -> None:
        portal = self._portal(name)
        if portal.reply is None:
            portal.reply = await session.run(portal.text)
        reply = portal.reply
        if not reply.tag:
            self._writer.write(messages.EMPTY_QUERY)
            return
        if portal.sent == 0:
            self._notify(reply)
        if reply.result is not None:
            rows = reply.result.rows[portal.sent :]
            if most > 0:
                rows = rows[:most]
            self._send_rows(reply.result, rows, portal.formats)
            portal.sent += len(rows)
            if portal.sent < len(reply.result.rows):
                self._writer.write(messages.PORTAL_SUSPENDED)
                return
        self._writer.write(messages.command_complete(reply.tag))

    def _portal(self, name: str) -> _Portal:
        if name not in self._portals:
            raise Rejected("34000", f'portal "{name}" does not exist')
        return self._portals[name]

    def _notify(self, reply: Reply) -> None:
        for sentence in reply.notices:
            self._writer.write(messages.notice(sentence))

    def _send_columns(self, columns: Sequence[Column], formats: Sequence[int], *, or_none: bool = False) -> None:
        if not columns and or_none:
            self._writer.write(messages.NO_DATA)
            return
        fields = [
            Field(column.name, column.type, SIZES.get(column.type, -1), _format(formats, place))
            for place, column in enumerate(columns)
        ]
        self._writer.write(messages.row_description(fields))

    def _send_rows(self, result: Result, rows: Sequence[Sequence[object]], formats: Sequence[int]) -> None:
        types = [column.type for column in result.columns]
        for row in rows:
            cells = [
                encode(value, type_, _format(formats, place))
                for place, (value, type_) in enumerate(zip(row, types, strict=True))
            ]
            self._writer.write(messages.data_row(cells))


def _keep(kept: dict[str, T], name: str, value: T) -> None:
    if name not in kept and len(kept) >= _MOST_KEPT:
        raise Rejected("53400", f"a connection keeps at most {_MOST_KEPT} prepared statements and portals")
    kept[name] = value


def _format(formats: Sequence[int], place: int) -> int:
    """Return the format of a parameter or column: one for all, one for each, or text if none is given."""
    if not formats:
        return 0
    return formats[0] if len(formats) == 1 else formats[place] if place < len(formats) else 0


def _split(text: str) -> list[str]:
    try:
        return read_statements(text)
    except Exception:
        raise Rejected(_SYNTAX_ERROR, "the statement cannot be read: a quote or comment has no end") from None


_PLACEHOLDER = re.compile(
    r"""('(?:[^']|'')*')|("(?:[^"]|"")*")|(--[^\n]*)|(/\*.*?\*/)|(\$(\w*)\$.*?\$\6\$)|\$(\d+)""", re.DOTALL
)
"""A parameter such as $1, or something in which one must not be replaced: quotes, comments, dollar quotes."""


def _numbers(text: str) -> list[int]:
    """Return the numbers of the parameters in a statement."""
    return [int(found[7]) for found in _PLACEHOLDER.finditer(text) if found[7]]


def _with_parameters(text: str, values: Sequence[str]) -> str:
    """Return the statement with literals in the places of its parameters.

    Raises: `Rejected` if a parameter has no value.
    """

    def replaced(found: "re.Match[str]") -> str:
        if not found[7]:
            return found[0]
        place = int(found[7]) - 1
        if not 0 <= place < len(values):
            raise Rejected("08P01", f"parameter ${found[7]} has no value")
        return values[place]

    return _PLACEHOLDER.sub(replaced, text)


def _parameter_types(prepared: _Prepared) -> list[int]:
    count = min(max([len(prepared.types), *_numbers(prepared.text)]), messages.MOST_PARAMETERS)
    return [(prepared.types[place] if place < len(prepared.types) else 0) or TEXT for place in range(count)]


def _address(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _sentence(text: str) -> str:
    return " ".join(text.split())

"""Connections of PostgreSQL's protocol: startup, TLS, limits and timeouts, cancellation; sign_in.py checks passwords.

Every quantity that a client could choose is limited: the time to sign in, the idle time, the size of a message, the
number of statements and portals that a connection keeps, and the number of connections.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import secrets
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from setwise.errors import NotSignedIn, SetwiseError, TooManyRequests
from setwise.service.postgres import messages
from setwise.service.postgres.messages import ProtocolError
from setwise.service.postgres.replies import Rejected, Reply, Result
from setwise.service.postgres.result_writer import ResultWriter, format_of
from setwise.service.postgres.session import Portal, PostgresSession, Prepared, Transaction, sqlstate
from setwise.service.postgres.session_settings import REPORTED
from setwise.service.postgres.statements import check_length, parameter_count, split_statements, with_parameters
from setwise.service.postgres.values import TEXT, literal
from setwise.service.problems import defect
from setwise.service.slots import PersonalLimit, current_person

_LARGEST_STARTUP = 10_000
"""The most bytes of a startup message, which is PostgreSQL's own limit."""

_MOST_KEPT = 500
_MOST_KEPT_CHARACTERS = 1_000_000
"""The most prepared statements, the most portals, and the most characters of each, that one connection keeps."""

_FIRST_MESSAGES = 4
"""The most messages before a session begins: requests for encryption, and the startup message itself."""

_PROTOCOL_VIOLATION, _INTERNAL = "08P01", "XX000"

OpenSession = Callable[[str, str, str, str], Awaitable[PostgresSession]]
"""A function that returns the session for (user, database, password, address).

It raises `NotSignedIn` or another `SetwiseError` if the person may not connect.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a PostgreSQL connection, and of the number of connections.

    - `sign_in_seconds`: the time within which a client must sign in
    - `idle_seconds`: the longest time between two messages of a client
    - `send_seconds`: the time within which a client must read the bytes that were sent
    - `message_bytes`: the largest size of a message, in bytes
    - `connections`: the most connections that are signed in at a time. Half of this number is the limit for one person,
      and also the limit for connections that wait to sign in
    """

    sign_in_seconds: float = 10.0
    idle_seconds: float = 3600.0
    send_seconds: float = 30.0
    message_bytes: int = 1 << 20
    connections: int = 200


@dataclass(slots=True)
class _Running:
    """How to cancel the statement that a connection runs: the function `cancel`, and the number `secret`.

    A client asks to cancel the statement by a CancelRequest, a message on another connection. `cancel` is called only
    if this message has the number `secret`, which only the client that runs the statement was told.
    """

    secret: int
    cancel: Callable[[], Awaitable[None]]


class PostgresDoor:
    """A server that accepts connections of PostgreSQL's protocol, and serves one session on each.

    - `open_session`: a function that checks a person's password (a token) and returns the session
    - `tls`: the TLS context, or None if TLS is not configured
    - `limits`: the limits on time, message sizes and the number of connections
    - `unsent`: limits how many large results of one person may wait to be read
    """

    def __init__(
        self, open_session: OpenSession, *, tls: ssl.SSLContext | None, limits: Limits, unsent: PersonalLimit
    ) -> None:
        self._open_session = open_session
        self._tls = tls
        self._limits = limits
        self.unsent = unsent
        """The limit of one person's large results that wait for their reader, as over REST."""
        self.signed_in = PersonalLimit(max(1, limits.connections // 2))
        """The limit of one person's connections."""
        self._running: dict[int, _Running] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        """The connections that have not signed in yet, in the order in which they came."""
        self._sessions: set[asyncio.Task[None]] = set()
        """The connections that have signed in."""
        self._next_process = 1

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Start to listen for PostgreSQL connections at `host` and `port`, and return the asyncio server.

        To stop, the caller closes that server and then calls `close`, which ends the open connections.
        """
        return await asyncio.start_server(self._accept, host, port, limit=self._limits.message_bytes + 1024)

    async def close(self) -> None:
        """Close every open PostgreSQL connection."""
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one new connection until it ends: read from `reader` what the client sends, and respond by `writer`.

        If there are too many connections, or the client breaks the protocol, the client is sent an error before its
        connection is closed.
        """
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._sessions) >= self._limits.connections:
                writer.write(messages.error("53300", "too many connections; close some", severity="FATAL"))
                return
            self._waiting[task] = writer
            if len(self._waiting) > max(1, self._limits.connections // 2):
                self._refuse_oldest_waiting()
            await _Connection(self, reader, writer).run()
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError):
            pass  # the client has disconnected, or was too slow
        except ProtocolError as error:
            with contextlib.suppress(ConnectionError):
                writer.write(messages.error(_PROTOCOL_VIOLATION, str(error), severity="FATAL"))
        except asyncio.CancelledError:
            with contextlib.suppress(ConnectionError):
                writer.write(messages.error("57P01", "the service is shutting down", severity="FATAL"))
        except Exception as error:
            defect(error)  # logs the kind and the place of the error, because its message may contain private data
            with contextlib.suppress(ConnectionError):
                writer.write(messages.error(_INTERNAL, "the service failed; its log names the place", severity="FATAL"))
        finally:
            self._connections.discard(task)
            self._sessions.discard(task)
            self._waiting.pop(task, None)
            with contextlib.suppress(Exception):
                writer.close()

    def _refuse_oldest_waiting(self) -> None:
        """Close the connection that has waited longest without signing in, to make room for a new one.

        An honest client signs in within moments, so the longest waiting one is the least likely to be honest.
        """
        task = next(iter(self._waiting))
        writer = self._waiting.pop(task)
        with contextlib.suppress(Exception):
            writer.write(messages.error("53300", "too many clients wait to sign in; try again", severity="FATAL"))
            writer.close()

    def admit(self) -> None:
        """Count the connection of the calling task as signed in, so that it is not closed to make room for new ones."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.pop(task, None)
        self._sessions.add(task)

    def register(self, cancel: Callable[[], Awaitable[None]]) -> tuple[int, int]:
        """Register a connection, so that its running statement can be cancelled; return (process number, secret).

        A client cancels the statement by sending both numbers in a CancelRequest; the server then calls `cancel`.
        """
        process, self._next_process = self._next_process, self._next_process + 1
        secret = secrets.randbits(32)
        self._running[process] = _Running(secret, cancel)
        return process, secret

    def forget(self, process: int) -> None:
        """Forget the connection with the number `process`, which has ended, so that it can no longer be cancelled."""
        self._running.pop(process, None)

    async def cancel(self, process: int, secret: int) -> None:
        """Cancel the statement of the connection with the number `process`, if `secret` is that connection's secret.

        A wrong secret cancels nothing. No response is sent in either case, so that a client cannot find the secret by
        trying.
        """
        running = self._running.get(process)
        if running is not None and hmac.compare_digest(struct.pack("!I", running.secret), struct.pack("!I", secret)):
            await running.cancel()

    @property
    def limits(self) -> Limits:
        """The limits on time, message sizes and the number of connections."""
        return self._limits

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of PostgreSQL connections; None if TLS is not configured."""
        return self._tls

    async def open_session(self, user: str, database: str, password: str, address: str) -> PostgresSession:
        """Return a session of the person `user` on the account named `database`, after checking the token `password`.

        `address` is the client's network address. Raises `NotSignedIn` for an invalid token, and another `SetwiseError`
        if the person may not connect.
        """
        return await self._open_session(user, database, password, address)


class _Connection:
    """One PostgreSQL connection, from startup to its end: reads the client's messages and sends the responses."""

    def __init__(self, door: PostgresDoor, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._door = door
        self._reader = reader
        self._writer = writer
        self._results = ResultWriter(writer, self._drain, door.unsent)
        self._encrypted = False
        self._reported: dict[str, str] = {}
        """The values of settings that the client was told last."""
        self._skipping = False
        """Whether messages are ignored until the next Sync, as after an error in the extended protocol."""

    async def run(self) -> None:
        """Serve the connection until the client leaves, is refused, or is idle for too long."""
        async with asyncio.timeout(self._door.limits.sign_in_seconds):
            session = await self._begin()
        if session is None:
            return
        self._door.admit()
        process, secret = self._door.register(session.asker.cancel)
        try:
            with self._door.signed_in.counting(current_person.get()):
                self._writer.write(messages.AUTHENTICATION_OK)
                self._report(session)
                self._writer.write(messages.backend_key(process, secret) + messages.ready())
                await self._drain()
                await self._serve(session)
        except TooManyRequests:
            most = max(1, self._door.limits.connections // 2)
            await self._refuse("53300", f"one person may have {most} connections at once; close some")
        finally:
            self._door.forget(process)

    async def _begin(self) -> PostgresSession | None:
        """Handle the messages before a session (TLS, startup, password), and return the session.

        Returns None if the connection was only opened to cancel a statement, or if the client was refused.
        """
        for _ in range(_FIRST_MESSAGES):
            length = struct.unpack("!I", await self._reader.readexactly(4))[0]
            if not 8 <= length <= _LARGEST_STARTUP:
                raise ProtocolError(f"the first message must have 8 to {_LARGEST_STARTUP} bytes, not {length}")
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
        raise ProtocolError("no startup message arrived")

    async def _encrypt(self) -> None:
        """Respond to a client's request for TLS, and start TLS if it is configured and not started yet.

        Raises `ProtocolError` if further bytes arrived together with the request. Somebody between client and server
        may have added these unencrypted bytes, and after the handshake they would count as the client's own.
        """
        if self._door.tls is None or self._encrypted:
            self._writer.write(messages.REFUSE_ENCRYPTION)
            await self._writer.drain()
            return
        if getattr(self._reader, "_buffer"):  # noqa: B009 - the standard library has no public name for it
            raise ProtocolError("bytes arrived in clear text after the request for TLS")
        self._writer.write(messages.ACCEPT_ENCRYPTION)
        await self._writer.drain()
        await self._writer.start_tls(self._door.tls)
        self._encrypted = True

    async def _sign_in(self, startup: messages.Startup) -> PostgresSession | None:
        """Ask the client for its password (a token) and return the session; None if the client was refused.

        `startup` is the client's first message, which names the person and the account. Without TLS, only a client on
        this machine is asked. Any other client is refused, because its token would be sent in clear text.
        """
        if startup.version >> 16 != messages.PROTOCOL_3 >> 16:
            await self._refuse("0A000", "only version 3 of the protocol is spoken here")
            return None
        unknown = [name for name in startup.parameters if name.startswith("_pq_.")]
        if startup.version != messages.PROTOCOL_3 or unknown:
            self._writer.write(messages.negotiate_version(unknown))
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
            if name in ("application_name", "TimeZone"):
                session.settings.keep(name.lower(), value)
        return session

    async def _refuse(self, code: str, message: str, hint: str = "") -> None:
        """Send a fatal error to the client: an SQLSTATE `code`, a `message` of one sentence, and an optional `hint`."""
        self._writer.write(messages.error(code, message, hint=hint, severity="FATAL"))
        await self._writer.drain()

    async def _read(self) -> messages.ClientMessage:
        """Return the client's next message.

        Raises `ProtocolError` if the message is not valid, or if its stated length is over the limit. The contents of
        such a long message are not read.
        """
        kind = await self._reader.readexactly(1)
        length = struct.unpack("!I", await self._reader.readexactly(4))[0]
        if not 4 <= length <= self._door.limits.message_bytes:
            raise ProtocolError(f"a message may have at most {self._door.limits.message_bytes} bytes")
        return messages.read_message(kind, await self._reader.readexactly(length - 4))

    async def _serve(self, session: PostgresSession) -> None:
        """Handle the client's messages, one after the other, until the client ends the session."""
        while True:
            async with asyncio.timeout(self._door.limits.idle_seconds):
                message = await self._read()
            if isinstance(message, messages.Terminate):
                return
            if self._skipping and not isinstance(message, messages.Sync | messages.SimpleQuery):
                continue
            try:
                await self._handle(session, message)
            except (Rejected, SetwiseError, ProtocolError) as error:
                self._fail(session, message, error)
            await self._drain()
            await asyncio.sleep(0)  # messages that have arrived together would otherwise keep other connections waiting

    async def _drain(self) -> None:
        """Wait until the client has read most of the sent bytes; raise `TimeoutError` if this takes too long."""
        async with asyncio.timeout(self._door.limits.send_seconds):
            await self._writer.drain()

    def _report(self, session: PostgresSession) -> None:
        """Send the client the settings of `session` whose values have changed since they were last sent.

        Only those settings are sent (`REPORTED`) that PostgreSQL itself reports to its clients.
        """
        for name in REPORTED:
            value = session.settings.get(name) or ""
            if self._reported.get(name) != value:
                self._reported[name] = value
                self._writer.write(messages.parameter_status(name, value))

    def _fail(self, session: PostgresSession, message: messages.ClientMessage, error: Exception) -> None:
        """Send `error` to the client, and mark an open transaction of the `session` as failed.

        `message` is the client's message that caused the error. Outside a transaction, the settings that the statement
        changed before it failed are restored. In the extended protocol, messages up to the next Sync are then ignored.
        """
        if isinstance(error, Rejected):
            code, hint = error.code, error.hint
        elif isinstance(error, SetwiseError):
            code, hint = sqlstate(error), "" if not isinstance(error, TooManyRequests) else "Try again in a second."
        else:
            code, hint = _PROTOCOL_VIOLATION, ""
        self._writer.write(messages.error(code, _sentence(str(error)), hint=hint))
        if session.transaction is Transaction.OPEN:
            session.transaction = Transaction.FAILED
        elif session.transaction is Transaction.NONE:
            session.settings.roll_back()
        if isinstance(message, messages.SimpleQuery | messages.Sync):
            self._ready(session)
        else:
            self._skipping = True

    def _ready(self, session: PostgresSession) -> None:
        """Tell the client that it may send the next query, with the state of the session's transaction."""
        self._report(session)
        open_ = session.transaction is not Transaction.NONE
        self._writer.write(messages.ready(in_transaction=open_, failed=session.transaction is Transaction.FAILED))

    async def _handle(self, session: PostgresSession, message: messages.ClientMessage) -> None:
        """Handle one `message` of the client in its `session`, and send the response to it."""
        match message:
            case messages.SimpleQuery(text=text):
                self._skipping = False
                await self._simple(session, text)
            case messages.Parse():
                check_length(message.text)
                _store_limited(session.prepared, message.statement, Prepared(message.text, message.types))
                self._writer.write(messages.PARSE_COMPLETE)
            case messages.Bind():
                await self._bind(session, message)
            case messages.Describe():
                await self._describe(session, message)
            case messages.Execute(portal=name, most=most):
                await self._execute(session, name, most)
            case messages.Close(kind=kind, name=name):
                (session.prepared if kind == "S" else session.portals).pop(name, None)
                self._writer.write(messages.CLOSE_COMPLETE)
            case messages.Sync():
                self._skipping = False
                if session.transaction is Transaction.NONE:
                    session.portals.clear()
                self._ready(session)
            case messages.Flush():
                pass
            case messages.Unsupported():
                raise Rejected("0A000", "data cannot be copied in, and functions cannot be called by a message")
            case _:
                raise ProtocolError("a message came at the wrong place")

    async def _simple(self, session: PostgresSession, text: str) -> None:
        """Run in `session` the statements in `text`, a query of the simple protocol, and send their results."""
        check_length(text)
        statements = split_statements(text)
        if not statements:
            self._writer.write(messages.EMPTY_QUERY)
        if len(statements) > 1:  # PostgreSQL runs them in one transaction, unless they state their own
            session.settings.begin()
        for statement in statements:
            reply = await session.run(statement)
            self._notify(session, reply)
            if reply.result is not None and reply.copied is not None:
                await self._results.copy_rows(reply.result, reply.copied)
            elif reply.result is not None:
                self._results.send_columns(reply.result.columns, ())
                await self._results.send_rows(reply.result, reply.result.rows, ())
            self._writer.write(messages.command_complete(reply.tag))
        if session.transaction is Transaction.NONE:
            session.settings.commit()
        self._ready(session)

    def _notify(self, session: PostgresSession, reply: Reply) -> None:
        """Send the notices of `reply`, unless the client has turned notices off in the settings of its `session`."""
        if session.settings.wants_notices:
            self._results.notify(reply)

    async def _bind(self, session: PostgresSession, message: messages.Bind) -> None:
        """Make a portal in `session`: a prepared statement's text with the parameters of the Bind `message` inserted.

        If the client leaves the type of a parameter open, the type follows from the parameter's place in the statement.
        Raises `Rejected` if there is no such prepared statement, or if a parameter has no value.
        """
        prepared = session.prepared.get(message.statement)
        if prepared is None:
            raise Rejected("26000", f'prepared statement "{message.statement}" does not exist')
        formats = message.parameter_formats
        if any(type_ == 0 for type_ in prepared.types) or len(prepared.types) < len(message.parameters):
            prepared.types = _parameter_types(prepared, await session.parameter_types(prepared.text))
        values = []
        for place, value in enumerate(message.parameters):
            type_ = prepared.types[place] if place < len(prepared.types) else 0
            values.append(literal(value, type_, format_of(formats, place)))
        text = with_parameters(prepared.text, values)
        check_length(text)
        _store_limited(session.portals, message.portal, Portal(text, message.result_formats, prepared.columns))
        self._writer.write(messages.BIND_COMPLETE)

    async def _describe(self, session: PostgresSession, message: messages.Describe) -> None:
        """Send the result columns of the prepared statement, portal or cursor that the Describe `message` names.

        A portal (a statement with its parameters) is run to learn its columns. Its result is kept for the message
        Execute, so that it is charged once. If `session` has no portal of that name, the name may be that of a cursor,
        which the statement DECLARE has made.
        """
        if message.kind == "S":
            prepared = session.prepared.get(message.name)
            if prepared is None:
                raise Rejected("26000", f'prepared statement "{message.name}" does not exist')
            read = await session.describe(prepared.text)
            prepared.types = _parameter_types(prepared, read.parameters)
            prepared.columns = tuple(read.columns or ())
            self._writer.write(messages.parameter_description(prepared.types))
            self._results.send_columns(read.columns or (), (), or_none=True)
            return
        if message.name not in session.portals and message.name in session.cursors:
            self._results.send_columns(session.cursors[message.name].result.columns, ())
            return
        portal = _portal(session, message.name)
        reply = await self._run(session, portal)
        columns = () if reply.result is None or reply.copied is not None else reply.result.columns
        portal.columns = None  # the client reads the rows by the columns that it is told now
        self._results.send_columns(columns, portal.formats, or_none=not columns)

    async def _run(self, session: PostgresSession, portal: Portal) -> Reply:
        """Return the reply to the statement of `portal`, a prepared statement with its parameters.

        The first call runs the statement in `session`. Later calls return the same reply, so that nothing is charged
        twice.
        """
        if portal.reply is None:
            reply = await session.run(portal.text)
            session.keep_rows(0 if reply.result is None else len(reply.result.rows))
            portal.reply = reply
        return portal.reply

    async def _execute(self, session: PostgresSession, name: str, most: int) -> None:
        """Send the next rows of the portal called `name` in `session`, at most `most` of them (0 means all).

        A portal is a statement with its parameters. The first call runs the statement, and a later call continues after
        the rows that were sent. If rows remain, the client is told that the portal is suspended, and may ask for more.
        """
        portal = _portal(session, name)
        reply = await self._run(session, portal)
        if not reply.tag:
            self._writer.write(messages.EMPTY_QUERY)
            return
        if portal.sent == 0:
            self._notify(session, reply)
        if reply.result is not None and reply.copied is not None:
            await self._results.copy_rows(reply.result, reply.copied)
        elif reply.result is not None:
            _check_columns(portal, reply.result)
            rows = reply.result.rows[portal.sent :]
            if most > 0:
                rows = rows[:most]
            await self._results.send_rows(reply.result, rows, portal.formats)
            portal.sent += len(rows)
            if portal.sent < len(reply.result.rows):
                self._writer.write(messages.PORTAL_SUSPENDED)
                return
        self._writer.write(messages.command_complete(reply.tag))


Kept = TypeVar("Kept", Prepared, Portal)


def _store_limited(store: dict[str, Kept], name: str, value: Kept) -> None:
    """Store `value` in `store` under `name`; raise `Rejected` if `store` has too many values or too much text.

    `value` is a prepared statement, or a portal (a statement with its parameters). It replaces a value of the same
    name, which then no longer counts. The limits keep a client from filling the memory.
    """
    others = [other.text for other_name, other in store.items() if other_name != name]
    if len(others) >= _MOST_KEPT or sum(map(len, others)) + len(value.text) > _MOST_KEPT_CHARACTERS:
        raise Rejected(
            "53400",
            f"a connection keeps at most {_MOST_KEPT} prepared statements and {_MOST_KEPT} portals, each with at most "
            f"{_MOST_KEPT_CHARACTERS:,} characters in all",
            "Close some of them.",
        )
    store[name] = value


def _portal(session: PostgresSession, name: str) -> Portal:
    """Return the session's portal (statement with parameters) called `name`; raise `Rejected` if there is none."""
    if name not in session.portals:
        raise Rejected("34000", f'portal "{name}" does not exist')
    return session.portals[name]


def _check_columns(portal: Portal, result: Result) -> None:
    """Raise `Rejected` if the columns of `result` have other types than the client was told before the statement ran.

    Otherwise the client would misread the bytes of the rows. The types differ, for example, if the setting
    setwise.intervals, which adds columns, was changed meanwhile. `portal` is the statement with parameters.
    """
    described = portal.columns
    if described is not None and [column.type for column in described] != [column.type for column in result.columns]:
        raise Rejected("0A000", "cached plan must not change result type", "Prepare the statement again.")


def _parameter_types(prepared: Prepared, inferred: Mapping[int, int]) -> tuple[int, ...]:
    """Return the PostgreSQL type identifiers of the parameters $1, $2, ... of the statement `prepared`, in this order.

    A parameter has the type that the client gave. If the client gave none, it has the type in `inferred` (a mapping
    from parameter numbers to types), and TEXT if `inferred` has none either.
    """
    count = min(max(len(prepared.types), parameter_count(prepared.text)), messages.MOST_PARAMETERS)
    declared = [*prepared.types, *[0] * (count - len(prepared.types))]
    return tuple(type_ or inferred.get(number, TEXT) for number, type_ in enumerate(declared, start=1))


def _address(writer: asyncio.StreamWriter) -> str:
    """Return the IP address of the client behind `writer`; an empty text if it is not known."""
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if peer else ""


def _is_loopback(address: str) -> bool:
    """Return whether an IP address is a loopback address of this machine, from which TLS is not required."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _sentence(text: str) -> str:
    """Return `text` on one line with single spaces, for an error message."""
    return " ".join(text.split())

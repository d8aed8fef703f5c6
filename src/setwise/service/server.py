"""The HTTP server of a replica: where it listens, which proxy it believes, and how long a connection may be silent."""

import asyncio
import gc
import resource
import socket
import sys
from collections import OrderedDict
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from setwise.errors import InvalidParameter
from setwise.service.settings import Settings

_SWITCH_SECONDS = 0.001
"""Seconds after which a thread that computes lets another run: the event loop waits for each of them in turn."""

_COLLECTIONS = (100_000, 50, 50)
"""Allocations between collections of garbage, and collections of one generation between those of the next.

An answer with 100,000 items makes a million objects. With Python's own 700, dozens of collections go through all of
them, and each keeps every thread waiting for some tenths of a second.
"""

_AT_ONCE = 32
"""Connections accepted in one turn of the event loop."""

_TURNS = 3
"""Turns from accepting a connection to closing the one that makes room for it, with connections accepted in each."""

_QUEUE = 2048
"""Connections that the system keeps for the next turns; beyond them callers try again after a second or more."""

_OWN_FILES = 256
"""Open files that are left to databases, tables and worker processes."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or raise `InvalidParameter` when the address is taken or not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_QUEUE)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InvalidParameter(f"port {port} of {host} cannot be listened on ({why}): give another --port") from None
    # The event loop has connections send at once only where the socket names its protocol; otherwise every answer waits
    # for the caller's acknowledgement of its headers, 40 ms and more.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listening.detach())


def make_server(app: ASGIApp, settings: Settings) -> uvicorn.Server:
    """Return the server of an application; run it with the sockets that it listens on."""
    gc.freeze()  # modules and routes stay for as long as the process: no collection has to look at them again
    gc.set_threshold(*_COLLECTIONS)
    sys.setswitchinterval(_SWITCH_SECONDS)
    waiting: OrderedDict[Connection, None] = OrderedDict()
    limit = settings.connections or most_connections()

    def connection(*given: Any, **named: Any) -> Connection:  # noqa: ANN401 - as the server calls it
        return Connection(*given, **named, waiting=waiting, limit=limit, header_seconds=settings.header_seconds)

    config = uvicorn.Config(
        app,
        http=connection,  # type: ignore[arg-type]  # any maker of protocols will do
        backlog=_AT_ONCE,
        timeout_keep_alive=settings.idle_seconds,  # type: ignore[arg-type]  # passed on to the event loop
        proxy_headers=bool(settings.trusted_proxy),
        forwarded_allow_ips=list(settings.trusted_proxy),
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """A server that accepts few connections at once, so that each is counted, and has the system keep many."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and lengthen the queue that starting has set to what is accepted at once."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_QUEUE)


def most_connections() -> int:
    """Return the number of connections for which open files are left, having asked the system for all it allows.

    Were the limit ever reached, no connection could be accepted, and none of the replica's own files opened.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 10_000 if hard == resource.RLIM_INFINITY else max(16, min(10_000, hard - _OWN_FILES - _TURNS * _AT_ONCE))


class Connection(H11Protocol):
    """A connection that must send its headers within `header_seconds`, counted from when a request may begin.

    `waiting` holds the connections that are between requests, longest first. Beyond `limit` connections the one that
    has waited longest is ended for a new one; when all of them have requests, the new one is.
    """

    def __init__(
        self,
        *given: Any,  # noqa: ANN401 - as the server calls it
        waiting: "OrderedDict[Connection, None]",
        limit: int,
        header_seconds: float,
        **named: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*given, **named)
        self._waiting = waiting
        self._limit = limit
        self._header_seconds = header_seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room, and wait for the headers of the first request."""
        super().connection_made(transport)
        if len(self.connections) > self._limit:
            longest = next(iter(self._waiting), self)
            longest._stop_waiting()
            longest.transport.abort()
            if longest is self:
                return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting when the headers of a request are complete."""
        if self in self._waiting and self._deadline is None:  # the first bytes of a further request
            self._deadline = self.loop.call_later(self._header_seconds, self.transport.abort)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for a further request: idle at first, which the server itself ends in time."""
        self._waiting[self] = None
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting[self] = None
        self._deadline = self.loop.call_later(self._header_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        self._waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

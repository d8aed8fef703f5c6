"""The HTTP server of a replica: sockets, trusted proxies, limits on connections, timeouts of headers and keep-alive."""

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
"""Seconds after which a computing thread must let another run: the event loop waits for each of them in turn."""

_COLLECTIONS = (100_000, 50, 50)
"""Thresholds of Python's garbage collector, one per generation.

An answer with 100,000 items creates a million objects. With Python's default of 700 allocations, dozens of collections
go through all of them, and each stops every thread for some tenths of a second.
"""

_AT_ONCE = 32
"""The most connections that are accepted in one iteration of the event loop."""

_TURNS = 3
"""Event-loop iterations between accepting a connection and closing the one that makes room for it.

Further connections are accepted in each of these iterations.
"""

_QUEUE = 2048
"""Connections that the kernel queues for the next iterations; callers beyond them retry after a second or more."""

_OWN_FILES = 256
"""Open files reserved for databases, tables and worker processes."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at `host` and `port`.

    Raises `InvalidParameter` if the address is in use, or not an address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_QUEUE)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InvalidParameter(f"port {port} of {host} cannot be listened on ({why}): give another --port") from None
    # The event loop sets TCP_NODELAY only if the socket's protocol is IPPROTO_TCP, which `create_server` leaves at 0.
    # Without it the body of every response waits 40 ms or more for the acknowledgement of its headers.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listening.detach())


def make_server(app: ASGIApp, settings: Settings) -> uvicorn.Server:
    """Return a uvicorn server for the application `app`; the caller runs it with its listening sockets.

    `settings` have the trusted proxies, and the limits on connections and their idle time. Also tunes the garbage
    collector and the thread switching of this process.
    """
    gc.freeze()  # modules and routes live as long as the process, so that no collection need look at them again
    gc.set_threshold(*_COLLECTIONS)
    sys.setswitchinterval(_SWITCH_SECONDS)
    waiting: OrderedDict[HttpConnection, None] = OrderedDict()
    limit = settings.connections or most_connections()

    def connection(*arguments: Any, **options: Any) -> HttpConnection:  # noqa: ANN401 - as the server calls it
        """Return the protocol object of a new HTTP connection, with the limits that the service's settings state.

        `arguments` and `options` come from uvicorn. All connections share the limits, and `waiting`, a list of the
        connections that are between two requests.
        """
        return HttpConnection(
            *arguments, **options, waiting=waiting, limit=limit, header_seconds=settings.header_seconds
        )

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
    """A uvicorn server that accepts few connections per iteration of the event loop; others wait in the kernel's queue.

    Accepting few at a time lets each connection be counted against the limit before many more are accepted.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server on `sockets`, then lengthen the kernel's queue of new connections of each socket.

        Uvicorn listens with a short queue (`_AT_ONCE` connections), because asyncio accepts up to the length of this
        queue in each iteration of the event loop, and shall accept few. If `sockets` is None, uvicorn opens a socket,
        whose queue is not lengthened.
        """
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_QUEUE)


def most_connections() -> int:
    """Raise this process's limit on open files to its maximum, and return how many connections the limit allows.

    The result is a number from 16 to 10,000. Some files are reserved for the service itself, which could otherwise open
    no table while all connections are in use.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 10_000 if hard == resource.RLIM_INFINITY else max(16, min(10_000, hard - _OWN_FILES - _TURNS * _AT_ONCE))


class HttpConnection(H11Protocol):
    """An HTTP connection with a deadline for headers, and with a limit on the number of all connections.

    - `header_seconds`: the time within which a request's headers must arrive, counted from the start of the connection
      for the first request, and from the first byte of each later request
    - `waiting`: the connections that are between requests, the longest waiting first
    - `limit`: the most connections. If a new connection exceeds the limit, the one that has waited longest is closed;
      if no connection is waiting, the new one is closed
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - as the server calls it
        waiting: "OrderedDict[HttpConnection, None]",
        limit: int,
        header_seconds: float,
        **named: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(*arguments, **named)
        self._waiting = waiting
        self._limit = limit
        self._header_seconds = header_seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start a new HTTP connection over `transport`, and the deadline for the headers of its first request.

        If there are too many connections, the one that has waited longest for a request is closed; if none waits, the
        new one is closed.
        """
        super().connection_made(transport)
        if len(self.connections) > self._limit:
            longest = next(iter(self._waiting), self)
            longest._stop_waiting()
            longest.transport.abort()
            if longest is self:
                return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Process the bytes `data` that the HTTP client sent.

        The first bytes of a further request start the deadline for its headers. The deadline ends when the headers are
        complete.
        """
        if self in self._waiting and self._deadline is None:  # the first bytes of a further request
            self._deadline = self.loop.call_later(self._header_seconds, self.transport.abort)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Count the HTTP connection as waiting for a request again, now that the response is sent.

        The server closes the connection if it stays idle. If the client sent its next request before this response,
        that request starts now, and the connection does not wait.
        """
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._waiting[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting a closed HTTP connection among those that wait for a request.

        `exc` is the error that closed the connection, or None if one of the two sides closed it normally.
        """
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Record that the HTTP connection waits for a request, and start the deadline for the request's headers."""
        self._waiting[self] = None
        self._deadline = self.loop.call_later(self._header_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        """Record that the HTTP connection no longer waits for a request, and cancel the deadline for headers."""
        self._waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

"""Middleware and the route class of every request: size limit of bodies, security headers (CSP), sign-in, metrics.

The caller is identified before the body is read.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from setwise.errors import TooManyRequests
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import ROUTES
from setwise.service.problems import error_response
from setwise.service.replica import Service
from setwise.service.slots import PersonalLimit, current_person
from setwise.service.telemetry import log_request, request_span


class BodyLimit:
    """ASGI middleware that limits a request's body to `most` bytes, and the time in which it arrives to `seconds`.

    The response to a larger body has status 413, and to a slower body 408. The size is checked by the header
    Content-Length, and again as the body arrives.
    """

    def __init__(self, app: ASGIApp, most: int, seconds: float) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds
        self._slow = f"the body did not arrive within {seconds:g} s; send it at once"
        self._detail = f"the body may have at most {most} bytes; send less"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the application, counting the bytes of its body.

        A body that is too large gets a response with status 413, and a body that takes too long one with status 408.
        The arguments are as in every ASGI application: `scope` has the request's metadata, and the functions `receive`
        and `send` receive its body and send the response.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._most:
            await error_response(HTTPException(413, self._detail))(scope, receive, send)
            return
        received, complete = 0, False
        until = asyncio.get_running_loop().time() + self._seconds

        async def receive_counted() -> Message:
            """Return the next message of the request, after counting the bytes of the body in it.

            Uses two names of the function around this one: the ASGI function `receive`, which reads the message, and
            `until`, the deadline in seconds of the event loop's clock. Raises `HTTPException` if the body read so far
            is too large (413), or has not arrived by the deadline (408).
            """
            nonlocal received, complete
            if complete:  # the only message after the body is that the caller has disconnected
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, self._slow, {"Connection": "close"}) from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > self._most:
                raise HTTPException(413, self._detail)
            return message

        await self._app(scope, receive_counted, send)


CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",  # charts are saved as pictures through data: addresses
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)

_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class ResponseHeaders:
    """ASGI middleware that adds security headers to every response; a header that the response has already is kept.

    With `tls`, browsers are told to use TLS only (Strict-Transport-Security).
    """

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app = app
        self._headers = _HEADERS | ({"Strict-Transport-Security": "max-age=31536000"} if tls else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the application, and its response back with the security headers added.

        The arguments are as in every ASGI application: `scope` has the request's metadata, and the functions `receive`
        and `send` receive its body and send the response.
        """
        await self._app(scope, receive, self._add_headers(send) if scope["type"] == "http" else send)

    def _add_headers(self, send: Send) -> Callable[[Message], Awaitable[None]]:
        """Return an ASGI `send` function that adds the security headers to the first message of the response."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        return sending


_PIECE = 64 * 1024
"""Bytes of a large body that are sent at a time."""


class PacedResponse(Response):
    """A response whose large body is sent in pieces, as fast as its reader takes them.

    - `limit`: how many large responses of one person may be unfinished at a time. One more gets status 429 instead, so
      that unread responses do not fill the memory
    - `seconds`: a reader who takes no data for this time is disconnected
    """

    def __init__(self, content: str | bytes, media_type: str, *, limit: PersonalLimit, seconds: float) -> None:
        super().__init__(content, media_type=media_type)
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response by the ASGI function `send`: a body of at most 64 KiB at once, and a larger one in pieces.

        `scope` and `receive` have the request, as in ASGI. Sends status 429 instead if the person has too many large
        responses that are not fully sent.
        """
        if len(self.body) <= _PIECE:
            await super().__call__(scope, receive, send)
            return
        try:
            with self._limit.counting(current_person.get()):
                await self._send_in_pieces(send)
        except TooManyRequests as error:
            self.body = b""
            await error_response(error)(scope, receive, send)

    async def _send_in_pieces(self, send: Send) -> None:
        """Send the response's body in pieces of 64 KiB by the ASGI function `send`.

        Raises `TimeoutError` if the reader is too slow for a piece.
        """
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for begin in range(0, len(self.body), _PIECE):
            piece = self.body[begin : begin + _PIECE]
            more = begin + _PIECE < len(self.body)
            async with asyncio.timeout(self._seconds):
                await send({"type": "http.response.body", "body": piece, "more_body": more})


Handler = Callable[[Request], Coroutine[Any, Any, Response]]
ErrorResponse = Callable[[Request, Exception], Response]
"""A function that returns the response for an error; kept as `app.state.error_response`.

It is a problem document for the API, or a page for a browser.
"""


class GuardedRoute(APIRoute):
    """A route that admits callers by the table of permissions (`ROUTES`).

    A route without an entry in that table cannot be created, so that no route is open by mistake.
    """

    def get_route_handler(self) -> Handler:
        """Return the request handler: it identifies the caller, calls the route's function and records metrics."""
        answer = super().get_route_handler()
        assert self.methods is not None
        (method,) = self.methods
        access, path = ROUTES[method, self.path].access, self.path

        async def guarded(request: Request) -> Response:
            """Identify the caller, respond to one request, and record its status and time in metrics, log and trace.

            The function around this one has set the route's `access`, `method` and `path`, and `answer`, the function
            that responds.
            """
            started = time.monotonic()
            service = service_of(request)
            with request_span(method, path, request.headers) as span:
                try:
                    identity = request.state.identity = await service.authenticator.admit(request, access)
                    if identity is not None:
                        current_person.set(identity.person.name)  # seen by this request only: each has its own context
                        service.authenticator.count_body(identity, len(await request.body()))
                    response = await answer(request)
                except Exception as error:
                    error_response_of: ErrorResponse = request.app.state.error_response
                    response = error_response_of(request, error)
                span.set_attribute("http.response.status_code", response.status_code)
            seconds = time.monotonic() - started
            service.metrics.request(method, path, response.status_code, seconds)
            log_request(method, path, response.status_code, seconds)
            return response

        return guarded


def paced(request: Request, content: str | bytes, media_type: str = "application/json") -> PacedResponse:
    """Return a response with `content` of this `media_type`. A large `content` is sent as fast as its reader takes it.

    `request` is the request that the response answers. A person may have only a few large responses
    that are not fully sent; a further one gets status 429, so that unread responses do not fill the memory.
    """
    service = service_of(request)
    return PacedResponse(content, media_type, limit=service.unsent, seconds=service.settings.body_seconds)


def service_of(request: Request) -> Service:
    """Return the stores, pools and settings of the replica (process of the service) that serves `request`."""
    return cast(Service, request.app.state.service)


def caller(request: Request) -> Identity:
    """Return the identity of the person who makes the request, which the route has established."""
    return cast(Identity, request.state.identity)

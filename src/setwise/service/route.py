"""What holds for every request: a limit on its body, headers that keep browsers in bounds, and the guard of its route.

Who asks is settled before the body is read, and the answer is counted.
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
from setwise.service.shares import PersonalLimit, current_person
from setwise.service.telemetry import log_request, request_span


class BodyLimit:
    """Answers 413 to a body of more than `most` bytes, by its header or as it arrives; 408 after `seconds`."""

    def __init__(self, app: ASGIApp, most: int, seconds: float) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds
        self._slow = f"the body did not arrive within {seconds:g} s; send it at once"
        self._detail = f"the body may have at most {most} bytes; send less"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting its bytes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._most:
            await error_response(HTTPException(413, self._detail))(scope, receive, send)
            return
        received, complete = 0, False
        until = asyncio.get_running_loop().time() + self._seconds

        async def counted() -> Message:
            nonlocal received, complete
            if complete:  # what comes now is that the caller has gone
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

        await self._app(scope, counted, send)


CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",  # a chart becomes a picture by way of a data address
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
    """Adds the headers to every answer that does not set them itself; with `tls`, browsers are told to insist on it."""

    def __init__(self, app: ASGIApp, *, tls: bool) -> None:
        self._app = app
        self._headers = _HEADERS | ({"Strict-Transport-Security": "max-age=31536000"} if tls else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back with the headers."""
        await self._app(scope, receive, self._adding(send) if scope["type"] == "http" else send)

    def _adding(self, send: Send) -> Callable[[Message], Awaitable[None]]:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        return sending


_PIECE = 64 * 1024
"""Bytes handed to the connection at a time."""


class PacedResponse(Response):
    """A response whose body is handed to the connection in pieces, as fast as its reader takes them.

    A person may have a few such responses unsent: without that limit, a reader who asks for many large answers and
    takes none of them would fill the memory of the replica. Beyond it, 429 is sent instead. A reader who takes nothing
    for `seconds` is cut off.
    """

    def __init__(self, content: str | bytes, media_type: str, *, limit: PersonalLimit, seconds: float) -> None:
        super().__init__(content, media_type=media_type)
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; a small one at once."""
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
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for begin in range(0, len(self.body), _PIECE):
            piece = self.body[begin : begin + _PIECE]
            more = begin + _PIECE < len(self.body)
            async with asyncio.timeout(self._seconds):
                await send({"type": "http.response.body", "body": piece, "more_body": more})


Handler = Callable[[Request], Coroutine[Any, Any, Response]]
ErrorResponse = Callable[[Request, Exception], Response]
"""Tells what went wrong: as a problem document, or as a page to a browser. Kept as `app.state.error_response`."""


class GuardedRoute(APIRoute):
    """A route of the table of permissions; one that is missing there cannot be made."""

    def get_route_handler(self) -> Handler:
        """Return the handler: admit, then answer, then count."""
        answer = super().get_route_handler()
        assert self.methods is not None
        (method,) = self.methods
        access, path = ROUTES[method, self.path].access, self.path

        async def guarded(request: Request) -> Response:
            started = time.monotonic()
            service = service_of(request)
            with request_span(method, path, request.headers) as span:
                try:
                    identity = request.state.identity = await service.authenticator.admit(request, access)
                    if identity is not None:
                        current_person.set(identity.person.name)  # each request has a context of its own
                        service.authenticator.count_body(identity, len(await request.body()))
                    response = await answer(request)
                except Exception as error:
                    tell: ErrorResponse = request.app.state.error_response
                    response = tell(request, error)
                span.set_attribute("http.response.status_code", response.status_code)
            seconds = time.monotonic() - started
            service.metrics.request(method, path, response.status_code, seconds)
            log_request(method, path, response.status_code, seconds)
            return response

        return guarded


def paced(request: Request, content: str | bytes, media_type: str = "application/json") -> PacedResponse:
    """Return a response that may be large."""
    service = service_of(request)
    return PacedResponse(content, media_type, limit=service.unsent, seconds=service.settings.body_seconds)


def service_of(request: Request) -> Service:
    """Return the service that this application was made with."""
    return cast(Service, request.app.state.service)


def caller(request: Request) -> Identity:
    """Return who asks, as the guard has recognised them."""
    return cast(Identity, request.state.identity)

"""What holds for every request: a limit on its body, and headers that keep browsers in bounds."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from setwise.service.problems import error_response


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

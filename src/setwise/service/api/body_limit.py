"""Limits on the size of bodies and on how long they take, held while they arrive."""

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from setwise.service.api.error_responses import to_http_exception


class BodyLimit:
    """Middleware that answers 413 to a body of more than `most` bytes, by its header or as it arrives.

    One that has not arrived after `seconds` is answered with 408.
    """

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
            await to_http_exception(HTTPException(413, self._detail))(scope, receive, send)
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

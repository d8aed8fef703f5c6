"""A limit on the size of bodies, held while they arrive."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from setwise.service.answers_to_errors import to_http_exception


class BodyLimit:
    """Middleware that answers 413 to a body of more than `most` bytes, by its header or as it arrives."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
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
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._most:
                raise HTTPException(413, self._detail)
            return message

        await self._app(scope, counted, send)

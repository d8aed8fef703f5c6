"""The log of a replica: one line per event, as text or as JSON, with the id of the request that it belongs to.

No line has a count, a filter, a label, a token or a name from an address: routes are logged as they are declared.
"""

import json
import logging
import re
import secrets
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LogFormat = Literal["text", "json"]
HEADER = "X-Request-Id"

_log = logging.getLogger("setwise.service")
_request: ContextVar[str] = ContextVar("request", default="")
_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_MEASURED = ("method", "route", "status", "seconds")


def configure(log_format: LogFormat) -> None:
    """Send warnings and errors to standard error; with JSON, a line for every request too."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if log_format == "json" else logging.Formatter("%(levelname)s: %(message)s"))
    _log.handlers = [handler]
    _log.propagate = False
    _log.setLevel(logging.INFO if log_format == "json" else logging.WARNING)


def log_request(method: str, route: str, status: int, seconds: float) -> None:
    """Log a request that was answered; times of answers are padded before they are measured."""
    measured = {"method": method, "route": route, "status": status, "seconds": round(seconds, 6)}
    _log.info("request", extra=measured)


class RequestIds:
    """Gives every request an id, the caller's own if it is plain, which its log lines and its answer carry."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(HEADER.lower().encode(), b"")
        id_ = given.decode() if _GIVEN.fullmatch(given) and not given.startswith(b"setwise_") else secrets.token_hex(8)
        _request.set(id_)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = id_
            await send(message)

        await self._app(scope, receive, sending)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "request": _request.get() or None,
        }
        return json.dumps(line | {name: getattr(record, name) for name in _MEASURED if hasattr(record, name)})

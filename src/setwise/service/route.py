"""The route behind every address: who asks is settled before the body is read, and the answer is counted."""

import time
from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute

from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import ROUTES
from setwise.service.replica import Service
from setwise.service.telemetry import log_request, request_span

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
                    request.state.identity = await service.authenticator.admit(request, access)
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


def service_of(request: Request) -> Service:
    """Return the service that this application was made with."""
    return cast(Service, request.app.state.service)


def caller(request: Request) -> Identity:
    """Return who asks, as the guard has recognised them."""
    return cast(Identity, request.state.identity)

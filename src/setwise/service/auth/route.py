"""The guard before every route: who asks is settled before the body is read, and the answer is counted."""

import time
from collections.abc import Callable, Coroutine
from typing import Any, cast

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from setwise.errors import SetwiseError
from setwise.service.api import error_responses
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import RIGHTS
from setwise.service.replica import Service

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class GuardedRoute(APIRoute):
    """A route of the table of rights; one that is missing there cannot be made."""

    def get_route_handler(self) -> Handler:
        """Return the handler: admit, then answer, then count."""
        answer = super().get_route_handler()
        assert self.methods is not None
        (method,) = self.methods
        access, path = RIGHTS[method, self.path], self.path

        async def guarded(request: Request) -> Response:
            started = time.monotonic()
            service = service_of(request)
            try:
                request.state.identity = await service.doorkeeper.admit(request, access)
                response = await answer(request)
            except SetwiseError as error:
                response = error_responses.to_setwise_error(error)
            except RequestValidationError as error:
                response = error_responses.to_validation_error(error)
            except HTTPException as error:
                response = error_responses.to_http_exception(error)
            except Exception as error:  # a defect of ours: its words may hold data, so it must not reach a log
                response = error_responses.to_defect(error)
            response.headers.setdefault("Cache-Control", "no-store")
            response.headers.setdefault("X-Content-Type-Options", "nosniff")
            service.metrics.request(method, path, response.status_code, time.monotonic() - started)
            return response

        return guarded


def service_of(request: Request) -> Service:
    """Return the service that this application was made with."""
    return cast(Service, request.app.state.service)


def caller(request: Request) -> Identity:
    """Return who asks, as the guard has recognised them."""
    return cast(Identity, request.state.identity)

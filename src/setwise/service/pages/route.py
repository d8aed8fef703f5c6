"""The guard before every page: who asks is settled first; what goes wrong is told as a page, or as a problem."""

import time
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from setwise.errors import NotSignedIn, SetwiseError
from setwise.service.api import error_responses
from setwise.service.api.problems import problem_of
from setwise.service.auth.people import TOKEN_PREFIX
from setwise.service.auth.permissions import PAGES
from setwise.service.auth.route import Handler, service_of
from setwise.service.pages.rendering import error_page


class PageRoute(APIRoute):
    """A page of the table of rights; one that is missing there cannot be made."""

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as the framework has it
        super().__init__(*given, **(named | {"response_model": None}))

    def get_route_handler(self) -> Handler:
        """Return the handler: admit, then answer, then count."""
        answer = super().get_route_handler()
        assert self.methods is not None
        (method,) = self.methods
        access, path = PAGES[method, self.path], self.path

        async def guarded(request: Request) -> Response:
            started = time.monotonic()
            service = service_of(request)
            try:
                request.state.identity = await service.doorkeeper.admit(request, access)
                response = await answer(request)
            except NotSignedIn as error:
                response = _to_login(request) if _for_reading(request) else error_responses.to_setwise_error(error)
            except SetwiseError as error:
                response = _told(request, error_responses.to_setwise_error(error), problem_of(error).detail)
            except RequestValidationError as error:
                response = _told(request, error_responses.to_validation_error(error), "This address is wrong.")
            except HTTPException as error:
                response = _told(request, error_responses.to_http_exception(error), "There is no such page.")
            except Exception as error:  # a defect of ours: its words may hold data, so it must not reach a log
                says = "The service failed to answer; its log names the place."
                response = _told(request, error_responses.to_defect(error), says)
            service.metrics.request(method, path, response.status_code, time.monotonic() - started)
            return response

        return guarded


def _for_reading(request: Request) -> bool:
    """Whether a person will read the answer as a page; scripts ask for JSON."""
    return "text/html" in request.headers.get("accept", "")


def _to_login(request: Request) -> Response:
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if TOKEN_PREFIX in asked:  # a token does not belong into addresses, and is not carried on in one
        asked = "/"
    return RedirectResponse("/login" if asked == "/" else f"/login?next={quote(asked)}", 303)


def _told(request: Request, problem: Response, says: str) -> Response:
    if not _for_reading(request):
        return problem
    return error_page(request, problem.status_code, says)

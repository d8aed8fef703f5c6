"""Single sign-on in the browser: the way to the provider, and the way back with its answer."""

from urllib.parse import quote, unquote

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from setwise.errors import Forbidden, NameTaken, NotSignedIn, SetwiseError, Unavailable
from setwise.service.auth.openid import CALLBACK, Attempt
from setwise.service.auth.sign_on import SignOn
from setwise.service.pages.login import local_address, login_form, set_cookie, signed_in
from setwise.service.problems import problem_of
from setwise.service.route import GuardedRoute, service_of

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

ATTEMPT_COOKIE = "setwise_sign_on"
"""Holds the secret of the sign-on under way and where it leads; the provider's answer counts in this browser alone."""

_MINUTES = 10


@router.get("/sign-on")
async def begin(request: Request, next: str = "") -> Response:  # noqa: A002 - the word in the address
    """Send the browser to the provider."""
    going = local_address(next)
    sign_on = _sign_on(request)
    service_of(request).authenticator.count_attempt(request)
    try:
        attempt, address = await sign_on.begin()
    except Unavailable as error:
        return _told(request, going, error)
    response = RedirectResponse(address, 303)
    kept = f"{attempt.secret}.{quote(going, safe='')}"
    set_cookie(request, response, ATTEMPT_COOKIE, kept, 60 * _MINUTES, same_site="lax", path="/sign-on")
    return response


@router.get(CALLBACK)
async def finish(request: Request) -> Response:
    """Take the provider's answer, once."""
    secret, _, kept = request.cookies.get(ATTEMPT_COOKIE, "").partition(".")
    going = local_address(unquote(kept))
    sign_on = _sign_on(request)
    service_of(request).authenticator.count_attempt(request)  # before the provider is asked and the log written
    try:
        session = await sign_on.finish(Attempt(secret), request.query_params)
    except (NotSignedIn, Forbidden, NameTaken, Unavailable) as error:
        response = _told(request, going, error)
    else:
        response = signed_in(request, session, going)
    response.delete_cookie(ATTEMPT_COOKIE, path="/sign-on")
    return response


def _sign_on(request: Request) -> SignOn:
    found = service_of(request).sign_on
    if found is None:
        raise HTTPException(404)
    return found


def _told(request: Request, going: str, error: SetwiseError) -> Response:
    problem = problem_of(error)
    return login_form(request, going, f"{problem.detail[:1].upper()}{problem.detail[1:]}.", problem.status)

"""Pages to sign in, with a token or by single sign-on, which gives the browser a session cookie, and to sign out."""

import hmac
import re
import secrets
from contextlib import suppress
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from setwise.errors import Forbidden, NameTaken, NotSignedIn, SetwiseError, Unavailable
from setwise.service.auth.authenticator import COOKIE, NewSession, csrf_value
from setwise.service.auth.openid import CALLBACK, Attempt, SignOn
from setwise.service.auth.people import TOKEN_PREFIX
from setwise.service.pages.rendering import render
from setwise.service.problems import problem_of
from setwise.service.route import GuardedRoute, service_of

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

LOGIN_COOKIE = "setwise_login"
"""The cookie with a random value that the login form must repeat, so that no other site can send the form."""

_FORM_TYPE = "application/x-www-form-urlencoded"
_LONGEST_FORM = 8 * 1024
"""The most bytes of a submitted form: a token, an address and a CSRF value take some hundreds."""

_MOST_FIELDS = 8
"""The most fields of a submitted form."""

_NOT_OUR_FORM = "the sign-in form has expired, or another site sent it; reload the page and try again"
_HOME = "/ask"
_OURS = re.compile(r"/(explore|ask|accounts|answers|reference|steward)(/[A-Za-z0-9._/-]*)?(\?[A-Za-z0-9._=&%-]*)?")


def local_address(address: str) -> str:
    """Return `address` if it is one of the service's own pages, and the address of the first page otherwise.

    `address` comes from a link and says where to go after signing in. Without this check, the link could lead people
    from our login to another site.

    >>> local_address("/accounts/ada"), local_address("//elsewhere.example/ask"), local_address("/ask/..//evil")
    ('/accounts/ada', '/ask', '/ask')
    """
    is_ours = _OURS.fullmatch(address) and not any(part in address for part in ("//", "..", TOKEN_PREFIX))
    return address if is_ours else _HOME


@router.get("/")
async def home() -> Response:
    """Redirect to the page that people see first: the form to ask a question."""
    return RedirectResponse(_HOME, 303)


@router.get("/login")
async def login_page(request: Request, next: str = "") -> Response:  # noqa: A002 - the word in the address
    """Show the form to sign in; `next` is the page to go to afterwards."""
    return login_form(request, local_address(next), "")


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Sign in with the token in the submitted login form: set a session cookie and redirect to the wanted page.

    The form is shown again, with a message, if the token is unknown, expired or revoked.
    """
    form = await _read_form(request)
    destination = local_address(form.get("next", ""))
    _check_own_form(request, form.get("csrf", ""), request.cookies.get(LOGIN_COOKIE, ""))
    try:
        session = await service_of(request).authenticator.sign_in(request, form.get("token", "").strip())
    except NotSignedIn:
        return login_form(
            request, destination, "This token is unknown, expired or revoked. Ask a steward for a new one.", 401
        )
    return signed_in(request, session, destination)


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the browser's session, delete its cookie and redirect to the login page."""
    secret = request.cookies.get(COOKIE, "")
    if secret:
        form = await _read_form(request)
        _check_own_form(request, form.get("csrf", ""), csrf_value(secret))
        await service_of(request).authenticator.sign_out(secret)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE, path="/")
    return response


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of the submitted form by their names.

    Anybody may send a form, so a body that is longer than our forms is refused before it is parsed. Raises `Forbidden`
    for a body that is not one of our forms; this counts as a failed sign-in from the request's IP address.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if kind == _FORM_TYPE and len(body) <= _LONGEST_FORM:
        with suppress(ValueError):  # too many fields, or bytes that are no text
            return dict(parse_qsl(body.decode("ascii"), max_num_fields=_MOST_FIELDS, errors="strict"))
    service_of(request).authenticator.count_attempt(request)
    raise Forbidden(_NOT_OUR_FORM)


def login_form(request: Request, destination: str, message: str, status: int = 200) -> Response:
    """Return the login page, as a response with the HTTP `status`, with `message` above the form.

    `destination` is the page to go to after signing in.
    """
    csrf = secrets.token_urlsafe(32)
    sign_on = service_of(request).sign_on is not None
    response = render(
        request, "login.html", status=status, destination=destination, message=message, csrf=csrf, sign_on=sign_on
    )
    set_cookie(request, response, LOGIN_COOKIE, csrf, 3600, same_site="strict", path="/login")
    return response


def signed_in(request: Request, session: NewSession, destination: str) -> Response:
    """Return a redirect to the page `destination`, with the cookie of the new browser session `session`."""
    response = RedirectResponse(destination, 303)
    seconds = max(1, int(session.expires_at - service_of(request).authenticator.now()))
    set_cookie(request, response, COOKIE, session.secret, seconds, same_site="lax")
    response.delete_cookie(LOGIN_COOKIE, path="/login")
    return response


def set_cookie(
    request: Request, response: Response, name: str, value: str, seconds: int, *, same_site: str, path: str = "/"
) -> None:
    """Add to `response` a cookie `name` with this `value`, which scripts cannot read, for `seconds` seconds.

    `same_site` and `path` are the cookie's attributes of these names. If the settings say so, or if this request came
    over HTTPS, browsers send the cookie over HTTPS only.
    """
    secure = service_of(request).settings.secure_cookies or request.url.scheme == "https"
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=path,
        secure=secure,
        httponly=True,
        samesite=same_site,  # type: ignore[arg-type]
    )


def _check_own_form(request: Request, token: str, expected: str) -> None:
    """Raise `Forbidden` unless the submitted form came from one of our pages, and not from another site.

    Our pages put a random value into each form and into the browser's cookie, and another site does not know this
    value. `token` is the value in the submitted form, and `expected` the value for this browser's cookie, or "" without
    a cookie. A refused form counts as a failed sign-in from the request's IP address.
    """
    origin = request.headers.get("origin")
    elsewhere = origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")
    if elsewhere or not expected or not hmac.compare_digest(token.encode(), expected.encode()):
        service_of(request).authenticator.count_attempt(request)
        raise Forbidden(_NOT_OUR_FORM)


ATTEMPT_COOKIE = "setwise_sign_on"
"""The cookie with the secret of a sign-on that has begun, and the page to go to afterwards.

The provider's response is accepted only from the browser that has this cookie.
"""

_MINUTES = 10
"""Minutes that a person may take to sign on at the provider."""


@router.get("/sign-on")
async def begin(request: Request, next: str = "") -> Response:  # noqa: A002 - the word in the address
    """Redirect the browser to the single sign-on provider; `next` is the page to go to afterwards."""
    destination = local_address(next)
    sign_on = _sign_on(request)
    service_of(request).authenticator.count_attempt(request)
    try:
        attempt, address = await sign_on.begin()
    except Unavailable as error:
        return _login_form_with_error(request, destination, error)
    response = RedirectResponse(address, 303)
    cookie = f"{attempt.secret}.{quote(destination, safe='')}"
    set_cookie(request, response, ATTEMPT_COOKIE, cookie, 60 * _MINUTES, same_site="lax", path="/sign-on")
    return response


@router.get(CALLBACK)
async def finish(request: Request) -> Response:
    """Sign a person in with the provider's response in the request's parameters; show the login form if it is refused.

    A response is accepted once, and only from the browser that began the sign-on.
    """
    secret, _, quoted_page = request.cookies.get(ATTEMPT_COOKIE, "").partition(".")
    destination = local_address(unquote(quoted_page))
    sign_on = _sign_on(request)
    service_of(request).authenticator.count_attempt(request)  # before the provider is asked and the log written
    try:
        session = await sign_on.finish(Attempt(secret), request.query_params)
    except (NotSignedIn, Forbidden, NameTaken, Unavailable) as error:
        response = _login_form_with_error(request, destination, error)
    else:
        response = signed_in(request, session, destination)
    response.delete_cookie(ATTEMPT_COOKIE, path="/sign-on")
    return response


def _sign_on(request: Request) -> SignOn:
    """Return the service's single sign-on; raise an `HTTPException` with status 404 if none is configured."""
    sign_on = service_of(request).sign_on
    if sign_on is None:
        raise HTTPException(404)
    return sign_on


def _login_form_with_error(request: Request, destination: str, error: SetwiseError) -> Response:
    """Return the login page with the message of `error` above the form.

    `destination` is the page to go to after signing in.
    """
    problem = problem_of(error)
    return login_form(request, destination, f"{problem.detail[:1].upper()}{problem.detail[1:]}.", problem.status)

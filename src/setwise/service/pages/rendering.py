"""Pages from templates, and errors as pages; everything that is put in is escaped."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from setwise.accounting.notation import kind_in_words, parse_use, rounded_up, short_exponents, use_in_words
from setwise.analytics.answer import number
from setwise.errors import NotSignedIn, SetwiseError
from setwise.service.auth.people import TOKEN_PREFIX, Identity
from setwise.service.pages.assets import chart_library, static_version
from setwise.service.problems import problem_of


def small(value: float) -> str:
    """Return a small number with few digits.

    >>> small(1e-6), small(0.05)
    ('1e-6', '0.05')
    """
    return short_exponents(f"{value:.3g}")


_TITLES = {
    401: "Sign in",
    402: "The account cannot pay",
    403: "Not allowed",
    404: "Page not found",
    409: "Name or key already used",
    429: "Too many requests",
    503: "Service busy",
}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("setwise.service.pages", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., object]] = {
        "promise": lambda value: rounded_up(value, 4),
        "small": small,
        "moment": lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M"),
        "use_in_words": lambda text: use_in_words(parse_use(text)),
        "kind_in_words": lambda text: kind_in_words(parse_use(text).guarantee),
        "number": number,
        "count_of": lambda text: parse_use(text).count,
    }
    environment.filters.update(filters)
    return environment


def render(request: Request, template: str, *, status: int = 200, charts: bool = False, **given: Any) -> HTMLResponse:  # noqa: ANN401
    """Return the page of a template; with `charts`, the chart library is loaded too."""
    identity: Identity | None = getattr(request.state, "identity", None)
    page = _environment().get_template(template)
    text = page.render(
        here=request.url.path,
        identity=identity,
        static=f"/static/{static_version()}",
        library=chart_library() if charts else None,
        **given,
    )
    return HTMLResponse(text, status)


def error_page(request: Request, error: Exception, problem: Response) -> Response:
    """Return the page that tells of an error, the way to the login, or the problem itself: scripts ask for JSON."""
    if "text/html" not in request.headers.get("accept", ""):
        return problem
    match error:
        case NotSignedIn():
            return _to_login(request)
        case SetwiseError():
            says = problem_of(error).detail
        case RequestValidationError():
            says = "the address of this page is not valid"
        case HTTPException():
            says = "there is no such page"
        case _:
            says = "the service failed to answer; its log names the place"
    title = _TITLES.get(problem.status_code, "Something went wrong")
    sentence = says[:1].upper() + says[1:].rstrip(".") + "."
    return render(request, "error.html", status=problem.status_code, title=title, says=sentence)


def _to_login(request: Request) -> Response:
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if TOKEN_PREFIX in asked:  # a token does not belong into addresses, and is not carried on in one
        asked = "/"
    return RedirectResponse("/login" if asked == "/" else f"/login?next={quote(asked)}", 303)

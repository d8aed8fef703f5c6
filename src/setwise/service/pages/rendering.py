"""Pages and error pages from Jinja templates that escape every value; static files, their types and caching.

The addresses of styles, scripts and the chart library change with their contents, so that browsers may cache them for
good.
"""

import gzip
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from setwise.accounting.notation import kind_in_words, parse_use, short_exponents, use_in_words
from setwise.accounting.promises import rounded_up
from setwise.analytics.answer import number
from setwise.errors import MissingExtra, NotSignedIn, SetwiseError
from setwise.service.auth.people import TOKEN_PREFIX, Identity
from setwise.service.problems import problem_of
from setwise.service.route import GuardedRoute, service_of


def small(value: float) -> str:
    """Return the delta `value` as text with three significant digits, rounded up; its exponent has no leading zeros.

    >>> small(1e-6), small(0.05), small(1.2341e-7)
    ('1e-6', '0.05', '1.24e-7')
    """
    return short_exponents(rounded_up(value, 3))


def detail(value: object) -> str:
    """Return one detail of an audit event, such as what a dataset was registered with, as text for people.

    The members of a list are separated by commas, and those of a dict stand behind their names. Of a hash only the
    first ten characters are shown, because nobody reads more.

    >>> detail({"contributions": 3, "reads": ["a", "b"], "cap": None}), detail(False)
    ('contributions 3, reads (a, b)', 'no')
    """
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            members = ((name, member) for name, member in value.items() if member not in (None, "", [], {}))
            return ", ".join(f"{name} {_nested(member)}" for name, member in members)
        case list():
            return ", ".join(map(_nested, value))
        case str() if len(value) == _HASH_LENGTH and not set(value) - set("0123456789abcdef"):
            return value[:10] + "…"
        case _:
            return str(value)


def _nested(member: object) -> str:
    """Return a member of a list or dict as text for people: in brackets if it is a list or dict itself."""
    return f"({detail(member)})" if isinstance(member, dict | list) else detail(member)


_HASH_LENGTH = 64
"""The number of characters of a SHA-256 hash in hexadecimal digits."""

_ERROR_TITLES = {
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
    """Return the Jinja environment of the pages' templates, with the filters that they use."""
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
        "detail": detail,
        "moment": lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M"),
        "use_in_words": lambda text: use_in_words(parse_use(text)),
        "kind_in_words": lambda text: kind_in_words(parse_use(text).guarantee),
        "number": number,
        "count_of": lambda text: parse_use(text).count,
    }
    environment.filters.update(filters)
    return environment


def render(request: Request, template: str, *, status: int = 200, charts: bool = False, **values: Any) -> HTMLResponse:  # noqa: ANN401
    """Return the HTML response for the page `template`, whose variables are `values`, with the HTTP `status`.

    With `charts` the page loads the chart library.
    """
    identity: Identity | None = getattr(request.state, "identity", None)
    page = _environment().get_template(template)
    text = page.render(
        here=request.url.path,
        identity=identity,
        static=f"/static/{static_version()}",
        library=chart_library() if charts else None,
        **values,
    )
    return HTMLResponse(text, status)


def error_page(request: Request, error: Exception, problem: Response) -> Response:
    """Return the response to a request for a page that failed with `error`.

    A browser gets a page that shows the error, or a redirect to the login page if nobody is signed in. A script, which
    does not accept HTML, gets `problem`, the error as a JSON problem document.
    """
    if "text/html" not in request.headers.get("accept", ""):
        return problem
    match error:
        case NotSignedIn():
            return _redirect_to_login(request)
        case SetwiseError():
            detail = problem_of(error).detail
        case RequestValidationError():
            detail = "the address of this page is not valid"
        case HTTPException():
            detail = "there is no such page"
        case _:
            detail = "the service failed to answer; its log names the place"
    title = _ERROR_TITLES.get(problem.status_code, "Something went wrong")
    sentence = detail[:1].upper() + detail[1:].rstrip(".") + "."
    return render(request, "error.html", status=problem.status_code, title=title, message=sentence)


def _redirect_to_login(request: Request) -> Response:
    """Return a redirect to the login page, from which the person comes back to the requested page after signing in.

    If the requested address contains a token by mistake, the person comes back to the first page instead, so that the
    token does not appear in the address of the login page too.
    """
    address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if TOKEN_PREFIX in address:  # a token does not belong into addresses, and must not be repeated in another one
        address = "/"
    return RedirectResponse("/login" if address == "/" else f"/login?next={quote(address)}", 303)


router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Return (contents, media type) of every static file of the pages, by the file's name."""
    folder = files("setwise.service.pages").joinpath("static")
    static = sorted(folder.iterdir(), key=lambda each: each.name)
    return {
        file.name: (file.read_bytes(), kind)
        for file in static
        if (kind := _TYPES.get("." + file.name.rpartition(".")[2])) is not None
    }


@cache
def static_version() -> str:
    """Return the version in the address of every static file: 16 hexadecimal digits of a digest of all files.

    Browsers may cache such an address for good, because a changed file changes the version. All files share one
    version, because scripts import each other by relative names.
    """
    digest = hashlib.sha256()
    for name, (contents, _) in static_files().items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(contents).digest())
    return digest.hexdigest()[:16]


_VERSION = re.compile(rb"plotly\.js v([0-9.]+)")
_STYLE_ID = re.compile(rb'document\.getElementById\("([0-9a-f]{64})"\)')


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLibrary:
    """The JavaScript chart library that charts are drawn with: its `script`, and the `version` of the library.

    Our pages forbid inline styles by their Content-Security-Policy. The script adds inline styles to a page unless the
    page already has elements with all of the ids `style_ids`; therefore pages contain empty elements with these ids.
    """

    version: str
    style_ids: tuple[str, ...]
    script: bytes


@cache
def chart_library() -> ChartLibrary:
    """Return the chart library, read from the installed plotly package at the first call.

    Raises `MissingExtra` if plotly is not installed.
    """
    spec = find_spec("plotly")
    folders = [] if spec is None else spec.submodule_search_locations or []
    scripts = [Path(folder) / "package_data" / "plotly.min.js" for folder in folders]
    if not scripts or not scripts[0].is_file():
        raise MissingExtra("the pages need plotly: pip install 'setwise[service]'")
    script = scripts[0].read_bytes()
    version = _VERSION.search(script)
    return ChartLibrary(
        version="unknown" if version is None else version[1].decode(),
        style_ids=tuple(dict.fromkeys(each.decode() for each in _STYLE_ID.findall(script))),
        script=script,
    )


@cache
def compressed_chart_library() -> bytes:
    """Return the script of the chart library compressed with gzip, to less than a third of its size."""
    return gzip.compress(chart_library().script, 6, mtime=0)


_FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get("/static/{version}/{name}")
async def static_file(version: str, name: str) -> Response:
    """Return the static file called `name`, which browsers may keep for good.

    `version` is a part of the file's URL that changes whenever a static file changes. Status 404 if there is no such
    file, or if `version` is not the current one.
    """
    if version != static_version() or name not in static_files():
        raise HTTPException(404)
    contents, kind = static_files()[name]
    return Response(contents, media_type=kind, headers=_FOR_GOOD)


@router.get("/charts/{version}/plotly.min.js")
async def charts(request: Request, version: str) -> Response:
    """Return the script of the chart library, as gzip if the browser accepts it.

    The status is 404 if `version` is not the current one.
    """
    if version != chart_library().version:
        raise HTTPException(404)
    headers = _FOR_GOOD | {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        compressed = await service_of(request).threads.run(compressed_chart_library)
        headers["Content-Encoding"] = "gzip"
        return Response(compressed, media_type="text/javascript", headers=headers)
    return Response(chart_library().script, media_type="text/javascript", headers=headers)

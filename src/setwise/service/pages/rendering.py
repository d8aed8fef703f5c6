"""Pages from templates, in which everything is escaped; errors as pages; and the files that pages load.

Our own styles and scripts, and the chart library, are served under addresses that change with their contents.
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

from setwise.accounting.notation import kind_in_words, parse_use, rounded_up, short_exponents, use_in_words
from setwise.analytics.answer import number
from setwise.errors import MissingExtra, NotSignedIn, SetwiseError
from setwise.service.auth.people import TOKEN_PREFIX, Identity
from setwise.service.problems import problem_of
from setwise.service.route import GuardedRoute, service_of


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


router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Return every file: its contents and type by its name."""
    folder = files("setwise.service.pages").joinpath("static")
    found = sorted(folder.iterdir(), key=lambda each: each.name)
    return {
        each.name: (each.read_bytes(), kind)
        for each in found
        if (kind := _TYPES.get("." + each.name.rpartition(".")[2])) is not None
    }


@cache
def static_version() -> str:
    """Return a digest of all files: one for all, since scripts import each other by relative names."""
    digest = hashlib.sha256()
    for name, (contents, _) in static_files().items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(contents).digest())
    return digest.hexdigest()[:16]


_VERSION = re.compile(rb"plotly\.js v([0-9.]+)")
_STYLE_ID = re.compile(rb'document\.getElementById\("([0-9a-f]{64})"\)')


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLibrary:
    """The script and its version.

    It adds styles of parts that we do not use unless an element with one of the `style_ids` is there already; a page
    that forbids inline styles puts such elements in.
    """

    version: str
    style_ids: tuple[str, ...]
    script: bytes


@cache
def chart_library() -> ChartLibrary:
    """Return the library, read once; raise `MissingExtra` when plotly is not installed."""
    spec = find_spec("plotly")
    folders = [] if spec is None else spec.submodule_search_locations or []
    found = [Path(folder) / "package_data" / "plotly.min.js" for folder in folders]
    if not found or not found[0].is_file():
        raise MissingExtra("the pages need plotly: pip install 'setwise[service]'")
    script = found[0].read_bytes()
    version = _VERSION.search(script)
    return ChartLibrary(
        version="unknown" if version is None else version[1].decode(),
        style_ids=tuple(dict.fromkeys(each.decode() for each in _STYLE_ID.findall(script))),
        script=script,
    )


@cache
def compressed_chart_library() -> bytes:
    """Return the script compressed with gzip, less than a third of its size."""
    return gzip.compress(chart_library().script, 6, mtime=0)


_FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}


@router.get("/static/{version}/{name}")
async def static_file(version: str, name: str) -> Response:
    """Give one of our own files."""
    if version != static_version() or name not in static_files():
        raise HTTPException(404)
    contents, kind = static_files()[name]
    return Response(contents, media_type=kind, headers=_FOR_GOOD)


@router.get("/charts/{version}/plotly.min.js")
async def charts(request: Request, version: str) -> Response:
    """Give the chart library, compressed for whoever can read that."""
    if version != chart_library().version:
        raise HTTPException(404)
    headers = _FOR_GOOD | {"Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        compressed = await service_of(request).threads.run(compressed_chart_library)
        headers["Content-Encoding"] = "gzip"
        return Response(compressed, media_type="text/javascript", headers=headers)
    return Response(chart_library().script, media_type="text/javascript", headers=headers)

"""Pages from templates: everything that is put in is escaped."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from setwise.accounting.notation import parse_use, rounded_up
from setwise.service.auth.people import Identity
from setwise.service.pages.assets import chart_library, static_version


def small(value: float) -> str:
    """Return a small number with few digits.

    >>> small(1e-6), small(0.05)
    ('1e-6', '0.05')
    """
    return _short_exponents(f"{value:.3g}")


def _short_exponents(text: str) -> str:
    return re.sub(r"e([+-])0*", r"e\1", text)


def use_in_words(text: str) -> str:
    """Return a written use in words.

    >>> use_in_words("bounded-range:0.1x8")
    '8 picks at ε 0.1'
    >>> use_in_words("approx:0,1e-09")
    '1 threshold at δ 1e-9'
    """
    use = parse_use(text)
    noun, at = use.guarantee.in_words()
    return f"{use.count:,} {noun if use.count == 1 else noun + 's'} at {_short_exponents(at)}"


def kind_in_words(text: str) -> str:
    """Return the kind of a written use in words, whatever its count.

    >>> kind_in_words("pure:0.1x25")
    'counts at ε 0.1'
    """
    noun, at = parse_use(text).guarantee.in_words()
    return f"{noun}s at {_short_exponents(at)}"


_TITLES = {
    401: "Sign in",
    402: "The budget is used up",
    403: "Not for you",
    404: "Nothing here",
    409: "That is taken",
    429: "Too fast",
    503: "Not now",
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
        "use_in_words": use_in_words,
        "kind_in_words": kind_in_words,
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


def error_page(request: Request, status: int, says: str) -> HTMLResponse:
    """Return a page that tells what went wrong in a sentence."""
    sentence = says[:1].upper() + says[1:]
    title = _TITLES.get(status, "That did not work")
    return render(request, "error.html", status=status, title=title, says=sentence.rstrip(".") + ".")


def page_not_found(request: Request) -> HTMLResponse | None:
    """Return the page for an address that is nobody's, or None for whoever does not read pages."""
    if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
        return None
    return error_page(request, 404, "There is no such page")

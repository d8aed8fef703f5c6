"""The site: every page is in it, no link is dead, nothing is fetched from elsewhere, nothing is left undocumented."""

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.docs.pages import PAGES, ROOT

sys.path.insert(0, str(ROOT / "website"))

from commands import commands
from exports import exports
from routes import routes

_LOADS = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
}


@dataclass
class Html(HTMLParser):
    """What a page links to, loads and can be linked at, and its text."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        loaded = given.get(_LOADS.get(tag, ""))
        if loaded and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(loaded)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: Path) -> Html:
    parser = Html()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    return {page: read(page) for page in sorted(site.rglob("*.html")) if page.name != "404.html"}


def text_of(site: Path, name: str) -> str:
    return " ".join(" ".join(read(site / "reference" / name).text).split())


def test_every_document_is_a_page(site):
    for document in PAGES:
        name = document.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / str(name).replace("README.html", "index.html")).exists()


def test_every_page_is_in_the_navigation(site, pages):
    start = {(site / unquote(urlsplit(link).path)).resolve() for link in pages[site / "index.html"].links}
    reachable = set()
    for page, html in pages.items():
        reachable |= {(page.parent / unquote(urlsplit(link).path)).resolve() for link in html.links}
    assert set(pages) <= reachable | start


def test_no_link_is_dead(pages):
    dead = []
    for page, html in pages.items():
        for link in html.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            ):
                dead.append((page.name, link))
    assert not dead


def test_nothing_is_fetched_from_elsewhere(site, pages):
    assert not [(page.name, url) for page, html in pages.items() for url in html.loads if urlsplit(url).netloc]
    styles = [path for path in site.rglob("*.css") if "url(http" in path.read_text() or "@import" in path.read_text()]
    assert not styles
    assert "https://" not in (site / "assets" / "setwise.css").read_text()


def test_what_a_page_loads_is_there(pages):
    loads = [(page, url) for page, html in pages.items() for url in html.loads if not url.startswith("data:")]
    assert loads
    assert not [url for page, url in loads if not (page.parent / unquote(urlsplit(url).path)).resolve().exists()]


def test_formulas_are_set(pages):
    assert "math" in (ROOT / "website" / "mathematics.py").read_text()
    assert not [page.name for page in pages if 'class="arithmatex"' in page.read_text()]
    assert sum(page.read_text().count("<math ") for page in pages) > 500


@pytest.mark.parametrize("path", [path for room in exports().values() for path in room])
def test_every_export_is_documented(path, pages):
    anchors = set().union(*(html.anchors for html in pages.values()))
    assert path in anchors


def test_every_room_with_exports_has_a_page():
    shown = " ".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    assert not [room for room in exports() if f"<!-- site: exports {room} -->" not in shown]


@pytest.mark.parametrize(
    ("words", "command"), list(commands()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_and_option_is_documented(words, command, site):
    page = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    (section,) = (part for part in re.split(r"(?=<h[23] id=)", page) if part.split(">")[1].startswith(f"{words}<"))
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "hidden", False) or parameter.help, (words, parameter.name)
        for option in (*parameter.opts, *parameter.secondary_opts):
            if option.startswith("-"):
                assert re.search(rf"<code>[^<]*{option}\b", section), option


def test_every_route_is_documented(site):
    shown = text_of(site, "routes.html")
    for method, path, operation in routes():
        assert f"{method} {path}" in shown
        assert operation["description"]

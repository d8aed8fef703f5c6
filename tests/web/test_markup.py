"""What must hold of every page: nothing inline, nothing from elsewhere, everything labelled, everything escaped."""

import html
import re
from importlib.resources import files
from urllib.parse import quote

import pytest

from tests.service.team import Team, asked, made
from tests.web.outline import check
from tests.web.shop import HOSTILE, top

PAGES = [
    "/explore",
    "/ask",
    "/accounts",
    "/accounts/ada-shop",
    "/accounts/ada-total",
    "/live",
    "/steward",
    "/steward/audit",
    "/steward/trail",
    "/reference",
]
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@pytest.fixture(scope="module")
def answers(shop: Team) -> dict[str, str]:
    """Queries of ada's by what they are: with counts, labels only, a number, nothing found, refused."""
    labels = top(4)
    labels["spend"] = {"kind": "draws", "discover": "bounded-range:0.1", "threshold_delta": 1e-9}
    count = {
        "dataset": "shop",
        "account": "ada-shop",
        "query": {"kind": "count"},
        "spend": {"kind": "draws", "counts": "pure:0.1"},
    }
    domain = top(2, domain=[HOSTILE, "tent", "gloves"])
    nobody = top(3, where="country = 'XX'")
    bodies = {"counted": top(10), "labels": labels, "count": count, "domain": domain, "empty": nobody}
    return {name: str(asked(shop.ada, f"markup-{name}", body)["id"]) for name, body in bodies.items()}


@pytest.mark.parametrize("address", PAGES)
def test_every_page_is_well_formed_and_labelled(shop: Team, answers: dict[str, str], address: str) -> None:
    page = shop.signed_in("steward" if address.startswith("/steward") else "ada").get(address)
    assert page.status_code == 200
    check(page.text)


def test_the_login_and_error_pages_are_too(shop: Team) -> None:
    check(shop.browser().get("/login").text)
    check(shop.signed_in("ada").get("/steward").text)
    check(shop.signed_in("ada").get("/no-such-page").text)


def test_answers_of_every_kind_are_too(shop: Team, answers: dict[str, str]) -> None:
    ada = shop.signed_in("ada")
    for name, id_ in answers.items():
        page = ada.get(f"/answers/{id_}")
        assert page.status_code == 200, name
        check(page.text)
    assert "No item" in ada.get(f"/answers/{answers['empty']}").text
    assert "big-number" in ada.get(f"/answers/{answers['count']}").text


def test_labels_stay_text_wherever_they_are_shown(shop: Team, answers: dict[str, str]) -> None:
    """The labels come from the data and may hold anything."""
    ada = shop.signed_in("ada")
    for name in ("counted", "labels", "domain"):
        text = ada.get(f"/answers/{answers[name]}").text
        assert html.escape(HOSTILE) in text.replace("&#34;", "&quot;").replace("&#39;", "&#x27;")
        assert "<img src=x" not in text
        assert "<b>bold" not in text
        block = re.search(r'<script type="application/json" class="answer-data">(.*?)</script>', text, re.S)
        assert block is None or "<" not in block[1]


def test_what_people_type_stays_text(shop: Team) -> None:
    """A filter and a token's label are typed by people and shown to others."""
    hostile = "</script><script>alert(1)</script>"
    made(shop.steward.post("/people/bob/tokens", json={"label": hostile}))
    body = top(3, "bob-shop", where=f"country = '{hostile}'")
    id_ = asked(shop.bob, "typed", body)["id"]
    steward = shop.signed_in("steward")
    for address in ("/steward", "/accounts/bob-shop", "/steward/audit?account=bob-shop", f"/answers/{id_}"):
        text = steward.get(address).text
        assert "<script>alert" not in text, address
        assert "&lt;script&gt;alert" in text, address
        check(text)


@pytest.mark.parametrize(
    "strange", ["\0", "x" * 5000, "ünïcode", "'; DROP TABLE accounts --", "../..", "{{ 7 * 7 }}", "%00", "\u202e"]
)
def test_strange_values_break_no_page(shop: Team, strange: str) -> None:
    steward = shop.signed_in("steward")
    asks: list[tuple[str, dict[str, str]]] = [
        ("/ask", {"account": strange}),
        ("/steward/audit", {"account": strange}),
        ("/steward/verify", {"head": strange}),
        (f"/accounts/{quote(strange, safe='')}", {}),
        (f"/answers/{quote(strange, safe='')}", {}),
        ("/accounts/ada-shop", {"most": strange}),
        ("/login", {"next": strange}),
        ("/explore", {"k": strange}),
    ]
    for address, params in asks:
        response = steward.get(address, params=params)
        assert response.status_code in {200, 303, 404, 422}, (address, response.status_code)
        if response.status_code != 303 and address != "/steward/verify":
            check(response.text)


@pytest.mark.parametrize("address", [*PAGES, "/login", "/api/v1/health", "/no-such-page"])
def test_every_answer_keeps_the_browser_in_bounds(shop: Team, address: str) -> None:
    response = shop.signed_in("steward").get(address)
    policy = dict(each.split(" ", 1) for each in response.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["form-action"] == "'self'"
    assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert response.headers["Cache-Control"] == "no-store"


def test_our_scripts_and_styles_fetch_nothing_from_elsewhere() -> None:
    folder = files("setwise.service.pages").joinpath("static")
    for each in folder.iterdir():
        text = each.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]+\.[a-z]+/|@import|innerHTML|insertAdjacentHTML|\beval\(", text), (
            each.name
        )
        assert each.name != "plotly.min.js"


def test_static_files_are_kept_for_good_and_nothing_else_is_given(shop: Team) -> None:
    browser = shop.browser()
    page = browser.get("/login").text
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
        response = browser.get(address)
        assert response.status_code == 200
        assert "immutable" in response.headers["Cache-Control"]
    version = re.search(r"/static/([0-9a-f]+)/", page)
    assert version is not None
    for name in ("..%2f__init__.py", "login.html", "%2e%2e%2frights.py", ""):
        assert browser.get(f"/static/{version[1]}/{name}").status_code in {404, 405}


def test_the_chart_library_is_the_installed_one(shop: Team) -> None:
    ada = shop.signed_in("ada")
    address = re.search(r'src="(/charts/[^"]+)"', ada.get("/explore").text)
    assert address is not None
    plain = ada.get(address[1], headers={"Accept-Encoding": "identity"})
    assert plain.headers["content-type"].startswith("text/javascript")
    assert plain.content == files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    packed = ada.get(address[1], headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content

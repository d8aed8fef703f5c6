"""Who may open which page: the whole table, for everybody it concerns."""

import re

import pytest

from setwise.service.auth.permissions import PAGES, Access
from setwise.service.pages.rendering import chart_library, static_version
from tests.service.team import Team, asked, made
from tests.web.shop import top

EVERYBODY = ("nobody", "ada", "bob", "steward")


@pytest.fixture(scope="module")
def answered(shop: Team) -> str:
    """The id of a query of ada's."""
    return str(asked(shop.ada, "rights", top(3))["id"])


def _address(path: str, answered: str) -> str:
    given = {"account": "ada-shop", "query": answered, "name": "page.css", "series": "none"}
    version = chart_library().version if path.startswith("/charts") else static_version()
    address = path.format(version=version, **given) if "{" in path else path
    parameters = {
        "/explore/curve": "?which=paper&k=10&epsilon=0.1&delta=1e-6",
        "/steward/columns": "?table=shop.parquet",
    }
    return address + parameters.get(path, "")


def _expected(method: str, path: str, access: Access, who: str) -> int:
    """The status that the table and ownership call for."""
    if method == "POST":
        return 403 if path == "/login" else 303  # a form without its value; signing out when nobody is signed in
    if path.startswith("/sign-on"):
        return 404  # this replica has no provider; tests/service/test_sign_on.py has one
    if access is Access.ANYONE:
        return 200
    if who == "nobody" or path == "/":
        return 303
    if access is Access.STEWARD:
        return 200 if who == "steward" else 403
    if "{series}" in path:
        return 404  # there is none; tests/service/test_live.py has one
    theirs = "{account}" in path or "{query}" in path
    return 404 if theirs and who == "bob" else 303 if path == "/accounts" and who == "bob" else 200


# What forms do when somebody is signed in is tested where people sign in.
_CASES = [(*place, who) for place in PAGES for who in EVERYBODY if place[0] == "GET" or who == "nobody"]


@pytest.mark.parametrize(("method", "path", "who"), _CASES)
def test_every_page_admits_whom_the_table_says(shop: Team, answered: str, method: str, path: str, who: str) -> None:
    browser = shop.browser() if who == "nobody" else shop.signed_in(who)
    response = browser.request(method, _address(path, answered))
    assert response.status_code == _expected(method, path, PAGES[method, path].access, who), response.text[:300]
    if response.status_code == 303 and who == "nobody" and path != "/logout":
        assert response.headers["location"].startswith("/login")


def test_the_table_opens_only_the_door_to_anyone_and_a_stewards_pages_to_stewards() -> None:
    for (_, path), permission in PAGES.items():
        access = permission.access
        door = path in {"/login", "/logout"} or path.startswith(("/sign-on", "/static/", "/charts/"))
        expected = Access.ANYONE if door else Access.STEWARD if path.startswith("/steward") else Access.PERSON
        assert access is expected, path


def test_somebody_elses_account_and_one_that_is_not_there_are_refused_alike(shop: Team, answered: str) -> None:
    bob = shop.signed_in("bob")
    theirs = bob.get("/accounts/ada-shop").text.replace("ada-shop", "NAME")
    nobodys = bob.get("/accounts/no-such").text.replace("no-such", "NAME")
    assert theirs == nobodys
    assert bob.get(f"/answers/{answered}").text == bob.get(f"/answers/{'0' * 32}").text.replace("0" * 32, answered)


def test_scripts_are_told_in_json(shop: Team, answered: str) -> None:
    bob = shop.signed_in("bob")
    refused = bob.get(f"/answers/{answered}/panel", headers={"Accept": "application/json"})
    assert refused.headers["content-type"] == "application/problem+json"
    assert shop.browser().get("/explore/curve", headers={"Accept": "application/json"}).status_code == 401


def test_a_page_that_is_not_there_is_told_as_a_page(shop: Team) -> None:
    for address in ("/nothing", "/answers/short", "/static/0/page.css"):
        response = shop.signed_in("ada").get(address)
        assert response.status_code in {404, 422}, address
        assert "<h1>" in response.text
    assert shop.ada.get("/nothing").headers["content-type"] == "application/problem+json"


def test_an_account_is_offered_to_whoever_may_ask_and_to_no_monitor(shop: Team) -> None:
    made(shop.steward.post("/people", json={"name": "prometheus", "role": "monitor"}))
    page = shop.signed_in("steward").get("/steward").text
    form = re.search(r'<select id="account-analyst".*?</select>', page, re.DOTALL)
    assert form is not None
    assert set(re.findall(r"<option>([^<]+)</option>", form[0])) == {"ada", "bob", "steward"}
    assert "prometheus" in page

"""Signing in and out: the cookie leads to the person of the token, and no other site can make use of it."""

import re
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest

from setwise.service.settings import Settings
from tests.service.replica import QUICK, running
from tests.service.team import Team


def _csrf(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert found is not None
    return found[1]


def _cookies(response: httpx.Response) -> SimpleCookie:
    cookies: SimpleCookie = SimpleCookie()
    for line in response.headers.get_list("set-cookie"):
        cookies.load(line)
    return cookies


def _log_in(browser: httpx.Client, token: str, **more: str) -> httpx.Response:
    return browser.post("/login", data={"token": token, "csrf": _csrf(browser.get("/login")), **more})


def test_the_cookie_leads_to_the_person_of_the_token(shop: Team) -> None:
    for name, role in (("ada", "analyst"), ("steward", "steward")):
        page = shop.signed_in(name).get("/explore")
        assert page.status_code == 200
        assert re.search(rf'class="who-name">{name}</span>\s*<span class="badge">{role}<', page.text)
        assert shop.signed_in(name).get("/api/v1/me").json() == {"name": name, "role": role}


def test_cookies_are_for_the_server_alone(shop: Team) -> None:
    browser = shop.browser()
    form = _cookies(browser.get("/login"))["setwise_login"]
    assert form["httponly"]
    assert form["samesite"].lower() == "strict"
    session = _cookies(_log_in(browser, shop.tokens["ada"]))["setwise_session"]
    assert session["httponly"]
    assert session["samesite"].lower() == "lax"
    assert session["path"] == "/"
    assert 0 < int(session["max-age"]) <= 12 * 3600
    assert not session["secure"]  # this replica is spoken to without TLS


def test_behind_tls_cookies_travel_encrypted_only(tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "l.db"), secure_cookies=True, **QUICK)
    with running(settings) as replica, httpx.Client(base_url=replica.url) as browser:
        form = browser.get("/login")
        cookie = _cookies(form)["setwise_login"]
        assert cookie["secure"]
        assert form.headers["Strict-Transport-Security"] == "max-age=31536000"
        sent = {"Cookie": f"setwise_login={cookie.value}"}
        data = {"token": replica.steward, "csrf": _csrf(form)}
        assert _cookies(browser.post("/login", data=data, headers=sent))["setwise_session"]["secure"]


@pytest.mark.parametrize("given", ["", "nonsense", None])
def test_a_login_form_that_is_not_ours_signs_nobody_in(shop: Team, given: str | None) -> None:
    browser = shop.browser()
    browser.get("/login")
    data = {"token": shop.tokens["ada"]} | ({} if given is None else {"csrf": given})
    response = browser.post("/login", data=data)
    assert response.status_code == 403
    assert "setwise_session" not in _cookies(response)


def test_a_login_form_sent_from_elsewhere_signs_nobody_in(shop: Team) -> None:
    browser = shop.browser()
    csrf = _csrf(browser.get("/login"))
    data = {"token": shop.tokens["ada"], "csrf": csrf}
    refused = browser.post("/login", data=data, headers={"Origin": "https://elsewhere.example"})
    assert refused.status_code == 403
    assert "setwise_session" not in _cookies(refused)
    assert browser.post("/login", data=data, headers={"Origin": shop.url}).status_code == 303


def test_a_wrong_token_is_told_so_and_not_repeated(shop: Team) -> None:
    response = _log_in(shop.browser(), "setwise_wrong<script>")
    assert response.status_code == 401
    assert "unknown, expired or revoked" in response.text
    assert "setwise_wrong" not in response.text
    assert "setwise_session" not in _cookies(response)


@pytest.mark.parametrize(
    "going",
    [
        "https://elsewhere.example/",
        "//elsewhere.example/ask",
        "/\\elsewhere.example",
        "/ask//elsewhere.example",
        "javascript:alert(1)",
        "/accounts/../../api",
        "/login",
        "/ask\r\nX-Header: 1",
        "",
    ],
)
def test_signing_in_never_leads_elsewhere(shop: Team, going: str) -> None:
    browser = shop.browser()
    assert 'name="next" value="/ask"' in browser.get("/login", params={"next": going}).text
    assert _log_in(browser, shop.tokens["ada"], next=going).headers["location"] == "/ask"


def test_signing_in_leads_where_one_was_going(shop: Team) -> None:
    browser = shop.browser()
    led = browser.get("/accounts/ada-shop?most=10")
    assert led.status_code == 303
    form = browser.get(led.headers["location"])
    assert 'name="next" value="/accounts/ada-shop?most=10"' in form.text
    going = _log_in(browser, shop.tokens["ada"], next="/accounts/ada-shop?most=10")
    assert going.headers["location"] == "/accounts/ada-shop?most=10"


def test_signing_out_ends_the_session_for_whoever_has_the_cookie(shop: Team) -> None:
    browser = shop.signed_in("ada")
    secret = browser.cookies["setwise_session"]
    csrf = _csrf(browser.get("/explore"))
    assert browser.post("/logout", data={"csrf": "other"}).status_code == 403
    assert browser.get("/explore").status_code == 200
    gone = browser.post("/logout", data={"csrf": csrf})
    assert (gone.status_code, gone.headers["location"]) == (303, "/login")
    kept = shop.browser().get("/explore", headers={"Cookie": f"setwise_session={secret}"})
    assert kept.headers["location"] == "/login?next=/explore"


def test_revoking_the_token_ends_the_session(shop: Team) -> None:
    made = shop.steward.post("/people/ada/tokens", json={"label": "lost"}).json()
    browser = shop.browser()
    assert _log_in(browser, made["secret"]).status_code == 303
    assert browser.get("/explore").status_code == 200
    assert shop.steward.delete(f"/people/ada/tokens/{made['id']}").status_code == 200
    assert browser.get("/explore").status_code == 303


def test_a_change_made_with_the_cookie_needs_the_value_of_the_page(shop: Team) -> None:
    browser = shop.signed_in("steward")
    csrf = _csrf(browser.get("/steward"))
    person = {"name": "eve", "role": "analyst"}
    for headers in (
        {},
        {"X-CSRF-Token": "other"},
        {"X-CSRF-Token": shop.signed_in("steward").get("/steward").text[:9]},
    ):
        assert browser.post("/api/v1/people", json=person, headers=headers).status_code == 403
    assert "eve" not in [each["name"] for each in shop.steward.get("/people").json()]
    assert browser.post("/api/v1/people", json=person, headers={"X-CSRF-Token": csrf}).status_code == 201

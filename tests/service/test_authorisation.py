"""Every route of the table of permissions, tried by everybody it concerns."""

import time

import httpx
import pytest

from setwise.service.auth.permissions import API, API_ROUTES, Access
from tests.service.team import TOP_3, Team, ask, open_account

COMPOSE = {"uses": ["pure:0.1x25"], "delta": 1e-6}
BODIES: dict[tuple[str, str], object] = {
    ("POST", "/compose"): COMPOSE,
    ("POST", "/calibrate"): {"uses": ["pure:?x5"], "epsilon": 1.0, "delta": 1e-6},
    ("POST", "/preview"): TOP_3,
    ("POST", "/queries"): TOP_3,
    ("PUT", "/datasets/{dataset}/cap"): {"epsilon": 100.0, "delta": 1e-3},
    ("POST", "/datasets/{dataset}/cap/reclaim"): {},
    ("POST", "/people/{person}/tokens"): {"label": "x"},
    ("POST", "/live/{series}/update"): {},
}
OF_ADA = {
    "/accounts/{account}",
    "/preview",
    "/queries/{query}",
    "/accounts/{account}/history",
    "/accounts/{account}/question-budget",
}
"""What is ada's alone; a steward sees it too, except that only ada may draw from her account."""


@pytest.fixture(scope="module")
def holders(team: Team) -> dict[str, httpx.Client]:
    revoked = team.steward.post("/people/ada/tokens", json={}).json()
    expired = team.steward.post("/people/ada/tokens", json={"expires_at": time.time() + 500.0}).json()
    team.steward.post("/people", json={"name": "probe", "role": "monitor"})
    monitor = team.steward.post("/people/probe/tokens", json={"label": "prometheus"}).json()
    clients = {
        "nobody": team.nobody,
        "monitor": team.replica.as_holder(monitor["secret"]),
        "owner": team.ada,
        "other": team.bob,
        "steward": team.steward,
        "revoked": team.replica.as_holder(revoked["secret"]),
        "expired": team.replica.as_holder(expired["secret"]),
    }
    # Both have been recognised, and are still remembered when they end.
    assert clients["revoked"].get("/me").status_code == 200
    assert clients["expired"].get("/me").status_code == 200
    assert team.steward.delete(f"/people/ada/tokens/{revoked['id']}").status_code == 200
    team.replica.clock.ahead = 501.0
    return clients


@pytest.fixture(scope="module")
def query(team: Team) -> str:
    return str(ask(team.ada, "matrix").json()["id"])


def unique_body(method: str, path: str, number: int) -> object:
    name = f"new-{number}"
    made: dict[tuple[str, str], object] = {
        ("POST", "/people"): {"name": name, "role": "analyst"},
        ("PUT", "/accounts/{account}/state"): {"state": "open"},
        ("PUT", "/accounts/{account}/question-budget"): {"epsilon": 0.1},
        ("POST", "/live"): {
            "name": name,
            "dataset": "events",
            "account": "ada-events",
            "item": "word",
            "at": "country",
            "every": "day",
            "start": "2026-01-01",
            "periods": 2,
            "epsilon": 1.0,
            "delta": 1e-6,
        },
        ("PUT", "/catalog"): {"text": f'[tables.{name}]\nsource = "events.parquet"\nuser = "user_id"\n'},
        ("POST", "/datasets"): {"name": name, "table": "events.parquet", "user": "user_id", "items": ["word"]},
        ("POST", "/accounts"): {
            "kind": "filter",
            "name": name,
            "analyst": "ada",
            "dataset": "events",
            "epsilon": 1.0,
            "delta": 1e-6,
        },
    }
    return made.get((method, path), BODIES.get((method, path)))


def expected(who: str, access: Access, method: str, path: str) -> set[int]:
    """Return the statuses that are right; 2xx stands for any success."""
    if access is Access.ANYONE:
        return {200}
    if who in {"nobody", "revoked", "expired"}:
        return {401}
    if access is Access.STEWARD:
        return {200, 201, 422} if who == "steward" else {403}
    if who == "monitor":
        return {200} if (method, path) in {("GET", "/metrics"), ("GET", "/me")} else {403}
    if (path in OF_ADA and who == "other") or (path in {"/preview"} and who == "steward"):
        return {404}
    if (method, path) == ("POST", "/queries") and who != "owner":
        return {404}
    if path.startswith("/live/"):
        return {404}  # there is none; tests/service/test_live.py has one
    if (method, path) == ("POST", "/live"):
        return {422} if who == "owner" else {404}  # countries are no times
    return {200, 201, 202}


@pytest.mark.parametrize("who", ["nobody", "owner", "other", "steward", "monitor", "revoked", "expired"])
def test_every_route_admits_whom_the_table_says(who: str, team: Team, holders: dict[str, httpx.Client], query: str):
    tried = 0
    for number, ((method, full), permission) in enumerate(API_ROUTES.items()):
        access = permission.access
        path = full.removeprefix(API)
        token = team.steward.post("/people/bob/tokens", json={}).json()["id"] if "{token}" in path else ""
        person = "bob" if "{token}" in path else "ada"
        if (method, path) == ("DELETE", "/people/{person}"):
            person = f"leaving-{who}"
            team.steward.post("/people", json={"name": person, "role": "analyst"})
        address = path.format(
            person=person, token=token, dataset="events", account="ada-events", query=query, series="none"
        )
        response = holders[who].request(
            method,
            address,
            json=unique_body(method, path, 100 * number + len(who)),
            headers={"Idempotency-Key": f"{who}-{number}"} if path == "/queries" else {},
        )
        right = expected(who, access, method, path)
        assert response.status_code in right, (who, method, path, response.status_code, response.text)
        if response.status_code >= 400:
            assert response.headers["content-type"] == "application/problem+json"
        if response.status_code == 401:
            assert response.headers["www-authenticate"] == "Bearer"
        tried += 1
    assert tried == len(API_ROUTES)


def test_who_asks_is_settled_before_the_body_is_read(team: Team):
    assert team.nobody.post("/compose", content="{").status_code == 401
    assert team.ada.post("/people", content="{").status_code == 403


def test_lists_hold_only_what_is_ones_own(team: Team, query: str):
    assert {account["analyst"] for account in team.ada.get("/accounts").json()} == {"ada"}
    assert {account["analyst"] for account in team.bob.get("/accounts").json()} == {"bob"}
    assert {account["analyst"] for account in team.steward.get("/accounts").json()} == {"ada", "bob"}
    assert query in {each["id"] for each in team.ada.get("/queries").json()}
    assert team.bob.get("/queries").json() == []


def test_another_account_and_a_missing_one_look_the_same(team: Team):
    open_account(team.steward, "bob-second", "bob")
    theirs, missing = team.ada.get("/accounts/bob-second"), team.ada.get("/accounts/bob-third")
    assert theirs.status_code == missing.status_code == 404
    assert theirs.json()["detail"].replace("second", "third") == missing.json()["detail"]


@pytest.mark.parametrize("path", ["/ask/", "/login/", "/accounts/", "/api/v1/health/", "/api/v1/accounts/"])
def test_no_address_leads_to_where_the_host_header_says(team: Team, path: str):
    response = team.browser().get(path, headers={"Host": "elsewhere.example"})
    assert "elsewhere.example" not in response.headers.get("location", "")
    assert response.status_code == 404


def test_a_route_that_is_not_in_the_table_cannot_be_made():
    from fastapi import APIRouter

    from setwise.service.route import GuardedRoute

    router = APIRouter(prefix=API, route_class=GuardedRoute)
    with pytest.raises(KeyError):
        router.get("/unheard-of")(lambda: None)

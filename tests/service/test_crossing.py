"""Attempts to get across: at others' questions, with others' keys, by the address, and through the counters."""

import re
from collections.abc import Callable

import httpx
import pytest

from tests.service.replica import Replica
from tests.service.team import TOP_3, Team, ask, gather


def test_a_key_of_another_analyst_is_just_a_key(team: Team):
    mine = ask(team.ada, "shared-key")
    assert mine.status_code == 200
    theirs = ask(team.bob, "shared-key", TOP_3 | {"account": "bob-events"})
    assert theirs.status_code == 200
    assert theirs.json()["id"] != mine.json()["id"]
    refused = ask(team.bob, "shared-key")  # ada's request, word for word
    assert refused.status_code == 404
    assert "answer" not in refused.json()
    assert team.bob.get("/accounts/bob-events").json()["charges"] == 1


def test_a_steward_cannot_spend_what_is_an_analysts(team: Team):
    assert ask(team.steward, "by-the-steward").status_code == 404
    assert team.steward.post("/preview", json=TOP_3).status_code == 404


def test_a_token_in_the_address_is_no_token(team: Team):
    token = team.replica.steward
    for address in (f"/me?token={token}", f"/me?access_token={token}", f"/people?authorization=Bearer%20{token}"):
        found = team.nobody.get(address)
        assert found.status_code == 401
        assert token not in found.text
    page = httpx.get(f"{team.replica.url}/explore?token={token}", headers={"Accept": "text/html"})
    assert page.status_code == 303
    assert "set-cookie" not in page.headers
    login = httpx.get(f"{team.replica.url}{page.headers['location']}", headers={"Accept": "text/html"})
    assert token not in login.text


def test_the_counters_name_nobody_and_count_no_rows(team: Team):
    ask(team.ada, "counted")
    text = team.bob.get("/metrics").text
    for word in ("ada", "bob", "events", "counted", "w1"):
        assert not re.search(rf'"[^"]*\b{word}\b[^"]*"', text), word
    labels = set(re.findall(r"(\w+)=", text))
    assert labels <= {"method", "route", "status", "le", "outcome"}


@pytest.mark.parametrize("name", ["\u0430da", "ada\u200b", "ADA", "ada ", "ada\u0000", "..", "a/b", "\uff41da", "-ada"])
def test_a_name_that_looks_like_anothers_is_not_theirs(team: Team, name: str):
    made = team.steward.post("/people", json={"name": name, "role": "analyst"})
    assert made.status_code == (201 if name == "ADA" else 422), made.text
    if made.status_code == 201:  # another person, with nothing of hers
        token = team.steward.post(f"/people/{name}/tokens", json={}).json()["secret"]
        other = team.replica.as_holder(token)
        assert other.get("/accounts").json() == []
        assert other.get("/accounts/ada-events").status_code == 404


def test_what_a_replica_takes_up_runs_as_who_asked(start: Callable[..., Replica]):
    """A steward who looks after a lost query gets it going, and pays for nothing of their own."""
    team = gather(start(workers=1, wait_seconds=0.0))
    turns = team.replica.service.runner._slots
    turns.acquire()
    try:
        id_ = ask(team.ada, "lost").json()["id"]
        assert team.bob.get(f"/queries/{id_}").status_code == 404
        assert team.bob.delete(f"/queries/{id_}").status_code == 404
        assert team.bob.get(f"/queries/{'0' * 32}").json()["detail"] == team.bob.get(f"/queries/{id_}").json()["detail"]
        assert team.steward.get(f"/queries/{id_}").json()["account"] == "ada-events"
    finally:
        turns.release()

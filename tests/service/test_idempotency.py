"""One key, one charge, one answer: replayed, asked at once by many, and refused for another request."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.service.team import TOP_3, Team, ask, open_account


def charges(team: Team, account: str = "ada-events") -> int:
    return int(team.ada.get(f"/accounts/{account}").json()["charges"])


def test_a_replay_is_the_same_answer_at_no_cost(team: Team):
    first = ask(team.ada, "replay")
    assert first.status_code == 200, first.text
    before = charges(team)
    again = ask(team.ada, "replay")
    assert again.json() == first.json()
    assert charges(team) == before


def test_a_new_key_is_a_new_charge(team: Team):
    ask(team.ada, "one")
    before = charges(team)
    ask(team.ada, "two")
    assert charges(team) == before + 1


@pytest.mark.parametrize(
    "other",
    [
        {"query": {"kind": "top-k", "item": "word", "k": 2}},
        {"query": {"kind": "count"}},
        {"spend": TOP_3["spend"] | {"counts": None}},
    ],
)
def test_another_request_under_a_used_key_is_a_conflict(team: Team, other: dict[str, object]):
    ask(team.ada, "mine")
    before = charges(team)
    refused = ask(team.ada, "mine", TOP_3 | other)
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:setwise:problem:key-conflict"
    assert charges(team) == before


def test_many_at_once_under_one_key_are_one_charge(team: Team):
    open_account(team.steward, "ada-crowd", "ada")
    body = TOP_3 | {"account": "ada-crowd"}
    with ThreadPoolExecutor(8) as crowd:
        found = list(crowd.map(lambda _: ask(team.ada, "crowd", body), range(16)))
    assert {response.status_code for response in found} == {200}
    assert len({response.text for response in found}) == 1
    assert charges(team, "ada-crowd") == 1


def test_many_at_once_never_overspend(team: Team):
    open_account(team.steward, "ada-last", "ada", ["bounded-range:0.1x9", "approx:0,1e-9x100"])
    body = TOP_3 | {"account": "ada-last", "spend": TOP_3["spend"] | {"counts": None}}
    with ThreadPoolExecutor(8) as crowd:
        found = list(crowd.map(lambda number: ask(team.ada, f"last-{number}", body), range(12)))
    assert sorted(response.status_code for response in found) == [200] * 3 + [402] * 9
    standing = team.ada.get("/accounts/ada-last").json()
    assert standing["charges"] == 3
    assert "bounded-range:0.1x9" in standing["spent"]


def test_keys_belong_to_their_account(team: Team):
    assert ask(team.ada, "shared").status_code == 200
    theirs = ask(team.bob, "shared", TOP_3 | {"account": "bob-events"})
    assert theirs.status_code == 200
    assert theirs.json()["account"] == "bob-events"


def test_a_key_is_required_and_checked(team: Team):
    missing = team.ada.post("/queries", json=TOP_3)
    assert (missing.status_code, missing.json()["field"]) == (422, "Idempotency-Key")
    refused = ask(team.ada, "not a key")
    assert (refused.status_code, refused.json()["field"]) == (422, "Idempotency-Key")

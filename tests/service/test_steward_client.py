"""The client has a typed call for everything a steward does; the types are those of the API."""

import re
import time
from typing import get_type_hints

import pytest

import setwise
from setwise import contract
from setwise.client.client import Client
from setwise.client.steward import Steward
from setwise.errors import Forbidden, InvalidParameter, NameTaken, UnknownName
from setwise.service.auth.permissions import API, API_ROUTES, Access
from tests.service.team import Team, ask


@pytest.fixture(scope="module")
def client(team: Team):
    with setwise.connect(team.url, token=team.tokens["steward"]) as found:
        yield found


RECORDS = {
    "/me": contract.PersonRecord,
    "/accounts/{account}": contract.AccountRecord,
    "/datasets/{dataset}": contract.DatasetRecord,
    "/datasets/{dataset}/joint": contract.JointRecord,
    "/catalog": contract.CatalogRecord,
    "/audit": contract.AuditRecord,
    "/health": contract.HealthRecord,
    "/accounts/{account}/question-budget": contract.QuestionBudgetRecord,
}


@pytest.mark.parametrize("path", RECORDS)
def test_a_response_has_the_fields_of_its_published_record(team: Team, path: str):
    record = RECORDS[path]
    response = team.steward.get(path.format(account="ada-events", dataset="events")).json()
    assert record.__required_keys__ <= set(response) <= set(get_type_hints(record))
    schemas = team.nobody.get("/openapi.json").json()["components"]["schemas"]
    assert set(schemas[record.__name__]["properties"]) == set(get_type_hints(record))


def test_people_and_tokens(team: Team, client: Client):
    steward = client.steward
    assert client.me() == {"name": "steward", "role": "steward"}
    assert steward.add_person("dora", role="analyst") == {"name": "dora", "role": "analyst"}
    with pytest.raises(NameTaken):
        steward.add_person("dora", role="steward")
    made = steward.issue_token("dora", label="laptop", expires_at=time.time() + 100)
    assert team.replica.as_holder(made["secret"]).get("/me").json()["name"] == "dora"
    assert [each["label"] for each in steward.tokens("dora")] == ["laptop"]
    assert steward.revoke_token("dora", made["id"])["revoked_at"] is not None
    assert "dora" in {each["name"] for each in steward.people()}
    steward.remove_person("dora")
    with pytest.raises(UnknownName):
        steward.tokens("dora")


def test_datasets_caps_and_accounts(team: Team, client: Client):
    steward = client.steward
    made = steward.register_dataset(
        "second", table="events.parquet", user="user_id", items=["word"], filters=["country"], apart="for a test"
    )
    assert made["items"] == [{"name": "word", "kind": "text"}]
    assert made in client.datasets()
    assert steward.set_cap("second", epsilon=50.0, delta=1e-3)["epsilon"] == 50.0
    drawn = steward.open_setwise(
        "bob-drawn", ["pure:0.1x5"], analyst="bob", dataset="second", delta=1e-6, every="month"
    )
    assert drawn["left"] == ["pure:0.1x5"]
    assert drawn["every"] == "month"
    total = steward.open_filter("bob-total", analyst="bob", dataset="second", epsilon=1.0, delta=1e-6)
    assert total["epsilon"]["upper"] == 1.0
    both = steward.open_setwise(
        "bob-both", ["pure:0.1x5"], analyst="bob", dataset="second", delta=1e-6, wallet=0.2, failure=1e-9
    )
    assert [use.partition(":")[0] for use in both["left"]] == ["pure", "gaussian", "approx"]
    summed = {"analyst": "bob", "dataset": "second", "epsilon": 1.0, "delta": 1e-6, "failure_share": 0.25}
    assert steward.open_filter("bob-zcdp", rule="zcdp", **summed)["left"][0].startswith("zcdp:")
    share = steward.open_filter("bob-share", **summed)["left"][1]
    assert share == "approx:0.0,2.5e-07"
    for name in ("bob-both", "bob-zcdp", "bob-share"):
        steward.close_account(name)
    with pytest.raises(InvalidParameter, match="rule"):
        steward.open_filter("bob-more", rule="renyi", **summed)
    joint = steward.joint("second", periods=2)
    assert joint["accounts"] == ["bob-both", "bob-drawn", "bob-share", "bob-total", "bob-zcdp"]
    assert joint["periods"] == 2
    assert joint["delta"] == pytest.approx(6e-6)  # two months of one account, and the others
    assert steward.freeze("bob-total", reason="on leave")["state"] == "frozen"
    assert steward.thaw("bob-total")["state"] == "open"
    assert steward.close_account("bob-total")["state"] == "closed"
    assert steward.account("bob-total")["odometer"] is not None
    assert {each["account"] for each in client.accounts()} >= {"bob-drawn", "bob-total"}


def test_history_audit_and_trail(team: Team, client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("setwise.client.steward._PAGE", 2)
    for number in range(3):
        assert ask(team.ada, f"trailed-{number}").status_code == 200
    entries = list(client.steward.history("ada-events"))
    assert [entry["entry"] for entry in entries] == list(range(1, 7))
    assert [entry["entry"] for entry in client.steward.history("ada-events", after=4)] == [5, 6]
    acts = list(client.steward.trail())
    assert [act["number"] for act in acts] == sorted({act["number"] for act in acts})
    assert acts[0]["action"] == "person.added"
    assert list(client.steward.trail(after=acts[-2]["number"])) == acts[-1:]
    assert client.steward.audit()["faults"] == []


def test_who_is_no_steward_is_refused(team: Team):
    with setwise.connect(team.url, token=team.ada_token) as client, pytest.raises(Forbidden):
        client.steward.people()


def test_every_steward_route_has_a_call(team: Team, monkeypatch: pytest.MonkeyPatch):
    """Call everything with made-up values, and see which routes were asked."""
    asked: set[tuple[str, str]] = set()

    class Recorded:
        def request(self, method: str, path: str, body: object = None, *, key: str | None = None):
            asked.add((method, API + path.partition("?")[0]))
            return []

    steward = Steward(Recorded())
    every = {"analyst": "x", "dataset": "x", "delta": 1e-6}
    steward.people(), steward.add_person("x", role="analyst"), steward.remove_person("x")
    steward.join_subject("x", "x"), steward.tokens("x"), steward.issue_token("x"), steward.revoke_token("x", "x")
    steward.register_dataset("x", table="x", user="x", items=["x"]), steward.set_cap("x", epsilon=1.0, delta=0.0)
    steward.import_catalog("x"), steward.export_catalog()
    steward.joint("x"), steward.open_setwise("x", ["pure:1"], **every), steward.freeze("x")
    steward.audit(), list(steward.trail()), steward.reclaim("x"), steward.set_question_budget("x", epsilon=0.1)
    wanted = {
        (method, re.sub(r"{\w+}", "x", path))
        for (method, path), permission in API_ROUTES.items()
        if permission.access is Access.STEWARD
    }
    assert wanted <= asked

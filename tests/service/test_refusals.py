"""Refusals of the service say what to send instead, in words that hold over REST, on the pages and for agents."""

import json
import re
from typing import Any

import pytest

from tests.service.team import Team, ask, made

TOP: dict[str, Any] = {"kind": "top-k", "item": "word", "k": 3}
SQL: dict[str, Any] = {"kind": "sql", "text": "SELECT word, COUNT(DISTINCT user_id) AS n FROM events GROUP BY word"}


def detail(response) -> str:
    assert response.status_code in (402, 422), response.text
    return str(response.json()["detail"])


@pytest.mark.parametrize("query", [TOP, SQL], ids=["top-k", "sql"])
@pytest.mark.parametrize(("account", "kind"), [("ada-total", "total"), ("ada-events", "draws")])
def test_a_question_without_a_budget_is_shown_the_json_to_add(team: Team, query: dict, account: str, kind: str):
    body = {"dataset": "events", "account": account, "query": query}
    told = detail(team.ada.post("/preview", json=body))
    added = json.loads("{" + told[told.index('"spend"') :] + "}")
    assert added["spend"]["kind"] == kind
    if query is TOP or kind == "total":
        assert team.ada.post("/preview", json=body | added).status_code == 200, told


def test_an_account_that_is_used_up_is_told_so(team: Team):
    account = {"kind": "filter", "name": "ada-small", "analyst": "ada", "dataset": "events", "delta": 1e-6}
    made(team.steward.post("/accounts", json=account | {"epsilon": 1.0}))

    def question(epsilon: float) -> dict[str, Any]:
        spend = {"kind": "total", "epsilon": epsilon, "delta": 1e-8}
        return {"dataset": "events", "account": "ada-small", "query": TOP, "spend": spend}

    assert ask(team.ada, "most", question(0.7)).status_code == 200
    told = detail(ask(team.ada, "much", question(0.9)))
    assert re.search(r"would fit with an epsilon of 0\.[23]", told), told
    assert ask(team.ada, "rest", question(0.29)).status_code == 200
    for told in (
        detail(ask(team.ada, "more", question(0.5))),
        team.ada.post("/preview", json=question(0.5)).json()["shortage"],
    ):
        assert "would fit" not in told
        assert told.endswith("steward can open another account")


def test_a_catalog_that_is_not_json_is_shown_the_body(team: Team):
    text = '[tables.x]\nsource = "x.parquet"\nuser = "user_id"\n'
    for sent in ({"content": text, "headers": {"Content-Type": "application/toml"}}, {"json": {"catalog": text}}):
        assert '{"text": "[tables.' in detail(team.steward.put("/catalog", **sent))


@pytest.fixture(scope="module")
def joinable(team: Team) -> None:
    """Two datasets of the same users: `events`, and `people` with the same table."""
    body = {"name": "people", "table": "events.parquet", "user": "user_id", "items": ["country"], "apart": "a trial"}
    made(team.steward.post("/datasets", json=body))


def refused(team: Team, query: dict[str, Any]) -> str:
    spend = {"kind": "total", "epsilon": 0.5, "delta": 1e-8}
    body = {"dataset": "events", "account": "ada-total", "query": query, "spend": spend}
    return detail(team.ada.post("/preview", json=body))


@pytest.mark.parametrize("on", ["USING (user_id)", "ON e.user_id = p.user_id", "ON e.word = p.country"])
def test_two_private_datasets_are_not_joined_and_no_column_is_said_to_help(team: Team, joinable: None, on: str):
    text = f"SELECT p.country, COUNT(DISTINCT e.user_id) AS n FROM events e JOIN people p {on} GROUP BY p.country"
    told = refused(team, {"kind": "sql", "text": text})
    assert told.startswith("'people' cannot be joined: a question to the dataset 'events' reads its table")
    assert "steward allows columns" not in told
    assert "before a steward registers them" in told


@pytest.mark.parametrize(
    "query",
    [
        {"kind": "sql", "text": "SELECT AVG(user_id + 1) AS m FROM events"},
        {"kind": "sql", "text": "SELECT COUNT(*) AS n FROM events WHERE user_id + 1 > 3"},
        {"kind": "sql", "text": "SELECT AVG(user_id) AS m FROM events"},
        {"kind": "top-k", "item": "user_id", "k": 3},
    ],
    ids=["computed", "condition", "mean", "item"],
)
def test_the_user_column_is_not_said_to_be_allowed_by_a_steward(team: Team, query: dict[str, Any]):
    told = refused(team, query)
    assert "COUNT(DISTINCT user_id)" in told
    assert "steward allows" not in told, "a registration with the user column among the items is refused"


def test_columns_are_named_once(team: Team):
    told = refused(team, {"kind": "sql", "text": "SELECT COUNT(*) AS n FROM events WHERE user_id + 1 > 3"})
    named = re.findall("'([^']*)'", told[told.index("(") : told.index(")")])
    assert len(named) == len(set(named))


_QUERIES: list[dict[str, Any]] = [
    {"kind": "mean", "item": "word", "value": "minutes", "low": 0},
    {"kind": "histogram", "item": "nope"},
    {"kind": "sql", "text": "SELECT * FROM events"},
    {"kind": "sql", "text": "SELECT x.a, COUNT(*) AS n FROM events JOIN x USING (word) GROUP BY x.a"},
    {"kind": "sql", "text": "SELECT word, AVG(country) AS m FROM events GROUP BY word"},
]


@pytest.mark.parametrize("query", _QUERIES, ids=range(len(_QUERIES)))
def test_refusals_name_no_options_of_the_command_line(team: Team, query: dict[str, Any]):
    assert not re.search(" --[a-z]|`--[a-z]", refused(team, query))


def test_an_engine_that_the_service_lacks_is_named_by_its_setting(team: Team):
    body = {"name": "far", "table": "t", "user": "u", "items": ["i"], "engine": "postgresql"}
    told = detail(team.steward.post("/datasets", json=body))
    assert "SETWISE_ENGINE" in told
    assert " --" not in told

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

"""Questions over REST and in the form find in how many groups a user counts, unless the dataset declares it."""

import pytest

from tests.service.team import Team, ask, asked

GROUPED = [
    {"kind": "mean", "item": "word", "value": "minutes", "low": 0, "high": 60},
    {"kind": "quantile", "item": "word", "value": "minutes", "low": 0, "high": 60, "at": 0.5},
    {"kind": "histogram", "item": "word"},
]
FIVE, FOUR = ["w1", "w2", "w3", "w4", "w5"], ["w1", "w2", "w3", "w4"]
FOUND = "bounds are found first"


@pytest.fixture(scope="module")
def open_account(team: Team) -> str:
    """An account on a dataset that declares no bounds."""
    body = {
        "name": "open",
        "table": "events.parquet",
        "user": "user_id",
        "items": ["word"],
        "values": ["minutes"],
        "apart": "the same events without bounds",
    }
    assert team.steward.post("/datasets", json=body).status_code == 201
    account = {"kind": "filter", "name": "ada-open", "analyst": "ada", "dataset": "open", "delta": 1e-6}
    assert team.steward.post("/accounts", json=account | {"epsilon": 50.0}).status_code == 201
    return "ada-open"


def question(query: dict, account: str = "ada-open", dataset: str = "open", **spend: object) -> dict:
    spent = {"kind": "total", "delta": 1e-9, **(spend or {"epsilon": 1.0})}
    return {"dataset": dataset, "account": account, "query": query, "spend": spent}


@pytest.mark.parametrize("query", GROUPED, ids=lambda query: query["kind"])
def test_private_groups_without_contributions_have_them_found(team: Team, open_account: str, query: dict):
    previewed = team.ada.post("/preview", json=question(query))
    assert previewed.status_code == 200, previewed.text
    assert FOUND in previewed.json()["accuracy"].lower()
    answer = asked(team.ada, f"found-{query['kind']}", question(query))["answer"]
    assert answer["found"]["contributions"] >= 1


@pytest.mark.parametrize("query", GROUPED, ids=lambda query: query["kind"])
def test_the_dataset_s_own_bound_comes_first(team: Team, query: dict):
    previewed = team.ada.post("/preview", json=question(query, "ada-total", "events")).json()
    assert FOUND not in previewed["accuracy"].lower()


@pytest.mark.parametrize(("domain", "is_found"), [(FIVE, True), (FOUR, False)])
def test_five_public_groups_or_more_have_them_found(team: Team, open_account: str, domain: list, is_found: bool):
    previewed = team.ada.post("/preview", json=question({"kind": "histogram", "item": "word", "domain": domain}))
    assert (FOUND in previewed.json()["accuracy"].lower()) == is_found


def test_public_groups_are_answered_within_an_accuracy_without_a_search(team: Team, open_account: str):
    query = {"kind": "histogram", "item": "word", "domain": FIVE}
    previewed = team.ada.post("/preview", json=question(query, within=50))
    assert previewed.status_code == 200, previewed.text


def test_registered_uses_pay_for_no_search(team: Team, open_account: str):
    uses = ["bounded-range:0.1x50", "pure:0.1x50", "approx:0,1e-9x10"]
    account = {"kind": "setwise", "name": "ada-uses", "analyst": "ada", "dataset": "open", "delta": 1e-6, "uses": uses}
    assert team.steward.post("/accounts", json=account).status_code == 201
    spend = {"kind": "draws", "counts": "pure:0.1", "threshold_delta": 1e-9}
    body = {"dataset": "open", "account": "ada-uses", "query": GROUPED[2], "spend": spend}
    refused = ask(team.ada, "uses", body)
    assert refused.status_code == 422
    assert refused.json()["field"] == "query.contributions"
    assert "contributions" in refused.json()["detail"]

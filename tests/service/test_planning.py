"""Plans are made in processes that end in time: told in words, charged nothing, and nobody else waits."""

import time
from collections.abc import Callable

import pytest

from tests.service.replica import Replica
from tests.service.team import TOP_3, Team, ask, gather
from tests.service.test_jobs import until

HUGE = {
    "dataset": "events",
    "account": "ada-total",
    "query": {"kind": "top-k", "item": "word", "k": 10_000},
    "spend": {"kind": "total", "epsilon": 100.0, "delta": 1e-12, "counts": "laplace", "mechanism": "unknown_gumbel"},
}
"""Its certified optimum takes far longer than three seconds."""


@pytest.fixture
def hurried(start: Callable[..., Replica]) -> Team:
    return gather(start(calculator_seconds=3.0, calculators=1, quick_seconds=0.1))


def test_a_plan_that_takes_too_long_is_refused_by_name_and_costs_nothing(hurried: Team):
    refused = hurried.ada.post("/preview", json=HUGE)
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["type"] == "urn:setwise:problem:unattainable"
    assert refused.json()["field"] == "spend"
    assert "longer than 3 s" in refused.json()["detail"]
    assert "fewer items" in refused.json()["detail"]
    accepted = ask(hurried.ada, "huge", HUGE)
    assert accepted.status_code == 202
    ended = until(hurried.ada, accepted.json()["id"], "failed")
    assert ended["problem"] == refused.json()
    assert hurried.ada.get("/accounts/ada-total").json()["charges"] == 0
    assert hurried.ada.post("/preview", json=TOP_3).status_code == 200


def test_a_query_is_cancelled_while_it_is_planned(start: Callable[..., Replica]):
    team = gather(start(calculator_seconds=600.0, calculators=1, quick_seconds=0.0))
    id_ = ask(team.ada, "huge", HUGE).json()["id"]
    deadline = time.monotonic() + 60
    while not team.replica.service.planner._calculator._waiting:
        assert time.monotonic() < deadline
    assert team.ada.delete(f"/queries/{id_}").status_code == 200
    until(team.ada, id_, "cancelled")
    assert team.ada.get("/accounts/ada-total").json()["charges"] == 0
    assert team.ada.post("/preview", json=TOP_3).status_code == 200  # the only process did not stay with it


def test_what_is_asked_is_what_was_previewed(team: Team):
    body = HUGE | {"query": HUGE["query"] | {"k": 3}, "spend": HUGE["spend"] | {"epsilon": 1.0}}
    previewed = team.ada.post("/preview", json=body).json()
    done = until(team.ada, ask(team.ada, "three", body).json()["id"], "done")
    assert team.ada.get("/accounts/ada-total/history").json()[0]["uses"] == previewed["cost"]
    assert done["answer"]["mechanism"] == previewed["mechanism"]

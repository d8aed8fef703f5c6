"""Plans are made in processes that end in time: told in words, charged nothing, and nobody else waits."""

import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

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
"""Its plan takes some fifty milliseconds of processor time, ten times what `hurried` allows."""


@pytest.fixture
def hurried(start: Callable[..., Replica]) -> Team:
    team = gather(start(calculators=1, wait_seconds=0.1))
    team.replica.service.planners._seconds = 0.005  # after accounts were opened, which is a calculation as well
    return team


def test_a_plan_that_takes_too_long_is_refused_by_name_and_costs_nothing(hurried: Team):
    refused = hurried.ada.post("/preview", json=HUGE)
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["type"] == "urn:setwise:problem:unattainable"
    assert refused.json()["field"] == "spend"
    assert "longer than 0.005 s" in refused.json()["detail"]
    assert "fewer items" in refused.json()["detail"]
    asked = ask(hurried.ada, "huge", HUGE)
    assert (asked.status_code, asked.json()) == (422, refused.json())
    assert hurried.ada.get("/queries").json() == []
    assert hurried.ada.get("/accounts/ada-total").json()["charges"] == 0


def test_a_query_that_is_planned_when_its_replica_stops_is_told_so_and_charged_nothing(start: Callable[..., Replica]):
    team = gather(start(calculator_seconds=600.0, calculators=1))
    service = team.replica.service
    assert team.ada.post("/preview", json=TOP_3).status_code == 200
    (worker,) = service.planners._idle
    worker._process.send_signal(signal.SIGSTOP)  # from here on no plan is ever ready
    with ThreadPoolExecutor(1) as crowd:
        asked = crowd.submit(ask, team.ada, "huge", HUGE)
        deadline = time.monotonic() + 60
        while not service.planners._busy:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (running,) = service.runner._running.values()
        running.timing.stop("enough")
        told = asked.result()
    assert (told.status_code, told.json()["detail"]) == (503, "enough")
    assert team.ada.get("/accounts/ada-total").json()["charges"] == 0
    again = TOP_3 | {"query": TOP_3["query"] | {"k": 2}}  # not remembered
    assert team.ada.post("/preview", json=again).status_code == 200  # the only process did not stay with it


def test_what_is_asked_is_what_was_previewed(team: Team):
    body = HUGE | {"query": HUGE["query"] | {"k": 3}, "spend": HUGE["spend"] | {"epsilon": 1.0}}
    previewed = team.ada.post("/preview", json=body).json()
    done = until(team.ada, ask(team.ada, "three", body).json()["id"], "done")
    assert team.ada.get("/accounts/ada-total/history").json()[0]["uses"] == previewed["uses"]
    assert done["answer"]["mechanism"] == previewed["mechanism"]

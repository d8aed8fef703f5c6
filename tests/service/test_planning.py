"""Plans are made in processes that end in time: told in words, charged nothing, and nobody else waits."""

import json
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from setwise.analytics.query import Query
from setwise.service.api.queries import parse_question
from setwise.service.queries.allowed_columns import AllowedColumns, check_columns
from setwise.service.queries.handler import CheckedPart, CheckedQuestion
from setwise.service.workers.pool import WorkerPool
from setwise.service.workers.tasks import PlanQuestion
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
        while not (service.planners._busy and service.runner._running):
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


FILTERS = ("country = 'NO'", "country = 'SE' AND minutes < 30", "NOT country IN ('NO', 'SE')")


@pytest.mark.parametrize(
    ("query", "spend"),
    [
        ({"kind": "top-k", "item": "word", "k": 3}, {"kind": "total", "epsilon": 0.2, "delta": 1e-9}),
        ({"kind": "histogram", "item": "word", "contributions": 2}, {"kind": "total", "epsilon": 0.2, "delta": 1e-9}),
        ({"kind": "count"}, {"kind": "total", "within": 50.0, "epsilon": 0.5, "delta": 0.0}),
        ({"kind": "mean", "value": "minutes", "low": 0, "high": 60}, {"kind": "total", "epsilon": 0.2, "delta": 0.0}),
        (
            {"kind": "histogram", "item": "word", "contributions": "auto"},
            {"kind": "total", "epsilon": 0.2, "delta": 1e-9},
        ),
    ],
    ids=["top-k", "histogram", "within", "mean", "auto"],
)
def test_a_plan_that_was_made_without_the_filter_is_the_plan_of_the_filtered_query(
    team: Team, query: dict[str, object], spend: dict[str, object]
):
    dataset = team.replica.service.datasets.get("events")
    columns = replace(dataset, filters=("country", "minutes"))
    for where in FILTERS:
        body = {"dataset": "events", "account": "ada-total", "query": query | {"where": where}, "spend": spend}
        question = parse_question(json.dumps(body))
        schema = team.replica.service.engines.schema(dataset)
        assert isinstance(question.query, Query)
        bounded = (
            question.query.filled(contributions=dataset.contributions, per_item=dataset.per_item)
            if question.query.item
            else question.query
        )
        part = CheckedPart(
            query=bounded, schema=schema, where=check_columns(bounded, schema, AllowedColumns(columns, schema))
        )
        account = team.replica.service.accounts.account("ada-total")
        assert question.budget is not None
        checked = CheckedQuestion(dataset=dataset, account=account, budget=question.budget, parts=(part,))
        whole = PlanQuestion(
            query=part.query,
            spending=question.budget,
            user=dataset.user,
            schema=schema,
            terms=account.terms,
            where=part.where,
        )
        assert checked.complete_plan(checked.to_plan().result()) == whole.result()


def test_a_new_filter_needs_no_new_plan(team: Team, monkeypatch: pytest.MonkeyPatch):
    plans: list[object] = []
    compute = WorkerPool._compute

    def counted(pool: WorkerPool, task: object, *given: Any) -> Any:
        plans.append(task)
        return compute(pool, task, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(WorkerPool, "_compute", counted)
    for number, country in enumerate(("NO", "SE", "DK", "FI")):
        query = {"kind": "top-k", "item": "word", "k": 4, "where": f"country = '{country}'"}
        assert ask(team.ada, f"filter-{number}", TOP_3 | {"query": query}).status_code == 200
    assert len(plans) == 1

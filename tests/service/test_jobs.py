"""Queries that run long: accepted, polled, cancelled, stopped in time, and taken up when their replica is gone."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from setwise.accounting.notation import parse_use
from setwise.errors import EngineFailed
from setwise.ledger.ledger import Ledger
from setwise.service.queries.jobs import Job, Jobs
from setwise.service.queries.runner import CANCELLED, QueryTiming, RunningQuery
from setwise.service.queries.table_reader import TimedAccount
from tests.service.replica import PATIENCE, Replica
from tests.service.team import TOP_3, Team, ask, gather

SLOW = {"workers": 1, "wait_seconds": 0.1}


@contextmanager
def held(replica: Replica) -> Iterator[None]:
    """Keep the replica's only engine busy, so that queries wait."""
    turns = replica.service.runner._slots
    turns.acquire()
    try:
        yield
    finally:
        turns.release()


def until(client: httpx.Client, id_: str, *states: str) -> dict[str, Any]:
    """Poll a query until it is in one of these states."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found: dict[str, Any] = client.get(f"/queries/{id_}").json()
        if found["state"] in states:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


@pytest.fixture
def waiting(start: Callable[..., Replica]) -> Team:
    return gather(start(**SLOW))


def test_a_long_query_is_accepted_and_polled(waiting: Team):
    with held(waiting.replica):
        accepted = ask(waiting.ada, "long")
        assert accepted.status_code == 202
        assert accepted.headers["location"] == f"/api/v1/queries/{accepted.json()['id']}"
        shown = until(waiting.ada, accepted.json()["id"], "running")
        assert shown["answer"] is None
        assert 0.0 <= shown["progress"] < 1.0
        assert ask(waiting.ada, "long").json()["id"] == shown["id"]
    done = until(waiting.ada, shown["id"], "done")
    assert done["progress"] == 1.0
    assert len(done["answer"]["items"]) == 3
    assert ask(waiting.ada, "long").json() == done
    assert waiting.ada.get("/accounts/ada-events").json()["charges"] == 1


def test_a_query_is_not_taken_from_a_replica_that_beat_after_its_row_was_read(waiting: Team):
    """The row is read before the question is checked; two replicas then ran one query."""
    now = [time.time() + 3600.0]  # so late that the replica of the test takes no query for lost
    database = waiting.replica.service.jobs._database
    first, second = (
        Jobs(database, replica=name, heartbeat_seconds=1.0, clock=lambda: now[0]) for name in ("first", "second")
    )
    asked = {"account": "ada-events", "key": "slow", "request": "{}"}
    job, _ = first.begin(person="ada", **asked)
    read = second.find(account="ada-events", key="slow")
    assert read is not None
    now[0] += 60.0
    first.beat({job.id: 0.5})
    assert second.is_lost(read)
    assert second.resume(read, request="{}") == (first.get(job.id), False)
    now[0] += 60.0
    assert second.resume(read, request="{}")[1]


def test_progress_tells_the_stage(waiting: Team):
    with held(waiting.replica):
        id_ = ask(waiting.ada, "stage").json()["id"]
        deadline = time.monotonic() + PATIENCE
        while waiting.ada.get(f"/queries/{id_}").json()["progress"] != 0.1:  # charged, waiting for its turn
            assert time.monotonic() < deadline
        assert waiting.ada.get("/accounts/ada-events").json()["charges"] == 1


def test_a_cancelled_query_runs_again_under_its_charge(waiting: Team):
    with held(waiting.replica):
        id_ = ask(waiting.ada, "cancel").json()["id"]
        assert waiting.bob.delete(f"/queries/{id_}").status_code == 404
        assert waiting.ada.delete(f"/queries/{id_}").status_code == 200
        assert until(waiting.ada, id_, "cancelled", "done")["state"] == "cancelled"
    again = ask(waiting.ada, "cancel")
    assert until(waiting.ada, id_, "done")["answer"] is not None
    assert again.json()["id"] == id_
    assert waiting.ada.get("/accounts/ada-events").json()["charges"] == 1
    assert waiting.ada.delete(f"/queries/{id_}").json()["state"] == "done"


def test_a_query_is_cancelled_through_another_replica(start: Callable[..., Replica]):
    first, second = start(**SLOW), start(**SLOW)
    team = gather(first)
    elsewhere = second.as_holder(team.ada_token)
    with held(first):
        id_ = ask(team.ada, "far").json()["id"]
        assert elsewhere.delete(f"/queries/{id_}").status_code == 200
        assert until(elsewhere, id_, "cancelled", "done")["state"] == "cancelled"


def test_a_query_whose_replica_is_silent_is_taken_up_by_whoever_is_asked(start: Callable[..., Replica]):
    first, second = start(**SLOW, heartbeat_seconds=60.0), start(heartbeat_seconds=0.1)
    team = gather(first)
    elsewhere = second.as_holder(team.ada_token)
    with held(first):
        id_ = ask(team.ada, "lost").json()["id"]
        second.clock.ahead = 3600.0  # to the second replica, the first was last heard of an hour ago
        taken_up = until(elsewhere, id_, "done")
        second.clock.ahead = 0.0
    # The first one was slow, not dead: it ends too, and shows what was stored first.
    mine = until(team.ada, id_, "done")
    deadline = time.monotonic() + PATIENCE
    while first.service.runner._running:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert mine["answer"] == taken_up["answer"] == team.ada.get(f"/queries/{id_}").json()["answer"]
    assert team.ada.get("/accounts/ada-events").json()["charges"] == 1
    history = team.ada.get("/accounts/ada-events/history").json()
    assert [entry["kind"] for entry in history] == ["charge", "settle"]
    assert json.loads(history[1]["text"])["items"] == mine["answer"]["items"]


def test_a_retry_on_another_replica_waits_for_the_same_query(start: Callable[..., Replica]):
    first, second = start(**SLOW), start(wait_seconds=PATIENCE)
    team = gather(first)
    with held(first):
        id_ = ask(team.ada, "retry").json()["id"]
        assert second.as_holder(team.ada_token).get(f"/queries/{id_}").json()["state"] == "running"
    assert ask(second.as_holder(team.ada_token), "retry").json()["state"] == "done"


@pytest.fixture(scope="module")
def long_table(data_dir: Path) -> str:
    """A table that takes the engine a while."""
    path = data_dir / "long.parquet"
    rows = (
        "SELECT (hash(i) % 900000)::BIGINT AS user_id, 'w' || (hash(i + 1) % 100000) AS word FROM range(6000000) r(i)"
    )
    duckdb.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
    return path.name


def on_long(team: Team, table: str) -> dict[str, Any]:
    body = {"name": "long", "table": table, "user": "user_id", "items": ["word"], "contributions": 5}
    assert team.steward.post("/datasets", json=body).status_code == 201
    account = {"kind": "filter", "name": "ada-long", "analyst": "ada", "dataset": "long", "epsilon": 5.0, "delta": 1e-6}
    assert team.steward.post("/accounts", json=account).status_code == 201
    return TOP_3 | {
        "dataset": "long",
        "account": "ada-long",
        "query": {"kind": "histogram", "item": "word"},
        "spend": {"kind": "total", "epsilon": 0.5, "delta": 1e-9},
    }


def test_a_query_is_stopped_in_the_engine_after_its_time(start: Callable[..., Replica], long_table: str):
    team = gather(start(workers=1, query_seconds=0.05, heartbeat_seconds=0.02, wait_seconds=PATIENCE))
    failed = ask(team.ada, "overdue", on_long(team, long_table))
    assert failed.status_code == 503
    assert "took longer than 0.05 s" in failed.json()["detail"]
    assert team.ada.get("/accounts/ada-long").json()["charges"] == 1
    assert team.replica.service.runner._slots.acquire(timeout=0.0)  # the engine's turn was given back


def test_a_query_is_cancelled_in_the_engine(start: Callable[..., Replica], long_table: str):
    team = gather(start(workers=1, wait_seconds=0.01))
    id_ = ask(team.ada, "engine", on_long(team, long_table)).json()["id"]
    deadline = time.monotonic() + PATIENCE
    while team.ada.get(f"/queries/{id_}").json()["progress"] < 0.25:  # until it reads
        assert time.monotonic() < deadline
    team.ada.delete(f"/queries/{id_}")
    assert until(team.ada, id_, "cancelled", "done", "failed")["state"] == "cancelled"


def test_shutting_down_ends_what_runs(start: Callable[..., Replica], tmp_path: Path):
    from setwise.service.settings import Settings
    from tests.service.conftest import SETTINGS
    from tests.service.replica import running

    team = gather(start(**SLOW))
    settings = Settings(
        **{
            **SETTINGS,
            **SLOW,
            "ledger": str(tmp_path / "setwise.db"),
            "data_dir": team.replica.service.settings.data_dir,
        }
    )
    with running(settings) as second:
        second.service.runner._slots.acquire()
        id_ = ask(second.as_holder(team.ada_token), "leaving").json()["id"]
    ended = team.ada.get(f"/queries/{id_}").json()
    assert (ended["state"], ended["problem"]["status"]) == ("failed", 503)
    assert "shutting down" in ended["problem"]["detail"]


def test_answers_are_stored_at_padded_moments_only(tmp_path: Path):
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        assert timing.progress == 0.25  # whoever polls does not see that the engine is done

    def told() -> float:
        return now

    with Ledger.open(str(tmp_path / "setwise.db")) as ledger:
        ledger.open_setwise("ada", ["bounded-range:0.1x10"], delta=1e-6)
        moments = []
        for work in (0.001, 0.2, 0.3, 0.9, 1.7):
            began = now
            timing = QueryTiming(threading.Semaphore(1), step=0.25, seconds=60.0, monotonic=told, sleep=sleep)
            timingd = TimedAccount(ledger.account("ada"), timing, lambda: None)
            receipt = timingd.charge([parse_use("bounded-range:0.1")], key=f"k{work}", request="top 1")
            now += work
            timingd.settle(receipt, answer="tea")
            moments.append(round(now - began, 9))
            timing.wait_for_padded_time()
            assert round(now - began, 9) == moments[-1]  # once
        assert moments == [0.25, 0.25, 0.5, 1.0, 2.0]


def test_stopping_does_not_tell_whether_the_engine_was_done(tmp_path: Path):
    now = 0.0

    def told() -> float:
        return now

    def sleep(seconds: float) -> None:
        nonlocal now
        timing.stop("enough")  # after the engine's answer, before the padded moment
        now += seconds

    with Ledger.open(str(tmp_path / "setwise.db")) as ledger:
        ledger.open_setwise("ada", ["bounded-range:0.1x10"], delta=1e-6)
        timing = QueryTiming(threading.Semaphore(1), step=0.25, seconds=60.0, monotonic=told, sleep=sleep)
        timingd = TimedAccount(ledger.account("ada"), timing, lambda: None)
        draw = {"key": "k", "request": "top 1"}
        receipt = timingd.charge([parse_use("bounded-range:0.1")], **draw)
        now += 0.1
        with pytest.raises(EngineFailed, match="enough"):
            timingd.settle(receipt, answer="tea")
        assert now == 0.25
        assert ledger.account("ada").charge([parse_use("bounded-range:0.1")], **draw).answer is None


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_query_that_fails_or_is_cancelled_ends_at_a_padded_time(start: Callable[..., Replica], end: str):
    """When the engine ended depends on rows: a failure that is told at once would reveal it."""
    team = gather(start(answer_step=0.5, wait_seconds=0.05))
    service = team.replica.service
    ended: list[float] = []

    def read_and_fail(running: RunningQuery) -> str:
        running.record_charge()
        running.timing.acquire_slot()
        began.append(running.timing._requested)
        if end == "cancelled":
            running.timing.stop(CANCELLED)
        raise EngineFailed("the engine ended early")

    def stopped(*given: object) -> Job:
        ended.append(time.monotonic())
        return store(*given)

    began: list[float] = []
    service.runner._answer, store, service.jobs.stopped = read_and_fail, service.jobs.stopped, stopped
    id_ = ask(team.ada, "padded").json()["id"]
    until(team.ada, id_, end)
    assert ended[0] - began[0] >= 0.5


def test_a_stopped_query_does_not_begin():
    timing = QueryTiming(threading.Semaphore(1), step=0.25, seconds=60.0)
    timing.stop("enough")
    with pytest.raises(EngineFailed, match="enough"):
        timing.acquire_slot()


class SlowToCancel:
    """An engine whose cancelling takes until it is allowed to end."""

    def __init__(self) -> None:
        self.entered, self.may_end = threading.Event(), threading.Event()
        self.cancelled = 0

    def cancel(self) -> None:
        self.entered.set()
        assert self.may_end.wait(PATIENCE)
        self.cancelled += 1


def test_an_engine_that_was_given_back_is_not_cancelled_with_the_query_that_had_it():
    """It may serve another query by then."""
    engine = SlowToCancel()
    timing = QueryTiming(threading.Semaphore(1), step=0.0, seconds=60.0)
    given_back = threading.Event()

    def query() -> None:
        with timing.using(engine):
            timing.acquire_slot()
            assert engine.entered.wait(PATIENCE)
        given_back.set()

    threads = [threading.Thread(target=query), threading.Thread(target=timing.stop, args=("enough",))]
    threads[0].start()
    while timing._began is None:
        time.sleep(0.001)
    threads[1].start()
    assert engine.entered.wait(PATIENCE)
    assert not given_back.wait(0.2)  # not while it is being cancelled
    engine.may_end.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert given_back.is_set()
    timing.stop("again")
    assert engine.cancelled == 1

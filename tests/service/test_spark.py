"""Spark behind the service: register a table, ask, cancel in the engine, and ask again."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from tests.service.replica import PATIENCE, Replica
from tests.service.team import TOP_3, Team, ask, gather, write_events
from tests.service.test_jobs import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tables")
    write_events(place / "events.parquet")
    return place


@pytest.fixture
def endless(folder: Path) -> Iterator[str]:
    """A table whose rows Spark reads for many seconds: 40 million of them."""
    path = folder / "endless.parquet"
    rows = "SELECT n % 3000017 AS user_id, 'w' || (n * 7919) % 1000003 AS word FROM range(40000000) AS numbers(n)"
    duckdb.sql(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
    yield path.name
    path.unlink()


def on_spark(team: Team, name: str, table: str) -> dict[str, object]:
    """Register a table of Spark's, open an account on it, and return a question."""
    body = {"name": name, "engine": "spark", "table": table, "user": "user_id", "items": ["word"], "contributions": 5}
    made = team.steward.post("/datasets", json=body)
    assert made.status_code == 201, made.text
    account = {"kind": "setwise", "name": f"ada-{name}", "analyst": "ada", "dataset": name, "delta": 1e-6}
    uses = ["bounded-range:0.1x50", "pure:0.1x50", "approx:0,1e-9x10"]
    assert team.steward.post("/accounts", json=account | {"uses": uses}).status_code == 201
    return {**TOP_3, "dataset": name, "account": f"ada-{name}"}


def test_a_table_of_spark_is_asked_and_cancelled(
    start: Callable[..., Replica], folder: Path, spark_session: "SparkSession", endless: str
):
    team = gather(start(data_dir=folder, engine=("duckdb", "spark"), workers=1, wait_seconds=0.1))
    files = on_spark(team, "files", "events.parquet")
    answered = until(team.ada, ask(team.ada, "files", files).json()["id"], "done", "failed")
    assert answered["answer"]["items"][0]["item"] == "w1", answered

    tracker = spark_session.sparkContext.statusTracker()
    id_ = ask(team.ada, "endless", on_spark(team, "endless", endless)).json()["id"]
    eventually(tracker.getActiveJobsIds)
    assert team.ada.delete(f"/queries/{id_}").status_code == 200
    until(team.ada, id_, "cancelled")
    eventually(lambda: not tracker.getActiveJobsIds())
    assert team.ada.get("/accounts/ada-endless").json()["charges"] == 1
    again = until(team.ada, ask(team.ada, "again", files).json()["id"], "done", "failed")
    assert again["state"] == "done", again  # the session is well, and so is the only worker


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)

"""Spark behind the service: register a table, ask, cancel in the engine, and ask again."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import duckdb
import pytest

from setwise.service.queries.engine_pool import Engines
from setwise.service.settings import EngineKind, Settings
from setwise.service.storage.datasets import Dataset
from tests.service.replica import PATIENCE, Replica
from tests.service.team import TOP_3, Team, ask, gather, write_events
from tests.service.test_jobs import until
from tests.service.test_reconciliation import capped

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


def test_tables_views_and_files_of_spark_share_a_cap(
    start: Callable[..., Replica], folder: Path, spark_session: "SparkSession"
):
    spark_session.sql("CREATE DATABASE shop")
    try:
        spark_session.sql(f"CREATE TABLE shop.visits USING parquet LOCATION '{folder}/events.parquet'")
        spark_session.sql("CREATE TABLE shop.other USING parquet AS SELECT user_id, word FROM shop.visits")
        spark_session.sql("CREATE VIEW shop.near AS SELECT user_id, word FROM shop.visits WHERE user_id > 1")
        spark_session.sql("CREATE VIEW shop.far AS SELECT * FROM shop.near")
        same = ["spark_catalog.shop.visits", "SHOP.Visits", "shop.far", "shop.near"]
        replica = start(data_dir=folder, engine=("duckdb", "spark"))
        assert capped(replica, "spark", "shop.visits", *same, "events.parquet", "shop.other") == dict.fromkeys(
            [*same, "events.parquet"], True
        ) | {"shop.other": False}
        assert replica.service.ledger.cap("name-0") is not None
    finally:
        spark_session.sql("DROP DATABASE shop CASCADE")


def test_a_folder_of_a_cluster_is_around_its_files(monkeypatch: pytest.MonkeyPatch, folder: Path):
    """A dataset on one file and a dataset on its folder share data, although neither is in the catalogue."""
    engines = Engines(Settings(data_dir=folder, engine=("spark",)))
    monkeypatch.setattr(engines, "_open", lambda _: nullcontext(SimpleNamespace(relations=tuple)))
    table = Dataset(name="x", engine=EngineKind.SPARK, table="", user="user_id", items=("word",))
    file = engines.source(replace(table, table="s3a://shop/days/events.parquet"))
    days = engines.source(replace(table, table="s3a://shop/days/"))
    other = engines.source(replace(table, table="s3a://shop/other"))
    assert set(file.within) & set(days.reads)
    assert not set(file.within) & set(other.reads)

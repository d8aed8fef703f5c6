"""The service's tables against the ledger: spellings of one table share a cap, and changed rows are found."""

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pytest
from sqlalchemy import text

from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.duckdb.sources import DataIdentity, file_source
from setwise.service.queries.engine_pool import Engines
from setwise.service.storage.datasets import Dataset
from tests.servers.clickhouse import ClickHouseServer
from tests.service.replica import Replica
from tests.service.team import Team, ask, gather, made, write_events

TABLE = {"user": "user_id", "items": ["word"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with one table under many spellings, and another table."""
    data = tmp_path / "data"
    (data / "days").mkdir(parents=True)
    write_events(data / "days" / "events.parquet", rows=400, users=80)
    write_events(data / "other.parquet", rows=400, users=80)
    (data / "link.parquet").symlink_to(data / "days" / "events.parquet")
    (data / "folder").symlink_to(data / "days")
    os.link(data / "days" / "events.parquet", data / "hard.parquet")
    return data


SPELLINGS = [
    "days/events.parquet",
    "days/./events.parquet",
    "days/events.parquet::x",
    "days/events.parquet::",
    "days/*.parquet",
    "days/event?.parquet",
    "**/events.parquet",
    "days",
    "days/",
    "link.parquet",
    "hard.parquet",
    "folder/events.parquet",
    "folder",
]


@pytest.mark.parametrize("first", ["days/events.parquet", "days", "hard.parquet"])
def test_every_spelling_of_a_table_shares_its_cap(start: Callable[..., Replica], folder: Path, first: str):
    replica = start(data_dir=folder)
    steward = replica.as_holder(replica.steward)
    made(steward.post("/datasets", json={"name": "first", "table": first, **TABLE}))
    assert steward.put("/datasets/first/cap", json={"epsilon": 1.0, "delta": 1e-6}).status_code == 200
    told = {}
    for number, spelling in enumerate(SPELLINGS):
        body = {"name": f"name-{number}", "table": spelling, **TABLE}
        response = steward.post("/datasets", json=body)
        if response.status_code == 422:  # a spelling that may not be registered evades nothing
            continue
        made(response)
        told[spelling] = replica.service.ledger.cap(f"name-{number}")
    assert len(told) > 8
    assert [spelling for spelling, cap in told.items() if cap is None] == []
    made(steward.post("/datasets", json={"name": "other", "table": "other.parquet", **TABLE}))
    assert replica.service.ledger.cap("other") is None


def test_a_file_that_comes_into_a_folder_later_shares_its_cap(start: Callable[..., Replica], folder: Path):
    replica = start(data_dir=folder)
    steward = replica.as_holder(replica.steward)
    for name, table in (("folder", "days"), ("glob", "days/*.parquet")):
        body = {"name": name, "table": table, "apart": "" if name == "folder" else "for a test", **TABLE}
        made(steward.post("/datasets", json=body))
        steward.put(f"/datasets/{name}/cap", json={"epsilon": 1.0, "delta": 1e-6})
    shutil.copy(folder / "other.parquet", folder / "days" / "later.parquet")
    made(steward.post("/datasets", json={"name": "later", "table": "days/later.parquet", **TABLE}))
    assert replica.service.ledger.cap("later") is not None


DEFINITIONS = (
    "CREATE TABLE events (user_id bigint, word text)",
    "CREATE TABLE other (user_id bigint, word text)",
    "CREATE VIEW near AS SELECT user_id, word FROM events WHERE user_id > 1",
    "CREATE VIEW far AS SELECT * FROM near",
    "CREATE VIEW elsewhere AS SELECT * FROM other",
)


@pytest.fixture
def databases(tmp_path: Path) -> Path:
    """A data folder with a DuckDB and a SQLite file that have the same tables and views, and links to both."""
    data = tmp_path / "data"
    data.mkdir()
    with duckdb.connect(str(data / "duck.db")) as duck, closing(sqlite3.connect(data / "lite.db")) as lite, lite:
        for statement in DEFINITIONS:
            duck.execute(statement)
            lite.execute(statement)
        duck.execute("CREATE SCHEMA shop")
        duck.execute("CREATE TABLE shop.events AS FROM main.events")
        duck.execute("CREATE VIEW shop.near AS SELECT user_id, word FROM events")
    for name in ("duck", "lite"):
        (data / f"{name}-link.db").symlink_to(data / f"{name}.db")
        os.link(data / f"{name}.db", data / f"{name}-hard.db")
    return data


def capped(replica: Replica, engine: str, *tables: str) -> dict[str, bool]:
    """Register the tables, set a cap on the first, and return for each of the others whether the cap is on it, too."""
    steward = replica.as_holder(replica.steward)
    for number, table in enumerate(tables):
        body = {"name": f"name-{number}", "engine": engine, "table": table, **TABLE}
        made(steward.post("/datasets", json=body))
        if number == 0:
            assert steward.put("/datasets/name-0/cap", json={"epsilon": 1.0, "delta": 1e-6}).status_code == 200
    found = {table: replica.service.ledger.cap(f"name-{number}") for number, table in enumerate(tables)}
    return {table: cap is not None for table, cap in found.items() if table != tables[0]}


@pytest.mark.parametrize("kind", ["duck", "lite"])
@pytest.mark.parametrize("first", ["events", "far"])
def test_a_view_of_a_database_file_shares_the_cap_of_its_table(
    start: Callable[..., Replica], databases: Path, kind: str, first: str
):
    same = {f"{kind}.db::events", f"{kind}.db::near", f"{kind}.db::far", f"{kind}-link.db::near"}
    tables = sorted({*same, f"{kind}-hard.db::far"} - {f"{kind}.db::{first}"})
    apart = [f"{kind}.db::other", f"{kind}.db::elsewhere", *(("duck.db::shop.near",) if kind == "duck" else ())]
    shares = capped(start(data_dir=databases), "duckdb", f"{kind}.db::{first}", *tables, *apart)
    assert shares == dict.fromkeys(tables, True) | dict.fromkeys(apart, False)


def test_what_is_prepared_from_a_table_of_a_database_file_shares_its_cap(
    start: Callable[..., Replica], databases: Path
):
    with duckdb.connect(str(databases / "duck.db")) as duck:
        duck.execute("INSERT INTO events SELECT n % 9, 'w' || n % 3 FROM range(90) AS numbers(n)")
    with open_engine(f"{databases}/duck.db::events") as engine:
        engine.prepare(user="user_id", item="word", destination=databases / "ranks")
    assert capped(start(data_dir=databases), "duckdb", "duck.db::events", "ranks") == {"ranks": True}


CLICKHOUSE = (
    "CREATE VIEW near AS SELECT user_id, word FROM visits WHERE user_id > 1",
    "CREATE VIEW far AS SELECT * FROM near",
    "CREATE TABLE merged AS visits ENGINE = Merge(currentDatabase(), '^visits$')",
    "CREATE TABLE buffered AS visits ENGINE = Buffer(currentDatabase(), visits, 1, 10, 60, 100, 1000, 10000, 100000)",
    "CREATE VIEW elsewhere AS SELECT * FROM other",
)


@pytest.mark.parametrize("first", ["visits", "far"])
def test_a_view_and_a_table_over_tables_of_clickhouse_share_the_cap_below(
    start: Callable[..., Replica], folder: Path, clickhouse_server: ClickHouseServer, first: str
):
    url = clickhouse_server.database()
    rows = pa.table({"user_id": [1, 2, 3], "word": ["a", "b", "a"]})
    for name in ("visits", "other"):
        clickhouse_server.store(rows, name, url)
    for statement in CLICKHOUSE:
        clickhouse_server.run(statement, url)
    below = url.rpartition("/")[2]
    with open_engine("visits", url) as engine:
        engine.prepare(user="user_id", item="word", destination="ranks")
    same = {"visits", f"{below}.visits", f"{below}.near", "far", "merged", "buffered", "ranks"}
    tables, apart = sorted(same - {first}), ["other", "elsewhere"]
    shares = capped(start(data_dir=folder, engine=("duckdb", url)), "clickhouse", first, *tables, *apart)
    assert shares == dict.fromkeys(tables, True) | dict.fromkeys(apart, False)


POSTGRESQL = """
    CREATE TABLE visits (user_id bigint, word text) PARTITION BY RANGE (user_id);
    CREATE TABLE low PARTITION OF visits FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (user_id);
    CREATE TABLE lowest PARTITION OF low FOR VALUES FROM (0) TO (10);
    CREATE VIEW near AS SELECT user_id, word FROM visits;
    CREATE MATERIALIZED VIEW kept AS SELECT user_id, word FROM near;
    CREATE TABLE other (user_id bigint, word text);
    CREATE TABLE heir () INHERITS (other);
"""


@pytest.mark.parametrize("first", ["visits", "lowest", "kept"])
def test_a_partition_of_postgresql_shares_the_cap_of_its_table(
    start: Callable[..., Replica], folder: Path, postgresql_url: str, first: str
):
    with psycopg.connect(postgresql_url) as connection:
        connection.execute(POSTGRESQL)
    replica = start(data_dir=folder, engine=("duckdb", postgresql_url))
    tables = sorted({"visits", "low", "lowest", "near", "kept", "public.visits"} - {first})
    shares = capped(replica, "postgresql", first, *tables, "other", "heir")
    assert shares == dict.fromkeys(tables, True) | {"other": False, "heir": False}
    with open_engine("heir", postgresql_url) as engine, open_engine("other", postgresql_url) as above:
        assert set(engine.relations()) <= set(above.relations())


def test_what_older_versions_registered_is_recorded_at_the_start(start: Callable[..., Replica], folder: Path):
    """A dataset whose registration the ledger does not know is recorded, and shares the cap of its table."""
    first = start(data_dir=folder)
    steward = first.as_holder(first.steward)
    made(steward.post("/datasets", json={"name": "old", "table": "days/events.parquet", **TABLE}))
    definition = first.service.datasets.get("old").text().replace('"old"', '"unrecorded"')
    with first.service.database.writing() as connection:
        connection.execute(
            text("INSERT INTO service_datasets VALUES ('unrecorded', :definition, 0.0, 'steward')"),
            {"definition": definition},
        )
    assert any("no record of what" in fault for fault in steward.get("/audit").json()["faults"])
    second = start(data_dir=folder)
    steward.put("/datasets/old/cap", json={"epsilon": 1.0, "delta": 1e-6})
    assert second.service.ledger.cap("unrecorded") is not None
    assert second.as_holder(first.steward).get("/audit").json()["faults"] == []


def read_as_before(engines: Engines, dataset: Dataset) -> DataIdentity:
    """Return what versions recorded that did not look below views of database files."""
    return DataIdentity(reads=file_source(engines._locate(dataset.table, dataset.engine)).reads)


def charged_before(start: Callable[..., Replica], databases: Path, *, capped: bool) -> Replica:
    """Register a table and its view as an earlier version did, and charge an account on each; return the replica."""
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr(Engines, "source", read_as_before)
        replica = start(data_dir=databases)
        steward, ledger = replica.as_holder(replica.steward), replica.service.ledger
        made(steward.post("/people", json={"name": "ada", "role": "analyst"}))
        for name, table in (("table", "duck.db::events"), ("view", "duck.db::far")):
            made(steward.post("/datasets", json={"name": name, "table": table, **TABLE}))
            if capped and name == "table":
                assert steward.put("/datasets/table/cap", json={"epsilon": 3.0, "delta": 1e-6}).status_code == 200
            account = {"kind": "filter", "name": f"ada-{name}", "analyst": "ada", "dataset": name, "delta": 1e-7}
            made(steward.post("/accounts", json=account | {"epsilon": 1.0}))
            ledger.account(f"ada-{name}").charge(["pure:0.25"], key="q", request="q")
        replica.service.upkeep.do_what_is_due()
    return replica


def charges(replica: Replica) -> dict[str, object]:
    """Return every entry of the two accounts, and what each has spent."""
    ledger = replica.service.ledger
    return {
        name: (list(ledger.history(name)), ledger.account(name).status().spent) for name in ("ada-table", "ada-view")
    }


def test_a_view_that_an_older_version_registered_shares_from_the_start(start: Callable[..., Replica], databases: Path):
    """Nothing was capped: the joint promise is about both accounts from the start on, and nothing charged changes."""
    first = charged_before(start, databases, capped=False)
    before = charges(first)
    assert len(first.service.ledger.terms_on("view")) == 1
    second = start(data_dir=databases)
    second.service.upkeep.do_what_is_due()
    assert {terms.name for terms in second.service.ledger.terms_on("view")} == {"ada-table", "ada-view"}
    assert charges(second) == before
    assert second.as_holder(first.steward).get("/audit").json()["faults"] == []


def test_the_ledger_does_not_grow_with_the_files_of_one_dataset(start: Callable[..., Replica], folder: Path):
    replica = start(data_dir=folder)
    steward, ledger, upkeep = replica.as_holder(replica.steward), replica.service.ledger, replica.service.upkeep
    made(steward.post("/datasets", json={"name": "folder", "table": "days", **TABLE}))
    made(steward.post("/datasets", json={"name": "other", "table": "other.parquet", **TABLE}))
    shutil.copy(folder / "other.parquet", folder / "days" / "later.parquet")
    replica.clock.ahead += 3601.0
    upkeep.do_what_is_due()
    assert len(ledger.registrations("folder")) == 1
    (folder / "other.parquet").unlink()
    os.link(folder / "days" / "later.parquet", folder / "other.parquet")
    for _ in range(2):
        replica.clock.ahead += 3601.0
        upkeep.do_what_is_due()
        assert ledger.names_of_data("other") == {"folder", "other"}
        assert (len(ledger.registrations("folder")), len(ledger.registrations("other"))) == (2, 2)


@pytest.mark.parametrize("closed", [True, False])
def test_a_view_beside_a_cap_that_an_older_version_registered_is_reported(
    start: Callable[..., Replica], databases: Path, closed: bool
):
    """Until the account beside the cap is closed, or the two are set apart; nothing that was charged is lost."""
    first = charged_before(start, databases, capped=True)
    before = charges(first)
    second = start(data_dir=databases)
    upkeep, ledger, steward = second.service.upkeep, second.service.ledger, second.as_holder(first.steward)
    upkeep.do_what_is_due()
    (fault,) = steward.get("/audit").json()["faults"]
    assert "'view' reads what another dataset reads, and their accounts do not draw on one cap" in fault
    assert charges(second) == before
    assert ledger.cap("view") is None
    if closed:
        ledger.close_account("ada-view", by="steward")
    else:
        ledger.register_dataset("view", reads=(), apart="it shows what is public", by="steward")
    second.clock.ahead += 3601.0
    upkeep.do_what_is_due()
    assert steward.get("/audit").json()["faults"] == []
    assert (ledger.cap("view") is not None) == closed
    assert len(ledger.terms_on("table")) == (2 if closed else 1)
    assert charges(second)["ada-table"] == before["ada-table"]
    assert ledger.account("ada-view").status().spent == before["ada-view"][1]


CHANGES = [
    ("UPDATE service_jobs SET answer = replace(answer, 'w1', 'w9')", "shows another answer under the key 'k'"),
    ("UPDATE service_jobs SET key = 'l'", "shows another answer under the key 'l'"),
    ("UPDATE service_people SET role = 'steward' WHERE name = 'ada'", "records 'ada' as analyst"),
    ("UPDATE service_people SET removed_at = 1.0 WHERE name = 'ada'", "records 'ada' as analyst"),
    ("INSERT INTO service_people (name, role, created_at) VALUES ('eve', 'steward', 0)", "records 'eve' as nobody"),
    ("UPDATE service_datasets SET definition = replace(definition, 'events.parquet', 'other.parquet')", "definition"),
    ("UPDATE service_datasets SET definition = replace(definition, 'user_id', 'country')", "definition"),
    ("""UPDATE service_datasets SET definition = replace(definition, '"contributions": 5', '"contributions": 500')""",
     "definition"),
]  # fmt: skip


def test_changed_rows_of_the_service_are_found(start: Callable[..., Replica]):
    """Answers, roles and definitions, by the route and by what the schedule runs."""
    team = gather(start())
    query = ask(team.ada, "k").json()
    while query["state"] == "running":
        time.sleep(0.1)
        query = team.ada.get(f"/queries/{query['id']}").json()
    assert query["state"] == "done"
    assert team.steward.get("/audit").json()["faults"] == []
    for change, told in CHANGES:
        saved = _rows(team)
        with team.replica.service.database.writing() as connection:
            assert connection.execute(text(change)).rowcount > 0
        faults = team.steward.get("/audit").json()["faults"]
        assert any(told in fault for fault in faults), (change, faults)
        assert team.replica.service.upkeep.verify().faults
        _put_back(team, saved)
    assert team.steward.get("/audit").json()["faults"] == []


def test_rows_of_the_service_that_were_deleted_are_found(start: Callable[..., Replica], folder: Path):
    """The name of a removed person is not free again: whoever took it would get accounts and a history of others."""
    replica = start(data_dir=folder)
    steward = replica.as_holder(replica.steward)
    for name in ("eve", "bob"):
        made(steward.post("/people", json={"name": name, "role": "analyst"}))
    assert steward.delete("/people/eve").status_code == 200
    made(steward.post("/datasets", json={"name": "words", "table": "other.parquet", **TABLE}))
    assert steward.get("/audit").json()["faults"] == []
    with replica.service.database.writing() as connection:
        connection.execute(text("DELETE FROM service_people WHERE name IN ('eve', 'bob')"))
        connection.execute(text("DELETE FROM service_datasets"))
    assert steward.get("/audit").json()["faults"] == [
        "the ledger records the person 'bob', and the service has no row of this name",
        "the ledger records the person 'eve', and the service has no row of this name",
        "the ledger records the dataset 'words', and the service has no row of this name",
    ]


TABLES = ("service_people", "service_datasets", "service_jobs")


def _rows(team: Team) -> dict[str, list[dict[str, object]]]:
    with team.replica.service.database.reading() as connection:
        return {
            table: [dict(row) for row in connection.execute(text(f"SELECT * FROM {table}")).mappings()]
            for table in TABLES
        }


def _put_back(team: Team, saved: dict[str, list[dict[str, object]]]) -> None:
    with team.replica.service.database.writing() as connection:
        connection.execute(text("DELETE FROM service_people WHERE name = 'eve'"))
        for table, rows in saved.items():
            key = "id" if table == "service_jobs" else "name"
            for row in rows:
                values = ", ".join(f"{name} = :{name}" for name in row)
                connection.execute(text(f"UPDATE {table} SET {values} WHERE {key} = :{key}"), row)
    assert json.dumps(saved, default=str)

"""The service's tables against the ledger: spellings of one table share a cap, and changed rows are found."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

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

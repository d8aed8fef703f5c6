"""Tables as stewards register them: CSV files as they are written, and prepared tables as what they were made from."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.files import CsvOptions
from setwise.service.storage.datasets import Dataset
from tests.service.replica import Replica
from tests.service.team import Team, ask, gather, made, write_events


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder of one's own, with the events and a CSV file from a German spreadsheet without a header."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_events(folder / "events.parquet", rows=2000, users=300)
    lines = [f"{number % 300};{'Köln' if number % 3 else 'Bonn'};{number % 7}" for number in range(3000)]
    (folder / "orte.txt").write_bytes("\n".join(["exported", *lines, ""]).encode("latin-1"))
    with open_engine(folder / "events.parquet") as engine:
        engine.prepare(user="user_id", item="word", destination=folder / "events.prepared")
    return folder


@pytest.fixture
def team(start: Callable[..., Replica], folder: Path) -> Team:
    return gather(start(data_dir=folder))


CSV = {
    "separator": ";",
    "encoding": "latin-1",
    "columns": ["who", "place", "n"],
    "header": False,
    "skip_lines": 1,
    "format": "csv",
}


def test_a_csv_file_is_read_as_it_is_written(team: Team):
    table = {"name": "places", "table": "orte.txt", "user": "who", "items": ["place"], "types": {"n": "integer"}}
    shown = made(team.steward.post("/datasets", json=table | {"values": ["n"], "contributions": 2, "csv": CSV}))
    assert shown["values"] == [{"name": "n", "kind": "integer"}]
    account = {"kind": "filter", "name": "ada-places", "analyst": "ada", "dataset": "places"}
    made(team.steward.post("/accounts", json=account | {"epsilon": 50.0, "delta": 1e-3}))
    query = {"kind": "histogram", "item": "place", "domain": ["Köln", "Bonn", "Ulm"]}
    body = {"dataset": "places", "account": "ada-places", "query": query}
    found = ask(team.ada, "places", body | {"spend": {"kind": "total", "epsilon": 20.0, "delta": 1e-6}})
    assert found.status_code == 200, found.text
    counts = {item["item"]: item["count"] for item in found.json()["answer"]["items"]}
    assert abs(counts["Köln"] - 200) < 10
    assert abs(counts["Ulm"]) < 10


@pytest.mark.parametrize(
    ("csv", "field"),
    [
        ({"separator": ";" * 9}, "csv.separator"),
        ({"encoding": "no-such-encoding"}, "table"),
        ({"header": False}, "csv"),
        ({"format": "xls"}, "csv"),
        ({"skip_lines": -1}, "csv.skip_lines"),
        ({"surprise": 1}, "csv.surprise"),
    ],
)
def test_options_that_cannot_be_are_refused(team: Team, csv: dict[str, object], field: str):
    table = {"name": "places", "table": "orte.txt", "user": "who", "items": ["place"], "csv": {"format": "csv"} | csv}
    refused = team.steward.post("/datasets", json=table)
    assert refused.status_code == 422, refused.text
    assert refused.json()["field"] == field


def test_a_definition_keeps_its_options_and_old_ones_have_none():
    options = CsvOptions(separator=";", columns=("who", "place"), skip_lines=1)
    dataset = Dataset(name="d", engine="duckdb", table="t", user="who", items=("place",), csv=options)
    assert Dataset.read(dataset.text()) == dataset
    old = json.loads(dataset.text())
    del old["csv"]
    assert Dataset.read(json.dumps(old)).csv == CsvOptions()


def test_a_prepared_table_shares_the_cap_of_what_it_was_made_from(team: Team):
    prepared = {"name": "quick", "table": "events.prepared", "user": "user_id", "items": ["word"]}
    made(team.steward.post("/datasets", json=prepared))
    joint = team.steward.get("/datasets/quick/joint").json()
    assert set(joint["accounts"]) == {"ada-events", "ada-total", "bob-events"}
    apart = prepared | {"name": "apart", "apart": "made of last year's rows alone"}
    made(team.steward.post("/datasets", json=apart))
    assert team.steward.get("/datasets/apart/joint").status_code == 422

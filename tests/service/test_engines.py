"""Tables that a steward can register: files, prepared folders, tables of servers; and what stays out of reach."""

import csv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from setwise.analytics.engines.connect import open_engine
from setwise.service.queries import engine_pool
from tests.servers.clickhouse import ClickHouseServer
from tests.service.replica import Replica
from tests.service.team import SPEND, TOP_3, Team, ask, gather, write_events

ROWS = [(user, f"w{user % 3}", user % 7) for user in range(600)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tables")
    write_events(place / "events.parquet")
    with open_engine(place / "events.parquet") as engine:
        engine.prepare(user="user_id", item="word", destination=place / "events.prepared")
    with (place / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("user_id", "word", "minutes"), *ROWS])
    return place


def top(team: Team, name: str, registration: dict[str, Any], key: str = "top") -> list[str]:
    made = team.steward.post("/datasets", json={"name": name, "user": "user_id", "items": ["word"], **registration})
    assert made.status_code == 201, made.text
    account = {"kind": "setwise", "name": f"ada-{name}", "analyst": "ada", "dataset": name, "delta": 1e-6}
    uses = ["bounded-range:0.1x50", "pure:0.1x50", "approx:0,1e-9x10"]
    assert team.steward.post("/accounts", json=account | {"uses": uses}).status_code == 201
    body = {
        "dataset": name,
        "account": f"ada-{name}",
        "query": {"kind": "top-k", "item": "word", "k": 3},
        "spend": SPEND,
    }
    answer = ask(team.ada, key, body)
    assert answer.status_code == 200, answer.text
    return [item["item"] for item in answer.json()["answer"]["items"]]


def test_prepared_folders_csv_files_and_globs(start: Callable[..., Replica], folder: Path):
    team = gather(start(data_dir=folder))
    assert top(team, "prepared", {"table": "events.prepared", "contributions": 5})[0] == "w1"
    numbers = {"types": {"minutes": "integer"}, "values": ["minutes"]}
    assert set(top(team, "csv", {"table": "rows.csv", **numbers})) <= {"w0", "w1", "w2"}
    assert team.ada.get("/datasets/csv").json()["values"] == [{"name": "minutes", "kind": "integer"}]
    assert top(team, "glob", {"table": "*.parquet"})[0] == "w1"


def test_tables_of_postgresql_by_name_and_never_by_address(
    start: Callable[..., Replica], folder: Path, postgresql_url: str
):
    with psycopg.connect(postgresql_url) as connection:
        connection.execute("CREATE TABLE visits (user_id bigint, word text, minutes bigint)")
        connection.cursor().executemany("INSERT INTO visits VALUES (%s, %s, %s)", ROWS)
    team = gather(start(data_dir=folder, engine=("duckdb", postgresql_url)))
    assert set(top(team, "visits", {"engine": "postgresql", "table": "visits"})) <= {"w0", "w1", "w2"}
    for response in (team.ada.get("/datasets"), team.ada.get("/datasets/visits"), team.steward.get("/datasets")):
        assert "postgresql://" not in response.text


def test_public_tables_of_postgresql_are_joined(start: Callable[..., Replica], folder: Path, postgresql_url: str):
    with psycopg.connect(postgresql_url) as connection:
        connection.execute("CREATE TABLE visits (user_id bigint, word text, minutes bigint)")
        connection.cursor().executemany("INSERT INTO visits VALUES (%s, %s, %s)", ROWS)
        connection.execute("CREATE TABLE words (word text, kind text)")
        connection.execute("INSERT INTO words VALUES ('w0', 'even'), ('w1', 'odd'), ('w2', 'even')")
        connection.execute("CREATE TABLE people (user_id bigint, word text)")
    team = gather(start(data_dir=folder, engine=("duckdb", postgresql_url)))
    visits = {"engine": "postgresql", "table": "visits"}
    for public in ({"people": "people"}, {"words": "nowhere"}, {"words": "rows.csv"}):
        body = {"name": "x", "user": "user_id", "items": ["word"], **visits, "public": public}
        refused = team.steward.post("/datasets", json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, "public")
    top(team, "visits", visits | {"public": {"words": "words"}})
    account = {"kind": "filter", "name": "ada-sql", "analyst": "ada", "dataset": "visits", "delta": 1e-6}
    assert team.steward.post("/accounts", json=account | {"epsilon": 10.0}).status_code == 201
    text = "SELECT kind, COUNT(DISTINCT user_id) AS n FROM visits JOIN words USING (word) GROUP BY kind"
    spend = {"kind": "total", "epsilon": 5.0, "delta": 1e-8}
    query = {"kind": "sql", "text": text, "contributions": 1}
    body = {"dataset": "visits", "account": "ada-sql", "query": query, "spend": spend}
    answer = ask(team.ada, "joined", body)
    assert answer.status_code == 200, answer.text
    found = answer.json()["rows"]
    assert {row["kind"]: row["n"]["value"] for row in found} == pytest.approx({"even": 400, "odd": 200}, abs=20)
    with psycopg.connect(postgresql_url) as connection:
        connection.execute("DROP TABLE words")
    gone = ask(team.ada, "gone", body | {"query": query | {"text": text.replace(" AS n", "")}})
    assert "tell a steward" in gone.text
    assert "PostgreSQL" not in gone.text
    team.replica.service.engines._public.clear()  # as in a replica that starts now
    listed = team.ada.get("/datasets/visits")
    assert (listed.status_code, "tell a steward" in listed.text, "PostgreSQL" in listed.text) == (503, True, False)


def test_tables_of_clickhouse_by_name_and_never_by_address(
    start: Callable[..., Replica], folder: Path, clickhouse_server: ClickHouseServer
):
    url = clickhouse_server.database()
    users, words, minutes = zip(*ROWS, strict=True)
    clickhouse_server.store(pa.table({"user_id": users, "word": words, "minutes": minutes}), "visits", url)
    team = gather(start(data_dir=folder, engine=("duckdb", url)))
    assert set(top(team, "seen", {"engine": "clickhouse", "table": "visits"})) <= {"w0", "w1", "w2"}
    for response in (team.ada.get("/datasets"), team.ada.get("/datasets/seen"), team.steward.get("/datasets")):
        assert "clickhouse://" not in response.text


def test_nothing_outside_the_data_folder_can_be_reached(start: Callable[..., Replica], folder: Path, tmp_path: Path):
    write_events(tmp_path / "outside.parquet", rows=100, users=10)
    (folder / "link.parquet").symlink_to(tmp_path / "outside.parquet")
    team = gather(start(data_dir=folder))
    for table in (
        "link.parquet",
        "../outside.parquet",
        str(tmp_path / "outside.parquet"),
        "file:///etc/passwd",
        "l*k.*",
    ):
        body = {"name": "x", "table": table, "user": "user_id", "items": ["word"]}
        refused = team.steward.post("/datasets", json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, "table"), table
        assert str(folder) not in refused.text
    (folder / "link.parquet").unlink()
    (folder / "inner").mkdir()
    (folder / "inner" / "link.parquet").symlink_to(tmp_path / "outside.parquet")
    (folder / "linked").symlink_to(tmp_path)
    for table in ("inner", "linked", "**/*.parquet", "linked/*.parquet"):
        refused = team.steward.post(
            "/datasets", json={"name": "x", "table": table, "user": "user_id", "items": ["word"]}
        )
        assert (refused.status_code, refused.json()["field"]) == (422, "table"), table
        assert "outside" not in refused.text
    (folder / "inner" / "link.parquet").unlink()
    (folder / "linked").unlink()


@pytest.mark.parametrize(
    "table",
    [
        "/etc/passwd.csv",
        "file:///etc/passwd.csv",
        "file:/etc/passwd.csv",
        "http://127.0.0.1:9/latest/meta-data.csv",
        "https://127.0.0.1:9/x.parquet",
        "ftp://127.0.0.1/x.csv",
        "../x.parquet",
        "{events,a/..}/x.parquet",
        "csv.`/etc/passwd`",
        "parquet.`x`",
        "nowhere.parquet",
        "jar:file:/x.csv",
    ],
)
def test_spark_is_sent_nowhere_outside(team: Team, monkeypatch: pytest.MonkeyPatch, table: str):
    """Refused before Spark is asked for: opening an engine would fail the test."""

    def opened(*_: object, **__: object) -> None:
        pytest.fail("an engine was opened")

    monkeypatch.setattr("setwise.service.queries.engine_pool.open_engine", opened)
    settings = team.replica.service.settings.model_copy(update={"engine": ("spark",)})
    monkeypatch.setattr(team.replica.service.engines, "_settings", settings)
    body = {"name": "x", "engine": "spark", "table": table, "user": "user_id", "items": ["word"]}
    refused = team.steward.post("/datasets", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "table"), refused.text


def test_where_a_table_is_stays_with_the_stewards(start: Callable[..., Replica], folder: Path):
    team = gather(start(data_dir=folder))
    assert "events.parquet" not in team.ada.get("/datasets").text


def test_many_questions_at_once_open_few_engines(start: Callable[..., Replica], monkeypatch: pytest.MonkeyPatch):
    opened = []
    original = engine_pool.open_engine

    def counting(*args: Any, **options: Any) -> Any:
        opened.append(args)
        return original(*args, **options)

    monkeypatch.setattr(engine_pool, "open_engine", counting)
    team = gather(start(workers=2, answer_step=0.0))
    ask(team.ada, "first", TOP_3)
    opened.clear()
    with ThreadPoolExecutor(9) as threads:
        answers = list(threads.map(lambda number: ask(team.ada, f"q{number}", TOP_3), range(9)))
    assert [answer.status_code for answer in answers] == [200] * 9
    assert len(opened) <= 2

"""A lake table that is written while the service runs: every new question reads the current version, retries theirs."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.service.settings import Settings
from tests.servers.object_store import ACCESS_KEY, SECRET_KEY, Bucket
from tests.service.replica import QUICK, Replica, free_port, running
from tests.service.team import EVENTS, Registered, Team, asked, gather, made

deltalake = pytest.importorskip("deltalake")
catalogs = pytest.importorskip("pyiceberg.catalog.sql")

LAKE = Registered(body={**EVENTS.body, "table": "lake", "items": ["word"]}, uses=EVENTS.uses, total=80.0)


def rows(word: str, users: range) -> pa.Table:
    count = len(users)
    return pa.table(
        {
            "user_id": pa.array(users, pa.int64()),
            "word": [word] * count,
            "country": ["NO"] * count,
            "minutes": pa.array([7] * count, pa.int64()),
        }
    )


class Delta:
    """A Delta table in a folder, or under a prefix of a store."""

    def __init__(self, place: str, options: dict[str, str] | None = None) -> None:
        self.place, self._options = place, options
        self.append(rows("first", range(1000)))

    def append(self, table: pa.Table) -> None:
        deltalake.write_deltalake(self.place, table, mode="append", storage_options=self._options)

    def drop_column(self, name: str) -> None:
        kept = self.table().to_pyarrow_table().drop_columns([name])
        deltalake.write_deltalake(
            self.place, kept, mode="overwrite", schema_mode="overwrite", storage_options=self._options
        )

    def table(self) -> Any:
        return deltalake.DeltaTable(self.place, storage_options=self._options)

    def version(self) -> str:
        return str(self.table().version())


class Iceberg:
    def __init__(self, place: str) -> None:
        folder = Path(place).parent
        self._catalog = catalogs.SqlCatalog("here", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        self._catalog.create_namespace("n")
        first = rows("first", range(1000))
        self._catalog.create_table("n.lake", schema=first.schema, location=f"file://{place}")
        self.append(first)

    def append(self, table: pa.Table) -> None:
        self._catalog.load_table("n.lake").append(table)

    def drop_column(self, name: str) -> None:
        with self._catalog.load_table("n.lake").update_schema(allow_incompatible_changes=True) as update:
            update.delete_column(name)
        self.append(rows("later", range(2000, 2001)).drop_columns([name]))

    def version(self) -> str:
        return str(self._catalog.load_table("n.lake").current_snapshot().snapshot_id)


@pytest.fixture(params=[Delta, Iceberg])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    (tmp_path / "data").mkdir()
    return request.param(str(tmp_path / "data" / "lake"))


@pytest.fixture
def team(lake: Any, start: Callable[..., Replica], tmp_path: Path) -> Team:
    return gather(start(data_dir=tmp_path / "data"), LAKE)


HISTOGRAM = {
    "dataset": "events",
    "account": "ada-total",
    "query": {"kind": "histogram", "item": "word", "domain": ["first", "second"]},
    "spend": {"kind": "total", "epsilon": 10.0, "delta": 0.0},
}


def counted(found: dict[str, Any]) -> dict[str, int]:
    return {item["item"]: item["count"] for item in found["answer"]["items"]}


def charges(team: Team) -> int:
    return int(team.ada.get("/accounts/ada-total").json()["charges"])


def test_a_new_question_reads_the_current_version_and_a_retry_its_own(team: Team, lake: Any):
    first = asked(team.ada, "one", HISTOGRAM)
    before = lake.version()
    assert abs(counted(first)["first"] - 1000) < 20
    assert abs(counted(first)["second"]) < 20
    lake.append(rows("second", range(5000, 6000)))
    second = asked(team.ada, "two", HISTOGRAM)
    assert abs(counted(second)["second"] - 1000) < 20
    assert first["answer"]["measure"].endswith(f"; version {before} of the table")
    assert second["answer"]["measure"].endswith(f"; version {lake.version()} of the table")
    assert charges(team) == 2
    assert asked(team.ada, "one", HISTOGRAM)["answer"] == first["answer"]
    assert charges(team) == 2


def test_a_retry_whose_row_was_forgotten_reads_the_version_that_was_charged(team: Team, lake: Any):
    """The charge states the version, so the stored answer is found although the table has moved on."""
    first = asked(team.ada, "one", HISTOGRAM)
    lake.append(rows("second", range(5000, 6000)))
    service = team.replica.service
    assert service.jobs.forget(before=float("inf")) == 1
    assert asked(team.ada, "one", HISTOGRAM)["answer"] == first["answer"]
    assert charges(team) == 1


def test_a_charge_without_an_answer_is_run_on_the_version_that_was_charged(team: Team, lake: Any, monkeypatch):
    """The engine fails after the charge; the table is written; the retry counts the rows of the first version."""
    from setwise.analytics.engines.duckdb.engine import DuckDBEngine
    from setwise.errors import EngineFailed

    def fail(*_: object) -> None:
        raise EngineFailed("the engine stopped")

    before = lake.version()
    with monkeypatch.context() as during:
        during.setattr(DuckDBEngine, "histogram", fail)
        refused = team.ada.post("/queries", json=HISTOGRAM, headers={"Idempotency-Key": "one"})
        assert refused.status_code == 503, refused.text
    assert charges(team) == 1
    lake.append(rows("second", range(5000, 6000)))
    found = asked(team.ada, "one", HISTOGRAM)
    assert abs(counted(found)["second"]) < 20
    assert found["answer"]["measure"].endswith(f"; version {before} of the table")
    assert charges(team) == 1


def test_sql_is_shown_with_the_columns_of_its_version(team: Team, lake: Any):
    sql = "SELECT word, SUM(minutes) AS minutes FROM events GROUP BY word"
    query = {"kind": "sql", "text": sql, "domain": ["first", "second"], "contributions": 1}
    body = HISTOGRAM | {"query": query, "spend": {"kind": "total", "epsilon": 10.0, "delta": 1e-7}}
    found = asked(team.ada, "sql", body)
    assert found["rows"] is not None
    lake.drop_column("minutes")
    shown = team.ada.get(f"/queries/{found['id']}").json()
    assert shown["rows"] == found["rows"]
    refused = team.ada.post("/queries", json=body, headers={"Idempotency-Key": "again"})
    assert refused.status_code == 422, refused.text
    assert "minutes" in refused.json()["detail"]


def test_a_data_set_that_was_registered_with_a_version_stays_on_it(team: Team, lake: Any):
    version = lake.version()
    named = {**LAKE.body, "name": "then", "table": f"lake@{version}", "apart": "the same table at its first version"}
    made(team.steward.post("/datasets", json=named))
    account = {"kind": "filter", "name": "ada-then", "analyst": "ada", "dataset": "then", "delta": 1e-6}
    made(team.steward.post("/accounts", json=account | {"epsilon": 50.0}))
    lake.append(rows("second", range(5000, 6000)))
    found = asked(team.ada, "then", HISTOGRAM | {"dataset": "then", "account": "ada-then"})
    assert abs(counted(found)["second"]) < 20
    assert found["answer"]["measure"].endswith(f"; version {version} of the table")


def test_engines_of_earlier_versions_are_not_kept(team: Team, lake: Any):
    engines = team.replica.service.engines
    for number in range(3):
        asked(team.ada, f"q{number}", HISTOGRAM)
        lake.append(rows("second", range(5000 + number, 5001 + number)))
    asked(team.ada, "last", HISTOGRAM)
    assert len([place for place, idle in engines._idle.items() if idle]) == 1


SQL = "SELECT word, COUNT(DISTINCT user_id) AS users FROM events GROUP BY word"


def test_a_dashboard_pays_again_when_the_table_was_written(lake: Any, tmp_path: Path):
    port = free_port()
    settings = Settings(
        ledger=str(tmp_path / "s.db"), data_dir=tmp_path / "data", postgres=f"127.0.0.1:{port}", **QUICK
    )
    with running(settings) as replica:
        team = gather(replica, LAKE)
        address = f"postgresql://ada:{team.ada_token}@127.0.0.1:{port}/ada-total"
        with psycopg.connect(address, autocommit=True) as connection:
            notices: list[str] = []
            connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
            connection.execute("SET setwise.epsilon = 8")
            connection.execute("SET setwise.delta = 1e-7")
            first = [connection.execute(SQL).fetchall() for _ in range(10)]
            assert charges(team) == 1
            assert all(found == first[0] for found in first)
            before = lake.version()
            lake.append(rows("second", range(5000, 6000)))
            assert f"Version {before} of the table was read." in notices
            second = [connection.execute(SQL).fetchall() for _ in range(10)]
            assert f"Version {lake.version()} of the table was read." in notices
            assert charges(team) == 2
            assert {word for word, _ in second[0]} == {"first", "second"}


@pytest.fixture
def stored(bucket: Bucket, start: Callable[..., Replica], tmp_path: Path) -> Iterator[Team]:
    """A team on a replica whose tables lie in an object store."""
    Delta(bucket.address("lake/events"), {"AWS_ALLOW_HTTP": "true", "conditional_put": "etag"})
    replica = start(data_dir=tmp_path, store=(bucket.address("lake"),))
    table = Registered(body={**LAKE.body, "table": bucket.address("lake/events")}, uses=EVENTS.uses, total=LAKE.total)
    return gather(replica, table)


def test_tables_in_an_object_store(stored: Team, bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    lake = Delta.__new__(Delta)
    lake.place, lake._options = bucket.address("lake/events"), {"AWS_ALLOW_HTTP": "true", "conditional_put": "etag"}
    first = asked(stored.ada, "one", HISTOGRAM)
    assert first["answer"]["measure"].endswith("; version 0 of the table")
    lake.append(rows("second", range(5000, 6000)))
    second = asked(stored.ada, "two", HISTOGRAM)
    assert abs(counted(second)["second"] - 1000) < 20
    assert second["answer"]["measure"].endswith("; version 1 of the table")
    stored_bytes = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret not in str(first) + str(second) + caplog.text
        assert secret.encode() not in stored_bytes


def test_objects_that_were_written_between_two_questions(stored: Team, bucket: Bucket):
    def put(table: pa.Table) -> None:
        written = io.BytesIO()
        pq.write_table(table, written)
        bucket.put("lake/plain/events.parquet", written.getvalue())

    put(rows("first", range(1000)))
    plain = {**LAKE.body, "name": "plain", "table": bucket.address("lake/plain")}
    made(stored.steward.post("/datasets", json=plain))
    account = {"kind": "filter", "name": "ada-plain", "analyst": "ada", "dataset": "plain", "delta": 1e-6}
    made(stored.steward.post("/accounts", json=account | {"epsilon": 50.0}))
    body = HISTOGRAM | {"dataset": "plain", "account": "ada-plain"}
    first = asked(stored.ada, "one", body)
    put(rows("second", range(1000)))
    second = asked(stored.ada, "two", body)
    assert abs(counted(first)["first"] - 1000) < 20
    assert abs(counted(second)["first"]) < 20
    assert abs(counted(second)["second"] - 1000) < 20
    assert asked(stored.ada, "one", body)["answer"] == first["answer"]


def test_only_prefixes_that_the_operator_allows_are_read(stored: Team, bucket: Bucket):
    for table in (bucket.address("lakes/events"), bucket.address("other"), "s3://other/lake/events",
                  f"s3://{ACCESS_KEY}:{SECRET_KEY}@{bucket.name}/lake/events"):  # fmt: skip
        refused = stored.steward.post("/datasets", json={**LAKE.body, "name": "more", "table": table})
        assert refused.status_code == 422, refused.text
        assert refused.json()["field"] == "table"
        assert SECRET_KEY not in refused.text

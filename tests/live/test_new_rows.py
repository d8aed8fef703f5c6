"""An update reads the rows of new periods alone where the table allows: older ones may even be unreadable.

Of lake tables it reads the rows of the current version, and not those of files that the table has removed.
"""

import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.analytics.engines.duckdb.day_range import DayRange
from setwise.errors import UnsuitableTable
from setwise.live.series import open_live
from setwise.live.states.base import join_batches
from setwise.live.states.connect import open_state

START, DAYS, PER_DAY = date(2026, 1, 1), 20, 500
TODAY = date(2026, 6, 1)


def write_events(path):
    """Events in the order of their time, a group of rows for each day."""
    random = np.random.default_rng(2)
    users = np.array([f"user {number:06d}" for number in random.integers(0, 10**6, DAYS * PER_DAY)])
    days = np.repeat(np.arange(DAYS), PER_DAY)
    table = {
        "user": users,
        "item": np.array(["x", "y"])[random.integers(0, 2, DAYS * PER_DAY)],
        "at": pa.array(np.datetime64(START, "s") + days * 86_400 + 3600).cast(pa.timestamp("us")),
    }
    pq.write_table(pa.table(table), path, row_group_size=PER_DAY, compression="none", use_dictionary=False)


def spoil(path, groups):
    """Overwrite the data of some groups of rows; their statistics in the footer stay."""
    metadata = pq.ParquetFile(path).metadata
    with path.open("r+b") as file:
        for group in groups:
            for column in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(column)
                file.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
                file.write(b"\xff" * chunk.total_compressed_size)


@pytest.mark.parametrize("late", [0, 2])
def test_days_that_were_released_are_not_read_again(ledger, tmp_path, late):
    path = tmp_path / "events.parquet"
    write_events(path)
    series = open_live(
        ledger, "reach", str(path), user="user", item="item", at="at", every="day", start=START, periods=DAYS,
        contributions=1, epsilon=1.0, delta=1e-6, domain=["x", "y"], late_days=late, state=str(tmp_path / "state.db"),
    )  # fmt: skip
    last = DAYS - 1
    series.update(until=START + timedelta(days=last), today=TODAY)
    spoil(path, range(last - late))
    assert series.update(until=START + timedelta(days=DAYS), today=TODAY) == (
        (START + timedelta(days=last)).isoformat(),
    )
    with open_state(series.opening.state, "reach") as state:
        counted = join_batches(state.batches()).counts
    assert counted[:, last].sum() > 0.97 * PER_DAY
    assert counted.sum() > 0.97 * DAYS * PER_DAY


def test_the_spoilt_days_cannot_be_read(ledger, tmp_path):
    """Otherwise the test above would show nothing."""
    path = tmp_path / "events.parquet"
    write_events(path)
    spoil(path, range(DAYS - 1))
    series = open_live(
        ledger, "reach", str(path), user="user", item="item", at="at", every="day", start=START, periods=DAYS,
        contributions=1, epsilon=1.0, delta=1e-6, domain=["x", "y"], state=str(tmp_path / "state.db"),
    )  # fmt: skip
    with pytest.raises(UnsuitableTable, match="cannot be read"):
        series.update(until=START + timedelta(days=DAYS), today=TODAY)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), pa.timestamp("ms", tz="UTC"), pa.timestamp("ns")])
def test_rows_are_taken_by_times_of_every_kind(ledger, tmp_path, kind):
    path = tmp_path / "events.parquet"
    moments = pa.array([datetime(2026, 1, 1), datetime(2026, 1, 1, 23, 59), datetime(2026, 1, 2), datetime(2026, 1, 3)])
    table = {"user": ["a", "b", "c", "d"], "item": ["x"] * 4, "at": moments.cast(pa.timestamp("ms")).cast(kind)}
    pq.write_table(pa.table(table), path)
    series = open_live(
        ledger, "reach", str(path), user="user", item="item", at="at", every="day", start=START, periods=3,
        contributions=1, epsilon=1.0, delta=1e-6, domain=["x"], late_days=0, where="item = 'x'",
        state=str(tmp_path / "state.db"),
    )  # fmt: skip
    for day in (1, 2, 3):
        series.update(until=START + timedelta(days=day), today=TODAY)
    with open_state(series.opening.state, "reach") as state:
        assert join_batches(state.batches()).counts.tolist() == [[2, 1, 1]]


def rows_of_day(day):
    """The rows of one day: fifty users of x and fifty of y, none of whom has rows on another day."""
    users = [f"user {day * 100 + number:06d}" for number in range(100)]
    times = pa.array([datetime(2026, 1, 1, 13) + timedelta(days=day)] * 100, pa.timestamp("us"))
    days = pa.array([START + timedelta(days=day)] * 100, pa.date32())
    return pa.table({"user": users, "item": ["x", "y"] * 50, "at": times, "day": days})


class DeltaEvents:
    """A Delta table of a file for each day; `at` is the column of times, and `partition` that of the partitions."""

    def __init__(self, folder, at="at", partition=None):
        self.lake = pytest.importorskip("deltalake")
        self.path, self.at, self._partition = str(folder / "events"), at, partition

    def append(self, rows):
        self.lake.write_deltalake(self.path, rows, mode="append", partition_by=self._partition)

    def delete(self, item):
        self.lake.DeltaTable(self.path).delete(f"item = '{item}'")

    def files(self):
        return [Path(file) for file in self.lake.DeltaTable(self.path).file_uris()]


class IcebergEvents:
    """An Iceberg table of a file for each day, which is partitioned by the day of `at`."""

    at = "at"

    def __init__(self, folder):
        catalogs = pytest.importorskip("pyiceberg.catalog.sql")
        (folder / "ware").mkdir()
        catalog = catalogs.SqlCatalog("here", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/ware")
        catalog.create_namespace("lake")
        self.path = f"{folder}/ware/events"
        self._table = catalog.create_table("lake.events", rows_of_day(0).schema, location=f"file://{self.path}")
        with self._table.update_spec() as update:
            update.add_field("at", "day", "of_day")

    def append(self, rows):
        self._table.append(rows)

    def delete(self, item):
        self._table.delete(f"item = '{item}'")

    def files(self):
        return [Path(task.file.file_path.removeprefix("file://")) for task in self._table.scan().plan_files()]


LAKES = {
    "Delta": DeltaEvents,
    "Delta, partitioned by day": lambda folder: DeltaEvents(folder, at="day", partition=["day"]),
    "Iceberg": IcebergEvents,
}


@pytest.fixture(params=LAKES)
def lake(request, tmp_path):
    made = LAKES[request.param](tmp_path)
    for day in range(4):
        made.append(rows_of_day(day))
    return made


def open_series(ledger, tmp_path, lake):
    """A series over a lake table whose updates read no row of an earlier day again."""
    return open_live(
        ledger, "reach", lake.path, user="user", item="item", at=lake.at, every="day", start=START, periods=5,
        contributions=1, epsilon=1.0, delta=1e-6, domain=["x", "y"], late_days=0, state=str(tmp_path / "state.db"),
    )  # fmt: skip


def counted_pairs(series):
    with open_state(series.opening.state, "reach") as state:
        return join_batches(state.batches()).counts.tolist()


def test_files_of_other_days_of_a_lake_table_are_not_read(ledger, tmp_path, lake):
    series = open_series(ledger, tmp_path, lake)
    series.update(until=START + timedelta(days=4), today=TODAY)
    for file in lake.files():
        spoil(file, range(pq.ParquetFile(file).num_row_groups))
    lake.append(rows_of_day(4))
    series.update(until=START + timedelta(days=5), today=TODAY)
    assert counted_pairs(series) == [[50] * 5, [50] * 5]


def test_rows_that_a_lake_table_has_removed_are_not_counted(ledger, tmp_path, lake):
    series = open_series(ledger, tmp_path, lake)
    series.update(until=START + timedelta(days=2), today=TODAY)
    lake.append(rows_of_day(4))
    lake.delete("x")
    series.update(until=START + timedelta(days=5), today=TODAY)
    assert counted_pairs(series) == [[50, 50, 0, 0, 0], [50] * 5]


DAYS_OF_MAY = DayRange(at="at", first=date(2026, 5, 1), end=date(2026, 6, 1))


@pytest.mark.parametrize(
    ("least", "greatest", "excluded"),
    [
        (date(2026, 4, 1), date(2026, 4, 30), True),
        (date(2026, 4, 1), date(2026, 5, 1), False),
        (date(2026, 5, 31), date(2026, 7, 1), False),
        (date(2026, 6, 1), date(2026, 7, 1), True),
        (datetime(2026, 4, 1), datetime(2026, 4, 30, 23, 59, 59), True),
        (datetime(2026, 4, 1), datetime(2026, 5, 1), False),
        (datetime(2026, 5, 31, 23, 59, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC), False),
        (datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC), True),
        ("2026-04-01", "2026-04-30", False),
        (None, None, False),
    ],
)
def test_metadata_exclude_a_range_of_days_only_if_no_time_can_be_in_it(least, greatest, excluded):
    assert DAYS_OF_MAY.excludes(least, greatest) is excluded


def test_rows_without_a_time_are_in_no_range_of_days():
    times = pa.array(
        [None, datetime(2026, 4, 30), datetime(2026, 5, 1), datetime(2026, 6, 1)], pa.timestamp("ms", "UTC")
    )
    assert DAYS_OF_MAY.rows_of(pa.table({"at": times, "n": [1, 2, 3, 4]})).column("n").to_pylist() == [3]
    assert DAYS_OF_MAY.excludes_constant(None)
    assert DAYS_OF_MAY.excludes_constant(pa.scalar(None, pa.date32()))
    assert not DAYS_OF_MAY.excludes_constant(pa.scalar(date(2026, 5, 31)))


def test_partitions_of_other_days_of_a_database_are_not_read(ledger, postgresql_server):
    psycopg = pytest.importorskip("psycopg")
    url = postgresql_server.schema()
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (
            "CREATE TABLE events (who text, item text, at timestamp) PARTITION BY RANGE (at)",
            "CREATE TABLE early PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-01-05')",
            "CREATE TABLE recent PARTITION OF events FOR VALUES FROM ('2026-01-05') TO ('2026-02-01')",
            "INSERT INTO events SELECT 'u' || n, 'x', timestamp '2026-01-01 12:00' + n % 5 * interval '1 day' "
            "FROM generate_series(1, 5000) AS n",
        ):
            connection.execute(statement)

    def scans():
        """How often each partition was read. A session reports its reads when it ends, so its end is waited for."""
        others = (
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        reads = "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = current_schema()"
        with psycopg.connect(url, autocommit=True) as connection:
            for _ in range(600):
                if connection.execute(others).fetchone() == (0,):
                    return dict(connection.execute(reads).fetchall())
                time.sleep(0.1)
        raise AssertionError("sessions of the series did not end within a minute")

    series = open_live(
        ledger, "reach", "events", user="who", item="item", at="at", every="day", start=START, periods=5,
        contributions=1, epsilon=1.0, delta=1e-6, domain=["x"], late_days=0, source={"engine": url},
    )  # fmt: skip
    series.update(until=START + timedelta(days=4), engine=url, today=TODAY)
    before = scans()
    series.update(until=START + timedelta(days=5), engine=url, today=TODAY)
    after = scans()
    assert before["early"] > 0
    assert after["early"] == before["early"]
    assert after["recent"] > before["recent"]


NEAR_MIDNIGHT = [(0, 0, 30), (0, 23, 30), (1, 0, 30), (2, 23, 59)]
"""Times of events in UTC: a day of the series, an hour and a minute. In other zones some of them fall on other days."""


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("where", ["file", "memory", "postgresql"])
def test_days_are_those_of_utc_whatever_zone_a_table_or_a_session_has(request, ledger, tmp_path, where, zone):
    moments = [datetime(2026, 1, 1 + day, hour, minute, tzinfo=UTC) for day, hour, minute in NEAR_MIDNIGHT]
    table = pa.table(
        {"who": ["a", "b", "c", "d"], "item": ["x"] * 4, "at": pa.array(moments, pa.timestamp("us", zone))}
    )
    path, source, engine = str(tmp_path / "events.parquet"), {}, None
    pq.write_table(table, path)
    if where == "postgresql":
        psycopg = pytest.importorskip("psycopg")
        url = request.getfixturevalue("postgresql_server").schema()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE events (who text, item text, at timestamptz)")
            for number, moment in enumerate(moments):
                connection.execute("INSERT INTO events VALUES (%s, 'x', %s)", (f"u{number}", moment))
            connection.execute(f"ALTER ROLE CURRENT_USER SET timezone = '{zone}'")
        path, source, engine = "events", {"engine": url}, url
    try:
        series = open_live(
            ledger, "reach", path, user="who", item="item", at="at", every="day", start=START, periods=3,
            contributions=1, epsilon=1.0, delta=1e-6, domain=["x"], late_days=0, source=source,
            state=str(tmp_path / "state.db"),
        )  # fmt: skip
        for day in (1, 2, 3):
            given = table if where == "memory" else None
            series.update(until=START + timedelta(days=day), today=TODAY, engine=engine, source=given)
    finally:
        if where == "postgresql":
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("ALTER ROLE CURRENT_USER RESET timezone")
    assert counted_pairs(series) == [[2, 1, 1]]

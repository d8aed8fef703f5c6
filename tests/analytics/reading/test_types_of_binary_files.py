"""Types that Parquet and DuckDB files have beside those of CSV: times of nanoseconds, long integers and durations."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.analytics.bins import parse_group
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.measure import Measure
from setwise.analytics.schema import Kind
from setwise.analytics.tables.check import check_table
from setwise.errors import UnsuitableTable

ROWS = 400
TIMES = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=13 * row) for row in range(ROWS)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("source", ["parquet", "frame"])
def test_times_with_a_zone_are_read_in_utc_in_any_unit(tmp_path: Path, unit: str, zone: str, source: str):
    table = pa.table({"u": range(ROWS), "at": pa.array(TIMES, pa.timestamp(unit, zone))})
    pq.write_table(table, tmp_path / "t.parquet")
    with open_engine(table if source == "frame" else tmp_path / "t.parquet") as engine:
        assert engine.describe().column("at").kind is Kind.INSTANT
        months = engine.histogram(Aggregation(user="u", item=(parse_group("at by month"),)))
        where = parse_filter("at >= '2024-03-01'", engine.describe())
        kept = engine.histogram(Aggregation(user="u", item="u", where=where))
    assert dict(zip(months.labels, months.counts.tolist(), strict=True)) == Counter(f"{time:%Y-%m}" for time in TIMES)
    assert len(kept.labels) == sum(time >= datetime(2024, 3, 1, tzinfo=UTC) for time in TIMES)


def test_times_in_nanoseconds_of_a_duckdb_file(tmp_path: Path):
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.register("given", pa.table({"u": range(ROWS), "at": pa.array(TIMES, pa.timestamp("ns", "UTC"))}))
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    with open_engine(f"{tmp_path / 't.duckdb'}::t") as engine:
        where = parse_filter("at >= '2024-03-01'", engine.describe())
        kept = engine.histogram(Aggregation(user="u", item=(parse_group("at by month"),), where=where))
    assert min(kept.labels) == "2024-03"


def test_long_integers_are_read_as_integers_if_the_holder_says_so(tmp_path: Path):
    path = tmp_path / "t.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS u, range::HUGEINT AS total FROM range(10)")
        connection.execute(f"INSERT INTO t VALUES (10, {2**64}), (11, {-(2**63)})")
    measure = Measure(column="total", least=-10, most=100)
    with setwise.open(f"{path}::t", user="u", scan=False) as session:
        with pytest.raises(UnsuitableTable, match="--type total=integer reads those that fit 64 bits") as refused:
            session.sum(value="total", epsilon=1)
        assert refused.value.needed_types == {"total": "integer"}
    with open_engine(f"{path}::t", types={"total": Kind.INTEGER}) as engine:
        totals = engine.statistics(Aggregation(user="u", item="total", measures=(measure,))).totals[0]
    assert dict(totals) == {**{number: number for number in range(10)}, -(2**63): -10}


def test_the_unit_of_durations_is_noted(tmp_path: Path):
    cells = [timedelta(minutes=row) for row in range(ROWS)]
    columns = {unit: pa.array(cells, pa.duration(unit)) for unit in ("s", "ms", "us", "ns")}
    pq.write_table(pa.table({"u": range(ROWS), **columns}), tmp_path / "t.parquet")
    notes = check_table(str(tmp_path / "t.parquet"), CsvOptions(), {}, None).notes()
    units = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
    assert [note.partition(", and")[0] for note in notes] == [
        f"the numbers of {name!r} are durations in {unit}" for name, unit in units.items()
    ]

"""Spark reads files as DuckDB does: cells by one grammar, CSV by one reader, partitions as text, far times as null."""

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Kind
from setwise.errors import UnsuitableTable
from tests.analytics.reading.cells import EXAMPLES, examples
from tests.analytics.reading.test_cells import assert_as_specified
from tests.analytics.reading.test_cells_duckdb_cannot_hold import FAR, broken, counted
from tests.analytics.reading.test_written_cells import WRITTEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("kind", list(EXAMPLES))
def test_spark_reads_every_cell_as_specified(kind: Kind, spark_session: "SparkSession"):
    from setwise.analytics.engines.spark.tables import SparkTable

    cells = examples(kind, seed=1, count=2000)
    frame = spark_session.createDataFrame(pa.table({"n": range(len(cells)), "c": cells}))
    found = SparkTable(frame=frame).read_as({"c": kind}).frame.orderBy("n").select("c").collect()
    assert_as_specified(kind, cells, [value for (value,) in found])


DAMAGED = [
    b'c,"x',
    b'c,x"y',
    b"c",
    b"c" + b"," * 30_000,
    b"c,\xff",
    b"c,x\ry,z",
    b'c,"x\n0,secret\n1,secret"',
    b"\xff,x",
    b"\xfe,x",
]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_csv_has_the_rows_that_duckdb_reads(tmp_path: Path, spark_session: "SparkSession", suffix: str):
    text = b"who,what\n" + b"".join(line + b"\n" + b'a,"x"\nb,x\n' for line in DAMAGED)
    file = tmp_path / f"table{suffix}"
    file.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    asked: dict[str, Any] = {"user": "who", "item": "what", "per_item": 1000, "null_item": "none"}
    with open_engine(file) as duckdb, open_engine(str(file), "spark") as spark:
        assert spark.describe().names == duckdb.describe().names
        assert counted(spark, **asked) == counted(duckdb, **asked)
        assert counted(spark, **asked)["x"] == 2 * len(DAMAGED)
        assert counted(spark, user="what", item="what") == counted(duckdb, user="what", item="what")


def test_cells_in_single_quotes_are_the_cells_that_duckdb_reads(tmp_path: Path, spark_session: "SparkSession"):
    file = tmp_path / "quoted.csv"
    file.write_text("who,'what, or whom'\na,'Smith, John'\nb,'O''Hara, \"Kit\"'\nc,'two\nlines'\nd,O'Hara\ne,\"x\"\n")
    csv = CsvOptions(quote="'")
    asked = {"user": "who", "item": "what, or whom"}
    with open_engine(file, csv=csv) as duckdb, open_engine(str(file), "spark", csv=csv) as spark:
        expected = {"Smith, John": 1, 'O\'Hara, "Kit"': 1, "two\nlines": 1, '"x"': 1}
        assert counted(spark, **asked) == counted(duckdb, **asked) == expected


def test_csv_files_share_names_in_any_order_and_have_types(tmp_path: Path, spark_session: "SparkSession"):
    (tmp_path / "table.csv").mkdir()
    (tmp_path / "table.csv" / "1.csv").write_text("who,what,much\na,x,2.0\n")
    (tmp_path / "table.csv" / "2.csv").write_text("what,much,who\nx,3,b\n")
    with open_engine(str(tmp_path / "table.csv"), "spark", types={"much": Kind.INTEGER}) as engine:
        assert engine.describe().column("much").from_text
        assert counted(engine, user="who", item="what", value="much", per_item=9) == {"x": 5}
    (tmp_path / "table.csv" / "3.csv").write_text("what,many,who\nx,3,b\n")
    with pytest.raises(UnsuitableTable, match="has other columns"):
        open_engine(str(tmp_path / "table.csv"), "spark")


def test_a_csv_file_too_long_for_spark_is_refused_before_it_is_read(
    tmp_path: Path, spark_session: "SparkSession", monkeypatch: pytest.MonkeyPatch
):
    from setwise.analytics.engines.spark import files

    monkeypatch.setattr(files, "LONGEST_FILE", 10)
    (tmp_path / "table.csv").write_text("who,what\na,x\n")
    with pytest.raises(UnsuitableTable, match="split it, or convert it to Parquet"):
        open_engine(str(tmp_path / "table.csv"), "spark")


def test_partitions_are_text_whatever_they_are_called(tmp_path: Path, spark_session: "SparkSession"):
    for place, folder in enumerate(["7", "007", "2.5"]):
        (tmp_path / f"what={folder}").mkdir()
        pq.write_table(pa.table({"who": [place]}), tmp_path / f"what={folder}" / "part.parquet")
    with open_engine(str(tmp_path), "spark") as engine:
        assert counted(engine, user="who", item="what") == {"7": 1, "007": 1, "2.5": 1}
    assert spark_session.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled") == "true"


def test_files_of_other_widths_are_refused_by_their_footers(tmp_path: Path, spark_session: "SparkSession"):
    pq.write_table(pa.table({"who": pa.array([1], pa.int32())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"who": pa.array([1], pa.int64())}), tmp_path / "2.parquet")
    with pytest.raises(UnsuitableTable, match="columns of other types"):
        open_engine(str(tmp_path), "spark")


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_timestamps_beyond_microseconds_are_null(tmp_path: Path, spark_session: "SparkSession", zone: str | None):
    table = pa.table({"who": [1, 2, 3, 4, 5], "when": pa.array(FAR).cast(pa.timestamp("ms", zone)), "what": ["x"] * 5})
    pq.write_table(table, tmp_path / "table.parquet")
    with open_engine(str(tmp_path / "table.parquet"), "spark") as engine:
        assert engine.describe().column("when").kind is (Kind.TIMESTAMP if zone is None else Kind.INSTANT)
        assert counted(engine, user="when", item="what") == {"x": 3}
        where = parse_filter("when >= '1970-01-01'", engine.describe())
        assert counted(engine, user="who", item="what", where=where) == {"x": 3}


def test_broken_text_is_null_for_users_and_in_filters_too(tmp_path: Path, spark_session: "SparkSession"):
    table = pa.table({"who": broken([b"a", b"\xff", b"\xfe"]), "what": broken([b"x", b"x", b"\xff"])})
    pq.write_table(table, tmp_path / "table.parquet")
    with open_engine(str(tmp_path / "table.parquet"), "spark") as engine:
        assert engine.histogram(Aggregation(user="who", item="what")).counts.tolist() == [1]
        where = parse_filter("what <> 'y'", engine.describe())
        assert engine.histogram(Aggregation(user="what", where=where)).counts.tolist() == [1]


@pytest.mark.parametrize(("options", "kind", "cells"), WRITTEN)
def test_spark_reads_cells_as_the_holder_says(
    options: dict[str, Any], kind: Kind, cells: dict[str, Any], spark_session: "SparkSession"
):
    from setwise.analytics.engines.spark.tables import SparkTable

    frame = spark_session.createDataFrame(pa.table({"n": range(len(cells)), "c": list(cells)}))
    types = {} if kind is Kind.TEXT else {"c": kind}
    table = SparkTable(frame=frame).read_as(types, CsvOptions(**options).cells)
    assert [value for (value,) in table.frame.orderBy("n").select("c").collect()] == list(cells.values())

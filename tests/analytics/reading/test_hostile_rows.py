"""The contract for reading: whatever rows one user adds, the rest of the table is read as before (docs/reading.md)."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest

from setwise.analytics.engines.connect import open_engine
from setwise.analytics.schema import Kind
from tests.analytics.reading import hostile
from tests.servers.clickhouse import ClickHouseServer
from tests.servers.postgresql import PostgresqlServer
from tests.sizes import HOSTILE_CASES, cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def key_of(name: str) -> str:
    return name[-4] if name.startswith("hive") else ""


VARIANTS = {"csv cells crlf", "csv raw crlf", "csv raw double colons", "csv.zst raw"}
"""Files that are read as others are, but for one option."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in VARIANTS)) for name in hostile.DUCKDB]
)
def test_no_row_decides_on_duckdb(name: str, tmp_path: Path):
    write, types = hostile.DUCKDB[name]
    named = "cells" in name
    assert not hostile.violations(write, types, "duckdb", tmp_path, HOSTILE_CASES, key=key_of(name), named=named)


@pytest.mark.parametrize("name", list(hostile.LAKES))
def test_no_row_decides_on_lake_tables(name: str, tmp_path: Path):
    pytest.importorskip("deltalake" if name.startswith("delta") else "pyiceberg")
    write, types = hostile.LAKES[name]
    assert not hostile.violations(write, types, "duckdb", tmp_path, HOSTILE_CASES)


@pytest.mark.parametrize("name", list(hostile.LAKE_PARTITIONS))
def test_no_row_decides_on_partitions_of_lake_tables(name: str, tmp_path: Path):
    pytest.importorskip("deltalake" if name.startswith("delta") else "pyiceberg")
    write, types = hostile.LAKE_PARTITIONS[name]
    assert not hostile.violations(write, types, "duckdb", tmp_path, cases(16))


@pytest.mark.parametrize("name", list(hostile.SPARK))
def test_no_row_decides_on_spark(name: str, tmp_path: Path, spark_session: "SparkSession"):
    write, types = hostile.SPARK[name]
    named = "cells" in name
    assert not hostile.violations(write, types, "spark", tmp_path, cases(12), key=key_of(name), named=named)


@pytest.fixture(params=["UTF8", "WIN1252"])
def database(request: pytest.FixtureRequest, postgresql_server: PostgresqlServer) -> Iterator[tuple[str, str]]:
    with postgresql_server.database(request.param) as url:
        yield url, request.param


def table_writer(url: str, encoding: str) -> hostile.Writer:
    """Return a writer of a table; in WIN1252 the hostile user's label has a byte that is no character."""

    def write(folder: Path, rows: list[hostile.Row], case: hostile.Case | None) -> hostile.Source:
        name = f"rows_{folder.name}"
        plain = [row for row in rows if row[0] != "\ufffd" or encoding == "UTF8"]
        with psycopg.connect(url, client_encoding="UTF8") as connection:
            connection.execute(f"CREATE TABLE {name} (u text, i text, v bigint, t timestamp)")
            connection.cursor().executemany(f"INSERT INTO {name} VALUES (%s, %s, %s, %s)", plain)
            if case is not None:
                undefined = "convert_from(decode('81', 'hex'), getdatabaseencoding())"
                label = f"'x' || {undefined}" if encoding != "UTF8" else "chr(1) || chr(8232)"
                user = undefined if encoding != "UTF8" and case.place % 2 else "'zz'"
                time = ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "NULL"][case.place % 4]
                connection.execute(f"INSERT INTO {name} SELECT {user}, {label}, {case.integer}, {time}")
        return name, url, None

    return write


def test_no_row_decides_on_postgresql(database: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    url, encoding = database
    if encoding != "UTF8":  # it has no such character
        every = hostile.others
        monkeypatch.setattr(hostile, "others", lambda seed: [row for row in every(seed) if row[0] != "\ufffd"])
    types: dict[str, Kind] = {}
    assert not hostile.violations(table_writer(url, encoding), types, url, tmp_path, cases(60))


def test_columns_that_postgresql_computes_when_it_reads_are_left_out(postgresql_server: PostgresqlServer):
    """One row that does not convert would fail every question about such a column."""
    url = postgresql_server.schema()
    with psycopg.connect(url) as connection:
        if connection.info.server_version < 180000:
            pytest.skip("only PostgreSQL 18 and later computes columns when it reads them")
        connection.execute(
            "CREATE TABLE t (u int, s text, kept int GENERATED ALWAYS AS (u + 1) STORED, "
            "computed int GENERATED ALWAYS AS (CAST(s AS int)) VIRTUAL)"
        )
        connection.execute("INSERT INTO t VALUES (1, '1'), (2, 'x')")
    with open_engine("t", url) as engine:
        assert engine.describe().names == ("u", "s", "kept")


CLICKHOUSE = {
    "text": {"broken": "i"},
    "user": {"broken": "u"},
    "seconds": {"t": "DateTime"},
    "milliseconds": {"t": "DateTime64(3)"},
    "nanoseconds": {"t": "DateTime64(9, 'Asia/Tokyo')"},
    "low cardinality": {"text": "LowCardinality(Nullable(String))", "broken": "i"},
    "fixed": {"text": "FixedString(40)", "broken": "u"},
    "unsigned": {"v": "UInt64"},
}
"""What a hostile user breaks, and the types of columns."""


def clickhouse_writer(
    server: ClickHouseServer,
    url: str,
    *,
    broken: str = "",
    text: str = "String",
    v: str = "Int64",
    t: str = "DateTime64(6)",
) -> hostile.Writer:
    """Return a writer of a table; times are made of any 64 bits."""

    def write(folder: Path, rows: list[hostile.Row], case: hostile.Case | None) -> hostile.Source:
        name = f"rows_{folder.name}_{abs(hash((broken, text, v, t)))}"
        if text.startswith("Fixed") and case is not None:
            case = replace(case, cells=tuple((user, item[:10], *rest) for user, item, *rest in case.cells))
        table = hostile.arrow_table(rows, case, broken=broken)
        integers = table.set_column(3, "t", table.column("t").cast(pa.int64()))
        server.store(integers, f"{name}_raw", url)
        server.run(f"CREATE TABLE {name} (u {text}, i {text}, v {v}, t {t}) ENGINE = MergeTree ORDER BY tuple()", url)
        bits = "toUInt32(t)" if t == "DateTime" else "t"
        moment = f"reinterpret(assumeNotNull({bits}), '{t}')".replace("'Asia/Tokyo'", "\\'Asia/Tokyo\\'")
        server.run(
            f"INSERT INTO {name} SELECT u, i, reinterpret(assumeNotNull(v), '{v}'), {moment} FROM {name}_raw", url
        )
        return name, url, None

    return write


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in ("text", "nanoseconds") else pytest.mark.slow) for name in CLICKHOUSE],
)
def test_no_row_decides_on_clickhouse(name: str, clickhouse_server: ClickHouseServer, tmp_path: Path):
    url = clickhouse_server.database()
    write = clickhouse_writer(clickhouse_server, url, **CLICKHOUSE[name])
    assert not hostile.violations(write, {}, url, tmp_path, cases(24))

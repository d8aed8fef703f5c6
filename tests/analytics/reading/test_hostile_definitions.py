"""No row decides whether a question is answered, however the table is defined: every engine, every definition."""

import sqlite3
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import open_engine
from setwise.errors import UnknownColumn, UnsuitableTable
from tests.analytics.reading import definitions
from tests.analytics.reading.definitions import Definition, seen
from tests.servers.clickhouse import POLICED, POLICIES, ClickHouseServer
from tests.servers.postgresql import PostgresqlServer
from tests.sizes import some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DUCKDB = list(definitions.duckdb_definitions())
SQLITE = list(definitions.sqlite_definitions())
CLICKHOUSE = list(definitions.clickhouse_definitions())
SPARK = list(definitions.spark_definitions())
POSTGRESQL = list(definitions.postgresql_definitions(180000))


def fails(run: Any, statement: str) -> bool:
    """Return whether the database itself fails on a statement."""
    try:
        run(statement)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("definition", DUCKDB, ids=str)
def test_no_row_decides_on_duckdb(definition: Definition, tmp_path: Path):
    without = definitions.write_duckdb(definition, tmp_path, hostile=False)
    with_row = definitions.write_duckdb(definition, tmp_path, hostile=True)
    with duckdb.connect(with_row.partition("::")[0], read_only=True) as connection:
        assert fails(lambda text: connection.execute(text).fetchall(), "SELECT * FROM t"), "the row must be hostile"
    assert seen(with_row, "duckdb") == seen(without, "duckdb")


@pytest.mark.parametrize("definition", SQLITE, ids=str)
def test_no_row_decides_on_sqlite(definition: Definition, tmp_path: Path):
    without = definitions.write_sqlite(definition, tmp_path, hostile=False)
    with_row = definitions.write_sqlite(definition, tmp_path, hostile=True)
    connection = sqlite3.connect(with_row.partition("::")[0])
    assert fails(lambda text: connection.execute(text).fetchall(), "SELECT * FROM t"), "the row must be hostile"
    connection.close()
    assert seen(with_row, "duckdb") == seen(without, "duckdb")


@pytest.mark.parametrize("definition", some(CLICKHOUSE, 4), ids=str)
def test_no_row_decides_on_clickhouse(definition: Definition, clickhouse_server: ClickHouseServer):
    every = "SETTINGS asterisk_include_materialized_columns = 1, asterisk_include_alias_columns = 1"
    found = {}
    for hostile in (False, True):
        url = clickhouse_server.database()

        def run(statement: str, url: str = url) -> None:
            clickhouse_server.run(statement.replace("{database}", url.rpartition("/")[2]), url)

        definitions.build(definition, run, hostile)
        if hostile:
            assert fails(run, f"SELECT * FROM t {every}"), "the row must be hostile"
        found[hostile] = seen("t", url)
    assert found[True] == found[False]


@pytest.mark.parametrize("definition", some(POSTGRESQL, 2), ids=str)
def test_no_row_decides_on_postgresql(definition: Definition, postgresql_server: PostgresqlServer):
    found = {}
    for hostile in (False, True):
        url = postgresql_server.schema()
        schema = url.rpartition("%3D")[2]
        reader = url.replace("postgres@", "reader@")
        with psycopg.connect(url, autocommit=True) as connection:
            if connection.info.server_version < 180000 and "generated" in definition.name:
                pytest.skip("only PostgreSQL 18 and later computes columns when it reads them")
            if not connection.execute("SELECT FROM pg_roles WHERE rolname = 'reader'").fetchall():
                connection.execute("CREATE ROLE reader LOGIN")
            connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader")
            connection.execute(f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO reader")
            definitions.build(definition, connection.execute, hostile)
        with psycopg.connect(reader) as connection:
            if hostile:
                assert fails(lambda text: connection.execute(text).fetchall(), "SELECT * FROM t"), "must be hostile"
        found[hostile] = seen("t", reader)
    assert found[True] == found[False]


@pytest.mark.parametrize("definition", some(SPARK, 6), ids=str)
def test_no_row_decides_on_spark(definition: Definition, spark_session: "SparkSession", tmp_path: Path):
    found = {}
    for hostile in (False, True):
        names = {f"{{{each}}}": f"{each}_{uuid.uuid4().hex}" for each in "tbv"}
        names["{folder}"] = str(tmp_path / str(hostile))

        def run(statement: str, names: dict[str, str] = names) -> None:
            for place, name in names.items():
                statement = statement.replace(place, name)
            spark_session.sql(statement)

        definitions.build(definition, run, hostile)
        table = names["{t}"]
        if hostile:
            assert fails(lambda name: spark_session.table(name).collect(), table), "the row must be hostile"
        found[hostile] = seen(table, "spark")
    assert found[True] == found[False]


PLAIN_VIEW = (
    "CREATE TABLE b (u VARCHAR, s VARCHAR, n BIGINT)",
    "INSERT INTO b VALUES ('u1', '1', 1), ('u2', 'x', 2), ('u3', NULL, 0)",
    "CREATE VIEW v AS SELECT u AS who, s, n FROM b WHERE n >= 1 AND (s IN ('1', 'x') OR NOT u = 'u3')",
    "CREATE VIEW t AS SELECT * FROM v WHERE n BETWEEN 0 AND 5 AND s IS NOT NULL",
)
"""A view over a view that cannot fail, in SQL that every engine takes."""


def counts_by_user(engine: Engine) -> dict[str, int]:
    found = engine.histogram(Aggregation(user="who", item="who"))
    return dict(zip(map(str, found.labels), map(int, found.counts), strict=True))


def test_plain_views_are_read_on_duckdb(tmp_path: Path):
    with duckdb.connect(tmp_path / "a.duckdb") as connection:
        for statement in PLAIN_VIEW:
            connection.execute(statement)
    source = sqlite3.connect(tmp_path / "a.sqlite")
    with source:
        for statement in PLAIN_VIEW:
            source.execute(statement)
    source.close()
    for name in ("a.duckdb", "a.sqlite"):
        with open_engine(f"{tmp_path / name}::t") as engine:
            assert engine.describe().names == ("who", "s", "n")
            assert counts_by_user(engine) == {"u1": 1, "u2": 1}


def test_plain_views_and_policies_are_read_on_postgresql(postgresql_server: PostgresqlServer):
    url = postgresql_server.schema()
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in PLAIN_VIEW:
            connection.execute(statement)
        connection.execute("CREATE VIEW pairs AS SELECT x.who, y.n::bigint AS n FROM t AS x JOIN b AS y ON x.who = y.u")
        connection.execute("ALTER TABLE b ENABLE ROW LEVEL SECURITY")
        connection.execute("CREATE POLICY p ON b USING (s = 'x' OR n > 0 OR u = current_user)")
        connection.execute("CREATE MATERIALIZED VIEW kept AS SELECT u AS who, CAST(n AS int) / 2 AS n FROM b")
    for table, users in (("t", 2), ("pairs", 2), ("kept", 3)):
        with open_engine(table, url) as engine:
            assert sum(counts_by_user(engine).values()) == users


def test_plain_views_are_read_on_spark(spark_session: "SparkSession"):
    name = f"plain_{uuid.uuid4().hex}"
    for statement in PLAIN_VIEW:
        made = statement.replace("VARCHAR", "STRING").replace(" b ", f" {name}_b ").replace(" v ", f" {name}_v ")
        spark_session.sql(made.replace("VIEW t ", f"VIEW {name} "))
    with open_engine(name, "spark") as engine:
        assert counts_by_user(engine) == {"u1": 1, "u2": 1}
    with open_engine(spark_session.sql(f"SELECT who, lower(s) AS s, n % 3 AS n FROM {name}")) as engine:
        assert counts_by_user(engine) == {"u1": 1, "u2": 1}


def test_plain_definitions_are_read_on_clickhouse(clickhouse_server: ClickHouseServer):
    url = clickhouse_server.database()
    create = "CREATE TABLE b (u String, s Nullable(String), n Int64) ENGINE = MergeTree ORDER BY tuple()"
    for statement in (create, *PLAIN_VIEW[1:]):
        clickhouse_server.run(statement, url)
    with open_engine("t", url) as engine:
        assert counts_by_user(engine) == {"u1": 1, "u2": 1}
    for statement in (
        "CREATE TABLE k (who String, at DateTime, m DateTime64(3), part Int64 DEFAULT toInt64(who)) ENGINE = MergeTree "
        "PARTITION BY part ORDER BY tuple()",
        "INSERT INTO k (who, at, m) VALUES ('1', 0, 0), ('2', 1, 1)",
        "ALTER TABLE k ADD COLUMN day Date DEFAULT toDate(at), ADD COLUMN one Int64 DEFAULT 1 + 1, ADD COLUMN none "
        "Nullable(String), ADD COLUMN seen DateTime DEFAULT now(), ADD COLUMN text String DEFAULT toString(at)",
        "CREATE TABLE merged (who String, at DateTime) ENGINE = Merge(currentDatabase(), '^k$')",
        "CREATE TABLE buffered (who String, at DateTime) ENGINE = "
        "Buffer(currentDatabase(), k, 1, 1e6, 1e6, 1e9, 1e9, 1e9, 1e9)",
    ):
        clickhouse_server.run(statement, url)
    with open_engine("k", url) as engine:
        assert engine.describe().names == ("who", "at", "m", "part", "day", "one", "none", "seen")
        with pytest.raises(UnknownColumn, match="'text' cannot be read: ClickHouse computes it"):
            engine.check(Aggregation(user="who", item="text"))
        assert counts_by_user(engine) == {"1": 1, "2": 1}
    for table in ("merged", "buffered"):
        with open_engine(table, url) as engine:
            assert counts_by_user(engine) == {"1": 1, "2": 1}


_POLICED_COLUMNS = "(u String, s String, n Int64) ENGINE = MergeTree ORDER BY tuple()"


def test_row_policies_that_compute_are_refused(clickhouse_server: ClickHouseServer):
    clickhouse_server.run(f"CREATE DATABASE IF NOT EXISTS {POLICED}")
    url = clickhouse_server.url(POLICED)
    for table in POLICIES:
        clickhouse_server.run(f"CREATE OR REPLACE TABLE {table} {_POLICED_COLUMNS}", url)
        clickhouse_server.run(f"INSERT INTO {table} VALUES ('u1', '1', 1), ('u2', 'x', 0), ('u3', '1', 2)", url)
        if table == "plain":
            with open_engine(table, url) as engine:
                found = engine.histogram(Aggregation(user="u", item="u"))
                assert sorted(map(str, found.labels)) == ["u1", "u3"]
        else:
            assert fails(lambda name: clickhouse_server.run(f"SELECT * FROM {name}", url), table)
            with pytest.raises(UnsuitableTable, match="a row policy"):
                open_engine(table, url)


@pytest.mark.parametrize("rows", ["", "VALUES ('u1', '1', 1)"], ids=["empty", "one row"])
def test_no_row_decides_whether_a_login_that_sees_no_policies_is_refused(
    rows: str, clickhouse_server: ClickHouseServer, monkeypatch: pytest.MonkeyPatch
):
    """The plan of a query shows the policies of a table only if the table has rows, so it is not looked at."""
    clickhouse_server.run(f"CREATE DATABASE IF NOT EXISTS {POLICED}")
    url = clickhouse_server.url(POLICED)
    monkeypatch.setattr("setwise.analytics.engines.clickhouse.tables._POLICIES", "SELECT throwIf(1) AS condition")
    for table in (*POLICIES, "without_policy"):
        clickhouse_server.run(f"CREATE OR REPLACE TABLE {table} {_POLICED_COLUMNS}", url)
        if rows:
            clickhouse_server.run(f"INSERT INTO {table} {rows}", url)
        with pytest.raises(UnsuitableTable, match="GRANT SHOW ROW POLICIES"):
            open_engine(table, url)


@pytest.mark.parametrize("native", ["Int64", "Date"])
def test_a_stuck_change_of_a_column_refuses_every_question(native: str, clickhouse_server: ClickHouseServer):
    """ClickHouse never finishes a change that fails on a row, and converts the old rows with every question."""
    url = clickhouse_server.database()
    clickhouse_server.run("CREATE TABLE t (u String, s String) ENGINE = MergeTree ORDER BY tuple()", url)
    clickhouse_server.run("INSERT INTO t VALUES ('a', '1'), ('zz', 'x')", url)
    with open_engine("t", url) as engine:
        question = Aggregation(user="u", item="u")
        engine.histogram(question)
        clickhouse_server.run(
            f"ALTER TABLE t MODIFY COLUMN s {native} SETTINGS mutations_sync = 0, alter_sync = 0", url
        )
        with pytest.raises(UnsuitableTable, match="MODIFY COLUMN"):
            engine.check(question)
    with pytest.raises(UnsuitableTable, match="MODIFY COLUMN"):
        open_engine("t", url)


def test_tables_of_dictionaries_are_refused(clickhouse_server: ClickHouseServer):
    url = clickhouse_server.database()
    name = url.rpartition("/")[2]
    for statement in (
        "CREATE TABLE b (u String, n UInt64) ENGINE = MergeTree ORDER BY tuple()",
        "CREATE DICTIONARY d (n UInt64, u String) PRIMARY KEY n SOURCE(CLICKHOUSE(QUERY "
        f"'SELECT n, u FROM {name}.b')) LAYOUT(HASHED()) LIFETIME(0)",
        f"CREATE TABLE t (n UInt64, u String) ENGINE = Dictionary('{name}.d')",
    ):
        clickhouse_server.run(statement, url)
    with pytest.raises(UnsuitableTable, match="of the engine Dictionary"):
        open_engine("t", url)


def test_foreign_tables_and_partitions_are_refused(postgresql_server: PostgresqlServer):
    url = postgresql_server.schema()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE FOREIGN DATA WRAPPER elsewhere")
        connection.execute("CREATE SERVER elsewhere FOREIGN DATA WRAPPER elsewhere")
        connection.execute("CREATE FOREIGN TABLE alone (u text, n bigint) SERVER elsewhere")
        connection.execute("CREATE TABLE whole (u text, n bigint) PARTITION BY LIST (u)")
        connection.execute("CREATE TABLE half PARTITION OF whole FOR VALUES IN ('a') PARTITION BY LIST (n)")
        connection.execute("CREATE FOREIGN TABLE part PARTITION OF half DEFAULT SERVER elsewhere")
        connection.execute("CREATE VIEW above AS SELECT u, n FROM whole")
    for table in ("alone", "whole", "half", "above"):
        with pytest.raises(UnsuitableTable, match="foreign table"):
            open_engine(table, url)


def test_a_table_redefined_while_it_is_open_is_refused(postgresql_server: PostgresqlServer):
    """A statement for the old types would convert the new ones, and fail on one row."""
    url = postgresql_server.schema()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (u text, n bigint)")
        connection.execute("INSERT INTO t VALUES ('a', 1)")
        with open_engine("t", url) as engine:
            question = Aggregation(user="u", item="u", value="n")
            engine.histogram(question)
            connection.execute("ALTER TABLE t ALTER n TYPE text")
            with pytest.raises(UnsuitableTable, match="redefined"):
                engine.histogram(question)
            connection.execute("ALTER TABLE t ALTER n TYPE bigint USING n::bigint")
            engine.histogram(question)
            connection.execute("ALTER TABLE t RENAME TO base")
            connection.execute("CREATE VIEW t AS SELECT u, 6 / n AS n FROM base")
            with pytest.raises(UnsuitableTable, match="computes"):
                engine.check(question)

"""The engines and lake tables behind one door: a table in memory becomes an engine that reads it where it lives."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.bounding import secret_salt
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.tables import ArrowTable, JoinedTable
from setwise.analytics.engines.joins import Join, NamedTable, ServerJoin
from setwise.analytics.engines.postgresql.engine import PostgresqlEngine
from tests.servers.clickhouse import ClickHouseServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POSTGRESQL_TYPES = [
    (pa.types.is_string, "text"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_float64, "float8"),
    (pa.types.is_float32, "float4"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (pa.types.is_binary, "bytea"),
]

Salts = Callable[[], int] | None


@dataclass(frozen=True)
class JoinedTables:
    """Tables by name, the first of them and those in `private` about users, and how they are joined."""

    tables: Mapping[str, pa.Table]
    joins: Sequence[Join]
    user: str
    private: Collection[str] = ()

    def named(self, opened: Callable[[pa.Table], Any]) -> list[NamedTable[Any]]:
        first = next(iter(self.tables))
        return [
            NamedTable(name=name, table=opened(table), private=name == first or name in self.private)
            for name, table in self.tables.items()
        ]


class Backend(Protocol):
    """Puts a table where an engine finds it."""

    name: str

    def engine(self, table: pa.Table, salts: Salts = None) -> Engine: ...

    def joined(self, tables: "JoinedTables", salts: Salts = None) -> Engine: ...

    def stored(self, table: pa.Table) -> Engine: ...

    def reopened(self, name: str) -> Engine: ...

    def destination(self) -> str: ...

    def grow(self, engine: Engine) -> None: ...


class DuckDBBackend:
    name = "duckdb"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)

    def stored(self, table: pa.Table) -> Engine:
        """Return an engine on a file, which unlike a table in memory can be prepared."""
        file = self._folder / f"{next(self._numbers)}.parquet"
        pq.write_table(table, file)
        return self.reopened(str(file))

    def reopened(self, name: str) -> Engine:
        return open_engine(name)

    def destination(self) -> str:
        return str(self._folder / "prepared")

    def grow(self, engine: Engine) -> None:
        """Add rows to what `stored` put there."""
        origin = Path(engine.origin()[0])
        table = pq.read_table(origin)
        pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), origin)

    def engine(self, table: pa.Table, salts: Salts = None) -> Engine:
        return DuckDBEngine(ArrowTable(table), **({} if salts is None else {"salts": salts}))

    def joined(self, tables: JoinedTables, salts: Salts = None) -> Engine:
        joined = JoinedTable(tables.named(ArrowTable), tables.joins, tables.user)
        return DuckDBEngine(joined, **({} if salts is None else {"salts": salts}))


class LakeBackend(DuckDBBackend):
    """Delta and Iceberg tables, read by DuckDB."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder)
        self.name = name

    def engine(self, table: pa.Table, salts: Salts = None) -> Engine:
        return DuckDBEngine(self.store(table), **({} if salts is None else {"salts": salts}))

    def joined(self, tables: JoinedTables, salts: Salts = None) -> Engine:
        joined = JoinedTable(tables.named(self.store), tables.joins, tables.user)
        return DuckDBEngine(joined, **({} if salts is None else {"salts": salts}))

    def store(self, table: pa.Table) -> Any:
        from setwise.analytics.engines.duckdb.opening import duckdb_table

        path = self._folder / f"lake_{next(self._numbers)}"
        if self.name == "delta":
            import deltalake

            deltalake.write_deltalake(str(path), table)
        else:
            from pyiceberg.catalog.sql import SqlCatalog

            path.mkdir()
            catalog = SqlCatalog("here", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")
            catalog.create_namespace("lake")
            catalog.create_table("lake.t", schema=table.schema, location=f"file://{path}/t").append(table)
            path = path / "t"
        return duckdb_table(str(path), None, {})


class PostgresqlBackend:
    name = "postgresql"

    def __init__(self, url: str) -> None:
        self.url = url
        self._numbers = itertools.count(1)

    def engine(self, table: pa.Table, salts: Salts = None) -> Engine:
        return PostgresqlEngine(self.url, self.store(table), salts=salts)

    def joined(self, tables: JoinedTables, salts: Salts = None) -> Engine:
        join = ServerJoin(tables=tables.named(self.store), joins=tables.joins, user=tables.user)
        return PostgresqlEngine(self.url, join, salts=salts)

    def stored(self, table: pa.Table) -> Engine:
        return self.reopened(self.store(table))

    def reopened(self, name: str) -> Engine:
        return open_engine(name, self.url)

    def destination(self) -> str:
        return "prepared %s table"

    def grow(self, engine: Engine) -> None:
        import psycopg

        with psycopg.connect(self.url) as connection:
            name = engine.origin()[0]
            connection.execute(f'INSERT INTO "{name}" SELECT * FROM "{name}" LIMIT 1')
            connection.execute("SELECT pg_stat_force_next_flush()")

    def store(self, table: pa.Table) -> str:
        import psycopg

        name = f"Table {next(self._numbers)}"
        columns = ", ".join(
            f'"{field.name.replace(chr(34), chr(34) * 2)}" {_written(field.type)}' for field in table.schema
        )
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
            with connection.cursor().copy(f'COPY "{name}" FROM STDIN') as copy:
                for row in table.to_pylist():
                    copy.write_row(list(row.values()))
            connection.execute(f'ANALYZE "{name}"')
        return name


class SparkBackend:
    name = "spark"

    def __init__(self, session: "SparkSession", folder: Path) -> None:
        self.session = session
        self._folder = folder
        self._numbers = itertools.count(1)

    def engine(self, table: pa.Table, salts: Salts = None) -> Engine:
        from setwise.analytics.engines.spark.engine import SparkEngine
        from setwise.analytics.engines.spark.tables import SparkTable

        file = self._folder / f"{next(self._numbers)}.parquet"
        pq.write_table(table, file)
        frame = self.session.read.parquet(str(file))
        return SparkEngine(SparkTable(frame=frame), salts=secret_salt if salts is None else salts)

    def joined(self, tables: JoinedTables, salts: Salts = None) -> Engine:
        from setwise.analytics.engines.spark.engine import SparkEngine
        from setwise.analytics.engines.spark.tables import SparkSource, joined_tables

        def opened(table: pa.Table) -> Any:
            file = self._folder / f"{next(self._numbers)}.parquet"
            pq.write_table(table, file)
            return SparkSource(source=str(file)).open_table(self.session)

        joined = joined_tables(self.session, tables.named(opened), tables.joins, tables.user)
        return SparkEngine(joined, salts=secret_salt if salts is None else salts)

    def stored(self, table: pa.Table) -> Engine:
        file = self._folder / f"{next(self._numbers)}.parquet"
        pq.write_table(table, file)
        return self.reopened(str(file))

    def reopened(self, name: str) -> Engine:
        return open_engine(name, "spark")

    def destination(self) -> str:
        return f"prepared_{self._folder.name}".replace("-", "_")

    def grow(self, engine: Engine) -> None:
        DuckDBBackend(self._folder).grow(engine)


class ClickHouseBackend:
    name = "clickhouse"

    def __init__(self, server: ClickHouseServer) -> None:
        self._server = server
        self.url = server.database()
        self._numbers = itertools.count(1)

    def engine(self, table: pa.Table, salts: Salts = None) -> Engine:
        from setwise.analytics.engines.clickhouse.engine import ClickHouseEngine

        return ClickHouseEngine(self.url, self.store(table), salts=salts)

    def joined(self, tables: JoinedTables, salts: Salts = None) -> Engine:
        from setwise.analytics.engines.clickhouse.engine import ClickHouseEngine

        join = ServerJoin(tables=tables.named(self.store), joins=tables.joins, user=tables.user)
        return ClickHouseEngine(self.url, join, salts=salts)

    def stored(self, table: pa.Table) -> Engine:
        return self.reopened(self.store(table))

    def reopened(self, name: str) -> Engine:
        return open_engine(name, self.url)

    def destination(self) -> str:
        return "prepared `%s` table"

    def grow(self, engine: Engine) -> None:
        name = engine.origin()[0]
        self._server.run(f"INSERT INTO `{name}` SELECT * FROM `{name}` LIMIT 1", self.url)

    def store(self, table: pa.Table) -> str:
        name = f"Table {next(self._numbers)}"
        self._server.store(table, name, self.url)
        return name


def _written(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return next(name for test, name in _POSTGRESQL_TYPES if test(kind))

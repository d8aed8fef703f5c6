"""The three engines behind one door: a table in memory becomes an engine that reads it where it really lives."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from setwise.analytics.engine import Engine
from setwise.analytics.engines.duckdb import DuckDBEngine
from setwise.analytics.engines.duckdb_table import ArrowTable
from setwise.analytics.engines.postgresql import PostgresqlEngine

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


class Backend(Protocol):
    """Puts a table where an engine finds it."""

    name: str

    def engine(self, table: pa.Table, salts: Salts = None) -> Engine: ...


class DuckDBBackend:
    name = "duckdb"

    def engine(self, table: pa.Table, salts: Salts = None) -> Engine:
        return DuckDBEngine(ArrowTable(table), **({} if salts is None else {"salts": salts}))


class PostgresqlBackend:
    name = "postgresql"

    def __init__(self, url: str) -> None:
        self.url = url
        self._numbers = itertools.count(1)

    def engine(self, table: pa.Table, salts: Salts = None) -> Engine:
        return PostgresqlEngine(self.url, self.store(table), salts=salts)

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
        return name


class SparkBackend:
    name = "spark"

    def __init__(self, session: "SparkSession") -> None:
        self.session = session

    def engine(self, table: pa.Table, salts: Salts = None) -> Engine:
        from setwise.analytics.engines.spark import SparkEngine

        return SparkEngine(self.session.createDataFrame(table), **({} if salts is None else {"salts": salts}))


def _written(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return next(name for test, name in _POSTGRESQL_TYPES if test(kind))

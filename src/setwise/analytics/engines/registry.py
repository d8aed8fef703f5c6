"""The registry of engines, and the request that says which tables an engine is to open.

To add an engine, add an `EngineType` to `ENGINES` and write the function `open_tables(request)` in its module.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from setwise.accounting.brackets import Progress
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.joins import Join, NamedTable, ServerJoin
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, MissingExtra

Opened = TypeVar("Opened")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """One table to open, and how it is read.

    - `source` is a path, the name of a table or a table in memory.
    - `table` names a table inside a database file. None for other sources.
    - `types` maps text columns to the types as which they are read.
    - `csv` says how CSV files are written.
    """

    source: object
    table: str | None = None
    types: Mapping[str, Kind] = field(default_factory=dict)
    csv: CsvOptions = field(default_factory=CsvOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """The tables that an engine is to open as one: `tables`, the private table first, joined by `joins`.

    - `address` is the engine's address, such as "duckdb" or "postgresql://host/shop".
    - `user` is the user column.
    - `derivation` has the steps (computing columns, filtering rows, grouping each user's rows) that are applied to the
      joined rows.
    - `memory` is DuckDB's memory limit, as in "4GiB". None means DuckDB's default.
    - `progress` is called with the fraction of work done, from 0 to 1, while a query runs.
    """

    address: str
    tables: Sequence[NamedTable[TableSource]]
    joins: Sequence[Join]
    user: str
    derivation: Derivation
    memory: str | None
    progress: Progress

    def convert_tables(self, convert: Callable[[TableSource], Opened]) -> list[NamedTable[Opened]]:
        """Return the tables of the request in order, each with the result of `convert` in place of its `TableSource`.

        An engine passes a function `convert` that turns a `TableSource` (a source and how it is read) into what the
        engine joins, such as an opened table or the table's name on a server.
        """
        return [NamedTable(name=each.name, table=convert(each.table), private=each.private) for each in self.tables]

    def server_source(self) -> str | ServerJoin:
        """Return what a database server is to read: the name of the only table, or a join of several tables.

        Raises: `InvalidParameter` for a table in memory, which a server cannot read, and for column types, which can be
        given for files only.
        """
        names = self.convert_tables(_server_name)
        return ServerJoin(tables=names, joins=self.joins, user=self.user) if self.joins else names[0].table


def _server_name(table: TableSource) -> str:
    """Return the name on the server of the table that `table` describes.

    Raises: `InvalidParameter` if column types are given, because a server's columns have their own types, or if the
    source is a table in memory, which a server cannot read.
    """
    if table.types:
        raise InvalidParameter("types are for columns of text in files: a table of a server has types of its own")
    if not isinstance(table.source, str | Path):
        raise InvalidParameter(f"a server reads tables of its own, by name, not {type(table.source).__name__}")
    return table.table or str(table.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineType:
    """One type of engine, such as DuckDB or PostgreSQL; `name` is its name in lower case.

    - An address selects the type if it is among `addresses` or begins with one of `prefixes`.
    - `module` names the Python module whose function `open_tables` opens tables.
    - `requires` says in error messages which driver that module needs.
    - `extra` is the optional extra of this package that installs the driver. None if the package itself does.
    - `reads_files` is False for a server, which reads only its own tables.
    """

    name: str
    addresses: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    module: str
    requires: str
    extra: str | None
    reads_files: bool

    def open_tables(self, request: OpenRequest) -> Engine:
        """Return an engine of this type that reads the tables of `request`.

        Raises: `MissingExtra` if the driver is not installed, and the errors of `open_tables` in the engine's own
        module.
        """
        try:
            opener: Callable[[OpenRequest], Engine] = importlib.import_module(self.module).open_tables
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("setwise"):
                raise
            install = "setwise" if self.extra is None else f"setwise[{self.extra}]"
            raise MissingExtra(f"{self.requires}: pip install '{install}'") from None
        return opener(request)


DUCKDB = EngineType(
    name="duckdb",
    addresses=("duckdb",),
    module="setwise.analytics.engines.duckdb.opening",
    requires="DuckDB needs duckdb and pyarrow",
    extra=None,
    reads_files=True,
)
SPARK = EngineType(
    name="spark",
    addresses=("spark",),
    prefixes=("spark://", "local", "yarn", "k8s://"),
    module="setwise.analytics.engines.spark.engine",
    requires="Spark needs PySpark and Java 17",
    extra="spark",
    reads_files=True,
)
POSTGRESQL = EngineType(
    name="postgresql",
    prefixes=("postgresql://", "postgres://"),
    module="setwise.analytics.engines.postgresql.engine",
    requires="PostgreSQL needs psycopg",
    extra="postgres",
    reads_files=False,
)
CLICKHOUSE = EngineType(
    name="clickhouse",
    prefixes=("clickhouse://", "chdb://"),
    module="setwise.analytics.engines.clickhouse.engine",
    requires="ClickHouse needs clickhouse-connect",
    extra="clickhouse",
    reads_files=False,
)
ENGINES = (DUCKDB, SPARK, POSTGRESQL, CLICKHOUSE)
"""All types of engines."""


def engine_type(address: str) -> EngineType | None:
    """Return the type of the engine at `address`, or None if the address belongs to no engine.

    >>> engine_type("chdb:///data").name, engine_type("local[4]").name, engine_type("mysql://host")
    ('clickhouse', 'spark', None)
    """
    return next((kind for kind in ENGINES if address in kind.addresses or address.startswith(kind.prefixes)), None)


def reads_only_its_tables(address: str) -> bool:
    """Return whether `address` belongs to an engine that reads only its own tables and never files.

    True for PostgreSQL and ClickHouse (also for chDB, which runs in this process). False for the other engines, and for
    an address that belongs to no engine.
    """
    kind = engine_type(address)
    return kind is not None and not kind.reads_files

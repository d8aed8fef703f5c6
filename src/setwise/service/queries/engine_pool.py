"""Engines for registered tables: opened where the replica may read, lent to one query at a time."""

import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import assert_never
from urllib.parse import urlsplit

from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import NOT_JOINED, Beside, Joined, open_engine
from setwise.analytics.engines.files import files_of
from setwise.analytics.engines.joins import Join
from setwise.analytics.engines.sources import Source, file_source
from setwise.analytics.rows.derivation import NOT_DERIVED, Derivation
from setwise.analytics.schema import Kind, Schema
from setwise.errors import BadRequest, BudgetExhausted, EngineFailed, InvalidParameter, UnsuitableTable
from setwise.service.problems import at_field
from setwise.service.settings import EngineKind, Settings
from setwise.service.storage.datasets import Dataset

_CATALOGUE_TABLE = re.compile(r"[A-Za-z_]\w*(\.(?!(parquet|pq|csv|tsv)$)[A-Za-z_]\w*){0,2}", re.ASCII | re.IGNORECASE)
_SHARED_STORAGE = ("hdfs://", "viewfs://", "s3a://", "gs://", "abfs://", "abfss://", "wasbs://", "dbfs:/")
"""Where a cluster keeps its tables. The machine's own files, and addresses of web servers, are not among them."""

_MOST_SCHEMAS = 1000
"""How many tables and joins the columns are remembered of."""

_EXPANDED = set("{}")
"""Spark makes several paths of these, which nobody has looked at."""


class Engines:
    """The engines of one replica. A query has its engine to itself, so that cancelling one stops no other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._idle: defaultdict[str, list[Engine]] = defaultdict(list)
        self._schemas: dict[tuple[str, tuple[Join, ...], Derivation], Schema] = {}
        self._public: dict[str, dict[str, Schema]] = {}
        self._lock = threading.Lock()
        self._checking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def check(self, dataset: Dataset) -> Schema:
        """Return the schema of a table that is to be registered, or raise what is wrong with the registration."""
        with at_field("table"):
            try:
                engine = self._opened(dataset)
            except UnsuitableTable as error:
                raise self._without_folder(error) from None
        with engine:
            schema = engine.describe()
        for name in ("user", "items", "values", "filters"):
            columns = (dataset.user,) if name == "user" else getattr(dataset, name)
            with at_field(name):
                for column in columns:
                    schema.column(column)
        with at_field("public"):
            for name, public in self._public_schemas(dataset).items():
                if dataset.user.lower() in map(str.lower, public.names):
                    raise InvalidParameter(f"the table {name!r} has the user column {dataset.user!r}: it is not public")
        return schema

    def schema(self, dataset: Dataset, joins: tuple[Join, ...] = (), derivation: Derivation = NOT_DERIVED) -> Schema:
        """Return the columns of a registered table with those joined to it and derived of it, from metadata alone."""
        place = (dataset.name, joins, derivation)
        if place not in self._schemas:
            with self.borrow(dataset, joins, derivation) as engine:
                found = engine.describe()
            if len(self._schemas) >= _MOST_SCHEMAS:
                self._schemas.clear()
            self._schemas[place] = found
        return self._schemas[place]

    def version(self, dataset: Dataset) -> str:
        """Return a text that changes when a file of a table changes: its size and the time it was written.

        It is empty for tables of a server, which tell nothing of the kind.
        """
        located = self._located(dataset.table, dataset.engine)
        if not Path(located.partition("::")[0]).is_absolute():
            return ""
        try:
            states = [(str(path), path.stat()) for path in files_of(located.partition("::")[0])]
        except OSError:
            raise EngineFailed(f"the table of the data set {dataset.name!r} cannot be opened; tell a steward") from None
        return " ".join(f"{path}:{state.st_size}:{state.st_mtime_ns}" for path, state in sorted(states))

    def public_schemas(self, dataset: Dataset) -> dict[str, Schema]:
        """Return the columns of the public tables that may be joined to a data set, by name."""
        if dataset.name not in self._public:
            try:
                self._public[dataset.name] = self._public_schemas(dataset)
            except BadRequest:
                raise EngineFailed(
                    f"a public table of the data set {dataset.name!r} cannot be opened; tell a steward"
                ) from None
        return self._public[dataset.name]

    def _public_schemas(self, dataset: Dataset) -> dict[str, Schema]:
        found = {}
        address = self._address(dataset.engine)
        for name, table in dataset.public:
            source = self._located(table, dataset.engine)
            with open_engine(source, address, types=_types_of(dataset, f"{name}.")) as engine:
                found[name] = engine.describe()
        return found

    @contextmanager
    def borrow(
        self, dataset: Dataset, joins: tuple[Join, ...] = (), derivation: Derivation = NOT_DERIVED
    ) -> Iterator[Engine]:
        """Lend an engine on the table, with others joined to it and columns derived of it.

        An engine that failed, joins or derives is not used again.
        """
        own = bool(joins or derivation)
        with self._lock:
            idle = [] if own else self._idle[dataset.name]
            engine = idle.pop() if idle else None
        if engine is None:
            engine = self._joined(dataset, joins, derivation) if own else self._reopened(dataset)
        keep = False
        try:
            yield engine
            keep = True
        except UnsuitableTable as error:
            raise self._without_folder(error) from None
        except (BadRequest, BudgetExhausted):  # the request was at fault, not the engine
            keep = True
            raise
        finally:
            with self._lock:
                keep = keep and not own and len(idle) <= self._settings.workers
                if keep:
                    idle.append(engine)
            if not keep:
                engine.close()

    @contextmanager
    def borrow_to_check(
        self, dataset: Dataset, joins: tuple[Join, ...] = (), derivation: Derivation = NOT_DERIVED
    ) -> Iterator[Engine]:
        """Lend an engine that reads metadata: one of each table at a time, beside those that have their turns.

        More would be opened and closed again with every question, at several times the price of a small answer.
        """
        with self._lock:
            checking = self._checking[dataset.name]
        with checking, self.borrow(dataset, joins, derivation) as engine:
            yield engine

    def close(self) -> None:
        """Close every idle engine."""
        with self._lock:
            idle = [engine for engines in self._idle.values() for engine in engines]
            self._idle.clear()
        for engine in idle:
            engine.close()

    def _reopened(self, dataset: Dataset) -> Engine:
        """Open a registered table; what is wrong with it by now is the stewards' business, not the analyst's."""
        try:
            return self._opened(dataset)
        except BadRequest:
            raise EngineFailed(f"the table of the data set {dataset.name!r} cannot be opened; tell a steward") from None

    def _joined(self, dataset: Dataset, joins: tuple[Join, ...], derivation: Derivation) -> Engine:
        """Open a registered table with public ones joined to it; what is wrong with the join is the analyst's.

        What is wrong with one of the tables is the stewards'.
        """
        beside = Beside(public={name: self._located(table, dataset.engine) for name, table in dataset.public})
        try:
            joined = Joined(joins=joins, name=dataset.name, user=dataset.user, beside=beside, derivation=derivation)
            return self._opened(dataset, joined)
        except UnsuitableTable:
            raise EngineFailed(
                f"the tables of the data set {dataset.name!r} cannot be opened to be joined; tell a steward"
            ) from None

    def _opened(self, dataset: Dataset, joined: Joined = NOT_JOINED) -> Engine:
        address = self._address(dataset.engine)
        source = self._located(dataset.table, dataset.engine)
        types = {name: Kind(kind) for name, kind in dataset.types} if joined.joins else _types_of(dataset)
        return open_engine(source, address, types=types, csv=dataset.csv, memory=self._settings.memory, joined=joined)

    def address(self, kind: EngineKind) -> str:
        """Return where the engine of this kind is, with its password, for what keeps state beside the data."""
        return self._address(kind)

    def _address(self, kind: EngineKind) -> str:
        """Return where the engine of this kind is, as the replica was started with it."""
        found = [each for each in self._settings.engine if EngineKind.of(each) is kind]
        if not found:
            raise InvalidParameter(f"the service was started without {kind}; start it with --engine for {kind}")
        return found[0]

    def source(self, dataset: Dataset) -> Source:
        """Return what identifies the data of a table, whatever its data set is called: without passwords.

        Files are identified by what their path leads to, tables of a server by the name in full and, on PostgreSQL,
        by the tables under a view.
        """
        located = self._located(dataset.table, dataset.engine)
        if Path(located).is_absolute():
            return file_source(located)
        address = self._address(dataset.engine)
        server = urlsplit(address)
        where = f"{server.hostname}:{server.port or ''}{server.path}" if server.hostname else address
        names = {located, *_full_names(located, dataset.engine, server.path.strip("/"))}
        if dataset.engine is EngineKind.POSTGRESQL:
            with self._opened(dataset) as engine:  # not one that is kept by its name, which is not registered yet
                names |= set(engine.relations())
        folders = [str(parent) for parent in PurePosixPath(located).parents if "/" in located]
        return Source(
            reads=tuple(f"{dataset.engine} {where} {name}" for name in sorted(names)),
            within=tuple(f"{dataset.engine} {where} {folder}" for folder in folders),
        )

    def _without_folder(self, error: UnsuitableTable) -> UnsuitableTable:
        """Show paths as they were given, from the data folder on."""
        return UnsuitableTable(str(error).replace(f"{self._settings.data_dir.resolve()}/", ""))

    def _located(self, table: str, kind: EngineKind) -> str:
        """Return what the engine is to open: a path below the data folder, or the name of a table it knows."""
        match kind:
            case EngineKind.POSTGRESQL | EngineKind.CLICKHOUSE:
                return table
            case EngineKind.SPARK if _CATALOGUE_TABLE.fullmatch(table) or table.startswith(_SHARED_STORAGE):
                return table
            case EngineKind.SPARK | EngineKind.DUCKDB:
                return self._inside(table)
            case _:
                assert_never(kind)

    def _inside(self, table: str) -> str:
        """Return the path of a table below the data folder, or raise `UnsuitableTable`.

        Every file that the path leads to is looked at, whatever links, globs and folders it goes through.
        """
        folder = self._settings.data_dir.resolve()
        path, _, _ = table.partition("::")
        inside = not (Path(path).is_absolute() or ".." in path or ":" in path or set(path) & _EXPANDED)
        try:
            inside = inside and all(file.resolve().is_relative_to(folder) for file in files_of(str(folder / path)))
        except (OSError, ValueError, NotImplementedError):  # not a path at all, or too long for one
            inside = False
        if not inside:
            raise UnsuitableTable("a table must lie in the data folder of the service; give its path from there")
        return str(folder / table)


def _full_names(table: str, kind: EngineKind, database: str) -> set[str]:
    """Return a table's name with the database that a name without one is looked up in, as the engine compares names."""
    match kind:
        case EngineKind.CLICKHOUSE:
            return {table if "." in table else f"{database or 'default'}.{table}"}
        case EngineKind.SPARK if "/" not in table:
            name = table.lower().removeprefix("spark_catalog.")
            return {name if "." in name else f"default.{name}"}
        case EngineKind.SPARK:
            return {table.rstrip("/")}
        case _:
            return set()


def _types_of(dataset: Dataset, prefix: str = "") -> dict[str, Kind]:
    """Return the types of a table's own columns, or those of a public table's, whose names begin with a prefix."""
    public = tuple(f"{name}." for name, _ in dataset.public)
    return {
        name.removeprefix(prefix): Kind(kind)
        for name, kind in dataset.types
        if (name.startswith(prefix) if prefix else not (public and name.startswith(public)))
    }

"""The pool of engines (connections that read tables): which tables may be opened, idle engines, and pinned versions."""

import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol, assert_never, runtime_checkable
from urllib.parse import urlsplit

from setwise.accounting.promises import USER
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import NOT_JOINED, JoinableTables, Joined, open_engine, pin_version
from setwise.analytics.engines.duckdb.sources import MOST_FILES, DataIdentity, file_source
from setwise.analytics.engines.files import lake_folder, local_files
from setwise.analytics.engines.joins import Join
from setwise.analytics.engines.object_store import SCHEME, is_stored, split_address, split_version
from setwise.analytics.rows.derivation import NOT_DERIVED, Derivation
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.units import unit_derivation
from setwise.errors import BadRequest, BudgetExhausted, EngineFailed, InvalidParameter, UnsuitableTable
from setwise.service.problems import at_field
from setwise.service.settings import EngineKind, Settings
from setwise.service.storage.datasets import Dataset

if TYPE_CHECKING:
    import pyarrow as pa

_CATALOGUE_TABLE = re.compile(r"[A-Za-z_]\w*(\.(?!(parquet|pq|csv|tsv)$)[A-Za-z_]\w*){0,2}", re.ASCII | re.IGNORECASE)
"""Pattern of a table in Spark's catalogue: one to three words with dots between them, the last not a file ending."""

_SHARED_STORAGE = ("hdfs://", "viewfs://", "s3a://", "gs://", "abfs://", "abfss://", "wasbs://", "dbfs:/")
"""Prefixes of the addresses of a cluster's storage. Local files and web servers are not among them."""

_MOST_SCHEMAS = 1000
"""The most tables, with and without joins, whose columns are cached."""

_MOST_PUBLIC_ROWS = 100_000
"""The most rows of a public table that is joined to released rows, because a worker process is sent the whole table."""

_RECENT_SECONDS = 2.0
"""Seconds after its last change in which a file may be written again without a new time, on a coarse file system."""

_CHECKED_SECONDS = 1.0
"""Seconds for which the path of a table counts as checked after it was found inside the data folder."""

_EXPANDED = set("{}")
"""Characters that Spark expands to several paths, which the check of the data folder would not see."""


@runtime_checkable
class WholeTableEngine(Protocol):
    """Protocol of an engine (a connection that reads a table) that can return all rows of its table.

    Only public tables, which are tables without users, are read in this way.
    """

    def read_table(self, most: int) -> "pa.Table":
        """Return all rows of the table as an Arrow table; raise `UnsuitableTable` if there are more than `most`."""
        ...


class Engines:
    """The pool of engines (connections that read tables) of one replica, which is one process of the service.

    Each running query has an engine of its own, so that cancelling one query stops no other.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._idle: defaultdict[tuple[str, str], list[Engine]] = defaultdict(list)
        """Idle engines by the name of the dataset and the table with its version."""
        self._newest: dict[str, str] = {}
        """The table of each dataset with the newest version that was read; engines on other versions are not kept."""
        self._schemas: dict[tuple[Dataset, tuple[Join, ...], Derivation], Schema] = {}
        self._units: dict[Dataset, Derivation] = {}
        self._public: dict[Dataset, dict[str, Schema]] = {}
        self._checked: dict[str, tuple[float, str]] = {}
        """For each table, until when (by the monotonic clock) its path counts as checked, and the path."""
        self._lock = threading.Lock()
        self._checking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def describe_candidate(self, dataset: Dataset) -> Schema:
        """Return the columns of the table of `dataset`, which a steward is about to register. Only metadata is read.

        Only three things are taken from `dataset`: the kind of engine (such as DuckDB), the table, and how the file of
        the table is read. So the user column and the other columns need not be chosen yet. Raises `UnsuitableTable` or
        `InvalidParameter`, naming the field `table`, if the table cannot be opened.
        """
        with at_field("table"):
            try:
                engine = self._open(dataset)
            except UnsuitableTable as error:
                raise self._with_relative_paths(error) from None
        with engine:
            return engine.describe()

    def check(self, dataset: Dataset) -> Schema:
        """Check the definition `dataset` against its tables, and return the columns of its main table.

        All registered columns must exist. The table must have the columns from which the unit of privacy (a user, or a
        part of a user such as a day) is computed. No public table may have the user column, because a table with rows
        of users is private. Raises `UnsuitableTable`, `UnknownColumn` or `InvalidParameter` with the name of the field
        at fault.
        """
        schema = self.describe_candidate(dataset)
        if dataset.unit != USER:
            with at_field("unit"):
                if schema.prepared:
                    raise InvalidParameter("what was prepared is bounded by users: register its source for this unit")
                unit_derivation(dataset.user, dataset.unit, schema)
                if dataset.protected in schema.names:
                    raise InvalidParameter(f"the table has a column {dataset.protected!r}, the name of these units")
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

    def pin(self, dataset: Dataset, versions: Mapping[str, str] | None = None) -> Dataset:
        """Return `dataset` with the version to read added to the path or URL of each table, as in `events@7`.

        A dataset whose versions are fixed is called pinned: all steps of one question then read the same rows.
        `versions` maps names of tables to the versions to read; None takes the current versions. A path or URL stays as
        it is if the table has no versions, if `versions` does not name the table, or if the table was registered
        together with a version. Tables on servers are never pinned. Raises `EngineFailed` if a current version cannot
        be found out.
        """
        if dataset.engine is not EngineKind.DUCKDB or dataset.is_pinned:
            return dataset
        try:
            table = self._pin_table(dataset.name, dataset.table, versions)
            public = tuple((name, self._pin_table(name, other, versions)) for name, other in dataset.public)
        except (BadRequest, EngineFailed, OSError):
            raise _cannot_open(dataset) from None
        if versions is None and (table, public) != (dataset.table, dataset.public):
            self._close_earlier_versions(dataset.name, table)
        return replace(dataset, table=table, public=public, is_pinned=True)

    def _pin_table(self, name: str, table: str, versions: Mapping[str, str] | None) -> str:
        """Return the path or URL `table` with the version to read at its end, as in `events@7`.

        `versions` maps names of tables to versions, and `name` is the name of this table in `versions`. If `versions`
        is None, the current version is taken. A table without versions, or whose name is not in `versions`, is returned
        unchanged.
        """
        located = self._locate_cached(table)
        if versions is not None:
            return f"{table.rstrip('/')}@{versions[name]}" if name in versions else table
        if os.path.isfile(located):  # the usual case, which has no versions
            return table
        pinned = str(pin_version(located, "duckdb"))
        return table if pinned == located else f"{table.rstrip('/')}@{pinned.rpartition('@')[2]}"

    def _close_earlier_versions(self, name: str, table: str) -> None:
        """Close the idle engines (connections) on earlier versions of the dataset `name`: no new question reads these.

        `table` is the dataset's path or URL with the newest version at its end, as in `events@7`. An engine on an
        earlier version that a query still uses is not idle. It is closed when that query ends, because this method
        records `table`, and engines on any other version are not kept for later questions.
        """
        with self._lock:
            if self._newest.get(name) == table:
                return
            self._newest[name] = table
            places = [place for place in self._idle if place[0] == name and place[1] != table]
            engines = [engine for place in places for engine in self._idle.pop(place)]
        for engine in engines:
            engine.close()

    def schema(self, dataset: Dataset, joins: tuple[Join, ...] = (), derivation: Derivation = NOT_DERIVED) -> Schema:
        """Return the columns of a dataset's table, or of the table that SQL derives from the dataset's table.

        SQL joins the public tables `joins` (tables without users) and computes each user's rows by the steps of
        `derivation`. Only metadata is read. Raises `EngineFailed` if a table cannot be opened.
        """
        dataset = self.pin(dataset)
        place = (dataset, joins, derivation)
        if place not in self._schemas:
            with self.borrow(dataset, joins, derivation) as engine:
                schema = engine.describe()
            if len(self._schemas) >= _MOST_SCHEMAS:
                self._schemas.clear()
            self._schemas[place] = schema
        return self._schemas[place]

    def version(self, dataset: Dataset) -> str:
        """Return a text that changes when the dataset's table changes; "" if the service cannot see changes.

        A repeated SQL statement over PostgreSQL's protocol gets its stored answer only while this text stays the same.
        The text has the versions of lake tables (Delta, Iceberg), or the inodes and modification times of files; an
        analyst may see a digest of the text. It is "" for a table on a server.
        """
        pinned = self.pin(dataset)
        if pinned != dataset:
            return f"{pinned.table} {pinned.public}"
        located = self._locate(dataset.table, dataset.engine)
        path = located.partition("::")[0]
        if not Path(path).is_absolute():
            return ""
        try:
            states = [(str(file), file.stat()) for file in local_files(path)]
        except (OSError, UnsuitableTable):
            raise _cannot_open(dataset) from None
        return " ".join(f"{file}:{state.st_ino}:{state.st_mtime_ns}:{state.st_ctime_ns}" for file, state in states)

    def content_version(self, dataset: Dataset) -> str | None:
        """Return a text that differs whenever the rows of the dataset's table, or of its public tables, may differ.

        A cache of exact results is valid only as long as this text is unchanged. The result is None if rows could
        change while the text stays unchanged, as for tables on a server; then nothing is cached. The text has sizes of
        files, which are private, so no analyst may see it. Public tables are tables without users.
        """
        if dataset.engine is not EngineKind.DUCKDB:
            return None
        pinned = self.pin(dataset)
        states: list[str] = []
        try:
            for table in (pinned.table, *(table for _, table in pinned.public)):
                state = _content_state(self._locate_cached(table))
                if state is None:
                    return None
                states.append(state)
        except (OSError, UnsuitableTable):
            raise _cannot_open(dataset) from None
        return "\n".join(states)

    def public_schemas(self, dataset: Dataset) -> dict[str, Schema]:
        """Return the columns of each public table (table without users) that SQL may join to a dataset, by table name.

        Raises `EngineFailed` if one of the tables cannot be opened.
        """
        dataset = self.pin(dataset)
        if dataset not in self._public:
            try:
                schemas = self._public_schemas(dataset)
            except BadRequest:
                raise EngineFailed(
                    f"a public table of the dataset {dataset.name!r} cannot be opened; tell a steward"
                ) from None
            if len(self._public) >= _MOST_SCHEMAS:
                self._public.clear()
            self._public[dataset] = schemas
        return self._public[dataset]

    def _public_schemas(self, dataset: Dataset) -> dict[str, Schema]:
        """Open each public table (table without users) of `dataset`, and return its columns by the table's name.

        Only metadata is read.
        """
        schemas = {}
        address = self._address(dataset.engine)
        for name, table in dataset.public:
            source = self._locate(table, dataset.engine)
            with open_engine(source, address, types=_types_of(dataset, f"{name}.")) as engine:
                schemas[name] = engine.describe()
        return schemas

    def public_tables(self, dataset: Dataset, names: Collection[str]) -> tuple[tuple[str, bytes], ...]:
        """Return the public tables called `names` of `dataset`: pairs of the name and all rows, as Arrow stream bytes.

        Public tables are tables without users.

        Raises `InvalidParameter` if the dataset's kind of engine (such as Spark) cannot return a whole table,
        `UnsuitableTable` if a table has more than 100,000 rows (`_MOST_PUBLIC_ROWS`), and `EngineFailed` if a table
        cannot be opened.
        """
        if not names:
            return ()
        dataset = self.pin(dataset)
        located, address = dict(dataset.public), self._address(dataset.engine)
        tables = []
        for name in names:
            try:
                source = self._locate(located[name], dataset.engine)
                engine = open_engine(source, address, types=_types_of(dataset, f"{name}."))
            except BadRequest:
                raise _cannot_open(dataset) from None
            with engine:
                if not isinstance(engine, WholeTableEngine):
                    raise InvalidParameter(
                        f"{name!r} may be joined to {dataset.name!r} inside a SELECT that aggregates, not to its "
                        f"result: tables of {dataset.engine} are not read whole"
                    )
                tables.append((name, _arrow_stream(engine.read_table(_MOST_PUBLIC_ROWS))))
        return tuple(tables)

    @contextmanager
    def borrow(
        self, dataset: Dataset, joins: tuple[Join, ...] = (), derivation: Derivation = NOT_DERIVED
    ) -> Iterator[Engine]:
        """Context manager that yields an engine (a connection that reads a table), which nobody else uses meanwhile.

        The engine reads the dataset's table or, with `joins` or a `derivation`, a table that SQL derives from it. After
        the block, an engine on the dataset's own table may be kept for the next caller; any other engine is closed.

        - `joins`: the public tables (tables without users) that SQL joins to the dataset's table
        - `derivation`: the steps by which SQL computes each user's rows

        Raises `EngineFailed` if the table cannot be opened.
        """
        dataset = self.pin(dataset)
        place = (dataset.name, dataset.table)
        is_single_use = bool(joins or derivation)
        with self._lock:
            idle = [] if is_single_use else self._idle[place]
            engine = idle.pop() if idle else None
        if engine is None:
            engine = self._open_joined(dataset, joins, derivation) if is_single_use else self._reopen(dataset)
        keep = False
        try:
            yield engine
            keep = True
        except UnsuitableTable as error:
            raise self._with_relative_paths(error) from None
        except (BadRequest, BudgetExhausted):  # the request was at fault, not the engine
            keep = True
            raise
        finally:
            with self._lock:
                is_newest = self._newest.get(dataset.name, dataset.table) == dataset.table
                keep = keep and not is_single_use and is_newest and len(self._idle[place]) <= self._settings.workers
                if keep:
                    self._idle[place].append(engine)
            if not keep:
                engine.close()

    @contextmanager
    def borrow_to_check(
        self, dataset: Dataset, joins: tuple[Join, ...] = (), derivation: Derivation = NOT_DERIVED
    ) -> Iterator[Engine]:
        """Context manager that yields an engine (a connection that reads a table) to check the columns of a question.

        For each dataset, only one caller at a time has such an engine, and the others wait. Waiting is shorter than
        opening an engine for each of them.

        - `joins`: the public tables (tables without users) that SQL joins to the dataset's table
        - `derivation`: the steps by which SQL computes each user's rows
        """
        with self._lock:
            checking = self._checking[dataset.name]
        # Waiting is cheaper: under load every question would open and close an engine, which takes several times as
        # long as a small answer.
        with checking, self.borrow(dataset, joins, derivation) as engine:
            yield engine

    def close(self) -> None:
        """Close every engine (connection that reads a table) of the pool that no query is using."""
        with self._lock:
            idle = [engine for engines in self._idle.values() for engine in engines]
            self._idle.clear()
        for engine in idle:
            engine.close()

    def _reopen(self, dataset: Dataset) -> Engine:
        """Return a new engine (a connection that reads a table) on the table of a registered dataset.

        Raises `EngineFailed` if the table cannot be opened any more; its message leaves out the reason, which is not
        for analysts.
        """
        try:
            steps = self._unit_steps(dataset)
            return self._open(dataset, Joined(name=dataset.name, user=dataset.user, derivation=steps))
        except BadRequest:
            raise _cannot_open(dataset) from None

    def _unit_steps(self, dataset: Dataset) -> Derivation:
        """Return the steps (operations on rows) that add the column which identifies the dataset's units of privacy.

        A unit of privacy is what the dataset protects: a user, or a part of a user such as each of the user's days.
        There are no steps if the unit is the user, because the table has a user column already.
        """
        if dataset.unit == USER:
            return NOT_DERIVED
        if dataset not in self._units:
            with self._open(dataset) as engine:
                steps = unit_derivation(dataset.user, dataset.unit, engine.describe())
            if len(self._units) >= _MOST_SCHEMAS:
                self._units.clear()
            self._units[dataset] = steps
        return self._units[dataset]

    def _open_joined(self, dataset: Dataset, joins: tuple[Join, ...], derivation: Derivation) -> Engine:
        """Return a new engine (a connection) that reads the table which SQL derives from the table of `dataset`.

        - `joins`: the public tables (tables without users) that SQL joins to the dataset's table
        - `derivation`: the steps by which SQL computes each user's rows

        Raises `EngineFailed` if a table cannot be opened, and `UnknownColumn` or `InvalidParameter` for a wrong join.
        """
        joinable = JoinableTables(public={name: self._locate(table, dataset.engine) for name, table in dataset.public})
        try:
            steps = self._unit_steps(dataset).then(*derivation.steps)
            joined = Joined(joins=joins, name=dataset.name, user=dataset.user, joinable=joinable, derivation=steps)
            return self._open(dataset, joined)
        except UnsuitableTable:
            raise EngineFailed(
                f"the tables of the dataset {dataset.name!r} cannot be opened to be joined; tell a steward"
            ) from None

    def _open(self, dataset: Dataset, joined: Joined = NOT_JOINED) -> Engine:
        """Return a new engine (a connection) that reads the dataset's table, with the tables of `joined` joined to it.

        By default no table is joined. Raises `UnsuitableTable`, `UnknownColumn` or `InvalidParameter` if the table
        cannot be opened or joined.
        """
        address = self._address(dataset.engine)
        source = self._locate(dataset.table, dataset.engine)
        types = {name: Kind(kind) for name, kind in dataset.types} if joined.joins else _types_of(dataset)
        return open_engine(source, address, types=types, csv=dataset.csv, memory=self._settings.memory, joined=joined)

    def address(self, kind: EngineKind) -> str:
        """Return the URL, with its password, of the database of this `kind` (such as PostgreSQL) in the settings.

        Live series (noisy user counts that are charged once and released period by period) keep their private state
        there.

        Raises `InvalidParameter` if the service was started without such a database.
        """
        return self._address(kind)

    def _address(self, kind: EngineKind) -> str:
        """Return the URL or name of the engine of this `kind` (such as PostgreSQL or DuckDB) that the settings state.

        An engine is what reads tables: a database server, or a library in this process. Raises `InvalidParameter` if
        the service was started without such an engine.
        """
        addresses = [each for each in self._settings.engine if EngineKind.of(each) is kind]
        if not addresses:
            raise InvalidParameter(f"the service was started without {kind}; its operator can add it to SETWISE_ENGINE")
        return addresses[0]

    def source(self, dataset: Dataset) -> DataIdentity:
        """Return the identity of the rows of `dataset`, by which datasets on the same rows share a cap (joint budget).

        A file is identified by its path after links are followed, and a table on a server by its full name without
        passwords. A view is also identified by the tables below it, on a server and in a database file. A table of
        Spark's catalogue is also identified by its files.
        """
        located = self._locate(dataset.table, dataset.engine)
        is_file = Path(located).is_absolute() or is_stored(located)
        tables: tuple[str, ...] = ()
        if not is_file or "::" in located:
            with self._open(dataset) as engine:  # not one that is kept by its name, which is not registered yet
                tables = engine.relations()
        if is_file:
            return file_source(located, tables)
        address = self._address(dataset.engine)
        server = urlsplit(address)
        where = f"{server.hostname}:{server.port or ''}{server.path}" if server.hostname else address
        names, folders = {located, *tables}, set[str]()
        if dataset.engine is EngineKind.SPARK:
            if len(names) > MOST_FILES:
                names = {located, *(_folders_around(name)[0] for name in names if "/" in name)}
            names.add(located.rstrip("/"))
            folders = {folder for name in names for folder in _folders_around(name)}
        local = [_local_source(name) for name in names if name.startswith("file:/")]
        return DataIdentity(
            reads=(
                *(f"{dataset.engine} {where} {name}" for name in sorted(names)),
                *(text for file in local for text in file.reads),
            ),
            within=(
                *(f"{dataset.engine} {where} {folder}" for folder in sorted(folders)),
                *(text for file in local for text in file.within),
            ),
        )

    def _with_relative_paths(self, error: UnsuitableTable) -> UnsuitableTable:
        """Return a copy of `error` whose message shows paths as stewards write them: relative to the data folder.

        For example, "/var/setwise/data/events.csv" becomes "events.csv" if the data folder is /var/setwise/data.
        """
        return UnsuitableTable(str(error).replace(f"{self._settings.data_dir.resolve()}/", ""))

    def _locate(self, table: str, kind: EngineKind) -> str:
        """Return the path, URL or table name by which an engine of this `kind` (such as DuckDB) reads `table`.

        `table` is as it was registered. A path in the data folder is made absolute. Raises `UnsuitableTable` for a path
        outside the data folder, or a URL that the operator does not allow.
        """
        match kind:
            case EngineKind.POSTGRESQL | EngineKind.CLICKHOUSE:
                return table
            case EngineKind.SPARK if _CATALOGUE_TABLE.fullmatch(table) or table.startswith(_SHARED_STORAGE):
                return table
            case EngineKind.DUCKDB if is_stored(table):
                return self._check_store_prefix(table)
            case EngineKind.SPARK | EngineKind.DUCKDB:
                return self._path_in_data_folder(table)
            case _:
                assert_never(kind)

    def _locate_cached(self, table: str) -> str:
        """Return the path or URL from which DuckDB reads the registered `table`, checked at most a second ago.

        Several steps of one question need the path, and checking it (following its links) takes longer than any of
        these steps. The path is checked again when an engine is opened. Raises `UnsuitableTable` for a path outside the
        data folder, or a URL that the operator does not allow.
        """
        now = time.monotonic()
        checked = self._checked.get(table)
        if checked is not None and now < checked[0]:
            return checked[1]
        located = self._locate(table, EngineKind.DUCKDB)
        if len(self._checked) >= _MOST_SCHEMAS:
            self._checked.clear()
        self._checked[table] = (now + _CHECKED_SECONDS, located)
        return located

    def _check_store_prefix(self, table: str) -> str:
        """Return the object store URL `table`, or raise `UnsuitableTable` if the operator does not allow its prefix.

        The operator lists the prefixes under which stewards may register tables, because the service's credentials may
        be able to read other objects too.
        """
        bucket, key = split_address(split_version(table)[0])
        place = f"{SCHEME}{bucket}/{key}/"
        if not any(place.startswith(f"{allowed.rstrip('/')}/") for allowed in self._settings.store):
            raise UnsuitableTable(
                "a table in an object store must lie under a prefix that the operator of the service has set, as in "
                "SETWISE_STORE=s3://BUCKET/FOLDER"
            )
        return table

    def _path_in_data_folder(self, table: str) -> str:
        """Return the absolute path of `table` in the data folder, or raise `UnsuitableTable` if it leads elsewhere.

        Every file that the path stands for is checked, after links, globs and folders are followed.
        """
        folder = self._settings.data_dir.resolve()
        path, _, _ = table.partition("::")
        inside = not (Path(path).is_absolute() or ".." in path or ":" in path or set(path) & _EXPANDED)
        try:
            inside = inside and all(file.resolve().is_relative_to(folder) for file in local_files(str(folder / path)))
        except (OSError, ValueError, NotImplementedError):  # not a path at all, or too long for one
            inside = False
        if not inside:
            raise UnsuitableTable("a table must lie in the data folder of the service; give its path from there")
        return str(folder / table)


def _content_state(located: str) -> str | None:
    """Return a text that differs whenever the rows of the table at the path or URL `located` may differ.

    Returns None if rows could change while the text stays unchanged. This is so for a file that was written less than
    two seconds ago, because a second write may get the same modification time. Raises `UnsuitableTable` or `OSError` if
    there is no such table.
    """
    # A database's log is another file, so the database's own file may stay unchanged while its rows change.
    if "::" in located:
        return None
    if is_stored(located):
        return None if split_version(located)[1] is None else located
    lake = None if os.path.isfile(located) else lake_folder(located)
    if lake is not None:
        return None if lake.version is None else f"{located}:{lake.path.stat().st_ino}"
    files = (located,) if os.path.isfile(located) else local_files(located)
    states = [(file, os.stat(file)) for file in files]
    newest = max(max(state.st_mtime, state.st_ctime) for _, state in states)
    # Two writes within this time may have the same modification time.
    if not newest < time.time() - _RECENT_SECONDS:
        return None
    return "\n".join(
        f"{file}:{state.st_dev}:{state.st_ino}:{state.st_size}:{state.st_mtime_ns}:{state.st_ctime_ns}"
        for file, state in states
    )


def _arrow_stream(table: "pa.Table") -> bytes:
    """Return the Arrow table `table` as bytes in Arrow's stream format."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _cannot_open(dataset: Dataset) -> EngineFailed:
    """Return the `EngineFailed` error for `dataset`, whose registered table cannot be opened.

    Its message does not tell analysts the reason.
    """
    return EngineFailed(f"the table of the dataset {dataset.name!r} cannot be opened; tell a steward")


def _local_source(url: str) -> DataIdentity:
    """Return the identity of the local file or folder that Spark names `url`, such as file:/data/events.

    It is the identity that the same file has as a dataset of its own. It is empty for a file on other machines only.
    """
    try:
        return file_source(os.path.normpath(url.removeprefix("file:").replace("//", "/")))
    except (UnsuitableTable, OSError):
        return DataIdentity(reads=())


def _folders_around(path: str) -> list[str]:
    """Return the folders around `path` in a cluster's storage, as in hdfs://host/data; the list is empty for a name."""
    if "/" not in path:
        return []
    # The scheme and host must stay as they are: a path of its own would lose one of the two slashes between them.
    start = re.match(r"\w+:(//[^/]*)?", path)
    prefix = "" if start is None else start[0]
    return [f"{prefix}{parent}" for parent in PurePosixPath(path.removeprefix(prefix)).parents]


def _types_of(dataset: Dataset, prefix: str = "") -> dict[str, Kind]:
    """Return the kinds (integer, date, ...) that a steward declared for CSV columns of `dataset`, by column name.

    Without `prefix`, the result is about the columns of the dataset's own table. With a `prefix` such as "countries.",
    it is about the columns of the public table (a table without users) called countries; in `dataset`, the names of
    these columns begin with the prefix, and in the result they do not.
    """
    public = tuple(f"{name}." for name, _ in dataset.public)
    return {
        name.removeprefix(prefix): Kind(kind)
        for name, kind in dataset.types
        if (name.startswith(prefix) if prefix else not (public and name.startswith(public)))
    }

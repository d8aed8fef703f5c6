"""Open a source with its engine: from a path, an address or a table in memory; and where it is on disk.

A new engine is chosen in `open_engine`.
"""

import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from setwise.accounting.brackets import Progress, quiet
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.csv_format import COMPRESSIONS
from setwise.analytics.engines.files import PARQUET_SUFFIXES, CsvOptions, check_format, described, files_of, lake_folder
from setwise.analytics.engines.joins import Join, NamedTable, ServerJoin
from setwise.analytics.engines.prepared import read_prepared
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, UnsuitableTable

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.tables import DuckDBTable
    from setwise.analytics.engines.spark.tables import SparkSource

Source: TypeAlias = str | Path | object
"""A path, a glob, a directory, `database-file::table`, the name of a table, or a table in memory."""

Opened = TypeVar("Opened")

_POSTGRESQL = ("postgresql://", "postgres://")
_MASTERS = ("spark://", "local", "yarn", "k8s://")
_CLICKHOUSE = ("clickhouse://", "chdb://")
_DUCKDB_MAGIC = b"DUCK"
_SQLITE_MAGIC = b"SQLite format 3\0"
_PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The tables that may be joined to a private one, by name: public ones, and private ones with its user column."""

    public: Mapping[str, Source] = field(default_factory=dict)
    private: Mapping[str, Source] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*self.public, *self.private):
            if not isinstance(name, str) or not name:
                raise InvalidParameter(f"a table that may be joined needs a name, not {name!r}")
        twice = set(self.public) & set(self.private)
        if twice:
            raise InvalidParameter(f"the table {min(twice)!r} cannot be public and private: say which it is")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables."""
        return (*self.public, *self.private)

    @property
    def all(self) -> dict[str, Source]:
        """The sources of the tables, by name."""
        return {**self.public, **self.private}

    def check(self, joins: Sequence[Join]) -> None:
        """Raise unless every table of the joins is known."""
        for join in joins:
            if join.table not in self.names:
                there = ", ".join(map(repr, self.names)) or "none"
                raise InvalidParameter(
                    f"no table is called {join.table!r} to be joined: declare it as public, or as private if it has "
                    f"users ({there} declared so far)"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The joins of a source, what it is called in them, its user column, and the tables that may be joined to it.

    `derivation` is what is derived of the rows after they are joined.
    """

    joins: Sequence[Join] = ()
    name: str = ""
    user: str = ""
    beside: Beside = field(default_factory=Beside)
    derivation: Derivation = field(default_factory=Derivation)


NOT_JOINED = Joined()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    """A source, and how it is to be read."""

    source: Source
    table: str | None = None
    types: Mapping[str, Kind] = field(default_factory=dict)
    csv: CsvOptions = field(default_factory=CsvOptions)


def open_engine(
    source: Source,
    engine: str = "duckdb",
    *,
    table: str | None = None,
    types: Mapping[str, Kind] | None = None,
    csv: CsvOptions | None = None,
    memory: str | None = None,
    progress: Progress = quiet,
    joined: Joined = NOT_JOINED,
) -> Engine:
    """Return an engine that reads the source, with the tables that are joined to it.

    `engine` is "duckdb" (the default, for files and tables in memory), "spark" or a Spark master such as
    "spark://host:7077" or "local[4]" (for files, tables of its catalogue and Spark's own frames), or
    "postgresql://...", "clickhouse://..." or "chdb:///folder" (for the table that `source` names). `table` names a
    table inside a database file; `file::table` says the same. `types` says which columns of text, as all of a CSV file
    are, hold something else; those of the other tables as TABLE.COLUMN. `csv` says how CSV files are written. `memory`
    limits DuckDB, as in "4GiB".
    """
    tables = _tables(_Described(source=source, table=table, types=types or {}, csv=csv or CsvOptions()), joined)
    if engine.startswith((*_POSTGRESQL, *_CLICKHOUSE)):
        names = _each(tables, _table_name)
        join = ServerJoin(tables=names, joins=joined.joins, user=joined.user)
        return _server_engine(engine, join if joined.joins else names[0].table, joined.derivation)
    if engine == "duckdb" and not _is_spark_frame(source):
        from setwise.analytics.engines.duckdb.engine import DuckDBEngine
        from setwise.analytics.engines.duckdb.tables import DuckDBDerivedTable, JoinedTable

        local = _each(tables, lambda each: duckdb_table(each.source, each.table, each.types, each.csv))
        found = JoinedTable(local, joined.joins, joined.user) if joined.joins else local[0].table
        if joined.derivation:
            found = DuckDBDerivedTable(found, joined.derivation)
        derived = bool(joined.joins or joined.derivation)
        manifest = read_prepared(Path(source)) if isinstance(source, str | Path) and not derived else None
        return DuckDBEngine(found, memory=memory, progress=progress, manifest=manifest)
    if engine in ("duckdb", "spark") or engine.startswith(_MASTERS):
        from setwise.analytics.engines.spark.engine import open_spark

        sources = _each(tables, _spark_source)
        return open_spark(sources, joined.joins, joined.user, _master(engine), progress, joined.derivation)
    raise InvalidParameter(
        "engine must be duckdb, spark, a Spark master such as spark://host:7077, postgresql://..., clickhouse://... or "
        f"chdb:///folder, not {without_password(engine)!r}"
    )


def _tables(main: _Described, joined: Joined) -> list[NamedTable[_Described]]:
    """Return a source, with the types of its own columns, and the tables that are joined to it with theirs."""
    beside = joined.beside
    beside.check(joined.joins)
    others = tuple(f"{name}." for name in beside.names)
    own = {name: kind for name, kind in main.types.items() if not (others and name.startswith(others))}
    tables = [NamedTable(name=joined.name, table=replace(main, types=own), private=True)]
    for join in joined.joins:
        private = join.table in beside.private
        found = beside.private[join.table] if private else beside.public[join.table]
        prefix = f"{join.table}."
        types = {name.removeprefix(prefix): kind for name, kind in main.types.items() if name.startswith(prefix)}
        tables.append(NamedTable(name=join.table, table=_Described(source=found, types=types), private=private))
    return tables


def _each(tables: Sequence[NamedTable[_Described]], how: Callable[[_Described], Opened]) -> list[NamedTable[Opened]]:
    return [NamedTable(name=each.name, table=how(each.table), private=each.private) for each in tables]


def _server_engine(address: str, source: str | ServerJoin, derivation: Derivation) -> Engine:
    if address.startswith(_POSTGRESQL):
        from setwise.analytics.engines.postgresql.engine import PostgresqlEngine

        return PostgresqlEngine(address, source, derivation=derivation)
    from setwise.analytics.engines.clickhouse.engine import ClickHouseEngine

    return ClickHouseEngine(address, source, derivation=derivation)


def _table_name(given: _Described) -> str:
    """Return the name of a server's table, or raise `InvalidParameter` for what only files take."""
    if given.types:
        raise InvalidParameter("types are for columns of text in files: a table of a server has types of its own")
    if not isinstance(given.source, str | Path):
        raise InvalidParameter(f"a server reads tables of its own, by name, not {type(given.source).__name__}")
    return given.table or str(given.source)


def _spark_source(given: _Described) -> "SparkSource":
    from setwise.analytics.engines.spark.tables import SparkSource

    types, csv = described(given.source, given.types, given.csv)
    return SparkSource(source=given.source, types=types, csv=csv)


def _master(engine: str) -> str | None:
    """Return the master of a Spark engine's address; None is the session that is active, or the machine's own."""
    return None if engine in ("duckdb", "spark") else engine


def _is_spark_frame(source: Source) -> bool:
    return type(source).__module__.partition(".")[0] == "pyspark"


def without_password(address: str) -> str:
    """Return the address of an engine as it may be printed.

    >>> without_password("postgresql://ada:secret@host/shop?sslpassword=other&sslmode=require")
    'postgresql://ada@host/shop?sslmode=require'
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    user, at, host = rest.rpartition("@")
    place, _, query = host.partition("?")
    kept = "&".join(part for part in query.split("&") if part and "password" not in part.partition("=")[0].lower())
    return f"{scheme}://{user.partition(':')[0]}{at}{place}{'?' if kept else ''}{kept}"


def duckdb_table(
    source: Source, table: str | None, types: Mapping[str, Kind], csv: CsvOptions | None = None
) -> "DuckDBTable":
    """Return what DuckDB is to read."""
    from setwise.analytics.engines.duckdb.tables import TypedTable

    types, how = described(source, types, csv or CsvOptions())
    match source:
        case str() | Path():
            found = _file_table(str(source), table, how)
        case _:
            found = _frame_table(source)
    return TypedTable(found, types, how.cells) if types or how.null else found


def _file_table(source: str, table: str | None, csv: CsvOptions) -> "DuckDBTable":
    from setwise.analytics.engines.duckdb.files import CsvFiles, ParquetFiles
    from setwise.analytics.engines.duckdb.tables import DatabaseTable, SqliteTable

    path, separator, named = source.partition("::")
    table = named if separator else table
    if "://" in path:
        raise UnsuitableTable(f"DuckDB reads local files here, not {path!r}: copy it, or use Spark")
    lake = lake_folder(path)
    if lake is not None:
        from setwise.analytics.engines.duckdb.lake import LakeTable

        return LakeTable(lake)
    files = files_of(path)
    check_format(files[0], csv)
    stems = {csv.suffix_of(file) for file in files}
    magics = {magic_of(file) for file in files}
    if magics & {_DUCKDB_MAGIC, _SQLITE_MAGIC} and len(files) == 1:
        if not table:
            raise UnsuitableTable(f"{path} is a database: name one of its tables, as in {path}::TABLE")
        database = DatabaseTable if _DUCKDB_MAGIC in magics else SqliteTable
        return database(files[0], table)
    if stems <= set(PARQUET_SUFFIXES) or magics == {_PARQUET_MAGIC}:
        return ParquetFiles(files, os.path.abspath(path))
    if len(stems) > 1:
        raise UnsuitableTable(f"the files of {path} are of several formats: name those of one, as in {path}/*.csv")
    (suffix,) = stems
    if csv.is_csv(suffix):
        return CsvFiles(files, os.path.abspath(path), csv.format_of(suffix))
    raise UnsuitableTable(
        f"{path} is no Parquet, DuckDB or SQLite file, and its name does not tell how it is written: give --format csv "
        "or tsv, or --separator; setwise check shows which"
    )


def magic_of(file: Path) -> bytes | None:
    """Return the mark by which a Parquet file or a database is known, or None for text."""
    try:
        with file.open("rb") as opened:
            start = opened.read(16)
    except OSError:
        raise UnsuitableTable(f"{file} cannot be opened for reading") from None
    for magic, found in (
        (_PARQUET_MAGIC, start[:4]),
        (_SQLITE_MAGIC, start),
        (_DUCKDB_MAGIC, start[8:12]),
    ):
        if magic == found:
            return magic
    return None


def pin_version(source: Source, engine: str) -> Source:
    """Return the folder of a lake table with its current version after it, as in `events@7`; other sources as they are.

    Everything that is opened later under the pinned name reads the same version, whatever is written meanwhile.
    """
    lake = lake_folder(str(source)) if isinstance(source, str | Path) and engine == "duckdb" else None
    if lake is None or lake.version is not None:
        return source
    from setwise.analytics.engines.duckdb.lake import current_version

    return f"{source}@{current_version(lake)}"


def _frame_table(source: object) -> "DuckDBTable":
    """Return a table in memory as DuckDB reads it: Arrow, pandas or Polars, told by their modules."""
    from setwise.analytics.engines.duckdb.arrow_cells import from_pandas
    from setwise.analytics.engines.duckdb.tables import ArrowTable

    library = type(source).__module__.partition(".")[0]
    arrow = importlib.import_module("pyarrow")
    failed = False
    try:
        match library, type(source).__name__:
            case "pyarrow", "Table":
                return ArrowTable(source)
            case "pyarrow", "RecordBatch":
                return ArrowTable(arrow.Table.from_batches([source]))
            case "pandas", "DataFrame":
                return ArrowTable(from_pandas(source))
            case "polars", "DataFrame":
                return ArrowTable(source.to_arrow())  # type: ignore[attr-defined]
            case "polars" | "duckdb" | "_duckdb", "LazyFrame" | "DuckDBPyRelation":
                return ArrowTable(_computed(source))
            case _:
                pass
    except (arrow.ArrowException, TypeError, ValueError):
        failed = True  # the message would quote a value
    if failed:
        raise UnsuitableTable("the frame has a column of a type that Arrow cannot hold: convert it to text or numbers")
    raise InvalidParameter(
        "a source must be a path, an Arrow table, a pandas or Polars frame, or a DuckDB relation, not "
        f"{type(source).__name__}"
    )


def _computed(source: Any) -> Any:  # noqa: ANN401 - what its library makes of it
    """Return a lazy frame or relation as an Arrow table: computed once and whole, before any question is asked.

    Computed with each question, a row that fails to convert would decide whether one is answered.
    """
    failed = ""
    try:
        return source.collect().to_arrow() if type(source).__name__ == "LazyFrame" else source.to_arrow_table()
    except Exception as error:
        failed = type(error).__name__  # the message would quote a value
    raise UnsuitableTable(f"the source could not be computed ({failed}): run it by itself to see why")


_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The local files of a table, with those it was `prepared` from, and its name: empty for a table in memory."""

    name: str
    files: tuple[Path, ...] = ()
    prepared: bool = False

    def holds(self, path: Path) -> bool:
        """Return whether a path leads to one of the files, by whatever name or link."""
        return any(_same(path, file) for file in self.files)

    def with_files(self, others: Iterable["Location"]) -> "Location":
        """Return the location with the files of others."""
        return replace(self, files=(*self.files, *(file for each in others for file in each.files)))


IN_MEMORY = Location(name="")
"""The location of a table in memory, or of one that only a service can see."""


def location_of(source: Source, engine: str = "duckdb", table: str | None = None) -> Location:
    """Return the location of what `open_engine` would open.

    A table of a database is known by its own name, a file by its name without endings, a folder or glob by the name of
    the folder, and what was prepared by the name of what it was prepared from.

    >>> [location_of(path).name for path in ("shop.duckdb::main.visits", "logs/visits.csv.gz", "visits/*.csv")]
    ['visits', 'visits', 'visits']
    """
    if not isinstance(source, str | Path):
        return IN_MEMORY
    path, separator, named = str(source).partition("::")
    table = named if separator else table
    if engine.startswith((*_POSTGRESQL, *_CLICKHOUSE)):
        return Location(name=_last_part(table or path))
    files = _files(path)
    prepared = read_prepared(Path(path)) if Path(path).is_dir() else None
    if prepared is not None:
        origin = location_of(prepared.origin)
        return Location(name=origin.name, files=files + origin.files, prepared=True)
    return Location(name=_last_part(table) if table else _name_of(path, engine), files=files)


def _files(path: str) -> tuple[Path, ...]:
    try:
        return files_of(path)
    except UnsuitableTable:
        return ()


def _name_of(path: str, engine: str) -> str:
    lake = lake_folder(path)
    if lake is not None:
        return lake.path.name
    place = Path(path)
    if wild := [index for index, part in enumerate(place.parts) if _WILDCARDS & set(part)]:
        return Path(*place.parts[: wild[0]]).absolute().name
    if place.is_dir():
        return place.absolute().name
    if engine != "duckdb" and not place.exists() and "/" not in path:
        return _last_part(path)
    return Path(place.stem).stem if place.suffix.lower() in COMPRESSIONS else place.stem


def _last_part(table: str) -> str:
    return table.rpartition(".")[2].strip('"`')


def _same(path: Path, file: Path) -> bool:
    try:
        return path.samefile(file)
    except OSError:
        return False

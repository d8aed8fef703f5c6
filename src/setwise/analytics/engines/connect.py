"""Functions that open a table on its engine and that find the local files of a table.

A table is given by a path, an address or an object in memory. The engines themselves are listed in registry.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from setwise.accounting.brackets import Progress, quiet
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.csv_format import COMPRESSIONS
from setwise.analytics.engines.files import (
    CsvOptions,
    lake_folder,
    local_files,
    stored_files,
)
from setwise.analytics.engines.joins import Join, NamedTable
from setwise.analytics.engines.object_store import (
    is_stored,
    objects_version,
    split_address,
    split_version,
)
from setwise.analytics.engines.prepared import read_prepared
from setwise.analytics.engines.registry import SPARK, OpenRequest, TableSource, engine_type, reads_only_its_tables
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, UnsuitableTable

Source: TypeAlias = str | Path | object
"""A path, a glob, a directory, `database-file::table`, the name of a table, or a table in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinableTables:
    """The tables that may be joined to a private table, as the data holder declares them: sources by table name.

    A table in `public` may be joined on any column. A table in `private` has rows of users, too: its user column must
    have the same name as that of the first private table, and every join must compare these two columns. It may compare
    other columns as well. Otherwise a joined row would belong to two users.

    Raises: `InvalidParameter` for a table without a name, or one that is declared both public and private.
    """

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
        """The names of all joinable tables, the public ones first."""
        return (*self.public, *self.private)

    @property
    def all(self) -> dict[str, Source]:
        """The sources (paths, addresses or objects in memory) of all joinable tables, by name."""
        return {**self.public, **self.private}

    def check(self, joins: Sequence[Join]) -> None:
        """Raise `InvalidParameter` if a table that one of `joins` adds was not declared as joinable."""
        for join in joins:
            if join.table not in self.names:
                declared = ", ".join(map(repr, self.names)) or "none"
                raise InvalidParameter(
                    f"no table is called {join.table!r} to be joined: declare its file, with --table {join.table}=FILE "
                    f"if its rows belong to users and with --public {join.table}=FILE if they do not; in Python with "
                    f"private= or public= where the table is opened ({declared} declared so far)"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The tables that are joined to a private table, and the steps that are applied to the joined rows.

    - `joins` has one join for each joined table.
    - `name` is the name by which `joins` refer to the private table, or "".
    - `user` is the user column of the private table. It may be "" if nothing is joined.
    - `joinable` has the tables that may be joined.
    - `derivation` has the steps that compute columns, filter rows or group the rows of each user.
    """

    joins: Sequence[Join] = ()
    name: str = ""
    user: str = ""
    joinable: JoinableTables = field(default_factory=JoinableTables)
    derivation: Derivation = field(default_factory=Derivation)


NOT_JOINED = Joined()
"""A private table without joins and without a derivation."""


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
    """Return an engine that reads the table `source`, and the tables that are joined to it.

    - `engine` is "duckdb", "spark", a Spark master such as "local[4]", or the address of a database:
      "postgresql://...", "clickhouse://..." or "chdb:///folder".
    - `table` names a table inside a database file.
    - `types` maps text columns to the types as which they are read. A column of a joined table is named TABLE.COLUMN.
    - `csv` says how CSV files are written. None means what a description file beside the files says, or, if there is
      none, the defaults of `CsvOptions`.
    - `memory` is DuckDB's memory limit, as in "4GiB". None means DuckDB's default.
    - `progress` is called with the fraction of work done, from 0 to 1, while a query runs.
    - `joined` names the joined tables, and the computed columns, filters and groups of the joined rows.

    Raises: `InvalidParameter` for an unknown engine, `MissingExtra` if its driver is not installed, `UnsuitableTable`
    or `UnknownColumn` for a table that cannot be read, `EngineFailed` for a server that cannot be reached.
    """
    kind = SPARK if engine == "duckdb" and _is_spark_frame(source) else engine_type(engine)
    if kind is None:
        raise InvalidParameter(
            "engine must be duckdb, spark, a Spark master such as spark://host:7077, postgresql://..., "
            f"clickhouse://... or chdb:///folder, not {without_password(engine)!r}"
        )
    main = TableSource(source=source, table=table, types=types or {}, csv=csv or CsvOptions())
    request = OpenRequest(
        address=engine,
        tables=_all_tables(main, joined),
        joins=joined.joins,
        user=joined.user,
        derivation=joined.derivation,
        memory=memory,
        progress=progress,
    )
    return kind.open_tables(request)


def _all_tables(main: TableSource, joined: Joined) -> list[NamedTable[TableSource]]:
    """Return the private table `main` and the tables joined to it, in the order of `joined.joins`.

    `main.types` maps text columns of all tables to the types as which they are read, with TABLE.COLUMN for a column of
    a joined table: {"age": INTEGER, "films.year": INTEGER}. Each returned table has only the types of its own columns,
    here {"year": INTEGER} for films.
    """
    joinable = joined.joinable
    joinable.check(joined.joins)
    prefixes = tuple(f"{name}." for name in joinable.names)
    main_types = {name: kind for name, kind in main.types.items() if not (prefixes and name.startswith(prefixes))}
    tables = [NamedTable(name=joined.name, table=replace(main, types=main_types), private=True)]
    for join in joined.joins:
        table = TableSource(source=joinable.all[join.table], types=types_of_joined(main.types, join.table))
        tables.append(NamedTable(name=join.name, table=table, private=join.table in joinable.private))
    return tables


def types_of_joined(types: Mapping[str, Kind], table: str) -> dict[str, Kind]:
    """Return the types, by column name, of the columns of the joined table called `table`.

    They are the entries of `types` whose names have the form TABLE.COLUMN.

    >>> types_of_joined({"rating": Kind.INTEGER, "films.year": Kind.INTEGER}, "films")
    {'year': <Kind.INTEGER: 'integer'>}
    """
    prefix = f"{table}."
    return {name.removeprefix(prefix): kind for name, kind in types.items() if name.startswith(prefix)}


def _is_spark_frame(source: Source) -> bool:
    """Return whether `source` is a Spark data frame in memory, judged by the module of its class."""
    return type(source).__module__.partition(".")[0] == "pyspark"


def without_password(address: str) -> str:
    """Return the `address` of an engine, for printing, without its password and without options that are passwords.

    >>> without_password("postgresql://ada:secret@host/shop?sslpassword=other&sslmode=require")
    'postgresql://ada@host/shop?sslmode=require'
    """
    scheme, separator, location = address.partition("://")
    if not separator:
        return address
    user, at, host = location.rpartition("@")
    place, _, query = host.partition("?")
    options = "&".join(part for part in query.split("&") if part and "password" not in part.partition("=")[0].lower())
    return f"{scheme}://{user.partition(':')[0]}{at}{place}{'?' if options else ''}{options}"


def pin_version(source: Source, engine: str) -> Source:
    """Return `source` with its current version appended, as in `events@7`, so that later openings read this version.

    Lake tables (Delta Lake or Iceberg) and objects in an object store have versions, if `engine` is "duckdb". Any other
    source, and a source that names a version already, is returned unchanged.
    """
    if not isinstance(source, str | Path) or engine != "duckdb":
        return source
    if is_stored(source) and split_version(str(source))[1] is not None:
        return source
    lake = lake_folder(str(source))
    if lake is not None:
        if lake.version is not None:
            return source
        from setwise.analytics.engines.duckdb.lake import current_version

        return f"{str(source).rstrip('/')}@{current_version(lake)}"
    if not is_stored(source):
        return source
    # An object store need not keep old versions: if an object is written again, queries of the pinned version are
    # refused.
    place = str(source).rstrip("/")
    return f"{place}@{objects_version(stored_files(place))}"


_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a table is: its `name` ("" for a table in memory), and the local `files` that hold its rows.

    `prepared` says that the table is a prepared dataset (a stored random ranking of each user's groups). Then `files`
    include the files of the table from which the dataset was made.
    """

    name: str
    files: tuple[Path, ...] = ()
    prepared: bool = False

    def holds(self, path: Path) -> bool:
        """Return whether `path` leads to one of this location's files, even by another name or a link."""
        return any(_is_same_file(path, file) for file in self.files)

    def with_files(self, others: Iterable["Location"]) -> "Location":
        """Return a copy of this location that also has the files of the locations `others`."""
        return replace(self, files=(*self.files, *(file for each in others for file in each.files)))


IN_MEMORY = Location(name="")
"""The location of a table in memory, or of a table that only a service can read."""


def location_of(source: Source, engine: str = "duckdb", table: str | None = None) -> Location:
    """Return the name and the local files of the table that `open_engine` would open with the same arguments.

    The table of a file is called by the file's name without endings, and the table of a folder or glob by the name of
    the folder. A table on a server or in an object store has no local files. A table in memory has neither a name nor
    files.

    >>> [location_of(path).name for path in ("shop.duckdb::main.visits", "logs/visits.csv.gz", "visits/*.csv")]
    ['visits', 'visits', 'visits']
    """
    if not isinstance(source, str | Path):
        return IN_MEMORY
    path, separator, named = str(source).partition("::")
    table = named if separator else table
    if reads_only_its_tables(engine):
        return Location(name=_last_part(table or path))
    if is_stored(path):
        bucket, key = split_address(split_version(path)[0])
        return Location(name=_stem(Path(key).name) if key else bucket)
    files = _files(path)
    prepared = read_prepared(Path(path)) if Path(path).is_dir() else None
    if prepared is not None:
        # a prepared dataset has the name of the table it was prepared from
        origin = location_of(prepared.origin)
        return Location(name=origin.name, files=files + origin.files, prepared=True)
    return Location(name=_last_part(table) if table else _name_of(path, engine), files=files)


def _files(path: str) -> tuple[Path, ...]:
    """Return the local files that a path or glob names; an empty tuple if it names none."""
    try:
        return local_files(path)
    except UnsuitableTable:
        return ()


def _name_of(path: str, engine: str) -> str:
    """Return the name of the table that `open_engine` would open for `path` on `engine`.

    A lake table (Delta Lake or Iceberg), and a table of Spark's catalogue, have names of their own. Otherwise the table
    of a folder or glob is called by the name of the folder, and the table of a file by the file's name without endings.
    """
    lake = lake_folder(path)
    if lake is not None:
        return lake.name
    place = Path(path)
    if wild := [index for index, part in enumerate(place.parts) if _WILDCARDS & set(part)]:
        return Path(*place.parts[: wild[0]]).absolute().name
    if place.is_dir():
        return place.absolute().name
    if engine != "duckdb" and not place.exists() and "/" not in path:
        return _last_part(path)
    return _stem(place.name)


def _stem(name: str) -> str:
    """Return the name of a file without its ending, and without a compression ending: visits for visits.csv.gz."""
    plain = Path(name)
    return Path(plain.stem).stem if plain.suffix.lower() in COMPRESSIONS else plain.stem


def _last_part(table: str) -> str:
    """Return the last part of a dotted table name, without quotes: visits for shop."visits"."""
    return table.rpartition(".")[2].strip('"`')


def _is_same_file(path: Path, file: Path) -> bool:
    """Return whether two paths lead to the same file; False if one of them cannot be read."""
    try:
        return path.samefile(file)
    except OSError:
        return False

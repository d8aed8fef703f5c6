"""What DuckDB can read as a table, besides files: tables of DuckDB and SQLite files, tables in memory, typed text."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from setwise.analytics.engines.cells import BLANKS, check_types, converted, converted_columns
from setwise.analytics.engines.duckdb.dialect import SOURCE, duckdb_column, quoted, sql_text
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import UnsuitableTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class DuckDBTable(Protocol):
    """A table that DuckDB reads in place."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that may be read, and no others."""
        ...

    @property
    def origin(self) -> str | None:
        """The path or glob by which the files were found; None for a table in memory."""
        ...

    @property
    def columnar(self) -> bool:
        """Whether another pass over two of the columns is cheap."""
        ...

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make ready what must be before the connection is locked."""
        ...

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        """Return what stands after FROM, made known to this cursor; it has at least these columns, by default all.

        What has to be registered with the cursor is called `name` there.
        """
        ...

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return about how many rows there are, where metadata tells."""
        ...


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table or view of a DuckDB database file, opened for reading only.

    A view is computed once and whole, before any question is asked: computed with each question, a row that fails to
    convert would decide whether one is answered.
    """

    path: Path
    table: str
    _computed: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def files(self) -> tuple[Path, ...]:
        """The database file."""
        return (self.path,)

    @property
    def origin(self) -> str:
        """The database file."""
        return str(self.path)

    @property
    def columnar(self) -> bool:
        """Columns are stored apart."""
        return True

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Attach the file and see that the table is there."""
        connection.execute(f"ATTACH IF NOT EXISTS {sql_text(str(self.path))} AS {quoted(self._catalog)} (READ_ONLY)")
        found = connection.execute(
            "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_catalog = $name "
            "ORDER BY ALL",
            {"name": self._catalog},
        ).fetchall()
        kinds = [kind for schema, name, kind in found if self.table in (name, f"{schema}.{name}")]
        if not kinds:
            raise _missing(
                self.path, self.table, [n if schema == "main" else f"{schema}.{n}" for schema, n, _ in found]
            )
        if kinds[0] == "VIEW":
            computed = quoted(f"computed {self.path} {self.table}")
            try:
                connection.execute(f"CREATE OR REPLACE TABLE {computed} AS SELECT * FROM {self._name}")
            except Exception as error:  # its message would quote a value
                failed = type(error).__name__
            else:
                self._computed["name"] = computed
                return
            raise UnsuitableTable(f"the view {self.table!r} could not be computed ({failed}): run it by itself to see")

    @property
    def _catalog(self) -> str:
        """What the file is attached as: one name for one file, of which two tables may be joined."""
        return f"source {self.path}"

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        """Return the table's full name."""
        del cursor, columns, name
        return self._computed.get("name", self._name)

    @property
    def _name(self) -> str:
        return ".".join(quoted(part) for part in (self._catalog, *self.table.split(".")))

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the size the catalogue estimates."""
        found = cursor.execute(
            "SELECT estimated_size FROM duckdb_tables() WHERE database_name = $database AND table_name = $name",
            {"database": self._catalog, "name": self.table.split(".")[-1]},
        ).fetchone()
        return None if found is None else int(found[0])


@dataclass(frozen=True, slots=True, eq=False)
class ArrowTable:
    """An Arrow table in memory; a cell that DuckDB cannot hold is null, as in the other sources."""

    table: "pa.Table"

    def __post_init__(self) -> None:
        from setwise.analytics.engines.duckdb.arrow_cells import sound_table

        object.__setattr__(self, "table", sound_table(self.table))

    @property
    def files(self) -> tuple[Path, ...]:
        """No files."""
        return ()

    @property
    def origin(self) -> None:
        """No files."""
        return

    @property
    def columnar(self) -> bool:
        """Columns are stored apart."""
        return True

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Nothing to make ready."""

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        """Make the table known to the cursor and return its name there."""
        del columns
        cursor.register(name, self.table)
        return name

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the table's length."""
        del cursor
        return int(self.table.num_rows)


class TypedTable:
    """A table whose columns of text are read as other kinds where `types` says so; a cell that cannot be is null."""

    def __init__(self, table: DuckDBTable, types: Mapping[str, Kind]) -> None:
        self._table = table
        self._types = check_types(types)
        self._converted: tuple[Column, ...] = ()
        self.files, self.origin, self.columnar = table.files, table.origin, table.columnar

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make the table ready, and see that the types fit its columns."""
        self._table.attach(connection)
        self._converted = converted_columns(self._types, described(self._table, connection))

    def described(self, schema: Schema) -> Schema:
        """Return the schema with the columns marked that are read from text."""
        names = {column.name for column in self._converted}
        return Schema(tuple(replace(column, from_text=column.name in names) for column in schema))

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        """Return the table's relation with those columns converted."""
        chosen = [column for column in self._converted if columns is None or column.name in columns]
        relation = self._table.relation(cursor, columns, name)
        if not chosen:
            return relation
        replaced = ", ".join(
            f"{converted_cell(quoted(column.name), column.kind)} AS {quoted(column.name)}" for column in chosen
        )
        return f"(SELECT * REPLACE ({replaced}) FROM {relation})"

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return what the table tells."""
        return self._table.rows(cursor)


def converted_cell(cell: str, kind: Kind) -> str:
    """Return the SQL of a cell of text as a value of the kind, or null."""
    return converted(cell, kind, _DuckDBText())


class _DuckDBText:
    """The functions of text that conversions need."""

    def trimmed(self, cell: str) -> str:
        """Return the cell without the blanks around it."""
        return f"trim({cell}, {sql_text(BLANKS)})"

    def matches(self, text: str, pattern: str) -> str:
        """Return whether the whole text matches."""
        return f"regexp_full_match({text}, '{pattern}')"

    def try_cast(self, text: str, kind: Kind) -> str:
        """Return the text as DuckDB's type of that kind, or null."""
        native = {Kind.INTEGER: "BIGINT", Kind.FLOAT: "DOUBLE", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP"}[kind]
        return f"TRY_CAST({text} AS {native})"

    def earlier(self, timestamp: str, minutes: str) -> str:
        """Return the timestamp `minutes` before another."""
        return f"{timestamp} - to_minutes({minutes})"


def described(table: DuckDBTable, cursor: "duckdb.DuckDBPyConnection") -> Schema:
    """Return the columns of a table, from metadata alone."""
    found = cursor.execute(f"DESCRIBE SELECT * FROM {table.relation(cursor)}").fetchall()
    return Schema(tuple(duckdb_column(name, native) for name, native, *_ in found))


def _missing(path: Path, table: str, there: Sequence[str]) -> UnsuitableTable:
    names = ", ".join(map(repr, there[:50]))
    return UnsuitableTable(f"{path} has no table {table!r}; it has {names or 'none'}")


BATCH_ROWS = 50_000

_CONVERSIONS = {
    # SQLite lets any cell hold any type: a cell that does not fit its column is null, never an error.
    "integer": "CASE typeof({0}) WHEN 'integer' THEN {0} END",
    "real": "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END",
    "text": "CASE WHEN typeof({0}) <> 'blob' THEN CAST({0} AS TEXT) END",
}


@dataclass(frozen=True, slots=True)
class SqliteTable:
    """A table of a SQLite database file, opened for reading only by Python's own driver.

    Columns are integer, float or text as they are declared; other declarations are read as text.
    """

    path: Path
    table: str

    @property
    def files(self) -> tuple[Path, ...]:
        """The database file; DuckDB itself reads nothing."""
        return (self.path,)

    @property
    def origin(self) -> str:
        """The database file."""
        return str(self.path)

    @property
    def columnar(self) -> bool:
        """Every pass reads every row."""
        return False

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """See that the table is there."""
        del connection
        with closing(self._open()) as source:
            found = [
                name for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
            ]
        if self.table not in found:
            raise _missing(self.path, self.table, sorted(found))

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        """Make a stream of the table known to the cursor, good for one pass, and return its name there."""
        import pyarrow as pa

        with closing(self._open()) as source:
            found = [(column, _affinity(declared)) for column, declared in self._columns(source)]
        chosen = [(column, affinity) for column, affinity in found if columns is None or column in columns]
        types = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string()}
        schema = pa.schema([(column, types[affinity]) for column, affinity in chosen])
        cells = ", ".join(_CONVERSIONS[affinity].format(quoted(column)) for column, affinity in chosen)
        statement = f"SELECT {cells} FROM {quoted(self.table)}"
        cursor.register(name, pa.RecordBatchReader.from_batches(schema, self._batches(statement, schema)))
        return name

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return None: nothing but reading tells."""
        del cursor
        return None

    def _open(self) -> sqlite3.Connection:
        source = sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        source.text_factory = _decoded
        return source

    def _columns(self, source: sqlite3.Connection) -> list[tuple[str, str]]:
        return [(row[1], row[2]) for row in source.execute(f"PRAGMA table_info({quoted(self.table)})")]

    def _batches(self, statement: str, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        with closing(self._open()) as source:
            cursor = source.execute(statement)
            while rows := cursor.fetchmany(BATCH_ROWS):
                columns = zip(*rows, strict=True)
                arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _affinity(declared: str) -> str:
    """Return the affinity of a declared type, by SQLite's own rules as far as they matter here."""
    upper = declared.upper()
    if "INT" in upper:
        return "integer"
    return "real" if any(part in upper for part in ("REAL", "FLOA", "DOUB")) else "text"


def _decoded(cell: bytes) -> str | None:
    """Return text, or null where it is no text: replacing bad bytes could make two users one."""
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None

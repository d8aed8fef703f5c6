"""What DuckDB can read as a table, besides files: databases, tables in memory, typed text, joins of all of them."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.analytics.engines.cells import (
    BLANKS,
    PLAIN_CELLS,
    CellGrammar,
    TextFunctions,
    check_types,
    converted,
    converted_columns,
    filled,
)
from setwise.analytics.engines.csv_reader import utf8_text
from setwise.analytics.engines.definitions import plain_view, refuse_view
from setwise.analytics.engines.duckdb.dialect import SOURCE, DuckDBDialect, duckdb_column, quoted, sql_text
from setwise.analytics.engines.joins import Join, JoinedTables, NamedTable, Part, types_of_keys
from setwise.analytics.engines.row_sql import DerivedTable
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import UnsuitableTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class DuckDBTable(ABC):
    """A table that DuckDB reads in place.

    `files` are those that may be read, and no others. `origin` is the path or glob by which they were found; None where
    changes would not be noticed. `columnar` says whether another pass over two of the columns is cheap.
    """

    def __init__(self, files: tuple[Path, ...] = (), origin: str | None = None, *, columnar: bool = True) -> None:
        self.files = files
        self.origin = origin
        self.columnar = columnar

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make ready what must be before the connection is locked, or raise what is wrong with the table."""
        del connection

    @abstractmethod
    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        """Return what stands after FROM, made known to this cursor; it has at least these columns, by default all.

        What has to be registered with the cursor is called `name` there, and may be good for one pass.
        """

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return about how many rows there are, where metadata tells."""
        del cursor
        return None

    def described(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns, from metadata alone."""
        found = cursor.execute(f"DESCRIBE SELECT * FROM {self.relation(cursor)}").fetchall()
        return Schema(tuple(duckdb_column(name, native) for name, native, *_ in found))


class DatabaseTable(DuckDBTable):
    """A table or a plain view of a DuckDB database file, opened for reading only.

    Generated columns are left out and views that compute anything are refused (definitions.py): DuckDB computes both as
    it reads them, so that one row could make every question fail.
    """

    def __init__(self, path: Path, table: str) -> None:
        super().__init__((path,), str(path))
        self._path = path
        self._table = table
        self._catalog = f"source {path}"  # one name for one file, of which two tables may be joined
        self._name = self._read = ".".join(quoted(part) for part in (self._catalog, *table.split(".")))
        self._computed: tuple[str, ...] = ()

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Attach the file, and see that the table is there and that reading it cannot fail."""
        connection.execute(f"ATTACH IF NOT EXISTS {sql_text(str(self._path))} AS {quoted(self._catalog)} (READ_ONLY)")
        found = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = $name ORDER BY ALL",
            {"name": self._catalog},
        ).fetchall()
        matching = [(schema, name) for schema, name in found if self._table in (name, f"{schema}.{name}")]
        if not matching:
            raise _missing(self._path, self._table, [n if schema == "main" else f"{schema}.{n}" for schema, n in found])
        main_first = sorted(matching, key=lambda each: each[0] != "main")
        self._computed = _DuckDBCatalog(connection, self._catalog).generated_columns(*main_first[0])
        if self._computed:
            chosen = ", ".join(map(quoted, self.described(connection).names))
            self._read = f"(SELECT {chosen} FROM {self._name})"

    def described(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns that are stored, and which others there are."""
        found = cursor.execute(f"DESCRIBE SELECT * FROM {self._name}").fetchall()
        stored = [duckdb_column(name, native) for name, native, *_ in found if name not in self._computed]
        reason = "DuckDB computes it as it reads the table, so one row could make every question fail: copy the table"
        return Schema(tuple(stored), left_out=dict.fromkeys(self._computed, reason))

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        del cursor, columns, name
        return self._read

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the size the catalogue estimates."""
        found = cursor.execute(
            "SELECT estimated_size FROM duckdb_tables() WHERE database_name = $database AND table_name = $name",
            {"database": self._catalog, "name": self._table.split(".")[-1]},
        ).fetchone()
        return None if found is None else int(found[0])


class _DuckDBCatalog:
    """The tables and views of an attached database file."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", catalog: str) -> None:
        self._connection = connection
        self._catalog = catalog

    def generated_columns(self, schema: str, name: str) -> tuple[str, ...]:
        """Return the columns of a table that are computed as it is read; raise `UnsuitableTable` for a view that is."""
        place = {"catalog": self._catalog, "schema": schema, "name": name}
        view = self._connection.execute(
            "SELECT sql FROM duckdb_views() WHERE database_name = $catalog AND schema_name = $schema "
            "AND view_name = $name",
            place,
        ).fetchone()
        if view is None:
            found = self._connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_catalog = $catalog "
                "AND table_schema = $schema AND table_name = $name AND is_generated = 'ALWAYS'",
                place,
            ).fetchall()
            return tuple(column for (column,) in found)
        if plain_view(str(view[0]), "duckdb", lambda below, table: self._columns(below or schema, table)) is None:
            raise refuse_view(name, "store it with CREATE TABLE ... AS SELECT * FROM the view")
        return ()

    def _columns(self, schema: str, name: str) -> dict[str, Kind] | None:
        """Return the columns of a table that are stored, with their kinds; None if there is no such table."""
        computed = self.generated_columns(schema, name)
        found = self._connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = $catalog "
            "AND schema_name = $schema AND table_name = $name",
            {"catalog": self._catalog, "schema": schema, "name": name},
        ).fetchall()
        columns = [duckdb_column(column, native) for column, native in found]
        return {column.name: column.kind for column in columns if column.name not in computed} or None


class ArrowTable(DuckDBTable):
    """An Arrow table in memory; a cell that DuckDB cannot hold is null, as in the other sources."""

    def __init__(self, table: "pa.Table") -> None:
        from setwise.analytics.engines.duckdb.arrow_cells import sound_table

        super().__init__()
        self._table = sound_table(table)

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        del columns
        cursor.register(name, self._table)
        return name

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        del cursor
        return int(self._table.num_rows)


class TypedTable(DuckDBTable):
    """A table whose text is read as the holder says: columns as other kinds, words as empty cells.

    A cell that cannot be read as the kind of its column is null.
    """

    def __init__(self, table: DuckDBTable, types: Mapping[str, Kind], grammar: CellGrammar = PLAIN_CELLS) -> None:
        super().__init__(table.files, table.origin, columnar=table.columnar)
        self._table = table
        self._types = check_types(types)
        self._grammar = grammar
        self._converted: tuple[Column, ...] = ()
        self._texts: tuple[str, ...] = ()

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make the table ready, and see that the types fit its columns."""
        self._table.attach(connection)
        schema = self._table.described(connection)
        self._converted = converted_columns(self._types, schema)
        if self._grammar.null:
            kinds = {column.name for column in self._converted}
            self._texts = tuple(each.name for each in schema if each.kind is Kind.TEXT and each.name not in kinds)

    def described(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns, those marked that are read from text."""
        names = {column.name for column in self._converted}
        columns = tuple(replace(column, from_text=column.name in names) for column in super().described(cursor))
        return replace(self._table.described(cursor), columns=columns)

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        read = {each.name: converted_cell(quoted(each.name), each.kind, self._grammar) for each in self._converted}
        read |= {each: filled(quoted(each), _TEXT, self._grammar.null) for each in self._texts}
        relation = self._table.relation(cursor, columns, name)
        chosen = [f"{cell} AS {quoted(each)}" for each, cell in read.items() if columns is None or each in columns]
        return f"(SELECT * REPLACE ({', '.join(chosen)}) FROM {relation})" if chosen else relation

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        return self._table.rows(cursor)


_TEXT = TextFunctions(
    types=DuckDBDialect.types,
    trimmed=f"trim({{}}, {sql_text(BLANKS)})",
    matches="regexp_full_match({}, {})",
    literal=sql_text,
    earlier="{} - to_minutes({})",
)


def converted_cell(cell: str, kind: Kind, grammar: CellGrammar = PLAIN_CELLS) -> str:
    """Return SQL for a cell of text as a value of the kind, or null; words for empty cells are null."""
    return converted(filled(cell, _TEXT, grammar.null), kind, _TEXT, grammar)


def filled_cell(cell: str, grammar: CellGrammar) -> str:
    """Return SQL for a cell of text, null where it is a word for an empty cell."""
    return filled(cell, _TEXT, grammar.null)


def _missing(path: Path, table: str, there: Sequence[str]) -> UnsuitableTable:
    names = ", ".join(map(repr, there[:50]))
    return UnsuitableTable(f"{path} has no table {table!r}; it has {names or 'none'}")


class JoinedTable(DuckDBTable):
    """A private table with the tables that are joined to it.

    A key that is text in a public table, as all of a CSV file is, is read as the kind that it is joined with.
    """

    def __init__(self, tables: Sequence[NamedTable[DuckDBTable]], joins: Sequence[Join], user: str) -> None:
        files = tuple(file for each in tables for file in each.table.files)
        super().__init__(files, columnar=all(each.table.columnar for each in tables))
        self._tables = list(tables)
        self._joins = tuple(joins)
        self._user = user
        self._joined: JoinedTables | None = None

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make every table ready, and see that the join is one."""
        parts: list[Part] = []
        for place, each in enumerate(self._tables):
            each.table.attach(connection)
            schema = each.table.described(connection)
            types = {} if each.private or not parts else types_of_keys(self._joins[place - 1], parts, schema)
            if types:
                typed = TypedTable(each.table, types)
                typed.attach(connection)
                self._tables[place] = NamedTable(name=each.name, table=typed)
                schema = typed.described(connection)
            parts.append(Part(name=each.name, schema=schema, private=each.private))
        self._joined = JoinedTables(parts, self._joins, self._user)

    def described(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns of the join, those marked that are read from text."""
        del cursor
        return self._found.schema

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        relations = [
            each.table.relation(cursor, self._found.needed(place, columns), f"{name}_{place}")
            for place, each in enumerate(self._tables)
        ]
        return self._found.statement(relations, DuckDBDialect(), columns)

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return how many rows the first table has: how many the join has, only reading tells."""
        return self._tables[0].table.rows(cursor)

    @property
    def _found(self) -> JoinedTables:
        assert self._joined is not None, "attach comes first"
        return self._joined


class DuckDBDerivedTable(DuckDBTable):
    """A table that is derived from another one: computed columns, kept rows, groups of one user's rows."""

    def __init__(self, table: DuckDBTable, derivation: Derivation) -> None:
        super().__init__(table.files, columnar=False)
        self._table = table
        self._derivation = derivation
        self._derived: DerivedTable | None = None

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make the table ready, and check the kinds of the columns that are computed with."""
        self._table.attach(connection)
        self._derived = DerivedTable(self._derivation, self._table.described(connection), DuckDBDialect())
        self._schema = self._derived.schema

    def described(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns of the derived table."""
        del cursor
        return self._schema

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        assert self._derived is not None, "attach comes first"
        return self._derived.statement(self._table.relation(cursor, self._derived.needed(columns), name))

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return how many rows the table has that this one is derived from."""
        return self._table.rows(cursor)


BATCH_ROWS = 50_000

_CONVERSIONS = {
    # SQLite lets any cell hold any type: a cell that does not fit its column is null, never an error.
    "integer": "CASE typeof({0}) WHEN 'integer' THEN {0} END",
    "real": "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END",
    "text": "CASE WHEN typeof({0}) <> 'blob' THEN CAST({0} AS TEXT) END",
}


class SqliteTable(DuckDBTable):
    """A table of a SQLite database file, opened for reading only by Python's own driver.

    Columns are integer, float or text as they are declared; other declarations are read as text.
    """

    def __init__(self, path: Path, table: str) -> None:
        super().__init__((path,), str(path), columnar=False)
        self._path = path
        self._table = table

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """See that the table is there, and that reading it cannot fail."""
        del connection
        with closing(self._open()) as source:
            found = {
                str(name): str(statement) if kind == "view" else None
                for kind, name, statement in source.execute(
                    "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view')"
                )
            }
            if self._table not in found:
                raise _missing(self._path, self._table, sorted(found))
            self._columns_below(source, found, "", self._table)

    def _columns_below(
        self, source: sqlite3.Connection, views: Mapping[str, str | None], schema: str, name: str
    ) -> dict[str, Kind] | None:
        """Return the columns of a table or view; None if there is none, `UnsuitableTable` for a view that computes."""
        statement = next((text for each, text in views.items() if each.lower() == name.lower()), "")
        if statement == "" or schema not in ("", "main"):
            return None
        if statement is not None:
            others = {
                each: text for each, text in views.items() if each.lower() != name.lower()
            }  # views may be circular
            below = partial(self._columns_below, source, others)
            if plain_view(statement, "sqlite", below) is None:
                raise refuse_view(name, "store it with CREATE TABLE ... AS SELECT * FROM the view")
        # SQLite converts what it compares and never fails, so every kind may be compared with every constant.
        columns = source.execute(f"PRAGMA table_info({quoted(name)})")
        return {str(row[1]): Kind.INTEGER for row in columns}

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        import pyarrow as pa

        with closing(self._open()) as source:
            found = [(column, _affinity(declared)) for column, declared in self._columns(source)]
        chosen = [(column, affinity) for column, affinity in found if columns is None or column in columns]
        types = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string()}
        schema = pa.schema([(column, types[affinity]) for column, affinity in chosen])
        cells = ", ".join(_CONVERSIONS[affinity].format(quoted(column)) for column, affinity in chosen)
        statement = f"SELECT {cells} FROM {quoted(self._table)}"
        cursor.register(name, pa.RecordBatchReader.from_batches(schema, self._batches(statement, schema)))
        return name

    def _open(self) -> sqlite3.Connection:
        source = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        source.text_factory = utf8_text
        return source

    def _columns(self, source: sqlite3.Connection) -> list[tuple[str, str]]:
        return [(row[1], row[2]) for row in source.execute(f"PRAGMA table_info({quoted(self._table)})")]

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

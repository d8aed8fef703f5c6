"""Tables other than plain files that DuckDB reads: database files, Arrow tables, typed text, joins, derived tables."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.analytics.engines.csv_reader import utf8_text
from setwise.analytics.engines.definitions import plain_view, refuse_view
from setwise.analytics.engines.derived_tables import DerivedTable
from setwise.analytics.engines.duckdb.dialect import SOURCE, DuckDBDialect, duckdb_column, quoted, sql_text
from setwise.analytics.engines.joins import Join, JoinedTables, JoinInput, NamedTable, types_of_keys
from setwise.analytics.engines.object_store import StoredObject, TableFile, check_unchanged, objects_version
from setwise.analytics.engines.typed_cells import (
    BLANKS,
    PLAIN_CELLS,
    CellGrammar,
    TextFunctions,
    check_types,
    convert_cell,
    converted_columns,
    null_if_word,
)
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import UnsuitableTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfitCells:
    """Exact counts, for the data holder only, of the cells of a column that do not fit the column's declared type.

    - `declared` is the declared type, such as REAL.
    - `cells` is the number of cells that do not fit, and are therefore read as null.
    - `filled` is the number of all cells that are not null.
    - `texts` are some of the cells that do not fit, as text.
    """

    declared: str
    cells: int
    filled: int
    texts: tuple[str, ...]


class DuckDBTable(ABC):
    """A table that DuckDB reads in place, or through Arrow from an object store.

    - `files` are the only files that may be read.
    - `origin` is the path or glob of the files, of which a digest is kept to notice later changes of the table. None
      for a table whose changes cannot be noticed, such as a table in memory.
    - `columnar` says whether one or two columns can be read cheaply, without reading the others, as in a Parquet file
      but not in a CSV file.
    - `attaches_file` says whether DuckDB itself holds a database file open while the table is attached. No other
      process can then write the file.
    """

    attaches_file = False

    def __init__(self, files: tuple[TableFile, ...] = (), origin: str | None = None, *, columnar: bool = True) -> None:
        self.files = files
        self.origin = origin
        self.columnar = columnar

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make the table readable on the DuckDB `connection`.

        It is called before an engine locks the configuration of the connection, because no further file can be opened
        after that.
        Raises: `UnsuitableTable` or another `SetwiseError` if the table cannot be read.
        """
        del connection

    def check_unchanged(self) -> None:
        """Raise `UnsuitableTable` if an object that the table reads was written since the table was opened.

        Only objects of an object store are checked. A query calls this after it has read the rows, so that rows of two
        versions are never counted together.
        """
        check_unchanged(file for file in self.files if isinstance(file, StoredObject))

    def relations(self) -> frozenset[str]:
        """Return the names of the tables and views of a database file that are read: SCHEMA.TABLE in lower case.

        They are known after `attach`. The result is empty for a table of any other kind, a join and a derived table.
        """
        return frozenset()

    def stored_name(self) -> str:
        """Return the quoted SQL name of a table that a database file stores, within the file; "" for everything else.

        It is known after `attach`, and is "" for a view, whose cells cannot be changed.
        """
        return ""

    def unfit_cells(self, columns: Collection[str]) -> dict[str, UnfitCells]:
        """Return counts of the cells that do not fit the declared types of their columns, for those of `columns`.

        Columns in which all cells fit are left out. Only SQLite stores such cells.
        """
        del columns
        return {}

    def duration_units(self) -> dict[str, str]:
        """Return the unit (s, ms, us or ns) of each column of durations that is stored, and read, as plain integers.

        Only writers of Parquet files store such columns, and note the type that the numbers had.
        """
        return {}

    @abstractmethod
    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        """Return the SQL text that stands after FROM for this table, and register the table with `cursor` if needed.

        The SQL text has at least the columns `columns`; None means all. A table that must be registered, such as one in
        memory, gets the SQL name `name`. If it is registered as a stream of batches, it can be read only once, so the
        caller calls this method again for every statement.
        """

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the approximate number of rows if metadata, which `cursor` may read, states it; otherwise None."""
        del cursor
        return None

    def describe(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns of the table, which `cursor` reads from metadata alone.

        For objects of an object store the schema's `version` names the version that is read; it is "" for other tables.
        """
        described_rows = cursor.execute(f"DESCRIBE SELECT * FROM {self.relation(cursor)}").fetchall()
        stored = [file for file in self.files if isinstance(file, StoredObject)]
        version = objects_version(stored) if stored else ""
        return Schema(tuple(duckdb_column(name, native) for name, native, *_ in described_rows), version=version)


class DatabaseTable(DuckDBTable):
    """The table `table`, or a view of plain columns, of the DuckDB database file `path`, opened read-only.

    Generated columns are left out, and views that compute anything are refused. DuckDB computes both while it reads
    rows, so that one row could make a query fail, which would reveal values of the row.
    """

    attaches_file = True

    def __init__(self, path: Path, table: str) -> None:
        super().__init__((path,), str(path))
        self._path = path
        self._table = table
        self._catalog = f"source {path}"  # the same for two tables of one file, which can then be joined
        self._name = self._read = ""
        self._place_in_file = ("", "")
        self._computed: tuple[str, ...] = ()
        self._relations: frozenset[str] = frozenset()
        self._stored_name = ""

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Attach the database file to `connection`, and check that the table exists and is no view that computes.

        A view that computes values could fail on a row, which would reveal the row's values.
        Raises: `UnsuitableTable` if there is no such table, or if it is such a view.
        """
        # ATTACH IF NOT EXISTS can wait for ever: DuckDB knows instances by their address, and takes a new one for a
        # closed one at the same address that still holds the file. ATTACH alone raises an error then.
        attached = "SELECT COUNT(*) FROM duckdb_databases() WHERE database_name = $name"
        if connection.execute(attached, {"name": self._catalog}).fetchall() == [(0,)]:
            connection.execute(f"ATTACH {sql_text(str(self._path))} AS {quoted(self._catalog)} (READ_ONLY)")
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = $name ORDER BY ALL",
            {"name": self._catalog},
        ).fetchall()
        place = self._place(tables)
        self._name = self._read = ".".join(map(quoted, (self._catalog, *place)))
        self._place_in_file = place
        catalog = _DuckDBCatalog(connection, self._catalog)
        self._computed = catalog.generated_columns(*place)
        self._relations = frozenset(catalog.names)
        if len(catalog.names) == 1:  # a view is checked together with the table below it
            self._stored_name = ".".join(map(quoted, place))
        if self._computed:
            chosen = ", ".join(map(quoted, self.describe(connection).names))
            self._read = f"(SELECT {chosen} FROM {self._name})"

    def _place(self, tables: Sequence[tuple[str, str]]) -> tuple[str, str]:
        """Return the schema and the name of the table in the file, whose tables are `tables`, as pairs of these two.

        A table may be named without its schema: it is then the one in the schema main, or the only one of its name.
        Upper and lower case make no difference, as in DuckDB.
        Raises: `UnsuitableTable` if there is no such table, or if several schemas other than main have one.
        """
        wanted = self._table.lower()
        matching = [each for each in tables if wanted in (each[1].lower(), ".".join(each).lower())]
        matching = [each for each in matching if each[0] == "main" or wanted == ".".join(each).lower()] or matching
        if not matching:
            names = [name if schema == "main" else f"{schema}.{name}" for schema, name in tables]
            raise _missing(self._path, self._table, names)
        if len(matching) > 1:
            names = [f"{self._path}::{schema}.{name}" for schema, name in matching]
            raise UnsuitableTable(f"{self._path} has several tables {self._table!r}: name {' or '.join(names)}")
        return matching[0]

    def relations(self) -> frozenset[str]:
        return self._relations

    def stored_name(self) -> str:
        return self._stored_name

    def describe(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the stored columns of the table, which `cursor` reads from DuckDB's catalogue, as a schema.

        The schema's `left_out` maps each generated column to the reason why it is left out.
        """
        described_rows = cursor.execute(f"DESCRIBE SELECT * FROM {self._name}").fetchall()
        stored = [duckdb_column(name, native) for name, native, *_ in described_rows if name not in self._computed]
        reason = "DuckDB computes it as it reads the table, so one row could make every question fail: copy the table"
        return Schema(tuple(stored), left_out=dict.fromkeys(self._computed, reason))

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        del cursor, columns, name
        return self._read

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the number of rows that DuckDB's catalogue, read by `cursor`, estimates; None for a view."""
        row = cursor.execute(
            "SELECT estimated_size FROM duckdb_tables() WHERE database_name = $database AND schema_name = $schema "
            "AND table_name = $name",
            {"database": self._catalog, "schema": self._place_in_file[0], "name": self._place_in_file[1]},
        ).fetchone()
        return None if row is None else int(row[0])


class _DuckDBCatalog:
    """Definitions of the tables and views in a DuckDB database file, to check that reading them cannot fail on a row.

    The file is attached to `connection` under the name `catalog`. The field `names` has the names, SCHEMA.TABLE in
    lower case, of all tables and views that were checked, with those below them.
    """

    def __init__(self, connection: "duckdb.DuckDBPyConnection", catalog: str) -> None:
        self._connection = connection
        self._catalog = catalog
        self.names: set[str] = set()

    def generated_columns(self, schema: str, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the table `name` in `schema` that DuckDB computes while it reads rows.

        A view that only shows stored columns has none.

        Raises: `UnsuitableTable` for a view that computes anything.
        """
        self.names.add(f"{schema}.{name}".lower())
        place = {"catalog": self._catalog, "schema": schema, "name": name}
        view = self._connection.execute(
            "SELECT sql FROM duckdb_views() WHERE database_name = $catalog AND schema_name = $schema "
            "AND view_name = $name",
            place,
        ).fetchone()
        if view is None:
            rows = self._connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_catalog = $catalog "
                "AND table_schema = $schema AND table_name = $name AND is_generated = 'ALWAYS'",
                place,
            ).fetchall()
            return tuple(column for (column,) in rows)
        if plain_view(str(view[0]), "duckdb", lambda below, table: self._columns(below or schema, table)) is None:
            raise refuse_view(name, "store it with CREATE TABLE ... AS SELECT * FROM the view")
        return ()

    def _columns(self, schema: str, name: str) -> dict[str, Kind] | None:
        """Return {column: type} of the stored (not generated) columns of the table `name`; None if there is no table.

        `schema` is the schema of the table in the database file.
        """
        computed = self.generated_columns(schema, name)
        rows = self._connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = $catalog "
            "AND schema_name = $schema AND table_name = $name",
            {"catalog": self._catalog, "schema": schema, "name": name},
        ).fetchall()
        columns = [duckdb_column(column, native) for column, native in rows]
        return {column.name: column.kind for column in columns if column.name not in computed} or None


class ArrowTable(DuckDBTable):
    """The Arrow table `table` in memory; a cell that DuckDB cannot hold is read as null."""

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
    """The table `table` with text columns converted to the types in `types`; `grammar` says how cells are written.

    A cell that cannot be converted to its column's type is null. A cell with one of the words that `grammar` lists for
    empty cells, such as NA, is null too.
    """

    def __init__(self, table: DuckDBTable, types: Mapping[str, Kind], grammar: CellGrammar = PLAIN_CELLS) -> None:
        super().__init__(table.files, table.origin, columnar=table.columnar)
        self.attaches_file = table.attaches_file
        self._table = table
        self._types = check_types(types)
        self._grammar = grammar
        self._converted: tuple[Column, ...] = ()
        self._texts: tuple[str, ...] = ()

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make the table readable on the DuckDB `connection`, and find its text columns that become other types.

        Raises: `UnknownColumn` if `types` names a column that the table lacks, `UnsuitableTable` if it names a column
        that is neither text nor of the declared type.
        """
        self._table.attach(connection)
        schema = self._table.describe(connection)
        self._converted = converted_columns(self._types, schema)
        if self._grammar.null:
            kinds = {column.name for column in self._converted}
            self._texts = tuple(each.name for each in schema if each.kind is Kind.TEXT and each.name not in kinds)

    def relations(self) -> frozenset[str]:
        return self._table.relations()

    def describe(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns of the table, each with the type as which it is read; `cursor` reads metadata alone.

        A column that is converted from text has its field `from_text` set.
        """
        names = {column.name for column in self._converted}
        columns = tuple(replace(column, from_text=column.name in names) for column in super().describe(cursor))
        return replace(self._table.describe(cursor), columns=columns)

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        cells = {each.name: f"CAST({quoted(each.name)} AS VARCHAR)" for each in self._converted}  # of HUGEINT as well
        read = {each.name: converted_cell(cells[each.name], each.kind, self._grammar) for each in self._converted}
        read |= {each: null_if_word(quoted(each), _TEXT, self._grammar.null) for each in self._texts}
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
    """Return a SQL expression that converts a text cell, with the SQL expression `cell`, to the type `kind`.

    `grammar` says how cells are written, and lists words for empty cells, such as NA. The result is null for such a
    word, and for a cell that cannot be converted.
    """
    return convert_cell(null_if_word(cell, _TEXT, grammar.null), kind, _TEXT, grammar)


def filled_cell(cell: str, grammar: CellGrammar) -> str:
    """Return a SQL expression equal to the text cell `cell`, but null for a word that means an empty cell, such as NA.

    `cell` is a SQL expression, and `grammar` lists the words.
    """
    return null_if_word(cell, _TEXT, grammar.null)


def _missing(path: Path, table: str, tables: Sequence[str]) -> UnsuitableTable:
    """Return the error for a database file at `path` that has no table `table`; the message lists its `tables`."""
    names = ", ".join(map(repr, tables[:50]))
    return UnsuitableTable(f"{path} has no table {table!r}; it has {names or 'none'}")


class JoinedTable(DuckDBTable):
    """The join of a private table (the first of `tables`) with the other tables, by `joins`, on DuckDB.

    `user` is the user column. In a CSV file every column is text, so a key column of a public table is converted, if it
    is text, to the type of the column with which it is compared.
    """

    def __init__(self, tables: Sequence[NamedTable[DuckDBTable]], joins: Sequence[Join], user: str) -> None:
        files = tuple(file for each in tables for file in each.table.files)
        super().__init__(files, columnar=all(each.table.columnar for each in tables))
        self.attaches_file = any(each.table.attaches_file for each in tables)
        self._joins = tuple(joins)
        self._tables = list(tables)
        for place, join in enumerate(joins, 1):
            if join.rows:
                derived = DuckDBDerivedTable(tables[place].table, join.rows)
                self._tables[place] = replace(tables[place], table=derived)
        self._user = user
        self._joined: JoinedTables | None = None
        self._version = ""

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Attach every table of the join to `connection`, and check that the join is allowed.

        A join is allowed if every joined row belongs to one user, and if the types of its keys can be compared.
        Raises: `InvalidParameter` or `UnknownColumn` if the join is not allowed.
        """
        parts: list[JoinInput] = []
        for place, named in enumerate(self._tables):
            named.table.attach(connection)
            schema = named.table.describe(connection)
            self._version = schema.version if place == 0 else self._version
            types = {} if named.private or not parts else types_of_keys(self._joins[place - 1], parts, schema)
            if types:
                typed = TypedTable(named.table, types)
                typed.attach(connection)
                self._tables[place] = NamedTable(name=named.name, table=typed)
                schema = typed.describe(connection)
            parts.append(JoinInput(name=named.name, schema=schema, private=named.private))
        self._joined = JoinedTables(parts, self._joins, self._user)
        self._joined.check_conditions(DuckDBDialect())

    def describe(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns of the join's result, with their field `from_text` set if they are converted from text.

        The schema's `version` is the version of the private table. `cursor` is not used.
        """
        del cursor
        return replace(self._checked_join.schema, version=self._version)

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        relations = [
            named.table.relation(cursor, self._checked_join.needed_columns(place, columns), f"{name}_{place}")
            for place, named in enumerate(self._tables)
        ]
        return self._checked_join.statement(relations, DuckDBDialect(), columns)

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the number of rows of the private table, as an estimate for the join; None if it is not known.

        The number of rows of the join itself can be found only by reading the rows. `cursor` reads the metadata.
        """
        return self._tables[0].table.rows(cursor)

    @property
    def _checked_join(self) -> JoinedTables:
        """The checked join: its tables and the columns of its result.

        `attach` makes and checks the join, so it must be called before.
        """
        assert self._joined is not None, "attach comes first"
        return self._joined


class DuckDBDerivedTable(DuckDBTable):
    """A table computed from `table` by the steps of `derivation`: computed columns, filters, grouping by user."""

    def __init__(self, table: DuckDBTable, derivation: Derivation) -> None:
        super().__init__(table.files, columnar=False)
        self.attaches_file = table.attaches_file
        self._table = table
        self._derivation = derivation
        self._derived: DerivedTable | None = None

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make the underlying table readable on `connection`, and find the columns of the table derived from it.

        Raises: `InvalidParameter` or `UnknownColumn` if a computed column or filter reads columns of an unsuitable
        type.
        """
        self._table.attach(connection)
        schema = self._table.describe(connection)
        self._derived = DerivedTable(self._derivation, schema, DuckDBDialect())
        self._schema = replace(self._derived.schema, version=schema.version)

    def describe(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns of the derived table, as `attach` has computed them; `cursor` is not used."""
        del cursor
        return self._schema

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        assert self._derived is not None, "attach comes first"
        return self._derived.statement(
            self._table.relation(cursor, self._derived.needed_columns(columns), name), columns
        )

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the approximate number of rows of the underlying table, before any step; None if it is not known.

        `cursor` reads the metadata of that table.
        """
        return self._table.rows(cursor)


_MOST_UNFIT_TEXTS = 2_000
"""The most different cells that do not fit the type of their column which are shown for it."""
BATCH_ROWS = 50_000
"""Rows of a SQLite table that are converted to one Arrow batch."""

_CONVERSIONS = {
    # SQLite lets a cell hold any type. A cell that does not fit its column becomes null, so that no row fails.
    "integer": "CASE typeof({0}) WHEN 'integer' THEN {0} END",
    "real": "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END",
    "text": "CASE WHEN typeof({0}) <> 'blob' THEN CAST({0} AS TEXT) END",
}


class SqliteTable(DuckDBTable):
    """The table `table` of the SQLite database file `path`, opened read-only by Python's own driver.

    Columns are integer, float or text by their declared type; a column of any other declared type is read as text. A
    cell that does not fit the type of its column is null.
    """

    def __init__(self, path: Path, table: str) -> None:
        super().__init__((path,), str(path), columnar=False)
        self._path = path
        self._table = table
        self._relations: set[str] = set()
        self._stored_name = ""

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Check that the SQLite table exists and is no view that computes values; `connection` is not used.

        Such a view could fail on a row, which would reveal the row's values.
        Raises: `UnsuitableTable` if there is no such table, or if it is such a view.
        """
        del connection
        with closing(self._open()) as source:
            rows = source.execute(
                "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchall()
            tables = {str(name): str(statement) if kind == "view" else None for kind, name, statement in rows}
            if self._table not in tables:
                raise _missing(self._path, self._table, sorted(tables))
            self._columns_below(source, tables, "", self._table)
            self._stored_name = quoted(self._table) if tables[self._table] is None else ""
        virtual = {
            f"main.{name}".lower() for _, name, statement in rows if str(statement)[:15].upper() == "CREATE VIRTUAL "
        }
        if self._relations & virtual:  # its module reads other tables of the file, and nothing says which
            self._relations.update(f"main.{name}".lower() for name in tables)

    def relations(self) -> frozenset[str]:
        return frozenset(self._relations)

    def stored_name(self) -> str:
        return self._stored_name

    def unfit_cells(self, columns: Collection[str]) -> dict[str, UnfitCells]:
        found = {}
        with closing(self._open()) as source:
            for column, declared in self._columns(source):
                if column not in columns:
                    continue
                cell, table = quoted(column), quoted(self._table)
                fitting = _CONVERSIONS[_affinity(declared)].format(cell)
                filled, fit = source.execute(f"SELECT COUNT({cell}), COUNT({fitting}) FROM {table}").fetchone()
                if filled > fit:
                    texts = source.execute(
                        f"SELECT DISTINCT CAST({cell} AS TEXT) FROM {table} "
                        f"WHERE {cell} IS NOT NULL AND {fitting} IS NULL LIMIT {_MOST_UNFIT_TEXTS}"
                    ).fetchall()
                    found[column] = UnfitCells(
                        declared=declared,
                        cells=filled - fit,
                        filled=filled,
                        texts=tuple(text for (text,) in texts if text is not None),
                    )
        return found

    def _columns_below(
        self, source: sqlite3.Connection, views: Mapping[str, str | None], schema: str, name: str
    ) -> dict[str, Kind] | None:
        """Return {column name: type} of the table or view `name`; None if there is no such table or view.

        To check that a view computes nothing, this method follows it down to the table that it reads.

        - `source` is the connection to the SQLite file.
        - `views` maps the name of each table to None, and the name of each view to its SQL.
        - `schema` is the schema that stands before `name` in a view's SQL: "" or "main". Any other schema is not in
          this file, and gives None.

        Every type is given as integer, because types do not matter here: SQLite can compare any constant with any
        column.
        Raises: `UnsuitableTable` for a view that computes anything.
        """
        statement = next((text for each, text in views.items() if each.lower() == name.lower()), "")
        if statement == "" or schema not in ("", "main"):
            return None
        self._relations.add(f"main.{name}".lower())
        if statement is not None:
            others = {
                view: text for view, text in views.items() if view.lower() != name.lower()
            }  # without the view itself, so that views which refer to each other cannot recurse for ever
            below = partial(self._columns_below, source, others)
            if plain_view(statement, "sqlite", below) is None:
                raise refuse_view(name, "store it with CREATE TABLE ... AS SELECT * FROM the view")
        # INTEGER stands for every kind here, because SQLite's comparisons cannot fail.
        columns = source.execute(f"PRAGMA table_info({quoted(name)})")
        return {str(row[1]): Kind.INTEGER for row in columns}

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        import pyarrow as pa

        with closing(self._open()) as source:
            affinities = [(column, _affinity(declared)) for column, declared in self._columns(source)]
        chosen = [(column, affinity) for column, affinity in affinities if columns is None or column in columns]
        types = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string()}
        schema = pa.schema([(column, types[affinity]) for column, affinity in chosen])
        cells = ", ".join(_CONVERSIONS[affinity].format(quoted(column)) for column, affinity in chosen)
        statement = f"SELECT {cells} FROM {quoted(self._table)}"
        cursor.register(name, pa.RecordBatchReader.from_batches(schema, self._batches(statement, schema)))
        return name

    def _open(self) -> sqlite3.Connection:
        """Return a new read-only connection to the SQLite file; text that is not UTF-8 is read as null."""
        source = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        source.text_factory = utf8_text
        return source

    def _columns(self, source: sqlite3.Connection) -> list[tuple[str, str]]:
        """Return (name, declared SQLite type) of each column of the table, read through the connection `source`."""
        return [(row[1], row[2]) for row in source.execute(f"PRAGMA table_info({quoted(self._table)})")]

    def _batches(self, statement: str, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        """Yield the rows of the SQLite SELECT `statement` as Arrow batches with the columns and types of `schema`."""
        import pyarrow as pa

        with closing(self._open()) as source:
            cursor = source.execute(statement)
            while rows := cursor.fetchmany(BATCH_ROWS):
                columns = zip(*rows, strict=True)
                arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _affinity(declared: str) -> str:
    """Return "integer", "real" or "text" for the declared type of a SQLite column, by SQLite's rules of affinity.

    For example, BIGINT gives "integer", DOUBLE "real" and VARCHAR(10) "text". Types such as DATE and BLOB also give
    "text".
    """
    upper = declared.upper()
    if "INT" in upper:
        return "integer"
    return "real" if any(part in upper for part in ("REAL", "FLOA", "DOUB")) else "text"

"""A table of a SQLite file, streamed into DuckDB in batches."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.errors import UnsuitableTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

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
            names = ", ".join(repr(name) for name in sorted(found)[:50])
            raise UnsuitableTable(f"{self.path} has no table {self.table!r}; it has {names or 'none'}")

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = "source_table"
    ) -> str:
        """Make a stream of the table known to the cursor, good for one pass, and return its name there."""
        import pyarrow as pa

        with closing(self._open()) as source:
            found = [(column, _affinity(declared)) for column, declared in self._columns(source)]
        chosen = [(column, affinity) for column, affinity in found if columns is None or column in columns]
        types = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string()}
        schema = pa.schema([(column, types[affinity]) for column, affinity in chosen])
        cells = ", ".join(_CONVERSIONS[affinity].format(_quoted(column)) for column, affinity in chosen)
        statement = f"SELECT {cells} FROM {_quoted(self.table)}"
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
        return [(row[1], row[2]) for row in source.execute(f"PRAGMA table_info({_quoted(self.table)})")]

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


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'

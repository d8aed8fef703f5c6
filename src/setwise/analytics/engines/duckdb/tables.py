"""What DuckDB can read as a table: files, tables of database files, and tables in memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from setwise.analytics.engines.files import csv_header
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def whole_text(table: "pa.Table") -> "pa.Table":
    """Return the table with null where a cell of text is not UTF-8.

    DuckDB sorts text in a form that only UTF-8 survives: a broken cell would come out as a label that nobody has.
    """
    for place, cells in enumerate(table.schema):
        column = table.column(place)
        if _is_text(cells.type) and not _is_whole(column):
            table = table.set_column(place, cells.name, _mended(column))
    return table


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner))


def _is_whole(column: "pa.ChunkedArray") -> bool:
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _mended(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa

    chunks = []
    for chunk in column.chunks:
        coded = pa.types.is_dictionary(chunk.type)
        cells = (chunk.dictionary if coded else chunk).cast(pa.large_binary()).to_pylist()
        texts = pa.array([_decoded(cell) for cell in cells], pa.large_string())
        chunks.append(texts.take(chunk.indices) if coded else texts)
    return pa.chunked_array(chunks, pa.large_string())


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


CSV_TYPES = {
    Kind.TEXT: "VARCHAR",
    Kind.INTEGER: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}


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

    def relation(self, cursor: "duckdb.DuckDBPyConnection") -> str:
        """Return what stands after FROM, made known to this cursor."""
        ...

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return about how many rows there are, where metadata tells."""
        ...


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """One table in one or several Parquet files."""

    files: tuple[Path, ...]
    origin: str

    @property
    def columnar(self) -> bool:
        """Columns are stored apart."""
        return True

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Nothing to make ready."""

    def relation(self, cursor: "duckdb.DuckDBPyConnection") -> str:
        """Return the files as a relation; parts of paths such as year=2024 are columns of text."""
        del cursor
        return f"read_parquet({_listed(self.files)}, hive_types_autocast = false)"

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return how many rows the footers state."""
        found = cursor.execute(f"SELECT SUM(num_rows)::BIGINT FROM parquet_file_metadata({_listed(self.files)})")
        return int((found.fetchone() or (0,))[0] or 0)


@dataclass(frozen=True, slots=True)
class CsvFiles:
    """One table in one or several CSV files with a header.

    Every column is text unless `types` says otherwise, and a cell that is not of that type is null: types guessed from
    some of the rows would make the schema, and errors, depend on the data.
    """

    files: tuple[Path, ...]
    origin: str
    separator: str = ","
    types: Mapping[str, Kind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in self.types.items():
            if kind not in list(CSV_TYPES):
                allowed = ", ".join(CSV_TYPES)
                raise InvalidParameter(f"the type of column {name!r} must be one of {allowed}, not {kind!r}")
        object.__setattr__(self, "types", {name: Kind(kind) for name, kind in self.types.items()})

    @property
    def columnar(self) -> bool:
        """Every pass reads every line."""
        return False

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Nothing to make ready."""

    def relation(self, cursor: "duckdb.DuckDBPyConnection") -> str:
        """Return the files as a relation, with the typed columns converted."""
        del cursor
        header = csv_header(self.files, self.separator)
        for name in self.types:
            if name not in header:
                raise UnknownColumn(
                    f"{self.files[0].name} has no column {name!r}; it has {', '.join(map(repr, header))}"
                )
        columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in header)
        chosen = ", ".join(_converted(name, self.types.get(name, Kind.TEXT)) for name in header)
        options = f"""header = true, auto_detect = false, delim = {_text(self.separator)}, quote = '"', escape = '"'"""
        return f"(SELECT {chosen} FROM read_csv({_listed(self.files)}, columns = {{{columns}}}, {options}))"

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return None: nothing but reading tells."""
        del cursor
        return None


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table of a DuckDB database file, opened for reading only."""

    path: Path
    table: str

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
        connection.execute(f"ATTACH {_text(str(self.path))} AS source (READ_ONLY)")
        found = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = 'source' ORDER BY ALL"
        ).fetchall()
        if not any(self.table in (name, f"{schema}.{name}") for schema, name in found):
            names = ", ".join(repr(name if schema == "main" else f"{schema}.{name}") for schema, name in found[:50])
            raise UnsuitableTable(f"{self.path} has no table {self.table!r}; it has {names or 'none'}")

    def relation(self, cursor: "duckdb.DuckDBPyConnection") -> str:
        """Return the table's full name."""
        del cursor
        return "source." + ".".join(_quoted(part) for part in self.table.split("."))

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the size the catalogue estimates."""
        found = cursor.execute(
            "SELECT estimated_size FROM duckdb_tables() WHERE database_name = 'source' AND table_name = $name",
            {"name": self.table.split(".")[-1]},
        ).fetchone()
        return None if found is None else int(found[0])


@dataclass(frozen=True, slots=True, eq=False)
class ArrowTable:
    """An Arrow table in memory; a cell of text that is not UTF-8 is null, as in the other sources."""

    table: "pa.Table"

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", whole_text(self.table))

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

    def relation(self, cursor: "duckdb.DuckDBPyConnection") -> str:
        """Make the table known to the cursor and return its name there."""
        cursor.register("source_table", self.table)
        return "source_table"

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the table's length."""
        del cursor
        return int(self.table.num_rows)


def _converted(name: str, kind: Kind) -> str:
    """Return a cell as its column's type, or null; DuckDB alone would round 3.7 to a whole number."""
    cell = _quoted(name)
    match kind:
        case Kind.TEXT:
            return cell
        case Kind.INTEGER | Kind.DATE:
            pattern = "[+-]?[0-9]+" if kind is Kind.INTEGER else "[0-9]{4}-[0-9]{2}-[0-9]{2}"
            converted = f"TRY_CAST({cell} AS {CSV_TYPES[kind]})"
            return f"CASE WHEN regexp_full_match({cell}, '{pattern}') THEN {converted} END AS {cell}"
        case _:
            return f"TRY_CAST({cell} AS {CSV_TYPES[kind]}) AS {cell}"


def _listed(files: tuple[Path, ...]) -> str:
    return f"[{', '.join(_text(str(file)) for file in files)}]"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'

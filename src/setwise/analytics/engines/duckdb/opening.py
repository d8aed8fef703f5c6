"""Functions that open files, tables in memory, database files and lake tables (Delta, Iceberg) with DuckDB."""

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.files import CsvFiles, ParquetFiles
from setwise.analytics.engines.duckdb.tables import (
    ArrowTable,
    DatabaseTable,
    DuckDBDerivedTable,
    DuckDBTable,
    JoinedTable,
    SqliteTable,
    TypedTable,
)
from setwise.analytics.engines.files import (
    DUCKDB_MAGIC,
    PARQUET_MAGIC,
    PARQUET_SUFFIXES,
    SQLITE_MAGIC,
    CsvOptions,
    apply_description,
    check_format,
    files_of,
    lake_folder,
    magic_of,
)
from setwise.analytics.engines.object_store import is_stored, split_version
from setwise.analytics.engines.prepared import read_prepared
from setwise.analytics.engines.registry import OpenRequest
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, UnsuitableTable


def open_tables(request: OpenRequest) -> DuckDBEngine:
    """Return a DuckDB engine that reads the tables that `request` names.

    The tables are joined, filtered, grouped per user and given computed columns as `request` says. A single path can
    also hold a prepared dataset (a stored random ranking of each user's groups), which the engine then reads.
    """
    tables = request.convert_tables(lambda table: duckdb_table(table.source, table.table, table.types, table.csv))
    table = JoinedTable(tables, request.joins, request.user) if request.joins else tables[0].table
    if request.derivation:
        table = DuckDBDerivedTable(table, request.derivation)
    source = request.tables[0].table.source
    is_path = isinstance(source, str | Path) and not is_stored(source)
    is_plain = not request.joins and not request.derivation
    manifest = read_prepared(Path(str(source))) if is_path and is_plain else None
    return DuckDBEngine(table, memory=request.memory, progress=request.progress, manifest=manifest)


def duckdb_table(
    source: object, table: str | None, types: Mapping[str, Kind], csv: CsvOptions | None = None
) -> DuckDBTable:
    """Return `source` (a path, folder, glob, address or table in memory) as a table that DuckDB can read.

    - `table` names a table of a database file. None for other sources.
    - `types` maps text columns to the types as which they are read.
    - `csv` says how CSV files are written. If it is None or has only defaults, the options and further types are taken
      from a description file beside the first file, if there is one.

    Raises: `UnsuitableTable` for a source that cannot be read, `InvalidParameter` for an object of an unknown type.
    """
    types, options = apply_description(source, types, csv or CsvOptions())
    match source:
        case str() | Path():
            opened = _file_table(str(source), table, options)
        case _:
            opened = _frame_table(source)
    return TypedTable(opened, types, options.cells) if types or options.null else opened


def untyped_table(source: object, table: str | None, csv: CsvOptions) -> DuckDBTable:
    """Return `source`, a path or a table in memory, as a table whose text columns are not converted to other types.

    So a caller can count the cells that a conversion would make null. Words for empty cells, such as NA, stay text, and
    a description file beside the files is ignored. `csv` says how CSV files are written. `table` names a table of a
    database file, and is None for other sources.
    Raises: `UnsuitableTable` if the files cannot be read or are of several formats.
    """
    # For counts of unreadable cells: a conversion would turn them into nulls. So a description file is ignored, too.
    return _file_table(str(source), table, csv) if isinstance(source, str | Path) else _frame_table(source)


def _file_table(source: str, table: str | None, csv: CsvOptions) -> DuckDBTable:
    """Return the file or files that `source` (a path, folder, glob or address) names, as one table.

    `table` names a table of a database file, and is None for other files. `csv` says how CSV files are written.
    Raises: `UnsuitableTable` if the files cannot be read or are of several formats.
    """
    path, separator, named = source.partition("::")
    table = named if separator else table
    if "://" in path and not is_stored(path):
        scheme = path.partition("://")[0]
        raise UnsuitableTable(
            f"DuckDB reads files of this machine and objects by s3://BUCKET/KEY here, not by {scheme}://: copy the "
            "table, or use Spark"
        )
    lake = lake_folder(path)
    if lake is not None:
        from setwise.analytics.engines.duckdb.lake import LakeTable

        return LakeTable(lake)
    files = files_of(path)
    check_format(files[0], csv)
    stems = {csv.suffix_of(file) for file in files}
    magics = {magic_of(file) for file in files}
    if magics & {DUCKDB_MAGIC, SQLITE_MAGIC} and len(files) == 1:
        if not table:
            raise UnsuitableTable(f"{path} is a database: name one of its tables, as in {path}::TABLE")
        database = DatabaseTable if DUCKDB_MAGIC in magics else SqliteTable
        if not isinstance(files[0], Path):
            raise UnsuitableTable("databases are not read from an object store: copy the file to this machine")
        return database(files[0], table)
    origin = split_version(path)[0] if is_stored(path) else os.path.abspath(path)
    if stems <= set(PARQUET_SUFFIXES) or magics == {PARQUET_MAGIC}:
        return ParquetFiles(files, origin)
    if len(stems) > 1:
        raise UnsuitableTable(f"the files of {path} are of several formats: name those of one, as in {path}/*.csv")
    (suffix,) = stems
    if csv.is_csv(suffix):
        return CsvFiles(files, origin, csv.format_of(suffix))
    raise UnsuitableTable(
        f"{path} is no Parquet, DuckDB or SQLite file, and its name does not tell how it is written: give --format csv "
        "or tsv, or --separator; setwise check shows which"
    )


def _frame_table(source: object) -> DuckDBTable:
    """Return `source`, a table in memory (of Arrow, pandas, Polars or DuckDB), as a table that DuckDB can read.

    The library is recognised by the module of the object's class.
    Raises: `UnsuitableTable` for a column that Arrow cannot hold, `InvalidParameter` for any other object.
    """
    from setwise.analytics.engines.duckdb.arrow_cells import from_pandas

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
                return ArrowTable(_compute(source))
            case _:
                pass
    except (arrow.ArrowException, TypeError, ValueError):
        failed = True  # the message is dropped, because it would quote a value
    if failed:
        raise UnsuitableTable("the frame has a column of a type that Arrow cannot hold: convert it to text or numbers")
    raise InvalidParameter(
        "a source must be a path, an Arrow table, a pandas or Polars frame, or a DuckDB relation, not "
        f"{type(source).__name__}"
    )


def _compute(source: Any) -> Any:  # noqa: ANN401 - of a library that need not be installed
    """Return `source`, a Polars lazy frame or DuckDB relation, computed once, as an Arrow table.

    If `source` were computed with every query, a row that fails to convert would decide whether a query is answered.

    Raises: `UnsuitableTable`, without the library's message, if the computation fails.
    """
    failed = ""
    try:
        return source.collect().to_arrow() if type(source).__name__ == "LazyFrame" else source.to_arrow_table()
    except Exception as error:
        failed = type(error).__name__  # only its type is told, because the message would quote a value
    raise UnsuitableTable(f"the source could not be computed ({failed}): run it by itself to see why")

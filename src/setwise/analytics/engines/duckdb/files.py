"""CSV and Parquet files as DuckDB tables, with null for every cell on which DuckDB would fail.

DuckDB fails on a text cell that is not UTF-8, on a timestamp in milliseconds beyond the range of 64-bit microseconds
and on a time of day beyond 24 hours, so that one row would decide whether a query is answered. It fails when a query
reads such a cell, and also when it is the least or greatest value of a column in the file's statistics, which DuckDB
reads to plan the query. Writers leave NaN out of these statistics, from which DuckDB concludes that a column of floats
has none: it then sums NaN as a number, or counts rows that a filter leaves out. Three rules prevent this:

- A query names the columns that it needs, and DuckDB reads no others.
- All cells of a text column are checked when the column is first read, and all cells of a column of floats with
  statistics.
- If a query needs a text column with a cell that is not UTF-8, a column of floats with NaN and statistics, or a column
  of a type on which DuckDB could fail, such as timestamps in milliseconds, the files are read through Arrow instead.

DuckDB and Arrow give all columns the same types and values. Otherwise one cell that is not UTF-8, because of which the
files are read through Arrow, would change the values of other rows.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from setwise.analytics.engines.csv_format import CsvFormat
from setwise.analytics.engines.csv_reader import utf8_text
from setwise.analytics.engines.duckdb.dialect import SOURCE, quoted, sql_text
from setwise.analytics.engines.duckdb.tables import DuckDBTable
from setwise.analytics.engines.files import FilesVersion, columns_of, files_version, open_csv
from setwise.analytics.engines.object_store import StoredObject, TableFile
from setwise.errors import UnsuitableTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq


class CsvFiles(DuckDBTable):
    """One table in one or several CSV files, in which every column is read as text.

    `origin` is the path or glob that named `files`, and `form` their CSV format. Types are not guessed from rows,
    because the table's columns, and errors about them, would then depend on private data.
    """

    def __init__(self, files: tuple[TableFile, ...], origin: str, form: CsvFormat) -> None:
        super().__init__(files, origin, columnar=False)
        self._form = form

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        import pyarrow as pa

        opened = open_csv(self.files, self._form)
        names = columns_of(opened) if columns is None else tuple(columns)

        def batches() -> "Iterator[pa.RecordBatch]":
            """Yield the records of all CSV files of the table as Arrow batches of text, with the columns to read."""
            for csv_file in opened:
                yield from csv_file.batches(names)

        schema = pa.schema([(each, pa.string()) for each in names])
        cursor.register(name, pa.RecordBatchReader.from_batches(schema, batches()))
        return name


NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The folder name that Hive writes for rows whose partition value is null."""
_ARROW_SCHEMA = b"ARROW:schema"
_FOLDER = re.compile(r"([^/=]+)=([^/]*)")


@dataclass(slots=True)
class _ParquetFacts:
    """Facts about one version of a table's Parquet files, kept so that they are read only once.

    - `types` maps each column to its Arrow type.
    - `int96` names the columns of 96-bit timestamps.
    - `sound` says, for each column checked so far, whether DuckDB reads all its cells rightly: for a text column
      whether they are valid UTF-8, for a column of floats whether none is NaN, or there are no statistics.
    - `rows` is the number of rows, or None until it is read.
    """

    types: "dict[str, pa.DataType]"
    int96: frozenset[str]
    sound: dict[str, bool] = field(default_factory=dict)
    rows: int | None = None


class ParquetFiles(DuckDBTable):
    """One table in one or several Parquet files, which must have the same columns of the same types.

    `origin` is the path or glob that named `files`. A folder such as year=2024 in a file's path gives the text column
    year the value 2024; a value that is not UTF-8 after decoding %XX is null.
    """

    def __init__(self, files: tuple[TableFile, ...], origin: str) -> None:
        super().__init__(files, origin, columnar=not isinstance(files[0], StoredObject))  # each pass reads them again
        self._facts: dict[FilesVersion, _ParquetFacts] = {}

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Check, from the footers of the Parquet files, that DuckDB can read the files as one table.

        `connection` is not used, because DuckDB reads such files without attaching them.

        Raises: `UnsuitableTable` unless all files have the same columns of the same types, DuckDB can hold these types,
        and no two column names are equal up to case.
        """
        from setwise.analytics.engines.duckdb.arrow_cells import sound_schema

        del connection
        first = _footer(self.files[0])
        with open_parquet(self.files[0]) as opened:
            names = list(opened.schema_arrow.names)
            sound_schema(opened.schema_arrow)  # raises for a type that cannot be read through Arrow
        names += [key for key in hive_values(self.files[0]) if key not in names]
        if len({name.lower() for name in names}) < len(names):
            raise UnsuitableTable(
                f"{self.files[0]} has two columns whose names differ in upper and lower case alone, or not at all: "
                "rename one of them"
            )
        for file in self.files[1:]:
            if _footer(file) != first:
                raise UnsuitableTable(
                    f"{file} has other columns, or columns of other types, than {self.files[0]}: files of one table "
                    "must share both, so write them with the same types"
                )

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        values = [hive_values(file) for file in self.files]
        broken_path = any(value is None for of_file in values for value in of_file.values())
        needed = {key: kind for key, kind in self._current_facts().types.items() if columns is None or key in columns}
        through_arrow = self._is_stored or broken_path
        if not through_arrow and not any(self._needs_care(*each, columns) for each in needed.items()):
            files = f"read_parquet({_path_list(self.files)}, hive_types_autocast = false)"
            if columns is None:
                return files
            # DuckDB plans a query with the statistics of every column that SELECT * names, read or not. It fails on
            # those of timestamps in milliseconds beyond microseconds, so only the columns of the query are named.
            named = [quoted(each) for each in dict.fromkeys([*needed, *values[0]]) if each in columns]
            return f"(SELECT {', '.join(named)} FROM {files})" if named else files
        keys = [key for key in values[0] if all(key in of_file for of_file in values)]
        cursor.register(name, self._reader(list(needed), keys))
        return name

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the number of rows of all Parquet files, as their footers state it; never None.

        DuckDB reads the footers through `cursor`, unless the files are in an object store.
        """
        known = self._current_facts()
        if known.rows is None and self._is_stored:
            known.rows = 0
            for file in self.files:
                with open_parquet(file) as opened:
                    known.rows += opened.metadata.num_rows
        if known.rows is None:
            result = cursor.execute(
                f"SELECT SUM(num_rows)::BIGINT FROM parquet_file_metadata({_path_list(self.files)})"
            )
            known.rows = int((result.fetchone() or (0,))[0] or 0)
        return known.rows

    def duration_units(self) -> dict[str, str]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with self.files[0].open("rb") as source:
                schema = pq.read_schema(source)
        except (OSError, ValueError, pa.ArrowException):
            return {}  # the question itself is refused for it
        return {cell.name: cell.type.unit for cell in schema if pa.types.is_duration(cell.type)}

    @property
    def _is_stored(self) -> bool:
        """Whether the files are in an object store, so that they are read through Arrow and not by DuckDB itself."""
        return isinstance(self.files[0], StoredObject)

    def _current_facts(self) -> "_ParquetFacts":
        """Return the known facts about the current version of the Parquet files, such as types and number of rows.

        The footers are read when a version is seen for the first time. The facts about an earlier version are then
        forgotten.
        """
        version = files_version(self.files)
        known = self._facts.get(version)
        if known is None:
            with open_parquet(self.files[0]) as first:
                known = _ParquetFacts(parquet_types(first), _int96(first))
            self._facts.clear()
            self._facts[version] = known
        return known

    def _needs_care(self, name: str, kind: "pa.DataType", columns: Sequence[str] | None) -> bool:
        """Return whether Arrow must read the column `name`, because DuckDB could fail on a cell of it or misread it.

        `kind` is the Arrow type of the column. `columns` are the columns that a query reads. If `columns` is None, the
        table is only described and no cell is read, so the result is False. For a column of text or of floats the
        first call reads all its cells; for other columns the type decides.
        """
        import pyarrow as pa

        from setwise.analytics.engines.duckdb.arrow_cells import (
            is_instant_in_nanoseconds,
            is_only_looked_at_for_null,
            is_text,
            reaches_beyond_microseconds,
        )

        if columns is None:  # the columns are described and no cell is read
            return False
        if is_text(kind) or pa.types.is_floating(kind):
            sound = self._current_facts().sound
            # The type of such a column does not decide, so the first call reads the whole column.
            if name not in sound:
                is_sound = _has_sound_text if is_text(kind) else _has_sound_statistics
                sound[name] = all(is_sound(file, name, kind) for file in self.files)
            return not sound[name]
        through_arrow = reaches_beyond_microseconds(kind) or is_only_looked_at_for_null(kind)
        through_arrow = through_arrow or is_instant_in_nanoseconds(kind)
        # DuckDB fails on a time of day beyond 24 hours. If a 96-bit timestamp is out of range, Arrow and DuckDB read
        # different times.
        return through_arrow or pa.types.is_time(kind) or name in self._current_facts().int96

    def _reader(self, names: list[str], keys: list[str]) -> "pa.RecordBatchReader":
        """Return an Arrow reader of the rows of all files, with null for cells that DuckDB cannot hold.

        `names` are the columns to read. `keys` are the columns among `names` whose values are not stored in the files
        but stand in the names of their folders, such as year=2024.
        """
        import pyarrow as pa

        from setwise.analytics.engines.duckdb.arrow_cells import sound_schema, sound_table

        stored = [name for name in names if name not in keys]
        types = self._current_facts().types
        schema = sound_schema(pa.schema([(name, types[name]) for name in stored]))
        for key in keys:
            schema = schema.append(pa.field(key, pa.string()))

        def batches() -> "Iterator[pa.RecordBatch]":
            """Yield the rows of all Parquet files of the table as Arrow batches of the columns that are to be read.

            Cells that DuckDB cannot hold are null. The values of some columns are not in the files but in the names of
            their folders, such as year=2024.
            """
            for file in self.files:
                values = hive_values(file)
                with open_parquet(file) as opened:
                    for batch in opened.iter_batches(columns=stored):
                        table = sound_table(
                            pa.table([stored_column(batch, name, types[name]) for name in stored], stored)
                        )
                        columns = list(table.columns)
                        columns += [pa.array([values[key]] * len(batch), pa.string()) for key in keys]
                        yield from pa.table(columns, schema=schema).to_batches()

        return pa.RecordBatchReader.from_batches(schema, batches())


def hive_values(file: TableFile) -> dict[str, str | None]:
    """Return the column values in a file's path: {"year": "2024"} for a file in a folder year=2024 (Hive's style).

    A value is None for Hive's folder of null values, and for a value that is not UTF-8.
    """
    folders = (_FOLDER.fullmatch(folder) for folder in file.parent.parts)
    return {each[1]: None if each[2] == NO_VALUE else utf8_text(unquote_to_bytes(each[2])) for each in folders if each}


def open_parquet(file: TableFile) -> "pq.ParquetFile":
    """Return a Parquet file opened by Arrow, with the column types that DuckDB reads from the Parquet schema.

    The caller closes the file.

    Raises: `UnsuitableTable` if the file cannot be read as Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.open("rb") as source:
            source.seek(-8, os.SEEK_END)
            size = int.from_bytes(source.read(4), "little")
            source.seek(-8 - size, os.SEEK_END)
            before, key, after = source.read(size).rpartition(_ARROW_SCHEMA)
        # A writer may also have stored an Arrow schema. Renaming its key hides it: with it, Arrow would read text as
        # categories, which fails on text that is not UTF-8.
        footer = before + key.upper() + after
        metadata = pq.read_metadata(pa.BufferReader(b"PAR1" + footer + size.to_bytes(4, "little") + b"PAR1"))
        place = file.open("rb") if isinstance(file, StoredObject) else file
        return pq.ParquetFile(place, metadata=metadata, coerce_int96_timestamp_unit="us")
    except (OSError, ValueError, pa.ArrowException):
        pass  # the message may quote the file
    raise UnsuitableTable(f"{file} cannot be read as Parquet: it is damaged or of another format")


def parquet_types(opened: "pq.ParquetFile") -> "dict[str, pa.DataType]":
    """Return an Arrow type for each column of the Parquet file `opened`: the type that DuckDB reads it as.

    The type differs from Arrow's own choice in two cases. An enumeration is text in DuckDB but bytes in Arrow. A
    timestamp annotated in the older way has no time zone in DuckDB but is in UTC in Arrow.
    """
    import pyarrow as pa

    logical = {leaf.path: leaf.logical_type for leaf in _leaves(opened)}
    types = {cell.name: cell.type for cell in opened.schema_arrow}
    for name, kind in types.items():
        if pa.types.is_binary(kind) and logical[name].type == "ENUM":
            types[name] = pa.string()
        elif pa.types.is_timestamp(kind) and "is_from_converted_type=true" in str(logical[name]):
            types[name] = pa.timestamp(kind.unit)
    return types


def _int96(opened: "pq.ParquetFile") -> frozenset[str]:
    """Return the names of the columns of the Parquet file `opened` whose timestamps have 96 bits, as in older files."""
    return frozenset(leaf.path for leaf in _leaves(opened) if leaf.physical_type == "INT96")


def _leaves(opened: "pq.ParquetFile") -> "list[pq.ColumnSchema]":
    """Return the leaf columns of the Parquet file `opened`: those that store values, also inside lists."""
    return [opened.schema.column(place) for place in range(len(opened.schema))]


def stored_column(batch: "pa.RecordBatch", name: str, kind: "pa.DataType") -> "pa.Array":
    """Return the column `name` of `batch` with its bytes read as the Arrow type `kind`.

    For example, bytes become text, and timestamps gain or lose the time zone UTC. A column that has the type already is
    returned unchanged.
    """
    column = batch.column(name)
    return column if column.type == kind else column.view(kind)


def _footer(file: TableFile) -> dict[str, tuple[str, str, int]]:
    """Return (physical type, logical type, nesting depth) of each column of a Parquet file, by the column's path.

    The caller reads several files as one table only if their results are equal. Only the footer of the file is read.

    Raises: `UnsuitableTable` if the file cannot be read as Parquet.
    """
    with open_parquet(file) as opened:
        leaves = _leaves(opened)
        return {leaf.path: (leaf.physical_type, str(leaf.logical_type), leaf.max_repetition_level) for leaf in leaves}


def _has_sound_text(file: TableFile, name: str, kind: "pa.DataType") -> bool:
    """Return whether every cell of the text column `name`, of Arrow type `kind`, of a file is valid UTF-8."""
    from setwise.analytics.engines.duckdb.arrow_cells import is_sound_text

    with open_parquet(file) as opened:
        batches = opened.iter_batches(columns=[name], batch_size=2**17)
        return all(is_sound_text(stored_column(batch, name, kind)) for batch in batches)


def _has_sound_statistics(file: TableFile, name: str, kind: "pa.DataType") -> bool:
    """Return whether the statistics of the column `name` of floats, of Arrow type `kind`, are true of all its cells.

    Statistics are the least and the greatest value in a part of the file. Writers such as pyarrow and polars leave NaN
    out of them, and DuckDB concludes that there is none, for example that isnan(x) is always false. Statistics that
    are missing are true as well.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    with open_parquet(file) as opened:
        metadata = opened.metadata
        (place,) = (place for place, leaf in enumerate(_leaves(opened)) if leaf.path == name)
        groups = [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
        described = [group for group, known in enumerate(groups) if known is not None and known.has_min_max]
        batches = opened.iter_batches(columns=[name], row_groups=described, batch_size=2**17)
        columns = (stored_column(batch, name, kind) for batch in batches)
        columns = (column.cast(pa.float32()) if pa.types.is_float16(kind) else column for column in columns)
        return not any(pc.any(pc.is_nan(column)).as_py() for column in columns)


def _path_list(files: tuple[TableFile, ...]) -> str:
    """Return a SQL list literal of the paths of `files`, for DuckDB's read_parquet."""
    return f"[{', '.join(sql_text(str(file)) for file in files)}]"

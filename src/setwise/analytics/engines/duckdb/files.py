"""Files as DuckDB reads them: CSV by `csv_reader`, Parquet with null for a cell that it would fail on.

DuckDB fails on a cell of text that is not UTF-8 and on a timestamp in milliseconds beyond the microseconds of 64 bits,
and only when it comes across one: one row would decide whether a question is answered, by whether it passes the
filter. So columns of text are checked as a whole when they are first read; a question that needs one with such a cell,
or timestamps in milliseconds, reads the files through Arrow. All columns then have the types and values that DuckDB
finds by itself: otherwise one cell would decide how everybody's times are read.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from setwise.analytics.engines.csv_format import CsvFormat
from setwise.analytics.engines.csv_reader import utf8_text
from setwise.analytics.engines.duckdb.dialect import SOURCE, sql_text
from setwise.analytics.engines.duckdb.tables import DuckDBTable
from setwise.analytics.engines.files import FilesVersion, columns_of, files_version, open_csv
from setwise.errors import UnsuitableTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq


class CsvFiles(DuckDBTable):
    """One table in one or several CSV files; every column is text.

    Types guessed from some of the rows would make the schema, and errors, depend on the data.
    """

    def __init__(self, files: tuple[Path, ...], origin: str, form: CsvFormat) -> None:
        super().__init__(files, origin, columnar=False)
        self._form = form

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        import pyarrow as pa

        opened = open_csv(self.files, self._form)
        names = columns_of(opened) if columns is None else tuple(columns)

        def batches() -> "Iterator[pa.RecordBatch]":
            for csv_file in opened:
                yield from csv_file.batches(names)

        schema = pa.schema([(each, pa.string()) for each in names])
        cursor.register(name, pa.RecordBatchReader.from_batches(schema, batches()))
        return name


NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The name of the folder of rows without a value."""
_ARROW_SCHEMA = b"ARROW:schema"
_FOLDER = re.compile(r"([^/=]+)=([^/]*)")


@dataclass(slots=True)
class _Learned:
    """What was read of one version of the files: types by column, whether a column of text is UTF-8, how many rows.

    `int96` are the columns of timestamps in 96 bits, of which Arrow and DuckDB wrap those out of range differently.
    """

    types: "dict[str, pa.DataType]"
    int96: frozenset[str]
    sound: dict[str, bool] = field(default_factory=dict)
    rows: int | None = None


class ParquetFiles(DuckDBTable):
    """One table in one or several Parquet files, which must have the same columns of the same types.

    Parts of paths such as year=2024 are columns of text; what is not UTF-8 there after decoding %XX is null.
    """

    def __init__(self, files: tuple[Path, ...], origin: str) -> None:
        super().__init__(files, origin)
        self._learned: dict[FilesVersion, _Learned] = {}

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """See that the files have the same columns, by their footers alone, and that DuckDB can tell and read them."""
        from setwise.analytics.engines.duckdb.arrow_cells import sound_schema

        del connection
        first = _footer(self.files[0])
        with _opened(self.files[0]) as opened:
            names = list(opened.schema_arrow.names)
            sound_schema(opened.schema_arrow)  # refuses what only DuckDB by itself could read
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
        needed = {key: kind for key, kind in self._now().types.items() if columns is None or key in columns}
        if not broken_path and not any(self._needs_care(*each, columns) for each in needed.items()):
            return f"read_parquet({_listed(self.files)}, hive_types_autocast = false)"
        keys = [key for key in values[0] if all(key in of_file for of_file in values)]
        cursor.register(name, self._reader(list(needed), keys))
        return name

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return how many rows the footers state."""
        known = self._now()
        if known.rows is None:
            found = cursor.execute(f"SELECT SUM(num_rows)::BIGINT FROM parquet_file_metadata({_listed(self.files)})")
            known.rows = int((found.fetchone() or (0,))[0] or 0)
        return known.rows

    def _now(self) -> "_Learned":
        """Return what is known of the files as they are: of files that were written since, nothing is."""
        version = files_version(self.files)
        known = self._learned.get(version)
        if known is None:
            with _opened(self.files[0]) as first:
                known = _Learned(_types(first), _int96(first))
            self._learned.clear()
            self._learned[version] = known
        return known

    def _needs_care(self, name: str, kind: "pa.DataType", columns: Sequence[str] | None) -> bool:
        """Whether DuckDB could fail on a cell of a column that a question reads."""
        from setwise.analytics.engines.duckdb.arrow_cells import (
            is_only_looked_at_for_null,
            is_text,
            reaches_beyond_microseconds,
        )

        if columns is None:  # to be described, not read
            return False
        if is_text(kind):
            sound = self._now().sound
            if name not in sound:
                sound[name] = all(_has_sound_text(file, name, kind) for file in self.files)
            return not sound[name]
        through_arrow = reaches_beyond_microseconds(kind) or is_only_looked_at_for_null(kind)
        return through_arrow or name in self._now().int96

    def _reader(self, names: list[str], keys: list[str]) -> "pa.RecordBatchReader":
        """Return the files through Arrow, with null for what DuckDB cannot hold, and the columns of paths."""
        import pyarrow as pa

        from setwise.analytics.engines.duckdb.arrow_cells import sound_schema, sound_table

        stored = [name for name in names if name not in keys]
        types = self._now().types
        schema = sound_schema(pa.schema([(name, types[name]) for name in stored]))
        for key in keys:
            schema = schema.append(pa.field(key, pa.string()))

        def batches() -> "Iterator[pa.RecordBatch]":
            for file in self.files:
                values = hive_values(file)
                with _opened(file) as opened:
                    for batch in opened.iter_batches(columns=stored):
                        table = sound_table(pa.table([_column(batch, name, types[name]) for name in stored], stored))
                        columns = list(table.columns)
                        columns += [pa.array([values[key]] * len(batch), pa.string()) for key in keys]
                        yield from pa.table(columns, schema=schema).to_batches()

        return pa.RecordBatchReader.from_batches(schema, batches())


def hive_values(file: Path) -> dict[str, str | None]:
    """Return the values that the folders of a path name, by their keys; null where they are no text."""
    found = (_FOLDER.fullmatch(folder) for folder in file.parent.parts)
    return {each[1]: None if each[2] == NO_VALUE else utf8_text(unquote_to_bytes(each[2])) for each in found if each}


def _opened(file: Path) -> "pq.ParquetFile":
    """Return a file for Arrow to read by its Parquet types, as DuckDB does.

    A schema of Arrow that was stored beside them is left out: reading into categories fails on text that is not UTF-8.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with file.open("rb") as source:
        source.seek(-8, os.SEEK_END)
        size = int.from_bytes(source.read(4), "little")
        source.seek(-8 - size, os.SEEK_END)
        before, key, after = source.read(size).rpartition(_ARROW_SCHEMA)
    footer = before + key.upper() + after
    metadata = pq.read_metadata(pa.BufferReader(b"PAR1" + footer + size.to_bytes(4, "little") + b"PAR1"))
    return pq.ParquetFile(file, metadata=metadata, coerce_int96_timestamp_unit="us")


def _types(opened: "pq.ParquetFile") -> "dict[str, pa.DataType]":
    """Return the type of every column as DuckDB takes it.

    An enumeration is text for DuckDB and bytes for Arrow, and a timestamp of the older kind of annotation is of no time
    zone for DuckDB and in UTC for Arrow.
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
    return frozenset(leaf.path for leaf in _leaves(opened) if leaf.physical_type == "INT96")


def _leaves(opened: "pq.ParquetFile") -> "list[pq.ColumnSchema]":
    return [opened.schema.column(place) for place in range(len(opened.schema))]


def _column(batch: "pa.RecordBatch", name: str, kind: "pa.DataType") -> "pa.Array":
    """Return a column of a batch as its type: bytes become text, and instants timestamps in UTC, as they are."""
    column = batch.column(name)
    return column if column.type == kind else column.view(kind)


def _footer(file: Path) -> dict[str, tuple[str, str, int]]:
    """Return the physical and logical type of every column, and how deep it is nested."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_metadata(file).schema
    except (OSError, pa.ArrowException):
        raise UnsuitableTable(f"{file} cannot be read as Parquet: it is damaged or of another format") from None
    leaves = [schema.column(place) for place in range(len(schema))]
    return {leaf.path: (leaf.physical_type, str(leaf.logical_type), leaf.max_repetition_level) for leaf in leaves}


def _has_sound_text(file: Path, name: str, kind: "pa.DataType") -> bool:
    """Whether every cell of a column of text is UTF-8."""
    from setwise.analytics.engines.duckdb.arrow_cells import is_sound_text

    with _opened(file) as opened:
        batches = opened.iter_batches(columns=[name], batch_size=2**17)
        return all(is_sound_text(_column(batch, name, kind)) for batch in batches)


def _listed(files: tuple[Path, ...]) -> str:
    return f"[{', '.join(sql_text(str(file)) for file in files)}]"

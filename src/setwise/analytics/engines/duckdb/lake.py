"""Delta and Iceberg tables (lake tables) at one pinned version, read through Arrow into DuckDB.

The folder of such a table also holds files that the table has removed, so only the files that the metadata of the
version lists are read. They lie in a folder of this machine or under a prefix of an object store.

No row may make a query fail, because the failure would reveal the row. So files are read by their Parquet types, and a
cell that DuckDB cannot hold becomes null, as in tables in memory (arrow_cells.py). Everything else that could make a
query fail is checked when the table is opened, from the metadata and the footers of its files. `UnsuitableTable` is
raised for a missing or damaged file, for a file outside the folder of the table, for a column whose stored type cannot
become the type of the table in every cell, and for two columns whose names differ only in case.
"""

import hashlib
import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from setwise.analytics.engines.duckdb.arrow_cells import is_only_looked_at_for_null, is_text, sound_schema, sound_table
from setwise.analytics.engines.duckdb.day_range import DayRange, batches_in_range
from setwise.analytics.engines.duckdb.dialect import SOURCE
from setwise.analytics.engines.duckdb.files import open_parquet, parquet_types, stored_column
from setwise.analytics.engines.duckdb.tables import DuckDBTable
from setwise.analytics.engines.files import LakeFolder
from setwise.analytics.engines.object_store import (
    TableFile,
    delta_options,
    describe_objects,
    iceberg_properties,
    is_stored,
    list_names,
    split_address,
)
from setwise.analytics.schema import Schema
from setwise.errors import MissingExtra, SetwiseError, UnsuitableTable

if TYPE_CHECKING:
    import duckdb

Result = TypeVar("Result")

BATCH_ROWS = 65_536
"""Rows per Arrow batch that is read from a file."""
_FOOTERS_AT_ONCE = 8
"""Threads that read the footers of files; for an object store each thread only waits for the network."""
_READ_FEATURES = frozenset({"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""The reader features of Delta's protocol that this module implements.

A table with another feature, such as column mapping, is refused, because such a feature changes how files are read.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file of a version of a Delta or Iceberg table; `path` is its path in the table's folder.

    - `rows` is the number of rows, or None if the metadata does not state it.
    - `constants` has the values of columns that the file does not store, such as the column of a partition. A column
      that is neither stored nor in `constants` is null.
    - `deleted` has the positions, from 0, of the rows that the version has deleted. None if there are none.
    """

    path: str
    rows: int | None
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    deleted: "np.ndarray[Any, np.dtype[np.int64]] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeVersion:
    """The metadata of version `version` of a Delta or Iceberg table.

    - `table_id` is the identifier of the table. A table that was removed and created again has another one.
    - `schema` has the columns, and `files` are the data files.
    - `field_ids` maps column names to the numbers by which an Iceberg table finds its columns in files. It is empty for
      a Delta table.
    - `name_mapping` maps each of these numbers to the names that the column may have in a file without numbers.
    """

    version: int
    table_id: str
    schema: pa.Schema
    files: tuple[DataFile, ...]
    field_ids: Mapping[str, int] = field(default_factory=dict)
    name_mapping: Mapping[int, Sequence[str]] = field(default_factory=dict)


def current_version(folder: LakeFolder) -> int:
    """Return the newest version number of the Delta table `folder`, or the current snapshot id of an Iceberg table."""
    return _read_version(folder).version


def lake_fingerprint(folder: LakeFolder) -> str:
    """Return a digest of the Delta or Iceberg table `folder` that changes when its rows change.

    It covers the table's identifier, version and files, and how many rows of each are deleted.
    """
    snapshot = _read_version(folder)
    deleted = [None if file.deleted is None else len(file.deleted) for file in snapshot.files]
    files = sorted((file.path, file.rows, count) for file, count in zip(snapshot.files, deleted, strict=True))
    return hashlib.sha256(json.dumps([folder.format, snapshot.table_id, snapshot.version, files]).encode()).hexdigest()


class LakeTable(DuckDBTable):
    """A Delta or Iceberg table in `folder`, read at one version.

    The version is `folder.version` or, if that is None, the version that is current when the object is made.
    """

    def __init__(self, folder: LakeFolder) -> None:
        self._version = _read_version(folder)
        self.version = self._version.version
        super().__init__(
            _files_at(folder, [file.path for file in self._version.files]),
            f"{folder.place}@{self.version}",
            columnar=False,
        )
        self._folder = folder
        self._stored: list[dict[str, tuple[str, pa.DataType]]] = []

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Read the footers of all data files, to find out under which name and type each file stores a column.

        `connection` is not used, because Arrow reads the files.
        Raises: `UnsuitableTable` if a file's stored type of a column cannot become the table's type, if DuckDB cannot
        hold a type, or if two column names are equal up to case.
        """
        del connection
        self.read_footers()

    def read_footers(self) -> None:
        """Read the footers of all data files of the Delta or Iceberg table, and store which columns each file has.

        The rows are later read by these names and types, which can differ from file to file.
        Raises: `UnsuitableTable` if a file cannot be read, if its stored type of a column cannot become the table's
        type, if DuckDB cannot hold a type, or if two column names are equal up to case.
        """
        _check_names(self._version.schema.names, self._folder)
        sound_schema(self._version.schema)
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as threads:
            self._stored = list(threads.map(self._stored_columns, self.files))

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        """Register an Arrow reader of the Delta or Iceberg table's rows with `cursor`, as `name`, and return `name`.

        The reader can be read only once. `columns` are the columns to read, or None for all.
        """
        every = self._version.schema
        chosen = pa.schema([cell for cell in every if columns is None or cell.name in columns])
        cursor.register(name, pa.RecordBatchReader.from_batches(sound_schema(chosen), self._batches(chosen)))
        return name

    def describe(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns of the Delta or Iceberg table, with the types that DuckDB states through `cursor`.

        The schema's `version` is the version of the table that is read.
        """
        return replace(super().describe(cursor), version=str(self.version))

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return the number of rows in the files of the Delta or Iceberg table's version, including deleted rows.

        None if the metadata does not state it for every file. `cursor` is not used.
        """
        del cursor
        counts = [file.rows for file in self._version.files]
        return None if None in counts else sum(count for count in counts if count is not None)

    def rows_in(self, days: DayRange, columns: Sequence[str]) -> pa.Table:
        """Return the rows of the Delta or Iceberg table in the range `days`, as a table in memory.

        The result has the columns `columns`. Files whose partition value is outside the range are not read, nor are row
        groups (parts of a file) whose statistics show that all their times are outside.
        Requires: `read_footers` was called, and the column of times (`days.at`) is among `columns`.
        """
        chosen = pa.schema([cell for cell in self._version.schema if cell.name in columns])
        batches = [days.rows_of(pa.table(batch)) for batch in self._batches(chosen, days)]
        self.check_unchanged()
        return pa.concat_tables([sound_schema(chosen).empty_table(), *batches])

    def _stored_columns(self, file: TableFile) -> dict[str, tuple[str, pa.DataType]]:
        """Return, for each column of the table that the data file `file` stores, its name and Arrow type in the file.

        Raises: `UnsuitableTable` if a stored type cannot become the type of the table.
        """
        with open_parquet(file) as opened:
            types = parquet_types(opened)
            names = _names_in_file(self._version, opened.schema_arrow)
        columns = {}
        for cell in self._version.schema:
            name = names.get(cell.name)
            if name is None:
                continue
            if not _converts(types[name], cell.type):
                raise UnsuitableTable(
                    f"the file {file.name} of {self._folder.name} stores the column {cell.name!r} as {types[name]}, "
                    f"which does not become {cell.type} in every cell: rewrite the files of the table"
                )
            columns[cell.name] = (name, types[name])
        return columns

    def _batches(self, chosen: pa.Schema, days: DayRange | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the Delta or Iceberg table as Arrow batches of the columns `chosen`.

        Deleted rows are left out, and cells that DuckDB cannot hold are null. If `days` is None, all other rows are
        read. Otherwise files and row groups (parts of a file) whose metadata shows that they have no row in the range
        `days` are skipped, but other rows outside the range remain, and the caller filters them.
        """
        schema = sound_schema(chosen)
        for file, place, stored in zip(self._version.files, self.files, self._stored, strict=True):
            held = {cell.name: stored[cell.name] for cell in chosen if cell.name in stored}
            if days is not None and days.at not in held and days.excludes_constant(file.constants.get(days.at)):
                continue
            with open_parquet(place) as opened:
                names = [name for name, _ in held.values()]
                if days is not None and days.at in held:
                    batches = batches_in_range(opened, names, held[days.at][0], days, BATCH_ROWS)
                else:
                    batches = _with_positions(opened.iter_batches(BATCH_ROWS, columns=names))
                for start, batch in batches:
                    columns = [_column(cell, batch, held, file.constants) for cell in chosen]
                    table = sound_table(pa.table(columns, names=chosen.names))
                    cells = [
                        column if column.type == cell.type else column.cast(cell.type, safe=False)
                        for column, cell in zip(table.columns, schema, strict=True)
                    ]
                    rows = pa.table(cells, schema=schema)
                    if file.deleted is not None:
                        rows = rows.filter(_kept_rows(file.deleted, start, batch.num_rows))
                    yield from rows.to_batches()


def recent_lake_rows(folder: LakeFolder, days: DayRange, columns: Sequence[str]) -> pa.Table:
    """Return the rows of the Delta or Iceberg table `folder` in the range `days`, without reading files of other days.

    The result is a table in memory with the columns `columns`, among which is the column of times.
    Raises: `UnsuitableTable` if the table cannot be read.
    """
    table = LakeTable(folder)
    table.read_footers()
    return table.rows_in(days, columns)


def _with_positions(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (position, batch) for `batches`, all rows of a file; `position` is the number of the batch's first row."""
    start = 0
    for batch in batches:
        yield start, batch
        start += batch.num_rows


def _column(
    cell: pa.Field, batch: pa.RecordBatch, stored: Mapping[str, tuple[str, pa.DataType]], constants: Mapping[str, Any]
) -> pa.Array:
    """Return the values of one column of a Delta or Iceberg table for the rows of `batch`, as an Arrow array.

    `batch` comes from one data file, and `cell` is the column's Arrow field. `stored` maps each column that the file
    stores to its name and type in the file. `constants` maps columns to the one value that they have in the whole file.
    The values of a column in neither are null.
    """
    if cell.name in stored:
        return stored_column(batch, *stored[cell.name])
    if cell.name in constants:
        return pa.repeat(constants[cell.name], batch.num_rows)
    return pa.nulls(batch.num_rows, cell.type)  # the file is older than the column


def _kept_rows(deleted: "np.ndarray[Any, np.dtype[np.int64]]", start: int, rows: int) -> pa.Array:
    """Return an array of booleans for the `rows` rows of a file from position `start` on: False for a deleted row.

    `deleted` are the positions in the file of its deleted rows.
    """
    flags = np.ones(rows, dtype=bool)
    flags[deleted[(deleted >= start) & (deleted < start + rows)] - start] = False
    return pa.array(flags)


def _names_in_file(version: LakeVersion, schema: pa.Schema) -> dict[str, str]:
    """Return {column of the lake table: its name in one data file}, for the columns that the file stores.

    `version` has the table's columns, and `schema` is the Arrow schema of the file. In an Iceberg table a column has a
    number, by which it is found in the file even if it has another name there. In a Delta table it has the same name in
    the file.
    """
    if not version.field_ids:
        return {name: name for name in version.schema.names if name in schema.names}
    ids = {
        int(cell.metadata[b"PARQUET:field_id"]): cell.name
        for cell in schema
        if cell.metadata and b"PARQUET:field_id" in cell.metadata
    }
    if not ids:  # written by a tool that knows no identifiers; the table then maps them to names
        ids = {id_: name for id_, names in version.name_mapping.items() for name in names if name in schema.names}
    return {name: ids[id_] for name, id_ in version.field_ids.items() if id_ in ids}


def _check_names(names: Sequence[str], folder: LakeFolder) -> None:
    """Raise `UnsuitableTable` if two of the column names `names` differ only in case, because DuckDB ignores case.

    `folder` is the folder of the Delta or Iceberg table that has the columns, for the message.
    """
    if len({name.lower() for name in names}) < len(names):
        raise UnsuitableTable(
            f"{folder.name} has two columns whose names differ in upper and lower case alone: rename one of them"
        )


_INTEGERS = [
    (pa.types.is_int8, -(2**7), 2**7 - 1),
    (pa.types.is_int16, -(2**15), 2**15 - 1),
    (pa.types.is_int32, -(2**31), 2**31 - 1),
    (pa.types.is_int64, -(2**63), 2**63 - 1),
    (pa.types.is_uint8, 0, 2**8 - 1),
    (pa.types.is_uint16, 0, 2**16 - 1),
    (pa.types.is_uint32, 0, 2**32 - 1),
    (pa.types.is_uint64, 0, 2**64 - 1),
]
_EXACT_IN_DOUBLE = 2**53


def _converts(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether every cell of Arrow type `stored` converts to type `wanted`, or to null, without an error.

    A Delta or Iceberg table is refused if a file stores a column in a type that does not convert to the type of the
    table.
    """
    if stored == wanted or pa.types.is_null(stored):
        return True
    if is_only_looked_at_for_null(wanted):
        return is_only_looked_at_for_null(stored)
    if is_text(wanted):
        return is_text(stored)
    if pa.types.is_timestamp(wanted):
        finer = wanted.unit == "ns" and stored != wanted
        return bool(pa.types.is_timestamp(stored)) and not (finer and stored.unit != "ns")
    if (span := _span(stored)) is not None:
        if pa.types.is_float64(wanted):
            return span[0] >= -_EXACT_IN_DOUBLE and span[1] <= _EXACT_IN_DOUBLE
        other = _span(wanted)
        return other is not None and other[0] <= span[0] and span[1] <= other[1]
    if pa.types.is_decimal(stored) and pa.types.is_decimal(wanted):
        whole_digits = wanted.precision - wanted.scale, stored.precision - stored.scale
        return bool(wanted.scale >= stored.scale and whole_digits[0] >= whole_digits[1])
    if pa.types.is_floating(stored) and pa.types.is_floating(wanted):
        return bool(stored.bit_width <= wanted.bit_width)
    return _is_bytes(stored) and _is_bytes(wanted)


def _span(kind: pa.DataType) -> tuple[int, int] | None:
    """Return the (least, greatest) integers that the Arrow integer type `kind` can hold; None for other types.

    The caller compares two types: every integer of one fits into the other only if its range is inside that of the
    other.
    """
    return next(((low, high) for test, low, high in _INTEGERS if test(kind)), None)


def _is_bytes(kind: pa.DataType) -> bool:
    """Return whether the Arrow type `kind` is a sequence of bytes (binary or large binary)."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _read_version(folder: LakeFolder) -> LakeVersion:
    """Return the metadata of the lake table in `folder` at the version `folder.version` (None: its current version).

    Raises: `UnsuitableTable` if the version cannot be read, or the table is neither Delta nor Iceberg.
    """
    match folder.format:
        case "Delta":
            return _read_hiding_errors(folder, _read_delta)
        case "Iceberg":
            return _read_hiding_errors(folder, _read_iceberg)
        case other:
            raise UnsuitableTable(f"{folder.name} is a {other} table, which is not read: write it to Parquet")


def _read_hiding_errors(folder: LakeFolder, read: Callable[[LakeFolder], Result]) -> Result:
    """Return `read(folder)`, but raise `UnsuitableTable` in place of an error of the library that reads the lake table.

    The new message names only the error's type, because the library's message may quote addresses, partition values and
    column statistics. A `SetwiseError` passes through.
    """
    failed = ""
    try:
        return read(folder)
    except SetwiseError:
        raise
    except Exception as error:
        failed = type(error).__name__
    version = "" if folder.version is None else f" at version {folder.version}"
    article = "an" if folder.format == "Iceberg" else "a"
    raise UnsuitableTable(f"{folder.name} cannot be opened as {article} {folder.format} table{version} ({failed})")


def _read_delta(folder: LakeFolder) -> LakeVersion:
    """Return the metadata of a Delta table at the version number `folder.version` (None: its newest version).

    Raises: `UnsuitableTable` if the table uses a Delta feature that Setwise cannot read, or its metadata is damaged.
    """
    module = _module("deltalake", "delta")
    options = delta_options() if is_stored(folder.place) else None
    table = module.DeltaTable(folder.place, version=folder.version, storage_options=options)
    features = set(table.protocol().reader_features or ())
    mapped = table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
    if mapped or not features <= _READ_FEATURES:
        unknown = ", ".join(sorted(features - _READ_FEATURES)) or "columnMapping"
        raise UnsuitableTable(
            f"{folder.name} is a Delta table with features that are not read ({unknown}): write it to a plain "
            "Delta table or to Parquet"
        )
    schema = pa.schema(table.schema())
    root = unquote(str(table.table_uri)).rstrip("/") + "/"
    deleted = {
        unquote(str(line["filepath"])).removeprefix(root): np.flatnonzero(~np.asarray(line["selection_vector"], bool))
        for line in pa.table(table.deletion_vectors()).to_pylist()
    }
    files = []
    for line in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        path = unquote(str(line["path"]))
        constants = {
            cell.name: pa.scalar(line[f"partition.{cell.name}"]).cast(cell.type)
            for cell in schema
            if f"partition.{cell.name}" in line
        }
        files.append(
            DataFile(path=path, rows=line.get("num_records"), constants=constants, deleted=deleted.pop(path, None))
        )
    if deleted:
        raise UnsuitableTable(f"{folder.name} deletes rows of files that it does not list: its metadata is damaged")
    return LakeVersion(
        version=int(table.version()), table_id=str(table.metadata().id), schema=schema, files=tuple(files)
    )


def _read_iceberg(folder: LakeFolder) -> LakeVersion:
    """Return the metadata of an Iceberg table at the snapshot with id `folder.version` (None: its current snapshot).

    Raises: `UnsuitableTable` if there is no such snapshot, if it has rows that are deleted by their values (Iceberg's
    equality deletes), or if one of its data files is not Parquet or lies outside `folder`.
    """
    tables = _module("pyiceberg.table", "iceberg")
    properties = iceberg_properties() if is_stored(folder.place) else {}
    table = tables.StaticTable.from_metadata(_newest_metadata(folder), properties=properties)
    snapshot = table.current_snapshot() if folder.version is None else table.snapshot_by_id(folder.version)
    if snapshot is None and folder.version is not None:
        raise UnsuitableTable(f"{folder.name} has no snapshot {folder.version}")
    scan = table.scan(snapshot_id=None if snapshot is None else snapshot.snapshot_id)
    projection = scan.projection()
    schema = _module("pyiceberg.io.pyarrow", "iceberg").schema_to_pyarrow(projection, include_field_ids=False)
    tasks = _plan_files(scan, folder)
    deleted = _position_deletes(table.io, tasks, folder)
    mapping = table.name_mapping()
    return LakeVersion(
        version=0 if snapshot is None else int(snapshot.snapshot_id),
        table_id=str(table.metadata.table_uuid),
        schema=schema,
        files=tuple(
            DataFile(
                path=_relative_path(folder, str(task.file.file_path)),
                rows=int(task.file.record_count),
                constants=_iceberg_constants(table, task.file, projection, schema),
                deleted=deleted.get(str(task.file.file_path)),
            )
            for task in tasks
        ),
        field_ids={cell.name: int(cell.field_id) for cell in projection.fields},
        name_mapping={} if mapping is None else {int(each.field_id): tuple(each.names) for each in mapping.root},
    )


def _plan_files(scan: Any, folder: LakeFolder) -> list[Any]:  # noqa: ANN401 - of pyiceberg
    """Return pyiceberg's tasks for the snapshot that `scan` reads: each is a data file together with its delete files.

    A delete file lists rows of the data file that are deleted. `folder` is the table's folder, for messages.
    Raises: `UnsuitableTable` if rows are deleted by their values (equality deletes), or a data file is not Parquet.
    """
    failed = False
    try:
        tasks = list(scan.plan_files())
    except ValueError:  # what pyiceberg raises for equality deletes
        failed = True
    if failed:
        raise UnsuitableTable(
            f"{folder.name} is an Iceberg table with equality deletes, which are not read: rewrite its data "
            "files, or write it to Parquet"
        )
    if any(str(task.file.file_format.value).upper() != "PARQUET" for task in tasks):
        raise UnsuitableTable(f"{folder.name} is an Iceberg table with files that are not Parquet, which are not read")
    return tasks


def _position_deletes(
    io: Any,  # noqa: ANN401 - of pyiceberg
    tasks: Sequence[Any],
    folder: LakeFolder,
) -> "dict[str, np.ndarray[Any, np.dtype[np.int64]]]":
    """Return a dict from the path of each data file to the sorted positions of its deleted rows.

    They are read from the position delete files and deletion vectors of pyiceberg's `tasks`. `io` is pyiceberg's file
    access, and `folder` the table's folder.
    """
    reader = _module("pyiceberg.io.pyarrow", "iceberg")
    deleted_places: dict[str, list[np.ndarray[Any, np.dtype[np.int64]]]] = {}
    for file in {file.file_path: file for task in tasks for file in task.delete_files}.values():
        inside = _relative_path(folder, str(file.file_path))
        if str(file.file_format.value).upper() == "PARQUET":
            with open_parquet(_files_at(folder, [inside])[0]) as opened:
                lines = opened.read(columns=["file_path", "pos"])
            paths = lines.column("file_path").unique().to_pylist()
            deletes = {path: lines.filter(pc.equal(lines.column("file_path"), path)).column("pos") for path in paths}
        else:
            deletes = reader._read_deletes(io, file)
        for path, places in deletes.items():
            deleted_places.setdefault(str(path), []).append(np.asarray(places.to_numpy(), dtype=np.int64))
    return {path: np.unique(np.concatenate(places)) for path, places in deleted_places.items()}


def _iceberg_constants(
    table: Any,  # noqa: ANN401 - of pyiceberg
    file: Any,  # noqa: ANN401 - of pyiceberg
    projection: Any,  # noqa: ANN401 - of pyiceberg
    schema: pa.Schema,
) -> dict[str, pa.Scalar]:
    """Return {column name: value} for columns that have this value in all rows of a data file that does not store them.

    There are two kinds of such columns: those by whose values the table is partitioned, and those added to the table
    later, which have a default value. `table` and `file` (the data file) are pyiceberg's objects. `projection` is its
    schema of the columns to read, and `schema` the same in Arrow's form.
    """
    identity = _module("pyiceberg.transforms", "iceberg").IdentityTransform
    names = {int(cell.field_id): cell.name for cell in projection.fields}
    # the defaults of columns that were added to the table later
    constants = {
        cell.name: pa.scalar(cell.initial_default, schema.field(cell.name).type)
        for cell in projection.fields
        if getattr(cell, "initial_default", None) is not None
    }
    for place, part in enumerate(table.specs()[file.spec_id].fields):
        # A column by which the table is partitioned unchanged (the identity transform) has one value in a file.
        if isinstance(part.transform, identity) and int(part.source_id) in names:
            name = names[int(part.source_id)]
            kind = schema.field(name).type
            value = file.partition[place]
            if value is not None and not pa.types.is_nested(kind):
                constants[name] = _scalar(value, kind)
    return constants


def _scalar(value: object, kind: pa.DataType) -> pa.Scalar:
    """Return `value`, by which rows of an Iceberg table are partitioned, as an Arrow scalar of type `kind`.

    A date or time may be given as the integer that Iceberg stores for it.
    """
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and (pa.types.is_date(kind) or pa.types.is_timestamp(kind))
    ):
        width = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        return pa.scalar(value, width).cast(kind)
    return pa.scalar(value, kind)


def _newest_metadata(folder: LakeFolder) -> str:
    """Return the path of the metadata file in the Iceberg table `folder` whose name begins with the highest version.

    Raises: `UnsuitableTable` if there is no metadata file.
    """
    metadata = f"{folder.place}/metadata"
    names = list_names(metadata) if is_stored(folder.place) else [file.name for file in Path(metadata).iterdir()]
    files = [name for name in names if name.endswith(".metadata.json")]

    def number(name: str) -> int:
        """Return the version number at the start of the file name `name` (3 for v3.metadata.json), or else -1."""
        match = re.match(r"v?(\d+)", name)
        return int(match[1]) if match else -1

    if not files:
        raise UnsuitableTable(f"the metadata of the Iceberg table {folder.name} is gone")
    return f"{metadata}/{max(files, key=number)}"


def _relative_path(folder: LakeFolder, path: str) -> str:
    """Return a data file's `path` relative to the table's `folder`; raise `UnsuitableTable` if it lies elsewhere."""
    place = folder.place
    if is_stored(place):
        plain = re.sub(r"^s3[an]?://", "s3://", path)
    else:
        plain = str(Path(re.sub(r"^file:/+", "/", path)).resolve())  # Iceberg quotes nothing in its paths
        place = str(Path(place).resolve())
    if not plain.startswith(f"{place}/"):
        raise UnsuitableTable(
            f"{folder.name} lists files outside of its own folder, which are not read: rewrite the table in one folder"
        )
    return plain.removeprefix(f"{place}/")


def _files_at(folder: LakeFolder, paths: Sequence[str]) -> tuple[TableFile, ...]:
    """Return the files at `paths`, which are relative to `folder`, the folder of a Delta or Iceberg table.

    Raises: `UnsuitableTable` for a path that leads out of the folder.
    """
    if any("://" in path or path.startswith("/") or ".." in path.split("/") for path in paths):
        raise UnsuitableTable(
            f"{folder.name} lists files outside of its own folder, which are not read: rewrite the table in one folder"
        )
    if not is_stored(folder.place):
        return tuple(folder.path / path for path in paths)
    bucket, prefix = split_address(folder.place)
    return describe_objects(bucket, [f"{prefix}/{path}" if prefix else path for path in paths])


def _module(name: str, extra: str) -> ModuleType:
    """Return the imported module `name`; raise `MissingExtra`, which names the `extra` to install, if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtra(
            f"{extra.capitalize()} tables need {name.partition('.')[0]}: pip install 'setwise[{extra}]'"
        ) from None

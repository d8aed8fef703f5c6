"""Delta and Iceberg tables, read by their metadata at one version, through Arrow into DuckDB.

The folder of such a table also holds files that the table has removed, so the files are those that the metadata of
the version lists. Arrow's Parquet reader fails on no cell, and every batch is made sound as tables in memory are
(arrow_cells.py), so no row decides whether a question is answered.
"""

import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from setwise.analytics.engines.duckdb.arrow_cells import sound_schema, sound_table
from setwise.analytics.engines.duckdb.dialect import SOURCE
from setwise.analytics.engines.duckdb.tables import DuckDBTable
from setwise.analytics.engines.files import LakeFolder
from setwise.analytics.schema import Schema
from setwise.errors import EngineFailed, MissingExtra, UnsuitableTable

if TYPE_CHECKING:
    import duckdb

BATCH_ROWS = 65_536
_READ_FEATURES = frozenset({"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of Delta's protocol that are understood here. Others, such as column mapping, change what a file means."""


def current_version(folder: LakeFolder) -> int:
    """Return the newest version of a Delta table, or the current snapshot of an Iceberg table."""
    return _opened(folder).version


class LakeTable(DuckDBTable):
    """A Delta or Iceberg table in a local folder, at the version that is named or current when it is opened."""

    def __init__(self, folder: LakeFolder) -> None:
        super().__init__(columnar=False)
        self._contents = _opened(folder)
        self.version = self._contents.version

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        """Register a reader of the version's rows, good for one pass, and return its name."""
        every = self._contents.schema
        chosen = pa.schema([field for field in every if columns is None or field.name in columns])
        cursor.register(name, pa.RecordBatchReader.from_batches(sound_schema(chosen), self._batches(chosen)))
        return name

    def described(self, cursor: "duckdb.DuckDBPyConnection") -> Schema:
        """Return the columns, and which version is read."""
        return replace(super().described(cursor), version=str(self.version))

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return how many rows the metadata lists, deleted ones included."""
        del cursor
        return self._contents.rows

    def _batches(self, chosen: pa.Schema) -> Iterator[pa.RecordBatch]:
        schema = sound_schema(chosen)
        for table in self._contents.tables(chosen):
            sound = sound_table(table)
            columns = [
                column if column.type == field.type else column.cast(field.type, safe=False)
                for column, field in zip(sound.columns, schema, strict=True)
            ]
            yield from pa.table(columns, schema=schema).to_batches()


class _Delta:
    """The files of one version of a Delta table."""

    def __init__(self, folder: LakeFolder) -> None:
        module = _module("deltalake", "delta")
        failed = ""
        try:
            self._table = module.DeltaTable(str(folder.path), version=folder.version)
        except Exception as error:  # its message may quote an address
            failed = type(error).__name__
        if failed:
            version = "" if folder.version is None else f" at version {folder.version}"
            raise UnsuitableTable(f"{folder.path.name} cannot be opened as a Delta table{version} ({failed})")
        features = set(self._table.protocol().reader_features or ())
        mapped = self._table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
        if mapped or not features <= _READ_FEATURES:
            unknown = ", ".join(sorted(features - _READ_FEATURES)) or "columnMapping"
            raise UnsuitableTable(
                f"{folder.path.name} is a Delta table with features that are not read ({unknown}): write it to a plain "
                "Delta table or to Parquet"
            )
        self._folder = folder.path
        self.version = int(self._table.version())
        self.schema = pa.schema(self._table.schema())
        self._files = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        self._partitions = {
            name.removeprefix("partition.") for file in self._files for name in file if name.startswith("partition.")
        }
        self._kept = {
            str(line["filepath"]).rsplit("/", 1)[-1]: line["selection_vector"]
            for line in pa.table(self._table.deletion_vectors()).to_pylist()
        }

    @property
    def rows(self) -> int | None:
        """How many rows the files have, deleted ones included; None if the metadata does not tell."""
        counts = [file.get("num_records") for file in self._files]
        return None if None in counts else sum(counts)

    def tables(self, chosen: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of the version in parts, with the chosen columns in order."""
        for file in self._files:
            path = self._folder / _unquoted(str(file["path"]))
            kept = self._kept.get(path.name)
            opened = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
            stored = [field.name for field in chosen if field.name in opened.schema_arrow.names]
            start = 0
            for batch in opened.iter_batches(BATCH_ROWS, columns=stored):
                rows = batch.num_rows
                columns = [self._column(field, batch, file) for field in chosen]
                table = pa.table(columns, names=chosen.names) if columns else pa.table({})
                if kept is not None:
                    # A mask may end before the rows do: the rows after it are kept.
                    mask = list(kept[start : start + rows])
                    table = table.filter(pa.array(mask + [True] * (rows - len(mask))))
                start += rows
                yield table

    def _column(self, field: pa.Field, batch: pa.RecordBatch, file: dict[str, Any]) -> pa.Array:
        if field.name in batch.schema.names:
            return batch.column(field.name)
        if field.name in self._partitions:
            value = pa.scalar(file.get(f"partition.{field.name}")).cast(field.type)
            return pa.repeat(value, batch.num_rows)
        return pa.nulls(batch.num_rows, field.type)  # the file is older than the column


class _Iceberg:
    """The files of one snapshot of an Iceberg table."""

    def __init__(self, folder: LakeFolder) -> None:
        tables = _module("pyiceberg.table", "iceberg")
        failed = ""
        try:
            self._table = tables.StaticTable.from_metadata(str(_newest_metadata(folder.path)))
            current = self._table.current_snapshot()
            named = None if folder.version is None else self._table.snapshot_by_id(folder.version)
        except Exception as error:  # its message may quote an address
            failed = type(error).__name__
        if failed:
            raise UnsuitableTable(f"{folder.path.name} cannot be opened as an Iceberg table ({failed})")
        snapshot = current if folder.version is None else named
        if snapshot is None and folder.version is not None:
            raise UnsuitableTable(f"{folder.path.name} has no snapshot {folder.version}")
        self._snapshot = None if snapshot is None else snapshot.snapshot_id
        self.version = 0 if snapshot is None else int(snapshot.snapshot_id)
        scan = self._table.scan(snapshot_id=self._snapshot)
        self._check_deletes(scan, folder)
        self.schema = _module("pyiceberg.io.pyarrow", "iceberg").schema_to_pyarrow(
            scan.projection(), include_field_ids=False
        )
        self.rows = None

    def _check_deletes(self, scan: Any, folder: LakeFolder) -> None:  # noqa: ANN401 - of pyiceberg
        """Raise `UnsuitableTable` for deletes that pyiceberg does not read, which it tells when it plans."""
        failed = False
        try:
            list(scan.plan_files())
        except ValueError:
            failed = True
        if failed:
            raise UnsuitableTable(
                f"{folder.path.name} is an Iceberg table with equality deletes, which are not read: rewrite its data "
                "files, or write it to Parquet"
            )

    def tables(self, chosen: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of the snapshot in parts, with the chosen columns in order."""
        scan = self._table.scan(snapshot_id=self._snapshot, selected_fields=tuple(chosen.names))
        for batch in scan.to_arrow_batch_reader():
            yield pa.Table.from_batches([batch]).select(chosen.names)


def _opened(folder: LakeFolder) -> "_Delta | _Iceberg":
    match folder.format:
        case "Delta":
            return _Delta(folder)
        case "Iceberg":
            return _Iceberg(folder)
        case other:
            raise UnsuitableTable(f"{folder.path.name} is a {other} table, which is not read: write it to Parquet")


def _newest_metadata(folder: Path) -> Path:
    """Return the newest metadata file of an Iceberg table: the one with the highest number at the start of its name."""
    files = list((folder / "metadata").glob("*.metadata.json"))

    def number(file: Path) -> int:
        found = re.match(r"v?(\d+)", file.name)
        return int(found[1]) if found else -1

    if not files:
        raise EngineFailed("the metadata of the Iceberg table is gone")
    return max(files, key=number)


def _unquoted(path: str) -> str:
    from urllib.parse import unquote

    return unquote(path)


def _module(name: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtra(
            f"{extra.capitalize()} tables need {name.partition('.')[0]}: pip install 'setwise[{extra}]'"
        ) from None

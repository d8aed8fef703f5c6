"""The DuckDB engine, which runs inside this process and reads files and tables in memory."""

import contextlib
import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

import duckdb
import pyarrow as pa

from setwise.accounting.brackets import Progress, quiet
from setwise.analytics.engines.aggregation import Aggregation, columns_read
from setwise.analytics.engines.base import CANCELLED, Engine, Poller, without_driver_error
from setwise.analytics.engines.bounding import SaltSource, secret_salt
from setwise.analytics.engines.duckdb.dialect import sql_text
from setwise.analytics.engines.duckdb.instances import NO_EXTENSIONS, lock
from setwise.analytics.engines.duckdb.lake import lake_fingerprint
from setwise.analytics.engines.duckdb.query import DuckDBEngineQuery
from setwise.analytics.engines.duckdb.tables import DuckDBTable, JoinedTable
from setwise.analytics.engines.duckdb.text_codes import DistinctHashes
from setwise.analytics.engines.files import files_fingerprint, files_of, files_version, lake_folder
from setwise.analytics.engines.prepared import Manifest, write_prepared
from setwise.analytics.schema import Kind, Schema
from setwise.errors import EngineFailed, UnsuitableTable

if TYPE_CHECKING:
    import pyarrow as pa


class SpillDirectory:
    """A new temporary directory for data that does not fit into DuckDB's memory; `remove` deletes the directory.

    Only the current user of the operating system can read it. `parent` is the folder in which it is made; None means
    the system's folder for temporary files. `limit` is the number of bytes that DuckDB may write there; None means half
    of the free space.
    """

    def __init__(self, parent: Path | None, limit: int | None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="setwise-", dir=parent))
        self.limit = shutil.disk_usage(self.path).free // 2 if limit is None else limit
        self.most = 0
        """The largest size in bytes that was measured."""
        self.remove = finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def overflows(self) -> bool:
        """Measure the size of the files in the directory; return whether it exceeds `limit`, now or at an earlier call.

        The caller then stops the query that writes the files, because it would fill the disk.
        """
        self.most = max(self.most, self._size())
        return self.most > self.limit

    def _size(self) -> int:
        """Return the number of bytes that the temporary files in this directory occupy on disk."""
        total = 0
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # DuckDB may have deleted the file since it was listed
                    total += entry.stat().st_blocks * 512 if entry.is_file() else 0
        return total


PAIR_BYTES = 96
"""Approximate bytes of memory per (user, item) pair in the grouping and the window after it."""
TEXT_BYTES = 32
"""Approximate additional bytes per pair for each text column among the user and the labels."""
CSV_ROW_BYTES = 16
"""Bytes per row that are assumed to estimate the rows of files whose metadata does not state them."""
SMALL_ROWS = 100_000
"""A table of at most this many rows is read in milliseconds, on one thread and without progress reports."""
MOST_PARTITIONS = 1024
"""The most parts into which the users of one query are split."""
_PROGRESS = {"enable_progress_bar": "true", "enable_progress_bar_print": "false", "progress_bar_time": "0"}
"""Settings of a cursor without which DuckDB does not report the progress of a query."""


class DuckDBEngine(Engine):
    """Engine for `table`, a table or join of tables that DuckDB reads inside this process.

    - `memory` is DuckDB's memory limit, as in "4GiB", and `threads` its number of threads. None means DuckDB's default.
    - `scratch` is the folder in which a private directory is made for data that does not fit into memory. `spill` is
      the number of bytes that may be written there (None: half of the free space).
    - `progress` is called with the fraction of work done, from 0 to 1, while a query runs.
    - `salts` returns the secret numbers by which users' groups are chosen at random.
    - `manifest` describes a prepared dataset (a stored random ranking of each user's groups). None for other tables.
    """

    @without_driver_error
    def __init__(
        self,
        table: DuckDBTable,
        *,
        memory: str | None = None,
        threads: int | None = None,
        scratch: Path | None = None,
        spill: int | None = None,
        progress: Progress = quiet,
        salts: SaltSource = secret_salt,
        manifest: Manifest | None = None,
    ) -> None:
        super().__init__()
        self._table = table
        self._manifest = manifest
        self._origin = table.origin
        self._progress = progress
        self._salts = salts
        self._hashes = DistinctHashes(table.files)
        self.spill = SpillDirectory(scratch, spill)
        with _failures(self.spill):
            self._connection = _locked_connection(table, memory, threads, self.spill.path)
            self._memory, self._most_threads = _limits(self._connection)
        self._threads = self._most_threads
        with _failures(self.spill), self._connection.cursor() as cursor:
            self._schema = table.describe(cursor)

    @without_driver_error
    def rows(self) -> int | None:
        """Return the approximate number of rows of the table if metadata states it, otherwise None."""
        with _failures(self.spill), self._connection.cursor() as cursor:
            return self._table.rows(cursor)

    def relations(self) -> tuple[str, ...]:
        """Return the names, with their schemas, of the tables of a database file that this engine reads.

        A view gives its own name and the names of the tables below it. Names are in lower case, because DuckDB and
        SQLite ignore case. The result is empty for files that are no databases, for a table in memory, a join and a
        derived table.
        """
        return tuple(sorted(self._table.relations()))

    @without_driver_error
    def read_table(self, most: int) -> "pa.Table":
        """Return all rows of the table, unprotected, as an Arrow table; only for public tables.

        Raises: `UnsuitableTable` if the table has more than `most` rows.
        """
        with _failures(self.spill), self._connection.cursor() as cursor:
            relation = self._table.relation(cursor, self._schema.names)
            rows = cursor.sql(f"SELECT * FROM {relation} LIMIT {most + 1}").to_arrow_table()
        if rows.num_rows > most:
            raise UnsuitableTable(f"a public table that is joined to released rows has at most {most:,} rows")
        return rows

    def close(self) -> None:
        """Close the engine's DuckDB connection and delete the directory of DuckDB's temporary files."""
        self._connection.close()
        self.spill.remove()

    @contextmanager
    def _engine_query(self, aggregation: Aggregation) -> Iterator[DuckDBEngineQuery]:
        rows = self._estimated_rows()
        if self._manifest is None:
            names = columns_read(aggregation)
            schema = Schema(tuple(column for column in self._schema if column.name in names))
            salt, parts = self._salts(), self._parts(aggregation, rows)
        else:
            schema, salt, parts = self._manifest.schema(), 0, 1
        try:
            with self._running_on(rows) as cursor:
                yield DuckDBEngineQuery(
                    aggregation,
                    self._table,
                    schema,
                    cursor,
                    salt=salt,
                    hashes=self._hashes,
                    rows=rows,
                    parts=parts,
                    manifest=self._manifest,
                    errors=partial(_failures, self.spill),
                )
        except UnsuitableTable:
            self._table.check_unchanged()  # reading fails as well when an object is replaced by a shorter one
            raise
        self._table.check_unchanged()

    def _fingerprint(self, origin: str) -> str:
        lake = lake_folder(origin)
        return files_fingerprint(files_of(origin)) if lake is None else lake_fingerprint(lake)

    def _store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Rank at random each user's groups in `aggregation`; write the ranks to the directory `destination`.

        A later query that counts a user in at most k groups reads the ranks 1 to k. The ranks are written as a Parquet
        file, beside `manifest`, the description of the dataset.
        """
        with self._engine_query(aggregation) as query:
            write_prepared(Path(destination), query.rank(), manifest)

    def _estimated_rows(self) -> int:
        """Return the number of rows of the table from metadata, or else an estimate from the sizes of its files.

        An estimate is always more than `SMALL_ROWS`, so that a table of unknown size is treated as large.
        """
        rows = self.rows()
        if rows is not None:
            return rows
        return max(SMALL_ROWS + 1, sum(size for _, size, _ in files_version(self._table.files)) // CSV_ROW_BYTES)

    @contextmanager
    def _running_on(self, rows: int) -> Iterator[duckdb.DuckDBPyConnection]:
        """Context manager that yields a new cursor of DuckDB for a query that reads about `rows` rows.

        `Engine.cancel` interrupts the query. If the table is a join or `rows` is above 100,000 (`SMALL_ROWS`), the
        query's progress is reported, and the query is interrupted when its temporary files on disk exceed their limit.
        """
        # A small query ends within milliseconds, so it runs on one thread and needs no watcher.
        small = rows <= SMALL_ROWS and not isinstance(self._table, JoinedTable)
        cursor = self._connection.cursor()
        self._set_threads(cursor, 1 if small else self._most_threads)
        try:
            watched = nullcontext() if small else self._watcher(cursor)
            with self._cancellable(cursor.interrupt), _failures(self.spill), watched:
                yield cursor
        finally:
            cursor.close()

    def _set_threads(self, cursor: duckdb.DuckDBPyConnection, threads: int) -> None:
        """Set DuckDB's number of threads to `threads`, through `cursor`, unless it is that number already."""
        if threads != self._threads:
            cursor.execute(f"SET threads = {threads}")
            self._threads = threads

    def _watcher(self, cursor: duckdb.DuckDBPyConnection) -> Poller:
        """Return a `Poller` that reports the progress of the query on `cursor`, and stops it before it fills the disk.

        A `Poller` calls a function every 0.1 s. The query is stopped if its temporary files, in the spill directory,
        exceed their limit.
        """
        with suppress(duckdb.InvalidInputException):  # raised in notebooks without ipywidgets: no progress is shown
            for name, value in _PROGRESS.items():
                cursor.execute(f"SET {name} = {value}")

        def look() -> bool:
            if self.spill.overflows():
                cursor.interrupt()
                return True
            self._progress(min(1.0, max(0.0, cursor.query_progress() / 100)))
            return False

        return Poller(look)

    def _parts(self, aggregation: Aggregation, rows: int) -> int:
        """Return the number of parts, 1 to 1024, into which the users are split; one query runs for each part.

        The number is chosen so that a query needs about half of DuckDB's memory, or more if 1024 parts are too few for
        that. `rows` is the approximate number of rows of the table. The result is 1 if `aggregation` counts distinct
        values: users of different parts can have the same value, so that the counts of parts would not add up.
        """
        if any(measure.distinct for measure in aggregation.measures):
            return 1  # two users in different parts may have the same value, so distinct counts of parts do not add up
        keys = [self._schema.column(aggregation.user), *(group.labels(self._schema) for group in aggregation.groups)]
        texts = [column.kind is Kind.TEXT for column in keys]
        needed = rows * (PAIR_BYTES + TEXT_BYTES * sum(texts))
        return min(MOST_PARTITIONS, max(1, math.ceil(needed / (self._memory / 2))))


def _locked_connection(
    table: DuckDBTable, memory: str | None, threads: int | None, scratch: Path
) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection that can read the files of `table` and write to `scratch`, and nothing else.

    `memory` and `threads` are DuckDB's limits; None keeps its defaults. The configuration is locked, apart from the
    number of threads and the progress settings.
    """
    connection = duckdb.connect(":memory:", config=dict(NO_EXTENSIONS))
    settings: dict[str, object] = {
        "temp_directory": str(scratch),
        "preserve_insertion_order": False,
        # This optimizer rule would turn the window over a user's items into lists that fill the disk on large tables.
        "disabled_optimizers": "top_n_window_elimination",
    }
    if memory is not None:
        settings["memory_limit"] = memory
    if threads is not None:
        settings["threads"] = threads
    for name, value in settings.items():
        connection.execute(f"SET {name} = {sql_text(str(value))}")
    table.attach(connection)
    files = ", ".join(sql_text(str(file)) for file in table.files if isinstance(file, Path))
    connection.execute(f"SET allowed_paths = [{files}]")
    lock(connection, changeable=("threads", *_PROGRESS))
    return connection


def _limits(connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Return (memory limit in bytes, number of threads) of a DuckDB connection."""
    settings = connection.execute("SELECT current_setting('memory_limit'), current_setting('threads')").fetchone()
    assert settings is not None
    return _bytes(str(settings[0])), int(settings[1])


def _bytes(size_text: str) -> int:
    """Return the number of bytes of the size `size_text`, as DuckDB prints it, such as "3.5 GiB"."""
    number, unit = size_text.split()
    return int(float(number) * 1024 ** ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit))


@contextmanager
def _failures(spill: SpillDirectory) -> Iterator[None]:
    """Context manager that replaces DuckDB's errors, which may quote rows, by errors with fixed messages.

    `spill` shows whether a query was stopped because it would fill the disk.

    Raises: `EngineFailed` for a query that was stopped, ran out of memory or failed. `UnsuitableTable` for a source
    that cannot be read. `KeyboardInterrupt` for Ctrl-C.
    """
    try:
        yield
    except duckdb.InterruptException:
        raise EngineFailed(
            "the query was stopped because it would fill the disk: raise the memory or the spill limit"
            if spill.most > spill.limit
            else CANCELLED
        ) from None
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None  # DuckDB's binding turns Ctrl-C into this RuntimeError
    except duckdb.OutOfMemoryException:
        raise EngineFailed("DuckDB ran out of memory: raise its memory limit") from None
    except (duckdb.InvalidInputException, duckdb.IOException, duckdb.ConversionException, sqlite3.Error):
        raise UnsuitableTable("DuckDB cannot read the source as a table: it is damaged or of another format") from None
    except duckdb.Error:
        raise EngineFailed("DuckDB could not answer the query") from None

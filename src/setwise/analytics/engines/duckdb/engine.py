"""DuckDB: the embedded engine, for files and tables in memory."""

import contextlib
import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

import duckdb
import pyarrow as pa

from setwise.accounting.brackets import Progress, quiet
from setwise.analytics.engines.aggregation import Aggregation, columns_read
from setwise.analytics.engines.base import Engine, Poller, without_driver_error
from setwise.analytics.engines.bounding import SaltSource, secret_salt
from setwise.analytics.engines.duckdb.dialect import sql_text
from setwise.analytics.engines.duckdb.query import DuckDBQuery
from setwise.analytics.engines.duckdb.tables import DuckDBTable, JoinedTable
from setwise.analytics.engines.duckdb.text_codes import DistinctHashes
from setwise.analytics.engines.files import files_fingerprint, files_of, files_version
from setwise.analytics.engines.prepared import Manifest, write_prepared
from setwise.analytics.schema import Kind, Schema
from setwise.errors import EngineFailed, UnsuitableTable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.statistics import GroupTable

if TYPE_CHECKING:
    import pyarrow as pa


class SpillDirectory:
    """A new directory under `parent`, open to this user alone and removed at the end.

    `limit` is how many bytes it may hold; by default half of what is free on its disk.
    """

    def __init__(self, parent: Path | None, limit: int | None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="setwise-", dir=parent))
        self.limit = shutil.disk_usage(self.path).free // 2 if limit is None else limit
        self.most = 0
        """The most bytes that were seen in it."""
        self.remove = finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def overflows(self) -> bool:
        """Measure the directory and return whether it has grown beyond its limit."""
        self.most = max(self.most, self._size())
        return self.most > self.limit

    def _size(self) -> int:
        total = 0
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # gone since it was listed
                    total += entry.stat().st_blocks * 512 if entry.is_file() else 0
        return total


PAIR_BYTES = 96
"""About what one user and item take in the pre-aggregation and the window after it."""
TEXT_BYTES = 32
"""What a column of text adds to that."""
CSV_ROW_BYTES = 16
SMALL_ROWS = 100_000
"""A table of no more rows is read in milliseconds."""
MOST_PARTITIONS = 1024
_PROGRESS = {"enable_progress_bar": "true", "enable_progress_bar_print": "false", "progress_bar_time": "0"}
"""Without its bar DuckDB does not say how far a query is; these settings belong to each cursor."""


class DuckDBEngine(Engine):
    """A table read by DuckDB inside this process.

    `memory` is DuckDB's own limit (as in "4GiB"; by default most of the machine's memory). Larger work is cut into
    parts by a hash of the user, and what still does not fit spills to a private directory under `scratch`, which
    may grow to `spill` bytes (by default half of what is free there).
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
            self._schema = table.described(cursor)

    @without_driver_error
    def rows(self) -> int | None:
        """Return about how many rows there are where metadata tells."""
        with _failures(self.spill), self._connection.cursor() as cursor:
            return self._table.rows(cursor)

    @without_driver_error
    def read_table(self, most: int) -> "pa.Table":
        """Return a public table whole, or raise `UnsuitableTable` if it has more than `most` rows."""
        with _failures(self.spill), self._connection.cursor() as cursor:
            found = cursor.sql(f"SELECT * FROM {self._table.relation(cursor)} LIMIT {most + 1}").to_arrow_table()
        if found.num_rows > most:
            raise UnsuitableTable(f"a public table that is joined to released rows has at most {most:,} rows")
        return found

    def close(self) -> None:
        """Let go of the connection and the scratch directory."""
        self._connection.close()
        self.spill.remove()

    @contextmanager
    def _question(self, aggregation: Aggregation) -> Iterator["DuckDBQuestion"]:
        rows = self._estimated_rows()
        if self._manifest is None:
            read = columns_read(aggregation)
            schema = Schema(tuple(column for column in self._schema if column.name in read))
            salt, parts = self._salts(), self._parts(aggregation, rows)
        else:
            schema, salt, parts = self._manifest.schema(), 0, 1
        with self._running_on(rows) as cursor:
            query = DuckDBQuery(self._table, schema, cursor, salt, self._hashes)
            yield DuckDBQuestion(aggregation, query, rows, parts, self._manifest is not None)

    def _fingerprint(self, origin: str) -> str:
        return files_fingerprint(files_of(origin))

    def _store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Write a directory with the ranked contributions as Parquet and the manifest beside them."""
        with self._question(aggregation) as question:
            write_prepared(Path(destination), question.query.rank(aggregation, question.parts), manifest)

    def _estimated_rows(self) -> int:
        """Return about how many rows there are; where only reading tells, more than a small table has."""
        rows = self.rows()
        if rows is not None:
            return rows
        return max(SMALL_ROWS + 1, sum(size for _, size, _ in files_version(self._table.files)) // CSV_ROW_BYTES)

    @contextmanager
    def _running_on(self, rows: int) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a cursor of its own to a query that reads about `rows` rows, known to `cancel`.

        A large query is watched while it runs. A small one is over before anybody would look, on one thread: waking
        others takes longer than their help saves.
        """
        small = rows <= SMALL_ROWS and not isinstance(self._table, JoinedTable)
        cursor = self._connection.cursor()
        self._use(cursor, 1 if small else self._most_threads)
        try:
            watched = nullcontext() if small else self._watching(cursor)
            with self._cancellable(cursor.interrupt), _failures(self.spill), watched:
                yield cursor
        finally:
            cursor.close()

    def _use(self, cursor: duckdb.DuckDBPyConnection, threads: int) -> None:
        if threads != self._threads:
            cursor.execute(f"SET threads = {threads}")
            self._threads = threads

    def _watching(self, cursor: duckdb.DuckDBPyConnection) -> Poller:
        """Return what tells how far a query is, and stops it when it spills too much."""
        with suppress(duckdb.InvalidInputException):  # refused in notebooks without ipywidgets: then untold
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
        """Return into how many parts of the users the work is cut so that each fits in half of the memory."""
        if any(measure.distinct for measure in aggregation.measures):
            return 1  # the distinct values of parts do not add up
        keys = [self._schema.column(aggregation.user), *(group.labels(self._schema) for group in aggregation.groups)]
        texts = [column.kind is Kind.TEXT for column in keys]
        needed = rows * (PAIR_BYTES + TEXT_BYTES * sum(texts))
        return min(MOST_PARTITIONS, max(1, math.ceil(needed / (self._memory / 2))))


@dataclass(frozen=True, slots=True)
class DuckDBQuestion:
    """One aggregation on a cursor of its own, reading about `rows` rows in `parts` parts of the users."""

    aggregation: Aggregation
    query: DuckDBQuery
    rows: int
    parts: int
    prepared: bool

    def histogram(self, most: int | None) -> Histogram:
        """Return every positive group with its exact bounded count, or the `most` highest, highest first."""
        if self.prepared:
            return self.query.run_prepared(self.aggregation, most)
        return self.query.run(self.aggregation, most, self.rows, self.parts)

    def statistics(self) -> GroupTable:
        """Return the exact measures of every group."""
        return self.query.statistics(self.aggregation, self.rows, self.parts)

    def user_groups(self) -> "pa.Table":
        """Return one line for every user and group: u (the user as text), g0, g1, .."""
        return self.query.user_groups(self.aggregation)


def _locked_connection(
    table: DuckDBTable, memory: str | None, threads: int | None, scratch: Path
) -> duckdb.DuckDBPyConnection:
    """Return a connection that can read the table, spill to its scratch directory, and nothing else."""
    connection = duckdb.connect(
        ":memory:", config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    )
    settings: dict[str, object] = {
        "temp_directory": str(scratch),
        "preserve_insertion_order": False,
        # Rewritten by this rule, the window over a user's items gathers lists that fill the disk on large tables.
        "disabled_optimizers": "top_n_window_elimination",
    }
    if memory is not None:
        settings["memory_limit"] = memory
    if threads is not None:
        settings["threads"] = threads
    for name, value in settings.items():
        connection.execute(f"SET {name} = {sql_text(str(value))}")
    table.attach(connection)
    files = ", ".join(sql_text(str(file)) for file in table.files)
    connection.execute(f"SET allowed_paths = [{files}]")
    connection.execute("SET enable_external_access = false")
    connection.execute(f"SET allowed_configs = [{', '.join(sql_text(name) for name in ('threads', *_PROGRESS))}]")
    connection.execute("SET lock_configuration = true")
    return connection


def _limits(connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Return how many bytes of memory and how many threads DuckDB may use."""
    found = connection.execute("SELECT current_setting('memory_limit'), current_setting('threads')").fetchone()
    assert found is not None
    return _bytes(str(found[0])), int(found[1])


def _bytes(written: str) -> int:
    """Return the bytes of a size as DuckDB writes it."""
    number, unit = written.split()
    return int(float(number) * 1024 ** ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit))


@contextmanager
def _failures(spill: SpillDirectory) -> Iterator[None]:
    """Turn DuckDB's errors into ours with fixed sentences: its own quote rows of the table."""
    try:
        yield
    except duckdb.InterruptException:
        raise EngineFailed(
            "the query was stopped because it would fill the disk: raise the memory or the spill limit"
            if spill.most > spill.limit
            else "the query was cancelled"
        ) from None
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None  # what the binding makes of Ctrl-C
    except duckdb.OutOfMemoryException:
        raise EngineFailed("DuckDB ran out of memory: raise its memory limit") from None
    except (duckdb.InvalidInputException, duckdb.IOException, duckdb.ConversionException, sqlite3.Error):
        raise UnsuitableTable("DuckDB cannot read the source as a table: it is damaged or of another format") from None
    except duckdb.Error:
        raise EngineFailed("DuckDB could not answer the query") from None

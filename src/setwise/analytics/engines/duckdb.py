"""DuckDB: the embedded engine, for files and tables in memory."""

import math
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import finalize

import duckdb

from setwise.analytics.aggregation import Aggregation
from setwise.analytics.engine import Progress, silent
from setwise.analytics.engines.dialect import Parameters
from setwise.analytics.engines.duckdb_dialect import DuckDBDialect, duckdb_column
from setwise.analytics.engines.duckdb_table import DuckDBTable
from setwise.analytics.engines.template import Template
from setwise.analytics.engines.watch import Watch
from setwise.analytics.salt import SaltSource, secret_salt
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.suitability import check_suitable, label_kind
from setwise.errors import EngineFailed, SetwiseError, UnsuitableTable
from setwise.mechanisms.histogram import LARGEST_COUNT, Histogram

if TYPE_CHECKING:
    import pyarrow as pa

PAIR_BYTES = 96
"""About what one user and item take in the pre-aggregation and the window after it."""
TEXT_BYTES = 32
"""What a column of text adds to that."""
CSV_ROW_BYTES = 16
MOST_PARTITIONS = 1024


class DuckDBEngine:
    """A table read by DuckDB inside this process.

    `memory` is DuckDB's own limit (as in "4GiB"; by default most of the machine's memory). Larger work is cut into
    parts by a hash of the user, and what still does not fit spills to a private directory under `scratch`, which
    may grow to `spill` bytes (by default half of what is free there).
    """

    def __init__(
        self,
        table: DuckDBTable,
        *,
        memory: str | None = None,
        threads: int | None = None,
        scratch: Path | None = None,
        spill: int | None = None,
        progress: Progress = silent,
        salts: SaltSource = secret_salt,
    ) -> None:
        self._table = table
        self._progress = progress
        self._salts = salts
        self._running: set[duckdb.DuckDBPyConnection] = set()
        self._lock = threading.Lock()
        self._scratch = Path(tempfile.mkdtemp(prefix="setwise-", dir=scratch))
        self._remove_scratch = finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._spill = shutil.disk_usage(self._scratch).free // 2 if spill is None else spill
        self.most_spilled = 0
        with _failures():
            self._connection = _locked_connection(table, memory, threads, self._scratch)
        self._schema = self._described()

    def describe(self) -> Schema:
        """Return the columns and their kinds, from metadata alone."""
        return self._schema

    def rows(self) -> int | None:
        """Return about how many rows there are where metadata tells."""
        with _failures(), self._connection.cursor() as cursor:
            return self._table.rows(cursor)

    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return every positive group with its exact bounded count."""
        return self._run(aggregation, None)

    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the `most` highest groups, highest first; equal counts by label in code point order."""
        return self._run(aggregation, most)

    def cancel(self) -> None:
        """Stop what runs, from any thread; the calls that were running raise `EngineFailed`."""
        with self._lock:
            for cursor in self._running:
                cursor.interrupt()

    def close(self) -> None:
        """Let go of the connection and the scratch directory."""
        self._connection.close()
        self._remove_scratch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _described(self) -> Schema:
        with _failures(), self._connection.cursor() as cursor:
            found = cursor.execute(f"DESCRIBE SELECT * FROM {self._table.relation(cursor)}").fetchall()
        return Schema(tuple(duckdb_column(name, native) for name, native, *_ in found))

    def _run(self, aggregation: Aggregation, most: int | None) -> Histogram:
        check_suitable(aggregation, self._schema)
        parts = self._parts(aggregation)
        with self._watched() as cursor:
            return Histogram.from_arrow(
                _Query(self._table, self._schema, cursor, self._salts()).run(aggregation, most, parts)
            )

    @contextmanager
    def _watched(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a cursor of its own to a query, known to `cancel` and watched while it runs."""
        cursor = self._connection.cursor()
        watch = Watch(
            share=lambda: cursor.query_progress() / 100,
            progress=self._progress,
            scratch=self._scratch,
            limit=self._spill,
            interrupt=cursor.interrupt,
        )
        with self._lock:
            self._running.add(cursor)
        try:
            with _failures(watch), watch:
                yield cursor
        finally:
            self.most_spilled = max(self.most_spilled, watch.most_spilled)
            with self._lock:
                self._running.discard(cursor)
            cursor.close()

    def _parts(self, aggregation: Aggregation) -> int:
        """Return into how many parts of the users the work is cut so that each fits in half of the memory."""
        rows = self.rows()
        if rows is None:
            rows = sum(file.stat().st_size for file in self._table.files) // CSV_ROW_BYTES
        texts = [self._schema.column(name).kind is Kind.TEXT for name in (aggregation.user, aggregation.item) if name]
        with self._connection.cursor() as cursor:
            limit = _bytes(str((cursor.execute("SELECT current_setting('memory_limit')").fetchone() or ("1GiB",))[0]))
        needed = rows * (PAIR_BYTES + TEXT_BYTES * sum(texts))
        return min(MOST_PARTITIONS, max(1, math.ceil(needed / (limit / 2))))


class _Query:
    """One aggregation on a cursor of its own: cut into parts where it must be, all under one salt."""

    def __init__(self, table: DuckDBTable, schema: Schema, cursor: duckdb.DuckDBPyConnection, salt: int) -> None:
        self._table = table
        self._schema = schema
        self._cursor = cursor
        self._salt = salt

    def run(self, aggregation: Aggregation, most: int | None, parts: int) -> "pa.Table":
        """Return (label, count) as an Arrow table."""
        if parts == 1:
            template, counts = self._counts(aggregation)
            statement = counts if most is None else template.highest(counts, most)
            return self._cursor.sql(statement, params=template.parameters.values).to_arrow_table()
        for part in range(parts):
            template, counts = self._counts(aggregation, [f"hash({{user}}) % {parts} = {part}"])
            opening = "CREATE TEMP TABLE part_counts AS" if part == 0 else "INSERT INTO part_counts"
            self._cursor.execute(f"{opening} {counts}", template.parameters.values)
        summed = f"CAST(LEAST(SUM(count), {LARGEST_COUNT}) AS BIGINT)"
        counts = f"SELECT label, {summed} AS count FROM part_counts GROUP BY label"
        return self._cursor.sql(counts if most is None else template.highest(counts, most)).to_arrow_table()

    def _counts(self, aggregation: Aggregation, conditions: list[str] | None = None) -> tuple[Template, str]:
        dialect = DuckDBDialect()
        template = Template(dialect, self._table.relation(self._cursor), self._schema, Parameters(dialect))
        user = dialect.user(self._schema.column(aggregation.user))
        every = [condition.format(user=user) for condition in conditions or []]
        if aggregation.domain is not None:
            every.append(self._in_domain(aggregation, template.item(aggregation)))
        kept = template.pairs(aggregation, template.rows(aggregation, every))
        if aggregation.sampled is not None:
            kept = template.kept(aggregation, template.ranked(kept, template.parameters.add(self._salt)))
        return template, template.counts(aggregation, kept)

    def _in_domain(self, aggregation: Aggregation, item: str) -> str:
        import pyarrow as pa

        assert aggregation.item is not None
        kind = label_kind(self._schema.column(aggregation.item))
        labels = [label for label in aggregation.domain or () if kind is str or -(2**63) <= int(label) < 2**63]
        typed = pa.array(labels, pa.string() if kind is str else pa.int64())
        self._cursor.register("domain_labels", pa.table({"label": typed}))
        return f"{item} IN (SELECT label FROM domain_labels)"


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
        "enable_progress_bar": False,
    }
    if memory is not None:
        settings["memory_limit"] = memory
    if threads is not None:
        settings["threads"] = threads
    for name, value in settings.items():
        connection.execute(f"SET {name} = {_setting(value)}")
    table.attach(connection)
    files = ", ".join(_setting(str(file)) for file in table.files)
    connection.execute(f"SET allowed_paths = [{files}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _setting(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _bytes(written: str) -> int:
    """Return the bytes of a size as DuckDB writes it."""
    number, unit = written.split()
    return int(float(number) * 1024 ** ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit))


@contextmanager
def _failures(watch: Watch | None = None) -> Iterator[None]:
    """Turn DuckDB's errors into ours with fixed sentences: its own quote rows of the table.

    Raised outside the handler, so that the original is not even chained.
    """
    failure: SetwiseError | None = None
    try:
        yield
    except duckdb.InterruptException:
        over = watch is not None and watch.overflowed
        failure = EngineFailed(
            "the query was stopped because it would fill the disk: raise the memory or the spill limit"
            if over
            else "the query was cancelled"
        )
    except duckdb.OutOfMemoryException:
        failure = EngineFailed("DuckDB ran out of memory: raise its memory limit")
    except (duckdb.InvalidInputException, duckdb.IOException, duckdb.ConversionException):
        failure = UnsuitableTable("DuckDB cannot read the source as a table: it is damaged or of another format")
    except duckdb.Error:
        failure = EngineFailed("DuckDB could not answer the query")
    if failure is not None:
        raise failure

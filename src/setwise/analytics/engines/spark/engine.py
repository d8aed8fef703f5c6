"""The Spark engine, which reads files and catalogue tables on a cluster or on this machine.

Spark itself bounds and counts contributions, with the statements of engines/bounding.py in its dialect.
"""

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from setwise.accounting.brackets import Progress, quiet
from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation, columns_read, label_kind
from setwise.analytics.engines.base import CANCELLED, Engine, Poller, SqlEngineQuery, without_driver_error
from setwise.analytics.engines.bounding import SaltSource, secret_salt
from setwise.analytics.engines.files import apply_description
from setwise.analytics.engines.joins import NamedTable
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.registry import OpenRequest, TableSource
from setwise.analytics.engines.spark.definitions import relations_of
from setwise.analytics.engines.spark.dialect import SparkDialect
from setwise.analytics.engines.spark.tables import (
    SparkSource,
    SparkTable,
    Views,
    derived_table,
    frame_fingerprint,
    joined_tables,
    source_frame,
    store_frame,
)
from setwise.analytics.schema import Column
from setwise.errors import EngineFailed, UnsuitableTable
from setwise.mechanisms.labels import Cell

if TYPE_CHECKING:
    import pyarrow as pa

PARTS_PER_CORE = 4
"""The least number of partitions per core that rows are distributed over; each task costs processor time of its own."""

PART_BYTES = 2**24
"""The largest partition, in bytes, that still sorts quickly; about 2 million rows of two integer columns in Parquet."""

MOST_BYTES = 2**38
"""Size of a table in bytes above which Spark chooses the number of partitions itself.

Where Spark only guesses the size of a table, its guess is above this.
"""

PROBED_SHARE = 100
"""One user in this many is sampled to estimate how often users repeat an item."""
MIN_BY_NUMBER_VERSION = (4, 2)
"""The first version of Spark whose `min_by` returns several rows."""
_GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class SparkEngine(Engine):
    """Engine for `table`, a table of a Spark session, which is read where the session runs.

    - `progress` is called with the fraction of work done, from 0 to 1, while a query runs.
    - `salts` returns the secret numbers by which users' groups are chosen at random.
    - `leave` is called when the engine is closed, to release the session. None if the session belongs to the caller.
    """

    @without_driver_error
    def __init__(
        self,
        table: SparkTable,
        *,
        progress: Progress = quiet,
        salts: SaltSource = secret_salt,
        leave: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._table = table
        self._progress = progress
        self._salts = salts
        self._leave = leave
        self._manifest = table.manifest
        self._origin = table.named
        with _failures():
            self._schema = table.schema

    @without_driver_error
    def relations(self) -> tuple[str, ...]:
        """Return the names of the catalogue tables and views that this engine reads, and the paths of their files.

        For files without a table in the catalogue, only the paths are returned. If the names of two engines overlap,
        both read the same data. A prepared dataset (a stored random ranking of each user's groups) has the names of the
        table that it was prepared from, too. The result is empty for data frames, joins and derived tables.
        """
        if self._table.named is None:
            return ()
        with _failures():
            names = relations_of(self._table.frame)
            if self._manifest is not None:
                origin = self._manifest.origin
                try:
                    names |= relations_of(source_frame(self._table.frame.sparkSession, origin))
                except (PySparkException, Py4JError, UnsuitableTable):  # the table is gone, so only its name is left
                    names |= {origin}
        return tuple(sorted(names))

    def close(self) -> None:
        """Release the Spark session, which is stopped if this package started it and no other engine uses it."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    @contextmanager
    def _engine_query(self, aggregation: Aggregation) -> Iterator["SparkEngineQuery"]:
        with self._job() as views:
            query = SparkEngineQuery(aggregation, self._table, views, self._salts)
            try:
                yield query
            finally:
                query.forget_pairs()

    def _fingerprint(self, origin: str) -> str:
        with self._job():
            session = self._table.frame.sparkSession
            frame = self._table.frame if self._manifest is None else source_frame(session, origin)
            return frame_fingerprint(frame, origin)

    def _store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Rank at random each user's groups in `aggregation`; write the ranks to the table `destination`.

        A later query that counts a user in at most k groups reads the ranks 1 to k. `manifest`, the description of the
        dataset, becomes a property of the table, which is in Spark's catalogue.
        """
        with self._engine_query(aggregation) as query:
            statement, values = query.prepared_statement()
            store_frame(self._table.frame.sparkSession.sql(statement, args=values), destination, manifest)

    def _cancel_group(self, group: str) -> None:
        """Cancel the running and all future Spark jobs of one query; `group` is the name of the query's job group."""
        self._table.frame.sparkSession.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)

    @contextmanager
    def _job(self) -> Iterator["Views"]:
        """Context manager for one query, which yields the `Views` of the query, its set of temporary views.

        While the block runs, `Engine.cancel` stops the query's Spark jobs, and their progress is reported. At the end
        the views are dropped, and the thread's Spark job group from before the query is restored.

        Raises: `EngineFailed` if Spark fails.
        """
        session = self._table.frame.sparkSession
        context = session.sparkContext
        group = f"setwise-{uuid.uuid4().hex}"
        views = Views(session, group.replace("-", "_"))

        def look() -> bool:
            """Report the fraction of tasks completed in Spark's active stages, and return False.

            A `Poller` calls this function every 0.1 s until it returns True; so it is called until the query ends.
            """
            tracker = context.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            total = sum(stage.numTasks for stage in stages if stage is not None)
            if total:
                self._progress(sum(stage.numCompletedTasks for stage in stages if stage is not None) / total)
            return False

        before = {name: context.getLocalProperty(name) for name in _GROUP_PROPERTIES}
        context.setJobGroup(group, "setwise", interruptOnCancel=True)
        try:
            with self._cancellable(partial(self._cancel_group, group)), _failures(), Poller(look):
                yield views
        except BaseException:
            self._cancel_group(group)
            raise
        finally:
            # Restore the group: otherwise the caller's next job would belong to the query and be cancelled with it.
            for name, value in before.items():
                context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None removes the property
            views.drop()


class SparkEngineQuery(SqlEngineQuery):
    """One `aggregation` of the Spark table `table`, as SQL statements that Spark runs.

    `views` makes the temporary views that the statements read, such as one of the table; their names are used by no
    other query. The function `salts` returns the secret number by which users' groups are chosen at random.
    """

    def __init__(self, aggregation: Aggregation, table: SparkTable, views: Views, salts: SaltSource) -> None:
        needed = columns_read(aggregation)
        frame = table.columns([name for name in table.schema.names if name in needed])
        self._session = table.frame.sparkSession
        dialect = SparkDialect(has_min_by_number=_version(self._session) >= MIN_BY_NUMBER_VERSION)
        super().__init__(aggregation, dialect, views.add("table", frame), table.schema, table.manifest)
        self._table = table
        self._views = views
        self._salts = salts
        self._pairs: DataFrame | None = None

    def forget_pairs(self) -> None:
        """Free the (user, group) pairs that Spark may have cached for the private search for groups.

        Every round of the search (partition selection) reads the pairs. The caller calls this method after the last
        round.
        """
        if self._pairs is not None:
            self._pairs.unpersist()

    def _keep_pairs(self) -> str | None:
        if self._pairs is None:
            statement = self._kept_pairs(self._rows(hint=self._hint()))
            self._pairs = self._session.sql(statement, args=self._builder.parameters.values).persist()
        return self._views.add("pairs", self._pairs)

    def _fixed_errors(self) -> AbstractContextManager[object]:
        return _failures()

    def _salt(self) -> str:
        """Return a SQL expression that reads a new secret salt from a temporary view.

        The salt is the random number by which the groups in which a user counts are chosen. Spark displays and logs
        query plans with their constants, so the salt must not be a constant. For a view the plan shows only the column
        names.
        """
        salt = self._session.createDataFrame([(self._salts(),)], "salt BIGINT")
        return f"(SELECT salt FROM {self._views.add('secret', salt)})"

    def _hint(self) -> str:
        """Return the optimizer hint (SQL text) that sends all rows of a user to one partition.

        The hint asks for partitions of at most about 16 MiB, which Spark sorts quickly. It leaves the number of
        partitions to Spark if the table is larger than 256 GiB or Spark does not know its size.
        """
        size = int(str(self._table.sized_like._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        # In a partition that is too large, grouping and sorting take longer for each row, and data spills to disk.
        parts = max(PARTS_PER_CORE * self._session.sparkContext.defaultParallelism, size // PART_BYTES)
        return "/*+ REPARTITION(u) */ " if size > MOST_BYTES else f"/*+ REPARTITION({parts}, u) */ "

    def _rows_rarely_repeat(self) -> bool:
        """Return whether this query is faster if it numbers rows by window functions than if it groups them by user.

        Numbering is faster if few rows in a sample of the users repeat a (user, group) pair. The result is False for a
        table of CSV files, which would be parsed twice. It is also False if Spark chooses groups by an aggregate, which
        is faster than both.
        """
        if self._table.narrowed is not None:  # sampling would parse the CSV files a second time
            return False
        # the aggregate is faster however often rows repeat
        if self._builder.dialect.smallest_rows(["u"], "u", self._aggregation.contributions or 0) is not None:
            return False
        user = self._builder.dialect.user(self._builder.schema.column(self._aggregation.user))
        statement = self._probe(f"pmod(xxhash64({user}), {PROBED_SHARE}) = 0")
        [(row_count, pairs)] = self._session.sql(statement, args=self._builder.parameters.values).collect()
        return bounding.rows_rarely_repeat(row_count, pairs)

    def _membership(self, labels: Sequence[str], columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]]) -> str:
        kinds = [
            f"c{place} {'STRING' if label_kind(column) is str else 'BIGINT'}" for place, column in enumerate(columns)
        ]
        domain = self._session.createDataFrame(rows, ", ".join(kinds))
        return f"({', '.join(labels)}) IN (SELECT * FROM {self._views.add('domain', domain)})"

    def _fetch(self, statement: str, numbers: Sequence[str]) -> "pa.Table":
        del numbers  # the frame names its columns itself
        return self._session.sql(statement, args=self._builder.parameters.values).toArrow()


def _version(session: SparkSession) -> tuple[int, int]:
    """Return the major and minor version of the Spark of `session`, such as (4, 2)."""
    major, minor = session.version.split(".")[:2]
    return int(major), int(minor)


class SharedSession:
    """The Spark session of this process and, if Setwise started the session, a count of the engines that use it.

    A process has one session, and stopping the session stops every query. So a session that Setwise started is stopped
    when the last engine that uses it is closed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: SparkSession | None = None
        self._engines = 0

    def join(self, master: str | None) -> tuple[SparkSession, bool]:
        """Return (session, started): the Spark session of this process, started if there is none.

        `started` says that Setwise started the session, so that the caller must call `leave` later. A new session is
        started at the Spark master `master`, or as Spark is configured if that is None.
        """
        with self._lock:
            # Look at the process and not at the thread, which does not see a session that another thread started.
            theirs = self._engines == 0 and SparkContext._active_spark_context is not None
            builder = SparkSession.builder.appName("setwise")
            with _default_driver_memory():
                session = (builder if master is None else builder.master(master)).getOrCreate()
            if not theirs:
                self._started = session
                self._engines += 1
            return session, not theirs

    def leave(self) -> None:
        """Record that one engine no longer uses the Spark session; stop the session if no engine uses it any more."""
        with self._lock:
            self._engines -= 1
            if self._engines == 0 and self._started is not None:
                self._started.stop()
                self._started = None


@contextmanager
def _default_driver_memory() -> Iterator[None]:
    """Context manager: a Spark driver that is started in its `with` block may use a quarter of the machine's memory.

    It sets the environment variable SPARK_DRIVER_MEMORY to a quarter of the memory, but at least 1 GiB. If the operator
    has set the variable, it stays as it is. Spark's own configuration overrides the variable.
    """
    if "SPARK_DRIVER_MEMORY" in os.environ:
        yield
        return
    # With Spark's own default of 1 GiB, a driver in local mode spills or fails on large tables.
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    os.environ["SPARK_DRIVER_MEMORY"] = f"{max(memory // 4, 2**30) // 2**20}m"
    try:
        yield
    finally:
        del os.environ["SPARK_DRIVER_MEMORY"]


_SHARED = SharedSession()


@without_driver_error
def open_tables(request: OpenRequest) -> SparkEngine:
    """Return a Spark engine that reads the tables that `request` names.

    The tables are joined, filtered, grouped per user and given computed columns as `request` says. The active Spark
    session is used. If there is none, one is started at the Spark master that the request's address names, or, if the
    address is just "spark", as Spark is configured.

    Raises: `EngineFailed` if Spark cannot be started or cannot compute the join, `UnsuitableTable` for a source that
    cannot be read.
    """
    sources = request.convert_tables(_spark_source)
    master = None if request.address in ("duckdb", "spark") else request.address
    joins, derivation, progress = request.joins, request.derivation, request.progress
    with _session_for(sources[0].table, master) as (session, leave):
        tables = [
            NamedTable(name=source.name, table=source.table.open_table(session), private=source.private)
            for source in sources
        ]
        if not joins and not derivation:
            return SparkEngine(tables[0].table, progress=progress, leave=leave)
        try:
            table = joined_tables(session, tables, joins, request.user) if joins else tables[0].table
            return SparkEngine(derived_table(session, table, derivation), progress=progress, leave=leave)
        except (PySparkException, Py4JError):
            raise EngineFailed("Spark could not join the tables, or compute with their columns") from None


def _spark_source(table: TableSource) -> SparkSource:
    """Return `table` as a `SparkSource`, with column types and CSV options, perhaps from a description file.

    If `table` states a CSV option, or there is no description file beside its files (a TOML file that says how they are
    written), the types and options are those of `table`. Otherwise the options are those of the file, and the types are
    those of the file and of `table`, which takes precedence.
    """
    types, csv = apply_description(table.source, table.types, table.csv)
    return SparkSource(source=table.source, types=types, csv=csv)


@contextmanager
def _session_for(source: SparkSource, master: str | None) -> Iterator[tuple[SparkSession, Callable[[], None] | None]]:
    """Context manager that yields (session, release): the Spark session for `source`, and a function to release it.

    `release` is None if the session belongs to the caller, as the session of a data frame does. `master` is the Spark
    master at which to start a session, or None. The session is released here if the `with` block raises; otherwise the
    caller must release it.
    """
    if isinstance(source.source, DataFrame):
        yield source.source.sparkSession, None
        return
    session, leave = join_session(master)
    try:
        yield session, leave
    except BaseException:
        if leave is not None:
            leave()
        raise


@without_driver_error
def join_session(master: str | None) -> tuple[SparkSession, Callable[[], None] | None]:
    """Return (session, release): the Spark session of this process, and the function that releases it.

    A session is started if there is none: at the Spark master `master`, or as the machine's Spark configuration says if
    `master` is None. `release` is None for a session that belongs to the caller.

    Raises: `EngineFailed` if Spark cannot be started.
    """
    try:
        session, started = _SHARED.join(master)
    except (PySparkRuntimeError, PySparkException, Py4JError, OSError):
        raise EngineFailed("Spark could not be started: it needs Java 17 and a master that answers") from None
    return session, _SHARED.leave if started else None


_UNANSWERED = (
    "Spark could not answer the query; if Spark's log says OutOfMemoryError, give the driver more memory with the "
    "environment variable SPARK_DRIVER_MEMORY, and executors with the setting spark.executor.memory"
)
"""The message of every failed query on Spark. It advises on memory always, so that it tells nothing about the rows."""


@contextmanager
def _failures() -> Iterator[None]:
    """Context manager that replaces Spark's errors by `EngineFailed` with a fixed message.

    Spark's own messages must not be shown, because they quote rows and query plans.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        cancelled = "cancelled" in str(error)
        raise EngineFailed(CANCELLED if cancelled else _UNANSWERED) from None

"""Spark: files and catalogue tables of a cluster, or of this machine.

Contributions are bounded and counted by Spark itself, with the statements of engines/bounding.py in its own dialect.
"""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from setwise.accounting.brackets import Progress, quiet
from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation, columns_read, label_kind
from setwise.analytics.engines.base import Engine, Poller, SqlQuestion, without_driver_error
from setwise.analytics.engines.bounding import SaltSource, secret_salt
from setwise.analytics.engines.joins import Join, NamedTable
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.spark.dialect import SparkDialect
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Column
from setwise.errors import EngineFailed, MissingExtra
from setwise.mechanisms.labels import Cell

try:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.sql import DataFrame, SparkSession
except ImportError:  # pragma: no cover - said in one sentence instead
    raise MissingExtra("Spark needs PySpark and Java 17: pip install 'setwise[spark]'") from None

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

if TYPE_CHECKING:
    import pyarrow as pa

PARTS_PER_CORE = 16
"""Fewest partitions that rows are spread over, for each core."""

PART_BYTES = 2**25
"""Largest partition that still sorts quickly, in bytes."""

MOST_BYTES = 2**38
"""Beyond this size of a table, in bytes, or where Spark only guesses it, Spark chooses the partitions itself."""

PROBED_SHARE = 100
"""One user in this many is sampled to estimate how often users repeat an item."""
_GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class SparkEngine(Engine):
    """A table of a Spark session, read where the session runs; `leave` is called once, when the engine is closed."""

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

    def close(self) -> None:
        """Let go of the session, if it was started here."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    @contextmanager
    def _question(self, aggregation: Aggregation) -> Iterator["SparkQuestion"]:
        with self._job() as views:
            yield SparkQuestion(aggregation, self._table, views, self._salts)

    def _fingerprint(self, origin: str) -> str:
        with self._job():
            session = self._table.frame.sparkSession
            frame = self._table.frame if self._manifest is None else source_frame(session, origin)
            return frame_fingerprint(frame, origin)

    def _store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Write a table of the catalogue with the ranked contributions, and the manifest as its property."""
        with self._question(aggregation) as question:
            statement, values = question.prepared()
            store_frame(self._table.frame.sparkSession.sql(statement, args=values), destination, manifest)

    def _cancel_group(self, group: str) -> None:
        """Cancel the jobs of a question, those still to come included: one question is several jobs."""
        self._table.frame.sparkSession.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)

    @contextmanager
    def _job(self) -> Iterator["Views"]:
        """Give the jobs of one question a group of their own, known to `cancel` and watched, and views to name."""
        session = self._table.frame.sparkSession
        context = session.sparkContext
        group = f"setwise-{uuid.uuid4().hex}"
        views = Views(session, group.replace("-", "_"))

        def look() -> bool:
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
            # Left in the group, the caller's next job would be cancelled with it.
            for name, value in before.items():
                context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None takes it away
            views.drop()


class SparkQuestion(SqlQuestion):
    """One aggregation, in jobs and with views of its own."""

    def __init__(self, aggregation: Aggregation, table: SparkTable, views: Views, salts: SaltSource) -> None:
        needed = columns_read(aggregation)
        frame = table.columns([name for name in table.schema.names if name in needed])
        super().__init__(aggregation, SparkDialect(), views.add("table", frame), table.schema, table.manifest)
        self._table = table
        self._views = views
        self._salts = salts
        self._session = table.frame.sparkSession

    def _salt(self) -> str:
        """Return a new salt for SQL: plans are shown and logged with their constants, but a view shows only columns."""
        salt = self._session.createDataFrame([(self._salts(),)], "salt BIGINT")
        return f"(SELECT salt FROM {self._views.add('secret', salt)})"

    def _hint(self) -> str:
        """Return the hint that sends rows to where their user is: grouping and window then stay there.

        In parts as large as Spark would make them by itself, sorting takes twice as long.
        """
        size = int(str(self._table.sized_like._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        parts = max(PARTS_PER_CORE * self._session.sparkContext.defaultParallelism, size // PART_BYTES)
        return "/*+ REPARTITION(u) */ " if size > MOST_BYTES else f"/*+ REPARTITION({parts}, u) */ "

    def _rows_rarely_repeat(self) -> bool:
        """Whether users rarely have several rows for an item; learned from some of the users."""
        if self._table.narrowed is not None:  # another pass would read every line again
            return False
        user = self._builder.dialect.user(self._builder.schema.column(self._aggregation.user))
        statement = self._probe(f"pmod(xxhash64({user}), {PROBED_SHARE}) = 0")
        [(found, pairs)] = self._session.sql(statement, args=self._builder.parameters.values).collect()
        return bounding.rows_rarely_repeat(found, pairs)

    def _membership(self, labels: Sequence[str], columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]]) -> str:
        kinds = [f"c{place} {'STRING' if label_kind(each) is str else 'BIGINT'}" for place, each in enumerate(columns)]
        domain = self._session.createDataFrame(rows, ", ".join(kinds))
        return f"({', '.join(labels)}) IN (SELECT * FROM {self._views.add('domain', domain)})"

    def _fetched(self, statement: str, numbers: Sequence[str]) -> "pa.Table":
        del numbers  # a frame knows its columns
        return self._session.sql(statement, args=self._builder.parameters.values).toArrow()


class SharedSession:
    """Counts the engines on a session started here: a process has one session, and stopping it stops every query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: SparkSession | None = None
        self._engines = 0

    def join(self, master: str | None) -> tuple[SparkSession, bool]:
        """Return the session of this process and whether it is to be left with `leave`: the caller's own is not."""
        with self._lock:
            # Asked of the process, because a thread does not know of a session that another thread has started.
            theirs = self._engines == 0 and SparkContext._active_spark_context is not None
            builder = SparkSession.builder.appName("setwise")
            session = (builder if master is None else builder.master(master)).getOrCreate()
            if not theirs:
                self._started = session
                self._engines += 1
            return session, not theirs

    def leave(self) -> None:
        """Stop the session when the last engine on it is closed."""
        with self._lock:
            self._engines -= 1
            if self._engines == 0 and self._started is not None:
                self._started.stop()
                self._started = None


_SHARED = SharedSession()


@without_driver_error
def open_spark(
    sources: Sequence[NamedTable[SparkSource]],
    joins: Sequence[Join],
    user: str,
    master: str | None,
    progress: Progress,
    derivation: Derivation = Derivation(),  # noqa: B008 - frozen
) -> SparkEngine:
    """Return an engine for a source, or for several that are joined, the first of them private.

    Without a master the session that is active is used, or the one the machine's Spark configuration describes.
    """
    with _session_for(sources[0].table, master) as (session, leave):
        tables = [
            NamedTable(name=each.name, table=each.table.opened(session), private=each.private) for each in sources
        ]
        if not joins and not derivation:
            return SparkEngine(tables[0].table, progress=progress, leave=leave)
        try:
            table = joined_tables(session, tables, joins, user) if joins else tables[0].table
            return SparkEngine(derived_table(session, table, derivation), progress=progress, leave=leave)
        except (PySparkException, Py4JError):
            raise EngineFailed("Spark could not join the tables, or compute with their columns") from None


@contextmanager
def _session_for(source: SparkSource, master: str | None) -> Iterator[tuple[SparkSession, Callable[[], None] | None]]:
    """Give the session of a frame, or that of this process with how to leave it; left when an engine fails to open."""
    if isinstance(source.source, DataFrame):
        yield source.source.sparkSession, None
        return
    try:
        session, started = _SHARED.join(master)
    except (PySparkRuntimeError, PySparkException, Py4JError, OSError):
        raise EngineFailed("Spark could not be started: it needs Java 17 and a master that answers") from None
    try:
        yield session, _SHARED.leave if started else None
    except BaseException:
        if started:
            _SHARED.leave()
        raise


@contextmanager
def _failures() -> Iterator[None]:
    """Turn Spark's errors into ours with a fixed sentence: its own quote rows and plans."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        cancelled = "cancelled" in str(error)
        raise EngineFailed("the query was cancelled" if cancelled else "Spark could not answer the query") from None

"""Spark: files and catalogue tables of a cluster, or of this machine.

Contributions are bounded and counted by Spark itself, with the statements of engines/bounding.py in its own dialect.
"""

import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from setwise.accounting.brackets import Progress, quiet
from setwise.analytics.engines import bounding
from setwise.analytics.engines.base import (
    Aggregation,
    Poller,
    check_suitable,
    columns_read,
    label_kind,
    without_driver_error,
)
from setwise.analytics.engines.bounding import Parameters, SaltSource, StatementBuilder, secret_salt
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.results import arrow_group_table, arrow_labels, domain_rows
from setwise.analytics.engines.spark.dialect import SparkDialect, spark_column
from setwise.analytics.schema import Schema
from setwise.errors import EngineFailed, MissingExtra, UnsuitableTable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.statistics import GroupTable

try:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
except ImportError:  # pragma: no cover - said in one sentence instead
    raise MissingExtra("Spark needs PySpark and Java 17: pip install 'setwise[spark]'") from None

from setwise.analytics.engines.spark.prepared import frame_fingerprint, source_frame, store_frame

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


class SparkEngine:
    """A DataFrame of a Spark session, read where the session runs.

    `named` is how the session finds the source again, a path or a table; only then can it be prepared. `leave` is
    called once, when the engine is closed. `narrowed` returns the frame with some of its columns, where reading fewer
    of them is a matter of asking for them. `from_text` are the columns of text that are read as another kind.
    `bytes_of` is a frame of about the same size: of a join, Spark estimates as many rows as there are pairs of rows.
    """

    @without_driver_error
    def __init__(
        self,
        frame: DataFrame,
        *,
        named: str | None = None,
        progress: Progress = quiet,
        salts: SaltSource = secret_salt,
        leave: Callable[[], None] | None = None,
        manifest: Manifest | None = None,
        narrowed: Callable[[Sequence[str]], DataFrame] | None = None,
        from_text: Collection[str] = (),
        bytes_of: DataFrame | None = None,
    ) -> None:
        self._frame = frame
        self._bytes_of = frame if bytes_of is None else bytes_of
        self._narrowed = narrowed
        self._named = named
        self._manifest = manifest
        self._progress = progress
        self._salts = salts
        self._leave = leave
        self._groups: set[str] = set()
        self._lock = threading.Lock()
        with _failures():
            columns = [spark_column(name, native) for name, native in frame.dtypes]
        self._schema = Schema(tuple(replace(column, from_text=column.name in from_text) for column in columns))

    def describe(self) -> Schema:
        """Return the columns and their kinds, from metadata alone."""
        return self._schema if self._manifest is None else self._manifest.schema()

    @without_driver_error
    def rows(self) -> int | None:
        """Return None: Spark does not say before it reads."""
        return None

    @without_driver_error
    def check(self, aggregation: Aggregation) -> None:
        """Raise what metadata tells is wrong with an aggregation."""
        if self._manifest is None:
            check_suitable(aggregation, self._schema)
            return
        self._manifest.check(aggregation)
        origin = self._manifest.origin
        with self._job():
            self._manifest.check_fresh(frame_fingerprint(source_frame(self._frame.sparkSession, origin), origin))

    @without_driver_error
    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return every positive group with its exact bounded count."""
        return self._run(aggregation, None)

    @without_driver_error
    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the `most` highest groups, highest first; equal counts by label in code point order."""
        return self._run(aggregation, most)

    @without_driver_error
    def origin(self) -> tuple[str, str]:
        """Return the source's name and the fingerprint of its files."""
        if self._manifest is not None:
            raise UnsuitableTable("a prepared dataset cannot be prepared again: prepare its source")
        if self._named is None:
            raise UnsuitableTable("changes of a frame would go unseen: name the path or the table it was read from")
        with _failures():
            return self._named, frame_fingerprint(self._frame, self._named)

    @without_driver_error
    def store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Write a table of the catalogue with the ranked contributions, and the manifest as its property."""
        check_suitable(aggregation, self._schema)
        with self._job() as views:
            builder = self._builder(aggregation, views)
            pairs = builder.pairs(aggregation, builder.rows(aggregation, hint=self._hint()))
            prepared = builder.prepared(builder.ranked(aggregation, pairs, self._secret(views)))
            frame = self._frame.sparkSession.sql(prepared, args=builder.parameters.values)
            store_frame(frame, destination, manifest)

    @without_driver_error
    def statistics(self, aggregation: Aggregation) -> GroupTable:
        """Return the exact measures of every group."""
        self.check(aggregation)
        with self._job() as views:
            builder = self._builder(aggregation, views)
            conditions = self._in_domain(aggregation, builder.labels(aggregation), views)
            salt = None if aggregation.items_kept_per_user is None else self._secret(views)
            statement = builder.statistics(aggregation, builder.rows(aggregation, conditions, self._hint()), salt)
            found: pa.Table = self._frame.sparkSession.sql(statement, args=builder.parameters.values).toArrow()
        return arrow_group_table(found, aggregation)

    def cancel(self) -> None:
        """Stop what runs, from any thread; the calls that were running raise `EngineFailed`."""
        with self._lock:
            groups = list(self._groups)
        for group in groups:
            self._cancel_group(group)

    def close(self) -> None:
        """Let go of the session, if it was started here."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, aggregation: Aggregation, most: int | None) -> Histogram:
        self.check(aggregation)
        with self._job() as views:
            builder = self._builder(aggregation, views)
            if self._manifest is None:
                counts = self._counts(aggregation, builder, views)
            else:
                counts = builder.counts_of_prepared(aggregation, self._in_domain(aggregation, ["item"], views))
            statement = counts if most is None else builder.highest(aggregation, counts, most)
            found: pa.Table = self._frame.sparkSession.sql(statement, args=builder.parameters.values).toArrow()
        return Histogram.of(arrow_labels(found, aggregation), found.column("count").to_numpy())

    def _builder(self, aggregation: Aggregation, views: "Views") -> StatementBuilder:
        dialect = SparkDialect()
        needed = columns_read(aggregation)
        names = [name for name in self._schema.names if name in needed]
        frame = self._frame if self._narrowed is None else self._narrowed(names)
        return StatementBuilder(dialect, views.add("table", frame), self._schema, Parameters(dialect))

    def _counts(self, aggregation: Aggregation, builder: StatementBuilder, views: "Views") -> str:
        conditions = self._in_domain(aggregation, builder.labels(aggregation), views)
        if aggregation.items_kept_per_user is None:
            rows = builder.rows(aggregation, conditions)
            return builder.counts(aggregation, builder.bounded_pairs(aggregation, rows))
        rows = builder.rows(aggregation, conditions, self._hint())
        columnar = self._narrowed is None  # otherwise another pass reads every line again
        if (
            columnar
            and bounding.has_two_forms(aggregation)
            and self._rows_rarely_repeat(aggregation, builder, conditions)
        ):
            return builder.counts_of_rows(aggregation, rows, self._secret(views))
        pairs = builder.bounded_pairs(aggregation, rows)
        kept = builder.kept(aggregation, builder.ranked(aggregation, pairs, self._secret(views)))
        return builder.counts(aggregation, kept)

    def _hint(self) -> str:
        """Return the hint that sends rows to where their user is: grouping and window then stay there.

        In parts as large as Spark would make them by itself, sorting takes twice as long.
        """
        size = int(str(self._bytes_of._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        parts = max(PARTS_PER_CORE * self._frame.sparkSession.sparkContext.defaultParallelism, size // PART_BYTES)
        return "/*+ REPARTITION(u) */ " if size > MOST_BYTES else f"/*+ REPARTITION({parts}, u) */ "

    def _rows_rarely_repeat(self, aggregation: Aggregation, builder: StatementBuilder, conditions: list[str]) -> bool:
        """Whether users rarely have several rows for an item; learned from some of the users."""
        user = builder.dialect.user(self._schema.column(aggregation.user))
        some = builder.rows(aggregation, [*conditions, f"pmod(xxhash64({user}), {PROBED_SHARE}) = 0"])
        statement = bounding.probe(builder, aggregation, some)
        [(found, pairs)] = self._frame.sparkSession.sql(statement, args=builder.parameters.values).collect()
        return bounding.rows_rarely_repeat(found, pairs)

    def _in_domain(self, aggregation: Aggregation, labels: Sequence[str], views: "Views") -> list[str]:
        if aggregation.domain is None or not aggregation.groups:
            return []
        columns, rows = domain_rows(aggregation, self.describe())
        kinds = [f"c{place} {'STRING' if label_kind(each) is str else 'BIGINT'}" for place, each in enumerate(columns)]
        frame = self._frame.sparkSession.createDataFrame(rows, ", ".join(kinds))
        return [f"({', '.join(labels)}) IN (SELECT * FROM {views.add('domain', frame)})"]

    def _secret(self, views: "Views") -> str:
        """Return a new salt for SQL: plans are shown and logged with their constants, but a view shows only columns."""
        salt = self._frame.sparkSession.createDataFrame([(self._salts(),)], "salt BIGINT")
        return f"(SELECT salt FROM {views.add('secret', salt)})"

    def _cancel_group(self, group: str) -> None:
        """Cancel the jobs of a question, those still to come included: one question is several jobs."""
        self._frame.sparkSession.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)

    @contextmanager
    def _job(self) -> Iterator["Views"]:
        """Give the jobs of one question a group of their own, known to `cancel` and watched, and views to name."""
        session = self._frame.sparkSession
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
        with self._lock:
            self._groups.add(group)
        try:
            with _failures(), Poller(look):
                yield views
        except BaseException:
            self._cancel_group(group)
            raise
        finally:
            with self._lock:
                self._groups.discard(group)
            # Left in the group, the caller's next job would be cancelled with it.
            for name, value in before.items():
                context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None takes it away
            views.drop()


class Views:
    """Temporary views, under names that begin with a prefix nobody else uses."""

    def __init__(self, session: SparkSession, prefix: str) -> None:
        self._session = session
        self._prefix = prefix
        self._names: list[str] = []

    def add(self, what: str, frame: DataFrame) -> str:
        """Name a frame for SQL."""
        name = f"{self._prefix}_{what}"
        frame.createOrReplaceTempView(name)
        self._names.append(name)
        return name

    def drop(self) -> None:
        """Forget the names."""
        for name in self._names:
            self._session.catalog.dropTempView(name)


@contextmanager
def _failures() -> Iterator[None]:
    """Turn Spark's errors into ours with a fixed sentence: its own quote rows and plans."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        cancelled = "cancelled" in str(error)
        raise EngineFailed("the query was cancelled" if cancelled else "Spark could not answer the query") from None

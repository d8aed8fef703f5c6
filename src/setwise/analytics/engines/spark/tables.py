"""What Spark can read as a table: files wherever its session finds them, tables of its catalogue, its own frames."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from setwise.accounting.answer import Progress
from setwise.analytics.engines.cells import BLANKS, check_types, converted, converted_columns
from setwise.analytics.engines.errors import without_driver_error
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.spark.dialect import SparkDialect, spark_column
from setwise.analytics.engines.spark.engine import SparkEngine
from setwise.analytics.engines.spark.files import csv_columns, csv_frame, sound_text
from setwise.analytics.engines.spark.prepared import source_frame, stored_manifest
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import EngineFailed, MissingExtra, UnsuitableTable


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


try:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.sql import DataFrame
    from pyspark.sql.functions import expr
except ImportError:  # pragma: no cover - said in one sentence instead
    raise MissingExtra("Spark needs PySpark and Java 17: pip install 'setwise[spark]'") from None


_SHARED = SharedSession()


@without_driver_error
def open_spark(
    source: object, master: str | None, types: Mapping[str, Kind], csv: CsvOptions, progress: Progress
) -> SparkEngine:
    """Return an engine for a frame, a path of Parquet or CSV files, or the name of a table in the catalogue.

    Without a master the session that is active is used, or the one the machine's Spark configuration describes.
    """
    if isinstance(source, DataFrame):
        chosen = converted_columns(
            check_types(types), Schema(tuple(spark_column(name, native) for name, native in source.dtypes))
        )
        frame = _typed(sound_text(source), chosen)
        return SparkEngine(frame, progress=progress, from_text={column.name for column in chosen})
    try:
        session, started = _SHARED.join(master)
    except (PySparkRuntimeError, PySparkException, Py4JError, OSError):
        raise EngineFailed("Spark could not be started: it needs Java 17 and a master that answers") from None
    try:
        leave = _SHARED.leave if started else None
        return _opened(session, str(source), check_types(types), csv, progress, leave)
    except BaseException as error:
        if started:
            _SHARED.leave()
        if isinstance(error, PySparkException | Py4JError):
            raise UnsuitableTable(f"Spark finds no table or files {str(source)!r} that it can read") from None
        raise


def _opened(
    session: SparkSession,
    source: str,
    types: Mapping[str, Kind],
    csv: CsvOptions,
    progress: Progress,
    leave: Callable[[], None] | None,
) -> SparkEngine:
    suffix = csv.suffix_of(Path(source.rstrip("/")))
    if csv.is_csv(suffix):
        form = csv.format_of(suffix)
        names = csv_columns(session, source, form)
        chosen = converted_columns(types, Schema(tuple(Column(name=name, kind=Kind.TEXT) for name in names)))

        def narrowed(columns: Sequence[str]) -> DataFrame:
            return _typed(csv_frame(session, source, form, columns), chosen)

        return SparkEngine(
            narrowed(names),
            named=source,
            progress=progress,
            leave=leave,
            narrowed=narrowed,
            from_text={column.name for column in chosen},
        )
    frame = source_frame(session, source)
    manifest = stored_manifest(frame, source)
    if manifest is None:
        frame = sound_text(frame)
    chosen = converted_columns(types, Schema(tuple(spark_column(name, native) for name, native in frame.dtypes)))
    return SparkEngine(
        _typed(frame, chosen),
        named=source,
        progress=progress,
        leave=leave,
        manifest=manifest,
        from_text={column.name for column in chosen},
    )


def _typed(frame: DataFrame, columns: Iterable[Column]) -> DataFrame:
    """Return the frame with columns of text read as other kinds, and null where a cell cannot be."""
    functions = _SparkText()
    present = [column for column in columns if column.name in frame.columns]
    if not present:
        return frame
    return frame.withColumns(
        {each.name: expr(converted(SparkDialect().name(each.name), each.kind, functions)) for each in present}
    )


_NATIVE = {Kind.INTEGER: "BIGINT", Kind.FLOAT: "DOUBLE", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP_NTZ"}


class _SparkText:
    """The functions of text that conversions need."""

    def trimmed(self, cell: str) -> str:
        """Return the cell without the blanks around it."""
        return f"trim(BOTH '{BLANKS}' FROM {cell})"

    def matches(self, text: str, pattern: str) -> str:
        """Return whether the whole text matches; under (?d) only a line feed could stand after the end."""
        return f"{text} RLIKE '(?d)^({pattern})$'"

    def try_cast(self, text: str, kind: Kind) -> str:
        """Return the text as Spark's type of that kind, or null."""
        native = {Kind.INTEGER: "BIGINT", Kind.FLOAT: "DOUBLE", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP_NTZ"}[
            kind
        ]
        return f"TRY_CAST({text} AS {native})"

    def earlier(self, timestamp: str, minutes: str) -> str:
        """Return the timestamp `minutes` before another."""
        return f"timestampadd(MINUTE, CAST(-({minutes}) AS INT), {timestamp})"

"""What Spark can read as a table: files wherever its session finds them, tables of its catalogue, its own frames."""

import threading
from collections.abc import Mapping

from pyspark import SparkContext
from pyspark.sql import SparkSession

from setwise.accounting.answer import Progress
from setwise.analytics.engines.errors import unchained
from setwise.analytics.engines.spark.engine import SparkEngine
from setwise.analytics.engines.spark.prepared import source_frame, stored_manifest
from setwise.analytics.schema import Kind
from setwise.errors import EngineFailed, MissingExtra, UnknownColumn, UnsuitableTable


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
    from pyspark.errors import AnalysisException, PySparkException, PySparkRuntimeError
    from pyspark.sql import DataFrame
except ImportError:  # pragma: no cover - said in one sentence instead
    raise MissingExtra("Spark needs PySpark and Java 17: pip install 'setwise[spark]'") from None


_SHARED = SharedSession()

_TYPES = {
    Kind.INTEGER: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
}
_PATTERNS = {Kind.INTEGER: "^[+-]?[0-9]+$", Kind.DATE: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}


@unchained
def open_spark(source: object, master: str | None, types: Mapping[str, Kind], progress: Progress) -> SparkEngine:
    """Return an engine for a frame, a path of Parquet or CSV files, or the name of a table in the catalogue.

    Without a master the session that is active is used, or the one the machine's Spark configuration describes.
    """
    if isinstance(source, DataFrame):
        return SparkEngine(source, progress=progress)
    try:
        session, started = _SHARED.join(master)
    except (PySparkRuntimeError, PySparkException, Py4JError, OSError):
        raise EngineFailed("Spark could not be started: it needs Java 17 and a master that answers") from None
    try:
        frame = source_frame(session, str(source))
        manifest = stored_manifest(frame, str(source))
        frame = _typed(frame, str(source), types)
        leave = _SHARED.leave if started else None
        return SparkEngine(frame, named=str(source), progress=progress, leave=leave, manifest=manifest)
    except BaseException as error:
        if started:
            _SHARED.leave()
        if isinstance(error, AnalysisException | Py4JError):
            raise UnsuitableTable(f"Spark finds no table or files {str(source)!r} that it can read") from None
        raise


def _typed(frame: DataFrame, source: str, types: Mapping[str, Kind]) -> DataFrame:
    """Return the columns of a CSV file as their declared types, with null where a cell is not of that type."""
    for name, kind in types.items():
        if name not in frame.columns:
            raise UnknownColumn(f"{source} has no column {name!r}; it has {', '.join(map(repr, frame.columns))}")
        if kind is Kind.TEXT:
            continue
        cell = "`" + name.replace("`", "``") + "`"
        converted = f"TRY_CAST({cell} AS {_TYPES[kind]})"
        if kind in _PATTERNS:
            converted = f"CASE WHEN {cell} RLIKE '{_PATTERNS[kind]}' THEN {converted} END"
        from pyspark.sql.functions import expr

        frame = frame.withColumn(name, expr(converted))
    return frame

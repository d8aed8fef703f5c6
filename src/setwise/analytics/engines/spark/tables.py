"""What Spark can read as a table: files wherever its session finds them, tables of its catalogue, its own frames."""

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from setwise.accounting.brackets import Progress
from setwise.analytics.engines.base import without_driver_error
from setwise.analytics.engines.bounding import SaltSource, secret_salt
from setwise.analytics.engines.cells import BLANKS, check_types, converted, converted_columns
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.joins import Join, JoinedTables, NamedTable, Part, types_of_keys
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.spark.dialect import SparkDialect, spark_column
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import EngineFailed, MissingExtra, UnsuitableTable

try:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.functions import expr
except ImportError:  # pragma: no cover - said in one sentence instead
    raise MissingExtra("Spark needs PySpark and Java 17: pip install 'setwise[spark]'") from None

from setwise.analytics.engines.spark.engine import SparkEngine, Views
from setwise.analytics.engines.spark.files import csv_columns, csv_frame, sound_text
from setwise.analytics.engines.spark.prepared import source_frame, stored_manifest


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable:
    """A table as Spark reads it: its frame, and `from_text`, the columns of text that are read as another kind.

    `narrowed` returns the frame with some of its columns, where reading fewer of them is a matter of asking for them.
    `named` is how the session finds the source again. `bytes_of` is a frame of about the same size, where Spark cannot
    estimate it.
    """

    frame: DataFrame
    from_text: frozenset[str] = frozenset()
    narrowed: Callable[[Sequence[str]], DataFrame] | None = None
    named: str | None = None
    manifest: Manifest | None = None
    bytes_of: DataFrame | None = None

    @property
    def schema(self) -> Schema:
        """The columns and their kinds."""
        columns = [spark_column(name, native) for name, native in self.frame.dtypes]
        return Schema(tuple(replace(column, from_text=column.name in self.from_text) for column in columns))

    def columns(self, names: Sequence[str]) -> DataFrame:
        """Return a frame that has these columns, and maybe others that cost nothing."""
        return self.frame if self.narrowed is None else self.narrowed(names)

    def read_as(self, types: Mapping[str, Kind]) -> "SparkTable":
        """Return the table with columns of text read as other kinds."""
        chosen = converted_columns(check_types(types), self.schema)
        narrowed = self.narrowed
        return replace(
            self,
            frame=_typed(self.frame, chosen),
            from_text=self.from_text | {column.name for column in chosen},
            narrowed=None if narrowed is None else lambda names: _typed(narrowed(names), chosen),
        )

    def engine(
        self, progress: Progress, leave: Callable[[], None] | None = None, salts: SaltSource = secret_salt
    ) -> SparkEngine:
        """Return an engine that reads the table."""
        return SparkEngine(
            self.frame,
            named=self.named,
            progress=progress,
            salts=salts,
            leave=leave,
            manifest=self.manifest,
            narrowed=self.narrowed,
            from_text=self.from_text,
            bytes_of=self.bytes_of,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSource:
    """A frame, a path of Parquet or CSV files, or the name of a table in the catalogue, and how its text is read."""

    source: object
    types: Mapping[str, Kind] = field(default_factory=dict)
    csv: CsvOptions = field(default_factory=CsvOptions)

    def opened(self, session: SparkSession) -> SparkTable:
        """Return the table, or raise `UnsuitableTable` when the session cannot read it."""
        try:
            return self._found(session).read_as(self.types)
        except (PySparkException, Py4JError):
            raise UnsuitableTable(f"Spark finds no table or files {str(self.source)!r} that it can read") from None

    def _found(self, session: SparkSession) -> SparkTable:
        if isinstance(self.source, DataFrame):
            return SparkTable(frame=sound_text(self.source))
        source = str(self.source)
        suffix = self.csv.suffix_of(Path(source.rstrip("/")))
        if self.csv.is_csv(suffix):
            form = self.csv.format_of(suffix)
            names = csv_columns(session, source, form)
            return SparkTable(
                frame=csv_frame(session, source, form, names),
                narrowed=lambda columns: csv_frame(session, source, form, columns),
                named=source,
            )
        frame = source_frame(session, source)
        manifest = stored_manifest(frame, source)
        return SparkTable(frame=frame if manifest is not None else sound_text(frame), named=source, manifest=manifest)


@without_driver_error
def open_spark(source: SparkSource, master: str | None, progress: Progress) -> SparkEngine:
    """Return an engine for a source.

    Without a master the session that is active is used, or the one the machine's Spark configuration describes.
    """
    with _session_for(source, master) as (session, leave):
        return source.opened(session).engine(progress, leave)


@without_driver_error
def open_spark_join(
    sources: Sequence[NamedTable[SparkSource]], joins: Sequence[Join], user: str, master: str | None, progress: Progress
) -> SparkEngine:
    """Return an engine for sources that are joined, the first of them private."""
    with _session_for(sources[0].table, master) as (session, leave):
        tables = [
            NamedTable(name=each.name, table=each.table.opened(session), private=each.private) for each in sources
        ]
        try:
            return joined_tables(session, tables, joins, user).engine(progress, leave)
        except (PySparkException, Py4JError):
            raise EngineFailed("Spark could not join the tables") from None


def joined_tables(
    session: SparkSession, tables: Sequence[NamedTable[SparkTable]], joins: Sequence[Join], user: str
) -> SparkTable:
    """Return tables that are joined as one; what is text in a key of a public one is read as its partner's kind."""
    opened: list[SparkTable] = []
    parts: list[Part] = []
    for place, each in enumerate(tables):
        table = each.table
        if table.manifest is not None:
            raise UnsuitableTable("what was prepared cannot be joined: join its source")
        if place > 0 and not each.private:
            table = table.read_as(types_of_keys(joins[place - 1], parts, table.schema))
        opened.append(table)
        parts.append(Part(name=each.name, schema=table.schema, private=each.private))
    joined = JoinedTables(parts, joins, user)

    def frame(columns: Sequence[str] | None = None) -> DataFrame:
        views = Views(session, f"setwise_{uuid.uuid4().hex}")
        try:
            relations = [
                views.add(str(place), table.columns(joined.needed(place, columns)))
                for place, table in enumerate(opened)
            ]
            return session.sql(f"SELECT * FROM {joined.statement(relations, SparkDialect(), columns)}")
        finally:
            views.drop()

    return SparkTable(
        frame=frame(),
        from_text=frozenset(column.name for column in joined.schema if column.from_text),
        narrowed=None if all(table.narrowed is None for table in opened) else frame,
        bytes_of=opened[0].frame,
    )


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

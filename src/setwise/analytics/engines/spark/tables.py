"""What Spark can read as a table: files wherever its session finds them, tables of its catalogue, its own frames.

A prepared dataset is a table of the catalogue, whose property is the manifest.
"""

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from setwise.analytics.engines.cells import (
    BLANKS,
    PLAIN_CELLS,
    CellGrammar,
    TextFunctions,
    check_types,
    converted,
    converted_columns,
    filled,
)
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.joins import Join, JoinedTables, NamedTable, Part, types_of_keys
from setwise.analytics.engines.prepared import Manifest, not_replaceable
from setwise.analytics.engines.row_sql import DerivedTable
from setwise.analytics.engines.spark.dialect import SparkDialect, spark_column
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Kind, Schema
from setwise.errors import MissingExtra, UnsuitableTable

try:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.functions import expr
except ImportError:  # pragma: no cover - said in one sentence instead
    raise MissingExtra("Spark needs PySpark and Java 17: pip install 'setwise[spark]'") from None

from setwise.analytics.engines.spark.definitions import check_frame
from setwise.analytics.engines.spark.files import (
    csv_columns,
    csv_files,
    csv_frame,
    is_csv,
    is_path,
    parquet_frame,
    sound_text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable:
    """A table as Spark reads it: its frame, and `from_text`, the columns of text that are read as another kind.

    `narrowed` returns the frame with some of its columns, where reading fewer of them is a matter of asking for them.
    `named` is how the session finds the source again.
    `bytes_of` is a frame of about the same size, where Spark cannot estimate it.
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

    @property
    def sized_like(self) -> DataFrame:
        """A frame of about the same size: of a join, Spark estimates as many rows as there are pairs of rows."""
        return self.frame if self.bytes_of is None else self.bytes_of

    def columns(self, names: Sequence[str]) -> DataFrame:
        """Return a frame that has these columns, and maybe others that cost nothing."""
        return self.frame if self.narrowed is None else self.narrowed(names)

    def read_as(self, types: Mapping[str, Kind], grammar: CellGrammar = PLAIN_CELLS) -> "SparkTable":
        """Return the table with columns of text read as other kinds, and words for empty cells as null."""
        chosen = converted_columns(check_types(types), self.schema)
        texts = [column.name for column in self.schema if column.kind is Kind.TEXT] if grammar.null else []
        cells = {name: filled(SparkDialect().name(name), _TEXT, grammar.null) for name in texts}
        cells |= {
            each.name: converted(cells.get(each.name, SparkDialect().name(each.name)), each.kind, _TEXT, grammar)
            for each in chosen
        }
        narrowed = self.narrowed
        return replace(
            self,
            frame=_read_cells(self.frame, cells),
            from_text=self.from_text | {column.name for column in chosen},
            narrowed=None if narrowed is None else lambda names: _read_cells(narrowed(names), cells),
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
            return self._found(session).read_as(self.types, self.csv.cells)
        except (PySparkException, Py4JError):
            raise UnsuitableTable(f"Spark finds no table or files {str(self.source)!r} that it can read") from None

    def _found(self, session: SparkSession) -> SparkTable:
        if isinstance(self.source, DataFrame):
            check_frame(self.source, "the frame")
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
        if not is_path(source):
            check_frame(frame, f"the table or view {source!r}")
        manifest = stored_manifest(frame, source)
        return SparkTable(frame=frame if manifest is not None else sound_text(frame), named=source, manifest=manifest)


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


def derived_table(session: SparkSession, table: SparkTable, derivation: Derivation) -> SparkTable:
    """Return the table that is derived from another one; without a derivation, the table itself."""
    if not derivation:
        return table
    if table.manifest is not None:
        raise UnsuitableTable("what was prepared cannot be computed with: ask its source")
    derived = DerivedTable(derivation, table.schema, SparkDialect())
    schema = derived.schema

    def frame(columns: Sequence[str] | None = None) -> DataFrame:
        views = Views(session, f"setwise_{uuid.uuid4().hex}")
        needed = derived.needed(columns)
        try:
            relation = views.add("derived", table.frame if needed is None else table.columns(needed))
            return session.sql(f"SELECT * FROM {derived.statement(relation)}")
        finally:
            views.drop()

    return SparkTable(
        frame=frame(),
        from_text=frozenset(column.name for column in schema if column.from_text),
        narrowed=None if table.narrowed is None else frame,
        bytes_of=table.sized_like,
    )


def _read_cells(frame: DataFrame, cells: Mapping[str, str]) -> DataFrame:
    """Return the frame with the columns that it has of `cells` replaced by the SQL expressions there."""
    present = {name: expr(cell) for name, cell in cells.items() if name in frame.columns}
    return frame.withColumns(present) if present else frame


_TEXT = TextFunctions(
    types=SparkDialect.types,
    trimmed=f"trim(BOTH '{BLANKS}' FROM {{}})",
    matches="{} RLIKE concat('(?d)^(', {}, ')$')",  # under (?d) only a line feed could stand after the end
    literal=lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'",
    earlier="timestampadd(MINUTE, CAST(-({1}) AS INT), {0})",
)


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


PROPERTY = "setwise.prepared"


def source_frame(session: SparkSession, source: str) -> DataFrame:
    """Return the frame of the files of a path, or of a table."""
    if is_csv(source):
        return csv_files(session, source)
    return parquet_frame(session, source) if is_path(source) else session.table(source)


def frame_fingerprint(frame: DataFrame, source: str) -> str:
    """Return a digest of the names, sizes and times of change of a frame's files, as Hadoop tells them."""
    files = sorted(frame.inputFiles())
    if not files:
        raise UnsuitableTable(
            f"{source!r} cannot be prepared, as Spark names no files of it to notice changes by: write it to Parquet"
        )
    session = frame.sparkSession
    hadoop = session._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    configuration = session._jsc.hadoopConfiguration()
    digest = hashlib.sha256()
    for file in files:
        path = hadoop.Path(file)
        status = path.getFileSystem(configuration).getFileStatus(path)
        digest.update(f"{file!r} {status.getLen()} {status.getModificationTime()} ".encode())
    return digest.hexdigest()


def stored_manifest(frame: DataFrame, source: str) -> Manifest | None:
    """Return the manifest of a table that is a prepared dataset, or None."""
    if is_path(source):
        return None
    session = frame.sparkSession
    properties = session.sql(f"SHOW TBLPROPERTIES {_named(source)}").collect()
    written = {row["key"]: row["value"] for row in properties}.get(PROPERTY)
    return None if written is None else Manifest.read(written)


def store_frame(prepared: DataFrame, destination: str, manifest: Manifest) -> None:
    """Make the table and its property, in place of a prepared dataset of that name."""
    session = prepared.sparkSession
    if session.catalog.tableExists(destination):
        if stored_manifest(prepared, destination) is None:
            raise not_replaceable(destination)
        session.sql(f"DROP TABLE {_named(destination)}")
    prepared.write.format("parquet").saveAsTable(destination)
    written = manifest.written().replace("\\", "\\\\").replace("'", "\\'")
    session.sql(f"ALTER TABLE {_named(destination)} SET TBLPROPERTIES ('{PROPERTY}' = '{written}')")


def _named(table: str) -> str:
    return ".".join(map(SparkDialect().name, table.split(".")))

"""Tables that Spark can read: files wherever its session finds them, catalogue tables, and its own data frames.

A prepared dataset (a stored random ranking of each user's groups) is a catalogue table. The manifest, which describes
the dataset, is stored as a property of the table.
"""

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from setwise.analytics.engines.derived_tables import DerivedTable
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.joins import Join, JoinedTables, JoinInput, NamedTable, types_of_keys
from setwise.analytics.engines.prepared import PREPARED_DERIVED, PREPARED_JOINED, Manifest, not_replaceable
from setwise.analytics.engines.spark.definitions import check_frame
from setwise.analytics.engines.spark.dialect import SparkDialect, spark_column
from setwise.analytics.engines.spark.files import (
    csv_columns,
    csv_files,
    csv_frame,
    is_csv,
    is_path,
    parquet_frame,
    sound_text,
)
from setwise.analytics.engines.typed_cells import (
    BLANKS,
    PLAIN_CELLS,
    CellGrammar,
    TextFunctions,
    check_types,
    convert_cell,
    converted_columns,
    null_if_word,
)
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Kind, Schema
from setwise.errors import UnsuitableTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable:
    """A table as Spark reads it: its data frame `frame`, and in `from_text` the columns converted from text.

    - `narrowed` is a function that takes names of columns and returns the frame with these columns only. None if Spark
      itself skips unused columns.
    - `named` is the path or table name under which the session finds the source again. None for a frame, a join or a
      derived table.
    - `manifest` describes a prepared dataset (a stored random ranking of each user's groups). None for other tables.
    - `bytes_of` is the frame of which Spark is asked the size in bytes: for a join, which Spark estimates badly, the
      frame of its private table. None stands for `frame` itself.
    """

    frame: DataFrame
    from_text: frozenset[str] = frozenset()
    narrowed: Callable[[Sequence[str]], DataFrame] | None = None
    named: str | None = None
    manifest: Manifest | None = None
    bytes_of: DataFrame | None = None

    @property
    def schema(self) -> Schema:
        """The columns of the table and their types.

        A column that was converted from text has its field `from_text` set.
        """
        columns = [spark_column(name, native) for name, native in self.frame.dtypes]
        return Schema(tuple(replace(column, from_text=column.name in self.from_text) for column in columns))

    @property
    def sized_like(self) -> DataFrame:
        """The data frame whose size in bytes, as Spark estimates it, stands for the size of the table.

        For most tables it is `frame` itself. For a join it is the frame of the private table, because Spark's estimate
        for the join would count one row for each pair of rows of the joined tables.
        """
        return self.frame if self.bytes_of is None else self.bytes_of

    def columns(self, names: Sequence[str]) -> DataFrame:
        """Return a data frame of the table with at least the columns `names`, so that Spark can skip the others."""
        return self.frame if self.narrowed is None else self.narrowed(names)

    def read_as(self, types: Mapping[str, Kind], grammar: CellGrammar = PLAIN_CELLS) -> "SparkTable":
        """Return the table with text columns converted to the types in `types`, which maps column names to types.

        `grammar` says how cells are written, and lists words that mean an empty cell, such as NA. Such a word, and a
        cell that cannot be converted, become null.
        Raises: `UnknownColumn` or `UnsuitableTable` if `types` do not fit the columns.
        """
        chosen = converted_columns(check_types(types), self.schema)
        texts = [column.name for column in self.schema if column.kind is Kind.TEXT] if grammar.null else []
        cells = {name: null_if_word(SparkDialect().name(name), _TEXT, grammar.null) for name in texts}
        cells |= {
            column.name: convert_cell(
                cells.get(column.name, SparkDialect().name(column.name)), column.kind, _TEXT, grammar
            )
            for column in chosen
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
    """A source that Spark can read, with its column types and CSV options.

    - `source` is a data frame, a path of Parquet or CSV files, or the name of a catalogue table.
    - `types` maps text columns to the types to which they are converted.
    - `csv` says how CSV files are written.
    """

    source: object
    types: Mapping[str, Kind] = field(default_factory=dict)
    csv: CsvOptions = field(default_factory=CsvOptions)

    def open_table(self, session: SparkSession) -> SparkTable:
        """Return the source as a table whose text columns are converted to the types in `types`.

        Raises: `UnsuitableTable` if `session` cannot read the source.
        """
        try:
            return self._raw_table(session).read_as(self.types, self.csv.cells)
        except (PySparkException, Py4JError):
            raise UnsuitableTable(f"Spark finds no table or files {str(self.source)!r} that it can read") from None

    def _raw_table(self, session: SparkSession) -> SparkTable:
        """Return the source, read by `session`, as a table whose text columns are not yet converted to other types.

        Raises: `UnsuitableTable` if reading it could fail on a row.
        """
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
    """Return the join of `tables`, of which the first is private, as one table of `session`.

    `joins` are the joins of the other tables, in order, and `user` is the user column.

    Raises: `UnsuitableTable` for a prepared dataset, which has a random ranking of users' groups but no rows of users;
    `InvalidParameter` or `UnknownColumn` if a joined row could belong to two users, or if keys cannot be compared.
    """
    opened: list[SparkTable] = []
    parts: list[JoinInput] = []
    for place, named in enumerate(tables):
        table = named.table
        if table.manifest is not None:
            raise UnsuitableTable(PREPARED_JOINED)
        if place > 0 and not named.private:
            # a text key is converted to the type of the key that it is compared with
            table = table.read_as(types_of_keys(joins[place - 1], parts, table.schema))
        if place > 0:
            table = derived_table(session, table, joins[place - 1].rows)
        opened.append(table)
        parts.append(JoinInput(name=named.name, schema=table.schema, private=named.private))
    joined = JoinedTables(parts, joins, user)

    def frame(columns: Sequence[str] | None = None) -> DataFrame:
        """Return a data frame of the join with the columns named `columns`; None means all columns."""
        views = Views(session, f"setwise_{uuid.uuid4().hex}")
        try:
            relations = [
                views.add(str(place), table.columns(joined.needed_columns(place, columns)))
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
    """Return the table that results if the steps of `derivation` are applied to `table`.

    A step computes columns, filters rows or groups each user's rows, for example. Without steps, `table` itself is
    returned. `session` is the Spark session that reads the table.
    Raises: `UnsuitableTable` for a prepared dataset, which has ranks of users' groups and no rows to derive from.
    """
    if not derivation:
        return table
    if table.manifest is not None:
        raise UnsuitableTable(PREPARED_DERIVED)
    derived = DerivedTable(derivation, table.schema, SparkDialect())
    schema = derived.schema

    def frame(columns: Sequence[str] | None = None) -> DataFrame:
        """Return a data frame of the derived table with the columns named `columns`; None means all columns."""
        views = Views(session, f"setwise_{uuid.uuid4().hex}")
        needed = derived.needed_columns(columns)
        try:
            relation = views.add("derived", table.frame if needed is None else table.columns(needed))
            return session.sql(f"SELECT * FROM {derived.statement(relation, columns)}")
        finally:
            views.drop()

    return SparkTable(
        frame=frame(),
        from_text=frozenset(column.name for column in schema if column.from_text),
        narrowed=None if table.narrowed is None else frame,
        bytes_of=table.sized_like,
    )


def _read_cells(frame: DataFrame, cells: Mapping[str, str]) -> DataFrame:
    """Return `frame` with some columns replaced; `cells` maps names of columns to SQL expressions of the new values.

    Columns that the frame does not have are ignored.
    """
    present = {name: expr(cell) for name, cell in cells.items() if name in frame.columns}
    return frame.withColumns(present) if present else frame


_TEXT = TextFunctions(
    types=SparkDialect.types,
    trimmed=f"trim(BOTH '{BLANKS}' FROM {{}})",
    matches="{} RLIKE concat('(?d)^(', {}, ')$')",  # with (?d), $ allows at most a line feed after the match
    literal=lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'",
    earlier="timestampadd(MINUTE, CAST(-({1}) AS INT), {0})",
)


class Views:
    """A set of temporary views of the Spark `session`; their names begin with `prefix`, which no other view uses.

    A query makes such a set for the tables that its SQL reads, and drops it at the end.
    """

    def __init__(self, session: SparkSession, prefix: str) -> None:
        self._session = session
        self._prefix = prefix
        self._names: list[str] = []

    def add(self, suffix: str, frame: DataFrame) -> str:
        """Register `frame` as a temporary view, and return the name of the view, which ends in `suffix`.

        An earlier view of the same suffix is replaced.
        """
        name = f"{self._prefix}_{suffix}"
        frame.createOrReplaceTempView(name)
        self._names.append(name)
        return name

    def drop(self) -> None:
        """Drop all temporary views of this set."""
        for name in self._names:
            self._session.catalog.dropTempView(name)


PROPERTY = "setwise.prepared"
"""The name of the table property that holds the manifest of a prepared dataset."""


def source_frame(session: SparkSession, source: str) -> DataFrame:
    """Return a data frame in `session` for `source`: a path of Parquet or CSV files, or the name of a catalogue table.

    A catalogue table is one that Spark finds by its name. For CSV files the frame has one row per file, with its path,
    length and content, which suffices for a fingerprint (a digest by which changes are noticed).
    """
    if is_csv(source):
        return csv_files(session, source)
    return parquet_frame(session, source) if is_path(source) else session.table(source)


def frame_fingerprint(frame: DataFrame, source: str) -> str:
    """Return a digest of the names, sizes and modification times of a frame's files, as Hadoop reports them.

    `source` names the frame in messages.
    Raises: `UnsuitableTable` if Spark names no files, so that changes could not be noticed.
    """
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
    """Return the manifest stored with the catalogue table `source`; None if the table is not a prepared dataset.

    A prepared dataset stores a random ranking of each user's groups; its manifest describes it. `frame` is any frame of
    the Spark session in which the table is looked up.
    """
    if is_path(source):
        return None
    session = frame.sparkSession
    properties = session.sql(f"SHOW TBLPROPERTIES {_quoted_name(source)}").collect()
    manifest_text = {row["key"]: row["value"] for row in properties}.get(PROPERTY)
    return None if manifest_text is None else Manifest.read(manifest_text)


def store_frame(prepared: DataFrame, destination: str, manifest: Manifest) -> None:
    """Store `prepared` as the prepared dataset `destination`, from which later histograms are computed faster.

    - `prepared` is a data frame of rows (item, n, rank, users). A row says that `users` users have the group `item` at
      position `rank` of a random order of their groups, and that each of them adds n to it.
    - `destination` is a table of Spark's catalogue. An earlier prepared dataset of that name is replaced.
    - `manifest`, the description of the dataset, becomes a property of the table.

    Raises: `InvalidParameter` if `destination` exists and is not a prepared dataset.
    """
    session = prepared.sparkSession
    if session.catalog.tableExists(destination):
        if stored_manifest(prepared, destination) is None:
            raise not_replaceable(destination)
        session.sql(f"DROP TABLE {_quoted_name(destination)}")
    prepared.write.format("parquet").saveAsTable(destination)
    manifest_text = manifest.to_text().replace("\\", "\\\\").replace("'", "\\'")
    session.sql(f"ALTER TABLE {_quoted_name(destination)} SET TBLPROPERTIES ('{PROPERTY}' = '{manifest_text}')")


def _quoted_name(table: str) -> str:
    """Return the dotted name of a table as SQL text, with each part of the name in quotes."""
    return ".".join(map(SparkDialect().name, table.split(".")))

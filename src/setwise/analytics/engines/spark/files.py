"""CSV and Parquet files as Spark data frames, read so that no row affects how another is read.

Without this module Spark would take line ends in quotes for new rows, replace bytes that are not UTF-8, guess the types
of partition columns from all of their values, and fail on timestamps in milliseconds beyond the range of microseconds.
"""

import io
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from setwise.analytics.engines import csv_format, csv_reader, csv_records
from setwise.analytics.engines.csv_format import CsvFormat
from setwise.analytics.engines.csv_reader import LONGEST_HEADER, CsvFile
from setwise.analytics.engines.files import (
    CSV_SEPARATORS,
    PARQUET_SUFFIXES,
    check_headers,
    csv_file,
    suffix_of,
)
from setwise.analytics.engines.spark.dialect import SparkDialect
from setwise.errors import UnsuitableTable

LONGEST_FILE = 2**31 - 2**20
"""Most bytes of a CSV file, because Spark passes the whole file as one value of an array."""
MOST_MILLISECONDS = (2**63 - 1) // 1000
"""The greatest timestamp in milliseconds that fits into 64 bits as microseconds."""
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_SETTING = threading.Lock()

# The modules are sent to the executors by value, so that only NumPy and PyArrow must be installed there.
for module in (csv_format, csv_reader, csv_records):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def is_path(source: str) -> bool:
    """Return whether `source` is a path, which a slash or a file ending shows, and not the name of a table."""
    return "/" in source or suffix_of(Path(source)) in (*PARQUET_SUFFIXES, *CSV_SEPARATORS)


def is_csv(source: str) -> bool:
    """Return whether the path `source` has an ending of CSV files, such as .csv or .csv.gz."""
    return suffix_of(Path(source)) in CSV_SEPARATORS


def csv_files(session: SparkSession, source: str) -> DataFrame:
    """Return a data frame of `session` with one row for each file under the path `source`.

    A row has the file's path, its length in bytes and its content.
    """
    return session.read.format("binaryFile").option("recursiveFileLookup", "true").load(source)


def csv_columns(session: SparkSession, source: str, form: CsvFormat) -> tuple[str, ...]:
    """Return the column names that all CSV files under the path `source` share; only their beginnings are read.

    `form` is the CSV format of the files, which `session` reads.
    Raises: `UnsuitableTable` if a file is too large or has no readable header, or if headers differ.
    """
    files = csv_files(session, source).select("path", "length").collect()
    for path, length in files:
        if length > LONGEST_FILE:
            raise UnsuitableTable(
                f"{path} has more than 2 GiB, which Spark cannot hand over as one value: split it, or convert it to "
                "Parquet"
            )
    names = [str(path) for path, _ in files]
    return check_headers(names, [_header(session, path, length, form) for path, length in files])


def csv_frame(session: SparkSession, source: str, form: CsvFormat, columns: Sequence[str]) -> DataFrame:
    """Return a data frame with the columns `columns`, all of them text, of the CSV files under the path `source`.

    `form` is the CSV format of the files, which `session` reads.
    """
    chosen = list(columns)

    def parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the CSV records of whole files as Arrow batches; `batches` gives the files as rows (path, content).

        Spark runs this function on its executors. The CSV format and the columns to read are those given to
        `csv_frame`.
        """
        for batch in batches:
            for path, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                buffer = content.as_buffer()

                def open_buffer(buffer: pa.Buffer = buffer, path: str = path) -> BinaryIO:
                    """Return a stream of the CSV file `buffer`, decompressed and in UTF-8.

                    The ending of `path`, such as .gz, shows how the file is compressed.
                    """
                    return form.open_converted(pa.BufferReader(buffer), path)

                yield from CsvFile(open_buffer, form).batches(chosen)

    schema = ", ".join(f"{SparkDialect().name(name)} STRING" for name in chosen)
    with _python_of_this_machine(session), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about pandas, which mapInArrow imports but does not use
        return csv_files(session, source).select("path", "content").mapInArrow(parse_batches, schema)


def parquet_frame(session: SparkSession, source: str) -> DataFrame:
    """Return a data frame of the Parquet files under the path `source`, with partition columns as text.

    `session` is the Spark session that reads the files. Timestamps in milliseconds that do not fit into Spark's 64-bit
    microseconds are null.

    Raises: `UnsuitableTable` if the files have columns of different types, or belong to a lake table such as a Delta
    table.
    """
    try:
        with _text_partitions(session):
            frame = session.read.option("mergeSchema", "true").parquet(source)
    except (PySparkException, Py4JError) as error:
        if "CANNOT_MERGE_SCHEMAS" not in str(error):
            raise
        frame = None
    if frame is None:
        raise UnsuitableTable(
            f"the files of {source} have columns of other types than one another: write them with the same types"
        )
    _check_no_lake(session, source, frame)
    return _with_milliseconds(session, source, frame)


def _check_no_lake(session: SparkSession, source: str, frame: DataFrame) -> None:
    """Raise `UnsuitableTable` if any file of `frame` belongs to a lake table, such as a Delta table.

    `source` is the path, for the message. `session` lists the folders. Files that the lake table has removed still lie
    in its folder, so reading the files directly gives wrong rows.
    """
    hadoop = session._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    configuration = session._jsc.hadoopConfiguration()
    folders: set[str] = set()
    for file in frame.inputFiles():
        folder = hadoop.Path(file).getParent()
        while folder is not None and str(folder) not in folders:
            folders.add(str(folder))
            folder = folder.getParent()
    for name in folders:
        folder = hadoop.Path(name)
        system = folder.getFileSystem(configuration)
        for marker, lake in (("_delta_log", "Delta"), (".hoodie", "Hudi")):
            if system.exists(hadoop.Path(folder, marker)):
                raise UnsuitableTable(_lake_refusal(source, lake))
        metadata_files = system.globStatus(hadoop.Path(folder, "metadata/*.metadata.json"))
        if metadata_files is not None and len(metadata_files):
            raise UnsuitableTable(_lake_refusal(source, "Iceberg"))


def _lake_refusal(source: str, lake: str) -> str:
    """Return the error message for a path whose files belong to a lake table, which Spark reads only by name.

    `source` is the path and `lake` the format of the table, such as Delta.
    """
    return (
        f"{source} holds files of a {lake} table, also those that the table has removed, so Spark does not read them "
        f"as they are: name the table in Spark's catalogue, in a session that was built with {lake}'s jar (from Maven: "
        "the packages of PyPI do not contain it), or leave the engine out, and DuckDB reads the folder by its metadata"
    )


def sound_text(frame: DataFrame) -> DataFrame:
    """Return `frame` with null for text cells that are not UTF-8; a Spark string can hold any bytes."""
    texts = [name for name, native in frame.dtypes if native == "string"]
    sound = {name: expr(f"TRY_VALIDATE_UTF8({SparkDialect().name(name)})") for name in texts}
    return frame.withColumns(sound) if sound else frame


def _with_milliseconds(session: SparkSession, source: str, frame: DataFrame) -> DataFrame:
    """Return `frame`, read from the Parquet files under `source`, with null for timestamps that make Spark fail.

    Parquet files may store timestamps as 64-bit milliseconds. Spark converts them to 64-bit microseconds, and large
    ones overflow. `session` reads the files' footers.

    Raises: `UnsuitableTable` if the files store a column in different units.
    """
    stamped = {name: native for name, native in frame.dtypes if native in ("timestamp", "timestamp_ntz")}
    if not stamped:
        return frame
    units = [milliseconds_columns(session, path) & set(stamped) for path in frame.inputFiles()]
    if any(unit != units[0] for unit in units):
        raise UnsuitableTable(f"the files of {source} have timestamps of different units: write them with the same one")
    chosen = {name: stamped[name] for name in stamped if units and name in units[0]}
    if not chosen:
        return frame
    schema = ", ".join(
        f"{SparkDialect().name(field.name)} {'BIGINT' if field.name in chosen else field.dataType.simpleString()}"
        for field in frame.schema
    )
    with _text_partitions(session):
        raw = session.read.schema(schema).parquet(source)
    return raw.withColumns({name: expr(_moment(SparkDialect().name(name), native)) for name, native in chosen.items()})


def _moment(cell: str, native: str) -> str:
    """Return a SQL expression that converts milliseconds since 1970 to a timestamp of Spark's type `native`.

    `cell` is the SQL expression of the milliseconds. Null if the timestamp does not fit into 64-bit microseconds.
    """
    within = f"{cell} BETWEEN -{MOST_MILLISECONDS} AND {MOST_MILLISECONDS}"
    timestamp = f"timestamp_millis({cell})"
    if native == "timestamp_ntz":
        timestamp = f"timestampadd(MILLISECOND, {cell}, TIMESTAMP_NTZ'1970-01-01 00:00:00')"
    return f"CASE WHEN {within} THEN {timestamp} END"


def milliseconds_columns(session: SparkSession, path: str) -> set[str]:
    """Return the names of the columns, in the Parquet file at `path`, that are timestamps in milliseconds.

    Only the file's footer is read, through `session`.
    """
    jvm = session._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
    parquet = jvm.org.apache.parquet.hadoop  # type: ignore[union-attr]
    source = parquet.util.HadoopInputFile.fromPath(hadoop, session._jsc.hadoopConfiguration())
    reader = parquet.ParquetFileReader.open(source)
    try:
        fields = reader.getFooter().getFileMetaData().getSchema().getFields()
        return {field.getName() for field in fields if "TIMESTAMP(MILLIS" in str(field.getLogicalTypeAnnotation())}
    finally:
        reader.close()


def _header(session: SparkSession, path: str, length: int, form: CsvFormat) -> tuple[str, ...] | str:
    """Return the column names in the header of the CSV file at `path`, or a text that says why they cannot be read.

    `session` reads the file, `length` is its length in bytes, and `form` its CSV format.
    """
    jvm = session._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
    stream = hadoop.getFileSystem(session._jsc.hadoopConfiguration()).open(hadoop)
    try:
        start = jvm.org.apache.commons.io.IOUtils.toByteArray(stream, min(length, LONGEST_HEADER))  # type: ignore[union-attr]
    finally:
        stream.close()
    header = csv_file(lambda: form.open_converted(io.BytesIO(bytes(start)), path), form)
    return header if isinstance(header, str) else header.names


@contextmanager
def _text_partitions(session: SparkSession) -> Iterator[None]:
    """Return a context manager in which `session` reads partition columns as text: 2024 for a folder year=2024.

    By default Spark guesses their types, and the guess could change when a folder is added.
    """
    with _SETTING:
        before = session.conf.get(_INFERENCE)
        session.conf.set(_INFERENCE, "false")
        try:
            yield
        finally:
            session.conf.set(_INFERENCE, str(before))


@contextmanager
def _python_of_this_machine(session: SparkSession) -> Iterator[None]:
    """Return a context manager in which Spark's Python workers on this machine run this process's Python interpreter.

    They then find the packages that Setwise needs. Nothing changes if a Python is configured for `session`, or if its
    executors run on other machines.
    """
    context = session.sparkContext
    named = "PYSPARK_PYTHON" in os.environ or context.getConf().get("spark.pyspark.python") is not None
    if named or not str(context.master).startswith("local"):
        yield
        return
    with _SETTING:
        before = context.pythonExec
        context.pythonExec = sys.executable
        try:
            yield
        finally:
            context.pythonExec = before

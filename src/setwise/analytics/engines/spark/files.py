"""Files as Spark reads them, such that no row decides about another: CSV by `csv_reader`, Parquet with care.

Left to itself Spark takes line ends in quotes for new rows, replaces bytes that are not UTF-8, guesses the types of
partitions from all of their names, and fails on timestamps in milliseconds that microseconds cannot hold.
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
    lake_refusal,
    suffix_of,
)
from setwise.analytics.engines.spark.dialect import SparkDialect
from setwise.errors import UnsuitableTable

LONGEST_FILE = 2**31 - 2**20
"""Bytes of a CSV file, which Spark hands over as one value of an array."""
MOST_MILLISECONDS = (2**63 - 1) // 1000
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_SETTING = threading.Lock()

# Sent to the executors as they are: Setwise need not be installed there, NumPy and PyArrow must be.
for module in (csv_format, csv_reader, csv_records):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def is_path(source: str) -> bool:
    """Whether a source is a path and not the name of a table."""
    return "/" in source or suffix_of(Path(source)) in (*PARQUET_SUFFIXES, *CSV_SEPARATORS)


def is_csv(source: str) -> bool:
    """Whether a source is a path of CSV files."""
    return suffix_of(Path(source)) in CSV_SEPARATORS


def csv_files(session: SparkSession, source: str) -> DataFrame:
    """Return the CSV files of a path, each as one row with its path, length and content."""
    return session.read.format("binaryFile").option("recursiveFileLookup", "true").load(source)


def csv_columns(session: SparkSession, source: str, form: CsvFormat) -> tuple[str, ...]:
    """Return the columns that the CSV files of a path share, from the beginnings of the files alone."""
    found = csv_files(session, source).select("path", "length").collect()
    for path, length in found:
        if length > LONGEST_FILE:
            raise UnsuitableTable(
                f"{path} has more than 2 GiB, which Spark cannot hand over as one value: split it, or convert it to "
                "Parquet"
            )
    names = [str(path) for path, _ in found]
    return check_headers(names, [_header(session, path, length, form) for path, length in found])


def csv_frame(session: SparkSession, source: str, form: CsvFormat, columns: Sequence[str]) -> DataFrame:
    """Return columns of the CSV files of a path, all of them text."""
    chosen = list(columns)

    def parsed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                buffer = content.as_buffer()

                def opened(buffer: pa.Buffer = buffer, path: str = path) -> BinaryIO:
                    return form.opened(pa.BufferReader(buffer), path)

                yield from CsvFile(opened, form).batches(chosen)

    schema = ", ".join(f"{SparkDialect().name(name)} STRING" for name in chosen)
    with _python_of_this_machine(session), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about pandas, which mapInArrow demands and does not use
        return csv_files(session, source).select("path", "content").mapInArrow(parsed, schema)


def parquet_frame(session: SparkSession, source: str) -> DataFrame:
    """Return the Parquet files of a path; partitions are text, and files of other types are refused."""
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
    """Raise `UnsuitableTable` for files of a lake table: those that its metadata has removed lie beside the others."""
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
                raise UnsuitableTable(lake_refusal(source, lake))
        written = system.globStatus(hadoop.Path(folder, "metadata/*.metadata.json"))
        if written is not None and len(written):
            raise UnsuitableTable(lake_refusal(source, "Iceberg"))


def sound_text(frame: DataFrame) -> DataFrame:
    """Return a frame with null where a cell of text is not UTF-8: Spark takes any bytes for text."""
    texts = [name for name, native in frame.dtypes if native == "string"]
    sound = {name: expr(f"TRY_VALIDATE_UTF8({SparkDialect().name(name)})") for name in texts}
    return frame.withColumns(sound) if sound else frame


def _with_milliseconds(session: SparkSession, source: str, frame: DataFrame) -> DataFrame:
    """Return the frame with null for timestamps in milliseconds beyond microseconds, which Spark fails on."""
    stamped = {name: native for name, native in frame.dtypes if native in ("timestamp", "timestamp_ntz")}
    if not stamped:
        return frame
    units = [milliseconds_columns(session, path) & set(stamped) for path in frame.inputFiles()]
    if any(each != units[0] for each in units):
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
    within = f"{cell} BETWEEN -{MOST_MILLISECONDS} AND {MOST_MILLISECONDS}"
    made = f"timestamp_millis({cell})"
    if native == "timestamp_ntz":
        made = f"timestampadd(MILLISECOND, {cell}, TIMESTAMP_NTZ'1970-01-01 00:00:00')"
    return f"CASE WHEN {within} THEN {made} END"


def milliseconds_columns(session: SparkSession, path: str) -> set[str]:
    """Return the columns of a Parquet file that are timestamps in milliseconds, from its footer."""
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
    """Return the names in a file's header, or why it has none."""
    jvm = session._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
    stream = hadoop.getFileSystem(session._jsc.hadoopConfiguration()).open(hadoop)
    try:
        start = jvm.org.apache.commons.io.IOUtils.toByteArray(stream, min(length, LONGEST_HEADER))  # type: ignore[union-attr]
    finally:
        stream.close()
    found = csv_file(lambda: form.opened(io.BytesIO(bytes(start)), path), form)
    return found if isinstance(found, str) else found.names


@contextmanager
def _text_partitions(session: SparkSession) -> Iterator[None]:
    """Keep Spark from guessing the types of partitions while a frame is made: a new folder would change the guess."""
    with _SETTING:
        before = session.conf.get(_INFERENCE)
        session.conf.set(_INFERENCE, "false")
        try:
            yield
        finally:
            session.conf.set(_INFERENCE, str(before))


@contextmanager
def _python_of_this_machine(session: SparkSession) -> Iterator[None]:
    """Let executors inside this process run the Python that runs here, unless another one was named."""
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

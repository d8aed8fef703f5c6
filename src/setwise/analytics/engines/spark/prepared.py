"""A prepared dataset as a table of Spark's catalogue, whose property is the manifest."""

import hashlib

from pyspark.sql import DataFrame, SparkSession

from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.spark.files import csv_files, is_csv, is_path, parquet_frame
from setwise.errors import InvalidParameter, UnsuitableTable

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
            raise InvalidParameter(f"{destination} exists and is not a prepared dataset: name another destination")
        session.sql(f"DROP TABLE {_named(destination)}")
    prepared.write.format("parquet").saveAsTable(destination)
    written = manifest.written().replace("\\", "\\\\").replace("'", "\\'")
    session.sql(f"ALTER TABLE {_named(destination)} SET TBLPROPERTIES ('{PROPERTY}' = '{written}')")


def _named(table: str) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in table.split("."))

"""Every defect that the contract for reading was written for is found by the hostile rows when it is put back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from setwise.analytics.engines.duckdb import arrow_cells
from setwise.analytics.engines.duckdb.files import CsvFiles, ParquetFiles
from setwise.analytics.engines.postgresql import tables as postgresql
from tests.analytics.reading import hostile
from tests.analytics.reading.test_hostile_rows import key_of, table_writer
from tests.servers.postgresql import PostgresqlServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FEWEST = 8
"""Cases of the small run: what they find, every run finds."""


def found(name: str, engine: str, folder: Path, count: int) -> int:
    write, types = (hostile.SPARK if engine == "spark" else hostile.DUCKDB)[name]
    named = "cells" in name
    return len(hostile.violations(write, types, engine, folder, count, key=key_of(name), named=named))


@pytest.mark.parametrize("name", ["csv cells", "csv raw"])
def test_duckdbs_own_reader_of_csv_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def relation(self: CsvFiles, *_: Any) -> str:
        named = ", ".join(f"'{name}': 'VARCHAR'" for name in hostile.COLUMNS)
        options = """header = true, auto_detect = false, delim = ',', quote = '"', escape = '"'"""
        return f"read_csv('{self.files[0]}', columns = {{{named}}}, {options})"

    monkeypatch.setattr(CsvFiles, "relation", relation)
    assert found(name, "duckdb", tmp_path, FEWEST) > 0


@pytest.mark.parametrize("name", ["parquet text", "parquet user", "parquet ms", "parquet ms zone"])
def test_parquet_read_without_care_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ParquetFiles, "_needs_care", lambda *_: False)
    assert found(name, "duckdb", tmp_path, FEWEST) > 0


def test_folders_that_are_no_text_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from setwise.analytics.engines.duckdb import files

    read = files.hive_values
    monkeypatch.setattr(files, "hive_values", lambda file: {key: value or "" for key, value in read(file).items()})
    assert found("hive item", "duckdb", tmp_path, FEWEST) > 0


def test_timestamps_of_arrow_left_as_they_are_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrow_cells, "reaches_beyond_microseconds", lambda _: False)
    assert found("arrow s zone", "duckdb", tmp_path, FEWEST) > 0


def test_objects_of_pandas_judged_by_their_values_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrow_cells, "from_pandas", lambda frame: pa.Table.from_pandas(frame, preserve_index=False))
    assert found("pandas", "duckdb", tmp_path, FEWEST) > 0


def test_bytes_of_postgresql_that_are_no_characters_are_found(
    postgresql_server: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    every = hostile.others
    monkeypatch.setattr(hostile, "others", lambda seed: [row for row in every(seed) if row[0] != "\ufffd"])
    monkeypatch.setattr(postgresql, "sound_relation", lambda _, relation, __: relation)
    with postgresql_server.database("WIN1252") as url:
        assert hostile.violations(table_writer(url, "WIN1252"), {}, url, tmp_path, 4)


@pytest.mark.parametrize("name", ["csv cells", "csv raw"])
def test_sparks_own_reader_of_csv_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_session: "SparkSession"
):
    """It forges rows, makes users one whose bytes are not UTF-8, and fails on rows of very many cells."""
    from setwise.analytics.engines.spark import tables

    def frame(session: "SparkSession", source: str, _: object, columns: Sequence[str]) -> "DataFrame":
        return session.read.csv(source, header=True, escape='"', inferSchema=False).select(*columns)

    monkeypatch.setattr(tables, "csv_frame", frame)
    assert found(name, "spark", tmp_path, 4) > 0


@pytest.mark.parametrize("name", ["hive item", "hive user"])
def test_guessed_types_of_partitions_on_spark_are_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_session: "SparkSession"
):
    from setwise.analytics.engines.spark import files

    @contextmanager
    def guessing(_: "SparkSession") -> Iterator[None]:
        yield

    monkeypatch.setattr(files, "_text_partitions", guessing)
    assert found(name, "spark", tmp_path, 4) > 0


def test_timestamps_in_milliseconds_on_spark_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_session: "SparkSession"
):
    from setwise.analytics.engines.spark import files

    monkeypatch.setattr(files, "_with_milliseconds", lambda *given: given[-1])
    assert found("parquet ms", "spark", tmp_path, 4) > 0

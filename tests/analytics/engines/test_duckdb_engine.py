"""What only DuckDB has: a lock, parts, a spill directory with a limit, and progress."""

import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.duckdb import engine as engine_module
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.files import ParquetFiles
from setwise.analytics.engines.duckdb.tables import ArrowTable
from setwise.errors import EngineFailed
from tests.analytics.engines.reference import as_dict

BOUNDED = Aggregation(user="u", item="i", contributions=3, per_item=2)


def events(rows: int, users: int, items: int) -> pa.Table:
    generator = np.random.default_rng(3)
    return pa.table({"u": generator.integers(users, size=rows), "i": generator.integers(items, size=rows)})


def histogram(table: pa.Table, aggregation: Aggregation = BOUNDED) -> dict[str | int, int]:
    with DuckDBEngine(ArrowTable(table), salts=lambda: 12345) as engine:
        found = engine.histogram(aggregation)
        top = engine.top(aggregation, 5)
        assert top.counts.tolist() == found.ranked(5).counts.tolist()
        assert top.labels == found.ranked(5).labels
        return as_dict(found.labels, found.counts)


def test_parts_give_the_histogram_of_the_whole(monkeypatch: pytest.MonkeyPatch):
    table = events(20_000, 500, 60)
    unrestricted = Aggregation(user="u", item="i", per_item=3)
    whole = histogram(table), histogram(table, unrestricted)
    monkeypatch.setattr(engine_module, "PAIR_BYTES", 2**50)
    monkeypatch.setattr(engine_module, "MOST_PARTITIONS", 7)
    assert (histogram(table), histogram(table, unrestricted)) == whole


def test_the_connection_reads_its_source_and_nothing_else(tmp_path: Path):
    pq.write_table(events(10, 3, 3), tmp_path / "source.parquet")
    pq.write_table(events(10, 3, 3), tmp_path / "other.parquet")
    source = tmp_path / "source.parquet"
    with DuckDBEngine(ParquetFiles((source,), str(source))) as engine:
        cursor = engine._connection.cursor()
        for statement in (
            f"SELECT * FROM read_parquet('{tmp_path / 'other.parquet'}')",
            f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
            f"ATTACH '{tmp_path / 'new.db'}'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access = true",
            "SET memory_limit = '1GB'",
        ):
            with pytest.raises(Exception, match=r"(?i)permission|disabled|locked|not allowed"):
                cursor.execute(statement)
        cursor.close()
        assert len(engine.histogram(BOUNDED))


def test_a_query_that_would_fill_the_disk_is_stopped(tmp_path: Path):
    table = events(4_000_000, 2_000_000, 1000)
    with DuckDBEngine(ArrowTable(table), memory="120MB", scratch=tmp_path, spill=10_000_000, threads=2) as engine:
        engine._parts = lambda *_: 1
        with pytest.raises(EngineFailed) as raised:
            engine.histogram(BOUNDED)
        assert str(raised.value).startswith(("the query was stopped because it would fill the disk", "DuckDB ran out"))
        assert engine.spill.most > 0
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_cancelling_from_another_thread_ends_the_query_and_the_engine_lives_on():
    table = events(3_000_000, 1_000_000, 1000)
    with DuckDBEngine(ArrowTable(table)) as engine:
        raised: list[BaseException] = []

        def ask() -> None:
            try:
                while True:
                    engine.histogram(BOUNDED)
            except EngineFailed as error:
                raised.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        while asking.is_alive():
            engine.cancel()
            time.sleep(0.05)
        asking.join()
        assert [str(error) for error in raised] == ["the query was cancelled"]
        assert len(engine.histogram(Aggregation(user="u")))


def test_progress_is_told_as_a_share():
    shares: list[float] = []
    with DuckDBEngine(ArrowTable(events(3_000_000, 1_000_000, 1000)), progress=shares.append) as engine:
        engine.histogram(BOUNDED)
    assert shares
    assert all(0 <= share <= 1 for share in shares)


def test_questions_may_be_asked_from_several_threads_at_once():
    table = events(50_000, 500, 20)
    aggregation = Aggregation(user="u", item="i", domain=tuple(range(10)), contributions=20)
    with DuckDBEngine(ArrowTable(table)) as engine:
        wanted = engine.histogram(aggregation).ranked(10).counts.tolist()
        found: list[list[int]] = []
        threads = [
            threading.Thread(target=lambda: found.append(engine.histogram(aggregation).ranked(10).counts.tolist()))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [wanted] * 6


def test_text_of_a_file_that_was_written_again_is_checked_again(tmp_path: Path):
    source = tmp_path / "source.parquet"
    aggregation = Aggregation(user="u", item="i", contributions=3)
    pq.write_table(pa.table({"u": [1, 2], "i": ["a", "b"]}), source)
    with DuckDBEngine(ParquetFiles((source,), str(source))) as engine:
        assert len(engine.histogram(aggregation)) == 2
        cells = pa.array([b"a", b"b", b"\xff"], pa.binary()).cast(pa.string(), safe=False)
        pq.write_table(pa.table({"u": [1, 2, 3], "i": cells}), tmp_path / "new.parquet")
        (tmp_path / "new.parquet").replace(source)
        found = engine.histogram(aggregation)
        assert as_dict(found.labels, found.counts) == {"a": 1, "b": 1}
        assert engine.rows() == 3


def test_small_tables_take_one_thread_and_large_ones_all(monkeypatch: pytest.MonkeyPatch):
    table = events(20_000, 500, 60)
    with DuckDBEngine(ArrowTable(table), salts=lambda: 12345, threads=2) as engine:
        threads = []
        for small in (20_000, 19_999, 20_000):
            monkeypatch.setattr(engine_module, "SMALL_ROWS", small)
            found = engine.histogram(BOUNDED)
            threads.append(engine._connection.execute("SELECT current_setting('threads')").fetchall()[0][0])
            assert as_dict(found.labels, found.counts) == histogram(table)
    assert threads == [1, 2, 1]

"""Scans of a holder's table read it through DuckDB instances that are kept, and leave nothing behind in them."""

import os
import subprocess
import sys

import duckdb
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.engines.duckdb import instances
from setwise.analytics.engines.duckdb.cell_counts import column_names, text_samples
from setwise.analytics.engines.duckdb.instances import KeptInstances, scanning
from setwise.analytics.engines.duckdb.number_counts import far_numbers
from setwise.analytics.engines.duckdb.opening import untyped_table
from setwise.analytics.engines.duckdb.user_counts import count_users
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.typed_cells import PLAIN_CELLS

VISITS = pa.table({"user_id": ["a", "b", "c"], "word": ["x", "y", None], "days": [1, 2, -999]})


@pytest.fixture
def opened(monkeypatch):
    """The instances that scans open, none of which were kept before."""
    found = []
    kept = KeptInstances(lambda: found.append(duckdb.connect(":memory:")) or found[-1])
    monkeypatch.setattr(instances, "_SCANNING", kept)
    return found


def test_one_instance_serves_all_scans_of_a_question(opened, tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("user_id,word,days\n" + "".join(f"{user},{'xyz'[user % 3]},{user % 7}\n" for user in range(60)))
    with setwise.open(path, user="user_id", types={"days": "integer"}) as session:
        session.histogram(item="word", domain=["x", "y", "z"], epsilon=1.0)
        session.mean(value="days", low=0, high=6, per_user=1, epsilon=1.0)
    assert len(opened) == 1


def test_no_table_is_left_for_the_next_scan(opened):
    visits = untyped_table(VISITS, None, CsvOptions())
    far_numbers(visits, ["days"], {}, PLAIN_CELLS)
    assert count_users(visits, "user_id", PLAIN_CELLS, (), is_csv=False).rows == 3
    others = untyped_table(pa.table({"name": ["z"]}), None, CsvOptions())
    assert column_names(others) == ("name",)
    assert text_samples(others) == {"name": ["z"]}
    with scanning(others) as connection:
        assert connection.execute("SHOW ALL TABLES").fetchall() == []
    assert len(opened) == 1


def test_a_scanned_database_file_can_be_written_afterwards(opened, tmp_path):
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE visits AS SELECT 'a' AS user_id, 1 AS days")
    assert column_names(untyped_table(path, "visits", CsvOptions())) == ("user_id", "days")
    write = f"import duckdb; duckdb.connect({str(path)!r}).execute('INSERT INTO visits VALUES (1, 2)')"
    subprocess.run([sys.executable, "-c", write], check=True, timeout=60)
    assert count_users(untyped_table(path, "visits", CsvOptions()), "user_id", PLAIN_CELLS, (), is_csv=False).rows == 2


def test_scans_at_the_same_time_use_instances_of_their_own(opened):
    visits = untyped_table(VISITS, None, CsvOptions())
    with scanning(visits) as first, scanning(visits) as second:
        assert first is not second
    assert len(opened) == 2


def test_a_scan_that_fails_keeps_nothing(opened):
    visits = untyped_table(VISITS, None, CsvOptions())
    with pytest.raises(duckdb.Error), scanning(visits) as connection:
        connection.execute("SELECT missing")
    assert column_names(visits) == ("user_id", "word", "days")
    assert len(opened) == 2


def test_a_forked_process_scans_with_an_instance_of_its_own(opened):
    visits = untyped_table(VISITS, None, CsvOptions())
    assert column_names(visits) == ("user_id", "word", "days")
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:  # pragma: no cover - in the child, which pytest does not see
        os.write(writing, str(len(instances._SCANNING._idle.get(os.getpid(), []))).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"0"
    os.close(reading)
    os.close(writing)

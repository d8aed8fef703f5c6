"""A pipeline from a table to a warehouse: a task that fails halfway, is tried again, and has written each row once."""

import os
import subprocess
import sys
from dataclasses import replace

import psycopg
import pytest

from setwise.errors import EngineFailed
from setwise.reports.outputs import write_answer
from setwise.reports.report import read_report
from setwise.reports.run import run_report
from tests.reports.conftest import REPORT


@pytest.fixture
def warehouse(postgresql_url):
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def report(folder, postgresql_url):
    written = REPORT.replace('"out/warehouse.duckdb::top_pages"', f'"{postgresql_url}::public.top_pages"')
    written = written.replace('"out/minutes.parquet"', f'"{postgresql_url}::minutes"')
    (folder / "weekly.toml").write_text(written.replace("epsilon = 1.0", f'epsilon = 1.0\nledger = "{postgresql_url}"'))
    return folder / "weekly.toml"


def task(report, key):
    """Run the report as a scheduler's task does: a command, its exit status, and nothing in memory."""
    return subprocess.run(
        [sys.executable, "-m", "setwise", "run", report.name, "--key", key],
        cwd=report.parent,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_task_that_failed_is_tried_again_at_no_cost(report, warehouse, setwise):
    warehouse.execute("CREATE TABLE minutes (run integer)")  # somebody else's table is in the way
    failed = setwise("run", report.name, "--key", "2026-W46")
    assert failed.returncode == 4
    assert "minutes" in failed.stderr
    first = warehouse.execute("SELECT * FROM top_pages ORDER BY users DESC").fetchall()
    warehouse.execute("DROP TABLE minutes")
    again = task(report, "2026-W46")
    assert again.returncode == 0, again.stderr
    assert warehouse.execute("SELECT * FROM top_pages ORDER BY users DESC").fetchall() == first
    assert len(first) == 3
    assert warehouse.execute("SELECT run, mean_minutes BETWEEN 20 AND 40 FROM minutes").fetchall() == [
        ("2026-W46", True)
    ]
    charges = warehouse.execute("SELECT count(*) FROM ledger_entries WHERE kind = 'charge'").fetchone()
    assert charges == (3,)


def test_runs_stand_beside_one_another_and_each_is_replaced_alone(report, warehouse):
    for key in ("a", "b", "a"):
        run_report(read_report(report), key=key, ledger="setwise.db")
    runs = warehouse.execute("SELECT run, count(*) FROM top_pages GROUP BY run ORDER BY run").fetchall()
    assert runs == [("a", 3), ("b", 3)]


def test_a_table_with_other_columns_is_left_as_it_is(report, warehouse, postgresql_url):
    warehouse.execute("CREATE TABLE top_pages (run text, words text)")
    warehouse.execute("INSERT INTO top_pages VALUES ('a', 'kept')")
    kept = replace(read_report(report), questions=tuple(replace(each, to=()) for each in read_report(report).questions))
    ran = run_report(kept, key="a", ledger="setwise.db")
    with pytest.raises(EngineFailed, match="top_pages"):
        write_answer(ran.answers["top_pages"], f"{postgresql_url}::top_pages", "a")
    assert warehouse.execute("SELECT * FROM top_pages").fetchall() == [("a", "kept")]

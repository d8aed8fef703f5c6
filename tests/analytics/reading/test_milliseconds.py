"""Integer columns of milliseconds since 1970 that a statement reads as seconds: refused, and TIMESTAMP_MILLIS named."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import setwise
from setwise.cli.main import app
from setwise.errors import UnsuitableTable

START = 1767225600
TEXT = "SELECT DATE_TRUNC('week', {}(at)) AS week, COUNT(DISTINCT who) AS n FROM t GROUP BY week"
WORDS = {"epsilon": 90, "delta": 1e-3, "contributions": 1}


def table(factor: int):
    times = [factor * (START + 86400 * (user % 14)) for user in range(400)]
    return pa.table({"who": [f"u{user}" for user in range(400)], "at": times, "n": list(range(400))})


@pytest.mark.parametrize("in_memory", [True, False])
def test_milliseconds_are_refused_in_python_even_after_other_questions(in_memory: bool, tmp_path: Path):
    path = tmp_path / "t.parquet"
    pq.write_table(table(1000), path)
    with setwise.open(table(1000) if in_memory else path, user="who", name="t") as session:
        session.sql("SELECT AVG(at) AS n FROM t", epsilon=90)
        with pytest.raises(UnsuitableTable, match=r"write TIMESTAMP_MILLIS\(at\).*nothing was charged"):
            session.sql(TEXT.format("TO_TIMESTAMP"), **WORDS)
        assert len(session.sql(TEXT.format("TIMESTAMP_MILLIS"), **WORDS)) >= 2
    with setwise.open(path, user="who", name="t", scan=False) as session:
        session.sql(TEXT.format("TO_TIMESTAMP"), **WORDS)


@pytest.mark.parametrize(("factor", "function"), [(1, "TO_TIMESTAMP"), (1000, "TIMESTAMP_MILLIS")])
def test_numbers_of_the_right_unit_are_read(factor: int, function: str, tmp_path: Path):
    path = tmp_path / "t.parquet"
    pq.write_table(table(factor), path)
    with setwise.open(path, user="who", name="t") as session:
        assert len(session.sql(TEXT.format(function), **WORDS)) >= 2


def test_milliseconds_are_refused_on_the_command_line(tmp_path: Path):
    path = tmp_path / "t.parquet"
    pq.write_table(table(1000), path)
    options = ("--table", f"t={path}", "--user", "who", "--epsilon", "90", "--delta", "0.001")
    done = CliRunner().invoke(app, ["sql", TEXT.format("TO_TIMESTAMP"), *options])
    assert "write TIMESTAMP_MILLIS(at)" in str(done.exception)
    assert CliRunner().invoke(app, ["sql", TEXT.format("TIMESTAMP_MILLIS"), *options]).exit_code == 0

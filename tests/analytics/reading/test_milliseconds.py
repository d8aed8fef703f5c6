"""Integer columns of milliseconds since 1970 that a statement reads as seconds: refused, and TIMESTAMP_MILLIS named."""

import json
import shlex
import subprocess
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


LARGE = {
    "FLOOR(at / 1000000000) > 0": "from 2[^]]53",
    "at - who_at < 5": "from 2[^]]53",
    "MOD(t.at, 10) = 3": "from 2[^]]53",
    "TIMESTAMP_MICROS(at) > '2026-01-01'": "a copy with microseconds",
    "EXTRACT(MONTH FROM TO_TIMESTAMP(at)) = 1": "a copy with seconds",
}
"""Conditions in which nanoseconds since 1970 become null, and what their refusals say."""


def nanoseconds(path: Path) -> Path:
    """Write a CSV file with nanoseconds since 1970 that are declared to be integers, and return its path."""
    rows = [f"u{user},{START + 86400 * (user % 14)}{user:09},7\n" for user in range(400)]
    path.write_text("who,at,who_at\n" + "".join(rows))
    path.with_name(path.name + ".toml").write_text('[types]\nat = "integer"\nwho_at = "integer"\n')
    return path


@pytest.mark.parametrize("where", LARGE)
def test_integers_beyond_exact_floats_are_refused_where_they_become_null(where: str, tmp_path: Path):
    """The answer was 0, and its interval was said to hold the exact number."""
    statement = f"SELECT COUNT(DISTINCT who) AS n FROM t WHERE {where}"
    with setwise.open(nanoseconds(tmp_path / "t.csv"), user="who", name="t") as session:
        assert session.sql("SELECT COUNT(DISTINCT who) AS n FROM t WHERE at > 5", **WORDS).rows[0]["n"]["value"] > 390
        with pytest.raises(UnsuitableTable, match=LARGE[where]):
            session.sql(statement, **WORDS)
    with setwise.open(table(10**9), user="who", name="t") as session, pytest.raises(UnsuitableTable):
        session.sql(statement.replace("who_at", "n"), **WORDS)


@pytest.mark.parametrize("function", ["TO_TIMESTAMP", "TIMESTAMP_MILLIS", "TIMESTAMP_MICROS"])
def test_nanoseconds_are_read_from_the_copy_that_is_proposed(function: str, tmp_path: Path):
    path = nanoseconds(tmp_path / "t.csv")
    options = ("--table", f"t={path}", "--user", "who", "--epsilon", "90", "--delta", "0.001", "--json")
    message = " ".join(str(CliRunner().invoke(app, ["sql", TEXT.format(function), *options]).exception).split())
    copy, *commands = message.partition("or ask the copy with: ")[2].split(" && setwise ")
    subprocess.run(copy, shell=True, check=True, timeout=60)
    done = [CliRunner().invoke(app, shlex.split(command)) for command in commands][-1]
    assert len(json.loads(done.stdout)["rows"]) >= 2


def test_bins_of_nanoseconds_are_refused_and_a_check_names_them(tmp_path: Path):
    path = nanoseconds(tmp_path / "t.csv")
    options = ("--user", "who", "--epsilon", "90", "--delta", "0.001")
    refused = CliRunner().invoke(app, ["histogram", str(path), "--item", "at by 86400000000000", *options])
    message = " ".join(str(refused.exception).split())
    copy, check = message.partition("its unit in the question: ")[2].split(" && setwise ")
    subprocess.run(copy, shell=True, check=True, timeout=60)
    assert CliRunner().invoke(app, shlex.split(check)).exit_code == 0
    counted = CliRunner().invoke(
        app, ["histogram", str(path).replace(".csv", ".clean.csv"), "--item", "at by 86400", *options, "--json"]
    )
    assert len(json.loads(counted.stdout)["items"]) == 14
    assert "nanoseconds since 1970" in " ".join(CliRunner().invoke(app, ["check", str(path)]).stdout.split())


def test_a_check_names_microseconds(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("who,ts_us\n" + "".join(f"u{user},{START + user}{user:06}\n" for user in range(400)))
    shown = " ".join(CliRunner().invoke(app, ["check", str(path)]).stdout.split())
    assert "may be microseconds since 1970, which TIMESTAMP_MICROS(ts_us) reads in SQL" in shown

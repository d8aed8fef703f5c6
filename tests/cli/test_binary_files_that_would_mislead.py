"""Text in Parquet, DuckDB and SQLite files that would mislead is refused, with a command to paste that mends it.

No command for text files is proposed for them, because it would destroy them.
"""

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.command_line import Done
from tests.command_line import setwise as setwise_fixture  # noqa: F401

Command = Callable[..., Done]
ROWS = 600
DAYS = [date(2024, 1, 1) + timedelta(days=row % 366) for row in range(ROWS)]
TABLE = pa.table(
    {
        "user": [f"user {row}" for row in range(ROWS)],
        "mail": [f"{'P' if row % 3 else 'p'}{row // 2}@x.org" for row in range(ROWS)],
        "hidden": [f"k{row // 2}" + ("\u200b" if row % 2 else "") for row in range(ROWS)],
        "day": [f"{day:%d.%m.%Y}" for day in DAYS],
        "age": [str(5 + row % 20) for row in range(ROWS)],
        "status": [("paid", "Paid", "PAID", "open")[row % 4] for row in range(ROWS)],
        "id": pa.array([0 if row % 10 < 3 else row for row in range(ROWS)], pa.int64()),
    }
)


def _parquet(folder: Path) -> str:
    pq.write_table(TABLE, folder / "t.parquet")
    return str(folder / "t.parquet")


def _duckdb(folder: Path) -> str:
    with duckdb.connect(folder / "t.duckdb") as connection:
        connection.register("given", TABLE)
        connection.execute('CREATE SCHEMA mart; CREATE TABLE mart."all facts" AS SELECT * FROM given')
    return f"{folder / 't.duckdb'}::mart.all facts"


def _sqlite(folder: Path) -> str:
    with sqlite3.connect(folder / "t.sqlite") as connection:
        connection.execute("CREATE TABLE t(user, mail TEXT, hidden TEXT, day TEXT, age TEXT, status TEXT, id INTEGER)")
        rows = (tuple(row.values()) for row in TABLE.to_pylist())
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    connection.close()
    return f"{folder / 't.sqlite'}::t"


@pytest.fixture(params=[_parquet, _duckdb, _sqlite], ids=["parquet", "duckdb", "sqlite"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param(tmp_path))


def ask(setwise: Command, file: str, statement: str, user: str = "user") -> Done:
    return setwise("sql", statement, "--table", f"t={file}", "--user", user, "--epsilon", "90", "--json")


def run(command: str) -> None:
    """Run a pasted command in a shell, with the Python of the tests as python3."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(command, shell=True, check=True, timeout=60, env={**os.environ, "PATH": path})


def pasted(setwise: Command, refused: Done) -> float:
    """Run the commands that a refusal proposes, and return the released number."""
    message = " ".join(refused.stderr.split())
    assert refused.returncode == 2, message
    assert "nothing was charged" in message
    assert "import csv" not in message
    copying, _, again = message.partition("or ask again with: setwise ")
    if not again:
        copying, _, again = message.partition("or ask the copy with: ")[2].partition(" && setwise ")
        run(copying)
    done = setwise(*shlex.split(again))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    return float(row["n"]["value"])


def test_dates_compared_as_text_are_read_as_dates(setwise: Command, file: str):
    refused = ask(setwise, file, "SELECT COUNT(*) AS n FROM t WHERE day >= '01.07.2024'")
    assert pasted(setwise, refused) == pytest.approx(sum(day >= date(2024, 7, 1) for day in DAYS), abs=3)


def test_numbers_compared_as_text_are_read_as_numbers(setwise: Command, file: str):
    refused = ask(setwise, file, "SELECT COUNT(*) AS n FROM t WHERE age > '9'")
    assert pasted(setwise, refused) == pytest.approx(sum(5 + row % 20 > 9 for row in range(ROWS)), abs=3)


@pytest.mark.parametrize("user", ["mail", "hidden"])
def test_users_in_several_spellings_become_one_in_a_copy(setwise: Command, file: str, user: str):
    refused = ask(setwise, file, f"SELECT COUNT(DISTINCT {user}) AS n FROM t", user)
    assert pasted(setwise, refused) == pytest.approx(ROWS // 2, abs=3)


def test_the_copy_keeps_all_other_columns(setwise: Command, tmp_path: Path):
    refused = ask(setwise, _parquet(tmp_path), "SELECT COUNT(*) AS n FROM t", "mail")
    pasted(setwise, refused)
    copy = pq.read_table(tmp_path / "t.clean.parquet")
    others = [name for name in TABLE.column_names if name != "mail"]
    assert copy.select(others).to_pydict() == TABLE.select(others).to_pydict()
    assert copy["mail"].to_pylist() == [mail.lower() for mail in TABLE["mail"].to_pylist()]


def test_notes_on_spellings_placeholders_and_constants(setwise: Command, file: str):
    statement = "SELECT status, COUNT(*) AS n FROM t WHERE status = 'payed' OR status = 'paid' GROUP BY status"
    done = ask(setwise, file, statement, "id")
    assert done.returncode == 0, done.stderr
    notes = done.stderr.splitlines()
    assert any("180 rows have '0' as 'id'" in note for note in notes)
    assert any("1 value of 'status' is written in upper and lower case" in note for note in notes)
    assert any("no cell of 'status' is 'payed'" in note for note in notes)
    assert "import csv" not in done.stderr
    commands = re.findall(r"\S*(?:python|sqlite)\S* -c .*", done.stderr)
    assert len(commands) == 2
    for command in commands:
        run(command)


def test_several_parquet_files_have_no_command(setwise: Command, tmp_path: Path):
    for place in range(2):
        pq.write_table(TABLE.slice(place * 300, 300), tmp_path / f"{place}.parquet")
    refused = ask(setwise, str(tmp_path), "SELECT COUNT(*) AS n FROM t", "mail")
    assert refused.returncode == 2
    assert "write each user in one way in the file" in refused.stderr
    assert "python3" not in refused.stderr


@pytest.mark.parametrize(("declared", "plain"), [("REAL", 12.5), ("INTEGER", 12)])
def test_text_in_a_column_of_numbers_of_sqlite(setwise: Command, tmp_path: Path, declared: str, plain: float):
    path = tmp_path / "s.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE s(u TEXT, amount {declared})")
        rows = [(f"u{row}", "12,50" if row % 5 < 2 else plain) for row in range(ROWS)]
        connection.executemany("INSERT INTO s VALUES (?, ?)", rows)
    connection.close()
    statement = "SELECT SUM(amount, contribution_bounds_per_group => (0, 100)) AS n FROM t"
    refused = ask(setwise, f"{path}::s", statement, "u")
    assert f"240 of 600 cells of 'amount' are not {'whole ' * (declared == 'INTEGER')}numbers" in refused.stderr
    assert f"such as '12,50', in a column declared {declared}" in refused.stderr
    assert pasted(setwise, refused) == pytest.approx(240 * 12.5 + 360 * plain, abs=60)
    check = setwise("check", f"{path}::s")
    assert "240 of 600 cells of 'amount' are not" in " ".join(check.stdout.split())


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return a folder of Parquet files with the month in the names of folders, and numbers and dates as text."""
    for month in ("01", "02"):
        place = tmp_path / "year=2024" / f"month={month}"
        place.mkdir(parents=True)
        cells = {"u": [f"u{row}" for row in range(300)], "day": [f"2024-{month}-03"] * 300, "n": ["5"] * 300}
        pq.write_table(pa.table(cells), place / "a.parquet")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("SELECT COUNT(*) AS n FROM t WHERE month = 1", 300),
        ("SELECT COUNT(*) AS n FROM t WHERE month < '2'", 300),
        ("SELECT SUM(n, contribution_bounds_per_group => (0, 10)) AS n FROM t", 3000),
        ("SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM t GROUP BY m HAVING n > 9 ORDER BY m LIMIT 1", 300),
    ],
)
def test_text_of_parquet_files_is_read_as_another_type(setwise: Command, folder: str, statement: str, number: int):
    refused = ask(setwise, folder, statement, "u")
    assert "CSV" not in refused.stderr
    message = refused.stderr.strip().removesuffix("\n")
    assert refused.returncode == 2, message
    assert " --type " in message
    done = setwise(*shlex.split(message.partition("ask again with: setwise ")[2]))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][0]["n"]["value"] == pytest.approx(number, abs=30)


def test_the_month_of_a_folder_is_text(setwise: Command, folder: str):
    done = ask(setwise, folder, "SELECT month, COUNT(*) AS n FROM t GROUP BY month", "u")
    assert {row["month"] for row in json.loads(done.stdout)["rows"]} == {"01", "02"}


def test_numbers_with_a_decimal_comma_are_read_with_the_option(setwise: Command, tmp_path: Path):
    pq.write_table(pa.table({"u": [f"u{row}" for row in range(300)], "a": ["12,50"] * 300}), tmp_path / "t.parquet")
    statement = "SELECT SUM(a, contribution_bounds_per_group => (0, 100)) AS n FROM t"
    refused = ask(setwise, str(tmp_path / "t.parquet"), statement, "u")
    again = shlex.split(refused.stderr.partition("ask again with: setwise ")[2])
    assert again[-2:] == ["--type", "a=float"]
    assert pasted(setwise, setwise(*again)) == pytest.approx(3750, abs=50)


def test_dates_that_can_be_read_in_two_ways_are_left_to_the_holder(setwise: Command, tmp_path: Path):
    days = [f"0{1 + row % 9}/0{1 + row % 8}/2024" for row in range(300)]
    pq.write_table(pa.table({"u": [f"u{row}" for row in range(300)], "day": days}), tmp_path / "t.parquet")
    refused = ask(setwise, str(tmp_path / "t.parquet"), "SELECT COUNT(*) AS n FROM t WHERE day > '02/03/2024'", "u")
    assert refused.returncode == 2
    assert "%d/%m/%Y reads its cells as dates (or %m/%d/%Y: the cells do not tell)" in refused.stderr
    assert "ask again with" not in refused.stderr

"""Refusals about files that no option reads end with a command that works, and never with one that is refused again."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from setwise.cli.main import app

PAID = ("--epsilon", "90", "--json")
AGAIN = "or ask again with: setwise "
COPY = "or ask the copy with: "


def run(*words: object):
    return CliRunner().invoke(app, [*map(str, words)])


def write(folder: Path, cells: list[str], header: str = "who,v") -> Path:
    path = folder / "table.csv"
    path.write_text(header + "\n" + "".join(f"u{user},{cell}\n" for user, cell in enumerate(cells)))
    return path


WORDS = ["Ja" if user % 4 == 0 else "Nein" for user in range(400)]
CROSSES = ["x" if user % 4 == 0 else "" for user in range(400)]


@pytest.mark.parametrize(("cells", "held", "word"), [(WORDS, "Ja and Nein", "Ja"), (CROSSES, "x", "x")])
@pytest.mark.parametrize(
    "asked",
    [
        "SELECT COUNTIF(v) AS n FROM t",
        "SELECT COUNT(*) AS n FROM t WHERE v",
        "SELECT SUM(CASE WHEN v THEN 1 ELSE 0 END) AS n FROM t",
    ],
)
def test_words_that_are_no_truth_values_are_compared(
    cells: list[str], held: str, word: str, asked: str, tmp_path: Path
):
    path = write(tmp_path, cells)
    done = run("sql", asked, "--table", f"t={path}", "--user", "who", *PAID)
    message = str(done.exception)
    assert f"v holds text such as {held}: write COUNTIF(v = '{word}')" in message
    assert "nothing was charged" in message
    done = run(*shlex.split(message.partition(AGAIN)[2]))
    assert done.exit_code == 0, done.exception
    (row,) = json.loads(done.stdout)["rows"]
    assert row["n"]["value"] == pytest.approx(100, abs=5)


@pytest.mark.parametrize("cell", ["$1234.50", '"€ 1,234.50"', "1234.50 $"])
def test_a_copy_without_signs_is_written_checked_and_asked(cell: str, tmp_path: Path):
    path = write(tmp_path, [cell] * 399 + [cell.replace("34", "33")])
    message = str(run("sum", path, "--user", "who", "--value", "v", "--clip", "5000", *PAID).exception)
    assert "ask again with" not in message
    first, *commands = message.partition(COPY)[2].split(" && ")
    subprocess.run(first, shell=True, check=True)
    for command in commands:
        done = run(*shlex.split(command.removeprefix("setwise ")))
        assert done.exit_code == 0, done.exception
    (item,) = json.loads(done.stdout)["items"]
    assert item["sum_v"]["value"] == pytest.approx(400 * 1234.5, rel=0.01)


def test_lines_with_a_separator_at_their_end_have_a_whole_command(tmp_path: Path):
    path = write(tmp_path, [f"{user % 5}," for user in range(400)])
    message = str(run("sum", path, "--user", "who", "--value", "v", "--clip", "9", *PAID).exception)
    assert AGAIN in message, message
    done = run(*shlex.split(message.partition(AGAIN)[2]))
    assert json.loads(done.stdout)["items"][0]["count"] == pytest.approx(800, abs=20)


def test_old_line_ends_have_a_whole_command(tmp_path: Path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"who,v\r" + b"".join(b"u%d,2\r" % user for user in range(400)))
    message = str(run("sum", path, "--user", "who", "--value", "v", "--clip", "9", *PAID).exception)
    first, *commands = message.partition(COPY)[2].split(" && ")
    assert first.startswith("tr '\\r' '\\n' <")
    subprocess.run(first, shell=True, check=True)
    for command in commands:
        done = run(*shlex.split(command.removeprefix("setwise ")))
        assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["items"][0]["count"] == pytest.approx(800, abs=20)


@pytest.mark.parametrize("known", [(), ("--type", "v=integer")])
def test_weeks_of_seconds_have_a_command_in_sql(known: tuple[str, ...], tmp_path: Path):
    path = write(tmp_path, [str(1767225600 + 86400 * (user % 14)) for user in range(400)])
    asked = ("histogram", path, "--user", "who", "--item", "v by week", "--contributions", "1", *known, *PAID)
    message = str(run(*asked, "--delta", "0.001").exception)
    done = run(*shlex.split(message.partition("ask again with: setwise ")[2]))
    assert done.exit_code == 0, done.exception
    rows = json.loads(done.stdout)["rows"]
    assert sum(row["users"]["value"] for row in rows) == pytest.approx(400, abs=20)


def test_lines_of_a_title_are_skipped_by_the_command(tmp_path: Path):
    path = write(tmp_path, [str(user % 5) for user in range(400)], header="Sales report\nexported today\n\nwho,v")
    done = run("sql", "SELECT SUM(v) AS n FROM t", "--table", f"t={path}", "--user", "who", *PAID)
    message = str(done.exception)
    assert "--skip-lines 3" in message
    done = run(*shlex.split(message.partition(AGAIN)[2]))
    assert done.exit_code == 0, done.exception


def test_an_option_for_groups_is_answered_by_the_command_that_has_groups(tmp_path: Path):
    from setwise.cli.main import _sentence

    failed = CliRunner().invoke(app, ["count", str(write(tmp_path, WORDS)), "--item", "v"], standalone_mode=False)
    assert "count has no groups: use histogram, or setwise sql with GROUP BY" in _sentence(failed.exception)


def test_milliseconds_are_not_read_as_seconds(tmp_path: Path):
    """Every row came into the group null, without a word."""
    path = write(tmp_path, [str(1000 * (1767225600 + 86400 * (user % 14))) for user in range(400)])
    text = "SELECT DATE_TRUNC('week', {}(v)) AS week, COUNT(DISTINCT who) AS n FROM t GROUP BY week"
    asked = ("--table", f"t={path}", "--user", "who", *PAID, "--delta", "0.001", "--contributions", "1")
    message = str(run("sql", text.format("TO_TIMESTAMP"), *asked).exception)
    assert "write TIMESTAMP_MILLIS(v)" in message
    assert run("sql", text.format("TIMESTAMP_MILLIS"), *asked).exit_code == 0


@pytest.mark.parametrize("values", [["--value", "origin,dest"], ["--value", "origin", "--value=dest"]])
@pytest.mark.parametrize("more", [[], ["--where", "dest <> 'd3'"], ["--item", "day", "--contributions", "2"]])
def test_distinct_values_of_two_columns_have_a_command_in_sql(values: list[str], more: list[str], tmp_path: Path):
    path = write(tmp_path, [f"o{user % 5},d{user % 4},{user % 2}" for user in range(400)], "who,origin,dest,day")
    asked = ("distinct", path, "--user", "who", *values, *more, *PAID, "--delta", "0.001", "--type", "day=integer")
    message = str(run(*asked).exception)
    assert message.startswith("--value takes one column")
    assert message.count("ask again with") == 1
    done = run(*shlex.split(message.partition("ask again with: setwise ")[2]))
    assert done.exit_code == 0, done.exception
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == (2 if "--item" in more else 1)
    assert rows[0]["n"]["value"] == pytest.approx(15 if "--where" in more else 20 / len(rows), abs=4)


def test_a_column_with_a_comma_in_its_name_is_counted(tmp_path: Path):
    path = write(tmp_path, [f"o{user % 5}" for user in range(400)], 'who,"origin,dest"')
    done = run("distinct", path, "--user", "who", "--value", "origin,dest", *PAID)
    assert done.exit_code == 0, done.exception

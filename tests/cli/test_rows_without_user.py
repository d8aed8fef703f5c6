"""Rows without a user are in no answer, and users called N/A or Total are no person: the holder is told beforehand."""

import json
import shlex
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from setwise.cli.main import app
from setwise.errors import SetwiseError

PAID = ("--epsilon", "2", "--delta", "1e-6")
USERS = [*(f"u{number}" for number in range(300)), *[""] * 40, *["N/A"] * 25, *["-"] * 7, *["unknown"] * 3]
MISSING = "40 of 375 rows have no 'who' and are left out of every answer"
SHARED = (
    "25 rows have 'N/A', 7 rows '-' and 3 rows 'unknown' as 'who', and each of these texts counts as one person: "
    "--null N/A --null - --null unknown leaves the rows out"
)


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


def write_csv(folder: Path) -> Path:
    path = folder / "visits.csv"
    path.write_text("who,page\n" + "".join(f"{user},home\n" for user in USERS))
    return path


def asked(path: Path) -> tuple[object, ...]:
    return ("histogram", path, "--user", "who", "--item", "page", "--contributions", "1", *PAID)


def refusal(*words: object) -> str:
    done = CliRunner().invoke(app, [*map(str, words)])
    assert isinstance(done.exception, SetwiseError), done.output
    assert done.stdout == ""
    return str(done.exception)


def test_rows_without_a_user_are_told_on_standard_error(tmp_path: Path):
    path = write_csv(tmp_path)
    done = run(*asked(path), "--null", "N/A", "--null", "-", "--null", "unknown")
    assert "note: visits.csv: 75 of 375 rows have no 'who' and are left out of every answer" in done.stderr
    assert "375" not in done.stdout
    assert "left out of every answer" not in done.stdout
    previewed = run(*asked(path), "--preview")
    assert f"note: visits.csv: {MISSING}" in previewed.stderr
    assert f"note: visits.csv: {SHARED}" in previewed.stderr


def test_texts_that_are_no_user_are_refused_with_a_command_that_leaves_them_out(tmp_path: Path):
    """They counted as three persons, and the answer looked as if nothing had happened."""
    path = write_csv(tmp_path)
    message = refusal(*asked(path))
    assert f"visits.csv: {SHARED}" in message
    done = run(*shlex.split(message.partition("or ask again with: setwise ")[2]))
    assert done.exit_code == 0
    assert "counts as one person" not in done.stderr
    saved = message.partition("kept beside it by: setwise ")[2].partition("; or ask again")[0]
    assert run(*shlex.split(saved)).exit_code == 0
    assert run(*asked(path)).stderr == f"note: visits.csv: {MISSING.replace('40', '75')}\n"


@pytest.mark.parametrize("word", ["Total", "TOTAL", "Total general", "\u0418\u0442\u043e\u0433\u043e", "Subtotal:"])
def test_lines_of_totals_are_no_user(word: str, tmp_path: Path):
    path = tmp_path / "visits.csv"
    path.write_text("who,amount\n" + "".join(f"u{place},7\n" for place in range(300)) + f"{word},2100\n")
    counted = ("sum", path, "--user", "who", "--value", "amount", "--clip", "9000", "--epsilon", "90", "--json")
    message = refusal(*counted)
    assert f"1 row has {word!r} as 'who', and this text counts as one person, though {word!r} may be a line" in message
    assert "its last line" not in message
    done = run(*shlex.split(message.partition("or ask again with: setwise ")[2]))
    assert json.loads(done.stdout)["items"][0]["count"] == pytest.approx(2100, abs=1500)
    assert "its last line" not in done.stderr
    assert any(repr(word) in note for note in json.loads(run("check", path, "--user", "who", "--json").stdout)["notes"])


def test_the_option_that_is_named_leaves_them_out(tmp_path: Path):
    done = run(*asked(write_csv(tmp_path)), "--null", "N/A", "--null", "-", "--null", "unknown")
    assert "75 of 375 rows have no 'who'" in done.stderr
    assert "counts as one person" not in done.stderr


def test_sql_is_scanned_for_them_too(tmp_path: Path):
    text = f"SELECT page, COUNT(*) AS n FROM `{write_csv(tmp_path)}` GROUP BY page"
    message = refusal("sql", text, "--user", "who", "--contributions", "1", *PAID)
    assert SHARED in message
    done = run("sql", text, "--user", "who", "--contributions", "1", *PAID, "--explain")
    assert MISSING in done.stderr


def test_the_scan_can_be_turned_off(tmp_path: Path):
    assert run(*asked(write_csv(tmp_path)), "--no-scan").stderr == ""


@pytest.mark.parametrize("kind", ["text", "integer"])
def test_parquet_files_are_scanned_for_them_too(kind: str, tmp_path: Path):
    path = tmp_path / "visits.parquet"
    if kind == "text":
        users = pa.array([user or None for user in USERS])
    else:
        users = pa.array([None if place % 5 == 0 else place for place in range(375)])
    pq.write_table(pa.table({"who": users, "page": ["home"] * 375}), path)
    notes = run(*asked(path), "--preview").stderr
    assert (MISSING if kind == "text" else "75 of 375 rows have no 'who'") in notes
    assert (SHARED in notes) == (kind == "text")
    if kind == "text":
        assert SHARED in refusal(*asked(path))
        assert "75 of 375" in run(*asked(path), "--null", "N/A", "--null", "-", "--null", "unknown").stderr


def test_users_that_are_no_whole_numbers_are_left_out_and_told(tmp_path: Path):
    path = tmp_path / "visits.csv"
    path.write_text("who,page\n" + "".join(f"{place if place % 4 else 'N/A'},home\n" for place in range(400)))
    done = run(*asked(path), "--type", "who=integer")
    assert "100 of 400 cells of 'who' are not whole numbers" in done.stderr
    assert "so that their rows are left out of every answer: --null N/A" in done.stderr


def test_a_table_without_any_user_is_answered_and_told(tmp_path: Path):
    path = tmp_path / "visits.csv"
    path.write_text("who,page\n" + ",home\n" * 50)
    done = run(*asked(path))
    assert "50 of 50 rows have no 'who'" in done.stderr
    assert done.exit_code == 0


def test_empty_texts_of_a_parquet_file_are_one_person(tmp_path: Path):
    path = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"who": [*map(str, range(300)), *[""] * 30], "page": ["home"] * 330}), path)
    notes = run(*asked(path)).stderr
    assert "30 rows have '' as 'who', and this text counts as one person: a copy with such cells empty: " in notes


def test_a_table_in_which_every_row_has_a_user_gets_no_note(tmp_path: Path):
    path = tmp_path / "visits.csv"
    path.write_text("who,page\n" + "".join(f"u{place},home\n" for place in range(300)))
    assert run(*asked(path)).stderr == ""


def test_the_user_column_of_a_private_table_that_is_joined_is_scanned(tmp_path: Path):
    visits, people = tmp_path / "visits.csv", tmp_path / "people.csv"
    visits.write_text("who,page\n" + "".join(f"u{place},home\n" for place in range(300)))
    people.write_text("who,age\n" + "".join(f"u{place},{place % 3}\n" for place in range(300)) + ",9\n" * 12)
    text = "SELECT p.age, COUNT(*) AS n FROM visits v JOIN people p ON v.who = p.who GROUP BY p.age"
    done = run(
        "sql", text, "--user", "who", "--table", f"visits={visits}", "--table", f"people={people}", "--contributions",
        "1", *PAID,
    )  # fmt: skip
    assert "people.csv: 12 of 312 rows have no 'who'" in done.stderr
    assert "visits.csv" not in done.stderr


def test_one_repeated_header_is_told_in_the_singular(tmp_path: Path):
    path = tmp_path / "joined.csv"
    rows = "".join(f"u{user},{user % 5}\n" for user in range(300))
    path.write_text(f"who,v\n{rows}who,v\n{rows}")
    words = ["sql", f"SELECT COUNT(*) FROM '{path}'", "--user", "who", "--epsilon", "1"]
    refused = str(CliRunner().invoke(app, words).exception)
    assert "1 line repeats the header, as after cat of several files, and counts as a row of a user called" in refused


def test_all_users_who_stand_for_several_people_are_named_at_once(tmp_path: Path):
    """After --null anonymous, the rows of guest, 0 and -1 still counted as those of three people, unsaid."""
    path = tmp_path / "visits.csv"
    users = [*map(str, range(1, 301)), *["guest"] * 40, *["0"] * 30, *["-1"] * 20, *["anonymous"] * 10]
    path.write_text("who,page\n" + "".join(f"{user},home\n" for user in users))
    message = refusal("count", path, "--user", "who", "--epsilon", "90")
    assert "40 rows have 'guest', 30 rows '0', 20 rows '-1' and 10 rows 'anonymous' as 'who'" in message
    mending, *commands = message.partition("or ask the copy with: ")[2].split(" && setwise ")
    subprocess.run(mending, shell=True, check=True, timeout=60)
    *_, done = [run(*shlex.split(command)) for command in commands]
    assert "100 of 400 rows have no 'who'" in done.stderr
    assert "counts as one person" not in done.stderr
    words = ("--null", "anonymous", "--null", "guest", "--type", "who=integer")
    noted = run("count", path, "--user", "who", "--epsilon", "90", *words).stderr
    assert "30 rows have '0' and 20 rows '-1' as 'who', and each of these texts counts as one person" in noted


def test_users_called_0_or_guest_with_rows_like_others_are_people(tmp_path: Path):
    path = tmp_path / "visits.csv"
    users = [*map(str, range(300)), "guest", "test", "-1"]
    path.write_text("who,page\n" + "".join(f"{user},home\n" * 3 for user in users))
    assert "one person" not in run("count", path, "--user", "who", "--epsilon", "90").stderr

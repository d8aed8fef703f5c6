"""Lines of a file that have totals of other lines are noted, with the condition that leaves all of them out."""

import json
from pathlib import Path

import pytest
from tests.command_line import setwise as setwise_fixture  # noqa: F401
from tests.messy_tables import PAID, USERS, Command


def subtotals(path: Path, end: str = "") -> Path:
    """Write a file in which each of 400 users has rows of 10 and 20, and a line with their sum."""
    rows = (f"u{user},tea,10\nu{user},,20\nu{user},Subtotal,30\n" for user in USERS)
    path.write_text("user,item,amount\n" + "".join(rows) + end)
    return path


@pytest.mark.parametrize("end", ["", "u1,Grand total,12000\n"])
def test_all_lines_with_subtotals_are_noted_with_the_condition_that_leaves_them_out(
    end: str, setwise: Command, tmp_path: Path
):
    """A sum was twice as high, without a word; a note spoke of the last line only."""
    path = subtotals(tmp_path / "sales.csv", end)
    words = "'Grand total' or 'Subtotal'" if end else "'Subtotal'"
    condition = f"(item {'NOT IN' if end else '<>'} {'(' * bool(end)}{words.replace(' or ', ', ')}{')' * bool(end)}"
    note = f"{400 + bool(end)} lines have {words} as 'item': if they are totals of other lines, a sum counts these "
    note += f"twice, and WHERE {condition} OR item IS NULL) leaves them out"
    checked = " ".join(setwise("check", path, "--user", "user").stdout.split())
    assert note in checked
    assert "its last line" not in checked
    statement = f"SELECT SUM(amount) AS total FROM '{path}'"
    asked = setwise("sql", statement, *PAID)
    assert note in asked.stderr
    assert "its last line" not in asked.stderr
    done = setwise("sql", f"{statement} WHERE {note.partition('WHERE ')[2].removesuffix(' leaves them out')}", *PAID)
    assert "totals" not in done.stderr
    rows = json.loads(done.stdout[done.stdout.find('{"') :])["rows"]
    assert rows[0]["total"]["value"] == pytest.approx(12_000, rel=0.05)


def test_words_that_begin_like_totals_are_not_noted(setwise: Command, tmp_path: Path):
    path = tmp_path / "cars.csv"
    path.write_text("user,item,amount\n" + "".join(f"u{user},Total war,5\nu{user},Summer,5\n" for user in USERS))
    assert "note:" not in setwise("check", path, "--user", "user").stdout

"""Dates in several formats, and times written as numbers, are refused with a command that reads them, not misread.

Each test asks by the command line, runs what the refusal proposes to paste, and compares with the true numbers.
"""

import json
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest
from tests.command_line import Done
from tests.command_line import setwise as setwise_fixture  # noqa: F401
from tests.messy_tables import PAID, USERS, Command, pasted

DAYS = [date(2024, 1, 1) + timedelta(days=user * 7 % 366) for user in USERS]
FIRST_HALF = sum(day <= date(2024, 6, 30) for day in DAYS)
MONTHS = Counter(f"{day:%Y-%m-01}" for day in DAYS)
FORMATS: tuple[Callable[[date], str], ...] = (
    str,
    lambda day: f"{day:%d/%m/%Y}",
    lambda day: f'"{day:%b %d, %Y}"',
    lambda day: str((day - date(1899, 12, 30)).days),
)
HALF = "SELECT COUNT(*) AS n FROM '{}' WHERE day BETWEEN '2024-01-01' AND '2024-06-30'"
BY_MONTH = "SELECT DATE_TRUNC('month', {}) AS month, COUNT(*) AS n FROM '{}' GROUP BY month"


def written(path: Path, cell: Callable[[int], str], name: str = "day") -> Path:
    path.write_text(f"user,{name},n\n" + "".join(f"u{user},{cell(user)},{user % 5}\n" for user in USERS))
    return path


def rows(done: Done) -> list[dict]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout[done.stdout.find('{"') :])["rows"]


def months(done: Done) -> dict[str, float]:
    return {row["month"]: row["n"]["value"] for row in rows(done)}


@pytest.mark.parametrize("formats", [(0, 0, 1, 1, 2, 3), (0, 3), (1, 2), (0, 0, 0, 0, 0, 0, 0, 0, 0, 3)])
def test_dates_in_several_formats_are_copied_in_one(formats: tuple[int, ...], setwise: Command, tmp_path: Path):
    """Of dates in four formats, those after June were compared as text: 900 of 1,370 rows, without a word."""
    path = written(tmp_path / "days.csv", lambda user: FORMATS[formats[user % len(formats)]](DAYS[user]))
    checked = setwise("check", path).stdout
    assert "dates of 'day' are written in " in checked
    assert "which no option reads together" in checked
    refused = setwise("sql", HALF.format(path), *PAID)
    assert refused.returncode
    assert "nothing was charged" in refused.stderr
    done = pasted(setwise, refused)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout[done.stdout.find('{"') :])["rows"][0]["n"]["value"] == pytest.approx(
        FIRST_HALF, abs=3
    )
    copied = (tmp_path / "days.clean.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in copied] == [str(day) for day in DAYS]
    path.with_name("days.clean.csv").unlink()
    grouped = setwise("sql", BY_MONTH.format("day", path), *PAID)
    if grouped.returncode:
        grouped = pasted(setwise, grouped)
        assert months(grouped) == pytest.approx(MONTHS, abs=20)
    assert "day" in setwise("sql", f"SELECT day, COUNT(*) FROM '{path}' GROUP BY day", *PAID).stderr


def test_dates_of_which_no_cell_shows_the_order_have_a_copy_for_each(setwise: Command, tmp_path: Path):
    path = written(
        tmp_path / "days.csv",
        lambda user: f"{user % 12 + 1:02}/{user % 7 + 1:02}/2024" if user % 2 else f'"Sep {user % 9 + 1}, 2024"',
    )
    message = " ".join(setwise("sql", HALF.format(path), *PAID).stderr.split())
    assert "if 02/05/2024 has the day first, ask the copy with: " in message
    assert "if 02/05/2024 has the month first, ask the copy with: " in message


@pytest.mark.parametrize("cells", [(0,), (1,), (0, 1), (2,)])
def test_dates_that_options_read_need_no_copy(cells: tuple[int, ...], setwise: Command, tmp_path: Path):
    path = written(tmp_path / "days.csv", lambda user: FORMATS[cells[user % len(cells)]](DAYS[user]))
    assert "written in" not in setwise("check", path, "--save").stdout
    assert months(setwise("sql", BY_MONTH.format("day", path), *PAID)) == pytest.approx(MONTHS, abs=20)

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


def serial(user: int) -> str:
    return FORMATS[3](DAYS[user])


@pytest.mark.parametrize("name", ["start", "due_until", "day"])
@pytest.mark.parametrize("options", [(), ("--type", "{}=integer")])
def test_days_that_a_spreadsheet_counts_are_copied_as_dates(
    name: str, options: tuple[str, ...], setwise: Command, tmp_path: Path
):
    """`setwise check` printed the type with which all days were days of January 1970."""
    path = written(tmp_path / "days.csv", serial, name)
    checked = json.loads(setwise("check", path, "--json").stdout)
    assert f"{name}=integer" not in checked["options"]
    assert "as spreadsheets store dates" in "".join(checked["notes"])
    types = [word.format(name) for word in options]
    for column in (name, f"TO_TIMESTAMP({name})"):
        refused = setwise("sql", BY_MONTH.format(column, path), *PAID, *types)
        assert refused.returncode
        assert months(pasted(setwise, refused)) == pytest.approx(MONTHS, abs=20)
        (tmp_path / "days.clean.csv").unlink()
        (tmp_path / "days.clean.csv.toml").unlink()


def test_numbers_of_five_digits_that_are_no_days_keep_their_type(setwise: Command, tmp_path: Path):
    path = written(tmp_path / "runs.csv", lambda user: str(20_000 + 97 * user), "start")
    assert "start=integer" in json.loads(setwise("check", path, "--json").stdout)["options"]
    path = written(tmp_path / "seconds.csv", lambda user: str(216 * user), "seconds")
    done = setwise("sql", f"SELECT AVG(EXTRACT(HOUR FROM TO_TIMESTAMP(seconds))) AS hour FROM '{path}'", *PAID)
    assert "as times of 1970: are they seconds since 1970?" in done.stderr
    assert done.returncode == 0


MILLIS = "TIMESTAMP_MILLIS(playedAt)"


@pytest.mark.parametrize("options", [(), ("--type", "playedAt=integer")])
@pytest.mark.parametrize("column", ["playedAt", "TO_TIMESTAMP(playedAt)"])
def test_milliseconds_are_read_by_the_function_that_the_first_refusal_names(
    column: str, options: tuple[str, ...], setwise: Command, tmp_path: Path
):
    """The first refusal named TO_TIMESTAMP, which the second one refused."""
    path = written(tmp_path / "plays.csv", lambda user: f"{DAYS[user]:%s}000", "playedAt")
    checked = json.loads(setwise("check", path, "--json").stdout)
    assert any("may be milliseconds since 1970" in note for note in checked["notes"])
    assert "playedAt=integer" not in checked["options"]
    refused = setwise("sql", BY_MONTH.format(column, path), *PAID, *options)
    assert refused.returncode
    assert MILLIS in refused.stderr
    assert months(pasted(setwise, refused)) == pytest.approx(MONTHS, abs=20)


@pytest.mark.parametrize("options", [(), ("--type", "playedAt=integer")])
def test_milliseconds_that_are_compared_with_a_date_have_a_command(
    options: tuple[str, ...], setwise: Command, tmp_path: Path
):
    path = written(tmp_path / "plays.csv", lambda user: f"{DAYS[user]:%s}000", "playedAt")
    half = f"SELECT COUNT(*) AS n FROM '{path}' WHERE playedAt <= '2024-06-30'"
    refused = setwise("sql", half, *PAID, *options)
    assert f"{MILLIS} <= " in refused.stderr
    assert rows(pasted(setwise, refused))[0]["n"]["value"] == pytest.approx(FIRST_HALF, abs=3)
    counted = ("count", path, *PAID[:4], "--json", "--where", "playedAt <= '2024-06-30'")
    done = pasted(setwise, setwise(*counted, *options))
    assert json.loads(done.stdout[done.stdout.find('{"') :])["items"][0]["count"] == pytest.approx(FIRST_HALF, abs=3)

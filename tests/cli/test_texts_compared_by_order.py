"""A text column of dates or numbers that a question compares by order is refused, with what reads it to paste.

As text, 900 is above 1000 and 9/9/2023 above 12/31/2024: such an answer was wrong, with an interval of one or two.
"""

import json
import shlex
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.command_line import Done
from tests.command_line import setwise as setwise_fixture  # noqa: F401

import setwise as package
from setwise.errors import UnsuitableTable

Command = Callable[..., Done]
USERS = range(400)
TIMES = [datetime(2023, 1, 1, 1, 5) + timedelta(hours=40 * user + user % 7, minutes=user) for user in USERS]
LATER = sum(time >= datetime(2024, 6, 1) for time in TIMES)
GERMAN = "Januar Februar M\u00e4rz April Mai Juni Juli August September Oktober November Dezember".split()  # noqa: SIM905


def plain(time: datetime) -> str:
    return f"{time.month}/{time.day}/{time.year} {time.hour}:{time:%M}"


DATES: dict[str, tuple[Callable[[datetime], str], str]] = {
    "as a spreadsheet exports them": (plain, "6/1/2024"),
    "with AM and PM": (lambda time: f"{time:%m/%d/%Y %I:%M %p}", "06/01/2024"),
    "with AM and PM and a zone": (lambda time: f"{time:%m/%d/%Y %I:%M %p} EST", "2024-06-01"),
    "with AM and PM after a comma": (lambda time: f'"{time:%m/%d/%Y, %I:%M:%S %p}"', "2024-06-01"),
    "with a time zone": (lambda time: f"{time:%d/%m/%Y %H:%M} CET", "01/06/2024"),
    "with the name of a zone": (lambda time: f"{time.day}.{time:%m.%Y %H:%M} Europe/Berlin", "01.06.2024"),
    "with whole months": (lambda time: f'"{time:%B %d, %Y}"', "June 1, 2024"),
    "without zeros": (lambda time: f"{time.year}-{time.month}-{time.day}", "2024-6-1"),
    "with weekdays": (lambda time: f'"{time:%A, %B %d, %Y}"', "2024-06-01"),
    "as JavaScript writes them": (lambda time: f"{time:%a %b %d %Y %H:%M:%S} GMT+0000 (UTC)", "2024-06-01"),
    "as mails have them": (lambda time: f'"{time:%a, %d %b %Y %H:%M:%S} GMT"', "2024-06-01"),
    "with ordinal numbers": (lambda time: f"{time.day}th of {time:%B %Y}", "2024-06-01"),
    "in German": (lambda time: f"{time.day}. {GERMAN[time.month - 1]} {time.year}", "2024-06-01"),
    "with a comma before the time": (lambda time: f'"{time:%d.%m.%Y, %H:%M:%S}"', "2024-06-01"),
    "as numbers": (lambda time: f"{time:%Y%m%d}", "2024-06-01"),
    "as days since 1899": (lambda time: str((time - datetime(1899, 12, 30)).days), "2024-06-01"),
}
"""Dates in forms whose order as text is another one, and the first of June 2024 as a question compares with it."""
NUMBERS: dict[str, tuple[Callable[[int], str], str]] = {
    "of three or four digits": (lambda number: f"{number + 800}", "1100"),
    "plain": (lambda number: f"{number}", "300"),
    "with a dollar sign": (lambda number: f'"${number:,}.50"', "$300"),
    "with thousands": (lambda number: f'"{number * 37:,}"', "11,100"),
    "with a currency": (lambda number: f"{number}.50 kr", "300"),
    "with a minus after them": (lambda number: f"{number}.5-", "-300"),
}
"""Numbers from 0 to 399, in forms that are not in order as text, and 300 as a question compares with it."""


def table(path: Path, name: str, cells: list[str]) -> Path:
    path.write_text(f"user,{name}\n" + "".join(f"u{user},{cell}\n" for user, cell in enumerate(cells)))
    return path


def asked(path: Path, where: str) -> list[str]:
    statement = f"SELECT COUNT(DISTINCT user) AS n FROM t WHERE {where}"
    return ["sql", statement, "--table", f"t={path}", "--user", "user", "--epsilon", "90", "--json"]


def pasted(setwise: Command, refused: Done) -> float:
    """Run the command that a refusal proposes, and return the released number."""
    message = " ".join(refused.stderr.split())
    assert refused.returncode == 2, message
    assert "nothing was charged" in message
    _, copied, copy = message.partition("or ask the copy with: ")
    if copied:
        mending, *commands = copy.split(" && setwise ")
        subprocess.run(mending, shell=True, check=True, timeout=60)
    else:
        commands = [message.partition("ask again with: setwise ")[2]]
    done = [setwise(*shlex.split(command)) for command in commands][-1]
    assert done.returncode == 0, done.stderr
    return float(json.loads(done.stdout)["rows"][0]["n"]["value"])


@pytest.mark.parametrize("form", DATES)
def test_dates_compared_as_text_are_refused_with_a_command_that_reads_them(form: str, setwise: Command, tmp_path: Path):
    write, constant = DATES[form]
    path = table(tmp_path / "visits.csv", "at", [write(time) for time in TIMES])
    assert pasted(setwise, setwise(*asked(path, f"at >= '{constant}'"))) == pytest.approx(LATER, abs=2)


@pytest.mark.parametrize("form", NUMBERS)
def test_numbers_compared_as_text_are_refused_with_a_command_that_reads_them(
    form: str, setwise: Command, tmp_path: Path
):
    write, constant = NUMBERS[form]
    path = table(tmp_path / "amounts.csv", "amount", [write(user) for user in USERS])
    sign = "<=" if "minus" in form else ">="
    assert pasted(setwise, setwise(*asked(path, f"amount {sign} '{constant}'"))) == pytest.approx(100, abs=2)


@pytest.mark.parametrize(
    "where",
    [
        "at >= DATE '2024-06-01'",
        "at >= CAST('2024-06-01' AS DATE)",
        "'2024-06-01' <= t.at",
        "at BETWEEN '2024-06-01' AND '2025-12-31'",
        "at NOT BETWEEN '2022-01-01' AND '2024-05-31'",
    ],
)
def test_every_comparison_by_order_is_seen(where: str, setwise: Command, tmp_path: Path):
    path = table(tmp_path / "visits.csv", "at", [f"{time.month}/{time.day}/{time.year}" for time in TIMES])
    assert pasted(setwise, setwise(*asked(path, where))) == pytest.approx(LATER, abs=2)


def test_a_count_and_python_refuse_them_too(setwise: Command, tmp_path: Path):
    path = table(tmp_path / "visits.csv", "at", [plain(time) for time in TIMES])
    counted = setwise("count", path, "--user", "user", "--where", "at >= '6/1/2024'", "--epsilon", "90")
    assert "compare them with '2024-06-01' in place of '6/1/2024' then" in counted.stderr
    command = " ".join(counted.stderr.split()).partition("ask again with: setwise ")[2]
    assert setwise(*shlex.split(command)).returncode == 0
    with package.open(path, user="user") as session, pytest.raises(UnsuitableTable, match="is compared as text"):
        session.count(where="at >= '2024-06-01'", epsilon=1)


@pytest.mark.parametrize(
    ("cells", "where"),
    [
        ([f"{time:%Y-%m-%d %H:%M}" for time in TIMES], "at >= '2024-06-01'"),
        ([f"{time:%Y%m%d}" for time in TIMES], "at >= '20240601'"),
        ([f"{time:%H:%M}" for time in TIMES], "at >= '09:00'"),
        ([f"{2000 + user % 30}" for user in USERS], "at >= '2020'"),
        ([f"{user:05}" for user in USERS], "at >= '00300'"),
        ([f"2.1.{user}.7" for user in USERS], "at >= '2.1.3'"),
        ([f"item {user}" for user in USERS], "at >= 'item 300'"),
        ([f"{time.year}-{time:%m}" for time in TIMES], "at >= '2024-06'"),
    ],
)
def test_texts_in_the_right_order_and_other_texts_are_compared(
    cells: list[str], where: str, setwise: Command, tmp_path: Path
):
    done = setwise(*asked(table(tmp_path / "texts.csv", "at", cells), where))
    assert done.returncode == 0, done.stderr


def test_dates_with_the_day_first_and_others_with_the_month_first_are_refused(setwise: Command, tmp_path: Path):
    cells = [f"{time:%d/%m/%Y}" if user % 3 else f"{time:%m/%d/%Y}" for user, time in enumerate(TIMES)]
    path = table(tmp_path / "visits.csv", "at", cells)
    told = "have the day first, such as"
    assert told in setwise("check", path).stdout
    for where in ("at >= '2024-06-01'", "at >= DATE '2024-06-01'"):
        refused = setwise(*asked(path, where))
        assert refused.returncode == 2
        assert told in refused.stderr
    assert "ask again" not in refused.stderr


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (lambda time: f"{time:%Y%m%d}", "date"),
        (lambda time: str((time - datetime(1899, 12, 30)).days), None),
        (lambda time: str(1000 * int(time.timestamp())), None),
        (plain, "timestamp"),
    ],
)
def test_check_declares_no_dates_as_whole_numbers(
    write: Callable[[datetime], str], kind: str | None, setwise: Command, tmp_path: Path
):
    """After `setwise check --save`, a question about months was refused without the command that reads the column."""
    path = table(tmp_path / "visits.csv", "at", [write(time) for time in TIMES])
    checked = json.loads(setwise("check", path, "--json", "--save").stdout)
    assert ([f"at={kind}"] if kind else []) == [word for word in checked["options"] if word.startswith("at=")]
    statement = f"SELECT DATE_TRUNC('month', at) AS m, COUNT(DISTINCT user) AS n FROM '{path}' GROUP BY 1"
    done = setwise("sql", statement, "--user", "user", "--epsilon", "90", "--delta", "0.001")
    if kind is None:
        assert "since 1" in done.stderr
        assert any("since 1" in note for note in checked["notes"])
    else:
        assert done.returncode == 0, done.stderr


def test_check_says_how_durations_become_seconds(setwise: Command, tmp_path: Path):
    path = table(tmp_path / "visits.csv", "stay", [f"{user // 60}h {user % 60}m" for user in USERS])
    checked = json.loads(setwise("check", path, "--json").stdout)
    assert any("durations" in note for note in checked["notes"])
    subprocess.run(checked["copies"][0]["command"], shell=True, check=True, timeout=60)
    assert (tmp_path / "visits.clean.csv").read_text().splitlines()[61:63] == ["u60,3600", "u61,3660"]


UNITS = {"TO_TIMESTAMP": 1, "TIMESTAMP_MILLIS": 1000}
"""The functions that read numbers since 1970, each with the number of units in a second."""


def unix_times(path: Path, per_second: int) -> Path:
    """Write a file without a header, with tabs, whose third column has numbers since 1970; return its path."""
    times = [int(time.replace(tzinfo=UTC).timestamp()) * per_second for time in TIMES]
    path.write_text("".join(f"u{user}\t{user % 5}\t{time}\n" for user, time in enumerate(times)))
    return path


@pytest.fixture(params=UNITS)
def saved(request: pytest.FixtureRequest, setwise: Command, tmp_path: Path) -> tuple[Path, str, int]:
    """A file of Unix times that `setwise check --save` described, the function that reads them, and their unit."""
    path = unix_times(tmp_path / "u.data", UNITS[request.param])
    checked = setwise("check", path, "--no-header", "--columns", "user,item,at", "--save")
    assert f"{request.param}(at) reads" in " ".join(checked.stdout.split())
    return path, request.param, UNITS[request.param]


def test_unix_times_are_read_as_whole_numbers_after_a_check_is_saved(saved: tuple[Path, str, int], setwise: Command):
    """The saved description said that the file has a table format, after which no question chose its types."""
    path, function, unit = saved
    options = ("--user", "user", "--epsilon", "90", "--delta", "0.001", "--json")
    statement = f"SELECT DATE_TRUNC('year', {function}(at)) AS y, COUNT(DISTINCT user) AS n FROM '{path}' GROUP BY y"
    assert len(json.loads(setwise("sql", statement, *options).stdout)["rows"]) >= 2
    later = int(datetime(2024, 6, 1, tzinfo=UTC).timestamp()) * unit
    counted = json.loads(setwise("count", path, "--where", f"at >= {later}", *options).stdout)
    assert counted["items"][0]["count"] == pytest.approx(LATER, abs=2)


@pytest.mark.parametrize("where", ["at >= '2024-06-01'", "t.at >= DATE '2024-06-01'", "'2024-06-01' <= at"])
def test_unix_times_compared_with_a_date_name_the_function_that_reads_them(
    where: str, saved: tuple[Path, str, int], setwise: Command
):
    path, function, _ = saved
    refused = setwise(*asked(path, where))
    assert f"{function}({'t.' * ('t.' in where)}at)" in refused.stderr.partition("ask again with")[2]
    assert pasted(setwise, refused) == pytest.approx(LATER, abs=2)


def test_a_condition_on_unix_times_is_proposed_with_numbers_and_periods_in_sql(
    saved: tuple[Path, str, int], setwise: Command
):
    path, function, _ = saved
    options = ("--user", "user", "--epsilon", "90", "--delta", "0.001", "--json")
    for words in (
        ["count", path, "--where", "at BETWEEN '2024-06-01' AND '2030-01-01'"],
        ["histogram", path, "--item", "at by year"],
        ["sql", f"SELECT EXTRACT(YEAR FROM at) AS y, COUNT(DISTINCT user) AS n FROM '{path}' GROUP BY y"],
    ):
        refused = setwise(*words, *options)
        assert refused.returncode == 2, words
        message = " ".join(refused.stderr.split())
        command = shlex.split(message.partition("ask again with: setwise ")[2])
        assert function in message
        answer = setwise(*command)
        assert answer.returncode == 0, answer.stderr
        result = json.loads(answer.stdout)
        if words[0] == "count":
            assert result["items"][0]["count"] == pytest.approx(LATER, abs=2)
        else:
            assert len(result["rows"]) >= 2

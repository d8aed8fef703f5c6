"""Numbers whose cells mean something else, or are cut in two, are noted or refused with a command that reads them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command_line import setwise as setwise_fixture  # noqa: F401
from tests.messy_tables import PAID, USERS, Command, pasted

AMOUNTS = [5 + user * 7 % 1400 for user in USERS]


def written(path: Path, row: Callable[[int], str], header: str = "user,amount") -> Path:
    path.write_text("\n".join([header, *(f"u{user},{row(user)}" for user in USERS)]) + "\n")
    return path


@pytest.mark.parametrize(
    ("row", "header"),
    [
        (lambda user: f"{AMOUNTS[user]:,}.50", "user,amount"),
        (lambda user: f"{AMOUNTS[user]:,}.50,Oslo", "user,amount,city"),
        (lambda user: f"{user % 3},{AMOUNTS[user] * 1000 if user % 9 == 0 else user:,}", "user,place,amount"),
    ],
)
def test_thousands_without_quotes_are_joined_by_the_command_of_the_refusal(
    row: Callable[[int], str], header: str, setwise: Command, tmp_path: Path
):
    """The lines with the largest amounts were lost, with a note that told neither that nor what to do."""
    path = written(tmp_path / "sales.csv", row, header)
    refused = setwise("sql", f"SELECT SUM(amount) AS total FROM '{path}'", *PAID)
    assert refused.returncode
    assert "commas between thousands and no quotes, so that the largest numbers would be missing" in refused.stderr
    assert "commas between thousands and no quotes" in setwise("check", path).stdout
    done = pasted(setwise, refused)
    assert done.returncode == 0, done.stderr
    place, width = header.split(",").index("amount"), header.count(",")
    cells = [line.split(",") for line in (tmp_path / "sales.clean.csv").read_text().splitlines()[1:]]
    assert all(len(each) == width + 1 for each in cells)
    total = sum(float(row(user).rpartition(",Oslo")[0].replace(",", "") or 0) for user in USERS if "Oslo" in row(user))
    if "Oslo" in row(0):
        assert sum(float(each[place]) for each in cells) == pytest.approx(total)


def test_the_first_line_that_is_lost_is_shown_with_its_cause(setwise: Command, tmp_path: Path):
    path = written(tmp_path / "rows.csv", lambda user: "Oslo" if user % 9 != 5 else "Oslo,x,y,z", "user,city")
    noted = setwise("count", path, *PAID[:4]).stderr
    assert "the first is line 7, which has 5 cells: 'u5,Oslo,x,y,z'" in noted
    text = path.read_text().replace("Oslo,x,y,z", 'Os"lo')
    path.write_text(text.replace("u7,Oslo", 'u7,"Os,lo"').replace("u9,Oslo", 'u9,"Os\nlo"'))
    noted = setwise("count", path, *PAID[:4]).stderr
    assert "the first is line 7, in which a quote" in noted or "a copy that is read" in noted


def test_a_dash_that_an_accounting_format_writes_for_zero_is_noted(setwise: Command, tmp_path: Path):
    path = written(tmp_path / "sales.csv", lambda user: '" -   "' if user % 5 == 0 else f'" {AMOUNTS[user]:,}.00 "')
    noted = " ".join(setwise("check", path).stdout.split())
    assert "if it is zero there, a copy with zeros: python3" in noted
    command = noted.partition("a copy with zeros: ")[2].partition(" options: ")[0]
    subprocess.run(command, shell=True, check=True, timeout=60)
    assert (tmp_path / "sales.clean.csv").read_text().splitlines()[1] == "u0,0"
    plain = written(tmp_path / "plain.csv", lambda user: "-" if user % 5 == 0 else f"{user}")
    assert "accounting format" not in setwise("check", plain).stdout


@pytest.mark.parametrize(("code", "low", "found"), [(-1, 1000, True), (-1, 1, True), (-1, -5, False), (-2, 1, False)])
def test_a_code_of_minus_one_among_positive_numbers_is_noted(
    code: int, low: int, found: bool, setwise: Command, tmp_path: Path
):
    path = written(tmp_path / "pay.csv", lambda user: str(code if user % 10 == 0 else low + AMOUNTS[user] % 300))
    assert ("if -1 means that the value is not known" in setwise("check", path).stdout) == found
    done = setwise("mean", path, "--value", "amount", *PAID[:4], "--json")
    assert ("--null -1 reads it as empty" in done.stderr) == found
    assert json.loads(done.stdout[done.stdout.find('{"') :])

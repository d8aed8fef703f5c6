"""Numbers such as 1,234, which are one and a bit in one country and 1234 in another, are not read without being told.

A file whose numbers all had three digits after a comma was read as thousands, so that every value was 1,000 times too
large, without a word.
"""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import setwise
from setwise.cli.main import app

ASKED = ("sum", "--user", "who", "--value", "v", "--clip", "50000", "--epsilon", "90", "--json")
COMMAS = (
    "every number of 'v' has three digits after the comma: add --decimal , if 1,234 is one and a bit, or --thousands , "
    "if it is 1234"
)
POINTS = "so 1.234 may be 1234: add --thousands . --decimal , if it is, or --type v=float if it is one and a bit"


def write(folder: Path, cells: list[str]) -> Path:
    path = folder / "values.csv"
    path.write_text("who;v\n" + "".join(f"u{user};{cell}\n" for user, cell in enumerate(cells)))
    return path


def run(*words: object):
    return CliRunner().invoke(app, [*map(str, words)])


def ask(path: Path, *words: str):
    return run(ASKED[0], path, *ASKED[1:], *words)


def options(path: Path) -> list[str]:
    return json.loads(run("check", path, "--json").stdout)["options"]


def total(command: str) -> float:
    done = run(*shlex.split(command.removeprefix("setwise ")))
    assert done.exit_code == 0, done.exception
    (item,) = json.loads(done.stdout)["items"]
    return item["sum_v"]["value"] if "sum_v" in item else item["count"]


def cells_with(mark: str, *others: str) -> list[str]:
    return [*(f"{1 + number % 30}{mark}{number % 1000:03}" for number in range(300)), *others]


@pytest.mark.parametrize(("mark", "option"), [(",", ["--decimal", ","]), (".", [])])
def test_a_zero_before_the_mark_makes_it_a_decimal_point(mark: str, option: list[str], tmp_path: Path):
    path = write(tmp_path, cells_with(mark, f"0{mark}234"))
    assert options(path) == ["--separator", ";", *option, "--type", "v=float"]
    assert json.loads(run("check", path, "--json").stdout)["notes"] == []
    assert "--decimal , --thousands" not in str(ask(path).exception)


@pytest.mark.parametrize("other", ["1,234,567", "999"])
def test_a_number_that_can_only_have_thousands_decides_for_them(other: str, tmp_path: Path):
    path = write(tmp_path, cells_with(",", other))
    assert options(path) == ["--separator", ";", "--thousands", ",", "--type", "v=integer"]


@pytest.mark.parametrize(("mark", "note"), [(",", COMMAS), (".", POINTS)])
def test_check_does_not_choose_for_numbers_that_can_be_either(mark: str, note: str, tmp_path: Path):
    path = write(tmp_path, cells_with(mark))
    checked = json.loads(run("check", path, "--json").stdout)
    assert checked["options"] == ["--separator", ";"]
    assert any(note in each for each in checked["notes"])
    saved = run("check", path, "--save")
    assert note in str(saved.exception)
    assert not path.with_name("values.csv.toml").exists()


@pytest.mark.parametrize("options", [("--decimal", ","), ("--thousands", ",")])
def test_check_saves_what_was_chosen(options: tuple[str, str], tmp_path: Path):
    path = write(tmp_path, cells_with(","))
    assert run("check", path, "--save", *options).exit_code == 0
    assert ask(path).exit_code == 0


@pytest.mark.parametrize("mark", [",", "."])
def test_a_refusal_has_a_command_for_each_meaning(mark: str, tmp_path: Path):
    path = write(tmp_path, cells_with(mark))
    message = str(ask(path).exception)
    _, small, large = message.split(", ask again with: ")
    small = small.partition("; if it is 1234")[0]
    true = sum(float(cell.replace(mark, ".")) for cell in cells_with(mark))
    assert total(small) == pytest.approx(true, abs=50_000)  # 80 noise scales
    assert total(large) == pytest.approx(1000 * true, abs=50_000)


def test_a_question_names_both_options(tmp_path: Path):
    path = write(tmp_path, cells_with(","))
    message = str(ask(path, "--separator", ";").exception)
    assert f"300 of 300 cells of 'v' are not numbers and will be skipped: {COMMAS}" in message
    compared = run("count", path, "--user", "who", "--separator", ";", "--where", "v > '2'", "--epsilon", "1")
    assert f"'v' is compared as text: {COMMAS}" in str(compared.exception)


def test_python_names_both_arguments(tmp_path: Path):
    path = write(tmp_path, cells_with(","))
    told = (
        "every number of 'v' has three digits after the comma: add setwise.open(..., decimal=\",\") if 1,234 is one "
        'and a bit, or setwise.open(..., thousands=",") if it is 1234'
    )
    with setwise.open(path, user="who", separator=";") as session, pytest.raises(setwise.SetwiseError) as refused:
        session.sum(value="v", clip=50, epsilon=1.0)
    assert told in str(refused.value)


def test_dates_that_can_be_either_have_a_command_for_each_meaning(tmp_path: Path):
    path = tmp_path / "days.csv"
    days = [f"{1 + user % 12:02}/{1 + user % 11:02}/2026" for user in range(300)]
    path.write_text("who;day\n" + "".join(f"u{user};{day}\n" for user, day in enumerate(days)))
    message = str(run("histogram", path, "--user", "who", "--item", "day by month", "--epsilon", "1").exception)
    assert "if dates are %d/%m/%Y, ask again with: setwise histogram" in message
    assert "if dates are %m/%d/%Y, ask again with: setwise histogram" in message

"""Numbers such as 1,234, which are one and a bit in one country and 1234 in another, are not read without being told.

A file whose numbers all had three digits after a comma was read as thousands, so that every value was 1,000 times too
large, without a word.
"""

import json
import re
import shlex
import subprocess
from fractions import Fraction
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


def ask_table(folder: Path, cells: list[str], separator: str = ",", *more: str):
    """Ask for the sum of `cells`, one of each of many users, in a file with a header."""
    path = folder / ("values.tsv" if separator == "\t" else "values.csv")
    lines = [f"u{user}{separator}{cell}\n" for user, cell in enumerate(cells)]
    path.write_text(f"who{separator}v\n{''.join(lines)}")
    return ask(path, *more)


def pasted(refused) -> list[float]:
    """Run the commands of a refusal as they stand, and return the sum of the numbers in each copy that they write."""
    assert refused.exit_code, refused.stdout
    message, totals = str(refused.exception), []
    for copying in message.split("ask the copy with: ")[1:]:
        mending, check, command = copying.partition("; if ")[0].split(" && ")
        subprocess.run(mending, shell=True, check=True, timeout=60)
        assert run(*shlex.split(check.removeprefix("setwise "))).exit_code == 0
        total(command)
        rows = Path(shlex.split(mending)[-1]).read_text().splitlines()[1:]
        totals.append(float(sum(Fraction(re.split("[,;\t]", row, maxsplit=1)[1].replace(",", ".")) for row in rows)))
    return totals


def scaled(word: str, factor: int, *, every: int = 2) -> tuple[list[str], float]:
    """Return cells of which all but each `every`th is written with the scale `word`, and their sum."""
    numbers = [Fraction(2 * user + 1, 10) for user in range(300)]
    cells = [
        str(int(1000 * number)) if user % every == 0 else f"{float(number)}{word}"
        for user, number in enumerate(numbers)
    ]
    return cells, float(sum(number * (1000 if user % every == 0 else factor) for user, number in enumerate(numbers)))


@pytest.mark.parametrize(("word", "factor"), [("k", 1000), (" Tsd.", 1000), ("M", 10**6), (" Mio. EUR", 10**6)])
@pytest.mark.parametrize("every", [2, 20])
def test_a_scale_is_multiplied_out_exactly(word: str, factor: int, every: int, tmp_path: Path):
    """The scale was cut off without a word, so that thousands were added to single ones."""
    cells, true = scaled(word, factor, every=every)
    refused = ask_table(tmp_path, [cell if cell.endswith(word) else cell + " EUR" * ("EUR" in word) for cell in cells])
    assert f"is multiplied by {factor:,}" in str(refused.exception)
    assert pasted(refused) == [pytest.approx(true)]
    copied = (tmp_path / "values.clean.csv").read_text().splitlines()[2].split(",")[1]
    assert copied == str(3 * factor // 10)


def test_several_scales_are_multiplied_out(tmp_path: Path):
    refused = ask_table(tmp_path, ["$1.25M", "$7.5k", "(2k)", "0"] * 100)
    assert "M is multiplied by 1,000,000 and k is multiplied by 1,000" in str(refused.exception)
    assert pasted(refused) == [pytest.approx(100 * 1_255_500)]
    copied = (tmp_path / "values.clean.csv").read_text().splitlines()
    assert copied[1:5] == ["u0,1250000", "u1,7500", "u2,-2000", "u3,0"]


@pytest.mark.parametrize(("unit", "said"), [(" kg", "'kg'"), (" EUR", "'EUR'"), ("%", "'%'"), ("$", "'$'")])
def test_the_unit_of_a_copy_is_said(unit: str, said: str, tmp_path: Path):
    refused = ask_table(tmp_path, [f"{user}.5{unit}" for user in range(300)])
    assert re.search(f"are (then )?in {re.escape(said)}", str(refused.exception))
    assert pasted(refused) == [pytest.approx(300 * 150)]


@pytest.mark.parametrize("unit", [" kg", " EUR", "$", " €"])
def test_plain_numbers_beside_numbers_with_a_unit_are_not_made_one_unasked(unit: str, tmp_path: Path):
    """Grams were added to kilograms."""
    refused = ask_table(tmp_path, [f"{user}.5{unit if user % 2 else ''}" for user in range(300)])
    message = str(refused.exception)
    assert "and others have no unit: write all in one unit in the file" in message
    assert f"if those without a unit are in {unit.strip()!r} too, ask the copy with: " in message
    assert "or ask" not in message
    assert pasted(refused) == [pytest.approx(300 * 150)]


@pytest.mark.parametrize("space", ["'", "\u00a0", "\u202f"])
def test_a_copy_without_units_keeps_the_separators_of_thousands(space: str, tmp_path: Path):
    """A narrow space in the proposed command was printed as a usual one, so that the copy was not another one."""
    done = ask_table(tmp_path, [f"{user + 1}{space}{user + 100} kr" for user in range(300)])
    message = " ".join(str(done.exception).split())
    mending, check, command = message.partition("ask the copy with: ")[2].split(" && ")
    subprocess.run(mending, shell=True, check=True, timeout=60)
    assert run(*shlex.split(check.removeprefix("setwise "))).exit_code == 0
    total(command)
    assert f"u0,1{space}100" in (tmp_path / "values.clean.csv").read_text()


def test_shares_beside_percents_have_a_command_for_each_meaning(tmp_path: Path):
    refused = ask_table(tmp_path, [f"{user % 90 + 5}%" if user % 2 else f"0.{user % 90 + 10}" for user in range(300)])
    first, second = tmp_path / "values.clean.csv", tmp_path / "values.clean2.csv"
    assert len(pasted(refused)) == 2
    assert [line.split(",")[1] for line in first.read_text().splitlines()[1:3]] == ["10", "6"]
    assert [line.split(",")[1] for line in second.read_text().splitlines()[1:3]] == ["0.1", "6"]


@pytest.mark.parametrize("unit", [" EUR", " €", "€"])
@pytest.mark.parametrize("mark", [".", ","])
def test_amounts_of_money_with_three_digits_after_the_mark_have_a_command_for_each_meaning(
    unit: str, mark: str, tmp_path: Path
):
    """The mark was taken for a decimal point: 51.8 for 50,359."""
    refused = ask_table(tmp_path, [f"{user % 90 + 1}{mark}{user % 900 + 100}{unit}" for user in range(300)], "\t")
    assert f"if 1{mark}234 is one and a bit" in str(refused.exception)
    small, large = pasted(refused)
    assert large == pytest.approx(1000 * small)
    assert large == sum(1000 * (user % 90 + 1) + user % 900 + 100 for user in range(300))


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("cells", [["813,75", "253.98"], ["7,437.00", "6.022,20"]])
def test_two_decimal_points_in_one_column_are_made_one_if_each_number_shows_its_own(
    cells: list[str], separator: str, tmp_path: Path
):
    refused = ask_table(tmp_path, [*cells, "7"] * 100, separator)
    assert "groups of two digits" not in str(refused.exception)
    assert "have a decimal comma in some cells and a decimal point in others" in str(refused.exception)
    (summed,) = pasted(refused)
    true = {"813,75": 100 * (813.75 + 253.98 + 7), "7,437.00": 100 * (7437 + 6022.2 + 7)}[cells[0]]
    assert summed == pytest.approx(true)
    written = {line.split(separator)[1] for line in next(tmp_path.glob("*.clean.?sv")).read_text().splitlines()[1:]}
    mark = "," if separator == ";" else "."
    decimals = {"813,75": {"813.75", "253.98"}, "7,437.00": {"7437.00", "6022.20"}}[cells[0]]
    assert written == {*(cell.replace(".", mark) for cell in decimals), "7"}


def test_two_marks_that_show_nothing_are_not_read_as_thousands(tmp_path: Path):
    """The commas were read as thousands and the points as decimal points, as the refusal had proposed."""
    cells = [f"{user % 90 + 1}{'.,'[user % 2]}{user % 900 + 100}" for user in range(300)]
    message = str(ask_table(tmp_path, cells, "\t").exception)
    assert "do not tell which of them is the decimal point: write all numbers with the same one" in message
    assert "--thousands" not in message
    assert "ask" not in message.replace("--no-scan asks anyway", "")
    checked = json.loads(run("check", tmp_path / "values.tsv", "--json").stdout)
    assert "--thousands" not in checked["options"]
    assert "--type" not in checked["options"]


def test_points_that_may_stand_between_thousands_are_refused_unless_the_type_is_declared(tmp_path: Path):
    """With the options that the check printed, a mean was 7.87 for 50,364 after a note."""
    path = write(tmp_path, cells_with("."))
    message = str(ask(path, *options(path)).exception)
    assert POINTS in message
    assert "its cells can be read in 2 ways" in message
    assert ask(path, *options(path), "--type", "v=float").exit_code == 0
    with setwise.open(path, user="who", separator=";") as session, pytest.raises(setwise.SetwiseError, match="be 1234"):
        session.sum(value="v", clip=50, epsilon=1.0)
    with setwise.open(path, user="who", separator=";", types={"v": "float"}) as session, pytest.warns(match="be 1234"):
        session.sum(value="v", clip=50, epsilon=1.0)


def test_numbers_of_two_currencies_have_no_command_that_is_refused_again(tmp_path: Path):
    for separator in (",", ";"):
        message = str(ask_table(tmp_path, ["$5.5", "€7.5"] * 150, separator).exception)
        assert "convert them to one currency in the file" in message
        assert "ask again" not in message
        assert "ask the copy" not in message


def test_bounds_among_numbers_are_called_what_they_are(tmp_path: Path):
    done = ask_table(tmp_path, ["<5000" if user % 20 == 0 else str(6000 + user) for user in range(300)])
    assert "15 of 300 cells of 'v'" in done.stderr
    assert "they are bounds such as '<5000', so that an answer without them is too high" in done.stderr
    refused = ask_table(tmp_path, ["90+" if user % 5 == 0 else str(user % 90) for user in range(300)])
    assert "they are bounds such as '90+', so that an answer without them is too low" in str(refused.exception)


@pytest.mark.parametrize("form", ["({})", "{}-", "\u2212{}"])
def test_negative_numbers_in_a_form_that_is_not_read_are_never_left_out(form: str, tmp_path: Path):
    """A fifth of the cells were left out after a note, all of them negative."""
    cells = [form.format(1000) if user % 60 == 0 else "5.5" for user in range(300)]
    refused = ask_table(tmp_path, cells)
    assert "5 of 300 cells of 'v' are not numbers" in str(refused.exception)
    assert pasted(refused) == [pytest.approx(-5000 + 295 * 5.5)]
    assert "u0,-1000" in (tmp_path / "values.clean.csv").read_text()


def test_a_tenth_of_cells_that_are_no_numbers_refuses_a_question(tmp_path: Path):
    cells = ["unknown" if user < 29 else str(user) for user in range(300)]
    assert "29 of 300 cells of 'v'" in ask_table(tmp_path, cells).stderr
    cells = ["unknown" if user < 30 else str(user) for user in range(300)]
    refused = ask_table(tmp_path, cells)
    assert "30 of 300 cells of 'v'" in str(refused.exception)
    total(str(refused.exception).partition("or ask again with: ")[2])
    assert ask_table(tmp_path, cells, ",", "--no-scan").exit_code == 0
    cells = ["N/A" if user < 140 else str(user) for user in range(300)]
    assert ask_table(tmp_path, cells).exit_code == 0  # a word for an empty cell is no number that is lost

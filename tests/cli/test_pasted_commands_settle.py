"""What `setwise check` and refusals print settles the question: options, one command for a copy, corrected SQL."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.command_line import setwise as setwise_fixture  # noqa: F401
from tests.messy_tables import CITIES, PAID, Command, ask, assert_counts, counts, pasted, plain, table


@pytest.mark.parametrize("word", ["Total", "-", "n/a"])
def test_options_of_the_check_leave_out_users_that_are_no_person(word: str, setwise: Command, tmp_path: Path):
    """The options that the check printed led to a refusal, although it had seen the cell."""
    path = tmp_path / "sales.csv"
    path.write_text(table(plain) + f"{word},Oslo,9000\n")
    checked = json.loads(setwise("check", path, "--user", "user", "--json").stdout)
    assert checked["options"][:2] == ["--null", word]
    assert any("counts as one person" in note for note in checked["notes"]) == (word != "n/a") or word == "n/a"
    assert_counts(ask(setwise, path, *checked["options"]))
    assert "--null" not in json.loads(setwise("check", path, "--json").stdout)["options"][:1] or word == "n/a"


def test_the_check_prints_one_command_for_all_columns(setwise: Command, tmp_path: Path):
    """Two commands copied the original to the same path, so that the second one undid the first."""
    path = tmp_path / "sales.csv"
    cities = (*CITIES, *map(str.upper, CITIES))
    path.write_text(
        table(
            lambda user: f"{cities[user % 8]},{user % 50 + 1} kr,1/{user % 28 + 1}/2024 1:05 PM", "user,city,amount,at"
        )
    )
    shown = setwise("check", path, "--null", "none").stdout
    assert shown.count(" > ") == 1
    assert shown.index("options: ") < shown.index("a copy without what these notes speak of:\n  python3")
    command = shown.partition("speak of:\n")[2].strip()
    mending, check = command.split(" && setwise ")
    assert check.endswith("sales.clean.csv --save --null none")
    subprocess.run(mending, shell=True, check=True, timeout=60)
    assert (tmp_path / "sales.clean.csv").read_text().splitlines()[2] == "u1,paris,2,1/2/2024 13:05"
    assert "a copy" not in setwise("check", tmp_path / "sales.clean.csv").stdout


def test_a_refusal_has_its_sentence_first_and_the_command_on_a_line_of_its_own(setwise: Command, tmp_path: Path):
    path = tmp_path / "sales.csv"
    path.write_text(table(lambda user: f"{CITIES[user % 4]},{user % 50 + 1} kg"))
    refused = ask(setwise, path)
    *_, sentence, command = refused.stderr.splitlines()
    assert sentence.startswith("setwise: ")
    assert "python3" not in sentence
    assert command.startswith("  python3 -c ")
    assert_counts(pasted(setwise, refused))


@pytest.mark.parametrize(
    ("name", "text", "quoted"),
    [
        ("select", "SELECT city, COUNT(*) AS n, SUM(select) AS s FROM '{}' GROUP BY city", 'SUM("select")'),
        ("Alter", "SELECT city, COUNT(*) AS n, AVG(Alter) AS s FROM '{}' GROUP BY city", 'AVG("Alter")'),
    ],
)
def test_columns_that_are_named_like_words_of_sql_are_quoted_in_the_proposed_statement(
    name: str, text: str, quoted: str, setwise: Command, tmp_path: Path
):
    path = tmp_path / "sales.csv"
    path.write_text(table(plain, f"user;city;{name}".replace(";", ",")).replace(",", ";"))
    refused = setwise("sql", text.format(path), *PAID, "--separator", ";")
    assert refused.returncode
    assert quoted in refused.stderr
    statement = refused.stderr.partition("in double quotes; write: ")[2].strip()
    assert_counts(setwise("sql", statement, *PAID, "--separator", ";"))
    assert "in double quotes" not in setwise("sql", f"SELECT SUM( FROM '{path}'", *PAID, "--separator", ";").stderr


@pytest.mark.parametrize(("constant", "wanted"), [("'Y'", 100), ("'n'", 300), ("'1'", 100)])
def test_a_condition_on_truth_values_is_corrected_to_paste(
    constant: str, wanted: int, setwise: Command, tmp_path: Path
):
    """`setwise check` proposed the type for which the condition was refused, without a command."""
    path = tmp_path / "sales.csv"
    path.write_text(table(lambda user: f"{'Y' if user % 4 == 1 else 'N'},5", "user,Paid,amount"))
    asked = ("count", path, *PAID[:4], "--json", "--where", f"Paid = {constant}", "--type", "Paid=boolean")
    done = pasted(setwise, setwise(*asked))
    assert json.loads(done.stdout[done.stdout.find('{"') :])["items"][0]["count"] == pytest.approx(wanted, abs=2)
    sql = setwise("sql", f"SELECT COUNT(*) AS n FROM '{path}' WHERE Paid = {constant}", *PAID, "--type", "Paid=boolean")
    assert f"WHERE Paid = {'FALSE' if constant == repr('n') else 'TRUE'}" in sql.stderr


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
def test_signs_and_cases_of_a_file_in_another_encoding_are_mended_by_one_command(
    encoding: str, setwise: Command, tmp_path: Path
):
    """Three notes asked to take them out of the file, without a command."""
    path = tmp_path / "sales.csv"
    rows = table(lambda user: f"{(*CITIES, *map(str.upper, CITIES))[user % 8]} \u00e9,\u20ac{user % 50 + 1}")
    path.write_text(rows, encoding=encoding)
    words = ("--encoding", encoding)
    refused = ask(setwise, path, *words)
    assert refused.returncode
    done = pasted(setwise, refused)
    assert done.returncode == 0, done.stderr
    assert sum(counts(done).values()) == pytest.approx(400, abs=40)
    checked = json.loads(setwise("check", path, *words, "--json").stdout)
    subprocess.run(checked["copies"][0]["command"], shell=True, check=True, timeout=60)
    copy = next(tmp_path.glob("sales.clean2.csv"))
    written = copy.read_text(encoding="utf-8-sig" if encoding == "utf-16" else encoding)
    assert written.splitlines()[2] == "u1,paris \u00e9,2"

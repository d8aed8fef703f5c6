"""A file that would be misread is refused with a command that reads it, or a note on standard error says what is lost.

Each test asks by the command line, runs what the refusal proposes to paste, and compares with the true counts.
"""

import io
import json
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command_line import setwise as setwise_fixture  # noqa: F401
from tests.messy_tables import CITIES, PAID, USERS, Command, ask, assert_counts, counts, pasted, plain, table

import setwise as package

SINGLE_QUOTED = {
    "all": (lambda user: f"'{CITIES[user % 4]}','{user % 50}'", "user,city,amount"),
    "where a separator is": (lambda user: plain(user) + ("," + ("'Smith, John'" if user % 3 else "Plain")),
                             "user,city,amount,name"),
    "with line ends": (lambda user: plain(user) + ("," + ("'Smith,\nJohn'" if user % 3 else "Plain")),
                       "user,city,amount,name"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SINGLE_QUOTED)
def test_cells_in_single_quotes_are_read_by_the_command_that_the_refusal_names(
    kind: str,
    setwise: Command,
    tmp_path: Path,
):
    row, header = SINGLE_QUOTED[kind]
    path = tmp_path / "quoted.csv"
    path.write_text(table(row, header))
    refused = ask(setwise, path)
    assert refused.returncode
    assert "--quote single" in refused.stderr
    assert_counts(pasted(setwise, refused))
    checked = json.loads(setwise("check", path, "--json", "--save").stdout)
    assert checked["options"][:2] == ["--quote", "single"]
    assert (checked["rows"], checked["lost_lines"]) == (400, 0)
    assert_counts(ask(setwise, path))
    with package.open(path, user="user", quote="'", types={"amount": "integer"}) as session:
        assert session.histogram(item="city", epsilon=90, delta=1e-3).labels
    with pytest.raises(package.errors.UnsuitableTable, match='quote="\'"'):  # noqa: SIM117
        with package.open(path, user="user", csv={"quote": '"', "separator": ","}) as session:
            session.histogram(item="city", epsilon=1, delta=1e-3)


def test_quotes_that_are_text_are_read_by_the_option_that_the_note_names(setwise: Command, tmp_path: Path):
    """A raw file of titles lost a line for each title with a quote, and the remedy was a program of 600 characters."""
    path = tmp_path / "titles.csv"
    titles = ['12" pipe', 'Kid "A"', "plain", 'the "best" of']
    path.write_text(table(lambda user: f"{titles[user % 4]},{user % 50}"))
    refused = ask(setwise, path)
    assert refused.returncode
    assert "no cell stands in quotes, so a quote is part of the text: --quote none reads them" in refused.stderr
    done = pasted(setwise, refused)
    assert done.returncode == 0, done.stderr
    assert set(counts(done)) == set(titles)
    checked = json.loads(setwise("check", path, "--json", "--save").stdout)
    assert checked["options"][:2] == ["--quote", "none"]
    assert (checked["rows"], checked["lost_lines"]) == (400, 0)
    assert counts(ask(setwise, path)) == pytest.approx(dict.fromkeys(titles, 100), abs=20)


@pytest.mark.parametrize("city", ["'s-Hertogenbosch", "L'Aquila", "'quoted'", "\"'a, b'\""])
def test_a_file_with_apostrophes_is_no_file_in_single_quotes(city: str, setwise: Command, tmp_path: Path):
    path = tmp_path / "apostrophes.csv"
    path.write_text(table(lambda user: plain(user) if user % 4 else f"{city},{user % 50}"))
    done = ask(setwise, path)
    assert "single" not in done.stderr
    assert counts(done)[city.strip('"')] == pytest.approx(100, abs=20)


ALIKE = {
    "NUL": ("Paris", "Paris\0"),
    "zero-width space": ("Paris", "\u200bParis"),
    "byte order mark": ("Paris", "Pa\ufeffris"),
    "other spaces": ("New York", "New\u00a0York"),
    "carriage return": ("Paris", '"Paris\r"'),
    "accents": ("Z\u00fcrich", "Zu\u0308rich"),
    "blanks": ("Paris", "Paris "),
}
"""Pairs of cells that look the same; the first is the one that is meant."""


@pytest.mark.parametrize("kind", ALIKE)
def test_values_that_look_the_same_are_noted_with_a_command_that_makes_them_one(
    kind: str, setwise: Command, tmp_path: Path
):
    """A NUL divided the rows of Paris into two groups, without a word."""
    seen, hidden = ALIKE[kind]
    path = tmp_path / "cities.csv"
    path.write_text(table(lambda user: f"{seen if user % 4 == 1 else hidden if user % 4 == 3 else 'Oslo'},{user % 50}"))
    truth = {"Oslo": 200, seen: 200}
    done = ask(setwise, path)
    assert done.returncode == 0
    noted = " ".join(done.stderr.split())
    assert "1 value of 'city' is written in several ways that look the same" in noted
    assert "1 value of 'city' is written in several ways" in " ".join(setwise("check", path).stdout.split())
    if kind == "blanks":
        question = f"SELECT TRIM(city) AS city, COUNT(*) AS n FROM '{path}' GROUP BY TRIM(city)"
        assert "TRIM(city) in SQL" in noted
        assert counts(setwise("sql", question, *PAID)) == pytest.approx(truth, abs=20)
        return
    command = noted[noted.index("python3 -c") :].partition(" note: ")[0]
    subprocess.run(command, shell=True, check=True, timeout=60)
    copied = ask(setwise, tmp_path / "cities.clean.csv")
    assert counts(copied) == pytest.approx(truth, abs=20)
    assert "look the same" not in copied.stderr


def test_a_cell_with_a_character_that_is_not_seen_is_noted_where_no_other_is_like_it(setwise: Command, tmp_path: Path):
    path = tmp_path / "cities.csv"
    path.write_text(table(lambda user: plain(user).replace("Paris", "Paris\0")))
    assert "characters that are not seen, such as 'Paris\\x00' for 'Paris'" in ask(setwise, path).stderr


@pytest.mark.parametrize("mark", ["\0", "\u200b", "\ufeff", "\u00a0"])
def test_a_user_who_is_written_with_a_character_that_is_not_seen_is_one_person(
    mark: str, setwise: Command, tmp_path: Path
):
    path = tmp_path / "users.csv"
    rows = [f"Ada{user // 2}{mark if user % 2 else ''},{plain(user)}\n" for user in USERS]
    path.write_text("user,city,amount\n" + "".join(rows))
    refused = ask(setwise, path)
    assert "write 200 users in several ways" in " ".join(refused.stderr.split())
    done = pasted(setwise, refused)
    assert done.returncode == 0, done.stderr
    assert json.loads(setwise("check", tmp_path / "users.clean.csv", "--user", "user", "--json").stdout)["users"] == 200


@pytest.mark.parametrize("text", ["user,city,amount\n", "user,city,amount", "user,city,amount\n\n\n"])
def test_a_file_without_rows_is_said_to_have_none_before_the_charge(text: str, setwise: Command, tmp_path: Path):
    path = tmp_path / "today.csv"
    path.write_text(text)
    done = ask(setwise, path)
    assert done.returncode == 0
    assert "today.csv: the table has no rows with a value" in " ".join(done.stderr.split())
    assert "no rows" not in done.stdout
    assert "no rows" not in ask(setwise, path, "--no-scan").stderr
    assert "the table has no rows with a value" in " ".join(setwise("check", path).stdout.split())
    session = package.open(path, user="user")
    with session, pytest.warns(package.UnreadCellsWarning, match="the table has no rows with a value"):
        session.count(epsilon=1)


def test_an_answer_about_no_rows_does_not_say_so(setwise: Command, tmp_path: Path):
    """Only the scan counts rows: the answer has the same words with one row."""
    words = []
    for name, text in (("none", ""), ("one", "u1,Oslo,5\n")):
        path = tmp_path / f"{name}.csv"
        path.write_text("user,city,amount\n" + text)
        question = f"SELECT COUNT(*) AS n FROM '{path}'"
        done = setwise("sql", question, "--user", "user", "--epsilon", "0.01", "--no-scan", "--json")
        words.append({name: value for name, value in json.loads(done.stdout).items() if name != "rows"}.keys())
    assert words[0] == words[1]


NUMBERS = {
    "a currency code": lambda amount: f"EUR {amount}.50",
    "a currency after it": lambda amount: f"{amount}.50 kr",
    "a unit": lambda amount: f"{amount}.50 kg",
    "a unit without a blank": lambda amount: f"{amount}.50m",
    "a percent sign": lambda amount: f"{amount}.50%",
    "a minus after the digits": lambda amount: f"{amount}.50-",
    "another character for the minus": lambda amount: f"\u2212{amount}.50",
    "brackets for the minus": lambda amount: f"({amount}.50)",
    "an equals sign and quotes": lambda amount: f'"=""{amount}.50"""',
    "groups as in India": lambda amount: f'"1,00,0{amount + 10:02}.50"',
}
"""Amounts, as texts that are not read as numbers, of a whole number."""


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_in_a_form_that_is_not_read_are_refused_with_a_command_that_reads_them(
    kind: str, setwise: Command, tmp_path: Path
):
    path = tmp_path / "amounts.csv"
    path.write_text(table(lambda user: f"{CITIES[user % 4]},{NUMBERS[kind](user % 50)}"))
    refused = ask(setwise, path)
    assert refused.returncode
    done = pasted(setwise, refused)
    assert_counts(done)
    rows = json.loads(done.stdout[done.stdout.find('{"') :])["rows"]
    sign = -1 if "minus" in kind else 1
    mean = sum(sign * (user % 50 + 0.5) for user in USERS) / 400 + (100010 if "India" in kind else 0)
    if kind != "a unit":  # --check says it too, except for words that may be part of a name
        assert kind == "a unit without a blank" or "amounts.clean" in setwise("check", path).stdout.replace("\n", "")
    for row in rows:
        assert row["mean"]["value"] == pytest.approx(mean, rel=0.2, abs=3)


def test_numbers_with_several_units_are_not_made_one(setwise: Command, tmp_path: Path):
    path = tmp_path / "weights.csv"
    path.write_text(table(lambda user: f"{CITIES[user % 4]},{user % 50} {'kg' if user % 2 else 'lb'}"))
    refused = ask(setwise, path)
    assert "have 'kg' or 'lb' beside them, which are not read: convert them to one unit" in refused.stderr
    assert "the copy" not in refused.stderr


def test_cells_that_are_no_numbers_are_shown_to_the_holder(setwise: Command, tmp_path: Path):
    path = tmp_path / "amounts.csv"
    path.write_text(table(lambda user: f"{CITIES[user % 4]},{user % 50 if user % 5 else 'unknown'}"))
    refused = ask(setwise, path)
    assert "are not numbers and will be skipped, such as 'unknown': --null unknown takes them for" in refused.stderr
    assert_counts(pasted(setwise, refused))
    assert "such as 'unknown': if they are amounts" in " ".join(setwise("check", path).stdout.split())


@pytest.mark.parametrize("options", [["--save"], []])
def test_users_that_a_spreadsheet_shortened_are_refused(options: list[str], setwise: Command, tmp_path: Path):
    """Users were written as 4.9E+12: the answer was charged, or the command after a refusal was refused itself."""
    path = tmp_path / "users.csv"
    path.write_text("user,city\n" + "".join(f"4.9{user % 100:02}E+12,{CITIES[user % 4]}\n" for user in USERS))
    checked = setwise("check", path, "--json", *options).stdout
    assert "digits cannot be restored" in checked
    assert "user=float" not in checked
    refused = setwise("count", path, *PAID)
    assert refused.returncode == 2
    assert "E+12 were shortened by a spreadsheet" in refused.stderr


def test_blank_users_are_emptied_by_the_command_of_the_note(setwise: Command, tmp_path: Path):
    path = tmp_path / "users.csv"
    path.write_text(
        "user,city,amount\n" + "".join(f"{f'u{user}' if user % 4 else ' '},{plain(user)}\n" for user in USERS)
    )
    noted = " ".join(ask(setwise, path).stderr.split())
    command = noted[noted.index("python3 -c") :].partition(" note: ")[0]
    subprocess.run(command, shell=True, check=True, timeout=60)
    checked = json.loads(setwise("check", tmp_path / "users.clean.csv", "--user", "user", "--json").stdout)
    assert checked["users"] == 300


def test_a_copy_changes_the_column_that_is_asked_in_a_file_of_many_columns(setwise: Command, tmp_path: Path):
    """The place of the column was counted among the sampled columns, the first hundred and those of the question."""
    path = tmp_path / "wide.csv"
    names = ",".join(f"c{place}" for place in range(150))
    path.write_text(
        table(lambda user: plain(user) + ",7" * 150, f"user,city,amount,{names}").replace(",7\n", ",7 kr\n")
    )
    question = f"SELECT city, COUNT(*) AS n, AVG(c149) AS mean FROM '{path}' GROUP BY city"
    done = pasted(setwise, setwise("sql", question, *PAID))
    assert_counts(done)
    rows = json.loads(done.stdout[done.stdout.find('{"') :])["rows"]
    assert all(row["mean"]["value"] == pytest.approx(7, abs=1) for row in rows)


def archive(name: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as opened:
        opened.writestr(name, "x")
    return data.getvalue()


OTHER_FORMATS = {
    "a list of JSON": (json.dumps([{"user": f"u{user}", "city": "Oslo"} for user in USERS]).encode(), "is JSON"),
    "JSON lines": (b"".join(b'{"user": "u%d"}\n' % user for user in USERS), "is JSON"),
    "a web page": (b"<!DOCTYPE html><table><tr><td>u1</td></tr></table>", "is a web page"),
    "an archive": (archive("visits.csv"), "is a zip archive"),
    "a workbook": (archive("xl/workbook.xml"), "is a spreadsheet"),
}


@pytest.mark.parametrize("kind", OTHER_FORMATS)
def test_a_file_that_is_no_csv_is_refused_with_what_it_is(kind: str, setwise: Command, tmp_path: Path):
    data, message = OTHER_FORMATS[kind]
    path = tmp_path / "visits.csv"
    path.write_bytes(data)
    for refused in (ask(setwise, path), setwise("check", path, "--user", "user")):
        assert refused.returncode
        assert message in refused.stderr
    if "JSON" in kind:
        command = refused.stderr[refused.stderr.index("python -c") :].replace("python", sys.executable, 1)
        subprocess.run(command, shell=True, check=True, timeout=60)
        assert setwise("count", tmp_path / "visits.parquet", "--user", "user", "--epsilon", "1").returncode == 0


@pytest.mark.parametrize("name", ["events.jsonl", "events.json"])
def test_nested_objects_of_json_become_columns_that_can_be_asked(name: str, setwise: Command, tmp_path: Path):
    """The converted file had columns of structs, of which no question reads anything."""
    path = tmp_path / name
    objects = [{"user": {"id": f"u{user}", "home": {"city": CITIES[user % 4]}}, "n": user % 5} for user in USERS]
    path.write_text("\n".join(map(json.dumps, objects)) if name.endswith("l") else json.dumps(objects))
    told = setwise("check", path).stderr
    command = told.partition("as Parquet and CSV are: ")[2].strip().replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True, timeout=60)
    columns = "SELECT user_home_city AS city, COUNT(*) AS n"
    asked = f"{columns} FROM '{tmp_path / 'events.parquet'}' GROUP BY user_home_city"
    assert_counts(setwise("sql", asked, "--user", "user_id", *PAID[2:]))


def test_a_row_that_begins_like_json_decides_nothing(setwise: Command, tmp_path: Path):
    """Only a header may decide how a file is read: the first row of a file without a header is a user's."""
    path = tmp_path / "events.csv"
    path.write_text('{"a",1\n' + "".join(f"u{user},2\n" for user in range(20)))
    words = ("--no-header", "--columns", "user,n", "--user", "user", "--epsilon", "1")
    assert setwise("count", path, *words).returncode == 0


def test_a_remark_below_the_rows_is_noted(setwise: Command, tmp_path: Path):
    path = tmp_path / "export.csv"
    path.write_text(table(plain) + "\n400 rows exported,,\n")
    assert "its last line has one cell alone, '400 rows exported'" in ask(setwise, path).stderr


def test_amounts_in_several_currencies_are_not_made_one(setwise: Command, tmp_path: Path):
    """The command took out both signs, so that dollars were added to euros."""
    path = tmp_path / "amounts.csv"
    path.write_text(table(lambda user: f"{CITIES[user % 4]},{'$' if user % 2 else '€'}{user % 50}"))
    refused = ask(setwise, path)
    assert "convert them to one currency in the file" in refused.stderr
    assert "the copy" not in refused.stderr


def test_an_error_of_a_spreadsheet_is_an_empty_cell_and_no_number(setwise: Command, tmp_path: Path):
    path = tmp_path / "amounts.csv"
    path.write_text(table(lambda user: f"{CITIES[user % 4]},{'#DIV/0!' if user % 20 == 0 else user % 50}"))
    assert "--null '#DIV/0!'" in ask(setwise, path).stderr
    assert "--null '#DIV/0!'" in setwise("check", path).stdout


@pytest.mark.parametrize("mark", ["\u200b", "\ufeff", "\0"])
def test_names_of_columns_have_no_characters_that_are_not_seen(mark: str, setwise: Command, tmp_path: Path):
    """The refusal said that the table has no column city, and that the table has the column city."""
    path = tmp_path / "names.csv"
    path.write_text(table(plain, f"\ufeffuser,city{mark},amount"))
    assert_counts(ask(setwise, path))


def test_a_file_that_needs_options_and_a_copy_is_read_at_the_second_attempt(setwise: Command, tmp_path: Path):
    """The first refusal named the separator alone, and the second the signs."""
    path = tmp_path / "euros.csv"
    rows = [f"u{user};{CITIES[user % 4]};1.{user % 50 + 100},50 €\n" for user in USERS]
    path.write_text("user;city;amount\n" + "".join(rows))
    done = pasted(setwise, ask(setwise, path))
    assert_counts(done)
    rows = json.loads(done.stdout[done.stdout.find('{"') :])["rows"]
    assert all(row["mean"]["value"] == pytest.approx(1125, abs=60) for row in rows)


TWICE = {"upper case": "City", "the same": "city", "upper case, and the name with a number taken": "CITY,city_4"}
"""Further columns of a header whose second name is city, which SQL takes for the same column."""


@pytest.mark.parametrize("kind", TWICE)
def test_names_that_are_one_name_in_sql_are_refused_with_the_options_that_name_the_columns(
    kind: str, setwise: Command, tmp_path: Path
):
    """A second column City ended every command with a traceback of the reader."""
    path = tmp_path / "twice.csv"
    further = TWICE[kind]
    path.write_text(table(lambda user: plain(user) + ",x" * (1 + further.count(",")), f"user,city,amount,{further}"))
    refused = ask(setwise, path)
    assert "twice" in refused.stderr or "are one name in SQL" in refused.stderr
    assert_counts(pasted(setwise, refused))
    checked = setwise("check", path)
    assert checked.returncode == 0, checked.stderr
    assert "Traceback" not in checked.stderr
    assert setwise("count", path, "--user", "user", "--epsilon", "1").returncode == 2


def test_a_joined_file_that_cannot_be_read_is_named_in_the_command_of_the_refusal(setwise: Command, tmp_path: Path):
    """The command read the first file in another way, and was refused again."""
    path, other = tmp_path / "visits.csv", tmp_path / "plans.csv"
    path.write_text(table(plain))
    other.write_text("user,plan,Plan\n" + "".join(f"u{user},{'ab'[user % 2]},x\n" for user in USERS))
    question = "SELECT plan, COUNT(*) AS n FROM t JOIN p USING (user) GROUP BY plan"
    words = ("sql", question, "--table", f"t={path}", "--table", f"p={other}", *PAID)
    refused = " ".join(setwise(*words).stderr.split())
    command = refused.partition("kept beside it by: setwise ")[2]
    assert setwise(*shlex.split(command)).returncode == 0, refused
    assert setwise(*words).returncode == 0


@pytest.mark.parametrize("city", ["city", "LOWER(TRIM(city))"])
def test_values_in_several_cases_are_noted_with_a_copy_that_makes_them_one(city: str, setwise: Command, tmp_path: Path):
    """The note spoke of blanks alone, wrote M\\xfcnchen, and LOWER of SQL leaves the letters that are no A to Z."""
    path = tmp_path / "cities.csv"
    ways = ("M\u00fcnchen", "M\u00dcNCHEN", "M\u00fcnchen ", "m\u00fcnchen")
    path.write_text(table(lambda user: f"{ways[user % 4]},{user % 50}"))
    question = f"SELECT {city} AS city, COUNT(*) AS n FROM t GROUP BY 1"
    noted = " ".join(setwise("sql", question, "--table", f"t={path}", *PAID).stderr.split())
    assert "1 value of 'city' is written in upper and lower case, such as 'M\u00dcNCHEN' and 'm\u00fcnchen'" in noted
    command = noted[noted.index("python3 -c") :].partition(" note: ")[0]
    subprocess.run(command, shell=True, check=True, timeout=60)
    copied = setwise("sql", question, "--table", f"t={tmp_path / 'cities.clean.csv'}", *PAID)
    assert counts(copied) == pytest.approx({"m\u00fcnchen": 400}, abs=20)
    assert "lower case" not in copied.stderr


def test_cases_that_sql_merges_and_blanks_alone_are_no_cases(setwise: Command, tmp_path: Path):
    path = tmp_path / "cities.csv"
    path.write_text(table(lambda user: f"{('Oslo', 'OSLO')[user % 2]},{user % 50}"))
    lowered = f"SELECT LOWER(city) AS city, COUNT(*) AS n FROM '{path}' GROUP BY 1"
    assert "lower case" not in setwise("sql", lowered, *PAID).stderr
    assert "lower case" in ask(setwise, path).stderr
    path.write_text(table(lambda user: f"{('Oslo', 'Oslo ')[user % 2]},{user % 50}"))
    assert "lower case" not in ask(setwise, path).stderr


def test_rare_words_among_many_numbers_are_all_named_for_the_note_to_end(setwise: Command, tmp_path: Path):
    """The sample of 2,000 numbers missed most words, and the note did not end as it said."""
    path = tmp_path / "amounts.csv"
    words = ("N/A", "NULL", "#N/A", "-")
    path.write_text(
        "user,city,amount\n"
        + "".join(
            f"u{user},{CITIES[user % 4]},{words[user % 4] if user % 20 < 4 else user / 7}\n" for user in range(4000)
        )
    )
    question = f"SELECT AVG(amount) AS mean FROM '{path}'"
    noted = " ".join(setwise("sql", question, *PAID).stderr.split())
    options = noted.partition("will be skipped: ")[2].partition(" takes them for empty, which changes no number")[0]
    assert "it also empties such cells of other columns" in noted
    assert options.count("--null") == 4, noted
    assert "will be skipped" not in setwise("sql", question, *PAID, *shlex.split(options)).stderr


@pytest.mark.parametrize("written", ["u{}", "K{}", "ID{}", "No. {}"])
@pytest.mark.parametrize("plain", [True, False])
def test_letters_before_digits_are_no_unit(written: str, plain: bool, setwise: Command, tmp_path: Path):
    """Accounts K1, K2 were offered as thousands, and managers u1, u2 beside numbers as amounts."""
    path = tmp_path / "accounts.csv"
    path.write_text(table(lambda user: f"A,{user if plain and user % 3 else written.format(user)}"))
    assert "beside them" not in setwise("check", path).stdout
    refused = ask(setwise, path)
    assert refused.returncode
    assert "beside them" not in refused.stderr
    assert "python3 -c" not in refused.stderr


@pytest.mark.parametrize(
    ("written", "held", "mean"),
    [
        (lambda amount: f"{amount}/50", "cells of 'amount' are fractions such as '", 24.5),
        (lambda amount: f"{amount} / 50", "cells of 'amount' are fractions such as '", 24.5),
        (lambda amount: f"{amount}.5° {'N' if amount < 25 else 'S'}", "N, S, E or W after the degrees", -12.5),
    ],
)  # fmt: skip
def test_fractions_and_degrees_are_copied_as_plain_numbers(
    written: Callable[[int], str], held: str, mean: float, setwise: Command, tmp_path: Path
):
    """Ratings 4/5 were refused with advice to run a check, which said that no option was needed."""
    path = tmp_path / "amounts.csv"
    path.write_text(table(lambda user: f"{CITIES[user % 4]},{written(user % 50)}"), encoding="utf-8")
    assert held in setwise("check", path).stdout
    refused = setwise("mean", path, "--value", "amount", "--low", "-50", "--high", "50", *PAID[:4], "--json")
    assert refused.returncode
    assert held in refused.stderr
    done = pasted(setwise, refused)
    assert done.returncode == 0, done.stderr
    cells = [line.split(",")[2] for line in (tmp_path / "amounts.clean.csv").read_text().splitlines()[1:]]
    assert sum(map(float, cells)) / 400 == pytest.approx(mean)


@pytest.mark.parametrize("written", ["{}/{}", "0{}/24", "7/{}"])
def test_cells_with_a_slash_that_may_be_no_fractions_have_no_command(written: str, setwise: Command, tmp_path: Path):
    path = tmp_path / "amounts.csv"
    path.write_text(table(lambda user: f"A,{written.format(1 + user % 5, 2 + user % 7)}"))
    assert "fractions" not in setwise("check", path).stdout
    refused = setwise("mean", path, "--value", "amount", "--low", "0", "--high", "50", *PAID[:4])
    assert refused.returncode
    assert "python3 -c" not in refused.stderr

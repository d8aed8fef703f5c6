"""What somebody types in their first hour works, or the refusal names what to type instead."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from setwise.cli.advice.option_names import with_option_names
from setwise.cli.main import app

COUNTRIES = ("NO", "SE", "DE")
ROWS = [
    (user, COUNTRIES[user % 3], user * 7 % 2000, f"{1 + user % 28:02}.{1 + user % 12:02}.2026") for user in range(600)
]


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def refusal(*words: object) -> str:
    """Return the error message of a refused command."""
    done = run(*words)
    assert done.exception is not None, done.output
    return with_option_names(str(done.exception), is_sql=words[0] == "sql")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder below the working directory, so that a remedy that loses it fails."""
    place = tmp_path / "raw files"
    place.mkdir()
    return place


@pytest.fixture
def sales(folder: Path) -> Path:
    path = folder / "sales.csv"
    lines = [
        f"{user},{country},{amount},{day},{1767225600 + user},{day[6:]}-{day[3:5]}-{day[:2]}"
        for user, country, amount, day in ROWS
    ]
    path.write_text("\n".join(["user,country,amount,day,epoch,iso", *lines]) + "\n")
    return path


def sql(text: str, path: Path, *more: object) -> tuple[object, ...]:
    return ("sql", text, "--table", f"sales={path}", "--user", "user", "--epsilon", "1", *more)


def test_a_text_column_compared_with_a_number_names_the_option(sales):
    """A column whose type was not declared is read as the question needs it, and one declared as text stays text."""
    asked = sql("SELECT COUNT(*) AS n FROM sales WHERE amount > 1000", sales)
    assert "the question reads amount as float" in run(*asked).stderr
    assert "--type amount=integer" in refusal(*asked, "--type", "amount=text")


@pytest.mark.parametrize("where", ["amount > '1000'", "'1000' < amount"])
def test_numbers_that_are_compared_as_text_are_refused(sales, where):
    """As text 900 is above 1000: the answer was wrong, and it was charged."""
    message = refusal(*sql(f"SELECT COUNT(*) AS n FROM sales WHERE {where}", sales))
    assert "'amount' is compared as text: --type amount=integer reads its cells as whole numbers" in message
    assert "compare them with 1000 in place of '1000' then" in message


def test_dates_that_are_compared_as_text_are_noted_for_the_holder(sales):
    done = run(*sql("SELECT COUNT(*) AS n FROM sales WHERE iso >= '2026-06-01'", sales))
    assert done.exit_code == 0
    assert "'iso' is compared as text: --type iso=date reads its cells as dates" in done.stderr
    assert "compared as text" not in done.stdout
    assert "compared as text" not in run(*sql("SELECT COUNT(*) AS n FROM sales WHERE day = 'x'", sales)).stderr


@pytest.mark.parametrize(
    "where", ["day >= '2026-06-01'", "'2026-06-01' <= day", "day BETWEEN '2026-06-01' AND '2026-07-01'"]
)
def test_dates_that_do_not_begin_with_the_year_are_not_compared_as_text(sales, where):
    """As text 31.01.2026 is above 01.12.2026, so the answer was about other days, and it was charged."""
    asked = sql(f"SELECT COUNT(*) AS n FROM sales WHERE {where}", sales)
    message = refusal(*asked)
    assert "'day' is compared as text: --type day=date --date-format %d.%m.%Y reads its cells as dates" in message
    assert "nothing was charged (--no-scan asks anyway)" in message
    assert run(*asked, "--no-scan").exit_code == 0
    assert run(*asked, "--type", "day=date", "--date-format", "%d.%m.%Y").stderr == ""


def test_dates_that_do_not_tell_their_order_are_named_in_both_orders(folder):
    path = folder / "days.csv"
    days = [f"{1 + user % 12:02}/{1 + user % 11:02}/2026" for user in range(300)]
    path.write_text("user,day\n" + "".join(f"{user},{day}\n" for user, day in enumerate(days)))
    message = refusal("count", path, "--user", "user", "--where", "day >= '2026-06-01'", "--epsilon", "1")
    assert "--date-format %d/%m/%Y reads its cells as dates (or %m/%d/%Y: the cells do not tell)" in message


def test_a_question_is_refused_if_a_tenth_of_its_cells_are_unreadable(folder):
    """A sum of which 20% of the cells were unreadable was charged."""
    path = folder / "amounts.csv"
    asked = ("sum", path, "--user", "user", "--value", "amount", "--clip", "9000", "--epsilon", "5")
    asked += ("--type", "amount=integer", "--separator", ";")

    def write(unreadable: int) -> None:
        cells = ["4,207"] * unreadable + ["42"] * (100 - unreadable)
        path.write_text("user;amount\n" + "".join(f"{user};{cell}\n" for user, cell in enumerate(cells)))

    write(9)
    assert "9 of 100 cells of 'amount'" in run(*asked).stderr
    write(10)
    message = refusal(*asked)
    assert "10 of 100 cells of 'amount' are not whole numbers and will be skipped: --thousands , reads them" in message
    assert "nothing was charged (--no-scan asks anyway)" in message
    assert run(*asked, "--preview").exit_code == 0
    assert run(*asked, "--thousands", ",").stderr == ""


def test_a_question_about_a_column_of_which_no_cell_is_readable_is_refused_before_the_charge(sales, tmp_path):
    ledger = ("--ledger", tmp_path / "ledger.db")
    assert run("ledger", "open", "a", "--filter", "--epsilon", "3", "--delta", "1e-6", *ledger).exit_code == 0
    asked = sql(
        "SELECT COUNT(*) AS n FROM sales WHERE day > '2026-06-01'", sales, "--type", "day=date", "--account", "a"
    )
    message = refusal(*asked, *ledger)
    assert "600 of 600 cells of 'day' are not dates" in message
    assert "--date-format %d.%m.%Y reads them; nothing was charged" in message
    assert json.loads(run("ledger", "show", "a", "--json", *ledger).stdout)["charges"] == 0
    assert run(*asked, "--no-scan", *ledger).exit_code == 0
    assert json.loads(run("ledger", "show", "a", "--json", *ledger).stdout)["charges"] == 1


def test_a_preview_of_groups_names_an_expected_error(sales):
    plan = json.loads(
        run(*sql("EXPLAIN SELECT country, COUNT(*) AS n FROM sales GROUP BY country", sales, "--json")).stdout
    )
    assert re.search(r"for example, if a user counts towards at most 4 groups .*within ±[\d,]+", plan["why"])


def test_the_delta_that_is_left_out_fits_the_account(sales, tmp_path):
    """An account of (3, 1e-6) sets a fifth of its delta aside for failures, so a question of 1e-6 never fitted."""
    ledger = ("--ledger", tmp_path / "ledger.db")
    run("ledger", "open", "a", "--filter", "--epsilon", "3", "--delta", "1e-6", *ledger)
    asked = sql("SELECT country, COUNT(*) AS n FROM sales GROUP BY country", sales, "--account", "a", *ledger)
    done = run(*asked)
    assert done.exit_code == 0, done.exception
    assert "at delta 2e-08; epsilon 2 of 3 left in a" in done.stdout
    first, again = (run(*asked, "--key", "monday", "--json").stdout for _ in range(2))
    assert first == again, "the same question under the same key, whatever was spent in between"
    alone = run(*sql("SELECT country, COUNT(*) AS n FROM sales GROUP BY country", sales))
    assert "at delta 1e-06" in alone.stdout


def pasted(message: str) -> str:
    """Return the command that a message tells to type."""
    found = re.search(r'python -c ".*"', message)
    assert found is not None, message
    return found[0].replace("python", sys.executable, 1)


def test_a_json_file_is_converted_by_the_command_in_the_refusal(folder, tmp_path, monkeypatch):
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps({"user": user, "country": country}) + "\n" for user, country, *_ in ROWS))
    monkeypatch.chdir(tmp_path)
    message = refusal("count", path.relative_to(tmp_path), "--user", "user", "--epsilon", "1")
    subprocess.run(pasted(message), shell=True, check=True)
    assert run("count", folder / "events.parquet", "--user", "user", "--epsilon", "1").exit_code == 0


def test_a_spreadsheet_names_its_folder_and_the_package_that_reads_it(folder):
    path = folder / "events.xlsx"
    path.write_bytes(b"PK\x03\x04")
    message = refusal("count", path, "--user", "user", "--epsilon", "1")
    assert f"read_excel('{path}', sheet_name=0, header=0)" in message
    assert f"to_parquet('{path.with_suffix('.parquet')}')" in message
    assert "pip install pandas openpyxl" in message


def test_a_user_column_of_floats_comes_with_a_remedy(folder, tmp_path):
    path = folder / "FILE.parquet"
    pq.write_table(pa.table({"user": [float(user) for user, *_ in ROWS]}), path)
    message = refusal("count", path, "--user", "user", "--epsilon", "1")
    subprocess.run(pasted(message), shell=True, check=True, cwd=folder)
    assert run("count", folder / "FILE-converted.parquet", "--user", "user", "--epsilon", "1").exit_code == 0


def test_a_file_that_begins_with_comments_names_skip_lines(folder):
    path = folder / "comments.csv"
    path.write_text("# made by a tool\n# at noon\nuser,country\n" + "".join(f"{row[0]},{row[1]}\n" for row in ROWS))
    message = refusal("count", path, "--user", "user", "--epsilon", "1")
    assert "--skip-lines N" in message
    assert f"setwise check '{path}'" in message
    assert "--skip-lines 2" in run("check", path).stdout
    assert run("count", path, "--user", "user", "--epsilon", "1", "--skip-lines", "2").exit_code == 0


def test_a_file_without_a_header_takes_one_refusal(folder):
    path = folder / "rows.csv"
    path.write_text("".join(f"{row[0]},{row[1]}\n" for row in ROWS))
    message = refusal("count", path, "--user", "user", "--epsilon", "1")
    assert "--columns NAME_1,NAME_2" in message
    assert run("count", path, "--user", "user", "--epsilon", "1", "--columns", "user,country").exit_code == 0
    assert "leave out --header" in refusal(
        "count", path, "--user", "user", "--columns", "user,country", "--header", "--epsilon", "1"
    )


@pytest.mark.parametrize(
    ("amount", "note"),
    [
        ("NA", "--null NA also empties the cells 'NA' of 'country': leave it out if they are values there"),
        ("5", "some cells of 'country' are 'NA': add --null NA if they are empty"),
    ],
)
def test_a_check_proposes_the_words_for_empty_cells(folder, amount, note):
    path = folder / "missing.csv"
    rows = [
        f"{user},{'NA' if user % 4 == 0 else country},{amount if user % 3 == 0 else user}" for user, country, *_ in ROWS
    ]
    path.write_text("\n".join(["user,country,amount", *rows]) + "\n")
    checked = json.loads(run("check", path, "--json").stdout)
    assert note in checked["notes"]
    assert ("--null" in checked["options"]) is (amount == "NA")
    assert "amount=integer" in checked["options"]


def test_an_account_without_a_delta_is_told_the_whole_command(tmp_path):
    ledger = ("--ledger", tmp_path / "ledger.db")
    message = refusal("ledger", "open", "ada", "--epsilon", "3", *ledger)
    assert message == f"write: setwise ledger open ada --epsilon 3 --ledger {ledger[1]} --filter --delta 1e-06"
    assert run(*message.split()[2:]).exit_code == 0
    message = refusal("ledger", "open", "bob", "--register", "pure:0.1x5", *ledger)
    assert message == f"write: setwise ledger open bob --register pure:0.1x5 --ledger {ledger[1]} --delta 1e-06"


def test_groups_need_no_option_beyond_epsilon(sales):
    asked = (sales, "--user", "user", "--item", "country", "--epsilon", "1", "--json")
    assert json.loads(run("top-k", *asked, "-k", "2").stdout)["delta"] == 1e-6
    answer = json.loads(run("histogram", *asked).stdout)
    assert answer["delta"] == 1e-6
    assert answer["found"]["contributions"] >= 1


def test_seconds_since_1970_are_grouped_into_calendar_days_and_weeks(sales):
    """It took five attempts to get weeks, because only FLOOR(epoch / 604800) was taken."""
    text = "SELECT DATE_TRUNC('week', TO_TIMESTAMP(epoch)) AS w, COUNT(*) AS n FROM sales GROUP BY 1"
    done = run(*sql(text, sales, "--json"))
    assert [row["w"] for row in json.loads(done.stdout)["rows"]] == ["2025-12-29"]
    whole = refusal(*sql("SELECT TO_TIMESTAMP(epoch) AS t, COUNT(*) AS n FROM sales GROUP BY 1", sales))
    assert "as in DATE_TRUNC('week', TO_TIMESTAMP(epoch))" in whole
    text = "SELECT FLOOR(epoch / 86400) AS d, COUNT(*) AS n FROM sales WHERE epoch >= 1767225600 GROUP BY 1"
    done = run(*sql(text, sales, "--type", "epoch=integer", "--json"))
    assert [row["d"] for row in json.loads(done.stdout)["rows"]] in ([1767225600 // 86400], ["20454"], [20454])


def test_a_column_of_another_file_is_joined_as_the_refusal_says(sales, folder):
    people = folder / "people.csv"
    people.write_text("user,age\n" + "".join(f"{user},{20 + user % 3}\n" for user, *_ in ROWS))
    assert "by JOIN, with --table NAME=FILE" in refusal(*sql("SELECT age, COUNT(*) FROM sales GROUP BY age", sales))
    assert "--table NAME=FILE" in refusal(
        "top-k", sales, "--user", "user", "--item", "age", "-k", "2", "--epsilon", "1", "--delta", "1e-6"
    )
    joined = "SELECT age, COUNT(*) AS n FROM sales JOIN people USING (user) GROUP BY age"
    assert "--table people=FILE" in refusal(*sql(joined, sales))
    assert run(*sql(joined, sales, "--table", f"people={people}")).exit_code == 0


def test_points_that_may_stand_between_thousands_are_named(folder):
    """Amounts such as 4.207 in a file with semicolons were recommended as floats: 1.62 million for 7.28 million."""
    path = folder / "amounts.csv"
    path.write_text("user;amount\n" + "".join(f"{user};{user % 9 + 1}.{user:03}\n" for user in range(300)) + "300;12\n")
    note = (
        "'amount' is plain digits or has three digits after each point, so 1.234 may be 1234: add --thousands . --dec"
    )
    assert any(note in each for each in json.loads(run("check", path, "--json").stdout)["notes"])
    asked = ("sum", path, "--user", "user", "--value", "amount", "--clip", "9999", "--epsilon", "5", "--separator", ";")
    assert note in run(*asked, "--type", "amount=float").stderr
    assert run(*asked, "--type", "amount=integer", "--thousands", ".", "--decimal", ",").stderr == ""
    assert "add --decimal ," in refusal(*asked, "--type", "amount=integer", "--thousands", ".")


def test_words_for_empty_cells_that_are_given_are_not_advised_again(folder):
    path = folder / "amounts.csv"
    cells = ["7"] * 200 + ["NULL"] * 10 + ["-"] * 10 + ["none"] * 10
    path.write_text("user,amount\n" + "".join(f"{user},{cell}\n" for user, cell in enumerate(cells)))
    asked = ("sum", path, "--user", "user", "--value", "amount", "--clip", "9", "--epsilon", "5")
    told = run(*asked, "--type", "amount=integer", "--null", "NULL", "--null", "-").stderr
    assert (
        "10 of 210 cells of 'amount' are not whole numbers and will be skipped: --null none takes them for empty"
        in told
    )


def test_an_accuracy_without_a_bound_on_groups_names_the_option(sales):
    text = "SELECT country, COUNT(*) AS n FROM sales GROUP BY country"
    asked = ("sql", text, "--table", f"sales={sales}", "--user", "user", "--within", "50")
    assert ", with --contributions 1; write: SELECT country, COUNT(*, " in refusal(*asked)


@pytest.mark.parametrize("comment", ["-- how many", "--how many"])
def test_a_statement_may_begin_with_a_comment(sales, comment):
    done = run(*sql(f"{comment}\nSELECT COUNT(DISTINCT user) AS n FROM sales", sales))
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("name", "cell", "words"),
    [
        ("price", lambda amount: f"${amount}.50", "have '$' beside them"),
        ("share", lambda amount: f"{amount / 10}%", "have '%' beside them"),
        ("price", lambda amount: f"€ {amount}", "have '€' beside them"),
        ("amount", lambda amount: f"({amount})" if amount % 2 else str(amount), "have parentheses for a minus"),
    ],
)
def test_numbers_with_a_sign_beside_them_come_with_a_command_that_takes_it_out(folder, name, cell, words):
    """`check` called such a column text, and the question sent its reader back to `check`."""
    path = folder / "signs.csv"
    path.write_text("".join([f"user,{name}\n", *(f"{row[0]},{cell(row[2])}\n" for row in ROWS)]))
    asked = ("sum", path, "--user", "user", "--value", name, "--low", "-5000", "--high", "5000", "--epsilon", "9")
    message = refusal(*asked, "--type", f"{name}=float")
    assert f"numbers of {name!r} {words}" in message
    assert f"numbers of {name!r} {words}" in run("check", path).output
    command = re.search(r"(sed .*? > \S.*?\.csv'?)(?= && |;|$)", message)
    assert command is not None, message
    subprocess.run(command[1], shell=True, check=True)  # as the message writes it
    clean = folder / "signs.clean.csv"
    asked = ("sum", clean, *asked[2:], "--type", f"{name}=float", "--json")
    assert run(*asked).exit_code == 0


def test_a_last_line_with_a_total_is_refused(sales):
    """The total counts as one more user: a sum over users was 3% too high without a word."""
    with sales.open("a") as file:
        file.write(f"Total,,{sum(row[2] for row in ROWS)},,,\n")
    asked = ("sum", sales, "--user", "user", "--value", "amount", "--type", "amount=integer", "--low", "0", "--high")
    message = refusal(*asked, "9999", "--epsilon", "1")
    note = "1 row has 'Total' as 'user', and this text counts as one person"
    assert note in message
    assert "its last line has the cell 'Total'" in run("check", sales, "--user", "user").output
    assert "its last line has the cell 'Total'" in run("check", sales).output
    sales.write_text(sales.read_text().replace("Total", "600"))
    done = run(*asked, "9999", "--epsilon", "1")
    assert done.exit_code == 0
    assert "'Total'" not in done.stderr + run("check", sales).output


def test_a_dash_is_named_with_the_other_words_for_empty_cells(folder):
    path = folder / "nulls.csv"
    words = ("NULL", "-", "NO")
    path.write_text("".join(["user,country\n", *(f"{row[0]},{words[row[0] % 3]}\n" for row in ROWS)]))
    done = run("top-k", path, "--user", "user", "--item", "country", "-k", "1", "--epsilon", "1", "--delta", "1e-6")
    assert "400 cells of 'country' are '-' or 'NULL'" in done.stderr
    assert "--null - --null NULL" in done.stderr
    asked = ("top-k", path, "--user", "user", "--item", "country", "-k", "1", "--epsilon", "1", "--delta", "1e-6")
    assert "--null" not in run(*asked, "--null", "-", "--null", "NULL").stderr


def test_a_line_with_the_separator_is_skipped_as_the_refusal_says(folder):
    """Excel writes `sep=;` above the header; the refusals led to columns called `sep` and `column_2`."""
    path = folder / "excel.csv"
    lines = ["sep=;", "user;country", *(f"{row[0]};{row[1]}" for row in ROWS)]
    path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8-sig")
    asked = ("top-k", path, "--user", "user", "--item", "country", "-k", "1", "--epsilon", "1", "--delta", "1e-6")
    message = refusal(*asked)
    assert "--separator ';' --skip-lines 1" in message
    assert "--skip-lines 1" in refusal(*asked, "--separator", ";")
    assert run(*asked, "--separator", ";", "--skip-lines", "1").exit_code == 0


def test_blanks_around_cells_are_noted(folder):
    """WHERE country = 'NO' finds nothing in a column of ' NO'."""
    path = folder / "blanks.csv"
    path.write_text("".join(["user, country\n", *(f"{row[0]}, {row[1]}\n" for row in ROWS)]))
    asked = ("top-k", path, "--user", "user", "--item", "country", "-k", "1", "--epsilon", "1", "--delta", "1e-6")
    assert "cells of 'country' begin or end with blanks, which belong to the values" in run(*asked).stderr


def test_blanks_around_users_are_refused_because_they_split_a_person(folder):
    """3,320 users were counted where 1,478 people were, and the note advised TRIM, which --user does not take."""
    path = folder / "padded.csv"
    path.write_text("user,country\n" + "".join(f"{n // 2}{' ' * (n % 2)},NO\n" for n in range(400)))
    asked = ("sql", "SELECT COUNT(DISTINCT user) AS n FROM t", "--table", f"t={path}", "--user", "user")
    message = refusal(*asked, "--epsilon", "50", "--json")
    assert "write 200 users in several ways, such as '0' and '0 '" in message
    assert "--type user=integer" in message
    typed = run(*asked, "--epsilon", "50", "--json", "--type", "user=integer")
    assert json.loads(typed.stdout)["rows"][0]["n"]["value"] == 200
    assert "several ways" not in typed.stderr


def test_a_statement_to_paste_names_a_file_as_it_was_written(sales, monkeypatch):
    """`FROM "sales"."csv"` was proposed for FROM 'sales.csv', and names no file."""
    monkeypatch.chdir(sales.parent)
    message = refusal("sql", "SELECT MAX(amount) FROM 'sales.csv'", "--user", "user", "--epsilon", "1")
    statement = message.partition("write: ")[2]
    assert "FROM 'sales.csv'" in statement
    typed = ("--type", "amount=integer")
    assert run("sql", statement, "--user", "user", "--epsilon", "1", *typed).exit_code == 0


def test_a_question_without_a_user_column_names_the_option(sales):
    asked = ("sql", "SELECT COUNT(*) FROM sales", "--table", f"sales={sales}")
    assert "add --user user, or" in refusal(*asked, "--epsilon", "1")
    assert "add --user user --epsilon 1, or" in refusal(*asked)


def test_a_name_that_is_a_column_and_an_alias_is_told_apart(sales):
    """GROUP BY country means the column, so that the year was refused as not grouped, without a cause."""
    text = "SELECT SUBSTR(iso, 1, 4) AS country, COUNT(*) AS n FROM sales GROUP BY country"
    assert "GROUP BY country means the table's own column 'country'" in refusal(*sql(text, sales))


def test_the_entries_of_a_report_are_named_as_it_writes_them(tmp_path):
    report = tmp_path / "report.toml"
    report.write_text("colour = 'red'\n")
    done = subprocess.run(
        [sys.executable, "-m", "setwise", "run", str(report)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "'skip_lines'" in done.stderr
    assert "--" not in done.stderr


@pytest.fixture
def spent(sales, tmp_path):
    """Options of an account of which a count with Gaussian noise took two thirds."""
    ledger = ("--ledger", tmp_path / "ledger.db")
    opened = run("ledger", "open", "mine", "--filter", "--epsilon", 3, "--delta", "1e-6", *ledger)
    assert opened.exception is None, opened.output
    account = ("--account", "mine", *ledger)
    large = ("count", sales, "--user", "user", "--epsilon", 2, "--counts", "gaussian", "--delta", "1e-7", *account)
    assert run(*large).exception is None
    return account


def test_a_refusal_names_the_gaussian_noise_that_can_be_pasted(sales, spent):
    """It said 'costs 1.189 times what is left', although the account had enough left for Gaussian noise."""
    mean = (
        "mean",
        sales,
        "--user",
        "user",
        "--value",
        "amount",
        "--low",
        0,
        "--high",
        2000,
        "--type",
        "amount=integer",
    )
    words = (*mean, "--epsilon", 0.8, *spent)
    refused = refusal(*words, "--counts", "laplace")
    assert "times what is left" not in refused
    found = re.search(r"it would fit with an epsilon of ([\d.]+), or with Gaussian noise: add (--counts .*)$", refused)
    assert found is not None, refused
    smaller = run(*mean, "--counts", "laplace", "--epsilon", found[1], *spent, "--preview", "--json")
    assert json.loads(smaller.stdout)["shortage"] is None
    told = json.loads(run(*words, "--counts", "laplace", "--preview", "--json").stdout)["shortage"]
    assert told == refused
    pasted = run(*words, *found[2].split())
    assert pasted.exception is None, pasted.output


def test_times_with_am_and_pm_come_with_a_command_that_writes_24_hours(folder):
    """No option reads them and nothing said so: the question was refused again and again."""
    path = folder / "visits.csv"
    hours = [("12:05 AM", 0), ("1:30 AM", 1), ("12:00 PM", 12), ("11:59:59\u202fpm", 23)]
    path.write_text("user,at\n" + "".join(f'{n},"5/17/2024, {hours[n % 4][0]}"\n' for n in range(400)), "utf-8")
    asked = ("sql", "SELECT HOUR(at) AS hour, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY 1", "--user", "user")
    spent = ("--epsilon", "50", "--json", "--contributions", "1")
    message = refusal(*asked, "--table", f"t={path}", *spent, "--date-format", "%m/%d/%Y")
    assert "have AM or PM, which is not read" in message
    assert "have AM or PM, which is not read" in " ".join(run("check", path).output.split())
    command = re.search(r"(python3 -c .*? > \S.*?\.csv'?)(?= && |;|$)", message)
    assert command is not None, message
    subprocess.run(command[1], shell=True, check=True)
    clean = folder / "visits.clean.csv"
    done = run(*asked, "--table", f"t={clean}", *spent, "--date-format", "%m/%d/%Y")
    assert [row["hour"] for row in json.loads(done.stdout)["rows"]] == [hour for _, hour in hours]

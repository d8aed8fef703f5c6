"""Lines of a text file that are no rows, or not divided into cells, are mended by the command of the refusal.

Each test runs what a refusal or `setwise check` proposes to paste, and compares with the true counts.
"""

import gzip
import json
import subprocess
from pathlib import Path

import pytest
from tests.command_line import setwise as setwise_fixture  # noqa: F401
from tests.messy_tables import CITIES, PAID, USERS, Command, ask, assert_counts, counts, pasted, plain, table


def line(user: int) -> str:
    return f"u{user},{plain(user)}"


QUOTED_LINES = [f'"u{user},""{CITIES[user % 4]}"",{user % 50}"' for user in USERS]
SPACED_LINES = [f'u{user}, "{CITIES[user % 4]}", {user % 50}' for user in USERS]
LINES = {
    "in quotes, with the header": ('"user,city,amount"', *QUOTED_LINES),
    "in quotes, below the header": ("user,city,amount", *QUOTED_LINES),
    "with a blank after each comma": ("user, city, amount", *SPACED_LINES),
    "above a header again": ("user,city,amount", *map(line, USERS), "User,City,Amount"),
    "above a header with a mark": ("\ufeffuser,city,amount", *map(line, USERS), "\ufeffuser,city,amount"),
    "ended by carriage returns": ("user,city,amount", *map(line, USERS)),
}


@pytest.mark.parametrize("kind", LINES)
def test_lines_that_are_no_records_are_read_by_the_command_of_the_refusal(kind: str, setwise: Command, tmp_path: Path):
    path = tmp_path / "lines.csv"
    path.write_text(("\r" if "carriage" in kind else "\n").join(LINES[kind]) + "\n")
    refused = ask(setwise, path)
    assert refused.returncode
    assert_counts(pasted(setwise, refused))
    assert "column_1" not in setwise("check", path, "--user", "user").stderr


@pytest.mark.parametrize("cell", ['12" pipe', '"the "old" town"', 'the "old" town'])
def test_quotes_that_are_not_doubled_are_mended_by_the_command_of_the_note(cell: str, setwise: Command, tmp_path: Path):
    path = tmp_path / "towns.csv"
    quoted = f'"{CITIES[1]}"'  # so that quotes have a meaning in this file
    rows = {0: cell, 1: quoted, 2: CITIES[2], 3: CITIES[3]}
    path.write_text(table(lambda user: f"{rows[user % 4]},{user % 50}"))
    refused = ask(setwise, path)
    noted = " ".join(refused.stderr.split())
    assert "100 of 400 lines are not records" in noted
    assert "a copy that is read a copy without what these notes speak of: python3" in " ".join(
        setwise("check", path).stdout.replace("options: --type amount=integer", "").split()
    )
    copied = pasted(setwise, refused)
    town = cell[1:-1] if cell.startswith('"') else cell
    assert counts(copied) == pytest.approx({**dict.fromkeys(CITIES[1:], 100), town: 100}, abs=20)
    assert "records" not in copied.stderr


def test_quotes_are_not_mended_where_cells_go_on_over_lines(setwise: Command, tmp_path: Path):
    path = tmp_path / "towns.csv"
    folded = '"a\nhe said ""hi"", b,c\nend"'
    path.write_text(table(lambda user: f"{folded},{user}" if user % 4 else f'12" pipe,{user % 50}'))
    assert "python3" not in ask(setwise, path).stderr


def test_texts_with_commas_in_a_file_of_one_column_are_no_lines_in_quotes(setwise: Command, tmp_path: Path):
    path = tmp_path / "names.csv"
    path.write_text('user\n"Smith, John"\n"Doe, Jane"\n')
    checked = setwise("check", path, "--user", "user", "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["users"] == 2


SECOND_TABLES = {
    "fewer rows": "\nshop,town,manager\nA,Rome,u1\n",
    "numbers below": "\nshop,town,total\nA,Rome,5\nB,Oslo,7\n",
    "a line of separators": ",,\nshop,town,manager\nA,Rome,u1\n",
}


@pytest.mark.parametrize("kind", SECOND_TABLES)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_second_table_below_a_blank_line_is_cut_off_by_the_command(
    kind: str, end: str, setwise: Command, tmp_path: Path
):
    """Rows of a table of shops, below the table that was asked, counted as rows of it, without a word."""
    path = tmp_path / "two.csv"
    text = table(plain) + SECOND_TABLES[kind]
    path.write_text(text.replace("\n", end), newline="")
    assert "looks like the header of another table, 'shop,town," in setwise("check", path).stdout
    refused = setwise("count", path, *PAID[:4], "--json")
    assert refused.returncode
    assert f"head -n {text[: text.index('shop,')].count(chr(10))} " in refused.stderr
    done = pasted(setwise, refused)
    assert json.loads(done.stdout[done.stdout.find('{"') :])["items"][0]["count"] == pytest.approx(400, abs=1)
    assert_counts(ask(setwise, tmp_path / "two.clean.csv"))


@pytest.mark.parametrize(
    "end",
    ["\nu7,Oslo,5\nu8,Oslo,5\n", "\nsmith,Oslo,unknown\nu8,Oslo,5\n", "\nSource: us\n", '\nu9,"A\n\nB,C,b\n",7\n'],
)  # fmt: skip
def test_rows_and_remarks_below_a_blank_line_are_no_second_table(end: str, setwise: Command, tmp_path: Path):
    path = tmp_path / "one.csv"
    path.write_text(table(plain) + end)
    assert "another table" not in setwise("check", path).stdout
    assert "another table" not in setwise("count", path, *PAID[:4]).stderr


@pytest.mark.parametrize("agent", ["Mozilla/5.0 (X11; Linux)", 'Mozilla/5.0 (X11; Linux) \\"q\\"', "curl, 7"])
def test_a_log_of_a_web_server_is_read_with_blanks_between_cells(agent: str, setwise: Command, tmp_path: Path):
    """Semicolons within quotes were taken for the separator, with which no line could be read."""
    path = tmp_path / "access.log"
    row = '10.0.0.{} - - [18/Oct/2026:13:55:02 +0000] "GET /p{}.html HTTP/1.1" 200 {} "-" "{}"\n'
    path.write_text("".join(row.format(user % 100, user % 9, 300 + user, agent) for user in USERS))
    found = json.loads(setwise("check", path, "--json").stdout)
    assert found["options"][:2] == ["--separator", " "]
    done = setwise("count", path, "--user", "column_1", *PAID[2:4], "--json", *found["options"])
    if "\\" in agent:
        assert "write the copy, and ask it" in found["notes"][-1]
        done = pasted(setwise, done)
    assert json.loads(done.stdout[done.stdout.find('{"') :])["items"][0]["count"] == pytest.approx(100, abs=1)


@pytest.mark.parametrize("row", ['u{} "New York" 5', '"u{}","New York, NY",5', 'u{};"a b";5', "u{} a 5"])
def test_only_blanks_between_quoted_cells_are_separators(row: str, setwise: Command, tmp_path: Path):
    path = tmp_path / "rows.txt"
    path.write_text("".join(row.format(user) + "\n" for user in range(60)))
    options = json.loads(setwise("check", path, "--json").stdout)["options"]
    assert (" " in options) == ('} "' in row)


def test_columns_of_a_fixed_width_are_divided_by_the_command(setwise: Command, tmp_path: Path):
    path = tmp_path / "fixed.txt"
    cities = ("Oslo", "New York", "", "Rome")
    rows = [f"{f'u{user}':<8}{cities[user % 4]:<10}{user % 50:>8}" for user in USERS]
    path.write_text("\n".join([f"{'user':<8}{'city':<10}{'amount':>8}", *rows]) + "\n")
    told = setwise("check", path).stderr
    assert "its columns have a fixed width, which is not read; a copy with tabs between them" in told
    command = " ".join(told.split()).partition("tabs between them: ")[2]
    subprocess.run(command, shell=True, check=True, timeout=60)
    lines = (tmp_path / "fixed.clean.txt").read_text().splitlines()
    assert [line.split("\t") for line in lines[:3]] == [
        ["user", "city", "amount"],
        ["u0", "Oslo", "0"],
        ["u1", "New York", "1"],
    ]
    assert len(lines) == 401


def test_lines_that_end_in_carriage_returns_alone_are_read_in_the_copy_of_the_note(setwise: Command, tmp_path: Path):
    path = tmp_path / "mixed.csv"
    rows = [line(user) + ("\r" if user % 5 == 0 else "\n") for user in USERS]
    path.write_bytes("".join(["user,city,amount\n", *rows]).encode())
    assert_counts(pasted(setwise, ask(setwise, path)))


@pytest.mark.parametrize("options", [(), ("--null", "city")])
def test_headers_again_are_dropped_from_a_compressed_file(options: tuple[str, ...], setwise: Command, tmp_path: Path):
    """The refusal asked to take the lines out of the file, without a command, and so it did when users were empty."""
    path = tmp_path / "cities.csv.gz"
    part = table(plain)
    path.write_bytes(gzip.compress((part + part).encode()))
    refused = ask(setwise, path, *options)
    assert refused.returncode
    done = pasted(setwise, refused)
    assert counts(done) == pytest.approx(dict.fromkeys(CITIES, 200), abs=20)
    assert (tmp_path / "cities.clean.csv.gz").exists()
    emptied = ask(setwise, path, "--null", "user")
    assert emptied.returncode == 0, emptied.stderr
    assert "will be left out, because 'user' means an empty cell" in emptied.stderr


TITLES = ["ACME report,,\nPrinted,5/1/2024,\n,,\n", "ACME report,,\n,,\n", "ACME report,,\nPrinted,yesterday,\n"]


@pytest.mark.parametrize("titles", TITLES)
def test_a_header_below_lines_of_titles_is_found(titles: str, setwise: Command, tmp_path: Path):
    """A copy with the titles alone was proposed."""
    path = tmp_path / "report.csv"
    path.write_text(titles + table(plain))
    checked = json.loads(setwise("check", path, "--user", "user", "--json").stdout)
    assert checked["options"][:2] == ["--skip-lines", str(titles.count("\n"))]
    assert (checked["rows"], checked["notes"]) == (400, [])
    assert_counts(pasted(setwise, ask(setwise, path)))


def test_a_file_with_two_problems_is_mended_by_one_command_that_keeps_the_given_options(
    setwise: Command, tmp_path: Path
):
    """The copy was read without --null, so that the pasted question was refused again."""
    path = tmp_path / "visits.csv"
    rows = [f"{'-' if user % 4 == 3 else f'u{user}'};{CITIES[user % 4]};{user % 50} kr" for user in USERS]
    path.write_text("\n".join(["user;city;amount", *rows, "user;city;amount"]) + "\n")
    for options in [(), ("--null", "-")]:
        done = pasted(setwise, ask(setwise, path, "--separator", ";", *options))
        assert counts(done) == pytest.approx(dict.fromkeys(CITIES[:3], 100), abs=20)
        assert "not read" not in done.stderr
        (tmp_path / "visits.clean.csv").unlink()
        (tmp_path / "visits.clean.csv.toml").unlink()


def test_a_log_of_pairs_gets_a_column_for_each_name(setwise: Command, tmp_path: Path):
    """It was one column, without a note."""
    path = tmp_path / "app.log"
    row = 'ts=2024-01-0{}T10:00:00Z level=info user=u{} city={} note="two words"\n'
    path.write_text("".join(row.format(user % 9 + 1, user, CITIES[user % 4]) for user in USERS))
    told = setwise("check", path).stderr
    command = " ".join(told.split()).partition("a column for each name: ")[2]
    subprocess.run(command, shell=True, check=True, timeout=60)
    assert (tmp_path / "app.clean.log").read_text().splitlines()[:2] == [
        "ts,level,user,city,note",
        "2024-01-01T10:00:00Z,info,u0,Oslo,two words",
    ]
    setwise("check", tmp_path / "app.clean.log", "--save")
    done = setwise("histogram", tmp_path / "app.clean.log", "--item", "city", *PAID)
    assert done.returncode == 0, done.stderr


def test_times_of_a_web_server_are_written_as_times_that_are_read(setwise: Command, tmp_path: Path):
    path = tmp_path / "access.log"
    row = '10.0.0.{} - - [{:02}/Aug/2024:13:55:02 +0200] "GET / HTTP/1.1" 200 {} "-" "an agent"\n'
    path.write_text("".join(row.format(user % 100, user % 28 + 1, 300 + user) for user in USERS))
    checked = json.loads(setwise("check", path, "--json").stdout)
    subprocess.run(checked["copies"][0]["command"], shell=True, check=True, timeout=60)
    copy = tmp_path / "access.clean.log"
    assert copy.read_text().startswith('10.0.0.0 - - 2024-08-01T13:55:02+02:00 "GET')
    assert "column_4=timestamp" in json.loads(setwise("check", copy, "--json").stdout)["options"]


def test_texts_of_several_words_in_columns_of_a_fixed_width_are_one_cell(setwise: Command, tmp_path: Path):
    path = tmp_path / "fixed.txt"
    names = ("Anna Lee", "Bo Chen", "Mary Ann Smith")
    rows = [f"{f'u{user}':<8}{names[user % 3]:<20}{user % 50:>8}" for user in USERS]
    path.write_text("\n".join([f"{'user':<8}{'name':<20}{'amount':>8}", *rows]) + "\n")
    command = " ".join(setwise("check", path).stderr.split()).partition("tabs between them: ")[2]
    subprocess.run(command, shell=True, check=True, timeout=60)
    assert (tmp_path / "fixed.clean.txt").read_text().splitlines()[3] == "u2\tMary Ann Smith\t2"

"""`setwise check` says how a file is written, and what it says reads the file."""

import json
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.analytics.reading.messy_files import EXPECTED, FILES, NAMES
from tests.sizes import some
from typer.testing import CliRunner

from setwise.analytics.engines.csv_reader import CsvFile
from setwise.analytics.engines.duckdb import cell_counts, number_counts
from setwise.cli.main import app


def run(*words: str) -> str:
    told = CliRunner().invoke(app, [*words], catch_exceptions=False)
    assert told.exit_code == 0, told.output
    return told.stdout


@pytest.mark.parametrize("name", some(list(FILES), 2))
def test_the_options_it_suggests_read_the_file(name: str, tmp_path: Path):
    messy = FILES[name]
    path = tmp_path / messy.name
    path.write_bytes(messy.data)
    found = json.loads(run("check", str(path), "--json"))
    names = [column["name"] for column in found["columns"]]
    user, item = ("user", "drink") if "user" in names and "drink" in names else names[-2:]
    asked = ["histogram", str(path), "--user", user, "--item", item, "--epsilon", "90", "--delta", "0.001"]
    answer = json.loads(run(*asked, "--contributions", "1", "--json", *found["options"]))
    assert found["rows"] == 30
    assert found["lost_lines"] == 0
    assert {each["item"]: each["count"] for each in answer["items"]} == EXPECTED
    assert found["private"] is False


def test_it_counts_what_will_not_convert(tmp_path: Path):
    path = tmp_path / "visits.csv"
    rows = [f"u{row % 7},{row},2024-01-{row % 28 + 1:02},2024-01-02 10:00,{row / 7}" for row in range(100)]
    rows[5:8] = ["u1,many,yesterday,,x", "broken", 'u1,"1\n2",2024-01-01,2024-01-02,1']
    path.write_text("\n".join(["who,visits,day,at,share", *rows]) + "\n")
    found = json.loads(run("check", str(path), "--user", "who", "--json"))
    assert (found["rows"], found["users"], found["lost_lines"]) == (99, 7, 1)
    kinds = {column["name"]: (column["kind"], column["filled"], column["unreadable"]) for column in found["columns"]}
    assert kinds == {
        "who": ("text", 99, 0),
        "visits": ("integer", 99, 2),
        "day": ("date", 99, 1),
        "at": ("timestamp", 98, 0),
        "share": ("float", 99, 1),
    }
    assert found["options"] == [
        *("--type", "visits=integer", "--type", "day=date", "--type", "at=timestamp", "--type", "share=float")
    ]


def test_it_says_that_it_is_not_private_and_what_to_paste(tmp_path: Path):
    path = tmp_path / "u.data"
    path.write_text("".join(f"{row}\t{row % 5}\ttext\n" for row in range(50)))
    told = run("check", str(path))
    assert told.startswith("Not private")
    assert "options: --format tsv --no-header --columns column_1,column_2,column_3 --type column_1=integer" in told
    told = run("check", str(path), "--no-header", "--columns", ",".join([*NAMES, "note"]))
    assert "--columns user,drink,note" in told


def test_a_description_beside_the_file_is_read_by_every_question(tmp_path: Path):
    path = tmp_path / "points.dat"
    path.write_text("".join(f"{row}::{row % 7 - 3}\n" for row in range(200)))
    assert "points.dat.toml" in run("check", str(path), "--no-header", "--columns", "who,points", "--save")
    asked = ["sum", str(path), "--user", "who", "--value", "points", "--low", "-3", "--high", "3", "--epsilon", "90"]
    found = json.loads(run(*asked, "--json"))["items"][0]["sum_points"]["value"]
    assert abs(found - sum(row % 7 - 3 for row in range(200))) < 3, "the first row, of -3, is lost"
    path.with_name("points.dat.toml").write_text("colour = 1\n")
    told = CliRunner().invoke(app, asked)
    assert "may have separator, columns" in str(told.exception)


def test_checking_and_saving_again_keeps_the_types(tmp_path: Path):
    path = tmp_path / "sales.csv"
    path.write_text("who,amount,day\n" + "".join(f"{row},{row * 3},2026-01-{1 + row % 28:02}\n" for row in range(50)))
    run("check", str(path), "--save")
    first = (tmp_path / "sales.csv.toml").read_text()
    assert '"amount" = "integer"' in first
    run("check", str(path), "--save")
    assert (tmp_path / "sales.csv.toml").read_text() == first


def proposed_types(path: Path) -> list[str]:
    """Return the types that `setwise check` proposes for the columns of a file."""
    options = json.loads(run("check", str(path), "--json"))["options"]
    return [word for option, word in pairwise(options) if option == "--type"]


def test_codes_with_leading_zeros_stay_text(tmp_path: Path):
    """The zip code 00111 became 111 after the tool had recommended whole numbers."""
    path = tmp_path / "zips.csv"
    path.write_text("user,zip,minutes\n" + "".join(f"{row},{row % 90 + 20:05},{row % 7}\n" for row in range(300)))
    assert proposed_types(path) == ["user=integer", "minutes=integer"]


def test_numbers_that_are_written_with_and_without_zeros_are_numbers(tmp_path: Path):
    """As text, the user 7 would be another user than 007, and one person would be protected as two."""
    path = tmp_path / "users.csv"
    path.write_text("user,share\n" + "".join(f"{row},0.5\n{row:05},0.25\n" for row in range(300)))
    assert proposed_types(path) == ["user=integer", "share=float"]


def test_integers_beyond_64_bits_stay_text(tmp_path: Path):
    """Users of 23 digits were to be floats, and after --save every question was refused."""
    path = tmp_path / "ids.csv"
    rows = [f"{12345678901234567890000 + row},{2**63 - 1 if row else 2**63},{2**63 - 1 - row}\n" for row in range(300)]
    path.write_text("user,other,fits\n" + "".join(rows))
    assert proposed_types(path) == ["fits=integer"]
    assert "options: none are needed" in run("check", str(path), "--save")
    assert run("count", str(path), "--user", "user", "--epsilon", "1")


@pytest.fixture(scope="module")
def wide_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV file of 3,000 columns and 60 users."""
    path = tmp_path_factory.mktemp("wide") / "wide.csv"
    names = ",".join(f"c{place}" for place in range(2999))
    path.write_text("\n".join(["user," + names, *(f"u{user}" + ",1" * 2999 for user in range(60))]) + "\n")
    return path


def test_a_question_about_a_file_of_many_columns_is_answered(wide_file: Path):
    """One statement sampled every column: 2,000 columns took minutes, and 10,000 ended in a segmentation fault."""
    words = [sys.executable, "-m", "setwise", "sql", f"SELECT COUNT(*) AS n, AVG(c2998) AS c FROM '{wide_file}'"]
    words += ["--user", "user", "--epsilon", "40"]
    done = subprocess.run(words, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "c2998 as float" in done.stderr


def counted_work(monkeypatch: pytest.MonkeyPatch, path: Path) -> tuple[int, int]:
    """Return how many SQL expressions of a cell `setwise check` writes for a file, and how often it opens the file."""
    expressions, opened = [], []
    convert, start = cell_counts.converted_cell, CsvFile.__init__

    def counted_start(self: CsvFile, *arguments: Any) -> None:
        opened.append(1)
        start(self, *arguments)

    with monkeypatch.context() as during:
        for module in (cell_counts, number_counts):
            during.setattr(module, "converted_cell", lambda *words: expressions.append(1) or convert(*words))
        during.setattr(CsvFile, "__init__", counted_start)
        run("check", str(path))
    return len(expressions), len(opened)


def test_a_file_of_many_columns_is_checked_with_few_statements(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """DuckDB planned the reading of dates for each of 2,000 columns, which took most of a minute."""
    work = {}
    for width in (20, 300):
        path = tmp_path / f"wide{width}.csv"
        cells = ",".join(f"{place}" if place % 2 else "2026-01-02" for place in range(width))
        names = ",".join(f"c{place}" for place in range(width))
        path.write_text(f"user,{names}\n" + "".join(f"u{user},{cells}\n" for user in range(9)))
        work[width] = counted_work(monkeypatch, path)
    (few_expressions, few_reads), (expressions, reads) = work[20], work[300]
    assert expressions <= few_expressions + 5
    assert reads <= few_reads + 30


def refused(*words: str) -> str:
    return str(CliRunner().invoke(app, [*words]).exception)


def test_a_user_column_of_a_file_without_a_header_is_named_by_the_refusal(tmp_path: Path):
    """The refusal said that the table has column_1 to column_4, and not how to name them."""
    path = tmp_path / "ratings.dat"
    path.write_text("".join(f"{user}::{user % 7}::{user % 5}::97209{user:04}\n" for user in range(300)))
    message = refused("check", str(path), "--user", "user_id", "--null", "NA")
    assert "the file has no header, so name its 4 columns in their order: setwise check" in message
    first, _, second = message.partition("setwise check ")[2].partition(
        "; to see what the columns hold: setwise check "
    )
    words = shlex.split(first.partition(", if the first column")[0])
    assert words[-2:] == ["--columns", "user_id,column_2,column_3,column_4"]
    assert "300 users" in run("check", *words)
    assert "column_4" in run("check", *shlex.split(second))


@pytest.mark.parametrize("options", [[], ["--columns", "a,b"]])
def test_a_user_column_that_named_columns_lack_has_no_command(options: list[str], tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("who,v\n" + "".join(f"u{user},{user}\n" for user in range(30)))
    assert refused("check", str(path), "--user", "user_id", *options).startswith("the table has no column")
    assert "the file has no header" not in refused("check", str(path), "--user", "user_id", *options)


def test_a_blank_between_cells_is_found(tmp_path: Path):
    """The check said that the file has one column, and that no options are needed."""
    path = tmp_path / "visits.csv"
    path.write_text("user city amount\n" + "".join(f"u{user} Oslo {user % 9}\n" for user in range(60)))
    assert json.loads(run("check", str(path), "--json"))["options"] == [
        "--separator",
        " ",
        "--type",
        "amount=integer",
    ]
    path.write_text("full name\n" + "".join(f"Anna Nr{user}\n" for user in range(60)))
    assert json.loads(run("check", str(path), "--json"))["options"] == []


def test_several_blanks_between_cells_have_a_command(tmp_path: Path):
    path = tmp_path / "visits.csv"
    rows = [f"{f'u{user}':>6} {'Oslo':8} {user % 9:>7}\n" for user in range(60)]
    path.write_text(f"{'user':>6} {'city':8} {'amount':>7}\n{''.join(rows)}")
    asked = ("sum", str(path), "--user", "user", "--value", "amount", "--clip", "9", "--epsilon", "90")
    message = str(CliRunner().invoke(app, [*asked]).exception)
    mending, *commands = message.partition("or ask the copy with: ")[2].split(" && ")
    assert mending in str(CliRunner().invoke(app, ["check", str(path)]).exception)
    subprocess.run(mending, shell=True, check=True, timeout=60)
    assert (tmp_path / "visits.clean.csv").read_text().splitlines()[2] == "u1 Oslo 1"
    for command in commands:
        assert CliRunner().invoke(app, shlex.split(command.removeprefix("setwise "))).exit_code == 0


def test_files_that_differ_by_their_ending_get_different_names_in_a_catalog(setwise, tmp_path):
    """`u.user` and `u.data` were both `[tables.u]`."""
    proposed = []
    for name in ("u.user", "u.data", "visits.csv"):
        (tmp_path / name).write_text("id\tage\n" + "".join(f"{n}\t{n % 50}\n" for n in range(30)))
        entry = setwise("check", tmp_path / name, "--catalog", "--separator", "tab", "--format", "tsv").stdout
        proposed.append(entry.splitlines()[0])
    assert proposed == ["[tables.u_user]", "[tables.u_data]", "[tables.visits]"]


def test_numbers_with_a_few_fractions_are_no_integers(setwise, tmp_path):
    """Rain was 0 in nine of ten hours: `--type rain=integer` made null of every hour with rain."""
    path = tmp_path / "rain.csv"
    path.write_text("station,rain,n\n" + "".join(f"s{n % 50},{0.25 if n % 15 == 0 else 0},{n}\n" for n in range(3000)))
    options = json.loads(setwise("check", path, "--json").stdout)["options"]
    assert "rain=float" in options
    assert "n=integer" in options

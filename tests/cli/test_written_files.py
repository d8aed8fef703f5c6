"""Files as spreadsheets and programs write them: what is lost is said before the charge, with the option that helps."""

import csv
import json
import re
import shlex
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import setwise
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.opening import CsvKeywords
from setwise.cli.main import app
from setwise.errors import InvalidParameter, UnsuitableTable

PAID = ("--epsilon", "90", "--delta", "0.001")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, [*words], catch_exceptions=False)


def answer(*words: str) -> dict[Any, Any]:
    told = run(*words, *PAID, "--json")
    assert told.exit_code == 0, told.output
    return {each["item"]: each.get("count") for each in json.loads(told.stdout)["items"]}


def write(path: Path, header: str, cells: list[str], encoding: str = "utf-8") -> Path:
    lines = [f"who;{header}", *(f"{number};{cell}" for number, cell in enumerate(cells))]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


AMOUNTS = [str(number) for number in range(1, 951)] + [f"{number:,}" for number in range(1000, 51000, 1000)]
DAYS = [f"{day:02}.11.2026" for day in range(1, 31)] * 10
PRICES = [f"{number // 100},{number % 100:02}" for number in range(1, 500)]
CITIES = ["Oslo", "Zürich", "München"] * 50
LANDS = ["NO", "NULL", "N/A", "SE"] * 50


def test_thousands_are_told_before_the_charge_and_read_with_the_option(tmp_path: Path):
    """A total of 1,726,725 became 451,725 in silence, of a type that `setwise check` had recommended."""
    path = write(tmp_path / "sales.csv", "amount", AMOUNTS)
    asked = ("sum", str(path), "--user", "who", "--value", "amount", "--clip", "51000", "--separator", ";")
    told = run(*asked, "--type", "amount=integer", *PAID)
    assert (
        "50 of 1,000 cells of 'amount' are not whole numbers and will be skipped: --thousands , reads them"
        in told.stderr
    )
    assert "50 of" not in told.stdout
    options = json.loads(run("check", str(path), "--json").stdout)["options"]
    assert options == ["--separator", ";", "--thousands", ",", "--type", "who=integer", "--type", "amount=integer"]
    assert answer(*asked[:-2], *options)["amount"] == pytest.approx(1_726_725, abs=60_000)  # 23 noise scales
    assert run(*asked[:-2], *options, *PAID).stderr == ""


@pytest.mark.parametrize(
    ("other", "remedy"),
    [
        ("abc", "312 of 936 cells of 'v' are not whole numbers and will be skipped: --type v=float reads 156 of them"),
        ("N/A", "--type v=float reads 156 of them; --null N/A takes 156 of them for empty"),
        ("1,5", "numbers of 'v' have a decimal comma in some cells and a decimal point in others"),
    ],
)
def test_a_note_counts_the_cells_that_its_option_reads(other: str, remedy: str, tmp_path: Path):
    """A note said that --type v=float reads 312 cells of which it read 156."""
    cells = [str(number) if number % 3 else ("2.5" if number % 2 else other) for number in range(936)]
    path = write(tmp_path / "values.csv", "v", cells)
    asked = ("sum", str(path), "--user", "who", "--value", "v", "--clip", "9", "--separator", ";", *PAID)
    with pytest.raises(UnsuitableTable, match=re.escape(remedy)):
        run(*asked, "--type", "v=integer")


def test_decimal_commas(tmp_path: Path):
    path = write(tmp_path / "prices.csv", "price", PRICES)
    options = json.loads(run("check", str(path), "--json").stdout)["options"]
    assert options == ["--separator", ";", "--decimal", ",", "--type", "who=integer", "--type", "price=float"]
    asked = ("mean", str(path), "--user", "who", "--value", "price", "--low", "0", "--high", "5")
    (found,) = json.loads(run(*asked, *options, *PAID, "--json").stdout)["items"]
    assert found["mean_price"]["value"] == pytest.approx(2.5, abs=0.1)
    with pytest.raises(UnsuitableTable, match=r"499 of 499 cells of 'price' are not numbers .*: --decimal , reads"):
        run(*asked, "--separator", ";", "--type", "price=float", *PAID)


def test_days_before_months(tmp_path: Path):
    path = write(tmp_path / "days.csv", "day", DAYS)
    asked = ("histogram", str(path), "--user", "who", "--item", "day by month", "--contributions", "1")
    with pytest.raises(
        UnsuitableTable, match=r"300 of 300 cells of 'day' are not dates .*: --date-format %d.%m.%Y reads"
    ):
        run(*asked, "--separator", ";", "--type", "day=date", *PAID)
    options = json.loads(run("check", str(path), "--json").stdout)["options"]
    assert options[2:4] == ["--date-format", "%d.%m.%Y"]
    assert answer(*asked, *options) == {"2026-11": 300}


def test_dates_that_do_not_tell_their_order_are_left_to_the_holder(tmp_path: Path):
    path = write(
        tmp_path / "days.csv", "day", [f"{day:02}/0{month}/2026" for day in range(1, 13) for month in range(1, 10)]
    )
    found = json.loads(run("check", str(path), "--json").stdout)
    assert "read as %d/%m/%Y and as %m/%d/%Y: the cells do not tell which" in found["notes"][0]


def test_words_for_empty_cells(tmp_path: Path):
    path = write(tmp_path / "lands.csv", "land", LANDS)
    asked = ("histogram", str(path), "--user", "who", "--item", "land", "--contributions", "1")
    told = run(*asked, "--separator", ";", *PAID)
    assert "100 cells of 'land' are 'N/A' or 'NULL' and count as a value: --null N/A --null NULL" in told.stderr
    options = json.loads(run("check", str(path), "--json").stdout)["options"]
    assert answer(*asked, *options) == {"NO": 50, "SE": 50}


def test_text_that_is_not_utf_8(tmp_path: Path):
    path = write(tmp_path / "cities.csv", "city", CITIES, "cp1252")
    asked = ("histogram", str(path), "--user", "who", "--item", "city", "--contributions", "1")
    with pytest.raises(UnsuitableTable, match=r"100 of 150 cells of 'city' are not UTF-8 .*: --encoding cp1252 reads"):
        run(*asked, "--separator", ";", *PAID)
    options = json.loads(run("check", str(path), "--json").stdout)["options"]
    assert answer(*asked, *options) == {"Oslo": 50, "Zürich": 50, "München": 50}


def test_the_scan_can_be_turned_off_and_looks_only_at_asked_columns(tmp_path: Path):
    path = write(tmp_path / "lands.csv", "land;other", [f"{land};x" for land in LANDS])
    asked = ("histogram", str(path), "--user", "who", "--item", "land", "--contributions", "1", "--separator", ";")
    assert run(*asked, *PAID).stderr
    assert run(*asked, *PAID, "--no-scan").stderr == ""
    other = [word.replace("land", "other") if word == "land" else word for word in asked]
    assert run(*other, *PAID).stderr == ""


def test_sql_is_scanned_too(tmp_path: Path):
    path = write(tmp_path / "lands.csv", "land", LANDS)
    text = f"SELECT land, COUNT(DISTINCT who) FROM `{path}` GROUP BY land"
    words = ("sql", text, "--user", "who", "--separator", ";", "--contributions", "1", *PAID)
    assert "100 cells of 'land' are 'N/A' or 'NULL'" in run(*words).stderr
    read = run(*words, "--null", "NULL", "--null", "N/A")
    assert "NO" in read.stdout
    assert read.stderr == ""


def test_a_catalog_entry_made_by_check_settles_it(tmp_path: Path):
    path = write(
        tmp_path / "sales.csv",
        "amount;land",
        [f"{cell};{'NO' if place % 2 else 'N/A'}" for place, cell in enumerate(AMOUNTS)],
    )
    entry = run("check", str(path), "--user", "who", "--catalog").stdout
    (tmp_path / "catalog.toml").write_text(entry)
    text = "SELECT land, SUM(amount, contribution_bounds_per_group => (0, 51000)) AS total FROM sales GROUP BY land"
    told = run("sql", text, "--catalog", str(tmp_path / "catalog.toml"), "--contributions", "1", *PAID, "--json")
    assert told.stderr == ""
    rows = json.loads(told.stdout)["rows"]
    # Null, and not the text N/A: the catalog says that such cells are empty.
    assert {row["land"] for row in rows} == {"NO", None}


def test_nothing_of_a_scan_is_in_an_answer(tmp_path: Path):
    path = write(tmp_path / "lands.csv", "land", LANDS)
    with setwise.open(path, user="who", separator=";") as session:
        found = session.histogram(item="land", contributions=1, epsilon=5.0, delta=1e-6)
    assert "count as a value" not in found.to_json()


@pytest.mark.parametrize(
    ("name", "data", "remedy"),
    [
        ("a.jsonl", b'{"who": 1}\n', "a.jsonl is JSON, .*read_json"),
        ("a.ndjson", b'{"who": 1}\n', "a.ndjson is JSON"),
        ("a.xlsx", b"PK\x03\x04 and more", "a.xlsx is a spreadsheet, .*save the sheet as CSV UTF-8"),
        ("a.data", b"PK\x03\x04 and more", "a.data is a spreadsheet"),
        ("a.orc", b"ORC and more", "a.orc is ORC"),
        ("a.avro", b"Obj\x01 and more", "a.avro is Avro"),
        ("a.feather", b"ARROW1 and more", "a.feather is Arrow"),
        ("a.zip", b"PK\x03\x04", "a.zip is a zip archive"),
    ],
)
def test_other_formats_are_refused_with_the_remedy(name: str, data: bytes, remedy: str, tmp_path: Path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UnsuitableTable, match=remedy):
        open_engine(tmp_path / name)
    with pytest.raises(UnsuitableTable, match=remedy):
        run("check", str(tmp_path / name))


@pytest.mark.parametrize("marker", ["_delta_log/0.json", "metadata/v1.metadata.json", ".hoodie/hoodie.properties"])
@pytest.mark.parametrize("place", ["*.parquet", "data", "data/**/*.parquet", "above"])
def test_folders_of_lake_tables_are_refused(marker: str, place: str, tmp_path: Path):
    """Their folders also hold the files that the table has removed."""
    folder = tmp_path / "above" / "table"
    (folder / "data" / "part=1").mkdir(parents=True)
    (folder / marker).parent.mkdir()
    (folder / marker).write_text("{}")
    for file in ("a.parquet", "data/part=1/b.parquet", "data/c.parquet"):
        pq.write_table(pa.table({"who": [1]}), folder / file)
    path = folder.parent if place == "above" else folder / place
    with pytest.raises(UnsuitableTable, match=r"holds files of a (Delta|Iceberg|Hudi) table"):
        open_engine(str(path))
    with open_engine(str(folder / "a.parquet")) as engine:  # a file by its own name is read
        assert engine.describe().names == ("who",)


def test_csv_options_are_one_argument_or_keywords_and_never_both(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("who;page\n" + "".join(f"{user};home\n" for user in range(500)))
    with setwise.open(path, user="who", csv={"separator": ";"}) as session:
        assert session.schema.names == ("who", "page")
    with setwise.open(path, user="who", csv=CsvOptions(separator=";", columns=("a", "b"), skip_lines=1)) as session:
        assert session.schema.names == ("a", "b")
    with pytest.raises(InvalidParameter, match="csv and encoding both say how files are written"):
        setwise.open(path, user="who", csv={"separator": ";"}, encoding="utf-8")
    with pytest.raises(InvalidParameter, match="csv takes no 'seperator'; options for CSV files are separator"):
        setwise.open(path, user="who", csv={"seperator": ";"})
    with pytest.raises(InvalidParameter, match="open takes no 'seperator'"):
        setwise.open(path, user="who", seperator=";")


def test_csv_options_replace_those_of_a_catalog_one_by_one(tmp_path):
    (tmp_path / "visits.txt").write_text("1;home\n2;help\n")
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(
        '[tables.visits]\nsource = "visits.txt"\nuser = "who"\nformat = "csv"\nseparator = ";"\ncolumns = ["a", "b"]\n'
    )
    with setwise.open("visits", user="who", catalog=catalog, csv={"columns": ["who", "page"]}) as session:
        assert session.schema.names == ("who", "page")


def test_every_csv_option_is_a_keyword_of_open():
    assert set(CsvKeywords.__annotations__) == {option.name for option in fields(CsvOptions)}


TRAILING = [f"{number},{'Oslo' if number % 2 else 'Bergen'},7" for number in range(500)]


def visits(path: Path, lines: list[str], header: str = "user,city,amount") -> Path:
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_lines_that_are_no_records_are_told_before_the_charge(tmp_path: Path):
    """Of 500 lines, 200 had one cell too many, too few, or a stray quote, and an answer left them out in silence."""
    broken = ['7,Os"lo,7'] * 49 + ['8,"Oslo"x,7']
    quoted = ['900,"Os\n\nlo",7'] * 10  # records of three lines each, one of them blank, which are read
    path = visits(tmp_path / "visits.csv", [*TRAILING, *broken[:40], *quoted, "", ""])
    asked = ("histogram", str(path), "--user", "user", "--item", "city", "--contributions", "1")
    told = run(*asked, *PAID)
    assert "note: visits.csv: 40 of 560 lines are not records of 3 cells" in told.stderr
    assert "40 of" not in told.stdout
    assert run(*asked, *PAID, "--no-scan").stderr == ""
    text = f"SELECT COUNT(DISTINCT user) FROM `{path}`"
    assert "40 of 560 lines" in run("sql", text, "--user", "user", *PAID).stderr
    visits(path, [*TRAILING[:449], *broken])
    assert "50 of 499 lines" in str(CliRunner().invoke(app, [*asked, *PAID]).exception)
    assert run(*asked, *PAID, "--no-scan").stderr == ""


RAGGED = {
    "cells are missing": lambda line: line.rpartition(",")[0],
    "empty cells at the end": lambda line: f"{line},,",
    "cells too many": lambda line: f"{line},and more",
    "a carriage return": lambda line: line.rpartition(",")[0] + "\r",
}
"""Lines of a city, an amount and a note, from the line that has all three."""


@pytest.mark.parametrize("kind", RAGGED)
def test_lines_with_too_few_or_too_many_cells_have_a_command_that_mends_them(kind: str, tmp_path: Path):
    """Half of the lines were left out after a note, and the refusal had no command."""
    end = "\r" if kind == "a carriage return" else ""
    lines = [f"{line.rstrip('7')}{number % 9}.5,ok{end}" for number, line in enumerate(TRAILING)]
    lines = [RAGGED[kind](line.rstrip("\r")) if number % 2 else line for number, line in enumerate(lines)]
    path = visits(tmp_path / "visits.csv", [*lines, f'1,"Os\n,lo",1,x{end}'], f"user,city,amount,note{end}")
    asked = ("sum", str(path), "--user", "user", "--value", "amount", "--clip", "9", *PAID)
    message = str(CliRunner().invoke(app, [*asked]).exception)
    assert "250 of 502 lines are not records of 4 cells" in message
    mending, *commands = message.partition("or ask the copy with: ")[2].split(" && ")
    subprocess.run(mending, shell=True, check=True, timeout=60)
    with open(tmp_path / "visits.clean.csv", newline="") as copy:
        rows = [*csv.reader(copy)]
    assert {len(row) for row in rows} == {4}
    assert rows[-1][1] == "Os\n,lo"
    assert [row[:3] for row in rows[1:501]] == [
        [f"{n}", "Oslo" if n % 2 else "Bergen", f"{n % 9}.5"] for n in range(500)
    ]
    assert rows[2][3] == {"cells too many": "ok,and more", "empty cells at the end": "ok"}.get(kind, "")
    for command in commands:
        done = run(*shlex.split(command.removeprefix("setwise ")))
    assert "lines" not in done.stderr


def test_lines_whose_cells_stand_in_other_columns_are_not_mended(tmp_path: Path):
    lines = [f"{number},{number % 9}.5" if number % 2 else line for number, line in enumerate(TRAILING)]
    path = visits(tmp_path / "visits.csv", lines)  # the city is missing, and not the amount
    asked = ("sum", str(path), "--user", "user", "--value", "amount", "--clip", "9", *PAID)
    message = str(CliRunner().invoke(app, [*asked]).exception)
    assert "mend them in the file" in message
    assert "ask the copy" not in message


def test_well_formed_files_have_no_lost_lines(tmp_path: Path):
    path = tmp_path / "visits.csv"
    path.write_bytes(b'user,city\r\n1,"a\r\n\r\nb"\r\n\r\n2,c\r\n3,"""d"""')
    assert run("count", str(path), "--user", "user", *PAID).stderr == ""
    without_rows = run("count", str(visits(path, [])), "--user", "user", *PAID).stderr
    assert without_rows == "note: visits.csv: the table has no rows with a value, and an answer would be noise alone\n"


def test_a_file_without_a_readable_line_is_refused_with_the_option_that_reads_it(tmp_path: Path):
    path = visits(tmp_path / "visits.csv", [f"{line}," for line in TRAILING])
    asked = ("histogram", str(path), "--user", "user", "--item", "city", "--contributions", "1")
    remedy = "--skip-lines 1 --no-header --columns user,city,amount,column_4"
    with pytest.raises(UnsuitableTable, match=rf"none of its 500 lines .* 3 cells.*{remedy} .*nothing was charged"):
        run(*asked, *PAID)
    read = run(*asked, *remedy.split(), *PAID)
    assert read.stderr == ""
    assert "Oslo" in read.stdout
    assert run(*asked, *PAID, "--no-scan").exit_code == 0


def test_cells_are_counted_though_a_description_beside_the_file_names_their_type(tmp_path: Path):
    """A file with saved types, of which no cell was readable as the type, was charged without a note."""
    amounts = [str(number) for number in range(95)] + ["many"] * 5
    path = visits(tmp_path / "visits.csv", [f"{number},Oslo,{cell}" for number, cell in enumerate(amounts)])
    asked = ("sum", str(path), "--user", "user", "--value", "amount", "--clip", "100")
    assert "options: none are needed" in run("check", str(path), "--save").stdout
    assert "5 of 100 cells of 'amount' are not whole numbers" in run(*asked, *PAID).stderr
    again = json.loads(run("check", str(path), "--json").stdout)
    assert {"name": "amount", "kind": "integer", "filled": 100, "unreadable": 5} in again["columns"]
    dated = ("histogram", str(path), "--user", "user", "--item", "amount by day", "--contributions", "1")
    with pytest.raises(UnsuitableTable, match="100 of 100 cells of 'amount' are not dates and times"):
        run(*dated, "--type", "amount=timestamp", *PAID)


REGIONS = [("Oslo", "NO"), ("Bergen", "NO"), ("Zürich", "CH"), ("Lund", "SE"), ("Genève", "CH"), ("Umea", "SE")]


@pytest.fixture
def joined(tmp_path: Path) -> tuple[str, ...]:
    """The words of a question that joins visits to the public table regions.csv, in the encoding cp1252."""
    path = visits(tmp_path / "visits.csv", [f"{number},{REGIONS[number % 6][0]},7" for number in range(600)])
    regions = "".join(f"{city},{region}\n" for city, region in REGIONS)
    (tmp_path / "regions.csv").write_text(f"city,region\n{regions}", encoding="cp1252")
    text = "SELECT region, COUNT(DISTINCT user) AS n FROM visits JOIN regions USING (city) GROUP BY region"
    return ("sql", text, "--table", f"visits={path}", "--user", "user", "--contributions", "1", *PAID)


def test_cells_of_a_public_table_that_are_not_read_are_told(joined: tuple[str, ...], tmp_path: Path):
    """Cities of the public table that were not UTF-8 joined to no row, and their regions were lost in silence."""
    public = ("--public", f"regions={tmp_path / 'regions.csv'}")
    told = run(*joined, *public).stderr
    assert "note: regions.csv: 2 of 6 cells of 'city' are not UTF-8 and will be skipped: --encoding cp1252" in told
    assert f"setwise check {tmp_path / 'regions.csv'} with these options and --save" in told
    assert run(*joined, *public, "--no-scan").stderr == ""
    assert run("check", str(tmp_path / "regions.csv"), "--encoding", "cp1252", "--save").exit_code == 0
    assert run(*joined, *public).stderr == ""


def test_lines_of_a_public_table_of_a_catalog_that_are_not_read_are_told(joined: tuple[str, ...], tmp_path: Path):
    rows = "".join(f"{city}{number},SE\n" for city in ("Oslo", "Lund", "Umea") for number in ("", 1, 2, 3))
    (tmp_path / "regions.csv").write_text(f"city,region\n{rows}Bergen,NO,x\n")
    (tmp_path / "catalog.toml").write_text(
        '[tables.visits]\nsource = "visits.csv"\nuser = "user"\n[public.regions]\nsource = "regions.csv"\n'
    )
    asked = (*joined[:2], "--catalog", str(tmp_path / "catalog.toml"), "--contributions", "1", *PAID)
    assert "note: regions.csv: 1 of 13 lines are not records of 2 cells" in run(*asked).stderr

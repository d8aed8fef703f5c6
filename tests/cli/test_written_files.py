"""Files as spreadsheets and programs write them: what is lost is said before the charge, with the option that helps."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import setwise
from setwise.analytics.engines.connect import open_engine
from setwise.cli.main import app
from setwise.errors import UnsuitableTable

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
    assert answer(*asked[:-2], *options)["amount"] == pytest.approx(1_726_225, abs=9000)
    assert run(*asked[:-2], *options, *PAID).stderr == ""


def test_decimal_commas(tmp_path: Path):
    path = write(tmp_path / "prices.csv", "price", PRICES)
    options = json.loads(run("check", str(path), "--json").stdout)["options"]
    assert options == ["--separator", ";", "--decimal", ",", "--type", "who=integer", "--type", "price=float"]
    asked = ("mean", str(path), "--user", "who", "--value", "price", "--low", "0", "--high", "5")
    (found,) = json.loads(run(*asked, *options, *PAID, "--json").stdout)["items"]
    assert found["mean_price"]["value"] == pytest.approx(2.5, abs=0.1)
    told = run(*asked, "--separator", ";", "--type", "price=float", *PAID)
    assert "499 of 499 cells of 'price' are not numbers and will be skipped: --decimal , reads them" in told.stderr


def test_days_before_months(tmp_path: Path):
    path = write(tmp_path / "days.csv", "day", DAYS)
    asked = ("histogram", str(path), "--user", "who", "--item", "day by month", "--contributions", "1")
    told = run(*asked, "--separator", ";", "--type", "day=date", *PAID)
    assert (
        "300 of 300 cells of 'day' are not dates and will be skipped: --date-format %d.%m.%Y reads them" in told.stderr
    )
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
    told = run(*asked, "--separator", ";", *PAID)
    assert "100 of 150 cells of 'city' are not UTF-8 and will be skipped: --encoding cp1252 reads them" in told.stderr
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
    assert [row["land"] for row in rows] == ["NO"]


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

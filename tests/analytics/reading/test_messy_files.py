"""Files as people get them are read rightly, or refused with the option that reads them."""

import io
import random
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.csv_format import CsvFormat
from setwise.analytics.engines.csv_reader import CsvFile, UnreadableHeader
from setwise.analytics.engines.files import CsvOptions
from setwise.cli.main import app
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable
from tests.analytics.reading.messy_files import EXPECTED, FILES


def counted(path: Path, options: dict) -> dict:
    given = options | ({"columns": tuple(options["columns"])} if "columns" in options else {})
    with open_engine(path, csv=CsvOptions(**given)) as engine:
        found = engine.histogram(Aggregation(user="user", item="drink"))
    return dict(zip(found.labels, found.counts.tolist(), strict=True))


@pytest.mark.parametrize("name", FILES)
def test_a_messy_file_is_read_with_its_options_and_refused_with_their_names(name: str, tmp_path: Path):
    messy = FILES[name]
    path = tmp_path / messy.name
    path.write_bytes(messy.data)
    assert counted(path, messy.options) == EXPECTED
    if messy.options:
        with pytest.raises(UnsuitableTable) as refused:
            counted(path, {})
        assert messy.remedy in str(refused.value)
        assert "café" not in str(refused.value)


def test_the_options_of_the_command_line(tmp_path: Path):
    messy = FILES["double colons, no header, Latin-1, no ending"]
    path = tmp_path / messy.name
    path.write_bytes(b"a title\n" + messy.data)
    asked = ["histogram", str(path), "--user", "user", "--item", "drink", "--epsilon", "100", "--delta", "0.001"]
    words = [
        "--separator",
        "::",
        "--no-header",
        "--columns",
        "user,drink",
        "--encoding",
        "latin-1",
        "--skip-lines",
        "1",
    ]
    told = CliRunner().invoke(app, [*asked, "--contributions", "1", "--csv", *words])
    assert [line.split(",")[0] for line in told.stdout.splitlines()] == ["item", "tea", "café"]
    told = CliRunner().invoke(app, [*asked, *words, "--format", "xlsx"])
    assert isinstance(told.exception, InvalidParameter)


def test_a_title_that_could_be_a_name_leads_to_check(tmp_path: Path):
    path = tmp_path / "report.csv"
    path.write_text("Drinks\nuser,drink\n1,tea\n")
    with setwise.open(path, user="user") as session, pytest.raises(UnknownColumn, match=r"setwise check .*report\.csv"):
        session.count(epsilon=1)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        (b"user,a@example.org\n", "--no-header"),
        (b"2024-01-02,user\n", "--no-header"),
        (b"user,12:30\n", "--no-header"),
        (b"user,-1.5e3\n", "--no-header"),
        (b"user\rdrink\r1,tea\r", "tr "),
        (b",,,\n", "--skip-lines 1"),
    ],
)
def test_a_first_line_that_is_no_header_is_not_taken_for_one(line: bytes, remedy: str):
    with pytest.raises(UnreadableHeader, match=remedy):
        CsvFile(lambda: io.BytesIO(line + b"1,tea\n"), CsvFormat())


def test_a_workbook_is_told(tmp_path: Path):
    path = tmp_path / "book.csv"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sheet", "x" * 1000)
    with pytest.raises(UnsuitableTable, match="save the sheet as CSV"):
        counted(path, {})


def test_a_mark_before_the_first_row_is_not_its_first_user():
    form = CsvFormat(columns=("user", "drink"))
    csv_file = CsvFile(lambda: io.BytesIO("\ufeff1,tea\n".encode()), form)
    assert [batch.to_pylist() for batch in csv_file.batches(["user"])] == [[{"user": "1"}]]


class Dripping(io.BytesIO):
    """A file that gives few bytes at a time."""

    def __init__(self, data: bytes, rng: random.Random) -> None:
        super().__init__(data)
        self._rng = rng

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 1, self._rng.randint(1, 4)))


def test_bytes_are_changed_the_same_wherever_reads_begin():
    rng = random.Random(3)
    characters = ["a", ":", ":", '"', "\n", "\r", "é", "\U0001f375", "\x1f", "\ud800", "\udc00", ","]
    for _ in range(500):
        text = "".join(rng.choice(characters) for _ in range(rng.randint(0, 30)))
        separator, encoding = rng.choice([",", "::", ":::"]), rng.choice(["utf-16-le", "utf-16-be", "utf-16"])
        form = CsvFormat(separator=separator, encoding=encoding, columns=("a",))
        data = text.encode("utf-16-be" if encoding == "utf-16-be" else "utf-16-le", "surrogatepass")
        mark = b"" if encoding == "utf-16-be" else b"\xff\xfe"
        plain = data.decode("utf-16-be" if encoding == "utf-16-be" else "utf-16-le", "surrogatepass")
        expected = plain.encode("utf-8", "surrogatepass")
        if len(separator) > 1:
            expected = expected.replace(b"\x1f", b"\xff").replace(separator.encode(), b"\x1f")
        changed = form.open_converted(Dripping(mark + data, rng), "table.csv")
        read = b""
        while piece := changed.read(5):
            read += piece
        assert read == expected


def test_a_separator_of_two_characters_belongs_to_a_cell_in_quotes():
    form = CsvFormat(separator="::")
    data = b'a::b\n"x::y"::z:\n1::2::3\n4::\x1f5\n'
    csv_file = CsvFile(lambda: form.open_converted(io.BytesIO(data), "table.dat"), form)
    assert [tuple(row.values()) for batch in csv_file.batches(["a", "b"]) for row in batch.to_pylist()] == [
        ("x::y", "z:"),
        ("4", None),
    ]

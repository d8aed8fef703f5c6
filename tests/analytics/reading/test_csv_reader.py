"""CSV is read by its specification, whatever the bytes and wherever blocks begin, and a line decides about no other."""

import gzip
import io
import json
import random
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.csv_format import CsvFormat
from setwise.analytics.engines.csv_reader import CsvFile
from setwise.analytics.engines.csv_records import Layout
from setwise.cli.main import app
from setwise.errors import InvalidParameter, UnsuitableTable
from tests.analytics.reading import csv_specification
from tests.sizes import cases

TOKENS = [b'"', b'"', b",", b",", b"\n", b"\n", b"\r", b"\r\n", b"a", b'""', b"\0", b"\xff", b"\xc3\xa9", b"x y"]
TOKENS += [b',"', b'",', b'"\n']
NAMES = ("a", "b", "c")
Row = tuple[str | None, ...]


def soup(rng: random.Random, width: int, crlf: bool) -> bytes:
    """Return bytes that look like CSV: random tokens, or records with some damage between them."""
    if rng.random() < 0.6:
        return b"".join(rng.choice(TOKENS) for _ in range(rng.randint(0, 40)))
    data = b""
    for _ in range(rng.randint(1, 8)):
        cells = []
        for _ in range(width):
            cell = b"".join(rng.choice(TOKENS) for _ in range(rng.randint(0, 4)))
            needed = any(byte in cell for byte in b'",\n\r')
            cells.append(b'"' + cell.replace(b'"', b'""') + b'"' if needed or rng.random() < 0.6 else cell)
        data += b",".join(cells) + (b"\r\n" if crlf else b"\n")
        if rng.random() < 0.15:
            data += b"".join(rng.choice(TOKENS) for _ in range(4))
    return data


def rows_of(csv_file: CsvFile, layout: Layout | None = None) -> list[Row]:
    return [
        tuple(row.values())
        for batch in csv_file.batches(csv_file.names, layout)
        for row in batch.to_pylist()
        if any(cell is not None for cell in row.values())
    ]


def decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def specified(data: bytes, layout: Layout, quote: bytes = b'"') -> list[Row]:
    found = csv_specification.read(data, layout.width, quote=quote, crlf=layout.crlf, longest=layout.longest)
    rows = [tuple(decoded(cell) for cell in record) for record in found]
    return [row for row in rows if any(cell is not None for cell in row)]


@pytest.mark.parametrize("seed", range(cases(5)))
def test_any_bytes_are_read_as_specified_wherever_blocks_begin(seed: int):
    rng = random.Random(seed)
    for _ in range(600):
        width, crlf = rng.randint(1, 3), rng.random() < 0.4
        layout = Layout(
            width=width,
            separator=ord(","),
            crlf=crlf,
            block=rng.choice([1, 2, 3, 5, 8, 16, 64, 1000]),
            step=rng.choice([1, 2, 3, 7, 64]),
            longest=rng.choice([3, 6, 10, 20, 10**9]),
        )
        header = ",".join(NAMES[:width]).encode() + (b"\r\n" if crlf else b"\n")
        data = soup(rng, width, crlf)
        csv_file = CsvFile(lambda data=header + data: io.BytesIO(data), CsvFormat())
        assert rows_of(csv_file, layout) == specified(data, layout), (data, layout)


@pytest.mark.parametrize("seed", range(cases(5)))
def test_any_bytes_with_cells_in_single_quotes_are_read_as_specified(seed: int):
    rng = random.Random(seed)
    for _ in range(600):
        width, crlf = rng.randint(1, 3), rng.random() < 0.4
        layout = Layout(
            width=width, separator=ord(","), crlf=crlf, block=rng.choice([1, 3, 8, 64, 1000]), step=rng.choice([1, 7])
        )
        header = ",".join(NAMES[:width]).encode() + (b"\r\n" if crlf else b"\n")
        data = soup(rng, width, crlf)
        if rng.random() < 0.9:  # cells in single quotes, often with double quotes in them
            data = data.translate(bytes.maketrans(b"\"'x", b'\'""'))
        form = CsvFormat(quote="'")

        def open_file(data: bytes = header + data, form: CsvFormat = form) -> BinaryIO:
            return form.open_converted(io.BytesIO(data), "table.csv")

        assert rows_of(CsvFile(open_file, form), layout) == specified(data, layout, b"'"), (data, layout)


@pytest.mark.parametrize("seed", range(cases(3)))
def test_any_bytes_without_quotes_around_cells_are_read_as_specified(seed: int):
    """A quote is then text; no byte of the file has the meaning of one (here a byte that no file has, 0x1d)."""
    rng = random.Random(100 + seed)
    form = CsvFormat(quote="none")
    for _ in range(600):
        width, crlf = rng.randint(1, 3), rng.random() < 0.4
        layout = Layout(
            width=width, separator=ord(","), crlf=crlf, block=rng.choice([1, 3, 8, 64, 1000]), step=rng.choice([1, 7])
        )
        header = ",".join(NAMES[:width]).encode() + (b"\r\n" if crlf else b"\n")
        data = soup(rng, width, crlf)

        def open_file(data: bytes = header + data) -> BinaryIO:
            return form.open_converted(io.BytesIO(data), "table.csv")

        assert rows_of(CsvFile(open_file, form), layout) == specified(data, layout, b"\x1d"), (data, layout)


def test_a_compressed_file_is_read_forwards_a_second_time_at_most():
    """Records that cross blocks are looked for ahead; the look never begins anew at the start of the file."""
    opened = []

    class Forwards(io.BytesIO):
        def seek(self, *_: int) -> int:
            raise AssertionError("a compressed file cannot go back")

    def open_file() -> io.BytesIO:
        opened.append(1)
        return Forwards(data)

    rng = random.Random(1)
    cells = ["x" * rng.randint(1, 60) + "\n" * rng.randint(0, 2) for _ in range(2000)]
    data = b"a,b\n" + "".join(f'{place},"{cell}"\n' for place, cell in enumerate(cells)).encode()
    csv_file = CsvFile(open_file, CsvFormat())
    opened.clear()
    layout = Layout(width=2, separator=ord(","), crlf=False, block=1000, step=16)
    assert rows_of(csv_file, layout) == [(str(place), cell) for place, cell in enumerate(cells)]
    assert len(opened) == 2


def lost_lines(line: bytes, suffix: str, folder: Path) -> dict[str | int, int]:
    text = b"who,what\n" + b"a,x\n" * 2000 + line + b"\n" + b'b,"x"\nb,"y\nz"\n'
    file = folder / f"table{suffix}"
    match suffix:
        case ".csv.gz":
            file.write_bytes(gzip.compress(text))
        case ".csv.zst":
            file.write_bytes(pa.compress(text, "zstd", asbytes=True))
        case _:
            file.write_bytes(text)
    with open_engine(file) as engine:
        found = engine.histogram(Aggregation(user="who", item="what"))
    return dict(zip(found.labels, found.counts.tolist(), strict=True))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.zst"])
@pytest.mark.parametrize(
    "line",
    [
        b'c,"x',
        b'c,x"y',
        b"c",
        b"c" + b"," * 30_000,
        b"c,\xff",
        b"c,\x00",
        b"c,x\ry,z",
        b'"c',
        b'""c,x',
        b"c," * 2 + b"\r",
    ],
)
def test_a_damaged_line_loses_itself_alone(line: bytes, suffix: str, tmp_path: Path):
    found = lost_lines(line, suffix, tmp_path)
    assert {label: found[label] for label in ("x", "y\nz")} == {"x": 2, "y\nz": 1}


def test_a_cell_across_the_border_of_a_block_is_whole(tmp_path: Path):
    file, long = tmp_path / "table.csv", "long\n" * 300_000
    row = b"a,x\n"
    file.write_bytes(b"who,what\n" + row * (2**21) + f'b,"{long}"\nc,x\n'.encode())
    with open_engine(file) as engine:
        found = engine.histogram(Aggregation(user="who", item="what"))
    assert dict(zip(found.labels, found.counts.tolist(), strict=True)) == {"x": 2, long: 1}


def test_a_record_too_long_to_be_held_is_lost_whole(tmp_path: Path):
    """Reading on inside of it would take its cells for the rows of others."""
    file = tmp_path / "table.csv"
    file.write_bytes(b'who,what\na,x\nb,"' + b"z,secret\n" * (2**23) + b'"\nc,x\n' + b"d" * (2**26 + 1) + b",x\nd,x\n")
    with open_engine(file) as engine:
        found = engine.histogram(Aggregation(user="who", item="what"))
    assert dict(zip(found.labels, found.counts.tolist(), strict=True)) == {"x": 3}


def test_files_share_names_in_any_order(tmp_path: Path):
    (tmp_path / "1.csv").write_text("who,what\na,x\n")
    (tmp_path / "2.csv").write_bytes(b"\xef\xbb\xbfwhat,who\r\nx,b\r\n")
    (tmp_path / "3.csv").write_bytes(b"")
    with open_engine(tmp_path) as engine:
        assert engine.describe().names == ("who", "what")
        assert engine.histogram(Aggregation(user="who", item="what")).counts.tolist() == [2]
    (tmp_path / "4.csv").write_text("who,much\na,x\n")
    with pytest.raises(UnsuitableTable, match="has other columns than"):
        open_engine(tmp_path)


def test_a_torn_archive_is_refused_without_its_rows(tmp_path: Path):
    file = tmp_path / "table.csv.gz"
    rng = random.Random(1)
    data = gzip.compress(b"who,what\n" + b"".join(f"{rng.random()},x\n".encode() for _ in range(50_000)))
    file.write_bytes(data[:-1000])
    with open_engine(file) as engine, pytest.raises(UnsuitableTable) as raised:
        engine.histogram(Aggregation(user="who", item="what"))
    assert raised.value.__context__ is None


def test_single_byte_encodings_and_files_without_a_header():
    data = "dag;Zoë\r\n".encode("cp1252") + b"\x81;x\r\n"
    form = CsvFormat(separator=";", columns=("when", "who"), encoding="cp1252")
    csv_file = CsvFile(lambda: form.open_converted(io.BytesIO(data), "table.csv"), form)
    assert rows_of(csv_file) == [("dag", "Zoë"), (None, "x")]
    for bad in ({"encoding": "gbk"}, {"encoding": "nonsense"}, {"separator": "é"}, {"columns": ("a", "a")}):
        with pytest.raises(ValueError, match="must be"):
            CsvFormat(**bad)


def test_the_holder_says_how_a_file_is_written(tmp_path: Path):
    file = tmp_path / "export.txt"
    file.write_bytes("".join(f"{who};Zoë\r\n" for who in range(50)).encode("cp1252"))
    given = {"separator": ";", "columns": ["who", "what"], "encoding": "cp1252"}
    with setwise.open(file, user="who", **given) as session:
        assert session.schema.names == ("who", "what")
        assert session.top_k(item="what", k=1, epsilon=100, delta=1e-3, contributions=1).labels == ("Zoë",)
    words = ["--separator", ";", "--no-header", "--columns", "who,what", "--encoding", "cp1252"]
    asked = ["top-k", str(file), "--user", "who", "--item", "what", "-k", "1", "--epsilon", "100", "--delta", "0.001"]
    told = CliRunner().invoke(app, [*asked, "--contributions", "1", "--json", *words])
    assert json.loads(told.stdout)["items"][0]["item"] == "Zoë"
    for wrong, match in (({"separator": "é"}, "the separator"), ({"encoding": "utf-7"}, "the encoding")):
        with pytest.raises(InvalidParameter, match=match):
            setwise.open(file, user="who", **(given | wrong))


def others_records(rng: random.Random, shape: str) -> list[bytes]:
    """Return well-formed records of others, each with a cell of its own: of one line, or of several."""
    records = []
    for place in range(rng.randint(1, 6)):
        inner = "".join(
            rng.choice(["x", '""', ",", "" if shape == "single" else "\n"]) for _ in range(rng.randint(0, 5))
        )
        start = "t" if shape == "text first" or not inner else ""
        records.append(f'{place},"{start}{inner}"\n'.encode() if rng.random() < 0.7 else f"{place},x\n".encode())
    return records


@pytest.mark.parametrize(("shape", "swallowed"), [("single", False), ("text first", False), ("any", True)])
def test_raw_damage_swallows_only_records_that_span_lines_and_begin_with_an_end(shape: str, swallowed: bool):
    """The limit of docs/reading.md: no reader can do better where a separator or line end follows an opening quote."""
    rng = random.Random(7)
    lost = 0
    for _ in range(10_000):
        records = others_records(rng, shape)
        damage = b"".join(rng.choice([b'"', b'"', b",", b"z", b'""']) for _ in range(rng.randint(1, 6))) + b"\n"
        place = rng.randint(0, len(records))
        with_damage = b"".join([*records[:place], damage, *records[place:]])
        before, after = (csv_specification.read(data, 2) for data in (b"".join(records), with_damage))
        lost += not set(before) <= set(after)
    assert bool(lost) is swallowed

"""Hostile rows for any engine and format: pairs of tables that differ in the rows of one user.

Adding the rows of one user, whatever is in them, may change neither success, nor the kind of an error, nor the schema,
nor any other user's rows, and adds no more rows than were written. Every row of the others has a label of its own, so
that the histogram of labels shows each of their rows and the histogram of users shows whose they are.
"""

import csv
import gzip
import io
import itertools
import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Kind

HOSTILE = "zz"
COLUMNS = ("u", "i", "v", "t")
Row: TypeAlias = tuple[Any, ...]
Source: TypeAlias = tuple[Any, str, str | None]
"""What `open_engine` is given: a source, an engine, and the name of a table."""

TOKENS = ['"', '""', ",", "\t", "\n", "\r", "\r\n", "\0", "a", "é", "\ufeff", "'", "\\", " ", "=1", "\u2028"]
TOKENS += ["\nu1,forged,1,x\n", "\ru1,forged,1,x\r"]
BROKEN = [b"\xff", b"\xfe\xfd", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\x80"]
NUMBERS = ["2.0", "-0", "9223372036854775808", "1e400", "nan", "9" * 23, "2.5", " 7 ", "", "x", "1,0"]
INTEGERS = [2**62, -(2**62), 2**63 - 1, -(2**63), 253402300800000, 0]
FOLDERS = ["0100", "01", "x", "2.5", "2024-01-01", "true", "1e3", "__HIVE_DEFAULT_PARTITION__", "%FF", "a%2Fb"]
OBJECTS = [None, 2**70, b"\xff", 1.5, "\ud800", float("nan"), ("a",), 7]


def text_cell(rng: random.Random) -> str:
    """Return a cell of text that a correct writer can write."""
    match rng.randrange(6):
        case 0:
            return rng.choice(NUMBERS)
        case 1:
            return "x" * rng.choice([10, 70_000, 3_000_000])
        case _:
            return "".join(rng.choice(TOKENS) for _ in range(rng.randint(0, 8)))


def raw_line(rng: random.Random) -> bytes:
    """Return a line of damaged bytes without a line feed, so that it is one user's own line."""
    tokens = [b'"', b'"', b'""', b",", b"\r", b"\0", b"a", b" ", *BROKEN]
    inner = b"".join(rng.choice(tokens) for _ in range(rng.choice([0, 3, 6, 12])))
    if rng.random() < 0.05:
        inner += b"," * rng.choice([40, 30_000])
    if rng.random() < 0.03:
        inner += b"y" * 3_000_000
    whole = rng.choice(BROKEN) + b",zz-own,1,x"
    return rng.choice([b"zz," + inner, b"zz" + inner, inner, whole])


@dataclass(frozen=True)
class Case:
    """What the hostile user adds to a table, and before which of the others' rows."""

    place: int
    cells: tuple[Row, ...]
    raw: tuple[bytes, ...]
    broken: bytes
    integer: int
    folder: str
    object: Any

    def inserted(self, rows: list[Row], mine: list[Row]) -> list[Row]:
        return rows[: self.place] + mine + rows[self.place :]


def cases(seed: int, count: int, rows: int) -> Iterator[Case]:
    """Yield what one user may do to a table of so many rows."""
    rng = random.Random(seed)
    for _ in range(count):
        yield Case(
            place=rng.randint(0, rows),
            cells=tuple(
                (HOSTILE, text_cell(rng), rng.choice(NUMBERS), text_cell(rng)) for _ in range(rng.randint(1, 3))
            ),
            raw=tuple(raw_line(rng) for _ in range(rng.randint(1, 3))),
            broken=rng.choice(BROKEN),
            integer=rng.choice(INTEGERS),
            folder=rng.choice(FOLDERS),
            object=rng.choice(OBJECTS),
        )


def others(seed: int, users: int = 12) -> list[Row]:
    """Return rows of other users. Some of their cells need quotes, none spans lines; one is named U+FFFD."""
    rng = random.Random(seed)
    dress = ["{}", "{}, with a comma", '{} "quoted"', "{}é", " {} ", "{}'"]
    names = [f"u{user}" for user in range(users)] + ["\ufffd"]
    return [
        (name, rng.choice(dress).format(f"{name}-{row}"), str(rng.randint(1, 9)), "2024-01-02 00:00:00")
        for name in names
        for row in range(rng.randint(1, 3))
    ]


Writer: TypeAlias = Callable[[Path, list[Row], Case | None], Any]


def _csv(rows: list[Row], end: str, quoting: int, separator: str) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(
        text, lineterminator=end, quoting=quoting, delimiter=separator if len(separator) == 1 else "\x1f"
    )
    writer.writerows(rows)  # type: ignore[arg-type]
    return text.getvalue().replace("\x1f", separator).encode("utf-8", "surrogatepass")


def csv_writer(
    *,
    raw: bool,
    suffix: str = ".csv",
    end: str = "\n",
    quoting: int = csv.QUOTE_MINIMAL,
    how: CsvOptions | None = None,
) -> Writer:
    """Return a writer of CSV with hostile cells, well written, or with raw hostile lines, as the options read it."""
    how = how or CsvOptions()
    separator = how.separator or ","

    def write(folder: Path, rows: list[Row], case: Case | None) -> tuple[str, CsvOptions]:
        place, middle = 0, b""
        if case is not None:
            place = case.place
            lines = b"".join(line.replace(b",", separator.encode()) + end.encode() for line in case.raw)
            # A lone carriage return, which csv.writer leaves bare, is written in quotes.
            middle = lines if raw else _csv(list(case.cells), end, csv.QUOTE_ALL, separator)
        data = b"" if how.columns else _csv([COLUMNS], end, quoting, separator)
        data += _csv(rows[:place], end, quoting, separator) + middle + _csv(rows[place:], end, quoting, separator)
        if suffix.startswith(".tsv"):
            data = data.replace(b",", b"\t")
        if how.encoding != "utf-8":
            data = data.decode("utf-8", "surrogatepass").encode(how.encoding, "surrogatepass")
        if suffix.endswith(".gz"):
            data = gzip.compress(data)
        if suffix.endswith(".zst"):
            data = pa.compress(data, "zstd", asbytes=True)
        path = folder / f"table{suffix}"
        path.write_bytes(data)
        return str(path), how

    return write


def arrow_table(
    rows: list[Row], case: Case | None, unit: str = "us", zone: str | None = None, broken: str = ""
) -> pa.Table:
    """Return the rows as Arrow; the hostile user's are broken text in one column, and extreme numbers and times."""
    every = [(row[0].encode(), row[1].encode(), int(row[2]), 1_700_000_000) for row in rows]
    if case is not None:
        label = case.cells[0][1].encode("utf-8", "replace")
        user, item = (case.broken if broken == "u" else HOSTILE.encode()), (case.broken if broken == "i" else label)
        every = case.inserted(every, [(user, item, case.integer, case.integer)])
    users, items, values, times = zip(*every, strict=True)
    return pa.table(
        {
            "u": pa.array(users, pa.binary()).view(pa.string()),
            "i": pa.array(items, pa.binary()).view(pa.string()),
            "v": pa.array(values, pa.int64()),
            "t": pa.array(times, pa.int64()).cast(pa.timestamp(unit, zone)),
        }
    )


def parquet_writer(*, dictionary: bool = False, **options: Any) -> Writer:
    """Return a writer of one Parquet file."""

    def write(folder: Path, rows: list[Row], case: Case | None) -> str:
        path = folder / "table.parquet"
        pq.write_table(arrow_table(rows, case, **options), path, use_dictionary=dictionary, version="2.6")
        return str(path)

    return write


def arrow_writer(**options: Any) -> Writer:
    """Return a writer of a table in memory."""
    return lambda folder, rows, case: arrow_table(rows, case, **options)


def pandas_writer(folder: Path, rows: list[Row], case: Case | None) -> Any:
    """Return a frame with columns of objects."""
    import pandas as pd

    del folder
    every = rows if case is None else case.inserted(rows, [(HOSTILE, case.object, case.integer, None)])
    users, items, values, times = zip(*every, strict=True)
    return pd.DataFrame(
        {
            "u": pd.Series(users, dtype=object),
            "i": pd.Series(items, dtype=object),
            "v": pd.Series(list(map(int, values)), dtype="int64"),
            "t": pd.Series(times, dtype=object),
        }
    )


def polars_writer(folder: Path, rows: list[Row], case: Case | None) -> Any:
    """Return a Polars frame with times in milliseconds."""
    import polars as pl

    del folder
    table = arrow_table(rows, case, unit="ms")
    return pl.DataFrame({name: table.column(name).to_pylist() for name in ("u", "i", "v")}).with_columns(
        t=pl.Series(table.column("t").cast(pa.int64()).to_pylist(), dtype=pl.Int64).cast(pl.Datetime("ms"))
    )


def _mine(case: Case) -> list[Row]:
    texts = [tuple(cell.encode("utf-8", "replace").decode() for cell in row) for row in case.cells]
    return [*texts, (HOSTILE, case.broken, 2.5, b"\0"), (HOSTILE, 7, "x", None)]


def sqlite_writer(folder: Path, rows: list[Row], case: Case | None) -> str:
    """Write a table of SQLite, in which any cell may hold anything."""
    path = folder / "table.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE rows (u TEXT, i TEXT, v INTEGER, t TEXT)")
        every = rows if case is None else case.inserted(rows, _mine(case))
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", every)
        if case is not None:
            connection.execute("INSERT INTO rows VALUES (?, CAST(? AS TEXT), 1, NULL)", (HOSTILE, case.broken))
    connection.close()
    return f"{path}::rows"


def duckdb_writer(folder: Path, rows: list[Row], case: Case | None) -> str:
    """Write a table of a DuckDB file."""
    import duckdb

    path = folder / "table.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE rows (u VARCHAR, i VARCHAR, v BIGINT, t TIMESTAMP)")
        mine = [] if case is None else [(HOSTILE, row[1], case.integer, "infinity") for row in case.cells]
        every = rows if case is None else case.inserted(rows, mine)
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", every)
    return f"{path}::rows"


def hive_writer(key: str) -> Writer:
    """Return a writer of Parquet files in folders such as i=100, one of which the hostile user names."""

    def write(folder: Path, rows: list[Row], case: Case | None) -> str:
        mine: list[Row] = []
        if case is not None:
            mine = [(case.folder, "zz-1", "1", "x") if key == "u" else (HOSTILE, case.folder, "1", "x")]
        for number, row in enumerate(hive_rows(rows, key) + mine):
            part = folder / "table" / f"{key}={row[COLUMNS.index(key)]}"
            part.mkdir(parents=True, exist_ok=True)
            stored = {name: [cell] for name, cell in zip(COLUMNS, row, strict=True) if name != key}
            pq.write_table(pa.table(stored), part / f"{number}.parquet")
        return str(folder / "table")

    return write


def hive_rows(rows: list[Row], key: str) -> list[Row]:
    """Return the rows with names that look like numbers where they become names of folders."""
    if key == "u":
        return [(str(ord(row[0][-1]) + 1000), *row[1:]) for row in rows]
    return [(row[0], str(number + 100), *row[2:]) for number, row in enumerate(rows)]


def lake_writer(
    lake: str, *, unit: str = "us", zone: str | None = None, stored: str | None = None, broken: str = ""
) -> Writer:
    """Return a writer of a lake table whose one file is put there past the library, which would refuse broken text.

    The table says that times are in `unit`; the file holds them in the unit `stored`, by default the same. The metadata
    is made once in the folder of the test, and every pair replaces the file.
    """

    def write(folder: Path, rows: list[Row], case: Case | None) -> str:
        place = folder.parent / f"{lake}_table"
        if not place.exists():
            empty = arrow_table(rows, None, unit=unit, zone=zone)
            (write_delta if lake == "delta" else write_iceberg)(place, empty)
        [file] = place.rglob("*.parquet")
        table = arrow_table(rows, case, unit=stored or unit, zone=zone, broken=broken)
        ids = pq.read_schema(file)
        fields = [pa.field(cell.name, cell.type, metadata=ids.field(cell.name).metadata) for cell in table.schema]
        pq.write_table(table.cast(pa.schema(fields)), file, version="2.6")
        return str(place)

    return write


def write_delta(place: Path, table: pa.Table, **options: Any) -> None:
    """Write a Delta table with one file."""
    import deltalake

    deltalake.write_deltalake(str(place), table, **options)


def write_iceberg(place: Path, table: pa.Table, partition: dict[str, Any] | None = None) -> Any:
    """Write an Iceberg table, hidden partitions by transforms of columns, and return it."""
    from pyiceberg.catalog.sql import SqlCatalog

    beside = place.parent / f"{place.name}_catalog"
    beside.mkdir()
    catalog = SqlCatalog("here", uri=f"sqlite:///{beside}/catalog.db", warehouse=f"file://{place.parent}")
    catalog.create_namespace("lake")
    made = catalog.create_table("lake.t", schema=table.schema, location=f"file://{place}")
    for name, transform in (partition or {}).items():
        with made.update_spec() as update:
            update.add_field(name, transform, f"{name}_part")
    made.append(table)
    return made


def partitioned_lake_writer(lake: str) -> Writer:
    """Return a writer of partitions that the hostile user's label decides: by the label, or hidden ones."""

    def write(folder: Path, rows: list[Row], case: Case | None) -> str:
        place = folder / "table"
        table = arrow_table(rows, None)
        if case is not None:
            label = case.cells[0][1].encode("utf-8", "replace").decode()[:40].replace("\0", "")
            mine = arrow_table([(HOSTILE, label, "1", "x")], None)
            table = pa.concat_tables([table, mine])
        if lake == "delta":
            write_delta(place, table, partition_by=["i"])
        else:
            from pyiceberg.transforms import BucketTransform, DayTransform, TruncateTransform

            write_iceberg(place, table, {"u": BucketTransform(4), "i": TruncateTransform(2), "t": DayTransform()})
        return str(place)

    return write


TYPED = {"v": Kind.INTEGER, "t": Kind.TIMESTAMP}
CSV_CELLS: dict[str, tuple[Writer, dict[str, Kind]]] = {
    "csv cells": (csv_writer(raw=False), TYPED),
    "csv cells crlf": (csv_writer(raw=False, end="\r\n"), TYPED),
    "csv cells utf-16": (csv_writer(raw=False, end="\r\n", how=CsvOptions(encoding="utf-16-le")), TYPED),
}
CSV_RAW: dict[str, tuple[Writer, dict[str, Kind]]] = {
    "csv raw": (csv_writer(raw=True), TYPED),
    "csv raw crlf": (csv_writer(raw=True, end="\r\n"), TYPED),
    "csv raw all quoted": (csv_writer(raw=True, quoting=csv.QUOTE_ALL), {}),
    "csv.gz raw": (csv_writer(raw=True, suffix=".csv.gz"), {}),
    "csv raw double colons": (csv_writer(raw=True, how=CsvOptions(separator="::")), TYPED),
    "csv raw without header": (csv_writer(raw=True, how=CsvOptions(columns=COLUMNS)), TYPED),
}
FILES: dict[str, tuple[Writer, dict[str, Kind]]] = {
    "parquet text": (parquet_writer(broken="i"), {}),
    "parquet text in dictionaries": (parquet_writer(broken="i", dictionary=True), {}),
    "parquet user": (parquet_writer(broken="u"), {}),
    "parquet ms": (parquet_writer(unit="ms"), {}),
    "parquet ms zone": (parquet_writer(unit="ms", zone="UTC"), {}),
    "hive item": (hive_writer("i"), {}),
    "hive user": (hive_writer("u"), {}),
}
DUCKDB = {
    **CSV_CELLS,
    **CSV_RAW,
    "csv.zst raw": (csv_writer(raw=True, suffix=".csv.zst"), {}),
    **FILES,
    "parquet ns": (parquet_writer(unit="ns"), {}),
    "arrow text": (arrow_writer(broken="i"), {}),
    "arrow s": (arrow_writer(unit="s"), {}),
    "arrow s zone": (arrow_writer(unit="s", zone="UTC"), {}),
    "arrow ms zone": (arrow_writer(unit="ms", zone="UTC"), {}),
    "pandas": (pandas_writer, {}),
    "polars": (polars_writer, {}),
    "duckdb file": (duckdb_writer, {}),
    "sqlite": (sqlite_writer, {}),
}
LAKES = {
    f"{lake} {name}": (lake_writer(lake, **options), {})
    for lake in ("delta", "iceberg")
    for name, options in {
        "text": {"broken": "i"},
        "user": {"broken": "u"},
        "ms in the file": {"stored": "ms"},
        "ms zone in the file": {"stored": "ms", "zone": "UTC"},
        "ns in the file": {"stored": "ns"},
    }.items()
}
LAKE_PARTITIONS = {f"{lake} partitions": (partitioned_lake_writer(lake), {}) for lake in ("delta", "iceberg")}
SPARK = {**CSV_CELLS, **CSV_RAW, **FILES}


@dataclass(frozen=True)
class Outcome:
    """What an analyst could tell: success, the kind of an error, the schema, and the rows of the others."""

    error: str = ""
    schema: tuple[tuple[str, str], ...] = ()
    labels: frozenset[tuple[Any, int]] = frozenset()
    users: frozenset[tuple[Any, int]] = frozenset()
    rows: int = field(default=0, compare=False)
    strangers: frozenset[Any] = field(default=frozenset(), compare=False)


def outcome(source: Source, types: dict[str, Kind], known: list[Row], how: CsvOptions | None = None) -> Outcome:
    """Return what comes of opening the table and asking it for labels, users and late rows."""
    schema: tuple[tuple[str, str], ...] = ()
    place, engine, table = source
    try:
        with open_engine(place, engine, table=table, types=types, csv=how) as opened:
            schema = tuple((column.name, str(column.kind)) for column in opened.describe())
            kinds = dict(schema)
            value = "v" if kinds["v"] == "integer" else None
            found = opened.histogram(Aggregation(user="u", item="i", per_item=2**40, value=value))
            labels = dict(zip(found.labels, map(int, found.counts), strict=True))
            found = opened.histogram(Aggregation(user="u", item="u", per_item=2**40))
            users = dict(zip(found.labels, map(int, found.counts), strict=True))
            if kinds["t"] in ("timestamp", "instant"):
                late = parse_filter("t >= '2000-01-01'", opened.describe())
                opened.histogram(Aggregation(user="u", where=late))
    except Exception as error:  # its kind is compared
        return Outcome(error=type(error).__name__, schema=schema)
    names, items = {row[0] for row in known}, {row[1] for row in known}
    return Outcome(
        "",
        schema,
        frozenset(each for each in labels.items() if str(each[0]) in items),
        frozenset(each for each in users.items() if str(each[0]) in names),
        sum(users.values()),
        frozenset(users) - names - {HOSTILE},
    )


def violations(
    write: Writer,
    types: dict[str, Kind],
    engine: str,
    folder: Path,
    count: int,
    *,
    key: str = "",
    named: bool = False,
    seed: int = 1,
) -> list[tuple[Case, Outcome, Outcome]]:
    """Return the pairs, of so many, in which the hostile user changed what others or an analyst may see.

    `key` is the column that is in the names of folders. `named` says that all hostile rows have the hostile user's
    name, so that any other new user is forged.
    """
    rows = others(seed)
    known = hive_rows(rows, key) if key else rows
    numbers = itertools.count()

    def told(case: Case | None) -> Outcome:
        part = folder / str(next(numbers))
        part.mkdir()
        written = write(part, rows, case)
        match written:
            case str() as path, CsvOptions() as how:
                return outcome((path, engine, None), types, known, how)
            case tuple():
                return outcome(written, types, known)
            case _:
                return outcome((written, engine, None), types, known)

    without = told(None)
    assert not without.error, f"the table without the hostile user is refused: {without.error}"
    assert len(without.labels) == len(known)
    found = []
    for case in cases(seed, count, len(rows)):
        with_them = told(case)
        written = max(len(case.raw), len(case.cells)) + 3
        forged = with_them.rows - without.rows > written or (named and with_them.strangers)
        if with_them != without or forged:
            found.append((case, without, with_them))
    return found

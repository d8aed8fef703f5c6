"""Hostile definitions of lake tables: whatever the metadata and the files say, no row decides what comes of a question.

A definition is either read in every case or refused when the table is opened, with the same sentence whatever the rows
are: each is tried with and without the row that a careless reader would fail on.
"""

import json
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.filter.parser import parse_filter
from setwise.errors import EngineFailed, UnsuitableTable
from tests.analytics.reading.hostile import write_iceberg
from tests.analytics.reading.test_lake_tables import deletion_vector

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

SECRET = "s3cr3t-cell"


def counts(engine: Engine, item: str = "g", **words: Any) -> dict[Any, int]:
    found = engine.histogram(Aggregation(user="u", item=item, **words))
    return dict(zip(found.labels, map(int, found.counts), strict=True))


def rows(*cells: tuple[Any, ...], u: str = "string", x: Any = "int64") -> pa.Table:
    """Return a table of users, groups and values, of the types `u` and `x`."""
    users, groups, values = zip(*cells, strict=True)
    return pa.table({"u": pa.array(users, u), "g": pa.array(groups, pa.string()), "x": pa.array(values, x)})


PLAIN = rows(("a", "NO", 1), ("b", "SE", 2), ("c", "NO", 3))

DELTA_TYPES = {
    "int64": "long", "int32": "integer", "string": "string", "double": "double", "float": "float", "bool": "boolean",
    "timestamp[us, tz=UTC]": "timestamp", "date32[day]": "date", "binary": "binary",
}  # fmt: skip


class Delta:
    """A Delta table whose log is written by hand, so that it may say anything."""

    name = "Delta"

    def __init__(self, place: Path, table: pa.Table, **metadata: Any) -> None:
        self.place = place
        self.log = place / "_delta_log"
        self.log.mkdir(parents=True)
        self._version = 0
        fields = [
            {"name": cell.name, "type": DELTA_TYPES[str(cell.type)], "nullable": True, "metadata": {}}
            for cell in table.schema
        ]
        described = {
            "id": "11111111-2222-3333-4444-555555555555",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": 1,
        }
        self.commit(
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": described | metadata},
            self.add("first.parquet", table),
        )

    def add(self, path: str, table: pa.Table | None = None, **words: Any) -> dict[str, Any]:
        """Write a file, and return the line that adds it."""
        if table is not None:
            file = self.place / path
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, file)
        line = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
        return {"add": line | words}

    def commit(self, *lines: dict[str, Any]) -> None:
        text = "\n".join(map(json.dumps, lines)) + "\n"
        (self.log / f"{self._version:020}.json").write_text(text)
        self._version += 1


def replace_file(place: Path, table: pa.Table) -> None:
    """Replace the one data file of a table, past its library; identifiers of columns stay."""
    [file] = place.rglob("*.parquet")
    ids = pq.read_schema(file)
    fields = [
        pa.field(cell.name, cell.type, metadata=ids.field(cell.name).metadata if cell.name in ids.names else None)
        for cell in table.schema
    ]
    pq.write_table(table.cast(pa.schema(fields)), file)


def make(lake: str, place: Path, table: pa.Table) -> None:
    if lake == "Delta":
        deltalake.write_deltalake(str(place), table)
    else:
        write_iceberg(place, table)


LAKES = pytest.mark.parametrize("lake", ["Delta", "Iceberg"])


def outcome(place: Path, ask: Callable[[Engine], Any] = counts) -> str:
    """Return what an analyst sees: the answer without the group of the hostile row, or the error as it is told."""
    try:
        with open_engine(str(place)) as engine:
            found = ask(engine)
    except (UnsuitableTable, EngineFailed) as error:
        told = f"{type(error).__name__}: {error}, {error.__cause__!r}, {error.__context__!r}"
        return told.replace(str(place.parent), "")
    return repr(sorted((label, count) for label, count in found.items() if label != "XX"))


def with_row(*hostile: tuple[Any, ...], plain: Any = 1, **types: Any) -> tuple[pa.Table, pa.Table]:
    """Return a table of one plain row, and the same with hostile rows after it."""
    first = ("a", "NO", plain)
    return rows(first, **types), rows(first, *hostile, **types)


BROKEN = rows(("z", "XX", 2)).set_column(1, "g", pa.array([b"\xff"], pa.binary()).view(pa.string()))
WIDE = pa.decimal128(38, 0)
HOSTILE_FILES: dict[str, tuple[tuple[pa.Table, pa.Table], bool]] = {
    "null users": (with_row((None, "XX", 2)), True),
    "nan values": (with_row(("z", "XX", float("nan")), ("z", "XX", float("inf")), plain=1.0, x="float64"), True),
    "narrow integers": (with_row(("z", "XX", 2**31 - 1), x="int32"), True),
    "wide integers": (with_row(("z", "XX", 2**63), x="uint64"), False),
    "text for integers": (with_row(("z", "XX", SECRET), plain="1", x="string"), False),
    "doubles for integers": (with_row(("z", "XX", 1e300), plain=1.0, x="float64"), False),
    "decimals for integers": (with_row(("z", "XX", Decimal(10) ** 30), plain=Decimal(1), x=WIDE), False),
    "lists for integers": (with_row(("z", "XX", [1, None]), plain=[1], x=pa.list_(pa.int64())), False),
    "broken text": ((rows(("a", "NO", 1)), pa.concat_tables([rows(("a", "NO", 1)), BROKEN])), True),
}
"""What a file of the table holds without and with the hostile rows, and whether such a table is read or refused."""


@LAKES
@pytest.mark.parametrize("name", list(HOSTILE_FILES))
def test_a_file_of_other_types_or_cells(lake: str, name: str, tmp_path: Path):
    """The table says integers, or doubles for values that are not numbers; the file holds what the name says."""
    tables, is_read = HOSTILE_FILES[name]
    declared = with_row(plain=1.0, x="float64")[0] if name == "nan values" else with_row()[0]

    def summed(engine: Engine) -> dict[Any, int]:
        kinds = {column.name: str(column.kind) for column in engine.describe()}
        sums = counts(engine, value="x" if kinds["x"] == "integer" else None, per_item=2**40)
        return sums | counts(engine, where=parse_filter("x > 0", engine.describe()))

    told = []
    for number, table in enumerate(tables):
        place = tmp_path / str(number) / "table"
        place.parent.mkdir()
        make(lake, place, declared)
        replace_file(place, table)
        told.append(outcome(place, summed).replace(_file_name(place), ""))
    assert told[0] == told[1]
    assert told[0].startswith("UnsuitableTable") != is_read, told
    assert SECRET not in told[1]


def _file_name(place: Path) -> str:
    [file] = place.rglob("*.parquet")
    return file.name


TIMES = {
    "seconds": pa.timestamp("s"),
    "milliseconds": pa.timestamp("ms"),
    "nanoseconds": pa.timestamp("ns"),
    "microseconds": pa.timestamp("us"),
}


def early_users(engine: Engine) -> dict[Any, int]:
    """Count the users other than the hostile one, whose time may be out of range."""
    early = parse_filter("at < '2000-01-01' AND NOT u = 'c'", engine.describe())
    return counts(engine, "u", where=early)


@LAKES
@pytest.mark.parametrize("unit", list(TIMES))
@pytest.mark.parametrize("int96", [False, True])
def test_times_out_of_range(lake: str, unit: str, int96: bool, tmp_path: Path):
    kind = TIMES[unit]
    told = []
    for number, last in enumerate((1, 2**62 // (1000 if unit == "seconds" else 1))):
        base = PLAIN.append_column("at", pa.array([1, 1, 1], pa.int64()).view(pa.timestamp("us")))
        table = PLAIN.append_column("at", pa.array([1, 1, last], pa.int64()).view(kind))
        place = tmp_path / str(number) / "table"
        place.parent.mkdir()
        make(lake, place, base)
        [file] = place.rglob("*.parquet")
        ids = pq.read_schema(file)
        fields = [pa.field(cell.name, cell.type, metadata=ids.field(cell.name).metadata) for cell in table.schema]
        pq.write_table(
            pa.table(table.columns, schema=pa.schema(fields)), file, use_deprecated_int96_timestamps=int96,
            version="2.6",
        )  # fmt: skip
        told.append(outcome(place, early_users))
    assert told[0] == told[1] == "[('a', 1), ('b', 1)]"


@LAKES
def test_nested_columns_are_only_looked_at_for_null(lake: str, tmp_path: Path):
    kinds = {
        "l": pa.list_(pa.string()),
        "s": pa.struct([("deep", pa.list_(pa.struct([("x", pa.int64())])))]),
        "m": pa.map_(pa.string(), pa.int64()),
    }
    cells: dict[str, Any] = {
        "l": [["a"], None, [None]],
        "s": [{"deep": [{"x": 1}]}, None, {"deep": None}],
        "m": [[("k", 1)], None, []],
    }
    table = PLAIN
    for name, kind in kinds.items():
        cells = {
            "l": [["a"], None, [None]],
            "s": [{"deep": [{"x": 1}]}, None, {"deep": None}],
            "m": [[("k", 1)], None, []],
        }
        table = table.append_column(name, pa.array(cells[name], kind))
    place = tmp_path / "table"
    make(lake, place, table)
    with open_engine(str(place)) as engine:
        assert {column.name: str(column.kind) for column in engine.describe()}["l"] == "other"
        for name in kinds:
            where = parse_filter(f"{name} IS NOT NULL", engine.describe())
            assert counts(engine, where=where) == {"NO": 2}


@LAKES
def test_column_names_that_differ_in_case_are_refused(lake: str, tmp_path: Path):
    place = tmp_path / "table"
    table = PLAIN.append_column("G", PLAIN.column("g"))
    if lake == "Delta":
        Delta(place, table)
    else:
        make(lake, place, table)
    with pytest.raises(UnsuitableTable, match=r"differ in upper and lower case|cannot be opened"):
        open_engine(str(place))


@LAKES
@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "missing", "footer"])
def test_a_damaged_file_in_a_snapshot_is_refused_when_the_table_is_opened(lake: str, damage: str, tmp_path: Path):
    place = tmp_path / "table"
    make(lake, place, PLAIN)
    [file] = place.rglob("*.parquet")
    content = file.read_bytes()
    match damage:
        case "truncated":
            file.write_bytes(content[: len(content) // 2])
        case "empty":
            file.write_bytes(b"")
        case "text":
            file.write_text(SECRET * 10)
        case "missing":
            file.unlink()
        case "footer":
            file.write_bytes(content[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1")
    with pytest.raises(UnsuitableTable) as refused:
        open_engine(str(place))
    assert SECRET not in str(refused.value)


@LAKES
def test_a_damaged_page_fails_with_the_same_sentence_whatever_is_asked_of_its_column(lake: str, tmp_path: Path):
    place = tmp_path / "table"
    many = pa.table({"u": [str(n) for n in range(5000)], "g": ["NO"] * 5000, "x": pa.array(range(5000), pa.int64())})
    make(lake, place, many)
    [file] = place.rglob("*.parquet")
    chunk = pq.read_metadata(file).row_group(0).column(2)
    content = bytearray(file.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start : start + chunk.total_compressed_size] = b"\x15" * chunk.total_compressed_size
    file.write_bytes(bytes(content))
    with open_engine(str(place)) as engine:
        assert counts(engine) == {"NO": 5000}, "columns whose pages are sound are read"
        told = set()
        for where in ("x = 1", "x > 10000", "x IS NULL", "x = 4999 AND g = 'XX'"):
            with pytest.raises((UnsuitableTable, EngineFailed)) as refused:
                counts(engine, where=parse_filter(where, engine.describe()))
            told.add(f"{type(refused.value).__name__} {refused.value}")
        assert len(told) == 1


@pytest.mark.parametrize(
    "path", ["../other.parquet", "/tmp/other.parquet", "file:///tmp/other.parquet", "a/../../other.parquet",
             "%2e%2e/other.parquet", "s3://bucket/other.parquet"]
)  # fmt: skip
def test_files_outside_of_the_folder_of_a_delta_table_are_refused(path: str, tmp_path: Path):
    """Otherwise a table could name the files of another one, which has a cap of its own."""
    place = tmp_path / "table"
    pq.write_table(PLAIN, tmp_path / "other.parquet")
    lake = Delta(place, PLAIN)
    lake.commit(lake.add(path))
    with pytest.raises(UnsuitableTable, match=r"outside of its own folder|cannot be opened"):
        open_engine(str(place))


def test_files_outside_of_the_folder_of_an_iceberg_table_are_refused(tmp_path: Path):
    """A folder that was copied still lists the files of the table that it was copied from."""
    import shutil

    write_iceberg(tmp_path / "table", PLAIN)
    shutil.copytree(tmp_path / "table", tmp_path / "copy")
    with pytest.raises(UnsuitableTable, match="outside of its own folder"):
        open_engine(str(tmp_path / "copy"))


@pytest.mark.parametrize(
    ("kind", "value"), [("integer", "seven"), ("date", "yesterday"), ("timestamp", "then"), ("boolean", "perhaps")]
)
def test_values_of_partitions_that_are_not_of_their_type_are_refused(kind: str, value: str, tmp_path: Path):
    place = tmp_path / "table"
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in
              (("u", "string"), ("g", "string"), ("x", "long"), ("p", kind))]  # fmt: skip
    schema = json.dumps({"type": "struct", "fields": fields})
    lake = Delta(place, PLAIN, schemaString=schema, partitionColumns=["p"])
    lake.commit(lake.add("p=1/second.parquet", PLAIN, partitionValues={"p": value}))
    with pytest.raises(UnsuitableTable) as refused:
        open_engine(str(place))
    assert value not in str(refused.value)


def test_partitions_of_a_delta_table_with_any_names(tmp_path: Path):
    values = ["a b", "a%20b", "a/b", "é", "+", "x=y", None, "%"]
    cells = [(str(n), value, n) for n, value in enumerate(values)]
    place = tmp_path / "table"
    deltalake.write_deltalake(str(place), rows(*cells), partition_by=["g"])
    with open_engine(str(place)) as engine:
        assert counts(engine) == {value: 1 for value in values if value is not None}


@pytest.mark.parametrize(
    ("deleted", "counted"), [([0], {"NO": 1, "SE": 1}), ([0, 1, 2], {}), ([0, 700], None)], ids=str
)
def test_deletion_vectors(deleted: list[int], counted: dict[str, int] | None, tmp_path: Path):
    """Rows that are deleted are gone; a deletion beyond the end of the file is refused when the table is opened."""
    place = tmp_path / "table"
    lake = Delta(place, PLAIN)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    vector, stats = deletion_vector(deleted), json.dumps({"numRecords": 3})
    lake.commit(
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": "first.parquet", "deletionTimestamp": 1, "dataChange": True}},
        lake.add("first.parquet", deletionVector=vector, stats=stats),
    )
    if counted is None:
        with pytest.raises(UnsuitableTable, match="cannot be opened as a Delta table"):
            open_engine(str(place))
    else:
        with open_engine(str(place)) as engine:
            assert counts(engine) == counted


def test_statistics_that_lie_decide_nothing(tmp_path: Path):
    """Minima, maxima and counts in the log are for planning; rows that they deny are counted all the same."""
    place = tmp_path / "table"
    lake = Delta(place, PLAIN)
    lies = {"numRecords": 1, "minValues": {"x": 900}, "maxValues": {"x": 901}, "nullCount": {"u": 9, "x": 9}}
    lake.commit(lake.add("second.parquet", PLAIN, stats=json.dumps(lies)))
    with open_engine(str(place)) as engine:
        assert counts(engine, per_item=9) == {"NO": 4, "SE": 2}
        assert counts(engine, where=parse_filter("x <= 3", engine.describe()), per_item=9) == {"NO": 4, "SE": 2}


def test_iceberg_columns_are_found_by_their_identifiers(tmp_path: Path):
    """A column that was dropped and added again is another one; a renamed and a widened column keep their cells."""
    from pyiceberg.types import DoubleType, LongType, StringType

    table = pa.table({"u": ["a", "b"], "g": ["NO", "SE"], "n": pa.array([1, 2], pa.int32()),
                      "f": pa.array([0.5, 1.5], pa.float32()), "gone": ["x", "y"]})  # fmt: skip
    made = write_iceberg(tmp_path / "table", table)
    with made.update_schema() as update:
        update.delete_column("gone")
    with made.update_schema() as update:
        update.add_column("gone", StringType())
        update.rename_column("g", "land")
        update.update_column("n", LongType())
        update.update_column("f", DoubleType())
    made.append(pa.table({"u": ["c"], "land": ["DK"], "n": [2**40], "f": [2.5], "gone": ["z"]}))
    with open_engine(str(tmp_path / "table")) as engine:
        assert set(engine.describe().names) == {"u", "land", "n", "f", "gone"}
        assert counts(engine, "land") == {"NO": 1, "SE": 1, "DK": 1}
        assert counts(engine, "gone") == {"z": 1}
        assert counts(engine, "land", value="n", per_item=2**40) == {"NO": 1, "SE": 2, "DK": 2**40}
        assert counts(engine, "land", where=parse_filter("f > 1", engine.describe())) == {"SE": 1, "DK": 1}


def test_iceberg_partitions_that_changed_and_deletes_by_position(tmp_path: Path):
    """Hidden partitions by bucket, then by month; a delete rewrites one file and leaves the others."""
    from pyiceberg.transforms import BucketTransform, MonthTransform

    at = pa.array([1_700_000_000_000_000, 1_600_000_000_000_000, 1_650_000_000_000_000], pa.timestamp("us"))
    table = PLAIN.append_column("at", at)
    made = write_iceberg(tmp_path / "table", table, {"u": BucketTransform(2)})
    with made.update_spec() as update:
        update.remove_field("u_part")
        update.add_field("at", MonthTransform(), "month")
    made.append(table)
    made.delete("u = 'a'")
    with open_engine(str(tmp_path / "table")) as engine:
        assert counts(engine, per_item=9) == {"NO": 2, "SE": 2}
        assert set(engine.describe().names) == {"u", "g", "x", "at"}


def test_iceberg_position_deletes_are_applied(tmp_path: Path):
    """A delete file that another engine wrote: positions of rows, some of them beyond the end of the file."""
    from setwise.analytics.engines.duckdb import lake

    made = write_iceberg(tmp_path / "table", PLAIN)
    [data] = (tmp_path / "table").rglob("*.parquet")
    path = next(iter(made.scan().plan_files())).file.file_path
    deletes = tmp_path / "table" / "data" / "deletes.parquet"
    pq.write_table(pa.table({"file_path": [path, path], "pos": pa.array([0, 900], pa.int64())}), deletes)

    class File:
        file_path = f"file://{deletes}"

        class file_format:  # noqa: N801
            value = "PARQUET"

    class Task:
        delete_files = (File,)

    folder = lake.LakeFolder(place=str(tmp_path / "table"), format="Iceberg")
    deleted = lake._position_deletes(made.io, [Task], folder)[path]
    assert deleted.tolist() == [0, 900]
    assert lake._kept_rows(deleted, 0, 3).to_pylist() == [
        False,
        True,
        True,
    ]
    assert data.exists()


@pytest.mark.parametrize("lake", ["Delta", "Iceberg"])
@pytest.mark.parametrize("damage", ["{", "null", "[]", '{"schemaString": 1}', "\xff"])
def test_damaged_metadata_is_refused_in_one_sentence(lake: str, damage: str, tmp_path: Path):
    place = tmp_path / "table"
    make(lake, place, PLAIN)
    files = sorted(place.rglob("*.metadata.json")) or sorted(place.rglob("*/0*.json"))
    for file in files:
        file.write_bytes(damage.encode("latin-1"))
    with pytest.raises(UnsuitableTable, match="cannot be opened as") as refused:
        open_engine(str(place))
    assert refused.value.__context__ is None
    assert refused.value.__cause__ is None

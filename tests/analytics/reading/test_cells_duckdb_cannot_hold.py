"""Cells that DuckDB fails on are null in every source, whatever filter they pass, and types depend on no cell."""

import decimal
import time
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.analytics.bins import parse_group
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.measure import Measure
from setwise.analytics.schema import Kind
from setwise.errors import UnsuitableTable

ITEMS = [b"x", b"x", b"\xffy", b"\xc3", b"x"]
USERS = [b"a", b"b", b"c", b"\xfe", b"d"]
FAR = [0, 10**18, -(10**18), 5, 7]


def broken(cells: list[bytes]) -> pa.Array:
    """Return text that Arrow has not looked at."""
    return pa.array(cells, pa.binary()).view(pa.string())


def counted(engine: Engine, **asked: Any) -> dict[str | int, int]:
    found = engine.histogram(Aggregation(**asked))
    return dict(zip(found.labels, found.counts.tolist(), strict=True))


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("kind", ["plain", "category", "large"])
def test_broken_text_in_parquet_is_null_whether_or_not_it_passes_the_filter(
    tmp_path: Path, kind: str, dictionary: bool
):
    items = broken(ITEMS)
    if kind == "category":
        items = pa.DictionaryArray.from_arrays(pa.array(range(5)), items, safe=False)
    if kind == "large":
        items = pa.array(ITEMS, pa.large_binary()).view(pa.large_string())
    table = pa.table({"who": broken(USERS), "what": items, "age": [1, 2, 3, 4, 5]})
    pq.write_table(table, tmp_path / "table.parquet", use_dictionary=dictionary)
    with open_engine(tmp_path / "table.parquet") as engine:
        assert counted(engine, user="who", item="what") == {"x": 3}
        assert counted(engine, user="age", item="what", null_item="none") == {"x": 3, "none": 2}
        for age, wanted in ((3, {}), (5, {"x": 1})):
            where = parse_filter(f"age = {age}", engine.describe())
            assert counted(engine, user="who", item="what", where=where) == wanted


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize("stored", ["parquet", "arrow"])
def test_timestamps_beyond_microseconds_are_null(tmp_path: Path, stored: str, unit: str, zone: str | None):
    table = pa.table({"who": [1, 2, 3, 4, 5], "when": pa.array(FAR).cast(pa.timestamp(unit, zone)), "what": ["x"] * 5})
    source: Any = table
    if stored == "parquet":
        source = tmp_path / "table.parquet"
        pq.write_table(table.set_column(1, "when", pa.array(FAR).cast(pa.timestamp("ms", zone))), source)
    with open_engine(source) as engine:
        assert engine.describe().column("when").kind is (Kind.TIMESTAMP if zone is None else Kind.INSTANT)
        assert counted(engine, user="when", item="what") == {"x": 3}
        where = parse_filter("when >= '1970-01-01'", engine.describe())
        assert counted(engine, user="who", item="what", where=where) == {"x": 3}


@pytest.mark.parametrize("folders", [["a", "b%20c"], ["a", "b%20c", "%FF", "__HIVE_DEFAULT_PARTITION__"]])
def test_folders_that_are_no_text_are_null(tmp_path: Path, folders: list[str]):
    for folder in folders:
        (tmp_path / f"what={folder}").mkdir()
        pq.write_table(pa.table({"who": [1, 2]}), tmp_path / f"what={folder}" / "part.parquet")
    with open_engine(tmp_path) as engine:
        assert [column.kind for column in engine.describe()] == [Kind.INTEGER, Kind.TEXT]
        assert counted(engine, user="who", item="what") == {"a": 2, "b c": 2}


def test_files_of_other_widths_are_refused_by_their_footers(tmp_path: Path):
    pq.write_table(pa.table({"who": pa.array([1], pa.int32())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"who": pa.array([1], pa.int64())}), tmp_path / "2.parquet")
    with pytest.raises(UnsuitableTable, match="columns of other types"):
        open_engine(tmp_path)


OBJECTS = [
    ([1, "Ada", 2.5, None, 2**70, b"\xff", "\ud800", True], ["1", "Ada", None, None, str(2**70), None, None, "true"]),
    (
        [date(2024, 1, 2), decimal.Decimal("1E+3"), decimal.Decimal("nan"), float("nan")],
        ["2024-01-02", "1000", None, None],
    ),
    ([None, None], [None, None]),
    ([1, 2], ["1", "2"]),
]


@pytest.mark.parametrize(("cells", "texts"), OBJECTS)
def test_objects_of_pandas_are_text_cell_by_cell(cells: list[object], texts: list[str | None]):
    frame = pd.DataFrame({"who": range(len(cells)), "what": pd.Series(cells, dtype=object)})
    with open_engine(frame) as engine:
        assert engine.describe().column("what").kind is Kind.TEXT
        assert counted(engine, user="who", item="what") == {text: 1 for text in texts if text is not None}


def test_decimals_too_long_for_duckdb_are_refused_by_type(tmp_path: Path):
    table = pa.table({"who": [1], "much": pa.array([None], pa.decimal256(50, 2))})
    pq.write_table(table, tmp_path / "table.parquet")
    for source in (table, tmp_path / "table.parquet"):
        with pytest.raises(UnsuitableTable, match="more than 38 digits"):
            open_engine(source)


def of_older_kind(path: Path) -> None:
    """Take the newer annotation of the timestamps `when` out of a footer; the older one stays."""
    written = path.read_bytes()
    size = int.from_bytes(written[-8:-4], "little")
    footer = written[-8 - size : -8]
    newer = b"\x4c\x8c\x12\x1c\x2c\0\0\0\0"
    assert footer.count(b"when\x25\x14" + newer) == 1
    footer = footer.replace(newer, b"")
    path.write_bytes(written[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def in_96_bits(path: Path) -> None:
    """Move the year 2200 of timestamps of 96 bits to the year 9999, which nanoseconds of 64 bits do not reach."""
    days = [2440588 + (date(year, 1, 1) - date(1970, 1, 1)).days for year in (2200, 9999)]
    at, far = (bytes(8) + day.to_bytes(4, "little") for day in days)
    written = path.read_bytes()
    assert written.count(at) == 1
    path.write_bytes(written.replace(at, far))


READ_ALIKE: dict[str, tuple[pa.DataType, dict[str, object], Callable[[Path], None]]] = {
    "older annotation": (pa.timestamp("us"), {"store_schema": False}, of_older_kind),
    "96 bits": (pa.timestamp("ns"), {"use_deprecated_int96_timestamps": True, "use_dictionary": False}, in_96_bits),
    "instants": (pa.timestamp("us", "UTC"), {}, lambda path: None),
    "half floats": (pa.float16(), {}, lambda path: None),
}


@pytest.mark.parametrize("name", READ_ALIKE)
def test_a_broken_cell_does_not_change_how_other_columns_are_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    kind, options, changed = READ_ALIKE[name]
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    moments = [datetime(2200, 1, 1), datetime(2024, 7, 1, 3), datetime(1970, 1, 1)]
    values = pa.array([0.5, 2.5, 7.0] if pa.types.is_floating(kind) else moments, kind)
    found = []
    try:
        for cells in ([b"x", b"y", b"z"], [b"x", b"y", b"\xff"]):
            path = tmp_path / f"{len(found)}.parquet"
            table = pa.table({"who": [1, 2, 3], "what": broken(cells), "when": values})
            pq.write_table(table, path, compression="none", write_statistics=False, **options)
            changed(path)
            with open_engine(path) as engine:
                item = parse_group("when by 2" if pa.types.is_floating(kind) else "when by hour")
                where = parse_filter("what <> 'q'", engine.describe())
                found.append((engine.describe(), counted(engine, user="who", item=item, where=where)))
    finally:
        monkeypatch.undo()
        time.tzset()
    (schema, whole), (same_schema, without_third) = found
    assert schema == same_schema
    assert len(whole) == 3
    assert len(without_third) == 2
    assert without_third.items() < whole.items()


NESTED = {
    "list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), broken([b"x", b"\xff"])),
    "record": pa.StructArray.from_arrays([broken([b"x", b"\xff"])], ["text"]),
    "map": pa.MapArray.from_arrays(pa.array([0, 0, 2], pa.int32()), pa.array(["k", "k"]), pa.array([1, 2])),
    "times": pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array([0, 10**18]).cast(pa.timestamp("ms", "UTC"))
    ),
    "durations": pa.array([1, 2**62]).cast(pa.duration("s")),
    "json": pa.ExtensionArray.from_storage(pa.json_(), broken([b"{}", b"\xff"])),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("stored", ["parquet", "arrow"])
def test_what_stands_inside_a_value_that_is_only_looked_at_for_null_decides_nothing(
    tmp_path: Path, stored: str, name: str
):
    cells = NESTED[name]
    values = pa.chunked_array([cells, pa.nulls(1, cells.type)])
    source: Any = pa.table({"who": [1, 2, 3], "what": values})
    if stored == "parquet":
        pq.write_table(source, tmp_path / "table.parquet")
        source = tmp_path / "table.parquet"
    with open_engine(source) as engine:
        counting = Aggregation(user="who", measures=(Measure(column="what", counted=True),))
        assert engine.statistics(counting).totals == ({"all": 2},)
        missing = parse_filter("what IS NULL", engine.describe())
        assert counted(engine, user="who", where=missing) == {"all": 1}


def test_text_that_parquet_calls_an_enumeration_is_checked_too(tmp_path: Path):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"who": [1, 2], "i": broken([b"x", b"\xff"])}), path, store_schema=False)
    text, enumeration = b"\x18\x01i\x25\x00\x4c\x1c\x00\x00", b"\x18\x01i\x25\x08\x4c\x4c\x00\x00"
    written = path.read_bytes()
    assert written.count(text) == 1
    path.write_bytes(written.replace(text, enumeration))
    with open_engine(path) as engine:
        assert counted(engine, user="who", item="i") == {"x": 1}


def test_text_is_checked_by_its_own_name_and_not_by_that_of_a_part_of_a_record(tmp_path: Path):
    record = pa.StructArray.from_arrays([pa.array(["x", "y"])], ["b"])
    table = pa.table({"who": [1, 2], "a": record, "a.b": broken([b"x", b"\xff"])})
    pq.write_table(table, tmp_path / "table.parquet")
    with open_engine(tmp_path / "table.parquet") as engine:
        assert counted(engine, user="who", item="a.b") == {"x": 1}


@pytest.mark.parametrize("folder", ["", "I=7"])
def test_parquet_columns_that_differ_in_case_alone_are_refused(tmp_path: Path, folder: str):
    """DuckDB would call the second one I_1, and nobody would have checked its text."""
    path = tmp_path / folder / "table.parquet"
    path.parent.mkdir(exist_ok=True)
    names = ["who", "i"] if folder else ["who", "i", "I"]
    pq.write_table(pa.table([pa.array(["x"])] * len(names), names), path)
    with pytest.raises(UnsuitableTable, match="differ in upper and lower case"):
        open_engine(path)


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical.from_codes([0, 1], categories=pd.Index(["x", ("y",)], dtype=object)),
        pd.array(["x", "\ud800"], dtype=pd.StringDtype("python")),
    ],
)
def test_categories_and_texts_that_are_objects_of_python_are_text_cell_by_cell(column: Any):
    with open_engine(pd.DataFrame({"who": [1, 2], "what": column})) as engine:
        assert engine.describe().column("what").kind is Kind.TEXT
        assert counted(engine, user="who", item="what") == {"x": 1}

"""Delta and Iceberg tables by their metadata: removed files, deleted rows, added columns, partitions, versions."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import location_of, open_engine
from setwise.analytics.engines.duckdb.sources import file_source
from setwise.analytics.filter.parser import parse_filter
from setwise.errors import UnsuitableTable
from tests.command_line import Done

deltalake = pytest.importorskip("deltalake")
catalogs = pytest.importorskip("pyiceberg.catalog.sql")

ROWS = pa.table({"u": ["a", "b", "c"], "land": ["NO", "SE", "NO"], "n": pa.array([1, 2, 3], pa.int32())})
MORE = pa.table({"u": ["d"], "land": ["DK"], "n": pa.array([4], pa.int32()), "price": [1.5]})


def counts(engine: Engine, item: str = "land", **words: Any) -> dict[Any, int]:
    found = engine.histogram(Aggregation(user="u", item=item, **words))
    return dict(zip(found.labels, map(int, found.counts), strict=True))


class DeltaLake:
    name = "Delta"

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "events")
        deltalake.write_deltalake(self.path, ROWS, partition_by=["land"])

    def append(self, table: pa.Table) -> None:
        deltalake.write_deltalake(self.path, table, mode="append", schema_mode="merge")

    def delete(self, user: str) -> None:
        deltalake.DeltaTable(self.path).delete(f"u = '{user}'")

    def version(self) -> int:
        return int(deltalake.DeltaTable(self.path).version())


class IcebergLake:
    name = "Iceberg"

    def __init__(self, folder: Path) -> None:
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.transforms import IdentityTransform

        self.path = str(folder / "ware" / "lake" / "events")
        (folder / "ware").mkdir()
        address = f"sqlite:///{folder}/catalog.db"
        self._catalog = catalogs.SqlCatalog("here", uri=address, warehouse=f"file://{folder}/ware")
        self._catalog.create_namespace("lake")
        self._table = self._catalog.create_table("lake.events", schema=ROWS.schema, location=f"file://{self.path}")
        with self._table.update_spec() as update:
            update.add_field("land", IdentityTransform(), "land")
        assert isinstance(self._table.spec(), PartitionSpec)
        assert isinstance(self._table.spec().fields[0], PartitionField)
        self._table.append(ROWS)

    def append(self, table: pa.Table) -> None:
        with self._table.update_schema() as update:
            update.union_by_name(table.schema)
        self._table.append(table)

    def delete(self, user: str) -> None:
        self._table.delete(f"u = '{user}'")

    def version(self) -> int:
        return int(self._catalog.load_table("lake.events").current_snapshot().snapshot_id)


@pytest.fixture(params=[DeltaLake, IcebergLake])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path)


def test_removed_files_deleted_rows_and_added_columns(lake: Any):
    """Read as a folder, the table has the deleted user still, and columns differ from file to file."""
    lake.append(MORE)
    lake.delete("a")
    with open_engine(lake.path) as engine:
        assert set(engine.describe().names) == {"u", "land", "n", "price"}
        assert counts(engine) == {"NO": 1, "SE": 1, "DK": 1}
        assert counts(engine, value="n", per_item=9) == {"NO": 3, "SE": 2, "DK": 4}
        assert counts(engine, where=parse_filter("price > 1", engine.describe())) == {"DK": 1}


def test_a_version_is_named_or_the_current_one(lake: Any):
    first = lake.version()
    lake.append(MORE)
    with open_engine(f"{lake.path}@{first}") as engine:
        assert counts(engine) == {"NO": 2, "SE": 1}
    with open_engine(lake.path) as engine:
        assert counts(engine) == {"NO": 2, "SE": 1, "DK": 1}
    with pytest.raises(UnsuitableTable, match=r"cannot be opened|no snapshot"):
        open_engine(f"{lake.path}@987654")
    assert location_of(f"{lake.path}@{first}").name == location_of(lake.path).name == "events"
    assert set(file_source(f"{lake.path}@{first}").reads) == set(file_source(lake.path).reads)


def test_a_session_reads_one_version(lake: Any):
    first = lake.version()
    with setwise.open(lake.path, user="u") as session:
        lake.append(MORE)
        assert counts(session._engine) == {"NO": 2, "SE": 1}
        assert any(str(first) in source for source in session._identity.sources.values())
    with setwise.open(lake.path, user="u") as session:
        assert counts(session._engine) == {"NO": 2, "SE": 1, "DK": 1}


def test_no_row_decides(lake: Any, tmp_path: Path):
    """Text that is not UTF-8 in a file of the table is null, as in other files."""
    lake.append(MORE)
    [file] = [file for file in Path(lake.path).rglob("*.parquet") if "DK" in str(file)]
    stored = pq.read_table(file, partitioning=None)
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())
    place = stored.schema.get_field_index("u")
    changed = stored.set_column(place, stored.schema.field(place), broken.cast(stored.schema.field(place).type))
    pq.write_table(changed, file)
    for checksum in file.parent.glob(f".{file.name}.crc"):
        checksum.unlink()
    with open_engine(lake.path) as engine:
        assert counts(engine) == {"NO": 2, "SE": 1}


def z85(data: bytes) -> str:
    """Return bytes in the encoding in which a log of Delta holds deletion vectors."""
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    data += b"\0" * (-len(data) % 4)
    text = ""
    for (number,) in struct.iter_unpack(">I", data):
        text += "".join(letters[number // 85**place % 85] for place in (4, 3, 2, 1, 0))
    return text


def deletion_vector(rows: list[int]) -> dict[str, Any]:
    """Return the deletion vector of some rows of a file, inside the log: one container of a roaring bitmap."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    return {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": len(rows)}


def test_rows_of_deletion_vectors_are_gone(tmp_path: Path):
    path = tmp_path / "events"
    deltalake.write_deltalake(str(path), ROWS)
    log = path / "_delta_log"
    first = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    add = next(line["add"] for line in first if "add" in line)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    lines = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}},
        {"add": {**add, "deletionVector": deletion_vector([0, 1])}},
    ]
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    with open_engine(str(path)) as engine:
        assert counts(engine, "u") == {"c": 1}
    with open_engine(f"{path}@0") as engine:
        assert counts(engine, "u") == {"a": 1, "b": 1, "c": 1}


def test_mapped_columns_are_refused(tmp_path: Path):
    lake = DeltaLake(tmp_path)
    log = Path(lake.path) / "_delta_log" / f"{0:020}.json"
    text = log.read_text()
    assert '"configuration":{}' in text
    log.write_text(text.replace('"configuration":{}', '"configuration":{"delta.columnMapping.mode":"name"}'))
    with pytest.raises(UnsuitableTable, match="columnMapping"):
        open_engine(lake.path)


def test_an_answer_says_which_version_it_is_about(lake: Any):
    with setwise.open(lake.path, user="u") as session:
        answer = session.histogram(item="land", contributions=1, epsilon=1.0, delta=1e-6)
        assert f"; version {lake.version()} of the table" in answer.measure
        assert answer.version == str(lake.version())


def test_the_command_line_says_which_version_was_read(lake: Any, setwise: Callable[..., Done]):
    printed = setwise("count", lake.path, "--user", "u", "--epsilon", "1")
    assert printed.returncode == 0, printed.stderr
    assert f"Version {lake.version()} of the table." in " ".join(printed.stdout.split())


def test_parts_of_a_lake_table_are_refused(lake: Any):
    files = list(Path(lake.path).rglob("*.parquet"))
    with pytest.raises(UnsuitableTable, match=f"holds files of a {lake.name} table"):
        open_engine(f"{lake.path}/**/*.parquet")
    with pytest.raises(UnsuitableTable, match=f"{lake.name} table"):
        open_engine(str(files[0].parent))

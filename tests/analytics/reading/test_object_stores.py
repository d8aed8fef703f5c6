"""Tables in an object store, against moto in server mode: objects and prefixes, lake tables, versions, secrets."""

import gzip
import io
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.analytics.engines import object_store
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import location_of, open_engine, pin_version
from setwise.analytics.engines.duckdb.sources import file_source
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import StoredObject
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Kind
from setwise.analytics.tables.check import check_table
from setwise.errors import EngineFailed, InvalidParameter, SetwiseError, UnsuitableTable
from setwise.ledger.ledger import Ledger
from setwise.ledger.terms import filter_terms
from tests.command_line import Done
from tests.servers.object_store import ACCESS_KEY, SECRET_KEY, Bucket

ROWS = pa.table({"u": ["a", "b", "c"], "land": ["NO", "SE", "NO"], "n": [1, 2, 3]})
MORE = pa.table({"u": ["d"], "land": ["DK"], "n": [4]})
CSV = b"u,land,n\na,NO,1\nb,SE,2\nc,NO,x\n"


def parquet(table: pa.Table) -> bytes:
    written = io.BytesIO()
    pq.write_table(table, written)
    return written.getvalue()


def counts(engine: Engine, item: str = "land", **words: Any) -> dict[Any, int]:
    found = engine.histogram(Aggregation(user="u", item=item, **words))
    return dict(zip(found.labels, map(int, found.counts), strict=True))


def test_parquet_by_object_and_by_prefix(bucket: Bucket):
    one = bucket.put("events/part-1.parquet", parquet(ROWS))
    bucket.put("events/part-2.parquet", parquet(MORE))
    bucket.put("events/readme.txt", b"not a table")
    with open_engine(one) as engine:
        assert counts(engine) == {"NO": 2, "SE": 1}
        assert counts(engine, where=parse_filter("n >= 2", engine.describe())) == {"NO": 1, "SE": 1}
        assert engine.rows() == 3
    for address in ("events", "events/"):
        with open_engine(bucket.address(address)) as engine:
            assert counts(engine) == {"NO": 2, "SE": 1, "DK": 1}
    assert location_of(one).name == "part-1"
    assert location_of(bucket.address("events/")).name == "events"


def test_partitions_in_keys_are_columns_of_text(bucket: Bucket):
    bucket.put("events/year=2024/a.parquet", parquet(ROWS))
    bucket.put("events/year=2025/a.parquet", parquet(MORE))
    with open_engine(bucket.address("events")) as engine:
        assert counts(engine, "year") == {"2024": 3, "2025": 1}


@pytest.mark.parametrize(
    ("name", "content"),
    [("events.csv", CSV), ("events.csv.gz", gzip.compress(CSV))],
    ids=["plain", "gzip"],
)
def test_csv_plain_and_compressed(bucket: Bucket, name: str, content: bytes):
    address = bucket.put(name, content)
    with open_engine(address, types={"n": Kind.INTEGER}) as engine:
        assert counts(engine) == {"NO": 2, "SE": 1}
        assert counts(engine, where=parse_filter("n >= 1", engine.describe())) == {"NO": 1, "SE": 1}
    assert check_table(address, CsvOptions(), {}, "u").counts.rows == 3


def test_cells_that_duckdb_cannot_hold_are_null(bucket: Bucket):
    broken = pa.array([b"a", b"\xff", b"c"], pa.binary()).view(pa.string())
    far = pa.array([1, 2**62, 3], pa.int64()).view(pa.timestamp("ms"))
    table = pa.table({"u": broken, "land": ["NO", "SE", "NO"], "at": far})
    with open_engine(bucket.put("t.parquet", parquet(table))) as engine:
        assert counts(engine) == {"NO": 2}
        assert counts(engine, where=parse_filter("at >= '1960-01-01'", engine.describe())) == {"NO": 2}


def test_a_session_asks_prepares_and_says_its_version(bucket: Bucket, tmp_path: Path):
    address = bucket.put("events.parquet", parquet(ROWS))
    with setwise.open(address, user="u") as session:
        answer = session.histogram(item="land", contributions=1, epsilon=1.0, delta=1e-6)
        version = str(pin_version(address, "duckdb")).rpartition("@")[2]
        assert f"; version {version} of the table" in answer.measure
        session.prepare(tmp_path / "prepared", item="land")
    with setwise.open(tmp_path / "prepared", user="u") as prepared:
        prepared.histogram(item="land", contributions=1, epsilon=1.0, delta=1e-6)
        bucket.put("events.parquet", parquet(MORE))
        with pytest.raises(UnsuitableTable, match="has changed since the dataset was prepared"):
            prepared.histogram(item="land", contributions=1, epsilon=1.0, delta=1e-6)


def test_versions_of_objects_are_never_mixed(bucket: Bucket):
    """A session stays on its version: once an object was written, even within the same second, it answers no more."""
    address = bucket.put("events/one.parquet", parquet(ROWS))
    with setwise.open(bucket.address("events"), user="u") as session:
        before = dict(session._identity.sources)
        assert counts(session._engine) == {"NO": 2, "SE": 1}
        bucket.put("events/one.parquet", parquet(MORE))
        with pytest.raises(UnsuitableTable, match=r"was written while|were written since"):
            counts(session._engine)
        with pytest.raises(UnsuitableTable, match="were written since"):
            session.sql("SELECT land, n + 1 AS more, COUNT(DISTINCT u) AS users FROM events GROUP BY land, more",
                        contributions=1, epsilon=1.0, delta=1e-6)  # fmt: skip
    with setwise.open(bucket.address("events"), user="u") as session:
        assert counts(session._engine) == {"DK": 1}
        assert dict(session._identity.sources) != before
    assert set(file_source(address).reads) <= set(file_source(bucket.address("events")).reads)


def plain_parquet(land: str, rows: int) -> bytes:
    """Return a file without compression, so that files of equal rows differ in the bytes of the cells alone."""
    table = pa.table({"u": [f"{n:04}" for n in range(rows)], "land": [land] * rows})
    written = io.BytesIO()
    pq.write_table(table, written, compression="none", use_dictionary=False, write_statistics=False)
    return written.getvalue()


@pytest.mark.parametrize("content", [plain_parquet("SE", 1000), b" " * 100], ids=["of the same layout", "shorter"])
def test_an_object_that_is_replaced_while_it_is_read_is_noticed(
    bucket: Bucket, content: bytes, monkeypatch: pytest.MonkeyPatch
):
    """The object is opened with its old content and replaced before its rows are read.

    A content of the same layout would be read without an error, as rows of the old version that nobody wrote.
    """
    address = bucket.put("events.parquet", plain_parquet("NO", 1000))
    with open_engine(address) as engine:
        engine.rows()  # the footers are read
        opened = StoredObject.open
        replaced = []

        def replace_after_opening(self: StoredObject, mode: str = "rb") -> Any:
            found = opened(self, mode)
            if len(replaced) == 1:  # the first opening is for the footer, the second for the rows
                bucket.put("events.parquet", content)
            replaced.append(self)
            return found

        monkeypatch.setattr(StoredObject, "open", replace_after_opening)
        with pytest.raises(UnsuitableTable, match="was written while"):
            counts(engine)
    assert len(replaced) == 2


def test_the_version_in_requests_says_nothing_about_the_content(bucket: Bucket):
    """An ETag is a digest of the content: with it somebody who knows all rows but one could try the last one."""
    address = bucket.put("events.parquet", parquet(ROWS))
    [listed] = list(object_store.describe_objects(bucket.name, ["events.parquet"]))
    other = StoredObject(
        bucket=listed.bucket, key=listed.key, size=listed.size + 1, etag='"other"', modified=listed.modified
    )
    version = str(pin_version(address, "duckdb")).rpartition("@")[2]
    object_store._contents.clear()  # as in another process, which has not seen the first content
    assert object_store.objects_version([other]) == version


@pytest.fixture(params=["Delta", "Iceberg"])
def lake(request: pytest.FixtureRequest, bucket: Bucket, tmp_path: Path) -> Any:
    pytest.importorskip("deltalake" if request.param == "Delta" else "pyiceberg")
    return (DeltaLake if request.param == "Delta" else IcebergLake)(bucket, tmp_path)


class DeltaLake:
    def __init__(self, bucket: Bucket, folder: Path) -> None:
        import deltalake

        self._deltalake = deltalake
        self.address = bucket.address("lake/events")
        self._options = {"AWS_ALLOW_HTTP": "true", "conditional_put": "etag"}
        deltalake.write_deltalake(self.address, ROWS, partition_by=["land"], storage_options=self._options)

    def append(self, table: pa.Table) -> None:
        self._deltalake.write_deltalake(self.address, table, mode="append", storage_options=self._options)

    def delete(self, user: str) -> None:
        self._deltalake.DeltaTable(self.address, storage_options=self._options).delete(f"u = '{user}'")


class IcebergLake:
    def __init__(self, bucket: Bucket, folder: Path) -> None:
        from pyiceberg.catalog.sql import SqlCatalog
        from pyiceberg.transforms import IdentityTransform

        self.address = bucket.address("lake/events")
        catalog = SqlCatalog(
            "here",
            uri=f"sqlite:///{folder}/catalog.db",
            warehouse=bucket.address("lake"),
            **{
                "s3.endpoint": bucket.endpoint,
                "s3.region": "us-east-1",  # otherwise it asks the network for the bucket's region, for six seconds
                "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
            },
        )
        catalog.create_namespace("lake")
        self._table = catalog.create_table("lake.events", schema=ROWS.schema, location=self.address)
        with self._table.update_spec() as update:
            update.add_field("land", IdentityTransform(), "land")
        self._table.append(ROWS)

    def append(self, table: pa.Table) -> None:
        self._table.append(table)

    def delete(self, user: str) -> None:
        self._table.delete(f"u = '{user}'")


def test_lake_tables_at_the_current_and_at_a_named_version(lake: Any):
    first = str(pin_version(lake.address, "duckdb"))
    lake.append(MORE)
    lake.delete("a")
    with open_engine(lake.address) as engine:
        assert counts(engine) == {"NO": 1, "SE": 1, "DK": 1}
    with open_engine(first) as engine:
        assert counts(engine) == {"NO": 2, "SE": 1}
        assert engine.describe().version == first.rpartition("@")[2]
    assert location_of(first).name == "events"
    assert set(file_source(first).reads) == set(file_source(lake.address).reads)
    with pytest.raises(UnsuitableTable, match="holds files of a"):
        open_engine(f"{lake.address}/data" if "metadata" in "".join(object_store.list_names(lake.address)) else
                    f"{lake.address}/land=NO")  # fmt: skip


def test_a_session_on_a_lake_table_reads_one_version(lake: Any, tmp_path: Path):
    with setwise.open(lake.address, user="u") as session:
        lake.append(MORE)
        assert counts(session._engine) == {"NO": 2, "SE": 1}
        session.prepare(tmp_path / "prepared", item="land")
        version = session._engine.describe().version
    with setwise.open(tmp_path / "prepared", user="u") as prepared:
        answer = prepared.histogram(item="land", contributions=1, epsilon=1.0, delta=1e-6)
        assert f"; version {version} of the table" in answer.measure
        assert counts(prepared._engine, contributions=1) == {"NO": 2, "SE": 1}
    with setwise.open(lake.address, user="u") as session:
        assert counts(session._engine) == {"NO": 2, "SE": 1, "DK": 1}


def _everything_told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error.__context__) + repr(error.__cause__)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("s3://lake-of-nobody/events.parquet", UnsuitableTable),
        (f"s3://{ACCESS_KEY}:{SECRET_KEY}@lake/events.parquet", InvalidParameter),
        (f"s3://lake/events.parquet?secret={SECRET_KEY}", InvalidParameter),
        ("s3://lake/events/*.parquet", InvalidParameter),
        ("s3://lake/../other", InvalidParameter),
        ("s3://", InvalidParameter),
    ],
)
def test_addresses_that_cannot_be_read(bucket: Bucket, address: str, kind: type[SetwiseError]):
    for call in (lambda: open_engine(address), lambda: setwise.open(address, user="u")):
        with pytest.raises(kind) as refused:
            call()
        assert SECRET_KEY not in _everything_told(refused.value)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", f"http://ada:{SECRET_KEY}@127.0.0.1:9"])
def test_an_endpoint_that_does_not_answer(bucket: Bucket, endpoint: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises((EngineFailed, InvalidParameter), match="AWS_ENDPOINT_URL") as refused:
        open_engine(bucket.address("events.parquet"))
    assert SECRET_KEY not in _everything_told(refused.value)


def test_credentials_are_in_no_answer_ledger_or_log(
    lake: Any, bucket: Bucket, tmp_path: Path, setwise: Callable[..., Done], caplog: pytest.LogCaptureFixture
):
    """Ask with an account and with the command line, fail in several ways, and look at everything that was written."""
    import setwise as library

    plain = bucket.put("events.parquet", parquet(ROWS))
    caplog.set_level(logging.DEBUG)
    ledger = Ledger.open(str(tmp_path / "ledger.db"))
    ledger.open_account(filter_terms("ada", epsilon=5.0, delta=1e-5))
    account = ledger.account("ada")
    told = []
    for source in (lake.address, plain):
        with library.open(source, user="u", account=account) as session:
            answer = session.histogram(item="land", contributions=1, epsilon=0.5, delta=1e-6, key=source[-5:])
            told += [str(answer), repr(answer), repr(session), str(session._identity)]
    for broken in (f"{lake.address}@99", bucket.address("nothing")):
        with pytest.raises(UnsuitableTable) as refused:
            library.open(broken, user="u")
        told.append(_everything_told(refused.value))
    printed = setwise("histogram", plain, "--user", "u", "--item", "land", "--contributions", "1", "--epsilon", "1",
                      "--delta", "1e-6", "--json")  # fmt: skip
    assert printed.returncode == 0
    told += [printed.stdout, printed.stderr, caplog.text]
    ledger.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for secret in (SECRET_KEY, ACCESS_KEY):
        assert all(secret not in str(each) for each in told)
        assert secret.encode() not in stored
    etag = object_store.describe_object(bucket.name, "events.parquet").etag.strip('"')
    assert etag.encode() not in stored

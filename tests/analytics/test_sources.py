"""Whatever a person names is read as it is, or refused in one sentence that holds nothing of its rows."""

import gzip
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, SetwiseError, UnknownColumn, UnsuitableTable

PRIVATE = "Kjell Vidar"
USERS = [PRIVATE, PRIVATE, "b", "b", None, "c"]
ITEMS = ["x", "y", "x", "x", "y", None]
AMOUNTS = [1, 2, 3, 4, 5, 6]
TABLE = pa.table({"who": USERS, "what": ITEMS, "much": AMOUNTS})
COUNTED = {"x": 2, "y": 1}
SUMMED = {"x": 8, "y": 2}


def answers(engine, user="who", item="what", value="much") -> tuple[dict, dict]:
    counted = engine.histogram(Aggregation(user=user, item=item, contributions=5))
    summed = engine.histogram(Aggregation(user=user, item=item, value=value, per_item=100))
    return tuple(dict(zip(found.labels, found.counts.tolist(), strict=True)) for found in (counted, summed))


def written_csv(path: Path, table: pa.Table = TABLE) -> Path:
    table.to_pandas().to_csv(path, index=False)
    return path


@pytest.mark.parametrize("shape", ["file", "glob", "folder", "arrow", "batch", "pandas", "polars", "duckdb", "sqlite"])
def test_every_source_gives_the_same(tmp_path: Path, shape: str):
    table: str | None = None
    match shape:
        case "file":
            pq.write_table(TABLE, tmp_path / "it's.parquet")
            source: object = tmp_path / "it's.parquet"
        case "glob" | "folder":
            (tmp_path / "year=2024").mkdir()
            pq.write_table(TABLE.slice(0, 2), tmp_path / "year=2024" / "a.parquet")
            pq.write_table(TABLE.slice(2), tmp_path / "year=2024" / "b.parquet")
            source = str(tmp_path / "**" / "*.parquet") if shape == "glob" else str(tmp_path)
        case "arrow":
            source = TABLE
        case "batch":
            source = TABLE.to_batches()[0]
        case "pandas":
            source = TABLE.to_pandas()
        case "polars":
            source = pl.from_arrow(TABLE)
        case "duckdb":
            with duckdb.connect(tmp_path / "it's.db") as database:
                database.execute('CREATE TABLE "my table" (who VARCHAR COLLATE nocase, what VARCHAR, much BIGINT)')
                database.executemany(
                    'INSERT INTO "my table" VALUES (?, ?, ?)', list(zip(USERS, ITEMS, AMOUNTS, strict=True))
                )
            source, table = tmp_path / "it's.db", "my table"
        case _:
            _sqlite(tmp_path / "it's.db")
            source = f"{tmp_path / chr(105)}t's.db::my table"
    with open_engine(source, table=table) as engine:
        assert answers(engine) == (COUNTED, SUMMED)
        if shape in ("glob", "folder"):
            where = parse_filter("year = '2024'", engine.describe())
            assert len(engine.histogram(Aggregation(user="who", item="what", where=where))) == 2


def _sqlite(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute('CREATE TABLE "my table" (who TEXT, what VARCHAR(9), much INTEGER, share REAL)')
        rows = [(who, what, much, 0.5) for who, what, much in zip(USERS, ITEMS, AMOUNTS, strict=True)]
        database.executemany('INSERT INTO "my table" VALUES (?, ?, ?, ?)', rows)
        # SQLite lets anything stand anywhere: a user that is no text is no user, a value that is no integer is none.
        database.execute("INSERT INTO \"my table\" VALUES (x'ff', 'x', 1, 1), (CAST(x'fe' AS TEXT), 'x', 1, 1)")
        database.execute("INSERT INTO \"my table\" VALUES ('b', 'x', 'many', 'half'), ('b', 'x', 1.5, 1)")
    database.close()


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv"])
def test_csv_is_text_unless_said_otherwise(tmp_path: Path, suffix: str):
    file = tmp_path / f"events{suffix}"
    text = 'who,what,much\n"Kjell Vidar",x,1\nKjell Vidar,y,2\nb,x,3\nb,x,4\n,y,5\nc,,6\nb,x,3.7\nb,x,oops\n'
    text = text.replace(",", "\t") if suffix == ".tsv" else text
    file.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    with open_engine(file) as engine:
        assert {column.kind for column in engine.describe()} == {Kind.TEXT}
    with open_engine(file, types={"much": Kind.INTEGER}) as engine:
        assert answers(engine) == (COUNTED, SUMMED)
    with pytest.raises(UnknownColumn, match="no column 'nothing'"):
        open_engine(file, types={"nothing": Kind.INTEGER})
    with pytest.raises(InvalidParameter, match="must be one of text, integer"):
        open_engine(file, types={"much": "complex"})


def test_users_differ_by_every_byte_and_only_by_that():
    users = ["a", "A", "a ", "a\u0301", "á", "1", "01", ""]
    table = pa.table({"u": users * 2, "i": ["x"] * 16})
    with open_engine(table) as engine:
        assert engine.histogram(Aggregation(user="u", item="i")).counts.tolist() == [len(users)]


def test_a_collation_makes_no_two_users_or_items_one(tmp_path: Path):
    with duckdb.connect(tmp_path / "collated.db") as database:
        database.execute("CREATE TABLE t (who VARCHAR COLLATE nocase, what VARCHAR COLLATE noaccent)")
        database.execute("INSERT INTO t VALUES ('a', 'e'), ('A', 'e'), ('A', 'é'), ('a', 'é')")
    with open_engine(tmp_path / "collated.db", table="t") as engine:
        for bound in (None, 2):
            found = engine.top(Aggregation(user="who", item="what", contributions=bound), 9)
            assert (found.labels, found.counts.tolist()) == (("e", "é"), [2, 2])
        where = parse_filter("who = 'a' AND what < 'z'", engine.describe())
        found = engine.histogram(Aggregation(user="who", item="what", where=where))
        assert (found.labels, found.counts.tolist()) == (("e",), [1])


def test_categories_are_text_and_their_values_stay_out_of_the_schema():
    frame = TABLE.to_pandas().astype({"who": "category", "what": "category"})
    with open_engine(frame) as engine:
        assert PRIVATE not in repr(engine.describe())
        assert answers(engine) == (COUNTED, SUMMED)


def broken(cells: list[bytes]) -> pa.Array:
    """Return text that Arrow has not looked at, as it comes out of files."""
    return pa.array(cells, pa.binary()).view(pa.string())


@pytest.mark.parametrize("coded", [False, True])
def test_text_that_is_none_is_null_and_leaves_the_rest_alone(coded: bool):
    users, items = broken([b"a", b"\xffz", b"a", b"b"]), broken([b"x", b"x", b"\xffy", b"\xc3"])
    with pytest.raises(pa.ArrowInvalid):
        users.validate(full=True)
    if coded:
        places = pa.array(range(4))
        users, items = (pa.DictionaryArray.from_arrays(places, each, safe=False) for each in (users, items))
    with open_engine(pa.table({"who": users, "what": items})) as engine:
        for bound in (None, 1, 2):
            found = engine.histogram(Aggregation(user="who", item="what", contributions=bound))
            assert (found.labels, found.counts.tolist()) == (("x",), [1])
        named = engine.top(Aggregation(user="who", item="what", contributions=2, null_item="none"), 9)
        assert (named.labels, named.counts.tolist()) == (("none", "x"), [2, 1])


def test_spark_takes_no_broken_text_for_a_label(tmp_path: Path, spark_session):
    cells = [b"x", b"x", b"\xffy", b"\xc3"]
    pq.write_table(pa.table({"who": [1, 2, 3, 4], "what": broken(cells)}), tmp_path / "broken.parquet")
    frame = spark_session.read.parquet(str(tmp_path / "broken.parquet"))
    with open_engine(frame) as engine:
        for bound in (None, 1):
            found = engine.top(Aggregation(user="who", item="what", contributions=bound), 9)
            assert (found.labels, found.counts.tolist()) == (("x",), [2])
        named = engine.top(Aggregation(user="who", item="what", contributions=1, null_item="none"), 9)
        assert (named.labels, named.counts.tolist()) == (("none", "x"), [2, 2])


def test_missing_items_of_unsigned_columns_have_a_label():
    table = pa.table({"who": [1, 2, 3], "what": pa.array([2**64 - 1, None, None], pa.uint64())})
    with open_engine(table) as engine:
        found = engine.top(Aggregation(user="who", item="what", contributions=1, null_item=7), 9)
    assert (found.labels, found.counts.tolist()) == ((7, 2**64 - 1), [2, 1])


def bad_sources(folder: Path) -> dict[str, object]:
    (folder / "torn.parquet").write_bytes(b"PAR1" + PRIVATE.encode() * 40)
    (folder / "empty.parquet").write_bytes(b"")
    (folder / "notes.txt").write_text(PRIVATE)
    (folder / "headless.csv").write_text("")
    (folder / "twice.csv").write_text(f"a,a\n{PRIVATE},1\n")
    (folder / "folder").mkdir()
    (folder / "torn.db").write_bytes(b"SQLite format 3\0" + PRIVATE.encode() * 40)
    _sqlite(folder / "good.db")
    return {
        "missing file": folder / "missing.parquet",
        "missing glob": str(folder / "*.nothing"),
        "torn Parquet": folder / "torn.parquet",
        "empty file": folder / "empty.parquet",
        "another format": folder / "notes.txt",
        "no header": folder / "headless.csv",
        "a name twice": folder / "twice.csv",
        "empty folder": folder / "folder",
        "torn database": f"{folder / 'torn.db'}::t",
        "no table named": folder / "good.db",
        "no such table": f"{folder / 'good.db'}::nothing",
        "an address": "https://example.org/events.parquet",
        "two of a name": pd.DataFrame([[1, PRIVATE]], columns=["u", "u"]),
        "a number": 17,
    }


@pytest.mark.parametrize("which", range(14))
def test_bad_sources_are_refused_in_one_sentence(tmp_path: Path, which: int):
    name, source = list(bad_sources(tmp_path).items())[int(which)]
    with pytest.raises((UnsuitableTable, InvalidParameter)) as raised:
        open_engine(source)
    _says_nothing_private(raised.value, name)


def _says_nothing_private(error: SetwiseError, name: str) -> None:
    assert PRIVATE not in str(error), name
    assert "\n" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__


def test_rows_that_cannot_be_read_count_for_nothing(tmp_path: Path):
    file = tmp_path / "torn.csv"
    file.write_text("who,what\n" + "a,b\n" * 3000 + f'"{PRIVATE},x,y,z\n"{PRIVATE}" {PRIVATE},3,4\n')
    with open_engine(file) as engine:
        found = engine.histogram(Aggregation(user="who", item="what"))
    assert dict(zip(found.labels, found.counts.tolist(), strict=True)) == {"b": 1}


def test_types_alone_decide_what_is_refused():
    """An absent, null or NaN value never changes whether a question is refused."""
    for column in (pa.array([1.0, 2.0]), pa.array([float("nan"), None], pa.float64()), pa.array([], pa.float64())):
        with (
            open_engine(pa.table({"u": pa.array([1] * len(column), pa.int64()), "v": column})) as engine,
            pytest.raises(UnsuitableTable, match="cannot be summed exactly, because it holds float values"),
        ):
            engine.histogram(Aggregation(user="u", value="v"))
    with (
        open_engine(pa.table({"u": pa.nulls(3), "i": ["a"] * 3})) as engine,
        pytest.raises(UnsuitableTable, match="cannot tell users apart, because its type is"),
    ):
        engine.histogram(Aggregation(user="u", item="i"))


def test_huge_sums_are_exact_and_clipped():
    values = np.array([2**63 - 1] * 50 + [-(2**63)] * 10, dtype=np.int64)
    table = pa.table({"u": [1] * 60, "i": ["a"] * 60, "v": values})
    with open_engine(table) as engine:
        found = engine.histogram(Aggregation(user="u", item="i", value="v", per_item=2**40))
        assert found.counts.tolist() == [2**40]


def test_an_unknown_engine_is_named():
    with pytest.raises(InvalidParameter, match="not 'oracle'"):
        open_engine(TABLE, "oracle")


def test_no_password_of_an_engine_is_shown():
    with pytest.raises(InvalidParameter, match="ada@host") as refused:
        open_engine("visits", "postgresql+psycopg://ada:secret@host/shop?password=secret")
    assert "secret" not in str(refused.value)


# What has to be computed: lazy frames, relations and views

VISITS = {"who": list(range(900)) * 2, "page": ["home"] * 900 + ["help", "shop", "help"] * 300}


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE visits (who BIGINT, page VARCHAR, amount VARCHAR)")
        visits = pa.table(VISITS | {"amount": ["1"] * 1799 + ["one"]})
        connection.register("given", visits)
        connection.execute("INSERT INTO visits SELECT * FROM given")
        connection.execute("CREATE VIEW elsewhere AS SELECT who, page FROM visits WHERE page <> 'home'")
        connection.execute("CREATE VIEW broken AS SELECT who, page, CAST(amount AS INTEGER) AS amount FROM visits")
        connection.execute("CREATE VIEW outside AS SELECT * FROM read_csv('/etc/passwd')")
    return path


def computed(kind, path):
    if kind == "lazy":
        return pl.DataFrame(VISITS).lazy().filter(pl.col("page") != "home")
    if kind == "relation":
        return duckdb.connect().from_arrow(pa.table(VISITS)).filter("page <> 'home'")
    return f"{path}::elsewhere"


@pytest.mark.parametrize("kind", ["lazy", "relation", "view"])
def test_lazy_frames_relations_and_views_are_sources(kind, database):
    with setwise.open(computed(kind, database), user="who") as session:
        answer = session.histogram(item="page", contributions=1, epsilon=5.0, delta=1e-6)
    assert set(answer.labels) == {"help", "shop"}


@pytest.mark.parametrize("where", [None, "page = 'nowhere'"])
def test_a_view_that_fails_on_a_row_fails_before_anything_is_asked(database, where):
    """Computed with the question, the filter would decide whether the row is met."""
    with pytest.raises(UnsuitableTable, match="the view 'broken' computes what it shows") as refused:
        setwise.open(f"{database}::broken", user="who").count(epsilon=1.0, where=where)
    assert "'one'" not in str(refused.value)
    lazy = pl.DataFrame(VISITS | {"amount": ["one"] * 1800}).lazy().with_columns(pl.col("amount").cast(int))
    with pytest.raises(UnsuitableTable, match="could not be computed") as refused:
        setwise.open(lazy, user="who")
    assert "'one'" not in str(refused.value)


def test_two_tables_of_one_database_are_joined(database):
    with setwise.open(f"{database}::visits", user="who", private={"elsewhere": f"{database}::elsewhere"}) as session:
        joined = session.join("elsewhere", using="who")
        assert joined.count(epsilon=5.0).value == pytest.approx(900, abs=20)


def test_rows_of_sql_convert_to_frames_and_show_in_notebooks(tmp_path):
    with setwise.open(pa.table(VISITS), user="who", name="t") as session:
        found = session.sql(
            "SELECT page AS p, COUNT(DISTINCT who) AS n FROM t GROUP BY page", contributions=2, epsilon=5.0, delta=1e-6
        )
    names = ["p", "n", "n_lower", "n_upper"]
    assert found.to_arrow().column_names == names
    assert found.to_polars().columns == names
    assert list(found.to_pandas().columns) == names
    assert found.to_polars()["n"].to_list() == [row["n"]["value"] for row in found]
    shown = found._repr_html_()
    assert ">p<" in shown
    assert ">n_upper<" in shown
    found.plot(tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000
    assert "home" in str(found)

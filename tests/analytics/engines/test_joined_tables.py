"""A join on every engine is the table that nested loops make of its tables, and no row of a private one decides."""

import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import setwise
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.joins import Join, Key, NamedTable, ServerJoin
from setwise.analytics.engines.postgresql.engine import PostgresqlEngine
from setwise.analytics.filter.expression import Operator
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.measure import Measure
from setwise.analytics.rows.expression import ColumnValue, Compared, ConstantValue
from setwise.analytics.schema import Kind
from setwise.errors import EngineFailed, InvalidParameter, UnsuitableTable
from tests.analytics.engines.backends import Backend, JoinedTables
from tests.analytics.engines.reference import as_dict, exact
from tests.servers.postgresql import PostgresqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = [
    "a",
    "A",
    "a ",
    " a",
    "",
    "é",
    "e\u0301",
    "ﬁ",
    "fi",
    "ß",
    "ss",
    "1",
    "01",
    "a|b",
    "%",
    "\U0001f600",
    "x" * 5000,
]
NUMBERS = [0, 1, -1, 2**31, -(2**63), 2**63 - 1, 2**53, 2**53 + 1]
DAYS = [date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 15)]
TIMES = [datetime(2024, 2, 29, 1, 2, 3, 4), datetime(2024, 2, 29, 1, 2, 3, 5), datetime(1970, 1, 1)]
PRICES = [Decimal("1.50"), Decimal("-2.25"), Decimal("0.00"), Decimal("9999999.99")]
KINDS = {
    "text": (pa.string(), TEXTS),
    "number": (pa.int64(), NUMBERS),
    "day": (pa.date32(), DAYS),
    "time": (pa.timestamp("us"), TIMES),
    "price": (pa.decimal128(9, 2), PRICES),
    "flag": (pa.bool_(), [True, False]),
}
"""Keys, those among them that some collation, conversion or rounding would take for equal."""


def column(kind: pa.DataType, values: Sequence[object], rows: int, generator: np.random.Generator) -> pa.Array:
    chosen = [values[place] for place in generator.integers(len(values), size=rows)]
    return pa.array([None if generator.random() < 0.1 else value for value in chosen], kind)


def private_rows(rows: int, seed: int) -> pa.Table:
    generator = np.random.default_rng(seed)
    columns = {
        "who": column(pa.string(), ["a", "A", "a ", "é", "e\u0301", *(f"u{n}" for n in range(30))], rows, generator),
        **{name: column(kind, values, rows, generator) for name, (kind, values) in KINDS.items()},
        "stars": column(pa.int64(), [-3, 0, 1, 5, 2**63 - 1], rows, generator),
    }
    return pa.table(columns)


def public_rows(key: str, seed: int) -> pa.Table:
    """Return a table whose keys repeat and may be null; 32 bits wide where numbers are."""
    generator = np.random.default_rng(seed)
    kind, values = KINDS[key]
    label = column(pa.string(), ["x", "y", "X", "z "], 25, generator)
    return pa.table({"key": column(kind, values, 25, generator), "label": label, "weight": range(25)})


def on(table: str, column: str, joined: str, *, keeps_all: bool = False) -> Join:
    return Join(table=table, keys=(Key(column=column, joined=joined),), keeps_all=keeps_all)


def looped(left: pa.Table, right: pa.Table, join: Join) -> pa.Table:
    """Return the join of two tables by nested loops; keys of one name are one column."""
    [key] = join.keys
    rows, kept = [], [name for name in right.column_names if name != key.column]
    for mine in left.to_pylist():
        met = [other for other in right.to_pylist() if other[key.joined] is not None]
        met = [other for other in met if other[key.joined] == mine[key.column]]
        if not met and join.keeps_all:
            met = [dict.fromkeys(kept)]
        rows += [{**mine, **{name: other[name] for name in kept}} for other in met]
    fields = [*left.schema, *(right.schema.field(name) for name in kept)]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


MEASURES = (
    Measure(most=3),
    Measure(column="stars", least=-2, most=4),
    Measure(column="weight", averaged=True, step=Fraction(1, 2), most=50),
    Measure(column="weight", averaged=True, most=25, in_cells=True),
)


@pytest.mark.parametrize("key", list(KINDS))
def test_a_join_is_what_nested_loops_find(backend: Backend, key: str):
    """Without a bound as the reference counts, and under a salt as the same engine bounds the table of the loops."""
    main, public = private_rows(150, 1), public_rows(key, 2)
    for keeps_all in (False, True):
        join = on("other", key, "key", keeps_all=keeps_all)
        wanted = looped(main, public, join)
        assert main.num_rows < wanted.num_rows
        joined = backend.joined(JoinedTables({"main": main, "other": public}, [join], "who"), lambda: 5)
        with joined, backend.engine(wanted, lambda: 5) as looped_engine:
            assert joined.describe().names == tuple(wanted.column_names)
            for item in ("label", "text", "number"):
                asked = Aggregation(user="who", item=item, per_item=10**6, null_item=-7 if item == "number" else "none")
                found = joined.histogram(asked)
                assert as_dict(found.labels, found.counts) == exact(wanted, asked)
            where = parse_filter("weight < 20 AND stars >= 0", joined.describe())
            bounded = Aggregation(user="who", item=("label", "flag"), contributions=2, where=where, measures=MEASURES)
            one, other = joined.statistics(bounded), looped_engine.statistics(bounded)
            assert as_dict(one.users.labels, one.users.counts) == as_dict(other.users.labels, other.users.counts)
            assert (one.totals, one.numbers) == (other.totals, other.numbers)
            assert {label: cells.tolist() for label, cells in one.cells[3].items()} == {
                label: cells.tolist() for label, cells in other.cells[3].items()
            }


@pytest.mark.parametrize("key", list(KINDS))
def test_rows_of_the_joined_table_are_chosen_and_matches_are_marked(backend: Backend, key: str):
    """Rows of the joined table that a condition leaves out match nothing, and a list matches each row at most once."""
    main, public = private_rows(150, 1), public_rows(key, 2)
    chosen = Compared(Operator.EQUAL, ColumnValue("label"), ConstantValue("x"))
    keys = (Key(column=key, joined="key", earlier="main"),)
    first = Join(table="other", keys=keys, keeps_all=True, where=chosen, match_column="first found")
    listed = Join(
        table="other", keys=keys, keeps_all=True, where=chosen, match_column="listed", once=True, alias="list 0"
    )
    rows = public.filter(pc.equal(public["label"], "x"))
    marked = looped(main, rows.append_column("first found", pa.array([1] * rows.num_rows)), first)
    keys_listed = {value for value in rows["key"].to_pylist() if value is not None}
    listed_cells = [1 if value in keys_listed else None for value in marked[key].to_pylist()]
    wanted = marked.append_column("listed", pa.array(listed_cells, pa.int64()))
    assert main.num_rows < wanted.num_rows
    tables = JoinedTables({"main": main, "other": public, "list 0": public}, [first, listed], "who")
    with backend.joined(tables) as joined:
        assert joined.describe().names == tuple(wanted.column_names)
        for item in ("first found", "listed", "label"):
            asked = Aggregation(user="who", item=item, per_item=10**6, null_item="none" if item == "label" else -7)
            found = joined.histogram(asked)
            assert as_dict(found.labels, found.counts) == exact(wanted, asked)


def test_private_tables_meet_on_their_users_alone(backend: Backend):
    """Users that a collation takes for one another stay two users, and a user of neither case has no rows."""
    main, people = private_rows(120, 3), private_rows(40, 4).select(["who", "day"]).rename_columns(["who", "born"])
    join = on("people", "who", "who")
    wanted = looped(main, people, join)
    tables = JoinedTables({"main": main, "people": people}, [join], "who", private=["people"])
    with backend.joined(tables, lambda: 5) as joined:
        assert joined.describe().names == (*main.column_names, "born")
        asked = Aggregation(user="who", item="born", per_item=10**6)
        found = joined.histogram(asked)
        assert as_dict(found.labels, found.counts) == exact(wanted, asked)
    refused = JoinedTables({"main": main, "people": people}, [on("people", "day", "born")], "who", private=["people"])
    with pytest.raises(InvalidParameter, match="on the user column alone"):
        backend.joined(refused)


def test_names_that_differ_in_case_are_told_apart(backend: Backend):
    """DuckDB and Spark take Label for label, so both are named with their tables."""
    main = pa.table({"who": [1, 2, 3], "key": [1, 1, 2], "Label": ["mine", "mine", "my own"]})
    public = pa.table({"key": [1, 2], "label": ["one", "two"]})
    with backend.joined(JoinedTables({"main": main, "other": public}, [on("other", "key", "key")], "who")) as joined:
        assert joined.describe().names == ("who", "key", "main.Label", "other.label")
        found = joined.histogram(Aggregation(user="who", item=("other.label", "main.Label")))
        assert as_dict(found.labels, found.counts) == {("one", "mine"): 2, ("two", "my own"): 1}
    for name in ("who", "WHO"):
        tables = {"main": main, "other": pa.table({"key": [1], name: [1]})}
        with pytest.raises(InvalidParameter, match="so it is not public"):
            backend.joined(JoinedTables(tables, [on("other", "key", "key")], "who"))


@pytest.mark.parametrize(
    ("left", "right", "fits"),
    [
        (pa.int64(), pa.int32(), True),
        (pa.decimal128(9, 2), pa.decimal128(9, 2), True),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), True),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), False),
        (pa.date32(), pa.timestamp("us"), False),
        (pa.float64(), pa.float64(), False),
        (pa.int64(), pa.bool_(), False),
        (pa.string(), pa.int64(), False),
    ],
)
def test_keys_fit_by_their_types_alone(backend: Backend, left: pa.DataType, right: pa.DataType, fits: bool):
    """Whatever the cells: there are none."""
    main = pa.table({"who": pa.array([], pa.int64()), "key": pa.array([], left)})
    public = pa.table({"key": pa.array([], right), "label": pa.array([], pa.string())})
    tables = JoinedTables({"main": main, "other": public}, [on("other", "key", "key")], "who")
    if backend.name == "clickhouse" and pa.types.is_timestamp(left) and pa.types.is_timestamp(right):
        fits = True  # all of its times are points in time
    if not fits:
        with pytest.raises(InvalidParameter, match="compared"):
            backend.joined(tables)
        return
    with backend.joined(tables) as joined:
        assert len(joined.histogram(Aggregation(user="who", item="label", contributions=1))) == 0


HOSTILE = {
    "text": ["", "\x01\u2028", "x" * 3_000_000, "NaN", "'; DROP TABLE main; --", "A"],
    "number": [-(2**63), 2**63 - 1, 0],
    "day": [date(1, 1, 1), date(9999, 12, 31)],
    "time": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "price": [Decimal("-9999999.99"), Decimal("9999999.99")],
    "flag": [True, None],
}


@pytest.mark.parametrize("key", list(KINDS))
def test_no_row_of_a_private_table_decides(backend: Backend, key: str):
    """Whatever keys one user brings, others count as before, and the user changes what the bounds allow."""
    without, public = private_rows(60, 5), public_rows(key, 6)
    mine = {"who": "the one", "stars": -(2**63), **dict.fromkeys(KINDS)}
    rows = [{**mine, key: value} for value in (*HOSTILE[key], *KINDS[key][1]) for _ in range(20)]
    with_one = pa.concat_tables([without, pa.Table.from_pylist(rows, schema=without.schema)])
    asked = Aggregation(user="who", item="label", contributions=2, per_item=3)
    measured = Aggregation(user="who", item="label", contributions=2, measures=MEASURES)
    found, schemas = [], []
    for main in (without, with_one):
        tables = {"main": main, "other": pa.concat_tables([public] * 3)}
        with backend.joined(JoinedTables(tables, [on("other", key, "key")], "who"), lambda: 7) as joined:
            schemas.append(joined.describe())
            histogram, statistics = joined.histogram(asked), joined.statistics(measured)
        counts = as_dict(histogram.labels, histogram.counts)
        found.append((counts, statistics.totals[1], statistics.totals[2]))
    assert schemas[0] == schemas[1]
    for (before, after), most in zip(zip(*found, strict=True), (3, 4, 50), strict=True):
        moved = [after.get(label, 0) - before.get(label, 0) for label in before.keys() | after.keys()]
        assert sum(map(bool, moved)) <= 2
        assert all(abs(each) <= most for each in moved)
    assert found[0][0] != found[1][0]


def test_broken_text_of_a_key_meets_nothing(backend: Backend):
    """PostgreSQL holds none, and pyiceberg writes none; a file of an Iceberg table that holds some is hostile.py's."""
    if backend.name in ("postgresql", "iceberg"):
        return
    keys = [pa.array([b"a", broken], pa.binary()).view(pa.string()) for broken in (b"b", b"\xff")]
    found = []
    for key in keys:
        tables = {
            "main": pa.table({"who": [1, 2], "key": key}),
            "other": pa.table({"key": keys[1], "label": ["x", "y"]}),
        }
        with backend.joined(JoinedTables(tables, [on("other", "key", "key")], "who")) as joined:
            histogram = joined.histogram(Aggregation(user="who", item="label"))
            found.append((joined.describe(), as_dict(histogram.labels, histogram.counts)))
    assert found[0] == found[1]
    assert found[0][1] == {"x": 1}


def test_a_join_is_not_prepared(backend: Backend):
    main = pa.table({"who": [1, 2], "key": [1, 2]})
    tables = JoinedTables({"main": main, "other": pa.table({"key": [1]})}, [on("other", "key", "key")], "who")
    with backend.joined(tables) as joined, pytest.raises(UnsuitableTable):
        joined.origin()


@pytest.fixture
def shop(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """Tables with keys and users of different collations, which the server would not compare, and a padded one."""
    with postgresql_server.database() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TYPE size AS ENUM ('S', 's')")
        connection.execute(
            'CREATE TABLE visits (who text COLLATE "POSIX", page text COLLATE "POSIX", code char(4), kind size)'
        )

        connection.execute('CREATE TABLE pages (page varchar(20) COLLATE "C", code text, kind size, part text)')
        connection.execute('CREATE TABLE people (who text COLLATE "C", born integer)')
        rows = [(f"{name}{n}", page, "a", "S") for n in range(400) for name in ("u", "U") for page in ("home", "HÔME")]
        connection.cursor().executemany("INSERT INTO visits VALUES (%s, %s, %s, %s)", rows)
        connection.execute("INSERT INTO pages VALUES ('home', 'a', 'S', 'low'), ('HÔME', 'b', 's', 'high')")
        connection.execute("INSERT INTO people SELECT 'u' || n, 1990 FROM generate_series(0, 399) AS n")
        yield url


def test_postgresql_compares_keys_and_users_by_code_points(shop: str):
    """Whatever collations and types of text the columns have."""
    tables = {"public": {"pages": "pages"}, "private": {"people": "public.people"}}
    budget = {"epsilon": 20.0, "delta": 1e-6, "contributions": 2}
    with setwise.open("visits", user="who", engine=shop, **tables) as session:
        for key, parts in (("page", {"low": 800, "high": 800}), ("code", {"low": 800}), ("kind", {"low": 800})):
            text = f"SELECT part, COUNT(DISTINCT who) AS n FROM visits JOIN pages USING ({key}) GROUP BY part"
            found = {row["part"]: row["n"]["value"] for row in session.sql(text, **budget)}
            assert found == pytest.approx(parts, abs=5)
        text = "SELECT born, COUNT(DISTINCT who) AS n FROM visits JOIN people USING (who) GROUP BY born"
        assert {row["born"]: row["n"]["value"] for row in session.sql(text, **budget)} == pytest.approx(
            {1990: 400}, abs=5
        )
        with pytest.raises(UnsuitableTable, match="no table 'nowhere'"):
            setwise.open("visits", user="who", engine=shop, public={"x": "nowhere"}).join("x", using="page")


def test_postgresql_refuses_what_it_cannot_join(shop: str):
    long = "m" * 50
    with psycopg.connect(shop, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE longer (page text, {long} text)")
        connection.execute(f"ALTER TABLE visits ADD COLUMN {long} text")
    with setwise.open("visits", user="who", engine=shop) as session:
        session.prepare("prepared", item="page")
    for source, beside, error, said in (
        ("visits", {"a table of that name": "longer"}, UnsuitableTable, "longer than the 63 bytes"),
        ("visits", {"frame": pa.table({"page": ["home"]})}, InvalidParameter, "tables of its own, by name, not Table"),
        ("prepared", {"pages": "pages"}, UnsuitableTable, "what was prepared cannot be joined"),
    ):
        with setwise.open(source, user="who", engine=shop, public=beside) as session, pytest.raises(error, match=said):
            session.join(*beside, using="page")


def test_keys_that_only_postgresql_has_meet_themselves(shop: str):
    """Infinite numbers and the ends of time are equal to themselves there, and no error; NaN is null."""
    with psycopg.connect(shop, autocommit=True) as connection:
        for table in ("odd", "keys"):
            connection.execute(f"CREATE TABLE {table} (number numeric, day date, moment timestamp, at timestamptz)")
            for row in (
                "'NaN', 'infinity', '-infinity', 'infinity'",
                "'-Infinity', '4713-01-01 BC', '294276-01-01', '1-1-1 BC'",
            ):
                connection.execute(f"INSERT INTO {table} VALUES ({row})")
        connection.execute("ALTER TABLE odd ADD COLUMN who integer DEFAULT 7")
        connection.execute("ALTER TABLE keys ADD COLUMN label text DEFAULT 'x'")
    for key in ("number", "day", "moment", "at"):
        named = [
            NamedTable(name="odd", table="odd", private=True),
            NamedTable(name="keys", table="keys"),
        ]
        join = ServerJoin(tables=named, joins=[on("keys", key, key)], user="who")
        with PostgresqlEngine(shop, join) as engine:
            found = engine.histogram(Aggregation(user="who", item="label", per_item=100))
            assert as_dict(found.labels, found.counts) == {"x": 1 if key == "number" else 2}


def test_the_command_line_joins_tables_of_postgresql(shop: str, request: pytest.FixtureRequest):
    run = request.getfixturevalue("setwise")
    text = "SELECT part, COUNT(DISTINCT who) AS n FROM visits JOIN pages USING (page) GROUP BY part"
    words = ["--engine", shop, "--user", "who", "--epsilon", "20", "--delta", "1e-6", "--contributions", "2", "--json"]
    for public in ("pages", "public.pages", "pages=public.pages"):
        found = json.loads(run("sql", text, "--public", public, *words).stdout)
        assert {row["part"] for row in found["rows"]} == {"low", "high"}


def test_spark_joins_files_frames_and_tables(spark_session: "SparkSession", tmp_path: Path):
    """Text of a CSV file meets integers, and only the columns that a question names are parsed."""
    (tmp_path / "visits.csv").write_text("who,page,minutes\n" + "".join(f"{n},{n % 3},9\n" for n in range(600)))
    (tmp_path / "pages.csv").write_text("page,part,rank\n 0,low,1\n1,high,2\nx,none,3\n2.0,high,4\n")
    people = spark_session.createDataFrame([(n, 1990) for n in range(300)], "who BIGINT, born INT")
    people.createOrReplaceTempView("people_of_the_shop")
    text = (
        "SELECT part, born, COUNT(DISTINCT who) AS n FROM visits JOIN pages USING (page) JOIN people USING (who) "
        "WHERE pages.rank < 4 GROUP BY part, born"
    )
    for private in (people, "people_of_the_shop"):
        with setwise.open(
            tmp_path / "visits.csv",
            user="who",
            engine="spark",
            types={"who": Kind.INTEGER, "page": Kind.INTEGER, "pages.rank": Kind.INTEGER},
            public={"pages": tmp_path / "pages.csv"},
            private={"people": private},
        ) as session:
            found = session.sql(text, contributions=1, epsilon=20.0, delta=1e-6)
            assert {(row["part"], row["born"]): row["n"]["value"] for row in found} == pytest.approx(
                {("low", 1990): 100, ("high", 1990): 100}, abs=5
            )
            assert session.join("pages", using="page").schema.column("rank").from_text


def test_what_spark_says_of_a_join_is_not_passed_on(spark_session: "SparkSession", monkeypatch: pytest.MonkeyPatch):
    from pyspark.errors import PySparkException

    def failing(*_: object, **__: object) -> None:
        raise PySparkException("secret")

    visits = spark_session.createDataFrame([(1, "a")], "who BIGINT, page STRING")
    pages = spark_session.createDataFrame([("a", 1, 2)], "page STRING, part INT, PART INT")
    with setwise.open(visits, user="who", public={"pages": pages, "same": visits.select("page")}) as session:
        with pytest.raises(InvalidParameter, match="rename one of them"):
            session.join("pages", using="page")
        monkeypatch.setattr(type(spark_session), "sql", failing)
        with pytest.raises(EngineFailed, match="could not join the tables") as refused:
            session.join("same", using="page")
    assert refused.value.__context__ is None

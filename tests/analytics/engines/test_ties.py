# ruff: noqa: E501 - statements stand on one line each
"""Rows that a window over one user's rows sorts as equal: their order does not depend on the rows of other users.

Engines sort the rows of all users together, and their sorts are not stable. So the tables have thousands of users, rows
in random order and many ties, and the rows of every other user must stay the same when one user leaves the table.
"""

import random
from functools import partial

import duckdb
import pyarrow as pa
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.opening import duckdb_table
from setwise.analytics.engines.duckdb.tables import DuckDBDerivedTable
from setwise.analytics.engines.postgresql.engine import PostgresqlEngine
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.sql.parser import parse_sql
from tests.analytics.engines.conftest import open_backend
from tests.analytics.engines.test_row_expressions import derived
from tests.sizes import some

USERS, ROWS_PER_USER = 2000, 6
LEAVING = ("u0", "u1")
FLOATS = (None, float("nan"), float("inf"), float("-inf"), 1e200, -1e200, 0.0, -0.0, 5.0)
NOTHING, NO_NUMBER = "nothing", -(10**6)
COLUMNS = {"u": pa.string(), "k": pa.int64(), "n": pa.int64(), "g": pa.string(), "f": pa.float64()}


@pytest.fixture(params=["duckdb", "postgresql", "clickhouse", "spark"])
def backend(request, tmp_path):
    """Return a backend with an engine of its own: lake tables are read by DuckDB."""
    return open_backend(request.param, request, tmp_path)


def random_rows():
    """Return rows of all users in random order: `k` is equal in all rows, and a user's values of `g` differ."""
    numbers = random.Random(3)
    rows = [
        (f"u{user}", 7, numbers.randrange(50), group, numbers.choice(FLOATS))
        for user in range(USERS)
        for group in numbers.sample(["a", "b", "c", "d", "e", "f", "g"], ROWS_PER_USER)
    ]
    numbers.shuffle(rows)
    return rows


ROWS = random_rows()


def table_without(user):
    kept = [row for row in ROWS if row[0] != user]
    return pa.table(
        {name: pa.array([row[at] for row in kept], kind) for at, (name, kind) in enumerate(COLUMNS.items())}
    )


FIRST = "QUALIFY ROW_NUMBER() OVER (PARTITION BY u ORDER BY k) = 3"
GROUPS = [
    "SELECT u, g AS seen FROM t GROUP BY u, g QUALIFY ROW_NUMBER() OVER (PARTITION BY u ORDER BY COUNT(*) DESC) = 1",
    "SELECT u, LOWER(g) AS seen FROM t GROUP BY u, seen QUALIFY ROW_NUMBER() OVER (PARTITION BY u ORDER BY COUNT(*)) <= 2",
    "SELECT u, FIRST_VALUE(g) OVER (PARTITION BY u ORDER BY COUNT(*) DESC) AS seen FROM t GROUP BY u, g",
    "SELECT u, LAG(g) OVER (PARTITION BY u ORDER BY COUNT(*) DESC) AS seen FROM t GROUP BY u, g",
    "SELECT u, LEAD(g, 2) OVER (PARTITION BY u ORDER BY COUNT(*) DESC) AS seen FROM t GROUP BY u, g",
    "SELECT u, seen FROM (SELECT u, g AS seen, ROW_NUMBER() OVER (PARTITION BY u ORDER BY COUNT(*)) AS r FROM t GROUP BY u, g) AS i WHERE r = 3",
]
NUMBERS = [
    "SELECT u, MAX(n) AS seen FROM t GROUP BY u, g QUALIFY ROW_NUMBER() OVER (PARTITION BY u ORDER BY COUNT(*)) = 1",
    "SELECT u, SUM(MAX(n)) OVER (PARTITION BY u ORDER BY COUNT(*) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS seen FROM t GROUP BY u, g",
    f"SELECT u, COUNT(*) AS seen FROM (SELECT u, f FROM t {FIRST.replace('= 3', '<= 4')}) AS i GROUP BY u, f",
    "SELECT u, COUNT(DISTINCT m) AS seen FROM (SELECT u, n % 2 AS p, MAX(f) AS m FROM t GROUP BY u, p) AS i GROUP BY u",
]
CONDITIONS = [
    (f"SELECT u, f FROM t {FIRST}", "f > 0"),
    (f"SELECT u, f FROM t {FIRST}", "f IS NULL"),
    (f"SELECT * FROM t {FIRST}", "f < 0"),
]


def derivation_of(statement, where="u IS NOT NULL", columns=tuple(COLUMNS)):
    text = f"SELECT COUNT(DISTINCT u) FROM ({statement}) AS o WHERE {where}"
    return parse_sql(text, user="u", columns=columns).cores[0].source.derivation


def other_users_changed(read):
    """Return for how many other users a result changes when one of `LEAVING` leaves the table.

    `read` returns the pairs (user, value) of a table without the given user, or of the whole table for None.
    """
    whole = read(None)
    assert len(whole) > 1
    return sum(len({pair[0] for pair in whole ^ read(user)} - {user}) for user in LEAVING)


def pairs_of(engine, item, where=None, null_item=None):
    """Return the values of `item`, the user column and perhaps another one, of all users."""
    condition = None if where is None else parse_filter(where, engine.describe())
    found = engine.histogram(Aggregation(user="u", item=item, where=condition, null_item=null_item))
    return {label if isinstance(label, tuple) else (label,) for label in found.labels}


def opened(backend, stored, derivation):
    """Return an engine on the table that `derivation` makes of a table that is stored already."""
    match backend.name:
        case "postgresql":
            return PostgresqlEngine(backend.url, stored, derivation=derivation)
        case "clickhouse":
            from setwise.analytics.engines.clickhouse.engine import ClickHouseEngine

            return ClickHouseEngine(backend.url, stored, derivation=derivation)
        case _:
            return derived(backend, stored, derivation)


def test_which_tied_rows_a_user_keeps_does_not_depend_on_other_users(backend):
    store = getattr(backend, "store", lambda table: table)
    tables = {user: store(table_without(user)) for user in (None, *LEAVING)}

    def read_column(user, derivation, null_item):
        with opened(backend, tables[user], derivation) as engine:
            return pairs_of(engine, ("u", "seen"), null_item=(NOTHING, null_item))

    def read_condition(user, derivation, where):
        with opened(backend, tables[user], derivation) as engine:
            return pairs_of(engine, "u", where)

    reads = {text: partial(read_column, derivation=derivation_of(text), null_item=NOTHING) for text in GROUPS}
    reads |= {text: partial(read_column, derivation=derivation_of(text), null_item=NO_NUMBER) for text in NUMBERS}
    reads |= {
        f"{text} WHERE {where}": partial(read_condition, derivation=derivation_of(text, where), where=where)
        for text, where in CONDITIONS
    }
    tried = some(list(reads.items()), 3) if backend.name == "clickhouse" else reads.items()
    changed = {text: number for text, read in tried if (number := other_users_changed(read))}
    assert changed == {}


DUCKDB_VALUES = {
    "UUID": "CAST('6ba7b810-9dad-11d1-80b4-00c04fd430c8' AS UUID)",
    "BLOB": "CAST('x' AS BLOB)",
    "INTEGER[]": "[1]",
    "STRUCT": "{'a': 1}",
    "TIME": "TIME '10:00'",
    "UBIGINT": "CAST(9223372036854775999 AS UBIGINT)",
    "NaN": "CAST('nan' AS DOUBLE)",
}


@pytest.mark.parametrize("value", DUCKDB_VALUES.values(), ids=DUCKDB_VALUES)
def test_ties_between_null_and_values_of_any_type_do_not_depend_on_other_users_on_duckdb(value, tmp_path):
    rows = table_without(None)
    derivation = derivation_of(f"SELECT u, s FROM t {FIRST}", "s IS NULL", ("u", "k", "s"))

    def read(user):
        file = str(tmp_path / f"{user}.parquet")
        columns = f"u, k, CASE WHEN n % 2 = 0 THEN {value} END AS s"
        with duckdb.connect() as connection:
            connection.register("rows", rows)
            connection.execute(f"COPY (SELECT {columns} FROM rows WHERE u <> '{user}') TO '{file}' (FORMAT parquet)")
        with DuckDBEngine(DuckDBDerivedTable(duckdb_table(file, None, {}), derivation)) as engine:
            return pairs_of(engine, "u", "s IS NULL")

    assert other_users_changed(read) == 0


POSTGRESQL_VALUES = {
    "uuid": "CAST('6ba7b810-9dad-11d1-80b4-00c04fd430c8' AS uuid)",
    "json": """CAST('{"a": 1}' AS json)""",
    "point": "point(1, 2)",
    "numeric": "CAST('NaN' AS numeric)",
}


@pytest.mark.parametrize("value", POSTGRESQL_VALUES.values(), ids=POSTGRESQL_VALUES)
def test_ties_between_null_and_values_of_any_type_do_not_depend_on_other_users_on_postgresql(value, request, tmp_path):
    import psycopg

    backend = open_backend("postgresql", request, tmp_path)
    stored = backend.store(table_without(None))
    derivation = derivation_of(f"SELECT u, s FROM t {FIRST}", "s IS NULL", ("u", "k", "s"))

    def read(user):
        name = f"without {user}"
        columns = f"u, k, CASE WHEN n % 2 = 0 THEN {value} END AS s"
        with psycopg.connect(backend.url, autocommit=True) as connection:
            connection.execute(f"""CREATE TABLE "{name}" AS SELECT {columns} FROM "{stored}" WHERE u <> '{user}'""")
        with PostgresqlEngine(backend.url, name, derivation=derivation) as engine:
            return pairs_of(engine, "u", "s IS NULL")

    assert other_users_changed(read) == 0


def test_texts_that_a_collation_takes_for_equal_are_groups_of_their_own(tmp_path):
    """Check that the engine need not choose one of several texts for a group, depending on the order of rows."""
    file = tmp_path / "texts.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE texts (u VARCHAR, g VARCHAR COLLATE NOCASE)")
        connection.execute("INSERT INTO texts VALUES ('u0', 'A'), ('u0', 'a'), ('u1', 'a'), ('u1', 'A')")
    derivation = derivation_of("SELECT u, g AS seen FROM t GROUP BY u, g", columns=("u", "g"))
    table = duckdb_table(f"{file}::texts", None, {})
    with DuckDBEngine(DuckDBDerivedTable(table, derivation)) as engine:
        assert pairs_of(engine, ("u", "seen")) == {(user, text) for user in ("u0", "u1") for text in "aA"}

# ruff: noqa: E501 - statements stand on one line each
"""Per-user SELECTs of all forms on every engine: rows are those of DuckDB, and removing a user removes that user's rows."""

from collections import Counter

import duckdb
import pyarrow as pa
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.sql.parser import parse_sql
from setwise.errors import InvalidParameter
from tests.analytics.engines.backends import DuckDBBackend
from tests.analytics.engines.conftest import open_backend
from tests.analytics.engines.test_row_expressions import derived
from tests.sizes import some

NO_NUMBER = -(10**6)
USERS = 9
ROWS = 90


def table(users=range(USERS)):
    """Return rows of `users`: times repeat, minutes and prices have nulls, and one user has a single row."""
    rows = [
        (f"u{n % USERS}", n // 4, (n * 7) % 11 if n % 6 else None, ("NO", "SE", None)[n % 5 % 3], n % 3 == 0,
         (n % 8) / 4 if n % 9 else float("nan"))
        for n in range(ROWS)
        if n % USERS != 8 or n == 8
    ]  # fmt: skip
    kept = [row for row in rows if int(row[0][1:]) in users]
    names = ("u", "hour", "minutes", "country", "paid", "price")
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.bool_(), pa.float64())
    return pa.table({name: pa.array([row[k] for row in kept], kinds[k]) for k, name in enumerate(names)})


COLUMNS = ("u", "hour", "minutes", "country", "paid", "price")

STATEMENTS = [
    "SELECT u, hour, COALESCE(minutes, -1) AS x FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY u ORDER BY hour, minutes, country, paid, price) = 1",
    "SELECT u, hour, ROW_NUMBER() OVER (PARTITION BY u ORDER BY hour DESC, minutes, country, paid) AS x FROM t",
    "SELECT u, hour, RANK() OVER (PARTITION BY u, country ORDER BY minutes DESC) AS x FROM t WHERE NOT paid",
    "SELECT u, hour, hour - LAG(hour) OVER (PARTITION BY u ORDER BY hour) AS x FROM t",
    "SELECT u, n AS hour, n - LAG(n) OVER (PARTITION BY u ORDER BY first) AS x FROM (SELECT u, country, COUNT(*) AS n, MIN(hour) AS first FROM t GROUP BY u, country) AS g",
    "SELECT u, COUNT(*) AS hour, RANK() OVER (PARTITION BY u ORDER BY COUNT(*) DESC) AS x FROM t GROUP BY u, country",
    "SELECT u, hour, SUM(minutes) OVER (PARTITION BY u ORDER BY hour) AS x FROM t",
    "SELECT u, hour, MAX(minutes) OVER w AS x FROM t WINDOW w AS (PARTITION BY u, paid)",
    "SELECT e.u, e.hour, e.minutes AS x FROM t e WHERE minutes > (SELECT AVG(f.minutes) FROM t f WHERE f.u = e.u)",
    "SELECT e.u, e.hour, (SELECT COUNT(*) FROM t f WHERE f.u = e.u AND f.country = e.country AND f.paid) AS x FROM t e",
    "SELECT u, hour, minutes AS x FROM t WHERE hour = (SELECT MAX(f.hour) FROM t f WHERE f.u = t.u)",
    "SELECT u, hour, minutes AS x FROM t WHERE u IN (SELECT u FROM t WHERE country = 'NO')",
    "SELECT u, hour, minutes AS x FROM t WHERE u NOT IN (SELECT u FROM t GROUP BY u HAVING MAX(minutes) >= 10)",
    "SELECT u, hour, minutes AS x FROM t WHERE (u, hour) IN (SELECT u, MIN(hour) FROM t WHERE paid GROUP BY u)",
    "SELECT u, hour, minutes AS x FROM t e WHERE EXISTS (SELECT 1 FROM t f WHERE f.u = e.u AND f.paid AND f.minutes > 3)",
    "SELECT u, hour, minutes AS x FROM t e WHERE NOT EXISTS (SELECT * FROM t f WHERE f.u = e.u AND f.hour < e.hour)",
    "SELECT u, hour, minutes AS x FROM t e WHERE NOT EXISTS (SELECT 1 FROM t f WHERE f.u = e.u AND e.minutes < f.minutes)",
    "SELECT u, hour, minutes AS x FROM t e WHERE EXISTS (SELECT 1 FROM t f WHERE f.u = e.u AND f.country = e.country AND f.minutes <> e.minutes)",
    "SELECT e.u, e.hour, p.n AS x FROM t e JOIN (SELECT u, COUNT(*) AS n FROM t WHERE paid GROUP BY u) AS p USING (u)",
    "SELECT e.u, e.hour, COALESCE(p.n, 0) AS x FROM t e LEFT JOIN (SELECT u, country, COUNT(*) AS n FROM t WHERE paid GROUP BY u, country) AS p ON e.u = p.u AND p.country = e.country",
    "SELECT e.u, e.hour, e.minutes AS x FROM t e LEFT JOIN (SELECT u, hour FROM t WHERE paid) AS p ON e.u = p.u AND p.hour > 10 AND e.minutes > 3 WHERE p.u IS NULL",
    "SELECT e.u, COUNT(p.u) AS hour, COUNT(*) AS x FROM t e LEFT JOIN (SELECT u, hour FROM t WHERE paid) AS p ON e.u = p.u AND p.hour = e.hour GROUP BY e.u",
    "SELECT a.u, a.hour, b.minutes AS x FROM t a JOIN t b ON a.u = b.u AND a.hour < b.hour AND b.paid",
    "WITH a AS (SELECT u, MIN(hour) AS first FROM t GROUP BY u), b AS (SELECT u, SUM(minutes) AS s FROM t GROUP BY u) SELECT u, first AS hour, s AS x FROM a JOIN b USING (u)",
    "SELECT u, hour, minutes AS x FROM t e WHERE country = (SELECT f.country FROM t f WHERE f.u = e.u ORDER BY f.hour DESC, f.country LIMIT 1)",
    "SELECT u, hour, minutes AS x FROM (SELECT * FROM t WHERE u IN (SELECT u FROM t WHERE paid)) AS i WHERE minutes >= (SELECT AVG(f.minutes) FROM t f WHERE f.u = i.u)",
]  # fmt: skip


def derivation_of(text):
    inner = text if not text.startswith("WITH") else None
    statement = f"SELECT COUNT(*) FROM ({inner}) AS o" if inner else _around(text)
    return parse_sql(statement, user="u", columns=COLUMNS).cores[0].source.derivation


def _around(text):
    """Return a statement whose common table expressions stand before the outermost SELECT."""
    before, _, last = text.rpartition(") SELECT ")
    return f"{before}) SELECT COUNT(*) FROM (SELECT {last}) AS o"


def in_duckdb(text, rows):
    with duckdb.connect() as connection:
        connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        connection.register("t", rows)
        return Counter(
            (user, NO_NUMBER if hour is None else hour, NO_NUMBER if x is None else x)
            for user, hour, x in set(connection.execute(text).fetchall())
        )


def on_engine(backend, text, rows):
    with derived(backend, rows, derivation_of(text)) as engine:
        found = engine.histogram(
            Aggregation(user="u", item=("u", "hour", "x"), null_item=("nobody", NO_NUMBER, NO_NUMBER))
        )
    return Counter({label: int(count) for label, count in zip(found.labels, found.counts, strict=True)})


def _comparable(rows):
    """Return rows as text, because a label of one group column may be text where another row has a number."""
    return sorted(map(str, rows))


@pytest.mark.parametrize("text", STATEMENTS)
def test_removing_a_user_removes_exactly_that_users_rows(text):
    check(DuckDBBackend(None), text, [table(), table(set(range(USERS)) - {3}), table({8})])


@pytest.fixture(params=["postgresql", "clickhouse", "spark"])
def server(request, tmp_path):
    """Return the backend of an engine; the test above compares the rows of DuckDB, which also reads lake tables."""
    return open_backend(request.param, request, tmp_path)


def test_every_engine_gives_these_rows(server):
    """Statements on each engine, for a table and its neighbour without one user: all, on Spark every fourth.

    The small run has every third on ClickHouse and every twelfth on Spark.
    """
    backend = server
    full, one_in = {"postgresql": (1, 1), "clickhouse": (1, 3), "spark": (4, 3)}[backend.name]
    for text in some(STATEMENTS[::full], one_in):
        check(backend, text, [table(), table(set(range(USERS)) - {3})])


def check(backend, text, tables):
    whole = None
    for rows in tables:
        found, expected = on_engine(backend, text, rows), in_duckdb(text, rows)
        assert _comparable(found) == _comparable(expected), text
        assert set(found.values()) <= {1}
        users = set(rows["u"].to_pylist())
        whole = found if whole is None else whole
        assert found == Counter({label: n for label, n in whole.items() if label[0] in users}), text


REFUSED = [
    ("SELECT u, ROW_NUMBER() OVER (ORDER BY hour) AS x FROM t", "PARTITION BY u"),
    ("SELECT u, SUM(minutes) OVER (PARTITION BY country) AS x FROM t", "PARTITION BY u"),
    ("SELECT u FROM t QUALIFY RANK() OVER (ORDER BY hour) = 1", "PARTITION BY u"),
    ("SELECT u FROM t e WHERE minutes > (SELECT AVG(f.minutes) FROM t f WHERE f.country = e.country)", "correlated on other columns"),
    ("SELECT u FROM t e WHERE EXISTS (SELECT 1 FROM t f WHERE f.country = e.country)", "correlated on other columns"),
    ("SELECT u FROM t WHERE EXISTS (SELECT 1 FROM t f WHERE f.minutes > 3)", "EXISTS that is not about the user"),
    ("SELECT u FROM t e WHERE minutes = (SELECT f.minutes FROM t f WHERE f.u = e.u)", "several rows"),
    ("SELECT u FROM t e WHERE minutes > (SELECT COUNT(*) + 1 FROM t f WHERE f.u = e.u)", "COUNT alone"),
    ("SELECT u FROM t e WHERE minutes > (SELECT AVG(f.minutes) FROM t f WHERE f.u = e.u OR f.paid)", "for equality"),
    ("SELECT u FROM t e WHERE minutes > (SELECT AVG(f.minutes) FROM t f WHERE f.u = e.u AND f.hour < e.hour)", "window function"),
    ("SELECT u FROM t WHERE u IN (SELECT u FROM t ORDER BY hour LIMIT 3)", "LIMIT"),
    ("SELECT u FROM t WHERE (u, hour) NOT IN (SELECT u, MAX(hour) FROM t GROUP BY u)", "NOT EXISTS"),
    ("SELECT e.u FROM t e JOIN t f ON e.country = f.country", "joined on the user column"),
    ("SELECT e.u FROM t e JOIN (SELECT u, COUNT(*) AS n FROM t GROUP BY u) AS p ON e.minutes = p.n", "joined on the user column"),
    ("SELECT e.u FROM t e FULL JOIN (SELECT u, COUNT(*) AS n FROM t GROUP BY u) AS p USING (u)", "write JOIN or LEFT JOIN"),
    ("SELECT e.u FROM t e LEFT JOIN t f ON e.u = f.u AND f.hour < e.hour", "LEFT JOIN"),
    ("SELECT e.u FROM t e LEFT JOIN (SELECT u FROM t WHERE paid) f ON e.u = f.u WHERE EXISTS (SELECT 1 FROM t g WHERE g.u = f.u)", "compare the column u of the table before LEFT JOIN"),
    ("SELECT e.u FROM t e JOIN t f ON e.u = f.u WHERE minutes > 3", "several tables have the column 'minutes'"),
    ("SELECT u, NTILE(4) OVER (PARTITION BY u ORDER BY hour) AS x FROM t", "NTILE"),
    ("SELECT u, ROW_NUMBER() OVER (PARTITION BY u) AS x FROM t", "needs an order"),
    ("SELECT u, SUM(hour) OVER (PARTITION BY u ORDER BY hour RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS x FROM t", "this frame"),
    ("SELECT u, LAG(hour, 1, 0) OVER (PARTITION BY u ORDER BY hour) AS x FROM t", "COALESCE around it"),
    ("SELECT u, MAX(hour) OVER w AS x FROM t", "no window is called 'w'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_what_would_mix_users_or_has_no_one_meaning_is_refused_by_name(text, says):
    with pytest.raises(InvalidParameter, match=says):
        derivation_of(text)

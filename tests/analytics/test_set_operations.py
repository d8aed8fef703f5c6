# ruff: noqa: E501 - statements stand on one line each
"""Set operations, bins of time, subtotals, series and scalar subqueries give what DuckDB gives, up to little noise."""

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

import setwise
from setwise.errors import InvalidParameter

ROWS = [
    (user, "abc"[(user + place) % 3], "xy"[place % 2], dt.datetime(2026, 1, 1) + dt.timedelta(hours=7 * (user % 8) + place))
    for user in range(1200)
    for place in range(1 + user % 3)
]  # fmt: skip
TABLE = pa.table(dict(zip(("u", "g", "h", "moment"), map(list, zip(*ROWS, strict=True)), strict=True)))
SERIES = "(SELECT CAST(DATE_TRUNC('day', moment) AS DATE) AS day, COUNT(*) AS n FROM t GROUP BY 1) AS c"

STATEMENTS = [
    "SELECT COUNT(*) FROM (SELECT u FROM t WHERE g = 'a' INTERSECT SELECT u FROM t WHERE g = 'b') AS s",
    "SELECT COUNT(DISTINCT u) FROM (SELECT u FROM t WHERE g = 'a' EXCEPT SELECT u FROM t WHERE g = 'b') AS s",
    "SELECT COUNT(*) FROM (SELECT u FROM t WHERE g = 'a' EXCEPT SELECT u FROM t WHERE g = 'b' EXCEPT SELECT u FROM t GROUP BY u HAVING COUNT(*) > 2) AS s",
    "SELECT COUNT(*) FROM (SELECT u FROM t WHERE g = 'a' OR h = 'x' UNION SELECT u FROM t WHERE h = 'y') AS s",
    "SELECT g, COUNT(*) FROM (SELECT u, g FROM t WHERE h = 'x' UNION SELECT u, g FROM t WHERE h = 'y') AS s GROUP BY g",
    "SELECT COUNT(*) FROM (SELECT u FROM t GROUP BY u, g INTERSECT SELECT u FROM t WHERE h = 'x') AS s",
    "SELECT COUNT(*) FROM (SELECT u FROM t GROUP BY u, g, h HAVING h = 'x' EXCEPT SELECT u FROM t WHERE g = 'b') AS s",
    "SELECT COUNT(*) FROM (SELECT DISTINCT u FROM t GROUP BY g, u INTERSECT SELECT u FROM t WHERE h = 'x' INTERSECT SELECT u FROM t WHERE g <> 'c') AS s",
    "SELECT COUNT(*) FROM (SELECT u FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY u ORDER BY moment) < 3 INTERSECT SELECT u FROM t WHERE h = 'x') AS s",
    "WITH p AS (SELECT u FROM t GROUP BY u, g EXCEPT SELECT u FROM t WHERE g = 'b') SELECT COUNT(*) FROM p",
    "SELECT COUNT(*) FROM (SELECT DISTINCT u FROM t GROUP BY u, g) AS s",
    "SELECT h, COUNT(*) FROM (SELECT DISTINCT u, h FROM t GROUP BY u, h, g) AS s GROUP BY h",
    "SELECT COUNT(*) FROM t JOIN (SELECT DISTINCT u FROM t GROUP BY u, g) AS s USING (u)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT u, h FROM t QUALIFY RANK() OVER (PARTITION BY u ORDER BY h) = 3) AS s",
    "SELECT COUNT(*) FROM (SELECT DISTINCT u, h, MAX(moment) OVER (PARTITION BY u) AS last FROM t) AS s",
    "WITH p AS (SELECT u FROM t GROUP BY u HAVING COUNT(*) > 1), q AS (SELECT u FROM t WHERE g = 'c') SELECT COUNT(*) FROM (SELECT u FROM p INTERSECT SELECT u FROM q) AS s",
    "SELECT g FROM t GROUP BY g EXCEPT SELECT 'a'",
    "SELECT g, COUNT(*) FROM t GROUP BY g UNION SELECT h, COUNT(*) FROM t GROUP BY h",
    "SELECT COUNT(*) FROM t WHERE g = 'a' UNION SELECT COUNT(*) FROM t WHERE h = 'y'",
    "SELECT 'users', COUNT(DISTINCT u) FROM t WHERE g = 'a' UNION SELECT 'users', COUNT(DISTINCT u) FROM t WHERE h = 'y'",
    "WITH c AS (SELECT g, COUNT(*) AS n FROM t GROUP BY g) SELECT SUM(n) FROM c WHERE g = 'a' UNION SELECT SUM(n) FROM c WHERE g <> 'a'",
    "SELECT DISTINCT ON (g) g, h, COUNT(*) AS n FROM t GROUP BY g, h ORDER BY g, h DESC",
    "SELECT DISTINCT ON (g) g, h, n FROM (SELECT g, h, COUNT(*) AS n FROM t GROUP BY g, h) AS s ORDER BY 1, 2",
    "SELECT time_bucket(INTERVAL '6 hours', moment) AS b, COUNT(*) AS n FROM t GROUP BY b",
    "SELECT time_bucket('5 hours', moment) AS b, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY 1",
    "SELECT time_bucket(INTERVAL 2 DAY, moment) AS b, COUNT(*) AS n FROM t GROUP BY b",
    "SELECT FLOOR(EXTRACT(EPOCH FROM moment) / 21600) * 21600 AS b, COUNT(*) FROM t GROUP BY b",
    "SELECT COALESCE(g, 'all') AS g, COALESCE(h, 'all') AS h, COUNT(*) AS n FROM t GROUP BY CUBE (g, h)",
    "SELECT COALESCE(g, 'all') AS g, COUNT(*) AS n FROM t GROUP BY ROLLUP (g)",
    "SELECT CASE WHEN GROUPING(g) = 1 THEN 'all' ELSE g END AS g, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((g), ())",
    "SELECT (SELECT COUNT(*) FROM t)",
    "SELECT (SELECT COUNT(*) FROM t WHERE g = 'a') AS n, (SELECT COUNT(DISTINCT u) FROM t) AS users, 1 AS one",
    "SELECT s.g, ANY_VALUE(s.n) AS n FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS s GROUP BY s.g",
    f"SELECT d.day, COALESCE(n, 0) AS n FROM (SELECT CAST(UNNEST(GENERATE_SERIES(DATE '2025-12-30', DATE '2026-01-05', INTERVAL '1 day')) AS DATE) AS day) AS d LEFT JOIN {SERIES} ON d.day = c.day",
    "SELECT h.h, n FROM generate_series(-1, 25, 2) AS h(h) LEFT JOIN (SELECT EXTRACT(HOUR FROM moment) AS hour, COUNT(*) AS n FROM t GROUP BY 1) AS c ON c.hour = h.h",
    "SELECT v.name, n FROM (VALUES ('a', 'first'), ('b', 'second')) AS v(g, name) JOIN (SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS c ON c.g = v.g",
]


@pytest.fixture(scope="module")
def session():
    with setwise.open(TABLE, user="u", name="t") as opened:
        yield opened


def split(rows):
    """Return (sorted labels of the rows, their numbers in the same order); numbers from -1 to 31 count as labels."""
    shown = [["" if cell is None else cell for cell in row] for row in rows]
    labels = [[cell for cell in row if isinstance(cell, str) or -1 <= cell <= 31] for row in shown]
    numbers = [[cell for cell in row if not isinstance(cell, str) and not -1 <= cell <= 31] for row in shown]
    pairs = sorted(zip(labels, numbers, strict=True), key=lambda pair: (str(pair[0]), pair[1]))
    return [[str(cell).removesuffix(" 00:00:00") for cell in pair[0]] for pair in pairs], [pair[1] for pair in pairs]


@pytest.mark.parametrize("text", STATEMENTS)
def test_answers_are_those_of_duckdb(session, text):
    """Four releases share epsilon 100 at most, and a user adds 9 to each: noise of 15 has a probability of exp(-41)."""
    written = text.replace("HAVING COUNT(*)", "HAVING_COUNT")
    written = written.replace("COUNT(*)", "COUNT(*, contribution_bounds_per_group => (0, 3))")
    written = written.replace("HAVING_COUNT", "HAVING COUNT(*)")
    found = session.sql(written, epsilon=100.0, delta=1e-2, contributions=3)
    assert not found.problem
    labels, numbers = split(
        [[cell["value"] if isinstance(cell, dict) else cell for cell in row.values()] for row in found]
    )
    with duckdb.connect() as connection:
        connection.register("t", TABLE)
        true = connection.execute(text).fetchall()
    plain = [[str(cell) if isinstance(cell, dt.date) else cell for cell in row] for row in true]
    true_labels, true_numbers = split(plain)
    assert labels == true_labels
    for ours, theirs in zip(numbers, true_numbers, strict=True):
        assert ours == pytest.approx(theirs, abs=15)


@pytest.mark.parametrize("columns", ["g", "g, COUNT(*) AS n", "MAX(moment) AS last"])
def test_distinct_rows_of_several_users_are_refused(session, columns):
    """SELECT DISTINCT g .. GROUP BY u, g has one row per g, which belongs to no single user."""
    with pytest.raises(InvalidParameter, match="add u after DISTINCT"):
        session.explain(f"SELECT COUNT(*) FROM (SELECT DISTINCT {columns} FROM t GROUP BY u, g) AS s", epsilon=1.0)


def test_scalar_subqueries_have_intervals(session):
    found = session.sql(
        "SELECT g, 100.0 * COUNT(*) / (SELECT COUNT(*) FROM t) AS share, (SELECT COUNT(*) FROM t) AS n FROM t GROUP BY g",
        epsilon=9.0,
    )
    for row in found:
        for name in ("share", "n"):
            assert row[name]["interval"][0] < row[name]["value"] < row[name]["interval"][1]
    (row,) = session.sql("SELECT (SELECT COUNT(*) FROM t) AS n", epsilon=9.0)
    assert row["n"]["interval"][0] < row["n"]["value"] < row["n"]["interval"][1]


def test_date_bins_begin_where_the_statement_says(session):
    found = session.sql(
        "SELECT DATE_BIN('6 hours', moment, TIMESTAMP '2026-01-01 03:00:00') AS b, COUNT(*) FROM t GROUP BY b",
        epsilon=50.0,
    )
    assert len(found) > 3
    assert {str(row["b"])[11:] for row in found} <= {"03:00:00", "09:00:00", "15:00:00", "21:00:00"}


@pytest.mark.parametrize(
    "series",
    ["generate_series(0, 1000000000)", "generate_series(1, n)", "generate_series(DATE '0001-01-01', DATE '9999-01-01', INTERVAL '1 day')", "generate_series(1, 5, 0)"],
)  # fmt: skip
def test_long_or_unknown_series_are_refused(session, series):
    with pytest.raises(InvalidParameter, match=r"(?i)generate_series"):
        session.explain(f"SELECT * FROM {series} AS s(x), (SELECT COUNT(*) AS n FROM t) AS c", epsilon=1.0)


def test_a_month_after_the_last_of_january_is_the_last_of_february(session):
    text = "SELECT d.m FROM generate_series(DATE '2025-01-31', DATE '2025-05-31', INTERVAL '1 month') AS d(m), (SELECT COUNT(*) FROM t) AS c ORDER BY 1"
    with duckdb.connect() as connection:
        true = [
            str(month.date())
            for (month,) in connection.execute(text.replace(", (SELECT COUNT(*) FROM t) AS c", "")).fetchall()
        ]
    assert [row["m"] for row in session.sql(text, epsilon=1.0)] == true

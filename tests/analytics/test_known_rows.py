"""Rows of which a user has only one in each group need no bound on rows, and no search for one."""

import duckdb
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.query import AUTO, Count
from setwise.analytics.sql.parser import parse_sql

COUNTED = "SELECT u, COUNT(*) AS n FROM t GROUP BY u"
FIRST = "SELECT *, ROW_NUMBER() OVER (PARTITION BY u ORDER BY x) AS place FROM t"
ONE_ROW = [
    f"SELECT COUNT(*) FROM ({COUNTED}) AS p",
    f"SELECT n, COUNT(*) FROM ({COUNTED}) AS p GROUP BY n",
    f"WITH p AS ({COUNTED}), q AS (SELECT u, n * 2 AS d FROM p WHERE n > 1) SELECT d, COUNT(*) FROM q GROUP BY d",
    f"SELECT CASE WHEN n > 1 THEN 'more' ELSE 'one' END AS kind, COUNT(*) FROM ({COUNTED}) AS p GROUP BY kind",
    "SELECT COUNT(*) FROM (SELECT DISTINCT u FROM t) AS p",
    "SELECT g, COUNT(*) FROM (SELECT DISTINCT u, g FROM t) AS p GROUP BY g",
    "SELECT g, COUNT(*) FROM (SELECT u, g, h, COUNT(*) FROM t GROUP BY u, g, h) AS p WHERE h = 'a' GROUP BY g",
    f"SELECT g, COUNT(*) FROM ({FIRST}) AS p WHERE place = 1 GROUP BY g",
    "SELECT COUNT(*) FROM (SELECT u, g FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY u ORDER BY x) = 1) AS p",
    f"SELECT COUNT(*) FROM ({COUNTED}) AS p JOIN (SELECT u, SUM(x) s FROM t GROUP BY u) q ON p.u = q.u WHERE s > 2",
]
"""SELECTs whose COUNT(*) counts at most one row of a user in each group."""

ALONE = [0, 1, 2, 3, 4, 7, 8, 9]
"""The statements of `ONE_ROW` in which a user has one row in all, and so one group."""

SEVERAL_ROWS = [
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM (SELECT u, g FROM t WHERE x > 0) AS p",
    "SELECT COUNT(*) FROM (SELECT DISTINCT u, g FROM t) AS p",
    "SELECT h, COUNT(*) FROM (SELECT u, g, h, COUNT(*) FROM t GROUP BY u, g, h) AS p GROUP BY h",
    "SELECT COUNT(*) FROM (SELECT u, COUNT(*) AS n FROM t GROUP BY u, g) AS p",
    f"SELECT COUNT(*) FROM ({FIRST}) AS p WHERE place < 3",
    f"SELECT COUNT(*) FROM ({FIRST}) AS p WHERE place = 1 OR g = 'a'",
    "SELECT COUNT(*) FROM (SELECT u, g FROM t QUALIFY RANK() OVER (PARTITION BY u ORDER BY h) = 1) AS p",
    f"SELECT COUNT(*) FROM ({COUNTED}) AS p JOIN t AS q ON p.u = q.u",
    "SELECT LOWER(g) AS k, COUNT(*) FROM (SELECT DISTINCT u, g FROM t) AS p GROUP BY k",
]
"""SELECTs whose COUNT(*) may count several rows of a user in a group."""

ROWS = [
    (user, "aAb"[(user + place) % 3], "ab"[place % 2], float(place + user % 5))
    for user in range(300)
    for place in range(1 + user % 4)
]
TABLE = pa.table(dict(zip("ughx", map(list, zip(*ROWS, strict=True)), strict=True)))


@pytest.mark.parametrize("text", ONE_ROW)
def test_one_row_of_a_user_in_a_group_is_not_searched_for(text):
    statement = parse_sql(text, user="u", columns=["u", "g", "h", "x"])
    assert statement.query.statistics == (Count(most=1),)
    bound = 1 if ONE_ROW.index(text) in ALONE else AUTO
    if statement.query.item is not None:
        query = statement.filled().query
        assert (AUTO if query.auto_contributions else query.contributions) == bound


@pytest.mark.parametrize("text", SEVERAL_ROWS)
def test_several_rows_of_a_user_keep_their_bound(text):
    statement = parse_sql(text, user="u", columns=["u", "g", "h", "x"])
    assert statement.query.statistics == (Count(bounds=AUTO),)


@pytest.mark.parametrize("text", ONE_ROW)
def test_no_row_is_left_out_where_the_rows_are_known(text):
    """Three groups of a user at epsilon 100 leave epsilon 33 for each: noise of 1 has a probability of exp(-33)."""
    with duckdb.connect() as connection:
        connection.register("t", TABLE)
        true = connection.execute(text).fetchall()
    with setwise.open(TABLE, user="u", name="t") as session:
        found = session.sql(text, epsilon=100.0, delta=1e-3, contributions=3)
    rows = [tuple(cell["value"] if isinstance(cell, dict) else cell for cell in row.values()) for row in found]
    assert sorted(map(str, rows)) == sorted(map(str, true))


def test_bounds_of_other_statistics_follow_from_one_row():
    text = f"SELECT STDDEV(n) AS s, COUNT(DISTINCT n) AS d, AVG(n) AS m FROM ({COUNTED}) AS p"
    deviation, distinct, _ = parse_sql(text, user="u").query.statistics
    assert deviation.per_user == distinct.per_user == 1

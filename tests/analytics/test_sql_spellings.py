"""Spellings of other dialects are read as the plain form of the same statement."""

import pytest

from setwise.analytics.sql.parser import parse_sql
from setwise.errors import InvalidParameter

COLUMNS = ("u", "x", "n", "g", "day", "at", "key")
SAME = [
    (
        "SELECT FLOOR(n / 250) * 250 AS b, COUNT(*) AS c FROM t GROUP BY 1",
        "SELECT (CAST(FLOOR(((n - 0.0) / 250.0)) AS INTEGER) * 250.0) + 0.0 AS b, COUNT(*) AS c FROM t GROUP BY 1",
    ),
    (
        "SELECT FLOOR((n - 10) / 25) * 25 + 10 AS b, COUNT(*) AS c FROM t GROUP BY 1",
        "SELECT FLOOR((n - 10) / 25.0) * 25.0 + 10.0 AS b, COUNT(*) AS c FROM t GROUP BY 1",
    ),
    (
        "SELECT DATE_TRUNC('hour', at) AS h, COUNT(*) AS c FROM t GROUP BY 1",
        "SELECT TIME_BUCKET('1 hour', at) AS h, COUNT(*) AS c FROM t GROUP BY 1",
    ),
    (
        "SELECT DATE_TRUNC('hour', at) AS h, COUNT(*) AS c FROM t GROUP BY 1",
        "SELECT TIME_BUCKET('3600.000s', at) AS h, COUNT(*) AS c FROM t GROUP BY 1",
    ),
    (
        "SELECT DATE_TRUNC('day', at) AS h, COUNT(*) AS c FROM t GROUP BY 1",
        "SELECT DATE_BIN('24 hours', at, TIMESTAMP '2020-01-01') AS h, COUNT(*) AS c FROM t GROUP BY 1",
    ),
    (
        "SELECT DATE_TRUNC('month', at) AS h, COUNT(*) AS c FROM t GROUP BY 1",
        "SELECT TIME_BUCKET(INTERVAL '1 month', at) AS h, COUNT(*) AS c FROM t GROUP BY 1",
    ),
    (
        "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS c FROM t GROUP BY 1",
        "SELECT DATEADD(month, DATEDIFF(month, 0, day), 0) AS m, COUNT(*) AS c FROM t GROUP BY 1",
    ),
    ("SELECT AVG(x * x) AS a FROM t", "SELECT AVG(POWER(x, 2)) AS a FROM t"),
    (
        "SELECT COUNT(*) AS c FROM t WHERE at > day + INTERVAL '1 hour'",
        "SELECT COUNT(*) AS c FROM t WHERE at - day > INTERVAL '1 hour'",
    ),
    (
        "SELECT COUNT(*) AS c FROM t WHERE day + INTERVAL '1 hour' <= at",
        "SELECT COUNT(*) AS c FROM t WHERE INTERVAL '1 hour' <= at - day",
    ),
    (
        "SELECT g, COUNT(*) AS c FROM t GROUP BY g ORDER BY 1 DESC, 2 DESC",
        "SELECT g, COUNT(*) AS c FROM t GROUP BY ALL ORDER BY ALL DESC",
    ),
    (
        "SELECT p.g, COUNT(*) AS c FROM t JOIN p ON t.key = p.key WHERE x > 3 GROUP BY p.g",
        "SELECT p.g, COUNT(*) AS c FROM t, p WHERE t.key = p.key AND x > 3 GROUP BY p.g",
    ),
    (
        "SELECT COUNT(*) AS c FROM (SELECT a.u, a.x FROM t a JOIN t b ON a.u = b.u WHERE a.at < b.at) AS o",
        "SELECT COUNT(*) AS c FROM (SELECT a.u, a.x FROM t a, t b WHERE a.u = b.u AND a.at < b.at) AS o",
    ),
    ("SELECT AVG(CASE WHEN x > 1 THEN 1 WHEN NOT x > 1 THEN 0 END) AS a FROM t", "SELECT AVG(x > 1) AS a FROM t"),
    ("SELECT COUNTIF(x > 1) AS a FROM t", "SELECT SUM(x > 1) AS a FROM t"),
    ("SELECT COUNT(*) AS c FROM t", "SELECT COUNT(*) AS c FROM t; -- every row"),
    ("SELECT COALESCE(SUM(x), 0) AS a FROM t", "SELECT ZEROIFNULL(SUM(x)) AS a FROM t"),
    ("SELECT COALESCE(SUM(x), 0) AS a FROM t", "SELECT ISNULL(SUM(x), 0) AS a FROM t"),
    ("SELECT NULLIF(COUNT(*), 0) AS a FROM t", "SELECT NULLIFZERO(COUNT(*)) AS a FROM t"),
    ("SELECT CASE WHEN AVG(x) IS NULL THEN 0 ELSE 1 END AS a FROM t", "SELECT NVL2(AVG(x), 1, 0) AS a FROM t"),
    ("SELECT SAFE_DIVIDE(SUM(x), COUNT(*)) AS a FROM t", "SELECT TRY_DIVIDE(SUM(x), COUNT(*)) AS a FROM t"),
    (
        "SELECT CASE WHEN COUNT(x) = 0 THEN 0 ELSE SAFE_DIVIDE(SUM(x), COUNT(x)) END AS a FROM t",
        "SELECT DIV0(SUM(x), COUNT(x)) AS a FROM t",
    ),
    ("SELECT COUNT(*) AS c FROM t", "/* every row */ SELECT COUNT(*) AS c FROM t;; "),
    (
        "SELECT g, COUNT(*) AS c FROM (SELECT u, g FROM t "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY u ORDER BY u, at) = 1) AS s GROUP BY g",
        "SELECT g, COUNT(*) AS c FROM (SELECT DISTINCT ON (u) u, g FROM t ORDER BY u, at) AS s GROUP BY g",
    ),
    (
        "WITH s AS (SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY U, day ORDER BY at DESC) = 1) "
        "SELECT g, COUNT(*) AS c FROM s GROUP BY g",
        "WITH s AS (SELECT DISTINCT ON (U, day) * FROM t ORDER BY at DESC) SELECT g, COUNT(*) AS c FROM s GROUP BY g",
    ),
    (
        "SELECT COUNT(*) FROM t UNION DISTINCT SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t",
    ),
]


@pytest.mark.parametrize(("plain", "spelled"), SAME)
def test_a_spelling_is_the_plain_form(plain, spelled):
    assert parse_sql(spelled, user="u", columns=COLUMNS) == parse_sql(plain, user="u", columns=COLUMNS)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SELECT TIME_BUCKET('5 months', at) AS h, COUNT(*) AS c FROM t GROUP BY 1", "TIME_BUCKET"),
        (
            "SELECT DATE_BIN('1 hour', at, since) AS h, COUNT(*) AS c FROM t GROUP BY 1",
            "DATE_BIN",
        ),
        ("SELECT DATE_BIN('1 month', at, TIMESTAMP '2020-01-01') AS h, COUNT(*) AS c FROM t GROUP BY 1", "DATE_BIN"),
        ("SELECT AVG(POWER(x, 0.5)) AS a FROM t", "POWER"),
        ("SELECT COUNT(*) FROM t, p", "CROSS JOIN"),
        ("SELECT COUNT(*) FROM t, p WHERE t.key > p.key", "CROSS JOIN"),
        ("SELECT COUNT(*) FROM (SELECT a.u FROM t a, t b WHERE a.key = b.key) AS o", "joined on the user column"),
        ("SELECT COUNT(*) FROM (SELECT a.u FROM t a, t b WHERE a.u = b.u OR a.key = b.key) AS o", "CROSS JOIN"),
    ],
)
def test_what_is_no_plain_form_is_refused(text, named):
    with pytest.raises(InvalidParameter, match=named):
        parse_sql(text, user="u", columns=COLUMNS)


def test_an_alias_that_is_also_a_column_means_the_column():
    with pytest.raises(InvalidParameter, match="'x' is selected but not grouped"):
        parse_sql("SELECT COUNT(*) AS x, x * 2 AS d FROM t", user="u", columns=COLUMNS)
    with pytest.raises(InvalidParameter, match="'later' is selected but not grouped"):
        parse_sql("SELECT later * 2 AS d, COUNT(*) AS later FROM t", user="u", columns=COLUMNS)


def test_a_chain_of_aliases_that_doubles_again_and_again_is_refused():
    chain = ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(60))
    with pytest.raises(InvalidParameter, match="repeat too much"):
        parse_sql(f"SELECT COUNT(*) AS a0, {chain} FROM t", user="u", columns=COLUMNS)


COUNTED = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"


@pytest.mark.parametrize(
    ("text", "releases"),
    [
        (f"SELECT g FROM ({COUNTED}) AS a WHERE n = (SELECT MAX(n) FROM ({COUNTED}) AS b)", 1),
        (f"{COUNTED} UNION ALL {COUNTED}", 1),
        (f"{COUNTED} UNION ALL {COUNTED.replace('FROM t', 'FROM t WHERE x > 1')}", 2),
        (f"{COUNTED} UNION ALL {COUNTED.replace(' GROUP BY', ' WHERE x > 1 GROUP BY')}", 2),
        ("SELECT g, COUNT(*) / (SELECT COUNT(*) FROM t) AS s, (SELECT COUNT(*) FROM t) AS c FROM t GROUP BY g", 2),
        ("SELECT COUNT(DISTINCT u) AS n FROM t WHERE x > (SELECT COUNT(DISTINCT u) FROM t)", 2),
        ("SELECT COUNT(*) AS n, (SELECT COUNT(DISTINCT u) FROM t) AS users FROM t", 2),
        ("SELECT COUNT(*) AS n FROM t UNION ALL SELECT COUNT(*) FROM t WHERE x > (SELECT COUNT(*) FROM t)", 2),
    ],
)
@pytest.mark.parametrize("contributions", [None, 1])
def test_equal_selects_are_released_once(text, releases, contributions):
    """Check the number of releases, and that the scalar of a condition is released before its SELECT."""
    statement = parse_sql(text, user="u", columns=COLUMNS, contributions=contributions)
    names = [core.name for core in statement.cores]
    assert len(names) == len({*names}) == releases
    for place, core in enumerate(statement.cores):
        for scalar in core.source.derivation.released:
            assert any(name in statement.scalars[scalar].sql for name in names[:place])

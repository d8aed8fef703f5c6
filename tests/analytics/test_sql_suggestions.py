"""A refusal suggests only statements that are answered, and that mean what was asked."""

import datetime as dt

import pyarrow as pa
import pytest

import setwise
from setwise.errors import InvalidParameter

ROWS = 600
TABLE = pa.table(
    {
        "uid": [n % 200 for n in range(ROWS)],
        "i": [n % 40 for n in range(ROWS)],
        "f": [n / 8 for n in range(ROWS)],
        "s": [f"a_{n % 3}" for n in range(ROWS)],
        "b": [n % 2 == 0 for n in range(ROWS)],
        "t": [dt.datetime(2026, 1, 1) + dt.timedelta(hours=n) for n in range(ROWS)],
        "d": [dt.date(2026, 1, 1) + dt.timedelta(days=n % 50) for n in range(ROWS)],
    }
)
PUB = pa.table({"k": [1, 1, 2, 3], "name": ["one", "uno", "two", "three"]})
COUNTED = "SELECT COUNT(DISTINCT uid) AS users FROM x"


@pytest.fixture(scope="module")
def session():
    with setwise.open(TABLE, user="uid", name="x", public={"pub": PUB}) as opened:
        yield opened


def refusal(session, text):
    """Return the message with which `text` is refused, and the suggested statement, which is checked to be answered."""
    with pytest.raises(InvalidParameter) as caught:
        session.explain(text, epsilon=10)
    message, _, suggested = str(caught.value).partition("; write: ")
    if suggested:
        session.explain(suggested, epsilon=10)
    return message, suggested


@pytest.mark.parametrize(
    ("text", "suggested"),
    [
        (
            "WITH q AS (SELECT uid, NTILE(4) OVER (ORDER BY SUM(f) DESC) AS part FROM x GROUP BY uid) "
            "SELECT part, COUNT(*) FROM q GROUP BY 1",
            COUNTED,
        ),
        ("SELECT COUNT(*) AS n FROM (SELECT uid, MEDIAN(f) AS r FROM x GROUP BY uid) q WHERE r > 10", COUNTED),
        ("SELECT i, uid, f FROM x WHERE f > 5 ORDER BY f DESC LIMIT 10", f"{COUNTED} WHERE f > 5"),
        (
            "SELECT EXTRACT(HOUR FROM t AT TIME ZONE 'Europe/Oslo') AS h, COUNT(*) AS n FROM x GROUP BY 1",
            "SELECT EXTRACT(HOUR FROM t) AS h, COUNT(*) AS n FROM x GROUP BY 1",
        ),
        (
            "SELECT f / 10 AS k, COUNT(*) AS n FROM x GROUP BY k",
            "SELECT FLOOR(CAST(f AS DOUBLE PRECISION) / 10) AS k, COUNT(*) AS n FROM x GROUP BY k",
        ),
        ("SELECT MODE(i) FROM x", "SELECT i, COUNT(*) AS n FROM x GROUP BY i"),
        ("SELECT FIRST(s) FROM x", "SELECT s, COUNT(*) AS n FROM x GROUP BY s"),
        ("SELECT HISTOGRAM(i) FROM x", "SELECT i, COUNT(*) AS n FROM x GROUP BY i"),
        ("SELECT APPROX_TOP_COUNT(s, 5) FROM x", "SELECT s, COUNT(*) AS n FROM x GROUP BY s"),
        (
            "SELECT k, SUM(v) AS n FROM (SELECT s AS k, i AS v, uid AS who FROM x) GROUP BY k",
            "SELECT k, SUM(v) AS n FROM (SELECT s AS k, i AS v, uid FROM x) GROUP BY k",
        ),
        (
            "SELECT k, COUNT(DISTINCT q.who) AS n FROM (SELECT s AS k, uid AS who FROM x) AS q GROUP BY k",
            "SELECT k, COUNT(DISTINCT q.uid) AS n FROM (SELECT s AS k, uid FROM x) AS q GROUP BY k",
        ),
        (
            "SELECT TO_CHAR(t, 'IYYY-IW') AS k, COUNT(*) AS n FROM x GROUP BY 1",
            "SELECT DATE_TRUNC('week', t) AS k, COUNT(*) AS n FROM x GROUP BY 1",
        ),
        (
            "SELECT STRFTIME(t, '%Y-%U') AS k, COUNT(*) AS n FROM x GROUP BY 1",
            "SELECT DATE_TRUNC('week', t) AS k, COUNT(*) AS n FROM x GROUP BY 1",
        ),
        (
            "SELECT TO_CHAR(t, 'D') AS k, COUNT(*) AS n FROM x GROUP BY 1",
            "SELECT DATE_TRUNC('day', t) AS k, COUNT(*) AS n FROM x GROUP BY 1",
        ),
        ("SELECT COUNT(*) AS n FROM x WHERE i IN (SELECT k FROM pub LIMIT 100)", COUNTED),
        ("SELECT COUNT(*) AS n FROM x WHERE i IN (SELECT k FROM pub GROUP BY k HAVING COUNT(*) > 1)", COUNTED),
        ("SELECT COUNT(*) AS n FROM x WHERE EXISTS (SELECT 1 FROM pub p WHERE p.k = x.i HAVING COUNT(*) > 1)", COUNTED),
        (
            "SELECT s, COUNT(*) AS n FROM x GROUP BY s OPTIONS (max_groups_contributed = 1)",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 1) s, COUNT(*) AS n FROM x GROUP BY s",
        ),
        ("SELECT COUNT(*) AS n FROM x RIGHT JOIN pub p ON p.k = x.i", COUNTED),
        ("SELECT COUNT(*) AS n FROM x FULL JOIN pub p ON p.k = x.i", COUNTED),
        (
            "SELECT s, MODE(b) AS m, ANY_VALUE(s) AS a FROM x GROUP BY s",
            "SELECT s, b, COUNT(*) AS n FROM x GROUP BY s, b",
        ),
        (
            "SELECT COUNT(*) AS n FROM x WHERE STARTS_WITH(s, 'a_')",
            r"SELECT COUNT(*) AS n FROM x WHERE s LIKE 'a\_%'",
        ),
        ("SELECT COUNT(*) AS n FROM x WHERE ENDS_WITH(s, '1')", "SELECT COUNT(*) AS n FROM x WHERE s LIKE '%1'"),
        ("SELECT COUNT(*) AS n FROM x WHERE CONTAINS(s, '1')", "SELECT COUNT(*) AS n FROM x WHERE s LIKE '%1%'"),
        (
            "SELECT AGE(d) AS k, COUNT(*) AS n FROM x GROUP BY 1",
            "SELECT DATE_DIFF('day', d, CURRENT_DATE) AS k, COUNT(*) AS n FROM x GROUP BY 1",
        ),
    ],
)
def test_a_suggestion_is_answered_and_means_the_same_or_only_counts_users(session, text, suggested):
    assert refusal(session, text)[1] == suggested


def test_a_union_that_removes_duplicates_is_not_suggested_as_a_sum_of_counts(session):
    for union, has_sum in (("UNION", False), ("UNION ALL", True)):
        text = f"SELECT COUNT(*) AS n FROM (SELECT i AS v FROM x {union} SELECT i + 1 AS v FROM x) q"
        assert ("SUM(n)" in refusal(session, text)[1]) == has_sum


@pytest.mark.parametrize(
    ("text", "said", "unsaid"),
    [
        ("SELECT b, COUNT(*) AS n FROM x GROUP BY 3", "GROUP BY 3 names no column", ["unknown", "not grouped"]),
        ("SELECT DATE_TRUNC('decade', t) AS k, COUNT(*) AS n FROM x GROUP BY 1", "DECADE", ["to T", "not grouped"]),
        ("SELECT COUNT(*) AS n FROM x WHERE f IN (SELECT k FROM pub)", "'k' of 'pub' integer values", ["in pub 0"]),
        ("SELECT COUNT(*) AS n FROM x WHERE i IN (SELECT k + 1 FROM pub)", "x IN (SELECT y FROM t)", []),
    ],
)
def test_a_refusal_names_what_was_written_and_nothing_internal(session, text, said, unsaid):
    message, _ = refusal(session, text)
    assert said in message
    assert not [words for words in unsaid if words in message]


def test_names_in_brackets_are_read_as_sql_server_does(session):
    text = (
        "SELECT TOP 10 [t0].[s], COUNT_BIG(*) AS [n] FROM [dbo].[x] AS [t0] WHERE [t0].[s] <> '[i]' GROUP BY [t0].[s]"
    )
    session.explain(text, epsilon=10)
    assert session.sql(text, epsilon=10).columns == ("s", "n")


def test_a_construct_is_refused_once(session):
    message, _ = refusal(session, "SELECT s, AGE(d) AS k, COUNT(*) AS n FROM x GROUP BY 1, 2")
    assert message.count("AGE is not supported") == 1

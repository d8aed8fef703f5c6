# ruff: noqa: E501 - statements stand on one line each
"""Every refusal of the lists of statements ends with a statement to paste, and that statement really runs."""

import re

import pytest

import setwise
from setwise.analytics.sql.parser import parse_sql
from setwise.analytics.sql.syntax import parse
from setwise.errors import InvalidParameter, SetwiseError
from tests.analytics.engines import test_user_statements as user_statements
from tests.analytics.everyday_statements import STATEMENTS
from tests.analytics.test_everyday_sql import COUNTRIES, EVENTS, MIXING_USERS, READING_MORE
from tests.analytics.test_sql_corpus import REFUSED, library

SEVERAL_PROBLEMS = [
    (
        "SELECT country, MAX(minutes), LISTAGG(device, ','), FOO(price) FROM events GROUP BY ROLLUP (country)",
        ["MAX", "LISTAGG", "FOO"],
    ),
    (
        "SELECT COUNT(*) FROM (SELECT user_id, NTILE(4) OVER (PARTITION BY user_id ORDER BY at) q, RANK() OVER "
        "(ORDER BY at) r FROM events LIMIT 5) t",
        ["NTILE", "PARTITION BY user_id", "LIMIT"],
    ),
    (
        "SELECT MIN(minutes) FROM events e WHERE EXISTS (SELECT 1 FROM events f WHERE f.country = e.country) AND "
        "nothing = 3",
        ["MIN", "correlated on other columns", "nothing"],
    ),
]
"""Statements with several problems, and words of each problem that the one refusal must name."""


def walk(session, texts):
    """Check the refusals of `texts` and run what they suggest; return how many of the texts were refused."""
    refused = 0
    for text in texts:
        budget = {} if "OPTIONS" in text else {"epsilon": 9.0, "delta": 1e-3}
        before = session.spent
        try:
            session.explain(text, **budget)
            continue
        except SetwiseError as error:
            told = str(error)
        refused += 1
        assert session.spent == before
        assert "\n" not in told
        named, _, corrected = told.rpartition("; write: ")
        assert named, told
        assert corrected, (text, told)
        if corrected.startswith("EXPLAIN"):
            session.explain(corrected, epsilon=9.0, delta=1e-3)
        else:
            found = session.sql(corrected, epsilon=9.0, delta=1e-3)
            assert not found.problem, (text, corrected)
    return refused


@pytest.fixture(scope="module")
def events():
    with setwise.open(EVENTS, user="user_id", name="events", public={"countries": COUNTRIES}) as session:
        yield session


def test_refused_statements_of_the_page_lead_to_statements_that_run():
    with library() as session:
        assert walk(session, [text for text, _ in REFUSED]) == len(REFUSED)


def test_refused_everyday_statements_lead_to_statements_that_run(events):
    assert walk(events, STATEMENTS) <= 10
    texts = [*(text for text, _ in MIXING_USERS), *READING_MORE, *(text for text, _ in SEVERAL_PROBLEMS)]
    assert walk(events, texts) == len(texts)


def test_refused_statements_about_users_lead_to_statements_that_run():
    texts = [f"SELECT COUNT(*) FROM ({text}) AS o" for text, _ in user_statements.REFUSED]
    with setwise.open(user_statements.table(), user="u", name="t") as session:
        assert walk(session, texts) == len(texts)


@pytest.mark.parametrize(("text", "words"), SEVERAL_PROBLEMS)
def test_one_refusal_names_all_problems(events, text, words):
    with pytest.raises(InvalidParameter) as refused:
        events.explain(text, epsilon=1.0)
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize("top", ["TOP 10", "top (10)"])
def test_a_top_is_a_limit(top):
    text = f"SELECT {top} country, COUNT(DISTINCT user_id) AS n FROM events GROUP BY country ORDER BY n DESC;"
    limited = "SELECT country, COUNT(DISTINCT user_id) AS n FROM events GROUP BY country ORDER BY n DESC LIMIT 10"
    assert parse_sql(text, user="user_id") == parse_sql(limited, user="user_id")
    assert parse("SELECT top FROM events")


SUGGESTED = [
    ("SELECT country, COUNT(*) FROM events", "SELECT country, COUNT(*) FROM events GROUP BY country"),
    (
        "SELECT country FROM events WHERE paid ORDER BY at LIMIT 9",
        "SELECT country, COUNT(*) AS n FROM events WHERE paid GROUP BY country",
    ),
    (
        "SELECT contry, AVG(minuts) FROM events GROUP BY contry",
        "SELECT country, AVG(minutes) FROM events GROUP BY country",
    ),
    (
        "SELECT user_id, SUM(minutes) AS m FROM events GROUP BY user_id HAVING COUNT(*) > 3 ORDER BY 2 DESC LIMIT 9",
        "SELECT COUNT(*) AS users, AVG(m) AS mean_m FROM (SELECT user_id, SUM(minutes) AS m FROM events GROUP BY "
        "user_id HAVING COUNT(*) > 3) AS per_user",
    ),
    ("SELECT AVG(minutes) FROM events TABLESAMPLE SYSTEM (10 PERCENT)", "SELECT AVG(minutes) FROM events"),
    ("SELECT TOP 9 PERCENT country, COUNT(*) FROM events GROUP BY country ORDER BY 2 DESC", None),
    ("SELECT MODE(country) FROM events", "SELECT country, COUNT(*) AS n FROM events GROUP BY country"),
    (
        "SELECT country, ANY_VALUE(device) FROM events GROUP BY country",
        "SELECT country, device, COUNT(*) AS n FROM events GROUP BY country, device",
    ),
    (
        "SELECT e.country, MAX(c.name) FROM events e JOIN countries c ON e.country = c.country GROUP BY e.country",
        "SELECT e.country, c.name, COUNT(*) AS n FROM events AS e JOIN countries AS c ON e.country = c.country GROUP BY "
        "e.country, c.name",
    ),
    (
        "SELECT MIN(at), MAX(at) FROM events",
        "SELECT MIN(month) AS min_0, MAX(month) AS max_1 FROM (SELECT DATE_TRUNC('month', at) AS month, COUNT(*) AS n "
        "FROM events GROUP BY month) AS months",
    ),
    (
        "SELECT country, MIN(at) AS first_seen, COUNT(*) AS n FROM events GROUP BY country",
        "SELECT country, MIN(month) AS first_seen, SUM(n) AS n FROM (SELECT country AS country, DATE_TRUNC('month', at) "
        "AS month, COUNT(*) AS n FROM events GROUP BY country, month) AS months GROUP BY country",
    ),
    (
        "SELECT UNNEST(STRING_SPLIT(device, 'o')) AS part, COUNT(*) FROM events GROUP BY part",
        "SELECT device AS part, COUNT(*) FROM events GROUP BY part",
    ),
    (
        "SELECT t.part, COUNT(*) FROM events, UNNEST(STRING_SPLIT(device, 'o')) AS t(part) GROUP BY t.part",
        "SELECT device, COUNT(*) FROM events GROUP BY device",
    ),
    (
        "SELECT v.k, SUM(v.x) AS s FROM events e CROSS JOIN LATERAL (VALUES ('m', e.minutes), ('p', e.price)) AS v(k, x) "
        "GROUP BY v.k",
        "SELECT 'm' AS k, SUM(e.minutes) AS s FROM events AS e UNION ALL SELECT 'p' AS k, SUM(e.price) AS s FROM events "
        "AS e",
    ),
    (
        "SELECT country, COUNT(*) AS n FROM (SELECT user_id, country FROM events WHERE paid UNION ALL SELECT user_id, "
        "country FROM events WHERE device = 'web') AS t GROUP BY country",
        "SELECT country, SUM(n) AS n FROM (SELECT country AS country, COUNT(*) AS n FROM (SELECT user_id, country FROM "
        "events WHERE paid) AS t GROUP BY country UNION ALL SELECT country AS country, COUNT(*) AS n FROM (SELECT "
        "user_id, country FROM events WHERE device = 'web') AS t GROUP BY country) AS sides GROUP BY country",
    ),
    (
        "SELECT CASE WHEN minutes > 30 THEN 'long' ELSE 'short' END AS kind, LISTAGG(device) FROM events GROUP BY kind",
        "SELECT CASE WHEN minutes > 30 THEN 'long' ELSE 'short' END AS kind, device, COUNT(*) AS n FROM events GROUP BY "
        "CASE WHEN minutes > 30 THEN 'long' ELSE 'short' END, device",
    ),
    (
        "SELECT country, minutes, AVG(minutes) OVER (PARTITION BY country) AS mean FROM events",
        "SELECT country, AVG(minutes) AS mean FROM events GROUP BY country",
    ),
    (
        "SELECT e.country, (SELECT COUNT(*) FROM events f WHERE f.country = e.country) FROM events e GROUP BY e.country",
        "SELECT f.country, COUNT(*) FROM events AS f GROUP BY f.country",
    ),
    ("SELECT country, KURTOSIS(minutes) FROM events GROUP BY country", None),
    ("SELECT country, STRING_AGG(device, ',') FROM events GROUP BY country", None),
]


@pytest.mark.parametrize(("text", "suggested"), SUGGESTED)
def test_a_suggestion_keeps_what_was_asked_and_runs(events, text, suggested):
    assert walk(events, [text]) == 1
    if suggested is not None:
        with pytest.raises(InvalidParameter) as refused:
            events.explain(text, epsilon=1.0)
        assert str(refused.value).rpartition("; write: ")[2] == suggested


NOTHING_CLOSE = [
    "SELECT * FROM events",
    "SELECT *, ROW_NUMBER() OVER (PARTITION BY country ORDER BY minutes DESC) AS place FROM events",
    "SELECT * FROM events ORDER BY minutes DESC LIMIT 20",
    "SELECT COUNT(*) FROM events a JOIN events b ON a.day = b.day AND a.user_id < b.user_id",
    "SELECT a.user_id, b.user_id FROM events a JOIN events b ON a.day = b.day",
]
"""Statements about single rows, or about pairs of users; no answered statement asks nearly the same."""


@pytest.mark.parametrize("text", NOTHING_CLOSE)
def test_a_count_of_users_is_not_passed_off_as_the_same_question(events, text):
    assert walk(events, [text]) == 1
    with pytest.raises(InvalidParameter, match="no statement that is answered asks nearly this"):
        events.explain(text, epsilon=1.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SELECT country, KURTOSIS(minutes) FROM events GROUP BY country", "KURTOSIS is not supported"),
        ("SELECT country, STRING_AGG(device, ',') FROM events GROUP BY country", "STRING_AGG is not supported"),
        ("SELECT DISTINCT ON (country) country, device FROM events ORDER BY country, at", "DISTINCT ON"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT ON (country) user_id, country FROM events) AS t", "DISTINCT ON"),
        ("SELECT COUNT(*) FROM (SELECT * REPLACE (minutes AS user_id) FROM events) AS t", "REPLACE"),
        ("SELECT COUNT(*) FROM (SELECT * EXCEPT (paid) FROM events) AS t WHERE paid", "EXCEPT"),
        ("SELECT COUNT(*) FROM (SELECT user_id, minutes FROM events) AS t(minutes, user_id)", "aliases of its columns"),
        ("SELECT COUNT(*) FROM (SELECT user_id, minutes FROM events FOR UPDATE) AS t", "FOR UPDATE"),
        ("SELECT TOP 9 WITH TIES country, COUNT(*) FROM events GROUP BY country ORDER BY 2 DESC", "TOP 9 WITH TIES"),
    ],
)
def test_what_would_be_silently_ignored_is_refused_by_name(events, text, named):
    with pytest.raises(InvalidParameter, match=re.escape(named)):
        events.explain(text, epsilon=1.0)

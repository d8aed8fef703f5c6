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
    (
        "SELECT COUNT(*) FROM events WHERE paid AND country IN (SELECT country FROM countries WHERE region = 'north')",
        "SELECT COUNT(*) FROM events JOIN countries ON events.country = countries.country WHERE paid AND "
        "countries.region = 'north'",
    ),
    ("SELECT AVG(minutes) FROM events TABLESAMPLE SYSTEM (10 PERCENT)", "SELECT AVG(minutes) FROM events"),
    ("SELECT TOP 9 PERCENT country, COUNT(*) FROM events GROUP BY country ORDER BY 2 DESC", None),
    ("SELECT MODE(country) FROM events", None),
    ("SELECT country, ANY_VALUE(device) FROM events GROUP BY country", None),
    ("SELECT MIN(at), MAX(at) FROM events", None),
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


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SELECT country, KURTOSIS(minutes) FROM events GROUP BY country", "KURTOSIS is not supported"),
        ("SELECT country, STRING_AGG(device, ',') FROM events GROUP BY country", "STRING_AGG is not supported"),
        ("SELECT DISTINCT ON (country) country, COUNT(*) FROM events GROUP BY country", "DISTINCT ON"),
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

"""Every refusal of the lists of statements ends with a statement to paste, and that statement really runs."""

import pytest

import setwise
from setwise.analytics.sql.syntax import parse
from setwise.errors import InvalidParameter, SetwiseError
from tests.analytics.engines import test_user_statements as user_statements
from tests.analytics.everyday_statements import STATEMENTS
from tests.analytics.test_everyday_sql import COUNTRIES, EVENTS, MIXING_USERS, READING_MORE
from tests.analytics.test_sql_corpus import REFUSED, library

SEVERAL_PROBLEMS = [
    (
        "SELECT country, MAX(minutes), LISTAGG(device, ','), FOO(price) FROM events GROUP BY ROLLUP (country)",
        ["MAX", "LISTAGG", "price"],
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
def test_a_top_is_refused_with_the_limit_to_write(top):
    text = f"SELECT {top} country, COUNT(DISTINCT user_id) AS n FROM events GROUP BY country ORDER BY n DESC;"
    with pytest.raises(InvalidParameter) as refusal:
        parse(text)
    assert str(refusal.value) == (
        "TOP 10 is not supported in SQL here: write LIMIT 10 at the end; write: SELECT country, "
        "COUNT(DISTINCT user_id) AS n FROM events GROUP BY country ORDER BY n DESC LIMIT 10"
    )
    assert parse("SELECT top FROM events")

"""A refused LEFT JOIN from a public table, or NOT IN over a public list, comes with a statement that asks the same."""

import duckdb
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.sql.suggestions.corrections import simplest_statements
from setwise.errors import SetwiseError

RATED = [(user, user % 7, 1 + user % 5) for user in range(900)] + [(user, user % 3, 1) for user in range(200)]
TABLES = {
    "r": pa.table({name: [row[place] for row in RATED] for place, name in enumerate(("who", "film", "stars"))}),
    "films": pa.table({"film": [0, 2, 4, 5, 2, 99], "genre": ["even", "even", None, "odd", "x", "unseen"]}),
}
"""Ratings of users, and public films: film 2 stands twice, film 4 has no genre, and nobody rated film 99."""


@pytest.fixture
def session():
    with setwise.open(TABLES["r"], user="who", name="r", public={"films": TABLES["films"]}) as opened:
        yield opened


def suggestion(session, text):
    """Return the statement that the refusal of `text` says to write."""
    with pytest.raises(SetwiseError) as refused:
        session.sql(text, epsilon=100, delta=1e-6)
    message = str(refused.value)
    assert "no statement that is answered asks nearly this" not in message
    return message.rsplit("write: ", maxsplit=1)[-1]


def numbers(rows):
    """Return the rows as a set of tuples, with numbers in place of numbers with intervals."""
    return {tuple(cell["value"] if isinstance(cell, dict) else cell for cell in row.values()) for row in rows}


def exact(text):
    with duckdb.connect() as connection:
        for name, rows in TABLES.items():
            connection.register(name, rows)
        return set(connection.execute(text).fetchall())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT f.genre, COUNT(r.who) AS n FROM films f LEFT JOIN r ON r.film = f.film GROUP BY f.genre",
        "SELECT f.film, COUNT(DISTINCT r.who) FROM films f LEFT JOIN r USING (film) GROUP BY 1",
        "SELECT f.genre AS kind, COUNT(DISTINCT r.who) AS users, COUNT(r.stars) AS n FROM films f "
        "LEFT JOIN r ON f.film = r.film GROUP BY kind ORDER BY n DESC LIMIT 9",
        "SELECT COUNT(*) AS n FROM r WHERE film NOT IN (SELECT film FROM films WHERE genre = 'even')",
        "SELECT stars, COUNT(*) AS n FROM r a WHERE a.film NOT IN (SELECT film FROM films) GROUP BY stars",
    ],
)
def test_the_statement_to_write_asks_the_same(session, noiseless, text):
    found = numbers(session.sql(suggestion(session, text), epsilon=100, delta=1e-6).rows)
    assert found == exact(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT f.genre, COUNT(*) AS n FROM films f LEFT JOIN r ON r.film = f.film GROUP BY f.genre",
        "SELECT r.stars, COUNT(r.who) AS n FROM films f LEFT JOIN r ON r.film = f.film GROUP BY r.stars",
        "SELECT f.genre, COUNT(r.who) AS n FROM films f LEFT JOIN r USING (film) WHERE stars > 1 GROUP BY f.genre",
    ],
)
def test_no_statement_that_asks_something_else_is_passed_off_as_close(session, text):
    with pytest.raises(SetwiseError, match="no statement that is answered asks nearly this"):
        session.sql(text, epsilon=100, delta=1e-6)


def test_a_statement_that_counts_users_has_no_column_of_another_table():
    text = "SELECT f.genre, COUNT(*) AS n FROM films f LEFT JOIN r ON r.film = f.film GROUP BY f.genre"
    counts = [each for each in simplest_statements(text, "who") if each.endswith("FROM r") or "FROM r " in each]
    assert counts == ["SELECT COUNT(DISTINCT who) AS users FROM r"]

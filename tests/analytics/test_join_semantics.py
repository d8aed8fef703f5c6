# ruff: noqa: E501 - statements stand on one line each
"""With the noise set to zero, joins, names of tables and lists of public tables give what DuckDB computes."""

import duckdb
import pyarrow as pa
import pytest

import setwise
from setwise.errors import SetwiseError

BOUNDS = ", contribution_bounds_per_group => (0, 90)"
RATED = [(user, user % 7, 1 + user % 5) for user in range(900)] + [(user, user % 3, 1) for user in range(200)]
TABLES = {
    "r": pa.table({name: [row[place] for row in RATED] for place, name in enumerate(("who", "film", "stars"))}),
    "films": pa.table(
        {"film": [0, 2, 4, 5, 2], "genre": ["even", "even", None, "odd", "x"], "year": [1900, 1920, 1940, 1950, 1960]}
    ),
    "people": pa.table({"who": range(0, 900, 3), "age": [20 + user % 50 for user in range(0, 900, 3)]}),
    "visits": pa.table(
        {
            "who": [None, None, *(user for user in range(700) for _ in range(user % 5))],
            "film": [1, 2, *(user % 7 for user in range(700) for _ in range(user % 5))],
            "minutes": [5, 6, *(1 + day * 10 + user % 4 for user in range(700) for day in range(user % 5))],
        }
    ),
}
"""Ratings of users, public films of which film 2 stands twice, and two more private tables: ages of every third user,
and visits, two of which have no user."""

STATEMENTS = [
    "SELECT COUNT(DISTINCT p.who) FROM r LEFT JOIN people p ON r.who = p.who",
    "SELECT COUNT(DISTINCT r.who) FROM r LEFT JOIN people AS p USING (who) WHERE p.who IS NULL",
    "SELECT COUNT(DISTINCT CASE WHEN P.WHO IS NOT NULL THEN r.who END) FROM r LEFT JOIN people p USING (who)",
    "SELECT COUNT(p.who{b}) FROM r LEFT JOIN people p USING (who) WHERE stars > 1",
    "SELECT COUNT(*{b}) FROM r LEFT JOIN films ON r.film = films.film WHERE films.film IS NULL",
    "SELECT COUNT(DISTINCT films.film) FROM r LEFT JOIN films ON r.film = films.film",
    "SELECT COUNT(*{b}) FROM r LEFT JOIN films f ON r.film = f.film AND f.genre = 'even' WHERE f.film IS NULL",
    "SELECT COUNT(*{b}) FROM r LEFT JOIN films f ON r.film = f.film AND f.genre = 'even' AND f.year < 1940 "
    "WHERE f.genre IS NULL",
    "SELECT COUNT(*{b}) FROM r JOIN films f ON r.film = f.film AND f.genre = 'even' AND r.stars > 1",
    "SELECT COUNT(DISTINCT r.who) FROM r LEFT JOIN people p ON r.who = p.who AND p.age > 30 WHERE p.who IS NULL",
    "SELECT COUNT(*{b}) FROM films RIGHT JOIN r ON r.film = films.film WHERE films.film IS NULL",
    "SELECT COUNT(DISTINCT b.who) FROM r a LEFT JOIN (SELECT who FROM r WHERE film = 3 GROUP BY who) b "
    "ON a.who = b.who",
    "WITH j AS (SELECT DISTINCT who FROM r WHERE film < 5), f AS (SELECT DISTINCT who FROM r WHERE film = 3) "
    "SELECT COUNT(f.who{b}) FROM j LEFT JOIN f ON j.who = f.who",
    "WITH j AS (SELECT who, film FROM r WHERE film < 5), f AS (SELECT who, stars FROM r) "
    "SELECT COUNT(DISTINCT j.who) FROM j LEFT JOIN f ON j.who = f.who AND f.stars > 2 AND j.film > 1 "
    "WHERE f.who IS NULL",
    "WITH f AS (SELECT who, COUNT(*) AS n FROM r WHERE film = 3 GROUP BY who), g AS (SELECT who FROM r) "
    "SELECT COUNT(g.who{b}) FROM r LEFT JOIN f ON r.who = f.who LEFT JOIN g ON f.who = g.who",
    "SELECT COUNT(*{b}) FROM r WHERE film IN (SELECT film FROM films WHERE genre = 'even')",
    "SELECT COUNT(*{b}) FROM r WHERE film IN (SELECT f.film FROM films AS f WHERE f.year > 1920 OR f.genre = 'even')",
    "SELECT COUNT(*{b}) FROM r WHERE stars = 2 OR EXISTS (SELECT 1 FROM films f WHERE f.film = r.film AND f.genre = 'odd')",
    "SELECT COUNT(*{b}) FROM r a WHERE NOT EXISTS (SELECT * FROM films WHERE films.film = a.film)",
    "SELECT COUNT(*{b}) FILTER (WHERE film IN (SELECT film FROM films WHERE genre = 'odd')) FROM r "
    "WHERE film IN (SELECT film FROM films)",
    "SELECT COUNT(*{b}) FROM (SELECT who, COUNT(*) AS n FROM r WHERE film IN (SELECT film FROM films) GROUP BY who) WHERE n = 1",
    "SELECT COUNT(*{b}) FROM r JOIN films a ON r.film = a.film JOIN films b ON r.stars = b.film WHERE a.genre = b.genre",
    "SELECT COUNT(*{b}) FROM r JOIN public.films ON r.film = public.films.film WHERE public.films.genre = 'even'",
    'SELECT COUNT(*{b}) FROM "r" LEFT JOIN "db"."public"."films" "F" ON "r"."film" = "F"."film" WHERE "F"."film" IS NULL',
    'SELECT COUNT(*{b}) FROM r JOIN "db"."public"."films" ON r.film = "db"."public"."films"."film" '
    """WHERE "db"."public"."films"."genre" = 'even'""",
]


@pytest.fixture(scope="module")
def exact():
    """Return a function that runs a statement on DuckDB, where the tables are also found as db.public.NAME."""
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS db; CREATE SCHEMA db.public; CREATE SCHEMA public")
        for name, rows in TABLES.items():
            connection.register(name, rows)
            for schema in ("db.public", "public"):
                connection.execute(f"CREATE TABLE {schema}.{name} AS SELECT * FROM rows")
        yield lambda text: connection.execute(text).fetchall()


@pytest.fixture
def session():
    others = {"public": {"films": TABLES["films"]}, "private": {name: TABLES[name] for name in ("people", "visits")}}
    with setwise.open(TABLES["r"], user="who", name="r", **others) as opened:
        yield opened


@pytest.mark.parametrize("text", STATEMENTS)
def test_joins_without_noise_are_those_of_duckdb(noiseless: None, session, exact, text: str):
    """Keys of a joined table are null in rows without a match. Once they had a value, and everybody seemed to match."""
    found = session.sql(text.format(b=BOUNDS), epsilon=100, delta=1e-2, contributions=20)
    expected = exact(text.format(b=""))
    values = [tuple(cell["value"] if isinstance(cell, dict) else cell for cell in row.values()) for row in found]
    assert sorted(values, key=str) == sorted(expected, key=str)
    assert any(row[-1] for row in expected)


OF_OTHER_TABLES = [
    "SELECT COUNT(*{b}) FROM r WHERE who IN (SELECT who FROM visits)",
    "SELECT COUNT(*{b}) FROM r WHERE who IN (SELECT v.who FROM visits AS v WHERE v.minutes > 20 AND v.film = 3)",
    "SELECT COUNT(*{b}) FROM r WHERE who IN (SELECT who FROM visits GROUP BY who HAVING COUNT(*) >= 3)",
    "SELECT COUNT(*{b}) FROM r WHERE stars > 3 OR who NOT IN (SELECT who FROM visits WHERE who IS NOT NULL)",
    "SELECT COUNT(*{b}) FROM r a WHERE EXISTS (SELECT 1 FROM visits v WHERE v.who = a.who)",
    "SELECT COUNT(*{b}) FROM r a WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.who = a.who AND v.film = a.film)",
    "SELECT COUNT(*{b}) FROM r a WHERE EXISTS (SELECT 1 FROM visits v WHERE v.who = a.who AND v.minutes > a.stars * 8)",
    "SELECT COUNT(*{b}) FROM r a WHERE film IN (SELECT film FROM visits v WHERE v.who = a.who AND minutes > 9)",
    "SELECT COUNT(*{b}) FROM r a WHERE stars < (SELECT COUNT(*) FROM visits v WHERE v.who = a.who)",
    "SELECT COUNT(*{b}) FILTER (WHERE who IN (SELECT who FROM people WHERE age > 40)) FROM r "
    "WHERE who IN (SELECT who FROM visits)",
    "WITH v AS (SELECT who FROM visits GROUP BY who) SELECT COUNT(*{b}) FROM r JOIN v USING (who)",
    "WITH v AS (SELECT DISTINCT who FROM visits) SELECT COUNT(*{b}) FROM r WHERE who IN (SELECT who FROM v)",
    "WITH v AS (SELECT who, COUNT(*) AS n, MAX(minutes) AS film FROM visits GROUP BY who) "
    "SELECT COUNT(*{b}) FROM r LEFT JOIN v ON r.who = v.who AND v.n > 2 WHERE v.who IS NULL OR v.film > 30",
    "WITH v AS (SELECT who, SUM(minutes) AS total FROM visits GROUP BY who), good AS (SELECT * FROM r WHERE stars > 2) "
    "SELECT COUNT(*{b}) FROM good JOIN v USING (who) WHERE total > 40",
    "WITH v AS (SELECT who, SUM(minutes) AS total FROM visits GROUP BY who), good AS (SELECT * FROM r WHERE stars > 2) "
    "SELECT COUNT(*{b}) FROM v JOIN good ON v.who = good.who AND good.film < total",
    "SELECT COUNT(*{b}) FROM (SELECT who, COUNT(*) AS n FROM r GROUP BY who) WHERE n = 2 AND who NOT IN "
    "(SELECT who FROM people)",
    "SELECT COUNT(*) FROM (SELECT who FROM r WHERE stars > 2 INTERSECT SELECT who FROM visits)",
    "SELECT COUNT(*) FROM (SELECT who FROM r EXCEPT SELECT who FROM visits WHERE minutes > 12)",
    "SELECT COUNT(*{b}) FROM r JOIN visits v ON r.who = v.who AND r.film = v.film",
    "SELECT COUNT(*{b}) FROM r JOIN visits USING (who, film)",
    "SELECT COUNT(*{b}) FROM r LEFT JOIN visits v ON r.who = v.who AND r.film = v.film WHERE v.who IS NULL",
    "SELECT COUNT(*{b}) FROM visits v JOIN (SELECT who, film FROM r WHERE stars > 1) a ON a.who = v.who",
]


@pytest.mark.parametrize("text", OF_OTHER_TABLES)
def test_rows_of_the_same_user_in_another_private_table_are_those_of_duckdb(noiseless: None, session, exact, text: str):
    """Each user has rows of their own in every private table, so their rows may be compared across tables."""
    if "FROM visits v JOIN" in text:
        session = setwise.open(TABLES["visits"], user="who", name="visits", private={"r": TABLES["r"]})
    test_joins_without_noise_are_those_of_duckdb(None, session, exact, text)


def test_a_row_without_a_user_is_in_no_list_of_users(noiseless: None, session):
    """In SQL nothing is NOT IN a list with a null. Rows without a user belong to nobody and are left out of lists."""
    (row,) = session.sql("SELECT COUNT(DISTINCT who) FROM r WHERE who NOT IN (SELECT who FROM visits)", epsilon=100)
    present = {user for user in TABLES["visits"]["who"].to_pylist() if user is not None}
    assert row.popitem()[1]["value"] == len(set(TABLES["r"]["who"].to_pylist()) - present)


def test_only_the_table_of_the_session_is_counted(session):
    """Rows of the joined table are never counted as if they were rows of the session's table."""
    for text in (
        "SELECT COUNT(*) FROM people",
        "SELECT COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM people GROUP BY who)",
        "SELECT COUNT(*) FROM (SELECT * FROM people) p WHERE who IN (SELECT who FROM r)",
    ):
        with pytest.raises(SetwiseError, match="people"):
            session.sql(text, epsilon=1.0, delta=1e-6)
    assert session.spent == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT COUNT(*) FROM r WHERE who IN (SELECT film FROM films)", "is joined on the user column 'who'"),
        (
            "SELECT COUNT(*) FROM r WHERE EXISTS (SELECT 1 FROM films f WHERE f.film = r.who)",
            "is joined on the user column",
        ),
        ("SELECT COUNT(*) FROM r WHERE film NOT IN (SELECT film FROM films)", "write NOT EXISTS"),
        ("SELECT COUNT(*) FROM r WHERE film + 1 IN (SELECT film FROM films)", "compare columns"),
        ("SELECT COUNT(*) FROM r WHERE EXISTS (SELECT 1 FROM films WHERE genre = 'x')", "without an equality"),
        (
            "SELECT COUNT(*) FROM r WHERE film IN (SELECT film FROM films LIMIT 1)",
            "LIMIT in a subquery over a public table",
        ),
        (
            "SELECT COUNT(*) FROM r JOIN films ON r.film = films.film WHERE shop.genre = 'x'",
            "no table is called 'shop'",
        ),
    ],
)
def test_lists_and_names_that_have_no_one_meaning_are_refused_before_a_charge(session, text: str, says: str):
    """A public list of users would single them out, and a null in the list makes NOT IN unknown for every row."""
    with pytest.raises(SetwiseError, match=says):
        session.sql(text, epsilon=1.0, delta=1e-6)
    assert session.spent == ()

"""Attacks on the SQL parser: nothing that is typed reaches an engine as text, and nothing but our errors comes back."""

import contextlib
import csv
import re
import time
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import setwise
from setwise.analytics.engines.duckdb import engine as duckdb_engine
from setwise.analytics.query import Query
from setwise.analytics.sql.parser import parse_sql
from setwise.errors import InvalidParameter, SetwiseError
from tests.sizes import examples

POISON = "pOiSoN"
with (Path(__file__).parents[2] / "docs/sql-statements.csv").open(encoding="utf-8", newline="") as lines:
    CORPUS = [row["SQL"] for row in csv.DictReader(lines)]

ODD = st.sampled_from(
    [
        "'", '"', "`", "\\", "''", '""', "--", "/*", "*/", "#", ";", ")", "(", "$p1", "%s", "?", "@x", "{}", "\n", "\t",
        "\u2019", "\u00a0", "\u202e", "\ufeff", "\uff07", "\U0001f4a9", "\u0000", "0x41", "e'", "r'", "b'", "'''",
        "UNION SELECT", "read_csv('/etc/passwd')", " OR 1=1 ", "CAST(", "[OFFSET(0)]", "=>",
    ]
)  # fmt: skip
NASTY = st.lists(ODD | st.text(max_size=3), max_size=4).map(lambda parts: POISON.join(["", *parts, ""]))


class Recorded:
    """A DuckDB connection or cursor that keeps the text of every statement."""

    def __init__(self, inner, statements):
        self._inner = inner
        self._statements = statements

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._inner.close()

    def cursor(self):
        return Recorded(self._inner.cursor(), self._statements)

    def execute(self, statement, *given, **named):
        self._keep(statement)
        return self._inner.execute(statement, *given, **named)

    def sql(self, statement, *given, **named):
        self._keep(statement)
        return self._inner.sql(statement, *given, **named)

    def _keep(self, statement):
        """Keep the text of `statement`, which is a string or a `duckdb.Statement` (parsed, with its text)."""
        self._statements.append(statement if isinstance(statement, str) else statement.query)


@pytest.fixture(scope="module")
def recorded():
    """A session, and the statements that its engine was sent."""
    statements = []
    locked = duckdb_engine._locked_connection
    patch = pytest.MonkeyPatch()
    patch.setattr(duckdb_engine, "_locked_connection", lambda *given: Recorded(locked(*given), statements))
    loans = pa.table({"reader": list(range(60)), "book": ["a", "b"] * 30, "days": list(range(60))})
    books = pa.table({"book": ["a", "b"], "genre": ["x", "y"]})
    with setwise.open(loans, user="reader", name="loans", public={"books": books}) as session:
        yield session, statements
    patch.undo()


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


SHAPES = [
    lambda odd: f"SELECT COUNT(DISTINCT reader) FROM loans WHERE book = {quoted(odd)}",
    lambda odd: f"SELECT COUNT(DISTINCT reader) FROM loans WHERE book LIKE {quoted(odd)} OR days IN (1, 2)",
    lambda odd: f"SELECT COUNT(DISTINCT reader) AS `{odd}` FROM loans",
    lambda odd: f"SELECT `{odd}`, COUNT(DISTINCT reader) FROM loans GROUP BY `{odd}`",
    lambda odd: f"SELECT COUNT(DISTINCT reader) FROM loans -- {odd}",
    lambda odd: f"SELECT /* {odd} */ COUNT(DISTINCT reader) FROM loans",
    lambda odd: f"SELECT COUNT(DISTINCT reader) FROM loans AS `{odd}`",
    lambda odd: f"SELECT COUNT(DISTINCT reader) FROM loans JOIN `{odd}` USING (book)",
    lambda odd: f"SELECT COUNT(DISTINCT reader) FROM loans JOIN books AS `{odd}` USING (book)",
    lambda odd: f"SELECT COUNT(DISTINCT reader) FROM loans JOIN books USING (`{odd}`)",
    lambda odd: f"SELECT SUM(days, contribution_bounds_per_group => (0, 5)), {odd} FROM loans",
    lambda odd: f"SELECT SUM(`{odd}`, contribution_bounds_per_group => (0, 5)) FROM loans",
    lambda odd: f"SELECT DATE_TRUNC(`{odd}`, MONTH) AS m, COUNT(DISTINCT reader) FROM loans GROUP BY m",
    lambda odd: f"SELECT COUNT(DISTINCT reader) FROM loans WHERE {odd}",
    lambda odd: f"{odd} SELECT COUNT(DISTINCT reader) FROM loans",
    lambda odd: f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, {odd} = 2) COUNT(DISTINCT reader) FROM loans",
]


@settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(SHAPES), NASTY)
def test_nothing_typed_reaches_the_engine_as_text(recorded, shape, odd):
    session, statements = recorded
    statements.clear()
    with contextlib.suppress(SetwiseError):
        session.sql(shape(odd), epsilon=1.0, delta=1e-6, contributions=1)
    assert not [each for each in statements if POISON.lower() in each.lower()]


TOKENS = [token for text in CORPUS for token in re.findall(r"\w+|[^\w\s]|\s+", text)]


@st.composite
def mangled(draw):
    """A question of the page with tokens dropped, doubled, put elsewhere or replaced."""
    tokens = re.findall(r"\w+|[^\w\s]|\s+", draw(st.sampled_from(CORPUS)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(tokens) - 1))
        other = draw(st.sampled_from(TOKENS) | ODD | st.text(max_size=2))
        tokens[place : place + draw(st.integers(0, 2))] = [other] * draw(st.integers(0, 2))
        if not tokens:
            break
    return "".join(tokens)


@settings(deadline=None, max_examples=examples(400))
@given(mangled())
def test_a_mangled_question_is_read_or_refused_and_never_fails(text):
    with contextlib.suppress(SetwiseError):
        query = parse_sql(text, user="reader").query
        assert Query.from_dict(query.to_dict()) == query


@pytest.mark.parametrize("text", ["'SELECT book FROM loans", "SELECT COUNT(*) FROM loans /* x", 'SELECT "b FROM loans'])
def test_a_quote_or_comment_that_is_not_closed_is_refused(text):
    """The search for a statement to suggest raised an error of the SQL library."""
    with pytest.raises(InvalidParameter, match="cannot be read"):
        parse_sql(text, user="reader")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(DISTINCT reader) FROM loans WHERE " + "(" * 4000 + "days = 1" + ")" * 4000,
        "SELECT " + "-" * 9000 + "1",
        "SELECT COUNT(DISTINCT reader) FROM loans WHERE " + " AND ".join(["days = 1"] * 500),
        "SELECT COUNT(DISTINCT reader) FROM loans WHERE days IN (" + ",".join(["1"] * 4000) + ")",
        "SELECT " + "[" * 4000,
        "SELECT " + "CASE WHEN " * 900,
        "SELECT COUNT(DISTINCT reader) FROM " + ", ".join(["loans"] * 1000),
        "SELECT COUNT(DISTINCT reader) FROM loans " + "JOIN books USING (book) " * 350,
        "SELECT " + "EXTRACT(DAY FROM " * 550 + "x",
        "/*" * 4000,
    ],
    ids=range(10),
)
def test_long_and_deep_questions_are_done_with_in_a_moment(text):
    began = time.process_time()
    with contextlib.suppress(SetwiseError):
        parse_sql(text[:10_000], user="reader")
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize("call", ["ROUND({} / 3)", "ROUND({}, 2)", "LEAST({}, 7.5)", "SIGN({})"])
@pytest.mark.parametrize(
    "place", ["SELECT COUNT(*) AS n FROM t WHERE {} > 1", "SELECT COUNT(*) AS n FROM (SELECT u, {} AS x FROM t) AS o"]
)
def test_expressions_that_become_very_long_for_an_engine_are_refused_before_they_are_built(call, place):
    """Check the refusal and the memory: without it, 16 nested calls of ROUND need 43 million copies of the column."""
    value = "n"
    for _ in range(16):
        value = call.format(value)
    table = pa.table({"u": ["a", "b"] * 50, "n": [1.5] * 100})
    with setwise.open(table, user="u", name="t") as session:
        tracemalloc.start()
        try:
            with pytest.raises(InvalidParameter, match="characters of SQL"):
                session.sql(place.format(value), epsilon=1.0)
            assert tracemalloc.get_traced_memory()[1] < 100_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("call", ["COUNT(DISTINCT)", "COUNT(DISTINCT ())"])
def test_distinct_of_nothing_is_refused(call):
    with pytest.raises(InvalidParameter):
        parse_sql(f"SELECT {call} FROM t", user="u", columns=("u", "n"))


def test_many_long_expressions_are_refused_before_they_are_joined():
    value = "ROUND(ROUND(ROUND(ROUND(ROUND(n)))))"
    columns = ", ".join(f"{value} + {number} AS x{number}" for number in range(100))
    table = pa.table({"u": ["a", "b"] * 50, "n": [1.5] * 100})
    with setwise.open(table, user="u", name="t") as session:
        with pytest.raises(InvalidParameter, match="characters of SQL"):
            session.sql(f"SELECT COUNT(*) AS n FROM (SELECT u, {columns} FROM t) AS o", epsilon=1.0)
        assert session.sql(f"SELECT COUNT(*) AS n FROM t WHERE {value} > 1", epsilon=1.0).rows


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ("SELECT a.u, a.n FROM c{n} a JOIN c{n} b ON a.u = b.u", "joins more than 4 rows of a user into one"),
        ("SELECT a.u, MAX(a.n) AS n FROM c{n} a JOIN c{n} b ON a.u = b.u GROUP BY a.u", "more than 300 steps"),
    ],
    ids=["rows", "one row of each user"],
)
def test_joins_of_rows_that_double_the_statement_again_and_again_are_refused(select, says):
    """Check that 40 joins in turn, of 2^40 steps, are refused."""
    joins = ", ".join(f"c{n + 1} AS ({select.format(n=n)})" for n in range(40))
    first = "c0 AS (SELECT u, MAX(n) AS n FROM t GROUP BY u)"
    with pytest.raises(InvalidParameter, match=says):
        parse_sql(f"WITH {first}, {joins} SELECT COUNT(*) AS n FROM c40", user="u", columns=("u", "n"))


@pytest.mark.parametrize(
    ("nested", "times", "counted"),
    [
        ("{} + 1", 30, "x = 67"),
        ("NULLIF({}, 38)", 18, "x = 37"),
        ("1 - ({})", 14, "x = 37"),
        ("({}) / 1", 14, "x = 37"),
    ],
)
def test_deeply_nested_arithmetic_is_planned_in_linear_time(nested, times, counted):
    """Check the values of nested calls: when each level took DuckDB four times as long, eight of them took minutes."""
    value = "n"
    for _ in range(times):
        value = nested.format(value)
    table = pa.table({"u": list(range(2000)), "n": [37, 38] * 1000})
    with setwise.open(table, user="u", name="t") as session:
        found = session.sql(
            f"SELECT COUNT(DISTINCT u) AS n FROM (SELECT u, {value} AS x FROM t) AS o WHERE {counted}", epsilon=20.0
        )
    assert abs(found.value - 1000) < 20


def test_nullif_keeps_a_value_beside_a_null():
    table = pa.table({"u": list(range(2000)), "n": [37, 38] * 1000, "m": [None, 38] * 1000})
    with setwise.open(table, user="u", name="t") as session:
        for value in ("NULLIF(n, m)", "NULLIF(CASE WHEN n > 0 THEN n END, m)"):
            found = session.sql(f"SELECT COUNT(DISTINCT u) AS n FROM t WHERE {value} IS NOT NULL", epsilon=20.0)
            assert abs(found.value - 1000) < 20

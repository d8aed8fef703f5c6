"""Statements by which one row would decide whether an engine fails: they are bounded or refused."""

import pyarrow as pa
import pytest

import setwise
from setwise.errors import InvalidParameter

TOTAL = {"epsilon": 5.0, "delta": 1e-6}


def opened(rows):
    """Open a table of (who, n, d) with 50 ordinary users and `rows`."""
    ordinary = [(f"u{n}", n, "cold") for n in range(50)]
    who, number, d = zip(*[*ordinary, *rows], strict=True)
    table = pa.table({"who": who, "n": pa.array(number, pa.int64()), "d": d})
    return setwise.open(table, user="who", name="t")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(DISTINCT who) AS c FROM t WHERE n % -1 = 0",
        "SELECT COUNT(DISTINCT who) AS c FROM t WHERE MOD(n, 0 - 1) = 0",
        "SELECT COUNT(DISTINCT who) AS c FROM t WHERE n % CAST(n AS BIGINT) = 0 OR n % -1 = 0",
    ],
)
def test_the_least_integer_divided_by_minus_one(text):
    with opened([("v", -(2**63), "cold")]) as session:
        (row,) = session.sql(text, **TOTAL)
    assert abs(row["c"]["value"] - 50) < 15


def test_text_that_subqueries_double_stays_short():
    """28 doublings of 16 characters are 4 GB for the one user who has the row."""
    inner = "SELECT who, CASE WHEN d = 'flu' THEN 'xxxxxxxxxxxxxxxx' ELSE '' END AS z FROM t"
    for _ in range(28):
        inner = f"SELECT who, MAX(z) || MAX(z) AS z FROM ({inner}) GROUP BY who"
    text = f"SELECT COUNT(DISTINCT who) AS c FROM ({inner}) WHERE LENGTH(z) <= 10000"
    with opened([("v", 1, "flu")]) as session:
        (row,) = session.sql(text, **TOTAL)
    assert abs(row["c"]["value"] - 51) < 15


def test_rows_of_a_user_are_joined_a_few_times_only():
    parts = ["a0 AS (SELECT who FROM t WHERE d = 'flu')"]
    parts += [f"a{n} AS (SELECT x.who FROM a{n - 1} x JOIN a{n - 1} y ON x.who = y.who)" for n in range(1, 6)]
    with opened([("v", 1, "flu"), ("v", 2, "flu")]) as session:
        with pytest.raises(InvalidParameter, match="joins more than 4 rows of a user into one"):
            session.sql(f"WITH {', '.join(parts)} SELECT COUNT(DISTINCT who) AS c FROM a5", **TOTAL)
        (row,) = session.sql(f"WITH {', '.join(parts[:3])} SELECT COUNT(DISTINCT who) AS c FROM a2", **TOTAL)
    assert abs(row["c"]["value"] - 1) < 15


@pytest.mark.parametrize(
    "text",
    [
        "SELECT d, c, ARRAY(SELECT name FROM duckdb_settings()) AS z FROM (SELECT d, COUNT(DISTINCT who) AS c FROM t "
        "GROUP BY d) r",
        "SELECT d, c FROM (SELECT d, COUNT(DISTINCT who) AS c FROM t GROUP BY d) r WHERE EXISTS (SELECT * FROM "
        "query('SELECT 1'))",
        "SELECT d, c FROM (SELECT d, COUNT(DISTINCT who) AS c FROM t GROUP BY d) r WHERE c = ALL (SELECT "
        "LENGTH(RPAD('x', 50000000, 'y')))",
        "SELECT d, COUNT(DISTINCT who) AS c FROM t GROUP BY d HAVING EXISTS (SELECT * FROM range(100000000000))",
    ],
)
def test_every_select_over_released_rows_is_checked(text):
    with opened([]) as session, pytest.raises(InvalidParameter):
        session.sql(text, contributions=1, **TOTAL)


@pytest.mark.parametrize(
    ("column", "clauses"),
    [
        ("COUNT(DISTINCT who)", "HAVING c > 3 ORDER BY c DESC, d LIMIT 10"),
        ("2 * COUNT(DISTINCT who)", "ORDER BY c DESC, d LIMIT 10"),
        ("COUNT(DISTINCT who)", "HAVING c > 10"),
    ],
)
def test_intervals_of_rows_that_their_noise_chose_hold_the_exact_number(column, clauses):
    """Nobody has one of the 300 public labels. On average 2.5% of the intervals may miss 0: 3 to 6 in 12 answers."""
    labels = [f"z{n:03}" for n in range(300)]
    text = f"SELECT d, {column} AS c FROM t GROUP BY d {clauses}"
    shown = missed = 0
    with opened([]) as session:
        for _ in range(12):
            answer = session.sql(text, domain=labels, contributions=1, epsilon=0.2)
            cells = [row["c"] for row in answer]
            shown += len(cells)
            missed += sum(cell["interval"][0] > 0 for cell in cells)
            assert all(cell.get("unreliable") for cell in cells if cell["interval"][0] == 0)
            assert "so intervals are wider: on average 95% of them hold the number" in answer.summary
            assert "chosen by their noisy numbers" in answer.to_csv().splitlines()[1]
    assert shown > 50
    assert missed <= 25  # of 120 and more


@pytest.mark.parametrize(("counts", "promised"), [("laplace", True), ("gaussian", False)])
def test_chosen_rows_promise_95_percent_only_where_that_is_proven(counts, promised):
    """Gaussian noise may be partly shared between counts; HAVING then shows a number of rows that depends on it."""
    labels = [f"z{n}" for n in range(100)]
    text = "SELECT d, COUNT(DISTINCT who) AS c FROM t GROUP BY d HAVING c > 3"
    with opened([]) as session:
        answer = session.sql(text, domain=labels, contributions=1, epsilon=0.5, delta=1e-6, counts=counts)
    assert ("on average 95% of them hold" in answer.summary) is promised
    assert ("fewer than 95% of their intervals may hold" in answer.summary) is not promised


def test_rows_chosen_by_their_noise_are_said_to_be_so():
    """Of 500 public labels that nobody has, HAVING shows those with high noise."""
    labels = [f"z{n}" for n in range(500)]
    with opened([]) as session:
        for text, says in (
            ("SELECT d, COUNT(DISTINCT who) AS c FROM t GROUP BY d HAVING c > 3", True),
            ("SELECT d, ROUND(COUNT(DISTINCT who), 0) AS c FROM t GROUP BY d", False),
        ):
            answer = session.sql(text, domain=labels, contributions=1, epsilon=0.5, delta=1e-6)
            assert ("chose these rows by their noisy numbers" in answer.summary) is says
            assert ("with probability 95%" in answer.summary or "95% of a list's" in answer.summary) is not says


@pytest.mark.parametrize("doubled", ["z || z", "CASE WHEN z = 'a' THEN z ELSE z END", "COALESCE(LOWER(z), UPPER(z))"])
def test_columns_that_subqueries_repeat_are_refused_before_a_charge(doubled):
    """DuckDB puts the columns of a subquery into the SELECT around it: 22 doublings took 99 s and 5.8 GB of memory."""
    inner = "SELECT who, d AS z FROM t"
    for _ in range(22):
        inner = f"SELECT who, {doubled} AS z FROM ({inner})"
    with opened([]) as session:
        with pytest.raises(InvalidParameter, match="each subquery repeats the columns of the subquery inside it"):
            session.sql(f"SELECT COUNT(DISTINCT who) AS c FROM ({inner}) WHERE z <> 'b'", **TOTAL)
        assert session.spent == ()
        few = f"SELECT who, z || z AS z FROM (SELECT who, {doubled} AS z FROM (SELECT who, d AS z FROM t))"
        (row,) = session.sql(f"SELECT COUNT(DISTINCT who) AS c FROM ({few}) WHERE z <> 'b'", **TOTAL)
    assert abs(row["c"]["value"] - 50) < 15


def test_a_table_of_the_statement_does_not_hide_released_rows():
    """The released rows of the first SELECT were called core_0, and a common table expression may have that name."""
    released = "(SELECT d, COUNT(DISTINCT who) AS c FROM t GROUP BY d) AS r"
    with opened([]) as session:
        for name in ("core_0", '"CORE_0"', "core__0"):
            text = f"WITH {name} AS (SELECT 5 AS g0, -7 AS s0, 0 AS core_5) SELECT r.d, r.c FROM {released}, {name}"
            (row,) = session.sql(text, contributions=1, **TOTAL)
            assert row["d"] == "cold"


def test_an_alias_that_is_defined_by_itself_is_named():
    text = "SELECT COUNT(*) FROM (SELECT who, y + 1 AS x, x + 1 AS y FROM t GROUP BY who) AS g"
    with opened([]) as session, pytest.raises(InvalidParameter, match="the alias 'x' is defined by itself"):
        session.sql(text, **TOTAL)

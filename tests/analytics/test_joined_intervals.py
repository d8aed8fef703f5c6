"""A released number keeps its interval through joins, aliases and WITH, and loses it where the rows are not its own."""

import duckdb
import pyarrow as pa
import pytest

import setwise

TABLE = "SELECT r AS reader, ['novel', 'comic'][1 + r % 2] AS book, 1 + r % 5 AS days FROM range(3000) t(r)"
ALL = "SELECT book, COUNT(DISTINCT reader) AS n FROM loans GROUP BY book"
LONG = "SELECT book, COUNT(DISTINCT reader) AS n FROM loans WHERE days > 2 GROUP BY book"
BOTH = f"WITH a AS ({ALL}), b AS ({LONG})"


@pytest.fixture(scope="module")
def loans():
    with setwise.open(duckdb.sql(TABLE).to_arrow_table(), user="reader", name="loans") as session:
        yield session


KEPT = [
    (f"{BOTH} SELECT a.book, a.n AS x, b.n AS y FROM a JOIN b ON a.book = b.book", "xy"),
    (f"{BOTH} SELECT book, a.n AS x, b.n AS y FROM a LEFT JOIN b USING (book)", "xy"),
    (f"{BOTH} SELECT p.book, P.n AS x, q.N AS y FROM a AS p, b AS q WHERE p.book = q.book", "xy"),
    (f"SELECT x.book, y FROM ({ALL}) x JOIN (SELECT book AS k, n AS y FROM ({LONG})) z ON x.book = z.k", "y"),
    (f"{BOTH}, c AS (SELECT a.book, a.n AS s, b.n AS y FROM a JOIN b USING (book)) SELECT s AS x, y FROM c", "xy"),
    (f"WITH a AS ({ALL}) SELECT book, n AS x FROM a JOIN (VALUES ('novel'), ('comic')) v(k) ON a.book = v.k", "x"),
    (f"WITH a AS ({ALL}) SELECT l.book, l.n AS x, r.n AS y FROM a l JOIN a r ON l.book <> r.book", "x"),
]


@pytest.mark.parametrize(("text", "names"), KEPT)
def test_a_number_passed_through_a_join_keeps_its_interval(loans, text, names):
    rows = loans.sql(text, epsilon=5, delta=1e-6).rows
    assert len(rows) == 2
    for name, truth in zip("xy", (1500, 900), strict=True):
        for row in rows if name in names else ():
            lower, upper = row[name]["interval"]
            assert lower <= row[name]["value"] <= upper
            assert abs(row[name]["value"] - truth) < 20 > upper - lower


def test_each_side_of_a_join_has_its_own_interval(loans):
    text = f"{BOTH} SELECT a.n AS x, b.n AS y, a.n - b.n AS d FROM a JOIN b USING (book)"
    for row in loans.sql(text, epsilon=5, delta=1e-6).rows:
        (first, last), (least, most) = row["x"]["interval"], row["y"]["interval"]
        assert row["d"]["interval"] == [first - most, last - least]


def test_columns_of_one_name_are_all_shown(loans):
    """x.n and y.n were both called n, and the row kept the second alone."""
    text = f"{BOTH} SELECT a.book, a.n, b.n FROM a JOIN b USING (book)"
    for row in loans.sql(text, epsilon=5, delta=1e-6).rows:
        assert list(row) == ["book", "n", "n_1"]
        assert abs(row["n"]["value"] - 1500) < 20
        assert abs(row["n_1"]["value"] - 900) < 20


def test_a_row_without_a_match_has_no_interval(loans):
    text = f"{BOTH} SELECT a.book, b.n AS y FROM a LEFT JOIN b ON a.book = b.book AND b.book = 'novel'"
    cells = {row["book"]: row["y"] for row in loans.sql(text, epsilon=5, delta=1e-6).rows}
    assert cells["comic"] is None or cells["comic"]["value"] is None
    assert cells["novel"]["interval"] is not None


@pytest.mark.parametrize(
    "text",
    [
        f"{BOTH} SELECT book, x, y FROM (SELECT book, n AS x FROM a) c NATURAL JOIN (SELECT book, n AS y FROM b) d",
        f"{BOTH} SELECT a.book, SUM(a.n) AS x, SUM(b.n) AS y FROM a JOIN b USING (book) GROUP BY 1",
    ],
)
def test_other_joins_answer_the_same_numbers_without_intervals(loans, text):
    rows = loans.sql(text, epsilon=5, delta=1e-6).rows
    assert [set(row) for row in rows] == [{"book", "x", "y"}] * 2
    assert all(not isinstance(row[name], dict) for row in rows for name in "xy")


CHOSEN_BY_NOISE = [
    f"{BOTH} SELECT a.book, a.n AS x FROM a JOIN b ON a.book = b.book AND a.n > 1500",
    f"{BOTH}, m AS (SELECT MAX(n) AS most FROM a) SELECT a.book, a.n AS x FROM a JOIN m ON a.n = m.most",
    f"{BOTH}, m AS (SELECT MAX(n) AS n FROM a) SELECT book, a.n + 0 AS x FROM a JOIN m USING (n)",
    f"WITH a AS ({ALL}) SELECT a.book, a.n AS x FROM a JOIN (VALUES (1500)) v(k) ON a.n > v.k",
]
JOINED_BY_KEYS = [text for text, _ in KEPT] + [
    f"WITH a AS ({ALL}) SELECT a.book, a.n AS x FROM (VALUES ('novel')) v(k) JOIN a ON a.book = v.k",
    f"{BOTH}, c AS (SELECT book, COUNT(*) AS k FROM b GROUP BY 1) SELECT a.book, a.n AS x FROM a JOIN c USING (book)",
]


@pytest.mark.parametrize("text", CHOSEN_BY_NOISE)
def test_a_join_on_released_numbers_chooses_rows_by_their_noise(loans, text):
    """Intervals of the rows with the highest noise were said to hold as often as those of all rows."""
    columns = loans.ask_sql(text, {"epsilon": 5, "delta": 1e-6}).statement.shell
    assert columns.chooses_rows
    assert any(column.lower is not None for column in columns.columns)


@pytest.mark.parametrize("text", JOINED_BY_KEYS)
def test_a_join_on_group_keys_chooses_no_rows_by_noise(loans, text):
    assert not loans.ask_sql(text, {"epsilon": 5, "delta": 1e-6}).statement.shell.chooses_rows


@pytest.mark.parametrize(
    "text",
    [
        "SELECT p.s0, c.n FROM {0} AS p JOIN (SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS c ON p.g = c.g",
        "SELECT p.s0, c.n / p.s0 AS r FROM {0} AS p JOIN (SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS c USING (g)",
        "SELECT g0, s0 FROM {0} UNION ALL SELECT g, COUNT(*) FROM t GROUP BY g",
        "SELECT g, COUNT(*) * (SELECT MAX(s0) FROM {0}) AS n FROM t GROUP BY g",
        "WITH {0} AS (SELECT g AS g0, COUNT(*) AS s0 FROM t GROUP BY g) SELECT SUM(s0) AS s0, MAX(g0) AS g0 FROM {0}",
    ],
)
def test_a_public_table_may_be_called_like_released_rows(text):
    """Released rows are called core_0, with columns g0 and s0: a public table core_names was taken for such rows."""
    rows = [(user, "ab"[user % 2]) for user in range(400)]
    private = pa.table(dict(zip(("who", "g"), map(list, zip(*rows, strict=True)), strict=True)))
    public = pa.table({"g": ["a", "b"], "g0": ["x", "y"], "s0": [10, 20]})
    answers = []
    for name in ("names", "core_names", "core_0", "CORE_0"):
        with setwise.open(private, user="who", name="t", public={name: public}) as session:
            answer = session.sql(text.format(name), epsilon=100, delta=1e-2)
        cells = [
            [(key, sorted(cell) if isinstance(cell, dict) else type(cell)) for key, cell in row.items()]
            for row in answer
        ]
        answers.append((sorted(cells, key=str), answer.notes))
    assert answers[1:] == answers[:1] * 3

"""What differs between databases has one meaning here, over private rows and over released rows."""

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

import setwise
from setwise.errors import InvalidParameter

TEXTS = ["a", "A", "100%", "50_x", "x\\y", "x\\", "", None, "é", "ABC"]
FLOATS = [0.0, 0.5, -0.5, 1.5, 2.5, -2.5, None, 99.9, 112.5, 1e6]
DAYS = [
    dt.date(2023, 12, 31), dt.date(2024, 1, 1), dt.date(2024, 1, 6), dt.date(2024, 1, 7), dt.date(2024, 2, 29),
    dt.date(1969, 12, 31), dt.date(2021, 1, 3), None, dt.date(2020, 12, 31), dt.date(2026, 1, 4),
]  # fmt: skip
USERS = 200
ROWS = pa.table({
    "u": list(range(USERS)),
    "i": [None if user % 10 == 9 else user % 10 for user in range(USERS)],
    "s": [TEXTS[user % 10] for user in range(USERS)],
    "f": [FLOATS[user % 10] for user in range(USERS)],
    "d": [DAYS[user % 10] for user in range(USERS)],
})  # fmt: skip
PUBLIC = pa.table({"k": [1, 2, 7]})


@pytest.fixture
def session(noiseless: None):
    with setwise.open(ROWS, user="u", name="x", public={"p": PUBLIC}) as opened:
        yield opened


def answered(session, text):
    """Return the rows of the answer to `text` as tuples of the values in their columns, in order of their texts."""
    found = session.sql(text, epsilon=40.0, delta=1e-2)
    assert not found.problem, found.problem
    return sorted(
        [tuple(cell["value"] if isinstance(cell, dict) else cell for cell in row.values()) for row in found], key=str
    )


def computed(text):
    """Return the rows that DuckDB computes for `text`; dates and times are texts, as in answers."""
    with duckdb.connect() as connection:
        connection.register("x", ROWS)
        rows = connection.execute(text).fetchall()
    return sorted([tuple(str(cell) if isinstance(cell, dt.date) else cell for cell in row) for row in rows], key=str)


@pytest.mark.parametrize(
    "subquery", ["SELECT MAX(k) FROM p WHERE p.k = x.i", "SELECT COUNT(*) FROM x AS y WHERE y.u = x.u AND y.i > 5"]
)
def test_exists_of_an_aggregate_is_refused_because_it_is_always_true(session, subquery):
    with pytest.raises(InvalidParameter, match="EXISTS of an aggregate, which is always true"):
        session.sql(f"SELECT COUNT(DISTINCT u) FROM x WHERE EXISTS ({subquery})", epsilon=9.0)


PATTERNS = {
    r"s LIKE '%\_%'": r"s LIKE '%\_%' ESCAPE '\'",
    r"s LIKE '%\\_%'": r"s LIKE '%\_%' ESCAPE '\'",  # as GoogleSQL writes it
    r"s LIKE '%\_%' ESCAPE '\'": r"s LIKE '%\_%' ESCAPE '\'",
    r"s LIKE '%\%'": r"s LIKE '%\%' ESCAPE '\'",
    r"s NOT LIKE '%\%'": r"s NOT LIKE '%\%' ESCAPE '\'",
    r"s LIKE '%!%' ESCAPE '!'": r"s LIKE '%!%' ESCAPE '!'",
    r"NOT s ILIKE '%!_X' ESCAPE '!'": r"NOT s ILIKE '%!_X' ESCAPE '!'",
    r"s LIKE 'x\y' ESCAPE '!'": r"s = 'x\y'",
    r"s LIKE '%\\\\%'": r"s IN ('x\y', 'x\')",
    r"s = 'x\y'": r"s = 'x\y'",
    r"s = 'x\\y'": r"s = 'x\y'",
    r"s IN ('x\y', 'x\\')": r"s IN ('x\y', 'x\')",
    r"COALESCE(s, 'z\w') IN ('x\y', 'z\w')": r"COALESCE(s, 'z\w') IN ('x\y', 'z\w')",
}
"""Conditions with backslashes, and what they mean for DuckDB."""


@pytest.mark.parametrize("condition", PATTERNS)
def test_a_backslash_has_one_meaning_over_private_rows_and_over_released_rows(session, condition):
    exact = computed(f"SELECT s, COUNT(*) FROM x WHERE {PATTERNS[condition]} GROUP BY s")
    counts = "SELECT s, COUNT(DISTINCT u) AS n FROM x"
    assert answered(session, f"{counts} WHERE {condition} GROUP BY s") == exact
    assert answered(session, f"{counts} GROUP BY s HAVING {condition}") == exact
    assert answered(session, f"SELECT * FROM ({counts} GROUP BY s) AS y WHERE {condition}") == exact


@pytest.mark.parametrize("pattern", [r"'x\y'", r"'x\\'", "'a!' ESCAPE '!'", "'a!b' ESCAPE '!'", "'a' ESCAPE 'xy'"])
def test_an_escape_before_an_ordinary_character_is_refused(session, pattern):
    for text in ("WHERE s LIKE {} GROUP BY s", "GROUP BY s HAVING s LIKE {}"):
        with pytest.raises(InvalidParameter, match=r"(an escape \(|ESCAPE 'xy')"):
            session.sql(f"SELECT s, COUNT(DISTINCT u) FROM x {text.format(pattern)}", epsilon=9.0)

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


WEEKDAYS = {"MONDAY": 0, "TUESDAY": 1, "WEDNESDAY": 2, "THURSDAY": 3, "FRIDAY": 4, "SATURDAY": 5, "SUNDAY": -1}


@pytest.mark.parametrize("day", WEEKDAYS)
def test_a_week_begins_on_the_stated_day(session, day):
    days = WEEKDAYS[day]
    exact = computed(
        f"SELECT CAST(DATE_TRUNC('week', d - {days}) + INTERVAL '{days} days' AS DATE) AS k, COUNT(*) FROM x GROUP BY k"
    )
    assert answered(session, f"SELECT DATE_TRUNC(d, WEEK({day})) AS k, COUNT(DISTINCT u) FROM x GROUP BY k") == exact
    daily = "(SELECT DATE_TRUNC('day', d) AS w, COUNT(DISTINCT u) AS n FROM x GROUP BY 1) AS y"
    weekly = f"SELECT CAST(DATE_TRUNC(w, WEEK({day})) AS DATE) AS k, SUM(n) FROM {daily} GROUP BY k"
    assert answered(session, weekly) == exact
    if day == "SUNDAY":
        assert answered(session, weekly.replace("WEEK(SUNDAY)", "WEEK")) == exact


@pytest.mark.parametrize("unit", ["WEEK(HOLIDAY)", "WEEK(MONDAY, TUESDAY)", "MONTH(SATURDAY)"])
def test_other_weeks_are_refused(session, unit):
    daily = "(SELECT DATE_TRUNC('day', d) AS w, COUNT(DISTINCT u) AS n FROM x GROUP BY 1) AS y"
    for text in (
        f"SELECT DATE_TRUNC(d, {unit}) AS k, COUNT(DISTINCT u) FROM x GROUP BY k",
        f"SELECT DATE_TRUNC(w, {unit}) AS k FROM {daily}",
        f"SELECT EXTRACT({unit} FROM w) AS k FROM {daily}",
    ):
        with pytest.raises(InvalidParameter):
            session.sql(text, epsilon=9.0)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT EXTRACT(WEEK(MONDAY) FROM d) AS k, COUNT(DISTINCT u) FROM x GROUP BY k",
        "SELECT EXTRACT(WEEK(SUNDAY) FROM k) FROM (SELECT d AS k, COUNT(*) FROM x GROUP BY d) AS y",
    ],
)
def test_the_number_of_a_week_from_a_stated_day_is_refused(session, text):
    with pytest.raises(InvalidParameter, match=r"write ISOWEEK"):
        session.sql(text, epsilon=9.0)


def test_days_of_the_week_are_counted_alike_over_released_rows(session):
    daily = "(SELECT DATE_TRUNC('day', d) AS w, COUNT(DISTINCT u) AS n FROM x GROUP BY 1) AS y"
    exact = computed("SELECT 1 + DAYOFWEEK(d) AS k, COUNT(*) FROM x GROUP BY k")
    for written in ("DAYOFWEEK({})", "EXTRACT(DAYOFWEEK FROM {})", "DATE_PART('dayofweek', {})"):
        private = f"SELECT {written.format('d')} AS k, COUNT(DISTINCT u) FROM x GROUP BY k"
        assert answered(session, private) == exact
        assert answered(session, f"SELECT {written.format('w')} AS k, SUM(n) FROM {daily} GROUP BY k") == exact


BINS = ["FLOOR(f / 12.5) * 12.5", "FLOOR((f - 0.0) / 12.5) * 12.5 + 0.0", "(CAST(FLOOR(f / 12.5) AS INTEGER) * 12.5)"]


@pytest.mark.parametrize("written", BINS)
def test_bins_with_fractions_are_numbers_in_order(session, written):
    counts = f"SELECT {written} AS b, COUNT(DISTINCT u) AS n FROM x GROUP BY b"
    exact = computed("SELECT FLOOR(f / 12.5) * 12.5 AS b, COUNT(*) AS n FROM x GROUP BY b")
    assert answered(session, counts) == exact
    found = session.sql(f"{counts} ORDER BY b DESC NULLS LAST LIMIT 3", epsilon=40.0)
    assert [row["b"] for row in found] == [1e6, 112.5, 87.5]
    assert found.to_dict()["rows"][0]["b"] == 1e6
    assert found.by_column()["b"] == [1e6, 112.5, 87.5]
    large = session.sql(f"SELECT b, n FROM ({counts}) AS y WHERE b >= 100 ORDER BY b", epsilon=40.0)
    assert [row["b"] for row in large] == [112.5, 1e6]


CHOSEN = "The statement chose these rows by their noisy numbers"
COUNTS = "SELECT FLOOR(i / 2) * 2 AS b, COUNT(DISTINCT u) AS n FROM x GROUP BY b"


@pytest.mark.parametrize(
    ("text", "is_by_noise"),
    [
        (f"{COUNTS} ORDER BY b DESC LIMIT 3", False),
        (f"{COUNTS} HAVING b > 2", False),
        (f"SELECT b, n FROM ({COUNTS}) AS y WHERE b > 2 ORDER BY b LIMIT 1", False),
        (f"{COUNTS} LIMIT 3", True),
        (f"{COUNTS} HAVING COUNT(DISTINCT u) > 25", True),
        (f"{COUNTS} HAVING b > 2 AND COUNT(DISTINCT u) > 25", True),
        (f"SELECT b, n FROM ({COUNTS}) AS y WHERE n > 25", True),
        (f"{COUNTS} ORDER BY n, b LIMIT 3", True),
        ("SELECT s, i, COUNT(DISTINCT u) AS n FROM x GROUP BY s, i ORDER BY s LIMIT 3", True),  # several rows per s
        ("SELECT s, i, COUNT(DISTINCT u) AS n FROM x GROUP BY s, i ORDER BY s, i LIMIT 3", False),
    ],
)
def test_only_rows_that_noise_may_choose_are_said_to_be_chosen_by_noise(session, text, is_by_noise):
    assert (CHOSEN in session.sql(text, epsilon=40.0, delta=1e-2).summary) == is_by_noise


def test_row_values_with_nulls_are_counted_and_lists_of_columns_leave_them_out(session):
    """As DuckDB and PostgreSQL count (x, y), and as MySQL and Spark count x, y."""
    for columns, condition in (("(i, s)", "TRUE"), ("i, s", "i IS NOT NULL AND s IS NOT NULL")):
        (exact,) = computed(f"SELECT COUNT(*) FROM (SELECT DISTINCT i, s FROM x WHERE {condition}) AS y")
        assert answered(session, f"SELECT COUNT(DISTINCT {columns}) AS n FROM x") == [exact]


def test_concat_with_a_null_is_null_over_released_rows_too(session):
    exact = computed("SELECT s || '-' || i AS k, COUNT(*) FROM x GROUP BY k")
    assert answered(session, "SELECT CONCAT(s, '-', i) AS k, COUNT(DISTINCT u) FROM x GROUP BY k") == exact
    released = "(SELECT s, i, COUNT(DISTINCT u) AS n FROM x GROUP BY s, i) AS y"
    assert answered(session, f"SELECT CONCAT(s, '-', i) AS k, SUM(n) FROM {released} GROUP BY k") == exact
    found = session.sql(f"SELECT CONCAT(s, '-') FROM {released}", epsilon=9.0)
    assert found.columns == ("CONCAT(s, '-')",)

"""Subqueries over public tables alone, in expressions over private rows, have the value of the public table."""

import datetime as dt

import pyarrow as pa
import pytest

import setwise
from setwise.errors import InvalidParameter, KeyConflict
from setwise.ledger.ledger import Ledger

USERS = 300
ROWS = pa.table({
    "u": list(range(USERS)),
    "i": [None if user % 10 == 9 else user % 10 for user in range(USERS)],
    "d": [dt.date(2024, 1, 1 + user % 10) for user in range(USERS)],
    "s": [f"n{user % 10}" for user in range(USERS)],
})  # fmt: skip
PUBLIC = pa.table({
    "k": [1, 2, 7, None],
    "price": [0.5, 2.5, 4.5, None],
    "d": [dt.date(2024, 1, 3), None, dt.date(2024, 1, 6), None],
    "name": ["n1", "n3", None, "n0"],
})  # fmt: skip
EACH = USERS // 10
"""The number of users with each value of i; i is null for the users of the tenth value."""


@pytest.fixture
def session(noiseless: None):
    with setwise.open(ROWS, user="u", name="x", public={"p": PUBLIC}) as opened:
        yield opened


CONDITIONS = {
    "i > (SELECT AVG(price) FROM p)": 6,
    "i > (SELECT MAX(k) FROM p)": 1,
    "i > (SELECT MAX(k) FROM p) + 1": 0,
    "i * 2 > (SELECT MAX(k) FROM p)": 5,
    "i BETWEEN (SELECT MIN(k) FROM p) AND (SELECT MAX(k) FROM p)": 7,
    "i IN (0, (SELECT MAX(k) FROM p))": 2,
    "COALESCE(i, (SELECT MAX(k) FROM p)) > 5": 4,
    "CASE WHEN i > (SELECT MAX(k) FROM p) THEN 0 ELSE i END > 5": 2,
    "i > (SELECT COUNT(*) FROM p WHERE k IS NOT NULL)": 5,
    "i > ((SELECT MAX(q.k) FROM p AS q WHERE q.name IS NOT NULL))": 6,
    "d > (SELECT MAX(d) FROM p)": 4,
    "s = (SELECT MAX(name) FROM p)": 1,
    "s > (SELECT MIN(name) FROM p WHERE k < 0)": 0,
    "NOT (i > (SELECT MAX(k) FROM p WHERE k > 100))": 0,
    "i > (SELECT MAX(k) FROM p WHERE k > 100)": 0,
    "(SELECT MAX(k) FROM p WHERE k > 100) IS NULL": 10,
    "i > (SELECT MAX(k) FROM p HAVING COUNT(*) > 100)": 0,
    "i > (SELECT 3)": 5,
    "d >= ((SELECT DATE '2024-01-08'))": 3,
    "i > (SELECT AVG(price) FROM p) AND i > (SELECT AVG(i) FROM x WHERE i < 8)": 5,
    "i > (SELECT AVG(i) + (SELECT MIN(k) FROM p) FROM x WHERE i < 8)": 4,
    "i > (SELECT MAX(a) FROM (SELECT AVG(i) AS a FROM x WHERE i < 8) AS m)": 5,
}
"""Conditions over private rows, each with the number of values of i (0 to 8, or null) whose users fulfil it."""


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_has_the_value_of_the_public_table(session, condition):
    found = session.sql(f"SELECT COUNT(DISTINCT u) AS n FROM x WHERE {condition}", epsilon=90.0)
    assert not found.problem, found.problem
    assert found.value == CONDITIONS[condition] * EACH


@pytest.mark.parametrize("condition", list(CONDITIONS)[::7])
def test_an_expression_has_the_value_of_the_public_table(session, condition):
    """In COUNTIF, CASE, FILTER and a SELECT per user, as in WHERE."""
    bounds = "contribution_bounds_per_group => (0, 1)"
    found = session.sql(
        f"SELECT COUNTIF({condition}, {bounds}) AS a, SUM(CASE WHEN {condition} THEN 1 ELSE 0 END, {bounds}) AS b, "
        f"COUNT(*, {bounds}) FILTER (WHERE {condition}) AS c FROM x "
        f"UNION ALL SELECT 0, 0, COUNT(DISTINCT u) FROM (SELECT u FROM x WHERE {condition}) AS y",
        epsilon=30.0,
    )
    assert not found.problem, found.problem
    numbers = [cell["value"] for row in found for cell in row.values()]
    assert [each / EACH for each in numbers if each] == [CONDITIONS[condition]] * (4 if CONDITIONS[condition] else 0)


def test_common_tables_give_values_too(session):
    public = "WITH m AS (SELECT MAX(k) AS v FROM p), n AS (SELECT v + 1 AS v FROM m) "
    assert (
        session.sql(f"{public}SELECT COUNT(DISTINCT u) FROM x WHERE i >= (SELECT MAX(v) FROM n)", epsilon=90.0).value
        == EACH
    )
    private = "WITH m AS (SELECT AVG(i) AS v FROM x WHERE i < 8) "
    found = session.sql(f"{private}SELECT COUNT(DISTINCT u) FROM x WHERE i > (SELECT MAX(v) FROM m)", epsilon=90.0)
    assert found.value == 5 * EACH


def test_a_value_is_a_number_of_its_own_kind(session):
    found = session.sql(
        "SELECT i - (SELECT MAX(k) FROM p) AS k, COUNT(DISTINCT u) AS n FROM x GROUP BY 1", epsilon=90.0
    )
    assert {row["k"] for row in found} == {None, *range(-7, 2)}


def test_one_value_stands_in_charge_and_answer(tmp_path, noiseless: None):
    """The value is part of the request: a retry after the public table changed is refused, and charges nothing."""
    text = "SELECT COUNT(DISTINCT u) AS n FROM x WHERE i > (SELECT MAX(k) FROM p)"
    changed = pa.table({"k": [3]})
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("ada", epsilon=9.0, delta=1e-5)
        words = {"user": "u", "name": "x", "account": ledger.account("ada"), "dataset": "x"}
        with setwise.open(ROWS, **words, public={"p": PUBLIC}) as session:
            assert session.sql(text, epsilon=1.0, key="a").value == EACH
            assert session.sql(text, epsilon=1.0, key="a").value == EACH
        with setwise.open(ROWS, **words, public={"p": changed}) as session:
            left = ledger.account("ada").status()
            with pytest.raises(KeyConflict):
                session.sql(text, epsilon=1.0, key="a")
            assert ledger.account("ada").status() == left
            assert session.sql(text, epsilon=1.0, key="b").value == 5 * EACH


REFUSED = {
    "i > (SELECT MAX(k), MIN(k) FROM p)": "one column",
    "i > (SELECT AVG(i), 5 FROM x)": "one column",
    "i > (SELECT k FROM p)": "several rows",
    "i > (SELECT MAX(k) FROM p GROUP BY name)": "several rows",
    "i > (SELECT MAX(k) FROM p UNION ALL SELECT MIN(k) FROM p)": "several rows",
    "i > (SELECT AVG(i) FROM x UNION ALL SELECT AVG(i) FROM x)": "several rows",
    "i > (SELECT SUM(k / 0.0) FROM p)": "1e",
    "d > (SELECT MAX(CAST(d AS TIMESTAMP)) FROM p WHERE k > 100)": "null",
}


@pytest.mark.parametrize("condition", REFUSED)
def test_what_is_no_one_value_is_refused(session, condition):
    with pytest.raises(InvalidParameter, match=REFUSED[condition]):
        session.sql(f"SELECT COUNT(DISTINCT u) FROM x WHERE {condition}", epsilon=9.0)

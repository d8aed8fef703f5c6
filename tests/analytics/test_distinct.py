"""Distinct values: every user keeps a few, one user changes the number by no more, and every door asks alike."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.query import SHAPES, Query
from setwise.analytics.sql.aggregates import DeclaredBounds
from setwise.analytics.sql.parser import parse_sql
from setwise.analytics.sql.statement_reader import TableFacts
from setwise.analytics.statistics import Distinct
from setwise.errors import InvalidParameter, UnsuitableTable


@pytest.fixture(scope="module")
def loans():
    random = np.random.default_rng(1)
    readers = np.repeat(np.arange(3000), 4)
    table = pa.table(
        {
            "reader": readers,
            "book": [f"book {number}" for number in random.integers(0, 500, len(readers))],
            "shelf": random.choice(["a", "b"], len(readers)),
            "days": random.normal(0, 1, len(readers)),
        }
    )
    with setwise.open(table, user="reader", name="loans") as session:
        yield session


def test_the_number_of_values_that_are_kept(loans):
    answer = loans.distinct(value="book", per_user=4, epsilon=2)
    (found,) = answer.items[0].estimates
    assert found.value == pytest.approx(500, abs=40)
    assert found.interval[0] <= found.value <= found.interval[1]
    assert answer.statistics == ("distinct_book",)
    assert answer.measure == "distinct values of book, at most 4 of a user"


def test_intervals_hold_the_number_as_often_as_they_say(loans):
    """At least 44 of 60 intervals of 95% hold the number; a right interval fails this once in 10^9 runs."""
    held = 0
    for _ in range(60):
        lower, upper = loans.distinct(value="book", per_user=4, epsilon=2).items[0].estimates[0].interval
        held += lower <= 500 <= upper
    assert held >= 44


def test_of_every_group(loans):
    answer = loans.distinct(value="book", per_user=2, item="shelf", contributions=2, epsilon=4, delta=1e-6)
    assert set(answer.labels) == {"a", "b"}
    for item in answer:
        assert item.estimates[0].value == pytest.approx(500, abs=60)


def test_noise_is_for_as_many_values_as_a_user_keeps(loans):
    one, ten = (
        loans.preview(SHAPES["distinct"](value="book", per_user=most), setwise.Total(epsilon=1, delta=0))
        for most in (1, 10)
    )
    assert 8 < ten.error.radius / one.error.radius < 12
    assert one.uses != ten.uses


def test_a_number_below_zero_is_told_as_zero(loans):
    for _ in range(20):
        (found,) = loans.distinct(value="book", where="reader < 1", epsilon=0.05).items[0].estimates
        assert 0 <= found.interval[0] <= found.value <= found.interval[1]


def test_every_door_makes_the_same_query():
    query = Query(statistics=(Distinct(column="book", per_user=3),))
    assert query.kind == "distinct"
    assert Query.from_dict(json.loads(json.dumps(query.to_dict()))) == query
    assert SHAPES["distinct"](value="book", per_user=3) == query
    text = "SELECT APPROX_COUNT_DISTINCT(book, contribution_bounds_per_group => (0, 3)) AS n FROM loans"
    assert parse_sql(text, user="reader").query == query
    for bound in ("contribution_bounds_per_group => (0, 3)", "max_rows_contributed => 3"):
        assert parse_sql(f"SELECT COUNT(DISTINCT book, {bound}) AS n FROM loans", user="reader").query == query
    auto = "SELECT COUNT(DISTINCT book, contribution_bounds_per_group => AUTO) AS n FROM loans"
    assert parse_sql(auto, user="reader").query.statistics == (Distinct(column="book"),)
    usual = parse_sql("SELECT COUNT(DISTINCT book) AS n FROM loans", user="reader").query
    assert usual.statistics == (Distinct(column="book"),)


@pytest.fixture(scope="module")
def orders():
    """2,000 users of whom every second has one order, and the others 40 each: 41,000 orders of 10 each."""
    who = [user for user in range(2000) for _ in range(1 if user % 2 else 40)]
    rows = pa.table({"who": who, "number": range(len(who)), "spent": [10] * len(who)})
    with setwise.open(rows, user="who", name="orders") as session:
        yield session


DISTINCT = {
    "method": lambda session: session.distinct(value="number", epsilon=20),
    "SQL": lambda session: session.sql("SELECT COUNT(DISTINCT number) AS n FROM orders", epsilon=20).answer,
    "AUTO": lambda session: (
        session.sql(
            "SELECT APPROX_COUNT_DISTINCT(number, contribution_bounds_per_group => AUTO) AS n FROM orders", epsilon=20
        ).answer
    ),
}


@pytest.mark.parametrize("name", DISTINCT)
def test_how_many_values_of_a_user_count_is_found_and_told(orders, name):
    """The noise is about 64 / 18; a fixed bound of 10 values counts 11,000."""
    answer = DISTINCT[name](orders)
    assert answer.items[0].estimates[0].value == pytest.approx(41_000, abs=150)
    least, most = answer.found["distinct_number"]
    assert (least, most >= 40) == (0, True)
    assert f"At most {most:g} distinct values of number are counted for each who" in answer.brief
    assert "A value of number that is left out for one who still counts if it is kept for another" in answer.left_out
    assert "of the distinct values of number of each who are left out" in answer.left_out


def test_a_number_of_values_that_users_share_is_close():
    """3,000 users with 20 of 100 values each: one value of each gives all 100, and 20 have noise of 22.

    The error is 3 on average; a mean of 10 above 14 has a probability below 1e-3.
    """
    random = np.random.default_rng(3)
    values = np.concatenate([random.permutation(100)[:20] for _ in range(3000)])
    rows = pa.table({"who": np.repeat(np.arange(3000), 20), "value": values})
    with setwise.open(rows, user="who", name="shared") as session:
        answers = [session.sql("SELECT COUNT(DISTINCT value) AS n FROM shared", epsilon=1).answer for _ in range(10)]
    assert np.mean([abs(answer.items[0].estimates[0].value - 100) for answer in answers]) < 14
    assert sorted(answer.found["distinct_value"][1] for answer in answers)[5] <= 8


def test_a_number_of_values_that_no_users_share_is_as_close_as_before():
    """2,000 users with 1 to 40 values each, 41,000 in all: limits of 32 or 64 have errors of at most 1,200."""
    who = np.repeat(np.arange(2000), [1 + user % 40 for user in range(2000)])
    with setwise.open(pa.table({"who": who, "value": np.arange(len(who))}), user="who", name="own") as session:
        answers = [session.sql("SELECT COUNT(DISTINCT value) AS n FROM own", epsilon=1).answer for _ in range(10)]
    errors = [abs(answer.items[0].estimates[0].value - len(who)) for answer in answers]
    assert np.mean(errors) < 1000


@pytest.mark.parametrize("groups", [{"domain": ["a", "b"]}, {"contributions": 1}, {"contributions": "auto"}])
def test_shared_values_of_groups_are_found_too(loans, groups):
    query = Query(statistics=(Distinct(column="book"),), item="shelf", **groups)
    answer = loans.ask(query, setwise.Total(epsilon=4, delta=1e-6))
    for item in answer.items:
        assert item.estimates[0].value == pytest.approx(480, abs=150)
    assert answer.found["distinct_book"][1] <= 32


@pytest.mark.parametrize(
    "call",
    [
        "COUNT(DISTINCT book, contribution_bounds_per_group => (1, 3))",
        "COUNT(DISTINCT book, contribution_bounds_per_row => (0, 3))",
        "COUNT(DISTINCT book, contribution_bounds_per_group => (0, 3), max_rows_contributed => 2)",
        "APPROX_COUNT_DISTINCT(book, most => 3)",
    ],
)
def test_refused_bounds_of_distinct_values_name_a_statement_that_is_answered(loans, call):
    with pytest.raises(setwise.errors.SetwiseError) as refused:
        loans.sql(f"SELECT {call} AS n FROM loans", epsilon=1)
    written = str(refused.value).rsplit("write: ", 1)[1]
    assert "contribution_bounds_per_group => (0, 3)" in written
    assert loans.sql(written, epsilon=1).rows


def test_found_and_stated_bounds_are_told_apart(orders):
    """The share that is left out stands behind the bound that was found, whichever statistic comes first."""
    statement = (
        "SELECT COUNT(*, contribution_bounds_per_group => (0, 3)) AS n, COUNT(DISTINCT number) AS d, "
        "SUM(spent, contribution_bounds_per_group => (0, 400)) AS s FROM orders"
    )
    found = orders.sql(statement, epsilon=20)
    assert "At most 3 rows and " in found.summary
    assert "distinct values of number are counted for each who" in found.summary
    assert {each["of"]: each["source"] for each in found.bounds} == {
        "rows": "statement",
        "distinct_number": "found",
        "sum_spent": "statement",
    }


def test_a_ratio_with_a_count_of_distinct_values_has_the_caution_of_other_ratios(orders):
    statement = "SELECT SUM(spent) / COUNT(DISTINCT {}) AS each FROM orders"
    advice = orders.sql(statement.format("number"), epsilon=5).advice
    assert "Caution: each divides two numbers" in advice
    (written,) = re.findall(r"COUNT\(DISTINCT .*\)\)", advice)
    assert orders.sql(f"SELECT {written.replace('(0, N)', '(0, 40)')} AS n FROM orders", epsilon=5).rows
    assert "Caution" not in orders.sql(statement.format("who"), epsilon=5).advice


def test_declared_rows_of_a_user_bound_the_distinct_values():
    facts = TableFacts(declared=DeclaredBounds(rows_per_user=6))
    statement = parse_sql("SELECT COUNT(DISTINCT book) AS n FROM loans", user="reader", facts=facts)
    assert statement.query.statistics == (Distinct(column="book", per_user=6),)
    assert Distinct(column="book").with_declared_rows(6) == Distinct(column="book", per_user=6)
    assert Distinct(column="book", per_user=2).with_declared_rows(6).per_user == 2


def test_what_cannot_be_told_apart_is_refused(loans):
    with pytest.raises(UnsuitableTable, match="floating-point"):
        loans.distinct(value="days", epsilon=1)
    with pytest.raises(InvalidParameter, match="per_user"):
        Distinct(column="book", per_user=0)


def test_pairs_of_columns_are_counted_as_pairs():
    """Check that the values are not just put together: ('a', 'aaa') and ('aa', 'aa') are two pairs. Null is in none.

    At epsilon 100 and 10 values of a user, noise of 5 or more has a probability below 1e-20.
    """
    pairs = [*(("a" * n, "a" * (20 - n)) for n in range(1, 20)), ("a", None)]
    columns = {name: [pairs[n % 20][place] for n in range(3000)] for place, name in enumerate("xy")}
    with setwise.open(pa.table({"u": list(range(3000)), **columns}), user="u", name="t") as session:
        for argument in ("x, y", "(x, y)"):
            found = session.sql(f"SELECT COUNT(DISTINCT {argument}) AS n FROM t", epsilon=100.0)
            assert abs(found.rows[0]["n"]["value"] - 19) < 5

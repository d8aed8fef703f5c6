"""Notes below a SQL result: they name what can be asked, and say of each number whether it has an interval."""

import numpy as np
import pyarrow as pa
import pytest

import setwise

USERS = 3000
ORDERS = pa.table(
    {
        "who": np.repeat(np.arange(USERS), 2),
        "year": np.tile([2023, 2024], USERS),
        "month": np.repeat(np.arange(USERS) % 3, 2),
        "amount": np.tile([10, 12], USERS),
        "page": [("home", "cart")[n % 5 // 4] for n in range(2 * USERS)],
    }
)


@pytest.fixture(scope="module")
def session():
    with setwise.open(ORDERS, user="who", name="orders") as opened:
        yield opened


@pytest.mark.parametrize(
    ("aggregate", "argument"),
    [
        ("AVG(CASE WHEN amount > 11 THEN 1.0 ELSE 0.0 END)", "CASE WHEN amount > 11 THEN 1.0 ELSE 0.0 END"),
        ("AVG(amount * 2)", "amount * 2"),
        ("AVG(amount) FILTER (WHERE amount > 11)", "CASE WHEN amount > 11 THEN amount END"),
    ],
)
def test_a_note_on_the_mean_of_an_expression_names_it_as_it_was_written(session, aggregate, argument):
    """It named the alias: "ask SUM(share_long) / COUNT(share_long)", and there is no such column."""
    for select in (f"SELECT {aggregate} AS share_long", f"SELECT {aggregate}", f"SELECT ROUND({aggregate}, 2) AS r"):
        result = session.sql(f"{select} FROM orders", epsilon=10)
        asked = f"SUM({argument}) / COUNT({argument})"
        for text in (result.summary, result.answer.left_out):
            assert f"for the mean over rows ask {asked} with wide bounds stated for both" in text
        session.explain(f"SELECT {asked} AS m FROM orders", epsilon=10)


def test_a_note_on_the_median_of_an_expression_names_bins_that_can_be_asked(session):
    result = session.sql("SELECT MEDIAN(amount * 2) AS typical FROM orders", epsilon=10)
    assert "GROUP BY FLOOR((amount * 2) / 10)" in result.summary
    session.explain(
        "SELECT FLOOR((amount * 2) / 10), COUNT(*) FROM orders GROUP BY FLOOR((amount * 2) / 10)", epsilon=10
    )


BY_MONTH = "WITH m AS (SELECT year, month, SUM(amount) AS paid FROM orders GROUP BY 1, 2) "


@pytest.mark.parametrize("on", ["ON a.month = b.month", "USING (month)"])
@pytest.mark.parametrize("key", ["a.month", "month"])
def test_a_year_beside_the_next_keeps_the_intervals_of_both(session, on, key):
    """The released sums of a common table expression that was joined to itself lost their intervals."""
    if (on, key) == ("ON a.month = b.month", "month"):
        key = "b.month"
    result = session.sql(
        f"{BY_MONTH} SELECT {key}, a.paid AS before, b.paid AS later, b.paid / a.paid AS growth FROM m a JOIN m b {on} "
        "AND a.year = 2023 AND b.year = 2024"
        if on.startswith("ON")
        else f"{BY_MONTH} SELECT {key}, a.paid AS before, b.paid AS later, b.paid / a.paid AS growth FROM m a "
        f"JOIN m b {on} WHERE a.year = 2023 AND b.year = 2024",
        epsilon=30,
    )
    assert len(result) == 3
    for row in result.rows:
        assert row["before"]["interval"][0] <= USERS / 3 * 10 <= row["before"]["interval"][1]
        assert row["later"]["interval"][0] <= USERS / 3 * 12 <= row["later"]["interval"][1]
        assert row["growth"]["interval"][0] <= 1.2 <= row["growth"]["interval"][1]
    assert "without an interval" not in result.summary
    assert [output.is_key for output in result.outputs] == [True, False, False, False]


@pytest.mark.parametrize(
    "reader",
    [
        "SELECT a.*, b.paid AS later FROM m a JOIN m b ON a.month = b.month",
        "SELECT * FROM m WHERE paid > (SELECT AVG(paid) FROM m)",
        "SELECT a.month, a.paid FROM m a WHERE a.month IN (SELECT month FROM (SELECT * FROM m) b)",
        "SELECT month FROM m NATURAL JOIN (SELECT month FROM m) n",
    ],
)
def test_no_hidden_column_shows_where_a_common_table_expression_is_read_twice(session, reader):
    result = session.sql(BY_MONTH + reader, epsilon=30)
    assert set(result.columns) <= {"year", "month", "paid", "later"}


def test_a_result_without_intervals_makes_no_promise_about_intervals(session):
    result = session.sql(f"{BY_MONTH} SELECT AVG(paid) AS typical FROM m", epsilon=30)
    assert result.summary.endswith("The number in typical comes without an interval.")
    assert "with probability 95%" not in result.summary


def test_a_ratio_of_sums_of_users_with_one_row_each_is_not_cautioned(session):
    """A funnel with one row for each user was called "far from the table's own ratio"."""
    flags = "MAX(CASE WHEN page = 'cart' THEN 1 ELSE 0 END) AS cart, 1 AS seen"
    steps = f"WITH s AS (SELECT who, {flags} FROM orders GROUP BY who)"
    result = session.sql(f"{steps} SELECT SUM(cart) * 1.0 / SUM(seen) AS share FROM s", epsilon=10)
    assert "Caution" not in result.advice
    narrow = "contribution_bounds_per_group => (0, 1)"
    stated = session.sql(
        f"SELECT SUM(amount, {narrow}) / COUNT(*, contribution_bounds_per_group => (0, 2)) AS m FROM orders", epsilon=10
    )
    assert "Caution" in stated.advice

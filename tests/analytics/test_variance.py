"""Variances and standard deviations over rows: near the truth, the same through every door, and priced as they are."""

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.askable import with_defaults
from setwise.analytics.budget import Draws
from setwise.analytics.catalog import Declaration
from setwise.analytics.planning.plan import aggregation_of
from setwise.analytics.query import SHAPES, Query
from setwise.analytics.sql.parser import parse_sql
from setwise.analytics.statistics import StandardDeviation, Variance
from setwise.errors import InvalidParameter, Unattainable, UnsuitableTable
from setwise.mechanisms.planning.request import Total
from setwise.service.queries.dataset_bounds import bounded_query
from setwise.service.storage.datasets import Dataset
from tests.command_line import process

MINUTES = {"value": "minutes", "low": 0, "high": 60, "per_user": 4}


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(4)
    users = np.repeat(np.arange(6000), 4)
    return pa.table(
        {
            "who": users,
            "page": random.choice(["home", "away"], len(users)),
            "minutes": random.normal(25, 8, len(users)).clip(0, 60),
            "day": ["monday"] * len(users),
        }
    )


@pytest.fixture(scope="module")
def visits(table):
    with setwise.open(table, user="who", name="visits") as session:
        yield session


def test_a_standard_deviation_is_near_and_its_interval_holds(visits):
    answer = visits.stddev(**MINUTES, item="page", contributions=2, epsilon=2, delta=1e-6)
    assert answer.statistics == ("stddev_minutes",)
    for item in answer:
        (found,) = item.estimates
        assert found.interval[0] <= found.value <= found.interval[1]
        assert found.value == pytest.approx(8, abs=1.5)
        assert found.interval[1] - found.interval[0] < 3
    assert answer.epsilon.upper <= 2.0
    assert PrivateAnswer.from_stored(answer.stored()) == answer
    assert "standard deviation of minutes over events, each between 0 and 60, at most 4 of a user" in answer.measure


def test_a_variance_is_the_square_and_every_user_weighs_as_one_row_if_one_is_asked_for(visits):
    answer = visits.variance(value="minutes", low=0, high=60, per_user=1, epsilon=2)
    (found,) = answer.items[0].estimates
    assert found.value == pytest.approx(64, abs=10)
    assert answer.statistics == ("variance_minutes",)
    assert "every user weighs as much as one" in answer.measure


@pytest.fixture(scope="module")
def skewed():
    """2,000 users with a row of 0, and 2,000 users with 7 rows of 100: the deviation is 33.1, and 50 over users."""
    amounts = np.concatenate([np.zeros(2000), np.full(14_000, 100.0)])
    return pa.table({"who": np.concatenate([np.arange(2000), 2000 + np.repeat(np.arange(2000), 7)]), "x": amounts})


SKEWED = {
    "method": lambda session: session.stddev(value="x", epsilon=20),
    "stated bounds": lambda session: session.stddev(value="x", low=0, high=100, epsilon=20),
    "query": lambda session: session.ask(
        Query.from_dict({"kind": "stddev", "value": "x", "bounds": "auto"}), Total(epsilon=20, delta=0)
    ),
    "SQL": lambda session: session.sql("SELECT STDDEV(x) AS sd FROM t", epsilon=20).answer,
    "SQL with stated bounds": lambda session: (
        session.sql("SELECT STDDEV(x, contribution_bounds_per_row => (0, 100)) AS sd FROM t", epsilon=20).answer
    ),
}


@pytest.mark.parametrize("name", SKEWED)
def test_a_standard_deviation_is_over_rows_by_default_and_says_how_many_of_a_user_count(skewed, name):
    """At epsilon 20 the bound that is found is 8 or more, unless noise of a bin exceeds a thousand users."""
    with setwise.open(skewed, user="who", name="t") as session:
        answer = SKEWED[name](session)
    assert answer.items[0].estimates[0].value == pytest.approx(33.07, abs=1)
    least, most = answer.found["rows of stddev_x"]
    assert (least, most >= 8) == (0, True)
    assert f"At most {most:g} rows that have x (" in answer.brief
    assert "of the rows that have x of each who are left out" in answer.left_out
    assert set(answer.found["left_out_rows"]) == {"stddev_x"}


def test_the_first_sentence_says_that_every_user_has_the_weight_of_one_row(skewed):
    with setwise.open(skewed, user="who", name="t") as session:
        one = session.stddev(value="x", low=0, high=100, per_user=1, epsilon=20)
        stated = session.sql("SELECT VARIANCE(x, max_rows_contributed => 1) AS v FROM t", epsilon=20)
        many = session.stddev(value="x", low=0, high=100, per_user=9, epsilon=20)
    assert one.items[0].estimates[0].value == pytest.approx(50, abs=1)
    sentence = "The standard deviation of x gives every user the weight of one row, however many rows they have; "
    for text in (one.brief, one.summary, one.left_out):
        assert text.startswith(sentence)
    assert stated.summary.startswith("The variance of x gives every user the weight of one row")
    assert "max_rows_contributed => N" in stated.summary
    assert "weight of one row" not in many.summary
    assert "At most 9 rows that have x are counted for each who, others are left out" in many.summary
    assert "found" not in one.to_dict()


def test_declared_rows_of_a_user_take_the_place_of_a_search(skewed):
    declared = Declaration(bounds={"x": (0, 100)}, rows_per_user=7)
    words, _ = with_defaults("stddev", {"value": "x"}, {"epsilon": 1}, declared, None)
    assert (words["low"], words["high"], words["per_user"]) == (0, 100, 7)
    words, _ = with_defaults("stddev", {"value": "x", "per_user": 1}, {"epsilon": 1}, declared, None)
    assert words["per_user"] == 1
    query = Query.from_dict({"kind": "variance", "value": "x", "low": 0, "high": 1})
    assert query.with_declared_rows(7).statistics[0].per_user == 7
    assert query.with_declared_rows(None) == query
    dataset = Dataset(name="d", engine="duckdb", table="t", user="u", items=(), values=("x",), rows_per_user=7)
    assert bounded_query(query, dataset, finds_bounds=True).statistics[0].per_user == 7


def test_guarantees_of_single_mechanisms_leave_nothing_for_a_search(skewed):
    query = Query.from_dict({"kind": "stddev", "value": "x", "low": 0, "high": 100})
    with setwise.open(skewed, user="who", name="t") as session, pytest.raises(InvalidParameter, match="per_user = 5"):
        session.preview(query, Draws(counts="pure:0.1"))


def test_what_the_engine_adds_up_is_the_variance_of_the_rows_that_count(visits, table):
    """With noise left out, and no user with more rows than count."""
    statistic = Variance(column="minutes", low=0, high=60, per_user=4)
    query = Query(statistics=(statistic,))
    found = visits._engine.statistics(aggregation_of(query, "who", visits.schema))
    (release,) = (each.release((each,)) for each in query.statistics)
    total, squares, number = found.totals[0]["all"], found.totals[1]["all"], found.numbers[0]["all"]
    exact = (1 + Fraction(squares, number * release.reach)) / 2 - Fraction(total, number * release.reach) ** 2
    rows = table["minutes"].to_numpy()
    assert number == len(rows)
    assert float(exact) * 30**2 == pytest.approx(rows.var(), abs=1e-3)


def test_every_door_makes_the_same_query(tmp_path):
    query = Query(statistics=(StandardDeviation(column="minutes", low=0, high=60, per_user=4),), where="page = 'home'")
    assert query.kind == "stddev"
    assert Query.from_dict(json.loads(json.dumps(query.to_dict()))) == query
    assert SHAPES["stddev"](**MINUTES, where="page = 'home'") == query
    bounds = "contribution_bounds_per_row => (0, 60), max_rows_contributed => 4"
    for function in ("STDDEV", "STDDEV_SAMP", "STDDEV_POP"):
        text = f"SELECT {function}(minutes, {bounds}) AS spread FROM visits WHERE page = 'home'"
        assert parse_sql(text, user="who").query == query
    squared = parse_sql("SELECT VAR_POP(minutes, contribution_bounds_per_row => AUTO) AS v FROM visits", user="who")
    assert squared.query.statistics == (Variance(column="minutes", bounds="auto"),)


def test_the_command_line_has_it(tmp_path, table):
    import pyarrow.parquet as pq

    pq.write_table(table, tmp_path / "visits.parquet")
    done = process(
        "stddev", str(tmp_path / "visits.parquet"), "--user", "who", "--value", "minutes", "--low", "0", "--high", "60",
        "--per-user", "4", "--epsilon", "1", "--json",
    )  # fmt: skip
    (item,) = json.loads(done.stdout)["items"]
    assert item["stddev_minutes"]["value"] == pytest.approx(8, abs=1.5)


def test_bounds_are_found_from_the_least_and_greatest_row_of_each_user(visits, empty_bins_never_stand_out):
    """The means of users with many rows are close together, and would cut off most rows."""
    answer = visits.stddev(value="minutes", bounds="auto", epsilon=4)
    low, high = answer.found["minutes"]
    assert low <= 8
    assert high == 64
    assert answer.items[0].estimates[0].value == pytest.approx(8, abs=2)
    assert len(answer.spent) == 3
    assert [use.count for use in answer.spent if "laplace" in type(use.guarantee).__name__.lower()] == [2]


def test_a_group_that_noise_drowns_has_the_whole_range_as_interval(visits):
    answer = visits.stddev(**MINUTES, where="who < 3", epsilon=0.01)
    (found,) = answer.items[0].estimates
    assert found.interval == (0.0, 30.0)
    assert 0 <= found.value <= 30


@pytest.mark.parametrize(
    ("words", "error", "named"),
    [
        ({"low": 5, "high": 5}, InvalidParameter, "below high"),
        ({"low": 5}, InvalidParameter, "low and high"),
        ({"low": 5, "high": 6, "per_user": 0}, InvalidParameter, "per_user"),
        ({"low": 5, "high": 6, "value": "day"}, UnsuitableTable, "numbers"),
    ],
)
def test_impossible_variances_are_refused_before_any_charge(visits, words, error, named):
    charged = len(visits.spent)
    with pytest.raises(error, match=named):
        visits.variance(**{"value": "minutes"} | words, epsilon=1)
    assert len(visits.spent) == charged


def test_a_plan_says_how_close_it_will_be_and_within_finds_an_epsilon(visits):
    query = SHAPES["stddev"](**MINUTES)
    planned = visits.preview(query, Total(epsilon=1, delta=0))
    assert "a standard deviation of minutes over 1,000 rows spread evenly between the bounds within ±" in planned.why
    close = visits.stddev(**MINUTES, within=3, epsilon=20)
    assert close.epsilon.upper <= 20
    with pytest.raises(Unattainable, match="spread evenly between the bounds"):
        visits.stddev(**MINUTES, within=0.01, epsilon=0.1)


def test_a_variance_costs_three_uses_of_a_group():
    statistic = Variance(column="x", low=0, high=1, per_user=5)
    release = statistic.release((statistic,))
    assert release.reaches == (5 * 2**16, 5 * 2**16, 5)
    assert len(release.guarantees()) == 3
    many = Variance(column="x", low=0, high=1, per_user=2**10)
    assert many.release((many,)).reaches == (2**20, 2**20, 2**10)
    assert [each.most for each in many.measures()] == [2**10, 2**10]

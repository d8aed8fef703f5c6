"""Quantiles are over rows with one vote of a user: near what the rows say, however many rows a user has."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.query import Quantile
from setwise.analytics.schema import Column, Kind, Schema
from setwise.analytics.sql.parser import parse_sql


@pytest.fixture(scope="module")
def flights():
    """Every aircraft has 40 flights, most on time and some very late; their means are close together."""
    random = np.random.default_rng(5)
    planes = np.repeat(np.arange(3000), 40)
    late = np.where(
        random.random(len(planes)) < 0.2, random.integers(30, 120, len(planes)), random.integers(-5, 15, len(planes))
    )
    return pa.table({"plane": planes, "delay": late, "port": random.choice(["BOS", "STL"], len(planes))})


def test_a_high_quantile_of_rows_is_that_of_rows_and_not_of_means(flights):
    delays = flights["delay"].to_numpy()
    with setwise.open(flights, user="plane") as session:
        answer = session.quantile(value="delay", low=-20, high=180, at=[0.5, 0.9], epsilon=2)
    median, high = (estimate.value for estimate in answer.items[0].estimates)
    assert median == pytest.approx(np.quantile(delays, 0.5), abs=2)
    assert high == pytest.approx(np.quantile(delays, 0.9), abs=5)
    means = delays.reshape(3000, 40).mean(axis=1)
    assert np.quantile(means, 0.9) < 30  # what the quantile over users' own means said
    assert "over events, each between -20 and 180, one vote of a user" in answer.measure


def test_a_user_with_many_rows_has_one_vote(tmp_path):
    rows = pa.table({"who": [*([0] * 5000), *range(1, 501)], "x": [*([90] * 5000), *([10] * 500)]})
    with setwise.open(rows, user="who") as session:
        assert session.quantile(value="x", low=0, high=100, epsilon=4).value == pytest.approx(10, abs=1)


def test_bounds_are_found_from_rows(flights):
    with setwise.open(flights, user="plane") as session:
        answer = session.quantile(value="delay", bounds="auto", at=0.9, epsilon=4)
    low, high = answer.found["delay"]
    assert low <= -4
    assert high == 128
    assert answer.items[0].estimates[0].value > 40


def test_quantiles_of_groups_and_beside_other_statistics(flights):
    query = setwise.Query(
        item="port",
        contributions=2,
        statistics=(
            setwise.Count(),
            Quantile(column="delay", low=-20, high=180),
            setwise.Mean(column="delay", low=-20, high=180),
        ),
    )
    with setwise.open(flights, user="plane") as session:
        answer = session.ask(query, setwise.Total(epsilon=4, delta=1e-6))
    for item in answer:
        users, median, mean = item.estimates
        assert users.value == pytest.approx(3000, abs=100)
        assert median.value == pytest.approx(6, abs=2)
        assert mean.value == pytest.approx(flights["delay"].to_numpy().mean(), abs=2)


def test_a_private_least_and_greatest_value_are_quantiles_near_the_ends():
    text = "SELECT PRIVATE_MIN(delay, contribution_bounds_per_row => (0, 9)) AS a, PRIVATE_MAX(delay) AS b FROM t"
    least, greatest = parse_sql(text, user="plane").query.statistics
    assert least == Quantile(column="delay", low=0, high=9, at=0.01)
    assert greatest == Quantile(column="delay", bounds="auto", at=0.99)


def test_values_of_small_groups_are_marked_unreliable_and_those_of_large_ones_are_not():
    """A group of 30 users beside one of 3,000; each user has one row.

    Noise that makes the small group look four times as large hides it, about once in fifty answers. Eight answers are
    drawn, of which four must mark it: a right rule fails this less than once in a million runs.
    """
    random = np.random.default_rng(3)
    rows = pa.table({"who": range(3030), "line": ["VX"] * 30 + ["AA"] * 3000, "delay": random.integers(0, 60, 3030)})
    statistics = (
        setwise.Count(),
        Quantile(column="delay", low=0, high=300),
        setwise.Mean(column="delay", low=0, high=60),
    )
    query = setwise.Query(item="line", statistics=statistics, domain=("VX", "AA"))
    with setwise.open(rows, user="who") as session:
        answers = [session.ask(query, setwise.Total(epsilon=0.5, delta=0)) for _ in range(8)]
    marked = []
    for answer in answers:
        marks = {item.label: [estimate.unreliable for estimate in item.estimates] for item in answer}
        assert marks["AA"] == [False, False, False]
        if marks["VX"][1:] == [True, True]:
            marked.append(answer)
    assert len(marked) >= 4
    answer = marked[0]
    assert PrivateAnswer.from_stored(answer.stored()) == answer
    shown = {item["item"]: item for item in answer.to_dict()["items"]}
    assert shown["VX"]["median_delay"]["unreliable"] is True
    assert "unreliable" not in shown["AA"]["median_delay"]
    assert "(unreliable)" in str(answer)
    assert "may be noise alone" in answer.interval_note


def test_groups_that_are_found_with_their_counts_are_judged_by_them():
    rows = pa.table({"who": range(4000), "line": ["AA"] * 3960 + ["VX"] * 40, "delay": [5] * 4000})
    query = setwise.Query(
        item="line", contributions=1, statistics=(setwise.Count(), Quantile(column="delay", low=0, high=1000))
    )
    with setwise.open(rows, user="who") as session:
        answer = session.ask(query, setwise.Total(epsilon=0.4, delta=0.01))
    marks = {item.label: item.estimates[1].unreliable for item in answer}
    assert marks["AA"] is False
    assert marks.get("VX", True) is True


INTEGERS = {
    "integer": pa.int64(),
    "decimal without places": pa.decimal128(20, 0),
}


@pytest.mark.parametrize("kind", INTEGERS)
def test_quantiles_of_integers_are_integers_with_the_bounds_that_are_found(kind):
    """Bounds end at powers of two, such as 0.5 and 16. At epsilon 100 a pick misses a fifth of 2,000 users never."""
    counts = pa.array([1 + user % 5 for user in range(2000)]).cast(INTEGERS[kind])
    with setwise.open(pa.table({"who": range(2000), "n": counts}), user="who", name="t") as session:
        found = session.sql("SELECT MEDIAN(n) AS m, PERCENTILE_DISC(n, 0.25) AS q FROM t", epsilon=100)
        assert {name: cell["value"] for name, cell in found.rows[0].items()} == {"m": 3, "q": 2}
        parts = session.sql("SELECT APPROX_QUANTILES(n, 5) AS q FROM t", epsilon=100).rows[0]
        assert all(cell["value"] == int(cell["value"]) for cell in parts.values())


def test_a_quantile_of_rows_counted_for_each_user_is_an_integer():
    who = [user for user in range(1000) for _ in range(1 + user % 5)]
    statement = "SELECT MEDIAN(n) AS m FROM (SELECT who, COUNT(*) AS n FROM t GROUP BY who)"
    with setwise.open(pa.table({"who": who}), user="who", name="t") as session:
        assert session.sql(statement, epsilon=100).rows[0]["m"]["value"] == 3


def test_a_grid_over_many_integers_is_of_integers():
    schema = Schema((Column(name="n", kind=Kind.INTEGER),))
    for words in ({"low": 0, "high": 86_399}, {"low": -0.5, "high": 70_000.5}):
        clip = Quantile(column="n", **words).in_steps(schema).clip
        assert clip.step > 1
        assert {clip.low.denominator, clip.high.denominator, clip.step.denominator} == {1}
        assert clip.low <= words["low"]
        assert clip.high >= words["high"]
    found = Quantile(column="n", bounds="auto").with_bounds(Fraction(-1, 2), Fraction(2**20)).in_steps(schema).clip
    assert found.low % found.step == found.high % found.step == 0
    assert Quantile(column="n", low=0, high=16, step=Fraction(1, 2)).in_steps(schema).clip.step == Fraction(1, 2)

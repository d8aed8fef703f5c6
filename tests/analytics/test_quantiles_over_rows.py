"""Quantiles are over rows with one vote of a user: near what the rows say, however many rows a user has."""

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.query import Quantile


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

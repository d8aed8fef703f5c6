"""Bounds that are found: near the data, charged before it is read, told in the answer, and one user moves one count."""

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.accounting.guarantees import DiscreteLaplace, PureDP, Use
from setwise.accounting.notation import format_use
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.query import Count, Mean, Quantile, Query, Sum
from setwise.errors import EngineFailed, InvalidParameter
from setwise.mechanisms.doubling_bounds import DOUBLINGS, DoublingBounds, ends
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import SystemRandomness
from tests.analytics.recorded import recorded_session

USERS = 4000
TOTAL = Total(epsilon=4, delta=Fraction("1e-6"))


def visits():
    random = np.random.default_rng(5)
    users = np.repeat(np.arange(USERS), 4)
    return pa.table(
        {
            "who": users,
            "page": [f"page {page}" for page in np.tile([0, 1, 2, 3], USERS)],
            "spent": random.uniform(40, 60, len(users)),
            "change": random.normal(0, 3, len(users)),
            "minutes": random.integers(1, 30, len(users)),
        }
    )


@pytest.fixture(scope="module")
def session():
    with setwise.open(visits(), user="who", name="visits") as opened:
        yield opened


def test_a_mean_finds_its_bounds_and_says_so(session):
    answer = session.mean(value="spent", bounds="auto", epsilon=1)
    assert answer.found == {"spent": [32.0, 64.0]}
    assert answer.items[0].estimates[0].value == pytest.approx(50, abs=0.5)
    searched, answered = (use.guarantee for use in answer.spent)
    assert searched == DiscreteLaplace(scale=10.0, sensitivity=1)
    assert isinstance(answered, PureDP)
    assert answered.epsilon == pytest.approx(0.9)
    assert answer.epsilon.upper <= 1
    assert answer.why.startswith("found within a tenth of epsilon: spent between 32 and 64; ")
    assert "between 32 and 64" in answer.measure
    assert json.loads(answer.to_json())["found"] == {"spent": [32.0, 64.0]}
    assert PrivateAnswer.from_stored(answer.stored()) == answer


def test_a_sum_looks_the_same_whatever_bounds_are_found(session):
    """Of whole numbers from 0 on, and of others."""
    for column in ("minutes", "change"):
        total = session.sum(value=column, bounds="auto", epsilon=1)
        assert (total.kind, total.statistics, total.labels) == ("sum", (f"sum_{column}",), ("all",))
    assert session.sum(value="minutes", bounds="auto", epsilon=1).value == pytest.approx(4 * USERS * 15, rel=0.1)
    pages = session.sum(value="minutes", bounds="auto", item="page", contributions=4, epsilon=4, delta=1e-6)
    assert (pages.kind, pages.statistics) == ("sum", ("sum_minutes",))
    assert all(each.estimates[0].value == pytest.approx(USERS * 15, rel=0.1) for each in pages)


def test_signed_values_and_contributions(session):
    statistics = (Mean(column="change", bounds="auto"), Sum(column="minutes", bounds="auto"), Count())
    query = Query(statistics=statistics, item="page", contributions="auto")
    answer = session.ask(query, TOTAL)
    low, high = answer.found["change"]
    assert -64 <= low <= -4
    assert 4 <= high <= 64
    assert answer.found["minutes"] == [0, 32]
    assert answer.found["contributions"] == 4
    assert answer.epsilon.upper <= 4
    assert len(answer) == 4
    assert {format_use(use).split(":")[0] for use in answer.spent} == {"discrete-laplace", "bounded-range", "approx"}


def test_statistics_of_the_same_values_share_what_is_found(session):
    quartiles = session.quantile(value="spent", bounds="auto", at=[0.25, 0.5, 0.75], epsilon=1)
    assert quartiles.spent[0] == Use(DiscreteLaplace(scale=20.0, sensitivity=1), 2)  # least and greatest rows
    low, high = quartiles.found["spent"]
    assert low <= 32
    assert high >= 64
    first, middle, last = (each.value for each in quartiles.items[0].estimates)
    assert low < first <= middle <= last < high
    statistics = (Mean(column="spent", bounds="auto"), Sum(column="minutes", bounds="auto"), Count())
    several = session.ask(Query(statistics=(*statistics, Quantile(column="spent", bounds="auto"))), TOTAL)
    assert several.spent[0] == Use(DiscreteLaplace(scale=10.0, sensitivity=1), 4)  # own means, own sums, two of rows
    assert several.found["spent"][0] <= 32
    assert several.found["minutes"][0] == 0


def test_a_histogram_finds_its_contributions(session):
    answer = session.histogram(item="page", contributions="auto", epsilon=2, delta=1e-6)
    assert answer.found == {"contributions": 4}
    assert all(item.count > 2500 for item in answer)


def test_bounds_are_charged_before_rows_are_read_and_read_once():
    events = []
    engine, session = recorded_session(events=events)
    session.mean(value="minutes", bounds="auto", epsilon=1)
    assert events == [("statistics", None), ("statistics", None)]
    engine.failing = True
    with pytest.raises(EngineFailed, match="disk"):
        session.mean(value="minutes", bounds="auto", epsilon=1)
    assert [use.count for use in session.spent] == [2, 2]


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda s: s.mean(value="spent", epsilon=1), "low and high, or bounds='auto'"),
        (lambda s: s.mean(value="spent", bounds="wide", epsilon=1), "'auto'"),
        (lambda s: s.mean(value="spent", bounds="auto", low=5, epsilon=1), "leave them out"),
        (lambda s: s.sum(value="spent", bounds="auto", step=5, epsilon=1), "leave them out"),
        (lambda s: s.histogram(item="page", contributions="many", epsilon=1, delta=1e-6), "contributions"),
        (lambda s: s.mean(value="page", bounds="auto", epsilon=1), "numbers"),
        (lambda s: s.sum(value="spent", bounds="auto", within=100), "bounds found"),
        (lambda s: s.mean(value="spent", low=0, high=10**91, epsilon=1), "at most 1e\\+90"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_charged(session, ask, named):
    charged = len(session.spent)
    with pytest.raises(setwise.SetwiseError, match=named):
        ask(session)
    assert len(session.spent) == charged


def test_queries_are_read_back_from_their_words():
    for query in (
        Query.mean(value="m", bounds="auto", item="g", contributions="auto"),
        Query.sum(value="m", bounds="auto"),
        Query.top_k(item="g", k=3, contributions="auto"),
        Query(item="g", statistics=(Count(), Mean(column="m", bounds="auto")), contributions=3),
    ):
        assert Query.from_dict(json.loads(json.dumps(query.to_dict()))) == query
        assert "low" not in query.to_dict()
    with pytest.raises(InvalidParameter, match="about items"):
        Query(contributions="auto")


def test_bins_cover_every_number_once():
    assert ends(1)[0] == Fraction(1, 2**20)
    for place in range(1, DOUBLINGS):
        assert ends(place)[1] == ends(place + 1)[0]
        assert ends(-place) == tuple(-end for end in reversed(ends(place)))


def test_empty_bins_are_seldom_mistaken_and_standing_ones_found():
    bounds = DoublingBounds(scale=Fraction(10))
    counts = np.zeros(2 * DOUBLINGS + 1, np.int64)
    counts[DOUBLINGS + 25 : DOUBLINGS + 27] = 3 * bounds.threshold
    found = [bounds.release(counts, SystemRandomness()) for _ in range(400)]
    right = sum(each == (ends(25)[0], ends(26)[1]) for each in found)
    assert right >= 396  # of one mistake in a thousand, five or more have a chance of one in two hundred thousand
    assert bounds.release(np.zeros_like(counts), SystemRandomness())[0] < Fraction(2) ** 41


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1, 2, 3, 5, 7.7, 10])
def test_the_promise_of_a_question_with_open_bounds_stays_within_its_budget(epsilon):
    """Adding up a tenth and nine tenths in floats promised 5.000000000000001 for a budget of 5."""
    table = pa.table({"who": list(range(200)), "x": [float(n % 50) for n in range(200)]})
    with setwise.open(table, user="who", name="t") as session:
        assert session.explain("SELECT AVG(x) AS mean FROM t", epsilon=epsilon).epsilon.upper <= epsilon

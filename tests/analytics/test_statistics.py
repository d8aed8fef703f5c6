"""Sums, means and quantiles of groups: whole numbers from the engine, bounded per user, and answers near the truth."""

import json
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.planning.expected_error import releases_of, statistics_note
from setwise.analytics.present.plot import bars_of
from setwise.analytics.present.text import question_in_words
from setwise.analytics.query import Count, Mean, Quantile, Query, Sum, statistic_name
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.release import Estimate

AGES = {"value": "age", "low": 0, "high": 120, "epsilon": 1}


@pytest.fixture(scope="module")
def shop():
    random = np.random.default_rng(2)
    users = np.repeat(np.arange(4000), 3)
    groups = np.tile([0, 1, 2], 4000)
    spent = random.normal(20.0 + 10 * groups, 5.0)
    opened = pa.table(
        {
            "who": users,
            "shop": [f"shop {group}" for group in groups],
            "plan": users % 2,
            "spent": spent,
            "change": random.integers(-8, 5, len(users)),
            "age": 18 + users % 60,
            "day": ["monday"] * len(users),
        }
    )
    with setwise.open(opened, user="who", name="shop") as session:
        yield session


def test_means_are_near_and_their_intervals_hold(shop):
    answer = shop.mean(value="spent", low=0, high=60, item="shop", contributions=3, epsilon=1, delta=1e-6)
    assert answer.statistics == ("mean_spent",)
    assert set(answer.labels) == {"shop 0", "shop 1", "shop 2"}
    for item in answer:
        (mean,) = item.estimates
        assert mean.value == pytest.approx(20 + 10 * int(item.label[-1]), abs=1.0)
        assert mean.interval[0] <= mean.value <= mean.interval[1]
    assert answer.epsilon.upper <= 1.0
    assert PrivateAnswer.from_stored(answer.stored()) == answer


def test_a_median_costs_one_bounded_range_use(shop):
    answer = shop.quantile(value="age", low=0, high=120, epsilon=1)
    (item,) = answer.items
    assert item.estimates[0].value == pytest.approx(47.5, abs=2.5)
    assert [str(use.guarantee.epsilon) for use in answer.spent] == ["1.0"]
    assert answer.mechanism == "exponential"


def test_signed_sums_and_groups_of_several_columns(shop):
    answer = shop.sum(value="change", low=-10, high=10, item=["shop", "plan"], contributions=3, epsilon=2, delta=1e-6)
    assert len(answer) == 6
    assert {label[1] for label in answer.labels} == {0, 1}
    for item in answer:
        total = item.estimates[0]
        assert total.value == pytest.approx(-2 * 2000, abs=600)
        assert isinstance(total.value, int)
    shown = json.loads(answer.to_json())["items"][0]
    assert set(shown) == {"item", "sum_change"}
    assert set(shown["item"]) == {"shop", "plan"}
    assert answer.to_csv().splitlines()[0] == "shop,plan,sum_change,sum_change_lower,sum_change_upper,measure"
    assert PrivateAnswer.from_stored(answer.stored()) == answer


def test_counts_by_several_columns_are_histograms_like_any_other(shop):
    answer = shop.histogram(item=("shop", "plan"), contributions=3, epsilon=2, delta=1e-6)
    assert {item.label: round(item.count, -3) for item in answer} == {
        (f"shop {group}", plan): 2000 for group in range(3) for plan in range(2)
    }
    assert answer.to_arrow().column_names[:3] == ["shop", "plan", "count"]
    domain = [("shop 1", 0), ("shop 9", 1)]
    known = shop.histogram(item=("shop", "plan"), contributions=3, domain=domain, epsilon=2)
    assert {item.label: item.count > 1000 for item in known} == {("shop 1", 0): True, ("shop 9", 1): False}
    top = shop.top_k(item=["shop", "plan"], k=2, epsilon=2, delta=1e-6)
    assert len(top.labels[0]) == 2


def test_a_top_k_by_a_real_valued_sum_is_refused_rather_than_ranked_by_users(shop):
    with pytest.raises(UnsuitableTable, match="ranks by users, rows or whole sums"):
        shop.top_k(item="shop", k=1, value="spent", per_item=60, epsilon=1, delta=1e-6)


def test_one_discovery_serves_several_statistics(shop):
    statistics = (Count(), Mean(column="spent", low=0, high=60), Quantile(column="age", low=0, high=120))
    query = Query(item="shop", k=2, contributions=3, statistics=statistics)
    answer = shop.ask(query, Total(epsilon=2, delta=Fraction("1e-6")))
    assert answer.statistics == ("users", "mean_spent", "median_age")
    assert len(answer) == 2
    assert all(abs(item.estimates[0].value - 4000) < 300 for item in answer)
    assert answer.epsilon.upper <= 2.0
    charged = {use.guarantee: use.count for use in shop.preview(query, Total(epsilon=2, delta=Fraction("1e-6"))).uses}
    assert all(use.count <= charged[use.guarantee] for use in answer.spent)


@pytest.mark.parametrize(
    ("ask", "error", "named"),
    [
        (lambda shop: shop.mean(value="day", low=0, high=1, epsilon=1), UnsuitableTable, "numbers"),
        (lambda shop: shop.mean(value="spent", low=5, high=5, epsilon=1), InvalidParameter, "below high"),
        (lambda shop: shop.sum(value="spent", step=2, epsilon=1), InvalidParameter, "clip"),
        (lambda shop: shop.sum(value="spent", clip=5, high=3, epsilon=1), InvalidParameter, "either"),
        (lambda shop: shop.sum(value="change", high=9, epsilon=1), InvalidParameter, "without low.*low=0, high=9 "),
        (lambda shop: shop.sum(value="change", low=-9, epsilon=1), InvalidParameter, "without high: give low and high"),
        (lambda shop: shop.quantile(value="age", low=0, high=9, at=1.5, epsilon=1), InvalidParameter, "not 1.5$"),
        (
            lambda shop: shop.sum(value="age", low=0, high=9, step=10, epsilon=1),
            InvalidParameter,
            "step must be at mos",
        ),
        (lambda shop: shop.mean(value="age", low=0, high=9, step=10, epsilon=1), InvalidParameter, "at most 9, not 10"),
        (lambda shop: shop.mean(value="age", low=0, bounds="auto", epsilon=1), InvalidParameter, "leave them out"),
        (lambda shop: shop.sum(value="age", low=0, bounds="auto", epsilon=1), InvalidParameter, "leave them out"),
        (lambda shop: shop.sum(value="age", clip=1, bounds="auto", epsilon=1), InvalidParameter, "leave them out"),
        (lambda shop: shop.mean(value="age", high=1, bounds="auto", epsilon=1), InvalidParameter, "leave them out"),
        (
            lambda shop: shop.ask(Query.mean(value="age", low=0, high=9, item="shop"), Total(epsilon=1, delta=1e-6)),
            InvalidParameter,
            r"contributions = auto, or in SQL max_groups_contributed = auto",
        ),
        (lambda shop: shop.quantile(value="age", low=0, high=10**6, step=1, epsilon=1), InvalidParameter, "steps"),
        (
            lambda shop: shop.ask(Query.mean(value="age", low=0, high=9, item="shop"), Total(epsilon=1, delta=1e-6)),
            InvalidParameter,
            "in how many groups one user may count",
        ),
        (
            lambda shop: shop.ask(
                Query.mean(value="age", low=0, high=9, item="shop", contributions=2), Total(epsilon=1, delta=0)
            ),
            InvalidParameter,
            "delta",
        ),
        (lambda shop: shop.histogram(item=["shop", "shop"], contributions=1, epsilon=1), InvalidParameter, "different"),
        (lambda shop: shop.histogram(item=["shop", "plan"], domain=["a"], epsilon=1), InvalidParameter, "2 value"),
    ],
)
def test_impossible_statistics_are_refused_before_any_charge(shop, ask, error, named):
    charged = len(shop.spent)
    with pytest.raises(error, match=named):
        ask(shop)
    assert len(shop.spent) == charged


def test_every_query_is_read_back_from_its_words():
    for query in (
        Query.mean(value="m", low=0, high=600, item=["a", "b"], contributions=3),
        Query.quantile(value="m", low=-1.5, high=10.5, at=0.25, step=0.1),
        Query.quantile(value="m", low=0, high=9, at=[0.9, 0.5], item="g", contributions=2),
        Query.mean(value="m", low=0, high=600, per_user=4),
        Query(statistics=(Count(column="m"),)),
        Query(statistics=(Count(column="m", most=3), Count(most=2)), item="g", contributions=1),
        Query.sum(value="v", low=-5, high=5),
        Query.sum(value="v", low=0, high=2.5, item="g", contributions=2),
        Query.top_k(item=("a", "b"), k=2, domain=[("x", 1), ("y", 2)]),
        Query(item="g", k=3, statistics=(Count(), Mean(column="x", low=0, high=1), Sum(column="y", low=0, high=4))),
    ):
        assert Query.from_dict(json.loads(json.dumps(query.to_dict()))) == query


def test_rows_and_values_beside_means_over_rows(shop):
    statistics = (
        Count(most=3),
        Count(most=2, column="day"),
        Mean(column="age", low=0, high=100, per_user=3),
    )
    answer = shop.ask(Query(statistics=statistics), Total(epsilon=2, delta=0))
    assert answer.statistics == ("rows", "count_day", "mean_age")
    (item,) = answer.items
    rows, days, by_row = (each.value for each in item.estimates)
    assert rows == pytest.approx(12_000, abs=300)
    assert days == pytest.approx(8_000, abs=200)
    assert by_row == pytest.approx(47.5, abs=1.5)
    assert "at most 3 of a user" in answer.measure
    assert "events that have day" in answer.measure
    with pytest.raises(InvalidParameter, match="two statistics are called 'rows'"):
        Query(statistics=(Count(most=2), Count(most=3)))


def test_a_mean_over_rows_weighs_users_by_their_rows():
    table = pa.table({"who": [0] * 9 + list(range(1, 1001)), "x": [9.0] * 9 + [1.0] * 500 + [3.0] * 500})
    with setwise.open(table, user="who", name="t") as session:
        mean = session.mean(value="x", low=0, high=10, per_user=2, epsilon=5)
    assert mean.items[0].estimates[0].value == pytest.approx(2.01, abs=0.15)


def test_what_one_user_adds_is_the_farther_bound():
    one = Fraction(1)
    (total,) = releases_of((Sum(column="x", low=Fraction(-60), high=Fraction(5), step=one),))
    assert total.reach == 60
    (mean,) = releases_of((Mean(column="x", low=Fraction(0), high=Fraction(10), step=one, per_user=4),))
    assert mean.reaches == (20, 4)


@pytest.mark.parametrize("most", [None, 1])
def test_intervals_of_users_who_were_selected_by_noise_promise_an_average_alone(most):
    mean = Mean(column="x", low=Fraction(0), high=Fraction(10), step=Fraction(1))
    query = Query(item="town", statistics=(Count(most=most), mean), contributions=3)
    note = statistics_note(query, CONFIDENCE, "the exact number")
    assert note.startswith(
        "On average 95% of the intervals of users hold the exact number. Each other interval holds it"
    )
    assert statistics_note(replace(query, domain=("here", "there")), CONFIDENCE, "it").startswith("Each interval holds")


def test_an_answer_says_what_rounding_may_cost(shop):
    total = shop.sum(value="spent", low=0, high=300, epsilon=1)
    assert total.interval_note == (
        "Each interval holds the exact number of what is counted with probability 95%. That of sum_spent is about what "
        "users add, each rounded to a multiple of 0.3, so by at most 0.15."
    )
    mean = shop.mean(value="spent", low=0, high=60, epsilon=1)
    assert "That of mean_spent allows for the rounding of each user's own mean, by at most 0.03." in mean.interval_note
    assert "rounded" not in shop.sum(value="change", low=-8, high=8, epsilon=1).interval_note


@pytest.mark.parametrize(
    "words", [{"low": 0, "high": 1000}, {"low": -500, "high": 500}, {"low": 0, "high": 200, "step": 1}]
)
def test_a_sum_of_fractions_in_steps_of_one_is_answered_and_says_that_it_was_rounded(shop, words):
    """With bounds 0 and 1000 it was refused, as if it ranked groups, and in other such steps nothing was said."""
    total = shop.sum(value="spent", **words, epsilon=9)
    assert "each rounded to a multiple of 1, so by at most 0.5." in total.interval_note
    assert total.items[0].estimates[0].value == pytest.approx(3 * 4000 * 30, abs=6000)
    whole = shop.sum(value="change", **{**words, "low": min(words["low"], -1)}, epsilon=1)
    assert "rounded" not in whole.interval_note
    assert "rounded" not in shop.sum(value="age", low=0, high=1000, epsilon=1).interval_note


def test_groups_are_not_ranked_by_fractions(shop):
    with pytest.raises(UnsuitableTable, match="ranks by users, rows or whole sums"):
        shop.top_k(item="shop", k=2, value="spent", per_item=1000, contributions=3, epsilon=1, delta=1e-6)


def test_missing_values_of_several_columns_have_the_label_of_their_kind():
    rows = [(who, None if who % 2 else "NO", None if who % 3 else 5) for who in range(600)]
    who, country, age = (list(column) for column in zip(*rows, strict=True))
    table = pa.table({"who": who, "country": country, "age": age})
    with setwise.open(table, user="who", name="t") as session:
        words = {"item": ["country", "age"], "contributions": 1, "epsilon": 5, "delta": 1e-6}
        for null_item in (-1, "-1"):
            found = session.histogram(null_item=null_item, **words)
            assert set(found.labels) == {("NO", 5), ("NO", -1), ("-1", 5), ("-1", -1)}
        with pytest.raises(InvalidParameter, match="'age' holds whole numbers, so that null_item has to be one"):
            session.histogram(null_item="none", **words)
        with pytest.raises(InvalidParameter, match="null_item is one label, which stands in every column"):
            session.histogram(null_item=("none", -1), **words)


def test_the_interval_of_a_mean_allows_for_rounded_values():
    mean = Mean(column="x", low=Fraction(0), high=Fraction(100), step=Fraction(2))
    found = mean.in_units(Estimate(value=3.0, interval=(1.0, 5.0)))
    assert (found.value, found.interval) == (56.0, (51.0, 61.0))


def test_quantiles_are_picked_together_where_their_values_are_the_same(shop):
    wanted = [("age", at, 120) for at in (0.75, 0.25)] + [("plan", 0.5, 1), ("age", 0.5, 120), ("age", 0.1, 100)]
    statistics = [Quantile(column=name, at=at, low=0, high=high, step=Fraction(1)) for name, at, high in wanted]
    releases = releases_of(statistics)
    assert [(each.leader, each.number) for each in releases] == [(0, 2), (0, 0), (2, 0), (0, 1), (4, 0)]
    quartiles = "SELECT APPROX_QUANTILES(age, 4, contribution_bounds_per_row => (0, 120)) AS q FROM shop"
    answer = shop.sql(quartiles, epsilon=1)
    assert [(use.count, use.guarantee.epsilon) for use in answer.answer.spent] == [(2, 0.5)]
    words = shop.quantile(value="age", low=0, high=120, at=[0.25, 0.5, 0.75], epsilon=1)
    assert words.spent == answer.answer.spent
    assert words.statistics == ("quantile_0.25_age", "median_age", "quantile_0.75_age")
    for at, name in ((np.array([0.25, 0.75]), "quantile_0.75_age"), (np.float64(0.5), "median_age")):
        assert Query.quantile(value="age", low=0, high=120, at=at) == Query.quantile(
            value="age", low=0, high=120, at=at.tolist()
        )
        assert statistic_name(Query.quantile(value="age", low=0, high=120, at=at).statistics[-1]) == name
    with pytest.raises(InvalidParameter, match="at least one share"):
        shop.quantile(value="age", low=0, high=120, at=np.array([]), epsilon=1)
    with pytest.raises(InvalidParameter, match="at least one share"):
        shop.quantile(value="age", low=0, high=120, at=[], epsilon=1)
    (row,) = answer.rows
    first, middle, last = (row[name]["value"] for name in ("q_1", "q_2", "q_3"))
    assert first <= middle <= last
    assert (first, middle, last) == pytest.approx((33, 48, 62), abs=3)


def test_several_quantiles_are_told_once_and_drawn_each(shop):
    quartiles = shop.quantile(value="age", low=0, high=120, at=[0.25, 0.5, 0.75], item="plan", domain=[0, 1], epsilon=2)
    told = "0.25, 0.5 and 0.75 quantiles of age over events, each between 0 and 120, one vote of a user per item"
    assert quartiles.measure == told
    drawn = bars_of(quartiles)
    names = ("quantile_0.25_age", "median_age", "quantile_0.75_age")
    assert [each.cells for each in drawn] == [(plan, name) for plan in "01" for name in names]
    assert [each.value for each in drawn] == [found.value for item in quartiles for found in item.estimates]
    axes = quartiles.plot().figure.axes[0]
    assert len(axes.patches) == 6
    assert " ".join(axes.get_xlabel().split()) == told
    whole = shop.quantile(value="age", low=0, high=120, at=[0.25, 0.75], epsilon=2)
    assert [each.label for each in bars_of(whole)] == ["quantile_0.25_age", "quantile_0.75_age"]
    assert whole.reason == "2 numbers"
    assert "2 statistics" in refused(lambda: whole.value)
    assert re.search(r"quantiles of age within \d+ and \d+ users in rank \(with", whole.why)


def test_bars_of_several_statistics_are_those_of_the_first(shop):
    both = shop.ask(Query(statistics=(Count(), Mean(column="age", low=0, high=100))), Total(epsilon=2, delta=0))
    axes = both.plot().figure.axes[0]
    assert (len(axes.patches), axes.get_xlabel()) == (1, "users")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Query.top_k(item=["a", "b"], k=2), "Top 2 of a and b"),
        (Query.histogram(item="a", value="v", per_item=3), "Histogram of a by the sum of v"),
        (Query.count(per_user=5), "Number of events, at most 5 of a user"),
        (Query.sum(value="v", clip=9), "Sum of v, at most 9 of a user"),
        (Query.sum(value="v", low=-9, high=9, item="a"), "Sum of v between -9 and 9 by a"),
        (Query.sum(value="v", bounds="auto"), "Sum of v, its bounds to be found"),
        (Query.mean(value="Vv", bounds="auto", item=["a", "b"]), "Mean of Vv by a and b, its bounds to be found"),
        (Query.mean(value="v", low=0, high=1, per_user=4), "Mean of v over events between 0 and 1"),
        (Query.quantile(value="v", low=0, high=1), "Median of v between 0 and 1"),
        (Query.quantile(value="v", low=0, high=1, at=[0.1, 0.9], where="a = 1"), "0.1 and 0.9 quantiles of v between"),
        (
            Query(item="a", k=3, statistics=(Count(), Quantile(column="v", low=0, high=1), Count(column="w"))),
            "Top 3 of a: users, median of v between 0 and 1, users with w",
        ),
    ],
)
def test_every_question_is_told_in_words(query, words):
    assert question_in_words(query.to_dict()).startswith(words)


def refused(call):
    with pytest.raises(InvalidParameter) as error:
        call()
    return str(error.value)


def test_bins_are_groups_like_any_other(shop):
    answer = shop.mean(
        value="spent", low=0, high=60, item=["age by 20", "plan"], contributions=1, epsilon=2, delta=1e-6
    )
    assert {label[0] for label in answer.labels} <= {0, 20, 40, 60}
    assert answer.to_csv().splitlines()[0].startswith("age by 20,plan,mean_spent,mean_spent_lower,mean_spent_upper")
    known = shop.histogram(item="age by 20", contributions=1, domain=["20", "40"], epsilon=1)
    assert {item.label: round(item.count, -2) for item in known}.keys() == {20, 40}
    with pytest.raises(UnsuitableTable, match="needs a column of numbers, and 'shop' holds text"):
        shop.histogram(item="shop by 20", contributions=1, epsilon=1)
    with pytest.raises(UnknownColumn, match="no column 'aged'"):
        shop.histogram(item="aged by 20", contributions=1, epsilon=1)

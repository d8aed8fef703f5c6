"""Sums, means and quantiles of groups: whole numbers from the engine, bounded per user, and answers near the truth."""

import json
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.engines.base import Aggregation, Measure
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.query import DuckDBQuery
from setwise.analytics.engines.duckdb.tables import ArrowTable
from setwise.analytics.query import Count, Mean, Quantile, Query, Sum
from setwise.errors import InvalidParameter, UnsuitableTable
from setwise.mechanisms.planning.request import Total

AGES = {"value": "age", "low": 0, "high": 120, "epsilon": 1}
MEASURES = (
    Measure(most=2),
    Measure(column="whole", least=-50, most=70),
    Measure(column="real", step=Fraction(1, 4), least=-200, most=200),
    Measure(column="real", averaged=True, origin=Fraction(1, 2), step=Fraction(1, 10), least=-20, most=20),
    Measure(column="whole", averaged=True, origin=Fraction(-5), most=10, in_cells=True),
)


def rows(users=60, seed=0):
    """Rows of users with several groups, among them nothing, what is no number, and the largest there are."""
    random = np.random.default_rng(seed)
    odd = [None, math.nan, math.inf, -math.inf, 1e308, -1e308, 0.125]
    for user in range(users):
        for _ in range(int(random.integers(1, 8))):
            whole = random.choice([None, -(2**63), 2**63 - 1, *range(-40, 40)])
            real = odd[int(random.integers(0, 7))] if random.random() < 0.2 else float(random.normal(0, 3))
            group = f"g{random.integers(0, 5)}" if random.random() > 0.1 else None
            yield user, group, int(random.integers(0, 3)), None if whole is None else int(whole), real


def table(lines):
    kinds = {"who": pa.int64(), "group": pa.string(), "plan": pa.int64(), "whole": pa.int64(), "real": pa.float64()}
    columns = zip(zip(*lines, strict=True), kinds.values(), strict=True)
    return pa.table([pa.array(cells, kind) for cells, kind in columns], list(kinds))


def added(measure, lines):
    """What one user's rows in a group add by a measure; None for nothing."""
    if measure.column is None:
        return min(len(lines), measure.most)
    place = {"whole": 3, "real": 4}[measure.column]
    values = [line[place] for line in lines if line[place] is not None and line[place] == line[place]]
    if not values:
        return None
    if measure.column == "whole" and not measure.averaged and measure.step == 1:
        exact = sum(values)
    else:
        bounded = [min(max(float(value), -1e100), 1e100) for value in values]
        number = math.fsum(bounded) / (len(bounded) if measure.averaged else 1)
        exact = (number - float(measure.origin)) / float(measure.step)
        exact = math.copysign(math.floor(abs(exact) + 0.5), exact)
    return int(min(max(exact, measure.least), measure.most))


def expected(lines, groups):
    pairs = defaultdict(list)
    for line in lines:
        if None not in groups(line):
            label = groups(line)
            pairs[line[0], label if len(label) > 1 else label[0]].append(line)
    users, totals, numbers = (
        defaultdict(int),
        [defaultdict(int) for _ in MEASURES],
        [defaultdict(int) for _ in MEASURES],
    )
    cells = [defaultdict(int) for _ in MEASURES]
    for (_, label), own in pairs.items():
        users[label] += 1
        for place, measure in enumerate(MEASURES):
            number = added(measure, own)
            if number is not None:
                totals[place][label] += number
                numbers[place][label] += 1
                cells[place][label, number] += 1
    return users, totals, numbers, cells


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(
    ("item", "groups"),
    [("group", lambda line: (line[1],)), (("group", "plan"), lambda line: (line[1], line[2]))],
)
def test_the_engine_adds_up_what_every_user_adds(item, groups, parts):
    lines = list(rows())
    aggregation = Aggregation(user="who", item=item, measures=MEASURES)
    with DuckDBEngine(ArrowTable(table(lines)), salts=lambda: 7) as engine, engine._watched() as cursor:
        engine.check(aggregation)
        found = DuckDBQuery(engine._table, engine.describe(), cursor, 7).statistics(aggregation, parts)
    users, totals, numbers, cells = expected(lines, groups)
    assert dict(zip(found.users.labels, found.users.counts.tolist(), strict=True)) == users
    for place, measure in enumerate(MEASURES):
        got = {label: number for label, number in found.numbers[place].items() if number}
        assert got == numbers[place]
        assert {label: found.totals[place][label] for label in got} == {label: totals[place][label] for label in got}
        if measure.in_cells:
            held = {
                (label, measure.least + int(cell)): int(counts[cell])
                for label, counts in found.cells[place].items()
                for cell in np.flatnonzero(counts)
            }
            assert held == cells[place]


@pytest.mark.parametrize("contributions", [1, 2, None])
def test_one_user_changes_few_groups_and_each_by_little(contributions):
    lines = list(rows(seed=1))
    aggregation = Aggregation(user="who", item=("group", "plan"), contributions=contributions, measures=MEASURES)
    for gone in range(0, 60, 7):
        found = []
        for left in (lines, [line for line in lines if line[0] != gone]):
            with DuckDBEngine(ArrowTable(table(left)), salts=lambda: 7) as engine:
                found.append(engine.statistics(aggregation))
        one, other = found
        labels = set(one.users.labels) | set(other.users.labels)
        changed = set()
        for place, measure in enumerate(MEASURES):
            reach = max(abs(measure.least), abs(measure.most))
            for label in labels:
                moved = one.totals[place].get(label, 0) - other.totals[place].get(label, 0)
                more = one.numbers[place].get(label, 0) - other.numbers[place].get(label, 0)
                assert abs(moved) <= reach
                assert more in (0, 1)
                if moved or more:
                    changed.add(label)
                if measure.in_cells:
                    none = np.zeros(measure.most - measure.least + 1)
                    cells = one.cells[place].get(label, none) - other.cells[place].get(label, none)
                    assert (cells >= 0).all()
                    assert cells.sum() == more
        assert contributions is None or len(changed) <= contributions


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
    assert answer.to_csv().splitlines()[0] == "shop,plan,sum_change,sum_change_lower,sum_change_upper"
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
        (lambda shop: shop.sum(value="spent", epsilon=1), InvalidParameter, "clip"),
        (lambda shop: shop.sum(value="spent", clip=5, high=3, epsilon=1), InvalidParameter, "either"),
        (lambda shop: shop.quantile(value="age", low=0, high=9, at=1.5, epsilon=1), InvalidParameter, "at"),
        (lambda shop: shop.quantile(value="age", low=0, high=10**6, step=1, epsilon=1), InvalidParameter, "steps"),
        (
            lambda shop: shop.mean(value="age", low=0, high=9, item="shop", epsilon=1, delta=1e-6),
            InvalidParameter,
            "bound",
        ),
        (
            lambda shop: shop.mean(value="age", low=0, high=9, item="shop", contributions=2, epsilon=1),
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
        Query.sum(value="v", low=-5, high=5),
        Query.sum(value="v", low=0, high=2.5, item="g", contributions=2),
        Query.top_k(item=("a", "b"), k=2, domain=[("x", 1), ("y", 2)]),
        Query(item="g", k=3, statistics=(Count(), Mean(column="x", low=0, high=1), Sum(column="y", high=4))),
    ):
        assert Query.from_dict(json.loads(json.dumps(query.to_dict()))) == query

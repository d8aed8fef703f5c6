"""Plans of usual questions: as little noise as ever, certified once."""

from fractions import Fraction

import pytest

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange
from setwise.accounting.notation import parse_use
from setwise.analytics.planning.plan import plan_query
from setwise.analytics.schema import Column, Kind, Schema
from setwise.analytics.sql.parser import parse_sql
from setwise.mechanisms.planning import cost
from setwise.mechanisms.planning.request import Total

KINDS = {"u": Kind.INTEGER, "g": Kind.TEXT, "v": Kind.FLOAT, "w": Kind.INTEGER}
SCHEMA = Schema(tuple(Column(name=name, kind=kind) for name, kind in KINDS.items()))
USERS = "COUNT(DISTINCT u) AS users"
MEAN = "AVG(v, contribution_bounds_per_group => (0, 100)) AS mean"
MEDIAN = "MEDIAN(v, contribution_bounds_per_row => (0, 100)) AS median"
FOUR = (
    f"COUNT(*, contribution_bounds_per_group => (0, 5)) AS n, {MEAN}, {MEDIAN}, "
    "SUM(w, contribution_bounds_per_group => (0, 50)) AS sum"
)
TOP = "FROM t GROUP BY g ORDER BY users DESC LIMIT"

PLANNED = {
    "count": (f"SELECT {USERS} FROM t", None, "discrete-laplace:1,1"),
    "histogram": (f"SELECT g, {USERS} FROM t GROUP BY g", 3, "discrete-laplace:3,1x3"),
    "top 10": (f"SELECT g, {USERS} {TOP} 10", None, "bounded-range:0.1176x10 gaussian:22.19x10"),
    "top 100": (f"SELECT g, {USERS} {TOP} 100", None, "bounded-range:0.03709x100 gaussian:70.37x100"),
    "mean per group": (
        f"SELECT g, {MEAN} FROM t GROUP BY g",
        3,
        "gaussian:86.49 gaussian:39.83 gaussian:19.92 gaussian:9.959 gaussian:12.11x6",
    ),
    "four statistics": (
        f"SELECT g, {FOUR} FROM t GROUP BY g",
        10,
        "gaussian:126.7 gaussian:58.35 gaussian:29.18 gaussian:14.59 gaussian:28.96x20 gaussian:40.95x20 "
        "bounded-range:0.06906x10",
    ),
    "mean of the top": (
        f"SELECT g, {USERS}, {MEAN} {TOP} 10",
        10,
        "truncated-gaussian:26.57,146,1x10 gaussian:21.97x20",
    ),
    "median of the top": (
        f"SELECT g, {USERS}, {MEDIAN} {TOP} 10",
        10,
        "truncated-gaussian:26.57,146,1x10 bounded-range:0.12995x10",
    ),
}
"""Questions, how many groups a user counts towards, and the noise that (1, 1e-6) has bought so far."""


@pytest.mark.parametrize(("text", "contributions", "bought"), PLANNED.values(), ids=PLANNED)
def test_usual_questions_have_the_noise_they_had_from_one_certified_composition(text, contributions, bought):
    cost._search_price.cache_clear()
    query = parse_sql(text, user="u", contributions=contributions).query
    plan = plan_query(query, Total(epsilon=1, delta=Fraction("1e-6")), "u", SCHEMA, None).plan
    assert cost._search_price.cache_info().misses == 1
    uses = [use for use in plan.uses if use.guarantee.kind != "approx"]
    for use, before in zip(uses, map(parse_use, bought.split()), strict=True):
        assert (type(use.guarantee), use.count) == (type(before.guarantee), before.count)
        assert 0.997 < _noise(before.guarantee) / _noise(use.guarantee) < 1.01
    assert compose(plan.uses).epsilon(1e-6).upper <= plan.epsilon.upper <= 1.0


def _noise(guarantee):
    if isinstance(guarantee, BoundedRange):
        return 1 / guarantee.epsilon
    return guarantee.scale if hasattr(guarantee, "scale") else guarantee.sigma


def test_a_search_for_bounds_certifies_only_the_charge_and_the_example_but_not_the_costliest_bounds():
    query = parse_sql(f"SELECT g, {USERS}, {MEAN} {TOP} 1000", user="u", contributions=None).filled().query
    cost._search_price.cache_clear()
    executable = plan_query(query, Total(epsilon=1, delta=Fraction("1e-6")), "u", SCHEMA, None)
    assert executable.search is not None
    assert cost._search_price.cache_info().misses <= 2
    assert executable.plan.epsilon.upper <= 1.0

"""Unequal bounded-range parameters drawn by price: every real order is among what prices allow."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.accounting import bound
from setwise.accounting.adaptive import dynamic_program, optimum
from setwise.accounting.adaptive.dynamic_program import (
    CONFIG,
    DrawOrders,
    draw_orders_of,
    grid_step,
    in_worst_order,
    merge_groups,
    variance_of,
)
from setwise.accounting.adaptive.operator import BoundedRangeStep
from setwise.accounting.adaptive.profiles import Band, TailProfile, nothing_to_come
from setwise.accounting.bounds import bounds_for
from setwise.accounting.brackets import Effort, Interaction, quiet
from setwise.accounting.classified_uses import classify
from setwise.accounting.compose import compose
from setwise.accounting.notation import as_uses
from setwise.errors import Unattainable
from tests.accounting.strategies import thousandths
from tests.sizes import examples

_groups = st.lists(
    st.tuples(thousandths(0.2, 1.0), st.integers(1, 3)), min_size=2, max_size=3, unique_by=lambda group: group[0]
).map(sorted)


def profile(draws, cells=8):
    groups = draws.groups
    step = grid_step([epsilon for epsilon, _ in groups], cells)
    band = Band(step, sum(epsilon * count for epsilon, count in groups), variance_of(groups), depth=20.0)
    after = TailProfile(nothing_to_come(step))
    return in_worst_order(draws, after, band, BoundedRangeStep.apply, quiet).profile


@given(_groups, st.lists(st.integers(1, 9), min_size=3, max_size=3))
@settings(max_examples=examples(60), deadline=None)
def test_any_prices_bound_all_orders(groups, prices):
    exact = profile(DrawOrders(tuple(groups))).upper
    priced = profile(DrawOrders(tuple(groups), tuple(prices[: len(groups)]))).upper
    size = min(exact.size, priced.size)
    assert (priced[:size] >= exact[:size] * (1 - 1e-13)).all()
    assert priced[-1] == 0.0 or priced.size <= exact.size


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 12)), min_size=1, max_size=4))
def test_levels_are_the_prices_of_what_may_remain(pairs):
    draws = DrawOrders(tuple((0.1, count) for count, _ in pairs), tuple(price for _, price in pairs))
    every = {
        sum(n * price for n, (_, price) in zip(counts, pairs, strict=True))
        for counts in itertools.product(*(range(count + 1) for count, _ in pairs))
    }
    assert draws.levels().tolist() == sorted(every)


MANY = [
    ([(0.3, 12), (0.41, 12), (0.5, 12)], 0.002),
    ([(0.1, 5), (0.11, 5), (0.13, 5), (0.17, 5), (0.19, 5), (0.2, 5)], 0.01),
    ([(0.1, 40), (0.23, 40)], 0.002),
    ([(round(0.1 + 0.01 * i, 2), 1) for i in range(20)], 0.035),
]


@pytest.mark.parametrize("groups", [groups for groups, _ in MANY])
def test_draws_cover_the_groups(groups):
    """Rounded up or not, every use is there with at least its own epsilon, and steps stay within reach."""
    draws = draw_orders_of(tuple(groups), 5.0)
    assert draws.prices
    assert draws.steps <= CONFIG.most_priced_steps
    assert sum(count for _, count in draws.groups) == sum(count for _, count in groups)
    left = [epsilon for epsilon, count in draws.groups for _ in range(count)]
    assert all(
        a <= b for a, b in zip([e for e, c in merge_groups(groups) for _ in range(c)], sorted(left), strict=True)
    )


@pytest.mark.parametrize(
    ("groups", "share"), [MANY[0], *(pytest.param(*each, marks=pytest.mark.slow) for each in MANY[1:])]
)
def test_brackets_of_many_parameters_are_narrow(groups, share):
    assert math.prod(count + 1 for _, count in groups) > CONFIG.most_states
    uses = [f"bounded-range:{epsilon}x{count}" for epsilon, count in groups]
    answer = compose(uses).epsilon(1e-6)
    assert answer.width <= share * answer.upper
    ascending = compose(uses, "ordered").epsilon(1e-6)
    assert ascending.lower <= answer.upper
    assert answer.lower <= ascending.upper


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "apart", "draws", "most"), [(12, 0.013, 4, 2.5938), (8, 0.02, 6, 2.5579)])
def test_what_is_quick_when_priced_is_priced(sizes, apart, draws, most):
    """It takes some seconds, and one Gaussian for the small ones would cost half a percent more."""
    uses = [f"bounded-range:{0.05 + apart * size}x{draws}" for size in range(sizes)]
    answer = compose(uses).epsilon(1e-9)
    assert (answer.method, answer.upper <= most) == ("certified-optimum", True)


def test_draws_that_take_long_are_priced_only_for_a_width():
    """Prices are several percent off there and take long; a Gaussian stands for the small ones."""
    uses = as_uses([f"bounded-range:{0.08 + 0.05 * i:.2f}x2" for i in range(11)])
    majorant, priced, *_ = bounds_for(classify(uses), Interaction.SETWISE, Effort())
    assert (majorant.method, priced.method) == ("gaussian-majorant", "certified-optimum")
    with pytest.raises(Unattainable, match="give a width"):
        priced.epsilon(1e-6, None)


@pytest.mark.parametrize(
    ("uses", "runs"),
    [
        (tuple(f"bounded-range:{0.1 * 1.15**i:.4f}x5" for i in range(5)), 1),
        (("bounded-range:1x2000", "bounded-range:0.5x2000"), 0),
    ],
)
def test_priced_draws_are_computed_once_or_not_at_all(uses, runs, monkeypatch):
    """The first grid is long enough; and where all epsilons would be rounded to one, a Gaussian is closer."""
    merged = []

    def counted(draws, *others):
        if draws.prices or draws.groups[0][1] > 2000:
            merged.append(draws)
        return in_worst_order(draws, *others)

    monkeypatch.setattr(dynamic_program, "CONFIG", replace(CONFIG, most_priced_steps=3_000))
    monkeypatch.setattr(optimum, "in_worst_order", counted)
    draw_orders_of.cache_clear()
    answer = compose(uses).epsilon(1e-6)
    for kept in (draw_orders_of, optimum._solved_on_grid, bound._solve):
        kept.cache_clear()
    assert len(merged) == runs
    assert answer.width <= 0.03 * answer.upper

"""The facts that docs/paper/open-questions.md rests on."""

import math
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import PureDP
from setwise.paper.figures.unequal_order import FOUR, SWAPPED, all_orders, delta_in_any_order, delta_in_order, survey
from setwise.paper.figures.worst_answer import best_answer, objective, one_left, quartic, quartic_answer, two_left
from setwise.paper.formulas import mixture
from setwise.paper.text_claims import pure_delta_in_order
from tests.sizes import examples

PAGE = (Path(__file__).parents[2] / "docs" / "paper" / "open-questions.md").read_text(encoding="utf-8")


@settings(max_examples=examples(20), deadline=None)
@given(parameters=st.lists(st.floats(0.05, 1.5), min_size=2, max_size=4), share=st.floats(0.0, 0.9))
def test_the_order_of_pure_parameters_is_irrelevant(parameters, share):
    g = share * sum(parameters)
    values = [pure_delta_in_order(order, g) for order in permutations(parameters)]
    exact = compose([PureDP(epsilon=epsilon) for epsilon in parameters]).delta(g)
    assert max(values) - min(values) <= 1e-14
    assert exact.lower - 1e-14 <= values[0] <= exact.upper + 1e-14


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.5, 0.7, 0.95])
def test_two_left_in_closed_form(epsilon, share):
    x = 2 * epsilon * share
    found = compose(mixture(epsilon, 2, 0)).delta(x)
    assert found.lower - 1e-12 <= two_left(x, epsilon) <= found.upper + 1e-12
    assert two_left(-x, epsilon) == pytest.approx(-math.expm1(-x) + math.exp(-x) * two_left(x, epsilon))
    assert best_answer(one_left, x, epsilon) == pytest.approx(max(epsilon / 2, (epsilon + x) / 3), abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("share", [1.2, 1.4, 1.6, 1.66])
def test_the_quartic_gives_the_worst_answer(epsilon, share):
    x = share * epsilon
    t = quartic_answer(x, epsilon)
    found = compose(mixture(epsilon, 3, 0)).delta(x, width=1e-4)
    assert t == pytest.approx(best_answer(two_left, x, epsilon), abs=2e-6)
    assert found.lower - 1e-12 <= objective(two_left, x, t, epsilon) <= found.upper + 1e-12


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_at_five_thirds_the_maximiser_is_two_thirds_and_the_objective_falls_beyond(epsilon):
    x = 5 * epsilon / 3
    assert quartic(math.exp(2 * epsilon / 9), x, epsilon) == pytest.approx(0.0, abs=1e-12)
    beyond = [2 * epsilon / 3 + i * epsilon / 300 for i in range(1, 101)]
    assert all(quartic(math.exp(t / 3), x, epsilon) < 0.0 for t in beyond)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("share", [1.2, 1.4, 1.6])
def test_the_quartic_is_the_slope_of_the_objective(epsilon, share):
    """Times a positive factor: (1 - r) r^2 u^(1/3) v^(-5/3) c^3 per v, and dv = v dt."""
    x, t, step = share * epsilon, share * epsilon - 0.8 * epsilon, 1e-6
    r, v = math.exp(-epsilon / 3), math.exp(t)
    slope = (objective(two_left, x, t + step, epsilon) - objective(two_left, x, t - step, epsilon)) / (2 * step)
    factor = (1 - r) * r**2 * math.exp(x / 3) * v ** (-5 / 3) / (1 - r**3) ** 3 * v
    assert slope == pytest.approx(factor * quartic(math.exp(t / 3), x, epsilon), rel=1e-5, abs=1e-9)


def test_three_left_is_no_weighted_sum():
    """Weights fixed by two points miss a third by far more than any error, for two epsilons at once."""
    for epsilon in (0.5, 1.0):
        low, middle, high = (share * epsilon for share in (1.15, 1.4, 1.65))
        chord = 0.5 * (quartic_answer(low, epsilon) + quartic_answer(high, epsilon))
        assert quartic_answer(middle, epsilon) < chord - 5e-3 * epsilon


def test_smaller_first_is_the_worst_of_two():
    small, large = delta_in_order((0.5, 1.0), 0.3), delta_in_order((1.0, 0.5), 0.3)
    assert small.lower > large.upper
    assert small.lower <= 0.15526887 <= small.upper
    assert large.lower <= 0.14406776 <= large.upper


def test_smaller_first_is_not_always_the_worst_order():
    g = 1.0688
    ascending, swapped = delta_in_order(FOUR, g), delta_in_order(SWAPPED, g)
    assert tuple(sorted(SWAPPED)) == FOUR
    assert swapped.lower > ascending.upper * (1 + 1e-4)
    chosen = delta_in_any_order(FOUR, g)
    assert chosen.upper >= swapped.lower


def test_all_orders_of_four_at_once():
    found = all_orders((0.25, 0.5, 0.75, 1.0), 0.75)
    assert len(found.fixed) == 24
    assert found.smaller_first == (0.25, 0.5, 0.75, 1.0)
    assert found.smaller_first_is_beaten
    assert found.worst[:2] == (0.5, 0.25)
    assert not found.choosing_helps


def test_a_part_of_the_survey_agrees_with_the_page():
    pairs = survey(2, (0.25, 0.5, 1.0), (0.0, 0.25, 0.5))
    assert (pairs.cases, pairs.beaten, pairs.choosing_helps) == (9, 0, 0)
    four = survey(4, (0.25, 0.5, 0.75, 1.0), (0.3,))
    assert (four.cases, four.beaten) == (1, 1)
    assert 0.0 < four.largest_excess < 1.2e-4
    assert "| 2 | 240 | 0 |" in PAGE
    assert "| 4 | 240 | 13 | 1.2e-04 | 0 |" in PAGE

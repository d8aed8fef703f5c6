"""Menu accounts: the promise holds against the best analyst on a lattice, and admits what preregistration admits."""

import math
from dataclasses import replace

import numpy as np
import pytest

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange, DiscreteLaplace, Gaussian, Laplace, PureDP, Use
from setwise.accounting.menu import Menu
from setwise.accounting.wallet import Wallet
from setwise.errors import InvalidParameter


def best_analyst(items, budget, epsilon, step):
    """Return the delta that the best analyst reaches at epsilon, whose choices keep losses on multiples of `step`.

    With `left` units and x still to lose, she stops, or takes an item and the t that is best on the lattice: every
    value is that of a strategy, so it is a lower bound of what the account allows. Independent of the code under test.
    """
    reach = math.ceil((epsilon + sum(item.epsilon for item, _ in items) * 2) / step)
    top = reach + 400
    x = step * np.arange(-top, top + 1)
    values = [np.maximum(0.0, -np.expm1(x))]

    def at(profile, cells):
        moved = np.roll(profile, cells)
        if cells > 0:
            moved[:cells] = 1.0 - np.exp(x[:cells] - step * cells)  # far below 0 nothing is left to gain
        elif cells < 0:
            moved[cells:] = 0.0
        return moved

    for left in range(1, budget + 1):
        best = values[-1].copy()
        for item, cost in items:
            if cost > left:
                continue
            after = values[left - cost]
            cells = round(item.epsilon / step)
            if isinstance(item, PureDP):
                keep = 1.0 / (1.0 + math.exp(-item.epsilon))
                best = np.maximum(best, keep * at(after, cells) + (1.0 - keep) * at(after, -cells))
            else:
                for t in range(1, cells):
                    keep = math.expm1(t * step - item.epsilon) / math.expm1(-item.epsilon)
                    best = np.maximum(best, keep * at(after, t) + (1.0 - keep) * at(after, t - cells))
        values.append(best)
    return float(values[-1][top + round(epsilon / step)])


MENUS = {
    "pure": ([PureDP(epsilon=0.2)], 1.0, 1e-3, 0.2),
    "bounded range": ([BoundedRange(epsilon=0.4)], 1.0, 1e-3, 0.05),
    "two sizes": ([PureDP(epsilon=0.1), PureDP(epsilon=0.3)], 1.0, 1e-2, 0.1),
    "both kinds": ([PureDP(epsilon=0.2), BoundedRange(epsilon=0.4)], 2.0, 1e-4, 0.05),
    "three": ([PureDP(epsilon=0.1), BoundedRange(epsilon=0.2), BoundedRange(epsilon=0.6)], 1.0, 1e-2, 0.05),
}


@pytest.mark.parametrize("name", MENUS)
def test_the_best_analyst_on_a_lattice_stays_within_the_promise(name):
    guarantees, epsilon, delta, step = MENUS[name]
    menu = Menu.for_promise(guarantees, epsilon=epsilon, delta=delta)
    reached = best_analyst(menu.items, menu.budget, epsilon, step)
    assert reached <= delta
    further = best_analyst(menu.items, menu.budget + max(cost for _, cost in menu.items), epsilon, step)
    assert further > delta  # a use more would break the promise: the budget is not idle


def test_a_budget_that_is_too_large_is_broken():
    guarantees, epsilon, delta, step = MENUS["both kinds"]
    menu = Menu.for_promise(guarantees, epsilon=epsilon, delta=delta)
    generous = replace(menu, budget=menu.budget + menu.budget // 4)
    assert best_analyst(generous.items, generous.budget, epsilon, step) > delta


@pytest.mark.parametrize(
    ("guarantee", "epsilon", "uses"),
    [(PureDP(epsilon=0.05), 2.0, 84), (PureDP(epsilon=0.1), 2.0, 24), (BoundedRange(epsilon=0.1), 2.0, 80)],
)
def test_one_use_on_the_menu_admits_what_preregistration_admits(guarantee, epsilon, uses):
    menu = Menu.for_promise([guarantee], epsilon=epsilon, delta=1e-6)
    assert menu.most_uses(guarantee) == uses
    assert compose([Use(guarantee, uses)]).epsilon(1e-6).lower <= epsilon
    assert compose([Use(guarantee, uses + 1)]).epsilon(1e-6).upper > epsilon
    assert Wallet.for_promise(epsilon=epsilon, delta=1e-6).size > 0


def test_what_is_better_than_an_item_costs_as_much():
    menu = Menu.for_promise([PureDP(epsilon=0.1), BoundedRange(epsilon=0.2)], epsilon=2.0, delta=1e-6)
    assert menu.cost(Use(PureDP(epsilon=0.05), 3)) == 3 * menu.cost(Use(PureDP(epsilon=0.1)))
    assert menu.cost(Use(Laplace(scale=20.0))) <= menu.cost(Use(PureDP(epsilon=0.1)))
    assert menu.cost(Use(DiscreteLaplace(scale=20.0))) == menu.cost(Use(PureDP(epsilon=0.05)))
    assert menu.cost(Use(BoundedRange(epsilon=0.1))) == min(cost for _, cost in menu.items)


@pytest.mark.parametrize("guarantee", [Gaussian(sigma=20.0), PureDP(epsilon=0.3), BoundedRange(epsilon=0.21)])
def test_other_uses_are_refused(guarantee):
    menu = Menu.for_promise([PureDP(epsilon=0.1), BoundedRange(epsilon=0.2)], epsilon=2.0, delta=1e-6)
    with pytest.raises(InvalidParameter, match="not on the menu"):
        menu.cost(Use(guarantee))


def test_a_menu_takes_bounded_losses_only():
    with pytest.raises(InvalidParameter, match="bounded losses"):
        Menu.for_promise([Gaussian(sigma=20.0)], epsilon=2.0, delta=1e-6)


def test_pure_dp_is_bounded_range_of_twice_its_epsilon():
    menu = Menu.for_promise([BoundedRange(epsilon=0.2)], epsilon=2.0, delta=1e-6)
    assert menu.cost(Use(PureDP(epsilon=0.1))) == menu.cost(Use(BoundedRange(epsilon=0.2)))
    with pytest.raises(InvalidParameter, match="not on the menu"):
        menu.cost(Use(PureDP(epsilon=0.15)))

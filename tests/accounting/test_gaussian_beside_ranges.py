"""Gaussian noise before bounded-range mechanisms, against analysts who were played out.

The Gaussian is merged into bins. Merging outcomes is a post-processing, so what the analyst reaches
is a lower bound on the optimum, and with many bins a close one.
"""

import numpy as np
import pytest
from scipy.special import ndtr

from setwise.accounting.compose import compose
from tests.accounting import adversary_search as search
from tests.sizes import crossed

EDGES = np.linspace(-12.0, 12.0, 601)


def between(edges):
    left, right = edges[:-1], edges[1:]
    return np.where(left > 0.0, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))


def merged_gaussian(sigma):
    p = between(EDGES)
    q = between(EDGES + 1.0 / sigma)  # under Q the loss, in the same units, is smaller by the distance of the two
    return search.fixed(np.log(p / q), p)


BESIDE = [(0.454, 3, 16.994), (0.3, 2, 2.0), (1.0, 2, 0.8), (0.1, 3, 30.0), (0.05, 2, 1.0), (2.0, 2, 50.0)]


@pytest.mark.parametrize(
    ("played", "share"),
    crossed([(*each, how) for each in BESIDE for how in ("setwise", "ordered")], [0.0, 0.2, 0.5, 0.75, 0.9]),
)
def test_upper_end_holds(played, share):
    epsilon, count, sigma, interaction = played
    total = share * (count * epsilon + 2.0 / sigma)
    uses = [f"gaussian:{sigma}", f"bounded-range:{epsilon}x{count}"]
    answer = compose(uses, interaction).delta(total)
    found = search.in_order([merged_gaussian(sigma)] + [search.bounded_range(epsilon)] * count, total)
    assert found <= answer.upper
    assert answer.lower <= found * 1.01


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.75, 0.9])
def test_upper_end_holds_with_the_gaussian_in_between(share):
    total = share * 1.3
    answer = compose(["bounded-range:0.6", "gaussian:10", "bounded-range:0.5"], "ordered").delta(total)
    order = [search.bounded_range(0.6), merged_gaussian(10.0), search.bounded_range(0.5)]
    found = search.in_order(order, total)
    assert found <= answer.upper
    assert answer.lower <= found * 1.01


@pytest.mark.parametrize("delta", [1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize(("epsilon", "count", "sigma"), [(0.454, 3, 16.994), (0.3, 2, 2.0), (1.0, 2, 0.8)])
def test_epsilon_and_delta_agree(epsilon, count, sigma, delta):
    whole = compose([f"gaussian:{sigma}", f"bounded-range:{epsilon}x{count}"])
    promised = whole.epsilon(delta)
    assert whole.delta(promised.upper).lower <= delta
    assert whole.delta(promised.lower).upper >= delta

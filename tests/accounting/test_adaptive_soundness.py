"""The bracket of the optimum against analysts who were played out."""

import functools

import numpy as np
import pytest

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import ApproxDP, BoundedRange, DiscreteLaplace, PureDP, Use
from setwise.errors import Unattainable
from tests.accounting import adversary_search as search
from tests.sizes import cases

COMMON = (0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.7, 1.0, 2.0, 4.0)
FAILURE = 1e-3


def discrete_laplace_of_two(scale):
    rate = 1.0 / scale
    keep = 1.0 / (1.0 + np.exp(-rate))
    masses = (keep, np.exp(-rate) * -np.expm1(-rate) * keep, keep * np.exp(-2 * rate))
    return search.fixed((2 * rate, 0.0, -2 * rate), masses)


def draw(rng, most_ranges, length):
    """Return random guarantees, the same as mechanisms to be played against, and the sum of their epsilons."""
    pool = rng.choice(COMMON, size=2) if rng.random() < 0.6 else rng.uniform(0.02, 3.0, size=2)
    guarantees, mechanisms, total, left = [], [], 0.0, most_ranges
    for _ in range(length):
        epsilon, kind = float(rng.choice(pool)), rng.random()
        if kind < 0.6 and left:
            left -= 1
            guarantees.append(BoundedRange(epsilon=epsilon))
            mechanisms.append(search.bounded_range(epsilon))
        elif kind < 0.9:
            guarantees.append(PureDP(epsilon=epsilon))
            mechanisms.append(search.pure(epsilon))
        else:
            guarantees.append(DiscreteLaplace(scale=2.0 / epsilon, sensitivity=2))
            mechanisms.append(discrete_laplace_of_two(2.0 / epsilon))
        total += epsilon
    return guarantees, mechanisms, total


def narrow(uses, interaction, total, width):
    """Return the bracket at the width asked for, or the best there is when it is refused."""
    whole = compose(uses, interaction)
    try:
        return whole.delta(total, width=width)
    except Unattainable:
        return whole.delta(total)


def inside(found, answer, short=search.SHORT):
    assert 0.0 <= answer.lower <= answer.upper <= 1.0
    assert found <= answer.upper * (1 + 1e-9)
    assert found >= answer.lower * (1 - short)


@pytest.mark.parametrize("seed", range(cases(120, one_in=12)))
def test_in_order(seed):
    rng = np.random.default_rng([1, seed])
    for _ in range(12):
        guarantees, mechanisms, sum_of_epsilons = draw(rng, int(rng.integers(1, 4)), int(rng.integers(2, 5)))
        total = float(rng.choice([0.0, rng.uniform(0.0, 0.7)])) * sum_of_epsilons
        found = search.in_order(mechanisms, total)
        inside(found, narrow(guarantees, "ordered", total, float(10 ** rng.uniform(-3.5, -2))))


@pytest.mark.parametrize("seed", range(cases(80, one_in=10)))
def test_in_any_order(seed):
    rng = np.random.default_rng([2, seed])
    for _ in range(10):
        length = int(rng.integers(2, 5))
        guarantees, mechanisms, sum_of_epsilons = draw(rng, 3 if length == 3 else 2, length)
        total = float(rng.choice([0.0, rng.uniform(0.0, 0.7)])) * sum_of_epsilons
        found = search.in_any_order(mechanisms, total)
        inside(found, narrow(guarantees, "setwise", total, float(10 ** rng.uniform(-3.5, -2))))


@pytest.mark.parametrize("seed", range(4))
def test_four_ranges_in_a_row(seed):
    rng = np.random.default_rng([3, seed])
    epsilons = rng.choice(COMMON, size=2)[rng.integers(0, 2, size=4)]
    total = float(rng.uniform(0.1, 0.6) * epsilons.sum())
    found = search.in_order([search.bounded_range(float(e)) for e in epsilons], total)
    inside(found, narrow([BoundedRange(epsilon=float(e)) for e in epsilons], "ordered", total, 1e-4), short=1e-4)


@pytest.mark.parametrize("seed", range(cases(8)))
def test_near_the_largest_loss_the_upper_end_still_holds(seed):
    rng = np.random.default_rng([4, seed])
    for _ in range(10):
        guarantees, mechanisms, sum_of_epsilons = draw(rng, 2, int(rng.integers(2, 5)))
        total = float(rng.uniform(0.7, 1.0)) * sum_of_epsilons
        inside(search.in_order(mechanisms, total), compose(guarantees, "ordered").delta(total), short=1.0)


@pytest.mark.parametrize("interaction", ["ordered", "setwise"])
def test_outright_failures_separate(interaction):
    rng = np.random.default_rng(5)
    play = search.in_order if interaction == "ordered" else search.in_any_order
    for _ in range(20):
        guarantees, mechanisms, sum_of_epsilons = draw(rng, 2, 3)
        total = float(rng.uniform(0.0, 0.7)) * sum_of_epsilons
        guarantees.insert(1, ApproxDP(epsilon=0.4, delta=FAILURE))
        mechanisms.insert(1, search.pure(0.4))
        found = FAILURE + (1 - FAILURE) * play(mechanisms, total)
        inside(found, narrow(guarantees, interaction, total, 1e-4))


@functools.cache
def _played(order, epsilon, total):
    kinds = {"D": search.pure(epsilon), "B": search.bounded_range(epsilon)}
    return search.in_order([kinds[kind] for kind in order], total)


@pytest.mark.parametrize("order", ["DBB", "BDB", "BBD"])
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.0, 2.5, 6.0])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.49, 0.5, 0.51, 0.8, 0.99, 1.0, 1.2, 1.49, 1.5, 1.7, 2.2])
def test_three_closed_forms_are_what_analysts_reach(order, epsilon, share):
    total = share * epsilon
    kinds = {"D": PureDP(epsilon=epsilon), "B": BoundedRange(epsilon=epsilon)}
    answer = compose([kinds[kind] for kind in order], "ordered").delta(total)
    found = _played(order, epsilon, total)
    assert answer.method == "three-closed-form"
    assert answer.width <= 1e-9 * answer.upper
    inside(found, answer, short=2e-4)


@pytest.mark.parametrize("count", [2, 5, 9])
def test_one_range_alone_among_equals_does_not_care_about_order(count):
    epsilon, total = 0.4, 0.3 * count * 0.4
    first = [search.bounded_range(epsilon)] + [search.pure(epsilon)] * (count - 1)
    uses = [Use(BoundedRange(epsilon=epsilon)), Use(PureDP(epsilon=epsilon), count - 1)]
    answers = [compose(uses, "ordered").delta(total), compose(uses[::-1], "ordered").delta(total)]
    assert answers[0].bracket == answers[1].bracket
    inside(search.in_order(first, total), answers[0])
    inside(search.in_order(first[::-1], total), answers[1])


@pytest.mark.parametrize("scale", [4.0, 40.0, 400.0])
@pytest.mark.parametrize("share", [0.2, 0.55, 0.8])
def test_little_noise_before_a_large_range(scale, share):
    """Most of what the analyst learns comes from the range, wherever the losses of the first mechanism lie."""
    total = share * 2.0
    found = search.in_order([discrete_laplace_of_two(scale), search.bounded_range(2.0)], total)
    inside(
        found, compose([DiscreteLaplace(scale=scale, sensitivity=2), BoundedRange(epsilon=2.0)], "ordered").delta(total)
    )

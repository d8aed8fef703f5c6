import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from setwise.accounting.brackets import Bracket
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange, PureDP, Use
from setwise.accounting.losses.lattice import NOTHING, two_point_atoms
from setwise.accounting.methods.closed_forms import BatchBoundedRange
from tests.accounting import exact_composition as exact
from tests.accounting.strategies import thousandths
from tests.sizes import crossed, examples

DELTAS = [1e-2, 1e-6, 1e-12, 1e-20, 1e-30]


def batch_of(count, pure_count, epsilon):
    uses = [Use(BoundedRange(epsilon=epsilon), count)] if count else []
    return compose(uses + ([Use(PureDP(epsilon=epsilon), pure_count)] if pure_count else []), "batch")


MIXTURES = [(1, 1, 40.0), (30, 0, 0.5), (25, 5, 0.6), (9, 30, 0.5), (1, 39, 0.4)]


@pytest.mark.parametrize(("mixture", "delta"), crossed(MIXTURES, DELTAS))
def test_mixture_against_a_full_scan(mixture, delta):
    count, pure_count, epsilon = mixture
    whole = batch_of(count, pure_count, epsilon)
    total = whole.epsilon(delta)
    truth = exact.batch(count, pure_count, epsilon, total.upper)
    answer = whole.delta(total.upper)
    assert total.width <= 1e-9 * total.upper
    assert answer.lower <= truth <= answer.upper
    assert truth <= delta
    if count * epsilon + pure_count * epsilon - total.upper > 1e-3:
        assert answer.width <= 1e-6 * truth
        assert truth >= delta * (1 - 1e-6)


@pytest.mark.parametrize(
    ("count", "pure_count", "epsilon", "total"),
    [(6, 0, 0.3, 0.4), (4, 3, 0.5, 0.7), (9, 2, 0.2, 0.0), (3, 1, 2.0, 1.1)],
)
def test_no_t_beats_the_optimum(count, pure_count, epsilon, total):
    ceiling = batch_of(count, pure_count, epsilon).delta(total).upper
    every = [exact.batch_at(t, count, pure_count, epsilon, total) for t in np.linspace(0.0, epsilon, 201)]
    assert max(every) <= ceiling
    assert max(every) >= ceiling * 0.999


def beside_ranges(count, epsilon, pure_count, other):
    beside = two_point_atoms(other, -other, pure_count, 1e-285) if pure_count else NOTHING
    return BatchBoundedRange(epsilon, count, beside, Bracket(0.0, 0.0))


@given(
    st.integers(1, 40),
    st.integers(0, 40),
    thousandths(0.02, 1.5),
    st.sampled_from([0.5, 1.0, 1.5]),
    st.floats(0.0, 0.9),
)
@settings(max_examples=examples(100))
def test_full_scan_agrees_with_the_fast_search(count, pure_count, epsilon, ratio, share):
    total = share * (count + ratio * pure_count) * epsilon
    fast = beside_ranges(count, epsilon, pure_count, ratio * epsilon)
    scanned = [fast.at(float(t), total) for t in np.append(fast.candidates(total), 0.0)]
    found = fast.delta(total)
    assert max(one.lower for one in scanned) <= found.upper
    assert max(one.upper for one in scanned) >= found.lower
    assert found.upper <= max(one.upper for one in scanned) * (1 + 2e-12)
    between = [fast.at(float(t), total) for t in np.linspace(0.0, epsilon, 33)]
    assert max(one.lower for one in between) <= found.upper


@given(st.integers(1, 20), thousandths(0.05, 1.0), thousandths(0.05, 1.0), st.integers(1, 10), st.floats(0.0, 0.8))
@settings(max_examples=examples(40))
def test_pure_of_another_epsilon_beside(count, epsilon, other, pure_count, share):
    """Whatever bound is chosen, no batch of equal generalized randomized responses may exceed it."""
    total = share * (count * epsilon + pure_count * other)
    answer = compose(
        [Use(BoundedRange(epsilon=epsilon), count), Use(PureDP(epsilon=other), pure_count)], "batch"
    ).delta(total)
    plain = beside_ranges(count, epsilon, pure_count, other)
    best = max(plain.at(float(t), total).lower for t in np.linspace(0.0, epsilon, 121))
    assert best <= answer.upper
    assert answer.lower <= best * 1.05


def _log_binomial(n, p, k):
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * np.log(p) + (n - k) * np.log1p(-p)


def _window(n, p):
    reach = 14 * math.sqrt(n * p * (1 - p)) + 20
    return np.arange(max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach)) + 1)


def large_batch_at(t, count, pure_count, epsilon, total):
    """The delta of a large batch at t in plain floats: good to about nine digits."""
    low = math.expm1(t) / math.expm1(epsilon)
    flip = 1.0 / (1.0 + math.exp(epsilon))
    i, j = _window(count, low), _window(pure_count, flip)
    p_i, p_j = np.exp(_log_binomial(count, low, i)), np.exp(_log_binomial(pure_count, flip, j))
    loss = t * count + epsilon * (pure_count - i[:, None] - 2.0 * j[None, :])
    return float(p_i @ np.maximum(0.0, -np.expm1(np.minimum(0.0, total - loss))) @ p_j)


@pytest.mark.parametrize(("epsilon", "total"), [(0.1, 120.0), (0.01, 2.0)])
def test_twenty_thousand(epsilon, total):
    answer = batch_of(10_000, 10_000, epsilon).delta(total)
    assert 0.0 < answer.lower <= answer.upper <= 1.0
    assert answer.width <= 1e-6 * answer.upper
    centre = epsilon / 2
    found = [large_batch_at(centre + s * epsilon, 10_000, 10_000, epsilon, total) for s in (-0.02, 0.0, 0.02)]
    assert max(found) <= answer.upper * (1 + 1e-7)
    assert max(found) >= answer.lower * 0.98


@pytest.mark.parametrize(
    "total", [0.0, 50.0, *(pytest.param(total, marks=pytest.mark.slow) for total in (700.0, 1999.0, 2000.0, 5000.0))]
)
def test_twenty_thousand_never_overflows(total):
    answer = batch_of(10_000, 10_000, 0.1).delta(total)
    assert 0.0 <= answer.lower <= answer.upper <= 1.0
    assert answer.width <= 1e-6 * answer.upper + 1e-100

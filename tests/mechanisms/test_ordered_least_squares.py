"""The projection is the least-squares solution, exactly, and the intervals come from the noise before it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from exact_laws import float_probabilities
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls
from significance import assert_frequencies

from setwise.accounting.guarantees import Gaussian, Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import KnownGaussian
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.two_phase import OrderedLeastSquares, non_increasing

RANDOMNESS = SystemRandomness()


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=12))
def test_it_solves_the_constrained_least_squares_problem(values):
    """x is non-increasing and non-negative exactly when it is a non-negative sum of prefixes: scipy's nnls."""
    size = len(values)
    prefixes = np.tril(np.ones((size, size))).T
    steps, distance = nnls(prefixes, np.array(values, dtype=float))
    solution = np.array(non_increasing(values), dtype=float)
    assert (np.diff(solution) <= 0).all()
    assert (solution >= 0).all()
    assert np.linalg.norm(solution - values) <= distance + 1e-8
    assert np.allclose(solution, prefixes @ steps, atol=1e-6)


@given(st.lists(st.integers(0, 10**18), max_size=30))
def test_a_sequence_in_order_is_left_alone(values):
    ordered = sorted(values, reverse=True)
    assert non_increasing(ordered) == ordered


def test_cost_and_order():
    mechanism = OrderedLeastSquares(order=("b", "a", "c"), contributions=2, per_item=3, sigma=Fraction(4))
    assert mechanism.noise == KnownGaussian(domain=(1, 2, 3), contributions=2, per_item=3, sigma=Fraction(4)).noise
    assert mechanism.guarantees() == (Use(Gaussian(sigma=4.0), 2),)
    release = mechanism.release(Histogram.of(["a", "b"], [500, 900]), RANDOMNESS)
    assert release.labels == ("b", "a", "c")
    counts = [item.count for item in release.items]
    assert counts == sorted(counts, reverse=True)
    assert counts == [
        math.floor(fit + Fraction(1, 2)) for fit in non_increasing([item.noisy for item in release.items])
    ]
    unrestricted = OrderedLeastSquares(order=("b", "a", "c"), contributions=None, sigma=Fraction(4))
    assert unrestricted.guarantees()[0].count == 3
    assert OrderedLeastSquares(order=(), contributions=None, sigma=Fraction(4)).guarantees() == ()
    with pytest.raises(InvalidParameter):
        OrderedLeastSquares(order=("a", "a"), contributions=None, sigma=Fraction(4))


def test_intervals_are_around_the_unprojected_noise_and_reach_the_fit():
    """Equal true counts: the projection pools them, yet every interval keeps its stated coverage."""
    order = tuple(range(2000))
    mechanism = OrderedLeastSquares(order=order, contributions=1, sigma=Fraction(5))
    release = mechanism.release(Histogram.of(order, [300] * 2000), RANDOMNESS)
    radius = mechanism.noise.radius(Fraction(9, 10))
    intervals = release.intervals(Fraction(9, 10))
    for item, interval in zip(release.items, intervals, strict=True):
        assert interval.lower == min(item.count, item.noisy - radius)
        assert interval.upper == max(item.count, item.noisy + radius)
    covered = sum(abs(item.noisy - 300) <= radius for item in release.items)
    assert sum(300 in interval for interval in intervals) >= covered
    law = float_probabilities(mechanism.noise)
    coverage = law[len(law) // 2 - radius : len(law) // 2 + radius + 1].sum()
    assert_frequencies([covered], [coverage], 2000)

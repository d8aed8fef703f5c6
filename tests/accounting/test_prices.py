"""Prices of a Gaussian wallet against high precision, against brute force, and by their laws."""

import math
import random

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr

from setwise.accounting import prices
from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    ConcentratedDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PureDP,
    TruncatedDiscreteGaussian,
    ZeroConcentratedDP,
)
from setwise.accounting.prices import (
    after_paying,
    bounded_range_price,
    gaussian_price,
    integer_gaussian_price,
    laplace_price,
    pure_price,
    wallet_before,
)
from tests.sizes import crossed

mp = mpmath.mp.clone()
mp.dps = 40


def gaussian_profile(v, x):
    """The profile of G_v at x in floats, for arrays."""
    mu = math.sqrt(v)
    return np.exp(log_ndtr(mu / 2 - x / mu)) - np.exp(x + log_ndtr(-mu / 2 - x / mu))


def exact_profile(v, x):
    if v == 0:
        return max(mp.mpf(0), 1 - mp.exp(x))
    mu = mp.sqrt(v)
    return mp.ncdf(mu / 2 - x / mu) - mp.exp(x) * mp.ncdf(-mu / 2 - x / mu)


def of_total_variation(total, v):
    return (2 * mp.sqrt(2) * mp.erfinv(total)) ** 2 - v


def exact_pure(epsilon, v):
    epsilon, v = mp.mpf(epsilon), mp.mpf(v)
    total = mp.tanh(epsilon / 2)
    if v:
        total += 2 * exact_profile(v, epsilon) / (1 + mp.exp(epsilon))
    return of_total_variation(total, v)


def exact_laplace(epsilon, v):
    epsilon, v = mp.mpf(epsilon), mp.mpf(v)
    if v == 0:
        return of_total_variation(1 - mp.exp(-epsilon / 2), v)
    at_ends = exact_profile(v, -epsilon) / 2 + exact_profile(v, epsilon) * mp.exp(-epsilon) / 2

    def between(y):
        weight = mp.exp(-epsilon / 2) / 4
        return weight * (exact_profile(v, y) * mp.exp(-y / 2) + exact_profile(v, -y) * mp.exp(y / 2))

    return of_total_variation(at_ends + mp.quad(between, [0, epsilon]), v)


def exact_bounded_range(epsilon, v):
    epsilon, v = mp.mpf(epsilon), mp.mpf(v)
    if v == 0:
        return mp.pi / 2 * epsilon**2 / 4
    a = epsilon / 2 / mp.sqrt(v)
    theta = a * mp.sqrt(mp.pi / 2) * mp.erf(a / mp.sqrt(2)) + mp.expm1(-(a**2) / 2)
    return v * (2 * theta + theta**2)


EPSILONS = (1e-3, 0.05, 0.1, 0.5, 1.0, 3.0, 8.0)
LEFT = (0.0, 1e-9, 1e-4, 0.01, 0.3, 2.0, 20.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    ("price", "exact", "slack"),
    [(pure_price, exact_pure, 1e-9), (bounded_range_price, exact_bounded_range, 4e-12)],
)
def test_prices_are_the_theorem_rounded_up(price, exact, slack, epsilon):
    for left in LEFT:
        true = exact(epsilon, left)
        assert true <= price(epsilon, left) <= true * (1 + slack), left


@pytest.mark.parametrize(("epsilon", "left"), [(0.05, 0.0), (0.1, 1e-4), (1.0, 0.3), (3.0, 2.0), (8.0, 0.01)])
def test_the_price_of_laplace_is_the_theorem_rounded_up(epsilon, left):
    true = exact_laplace(epsilon, left)
    assert true <= laplace_price(epsilon, left) <= true * (1 + 1e-9)


@pytest.mark.parametrize(
    ("ratio", "small", "one", "three", "laplace", "bounded"),
    [
        (0.25, 1.3470, 1.2955, 1.0235, 0.9393, 1.3476),
        (1.0, 1.1374, 1.0916, 0.8543, 0.8280, 1.1379),
        (8.0, 1.0199, 0.9800, 0.7735, 0.7668, 1.0203),
        (64.0, 1.0022, 0.9634, 0.7621, 0.7576, 1.0026),
    ],
)
def test_some_prices_as_multiples_of_epsilon_squared(ratio, small, one, three, laplace, bounded):
    """Prices over epsilon^2 with ratio times epsilon^2 left; bounded range in units of epsilon^2 / 4."""
    for epsilon, wanted in ((0.1, small), (1.0, one), (3.0, three)):
        assert pure_price(epsilon, ratio * epsilon**2) / epsilon**2 == pytest.approx(wanted, abs=6e-5)
    assert laplace_price(1.0, ratio) == pytest.approx(laplace, abs=6e-5)
    assert bounded_range_price(0.1, ratio * 0.0025) / 0.0025 == pytest.approx(bounded, abs=6e-5)


def worst_range_profile(epsilon, v, x):
    """The largest profile, over a fine grid of t, of a bounded-range use in front of G_v."""
    t = np.linspace(0.0, epsilon, 201)
    high = np.expm1(t - epsilon) / math.expm1(-epsilon)
    return (
        high * gaussian_profile(v, x[:, None] - t) + (1 - high) * gaussian_profile(v, x[:, None] + epsilon - t)
    ).max(axis=1)


def test_a_bounded_range_use_in_front_of_a_gaussian_is_below_its_price():
    """Theorem 10 by brute force; a share of the price less would not do in the limit of small epsilon."""
    chance = random.Random(3)
    for _ in range(60):
        epsilon = 10 ** chance.uniform(-1.3, 1.0)
        v = (epsilon / 2) ** 2 * 10 ** chance.uniform(-2.0, 2.0)
        price = bounded_range_price(epsilon, v)
        x = np.linspace(0.0, epsilon + 4 * math.sqrt(v + price), 200)
        found, bound = worst_range_profile(epsilon, v, x), gaussian_profile(v + price, x)
        seen = bound > 1e-9
        assert (found[seen] <= bound[seen] * (1 + 1e-12)).all(), (epsilon, v)
    x, v = np.zeros(1), 0.01
    assert worst_range_profile(0.1, v, x)[0] > gaussian_profile(v + 0.999 * bounded_range_price(0.1, v), x)[0]


def two_point_profile(epsilon, v, x):
    high = 1 / (1 + math.exp(-epsilon))
    return high * gaussian_profile(v, x - epsilon) + (1 - high) * gaussian_profile(v, x + epsilon)


@pytest.mark.parametrize(("epsilon", "v"), [(0.1, 0.001), (0.5, 0.5), (1.0, 0.1), (3.0, 4.0)])
def test_randomized_response_in_front_of_a_gaussian_is_below_its_price(epsilon, v):
    price = pure_price(epsilon, v)
    x = np.linspace(-2.0, epsilon + 4 * math.sqrt(v + price), 400)
    bound = gaussian_profile(v + price, x)
    assert (two_point_profile(epsilon, v, x) <= bound * (1 + 1e-12) + 1e-15).all()
    assert two_point_profile(epsilon, v, np.zeros(1)) == pytest.approx(gaussian_profile(v + price, np.zeros(1)))


def integer_profile(sigma, sensitivity, v, x, bound=None):
    """The profile of integer Gaussian noise, given that it does not fail, in front of G_v."""
    reach = bound if bound is not None else math.ceil(40 * sigma)
    z = np.arange(-reach + sensitivity, reach + 1) if bound is not None else np.arange(-reach, reach + 1)
    mass = np.exp(-0.5 * (z / sigma) ** 2)
    mass /= mass.sum()
    loss = -sensitivity * (2 * z - sensitivity) / (2 * sigma**2)
    return (mass * gaussian_profile(v, x[:, None] - loss)).sum(axis=1)


@pytest.mark.parametrize(
    ("sigma", "sensitivity", "v", "bound"),
    [(0.8, 1, 0.5, None), (1.0, 1, 0.05, None), (2.0, 1, 1e-3, None), (3.0, 2, 0.1, None), (2.0, 1, 0.3, 9)],
)
def test_integer_noise_in_front_of_a_gaussian_is_below_its_price(sigma, sensitivity, v, bound):
    use = (
        DiscreteGaussian(sigma=sigma, sensitivity=sensitivity)
        if bound is None
        else TruncatedDiscreteGaussian(sigma=sigma, bound=bound, sensitivity=sensitivity)
    )
    price = use.price(v)
    x = np.linspace(0.0, 5 * math.sqrt(v + price), 200)
    allowed = gaussian_profile(v + price, x)
    seen = allowed > 1e-10
    assert (integer_profile(sigma, sensitivity, v, x, bound)[seen] <= allowed[seen] * (1 + 1e-9)).all()


def test_integer_noise_costs_hardly_more_than_a_gaussian():
    assert integer_gaussian_price(10.0, 1, 0.0) * 100 == pytest.approx(1.00522, abs=1e-5)
    assert integer_gaussian_price(2.0, 1, 0.1) * 4 == pytest.approx(1.0, abs=1e-8)
    assert integer_gaussian_price(100.0, 1, 1e-6) * 1e4 == pytest.approx(1.0, abs=1e-12)
    assert integer_gaussian_price(10.0, 1, 0.1, missing=0.6) == math.inf
    cut = TruncatedDiscreteGaussian(sigma=20.0, bound=140).price(0.2)
    assert DiscreteGaussian(sigma=20.0).price(0.2) < cut < 1.01 / 400


KINDS = [
    PureDP(epsilon=0.3),
    BoundedRange(epsilon=0.5),
    Laplace(scale=3.0),
    Gaussian(sigma=4.0),
    ApproxDP(epsilon=0.2, delta=1e-9),
    DiscreteLaplace(scale=4.0, sensitivity=2),
    DiscreteGaussian(sigma=3.0),
    TruncatedDiscreteGaussian(sigma=4.0, bound=40),
]


@pytest.mark.parametrize("guarantee", KINDS, ids=lambda guarantee: guarantee.kind)
def test_a_price_falls_with_what_is_left_and_an_exact_one_more_slowly_than_that(guarantee):
    left = np.concatenate(([0.0], np.geomspace(1e-6, 10.0, 60)))
    found = np.array([guarantee.price(v) for v in left])
    assert (np.diff(found) <= 1e-11 * found[:-1]).all()
    if not isinstance(guarantee, DiscreteGaussian | TruncatedDiscreteGaussian):
        assert (np.diff(left + found) >= -1e-11 * found[:-1]).all()


def test_laplace_is_cheaper_than_its_class_and_classes_without_a_pair_have_no_price():
    assert Laplace(scale=2.0).price(0.1) < 0.9 * PureDP(epsilon=0.5).price(0.1)
    assert DiscreteLaplace(scale=2.0).price(0.1) == PureDP(epsilon=0.5000000000000001).price(0.1)
    assert ZeroConcentratedDP(rho=0.1).price(1.0) == ConcentratedDP(mu=0.005, tau=0.1).price(1.0) == math.inf
    assert ApproxDP(epsilon=0.0, delta=1e-9).price(0.0) == 0.0
    assert pure_price(400.0, 1.0) == math.inf


@pytest.mark.parametrize(("guarantee", "count"), crossed(KINDS, [1, 7, 500]), ids=str)
def test_what_is_left_was_paid_for_and_is_nearly_the_most(guarantee, count):
    needed = wallet_before(guarantee.price, count, 0.0)
    assert after_paying(guarantee.price, count, 0.999 * needed) is None
    for share in (1.0001, 1.5, 40.0):
        wallet = share * needed
        left = after_paying(guarantee.price, count, wallet)
        assert left is not None
        assert 0.0 <= left < wallet
        paid = left
        for _ in range(count):
            paid += guarantee.price(paid)
        assert paid <= wallet * (1 + 1e-13)
        assert _looped(guarantee, count, wallet) - left <= 0.05 * guarantee.price(0.0)


def _looped(guarantee, count, wallet):
    for _ in range(count):
        wallet = after_paying(guarantee.price, 1, wallet)
        if wallet is None:
            return -math.inf
    return wallet


@given(st.floats(1e-3, 2.0), st.floats(1e-6, 1e3), st.integers(1, 10**6))
def test_blocks_are_dearer_than_single_payments_by_less_than_a_use(epsilon, start, count):
    left = start * epsilon**2

    def price(v):
        return bounded_range_price(epsilon, v)

    whole = wallet_before(price, count, left)
    assert whole >= left + count * price(whole)
    assert whole <= left + count * price(left) * (1 + 1e-12)
    # ln(n) / 24 of a use is what the price's tail adds up to beyond the first ones
    assert whole <= left + count * 0.25 * epsilon**2 + 0.25 * epsilon**2 * (1.3 + math.log(count) / 6)


def test_gaussians_cost_the_same_whatever_is_left():
    assert gaussian_price(20.0) == pytest.approx(1 / 400, rel=1e-14)
    assert Gaussian(sigma=20.0).price(0.0) == Gaussian(sigma=20.0).price(5.0) >= 1 / 400
    wallet = 80 * gaussian_price(20.0) * (1 + 1e-9)
    assert after_paying(Gaussian(sigma=20.0).price, 80, wallet) is not None
    assert after_paying(Gaussian(sigma=20.0).price, 81, wallet) is None


def test_the_rule_integrates_polynomials_of_degree_31():
    for degree in (0, 7, 31):
        found = prices._integral(lambda x, n=degree: x**n, 1.0, 1.0)
        assert found == pytest.approx(1 / (degree + 1), rel=4e-16)

import math

import mpmath
import numpy as np
import pytest

from setwise.accounting import conversions as convert
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
from tests.accounting import exact_composition as exact
from tests.accounting import mechanism_enumeration as enumeration

EPSILONS = [1e-3, 0.1, 0.2499, 0.25, 0.7, 2.0, 6.0]
ORDERS = 1.0 + np.logspace(-3, 2.5, 60)
TINY = 1e-9


def response(epsilon, t):
    """Return P, Q of generalized randomized response: log likelihood ratios t and t - epsilon."""
    p = np.array([np.expm1(t - epsilon) / np.expm1(-epsilon), np.expm1(t) / np.expm1(epsilon)])
    return p, p * np.exp(-np.array([t, t - epsilon]))


def renyi(p, q, order):
    with np.errstate(divide="ignore"):
        logs = order * np.log(p) + (1 - order) * np.log(q)
    return np.logaddexp.reduce(logs) / (order - 1)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_to_zero_concentrated_covers_randomized_response(epsilon):
    rho = PureDP(epsilon=epsilon).zero_concentrated().rho
    p, q = response(2 * epsilon, epsilon)
    assert all(renyi(p, q, order) <= order * rho * (1 + TINY) + 4e-15 / (order - 1) for order in ORDERS)
    assert rho == pytest.approx(epsilon * math.tanh(epsilon / 2), rel=1e-12)
    assert renyi(p, q, 1 + 1e-6) >= 0.99999 * rho  # no smaller constant will do


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.2499, 0.25, 1.0, 3.0, 8.0])
def test_laplace_to_zero_concentrated_is_exact(epsilon):
    scale = 1 / epsilon
    rho = Laplace(scale=scale).zero_concentrated().rho
    e = 1 / mpmath.mpf(scale)
    with mpmath.workdps(40):
        mean = e + mpmath.expm1(-e)
        assert mean <= rho <= mean * (1 + mpmath.mpf("1e-14"))
        for order in (1 + mpmath.mpf(2) ** -30, 1.5, 2, 10, 300):
            a = mpmath.mpf(order)
            moment = a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e)
            assert mpmath.log(moment) / (a - 1) <= a * rho


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bounded_range_to_zero_concentrated_covers_every_t(epsilon):
    converted = BoundedRange(epsilon=epsilon).zero_concentrated()
    assert converted.xi <= 0.0
    assert converted.rho == pytest.approx(epsilon**2 / 8, rel=1e-12)
    for t in np.linspace(0.0, epsilon, 41)[1:-1]:
        p, q = response(epsilon, t)
        for order in ORDERS:
            # the logarithm of a sum near 1 is good to a few units of 1
            assert (
                renyi(p, q, order) <= converted.xi + order * converted.rho + 4e-15 / (order - 1) + TINY * converted.rho
            )


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mean_and_spread_of_bounded_range(epsilon):
    converted = BoundedRange(epsilon=epsilon).concentrated()
    means = []
    for t in np.linspace(0.0, epsilon, 2001)[1:-1]:
        p, _ = response(epsilon, t)
        means.append(t - epsilon * p[1])
    assert max(means) <= converted.mu * (1 + TINY)
    assert max(means) == pytest.approx(converted.mu, rel=1e-5)
    assert converted.tau == epsilon / 2


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mean_and_spread_of_pure(epsilon):
    converted = PureDP(epsilon=epsilon).concentrated()
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    mean = epsilon * (2 * keep - 1)
    assert mean * (1 - TINY) <= converted.mu <= mean * (1 + TINY)
    for rate in np.linspace(-20.0, 20.0, 81):
        centred = np.array([epsilon - mean, -epsilon - mean])
        height = np.logaddexp.reduce(rate * centred + np.log([keep, 1 - keep]))
        assert height <= rate**2 * converted.tau**2 / 2 + 1e-12


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 0.24999, 0.25001, 1.0, 10.0, 300.0])
def test_bounded_range_mean(epsilon):
    from mpmath import mp, mpf

    with mp.workdps(60):
        ratio = mpf(epsilon) / mp.expm1(mpf(epsilon))
        truth = ratio - 1 - mp.log(ratio)
    assert BoundedRange(epsilon=epsilon).mean_loss() == pytest.approx(float(truth), rel=1e-12, abs=0)


@pytest.mark.parametrize(("mu", "tau"), [(0.005, 0.1), (0.2, 0.1), (1e-9, 3.0), (0.0, 1.0)])
def test_concentrated_to_zero_concentrated(mu, tau):
    converted = ConcentratedDP(mu=mu, tau=tau).zero_concentrated()
    assert converted.rho >= tau**2 / 2
    assert converted.rho == pytest.approx(tau**2 / 2, rel=1e-12)
    assert converted.xi == pytest.approx(mu - tau**2 / 2, rel=1e-9, abs=1e-15)


def test_simple_implications():
    assert convert.bounded_range_to_pure(BoundedRange(epsilon=0.3)) == PureDP(epsilon=0.3)
    assert convert.pure_to_bounded_range(PureDP(epsilon=0.3)) == BoundedRange(epsilon=0.6)
    assert 0 <= Laplace(scale=3.0).pure().epsilon - 1 / 3 < 1e-15
    assert 0 <= DiscreteLaplace(scale=3.0, sensitivity=2).pure().epsilon - 2 / 3 < 1e-15
    concentrated = Gaussian(sigma=4.0).concentrated()
    assert (concentrated.mu, concentrated.tau) == (pytest.approx(1 / 32), pytest.approx(1 / 4))
    assert Gaussian(sigma=4.0).zero_concentrated().rho == pytest.approx(1 / 32, rel=1e-12)
    approximate = ApproxDP(epsilon=0.4, delta=1e-7).zero_concentrated()
    assert (approximate.rho, approximate.delta) == (pytest.approx(0.4 * math.tanh(0.2), rel=1e-12), 1e-7)


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize("sigma", [0.6, 1.0, 3.0])
def test_discrete_gaussian_is_zero_concentrated(sigma, sensitivity):
    rho = DiscreteGaussian(sigma=sigma, sensitivity=sensitivity).zero_concentrated().rho
    exponents = enumeration.gaussian_exponents(sigma, math.ceil(sensitivity * 25 * sigma) + 25)
    for order in (1.01, 1.5, 2.0, 3.7, 8.0):
        assert enumeration.renyi(exponents, sensitivity, order) <= order * rho * (1 + 1e-9)
    assert rho == pytest.approx(sensitivity**2 / (2 * sigma**2), rel=1e-12)


@pytest.mark.parametrize("sensitivity", [1, 2, 3])
@pytest.mark.parametrize(("sigma", "bound"), [(1.0, 3), (2.0, 7), (5.0, 9), (5.0, 30)])
def test_truncated_gaussian_is_approximately_zero_concentrated(sigma, bound, sensitivity):
    guarantee = TruncatedDiscreteGaussian(sigma=sigma, bound=bound, sensitivity=sensitivity)
    converted = guarantee.zero_concentrated()
    weights = enumeration.discrete_gaussian(sigma, bound)
    lost = math.fsum(weights[z] for z in range(bound - sensitivity + 1, bound + 1)) / math.fsum(weights.values())
    assert lost <= converted.delta <= lost * (1 + 1e-9)
    exponents = enumeration.gaussian_exponents(sigma, bound)
    for order in (1.001, 1.1, 2.0, 5.0, 20.0, 100.0):
        assert enumeration.renyi(exponents, sensitivity, order) <= order * converted.rho * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12, 1e-30])
@pytest.mark.parametrize("sigma", [0.5, 2.0, 40.0])
def test_gaussian_to_approx_is_exact(sigma, delta):
    found = convert.gaussian_to_approx(Gaussian(sigma=sigma), delta)
    assert found.delta == delta
    assert exact.gaussian(sigma, found.epsilon) <= delta
    if found.epsilon > 0.0:
        assert exact.gaussian(sigma, found.epsilon * (1 - 1e-6)) >= delta


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12, 1e-30])
@pytest.mark.parametrize(("rho", "xi"), [(1e-6, 0.0), (0.02, 0.0), (0.5, -0.3), (0.5, 0.4), (10.0, 0.0), (0.0, 0.3)])
def test_optimised_conversion(rho, xi, delta):
    guarantee = ZeroConcentratedDP(rho=rho, xi=xi)
    best = convert.zero_concentrated_to_approx(guarantee, delta)
    paper = convert.zero_concentrated_to_approx_by_paper(guarantee, delta)
    assert best.epsilon <= paper.epsilon * (1 + 1e-12)
    if rho:
        order = 1.0 + np.logspace(-6, 8, 400_001)
        terms = xi + order * rho + (-math.log(delta) - np.log(order)) / (order - 1) + np.log1p(-1 / order)
        assert best.epsilon == pytest.approx(max(0.0, float(terms.min())), rel=1e-6, abs=1e-9)
    else:
        assert best.epsilon == pytest.approx(xi + math.log1p(-delta), rel=1e-6)  # any event loses at most xi


@pytest.mark.parametrize("sigma", [0.7, 3.0, 25.0])
def test_optimised_conversion_covers_the_gaussian(sigma):
    promised = convert.zero_concentrated_to_approx(Gaussian(sigma=sigma).zero_concentrated(), 1e-6)
    assert exact.gaussian(sigma, promised.epsilon) <= 1e-6


def test_failures_add_to_delta():
    found = convert.zero_concentrated_to_approx(ZeroConcentratedDP(rho=0.1, delta=1e-7), 1e-6)
    assert 1.1e-6 <= found.delta <= 1.1e-6 * (1 + 1e-12)

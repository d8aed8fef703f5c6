import dp_accounting as dpa
import mpmath
import numpy as np
import pytest

from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PureDP,
    Use,
    ZeroConcentratedDP,
)
from setwise.adapters import renyi_curve, renyi_divergence
from setwise.errors import InvalidParameter

ORDERS = (1.01, 1.5, 2.0, 8.0, 64.0, 1000.0)
EPSILONS = (1e-6, 0.003, 0.1, 0.7, 3.0, 20.0)


def two_outcomes(order, q, high, low):
    """The Rényi divergence from (1 - q, q) to outcomes with losses `low` and `high`."""
    moment = q * mpmath.exp(order * high) + (1 - q) * mpmath.exp(order * low)
    return mpmath.log(moment) / (order - 1)


@pytest.fixture(autouse=True)
def precise():
    with mpmath.workdps(60):
        yield


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_dp_is_as_bad_as_randomized_response(order, epsilon):
    a, e = mpmath.mpf(order), mpmath.mpf(epsilon)
    exact = two_outcomes(a, 1 / (1 + mpmath.exp(e)), e, -e)
    assert exact <= renyi_divergence(PureDP(epsilon=epsilon), order) <= exact * 1.02


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bounded_range_is_as_bad_as_its_worst_pair(order, epsilon):
    a, e = mpmath.mpf(order), mpmath.mpf(epsilon)

    def pair(t):
        return two_outcomes(a, (1 - mpmath.exp(t - e)) / (mpmath.exp(t) - mpmath.exp(t - e)), t, t - e)

    found = renyi_divergence(BoundedRange(epsilon=epsilon), order)
    on_a_grid = max(pair(e * i / 400) for i in range(401))
    assert on_a_grid <= found <= on_a_grid * 1.02


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0, 1e5])
def test_laplace_noise_has_its_own_curve(order, scale):
    a, b = mpmath.mpf(order), mpmath.mpf(scale)
    e = 1 / b
    exact = mpmath.log(a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e)) / (a - 1)
    assert exact <= renyi_divergence(Laplace(scale=scale), order) <= exact * 1.02


@pytest.mark.parametrize("order", ORDERS)
def test_other_kinds_follow_from_their_zcdp(order):
    assert renyi_divergence(ZeroConcentratedDP(rho=0.02, xi=0.01), order) == 0.01 + order * 0.02
    assert renyi_divergence(Gaussian(sigma=5.0), order) == pytest.approx(order / 50)
    assert renyi_divergence(DiscreteLaplace(scale=5.0), order) >= renyi_divergence(PureDP(epsilon=0.2), order)


def test_a_curve_agrees_with_dp_accounting():
    uses = [Use(Gaussian(sigma=5.0), 3), Use(Laplace(scale=4.0), 2)]
    accountant = dpa.rdp.RdpAccountant(ORDERS)
    accountant.compose(dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(5.0), 3))
    accountant.compose(dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(4.0), 2))
    np.testing.assert_allclose(renyi_curve(uses, ORDERS), accountant._rdp, rtol=1e-9)


def test_a_use_that_may_fail_is_refused_with_its_probability():
    with pytest.raises(InvalidParameter, match="1e-09"):
        renyi_curve([Use(ApproxDP(epsilon=0.1, delta=1e-9))], [2.0])


@pytest.mark.parametrize("order", [1.0, 0.5, float("nan"), float("inf")])
def test_an_order_must_be_above_one(order):
    with pytest.raises(InvalidParameter, match="order"):
        renyi_divergence(PureDP(epsilon=0.1), order)

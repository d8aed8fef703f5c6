import math

import numpy as np
import pytest

from setwise.accounting.compose import compose
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
    Use,
    ZeroConcentratedDP,
)
from setwise.adapters import replace_one, replaced
from setwise.errors import InvalidParameter


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (PureDP(epsilon=0.1), PureDP(epsilon=0.2)),
        (BoundedRange(epsilon=0.1), BoundedRange(epsilon=0.2)),
        (Laplace(scale=10), Laplace(scale=5)),
        (Gaussian(sigma=10), Gaussian(sigma=5)),
        (DiscreteLaplace(scale=10, sensitivity=3), DiscreteLaplace(scale=10, sensitivity=6)),
        (DiscreteGaussian(sigma=10), DiscreteGaussian(sigma=10, sensitivity=2)),
        (TruncatedDiscreteGaussian(sigma=10, bound=60), TruncatedDiscreteGaussian(sigma=10, bound=60, sensitivity=2)),
        (ZeroConcentratedDP(rho=0.1), ZeroConcentratedDP(rho=0.4)),
        (ZeroConcentratedDP(rho=0.1, xi=0.01), ZeroConcentratedDP(rho=0.4, xi=0.03)),
        (ZeroConcentratedDP(rho=0.1, xi=-0.01), ZeroConcentratedDP(rho=0.4, xi=-0.02)),
    ],
)
def test_each_kind_pays_for_two_steps(one, two):
    assert replaced(one) == two


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def renyi(p, q, order):
    return math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.01), (1.0, 0.1), (0.0, 0.05)])
def test_the_step_for_approximate_dp_is_reached(epsilon, delta):
    """Two coins that are each (epsilon, delta)-close to a third in between, and as far apart as promised."""
    heads = [0.01]
    for _ in range(2):
        heads.append(math.exp(epsilon) * heads[-1] + delta)
    q, r, p = (np.array([each, 1 - each]) for each in heads)
    for a, b in ((p, r), (r, p), (r, q), (q, r)):
        assert hockey_stick(a, b, epsilon) <= delta + 1e-15
    two = replaced(ApproxDP(epsilon=epsilon, delta=delta))
    assert two.delta * (1 - 1e-12) <= hockey_stick(p, q, two.epsilon) <= two.delta


def test_the_step_for_zcdp_holds_on_random_chains():
    rng = np.random.default_rng(7)
    orders = (1.001, 1.5, 2.0, 5.0, 20.0)
    checked = [1.001, 1.01, 1.1, 1.5, 2, 3, 5, 10, 19, 20, 40, 100]
    for _ in range(300):
        p, r, q = (rng.dirichlet(np.ones(3) * 5) for _ in range(3))
        for xi in (-0.01, 0.0, 0.02):
            rho = max(
                max(renyi(a, b, order) - xi, 1e-9) / order
                for a, b in ((p, r), (r, p), (r, q), (q, r))
                for order in checked + [2 * each - 1 for each in orders] + [2 * each for each in orders]
            )
            if xi < -rho:
                continue
            two = replaced(ZeroConcentratedDP(rho=rho, xi=xi))
            for order in orders:
                assert renyi(p, q, order) <= two.xi + order * two.rho + 1e-12


def test_a_kind_without_a_rule_of_its_own_goes_by_its_zcdp():
    guarantee = replaced(ConcentratedDP(mu=0.005, tau=0.1))
    assert isinstance(guarantee, ZeroConcentratedDP)
    assert guarantee.rho == pytest.approx(0.02)


def test_zcdp_that_may_fail_is_refused():
    with pytest.raises(InvalidParameter, match="failure"):
        replaced(ZeroConcentratedDP(rho=0.1, delta=1e-9))


def test_a_set_costs_more_under_replacement():
    uses = [Use(BoundedRange(epsilon=0.05), 5), Use(Gaussian(sigma=30), 2)]
    assert compose(replace_one(uses)).epsilon(1e-6).lower > 1.5 * compose(uses).epsilon(1e-6).upper

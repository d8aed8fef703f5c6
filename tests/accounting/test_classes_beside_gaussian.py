"""Classes beside Gaussian noise: every known member of the class stays below the bound, which beats sums of zCDP."""

import math

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from setwise.accounting.brackets import Bracket
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import ConcentratedDP, Gaussian, ZeroConcentratedDP
from setwise.accounting.methods.moments import ClassesBesideGaussian, zero_concentrated_sum
from setwise.accounting.notation import as_uses

NEVER = Bracket(0.0, 0.0)


def members(rho):
    """Mechanisms that are rho-zCDP and no less: Gaussian, randomized response and Laplace noise."""
    pure = brentq(lambda e: e * math.tanh(e / 2) - rho, 1e-6, 100)
    laplace = brentq(lambda e: e + math.expm1(-e) - rho, 1e-6, 100)
    return [f"gaussian:{1 / math.sqrt(2 * rho)}", f"pure:{pure * (1 - 1e-9)}", f"laplace:{1 / laplace * (1 + 1e-9)}"]


@pytest.mark.parametrize("rho", [1e-3, 0.05, 1.0])
@pytest.mark.parametrize("sigma", [0.8, 2.0, 10.0])
def test_members_of_the_class_stay_below(rho, sigma):
    bound = ClassesBesideGaussian(0.0, rho, sigma, NEVER)
    for member in members(rho):
        exact = compose([member, f"gaussian:{sigma}"])
        for x in (0.0, 0.1, 0.5, 1.0, 3.0):
            assert exact.delta(x).lower <= bound.delta(x).upper


@pytest.mark.parametrize("sigma", [0.8, 2.0, 10.0])
def test_next_to_no_class_leaves_the_gaussian(sigma):
    """The cells and their charges cost little: a class of hardly any loss is read off at every loss of the Gaussian."""
    bound = ClassesBesideGaussian(0.0, 1e-12, sigma, NEVER)
    for x in (0.1, 0.5 / sigma, 3.0 / sigma):
        exact = compose([f"gaussian:{sigma}"]).delta(x)
        assert exact.lower <= bound.delta(x).upper <= 1.02 * exact.upper


def test_mass_beyond_the_cells_counts_as_revealed():
    far = ClassesBesideGaussian(0.0, 1e-3, 1.0, NEVER).delta(60.0).upper
    assert ndtr(-12.0) <= far <= 2 * ndtr(-12.0)


@pytest.mark.parametrize(
    ("uses", "width"),
    [
        (["zcdp:0.001x50", "gaussian:20x100"], 0.045),
        (["zcdp:0.001x10", "gaussian:20x100"], 0.025),
        (["cdp:0.005,0.1x5", "gaussian:20x20"], 0.06),
        (["zcdp:0.02", "gaussian:10x3", "bounded-range:0.1x5"], 0.07),
    ],
)
def test_it_is_narrower_than_sums_of_zcdp(uses, width):
    found = compose(uses).epsilon(1e-6)
    assert found.method == "zcdp-beside-gaussian"
    assert found.width <= width * found.upper
    assert zero_concentrated_sum(as_uses(uses)).delta(found.upper).upper > 1e-6


def test_the_class_has_no_dominating_pair():
    """Randomized response of the same rho has the larger profile at 0, the Gaussian far out."""
    gaussian, pure, _ = (compose([member]) for member in members(0.05))
    assert pure.delta(0.0).lower > gaussian.delta(0.0).upper
    assert pure.delta(1.0).upper < gaussian.delta(1.0).lower


@pytest.mark.parametrize(
    ("guarantee", "sigma"),
    [
        (ConcentratedDP(mu=0.005, tau=0.1), 10.0),  # tau^2 / 2 is a float above 0.005
        (ConcentratedDP(mu=0.5, tau=0.1), 10.0),
        (ConcentratedDP(mu=0.005, tau=3.0), 10.0),
        (ZeroConcentratedDP(rho=0.02, xi=-0.015), 10.0),
        (ZeroConcentratedDP(rho=0.005, xi=0.3), 10.0),
    ],
)
def test_known_examples_are_in_their_class_and_large(guarantee, sigma):
    example = guarantee.worst_known_example()
    assert isinstance(example, Gaussian)
    assert example.sigma == pytest.approx(sigma, rel=1e-12)
    assert example.sigma > 0
    rho = 1 / (2 * example.sigma**2)
    parameters = guarantee.zero_concentrated()
    for order in (1.0, 1.5, 10.0, 1e6):
        assert order * rho <= (parameters.xi + order * parameters.rho) * (1 + 1e-12)

"""The truncation level is certified and smallest; its lattice argument holds on a wide grid."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from setwise.errors import Unattainable
from setwise.mechanisms.noise import truncated_gaussian
from setwise.mechanisms.noise.truncated_gaussian import continuous_truncation_level, truncation_level


@pytest.mark.parametrize(
    ("sigma", "tau", "contributions", "delta", "level"),
    [
        ("1", 1, 10, "1e-9", 7),
        ("10", 1, 100, "1e-10", 70),
        ("10", 5, 100, "1e-10", 352),
        ("200", 1, 1000, "1e-10", 1378),
    ],
)
def test_reference_levels(sigma, tau, contributions, delta, level):
    assert truncation_level(contributions, tau, Fraction(sigma), Fraction(delta)) == level


@pytest.mark.parametrize(
    ("contributions", "tau", "sigma", "delta", "level"),
    [(1, 1, 10, 1e-6, 46.5486490824478), (10, 1, 20, 1e-8, 116.472378194653), (50, 2, 5, 1e-10, 70.982943980865)],
)
def test_the_papers_continuous_equation(contributions, tau, sigma, delta, level):
    assert continuous_truncation_level(contributions, tau, sigma, delta) == pytest.approx(level, abs=1e-6)


def lost(level, tau, sigma):
    deviation = mpmath.mpf(sigma.numerator) / sigma.denominator * tau
    weights = [mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * deviation**2)) for z in range(level + 1)]
    return mpmath.fsum(weights[level - tau + 1 :]) / (2 * mpmath.fsum(weights) - 1)


@pytest.mark.parametrize("sigma", ["0.05", "0.3", "1", "2.5", "17", "100"])
@pytest.mark.parametrize("tau", [1, 2, 5])
@pytest.mark.parametrize(("contributions", "delta"), [(1, "1e-6"), (7, "1e-12"), (1000, "1e-9"), (1, "0.2")])
def test_the_level_holds_and_one_less_does_not(sigma, tau, contributions, delta):
    with mpmath.workdps(50):
        share = mpmath.mpf(delta) / contributions
        level = truncation_level(contributions, tau, Fraction(sigma), Fraction(delta))
        assert level >= tau
        assert lost(level, tau, Fraction(sigma)) <= share * (1 + mpmath.mpf(10) ** -30)
        assert level == tau or lost(level - 1, tau, Fraction(sigma)) > share
    assert level <= max(
        tau, math.ceil(continuous_truncation_level(contributions, tau, float(Fraction(sigma)), float(delta)))
    )


def test_wide_noise_takes_the_continuous_level_rounded_up():
    level = truncation_level(100, 1, Fraction(10**5), Fraction("1e-10"))
    exact = continuous_truncation_level(100, 1.0, 1e5, 1e-10)
    assert exact <= level <= exact + 2


def test_targets_out_of_range_are_refused():
    with pytest.raises(Unattainable):
        truncation_level(10**9, 1, Fraction(1), Fraction(1, 10**60))


SIGMAS = [0.05, 0.2, 0.35, 0.5, 0.8, 1.0, 1.7, 3.0, 8.0, 25.0]
ORDERS = [1.0001, 1.01, 1.1, 1.25, 1.5, 1.9, 2.0, 2.5, 3.0, 3.7, 5.5, 8.0, 13.3, 32.0, 100.5, 1000.25]


def window_ratio(level, tau, deviation, order):
    """ln of sum over the overlap of g(z + (order-1) tau) over the sum of g(z): what must not be positive."""
    z = np.arange(tau - level, level + 1, dtype=np.float64)
    moved = -((z + (order - 1) * tau) ** 2) / (2 * deviation**2)
    still = -(z**2) / (2 * deviation**2)
    return np.logaddexp.reduce(moved) - np.logaddexp.reduce(still)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_lattice_argument_on_a_wide_grid(sigma):
    """The Renyi divergence on the overlap is at most order/(2 sigma^2) for every real order, at every level."""
    worst = -math.inf
    for tau in (1, 2, 3, 5, 8, 13):
        deviation = tau * sigma
        levels = sorted({*range(tau, tau + 12), *(tau + int(step * deviation) for step in (1, 2, 3, 5, 7))})
        for level in levels:
            for order in ORDERS:
                worst = max(worst, window_ratio(level, tau, deviation, order))
    assert worst <= 1e-9


@pytest.mark.parametrize(("sigma", "tau", "level", "order"), [(2, 1, 4, 1.5), (0.5, 2, 3, 2.7), (3.0, 5, 22, 8.0)])
def test_the_window_ratio_is_the_divergence(sigma, tau, level, order):
    """The identity the argument rests on, checked from the definition of the Renyi divergence, both ways round."""
    deviation = tau * sigma
    overlap = np.arange(tau - level, level + 1, dtype=np.float64)
    first = np.exp(-(overlap**2) / (2 * deviation**2))
    second = np.exp(-((overlap - tau) ** 2) / (2 * deviation**2))
    first, second = first / first.sum(), second / second.sum()
    for one, other in ((first, second), (second, first)):
        divergence = np.log(np.sum(one**order * other ** (1 - order))) / (order - 1)
        ratio = window_ratio(level, tau, deviation, order)
        assert divergence == pytest.approx(order / (2 * sigma**2) + ratio / (order - 1), rel=1e-9)


@pytest.mark.parametrize("tau", [1, 2, 5, 20])
@pytest.mark.parametrize("sigma", ["0.7", "1", "3.3", "10", "119.7"])
@pytest.mark.parametrize(("contributions", "delta"), [(1, "1e-3"), (3, "1e-6"), (100, "1e-9"), (1000, "1e-15")])
def test_floats_find_the_level_that_exact_arithmetic_finds(tau, sigma, contributions, delta, monkeypatch):
    parameters = contributions, tau, Fraction(sigma), Fraction(delta)
    quick = truncated_gaussian.truncation_level.__wrapped__(*parameters)
    monkeypatch.setattr(truncated_gaussian, "_level_by_floats", lambda *_: None)
    assert truncated_gaussian.truncation_level.__wrapped__(*parameters) == quick


def test_floats_do_not_decide_a_level_within_their_error():
    """If delta equals the failure of a level up to the error of floats, exact arithmetic decides."""
    sigma, level = Fraction(10), 50
    share = Fraction(str(lost(level, 1, sigma)))
    assert truncated_gaussian._level_by_floats(1, 10.0, float(share), level + 20) is None
    assert truncated_gaussian._level_by_floats(1, 10.0, float(share) * (1 + 1e-6), level + 20) == level
    assert truncated_gaussian._level_by_floats(1, 10.0, float(share) * (1 - 1e-6), level + 20) == level + 1

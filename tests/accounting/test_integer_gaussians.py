"""Many integer Gaussians with different noise: one Gaussian above, one below, and the truth between."""

import time
from dataclasses import replace

import mpmath
import pytest

from setwise.accounting import bounds
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import DiscreteGaussian
from setwise.accounting.methods.integer_gaussians import gaussians_below


def delta_of_integer_gaussian(sigma, sensitivity, x):
    with mpmath.workdps(30):
        reach = int(12 * sigma) + sensitivity
        weights = {z: mpmath.exp(-mpmath.mpf(z * z) / (2 * mpmath.mpf(sigma) ** 2)) for z in range(-reach, reach + 1)}
        total = mpmath.fsum(weights.values())
        terms = (weights[z] - mpmath.exp(x) * weights[z - sensitivity] for z in weights if z - sensitivity in weights)
        return mpmath.fsum(max(term, 0) for term in terms) / total


def delta_of_gaussian(sigma, x):
    with mpmath.workdps(30):
        s, x = mpmath.mpf(sigma), mpmath.mpf(x)
        return mpmath.ncdf(1 / (2 * s) - x * s) - mpmath.exp(x) * mpmath.ncdf(-1 / (2 * s) - x * s)


@pytest.mark.parametrize(("sigma", "sensitivity"), [(1.7, 1), (2.5, 1), (4.0, 2), (10.0, 3)])
@pytest.mark.parametrize("x", [0.0, 0.1, 0.3, 0.7, 1.1, 2.0])
def test_one_integer_gaussian_is_above_its_gaussian(sigma, sensitivity, x):
    below = gaussians_below([(DiscreteGaussian(sigma=sigma, sensitivity=sensitivity), 1)])
    ((gaussian, _),) = below.gaussians
    least = mpmath.exp(-below.ripple) * delta_of_gaussian(gaussian.sigma, x + below.ripple)
    assert delta_of_integer_gaussian(sigma, sensitivity, x) >= least


def test_noise_that_is_too_small_is_left_out():
    assert gaussians_below([(DiscreteGaussian(sigma=0.5), 3)]).gaussians == ()


MANY = [f"discrete-gaussian:{6 + 0.7 * i:.4g}" for i in range(20)]


@pytest.mark.parametrize("others", [[], ["pure:0.1x5"], ["bounded-range:0.1x5"], ["approx:0.1,1e-11x3"]])
@pytest.mark.parametrize("delta", [1e-9])
def test_the_bracket_overlaps_that_of_tabulated_noise(monkeypatch, others, delta):
    merged = compose([*MANY, *others]).epsilon(delta)
    assert merged.method == "gaussian-majorant"
    monkeypatch.setattr(bounds, "CONFIG", replace(bounds.CONFIG, most_integer_gaussians=100))
    tabulated = compose([*MANY, *others]).epsilon(delta)
    assert tabulated.method != "gaussian-majorant" or others == ["bounded-range:0.1x5"]
    assert merged.lower <= tabulated.upper
    assert tabulated.lower <= merged.upper
    assert merged.width <= 0.02 * merged.upper


@pytest.mark.parametrize("interaction", ["setwise", pytest.param("adaptive", marks=pytest.mark.slow)])
def test_a_year_of_different_noise_takes_no_minute(interaction):
    started = time.process_time()
    answer = compose([f"discrete-gaussian:{20 + 0.1 * i:.6g}" for i in range(365)], interaction).epsilon(1e-6)
    assert answer.width <= 1e-3 * answer.upper
    assert time.process_time() - started < 20  # about two seconds on a free machine, and 25 to 60 before

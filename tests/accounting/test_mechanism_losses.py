"""Mechanisms with known noise, against their definition."""

import itertools
import math

import numpy as np
import pytest

from setwise.accounting.adaptive.operator import specification
from setwise.accounting.brackets import Bracket
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import (
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PureDP,
    TruncatedDiscreteGaussian,
    Use,
)
from setwise.accounting.losses.pld import LatticeSum
from tests.accounting import mechanism_enumeration as enumeration


def close(answer, truth, relative):
    assert answer.lower <= truth * (1 + 1e-12)
    assert answer.upper >= truth * (1 - 1e-12)
    assert answer.upper - answer.lower <= relative * truth


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_laplace_once(scale, share):
    total = share / scale
    truth = -math.expm1((total - 1.0 / scale) / 2)
    close(compose([Laplace(scale=scale)]).delta(total), truth, 2e-4)


def test_laplace_promises_nothing_beyond_its_scale():
    assert compose([Laplace(scale=2.0)]).delta(0.6).upper <= 1e-12


@pytest.mark.parametrize("sensitivity", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", [1.0, 2.5, 6.0])
@pytest.mark.parametrize("total", [0.0, 0.2, 0.7])
def test_discrete_laplace(scale, sensitivity, total):
    weights = enumeration.discrete_laplace(scale, 300)
    truth = enumeration.delta(weights, sensitivity, total)
    answer = compose([DiscreteLaplace(scale=scale, sensitivity=sensitivity)]).delta(total)
    if truth > 1e-9:
        close(answer, truth, 1e-8)
    else:
        assert answer.upper < 1e-9


def test_discrete_laplace_twice():
    weights = enumeration.discrete_laplace(1.5, 60)
    truth = enumeration.delta(weights, 2, 1.0, uses=2)
    close(compose([Use(DiscreteLaplace(scale=1.5, sensitivity=2), 2)]).delta(1.0), truth, 1e-8)


@pytest.mark.parametrize("total", [0.1, 0.5, 0.9])
def test_integer_laplace_noise_of_several_scales_is_summed_to_round_off(total):
    """Their losses have no common unit, so that a lattice would be off."""
    parts = [(2.5, 2), (2.5, 2), (7.3, 3), (11.9, 1)]
    releases = [enumeration.outcomes(enumeration.discrete_laplace(scale, 700), moved) for scale, moved in parts]
    truth = enumeration.delta_together(map(enumeration.likely, releases), total)
    answer = compose([DiscreteLaplace(scale=scale, sensitivity=moved) for scale, moved in parts]).delta(total)
    assert answer.method == "exact"
    close(answer, truth, 1e-8)


@pytest.mark.parametrize("total", [0.0, 0.3, 1.0, 1.45])
def test_one_pick_after_noise_is_its_definition_averaged_over_the_losses(total):
    """The pick's mechanism is chosen after the noise was seen: the worst t for what is left, by trying many."""
    epsilon, parts = 0.7, [(2.5, 1), (11.9, 4)]
    losses = [
        enumeration.likely(enumeration.outcomes(enumeration.discrete_laplace(scale, 700), moved))
        for scale, moved in parts
    ]
    truth = math.fsum(
        math.prod(p for p, _ in pick)
        * specification(
            lambda x: np.maximum(0.0, -np.expm1(x)), epsilon, total - math.fsum(math.log(p / q) for p, q in pick)
        )
        for pick in itertools.product(*losses)
        if all(p > 1e-200 < q for p, q in pick)
    )
    uses = [DiscreteLaplace(scale=scale, sensitivity=moved) for scale, moved in parts]
    answer = compose([*uses, BoundedRange(epsilon=epsilon)]).delta(total)
    assert answer.method == "exact"
    assert truth * (1 - 1e-12) <= answer.upper <= truth * (1 + 1e-6)


def test_discrete_laplace_of_one_is_randomized_response():
    laplace = compose([Use(DiscreteLaplace(scale=2.0), 5)]).delta(0.7)
    assert laplace.bracket.overlaps(compose([Use(PureDP(epsilon=0.5), 5)]).delta(0.7).bracket)


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize("sigma", [0.7, 1.5, 4.0])
@pytest.mark.parametrize("total", [0.0, 0.3, 1.0])
def test_discrete_gaussian(sigma, sensitivity, total):
    weights = enumeration.discrete_gaussian(sigma, 120)
    truth = enumeration.delta(weights, sensitivity, total)
    close(compose([DiscreteGaussian(sigma=sigma, sensitivity=sensitivity)]).delta(total), truth, 1e-5)


def test_integer_gaussians_are_tabulated_on_their_own_lattice():
    """Their losses fall on it: a finer one takes longer and says the same."""
    uses = ((DiscreteGaussian(sigma=19.0), 20),)
    tabulated = LatticeSum(uses, Bracket(0.0, 0.0))
    assert tabulated.step() == pytest.approx(0.5 / 19.0**2, rel=1e-12)
    found, finer = (LatticeSum(uses, Bracket(0.0, 0.0), tolerance).epsilon(1e-6) for tolerance in (4e-8, 1e-12))
    assert finer.lower <= found.upper <= finer.upper * (1 + 1e-8)


def test_integer_gaussians_beside_continuous_ones_are_on_a_lattice_that_is_fine_enough_for_these():
    uses = ((TruncatedDiscreteGaussian(sigma=26.57, bound=146), 10), (Gaussian(sigma=4.9), 1))
    tabulated, finer = (LatticeSum(uses, Bracket(0.0, 0.0), tolerance) for tolerance in (4e-8, 1e-10))
    assert finer.step() < tabulated.step() < 0.5 / 26.57**2
    found, closer = tabulated.epsilon(1e-6), finer.epsilon(1e-6)
    assert closer.lower <= found.upper <= closer.upper * (1 + 1e-6)
    assert found.relative_width < 1e-6


def test_discrete_gaussian_twice():
    weights = enumeration.discrete_gaussian(2.0, 30)
    truth = enumeration.delta(weights, 1, 0.8, uses=2)
    close(compose([Use(DiscreteGaussian(sigma=2.0), 2)]).delta(0.8), truth, 1e-5)


@pytest.mark.parametrize("sensitivity", [1, 2, 3])
@pytest.mark.parametrize(("sigma", "bound"), [(1.0, 3), (2.0, 5), (2.0, 12), (10.0, 40), (0.8, 8)])
@pytest.mark.parametrize("total", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("uses", [1, 2])
def test_truncated_discrete_gaussian(sigma, bound, sensitivity, total, uses):
    weights = enumeration.discrete_gaussian(sigma, bound)
    truth = enumeration.delta(weights, sensitivity, total, uses)
    guarantee = TruncatedDiscreteGaussian(sigma=sigma, bound=bound, sensitivity=sensitivity)
    answer = compose([Use(guarantee, uses)]).delta(total)
    assert answer.lower <= truth * (1 + 1e-9)
    assert answer.upper >= truth * (1 - 1e-9)
    assert answer.width <= 1e-3 * truth


def test_truncated_integer_gaussians_beside_others_are_summed_to_round_off():
    uses = [TruncatedDiscreteGaussian(sigma=1.5, bound=4)] * 2 + [DiscreteLaplace(scale=7.3, sensitivity=3)]
    truncated = enumeration.outcomes(enumeration.discrete_gaussian(1.5, 4), 1)
    laplace = enumeration.likely(enumeration.outcomes(enumeration.discrete_laplace(7.3, 700), 3))
    answer = compose(uses).delta(0.8)
    assert answer.method == "exact"
    close(answer, enumeration.delta_together([truncated, truncated, laplace], 0.8), 1e-8)


def test_the_chance_of_failure_is_never_promised_away():
    guarantee = TruncatedDiscreteGaussian(sigma=2.0, bound=6)
    weights = enumeration.discrete_gaussian(2.0, 6)
    lost = weights[6] / math.fsum(weights.values())
    assert compose([guarantee]).delta(400.0).upper >= lost
    assert compose([Use(guarantee, 3)]).delta(400.0).upper >= 1 - (1 - lost) ** 3 - 1e-15

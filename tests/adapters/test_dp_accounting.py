import math

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import (
    BoundedRange,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PureDP,
    Use,
    ZeroConcentratedDP,
)
from setwise.adapters import from_event, to_pld
from setwise.errors import InvalidParameter


def test_events_become_uses():
    event = dpa.ComposedDpEvent(
        [
            dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(20.0), 3),
            dpa.LaplaceDpEvent(10.0),
            dpa.SelfComposedDpEvent(
                dpa.ComposedDpEvent([dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(20.0), 4), dpa.NoOpDpEvent()]), 2
            ),
            dpa.ZCDpEvent(0.02, 0.001),
        ]
    )
    assert from_event(event) == (
        Use(Gaussian(sigma=20.0), 11),
        Use(Laplace(scale=10.0)),
        Use(ZeroConcentratedDP(rho=0.02, xi=0.001)),
    )


def test_integer_laplace_noise_keeps_its_parameter_and_sensitivity():
    (use,) = from_event(dp_event.DiscreteLaplaceDpEvent(noise_parameter=0.3, sensitivity=2))
    assert isinstance(use.guarantee, DiscreteLaplace)
    assert use.guarantee.sensitivity == 2
    assert 0 <= use.guarantee.largest_loss() - 0.6 < 1e-14  # never less than the event's own


def test_randomized_response_is_as_private_as_its_likelihood_ratio():
    noise, buckets = 0.25, 4
    (use,) = from_event(dp_event.RandomizedResponseDpEvent(noise, buckets))
    ratio = (1 - noise + noise / buckets) / (noise / buckets)
    assert isinstance(use.guarantee, PureDP)
    assert math.log(ratio) <= use.guarantee.epsilon < math.log(ratio) * (1 + 1e-13)


@pytest.mark.parametrize(
    "event",
    [
        dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)),
        dpa.SampledWithoutReplacementDpEvent(100, 10, dpa.GaussianDpEvent(1.0)),
        dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 1000),
    ],
)
def test_sampling_is_refused_with_the_way_to_go(event):
    with pytest.raises(InvalidParameter, match="compose it in dp-accounting"):
        from_event(event)


@pytest.mark.parametrize("event", [dpa.NonPrivateDpEvent(), dpa.SingleEpochTreeAggregationDpEvent(1.0, 8)])
def test_other_events_are_refused_by_name(event):
    with pytest.raises(InvalidParameter, match=type(event).__name__):
        from_event(event)


DELTAS = (1e-2, 1e-3, 1e-6, 1e-9, 1e-11)


def test_the_distribution_of_a_gaussian_is_that_of_dp_accounting():
    ours, theirs = to_pld(compose([Gaussian(sigma=5.0)])), pld.from_gaussian_mechanism(5.0)
    for delta in DELTAS:
        exact = theirs.get_epsilon_for_delta(delta)
        assert exact * (1 - 1e-4) <= ours.get_epsilon_for_delta(delta) <= exact * 1.003 + 1e-3
    assert ours.get_delta_for_epsilon(-0.5) == pytest.approx(theirs.get_delta_for_epsilon(-0.5), rel=1e-3)


@pytest.fixture(scope="module")
def picks():
    return Use(BoundedRange(epsilon=0.2), 10)


def test_the_distribution_dominates_the_setwise_optimum_and_little_more(picks):
    composition = compose([picks])
    distribution = to_pld(composition)
    for delta in DELTAS:
        answer = composition.epsilon(delta)
        assert answer.lower <= distribution.get_epsilon_for_delta(delta) <= answer.upper * 1.005 + 1e-3
    for epsilon in np.linspace(0.0, 1.7, 8):  # between the points it was made of
        assert composition.delta(float(epsilon)).lower <= distribution.get_delta_for_epsilon(epsilon)


def test_composed_again_it_still_dominates_the_larger_set(picks):
    """Half of the draws after the other half is one way to draw them all."""
    twice = to_pld(compose([picks])).self_compose(2)
    whole = compose([Use(picks.guarantee, 2 * picks.count)])
    for epsilon in (0.2, 0.8, 1.4):
        assert whole.delta(epsilon).lower <= twice.get_delta_for_epsilon(epsilon)


def test_it_prices_bounded_range_beside_a_sampled_gaussian(picks):
    accountant = dpa.pld.PLDAccountant()
    accountant.compose(dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 100))
    alone = pld.from_gaussian_mechanism(1.0, sampling_prob=0.01, value_discretization_interval=1e-4).self_compose(100)
    together = alone.compose(to_pld(compose([picks])))
    separate = accountant.get_epsilon(5e-7) + compose([picks]).epsilon(5e-7).upper
    assert compose([picks]).epsilon(1e-6).lower < together.get_epsilon_for_delta(1e-6) < separate


@pytest.mark.parametrize(("option", "value"), [("points", 1), ("discretization", 0.0), ("discretization", 2.0)])
def test_options_out_of_range_are_named(picks, option, value):
    with pytest.raises(InvalidParameter, match=option):
        to_pld(compose([picks]), **{option: value})

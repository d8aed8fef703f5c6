"""Estimates guide searches: they must be near what is certified, and hold for any uses that can be asked about."""

import math

import pytest

from setwise.accounting.compose import compose
from setwise.accounting.estimates import estimated_delta, estimated_epsilon
from setwise.accounting.notation import as_uses

USUAL = [
    "gaussian:20x25",
    "laplace:10x30",
    "pure:0.1x50",
    "discrete-laplace:60,5x3 discrete-laplace:12,1x3 gaussian:20x6",
    "bounded-range:0.1x10 gaussian:22x10 approx:0.0,2e-10",
    "bounded-range:0.08x10 bounded-range:0.13x10",
    "bounded-range:0.04x100 gaussian:70x100",
    "truncated-gaussian:40,300,1x10 bounded-range:0.07x10",
]


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
@pytest.mark.parametrize("uses", USUAL)
def test_estimates_of_usual_questions_are_within_a_percent(uses, delta):
    certified = compose(uses.split()).epsilon(delta)
    assert estimated_epsilon(as_uses(uses.split()), delta) == pytest.approx(certified.upper, rel=0.0075)
    assert math.log(estimated_delta(as_uses(uses.split()), certified.upper)) == pytest.approx(
        math.log(delta), rel=0.015
    )


@pytest.mark.parametrize("uses", ["gaussian:20x25", USUAL[4], USUAL[6], USUAL[7]])
def test_estimates_of_gaussian_noise_beside_many_picks_are_a_little_too_high(uses):
    """So that noise which is found by the estimate proves to be enough, and hardly more than enough."""
    certified = compose(uses.split()).epsilon(1e-6)
    assert 1.0 <= estimated_epsilon(as_uses(uses.split()), 1e-6) / certified.upper < 1.003


@pytest.mark.parametrize("uses", ["bounded-range:0.05x3", "discrete-laplace:12,1x3 bounded-range:0.09x3"])
def test_estimates_of_few_picks_are_within_nine_percent(uses):
    certified = compose(uses.split()).epsilon(1e-6)
    assert estimated_epsilon(as_uses(uses.split()), 1e-6) == pytest.approx(certified.upper, rel=0.09)


@pytest.mark.parametrize(
    ("uses", "delta", "epsilon"),
    [
        ("discrete-laplace:3,1x3", 0.0, 1.0),
        ("discrete-laplace:3,1x3", 1e-9, 1.0),
        ("bounded-range:1e-9", 1e-6, 0.0),
        ("discrete-laplace:1e9,1000000000", 0.0, 1.0),
        ("approx:0.0,1e-7", 1e-6, 0.0),
        ("approx:0.0,1e-6", 1e-7, math.inf),
        ("gaussian:20", 0.0, math.inf),
    ],
)
def test_plain_sums_and_what_no_epsilon_meets_are_exact(uses, delta, epsilon):
    assert estimated_epsilon(as_uses(uses.split()), delta) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(
    "uses", ["bounded-range:500x3", "bounded-range:1e-9x1000 gaussian:1e6", "zcdp:0.01x3", "pure:500"]
)
def test_estimates_of_extreme_parameters_are_numbers(uses):
    assert 0.0 <= estimated_epsilon(as_uses(uses.split()), 1e-6) < math.inf
    assert 0.0 <= estimated_delta(as_uses(uses.split()), 1.0) <= 1.0

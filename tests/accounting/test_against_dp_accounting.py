"""The same sets through dp-accounting, whose grid is good to a few digits at moderate delta."""

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from setwise.accounting.compose import compose

GRID = 1e-4


def laplace(scale):
    return pld.from_laplace_mechanism(scale, value_discretization_interval=GRID)


def gaussian(sigma):
    return pld.from_gaussian_mechanism(sigma, value_discretization_interval=GRID)


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize(
    ("uses", "build"),
    [
        (["laplace:10x50"], lambda: laplace(10.0).self_compose(50)),
        (["gaussian:20x50"], lambda: gaussian(20.0).self_compose(50)),
        (
            ["laplace:5x10", "gaussian:8x20"],
            lambda: laplace(5.0).self_compose(10).compose(gaussian(8.0).self_compose(20)),
        ),
    ],
)
def test_linear_sets(uses, build, delta):
    theirs = build().get_epsilon_for_delta(delta)
    ours = compose(uses).epsilon(delta)
    assert ours.upper == pytest.approx(theirs, rel=2e-3)
    assert ours.lower <= theirs * (1 + 1e-6)  # theirs is an upper bound, up to the accuracy of its transform


def test_known_mixture():
    answer = compose(["laplace:10x50", "gaussian:20x50", "pure:0.05x50"]).epsilon(1e-6)
    assert answer.lower <= 4.0239855
    assert answer.upper >= 4.0239845
    assert answer.width <= 1e-5

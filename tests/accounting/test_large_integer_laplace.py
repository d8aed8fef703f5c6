"""Integer Laplace noise with a large sensitivity: its closed form equals the sum over all its losses."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import DiscreteLaplace, Use
from setwise.accounting.losses.dominating_pairs import DiscreteLaplaceLoss


def enumerated_delta(sensitivity: int, scale: float, epsilon: float) -> mpf:
    """Return delta at `epsilon` with 40 digits, as the sum over all values of the noise."""
    with mp.workdps(40):
        rate = 1 / mpf(scale)
        keep = 1 / (1 + mp.exp(-rate))
        losses = [(sensitivity * rate, keep), (-sensitivity * rate, keep * mp.exp(-sensitivity * rate))]
        losses += [
            ((sensitivity - 2 * z) * rate, keep * (1 - mp.exp(-rate)) * mp.exp(-z * rate))
            for z in range(1, sensitivity)
        ]
        return sum(mass * max(mpf(0), 1 - mp.exp(mpf(epsilon) - loss)) for loss, mass in losses)


@pytest.mark.parametrize(("sensitivity", "scale"), [(2, 3.0), (5, 4.0), (7, 200.0), (64, 3.0), (1000, 500.0)])
def test_the_closed_form_is_the_sum_over_all_losses(sensitivity: int, scale: float) -> None:
    largest = sensitivity / scale
    kinks = [(sensitivity - 2 * z) / scale for z in (1, 2, sensitivity // 2)]  # an inner sum gains a term at each
    shares = [0.0, 0.1, 0.5, 0.9, 0.999999, 1.0, 1.1, -0.2, -1.5]
    for epsilon in [*(share * largest for share in shares), *kinks]:
        value, error = DiscreteLaplaceLoss(DiscreteLaplace(scale=scale, sensitivity=sensitivity)).delta(
            np.array([epsilon])
        )
        exact = enumerated_delta(sensitivity, scale, epsilon)
        assert abs(exact - mpf(float(value[0]))) <= mpf(float(error[0])), epsilon
        assert error[0] <= 1e-12


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_a_million_losses_compose_exactly(delta: float) -> None:
    """The closed form is exact where losses are too many to enumerate, and no tighter than the largest loss allows."""
    noise = DiscreteLaplace(scale=1.1e6, sensitivity=2**20)
    found = compose([Use(noise)]).epsilon(delta)
    assert found.method == "exact"
    assert found.width <= 1e-12
    # Near the largest loss e of the noise delta is k (1 - exp(epsilon - e)) with k = 1 / (1 + exp(-1 / scale)), until
    # the next smaller loss contributes.
    largest, keep = float(Fraction(2**20) / Fraction(1.1e6)), 1.0 / (1.0 + math.exp(-1.0 / 1.1e6))
    if delta < 1e-7:
        assert found.upper == pytest.approx(largest + math.log1p(-delta / keep), abs=1e-13)
    continuous = largest + 2.0 * math.log1p(-delta)  # Laplace noise that is not rounded has delta 1 - exp(-(e - x)/2)
    assert found.upper == pytest.approx(continuous, abs=3e-6)
    assert found.upper <= largest

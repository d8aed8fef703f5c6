"""The search for the smallest noise scale asks for few certified prices, because each may take tens of milliseconds."""

from fractions import Fraction

import pytest

from setwise.mechanisms.planning.cost import estimate_noise_scale, smallest_noise_scale

EPSILONS = (0.20142, 0.50355, 1.0071, 2.0142, 3.3, 10.071)


class RecordedPrice:
    """The price 3 / scale of a Laplace release, times `factor`, and the number of times that it was asked for."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.calls = 0

    def __call__(self, scale: Fraction) -> float:
        """Return the epsilon of the noise scale `scale`."""
        self.calls += 1
        return self.factor * 3.0 / float(scale)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("first", [0.7, 1.0, 1.0000001])
@pytest.mark.parametrize("factor", [0.99, 0.998, 1.0, 1.0006, 1.004, 1.015])
def test_search_takes_two_prices_if_estimate_is_within_two_percent(epsilon: float, first: float, factor: float) -> None:
    guess = estimate_noise_scale(RecordedPrice(1.0), first * 3.0 / epsilon, epsilon)
    assert guess is not None
    certified = RecordedPrice(factor)
    scale = smallest_noise_scale(certified, guess, epsilon)
    assert scale is not None
    assert epsilon / 1.003 <= certified(scale) <= epsilon
    assert certified.calls <= 3  # two of the search and one of this test


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_slope_of_an_estimate_is_not_that_of_rounding_errors(epsilon: float) -> None:
    guess = estimate_noise_scale(RecordedPrice(1.0), 3.0 / epsilon, epsilon)
    assert guess is not None
    assert guess.slope == pytest.approx(1.0, abs=0.01)

"""The bounded-range step against its definition, a plain maximum over t."""

import numpy as np
import pytest

from setwise.accounting.adaptive.operator import BoundedRangeStep, specification
from setwise.accounting.adaptive.profile import Profile, nothing_to_come
from setwise.accounting.losses.discrete import randomized_response

CASES = [(0.1, 8, 1), (0.1, 24, 30), (1.0, 8, 3), (1.0, 40, 12), (4.0, 16, 5)]


def stepped(epsilon, cells, steps, size=None):
    """Return the profile before the last of `steps` steps, and after it."""
    step = epsilon / cells
    operator = BoundedRangeStep(epsilon, cells, step)
    before = nothing_to_come(step)
    after = operator.apply(before, size or cells + 2)
    for used in range(2, steps + 1):
        before, after = after, operator.apply(after, size or used * cells + 2)
    return before, after


def check(before, after, epsilon):
    rounding = 1e-9  # reading between grid points
    points = 100 * round(epsilon / after.step)  # every t on the grid is among them
    for index in range(0, after.upper.size, max(1, after.upper.size // 60)):
        x = index * after.step
        above = specification(before.read_upper, epsilon, x, points)
        below = specification(before.read_lower, epsilon, x, points)
        assert after.upper[index] >= above * (1 - rounding)
        assert after.upper[index] <= above * (1 + 1e-4) + 1e-300
        assert after.lower[index] <= below * (1 + rounding)
        assert after.lower[index] <= after.upper[index] * (1 + rounding)


@pytest.mark.parametrize(("epsilon", "cells", "steps"), CASES)
def test_a_step_is_the_maximum_over_t(epsilon, cells, steps):
    check(*stepped(epsilon, cells, steps), epsilon)


def test_a_step_before_randomized_response_is_the_maximum_over_t():
    """A profile with a kink for every loss: the best t jumps from cell to cell."""
    epsilon, cells = 0.6, 36
    step = epsilon / cells
    values, error = randomized_response(0.4, 3).delta(np.arange(80) * step)
    before = Profile(step, np.maximum(values - error, 0.0), values + error)
    check(before, BoundedRangeStep(epsilon, cells, step).apply(before, 120), epsilon)


def test_a_grid_that_ends_early_only_raises_upper_values_and_lowers_lower_ones():
    _, whole = stepped(0.5, 16, 6)
    _, cut = stepped(0.5, 16, 6, size=40)
    assert (cut.upper >= whole.upper[:40] * (1 - 1e-12)).all()
    assert (cut.lower <= whole.lower[:40] * (1 + 1e-12)).all()


def test_lower_values_of_a_coarse_grid_are_close():
    _, after = stepped(1.0, 40, 12)
    assert after.lower[0] >= after.upper[0] * (1 - 5e-3)

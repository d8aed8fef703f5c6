"""The bounded-range step against its definition, a plain maximum over t."""

import mpmath
import numpy as np
import pytest

from setwise.accounting.adaptive.operator import BoundedRangeStep, specification
from setwise.accounting.adaptive.profiles import Profile, nothing_to_come
from setwise.accounting.brackets import UNIT
from setwise.accounting.losses.lattice import randomized_response

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


def exact_step(values, step, cells, index):
    """(S F)(x) at a grid point for the chords through stored values, in 40 digits: the best of every cell."""
    h, epsilon = mpmath.mpf(step), cells * mpmath.mpf(step)
    c = 1 / (1 - mpmath.exp(-epsilon))

    def at(place):
        """F at x = place * h: mirrored on the left, constant beyond the last value."""
        stored = mpmath.mpf(float(values[min(abs(place), len(values) - 1)]))
        return stored if place >= 0 else 1 - mpmath.exp(place * h) + mpmath.exp(place * h) * stored

    best = at(index)
    for j in range(cells):
        near, far = index - j - 1, index - j - 1 + cells
        (near_slope, near_top), (far_slope, far_top) = (
            (slope := (at(cell) - at(cell + 1)) / mpmath.expm1(h), at(cell) + slope) for cell in (near, far)
        )
        stretch, shrink = mpmath.exp((j + 1) * h), mpmath.exp(-epsilon)
        gain, loss = near_top - far_top, (near_slope - shrink * far_slope) * stretch
        first, last = mpmath.exp(j * h), stretch
        stationary = mpmath.sqrt(loss / (shrink * gain)) if gain > 0 and loss > 0 else first
        v = min(max(stationary, first), last)
        continued = far_top - far_slope * stretch * shrink
        best = max(best, continued + c * (1 - shrink * v) * (gain - loss / v))
    return best


@pytest.mark.parametrize(("epsilon", "cells"), [(0.01, 24), (0.3, 40), (3.0, 24)])
def test_what_rounding_takes_from_a_step_is_charged(epsilon, cells):
    before, after = stepped(epsilon, cells, 3)
    charge = BoundedRangeStep(epsilon, cells, epsilon / cells).rounding
    with mpmath.workdps(40):
        missing = [
            float(1 - mpmath.mpf(float(after.upper[index])) / exact)
            for index in range(after.upper.size)
            if (exact := exact_step(before.upper, before.step, cells, index)) > 0
        ]
    assert max(missing) <= charge
    assert min(missing) >= -charge  # and nothing is overstated by more


def test_a_parameter_next_to_a_grid_point_keeps_no_more_than_it_has():
    """From below a mechanism keeps its own probabilities: where t is nearly its range, round-off raised that share."""
    own, cells, step = 0.7846402078933947, 10, 0.08718224532148826
    keep = BoundedRangeStep(own, cells, step)._own_keep
    with mpmath.workdps(40):
        for j in range(cells + 1):
            exact = max(mpmath.expm1(j * mpmath.mpf(step) - own) / mpmath.expm1(-mpmath.mpf(own)), mpmath.mpf(0))
            assert keep[j] <= exact * (1 + 64 * UNIT)

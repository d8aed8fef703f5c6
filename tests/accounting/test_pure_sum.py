"""At delta = 0 epsilons add up, exactly, and what has no epsilon there has none."""

import math
from fractions import Fraction

import pytest

from setwise.accounting.brackets import Interaction
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import largest_loss
from setwise.accounting.methods.exact import pure_sum
from setwise.accounting.notation import as_uses


def total(*written):
    return pure_sum(as_uses(written), Interaction.SETWISE)


def test_sums_are_exact_and_rounded_outwards():
    found = total("pure:0.1x10", "laplace:3", "discrete-laplace:7,2x3")
    exact = 10 * Fraction(0.1) + Fraction(1, 3) + Fraction(6, 7)
    assert Fraction(found.lower) <= exact <= Fraction(found.upper)
    assert found.upper - found.lower <= 2 * math.ulp(found.upper)


def test_bounded_range_uses_cost_all_of_their_epsilons():
    """No less can be promised: below the sum some delta is needed, however small."""
    found = total("bounded-range:0.5x4")
    assert (found.lower, found.upper) == (2.0, 2.0)
    assert compose(["bounded-range:0.5x4"]).delta(1.99).lower > 0.0


@pytest.mark.parametrize(
    "use", ["gaussian:20", "approx:0,1e-9", "zcdp:0.1", "discrete-gaussian:3", "truncated-gaussian:3,9"]
)
def test_what_needs_a_delta_has_no_epsilon_without_one(use):
    assert total("pure:0.1", use).upper == math.inf


def test_a_small_delta_is_near_none():
    uses = ["pure:0.3x2", "bounded-range:0.2x2"]
    assert compose(uses).epsilon(1e-30).upper <= total(*uses).upper * (1 + 1e-9)


@pytest.mark.parametrize(
    "uses",
    [
        "pure:0.3x7",
        "discrete-laplace:2.3,2x3 discrete-laplace:7.7,1",
        "discrete-laplace:2.3,2x3 bounded-range:0.7",
        "pure:0.3 pure:0.7 approx:1.1,1e-9",
    ],
)
def test_no_epsilon_is_above_the_plain_sum(uses):
    """Rounding raises the delta next to the largest loss, which must not be asked to fall beyond it."""
    composed = compose(uses.split())
    most = largest_loss((use.guarantee, use.count) for use in composed.uses)
    assert 0.999 * most < composed.epsilon(1e-9 + 1e-30).upper <= most

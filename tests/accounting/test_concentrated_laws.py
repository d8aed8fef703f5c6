"""Worst members of zCDP classes: certified at every order, and as bad as the conversion says."""

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.accounting.compose import compose
from setwise.accounting.losses.dominating_pairs import TwoPointLaw
from setwise.accounting.methods.concentrated_laws import largest_law, satisfies
from tests.sizes import examples


def divergence_excess(law, xi, rho, order):
    """Return D_order less what the guarantee allows, times order - 1, in both directions and 40 digits."""
    with mpmath.workdps(40):
        high, low, b = mpmath.mpf(law.high), mpmath.mpf(law.low), mpmath.mpf(order) - 1
        p = (mpmath.exp(-low) - 1) / (mpmath.exp(-low) - mpmath.exp(-high))
        q = p * mpmath.exp(-high)
        allowed = b * (mpmath.mpf(xi) + (b + 1) * mpmath.mpf(rho))
        forward = mpmath.log(p * mpmath.exp(b * high) + (1 - p) * mpmath.exp(b * low))
        backward = mpmath.log(q * mpmath.exp(-b * high) + (1 - q) * mpmath.exp(-b * low))
        return max(forward - allowed, backward - allowed)


def orders(law, xi, rho):
    """Return orders around those at which the guarantee binds."""
    binding = max((law.high - xi) / (2 * rho), 0.1)
    return [1 + binding * 1.13**k for k in range(-80, 30)]


@settings(max_examples=examples(25))
@given(st.floats(1e-5, 3.0), st.floats(-0.9, 1.5), st.floats(0.05, 6.0))
def test_certified_laws_satisfy_the_guarantee_at_every_order(rho, share, deviations):
    xi = share * rho
    law = largest_law(xi, rho, xi + rho + deviations * (2 * rho) ** 0.5)
    assert law is not None
    assert max(divergence_excess(law, xi, rho, order) for order in orders(law, xi, rho)) <= 0


@pytest.mark.parametrize("lowered", [1.03, 1.1, 2.0])
def test_a_law_with_a_larger_probability_is_refused(lowered):
    law = largest_law(0.0, 0.2, 3.25)
    worse = TwoPointLaw(law.high, law.low * lowered)
    assert max(divergence_excess(worse, 0.0, 0.2, 5 + 0.05 * k) for k in range(160)) > 0
    assert not satisfies(worse, 0.0, 0.2)


def test_both_directions_are_checked():
    """An uneven law may fail with P and Q exchanged only."""
    assert not satisfies(TwoPointLaw(0.1, -1.5), 0.0, 0.05)
    assert not satisfies(TwoPointLaw(1.5, -0.1), 0.0, 0.05)


@pytest.mark.parametrize(
    ("uses", "delta", "width"),
    [
        (["zcdp:0.2"], 1e-6, 2e-5),
        (["zcdp:0.2"], 1e-3, 4e-4),
        (["zcdp:0.1,0.05,1e-9"], 1e-6, 2e-5),
        (["zcdp:0.1x2"], 1e-6, 1e-3),
        (["zcdp:0.05x4"], 1e-6, 1e-2),
    ],
)
def test_brackets_of_zcdp_close(uses, delta, width):
    answer = compose(uses).epsilon(delta)
    assert answer.lower <= answer.upper
    assert answer.width <= width * answer.upper


def test_the_lower_end_is_the_delta_of_the_law():
    """Recomputed from the definition: P[L > x] less e^x Q[L > x] of two independent losses."""
    answer = compose(["zcdp:0.1x2"]).delta(2.0)
    law = max(
        (law for high in (0.9, 1.0, 1.1, 1.2, 1.3) if (law := largest_law(0.0, 0.1, high)) is not None),
        key=lambda law: delta_of_two(law, 2.0),
    )
    assert delta_of_two(law, 2.0) <= answer.upper
    assert answer.lower >= 0.99 * delta_of_two(law, 2.0)


def delta_of_two(law, x):
    with mpmath.workdps(30):
        p, q = mpmath.mpf(law.probability), mpmath.mpf(law.probability) * mpmath.exp(-mpmath.mpf(law.high))
        total = mpmath.mpf(0)
        for heads in range(3):
            ways = mpmath.binomial(2, heads)
            above = ways * p**heads * (1 - p) ** (2 - heads)
            below = ways * q**heads * (1 - q) ** (2 - heads)
            total += max(above - mpmath.exp(x) * below, 0)
        return total

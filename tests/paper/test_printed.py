"""The paper's formulas as printed, against the library and against each other."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.accounting.compose import compose
from setwise.paper import formulas
from setwise.paper.figures.worst_answer import objective
from setwise.paper.formulas import mixture
from tests.sizes import examples

EPSILONS = st.floats(0.05, 2.0)


@settings(max_examples=examples(30), deadline=None)
@given(epsilon=EPSILONS, uses=st.integers(1, 12), share=st.floats(0.0, 0.9))
def test_pure(epsilon, uses, share):
    g = share * uses * epsilon
    assert formulas.pure_delta(uses, epsilon, g) == pytest.approx(
        compose(mixture(epsilon, uses, uses)).delta(g).upper, rel=1e-9, abs=1e-12
    )


@settings(max_examples=examples(20), deadline=None)
@given(epsilon=EPSILONS, uses=st.integers(1, 8), share=st.floats(0.0, 0.9))
def test_batch_of_bounded_range(epsilon, uses, share):
    g = share * uses * epsilon
    expected = compose(mixture(epsilon, uses, 0), "batch").delta(g).upper
    assert formulas.batch_range_delta(uses, epsilon, g) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert formulas.batch_delta(uses, 0, epsilon, g) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=examples(20), deadline=None)
@given(epsilon=EPSILONS, ranges=st.integers(1, 5), pure=st.integers(1, 5), share=st.floats(0.0, 0.9))
def test_batch_of_both(epsilon, ranges, pure, share):
    uses = ranges + pure
    g = share * uses * epsilon
    expected = compose(mixture(epsilon, uses, pure), "batch").delta(g).upper
    assert formulas.batch_delta(uses, pure, epsilon, g) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=examples(50), deadline=None)
@given(
    epsilon=st.floats(0.2, 1.5),
    ranges=st.integers(1, 4),
    pure=st.integers(0, 3),
    last=st.integers(0, 6),
    share=st.floats(0.1, 0.9),
    g=st.floats(0.0, 2.0),
)
def test_the_slope_of_partial_sums(epsilon, ranges, pure, last, share, g):
    """With (1 - q)^i, which is the correction; as printed it fails for most parameters."""
    t, step = share * epsilon, 1e-6
    last = min(last, ranges + 2 * pure)
    ends = [formulas.partial_sum(t + s * step, last, ranges, pure, epsilon, g, power="i") for s in (1, -1)]
    slope = formulas.partial_sum_slope(t, last, ranges, pure, epsilon, g, uses=ranges)
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-6)


@settings(max_examples=examples(100), deadline=None)
@given(epsilon=EPSILONS, share=st.floats(0.0, 1.0), x=st.floats(-3.0, 3.0))
def test_the_reduction_identity(epsilon, share, x):
    t = share * epsilon
    value = objective(lambda y, _: max(0.0, -math.expm1(y)), x, t, epsilon)
    if x >= t:
        expected = 0.0
    elif t <= x + epsilon:
        expected = formulas.keep(epsilon, t) * -math.expm1(x - t)
    else:
        expected = -math.expm1(x)
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-13)


@settings(max_examples=examples(30), deadline=None)
@given(epsilon=EPSILONS, uses=st.integers(1, 10), share=st.floats(0.0, 0.95))
def test_pure_dp_is_a_sum_of_elementary_terms(epsilon, uses, share):
    x, keep = share * uses * epsilon, formulas.keep(2 * epsilon, epsilon)
    weights = [math.comb(uses, i) * keep ** (uses - i) * (1 - keep) ** i for i in range(uses + 1)]
    terms = [max(0.0, -math.expm1((2 * i - uses) * epsilon + x)) for i in range(uses + 1)]
    total = math.fsum(weight * term for weight, term in zip(weights, terms, strict=True))
    assert total == pytest.approx(compose(mixture(epsilon, uses, uses)).delta(x).upper, rel=1e-9, abs=1e-12)

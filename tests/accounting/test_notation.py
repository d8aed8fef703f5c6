import pytest
from hypothesis import given, settings

from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    PureDP,
    Use,
    ZeroConcentratedDP,
    merged,
)
from setwise.accounting.notation import format_use, parse_use
from setwise.accounting.promises import promise_in_words
from tests.accounting.strategies import any_use
from tests.sizes import examples


@given(any_use)
@settings(max_examples=examples(400))
def test_round_trip(use):
    assert parse_use(format_use(use)) == use


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("pure:0.1x25", Use(PureDP(epsilon=0.1), 25)),
        ("pure:0.1", Use(PureDP(epsilon=0.1))),
        (" bounded-range:1e-3x2 ", Use(BoundedRange(epsilon=1e-3), 2)),
        ("approx:0,1e-9", Use(ApproxDP(epsilon=0.0, delta=1e-9))),
        ("zcdp:0.1", Use(ZeroConcentratedDP(rho=0.1))),
        ("zcdp:0.1,-0.05,1e-9", Use(ZeroConcentratedDP(rho=0.1, xi=-0.05, delta=1e-9))),
        ("discrete-gaussian:10,2x3", Use(DiscreteGaussian(sigma=10.0, sensitivity=2), 3)),
    ],
)
def test_reading(text, use):
    assert parse_use(text) == use


@given(any_use, any_use)
def test_merging_counts(first, second):
    uses = [Use(first.guarantee, 2), Use(second.guarantee, 3), Use(first.guarantee, 5)]
    both = merged(uses)
    assert sum(use.count for use in both) == 10
    assert len(both) == len({first.guarantee, second.guarantee})


def test_a_weak_promise_carries_a_warning():
    assert "Warning" not in promise_in_words(10.0, 1e-6)
    assert promise_in_words(10.01, 1e-6).endswith("Warning: an epsilon above 10 protects hardly anybody.")

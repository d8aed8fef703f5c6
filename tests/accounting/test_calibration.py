"""Calibration: what is found meets the target, little less would do, and few compositions are certified on the way."""

import pytest

from setwise.accounting.calibrate import FIND, largest_count, parse_plan, smallest_noise
from setwise.accounting.compose import Composition, compose
from setwise.errors import Unattainable

CASES = [
    (["gaussian:?x25"], 1.0, 1e-6, 1e-6, 12),
    (["laplace:?x25", "gaussian:20x5"], 2.0, 1e-6, 1e-5, 12),
    (["pure:?x25"], 2.0, 1e-6, 1e-6, 12),
    (["bounded-range:?x25"], 1.0, 1e-6, 2e-3, 8),
    pytest.param(["bounded-range:?x1000"], 2.0, 1e-6, 2e-3, 6, marks=pytest.mark.slow),
    (["bounded-range:0.1x20", "gaussian:?x10"], 1.5, 1e-6, 5e-3, 8),
    (["bounded-range:0.5x3", "bounded-range:?x20"], 2.0, 1e-6, 1e-2, 10),
    pytest.param(
        *(["bounded-range:0.5x5", "bounded-range:0.2x10", "bounded-range:?x100"], 3.0, 1e-6, 2e-2, 10),
        marks=pytest.mark.slow,
    ),
    (["bounded-range:0.1x?"], 2.0, 1e-6, None, 10),
    (["pure:0.1x?", "bounded-range:0.05x10"], 2.0, 1e-6, None, 10),
    (["approx:0.1,1e-9x?"], 2.0, 1e-6, None, 10),
    (["zcdp:0.001x?"], 2.0, 1e-6, None, 10),
]


def delta(uses, epsilon):
    return compose(uses).delta(epsilon).upper


@pytest.mark.parametrize(("written", "epsilon", "target", "close", "most"), CASES, ids=str)
def test_what_is_found_meets_the_target_and_little_less_would_do(written, epsilon, target, close, most, monkeypatch):
    certified = []
    plain = Composition._certify

    def counted(self, *asked):
        certified.append(self.uses)
        return plain(self, *asked)

    monkeypatch.setattr(Composition, "_certify", counted)
    free, plan = parse_plan(written)
    found = FIND[free](plan, epsilon=epsilon, delta=target)
    assert len(certified) <= most
    assert delta(found.uses, epsilon) <= target
    assert delta(plan(found.value), epsilon) <= target
    worse = found.value + 1 if close is None else found.value * (1 - close if free == "noise" else 1 + close)
    assert delta(plan(worse), epsilon) > target * (1 - 1e-2 if close is None else 1.0)


def test_the_ends_of_the_range_are_found():
    assert smallest_noise(parse_plan(["gaussian:?"])[1], epsilon=1e5, delta=0.5, smallest=1.0).value == 1.0
    assert largest_count(parse_plan(["gaussian:1e9x?"])[1], epsilon=1.0, delta=1e-6, most=7).value == 7


@pytest.mark.parametrize(
    ("written", "refusal"),
    [
        ("gaussian:?", "not even a noise scale of 1e\\+09 meets"),
        ("pure:?", "not even a per-use epsilon of 1e-09 meets"),
    ],
)
def test_a_target_out_of_reach_is_refused_with_the_best_value_tried(written, refusal):
    free, plan = parse_plan([written, "approx:0.1,1e-3"])
    with pytest.raises(Unattainable, match=refusal):
        FIND[free](plan, epsilon=1.0, delta=1e-6)

"""What must hold of every set of uses."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from setwise.accounting.brackets import epsilon_at
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange, PureDP, Use
from setwise.accounting.methods.moments import subgaussian_sum, zero_concentrated_sum
from setwise.errors import Unattainable
from tests.accounting.strategies import (
    approximate,
    counts,
    deltas,
    epsilons,
    gaussians,
    linear_uses,
    mixed_uses,
    pure,
    ranges,
    totals,
    uses_of,
)
from tests.sizes import FULL, examples

interactions = st.sampled_from(["batch", "ordered", "setwise", "adaptive"])
SLACK = 1 + 1e-12


def not_above(smaller, larger):
    """Assert smaller <= larger for two optima known by their brackets."""
    assert smaller.lower <= larger.upper * SLACK


@given(mixed_uses, interactions, totals, totals)
def test_delta_is_a_probability_and_falls(uses, interaction, first, second):
    low, high = sorted((first, second))
    whole = compose(uses, interaction)
    more, less = whole.delta(low), whole.delta(high)
    for answer in (more, less):
        assert 0.0 <= answer.lower <= answer.upper <= 1.0
    not_above(less, more)


@given(linear_uses, totals, totals)
def test_linear_delta_is_a_probability_and_falls(uses, first, second):
    low, high = sorted((first, second))
    more, less = compose(uses).delta(low), compose(uses).delta(high)
    for answer in (more, less):
        assert 0.0 <= answer.lower <= answer.upper <= 1.0
    not_above(less, more)


@given(uses_of(st.one_of(pure, gaussians), most=3), totals)
def test_round_trip_is_exact_for_pure_and_gaussian(uses, total):
    whole = compose(uses)
    delta = whole.delta(total)
    assume(delta.lower > 1e-30 and delta.width <= 1e-9 * delta.upper)
    back = whole.epsilon(delta.upper)
    assert back.lower <= total * SLACK + 1e-12
    again = whole.epsilon(delta.lower)
    assert again.upper >= total / SLACK - 1e-12
    assert back.upper == pytest.approx(total, rel=1e-6, abs=1e-6)


@given(mixed_uses, st.sampled_from(["batch", "ordered", "setwise"]), totals)
def test_round_trip(uses, interaction, total):
    whole = compose(uses, interaction)
    delta = whole.delta(total)
    assume(1e-30 < delta.upper < 1.0)
    try:
        back = whole.epsilon(delta.upper)
    except Unattainable:
        assume(False)
    assert back.lower <= total * SLACK + 1e-9
    assert whole.delta(back.upper).lower <= delta.upper * SLACK


@settings(max_examples=examples(60, one_in=12))
@given(mixed_uses, st.sampled_from(["ordered", "setwise", *["batch"] * FULL]), deltas)
def test_the_epsilon_promised_keeps_its_delta(uses, interaction, delta):
    """Of batches, whose examples take seconds, `test_batch_mixtures.py` asks it in the small run."""
    whole = compose(uses, interaction)
    try:
        promised = whole.epsilon(delta)
    except Unattainable:
        assume(False)
    assert 0.0 <= promised.lower <= promised.upper
    assert whole.delta(promised.upper).lower <= delta * SLACK
    if promised.lower > 0.0:
        assert whole.delta(promised.lower).upper >= delta / SLACK


@given(st.one_of(pure, ranges, gaussians, approximate), st.integers(2, 8), interactions, totals)
def test_counting_is_looping(guarantee, count, interaction, total):
    counted = compose([Use(guarantee, count)], interaction).delta(total)
    looped = compose([guarantee] * count, interaction).delta(total)
    assert counted.lower == pytest.approx(looped.lower, rel=1e-3, abs=0)
    assert counted.upper == pytest.approx(looped.upper, rel=1e-3, abs=0)
    not_above(counted, looped)
    not_above(looped, counted)


@given(mixed_uses, st.one_of(pure, ranges, gaussians), interactions, deltas)
def test_another_use_never_lowers_epsilon(uses, extra, interaction, delta):
    try:
        before = compose(uses, interaction).epsilon(delta)
        after = compose([*uses, extra], interaction).epsilon(delta)
    except Unattainable:
        assume(False)
    if interaction == "adaptive":
        assert before.upper <= after.upper * SLACK
    not_above(before, after)


@given(epsilons, counts, counts, totals)
def test_bounded_range_lies_between_pure_and_half_of_it_in_the_batch(epsilon, count, beside, total):
    others = [Use(PureDP(epsilon=epsilon), beside)]
    middle = compose([*others, Use(BoundedRange(epsilon=epsilon), count)], "batch").delta(total)
    above = compose([*others, Use(PureDP(epsilon=epsilon), count)], "batch").delta(total)
    below = compose([*others, Use(PureDP(epsilon=epsilon / 2), count)], "batch").delta(total)
    not_above(below, middle)
    not_above(middle, above)
    assert middle.upper <= above.upper * (1 + 1e-9)


@given(mixed_uses, totals)
@settings(max_examples=examples(35))
def test_more_freedom_never_costs_less(uses, total):
    batch, ordered, setwise, adaptive = (
        compose(uses, interaction).delta(total) for interaction in ("batch", "ordered", "setwise", "adaptive")
    )
    not_above(batch, ordered)
    not_above(ordered, setwise)
    not_above(setwise, adaptive)


@given(epsilons, st.integers(2, 6), st.integers(0, 6), st.floats(0.0, 0.6))
@settings(max_examples=examples(40))
def test_more_freedom_never_costs_less_in_the_middle_of_narrow_brackets(epsilon, count, beside, share):
    total = share * epsilon * (count + beside)
    uses = [Use(BoundedRange(epsilon=epsilon), count)]
    if beside:
        uses.append(Use(PureDP(epsilon=epsilon), beside))
    middles = []
    for interaction in ("batch", "ordered", "setwise"):
        answer = compose(uses, interaction).delta(total)
        middles.append((answer.lower + answer.upper) / 2)
    batch, ordered, setwise = middles
    assert batch <= ordered * (1 + 1e-3)
    assert ordered <= setwise * (1 + 1e-3)
    assert setwise <= compose([Use(PureDP(epsilon=epsilon), count + beside)]).delta(total).upper * (1 + 1e-9)


@given(linear_uses, st.randoms(use_true_random=False), interactions, interactions, totals)
def test_linear_sets_care_neither_for_order_nor_interaction(uses, random, one, other, total):
    assume("adaptive" not in (one, other))
    shuffled = list(uses)
    random.shuffle(shuffled)
    first, second = compose(uses, one).delta(total), compose(shuffled, other).delta(total)
    not_above(first, second)
    not_above(second, first)
    assert first.upper == pytest.approx(second.upper, rel=1e-6, abs=1e-300)


@given(ranges, st.one_of(pure, gaussians), mixed_uses, st.integers(0, 3), st.floats(0.0, 0.6))
@settings(max_examples=examples(20))
def test_a_range_moved_before_a_fixed_pair_never_costs_more(moved, fixed, others, place, total):
    place = min(place, len(others))
    late = [*others[:place], Use(fixed), Use(moved), *others[place:]]
    early = [*others[:place], Use(moved), Use(fixed), *others[place:]]
    not_above(compose(early, "ordered").delta(total), compose(late, "ordered").delta(total))


@given(mixed_uses, st.randoms(use_true_random=False), totals)
@settings(max_examples=examples(40))
def test_no_order_costs_more_than_the_worst(uses, random, total):
    shuffled = list(uses)
    random.shuffle(shuffled)
    setwise = compose(uses, "setwise").delta(total)
    not_above(compose(shuffled, "ordered").delta(total), setwise)
    not_above(setwise, compose(shuffled, "setwise").delta(total))


@given(uses_of(st.one_of(pure, ranges), most=3, count=st.integers(1, 8)), deltas)
def test_the_papers_setwise_bound_is_never_below_the_optimum(uses, delta):
    try:
        optimum = compose(uses, "setwise").epsilon(delta)
    except Unattainable:
        assume(False)
    assert optimum.lower <= subgaussian_sum(uses).paper_epsilon(delta) * SLACK
    assert optimum.upper <= subgaussian_sum(uses).paper_epsilon(delta) * (1 + 2e-3)


@pytest.mark.parametrize(
    "uses",
    [
        [f"bounded-range:{0.05 * step:.2f}x2" for step in range(4, 11)],
        pytest.param([f"bounded-range:{0.01 * step:.2f}x3" for step in range(1, 12)], marks=pytest.mark.slow),
    ],
)
def test_many_unequal_ranges_fall_back_on_the_better_bound(uses):
    """Rounding many parameters up to few can cost more than the moment bound: the least upper bound is taken."""
    whole = compose(uses)
    answer = whole.epsilon(1e-6)
    moments = epsilon_at(1e-6, zero_concentrated_sum(whole.uses).delta).upper
    assert answer.lower <= answer.upper <= moments
    assert answer.lower > 0.9 * answer.upper

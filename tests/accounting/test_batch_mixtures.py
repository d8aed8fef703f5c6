"""Batches with unequal bounded-range parameters, or with anything linear beside: nobody exceeds the bracket."""

import itertools
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.accounting.brackets import Bracket
from setwise.accounting.classified_uses import classify
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import Gaussian, Laplace
from setwise.accounting.methods import batch_mixture
from setwise.accounting.methods.batch_mixture import BatchMixture
from setwise.accounting.notation import as_uses
from setwise.errors import Unattainable
from tests.accounting import batch_play as play
from tests.accounting.strategies import thousandths
from tests.sizes import examples

CERTAIN = Bracket(0.0, 0.0)

MIXTURES = [
    (((0.5, 3),), ["gaussian:2"], [], play.gaussian(2), 1.3),
    (((0.4, 4),), ["laplace:2"], [], play.laplace(2), 0.9),
    (((0.3, 2),), ["pure:0.2x3", "gaussian:3"], [play.repeated(play.pure(0.2), 3)], play.gaussian(3), 0.7),
    (((0.5, 2), (1.0, 2)), [], [], play.nothing, 1.0),
    (((0.25, 3), (0.6, 2)), ["pure:0.35x2"], [play.repeated(play.pure(0.35), 2)], play.nothing, 0.8),
    (((0.2, 2), (0.3, 2), (0.5, 1)), [], [], play.nothing, 0.6),
    (((0.2, 1), (0.3, 1), (0.4, 1), (0.5, 1)), ["gaussian:4"], [], play.gaussian(4), 0.5),
]


def written(groups, beside):
    return [f"bounded-range:{epsilon}x{count}" for epsilon, count in groups] + beside


@pytest.mark.parametrize(("groups", "beside", "fixed", "profile", "total"), MIXTURES)
def test_no_choice_beats_the_bound_and_one_reaches_its_lower_end(groups, beside, fixed, profile, total):
    answer = compose(written(groups, beside), "batch").delta(total)

    def at(shares):
        with mpmath.workdps(40):
            ranges = [
                play.repeated(play.response(epsilon, share * epsilon), count)
                for (epsilon, count), share in zip(groups, shares, strict=True)
            ]
            return float(play.delta([*ranges, *fixed], total, profile))

    points = {1: 31, 2: 9, 3: 4, 4: 3}[len(groups)]
    best = max(itertools.product(np.linspace(0.3, 0.9, points), repeat=len(groups)), key=at)
    step = 0.6 / (points - 1)
    while step > 2e-3:
        near = [
            (*best[:i], min(0.999, max(0.001, best[i] + move)), *best[i + 1 :])
            for i in range(len(best))
            for move in (-step, step)
        ]
        better = max([best, *near], key=at)
        step, best = (step / 2, best) if better == best else (step, better)
    found = at(best)
    assert found <= answer.upper
    assert answer.lower <= found * (1 + 1e-3)
    # A lower end is lowered to that of the orders, whose own brackets are a thousandth wide.
    assert answer.width <= (2.5e-3 if len(groups) == 1 else 0.12) * answer.upper
    assert answer.method in {"batch-optimum", "certified-optimum"}


@given(thousandths(0.1, 1.0), st.lists(st.floats(0.01, 0.99), min_size=2, max_size=4), st.floats(0.0, 0.8))
@settings(max_examples=examples(40))
def test_unequal_answers_of_equal_parameters_gain_nothing(epsilon, shares, part):
    """lem:gen_convexity beside a Gaussian: the mean of the answers does at least as well."""
    total = part * (len(shares) * epsilon + 1.0)
    with mpmath.workdps(40):
        t = [mpmath.mpf(share) * mpmath.mpf(epsilon) for share in shares]
        mean = mpmath.fsum(t) / len(t)
        unequal = play.delta([play.response(epsilon, one) for one in t], total, play.gaussian(2))
        equal = play.delta([play.response(epsilon, mean) for _ in t], total, play.gaussian(2))
    assert unequal <= equal * (1 + mpmath.mpf(10) ** -14)


@given(
    st.lists(st.tuples(thousandths(0.05, 1.0), st.integers(1, 6)), min_size=1, max_size=3, unique_by=lambda g: g[0]),
    st.data(),
)
@settings(max_examples=examples(60), deadline=None)
def test_a_box_covers_every_choice_inside(groups, data):
    x = data.draw(st.floats(0.0, 0.8)) * sum(epsilon * count for epsilon, count in groups)
    responses = BatchMixture(tuple(groups), ((Gaussian(sigma=3.0), 1), (Laplace(scale=5.0), 1)), CERTAIN)._responses(
        1.0
    )
    first, last, inside = [], [], []
    for epsilon, _ in groups:
        a, t, b = sorted(data.draw(st.lists(st.floats(0.01, 0.99), min_size=3, max_size=3, unique=True)))
        first, last, inside = [*first, a * epsilon], [*last, b * epsilon], [*inside, t * epsilon]
    assert responses.at(tuple(inside), x).lower <= responses.over(tuple(first), tuple(last), x)


def test_boxes_left_over_count():
    """With hardly any boxes allowed the bound is that of the few boxes, and no smaller than with many."""
    responses = BatchMixture(((0.5, 3), (0.3, 2)), ((Gaussian(sigma=2.0), 1),), CERTAIN)._responses(1.0)
    tops = [responses.branch_and_bound(1.0, 0.0, most) for most in (0, 1, 10, 100, 1000)]
    assert tops == sorted(tops, reverse=True)
    assert tops[0] > tops[-1] >= responses.at((0.27, 0.16), 1.0).lower


@pytest.mark.parametrize(("groups", "beside", "fixed", "profile", "total"), MIXTURES)
def test_between_the_adaptive_bounds(groups, beside, fixed, profile, total):
    """A batch gains no more than an analyst of any order, so its bound is not above theirs either."""
    uses = written(groups, beside)
    batch = compose(uses, "batch").delta(total)
    for order in (uses, uses[::-1]):
        assert batch.lower <= compose(order, "ordered").delta(total).upper
    assert batch.upper <= compose(uses, "setwise").delta(total).upper * (1 + 2e-3)


@pytest.mark.parametrize(
    "uses",
    [
        ["bounded-range:0.1x25", "gaussian:2"],
        ["bounded-range:0.1x10", "bounded-range:0.05x10"],
        ["bounded-range:0.3x7", "discrete-gaussian:15.39,1x5", "approx:0.1,1e-8"],
        pytest.param(["bounded-range:0.1x5", "bounded-range:0.2x5", "bounded-range:0.3x5"], marks=pytest.mark.slow),
        pytest.param(["bounded-range:1", "laplace:1"], marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("delta", [1e-6, pytest.param(1e-3, marks=pytest.mark.slow)])
def test_epsilon_is_certified_by_delta(uses, delta):
    whole = compose(uses, "batch")
    found = whole.epsilon(delta)
    assert found.width <= 0.01 * found.upper
    assert whole.delta(found.upper).lower <= delta
    assert whole.delta(found.lower).upper >= delta * (1 - 1e-9)
    assert found.upper <= compose(uses, "setwise").epsilon(delta).upper * (1 + 1e-3)


def test_a_gaussian_as_good_as_none_leaves_the_known_optimum():
    """With next to nothing beside, the boxes must find what the closed form has (thm:non-adaptive)."""
    nearly = compose(["bounded-range:0.2x10", "gaussian:1000000"], "batch").delta(0.8)
    closed = compose(["bounded-range:0.2x10"], "batch").delta(0.8)
    assert nearly.lower * (1 - 1e-4) <= closed.upper
    assert closed.lower <= nearly.upper * (1 + 1e-4)


def test_a_width_is_reached_or_refused(monkeypatch):
    reached = compose(["bounded-range:0.2x10", "gaussian:3"], "batch").delta(1.0, width=3e-4)
    assert reached.width <= 3e-4 * reached.upper
    monkeypatch.setattr(batch_mixture, "CONFIG", replace(batch_mixture.CONFIG, most_boxes=300))
    with pytest.raises(Unattainable):
        compose(["bounded-range:0.2x10", "bounded-range:0.1x10"], "batch").delta(1.0, width=1e-9)


def test_thousands_of_two_kinds_are_bounded_by_one_order():
    answer = compose(["bounded-range:0.02x2000", "bounded-range:0.01x2000"], "batch").epsilon(1e-6)
    assert answer.width <= 0.005 * answer.upper


@pytest.mark.parametrize("short", ["8.6e-9", "1e-6", "1e-4"])
def test_next_to_the_largest_loss_one_pick_beside_unlike_responses_is_as_by_hand(short):
    """Only the largest losses of everything count there: by hand at fifty digits, with the best t of the pick."""
    epsilon, responses = 0.0044936668733583365, [(0.0044936668733583365, 3), (0.378, 1), (4.114111517562613, 2)]
    with mpmath.workdps(50):
        largest = mpmath.fsum([epsilon, *(mpmath.mpf(each) * count for each, count in responses)])
        total = float(largest - mpmath.mpf(short))
        left = largest - mpmath.mpf(total)
        reached = mpmath.fprod((1 / (1 + mpmath.exp(-mpmath.mpf(each)))) ** count for each, count in responses)
        truth = float(reached * mpmath.expm1(-left / 2) ** 2 / -mpmath.expm1(-mpmath.mpf(epsilon)))
    uses = [*(f"pure:{each}x{count}" for each, count in responses), f"bounded-range:{epsilon}"]
    kinds = classify(as_uses(uses))
    found = batch_mixture.batch_mixture(kinds.ranges, kinds.linear, kinds.failure).delta(total)
    assert found.lower <= truth * (1 + 1e-4)
    assert truth * (1 - 1e-4) <= found.upper <= truth * 1.01
    assert found.lower >= 0.99 * truth
    assert truth * (1 - 1e-4) <= compose(uses, "batch").delta(total).upper <= truth * 1.01

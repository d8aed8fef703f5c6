"""One Gaussian above many draws: sound in every order, and as tight as claimed."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.accounting.adaptive.dynamic_program import quick_in_any_order
from setwise.accounting.bounds import _majorant, bounds_for
from setwise.accounting.brackets import Effort, Interaction
from setwise.accounting.classified_uses import classify
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange, DiscreteGaussian, Gaussian, Laplace, PureDP, Use
from setwise.accounting.methods.gaussian_majorant import in_any_order, splits_of
from setwise.accounting.notation import as_uses
from setwise.accounting.wallet import gaussian_of
from tests.sizes import examples

MANY = {
    "one small": (["bounded-range:0.01x100000"], 8.31),
    "one tiny": (["bounded-range:0.001x1000000"], 2.256),
    "beside a gaussian": (["bounded-range:0.02x20000", "gaussian:100x20000"], 11.00),
    "twenty": ([f"bounded-range:{i / 100}x50" for i in range(1, 21)], 10.34),
    "five": (
        [
            "bounded-range:0.5x10",
            "bounded-range:0.2x30",
            "bounded-range:0.1x100",
            "bounded-range:0.05x300",
            "bounded-range:0.02x1000",
        ],
        6.09,
    ),
    "far apart": (["bounded-range:0.5x5", "bounded-range:0.0005x1000"], 2.22),
}


@pytest.mark.parametrize("name", MANY)
def test_large_and_varied_sets(name):
    uses, most = MANY[name]
    answer = compose(uses).epsilon(1e-6)
    assert answer.method == "gaussian-majorant"
    assert 0.99 * answer.upper <= answer.lower <= answer.upper <= most


@pytest.mark.parametrize("interaction", ["batch", "ordered"])
def test_other_interactions_get_it_where_the_grid_is_out_of_reach(interaction):
    answer = compose(["bounded-range:0.001x1000000"], interaction).epsilon(1e-6)
    assert answer.upper <= 2.256
    assert answer.lower > 0.99 * answer.upper


def worst_order(groups):
    """Return the maximum over all orders of the recursion, by the lattice of remaining counts."""
    start = (0,) * len(groups)
    best = {start: 0.0}
    for counts in itertools.product(*(range(n + 1) for _, n in groups)):
        before = [best[tuple(c - (j == i) for j, c in enumerate(counts))] for i in range(len(groups)) if counts[i]]
        if before:
            drawn = [groups[i][0] for i in range(len(groups)) if counts[i]]
            best[counts] = max(v + use.price(v) for v, use in zip(before, drawn, strict=True))
    return best[tuple(n for _, n in groups)]


def test_the_potential_is_above_every_order_and_close_to_the_worst():
    chance = random.Random(2)
    for _ in range(12):
        groups = [
            (
                chance.choice(
                    [
                        BoundedRange(epsilon=chance.uniform(0.05, 1.0)),
                        PureDP(epsilon=chance.uniform(0.05, 0.5)),
                        Laplace(scale=chance.uniform(2.0, 10.0)),
                    ]
                ),
                chance.randint(1, 4),
            )
            for _ in range(3)
        ]
        worst = worst_order(groups)
        assert worst * (1 - 1e-12) <= in_any_order(groups) <= 1.15 * worst


def test_the_potential_is_close_for_many_draws():
    groups = [(BoundedRange(epsilon=i / 100), 50) for i in range(1, 21)]
    assert in_any_order(groups) <= 1.01 * sum(0.25 * use.epsilon**2 * count for use, count in groups)


def test_gaussians_add_their_price_and_others_are_worst_without_them():
    ranges = [(BoundedRange(epsilon=0.3), 3), (BoundedRange(epsilon=0.2), 2)]
    alone = in_any_order(ranges)
    together = in_any_order([*ranges, (Gaussian(sigma=2.0), 3)])
    assert together == pytest.approx(alone + 0.75, rel=1e-13)
    assert together >= alone + 0.75
    assert in_any_order([(DiscreteGaussian(sigma=30.0), 100)]) == pytest.approx(100 / 900, rel=1e-3)


small_sets = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.6, 1.2]), st.integers(1, 6)),
    min_size=1,
    max_size=2,
    unique_by=lambda group: group[0],
)


@given(small_sets, st.floats(0.0, 1.5), st.sampled_from([None, "gaussian:3", "pure:0.3x2"]))
@settings(max_examples=examples(25))
def test_it_is_above_the_optimum_and_its_lower_end_below(groups, total, beside):
    uses = as_uses([f"bounded-range:{e}x{n}" for e, n in groups] + ([beside] if beside else []))
    grid = next(bounds_for(classify(uses), Interaction.SETWISE, Effort()))
    optimum = grid.delta(total, None)
    majorant = _majorant(classify(uses), Interaction.SETWISE, Effort()).delta(total, None)
    assert majorant.upper >= optimum.lower
    assert majorant.lower <= optimum.upper
    everything = in_any_order([(BoundedRange(epsilon=e), n) for e, n in groups])
    alone = compose([Use(gaussian_of(everything)), *([beside] if beside else [])]).delta(total)
    assert alone.upper >= optimum.lower


BEFORE = {
    # uses: the upper end at delta = 1e-6 before there was a majorant
    ("bounded-range:0.02x10000",): 4.88894,
    ("bounded-range:0.05x2000",): 5.55346,
    ("bounded-range:0.1x1000",): 8.30744,
    ("bounded-range:0.1x30", "bounded-range:0.2x30", "laplace:10x20"): 3.5153,
    ("bounded-range:0.5x10", "bounded-range:0.2x30", "bounded-range:0.1x100"): 5.35781,
    ("bounded-range:1.0x2", "bounded-range:0.9x2", "bounded-range:0.8x2", "bounded-range:0.7x2"): 5.54543,
    ("bounded-range:0.3x40", "bounded-range:0.2x40", "gaussian:5x10"): 6.6261,
}


@pytest.mark.parametrize("uses", BEFORE, ids=" ".join)
def test_never_worse_than_before(uses):
    assert compose(uses).epsilon(1e-6).upper <= BEFORE[uses]


def test_the_upper_end_rises_with_the_count_where_the_grid_gives_way():
    counts = (1000, 1001, 5000, 5001)
    uppers = [compose([f"bounded-range:0.03x{count}"]).epsilon(1e-6).upper for count in counts]
    assert uppers == sorted(uppers)


def test_a_width_that_is_asked_for_is_met():
    answer = compose(["bounded-range:0.02x10000"]).epsilon(1e-6, width=5e-4)
    assert answer.upper - answer.lower <= 5e-4 * answer.upper


@pytest.mark.parametrize("count", [5, 10])
def test_where_one_gaussian_is_rough_more_large_parameters_stay_on_the_grid(count):
    """With two of five parameters on the grid these brackets are wider than one percent."""
    answer = compose([f"bounded-range:{epsilon}x{count}" for epsilon in (2, 1, 0.75, 0.5, 0.25)]).epsilon(1e-6)
    assert answer.width <= 0.01 * answer.upper


def test_splits_keep_large_parameters_on_the_grid_within_its_work():
    alone, better = splits_of([(0.5, 5), (0.0005, 1000)], 0.0)
    assert alone.large == ()
    assert better.large == ((0.5, 5),)
    (only,) = splits_of([(0.01, 100_000)], 0.0)
    assert only.large == ()
    assert quick_in_any_order([(0.5, 5)])
    assert not quick_in_any_order([(0.01, 100_000)])
    assert not quick_in_any_order([(0.5, 50), (0.4, 50)])

"""Answers fit together: a stronger assumption is never worse, and what an answer says of itself is true."""

import math
import subprocess
import sys
import warnings
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange, Gaussian, Use
from setwise.accounting.notation import as_uses
from tests.accounting.strategies import gaussians, pure, ranges, uses_of
from tests.sizes import crossed, examples

INTERACTIONS = ("batch", "ordered", "setwise", "adaptive")
mixed = uses_of(st.one_of(pure, ranges, ranges, gaussians), most=3, count=st.integers(1, 4))


def in_line(found):
    for weaker, stronger in pairwise(found):
        assert weaker.upper <= stronger.upper * (1 + 1e-12)
        assert weaker.lower <= stronger.lower * (1 + 1e-12)


@pytest.mark.parametrize(
    ("uses", "delta"),
    [
        (["bounded-range:0.001x2", "gaussian:1x5"], 1e-6),
        (["bounded-range:0.001x2", "gaussian:1x5"], 0.3),
        (["bounded-range:0.05x900"], 1e-2),
    ],
)
def test_a_set_close_to_a_gaussian_promises_no_more_than_a_filter(uses, delta):
    """There a filter that allows far more comes within the width of a bracket."""
    filtered = compose(uses, "adaptive").epsilon(delta)
    assert compose(uses).epsilon(delta).upper <= filtered.upper
    at = filtered.upper
    assert compose(uses).delta(at).upper <= compose(uses, "adaptive").delta(at).upper


def test_a_narrow_answer_asks_no_other_method_but_the_quick_ones():
    """Methods are imported when they are tried: here the optimum, and batches for their lower end."""
    code = (
        "import sys; from setwise.accounting.compose import compose;"
        "compose(['bounded-range:0.1x25', 'pure:0.1x25']).epsilon(1e-6);"
        "print(*(name for name in sys.modules if name.startswith('setwise.accounting.methods.')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    quick = {"setwise.accounting.methods.closed_forms"}
    assert set(run.stdout.split()) <= quick


@given(mixed, st.sampled_from([1e-3, 1e-6, 1e-12]))
@settings(max_examples=6, deadline=None)
@example(as_uses(["bounded-range:0.5x3", "pure:0.3x2", "bounded-range:0.2x4"]), 1e-6)
@example(as_uses(["bounded-range:0.1x10", "gaussian:20x5", "laplace:10x3"]), 1e-6)
@example(as_uses(["zcdp:0.02", "gaussian:10x3"]), 1e-6)
def test_a_stronger_assumption_is_never_worse(uses, delta):
    """An interaction that allows more never has a smaller upper end, nor a smaller lower end."""
    in_line([compose(uses, interaction).epsilon(delta) for interaction in INTERACTIONS])


@given(mixed, st.sampled_from([0.1, 0.5, 1.0]))
@settings(max_examples=5, deadline=None)
def test_a_stronger_assumption_never_has_a_larger_delta(uses, epsilon):
    in_line([compose(uses, interaction).delta(epsilon) for interaction in INTERACTIONS])


@pytest.mark.parametrize(
    ("uses", "delta", "epsilon"),
    [
        (["approx:0.1,1e-6"], 1e-6, 0.1),
        (["approx:0.1,1e-6", "pure:0.2x2"], 1e-6, 0.5),
        (["approx:0.1,1e-6", "bounded-range:0.2x2"], 1e-6, 0.5),
        (["approx:0,1e-6"], 1e-6, 0.0),
        (["truncated-gaussian:3,9"], 0.5, 0.0),
    ],
)
@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_uses_answer_at_their_own_delta(uses, delta, epsilon, interaction):
    """Where nothing but the failures is left of delta, epsilons add up."""
    assert compose(uses, interaction).epsilon(delta).upper == pytest.approx(epsilon, abs=0.3 if epsilon == 0 else 1e-12)


@pytest.mark.parametrize(
    ("uses", "interaction"),
    crossed(
        [
            ["zcdp:0.02x10", "gaussian:20x10"],
            ["bounded-range:0.1x4", "bounded-range:0.13x3", "bounded-range:0.21x5"],
            ["laplace:10x20", "discrete-gaussian:20x3"],
            ["bounded-range:0.05x3000"],
        ],
        ["batch", "ordered", "setwise"],
    ),
)
def test_a_width_that_is_met_anyway_is_not_refused(uses, interaction):
    found = compose(uses, interaction).epsilon(1e-6)
    width = found.width / found.upper
    asked = compose(uses, interaction).epsilon(1e-6, width=min(0.999, max(width, 1e-12) * 1.0001))
    assert asked.upper <= found.upper
    assert asked.lower >= found.lower


def test_batches_are_not_stuck_in_local_optima():
    uses = ["bounded-range:0.1126177609224564x2", "bounded-range:0.14639628077789293"]
    found = compose(uses, "batch").delta(0.19210577559629338)
    assert found.lower >= 0.0024017
    assert found.upper <= 0.002404


@pytest.mark.parametrize(
    ("uses", "delta", "about"),
    [
        (["discrete-gaussian:2674x20000"], 1e-9, ["gaussian:2674x20000"]),
        pytest.param(
            [f"discrete-gaussian:{sigma}x365" for sigma in (10, 12, 15, 20, 30, 45, 60, 80, 100, 150)],
            1e-6,
            [f"gaussian:{sigma}x365" for sigma in (10, 12, 15, 20, 30, 45, 60, 80, 100, 150)],
            marks=pytest.mark.slow,
        ),
        (["discrete-gaussian:40000,7x50"], 1e-6, ["gaussian:5714.285714285714x50"]),
    ],
)
def test_many_integer_gaussians_are_as_good_as_gaussians(uses, delta, about):
    """Large integer noise is close to a Gaussian, and gets a coarser lattice where a fine one is too long."""
    found, like = compose(uses).epsilon(delta), compose(about).epsilon(delta)
    assert found.width <= 0.01 * found.upper
    assert found.lower <= like.upper * 1.01
    assert found.upper >= like.lower * 0.99


@pytest.mark.parametrize("use", ["discrete-gaussian:0.001", "gaussian:1e-6", "gaussian:1e-6x2", "gaussian:1e-5x1000"])
def test_next_to_no_noise_is_answered_without_a_warning(use):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compose([use]).epsilon(1e-6)
    assert found.lower <= found.upper
    assert found.upper > 1e5


@pytest.mark.parametrize(
    ("uses", "interaction"),
    crossed(
        [["discrete-gaussian:2674x20000"], ["zcdp:0.001x50", "gaussian:20x100"], ["bounded-range:0.05x900"]],
        ["batch", "ordered", "setwise"],
    ),
)
def test_preregistered_uses_need_no_budget_that_is_enforced(uses, interaction):
    """An upper end that a filter would have, too, is told in the words of a set, not of a filter."""
    answer = compose(uses, interaction).epsilon(1e-9)
    assert "enforced" not in answer.statement
    assert answer.method not in ("gaussian-wallet", "zcdp-filter")


@pytest.mark.parametrize(
    ("uses", "epsilon"),
    [
        (["discrete-gaussian:0.001"], 500_000),
        (["discrete-gaussian:0.001x3"], 1_500_000),
        (["discrete-gaussian:0.02,3"], 11_250),
        (["discrete-gaussian:0.01", "discrete-gaussian:0.02"], 6_250),
        (["discrete-gaussian:0.01", "bounded-range:0.1x3"], 5_000),
    ],
)
def test_integer_noise_that_is_nearly_never_there_has_a_lower_end(uses, epsilon):
    """The noise is 0, and the loss s^2 / (2 sigma^2) each: [0, 505250] was said of the first."""
    found = compose(uses).epsilon(1e-6)
    assert found.lower == pytest.approx(epsilon, rel=1e-3)
    assert found.upper <= 1.01 * epsilon
    if len(uses) == 1:
        exact = epsilon + math.log1p(-1e-6)  # 1 - exp(x - total) = 1e-6
        assert found.lower <= exact * (1 + 1e-15)
        assert found.upper == pytest.approx(exact, rel=1e-14)


PARAMETERS = {
    "pure": ("0.02", "0.3"),
    "bounded-range": ("0.02", "0.4"),
    "laplace": ("30", "3"),
    "gaussian": ("40", "2"),
    "discrete-laplace": ("30", "3"),
    "discrete-gaussian": ("40", "2"),
    "zcdp": ("0.0001", "0.02"),
    "approx": ("0.02,1e-9", "0.3,1e-9"),
    "truncated-gaussian": ("12,90", "3,90"),
}
"""Of every kind, one of small loss and one of large."""


@pytest.mark.parametrize(
    ("kind", "beside", "interaction"),
    crossed(
        list(PARAMETERS), ["bounded-range:0.1x5", "gaussian:10x3", "pure:0.05x4"], ["batch", "setwise", "adaptive"]
    ),
)
def test_a_larger_parameter_never_lowers_the_upper_end(kind, beside, interaction):
    small, large = (compose([f"{kind}:{each}x3", beside], interaction) for each in PARAMETERS[kind])
    assert small.epsilon(1e-6).upper <= large.epsilon(1e-6).upper
    assert small.delta(0.5).upper <= large.delta(0.5).upper


@given(
    uses_of(st.one_of(pure, ranges, gaussians), most=3, count=st.integers(1, 4)),
    st.integers(0, 2),
    st.sampled_from([1.0001, 1.01, 1.3]),
    st.sampled_from(["batch", "ordered", "setwise", "adaptive"]),
)
@settings(max_examples=8, deadline=None)
def test_a_little_more_of_a_parameter_lowers_the_upper_end_by_no_more_than_a_grid_does(
    uses, place, factor, interaction
):
    """On a grid the upper end is known to a thousandth, and one grid may be a little luckier than the next."""
    use = uses[place % len(uses)]
    larger = [Use(raised(each.guarantee, factor), each.count) if each is use else each for each in uses]
    small, large = (compose(each, interaction).epsilon(1e-6) for each in (uses, larger))
    on_a_grid = any(isinstance(each.guarantee, BoundedRange) for each in uses)
    assert large.upper >= small.upper * (1 - (1e-3 if on_a_grid else 1e-12))


def raised(guarantee, factor):
    if isinstance(guarantee, Gaussian):
        return Gaussian(sigma=guarantee.sigma / factor)
    return type(guarantee)(epsilon=guarantee.epsilon * factor)


@given(
    uses_of(st.one_of(pure, ranges, gaussians), most=3, count=st.integers(1, 4)),
    st.integers(0, 2),
    st.integers(1, 3),
    st.sampled_from(["batch", "setwise"]),
)
@settings(max_examples=8, deadline=None)
def test_a_larger_count_never_lowers_the_upper_end(uses, place, more, interaction):
    use = uses[place % len(uses)]
    larger = [Use(each.guarantee, each.count + more) if each is use else each for each in uses]
    assert compose(larger, interaction).epsilon(1e-6).upper >= compose(uses, interaction).epsilon(1e-6).upper


GROWING = [
    (("bounded-range:0.033x2",), "bounded-range:0.0002", "ordered", 1e-6),
    (("pure:0.0913x30", "gaussian:14.84x1", "bounded-range:0.1252x30"), "discrete-gaussian:1667", "setwise", 1e-3),
    (("bounded-range:0.8386x1", "laplace:66.23x1", "bounded-range:0.2136x1"), "bounded-range:0.0128", "batch", 1e-3),
    (("discrete-gaussian:1x2", "gaussian:17.95x1", "pure:0.016x10"), "laplace:5000", "batch", 1e-3),
    (("pure:0.196x30", "pure:0.4211x1"), "bounded-range:0.0012", "setwise", 1e-6),
]
"""Sets whose upper end one further small use lowered by up to 0.15% while every set was computed by itself."""


@pytest.mark.parametrize(("uses", "extra", "interaction", "delta"), GROWING)
def test_a_further_small_use_never_lowers_what_is_stated(uses, extra, interaction, delta):
    before = compose(uses, interaction).epsilon(delta)
    after = compose([*uses, extra], interaction).epsilon(delta)
    assert after.upper >= before.upper
    assert after.lower >= before.lower
    about = compose(uses, interaction).delta(before.upper * 0.9)
    assert compose([*uses, extra], interaction).delta(before.upper * 0.9).upper >= about.upper


small_uses = st.one_of(
    st.sampled_from(["gaussian:20000", "laplace:30000", "discrete-gaussian:15000", "bounded-range:0.0001", "pure:1e-5"])
)
large_uses = st.one_of(pure, ranges, gaussians).filter(lambda guarantee: guarantee.zero_concentrated().rho > 1e-4)


@given(
    st.lists(st.builds(Use, large_uses, st.integers(1, 6)), min_size=1, max_size=2),
    small_uses,
    st.sampled_from(["batch", "ordered", "setwise", "adaptive"]),
    st.sampled_from([1e-3, 1e-6, 1e-12]),
)
@settings(max_examples=examples(25), deadline=None)
def test_a_kind_smaller_than_all_others_never_lowers_either_end(uses, extra, interaction, delta):
    """Exact, without a tolerance: the sets that are compared for the larger set are those of the smaller one."""
    before = compose(uses, interaction).epsilon(delta)
    after = compose([*uses, extra], interaction).epsilon(delta)
    assert after.upper >= before.upper
    assert after.lower >= before.lower


@pytest.mark.parametrize(
    ("uses", "extra", "interaction", "delta"),
    [
        (("bounded-range:0.0041x3", "gaussian:33.33x3", "laplace:33.33x2"), "zcdp:0.125", "ordered", 1e-12),
        (("bounded-range:0.2967x100", "laplace:2.822x10"), "zcdp:0.005", "setwise", 1e-5),
        (("bounded-range:0.014x10",), "zcdp:0.0032x100", "batch", 1e-6),
        (("bounded-range:0.2x20", "pure:0.1x10"), "zcdp:0.02", "ordered", 1e-6),
        (("pure:0.52x1", "gaussian:62.5x1", "bounded-range:0.0053x1"), "zcdp:2e-06,0,1e-9", "ordered", 1e-3),
        (("zcdp:5e-05x1", "discrete-gaussian:1x1", "laplace:227.3x100"), "bounded-range:0.042", "ordered", 1e-12),
    ],
)
def test_a_zcdp_use_beside_others_keeps_their_lower_end(uses, extra, interaction, delta):
    before = compose(uses, interaction).epsilon(delta)
    after = compose([*uses, extra], interaction).epsilon(delta)
    assert 0.0 < before.lower <= after.lower * (1 + 1e-9)


@pytest.mark.parametrize(
    ("uses", "extra", "delta"),
    [
        (("bounded-range:0.516x5", "gaussian:85.5x10"), "laplace:7.14", 1e-40),
        (("bounded-range:0.173x2", "gaussian:28.8x1"), "gaussian:12.9", 1e-89),
        (("bounded-range:0.892x1", "gaussian:13.1x1"), "laplace:2.24", 1e-40),
        (("bounded-range:0.238x1", "gaussian:64.2x1"), "gaussian:12.1", 1e-40),
        (("bounded-range:0.219x5", "gaussian:36.9x3"), "gaussian:15.1", 1e-40),
    ],
)
def test_at_very_small_deltas_a_further_use_does_not_lower_the_upper_end(uses, extra, delta):
    """Bounded ranges beside Gaussians had upper ends up to three times as large as a larger set's."""
    before = compose(uses).epsilon(delta)
    after = compose([*uses, extra]).epsilon(delta)
    assert after.upper >= before.upper
    assert after.lower >= before.lower


@pytest.mark.parametrize("interaction", ["batch", "ordered", "setwise"])
@pytest.mark.parametrize(
    ("ranges", "gaussian"), [("0.276", "90.6x3"), ("0.516x5", "85.5x10"), ("0.986x2", "94.5x3"), ("0.25x5", "26.3x3")]
)
def test_bounded_ranges_beside_gaussians_add_at_most_their_losses_at_very_small_deltas(ranges, gaussian, interaction):
    """A use whose losses are at most s shifts the profile by at most s."""
    epsilon, _, count = ranges.partition("x")
    shift = float(epsilon) * int(count or 1)
    alone = compose([f"gaussian:{gaussian}"]).epsilon(1e-89)
    both = compose([f"bounded-range:{ranges}", f"gaussian:{gaussian}"], interaction)
    found = both.epsilon(1e-89)
    # Randomized response with half the epsilon has bounded range, so its epsilon is never above the upper end.
    response = compose([f"pure:{float(epsilon) / 2}x{count or 1}", f"gaussian:{gaussian}"]).epsilon(1e-89)
    assert alone.lower < response.lower <= found.upper <= (alone.upper + shift) * (1 + 1e-12)
    at = (alone.upper + shift) * (1 + 1e-9)
    assert both.delta(at).upper <= 1e-89

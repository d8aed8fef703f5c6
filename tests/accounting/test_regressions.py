"""Inputs that once got a wrong or useless answer."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from setwise.accounting import bound
from setwise.accounting.adaptive import stages
from setwise.accounting.adaptive.operator import specification
from setwise.accounting.adaptive.optimum import Optimum, _solved_on_grid
from setwise.accounting.bounds import bounds_for
from setwise.accounting.brackets import Effort, Interaction
from setwise.accounting.calibrate import largest_count, parse_plan, smallest_noise
from setwise.accounting.classified_uses import classify
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import DiscreteLaplace, Gaussian, PureDP, Use
from setwise.accounting.losses.dominating_pairs import tabulate_loss
from setwise.accounting.methods import gaussian_majorant
from setwise.accounting.notation import as_uses
from setwise.errors import InvalidParameter, Unattainable


def pure_beside_gaussian(epsilon, count, sigma, total):
    """The exact delta of `count` randomized responses and one Gaussian."""
    with mpmath.workdps(60):
        e, s, g = mpmath.mpf(epsilon), mpmath.mpf(sigma), mpmath.mpf(total)
        keep = 1 / (1 + mpmath.exp(-e))

        def gaussian(x):
            return mpmath.ncdf(1 / (2 * s) - x * s) - mpmath.exp(x) * mpmath.ncdf(-1 / (2 * s) - x * s)

        terms = (
            mpmath.binomial(count, low)
            * keep ** (count - low)
            * (1 - keep) ** low
            * gaussian(g - (count - 2 * low) * e)
            for low in range(count + 1)
        )
        return mpmath.fsum(terms)


@pytest.mark.parametrize(
    ("epsilon", "sigma", "total"),
    [(10.068, 1e12, 302.03999999999996), (0.1, 1e12, 3.0), (13.032, 1e6, 390.96), (17.54, 1e3, 526.1999999999999)],
)
def test_positions_next_to_the_largest_loss(epsilon, sigma, total):
    answer = compose([f"pure:{epsilon}x30", f"gaussian:{sigma}"]).delta(total)
    assert answer.lower <= pure_beside_gaussian(epsilon, 30, sigma, total) <= answer.upper


@pytest.mark.parametrize(
    ("uses", "total"),
    [
        (["gaussian:20", "bounded-range:2x4"], 4.5),
        (["gaussian:16.994", "bounded-range:0.454x3"], 1.0),
        (["gaussian:100x10", "bounded-range:0.1x10"], 1.2),
        (["laplace:27.44x25", "bounded-range:0.01x10"], 0.99),
    ],
)
def test_beyond_half_the_range_brackets_are_narrow(uses, total):
    answer = compose(uses).delta(total)
    assert answer.width <= 0.06 * answer.upper


def test_profiles_that_are_flat_at_the_end_stay_bounded():
    answer = compose(["bounded-range:0.855x100"]).delta(55.0)
    assert 0.0 < answer.lower <= answer.upper < 1e-20


def test_a_plan_keeps_its_order():
    _, plan = parse_plan(["laplace:?x5", "bounded-range:0.3x5"])
    found = smallest_noise(plan, epsilon=1.8, delta=1e-6, interaction="ordered")
    assert compose([f"laplace:{found.value!r}x5", "bounded-range:0.3x5"], "ordered").delta(1.8).upper <= 1e-6


@pytest.mark.parametrize("text", ["pure:?5x3", "pure:0.1x?5", "gaussian:?e9x3", "gaussian:?,3x5", "?:1x2"])
def test_a_plan_with_more_than_a_question_mark_is_refused(text):
    with pytest.raises(InvalidParameter):
        parse_plan([text])


def test_tiny_deltas_come_to_an_end():
    uses = ["pure:0.1x25", "bounded-range:0.1x25"]
    command = [sys.executable, "-m", "setwise.cli.main", "compose", *uses, "--delta", "1e-100", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["epsilon"]["upper"] <= 5.0 * (1 + 1e-12)


def test_hardly_any_noise_is_no_overflow():
    assert compose(["bounded-range:0.05x520", "gaussian:0.002x520"]).delta(4.5).upper == 1.0


@pytest.mark.parametrize("delta", [1e-5, 1e-15])
def test_round_off_far_from_the_tilt_does_not_refuse_an_answer(delta):
    """Undoing the tilt magnified round-off far to its left, so that the certified optimum never came down to delta."""
    uses = ["bounded-range:0.188x5", "bounded-range:0.1696x5", "bounded-range:0.2141x5"]
    answer = compose([*uses, "discrete-gaussian:15.39,1x5", "discrete-laplace:100,100"]).epsilon(delta)
    assert answer.method == "certified-optimum"
    assert answer.width <= 2e-3 * answer.upper


def test_large_noise_before_ordered_ranges():
    uses = ["gaussian:28.93x2", "discrete-laplace:56.9,2x4", "bounded-range:0.1207x2", "bounded-range:0.4028x4"]
    answer = compose(uses, "ordered").epsilon(1.6645679936736766e-06)
    assert answer.width <= 5e-3 * answer.upper


@pytest.mark.parametrize(
    ("uses", "delta"),
    [
        (
            ["discrete-laplace:23.6,2x2", "bounded-range:0.3643x6", "bounded-range:0.415x3", "bounded-range:0.3644x4"],
            4e-12,
        ),
        (["bounded-range:0.1548x1", "discrete-laplace:84.3,3x1"], 6e-14),
        (["bounded-range:0.0456x8", "bounded-range:0.1196x7", "pure:0.1157x4", "laplace:4.11x3"], 7e-14),
    ],
)
def test_near_the_largest_loss_an_order_is_not_bounded_by_its_sum(uses, delta):
    """Ranges rounded up to the grid reach past the sum of the epsilons, and losses on a lattice past the largest."""
    answer = compose(uses, "ordered").epsilon(delta)
    assert answer.method in {"certified-optimum", "basic-composition", "exact"}
    assert answer.width <= 0.01 * answer.upper


def test_a_long_linear_stage_between_ranges_is_coarsened_before_it_is_refused(monkeypatch):
    uses = ["bounded-range:0.05x3", "gaussian:2", "bounded-range:0.3x3"]
    optimum = next(bounds_for(classify(as_uses(uses)), Interaction.ORDERED, Effort()))
    assert optimum.method == "certified-optimum"
    fine = optimum.delta(1.5, None)
    monkeypatch.setattr(stages, "CONFIG", replace(stages.CONFIG, most_reads=3e5))
    bound._solve.cache_clear()  # answers are kept, and so are grids
    _solved_on_grid.cache_clear()
    coarse = optimum.delta(1.5, None)
    assert coarse.lower <= fine.upper
    assert fine.lower <= coarse.upper
    assert fine.width < coarse.width <= 0.5 * coarse.upper


@pytest.mark.parametrize(
    ("uses", "delta"),
    [
        (["bounded-range:0.02x300", "discrete-laplace:100x300"], 1e-30),
        (["bounded-range:0.02x3000", "approx:0,5e-10", "laplace:100x3000"], 1e-9),
    ],
)
def test_many_uses_far_out_are_narrow_on_the_first_grid(uses, delta, monkeypatch):
    """Grids used to end too early for small deltas, and round-off at typical losses to drown the tail."""
    grids = []
    solved = Optimum._solve_on_grid

    def counted(self, *args):
        grids.append(args)
        return solved(self, *args)

    monkeypatch.setattr(Optimum, "_solve_on_grid", counted)
    bounds = bounds_for(classify(as_uses(uses)), Interaction.SETWISE, Effort())
    found = next(bound for bound in bounds if bound.method == "certified-optimum").epsilon(delta, None)
    assert found.relative_width <= 2e-3
    assert len(grids) == 1


def test_what_drowns_in_round_off_is_given_up_early():
    steps = []
    uses = ["bounded-range:0.002x3000", "approx:0,5e-31", "discrete-laplace:1000x1000"]
    assert compose(uses, progress=steps.append).epsilon(1e-30).method == "gaussian-majorant"
    assert len(steps) < 2000


def test_losses_whose_common_unit_is_tiny_are_tabulated_on_a_usual_lattice():
    """The lattice had the common unit of all losses, too fine for any transform, and the bracket was 12% wide."""
    uses = "discrete-laplace:4.5,1x3 discrete-laplace:60.3,5x3 discrete-laplace:8525,500x3 bounded-range:0.1658x3"
    answer = compose([*uses.split(), "discrete-laplace:603,50x3"]).epsilon(1e-8)
    assert answer.method == "certified-optimum"
    assert answer.width < 1e-3 * answer.upper


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1.0, 5.0, 300.0])
@pytest.mark.parametrize("interaction", ["batch", "ordered", "setwise"])
def test_one_pick_alone_has_a_closed_form(epsilon, interaction):
    """(exp(epsilon / 2) - exp(x / 2))^2 / (exp(epsilon) - 1), at 50 digits; its bracket was 1e-4 wide."""
    composition = compose([f"bounded-range:{epsilon}"], interaction)
    with mpmath.workdps(50):
        for share in (0.0, 0.2, 0.9, 0.999999):
            x = share * epsilon
            truth = (mpmath.exp(mpmath.mpf(epsilon) / 2) - mpmath.exp(mpmath.mpf(x) / 2)) ** 2 / mpmath.expm1(epsilon)
            found = composition.delta(x)
            assert found.lower <= truth <= found.upper
            assert found.upper <= truth * (1 + mpmath.mpf(1e-12))
            if epsilon <= 5.0 and share < 0.99:
                tried = specification(lambda at: np.maximum(0.0, -np.expm1(np.minimum(at, 0.0))), epsilon, x)
                assert tried == pytest.approx(float(truth), rel=1e-5)
    assert composition.delta(epsilon).upper == 0.0


@pytest.mark.parametrize("uses", ["bounded-range:{}x2", "pure:{}x2 bounded-range:{}", "bounded-range:{}x5"])
def test_tiny_picks_cost_in_proportion_to_their_epsilon(uses):
    """Positions on the grid left the range of integers; a lower end was that of twice the epsilon."""

    def epsilon(tiny):
        return compose(uses.replace("{}", repr(tiny)).split()).epsilon(0.1 * tiny)

    usual = epsilon(1e-6)
    for tiny in (1e-9, 1e-11, 1e-12):
        found = epsilon(tiny)
        assert found.lower / tiny <= usual.upper / 1e-6 * (1 + 1e-5)
        assert found.upper / tiny >= usual.lower / 1e-6 * (1 - 1e-5)
        assert found.upper / tiny <= 2 * usual.upper / 1e-6


@pytest.mark.parametrize("interaction", list(Interaction))
@pytest.mark.parametrize(
    "use", ["truncated-gaussian:0.5,20,1", "truncated-gaussian:0.5,20,1x5", "truncated-gaussian:1,45,1"]
)
def test_noise_whose_rarest_value_underflows_composes_like_untruncated_noise(use, interaction):
    """A bound 40 deviations out changes no probability that a float can hold."""
    answer = compose([use], interaction).epsilon(1e-6)
    sigma, bound_and_count = use.removeprefix("truncated-gaussian:").split(",", 1)
    count = bound_and_count.partition("x")[2] or "1"
    untruncated = compose([f"discrete-gaussian:{sigma}x{count}"], interaction).epsilon(1e-6)
    assert answer.lower <= untruncated.upper * (1 + 1e-9)
    assert untruncated.lower <= answer.upper * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-6, 2.5e-7])
def test_a_count_up_to_the_limit_is_found_without_trying_a_larger_one(epsilon):
    most = 10**9
    assert largest_count(lambda count: [Use(PureDP(epsilon=epsilon), count)], epsilon=1.0, delta=1e-6).value == most
    tried = []

    def plan(count):
        tried.append(count)
        return [Use(Gaussian(sigma=20), count)]

    assert largest_count(plan, epsilon=1.0, delta=1e-6, most=20).value == 20
    assert max(tried) <= 20


def test_a_batch_keeps_no_more_uses_on_the_grid_than_its_own_bound_needs(monkeypatch):
    """A batch of eleven sizes took 33 s: splits for the adaptive optimum, which is above its own bound anyway."""
    asked = []
    splits_of = gaussian_majorant.splits_of

    def recorded(groups, variance, *, thorough=False):
        asked.append(thorough)
        return splits_of(groups, variance, thorough=thorough)

    monkeypatch.setattr(gaussian_majorant, "splits_of", recorded)
    answer = compose([f"bounded-range:{0.1 * 1.15**size:.4f}x5" for size in range(7)], "batch").epsilon(1e-6)
    assert not asked
    assert answer.width < 0.01 * answer.upper


@pytest.mark.parametrize(
    "table",
    [
        lambda: tabulate_loss(Gaussian(sigma=1e-6), 1e-3).upper,
        lambda: tabulate_loss(PureDP(epsilon=500.0), 1e-9).upper,
        lambda: tabulate_loss(PureDP(epsilon=500.0), 1e-300).lower,
        lambda: tabulate_loss(DiscreteLaplace(scale=1e12, sensitivity=10**12), 1.0),
    ],
    ids=["little Gaussian noise", "distant losses", "losses beyond all integers", "a large sensitivity"],
)
def test_tables_that_would_fill_the_memory_are_refused(table):
    with pytest.raises(Unattainable, match="would need a table"):
        table()


def test_much_noise_beside_hardly_any_is_answered_from_sums():
    """A table of the smaller noise in steps of the larger one would have 10^8 points; it was allocated."""
    answer = compose(["zcdp:1000x1000000", "laplace:7x5"], "batch").epsilon(1e-30)
    assert 1e9 < answer.lower <= answer.upper < 1.001e9


def test_the_smallest_delta_raises_no_warning():
    uses = ["laplace:2039294262.391964x5", "cdp:0.009597108035561663,0.36381392742307694x9253", "cdp:0.0154,0.00422"]
    with np.errstate(over="raise"):
        answer = compose(uses, "ordered").epsilon(5e-324)
    assert 0.0 < answer.lower <= answer.upper < 1500.0


@pytest.mark.parametrize(
    ("use", "delta", "most"),
    [
        ("discrete-laplace:0.03185459783287319,2x5272", 1e-300, 331004.1),
        ("discrete-laplace:0.028255448265489428,3x5393", 1e-30, 572597.6),
        ("discrete-laplace:35.941799884090294,1000x48111086", 1e-3, 1.34e9),
    ],
)
def test_losses_far_from_the_tilt_do_not_overflow(use, delta, most):
    """Charged masses exceeded 1 by 300 decimal orders, and their sums overflowed with a warning."""
    with np.errstate(over="raise"):
        answer = compose(use, "batch").epsilon(delta)
        chances = compose(use, "batch").delta(1e5)
    assert 0.0 <= answer.lower <= answer.upper <= most
    assert chances.upper == 1.0


def test_no_grid_is_computed_twice_for_a_delta(monkeypatch):
    """A run for the upper end alone came first, and was always repeated for both ends."""
    cells = []
    solve = Optimum._solve_on_grid

    def recorded(self, epsilon, tilt, trial, *begin):
        cells.append((trial.cells, trial.stretch, trial.tilt_share))
        return solve(self, epsilon, tilt, trial, *begin)

    monkeypatch.setattr(Optimum, "_solve_on_grid", recorded)
    answer = compose("bounded-range:0.3x501").delta(12.0)
    assert len(cells) == len(set(cells)) > 0
    assert answer.width <= 1e-3 * answer.upper


@pytest.mark.parametrize(("scale", "uses"), [(63, 7), (63, 12), (200, 10)])
@pytest.mark.parametrize("delta", [1e-8, 1e-13, 1e-20])
def test_a_few_laplace_uses_next_to_their_largest_loss_have_both_ends(scale, uses, delta):
    """Rounding spoilt the table for the largest tilt, so the answer was from 0 to the sum of all losses."""
    largest = uses / scale
    answer = compose(f"laplace:{scale}x{uses}").epsilon(delta)
    reached = largest + math.log1p(-delta * 2.0**uses)  # by the outcomes alone in which every loss is the largest
    assert reached * (1 - 1e-9) <= answer.upper <= largest * (1 + 1e-9)
    assert answer.width <= 1e-3 * answer.upper
    assert compose(f"laplace:{scale}x{uses}").delta(answer.lower).upper >= delta

"""Sets that take long unless their structure is used: thousands of large ranges, several ranges, tiny losses."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from setwise import compose
from setwise.accounting import bounds
from setwise.accounting.adaptive import dynamic_program, refinement
from setwise.accounting.adaptive.operator import BoundedRangeStep
from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.adaptive.profiles import nothing_to_come
from setwise.accounting.adaptive.refinement import Trial, refine
from setwise.accounting.adaptive.stages import RangeStage
from setwise.accounting.bounds import reached_by_adapting
from setwise.accounting.brackets import Bracket, Interaction, Target
from setwise.accounting.classified_uses import classify
from setwise.accounting.methods import closed_forms
from setwise.accounting.notation import as_uses


def stepped(epsilon, cells, steps):
    """Return the profile of `steps` uses on a grid that leaves nothing out."""
    operator = BoundedRangeStep(epsilon, cells, epsilon / cells)
    profile = nothing_to_come(epsilon / cells)
    for used in range(1, steps + 1):
        profile = operator.apply(profile, used * cells + 2)
    return operator, profile


def test_a_profile_without_its_left_part_stays_on_the_safe_side():
    operator, profile = stepped(4.0, 16, 30)
    first = round(60.0 / profile.step)
    cut = profile.without_points_before(first)
    whole = cut.whole()
    assert (whole.upper >= profile.upper * (1 - 1e-12)).all()
    assert (whole.lower <= profile.lower * (1 + 1e-12)).all()
    assert whole.upper[0] <= 1.0
    size = profile.upper.size
    after, after_cut = operator.apply(profile, size), operator.apply(cut, size - first).whole()
    assert (after_cut.upper * (1 + after_cut.rounding) >= after.upper * (1 - 1e-12)).all()
    assert (after_cut.lower * (1 - after_cut.rounding) <= after.lower * (1 + 1e-12)).all()
    beyond_one_use = slice(first + operator.cells, None)
    assert np.allclose(after_cut.upper[beyond_one_use], after.upper[beyond_one_use], rtol=1e-9, atol=0.0)


def test_the_chord_on_the_left_of_a_profile_continues_it_convexly():
    _, profile = stepped(4.0, 16, 30)
    upper = profile.without_points_before(round(80.0 / profile.step)).whole().upper
    drop = upper[:-1] - upper[1:]
    known = np.flatnonzero(drop > 1e-9)  # more than rounding
    assert known[0] < round(80.0 / profile.step) < known[-1]
    slopes = drop[known] * np.exp(-profile.step * (known - known[0]))  # in u = e^x, up to a constant factor
    assert (np.diff(slopes) <= 1e-6 * slopes[:-1]).all()


def test_leaving_out_the_left_part_of_profiles_hardly_widens_a_bracket():
    optimum = Optimum((RangeStage(((2.0, 120),)),), Bracket(0.0, 0.0))
    saddle = optimum._saddle()
    tilt = saddle.moderate(saddle.for_delta(1e-6))
    about = saddle.at(tilt)[1]
    all_of_it, part = (
        optimum._solve_on_grid(about, tilt, Trial(24), begin).epsilon(1e-6, 1e-9, about) for begin in (0.0, 0.9 * about)
    )
    assert all_of_it.upper * (1 - 1e-9) <= part.upper <= all_of_it.upper * (1 + 1e-7)
    assert all_of_it.lower * (1 - 1e-7) <= part.lower <= all_of_it.lower * (1 + 1e-9)


def test_where_nearly_everything_is_revealed_no_grid_is_needed(monkeypatch):
    monkeypatch.setattr(Optimum, "_solve_on_grid", None)
    bound = compose(["bounded-range:0.69x6849"]).delta(100.0)
    assert bound.upper == 1.0
    assert bound.lower > 0.999


@pytest.mark.parametrize("interaction", ["batch", "ordered", "setwise"])
@pytest.mark.parametrize("uses", [["bounded-range:2x4", "pure:1e-5x2"], ["bounded-range:1e-5", "bounded-range:1.5x3"]])
def test_uses_with_next_to_no_loss_only_shift_epsilon(uses, interaction, monkeypatch):
    apart = compose(uses, interaction).epsilon(1e-3), compose(uses, interaction).delta(2.0)
    assert all(each.statement.endswith("losses that hardly count") for each in apart if each.method != "exact")
    monkeypatch.setattr(bounds, "CONFIG", replace(bounds.CONFIG, small_losses=-1.0))
    together = compose(uses, interaction).epsilon(1e-3), compose(uses, interaction).delta(2.0)
    for one, other in zip(apart, together, strict=True):
        assert one.upper >= other.lower
        assert one.lower <= other.upper
        assert one.upper <= other.upper * 1.003


def test_a_large_batch_beside_next_to_no_loss_is_as_narrow_as_alone():
    alone = compose(["bounded-range:500x5627"], "batch").epsilon(1e-6)
    beside = compose(["bounded-range:500x5627", "pure:2e-6x10"], "batch").epsilon(1e-6)
    assert alone.upper + 2e-5 <= beside.upper <= alone.upper + 2.1e-5
    assert beside.lower == alone.lower


FOUR = ["bounded-range:0.3x4", "bounded-range:0.37x4", "bounded-range:0.45x4", "bounded-range:0.6x4"]


def test_a_batch_of_several_ranges_skips_only_interactions_that_cost_more():
    found = [compose(FOUR, interaction).epsilon(1e-6) for interaction in ("batch", "ordered", "setwise")]
    for weaker, stronger in pairwise(found):
        assert weaker.upper <= stronger.upper
        assert weaker.lower <= stronger.lower
    kinds = classify(as_uses(FOUR))
    for interaction, bound in zip((Interaction.ORDERED, Interaction.SETWISE), found[1:], strict=True):
        reached = reached_by_adapting(kinds, interaction, Target("epsilon", 1e-6))
        assert found[0].upper <= reached <= bound.upper


def runs_of(width, work):
    """Return the numbers of cells that `refine` tries if a bracket is 3 / cells^2 wide."""
    tried = []

    def attempt(trial):
        tried.append(trial.cells)
        return Bracket(1.0 - 3.0 / trial.cells**2, 1.0)

    refine(attempt, work, width=width, aim=1e-3, exact=True, tilted=False, sharpness=1.0, floor=None)
    return tried


def test_a_slow_grid_is_only_as_fine_as_its_default_width_needs():
    assert len(runs_of(None, lambda _: 1e6)) > 1
    slow = runs_of(None, lambda cells: 1e7 * cells)
    assert len(slow) == 1
    assert 1e7 * slow[0] <= max(refinement.CONFIG.quick_work, 1e7 * refinement.CONFIG.fewest_cells)
    assert len(runs_of(1e-3, lambda cells: 1e6 * cells)) > 1


def test_the_batch_of_many_uses_is_evaluated_only_next_to_its_epsilon(monkeypatch):
    """Far from it, where delta is near 1, one evaluation takes up to a second: a search from 1 on took 20 s."""
    asked = []
    delta = closed_forms.BatchBoundedRange.delta

    def recorded(batch, epsilon):
        asked.append(epsilon)
        return delta(batch, epsilon)

    monkeypatch.setattr(closed_forms.BatchBoundedRange, "delta", recorded)
    found = compose(["bounded-range:0.31x2000"], "batch").epsilon(1e-6)
    assert found.width <= 1e-9 * found.upper
    assert min(epsilon for epsilon in asked if epsilon > 0.0) >= 0.9 * found.upper


@pytest.mark.parametrize("interaction", ["batch", "ordered"])
def test_a_grid_for_large_ranges_is_long_enough_at_once(interaction, monkeypatch):
    """A first grid that ends below the answer is wasted, and the next one took ten seconds."""
    trials = []
    solve = Optimum._solve_on_grid

    def recorded(self, about, tilt, trial, begin=0.0):
        trials.append(trial)
        return solve(self, about, tilt, trial, begin)

    monkeypatch.setattr(Optimum, "_solve_on_grid", recorded)
    bound = compose(["bounded-range:3x200", "bounded-range:2.1x200", "bounded-range:1.3x200"], interaction).epsilon(
        1e-6
    )
    assert bound.width <= 2e-3 * bound.upper
    assert trials
    assert {trial.stretch for trial in trials} == {1.0}


def test_epsilons_that_only_a_very_fine_grid_has_on_its_points_are_not_quick_by_the_hundreds():
    """Such a grid has up to four times the cells, and its ends sixteen times the work."""
    assert dynamic_program.quick_in_one_order([(0.04, 35), (0.02, 20), (0.08, 685)])
    assert not dynamic_program.quick_in_one_order([(0.0395, 35), (0.0155, 19), (0.0744, 685), (0.02, 3)])
    assert dynamic_program.quick_in_one_order([(0.0395, 5), (0.0155, 9), (0.0744, 5), (0.02, 3)])


def test_many_different_ranges_in_one_order_have_a_bound_without_a_fine_grid():
    uses = ["bounded-range:0.0395x35", "bounded-range:0.0155x19", "bounded-range:0.0744x685", "bounded-range:0.02x3"]
    bound = compose(uses, "ordered").epsilon(4e-8)
    assert bound.width <= 2e-3 * bound.upper


def test_a_bracket_that_no_finer_grid_narrows_takes_one_more_grid_of_twice_the_cells():
    """Four times the cells took sixteen times as long, in vain: calibration in a fixed order took half a minute."""
    tried = []

    def attempt(trial):
        tried.append(trial.cells)
        return Bracket(0.87, 1.0)

    refine(attempt, lambda _: 1e6, width=None, aim=1e-3, exact=True, tilted=False, sharpness=1.0, floor=None)
    assert len(tried) == 2
    assert tried[1] <= 2 * tried[0]

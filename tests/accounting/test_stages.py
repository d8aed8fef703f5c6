"""What a linear stage does to the profile of what follows."""

from fractions import Fraction

import numpy as np
import pytest

from setwise.accounting.adaptive import stages
from setwise.accounting.adaptive.profiles import Band, TailProfile, nothing_to_come
from setwise.accounting.adaptive.stages import LinearStage, average_over_losses, profile_alone
from setwise.accounting.classified_uses import classify
from setwise.accounting.compose import compose
from setwise.accounting.notation import as_uses

STAGES = [
    ["gaussian:2x3"],
    ["laplace:1.5x4"],
    ["pure:0.3x6"],
    ["pure:0.3x2", "pure:0.17"],
    ["laplace:3x2", "gaussian:4"],
]


@pytest.mark.parametrize("uses", STAGES)
def test_a_last_stage_has_the_delta_of_its_own_uses(uses):
    stage = LinearStage(classify(as_uses(uses)).linear)
    band = Band(0.02, 2.0, stage.variance, depth=14.0)
    profile = profile_alone(stage, band, tilt=2.0).profile
    for point in (0, 1, 25, 40):
        truth = compose(uses).delta(point * band.step)
        assert profile.lower[point] <= truth.upper
        assert truth.lower <= profile.upper[point] * (1 + 1e-15)
        assert profile.upper[point] - profile.lower[point] <= 2e-4 * truth.upper


@pytest.mark.parametrize("uses", STAGES)
def test_a_last_stage_is_an_average_over_nothing_to_come(uses):
    stage = LinearStage(classify(as_uses(uses)).linear)
    band = Band(0.05, 2.0, stage.variance, depth=14.0)
    found = profile_alone(stage, band, tilt=2.0).profile
    general = average_over_losses(stage, TailProfile(nothing_to_come(0.05)), band, tilt=2.0).profile
    size = min(found.upper.size, general.upper.size)
    assert (found.lower[:size] <= general.upper[:size] * (1 + 1e-9)).all()
    assert (general.lower[:size] <= found.upper[:size] * (1 + 1e-9)).all()
    assert (found.upper[:size] <= general.upper[:size] * (1 + 1e-6) + 1e-13).all()


@pytest.mark.parametrize("grid", [0.05, 0.003])
def test_reading_once_is_reading_at_every_loss(grid, monkeypatch):
    """A Gaussian's lattice is finer than the first grid and coarser than the second; both are read like any losses."""
    stage = LinearStage(classify(as_uses(["gaussian:2x3"])).linear)
    band = Band(grid, 2.0, 2 * stage.variance, depth=14.0)
    after = profile_alone(LinearStage(classify(as_uses(["pure:0.3x6"])).linear), band, tilt=2.0)
    steps = [stages._steps_of_lattice(atoms.loss, grid) for atoms in stages.losses(stage, 2.0, 4e-5, grid)]
    assert all(found is not None and found != 1 for found in steps)
    once = average_over_losses(stage, after, band, tilt=2.0).profile
    monkeypatch.setattr(stages, "_steps_of_lattice", lambda loss, grid: None)
    every = average_over_losses(stage, after, band, tilt=2.0).profile
    assert once.upper == pytest.approx(every.upper, rel=1e-9, abs=1e-15)
    assert once.lower == pytest.approx(every.lower, rel=1e-9, abs=1e-15)


def test_losses_that_are_not_a_lattice_of_the_grid_are_seen():
    assert stages._steps_of_lattice(np.array([-0.1, 0.0, 0.1]), 0.05) == 2
    assert stages._steps_of_lattice(np.array([-0.1, 0.0, 0.1]), 0.3) == Fraction(1, 3)
    assert stages._steps_of_lattice(np.array([-0.1, 0.0, 0.1]), 0.07) is None
    assert stages._steps_of_lattice(np.array([-0.1, 0.0, 0.1001]), 0.05) is None
    assert stages._steps_of_lattice(np.array([0.1, -0.1]), 0.05) is None
    assert stages._steps_of_lattice(np.array([0.1]), 0.05) is None

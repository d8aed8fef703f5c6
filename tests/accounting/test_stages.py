"""What a linear stage does to the profile of what follows."""

import pytest

from setwise.accounting.adaptive.profile import Band, TailProfile, nothing_to_come
from setwise.accounting.adaptive.stages import LinearStage, alone, averaged
from setwise.accounting.bounds import classify
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
    profile = alone(stage, band, tilt=2.0).profile
    for point in (0, 1, 25, 40):
        truth = compose(uses).delta(point * band.step)
        assert profile.lower[point] <= truth.upper
        assert truth.lower <= profile.upper[point] * (1 + 1e-15)
        assert profile.upper[point] - profile.lower[point] <= 2e-4 * truth.upper


@pytest.mark.parametrize("uses", STAGES)
def test_a_last_stage_is_an_average_over_nothing_to_come(uses):
    stage = LinearStage(classify(as_uses(uses)).linear)
    band = Band(0.05, 2.0, stage.variance, depth=14.0)
    found = alone(stage, band, tilt=2.0).profile
    general = averaged(stage, TailProfile(nothing_to_come(0.05)), band, tilt=2.0).profile
    size = min(found.upper.size, general.upper.size)
    assert (found.lower[:size] <= general.upper[:size] * (1 + 1e-9)).all()
    assert (general.lower[:size] <= found.upper[:size] * (1 + 1e-9)).all()
    assert (found.upper[:size] <= general.upper[:size] * (1 + 1e-9) + 1e-13).all()

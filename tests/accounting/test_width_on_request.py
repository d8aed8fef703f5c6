"""A width that is asked for holds, or is refused."""

import pytest

from setwise.accounting.compose import compose
from setwise.errors import Unattainable


@pytest.mark.parametrize(
    ("uses", "total", "width"),
    [
        (["pure:0.2"], 0.2, 1e-5),
        (["pure:4.0", "pure:0.3"], 4.3, 1e-4),
        (["discrete-laplace:1.4177000860518483,2", "pure:0.8341860124436372x2"], 0.6674565674985193, 1e-9),
        (["laplace:1"], 0.99999, 1e-9),
        (["bounded-range:0.1x10"], 0.4, 1e-5),
        (["bounded-range:0.1x10", "gaussian:30"], 0.4, 1e-4),
        (["zcdp:0.01x3"], 0.4, 1e-3),
    ],
)
@pytest.mark.parametrize("interaction", ["ordered", "setwise"])
def test_holds_or_is_refused(uses, total, width, interaction):
    try:
        answer = compose(uses, interaction).delta(total, width=width)
    except Unattainable:
        return
    assert answer.width <= width * answer.upper


def test_reached_where_it_can_be():
    assert compose(["bounded-range:0.1x10"]).delta(0.4, width=1e-5).width <= 1e-5 * 4e-4
    epsilon = compose(["bounded-range:0.1x10"]).epsilon(1e-6, width=1e-5)
    assert epsilon.width <= 1e-5 * epsilon.upper


@pytest.mark.parametrize(
    ("uses", "total"),
    [
        (["bounded-range:0.3643x3", "bounded-range:0.415x2", "bounded-range:0.3644x2"], 1.0),
        (["bounded-range:0.1x10", "gaussian:30"], 0.4),
        (["bounded-range:0.0456x4", "bounded-range:0.1196x3", "pure:0.1157x2"], 0.5),
    ],
)
def test_no_width_is_refused_that_is_larger_than_one_reached(uses, total):
    reached = []
    for width in (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4):
        try:
            compose(uses).delta(total, width=width)
        except Unattainable:
            reached.append(False)
        else:
            reached.append(True)
    assert reached == sorted(reached, reverse=True)
    assert reached[2]


@pytest.mark.parametrize("total", [0.5, 1.3, 1.8, 1.9, 2.0, 2.1, 2.2, 2.3, 2.5, 2.7])
def test_one_total_is_not_refused_what_its_neighbours_get(total):
    """The likeness by which the tilt is chosen has losses up to 1.5 only; beyond, tilts ran into round-off."""
    uses = ["bounded-range:0.3x10", "gaussian:20x5"]
    free = compose(uses).delta(total)
    assert free.method == "certified-optimum"
    assert free.width <= 1e-3 * free.upper
    for width in (0.1, 1e-2, 1e-3):
        asked = compose(uses).delta(total, width=width)
        assert asked.width <= width * asked.upper
        assert asked.bracket.overlaps(free.bracket)

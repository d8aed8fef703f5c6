import pytest

from setwise.accounting.brackets import Bracket
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import Gaussian, PureDP, Use
from setwise.accounting.losses.pld import LatticeSum
from tests.accounting import exact_composition as exact

DELTAS = [1e-2, 1e-4, 1e-6, 1e-10, 1e-15, 1e-20, 1e-30]
NO_FAILURE = Bracket(0.0, 0.0)


def contains(bracket, truth, relative_width):
    assert bracket.lower <= truth <= bracket.upper
    assert bracket.upper - bracket.lower <= relative_width * truth


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(
    ("sigma", "count"), [(0.3, 1), (1.0, 1), (20.0, 50), (3.0, 10_000), (1000.0, 1_000_000), (2.0, 1_000_000)]
)
def test_merged(sigma, count, delta):
    whole = compose([Use(Gaussian(sigma=sigma), count)])
    total = whole.epsilon(delta)
    assert total.width <= 1e-6 * total.upper
    assert exact.gaussian(sigma, total.upper, count) <= delta
    assert exact.gaussian(sigma, total.lower, count) >= delta
    assert total.lower > 0.0
    contains(whole.delta(total.upper), exact.gaussian(sigma, total.upper, count), 1e-6)


@pytest.mark.parametrize("sigma", [0.05, 0.7, 1.4, 1.5, 10.0, 1e4])
@pytest.mark.parametrize("total", [0.0, 1e-6, 0.1, 2.0, 9.0])
def test_single(sigma, total):
    truth = exact.gaussian(sigma, total)
    answer = compose([Gaussian(sigma=sigma)]).delta(total)
    assert answer.lower <= truth <= answer.upper
    if truth > 1e-290:
        assert answer.width <= 1e-6 * truth


def test_different_sigmas_merge():
    answer = compose([Use(Gaussian(sigma=3.0), 4), Use(Gaussian(sigma=1.5))]).delta(1.0)
    merged = (4 / 9.0 + 1 / 2.25) ** -0.5
    contains(answer, exact.gaussian(merged, 1.0), 1e-6)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("sigma", "count"), [(20.0, 50), (2.0, 1), (0.9, 3)])
def test_the_lattice_is_never_below_the_closed_form(sigma, count, delta):
    total = compose([Use(Gaussian(sigma=sigma), count)]).epsilon(delta).upper
    lattice = LatticeSum(((Gaussian(sigma=sigma), count),), NO_FAILURE)
    contains(lattice.delta(total), exact.gaussian(sigma, total, count), 1e-4)
    found = lattice.epsilon(delta)
    assert exact.gaussian(sigma, found.upper, count) <= delta
    assert exact.gaussian(sigma, found.lower, count) >= delta
    assert found.width <= 1e-5 * found.upper


@pytest.mark.parametrize("delta", DELTAS)
def test_beside_pure(delta):
    uses = [Use(PureDP(epsilon=0.2), 12), Use(Gaussian(sigma=4.0), 3)]
    total = compose(uses).epsilon(delta).upper
    truth = exact.pure_beside_gaussian(12, 0.2, 4.0, 3, total)
    contains(compose(uses).delta(total), truth, 1e-6)
    lattice = LatticeSum(tuple((use.guarantee, use.count) for use in uses), NO_FAILURE).delta(total)
    contains(lattice, truth, 1e-4)

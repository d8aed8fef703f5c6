import pytest

from setwise.accounting.brackets import Bracket
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import Laplace, PureDP, Use
from setwise.accounting.losses.pld import LatticeSum
from tests.accounting import exact_composition as exact
from tests.sizes import crossed

DELTAS = [1e-2, 1e-4, 1e-6, 1e-10, 1e-15, 1e-20, 1e-30]
NO_FAILURE = Bracket(0.0, 0.0)


def contains(bracket, truth, relative_width):
    assert bracket.lower <= truth <= bracket.upper
    assert bracket.upper - bracket.lower <= relative_width * truth


def resolvable(largest, total):
    """Right below the largest loss delta is proportional to the distance from it, which floats cannot tell closely."""
    distance = largest - total
    return 1e-6 if distance > 1e-6 * largest else max(1e-6, 1e-14 * largest / max(distance, 1e-15 * largest))


EQUAL = [(3, 30.0), (25, 0.1), (200, 0.03), (1000, 0.5), (10_000, 0.02), (1_000_000, 0.001)]


@pytest.mark.parametrize(("equal", "delta"), crossed(EQUAL, DELTAS))
def test_equal(equal, delta):
    count, epsilon = equal
    whole = compose([Use(PureDP(epsilon=epsilon), count)])
    total = whole.epsilon(delta)
    assert 0.0 < total.lower <= total.upper <= count * epsilon * (1 + 1e-12)
    assert total.width <= 1e-9 * total.upper
    largest = count * epsilon
    assert exact.pure(count, epsilon, total.upper) <= delta * (1 + 1e-12)
    assert exact.pure(count, epsilon, total.lower) >= delta * (1 - 1e-12)
    contains(whole.delta(total.upper), exact.pure(count, epsilon, total.upper), resolvable(largest, total.upper))


@pytest.mark.parametrize(("total", "epsilon"), crossed([0.0, 1e-9, 0.3, 1.0, 90.0, 900.0], [1e-4, 0.01]))
def test_a_million(epsilon, total):
    answer = compose([Use(PureDP(epsilon=epsilon), 1_000_000)]).delta(total)
    truth = exact.pure(1_000_000, epsilon, total)
    assert answer.lower <= truth <= answer.upper
    assert answer.width <= max(1e-6 * truth, 1e-280)


@pytest.mark.parametrize(
    "epsilons", [[0.1, 0.2, 0.3, 0.4], [0.05, 0.5, 1.0], [2.0, 0.7, 0.3, 0.1, 0.05], [3.1, 2.9, 7.0]]
)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_unequal(epsilons, share):
    total = share * sum(epsilons)
    answer = compose([PureDP(epsilon=epsilon) for epsilon in epsilons]).delta(total)
    contains(answer, exact.unequal_pure(epsilons, total), 1e-9)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("count", "epsilon"), [(100, 0.1), (300, 0.05), (60, 1.3), (2000, 0.01)])
def test_the_lattice_is_never_below_the_closed_form(count, epsilon, delta):
    total = compose([Use(PureDP(epsilon=epsilon), count)]).epsilon(delta).upper
    lattice = LatticeSum(((PureDP(epsilon=epsilon), count),), NO_FAILURE)
    truth = exact.pure(count, epsilon, total)
    bracket = lattice.delta(total)
    assert bracket.lower <= truth <= bracket.upper
    if count * epsilon - total > 1e-6 * total:  # nearer to the largest loss floats cannot tell delta closely
        contains(bracket, truth, 1e-6)
    found = lattice.epsilon(delta)
    assert exact.pure(count, epsilon, found.upper) <= delta
    assert exact.pure(count, epsilon, found.lower) >= delta
    assert found.width <= 1e-6 * found.upper


@pytest.mark.parametrize("delta", [1e-2, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize(("count", "epsilon"), [(1, 0.5), (7, 1.3), (25, 0.1)])
def test_a_lattice_of_few_uses_is_narrow_too(count, epsilon, delta):
    total = compose([Use(PureDP(epsilon=epsilon), count)]).epsilon(delta).upper
    lattice = LatticeSum(((PureDP(epsilon=epsilon), count),), NO_FAILURE)
    truth = exact.pure(count, epsilon, total)
    bracket = lattice.delta(total)
    assert bracket.lower <= truth <= bracket.upper
    assert bracket.width <= 1e-3 * truth


@pytest.mark.parametrize("delta", DELTAS)
def test_a_lattice_of_unequal_parameters_that_share_no_unit(delta):
    uses = ((PureDP(epsilon=0.1), 1), (PureDP(epsilon=0.2718281828), 1), (PureDP(epsilon=0.31415926535), 3))
    epsilons = [known.epsilon for known, count in uses for _ in range(count)]
    total = compose([Use(known, count) for known, count in uses]).epsilon(delta).upper
    found = LatticeSum(uses, NO_FAILURE).delta(total)
    truth = exact.unequal_pure(epsilons, total)
    assert found.lower <= truth <= found.upper


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 15, 20, 50, 100, 500])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_laplace_is_below_its_class_and_above_half_of_it(count, delta):
    laplace = compose([Use(Laplace(scale=10.0), count)]).epsilon(delta)
    assert laplace.upper <= compose([Use(PureDP(epsilon=0.1), count)]).epsilon(delta).upper * (1 + 1e-6)
    assert laplace.lower >= compose([Use(PureDP(epsilon=0.05), count)]).epsilon(delta).lower
    assert laplace.width <= 1e-3 * laplace.upper


@pytest.mark.parametrize(
    ("uses", "total"),
    [(["pure:0.1x100", "discrete-laplace:10,2"], 4.0), (["pure:1.3x60", "discrete-laplace:2,2"], 60.0)],
)
def test_pure_beside_integer_noise_is_narrow(uses, total):
    answer = compose(uses).delta(total)
    assert answer.width <= 1e-6 * answer.upper

"""Noise that counts share costs what is paid for it, is narrower than independent noise, and is drawn from its law."""

import math
from fractions import Fraction

import numpy as np
import pytest
from exact_laws import float_probabilities, reach
from hypothesis import given
from hypothesis import strategies as st
from neighbours import gaussian_cost
from output_laws import joint_law
from significance import assert_frequencies, lower_limit
from tests.sizes import draws

from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.intervals import CONFIDENCE, lower_ends
from setwise.mechanisms.known_domain import KnownGaussian
from setwise.mechanisms.noise.discrete import LARGEST_NOISE
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import (
    SharedGaussianNoise,
    best_theta,
    gaussian_count_noise,
    relative_deviations,
    squared_sensitivity,
)
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.two_phase import GaussianCounts, OrderedLeastSquares, TwoPhaseTopK
from setwise.mechanisms.unknown_domain import UnknownGumbel

RANDOMNESS = SystemRandomness()


@pytest.mark.parametrize("labels", [1, 2, 3, 4, 5, 7, 10, 25, 40])
@pytest.mark.parametrize("per_item", [1, 3])
def test_no_user_moves_the_counts_further_than_is_paid_for(labels, per_item):
    """Every number of changed counts, in exact fractions: the cost never passes that of the uses."""
    sigma = Fraction(17, 3)
    for contributions in [*range(1, labels + 1), None]:
        noise = gaussian_count_noise(labels, contributions, per_item, sigma)
        uses = labels if contributions is None else contributions
        costs = [gaussian_cost(noise, [per_item] * m + [0] * (labels - m)) for m in range(uses + 1)]
        assert max(costs) * sigma**2 <= uses
        assert max(costs) * sigma**2 >= Fraction(93, 100) * uses


@given(st.data())
def test_a_user_who_adds_less_than_may_be_costs_less(data):
    labels = data.draw(st.integers(2, 12))
    contributions = data.draw(st.integers(1, labels))
    moves = data.draw(st.lists(st.integers(0, 5), min_size=contributions, max_size=contributions))
    noise = gaussian_count_noise(labels, contributions, 5, Fraction(4))
    assert gaussian_cost(noise, moves + [0] * (labels - contributions)) <= Fraction(contributions, 16)


def test_the_split_is_within_a_hundredth_of_the_best():
    for labels in (2, 3, 10, 40, 200, 1000):
        for changeable in {1, 2, min(3, labels), -(-labels // 4), labels // 2, 3 * labels // 4, labels}:
            theta = best_theta(labels, changeable)
            assert 0 <= theta <= Fraction(1, 2)
            found = math.sqrt(squared_sensitivity(labels, changeable, theta)) + float(theta)
            finest = min(
                math.sqrt(squared_sensitivity(labels, changeable, Fraction(p, 2000))) + p / 2000 for p in range(1001)
            )
            assert found <= 1.0101 * finest
            assert found <= math.sqrt(changeable) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("labels", "contributions", "ratio"),
    [
        (2, 2, 0.854),
        (5, 5, 0.724),
        (10, 10, 0.658),
        (25, 25, 0.600),
        (100, 100, 0.550),
        (25, 10, 0.885),
        (10, 5, 0.894),
    ],
)
def test_how_much_narrower(labels, contributions, ratio):
    noise = gaussian_count_noise(labels, contributions, 1, Fraction(1000))
    assert float(noise.sigma) / 1000 == pytest.approx(ratio, rel=0.01)
    assert relative_deviations(labels, contributions)[0] == pytest.approx(float(noise.sigma) / 1000, rel=1e-9)
    assert relative_deviations(labels, contributions)[1] == pytest.approx(float(noise.own_sigma) / 1000, rel=1e-9)


def test_where_nothing_is_gained_noise_is_independent():
    independent = RoundedGaussianNoise(sigma=Fraction(8))
    for labels, contributions in ((0, None), (1, None), (50, 1), (1000, 2)):
        found = gaussian_count_noise(labels, contributions, 2, Fraction(4))
        assert found == independent
    assert gaussian_count_noise(4, 2, 1, Fraction(1, 4)) == RoundedGaussianNoise(sigma=Fraction(1, 4))
    wide = gaussian_count_noise(4, 4, 1, LARGEST_NOISE)
    assert wide == RoundedGaussianNoise(sigma=LARGEST_NOISE)


@given(st.integers(-500, 500), st.integers(-500, 500), st.sampled_from([0, 1]), st.integers(1, 9), st.integers(-20, 20))
def test_rounding_is_to_the_nearest_and_does_not_see_the_count(own, common, coin, denominator, count):
    """It post-processes denominator * count + own + common: shifting by a whole count shifts the result by it."""
    noise = SharedGaussianNoise(labels=1, denominator=denominator, own=Fraction(1), common=Fraction(1))

    def rounded(own):
        return int(noise.combined(np.array([own]), np.array([common]), np.array([coin]))[0])

    assert abs(Fraction(own + common, denominator) - rounded(own)) <= Fraction(1, 2)
    assert rounded(own + denominator * count) == rounded(own) + count


def law(noise):
    """The exact law of one count's noise, from the laws of its two parts."""
    own, common = (RoundedGaussianNoise(sigma=sigma) for sigma in (noise.own, noise.common))
    sums = np.convolve(float_probabilities(own), float_probabilities(common))
    end = reach(own, 45) + reach(common, 45)
    sizes = np.arange(-end, end + 1)
    found = {}
    for coin in (0, 1):
        values = noise.combined(sizes, np.array([0]), np.full(len(sizes), coin))
        for value, mass in zip(values.tolist(), sums, strict=True):
            found[value] = found.get(value, 0.0) + mass / 2
    return found


@pytest.mark.parametrize("contributions", [3, 5, 10])
@pytest.mark.parametrize("sigma", ["0.7", "3", "20"])
def test_the_law_is_symmetric_and_its_radius_covers(contributions, sigma):
    noise = gaussian_count_noise(10, contributions, 1, Fraction(sigma))
    found = law(noise)
    assert all(mass == pytest.approx(found[-size], rel=1e-9, abs=1e-15) for size, mass in found.items())
    for confidence in (Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(999, 1000)):
        radius = noise.radius(confidence)
        held = sum(mass for size, mass in found.items() if abs(size) <= radius)
        assert held >= confidence
        narrower = sum(mass for size, mass in found.items() if abs(size) <= radius - 2)
        assert narrower < confidence
    assert noise.expected_absolute == pytest.approx(sum(abs(z) * p for z, p in found.items()), rel=0.02)
    assert noise.standard_deviation**2 == pytest.approx(sum(z * z * p for z, p in found.items()), rel=0.02)


@pytest.mark.statistical
def test_draws_follow_the_law_and_share_what_they_should():
    """Each count alone, and two together: what they share makes them equal, or high at once, more often."""
    noise = gaussian_count_noise(3, 3, 1, Fraction(3))
    trials = draws(100_000)
    found = np.array([noise.draw(3, RANDOMNESS) for _ in range(trials)])
    alone = law(noise)
    sizes = list(range(-6, 7))
    for place in range(3):
        assert_frequencies([(found[:, place] == size).sum() for size in sizes], [alone[s] for s in sizes], trials)
    together = joint_law(noise, 2)
    first, second = found[:, 0], found[:, 1]
    events = {
        "equal": ((first == second).sum(), lambda a, b: a == b),
        "both high": (((first > 2) & (second > 2)).sum(), lambda a, b: a > 2 and b > 2),
        "far apart": ((np.abs(first - second) > 4).sum(), lambda a, b: abs(a - b) > 4),
    }
    chances = [sum(mass for pair, mass in together.items() if holds(*pair)) for _, holds in events.values()]
    assert_frequencies([seen for seen, _ in events.values()], chances, trials)


def test_noise_is_drawn_for_all_counts_at_once():
    noise = gaussian_count_noise(4, None, 1, Fraction(3))
    with pytest.raises(InvalidParameter, match="for 4 counts, not for 3"):
        noise.draw(3, RANDOMNESS)
    with pytest.raises(InvalidParameter, match="need independent noise"):
        lower_ends(np.array([5]), noise, Fraction(1, 40), threshold=3, least=1)
    with pytest.raises(InvalidParameter):
        SharedGaussianNoise(labels=2, denominator=65, own=Fraction(1), common=Fraction(1))


@pytest.mark.statistical
def test_the_highest_of_many_counts_that_share_noise_is_covered():
    labels = tuple(range(60))
    mechanism = KnownGaussian(domain=labels, contributions=60, sigma=Fraction(30))
    assert isinstance(mechanism.noise, SharedGaussianNoise)
    histogram, trials = Histogram.of(labels, [1000] * 60), draws(4000)
    missed = sum(
        1000 not in mechanism.release(histogram, RANDOMNESS).top(1).intervals(CONFIDENCE)[0] for _ in range(trials)
    )
    assert lower_limit(missed, trials) <= 0.05


def test_fewer_labels_than_planned_pay_for_themselves():
    """Two of ten labels found: noise for two, at the cost of two."""
    two = OrderedLeastSquares(order=("a", "b"), contributions=None, sigma=Fraction(10))
    assert two.noise.labels == 2
    assert two.guarantees()[0].count == 2
    assert float(two.noise.sigma) == pytest.approx(8.54, rel=0.01)


def test_a_top_k_that_finds_fewer_labels_states_the_noise_of_those():
    discovery = UnknownGumbel(k=10, limit=20, contributions=None, epsilon=Fraction(1), delta=Fraction("1e-6"))
    mechanism = TwoPhaseTopK(discovery=discovery, counts=GaussianCounts(sigma=Fraction(10)), contributions=None)
    release = mechanism.release(Histogram.of(("a", "b", "c"), [1000, 900, 800]), RANDOMNESS)
    assert len(release.items) == 3
    assert release.noise == gaussian_count_noise(3, None, 1, Fraction(10))
    assert mechanism.noise == gaussian_count_noise(10, None, 1, Fraction(10))

"""Every sampler follows its exact law at many scales, from full words and from tiny ones that force refinement."""

from fractions import Fraction

import numpy as np
import pytest
from exact_laws import float_probabilities, reach
from significance import assert_frequencies
from tests.sizes import crossed, draws

from setwise.mechanisms.noise.discrete import GaussianNoise, LaplaceNoise, heads
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise
from setwise.mechanisms.randomness import SystemRandomness

SCALES = ["0.1", "0.3", "0.7", "1", "1.5", "2", "3", "5", "10", "31.4", "100", "1000", "2048"]
WIDE = ["2049", "12345.6", "100000", pytest.param("1000000", marks=pytest.mark.slow)]
KINDS = [LaplaceNoise, GaussianNoise, RoundedGaussianNoise]
TRUNCATED = [("2", 4), ("2", 3), ("0.7", 1), ("10", 70), ("10", 5), ("300", 1000)]
RANDOMNESS = SystemRandomness()
pytestmark = pytest.mark.statistical


def assert_fits(values, noise, trials):
    """Compare counts in bins of about 1/200 of the mass, single values where they are heavier, and running sums."""
    masses = float_probabilities(noise)
    end = reach(noise, 45)
    assert np.abs(values).max() <= end
    cumulative = np.concatenate(([0.0], np.cumsum(masses)))
    edges = np.unique(np.concatenate((np.searchsorted(cumulative, np.linspace(0, 1, 200)[1:-1]), [0, len(masses)])))
    counts = np.bincount(values + end, minlength=len(masses))
    sums = np.concatenate(([0], np.cumsum(counts)))
    assert_frequencies(np.diff(sums[edges]), np.diff(cumulative[edges]), trials)
    # Distribution functions see a small shift or a wrong spread where single bins do not.
    assert_frequencies(sums[edges], cumulative[edges], trials)


@pytest.mark.parametrize(("kind", "scale"), crossed(KINDS, SCALES))
def test_table_noise(kind, scale):
    noise = kind(**{"scale" if kind is LaplaceNoise else "sigma": Fraction(scale)})
    assert_fits(noise.draw(draws(10**6), RANDOMNESS), noise, draws(10**6))


@pytest.mark.parametrize("scale", WIDE)
@pytest.mark.parametrize("kind", KINDS)
def test_wide_noise(kind, scale):
    noise = kind(**{"scale" if kind is LaplaceNoise else "sigma": Fraction(scale)})
    assert_fits(noise.draw(draws(5 * 10**5), RANDOMNESS), noise, draws(5 * 10**5))


@pytest.mark.parametrize(("sigma", "bound"), TRUNCATED)
def test_truncated_noise(sigma, bound):
    noise = TruncatedGaussianNoise(sigma=Fraction(sigma), bound=bound)
    assert_fits(noise.draw(draws(10**6), RANDOMNESS), noise, draws(10**6))


def test_wide_truncated_noise_is_turned_away_not_clamped():
    noise = TruncatedGaussianNoise(sigma=Fraction(50_000), bound=60_000)
    assert_fits(noise.draw(draws(300_000), RANDOMNESS), noise, draws(300_000))


@pytest.mark.parametrize("width", [1, 6, 11])
@pytest.mark.parametrize("scale", ["0.3", "1", "2", "3", "10"])
@pytest.mark.parametrize("kind", [LaplaceNoise, GaussianNoise, RoundedGaussianNoise])
def test_tiny_words_force_refinement_and_keep_the_law(kind, scale, width):
    noise = kind(**{"scale" if kind is LaplaceNoise else "sigma": Fraction(scale)})
    assert_fits(noise.draw(draws(20_000), RANDOMNESS, width), noise, draws(20_000))


@pytest.mark.parametrize(("width", "trials"), [(64, 10**6), (11, 20_000), (6, 20_000), (1, 5_000)])
@pytest.mark.parametrize("sigma", ["0.1", "0.4", "1", "3", "10"])
def test_rounded_gaussian_by_rejection(sigma, width, trials):
    """Where a table is used too, so that a shift of half a unit shows; wide noise would hide it."""
    noise = RoundedGaussianNoise(sigma=Fraction(sigma))
    assert_fits(noise._by_rejection(draws(trials), RANDOMNESS, width), noise, draws(trials))


@pytest.mark.parametrize("width", [6, 11])
def test_tiny_words_in_wide_noise(width):
    for noise in (
        LaplaceNoise(scale=Fraction(3000)),
        GaussianNoise(sigma=Fraction(3000)),
        RoundedGaussianNoise(sigma=Fraction(3000)),
    ):
        assert_fits(noise.draw(draws(4_000), RANDOMNESS, width), noise, draws(4_000))


@pytest.mark.parametrize("width", [1, 6, 64])
@pytest.mark.parametrize("gamma", ["0", "0.001", "0.5", "1", "7/3", "10"])
def test_exponential_coin(gamma, width):
    exponent, trials = Fraction(gamma), draws(20_000 if width < 64 else 10**6)
    landed = heads(np.full(trials, float(exponent)), lambda _: exponent, RANDOMNESS, width)
    assert_frequencies([landed.sum()], [np.exp(-float(exponent))], trials)


def test_noise_is_independent_of_its_neighbours():
    values = GaussianNoise(sigma=Fraction(1)).draw(draws(10**6), RANDOMNESS) > 0
    positive = float_probabilities(GaussianNoise(sigma=Fraction(1)))[
        reach(GaussianNoise(sigma=Fraction(1)), 45) + 1 :
    ].sum()
    both = (values[:-1:2] & values[1::2]).sum()
    assert_frequencies([both], [positive**2], draws(5 * 10**5))


def test_wide_noise_draws_zero_once():
    """A sign on a size counts zero twice, unless one of the two is turned away."""
    noise = LaplaceNoise(scale=Fraction(2049))
    zeros = int((noise.draw(draws(2 * 10**6), RANDOMNESS) == 0).sum())
    assert_frequencies([zeros], [np.tanh(0.5 / 2049)], draws(2 * 10**6))

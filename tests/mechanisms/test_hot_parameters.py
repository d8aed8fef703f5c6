"""At sigma = 2 and T = 4 thresholds are in plain sight: one off, no truncation and clamping all show."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from significance import assert_frequencies
from tests.sizes import draws

from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.noise.truncated_gaussian import Threshold, TruncatedGaussianNoise, truncation_level
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.unknown_domain import TruncatedGaussian

RANDOMNESS = SystemRandomness()
SIGMA = Fraction(2)


def lost(level, tau=1, sigma=2):
    """The mass noise on {-level..level} puts where its shift by tau has none, summed directly."""
    weights = {z: mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * sigma * sigma)) for z in range(-level, level + 1)}
    return mpmath.fsum(weights[z] for z in range(level - tau + 1, level + 1)) / mpmath.fsum(weights.values())


def hot(threshold=Threshold.TIGHT):
    """The delta that T = 4 just meets: T = 3 would need more."""
    delta = Fraction(float(lost(4))) * Fraction(10**9 + 1, 10**9)
    return TruncatedGaussian(contributions=1, sigma=SIGMA, delta=delta, threshold=threshold)


def test_the_level_is_the_smallest_that_holds():
    assert hot().bound == 4
    assert lost(3) > float(hot().delta) > lost(5)
    below = Fraction(float(lost(4))) * Fraction(10**9 - 1, 10**9)
    assert truncation_level(1, 1, SIGMA, below) == 5


def test_the_noise_ends_exactly_at_the_level():
    values = hot().noise.draw(10**6, RANDOMNESS)
    weights = np.exp(-(np.arange(-4, 5) ** 2) / 8.0)
    counts = np.bincount(values + 4, minlength=9)
    assert len(counts) == 9
    assert (counts > 0).all()
    assert_frequencies(counts, weights / weights.sum(), 10**6)


def test_a_lone_user_passes_the_threshold_with_probability_delta_and_no_more():
    """A count of tau is released exactly when its noise is T; a count of 0 never is."""
    mechanism, trials = hot(), draws(60_000)
    many = Histogram.of(range(trials), np.ones(trials, dtype=np.int64))
    released = mechanism.release(many, RANDOMNESS).items
    assert {item.count for item in released} == {5}
    assert_frequencies([len(released)], [float(lost(4))], trials)
    assert mechanism.release(Histogram.of(range(50), np.zeros(50)), RANDOMNESS).items == ()


def test_the_papers_threshold_stands_tau_higher():
    mechanism, trials = hot(Threshold.PAPER), draws(60_000)
    ones = Histogram.of(range(trials), np.ones(trials, dtype=np.int64))
    twos = Histogram.of(range(trials), np.full(trials, 2))
    assert mechanism.release(ones, RANDOMNESS).items == ()
    released = mechanism.release(twos, RANDOMNESS).items
    assert {item.count for item in released} == {6}
    assert_frequencies([len(released)], [float(lost(4))], trials)


@pytest.mark.parametrize("count", [3, 6, 20])
def test_released_counts_follow_the_noise_law(count):
    mechanism, trials = hot(), draws(60_000)
    counts = np.full(trials, count)
    values = [item.count for item in mechanism.release(Histogram.of(range(trials), counts), RANDOMNESS).items]
    weights = np.exp(-(np.arange(-4, 5) ** 2) / 8.0)
    shares = weights / weights.sum()
    seen = [values.count(count + z) for z in range(-4, 5)]
    expected = [share if count + z > 4 else 0.0 for z, share in zip(range(-4, 5), shares, strict=True)]
    assert_frequencies(seen, expected, trials)
    assert sum(seen) == len(values)


def test_truncating_is_not_clamping():
    """Clamped noise would put Phi-tail mass on the ends: more than twice what the restricted law has there."""
    noise = TruncatedGaussianNoise(sigma=Fraction(2), bound=2)
    ends = int((np.abs(noise.draw(10**5, RANDOMNESS)) == 2).sum())
    weights = np.exp(-(np.arange(-2, 3) ** 2) / 8.0)
    assert_frequencies([ends], [2 * weights[0] / weights.sum()], 10**5)

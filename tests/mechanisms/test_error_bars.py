"""Radii are the smallest that keep their confidence under the exact law; previews say them before data is touched."""

import inspect
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from exact_laws import probabilities
from neighbours import counted_mechanisms, top_k_mechanisms
from significance import assert_frequencies, lower_limit, upper_limit
from tests.sizes import draws

from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.intervals import Interval
from setwise.mechanisms.known_domain import KnownGumbel
from setwise.mechanisms.noise.discrete import GaussianNoise, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.release import Item, Release, Selection
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGumbel, UnknownLaplace

RANDOMNESS = SystemRandomness()
LAWS = [
    *(LaplaceNoise(scale=Fraction(s)) for s in ("0.1", "1", "7", "30")),
    *(GaussianNoise(sigma=Fraction(s)) for s in ("0.1", "1", "7", "30")),
    *(RoundedGaussianNoise(sigma=Fraction(s)) for s in ("0.1", "0.4", "1", "7", "30")),
    *(TruncatedGaussianNoise(sigma=Fraction(s), bound=t) for s, t in (("2", 4), ("30", 50))),
]


@pytest.mark.parametrize("noise", LAWS, ids=str)
@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.95", "0.999999"])
def test_the_radius_is_the_smallest_that_covers(noise, confidence):
    with mpmath.workdps(40):
        masses = probabilities(noise, tail=80)
        middle = len(masses) // 2
        radius = noise.radius(Fraction(confidence))
        inside = mpmath.fsum(masses[middle - radius : middle + radius + 1])
        assert inside >= mpmath.mpf(confidence)
        if radius:
            assert inside - 2 * masses[middle + radius] < mpmath.mpf(confidence)


@pytest.mark.parametrize("noise", LAWS, ids=str)
def test_moments(noise):
    masses = [float(mass) for mass in probabilities(noise, tail=80)]
    sizes = np.abs(np.arange(len(masses)) - len(masses) // 2)
    assert noise.expected_absolute == pytest.approx(float(np.dot(masses, sizes)), rel=1e-9)
    assert noise.standard_deviation == pytest.approx(float(np.dot(masses, sizes**2)) ** 0.5, rel=1e-9)


@pytest.mark.parametrize("kind", [LaplaceNoise, GaussianNoise, RoundedGaussianNoise])
def test_wide_noise_is_covered(kind):
    noise = kind(**{"scale" if kind is LaplaceNoise else "sigma": Fraction(5000)})
    values = np.abs(noise.draw(draws(200_000), RANDOMNESS))
    assert_frequencies([(values <= noise.radius(Fraction(9, 10))).sum()], [0.9], draws(200_000))
    assert np.mean(values) == pytest.approx(noise.expected_absolute, rel=0.05)
    assert np.std(values) ** 2 + np.mean(values) ** 2 == pytest.approx(noise.standard_deviation**2, rel=0.05)


@pytest.mark.parametrize("bad", [0, 1, 2, -1, float("nan")])
def test_confidence_is_a_probability(bad):
    for noise in LAWS:
        with pytest.raises(InvalidParameter):
            noise.radius(bad)
    for mechanism in counted_mechanisms(2, 3) + [top_k.discovery for top_k in top_k_mechanisms(2, 3)]:
        with pytest.raises(InvalidParameter):
            mechanism.preview(bad)


def test_intervals_hold_no_impossible_counts():
    with pytest.raises(InvalidParameter):
        Interval(lower=3, upper=2)
    with pytest.raises(InvalidParameter):
        Release(items=(Item(label="a", count=3, noisy=3),), spent=(), complete=True)
    with pytest.raises(InvalidParameter, match="1 items cannot be chosen from 0"):
        Release(items=(Item(label="a"),), spent=(), complete=True, selection=Selection(candidates=0))


def test_previews_need_no_data_and_agree_with_the_noise():
    for mechanism in counted_mechanisms(2, 3) + top_k_mechanisms(2, 3):
        assert list(inspect.signature(mechanism.preview).parameters) == ["confidence"]
        preview = mechanism.preview(Fraction(9, 10))
        assert preview.expected_error == mechanism.noise.expected_absolute
        assert preview.radius == mechanism.noise.radius(Fraction(9, 10))


@pytest.mark.parametrize(
    "mechanism",
    [
        TruncatedGaussian(contributions=2, per_item=3, sigma=Fraction(3), delta=Fraction("1e-6")),
        UnknownLaplace(contributions=2, per_item=3, scale=Fraction(3), delta=Fraction("1e-6")),
    ],
    ids=lambda m: type(m).__name__,
)
def test_what_is_said_to_be_detectable_is_detected(mechanism):
    """At the stated count a label comes out at least as often as stated, and well below it, less often."""
    trials, confidence = draws(20_000), Fraction(9, 10)
    detectable = mechanism.preview(confidence).detectable
    at, below = (
        len(mechanism.release(Histogram.of(range(trials), [count] * trials), RANDOMNESS).items)
        for count in (detectable, detectable - 2 * mechanism.noise.radius(confidence))
    )
    assert upper_limit(at, trials) >= 0.9
    assert lower_limit(below, trials) <= 0.2


def test_what_gumbel_promises_to_find_is_found():
    unknown = UnknownGumbel(k=1, limit=1, contributions=1, epsilon=Fraction(1, 2), delta=Fraction("1e-6"))
    preview = unknown.preview(Fraction(9, 10))
    seen, trials = Histogram.of("a", [preview.detectable]), draws(4000)
    assert upper_limit(sum(bool(unknown.release(seen, RANDOMNESS).items) for _ in range(trials)), trials) >= 0.9
    domain = tuple(range(200))
    known = KnownGumbel(domain=domain, k=1, epsilon=Fraction(1, 2))
    ahead = Histogram.of(domain, [known.preview(Fraction(9, 10)).shortfall] + [0] * 199)
    assert upper_limit(sum(known.release(ahead, RANDOMNESS).labels == (0,) for _ in range(trials)), trials) >= 0.9

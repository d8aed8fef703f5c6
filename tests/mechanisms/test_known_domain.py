"""Mechanisms over a public domain: their noise, their cost, and what they refuse."""

from fractions import Fraction

import numpy as np
import pytest
from significance import assert_frequencies
from tests.sizes import draws

from setwise.accounting.guarantees import BoundedRange, DiscreteLaplace, Gaussian, Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.randomness import SystemRandomness

RANDOMNESS = SystemRandomness()
DOMAIN = ("a", "b", "c", "d")


def test_laplace_noise_and_cost_are_linear_in_tau():
    mechanism = KnownLaplace(domain=DOMAIN, contributions=3, per_item=7, scale=Fraction(5))
    assert mechanism.noise == LaplaceNoise(scale=Fraction(35))
    assert mechanism.guarantees() == (Use(DiscreteLaplace(scale=35.0, sensitivity=7), 3),)


def test_gaussian_noise_and_cost_are_linear_in_tau():
    mechanism = KnownGaussian(domain=DOMAIN, contributions=3, per_item=7, sigma=Fraction(5))
    assert mechanism.guarantees() == (Use(Gaussian(sigma=5.0), 3),)
    plain = KnownGaussian(domain=DOMAIN, contributions=3, sigma=Fraction(5)).noise
    assert float(mechanism.noise.sigma / plain.sigma) == pytest.approx(7.0, rel=1e-12)
    alone = KnownGaussian(domain=DOMAIN, contributions=1, per_item=7, sigma=Fraction(5))
    assert alone.noise == RoundedGaussianNoise(sigma=Fraction(35))


def test_no_more_counts_can_change_than_there_are():
    mechanism = KnownLaplace(domain=DOMAIN, contributions=99, scale=Fraction(5))
    assert mechanism.guarantees()[0].count == 4
    assert KnownGumbel(domain=DOMAIN, k=9, epsilon=Fraction(1)).guarantees() == (Use(BoundedRange(epsilon=1.0), 4),)


@pytest.mark.parametrize("parameter", ["1/3", "0.1", "7/5"])
def test_the_accountant_prices_exactly_the_noise_that_is_drawn(parameter):
    """A parameter between two floats is drawn, and priced, at the one that gives less noise."""
    for mechanism in (
        KnownLaplace(domain=DOMAIN, contributions=1, per_item=3, scale=Fraction(parameter)),
        KnownGaussian(domain=DOMAIN, contributions=1, per_item=3, sigma=Fraction(parameter)),
    ):
        (use,) = mechanism.guarantees()
        drawn = mechanism.noise.scale if isinstance(mechanism, KnownLaplace) else mechanism.noise.sigma
        match use.guarantee:
            case DiscreteLaplace(scale=stated):
                pass
            case Gaussian(sigma=sigma):
                stated = 3 * Fraction(sigma)
        assert Fraction(stated) == drawn <= 3 * Fraction(parameter)
        assert float(drawn) == pytest.approx(3 * float(Fraction(parameter)), rel=1e-15)


def test_the_whole_domain_comes_back_and_nothing_else():
    histogram = Histogram.of(["b", "stranger", "a"], [50, 10**6, 0])
    for mechanism in (
        KnownLaplace(domain=DOMAIN, contributions=1, scale=Fraction(1)),
        KnownGaussian(domain=DOMAIN, contributions=1, sigma=Fraction(1)),
    ):
        release = mechanism.release(histogram, RANDOMNESS)
        assert sorted(release.labels) == list(DOMAIN)
        assert release.labels[0] == "b"
        assert release.complete
        assert [item.count for item in release.items] == sorted((item.count for item in release.items), reverse=True)
        assert len(release.top(2).items) == 2
        assert release.top(2).spent == release.spent


def test_gumbel_releases_an_order_and_never_a_number():
    release = KnownGumbel(domain=DOMAIN, k=2, epsilon=Fraction(10)).release(Histogram.of(["c"], [50]), RANDOMNESS)
    assert release.labels[0] == "c"
    assert all(item.count is None and item.noisy is None for item in release.items)
    assert release.noise is None
    assert release.intervals() == (None, None)


def test_gumbel_uses_the_range_of_the_counts_without_a_factor_two():
    """With k = 1 and scores apart by tau the odds are e^epsilon to 1."""
    mechanism = KnownGumbel(domain=("a", "b"), k=1, per_item=5, epsilon=Fraction(1))
    histogram = Histogram.of(["a", "b"], [15, 10])
    wins = sum(mechanism.release(histogram, RANDOMNESS).labels == ("a",) for _ in range(draws(20_000)))
    assert_frequencies([wins], [1 / (1 + np.exp(-1.0))], draws(20_000))


BAD = [0, -1, 1.5, True, "3", None, 2**41]


@pytest.mark.parametrize("bad", BAD)
def test_sensitivities_are_positive_integers(bad):
    with pytest.raises(InvalidParameter):
        KnownLaplace(domain=DOMAIN, contributions=bad, scale=Fraction(1))
    with pytest.raises(InvalidParameter):
        KnownLaplace(domain=DOMAIN, contributions=1, per_item=bad, scale=Fraction(1))
    with pytest.raises(InvalidParameter):
        KnownGaussian(domain=DOMAIN, contributions=bad, sigma=Fraction(1))
    with pytest.raises(InvalidParameter):
        KnownGumbel(domain=DOMAIN, k=1, per_item=bad, epsilon=Fraction(1))
    with pytest.raises(InvalidParameter):
        KnownGumbel(domain=DOMAIN, k=bad, epsilon=Fraction(1))


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "1", 10**10, Fraction(1, 1000)])
def test_noise_is_a_rational_in_range(bad):
    with pytest.raises(InvalidParameter):
        KnownLaplace(domain=DOMAIN, contributions=1, scale=bad)
    with pytest.raises(InvalidParameter):
        KnownGaussian(domain=DOMAIN, contributions=1, sigma=bad)


def test_domains_are_distinct_labels_of_one_kind():
    for domain in (("a", "a"), ("a", 1), (1.5,), (None,), (True,)):
        with pytest.raises(InvalidParameter):
            KnownLaplace(domain=domain, contributions=1, scale=Fraction(1))
    with pytest.raises(InvalidParameter):
        KnownGumbel(domain=(), k=1, epsilon=Fraction(1))

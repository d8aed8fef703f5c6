"""Mechanisms over an unknown domain: thresholds from their formulas, pay what you get, and what they refuse."""

import math
from fractions import Fraction

import mpmath
import pytest
from exact_laws import probabilities

from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    DiscreteLaplace,
    TruncatedDiscreteGaussian,
    Use,
    ZeroConcentratedDP,
)
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.noise.truncated_gaussian import Threshold
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGumbel, UnknownLaplace

RANDOMNESS = SystemRandomness()
DELTA = Fraction("1e-9")


def gumbel(**changes):
    usual = {"k": 5, "limit": 100, "contributions": None, "per_item": 1, "epsilon": Fraction(1, 10), "delta": DELTA}
    return UnknownGumbel(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "changeable"),
    [
        ({}, 100),
        ({"contributions": 8}, 8),
        ({"contributions": 500}, 100),
        ({"per_item": 4}, 100),
        ({"k": 1, "limit": 1}, 1),
    ],
)
def test_gumbel_threshold_is_the_formula_rounded_up(changes, changeable):
    mechanism = gumbel(**changes)
    tau = mechanism.per_item
    exact = tau + tau / 0.1 * math.log(changeable / 1e-9)
    assert mechanism.offset == math.ceil(exact - 1e-9)


def test_pay_what_you_get():
    """j labels cost min(j + 1, k) picks; the delta is spent even if only the threshold comes back."""
    mechanism = gumbel(k=3, limit=4, epsilon=Fraction(10))
    threshold = Use(ApproxDP(epsilon=0.0, delta=float(DELTA)))
    for labels, picks in ((0, 1), (1, 2), (2, 3), (3, 3)):
        histogram = Histogram.of(range(labels), [1000 + 50 * place for place in range(labels)])
        release = mechanism.release(histogram, RANDOMNESS)
        assert release.labels == tuple(reversed(range(labels)))
        assert release.complete is (labels == 3)
        assert release.spent == (Use(BoundedRange(epsilon=10.0), picks), threshold)
    assert mechanism.guarantees() == (Use(BoundedRange(epsilon=10.0), 3), threshold)


def test_gumbel_never_releases_numbers_or_zero_counts():
    mechanism = gumbel(k=4, limit=50, epsilon=Fraction(10))
    release = mechanism.release(Histogram.of(["x", "y", "z"], [5000, 0, 0]), RANDOMNESS)
    assert release.labels == ("x",)
    assert release.items[0].count is None
    assert release.noise is None


def convolved_exceedance(scale, margin):
    """P[Z1 - Z2 > margin] by summing the product of two laws."""
    masses = probabilities(LaplaceNoise(scale=Fraction(scale)), tail=80)
    tails = [mpmath.mpf(0)]
    for mass in reversed(masses):
        tails.append(tails[-1] + mass)
    tails.reverse()  # tails[i] = P[index >= i]
    total = mpmath.mpf(0)
    for place, mass in enumerate(masses):
        total += mass * (tails[place + margin + 1] if place + margin + 1 < len(tails) else 0)
    return total


@pytest.mark.parametrize(
    ("scale", "contributions", "limit", "delta"), [(2, 1, 5, "1e-3"), (5, 3, 2, "1e-5"), (1, 2, 9, "0.01")]
)
def test_noisy_laplace_threshold_compares_two_noises(scale, contributions, limit, delta):
    mechanism = UnknownLaplace(contributions=contributions, scale=Fraction(scale), delta=Fraction(delta), limit=limit)
    epsilon = contributions / scale
    target = float(Fraction(delta)) / min(contributions, limit)
    with mpmath.workdps(40):
        assert convolved_exceedance(scale, mechanism.margin) <= target
        assert convolved_exceedance(scale, mechanism.margin - 1) > target
    (use,) = mechanism.guarantees()
    assert Fraction(use.guarantee.epsilon) >= Fraction(contributions, scale)
    assert Fraction(use.guarantee.delta) >= Fraction(delta)
    assert use.guarantee.epsilon == pytest.approx(epsilon, rel=1e-15)
    assert use.guarantee.delta == pytest.approx(float(Fraction(delta)), rel=1e-15)


def test_noisy_laplace_threshold_at_wide_noise_is_the_continuous_formula():
    """min(Delta, dbar) e^-t (2 + t)/4 = delta, not t = ln(Delta/delta), which gives six times the stated delta."""
    scale, delta = 10**5, Fraction("1e-10")
    mechanism = UnknownLaplace(contributions=1, scale=Fraction(scale), delta=delta, limit=10)
    t = mechanism.margin / scale
    stated = float(delta)
    assert math.exp(-t) * (2 + t) / 4 == pytest.approx(stated, rel=1e-3)
    naive = math.log(1 / stated)
    assert math.exp(-naive) * (2 + naive) / 4 > 6 * stated


@pytest.mark.parametrize(("scale", "contributions", "per_item"), [(2, 1, 1), (30, 5, 1), (3, 4, 6)])
def test_fixed_laplace_threshold(scale, contributions, per_item):
    mechanism = UnknownLaplace(contributions=contributions, per_item=per_item, scale=Fraction(scale), delta=DELTA)
    with mpmath.workdps(40):
        q = mpmath.exp(-mpmath.mpf(1) / (scale * per_item))
        assert contributions * q ** (mechanism.margin + 1) / (1 + q) <= DELTA.numerator / mpmath.mpf(DELTA.denominator)
        assert contributions * q**mechanism.margin / (1 + q) > DELTA.numerator / mpmath.mpf(DELTA.denominator)
    assert mechanism.guarantees() == (
        Use(DiscreteLaplace(scale=float(scale * per_item), sensitivity=per_item), contributions),
        Use(ApproxDP(epsilon=0.0, delta=float(DELTA))),
    )
    # Released counts have passed tau plus the margin.
    many = Histogram.of(range(3000), [mechanism.per_item + mechanism.margin + 1] * 3000)
    release = mechanism.release(many, RANDOMNESS)
    assert 0 < len(release.items) < 3000
    assert min(item.count for item in release.items) == mechanism.per_item + mechanism.margin + 1
    assert release.noise == LaplaceNoise(scale=Fraction(scale * per_item))


def test_a_limit_that_is_reached_leaves_the_answer_incomplete():
    mechanism = UnknownLaplace(contributions=1, scale=Fraction(1), delta=Fraction("0.01"), limit=2)
    assert not mechanism.release(Histogram.of("ab", [10**6, 10**6]), RANDOMNESS).complete
    assert mechanism.release(Histogram.of("a", [10**6]), RANDOMNESS).complete


def test_truncated_gaussian_costs():
    mechanism = TruncatedGaussian(contributions=100, per_item=5, sigma=Fraction(10), delta=Fraction("1e-10"))
    assert mechanism.bound == mechanism.cutoff == 352
    assert mechanism.guarantees() == (Use(TruncatedDiscreteGaussian(sigma=50.0, bound=352, sensitivity=5), 100),)
    assert mechanism.concentrated() == Use(ZeroConcentratedDP(rho=0.5, delta=1e-10))
    paper = TruncatedGaussian(
        contributions=100, per_item=5, sigma=Fraction(10), delta=Fraction("1e-10"), threshold=Threshold.PAPER
    )
    assert (paper.bound, paper.cutoff) == (352, 357)
    assert (mechanism.noise.sigma, mechanism.noise.bound) == (50, 352)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "3"])
def test_integers_are_checked(bad):
    with pytest.raises(InvalidParameter):
        gumbel(k=bad)
    with pytest.raises(InvalidParameter):
        gumbel(limit=bad)
    with pytest.raises(InvalidParameter):
        gumbel(contributions=bad)
    with pytest.raises(InvalidParameter):
        UnknownLaplace(contributions=bad, scale=Fraction(1), delta=DELTA)
    with pytest.raises(InvalidParameter):
        UnknownLaplace(contributions=1, scale=Fraction(1), delta=DELTA, limit=bad)
    with pytest.raises(InvalidParameter):
        TruncatedGaussian(contributions=1, per_item=bad, sigma=Fraction(1), delta=DELTA)


@pytest.mark.parametrize("bad", [0, 1, -1, 2, float("nan"), "0.1"])
def test_deltas_are_checked(bad):
    for make in (
        lambda: gumbel(delta=bad),
        lambda: UnknownLaplace(contributions=1, scale=Fraction(1), delta=bad),
        lambda: TruncatedGaussian(contributions=1, sigma=Fraction(1), delta=bad),
    ):
        with pytest.raises(InvalidParameter):
            make()


def test_a_limit_below_k_and_an_unknown_threshold_are_refused():
    with pytest.raises(InvalidParameter):
        gumbel(k=5, limit=4)
    with pytest.raises(InvalidParameter):
        gumbel(per_item=2**40, epsilon=Fraction(1, 10**9))
    with pytest.raises(InvalidParameter):
        TruncatedGaussian(contributions=1, sigma=Fraction(1), delta=DELTA, threshold="loose")

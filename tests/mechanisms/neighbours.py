"""Small and large neighbouring histograms, the mechanisms run on them, and what reaches the noise."""

from collections import namedtuple
from fractions import Fraction

import numpy as np

from setwise.mechanisms import known_domain, two_phase, unknown_domain
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise
from setwise.mechanisms.two_phase import GaussianCounts, LaplaceCounts, OrderedLeastSquares, TwoPhaseTopK
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGaussian, UnknownGumbel, UnknownLaplace

LABELS = tuple(f"item{number:03d}" for number in range(120))
Seen = namedtuple("Seen", "inputs noise")

WITH_NOISE = (known_domain, two_phase, unknown_domain)
WITH_GUMBEL = (known_domain, unknown_domain)


class Recorder:
    """Stands where noise is added and remembers what would have been noised; adds none."""

    def __init__(self, monkeypatch):
        self.noised, self.ranked = [], []
        for module in WITH_NOISE:
            monkeypatch.setattr(module, "with_noise", self.with_noise)
        for module in WITH_GUMBEL:
            monkeypatch.setattr(module, "gumbel_order", self.gumbel_order)

    def with_noise(self, counts, noise, _randomness):
        self.noised.append(Seen(counts.copy(), noise))
        return counts.copy()

    def gumbel_order(self, scores, rate, k, _randomness):
        self.ranked.append(Seen(scores.copy(), rate))
        return np.argsort(-scores, kind="stable")[:k]


def gaussian_cost(noise, moves):
    """The squared length of moves of whole counts in units of the noise: 1/sigma^2 of the Gaussian that dominates it.

    Noise on denominator * counts has variance own^2 on the diagonal and common^2 everywhere; its inverse is known.
    """
    squares, total = sum(move * move for move in moves), sum(moves)
    match noise:
        case RoundedGaussianNoise(sigma=sigma):
            return squares / sigma**2
        case SharedGaussianNoise(denominator=denominator, own=own, common=common):
            assert len(moves) == noise.labels
            common_part = Fraction(common**2, own**2 + len(moves) * common**2)
            return denominator**2 * (squares - total * total * common_part) / own**2


def counted_mechanisms(contributions, per_item):
    """The mechanisms that noise counts under a bound on contributions."""
    common = {"contributions": contributions, "per_item": per_item}
    small = Fraction("0.001")
    return [
        KnownLaplace(domain=LABELS, scale=Fraction(3), **common),
        KnownGaussian(domain=LABELS, sigma=Fraction(3), **common),
        OrderedLeastSquares(order=LABELS, sigma=Fraction(3), **common),
        UnknownLaplace(scale=Fraction(3 * contributions), delta=small, **common),
        UnknownLaplace(scale=Fraction(3 * contributions), delta=small, limit=200, **common),
        TruncatedGaussian(sigma=Fraction(3), delta=small, **common),
        UnknownGaussian(sigma=Fraction(3), delta=small, **common),
    ]


def top_k_mechanisms(contributions, per_item, k=40):
    """The two phases over both kinds of domain, with both kinds of count."""
    known = KnownGumbel(domain=LABELS, k=k, per_item=per_item, epsilon=Fraction(1, 2))
    unknown = UnknownGumbel(
        k=k, limit=60, contributions=contributions, per_item=per_item, epsilon=Fraction(1, 2), delta=Fraction("0.001")
    )
    return [
        TwoPhaseTopK(discovery=discovery, counts=counts, contributions=contributions)
        for discovery in (known, unknown)
        for counts in (LaplaceCounts(scale=Fraction(3)), GaussianCounts(sigma=Fraction(3)))
    ]


def neighbours(contributions, per_item, seed=0):
    """A histogram, and the same with one user more who adds `per_item` to `contributions` labels, some of them new."""
    source = np.random.default_rng(seed)
    before = source.integers(1, 1000, len(LABELS)) * 50
    before[source.choice(len(LABELS), 5, replace=False)] = 0
    after = before.copy()
    after[source.choice(len(LABELS), min(contributions, len(LABELS)), replace=False)] += per_item
    return Histogram.of(LABELS, before), Histogram.of(LABELS, after)

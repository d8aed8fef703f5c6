"""From outputs alone: a Clopper-Pearson lower bound on epsilon never exceeds what is promised, and finds what is wrong.

The event is chosen on one half of the runs and tested on the other, so choosing costs nothing.
"""

import math
from collections import Counter
from fractions import Fraction

import pytest
from significance import lower_limit, upper_limit
from tests.sizes import RELEASES

from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace, PermuteAndFlip
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.release import Item, Release
from setwise.mechanisms.two_phase import LaplaceCounts, TwoPhaseTopK
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGumbel, UnknownLaplace

RANDOMNESS = SystemRandomness()
pytestmark = pytest.mark.statistical


class LonePick:
    """A pick by permute-and-flip of one of the labels of a histogram, by their counts."""

    def __init__(self, epsilon, score_range):
        self.mechanism = PermuteAndFlip(epsilon=Fraction(epsilon), score_range=Fraction(score_range))

    def release(self, histogram, randomness):
        labels = ("a", "b")
        picked = labels[self.mechanism.pick(histogram.over(labels).tolist(), randomness)]
        return Release(items=(Item(label=picked),), spent=self.mechanism.guarantees(), complete=True)


def outputs(mechanism, histogram, runs):
    seen = Counter()
    for _ in range(runs):
        release = mechanism.release(histogram, RANDOMNESS)
        seen[tuple((item.label, item.count) for item in release.items)] += 1
    return seen


def best_event(first, second, delta):
    """All outcomes the first histogram seems to favour by the most: a threshold on the estimated likelihood ratio."""
    outcomes = sorted(set(first) | set(second), key=lambda o: (first[o] + 1) / (second[o] + 1), reverse=True)
    best, chosen, ones, twos = -math.inf, 1, 0, 0
    for size, outcome in enumerate(outcomes, start=1):
        ones, twos = ones + first[outcome], twos + second[outcome]
        excess = lower_limit(ones, RELEASES) - delta
        score = math.log(excess / upper_limit(twos, RELEASES)) if excess > 0 else -math.inf
        if score > best:
            best, chosen = score, size
    return set(outcomes[:chosen])


def epsilon_at_least(mechanism, before, after, delta=0.0):
    """A lower bound on epsilon at that delta, wrong with probability at most the room's significance."""
    event = best_event(outputs(mechanism, before, RELEASES), outputs(mechanism, after, RELEASES), delta)
    ones, twos = outputs(mechanism, before, RELEASES), outputs(mechanism, after, RELEASES)
    hits, others = sum(ones[o] for o in event), sum(twos[o] for o in event)
    excess = lower_limit(hits, RELEASES) - delta
    return math.log(excess / upper_limit(others, RELEASES)) if excess > 0 else 0.0


ONE, TWO = Histogram.of(["a"], [3]), Histogram.of(["a"], [5])
FEW, MORE = Histogram.of(["a", "b"], [6, 4]), Histogram.of(["a", "b"], [6, 6])
EVEN = Histogram.of(["a", "b"], [8, 6])
SMALL = Fraction("0.01")


@pytest.mark.parametrize(
    ("mechanism", "pair", "epsilon", "delta"),
    [
        (KnownLaplace(domain=("a",), contributions=1, per_item=2, scale=Fraction(1)), (ONE, TWO), 1.0, 0.0),
        (KnownGaussian(domain=("a",), contributions=1, per_item=2, sigma=Fraction(2)), (ONE, TWO), 1.0, 0.00683),
        (KnownGumbel(domain=("a", "b"), k=1, per_item=2, epsilon=Fraction(1)), (FEW, MORE), 1.0, 0.0),
        (LonePick(1, 2), (EVEN, MORE), 1.0, 0.0),
        (
            UnknownGumbel(k=2, limit=2, contributions=1, per_item=2, epsilon=Fraction(1), delta=SMALL),
            (FEW, MORE),
            2.0,
            0.01,
        ),
        (UnknownLaplace(contributions=1, per_item=2, scale=Fraction(1), delta=SMALL), (FEW, MORE), 1.0, 0.01),
        (UnknownLaplace(contributions=1, per_item=2, scale=Fraction(1), delta=SMALL, limit=1), (FEW, MORE), 1.0, 0.01),
        (
            TruncatedGaussian(contributions=1, per_item=2, sigma=Fraction(2), delta=SMALL),
            (ONE, TWO),
            1.0,
            0.0169,
        ),
        (
            TwoPhaseTopK(
                discovery=KnownGumbel(domain=("a", "b"), k=2, per_item=2, epsilon=Fraction(1)),
                counts=LaplaceCounts(scale=Fraction(1)),
                contributions=1,
            ),
            (FEW, MORE),
            3.0,
            0.0,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_output_betrays_more_than_promised(mechanism, pair, epsilon, delta):
    """0.00683 is the delta of a Gaussian of sigma 2 at epsilon 1; on the integers it is smaller."""
    assert epsilon_at_least(mechanism, *pair, delta) <= epsilon
    assert epsilon_at_least(mechanism, *reversed(pair), delta) <= epsilon


def test_the_black_box_sees_noise_that_is_half_of_what_was_promised():
    half = KnownLaplace(domain=("a",), contributions=1, per_item=2, scale=Fraction(1, 2))
    assert epsilon_at_least(half, ONE, TWO) > 1.0


def test_the_black_box_sees_coins_at_twice_the_rate_of_what_was_promised():
    """Of counts 8 and 6 and of 8 and 8, the pick of the second label tells most."""
    assert epsilon_at_least(LonePick(2, 2), Histogram.of(["a", "b"], [8, 8]), EVEN) > 1.0

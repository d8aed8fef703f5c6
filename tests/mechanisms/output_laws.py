"""The exact law of a release: the mechanism's own code run on every noise, each weighted by its probability."""

import itertools
import math
from collections import defaultdict
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from exact_laws import float_probabilities, reach
from neighbours import WITH_GUMBEL, WITH_NOISE

from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise

MOST_LEFT_OUT = 1e-7
"""The mass of noise too large to enumerate."""


@contextmanager
def _standing_in(modules, name, function):
    stack = [patch.object(module, name, function) for module in modules]
    for each in stack:
        each.start()
    try:
        yield
    finally:
        for each in stack:
            each.stop()


def _shown(release):
    """All that a release can show: labels, noisy counts, and the threshold that intervals are made with."""
    threshold = None if release.selection is None else release.selection.threshold
    return tuple((item.label, item.noisy) for item in release.items), threshold


def noise_law(mechanism, histogram):
    """Return the probability of everything that may be released: pairs of (label, noisy count), and the threshold."""
    asked = []

    def probe(counts, noise, _randomness):
        asked.append((len(counts), noise))
        return counts

    with _standing_in(WITH_NOISE, "with_noise", probe):
        mechanism.release(histogram, None)
    ((size, noise),) = asked
    drawn = np.zeros(size, dtype=np.int64)
    law = defaultdict(float)
    with _standing_in(WITH_NOISE, "with_noise", lambda counts, *_: counts + drawn):
        for sizes, mass in joint_law(noise, size).items():
            drawn[:] = sizes
            law[_shown(mechanism.release(histogram, None))] += mass
    return dict(law)


def _kept(noise):
    """The sizes of a noise that are not negligible, with their probabilities."""
    masses, end = float_probabilities(noise), reach(noise, 45)
    return [(z, masses[z + end]) for z in range(-end, end + 1) if masses[z + end] > MOST_LEFT_OUT / 100]


def joint_law(noise, size):
    """Return the probability of the noises of all counts together."""
    law = defaultdict(float)
    if not isinstance(noise, SharedGaussianNoise):
        for draws in itertools.product(_kept(noise), repeat=size):
            law[tuple(z for z, _ in draws)] += math.prod(mass for _, mass in draws)
        return law
    own, common = (_kept(RoundedGaussianNoise(sigma=sigma)) for sigma in (noise.own, noise.common))
    for shared, chance in common:
        one = defaultdict(float)  # the noise of one count, given what all share
        for (z, mass), coin in itertools.product(own, (0, 1)):
            (value,) = noise.combined(np.array([z]), np.array([shared]), np.array([coin]))
            one[int(value)] += mass / 2
        for draws in itertools.product(one.items(), repeat=size):
            law[tuple(z for z, _ in draws)] += chance * math.prod(mass for _, mass in draws)
    return law


def plackett_luce(scores, rate, k):
    """The probability of every ordered k-tuple, by peeling exponential mechanisms."""
    weights = np.exp(float(rate) * (np.array(scores, dtype=float) - max(scores)))
    law = {}
    for order in itertools.permutations(range(len(scores)), k):
        chance, left = 1.0, list(weights)
        for place in order:
            chance *= left[place] / sum(left)
            left[place] = 0.0
        law[order] = chance
    return law


def order_law(mechanism, histogram):
    """Return the probability of every released tuple of labels; what stops at the threshold ends in None."""
    asked = []

    def probe(scores, rate, k, _randomness):
        asked.append((scores.copy(), rate, min(k, len(scores))))
        return np.argsort(-scores)[:k]

    with _standing_in(WITH_GUMBEL, "gumbel_order", probe):
        mechanism.release(histogram, None)
    ((scores, rate, k),) = asked
    law = defaultdict(float)
    for order, chance in plackett_luce(scores, rate, k).items():
        with _standing_in(WITH_GUMBEL, "gumbel_order", lambda *_, order=order: np.array(order, dtype=np.intp)):
            release = mechanism.release(histogram, None)
        law[release.labels + (() if release.complete else (None,))] += chance
    return dict(law)


def hockey_stick(law, other, epsilon):
    """sup over events of P - e^epsilon Q."""
    return sum(max(0.0, mass - np.exp(epsilon) * other.get(outcome, 0.0)) for outcome, mass in law.items())


def unmatched(law, other):
    """The mass of what the other law cannot produce."""
    return sum(mass for outcome, mass in law.items() if other.get(outcome, 0.0) == 0.0)

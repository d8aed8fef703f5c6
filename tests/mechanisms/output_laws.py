"""The exact law of a release: the mechanism's own code run on every noise, each weighted by its probability."""

import itertools
import math
from collections import defaultdict
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from exact_laws import float_probabilities, reach
from neighbours import WITH_GUMBEL, WITH_NOISE

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
    masses, end = float_probabilities(noise), reach(noise, 45)
    kept = [(z, masses[z + end]) for z in range(-end, end + 1) if masses[z + end] > MOST_LEFT_OUT / 100]
    drawn = np.zeros(size, dtype=np.int64)
    law = defaultdict(float)
    with _standing_in(WITH_NOISE, "with_noise", lambda counts, *_: counts + drawn):
        for draws in itertools.product(kept, repeat=size):
            drawn[:] = [z for z, _ in draws]
            law[_shown(mechanism.release(histogram, None))] += math.prod(mass for _, mass in draws)
    return dict(law)


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

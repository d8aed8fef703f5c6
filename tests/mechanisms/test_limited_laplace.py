"""The noisy threshold of the limited Laplace mechanism, docs/intervals.md, Proposition 1, enumerated on small cases.

The law of (threshold, labels that pass it, their noisy counts) is worked out for every small histogram and every change
by one user, apart from the mechanism's code, and its divergence is compared with what the margin promises.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from setwise.mechanisms.unknown_domain import UnknownLaplace, difference_exceedance

REACH = 90


def ranked(counts, limit):
    """The labels that take part, highest count first and equal ones by label, with the count that is next."""
    order = sorted((place for place, count in enumerate(counts) if count), key=lambda place: (-counts[place], place))
    return order[:limit], counts[order[limit]] if len(order) > limit else 0


def passing(count, noise, thresholds):
    """For every threshold: the probabilities that a count does not pass, and that it comes out as each value."""
    values = np.arange(-REACH, REACH + 1)
    chances = np.zeros((thresholds.size, values.size + 1))
    mass = noise(values - count)
    chances[:, 1:] = np.where(values > thresholds[:, None], mass, 0.0)
    chances[:, 0] = 1.0 - chances[:, 1:].sum(axis=1)
    return chances


def divergences(before, after, *, limit, per_item, scale, margin, epsilon):
    """Return sup over events of P - e^epsilon Q, both ways, with the noisy threshold in the output."""
    q = math.exp(-1 / scale)

    def noise(z):
        return (1 - q) / (1 + q) * q ** np.abs(z)

    thresholds = np.arange(-REACH // 2, REACH // 2 + 1)
    tops = [ranked(counts, limit) for counts in (before, after)]
    common = [label for label in tops[0][0] if label in tops[1][0]]
    laws = []
    for counts, (top, following) in zip((before, after), tops, strict=True):
        law = noise(thresholds - (following + per_item + margin))[:, None]
        for label in common:
            each = passing(counts[label], noise, thresholds)
            law = (law[:, :, None] * each[:, None, :]).reshape(thresholds.size, -1)
        alone = np.ones(thresholds.size)
        for label in top:
            if label not in common:
                alone *= passing(counts[label], noise, thresholds)[:, 0]
        laws.append((law * alone[:, None], float((law.sum(axis=1) * (1 - alone)).sum())))
    (first, foreign), (second, new) = laws
    factor = math.exp(epsilon)
    return (
        float(np.maximum(first - factor * second, 0.0).sum()) + foreign,
        float(np.maximum(second - factor * first, 0.0).sum()) + new,
    )


def changes(size, contributions, per_item):
    for added in itertools.product(range(per_item + 1), repeat=size):
        if 0 < sum(each > 0 for each in added) <= contributions:
            yield added


def worst(contributions, per_item, limit, scale, margin, epsilon):
    size, most = limit + 2, 2 if per_item == 1 else 3
    histograms = [
        counts for counts in itertools.product(range(most + 1), repeat=size) if list(counts) == sorted(counts)[::-1]
    ]
    return max(
        max(
            divergences(
                before,
                tuple(map(sum, zip(before, added, strict=True))),
                limit=limit,
                per_item=per_item,
                scale=scale,
                margin=margin,
                epsilon=epsilon,
            )
        )
        for before in histograms
        for added in changes(size, contributions, per_item)
    )


@pytest.mark.parametrize(
    ("contributions", "per_item", "limit"),
    [(1, 1, 1), (1, 2, 1), (2, 1, 1), pytest.param(2, 1, 2, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("margin", [1, 4])
def test_no_event_betrays_more_than_a_hidden_label_passing(contributions, per_item, limit, margin):
    scale = Fraction(3, 2)
    promised = min(contributions, limit) * float(difference_exceedance(scale, margin))
    found = worst(contributions, per_item, limit, float(scale), margin, contributions * per_item / float(scale))
    assert found <= promised * (1 + 1e-9)
    if min(contributions, limit) == 1:
        assert found >= promised * (1 - 1e-6)  # some user reaches it


@pytest.mark.parametrize(("contributions", "per_item"), [(1, 1), (1, 2), (2, 1)])
def test_the_margin_is_the_smallest_that_keeps_delta(contributions, per_item):
    delta = Fraction("0.02")
    mechanism = UnknownLaplace(
        contributions=contributions, per_item=per_item, scale=Fraction(3, 2), delta=delta, limit=1
    )
    scale, epsilon = float(mechanism.noise.scale), float(mechanism.epsilon)
    assert worst(contributions, per_item, 1, scale, mechanism.margin, epsilon) <= delta
    assert worst(contributions, per_item, 1, scale, mechanism.margin - 1, epsilon) > delta

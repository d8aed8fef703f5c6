"""The exact joint law of a mean and a quantile obeys the accountant, whichever user is added to a small group."""

from fractions import Fraction

import numpy as np
import pytest
from exact_laws import reach as support
from exact_laws import weight

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import Use
from setwise.mechanisms.doubling_bounds import DoublingBounds
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.parameters import binary
from setwise.mechanisms.quantile import GridQuantiles, rank_scores, score_range
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.statistics import GroupStatistics, NoisyMean, NoisyVariance, OneQuantile
from setwise.mechanisms.two_phase import GaussianCounts, LaplaceCounts, noise_of

EPSILONS = (0.0, 0.3, 1.0, 2.0)
TAIL = 22


def law(noise):
    """The probabilities of -r, .., r, which hold all but about e^-22."""
    most = support(noise, TAIL)
    weights = np.array([float(weight(noise, z)) for z in range(-most, most + 1)])
    return weights / weights.sum()


def moved(probabilities, by):
    """The law of the value moved by at most 9 either way, on a common support."""
    return np.pad(probabilities, (9 + by, 9 - by))


def picks(quantile, counts):
    (at,) = quantile.shares
    scores = rank_scores(np.array(counts), at)
    weights = np.exp(float(quantile.epsilon) / score_range(at) * (scores - scores.max()))
    return weights / weights.sum()


def hockey_stick(first, second, epsilon):
    return float(np.maximum(first - np.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("noise", [LaplaceCounts(scale=Fraction(2)), GaussianCounts(sigma=Fraction(3, 2))])
@pytest.mark.parametrize(("reach", "rows"), [(3, 1), (2, 3)])
def test_a_mean_and_a_quantile_of_one_group_cost_no_more_than_composed(noise, reach, rows):
    mean = NoisyMean(reach=reach, rows=rows, noise=noise)
    quantile = GridQuantiles(shares=(Fraction(1, 2),), cells=4, epsilon=Fraction(3, 4))
    median = OneQuantile(quantiles=quantile, number=0, leader=1)
    mechanism = GroupStatistics(statistics=(mean, median), contributions=1, domain=("a",))
    promise = compose(mechanism.guarantees())
    sums, numbers = (law(noise_of(noise, each)) for each in mean.reaches)
    worst = dict.fromkeys(EPSILONS, 0.0)
    for counts in ([1, 0, 2, 1], [0, 0, 0, 0]):
        before = picks(quantile, counts)
        for cell in range(4):
            more = [count + (place == cell) for place, count in enumerate(counts)]
            after = picks(quantile, more)
            for adds, as_many in ((reach * rows, rows), (-reach * rows, rows), (0, 1)):
                first, second = (
                    np.einsum("s,n,c->snc", moved(sums, s), moved(numbers, n), law_of_cell)
                    for s, n, law_of_cell in ((0, 0, before), (adds, as_many, after))
                )
                for epsilon in EPSILONS:
                    found = max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))
                    worst[epsilon] = max(worst[epsilon], found)
    for epsilon, found in worst.items():
        assert found <= promise.delta(epsilon).upper + 1e-8
    # Charged for noise twice as wide, the same release would break its promise.
    cheaper = NoisyMean(reach=reach, rows=rows, noise=_wider(noise))
    charged = compose(GroupStatistics(statistics=(cheaper,), contributions=1, domain=("a",)).guarantees())
    assert worst[0.3] > charged.delta(0.3).upper


@pytest.mark.parametrize("noise", [LaplaceCounts(scale=Fraction(2)), GaussianCounts(sigma=Fraction(3, 2))])
def test_a_variance_of_one_group_costs_no_more_than_its_three_sums(noise):
    """A row y adds y and 2 y^2 - 1, in units of 1 / reach, and 1 to the number of rows."""
    reach = 2
    variance = NoisyVariance(reach=reach, noise=noise)
    promise = compose(GroupStatistics(statistics=(variance,), contributions=1, domain=("a",)).guarantees())
    laws = [law(noise_of(noise, each)) for each in variance.reaches]
    worst = dict.fromkeys(EPSILONS, 0.0)
    for y in (-1, -0.5, 0, 0.5, 1):
        adds = (round(reach * y), round(reach * (2 * y * y - 1)), 1)
        first, second = (
            np.einsum("s,q,n->sqn", *(moved(each, by) for each, by in zip(laws, moves, strict=True)))
            for moves in ((0, 0, 0), adds)
        )
        for epsilon in EPSILONS:
            found = max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))
            worst[epsilon] = max(worst[epsilon], found)
    for epsilon, found in worst.items():
        assert found <= promise.delta(epsilon).upper + 1e-8
        assert found > 0.9 * promise.delta(epsilon).lower  # a row at a bound moves all three by their most
    cheaper = NoisyVariance(reach=reach, noise=_wider(noise))
    assert worst[0.3] > compose([Use(each) for each in cheaper.guarantees()]).delta(0.3).upper


def _wider(noise):
    if isinstance(noise, LaplaceCounts):
        return LaplaceCounts(scale=noise.scale * 2)
    return GaussianCounts(sigma=noise.sigma * 2)


def test_noise_of_bounds_is_as_wide_as_charged():
    """Of two bins 30 apart in count the larger is taken where neither stands out: by the noise's own law."""
    bounds, counts = DoublingBounds(scale=Fraction(20)), np.full(171, -(10**6))
    counts[105], counts[115] = 0, 30
    taken = sum(bounds.release(counts, SystemRandomness()).high > 2**9 for _ in range(2000))
    probabilities = law(LaplaceNoise(scale=binary(bounds.scale)))
    difference = np.convolve(probabilities, probabilities[::-1])
    chance = difference[len(probabilities) - 1 - 29 :].sum()
    assert abs(taken / 2000 - chance) < 0.05  # five deviations


def test_bounds_that_are_found_cost_one_use():
    """One user moves one of the counts by one, so their joint law is as far apart as that of one count."""
    bounds = DoublingBounds(scale=Fraction(2))
    probabilities = law(LaplaceNoise(scale=binary(bounds.scale)))
    promise = compose([bounds.guarantee])
    for epsilon in EPSILONS:
        found = hockey_stick(moved(probabilities, 0), moved(probabilities, 1), epsilon)
        assert promise.delta(epsilon).lower - 1e-8 <= found <= promise.delta(epsilon).upper + 1e-8

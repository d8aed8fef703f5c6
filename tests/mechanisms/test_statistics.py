"""Statistics of groups: priced for the groups a user can change, certified, and intervals that hold."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import DiscreteLaplace, Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.planning import cost
from setwise.mechanisms.planning.request import Bounds, CountNoise, Total
from setwise.mechanisms.planning.statistics import plan_statistics
from setwise.mechanisms.quantile import GridQuantiles
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.statistic_release import GroupTable
from setwise.mechanisms.statistics import (
    GroupStatistics,
    NoisyMean,
    NoisyTotal,
    NoisyVariance,
    OneQuantile,
    UsersFound,
    noise_of,
)
from setwise.mechanisms.two_phase import GaussianCounts, LaplaceCounts

UNIT = LaplaceCounts(scale=Fraction(1))
TOTAL = Total(epsilon=1, delta=Fraction("1e-6"))
GAUSSIAN = GaussianCounts(sigma=Fraction(20))
MEAN = NoisyMean(reach=500, noise=UNIT)
MEDIAN = OneQuantile(
    quantiles=GridQuantiles(shares=(Fraction(1, 2),), cells=1001, epsilon=Fraction(1)), number=0, leader=1
)


def table(sizes, values):
    """Groups of so many users, whose values lie around `values`; each statistic reads them its own way."""
    labels = tuple(sizes)
    totals = {label: int(sizes[label] * values[label]) for label in labels}
    cells = {}
    for label in labels:
        counts = np.zeros(1001, np.int64)
        counts[500 + values[label]] = sizes[label]
        cells[label] = counts
    return GroupTable(Histogram.of(labels, list(sizes.values())), (totals,) * 3, (sizes,) * 3, (cells,) * 3)


@pytest.mark.parametrize("counts", [CountNoise.LAPLACE, CountNoise.GAUSSIAN])
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(domain=("a", "b", "c"), contributions=2),
        Bounds(contributions=3),
        Bounds(k=2),
        Bounds(k=2, domain=("a", "b", "c")),
    ],
)
def test_plans_are_certified_and_nearly_spend_the_total(bounds, counts):
    total = Total(epsilon=1, delta=Fraction("1e-6"), counts=counts)
    mechanism = plan_statistics(bounds, total, [UsersFound(), MEAN, NoisyTotal(reach=7, noise=UNIT)]).mechanism
    spent = compose(mechanism.guarantees()).epsilon(1e-6).upper
    assert 0.9 < spent <= 1.0
    release = mechanism.release(
        table({"a": 3000, "b": 2000, "c": 1000}, {"a": 10, "b": -20, "c": 3}), SystemRandomness()
    )
    assert release.labels[:2] == ("a", "b")
    most = {use.guarantee: use.count for use in mechanism.guarantees()}
    assert all(use.count <= most[use.guarantee] for use in release.spent)
    assert [len(each) for each in release.estimates] == [3] * len(release.labels)


@pytest.mark.parametrize(
    "wanted",
    [[MEAN], [replace(MEDIAN, leader=0)], [UsersFound(), MEAN, replace(MEDIAN, leader=2)]],
    ids=["mean", "median", "three"],
)
@pytest.mark.parametrize("bounds", [Bounds(contributions=3), Bounds(k=5)], ids=["found", "top"])
def test_a_few_compositions_find_noise_that_half_a_percent_less_would_not_allow(bounds, wanted):
    cost._search_price.cache_clear()
    found = plan_statistics(bounds, Total(epsilon=1, delta=Fraction("1e-6")), wanted).mechanism
    assert cost._search_price.cache_info().misses <= 2
    assert compose(found.guarantees()).epsilon(1e-6).upper <= 1.0
    less = replace(found, statistics=tuple(_with_less_noise(each, Fraction(1000, 1005)) for each in found.statistics))
    assert compose(less.guarantees()).epsilon(1e-6).upper > 0.9995  # what is found first keeps its share


def _with_less_noise(release, factor):
    match release:
        case NoisyMean(noise=LaplaceCounts(scale=scale)):
            return replace(release, noise=LaplaceCounts(scale=scale * factor))
        case NoisyMean(noise=GaussianCounts(sigma=sigma)):
            return replace(release, noise=GaussianCounts(sigma=sigma * factor))
        case OneQuantile(quantiles=quantiles):
            return replace(release, quantiles=replace(quantiles, epsilon=quantiles.epsilon / factor))
        case _:
            return release


@pytest.mark.parametrize("contributions", [1, 3, 10])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 1, 2])
def test_groups_are_found_and_means_noised_together_as_well_as_with_either_noise(epsilon, contributions):
    """The lead a group needs, times what its mean is off by: half an interval and the mean error alike."""
    bounds, total = Bounds(contributions=contributions), Total(epsilon=epsilon, delta=Fraction("1e-6"))

    def off(counts):
        planned = plan_statistics(bounds, replace(total, counts=counts), [MEAN])
        noise = noise_of(planned.mechanism.statistics[0].noise, 500)
        error = math.sqrt(noise.radius(Fraction(95, 100)) * noise.expected_absolute)
        return planned.discovery.preview.detectable * error

    assert off(CountNoise.BEST) <= 1.01 * min(off(CountNoise.LAPLACE), off(CountNoise.GAUSSIAN))


def test_a_statistic_costs_the_groups_that_a_user_can_change():
    statistics = (NoisyMean(reach=5, noise=LaplaceCounts(scale=Fraction(10))), MEDIAN)
    few = GroupStatistics(statistics=statistics, contributions=2, domain=("a", "b", "c"))
    assert sorted(use.count for use in few.guarantees()) == [2, 2, 2]
    all_of_them = GroupStatistics(statistics=statistics, contributions=None, domain=("a", "b", "c"))
    assert {use.count for use in all_of_them.guarantees()} == {3}
    with pytest.raises(InvalidParameter, match="bounded"):
        GroupStatistics(statistics=statistics, contributions=None).guarantees()
    with pytest.raises(InvalidParameter, match="counted"):
        GroupStatistics(statistics=(UsersFound(),), contributions=2, domain=("a",))


def test_quantiles_of_the_same_values_are_paid_for_once_and_come_in_order():
    quartiles = GridQuantiles(shares=(Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)), cells=1001, epsilon=Fraction(2))
    statistics = tuple(OneQuantile(quantiles=quartiles, number=number, leader=0) for number in (2, 0, 1))
    mechanism = GroupStatistics(statistics=statistics, contributions=2, domain=("a", "b", "c"))
    assert mechanism.guarantees() == (Use(quartiles.guarantee, 2 * 2),)
    counts = np.ones(1001, np.int64)
    found = GroupTable(Histogram.of(("a",), [1001]), ({},) * 3, ({},) * 3, ({"a": counts}, {}, {}))
    release = mechanism.release(found, SystemRandomness())
    assert release.spent == mechanism.guarantees()
    for estimates, label in zip(release.estimates, release.labels, strict=True):
        upper, lower, median = (each.value for each in estimates)
        assert lower <= median <= upper
        if label == "a":
            assert (upper, median, lower) == pytest.approx((750, 500, 250), abs=60)


@pytest.mark.parametrize("leader", [0, 2, -1, 5])
def test_a_quantile_that_nobody_pays_for_is_refused(leader):
    others = replace(MEDIAN.quantiles, epsilon=Fraction(2))
    statistics = (
        NoisyTotal(reach=1, noise=UNIT),
        replace(MEDIAN, leader=leader),
        OneQuantile(quantiles=others, number=0, leader=2),
    )
    with pytest.raises(InvalidParameter, match="must be a quantile of the same values"):
        GroupStatistics(statistics=statistics, contributions=1, domain=("a",))


@pytest.mark.parametrize("noise", [LaplaceCounts(scale=Fraction(30)), GaussianCounts(sigma=Fraction(20))])
@pytest.mark.parametrize(("size", "mean"), [(2000, 100), (150, -300), (30, 499), (3, 0)])
def test_intervals_of_means_hold(noise, size, mean):
    """Also of groups so small that the noise drowns them; the interval is then most of the range."""
    release = NoisyMean(reach=500, noise=noise).release(
        np.full(4000, size * mean), np.full(4000, size), Fraction(9, 10), SystemRandomness()
    )
    held = np.mean([each.interval[0] <= mean <= each.interval[1] for each in release])
    assert held >= 0.885  # four standard deviations below nine tenths
    assert all(each.interval[0] <= each.value <= each.interval[1] for each in release)
    assert all(each.interval[0] >= -500 and each.interval[1] <= 500 for each in release)


@pytest.mark.parametrize(("noise", "deviation"), [(LaplaceCounts(scale=Fraction(20)), 2**0.5 * 20), (GAUSSIAN, 20)])
def test_noise_is_as_wide_as_what_one_user_adds(noise, deviation):
    """A mean of rows near its bound: its sum moves by reach for a row, its number by 1, and a user has three rows."""
    size, reach, rows = 10**6, 10**4, 3
    mean = NoisyMean(reach=reach, rows=rows, noise=noise)
    totals = np.full(4000, size * reach * 9 // 10)
    values = [each.value for each in mean.release(totals, np.full(4000, size), Fraction(9, 10), SystemRandomness())]
    wide = deviation * reach * rows / size * (1 + 0.9**2) ** 0.5
    assert np.std(values) == pytest.approx(wide, rel=0.1)  # its own deviation is below two percent
    total = NoisyTotal(reach=50, noise=noise)
    sums = [
        each.value for each in total.release(np.zeros(4000, int), np.zeros(4000), Fraction(9, 10), SystemRandomness())
    ]
    assert np.std(sums) == pytest.approx(50 * deviation, rel=0.1)


def test_what_is_charged_is_what_the_noise_costs():
    laplace = NoisyTotal(reach=50, noise=LaplaceCounts(scale=Fraction(20))).guarantees()
    assert laplace == (DiscreteLaplace(scale=1000.0, sensitivity=50),)
    mean = NoisyMean(reach=50, rows=3, noise=GAUSSIAN).guarantees()
    assert [each.sigma for each in mean] == [20, 20]


@pytest.mark.parametrize("theta", [0, 2, 4])
def test_intervals_of_means_allow_for_rounded_noise(theta):
    """Noise so narrow that rounding is most of it."""
    mean = NoisyMean(reach=4, noise=GaussianCounts(sigma=Fraction(1, 4)))
    release = mean.release(np.full(4000, 200 * theta), np.full(4000, 200), Fraction(9, 10), SystemRandomness())
    assert np.mean([each.interval[0] <= theta <= each.interval[1] for each in release]) >= 0.885


def test_sums_may_be_negative_and_their_intervals_hold():
    total = NoisyTotal(reach=50, noise=GaussianCounts(sigma=Fraction(3)))
    release = total.release(np.full(4000, -700), np.zeros(4000), Fraction(9, 10), SystemRandomness())
    assert np.mean([each.interval[0] <= -700 <= each.interval[1] for each in release]) >= 0.885
    assert Use(total.guarantees()[0]) == Use(NoisyTotal(reach=1, noise=total.noise).guarantees()[0])


def test_a_group_is_released_once():
    """Twice under one label, one user would change two values where one use is charged."""
    with pytest.raises(InvalidParameter, match="distinct"):
        GroupStatistics(statistics=(NoisyTotal(reach=1, noise=UNIT),), contributions=1, domain=("a", "a"))


def test_what_cannot_be_planned():
    for total in (Total(epsilon=1, delta=0, counts=CountNoise.GAUSSIAN), Total(epsilon=1, delta=0, counts="none")):
        with pytest.raises(Exception, match=r"no noise|without values"):
            plan_statistics(Bounds(domain=("a",)), total, [MEAN])
    with pytest.raises(InvalidParameter, match="mechanism"):
        plan_statistics(Bounds(k=1), Total(epsilon=1, delta=1e-6, mechanism="unknown_gumbel"), [MEAN])


@pytest.mark.parametrize("noise", [LaplaceCounts(scale=Fraction(5)), GaussianCounts(sigma=Fraction(8))])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_interval_of_a_mean_reaches_as_far_as_planned_and_no_further(noise, rows):
    release, confidence = NoisyMean(reach=500, noise=noise, rows=rows), Fraction(19, 20)
    planned, ratio = release.interval_reach(1000, confidence), release.ratio(confidence)
    reached = []
    for total in range(-500_000, 500_001, 1000):
        found = ratio.estimate(total, 1000)
        reached.append(max(found.interval[1] - found.value, found.value - found.interval[0]))
    assert 0.97 * planned < max(reached) <= planned * (1 + 1e-9)


@pytest.mark.parametrize("noise", [LaplaceCounts(scale=Fraction(5)), GaussianCounts(sigma=Fraction(8))])
def test_the_interval_of_a_variance_holds_both_quotients(noise):
    """Around y = m with variance v, any sums within the noise of the exact ones leave v in the interval."""
    release = NoisyVariance(reach=1000, noise=noise)
    ratio = release.ratio(Fraction(19, 20))
    for mean, variance in ((0.0, 0.25), (0.6, 0.1), (-0.9, 0.01), (0.3, 0.0)):
        number, second = 400, 2 * (variance + mean**2) - 1
        shift = ratio.explained(500.0) / 2
        for first, other in ((0, 0), (shift, -shift), (-shift, shift), (shift, shift), (-shift, -shift)):
            total, squares = (round(1000 * number * value) for value in (mean, second))
            found = release.estimate(round(total + first), round(squares + other), number, ratio)
            assert found.interval[0] <= variance <= found.interval[1]
            assert found.interval[0] <= found.value <= found.interval[1]


@pytest.mark.parametrize("bounds", [Bounds(contributions=3), Bounds(k=5), Bounds(contributions=256, k=1000)])
@pytest.mark.parametrize("wanted", [[MEAN], [MEAN, MEDIAN], [UsersFound(), MEAN, NoisyTotal(reach=7, noise=UNIT)]])
def test_a_plan_that_is_only_estimated_has_more_noise_than_the_certified_one_and_the_same_mechanisms(bounds, wanted):
    total = Total(epsilon=Fraction(1, 2), delta=Fraction("1e-6"))
    certified = plan_statistics(bounds, total, wanted)
    cost._search_price.cache_clear()
    estimated = plan_statistics(bounds, total, wanted, certified=False)
    assert cost._search_price.cache_info().misses == 0
    assert estimated.name == certified.name
    spent = [compose(choice.mechanism.guarantees()).epsilon(1e-6).upper for choice in (estimated, certified)]
    assert 0.45 < spent[0] < spent[1] <= 0.5

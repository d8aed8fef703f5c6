"""Calibrating several statistics of groups, and the discovery of the groups, to one total."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TypeAlias, assert_never

import numpy as np

from setwise.accounting.brackets import float_below
from setwise.accounting.guarantees import Use, largest_loss
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.planning.cost import (
    EstimatedSpread,
    estimated_price,
    estimated_spread,
    least_spread,
    searched_price,
)
from setwise.mechanisms.planning.planner import Choice, rough_plan
from setwise.mechanisms.planning.request import Bounds, CountNoise, Total
from setwise.mechanisms.planning.search import rough_spread
from setwise.mechanisms.release import CONFIDENCE
from setwise.mechanisms.statistics import (
    GroupStatistics,
    NoisyMean,
    NoisyTotal,
    OneQuantile,
    StatisticRelease,
    UsersFound,
)
from setwise.mechanisms.two_phase import Counts, GaussianCounts, LaplaceCounts

_DISCOVERY_SHARES = (Fraction(1), Fraction(1, 2), Fraction(2, 5), Fraction(3, 8), Fraction(1, 3))
"""The share of epsilon within which groups are found, by the number of statistics beside: about 1 / (1 + m^(1/2)).

Epsilons add up for few uses, where one more of m + 1 parts would be 1 / (m + 1), and their squares for many, where it
would be 1 / (m + 1)^(1/2). This is near the best geometric mean of the least count that is found and of all spreads for
both. What it leaves unspent goes to the statistics.
"""

_DISCOVERY_DELTA = Fraction(1, 2)
"""The share of delta within which groups are found."""

_ROOT_OF_TWO = 1.414
_ERROR = {CountNoise.LAPLACE: 1.732, CountNoise.GAUSSIAN: 1.251}
"""Geometric mean of half a 95% interval, 3.0 or 1.96 spreads, and of the mean absolute error, 1.0 or 0.798 spreads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsChoice:
    """The mechanism, its name, and how its groups are found; None when they are public."""

    mechanism: GroupStatistics
    name: str
    discovery: Choice | None


def plan_statistics(bounds: Bounds, total: Total, wanted: Sequence[StatisticRelease]) -> StatisticsChoice:
    """Return the mechanism with the least noise for the statistics wanted, whose own noise is left to be chosen.

    Every statistic gets about the same share of the budget: a mean, which is two releases, noise 2^(1/2) times as wide,
    and a quantile the range of a pick that costs as much zCDP as a noisy sum.

    Ensures: the set-wise composition of the mechanism's guarantees is certified to be within (epsilon, delta).
    """
    if total.mechanism is not None:
        raise InvalidParameter("a mechanism can be forced for one count or sum only: leave mechanism out")
    if total.counts is CountNoise.NONE:
        raise InvalidParameter("statistics without values say nothing: leave counts out")
    found = _discovered(bounds, total, wanted)
    if found is None or not _counts_users(found):
        wanted = [NoisyTotal(reach=1, noise=_UNIT) if each == UsersFound() else each for each in wanted]
    noises = [
        each
        for each in _ERROR
        if total.counts in (CountNoise.BEST, each) and (each is CountNoise.LAPLACE or total.delta)
    ]
    target, delta = float_below(total.epsilon), float_below(total.delta)

    def uses(noise: CountNoise, spread: Fraction) -> tuple[Use, ...]:
        return _made(bounds, found, wanted, noise, spread).guarantees()

    noisy = [each for each in wanted if isinstance(each, NoisyTotal | NoisyMean)]
    share = len(noisy) / (len(noisy) + sum(isinstance(each, OneQuantile) for each in wanted) or 1)

    def error(tried: tuple[CountNoise, EstimatedSpread]) -> float:
        """Return the geometric mean of what statistics are off by: ranks of quantiles depend on the spread alone."""
        noise, guess = tried
        return guess.spread * float(_ERROR[noise] ** share)

    rough = []
    for noise in noises:
        first = _first_spread(uses(noise, Fraction(1)), target, delta)
        guess = estimated_spread(partial(_estimated, partial(uses, noise), delta), first, target)
        if guess is not None:
            rough.append((noise, guess))
    for noise, guess in sorted(rough, key=error):
        spread = least_spread(partial(_certified, partial(uses, noise), delta), guess, target)
        if spread is not None:
            break
    else:
        raise Unattainable(f"no noise in range meets epsilon {float(total.epsilon):g} at this delta; ask for less")
    names = [] if found is None else [found.name]
    kinds = {isinstance(each, OneQuantile) for each in wanted if each != UsersFound()}
    names += [name for name, there in ((str(noise), False in kinds), ("exponential", True in kinds)) if there]
    return StatisticsChoice(
        mechanism=_made(bounds, found, wanted, noise, spread),
        name="+".join(names),
        discovery=found,
    )


_UNIT = LaplaceCounts(scale=Fraction(1))


def _first_spread(at_one: Sequence[Use], epsilon: float, delta: float) -> float:
    """Return about the spread that keeps (epsilon, delta), given what is spent with a spread of 1."""
    concentrated = [(use.guarantee.zero_concentrated(), use.count) for use in at_one]
    rho = math.fsum(count * (each.xi + each.rho) for each, count in concentrated)
    plain = largest_loss((use.guarantee, use.count) for use in at_one)
    return float(rough_spread(np.array(rho), np.array(plain), epsilon, np.array(delta)))


UsesOf: TypeAlias = Callable[[Fraction], tuple[Use, ...]]
"""What is spent with a spread of noise."""


def _estimated(uses: UsesOf, delta: float, spread: Fraction) -> float:
    return estimated_price(uses(spread), delta)


def _certified(uses: UsesOf, delta: float, spread: Fraction) -> float:
    return searched_price(uses(spread), delta)


def _discovered(bounds: Bounds, total: Total, wanted: Sequence[StatisticRelease]) -> Choice | None:
    """Return how groups are found by their users; None when the domain is public and all of it is wanted."""
    if bounds.domain is not None and bounds.k is None:
        return None
    labels_only = bounds.k is not None and UsersFound() not in wanted
    beside = sum(not isinstance(each, UsersFound) for each in wanted)
    part = replace(
        total,
        epsilon=total.epsilon * _DISCOVERY_SHARES[min(beside, len(_DISCOVERY_SHARES) - 1)],
        delta=total.delta * _DISCOVERY_DELTA,
        counts=CountNoise.NONE if labels_only else total.counts,
    )
    return rough_plan(replace(bounds, per_item=1), part, CONFIDENCE)


def _counts_users(found: Choice) -> bool:
    return found.preview.radius is not None


def _made(
    bounds: Bounds, found: Choice | None, wanted: Sequence[StatisticRelease], noise: CountNoise, spread: Fraction
) -> GroupStatistics:
    return GroupStatistics(
        statistics=tuple(_with_noise(each, noise, spread) for each in wanted),
        contributions=bounds.contributions,
        discovery=None if found is None else found.mechanism,
        domain=bounds.domain or (),
        k=bounds.k,
    )


def _with_noise(statistic: StatisticRelease, noise: CountNoise, spread: Fraction) -> StatisticRelease:
    match statistic:
        case NoisyTotal():
            return replace(statistic, noise=_counts(noise, spread))
        case NoisyMean():
            return replace(statistic, noise=_counts(noise, Fraction(f"{float(spread) * _ROOT_OF_TWO:.4g}")))
        case OneQuantile():  # a pick of range 2/s costs the zCDP of noise of spread s, a half of 1/s^2
            return replace(statistic, quantiles=replace(statistic.quantiles, epsilon=2 / spread))
        case UsersFound():
            return statistic
        case _:
            assert_never(statistic)


def _counts(noise: CountNoise, spread: Fraction) -> Counts:
    return LaplaceCounts(scale=spread) if noise is CountNoise.LAPLACE else GaussianCounts(sigma=spread)

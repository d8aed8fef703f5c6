"""Calibrating several statistics of groups, and the discovery of the groups, to one total."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from setwise.accounting.brackets import float_below
from setwise.accounting.guarantees import Use, largest_loss
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.planning.cost import (
    Price,
    estimated_price,
    estimated_spread,
    least_spread,
    searched_price,
)
from setwise.mechanisms.planning.planner import Choice, reach_of, rough_plans
from setwise.mechanisms.planning.request import Bounds, CountNoise, Total
from setwise.mechanisms.planning.search import rough_spread
from setwise.mechanisms.release import CONFIDENCE
from setwise.mechanisms.statistics import GroupStatistics, NoiseOfScale, NoisyTotal, StatisticRelease, UsersFound
from setwise.mechanisms.two_phase import Counts, GaussianCounts, LaplaceCounts

_DISCOVERY_SHARES = (Fraction(1), Fraction(1, 2), Fraction(2, 5), Fraction(3, 8), Fraction(1, 3))
"""The share of epsilon within which groups are found, by the number of statistics beside: about 1 / (1 + m^(1/2)).

Epsilons add up for few uses, where one more of m + 1 parts would be 1 / (m + 1), and their squares for many, where it
would be 1 / (m + 1)^(1/2). This is near the best geometric mean of the least count that is found and of all spreads for
both. What it leaves unspent goes to the statistics.
"""

_DISCOVERY_DELTA = Fraction(1, 2)
"""The share of delta within which groups are found."""

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
    noises = [
        each
        for each in _ERROR
        if total.counts in (CountNoise.BEST, each) and (each is CountNoise.LAPLACE or total.delta)
    ]
    if all(release.by_picks for release in wanted):
        noises = noises[:1]  # for none of them
    target, delta = float_below(total.epsilon), float_below(total.delta)
    rough = []
    for found in _discoveries(bounds, total, wanted):
        for noise in noises:
            draft = _Draft(bounds, found, wanted, noise)
            first = _first_spread(draft.uses(Fraction(1)), target, delta)
            guess = estimated_spread(draft.priced(estimated_price, delta), first, target)
            if guess is not None:
                rough.append((draft, guess))
    for draft, guess in sorted(rough, key=lambda tried: tried[0].off(tried[1].spread)):
        spread = least_spread(draft.priced(searched_price, delta), guess, target)
        if spread is not None:
            return StatisticsChoice(mechanism=draft.made(spread), name=draft.name, discovery=draft.found)
    raise Unattainable(f"no noise in range meets epsilon {float(total.epsilon):g} at this delta; ask for less")


_UNIT = LaplaceCounts(scale=Fraction(1))


def _first_spread(at_one: Sequence[Use], epsilon: float, delta: float) -> float:
    """Return about the spread that keeps (epsilon, delta), given what is spent with a spread of 1."""
    concentrated = [(use.guarantee.zero_concentrated(), use.count) for use in at_one]
    rho = math.fsum(count * (each.xi + each.rho) for each, count in concentrated)
    plain = largest_loss((use.guarantee, use.count) for use in at_one)
    return float(rough_spread(np.array(rho), np.array(plain), epsilon, np.array(delta)))


@dataclass(frozen=True, slots=True)
class _Draft:
    """How groups are found, None when they are public, and the noise of statistics whose spread is to be found."""

    bounds: Bounds
    found: Choice | None
    wanted: Sequence[StatisticRelease]
    noise: CountNoise

    @property
    def statistics(self) -> list[StatisticRelease]:
        """The statistics wanted; users are counted where finding the groups does not."""
        if self.found is not None and self.found.preview.radius is not None:
            return list(self.wanted)
        return [NoisyTotal(reach=1, noise=_UNIT) if each == UsersFound() else each for each in self.wanted]

    @property
    def name(self) -> str:
        """How groups are found, the noise of counts, sums and means, and the mechanism of quantiles."""
        names = [] if self.found is None else [self.found.name]
        kinds = {release.by_picks for release in self.statistics if release != UsersFound()}
        names += [name for name, there in ((str(self.noise), False in kinds), ("exponential", True in kinds)) if there]
        return "+".join(names)

    def made(self, spread: Fraction) -> GroupStatistics:
        """Return the mechanism with noise of the given spread."""
        return GroupStatistics(
            statistics=tuple(release.with_noise(_NOISE[self.noise], spread) for release in self.statistics),
            contributions=self.bounds.contributions,
            discovery=None if self.found is None else self.found.mechanism,
            domain=self.bounds.domain or (),
            k=self.bounds.k,
        )

    def uses(self, spread: Fraction) -> tuple[Use, ...]:
        """Return what is spent with noise of the given spread."""
        return self.made(spread).guarantees()

    def priced(self, price: Callable[[tuple[Use, ...], float], float], delta: float) -> Price:
        """Return the price of each spread at delta."""
        return lambda spread: price(self.uses(spread), delta)

    def off(self, spread: float) -> float:
        """Return the sum of the logarithms of what everything is off by, up to what drafts have in common.

        That is the lead a group needs to be found, the errors of counts, sums and means, and ranks of quantiles.
        """
        total = 0.0
        if self.found is not None:
            total += math.log(max(1, reach_of(self.found.preview)))
        preview = None if self.found is None else self.found.preview
        for release in self.statistics:
            total += math.log(release.planning_error(spread, _ERROR[self.noise], preview))
        return total


def _discoveries(bounds: Bounds, total: Total, wanted: Sequence[StatisticRelease]) -> Sequence[Choice | None]:
    """Return ways to find groups by their users, best first; None when the domain is public and all of it is wanted."""
    if bounds.domain is not None and bounds.k is None:
        return [None]
    labels_only = UsersFound() not in wanted and (bounds.k is not None or total.counts is CountNoise.BEST)
    beside = sum(not isinstance(each, UsersFound) for each in wanted)
    part = replace(
        total,
        epsilon=total.epsilon * _DISCOVERY_SHARES[min(beside, len(_DISCOVERY_SHARES) - 1)],
        delta=total.delta * _DISCOVERY_DELTA,
        counts=CountNoise.NONE if labels_only else total.counts,
    )
    return rough_plans(replace(bounds, per_item=1), part, CONFIDENCE)


def _laplace(scale: Fraction) -> Counts:
    return LaplaceCounts(scale=scale)


def _gaussian(scale: Fraction) -> Counts:
    return GaussianCounts(sigma=scale)


_NOISE: dict[CountNoise, NoiseOfScale] = {CountNoise.LAPLACE: _laplace, CountNoise.GAUSSIAN: _gaussian}

"""Planning of several statistics per group: the least noise for them, and for finding the groups, within one budget."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from setwise.accounting.brackets import float_below
from setwise.accounting.guarantees import Use, largest_loss
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.planning.budget_splits import rough_noise_scale
from setwise.mechanisms.planning.cost import (
    LARGEST_NOISE_SCALE,
    EstimatedScale,
    Price,
    estimate_noise_scale,
    estimated_price,
    rounded_scale,
    searched_price,
    smallest_noise_scale,
)
from setwise.mechanisms.planning.planner import Choice, Mechanism, reach_of, rough_plans
from setwise.mechanisms.planning.request import Bounds, CountNoise, MechanismName, Total
from setwise.mechanisms.planning.rounds import prefers_rounds, rough_rounds
from setwise.mechanisms.statistic_release import NoiseOfScale, StatisticRelease
from setwise.mechanisms.statistics import GroupStatistics, HistogramMechanism, NoisyTotal, UsersFound
from setwise.mechanisms.two_phase import UNIT_NOISE, Counts, GaussianCounts, LaplaceCounts
from setwise.mechanisms.weighted_rounds import DiscoveredCounts, WeightedRounds

_DISCOVERY_SHARES = (Fraction(1), Fraction(1, 2), Fraction(2, 5), Fraction(3, 8), Fraction(1, 3))
"""The share of epsilon for finding groups, by the number m of statistics released with them: about 1 / (1 +
m^(1/2)).

For few uses epsilons add up, and one of m + 1 equal parts would be 1 / (m + 1). For many uses their squares add
up, and the part would be 1 / (m + 1)^(1/2). This share is near the best for both, by the geometric mean of the
smallest count that is found and of all noise scales. Budget that discovery does not use goes to the statistics.
"""

_DISCOVERY_DELTA = Fraction(1, 2)
"""The share of delta for finding groups."""

_ERROR = {CountNoise.LAPLACE: 1.732, CountNoise.GAUSSIAN: 1.251}
"""Error per unit of noise scale: the geometric mean of half a 95% interval (3.0 or 1.96 noise scales) and of the
mean absolute error (1.0 or 0.798 noise scales)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsChoice:
    """A plan for statistics of groups: the mechanism with its noise, and its name, which plans and answers show.

    `discovery` is the part of the plan that finds the groups, or None if every group of a public domain is released.
    """

    mechanism: GroupStatistics
    name: str
    discovery: Choice | None


def plan_statistics(
    bounds: Bounds, total: Total, wanted: Sequence[StatisticRelease], *, certified: bool = True
) -> StatisticsChoice:
    """Return a plan that releases the statistics `wanted` with about the smallest noise within the budget `total`.

    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `wanted` has the statistics with a placeholder for their noise, which the plan replaces.
    - `certified`: if False, the noise scale is only an estimate, and nothing may be released with it.

    Ensures: if `certified`, the set-wise composition of the mechanism's guarantees is certified to be within (epsilon,
    delta).
    Raises: `InvalidParameter` if `total` names one mechanism for the whole question, or says that groups shall be
    released without numbers. `Unattainable` if no noise in range is enough.
    """
    # Every statistic gets about the same share of the budget. So the two noisy sums of a mean have a noise scale larger
    # by sqrt(2), and the epsilon with which a quantile is picked costs as much zCDP as one noisy sum. An estimated
    # scale is increased by `_ESTIMATE_MARGIN`; it takes a third of the time and is enough to say whether the statistics
    # can be planned.
    if total.mechanism is not None:
        raise InvalidParameter("a mechanism can be forced for one count or sum only: leave mechanism out")
    if total.counts is CountNoise.NONE:
        raise InvalidParameter("counts = none would release statistics without values; leave counts out")
    noises = [
        kind
        for kind in _ERROR
        if total.counts in (CountNoise.BEST, kind) and (kind is CountNoise.LAPLACE or total.delta)
    ]
    if all(release.by_picks for release in wanted):
        noises = noises[:1]  # picks take no noise on counts, so one kind is enough
    target, delta = float_below(total.epsilon), float_below(total.delta)
    for discoveries in _discoveries(bounds, total, wanted):
        rough = []
        for discovery in discoveries:
            for noise in noises:
                draft = _UnscaledPlan(bounds, discovery, wanted, noise)
                first = _first_scale(draft.uses(Fraction(1)), target, delta)
                guess = estimate_noise_scale(draft.price_function(estimated_price, delta), first, target)
                if guess is not None:
                    rough.append((draft, guess))
        for draft, guess in sorted(rough, key=lambda tried: tried[0].log_error(tried[1].scale)):
            if certified:
                scale = smallest_noise_scale(draft.price_function(searched_price, delta), guess, target)
            else:
                scale = _increased_scale(draft, guess)
            if scale is not None:
                return StatisticsChoice(mechanism=draft.mechanism_at(scale), name=draft.name, discovery=draft.discovery)
    raise Unattainable(f"no noise in range meets epsilon {float(total.epsilon):g} at this delta; ask for less")


_ESTIMATE_MARGIN = 1.05
"""Factor on an estimated noise scale. Estimates are within about 1% of the certified scale, so a scale that is still in
range after this increase exists after certification too."""


def _increased_scale(draft: "_UnscaledPlan", guess: EstimatedScale) -> Fraction | None:
    """Return the estimated noise scale `guess`, raised by 5%; None if noise of this scale cannot be used.

    Some plans are made only to see whether and how a question can be planned, and nothing is released with them. For
    these, the raised estimate takes the place of a certified noise scale, which takes longer to compute. The certified
    scale would be within about 1% of the estimate, so a plan with it exists if a plan with the raised scale does. The
    result is None if the raised scale exceeds the largest noise scale, or if the mechanism of the plan `draft` rejects
    it.
    """
    scale = rounded_scale(guess.scale * _ESTIMATE_MARGIN)
    try:
        draft.mechanism_at(scale)
    except InvalidParameter:
        return None
    return scale if scale <= LARGEST_NOISE_SCALE else None


def _first_scale(at_one: Sequence[Use], epsilon: float, delta: float) -> float:
    """Return approximately the noise scale at which a release costs (epsilon, delta), where the search for it starts.

    `at_one` are the mechanism uses (guarantees and how often each is used) that the release costs at noise scale 1.
    """
    concentrated = [(use.guarantee.zero_concentrated(), use.count) for use in at_one]
    rho = math.fsum(count * (zcdp.xi + zcdp.rho) for zcdp, count in concentrated)
    plain = largest_loss((use.guarantee, use.count) for use in at_one)
    return float(rough_noise_scale(np.array(rho), np.array(plain), epsilon, np.array(delta)))


@dataclass(frozen=True, slots=True)
class _UnscaledPlan:
    """A plan for statistics of groups whose noise scale is not chosen yet.

    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `discovery` is the plan that finds the groups, or None if every group of a public domain is released.
    - `wanted` are the statistics to release.
    - `noise` is the kind of noise on counts, sums and means.
    """

    bounds: Bounds
    discovery: Choice | None
    wanted: Sequence[StatisticRelease]
    noise: CountNoise

    @property
    def statistics(self) -> list[StatisticRelease]:
        """The statistics that this plan releases, one for each entry of `wanted`.

        They are the entries of `wanted`, except for `UsersFound`, which asks for the number of users of each group. If
        the mechanism that finds the groups releases noisy numbers of users, these are taken at no further cost.
        Otherwise `UsersFound` is replaced by a sum with noise of its own.
        """
        if self.discovery is not None and self.discovery.preview.radius is not None:
            return list(self.wanted)
        return [
            NoisyTotal(reach=1, noise=UNIT_NOISE) if release == UsersFound() else release for release in self.wanted
        ]

    @property
    def name(self) -> str:
        """Name of the plan: the names of its parts, joined by "+".

        The parts are how groups are found, the noise of counts, sums and means, and the mechanism of quantiles. For
        example: "unknown_laplace+gaussian+exponential".
        """
        names = [] if self.discovery is None else [self.discovery.name]
        kinds = {release.by_picks for release in self.statistics if release != UsersFound()}
        parts = ((str(self.noise), False in kinds), ("exponential", True in kinds))
        names += [name for name, present in parts if present]
        return "+".join(names)

    def mechanism_at(self, scale: Fraction) -> GroupStatistics:
        """Return the mechanism that this plan describes, with the noise scale `scale`.

        `scale` is the noise scale of one sum to which a user adds at most 1. Every other statistic gets the noise with
        which it costs about as much privacy as such a sum. For example, a mean needs two noisy sums, so the noise on
        each is wider. A quantile gets no noise, because the exponential mechanism picks it from possible results; the
        epsilon of the pick is chosen so that it costs as much as such a sum. Numbers of users are not affected, because
        they come with the search for the groups.
        """
        return GroupStatistics(
            statistics=tuple(release.with_noise(_NOISE[self.noise], scale) for release in self.statistics),
            contributions=self.bounds.contributions,
            discovery=None if self.discovery is None else _without_counts(self.discovery.mechanism),
            domain=self.bounds.domain or (),
            k=self.bounds.k,
        )

    def uses(self, scale: Fraction) -> tuple[Use, ...]:
        """Return the privacy cost of a release by this plan at noise scale `scale`: guarantees and numbers of uses."""
        return self.mechanism_at(scale).guarantees()

    def price_function(self, price: Callable[[tuple[Use, ...], float], float], delta: float) -> Price:
        """Return a function that maps a noise scale to the epsilon of one release by this plan with this noise.

        The planner searches with it for the smallest noise scale that fits a budget. `price(uses, delta)` computes the
        epsilon of the plan's mechanism uses (guarantees and how often each is used) at `delta`, as a certified bound or
        as an estimate.
        """
        return lambda scale: price(self.uses(scale), delta)

    def log_error(self, scale: float) -> float:
        """Return a number by which the planner compares the errors of plans; smaller is better.

        The number is the sum of the logarithms of the errors of finding groups and of each statistic, at noise scale
        `scale`. Factors that are the same for all plans are left out, so only differences between plans mean something.
        """
        # The errors are the lead that a group's count needs for the group to be found, the errors of counts, sums and
        # means, and the rank errors of quantiles. Terms that are the same for all plans are left out.
        total = 0.0
        if self.discovery is not None:
            total += math.log(max(1, reach_of(self.discovery.preview)))
        preview = None if self.discovery is None else self.discovery.preview
        for release in self.statistics:
            total += math.log(release.planning_error(scale, _ERROR[self.noise], preview))
        return total


def _discoveries(bounds: Bounds, total: Total, wanted: Sequence[StatisticRelease]) -> Iterator[Sequence[Choice | None]]:
    """Yield lists of plans for finding the groups of a query; the planner prefers plans in an earlier list.

    The caller tries the lists in order. From the first list with a plan that the budget can pay together with the
    statistics `wanted`, it takes the plan with the smallest error. (A plan is given only a part of the budget `total`,
    but the rest may be too little for the statistics.)

    - If all groups are public and are wanted, the only list is [None]: no groups have to be found.
    - If groups are best found in several rounds, the first list has only the plan for this. Its error depends on the
      table and cannot be compared with the errors of other plans.
    - The last list has the plans that find groups in one pass.

    `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
    adds.
    """
    # From this list the caller takes the plan with the smallest error of the statistics.
    # If all groups of a public domain are wanted, the only list is [None]. Otherwise the last list has the plans that
    # find groups in one pass. If discovery in rounds is preferred, a list with only that plan comes before it: its
    # error cannot be compared with that of the other plans, because the number of users that a group needs to be found
    # in rounds depends on the table.
    if bounds.domain is not None and bounds.k is None:
        yield [None]
        return
    counts_users = UsersFound() in wanted
    labels_only = not counts_users and (bounds.k is not None or total.counts is CountNoise.BEST)
    others = sum(not isinstance(release, UsersFound) for release in wanted)
    part = replace(
        total,
        epsilon=total.epsilon * _DISCOVERY_SHARES[min(others, len(_DISCOVERY_SHARES) - 1)],
        delta=total.delta * _DISCOVERY_DELTA,
        counts=CountNoise.NONE if labels_only else total.counts,
    )
    if prefers_rounds(bounds, total, counts_users=counts_users):
        share = _DISCOVERY_SHARES[min(others + counts_users, len(_DISCOVERY_SHARES) - 1)]
        rounds = rough_rounds(bounds, replace(part, epsilon=total.epsilon * share))
        if rounds is not None:
            name, preview = str(MechanismName.WEIGHTED_ROUNDS), rounds.preview(CONFIDENCE)
            epsilon = float(part.epsilon)
            yield [Choice(mechanism=rounds, name=name, epsilon=epsilon, preview=preview, merit=0.0, why="")]
    yield rough_plans(replace(bounds, per_item=1), part, CONFIDENCE)


def _without_counts(mechanism: Mechanism) -> HistogramMechanism | WeightedRounds:
    """Return `mechanism` unchanged; an assertion tells the type checker that it is not a `DiscoveredCounts`.

    A `DiscoveredCounts` finds groups in several rounds and also counts them, so it never finds groups for statistics.
    """
    assert not isinstance(mechanism, DiscoveredCounts)
    return mechanism


def _laplace(scale: Fraction) -> Counts:
    """Return a `LaplaceCounts`: Laplace noise on counts with this `scale`."""
    return LaplaceCounts(scale=scale)


def _gaussian(scale: Fraction) -> Counts:
    """Return a `GaussianCounts`: Gaussian noise on counts with standard deviation `scale`."""
    return GaussianCounts(sigma=scale)


_NOISE: dict[CountNoise, NoiseOfScale] = {CountNoise.LAPLACE: _laplace, CountNoise.GAUSSIAN: _gaussian}

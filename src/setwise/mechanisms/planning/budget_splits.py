"""Search for the best split of a query's budget between finding groups and counting them.

To compare many splits quickly, the search uses formulas that are only approximate. It adds up zCDP parameters, or
epsilons if that is cheaper, instead of composing exactly; and it takes the noise as continuous, though the noise is
made of whole numbers. So the result is only a suggestion: the planner then chooses the noise by the certified
composition.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from setwise.mechanisms.intervals import Noise
from setwise.mechanisms.noise.discrete import GaussianNoise, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise, relative_deviations
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise
from setwise.mechanisms.planning.request import Bounds, CountNoise, MechanismName, Total

Floats = NDArray[np.float64]
_Number = TypeVar("_Number", float, Floats)


def ranking_shortfall(noise: Noise, contests: int, confidence: Fraction) -> int:
    """Return how much larger one group's exact count must be than another's for noise not to swap their ranks.

    A top k ranks groups by noisy counts. A plan states this lead, in units of a count, as the expected error of the
    ranking. `contests` is how many pairs of groups are compared. With probability `confidence`, no pair with such a
    lead is swapped by the noise `noise`, which is on both counts.
    """
    # A lead of s fails in one comparison with probability P[Z1 - Z2 > s], where Z1 and Z2 are the noises of the two
    # labels; a union bound adds up these probabilities. The continuous laws of the noise are used; the integer laws are
    # within one unit of them.
    miss = float(1 - confidence)
    match noise:
        case LaplaceNoise(scale=scale):
            return math.ceil(float(scale) * laplace_lead(contests, miss))
        case GaussianNoise() | RoundedGaussianNoise() | TruncatedGaussianNoise():
            return math.ceil(-math.sqrt(2.0) * float(noise.sigma) * float(ndtri(miss / contests)))
        case SharedGaussianNoise(own_sigma=sigma):
            return math.ceil(-math.sqrt(2.0) * float(sigma) * float(ndtri(miss / contests)))
        case _:
            assert_never(noise)


def laplace_lead(contests: int, miss: float) -> float:
    """Return how much larger than other counts an exact count must be, so that it stays larger under Laplace noise.

    The count is compared with `contests` other counts, and all of them have noise. With probability at least 1 -
    `miss`, its noisy count is the larger one in every comparison. The result is in units of the noise scale; it is 0 if
    there are no contests.

    >>> round(laplace_lead(1, 0.05), 2), round(laplace_lead(9, 0.05), 2), laplace_lead(0, 0.05)
    (3.27, 5.87, 0.0)
    """
    # The lead t solves contests * exp(-t) (2 + t) / 4 = miss, where exp(-t) (2 + t) / 4 is the probability that the
    # difference of two Laplace noises exceeds t.
    if not contests:
        return 0.0
    goal = math.log(contests / (4.0 * miss))
    lead = max(0.0, goal)
    for _ in range(60):  # the iteration t = goal + ln(2 + t) converges, because its slope is at most a half
        lead = max(0.0, goal + math.log(2.0 + lead))
    return lead


_MISS = 0.05
"""Probability of a miss that expected errors allow: one minus their default confidence."""

_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Shares of delta that a threshold may take."""

_RATIOS = tuple(10.0 ** (step / 12) for step in range(-12, 17))
"""Candidates for the noise scale of counts divided by the noise scale of picks."""

_AS_GOOD = 1.01
"""Splits whose merit is within this factor of the best count as equally good."""

_LAPLACE_RADIUS = -math.log(_MISS)
_GAUSSIAN_RADIUS = -float(ndtri(_MISS / 2))
_GAUSSIAN_ERROR = math.sqrt(2.0 / math.pi)

_WORTH_OF_ERROR = 10.0
"""Units of lead that one unit of a count's mean error is worth."""


def plan_merit(reach: _Number, error: _Number) -> _Number:
    """Return the error of a plan as one number, in units of a count, by which plans are compared; smaller is better.

    It is `reach` plus ten times `error`. With the factor ten, both terms are equal if the smallest count that is found
    has a relative error of a tenth.

    - `reach` is by how much a group's count must exceed the counts of other groups, or a threshold, for the group to be
      found. It says how many small groups are missed.
    - `error` is the mean error of a released count.
    """
    # With the factor ten, the two terms are equal if the smallest count that is found has a relative error of a tenth.
    return reach + _WORTH_OF_ERROR * error


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSplit:
    """A way to divide the budget of a query between finding groups and counting them, with estimated errors.

    - `name` is the mechanism.
    - `counts`: some mechanisms pick groups first and then count the picked groups. This is the kind of noise on such
      counts; `NONE` if no counts follow picks.
    - `share` is the part, from 0 to 1, of the budget's delta that pays for a threshold on noisy counts. The threshold
      hides private groups that only one user has. Without such a threshold, `share` is 0.
    - `ratio` is the noise scale of the counts that follow picks, divided by the noise scale of the picks.
    - `scale` is the estimated noise scale that just fits the budget, in units of the most that one user adds to a
      count.
    - `error` is the estimated mean error of a count (0 if no counts are wanted).
    - `merit` is the estimated error of the whole plan as one number (see `plan_merit`); smaller is better.
    """

    name: MechanismName
    counts: CountNoise
    share: float
    ratio: float
    scale: float
    error: float
    merit: float


def splits(bounds: Bounds, total: Total) -> tuple[BudgetSplit, ...]:
    """Return one `BudgetSplit` for every mechanism and kind of count noise that can answer the query.

    A `BudgetSplit` divides the budget `total` between finding groups and counting them; of all divisions that were
    tried, it is the one with about the smallest estimated error. The splits are sorted by `merit`, the estimated error
    of the whole plan, smallest first. `bounds` describes the query: k (how many groups a top k asks for), its public
    groups, and limits on what one user adds.
    """
    best_splits = [_best_split(bounds, total, name, counts) for name, counts in _cells(bounds, total)]
    return tuple(sorted(best_splits, key=lambda split: split.merit))


def _cells(bounds: Bounds, total: Total) -> Iterator[tuple[MechanismName, CountNoise]]:
    """Yield pairs (mechanism, noise on counts of picked groups) for every mechanism that can answer the query.

    Some mechanisms first pick groups and then release noisy counts of them; the second member is the kind of noise on
    these counts. It is `NONE` for mechanisms that add noise to every count instead, and if no counts are wanted.
    `total` is the budget, and `bounds` describes the query: k (how many groups a top k asks for), its public groups,
    and limits on what one user adds.
    """
    # Mechanisms with noise on every count need a bound on the number of labels of one user; mechanisms that pick labels
    # need a top k.
    known = bounds.domain is not None
    laplace = MechanismName.KNOWN_LAPLACE if known else MechanismName.UNKNOWN_LAPLACE
    gaussian = MechanismName.KNOWN_GAUSSIAN if known else MechanismName.TRUNCATED_GAUSSIAN
    gumbel = MechanismName.KNOWN_GUMBEL if known else MechanismName.UNKNOWN_GUMBEL
    without_delta = total.delta == 0  # Gaussian noise always needs a delta above 0
    wants = {
        CountNoise.NONE: (CountNoise.LAPLACE, CountNoise.GAUSSIAN),
        CountNoise.BEST: (CountNoise.LAPLACE, CountNoise.GAUSSIAN),
    }.get(total.counts, (total.counts,))
    noises = [noise for noise in wants if not (noise is CountNoise.GAUSSIAN and without_delta)]
    cells: list[tuple[MechanismName, CountNoise]] = []
    if bounds.changeable is not None:
        cells += [(laplace if noise is CountNoise.LAPLACE else gaussian, CountNoise.NONE) for noise in noises]
    if bounds.k is not None:
        phases = [CountNoise.NONE] if total.counts is CountNoise.NONE else noises
        cells += [(gumbel, noise) for noise in phases]
    return (cell for cell in cells if total.mechanism in (None, cell[0]))


def _shares(name: MechanismName, bounds: Bounds) -> tuple[float, ...]:
    """Return the shares of the budget's delta that the planner tries for the threshold of the mechanism `name`.

    The threshold hides groups of one user alone. The rest of delta is for composing the released counts.

    - If the mechanism has no threshold, the result is (0.0,).
    - If it adds Laplace noise, and the query limits how many private groups can be released (`bounds.limit`), the
      result is (0.999,). The epsilons of the counts are then simply added up, which needs hardly any delta.
    - Otherwise the result has shares from 0.01 to 0.99.
    """
    match name:
        case MechanismName.UNKNOWN_LAPLACE if bounds.limit is not None:
            return (0.999,)  # its epsilon is a plain sum, so composition needs hardly any delta
        case MechanismName.UNKNOWN_LAPLACE | MechanismName.TRUNCATED_GAUSSIAN | MechanismName.UNKNOWN_GUMBEL:
            return _SHARES
        case _:
            return (0.0,)


def _ratios(counts: CountNoise) -> tuple[float, ...]:
    """Return the ratios that the planner tries between the noise scale of counts and the noise scale of picks.

    Some mechanisms first pick groups (choose the highest counts after Gumbel noise) and then release noisy counts of
    the picked groups. `counts` is the kind of noise on these counts. If it is `NONE`, no counts follow the picks, and
    the result is (1.0,).
    """
    return (1.0,) if counts is CountNoise.NONE else _RATIOS


def _best_split(bounds: Bounds, total: Total, name: MechanismName, counts: CountNoise) -> BudgetSplit:
    """Return the division of the budget `total` between finding and counting groups with about the smallest error.

    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `name` is the mechanism.
    - `counts` is the kind of noise on counts, if the mechanism first picks groups and then counts them; `NONE` if no
      counts follow picks.

    The error of a division is an estimate (`plan_merit`). It adds up by how much a group's count must exceed the counts
    of other groups for the group to be found, and ten times the error of a released count.
    """
    # Several shares of delta for the threshold are combined with several ratios between the noise scales of counts and
    # picks. Among the splits whose `plan_merit` is nearly the smallest, the one with the smallest error of a count is
    # returned.
    shares, ratios = _shares(name, bounds), _ratios(counts)
    share, ratio = np.array(shares)[:, None], np.array(ratios)
    epsilon, delta = float(total.epsilon), float(total.delta)
    changed, k = bounds.changeable or 0, bounds.k or 0
    counted = min(k, changed) if changed else k
    rho, pure = _cost_of_unit_noise(name, counts, changed, k, counted, ratio)
    scale = rough_noise_scale(rho, pure, epsilon, delta * (1.0 - share))
    if name in (MechanismName.KNOWN_GUMBEL, MechanismName.UNKNOWN_GUMBEL) and counts is not CountNoise.NONE:
        apart = _scale_with_plain_picks(float(k), rho - k / 8, epsilon, delta * (1.0 - share))
        scale = np.minimum(scale, apart)
    if name is MechanismName.UNKNOWN_LAPLACE and bounds.limit is not None:
        scale = np.full_like(scale, changed / epsilon)
    reach = _rough_reach(bounds, name, scale, share * delta, changed)
    error = 0.0 * scale if total.counts is CountNoise.NONE else _rough_error(bounds, name, counts, scale, ratio)
    merit = plan_merit(reach, error)
    row, column = np.unravel_index(np.argmin(np.where(merit <= _AS_GOOD * merit.min(), error, math.inf)), merit.shape)
    return BudgetSplit(
        name=name,
        counts=counts,
        share=shares[row],
        ratio=ratios[column],
        scale=float(scale[row, column]),
        error=float(error[row, column]),
        merit=float(merit[row, column]),
    )


def _cost_of_unit_noise(
    name: MechanismName, counts: CountNoise, changed: int, k: int, counted: int, ratio: Floats
) -> tuple[Floats, Floats]:
    """Return the privacy cost of one release at noise scale 1, as (rho of zCDP, sum of epsilons) for each of `ratio`.

    A mechanism either adds noise to all counts, or first makes `k` picks of groups (a pick chooses the highest count
    after Gumbel noise) and then adds noise to the counts of the picked groups. The noise scale 1 is that of all counts
    in the first case, and that of the picks in the second. From the costs, the caller estimates the noise scale that
    fits the budget: at the scale s, rho is divided by s^2, and the sum of epsilons by s.

    - `name` is the mechanism.
    - `counts` is the kind of noise on the counts of picked groups; `NONE` if these counts are not released.
    - `changed` is the number of counts that one user can change, if noise is added to all counts.
    - `counted` is the number of counts of picked groups that one user can change.
    - `ratio` has values for the noise scale of the counts of picked groups, divided by that of the picks.

    The sum of epsilons is infinite for Gaussian noise.
    """
    # At noise scale s, rho is divided by s^2 and the sum of epsilons by s.
    one = np.ones_like(ratio)
    match name:
        case MechanismName.KNOWN_LAPLACE | MechanismName.UNKNOWN_LAPLACE:
            return one * changed / 2, one * changed
        case MechanismName.KNOWN_GAUSSIAN | MechanismName.TRUNCATED_GAUSSIAN:
            return one * changed / 2, one * math.inf
        case MechanismName.WEIGHTED_ROUNDS:
            raise _planned_elsewhere()
        case MechanismName.KNOWN_GUMBEL | MechanismName.UNKNOWN_GUMBEL:
            if counts is CountNoise.NONE:
                return one * k / 8, one * k
            plain = k + counted / ratio if counts is CountNoise.LAPLACE else one * math.inf
            return k / 8 + counted / (2 * ratio**2), plain


def rough_noise_scale(rho: Floats, pure: Floats, epsilon: float, delta: Floats) -> Floats:
    """Return approximately the noise scale at which a release costs (epsilon, delta), to compare plans quickly.

    The cost is estimated in two ways, and the smaller noise scale is returned: the scale at which the release's zCDP
    implies (epsilon, delta)-DP, and the scale at which the epsilons of its mechanism uses add up to `epsilon`.

    - `rho` is the zCDP parameter of the release at noise scale 1; at scale s it is rho / s^2.
    - `pure` is the sum of the epsilons of the uses at noise scale 1; at scale s it is pure / s.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # delta may be 0
        tail = -np.log(delta)
        concentrated = np.sqrt(rho) / (np.sqrt(tail + epsilon) - np.sqrt(tail))
    return np.where(delta > 0.0, np.minimum(pure / epsilon, concentrated), pure / epsilon)


def _scale_with_plain_picks(picks: float, rho: Floats, epsilon: float, delta: Floats) -> Floats:
    """Return roughly the noise scale of picks at which picks and counts of the picked groups cost (epsilon, delta).

    A pick chooses the group with the highest count after Gumbel noise; the picked groups then get noisy counts. Here a
    pick costs the epsilon 1 / scale, the epsilons of the picks are added up, and only the counts are composed by zCDP.
    With one or two picks, this gives less noise than zCDP for picks and counts together.

    - `picks` is the number of picks.
    - `rho` is the zCDP parameter of the counts if the noise scale of the picks is 1.

    The result is infinite where `delta` is 0.
    """
    # For one or two picks at a small delta, the sum of their epsilons is below the epsilon that their zCDP implies. The
    # scale 1/y solves picks y + rho y^2 + 2 y sqrt(rho log(1 / delta)) = epsilon.
    with np.errstate(divide="ignore", invalid="ignore"):  # delta may be 0
        slope = picks + 2.0 * np.sqrt(rho * -np.log(delta))
        scale = (slope + np.sqrt(slope**2 + 4.0 * rho * epsilon)) / (2.0 * epsilon)
    return np.where(delta > 0.0, scale, math.inf)


def _rough_reach(bounds: Bounds, name: MechanismName, scale: Floats, failure: Floats, changed: int) -> Floats:
    """Return an estimate of how large a group's count must be for the group to be released with probability 95%.

    A group is released if its noisy count is among the top k and, for some mechanisms, exceeds a threshold. The
    estimate is the larger one of two numbers: by how much the count must exceed the counts of other groups, and the
    count needed to exceed the threshold. The unit is the most that one user adds to a count.

    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `name` is the mechanism, and `scale` its noise scale.
    - `failure` is the delta of the mechanism's threshold, if it has one.
    - `changed` is the number of counts that one user can change.
    """
    contests = (bounds.k or 0) * bounds.rivals
    match name:
        case MechanismName.KNOWN_LAPLACE:
            return scale * laplace_lead(contests, _MISS)
        case MechanismName.KNOWN_GAUSSIAN:
            return scale * relative_deviations(bounds.rivals, changed)[1] * _gaussian_lead(contests)
        case MechanismName.UNKNOWN_LAPLACE if bounds.limit is not None:
            hidden = laplace_lead(min(changed, bounds.limit), float(failure[0, 0]))
            seen = 1 + scale * (hidden + 2 * (_LAPLACE_RADIUS + math.log(2)))
            return np.maximum(seen, scale * laplace_lead(contests, _MISS))
        case MechanismName.UNKNOWN_LAPLACE:
            seen = 1 + scale * (np.maximum(0.0, np.log(changed / (2 * failure))) + _LAPLACE_RADIUS)
            return np.maximum(seen, scale * laplace_lead(contests, _MISS))
        case MechanismName.TRUNCATED_GAUSSIAN:
            level: Floats = np.sqrt(np.maximum(1.0, 2 * np.log(np.maximum(2.0, changed / (failure * scale * 2.5066)))))
            return np.maximum(scale * (level + _GAUSSIAN_RADIUS), scale * _gaussian_lead(contests))
        case MechanismName.KNOWN_GUMBEL:
            return scale * math.log(contests / _MISS)
        case MechanismName.WEIGHTED_ROUNDS:
            raise _planned_elsewhere()
        case MechanismName.UNKNOWN_GUMBEL:
            limit = bounds.search_limit
            hidden = min(changed, limit) if changed else limit
            seen = 1 + scale * (np.log(hidden / failure) + math.log(1 / _MISS - 1))
            return np.maximum(seen, scale * math.log(contests / _MISS))


def _gaussian_lead(contests: int) -> float:
    """Return by how much an exact count must exceed others to win `contests` comparisons under Gaussian noise.

    A comparison is won if the noisy count is higher too; both counts of a comparison have noise. The result is in units
    of the standard deviation of the noise on one count. All comparisons are won with probability at least 95%, by a
    union bound. The result is 0 if there are no contests.
    """
    return -math.sqrt(2.0) * float(ndtri(_MISS / contests)) if contests else 0.0


def _rough_error(bounds: Bounds, name: MechanismName, counts: CountNoise, scale: Floats, ratio: Floats) -> Floats:
    """Return the estimated mean absolute error of a count, in units of the most that one user adds to it.

    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `name` is the mechanism, and `scale` its noise scale.
    - `counts` and `ratio` matter only if the mechanism first picks groups by noisy counts that it does not release, and
      then releases new noisy counts of the picked groups. `counts` is the kind of noise on these new counts, and their
      noise scale is `ratio` times `scale`.
    """
    # It is the scale of Laplace noise, or about 0.8 standard deviations of Gaussian noise.
    match name:
        case MechanismName.KNOWN_LAPLACE | MechanismName.UNKNOWN_LAPLACE:
            return scale
        case MechanismName.KNOWN_GAUSSIAN:
            return scale * relative_deviations(bounds.rivals, bounds.changeable or bounds.rivals)[0] * _GAUSSIAN_ERROR
        case MechanismName.TRUNCATED_GAUSSIAN:
            return scale * _GAUSSIAN_ERROR
        case MechanismName.WEIGHTED_ROUNDS:
            raise _planned_elsewhere()
        case MechanismName.KNOWN_GUMBEL | MechanismName.UNKNOWN_GUMBEL:
            if counts is CountNoise.LAPLACE:
                return scale * ratio
            labels = min(bounds.k or 1, bounds.rivals)
            narrower = relative_deviations(labels, min(labels, bounds.changeable or labels))[0]
            return scale * ratio * narrower * _GAUSSIAN_ERROR


def _planned_elsewhere() -> AssertionError:
    """Return the exception for a programming error: this module was asked to plan the mechanism `WEIGHTED_ROUNDS`.

    That mechanism finds private groups in several passes over the table, and `planning/rounds.py` plans it.
    """
    return AssertionError("discovery in rounds has no split")

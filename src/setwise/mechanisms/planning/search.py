"""How to split a budget between finding labels and counting them: a quick search with closed forms.

The search compares splits by rough costs (zCDP sums, or plain sums where they are less) and by the continuous laws of
the noise. It only suggests; the planner calibrates what it suggests against the certified composition.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from setwise.mechanisms.noise.discrete import GaussianNoise, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise, relative_deviations
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise
from setwise.mechanisms.planning.request import Bounds, CountNoise, MechanismName, Total
from setwise.mechanisms.release import Noise

Floats = NDArray[np.float64]
_Number = TypeVar("_Number", float, Floats)


def ranking_shortfall(noise: Noise, contests: int, confidence: Fraction) -> int:
    """Return a lead that no label loses in any of `contests` comparisons, with the given confidence.

    Two noises of a comparison differ by more than s with probability P[Z1 - Z2 > s]; the chances are added up. The laws
    are the continuous ones, of which the integer ones are within a unit.
    """
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
    """Return the t with contests * exp(-t) (2 + t) / 4 = miss: the difference of two Laplace noises of scale 1.

    >>> round(laplace_lead(1, 0.5), 9)
    0.0
    """
    if not contests:
        return 0.0
    goal = math.log(contests / (4.0 * miss))
    lead = max(0.0, goal)
    for _ in range(60):  # t = goal + ln(2 + t) contracts, because its slope is at most a half
        lead = max(0.0, goal + math.log(2.0 + lead))
    return lead


_MISS = 0.05
"""The chance of missing that previews allow, one minus their usual confidence."""

_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Shares of delta that a threshold may take."""

_RATIOS = tuple(10.0 ** (step / 12) for step in range(-12, 17))
"""How many times as wide the noise on counts may be as the noise on picks."""

_AS_GOOD = 1.01
"""Splits whose merit is within this factor of the best are as good."""

_LAPLACE_RADIUS = -math.log(_MISS)
_GAUSSIAN_RADIUS = -float(ndtri(_MISS / 2))
_GAUSSIAN_ERROR = math.sqrt(2.0 / math.pi)

_WORTH_OF_ERROR = 10.0
"""How many units of lead one unit of a count's mean error is worth."""


def weighed(reach: _Number, error: _Number) -> _Number:
    """Return the merit of a plan, the smaller the better: the lead that a label needs and ten mean errors of a count.

    The two weigh the same when the smallest count that is found is known to a tenth.
    """
    return reach + _WORTH_OF_ERROR * error


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A mechanism, the noise on counts of its second phase, and how its budget is divided.

    `share` of delta goes to a threshold; counts get noise `ratio` times as wide as picks. `spread` is the noise this
    leaves, `error` the mean error of a count (0 where none are wanted) and `merit` what the split gives, all rough.
    """

    name: MechanismName
    counts: CountNoise
    share: float
    ratio: float
    spread: float
    error: float
    merit: float


def splits(bounds: Bounds, total: Total) -> tuple[Split, ...]:
    """Return the best split of every mechanism that can answer, best first."""
    found = [_best_split(bounds, total, name, counts) for name, counts in _cells(bounds, total)]
    return tuple(sorted(found, key=lambda split: split.merit))


def _cells(bounds: Bounds, total: Total) -> Iterator[tuple[MechanismName, CountNoise]]:
    """Yield the mechanisms of the bounds' cell: noise on every count where contributions are bounded, and picks."""
    known = bounds.domain is not None
    laplace = MechanismName.KNOWN_LAPLACE if known else MechanismName.UNKNOWN_LAPLACE
    gaussian = MechanismName.KNOWN_GAUSSIAN if known else MechanismName.TRUNCATED_GAUSSIAN
    gumbel = MechanismName.KNOWN_GUMBEL if known else MechanismName.UNKNOWN_GUMBEL
    without_delta = total.delta == 0  # Gaussian noise always needs one
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
    match name:
        case MechanismName.UNKNOWN_LAPLACE if bounds.limit is not None:
            return (0.999,)  # its epsilon is plain, so nothing is left to compose
        case MechanismName.UNKNOWN_LAPLACE | MechanismName.TRUNCATED_GAUSSIAN | MechanismName.UNKNOWN_GUMBEL:
            return _SHARES
        case _:
            return (0.0,)


def _ratios(counts: CountNoise) -> tuple[float, ...]:
    return (1.0,) if counts is CountNoise.NONE else _RATIOS


def _best_split(bounds: Bounds, total: Total, name: MechanismName, counts: CountNoise) -> Split:
    """Return the split with the least error of counts among those of nearly the best merit, which is flat around it.

    All are tried at once, a row for each share and a column for each ratio, with spreads in units of per_item.
    """
    shares, ratios = _shares(name, bounds), _ratios(counts)
    share, ratio = np.array(shares)[:, None], np.array(ratios)
    epsilon, delta = float(total.epsilon), float(total.delta)
    changed, k = bounds.changeable or 0, bounds.k or 0
    counted = min(k, changed) if changed else k
    rho, pure = _cost_of_unit_noise(name, counts, changed, k, counted, ratio)
    spread = rough_spread(rho, pure, epsilon, delta * (1.0 - share))
    if name in (MechanismName.KNOWN_GUMBEL, MechanismName.UNKNOWN_GUMBEL) and counts is not CountNoise.NONE:
        apart = _spread_with_plain_picks(float(k), rho - k / 8, epsilon, delta * (1.0 - share))
        spread = np.minimum(spread, apart)
    if name is MechanismName.UNKNOWN_LAPLACE and bounds.limit is not None:
        spread = np.full_like(spread, changed / epsilon)
    reach = _rough_reach(bounds, name, spread, share * delta, changed)
    error = 0.0 * spread if total.counts is CountNoise.NONE else _rough_error(bounds, name, counts, spread, ratio)
    merit = weighed(reach, error)
    row, column = np.unravel_index(np.argmin(np.where(merit <= _AS_GOOD * merit.min(), error, math.inf)), merit.shape)
    return Split(
        name=name,
        counts=counts,
        share=shares[row],
        ratio=ratios[column],
        spread=float(spread[row, column]),
        error=float(error[row, column]),
        merit=float(merit[row, column]),
    )


def _cost_of_unit_noise(
    name: MechanismName, counts: CountNoise, changed: int, k: int, counted: int, ratio: Floats
) -> tuple[Floats, Floats]:
    """Return the zCDP and the sum of epsilons at spread 1; they fall with its square and with itself."""
    one = np.ones_like(ratio)
    match name:
        case MechanismName.KNOWN_LAPLACE | MechanismName.UNKNOWN_LAPLACE:
            return one * changed / 2, one * changed
        case MechanismName.KNOWN_GAUSSIAN | MechanismName.TRUNCATED_GAUSSIAN:
            return one * changed / 2, one * math.inf
        case MechanismName.KNOWN_GUMBEL | MechanismName.UNKNOWN_GUMBEL:
            if counts is CountNoise.NONE:
                return one * k / 8, one * k
            plain = k + counted / ratio if counts is CountNoise.LAPLACE else one * math.inf
            return k / 8 + counted / (2 * ratio**2), plain


def rough_spread(rho: Floats, pure: Floats, epsilon: float, delta: Floats) -> Floats:
    """Return about the spread that keeps (epsilon, delta), given the zCDP and the sum of epsilons at spread 1."""
    with np.errstate(divide="ignore", invalid="ignore"):  # where delta is 0
        tail = -np.log(delta)
        concentrated = np.sqrt(rho) / (np.sqrt(tail + epsilon) - np.sqrt(tail))
    return np.where(delta > 0.0, np.minimum(pure / epsilon, concentrated), pure / epsilon)


def _spread_with_plain_picks(picks: float, rho: Floats, epsilon: float, delta: Floats) -> Floats:
    """Return about the noise scale when epsilons of picks are added up and only the counts go by their zCDP, `rho`.

    One or two picks lose no more than their epsilons, which is less than their zCDP says at a small delta. With
    y = 1 / scale the budget is picks y + rho y^2 + 2 y sqrt(rho log(1 / delta)) = epsilon.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # where delta is 0
        slope = picks + 2.0 * np.sqrt(rho * -np.log(delta))
        scale = (slope + np.sqrt(slope**2 + 4.0 * rho * epsilon)) / (2.0 * epsilon)
    return np.where(delta > 0.0, scale, math.inf)


def _rough_reach(bounds: Bounds, name: MechanismName, spread: Floats, failure: Floats, changed: int) -> Floats:
    """Return by how much a label must lead to come out in its place."""
    contests = (bounds.k or 0) * bounds.rivals
    match name:
        case MechanismName.KNOWN_LAPLACE:
            return spread * laplace_lead(contests, _MISS)
        case MechanismName.KNOWN_GAUSSIAN:
            return spread * relative_deviations(bounds.rivals, changed)[1] * _gaussian_lead(contests)
        case MechanismName.UNKNOWN_LAPLACE if bounds.limit is not None:
            hidden = laplace_lead(min(changed, bounds.limit), float(failure[0, 0]))
            seen = 1 + spread * (hidden + 2 * (_LAPLACE_RADIUS + math.log(2)))
            return np.maximum(seen, spread * laplace_lead(contests, _MISS))
        case MechanismName.UNKNOWN_LAPLACE:
            seen = 1 + spread * (np.maximum(0.0, np.log(changed / (2 * failure))) + _LAPLACE_RADIUS)
            return np.maximum(seen, spread * laplace_lead(contests, _MISS))
        case MechanismName.TRUNCATED_GAUSSIAN:
            level: Floats = np.sqrt(np.maximum(1.0, 2 * np.log(np.maximum(2.0, changed / (failure * spread * 2.5066)))))
            return np.maximum(spread * (level + _GAUSSIAN_RADIUS), spread * _gaussian_lead(contests))
        case MechanismName.KNOWN_GUMBEL:
            return spread * math.log(contests / _MISS)
        case MechanismName.UNKNOWN_GUMBEL:
            limit = bounds.search_limit
            hidden = min(changed, limit) if changed else limit
            seen = 1 + spread * (np.log(hidden / failure) + math.log(1 / _MISS - 1))
            return np.maximum(seen, spread * math.log(contests / _MISS))


def _gaussian_lead(contests: int) -> float:
    return -math.sqrt(2.0) * float(ndtri(_MISS / contests)) if contests else 0.0


def _rough_error(bounds: Bounds, name: MechanismName, counts: CountNoise, spread: Floats, ratio: Floats) -> Floats:
    """Return the mean absolute error of a count: the scale of Laplace noise, 0.8 deviations of Gaussian noise."""
    match name:
        case MechanismName.KNOWN_LAPLACE | MechanismName.UNKNOWN_LAPLACE:
            return spread
        case MechanismName.KNOWN_GAUSSIAN:
            return spread * relative_deviations(bounds.rivals, bounds.changeable or bounds.rivals)[0] * _GAUSSIAN_ERROR
        case MechanismName.TRUNCATED_GAUSSIAN:
            return spread * _GAUSSIAN_ERROR
        case MechanismName.KNOWN_GUMBEL | MechanismName.UNKNOWN_GUMBEL:
            if counts is CountNoise.LAPLACE:
                return spread * ratio
            labels = min(bounds.k or 1, bounds.rivals)
            narrower = relative_deviations(labels, min(labels, bounds.changeable or labels))[0]
            return spread * ratio * narrower * _GAUSSIAN_ERROR

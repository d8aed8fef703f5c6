"""Prices of one release, and the search for the smallest noise scale, of four digits, that stays within a budget.

A price is an epsilon at a fixed delta. A noise scale is in units of the most that one user can add to a count.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from setwise.accounting.brackets import CertifiedBound, Interaction
from setwise.accounting.compose import compose
from setwise.accounting.estimates import estimated_epsilon
from setwise.accounting.guarantees import Use, merged
from setwise.accounting.methods.exact import pure_sum
from setwise.errors import InvalidParameter, Unattainable

LARGEST_NOISE_SCALE = 10**6
"""The largest noise scale that is tried, in units of what one user can add to a count."""


@dataclass(frozen=True, slots=True)
class CostConfig:
    """Constants of the search for the smallest noise scale that stays within a budget.

    The price of a noise scale is the epsilon that a release with it costs. On logarithmic axes the price falls nearly
    along a line, so the search follows the slope of the last two prices. The constants decide how long the search
    takes, and how close to the smallest scale its result is. They do not affect privacy: the price of the returned
    scale is always certified to be within the budget.
    """

    least_scale: float = 0.05
    """The smallest noise scale that is tried, in units of what one user can add to a count."""
    close: float = 1.003
    """The search stops when it knows the smallest scale up to this factor, or has found a price that is at most this
    factor below the budget.
    """
    linear: float = 0.02
    """If log epsilon is at most this far from the budget's, a step along the slope ends within the rounding error."""
    rounded: float = 6e-4
    """How far below the budget, in log epsilon, the search aims when it is within `linear` of the budget.

    This is a little more than the rounding error of a noise scale with four digits, so that the next price is within
    the budget.
    """
    near: float = 3e-3
    """Distance, in log epsilon, from the budget's epsilon at which a search by uncertified estimates ends."""
    most_estimates: int = 30
    """Largest number of estimates in one search; three are usual."""
    least_slope: float = 0.1
    """Smallest assumed fall of log epsilon per unit of log noise scale; below 1 if a part of the cost is fixed."""
    most_slope: float = 2.0
    """Largest assumed fall of log epsilon per unit of log noise scale; it is 1 if epsilon is inverse to the scale."""
    least_apart: float = 1e-4
    """Least distance in log noise scale of two points whose slope is used. The slope of closer points is that of their
    rounding errors, and a wrong slope costs the search further certified prices."""
    largest_move: float = 1.5
    """Logarithm of the largest factor between one noise scale tried and the next."""
    least_cost: float = 1e-12
    """Replaces an epsilon of 0 in logarithms."""
    most_remembered: int = 1024
    """Number of certified prices that are cached."""


CONFIG = CostConfig()


def certified_price(
    uses: Iterable[Use], delta: float, interaction: Interaction = Interaction.SETWISE
) -> CertifiedBound:
    """Return the certified bound on the epsilon of all `uses` together at `delta`, which may be 0.

    A use is a guarantee, and how often it is used. `interaction` says what an analyst may decide after seeing earlier
    answers; the default, set-wise, allows any order of the uses. Recent results are cached.
    """
    return _compose(merged(uses), interaction, delta)


def searched_price(uses: Iterable[Use], delta: float) -> float:
    """Return a certified upper bound on the epsilon of all `uses` together, in any adaptive order, at `delta`.

    A use is a guarantee, and how often it is used. The bound is for searches: it is quicker to compute than
    `certified_price`, the bound that a plan states in the end. It may be higher, but is never lower.
    """
    return _search_price(merged(uses), delta).upper


def estimated_price(uses: Iterable[Use], delta: float) -> float:
    """Return approximately the epsilon of all `uses` together, in any adaptive order, at `delta`, which may be 0.

    A use is a guarantee, and how often it is used. The result is quick to compute, but not certified: the true epsilon
    may be higher.
    """
    return estimated_epsilon(merged(uses), delta)


Price: TypeAlias = Callable[[Fraction], float]
"""A function from a noise scale to the epsilon that it costs, which falls as the noise scale grows."""


@dataclass(frozen=True, slots=True)
class EstimatedScale:
    """An estimate, `scale`, of the smallest noise scale for which a release costs at most a given epsilon.

    `slope` says how fast the cost falls with the noise: by how much log epsilon falls if the logarithm of the noise
    scale rises by 1. A search uses it to guess the next scale to try.
    """

    scale: float
    slope: float


def estimate_noise_scale(price: Price, first: float, epsilon: float) -> EstimatedScale | None:
    """Return an estimate of the smallest noise scale for which a release costs at most `epsilon`.

    Returns None if even the largest noise scale costs more. `price` maps a noise scale to an estimated epsilon. The
    search starts at the noise scale `first`.
    """
    # The second guess assumes that epsilon is inversely proportional to the noise scale. Later guesses follow a secant
    # of log epsilon as a function of log noise scale.
    point, slope = math.log(_in_range(first)), 1.0
    before: tuple[float, float] | None = None
    for _ in range(CONFIG.most_estimates):
        excess = math.log(
            max(_price_or_infinity(price, Fraction(f"{math.exp(point):.8g}")), CONFIG.least_cost) / epsilon
        )
        if before is not None and math.isfinite(excess) and abs(point - before[0]) > CONFIG.least_apart:
            slope = min(max((before[1] - excess) / (point - before[0]), CONFIG.least_slope), CONFIG.most_slope)
        near = abs(excess) <= CONFIG.near and before is not None
        before = (point, excess) if math.isfinite(excess) else None
        next_point = point + min(max(excess / slope, -CONFIG.largest_move), CONFIG.largest_move)
        next_point = min(max(next_point, math.log(CONFIG.least_scale)), math.log(LARGEST_NOISE_SCALE))
        at_end = next_point == point
        point = next_point
        if near or at_end:
            break
    unaffordable = excess > CONFIG.near and point == math.log(LARGEST_NOISE_SCALE)
    return None if unaffordable else EstimatedScale(math.exp(point), slope)


def smallest_noise_scale(price: Price, first: EstimatedScale, epsilon: float) -> Fraction | None:
    """Return a noise scale, close to the smallest one, for which a release costs at most `epsilon`.

    The result has four significant digits. It is within 0.3% of the smallest such scale, or its cost is within 0.3% of
    `epsilon`. Returns None if no noise scale in range is enough.

    `price` maps a noise scale to a certified upper bound on the epsilon of the release, and the search starts at the
    estimate `first`.
    """
    # Each next guess follows a secant of log epsilon as a function of log noise scale. It lies between the largest
    # scale known to be too small and the smallest scale known to be enough. Every scale tried has four significant
    # digits, so that plans are easy to read and to repeat.
    least, most = CONFIG.least_scale, math.inf
    best: float | None = None
    before: tuple[float, float] | None = None
    scale, slope = _in_range(first.scale), first.slope
    while True:
        short = _rounded_float(scale)
        cost = _price_or_infinity(price, rounded_scale(short))
        if cost <= epsilon:
            best = most = short
            if cost * CONFIG.close >= epsilon:
                break
        else:
            least = short
        if most / least <= CONFIG.close or least >= LARGEST_NOISE_SCALE:
            break
        if before is not None and 0.0 < cost < math.inf and short != before[0]:
            seen = math.log(before[1] / cost) / math.log(short / before[0])
            slope = min(max(seen, CONFIG.least_slope), CONFIG.most_slope)
        before = (short, cost) if 0.0 < cost < math.inf else None
        excess = math.log(max(cost, CONFIG.least_cost) / epsilon)
        excess += CONFIG.rounded if abs(excess) <= CONFIG.linear else math.log(CONFIG.close) / 2
        scale = short * math.exp(min(max(excess / slope, -CONFIG.largest_move), CONFIG.largest_move))
        if not least < _rounded_float(scale) < most:
            scale = math.sqrt(least * most) if most < math.inf else min(2.0 * least, LARGEST_NOISE_SCALE)
            if not least < _rounded_float(scale) < most:
                break
    return None if best is None else rounded_scale(best)


def rounded_scale(scale: float) -> Fraction:
    """Return the noise scale rounded to four significant digits, as a fraction, so that plans are easy to read."""
    return Fraction(_four_digits(scale))


def _rounded_float(scale: float) -> float:
    """Return `rounded_scale` as a float; a search tries only such noise scales."""
    return float(_four_digits(scale))


def _four_digits(scale: float) -> str:
    return f"{scale:.4g}"


def _in_range(scale: float) -> float:
    """Return `scale` if a search may try this noise scale; otherwise the nearest noise scale that it may try."""
    return min(max(scale, CONFIG.least_scale), float(LARGEST_NOISE_SCALE))


def _price_or_infinity(price: Price, scale: Fraction) -> float:
    """Return price(scale): the epsilon that a release costs with the noise scale `scale`.

    The result is infinite if `price` raises an error, because the noise scale is too small or too large, or because no
    bound on epsilon is known for it.
    """
    try:
        return price(scale)
    except (InvalidParameter, Unattainable):
        return math.inf


@lru_cache(maxsize=CONFIG.most_remembered)
def _compose(uses: tuple[Use, ...], interaction: Interaction, delta: float) -> CertifiedBound:
    """Return the certified bound on the epsilon of `uses` at `delta`; if `delta` is 0, the epsilons are added up.

    A use is a guarantee, and how often it is used. `interaction` says what an analyst may decide after seeing earlier
    answers, such as the order of the uses.
    """
    if Fraction(delta) == 0:
        return pure_sum(uses, interaction)
    composition = compose(uses, interaction)
    if interaction is Interaction.SETWISE:
        return composition.compared_epsilon(_search_price(uses, delta), delta)
    return composition.epsilon(delta)


@lru_cache(maxsize=CONFIG.most_remembered)
def _search_price(uses: tuple[Use, ...], delta: float) -> CertifiedBound:
    """Return a quickly computed, certified bound on the epsilon of all `uses` at `delta`, in any adaptive order.

    The caller merges equal guarantees in `uses`, so that equal calls find the same entry of the cache.
    """
    return pure_sum(uses, Interaction.SETWISE) if Fraction(delta) == 0 else compose(uses).quick_epsilon(delta)

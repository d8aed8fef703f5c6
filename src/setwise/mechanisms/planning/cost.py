"""What one release costs, certified or estimated quickly, and the least noise that stays within a total."""

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

MOST_SPREAD = 10**6
"""The widest noise that is looked for, in units of what one user adds to a count."""


@dataclass(frozen=True, slots=True)
class CostConfig:
    """How noise is searched. What is returned was certified, whatever these numbers are."""

    least_spread: float = 0.05
    """The narrowest noise that is looked for, in units of what one user adds to a count."""
    close: float = 1.003
    """Calibration stops when the spread is known within this factor, or when this much of epsilon at most is left."""
    near: float = 3e-3
    """Distance in log epsilon at which a secant from an estimate ends at its target."""
    most_estimates: int = 30
    """Estimates of one search; three are usual."""
    least_slope: float = 0.1
    most_slope: float = 2.0
    """Fall of log epsilon per unit of log spread: 1 where all noise grows, less where a part of the cost is fixed."""
    largest_move: float = 1.5
    """Logarithm of the largest factor between one spread tried and the next."""
    least_cost: float = 1e-12
    """Stands for an epsilon of 0 in logarithms."""
    most_remembered: int = 1024
    """Certified prices that are remembered."""


CONFIG = CostConfig()


def certified_price(
    uses: Iterable[Use], delta: float, interaction: Interaction = Interaction.SETWISE
) -> CertifiedBound:
    """Return the guarantee of the uses together at delta, which may be 0; recent answers are remembered."""
    return _composed(merged(uses), interaction, delta)


def searched_price(uses: Iterable[Use], delta: float) -> float:
    """Return a certified set-wise epsilon of the uses at delta, which `certified_price` may lower but never raises."""
    return _searched(merged(uses), delta).upper


def estimated_price(uses: Iterable[Use], delta: float) -> float:
    """Return about the set-wise epsilon of the uses at delta, which may be 0, in a moment: never a promise."""
    return estimated_epsilon(merged(uses), delta)


Price: TypeAlias = Callable[[Fraction], float]
"""The epsilon that a spread of noise costs; it falls as the spread grows."""


@dataclass(frozen=True, slots=True)
class EstimatedSpread:
    """About the least spread that an epsilon buys, and by how much log epsilon falls there per unit of log spread."""

    spread: float
    slope: float


def estimated_spread(price: Price, first: float, epsilon: float) -> EstimatedSpread | None:
    """Return about the least spread whose price, an estimate, is epsilon; None if none in range costs so little.

    Secants of log price over log spread begin at `first`, with the slope of 1 that all noise together has.
    """
    point, slope = math.log(_in_range(first)), 1.0
    before: tuple[float, float] | None = None
    for _ in range(CONFIG.most_estimates):
        excess = math.log(max(_asked(price, Fraction(f"{math.exp(point):.8g}")), CONFIG.least_cost) / epsilon)
        if before is not None and math.isfinite(excess):
            slope = min(max((before[1] - excess) / (point - before[0]), CONFIG.least_slope), CONFIG.most_slope)
        near = abs(excess) <= CONFIG.near and before is not None
        before = (point, excess) if math.isfinite(excess) else None
        moved = point + min(max(excess / slope, -CONFIG.largest_move), CONFIG.largest_move)
        moved = min(max(moved, math.log(CONFIG.least_spread)), math.log(MOST_SPREAD))
        at_end = moved == point
        point = moved
        if near or at_end:
            break
    unaffordable = excess > CONFIG.near and point == math.log(MOST_SPREAD)
    return None if unaffordable else EstimatedSpread(math.exp(point), slope)


def least_spread(price: Price, first: EstimatedSpread, epsilon: float) -> Fraction | None:
    """Return the least spread of noise whose price is at most epsilon, beginning at `first`; None if none in range is.

    Secants of log price over log spread give the next guess; a bracket of guesses keeps it honest. Every spread tried
    is a short decimal, so that plans are easy to read and repeat.
    """
    least, most = CONFIG.least_spread, math.inf
    best: float | None = None
    before: tuple[float, float] | None = None
    spread, slope = _in_range(first.spread), first.slope
    while True:
        short = _short(spread)
        cost = _asked(price, decimal(short))
        if cost <= epsilon:
            best = most = short
            if cost * CONFIG.close >= epsilon:
                break
        else:
            least = short
        if most / least <= CONFIG.close or least >= MOST_SPREAD:
            break
        if before is not None and 0.0 < cost < math.inf and short != before[0]:
            seen = math.log(before[1] / cost) / math.log(short / before[0])
            slope = min(max(seen, CONFIG.least_slope), CONFIG.most_slope)
        before = (short, cost) if 0.0 < cost < math.inf else None
        excess = math.log(max(cost, CONFIG.least_cost) / epsilon) + math.log(CONFIG.close) / 2
        spread = short * math.exp(min(max(excess / slope, -CONFIG.largest_move), CONFIG.largest_move))
        if not least < _short(spread) < most:
            spread = math.sqrt(least * most) if most < math.inf else min(2.0 * least, MOST_SPREAD)
            if not least < _short(spread) < most:
                break
    return None if best is None else decimal(best)


def decimal(spread: float) -> Fraction:
    """Return the spread in four digits."""
    return Fraction(f"{spread:.4g}")


def _short(spread: float) -> float:
    return float(f"{spread:.4g}")


def _in_range(spread: float) -> float:
    return min(max(spread, CONFIG.least_spread), float(MOST_SPREAD))


def _asked(price: Price, spread: Fraction) -> float:
    """Return the price of a spread; infinite where noise is out of range, or where a bound says nothing."""
    try:
        return price(spread)
    except (InvalidParameter, Unattainable):
        return math.inf


@lru_cache(maxsize=CONFIG.most_remembered)
def _composed(uses: tuple[Use, ...], interaction: Interaction, delta: float) -> CertifiedBound:
    if Fraction(delta) == 0:
        return pure_sum(uses, interaction)
    composition = compose(uses, interaction)
    if interaction is Interaction.SETWISE:
        return composition.compared_epsilon(_searched(uses, delta), delta)
    return composition.epsilon(delta)


@lru_cache(maxsize=CONFIG.most_remembered)
def _searched(uses: tuple[Use, ...], delta: float) -> CertifiedBound:
    return pure_sum(uses, Interaction.SETWISE) if Fraction(delta) == 0 else compose(uses).quick_epsilon(delta)

"""What one release costs, certified or estimated quickly, and the least noise that stays within a total."""

import contextlib
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache

from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.checks import SMALLEST_EPSILON
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import (
    BoundedRange,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    PureDP,
    TruncatedDiscreteGaussian,
    Use,
    merged,
)
from setwise.accounting.methods.exact import pure_sum
from setwise.errors import InvalidParameter, Unattainable

_LEAST_SPREAD = 0.05
MOST_SPREAD = 10**6
"""Noise is looked for between these, in units of what one user adds to a count."""

_CLOSE = 1.003
"""Calibration stops when the spread is known within this factor, or when this much of epsilon at most is left."""

_MOST_REMEMBERED = 1024

_LARGEST_ROUGH = 512.0
"""The largest epsilon that is estimated: beyond it the estimate stays there."""


def certified_price(uses: Iterable[Use], delta: float, interaction: Interaction = Interaction.SETWISE) -> Answer:
    """Return the guarantee of the uses together at delta, which may be 0; recent answers are remembered."""
    return _composed(merged(uses), interaction, delta)


def estimated_price(uses: Iterable[Use], delta: float) -> float:
    """Return about the set-wise epsilon of uses of which many are picks: a guess, and never a promise.

    Each pick is taken for the randomized response with half its range, which an analyst with many of them gains little
    on by adapting; the certified optimum of thousands of picks takes seconds, this one moments.
    """
    return certified_price([Use(_not_adapting(use.guarantee), use.count) for use in uses], delta).upper


def rough_price(uses: Iterable[Use], delta: float) -> float:
    """Return about the epsilon of the uses, in a moment: the lesser of their plain sum and a Gaussian of their zCDP."""
    counted = [(use.count, *_rough(use.guarantee)) for use in uses]
    rho, plain = (math.fsum(line[0] * line[place] for line in counted) for place in (1, 2))
    if not (rho and delta):
        return plain
    return min(plain, _gaussian_epsilon(math.sqrt(2 * rho), delta))


def _gaussian_epsilon(shift: float, delta: float) -> float:
    """Return about the epsilon at delta of a Gaussian that one user moves by `shift` standard deviations."""

    def above(epsilon: float) -> bool:
        near, far = (epsilon / shift + sign * shift / 2 for sign in (-1, 1))
        return math.erfc(near / math.sqrt(2)) - math.exp(epsilon) * math.erfc(far / math.sqrt(2)) > 2 * delta

    least, most = 0.0, 1.0
    while above(most) and most < _LARGEST_ROUGH:
        least, most = most, 2 * most
    for _ in range(30):
        middle = (least + most) / 2
        least, most = (middle, most) if above(middle) else (least, middle)
    return most


def _rough(guarantee: Guarantee) -> tuple[float, float]:
    """Return about the zCDP of a use, and its largest loss."""
    match guarantee:
        case Gaussian(sigma=sigma):
            return 1 / (2 * sigma**2), math.inf
        case TruncatedDiscreteGaussian(sigma=sigma, sensitivity=sensitivity):
            return sensitivity**2 / (2 * sigma**2), math.inf
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            return sensitivity**2 / (2 * scale**2), sensitivity / scale
        case BoundedRange(epsilon=epsilon):
            return epsilon**2 / 8, epsilon
        case _:  # a threshold's failure, which costs delta alone
            return 0.0, 0.0


def least_spread(price: Callable[[Fraction], float], first: float, epsilon: float) -> Fraction | None:
    """Return the least spread of noise whose price is at most epsilon, beginning at `first`; None if none in range is.

    The price falls about as 1/spread, which gives the next guess; a bracket of guesses keeps it honest. Every spread
    tried is a short decimal, so that plans are easy to read and repeat.
    """
    least, most = _LEAST_SPREAD, math.inf
    best: float | None = None
    spread = min(max(first, _LEAST_SPREAD), float(MOST_SPREAD))
    while True:
        short = float(f"{spread:.4g}")
        cost = math.inf
        with contextlib.suppress(InvalidParameter, Unattainable):  # noise out of range, or a bound that says nothing
            cost = price(Fraction(f"{short:.4g}"))
        if cost <= epsilon:
            best = most = short
            if cost * _CLOSE >= epsilon:
                break
        else:
            least = short
        if most / least <= _CLOSE or least >= MOST_SPREAD:
            break
        step = min(max(cost / epsilon * math.sqrt(_CLOSE), 0.5), 2.0)
        spread = short * step
        if not least < float(f"{spread:.4g}") < most:
            spread = math.sqrt(least * most) if most < math.inf else min(2.0 * least, MOST_SPREAD)
            if not least < float(f"{spread:.4g}") < most:
                break
    return None if best is None else Fraction(f"{best:.4g}")


@lru_cache(maxsize=_MOST_REMEMBERED)
def _composed(uses: tuple[Use, ...], interaction: Interaction, delta: float) -> Answer:
    if Fraction(delta) == 0:
        return pure_sum(uses, interaction)
    return compose(uses, interaction).epsilon(delta)


def _not_adapting(guarantee: Guarantee) -> Guarantee:
    match guarantee:
        case BoundedRange(epsilon=epsilon):
            return PureDP(epsilon=max(epsilon / 2, SMALLEST_EPSILON))
        case _:
            return guarantee

"""What one release costs: certified, and estimated quickly while the noise is being looked for."""

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.checks import SMALLEST_EPSILON
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange, Guarantee, PureDP, Use, merged
from setwise.accounting.methods.exact import pure_sum

_MOST_REMEMBERED = 1024


def certified_price(uses: Iterable[Use], delta: float, interaction: Interaction = Interaction.SETWISE) -> Answer:
    """Return the guarantee of the uses together at delta, which may be 0; recent answers are remembered."""
    return _composed(merged(uses), interaction, delta)


def estimated_price(uses: Iterable[Use], delta: float) -> float:
    """Return about the set-wise epsilon of uses of which many are picks: a guess, and never a promise.

    Each pick is taken for the randomized response with half its range, which an analyst with many of them gains little
    on by adapting; the certified optimum of thousands of picks takes seconds, this one moments.
    """
    return certified_price([Use(_not_adapting(use.guarantee), use.count) for use in uses], delta).upper


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

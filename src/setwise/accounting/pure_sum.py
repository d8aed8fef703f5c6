"""The overall epsilon at delta = 0: epsilons add up."""

import math
from collections.abc import Iterable
from fractions import Fraction

from setwise.accounting.answer import Answer
from setwise.accounting.guarantees import ApproxDP, BoundedRange, DiscreteLaplace, Guarantee, Laplace, PureDP
from setwise.accounting.interaction import Interaction
from setwise.accounting.rounding import down, up
from setwise.accounting.use import Use


def pure_sum(uses: Iterable[Use], interaction: Interaction) -> Answer:
    """Return the epsilon of the uses together at delta = 0; infinite when some use has an unbounded loss or fails.

    The largest losses of pure mechanisms are reached together, so their sum is the optimum. Randomized response with
    half its epsilon is a bounded-range mechanism, so such a use reaches at least that.

    Theorem: DworkKeMcMiNa06 (basic composition); it holds under every interaction.

    >>> pure_sum([Use(PureDP(epsilon=0.25), 4)], Interaction.SETWISE).upper
    1.0
    """
    lower = upper = Fraction(0)
    for use in uses:
        loss = _largest_loss(use.guarantee)
        if loss is None:
            return Answer(0.0, math.inf, interaction, "basic-composition", "DworkKeMcMiNa06")
        upper += use.count * loss
        lower += use.count * (loss / 2 if isinstance(use.guarantee, BoundedRange) else loss)
    below, above = float(lower), float(upper)
    return Answer(
        below if Fraction(below) <= lower else down(below),
        above if Fraction(above) >= upper else up(above),
        interaction,
        "basic-composition",
        "DworkKeMcMiNa06",
    )


def _largest_loss(guarantee: Guarantee) -> Fraction | None:
    """Return the epsilon of one use at delta = 0, exactly; None when there is none."""
    match guarantee:
        case PureDP(epsilon=epsilon) | BoundedRange(epsilon=epsilon) | ApproxDP(epsilon=epsilon, delta=0.0):
            return Fraction(epsilon)
        case Laplace(scale=scale):
            return 1 / Fraction(scale)
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            return sensitivity / Fraction(scale)
        case _:
            return None

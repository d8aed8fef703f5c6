"""Composition of mechanisms with fixed dominating pairs: exact sums where the structure allows them.

A mechanism with a fixed, symmetric dominating pair acts on privacy profiles as a linear operator, and these
commute: such mechanisms compose to the same delta in a batch, in any order, and adaptively.
(docs/optimal-composition.md, "Linear mechanisms".)
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.guarantees import ApproxDP, BoundedRange, DiscreteLaplace, Guarantee, Laplace, PureDP, Use
from setwise.accounting.intervals import Bracket, down, failures, unite, up
from setwise.accounting.losses.discrete import NOTHING, Atoms, Loss, atoms_of
from setwise.accounting.losses.gaussian import GaussianLoss, merged_sigma
from setwise.accounting.losses.two_point import randomized_response

MOST_ATOMS = 1_000_000
_OUTER_RATIO = 1e-120
"""Outer masses below this share of their mode are dropped and charged; far below any delta of interest."""


@dataclass(frozen=True, slots=True)
class LinearParts:
    """A set of linear mechanisms, by structure.

    `responses` counts randomized responses by epsilon (pure DP, and (epsilon, delta)-DP less its failure),
    `inverse_variance` sums 1/sigma^2 over Gaussians, `failed` lists (delta, count) of outright failures.
    """

    responses: tuple[tuple[float, int], ...] = ()
    inverse_variance: float = 0.0
    failed: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ExactLinear:
    """The composition of `LinearParts`, summed exactly: every group but one enumerated, that one in closed form."""

    outer: Atoms
    inner: Loss | None
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return the optimal delta at epsilon, correct to round-off."""
        if self.inner is None:
            return self.failure
        return unite(self.failure, self.outer.average(self.inner, epsilon))


def exact_linear(parts: LinearParts) -> ExactLinear | None:
    """Return the exact composition, or None when enumeration would need more than `MOST_ATOMS` atoms.

    Theorem: thm:opt_DPCOMP for one epsilon, MurtaghVa16 for several and for failures, lem:AGM for Gaussians.
    """
    groups = sorted(parts.responses, key=lambda group: group[1] * min(group[0], 1.0))
    inner: Loss | None = None
    if parts.inverse_variance:
        inner = GaussianLoss(merged_sigma(parts.inverse_variance))
    elif groups:
        inner = randomized_response(*groups.pop())
    outer = NOTHING
    for epsilon, count in groups:
        group = atoms_of(randomized_response(epsilon, count, _OUTER_RATIO))
        if outer.size * group.size > MOST_ATOMS:
            return None
        outer = outer.times(group)
    return ExactLinear(outer, inner, failures(list(parts.failed)))


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

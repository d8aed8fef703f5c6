"""Composition of mechanisms with fixed dominating pairs: exact sums where the structure allows them.

A mechanism with a fixed, symmetric dominating pair acts on privacy profiles as a linear operator, and these
commute: such mechanisms compose to the same delta in a batch, in any order, and adaptively.
(docs/optimal-composition.md, "Linear mechanisms".)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.accounting.guarantees import Gaussian, PureDP
from setwise.accounting.intervals import Bracket, unite
from setwise.accounting.losses.discrete import Atoms, Loss, enumerated
from setwise.accounting.losses.dominating_pairs import KnownNoise
from setwise.accounting.losses.gaussian import GaussianLoss
from setwise.accounting.losses.two_point import randomized_response

MOST_ATOMS = 1_000_000
"""Atoms up to which a composition is enumerated."""


@dataclass(frozen=True, slots=True)
class ExactLinear:
    """Pure DP and Gaussian uses, summed exactly: every group but one enumerated, that one in closed form."""

    outer: Atoms
    inner: Loss | None
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return the optimal delta at epsilon, correct to round-off."""
        if self.inner is None:
            return self.failure
        return unite(self.failure, self.outer.average(self.inner, epsilon))


def exact_linear(uses: Sequence[tuple[KnownNoise, int]], failure: Bracket) -> ExactLinear | None:
    """Return the exact composition, or None when there is other noise or more than `MOST_ATOMS` atoms.

    Requires: Gaussians are merged into one.
    Theorem: thm:opt_DPCOMP for one epsilon, MurtaghVa16 for several and for failures, lem:AGM for Gaussians.
    """
    groups: list[tuple[float, int]] = []
    inner: Loss | None = None
    for known, count in uses:
        match known:
            case PureDP(epsilon=epsilon):
                groups.append((epsilon, count))
            case Gaussian(sigma=sigma):
                inner = GaussianLoss(sigma)
            case _:
                return None
    groups.sort(key=lambda group: group[1] * min(group[0], 1.0))
    if inner is None and groups:
        inner = randomized_response(*groups.pop())
    outer = enumerated(groups, MOST_ATOMS)
    return None if outer is None else ExactLinear(outer, inner, failure)

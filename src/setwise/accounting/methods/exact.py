"""Exact compositions: mechanisms with fixed dominating pairs where their structure allows it, and sums at delta = 0.

A mechanism with a fixed, symmetric dominating pair acts on privacy profiles as a linear operator, and these
commute: such mechanisms compose to the same delta in a batch, in any order, and adaptively.
(docs/optimal-composition.md, "Linear mechanisms".)
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import (
    ELEMENTARY,
    UNIT,
    Bracket,
    CertifiedBound,
    Interaction,
    down,
    either_fails,
    float_above,
    float_below,
    up,
)
from setwise.accounting.guarantees import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    PureDP,
    TruncatedDiscreteGaussian,
    Use,
    total_loss,
)
from setwise.accounting.losses.dominating_pairs import GaussianLoss, KnownNoise, added_up, enumerated
from setwise.accounting.losses.lattice import Atoms, Loss

Floats = NDArray[np.float64]

BASIC, BASIC_STATEMENT = "basic-composition", "DworkKeMcMiNa06"

MOST_ATOMS = 1_000_000
"""Atoms up to which a composition is enumerated."""


@dataclass(frozen=True, slots=True)
class ExactLinear:
    """Pure DP and Gaussian uses and integer noise, summed exactly: one group in closed form, the others enumerated."""

    outer: Atoms
    inner: Loss | None
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return the optimal delta at epsilon, correct to round-off."""
        if self.inner is None:
            return self.failure
        return either_fails(self.failure, self.outer.average(self.inner, epsilon))


@dataclass(frozen=True, slots=True)
class OneRange:
    """One bounded-range mechanism with nothing to come: t = (x + epsilon) / 2 is worst at every x >= 0."""

    epsilon: float

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return delta at each x and the absolute error of each: (1 - e^((x - epsilon)/2))^2 / (1 - e^-epsilon)."""
        size = np.abs(x)
        value = np.expm1(np.minimum(size - self.epsilon, 0.0) / 2) ** 2 / -math.expm1(-self.epsilon)
        value = np.where(x < 0.0, -np.expm1(-size) + np.exp(-size) * value, value)
        return value, value * (8 * ELEMENTARY * UNIT)


def exact_linear(
    uses: Sequence[tuple[KnownNoise, int]], failure: Bracket, most: int = MOST_ATOMS
) -> ExactLinear | None:
    """Return the exact composition, or None when there is other noise or more than `most` atoms.

    Requires: Gaussians are merged into one.
    Theorem: thm:opt_DPCOMP for one epsilon, MurtaghVa16 for several and for failures, lem:AGM for Gaussians.
    """
    groups = [(known, count) for known, count in uses if not isinstance(known, Gaussian)]
    groups.sort(key=_values)
    inner: Loss | None = next((GaussianLoss(known.sigma) for known, _ in uses if isinstance(known, Gaussian)), None)
    if inner is None and groups:
        inner = added_up(*groups.pop())
        if inner is None:
            return None
    outer = enumerated(groups, most)
    return None if outer is None else ExactLinear(outer, inner, failure)


def _values(group: tuple[KnownNoise, int]) -> float:
    """Return about how many values the loss of a group takes."""
    known, count = group
    match known:
        case PureDP(epsilon=epsilon):
            return count * min(epsilon, 1.0)
        case TruncatedDiscreteGaussian(bound=bound):
            return 2.0 * count * bound
        case DiscreteLaplace(sensitivity=sensitivity):
            return float(count * sensitivity)
        case _:
            return math.inf


_CERTAIN = 300.0
"""From this value of 1 / (2 sigma^2) on integer Gaussian noise is taken to be 0."""

_STRAY = 1e-129
"""More than the chance 2 exp(-300) (1 + ...) that such noise is not 0."""


@dataclass(frozen=True, slots=True)
class NearlyNoNoise:
    """Integer Gaussian uses whose noise is 0 but for a chance of at most `stray`; the loss is then `total`."""

    total: Bracket
    stray: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return the optimal delta: 1 - exp(epsilon - total) where the noise is 0."""
        below, above = (-math.expm1(min(0.0, epsilon - total)) for total in (self.total.lower, self.total.upper))
        room = 2 * ELEMENTARY * UNIT
        lower, upper = below * (1 - room) * (1 - self.stray), min(1.0, above * (1 + room) + self.stray)
        return either_fails(self.failure, Bracket(min(lower, upper), upper))


def nearly_no_noise(uses: Sequence[tuple[KnownNoise, int]], failure: Bracket) -> NearlyNoNoise | None:
    """Return the composition of integer Gaussians that are next to certain to be 0; None for other noise."""
    total, count = Fraction(0), 0
    for known, number in uses:
        match known:
            case DiscreteGaussian(sigma=sigma, sensitivity=s) if sigma * sigma * _CERTAIN <= 0.5:
                total, count = total + number * Fraction(s) ** 2 / (2 * Fraction(sigma) ** 2), count + number
            case _:
                return None
    about = float(total)
    return NearlyNoNoise(Bracket(down(about), up(about)), count * _STRAY, failure) if count else None


@dataclass(frozen=True, slots=True)
class BasicSum:
    """Uses that lose at most `total` together, except with the chance `failure`."""

    total: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return the chance of failure beyond the sum of the epsilons, 1 below it.

        Theorem: DworkKeMcMiNa06 (basic composition); it also holds when parameters are chosen on the fly.
        """
        return Bracket(0.0, self.failure.upper if epsilon >= self.total else 1.0)


def pure_sum(uses: Iterable[Use], interaction: Interaction) -> CertifiedBound:
    """Return the epsilon of the uses together at delta = 0; infinite when some use has an unbounded loss or fails.

    The largest losses of known noise are reached together, and a bounded-range mechanism of epsilon loses t with some
    chance for every t < epsilon: the sum is the optimum, of classes too.

    >>> pure_sum([Use(PureDP(epsilon=0.25), 4)], Interaction.SETWISE).upper
    1.0
    """
    pairs = [(use.guarantee, use.count) for use in uses]
    total = total_loss(pairs)
    if total is None or any(guarantee.split_off_failure()[1] for guarantee, _ in pairs):
        return CertifiedBound(0.0, math.inf, interaction, BASIC, BASIC_STATEMENT)
    return CertifiedBound(float_below(total), float_above(total), interaction, BASIC, BASIC_STATEMENT)

"""Exact compositions of mechanisms with fixed dominating pairs, and sums of epsilons at delta = 0.

A mechanism with a fixed, symmetric dominating pair acts on privacy profiles (delta as a function of epsilon) as a
linear operator, and such operators commute. So these mechanisms compose to the same delta in a batch, in any order, and
adaptively (docs/optimal-composition.md, "Linear mechanisms"). The rounding of these sums is certified in
`losses/lattice.py`.
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
from setwise.accounting.losses.dominating_pairs import GaussianLoss, KnownNoise, enumerate_losses, sum_equal_uses
from setwise.accounting.losses.lattice import Atoms, Loss

Floats = NDArray[np.float64]

BASIC, BASIC_STATEMENT = "basic-composition", "DworkKeMcMiNa06"

MOST_ATOMS = 1_000_000
"""Largest number of atoms of a privacy loss for which a composition is enumerated."""


@dataclass(frozen=True, slots=True)
class ExactLinear:
    """The exact total privacy loss of uses with fixed dominating pairs, from which delta is computed at any epsilon.

    The total loss is a sum of two independent losses, `outer` and `inner`. The two losses are not combined, because a
    list of all values of the sum would be too long.

    - `inner` is the loss of the uses of one kind of noise (Gaussian noise, if there is any), as an object that gives
      delta at any epsilon; None if there are no uses.
    - `outer` is the total loss of all other uses, as a list of its values and their probabilities.
    - `failure` is a bracket (a certified interval) for the probability of outright failure, in which everything may be
      revealed.
    """

    outer: Atoms
    inner: Loss | None
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return a bracket for the delta of the composition (all uses together) at `epsilon`.

        The bracket is a certified interval; only rounding errors of floats separate its ends.
        """
        if self.inner is None:
            return self.failure
        return either_fails(self.failure, self.outer.average(self.inner, epsilon))


@dataclass(frozen=True, slots=True)
class OneRange:
    """The privacy loss of an epsilon-bounded-range mechanism that is composed with no other bounded-range mechanism.

    At every overall epsilon x >= 0 the worst such mechanism is generalized randomized response with the parameter t =
    (x + epsilon) / 2, whose two losses are t and t - epsilon.
    """

    epsilon: float

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the largest delta of an epsilon-bounded-range mechanism at each epsilon in `x`, and error bounds.

        The mechanism is the only one of the composition. The second array bounds the absolute error of each delta.
        """
        # For x >= 0 delta is (1 - e^((x - epsilon)/2))^2 / (1 - e^-epsilon) up to x = epsilon, and 0 beyond. Negative x
        # follow from the symmetry delta(-x) = 1 - exp(-x) + exp(-x) delta(x).
        size = np.abs(x)
        value = np.expm1(np.minimum(size - self.epsilon, 0.0) / 2) ** 2 / -math.expm1(-self.epsilon)
        value = np.where(x < 0.0, -np.expm1(-size) + np.exp(-size) * value, value)
        return value, value * (8 * ELEMENTARY * UNIT)


def exact_linear(
    uses: Sequence[tuple[KnownNoise, int]], failure: Bracket, most: int = MOST_ATOMS
) -> ExactLinear | None:
    """Return the exact total privacy loss of `uses`, pairs (noise, count); None if its values cannot be listed.

    The result keeps two losses apart, because a list of all sums of the two could be too long. The first is the loss of
    one kind of noise: Gaussian noise, or else the noise whose total loss has the most values. The second is the total
    loss of all other uses, a list of at most `most` values with their probabilities. `failure` is a bracket (a
    certified interval) for the probability of outright failure, in which everything may be revealed; the result
    includes it.

    The result is None if the second list would be longer, or if any noise except the Gaussian has a continuous loss, as
    Laplace noise has, or too many losses.

    Requires: at most one of `uses` is Gaussian, because Gaussians are merged into one before.
    Theorem: the optimal composition of pure DP (thm:opt_DPCOMP) for one epsilon, MurtaghVa16 for several and for
    failures, the analytic Gaussian mechanism (lem:AGM) for Gaussians.
    """
    # One group is kept apart, so that its losses need not be multiplied out with the others: the Gaussian if there is
    # one, otherwise the group with the most losses. Returns None if any noise but the Gaussian is continuous or has too
    # many losses, or if the groups that are not kept apart have together more than `most` losses.
    groups = [(noise, count) for noise, count in uses if not isinstance(noise, Gaussian)]
    groups.sort(key=_count_values)
    inner: Loss | None = next((GaussianLoss(noise.sigma) for noise, _ in uses if isinstance(noise, Gaussian)), None)
    if inner is None and groups:
        inner = sum_equal_uses(*groups.pop())
        if inner is None:
            return None
    outer = enumerate_losses(groups, most)
    return None if outer is None else ExactLinear(outer, inner, failure)


def _count_values(group: tuple[KnownNoise, int]) -> float:
    """Return roughly how many values the total privacy loss of equal uses can have.

    `group` is a pair (noise, count). The result is infinite for noise whose losses cannot be enumerated. For pure DP of
    a small epsilon it is smaller than the number of values, because many of them lie close together. The caller lists
    total losses value by value, except for the pair with the largest result.
    """
    # `exact_linear` sorts groups by this number, because it keeps the group with the most values apart. The number of
    # values for pure DP is multiplied by epsilon if epsilon is below 1, because many of these values lie close
    # together.
    noise, count = group
    match noise:
        case PureDP(epsilon=epsilon):
            return count * min(epsilon, 1.0)
        case TruncatedDiscreteGaussian(bound=bound):
            return 2.0 * count * bound
        case DiscreteLaplace(sensitivity=sensitivity):
            return float(count * sensitivity)
        case _:
            return math.inf


_CERTAIN = 300.0
"""If 1 / (2 sigma^2) is at least this, integer Gaussian noise is treated as 0."""

_STRAY = 1e-129
"""Upper bound on the probability, 2 exp(-300) (1 + ...), that such noise is not 0."""


@dataclass(frozen=True, slots=True)
class NearlyNoNoise:
    """Integer Gaussian uses with so little noise that all of it is 0, except with a probability of at most `stray`.

    - `total` is a bracket (a certified interval, because of rounding) for the privacy loss of all uses together if all
      noise is 0.
    - `failure` is a bracket for the probability of outright failure (in which everything may be revealed). The
      guarantees of the uses allow such failures in addition to the loss of the noise.
    """

    total: Bracket
    stray: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return a bracket (a certified interval) for the delta at `epsilon` of uses whose noise is almost certainly 0.

        Without noise, delta is 1 - exp(epsilon - total), or 0 from epsilon = total on, where `total` is the privacy
        loss. The bracket is widened by `stray`, the probability that some noise is not 0, by rounding errors, and by
        outright failures (in which everything may be revealed).
        """
        below, above = (-math.expm1(min(0.0, epsilon - total)) for total in (self.total.lower, self.total.upper))
        room = 2 * ELEMENTARY * UNIT
        lower, upper = below * (1 - room) * (1 - self.stray), min(1.0, above * (1 + room) + self.stray)
        return either_fails(self.failure, Bracket(min(lower, upper), upper))


def nearly_no_noise(uses: Sequence[tuple[KnownNoise, int]], failure: Bracket) -> NearlyNoNoise | None:
    """Return the composition of `uses` if each of them is integer Gaussian noise so narrow that it is almost surely 0.

    The privacy loss is then almost surely one known number, from which delta is quick to compute. Returns None if some
    use has other noise, or if there are no uses. `uses` are pairs (noise, count), and `failure` is a bracket for the
    probability of outright failure (in which everything may be revealed).
    """
    total, count = Fraction(0), 0
    for noise, number in uses:
        match noise:
            case DiscreteGaussian(sigma=sigma, sensitivity=s) if sigma * sigma * _CERTAIN <= 0.5:
                total, count = total + number * Fraction(s) ** 2 / (2 * Fraction(sigma) ** 2), count + number
            case _:
                return None
    nearest = float(total)
    return NearlyNoNoise(Bracket(down(nearest), up(nearest)), count * _STRAY, failure) if count else None


@dataclass(frozen=True, slots=True)
class BasicSum:
    """Uses whose privacy losses add up to at most `total`, unless some use fails outright (reveals everything).

    `failure` is a bracket (a certified interval) for the probability of such a failure. Basic composition needs only
    these two numbers.
    """

    total: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return [0, upper end of `failure`] if `epsilon` is at least `total`, and [0, 1] otherwise.

        `total` is the sum of the largest losses of all uses, and `failure` a bracket for the probability of outright
        failure (an event in which everything may be revealed).

        Theorem: DworkKeMcMiNa06 (basic composition); it also holds when parameters are chosen on the fly.
        """
        return Bracket(0.0, self.failure.upper if epsilon >= self.total else 1.0)


def pure_sum(uses: Iterable[Use], interaction: Interaction) -> CertifiedBound:
    """Return the bound on epsilon of all `uses` together at delta = 0: the sum of their largest losses.

    The upper end is infinite if some use has an unbounded loss or can fail outright (reveal everything). `interaction`
    says what an adversary may choose after seeing earlier answers. The bound holds for every interaction, so
    `interaction` is only recorded in the result.

    >>> pure_sum([Use(PureDP(epsilon=0.25), 4)], Interaction.SETWISE).upper
    1.0
    """
    # The sum is the optimum, because the largest losses of known noise can occur together, and because an epsilon-
    # bounded-range mechanism can have the loss t with positive probability, for every t < epsilon.
    pairs = [(use.guarantee, use.count) for use in uses]
    total = total_loss(pairs)
    if total is None or any(guarantee.split_off_failure()[1] for guarantee, _ in pairs):
        return CertifiedBound(0.0, math.inf, interaction, BASIC, BASIC_STATEMENT)
    return CertifiedBound(float_below(total), float_above(total), interaction, BASIC, BASIC_STATEMENT)

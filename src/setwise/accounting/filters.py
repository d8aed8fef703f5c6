"""Parameters chosen on the fly: a zCDP filter and an odometer, as pure values.

A filter is given its budget in advance and admits or refuses each use before it runs; whatever the analyst does, the
whole interaction is (epsilon, delta)-DP. An odometer says at any moment what has been spent so far.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from setwise.accounting.brackets import Bracket, CertifiedBound, Interaction, either_fails, sum_above, up
from setwise.accounting.checks import check_delta, check_epsilon, check_failure
from setwise.accounting.conversions import optimised_delta
from setwise.accounting.guarantees import Use


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums over uses, rounded up: of their rho, and of their probabilities of outright failure."""

    rho: float = 0.0
    failure_sum: float = 0.0

    @property
    def failure(self) -> Bracket:
        """The chance of outright failure; chances chosen on the fly add up."""
        return Bracket(0.0, min(1.0, self.failure_sum))

    def delta(self, epsilon: float) -> Bracket:
        """Return [0, delta] of a filter that stops at these sums.

        Theorem: WhitehouseRaRoWu23 for the filter, CanonneKaSt20 for the conversion.
        """
        return either_fails(self.failure, optimised_delta(0.0, self.rho, epsilon))

    def plus(self, use: Use) -> "Spent":
        """Return the sums after another use.

        xi + alpha rho <= alpha (xi + rho) for alpha > 1, so a positive xi joins rho, and a negative one is dropped.
        """
        parameters = use.guarantee.zero_concentrated()
        rho = use.count * (parameters.rho + max(parameters.xi, 0.0)) * (1 + 4e-16)
        failure = use.count * parameters.delta * (1 + 4e-16 if use.count > 1 else 1.0)
        return Spent(up(self.rho + rho), sum_above(self.failure_sum, failure))


def filter_parameters(uses: Sequence[Use]) -> Spent:
    """Return the sums of the uses."""
    spent = Spent()
    for use in uses:
        spent = spent.plus(use)
    return spent


@dataclass(frozen=True, slots=True, kw_only=True)
class ZcdpFilter:
    """A total (epsilon, delta) that uses of any parameters, chosen on the fly, may draw on.

    `failure_share` of delta is set aside for outright failures (approximate mechanisms); the rest converts zCDP.

    >>> round(ZcdpFilter(epsilon=1.0, delta=1e-6).rho_budget, 5)
    0.02294
    """

    epsilon: float
    delta: float
    failure_share: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "failure_share", check_failure("failure_share", self.failure_share))

    @property
    def rho_budget(self) -> float:
        """The largest total rho that keeps the promise, rounded down."""
        delta = self.delta * (1.0 - self.failure_share)
        low, high = 0.0, self.epsilon
        for _ in range(200):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (middle, high) if optimised_delta(0.0, middle, self.epsilon).upper <= delta else (low, middle)
        return low


_LEVELS = 64
"""How many levels are looked at; each halves or doubles rho."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZcdpOdometer:
    """What has been spent so far, valid at every moment at once, with probability 1 - delta.

    Levels of rho are fixed in advance, each with a weight; each bounds the loss by a line in the rho spent, which is
    tightest at its level, and the least of the lines is read. Levels double from `first_rho` on; where about
    `most_rho` may be spent, as in a filter, they halve from there on, and those near the end weigh most.
    `failure_share` of delta is set aside for outright failures; once they use more, nothing is promised.

    >>> from setwise.accounting.guarantees import Gaussian
    >>> ZcdpOdometer(delta=1e-6).record(Use(Gaussian(sigma=20), 10)).epsilon() < 1.02
    True
    >>> ZcdpOdometer(delta=1e-6, most_rho=0.02).record(Use(Gaussian(sigma=20), 10)).epsilon() < 0.92
    True
    """

    delta: float
    failure_share: float = 0.5
    first_rho: float = 1e-4
    most_rho: float | None = None
    spent: Spent = field(default_factory=Spent)

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "failure_share", check_failure("failure_share", self.failure_share))
        object.__setattr__(self, "first_rho", check_epsilon(self.first_rho, "first_rho"))
        if self.most_rho is not None:
            object.__setattr__(self, "most_rho", check_epsilon(self.most_rho, "most_rho"))

    def record(self, use: Use) -> "ZcdpOdometer":
        """Return the odometer after the use."""
        return replace(self, spent=self.spent.plus(use))

    def epsilon(self) -> float:
        """Return a bound on the privacy loss so far.

        Let L be the loss and rho the sum so far. For every t > 0, exp(t L - t (t + 1) rho) is a supermartingale,
        because each use has at most its rho of Renyi divergence of order t + 1 given the past. So is their average
        with weights w_j that add up to 1, and by Ville's inequality it ever reaches 1 / delta with probability at most
        delta. Hence L <= (t_j + 1) rho + log(1 / (w_j delta)) / t_j for all j and at every moment.

        Theorem: WhitehouseRaRoWu23 (odometers by time-uniform bounds), RogersRoUlVa16 (the definition).
        """
        if self.spent.failure_sum > self.delta * self.failure_share:
            return math.inf
        if self.spent.rho == 0.0:
            return 0.0
        start, factor = (self.first_rho, 2.0) if self.most_rho is None else (self.most_rho, 0.5)
        least = math.inf
        for level in range(_LEVELS):
            weight = 1.0 / ((level + 1) * (level + 2))
            unlikely = -math.log(self.delta * (1.0 - self.failure_share) * weight)
            t = math.sqrt(unlikely / (start * factor**level))
            least = min(least, (t + 1.0) * self.spent.rho + unlikely / t)
        return up(least * (1 + 1e-13))

    def answer(self) -> CertifiedBound:
        """Return the bound as an answer."""
        return CertifiedBound(0.0, self.epsilon(), Interaction.ADAPTIVE, "zcdp-odometer", "WhitehouseRaRoWu23")

"""Composition by mean and spread: the bounds that cover every class, in any adaptive order.

Sums over the uses are all that matters, so the analyst may draw them in any order (lem:genbound).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from setwise.accounting.brackets import ELEMENTARY, UNIT, Bracket, any_fails, either_fails, up
from setwise.accounting.conversions import optimised_delta
from setwise.accounting.guarantees import Use

_SLACK = 1.0 + 8 * ELEMENTARY * UNIT


@dataclass(frozen=True, slots=True)
class SubgaussianSum:
    """Uses whose losses have means summing to `mean` and subgaussian variances to `variance`."""

    mean: float
    variance: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return [0, delta]: a tail bound of the total loss at epsilon.

        Theorem: lem:genbound; eq:setWiseCompEps2 when the uses are pure, bounded-range and CDP.
        """
        excess = epsilon - self.mean
        if excess <= 0.0:
            return Bracket(0.0, 1.0)
        tail = math.exp(-excess * excess / (2.0 * self.variance)) if self.variance else 0.0
        exponent = excess * excess / (2.0 * self.variance) if self.variance else 0.0
        if self.variance:  # a tail below the range of floats is still not 0
            tail = min(1.0, up(tail * (1.0 + (16 * exponent + 2 * ELEMENTARY) * UNIT)))
        return either_fails(Bracket(0.0, self.failure.upper), Bracket(0.0, tail))

    def paper_epsilon(self, delta: float) -> float:
        """Return eq:setWiseCompEps at delta, leaving failures aside: mean + sqrt(2 variance log(1/delta))."""
        return self.mean + math.sqrt(-2.0 * self.variance * math.log(delta))


def subgaussian_sum(uses: Iterable[Use]) -> SubgaussianSum | None:
    """Return the sum of means and spreads of the uses, or None when some use has no known subgaussian parameters."""
    mean, variance = [], []
    failed: list[tuple[float, int]] = []
    for use in uses:
        rest, failure = use.guarantee.split_off_failure()
        failed.append((failure, use.count))
        if rest is None:
            continue
        parameters = use.guarantee.concentrated()
        if parameters is None:
            return None
        mean.append(use.count * parameters.mu)
        variance.append(use.count * parameters.tau**2)
    return SubgaussianSum(math.fsum(mean) * _SLACK, math.fsum(variance) * _SLACK, any_fails(failed))


@dataclass(frozen=True, slots=True)
class ZeroConcentratedSum:
    """Uses that together are (xi, rho)-zCDP outside an event of probability `failure`."""

    xi: float
    rho: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return [0, delta] with the conversion optimised over the order.

        Theorem: lem:zCDPgenbound for the sum, CanonneKaSt20 for the conversion.
        """
        return either_fails(Bracket(0.0, self.failure.upper), optimised_delta(self.xi, self.rho, epsilon))

    def paper_epsilon(self, delta: float) -> float:
        """Return lem:zCDPgenbound at delta, leaving failures aside: sum of (xi + rho) + 2 sqrt(rho log(1/delta))."""
        return self.xi + self.rho + 2.0 * math.sqrt(-self.rho * math.log(delta))


def zero_concentrated_sum(uses: Iterable[Use]) -> ZeroConcentratedSum:
    """Return the zCDP parameters of the uses together; any adaptive order (lem:zCDPgenbound)."""
    xi, rho = [], []
    failed: list[tuple[float, int]] = []
    for use in uses:
        parameters = use.guarantee.zero_concentrated()
        xi.append(use.count * parameters.xi)
        rho.append(use.count * parameters.rho)
        failed.append((parameters.delta, use.count))
    total_rho = math.fsum(rho) * _SLACK
    total_xi = math.fsum(xi)
    return ZeroConcentratedSum(max(up(total_xi + abs(total_xi) * 1e-14), -total_rho), total_rho, any_fails(failed))

"""Composition by mean and spread: the bounds that cover every class, in any adaptive order.

Sums over the uses are all that matters, so the analyst may draw them in any order (lem:genbound).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from setwise.accounting.conversions import (
    approx_to_zero_concentrated,
    bounded_range_to_concentrated,
    bounded_range_to_zero_concentrated,
    concentrated_to_zero_concentrated,
    discrete_gaussian_to_zero_concentrated,
    discrete_laplace_to_pure,
    gaussian_to_concentrated,
    gaussian_to_zero_concentrated,
    laplace_to_pure,
    optimised_delta,
    pure_to_concentrated,
    pure_to_zero_concentrated,
    truncated_gaussian_to_zero_concentrated,
)
from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    ConcentratedDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    Laplace,
    PureDP,
    TruncatedDiscreteGaussian,
    Use,
    ZeroConcentratedDP,
)
from setwise.accounting.intervals import ELEMENTARY, UNIT, Bracket, failures, unite, up

_SLACK = 1.0 + 8 * ELEMENTARY * UNIT


def concentrated(guarantee: Guarantee) -> ConcentratedDP | None:
    """Return the (mu, tau)-CDP that a guarantee implies, or None where none is known.

    Theorem: lem:subgaussBounds.
    """
    match guarantee:
        case PureDP():
            return pure_to_concentrated(guarantee)
        case BoundedRange():
            return bounded_range_to_concentrated(guarantee)
        case Laplace():
            return pure_to_concentrated(laplace_to_pure(guarantee))
        case DiscreteLaplace():
            return pure_to_concentrated(discrete_laplace_to_pure(guarantee))
        case Gaussian():
            return gaussian_to_concentrated(guarantee)
        case ConcentratedDP():
            return guarantee
        case ApproxDP(epsilon=epsilon):
            # Less its outright failure, which is composed separately, (epsilon, delta)-DP is epsilon-DP.
            return pure_to_concentrated(PureDP(epsilon=epsilon)) if epsilon else None
        case ZeroConcentratedDP() | DiscreteGaussian() | TruncatedDiscreteGaussian():
            return None
        case _:
            assert_never(guarantee)


def zero_concentrated(guarantee: Guarantee) -> ZeroConcentratedDP:
    """Return the approximate zCDP that a guarantee implies; every guarantee implies one."""
    match guarantee:
        case PureDP():
            return pure_to_zero_concentrated(guarantee)
        case BoundedRange():
            return bounded_range_to_zero_concentrated(guarantee)
        case Laplace():
            return pure_to_zero_concentrated(laplace_to_pure(guarantee))
        case DiscreteLaplace():
            return pure_to_zero_concentrated(discrete_laplace_to_pure(guarantee))
        case Gaussian():
            return gaussian_to_zero_concentrated(guarantee)
        case DiscreteGaussian():
            return discrete_gaussian_to_zero_concentrated(guarantee)
        case TruncatedDiscreteGaussian():
            return truncated_gaussian_to_zero_concentrated(guarantee)
        case ConcentratedDP():
            return concentrated_to_zero_concentrated(guarantee)
        case ZeroConcentratedDP():
            return guarantee
        case ApproxDP():
            return approx_to_zero_concentrated(guarantee)
        case _:
            assert_never(guarantee)


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
        return unite(Bracket(0.0, self.failure.upper), Bracket(0.0, tail))

    def paper_epsilon(self, delta: float) -> float:
        """Return eq:setWiseCompEps at delta, leaving failures aside: mean + sqrt(2 variance log(1/delta))."""
        return self.mean + math.sqrt(-2.0 * self.variance * math.log(delta))


def subgaussian_sum(uses: Iterable[Use]) -> SubgaussianSum | None:
    """Return the sum of means and spreads of the uses, or None when some use has no known subgaussian parameters."""
    mean, variance = [], []
    failed: list[tuple[float, int]] = []
    for use in uses:
        match use.guarantee:
            case ApproxDP(delta=delta):
                failed.append((delta, use.count))
                if use.guarantee.epsilon == 0.0:
                    continue
            case _:
                pass
        parameters = concentrated(use.guarantee)
        if parameters is None:
            return None
        mean.append(use.count * parameters.mu)
        variance.append(use.count * parameters.tau**2)
    return SubgaussianSum(math.fsum(mean) * _SLACK, math.fsum(variance) * _SLACK, failures(failed))


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
        return unite(Bracket(0.0, self.failure.upper), optimised_delta(self.xi, self.rho, epsilon))

    def paper_epsilon(self, delta: float) -> float:
        """Return lem:zCDPgenbound at delta, leaving failures aside: sum of (xi + rho) + 2 sqrt(rho log(1/delta))."""
        return self.xi + self.rho + 2.0 * math.sqrt(-self.rho * math.log(delta))


def zero_concentrated_sum(uses: Iterable[Use]) -> ZeroConcentratedSum:
    """Return the zCDP parameters of the uses together; any adaptive order (lem:zCDPgenbound)."""
    xi, rho = [], []
    failed: list[tuple[float, int]] = []
    for use in uses:
        parameters = zero_concentrated(use.guarantee)
        xi.append(use.count * parameters.xi)
        rho.append(use.count * parameters.rho)
        failed.append((parameters.delta, use.count))
    total_rho = math.fsum(rho) * _SLACK
    total_xi = math.fsum(xi)
    return ZeroConcentratedSum(max(up(total_xi + abs(total_xi) * 1e-14), -total_rho), total_rho, failures(failed))


@dataclass(frozen=True, slots=True)
class BasicSum:
    """Uses that all satisfy pure DP, failures aside, with epsilons summing to `epsilon`."""

    total: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return the chance of failure beyond the sum of the epsilons, 1 below it.

        Theorem: DworkKeMcMiNa06 (basic composition); it also holds when parameters are chosen on the fly.
        """
        return Bracket(0.0, self.failure.upper if epsilon >= self.total else 1.0)

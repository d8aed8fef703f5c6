"""Composition by mean and spread: the bounds that cover every class, in any adaptive order.

Sums over the uses are all that matters, so the analyst may draw them in any order (lem:genbound).
Beside Gaussian noise the classes go by their moments and the Gaussian exactly: whatever the order, the profile of the
whole is at most the average of the classes' own profile over the loss of the Gaussians (docs/optimal-composition.md,
"Classes beside linear mechanisms").
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import ELEMENTARY, SPECIAL, UNIT, Bracket, any_fails, either_fails, up
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


Floats = NDArray[np.float64]

_REACH = 12.0
"""Standard deviations of the Gaussian's loss that are cut into cells; what lies beyond counts as revealed."""

_CELLS = 800
"""Cells to a standard deviation."""

_ORDERS = np.concatenate(([0.05, 0.2, 0.4], np.linspace(0.6, 1.6, 31), [2.0, 3.0]))
"""Orders that are tried, over the one that is best where delta is tiny. Every order gives a bound."""


@dataclass(frozen=True, slots=True)
class ClassesBesideGaussian:
    """Uses that are (xi, rho)-zCDP together, beside Gaussian noise of deviation sigma, outside of `failure`."""

    xi: float
    rho: float
    sigma: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return [0, delta]. A profile falls, so on each cell of the Gaussian's loss it is read at the right end."""
        from scipy.special import ndtr

        deviation = 1.0 / self.sigma
        y = np.arange(-_REACH * _CELLS, _REACH * _CELLS + 1) / _CELLS
        loss = deviation * y + 0.5 * deviation**2
        tail = ndtr(-np.abs(y))
        # Differences of the nearer tail: no more cancels than what neighbouring values share.
        mass = np.abs(np.diff(tail)) + 2.0 * SPECIAL * UNIT * np.maximum(tail[:-1], tail[1:])
        moved = 8.0 * UNIT * (abs(epsilon) + np.abs(loss[1:]))
        above = float((mass * self._profile(epsilon - loss[1:] - moved)).sum()) * (1.0 + 2 * y.size * UNIT)
        above += float(tail[-1]) * (1.0 + SPECIAL * UNIT)
        return either_fails(Bracket(0.0, self.failure.upper), Bracket(0.0, min(above, 1.0)))

    def _profile(self, x: Floats) -> Floats:
        """Return an upper bound of the classes' profile at any x, by the conversion of zCDP at the best order tried.

        Theorem: CanonneKaSt20; Lemma 1(d) of docs/optimal-composition.md for x < 0.
        """
        size = np.abs(x)
        best = np.ones_like(size)
        usual = np.maximum((size - self.xi + self.rho) / (2.0 * self.rho), 1.0)
        for share in _ORDERS:
            order = 1.0 + share * usual
            terms = (
                (order - 1.0) * self.xi,
                (order - 1.0) * order * self.rho,
                (1.0 - order) * size,
                -np.log(order - 1.0),
                order * np.log1p(-1.0 / order),
            )
            exponent = sum(terms) + 4.0 * ELEMENTARY * UNIT * sum(np.abs(term) for term in terms)
            np.minimum(best, np.exp(np.minimum(exponent, 0.0)) * (1.0 + 2 * ELEMENTARY * UNIT), out=best)
        mirrored = -np.expm1(-size) + np.exp(-size) * best
        return np.minimum(np.where(x < 0.0, mirrored * (1.0 + 4 * ELEMENTARY * UNIT), best), 1.0)

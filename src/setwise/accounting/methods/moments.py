"""Composition by moments of the privacy loss: bounds that cover every kind of guarantee, in any adaptive order.

The bounds depend only on sums over the uses, so an adversary may use them in any order (the paper's lem:genbound). Only
uses that are not Gaussian are bounded by their moments; Gaussian uses are composed exactly. Let f be a bound on the
delta of the other uses as a function of epsilon, and L the privacy loss of the Gaussian uses. Then the delta of all
uses at epsilon is at most the average of f(epsilon - L), in any order (docs/optimal-composition.md, "Classes beside
linear mechanisms").
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
    """Uses whose privacy losses have known means and subgaussian parameters, described by two sums that bound delta.

    A loss is s-subgaussian if its tails are at most those of a normal variable of standard deviation s. `mean` is the
    sum of the mean losses, and `variance` the sum of the squared subgaussian parameters. `failure` is a bracket (a
    certified interval) for the probability of outright failure (an event in which everything may be revealed).
    """

    mean: float
    variance: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return [0, upper bound on the delta of all uses at `epsilon`], by the tail bound for subgaussian losses.

        The bound depends only on the sums of the uses' mean losses and of their squared subgaussian parameters.

        Theorem: the set-wise bound from means and subgaussian parameters in the paper that this package implements
        (lem:genbound; eq:setWiseCompEps2 when the uses are pure DP, bounded-range and CDP).
        """
        excess = epsilon - self.mean
        if excess <= 0.0:
            return Bracket(0.0, 1.0)
        tail = math.exp(-excess * excess / (2.0 * self.variance)) if self.variance else 0.0
        exponent = excess * excess / (2.0 * self.variance) if self.variance else 0.0
        if self.variance:  # a tail that underflows to 0.0 is rounded up to the smallest float, because it is positive
            tail = min(1.0, up(tail * (1.0 + (16 * exponent + 2 * ELEMENTARY) * UNIT)))
        return either_fails(Bracket(0.0, self.failure.upper), Bracket(0.0, tail))

    def paper_epsilon(self, delta: float) -> float:
        """Return mean + sqrt(2 variance log(1/delta)), the epsilon of the paper's formula eq:setWiseCompEps.

        The formula is for comparison with the paper that this package implements. The mean is the sum of the mean
        losses, and the variance the sum of the squared subgaussian parameters. The probability of outright failure
        (that everything may be revealed) is not included.
        """
        return self.mean + math.sqrt(-2.0 * self.variance * math.log(delta))


def subgaussian_sum(uses: Iterable[Use]) -> SubgaussianSum | None:
    """Return the sums of the mean losses and of the squared subgaussian parameters of `uses`, rounded up.

    From these sums and the uses' probability of outright failure (in which everything may be revealed), which is in the
    result too, `SubgaussianSum` computes an upper bound on delta. Returns None if some use has no known subgaussian
    parameter, so that the bound does not apply.
    """
    mean, variance = [], []
    failed: list[tuple[float, int]] = []
    for use in uses:
        successful, failure = use.guarantee.split_off_failure()
        failed.append((failure, use.count))
        if successful is None:
            continue
        parameters = use.guarantee.concentrated()
        if parameters is None:
            return None
        mean.append(use.count * parameters.mu)
        variance.append(use.count * parameters.tau**2)
    return SubgaussianSum(math.fsum(mean) * _SLACK, math.fsum(variance) * _SLACK, any_fails(failed))


@dataclass(frozen=True, slots=True)
class ZeroConcentratedSum:
    """Uses that are together (xi, rho)-zCDP, except in an event of outright failure.

    In an outright failure everything may be revealed. `failure` is a bracket (a certified interval) for its
    probability.
    """

    xi: float
    rho: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return [0, upper bound on the delta of all uses at `epsilon`], by converting zCDP at the best Renyi order.

        Theorem: the paper's lem:zCDPgenbound, by which the uses compose to (xi, rho)-zCDP; CanonneKaSt20, by which zCDP
        implies this delta.
        """
        return either_fails(Bracket(0.0, self.failure.upper), optimised_delta(self.xi, self.rho, epsilon))

    def paper_epsilon(self, delta: float) -> float:
        """Return xi + rho + 2 sqrt(rho log(1/delta)), the epsilon of the paper's formula lem:zCDPgenbound.

        The formula is for comparison with the paper that this package implements; `delta` is tighter. xi and rho are
        the zCDP parameters of all uses together. The probability of outright failure (that everything may be revealed)
        is not included.
        """
        return self.xi + self.rho + 2.0 * math.sqrt(-self.rho * math.log(delta))


def zero_concentrated_sum(uses: Iterable[Use]) -> ZeroConcentratedSum:
    """Return the zCDP parameters xi and rho of all `uses` together, rounded up.

    The results are the sums of the parameters of the uses, and hold in any adaptive order, by the paper's composition
    of approximate zCDP (lem:zCDPgenbound).
    """
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
"""Standard deviations of the Gaussian's loss that are divided into cells. Beyond them, delta counts as 1."""

_CELLS = 800
"""Cells per standard deviation of the Gaussian's loss."""

_ORDERS = np.concatenate(([0.05, 0.2, 0.4], np.linspace(0.6, 1.6, 31), [2.0, 3.0]))
"""Orders that are tried, relative to the best order for tiny deltas. Every order gives a valid bound."""


@dataclass(frozen=True, slots=True)
class ClassesBesideGaussian:
    """Uses that together are (xi, rho)-zCDP beside one Gaussian mechanism: their delta together has an upper bound.

    `sigma` is the standard deviation of the Gaussian noise divided by its l2-sensitivity. `failure` is a bracket for
    the probability of outright failure (in which everything may be revealed); the zCDP holds given no such failure.
    """

    xi: float
    rho: float
    sigma: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return [0, d], where d bounds the delta at `epsilon` of all uses of this object together.

        These are the uses that together are (xi, rho)-zCDP, and one Gaussian mechanism. The delta includes the
        probability `failure` of outright failure, in which everything may be revealed.
        """
        # The upper bound is the delta of the zCDP uses at epsilon - L, averaged over the privacy loss L of the
        # Gaussian. The values of L are divided into cells, and delta is read at the largest L of each cell, which gives
        # an upper bound.
        from scipy.special import ndtr

        deviation = 1.0 / self.sigma
        y = np.arange(-_REACH * _CELLS, _REACH * _CELLS + 1) / _CELLS
        loss = deviation * y + 0.5 * deviation**2
        tail = ndtr(-np.abs(y))
        # Differences of the nearer tail lose fewer digits than differences of the distribution function.
        mass = np.abs(np.diff(tail)) + 2.0 * SPECIAL * UNIT * np.maximum(tail[:-1], tail[1:])
        moved = 8.0 * UNIT * (abs(epsilon) + np.abs(loss[1:]))
        above = float((mass * self._profile(epsilon - loss[1:] - moved)).sum()) * (1.0 + 2 * y.size * UNIT)
        above += float(tail[-1]) * (1.0 + SPECIAL * UNIT)
        return either_fails(Bracket(0.0, self.failure.upper), Bracket(0.0, min(above, 1.0)))

    def _profile(self, x: Floats) -> Floats:
        """Return upper bounds on the delta of the uses other than the Gaussian mechanism, one for each epsilon in `x`.

        These uses are together (`xi`, `rho`)-zCDP. The bounds come from the conversion of zCDP to (epsilon, delta)-DP,
        at the best of several Renyi orders. Epsilons may be negative.

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

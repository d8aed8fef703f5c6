"""What one guarantee implies of another: one function per implication, each with its theorem.

Parameters are rounded so that the result is never stronger than the truth.
"""

import math
from fractions import Fraction

from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    ConcentratedDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PureDP,
    TruncatedDiscreteGaussian,
    ZeroConcentratedDP,
    check_delta,
)
from setwise.accounting.intervals import ELEMENTARY, UNIT, Bracket, probability, up
from setwise.accounting.losses.gaussian import GaussianLoss
from setwise.accounting.root_finding import epsilon_at


def log_delta(xi: float, rho: float, epsilon: float, order_less_one: float) -> float:
    """Return an upper bound on log delta from the divergence of order alpha = 1 + order_less_one."""
    a = order_less_one
    alpha = 1.0 + a
    # log(1 - 1/alpha) = log(a / (1 + a)), accurate for small and for large a
    shrink = -math.log1p(1.0 / a)
    terms = (a * xi, a * alpha * rho, -a * epsilon, -math.log1p(a), a * shrink)
    return math.fsum(terms) + sum(abs(term) for term in terms) * (ELEMENTARY + 4) * UNIT


def best_order(xi: float, rho: float, epsilon: float) -> float:
    """Return alpha - 1 at the minimum: the root of xi + (2 alpha - 1) rho - epsilon + log(1 - 1/alpha), which rises."""
    low, high = -60.0, 60.0  # of log(alpha - 1)
    for _ in range(100):
        middle = 0.5 * (low + high)
        a = math.exp(middle)
        if xi + (2 * a + 1) * rho - epsilon - math.log1p(1.0 / a) < 0.0:
            low = middle
        else:
            high = middle
    return math.exp(0.5 * (low + high))


def optimised_delta(xi: float, rho: float, epsilon: float) -> Bracket:
    """Return [0, delta] with the best delta that (xi, rho)-zCDP gives at epsilon.

    Theorem: CanonneKaSt20, AsoodehLiCaKoSa20.
    """
    if rho == 0.0 and epsilon >= xi:
        return Bracket(0.0, 0.0)
    exponent = log_delta(xi, rho, epsilon, best_order(xi, rho, epsilon))
    return Bracket(0.0, min(1.0, up(math.exp(min(exponent, 0.0)) * (1 + 2 * ELEMENTARY * UNIT))))


_SUMMED_SIGMA = 1e5
"""Up to this scale sums over integer noise are taken term by term."""


def _raised(value: float) -> float:
    """Round up by more than the few operations and elementary functions that made the value may have lost."""
    return value * (1.0 + 4 * ELEMENTARY * UNIT)


def bounded_range_to_pure(guarantee: BoundedRange) -> PureDP:
    """epsilon-BR implies epsilon-DP.

    Theorem: DurfeeRo19.
    """
    return PureDP(epsilon=guarantee.epsilon)


def pure_to_bounded_range(guarantee: PureDP) -> BoundedRange:
    """epsilon-DP implies 2 epsilon-BR.

    Theorem: DurfeeRo19.
    """
    return BoundedRange(epsilon=2.0 * guarantee.epsilon)


def laplace_to_pure(guarantee: Laplace) -> PureDP:
    """Laplace noise of scale b over the l1-sensitivity is 1/b-DP.

    Theorem: DworkMcNiSm06.
    """
    return PureDP(epsilon=up(1.0 / guarantee.scale))


def discrete_laplace_to_pure(guarantee: DiscreteLaplace) -> PureDP:
    """Integer Laplace noise of scale b on an integer of sensitivity s is s/b-DP.

    Theorem: GhoshRoSu12.
    """
    return PureDP(epsilon=up(guarantee.sensitivity / guarantee.scale))


def pure_to_approx(guarantee: PureDP) -> ApproxDP:
    """epsilon-DP is (epsilon, 0)-DP."""
    return ApproxDP(epsilon=guarantee.epsilon, delta=0.0)


def pure_to_concentrated(guarantee: PureDP) -> ConcentratedDP:
    """epsilon-DP implies (epsilon tanh(epsilon/2), epsilon)-CDP.

    Theorem: lem:subgaussBounds.
    """
    epsilon = guarantee.epsilon
    return ConcentratedDP(mu=_raised(epsilon * math.tanh(epsilon / 2)), tau=epsilon)


def bounded_range_mean(epsilon: float) -> float:
    """Return the largest mean privacy loss of an epsilon-BR mechanism: a/(e^a - 1) - 1 - log(a/(e^a - 1)).

    Theorem: lem:subgaussBounds. A series replaces the formula where it would cancel.
    """
    if epsilon < 0.25:
        square = epsilon * epsilon  # the next term of this series is below 1e-14 of the sum
        return square / 8 - square**2 / 576 + square**3 / 25920 - square**4 / 1075200 + square**5 / 43545600
    ratio = epsilon / math.expm1(epsilon)
    return ratio - 1.0 - math.log(ratio)


def bounded_range_to_concentrated(guarantee: BoundedRange) -> ConcentratedDP:
    """epsilon-BR implies (mean, epsilon/2)-CDP with the mean of `bounded_range_mean`.

    Theorem: lem:subgaussBounds.
    """
    mean = bounded_range_mean(guarantee.epsilon)
    return ConcentratedDP(mu=mean * (1 + 1e-12), tau=guarantee.epsilon / 2)


def gaussian_to_concentrated(guarantee: Gaussian) -> ConcentratedDP:
    """Gaussian noise is (1/(2 sigma^2), 1/sigma)-CDP.

    Theorem: DworkRo16.
    """
    return ConcentratedDP(mu=_raised(0.5 / guarantee.sigma**2), tau=_raised(1.0 / guarantee.sigma))


def gaussian_to_zero_concentrated(guarantee: Gaussian) -> ZeroConcentratedDP:
    """Gaussian noise is 1/(2 sigma^2)-zCDP.

    Theorem: BunSt16.
    """
    return ZeroConcentratedDP(rho=_raised(0.5 / guarantee.sigma**2))


def discrete_gaussian_to_zero_concentrated(guarantee: DiscreteGaussian) -> ZeroConcentratedDP:
    """Integer Gaussian noise on an integer of sensitivity s is s^2/(2 sigma^2)-zCDP.

    Theorem: CanonneKaSt20.
    """
    return ZeroConcentratedDP(rho=_raised(0.5 * (guarantee.sensitivity / guarantee.sigma) ** 2))


def truncated_gaussian_to_zero_concentrated(guarantee: TruncatedDiscreteGaussian) -> ZeroConcentratedDP:
    """Truncated integer Gaussian noise is delta-approximately s^2/(2 sigma^2)-zCDP, delta the mass off the overlap.

    Theorem: algo:truncGauss, on the integers (docs/truncated-gaussian-on-the-lattice.md).
    """
    rho = _raised(0.5 * (guarantee.sensitivity / guarantee.sigma) ** 2)
    return ZeroConcentratedDP(rho=rho, delta=truncation_failure(guarantee))


def truncation_failure(guarantee: TruncatedDiscreteGaussian) -> float:
    """Return an upper bound on sum_{z=T-s+1}^{T} g(z) / sum_{z=-T}^{T} g(z), g(z) = exp(-z^2/(2 sigma^2))."""
    import numpy as np

    s, sigma, bound = guarantee.sensitivity, guarantee.sigma, guarantee.bound
    if sigma > _SUMMED_SIGMA or s > _SUMMED_SIGMA:
        # g falls from 0 on: the edge is at most s times its first term, the rest at least the integral less one term.
        edge = s * math.exp(-0.5 * ((bound - s + 1) / sigma) ** 2)
        inside = sigma * math.sqrt(2 * math.pi) * math.erf(bound / (sigma * math.sqrt(2.0))) - 1.0
        return min(edge / inside * (1 + 1e-9) if inside > 0.0 else 1.0, math.nextafter(1.0, 0.0))
    reach = min(bound, math.ceil(40 * sigma))  # beyond, g is below 1e-340: leaving it out only raises the ratio
    within = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    outside = np.exp(-0.5 * (np.arange(bound - s + 1, bound + 1) / sigma) ** 2)
    ratio = float(outside.sum()) / float(within.sum())
    exponent = 0.5 * (bound / sigma) ** 2
    value = probability(ratio, ratio * (8 * exponent + within.size + outside.size + 64) * UNIT + 5e-324).upper
    return min(value, math.nextafter(1.0, 0.0))


def concentrated_to_zero_concentrated(guarantee: ConcentratedDP) -> ZeroConcentratedDP:
    """(mu, tau)-CDP implies (mu - tau^2/2, tau^2/2)-zCDP.

    Theorem: lem:CDPtozCDP.
    """
    rho = _raised(0.5 * guarantee.tau**2)
    xi = float(Fraction(guarantee.mu) - Fraction(guarantee.tau) ** 2 / 2)
    return ZeroConcentratedDP(rho=rho, xi=max(up(xi), -rho))


def pure_to_zero_concentrated(guarantee: PureDP) -> ZeroConcentratedDP:
    """epsilon-DP implies epsilon^2/2-zCDP.

    Theorem: BunSt16.
    """
    return ZeroConcentratedDP(rho=_raised(0.5 * guarantee.epsilon**2))


def bounded_range_to_zero_concentrated(guarantee: BoundedRange) -> ZeroConcentratedDP:
    """epsilon-BR implies (mean - epsilon^2/8, epsilon^2/8)-zCDP; the first parameter is never positive.

    Theorem: lem:subgaussBounds with lem:CDPtozCDP.
    """
    converted = concentrated_to_zero_concentrated(bounded_range_to_concentrated(guarantee))
    return ZeroConcentratedDP(rho=converted.rho, xi=min(converted.xi, 0.0))


def approx_to_zero_concentrated(guarantee: ApproxDP) -> ZeroConcentratedDP:
    """(epsilon, delta)-DP implies delta-approximate epsilon^2/2-zCDP.

    Theorem: BunSt16.
    """
    return ZeroConcentratedDP(rho=_raised(0.5 * guarantee.epsilon**2), delta=guarantee.delta)


def gaussian_to_approx(guarantee: Gaussian, delta: float) -> ApproxDP:
    """Gaussian noise is (epsilon, delta)-DP for the epsilon that solves the analytic condition, exactly.

    Theorem: lem:AGM.
    """
    import numpy as np

    check_delta(delta)
    loss = GaussianLoss(guarantee.sigma)

    def curve(x: float) -> Bracket:
        value, error = loss.delta(np.array([x]))
        return probability(float(value[0]), float(error[0]))

    return ApproxDP(epsilon=epsilon_at(delta, curve).upper, delta=delta)


def zero_concentrated_to_approx_by_paper(guarantee: ZeroConcentratedDP, delta: float) -> ApproxDP:
    """(xi, rho)-zCDP implies (xi + rho + 2 sqrt(rho log(1/delta)), delta)-DP: what the figures use.

    Theorem: BunSt16; lem:zCDPgenbound with one mechanism. A failure probability adds to delta.
    """
    epsilon = guarantee.xi + guarantee.rho + 2.0 * math.sqrt(guarantee.rho * -math.log(check_delta(delta)))
    return ApproxDP(epsilon=_raised(max(epsilon, 0.0)), delta=_sum_of_failures(guarantee.delta, delta))


def zero_concentrated_to_approx(guarantee: ZeroConcentratedDP, delta: float) -> ApproxDP:
    """(xi, rho)-zCDP implies (epsilon, delta)-DP for the best epsilon over all orders alpha.

    Theorem: CanonneKaSt20, AsoodehLiCaKoSa20: never above `zero_concentrated_to_approx_by_paper`.
    """
    check_delta(delta)
    epsilon = epsilon_at(delta, lambda x: optimised_delta(guarantee.xi, guarantee.rho, x)).upper
    return ApproxDP(epsilon=epsilon, delta=_sum_of_failures(guarantee.delta, delta))


def _sum_of_failures(first: float, second: float) -> float:
    return min(up(first + second), math.nextafter(1.0, 0.0)) if first else second

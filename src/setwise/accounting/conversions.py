"""Conversions between kinds of guarantees that a caller chooses: one function per implication, each with its theorem.

What every kind implies (zCDP, CDP, its largest loss) is a method of its class in guarantees.py. Parameters are rounded
so that the result is never stronger than the truth.
"""

import math

from setwise.accounting.brackets import ELEMENTARY, UNIT, Bracket, cover_rounding, epsilon_at, probability, up
from setwise.accounting.checks import check_delta
from setwise.accounting.guarantees import ApproxDP, BoundedRange, Gaussian, PureDP, ZeroConcentratedDP


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


def gaussian_to_approx(guarantee: Gaussian, delta: float) -> ApproxDP:
    """Gaussian noise is (epsilon, delta)-DP for the epsilon that solves the analytic condition, exactly.

    Theorem: lem:AGM.
    """
    import numpy as np

    from setwise.accounting.losses.dominating_pairs import GaussianLoss

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
    return ApproxDP(epsilon=cover_rounding(max(epsilon, 0.0)), delta=_sum_of_failures(guarantee.delta, delta))


def zero_concentrated_to_approx(guarantee: ZeroConcentratedDP, delta: float) -> ApproxDP:
    """(xi, rho)-zCDP implies (epsilon, delta)-DP for the best epsilon over all orders alpha.

    Theorem: CanonneKaSt20, AsoodehLiCaKoSa20: never above `zero_concentrated_to_approx_by_paper`.
    """
    check_delta(delta)
    epsilon = epsilon_at(delta, lambda x: optimised_delta(guarantee.xi, guarantee.rho, x)).upper
    return ApproxDP(epsilon=epsilon, delta=_sum_of_failures(guarantee.delta, delta))


def _sum_of_failures(first: float, second: float) -> float:
    return min(up(first + second), math.nextafter(1.0, 0.0)) if first else second

"""Conversions from one kind of guarantee to another: one function per implication, each with its theorem.

The conversions that every kind has (to zCDP, to CDP, to its largest loss) are methods of its class in guarantees.py.
Parameters are rounded so that the result is never stronger than the truth.
"""

import math

from setwise.accounting.brackets import ELEMENTARY, UNIT, Bracket, cover_rounding, epsilon_at, probability, up
from setwise.accounting.checks import check_delta
from setwise.accounting.guarantees import ApproxDP, BoundedRange, Gaussian, PureDP, ZeroConcentratedDP


def log_delta(xi: float, rho: float, epsilon: float, order_less_one: float) -> float:
    """Return log delta, rounded up, where delta is what (xi, rho)-zCDP implies at `epsilon` from one Renyi order.

    (xi, rho)-zCDP bounds the Renyi divergence of every order alpha > 1, and each order implies a delta. The order used
    is alpha = 1 + `order_less_one`; `best_order` finds the order with the smallest delta.
    """
    a = order_less_one
    alpha = 1.0 + a
    # log(1 - 1/alpha) = log(a / (1 + a)), accurate for small and for large a
    shrink = -math.log1p(1.0 / a)
    terms = (a * xi, a * alpha * rho, -a * epsilon, -math.log1p(a), a * shrink)
    return math.fsum(terms) + sum(abs(term) for term in terms) * (ELEMENTARY + 4) * UNIT


def best_order(xi: float, rho: float, epsilon: float) -> float:
    """Return alpha - 1, where alpha is the Renyi order from which (xi, rho)-zCDP implies the smallest delta.

    The delta is taken at `epsilon`. zCDP bounds the Renyi divergence of every order alpha > 1, and each order implies a
    delta. The best one is the root of xi + (2 alpha - 1) rho - epsilon + log(1 - 1/alpha), which rises with alpha.
    """
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
    """Return the bracket [0, d], where d is the smallest delta that (xi, rho)-zCDP implies at `epsilon`.

    Every order alpha > 1 of the Renyi divergence implies a delta; d is the smallest of these, rounded up.

    Theorem: CanonneKaSt20, AsoodehLiCaKoSa20.
    """
    if rho == 0.0 and epsilon >= xi:
        return Bracket(0.0, 0.0)
    exponent = log_delta(xi, rho, epsilon, best_order(xi, rho, epsilon))
    return Bracket(0.0, min(1.0, up(math.exp(min(exponent, 0.0)) * (1 + 2 * ELEMENTARY * UNIT))))


def bounded_range_to_pure(guarantee: BoundedRange) -> PureDP:
    """Return the epsilon-DP guarantee that the epsilon-bounded-range `guarantee` implies, with the same epsilon.

    Theorem: DurfeeRo19.
    """
    return PureDP(epsilon=guarantee.epsilon)


def pure_to_bounded_range(guarantee: PureDP) -> BoundedRange:
    """Return the bounded-range guarantee that the epsilon-DP `guarantee` implies; its parameter is 2 epsilon.

    Theorem: DurfeeRo19.
    """
    return BoundedRange(epsilon=2.0 * guarantee.epsilon)


def gaussian_to_approx(guarantee: Gaussian, delta: float) -> ApproxDP:
    """Return the (epsilon, delta)-DP guarantee that the Gaussian `guarantee` implies at the given `delta`.

    The epsilon is the smallest one that holds for this noise, rounded up.

    Theorem: the analytic Gaussian mechanism (lem:AGM).
    """
    import numpy as np

    from setwise.accounting.losses.dominating_pairs import GaussianLoss

    check_delta(delta)
    loss = GaussianLoss(guarantee.sigma)

    def curve(x: float) -> Bracket:
        """Return the bracket (certified interval) for the delta that the Gaussian noise has at the epsilon `x`.

        The noise is `guarantee`, a variable of the function around this one.
        """
        value, error = loss.delta(np.array([x]))
        return probability(float(value[0]), float(error[0]))

    return ApproxDP(epsilon=epsilon_at(delta, curve).upper, delta=delta)


def zero_concentrated_to_approx_by_paper(guarantee: ZeroConcentratedDP, delta: float) -> ApproxDP:
    """Return the (epsilon, d)-DP guarantee that a simple formula derives from the (xi, rho)-zCDP `guarantee`.

    The formula is that of the figures in the paper that this package implements; `zero_concentrated_to_approx` never
    gives a larger epsilon. Here epsilon is xi + rho + 2 sqrt(rho log(1/delta)), and d is `delta` plus the probability
    that the guarantee fails outright (reveals everything).

    Theorem: BunSt16; the paper's lem:zCDPgenbound with one mechanism.
    """
    epsilon = guarantee.xi + guarantee.rho + 2.0 * math.sqrt(guarantee.rho * -math.log(check_delta(delta)))
    return ApproxDP(epsilon=cover_rounding(max(epsilon, 0.0)), delta=_sum_of_failures(guarantee.delta, delta))


def zero_concentrated_to_approx(guarantee: ZeroConcentratedDP, delta: float) -> ApproxDP:
    """Return the (epsilon, d)-DP guarantee with the smallest epsilon that the (xi, rho)-zCDP `guarantee` implies.

    d is `delta` plus the probability that the guarantee fails outright (reveals everything). Every order alpha of the
    Renyi divergence implies an epsilon at `delta`; the smallest is returned, rounded up.

    Theorem: CanonneKaSt20, AsoodehLiCaKoSa20; `zero_concentrated_to_approx_by_paper` never returns a smaller epsilon.
    """
    check_delta(delta)
    epsilon = epsilon_at(delta, lambda x: optimised_delta(guarantee.xi, guarantee.rho, x)).upper
    return ApproxDP(epsilon=epsilon, delta=_sum_of_failures(guarantee.delta, delta))


def _sum_of_failures(first: float, second: float) -> float:
    """Return the sum of the failure probabilities `first` and `second`, rounded up.

    The result is kept below 1, because a guarantee must have a failure probability below 1.
    """
    return min(up(first + second), math.nextafter(1.0, 0.0)) if first else second

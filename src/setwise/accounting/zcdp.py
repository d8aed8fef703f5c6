"""From Rényi divergences to (epsilon, delta): the conversion optimised over the order alpha.

    delta = inf over alpha > 1 of exp((alpha - 1)(xi + alpha rho - epsilon)) / alpha (1 - 1/alpha)^(alpha - 1)

Any alpha gives a valid bound, so the search needs no certificate: only the value at the alpha found is rounded up.
"""

import math

from setwise.accounting.bracket import Bracket
from setwise.accounting.rounding import ELEMENTARY, UNIT, up


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

"""How much of integer Gaussian noise truncation to {-bound, ..., bound} takes away, as upper bounds.

Write g(z) = exp(-z^2 / (2 sigma^2)). Moved by the sensitivity s, truncated noise and its neighbour overlap on
{-bound + s, ..., bound}.
"""

import math

from setwise.accounting.brackets import UNIT, probability

_SUMMED_SIGMA = 1e5
"""Up to this scale sums over integer noise are taken term by term."""


def off_the_overlap(sigma: float, bound: int, sensitivity: int) -> float:
    """Return a bound on sum_{z=T-s+1}^{T} g(z) / sum_{z=-T}^{T} g(z): what one neighbour alone reaches, T = bound."""
    import numpy as np

    if sigma > _SUMMED_SIGMA or sensitivity > _SUMMED_SIGMA:
        # g falls from 0 on: the edge is at most s times its first term, the rest at least the integral less one.
        edge = sensitivity * math.exp(-0.5 * ((bound - sensitivity + 1) / sigma) ** 2)
        inside = sigma * math.sqrt(2 * math.pi) * math.erf(bound / (sigma * math.sqrt(2.0))) - 1.0
        return min(edge / inside * (1 + 1e-9) if inside > 0.0 else 1.0, math.nextafter(1.0, 0.0))
    reach = min(bound, math.ceil(40 * sigma))  # beyond, g is below 1e-340: leaving it out only raises the ratio
    within = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    outside = np.exp(-0.5 * (np.arange(bound - sensitivity + 1, bound + 1) / sigma) ** 2)
    ratio = float(outside.sum()) / float(within.sum())
    exponent = 0.5 * (bound / sigma) ** 2
    value = probability(ratio, ratio * (8 * exponent + within.size + outside.size + 64) * UNIT + 5e-324).upper
    return min(value, math.nextafter(1.0, 0.0))


def missing_mass(sigma: float, bound: int, sensitivity: int) -> float:
    """Return a bound on the share of untruncated noise outside the overlap.

    With m = bound - sensitivity + 1, both ends hold at most exp(-m^2 / 2 sigma^2) + 2 int_m^inf exp(-x^2 / 2 sigma^2)
    dx together, and the whole at least max(1, sigma sqrt(2 pi)), by Poisson summation.
    """
    first = (bound - sensitivity + 1) / sigma
    edge = math.exp(-0.5 * first * first) / max(1.0, sigma * math.sqrt(2.0 * math.pi))
    return min(1.0, (edge + math.erfc(first * math.sqrt(0.5))) * (1.0 + 1e-9))

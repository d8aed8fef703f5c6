"""Where to truncate Gaussian noise so that the part of its law a neighbour cannot reach stays below delta."""

import math
from fractions import Fraction
from functools import lru_cache

from scipy.special import ndtr

from setwise.errors import Unattainable
from setwise.mechanisms.cut_points import weights
from setwise.mechanisms.gaussian_noise import gaussian_law
from setwise.mechanisms.laplace_noise import LARGEST_TABLE_SCALE
from setwise.mechanisms.rational import float_above

_PRECISION = 512
_SMALLEST_SHARE = 1e-60


def continuous_failure(level: float, tau: float, deviation: float) -> float:
    """Return the mass a truncated Gaussian puts where its shift by tau has none: the paper's 1 - P[E].

    It is (Phi(T/s) - Phi((T - tau)/s)) / (2 Phi(T/s) - 1) with s the standard deviation, written with the lower tails
    so that it keeps its relative accuracy when it is small.

    Theorem: eq:truncationLevel.
    """
    window = float(ndtr((tau - level) / deviation) - ndtr(-level / deviation))
    return window / (1.0 - 2.0 * float(ndtr(-level / deviation)))


def continuous_truncation_level(contributions: int, tau: float, sigma: float, delta: float) -> float:
    """Return the T that solves the paper's equation: contributions * failure(T) = delta, noise deviation tau * sigma.

    Theorem: eq:truncationLevel.

    >>> round(continuous_truncation_level(1, 1.0, 10.0, 1e-6), 6)
    46.548649
    """
    share = delta / contributions
    if not _SMALLEST_SHARE <= share < 1.0:
        raise Unattainable(f"delta / contributions must lie between {_SMALLEST_SHARE:g} and 1, not {share!r}")
    deviation = tau * sigma

    # At tau / 2 the overlap is empty and the failure is 1; beyond 38 deviations it leaves the range of floats.
    least, most = tau / 2, tau + 38.0 * deviation
    while most - least > max(1e-12 * (tau + deviation), 1e-14 * most):
        middle = (least + most) / 2
        least, most = (middle, most) if continuous_failure(middle, tau, deviation) > share else (least, middle)
    return most


@lru_cache(maxsize=64)
def truncation_level(contributions: int, tau: int, sigma: Fraction, delta: Fraction) -> int:
    """Return the smallest integer T >= tau with contributions * delta1(T) <= delta, by a certified upper bound.

    delta1(T) = sum_{z=T-tau+1}^{T} g(z) / sum_{z=-T}^{T} g(z), g(z) = exp(-z^2 / (2 tau^2 sigma^2)): the mass that
    noise restricted to {-T..T} puts where its shift by tau has none.

    Theorem: docs/truncated-gaussian-on-the-lattice.md, Proposition 1.

    >>> truncation_level(100, 5, Fraction(10), Fraction("1e-10"))
    352
    """
    deviation, share = tau * sigma, delta / contributions
    # g falls, so sums are below integrals: the continuous level, rounded up, is always enough. The margin covers
    # the floats it was computed in.
    enough = continuous_truncation_level(contributions, float(tau), float_above(sigma), float(delta) * (1.0 - 1e-9))
    most = max(tau, math.ceil(enough * (1.0 + 1e-9)))
    if deviation > LARGEST_TABLE_SCALE:
        return most
    sizes, _ = weights(gaussian_law(deviation, bound=most), _PRECISION, negligible=0)
    low_sums, high_sums = [0], [0]  # of the weights of 1..z
    for low, high in sizes[1:]:
        low_sums.append(low_sums[-1] + low)
        high_sums.append(high_sums[-1] + high)
    one = 1 << _PRECISION

    def holds(level: int) -> bool:
        # A difference of upper sums is the sum of the upper weights of the window: an upper bound.
        window = high_sums[level] - high_sums[level - tau]
        return window * share.denominator <= share.numerator * (one + 2 * low_sums[level])

    least = tau - 1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most

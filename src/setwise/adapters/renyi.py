"""The Rényi curve of a set of uses, for accountants that add up Rényi divergences."""

import math
from collections.abc import Iterable, Sequence

from setwise.accounting.guarantees import BoundedRange, Guarantee, Laplace, PureDP, Use
from setwise.errors import InvalidParameter

_ROUNDED = 1e-13
"""Charged for rounding, relative to the terms of a formula; some thirty operations lose less."""


def renyi_curve(uses: Iterable[Use], orders: Sequence[float]) -> list[float]:
    """Return upper bounds on the Rényi divergence of all uses together, one for each order above 1.

    Divergences of one order add up, adaptively and in any order (Mironov17). A curve says less than the set: an
    epsilon read from it is never below the set-wise optimum.
    """
    curve = [0.0] * len(orders)
    for use in uses:
        for i, order in enumerate(orders):
            curve[i] += use.count * renyi_divergence(use.guarantee, order)
    return [value * (1.0 + _ROUNDED) for value in curve]


def renyi_divergence(guarantee: Guarantee, order: float) -> float:
    """Return an upper bound on the Rényi divergence of one use; exact up to rounding for the kinds named below.

    Pure DP (randomized response is worst), Laplace noise, bounded range, Gaussian noise; else from the use's zCDP.
    """
    if not 1.0 < order < 1e6:
        raise InvalidParameter(f"an order must be above 1 and below 1e6, not {order!r}")
    implied = guarantee.zero_concentrated()
    if implied.delta:
        raise InvalidParameter(
            "a use that may fail outright has no Rényi divergence; leave it out of the curve, and add its failure "
            f"probability {implied.delta:g} to delta"
        )
    bound = implied.xi + order * implied.rho
    match guarantee:
        case PureDP(epsilon=epsilon):
            return min(bound, _of_pure(epsilon, order))
        case Laplace():
            return min(bound, _of_laplace(guarantee.pure().epsilon, order))
        case BoundedRange(epsilon=epsilon):
            return min(bound, _of_bounded_range(epsilon, order))
        case _:
            return bound


def _of_pure(epsilon: float, order: float) -> float:
    """Return log[cosh((a - 1/2) epsilon) / cosh(epsilon/2)] / (a - 1), that of randomized response."""
    large, small = _log_cosh((order - 0.5) * epsilon), _log_cosh(0.5 * epsilon)
    return (large - small + _ROUNDED * (large + small)) / (order - 1.0)


def _log_cosh(x: float) -> float:
    """Return log cosh x for x >= 0, without overflow, and to a relative error near 0."""
    if x < 1.0:
        return 0.5 * math.log1p(math.sinh(x) ** 2)
    return x + math.log1p(math.exp(-2.0 * x)) - math.log(2.0)


def _of_laplace(epsilon: float, order: float) -> float:
    """Return log[(a e^((a-1) epsilon) + (a-1) e^(-a epsilon)) / (2a - 1)] / (a - 1)."""
    rest = (order - 1.0) / order * math.exp(-(2.0 * order - 1.0) * epsilon)
    main = (order - 1.0) * epsilon
    share = math.log(order / (2.0 * order - 1.0))
    return (main + share + math.log1p(rest) + _ROUNDED * (1.0 + main - share)) / (order - 1.0)


def _of_bounded_range(epsilon: float, order: float) -> float:
    """Return the largest over t of the divergence of two outcomes with losses t and t - epsilon.

    With b = e^-epsilon, A = (1 - b^a)/(1 - b), B = (b - b^a)/(1 - b), the moment is s^(a-1) A - s^a B at s = e^t,
    largest at s = (a-1) A / (a B), where it is s^(a-1) A / a. Theorem: DongDuRo19.
    """
    whole = -math.expm1(-order * epsilon)
    rest = math.exp(-epsilon) * -math.expm1(-(order - 1.0) * epsilon)
    step = -math.expm1(-epsilon)
    log_s = math.log((order - 1.0) / order) + math.log(whole / rest)
    terms = abs(math.log(whole / step / order)) + (order - 1.0) * (abs(log_s) + 1.0)
    return ((order - 1.0) * log_s + math.log(whole / step / order) + _ROUNDED * terms) / (order - 1.0)

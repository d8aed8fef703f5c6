"""From neighbours that differ by one user added or removed to neighbours in which one user is replaced."""

import math
from collections.abc import Iterable
from dataclasses import replace

from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
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
from setwise.errors import InvalidParameter

_ROUNDED = 1e-15
"""Relative: more than a few operations on floats may lose."""


def replace_one(uses: Iterable[Use]) -> tuple[Use, ...]:
    """Return the uses as they hold when one user is replaced by another: removed, then the other added.

    >>> from setwise import Gaussian, PureDP, Use
    >>> replace_one([Use(PureDP(epsilon=0.1), 5), Use(Gaussian(sigma=20))])
    (Use(guarantee=PureDP(epsilon=0.2), count=5), Use(guarantee=Gaussian(sigma=10.0), count=1))
    """
    return tuple(Use(replaced(use.guarantee), use.count) for use in uses)


def replaced(guarantee: Guarantee) -> Guarantee:
    """Return what one use satisfies when one user is replaced by another.

    Losses of the two steps add: parameters of pure DP and bounded range double, sensitivities double. A mechanism
    whose own sensitivity under replacement is known to be smaller (a histogram in which each user has one cell: its
    l2-sensitivity grows by sqrt 2, not 2) should be described by that instead.
    """
    match guarantee:
        case PureDP(epsilon=epsilon):
            return PureDP(epsilon=2.0 * epsilon)
        case BoundedRange(epsilon=epsilon):
            return BoundedRange(epsilon=2.0 * epsilon)
        case Laplace(scale=scale):
            return Laplace(scale=scale / 2.0)
        case Gaussian(sigma=sigma):
            return Gaussian(sigma=sigma / 2.0)
        case DiscreteLaplace() | DiscreteGaussian() | TruncatedDiscreteGaussian():
            return replace(guarantee, sensitivity=2 * guarantee.sensitivity)
        case ApproxDP(epsilon=epsilon, delta=delta):
            # P <= e^epsilon R + delta and R <= e^epsilon Q + delta
            return ApproxDP(epsilon=2.0 * epsilon, delta=delta * (1.0 + math.exp(epsilon)) * (1.0 + 4 * _ROUNDED))
        case _:
            return _replaced_zcdp(guarantee.zero_concentrated())


def _replaced_zcdp(zcdp: ZeroConcentratedDP) -> ZeroConcentratedDP:
    """(xi, rho)-zCDP is (3 xi, 4 rho)-zCDP under replacement, (2 xi, 4 rho) for negative xi.

    Theorem: BunSt16 (group privacy for two): D_a(P|Q) <= 2a/(2a-1) D_(2a-1)(P|R) + D_2a(R|Q).
    """
    if zcdp.delta:
        raise InvalidParameter(
            "zCDP with a failure probability is not known to hold under replacement; state the mechanism's own"
        )
    return ZeroConcentratedDP(rho=4.0 * zcdp.rho, xi=(3.0 if zcdp.xi > 0.0 else 2.0) * zcdp.xi)

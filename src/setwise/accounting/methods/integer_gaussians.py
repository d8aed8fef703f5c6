"""Many integer Gaussian mechanisms with different noise, bounded by one Gaussian mechanism from above and from below.

From above they are priced (docs/optimal-composition.md, Theorem 11 and the Gaussian majorant). From below, adding
Gaussian noise of variance tau^2 to an answer post-processes it, and makes integer Gaussian noise of parameter sigma
nearly Gaussian noise of variance sigma^2 + tau^2 (the same page, "Integer Gaussians from below").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from setwise.accounting.guarantees import DiscreteGaussian, Gaussian

_RIPPLE = 1e-5
"""Sum of the logarithms by which likelihood ratios may be off after noise was added: it moves delta by about that."""


@dataclass(frozen=True, slots=True)
class GaussiansBelow:
    """Gaussian mechanisms below integer ones, and by how much.

    At every x the integer ones have at least exp(-ripple) times the delta that the Gaussian ones have at x + ripple.
    """

    gaussians: tuple[tuple[Gaussian, int], ...]
    ripple: float


def gaussians_below(uses: Sequence[tuple[DiscreteGaussian, int]]) -> GaussiansBelow:
    """Return Gaussian mechanisms below the integer ones, which are left out where their noise is too small.

    With r = 2 sum_{j >= 1} exp(-2 pi^2 v j^2) and v = sigma^2 tau^2 / (sigma^2 + tau^2), the density of integer
    Gaussian noise with N(0, tau^2) added is that of N(0, sigma^2 + tau^2) times a factor from 1 - r to 1 + r, over a
    constant. So tau^2 follows from the r that is allowed.

    Theorem: docs/optimal-composition.md, "Integer Gaussians from below".
    """
    count = sum(number for _, number in uses)
    allowed = _RIPPLE / (2.0 * count)
    variance = math.log(2.2 / allowed) / (2.0 * math.pi**2)  # 2 e^-x / (1 - e^-3x) <= 2.2 e^-x for x >= 1
    kept = [(each, number) for each, number in uses if each.sigma**2 > 2.0 * variance]
    gaussians = []
    for each, number in kept:
        square = each.sigma**2 / (1.0 - variance / each.sigma**2)  # sigma^2 + tau^2
        gaussians.append((Gaussian(sigma=math.sqrt(square) / each.sensitivity * (1.0 + 1e-12)), number))
    return GaussiansBelow(tuple(gaussians), 2.0 * count * allowed * (1.0 + 1e-3))

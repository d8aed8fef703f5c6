"""Gaussian mechanisms that bound many integer Gaussian mechanisms with different noise, from above and from below.

For an upper bound on delta, one Gaussian mechanism replaces all integer Gaussian mechanisms. The mu squared of a
Gaussian is (sensitivity / sigma)^2. Each integer mechanism has a price in mu squared, and the Gaussian has the sum of
the prices as its mu squared (docs/optimal-composition.md, Theorem 11 and the Gaussian majorant).

For a lower bound on delta, Gaussian noise of variance tau^2 is added to each answer. This is post-processing, and it
turns integer Gaussian noise of parameter sigma into nearly Gaussian noise of variance sigma^2 + tau^2 (the same page,
"Integer Gaussians from below").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from setwise.accounting.guarantees import DiscreteGaussian, Gaussian

_RIPPLE = 1e-5
"""Allowed sum, over all uses, of the errors of log likelihood ratios after noise was added. It moves delta by about
that relative amount."""


@dataclass(frozen=True, slots=True)
class GaussiansBelow:
    """Gaussian mechanisms that give a lower bound on the delta of some integer Gaussian mechanisms.

    `gaussians` are pairs (Gaussian, count). Together the Gaussians have some delta d at the overall epsilon x +
    `ripple`. The integer mechanisms then have a delta of at least exp(-`ripple`) d at x. `ripple`, about 1e-5, covers
    the small difference between integer and continuous noise.
    """

    gaussians: tuple[tuple[Gaussian, int], ...]
    ripple: float


def gaussians_below(uses: Sequence[tuple[DiscreteGaussian, int]]) -> GaussiansBelow:
    """Return Gaussian mechanisms that give a lower bound on the delta of the integer Gaussian `uses`.

    `uses` are pairs (noise, count). Uses with so little noise that rounding to integers matters are left out, which can
    only lower delta.

    Theorem: docs/optimal-composition.md, "Integer Gaussians from below".
    """
    # Integer Gaussian noise of parameter sigma plus continuous noise N(0, tau^2) has the density of N(0, sigma^2 +
    # tau^2) times a factor between 1 - r and 1 + r, divided by a constant. Here r = 2 sum_{j >= 1} exp(-2 pi^2 v j^2)
    # and v = sigma^2 tau^2 / (sigma^2 + tau^2). So the allowed r determines tau^2, and the Gaussian has the variance
    # sigma^2 + tau^2.
    count = sum(number for _, number in uses)
    allowed = _RIPPLE / (2.0 * count)
    variance = math.log(2.2 / allowed) / (2.0 * math.pi**2)  # 2 e^-x / (1 - e^-3x) <= 2.2 e^-x for x >= 1
    smooth = [(noise, number) for noise, number in uses if noise.sigma**2 > 2.0 * variance]
    gaussians = []
    for noise, number in smooth:
        square = noise.sigma**2 / (1.0 - variance / noise.sigma**2)  # sigma^2 + tau^2
        gaussians.append((Gaussian(sigma=math.sqrt(square) / noise.sensitivity * (1.0 + 1e-12)), number))
    return GaussiansBelow(tuple(gaussians), 2.0 * count * allowed * (1.0 + 1e-3))

"""The Gaussian mechanism: its exact privacy loss, which k uses share with one use of smaller sigma.

    delta(x) = Phi(1/(2 sigma) - x sigma) - exp(x) Phi(-1/(2 sigma) - x sigma)          (lem:AGM)

is a difference that cancels when sigma is large or delta small. Both terms share the factor exp(-s^2)/2 when
written with erfcx, and the rest is the integral of a positive kernel, so relative accuracy is kept.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import ELEMENTARY, SPECIAL, UNIT

Floats = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def _kernel(y: Floats) -> Floats:
    """Return -(d/dy) erfcx(y) = 2/sqrt(pi) - 2 y erfcx(y), positive."""
    from scipy.special import erfcx

    return np.asarray(2.0 / math.sqrt(math.pi) - 2.0 * y * erfcx(y), dtype=np.float64)


def _positive_side(x: Floats, sigma: float) -> tuple[Floats, Floats]:
    """Return delta and its absolute error for x >= 0."""
    from scipy.special import erfc, erfcx

    distance = 1.0 / (sigma * math.sqrt(2.0))
    start = (x * sigma - 0.5 / sigma) / math.sqrt(2.0)
    if distance < 0.5:
        middle, half = start + distance / 2, distance / 2
        points = middle[:, None] + half * _NODES[None, :]
        difference = half * (_kernel(points) * _WEIGHTS).sum(axis=1)
        # The kernel itself cancels by a factor of about 1 + 2 y^2. The kernel is (4/sqrt(pi)) times the integral of
        # t exp(-t^2 - 2 y t), so the error term of the 8-point rule is below 5e-14 distance^17 of the value: nothing.
        relative = (SPECIAL * (2.0 + 2.0 * np.maximum(start, 0.0) ** 2) + 64) * UNIT
        value = 0.5 * np.exp(-(start**2)) * difference
    else:
        # erfcx overflows far to the left, where Phi itself is close to 1 and nothing cancels.
        ahead = np.maximum(start, -1.0)
        from_start = erfcx(ahead)
        difference = np.where(start < -1.0, 1.0, from_start - erfcx(ahead + distance))
        far_left = 0.5 * erfc(start) - 0.5 * np.exp(-(start**2)) * erfcx(np.maximum(start + distance, 0.0))
        value = np.where(start < -1.0, far_left, 0.5 * np.exp(-(start**2)) * difference)
        relative = SPECIAL * UNIT * (3.0 + 2.0 * from_start / np.maximum(difference, 1e-300))
    # start carries an error of a few units of its larger part (sigma itself may have been rounded when it was merged),
    # which the exponential magnifies by 2 |start|.
    parts = x * sigma + 0.5 / sigma
    magnified = np.where(start < -1.0, 1.0, 2 * np.abs(start) + 2)
    relative = relative + magnified * 16 * UNIT * parts + (np.minimum(start, 1e3) ** 2 + ELEMENTARY) * UNIT
    return value, value * relative + 1e-300


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """The privacy loss of Gaussian noise of standard deviation `sigma` over the l2-sensitivity."""

    sigma: float

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return delta at each x and the absolute error of each.

        Theorem: lem:AGM; negative x by the symmetry delta(-x) = 1 - exp(-x) + exp(-x) delta(x).
        """
        size = np.abs(x)
        value, error = _positive_side(size, self.sigma)
        negative = x < 0
        if negative.any():
            scale = np.exp(-size)
            value = np.where(negative, -np.expm1(-size) + scale * value, value)
            error = np.where(negative, scale * error + (2 * ELEMENTARY + 4) * UNIT * value, error)
        return value, error

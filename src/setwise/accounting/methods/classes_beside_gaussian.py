"""Classes without a dominating pair beside Gaussian noise: the class by its moments, the Gaussian exactly.

Whatever the adaptive order, the profile of the whole is at most the average of the classes' own profile over the loss
of the Gaussians (docs/optimal-composition.md, "Classes beside linear mechanisms").
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import ELEMENTARY, SPECIAL, UNIT, Bracket, either_fails

Floats = NDArray[np.float64]

_REACH = 12.0
"""Standard deviations of the Gaussian's loss that are cut into cells; what lies beyond counts as revealed."""

_CELLS = 800
"""Cells to a standard deviation."""

_ORDERS = np.concatenate(([0.05, 0.2, 0.4], np.linspace(0.6, 1.6, 31), [2.0, 3.0]))
"""Orders that are tried, over the one that is best where delta is tiny. Every order gives a bound."""


@dataclass(frozen=True, slots=True)
class ClassesBesideGaussian:
    """Uses that are (xi, rho)-zCDP together, beside Gaussian noise of deviation sigma, outside of `failure`."""

    xi: float
    rho: float
    sigma: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return [0, delta]. A profile falls, so on each cell of the Gaussian's loss it is read at the right end."""
        from scipy.special import ndtr

        deviation = 1.0 / self.sigma
        y = np.arange(-_REACH * _CELLS, _REACH * _CELLS + 1) / _CELLS
        loss = deviation * y + 0.5 * deviation**2
        tail = ndtr(-np.abs(y))
        # Differences of the nearer tail: no more cancels than what neighbouring values share.
        mass = np.abs(np.diff(tail)) + 2.0 * SPECIAL * UNIT * np.maximum(tail[:-1], tail[1:])
        moved = 8.0 * UNIT * (abs(epsilon) + np.abs(loss[1:]))
        above = float((mass * self._profile(epsilon - loss[1:] - moved)).sum()) * (1.0 + 2 * y.size * UNIT)
        above += float(tail[-1]) * (1.0 + SPECIAL * UNIT)
        return either_fails(Bracket(0.0, self.failure.upper), Bracket(0.0, min(above, 1.0)))

    def _profile(self, x: Floats) -> Floats:
        """Return an upper bound of the classes' profile at any x, by the conversion of zCDP at the best order tried.

        Theorem: CanonneKaSt20; Lemma 1(d) of docs/optimal-composition.md for x < 0.
        """
        size = np.abs(x)
        best = np.ones_like(size)
        usual = np.maximum((size - self.xi + self.rho) / (2.0 * self.rho), 1.0)
        for share in _ORDERS:
            order = 1.0 + share * usual
            terms = (
                (order - 1.0) * self.xi,
                (order - 1.0) * order * self.rho,
                (1.0 - order) * size,
                -np.log(order - 1.0),
                order * np.log1p(-1.0 / order),
            )
            exponent = sum(terms) + 4.0 * ELEMENTARY * UNIT * sum(np.abs(term) for term in terms)
            np.minimum(best, np.exp(np.minimum(exponent, 0.0)) * (1.0 + 2 * ELEMENTARY * UNIT), out=best)
        mirrored = -np.expm1(-size) + np.exp(-size) * best
        return np.minimum(np.where(x < 0.0, mirrored * (1.0 + 4 * ELEMENTARY * UNIT), best), 1.0)

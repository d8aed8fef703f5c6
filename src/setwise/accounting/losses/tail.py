"""The delta of a privacy loss that lives on a lattice, at any epsilon, without cancellation.

With losses top - step i of mass p_i, delta(x) = sum over losses above x of p_i (1 - exp(x - loss_i)). With

    E_a = sum_{i<=a} p_i exp(-step (a - i))   and   D_a = (1 - exp(-step)) sum_{b<a} E_b,

delta at any x is D_a + (1 - exp(-phi)) E_a, where a is the last index above x and phi its distance from x: two
look-ups of non-negative numbers, so relative accuracy survives however small delta is.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.intervals import UNIT

Floats = NDArray[np.float64]


def _decayed_sums(mass: Floats, step: float) -> Floats:
    """Return E_a = sum_{i<=a} mass_i exp(-step (a - i)), scanned in blocks short enough for exp not to overflow."""
    block = min(mass.size, max(1, int(300.0 / step)))
    sums = np.empty_like(mass)
    growth = np.exp(step * np.arange(block))
    carried = 0.0
    for start in range(0, mass.size, block):
        part = mass[start : start + block]
        up = growth[: part.size]
        sums[start : start + block] = (np.cumsum(part * up) + carried * math.exp(-step)) / up
        carried = float(sums[start + part.size - 1])
    return sums


@dataclass(frozen=True, slots=True)
class LatticeTail:
    """Masses at top, top - step, ..., each within `relative_error`; masses left out sum to at most `dropped`."""

    top: float
    step: float
    mass: Floats
    relative_error: float
    dropped: float
    decayed: Floats
    base: Floats

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return delta at each x and the absolute error of each."""
        last = self.mass.size - 1
        index = np.ceil((self.top - x) / self.step) - 1.0
        at = np.clip(index, 0, last).astype(np.int64)
        distance = np.maximum(self.top - self.step * at - x, 0.0)
        decayed = self.decayed[at]
        value = np.where(index >= 0, self.base[at] - np.expm1(-distance) * decayed, 0.0)
        slack = 8 * UNIT * (abs(self.top) + self.step * last + np.abs(x))  # how far rounding may move the distance
        clear = self.top - x < -slack  # x lies above every loss, whatever the rounding
        misplaced = np.where(clear, 0.0, decayed * slack)
        exponents = 2.0 * min(300.0, self.step * last)  # of the growth that the tables divide by
        error = value * (self.relative_error + (3 * last + exponents + 64) * UNIT) + misplaced + self.dropped
        return value, error


def lattice_tail(top: float, step: float, mass: Floats, relative_error: float, dropped: float) -> LatticeTail:
    """Return the tables for masses at top, top - step, and so on."""
    decayed = _decayed_sums(mass, step)
    base = np.empty_like(decayed)
    base[0] = 0.0
    np.cumsum(decayed[:-1], out=base[1:])
    base *= -math.expm1(-step)
    return LatticeTail(top, step, mass, relative_error, dropped, decayed, base)

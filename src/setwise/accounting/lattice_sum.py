"""The composition of mechanisms with known noise, discretised, from above and from below."""

import math
from dataclasses import dataclass, replace

import numpy as np

from setwise.accounting.atoms import Atoms
from setwise.accounting.bracket import Bracket
from setwise.accounting.convolution import sums, window
from setwise.accounting.dominating import Known, loss_unit, on_lattice, spread, tabulated
from setwise.accounting.grid import common_step, common_unit
from setwise.accounting.guarantees import Gaussian
from setwise.accounting.inverse import epsilon_at
from setwise.accounting.rounding import probability, unite
from setwise.accounting.saddle import Part, Saddle
from setwise.accounting.tail import LatticeTail, lattice_tail
from setwise.errors import Unattainable

_TOLERANCE = 2e-8
"""How much of the variance of the total loss the discretisation may add; the square of the step sets it."""

_LOWER_COARSER = 2.0
"""The lower bound makes do with a lattice coarser by this factor: it promises nothing."""


@dataclass(frozen=True, slots=True)
class LatticeSum:
    """Mechanisms with known noise, and how often each is used; `failure` is the chance of losing everything."""

    uses: tuple[tuple[Known, int], ...]
    failure: Bracket
    tolerance: float = _TOLERANCE

    def delta(self, epsilon: float) -> Bracket:
        """Return the optimal delta at epsilon."""
        saddle = self.saddle()
        upper, lower = self.tails(saddle, saddle.for_loss(epsilon))
        return self._at(upper, lower, epsilon)

    def epsilon(self, delta: float) -> Bracket:
        """Return the smallest epsilon whose delta is at most `delta`."""
        saddle = self.saddle()
        target = delta - self.failure.upper
        if target <= 0.0:
            raise Unattainable(
                f"delta = {delta!r} is not above {self.failure.upper:.3g}, the chance of outright failure"
            )
        tilt = saddle.for_delta(target)
        upper, lower = self.tails(saddle, tilt)
        return epsilon_at(delta, lambda x: self._at(upper, lower, x), guess=max(saddle.at(tilt)[1], 1e-6))

    def _at(self, upper: LatticeTail, lower: LatticeTail, epsilon: float) -> Bracket:
        x = np.array([epsilon])
        (high,), (high_error,) = upper.delta(x)
        (low,), (low_error,) = lower.delta(x)
        above = probability(float(high), float(high_error)).upper
        below = probability(float(low), float(low_error)).lower
        return unite(self.failure, Bracket(min(below, above), above))

    def tails(self, saddle: Saddle, tilt: float) -> tuple[LatticeTail, LatticeTail]:
        """Return the tail of the total loss from above and from below."""
        upper, lower = self.atoms(saddle, tilt)
        return _tail_of(upper, self.step()), _tail_of(lower, self.step(_LOWER_COARSER))

    def atoms(self, saddle: Saddle, tilt: float) -> tuple[Atoms, Atoms]:
        """Return the atoms of the total loss from above and from below, most accurate where `tilt` points.

        Losses of a Gaussian too large to be tabulated are added to what the upper atoms leave out.
        """
        view = window(saddle, tilt)
        fine, coarse = self.step(), self.step(_LOWER_COARSER)
        above = [(tabulated(known, fine, self._reach(known, tilt)).upper, count) for known, count in self.uses]
        below = [(tabulated(known, coarse, self._reach(known, tilt)).lower, count) for known, count in self.uses]
        upper = sums([Part(lattice, count) for lattice, count in above], view, from_above=True)
        lower = sums([Part(lattice, count) for lattice, count in below], view, from_above=False)
        lost = sum(count * lattice.infinite for lattice, count in above)
        return replace(upper, dropped=upper.dropped + lost), lower

    def saddle(self) -> Saddle:
        """Return a coarse version of the uses, for choosing where to look."""
        return Saddle(
            tuple(
                Part(tabulated(known, math.sqrt(spread(known)[0]) / 12, 40.0).upper, count)
                for known, count in self.uses
            )
        )

    def step(self, coarser: float = 1.0) -> float:
        """Return the step: fine enough for the tolerance, and such that parameters fall on it where one step can.

        Where none can, every loss counts as lying between lattice points, and the lower lattice is made finer, not
        coarser: rounding single losses down costs in proportion to the step.
        """
        variance = math.fsum(count * spread(known)[0] for known, count in self.uses)
        between = math.fsum(count * spread(known)[1] for known, count in self.uses)
        largest = math.sqrt(6.0 * self.tolerance * variance / between) if between else math.inf
        units = sorted({loss_unit(known) for known, _ in self.uses if on_lattice(known, largest)})
        unit = common_unit(units) if units else math.inf
        if unit is None or unit < 0.01 * largest < math.inf:
            every = math.fsum(count for _, count in self.uses)
            largest = math.sqrt(6.0 * self.tolerance * variance / every)
            return largest / 4.0 if coarser > 1.0 else largest
        return common_step(units, coarser * largest)

    def _reach(self, known: Known, tilt: float) -> float:
        """Return how many standard deviations of a Gaussian matter under the tilt."""
        match known:
            case Gaussian(sigma=sigma):
                return min(40.0, abs(tilt) / sigma + 12.0)
            case _:
                return 40.0


def _tail_of(atoms: Atoms, step: float) -> LatticeTail:
    """Return the tail of atoms in ascending order on a lattice."""
    return lattice_tail(float(atoms.loss[-1]), step, atoms.mass[::-1].copy(), atoms.relative_error, atoms.dropped)

"""The composition of mechanisms with known noise, discretised, from above and from below."""

import math
from dataclasses import dataclass, replace

import numpy as np

from setwise.accounting.brackets import Bracket, either_fails, epsilon_at, probability
from setwise.accounting.guarantees import Gaussian, Laplace, largest_loss
from setwise.accounting.losses import fft
from setwise.accounting.losses.dominating_pairs import KnownNoise, loss_unit, on_lattice, spread, tabulated
from setwise.accounting.losses.fft import Window, sums, window
from setwise.accounting.losses.lattice import Atoms, LatticeTail, common_step, common_unit, lattice_tail
from setwise.accounting.losses.tilting import Part, Saddle, coarse_saddle
from setwise.errors import Unattainable


@dataclass(frozen=True, slots=True)
class Tuning:
    """How fine a lattice is. A tolerance is the share of the variance of the total loss that the lattice adds."""

    tolerance: float = 4e-8
    """Aimed for when no width is asked for; the step is in proportion to its square root."""
    finest: float = 1e-13
    """Tolerance below which finer lattices are not tried: rounding outweighs them."""
    coarsest: float = 1e-2
    """Tolerance beyond which a lattice says too little."""
    finer: float = 16.0
    """Times smaller a tolerance is tried when a width is not reached: the width falls about in proportion."""
    coarser: float = 4.0
    """Times larger a tolerance is tried when the losses in the window are too many: half as many."""
    most_losses: float = fft.TUNING.largest_transform / 2
    """Losses in the window beyond which a coarser lattice is taken."""
    lower_coarser: float = 2.0
    """Step of the lattice from below over that from above: the lower end promises nothing."""
    least_unit: float = 0.2
    """Share of the step of a lattice without a common unit below which that unit is no use: too many losses."""
    loose: float = 1e-4
    """Relative width beyond which the window was probably in the wrong place."""
    misplaced: float = 0.1
    """Relative change of the tilt that then makes a second look worth its time."""
    farthest: float = 40.0
    """Standard deviations of a Gaussian that are tabulated at most: beyond, probabilities leave the range of floats."""
    beyond_tilt: float = 12.0
    """Standard deviations tabulated beyond the mean under the tilt; what is further out is charged."""


TUNING = Tuning()


@dataclass(frozen=True, slots=True)
class LatticeSum:
    """Mechanisms with known noise, and how often each is used; `failure` is the chance of losing everything.

    The step divides `grid` or is a multiple of it, if that is given and no loss has to be a multiple of the step.
    """

    uses: tuple[tuple[KnownNoise, int], ...]
    failure: Bracket
    tolerance: float = TUNING.tolerance
    grid: float | None = None

    @property
    def support(self) -> float:
        """The largest loss: from there on only failures count."""
        return largest_loss(self.uses)

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return the optimal delta at epsilon, on finer lattices until a relative `width` is reached."""
        if epsilon >= self.support:
            return self.failure
        saddle = coarse_saddle(self.uses)
        upper, lower = self.tails(saddle, max(0.0, saddle.for_loss(epsilon)))
        found = self._at(upper, lower, epsilon)
        if width is None or found.relative_width <= width:
            return found
        return self._finer().delta(epsilon, width)

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return the smallest epsilon whose delta is at most `delta`, on finer lattices until a `width` is reached."""
        saddle = coarse_saddle(self.uses)
        target = delta - self.failure.upper
        if target <= 0.0:
            raise Unattainable(
                f"delta = {delta!r} is not above {self.failure.upper:.3g}, the chance of outright failure"
            )
        tilt = saddle.for_delta(target)
        found = self._epsilon_near(delta, saddle, tilt)
        there = max(0.0, saddle.for_loss(found.upper)) if found.relative_width > TUNING.loose else tilt
        if (
            abs(there - tilt) > TUNING.misplaced * tilt
        ):  # few uses, near their largest loss: look again where the answer is
            again = self._epsilon_near(delta, saddle, there)
            found = Bracket(max(found.lower, again.lower), min(found.upper, again.upper))
        found = Bracket(min(found.lower, self.support), min(found.upper, self.support))
        if width is None or found.relative_width <= width:
            return found
        return self._finer().epsilon(delta, width)

    def _epsilon_near(self, delta: float, saddle: Saddle, tilt: float) -> Bracket:
        upper, lower = self.tails(saddle, tilt)
        return epsilon_at(delta, lambda x: self._at(upper, lower, x), guess=max(saddle.at(tilt)[1], 1e-6))

    def _finer(self) -> "LatticeSum":
        if self.tolerance < TUNING.finest:
            raise Unattainable("the width asked for is below what rounding allows for these uses; ask for a wider one")
        return replace(self, tolerance=self.tolerance / TUNING.finer)

    def _at(self, upper: LatticeTail, lower: LatticeTail, epsilon: float) -> Bracket:
        x = np.array([epsilon])
        (high,), (high_error,) = upper.delta(x)
        (low,), (low_error,) = lower.delta(x)
        above = probability(float(high), float(high_error)).upper
        below = probability(float(low), float(low_error)).lower
        return either_fails(self.failure, Bracket(min(below, above), above))

    def tails(self, saddle: Saddle, tilt: float, *, whole: bool = False) -> tuple[LatticeTail, LatticeTail]:
        """Return the tail of the total loss from above and from below; `whole` as in `atoms`."""
        view = window(saddle, tilt, whole=whole)
        fitting = self._fitting(view)
        upper, lower = fitting._seen(view)
        return _tail_of(upper, fitting.step()), _tail_of(lower, fitting.step(TUNING.lower_coarser))

    def _fitting(self, view: Window) -> "LatticeSum":
        """Return the finest version, no finer than this one, whose losses in the window a transform can hold."""
        fitting = self
        while min(fitting.step(), fitting.step(TUNING.lower_coarser)) * TUNING.most_losses < view.right - view.left:
            if fitting.tolerance > TUNING.coarsest:
                raise Unattainable("the losses of these uses spread too far to be tabulated together")
            fitting = replace(fitting, tolerance=TUNING.coarser * fitting.tolerance)
        return fitting

    def atoms(self, saddle: Saddle, tilt: float, *, whole: bool) -> tuple[Atoms, Atoms]:
        """Return the atoms of the total loss from above and from below, most accurate where `tilt` points.

        Losses of a Gaussian too large to be tabulated are added to what the upper atoms leave out. With `whole` the
        atoms serve to average any falling profile, else only to read tails from about the mean under the tilt on.
        """
        view = window(saddle, tilt, whole=whole)
        return self._fitting(view)._seen(view)

    def _seen(self, view: Window) -> tuple[Atoms, Atoms]:
        """Return the atoms in the window, from above and from below."""
        fine, coarse = self.step(), self.step(TUNING.lower_coarser)
        reaches = [self._reach(known, view.tilts[0]) for known, _ in self.uses]
        counted = list(zip(self.uses, reaches, strict=True))
        above = [(tabulated(known, fine, reach).upper, count) for (known, count), reach in counted]
        below = [(tabulated(known, coarse, reach).lower, count) for (known, count), reach in counted]
        upper = sums([Part(lattice, count) for lattice, count in above], view, from_above=True)
        lower = sums([Part(lattice, count) for lattice, count in below], view, from_above=False)
        lost = sum(count * lattice.infinite for lattice, count in above)
        return replace(upper, dropped=upper.dropped + lost), lower

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
        # Losses of integer noise that fall on the lattice do not lie between its points.
        between = math.fsum(
            count * spread(known)[1]
            for known, count in self.uses
            if isinstance(known, Laplace) or not on_lattice(known, largest)
        )
        on_units = math.sqrt(6.0 * self.tolerance * variance / between) if between else math.inf
        anywhere = math.sqrt(6.0 * self.tolerance * variance / math.fsum(count for _, count in self.uses))
        if unit is None or unit < TUNING.least_unit * min(largest, anywhere):
            return anywhere / 4.0 if coarser > 1.0 else anywhere
        if self.grid is not None and not units:
            steps = coarser * largest / self.grid
            return self.grid * math.floor(steps) if steps >= 1.0 else self.grid / math.ceil(1.0 / steps)
        return common_step(units, coarser * on_units)

    def _reach(self, known: KnownNoise, tilt: float) -> float:
        """Return how many standard deviations of a Gaussian matter under the tilt."""
        match known:
            case Gaussian(sigma=sigma):
                return min(TUNING.farthest, abs(tilt) / sigma + TUNING.beyond_tilt)
            case _:
                return TUNING.farthest


def _tail_of(atoms: Atoms, step: float) -> LatticeTail:
    """Return the tail of atoms in ascending order on a lattice."""
    return lattice_tail(float(atoms.loss[-1]), step, atoms.mass[::-1].copy(), atoms.relative_error, atoms.dropped)

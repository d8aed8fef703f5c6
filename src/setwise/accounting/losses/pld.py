"""The composition of mechanisms with known noise, discretised, from above and from below."""

import math
from dataclasses import dataclass, replace

import numpy as np

from setwise.accounting.brackets import Bracket, either_fails, epsilon_at, probability
from setwise.accounting.guarantees import Gaussian, Laplace, largest_loss
from setwise.accounting.losses import fft
from setwise.accounting.losses.dominating_pairs import (
    KnownNoise,
    TwoPointLaw,
    enumerated,
    loss_unit,
    on_lattice,
    spread,
    tabulated,
)
from setwise.accounting.losses.fft import Window, sums, window
from setwise.accounting.losses.lattice import (
    Atoms,
    LatticeTail,
    common_step,
    common_unit,
    from_atoms,
    lattice_tail,
)
from setwise.accounting.losses.tilting import Part, Saddle, coarse_saddle
from setwise.errors import Unattainable


@dataclass(frozen=True, slots=True)
class LatticeConfig:
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
    most_losses: float = fft.CONFIG.largest_transform / 2
    """Losses in the window beyond which a coarser lattice is taken."""
    off_lattice: float = 10.0
    """Factor on the tolerance where no lattice holds all losses and each kind of use is rounded to it only once."""
    lower_finer: float = 4.0
    """Step of the lattice from above over that from below there: rounding down costs in proportion to the step."""
    most_added_up: int = 4096
    """Losses of equal uses up to which these are added up exactly before they are rounded to a lattice."""
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


CONFIG = LatticeConfig()


@dataclass(frozen=True, slots=True)
class LatticeSum:
    """Mechanisms with known noise, and how often each is used; `failure` is the chance of losing everything.

    The step divides `grid` or is a multiple of it, if that is given and no loss has to be a multiple of the step.
    """

    uses: tuple[tuple[KnownNoise, int], ...]
    failure: Bracket
    tolerance: float = CONFIG.tolerance
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
        there = max(0.0, saddle.for_loss(found.upper)) if found.relative_width > CONFIG.loose else tilt
        if (
            abs(there - tilt) > CONFIG.misplaced * tilt
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
        if self.tolerance < CONFIG.finest:
            raise Unattainable("the width asked for is below what rounding allows for these uses; ask for a wider one")
        return replace(self, tolerance=self.tolerance / CONFIG.finer)

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
        return _tail_of(upper, fitting.step()), _tail_of(lower, fitting.step(CONFIG.lower_coarser))

    def _fitting(self, view: Window) -> "LatticeSum":
        """Return the finest version, no finer than this one, whose losses in the window a transform can hold."""
        fitting = self
        while min(fitting.step(), fitting.step(CONFIG.lower_coarser)) * CONFIG.most_losses < view.right - view.left:
            if fitting.tolerance > CONFIG.coarsest:
                raise Unattainable("the losses of these uses spread too far to be tabulated together")
            fitting = replace(fitting, tolerance=CONFIG.coarser * fitting.tolerance)
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
        fine, coarse = self.step(), self.step(CONFIG.lower_coarser)
        above, below = self._parts(fine, view, from_above=True), self._parts(coarse, view, from_above=False)
        upper, lower = sums(above, view, from_above=True), sums(below, view, from_above=False)
        lost = sum(part.count * part.lattice.infinite for part in above)
        return replace(upper, dropped=upper.dropped + lost), lower

    def _parts(self, step: float, view: Window, *, from_above: bool) -> list[Part]:
        """Return the losses on the lattice, one part for each kind of use.

        Where no lattice holds all losses, equal uses are added up before their losses are rounded to it: rounding
        then costs once for each kind of use, not once for each use.
        """
        parts = []
        for known, count in self.uses:
            added = None if self._common_unit() is not None else enumerated([(known, count)], CONFIG.most_added_up)
            if added is None or count == 1:
                pair, number = tabulated(known, step, self._reach(known, view.tilts[0])), count
            else:
                pair, number = from_atoms(step, added.loss, added.mass, added.dropped, added.relative_error), 1
            parts.append(Part(pair.upper if from_above else pair.lower, number))
        return parts

    def _common_unit(self) -> float | None:
        """Return the unit of which all losses with positive probability are multiples; None if there is none of use.

        It is infinite when every loss is as good as continuous. A unit that is tiny beside the step that the tolerance
        asks for is no use: there would be too many losses.
        """
        if any(isinstance(known, TwoPointLaw) for known, _ in self.uses):
            return None  # its two losses are multiples of no common unit
        units = self._units()
        unit = common_unit(units) if units else math.inf
        finest = math.sqrt(6.0 * self.tolerance * self._variance / math.fsum(count for _, count in self.uses))
        return None if unit is None or unit < CONFIG.least_unit * min(self._largest_step(), finest) else unit

    @property
    def _variance(self) -> float:
        return math.fsum(count * spread(known)[0] for known, count in self.uses)

    def _largest_step(self) -> float:
        """Return the step at which losses between lattice points add the tolerance to the variance."""
        between = math.fsum(count * spread(known)[1] for known, count in self.uses)
        return math.sqrt(6.0 * self.tolerance * self._variance / between) if between else math.inf

    def _units(self) -> list[float]:
        """Return the distinct units of losses that the lattice should hold, ascending."""
        largest = self._largest_step()
        return sorted({loss_unit(known) for known, _ in self.uses if on_lattice(known, largest)})

    def step(self, coarser: float = 1.0) -> float:
        """Return the step: fine enough for the tolerance, and such that parameters fall on it where one step can.

        Where none can, every loss counts as lying between lattice points, and the lower lattice is made finer, not
        coarser: rounding losses down costs in proportion to the step.
        """
        if self._common_unit() is None:
            rounded = sum(1 if _adds_up(known, count) else count for known, count in self.uses)
            slack = CONFIG.off_lattice if rounded == len(self.uses) else 1.0
            anywhere = math.sqrt(6.0 * slack * self.tolerance * self._variance / rounded)
            return anywhere / CONFIG.lower_finer if coarser > 1.0 else anywhere
        units, largest = self._units(), self._largest_step()
        if self.grid is not None and not units:
            steps = coarser * largest / self.grid
            return self.grid * math.floor(steps) if steps >= 1.0 else self.grid / math.ceil(1.0 / steps)
        # Losses of integer noise that fall on the lattice do not lie between its points.
        between = math.fsum(
            count * spread(known)[1]
            for known, count in self.uses
            if isinstance(known, Laplace) or not on_lattice(known, largest)
        )
        on_units = math.sqrt(6.0 * self.tolerance * self._variance / between) if between else math.inf
        return common_step(units, coarser * on_units)

    def _reach(self, known: KnownNoise, tilt: float) -> float:
        """Return how many standard deviations of a Gaussian matter under the tilt."""
        match known:
            case Gaussian(sigma=sigma):
                return min(CONFIG.farthest, abs(tilt) / sigma + CONFIG.beyond_tilt)
            case _:
                return CONFIG.farthest


def _adds_up(known: KnownNoise, count: int) -> bool:
    """Return whether equal uses are added up exactly before their losses are rounded to a lattice."""
    return count == 1 or enumerated([(known, count)], CONFIG.most_added_up) is not None


def _tail_of(atoms: Atoms, step: float) -> LatticeTail:
    """Return the tail of atoms in ascending order on a lattice."""
    return lattice_tail(float(atoms.loss[-1]), step, atoms.mass[::-1].copy(), atoms.relative_error, atoms.dropped)

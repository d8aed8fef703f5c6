"""Composition of mechanisms with known noise: privacy losses are rounded to a lattice and added up by convolution.

The results are certified brackets: a lower and an upper bound on delta, or on epsilon.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from setwise.accounting.brackets import Bracket, either_fails, epsilon_at, probability
from setwise.accounting.guarantees import Gaussian, Laplace, largest_loss
from setwise.accounting.losses import fft
from setwise.accounting.losses.dominating_pairs import (
    KnownNoise,
    TwoPointLaw,
    enumerate_losses,
    loss_unit,
    on_lattice,
    tabulate_loss,
    variance_and_continuous_mass,
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
from setwise.accounting.losses.tilting import EqualLosses, Saddle, coarse_saddle
from setwise.accounting.promises import delta_too_small
from setwise.errors import Unattainable


@dataclass(frozen=True, slots=True)
class LatticeConfig:
    """Constants that choose the lattice (equally spaced values) to which privacy losses are rounded.

    A tolerance is the variance that rounding to the lattice adds to the total loss, as a share of the variance of the
    total loss. The window is the interval of total losses that is computed. A tilt is a number with which the
    probability of each loss L is weighted by exp(tilt L), so that the losses in the window become likely. Brackets
    (certified intervals for delta or epsilon) are valid whatever these numbers are; the text below each constant says
    what it decides.
    """

    tolerance: float = 4e-8
    """Tolerance when the caller asks for no width. The lattice step is in proportion to its square root."""
    finest: float = 1e-13
    """Smallest tolerance that is tried, because rounding errors outweigh the gain of finer lattices."""
    coarsest: float = 1e-2
    """Largest tolerance that is tried. A coarser lattice would give a useless bound."""
    finer: float = 16.0
    """Factor by which the tolerance shrinks if a bracket is wider than wanted. The width falls about in proportion."""
    coarser: float = 4.0
    """Factor by which the tolerance grows if there are too many lattice points in the window. Four times the tolerance
    halves their number."""
    most_losses: float = fft.CONFIG.largest_transform / 2
    """Largest number of lattice points in the window. With more, a coarser lattice is taken."""
    off_lattice: float = 10.0
    """Factor on the tolerance if no lattice contains all losses of positive probability, and each kind of equal uses is
    added up before its losses are rounded, so that they are rounded only once."""
    lower_finer: float = 4.0
    """If no lattice contains all losses of positive probability, the step for the lower bound is this many times
    smaller than the step for the upper bound, because rounding losses down has an error in proportion to the step."""
    most_added_up: int = 4096
    """Equal uses with at most this many losses are added up exactly before their losses are rounded to a lattice."""
    lower_coarser: float = 2.0
    """If some lattice contains all losses of positive probability, the step for the lower bound is this many times
    larger than the step for the upper bound, because no promise depends on the lower bound."""
    least_unit: float = 0.2
    """The losses of positive probability may all be multiples of one number, a common unit. The unit is not used if it
    is below this share of the step that the tolerance allows, because the lattice would have too many points."""
    loose: float = 1e-4
    """If the relative width of a bracket for epsilon exceeds this, the window was probably in the wrong place."""
    misplaced: float = 0.1
    """The window is then computed again around the epsilon found, if the tilt for this epsilon differs from the
    previous tilt by more than this share."""
    farthest: float = 40.0
    """Losses of Gaussian noise are tabulated up to this many standard deviations from their mean at most. Further out,
    probabilities leave the range of floats."""
    beyond_tilt: float = 12.0
    """Losses of Gaussian noise are tabulated up to this many standard deviations beyond their weighted mean. The
    probability further out is added to the upper bound."""


CONFIG = LatticeConfig()


@dataclass(frozen=True, slots=True)
class LatticeSum:
    """The composition of mechanisms with fixed dominating pairs, computed from losses rounded to a lattice.

    A lattice is a set of equally spaced losses. The distributions of the rounded losses of all uses are summed
    (convolved) by Fourier transform.

    - `uses` are pairs (noise, count).
    - `failure` is a bracket for the probability of outright failure (an event in which everything may be revealed).
    - `tolerance` is the share by which rounding to the lattice may raise the variance of the total loss.
    - `grid` is the step of the grid of epsilons on which a caller stores privacy profiles (delta as a function of
      epsilon), or None. The lattice step is then a multiple or a fraction of it if possible, so that the caller reads
      its profiles at few distinct epsilons.
    """

    # If there is such a grid and all losses are practically continuous, the lattice step divides `grid` or is a
    # multiple of `grid`, so that the caller need not interpolate.

    uses: tuple[tuple[KnownNoise, int], ...]
    failure: Bracket
    tolerance: float = CONFIG.tolerance
    grid: float | None = None

    @property
    def support(self) -> float:
        """Largest total privacy loss that all uses of this composition can have together.

        At every epsilon from this loss on, delta is only the probability of outright failure (an event in which
        everything may be revealed).
        """
        return largest_loss(self.uses)

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return a bracket (a certified interval) for the delta of all uses together at `epsilon`.

        Finer lattices (sets of equally spaced losses) are tried until the width of the bracket, relative to its upper
        end, is at most `width`. With None the bracket of the first lattice is returned.

        Raises: `Unattainable` if rounding errors prevent the width, or if the losses cover too wide a range for a
        lattice.
        """
        if epsilon >= self.support:
            return self.failure
        saddle = coarse_saddle(self.uses)
        upper, lower = self.tails(saddle, max(0.0, saddle.for_loss(epsilon)))
        bracket = self._at(upper, lower, epsilon)
        if width is None or bracket.relative_width <= width:
            return bracket
        return self._finer().delta(epsilon, width)

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return a bracket (a certified interval) for the smallest epsilon with a delta of at most `delta`.

        The delta is that of all uses together. Finer lattices (sets of equally spaced losses) are tried until the width
        of the bracket, relative to its upper end, is at most `width`. With None the bracket of the first lattice is
        returned.

        Raises: `Unattainable` if `delta` is not above the probability of outright failure (in which everything may be
        revealed), if rounding errors prevent the width, or if the losses cover too wide a range for a lattice.
        """
        saddle = coarse_saddle(self.uses)
        target = delta - self.failure.upper
        if target <= 0.0:
            raise Unattainable(delta_too_small(delta, self.failure.upper))
        tilt = saddle.for_delta(target)
        bracket = self._epsilon_near(delta, saddle, tilt)
        if bracket.relative_width > CONFIG.loose and (moderate := saddle.moderate(tilt)) < tilt:
            # A few uses next to their largest loss: rounding spoils the table for so large a tilt.
            bracket = _intersection(bracket, self._epsilon_near(delta, saddle, moderate))
        tilt_found = max(0.0, saddle.for_loss(bracket.upper)) if bracket.relative_width > CONFIG.loose else tilt
        if (
            abs(tilt_found - tilt) > CONFIG.misplaced * tilt
        ):  # few uses near their largest loss: the window was misplaced, so compute again around the epsilon found
            bracket = _intersection(bracket, self._epsilon_near(delta, saddle, tilt_found))
        bracket = Bracket(min(bracket.lower, self.support), min(bracket.upper, self.support))
        if width is None or bracket.relative_width <= width:
            return bracket
        return self._finer().epsilon(delta, width)

    def _epsilon_near(self, delta: float, saddle: Saddle, tilt: float) -> Bracket:
        """Return a bracket (certified interval) for the smallest epsilon with a delta of at most `delta`.

        The distribution of the total loss L of all uses is computed on one lattice, a set of equally spaced losses.
        `saddle` approximates L; the range of losses to compute is chosen from it. Probabilities are weighted by
        exp(`tilt` L), to keep the digits of those that decide delta. The bracket is narrowest if the weighted mean of L
        is near the epsilon that is looked for, so the caller chooses `tilt` for that.
        """
        # The range of losses is chosen from `saddle`. A lattice is a set of equally spaced losses. The rounding error
        # of its table may be above a tiny delta everywhere, but beyond the largest loss delta is known without it.
        upper, lower = self.tails(saddle, tilt)

        def delta_at(x: float) -> Bracket:
            return self.failure if x >= self.support else self._at(upper, lower, x)

        return epsilon_at(delta, delta_at, guess=max(saddle.at(tilt)[1], 1e-6))

    def _finer(self) -> "LatticeSum":
        """Return this composition with a finer lattice of losses, which gives a narrower bracket for delta.

        Losses are rounded to the lattice, a set of equally spaced losses. The result has a smaller `tolerance`, the
        share by which this rounding may raise the variance of the total loss.

        Raises: `Unattainable` if rounding errors of floats would outweigh the gain of a finer lattice.
        """
        if self.tolerance < CONFIG.finest:
            raise Unattainable("the width asked for is below what rounding allows for these uses; ask for a wider one")
        return replace(self, tolerance=self.tolerance / CONFIG.finer)

    def _at(self, upper: LatticeTail, lower: LatticeTail, epsilon: float) -> Bracket:
        """Return a bracket (a certified interval) for the delta of all uses together at `epsilon`.

        `upper` and `lower` give delta for two approximations of the total privacy loss: delta from `upper` is too
        large, and delta from `lower` is too small. Outright failures (in which everything may be revealed) are included
        in the result.
        """
        x = np.array([epsilon])
        (high,), (high_error,) = upper.delta(x)
        (low,), (low_error,) = lower.delta(x)
        above = probability(float(high), float(high_error)).upper
        below = probability(float(low), float(low_error)).lower
        return either_fails(self.failure, Bracket(min(below, above), above))

    def tails(self, saddle: Saddle, tilt: float, *, whole: bool = False) -> tuple[LatticeTail, LatticeTail]:
        """Return two tables of the total privacy loss L of all uses, from which delta is bounded at any epsilon.

        An upper bound is read from the first table, and a lower bound from the second. The tables are most accurate at
        epsilons near the mean that L has if the probability of each L is weighted by exp(tilt L). So the caller chooses
        by `tilt` at which epsilons the tables are accurate.

        - `saddle` is an approximation of the distribution of L, from which the range of losses to compute is chosen.
        - `tilt` is the number in that weight.
        - `whole`: if True, the tables cover all likely losses; if False, only losses from about the weighted mean
          upwards.
        """
        # The range of losses is chosen from `saddle`.
        view = window(saddle, tilt, whole=whole)
        fitting = self._fitting(view)
        upper, lower = fitting._sum_within(view)
        return _tail_of(upper, fitting.step()), _tail_of(lower, fitting.step(CONFIG.lower_coarser))

    def _fitting(self, view: Window) -> "LatticeSum":
        """Return this composition with a lattice that is coarse enough to compute all losses in the interval `view`.

        A lattice is a set of equally spaced losses, to which losses are rounded. `view` is the interval of total losses
        that one Fourier transform has to compute. If it has too many lattice points, a coarser lattice is taken.

        Raises: `Unattainable` if the lattice would have to be coarser than `CONFIG.coarsest` allows.
        """
        fitting = self
        while min(fitting.step(), fitting.step(CONFIG.lower_coarser)) * CONFIG.most_losses < view.right - view.left:
            if fitting.tolerance > CONFIG.coarsest:
                raise Unattainable(
                    "the privacy losses of these uses cover too wide a range for one table; compose fewer uses"
                )
            fitting = replace(fitting, tolerance=CONFIG.coarser * fitting.tolerance)
        return fitting

    def atoms(self, saddle: Saddle, tilt: float, *, whole: bool) -> tuple[Atoms, Atoms]:
        """Return two distributions of the total privacy loss of all uses, for an upper and for a lower bound on delta.

        - `saddle` is an approximation of the total loss, which tells the range of losses to compute.
        - `tilt` says for which losses L the result is most accurate: those near the mean of L if the probability of
          each L is weighted by exp(tilt L). A tilt of 0 gives the usual mean; the larger the tilt, the larger and rarer
          are the losses.
        - `whole`: if False, all losses far below this mean are left out, which is enough to read delta near the mean.
          If True, only losses of negligible effect are left out.
        """
        # Losses do not matter if they do not noticeably change the average of a falling function.
        # The probability of Gaussian losses that are too large to be tabulated is part of `dropped` of the upper
        # distribution.
        view = window(saddle, tilt, whole=whole)
        return self._fitting(view)._sum_within(view)

    def _sum_within(self, view: Window) -> tuple[Atoms, Atoms]:
        """Return two distributions of the total privacy loss of all uses, for an upper and a lower bound on delta.

        Each distribution covers the total losses in the interval of `view`. The losses of single uses are added up by
        Fourier transform. Before that, the probability of each loss L is weighted by exp(tilt L), and the weights are
        undone afterwards, so that rare losses keep their digits. `view` has the tilts to try.
        """
        fine, coarse = self.step(), self.step(CONFIG.lower_coarser)
        above, below = self._parts(fine, view, from_above=True), self._parts(coarse, view, from_above=False)
        upper, lower = sums(above, view, from_above=True), sums(below, view, from_above=False)
        infinite_mass = sum(part.count * part.lattice.infinite for part in above)
        return replace(upper, dropped=upper.dropped + infinite_mass), lower

    def _parts(self, step: float, view: Window, *, from_above: bool) -> list[EqualLosses]:
        """Return the privacy losses of all uses of this composition, rounded to equally spaced losses.

        The distance of neighbouring losses is `step`. The result has one `EqualLosses` for each entry of `uses`. If
        `from_above`, the rounding can only raise delta, and otherwise only lower it. `view` is the interval of total
        losses that will be computed, which decides how far the losses of Gaussian noise must be tabulated.
        """
        # An `EqualLosses` is normally the rounded loss of one use, with the number of uses as its count. If no lattice
        # contains all losses, and the total loss of the equal uses can be enumerated, it is instead the rounded total
        # loss with the count 1. The rounding error then arises once, and not once per use.
        parts = []
        for noise, count in self.uses:
            added = (
                None if self._common_unit() is not None else enumerate_losses([(noise, count)], CONFIG.most_added_up)
            )
            if added is None or count == 1:
                pair, number = tabulate_loss(noise, step, self._reach(noise, view.tilts[0])), count
            else:
                pair, number = from_atoms(step, added.loss, added.mass, added.dropped, added.relative_error), 1
            parts.append(EqualLosses(pair.upper if from_above else pair.lower, number))
        return parts

    def _common_unit(self) -> float | None:
        """Return the largest number of which all atoms (losses of positive probability) are whole multiples, or None.

        Losses are rounded to a lattice (equally spaced losses). If the distance of the lattice points divides this
        number, every atom is a lattice point and is not changed by the rounding.

        The result is None if some use has the loss of a `TwoPointLaw`, because its two values have no common unit. It
        is None also if the number is so small that a lattice with this distance would have too many points. It is
        infinite if every loss is practically continuous: there are then no atoms to keep.
        """
        # A lattice whose step is this unit contains all atoms, so that they need not be rounded. A unit far smaller
        # than the step that the tolerance allows is not useful, because the lattice would have too many points. If
        # every loss is practically continuous, no atom limits the step.
        if any(isinstance(noise, TwoPointLaw) for noise, _ in self.uses):
            return None  # the two losses of such a law have no common unit
        units = self._units()
        unit = common_unit(units) if units else math.inf
        finest = math.sqrt(6.0 * self.tolerance * self._variance / math.fsum(count for _, count in self.uses))
        return None if unit is None or unit < CONFIG.least_unit * min(self._largest_step(), finest) else unit

    @property
    def _variance(self) -> float:
        """Approximate variance of the total privacy loss of all uses."""
        return math.fsum(count * variance_and_continuous_mass(noise)[0] for noise, count in self.uses)

    def _largest_step(self) -> float:
        """Return the largest lattice step at which rounding raises the variance of losses by at most `tolerance`.

        A lattice is a set of equally spaced losses, to which losses are rounded, and the step is their distance. The
        field `tolerance` is a share of the variance of the total loss. Losses with a positive probability are taken to
        be lattice points, which rounding does not change, so only continuous losses count. The result is infinite if
        there are none.
        """
        between = math.fsum(count * variance_and_continuous_mass(noise)[1] for noise, count in self.uses)
        return math.sqrt(6.0 * self.tolerance * self._variance / between) if between else math.inf

    def _units(self) -> list[float]:
        """Return the units of the uses; all losses of a use that have positive probability are multiples of its unit.

        For example, 0.1 is a unit of a use with the losses -0.1 and 0.1. The units are in ascending order, and equal
        units are listed once. From them the caller chooses the step of the lattice (equally spaced losses to which
        losses are rounded): if the step divides the unit of a use, the losses of this use need no rounding.

        Uses whose losses are continuous, or lie closer together than a lattice can be fine, are left out. The two
        losses of a `TwoPointLaw` have no unit in common, so its larger loss is listed.
        """
        largest = self._largest_step()
        return sorted({loss_unit(noise) for noise, _ in self.uses if on_lattice(noise, largest)})

    def step(self, coarser: float = 1.0) -> float:
        """Return the distance of neighbouring losses in the lattice (equally spaced losses) used for rounding.

        The distance follows from the field `tolerance`, the share by which rounding may raise the variance of the total
        loss. `coarser` is 1 for the lattice of the upper bound on delta, and above 1 for the lattice of the lower
        bound.

        - If all losses with a positive probability can be lattice points, they are not rounded; only continuous losses
          are. The step for the lower bound may then be up to `coarser` times as large, because no promise depends on
          the lower bound.
        - Otherwise all losses are rounded. The step for the lower bound is then smaller than the step for the upper
          bound, because the lower bound rounds losses down, which is less accurate.
        """
        # The unit of a use is a number of which all losses of the use are multiples; continuous losses have no unit. If
        # a useful step divides the units of all uses, losses with a unit are not rounded. The step is then at most
        # `coarser` times the largest step that the tolerance allows; it may be larger for the lower bound, because no
        # promise depends on the lower bound. If no useful step divides all units, every loss is rounded. The step for
        # the lower bound is then `CONFIG.lower_finer` times smaller, because the lower bound rounds losses down, with
        # an error in proportion to the step.
        if self._common_unit() is None:
            rounded = sum(1 if _adds_up(noise, count) else count for noise, count in self.uses)
            slack = CONFIG.off_lattice if rounded == len(self.uses) else 1.0
            anywhere = math.sqrt(6.0 * slack * self.tolerance * self._variance / rounded)
            return anywhere / CONFIG.lower_finer if coarser > 1.0 else anywhere
        units, largest = self._units(), self._largest_step()
        if self.grid is not None and not units:
            steps = coarser * largest / self.grid
            return self.grid * math.floor(steps) if steps >= 1.0 else self.grid / math.ceil(1.0 / steps)
        # Losses of integer noise that are multiples of the step are not rounded, so they do not limit the step.
        between = math.fsum(
            count * variance_and_continuous_mass(noise)[1]
            for noise, count in self.uses
            if isinstance(noise, Laplace) or not on_lattice(noise, largest)
        )
        on_units = math.sqrt(6.0 * self.tolerance * self._variance / between) if between else math.inf
        return common_step(units, coarser * on_units)

    def _reach(self, noise: KnownNoise, tilt: float) -> float:
        """Return up to how many standard deviations from their mean the losses of `noise` must be tabulated.

        For a Gaussian the number grows with `tilt`, because weighting each loss L by exp(`tilt` L) moves the mean. For
        other noise the number is `CONFIG.farthest`.
        """
        match noise:
            case Gaussian(sigma=sigma):
                return min(CONFIG.farthest, abs(tilt) / sigma + CONFIG.beyond_tilt)
            case _:
                return CONFIG.farthest


def _adds_up(noise: KnownNoise, count: int) -> bool:
    """Return whether the total loss of `count` uses of `noise` is computed exactly, and only then rounded to a lattice.

    A lattice is a set of equally spaced losses. If each use were rounded by itself, the rounding errors of all uses
    would add up. True for a single use, or if the total loss has at most `CONFIG.most_added_up` values.
    """
    return count == 1 or enumerate_losses([(noise, count)], CONFIG.most_added_up) is not None


def _tail_of(atoms: Atoms, step: float) -> LatticeTail:
    """Return the distribution `atoms` of a privacy loss as a `LatticeTail`, from which delta is read at any epsilon.

    Requires: the losses of `atoms` ascend and are neighbouring points of a lattice (equally spaced losses) with this
    `step`.
    """
    # The error of a transform is charged to every mass. Far from the tilt a charged mass may exceed 1 by hundreds of
    # decimal orders, and its sums would overflow; but no probability exceeds 1.
    mass = np.minimum(atoms.mass[::-1], 1.0)
    return lattice_tail(float(atoms.loss[-1]), step, mass, atoms.relative_error, atoms.dropped)


def _intersection(first: Bracket, second: Bracket) -> Bracket:
    """Return the numbers that lie in both of two brackets (certified intervals) for the same number, as one bracket."""
    return Bracket(max(first.lower, second.lower), min(first.upper, second.upper))

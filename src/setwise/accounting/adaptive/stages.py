"""Stages of an interaction: linear ones, which average the profile of what follows, and bounded-range ones.

A linear stage is a set of mechanisms with fixed dominating pairs. What a bounded-range stage does to a profile is
computed in dynamic_program.py.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.adaptive.dynamic_program import Group, variance_of
from setwise.accounting.adaptive.operator import Band, Profile, TailProfile, nothing_to_come
from setwise.accounting.brackets import UNIT, Bracket
from setwise.accounting.checks import SMALLEST_EPSILON
from setwise.accounting.guarantees import BoundedRange, PureDP, largest_loss
from setwise.accounting.losses.dominating_pairs import KnownNoise, enumerated, spread
from setwise.accounting.losses.lattice import Atoms, multiples, randomized_response
from setwise.accounting.losses.tilting import Saddle, coarse_saddle
from setwise.errors import Unattainable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StageConfig:
    """How finely a linear stage is tabulated. A tolerance is the share of its variance that a lattice adds."""

    most_enumerated: int = 20_000
    """Atoms up to which randomized responses and integer Laplace noise are enumerated exactly instead."""
    first_tolerance: float = 0.01
    """Of a first stage, times the squared number of cells across the smallest epsilon: what a grid adds is 80 times as
    much."""
    last_tolerance: float = 1e-6
    """Of a last stage, which is tabulated once."""
    middle_tolerances: tuple[float, ...] = (4e-5, 6e-4, 1e-2)
    """Of a middle stage, which is read at every grid point: the first that keeps to the reads below."""
    most_reads: float = 5e7
    """Grid points times losses of a middle stage: a few seconds."""
    products_at_once: int = 1_000_000
    """Products of a profile and a probability held in memory at once."""
    rare: float = 1e-40
    """Probability below which an atom of a middle stage is left out and charged: far below any delta of interest."""


CONFIG = StageConfig()

_BENT = 1e-10
"""Relative error charged because a profile before a linear stage is convex only up to rounding."""


@dataclass(frozen=True, slots=True)
class LinearStage:
    """Mechanisms with fixed dominating pairs, and how often each is used: order among them does not matter."""

    uses: tuple[tuple[KnownNoise, int], ...]

    @property
    def variance(self) -> float:
        """Roughly the variance of their loss."""
        return math.fsum(count * spread(known)[0] for known, count in self.uses)

    @property
    def support(self) -> float:
        """Their largest loss."""
        return largest_loss(self.uses)


@dataclass(frozen=True, slots=True)
class RangeStage:
    """Bounded-range mechanisms, (epsilon, count), drawn in any adaptive order within the stage."""

    groups: tuple[Group, ...]

    @property
    def variance(self) -> float:
        """The largest variance of their loss."""
        return variance_of(self.groups)

    @property
    def support(self) -> float:
        """Their largest loss."""
        return largest_loss((BoundedRange(epsilon=epsilon), count) for epsilon, count in self.groups)


Stage = LinearStage | RangeStage


def upper_bound_order(groups: Sequence[Group], linear: Sequence[tuple[KnownNoise, int]]) -> tuple[Stage, ...]:
    """Return stages in the order that helps an analyst least: large ranges first, everything linear last.

    A batch is one analyst of any order, so the optimum of this order bounds every batch from above.
    """
    ranges = tuple(RangeStage((group,)) for group in sorted(groups, reverse=True))
    return (*ranges, LinearStage(tuple(linear))) if linear else ranges


def proxy_saddle(linear: Sequence[tuple[KnownNoise, int]], groups: Sequence[Group]) -> Saddle:
    """Return a coarse version of all uses, a bounded-range one as the randomized response of half its epsilon."""
    halves = [(PureDP(epsilon=max(epsilon / 2, SMALLEST_EPSILON)), count) for epsilon, count in groups]
    return coarse_saddle((*linear, *halves))


def adapting_saddle(linear: Sequence[tuple[KnownNoise, int]], groups: Sequence[Group]) -> Saddle:
    """Return a coarse version of all uses, a bounded-range one as whatever is worst under each tilt."""
    return Saddle(coarse_saddle(linear).parts, tuple(groups))


def losses(
    stage: LinearStage, tilt: float, tolerance: float, grid: float | None = None, most: int = CONFIG.most_enumerated
) -> tuple[Atoms, Atoms]:
    """Return the losses of a linear stage from above and from below: exact if there are at most `most`, else a lattice.

    The step of the lattice divides `grid` or is a multiple of it, where it can.
    """
    exact = enumerated(stage.uses, most)
    if exact is not None:
        return exact, exact
    from setwise.accounting.losses.pld import LatticeSum

    whole = LatticeSum(stage.uses, Bracket(0.0, 0.0), tolerance, grid)
    return whole.atoms(coarse_saddle(stage.uses), tilt, whole=True)


def alone(stage: LinearStage, band: Band, tilt: float) -> TailProfile:
    """Return the profile of a linear stage with nothing to come: its own delta at every grid point."""
    match stage.uses:
        case ((PureDP(epsilon=epsilon), count),):
            upper = lower = randomized_response(epsilon, count)
        case _ if enumerated(stage.uses, _few(band, stage.variance, stage.support)) is not None:
            return averaged(stage, TailProfile(nothing_to_come(band.step)), band, tilt)
        case _:
            from setwise.accounting.losses.pld import LatticeSum

            whole = LatticeSum(stage.uses, Bracket(0.0, 0.0), CONFIG.last_tolerance, band.step)
            upper, lower = whole.tails(coarse_saddle(stage.uses), tilt, whole=True)
    # On a lattice from above, losses reach past the largest by a step each.
    reach = upper.top if stage.support < math.inf else math.inf
    x = multiples(band.step, 0, band.size(stage.variance, reach))
    above = upper.delta(x - upper.slack(float(x[-1])))[0] * (1 + upper.rounding) + upper.dropped
    below = lower.delta(x + lower.slack(float(x[-1])))[0] * (1 - lower.rounding)
    bent = _BENT + 8 * upper.mass.size * UNIT
    return TailProfile(
        Profile(band.step, np.minimum(below, above), np.minimum(above, 1.0), bent), stage.variance, reach
    )


def _few(band: Band, variance: float, support: float) -> int:
    """Return up to how many losses a profile is averaged over as they are: it is read at each from every grid point."""
    return int(CONFIG.most_reads / band.size(variance, support))


def averaged(stage: LinearStage, after: TailProfile, band: Band, tilt: float) -> TailProfile:
    """Return the profile before a linear stage: E[f(x - L)] at every grid point."""
    variance = after.variance + stage.variance
    few = _few(band, variance, after.support + stage.support)
    for tolerance in CONFIG.middle_tolerances:
        upper, lower = (_trimmed(atoms) for atoms in losses(stage, tilt, tolerance, band.step, few))
        reach = float(upper.loss.max()) if stage.support < math.inf else math.inf
        x = multiples(band.step, 0, band.size(variance, after.support + reach))
        if x.size * upper.size <= CONFIG.most_reads:
            break
    else:
        raise Unattainable("these uses interleave too finely for the ordered optimum; set-wise covers every order")
    profile = after.profile
    # Positions are rounded: both ends are read on their safe side.
    off = 16 * UNIT * (float(x[-1]) + float(np.abs(upper.loss).max()) + float(np.abs(lower.loss).max()))
    above = _mean_at(upper, lambda at: profile.read_upper(at - off), x)
    above = above * (1 + upper.relative_error + (upper.size + 8) * UNIT) + upper.dropped
    below = _mean_at(lower, lambda at: profile.read_lower(at + off), x)
    below *= 1 - lower.relative_error - (lower.size + 8) * UNIT
    bent = Profile(band.step, np.minimum(below, above), np.minimum(above, 1.0), _BENT)
    return TailProfile(bent, variance, after.support + reach)


def _trimmed(atoms: Atoms) -> Atoms:
    """Leave out atoms too rare to matter at both ends, and say how much that is."""
    kept = np.flatnonzero(atoms.mass >= CONFIG.rare)
    inside = slice(int(kept[0]), int(kept[-1]) + 1)
    rest = float(atoms.mass[: inside.start].sum() + atoms.mass[inside.stop :].sum()) * (1 + atoms.relative_error)
    return Atoms(atoms.loss[inside], atoms.mass[inside], atoms.relative_error, atoms.dropped + rest)


def _mean_at(atoms: Atoms, read: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Return E[f(x - L)] at grid points 0, h, 2h, ..., at positions off by at most 8 units of x and the loss.

    Where the losses form a lattice whose step divides h or is a multiple of it, f is read once at every difference of
    a point and a loss.
    """
    total = np.zeros_like(x)
    steps = _steps_of_lattice(atoms.loss, float(x[1])) if x.size > 1 else None
    if steps is None:
        for loss, mass in zip(atoms.loss, atoms.mass, strict=True):
            total += mass * read(x - loss)
        return total
    reach = (atoms.size - 1) * steps.numerator
    fine = multiples(float(x[1]) / steps.denominator, -reach, (x.size - 1) * steps.denominator + reach + 1)
    values = read(fine - atoms.loss[0])
    windows = np.lib.stride_tricks.sliding_window_view(values, reach + 1)[:: steps.denominator, :: steps.numerator]
    chunk = max(1, CONFIG.products_at_once // atoms.size)
    for start in range(0, x.size, chunk):
        total[start : start + chunk] = (windows[start : start + chunk] * atoms.mass[::-1]).sum(axis=1)
    return total


def _steps_of_lattice(loss: Floats, grid: float) -> Fraction | None:
    """Return the distance of neighbouring losses, ascending and equally far apart, in grid steps; None for others.

    It is a whole number or one over a whole number.
    """
    if loss.size < 2 or not loss[-1] > loss[0]:
        return None
    ratio = float(loss[-1] - loss[0]) / ((loss.size - 1) * grid)
    steps = Fraction(round(ratio)) if ratio > 1.0 else Fraction(1, round(1.0 / ratio))
    lattice = loss[0] + multiples(grid * steps.numerator / steps.denominator, 0, loss.size)
    return steps if float(np.abs(lattice - loss).max()) <= 4 * UNIT * float(np.abs(loss).max()) else None


def left_of(x: float, loss: Floats) -> Floats:
    """Return x - loss, moved left by more than its rounding: profiles fall, so this is safe from above."""
    moved = np.where(loss == 0.0, 0.0, 8 * UNIT * (abs(x) + np.abs(loss)))
    return np.asarray(x - loss - moved, dtype=np.float64)

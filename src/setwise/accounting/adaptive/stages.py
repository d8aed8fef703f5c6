"""Stages of an interaction, and how a linear stage changes a privacy profile (delta as a function of epsilon).

An adversary goes through the stages in order, and chooses each mechanism after seeing earlier answers. A linear stage
is a set of mechanisms with fixed dominating pairs. Let f be the profile of all later stages, and L the privacy loss of
the linear stage. Then the linear stage followed by the later ones has the profile E[f(x - L)] at the epsilon x. A
bounded-range stage is a set of bounded-range mechanisms in any adaptive order; dynamic_program.py computes its profile.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.adaptive.dynamic_program import Group, variance_of
from setwise.accounting.adaptive.profiles import Band, Profile, TailProfile, nothing_to_come
from setwise.accounting.brackets import UNIT, Bracket
from setwise.accounting.checks import SMALLEST_EPSILON
from setwise.accounting.guarantees import BoundedRange, PureDP, largest_loss
from setwise.accounting.losses.dominating_pairs import KnownNoise, enumerate_losses, variance_and_continuous_mass
from setwise.accounting.losses.lattice import Atoms, multiples, randomized_response
from setwise.accounting.losses.tilting import Saddle, coarse_saddle
from setwise.errors import Unattainable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StageConfig:
    """Constants that decide how finely the privacy losses of one stage are tabulated.

    Stages are sets of mechanism uses, made one set after the other. The constants are for stages of mechanisms with
    fixed dominating pairs. The losses of such a stage may be rounded to a lattice (equally spaced losses), which adds
    variance to the stage's total loss. A tolerance is the largest ratio allowed of this added variance to the variance
    of the total loss. No proof depends on the constants, because bounds allow for the rounding.
    """

    most_enumerated: int = 20_000
    """Largest number of different total losses of a stage that are listed exactly. A stage with more losses is rounded
    to a lattice."""
    first_tolerance: float = 0.01
    """Tolerance for the first stage, if one grid cell spans the smallest epsilon. With n such cells, the tolerance is
    this number divided by n^2. The grid of epsilons itself adds about 80 times as much error, so this rounding does not
    matter."""
    last_tolerance: float = 1e-6
    """Tolerance for the last stage. It can be small, because that stage is tabulated only once."""
    middle_tolerances: tuple[float, ...] = (4e-5, 6e-4, 1e-2)
    """Tolerances to try for a stage between the first and the last, finest first. A stage reads the privacy profile of
    later stages (delta as a function of epsilon) once for each grid point and each of its losses. The finest tolerance
    with at most `most_reads` such reads is used.
    """
    most_reads: float = 5e7
    """Largest number of reads of the profile of later stages for one stage: grid points times losses. They take a few
    seconds.
    """
    products_at_once: int = 1_000_000
    """Largest number of products of a delta and a probability that are held in memory at once."""
    rare: float = 1e-40
    """Losses of a middle stage with a probability below this are left out, and their probability is added to the upper
    bound on delta. The number is far below any delta of interest."""


CONFIG = StageConfig()

_BENT = 1e-10
"""Relative error added to the bounds because a profile before a linear stage is convex only up to rounding."""


@dataclass(frozen=True, slots=True)
class LinearStage:
    """A stage (a set of mechanism uses, one of several made in order) whose mechanisms have fixed dominating pairs.

    `uses` are pairs (noise, count). The order of the uses within a stage does not matter: each use replaces the privacy
    profile of later uses (delta as a function of epsilon) by its average over the use's own privacy loss. Averages may
    be taken in any order, and they are linear operations, hence the name.
    """

    uses: tuple[tuple[KnownNoise, int], ...]

    @property
    def variance(self) -> float:
        """Approximate variance of the total privacy loss of all mechanism uses in this stage.

        Callers choose the length of a grid of epsilons from this number. No bound depends on it.
        """
        return math.fsum(count * variance_and_continuous_mass(noise)[0] for noise, count in self.uses)

    @property
    def support(self) -> float:
        """The largest total privacy loss that the mechanism uses of this stage can have, or infinity.

        A stage is a set of mechanism uses, one of several made in order. The delta of this stage alone is 0 at every
        epsilon from the returned loss on. So a grid of epsilons may end there.
        """
        return largest_loss(self.uses)


@dataclass(frozen=True, slots=True)
class RangeStage:
    """A stage (a set of mechanism uses, one of several made in order) of bounded-range mechanisms.

    The mechanisms are used in any adaptive order.

    `groups` are pairs (epsilon, count), which stand for `count` mechanisms, each with epsilon-bounded range.
    """

    groups: tuple[Group, ...]

    @property
    def variance(self) -> float:
        """Upper bound on the variance of the total privacy loss of all bounded-range mechanisms in this stage.

        Callers choose the length of a grid of epsilons from this number.
        """
        return variance_of(self.groups)

    @property
    def support(self) -> float:
        """Largest privacy loss that all bounded-range mechanisms in this stage can have together.

        The result is the sum of count times epsilon. Alone, the stage has delta 0 at every epsilon from this loss on.
        """
        return largest_loss((BoundedRange(epsilon=epsilon), count) for epsilon, count in self.groups)


Stage = LinearStage | RangeStage


def upper_bound_order(groups: Sequence[Group], linear: Sequence[tuple[KnownNoise, int]]) -> tuple[Stage, ...]:
    """Return the mechanisms of a batch as stages, in an order that gives a close upper bound on the batch's delta.

    In a batch, all mechanisms are chosen up front. If an adversary uses the same mechanisms in stages, one after the
    other, and may adapt each choice to earlier answers, the largest delta is at least that of the batch. So it is an
    upper bound. The bound is only a little too large in the order returned here: bounded-range mechanisms first, those
    with the largest epsilon before the others, and `linear` last.

    `groups` are bounded-range mechanisms as (epsilon, count), and `linear` are mechanisms with fixed dominating pairs.
    """
    # The order of a batch does not change its delta. The result has one stage for each bounded-range epsilon, largest
    # first, and then one for `linear`.
    ranges = tuple(RangeStage((group,)) for group in sorted(groups, reverse=True))
    return (*ranges, LinearStage(tuple(linear))) if linear else ranges


def proxy_saddle(linear: Sequence[tuple[KnownNoise, int]], groups: Sequence[Group]) -> Saddle:
    """Return an approximation of the total privacy loss of all uses, from which an exponential tilt is chosen.

    A tilt weights the probability of each loss L by exp(tilt L), so that the losses that decide delta become likely.

    - `linear` are uses with fixed dominating pairs, as pairs (noise, count).
    - `groups` are bounded-range uses, as pairs (epsilon, count). A bounded-range use has no fixed loss, so the
      approximation takes randomized response with epsilon / 2 instead.
    """
    # Losses are on a coarse lattice. Each bounded-range use is replaced by randomized response with half its epsilon,
    # so the result is an approximation and not a bound.
    halves = [(PureDP(epsilon=max(epsilon / 2, SMALLEST_EPSILON)), count) for epsilon, count in groups]
    return coarse_saddle((*linear, *halves))


def adapting_saddle(linear: Sequence[tuple[KnownNoise, int]], groups: Sequence[Group]) -> Saddle:
    """Return an approximation of the total privacy loss of all uses, if an adversary adapts to earlier answers.

    Callers estimate delta or the overall epsilon from the approximation, for example to choose the length of a grid. No
    bound depends on the approximation.

    - `linear` are uses with fixed dominating pairs, as pairs (noise, count).
    - `groups` are bounded-range uses, as pairs (epsilon, count). A bounded-range use has no fixed loss. For each tilt
      (a number that weights the probability of each loss L by exp(tilt L)) the approximation takes the randomized
      response with the largest E[exp(tilt L)].
    """
    # Losses are on a coarse lattice. Each bounded-range use is replaced by the randomized response that is worst under
    # the tilt being tried; `proxy_saddle` takes the same response for all tilts.
    return Saddle(coarse_saddle(linear).parts, tuple(groups))


def losses(
    stage: LinearStage, tilt: float, tolerance: float, grid: float | None = None, most: int = CONFIG.most_enumerated
) -> tuple[Atoms, Atoms]:
    """Return two distributions of the total privacy loss of `stage`: one for upper and one for lower bounds on delta.

    The two distributions are equal and exact if the total loss has at most `most` different values. Otherwise losses
    are rounded to a lattice (equally spaced losses): in the first distribution so that delta can only rise, and in the
    second so that delta can only fall.

    - `stage` has mechanisms with fixed dominating pairs.
    - `tilt`: while losses L of independent uses are added up, their probabilities are weighted by exp(tilt L), to keep
      the digits of rare losses.
    - `tolerance` is the largest share by which the rounding may raise the variance of the loss.
    - `grid` is the step of the grid of epsilons on which the caller stores privacy profiles (delta as a function of
      epsilon), or None. If possible, the distance of rounded losses is a multiple or a whole fraction of this step, so
      that the caller need not read profiles between grid points.
    """
    # Probabilities of losses that are likely under the weight are the most accurate. If there are more losses, they are
    # rounded to a lattice (equally spaced losses). If possible the lattice step divides `grid` or is a multiple of it,
    # so that profiles need not be read between grid points.
    exact = enumerate_losses(stage.uses, most)
    if exact is not None:
        return exact, exact
    from setwise.accounting.losses.pld import LatticeSum

    whole = LatticeSum(stage.uses, Bracket(0.0, 0.0), tolerance, grid)
    return whole.atoms(coarse_saddle(stage.uses), tilt, whole=True)


def profile_alone(stage: LinearStage, band: Band, tilt: float) -> TailProfile:
    """Return the privacy profile (delta as a function of epsilon) of `stage`, the last of all stages.

    The profiles of earlier stages are computed from the result.

    - `stage` is a set of mechanism uses with fixed dominating pairs.
    - `band` decides the step and the length of the grid of epsilons.
    - `tilt`: if there are many losses L, they are rounded to equally spaced values and summed with the weight exp(tilt
      L), which keeps the digits of rare losses.
    """
    match stage.uses:
        case ((PureDP(epsilon=epsilon), count),):
            upper = lower = randomized_response(epsilon, count)
        case _ if enumerate_losses(stage.uses, _most_losses(band, stage.variance, stage.support)) is not None:
            return average_over_losses(stage, TailProfile(nothing_to_come(band.step)), band, tilt)
        case _:
            from setwise.accounting.losses.pld import LatticeSum

            whole = LatticeSum(stage.uses, Bracket(0.0, 0.0), CONFIG.last_tolerance, band.step)
            upper, lower = whole.tails(coarse_saddle(stage.uses), tilt, whole=True)
    # Rounding up to a lattice moves each loss by up to one step, so the sum can exceed the largest true loss.
    reach = upper.top if stage.support < math.inf else math.inf
    x = multiples(band.step, 0, band.size(stage.variance, reach))
    above = upper.delta(x - upper.slack(float(x[-1])))[0] * (1 + upper.rounding) + upper.dropped
    below = lower.delta(x + lower.slack(float(x[-1])))[0] * (1 - lower.rounding)
    bent = _BENT + 8 * upper.mass.size * UNIT
    return TailProfile(
        Profile(band.step, np.minimum(below, above), np.minimum(above, 1.0), bent), stage.variance, reach
    )


def _most_losses(band: Band, variance: float, support: float) -> int:
    """Return the largest number of different losses over which a privacy profile can be averaged in acceptable time.

    A privacy profile is delta as a function of epsilon, on a grid of epsilons. It is averaged over the privacy losses
    of a stage (a set of mechanism uses). The time is in proportion to the number of losses times the number of grid
    points. If the stage has more losses than the result, the caller rounds them to fewer, equally spaced losses.

    `band` says how many grid points the average needs. This follows from `variance`, the variance of the total privacy
    loss of all mechanisms in the average, and from `support`, its largest value.
    """
    # Mechanisms with more losses than that have their losses rounded to a lattice (equally spaced losses). An average
    # reads the profile once per loss and grid point, so the result is `CONFIG.most_reads` divided by the number of grid
    # points.
    return int(CONFIG.most_reads / band.size(variance, support))


def average_over_losses(stage: LinearStage, after: TailProfile, band: Band, tilt: float) -> TailProfile:
    """Return the privacy profile of the mechanisms of `stage` followed by those of `after`.

    A privacy profile is delta as a function of epsilon, on a grid of epsilons. The result has the value E[f(x - L)] at
    each grid point x, with f and L as follows.

    - `stage` has mechanisms with fixed dominating pairs; L is their privacy loss.
    - `after` has f, the profile of the other mechanisms.
    - `band` says how many grid points the result needs.
    - `tilt`: if losses are rounded to equally spaced values, their probabilities are weighted by exp(tilt L) while they
      are convolved, so that rare losses keep their digits.

    Raises: `Unattainable` if even the coarsest rounding of losses takes more than `CONFIG.most_reads` reads of f.
    """
    variance = after.variance + stage.variance
    few = _most_losses(band, variance, after.support + stage.support)
    for tolerance in CONFIG.middle_tolerances:
        upper, lower = (_without_rare_losses(atoms) for atoms in losses(stage, tilt, tolerance, band.step, few))
        reach = float(upper.loss.max()) if stage.support < math.inf else math.inf
        x = multiples(band.step, 0, band.size(variance, after.support + reach))
        if x.size * upper.size <= CONFIG.most_reads:
            break
    else:
        raise Unattainable(
            "bounded-range and other uses alternate too often to compute the optimum of this order; "
            "use the interaction setwise, whose bound covers every order"
        )
    profile = after.profile
    # Positions are rounded. Reading the upper profile further left and the lower one further right keeps both bounds.
    off = 16 * UNIT * (float(x[-1]) + float(np.abs(upper.loss).max()) + float(np.abs(lower.loss).max()))
    above = _mean_at(upper, lambda at: profile.read_upper(at - off), x)
    above = above * (1 + upper.relative_error + (upper.size + 8) * UNIT) + upper.dropped
    below = _mean_at(lower, lambda at: profile.read_lower(at + off), x)
    below *= 1 - lower.relative_error - (lower.size + 8) * UNIT
    bent = Profile(band.step, np.minimum(below, above), np.minimum(above, 1.0), _BENT)
    return TailProfile(bent, variance, after.support + reach)


def _without_rare_losses(atoms: Atoms) -> Atoms:
    """Return the loss distribution `atoms` without the smallest and the largest losses, if they are too rare to matter.

    A loss is too rare if its probability is below `CONFIG.rare`; rare losses between two common losses stay. The
    probabilities of the losses left out are added to the field `dropped` of the result, so that bounds stay valid. With
    fewer losses, averages over the distribution take less time.
    """
    common = np.flatnonzero(atoms.mass >= CONFIG.rare)
    inside = slice(int(common[0]), int(common[-1]) + 1)
    trimmed = float(atoms.mass[: inside.start].sum() + atoms.mass[inside.stop :].sum()) * (1 + atoms.relative_error)
    return Atoms(atoms.loss[inside], atoms.mass[inside], atoms.relative_error, atoms.dropped + trimmed)


def _mean_at(atoms: Atoms, read: Callable[[Floats], Floats], x: Floats) -> Floats:
    """Return the mean E[f(x - L)] at the grid points `x` = 0, h, 2h, ..., for a loss L with the distribution `atoms`.

    `read` evaluates the function f at an array of epsilons; h is the grid step. If f is the privacy profile (delta as a
    function of epsilon) of later mechanisms, the result is the profile of the mechanisms of loss L followed by these.
    """
    # The rounding error of each difference x - L is at most 8 * 2^-53 (|x| + |L|). If the losses form a lattice whose
    # step divides h or is a multiple of h, many differences are equal, and f is read only once at each.
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
    """Return the distance between neighbouring losses, in steps of the caller's `grid`; None if they do not fit it.

    `loss` has losses in ascending order, and `grid` is the step of a grid of epsilons. Losses fit if they are equally
    spaced and their distance is n or 1/n grid steps, for a whole number n. The caller then saves time, because it reads
    a privacy profile (delta as a function of epsilon) at fewer different epsilons. The result is None also if there are
    fewer than two different losses.

    >>> _steps_of_lattice(np.array([0.0, 0.5, 1.0]), 0.25), _steps_of_lattice(np.array([0.0, 0.1]), 0.2)
    (Fraction(2, 1), Fraction(1, 2))
    """
    if loss.size < 2 or not loss[-1] > loss[0]:
        return None
    ratio = float(loss[-1] - loss[0]) / ((loss.size - 1) * grid)
    steps = Fraction(round(ratio)) if ratio > 1.0 else Fraction(1, round(1.0 / ratio))
    lattice = loss[0] + multiples(grid * steps.numerator / steps.denominator, 0, loss.size)
    return steps if float(np.abs(lattice - loss).max()) <= 4 * UNIT * float(np.abs(loss).max()) else None


def left_of(x: float, loss: Floats) -> Floats:
    """Return the differences `x` - `loss`, each lowered by more than its rounding error.

    `x` is the overall epsilon, and `loss` has privacy losses. The caller reads a privacy profile (delta as a function
    of epsilon) at the differences. A profile falls with epsilon, so a lowered epsilon gives a larger delta, which is
    safe for an upper bound.
    """
    margin = np.where(loss == 0.0, 0.0, 8 * UNIT * (abs(x) + np.abs(loss)))
    return np.asarray(x - loss - margin, dtype=np.float64)

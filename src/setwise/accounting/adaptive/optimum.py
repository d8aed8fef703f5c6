"""The largest delta of given mechanism uses against an adaptive adversary, bracketed to any accuracy.

The adversary chooses each mechanism, among those with the given guarantee, after seeing earlier answers. The order of
the guarantees is fixed ("ordered"), or the adversary chooses it too ("set-wise"). Uses are grouped into stages, which
the adversary goes through one after the other. The privacy profile (delta as a function of epsilon) is computed from
the last stage to the first:

- A linear stage has mechanisms with fixed dominating pairs. It averages the profile of the later stages over the
  privacy loss of its mechanisms.
- A bounded-range stage applies an operator (operator.py) to the profile of the later stages.

For set-wise use, two stages reach the largest delta: first all mechanisms with fixed dominating pairs, and then all
bounded-range mechanisms in their worst order (docs/optimal-composition.md).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from setwise.accounting.adaptive import dynamic_program, refinement, stages
from setwise.accounting.adaptive.dynamic_program import (
    Apply,
    DrawOrders,
    Group,
    draw_orders_of,
    grid_step,
    grid_work,
    in_worst_order,
    largest_gain,
    merge_groups,
    variance_of,
)
from setwise.accounting.adaptive.operator import BoundedRangeStep
from setwise.accounting.adaptive.profiles import Band, Profile, TailProfile, nothing_to_come
from setwise.accounting.adaptive.refinement import Trial, refine
from setwise.accounting.adaptive.stages import (
    LinearStage,
    RangeStage,
    Stage,
    adapting_saddle,
    average_over_losses,
    left_of,
    losses,
    profile_alone,
    proxy_saddle,
)
from setwise.accounting.brackets import (
    UNIT,
    USUAL,
    Bracket,
    Effort,
    Target,
    either_fails,
    epsilon_at,
    epsilon_between,
)
from setwise.accounting.guarantees import DiscreteLaplace, Laplace, PureDP
from setwise.accounting.losses.dominating_pairs import KnownNoise, enumerate_losses
from setwise.accounting.losses.lattice import NOTHING, Atoms, two_point_loss, worst_t
from setwise.accounting.losses.tilting import Saddle
from setwise.accounting.promises import delta_too_small
from setwise.errors import Unattainable


@dataclass(frozen=True, slots=True)
class OptimumConfig:
    """Constants for the largest delta over adaptive adversaries: the first grid, and when to use quick bounds.

    An adaptive adversary chooses mechanisms after seeing earlier answers. Privacy profiles (delta as a function of
    epsilon) are computed on grids of epsilons. In the texts below the constants, the expected epsilon is a quick
    estimate for an adversary who does not adapt to earlier answers. Uses have prices if too many combinations of uses
    can remain: an upper bound then tracks only the sum of the prices of the remaining uses (see `DrawOrders`). No proof
    depends on these constants; the text below each of them says what it decides.
    """

    ahead: float = 1.04
    """Length of the first grid, as a multiple of the expected epsilon. It exceeds 1 because adapting gains a little."""
    ahead_if_priced: float = 1.12
    """The same multiple if uses have prices, because upper bounds on delta are larger then. The estimated increase of
    epsilon by the prices is added to the length."""
    behind: float = 0.9
    """Share of the expected epsilon below which the final profile need not be accurate, because it is not read
    there."""
    few_uses: int = 60
    """With at most this many bounded-range uses, the grid extends to the largest possible loss. Such a grid is cheap,
    and is always long enough."""
    many_uses: int = 200
    """From this many bounded-range uses on, the delta of an adversary who does not adapt serves as the lower bound."""
    plain_shares: tuple[float, ...] = (0.98, 0.99, 0.995, 1.0, 1.005)
    """An adversary who does not adapt uses randomized responses with the losses t and t - epsilon, with one t for all.
    These multiples of the t that is worst at the expected epsilon are tried."""
    least_tilt: float = 0.5
    """Prices of uses are chosen for the rate at which log delta falls with epsilon. This is the smallest such rate, in
    units of one over the standard deviation of the total loss."""
    kink_work: float = 16.0
    """Extra work of adding one mechanism to a profile with kinks, divided by the squared number of grid cells across
    the smallest epsilon. Between two kinks, rounding decides which randomized response is worst, so all of them are
    tried."""
    usual_reach: float = 6.4
    """Estimates of work assume that a grid extends this many standard deviations of the loss beyond the epsilon that is
    read. For a tiny delta a grid has to be longer."""
    near: float = 1e-3
    """Accuracy to which an epsilon is read off a grid, as a share of the relative width aimed for."""
    epsilon_sharpness: float = 0.78
    """Measured relative width of the bracket for an epsilon, times the squared number of grid cells across the smallest
    epsilon of a mechanism. (For a delta this product is about -log delta.)"""
    atoms_sharpness: float = 5.0
    """The same product if the first uses are Laplace noise or pure DP, with too many losses to enumerate. The bracket
    is wider then, because some losses of positive probability lie between grid points."""


CONFIG = OptimumConfig()

_FAR = 1e9
"""An epsilon larger than the end of any grid."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The largest delta over all adversaries who go through `stages` in order.

    An adversary chooses each mechanism, among those with the guarantee of the use, after seeing earlier answers.

    - `stages`: each stage is a set of mechanism uses, which the adversary makes in any order. The uses of a stage all
      have fixed dominating pairs, or all have bounded range.
    - `failure` is a bracket (a certified interval) for the probability that some mechanism fails outright, that is,
      reveals everything.
    - `effort` has the width (relative to the upper end) that brackets should have if a caller names none, and the
      function that is called with the share of the work done.
    - `floor` is a known lower bound on the result of the method `epsilon`, or None. With a lower bound, the method at
      first computes only an upper bound, to save time; if the bracket is too wide, further runs compute both bounds.

    Requires: at least one bounded-range stage.
    Theorem: docs/optimal-composition.md; for stages of one mechanism each, the recursion for unequal parameters in the
    paper that this package implements (lem:adap_recursion_hetero).
    """

    stages: tuple[Stage, ...]
    failure: Bracket
    effort: Effort = USUAL
    floor: float | None = None

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return a bracket (a certified interval) for the largest delta at `epsilon` over all adversaries.

        An adversary goes through `stages` (sets of mechanism uses) in order, and chooses each mechanism after seeing
        earlier answers. `width` is the wanted width of the bracket, relative to its upper end. If it is None, the
        default width (in the field `effort`) is aimed for, and a wider bracket is accepted.

        Raises: `Unattainable` if the bracket cannot be made as narrow as `width`.
        """
        if epsilon >= self._support:
            return self.failure
        saddle = self._saddle()
        tilt = saddle.moderate(max(0.0, saddle.for_loss(epsilon)))
        height, mean, _ = saddle.at(tilt)
        sharpness = max(1.0, tilt * mean - height)  # about -log delta
        plain = self._plain_analyst(tilt)
        if plain is not None and (reached := plain(epsilon).lower) >= 1.0 - (width or self.effort.width):
            return Bracket(reached, 1.0)  # no grid is needed where nearly everything is revealed

        def attempt(trial: Trial) -> Bracket:
            return self._solve_on_grid(epsilon, tilt, trial, epsilon).delta(epsilon)

        # The delta of an analyst who does not adapt is a few percent below the optimum. If `refine` knew it, it would
        # first run for the upper end alone, and then repeat that run for both ends.
        bracket = self._refine(attempt, width, tilt, sharpness, None)
        floor = 0.0 if plain is None else min(plain(epsilon).lower, bracket.upper)
        return Bracket(max(bracket.lower, floor), bracket.upper)

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return a bracket (certified interval) for the smallest epsilon at which the largest delta is at most `delta`.

        The largest delta is over all adversaries, who go through `stages` (sets of mechanism uses) in order and choose
        each mechanism after seeing earlier answers. `width` is the wanted width of the bracket, relative to its upper
        end. If it is None, the default width (in the field `effort`) is aimed for, and a wider bracket is accepted.

        Raises: `Unattainable` if `delta` is not above the probability of outright failure (in which everything may be
        revealed), or if the bracket cannot be made as narrow as `width`.
        """
        if delta <= self.failure.upper:
            raise Unattainable(delta_too_small(delta, self.failure.upper))
        saddle = self._saddle()
        tilt = saddle.moderate(saddle.for_delta(delta - self.failure.upper))
        plain = self._plain_analyst(tilt) if self.floor is None else None
        near = CONFIG.near * (width or self.effort.width)
        floor = self.floor if plain is None else epsilon_at(delta, plain, saddle.at(tilt)[1]).lower
        about = saddle.at(tilt)[1]
        begin = max(floor or 0.0, CONFIG.behind * about)
        longest = self._estimate_epsilon(delta - self.failure.upper, about)

        def attempt(trial: Trial) -> Bracket:
            return self._solve_on_grid(longest, tilt, trial, begin).epsilon(delta, near, about)

        sharpness = CONFIG.atoms_sharpness if self._begins_with_atoms else CONFIG.epsilon_sharpness
        bracket = self._refine(attempt, width, tilt, sharpness, floor)
        return Bracket(min(bracket.lower, self._support), min(bracket.upper, self._support))

    def reached(self, target: Target) -> float:
        """Return quickly a lower bound on the delta at a given epsilon, or on the epsilon at a given delta.

        `target` has the given number, and says which of the two is wanted. The delta at an epsilon is the largest over
        all adversaries, who go through the stages (sets of mechanism uses) in order and choose each mechanism after
        seeing earlier answers. The epsilon at a delta is the smallest one at which that largest delta is at most the
        given one.

        The result comes from a single run on a coarse grid of epsilons, and is usually a few parts in a thousand below
        the true value.

        Raises: `Unattainable` if the coarse grid takes too much work, or if the given delta is not above the
        probability of outright failure (in which everything may be revealed).
        """
        saddle = self._saddle()
        trial = Trial(dynamic_program.CONFIG.usual_cells)
        if self._work(trial.cells, 0.0) > refinement.CONFIG.quick_work:
            raise Unattainable("the grid for these uses takes long")
        if target.wanted == "delta":
            tilt = saddle.moderate(max(0.0, saddle.for_loss(target.given)))
            return self._solve_on_grid(target.given, tilt, trial, target.given).delta(target.given).lower
        if target.given <= self.failure.upper:
            raise Unattainable(delta_too_small(target.given, self.failure.upper))
        tilt = saddle.moderate(saddle.for_delta(target.given - self.failure.upper))
        about = saddle.at(tilt)[1]
        longest = self._estimate_epsilon(target.given - self.failure.upper, about)
        solution = self._solve_on_grid(longest, tilt, trial, CONFIG.behind * about)
        return solution.epsilon(target.given, CONFIG.near * self.effort.width, about).lower

    def profile(self, epsilon: float, tilt: float, cells: int) -> Profile:
        """Return an upper bound on the delta of the uses of all stages, as a function of epsilon.

        A stage is a set of mechanism uses. Delta is the largest over all adversaries, who go through the stages in
        order and choose each mechanism after seeing earlier answers. The result is a privacy profile: delta on a grid
        of epsilons. It has upper bounds only. Outright failures (in which everything may be revealed) are not included.

        - `epsilon` is about the largest epsilon for which the bound has to be accurate.
        - `tilt` is for adding up losses L of independent uses: their probabilities are weighted by exp(tilt L), to keep
          the digits of small probabilities.
        - `cells` is the number of grid cells across the smallest epsilon of a mechanism; more cells give a closer
          bound.

        Requires: a stage of bounded-range mechanisms comes first.
        """
        return self._solve_on_grid(epsilon, tilt, Trial(cells, upper_only=True)).rest

    def _refine(
        self,
        attempt: Callable[[Trial], Bracket],
        width: float | None,
        tilt: float,
        sharpness: float,
        floor: float | None,
    ) -> Bracket:
        """Return the intersection of the brackets (certified intervals) that `attempt` computes on ever finer grids.

        Each grid is a list of epsilons on which one computation of the largest delta is done. The search for a narrow
        bracket ends when the bracket is as narrow as wanted.

        - `attempt` computes the bracket for a delta or an epsilon on one grid. Its argument, a `Trial`, says how fine
          and how long the grid is.
        - `width` is the wanted width of the bracket, relative to its upper end; None takes the default.
        - `tilt` is the rate at which log(delta) is expected to fall when epsilon grows. The work of a computation is
          estimated from it.
        - `sharpness` says how wide a bracket is on a given grid: about `sharpness` / c^2, relative to its upper end,
          where c is the number of grid cells across the smallest epsilon of a mechanism.
        - `floor` is a lower bound on the delta or epsilon that is known already, or None. With such a bound, the first
          computations leave the lower end out, which saves time.
        """
        longer = max(1.0, math.sqrt(2.0 * sharpness) / CONFIG.usual_reach)
        return refine(
            attempt,
            lambda cells: longer * self._work(cells, tilt),
            width=width,
            aim=self.effort.width,
            exact=self._upper_bound_is_exact(tilt),
            tilted=self._needs_tilt,
            sharpness=sharpness,
            floor=floor,
        )

    def _plain_analyst(self, tilt: float) -> Callable[[float], Bracket] | None:
        """Return a lower bound on the largest delta, as a function of epsilon; None if it would not be close.

        The largest delta is over all adversaries, who choose mechanisms after seeing earlier answers. The lower bound
        is the delta of one simple adversary, who chooses all mechanisms up front; it is quick to compute. With many
        bounded-range uses, adapting gains little, so the bound is close. It is returned only in this case: there are at
        least `CONFIG.many_uses` bounded-range uses, all of one epsilon, and before them at most one stage of uses with
        fixed dominating pairs, whose losses are few enough to be listed one by one.

        The simple adversary uses randomized responses that are about the worst if log delta falls with epsilon at the
        rate `tilt`.
        """
        # The analyst uses randomized response with the same parameter t for all bounded-range mechanisms. A few t are
        # tried, near the t that is worst if profiles fall like exp(-`tilt` x), and the largest delta is taken.
        match self.stages:
            case (RangeStage(groups=((epsilon, count),)),) if count >= CONFIG.many_uses:
                before = NOTHING
            case (LinearStage(uses=uses), RangeStage(groups=((epsilon, count),))) if count >= CONFIG.many_uses:
                linear_losses = enumerate_losses(uses, stages.CONFIG.most_enumerated)
                if linear_losses is None:
                    return None
                before = linear_losses
            case _:
                return None
        middle = worst_t(epsilon, max(tilt, 1e-9))
        choices = [t for t in middle * np.array(CONFIG.plain_shares) if 0.0 < t < epsilon]
        losses = [two_point_loss(float(t), float(t) - epsilon, count) for t in choices]

        def at_worst(x: float) -> Bracket:
            return max((before.average(loss, x) for loss in losses), key=lambda bracket: bracket.lower)

        return lambda x: either_fails(self.failure, at_worst(x))

    @property
    def _support(self) -> float:
        """Largest privacy loss that the mechanisms of all stages can have together, rounded up.

        At every epsilon from this loss on, delta is only the probability of outright failure (in which everything may
        be revealed), so nothing needs to be computed.
        """
        return math.fsum(stage.support for stage in self.stages) * (1 + 1e-14)

    @property
    def _needs_tilt(self) -> bool:
        """Whether more than one tilt must be tried, because some mechanisms have too many privacy losses to enumerate.

        A tilt is a number: while losses are summed, the probability of each loss L is weighted by exp(tilt L), to keep
        the digits that matter. If the losses of the mechanisms with fixed dominating pairs are too many, they are
        rounded to a lattice (equally spaced losses), and how many digits are kept then depends on the tilt.
        """
        linear = [stage for stage in self.stages if isinstance(stage, LinearStage)]
        return any(enumerate_losses(stage.uses, stages.CONFIG.most_enumerated) is None for stage in linear)

    @property
    def _stages_of_groups(self) -> list[tuple[Group, ...]]:
        """The bounded-range mechanisms of each stage, as pairs (epsilon, count), in the order of the stages.

        A stage is a set of mechanism uses, made in any order. Stages without bounded-range mechanisms are left out.
        """
        return [stage.groups for stage in self.stages if isinstance(stage, RangeStage)]

    @property
    def _groups(self) -> list[Group]:
        """All bounded-range mechanisms of all stages as pairs (epsilon, count), in one list."""
        return [group for groups in self._stages_of_groups for group in groups]

    @property
    def _smallest_epsilon(self) -> float:
        """Smallest bounded-range epsilon that the upper bound on delta uses; smaller epsilons are rounded up to it.

        Rounding up can only raise delta. Without it, a very small epsilon would need too many grid cells, because a
        cell is a fraction of the smallest epsilon. The result is the largest bounded-range epsilon /
        `DrawConfig.largest_ratio`.
        """
        return max(epsilon for epsilon, _ in self._groups) / dynamic_program.CONFIG.largest_ratio

    def _draws(self, groups: Sequence[Group], tilt: float) -> DrawOrders:
        """Return the mechanisms of one stage as the input of the dynamic program for the upper bound on delta.

        The program computes the largest delta over all orders, also adaptive ones, in which these mechanisms can be
        used.

        - `groups` are bounded-range mechanisms as (epsilon, count). Very small epsilons are rounded up, which can only
          raise delta.
        - `tilt` is the rate at which log delta is expected to fall with epsilon. If the program would have to track too
          many combinations of remaining uses, the result has a price for each use, chosen for this rate. The program
          then tracks only the sum of the prices of the remaining uses (see `DrawOrders`).
        """
        # The states are for the upper bound: epsilons below `_smallest_epsilon` are rounded up to it. If there would be
        # too many vectors of remaining counts, the states are sums of prices (see `DrawOrders`), which are chosen for
        # profiles that fall like exp(-`tilt` x).
        tilt = max(tilt, CONFIG.least_tilt / math.sqrt(variance_of(self._groups)))
        return draw_orders_of(tuple((max(epsilon, self._smallest_epsilon), count) for epsilon, count in groups), tilt)

    def _upper_bound_is_exact(self, tilt: float) -> bool:
        """Return whether finer grids of epsilons bring the upper bound on delta as close to the true delta as wanted.

        The true delta is the largest one over all orders, also adaptive ones, in which the uses can be made. The result
        is False if one of two shortcuts keeps the upper bound above it on every grid:

        - The smallest epsilons of mechanisms are rounded up, so that grids need fewer points.
        - Each use has a price, and the computation tracks only the sum of the prices of the remaining uses, because
          there are too many combinations of remaining uses. The same sum can stand for several combinations, so orders
          that use a mechanism more often than it may be used are counted too (see `DrawOrders`).

        `tilt` is the rate at which log delta is expected to fall with epsilon. The prices depend on it.
        """
        # It allows such orders if its states are sums of prices (see `DrawOrders`, chosen for `tilt`) instead of
        # vectors of remaining counts.
        return all(
            self._draws(groups, tilt) == DrawOrders(tuple(merge_groups(groups))) for groups in self._stages_of_groups
        )

    def excess(self, tilt: float) -> float:
        """Return how much looser the upper bound on delta is because of two shortcuts in its computation.

        - The first shortcut rounds small epsilons of mechanisms up.
        - The second gives each use a price, and tracks only the sum of the prices of the remaining uses. So orders that
          use some mechanism more often than allowed are counted too.

        Both raise the largest log E[exp(`tilt` L)] that the total privacy loss L of all uses can have. The result is by
        how much; it is 0 if no shortcut is taken. Divided by `tilt`, it is about the amount by which the shortcuts
        raise epsilon. Callers compare bounds by this number, and choose the one that loses least.
        """
        return math.fsum(
            largest_gain(self._draws(groups, tilt), tilt) - largest_gain(DrawOrders(groups), tilt)
            for groups in self._stages_of_groups
        )

    def _work(self, cells: int, tilt: float) -> float:
        """Return the estimated work of computing delta on a grid with `cells` cells across the smallest epsilon.

        From this estimate the caller chooses a grid that is quick enough. The computation adds one mechanism after
        another to a privacy profile (delta as a function of epsilon). One unit of work adds one mechanism at one grid
        point. The result is infinite if the largest epsilon of a mechanism spans too many cells.

        `tilt` is the rate at which log delta is expected to fall with epsilon. The number of steps depends on it.
        """
        epsilons = [epsilon for epsilon, _ in self._groups]
        if cells * max(epsilons) / max(min(epsilons), self._smallest_epsilon) > refinement.CONFIG.most_cells:
            return math.inf
        steps = sum(self._draws(groups, tilt).steps for groups in self._stages_of_groups)
        return grid_work(self._groups, steps, cells) + (CONFIG.kink_work * steps * cells**2 if self._has_kinks else 0.0)

    @property
    def _has_kinks(self) -> bool:
        """Whether some pure-DP or Laplace uses come after the first stage (set of mechanism uses) of the interaction.

        Such uses have losses of positive probability. These losses give the privacy profile (delta as a function of
        epsilon) kinks, so that adding a bounded-range mechanism to the profile takes more work. Estimates of the work
        allow for this.
        """
        # Their losses have atoms (losses of positive probability), so profiles have kinks.
        later_stages = [stage for stage in self.stages[1:] if isinstance(stage, LinearStage)]
        return any(
            isinstance(noise, PureDP | Laplace | DiscreteLaplace) for stage in later_stages for noise, _ in stage.uses
        )

    @property
    def _begins_with_atoms(self) -> bool:
        """Whether brackets need a finer grid, because losses of positive probability are rounded in the first stage.

        The first stage is the set of mechanism uses that come first. True if it has pure-DP or Laplace uses (whose
        losses have positive probability) and too many different total losses to list one by one. The losses are then
        rounded to the grid, which makes brackets (certified intervals) wider.
        """
        match self.stages[0]:
            case LinearStage(uses=uses):
                return (
                    any(isinstance(noise, PureDP | Laplace | DiscreteLaplace) for noise, _ in uses)
                    and enumerate_losses(uses, stages.CONFIG.most_enumerated) is None
                )
            case _:
                return False

    def _saddle(self) -> Saddle:
        """Return the approximate loss distribution of all uses, from which the exponential tilt is chosen.

        A tilt weights the probability of each loss L by exp(tilt L), so that the losses that decide delta become
        likely. The approximation is quick to compute, and no bound is read from it.
        """
        # Losses are on a coarse lattice, and randomized response with half the epsilon replaces each bounded range.
        return proxy_saddle(self._linear_uses, self._groups)

    @property
    def _linear_uses(self) -> list[tuple[KnownNoise, int]]:
        return [use for stage in self.stages if isinstance(stage, LinearStage) for use in stage.uses]

    def _estimate_epsilon(self, delta: float, plain: float) -> float:
        """Return a rough estimate of the optimal epsilon at `delta`, from which the length of a grid is chosen.

        `plain` is an estimate of the epsilon at `delta` if all mechanisms are chosen up front. An adversary who adapts
        to earlier answers may reach an epsilon some percent larger if bounded-range epsilons are 1 or more. So the
        result is the larger of `plain` and an estimate for adversaries who adapt.
        """
        return max(plain, adapting_saddle(self._linear_uses, self._groups).epsilon(delta))

    def _solve_on_grid(self, about: float, full_tilt: float, trial: Trial, begin: float = 0.0) -> "_GridSolution":
        """Return an object that gives bounds on the largest delta at any epsilon, computed on one grid of epsilons.

        The largest delta is over all adversaries, who go through `stages` (sets of mechanism uses) in order. The grid
        has equally spaced epsilons.

        - `about`: the result is accurate near this overall epsilon.
        - `full_tilt`: before losses L of independent uses are added up, their probabilities are weighted by exp(tilt
          L), so that rare losses keep their digits. The tilt is `full_tilt` times `trial.tilt_share`.
        - `trial` has the fineness and the length of the grid of epsilons.
        - `begin`: the result is less accurate at epsilons below this one, because grid points are left out to save
          time.
        """
        # The computation goes backwards, from the stage that the analyst uses last to the first.
        plain = Optimum(self.stages, self.failure, Effort(progress=self.effort.progress))
        return _solved_on_grid(plain, about, full_tilt, trial, begin)

    def _run(
        self,
        step: float,
        read: tuple[float, float],
        tilt: float,
        parts: Callable[[Sequence[Group]], list[DrawOrders]],
        apply: Apply,
    ) -> "_GridSolution":
        """Return an object that gives the largest delta over all adversaries at any epsilon, computed on one grid.

        An adversary goes through `stages` (sets of mechanism uses) in order, and chooses each mechanism after seeing
        earlier answers. The computation goes backwards from the last stage. It starts from the privacy profile (delta
        as a function of epsilon) of no mechanism. Stage by stage it computes the profile of one more stage followed by
        the later stages.

        - `step` is the distance of neighbouring points of the grid, which are epsilons.
        - `read` has the smallest and the largest epsilon (may be infinite) at which the result will be read. They
          decide which grid points are stored.
        - `tilt` keeps the digits of rare losses: where losses L of independent uses are added up, their probabilities
          are weighted by exp(tilt L).
        - `parts` is called with the mechanisms of a bounded-range stage, as pairs (epsilon, count), and decides how
          freely the adversary may order them. It divides them into a list of `DrawOrders`. Within one entry, any order
          is allowed. The entries themselves have a fixed order, and are listed from the one used last to the one used
          first. For an upper bound on delta, one entry has all mechanisms; for a lower bound, one particular order is
          enough.
        - `apply(operator, profile, size)` puts one bounded-range mechanism, which `operator` stands for, before the
          mechanisms of `profile`, and returns the new profile at `size` grid points. The caller chooses whether `apply`
          computes lower bounds on delta too, or only upper bounds.
        """
        # If the mechanisms of the first stage have fixed dominating pairs, their loss distribution is not combined with
        # the profile of the later stages. Both are returned, and delta is computed later, only at the epsilons of
        # interest.
        variance = math.fsum(stage.variance for stage in self.stages)
        height, mean, _ = self._saddle().at(tilt)
        begin, end = read
        band = Band(step, end, variance, depth=max(0.0, tilt * mean - height), begin=begin)
        tail = TailProfile(nothing_to_come(step))
        total = sum(count for _, count in self._groups)
        so_far = 0

        def advance(_: float) -> None:
            nonlocal so_far
            so_far += 1
            self.effort.progress(so_far / total)

        for index in range(len(self.stages) - 1, -1, -1):
            match self.stages[index]:
                case RangeStage(groups=groups):
                    for draws in parts(groups):
                        tail = in_worst_order(draws, tail, band, apply, advance)
                case LinearStage() as stage if index == 0:
                    smallest = max(self._smallest_epsilon, min(epsilon for epsilon, _ in self._groups))
                    upper, lower = losses(stage, tilt, stages.CONFIG.first_tolerance * (step / smallest) ** 2)
                    return _GridSolution(upper, lower, tail.profile, self.failure)
                case LinearStage() as stage if index == len(self.stages) - 1:
                    tail = profile_alone(stage, band, tilt)
                case LinearStage() as stage:
                    tail = average_over_losses(stage, tail, band, tilt)
        return _GridSolution(NOTHING, NOTHING, tail.profile, self.failure)


@lru_cache(maxsize=8)
def _solved_on_grid(optimum: Optimum, about: float, full_tilt: float, trial: Trial, begin: float) -> "_GridSolution":
    """Return an object that gives bounds on the largest delta over all adversaries, computed on one grid of epsilons.

    The adversaries go through the stages (sets of mechanism uses) of `optimum` in order, and choose each mechanism
    after seeing earlier answers.

    - `about`: the bounds are accurate near this overall epsilon.
    - `full_tilt`: where losses L of independent uses are added up, their probabilities are weighted by exp(tilt L), to
      keep the digits of rare losses. The tilt is `full_tilt` times `trial.tilt_share`.
    - `trial` has the fineness and the length of the grid.
    - `begin`: the bounds are less accurate at epsilons below this one, because grid points are left out to save time.

    The result is cached, because several bounds need it.
    """
    least, tilt = optimum._smallest_epsilon, trial.tilt_share * full_tilt
    step = grid_step([max(epsilon, least) for epsilon, _ in optimum._groups], trial.cells)
    apply = BoundedRangeStep.apply_upper if trial.upper_only else BoundedRangeStep.apply

    def in_any_order(groups: Sequence[Group]) -> list[DrawOrders]:
        return [optimum._draws(groups, tilt)]

    def smaller_first(groups: Sequence[Group]) -> list[DrawOrders]:
        return [DrawOrders((group,)) for group in reversed(merge_groups(groups)) if group[0] >= least]

    exact = optimum._upper_bound_is_exact(tilt)  # priced draws can have a total loss far above the largest real loss
    ahead = CONFIG.ahead * about
    if not exact and tilt > 0.0:
        ahead = CONFIG.ahead_if_priced * about + optimum.excess(tilt) / tilt
    end = trial.stretch * ahead
    if exact and optimum._support < math.inf and sum(count for _, count in optimum._groups) <= CONFIG.few_uses:
        end = math.inf
    upper = optimum._run(step, (begin, end), tilt, in_any_order, apply)
    if exact:
        return upper
    # Parameters were rounded up or priced, so the lower bound comes from one real order: smaller epsilons first.
    lower = optimum._run(step, (begin, end), tilt, smaller_first, apply)
    size = upper.rest.upper.size
    values = lower.rest.lower[:size]
    combined = replace(upper.rest, lower=np.concatenate((values, np.zeros(size - values.size))))
    return replace(upper, rest=combined)


@dataclass(frozen=True, slots=True)
class _GridSolution:
    """The result of one computation on a grid of epsilons, from which the largest delta is read at any epsilon.

    The largest delta is over all adversaries, who go through the stages (sets of mechanism uses) in order and choose
    each mechanism after seeing earlier answers. The mechanisms used first may have fixed dominating pairs. Their losses
    are then not yet part of the grid: when delta is read at an epsilon x, `rest` is averaged over x minus these losses.

    - `upper` is the distribution of these losses, rounded so that delta can only rise. The distribution has only the
      loss 0 if the mechanisms used first have bounded range.
    - `lower` is the same distribution, rounded so that delta can only fall.
    - `rest` is the privacy profile (delta as a function of epsilon) of all mechanisms that `upper` does not cover.
    - `failure` is the bracket (certified interval) for the probability of outright failure, in which everything may be
      revealed.
    """

    # `upper` and `lower` have only the loss 0 unless the mechanisms used first have fixed dominating pairs.

    upper: Atoms
    lower: Atoms
    rest: Profile
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket (a certified interval) for the largest delta at `epsilon` over all adversaries.

        The adversaries go through the stages (sets of mechanism uses) for which this object was computed. The
        probability of outright failure (in which everything may be revealed) is included.
        """
        above, below = self._above(epsilon), self._below(epsilon)
        return either_fails(self.failure, Bracket(min(above, below), above))

    def epsilon(self, delta: float, near: float, guess: float) -> Bracket:
        """Return lower and upper bounds on the smallest epsilon at which the largest delta is at most `delta`.

        The largest delta is over all adversaries.

        - `near` is the relative accuracy of the upper bound.
        - `guess` is the epsilon at which the search starts.

        The grid covers epsilons up to some largest one. If the largest delta may still be above `delta` there, the
        bounds are 0 and infinity, and the caller needs a longer grid.
        """
        if either_fails(self.failure, Bracket(0.0, self._above(_FAR))).upper >= delta:
            return Bracket(0.0, math.inf)  # the grid ends before the profile gets there
        return epsilon_between(
            delta,
            lambda x: either_fails(self.failure, Bracket(0.0, self._above(x))).upper,
            lambda x: either_fails(self.failure, Bracket(self._below(x), 1.0)).lower,
            guess=max(1e-6, min(guess, self.rest.end)),
            near=near,
        )

    def _above(self, epsilon: float) -> float:
        """Return an upper bound on the largest delta at `epsilon` over all adversaries, if no mechanism fails outright.

        In an outright failure, everything may be revealed. The caller adds the probability of such failures.
        """
        average = float((self.upper.mass * self.rest.read_upper(left_of(epsilon, self.upper.loss))).sum())
        return min(average * (1 + self.upper.relative_error + (self.upper.size + 8) * UNIT) + self.upper.dropped, 1.0)

    def _below(self, epsilon: float) -> float:
        """Return a certified lower bound on the largest delta at `epsilon` over all adversaries.

        Outright failures, in which everything may be revealed, are not included here; the caller adds their
        probability.
        """
        average = float((self.lower.mass * self.rest.read_lower(-left_of(-epsilon, -self.lower.loss))).sum())
        return min(max(average * (1 - self.lower.relative_error - (self.lower.size + 8) * UNIT), 0.0), 1.0)

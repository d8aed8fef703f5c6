"""The certified optimum: what an adaptive analyst can learn at most, to any accuracy.

The uses are taken in stages, first to last. A linear stage (mechanisms with fixed dominating pairs) averages the
profile of what follows; a bounded-range stage applies its operator. The set-wise optimum has two stages: everything
linear, then all bounded-range mechanisms in their worst order (docs/optimal-composition.md).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from setwise.accounting.adaptive import dynamic_program, refinement, stages
from setwise.accounting.adaptive.dynamic_program import (
    Apply,
    DrawOrders,
    Group,
    added_up,
    draw_orders_of,
    grid_step,
    grid_work,
    in_worst_order,
    variance_of,
)
from setwise.accounting.adaptive.operator import Band, BoundedRangeStep, Profile, TailProfile, nothing_to_come
from setwise.accounting.adaptive.refinement import Trial, refine
from setwise.accounting.adaptive.stages import (
    LinearStage,
    RangeStage,
    Stage,
    alone,
    averaged,
    left_of,
    losses,
    proxy_saddle,
)
from setwise.accounting.brackets import UNIT, USUAL, Bracket, Effort, either_fails, epsilon_at, epsilon_between
from setwise.accounting.guarantees import DiscreteLaplace, Laplace, PureDP
from setwise.accounting.losses.dominating_pairs import enumerated
from setwise.accounting.losses.lattice import NOTHING, Atoms, two_point_loss, worst_t
from setwise.accounting.losses.tilting import Saddle
from setwise.errors import Unattainable


@dataclass(frozen=True, slots=True)
class OptimumConfig:
    """How far the first grid reaches, and when a quick lower bound is taken. Nothing here is part of a proof."""

    ahead: float = 1.04
    """Reach of the first grid over the epsilon expected of an analyst who does not adapt: adapting gains a little."""
    few_uses: int = 60
    """Bounded-range uses up to which a grid reaches to the largest loss: that is cheap, and always enough."""
    many_uses: int = 200
    """Bounded-range uses from which on an analyst who does not adapt comes close enough to serve as the lower bound."""
    plain_shares: tuple[float, ...] = (0.98, 0.99, 0.995, 1.0, 1.005)
    """What that analyst tries for t, as shares of the t that the tilt suggests."""
    least_tilt: float = 0.5
    """Smallest tilt that sets prices of draws, over one standard deviation of the loss."""
    kink_work: float = 16.0
    """Work of a step on a profile with kinks, over its squared number of cells: between two kinks round-off decides
    where t is best, and every t is tried."""
    near: float = 1e-3
    """Share of the relative width aimed for to which an epsilon is read off a grid."""
    epsilon_sharpness: float = 0.78
    """Relative width of epsilon times the squared number of cells, as seen on grids; the width of delta is about
    -log delta over the square."""


CONFIG = OptimumConfig()

_FAR = 1e9
"""An epsilon beyond all grids."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The largest delta over all analysts who go through the stages in order.

    Requires: at least one bounded-range stage.
    Theorem: docs/optimal-composition.md; lem:adap_recursion_hetero for stages of one mechanism each.
    """

    stages: tuple[Stage, ...]
    failure: Bracket
    effort: Effort = USUAL

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return the optimal delta at epsilon; a relative `width` that cannot be reached is refused."""
        if epsilon >= self._support:
            return self.failure
        saddle = self._saddle()
        tilt = saddle.moderate(max(0.0, saddle.for_loss(epsilon)))
        height, mean, _ = saddle.at(tilt)
        sharpness = max(1.0, tilt * mean - height)  # about -log delta
        plain = self._plain_analyst(tilt)

        def attempt(trial: Trial) -> Bracket:
            return self._solved(epsilon, tilt, trial).delta(epsilon)

        return self._refined(attempt, width, tilt, sharpness, plain and plain(epsilon).lower)

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return the smallest epsilon whose delta is at most `delta`; a relative `width` out of reach is refused."""
        if delta <= self.failure.upper:
            raise Unattainable(
                f"delta = {delta!r} is not above {self.failure.upper:.3g}, the chance of outright failure"
            )
        saddle = self._saddle()
        tilt = saddle.moderate(saddle.for_delta(delta - self.failure.upper))
        plain = self._plain_analyst(tilt)
        near = CONFIG.near * (width or self.effort.width)

        def attempt(trial: Trial) -> Bracket:
            return self._solved(saddle.at(tilt)[1], tilt, trial).epsilon(delta, near)

        floor = plain and epsilon_at(delta, plain, saddle.at(tilt)[1]).lower
        found = self._refined(attempt, width, tilt, CONFIG.epsilon_sharpness, floor)
        return Bracket(min(found.lower, self._support), min(found.upper, self._support))

    def profile(self, epsilon: float, tilt: float, cells: int) -> Profile:
        """Return the profile from above, accurate up to about epsilon.

        Requires: a bounded-range stage comes first.
        """
        return self._solved(epsilon, tilt, Trial(cells, upper_only=True)).rest

    def _refined(
        self,
        attempt: Callable[[Trial], Bracket],
        width: float | None,
        tilt: float,
        sharpness: float,
        floor: float | None,
    ) -> Bracket:
        return refine(
            attempt,
            lambda cells: self._work(cells, tilt),
            width=width,
            aim=self.effort.width,
            exact=self._exactly_drawn(tilt),
            tilted=self._tilted,
            sharpness=sharpness,
            floor=floor,
        )

    def _plain_analyst(self, tilt: float) -> Callable[[float], Bracket] | None:
        """Return the delta of an analyst who takes one t throughout, the best of a few, where that is exact.

        With many bounded-range uses adaptivity gains little, and the lower bound is a binomial sum.
        """
        match self.stages:
            case (RangeStage(groups=((epsilon, count),)),) if count >= CONFIG.many_uses:
                before = NOTHING
            case (LinearStage(uses=uses), RangeStage(groups=((epsilon, count),))) if count >= CONFIG.many_uses:
                found = enumerated(uses, stages.CONFIG.most_enumerated)
                if found is None:
                    return None
                before = found
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
        """The largest loss, rounded up."""
        return math.fsum(stage.support for stage in self.stages) * (1 + 1e-14)

    @property
    def _tilted(self) -> bool:
        """Whether some stage is a lattice, whose accuracy depends on the tilt."""
        linear = [stage for stage in self.stages if isinstance(stage, LinearStage)]
        return any(enumerated(stage.uses, stages.CONFIG.most_enumerated) is None for stage in linear)

    @property
    def _stages_of_groups(self) -> list[tuple[Group, ...]]:
        return [stage.groups for stage in self.stages if isinstance(stage, RangeStage)]

    @property
    def _groups(self) -> list[Group]:
        return [group for groups in self._stages_of_groups for group in groups]

    @property
    def _least(self) -> float:
        """The epsilon to which smaller ones are rounded up from above: one grid must serve all."""
        return max(epsilon for epsilon, _ in self._groups) / dynamic_program.CONFIG.largest_ratio

    def _draws(self, groups: Sequence[Group], tilt: float) -> DrawOrders:
        """Return how a stage is drawn from, for the bound from above."""
        tilt = max(tilt, CONFIG.least_tilt / math.sqrt(variance_of(self._groups)))
        return draw_orders_of(tuple((max(epsilon, self._least), count) for epsilon, count in groups), tilt)

    def _exactly_drawn(self, tilt: float) -> bool:
        """Return whether the bound from above allows no more than the parameters do."""
        return all(
            self._draws(groups, tilt) == DrawOrders(tuple(added_up(groups))) for groups in self._stages_of_groups
        )

    def _work(self, cells: int, tilt: float) -> float:
        epsilons = [epsilon for epsilon, _ in self._groups]
        if cells * max(epsilons) / max(min(epsilons), self._least) > refinement.CONFIG.most_cells:
            return math.inf
        steps = sum(self._draws(groups, tilt).steps for groups in self._stages_of_groups)
        return grid_work(self._groups, steps, cells) + (CONFIG.kink_work * steps * cells**2 if self._kinked else 0.0)

    @property
    def _kinked(self) -> bool:
        """Whether the profile behind some bounded-range stage has kinks, as that of losses with atoms."""
        behind = [stage for stage in self.stages[1:] if isinstance(stage, LinearStage)]
        return any(isinstance(known, PureDP | Laplace | DiscreteLaplace) for stage in behind for known, _ in stage.uses)

    def _saddle(self) -> Saddle:
        """Return a coarse version of everything, a bounded-range mechanism as its worst randomized response."""
        linear = [use for stage in self.stages if isinstance(stage, LinearStage) for use in stage.uses]
        return proxy_saddle(linear, self._groups)

    def _solved(self, about: float, full_tilt: float, trial: Trial) -> "_Solved":
        """Return the profile of all but the first stage, accurate when read at about the given overall epsilon."""
        least, tilt = self._least, trial.tilt_share * full_tilt
        step = grid_step([max(epsilon, least) for epsilon, _ in self._groups], trial.cells)
        apply = BoundedRangeStep.apply_upper if trial.upper_only else BoundedRangeStep.apply

        def in_any_order(groups: Sequence[Group]) -> list[DrawOrders]:
            return [self._draws(groups, tilt)]

        def smaller_first(groups: Sequence[Group]) -> list[DrawOrders]:
            return [DrawOrders((group,)) for group in reversed(added_up(groups)) if group[0] >= least]

        end = CONFIG.ahead * trial.stretch * about
        exact = self._exactly_drawn(tilt)  # what prices allow may reach far beyond the largest loss
        if exact and self._support < math.inf and sum(count for _, count in self._groups) <= CONFIG.few_uses:
            end = math.inf
        upper = self._run(step, end, tilt, in_any_order, apply)
        if exact:
            return upper
        # Parameters were rounded up or priced: the lower bound is that of one order which the analyst can take.
        lower = self._run(step, end, tilt, smaller_first, apply)
        size = upper.rest.upper.size
        values = lower.rest.lower[:size]
        rest = replace(upper.rest, lower=np.concatenate((values, np.zeros(size - values.size))))
        return replace(upper, rest=rest)

    def _run(
        self,
        step: float,
        end: float,
        tilt: float,
        parts: Callable[[Sequence[Group]], list[DrawOrders]],
        apply: Apply,
    ) -> "_Solved":
        """Apply the stages from the last to the second; the first, if it is linear, is kept for the reading."""
        variance = math.fsum(stage.variance for stage in self.stages)
        height, mean, _ = self._saddle().at(tilt)
        band = Band(step, end, variance, depth=max(0.0, tilt * mean - height))
        done = TailProfile(nothing_to_come(step))
        total = sum(count for _, count in self._groups)
        so_far = 0

        def advance(_: float) -> None:
            nonlocal so_far
            so_far += 1
            self.effort.progress(so_far / total)

        for index in range(len(self.stages) - 1, -1, -1):
            match self.stages[index]:
                case RangeStage(groups=groups):
                    for part in parts(groups):
                        done = in_worst_order(part, done, band, apply, advance)
                case LinearStage() as stage if index == 0:
                    smallest = max(self._least, min(epsilon for epsilon, _ in self._groups))
                    upper, lower = losses(stage, tilt, stages.CONFIG.first_tolerance * (step / smallest) ** 2)
                    return _Solved(upper, lower, done.profile, self.failure)
                case LinearStage() as stage if index == len(self.stages) - 1:
                    done = alone(stage, band, tilt)
                case LinearStage() as stage:
                    done = averaged(stage, done, band, tilt)
        return _Solved(NOTHING, NOTHING, done.profile, self.failure)


@dataclass(frozen=True, slots=True)
class _Solved:
    """Losses of the first stage, and the profile of all that follows."""

    upper: Atoms
    lower: Atoms
    rest: Profile
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        above, below = self._above(epsilon), self._below(epsilon)
        return either_fails(self.failure, Bracket(min(above, below), above))

    def epsilon(self, delta: float, near: float) -> Bracket:
        if either_fails(self.failure, Bracket(0.0, self._above(_FAR))).upper >= delta:
            return Bracket(0.0, math.inf)  # the grid ends before the profile gets there
        return epsilon_between(
            delta,
            lambda x: either_fails(self.failure, Bracket(0.0, self._above(x))).upper,
            lambda x: either_fails(self.failure, Bracket(self._below(x), 1.0)).lower,
            guess=max(1e-6, self.rest.end),
            near=near,
        )

    def _above(self, epsilon: float) -> float:
        found = float((self.upper.mass * self.rest.read_upper(left_of(epsilon, self.upper.loss))).sum())
        return min(found * (1 + self.upper.relative_error + (self.upper.size + 8) * UNIT) + self.upper.dropped, 1.0)

    def _below(self, epsilon: float) -> float:
        found = float((self.lower.mass * self.rest.read_lower(-left_of(-epsilon, -self.lower.loss))).sum())
        return min(max(found * (1 - self.lower.relative_error - (self.lower.size + 8) * UNIT), 0.0), 1.0)

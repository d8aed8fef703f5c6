"""The certified optimum: what an adaptive analyst can learn at most, to any accuracy.

The uses are taken in stages, first to last. A linear stage (mechanisms with fixed dominating pairs) averages the
profile of what follows; a bounded-range stage applies its operator. The set-wise optimum has two stages: everything
linear, then all bounded-range mechanisms in their worst order (docs/optimal-composition.md).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.adaptive.draw_orders import Draws, Group, added_up, draws_of
from setwise.accounting.adaptive.dynamic_program import (
    Apply,
    Band,
    Before,
    Progress,
    grid_step,
    in_worst_order,
    quiet,
    support_of,
    variance_of,
)
from setwise.accounting.adaptive.linear_stage import (
    FIRST_TOLERANCE,
    LinearStage,
    averaged,
    enumerated,
    left_of,
    likened,
    losses,
)
from setwise.accounting.adaptive.operator import BoundedRangeStep
from setwise.accounting.adaptive.profile import Profile, nothing_to_come
from setwise.accounting.guarantees import PureDP
from setwise.accounting.intervals import UNIT, Bracket, unite
from setwise.accounting.losses.discrete import NOTHING, Atoms
from setwise.accounting.losses.tilting import Saddle
from setwise.accounting.losses.two_point import two_point_loss, worst_t
from setwise.accounting.root_finding import epsilon_at
from setwise.errors import Unattainable

Floats = NDArray[np.float64]

DEFAULT_WIDTH = 1e-3
"""The relative width aimed for when none is asked for."""

_ROUGH_WIDTH = 1e-2
"""The relative width aimed for when unequal parameters had to be rounded or priced, which no grid undoes."""

_FEWEST_CELLS = 24
_MOST_CELLS = 4096
_MOST_IDLE = 2
"""Grids twice as fine that may fail to help before a width is refused."""

_LARGEST_RATIO = 32.0
"""Bounded-range epsilons below the largest over this are rounded up from above, and left out from below."""

_MOST_WORK = 2e9
"""Grid points times steps beyond which a width is said to be out of reach."""

_MOST_UNASKED_WORK = 2e8
"""The same for the default width, which nobody asked for: a few seconds."""

_AHEAD = 1.04
"""How far beyond the epsilon that is expected the first grid reaches: adapting gains a few hundredths."""

_FEW_USES = 60
"""Up to this many uses the whole support is cheap, and always enough."""

_MOST_RUNS, _FEW_RUNS = 12, 4
"""Grids tried at most, and as long as none has reached the epsilon looked for."""

_EASIER = (0.7, 0.35)
_TOO_WIDE, _FAR_TOO_WIDE = 10.0, 0.3
"""Shares of the tilt to try when a run is more than so many times as wide as was asked for, or this wide."""

_MANY_USES = 200
"""From this many bounded-range uses on an analyst who does not adapt comes close to the worst."""

_FAR = 1e9
"""An epsilon beyond all grids."""

_NEGLIGIBLE = 1e-290
"""Below this a delta is at the end of the range of floats, and no width is asked of it."""


@dataclass(frozen=True, slots=True)
class RangeStage:
    """Bounded-range mechanisms, (epsilon, count), drawn in any adaptive order within the stage."""

    groups: tuple[Group, ...]


Stage = LinearStage | RangeStage


@dataclass(frozen=True, slots=True)
class Optimum:
    """The largest delta over all analysts who go through the stages in order.

    Requires: at least one bounded-range stage.
    Theorem: docs/optimal-composition.md; lem:adap_recursion_hetero for stages of one mechanism each.
    """

    stages: tuple[Stage, ...]
    failure: Bracket
    progress: Progress = quiet

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return the optimal delta at epsilon; a relative `width` that cannot be reached is refused."""
        if epsilon >= self._support:
            return self.failure
        saddle = self._saddle()
        tilt = saddle.moderate(max(0.0, saddle.for_loss(epsilon)))
        height, mean, _ = saddle.at(tilt)
        sharpness = max(1.0, tilt * mean - height)  # about -log delta
        plain = self._plain_analyst(tilt)

        def attempt(cells: int, stretch: float, ease: float, apply: Apply) -> Bracket:
            return self._solved(epsilon, ease * tilt, cells, stretch, apply).delta(epsilon)

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

        def attempt(cells: int, stretch: float, ease: float, apply: Apply) -> Bracket:
            return self._solved(saddle.at(tilt)[1], ease * tilt, cells, stretch, apply).epsilon(delta)

        floor = plain and epsilon_at(delta, plain, saddle.at(tilt)[1]).lower
        found = self._refined(attempt, width, tilt, 0.78, floor)
        return Bracket(min(found.lower, self._support), min(found.upper, self._support))

    def profile(self, epsilon: float, tilt: float, cells: int) -> Profile:
        """Return the profile from above, accurate up to about epsilon.

        Requires: a bounded-range stage comes first.
        """
        return self._solved(epsilon, tilt, cells, 1.0, BoundedRangeStep.apply_upper).rest

    def _refined(
        self,
        attempt: Callable[[int, float, float, Apply], Bracket],
        width: float | None,
        tilt: float,
        sharpness: float,
        floor: float | None,
    ) -> Bracket:
        """Run on finer and longer grids until the width holds.

        The relative width falls with the square of the number of cells; the last run is used to choose the next grid,
        never to certify. With a lower bound to start from, the first run does without lower values. A run that is far
        wider than its grid should give has lost its first stage to round-off, and is tried again with less tilt.
        """
        exact = self._exactly_drawn(tilt)
        wanted = width or (DEFAULT_WIDTH if exact else _ROUGH_WIDTH)
        cells = min(512, max(_FEWEST_CELLS, _even(math.sqrt(1.3 * sharpness / wanted))))
        stretch, ease = 1.0, 1.0
        easier = list(_EASIER) if self._tilted else []
        widths: dict[float, float] = {}
        best = Bracket(floor or 0.0, math.inf)
        work, most = 0.0, _MOST_UNASKED_WORK if width is None else _MOST_WORK
        apply = BoundedRangeStep.apply if floor is None else BoundedRangeStep.apply_upper
        idle = 0  # runs since the bracket last shrank
        for run in range(_MOST_RUNS):
            work += self._work(cells, tilt)
            if work > most or (run >= _FEW_RUNS and best.upper == math.inf):
                break
            before = best
            try:
                found = attempt(cells, stretch, ease, apply)
            except Unattainable:
                if best.upper == math.inf:
                    raise
                break  # on a finer grid a linear stage between bounded-range ones is too much work
            best = Bracket(max(best.lower, found.lower), min(best.upper, found.upper))
            if best.relative_width <= wanted or best.upper < _NEGLIGIBLE:
                return best
            stalled = best.width > 0.8 * before.width
            wide = found.relative_width > min(_TOO_WIDE * wanted, _FAR_TOO_WIDE)
            if easier and found.upper < math.inf and (wide or stalled):
                widths[ease] = found.relative_width
                ease, apply = easier.pop(0), BoundedRangeStep.apply
                continue
            if widths:
                widths[ease] = found.relative_width
                ease = min(widths, key=lambda share: widths[share])
                easier, widths, stalled = [], {}, False
            idle = idle + 1 if stalled else 0
            # A finer grid may no longer help: what is left is the rounding of unequal parameters. A width that was
            # asked for is refused only when much finer ones do not help either, so that no larger one is refused.
            if idle > (0 if width is None else _MOST_IDLE) or (width is None and not exact and best.upper < math.inf):
                break
            if idle:
                cells *= 2
            elif best.upper < math.inf:
                cells = _even(cells * min(4.0, max(1.25, 1.1 * math.sqrt(best.relative_width / wanted))))
            stretch *= 1.05 if best.upper < math.inf else 1.5
            apply = BoundedRangeStep.apply
        if width is None and best.upper < math.inf:
            return best
        raise Unattainable(f"a relative width of {wanted:g} cannot be reached for these uses; ask for a wider one")

    def _plain_analyst(self, tilt: float) -> Callable[[float], Bracket] | None:
        """Return the delta of an analyst who takes one t throughout, the best of a few, where that is exact.

        With many bounded-range uses adaptivity gains little, and the lower bound is a binomial sum.
        """
        match self.stages:
            case (RangeStage(groups=((epsilon, count),)),) if count >= _MANY_USES:
                before = NOTHING
            case (LinearStage(uses=uses), RangeStage(groups=((epsilon, count),))) if count >= _MANY_USES:
                found = enumerated(uses)
                if found is None:
                    return None
                before = found
            case _:
                return None
        middle = worst_t(epsilon, max(tilt, 1e-9))
        choices = [t for t in middle * np.array([0.98, 0.99, 0.995, 1.0, 1.005]) if 0.0 < t < epsilon]
        losses = [two_point_loss(float(t), float(t) - epsilon, count) for t in choices]

        def at_worst(x: float) -> Bracket:
            return max((before.average(loss, x) for loss in losses), key=lambda bracket: bracket.lower)

        return lambda x: unite(self.failure, at_worst(x))

    @property
    def _support(self) -> float:
        """The largest loss, rounded up."""
        each = [s.support if isinstance(s, LinearStage) else support_of(s.groups) for s in self.stages]
        return math.fsum(each) * (1 + 1e-14)

    @property
    def _tilted(self) -> bool:
        """Whether some stage is a lattice, whose accuracy hangs on the tilt."""
        linear = [stage for stage in self.stages if isinstance(stage, LinearStage)]
        return any(not isinstance(known, PureDP) for stage in linear for known, _ in stage.uses)

    @property
    def _stages_of_groups(self) -> list[tuple[Group, ...]]:
        return [stage.groups for stage in self.stages if isinstance(stage, RangeStage)]

    @property
    def _groups(self) -> list[Group]:
        return [group for groups in self._stages_of_groups for group in groups]

    @property
    def _least(self) -> float:
        """The epsilon to which smaller ones are rounded up from above: one grid must serve all."""
        return max(epsilon for epsilon, _ in self._groups) / _LARGEST_RATIO

    def _draws(self, groups: Sequence[Group], tilt: float) -> Draws:
        """Return how a stage is drawn from, for the bound from above."""
        tilt = max(tilt, 0.5 / math.sqrt(variance_of(self._groups)))
        return draws_of(tuple((max(epsilon, self._least), count) for epsilon, count in groups), tilt)

    def _exactly_drawn(self, tilt: float) -> bool:
        """Return whether the bound from above allows no more than the parameters do."""
        return all(self._draws(groups, tilt) == Draws(tuple(added_up(groups))) for groups in self._stages_of_groups)

    def _work(self, cells: int, tilt: float) -> float:
        largest = max(epsilon for epsilon, _ in self._groups)
        smallest = max(min(epsilon for epsilon, _ in self._groups), largest / _LARGEST_RATIO)
        if cells * largest / smallest > _MOST_CELLS:
            return math.inf
        steps = sum(self._draws(groups, tilt).steps for groups in self._stages_of_groups)
        return steps * cells * (1.0 + 12.0 * math.sqrt(variance_of(self._groups)) / smallest)

    def _saddle(self) -> Saddle:
        """Return a coarse version of everything, a bounded-range mechanism as its worst randomized response."""
        linear = [use for stage in self.stages if isinstance(stage, LinearStage) for use in stage.uses]
        return likened(linear, self._groups)

    def _solved(self, about: float, tilt: float, cells: int, stretch: float, apply: Apply) -> "_Solved":
        """Return the profile of all but the first stage, accurate when read at about the given overall epsilon."""
        least = self._least
        step = grid_step([max(epsilon, least) for epsilon, _ in self._groups], cells)

        def in_any_order(groups: Sequence[Group]) -> list[Draws]:
            return [self._draws(groups, tilt)]

        def smaller_first(groups: Sequence[Group]) -> list[Draws]:
            return [Draws((group,)) for group in reversed(added_up(groups)) if group[0] >= least]

        end = _AHEAD * stretch * about
        support = self._support
        if support < math.inf and sum(count for _, count in self._groups) <= _FEW_USES:
            end = math.inf
        upper = self._run(step, end, tilt, in_any_order, apply)
        if self._exactly_drawn(tilt):
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
        parts: Callable[[Sequence[Group]], list[Draws]],
        apply: Apply,
    ) -> "_Solved":
        """Apply the stages from the last to the second; the first, if it is linear, is kept for the reading."""
        variance = math.fsum(s.variance if isinstance(s, LinearStage) else variance_of(s.groups) for s in self.stages)
        height, mean, _ = self._saddle().at(tilt)
        band = Band(step, end, variance, depth=max(0.0, tilt * mean - height))
        done = Before(nothing_to_come(step))
        total = sum(count for _, count in self._groups)
        so_far = 0

        def advance(_: float) -> None:
            nonlocal so_far
            so_far += 1
            self.progress(so_far / total)

        for index in range(len(self.stages) - 1, -1, -1):
            match self.stages[index]:
                case RangeStage(groups=groups):
                    for part in parts(groups):
                        done = in_worst_order(part, done, band, apply, advance)
                case LinearStage() as stage if index == 0:
                    upper, lower = losses(stage, tilt, FIRST_TOLERANCE)
                    return _Solved(upper, lower, done.profile, self.failure)
                case LinearStage() as stage:
                    done = averaged(stage, done, band, tilt)
        return _Solved(NOTHING, NOTHING, done.profile, self.failure)


def _even(cells: float) -> int:
    """Round up to an even number: the worst t is near epsilon/2, and a grid that contains it is tighter."""
    return 2 * math.ceil(cells / 2)


@dataclass(frozen=True, slots=True)
class _Solved:
    """Losses of the first stage, and the profile of all that follows."""

    upper: Atoms
    lower: Atoms
    rest: Profile
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        above = float((self.upper.mass * self.rest.read_upper(left_of(epsilon, self.upper.loss))).sum())
        below = float((self.lower.mass * self.rest.read_lower(-left_of(-epsilon, -self.lower.loss))).sum())
        above = above * (1 + self.upper.relative_error + (self.upper.size + 8) * UNIT) + self.upper.dropped
        below = below * (1 - self.lower.relative_error - (self.lower.size + 8) * UNIT)
        above, below = min(above, 1.0), max(below, 0.0)
        return unite(self.failure, Bracket(min(above, below), above))

    def epsilon(self, delta: float) -> Bracket:
        if self.delta(_FAR).upper >= delta:
            return Bracket(0.0, math.inf)  # the grid ends before the profile gets there
        return epsilon_at(delta, self.delta, guess=max(1e-6, self.rest.end))

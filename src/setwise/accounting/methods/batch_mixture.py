"""Bounded-range mechanisms of one or several epsilons chosen up front, beside anything linear: the batch bound.

In a batch every bounded-range mechanism is a generalized randomized response, and those with the same epsilon have the
same t (docs/closed-forms.md, "Batch mixtures"). So delta is a maximum over one t for each distinct epsilon. A search
supplies a lower bound; then boxes of t are ruled out as in batch.py, the worst first: over a box each mechanism is
dominated by one fixed pair. Losses that share no lattice leave no candidates to finish with, so the bracket keeps a
width: what is left when the boxes are small enough, or when the work allowed is done.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.adaptive.draw_orders import Group
from setwise.accounting.adaptive.dynamic_program import support_of
from setwise.accounting.adaptive.linear_stage import FIRST_TOLERANCE, LinearStage, likened
from setwise.accounting.adaptive.optimum import Optimum, RangeStage, Stage
from setwise.accounting.adaptive.profile import Profile
from setwise.accounting.guarantees import PureDP
from setwise.accounting.intervals import Bracket, unite
from setwise.accounting.losses.discrete import NOTHING, Atoms, Loss, two_point_atoms
from setwise.accounting.losses.dominating_pairs import Known
from setwise.accounting.losses.two_point import randomized_response, worst_t
from setwise.accounting.methods.batch import NoLoss
from setwise.accounting.methods.pld import LatticeSum
from setwise.accounting.root_finding import epsilon_at
from setwise.errors import Unattainable

Floats = NDArray[np.float64]

Choice = tuple[float, ...]
"""One t for each distinct epsilon."""

_SMALLEST_RATIO = 1e-150

_MOST_OUTCOMES, _MOST_CLIMBED = 200_000, 20_000
"""Outcomes of all bounded-range mechanisms, equal ones only counted, up to which a batch is summed, and searched."""

MOST_FIXED = 2
"""Distinct epsilons for which boxes are ruled out; with more of them boxes are too many."""

_USUAL_SHARES = (1e-3, 5e-2, 1e-1)
"""Relative widths of delta aimed for with one, two and more distinct epsilons, when none is asked for."""

_MOST_WORK = 4e7
"""Outcomes times boxes looked at in one pass, but never fewer boxes than the next."""

_FEWEST_BOXES, _MOST_BOXES = 200, 3_000

_CELLS = 96
"""Grid cells across the smallest range for what an analyst may adapt."""

_INSIDE = 1e-6
"""A t tried lies this share of epsilon inside its range: at the ends the mechanism says nothing."""

_CLOSE, _CLOSEST, _FLAT = 1e-3, 1e-6, 1e-5
"""A climb ends with steps of the first share of epsilon if they hardly gain any more; near the largest loss, where
delta is steep, with the second."""

_MOST_CLIMBS, _MOST_PASSES = 12, 3
"""How often the lower end is improved, and how often a larger upper one is tried."""

_SETTLED, _SLOWEST = 1e-7, 1e-3


@dataclass(frozen=True, slots=True)
class BatchMixture:
    """Bounded-range mechanisms (epsilon, count) of distinct epsilons chosen up front, beside linear mechanisms.

    Requires: at least one group.
    """

    groups: tuple[Group, ...]
    linear: tuple[tuple[Known, int], ...]
    failure: Bracket

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return the optimal delta of the batch at epsilon; a relative `width` that cannot be reached is refused.

        Theorem: docs/closed-forms.md, batch mixtures.
        """
        if epsilon >= self._support:
            return self.failure
        saddle = likened(self.linear, self.groups)
        tilt = saddle.moderate(max(0.0, saddle.for_loss(epsilon)))
        responses = self._responses(tilt, width)
        choice = responses.climbed(epsilon, responses.usual(tilt))
        reached = responses.at(choice, epsilon)
        share = _usual_share(self.groups) if width is None else 0.9 * width
        target = reached.upper * (1.0 + share)
        top = self._in_boxes(responses, epsilon, tilt).ruled_out(epsilon, target, _boxes(width))
        return _reached(unite(self.failure, Bracket(reached.lower, max(reached.lower, top))), width)

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return the smallest epsilon whose delta is at most `delta`; a relative `width` out of reach is refused."""
        spare = (delta - self.failure.upper) / (1.0 - self.failure.upper) * (1 - 1e-12)
        if spare <= 0.0:
            raise Unattainable(
                f"delta = {delta!r} is not above {self.failure.upper:.3g}, the chance of outright failure"
            )
        saddle = likened(self.linear, self.groups)
        tilt = saddle.moderate(saddle.for_delta(spare))
        responses = self._responses(tilt, width)
        reached, choice = responses.epsilon(spare, max(saddle.at(tilt)[1], 1e-6), responses.usual(tilt))
        lower = reached.lower
        # Towards larger epsilons delta falls at this rate, which makes room for the size of the boxes.
        nearby = min(0.1 / max(tilt, 1.0), 0.2 * (self._support - reached.upper))
        rate = responses.rate(reached.upper, reached.upper + nearby, choice)
        share = _usual_share(self.groups) if width is None else 0.4 * width * max(lower, 1e-9) * rate
        upper = reached.upper + share / rate
        boxes = self._in_boxes(responses, upper, tilt)
        for further in range(1, _MOST_PASSES + 1):
            if upper >= self._support:
                break
            top = boxes.ruled_out(upper, spare, _boxes(width))
            if unite(self.failure, Bracket(0.0, top)).upper <= delta:
                return _reached(Bracket(min(lower, upper), upper), width)
            upper += 1.2 * further**2 * math.log(top / spare) / rate
        return _reached(Bracket(min(lower, self._support), math.inf), width)

    @property
    def _support(self) -> float:
        """The largest loss, rounded up."""
        return (LinearStage(self.linear).support + support_of(self.groups)) * (1 + 1e-14)

    def _responses(self, tilt: float, width: float | None = None) -> "_Responses":
        """Return the batch, with what stands beside known most accurately where the tilt points."""
        match self.linear:
            case ():
                return _Responses(self.groups, NoLoss(), NoLoss())
            case ((PureDP(epsilon=epsilon), count),):
                pure = randomized_response(epsilon, count)
                return _Responses(self.groups, pure, pure)
            case _:
                beside = LatticeSum(self.linear, Bracket(0.0, 0.0), FIRST_TOLERANCE if width is None else 1e-4 * width)
                return _Responses(self.groups, *beside.tails(beside.saddle(), tilt, whole=True))

    def _in_boxes(self, responses: "_Responses", epsilon: float, tilt: float) -> "_Responses":
        """Return a batch with so few distinct epsilons that boxes can be ruled out, and at least as large a delta.

        The groups that add most to the variance stay; an analyst may adapt the others, in an order good for us.
        """
        by_weight = sorted(self.groups, key=lambda group: group[1] * group[0] ** 2, reverse=True)
        fixed, adapted = by_weight[:MOST_FIXED], sorted(by_weight[MOST_FIXED:], reverse=True)
        if not adapted:
            return responses
        stages = kindly_ordered(adapted, self.linear)
        after = Optimum(stages, Bracket(0.0, 0.0)).profile(epsilon, tilt, _CELLS)
        return _Responses(tuple(fixed), _FromAbove(after), _FromAbove(after))


def batch_mixture(
    groups: Sequence[Group], linear: Sequence[tuple[Known, int]], failure: Bracket
) -> BatchMixture | None:
    """Return the batch bound, or None when the bounded-range mechanisms have too many outcomes to sum."""
    if outcomes(groups) > _MOST_OUTCOMES:
        return None
    return BatchMixture(tuple(groups), tuple(linear), failure)


def outcomes(groups: Sequence[Group]) -> float:
    """Return about how many outcomes the groups have, those of no account left out."""
    return math.prod(min(count + 1, 200 + 30 * math.sqrt(count)) for _, count in groups)


def kindly_ordered(groups: Sequence[Group], linear: Sequence[tuple[Known, int]]) -> tuple[Stage, ...]:
    """Return stages in an order that helps an analyst little: large ranges first, everything linear last.

    A batch is one analyst of any order, so what an order allows bounds the batch from above.
    """
    ranges = tuple(RangeStage((group,)) for group in sorted(groups, reverse=True))
    return (*ranges, LinearStage(tuple(linear))) if linear else ranges


@dataclass(frozen=True, slots=True)
class _FromAbove:
    """A certified profile, read from above."""

    profile: Profile

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        return self.profile.read_upper(x), np.zeros_like(x)


@dataclass(frozen=True, slots=True)
class _Responses:
    """Generalized randomized responses beside a loss that is known from above and from below."""

    groups: tuple[Group, ...]
    above: Loss
    below: Loss

    def at(self, choice: Choice, x: float) -> Bracket:
        """Return delta at x for this choice of t."""
        low = [t - epsilon for t, (epsilon, _) in zip(choice, self.groups, strict=True)]
        atoms = self._atoms(choice, low)
        upper = atoms.average(self.above, x)
        lower = upper if self.below is self.above else atoms.average(self.below, x)
        return Bracket(min(lower.lower, upper.upper), upper.upper)

    def over(self, first: Choice, last: Choice, x: float) -> float:
        """Return an upper bound on delta at x for every choice between `first` and `last`."""
        low = [t - epsilon for t, (epsilon, _) in zip(first, self.groups, strict=True)]
        return self._atoms(last, low).average(self.above, x).upper

    def usual(self, tilt: float) -> Choice:
        """Return the choice that is the worst when what stands beside falls like exp(-tilt x)."""
        return tuple(worst_t(epsilon, max(tilt, 1e-9)) for epsilon, _ in self.groups)

    def climbed(self, x: float, choice: Choice) -> Choice:
        """Return the best choice found near this one."""
        best = self.at(choice, x).lower
        share = 0.1 if outcomes(self.groups) <= _MOST_CLIMBED else 0.0
        before = 0.0
        while share > _CLOSEST and (share > _CLOSE or best > before * (1 + _FLAT)):
            before = best
            while (other := self._neighbour(x, choice, share, best)) is not None:
                choice, best = other
            share /= 2.0
        return choice

    def _neighbour(self, x: float, choice: Choice, share: float, best: float) -> tuple[Choice, float] | None:
        """Return a choice better than `best` a step away, and its delta, if there is one."""
        for index, (epsilon, _) in enumerate(self.groups):
            for step in (-share * epsilon, share * epsilon):
                t = min(max(choice[index] + step, _INSIDE * epsilon), (1 - _INSIDE) * epsilon)
                other = (*choice[:index], t, *choice[index + 1 :])
                value = self.at(other, x).lower
                if value > best:
                    return other, value
        return None

    def epsilon(self, delta: float, guess: float, choice: Choice) -> tuple[Bracket, Choice]:
        """Return about the largest epsilon at which some choice reaches delta, and that choice."""
        best = epsilon_at(delta, partial(self.at, choice), guess)
        for _ in range(_MOST_CLIMBS):
            climbed = self.climbed(best.lower, choice)
            found = epsilon_at(delta, partial(self.at, climbed), max(best.upper, 1e-9))
            if found.lower <= best.lower * (1 + _SETTLED):
                break
            best, choice = found, climbed
        return best, choice

    def rate(self, x: float, further: float, choice: Choice) -> float:
        """Return about how fast the logarithm of delta falls from x to further on."""
        here, there = self.at(choice, x).upper, self.at(choice, further).upper
        return max(math.log(here / there) / (further - x), _SLOWEST) if 0.0 < there < here else _SLOWEST

    def ruled_out(self, x: float, target: float, most: int) -> float:
        """Return an upper bound on delta over all choices: boxes are split, the worst first.

        Ends when no box is above the target, or after so many boxes.
        """
        most = min(most, max(_FEWEST_BOXES, int(_MOST_WORK / outcomes(self.groups))))
        start = tuple(0.0 for _ in self.groups)
        end = tuple(epsilon for epsilon, _ in self.groups)
        boxes = [(-self.over(start, end, x), start, end)]
        for _ in range(most):
            if -boxes[0][0] <= target:
                break
            _, first, last = heapq.heappop(boxes)
            cut = _widest(first, last, self.groups)
            middle = 0.5 * (first[cut] + last[cut])
            for a, b in (
                (first, (*last[:cut], middle, *last[cut + 1 :])),
                ((*first[:cut], middle, *first[cut + 1 :]), last),
            ):
                heapq.heappush(boxes, (-self.over(a, b, x), a, b))
        return -boxes[0][0]

    def _atoms(self, high: Sequence[float], low: Sequence[float]) -> Atoms:
        atoms = NOTHING
        for (_, count), up, down in zip(self.groups, high, low, strict=True):
            atoms = atoms.times(two_point_atoms(up, down, count, _SMALLEST_RATIO))
        return atoms


def _widest(first: Choice, last: Choice, groups: Sequence[Group]) -> int:
    """Return where the box adds most to the variance of the loss."""
    added = [count * epsilon * (b - a) for (epsilon, count), a, b in zip(groups, first, last, strict=True)]
    return added.index(max(added))


def _usual_share(groups: Sequence[Group]) -> float:
    return _USUAL_SHARES[min(len(groups), len(_USUAL_SHARES)) - 1]


def _boxes(width: float | None) -> int:
    return _MOST_BOXES if width is None else 5 * _MOST_BOXES


def _reached(bracket: Bracket, width: float | None) -> Bracket:
    if width is not None and not bracket.relative_width <= width:
        raise Unattainable(f"a relative width of {width:g} cannot be reached for this batch; ask for a wider one")
    return bracket

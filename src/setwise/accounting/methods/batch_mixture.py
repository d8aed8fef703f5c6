"""Bounded-range mechanisms of one or several epsilons chosen up front, beside anything linear: the batch bound.

In a batch every bounded-range mechanism is a generalized randomized response, and those with the same epsilon have the
same t (docs/closed-forms.md, "Batch mixtures"). So delta is a maximum over one t for each distinct epsilon. A search
(batch_search.py) proposes a choice, whose delta is a lower bound. Branch and bound certifies the upper one: over a box
of t each mechanism is dominated by one fixed pair; boxes are split, the worst first. Losses that share no lattice leave
no candidates to finish with, so the bracket keeps a width: what is left when the boxes are small enough, or when the
work allowed is done.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.adaptive import stages
from setwise.accounting.adaptive.dynamic_program import Group
from setwise.accounting.adaptive.operator import Profile
from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.adaptive.stages import LinearStage, RangeStage, proxy_saddle, upper_bound_order
from setwise.accounting.brackets import Bracket, either_fails
from setwise.accounting.losses.dominating_pairs import GaussianLoss, KnownNoise
from setwise.accounting.losses.lattice import NOTHING, Atoms, Loss, two_point_atoms
from setwise.accounting.losses.pld import LatticeSum
from setwise.accounting.losses.tilting import coarse_saddle
from setwise.accounting.methods.batch_search import BatchSearch, Choice, outcome_count
from setwise.accounting.methods.closed_forms import NoLoss
from setwise.accounting.methods.exact import exact_linear
from setwise.errors import Unattainable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BatchMixtureConfig:
    """Widths are relative widths of delta; outcomes are those of all bounded-range mechanisms together."""

    widths: tuple[float, ...] = (1e-3, 5e-2, 1e-1)
    """Aimed for with one, two and more distinct epsilons, when none is asked for."""
    most_fixed: int = 2
    """Distinct epsilons for which branch and bound is run; with more of them boxes are too many."""
    smallest_ratio: float = 1e-150
    """Masses below this share of the mode's are dropped and charged: far below any delta of interest."""
    most_outcomes: int = 200_000
    """Beyond this many a batch is not summed."""
    most_work: float = 4e7
    """Outcomes times boxes looked at in one pass of branch and bound, within the next two numbers of boxes."""
    fewest_boxes: int = 200
    most_boxes: int = 3_000
    more_boxes: int = 5
    """Times as many boxes when a width was asked for."""
    cells: int = 96
    """Grid cells across the smallest epsilon for the groups that an analyst may adapt."""
    most_passes: int = 3
    """Upper ends of epsilon tried, each larger than the last."""


CONFIG = BatchMixtureConfig()


@dataclass(frozen=True, slots=True)
class BatchMixture:
    """Bounded-range mechanisms (epsilon, count) of distinct epsilons chosen up front, beside linear mechanisms.

    Requires: at least one group.
    """

    groups: tuple[Group, ...]
    linear: tuple[tuple[KnownNoise, int], ...]
    failure: Bracket

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return the optimal delta of the batch at epsilon; a relative `width` that cannot be reached is refused.

        Theorem: docs/closed-forms.md, batch mixtures.
        """
        if epsilon >= self._support:
            return self.failure
        saddle = proxy_saddle(self.linear, self.groups)
        tilt = saddle.moderate(max(0.0, saddle.for_loss(epsilon)))
        responses = self._responses(tilt, width)
        search = BatchSearch(self.groups, responses.at, self._support)
        reached = responses.at(search.hill_climb(epsilon, search.start(epsilon, tilt)), epsilon)
        share = _usual_share(self.groups) if width is None else 0.9 * width
        target = reached.upper * (1.0 + share)
        top = self._in_boxes(responses, epsilon, tilt).branch_and_bound(epsilon, target, _boxes(width))
        return _reached(either_fails(self.failure, Bracket(reached.lower, max(reached.lower, top))), width)

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return the smallest epsilon whose delta is at most `delta`; a relative `width` out of reach is refused."""
        spare = (delta - self.failure.upper) / (1.0 - self.failure.upper) * (1 - 1e-12)
        if spare <= 0.0:
            raise Unattainable(
                f"delta = {delta!r} is not above {self.failure.upper:.3g}, the chance of outright failure"
            )
        saddle = proxy_saddle(self.linear, self.groups)
        tilt = saddle.moderate(saddle.for_delta(spare))
        responses = self._responses(tilt, width)
        search = BatchSearch(self.groups, responses.at, self._support)
        reached, choice = search.epsilon(spare, max(saddle.at(tilt)[1], 1e-6), tilt)
        lower = reached.lower
        # Towards larger epsilons delta falls at this rate, which makes room for the size of the boxes.
        nearby = min(0.1 / max(tilt, 1.0), 0.2 * (self._support - reached.upper))
        rate = search.decay_rate(reached.upper, reached.upper + nearby, choice)
        share = _usual_share(self.groups) if width is None else 0.4 * width * max(lower, 1e-9) * rate
        upper = reached.upper + share / rate
        boxes = self._in_boxes(responses, upper, tilt)
        for further in range(1, CONFIG.most_passes + 1):
            if upper >= self._support:
                break
            top = boxes.branch_and_bound(upper, spare, _boxes(width))
            if either_fails(self.failure, Bracket(0.0, top)).upper <= delta:
                return _reached(Bracket(min(lower, upper), upper), width)
            upper += 1.2 * further**2 * math.log(top / spare) / rate
        return _reached(Bracket(min(lower, self._support), math.inf), width)

    @property
    def _support(self) -> float:
        """The largest loss, rounded up."""
        return (LinearStage(self.linear).support + RangeStage(self.groups).support) * (1 + 1e-14)

    def _responses(self, tilt: float, width: float | None = None) -> "_Responses":
        """Return the batch, with what stands beside known most accurately where the tilt points."""
        exact = exact_linear(self.linear, Bracket(0.0, 0.0))
        enumerable = exact is not None and not isinstance(exact.inner, GaussianLoss)
        if exact is not None and enumerable and exact.outer.size * outcome_count(self.groups) <= CONFIG.most_outcomes:
            inner = exact.inner or NoLoss()
            return _Responses(self.groups, inner, inner, exact.outer)
        tolerance = stages.CONFIG.last_tolerance if width is None else 1e-4 * width
        beside = LatticeSum(self.linear, Bracket(0.0, 0.0), tolerance)
        return _Responses(self.groups, *beside.tails(coarse_saddle(self.linear), tilt, whole=True))

    def _in_boxes(self, responses: "_Responses", epsilon: float, tilt: float) -> "_Responses":
        """Return a batch with so few distinct epsilons that boxes can be ruled out, and at least as large a delta.

        The groups that add most to the variance stay; an analyst may adapt the others, in an order good for us.
        """
        by_weight = sorted(self.groups, key=lambda group: group[1] * group[0] ** 2, reverse=True)
        fixed, adapted = by_weight[: CONFIG.most_fixed], sorted(by_weight[CONFIG.most_fixed :], reverse=True)
        if not adapted:
            return responses
        order = upper_bound_order(adapted, self.linear)
        after = Optimum(order, Bracket(0.0, 0.0)).profile(epsilon, tilt, CONFIG.cells)
        return _Responses(tuple(fixed), _FromAbove(after), _FromAbove(after))


def batch_mixture(
    groups: Sequence[Group], linear: Sequence[tuple[KnownNoise, int]], failure: Bracket
) -> BatchMixture | None:
    """Return the batch bound, or None when the bounded-range mechanisms have too many outcomes to sum."""
    if outcome_count(tuple(groups)) > CONFIG.most_outcomes:
        return None
    return BatchMixture(tuple(groups), tuple(linear), failure)


@dataclass(frozen=True, slots=True)
class _FromAbove:
    """A certified profile, read from above."""

    profile: Profile

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        return self.profile.read_upper(x), np.zeros_like(x)


@dataclass(frozen=True, slots=True)
class _Responses:
    """Generalized randomized responses beside a loss that is known from above and from below, and beside `atoms`."""

    groups: tuple[Group, ...]
    above: Loss
    below: Loss
    atoms: Atoms = NOTHING

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

    def branch_and_bound(self, x: float, target: float, most: int) -> float:
        """Return an upper bound on delta over all choices: boxes are split, the worst first.

        Ends when no box is above the target, or after `most` boxes.
        """
        most = min(most, max(CONFIG.fewest_boxes, int(CONFIG.most_work / outcome_count(self.groups))))
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
        atoms = self.atoms
        for (_, count), up, down in zip(self.groups, high, low, strict=True):
            atoms = atoms.times(two_point_atoms(up, down, count, CONFIG.smallest_ratio))
        return atoms


def _widest(first: Choice, last: Choice, groups: Sequence[Group]) -> int:
    """Return where the box adds most to the variance of the loss."""
    added = [count * epsilon * (b - a) for (epsilon, count), a, b in zip(groups, first, last, strict=True)]
    return added.index(max(added))


def _usual_share(groups: Sequence[Group]) -> float:
    return CONFIG.widths[min(len(groups), len(CONFIG.widths)) - 1]


def _boxes(width: float | None) -> int:
    return CONFIG.most_boxes if width is None else CONFIG.more_boxes * CONFIG.most_boxes


def _reached(bracket: Bracket, width: float | None) -> Bracket:
    if width is not None and not bracket.relative_width <= width:
        raise Unattainable(f"a relative width of {width:g} cannot be reached for this batch; ask for a wider one")
    return bracket

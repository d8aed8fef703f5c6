"""The batch bound for bounded-range mechanisms with several epsilons next to linear mechanisms.

In a batch, all mechanisms are chosen up front; linear mechanisms are those with fixed dominating pairs. In the worst
batch, every bounded-range mechanism is a generalized randomized response with a parameter t, and responses of the same
epsilon have the same t (docs/closed-forms.md, "Batch mixtures"). So delta is a maximum over one t for each distinct
epsilon. A search (batch_search.py) proposes a choice of t, whose delta is a lower bound, and branch and bound certifies
an upper bound.
"""

# In branch and bound, each mechanism is dominated by one fixed pair over a box of choices, and the box with the largest
# bound is split first. Unlike in closed_forms.py, the losses here share no lattice and the local maxima are not known,
# so the bracket keeps a width: the gap that remains when the boxes are small enough or the allowed work is done.

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.adaptive import stages
from setwise.accounting.adaptive.dynamic_program import Group
from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.adaptive.profiles import Profile
from setwise.accounting.adaptive.stages import LinearStage, RangeStage, proxy_saddle, upper_bound_order
from setwise.accounting.brackets import Bracket, either_fails
from setwise.accounting.losses.dominating_pairs import GaussianLoss, KnownNoise
from setwise.accounting.losses.lattice import NOTHING, Atoms, Loss, two_point_atoms
from setwise.accounting.losses.pld import LatticeSum
from setwise.accounting.losses.tilting import coarse_saddle
from setwise.accounting.methods.batch_search import BatchSearch, Choice, outcome_count
from setwise.accounting.methods.closed_forms import NoLoss
from setwise.accounting.methods.exact import exact_linear
from setwise.accounting.promises import delta_too_small
from setwise.errors import Unattainable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BatchMixtureConfig:
    """Constants of the bound on a batch of bounded-range mechanisms with several epsilons, all chosen up front.

    In the worst case, each bounded-range mechanism is a randomized response with the losses t and t - epsilon, and all
    mechanisms of one epsilon have the same t. The search for the worst t is by branch and bound, and the bracket (a
    certified interval) that it finds is valid whatever these numbers are. The texts below the constants use these
    words:

    - A box has an interval of t for each distinct epsilon. The search splits boxes, and computes an upper bound on
      delta for each.
    - An outcome says, for each distinct epsilon, how many mechanisms had the loss t.
    - Widths of brackets are relative to delta.
    """

    widths: tuple[float, ...] = (1e-3, 5e-2, 1e-1)
    """Width to aim for if the caller asks for none: with one, with two, and with more distinct epsilons."""
    most_fixed: int = 2
    """Largest number of distinct epsilons for branch and bound. With more epsilons there would be too many boxes."""
    smallest_ratio: float = 1e-150
    """Outcomes that are less likely than this share of the most likely outcome are left out, and their probability is
    added to the upper bound. The share is far below any delta of interest."""
    most_outcomes: int = 200_000
    """A batch with more outcomes than this is not computed."""
    most_work: float = 4e7
    """Largest number of outcomes times boxes in one run of branch and bound. The number of boxes is nevertheless at
    least `fewest_boxes`, and at most `most_boxes`."""
    fewest_boxes: int = 200
    most_boxes: int = 3_000
    more_boxes: int = 5
    """Factor on `most_boxes` when the caller asked for a width."""
    cells: int = 96
    """Groups of equal mechanisms for which there would be too many boxes are bounded on a grid of epsilons. This is the
    number of grid cells across the smallest epsilon."""
    most_passes: int = 3
    """Largest number of candidates for the upper end of epsilon that are tried, each larger than the one before."""


CONFIG = BatchMixtureConfig()


@dataclass(frozen=True, slots=True)
class BatchMixture:
    """A batch of bounded-range mechanisms with several epsilons, next to other mechanisms, all chosen up front.

    - `groups` are bounded-range mechanisms as (epsilon, count), one pair for each epsilon.
    - `linear` are mechanisms with fixed dominating pairs, as (noise, count).
    - `failure` is a bracket (a certified interval) for the probability of outright failure, in which everything may be
      revealed.

    Requires: at least one pair in `groups`.
    """

    groups: tuple[Group, ...]
    linear: tuple[tuple[KnownNoise, int], ...]
    failure: Bracket

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return a bracket (a certified interval) for the batch's largest possible delta at the overall `epsilon`.

        In a batch, all mechanisms are chosen up front; the largest delta is over all mechanisms with the batch's
        guarantees. `width` is the wanted width of the bracket, relative to its upper end; None accepts any width.

        Theorem: docs/closed-forms.md, "Batch mixtures".
        Raises: `Unattainable` if the bracket is wider than `width`.
        """
        if epsilon >= self._support:
            return self.failure
        saddle = proxy_saddle(self.linear, self.groups)
        tilt = saddle.moderate(max(0.0, saddle.for_loss(epsilon)))
        responses = self._responses(tilt, width)
        search = BatchSearch(self.groups, responses.at, self._support)
        reached = responses.at(search.hill_climb(epsilon, search.start(epsilon, tilt)), epsilon)
        share = _default_gap(self.groups) if width is None else 0.9 * width
        target = reached.upper * (1.0 + share)
        top = self._in_boxes(responses, epsilon, tilt).branch_and_bound(epsilon, target, _most_splits(width))
        return _check_width(either_fails(self.failure, Bracket(reached.lower, max(reached.lower, top))), width)

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return a bracket (certified interval) for the smallest epsilon at which the batch's delta is at most `delta`.

        In a batch, all mechanisms are chosen up front; the batch's delta is the largest over all mechanisms with its
        guarantees. `width` is the wanted width of the bracket, relative to its upper end; None accepts any width. The
        upper end is infinite if no upper end could be certified.

        Raises: `Unattainable` if `delta` is not above the probability of outright failure (in which everything may be
        revealed), or if the bracket is wider than `width`.
        """
        # The upper end starts as an estimate. It is raised, several times at most, until branch and bound certifies
        # that delta is at most `delta` there.
        target_delta = (delta - self.failure.upper) / (1.0 - self.failure.upper) * (1 - 1e-12)
        if target_delta <= 0.0:
            raise Unattainable(delta_too_small(delta, self.failure.upper))
        saddle = proxy_saddle(self.linear, self.groups)
        tilt = saddle.moderate(saddle.for_delta(target_delta))
        responses = self._responses(tilt, width)
        search = BatchSearch(self.groups, responses.at, self._support)
        reached, choice = search.epsilon(target_delta, max(saddle.at(tilt)[1], 1e-6), tilt)
        lower = reached.lower
        # log delta falls at this rate with epsilon, so a slightly larger epsilon makes room for the size of the boxes.
        nearby = min(0.1 / max(tilt, 1.0), 0.2 * (self._support - reached.upper))
        rate = search.decay_rate(reached.upper, reached.upper + nearby, choice)
        share = _default_gap(self.groups) if width is None else 0.4 * width * max(lower, 1e-9) * rate
        upper = reached.upper + share / rate
        boxes = self._in_boxes(responses, upper, tilt)
        for further in range(1, CONFIG.most_passes + 1):
            if upper >= self._support:
                break
            top = boxes.branch_and_bound(upper, target_delta, _most_splits(width))
            if either_fails(self.failure, Bracket(0.0, top)).upper <= delta:
                return _check_width(Bracket(min(lower, upper), upper), width)
            upper += 1.2 * further**2 * math.log(top / target_delta) / rate
        return _check_width(Bracket(min(lower, self._support), math.inf), width)

    @property
    def _support(self) -> float:
        """Largest privacy loss that all mechanisms of the batch (chosen up front) can have together, rounded up."""
        return (LinearStage(self.linear).support + RangeStage(self.groups).support) * (1 + 1e-14)

    def _responses(self, tilt: float, width: float | None = None) -> "_Responses":
        """Return an object that computes the batch's delta if its bounded-range mechanisms are randomized responses.

        In a batch, all mechanisms are chosen up front. The worst bounded-range mechanism of epsilon a is a randomized
        response with losses t and t - a, for some t. So the largest delta of the batch is a maximum over t, and the
        object has methods that compute delta for given t, one for each epsilon.

        - `tilt` says where the object is most accurate: near the mean of the total loss L of the other mechanisms, if
          the probability of each L is multiplied by exp(`tilt` L) and normalised. It matters only if L has to be
          rounded to equally spaced values.
        - `width` is the wanted relative width of brackets (certified intervals) for delta; a smaller width needs finer
          rounding. None takes the default.
        """
        # The losses of the mechanisms with fixed dominating pairs are summed once: exactly if they can be enumerated,
        # and otherwise on a lattice (equally spaced losses). The lattice is most accurate near the mean that the loss L
        # has if its probabilities are weighted by exp(`tilt` L). The smaller `width`, the finer is the lattice.
        exact = exact_linear(self.linear, Bracket(0.0, 0.0))
        enumerable = exact is not None and not isinstance(exact.inner, GaussianLoss)
        if exact is not None and enumerable and exact.outer.size * outcome_count(self.groups) <= CONFIG.most_outcomes:
            inner = exact.inner or NoLoss()
            return _Responses(self.groups, inner, inner, exact.outer)
        tolerance = stages.CONFIG.last_tolerance if width is None else 1e-4 * width
        beside = LatticeSum(self.linear, Bracket(0.0, 0.0), tolerance)
        return _Responses(self.groups, *beside.tails(coarse_saddle(self.linear), tilt, whole=True))

    def _in_boxes(self, responses: "_Responses", epsilon: float, tilt: float) -> "_Responses":
        """Return an object that computes the delta of a simpler batch, whose delta is at least this batch's delta.

        In a batch, all mechanisms are chosen up front. The caller searches for the worst parameters of the
        bounded-range mechanisms, one parameter for each different epsilon. With many epsilons this search would take
        too long, so it is done for the simpler batch, which has only the `CONFIG.most_fixed` epsilons that add most to
        the variance of the loss. All other mechanisms are replaced by an upper bound on their delta.

        - `responses` computes the delta of this batch; it is returned unchanged if the epsilons are few enough.
        - `epsilon`: the delta of the simpler batch is close to this batch's delta at about this overall epsilon.
        - `tilt` is the rate at which log delta is expected to fall near `epsilon`. The upper bound is most accurate
          there.
        """
        # Branch and bound over boxes of parameters would take too long with more epsilons. The groups (bounded-range
        # mechanisms of one epsilon) that add most to the variance of the loss are kept. The other groups and the
        # mechanisms with fixed dominating pairs are replaced by an upper bound: the privacy profile of an adaptive
        # analyst who uses them in one fixed order (see `upper_bound_order`). If this batch has few enough epsilons,
        # `responses` is returned unchanged.
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
    """Return the object that bounds the delta of a batch; None if it would have to sum over too many joint outcomes.

    In a batch, all mechanisms are chosen up front. In the worst case the bounded-range mechanisms are randomized
    responses with two outcomes each, and a joint outcome says, for each epsilon, how many of them had the first
    outcome.

    - `groups` are bounded-range mechanisms as (epsilon, count).
    - `linear` are mechanisms with fixed dominating pairs, as (noise, count).
    - `failure` is a bracket (a certified interval) for the probability of outright failure, in which everything may be
      revealed.
    """
    # A joint outcome says, for each group, how many of its mechanisms had which of their two outcomes.
    if outcome_count(tuple(groups)) > CONFIG.most_outcomes:
        return None
    return BatchMixture(tuple(groups), tuple(linear), failure)


@dataclass(frozen=True, slots=True)
class _FromAbove:
    """An upper bound on the delta of some mechanisms, which takes the place of their privacy loss in a computation.

    `profile` has the upper bound as a function of epsilon. A computation of the delta of a batch (mechanisms all chosen
    up front) calls the method `delta` of a privacy loss and nothing else. If it gets an object of this class instead,
    its result is an upper bound on the batch's delta.
    """

    profile: Profile

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return upper bounds on the mechanisms' delta at each epsilon in `x`, and zeros as their absolute errors.

        The errors are zero because the bounds already include them.
        """
        return self.profile.read_upper(x), np.zeros_like(x)


@dataclass(frozen=True, slots=True)
class _Responses:
    """The delta of a batch of randomized responses and other mechanisms, as a function of the responses' parameters t.

    A batch is a set of mechanisms that are all chosen up front. Its total loss is a sum of three independent parts.

    - `groups` are the randomized responses as (epsilon, count). All responses of one pair have the same t, and their
      losses are t and t - epsilon.
    - `atoms` has the total loss of some other mechanisms exactly: all its values, with their probabilities.
    - `above` and `below` stand for the mechanisms that are in neither. They are two approximations of the total loss of
      these mechanisms: delta computed with `above` is at least the true delta, and with `below` at most.
    """

    groups: tuple[Group, ...]
    above: Loss
    below: Loss
    atoms: Atoms = NOTHING

    def at(self, choice: Choice, x: float) -> Bracket:
        """Return a bracket for the batch's delta at overall epsilon `x`, for one choice of the responses' parameters.

        The responses are generalized randomized responses. `groups`, a field of this object, has pairs (a, count):
        `count` responses with the privacy losses t and t - a. `choice` has one t, from 0 to a, for each of these pairs.
        """
        low = [t - epsilon for t, (epsilon, _) in zip(choice, self.groups, strict=True)]
        atoms = self._atoms(choice, low)
        upper = atoms.average(self.above, x)
        lower = upper if self.below is self.above else atoms.average(self.below, x)
        return Bracket(min(lower.lower, upper.upper), upper.upper)

    def over(self, first: Choice, last: Choice, x: float) -> float:
        """Return an upper bound on delta at the overall epsilon `x` that holds for every choice of t in a box.

        A batch (mechanisms all chosen up front) has randomized responses in groups of equal epsilon. Each group has one
        parameter t, and the losses of its responses are t and t - epsilon. A box has an interval of t for each group:
        `first` has the lower ends, and `last` the upper ends. Branch and bound splits boxes into smaller ones, whose
        bounds are lower, until the largest bound is low enough.
        """
        # Over the box, each randomized response is dominated by one fixed pair of distributions.
        low = [t - epsilon for t, (epsilon, _) in zip(first, self.groups, strict=True)]
        return self._atoms(last, low).average(self.above, x).upper

    def branch_and_bound(self, x: float, target: float, most: int) -> float:
        """Return an upper bound on the batch's delta at overall epsilon `x`, for the worst parameters of the responses.

        The batch has generalized randomized responses of several epsilons. All responses of one epsilon a have the same
        parameter t, from 0 to a, and their losses are t and t - a. So all choices of the parameters form a box with one
        side for each epsilon. The box is split into smaller boxes, each with an upper bound of its own; the largest of
        these bounds is the result.

        The search stops when the largest bound is at most `target`, a delta that is good enough for the caller, or
        after at most `most` splits.
        """
        # Each group of randomized responses of one epsilon has one t, and its losses are t and t - epsilon. A box has
        # an interval of t for each group. The box with the largest bound on delta is split first.
        most = min(most, max(CONFIG.fewest_boxes, int(CONFIG.most_work / outcome_count(self.groups))))
        start = tuple(0.0 for _ in self.groups)
        end = tuple(epsilon for epsilon, _ in self.groups)
        boxes = [(-self.over(start, end, x), start, end)]
        for _ in range(most):
            if -boxes[0][0] <= target:
                break
            _, first, last = heapq.heappop(boxes)
            cut = _index_to_halve(first, last, self.groups)
            middle = 0.5 * (first[cut] + last[cut])
            for a, b in (
                (first, (*last[:cut], middle, *last[cut + 1 :])),
                ((*first[:cut], middle, *first[cut + 1 :]), last),
            ):
                heapq.heappush(boxes, (-self.over(a, b, x), a, b))
        return -boxes[0][0]

    def _atoms(self, high: Sequence[float], low: Sequence[float]) -> Atoms:
        """Return the distribution of that part of the batch's total privacy loss whose values can be listed.

        A batch is a set of mechanisms that are all chosen up front. The part consists of the losses of the randomized
        responses in `groups`, and of the losses whose values are in the field `atoms`. `high` and `low` have the two
        possible losses of a randomized response, one entry for each pair (epsilon, count) in `groups`. The caller
        combines the result with the remaining loss, whose values cannot be listed.
        """
        atoms = self.atoms
        for (_, count), up, down in zip(self.groups, high, low, strict=True):
            atoms = atoms.times(two_point_atoms(up, down, count, CONFIG.smallest_ratio))
        return atoms


def _index_to_halve(first: Choice, last: Choice, groups: Sequence[Group]) -> int:
    """Return the index in `groups` of the parameter whose interval branch and bound should halve next.

    The randomized responses of each pair (epsilon, count) in `groups` have one common parameter t, between the pair's
    entries in `first` and in `last`. The index is that of the pair with the largest count * epsilon * (length of the
    interval), because this interval adds most to the uncertainty of the privacy loss.
    """
    added = [count * epsilon * (b - a) for (epsilon, count), a, b in zip(groups, first, last, strict=True)]
    return added.index(max(added))


def _default_gap(groups: Sequence[Group]) -> float:
    """Return the gap at which branch and bound stops if the caller does not say how narrow the bracket must be.

    The gap is the upper bound on delta minus the largest delta found, as a share of the largest delta found. The result
    depends only on the number of `groups`, which are bounded-range mechanisms as (epsilon, count) with distinct
    epsilons.
    """
    return CONFIG.widths[min(len(groups), len(CONFIG.widths)) - 1]


def _most_splits(width: float | None) -> int:
    """Return the largest number of times that branch and bound may split a box of parameters t.

    A randomized response of epsilon a has the losses t and t - a, and a box has an interval of t for each epsilon. More
    splits are allowed if the caller asked for a `width` of the bracket, because a bracket that is wider is then an
    error. None asks for no width.
    """
    return CONFIG.most_boxes if width is None else CONFIG.more_boxes * CONFIG.most_boxes


def _check_width(bracket: Bracket, width: float | None) -> Bracket:
    """Return `bracket`; raise `Unattainable` if it is wider than `width`, relative to its upper end.

    A bracket is a certified interval for delta or epsilon. None for `width` accepts any width.
    """
    if width is not None and not bracket.relative_width <= width:
        raise Unattainable(f"a relative width of {width:g} cannot be reached for this batch; ask for a wider one")
    return bracket

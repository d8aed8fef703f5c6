"""Closed forms for bounded-range (BR) and pure DP mechanisms: the optimal batch, and three mechanisms in a fixed order.

In a batch all mechanisms are chosen up front. The worst BR mechanisms are then all the same: the generalized randomized
response with the two privacy losses t and t - epsilon, for some number t. So the largest delta of the batch is a
maximum over t.

For one epsilon-DP and two epsilon-BR mechanisms, each chosen after seeing earlier answers, the paper that this package
implements has closed forms for all three orders. They show that the order matters: the largest delta can be larger if
the DP mechanism comes first than if it comes between the two BR mechanisms.
"""

# Every epsilon-BR mechanism is a post-processing of generalized randomized response with log likelihood ratios t and t
# - epsilon for some t in [0, epsilon]. In a batch the worst t is the same for all of them (lem:gen_convexity, which
# holds conditionally on the losses of the other mechanisms). The local maxima over t are known points t_l if the losses
# of the other mechanisms lie on one lattice of step epsilon (lem:deriv_zero).
#
# There may be thousands of such points. A search finds a good one, whose delta is a lower bound. Branch and bound then
# rules out blocks [a, b] of t: the pair with ratios b and a - epsilon dominates every t of the block, so its delta
# bounds the block's delta from above. Blocks that cannot be ruled out are split, and short ones are evaluated point by
# point. Nothing is assumed about the shape of delta as a function of t.

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import ELEMENTARY, UNIT, Bracket, either_fails, probability
from setwise.accounting.guarantees import BoundedRange, PureDP, Use
from setwise.accounting.losses.lattice import NOTHING, Atoms, two_point_loss
from setwise.errors import InvalidParameter

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """Constants of the search (branch and bound) for the parameter t with which a batch has the largest delta.

    A batch is a set of mechanisms that are all chosen up front. In the worst case all its mechanisms of epsilon-bounded
    range are randomized responses whose two losses are t and t - epsilon, and all have the same t, between 0 and
    epsilon. The search cuts the interval from 0 to epsilon into blocks, and bounds delta for the t in each block. The
    resulting bracket (certified interval) is valid whatever these numbers are.
    """

    # A batch is chosen up front. In the worst case, each bounded-range mechanism of the batch is a randomized response
    # with the same parameter t. The probability of dropped outcomes is added to the upper bound. The few points that
    # can be local maxima are evaluated.

    smallest_ratio: float = 1e-150
    """Joint outcomes of the mechanisms that are less likely than this share of the most likely joint outcome are left
    out, and their probability is added to the upper bound. The share is far below any delta of interest."""
    settled: float = 1e-12
    """A block is not split further if its upper bound on delta exceeds the largest delta found by at most this share.
    """
    few_points: int = 24
    """A block is not split further if at most this many t in it can be local maxima of delta. These t are then tried
    one by one.
    """


CONFIG = BatchConfig()


class NoLoss:
    """The privacy loss of a mechanism whose output does not depend on the data: delta(x) = max(0, 1 - exp(x)).

    The object is passed where a privacy loss is expected and there is no mechanism.
    """

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return max(0, 1 - exp(x)), the delta of no mechanism, at each epsilon in `x`, and error bounds.

        The second array bounds the absolute rounding error of each delta.
        """
        value = np.maximum(0.0, -np.expm1(np.minimum(x, 0.0)))
        return value, 16 * UNIT * value


@dataclass(frozen=True, slots=True)
class BatchBoundedRange:
    """The worst delta of a batch of equal bounded-range mechanisms and some other mechanisms, in closed form.

    A batch is a set of mechanisms that are all chosen up front.

    - `epsilon` is the parameter of each bounded-range mechanism, and `count` their number.
    - `beside` is the distribution of the total privacy loss of the other mechanisms.
    - `failure` is a bracket (a certified interval) for the probability that some mechanism fails outright (reveals
      everything).

    Requires: any two losses in `beside` differ by a whole multiple of `epsilon` (see `shared_offset`).
    """

    epsilon: float
    count: int
    beside: Atoms
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return a bracket (a certified interval) for the batch's largest possible delta at the overall `epsilon`.

        In a batch, all mechanisms are chosen up front; the largest delta is over all mechanisms with the batch's
        guarantees.

        Theorem: the paper's optimal batch of pure DP and bounded-range (BR) mechanisms (thm:opt_nonadaptive;
        thm:non-adaptive for BR alone).
        """
        return either_fails(self.failure, self._worst(epsilon))

    def at(self, t: float, x: float) -> Bracket:
        """Return a bracket for the batch's delta at overall epsilon `x` for one choice of its bounded-range mechanisms.

        The bracket is a certified interval; outright failures (in which everything may be revealed) are not included.
        In this choice every epsilon-bounded-range mechanism is generalized randomized response with the privacy losses
        `t` and `t` - epsilon. The delta of the worst choice is the maximum over t.
        """
        return self._pair(t, t - self.epsilon, x)

    def candidates(self, x: float) -> Floats:
        """Return, ascending, the t in (0, epsilon) at which delta, as a function of t, can have a local maximum.

        In the worst batch (mechanisms chosen up front), every epsilon-bounded-range mechanism is a randomized response
        with the losses t and t - epsilon, and all have the same t. The search for the worst t needs to evaluate delta,
        at the overall epsilon `x`, at some of the returned values only.
        """
        # Let n be their `count`, and L the total privacy loss of the other mechanisms, whose possible values are in
        # `beside`. The candidates are the t for which (n + 1) t is x - L plus a whole multiple of epsilon. All L give
        # the same t, because they are equal modulo epsilon.
        start = x - float(self.beside.loss[0])
        first = math.floor(-start / self.epsilon) - 1
        last = math.ceil(((self.count + 1) * self.epsilon - start) / self.epsilon) + 1
        points = (start + self.epsilon * np.arange(first, last + 1)) / (self.count + 1)
        return points[(points > 0.0) & (points < self.epsilon)]

    def _pair(self, high: float, low: float, x: float) -> Bracket:
        """Return a bracket for the batch's delta at overall epsilon `x`, for bounded-range mechanisms with two losses.

        The privacy losses are `high` and `low`. If `low` is `high` - epsilon, each mechanism is a randomized response
        with the parameter t = `high`, that is, with the losses t and t - epsilon.

        The search for the worst t also passes a smaller `low`. For every t from a to b, both losses lie between a -
        epsilon and b. So with `high` = b and `low` = a - epsilon, the upper end of the result bounds delta for all
        these t at once.
        """
        if high <= 0.0 or low >= 0.0:  # the outcome reveals nothing, so only the other mechanisms count
            return self.beside.average(NoLoss(), x)
        return self.beside.average(two_point_loss(high, low, self.count, CONFIG.smallest_ratio), x)

    def _worst(self, x: float) -> Bracket:
        """Return a bracket for the largest delta of the batch at overall epsilon `x`, given no outright failure.

        The mechanisms of the batch are chosen up front. In the worst case those of epsilon-bounded range are randomized
        responses with the losses t and t - epsilon, and all have the same t. The result is the maximum over t. In an
        outright failure, everything may be revealed; its probability is added by the caller.
        """
        if self.count == 1 and self.beside is NOTHING:
            return _single_mechanism(self.epsilon, x)
        points = self.candidates(x)
        seen: dict[float, Bracket] = {}

        def evaluate(t: float) -> Bracket:
            """Return the bracket for delta if all randomized responses of the batch have the parameter `t`.

            The losses of a response are t and t - epsilon. Delta is at the overall epsilon `x`, a parameter of the
            function around this one. Each bracket is stored, so that no t is evaluated twice.
            """
            if t not in seen:
                seen[t] = self.at(t, x)
            return seen[t]

        evaluate(0.0)
        _hill_climb(points, lambda t: evaluate(t).upper)
        peak = max(seen, key=lambda t: seen[t].lower)
        ceiling = self._branch_and_bound(x, points, evaluate, peak, seen[peak].lower)
        highest = max(value.upper for value in seen.values())
        return Bracket(max(value.lower for value in seen.values()), max(ceiling, highest))

    def _first_blocks(self, peak: float) -> list[tuple[float, float]]:
        """Return the interval [0, epsilon] of the parameter t, cut into blocks (low, high) around `peak`.

        The worst bounded-range mechanisms are randomized responses with the losses t and t - epsilon, and `peak` is the
        t with the largest delta found so far. A bound on delta is computed for each block. Far from the peak, delta is
        well below its maximum, so a rough bound for a long block is enough.
        """
        # A block's length is about the square of its distance from the peak, both as shares of epsilon; blocks of this
        # length can usually be shown to have a smaller delta than the peak. The block around the peak is longer and is
        # evaluated point by point.
        start = self.epsilon / math.sqrt(2.0 * self.count + 2.0)
        edges = [0.0, self.epsilon]
        distance = start
        while distance < self.epsilon:
            edges += [t for t in (peak - distance, peak + distance) if 0.0 < t < self.epsilon]
            distance += 1.5 * distance**2 / self.epsilon
        edges.sort()
        return list(pairwise(edges))

    def _branch_and_bound(
        self, x: float, points: Floats, evaluate: Callable[[float], Bracket], peak: float, floor: float
    ) -> float:
        """Return an upper bound on delta at overall epsilon `x`, for all parameters t that this search does not try.

        All randomized responses of the batch (chosen up front) have the losses t and t - epsilon, with the same t, and
        the caller looks for the t with the largest delta. The search cuts the interval of t into blocks, and computes a
        bound on delta for each. It takes the block with the largest bound first. If the block has few of the `points`,
        delta is evaluated at each of them, and the block is done. Otherwise the block is halved. The search stops when
        no remaining block has a bound above the largest delta found. The largest bound of a remaining block is
        returned, or 0 if no block remains. The caller compares it with the values that were evaluated.

        - `points` are all t at which delta can have a local maximum.
        - `evaluate(t)` returns the bracket (certified interval) for delta at t, and stores it for the caller.
        - `peak` is the t with the largest delta found so far, and `floor` a lower bound on that delta.
        """
        # A response has the losses t and t - epsilon. The interval of t is cut into blocks, and the block with the
        # largest bound is split first. If few `points` are in a block, `evaluate` is called with each of them, and the
        # block is not part of the returned bound. The search ends when no block has a bound above the largest delta
        # found.
        blocks: list[tuple[float, float, float]] = []

        def push(a: float, b: float) -> None:
            """Store the block [a, b] of parameters t in the heap `blocks`, with an upper bound on delta in the block.

            All randomized responses of the batch have the losses t and t - epsilon, and the search looks for the t with
            the largest delta. It takes the block with the largest bound from the heap first. `blocks` is a variable of
            the function around this one.
            """
            heapq.heappush(blocks, (-self._pair(b, a - self.epsilon, x).upper, a, b))

        for a, b in self._first_blocks(peak):
            push(a, b)
        while blocks and -blocks[0][0] > floor * (1 + CONFIG.settled):
            _, a, b = heapq.heappop(blocks)
            first, last = np.searchsorted(points, [a, b])
            # Take the neighbouring stationary points outside of the block too: between two stationary points delta has
            # no other local maximum, so its maximum over the block is at most the maximum over these points.
            inside = points[max(0, first - 1) : last + 1]
            if inside.size <= CONFIG.few_points:
                floor = max([floor, *(evaluate(float(t)).lower for t in inside)])
            else:
                push(a, 0.5 * (a + b))
                push(0.5 * (a + b), b)
        return -blocks[0][0] if blocks else 0.0


def _single_mechanism(epsilon: float, x: float) -> Bracket:
    """Return the largest delta, at the overall epsilon x >= 0, that a single epsilon-bounded-range mechanism can have.

    The result is (exp(epsilon / 2) - exp(x / 2))^2 / (exp(epsilon) - 1), and 0 for x >= epsilon. Generalized randomized
    response with t = (epsilon + x) / 2 attains it.

    Theorem: docs/closed-forms.md, "One bounded-range mechanism".
    """
    if x >= epsilon:
        return Bracket(0.0, 0.0)
    value = math.exp(x) * math.expm1((epsilon - x) / 2) ** 2 / math.expm1(epsilon)
    return probability(value, value * (4 * ELEMENTARY + 8 * (1.0 + epsilon)) * UNIT)


def shared_offset(epsilon: float, beside: list[float]) -> bool:
    """Return whether any two possible total losses of some pure DP uses differ by a whole multiple of `epsilon`.

    Only then does the closed form apply to a batch of these uses and epsilon-bounded-range mechanisms. `beside` has the
    epsilons of the uses. The loss of one use is its epsilon or minus its epsilon, so twice each entry of `beside` must
    be a multiple of `epsilon`.

    >>> shared_offset(0.2, [0.1, 0.3]), shared_offset(0.2, [0.15])
    (True, False)
    """
    steps = [2.0 * other / epsilon for other in beside]
    return all(abs(step - round(step)) <= 1e-13 * step and round(step) >= 1 for step in steps)


def _hill_climb(points: Floats, height: Callable[[float], float]) -> None:
    """Call `height` at some of the ascending `points`, which probably include the point with the largest height.

    The points are chosen by bisection. If `height` first rises and then falls, the point with the largest height is
    among them. Nothing is returned: the caller's function `height` stores the values that it computes.
    """
    low, high = 0, points.size - 1
    while high - low > 2:
        middle = (low + high) // 2
        if height(float(points[middle])) < height(float(points[middle + 1])):
            low = middle + 1
        else:
            high = middle
    for index in range(max(0, low - 1), min(points.size, high + 2)):
        height(float(points[index]))


_RELATIVE_ERROR = 1e-13


class ThreeMechanisms:
    """The largest delta of three mechanisms in a fixed order: one epsilon-DP and two epsilon-bounded-range mechanisms.

    The largest delta is over all adversaries, who choose each mechanism after seeing earlier answers. All three
    mechanisms have the same `epsilon`. There are three orders, because the epsilon-DP mechanism may come first, second
    or last.

    Theorem: the closed forms for three mechanisms in the paper that this package implements (lem:xyz, lem:ordbrdp2),
    for overall epsilons below `epsilon`. From `epsilon` on, delta is the same for all three orders
    (docs/closed-forms.md); see `_any_order`.
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self._keep = 1.0 / (1.0 + math.exp(-epsilon))  # probability that epsilon-DP randomized response keeps its bit

    def _q(self, t: float) -> float:
        """Return the probability of the loss `t` in generalized randomized response, whose other loss is `t` - epsilon.

        Generalized randomized response has two outcomes, with these two privacy losses, so its range of losses is
        exactly `epsilon`, the parameter of all three mechanisms. The result is (1 - e^(t - epsilon)) / (1 -
        e^-epsilon), the q_{epsilon,t} of the paper (defn:gen_rr).
        """
        return math.expm1(t - self.epsilon) / math.expm1(-self.epsilon)

    def _one_left(self, t: float) -> float:
        """Return the largest delta of one epsilon-bounded-range mechanism at overall epsilon x = 2 `t` - epsilon.

        The mechanism is the last of the three, and x is the overall epsilon of all three minus the losses of the first
        two. The worst mechanism at x is generalized randomized response with the parameter `t` = (epsilon + x) / 2, so
        callers pass this t instead of x.

        The result is q^2 (1 - exp(-epsilon)) with q = (1 - e^(t - epsilon)) / (1 - e^-epsilon). For example, it is 0
        for t = epsilon, where q is 0.
        """
        return self._q(t) ** 2 * -math.expm1(-self.epsilon)

    def x(self, t: float, g: float) -> float:
        """Return x(t) of lem:xyz in the paper, a part of the largest delta of three mechanisms.

        One mechanism is e-DP, and the other two have e-bounded range. `g` is the overall epsilon at which delta is
        computed. Of the two bounded-range mechanisms, the one that is used first has the losses `t` and t - e. Some
        outcomes give the e-DP mechanism the loss e, and x(t) is what these outcomes add to delta.

        The formula is valid for t <= g <= t + e; for t >= g the method `y` has the formula. The closed forms for delta
        are maxima and sums of `x`, `y` and `z`.
        """
        # The closed forms for delta are maxima and sums of x, y and z.
        q, e = self._q(t), self.epsilon
        return self._keep * (q * self._one_left((g - t) / 2) + (1 - q) * self._one_left((g + e - t) / 2))

    def y(self, t: float, g: float) -> float:
        """Return y(t) of lem:xyz in the paper, a part of the largest delta of three mechanisms.

        One mechanism is e-DP, and the other two have e-bounded range. `g` is the overall epsilon at which delta is
        computed. Of the two bounded-range mechanisms, the one that is used first has the losses `t` and t - e. Some
        outcomes give the e-DP mechanism the loss e, and y(t) is what these outcomes add to delta.

        The formula is valid for t >= g; for t <= g the method `x` has the formula. The closed forms for delta are
        maxima and sums of `x`, `y` and `z`.
        """
        # The closed forms for delta are maxima and sums of x, y and z.
        q, e = self._q(t), self.epsilon
        return self._keep * (q * -math.expm1(g - e - t) + (1 - q) * self._one_left((g + e - t) / 2))

    def z(self, t: float, g: float) -> float:
        """Return z(t) of lem:xyz in the paper, a part of the largest delta of three mechanisms.

        One mechanism is e-DP, and the other two have e-bounded range. `g` is the overall epsilon at which delta is
        computed. Of the two bounded-range mechanisms, the one that is used first has the losses `t` and t - e. Some
        outcomes give the e-DP mechanism the loss -e, and z(t) is what these outcomes add to delta.

        The formula is valid for t >= g; for smaller t these outcomes add nothing. The closed forms for delta are maxima
        and sums of `x`, `y` and `z`.
        """
        return (1 - self._keep) * self._q(t) * self._one_left(self.epsilon + (g - t) / 2)

    def pure_first(self, g: float) -> Bracket:
        """Return the largest delta, at overall epsilon `g`, of a pure DP mechanism followed by two bounded-range ones.

        All three have the same epsilon, the field of this object. The result is a bracket (a certified interval) that
        covers rounding errors.

        Raises: `InvalidParameter` if `g` is negative.
        """
        _check(g)
        if g >= self.epsilon:
            return self._any_order(g)
        e = self.epsilon
        first = self.x(e / 2, g) if g >= e / 2 else self.y((e + g) / 3, g)
        return self._bracket(first + self.z((2 * e + g) / 3, g), g)

    def bounded_range_first(self, g: float) -> Bracket:
        """Return the largest delta of the three mechanisms at overall epsilon `g` if a bounded-range one is first.

        The pure DP mechanism comes second, and the other bounded-range mechanism third; all three have the field
        `epsilon`. If the second and the third change places, delta is the same. The largest is over all adversaries,
        who choose each mechanism after seeing earlier answers. The result is a bracket (a certified interval) that
        covers rounding errors.

        Raises: `InvalidParameter` if `g` is negative.
        """
        _check(g)
        if g >= self.epsilon:
            return self._any_order(g)
        e = self.epsilon
        if g >= e / 2:
            value = max(self.x(e / 2, g), self.y(g, g) + self.z(g, g))
        else:
            value = max(self.x(g, g), self.y(e / 2, g) + self.z(e / 2, g))
        return self._bracket(value, g)

    def _any_order(self, g: float) -> Bracket:
        """Return the largest delta of one pure DP and two bounded-range mechanisms at the overall epsilon `g`.

        All three mechanisms have the same epsilon e, the field `epsilon` of this object. If g >= e, their largest delta
        is the same in every order, so that one formula serves all orders.

        Requires: g >= e.
        """
        # The best parameter t of the first bounded-range mechanism is epsilon/2 up to g = 3 epsilon/2, and g/3 beyond.
        # The delta is 0 from g = 3 epsilon on.
        if g >= 3 * self.epsilon:
            return Bracket(0.0, 0.0)
        e = self.epsilon
        t = max(e / 2, g / 3)
        value = self.x(t, g) if g <= 1.5 * e else self._keep * self._q(t) * self._one_left((g - t) / 2)
        return self._bracket(value, g)

    def _bracket(self, value: float, g: float) -> Bracket:
        """Return a bracket (certified interval) around `value`, a computed delta, that covers its rounding error.

        `value` is the delta of three mechanisms of the same epsilon (a field) at the overall epsilon `g`. The delta is
        a product of up to three probabilities. A probability loses digits if its mechanism's loss is close to epsilon,
        so the bracket is wider the closer `g` is to the largest possible loss, 3 epsilon.
        """
        nearest = max(self.epsilon - g / 3, 1e-300)
        return probability(value, value * (_RELATIVE_ERROR + 24 * UNIT * (self.epsilon + g) / nearest))


def _check(g: float) -> None:
    """Raise `InvalidParameter` unless the overall epsilon `g` is at least 0, as the closed forms require."""
    if not g >= 0:
        raise InvalidParameter(f"the closed forms need epsilon >= 0, not {g!r}")


def three_in_order(uses: Sequence[Use]) -> Callable[[float], Bracket] | None:
    """Return the largest delta, as a function of the overall epsilon, of one pure DP and two bounded-range uses.

    The uses are made in the order of `uses`, and an adversary chooses each mechanism after seeing earlier answers. The
    function returns a bracket (a certified interval). The result is None if `uses` are other uses, or if their epsilons
    differ, because no closed form is known then.
    """
    kinds = [use.guarantee for use in uses for _ in range(min(use.count, 4))]
    epsilons = {g.epsilon for g in kinds if isinstance(g, PureDP | BoundedRange)}
    pure = [index for index, g in enumerate(kinds) if isinstance(g, PureDP)]
    ranges = [g for g in kinds if isinstance(g, BoundedRange)]
    if len(kinds) != 3 or len(pure) != 1 or len(ranges) != 2 or len(epsilons) != 1:
        return None
    three = ThreeMechanisms(epsilons.pop())
    return three.pure_first if pure[0] == 0 else three.bounded_range_first

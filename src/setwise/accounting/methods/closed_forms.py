"""Closed forms of bounded-range mechanisms beside pure DP ones: the optimal batch, and three mechanisms in order.

In a batch all are chosen up front.

Every epsilon-BR mechanism is a post-processing of generalized randomized response with log likelihood ratios
t and t - epsilon for some t in [0, epsilon]; in a batch the worst t is the same for all (lem:gen_convexity, which
holds conditionally on the losses of the mechanisms beside). What is left is one maximisation over t, whose local maxima
are known points t_l when the losses beside lie on one lattice of step epsilon (lem:deriv_zero).

There may be thousands of such points. A search finds a good one, which is a lower bound by itself. Branch and bound
rules out blocks [a, b] of t: the pair with ratios b and a - epsilon dominates every t of the block, so its delta bounds
the block's from above. Blocks too good to rule out are split, and short ones evaluated point by point. Nothing is
assumed about the shape of the curve.

For one epsilon-DP and two epsilon-BR mechanisms, chosen adaptively, the paper has closed forms for every order. They
show that order matters: two BR mechanisms after the DP one can cost more than around it.
"""

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
    """When blocks of t are ruled out, split or evaluated; every bound counts, whatever these numbers are."""

    smallest_ratio: float = 1e-150
    """Masses below this share of the mode's are dropped and charged: far below any delta of interest."""
    settled: float = 1e-12
    """A block whose bound is within this share of the best value found needs no further splitting."""
    few_points: int = 24
    """Stationary points up to which a block is settled by evaluating them."""


CONFIG = BatchConfig()


class NoLoss:
    """The loss of a mechanism whose output does not depend on the data: delta(x) = max(0, 1 - exp(x))."""

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return delta at each x and the absolute error of each."""
        value = np.maximum(0.0, -np.expm1(np.minimum(x, 0.0)))
        return value, 16 * UNIT * value


@dataclass(frozen=True, slots=True)
class BatchBoundedRange:
    """`count` epsilon-BR mechanisms chosen up front, beside mechanisms with the losses `beside`.

    Requires: all losses beside are the same modulo epsilon (see `shared_offset`).
    """

    epsilon: float
    count: int
    beside: Atoms
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return the optimal delta of the batch at the given overall epsilon.

        Theorem: thm:opt_nonadaptive (thm:non-adaptive when nothing stands beside).
        """
        return either_fails(self.failure, self._worst(epsilon))

    def at(self, t: float, x: float) -> Bracket:
        """Return delta at epsilon = x when every BR mechanism is the generalized randomized response at t."""
        return self._pair(t, t - self.epsilon, x)

    def candidates(self, x: float) -> Floats:
        """Return the stationary points in (0, epsilon), ascending: t_l (count + 1) = x - loss beside + l epsilon."""
        start = x - float(self.beside.loss[0])
        first = math.floor(-start / self.epsilon) - 1
        last = math.ceil(((self.count + 1) * self.epsilon - start) / self.epsilon) + 1
        points = (start + self.epsilon * np.arange(first, last + 1)) / (self.count + 1)
        return points[(points > 0.0) & (points < self.epsilon)]

    def _pair(self, high: float, low: float, x: float) -> Bracket:
        """Return delta at x when every BR mechanism is replaced by the pair with these log likelihood ratios."""
        if high <= 0.0 or low >= 0.0:  # the outcome reveals nothing: only the mechanisms beside count
            return self.beside.average(NoLoss(), x)
        return self.beside.average(two_point_loss(high, low, self.count, CONFIG.smallest_ratio), x)

    def _worst(self, x: float) -> Bracket:
        if self.count == 1 and self.beside is NOTHING:
            return _alone(self.epsilon, x)
        points = self.candidates(x)
        seen: dict[float, Bracket] = {}

        def evaluate(t: float) -> Bracket:
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
        """Return [0, epsilon] cut up around the peak.

        A block can be ruled out when its length is about the square of its distance from the peak, both as shares of
        epsilon; the middle is settled point by point.
        """
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
        """Return an upper bound over the blocks of t that were not settled by evaluation: split, best first."""
        blocks: list[tuple[float, float, float]] = []

        def push(a: float, b: float) -> None:
            heapq.heappush(blocks, (-self._pair(b, a - self.epsilon, x).upper, a, b))

        for a, b in self._first_blocks(peak):
            push(a, b)
        while blocks and -blocks[0][0] > floor * (1 + CONFIG.settled):
            _, a, b = heapq.heappop(blocks)
            first, last = np.searchsorted(points, [a, b])
            # The neighbours outside come along: between two stationary points the curve has no other local maximum.
            inside = points[max(0, first - 1) : last + 1]
            if inside.size <= CONFIG.few_points:
                floor = max([floor, *(evaluate(float(t)).lower for t in inside)])
            else:
                push(a, 0.5 * (a + b))
                push(0.5 * (a + b), b)
        return -blocks[0][0] if blocks else 0.0


def _alone(epsilon: float, x: float) -> Bracket:
    """Return the optimal delta at x >= 0 of one epsilon-BR mechanism with nothing beside.

    It is (exp(epsilon / 2) - exp(x / 2))^2 / (exp(epsilon) - 1), at t = (epsilon + x) / 2.

    Theorem: docs/closed-forms.md, "One bounded-range mechanism".
    """
    if x >= epsilon:
        return Bracket(0.0, 0.0)
    value = math.exp(x) * math.expm1((epsilon - x) / 2) ** 2 / math.expm1(epsilon)
    return probability(value, value * (4 * ELEMENTARY + 8 * (1.0 + epsilon)) * UNIT)


def shared_offset(epsilon: float, beside: list[float]) -> bool:
    """Return whether pure DP uses with these epsilons have losses that are all the same modulo `epsilon`.

    Flipping one outcome changes the total loss by twice its epsilon.
    """
    steps = [2.0 * other / epsilon for other in beside]
    return all(abs(step - round(step)) <= 1e-13 * step and round(step) >= 1 for step in steps)


def _hill_climb(points: Floats, height: Callable[[float], float]) -> None:
    """Visit points towards the highest, halving the range each time, then its neighbours."""
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
    """One epsilon-DP and two epsilon-BR mechanisms, adaptively, in a fixed order.

    Theorem: lem:xyz, lem:ordbrdp2. For overall epsilon at least `epsilon` all orders agree; the paper leaves their
    common value open, and `_any_order` gives it (docs/closed-forms.md).
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self._keep = 1.0 / (1.0 + math.exp(-epsilon))  # q_{2e,e}: chance that randomized response keeps its bit

    def _q(self, t: float) -> float:
        """Return q_{epsilon,t} of defn:gen_rr."""
        return math.expm1(t - self.epsilon) / math.expm1(-self.epsilon)

    def _one_left(self, t: float) -> float:
        """Return the best a single remaining BR mechanism can do: q_t^2 (1 - exp(-epsilon))."""
        return self._q(t) ** 2 * -math.expm1(-self.epsilon)

    def x(self, t: float, g: float) -> float:
        """Return x(t) of lem:xyz."""
        q, e = self._q(t), self.epsilon
        return self._keep * (q * self._one_left((g - t) / 2) + (1 - q) * self._one_left((g + e - t) / 2))

    def y(self, t: float, g: float) -> float:
        """Return y(t) of lem:xyz."""
        q, e = self._q(t), self.epsilon
        return self._keep * (q * -math.expm1(g - e - t) + (1 - q) * self._one_left((g + e - t) / 2))

    def z(self, t: float, g: float) -> float:
        """Return z(t) of lem:xyz."""
        return (1 - self._keep) * self._q(t) * self._one_left(self.epsilon + (g - t) / 2)

    def pure_first(self, g: float) -> Bracket:
        """Return the optimal delta of (DP, BR, BR) at overall epsilon g >= 0."""
        _check(g)
        if g >= self.epsilon:
            return self._any_order(g)
        e = self.epsilon
        first = self.x(e / 2, g) if g >= e / 2 else self.y((e + g) / 3, g)
        return self._bracket(first + self.z((2 * e + g) / 3, g), g)

    def bounded_range_first(self, g: float) -> Bracket:
        """Return the optimal delta of (BR, DP, BR) at overall epsilon g; (BR, BR, DP) has the same."""
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
        """Return the common value for g >= epsilon: the best t is epsilon/2 up to g = 3 epsilon/2, then g/3."""
        if g >= 3 * self.epsilon:
            return Bracket(0.0, 0.0)
        e = self.epsilon
        t = max(e / 2, g / 3)
        value = self.x(t, g) if g <= 1.5 * e else self._keep * self._q(t) * self._one_left((g - t) / 2)
        return self._bracket(value, g)

    def _bracket(self, value: float, g: float) -> Bracket:
        """Return the bracket of a value; arguments that come close to epsilon cancel in q, up to three times over."""
        nearest = max(self.epsilon - g / 3, 1e-300)
        return probability(value, value * (_RELATIVE_ERROR + 24 * UNIT * (self.epsilon + g) / nearest))


def _check(g: float) -> None:
    if not g >= 0:
        raise InvalidParameter(f"the closed forms need epsilon >= 0, not {g!r}")


def three_in_order(uses: Sequence[Use]) -> Callable[[float], Bracket] | None:
    """Return delta as a function of epsilon when the uses are one pure DP and two BR with one epsilon, else None."""
    kinds = [use.guarantee for use in uses for _ in range(min(use.count, 4))]
    epsilons = {g.epsilon for g in kinds if isinstance(g, PureDP | BoundedRange)}
    pure = [index for index, g in enumerate(kinds) if isinstance(g, PureDP)]
    ranges = [g for g in kinds if isinstance(g, BoundedRange)]
    if len(kinds) != 3 or len(pure) != 1 or len(ranges) != 2 or len(epsilons) != 1:
        return None
    three = ThreeMechanisms(epsilons.pop())
    return three.pure_first if pure[0] == 0 else three.bounded_range_first

"""Bounded-range mechanisms chosen up front, beside linear ones: the optimal batch bound.

Every epsilon-BR mechanism is a post-processing of generalized randomized response with log likelihood ratios
t and t - epsilon for some t in [0, epsilon]; in a batch the worst t is the same for all (lem:gen_convexity, which
holds conditionally on the losses of the linear mechanisms and so beside any of them). What is left is one
maximisation over t.

It is done in two parts. A search finds a good t, which is a lower bound by itself. Then blocks [a, b] of t are
ruled out: the pair with ratios b and a - epsilon dominates every t of the block, so its delta bounds the block's
from above. Blocks too good to rule out are split. Nothing is assumed about the shape of the curve.
"""

import heapq
import math
from dataclasses import dataclass

import numpy as np

from setwise.accounting.atoms import Atoms
from setwise.accounting.bracket import Bracket
from setwise.accounting.rounding import unite
from setwise.accounting.two_point import two_point_loss

_MOST_BLOCKS = 4000
_SETTLED = 1e-12
"""A block whose bound is within this share of the best value found needs no further splitting."""


@dataclass(frozen=True, slots=True)
class BatchBoundedRange:
    """`count` epsilon-BR mechanisms chosen up front, beside linear mechanisms with the losses `beside`.

    `candidate_step` is epsilon when all losses beside lie on the lattice epsilon Z: then the maximisers are among
    t_l = (x + l epsilon) / (count + 1) and the maximum is exact (thm:opt_nonadaptive).
    """

    epsilon: float
    count: int
    beside: Atoms
    failure: Bracket
    on_lattice: bool

    def delta(self, epsilon: float) -> Bracket:
        """Return the optimal delta of the batch at the given overall epsilon.

        Theorem: thm:opt_nonadaptive (thm:non-adaptive when nothing stands beside).
        """
        return unite(self.failure, self._worst(epsilon))

    def at(self, t: float, x: float) -> Bracket:
        """Return delta at epsilon = x when every BR mechanism is the generalized randomized response at t."""
        return self._pair(t, t - self.epsilon, x)

    def _pair(self, high: float, low: float, x: float) -> Bracket:
        if high <= 0.0 or low >= 0.0:  # the outcome says nothing: only the mechanisms beside count
            return self.beside.average(_NO_LOSS, x)
        return self.beside.average(two_point_loss(high, low, self.count, 1e-150), x)

    def candidates(self, x: float) -> np.ndarray:  # type: ignore[type-arg]
        """Return the stationary points t_l in (0, epsilon), ascending (an even grid when there is no lattice)."""
        if not self.on_lattice:
            return np.linspace(0.0, self.epsilon, 65)[1:-1]
        # t_l (count + 1) = x + epsilon (l + 1 - m): every point of x + epsilon Z that falls inside.
        first = math.floor(-x / self.epsilon) - 1
        last = math.ceil(((self.count + 1) * self.epsilon - x) / self.epsilon) + 1
        points = (x + self.epsilon * np.arange(first, last + 1)) / (self.count + 1)
        return points[(points > 0.0) & (points < self.epsilon)]

    def _worst(self, x: float) -> Bracket:
        points = self.candidates(x)
        value: dict[float, Bracket] = {}

        def evaluate(t: float) -> Bracket:
            if t not in value:
                value[t] = self.at(t, x)
            return value[t]

        evaluate(0.0)
        _climb(points, lambda t: evaluate(t).upper)
        best = max(value.values(), key=lambda bracket: bracket.lower)
        ceiling = self._ruled_out(x, points, evaluate, best.lower)
        return Bracket(max(v.lower for v in value.values()), max(ceiling, max(v.upper for v in value.values())))

    def _ruled_out(self, x: float, points: np.ndarray, evaluate: object, floor: float) -> float:  # type: ignore[type-arg]
        """Return an upper bound over all t: split blocks, best first, until none can beat `floor`.

        On a lattice, a block with few stationary points is settled by evaluating them: between two neighbouring
        ones the curve has no other local maximum.
        """
        assert callable(evaluate)
        blocks: list[tuple[float, float, float]] = []

        def push(a: float, b: float) -> None:
            heapq.heappush(blocks, (-self._pair(b, a - self.epsilon, x).upper, a, b))

        push(0.0, self.epsilon)
        settled = 0.0
        for _ in range(_MOST_BLOCKS):
            if not blocks or -blocks[0][0] <= max(floor, settled) * (1 + _SETTLED):
                break
            _, a, b = heapq.heappop(blocks)
            if self.on_lattice:
                first, last = np.searchsorted(points, [a, b])
                inside = points[max(0, first - 1) : last + 1]
                if inside.size <= 6:
                    settled = max([settled, *(evaluate(float(t)).upper for t in inside)])
                    continue
            middle = 0.5 * (a + b)
            if not self.on_lattice:
                floor = max(floor, evaluate(middle).lower)
            push(a, middle)
            push(middle, b)
        return max(settled, -blocks[0][0] if blocks else 0.0)


class _NoLoss:
    """A mechanism that says nothing: delta(x) = max(0, 1 - exp(x))."""

    def delta(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        value = np.maximum(0.0, -np.expm1(np.minimum(x, 0.0)))
        return value, value * 1e-15


_NO_LOSS = _NoLoss()


def _climb(points: np.ndarray, height: object) -> None:  # type: ignore[type-arg]
    """Visit points towards the highest, halving the range each time, then confirm its neighbours."""
    assert callable(height)
    low, high = 0, points.size - 1
    while high - low > 2:
        middle = (low + high) // 2
        if height(float(points[middle])) < height(float(points[middle + 1])):
            low = middle + 1
        else:
            high = middle
    for index in range(max(0, low - 1), min(points.size, high + 2)):
        height(float(points[index]))

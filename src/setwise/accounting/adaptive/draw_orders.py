"""How unequal bounded-range mechanisms may be drawn: by the counts that remain, or by what remains to be spent.

The state of an analyst who draws in any order is the vector of remaining counts. Where there are too many of those,
only a price of what remains is kept: every parameter has a whole price, and any of them may be drawn that leaves a sum
of prices which some remaining set has. Every real order is among these, whatever the prices, so the bound is sound; it
is tight when prices are in proportion to what a draw gains (docs/optimal-composition.md, "Unequal parameters").
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.losses.discrete import worst_t

Group = tuple[float, int]
"""An epsilon and a count."""

MOST_STATES = 1_500
"""Vectors of remaining counts beyond which draws are priced."""

MOST_PRICED_STEPS = 12_000
"""Steps of the operator that priced draws may take, if rounding epsilons up to fewer can help it."""

_MOST_PRICE = 400
"""The price of the smallest epsilon is at most this."""


@dataclass(frozen=True, slots=True)
class DrawOrders:
    """Bounded-range mechanisms drawn in any order: by counts, or by `prices` when there are any."""

    groups: tuple[Group, ...]
    prices: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """How often an operator is applied, at most."""
        if self.prices:
            return self.total * len(self.groups)
        if len(self.groups) == 1:
            return self.groups[0][1]
        return math.prod(count + 1 for _, count in self.groups) * len(self.groups)

    @property
    def total(self) -> int:
        """What all draws cost together."""
        return sum(count * price for (_, count), price in zip(self.groups, self.prices, strict=True))

    def levels(self) -> NDArray[np.int64]:
        """Return, ascending, what some remaining set costs."""
        seen = np.zeros(self.total + 1, dtype=bool)
        seen[0] = True
        for (_, count), price in zip(self.groups, self.prices, strict=True):
            left, part = count, 1
            while left:  # parts 1, 2, 4, ... and a rest reach every number up to the count
                part = min(part, left)
                moved = np.zeros_like(seen)
                moved[part * price :] = seen[: seen.size - part * price]
                seen |= moved
                left, part = left - part, 2 * part
        return np.flatnonzero(seen)


def added_up(groups: Sequence[Group]) -> list[Group]:
    """Return the groups in ascending order, equal epsilons together."""
    return [
        (epsilon, sum(count for _, count in same))
        for epsilon, same in itertools.groupby(sorted(groups), key=lambda group: group[0])
    ]


@lru_cache(maxsize=64)
def draw_orders_of(groups: tuple[Group, ...], tilt: float) -> DrawOrders:
    """Return draws in any order that allow all that the groups allow, and little more where `tilt` points.

    Epsilons may be rounded up to fewer: a-BR implies b-BR for a <= b.
    """
    merged = added_up(groups)
    if len(merged) == 1 or math.prod(count + 1 for _, count in merged) <= MOST_STATES:
        return DrawOrders(tuple(merged))
    best, least = DrawOrders(()), math.inf
    while True:
        found, gain = _priced(merged, tilt)
        if gain < least:
            best, least = found, gain
        if len(merged) == 1:
            return best
        cost = [merged[i][1] * (merged[i + 1][0] ** 2 - merged[i][0] ** 2) for i in range(len(merged) - 1)]
        cheapest = cost.index(min(cost))
        merged[cheapest : cheapest + 2] = [(merged[cheapest + 1][0], merged[cheapest][1] + merged[cheapest + 1][1])]


def _priced(groups: Sequence[Group], tilt: float) -> tuple[DrawOrders, float]:
    """Return prices under which the best way to spend them all gains least, and that gain; infinite if out of reach."""
    gains = [_gain(epsilon, tilt) for epsilon, _ in groups]
    if len(groups) == 1:
        return DrawOrders(tuple(groups)), groups[0][1] * gains[0]
    best, least = DrawOrders(()), math.inf
    for smallest in range(1, _MOST_PRICE + 1):
        prices = tuple(max(1, round(smallest * gain / gains[0])) for gain in gains)
        found = DrawOrders(tuple(groups), prices)
        if found.steps > MOST_PRICED_STEPS:
            break
        most = found.total * max(gain / price for gain, price in zip(gains, prices, strict=True))
        if most < least:
            best, least = found, most
    return best, least


def _gain(epsilon: float, tilt: float) -> float:
    """Return the logarithm of the largest E[exp(tilt loss)]: what a draw gains against a tail like exp(-tilt x)."""
    t = worst_t(epsilon, tilt)
    keep = math.expm1(t - epsilon) / math.expm1(-epsilon)
    return math.log1p(keep * math.expm1(tilt * t) + (1.0 - keep) * math.expm1(tilt * (t - epsilon)))

"""Many draws bounded by one Gaussian mechanism: a number instead of a profile.

By its price c a use in front of G_v is dominated by G_{v + c}, so in every adaptive order a multiset E is dominated by
G_{v(E)} with v(E) = max over b in E of v(E - b) + c(b, v(E - b)), starting from 0 (docs/optimal-composition.md, "The
Gaussian majorant"). Large bounded-range parameters, whose prices are worst, stay on the grid beside the Gaussian.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from setwise.accounting.adaptive import dynamic_program
from setwise.accounting.adaptive.dynamic_program import Group, quick_in_any_order, variance_of
from setwise.accounting.brackets import UNIT, up
from setwise.accounting.guarantees import BoundedRange, Gaussian, Guarantee
from setwise.accounting.prices import wallet_before


@dataclass(frozen=True, slots=True)
class MajorantConfig:
    """How finely prices are tabulated, and how tight a Gaussian must be. Every choice gives an upper bound."""

    cell: float = 0.05
    """Relative length of the cells on which prices are tabulated and the potential is integrated."""
    first_cell: float = 1e-2
    """The first level above 0, as a share of the largest price."""
    tight: float = 1e-3
    """Excess of the Gaussian over the variance of all losses that is accepted: it moves epsilon by about half of it."""


CONFIG = MajorantConfig()


def in_any_order(uses: Sequence[tuple[Guarantee, int]]) -> float:
    """Return a v such that the uses, in any adaptive order, are dominated by the Gaussian of mu^2 = v; rounded up.

    It is also a wallet that pays for them in any order. It is infinite when some use has no price.

    Theorem: docs/optimal-composition.md, Theorem 12 (any order).
    """
    counts: dict[Guarantee, int] = {}
    gaussians = 0.0  # their price is always the same, and others cost most with no Gaussian behind them
    for use, count in uses:
        if isinstance(use, Gaussian):
            gaussians = up(gaussians + count * use.price(0.0) * (1.0 + 4.0 * UNIT))
        elif use.price(0.0) > 0.0:
            counts[use] = counts.get(use, 0) + count
    # Largest price last is the worst order in every case tried. It sets costs and levels; no proof depends on it.
    draws = sorted(counts.items(), key=lambda draw: draw[0].price(0.0), reverse=True)
    levels = [0.0]
    for use, count in draws:
        levels.append(wallet_before(use.price, count, levels[-1]))
        if levels[-1] == math.inf:
            return math.inf
    found = levels[-1] if len(draws) <= 1 else _by_potential(draws, levels)
    return up(found + gaussians) if gaussians else found


def _by_potential(draws: Sequence[tuple[Guarantee, int]], levels: Sequence[float]) -> float:
    """Return the level at which the potential reaches the sum of the costs.

    Every draw of b raises Theta(v) = int_0^v min_b k_b / e_b(x) dx by at most its cost k_b, where e_b(x) bounds the
    price of a draw that starts at or before x and ends at or beyond it.
    """
    first = CONFIG.first_cell * draws[0][0].price(0.0)
    points = [0.0]
    while points[-1] < 4.0 * levels[-1]:
        points.append(max(first, points[-1] * (1.0 + CONFIG.cell)))
    jumps = [_jumps(use, points) for use, _ in draws]
    costs = [1.0]
    for index in range(1, len(draws)):
        here = bisect_left(points, levels[index])
        costs.append(costs[-1] * jumps[index][here] / jumps[index - 1][here])
    total = math.fsum(count * cost for (_, count), cost in zip(draws, costs, strict=True)) * (1.0 + 8.0 * UNIT)
    potential = 0.0
    for index in range(len(points) - 1):
        # Jumps fall with x, so those at the left end of a cell bound those inside.
        rate = min(cost / jump[index] for cost, jump in zip(costs, jumps, strict=True)) * (1.0 - 8.0 * UNIT)
        after = (potential + rate * (points[index + 1] - points[index])) * (1.0 - 4.0 * UNIT)
        if after >= total:
            return up(points[index] + (total - potential) / rate * (1.0 + 16.0 * UNIT))
        potential = after
    return math.inf


def _jumps(use: Guarantee, points: Sequence[float]) -> list[float]:
    """Return e_b at the points: the largest price of a draw that starts at or before x and ends at or beyond it.

    If v + price(v) < x, no draw from v or before reaches x, so the draws that do start later and cost at most price(v).
    """
    prices = [use.price(point) for point in points]
    jumps, start = [], -1
    for point in points:
        while start + 1 < len(points) and points[start + 1] + prices[start + 1] < point * (1.0 - 4.0 * UNIT):
            start += 1
        jumps.append(prices[max(start, 0)])
    return jumps


@dataclass(frozen=True, slots=True)
class Split:
    """Bounded-range draws: `large` ones stay on the grid, `small` ones are bounded by a Gaussian of mu^2 = `wallet`."""

    large: tuple[Group, ...]
    small: tuple[Group, ...]
    wallet: float


def splits_of(groups: Sequence[Group], variance_beside: float) -> list[Split]:
    """Return the splits worth trying: everything in the Gaussian, and if that is not tight, a better one.

    That is the first in which the Gaussian's excess is a share `tight` of the whole variance, as large parameters move
    to the grid one after another, or else the last that the grid can take. Every split gives an upper bound.
    """
    ordered = sorted(groups, reverse=True)
    whole = variance_beside + variance_of(ordered)
    found: list[Split] = []
    for kept in range(len(ordered) + 1):
        large, small = tuple(ordered[:kept]), tuple(ordered[kept:])
        if kept and not quick_in_any_order(large, dynamic_program.CONFIG.quick_beside):
            break
        wallet = in_any_order([(BoundedRange(epsilon=epsilon), count) for epsilon, count in small])
        found.append(Split(large, small, wallet))
        if wallet - variance_of(small) <= CONFIG.tight * whole:
            break
    return found if len(found) == 1 else [found[0], found[-1]]

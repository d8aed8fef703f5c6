"""Bound of many uses by one Gaussian mechanism: a single number, mu squared, instead of a privacy profile.

The mu squared of a Gaussian mechanism is (sensitivity / sigma)^2; write G_v for the Gaussian with mu^2 = v. The uses
are replaced one by one, from the last to the first. If G_v stands for all later uses, the use b has the price c(b, v),
a number c such that G_{v + c} dominates b followed by G_v. So the mu squared that replaces all uses is the sum of their
prices.

The sum depends on the order of the uses. Its maximum over all orders of a multiset E is v(E): v(no uses) = 0, and v(E)
is the maximum over the first use b in E of v(E without b) + c(b, v(E without b)). So G_{v(E)} dominates the uses in
every adaptive order (docs/optimal-composition.md, "The Gaussian majorant").

The price of a bounded-range use of large epsilon is far above what the use reveals. So the privacy profile of such uses
is computed on a grid, and only the other uses are replaced by a Gaussian.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from setwise.accounting.adaptive import dynamic_program
from setwise.accounting.adaptive.dynamic_program import (
    DrawOrders,
    Group,
    largest_gain,
    quick_in_any_order,
    variance_of,
)
from setwise.accounting.brackets import UNIT, up
from setwise.accounting.guarantees import BoundedRange, Gaussian, Guarantee
from setwise.accounting.prices import wallet_before


@dataclass(frozen=True, slots=True)
class MajorantConfig:
    """Constants of the bound that replaces bounded-range uses by one Gaussian mechanism.

    The mu squared of a Gaussian mechanism is (sensitivity / sigma)^2. Each use has a price in mu squared, and the
    Gaussian that replaces the uses has the sum of the prices as its mu squared. The price of a use depends on the
    balance, which is the mu squared that remains for all later uses. Whatever these numbers are, the result is an upper
    bound; the text below each constant says what it decides.
    """

    cell: float = 0.05
    """Prices are tabulated at a sequence of balances, each larger by this share than the one before."""
    first_cell: float = 1e-2
    """Smallest tabulated balance above 0, as a share of the largest price."""
    tight: float = 1e-3
    """The Gaussian's mu^2 may exceed the variance of the losses that it replaces by at most this share of the variance
    of all losses. The excess changes epsilon by about half that share."""
    wide: float = 0.01
    """If the relative width of a bracket (a certified interval) is above this, a second bound is computed that takes
    about a second longer. In the second bound, the Gaussian replaces fewer uses: more uses of large epsilon are
    computed on a grid.
    """


CONFIG = MajorantConfig()


def in_any_order(uses: Sequence[tuple[Guarantee, int]]) -> float:
    """Return the mu^2 of a Gaussian mechanism that dominates `uses` in any adaptive order, rounded up.

    The mu squared of a Gaussian mechanism is (sensitivity / sigma)^2. `uses` are pairs (guarantee, count). The result
    is also a budget of mu squared that is large enough to pay a price for each use, in whatever order the uses are
    made. It is infinite if some use has no finite price, that is, if no Gaussian mechanism is known that dominates it.

    Theorem: docs/optimal-composition.md, Theorem 12 (any order).
    """
    return _in_any_order(tuple(uses))


@lru_cache(maxsize=64)
def _in_any_order(uses: tuple[tuple[Guarantee, int], ...]) -> float:
    """Return the mu^2 of a Gaussian mechanism that dominates `uses` in any adaptive order, rounded up.

    This function is the cached body of `in_any_order`. Mu is sensitivity / sigma, and `uses` are pairs (guarantee,
    count). The result is infinite if some use has no finite price, that is, if no Gaussian mechanism is known that
    dominates it.
    """
    counts: dict[Guarantee, int] = {}
    gaussians = 0.0  # the price of a Gaussian is constant; other uses cost most when no Gaussian follows them
    for use, count in uses:
        if isinstance(use, Gaussian):
            gaussians = up(gaussians + count * use.price(0.0) * (1.0 + 4.0 * UNIT))
        elif use.price(0.0) > 0.0:
            counts[use] = counts.get(use, 0) + count
    # The largest price last was the worst order in every case tried, so it sets the costs and levels. No proof
    # depends on that.
    draws = sorted(counts.items(), key=lambda draw: draw[0].price(0.0), reverse=True)
    levels = [0.0]
    for use, count in draws:
        levels.append(wallet_before(use.price, count, levels[-1]))
        if levels[-1] == math.inf:
            return math.inf
    level = levels[-1] if len(draws) <= 1 else _by_potential(draws, levels)
    return up(level + gaussians) if gaussians else level


def _by_potential(draws: Sequence[tuple[Guarantee, int]], levels: Sequence[float]) -> float:
    """Return a budget of mu squared, rounded up, that pays for all `draws` in any order; infinite if none is found.

    The mu squared of a Gaussian mechanism is (sensitivity / sigma)^2. A use takes a price from the budget, and the
    price depends on how much is left, so the sum of all prices depends on the order of payment. The result is enough
    for every order, so that one Gaussian mechanism of this mu squared dominates all draws.

    - `draws` are the uses to pay for, as pairs (guarantee, count).
    - `levels`: entry i is a budget that pays for the first i entries of `draws` in one fixed order. From these numbers
      the search chooses a weight for each entry of `draws`. Any positive weights give a valid result; good weights give
      a smaller one.
    """
    # Each kind b of use gets a positive number k_b. Let e_b(x) be an upper bound on the price of a use b whose payment
    # moves the balance past x, from above x to below x. The potential of a balance v is Theta(v) = int_0^v min_b k_b /
    # e_b(x) dx. Going backwards from an empty wallet, a use b raises the potential by at most k_b. So all uses together
    # raise it to at most the sum of the k_b of all uses. The result is the v where Theta reaches that sum, and infinity
    # if no tabulated v does.
    first = CONFIG.first_cell * draws[0][0].price(0.0)
    points = [0.0]
    while points[-1] < 4.0 * levels[-1]:
        points.append(max(first, points[-1] * (1.0 + CONFIG.cell)))
    jumps = [_prices_across(use, points) for use, _ in draws]
    costs = [1.0]
    for index in range(1, len(draws)):
        here = bisect_left(points, levels[index])
        costs.append(costs[-1] * jumps[index][here] / jumps[index - 1][here])
    total = math.fsum(count * cost for (_, count), cost in zip(draws, costs, strict=True)) * (1.0 + 8.0 * UNIT)
    potential = 0.0
    for index in range(len(points) - 1):
        # Jumps fall with x, so the jump at the left end of a cell is the largest of the cell.
        rate = min(cost / jump[index] for cost, jump in zip(costs, jumps, strict=True)) * (1.0 - 8.0 * UNIT)
        after = (potential + rate * (points[index + 1] - points[index])) * (1.0 - 4.0 * UNIT)
        if after >= total:
            return up(points[index] + (total - potential) / rate * (1.0 + 16.0 * UNIT))
        potential = after
    return math.inf


def _prices_across(use: Guarantee, points: Sequence[float]) -> list[float]:
    """Return, for each balance x in `points`, an upper bound on the price of one `use` whose payment crosses x.

    A balance is what is left of a budget; balances and prices are in mu squared, (sensitivity / sigma)^2 of a Gaussian.
    A payment crosses x if the balance is at least x before it and at most x after it. For example, a payment of 3 from
    a balance of 10 crosses every x from 7 to 10.

    The less a use leaves in the budget, the higher is its price. But a payment that starts at x or above cannot leave
    arbitrarily little, so its price is bounded. The caller adds such bounds up to find a budget that suffices for every
    order of payments.

    Requires: `points` ascend.
    """
    # The balance is that of a Gaussian wallet, a budget from which uses are paid. Let price(v) be the price of the
    # guarantee `use` if v is left after it; prices fall with v. If v + price(v) < x, a use that leaves v or less
    # started below x and does not cross x. So every use that crosses x leaves more than v and costs at most price(v).
    # The result is price(v) for the largest v in `points` with v + price(v) < x, or for the first of `points` if there
    # is no such v.
    prices = [use.price(point) for point in points]
    jumps, start = [], -1
    for point in points:
        while start + 1 < len(points) and points[start + 1] + prices[start + 1] < point * (1.0 - 4.0 * UNIT):
            start += 1
        jumps.append(prices[max(start, 0)])
    return jumps


@dataclass(frozen=True, slots=True)
class RangeSplit:
    """A division of bounded-range uses into uses of large epsilon and uses of small epsilon, as pairs (epsilon, count).

    A bound on delta treats the two kinds differently. The `large` uses are computed on a grid of epsilons, which is
    slow but loses little. The `small` uses are replaced by one Gaussian mechanism with (sensitivity / sigma)^2 =
    `wallet`, which is quick; the Gaussian dominates them in any order.
    """

    large: tuple[Group, ...]
    small: tuple[Group, ...]
    wallet: float

    def excess(self, tilt: float) -> float:
        """Return how much this split loosens a bound on log E[exp(`tilt` L)], where L is the privacy loss of all uses.

        The bound is looser because the uses in `small` are replaced by one Gaussian mechanism that dominates them. The
        result is the difference between the bound for the Gaussian and the bound for the uses themselves. Callers
        prefer splits with a small result, because their bounds on delta are tighter.
        """
        return 0.5 * tilt * (1.0 + tilt) * self.wallet - largest_gain(DrawOrders(self.small), tilt)


def splits_of(groups: Sequence[Group], variance_beside: float, *, thorough: bool = False) -> list[RangeSplit]:
    """Return one or two divisions of bounded-range uses into uses for a grid and uses to be replaced by one Gaussian.

    A bound on delta computes the first kind of use on a grid of epsilons, which is slow but nearly exact. It replaces
    the second kind by one Gaussian, which is quick but raises delta a little. In the first division all uses are
    replaced. The second division, if there is one, puts the largest epsilons on the grid.

    - `groups` are the bounded-range uses, as pairs (epsilon, count).
    - `variance_beside` is the variance of the losses of all other mechanisms.
    - `thorough` allows the computation on the grid to take about a second instead of half a second.
    """
    # The grid is slow and nearly exact; the Gaussian is fast and raises delta a little.
    # The Gaussian has a larger variance (mu^2) than the losses that it replaces. A split is tight if the excess is at
    # most `CONFIG.tight` times the variance of all losses. The first split replaces all uses by one Gaussian. If it is
    # not tight, groups are moved to the grid, largest epsilons first, until the split is tight, or until another group
    # would take the grid too long. If any group was moved, this is the second split.
    limit = dynamic_program.CONFIG.quick_work if thorough else dynamic_program.CONFIG.quick_beside
    ordered = sorted(groups, reverse=True)
    total_variance = variance_beside + variance_of(ordered)
    splits: list[RangeSplit] = []
    for large_groups in range(len(ordered) + 1):
        large, small = tuple(ordered[:large_groups]), tuple(ordered[large_groups:])
        if large_groups and not quick_in_any_order(large, limit):
            break
        wallet = in_any_order([(BoundedRange(epsilon=epsilon), count) for epsilon, count in small])
        splits.append(RangeSplit(large, small, wallet))
        if wallet - variance_of(small) <= CONFIG.tight * total_variance:
            break
    return splits if len(splits) == 1 else [splits[0], splits[-1]]

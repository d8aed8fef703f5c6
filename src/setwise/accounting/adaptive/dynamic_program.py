"""Certified privacy profiles of bounded-range mechanisms that an adversary uses in any adaptive order.

The adversary chooses the next mechanism, among those whose guarantees remain to be used, after seeing earlier answers.
A privacy profile is delta as a function of epsilon. The profile of all mechanisms is computed backwards, from the
mechanism used last to the mechanism used first: an operator (operator.py) turns the profile of later mechanisms into
the profile of one more mechanism followed by these. If the mechanisms have different epsilons, a dynamic program takes
the maximum over the mechanisms that the adversary may use next. A state of the program says how many uses of each
epsilon remain. If there are too many states, each use gets a price (a whole number), and a state is only the sum of the
prices of the remaining uses. The result is then an upper bound, because sums of prices also allow orders that use some
mechanism too often.
"""

# Let f be the profile of the mechanisms used last, and S_a f the profile if one a-bounded-range mechanism is used
# before them. So n mechanisms with equal epsilon a, used before the last ones, have the profile S_a applied n times to
# f.
#
# If epsilons differ, a state is a vector c with the number of uses that remain of each epsilon. Without remaining uses
# V(0) is f, and V(c), the profile of a state, is the maximum of S_a V(c - e_a) over all a with c_a > 0.
#
# If there are too many vectors, a state is reduced to one number. Each epsilon gets a price, a positive whole number,
# and the state is the sum of the prices of the remaining uses. From a state the analyst may use any mechanism whose
# price leads to a smaller state, even if all uses of that epsilon are used up. This allows every real order, so the
# maximum is an upper bound, whatever the prices are. The bound is tight if prices are in proportion to the effect of
# one use on delta (docs/optimal-composition.md, "Unequal parameters").

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.adaptive.operator import BoundedRangeStep
from setwise.accounting.adaptive.profiles import Band, Profile, TailProfile
from setwise.accounting.brackets import Progress, up
from setwise.accounting.losses.lattice import common_step, common_unit, worst_t
from setwise.errors import Unattainable

Group = tuple[float, int]
"""Bounded-range mechanisms with the same parameter: their epsilon and their count."""

Apply = Callable[[BoundedRangeStep, Profile, int], Profile]
"""A function that applies an operator to a profile on a number of grid points, for both bounds or for the upper one
only."""


@dataclass(frozen=True, slots=True)
class DrawConfig:
    """Constants that limit the work of finding the largest delta over the adaptive orders of bounded-range mechanisms.

    - A draw is one use of a mechanism that an adversary chooses from those that remain.
    - A privacy profile is delta as a function of epsilon, stored at the points of a grid. An operator is a function
      that maps the profile of some draws to the profile of one more draw followed by them.
    - If too many combinations of draws may remain, each draw gets a price (a whole number), and only the sum of the
      prices of the remaining draws is tracked. The result is then an upper bound on the largest delta.
    - Work is how often an operator is applied, times the number of grid points of a profile; about 10^8 take a second.
      Before a computation, its work is estimated. It is called quick if the estimate is below a limit; quick
      computations are done first, and others may be left out.
    - Cells are the intervals between neighbouring grid points.
    """

    most_states: int = 1_500
    """Largest number of combinations of remaining draws. With more, draws get prices, so that no computation takes more
    than some seconds."""
    most_priced_steps: int = 12_000
    """Largest number of operator applications if draws have prices. To stay below it, epsilons are rounded up to fewer
    different values, where that suffices."""
    most_price: int = 400
    """Largest price of the draw with the smallest epsilon that the search for prices tries."""
    largest_ratio: float = 32.0
    """Largest ratio of two epsilons on one grid. Epsilons below the largest epsilon divided by this number are rounded
    up to that quotient for the upper bound, and are left out of the lower bound."""
    quick_work: float = 1.2e8
    """A computation is called quick if its estimated work is at most this, which takes about a second."""
    quick_finer_work: float = 7e8
    """One fixed order of draws may need a grid with up to `finer` times the usual cells. The order is called quick only
    if its estimated work on that grid is at most this number. The estimate for so many cells is several times too
    large."""
    quick_priced_work: float = 3.5e8
    """Draws with prices are called quick up to this work. It is more than `quick_work`, because their bound is a few
    percent closer to the optimum than other bounds."""
    quick_beside: float = 5e7
    """The limit for being called quick in one case: one Gaussian mechanism replaces draws of small epsilon, and only
    draws of large epsilon are computed on a grid."""
    usual_cells: int = 32
    """Usual number of cells across the smallest epsilon, which gives a bracket of the default width."""
    application_work: float = 5e3
    """Fixed work of one application of an operator, however few points the grid has: the time of the calls of NumPy."""
    rough_application_work: float = 1e4
    rough_work: float = 10.0
    """If the grid is short, cells are computed one by one and not in blocks. One application of an operator then has
    the fixed work `rough_application_work`, and the work `rough_work` per grid point."""
    end_work: float = 0.7
    cached_cells: float = 200.0
    """On a grid that is not short, the last n cells, which span the largest epsilon, are computed in another way: n
    possible losses are tried for each cell. This takes the work `end_work` * n^2. Beyond n = `cached_cells`, the table
    of intermediate results no longer fits into the processor's cache, and the work grows faster."""
    short: float = 24.0
    """A grid is short if it spans less than this many times the largest epsilon."""
    deviations: float = 12.0
    """To estimate work, a grid is assumed to span this many standard deviations of the total privacy loss."""
    look_every: int = 64
    """After this many applications of an operator, the profile is checked for accumulated rounding errors, by its delta
    at epsilon 0. This delta should be about 0.4 standard deviations of the total loss; if it is more than one standard
    deviation, the computation stops with an error."""
    finer: int = 4
    """A grid may have up to this many times the cells asked for, so that all epsilons are grid points."""
    enough: float = 0.3
    """Epsilons are rounded up to grid points. A rounding is accepted if it raises no epsilon by more than the share
    `enough` / n^2, where n is the number of cells across the smallest epsilon: the grid itself then costs more accuracy
    than the rounding."""


CONFIG = DrawConfig()

_ON_GRID = 1e-12
"""A ratio that is within this relative distance of a whole number counts as that number. The step is then enlarged so
that the multiple is not below the epsilon."""


@dataclass(frozen=True, slots=True)
class DrawOrders:
    """Bounded-range mechanisms that may be used in any adaptive order: the input of a dynamic program over the orders.

    - `groups` are pairs (epsilon, count), which stand for `count` mechanisms with the same epsilon.
    - `prices` is empty, or has one positive whole number for each group: the price of one use.

    The program goes through states, which say what remains to be used. Without prices, a state has the number of
    remaining uses of each group. If there would be too many such states, prices make fewer: a state is then only the
    sum of the prices of the remaining uses. Different sets of remaining uses with the same sum count as one state, so
    the program computes only an upper bound on the largest delta.
    """

    # One use is called a draw. Without prices, a state is a vector with the number of remaining draws of each group,
    # and the program computes the largest delta over all orders. If there would be too many vectors, a state is the sum
    # of the prices of the remaining draws. These states also allow orders that draw from a group too often, so the
    # program then computes an upper bound on delta.

    groups: tuple[Group, ...]
    prices: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """An upper bound on the number of steps of the dynamic program; its time is about in proportion to this number.

        The program computes the largest delta over all orders of these uses. For every set of uses that may remain (or,
        if uses have prices, every sum of their prices) it keeps a privacy profile, delta as a function of epsilon. One
        step computes what a profile becomes if one more use remains.
        """
        # With one group of equal mechanisms the number is its number of uses. With several groups it is the number of
        # groups times the number of states of the program (vectors of remaining counts, or sums of prices).
        if self.prices:
            return self.total * len(self.groups)
        if len(self.groups) == 1:
            return self.groups[0][1]
        return _states(self.groups) * len(self.groups)

    @property
    def total(self) -> int:
        """The sum of the prices of all uses: for each group, the number of its uses times the price of one use.

        A dynamic program with prices tracks only the sum of the prices of the remaining uses, from 0 to this number.

        Requires: `prices` is not empty.

        >>> DrawOrders(groups=((0.1, 3), (0.2, 2)), prices=(1, 2)).total
        7
        """
        return sum(count * price for (_, count), price in zip(self.groups, self.prices, strict=True))

    def levels(self) -> NDArray[np.int64]:
        """Return the sums of prices of all subsets of the uses, each sum once, in ascending order.

        Two uses of price 2 and one of price 5, for example, give 0, 2, 4, 5, 7 and 9. Prices are positive whole
        numbers.

        These sums are the states of the dynamic program that computes the largest delta over all orders of the uses.
        The program does not track which uses remain, but only the sum of their prices.

        Requires: `prices` is not empty.
        """
        seen = np.zeros(self.total + 1, dtype=bool)
        seen[0] = True
        for (_, count), price in zip(self.groups, self.prices, strict=True):
            remaining, chunk = count, 1
            while remaining:  # parts 1, 2, 4, ... and a remainder add up to every number up to the count
                chunk = min(chunk, remaining)
                shifted = np.zeros_like(seen)
                shifted[chunk * price :] = seen[: seen.size - chunk * price]
                seen |= shifted
                remaining, chunk = remaining - chunk, 2 * chunk
        return np.flatnonzero(seen)


def variance_of(groups: Sequence[Group]) -> float:
    """Return an upper bound on the variance of the total privacy loss of all uses of bounded-range mechanisms.

    `groups` are pairs (epsilon, count). One use of an epsilon-bounded-range mechanism has a loss of variance at most
    epsilon^2 / 4.
    """
    return math.fsum(count * epsilon * epsilon / 4 for epsilon, count in groups)


def grid_work(groups: Sequence[Group], steps: float, cells: int = CONFIG.usual_cells) -> float:
    """Return the estimated work of adding bounded-range mechanisms to a privacy profile, one by one, `steps` times.

    A privacy profile (delta as a function of epsilon) is stored on a grid of epsilons, and the profile is recomputed
    each time a mechanism is added. The unit of work is one grid point in one step. Callers decide from the result
    whether a computation is quick enough.

    - `groups` are all mechanisms as pairs (epsilon, count); they decide how long the grid is.
    - `cells` is the number of grid cells (intervals between grid points) across the smallest epsilon in `groups`.
    """
    # Each application of an operator also has a fixed work of a few thousand units.
    epsilons = [epsilon for epsilon, _ in groups]
    smallest = max(min(epsilons), max(epsilons) / CONFIG.largest_ratio)
    span = CONFIG.deviations * math.sqrt(variance_of(groups))
    points = cells * (1.0 + span / smallest)
    if span < CONFIG.short * max(epsilons):
        return steps * (CONFIG.rough_application_work + CONFIG.rough_work * points)
    widest = cells * max(epsilons) / smallest
    end = CONFIG.end_work * widest**2 * (1.0 + (widest / CONFIG.cached_cells) ** 2)
    return steps * (CONFIG.application_work + points + end)


def quick_in_any_order(groups: Sequence[Group], most_work: float = CONFIG.quick_work) -> bool:
    """Return whether the largest delta over all adaptive orders of `groups` can be computed exactly and quickly.

    `groups` are bounded-range mechanisms as (epsilon, count). Quickly means: with an estimated work of at most
    `most_work`, where about 10^8 take a second. Adding one mechanism to a privacy profile (delta as a function of
    epsilon, stored at the points of a grid) takes about one unit of work for each grid point. The result is also False
    if there are too many combinations of remaining uses, or if one epsilon is far larger than another, because only an
    upper bound on the largest delta is then computed.
    """
    # The result is also False if the epsilons differ too much for one grid, or if there are too many vectors of
    # remaining counts. In these two cases only an upper bound on the largest delta can be computed.
    epsilons = [epsilon for epsilon, _ in groups]
    if len(groups) > 1 and (
        _states(groups) > CONFIG.most_states or max(epsilons) > CONFIG.largest_ratio * min(epsilons)
    ):
        return False
    # Profiles with few remaining draws are short, on average about half as long as the last profile.
    return grid_work(groups, 0.5 * DrawOrders(tuple(groups)).steps) <= most_work


def quick_when_priced(groups: Sequence[Group]) -> bool:
    """Return whether an upper bound on the largest delta over all adaptive orders of `groups` is quick to compute.

    `groups` are bounded-range mechanisms as (epsilon, count). An exact computation tracks which uses remain, and may
    have too many cases. The upper bound needs fewer: it gives each use a price (a whole number), and tracks only the
    sum of the prices of the remaining uses. Quick means that the estimated work is at most `CONFIG.quick_priced_work`,
    a few seconds. The work is the number of times that a use is added to a grid of epsilons, times the number of grid
    points.
    """
    # The bound may round epsilons up, and may reduce the vector of remaining counts to a sum of prices (see
    # `DrawOrders`).
    return grid_work(groups, CONFIG.most_priced_steps) <= CONFIG.quick_priced_work


def quick_in_one_order(groups: Sequence[Group]) -> bool:
    """Return whether the delta of bounded-range mechanisms, used in one fixed order, is quick to compute.

    `groups` are the mechanisms as (epsilon, count). Delta is the largest over all mechanisms with these guarantees,
    each chosen after seeing earlier answers; it is computed on a grid of epsilons. Work is the number of mechanisms
    times the number of grid points. The result is True if two limits hold: the work is at most `CONFIG.quick_work` on
    the usual grid, and at most `CONFIG.quick_finer_work` on the finer grid on which all epsilons are grid points.
    """
    # A grid with four times the cells takes up to sixteen times as long: with some hundred uses ten seconds, not one.
    uses = sum(count for _, count in groups)
    if grid_work(groups, uses) > CONFIG.quick_work:
        return False
    epsilons = [epsilon for epsilon, _ in groups]
    smallest = max(min(epsilons), max(epsilons) / CONFIG.largest_ratio)
    cells = round(smallest / grid_step([max(epsilon, smallest) for epsilon in epsilons], CONFIG.usual_cells))
    return grid_work(groups, uses, cells) <= CONFIG.quick_finer_work


def _states(groups: Sequence[Group]) -> int:
    """Return the number of combinations of uses of `groups` that may remain: the product of count + 1 over all groups.

    `groups` are bounded-range mechanisms as (epsilon, count). The dynamic program that finds the largest delta over all
    adaptive orders has one state for each combination, so the number says how long the program takes.

    >>> _states([(0.1, 2), (0.2, 3)])
    12
    """
    return math.prod(count + 1 for _, count in groups)


def merge_groups(groups: Sequence[Group]) -> list[Group]:
    """Return bounded-range mechanisms sorted by epsilon, smallest first, with the counts of equal epsilons added up.

    `groups` and the result are pairs (epsilon, count). With fewer groups, fewer combinations of uses may remain, so the
    search for the worst order takes less time.
    """
    return [
        (epsilon, sum(count for _, count in same))
        for epsilon, same in itertools.groupby(sorted(groups), key=lambda group: group[0])
    ]


@lru_cache(maxsize=64)
def draw_orders_of(groups: tuple[Group, ...], tilt: float) -> DrawOrders:
    """Return the input of the dynamic program that bounds delta over every adaptive order of the mechanisms `groups`.

    `groups` are bounded-range mechanisms as (epsilon, count). The program needs a state for every combination of
    remaining uses, such as 3 uses of epsilon 0.1 and 7 of epsilon 0.2. If there are few combinations, it computes the
    largest delta.

    If there are too many, the result gives each use a price, and a state is only the sum of the prices of the remaining
    uses (see `DrawOrders`). The program then computes an upper bound on the largest delta. The prices are chosen so
    that this bound is only a little too large if delta, as a function of the overall epsilon x, falls about like
    exp(-`tilt` x).
    """
    # A state is the vector of remaining counts. If there would be too many vectors, a state is a sum of prices instead
    # (see `DrawOrders`), and the maximum is only an upper bound on delta, because impossible orders are allowed too. To
    # have fewer groups, epsilons may then also be rounded up. This is safe, because a-bounded range implies b-bounded
    # range for a <= b.
    merged = merge_groups(groups)
    if len(merged) == 1 or _states(merged) <= CONFIG.most_states:
        return DrawOrders(tuple(merged))
    best, least = DrawOrders(()), math.inf
    while True:
        candidate, gain = _choose_prices(merged, tilt)
        if gain < least:
            best, least = candidate, gain
        if len(merged) == 1:
            return best
        cost = [merged[i][1] * (merged[i + 1][0] ** 2 - merged[i][0] ** 2) for i in range(len(merged) - 1)]
        cheapest = cost.index(min(cost))
        merged[cheapest : cheapest + 2] = [(merged[cheapest + 1][0], merged[cheapest][1] + merged[cheapest + 1][1])]


def _choose_prices(groups: Sequence[Group], tilt: float) -> tuple[DrawOrders, float]:
    """Return prices for the uses in `groups`, as `DrawOrders`, and a number that says how good the prices are.

    `groups` are bounded-range mechanisms as (epsilon, count). A dynamic program bounds the largest delta over all
    adaptive orders of them. It cannot track which uses remain, because there are too many combinations. So all uses of
    a group get the same price, a positive whole number, and the program tracks only the sum of the prices of the
    remaining uses. The program then also allows other sequences of uses with the same total price, so its result is an
    upper bound. Good prices make this bound small.

    The returned number is a bound on log E[exp(`tilt` L)], where L is the privacy loss of the worst allowed sequence,
    and `tilt` is the rate at which log delta is expected to fall with epsilon. Several prices are tried, and those with
    the smallest number are returned.

    If the program would take too long with all prices tried, the result is `DrawOrders` without groups, and infinity. A
    single group gets no prices, because equal uses have only one order.
    """
    # Prices are positive whole numbers. The dynamic program allows every sequence of uses whose prices add up to the
    # total price of `groups`. Too much work is more than `CONFIG.most_priced_steps` operator applications.
    gains = [draw_gain(epsilon, tilt) for epsilon, _ in groups]
    if len(groups) == 1:
        return DrawOrders(tuple(groups)), groups[0][1] * gains[0]
    best, least = DrawOrders(()), math.inf
    for smallest in range(1, CONFIG.most_price + 1):
        prices = tuple(max(1, round(smallest * gain / gains[0])) for gain in gains)
        candidate = DrawOrders(tuple(groups), prices)
        if candidate.steps > CONFIG.most_priced_steps:
            break
        most = largest_gain(candidate, tilt)
        if most < least:
            best, least = candidate, most
    return best, least


def largest_gain(draws: DrawOrders, tilt: float) -> float:
    """Return an upper bound on log E[exp(`tilt` L)], where L is the total privacy loss of `draws` in their worst order.

    A smaller result means a smaller bound on delta, so callers compare two ways of bounding the same uses by this
    number.

    - `draws` are bounded-range uses. They may have prices; the dynamic program then allows every sequence of uses whose
      prices add up to `draws.total`, even a sequence with too many uses of a mechanism. The bound holds for all of
      them.
    - `tilt` is the rate at which log delta falls with epsilon. The result is 0 if `tilt` is 0 or negative.
    """
    if tilt <= 0.0:
        return 0.0
    gains = [draw_gain(epsilon, tilt) for epsilon, _ in draws.groups]
    if draws.prices:
        return draws.total * max(gain / price for gain, price in zip(gains, draws.prices, strict=True))
    return math.fsum(count * gain for (_, count), gain in zip(draws.groups, gains, strict=True))


def draw_gain(epsilon: float, tilt: float) -> float:
    """Return the largest log E[exp(tilt L)] that the privacy loss L of an epsilon-bounded-range mechanism can have.

    The number says how much one use raises delta, and prices of uses are chosen in proportion to it. If the delta of
    later mechanisms falls with the overall epsilon x like exp(-`tilt` x), one use before them multiplies delta by at
    most the exponential of the result.
    """
    t = worst_t(epsilon, tilt)
    keep = math.expm1(t - epsilon) / math.expm1(-epsilon)
    return math.log1p(keep * math.expm1(tilt * t) + (1.0 - keep) * math.expm1(tilt * (t - epsilon)))


def grid_step(epsilons: Sequence[float], cells: int) -> float:
    """Return the distance of neighbouring points of a grid of overall epsilons, suited to mechanisms with `epsilons`.

    Delta is stored at the points of this grid. If possible, every one of `epsilons` is a multiple of the result,
    because no rounding is then needed. Otherwise the caller rounds each of them up to a multiple, and the result is
    chosen so that this raises them by little. With the result as grid step, the smallest of `epsilons` spans at least
    `cells` grid cells (intervals between points), and at most about `CONFIG.finer` times `cells`.
    """
    # The step may be up to `CONFIG.finer` times smaller than the quotient. Rounding errors must not understate an
    # epsilon that is a multiple of the step. So the step is raised by a few units of rounding, until the computed
    # multiple is at least this epsilon.
    distinct = sorted(set(epsilons))
    smallest = distinct[0]
    unit = common_unit(distinct)
    if unit is not None and unit > smallest / (CONFIG.finer * cells):
        step = common_step(distinct, smallest / cells * (1 + 1e-9))
    else:

        def largest_increase(parts: int) -> float:
            """Return the largest share by which an epsilon grows if all are rounded up to multiples of one grid step.

            The step, the distance of neighbouring grid points, is the smallest epsilon divided by `parts`. The epsilons
            are those of the mechanisms, a variable of the function around this one. The result is 0.001, for example,
            if an epsilon of 1 becomes 1.001 and no other epsilon grows by a larger share. The function around this one
            looks for a number of parts with a small result.
            """
            return max(cells_up(e, smallest / parts) * smallest / (parts * e) - 1.0 for e in distinct)

        # The error of rounding up is proportional to the rounding; the error of the grid is quadratic in its step.
        tolerable = CONFIG.enough / cells**2
        parts = range(cells, CONFIG.finer * cells + 1)
        step = smallest / next((n for n in parts if largest_increase(n) <= tolerable), min(parts, key=largest_increase))
    return max([step, *(up(up(e / cells_up(e, step))) for e in distinct if _is_multiple(e, step))])


def _is_multiple(epsilon: float, step: float) -> bool:
    """Return whether `epsilon` is a whole multiple of the grid step `step`, up to rounding errors."""
    ratio = epsilon / step
    return abs(ratio - round(ratio)) <= _ON_GRID * ratio


def cells_up(epsilon: float, step: float) -> int:
    """Return the number of grid cells of length `step` that cover `epsilon`: `epsilon` / `step`, rounded up.

    A quotient that is a whole number up to rounding errors counts as that whole number. The result is at least 1, so
    that even the smallest epsilon covers a cell.
    """
    ratio = epsilon / step
    return max(1, round(ratio) if _is_multiple(epsilon, step) else math.ceil(ratio))


def in_worst_order(draws: DrawOrders, after: TailProfile, band: Band, apply: Apply, progress: Progress) -> TailProfile:
    """Return the privacy profile of bounded-range mechanisms in their worst adaptive order, followed by `after`.

    A privacy profile is delta as a function of epsilon, on a grid of epsilons.

    - `draws` are the bounded-range mechanisms.
    - `after` is the profile of the mechanisms used last.
    - `band` says how many grid points a profile needs.
    - `apply(operator, profile, size)` puts one bounded-range mechanism, which `operator` stands for, before the
      mechanisms of `profile`, and returns the new profile at `size` grid points. The caller chooses whether `apply`
      computes upper bounds on delta only, or lower bounds too. If `draws` have prices (see `DrawOrders`), `apply` is
      not called, and only upper bounds are computed.
    - `progress` is called with 1.0 once per bounded-range use, so that the caller can count the uses that are done.

    Raises: `Unattainable` if rounding errors exceed the profile.
    """
    # `apply` computes lower and upper bounds, or upper bounds only. If uses have prices (see `DrawOrders`), `apply` is
    # not called, and only upper bounds are computed.
    groups = draws.groups
    if len(groups) == 1:
        profile = _apply_repeatedly(groups[0], after, band, apply, progress)
    elif draws.prices:
        profile = _over_all_spending(draws, after, band, progress)
    else:
        profile = _over_all_orders(groups, after, band, apply, progress)
    reach = math.fsum(count * _round_up_to_grid(epsilon, band.step) for epsilon, count in groups)
    return TailProfile(profile, after.variance + variance_of(groups), after.support + reach)


def _round_up_to_grid(epsilon: float, step: float) -> float:
    """Return `epsilon` rounded up to a multiple of the grid `step`.

    Upper bounds treat an epsilon-bounded-range mechanism as if it had this larger range, which can only raise delta.
    """
    return cells_up(epsilon, step) * step


def _operator(epsilon: float, step: float) -> BoundedRangeStep:
    """Return the operator that puts one `epsilon`-bounded-range mechanism before later mechanisms.

    An operator is an object that maps the privacy profile of the later mechanisms (delta as a function of epsilon, on a
    grid of epsilons with this `step`) to the profile of the added mechanism followed by the later ones.
    """
    # For the upper bound, the mechanism's epsilon is rounded up to a multiple of the step. For the lower bound, the
    # mechanism keeps its epsilon. A value between two grid points is then replaced by the value at the right one, which
    # is lower.
    return BoundedRangeStep(epsilon, cells_up(epsilon, step), step)


def _apply_repeatedly(group: Group, after: TailProfile, band: Band, apply: Apply, progress: Progress) -> Profile:
    """Return the privacy profile of all uses of one group of equal bounded-range mechanisms, followed by `after`.

    - `group` is (epsilon, count).
    - `after` is the profile (delta as a function of epsilon) of the mechanisms that follow.
    - `band` says how many grid points a profile needs.
    - `apply(operator, profile, size)` puts one bounded-range mechanism, which `operator` stands for, before the
      mechanisms of `profile`, and returns the new profile at `size` grid points.
    - `progress` is called with 1.0 after each use.

    Raises: `Unattainable` if rounding errors exceed the profile.
    """
    epsilon, count = group
    operator = _operator(epsilon, band.step)
    profile = after.profile
    at_first = float(profile.upper[0])
    for used in range(1, count + 1):
        reach = used * _round_up_to_grid(epsilon, band.step)
        variance = after.variance + used * epsilon * epsilon / 4
        size = band.size(variance, after.support + reach)
        first = band.first(variance, operator.cells * band.step)
        if profile.first < first <= profile.first + profile.upper.size - 2:
            profile = profile.without_points_before(first)
        profile = apply(operator, profile, size - profile.first)
        progress(1.0)
        if used % CONFIG.look_every == 0 and float(profile.upper[0]) > at_first + 0.5 * epsilon * math.sqrt(used):
            raise Unattainable(
                "rounding errors exceed the optimum of these uses at so small a delta; ask for a larger delta"
            )
    return profile.whole()


def _over_all_orders(
    groups: Sequence[Group], after: TailProfile, band: Band, apply: Apply, progress: Progress
) -> Profile:
    """Return the privacy profile of `groups` in their worst adaptive order, followed by the mechanisms of `after`.

    - `groups` are bounded-range mechanisms as (epsilon, count); all of them are used before those of `after`.
    - `after` is the profile (delta as a function of epsilon) of the mechanisms used last.
    - `band` says how many grid points a profile needs.
    - `apply(operator, profile, size)` puts one bounded-range mechanism, which `operator` stands for, before the
      mechanisms of `profile`, and returns the new profile at `size` grid points.
    - `progress` is called with 1.0 once per bounded-range use.
    """
    # The maximum is over the possible orders only. The computation goes backwards, from the last use to the first.
    # After n rounds it has, for every choice of n of the uses, the profile of these n uses followed by `after`.
    operators = [_operator(epsilon, band.step) for epsilon, _ in groups]
    most = tuple(count for _, count in groups)
    layer = {tuple(0 for _ in groups): after.profile}
    for _ in range(sum(most)):
        following: dict[tuple[int, ...], Profile] = {}
        for state in sorted({_with_more_uses(s, a) for s in layer for a in range(len(most)) if s[a] < most[a]}):
            used = [(epsilon, c) for (epsilon, _), c in zip(groups, state, strict=True)]
            reach = math.fsum(c * _round_up_to_grid(epsilon, band.step) for epsilon, c in used)
            size = band.size(after.variance + variance_of(used), after.support + reach)
            options = [
                apply(operators[a], layer[before], size)
                for a in range(len(most))
                if (before := _with_more_uses(state, a, -1)) in layer
            ]
            following[state] = options[0] if len(options) == 1 else pointwise_maximum(options)
        layer = following
        progress(1.0)
    return layer[most]


def _over_all_spending(draws: DrawOrders, after: TailProfile, band: Band, progress: Progress) -> Profile:
    """Return an upper bound on the privacy profile of `draws` in their worst adaptive order, followed by `after`.

    A privacy profile is delta as a function of epsilon, on a grid of epsilons.

    - `draws` are bounded-range uses with prices, positive whole numbers. The bound allows every sequence of uses whose
      prices add up to the total price of `draws`. Every real order is such a sequence, so the bound is valid; and it is
      quick to compute, because only the sum of the prices of the remaining uses is tracked.
    - `after` is the profile of the mechanisms used last.
    - `band` says how many grid points a profile needs.
    - `progress` is called with 1.0 once per bounded-range use.
    """
    # The bound is the maximum over all sequences of uses whose prices add up to the total price of `draws`, which
    # include every real order. The result's lower bounds on delta are all 0, because they are not computed.
    operators = [_operator(epsilon, band.step) for epsilon, _ in draws.groups]
    variance = variance_of(draws.groups) / draws.total
    support = max(
        _round_up_to_grid(epsilon, band.step) / price
        for (epsilon, _), price in zip(draws.groups, draws.prices, strict=True)
    )
    longest = max(draws.prices)
    profiles: dict[int, Profile] = {}
    reported = 0
    for level in draws.levels().tolist():
        size = band.size(after.variance + variance * level, after.support + support * level)
        options = [
            operator.apply_upper(before, size)
            for operator, price in zip(operators, draws.prices, strict=True)
            if (before := profiles.get(level - price)) is not None
        ]
        profiles[level] = pointwise_maximum(options) if options else after.profile
        for old in [old for old in profiles if old <= level - longest]:
            del profiles[old]
        while reported < sum(count for _, count in draws.groups) * level // draws.total:
            reported += 1
            progress(1.0)
    return profiles[draws.total]


def _with_more_uses(state: tuple[int, ...], index: int, more: int = 1) -> tuple[int, ...]:
    """Return a copy of `state` with `more` added to the entry at `index`.

    A state is a tuple with one number for each group of equal bounded-range mechanisms: how many uses of the group a
    privacy profile (delta as a function of epsilon) covers. A dynamic program goes with this function from a state to
    one with one use more or, if `more` is -1, one use less.
    """
    return (*state[:index], state[index] + more, *state[index + 1 :])


def pointwise_maximum(options: Sequence[Profile]) -> Profile:
    """Return the pointwise maximum of the privacy profiles `options`: at every epsilon, the largest of their deltas.

    It is the profile of an adversary who may choose among the options. A privacy profile is delta as a function of
    epsilon. All profiles must be on the same grid of epsilons.
    """
    return Profile(
        options[0].step,
        np.maximum.reduce([option.lower for option in options]),
        np.maximum.reduce([option.upper for option in options]),
        max(option.rounding for option in options),
    )

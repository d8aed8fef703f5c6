"""Bounded-range mechanisms drawn adaptively: certified profiles by dynamic programming.

With equal parameters n mechanisms take the profile f of what follows to S^n f. With unequal ones in any order the
analyst also chooses which to use next, and the value is a maximum over the vectors c of remaining counts:

    V(c) = max over a with c_a > 0 of S_a V(c - e_a).

Where there are too many vectors, only a price of what remains is kept: every parameter has a whole price, and any of
them may be drawn that leaves a sum of prices which some remaining set has. Every real order is among these, whatever
the prices, so the bound is sound; it is tight when prices are in proportion to what a draw gains
(docs/optimal-composition.md, "Unequal parameters").
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.adaptive.operator import Band, BoundedRangeStep, Profile, TailProfile
from setwise.accounting.brackets import Progress, up
from setwise.accounting.losses.lattice import common_step, common_unit, worst_t
from setwise.errors import Unattainable

Group = tuple[float, int]
"""An epsilon and a count."""

Apply = Callable[[BoundedRangeStep, Profile, int], Profile]
"""How an operator is applied: for both bounds, or for the upper one only."""


@dataclass(frozen=True, slots=True)
class DrawConfig:
    """Which states are kept, and on which grid. Work is grid points times applications of an operator."""

    most_states: int = 1_500
    """Vectors of remaining counts beyond which draws are priced, so that no set takes more than some seconds."""
    most_priced_steps: int = 12_000
    """Applications of an operator that priced draws may take, where rounding epsilons up to fewer can keep to it."""
    most_price: int = 400
    """Largest price of the smallest epsilon that is tried; it bounds the search for prices."""
    largest_ratio: float = 32.0
    """Epsilons below the largest over this are rounded up from above, and left out from below: one grid serves all."""
    quick_work: float = 1.2e8
    """Work that takes about a second."""
    quick_priced_work: float = 3.5e8
    """The same for priced draws, which are some percent closer than what else is known."""
    quick_beside: float = 5e7
    """The same for large parameters beside a Gaussian that stands for the small ones."""
    usual_cells: int = 32
    """Cells across the smallest epsilon of a grid of the usual width."""
    application_work: float = 5e3
    """Work of one application of an operator to a grid of hardly any points: calls of NumPy."""
    rough_application_work: float = 1e4
    rough_work: float = 10.0
    """The same, and work at a point, for a grid that is too short for blocks of smooth cells."""
    end_work: float = 0.7
    cached_cells: float = 200.0
    """Work at the end of a longer grid, over the squared number of cells across the largest epsilon; where these are
    more than the second number, the square of them no longer fits into fast memory."""
    short: float = 24.0
    """Largest epsilons that such a grid spans at most."""
    deviations: float = 12.0
    """Standard deviations of the loss that a grid spans, for estimates of work."""
    look_every: int = 64
    """Applications after which a profile is compared with what it can be: at 0 about 0.4 standard deviations."""
    finer: int = 4
    """Times as many cells as asked for that a grid may have so that epsilons fall on it."""
    enough: float = 0.3
    """Relative rounding of an epsilon, times the squared number of cells, below which the grid itself costs more."""


CONFIG = DrawConfig()

_ON_GRID = 1e-12
"""Ratios this close to a whole number, relative to it, are taken for it: the step is then made to cover both."""


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
        return _states(self.groups) * len(self.groups)

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


def variance_of(groups: Sequence[Group]) -> float:
    """Return the largest variance of the loss of the groups: epsilon^2 / 4 each."""
    return math.fsum(count * epsilon * epsilon / 4 for epsilon, count in groups)


def grid_work(groups: Sequence[Group], steps: float, cells: int = CONFIG.usual_cells) -> float:
    """Return roughly the work, in grid points, of applying an operator `steps` times.

    The grid has `cells` points across the smallest epsilon. Each application also costs a fixed amount.
    """
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
    """Return whether the draws, in any order, are quick on the grid, and neither rounded nor priced."""
    epsilons = [epsilon for epsilon, _ in groups]
    if len(groups) > 1 and (
        _states(groups) > CONFIG.most_states or max(epsilons) > CONFIG.largest_ratio * min(epsilons)
    ):
        return False
    # profiles of few remaining draws are short: on average about half as long as the last
    return grid_work(groups, 0.5 * DrawOrders(tuple(groups)).steps) <= most_work


def quick_when_priced(groups: Sequence[Group]) -> bool:
    """Return whether the draws, in any order, are quick on the grid when they are rounded or priced."""
    return grid_work(groups, CONFIG.most_priced_steps) <= CONFIG.quick_priced_work


def quick_in_one_order(groups: Sequence[Group]) -> bool:
    """Return whether the draws, in a fixed order, are quick on the grid."""
    return grid_work(groups, sum(count for _, count in groups)) <= CONFIG.quick_work


def _states(groups: Sequence[Group]) -> int:
    return math.prod(count + 1 for _, count in groups)


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
    if len(merged) == 1 or _states(merged) <= CONFIG.most_states:
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
    gains = [draw_gain(epsilon, tilt) for epsilon, _ in groups]
    if len(groups) == 1:
        return DrawOrders(tuple(groups)), groups[0][1] * gains[0]
    best, least = DrawOrders(()), math.inf
    for smallest in range(1, CONFIG.most_price + 1):
        prices = tuple(max(1, round(smallest * gain / gains[0])) for gain in gains)
        found = DrawOrders(tuple(groups), prices)
        if found.steps > CONFIG.most_priced_steps:
            break
        most = found.total * max(gain / price for gain, price in zip(gains, prices, strict=True))
        if most < least:
            best, least = found, most
    return best, least


def draw_gain(epsilon: float, tilt: float) -> float:
    """Return the logarithm of the largest E[exp(tilt loss)]: what a draw gains against a tail like exp(-tilt x)."""
    t = worst_t(epsilon, tilt)
    keep = math.expm1(t - epsilon) / math.expm1(-epsilon)
    return math.log1p(keep * math.expm1(tilt * t) + (1.0 - keep) * math.expm1(tilt * (t - epsilon)))


def grid_step(epsilons: Sequence[float], cells: int) -> float:
    """Return a step of at most the smallest epsilon over `cells` that divides all epsilons, if it need not be tiny.

    Otherwise the step, not much smaller, to which rounding the epsilons up costs least. Where an epsilon is a multiple
    of the step up to rounding, the multiple is not below it.
    """
    distinct = sorted(set(epsilons))
    smallest = distinct[0]
    unit = common_unit(distinct)
    if unit is not None and unit > smallest / (CONFIG.finer * cells):
        step = common_step(distinct, smallest / cells * (1 + 1e-9))
    else:

        def lost(parts: int) -> float:
            return max(cells_up(e, smallest / parts) * smallest / (parts * e) - 1.0 for e in distinct)

        # Rounding up costs in proportion, the grid itself with the square of its step.
        enough = CONFIG.enough / cells**2
        parts = range(cells, CONFIG.finer * cells + 1)
        step = smallest / next((n for n in parts if lost(n) <= enough), min(parts, key=lost))
    return max([step, *(up(up(e / cells_up(e, step))) for e in distinct if _is_multiple(e, step))])


def _is_multiple(epsilon: float, step: float) -> bool:
    ratio = epsilon / step
    return abs(ratio - round(ratio)) <= _ON_GRID * ratio


def cells_up(epsilon: float, step: float) -> int:
    """Return the number of grid steps that an epsilon is rounded up to."""
    ratio = epsilon / step
    return max(1, round(ratio) if _is_multiple(epsilon, step) else math.ceil(ratio))


def in_worst_order(draws: DrawOrders, after: TailProfile, band: Band, apply: Apply, progress: Progress) -> TailProfile:
    """Return the profile of the draws, in any adaptive order, before what follows."""
    groups = draws.groups
    if len(groups) == 1:
        profile = _repeated(groups[0], after, band, apply, progress)
    elif draws.prices:
        profile = _over_all_spending(draws, after, band, progress)
    else:
        profile = _over_all_orders(groups, after, band, apply, progress)
    reach = math.fsum(count * _on_grid(epsilon, band.step) for epsilon, count in groups)
    return TailProfile(profile, after.variance + variance_of(groups), after.support + reach)


def _on_grid(epsilon: float, step: float) -> float:
    """Return the range that a mechanism has from above, where it is rounded up to the grid."""
    return cells_up(epsilon, step) * step


def _operator(epsilon: float, step: float) -> BoundedRangeStep:
    """Return the operator on the grid: its range is rounded up to it from above, and its reach from below."""
    return BoundedRangeStep(epsilon, cells_up(epsilon, step), step)


def _repeated(group: Group, after: TailProfile, band: Band, apply: Apply, progress: Progress) -> Profile:
    """Return S^n f for one epsilon."""
    epsilon, count = group
    operator = _operator(epsilon, band.step)
    profile = after.profile
    at_first = float(profile.upper[0])
    for used in range(1, count + 1):
        reach = used * _on_grid(epsilon, band.step)
        size = band.size(after.variance + used * epsilon * epsilon / 4, after.support + reach)
        profile = apply(operator, profile, size)
        progress(1.0)
        if used % CONFIG.look_every == 0 and float(profile.upper[0]) > at_first + 0.5 * epsilon * math.sqrt(used):
            raise Unattainable(
                "rounding errors exceed the optimum of these uses at so small a delta; ask for a larger delta"
            )
    return profile


def _over_all_orders(
    groups: Sequence[Group], after: TailProfile, band: Band, apply: Apply, progress: Progress
) -> Profile:
    """Return the maximum over all adaptive orders, layer by layer of the lattice of counts."""
    operators = [_operator(epsilon, band.step) for epsilon, _ in groups]
    most = tuple(count for _, count in groups)
    layer = {tuple(0 for _ in groups): after.profile}
    for _ in range(sum(most)):
        following: dict[tuple[int, ...], Profile] = {}
        for state in sorted({_with(s, a) for s in layer for a in range(len(most)) if s[a] < most[a]}):
            used = [(epsilon, c) for (epsilon, _), c in zip(groups, state, strict=True)]
            reach = math.fsum(c * _on_grid(epsilon, band.step) for epsilon, c in used)
            size = band.size(after.variance + variance_of(used), after.support + reach)
            options = [
                apply(operators[a], layer[before], size)
                for a in range(len(most))
                if (before := _with(state, a, -1)) in layer
            ]
            following[state] = options[0] if len(options) == 1 else larger(options)
        layer = following
        progress(1.0)
    return layer[most]


def _over_all_spending(draws: DrawOrders, after: TailProfile, band: Band, progress: Progress) -> Profile:
    """Return the maximum over all ways to spend the prices, from above; the lower values are 0."""
    operators = [_operator(epsilon, band.step) for epsilon, _ in draws.groups]
    variance = variance_of(draws.groups) / draws.total
    support = max(
        _on_grid(epsilon, band.step) / price for (epsilon, _), price in zip(draws.groups, draws.prices, strict=True)
    )
    longest = max(draws.prices)
    known: dict[int, Profile] = {}
    reported = 0
    for level in draws.levels().tolist():
        size = band.size(after.variance + variance * level, after.support + support * level)
        options = [
            operator.apply_upper(before, size)
            for operator, price in zip(operators, draws.prices, strict=True)
            if (before := known.get(level - price)) is not None
        ]
        known[level] = larger(options) if options else after.profile
        for old in [old for old in known if old <= level - longest]:
            del known[old]
        while reported < sum(count for _, count in draws.groups) * level // draws.total:
            reported += 1
            progress(1.0)
    return known[draws.total]


def _with(state: tuple[int, ...], index: int, more: int = 1) -> tuple[int, ...]:
    return (*state[:index], state[index] + more, *state[index + 1 :])


def larger(options: Sequence[Profile]) -> Profile:
    """Return the pointwise maximum: what an analyst who may choose can reach."""
    return Profile(
        options[0].step,
        np.maximum.reduce([option.lower for option in options]),
        np.maximum.reduce([option.upper for option in options]),
        max(option.rounding for option in options),
    )

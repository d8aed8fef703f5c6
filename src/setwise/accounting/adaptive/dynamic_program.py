"""Bounded-range mechanisms used adaptively: certified profiles by dynamic programming.

With equal parameters n mechanisms take the profile f of what follows to S^n f. With unequal ones in any order the
analyst also chooses which to use next, and the value is a maximum over the lattice of remaining counts:

    V(c) = max over a with c_a > 0 of S_a V(c - e_a),

or, where that has too many states, over the price of what remains (draw_orders.py).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from setwise.accounting.adaptive.draw_orders import DrawOrders, Group
from setwise.accounting.adaptive.operator import BoundedRangeStep
from setwise.accounting.adaptive.profile import Band, Profile, TailProfile
from setwise.accounting.answer import Progress
from setwise.accounting.brackets import up
from setwise.accounting.losses.lattice import common_step, common_unit
from setwise.errors import Unattainable

Apply = Callable[[BoundedRangeStep, Profile, int], Profile]
"""How an operator is applied: for both bounds, or for the upper one only."""

_LOOK_EVERY = 64
"""Steps after which a profile is compared with what it can be: its value at 0 is about 0.4 standard deviations."""

_ON_GRID = 1e-12
"""Ratios this close to a whole number, relative to it, are taken for it: the step is then made to cover both."""

_FINER = 4
"""How much finer than asked for the grid may be made so that parameters fall on it."""


def grid_step(epsilons: Sequence[float], cells: int) -> float:
    """Return a step of at most the smallest epsilon over `cells` that divides all epsilons, if it need not be tiny.

    Otherwise the step, not much smaller, to which rounding the epsilons up costs least. Where an epsilon is a multiple
    of the step up to rounding, the multiple is not below it.
    """
    distinct = sorted(set(epsilons))
    smallest = distinct[0]
    unit = common_unit(distinct)
    if unit is not None and unit > smallest / (_FINER * cells):
        step = common_step(distinct, smallest / cells * (1 + 1e-9))
    else:

        def lost(parts: int) -> float:
            return max(_cells_up(e, smallest / parts) * smallest / (parts * e) - 1.0 for e in distinct)

        # Rounding up costs in proportion, the grid itself with the square of its step: no use in less of the one.
        enough = 0.3 / cells**2
        parts = range(cells, _FINER * cells + 1)
        step = smallest / next((n for n in parts if lost(n) <= enough), min(parts, key=lost))
    return max([step, *(up(up(e / _cells_up(e, step))) for e in distinct if _is_multiple(e, step))])


def _is_multiple(epsilon: float, step: float) -> bool:
    ratio = epsilon / step
    return abs(ratio - round(ratio)) <= _ON_GRID * ratio


def _cells_up(epsilon: float, step: float) -> int:
    ratio = epsilon / step
    return max(1, round(ratio) if _is_multiple(epsilon, step) else math.ceil(ratio))


def variance_of(groups: Sequence[Group]) -> float:
    """Return the largest variance of the loss of the groups: epsilon^2 / 4 each."""
    return math.fsum(count * epsilon * epsilon / 4 for epsilon, count in groups)


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
    return _cells_up(epsilon, step) * step


def _operator(epsilon: float, step: float) -> BoundedRangeStep:
    """Return the operator on the grid: its range is rounded up to it from above, and its reach from below."""
    return BoundedRangeStep(epsilon, _cells_up(epsilon, step), step)


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
        if used % _LOOK_EVERY == 0 and float(profile.upper[0]) > at_first + 0.5 * epsilon * math.sqrt(used):
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
            following[state] = options[0] if len(options) == 1 else _larger(options)
        layer = following
        progress(1.0)
    return layer[most]


def _over_all_spending(draws: DrawOrders, after: TailProfile, band: Band, progress: Progress) -> Profile:
    """Return the maximum over all ways to spend the prices, from above; the lower values say nothing."""
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
        known[level] = _larger(options) if options else after.profile
        for old in [old for old in known if old <= level - longest]:
            del known[old]
        while reported < sum(count for _, count in draws.groups) * level // draws.total:
            reported += 1
            progress(1.0)
    return known[draws.total]


def _with(state: tuple[int, ...], index: int, more: int = 1) -> tuple[int, ...]:
    return (*state[:index], state[index] + more, *state[index + 1 :])


def _larger(options: Sequence[Profile]) -> Profile:
    """Return the pointwise maximum: what an analyst who may choose can reach."""
    return Profile(
        options[0].step,
        np.maximum.reduce([option.lower for option in options]),
        np.maximum.reduce([option.upper for option in options]),
        max(option.rounding for option in options),
    )

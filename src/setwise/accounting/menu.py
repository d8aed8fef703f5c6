"""Menu accounts: uses with bounded losses, chosen on the fly from a menu that is fixed when the account is opened.

A wallet bounds what is left by one Gaussian, whatever is chosen later. When every use on offer has a bounded loss and
is known in advance, a better potential exists: a rising family of profiles U_0 <= U_1 <= ... with

    U_0 = f_0,    U_l = max(U_(l-1), max over the menu of Op_a U_(l - w_a)),

where a use a costs w_a units. With l units left, whatever the analyst does, the profile of what follows is at most U_l
(docs/optimal-composition.md, "Menu accounts"). The family is computed from above on a grid, by the operators that
compute the set-wise optimum, up to the largest budget that keeps the promise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from setwise.accounting.adaptive.dynamic_program import cells_up, draw_gain, grid_step, larger
from setwise.accounting.adaptive.operator import BoundedRangeStep, Profile, RandomizedResponseStep, nothing_to_come
from setwise.accounting.checks import check_delta, check_epsilon
from setwise.accounting.guarantees import BoundedRange, Guarantee, PureDP, Use
from setwise.accounting.wallet import wallet_for
from setwise.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class MenuConfig:
    """How a menu is priced and how finely its potential is computed. Every choice keeps the promise."""

    cells: int = 24
    """Grid cells across the smallest epsilon of the menu."""
    most_units: int = 12
    """Units that the cheapest use costs at most: more follow the costs of the others more closely, and take longer."""
    most_levels: int = 4_000
    """Units of a budget beyond which none is looked for."""
    reach: float = 1.7
    """Largest epsilon on the grid over that of the promise: beyond it the potential counts as constant."""
    most_items: int = 8
    """Uses on a menu."""


CONFIG = MenuConfig()

MenuItem = PureDP | BoundedRange
"""What may be on a menu: uses whose loss is bounded and whose operator the grid knows."""


@dataclass(frozen=True, slots=True)
class Menu:
    """A menu of uses with whole costs, and the budget of units within which any of them may be chosen on the fly.

    Whatever is chosen, in whatever order and number, the uses are together (epsilon, delta)-DP as long as their costs
    add up to at most `budget`. As for wallets, a question is fixed when its use is charged.

    >>> menu = Menu.for_promise([PureDP(epsilon=0.1)], epsilon=2.0, delta=1e-6)
    >>> menu.most_uses(PureDP(epsilon=0.1))
    24
    """

    epsilon: float
    delta: float
    items: tuple[tuple[MenuItem, int], ...]
    """Each use on the menu and its cost in units."""
    budget: int

    @classmethod
    def for_promise(cls, guarantees: Sequence[Guarantee], *, epsilon: float, delta: float) -> "Menu":
        """Return the menu of these guarantees with the largest budget that keeps (epsilon, delta)-DP.

        Raises `InvalidParameter` for a guarantee that is neither pure DP nor bounded range.
        """
        epsilon, delta = check_epsilon(epsilon), check_delta(delta)
        items = tuple(dict.fromkeys(_menu_item(guarantee) for guarantee in guarantees))
        if not 1 <= len(items) <= CONFIG.most_items:
            raise InvalidParameter(f"a menu needs between 1 and {CONFIG.most_items} different uses, not {len(items)}")
        priced = _costs(items, epsilon, delta)
        return cls(epsilon, delta, priced, _largest_budget(priced, epsilon, delta))

    def cost(self, use: Use) -> int:
        """Return the units that a use costs: those of the cheapest use on the menu that it is no worse than.

        Raises `InvalidParameter` when no use on the menu is as bad.
        """
        costs = [cost for item, cost in self.items if _no_worse(use.guarantee, item)]
        if not costs:
            raise InvalidParameter(
                f"{use.guarantee!r} is not on the menu of this account, nor better than a use that is"
            )
        return use.count * min(costs)

    def most_uses(self, guarantee: Guarantee) -> int:
        """Return how many uses of a guarantee the whole budget pays for."""
        return self.budget // self.cost(Use(guarantee))


def _menu_item(guarantee: Guarantee) -> MenuItem:
    """Return the use by which a guarantee is put on a menu."""
    if isinstance(guarantee, BoundedRange):
        return guarantee
    pure = guarantee if isinstance(guarantee, PureDP) else guarantee.pure()
    if pure is None:
        raise InvalidParameter(
            f"a menu takes pure and bounded-range uses, which have bounded losses, not {guarantee!r}"
        )
    return pure


def _no_worse(guarantee: Guarantee, item: MenuItem) -> bool:
    """Return whether a guarantee implies that of a menu item.

    Theorem: DurfeeRo19 (epsilon-BR implies epsilon-DP, and epsilon-DP implies 2 epsilon-BR).
    """
    if isinstance(guarantee, BoundedRange):
        return guarantee.epsilon <= item.epsilon
    pure = guarantee if isinstance(guarantee, PureDP) else guarantee.pure()
    if pure is None:
        return False
    return (pure.epsilon if isinstance(item, PureDP) else 2.0 * pure.epsilon) <= item.epsilon


def _gain(item: MenuItem, tilt: float) -> float:
    """Return log E[exp(tilt L)] of the worst loss of an item: what it gains against a tail that falls like e^-tilt."""
    if isinstance(item, BoundedRange):
        return draw_gain(item.epsilon, tilt)
    epsilon = item.epsilon
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    return math.log1p(keep * math.expm1(tilt * epsilon) + (1.0 - keep) * math.expm1(-tilt * epsilon))


def _costs(items: Sequence[MenuItem], epsilon: float, delta: float) -> tuple[tuple[MenuItem, int], ...]:
    """Return whole costs, about in proportion to what the items gain at the tilt of the promise."""
    size = wallet_for(epsilon, delta)
    tilt = max(epsilon / size - 0.5, 0.5 / math.sqrt(size))
    gains = [_gain(item, tilt) for item in items]
    least = min(gains)

    def unevenness(unit: int) -> float:
        rates = [gain / max(1, round(unit * gain / least)) for gain in gains]
        return max(rates) / min(rates)

    unit = min(range(1, CONFIG.most_units + 1), key=lambda unit: (round(unevenness(unit), 3), unit))
    return tuple((item, max(1, round(unit * gain / least))) for item, gain in zip(items, gains, strict=True))


@lru_cache(maxsize=32)
def _largest_budget(items: tuple[tuple[MenuItem, int], ...], epsilon: float, delta: float) -> int:
    """Return the largest l for which U_l(epsilon) is certified to be at most delta.

    Theorem: docs/optimal-composition.md, "Menu accounts".
    """
    step = grid_step([item.epsilon for item, _ in items], CONFIG.cells)
    size = math.ceil(CONFIG.reach * epsilon / step) + 2
    operators: list[tuple[BoundedRangeStep | RandomizedResponseStep, int]] = [
        (_operator(item, step), cost) for item, cost in items
    ]
    longest = max(cost for _, cost in items)
    start = nothing_to_come(step)
    levels: list[Profile] = [Profile(step, np.zeros(size), np.resize(start.upper, size))]
    for level in range(1, CONFIG.most_levels + 1):
        options = [levels[-1]]
        options += [operator.apply_upper(levels[-cost], size) for operator, cost in operators if cost <= len(levels)]
        potential = larger(options)
        if float(potential.read_upper(np.array([epsilon]))[0]) > delta:
            return level - 1
        levels.append(potential)
        del levels[: max(0, len(levels) - longest)]
    return CONFIG.most_levels


def _operator(item: MenuItem, step: float) -> BoundedRangeStep | RandomizedResponseStep:
    cells = cells_up(item.epsilon, step)
    return (
        BoundedRangeStep(item.epsilon, cells, step)
        if isinstance(item, BoundedRange)
        else RandomizedResponseStep(cells, step)
    )

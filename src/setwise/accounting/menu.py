"""Menu accounts: uses with bounded losses, chosen on the fly from a menu that is fixed when an account is opened.

A Gaussian wallet (a budget of mu squared) bounds all later uses by one Gaussian, whatever they are. If every use on
offer has a bounded loss and is known in advance, a tighter bound exists. Each item of the menu gets a cost in whole
units, and the budget is the largest number of units that keeps the promise however it is spent.

Theorem: docs/optimal-composition.md, "Menu accounts".
"""

# Let a use of the menu item a cost w_a units of the budget, and let f_0 be the privacy profile (delta as a function of
# epsilon) of no use. If f is the profile of later uses, let Op_a f be the profile of one use of a followed by them.
# Whatever the analyst does with l remaining units, the profile of all later uses is at most U_l. Here U_0 is f_0, and
# U_l is the maximum of U_(l-1) and of Op_a U_(l - w_a) over the menu. Upper bounds on U_0 <= U_1 <= ... are computed on
# a grid of epsilons, with the operators that compute the set-wise optimum.

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from setwise.accounting.adaptive.dynamic_program import cells_up, draw_gain, grid_step, pointwise_maximum
from setwise.accounting.adaptive.operator import BoundedRangeStep, RandomizedResponseStep
from setwise.accounting.adaptive.profiles import Profile, nothing_to_come
from setwise.accounting.checks import check_delta, check_epsilon
from setwise.accounting.guarantees import BoundedRange, Guarantee, PureDP, Use
from setwise.accounting.wallet import wallet_for
from setwise.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class MenuConfig:
    """Constants for choosing the prices on a menu and its budget; a menu is a price list for mechanism uses.

    Prices are in whole units. The budget is the largest number of units for which every way to spend it keeps the
    promised (epsilon, delta)-DP. For each number of units, the worst privacy profile (delta as a function of epsilon)
    is computed on a grid of epsilons. No promise depends on these constants; the text below each constant says what it
    decides.
    """

    cells: int = 24
    """Number of grid steps across the smallest epsilon on the menu."""
    most_units: int = 12
    """Largest price, in units, of the cheapest use. With more units, prices are closer to the effects of uses on delta,
    but the budget takes longer to compute."""
    most_levels: int = 4_000
    """Largest budget, in units, that is tried."""
    reach: float = 1.7
    """Largest epsilon on the grid, as a multiple of the promised epsilon. At larger epsilons delta is taken to be
    constant."""
    most_items: int = 8
    """Largest number of different uses on a menu."""


CONFIG = MenuConfig()

_ROUNDING = 1e-12
"""A use counts as an item although its epsilon is larger by this share: the epsilon of Laplace noise of scale 10 is
rounded up to a little more than 0.1. The potential is computed for epsilons that are larger by this share."""

MenuItem = PureDP | BoundedRange
"""A use that may be on a menu: its loss is bounded and its operator can be computed on the grid."""


@dataclass(frozen=True, slots=True)
class Menu:
    """A price list for mechanism uses, in whole units, and a budget of units that pays for uses chosen on the fly.

    - `items` are pairs (guarantee, price of one use in units).
    - `budget`: uses whose prices add up to at most this are together (`epsilon`, `delta`)-DP, in any order and number.

    The query of a use must be fixed when the use is charged. The query may depend on earlier answers, but not on later
    ones.

    >>> menu = Menu.for_promise([PureDP(epsilon=0.1)], epsilon=2.0, delta=1e-6)
    >>> menu.most_uses(PureDP(epsilon=0.1))
    24
    """

    epsilon: float
    delta: float
    items: tuple[tuple[MenuItem, int], ...]
    """Each guarantee on the menu, with the price of one use in units."""
    budget: int

    @classmethod
    def for_promise(cls, guarantees: Sequence[Guarantee], *, epsilon: float, delta: float) -> "Menu":
        """Return a price list for `guarantees`, with the largest budget certified to keep all uses (epsilon, delta)-DP.

        The price of one use of each guarantee is a whole number of units, chosen here. The budget limits the sum of the
        prices of all uses, which may be chosen on the fly.

        Raises: `InvalidParameter` if there are no guarantees or too many, or for a guarantee that is neither pure DP
        nor bounded range nor Laplace noise (continuous or on integers).
        """
        epsilon, delta = check_epsilon(epsilon), check_delta(delta)
        items = tuple(dict.fromkeys(_menu_item(guarantee) for guarantee in guarantees))
        if not 1 <= len(items) <= CONFIG.most_items:
            raise InvalidParameter(f"a menu needs between 1 and {CONFIG.most_items} different uses, not {len(items)}")
        priced = _costs(items, epsilon, delta)
        return cls(epsilon, delta, priced, _largest_budget(priced, epsilon, delta))

    def cost(self, use: Use) -> int:
        """Return the price of all runs of `use` (a guarantee and a count) together, in whole units of the budget.

        A menu is a price list for guarantees. One run costs as much as the cheapest listed guarantee that implies its
        own. For example, 3 runs cost 36 units if one run costs 12.

        Raises: `InvalidParameter` if no listed guarantee covers `use`.
        """
        costs = [cost for item, cost in self.items if _no_worse(use.guarantee, item)]
        if not costs:
            raise InvalidParameter(
                f"{use.guarantee!r} is not on the menu of this account, and no use on the menu covers it; "
                "ask with a smaller epsilon"
            )
        return use.count * min(costs)

    def most_uses(self, guarantee: Guarantee) -> int:
        """Return how many uses of `guarantee` the whole budget of the menu pays for.

        Raises: `InvalidParameter` if `guarantee` implies none of the guarantees that the menu lists, so that it has no
        price.
        """
        return self.budget // self.cost(Use(guarantee))


def _menu_item(guarantee: Guarantee) -> MenuItem:
    """Return the menu item for `guarantee`: `guarantee` itself if it is pure DP or bounded range, or else pure DP.

    A menu lists the uses that an account can pay for, all of them pure DP or bounded range. Laplace noise is listed as
    the pure DP that it implies.

    Raises: `InvalidParameter` for a guarantee that is neither bounded-range nor implies pure DP.
    """
    if isinstance(guarantee, BoundedRange):
        return guarantee
    pure = guarantee if isinstance(guarantee, PureDP) else guarantee.pure()
    if pure is None:
        raise InvalidParameter(
            f"a menu takes pure and bounded-range uses, which have bounded losses, not {guarantee!r}"
        )
    return pure


def _no_worse(guarantee: Guarantee, item: MenuItem) -> bool:
    """Return whether every mechanism that satisfies `guarantee` also satisfies the guarantee of the menu `item`.

    If so, a use of `guarantee` may be charged the cost of the item.

    Theorem: DurfeeRo19 (epsilon-BR implies epsilon-DP, and epsilon-DP implies 2 epsilon-BR).
    """
    largest = item.epsilon * (1.0 + 0.9 * _ROUNDING)
    if isinstance(guarantee, BoundedRange):
        return guarantee.epsilon <= largest
    pure = guarantee if isinstance(guarantee, PureDP) else guarantee.pure()
    if pure is None:
        return False
    return (pure.epsilon if isinstance(item, PureDP) else 2.0 * pure.epsilon) <= largest


def _gain(item: MenuItem, tilt: float) -> float:
    """Return log E[exp(`tilt` L)] for the worst privacy loss L that one use of a menu `item` can have.

    A menu is a price list for guarantees, and `item` is one of them. Its price is about in proportion to the result,
    because the result says how much one use raises delta: suppose that the delta of the later uses falls with epsilon x
    like exp(-tilt x). Then one use of the item before them multiplies delta by at most exp(result).
    """
    if isinstance(item, BoundedRange):
        return draw_gain(item.epsilon, tilt)
    epsilon = item.epsilon
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    return math.log1p(keep * math.expm1(tilt * epsilon) + (1.0 - keep) * math.expm1(-tilt * epsilon))


def _costs(items: Sequence[MenuItem], epsilon: float, delta: float) -> tuple[tuple[MenuItem, int], ...]:
    """Return pairs (menu item, price of one use in whole units) for a menu that promises (`epsilon`, `delta`)-DP.

    A menu is a price list; `items` are the guarantees that it lists. Prices are about in proportion to how much a use
    adds to the overall epsilon. If one item had too high a price, an account that buys only this item would have spent
    all its units long before its uses reach the promised epsilon.
    """
    # The cost of an item is roughly in proportion to its gain, log E[exp(tilt L)], where L is the worst privacy loss of
    # the item (see `_gain`). The tilt is about the rate at which log delta falls with epsilon for the Gaussian
    # mechanism that is just (epsilon, delta)-DP.
    size = wallet_for(epsilon, delta)
    tilt = max(epsilon / size - 0.5, 0.5 / math.sqrt(size))
    gains = [_gain(item, tilt) for item in items]
    least = min(gains)

    def unevenness(unit: int) -> float:
        """Return how far prices are from being in proportion to effects, if the cheapest item costs `unit` units.

        The effect of an item, its gain, is log E[exp(tilt L)] with its worst privacy loss L. (`gains`, a variable of
        the function around this one, has the gain of each item.) The price of an item is a whole number of units. The
        result is the largest gain per unit divided by the smallest gain per unit. It is 1 if all prices are exactly in
        proportion to gains, so that the account's bound is equally tight whatever is bought.
        """
        # The costs of the other items are rounded to whole units.
        rates = [gain / max(1, round(unit * gain / least)) for gain in gains]
        return max(rates) / min(rates)

    unit = min(range(1, CONFIG.most_units + 1), key=lambda unit: (round(unevenness(unit), 3), unit))
    return tuple((item, max(1, round(unit * gain / least))) for item, gain in zip(items, gains, strict=True))


@lru_cache(maxsize=32)
def _largest_budget(items: tuple[tuple[MenuItem, int], ...], epsilon: float, delta: float) -> int:
    """Return the largest budget, in units, for which every way to spend it on menu items is (epsilon, delta)-DP.

    `items` are the guarantees on the menu, each with its cost in units. Budgets up to `CONFIG.most_levels` are tried.

    Theorem: docs/optimal-composition.md, "Menu accounts".
    """
    # For each budget in turn, an upper bound on the privacy profile (delta as a function of epsilon) of all uses that
    # it pays for is computed on a grid. Its value at `epsilon` is compared with `delta`.
    raised = [(type(item)(epsilon=item.epsilon * (1.0 + _ROUNDING)), cost) for item, cost in items]
    step = grid_step([item.epsilon for item, _ in raised], CONFIG.cells)
    size = math.ceil(CONFIG.reach * epsilon / step) + 2
    operators: list[tuple[BoundedRangeStep | RandomizedResponseStep, int]] = [
        (_operator(item, step), cost) for item, cost in raised
    ]
    longest = max(cost for _, cost in items)
    start = nothing_to_come(step)
    levels: list[Profile] = [Profile(step, np.zeros(size), np.resize(start.upper, size))]
    for level in range(1, CONFIG.most_levels + 1):
        options = [levels[-1]]
        options += [operator.apply_upper(levels[-cost], size) for operator, cost in operators if cost <= len(levels)]
        potential = pointwise_maximum(options)
        if float(potential.read_upper(np.array([epsilon]))[0]) > delta:
            return level - 1
        levels.append(potential)
        del levels[: max(0, len(levels) - longest)]
    return CONFIG.most_levels


def _operator(item: MenuItem, step: float) -> BoundedRangeStep | RandomizedResponseStep:
    """Return the operator that puts one use of the menu `item` (a guarantee) before later uses.

    The operator maps the privacy profile of the later uses (delta as a function of epsilon, on a grid of epsilons with
    this `step`) to the privacy profile of the added use followed by the later uses.
    """
    # The epsilon of the item is rounded up to a multiple of the step.
    cells = cells_up(item.epsilon, step)
    return (
        BoundedRangeStep(item.epsilon, cells, step)
        if isinstance(item, BoundedRange)
        else RandomizedResponseStep(cells, step)
    )

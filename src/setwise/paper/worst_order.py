"""Bounded-range mechanisms with unequal parameters in every fixed order: which order is the worst.

Evidence for docs/open-questions.md: every value is a certified bracket, so that "larger" is proved when brackets part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from setwise.accounting.bracket import Bracket
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange
from setwise.accounting.interaction import Interaction
from setwise.paper.narrow import narrow

Order = tuple[float, ...]


def delta_in_order(order: Sequence[float], g: float) -> Bracket:
    """Return the optimal delta at overall epsilon g when the parameters come in this order, first to last.

    Theorem: lem:adap_recursion_hetero.
    """
    return _delta(order, g, Interaction.ORDERED)


def delta_in_any_order(parameters: Sequence[float], g: float) -> Bracket:
    """Return the optimal delta when the analyst also chooses, after each answer, which parameter comes next."""
    return _delta(parameters, g, Interaction.SETWISE)


def _delta(order: Sequence[float], g: float, interaction: Interaction) -> Bracket:
    composed = compose([BoundedRange(epsilon=epsilon) for epsilon in order], interaction)
    return narrow(lambda width: composed.delta(g, width=width).bracket)


@dataclass(frozen=True, slots=True)
class Orders:
    """Every fixed order of a few parameters with its delta, and the delta of an analyst who chooses the order."""

    fixed: dict[Order, Bracket]
    chosen: Bracket

    @property
    def worst(self) -> Order:
        """The order with the largest lower end."""
        return max(self.fixed, key=lambda order: self.fixed[order].lower)

    @property
    def smaller_first(self) -> Order:
        """The ascending order."""
        return tuple(sorted(next(iter(self.fixed))))

    @property
    def smaller_first_is_beaten(self) -> bool:
        """Whether some order is certainly worse than the ascending one."""
        return self.fixed[self.worst].lower > self.fixed[self.smaller_first].upper

    @property
    def choosing_helps(self) -> bool:
        """Whether choosing the order on the way is certainly worse than every fixed order."""
        return self.chosen.lower > max(bracket.upper for bracket in self.fixed.values())


def all_orders(parameters: Sequence[float], g: float) -> Orders:
    """Return the values of all fixed orders of the parameters."""
    return Orders(
        {order: delta_in_order(order, g) for order in sorted(set(permutations(parameters)))},
        delta_in_any_order(parameters, g),
    )


@dataclass(frozen=True, slots=True)
class Survey:
    """Over all sets of one size: how often the ascending order is beaten, by how much, how often choosing helps."""

    size: int
    cases: int
    beaten: int
    largest_excess: float
    choosing_helps: int


def survey(size: int, values: Sequence[float], shares: Sequence[float]) -> Survey:
    """Return the survey of all sets of `size` distinct values, each at these shares of its sum."""
    cases = [
        all_orders(parameters, share * sum(parameters))
        for parameters in combinations(sorted(values), size)
        for share in shares
    ]
    beaten = [case for case in cases if case.smaller_first_is_beaten]
    return Survey(
        size,
        len(cases),
        len(beaten),
        max(
            (case.fixed[case.worst].lower / case.fixed[case.smaller_first].upper - 1.0 for case in beaten), default=0.0
        ),
        sum(case.choosing_helps for case in cases),
    )

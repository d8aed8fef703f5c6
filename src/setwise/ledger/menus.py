"""Budgets of menu accounts, which pay only for privacy guarantees from a list (the menu) that is fixed at the opening.

The analyst chooses from the menu after seeing answers, any number of times. Each guarantee on the menu costs a whole
number of units, and the budget is a number of these units. It is the largest number with which every choice of uses
that the account can pay for stays within the promised (epsilon, delta), as `setwise.accounting.menu` certifies. If the
guarantees on the menu have only a few different epsilons, a menu account can pay for more uses than a Gaussian wallet
(a budget in mu squared) with the same promise.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.brackets import float_above
from setwise.accounting.guarantees import ApproxDP, Guarantee, Use, ZeroConcentratedDP, total_loss
from setwise.accounting.menu import Menu, MenuItem
from setwise.accounting.notation import as_uses, format_use, parse_use
from setwise.accounting.zcdp_filter import Spent
from setwise.errors import InvalidParameter, Unattainable
from setwise.ledger.amounts import (
    FAILURE,
    RHO,
    SUM,
    UNITS,
    failure_shortage,
    recorded_sum,
    whole_units,
    worth_above,
    worth_below,
    zcdp_sums,
)

MENU = "menu"
"""The balance name of the units from which a menu account pays."""

_ROOM = 1 + 1e-9
"""The balances that only record rho and epsilon have a billionth more than all charges can need, because every charge
is rounded up to a whole unit."""


@dataclass(frozen=True, slots=True)
class MenuTotals:
    """The budget of a menu account, which pays only for privacy guarantees from a fixed list (menu).

    - `items` are the guarantees of the menu with their costs: ("pure:0.1", 5), for example, says that one 0.1-DP use
      costs 5 units.
    - `budget` is how many of these units the account can spend in all.
    - `epsilon` and `delta` are the promise for all answers together. Costs and budget are computed such that it holds.
    - `failure` is the part of `delta` for outright failures (which may reveal everything).
    - `rho` and `limit` are the sizes of two balances that only record charges and refuse none: the sum of the zCDP rho
      of the charges, and the sum of their largest privacy losses (epsilons).
    """

    items: tuple[tuple[str, int], ...]
    budget: int
    epsilon: float
    delta: float
    failure: float
    rho: float
    limit: float

    @classmethod
    def for_promise(
        cls, uses: Iterable[Use | Guarantee | str], *, epsilon: float, delta: float, failure_share: float
    ) -> "MenuTotals":
        """Return the largest budget with which all answers of a menu account together are (epsilon, delta)-DP.

        A menu account pays only for a fixed list (menu) of guarantees, each of which costs a whole number of units. The
        budget is a number of these units.

        - `uses` are the guarantees on the menu. The account may pay for each any number of times, so the number in
          "pure:0.1x3", for example, is ignored.
        - `failure_share` is the share of delta for outright failures, in which everything may be revealed.

        Raises `InvalidParameter` for a guarantee of unbounded privacy loss, and for an empty or too long menu. Raises
        `Unattainable` if not even one use keeps the promise.
        """
        if not 0.0 <= failure_share < 1.0:
            raise InvalidParameter(f"failure_share must be at least 0 and below 1, not {failure_share!r}")
        failure = delta * failure_share
        # The deltas of the menu and of failures add up to at most delta, because 1 - (1 - a)(1 - b) <= a + b.
        menu = Menu.for_promise(
            [use.guarantee for use in as_uses(uses)], epsilon=epsilon, delta=(delta - failure) * (1 - 1e-15)
        )
        if menu.budget < min(cost for _, cost in menu.items):
            raise Unattainable(
                f"no use of this menu keeps epsilon = {epsilon:g} at delta = {delta:g}; give smaller uses"
            )
        rates = [(Fraction(item.zero_concentrated().rho), total_loss([(item, 1)]), cost) for item, cost in menu.items]
        rho = max(each / cost for each, _, cost in rates) * menu.budget
        limit = max((loss or Fraction(0)) / cost for _, loss, cost in rates) * menu.budget
        return cls(
            items=tuple((format_use(Use(item)), cost) for item, cost in menu.items),
            budget=menu.budget,
            epsilon=float(epsilon),
            delta=float(delta),
            failure=failure,
            rho=2.0 * float_above(rho) * _ROOM,  # charges record epsilon^2/2, which is at most twice the exact constant
            limit=float_above(limit) * _ROOM,
        )

    @property
    def menu(self) -> Menu:
        """The account's budget and price list as a `Menu`: the guarantees that it pays for, and the price of one use.

        Prices and budget are whole numbers of the menu's own units. For example, a budget of 300 pays for 25 uses at 12
        units.
        """
        items: list[tuple[MenuItem, int]] = []
        for written, cost in self.items:
            guarantee = parse_use(written).guarantee
            assert isinstance(guarantee, MenuItem)
            items.append((guarantee, cost))
        return Menu(self.epsilon, self.delta, tuple(items), self.budget)

    def lines(self) -> dict[str, int]:
        """Return the size of each balance of the account, by the balance's name: how many units can be spent from it.

        - "menu" pays for the guarantees of the fixed list (menu). It has `budget` units, in which the list states the
          price of each guarantee.
        - "failure" pays for outright failures (which may reveal everything). It has 2^60 units, which together are the
          probability `failure`, or 0 units if this probability is 0.
        - "rho" and "sum" refuse no charge; they only record what was spent. They have 2^60 units each, which together
          are the zCDP rho `rho`, and the epsilon `limit`.
        """
        return {FAILURE: UNITS if self.failure else 0, MENU: self.budget, RHO: UNITS, SUM: UNITS}

    def price(self, uses: Sequence[Use], spent: Mapping[str, int]) -> dict[str, int]:
        """Return the units that `uses` take from each balance, by the balance's name.

        `uses` lists privacy guarantees and how often each is used.

        - "menu": the account has a menu, a fixed list of guarantees with a cost in units for each. A use costs as much
          as the cheapest of these guarantees that the use satisfies.
        - "failure": the probability that the uses fail outright (and may reveal everything), where 2^60 units are the
          probability `failure`.
        - "rho": the zCDP rho of the uses, where 2^60 units are the rho `rho`.
        - "sum": the sum of the largest privacy losses of the uses, where 2^60 units are the epsilon `limit`.

        The balances "rho" and "sum" only record charges and refuse none. If a charge is larger than what remains of one
        of them, it takes all that remains. `spent` maps each balance to the units spent from it before.

        Theorem: docs/optimal-composition.md, "Menu accounts". Raises `InvalidParameter` for a use that satisfies no
        guarantee on the menu.
        """
        rho, failure = zcdp_sums(uses)
        loss = total_loss((use.guarantee, use.count) for use in uses) or Fraction(0)
        return {
            FAILURE: whole_units(failure, self.failure),
            MENU: self._cost(uses),
            # The balances "rho" and "sum" only record charges, so a larger charge takes what is left and is not
            # refused.
            RHO: min(whole_units(rho, self.rho), UNITS - spent.get(RHO, 0)),
            SUM: min(whole_units(loss, self.limit), UNITS - spent.get(SUM, 0)),
        }

    def _cost(self, uses: Sequence[Use]) -> int:
        """Return how many units of the account's budget the `uses` cost together.

        `uses` lists guarantees and how often each is used. The account's menu is a fixed list of guarantees, each with
        a fixed cost in units of the balance "menu". The probability of outright failure is not part of the result,
        because another balance, "failure", pays for it.
        """
        menu, cost = self.menu, 0
        for use in uses:
            # The probability of outright failure is paid from the balance "failure".
            successful, _ = use.guarantee.split_off_failure()
            cost += 0 if successful is None else menu.cost(Use(successful, use.count))
        return cost

    def shortage(self, uses: Sequence[Use], spent: Mapping[str, int]) -> str | None:
        """Return text that gives all reasons why the account cannot pay for `uses` any more; None if it can.

        `uses` lists privacy guarantees and how often each is used. `spent` maps each balance to the units spent from it
        before. A full balance has 2^60 units, except "menu", which has `budget` units: each guarantee on the account's
        menu (its fixed list of guarantees) costs a whole number of them.

        Raises `InvalidParameter` for a use that satisfies no guarantee on the menu, because the account never pays for
        it.
        """
        remaining = {balance_name: total - spent.get(balance_name, 0) for balance_name, total in self.lines().items()}
        price = self.price(uses, spent)
        sentences = []
        if price[FAILURE] > remaining[FAILURE]:
            sentences.append(failure_shortage(uses, worth_below(remaining[FAILURE], self.failure)))
        if price[MENU] > remaining[MENU]:
            offers = ", or ".join(f"{remaining[MENU] // cost} of {item_text}" for item_text, cost in self.items)
            sentences.append(
                f"it costs {price[MENU]:,} units of the menu, and {remaining[MENU]:,} are left: enough for {offers}"
            )
        return "; ".join(sentences) or None

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return the zCDP rho and the probability of outright failure of all charges so far, each rounded up.

        An outright failure is an event in which everything may be revealed. `amounts` maps each balance to the units
        spent from it; the full balances "rho" and "failure" have 2^60 units each.

        The balance "rho" only records rho, and refuses no charge. A charge that does not fit takes all of what remains,
        so the total is then unknown. The result has an infinite rho in this case.
        """
        return Spent(recorded_sum(amounts[RHO], self.rho), worth_above(amounts[FAILURE], self.failure))

    @property
    def most_rho(self) -> float:
        """An upper bound on the zCDP parameter rho of everything that the whole budget can pay for.

        The odometer, a bound on the epsilon spent so far, is the smallest of several bounds. Each is tight if the rho
        spent so far is near one value: this rho, a half of it, a quarter, and so on. So the odometer is nearly tight
        for any rho up to this one.
        """
        return self.rho

    @property
    def price_depends_on_balance(self) -> bool:
        """Whether the price of a use depends on earlier charges: False, because a menu lists fixed costs."""
        return False

    def paying(self, amounts: Mapping[str, int]) -> tuple[str, ...]:  # noqa: ARG002 - part of BudgetTotals
        """Return ("menu",), the name of the only balance that pays in an account with a menu; `amounts` is ignored.

        A menu is a fixed list of guarantees with costs.
        """
        return (MENU,)

    def loss_sum(self, amounts: Mapping[str, int]) -> float:
        """Return the sum of the largest privacy losses (epsilons) of all charges so far, rounded up, or infinity.

        `amounts` maps each balance to the units spent from it. The balance "sum" records the sum: its 2^60 units stand
        for the epsilon `limit`, a field of this budget. This balance refuses no charge. A charge that is larger than
        what remains of "sum" takes all that remains; the sum is then unknown, and the result is infinity.
        """
        return recorded_sum(amounts[SUM], self.limit)

    def as_uses(self) -> tuple[Use, ...]:
        """Return the account's whole budget as one (epsilon, delta)-DP guarantee.

        The joint promise of several accounts is computed by composing such guarantees.
        """
        return (Use(ApproxDP(epsilon=self.epsilon, delta=self.delta)),)

    def spent_as(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return one zCDP guarantee that reveals at least as much as everything paid so far, as a tuple of one use.

        `amounts` maps each balance to the units spent from it. The balance "rho" only records the zCDP rho of the
        charges and refuses none; when full, it has 2^60 units. The tuple is empty if nothing was spent. The tuple is
        also empty if the charges have used up "rho", because their rho is then unknown.
        """
        spent = self.worth(amounts)
        if not (spent.rho or spent.failure_sum) or spent.rho == math.inf:
            return ()
        return (Use(ZeroConcentratedDP(rho=spent.rho, delta=spent.failure_sum)),)

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return, for people, the largest guarantees that the remaining budget can pay for together; at most two.

        The menu is the account's fixed list of guarantees with costs in units. The first result is the most expensive
        guarantee on the menu that the account can still pay for, with the number of times. The second is (0, delta)-DP,
        where delta is the remaining failure probability. A result is left out if nothing remains for it.

        `amounts` maps each balance to the units that remain in it. The balance "menu" begins with `budget` units, in
        which the costs are stated. The balance "failure" begins with 2^60 units, which are the failure probability set
        aside.
        """
        guarantees = sorted(
            ((parse_use(written).guarantee, cost) for written, cost in self.items), key=lambda pair: -pair[1]
        )
        uses = [Use(guarantee, amounts[MENU] // cost) for guarantee, cost in guarantees if amounts[MENU] >= cost][:1]
        failure = worth_below(amounts[FAILURE], self.failure)
        return (*uses, *((Use(ApproxDP(epsilon=0.0, delta=failure)),) if failure else ()))

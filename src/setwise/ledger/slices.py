"""Amounts of a cap (the joint budget of a dataset's accounts), and of its slices (the parts reserved for accounts).

A cap is a Gaussian wallet (a budget in mu squared) with a limit on the sum of losses and on the probability of outright
failure (an event in which everything may be revealed). An account takes a slice of each balance as it needs it, and
pays from the slice, so that a charge does not wait for other accounts. A mechanism use costs more the less remains
after it. What remains in the slice is less than what remains in the cap, so a slice pays at least the price of the
whole cap. This module computes the amounts; cap.py moves them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import lru_cache
from typing import Literal, assert_never, get_args

from setwise.accounting.filters import Spent
from setwise.accounting.guarantees import Use, total_loss
from setwise.accounting.wallet import Wallet
from setwise.errors import InvalidParameter
from setwise.ledger.amounts import (
    FAILURE,
    SUM,
    UNITS,
    WALLET,
    balance_shortage,
    failure_shortage,
    largest_of_wallet,
    spent_of_sum,
    spent_of_wallet,
    wallet_as_uses,
    whole_units,
    worth_above,
    worth_below,
    zcdp_sums,
)

SLICES: Mapping[str, str] = {FAILURE: "slice:failure", SUM: "slice:sum", WALLET: "slice:wallet"}
"""Per balance name of a cap ("wallet", for example), the account's balance name for its slice ("slice:wallet").

A slice is the part of a cap that is reserved for one account; that balance has the units in it.
"""

RULE = "rule"
"""The balance name of a cap that records which payment rule, Gaussian wallet or sum of epsilons, was dropped."""


class Rule(IntEnum):
    """The payment rules that a cap (the joint budget of a dataset's accounts) still has: both, or only one of them.

    The rules are the Gaussian wallet (a budget in mu squared) and the sum of epsilons. A rule stays only while every
    use is paid by it. Dropping a rule spends units of the cap's small balance "rule", which has 3 units: 2 if the sum
    rule is dropped, 3 if the wallet rule is. The values here are the units spent. If two concurrent transactions each
    drop a rule, the database refuses the second, because the two would spend more than 3 units.
    """

    BOTH = 0
    WALLET = 2
    SUM = 3


Keep = Literal["either", "wallet", "sum"]
"""Which rule of a cap pays: the Gaussian wallet, the sum of epsilons, or either until one of them ends."""

_FINENESS = 2
_LEVELS = 40
"""Wallet prices are computed for the balances w 2^(-i/2) after a use, i = 1 to 40, and for the balance 0.

Here w is the size of the cap's wallet. A coarse grid keeps the number of prices small; the price at a lower balance
than the true one is only too high.
"""

_ACCEPTABLE_EXCESS = Fraction(102, 100)
"""Refill a slice if it would pay over 2% more than the price of the uses with the whole cap as balance."""

_ROUNDING = Fraction(1, 2**48)
"""Relative difference that a price may have between platforms, whose math libraries round differently."""

_REFILL_SHARE = 16
"""Refill a slice by the lacking units and 1/16 of the unallocated cap, so that 16 accounts can refill at once."""


@dataclass(frozen=True, slots=True)
class CapTotals:
    """The budget of a cap, the limit on all accounts of a dataset together, as exact floats.

    `wallet` is the mu^2 of the cap's Gaussian wallet. `limit` is the epsilon that bounds the sum of the largest losses
    of all mechanism uses. `failure` is the probability of outright failure (an event in which everything may be
    revealed). `keep` says how the cap is paid: only from the "wallet", only by the "sum" of losses, or "either", that
    is, in both ways until only one of them can pay for a use.
    """

    wallet: float
    limit: float
    failure: float
    keep: Keep = "either"

    @classmethod
    def for_promise(cls, *, epsilon: float, delta: float, failure_share: float, keep: Keep = "either") -> "CapTotals":
        """Return the budget of a cap such that all answers paid from it are together (epsilon, delta)-DP.

        A cap is the joint budget of a dataset's accounts. The share `failure_share` of delta is set aside for outright
        failures (events in which everything may be revealed). Raises `InvalidParameter` for an unknown `keep`.
        """
        if keep not in get_args(Keep):
            raise InvalidParameter(f"keep must be one of {', '.join(get_args(Keep))}, not {keep!r}")
        wallet = Wallet.for_promise(epsilon=epsilon, delta=delta, failure_share=failure_share)
        return cls(wallet.size, wallet.loss_limit, wallet.failure_limit, keep)

    def lines(self) -> dict[str, int]:
        """Return the units of each balance of the cap when nothing is spent, per balance name.

        The balances "wallet" (mu squared), "sum" (of epsilons) and "failure" have 2^60 units each, or 0 if the cap does
        not use them. The balance "rule" records which of the first two was dropped as a way of payment: the wallet
        costs 3 of its units and the sum 2. So it has 3 units if the cap begins with both ways, and 0 if it has only
        one.
        """
        return {
            FAILURE: UNITS if self.failure else 0,
            RULE: int(Rule.SUM) if self.keep == "either" else 0,
            SUM: 0 if self.keep == "wallet" else UNITS,
            WALLET: 0 if self.keep == "sum" else UNITS,
        }

    def rule_of(self, units: int) -> Rule:
        """Return the payment rules (Gaussian wallet, sum of epsilons, or both) that are in force for the cap.

        `units` are the units spent so far of the cap's balance "rule", which records a dropped rule: 2 if the sum rule
        was dropped, and 3 if the wallet rule was. They are ignored if the cap has had only one rule from the start.
        """
        match self.keep:
            case "either":
                return Rule(units)
            case "wallet":
                return Rule.WALLET
            case "sum":
                return Rule.SUM
            case _:
                assert_never(self.keep)

    def pay(self, uses: Sequence[Use], slice_units: Mapping[str, int], rule: Rule) -> dict[str, int] | None:
        """Return the units, per balance name, that an account's slice of the cap pays for `uses`; None if too few.

        A slice is the part of the cap that is reserved for one account; `slice_units` are the units in it, of which a
        full balance has 2^60. `rule` says whether the Gaussian wallet (a budget in mu squared) pays, the sum of
        epsilons, or both. Each use is priced by what remains in the slice after all of them, so the price is the same
        in whatever order they are asked.

        Theorem: docs/optimal-composition.md, "Slices".
        """
        costs, wallet = self._costs(uses), slice_units.get(WALLET, 0)
        price = costs.fixed_costs(rule)
        if rule is not Rule.SUM:
            price[WALLET] = next(
                (units for balance_after, units in costs.prices if balance_after + units <= wallet), wallet + 1
            )
        return (
            price if all(units <= slice_units.get(balance_name, 0) for balance_name, units in price.items()) else None
        )

    def accepts(
        self, uses: Sequence[Use], slice_units: Mapping[str, int], price: Mapping[str, int], rule: Rule
    ) -> bool:
        """Return whether `price` is the right price of `uses`, paid from a slice that had `slice_units` units.

        A slice is the part of a cap that is reserved for one account. `uses` are mechanism uses. `rule` says whether
        the Gaussian wallet (a budget in mu squared) pays, the sum of epsilons, or both. `price` and `slice_units` are
        keyed by balance name (such as "wallet", 2^60 units when full). A wallet payment may differ by rounding from the
        price that this machine computes, because another platform may have computed it.
        """
        costs, wallet = self._costs(uses), price.get(WALLET, 0)
        if any(
            price.get(balance_name, 0) != costs.fixed_costs(rule).get(balance_name, 0)
            for balance_name in (FAILURE, SUM)
        ):
            return False
        if rule is Rule.SUM:
            return not wallet
        return any(
            abs(units - wallet) <= costs.rounding and balance_after + wallet <= slice_units[WALLET]
            for balance_after, units in costs.prices
        )

    def pays_well(self, uses: Sequence[Use], price: Mapping[str, int]) -> bool:
        """Return whether the `price` of `uses` in an account's slice is at most 2% above their price in the whole cap.

        A slice is an account's reserved part of the cap, and a use costs more from a smaller balance. `price` are the
        units that the slice pays, per balance name (such as "wallet": mu squared, 2^60 units when full); only those of
        the wallet are compared.
        """
        return price.get(WALLET, 0) <= self._costs(uses).well

    def refill(
        self, uses: Sequence[Use], slice_units: Mapping[str, int], free: Mapping[str, int], rule: Rule
    ) -> dict[str, int]:
        """Return the units, per balance name, to move into an account's slice so that it can pay for `uses`.

        A slice is the part of the cap that is reserved for one account. `slice_units` are the units in it now, and
        `free` those of the cap that are in no slice. After the refill the slice can pay for the mechanism uses, at a
        price close to that of the whole cap, and for more uses like them. Fewer units are returned if fewer are free;
        `pay` then says whether they are enough. `rule` says whether the Gaussian wallet (a budget in mu squared) pays,
        the sum of epsilons, or both. A full balance has 2^60 units.
        """
        wanted = self.needs(uses, rule)
        if WALLET in wanted:
            costs = self._costs(uses)
            roomy = [balance_after + units for balance_after, units in costs.prices if units <= costs.well]
            wanted[WALLET] = max(wanted[WALLET], min(roomy, default=0))
        lacking = {balance_name: units - slice_units.get(balance_name, 0) for balance_name, units in wanted.items()}
        refill = {
            balance_name: min(free[balance_name], units + free[balance_name] // _REFILL_SHARE)
            for balance_name, units in lacking.items()
            if units > 0
        }
        return {balance_name: units for balance_name, units in refill.items() if units}

    def needs(self, uses: Sequence[Use], rule: Rule) -> dict[str, int]:
        """Return the units, per balance name, of the smallest slice of the cap that can pay for `uses`.

        A slice is the part of the cap that is reserved for one account, and `uses` are mechanism uses (guarantees with
        counts). `rule` says whether the Gaussian wallet (a budget in mu squared) pays, the sum of epsilons, or both. An
        amount above 2^60, the size of a whole balance, means that no slice can pay.
        """
        costs = self._costs(uses)
        wanted = costs.fixed_costs(rule)
        if rule is not Rule.SUM:
            wanted[WALLET] = min((balance_after + units for balance_after, units in costs.prices), default=UNITS + 1)
        return wanted

    def rule_for(self, uses: Sequence[Use], remaining: Mapping[str, int], rule: Rule) -> Rule | None:
        """Return the payment rules under which the whole cap, which has the units `remaining`, can pay for `uses`.

        The payment rules are the Gaussian wallet (a budget in mu squared) and the sum of epsilons; `rule` says which
        are in force. The result is `rule` if all of these can pay, otherwise the only rule that can, and None if no
        rule can. `uses` are mechanism uses, and `remaining` has units per balance name (such as "wallet", 2^60 units
        when full).
        """
        within = {
            balance_name: units <= remaining[balance_name] for balance_name, units in self.needs(uses, rule).items()
        }
        by_wallet, by_sum = within.get(WALLET, False), within.get(SUM, False)
        if not within[FAILURE] or not (by_wallet or by_sum):
            return None
        return rule if by_wallet and by_sum else Rule.WALLET if by_wallet else Rule.SUM

    def shortage(self, uses: Sequence[Use], remaining: Mapping[str, int], rule: Rule) -> str | None:
        """Return a sentence about what the cap lacks to pay for the mechanism uses `uses`, or None if it can pay.

        `remaining` has the cap's remaining units per balance name (such as "wallet", 2^60 units when full). `rule` says
        whether the Gaussian wallet (a budget in mu squared) may pay, the sum of epsilons, or both.
        """
        if self.rule_for(uses, remaining, rule) is not None:
            return None
        if self._costs(uses).failure > remaining[FAILURE]:
            return failure_shortage(uses, worth_below(remaining[FAILURE], self.failure))
        wallet = 0.0 if rule is Rule.SUM else worth_below(remaining[WALLET], self.wallet)
        summed = 0.0 if rule is Rule.WALLET else worth_below(remaining[SUM], self.limit)
        return balance_shortage(uses, wallet, summed)

    def rule_ended_by(self, uses: Sequence[Use], remaining: Mapping[str, int], rule: Rule) -> Rule | None:
        """Return the payment rule that ends for all accounts under the cap if the cap pays for `uses`.

        The rules are the Gaussian wallet (a budget in mu squared) and the sum of epsilons; `rule` says which are in
        force. `uses` are mechanism uses, and `remaining` has the cap's remaining units per balance name (such as
        "wallet", 2^60 units when full). Returns None if no rule would end, or if the remaining balances cannot pay.
        """
        after = self.rule_for(uses, remaining, rule)
        if after is None or after is rule:
            return None
        return Rule.WALLET if after is Rule.SUM else Rule.SUM

    def _costs(self, uses: Sequence[Use]) -> "_Costs":
        """Return what the mechanism uses `uses` cost this cap, in units (2^60 for each full balance); cached."""
        return _costs_of(self, tuple(uses))

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return the zCDP rho and the failure probability of the charges that spent the units `amounts` of the cap.

        `amounts` has units per balance name (such as "wallet", 2^60 units when full). The failure probability is
        rounded up. A cap does not record rho, so rho is returned as infinite; it is 0 only if nothing was spent of the
        wallet (a budget in mu squared).
        """
        return Spent(math.inf if amounts[WALLET] else 0.0, worth_above(amounts[FAILURE], self.failure))

    def loss_sum(self, amounts: Mapping[str, int]) -> float:
        """Return the sum of the largest losses of all mechanism uses that the cap paid for, an epsilon, rounded up.

        `amounts` has the units spent so far, per balance name (such as "wallet", 2^60 units when full). If the cap pays
        only from its Gaussian wallet (a budget in mu squared), the sum is not recorded; it is then infinite, or 0 if
        nothing was spent.
        """
        if self.rule_of(amounts[RULE]) is not Rule.WALLET:
            return worth_above(amounts[SUM], self.limit)
        return math.inf if any(amounts.values()) else 0.0

    def as_uses(self) -> tuple[Use, ...]:
        """Return the cap's whole budget as two mechanism uses: a Gaussian use of its mu^2, and a failure use.

        The failure use reveals nothing, except with the failure probability of the cap, when it may reveal everything.
        It is left out if that probability is 0.
        """
        return wallet_as_uses(self.wallet, self.failure)

    @property
    def price_depends_on_balance(self) -> bool:
        """Whether the price of a mechanism use depends on earlier charges: True, except for Gaussian uses."""
        return True

    @property
    def most_rho(self) -> float:
        """The rho of a Gaussian mechanism with the mu^2 of this cap (a dataset's joint budget): mu^2 / 2."""
        return self.wallet / 2

    def paying(self, amounts: Mapping[str, int]) -> tuple[str, ...]:
        """Return the names of the cap's balances that can fund another mechanism use: "wallet", "sum", or both.

        While both are returned, a charge takes units from both. Once only one of the two balances can pay for a use,
        the other is dropped for good. `amounts` has the units spent so far, per balance name (such as "wallet": mu
        squared, 2^60 units when full).
        """
        return {Rule.BOTH: (WALLET, SUM), Rule.WALLET: (WALLET,), Rule.SUM: (SUM,)}[self.rule_of(amounts[RULE])]

    def spent_as(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return two mechanism uses that together reveal at least as much as everything that the cap has paid for.

        They are a Gaussian use of the spent mu^2 and a failure use, which reveals nothing unless it fails outright (and
        may then reveal everything). If the cap is paid only by the sum of epsilons, the first is instead a pure DP use
        of the summed epsilon. `amounts` has the spent units per balance name, of which a full balance has 2^60.
        """
        failed = worth_above(amounts[FAILURE], self.failure)
        if self.rule_of(amounts[RULE]) is Rule.SUM:
            return spent_of_sum(worth_above(amounts[SUM], self.limit), failed)
        return spent_of_wallet(worth_above(amounts[WALLET], self.wallet), failed)

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return the largest mechanism uses that the cap's remaining units `amounts` pay for together.

        They are a Gaussian use and a failure use, which reveals nothing unless it fails outright (and may then reveal
        everything). If the cap is now paid only by the sum of epsilons, the first is instead a pure DP use. `amounts`
        has units per balance name (such as "wallet": mu squared, 2^60 units when full).
        """
        by_sum = self.rule_of(self.lines()[RULE] - amounts[RULE]) is Rule.SUM
        return largest_of_wallet(
            0.0 if by_sum else worth_below(amounts[WALLET], self.wallet),
            worth_below(amounts[SUM], self.limit) if by_sum else 0.0,
            worth_below(amounts[FAILURE], self.failure),
        )


@dataclass(frozen=True, slots=True)
class _Costs:
    """The cost of some mechanism uses to a cap (a dataset's joint budget), in units; each whole balance has 2^60.

    - `failure` is the failure probability of the uses, and `summed` the sum of their largest losses, which is above
      2^60 if a loss is unbounded.
    - `prices` lists pairs (remaining units, price of the uses), from the largest number of remaining units down to 0.
      The price in the wallet (a budget in mu squared) depends on the units that remain in the wallet after the uses.
      The list is empty if the uses have no price.
    - `well` is 2% above the price with the whole wallet remaining. A wallet payment of at most `well` is a good price.
    - `rounding` is the number of units by which the prices of two platforms may differ.
    """

    failure: int
    summed: int
    prices: tuple[tuple[int, int], ...]
    well: int
    rounding: int

    def fixed_costs(self, rule: Rule) -> dict[str, int]:
        """Return the costs that do not depend on what remains in the wallet, in units per balance name.

        They are the failure probability and the sum of largest losses. The sum is left out if `rule` says that only the
        wallet (a budget in mu squared) pays.
        """
        return {FAILURE: self.failure} if rule is Rule.WALLET else {FAILURE: self.failure, SUM: self.summed}


@lru_cache(maxsize=4096)
def _costs_of(cap: CapTotals, uses: tuple[Use, ...]) -> _Costs:
    """Return what `uses` cost the budget `cap`: fixed costs, and the wallet's price for 41 balances after the uses.

    `uses` are mechanism uses (guarantees with counts). The price from the wallet (a budget in mu squared) depends on
    the balance that remains. It is computed for the balances w 2^(-i/2), i = 1 to 40, where w is the whole wallet, and
    for 0. The failure probability and the sum of largest losses are fixed costs. Cached, because 41 prices take time.
    """
    wallet = cap.wallet
    levels = [wallet * 2.0 ** (-place / _FINENESS) for place in range(1, _LEVELS + 1)] + [0.0]
    costs = [(level, _cost(uses, level)) for level in levels]
    prices = [
        (whole_units(Fraction(level), wallet), whole_units(cost, wallet)) for level, cost in costs if cost is not None
    ]
    least = _cost(uses, wallet)
    loss = total_loss((use.guarantee, use.count) for use in uses)
    return _Costs(
        failure=whole_units(zcdp_sums(uses)[1], cap.failure),
        summed=UNITS + 1 if loss is None else whole_units(loss, cap.limit),
        prices=tuple(prices),
        well=0 if least is None else whole_units(least * _ACCEPTABLE_EXCESS, wallet),
        rounding=math.floor(
            sum((_platform_dependent_price(use) for use in uses), Fraction(0)) * UNITS / Fraction(wallet) * _ROUNDING
        ),
    )


def _cost(uses: tuple[Use, ...], level: float) -> Fraction | None:
    """Return the sum of the prices of `uses` in a Gaussian wallet that has the balance `level` after them.

    `uses` are mechanism uses (guarantees with counts). Price and balance are mu^2, and the sum is exact. Returns None
    if a use has no finite price.
    """
    total = Fraction(0)
    for use in uses:
        price = use.guarantee.price(level)
        if price == math.inf:
            return None
        total += use.count * Fraction(price)
    return total


def _platform_dependent_price(use: Use) -> Fraction:
    """Return the highest price (mu^2) of a mechanism `use`: that of a use after which the Gaussian wallet is empty.

    A Gaussian wallet is a budget in mu^2. Returns 0 for a use whose price is infinite, or is the same at every balance.
    Prices that depend on the balance are computed with functions that platforms round differently; the difference that
    is accepted is a share of this price.
    """
    price = use.guarantee.price(0.0) if use.guarantee.price_varies else 0.0
    return use.count * Fraction(price) if price < math.inf else Fraction(0)

"""Amounts of a cap that the accounts on a dataset share, and of the slices that accounts hold of it.

A cap is a Gaussian wallet with a limit on the sum of losses and on the probability of outright failure. An account
takes a slice of each as it needs it, and pays from the slice, so that a charge does not wait for other accounts. A use
is priced with the balance that it leaves in the slice. That is less than the balance of the cap, and prices fall as the
balance grows, so the price is at least the price in the whole cap.
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
from setwise.accounting.wallet import Wallet, wallet_shortage
from setwise.errors import InvalidParameter
from setwise.ledger.amounts import (
    FAILURE,
    SUM,
    UNITS,
    WALLET,
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
"""Per line of a cap, the line of an account that says how many of its units the account holds."""

RULE = "rule"
"""The line of a cap that records which of its two rules was dropped."""


class Rule(IntEnum):
    """By which rules every use so far was paid, as the units spent of the line `RULE`.

    The line has 3 units; dropping the sum rule costs 2 and dropping the wallet rule costs 3, so the database's
    overdraft check lets only one of two concurrent transactions win.
    """

    BOTH = 0
    WALLET = 2
    SUM = 3


Keep = Literal["either", "wallet", "sum"]
"""Which rule of a cap pays: the Gaussian wallet, the sum of epsilons, or either until one of them ends."""

_FINENESS = 2
_LEVELS = 40
"""Prices are computed for the balances w 2^(-i/2) after a use, i = 1 to 40, where w is the cap's wallet, and for 0."""

_WELL = Fraction(102, 100)
"""Refill a slice if it would pay over 2% more than the price of the uses with the whole cap as balance."""

_ROUNDING = Fraction(1, 2**48)
"""Relative difference that a price may have between platforms, whose math libraries round differently."""

_SHARE = 16
"""Refill a slice by what is needed and 1/16 of the unallocated cap, so that 16 accounts can refill at once."""


@dataclass(frozen=True, slots=True)
class CapTotals:
    """The totals of a cap, as exact floats: its `wallet` as mu^2, the `limit` of summed losses, and `failure`.

    `keep` says which rule pays: "wallet" or "sum" from the start, or "either": both, until a use fits one of them only.
    """

    wallet: float
    limit: float
    failure: float
    keep: Keep = "either"

    @classmethod
    def for_promise(cls, *, epsilon: float, delta: float, failure_share: float, keep: Keep = "either") -> "CapTotals":
        """Return the totals that keep (epsilon, delta)-DP."""
        if keep not in get_args(Keep):
            raise InvalidParameter(f"keep must be one of {', '.join(get_args(Keep))}, not {keep!r}")
        wallet = Wallet.for_promise(epsilon=epsilon, delta=delta, failure_share=failure_share)
        return cls(wallet.size, wallet.loss_limit, wallet.failure_limit, keep)

    def lines(self) -> dict[str, int]:
        """Return the units of each total. A cap that keeps one rule from the start has nothing of the other."""
        return {
            FAILURE: UNITS if self.failure else 0,
            RULE: int(Rule.SUM) if self.keep == "either" else 0,
            SUM: 0 if self.keep == "wallet" else UNITS,
            WALLET: 0 if self.keep == "sum" else UNITS,
        }

    def rule_of(self, units: int) -> Rule:
        """Return the rules by which the cap is paid after `units` of its line `RULE` were spent."""
        match self.keep:
            case "either":
                return Rule(units)
            case "wallet":
                return Rule.WALLET
            case "sum":
                return Rule.SUM
            case _:
                assert_never(self.keep)

    def pay(self, uses: Sequence[Use], held: Mapping[str, int], rule: Rule) -> dict[str, int] | None:
        """Return the units that the uses take of a slice, per line of the cap; None when the slice cannot pay.

        All uses are priced with what is left after all of them, so their order does not matter.

        Theorem: docs/optimal-composition.md, "Slices".
        """
        costs, wallet = self._costs(uses), held.get(WALLET, 0)
        paid = costs.fixed(rule)
        if rule is not Rule.SUM:
            paid[WALLET] = next((units for behind, units in costs.prices if behind + units <= wallet), wallet + 1)
        return paid if all(units <= held.get(what, 0) for what, units in paid.items()) else None

    def accepts(self, uses: Sequence[Use], held: Mapping[str, int], paid: Mapping[str, int], rule: Rule) -> bool:
        """Return whether a slice paid for the uses by these rules: what `pay` takes, on this machine or on another.

        Prices include a margin larger than the difference between platforms' math libraries, so an entry written on
        another platform still verifies.
        """
        costs, wallet = self._costs(uses), paid.get(WALLET, 0)
        if any(paid.get(what, 0) != costs.fixed(rule).get(what, 0) for what in (FAILURE, SUM)):
            return False
        if rule is Rule.SUM:
            return not wallet
        return any(
            abs(units - wallet) <= costs.rounding and behind + wallet <= held[WALLET] for behind, units in costs.prices
        )

    def pays_well(self, uses: Sequence[Use], paid: Mapping[str, int]) -> bool:
        """Return whether a payment is at most 2% above the price of the uses with the whole cap as balance."""
        return paid.get(WALLET, 0) <= self._costs(uses).well

    def refill(
        self, uses: Sequence[Use], held: Mapping[str, int], free: Mapping[str, int], rule: Rule
    ) -> dict[str, int]:
        """Return the units to take from the unallocated part of the cap (`free`), per line.

        They let a slice with the balances `held` pay for the uses and for more like them. Fewer are returned if fewer
        are free; `pay` says whether they are enough.
        """
        wanted = self.needs(uses, rule)
        if WALLET in wanted:
            costs = self._costs(uses)
            roomy = [behind + units for behind, units in costs.prices if units <= costs.well]
            wanted[WALLET] = max(wanted[WALLET], min(roomy, default=0))
        lacking = {what: units - held.get(what, 0) for what, units in wanted.items()}
        found = {what: min(free[what], units + free[what] // _SHARE) for what, units in lacking.items() if units > 0}
        return {what: units for what, units in found.items() if units}

    def needs(self, uses: Sequence[Use], rule: Rule) -> dict[str, int]:
        """Return the smallest slice that pays for the uses, in units per line; over `UNITS` where no slice does."""
        costs = self._costs(uses)
        wanted = costs.fixed(rule)
        if rule is not Rule.SUM:
            wanted[WALLET] = min((behind + units for behind, units in costs.prices), default=UNITS + 1)
        return wanted

    def rule_for(self, uses: Sequence[Use], left: Mapping[str, int], rule: Rule) -> Rule | None:
        """Return the rules that pay for the uses from the balances `left` of the whole cap; None if none does."""
        within = {what: units <= left[what] for what, units in self.needs(uses, rule).items()}
        by_wallet, by_sum = within.get(WALLET, False), within.get(SUM, False)
        if not within[FAILURE] or not (by_wallet or by_sum):
            return None
        return rule if by_wallet and by_sum else Rule.WALLET if by_wallet else Rule.SUM

    def shortage(self, uses: Sequence[Use], left: Mapping[str, int], rule: Rule) -> str | None:
        """Return in words why the uses do not fit in the balances `left` of the cap; None if they fit."""
        if self.rule_for(uses, left, rule) is not None:
            return None
        if self._costs(uses).failure > left[FAILURE]:
            return failure_shortage(uses, worth_below(left[FAILURE], self.failure))
        return wallet_shortage(uses, 0.0 if rule is Rule.SUM else worth_below(left[WALLET], self.wallet))

    def rule_ended_by(self, uses: Sequence[Use], left: Mapping[str, int], rule: Rule) -> Rule | None:
        """Return the rule by which nobody could pay any more after these uses; None if none ends or they do not fit."""
        after = self.rule_for(uses, left, rule)
        if after is None or after is rule:
            return None
        return Rule.WALLET if after is Rule.SUM else Rule.SUM

    def _costs(self, uses: Sequence[Use]) -> "_Costs":
        return _costs_of(self, tuple(uses))

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return the zCDP of what was drawn, which a cap does not record (infinite), and its failure probability."""
        return Spent(math.inf if amounts[WALLET] else 0.0, worth_above(amounts[FAILURE], self.failure))

    def loss_sum(self, amounts: Mapping[str, int]) -> float:
        """Return the sum of the largest losses of what was spent; infinite once that rule was given up."""
        if self.rule_of(amounts[RULE]) is not Rule.WALLET:
            return worth_above(amounts[SUM], self.limit)
        return math.inf if any(amounts.values()) else 0.0

    def as_uses(self) -> tuple[Use, ...]:
        """Return what the wallet stands for in a composition: one Gaussian, and its failures."""
        return wallet_as_uses(self.wallet, self.failure)

    @property
    def price_depends_on_balance(self) -> bool:
        """Whether the price of a use depends on what was spent before it: it does, except for Gaussian noise."""
        return True

    @property
    def most_rho(self) -> float:
        """About the rho that may be drawn in all: that of a Gaussian of this mu^2."""
        return self.wallet / 2

    def paying(self, amounts: Mapping[str, int]) -> tuple[str, ...]:
        """Return the names of the lines that can fund another use: two, until one rule is dropped."""
        return {Rule.BOTH: (WALLET, SUM), Rule.WALLET: (WALLET,), Rule.SUM: (SUM,)}[self.rule_of(amounts[RULE])]

    def spent_as(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return what was spent as one Gaussian of that mu^2, or one pure use of the sum of losses, and one failure."""
        failed = worth_above(amounts[FAILURE], self.failure)
        if self.rule_of(amounts[RULE]) is Rule.SUM:
            return spent_of_sum(worth_above(amounts[SUM], self.limit), failed)
        return spent_of_wallet(worth_above(amounts[WALLET], self.wallet), failed)

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return uses that these units pay for together: a Gaussian (a pure use by the sum rule), and a failure."""
        by_sum = self.rule_of(self.lines()[RULE] - amounts[RULE]) is Rule.SUM
        return largest_of_wallet(
            0.0 if by_sum else worth_below(amounts[WALLET], self.wallet),
            worth_below(amounts[SUM], self.limit) if by_sum else 0.0,
            worth_below(amounts[FAILURE], self.failure),
        )


@dataclass(frozen=True, slots=True)
class _Costs:
    """The cost of uses to a cap, in units.

    `prices` pairs the balance that the uses leave, in falling order, with their price in the wallet; empty if the uses
    have no price. `well` is 2% above the lowest price, `rounding` the units by which platforms may differ, and
    `summed` the sum of losses, over `UNITS` if a loss is unbounded.
    """

    failure: int
    summed: int
    prices: tuple[tuple[int, int], ...]
    well: int
    rounding: int

    def fixed(self, rule: Rule) -> dict[str, int]:
        """Return the part of the cost that does not depend on the balance, per line."""
        return {FAILURE: self.failure} if rule is Rule.WALLET else {FAILURE: self.failure, SUM: self.summed}


@lru_cache(maxsize=4096)
def _costs_of(cap: CapTotals, uses: tuple[Use, ...]) -> _Costs:
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
        well=0 if least is None else whole_units(least * _WELL, wallet),
        rounding=math.floor(sum((_varying(use) for use in uses), Fraction(0)) * UNITS / Fraction(wallet) * _ROUNDING),
    )


def _cost(uses: tuple[Use, ...], level: float) -> Fraction | None:
    """Return the exact sum of the prices of uses that leave the balance `level`; None if a use has no price."""
    total = Fraction(0)
    for use in uses:
        price = use.guarantee.price(level)
        if price == math.inf:
            return None
        total += use.count * Fraction(price)
    return total


def _varying(use: Use) -> Fraction:
    """Return the highest price of a use if its price needs functions that platforms round differently, else 0."""
    price = use.guarantee.price(0.0) if use.guarantee.price_varies else 0.0
    return use.count * Fraction(price) if price < math.inf else Fraction(0)

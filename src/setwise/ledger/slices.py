"""Amounts of a cap (the joint budget of a dataset's accounts), and of its slices (the parts reserved for accounts).

A cap has three balances: a Gaussian wallet (a budget in mu squared), a limit on the sum of losses (epsilons), and a
limit on the probability of outright failure (an event in which everything may be revealed). An account reserves a slice
of each balance when it needs it, and pays from the slice, so that a charge does not wait for other accounts.

In the wallet, the use of a mechanism costs more if less remains after it. Less remains in a slice than in the whole
cap, so a slice pays at least the price of the whole cap. This module only computes amounts: account.py moves units into
a slice with the charge that needs them, and cap.py moves units from slices back to the cap.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import lru_cache
from typing import assert_never, get_args

from setwise.accounting.guarantees import Use, total_loss
from setwise.accounting.wallet import Wallet
from setwise.accounting.zcdp_filter import Spent
from setwise.contract import Keep
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
    """From which of its two balances a cap (the joint budget of a dataset's accounts) still pays.

    The balances are the Gaussian wallet (an amount of mu squared) and the sum of epsilons.

    - `BOTH`: every charge takes units from both balances.
    - `WALLET` or `SUM`: a charge takes units from this balance only. The other balance could not pay for some charge
      and was dropped for good, or the cap was set up without it.
    """

    # The values are the units spent of the balance "rule", which has 3. If two concurrent transactions each drop a
    # balance, they would spend more than 3 units together, so the database refuses the second.
    BOTH = 0
    WALLET = 2
    SUM = 3


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
    """The size of a cap, which is the joint budget of all accounts of a dataset: one limit for each kind of payment.

    - `wallet` limits payments in mu squared: together they reveal no more than one Gaussian mechanism with this mu^2.
    - `limit` limits the sum of the largest privacy losses (epsilons) of all payments.
    - `failure` limits the probability that any mechanism fails outright, which may reveal everything.
    - `keep` says which of the first two limits counts: only "wallet", only "sum", or "either". With "either", every
      charge counts against both, until one of them cannot pay for a charge; from then on only the other counts.

    Each float counts with its exact binary value: a unit of a balance is exactly 2^-60 of the limit.
    """

    wallet: float
    limit: float
    failure: float
    keep: Keep = "either"

    @classmethod
    def for_promise(cls, *, epsilon: float, delta: float, failure_share: float, keep: Keep = "either") -> "CapTotals":
        """Return the budget of a cap such that all answers paid from it are together (epsilon, delta)-DP.

        A cap is the joint budget of a dataset's accounts. `failure_share` is the share of delta for outright failures
        (which may reveal everything). `keep` says which balances pay: only the "wallet" (mu squared), only the "sum"
        (of epsilons), or "either". Raises `InvalidParameter` for an unknown `keep`.
        """
        if keep not in get_args(Keep):
            raise InvalidParameter(f"keep must be one of {', '.join(get_args(Keep))}, not {keep!r}")
        wallet = Wallet.for_promise(epsilon=epsilon, delta=delta, failure_share=failure_share)
        return cls(wallet.size, wallet.loss_limit, wallet.failure_limit, keep)

    def lines(self) -> dict[str, int]:
        """Return the size of each balance of the cap (a dataset's joint budget) in units, by the balance's name.

        The balances "wallet" (mu squared), "sum" (of epsilons) and "failure" (the probability of outright failures,
        which may reveal everything) have 2^60 units each, or 0 if the cap does not pay from them.

        The balance "rule" is no budget. A cap that begins with both "wallet" and "sum" can drop one of them for good,
        and "rule" then has 3 units: dropping "sum" takes 2, and dropping "wallet" takes 3. So the database, which lets
        no balance be overdrawn, never lets both be dropped. A cap that began with only one of the two has 0 units of
        "rule".
        """
        # Dropping the wallet costs 3 units of the balance "rule", and dropping the sum 2, so that only one can be
        # dropped.
        return {
            FAILURE: UNITS if self.failure else 0,
            RULE: int(Rule.SUM) if self.keep == "either" else 0,
            SUM: 0 if self.keep == "wallet" else UNITS,
            WALLET: 0 if self.keep == "sum" else UNITS,
        }

    def rule_of(self, units: int) -> Rule:
        """Return which balances of the cap (a dataset's joint budget) still pay: "wallet" (mu squared), "sum", or both.

        A cap begins with both and can drop one of them for good. Its balance "rule" records this: `units` are the units
        spent from that balance, 0 if nothing was dropped, 2 if the sum of epsilons was, and 3 if the wallet was. For a
        cap that was set to pay from one balance only (`keep`), `units` are ignored.
        """
        # If the cap began with one of the two balances, nothing can be dropped, and `units` are ignored.
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
        """Return how many units of each balance an account's slice of the cap pays for `uses`; None if it has too few.

        A slice is the part of the cap (a dataset's joint budget) that is reserved for one account.

        - `uses` lists privacy guarantees and how often each is used.
        - `slice_units` maps each balance to the units of it in the slice; a full balance of the cap has 2^60 units.
        - `rule` says which of the cap's balances pay: the wallet (mu squared), the sum of epsilons, or both.

        Theorem: docs/optimal-composition.md, "Slices".
        """
        costs, wallet = self._costs(uses), slice_units.get(WALLET, 0)
        price = costs.fixed_costs(rule)
        if rule is not Rule.SUM:
            # All uses are priced by what remains in the slice after all of them, so the price is enough for any order.
            price[WALLET] = next(
                (units for balance_after, units in costs.prices if balance_after + units <= wallet), wallet + 1
            )
        return (
            price if all(units <= slice_units.get(balance_name, 0) for balance_name, units in price.items()) else None
        )

    def accepts(
        self, uses: Sequence[Use], slice_units: Mapping[str, int], price: Mapping[str, int], rule: Rule
    ) -> bool:
        """Return whether `price`, the recorded payment of an account's slice for `uses`, is valid; for verification.

        A cap is the joint budget of a dataset's accounts, and a slice is the part of the cap that is reserved for one
        account. A full balance of the cap has 2^60 units.

        - `uses` lists the privacy guarantees that were paid for, and how often each.
        - `slice_units` maps each balance to the units in the slice before the payment.
        - `price` maps each balance to the units that were paid.
        - `rule` says which of the cap's balances pay: the wallet (mu squared), the sum of epsilons, or both.

        From the balances other than the wallet, the slice must have paid exactly what `uses` cost. In the wallet,
        `uses` cost more if less remains in the slice after the payment. Prices are computed for at most 41 levels of
        what remains; the price of a level may be paid if at least this level remains. So the payment from the wallet
        must be the price of one of these levels, and leave at least this level in the slice. A rounding error is
        allowed, because another machine may have computed the price.
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
        """Return whether an account's slice is large enough to pay for `uses` at nearly the lowest price.

        A slice is the part of the cap (a dataset's joint budget) that is reserved for one account. The price in the
        wallet (the balance of mu squared) is lowest if the cap is full, and rises as less remains in the slice. True
        means that this price is at most 2% above the lowest. If it is False, the caller moves more of the cap into the
        slice first.

        - `uses` lists privacy guarantees and how often each is used.
        - `price` maps each balance to the units that the slice would pay now; a full balance of the cap has 2^60 units.
          Balances other than the wallet are ignored, because they charge the same in every slice.
        """
        return price.get(WALLET, 0) <= self._costs(uses).well

    def refill_amounts(
        self, uses: Sequence[Use], slice_units: Mapping[str, int], free: Mapping[str, int], rule: Rule
    ) -> dict[str, int]:
        """Return how many units of each balance to move into an account's slice, so that the slice can pay for `uses`.

        A cap is the joint budget of a dataset's accounts, and a slice is the part of the cap that is reserved for one
        account. A full balance of the cap has 2^60 units.

        - `uses` lists privacy guarantees and how often each is used.
        - `slice_units` maps each balance to its units in the slice now.
        - `free` maps each balance to its units that are in no slice.
        - `rule` says which of the cap's balances pay: the wallet (mu squared), the sum of epsilons, or both.

        The price of `uses` in the wallet depends on what the payment leaves in the slice: the more it leaves, the lower
        the price. The slice should have enough units that its price is at most 2% above the lowest price. If it has too
        few units of a balance, it gets the missing units and, so that not every charge needs a refill, a 16th of the
        free units on top. If fewer units are free, it gets all of these. The slice may then still be too small; the
        caller finds out with `pay`.
        """
        wanted = self.needs(uses, rule)
        if WALLET in wanted:
            costs = self._costs(uses)
            roomy = [balance_after + units for balance_after, units in costs.prices if units <= costs.well]
            # Uses cost more from a smaller slice, so take enough for a price at most 2% above that of the whole cap.
            wanted[WALLET] = max(wanted[WALLET], min(roomy, default=0))
        lacking = {balance_name: units - slice_units.get(balance_name, 0) for balance_name, units in wanted.items()}
        refill = {
            balance_name: min(free[balance_name], units + free[balance_name] // _REFILL_SHARE)
            for balance_name, units in lacking.items()
            if units > 0
        }
        return {balance_name: units for balance_name, units in refill.items() if units}

    def needs(self, uses: Sequence[Use], rule: Rule) -> dict[str, int]:
        """Return how many units of each balance a slice must have at least to pay for `uses`.

        A slice is the part of the cap (a dataset's joint budget) that is reserved for one account. `uses` lists privacy
        guarantees and how often each is used. `rule` says which of the cap's balances pay: the wallet (mu squared), the
        sum of epsilons, or both. A full balance of the cap has 2^60 units, so a result above 2^60 means that no slice
        can pay for `uses`.
        """
        costs = self._costs(uses)
        wanted = costs.fixed_costs(rule)
        if rule is not Rule.SUM:
            wanted[WALLET] = min((balance_after + units for balance_after, units in costs.prices), default=UNITS + 1)
        return wanted

    def rule_for(self, uses: Sequence[Use], remaining: Mapping[str, int], rule: Rule) -> Rule | None:
        """Return which balances of the cap (a dataset's joint budget) would still pay after a payment for `uses`.

        - `uses` lists privacy guarantees and how often each is used.
        - `remaining` maps each balance to the units that remain in it; a full balance of the cap has 2^60 units.
        - `rule` says which balances pay now: "wallet" (mu squared), "sum" (of epsilons) or both.

        A balance that cannot pay for `uses` is dropped for good. So the result is `rule` if every balance that pays now
        can pay for `uses`. If only one balance can pay, the result is this balance. If none can, or too little remains
        for the probability of outright failure (which may reveal everything), it is None.
        """
        within = {
            balance_name: units <= remaining[balance_name] for balance_name, units in self.needs(uses, rule).items()
        }
        by_wallet, by_sum = within.get(WALLET, False), within.get(SUM, False)
        if not within[FAILURE] or not (by_wallet or by_sum):
            return None
        return rule if by_wallet and by_sum else Rule.WALLET if by_wallet else Rule.SUM

    def shortage(self, uses: Sequence[Use], remaining: Mapping[str, int], rule: Rule) -> str | None:
        """Return text about all that the cap (a dataset's joint budget) lacks to pay for `uses`; None if it can pay.

        `uses` lists privacy guarantees and how often each is used. `remaining` maps each balance of the cap to the
        units that remain in it (2^60 units are the full balance), and `rule` says which balances pay: "wallet" (mu
        squared), "sum" (of epsilons) or both.
        """
        if self.rule_for(uses, remaining, rule) is not None:
            return None
        needed = self.needs(uses, rule)
        sentences = []
        if needed[FAILURE] > remaining[FAILURE]:
            sentences.append(failure_shortage(uses, worth_below(remaining[FAILURE], self.failure)))
        if all(units > remaining[balance_name] for balance_name, units in needed.items() if balance_name != FAILURE):
            wallet = 0.0 if rule is Rule.SUM else worth_below(remaining[WALLET], self.wallet)
            summed = 0.0 if rule is Rule.WALLET else worth_below(remaining[SUM], self.limit)
            sentences.append(balance_shortage(uses, wallet, summed))
        return "; ".join(sentences)

    def rule_ended_by(self, uses: Sequence[Use], remaining: Mapping[str, int], rule: Rule) -> Rule | None:
        """Return the balance that the cap (joint budget) would give up for good by paying for `uses`, or None.

        The cap pays each charge from two balances at once: "wallet" (mu squared) and "sum" (of epsilons). If only one
        of them has enough for a charge, the other is given up and never pays again. `Account.warning` says so before a
        charge.

        - `uses` lists privacy guarantees and how often each is used.
        - `remaining` maps each balance to the units that remain in it; a full balance of the cap has 2^60 units.
        - `rule` says which balances pay now: the wallet, the sum, or both.

        Returns None if no balance would be given up, or if the cap cannot pay for `uses` at all.
        """
        after = self.rule_for(uses, remaining, rule)
        if after is None or after is rule:
            return None
        return Rule.WALLET if after is Rule.SUM else Rule.SUM

    def _costs(self, uses: Sequence[Use]) -> "_Costs":
        """Return what `uses` cost in each balance of this cap, a dataset's joint budget.

        `uses` lists guarantees and how often each is used. The costs are in units; a full balance of the cap has 2^60
        units. The result is cached, because computing the prices in the wallet (the balance of mu squared) takes long.
        """
        return _costs_of(self, tuple(uses))

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return the probability of outright failure of all that the cap (joint budget) has paid for, as a `Spent`.

        An outright failure may reveal everything; its probability is rounded up. `amounts` maps each balance to the
        units spent from it; a full balance of the cap has 2^60 units.

        A `Spent` has a zCDP rho too, which a cap does not record (`rho_drawn` in status.py computes it from the
        accounts). The rho of the result is therefore infinite, or 0 if the cap's Gaussian wallet (a budget in mu
        squared) has paid nothing.
        """
        return Spent(math.inf if amounts[WALLET] else 0.0, worth_above(amounts[FAILURE], self.failure))

    def loss_sum(self, amounts: Mapping[str, int]) -> float:
        """Return the sum of the largest privacy losses (epsilons) of all charges that the cap has paid.

        The cap is a dataset's joint budget; the sum is rounded up. `amounts` maps each balance to the units spent from
        it; a full balance of the cap has 2^60 units. A cap that pays from its Gaussian wallet (mu squared) alone does
        not record the sum: the result is then infinite, or 0 if nothing was spent.
        """
        if self.rule_of(amounts[RULE]) is not Rule.WALLET:
            return worth_above(amounts[SUM], self.limit)
        return math.inf if any(amounts.values()) else 0.0

    def as_uses(self) -> tuple[Use, ...]:
        """Return two uses that stand for the whole budget of the cap (a dataset's joint budget) when it is composed.

        The uses are Gaussian noise of the cap's mu^2, and (0, `failure`)-DP, where `failure` is the cap's limit on the
        probability of outright failures (which may reveal everything). The second is left out if `failure` is 0.
        Together they reveal at least as much as everything that the cap can pay for.
        """
        return wallet_as_uses(self.wallet, self.failure)

    @property
    def price_depends_on_balance(self) -> bool:
        """Whether a price depends on what remains of the cap (a dataset's joint budget) after the payment: True.

        Most guarantees cost more of the wallet (mu squared) if less remains in it afterwards.
        """
        return True

    @property
    def most_rho(self) -> float:
        """The zCDP rho of one Gaussian mechanism with the cap's mu squared: mu^2 / 2.

        About this much rho is spent when the cap (a dataset's joint budget) is used up. The odometer (a bound on the
        epsilon spent so far) takes this number as a parameter. It is valid for any spent rho, and tight for a spent rho
        up to this number.
        """
        return self.wallet / 2

    def paying(self, amounts: Mapping[str, int]) -> tuple[str, ...]:
        """Return which balances of the cap (a dataset's joint budget) pay for a charge: "wallet", "sum", or both.

        "wallet" pays in mu squared, and "sum" in epsilons. If the result has both, every charge takes units from both.
        When one of them cannot pay for a charge, the cap drops it for good, and only the other pays from then on.
        `amounts` maps each balance to the units spent from it. Its entry "rule" records which balance was dropped.
        """
        return {Rule.BOTH: (WALLET, SUM), Rule.WALLET: (WALLET,), Rule.SUM: (SUM,)}[self.rule_of(amounts[RULE])]

    def spent_as(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return at most two guarantees whose composition bounds the privacy loss of all that the cap has paid for.

        The cap is a dataset's joint budget. One guarantee is Gaussian noise with the spent mu^2, or pure DP with the
        spent sum of epsilons if only this sum still pays. The other is (0, delta)-DP for outright failures (which may
        reveal everything), where delta is the probability of failure that was paid for. `amounts` maps each balance to
        the units spent from it; a full balance of the cap has 2^60 units.
        """
        failed = worth_above(amounts[FAILURE], self.failure)
        if self.rule_of(amounts[RULE]) is Rule.SUM:
            return spent_of_sum(worth_above(amounts[SUM], self.limit), failed)
        return spent_of_wallet(worth_above(amounts[WALLET], self.wallet), failed)

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return the most that the cap (a dataset's joint budget) can still pay for, as at most two guarantees.

        - The first is Gaussian noise with the mu squared that remains. If the cap pays only from its sum of epsilons,
          it is pure DP with the epsilon that remains.
        - The second is (0, delta)-DP, for outright failures (which may reveal everything). Its delta is the probability
          of failure that remains.

        A guarantee is left out if nothing remains for it. `amounts` maps each balance, such as "wallet", to the units
        that remain in it. A full balance of the cap has 2^60 units, so 2^59 units are half of its limit.
        """
        by_sum = self.rule_of(self.lines()[RULE] - amounts[RULE]) is Rule.SUM
        return largest_of_wallet(
            0.0 if by_sum else worth_below(amounts[WALLET], self.wallet),
            worth_below(amounts[SUM], self.limit) if by_sum else 0.0,
            worth_below(amounts[FAILURE], self.failure),
        )


@dataclass(frozen=True, slots=True)
class _Costs:
    """The cost of some privacy guarantees to a cap (a dataset's joint budget), in units; a full balance has 2^60 units.

    - `failure` is the cost in the balance for outright failures (which may reveal everything): the probability that the
      guarantees fail.
    - `summed` is the cost in the balance for sums of epsilons: the sum of the largest losses. It is above 2^60, so that
      no cap can pay, if a loss is unbounded.
    - `prices` has the cost in the wallet (mu squared), which is higher if less remains after the payment. It lists
      pairs (units that remain, price), from many remaining units down to 0. It is empty if a guarantee has no finite
      price.
    - `well` is 102% of the lowest price, which a full wallet would pay. An account pays from its slice, a part of the
      cap that is reserved for it. If so little is in the slice that the price would exceed `well`, the slice is
      refilled first.
    - `rounding` is by how much a price may differ between two platforms, because their math libraries round
      differently.
    """

    failure: int
    summed: int
    prices: tuple[tuple[int, int], ...]
    well: int
    rounding: int

    def fixed_costs(self, rule: Rule) -> dict[str, int]:
        """Return what these guarantees take from the cap's balances other than the wallet, in units.

        "failure" takes the probability that the guarantees fail outright (and may reveal everything), and "sum" the sum
        of their largest losses (epsilons). "sum" is left out if `rule` says that the cap pays only from its wallet. A
        full balance has 2^60 units. These costs are fixed, while the price in the wallet (mu squared) depends on what
        remains in the wallet.
        """
        return {FAILURE: self.failure} if rule is Rule.WALLET else {FAILURE: self.failure, SUM: self.summed}


@lru_cache(maxsize=4096)
def _costs_of(cap: CapTotals, uses: tuple[Use, ...]) -> _Costs:
    """Return what `uses` (privacy guarantees and how often each is used) cost in each balance of `cap`, in units.

    The cap is a dataset's joint budget, with the balances "failure", "sum" and "wallet" (mu squared). A full balance
    has 2^60 units. In the wallet the same uses have a higher price if less remains afterwards: the price plus what
    remains must be the mu squared of a Gaussian that dominates the uses followed by a Gaussian of what remains. So the
    result has a list of at most 41 pairs (units that remain, price in units). The caller pays a price for which at
    least the stated units remain afterwards. The result is cached.
    """
    wallet = cap.wallet
    # The wallet's price depends on the balance after the uses. It is computed for w 2^(-i/2), i = 1 to 40, where w is
    # the whole wallet, and for 0.
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
    """Return the exact sum of the prices of `uses` in a Gaussian wallet, in mu^2; None if a price is infinite.

    A Gaussian wallet is a budget in mu^2. A price is higher if less remains in the wallet; `level` is the mu^2 that
    remains after all `uses` (privacy guarantees and how often each is used) are paid.
    """
    total = Fraction(0)
    for use in uses:
        price = use.guarantee.price(level)
        if price == math.inf:
            return None
        total += use.count * Fraction(price)
    return total


def _platform_dependent_price(use: Use) -> Fraction:
    """Return the highest price (in mu^2) that `use` can have in a Gaussian wallet; 0 if its price is fixed or infinite.

    A use is a guarantee, and how often it is used. It costs more the less remains in the wallet after it, so its
    highest price is the one at which nothing remains. Such prices are computed with functions that platforms round
    differently. When the ledger is verified on another platform, a stored price may therefore differ by 2^-48 of this
    highest price.
    """
    # Other prices are computed with functions that platforms round differently; the accepted difference is a share of
    # this price.
    price = use.guarantee.price(0.0) if use.guarantee.price_varies else 0.0
    return use.count * Fraction(price) if price < math.inf else Fraction(0)

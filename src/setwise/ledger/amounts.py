"""Amounts of budgets as whole numbers of units (2^60 for a whole budget), so that no sum of charges is ever rounded.

A budget has several named balances: the zCDP parameter rho, a Gaussian wallet (mu squared), the sum of largest losses
(epsilon), and the probability of outright failure (which may reveal everything). Each full balance is `UNITS` = 2^60
units. A charge is rounded up, and a remaining balance down. SQLite and PostgreSQL hold such integers exactly.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from setwise.accounting.brackets import cover_rounding, down, float_above, float_below, up
from setwise.accounting.checks import SMALLEST_EPSILON
from setwise.accounting.guarantees import (
    ApproxDP,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    Laplace,
    PureDP,
    Use,
    ZeroConcentratedDP,
    total_loss,
)
from setwise.accounting.prices import after_paying, wallet_before
from setwise.accounting.promises import rounded_down, rounded_up
from setwise.accounting.wallet import FAILURE_SHARE, SMALLEST_WALLET, Wallet, gaussian_of, wallet_shortage
from setwise.accounting.zcdp_filter import Spent, ZcdpFilter, filter_parameters
from setwise.errors import Unattainable

UNITS = 2**60
"""Units in one full balance: a charge is stored as a whole number of 2^-60 parts of the balance's budget."""

RHO = "rho"
FAILURE = "failure"
WALLET = "wallet"
SUM = "sum"

_DIGITS = 4


class BudgetTotals(Protocol):
    """The budget of an account, or of a cap (the joint budget of a dataset's accounts): the size of each balance.

    A balance is an amount of one kind of privacy loss, such as "wallet" (mu squared) or "sum" (epsilons). It is counted
    in whole units; for most balances, 2^60 units stand for the limit of the budget on this kind of loss.

    Spent units are stored in the ledger and not here. So methods get them as `amounts`, which maps each balance to the
    units spent from it. Only in the method `largest`, `amounts` has the units that remain.
    """

    # Implemented by `Totals` (sums of zCDP), `WalletTotals` (a Gaussian wallet), `MenuTotals` (a fixed list of uses
    # with costs) and `CapTotals` (a wallet of which accounts reserve slices).
    @property
    def failure(self) -> float:
        """The limit on the probability that any charge to the budget fails outright, which may reveal everything."""
        ...

    @property
    def most_rho(self) -> float:
        """The largest zCDP rho that all charges to this budget can have together, at least approximately.

        The odometer, a bound on the privacy loss so far, takes this number as a parameter. The bound holds whatever the
        number is, but is tight only as long as the rho spent is not above it.
        """
        ...

    @property
    def price_depends_on_balance(self) -> bool:
        """Whether the price of a privacy guarantee depends on how much is left, and therefore on earlier charges."""
        ...

    def lines(self) -> dict[str, int]:
        """Return the size of each named balance when nothing is spent, in units; a balance of size 0 pays nothing.

        Most balances have 2^60 units, which together are the whole limit, such as all of the wallet's mu squared. Two
        balances are different:

        - "menu" belongs to an account with a fixed list of uses, whose prices are whole numbers of its units.
        - "rule" pays for nothing. It records which of the two balances of a cap (a dataset's joint budget) was dropped:
          this takes 2 units for one of them and 3 for the other. "rule" has 3 units, so that not both can be dropped,
          or 0 units if nothing can be dropped.
        """
        ...

    def paying(self, amounts: Mapping[str, int]) -> tuple[str, ...]:
        """Return the names of the balances that can pay for a charge, such as ("wallet", "sum") or ("rho",).

        "wallet" pays in mu squared, "sum" in epsilons, and "rho" in zCDP. With two names, a charge is accepted as long
        as one of these balances can pay; the other may be empty. Probabilities of failure are paid from a further
        balance, which is not in the result. An account's status computes the remaining share of the budget from these
        balances.

        `amounts` maps each balance to the units that were spent from it. A full balance has 2^60 units, except "menu"
        and "rule" (see `lines`).
        """
        ...

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return the zCDP rho and the probability of outright failure of all charges so far, each rounded up.

        An outright failure is an event in which everything may be revealed. `amounts` maps each balance, such as "rho",
        to the units spent from it. A full balance has 2^60 units, except "menu" and "rule" (see `lines`).
        """
        ...

    def loss_sum(self, amounts: Mapping[str, int]) -> float:
        """Return the sum of the largest privacy losses (epsilons) of all charges so far, rounded up.

        `amounts` maps each balance, such as "sum", to the units spent from it. The result is infinity if the sum is
        unknown: if this kind of budget does not record it, or if the charges exceed the balance that records it.
        """
        # Unknown if this kind of budget does not record the sum, or if a charge was larger than the balance that
        # records it.
        ...

    def spent_as(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return uses (privacy guarantees with counts) whose composition bounds the privacy loss of all charges so far.

        People are shown these instead of units. `amounts` maps each balance, such as "wallet", to the units spent from
        it. A full balance has 2^60 units, except "menu" and "rule" (see `lines`).

        The tuple is empty if nothing was spent. It is also empty for an account with a menu (a fixed list of
        guarantees) whose charges have used up the balance "rho": this balance records the zCDP of charges, so their
        zCDP is then unknown.
        """
        ...

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return what the rest of the budget can still pay for, as privacy guarantees with counts; () if for nothing.

        The guarantees are the weakest that the rest allows, so those with the largest parameters, such as the largest
        mu, and the budget can pay for all of them together. `amounts` maps each balance, such as "wallet", to the units
        that remain in it. A full balance has 2^60 units. Two balances have other units: "menu" has the units in which a
        menu account counts its fixed costs, and "rule" has 3, of which dropping a rule takes 2 or 3.
        """
        ...

    def as_uses(self) -> tuple[Use, ...]:
        """Return uses (privacy guarantees with counts) that together bound the loss of all that the budget can pay for.

        The bound is that of their composition. The uses stand for the budget when it is composed with other budgets.
        """
        ...


class AccountTotals(BudgetTotals, Protocol):
    """The budget of an account, which can say what a charge takes from each balance (the price of the charge).

    The budget of a cap, a dataset's joint budget, cannot always say this. An account may pay from its slice, the part
    of the cap that is reserved for it; the price then depends on what is left in the slice, not only on the cap.
    """

    def price(self, uses: Sequence[Use], spent: Mapping[str, int]) -> dict[str, int]:
        """Return the units that `uses` take from each balance, by the balance's name.

        `uses` lists privacy guarantees and how often each is used. For example, {"rho": 2^58, "failure": 0} takes a
        quarter of the limit on rho, because a full balance has 2^60 units. Only a balance "menu", of an account with a
        fixed list of uses, has another size: each use on the list has a price in whole units of it.

        `spent` maps each balance to the units spent from it before. If the budget cannot pay, some amount in the result
        is larger than the units that remain in its balance, so that the database refuses the charge.
        """
        ...

    def shortage(self, uses: Sequence[Use], spent: Mapping[str, int]) -> str | None:
        """Return a sentence about what is missing to pay for `uses`, or None if the budget can pay for them.

        `uses` lists privacy guarantees and how often each is used. `spent` maps each balance, such as "wallet", to the
        units spent from it. A full balance has 2^60 units, except "menu" and "rule" (see `lines`).
        """
        ...


@dataclass(frozen=True, slots=True)
class Totals:
    """The budget of an account, or of a cap (a dataset's joint budget), that adds up zCDP parameters: a zCDP filter.

    - `rho` is the most that the zCDP parameters rho of all charges may add up to.
    - `failure` is the most that the probabilities of outright failures (which may reveal everything) may add up to.
    """

    rho: float
    failure: float

    def lines(self) -> dict[str, int]:
        """Return the size in units of each balance of this zCDP budget: 2^60, or 0 if its limit is 0.

        The balances are "rho" and "failure" (the probability of an outright failure, which may reveal everything).
        """
        return {FAILURE: UNITS if self.failure else 0, RHO: UNITS if self.rho else 0}

    def price(self, uses: Iterable[Use], spent: Mapping[str, int]) -> dict[str, int]:  # noqa: ARG002 - as of wallets
        """Return the units that `uses` take from the balances "rho" and "failure", by the balance's name.

        `uses` lists privacy guarantees and how often each is used. The price is rounded up, and does not depend on
        `spent`. A price above 2^60 units, a full balance, is cut to 2^60 + 1 units, which the database refuses as well.
        Theorem: WhitehouseRaRoWu23.
        """
        rho, failure = zcdp_sums(uses)
        return {FAILURE: whole_units(failure, self.failure), RHO: whole_units(rho, self.rho)}

    def shortage(self, uses: Sequence[Use], spent: Mapping[str, int]) -> str | None:
        """Return a sentence about the rho or failure probability that is missing to pay for `uses`, or None if none is.

        `uses` lists privacy guarantees and how often each is used. `spent` maps "rho" and "failure" to the units spent
        so far; 2^60 units of "rho" are the whole limit `rho`, and 2^60 units of "failure" the whole limit `failure`.
        """
        remaining = {balance_name: total - spent.get(balance_name, 0) for balance_name, total in self.lines().items()}
        price, (rho, failure), available_uses = (
            self.price(uses, spent),
            zcdp_sums(uses),
            filter_parameters(self.largest(remaining)),
        )
        sentences = [
            f"it needs a {parameter} of {rounded_up(needed, _DIGITS)}, and {rounded_down(available, _DIGITS)} is left"
            for balance_name, parameter, needed, available in (
                (RHO, "rho", up(float(rho)), available_uses.rho),
                (FAILURE, "failure probability", up(float(failure)), available_uses.failure_sum),
            )
            if price[balance_name] > remaining[balance_name]
        ]
        return "; ".join(sentences) or None

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return the zCDP rho and the probability of outright failure of all charges so far, each rounded up.

        An outright failure is an event in which everything may be revealed. `amounts` maps the balances "rho" and
        "failure" to the units spent from them; a full balance has 2^60 units.
        """
        return Spent(worth_above(amounts[RHO], self.rho), worth_above(amounts[FAILURE], self.failure))

    @property
    def most_rho(self) -> float:
        """The zCDP rho of all charges together when the budget is used up: the field `rho`, the limit on their sum.

        The odometer (a bound on the epsilon spent so far) takes this number as a parameter. It is valid for any spent
        rho, and tight for a spent rho up to this number.
        """
        return self.rho

    @property
    def price_depends_on_balance(self) -> bool:
        """Whether the price of a use depends on earlier charges: False, because zCDP parameters add up."""
        return False

    def paying(self, amounts: Mapping[str, int]) -> tuple[str, ...]:  # noqa: ARG002 - part of BudgetTotals
        """Return ("rho",), the name of the only balance that pays for uses in a zCDP filter; `amounts` is ignored."""
        return (RHO,)

    def loss_sum(self, amounts: Mapping[str, int]) -> float:
        """Return 0 if nothing was spent, and infinity otherwise, because a zCDP filter does not record largest losses.

        `amounts` maps each balance to the units spent from it; a full balance has 2^60 units.
        """
        return math.inf if any(amounts.values()) else 0.0

    def as_uses(self) -> tuple[Use, ...]:
        """Return one use, with a zCDP guarantee and a failure probability, that stands for the whole budget.

        The use reveals as much as everything that the budget can pay for. It takes the place of the account when the
        budget is composed with other budgets.
        """
        return (Use(ZeroConcentratedDP(rho=self.rho, delta=self.failure)),)

    def spent_as(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return one zCDP guarantee that bounds what all charges so far reveal, as a tuple; () if nothing was spent.

        The rho of the guarantee is the sum of the charges' rhos. Its delta is the sum of the probabilities that the
        charges fail outright, which may reveal everything. `amounts` maps "rho" and "failure" to the units spent from
        these balances; their 2^60 units each stand for the fields `rho` and `failure`, the limits of this budget.
        """
        worth = self.worth(amounts)
        return (
            (Use(ZeroConcentratedDP(rho=worth.rho, delta=worth.failure_sum)),) if worth.rho or worth.failure_sum else ()
        )

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return the largest zCDP guarantee that the rest of this budget can pay, as a tuple of one use; () if none.

        `amounts` maps the balances "rho" and "failure" to the units that remain. 2^60 units are the whole limit of a
        balance (the field of the same name), so 2^59 units of "rho" pay for a guarantee with half of `rho`.
        """
        rho, failure = worth_below(amounts[RHO], self.rho), worth_below(amounts[FAILURE], self.failure)
        return (Use(ZeroConcentratedDP(rho=rho, delta=failure)),) if rho or failure else ()


@dataclass(frozen=True, slots=True)
class WalletTotals:
    """The budget of an account with a Gaussian wallet (a budget in mu squared): one limit for each balance.

    - `wallet` limits payments in mu squared: together they reveal no more than one Gaussian mechanism with this mu^2.
    - `limit` is an epsilon: charges that the wallet cannot pay are still accepted while the largest losses of all
      charges add up to at most `limit`.
    - `failure` limits the probability that any mechanism fails outright, which may reveal everything.
    - `rho` is the zCDP rho that a full balance "rho" stands for. This balance only records the rho of the charges, and
      never refuses a charge.

    Each float counts with its exact binary value: a unit of a balance is exactly 2^-60 of the limit.
    """

    wallet: float
    limit: float
    failure: float
    rho: float

    def lines(self) -> dict[str, int]:
        """Return the size of each balance of the budget in units: 2^60, or 0 if nothing may be spent from it.

        A full balance of 2^60 units stands for the limit in this object's field:
        - "failure": `failure`, a probability of outright failure (which may reveal everything)
        - "rho": `rho`, a zCDP parameter
        - "sum": `limit`, a sum of largest privacy losses (epsilons)
        - "wallet": `wallet`, a mu squared
        """
        totals = {FAILURE: self.failure, RHO: self.rho, SUM: self.limit, WALLET: self.wallet}
        return {balance_name: UNITS if total else 0 for balance_name, total in totals.items()}

    def as_uses(self) -> tuple[Use, ...]:
        """Return the whole budget as two guarantees: Gaussian noise of the wallet's mu^2, and (0, `failure`)-DP.

        `failure` is the budget's limit on the probability of outright failures (which may reveal everything); if it is
        0, the second guarantee is left out. The guarantees are used to compose the budget with other budgets.
        """
        return wallet_as_uses(self.wallet, self.failure)

    def price(self, uses: Sequence[Use], spent: Mapping[str, int]) -> dict[str, int]:
        """Return the units that `uses` take from each balance, by the balance's name.

        `uses` lists privacy guarantees and how often each is used. There are two ways to pay: from the balance "wallet"
        (of mu squared), and from the balance "sum" (of largest losses). Each charge takes units from both balances, as
        long as both can pay. If only one of the two can pay for `uses`, the other no longer counts all charges; so all
        that remains in it is taken, and it never pays again. If neither can pay, the returned price exceeds the wallet,
        so that the database refuses the charge.

        `spent` maps each balance to the units spent from it before; a full balance has 2^60 units.
        Theorem: docs/optimal-composition.md, Theorem 7, and "The sum of epsilons counts too".
        """
        remaining = {balance_name: total - spent.get(balance_name, 0) for balance_name, total in self.lines().items()}
        rho, failure = zcdp_sums(uses)
        amounts = {FAILURE: whole_units(failure, self.failure), RHO: min(whole_units(rho, self.rho), remaining[RHO])}
        after, summed = self._after_paying(uses, remaining[WALLET]), self._loss_units(uses)
        within = summed is not None and summed <= remaining[SUM]
        if after is None and not within:
            return {**amounts, WALLET: remaining[WALLET] + 1}
        amounts[WALLET] = remaining[WALLET] if after is None else remaining[WALLET] - after
        amounts[SUM] = summed if summed is not None and within else remaining[SUM]
        return amounts

    def covers(self, uses: Sequence[Use], remaining: int, price: int) -> bool:
        """Return whether `price` units of the wallet (mu squared) are enough to pay for `uses`.

        `uses` lists privacy guarantees and how often each is used. `remaining` are the wallet's units before the
        payment; a full wallet has 2^60 units. Verification calls this for the price that the ledger recorded with a
        charge. It does not ask whether the recorded price equals the price that this machine computes, because another
        machine, which rounds otherwise, may have computed it.
        """
        # Every price has a margin, which is larger than the difference between the math libraries of two platforms. So
        # a payment that another platform computed is enough here, too.
        fixed = [use for use in uses if isinstance(use.guarantee, Gaussian)]
        varied = [use for use in uses if not isinstance(use.guarantee, Gaussian)]
        before, after = Fraction(self.wallet) * remaining / UNITS, worth_below(remaining - price, self.wallet)
        if len(varied) == 1:
            needed = wallet_before(varied[0].guarantee.price, varied[0].count, after)
        else:
            needed = wallet_before(lambda v: math.fsum(use.count * use.guarantee.price(v) for use in varied), 1, after)
        if needed == math.inf:
            return False
        return Fraction(needed) + sum(use.count * Fraction(use.guarantee.price(0.0)) for use in fixed) <= before

    def _after_paying(self, uses: Sequence[Use], remaining: int) -> int | None:
        """Return the units of the wallet that remain after the wallet pays for `uses`; None if it cannot pay.

        The wallet is a budget in mu squared: its 2^60 units stand for the field `wallet`, the mu squared of a full
        wallet. `remaining` are the units before the payment. `uses` lists privacy guarantees and how often each is
        used. The result is valid in whatever order the mechanisms run.
        """
        fixed = [use for use in uses if isinstance(use.guarantee, Gaussian)]
        varied = [use for use in uses if not isinstance(use.guarantee, Gaussian)]
        # A Gaussian use costs the same at every balance; any other use costs more the less remains after it. So the
        # Gaussian uses are paid first, and others of several kinds are priced by what remains after all of them.
        worth = worth_below(remaining, self.wallet)
        for use in fixed:
            worth = down(worth - use.count * use.guarantee.price(0.0) * (1 + 4e-16))
        if worth < 0.0:
            return None
        after: float | None = worth
        if len(varied) == 1:
            after = after_paying(varied[0].guarantee.price, varied[0].count, worth)
        elif varied:
            after = after_paying(lambda v: math.fsum(use.count * use.guarantee.price(v) for use in varied), 1, worth)
        return None if after is None else min(remaining, math.floor(Fraction(after) * UNITS / Fraction(self.wallet)))

    def _loss_units(self, uses: Sequence[Use]) -> int | None:
        """Return what `uses` take from the balance "sum": the sum of their largest privacy losses (epsilons), in units.

        2^60 units are the sum of epsilons that the account may spend, which is the field `limit`. The result is rounded
        up. It is None if the loss of a use is unbounded. `uses` lists privacy guarantees and how often each is used.
        """
        total = total_loss((use.guarantee, use.count) for use in uses)
        return None if total is None else whole_units(total, self.limit)

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return the zCDP rho and the probability of outright failure of all charges so far, each rounded up.

        An outright failure is an event in which everything may be revealed. `amounts` maps each balance to the units
        spent from it; a full balance has 2^60 units. The balance "rho" records the rho of the charges and refuses none.
        If it is used up, rho is unknown, and infinite in the result.
        """
        return Spent(recorded_sum(amounts[RHO], self.rho), worth_above(amounts[FAILURE], self.failure))

    @property
    def most_rho(self) -> float:
        """The zCDP rho of one Gaussian mechanism that uses up the whole wallet: half of the wallet's mu squared.

        The odometer (a bound on the epsilon spent so far) has this number as a parameter: the odometer is valid for any
        spent rho, and tight for any spent rho up to this number.
        """
        return self.wallet / 2

    @property
    def price_depends_on_balance(self) -> bool:
        """Whether the price of a privacy guarantee depends on earlier charges: True.

        Most guarantees cost more of the wallet (mu squared) if less remains in it afterwards.
        """
        return True

    def paying(self, amounts: Mapping[str, int]) -> tuple[str, ...]:  # noqa: ARG002 - part of BudgetTotals
        """Return ("wallet", "sum"), the names of the two balances that pay, even if one of them is empty.

        "wallet" pays in mu squared, and "sum" in epsilons. An account's status computes the remaining share of the
        budget from them. `amounts` is ignored.
        """
        return WALLET, SUM

    def loss_sum(self, amounts: Mapping[str, int]) -> float:
        """Return the sum of the largest privacy losses (epsilons) of all charges so far, rounded up, or infinity.

        `amounts` maps each balance to the units spent from it. The balance "sum" records the sum: its 2^60 units stand
        for the epsilon `limit`, a field of this budget. A charge that does not fit into "sum" uses up this balance. The
        sum is then unknown, and the result is infinity. If `limit` is 0, nothing records the sum: the result is
        infinity, or 0 if nothing was spent.
        """
        # A charge larger than the balance "sum" takes all of it, so an empty balance says nothing about the sum.
        # Without a `limit` there is no such balance.
        if self.limit and amounts[SUM] < UNITS:
            return worth_above(amounts[SUM], self.limit)
        return math.inf if any(amounts.values()) else 0.0

    def spent_as(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return at most two guarantees whose composition bounds the privacy loss of everything paid so far.

        One is Gaussian noise with the spent mu^2 or, if mu^2 is used up, pure DP with the spent sum of epsilons. The
        other is (0, delta)-DP with the spent failure probability. `amounts` maps each balance to the units spent from
        it; a full balance has 2^60 units.
        """
        failed = worth_above(amounts[FAILURE], self.failure)
        if self.limit and amounts[WALLET] == UNITS and amounts[SUM] < UNITS:
            return spent_of_sum(worth_above(amounts[SUM], self.limit), failed)
        return spent_of_wallet(worth_above(amounts[WALLET], self.wallet), failed)

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return the most that the rest of the budget can still pay for, as at most two guarantees.

        - The first is Gaussian noise with the mu squared that remains in the wallet. If the wallet is empty, it is pure
          DP with the epsilon that the account can still add to its sum of epsilons.
        - The second is (0, delta)-DP, where delta is the remaining probability of outright failure (which may reveal
          everything).

        The budget can pay for both together. A guarantee for which nothing remains is left out. `amounts` maps each
        balance to the units that remain in it; a full balance has 2^60 units.
        """
        return largest_of_wallet(
            worth_below(amounts[WALLET], self.wallet),
            worth_below(amounts[SUM], self.limit),
            worth_below(amounts[FAILURE], self.failure),
        )

    def shortage(self, uses: Sequence[Use], spent: Mapping[str, int]) -> str | None:
        """Return text about all that the account lacks to pay for `uses`; None if it can pay.

        The account may lack two things, and the text says how much is left of each:

        - failure probability, for mechanisms that may fail outright and then reveal everything
        - a balance that can pay: neither the wallet (mu squared) nor the sum of epsilons has enough left

        `uses` lists privacy guarantees and how often each is used. `spent` maps each balance to the units spent from
        it.
        """
        remaining = {balance_name: total - spent.get(balance_name, 0) for balance_name, total in self.lines().items()}
        price = self.price(uses, spent)
        sentences = []
        if price[FAILURE] > remaining[FAILURE]:
            sentences.append(failure_shortage(uses, worth_below(remaining[FAILURE], self.failure)))
        if price[WALLET] > remaining[WALLET]:
            wallet, summed = worth_below(remaining[WALLET], self.wallet), worth_below(remaining[SUM], self.limit)
            sentences.append(balance_shortage(uses, wallet, summed))
        return "; ".join(sentences) or None


def wallet_as_uses(wallet: float, failure: float) -> tuple[Use, ...]:
    """Return two guarantees that together reveal at least as much as all that a Gaussian wallet can pay for.

    A wallet is a budget in mu^2. The guarantees are Gaussian noise with mu^2 = `wallet`, and (0, `failure`)-DP, which
    is left out if `failure` is 0. They stand for the wallet when it is composed with other budgets.
    """
    failing = (Use(ApproxDP(epsilon=0.0, delta=failure)),) if failure else ()
    return (Use(gaussian_of(wallet)), *failing)


def spent_of_wallet(wallet: float, failed: float) -> tuple[Use, ...]:
    """Return what was spent of a Gaussian wallet as two guarantees, which people are shown instead of units.

    A Gaussian wallet is a budget in mu^2, and `wallet` is the spent mu^2. The guarantees are Gaussian noise of this
    mu^2, and (0, `failed`)-DP, where `failed` is the probability of outright failure (in which everything may be
    revealed) that was paid for. The noise is left out if `wallet` is below 1e-12, and (0, `failed`)-DP if `failed` is
    0.
    """
    guarantees: list[Guarantee] = [gaussian_of(wallet)] if wallet >= SMALLEST_WALLET else []
    if failed:
        guarantees.append(ApproxDP(epsilon=0.0, delta=failed))
    return tuple(Use(guarantee) for guarantee in guarantees)


def spent_of_sum(summed: float, failed: float) -> tuple[Use, ...]:
    """Return what was paid from a sum of epsilons as two guarantees, which people are shown instead of units.

    The guarantees are pure DP with the epsilon `summed`, and (0, `failed`)-DP, where `failed` is the probability of
    outright failure (in which everything may be revealed) that was paid for. The second is left out if `failed` is 0.
    """
    failing = (Use(ApproxDP(epsilon=0.0, delta=failed)),) if failed else ()
    return (Use(PureDP(epsilon=max(summed, SMALLEST_EPSILON))), *failing)


def largest_of_wallet(wallet: float, summed: float, failure: float) -> tuple[Use, ...]:
    """Return the largest guarantees for which the remaining budget can pay together, to show people what is left.

    - The first is Gaussian noise with mu^2 = `wallet`, the remaining mu squared. If `wallet` is below 1e-12, it is pure
      DP with epsilon = `summed` instead, the remaining sum of epsilons.
    - The second is (0, `failure`)-DP, where `failure` is the remaining probability of outright failure (which may
      reveal everything).

    A guarantee for which nothing remains is left out.
    """
    guarantees: list[Guarantee] = []
    if wallet >= SMALLEST_WALLET:
        guarantees.append(Gaussian(sigma=up(1.0 / math.sqrt(wallet)) * (1 + 4e-12)))
    elif summed >= SMALLEST_EPSILON:
        guarantees.append(PureDP(epsilon=summed))
    if failure:
        guarantees.append(ApproxDP(epsilon=0.0, delta=failure))
    return tuple(Use(guarantee) for guarantee in guarantees)


def balance_shortage(uses: Sequence[Use], wallet: float, summed: float) -> str:
    """Return a sentence that tells people what an account lacks to pay for `uses`.

    `uses` lists privacy guarantees and how often each is used. The account can pay from a Gaussian wallet (a limit on a
    sum of mu^2) or from a second balance (a limit on the sum of epsilons), but neither has enough left. `wallet` is the
    mu^2 that is left in the wallet, and `summed` is the epsilon that is left in the second balance.
    """
    # The sum never pays for Gaussian noise, whose epsilon is unbounded. So the sentence is about the wallet, unless the
    # wallet is empty.
    if wallet >= SMALLEST_WALLET or summed < SMALLEST_EPSILON:
        return wallet_shortage(uses, wallet)
    available = rounded_down(summed, 2)
    needed = total_loss((use.guarantee, use.count) for use in uses)
    if needed is None:
        return f"epsilon {available} is left, but not for Gaussian noise"
    return f"it needs epsilon {rounded_up(float_above(needed), 3)}, and epsilon {available} is left"


def failure_shortage(uses: Sequence[Use], balance: float) -> str:
    """Return a sentence for a refused charge: `uses` need more failure probability than the remaining `balance`.

    `uses` lists privacy guarantees and how often each is used. The sentence also says what to do, such as asking with a
    smaller delta.
    """
    needed = rounded_up(filter_parameters(uses).failure_sum, _DIGITS)
    available = rounded_down(balance, _DIGITS)
    # A charge is rounded up to whole units, so it may be refused although both numbers look the same when rounded.
    remaining = f"a little less than {available}" if available == needed else available
    smaller = f"ask with a delta below {available}, or " if balance else ""
    return (
        f"it needs a failure probability of {needed}, and {remaining} is left of the share of delta that was set "
        f"aside for failures: {smaller}use an account that was opened with a larger failure share"
    )


def wallet_totals(*, epsilon: float, delta: float, failure_share: float = FAILURE_SHARE) -> WalletTotals:
    """Return the budget of a Gaussian wallet that keeps all answers together (epsilon, delta)-DP.

    A wallet is a budget in mu^2, where mu is the privacy parameter of a Gaussian mechanism. `failure_share` is the
    share of `delta` that is set aside for outright failures (events in which everything may be revealed).
    """
    wallet = Wallet.for_promise(epsilon=epsilon, delta=delta, failure_share=failure_share)
    return WalletTotals(wallet.size, wallet.loss_limit, wallet.failure_limit, wallet.size + wallet.loss_limit**2)


def zcdp_sums(uses: Iterable[Use]) -> tuple[Fraction, Fraction]:
    """Return (sum of the zCDP rho, sum of the failure probabilities) of `uses`, both exact.

    `uses` lists privacy guarantees and how often each is used. A budget is charged these sums, rounded up. A guarantee
    (xi, rho)-zCDP allows a constant xi besides rho. It counts as rho + xi, or as rho if xi is negative.
    """
    rho = failure = Fraction(0)
    for use in uses:
        parameters = _zero_concentrated(use.guarantee)
        rho += use.count * (Fraction(parameters.rho) + max(Fraction(parameters.xi), Fraction(0)))
        failure += use.count * Fraction(parameters.delta)
    return rho, failure


def zcdp_totals(*, epsilon: float, delta: float, failure_share: float) -> Totals:
    """Return the budget (a limit on the sum of zCDP rhos) that keeps all answers together (epsilon, delta)-DP.

    The share `failure_share` of `delta` is set aside for outright failures (which may reveal everything).
    Raises `Unattainable` if no positive limit keeps that promise.
    """
    promise = ZcdpFilter(epsilon=epsilon, delta=delta, failure_share=failure_share)
    rho = promise.rho_budget
    if rho <= 0.0:
        raise Unattainable(
            f"epsilon = {promise.epsilon!r} at delta = {promise.delta!r} leaves nothing to spend; "
            "give a larger epsilon or delta"
        )
    # The part of delta that is not for failures converts the limit on rho to epsilon.
    converted = Fraction(promise.delta * (1.0 - promise.failure_share))
    failure = float_below(max(Fraction(0), Fraction(promise.delta) - converted)) if promise.failure_share else 0.0
    return Totals(rho, failure)


def _zero_concentrated(guarantee: Guarantee) -> ZeroConcentratedDP:
    """Return the zCDP guarantee that is charged for `guarantee` to a budget that is counted in zCDP.

    For epsilon-DP, (epsilon, delta)-DP and Laplace noise, the rho of the result is epsilon^2/2, rounded up. For any
    other guarantee, the result is that of its method `zero_concentrated`.
    """
    # The exact constants are smaller. They are not used, because entries of existing filter accounts were priced with
    # epsilon^2/2 and would no longer verify.
    match guarantee:
        case PureDP(epsilon=epsilon):
            return ZeroConcentratedDP(rho=cover_rounding(0.5 * epsilon**2))
        case ApproxDP(epsilon=epsilon, delta=delta):
            return ZeroConcentratedDP(rho=cover_rounding(0.5 * epsilon**2), delta=delta)
        case Laplace() | DiscreteLaplace():
            return _zero_concentrated(guarantee.pure())
        case _:
            return guarantee.zero_concentrated()


def whole_units(amount: Fraction, total: float) -> int:
    """Return the privacy `amount` in units, rounded up, where 2^60 units are `total`, the full balance.

    `amount` and `total` are of the same kind, such as mu^2. An `amount` above `total` gives more units than the balance
    has, so that the database refuses the charge.
    """
    if not amount:
        return 0
    # At most 2^60 + 1 units, so that the integer stays within 64 bits. With no balance, 1 unit is already too much.
    return min(math.ceil(amount * UNITS / Fraction(total)), UNITS + 1) if total else 1


def worth_below(units: int, total: float) -> float:
    """Return the amount of privacy that `units` of a balance stand for: units * total / 2^60, rounded down to a float.

    `total` is the amount that the full balance of 2^60 units stands for, such as its mu^2 or its epsilon.
    """
    return float_below(Fraction(total) * units / UNITS)


def worth_above(units: int, total: float) -> float:
    """Return the amount of privacy that `units` of a balance stand for: units * total / 2^60, rounded up to a float.

    `total` is the amount that the full balance of 2^60 units stands for, such as its mu^2 or its epsilon.
    """
    return float_above(Fraction(total) * units / UNITS)


def recorded_sum(units: int, total: float) -> float:
    """Return the sum of charges that a balance has recorded, rounded up; infinity if the balance is used up.

    `units` are the units spent, and `total` is the amount that 2^60 units stand for. The balance refuses no charge: a
    charge that is larger than what remains uses it up, and the sum is then unknown.
    """
    return worth_above(units, total) if units < UNITS else math.inf

"""Amounts of filters and wallets as whole numbers, so that no sum of charges is ever rounded.

Each total (of rho, of a wallet, of failure probabilities) is `UNITS` = 2^60 units. A charge takes the units it needs,
rounded up; what is left is reported rounded down. Both databases hold such numbers exactly.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from setwise.accounting.brackets import cover_rounding, down, float_above, float_below, up
from setwise.accounting.checks import SMALLEST_EPSILON
from setwise.accounting.filters import Spent, ZcdpFilter, filter_parameters
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
from setwise.accounting.notation import rounded_down, rounded_up
from setwise.accounting.prices import after_paying, wallet_before
from setwise.accounting.wallet import FAILURE_SHARE, SMALLEST_WALLET, Wallet, gaussian_of, wallet_shortage
from setwise.errors import Unattainable

UNITS = 2**60
"""Units in a total."""

RHO = "rho"
FAILURE = "failure"
WALLET = "wallet"
SUM = "sum"

_DIGITS = 4


class BudgetTotals(Protocol):
    """What an account or a cap may spend, as units per line, and how units are told to people.

    `amounts` are units spent per line, and for `largest` units left. All three kinds of totals have these methods:
    `Totals` (sums of zCDP), `WalletTotals` (a Gaussian wallet) and `CapTotals` (a wallet that accounts hold slices of).
    """

    @property
    def failure(self) -> float:
        """The probability of outright failure that may be used up in all."""
        ...

    @property
    def most_rho(self) -> float:
        """About the rho, in zCDP, that may be drawn in all."""
        ...

    @property
    def price_depends_on_balance(self) -> bool:
        """Whether the price of a use depends on what was spent before it."""
        ...

    def lines(self) -> dict[str, int]:
        """Return the units of each line."""
        ...

    def paying(self, amounts: Mapping[str, int]) -> tuple[str, ...]:
        """Return the names of the lines that can fund another use; any one of them is enough."""
        ...

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return the zCDP and the failure probability of what was spent, rounded up."""
        ...

    def loss_sum(self, amounts: Mapping[str, int]) -> float:
        """Return the sum of the largest losses of what was spent, rounded up; infinite where it is not known."""
        ...

    def spent_as(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return uses that dominate what was spent."""
        ...

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return the largest uses that the units left pay for together, or nothing."""
        ...

    def as_uses(self) -> tuple[Use, ...]:
        """Return what the whole budget stands for in a composition with other accounts."""
        ...


class AccountTotals(BudgetTotals, Protocol):
    """Totals that one account pays from."""

    def price(self, uses: Sequence[Use], spent: Mapping[str, int]) -> dict[str, int]:
        """Return the units per line that the uses take when `spent` was spent before; too many if they do not fit."""
        ...

    def shortage(self, uses: Sequence[Use], spent: Mapping[str, int]) -> str | None:
        """Return what is missing to pay for the uses, in words; None if they fit."""
        ...


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a zCDP filter, as exact floats: `rho`, and the chance of outright `failure`."""

    rho: float
    failure: float

    def lines(self) -> dict[str, int]:
        """Return the units of each total."""
        return {FAILURE: UNITS if self.failure else 0, RHO: UNITS if self.rho else 0}

    def price(self, uses: Iterable[Use], spent: Mapping[str, int]) -> dict[str, int]:  # noqa: ARG002 - as of wallets
        """Return the units the uses take, rounded up, whatever was spent; never more than one unit beyond the total.

        Theorem: WhitehouseRaRoWu23.
        """
        rho, failure = zcdp_sums(uses)
        return {FAILURE: whole_units(failure, self.failure), RHO: whole_units(rho, self.rho)}

    def shortage(self, uses: Sequence[Use], spent: Mapping[str, int]) -> str | None:
        """Return what the uses need beyond what is left, in words; None when they fit."""
        rest = {what: total - spent.get(what, 0) for what, total in self.lines().items()}
        price, (rho, failure), left = self.price(uses, spent), zcdp_sums(uses), filter_parameters(self.largest(rest))
        told = [
            f"it needs a {what} of {rounded_up(asked, _DIGITS)}, and {rounded_down(there, _DIGITS)} is left"
            for line, what, asked, there in (
                (RHO, "rho", up(float(rho)), left.rho),
                (FAILURE, "failure probability", up(float(failure)), left.failure_sum),
            )
            if price[line] > rest[line]
        ]
        return "; ".join(told) or None

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return what these units are worth, rounded up."""
        return Spent(worth_above(amounts[RHO], self.rho), worth_above(amounts[FAILURE], self.failure))

    @property
    def most_rho(self) -> float:
        """The rho that may be drawn in all."""
        return self.rho

    @property
    def price_depends_on_balance(self) -> bool:
        """Whether the price of a use depends on what was spent before it: zCDP adds up, so it does not."""
        return False

    def paying(self, amounts: Mapping[str, int]) -> tuple[str, ...]:  # noqa: ARG002 - part of BudgetTotals
        """Return the names of the lines that can fund another use."""
        return (RHO,)

    def loss_sum(self, amounts: Mapping[str, int]) -> float:
        """Return the sum of the largest losses of what was spent: not known, so infinite once anything was."""
        return math.inf if any(amounts.values()) else 0.0

    def as_uses(self) -> tuple[Use, ...]:
        """Return the whole budget as one zCDP use."""
        return (Use(ZeroConcentratedDP(rho=self.rho, delta=self.failure)),)

    def spent_as(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return what these units were spent on, as one zCDP use."""
        worth = self.worth(amounts)
        return (
            (Use(ZeroConcentratedDP(rho=worth.rho, delta=worth.failure_sum)),) if worth.rho or worth.failure_sum else ()
        )

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return the largest single use that these units pay for, or nothing."""
        rho, failure = worth_below(amounts[RHO], self.rho), worth_below(amounts[FAILURE], self.failure)
        return (Use(ZeroConcentratedDP(rho=rho, delta=failure)),) if rho or failure else ()


@dataclass(frozen=True, slots=True)
class WalletTotals:
    """The totals of a Gaussian wallet, as exact floats.

    `wallet` is mu^2, `limit` the sum of largest losses up to which uses are admitted that the wallet cannot pay,
    `failure` the chance of outright failure. `rho` only keeps count of the zCDP of what was drawn, for the odometer.
    """

    wallet: float
    limit: float
    failure: float
    rho: float

    def lines(self) -> dict[str, int]:
        """Return the units of each total."""
        totals = {FAILURE: self.failure, RHO: self.rho, SUM: self.limit, WALLET: self.wallet}
        return {what: UNITS if total else 0 for what, total in totals.items()}

    def as_uses(self) -> tuple[Use, ...]:
        """Return what the wallet stands for in a composition: one Gaussian, and its failures."""
        return wallet_as_uses(self.wallet, self.failure)

    def price(self, uses: Sequence[Use], spent: Mapping[str, int]) -> dict[str, int]:
        """Return the units the uses take when so much was spent; more than is left of the wallet when they do not fit.

        A use that the wallet cannot pay for empties it, which disables that rule for all later uses. The same holds for
        the sum of losses.

        Theorem: docs/optimal-composition.md, Theorem 7, and "The sum of epsilons counts too".
        """
        left = {what: total - spent.get(what, 0) for what, total in self.lines().items()}
        rho, failure = zcdp_sums(uses)
        amounts = {FAILURE: whole_units(failure, self.failure), RHO: min(whole_units(rho, self.rho), left[RHO])}
        after, summed = self._after_paying(uses, left[WALLET]), self._summed(uses)
        within = summed is not None and summed <= left[SUM]
        if after is None and not within:
            return {**amounts, WALLET: left[WALLET] + 1}
        amounts[WALLET] = left[WALLET] if after is None else left[WALLET] - after
        amounts[SUM] = summed if summed is not None and within else left[SUM]
        return amounts

    def covers(self, uses: Sequence[Use], left: int, paid: int) -> bool:
        """Return whether `paid` units, of the `left` units before, pay for the uses by the prices of this platform.

        Prices include a margin larger than the difference between platforms' math libraries, so an entry written on
        another platform still verifies.
        """
        fixed = [use for use in uses if isinstance(use.guarantee, Gaussian)]
        varied = [use for use in uses if not isinstance(use.guarantee, Gaussian)]
        before, after = Fraction(self.wallet) * left / UNITS, worth_below(left - paid, self.wallet)
        if len(varied) == 1:
            needed = wallet_before(varied[0].guarantee.price, varied[0].count, after)
        else:
            needed = wallet_before(lambda v: math.fsum(use.count * use.guarantee.price(v) for use in varied), 1, after)
        if needed == math.inf:
            return False
        return Fraction(needed) + sum(use.count * Fraction(use.guarantee.price(0.0)) for use in fixed) <= before

    def _after_paying(self, uses: Sequence[Use], left: int) -> int | None:
        """Return the units that remain in the wallet after the uses, in any order; None if it cannot pay for them.

        A Gaussian costs the same at every balance. Other uses are priced as if every Gaussian came before them, and
        uses of different kinds as if each came last, at the smallest balance.
        """
        fixed = [use for use in uses if isinstance(use.guarantee, Gaussian)]
        varied = [use for use in uses if not isinstance(use.guarantee, Gaussian)]
        worth = worth_below(left, self.wallet)
        for use in fixed:
            worth = down(worth - use.count * use.guarantee.price(0.0) * (1 + 4e-16))
        if worth < 0.0:
            return None
        after: float | None = worth
        if len(varied) == 1:
            after = after_paying(varied[0].guarantee.price, varied[0].count, worth)
        elif varied:
            after = after_paying(lambda v: math.fsum(use.count * use.guarantee.price(v) for use in varied), 1, worth)
        return None if after is None else min(left, math.floor(Fraction(after) * UNITS / Fraction(self.wallet)))

    def _summed(self, uses: Sequence[Use]) -> int | None:
        """Return the sum of the largest losses in units of the limit; None if a loss is unbounded."""
        total = total_loss((use.guarantee, use.count) for use in uses)
        return None if total is None else whole_units(total, self.limit)

    def worth(self, amounts: Mapping[str, int]) -> Spent:
        """Return the zCDP of what was drawn, rounded up; infinite once it passes the units of its line."""
        rho = worth_above(amounts[RHO], self.rho) if amounts[RHO] < UNITS else math.inf
        return Spent(rho, worth_above(amounts[FAILURE], self.failure))

    @property
    def most_rho(self) -> float:
        """About the rho that may be drawn in all: that of a Gaussian of this mu^2."""
        return self.wallet / 2

    @property
    def price_depends_on_balance(self) -> bool:
        """Whether the price of a use depends on what was spent before it: it does, except for Gaussian noise."""
        return True

    def paying(self, amounts: Mapping[str, int]) -> tuple[str, ...]:  # noqa: ARG002 - part of BudgetTotals
        """Return the names of the lines that can fund another use; any one of them is enough."""
        return WALLET, SUM

    def loss_sum(self, amounts: Mapping[str, int]) -> float:
        """Return the sum of the largest losses of what was spent; infinite once a use has passed the limit."""
        if self.limit and amounts[SUM] < UNITS:
            return worth_above(amounts[SUM], self.limit)
        return math.inf if any(amounts.values()) else 0.0

    def spent_as(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return what was spent as one Gaussian of that mu^2 (a pure use once the wallet is empty), and one failure."""
        failed = worth_above(amounts[FAILURE], self.failure)
        if self.limit and amounts[WALLET] == UNITS and amounts[SUM] < UNITS:
            return spent_of_sum(worth_above(amounts[SUM], self.limit), failed)
        return spent_of_wallet(worth_above(amounts[WALLET], self.wallet), failed)

    def largest(self, amounts: Mapping[str, int]) -> tuple[Use, ...]:
        """Return uses that these units pay for together: a Gaussian (a pure use if the wallet is empty), a failure."""
        return largest_of_wallet(
            worth_below(amounts[WALLET], self.wallet),
            worth_below(amounts[SUM], self.limit),
            worth_below(amounts[FAILURE], self.failure),
        )

    def shortage(self, uses: Sequence[Use], spent: Mapping[str, int]) -> str | None:
        """Return why the uses do not fit and what would, in words; None when they fit."""
        rest = {what: total - spent.get(what, 0) for what, total in self.lines().items()}
        price = self.price(uses, spent)
        if price[FAILURE] > rest[FAILURE]:
            return failure_shortage(uses, worth_below(rest[FAILURE], self.failure))
        if price[WALLET] <= rest[WALLET]:
            return None
        return wallet_shortage(uses, worth_below(rest[WALLET], self.wallet))


def wallet_as_uses(wallet: float, failure: float) -> tuple[Use, ...]:
    """Return a whole wallet of size `wallet` (mu^2) as one Gaussian use, and its failure probability as another."""
    failing = (Use(ApproxDP(epsilon=0.0, delta=failure)),) if failure else ()
    return (Use(gaussian_of(wallet)), *failing)


def spent_of_wallet(wallet: float, failed: float) -> tuple[Use, ...]:
    """Return what was spent of a wallet, as one Gaussian of that mu^2 and one failure."""
    found: list[Guarantee] = [gaussian_of(wallet)] if wallet >= SMALLEST_WALLET else []
    if failed:
        found.append(ApproxDP(epsilon=0.0, delta=failed))
    return tuple(Use(guarantee) for guarantee in found)


def spent_of_sum(summed: float, failed: float) -> tuple[Use, ...]:
    """Return what was spent by the sum of losses, as one pure use and one failure."""
    failing = (Use(ApproxDP(epsilon=0.0, delta=failed)),) if failed else ()
    return (Use(PureDP(epsilon=max(summed, SMALLEST_EPSILON))), *failing)


def largest_of_wallet(wallet: float, summed: float, failure: float) -> tuple[Use, ...]:
    """Return uses that fit in these balances together: a Gaussian (a pure use if `wallet` is 0), and a failure."""
    found: list[Guarantee] = []
    if wallet >= SMALLEST_WALLET:
        found.append(Gaussian(sigma=up(1.0 / math.sqrt(wallet)) * (1 + 4e-12)))
    elif summed >= SMALLEST_EPSILON:
        found.append(PureDP(epsilon=summed))
    if failure:
        found.append(ApproxDP(epsilon=0.0, delta=failure))
    return tuple(Use(guarantee) for guarantee in found)


def failure_shortage(uses: Sequence[Use], left: float) -> str:
    """Return in words that the uses need a larger failure probability than the balance `left`, and what to do."""
    needed = rounded_up(filter_parameters(uses).failure_sum, _DIGITS)
    there = rounded_down(left, _DIGITS)
    shown = f"a little less than {there}" if there == needed else there  # amounts are drawn in units, rounded up
    smaller = f"ask with a delta below {there}, or " if left else ""
    return (
        f"it needs a failure probability of {needed}, and {shown} is left of the share of delta that was set aside for "
        f"failures: {smaller}use an account that was opened with a larger failure share"
    )


def wallet_totals(*, epsilon: float, delta: float, failure_share: float = FAILURE_SHARE) -> WalletTotals:
    """Return the totals of a wallet that keeps (epsilon, delta)-DP."""
    wallet = Wallet.for_promise(epsilon=epsilon, delta=delta, failure_share=failure_share)
    return WalletTotals(wallet.size, wallet.loss_limit, wallet.failure_limit, wallet.size + wallet.loss_limit**2)


def zcdp_sums(uses: Iterable[Use]) -> tuple[Fraction, Fraction]:
    """Return the exact sums of rho and of failures; a positive xi joins rho and a negative one is dropped."""
    rho = failure = Fraction(0)
    for use in uses:
        parameters = _zero_concentrated(use.guarantee)
        rho += use.count * (Fraction(parameters.rho) + max(Fraction(parameters.xi), Fraction(0)))
        failure += use.count * Fraction(parameters.delta)
    return rho, failure


def zcdp_totals(*, epsilon: float, delta: float, failure_share: float) -> Totals:
    """Return the totals of a zCDP filter: conversion and failures together stay within its delta."""
    promise = ZcdpFilter(epsilon=epsilon, delta=delta, failure_share=failure_share)
    rho = promise.rho_budget
    if rho <= 0.0:
        raise Unattainable(
            f"epsilon = {promise.epsilon:g} at delta = {promise.delta:g} leaves nothing to draw on; ask for more"
        )
    converted = Fraction(promise.delta * (1.0 - promise.failure_share))
    failure = float_below(max(Fraction(0), Fraction(promise.delta) - converted)) if promise.failure_share else 0.0
    return Totals(rho, failure)


def _zero_concentrated(guarantee: Guarantee) -> ZeroConcentratedDP:
    """Return the zCDP that a use is charged: epsilon^2/2 for pure DP and Laplace noise.

    The exact constants are smaller. They are not used, because entries of existing filter accounts were priced with
    epsilon^2/2 and would no longer verify.
    """
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
    """Return the units of a total that an amount takes, rounded up; at most one more than there are."""
    if not amount:
        return 0
    return min(math.ceil(amount * UNITS / Fraction(total)), UNITS + 1) if total else 1


def worth_below(units: int, total: float) -> float:
    """Return what units of a total are worth, rounded down."""
    return float_below(Fraction(total) * units / UNITS)


def worth_above(units: int, total: float) -> float:
    """Return what units of a total are worth, rounded up."""
    return float_above(Fraction(total) * units / UNITS)

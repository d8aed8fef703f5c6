"""Status of an account: its promise, its remaining budget, and a bound (odometer) on the privacy loss so far.

An odometer is a bound on the epsilon of all answers so far. The end of the module has the joint promise of all accounts
on a dataset, should their analysts collude.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from setwise.accounting.brackets import CertifiedBound, Interaction, down, up
from setwise.accounting.checks import check_count, check_delta
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import ApproxDP, Gaussian, PureDP, Use, ZeroConcentratedDP, largest_loss, merged
from setwise.accounting.notation import format_use
from setwise.accounting.promises import USER, promise_for_unit, promise_in_words
from setwise.accounting.zcdp_filter import Spent, filter_parameters
from setwise.errors import InvalidParameter, Unattainable
from setwise.ledger.amounts import Totals, WalletTotals
from setwise.ledger.odometer import failure_probability, pathwise_odometer, stopping_odometer, sum_of_charges
from setwise.ledger.stores.read_queries import spent_by
from setwise.ledger.stores.schema import accounts, openings
from setwise.ledger.terms import BudgetPeriod, Kind, Terms, line_of

if TYPE_CHECKING:
    from setwise.contract import AccountRecord, AccountSummaryRecord, JointRecord


_OTHER_ACCOUNTS = (
    "This is about this account's answers: if answers to other accounts change the table, only the dataset's cap or "
    "joint promise covers that."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """The budget and state, in its present period, of an account or a cap (the joint budget of a dataset's accounts).

    An account pays either with guarantees that were registered at its opening, or from a budget, such as an amount of
    mu squared.

    - `terms` has the promise and the whole budget.
    - `period` names the budget period, such as "2026-11"; "" if the budget never starts afresh.
    - `left` is what remains, as privacy guarantees and how often each can be used: what remains of the registered
      guarantees or, for a budget, the largest guarantees that can still be paid.
    - `spent` is what was spent, as privacy guarantees and how often each was used: the registered guarantees that were
      used or, for a budget, guarantees whose composition bounds the privacy loss of all charges. (`spent` is empty if
      an account that pays for a fixed list of uses has an unknown zCDP rho.)
    - `share_left` is the share of the budget that remains, from 0 to 1. For registered guarantees, it is their
      remaining count divided by their registered count. For a budget, it is the remaining share of the balance that
      pays; if two balances can pay, such as mu squared and a sum of epsilons, it is the larger of the two shares.
    - `charges` is the number of charges since the opening, in all periods.
    - `state` is "open", "frozen" or "closed".
    - `drawn` lists the guarantees that were paid for, and how often each. It is None if they are not known, because the
      account has a budget and its entries were not read; `worth` and `largest` are known in any case.
    - `worth` has the zCDP rho and the failure probability of everything paid for, and `largest` is the sum of its
      largest losses (infinite if unknown).
    - `amounts` has a pair (balance name, units spent in the period) for each balance. The balance of a registered
      guarantee counts its uses. Most other balances have 2^60 units when they are full.
    - `charge_uses` has the guarantees of each charge in the period, and the delta of its question. `more_like_last` is
      how many more charges like the last one can be paid. Both are None unless the account's entries were read.
    """

    terms: Terms
    period: str
    left: tuple[Use, ...]
    spent: tuple[Use, ...]
    share_left: float
    charges: int
    state: str
    drawn: tuple[Use, ...] | None
    worth: Spent
    largest: float
    """The sum of the largest losses (epsilons) drawn; infinite if one of them is unbounded or the sum is not known."""
    amounts: tuple[tuple[str, int], ...] = ()
    """The units spent in the period, as pairs (balance name, units); for most balances, a unit is 2^-60 of the
    budget."""
    charge_uses: tuple[tuple[tuple[Use, ...], float | None], ...] | None = None
    """The uses of each charge of the period, and the delta of its question; None if the entries were not read."""
    more_like_last: int | None = None
    """How many more charges like the period's last one the account can pay; None without charges or if not computed."""

    @property
    def name(self) -> str:
        """The account's name; for a cap (the joint budget of a dataset's accounts), the name of its dataset."""
        return self.terms.name

    @property
    def kind(self) -> Kind:
        """The kind: "setwise" (registered guarantees), "filter" (a budget) or "cap" (a dataset's joint budget)."""
        return self.terms.kind

    @property
    def analyst(self) -> str:
        """The name of the analyst who may ask questions from this account; "" if none was stated."""
        return self.terms.analyst

    @property
    def dataset(self) -> str:
        """The dataset that the account may pay for; empty if it is not bound to a dataset."""
        return self.terms.dataset

    @property
    def unit(self) -> str:
        """The unit of privacy that the account protects: "user", or a part of a user such as "user,day"."""
        return self.terms.unit

    @property
    def promise(self) -> str:
        """The account's promise (its epsilon and delta) in words, for one whole budget period.

        If the account protects less than a whole user, the text says what it protects. For an account on a dataset, it
        adds that the promise holds only if the rows of the table do not depend on answers that other accounts have
        received.
        """
        words = (
            promise_in_words(self.epsilon.upper, self.delta)
            if self.unit == USER
            else promise_for_unit(self.unit, self.epsilon.upper, self.delta)
        )
        return words if self.kind == "cap" or not self.dataset else f"{words} {_OTHER_ACCOUNTS}"

    @property
    def epsilon(self) -> CertifiedBound:
        """The epsilon that the account promises at `delta` for a whole budget period, as lower and upper bounds."""
        return self.terms.epsilon

    @property
    def delta(self) -> float:
        """The delta of the account's promise, and of its odometer (the bound on the epsilon spent so far)."""
        return self.terms.delta

    @property
    def every(self) -> BudgetPeriod | None:
        """The kind of calendar period after which the account's budget starts afresh; None if it never does."""
        return self.terms.period

    @property
    def odometer(self) -> CertifiedBound:
        """The odometer: certified lower and upper bounds on the epsilon of everything paid for so far in the period.

        The upper bound may be used as a stopping rule: for every epsilon fixed in advance, all answers given before the
        bound exceeds that epsilon are together (epsilon, delta)-DP. Computing it takes up to some tenths of a second;
        the result is cached.

        In a status from `Account.status_by_entries`, the epsilons of single charges are also added up, and the upper
        bound is at most this sum. The sum is used while the deltas of the charges add up to at most (delta - f) / 2,
        where f is the part of delta for outright failures (which may reveal everything).

        Theorem: docs/optimal-composition.md, "Odometers".
        """
        return stopping_odometer(self.terms, self.drawn, self.worth, self.largest, self.charge_uses)

    @property
    def charged(self) -> tuple[float, float] | None:
        """(Sum of the epsilons, sum of the deltas) of the account's charges in the period, both rounded up; or None.

        Each charge has an epsilon and a delta such that its own answer is (epsilon, delta)-DP. None is returned if the
        account's entries were not read, if a charge has no finite epsilon, or if there are over 500 different charges,
        which would take too long.
        """
        return None if self.charge_uses is None else sum_of_charges(self.terms, self.charge_uses)

    @property
    def path_odometer(self) -> CertifiedBound:
        """Bounds on the epsilon of everything paid for in the period; the upper bound holds at all times at once.

        The period is the present budget period of the account. With probability at least 1 - delta, there is no time at
        which the privacy loss of the answers so far exceeds the upper bound of that time.

        The upper bound of `odometer` can be smaller, because it promises less: if an epsilon was fixed in advance, and
        the analyst stops before the upper bound of `odometer` exceeds it, all answers are together (epsilon, delta)-DP.
        """
        return pathwise_odometer(self.terms, self.drawn, self.worth, self.largest)

    @property
    def epsilon_left(self) -> float | None:
        """The largest epsilon of one further question that the account can pay for, rounded down.

        - If nothing was spent, it is the promised epsilon of the account.
        - Otherwise it is the epsilon of the largest guarantee that the account can still pay for, at the account's
          delta less the part of delta for outright failures (which may reveal everything).
        - An account with a wallet (a budget in mu squared) may also pay from a sum of epsilons. If more epsilon remains
          of this sum, the result is that epsilon.

        The dataset's joint budget (cap) may still refuse the question. The result is None for an account whose
        guarantees were registered at its opening, because `left` lists their remaining counts.
        """
        if self.terms.uses:
            return None
        # The wallet pays for one Gaussian mechanism of its remaining mu^2; the sum of epsilons pays for what remains of
        # it.
        by_wallet = _epsilon_left(self.terms, self.left, self.share_left)
        return max(by_wallet, self._summed_epsilon_left)

    def epsilon_left_after(self, uses: Sequence[Use]) -> float | None:
        """Return the largest epsilon of one further question after a charge of `uses`; nothing is charged.

        `uses` lists privacy guarantees and how often each is used. The result is what `epsilon_left` would be. It is
        None if the account cannot pay for `uses`, if it does not pay from a wallet (a budget in mu squared), or if it
        has guarantees that were registered when it was opened.
        """
        totals = self.terms.totals
        if self.terms.uses or not isinstance(totals, WalletTotals):
            return None
        spent = dict(self.amounts)
        price = totals.price(uses, spent)
        after = {name: spent.get(name, 0) + price.get(name, 0) for name in totals.lines()}
        if any(after[name] > size for name, size in totals.lines().items()):
            return None
        return status_of(self.terms, self.period, after).epsilon_left

    @property
    def laplace_epsilon_left(self) -> float | None:
        """The largest epsilon of one further question with Laplace noise that the account can pay for, rounded down.

        It can be smaller than `epsilon_left`, because Laplace noise costs more from a wallet (a budget in mu squared)
        than Gaussian noise of the same epsilon. None if the account has no wallet, if the wallet is empty, or if the
        account has guarantees that were registered at its opening.
        """
        sigmas = [use.guarantee.sigma for use in self.left if isinstance(use.guarantee, Gaussian)]
        if self.terms.uses or not isinstance(self.terms.totals, WalletTotals) or not sigmas:
            return None
        low, high = 0.0, self.terms.epsilon.upper
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if PureDP(epsilon=middle).price(0.0) <= sigmas[0] ** -2 else (low, middle)
        return max(low, self._summed_epsilon_left)

    @property
    def _summed_epsilon_left(self) -> float:
        """The epsilon that the account can still add to its sum of epsilons; 0 if nothing is left or there is no sum.

        Only an account with a Gaussian wallet (a budget in mu squared) has this second way to pay: it adds up the
        largest losses of its charges, and the sum must not exceed a limit. The result is what the sum lacks to the
        limit, but at most the promised epsilon. It is 0 also if the sum so far is unknown, or if less than 1e-9 of the
        limit is left, because so little may be a rounding error.
        """
        if not isinstance(self.terms.totals, WalletTotals) or math.isinf(self.largest):
            return 0.0
        limit = self.terms.totals.limit
        by_sum = (limit - self.largest) * (1 - 1e-12)  # charges are rounded up to whole units
        if by_sum < 1e-9 * limit:
            by_sum = 0.0  # what rounding leaves of a budget that is spent pays for no question
        return min(by_sum, self.terms.epsilon.upper)

    @property
    def loss_so_far(self) -> float:
        """An upper bound on the epsilon, at the account's `delta`, of everything that was paid for in the period.

        It is the smaller of two numbers: the upper end of `odometer`, which bounds the epsilon of what was spent, and
        the upper end of `epsilon`, which the account promises for its whole budget.
        """
        return min(self.odometer.upper, self.epsilon.upper)

    def to_dict(self) -> "AccountRecord":
        """Return the account's status as the JSON object that the command line prints, odometers included.

        Computing an odometer (a bound on the epsilon spent so far) takes up to some tenths of a second.
        """
        path = self.path_odometer
        return {
            **self.summary(),
            "odometer": {"lower": self.odometer.lower, "upper": self.odometer.upper},
            "path_odometer": {"lower": path.lower, "upper": None if math.isinf(path.upper) else path.upper},
            "epsilon_left": self.epsilon_left,
            "laplace_epsilon_left": self.laplace_epsilon_left,
            "more_like_last": self.more_like_last,
        }

    def summary(self) -> "AccountSummaryRecord":
        """Return the account's status as a JSON object without the odometers, for lists of many accounts.

        Odometers (bounds on the epsilon spent so far) take time to compute.
        """
        return {
            "account": self.name,
            "kind": self.kind,
            "analyst": self.analyst,
            "dataset": self.dataset,
            "unit": self.unit,
            "promise": self.promise,
            "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
            "delta": self.delta,
            "method": self.epsilon.method,
            "statement": self.epsilon.statement,
            "left": [format_use(use) for use in self.left],
            "spent": [format_use(use) for use in self.spent],
            "share_left": self.share_left,
            "charges": self.charges,
            "state": self.state,
            "every": self.every,
            "period": self.period or None,
        }


def status_of(
    terms: Terms, period: str, spent: Mapping[str, int], charges: int = 0, state: str = "open"
) -> AccountStatus:
    """Return the status, in the budget period `period`, of an account or cap with these `terms`.

    A cap is the joint budget of a dataset's accounts.
    - `spent` maps each balance to the units spent from it in the period. The balance of a registered guarantee, such as
      "pure:0.1", counts its uses. Most other balances have 2^60 units when they are full.
    - `charges` is the number of charges since the opening, in all periods.
    - `state` is "open", "frozen" or "closed".
    """
    counts = [(use, spent.get(line_of(use), 0)) for use in terms.uses]
    remaining_uses = [Use(use.guarantee, use.count - count) for use, count in counts if count < use.count]
    drawn_uses = tuple(Use(use.guarantee, count) for use, count in counts if count)
    worth, used = filter_parameters(drawn_uses), list(drawn_uses)
    share = sum(use.count for use in remaining_uses) / sum(use.count for use in terms.uses) if terms.uses else 0.0
    largest = largest_loss((use.guarantee, use.count) for use in drawn_uses)
    if terms.totals is not None:
        lines = terms.totals.lines()
        amounts = {balance_name: spent.get(balance_name, 0) for balance_name in lines}
        remaining = {balance_name: lines[balance_name] - amounts[balance_name] for balance_name in lines}
        remaining_uses += terms.totals.largest(remaining)
        used += terms.totals.spent_as(amounts)
        wallet_worth = terms.totals.worth(amounts)
        worth = (
            wallet_worth
            if not drawn_uses
            else Spent(up(worth.rho + wallet_worth.rho), up(worth.failure_sum + wallet_worth.failure_sum))
        )
        share = max(remaining[line] / lines[line] for line in terms.totals.paying(amounts)) if not terms.uses else share
        largest = up(largest + terms.totals.loss_sum(amounts))
    return AccountStatus(
        terms=terms,
        period=period,
        left=tuple(remaining_uses),
        spent=tuple(used),
        share_left=share,
        charges=charges,
        state=state,
        drawn=drawn_uses if terms.totals is None else None,
        worth=worth,
        largest=largest,
        amounts=tuple(sorted(spent.items())),
    )


_HALVINGS = 40
"""Steps of the bisection for the largest epsilon with Laplace noise, which leave an error far below what is shown."""


@lru_cache(maxsize=4096)
def _epsilon_left(terms: Terms, remaining_uses: tuple[Use, ...], share_left: float) -> float:
    """Return the epsilon of the largest single question that an account can still pay for, rounded down.

    It is at most the promised epsilon, and 0 if nothing remains.

    - `terms` has the account's promise.
    - `remaining_uses` are privacy guarantees that together use up the remaining budget. One of them may be (0,
      delta)-DP, which stands for the remaining failure probability, and is left aside. The result is the epsilon of the
      first other guarantee, at the account's delta less its part for failures.
    - `share_left` is the remaining share of the budget, from 0 to 1. If it is 1, because nothing was spent, the result
      is the whole promised epsilon.
    """
    mechanisms = [use for use in remaining_uses if not isinstance(use.guarantee, ApproxDP)]
    if not mechanisms:
        return 0.0
    if share_left == 1.0:
        return terms.epsilon.upper
    guarantee = mechanisms[0].guarantee
    if isinstance(guarantee, PureDP):
        return min(guarantee.epsilon, terms.epsilon.upper)
    # The epsilon of the remaining mechanism is taken at the account's delta minus the part for outright failures.
    mechanism = ZeroConcentratedDP(rho=guarantee.rho) if isinstance(guarantee, ZeroConcentratedDP) else guarantee
    try:
        bound = compose([Use(mechanism)], Interaction.BATCH).epsilon(terms.delta - failure_probability(terms))
    except Unattainable:
        return 0.0
    return min(down(bound.lower), terms.epsilon.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The joint promise of the accounts on a dataset: `epsilon` at `delta`, even if analysts pool all answers.

    - `dataset` is the name of the dataset, and `accounts` are the names of its accounts.
    - `periods`: the budget of some accounts starts afresh in each calendar period, such as a month. The promise covers
      this many periods of these accounts.
    - `epsilon` is a certified bound.
    - `cap` is the status of the dataset's cap (a joint budget for all its accounts), or None without a cap.
    - `unit` is the unit of privacy that all these accounts protect, such as "user".
    """

    dataset: str
    accounts: tuple[str, ...]
    periods: int
    delta: float
    epsilon: CertifiedBound
    cap: AccountStatus | None
    unit: str = USER

    @property
    def promise(self) -> str:
        """The joint (epsilon, delta) promise in words, as `promise_in_words` writes it.

        For example: "Whether or not one person is in the table changes the chance of any answer by a factor of at most
        2.72". If not whole users are protected but a unit such as "user,day" (one user's rows of one day), the text
        begins with this unit.
        """
        if self.unit == USER:
            return promise_in_words(self.epsilon.upper, self.delta)
        return promise_for_unit(self.unit, self.epsilon.upper, self.delta)

    def to_dict(self) -> "JointRecord":
        """Return the joint (epsilon, delta) promise of a dataset's accounts as the JSON that commands print."""
        return {
            "dataset": self.dataset,
            "unit": self.unit,
            "promise": self.promise,
            "accounts": list(self.accounts),
            "periods": self.periods,
            "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
            "delta": self.delta,
            "interaction": self.epsilon.interaction,
            "method": self.epsilon.method,
            "statement": self.epsilon.statement,
            "cap": None if self.cap is None else self.cap.to_dict(),
        }


def joint_of(
    dataset: str, terms: Sequence[Terms], cap: AccountStatus | None, *, delta: float | None, periods: int
) -> Joint:
    """Return the joint (epsilon, delta) promise of accounts on one dataset, which holds even if analysts collude.

    - `dataset` is the dataset's name.
    - `terms` has one entry per account: the promise and the budget with which the account was opened.
    - `cap` is the status of the dataset's cap (a joint budget of its accounts), or None. If the cap promises a smaller
      epsilon at no larger delta, the result has the epsilon of the cap.
    - `periods` is how many budget periods the promise covers, for accounts whose budget starts afresh each period.
    - `delta` is the delta of the joint promise. None takes the sum of the deltas of all accounts, each times its number
      of periods, but at most 0.5.

    Requires: the number of questions and answers is finite. Of the two neighbouring datasets that the promise compares,
    all accounts read the same one. Every question was chosen before its charge, or was paid with `reserve`, whose price
    also fits questions that are chosen later.

    Theorem: docs/optimal-composition.md, "Colluding analysts"; WhitehouseRaRoWu23 for filters, Lyu22 for several
    analysts at the same time.

    Raises `InvalidParameter` if `terms` is empty or the accounts protect several units of privacy, and `Unattainable`
    if no epsilon can be certified.
    """
    if not terms:
        raise InvalidParameter(f"no account is open on the dataset {dataset!r}")
    if len(units := {account.unit for account in terms}) > 1:
        raise InvalidParameter(
            f"the accounts on the dataset {dataset!r} protect the units {', '.join(sorted(units))}, whose promises do "
            "not add up"
        )
    check_count(periods, "periods")
    times = [1 if account.period is None else periods for account in terms]
    promised = sum(account.delta * n for account, n in zip(terms, times, strict=True))
    joint_delta = check_delta(min(promised, 0.5) if delta is None else delta)
    filters = [account for account in terms if account.kind == "filter"]
    # Set-wise accounts are together one set-wise interaction with all their registered uses; a wallet beside them is
    # one Gaussian mechanism. Filters that all add up zCDP never exceed the sum of their budgets, because a zCDP filter
    # with the summed budget would refuse none of their uses. If a filter has a wallet or a menu, each filter and period
    # is one (epsilon, delta)-DP mechanism: an interaction with that guarantee can be simulated from one answer of such
    # a mechanism, given in advance.
    by_promise = any(not isinstance(account.totals, Totals) for account in filters)
    budgets = [_promise(account) if by_promise and account.kind == "filter" else _budget(account) for account in terms]
    uses = merged(
        Use(use.guarantee, use.count * n) for account, n in zip(budgets, times, strict=True) for use in account
    )
    setwise = by_promise or not filters
    covered = [cap.epsilon] if cap is not None and cap.delta <= joint_delta else []
    try:
        covered.append(compose(uses, Interaction.SETWISE if setwise else Interaction.ADAPTIVE).epsilon(joint_delta))
    except Unattainable:
        if not covered:
            raise
    # The cap may promise less than the accounts together.
    epsilon = min(covered, key=lambda answer: answer.upper)
    names = tuple(sorted(account.name for account in terms))
    return Joint(
        dataset=dataset,
        accounts=names,
        periods=periods,
        delta=joint_delta,
        epsilon=epsilon,
        cap=cap,
        unit=terms[0].unit,
    )


def _budget(terms: Terms) -> tuple[Use, ...]:
    """Return uses (privacy guarantees with counts) that stand for all that an account may spend in one budget period.

    `terms` are the terms of the account. The joint promise of a dataset's accounts composes these guarantees.
    """
    return terms.uses if terms.totals is None else (*terms.uses, *terms.totals.as_uses())


def _promise(terms: Terms) -> tuple[Use, ...]:
    """Return what an account with these `terms` promises for one budget period: one use of (epsilon, delta)-DP.

    The joint promise of all accounts on a dataset composes such uses for the accounts with a budget, if at least one of
    them adds up its charges in another way than by zCDP, for example in mu squared. If all of them add up zCDP
    parameters (rho), it composes their limits on rho instead (the results of `_budget`): the rho of all charges is at
    most the sum of these limits.
    """
    return (Use(ApproxDP(epsilon=terms.epsilon.upper, delta=terms.delta)),)


def rho_drawn(connection: Connection, cap: int) -> float:
    """Return the zCDP rho of everything that all accounts under a cap have paid for in all budget periods, rounded up.

    It is infinite if the rho of some account is unknown. A cap is the joint budget of a dataset's accounts, and `cap`
    is the number of the record that opened it.
    """
    under = select(accounts.c.holder).where(accounts.c.cap == cap)
    bodies = select(openings.c.holder, openings.c.body).where(openings.c.holder.in_(under))
    terms = {row.holder: Terms.read(row.body) for row in connection.execute(bodies)}
    spent = spent_by(connection, under)
    total = math.fsum(
        status_of(terms[holder], period, amounts).worth.rho for (holder, period), amounts in spent.items()
    )
    return up(total) if total else 0.0

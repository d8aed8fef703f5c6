"""Status of an account: what was promised, what is left, and a bound on the privacy loss of the draws so far.

At the end what all accounts on a dataset promise together, should their analysts collude.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from setwise.accounting.bounds import classify, epsilon_reached
from setwise.accounting.brackets import CertifiedBound, Interaction, down, up
from setwise.accounting.checks import LARGEST_EPSILON, SMALLEST_EPSILON, check_count, check_delta
from setwise.accounting.compose import compose
from setwise.accounting.filters import Spent, ZcdpOdometer, filter_parameters
from setwise.accounting.guarantees import ApproxDP, PureDP, Use, ZeroConcentratedDP, largest_loss, merged
from setwise.accounting.notation import format_use
from setwise.errors import InvalidParameter, Unattainable
from setwise.ledger.terms import Kind, Period, Terms, line_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """An account in its present period (`period` is empty for an account without periods).

    A set-wise account has `left` and `spent` as counts of registered uses. A filter has them as zCDP, or as a Gaussian
    mechanism (a pure one, by the sum of losses) that dominates what was drawn; `left` is the largest such use that it
    would still admit. `drawn` are the uses themselves where they are known, and `worth` is their zCDP. `state` is open,
    frozen or closed.
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
    """The sum of the largest losses of what was drawn; infinite when one is unbounded or the sum is not known."""
    charge_uses: tuple[tuple[tuple[Use, ...], float | None], ...] | None = None
    """The uses of each charge, and the delta that its question was asked with; None where entries were not read."""
    more_like_last: int | None = None
    """How many more charges like the last one the account can pay; None without charges, or where not computed."""

    @property
    def name(self) -> str:
        """The account's name, or the dataset of a cap."""
        return self.terms.name

    @property
    def kind(self) -> Kind:
        """Whether uses are registered, or a total is spent."""
        return self.terms.kind

    @property
    def analyst(self) -> str:
        """Whose account it is; may be empty."""
        return self.terms.analyst

    @property
    def dataset(self) -> str:
        """The dataset it is about; may be empty."""
        return self.terms.dataset

    @property
    def epsilon(self) -> CertifiedBound:
        """The bracket promised at `delta` for a whole period."""
        return self.terms.epsilon

    @property
    def delta(self) -> float:
        """The delta of the promise, and of the odometer."""
        return self.terms.delta

    @property
    def every(self) -> Period | None:
        """The calendar period after which the budget is fresh."""
        return self.terms.period

    @property
    def odometer(self) -> CertifiedBound:
        """The epsilon so far, as a stopping rule.

        For every epsilon fixed in advance, all answers given before the reading passes it are together
        (epsilon, delta)-DP. The reading is at most the sum of the charges' own epsilons while the sum of their deltas
        is at most half of the account's delta without its failures. Computed when it is asked for, which takes up to
        some tenths of a second; remembered for the same draws.

        Theorem: docs/ledger.md, "The odometer".
        """
        return _odometer(self.terms, self.drawn, self.worth, self.largest, self.charge_uses)

    @property
    def charged(self) -> tuple[float, float] | None:
        """The sums of the charges' own epsilons and deltas, each charge taken by itself; None if one is not known."""
        return None if self.charge_uses is None else sum_of_charges(self.charge_uses)

    @property
    def path_odometer(self) -> CertifiedBound:
        """The epsilon so far on the path: the loss of the answers passes it at no time, but for probability delta.

        That is a stronger statement than `odometer`, so its number can be larger.
        """
        return _path_odometer(self.terms, self.drawn, self.worth, self.largest)

    @property
    def epsilon_left(self) -> float | None:
        """The largest epsilon of one further question that the account pays for; None for registered uses.

        For a wallet that is the epsilon of the Gaussian mechanism that it still pays for, or what is left of the sum of
        epsilons where that is more. Rounded down.
        """
        return None if self.terms.uses else _epsilon_left(self.terms, self.left, self.share_left)

    @property
    def loss_so_far(self) -> float:
        """The epsilon at `delta` of what was drawn: the odometer's, or the promise where that is less."""
        return min(self.odometer.upper, self.epsilon.upper)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that the command line prints and the service sends."""
        path = self.path_odometer
        return self.summary() | {
            "odometer": {"lower": self.odometer.lower, "upper": self.odometer.upper},
            "path_odometer": {"lower": path.lower, "upper": None if math.isinf(path.upper) else path.upper},
            "epsilon_left": self.epsilon_left,
            "more_like_last": self.more_like_last,
        }

    def summary(self) -> dict[str, object]:
        """Return the JSON object without the odometer, which alone takes time: for lists of accounts."""
        return {
            "account": self.name,
            "kind": self.kind,
            "analyst": self.analyst,
            "dataset": self.dataset,
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
    """Return the status of an account that has spent these amounts of its lines in a period."""
    counts = [(use, spent.get(line_of(use), 0)) for use in terms.uses]
    left = [Use(use.guarantee, use.count - count) for use, count in counts if count < use.count]
    drawn = tuple(Use(use.guarantee, count) for use, count in counts if count)
    worth, used = filter_parameters(drawn), list(drawn)
    share = sum(use.count for use in left) / sum(use.count for use in terms.uses) if terms.uses else 0.0
    largest = largest_loss((use.guarantee, use.count) for use in drawn)
    if terms.totals is not None:
        lines = terms.totals.lines()
        amounts = {what: spent.get(what, 0) for what in lines}
        rest = {what: lines[what] - amounts[what] for what in lines}
        left += terms.totals.largest(rest)
        used += terms.totals.spent_as(amounts)
        beside = terms.totals.worth(amounts)
        worth = beside if not drawn else Spent(up(worth.rho + beside.rho), up(worth.failure_sum + beside.failure_sum))
        share = max(rest[line] / lines[line] for line in terms.totals.paying(amounts)) if not terms.uses else share
        largest = up(largest + terms.totals.loss_sum(amounts))
    return AccountStatus(
        terms=terms,
        period=period,
        left=tuple(left),
        spent=tuple(used),
        share_left=share,
        charges=charges,
        state=state,
        drawn=drawn if terms.totals is None else None,
        worth=worth,
        largest=largest,
    )


@lru_cache(maxsize=4096)
def _epsilon_left(terms: Terms, left: tuple[Use, ...], share_left: float) -> float:
    """Return the largest epsilon, at the account's delta without its failures, of what is left as one mechanism."""
    kept = [use for use in left if not isinstance(use.guarantee, ApproxDP)]
    if not kept:
        return 0.0
    if share_left == 1.0:
        return terms.epsilon.upper
    guarantee = kept[0].guarantee
    if isinstance(guarantee, PureDP):
        return min(guarantee.epsilon, terms.epsilon.upper)
    mechanism = ZeroConcentratedDP(rho=guarantee.rho) if isinstance(guarantee, ZeroConcentratedDP) else guarantee
    try:
        found = compose([Use(mechanism)], Interaction.BATCH).epsilon(terms.delta - failure_probability(terms))
    except Unattainable:
        return 0.0
    return min(down(found.lower), terms.epsilon.upper)


def failure_probability(terms: Terms) -> float:
    """Return the part of an account's delta that outright failures may use up, rounded up."""
    if terms.totals is not None and not terms.uses:
        return up(terms.failure_share * terms.delta)
    beside = 0.0 if terms.totals is None else terms.totals.failure
    return up(classify(terms.uses).failure.upper + beside)


def charge_sum_delta(terms: Terms) -> float:
    """Return the part of delta at which the odometer adds up charges: half of what failures leave, rounded down."""
    return max(0.0, down(0.5 * (terms.delta - failure_probability(terms))))


@lru_cache(maxsize=4096)
def charge_guarantee(uses: tuple[Use, ...], delta: float | None) -> tuple[float, float] | None:
    """Return an (epsilon, delta) that the uses of one charge satisfy together; None if none is known.

    `delta` is the one that the question was asked with. Without it the uses must have bounded losses, and delta is the
    probability that they fail.
    """
    found = [(largest_loss((use.guarantee, use.count) for use in uses), filter_parameters(uses).failure_sum)]
    if delta:
        with suppress(Unattainable):
            found.append((compose(uses, Interaction.SETWISE).epsilon(delta).upper, delta))
    known = [(epsilon, own) for epsilon, own in found if math.isfinite(epsilon)]
    return min(known) if known else None


_MOST_CHARGES = 500
"""Different charges whose own guarantees are added up; composing more would take seconds."""


def sum_of_charges(charges: Collection[tuple[tuple[Use, ...], float | None]]) -> tuple[float, float] | None:
    """Return the sums of the charges' own epsilons and deltas, rounded up; None if one is not known.

    Each charge has its uses and the delta that its question was asked with, if that is known.
    """
    counts = Counter(charge for charge in charges if charge[0])
    if len(counts) > _MOST_CHARGES:
        return None
    epsilon = delta = 0.0
    for (uses, asked), count in counts.items():
        own = charge_guarantee(uses, asked)
        if own is None:
            return None
        epsilon = up(epsilon + up(count * own[0]))
        delta = up(delta + up(count * own[1])) if own[1] else delta
    return epsilon, delta


@lru_cache(maxsize=4096)
def _odometer(
    terms: Terms,
    drawn: tuple[Use, ...] | None,
    worth: Spent,
    largest: float,
    charge_uses: tuple[tuple[tuple[Use, ...], float | None], ...] | None,
) -> CertifiedBound:
    if worth == Spent() and not drawn:
        return _NOTHING_DRAWN
    charged = None if charge_uses is None else sum_of_charges(charge_uses)
    return _with_lower_end(terms, drawn, stopping_bound(terms, worth, largest, charged))


@lru_cache(maxsize=4096)
def _path_odometer(terms: Terms, drawn: tuple[Use, ...] | None, worth: Spent, largest: float) -> CertifiedBound:
    if worth == Spent() and not drawn:
        return _NOTHING_DRAWN
    return _with_lower_end(terms, drawn, pathwise_bound(terms, worth, largest))


_NOTHING_DRAWN = CertifiedBound(0.0, 0.0, Interaction.ADAPTIVE, "nothing-drawn", "nothing")


def _with_lower_end(terms: Terms, drawn: tuple[Use, ...] | None, best: CertifiedBound) -> CertifiedBound:
    """Return the bracket of an odometer; `drawn` is None where only sums of zCDP are known.

    The lower end is reached by an analyst who had fixed just these draws in advance; it is 0 where they are not known.
    """
    if drawn is None:
        return best
    lower = float(epsilon_reached(drawn, terms.delta))
    return CertifiedBound(min(lower, best.upper), best.upper, best.interaction, best.method, best.statement)


def stopping_bound(terms: Terms, worth: Spent, largest: float, charged: tuple[float, float] | None) -> CertifiedBound:
    """Return the epsilon so far as a stopping rule: the least of three readings.

    The zCDP odometer and the sum of the largest losses share one part of delta. The sum of the charges' own epsilons
    counts while the sum of their deltas is at most the other part (`charge_sum_delta`).

    Theorem: docs/ledger.md, "The odometer".
    """
    summed = charge_sum_delta(terms)
    best = pathwise_bound(terms, worth, largest, delta=up(terms.delta - summed))
    if charged is not None and charged[1] <= summed and charged[0] < best.upper:
        return CertifiedBound(0.0, charged[0], Interaction.ADAPTIVE, "sum-of-charges", "docs/ledger.md, the odometer")
    return best


def pathwise_bound(terms: Terms, worth: Spent, largest: float, *, delta: float | None = None) -> CertifiedBound:
    """Return the lesser of a zCDP odometer and `largest`, the sum of the largest losses.

    The account keeps failures within the share of delta that was fixed at its opening. Outside them the sum is never
    passed, and the odometer with probability at most the rest of delta, at all moments together. So the lesser of the
    two may be read at every moment. The promise of the whole period is no such bound: a loss may pass an epsilon with
    a larger probability than the delta of (epsilon, delta)-DP. `delta` is the account's unless given.

    Theorem: WhitehouseRaRoWu23 (the odometer), DworkKeMcMiNa06 (the sum).
    """
    delta = terms.delta if delta is None else delta
    if terms.totals is not None and not terms.uses:
        most = terms.totals.most_rho
        share = terms.failure_share if delta == terms.delta else _share(failure_probability(terms), delta)
    else:
        most = filter_parameters(terms.uses).rho + (0.0 if terms.totals is None else terms.totals.most_rho)
        share = _share(failure_probability(terms), delta)
    odometer = CertifiedBound(0.0, math.inf, Interaction.ADAPTIVE, "zcdp-odometer", "WhitehouseRaRoWu23")
    if share < 1.0:  # else failures leave nothing of delta for an odometer
        odometer = ZcdpOdometer(
            delta=delta,
            failure_share=share,
            most_rho=min(max(most, SMALLEST_EPSILON), LARGEST_EPSILON),
            spent=Spent(worth.rho),
        ).answer()
    if odometer.upper <= largest:
        return odometer
    return CertifiedBound(0.0, largest, Interaction.ADAPTIVE, "basic-composition", "DworkKeMcMiNa06")


def _share(failed: float, delta: float) -> float:
    """Return the share of delta that holds all failures of the registered uses, rounded up."""
    return up(failed / delta * (1 + 1e-15)) if failed else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The joint promise of the accounts on a dataset: `epsilon` at `delta`, over `periods` periods of each.

    It covers analysts who pool all answers and choose every question together. `cap` is how the dataset's cap stands,
    if it has one; its own promise holds for good, however many periods pass.
    """

    dataset: str
    accounts: tuple[str, ...]
    periods: int
    delta: float
    epsilon: CertifiedBound
    cap: AccountStatus | None

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that the command line prints and the service sends."""
        return {
            "dataset": self.dataset,
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
    """Return the joint promise of accounts opened on these terms.

    Set-wise accounts together are one set-wise interaction with all their registered uses. With filters among them,
    all totals are fixed in advance, so the whole is one interaction that never passes the sum of the totals: a zCDP
    filter with that budget would never stop it. A wallet beside registered uses stands for one Gaussian mechanism among
    them. Where a filter has a wallet, each filter and period stands for one (epsilon, delta)-DP mechanism among them:
    an interaction that is so private can be played back from one such answer, given in advance.

    Theorem: docs/ledger.md, colluding analysts; WhitehouseRaRoWu23 for filters, Lyu22 for interactions side by side.
    """
    if not terms:
        raise InvalidParameter(f"no account is open on the dataset {dataset!r}")
    check_count(periods, "periods")
    times = [1 if own.period is None else periods for own in terms]
    promised = sum(own.delta * n for own, n in zip(terms, times, strict=True))
    asked = check_delta(min(promised, 0.5) if delta is None else delta)
    filters = [own for own in terms if own.kind == "filter"]
    by_promise = any(own.totals is not None and own.totals.price_depends_on_balance for own in filters)
    budgets = [_promise(own) if by_promise and own.kind == "filter" else _budget(own) for own in terms]
    uses = merged(Use(use.guarantee, use.count * n) for own, n in zip(budgets, times, strict=True) for use in own)
    setwise = by_promise or not filters
    covered = [cap.epsilon] if cap is not None and cap.delta <= asked else []
    try:
        covered.append(compose(uses, Interaction.SETWISE if setwise else Interaction.ADAPTIVE).epsilon(asked))
    except Unattainable:
        if not covered:
            raise
    epsilon = min(covered, key=lambda answer: answer.upper)
    names = tuple(sorted(own.name for own in terms))
    return Joint(dataset=dataset, accounts=names, periods=periods, delta=asked, epsilon=epsilon, cap=cap)


def _budget(terms: Terms) -> tuple[Use, ...]:
    """Return all that an account may spend in a period, as uses."""
    return terms.uses if terms.totals is None else (*terms.uses, *terms.totals.as_uses())


def _promise(terms: Terms) -> tuple[Use, ...]:
    """Return the promise of an account for a period, as one (epsilon, delta)-DP use."""
    return (Use(ApproxDP(epsilon=terms.epsilon.upper, delta=terms.delta)),)

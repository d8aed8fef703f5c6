"""Status of an account: what was promised, what is left, and a bound on the privacy loss of the draws so far."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from setwise.accounting.bounds import classify, lower_bound
from setwise.accounting.brackets import Answer, Interaction, up
from setwise.accounting.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from setwise.accounting.filters import Spent, ZcdpOdometer, filter_parameters
from setwise.accounting.guarantees import Use, largest_loss
from setwise.accounting.notation import format_use
from setwise.errors import Unattainable
from setwise.ledger.amounts import SUM, UNITS, Totals, WalletTotals, worth_above
from setwise.ledger.slices import RULE, CapTotals, Rule
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
    def epsilon(self) -> Answer:
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
    def odometer(self) -> Answer:
        """A bound that the privacy loss of this period's draws passes at no moment, with probability 1 - delta.

        Computed when it is asked for, which takes up to some tenths of a second; remembered for the same draws.
        """
        return _odometer(self.terms, self.drawn, self.worth, self.largest)

    @property
    def loss_so_far(self) -> float:
        """The epsilon at `delta` of what was drawn: the odometer's, or the promise where that is less."""
        return min(self.odometer.upper, self.epsilon.upper)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that the command line prints and the service sends."""
        return self.summary() | {"odometer": {"lower": self.odometer.lower, "upper": self.odometer.upper}}

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
        largest = up(largest + _summed(terms.totals, amounts))
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


def _summed(totals: Totals | WalletTotals | CapTotals, amounts: Mapping[str, int]) -> float:
    """Return the sum of the largest losses drawn beside registered uses; infinite where it is not known."""
    match totals:  # else a use may have passed the sum
        case WalletTotals(limit=limit) if limit and amounts[SUM] < UNITS:
            return worth_above(amounts[SUM], limit)
        case CapTotals(limit=limit) if amounts[RULE] != Rule.WALLET:
            return worth_above(amounts[SUM], limit)
    return math.inf if any(amounts.values()) else 0.0


@lru_cache(maxsize=4096)
def _odometer(terms: Terms, drawn: tuple[Use, ...] | None, worth: Spent, largest: float) -> Answer:
    """Return the bracket of the loss so far; `drawn` is None where only sums of zCDP are known.

    The lower end is reached by an analyst who had fixed just these draws in advance; it is 0 where they are not known.
    """
    if worth == Spent() and not drawn:
        return Answer(0.0, 0.0, Interaction.ADAPTIVE, "nothing-drawn", "nothing")
    best = pathwise_bound(terms, worth, largest)
    if drawn is None:
        return best
    try:
        lower = float(lower_bound(drawn).epsilon(terms.delta, None).lower)
    except Unattainable:
        lower = 0.0
    return Answer(min(lower, best.upper), best.upper, best.interaction, best.method, best.statement)


def pathwise_bound(terms: Terms, worth: Spent, largest: float) -> Answer:
    """Return the lesser of a zCDP odometer and `largest`, the sum of the largest losses.

    The account keeps failures within the share of delta that was fixed at its opening. Outside them the sum is never
    passed, and the odometer with probability at most the rest of delta, at all moments together. So the lesser of the
    two may be read at every moment. The promise of the whole period is no such bound: a loss may pass an epsilon with
    a larger probability than the delta of (epsilon, delta)-DP.

    Theorem: WhitehouseRaRoWu23 (the odometer), DworkKeMcMiNa06 (the sum).
    """
    if terms.totals is not None and not terms.uses:
        most, share = terms.totals.most_rho, terms.failure_share
    else:
        registered, beside = filter_parameters(terms.uses), terms.totals
        failed = classify(terms.uses).failure.upper + (0.0 if beside is None else beside.failure)
        most = registered.rho + (0.0 if beside is None else beside.most_rho)
        share = _share(up(failed), terms.delta)
    odometer = Answer(0.0, math.inf, Interaction.ADAPTIVE, "zcdp-odometer", "WhitehouseRaRoWu23")
    if share < 1.0:  # else failures leave nothing of delta for an odometer
        odometer = ZcdpOdometer(
            delta=terms.delta,
            failure_share=share,
            most_rho=min(max(most, SMALLEST_EPSILON), LARGEST_EPSILON),
            spent=Spent(worth.rho),
        ).answer()
    if odometer.upper <= largest:
        return odometer
    return Answer(0.0, largest, Interaction.ADAPTIVE, "basic-composition", "DworkKeMcMiNa06")


def _share(failed: float, delta: float) -> float:
    """Return the share of delta that holds all failures of the registered uses, rounded up."""
    return up(failed / delta * (1 + 1e-15)) if failed else 0.0

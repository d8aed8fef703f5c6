"""How an account stands: what was promised, what is left, and what the draws so far are worth."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.bounds import lower_bound
from setwise.accounting.classify import sort_uses
from setwise.accounting.filters import Spent, ZcdpOdometer, filter_parameters
from setwise.accounting.guarantees import LARGEST_EPSILON, SMALLEST_EPSILON, Use
from setwise.accounting.losses.dominating_pairs import largest_loss
from setwise.accounting.notation import format_use
from setwise.errors import Unattainable
from setwise.ledger.amounts import RHO, Totals
from setwise.ledger.terms import Kind, Period, Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """An account in its present period (`period` is empty for an account without periods).

    `epsilon` is the bracket promised at `delta` for a whole period. A set-wise account has `left` and `spent` as counts
    of registered uses. A filter has them as zCDP: `left` is the largest single use that it would still admit. The
    `odometer` bounds the privacy loss of the draws made so far in this period.
    """

    name: str
    kind: Kind
    analyst: str
    dataset: str
    epsilon: Answer
    delta: float
    left: tuple[Use, ...]
    spent: tuple[Use, ...]
    share_left: float
    odometer: Answer
    charges: int
    every: Period | None
    period: str

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that the command line prints and the service sends."""
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
            "odometer": {"lower": self.odometer.lower, "upper": self.odometer.upper},
            "charges": self.charges,
            "every": self.every,
            "period": self.period or None,
        }


def status_of(terms: Terms, period: str, spent: Mapping[str, int], charges: int) -> AccountStatus:
    """Return the status of an account that has spent these amounts of its lines in a period."""
    if terms.totals is not None:
        left, drawn, worth, share = _filter(terms.totals, spent)
    else:
        left, drawn, worth, share = _setwise(terms, spent)
    return AccountStatus(
        name=terms.name,
        kind=terms.kind,
        analyst=terms.analyst,
        dataset=terms.dataset,
        epsilon=terms.epsilon,
        delta=terms.delta,
        left=left,
        spent=drawn,
        share_left=share,
        odometer=_odometer(terms, drawn, worth),
        charges=charges,
        every=terms.period,
        period=period,
    )


_Found = tuple[tuple[Use, ...], tuple[Use, ...], Spent, float]


def _filter(totals: Totals, spent: Mapping[str, int]) -> _Found:
    lines = totals.lines()
    amounts = {what: spent.get(what, 0) for what in lines}
    rest = {what: lines[what] - amounts[what] for what in lines}
    worth = totals.worth(amounts)
    used = Totals(worth.rho, worth.failed)
    return totals.largest(rest), used.largest(used.lines()), worth, rest[RHO] / lines[RHO]


def _setwise(terms: Terms, spent: Mapping[str, int]) -> _Found:
    counts = [(use, spent.get(format_use(Use(use.guarantee)), 0)) for use in terms.uses]
    left = tuple(Use(use.guarantee, use.count - count) for use, count in counts if count < use.count)
    drawn = tuple(Use(use.guarantee, count) for use, count in counts if count)
    share = sum(use.count for use in left) / sum(use.count for use in terms.uses)
    return left, drawn, filter_parameters(drawn), share


@lru_cache(maxsize=4096)
def _odometer(terms: Terms, drawn: tuple[Use, ...], worth: Spent) -> Answer:
    """Return a bracket of the loss so far: the least of an odometer, the sum of the losses, and the whole promise.

    The lower end is reached by an analyst who had fixed just these draws in advance; a filter, which keeps only sums,
    has 0 there.
    """
    if not drawn:
        return Answer(0.0, 0.0, Interaction.ADAPTIVE, "nothing-drawn", "nothing")
    best = best_odometer(terms, drawn, worth)
    if terms.totals is not None:
        return Answer(0.0, best.upper, best.interaction, best.method, best.statement)
    try:
        lower = lower_bound(drawn).epsilon(terms.delta, None).lower
    except Unattainable:
        lower = 0.0
    return Answer(min(float(lower), best.upper), best.upper, best.interaction, best.method, best.statement)


def best_odometer(terms: Terms, drawn: tuple[Use, ...], worth: Spent) -> Answer:
    """Return the least upper end of an odometer, the sum of the losses, and the whole promise."""
    most = filter_parameters(terms.uses).rho if terms.totals is None else terms.totals.rho
    odometer = ZcdpOdometer(
        delta=terms.delta,
        failure_share=terms.failure_share,
        most_rho=min(max(most, SMALLEST_EPSILON), LARGEST_EPSILON),
        spent=worth,
    ).answer()
    return min(odometer, _basic(drawn, terms.delta), terms.epsilon, key=lambda answer: answer.upper)


def _basic(drawn: tuple[Use, ...], delta: float) -> Answer:
    """Return the sum of the largest losses, infinite where there is none or failures are too likely.

    Theorem: DworkKeMcMiNa06 (basic composition); it holds at every moment, whatever is chosen on the fly.
    """
    kinds = sort_uses(drawn)
    total = math.inf
    if not kinds.classes and filter_parameters(drawn).failed <= delta:
        largest = [largest_loss(known) * count for known, count in kinds.linear]
        total = math.fsum(largest + [epsilon * count for epsilon, count in kinds.ranges]) * (1 + 1e-15)
    return Answer(0.0, total, Interaction.ADAPTIVE, "basic-composition", "DworkKeMcMiNa06")

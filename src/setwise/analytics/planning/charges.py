"""The privacy promise of a plan: a certified epsilon for its mechanism runs together, at a given delta.

The delta is that of the account which pays, or the delta of the question's own budget if no account pays.
"""

from typing import TypeAlias

from setwise.accounting.brackets import CertifiedBound, Interaction, float_below
from setwise.accounting.guarantees import Use
from setwise.analytics.budget import NO_ACCOUNT_TO_DRAW_FROM, Budget
from setwise.analytics.planning.account_mechanism import check_planned, check_registered
from setwise.errors import InvalidParameter
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.planning.cost import certified_price
from setwise.mechanisms.planning.request import Total

Charge: TypeAlias = tuple[CertifiedBound, float, tuple[float, float] | None]
"""The promise for mechanism runs: (certified epsilon, delta, (epsilon, delta) of the runs alone)."""


def promise_within(uses: tuple[Use, ...], total: Total, status: AccountStatus | None) -> Charge:
    """Return (cost, delta, alone), the privacy promise of a question that runs the mechanisms `uses`.

    - `uses` are the mechanisms, each as a privacy guarantee and a number of runs, and `total` is the question's budget.
    - `status` is the status of the account that pays, or None.

    The three results:

    - `cost` is a certified epsilon for all `uses` together, at `delta`.
    - `delta` is the delta of the account that pays. If no account pays, it is the question's own delta, or 0 if `uses`
      satisfy pure DP within the question's epsilon.
    - `alone` is None if no account pays. Otherwise it is the cost that the answer shows: a pair (epsilon, delta) for
      `uses`, where delta is the question's own, or 0 if `uses` satisfy pure DP within the question's epsilon.
    Raises: `InvalidParameter` or `BudgetExhausted` if the account pays with guarantees that it registered in advance,
    and did not register those in `uses`, or too few runs of them (see `check_planned`).
    """
    # A question whose uses satisfy pure DP within its epsilon needs no delta.
    is_pure = certified_price(uses, 0.0, Interaction.SETWISE).upper <= total.epsilon
    question_delta = 0.0 if is_pure else float_below(total.delta)
    if status is None:
        return certified_price(uses, question_delta, Interaction.SETWISE), question_delta, None
    interaction = Interaction.ADAPTIVE
    if status.kind == "setwise":
        interaction = Interaction.SETWISE
        check_planned(uses, status)
    alone = (certified_price(uses, question_delta, Interaction.SETWISE).upper, question_delta)
    return certified_price(uses, status.delta, interaction), status.delta, alone


def promise_of(uses: tuple[Use, ...], budget: Budget, status: AccountStatus | None) -> Charge:
    """Return (cost, delta, alone), the privacy promise for `uses`, the mechanism runs of several queries together.

    - `cost` is the certified epsilon of all these runs together, at `delta`.
    - `delta` is the delta of the account that pays. If no account pays (`status` is None), it is the delta of `budget`,
      or 0 if `uses` satisfy pure DP within the epsilon of `budget`.
    - `alone` is (epsilon, delta) of `uses` by themselves, at the delta of `budget` (or at 0, as above); the answer
      shows it as its own cost. It is None if no account pays, or if `budget` names registered guarantees, because such
      a budget has no delta.
    Raises: `InvalidParameter` if `budget` names registered guarantees and no account pays.
    """
    if isinstance(budget, Total):
        return promise_within(uses, budget, status)
    if status is None:
        raise InvalidParameter(NO_ACCOUNT_TO_DRAW_FROM)
    interaction = Interaction.SETWISE if status.kind == "setwise" else Interaction.ADAPTIVE
    if interaction is Interaction.SETWISE:
        check_registered(uses, status)
    return certified_price(uses, status.delta, interaction), status.delta, None

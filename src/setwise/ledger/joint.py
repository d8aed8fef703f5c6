"""What all accounts on a dataset promise together, should their analysts collude."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.accounting.brackets import Answer, Interaction
from setwise.accounting.checks import check_count, check_delta
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import ApproxDP, Use, ZeroConcentratedDP, merged
from setwise.errors import InvalidParameter, Unattainable
from setwise.ledger.amounts import Totals, WalletTotals
from setwise.ledger.status import AccountStatus
from setwise.ledger.terms import Terms


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
    epsilon: Answer
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
    by_promise = any(isinstance(own.totals, WalletTotals) for own in filters)
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
    match terms.totals:
        case WalletTotals():
            return (*terms.uses, *terms.totals.as_uses())
        case Totals(rho=rho, failure=failure):
            return (Use(ZeroConcentratedDP(rho=rho, delta=failure)),)
        case _:
            return terms.uses


def _promise(terms: Terms) -> tuple[Use, ...]:
    """Return the promise of an account for a period, as one (epsilon, delta)-DP use."""
    return (Use(ApproxDP(epsilon=terms.epsilon.upper, delta=terms.delta)),)

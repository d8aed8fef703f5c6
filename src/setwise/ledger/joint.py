"""What all accounts on a dataset promise together, should their analysts collude."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.checks import check_count, check_delta
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import ApproxDP, Use, ZeroConcentratedDP, merged
from setwise.errors import InvalidParameter, Unattainable
from setwise.ledger.amounts import WalletTotals
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
    filter with that budget would never stop it. A wallet beside registered uses stands for one
    Gaussian mechanism among them. Where a filter has a wallet, all accounts join by their promises, as interactions
    that run side by side.

    Theorem: docs/ledger.md, colluding analysts; WhitehouseRaRoWu23 for filters, Lyu22 for interactions side by side.
    """
    if not terms:
        raise InvalidParameter(f"no account is open on the dataset {dataset!r}")
    check_count(periods, "periods")
    promised = sum(own.delta * _times(own, periods) for own in terms)
    asked = check_delta(min(promised, 0.5) if delta is None else delta)
    uses = merged(use for own in terms for use in _budget(own, periods))
    setwise = all(own.kind == "setwise" for own in terms)
    if not setwise and any(isinstance(own.totals, WalletTotals) for own in terms):
        # A sum of losses may overdraw a wallet, and its zCDP is not bounded: only the promises themselves are known.
        uses, setwise = merged(use for own in terms for use in _promise(own, periods)), True
    covered = [cap.epsilon] if cap is not None and cap.delta <= asked else []
    try:
        covered.append(compose(uses, Interaction.SETWISE if setwise else Interaction.ADAPTIVE).epsilon(asked))
    except Unattainable:
        if not covered:
            raise
    epsilon = min(covered, key=lambda answer: answer.upper)
    names = tuple(sorted(own.name for own in terms))
    return Joint(dataset=dataset, accounts=names, periods=periods, delta=asked, epsilon=epsilon, cap=cap)


def _budget(terms: Terms, periods: int) -> list[Use]:
    """Return all that an account may spend over some periods, as uses."""
    times = _times(terms, periods)
    if isinstance(terms.totals, WalletTotals):
        return [Use(use.guarantee, use.count * times) for use in (*terms.uses, *terms.totals.as_uses())]
    if terms.totals is not None:
        return [Use(ZeroConcentratedDP(rho=terms.totals.rho, delta=terms.totals.failure), times)]
    return [Use(use.guarantee, use.count * times) for use in terms.uses]


def _promise(terms: Terms, periods: int) -> list[Use]:
    """Return the promise of an account as (epsilon, delta)-DP uses, one for each period."""
    return [Use(ApproxDP(epsilon=terms.epsilon.upper, delta=terms.delta), _times(terms, periods))]


def _times(terms: Terms, periods: int) -> int:
    """Return how often the budget of an account is fresh over some periods."""
    return 1 if terms.period is None else periods

"""Admission to a wallet and to a zCDP filter, use by use, as the theorems state it: what the ledger must agree with."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction

from setwise.accounting.brackets import UNIT, up
from setwise.accounting.guarantees import Use
from setwise.accounting.prices import after_paying
from setwise.accounting.wallet import Wallet, wallet_shortage
from setwise.accounting.zcdp_filter import Spent, ZcdpFilter
from setwise.errors import BudgetExhausted


class Admission(StrEnum):
    """The rule by which a use is admitted."""

    PAID = "paid"
    """The wallet pays for it."""
    PLAIN_SUM = "plain-sum"
    """The wallet cannot pay, and is overdrawn from then on; all largest losses add up to at most epsilon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittingWallet(Wallet):
    """A wallet and what was taken from it, as a value: admitting a use returns another.

    `left` is None once the wallet is overdrawn, and `loss_sum` once a loss is unbounded.
    """

    left: float | None = None
    failure_sum: float = 0.0
    loss_sum: Fraction | None = Fraction(0)

    @classmethod
    def of(cls, size, *, failure_limit=0.0, loss_limit=0.0):
        full = Wallet.of(size, failure_limit=failure_limit, loss_limit=loss_limit)
        return cls(size=full.size, failure_limit=failure_limit, loss_limit=loss_limit, left=full.size)

    def admission(self, use: Use) -> Admission | None:
        """Return by which rule the use would be admitted, or None when it does not fit."""
        after = self._after(use)
        if after is None:
            return None
        return Admission.PLAIN_SUM if after.left is None else Admission.PAID

    def admits(self, use: Use) -> bool:
        """Return whether the use fits in what is left."""
        return self._after(use) is not None

    def admit(self, use: Use) -> "Wallet":
        """Return the wallet after the use; raise `BudgetExhausted` when it does not fit.

        Theorem: docs/optimal-composition.md, Theorem 7, and "The sum of epsilons counts too".
        """
        after = self._after(use)
        if after is None:
            raise BudgetExhausted(self.shortage(use))
        return after

    def admit_registered(self, use: Use) -> "Wallet":
        """Return the wallet after a draw from the multiset registered beside it, which pays nothing.

        Once the wallet is overdrawn such a draw, too, is admitted only while the sum of largest losses allows it.
        """
        lost = self._lost_after(use)
        if self.left is None and not self._within_limit(lost):
            raise BudgetExhausted("the wallet is overdrawn, and this draw would pass the sum of epsilons")
        return replace(self, loss_sum=lost)

    def shortage(self, use: Use) -> str:
        """Return, in words, why the use does not fit and what would."""
        _, failure = use.guarantee.split_off_failure()
        if self._failed_after(use) > self.failure_limit:
            return (
                f"this use fails outright with probability {use.count * failure:.3g}, "
                f"and {max(0.0, self.failure_limit - self.failure_sum):.3g} of that is left"
            )
        if self.left is None:
            return "the wallet is overdrawn, and this use would pass the sum of epsilons"
        return wallet_shortage([use], self.left)

    def _after(self, use: Use) -> "Wallet | None":
        failed = self._failed_after(use)
        if failed > self.failure_limit:
            return None
        lost = self._lost_after(use)
        left = None if self.left is None else after_paying(use.guarantee.price, use.count, self.left)
        if left is None and not self._within_limit(lost):
            return None
        return replace(self, left=left, failure_sum=failed, loss_sum=lost)

    def _failed_after(self, use: Use) -> float:
        _, failure = use.guarantee.split_off_failure()
        return up(self.failure_sum + use.count * failure * (1.0 + 4.0 * UNIT)) if failure else self.failure_sum

    def _lost_after(self, use: Use) -> Fraction | None:
        loss = use.guarantee.largest_loss()
        return None if loss is None or self.loss_sum is None else self.loss_sum + use.count * loss

    def _within_limit(self, lost: Fraction | None) -> bool:
        return lost is not None and lost <= Fraction(self.loss_limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittingFilter(ZcdpFilter):
    """A zCDP filter and what was taken from it, as a value."""

    spent: Spent = field(default_factory=Spent)

    def admits(self, use: Use) -> bool:
        """Return whether the use fits in what is left."""
        after = self.spent.plus(use)
        return after.rho <= self.rho_budget and after.failure_sum <= self.delta * self.failure_share

    def admit(self, use: Use) -> "ZcdpFilter":
        """Return the filter after the use; raise `BudgetExhausted` when it does not fit.

        Theorem: WhitehouseRaRoWu23 (also FeldmanZr21).
        """
        if not self.admits(use):
            raise BudgetExhausted(
                f"this use would pass the budget of epsilon = {self.epsilon:g} at delta = {self.delta:g}; "
                f"{self.left:.1%} of it is left"
            )
        return replace(self, spent=self.spent.plus(use))

    @property
    def left(self) -> float:
        """The share of the rho budget that is left."""
        budget = self.rho_budget
        return max(0.0, 1.0 - self.spent.rho / budget) if budget else 0.0

"""A Gaussian wallet: a budget mu^2 from which mechanisms of any parameters, chosen on the fly, are paid.

Whatever the analyst does, what was paid from a wallet R is together no worse than one Gaussian mechanism with
mu^2 = R; beside a registered multiset, no worse than that multiset with this Gaussian added. A use costs less the more
is left behind it (docs/optimal-composition.md, "Gaussian wallets").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from setwise.accounting.brackets import UNIT, crossing, down, up
from setwise.accounting.checks import LARGEST_SCALE, check_delta, check_epsilon, check_failure
from setwise.accounting.guarantees import Gaussian, Use
from setwise.accounting.notation import rounded_up
from setwise.accounting.prices import after_paying
from setwise.errors import BudgetExhausted, InvalidParameter

FAILURE_SHARE = 0.02
"""The share of delta that is set aside for outright failures unless the opener says otherwise.

What it costs and buys is measured in docs/ledger.md, "The share for failures".
"""

PLAIN_SUM_SLACK = 1e-14
"""Plain sums may pass epsilon by this much, set aside from delta: five times the double 0.4 is a little above 2."""

SMALLEST_WALLET = 1e-12
"""A smaller wallet counts as empty."""

SMALLEST_DELTA = 1e-299
"""The least delta of a wallet: the delta of a Gaussian is known to within 1e-300 at best."""


class Admission(StrEnum):
    """By which rule a use is admitted."""

    PAID = "paid"
    """The wallet pays for it."""
    PLAIN_SUM = "plain-sum"
    """The wallet cannot pay, and is overdrawn from then on; all largest losses add up to at most epsilon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wallet:
    """What is left of a wallet, as a value: admitting a use returns another.

    `size` is mu^2 at the opening and `left` what is left of it, None once overdrawn. Probabilities of outright failure
    add up to `failure_sum`, at most `failure_limit`. Largest losses add up to `loss_sum`, None once it is unbounded;
    up to `loss_limit` uses are admitted that the wallet cannot pay.

    >>> from setwise.accounting.guarantees import PureDP
    >>> wallet = Wallet.for_promise(epsilon=2.0, delta=1e-6)
    >>> round(wallet.admit(Use(PureDP(epsilon=0.1), 10)).left, 4)
    0.0995
    >>> wallet.admission(Use(PureDP(epsilon=0.4), 5))
    <Admission.PLAIN_SUM: 'plain-sum'>
    """

    size: float
    failure_limit: float = 0.0
    loss_limit: float = 0.0
    left: float | None
    failure_sum: float = 0.0
    loss_sum: Fraction | None = Fraction(0)

    @classmethod
    def of(cls, size: float, *, failure_limit: float = 0.0, loss_limit: float = 0.0) -> "Wallet":
        """Return a full wallet of mu^2 = `size`."""
        if not 0.0 < size < math.inf:
            raise InvalidParameter(f"a wallet must be positive and finite, not {size!r}")
        return cls(size=size, failure_limit=failure_limit, loss_limit=loss_limit, left=size)

    @classmethod
    def for_promise(cls, *, epsilon: float, delta: float, failure_share: float = FAILURE_SHARE) -> "Wallet":
        """Return the largest wallet that keeps (epsilon, delta)-DP, `failure_share` of delta set aside for failures."""
        epsilon, delta = check_epsilon(epsilon), check_delta(delta)
        failures = delta * check_failure("failure_share", failure_share)
        slack = min(PLAIN_SUM_SLACK, 1e-3 * delta)
        if delta - failures <= slack:
            raise InvalidParameter(
                f"failure_share leaves nothing of delta for a wallet: give less than {failure_share!r}"
            )
        if delta - failures < SMALLEST_DELTA:
            raise InvalidParameter(f"a wallet needs a delta of at least {SMALLEST_DELTA:g} for itself, not {delta!r}")
        size = wallet_for(epsilon, (delta - failures - slack) * (1.0 - 8.0 * UNIT))
        return cls.of(size, failure_limit=failures, loss_limit=down(epsilon + slack))

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


def wallet_shortage(uses: Sequence[Use], left: float) -> str:
    """Return in words why a wallet of which mu^2 = `left` is left cannot pay for the uses, and which noise it could."""
    cost = math.fsum(use.count * use.guarantee.price(0.0) for use in uses)
    if cost == math.inf:
        return "a use has no price in a wallet, because only its zCDP is known: take a filter that adds up zCDP"
    if left < SMALLEST_WALLET:
        return "nothing is left"
    count = sum(use.count for use in uses)
    noise = f"Gaussian noise of sigma {rounded_up(math.sqrt(count / left), 4)}"
    return (
        f"it costs {rounded_up(cost / left, 4)} times what is left; "
        f"{noise}{'' if count == 1 else f' for each of the {count} uses'} would fit"
    )


def gaussian_of(size: float) -> Gaussian:
    """Return the Gaussian mechanism that a wallet of mu^2 = `size` stands for, its sigma rounded down."""
    return Gaussian(sigma=min(_sigma(size), LARGEST_SCALE))


def _sigma(size: float) -> float:
    return down(1.0 / math.sqrt(size)) * (1.0 - 4.0 * UNIT)


def wallet_for(epsilon: float, delta: float) -> float:
    """Return the largest mu^2, rounded down, for which one Gaussian mechanism is (epsilon, delta)-DP.

    Theorem: lem:AGM; what is returned was checked with an upper bound of the Gaussian's delta.
    """
    import numpy as np

    from setwise.accounting.losses.dominating_pairs import GaussianLoss

    at = np.array([epsilon])

    def spare(size: float) -> float:
        value, error = GaussianLoss(_sigma(size)).delta(at)
        return math.log(delta) - math.log(float(value[0] + error[0]))

    low = high = 1.0
    while spare(low) < 0.0:
        low *= 0.5
    while spare(high) > 0.0:
        high *= 2.0
    return crossing(spare, low, high, keep_left=True)

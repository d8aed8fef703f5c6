"""A Gaussian wallet: a budget mu^2 from which mechanisms of any parameters, chosen on the fly, are paid.

Whatever the analyst does, what was paid from a wallet R is together no worse than one Gaussian mechanism with
mu^2 = R; beside a registered multiset, no worse than that multiset with this Gaussian added. A use costs less the more
is left behind it (docs/optimal-composition.md, "Gaussian wallets").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from setwise.accounting.brackets import UNIT, crossing, down
from setwise.accounting.checks import LARGEST_SCALE, check_delta, check_epsilon, check_failure
from setwise.accounting.guarantees import Gaussian, Use
from setwise.accounting.notation import rounded_up
from setwise.errors import InvalidParameter

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wallet:
    """The budget of an account whose uses are chosen on the fly: its three limits.

    `size` is mu^2, from which uses are paid. Probabilities of outright failure may add up to `failure_limit`. As long
    as the largest losses of all uses add up to at most `loss_limit`, uses are admitted that the wallet cannot pay for.
    What is left of each is kept by the ledger.

    >>> wallet = Wallet.for_promise(epsilon=2.0, delta=1e-6)
    >>> round(wallet.size, 4), wallet.failure_limit
    (0.2006, 2e-08)
    """

    size: float
    failure_limit: float = 0.0
    loss_limit: float = 0.0

    @classmethod
    def of(cls, size: float, *, failure_limit: float = 0.0, loss_limit: float = 0.0) -> "Wallet":
        """Return a full wallet of mu^2 = `size`."""
        if not 0.0 < size < math.inf:
            raise InvalidParameter(f"a wallet must be positive and finite, not {size!r}")
        return cls(size=size, failure_limit=failure_limit, loss_limit=loss_limit)

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

"""A Gaussian wallet: a budget of mu squared that pays for mechanisms of any parameters, chosen on the fly.

Whatever uses an adversary chooses, those paid from a wallet of size R are together no worse than one Gaussian mechanism
with mu^2 = R. If an account also has registered uses, all its uses together are no worse than the registered uses
followed by this Gaussian. The more a use leaves in the wallet, the less it costs, because the price is what the use
adds to the Gaussian that stands for the remaining budget (docs/optimal-composition.md, "Gaussian wallets").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from setwise.accounting.brackets import UNIT, crossing, down
from setwise.accounting.checks import LARGEST_SCALE, check_delta, check_epsilon, check_failure
from setwise.accounting.guarantees import Gaussian, Use
from setwise.accounting.promises import rounded_up
from setwise.errors import InvalidParameter

FAILURE_SHARE = 0.02
"""Share of delta that is set aside for outright failures unless the account is opened with another share.

docs/ledger.md, "The share for failures", measures its cost and its benefit.
"""

PLAIN_SUM_SLACK = 1e-14
"""Amount by which plain sums may exceed epsilon, paid for from delta. It is needed because five times the double 0.4
is a little above 2."""

SMALLEST_WALLET = 1e-12
"""A balance below this mu squared counts as empty."""

SMALLEST_DELTA = 1e-299
"""Smallest delta of a wallet, because the delta of a Gaussian is known to within 1e-300 at best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wallet:
    """The limits of an account whose uses are chosen on the fly: a budget of mu squared, and two further limits.

    Mu is sensitivity / sigma of a Gaussian mechanism. All uses that are paid from `size` reveal together at most as
    much as one Gaussian mechanism of mu^2 = `size`.

    - `size` is the mu squared from which uses are paid.
    - `failure_limit` bounds the sum of the uses' probabilities of outright failure (in which everything may be
      revealed).
    - `loss_limit` is an epsilon. A use that `size` cannot pay for is still admitted while the largest losses of all
      uses, this one included, add up to at most `loss_limit`, because basic composition then keeps the promise.

    The object does not change when uses are paid: the ledger, the stored record of an account's uses, knows how much of
    each limit is left.

    >>> wallet = Wallet.for_promise(epsilon=2.0, delta=1e-6)
    >>> round(wallet.size, 4), wallet.failure_limit
    (0.2006, 2e-08)
    """

    # All uses that `size` pays for are together no worse than one Gaussian mechanism of this mu squared.

    size: float
    failure_limit: float = 0.0
    loss_limit: float = 0.0

    @classmethod
    def of(cls, size: float, *, failure_limit: float = 0.0, loss_limit: float = 0.0) -> "Wallet":
        """Return a wallet (a budget from which uses are paid) with a given size in mu squared.

        - `size` is (sensitivity / sigma)^2 of the Gaussian mechanism that all uses together may be as bad as.
        - `failure_limit` bounds the sum of the uses' probabilities of outright failure, in which everything may be
          revealed.
        - `loss_limit`: a use that `size` cannot pay for is still admitted if the largest losses of all uses, itself
          included, add up to at most this, because basic composition then keeps the promise.

        Raises: `InvalidParameter` unless `size` is positive and finite.
        """
        if not 0.0 < size < math.inf:
            raise InvalidParameter(f"the size of a wallet must be positive and finite, not {size!r}")
        return cls(size=size, failure_limit=failure_limit, loss_limit=loss_limit)

    @classmethod
    def for_promise(cls, *, epsilon: float, delta: float, failure_share: float = FAILURE_SHARE) -> "Wallet":
        """Return the largest Gaussian wallet (a budget of mu squared) whose uses together are (epsilon, delta)-DP.

        Mu is sensitivity / sigma of a Gaussian mechanism. The share `failure_share` of delta is set aside for outright
        failures (in which everything may be revealed). The wallet also has a second rule, with a limit of about
        `epsilon` (field `loss_limit`): it also admits a use that the mu squared cannot pay for, as long as the largest
        privacy losses of all uses add up to at most this limit.

        Raises: `InvalidParameter` if too little of delta remains for the wallet.
        """
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


def wallet_shortage(uses: Sequence[Use], remaining: float) -> str:
    """Return a text that says why a budget of mu squared with `remaining` left cannot pay for `uses`.

    The budget is a Gaussian wallet: mu is sensitivity / sigma of a Gaussian mechanism. The text says that the uses cost
    too much and which Gaussian noise would fit, or that nothing is left, or that a use has no price in mu squared.
    """
    cost = math.fsum(use.count * use.guarantee.price(0.0) for use in uses)
    if cost == math.inf:
        return "a use has no price in a wallet, because only its zCDP is known: take a filter that adds up zCDP"
    if remaining < SMALLEST_WALLET:
        return "nothing is left"
    count = sum(use.count for use in uses)
    noise = f"Gaussian noise of sigma {rounded_up(math.sqrt(count / remaining), 4)}"
    return f"it costs more than is left; {noise}{'' if count == 1 else f' for each of the {count} uses'} would fit"


def gaussian_of(size: float) -> Gaussian:
    """Return the Gaussian mechanism of mu^2 = `size`, which dominates all uses paid from a wallet of that size.

    A wallet is a budget of mu squared, from which uses are paid; mu is sensitivity / sigma of a Gaussian mechanism. The
    sigma of the Gaussian is rounded down, so that the Gaussian still dominates.
    """
    return Gaussian(sigma=min(_sigma(size), LARGEST_SCALE))


def _sigma(size: float) -> float:
    """Return 1 / sqrt(`size`), the sigma of the Gaussian with mu^2 = `size`.

    The result is rounded down: less noise has a larger delta, so bounds computed from this sigma stay valid.
    """
    return down(1.0 / math.sqrt(size)) * (1.0 - 4.0 * UNIT)


def wallet_for(epsilon: float, delta: float) -> float:
    """Return the largest mu^2 = (sensitivity / sigma)^2 for which one Gaussian mechanism is (`epsilon`, `delta`)-DP.

    The result is rounded down so far that the delta of its Gaussian at `epsilon` is certified to be at most `delta`.
    The result is the budget of an account that promises (`epsilon`, `delta`)-DP.
    """
    import numpy as np

    from setwise.accounting.losses.dominating_pairs import GaussianLoss

    at = np.array([epsilon])

    def spare(size: float) -> float:
        """Return log(`delta` / d), where d is at least the delta at `epsilon` of the Gaussian of mu^2 = `size`.

        The result is positive if this Gaussian is (`epsilon`, `delta`)-DP with room to spare, and negative if `size` is
        too large. The function around this one searches for the `size` at which the result is 0. `epsilon` and `delta`
        are its arguments.
        """
        value, error = GaussianLoss(_sigma(size)).delta(at)
        return math.log(delta) - math.log(float(value[0] + error[0]))

    low = high = 1.0
    while spare(low) < 0.0:
        low *= 0.5
    while spare(high) > 0.0:
        high *= 2.0
    return crossing(spare, low, high, keep_left=True)

"""Reservations: charges for uses of mechanisms whose questions are chosen later, after other answers were seen.

A Gaussian wallet (a budget in mu squared) prices a use by the balance that remains after it: a use costs more if less
remains. Such a price is right only if the question is fixed at the charge. The question of a reserved use may be chosen
when nothing remains in the wallet, so the use is charged the price that it has then, its highest price.

The use is charged in the form of a Gaussian use with this price, because a Gaussian use costs the same at every balance
(docs/optimal-composition.md, "Reservations").
"""

import math
from collections.abc import Sequence

from setwise.accounting.guarantees import ApproxDP, Gaussian, Use
from setwise.accounting.notation import format_use
from setwise.accounting.wallet import gaussian_of
from setwise.errors import InvalidParameter


def uses_without_fixed_price(uses: Sequence[Use]) -> list[Use]:
    """Return those of the `uses` whose price depends on the remaining budget.

    `uses` lists privacy guarantees and how often each is used. The returned ones are paid from a Gaussian wallet (a
    budget in mu squared), and cost more if less remains in the wallet. Such a price is right only if the question was
    chosen before the charge. For a question that is chosen later, the use is refused, or replaced by a use with a
    higher price (`reserved_uses`).

    Two sorts of uses are left out: a Gaussian use, which always costs its own mu squared, and a (0, delta)-DP use,
    which is paid from another balance.
    """
    # A Gaussian use costs its own mu squared at every balance. A use that is (0, delta)-DP, such as a threshold, is
    # paid from another balance.
    return [
        use
        for use in uses
        if not isinstance(use.guarantee, Gaussian) and use.guarantee.split_off_failure()[0] is not None
    ]


def reserved_uses(uses: Sequence[Use]) -> list[Use]:
    """Return the guarantees to charge now for `uses` whose questions are chosen later.

    In a Gaussian wallet (a budget in mu squared), a use (a privacy guarantee, and how often it is used) costs more if
    less remains after it. The question may be asked last, so the use is charged at its highest price, which it has if
    nothing remains in the wallet after it: it is replaced by a Gaussian guarantee with this price as its mu squared.
    The use's probability of outright failure (which may reveal everything) becomes a second guarantee.

    Raises `InvalidParameter` for a use that a Gaussian wallet cannot pay at any price, such as a zCDP use.
    """
    reserved: list[Use] = []
    for use in uses:
        successful, failure = use.guarantee.split_off_failure()
        price = 0.0 if successful is None else successful.price(0.0)
        if price == math.inf:
            raise InvalidParameter(f"{format_use(use)} has no price in a wallet, so it cannot be reserved")
        if price > 0.0:
            reserved.append(Use(gaussian_of(price), use.count))
        if failure:
            reserved.append(Use(ApproxDP(epsilon=0.0, delta=failure), use.count))
    return reserved

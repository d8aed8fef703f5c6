"""Odometers of an account: upper bounds on the epsilon of everything that the account has paid for so far.

There are two odometers. Both hold at delta, the delta of the account's promise:

- `pathwise_odometer`: with probability at least 1 - delta, the privacy loss of the answers never exceeds the value that
  the odometer has at the time.
- `stopping_odometer` can be smaller, because it promises less: for every epsilon fixed in advance, all answers given
  before the odometer exceeds this epsilon are together (epsilon, delta)-DP.

They are stated and proved in docs/optimal-composition.md, "Odometers".
"""

import json
import math
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache

from setwise.accounting.bounds import epsilon_reached
from setwise.accounting.brackets import CertifiedBound, Interaction, down, up
from setwise.accounting.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from setwise.accounting.classified_uses import classify
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import Use, largest_loss
from setwise.accounting.zcdp_filter import Spent, ZcdpOdometer, filter_parameters
from setwise.errors import Unattainable
from setwise.ledger.terms import Terms


def failure_probability(terms: Terms) -> float:
    """Return the part of an account's delta that is set aside for outright failures, rounded up.

    An outright failure is an event in which everything may be revealed. Bounds on the account's epsilon are computed at
    the remaining delta. `terms` has the account's promise (epsilon and delta) and its budget.
    """
    if terms.totals is not None and not terms.uses:
        return up(terms.failure_share * terms.delta)
    wallet_failure = 0.0 if terms.totals is None else terms.totals.failure
    return up(classify(terms.uses).failure.upper + wallet_failure)


def charge_sum_delta(terms: Terms) -> float:
    """Return the part of an account's delta for one bound of its odometer: the sum of the epsilons of single charges.

    The odometer is the smallest of several bounds on the epsilon of all answers so far. The bounds share delta, the
    delta of the account's `terms`. A part f of it is set aside for outright failures (events in which everything may be
    revealed). Half of the rest, (delta - f) / 2, rounded down, is the result. The sum of the epsilons counts as a bound
    only while the deltas of the charges add up to at most this result; the other bounds are computed without this part
    of delta.
    """
    return max(0.0, down(0.5 * (terms.delta - failure_probability(terms))))


def delta_of_request(request: str) -> float | None:
    """Return the delta of the budget that a question was asked with; None if its request states none.

    `request` is the text of the request, as the ledger stores it with the charge. The delta is in its JSON under
    "spending" and "delta". None is also returned for text that cannot be parsed, and for a delta that is not between 0
    and 1.
    """
    try:
        delta = float(json.loads(request)["spending"]["delta"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        # The caller of the ledger wrote the text: an integer of 400 digits is no float, and JSON may nest too deep. An
        # error here would make the status of the whole account fail.
        return None
    return delta if 0.0 < delta < 1.0 else None


@lru_cache(maxsize=4096)
def charge_guarantee(uses: tuple[Use, ...], delta: float | None) -> tuple[float, float] | None:
    """Return a pair (epsilon, delta) such that the `uses` of one charge are together (epsilon, delta)-DP.

    `uses` lists privacy guarantees and how often each is used. `delta` is the delta that the question was asked with,
    or None if unknown. There are two candidates, of which the one with the smaller epsilon is returned:
    - if `delta` is known: an upper bound on the smallest epsilon of the uses at `delta`, and `delta`.
    - the sum of the largest losses of the uses, and their probability of outright failure (in which everything may be
      revealed).

    Returns None if no candidate has a finite epsilon.
    """
    guarantees = [(largest_loss((use.guarantee, use.count) for use in uses), filter_parameters(uses).failure_sum)]
    if delta:
        with suppress(Unattainable):
            guarantees.append((compose(uses, Interaction.SETWISE).epsilon(delta).upper, delta))
    known = [(epsilon, failure) for epsilon, failure in guarantees if math.isfinite(epsilon)]
    return min(known) if known else None


_MOST_CHARGES = 500
"""The most different charges whose own guarantees are added up; composing more would take seconds."""


_UNSTATED_SHARE = 0.01
"""The share of `charge_sum_delta` at which a charge without a stated delta is counted, so that 100 of them fit."""


def sum_of_charges(
    terms: Terms, charges: Collection[tuple[tuple[Use, ...], float | None]]
) -> tuple[float, float] | None:
    """Return (sum of the epsilons, sum of the deltas) of all charges, each rounded up; None without a finite sum.

    - `terms` has the account's promise and budget.
    - `charges` has, for each charge, its privacy guarantees (and how often each was used), and the delta that its
      question stated, or None.

    Each charge counts with an epsilon and a delta such that its guarantees are together (epsilon, delta)-DP. There are
    two candidates, of which the one with the smaller epsilon counts: the epsilon at the delta that the question stated,
    or the sum of the largest privacy losses, whose delta is the probability of outright failure (in which everything
    may be revealed). If neither epsilon is finite, the charge counts with its epsilon at a small fixed delta, 1% of
    `charge_sum_delta(terms)`.

    The result is None if even then some charge has no finite epsilon. It is None also for over 500 different charges,
    which would take too long.
    """
    # A charge without a stated delta, such as that of a live series, takes a share that depends on the account's terms
    # alone, so that it cannot depend on answers.
    unstated_delta = _UNSTATED_SHARE * charge_sum_delta(terms)
    counts = Counter(charge for charge in charges if charge[0])
    if len(counts) > _MOST_CHARGES:
        return None
    epsilon = delta = 0.0
    for (uses, question_delta), count in counts.items():
        guarantee = charge_guarantee(uses, question_delta) or charge_guarantee(uses, unstated_delta)
        if guarantee is None:
            return None
        epsilon = up(epsilon + up(count * guarantee[0]))
        delta = up(delta + up(count * guarantee[1])) if guarantee[1] else delta
    return epsilon, delta


@lru_cache(maxsize=4096)
def stopping_odometer(
    terms: Terms,
    drawn: tuple[Use, ...] | None,
    worth: Spent,
    largest: float,
    charge_uses: tuple[tuple[tuple[Use, ...], float | None], ...] | None,
) -> CertifiedBound:
    """Return certified lower and upper bounds on the epsilon of everything that an account has paid for; cached.

    The upper bound may be used as a stopping rule: for every epsilon fixed in advance, all answers given before the
    bound exceeds that epsilon are together (epsilon, delta)-DP, where delta is the delta of the account's `terms`.

    - `drawn` lists the guarantees that were paid for, and how often each. It is None if the ledger does not list them,
      and has only the sums in `worth` and `largest`.
    - `worth` has the sum of the zCDP rhos, and the sum of the failure probabilities, of everything paid for.
    - `largest` is the sum of the largest losses (epsilons) of everything paid for.
    - `charge_uses` has a pair for each charge: its guarantees (and how often each was used), and the delta of its
      question. From these pairs an epsilon is computed for each charge, and the sum of these epsilons is one more upper
      bound. None if the charges are unknown.
    """
    if worth == Spent() and not drawn:
        return _NOTHING_DRAWN
    charged = None if charge_uses is None else sum_of_charges(terms, charge_uses)
    return _with_lower_end(terms, drawn, stopping_bound(terms, worth, largest, charged))


@lru_cache(maxsize=4096)
def pathwise_odometer(terms: Terms, drawn: tuple[Use, ...] | None, worth: Spent, largest: float) -> CertifiedBound:
    """Return bounds on the epsilon of all answers that an account has paid for; the upper bound holds at all times.

    With probability at least 1 - delta, the privacy loss of the answers never exceeds the upper bound of its time,
    where delta is the delta of the account's `terms`. The lower bound shows how tight the upper bound is. The result is
    cached.

    - `drawn` lists the guarantees that were paid for, and how often each. It is None if the ledger does not list them,
      and has only the sums in `worth` and `largest`.
    - `worth` has the sum of the zCDP rhos, and the sum of the failure probabilities, of everything paid for.
    - `largest` is the sum of the largest losses (epsilons) of everything paid for.
    """
    if worth == Spent() and not drawn:
        return _NOTHING_DRAWN
    return _with_lower_end(terms, drawn, pathwise_bound(terms, worth, largest))


_NOTHING_DRAWN = CertifiedBound(0.0, 0.0, Interaction.ADAPTIVE, "nothing-drawn", "nothing")


def _with_lower_end(terms: Terms, drawn: tuple[Use, ...] | None, best: CertifiedBound) -> CertifiedBound:
    """Return `best`, bounds on the epsilon that an account has spent, with a larger lower bound.

    The lower bound shows people how tight the upper bound is: from the guarantees that were paid for, no epsilon below
    the lower bound can be proved at the delta of the account's `terms`, because some mechanisms with these guarantees
    reveal more. `drawn` lists these guarantees, and how often each was used. If `drawn` is None (unknown), `best` is
    returned unchanged.
    """
    if drawn is None:
        return best
    lower = float(epsilon_reached(drawn, terms.delta))
    return CertifiedBound(min(lower, best.upper), best.upper, best.interaction, best.method, best.statement)


def stopping_bound(terms: Terms, worth: Spent, largest: float, charged: tuple[float, float] | None) -> CertifiedBound:
    """Return the smallest of three upper bounds on the epsilon that an account has spent; the lower bound is 0.

    The bounds are:
    - an odometer for zCDP, computed from `worth`, the zCDP rho and the failure probability spent.
    - `largest`, the sum of the largest privacy losses of all charges.
    - the sum of the epsilons of single charges. `charged` is (this sum, the sum of their deltas), or None if unknown.
      This bound is used only if the sum of the deltas is at most `charge_sum_delta(terms)`, the part of the account's
      delta that is kept for this bound.

    The result may be used as a stopping rule. For every epsilon fixed in advance, all answers given before the result
    exceeds this epsilon are together (epsilon, delta)-DP, where delta is the delta of the account's `terms`.

    Theorem: docs/optimal-composition.md, "Odometers".
    """
    # This part of delta is for the third bound; the other two are computed with the remaining delta.
    summed = charge_sum_delta(terms)
    best = pathwise_bound(terms, worth, largest, delta=up(terms.delta - summed))
    if charged is not None and charged[1] <= summed and charged[0] < best.upper:
        return CertifiedBound(
            0.0, charged[0], Interaction.ADAPTIVE, "sum-of-charges", "docs/optimal-composition.md, odometers"
        )
    return best


def pathwise_bound(terms: Terms, worth: Spent, largest: float, *, delta: float | None = None) -> CertifiedBound:
    """Return bounds on an account's epsilon so far; the privacy loss stays below the upper one at all times at once.

    With probability at least 1 - `delta`, there is no time at which the privacy loss exceeds the upper bound of that
    time. The upper bound is the smaller of two: a zCDP odometer, computed from the rho in `worth` (the zCDP spent), and
    `largest` (the sum of the largest losses). The lower bound is 0. A `delta` of None takes the delta of the account's
    `terms`.

    Theorem: WhitehouseRaRoWu23 (the odometer), DworkKeMcMiNa06 (the sum).
    """
    delta = terms.delta if delta is None else delta
    # A part of delta covers outright failures, in which everything may be revealed. Without one, the loss never exceeds
    # the sum, and exceeds the odometer with at most the remaining probability. The promised epsilon of a period is no
    # such bound, because (epsilon, delta)-DP allows larger losses with a probability above delta.
    if terms.totals is not None and not terms.uses:
        most = terms.totals.most_rho
        share = terms.failure_share if delta == terms.delta else _share(failure_probability(terms), delta)
    else:
        most = filter_parameters(terms.uses).rho + (0.0 if terms.totals is None else terms.totals.most_rho)
        share = _share(failure_probability(terms), delta)
    odometer = CertifiedBound(0.0, math.inf, Interaction.ADAPTIVE, "zcdp-odometer", "WhitehouseRaRoWu23")
    if share < 1.0:  # otherwise failures use up the whole delta, and an odometer has none
        odometer = ZcdpOdometer(
            delta=delta,
            failure_share=share,
            most_rho=min(max(most, SMALLEST_EPSILON), LARGEST_EPSILON),
            spent=Spent(worth.rho),
        ).answer()
    if odometer.upper <= largest:
        return odometer
    return CertifiedBound(0.0, largest, Interaction.ADAPTIVE, "basic-composition", "DworkKeMcMiNa06")


def _share(failed: float, delta: float) -> float:
    """Return `failed` / `delta`, rounded up: the share of `delta` that outright failures take.

    An outright failure is an event in which everything may be revealed, and `failed` is the probability that the
    account sets aside for them. The odometer, a bound on the epsilon spent so far, is stated at `delta`. It gets the
    share as a parameter, because it can use only the remaining share of `delta`.
    """
    return up(failed / delta * (1 + 1e-15)) if failed else 0.0

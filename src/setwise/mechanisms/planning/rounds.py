"""Plans for discovery of private groups in rounds: when it is preferred, and how it shares a budget with counting.

In a round, each user divides a weight among their groups that are not found yet. A group is found if its noisy sum of
weights exceeds a threshold.
"""

import math
from fractions import Fraction

from setwise.accounting.brackets import float_below
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.planning.cost import (
    EstimatedScale,
    estimate_noise_scale,
    estimated_price,
    rounded_scale,
    searched_price,
    smallest_noise_scale,
)
from setwise.mechanisms.planning.request import Bounds, CountNoise, MechanismName, Total
from setwise.mechanisms.weighted_rounds import DiscoveredCounts, WeightedRounds

FINDING_SHARE = Fraction(3, 4)
"""The largest share of the privacy cost (mu squared) of a histogram that finds its groups; the rest counts them.

A smaller part of it is spent where the survey tells that users have few groups (`WeightedRounds`).
"""

CLOSE_FINDING_SHARE = Fraction(3, 5)
"""The largest share of a histogram's privacy cost that finds its groups, if the analyst asks for an accuracy of counts.

With `FINDING_SHARE` = 3/4, the accuracy would take a quarter more epsilon.
"""

FAILURE_SHARE = Fraction(1, 2)
"""The share of delta for the thresholds of the rounds."""

FEWEST_CONTRIBUTIONS = 5
"""The least contribution bound at which counts are released in rounds without being asked for.

Below it one pass with equal weights finds about as many groups, and its counts have less noise (docs/discovery.md).
"""


def can_find_in_rounds(bounds: Bounds, total: Total) -> bool:
    """Return whether rounds of weighted votes can find the groups of a query with the budget `total`.

    `bounds` describes the query: its public groups, if any, and limits on what one user adds. In a round, each user
    divides a weight among their groups, and a group is found if its noisy sum of weights exceeds a threshold. Rounds
    need private groups, users that the table tells apart, a bound on a user's groups, and a budget `total` with a
    positive delta and Gaussian noise on counts. They cannot answer a top k, or a query with a limit on the groups that
    take part.
    """
    # Rounds need private groups, a bound on the groups of one user, a positive delta and a table that tells users
    # apart. They cannot answer a top k or a query with a limit on the number of groups. They need Gaussian noise on the
    # counts, so `total` must not ask for Laplace noise or for no counts.
    return (
        bounds.weighable
        and bounds.domain is None
        and bounds.k is None
        and bounds.limit is None
        and bounds.contributions is not None
        and total.counts in (CountNoise.BEST, CountNoise.GAUSSIAN)
        and total.delta > 0
    )


def prefers_rounds(bounds: Bounds, total: Total, *, counts_users: bool) -> bool:
    """Return whether the planner should search for private groups in several rounds, and not in one pass.

    In each round, a user divides a weight among those of their groups that are not found yet. So after a round, the
    weight of the groups found moves to the user's other groups, which are then easier to find. In one pass, all groups
    of a user have the same weight.

    - `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
      adds.
    - `total` is the budget. If the analyst named a mechanism in it, the result follows from this name.
    - `counts_users` says that the query also asks for numbers of users. One pass releases these numbers at no further
      cost, and rounds do not. So rounds are then preferred only if one user may count in at least
      `FEWEST_CONTRIBUTIONS` groups, and otherwise already from 2 groups on.

    If no mechanism is named, the result is False for a query that rounds cannot answer, such as a top k.
    """
    # Rounds are preferred if they are possible and a user may contribute to at least 2 groups, or to at least 5 if
    # `counts_users`.
    # One pass releases numbers of users at no further cost. In a round, each user divides a weight among their groups
    # not found yet.
    if total.mechanism is not None or not can_find_in_rounds(bounds, total):
        return total.mechanism is MechanismName.WEIGHTED_ROUNDS
    contributions = bounds.contributions or 1
    return contributions >= (FEWEST_CONTRIBUTIONS if counts_users else 2)


def plan_counts(bounds: Bounds, total: Total) -> tuple[DiscoveredCounts, float] | None:
    """Return (mechanism, certified epsilon) for finding private groups in rounds and counting them.

    In a round, each user divides a weight among their groups, and a group is found if its noisy sum of weights exceeds
    a threshold. The noise is the smallest that keeps search and counts within the budget `total`. Returns None if even
    the largest noise costs more. `bounds` has the limits per user.

    Ensures: the set-wise composition of the mechanism's guarantees is certified to be within (epsilon, delta).
    Raises: `InvalidParameter` if rounds cannot answer the query.
    """
    if not can_find_in_rounds(bounds, total):
        raise InvalidParameter(
            "weighted_rounds finds groups that are private and counts them with Gaussian noise: give contributions and "
            "a delta, leave k, limit and the domain out, and do not ask a prepared dataset"
        )
    target, delta = float_below(total.epsilon), float_below(total.delta)
    first = EstimatedScale(math.sqrt(2.0 * (bounds.contributions or 1)) * 4.5 / target, 1.0)
    scale = smallest_noise_scale(
        lambda each: searched_price(_counts(bounds, total, each).guarantees(), delta), first, target
    )
    if scale is None:
        return None
    mechanism = _counts(bounds, total, scale)
    return mechanism, searched_price(mechanism.guarantees(), delta)


def _counts(bounds: Bounds, total: Total, scale: Fraction) -> DiscoveredCounts:
    """Return the mechanism that finds private groups in rounds and then releases noisy counts of them.

    In a round, each user divides a weight among their groups, and a group is found if its noisy sum of weights exceeds
    a threshold. The noise of a count has deviation per_item * `scale`, where per_item is the most that one user adds to
    a count. `bounds` limits what one user contributes, and `total` is the budget of the query.
    """
    # The counts cost contributions / scale^2, and the rounds cost 1 / sigma^2, both as mu squared. The sigma of the
    # rounds is chosen so that the rounds have the share `FINDING_SHARE` of the sum, or `CLOSE_FINDING_SHARE` if `total`
    # was derived from a wanted accuracy of the counts.
    contributions = bounds.contributions or 1
    finding = CLOSE_FINDING_SHARE if total.from_accuracy else FINDING_SHARE
    ratio = math.sqrt((1 - finding) / (finding * contributions))
    rounds = WeightedRounds(
        sigma=Fraction(f"{float(scale) * ratio:.6g}"),
        delta=total.delta * FAILURE_SHARE,
        contributions=contributions,
        finding=finding,
    )
    return DiscoveredCounts(rounds=rounds, contributions=contributions, per_item=bounds.per_item, sigma=scale)


def rough_rounds(bounds: Bounds, total: Total) -> WeightedRounds | None:
    """Return the mechanism that finds groups in rounds of weighted votes, at a cost of about the whole budget `total`.

    `bounds` describes the query: k (how many groups a top k asks for), its public groups, and limits on what one user
    adds. The noise scale is chosen by an estimate of the cost. The caller certifies the cost, together with the cost of
    the statistics that follow. Returns None if even the largest noise scale would cost more than `total`, or if a
    parameter is out of range.
    """
    delta = float_below(total.delta)

    def rounds(scale: Fraction) -> WeightedRounds:
        contributions = bounds.contributions or 1
        return WeightedRounds(sigma=scale, delta=total.delta * FAILURE_SHARE, contributions=contributions)

    scale = estimate_noise_scale(
        lambda each: estimated_price(rounds(each).guarantees(), delta),
        4.5 / float(total.epsilon),
        float_below(total.epsilon),
    )
    try:
        return None if scale is None else rounds(rounded_scale(scale.scale))
    except (InvalidParameter, Unattainable):
        return None

"""Estimates of the composed epsilon and delta in about a millisecond, for searches. They are never promises.

For most sets of uses the estimate is within half a percent of the certified epsilon. It may be off by nine percent if
there are only a few bounded-range uses and the epsilon is close to the sum of their largest losses.
"""

# The tail of the total privacy loss is estimated at its saddle point. Delta is about exp(K(s) - s epsilon) divided by a
# factor of order one, where K(s) = log E[exp(s loss)] is the cumulant of the loss and K'(s) = epsilon. A bounded-range
# use has no fixed loss; the analyst is assumed to choose the loss with the largest K(s). Adapting to earlier answers is
# assumed to have the effect of about half a further use.

import math
from collections.abc import Sequence

from setwise.accounting.adaptive.stages import adapting_saddle
from setwise.accounting.brackets import epsilon_at
from setwise.accounting.classified_uses import classify
from setwise.accounting.guarantees import Use, largest_loss
from setwise.accounting.methods.moments import zero_concentrated_sum

_CAUTION = 1.0015
"""Factor on an estimated epsilon, about its usual error, so that noise found by an estimate usually proves to be
enough."""


def estimated_delta(uses: Sequence[Use], epsilon: float) -> float:
    """Return approximately the delta at `epsilon` of `uses` in any order, chosen after seeing earlier answers.

    The estimate takes about a millisecond and serves searches, such as one for a noise scale. It is not a bound.
    """
    kinds = classify(uses)
    if epsilon >= _largest(uses):
        return kinds.failure.upper
    if kinds.classes:
        return zero_concentrated_sum(uses).delta(epsilon).upper
    estimate = adapting_saddle(kinds.linear, kinds.ranges).log_delta(epsilon)
    return kinds.failure.upper + math.exp(min(estimate, 0.0))


def estimated_epsilon(uses: Sequence[Use], delta: float) -> float:
    """Return approximately the epsilon at `delta` of `uses` in any order, chosen after seeing earlier answers.

    The estimate takes about a millisecond and serves searches; it is not a bound. The estimate is infinite if `delta`
    is below the probability of outright failure (in which everything may be revealed). It is also infinite if `delta`
    equals this probability and some loss is unbounded.
    """
    kinds = classify(uses)
    largest = _largest(uses)
    target = delta - kinds.failure.upper
    if target < 0.0:
        return math.inf
    if not (largest and target):
        return largest
    if kinds.classes:
        return min(largest, epsilon_at(delta, zero_concentrated_sum(uses).delta).upper)
    return min(largest, _CAUTION * adapting_saddle(kinds.linear, kinds.ranges).epsilon(target))


def _largest(uses: Sequence[Use]) -> float:
    """Return the largest privacy loss that all `uses` (guarantees with counts) can have together; may be infinite.

    At every epsilon from this loss on, delta is only the probability of outright failures, in which everything may be
    revealed. So callers need no estimate there. The result does not include outright failures.
    """
    return largest_loss((use.guarantee, use.count) for use in uses)

"""About what uses cost together, in a millisecond: for searches, and never a promise.

The tail of the total loss is taken from its saddle point: delta is about exp(K(s) - s epsilon) over a factor of order
one, where K is the cumulant of the loss and K'(s) = epsilon. A bounded-range use has no fixed loss; the analyst is
taken to choose the one of the largest K(s), and to gain about half a use by adapting. This is within half a percent of
the certified epsilon for most sets of uses, and within nine where a few bounded-range uses are nearly at their largest
loss.
"""

import math
from collections.abc import Sequence

from setwise.accounting.adaptive.stages import adapting_saddle
from setwise.accounting.bounds import classify
from setwise.accounting.brackets import epsilon_at
from setwise.accounting.guarantees import Use, largest_loss
from setwise.accounting.methods.moments import zero_concentrated_sum

_CAUTION = 1.0015
"""Factor on an estimated epsilon, its usual error: noise that an estimate finds then mostly proves to be enough."""


def estimated_delta(uses: Sequence[Use], epsilon: float) -> float:
    """Return about the set-wise delta of the uses at epsilon."""
    kinds = classify(uses)
    if epsilon >= _largest(uses):
        return kinds.failure.upper
    if kinds.classes:
        return zero_concentrated_sum(uses).delta(epsilon).upper
    estimate = adapting_saddle(kinds.linear, kinds.ranges).log_delta(epsilon)
    return kinds.failure.upper + math.exp(min(estimate, 0.0))


def estimated_epsilon(uses: Sequence[Use], delta: float) -> float:
    """Return about the set-wise epsilon of the uses at delta, which may be 0; infinite when there is none."""
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
    """Return the largest loss of the uses, failures aside."""
    return largest_loss((use.guarantee, use.count) for use in uses)

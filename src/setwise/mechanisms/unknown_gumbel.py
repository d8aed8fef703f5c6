"""The top k labels of an unknown domain, in order, above a noisy threshold; pay what you get."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from setwise.accounting.guarantees import ApproxDP, BoundedRange, Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import LARGEST_PICK_EPSILON, SMALLEST_RATE
from setwise.mechanisms.parameters import float_above, positive_integer, probability, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate, Item, Release
from setwise.mechanisms.sampling.fixed_point import ceil_divide, ln
from setwise.mechanisms.sampling.gumbel import gumbel_order

_PRECISION = 96
_LARGEST_OFFSET = 1 << 61


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownGumbel:
    """Release the order of the highest labels that beat a noisy threshold, at most k of the true top `limit`.

    The threshold stands `offset` above the count ranked limit + 1 (0 if there is none) and takes Gumbel noise like
    the counts do. `contributions` is None when a user may change any number of counts.

    Theorem: DurfeeRo19, RogersSuPeDuLeKaSaAh20 (with min(contributions, limit) inside the logarithm).
    Ensures: outside an event of probability delta, each pick is epsilon-BR; stopping at the threshold is a pick.
    """

    k: int
    limit: int
    contributions: int | None
    per_item: int = 1
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        positive_integer("k", self.k)
        positive_integer("limit", self.limit)
        if self.limit < self.k:
            raise InvalidParameter(f"limit must be at least k = {self.k}, not {self.limit}")
        if self.contributions is not None:
            positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        epsilon = rational("epsilon", self.epsilon, SMALLEST_RATE, LARGEST_PICK_EPSILON)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", probability("delta", self.delta))
        if self.offset > _LARGEST_OFFSET:
            raise InvalidParameter(f"epsilon must keep the threshold below 2^61 counts, not {self.epsilon}")

    @property
    def rate(self) -> Fraction:
        """The inverse of the Gumbel scale."""
        return self.epsilon / self.per_item

    @property
    def changeable(self) -> int:
        """How many of the top `limit` a neighbour may put there: M in the threshold."""
        return self.limit if self.contributions is None else min(self.contributions, self.limit)

    @property
    def offset(self) -> int:
        """Return tau + (tau/epsilon) ln(M/delta), rounded up: how far the threshold stands above the next count.

        A label that only the neighbour can show has at most the next count plus tau; it beats the threshold with
        probability 1/(1 + exp(rate (offset - tau))) < delta/M.
        """
        _, log_odds = ln(self.changeable / self.delta, _PRECISION)
        gap = Fraction(max(0, log_odds), 1 << _PRECISION) / self.rate
        return self.per_item + ceil_divide(gap.numerator, gap.denominator)

    def _uses(self, picks: int) -> tuple[Use, ...]:
        return (
            Use(BoundedRange(epsilon=float_above(self.epsilon)), picks),
            Use(ApproxDP(epsilon=0.0, delta=float_above(self.delta))),
        )

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release may cost: k picks, and the threshold's delta."""
        return self._uses(self.k)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect, before any data is touched."""
        confidence = probability("confidence", confidence)
        rate = float(self.rate)
        # A count ahead of the threshold by s falls behind it with probability 1/(1 + exp(rate s)).
        lead = math.log(float(confidence / (1 - confidence))) / rate
        odds = self.k * (self.limit + 1) / float(1 - confidence)
        return ErrorEstimate(
            confidence=confidence,
            detectable=self.offset + max(0, math.ceil(lead)),
            shortfall=math.ceil(math.log(odds) / rate),
        )

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the labels above the threshold, in order, at most k, without counts.

        Ensures: j labels cost min(j + 1, k) picks, and the delta is spent even when none come back.
        """
        top = histogram.ranked(self.limit + 1)
        shown = min(self.limit, len(top))
        next_count = int(top.counts[self.limit]) if len(top) > self.limit else 0
        scores = np.append(top.counts[:shown], np.int64(next_count + self.offset))
        order = gumbel_order(scores, self.rate, self.k, randomness).tolist()
        complete = shown not in order
        places = order if complete else order[: order.index(shown)]
        items = tuple(Item(label=top.labels[place]) for place in places)
        return Release(items=items, spent=self._uses(min(len(items) + 1, self.k)), complete=complete)

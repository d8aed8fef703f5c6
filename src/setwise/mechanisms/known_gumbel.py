"""The top k labels of a public domain, in order: the exponential mechanism, peeled in one shot."""

import math
from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.guarantees import BoundedRange
from setwise.accounting.use import Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.exponential import LARGEST_PICK_EPSILON, SMALLEST_RATE
from setwise.mechanisms.gumbel_order import gumbel_order
from setwise.mechanisms.histogram import Histogram, Label, distinct_labels
from setwise.mechanisms.interval import CONFIDENCE
from setwise.mechanisms.preview import Preview
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.rational import float_above, positive_integer, probability, rational
from setwise.mechanisms.release import Item, Release


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGumbel:
    """Add Gumbel(per_item/epsilon) noise to every count of `domain` and release the order of the k highest.

    The order is k adaptive picks of the exponential mechanism. Adding a user raises every count by between 0 and
    `per_item`, so the range of the score is per_item and each pick is epsilon-BR, however many counts a user changes.
    The noisy values are never released.

    Theorem: DongDuRo19; DurfeeRo19.

    >>> KnownGumbel(domain=("a", "b", "c"), k=2, epsilon=Fraction(1, 2)).guarantees()
    (Use(guarantee=BoundedRange(epsilon=0.5), count=2),)
    """

    domain: tuple[Label, ...]
    k: int
    per_item: int = 1
    epsilon: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", distinct_labels(self.domain))
        if not self.domain:
            raise InvalidParameter("domain must hold at least one label")
        positive_integer("k", self.k)
        positive_integer("per_item", self.per_item)
        epsilon = rational("epsilon", self.epsilon, SMALLEST_RATE, LARGEST_PICK_EPSILON)
        object.__setattr__(self, "epsilon", epsilon)

    @property
    def rate(self) -> Fraction:
        """The inverse of the Gumbel scale."""
        return self.epsilon / self.per_item

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs."""
        return (Use(BoundedRange(epsilon=float_above(self.epsilon)), min(self.k, len(self.domain))),)

    def preview(self, confidence: Fraction = CONFIDENCE) -> Preview:
        """Return the error to expect, before any data is touched."""
        confidence = probability("confidence", confidence)
        picks = min(self.k, len(self.domain))
        # One pick misses by s with probability at most |domain| exp(-rate s).
        odds = picks * len(self.domain) / float(1 - confidence)
        return Preview(confidence=confidence, shortfall=math.ceil(math.log(odds) / float(self.rate)))

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the k highest labels, in order, without counts."""
        order = gumbel_order(histogram.over(self.domain), self.rate, self.k, randomness)
        items = tuple(Item(label=self.domain[place]) for place in order)
        return Release(items=items, spent=self.guarantees(), complete=True)

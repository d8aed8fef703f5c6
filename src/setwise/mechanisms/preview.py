"""What an answer will look like, said before any data is touched."""

from dataclasses import dataclass
from fractions import Fraction

from setwise.mechanisms.rational import probability


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The error to expect, from the exact noise law and the parameters alone.

    `expected_error` is E|noise| on a released count and `radius` half the width of its interval. A label whose count
    exceeds its rivals (for a fixed threshold: exceeds 0) by `detectable` is released with the stated confidence.
    A pick misses the best label left by more than `shortfall` with probability at most 1 - confidence over all
    picks. None where the mechanism has no such number.
    """

    confidence: Fraction
    expected_error: float | None = None
    radius: int | None = None
    detectable: int | None = None
    shortfall: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", probability("confidence", self.confidence))

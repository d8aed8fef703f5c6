"""An interval of whole numbers that holds a true count with a stated confidence."""

from dataclasses import dataclass
from fractions import Fraction

from setwise.errors import InvalidParameter

CONFIDENCE = Fraction(95, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The whole numbers from `lower` to `upper`."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= self.upper:
            raise InvalidParameter(f"an interval needs 0 <= lower <= upper, not [{self.lower}, {self.upper}]")

    def __contains__(self, count: float) -> bool:
        return self.lower <= count <= self.upper


def interval_around(noisy: int, radius: int) -> Interval:
    """Return the interval noisy ± radius, cut at 0.

    Ensures: with the noise law's radius at some confidence, a fixed count whose noisy value is drawn is covered with
        that probability at least. The statement is about every count given noise; it does not condition on the value
        having passed a threshold.

    >>> from setwise.mechanisms.laplace_noise import LaplaceNoise
    >>> interval_around(10, LaplaceNoise(scale=Fraction(10)).radius(CONFIDENCE))
    Interval(lower=0, upper=40)
    """
    return Interval(lower=max(0, noisy - radius), upper=max(0, noisy + radius))

"""Labels and noisy counts of an unknown domain, above a threshold, with Laplace noise."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from setwise.accounting.guarantees import ApproxDP, DiscreteLaplace, Use
from setwise.errors import Unattainable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.noise.laplace import LARGEST_NOISE, SMALLEST_NOISE, LaplaceNoise
from setwise.mechanisms.parameters import binary, float_above, positive_integer, probability, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate, Release, Selection, ranked_items, with_noise
from setwise.mechanisms.sampling.fixed_point import exp_minus

_TAIL_BITS = 512
_LARGEST_MARGIN = 1 << 61


def exceedance(scale: Fraction, margin: int) -> Fraction:
    """Return an upper bound on P[Z > margin], Z discrete Laplace: exactly q^(margin+1) / (1 + q), q = exp(-1/scale)."""
    low_q, _ = _exp(1 / scale)
    return _exp((margin + 1) / scale)[1] / (1 + low_q)


def difference_exceedance(scale: Fraction, margin: int) -> Fraction:
    """Return an upper bound on P[Z1 - Z2 > margin], both discrete Laplace of that scale.

    With q = exp(-1/scale), P[Z1 - Z2 = d] = ((1-q)/(1+q))^2 q^d (d + (1+q^2)/(1-q^2)) for d >= 0, whose sum beyond
    the margin m is ((1-q)/(1+q))^2 q^(m+1) ((m + 1 + (1+q^2)/(1-q^2))/(1-q) + q/(1-q)^2). For wide noise this is
    exp(-t)(2 + t)/4 with t = m/scale.

    >>> float(difference_exceedance(Fraction(1), 0)) < 0.5
    True
    """
    low, high = _exp(1 / scale)
    spread = ((1 - low) / (1 + low)) ** 2
    center = (1 + high * high) / (1 - high * high)
    rest = (margin + 1 + center) / (1 - high) + high / (1 - high) ** 2
    return spread * _exp((margin + 1) / scale)[1] * rest


def _exp(x: Fraction) -> tuple[Fraction, Fraction]:
    low, high = exp_minus(x, _TAIL_BITS)
    return Fraction(low, 1 << _TAIL_BITS), Fraction(high, 1 << _TAIL_BITS)


@lru_cache(maxsize=64)
def fixed_margin(scale: Fraction, changeable: int, delta: Fraction) -> int:
    """Return the smallest m >= 0 with changeable * P[Z > m] <= delta, by a certified upper bound."""
    return _smallest(lambda margin: changeable * exceedance(scale, margin) <= delta)


@lru_cache(maxsize=64)
def noisy_margin(scale: Fraction, changeable: int, delta: Fraction) -> int:
    """Return the smallest m >= 0 with changeable * P[Z1 - Z2 > m] <= delta, by a certified upper bound."""
    return _smallest(lambda margin: changeable * difference_exceedance(scale, margin) <= delta)


def _smallest(holds: Callable[[int], bool]) -> int:
    """Return the smallest non-negative integer at which a property that stays true becomes true."""
    most = 1
    while not holds(most):
        most *= 2
        if most > _LARGEST_MARGIN:
            raise Unattainable("no threshold below 2^61 keeps the failure probability at delta; use a larger delta")
    least = -1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownLaplace:
    """Release the labels, with noisy counts, whose noisy count passes a threshold.

    With a `limit`, only the true top limit + 1 are read; the threshold stands `margin` + per_item above the last of
    them (0 if there are fewer) and takes noise itself. Without one, every positive count is read and the threshold
    is fixed.

    Theorem: RogersSuPeDuLeKaSaAh20 (unkLap), with the margin of docs/intervals.md, Proposition 1, on the integers.
    Ensures: with a limit, (contributions/scale, delta)-DP. Without, `contributions` Laplace steps of epsilon 1/scale
        each, outside an event of probability delta.
    """

    contributions: int
    per_item: int = 1
    scale: Fraction
    delta: Fraction
    limit: int | None = None

    def __post_init__(self) -> None:
        positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        object.__setattr__(self, "scale", rational("scale", self.scale, SMALLEST_NOISE, LARGEST_NOISE))
        object.__setattr__(self, "delta", probability("delta", self.delta))
        if self.limit is not None:
            positive_integer("limit", self.limit)
        LaplaceNoise(scale=self.scale * self.per_item)  # refuses noise too wide to draw

    @property
    def noise(self) -> LaplaceNoise:
        """The noise on each count, and on a threshold that depends on the data."""
        return LaplaceNoise(scale=binary(self.scale * self.per_item))

    @property
    def epsilon(self) -> Fraction:
        """The pure part of the guarantee: contributions * per_item over the noise scale."""
        return self.contributions * self.per_item / self.noise.scale

    @property
    def margin(self) -> int:
        """How far above the highest count a hidden label can have the threshold stands.

        With a limit, the bad event compares two noises.
        """
        if self.limit is None:
            return fixed_margin(self.noise.scale, self.contributions, self.delta)
        return noisy_margin(self.noise.scale, min(self.contributions, self.limit), self.delta)

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs."""
        delta = float_above(self.delta)
        if self.limit is not None:
            return (Use(ApproxDP(epsilon=float_above(self.epsilon), delta=delta)),)
        step = DiscreteLaplace(scale=float(self.noise.scale), sensitivity=self.per_item)
        return Use(step, self.contributions), Use(ApproxDP(epsilon=0.0, delta=delta))

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect, before any data is touched."""
        confidence = probability("confidence", confidence)
        noise = self.noise
        threshold = self.per_item + self.margin + 1
        # With a noisy threshold, each of the two noises may take half of what is left.
        noises = 1 if self.limit is None else 2
        return ErrorEstimate(
            confidence=confidence,
            expected_error=noise.expected_absolute,
            radius=noise.radius(confidence),
            detectable=threshold + noises * noise.radius(1 - (1 - confidence) / noises),
        )

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the labels whose noisy count passes the threshold, highest first."""
        threshold = self.per_item + self.margin
        if self.limit is None:
            top = histogram.positive()
            noisy = with_noise(top.counts, self.noise, randomness)
        else:
            top = histogram.ranked(self.limit + 1)
            next_count = int(top.counts[self.limit]) if len(top) > self.limit else 0
            top = top.first(self.limit)
            drawn = with_noise(np.append(top.counts, np.int64(next_count + threshold)), self.noise, randomness)
            noisy, threshold = drawn[:-1], int(drawn[-1])
        passed = np.flatnonzero(noisy > threshold)
        return Release(
            items=ranked_items(tuple(top.labels[place] for place in passed), noisy[passed].tolist(), least=1),
            spent=self.guarantees(),
            complete=self.limit is None or len(passed) < self.limit,
            noise=self.noise,
            selection=Selection(candidates=len(passed), threshold=threshold),
            least=1,
        )

"""Mechanisms for an unknown domain: a label is released where its noisy count passes a threshold.

The threshold hides labels that only one user has: outside an event of probability delta, no such label passes it. With
Laplace, Gaussian or truncated Gaussian noise counts are released beside the labels, with Gumbel noise the order alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from setwise.accounting.brackets import float_above, float_below
from setwise.accounting.checks import check_choice
from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    DiscreteLaplace,
    Gaussian,
    TruncatedDiscreteGaussian,
    Use,
    ZeroConcentratedDP,
)
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import LARGEST_PICK_EPSILON, SMALLEST_RATE
from setwise.mechanisms.labels import Label
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, SMALLEST_NOISE, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.truncated_gaussian import Threshold, TruncatedGaussianNoise, truncation_level
from setwise.mechanisms.parameters import binary, positive_integer, probability, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate, Item, Release, Selection, ranked_items, with_noise
from setwise.mechanisms.sampling.fixed_point import ceil_divide, exp_minus, ln
from setwise.mechanisms.sampling.gumbel import gumbel_order

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
        _check(self, "scale")
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

    @property
    def cutoff(self) -> int:
        """The number a noisy count must exceed; with a limit, how far the threshold stands above the next count."""
        return self.per_item + self.margin

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs."""
        delta = float_above(self.delta)
        if self.limit is not None:
            return (Use(ApproxDP(epsilon=float_above(self.epsilon), delta=delta)),)
        step = DiscreteLaplace(scale=float(self.noise.scale), sensitivity=self.per_item)
        return Use(step, self.contributions), Use(ApproxDP(epsilon=0.0, delta=delta))

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect, before any data is touched."""
        if self.limit is None:
            return ErrorEstimate.of(self.noise, confidence, cutoff=self.cutoff)
        confidence = probability("confidence", confidence)
        # The noises on the count and on the threshold may each take half of what is left.
        reach = 2 * self.noise.radius(1 - (1 - confidence) / 2)
        return replace(ErrorEstimate.of(self.noise, confidence), detectable=self.cutoff + 1 + reach)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the labels whose noisy count passes the threshold, highest first."""
        if self.limit is None:
            return _released(self, histogram, randomness)
        top, next_count = _top_and_next(histogram, self.limit)
        noisy = with_noise(np.append(top.counts, np.int64(next_count + self.cutoff)), self.noise, randomness)
        return _above(self, top.labels, noisy[:-1], int(noisy[-1]), self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedGaussian:
    """Add Gaussian noise of deviation per_item * sigma, restricted to {-bound..bound}; release what passes the bound.

    Every positive count takes part, so no limit on their number is needed.

    Theorem: algo:truncGauss; docs/truncated-gaussian-on-the-lattice.md for the integers.
    Ensures: delta-approximately contributions/(2 sigma^2)-zCDP; exactly, `contributions` truncated discrete Gaussians.
    """

    contributions: int
    per_item: int = 1
    sigma: Fraction
    delta: Fraction
    threshold: Threshold = Threshold.TIGHT

    def __post_init__(self) -> None:
        _check(self, "sigma")
        object.__setattr__(self, "threshold", check_choice("threshold", self.threshold, Threshold))
        rational("per_item * sigma", self.sigma * self.per_item, SMALLEST_NOISE, LARGEST_NOISE)

    @property
    def deviation(self) -> Fraction:
        """The parameter of the noise: the largest float at most per_item * sigma."""
        return binary(self.sigma * self.per_item)

    @property
    def bound(self) -> int:
        """The truncation level T, certified for the integers."""
        return truncation_level(self.contributions, self.per_item, self.deviation / self.per_item, self.delta)

    @property
    def noise(self) -> TruncatedGaussianNoise:
        """The noise on each count."""
        return TruncatedGaussianNoise(sigma=self.deviation, bound=self.bound)

    @property
    def cutoff(self) -> int:
        """The number a noisy count must exceed."""
        return self.threshold.cutoff(self.bound, self.per_item)

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs, as the noise that was drawn."""
        step = TruncatedDiscreteGaussian(sigma=float(self.deviation), bound=self.bound, sensitivity=self.per_item)
        return (Use(step, self.contributions),)

    def concentrated(self) -> Use:
        """Return the paper's statement of the same cost: delta-approximate zCDP, which a filter can add up."""
        rho = self.contributions * Fraction(self.per_item) ** 2 / (2 * self.deviation**2)
        return Use(ZeroConcentratedDP(rho=float_above(rho), delta=float_above(self.delta)))

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect, before any data is touched."""
        return ErrorEstimate.of(self.noise, confidence, cutoff=self.cutoff)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the labels whose noisy count passes the cutoff, highest first."""
        return _released(self, histogram, randomness)


_SMALLEST_SHARE = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownGaussian:
    """Add rounded Gaussian noise of deviation per_item * sigma to every positive count; release what passes a bar.

    `TruncatedGaussian` needs less of a threshold, but its noise is no Gaussian; this one costs what an account has
    registered as gaussian:SIGMA and approx:0,DELTA. The argument is that of `UnknownLaplace` without a limit: give
    every label of either histogram noise and drop the labels only one of them has; outside the event that such a
    label passes, that is the mechanism.

    Theorem: docs/mechanisms.md, why that composes.
    Ensures: `contributions` Gaussian steps, outside an event of probability delta.
    """

    contributions: int
    per_item: int = 1
    sigma: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        _check(self, "sigma")
        RoundedGaussianNoise(sigma=self.sigma * self.per_item)  # refuses noise too wide to draw
        if self.delta / self.contributions < _SMALLEST_SHARE:
            raise Unattainable("delta / contributions must be at least 1e-300 for a threshold")

    @property
    def noise(self) -> RoundedGaussianNoise:
        """The noise on each count."""
        return RoundedGaussianNoise(sigma=binary(self.sigma) * self.per_item)

    @property
    def margin(self) -> int:
        """How far above per_item, the highest count a hidden label can have, the threshold stands.

        Z = round(X) > m means X >= m + 1/2, so m + 1/2 is the deviation times the quantile at delta / contributions.
        The factor covers the rounding of the quantile.
        """
        share = float_below(self.delta / self.contributions)
        least = float_above(self.noise.sigma) * -float(ndtri(share)) * (1.0 + 1e-12) - 0.5
        return max(0, math.ceil(least))

    @property
    def cutoff(self) -> int:
        """The number a noisy count must exceed."""
        return self.per_item + self.margin

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs."""
        step = Gaussian(sigma=float(binary(self.sigma)))
        return Use(step, self.contributions), Use(ApproxDP(epsilon=0.0, delta=float_above(self.delta)))

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect, before any data is touched."""
        return ErrorEstimate.of(self.noise, confidence, cutoff=self.cutoff)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the labels whose noisy count passes the threshold, highest first."""
        return _released(self, histogram, randomness)


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
        top, next_count = _top_and_next(histogram, self.limit)
        shown = len(top)
        scores = np.append(top.counts, np.int64(next_count + self.offset))
        order = gumbel_order(scores, self.rate, self.k, randomness).tolist()
        complete = shown not in order
        places = order if complete else order[: order.index(shown)]
        items = tuple(Item(label=top.labels[place]) for place in places)
        return Release(items=items, spent=self._uses(min(len(items) + 1, self.k)), complete=complete)


_WithCounts: TypeAlias = UnknownLaplace | TruncatedGaussian | UnknownGaussian
"""One shape with three noises: labels and noisy counts above a threshold."""


def _check(mechanism: _WithCounts, spread: str) -> None:
    """Check the parameters; the delta and the spread of the noise become the rationals they are."""
    positive_integer("contributions", mechanism.contributions)
    positive_integer("per_item", mechanism.per_item)
    given = getattr(mechanism, spread)
    object.__setattr__(mechanism, spread, rational(spread, given, SMALLEST_NOISE, LARGEST_NOISE))
    object.__setattr__(mechanism, "delta", probability("delta", mechanism.delta))


def _released(mechanism: _WithCounts, histogram: Histogram, randomness: Randomness) -> Release:
    """Return the labels of all positive counts that pass the cutoff with their noise, highest first."""
    present = histogram.positive()
    noisy = with_noise(present.counts, mechanism.noise, randomness)
    return _above(mechanism, present.labels, noisy, mechanism.cutoff)


def _above(
    mechanism: _WithCounts,
    labels: tuple[Label, ...],
    noisy: NDArray[np.int64],
    threshold: int,
    limit: int | None = None,
) -> Release:
    """Return the labels above the threshold, highest first; fewer than the `limit`, if there is one, are all."""
    passed = np.flatnonzero(noisy > threshold)
    return Release(
        items=ranked_items(tuple(labels[place] for place in passed), noisy[passed].tolist(), least=1),
        spent=mechanism.guarantees(),
        complete=limit is None or len(passed) < limit,
        noise=mechanism.noise,
        selection=Selection(candidates=len(passed), threshold=threshold),
        least=1,
    )


def _top_and_next(histogram: Histogram, limit: int) -> tuple[Histogram, int]:
    """Return the `limit` highest counts, and the next one, 0 if there is none."""
    top = histogram.ranked(limit + 1)
    return top.first(limit), int(top.counts[limit]) if len(top) > limit else 0

"""Labels and noisy counts of an unknown domain, with Gaussian noise: truncated, or above a threshold."""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from setwise.accounting.checks import check_choice
from setwise.accounting.guarantees import ApproxDP, Gaussian, TruncatedDiscreteGaussian, Use, ZeroConcentratedDP
from setwise.errors import Unattainable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.noise.laplace import LARGEST_NOISE, SMALLEST_NOISE
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise, truncation_level
from setwise.mechanisms.parameters import binary, float_above, float_below, positive_integer, probability, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate, Release, Selection, ranked_items, with_noise


class Threshold(StrEnum):
    """Which noisy counts are released."""

    TIGHT = "tight"
    """Those above T: a count of 0 can never pass it, and the neighbour that does is in the excluded event already."""
    PAPER = "paper"
    """Those above T + tau, as in the paper; kept for comparison."""


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
        positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        object.__setattr__(self, "sigma", rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))
        object.__setattr__(self, "delta", probability("delta", self.delta))
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
        return self.bound if self.threshold is Threshold.TIGHT else self.bound + self.per_item

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
        present = histogram.positive()
        noise = self.noise
        noisy = with_noise(present.counts, noise, randomness)
        passed = np.flatnonzero(noisy > self.cutoff)
        return Release(
            items=ranked_items(tuple(present.labels[place] for place in passed), noisy[passed].tolist(), least=1),
            spent=self.guarantees(),
            complete=True,
            noise=noise,
            selection=Selection(candidates=len(passed), threshold=self.cutoff),
            least=1,
        )


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
        positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        object.__setattr__(self, "sigma", rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))
        object.__setattr__(self, "delta", probability("delta", self.delta))
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

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs."""
        step = Gaussian(sigma=float(binary(self.sigma)))
        return Use(step, self.contributions), Use(ApproxDP(epsilon=0.0, delta=float_above(self.delta)))

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect, before any data is touched."""
        return ErrorEstimate.of(self.noise, confidence, cutoff=self.per_item + self.margin)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the labels whose noisy count passes the threshold, highest first."""
        present = histogram.positive()
        noisy = with_noise(present.counts, self.noise, randomness)
        passed = np.flatnonzero(noisy > self.per_item + self.margin)
        return Release(
            items=ranked_items(tuple(present.labels[place] for place in passed), noisy[passed].tolist(), least=1),
            spent=self.guarantees(),
            complete=True,
            noise=self.noise,
            selection=Selection(candidates=len(passed), threshold=self.per_item + self.margin),
            least=1,
        )

"""Mechanisms for a public domain: Laplace or Gaussian noise on every count, Gumbel top k, exponential."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from setwise.accounting.brackets import float_above
from setwise.accounting.guarantees import BoundedRange, DiscreteLaplace, Gaussian, Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, SMALLEST_NOISE, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise, gaussian_count_noise
from setwise.mechanisms.parameters import binary, positive_integer, probability, rational
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import CONFIDENCE, ErrorEstimate, Item, Release, Selection, ranked_items, with_noise
from setwise.mechanisms.sampling.gumbel import gumbel_order


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLaplace:
    """Add Laplace noise of scale per_item * scale to every count of `domain`, zeros included.

    At most `contributions` counts change between neighbours, each by at most `per_item`, so this is that many
    Laplace steps of epsilon 1/scale each, composed optimally; in all, (contributions/scale)-DP.

    Theorem: lem:peeling_lap; GhoshRoSu12 for the integers.

    >>> KnownLaplace(domain=("a", "b"), contributions=1, scale=Fraction(10)).guarantees()
    (Use(guarantee=DiscreteLaplace(scale=10.0, sensitivity=1), count=1),)
    """

    domain: tuple[Label, ...]
    contributions: int
    per_item: int = 1
    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", distinct_labels(self.domain))
        positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        object.__setattr__(self, "scale", rational("scale", self.scale, SMALLEST_NOISE, LARGEST_NOISE))
        LaplaceNoise(scale=self.scale * self.per_item)  # refuses noise too wide to draw

    @property
    def noise(self) -> LaplaceNoise:
        """The noise on each count."""
        return LaplaceNoise(scale=binary(self.scale * self.per_item))

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs."""
        guarantee = DiscreteLaplace(scale=float(self.noise.scale), sensitivity=self.per_item)
        return (Use(guarantee, min(self.contributions, max(1, len(self.domain)))),)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect, before any data is touched."""
        return ErrorEstimate.of(self.noise, confidence)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return every label of the domain with its noisy count, highest first."""
        return _with_noise_on_all(self, histogram, randomness)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGaussian:
    """Add Gaussian noise of deviation at most per_item * sigma to every count of `domain`, zeros included.

    At most `contributions` counts change between neighbours, each by at most `per_item`: that many Gaussian steps of
    parameter sigma, together exactly a Gaussian of sigma / sqrt(contributions). Counts share a part of their noise
    where that makes it narrower at this cost. Rounding the noise to whole numbers costs nothing.

    Theorem: BalleWa18; docs/mechanisms.md, Theorem 1.

    >>> KnownGaussian(domain=("a", "b"), contributions=2, sigma=Fraction(20)).guarantees()
    (Use(guarantee=Gaussian(sigma=20.0), count=2),)
    """

    domain: tuple[Label, ...]
    contributions: int
    per_item: int = 1
    sigma: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", distinct_labels(self.domain))
        positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        object.__setattr__(self, "sigma", rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))
        RoundedGaussianNoise(sigma=self.sigma * self.per_item)  # refuses noise too wide to draw

    @property
    def noise(self) -> RoundedGaussianNoise | SharedGaussianNoise:
        """The noise on the counts."""
        return gaussian_count_noise(len(self.domain), self.contributions, self.per_item, binary(self.sigma))

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs."""
        return (Use(Gaussian(sigma=float(binary(self.sigma))), min(self.contributions, max(1, len(self.domain)))),)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect, before any data is touched."""
        return ErrorEstimate.of(self.noise, confidence)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return every label of the domain with its noisy count, highest first."""
        return _with_noise_on_all(self, histogram, randomness)


def _with_noise_on_all(
    mechanism: KnownLaplace | KnownGaussian, histogram: Histogram, randomness: Randomness
) -> Release:
    domain, noise = mechanism.domain, mechanism.noise
    noisy = with_noise(histogram.over(domain), noise, randomness)
    return Release(
        items=ranked_items(domain, noisy.tolist(), least=0),
        spent=mechanism.guarantees(),
        complete=True,
        noise=noise,
        selection=Selection(candidates=len(domain)),
    )


LARGEST_SCORE = 2**62
SMALLEST_RATE = Fraction(1, 10**9)
LARGEST_PICK_EPSILON = Fraction(100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """Pick one candidate with probability proportional to exp(epsilon * score / score_range): epsilon-bounded range.

    `score_range` bounds max_i (u_i(x) - u_i(x')) - min_i (u_i(x) - u_i(x')) over neighbours x, x'. A monotone score
    that moves by at most s has range s; one that may move either way has range 2s.

    Theorem: DongDuRo19.
    """

    epsilon: Fraction
    score_range: Fraction

    def __post_init__(self) -> None:
        epsilon = rational("epsilon", self.epsilon, SMALLEST_RATE, LARGEST_PICK_EPSILON)
        object.__setattr__(self, "epsilon", epsilon)
        score_range = rational("score_range", self.score_range, SMALLEST_RATE, Fraction(LARGEST_SCORE))
        object.__setattr__(self, "score_range", score_range)

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one pick costs."""
        return (Use(BoundedRange(epsilon=float_above(self.epsilon))),)

    def pick(self, scores: Sequence[int | Fraction], randomness: Randomness) -> int:
        """Return the position of the candidate picked.

        Requires: scores are integers or rationals whose common denominator keeps them within ±2^62.
        """
        if not len(scores):
            raise InvalidParameter("scores must name at least one candidate")
        try:
            exact = [rational("score", score, Fraction(-LARGEST_SCORE), Fraction(LARGEST_SCORE)) for score in scores]
        except InvalidParameter:  # whose message would quote a private score
            raise InvalidParameter("scores must be integers or rationals within ±2^62") from None
        denominator = math.lcm(*(score.denominator for score in exact))
        whole = [int(score * denominator) for score in exact]
        if max(map(abs, whole)) > LARGEST_SCORE:
            raise InvalidParameter("scores need a common denominator that keeps them within ±2^62")
        rate = self.epsilon / (self.score_range * denominator)
        return int(gumbel_order(np.array(whole, dtype=np.int64), rate, 1, randomness)[0])


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

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the error to expect, before any data is touched."""
        confidence = probability("confidence", confidence)
        picks = min(self.k, len(self.domain))
        # One pick misses by s with probability at most |domain| exp(-rate s).
        odds = picks * len(self.domain) / float(1 - confidence)
        return ErrorEstimate(confidence=confidence, shortfall=math.ceil(math.log(odds) / float(self.rate)))

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the k highest labels, in order, without counts."""
        order = gumbel_order(histogram.over(self.domain), self.rate, self.k, randomness)
        items = tuple(Item(label=self.domain[place]) for place in order)
        return Release(items=items, spent=self.guarantees(), complete=True)

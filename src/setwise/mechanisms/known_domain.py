"""Mechanisms for a public domain of groups: Laplace or Gaussian noise on all counts, and picks by Gumbel noise.

`KnownGumbel` picks the top k groups; `Exponential` and `PermuteAndFlip` pick one of several candidates with given
scores.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from setwise.accounting.brackets import float_above
from setwise.accounting.guarantees import BoundedRange, DiscreteLaplace, Gaussian, PureDP, Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, SMALLEST_NOISE, LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise, gaussian_count_noise
from setwise.mechanisms.parameters import binary, positive_integer, probability, rational
from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.release import ErrorEstimate, Item, Release, Selection, ranked_items, with_noise
from setwise.mechanisms.sampling.coins import exponential_coin, uniform_below
from setwise.mechanisms.sampling.gumbel import gumbel_order
from setwise.records import set_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLaplace:
    """Adds Laplace noise of scale per_item * scale to the count of every group of the public `domain`, zeros included.

    A user changes at most `contributions` counts, each by at most `per_item`. So one release costs as much as
    `contributions` uses of Laplace noise, or as many as the domain has groups, if these are fewer. Each use is
    (1/scale)-DP.

    Theorem: the paper's Laplace histogram as separate pure DP steps (lem:peeling_lap); GhoshRoSu12 for the integers.

    >>> KnownLaplace(domain=("a", "b"), contributions=1, scale=Fraction(10)).guarantees()
    (Use(guarantee=DiscreteLaplace(scale=10.0, sensitivity=1), count=1),)
    """

    domain: tuple[Label, ...]
    contributions: int
    per_item: int = 1
    scale: Fraction

    def __post_init__(self) -> None:
        set_fields(self, domain=distinct_labels(self.domain))
        positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        set_fields(self, scale=rational("scale", self.scale, SMALLEST_NOISE, LARGEST_NOISE))
        LaplaceNoise(scale=self.scale * self.per_item)  # raises InvalidParameter if this noise is too wide

    @property
    def noise(self) -> LaplaceNoise:
        """The integer Laplace noise on each count, of scale per_item * scale.

        The two fields are the most that one user adds to a count (`per_item`), and the noise scale for an addition of 1
        (`scale`).
        """
        return LaplaceNoise(scale=binary(self.scale * self.per_item))

    def guarantees(self) -> tuple[Use, ...]:
        """Return the privacy cost of one release: one use of Laplace noise for each count that one user can change."""
        guarantee = DiscreteLaplace(scale=float(self.noise.scale), sensitivity=self.per_item)
        return (Use(guarantee, min(self.contributions, max(1, len(self.domain)))),)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the expected error of the noisy counts, from the parameters alone, before any data is read.

        The error is in the unit of the counts, such as users. `confidence` is the probability with which the stated
        radius of a count's interval holds.
        """
        return ErrorEstimate.of(self.noise, confidence)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return every group of the public domain with its noisy count, highest first.

        `histogram` has the exact counts; a group that it does not list has the count 0. `randomness` is the source of
        the noise.
        """
        return _with_noise_on_all(self, histogram, randomness)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGaussian:
    """Adds Gaussian noise of deviation at most per_item * sigma to the count of every group of the public `domain`.

    A user changes at most `contributions` counts, each by at most `per_item`. One release costs one Gaussian use of
    parameter sigma for each count that a user can change. Groups that the table does not have get noise too, on the
    count 0.

    Theorem: BalleWa18; docs/mechanisms.md, Theorem 1.

    >>> KnownGaussian(domain=("a", "b"), contributions=2, sigma=Fraction(20)).guarantees()
    (Use(guarantee=Gaussian(sigma=20.0), count=2),)
    """

    # Counts share a part of their noise if that makes the noise smaller at the same cost. Rounding the noise to whole
    # numbers costs nothing. The uses together are exactly one Gaussian use of sigma / sqrt(contributions).

    domain: tuple[Label, ...]
    contributions: int
    per_item: int = 1
    sigma: Fraction

    def __post_init__(self) -> None:
        set_fields(self, domain=distinct_labels(self.domain))
        positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        set_fields(self, sigma=rational("sigma", self.sigma, SMALLEST_NOISE, LARGEST_NOISE))
        RoundedGaussianNoise(sigma=self.sigma * self.per_item)  # raises InvalidParameter if this noise is too wide

    @property
    def noise(self) -> RoundedGaussianNoise | SharedGaussianNoise:
        """The Gaussian noise of the counts of all groups together.

        Each count has its own independent noise, or its noise is the sum of an own part and a part that all counts
        share. Noise is shared if that makes the noise of each count smaller at the same privacy cost.
        """
        return gaussian_count_noise(len(self.domain), self.contributions, self.per_item, binary(self.sigma))

    def guarantees(self) -> tuple[Use, ...]:
        """Return the privacy cost of one release: one use of Gaussian noise for each count that one user can change."""
        return (Use(Gaussian(sigma=float(binary(self.sigma))), min(self.contributions, max(1, len(self.domain)))),)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the expected error of the noisy counts, from the parameters alone, before any data is read.

        The error is in the unit of the counts, such as users. `confidence` is the probability with which the stated
        radius of a count's interval holds.
        """
        return ErrorEstimate.of(self.noise, confidence)

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return every group of the public domain with its noisy count, highest first.

        `histogram` has the exact counts; a group that it does not list has the count 0. `randomness` is the source of
        the noise.
        """
        return _with_noise_on_all(self, histogram, randomness)


def _with_noise_on_all(
    mechanism: KnownLaplace | KnownGaussian, histogram: Histogram, randomness: Randomness
) -> Release:
    """Return all groups of the mechanism's public domain with noisy counts, highest first.

    `histogram` has the exact counts; a group that it does not list has the count 0. `randomness` is the source of the
    noise.
    """
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


def _check_pick(mechanism: "Exponential | PermuteAndFlip") -> None:
    """Check the parameters of a mechanism that picks one candidate, and replace them by exact fractions."""
    set_fields(
        mechanism,
        epsilon=rational("epsilon", mechanism.epsilon, SMALLEST_RATE, LARGEST_PICK_EPSILON),
        score_range=rational("score_range", mechanism.score_range, SMALLEST_RATE, Fraction(LARGEST_SCORE)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """The exponential mechanism: picks a candidate with probability proportional to exp(epsilon * score / score_range).

    The privacy loss of one pick has epsilon-bounded range. Adding or removing one user changes each score by some
    amount; `score_range` bounds the largest of these changes minus the smallest, which may be negative. For example, it
    is s if one user changes all scores in one direction and by at most s.

    Theorem: DongDuRo19.
    """

    epsilon: Fraction
    score_range: Fraction

    def __post_init__(self) -> None:
        _check_pick(self)

    def guarantees(self) -> tuple[Use, ...]:
        """Return the privacy cost of one pick (a random choice of one candidate): one use of epsilon-bounded range."""
        return (Use(BoundedRange(epsilon=float_above(self.epsilon))),)

    def pick(self, scores: Sequence[int | Fraction], randomness: Randomness) -> int:
        """Return the index of the candidate that the exponential mechanism picks; `scores` has one score per candidate.

        `randomness` is the source of the random choice.

        Requires: scores are integers or rationals, and within ±2^62 when multiplied by their common denominator.
        Raises: `InvalidParameter` otherwise, or if there are no scores. The message quotes no score, because scores are
        private.
        """
        scores_in_units, denominator = _scores_in_units(scores)
        rate = self.epsilon / (self.score_range * denominator)
        return int(gumbel_order(np.array(scores_in_units, dtype=np.int64), rate, 1, randomness)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip:
    """Permute-and-flip: picks one candidate under pure epsilon-DP, by one coin for each candidate (see `pick`).

    At the same epsilon, the picked score is on average at least as close to the highest score as with `Exponential`.
    But a pick is only epsilon-DP, while a pick of `Exponential` has epsilon-bounded range, which is stronger. So
    several picks together cost less with `Exponential`.

    Adding or removing one user changes each score by some amount; `score_range` bounds the largest of these changes
    minus the smallest, which may be negative. For example, it is s if one user changes all scores in one direction and
    by at most s.

    Theorem: McKenna and Sheldon (2020); docs/mechanisms.md, "Permute-and-flip", for scores that one user changes in the
    same direction.

    >>> PermuteAndFlip(epsilon=Fraction(1, 2), score_range=Fraction(1)).guarantees()
    (Use(guarantee=PureDP(epsilon=0.5), count=1),)
    """

    # For every candidate a coin is tossed, which lands heads with probability exp(-epsilon * gap / score_range), where
    # gap is the highest score minus the candidate's score. One of the candidates with heads is picked uniformly.

    epsilon: Fraction
    score_range: Fraction

    def __post_init__(self) -> None:
        _check_pick(self)

    def guarantees(self) -> tuple[Use, ...]:
        """Return the privacy cost of one pick (a random choice of one candidate): one use of epsilon-DP."""
        return (Use(PureDP(epsilon=float_above(self.epsilon))),)

    def pick(self, scores: Sequence[int | Fraction], randomness: Randomness) -> int:
        """Return the index of the candidate that permute-and-flip picks; `scores` has one score per candidate.

        A coin is tossed for each candidate, and lands heads with probability exp(-epsilon * shortfall / score_range);
        the shortfall is the highest score minus the candidate's. One of the candidates with heads is picked uniformly.
        `randomness` is the source of the coins.

        Requires: scores are integers or rationals, and within ±2^62 when multiplied by their common denominator.
        Raises: `InvalidParameter` otherwise, or if there are no scores. The message quotes no score, because scores are
        private.
        """
        # The coin of every candidate is tossed, with integer arithmetic, so that neither the number of tosses nor a
        # rounding error depends on the scores.
        scores_in_units, denominator = _scores_in_units(scores)
        rate, highest = self.epsilon / (self.score_range * denominator), max(scores_in_units)
        words = randomness.words(len(scores_in_units)).tolist()
        heads = [
            place
            for place, (score, word) in enumerate(zip(scores_in_units, words, strict=True))
            if exponential_coin(rate * (highest - score), word, WORD, randomness)
        ]
        return heads[uniform_below(len(heads), randomness)]


def _scores_in_units(scores: Sequence[int | Fraction]) -> tuple[list[int], int]:
    """Return (scores, denominator): `scores` as whole numbers, multiplied by their least common denominator.

    Picks are made with whole numbers, so that no rounding error depends on the scores.

    >>> _scores_in_units([Fraction(1, 2), Fraction(1, 3)])
    ([3, 2], 6)

    Raises: `InvalidParameter` if there are no scores, or if they are not integers or rationals within ±2^62 after the
    multiplication. The message quotes no score, because scores are private.
    """
    if not len(scores):
        raise InvalidParameter("scores must name at least one candidate")
    try:
        exact = [rational("score", score, Fraction(-LARGEST_SCORE), Fraction(LARGEST_SCORE)) for score in scores]
    except InvalidParameter:  # do not pass this error on, because its message quotes a private score
        raise InvalidParameter("scores must be integers or rationals within ±2^62") from None
    denominator = math.lcm(*(score.denominator for score in exact))
    scores_in_units = [int(score * denominator) for score in exact]
    if max(map(abs, scores_in_units)) > LARGEST_SCORE:
        raise InvalidParameter("scores need a common denominator that keeps them within ±2^62")
    return scores_in_units, denominator


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGumbel:
    """Releases the groups of the public `domain` with the k highest counts after Gumbel noise, in order.

    The result is that of k picks, one after the other, each of the group with the highest remaining noisy count. The
    noise has scale per_item/epsilon. A user raises every count by between 0 and `per_item`. So each pick costs
    epsilon-bounded range, however many counts a user changes. Only the order is released, never a noisy count.

    Theorem: DongDuRo19; DurfeeRo19.

    >>> KnownGumbel(domain=("a", "b", "c"), k=2, epsilon=Fraction(1, 2)).guarantees()
    (Use(guarantee=BoundedRange(epsilon=0.5), count=2),)
    """

    domain: tuple[Label, ...]
    k: int
    per_item: int = 1
    epsilon: Fraction

    def __post_init__(self) -> None:
        set_fields(self, domain=distinct_labels(self.domain))
        if not self.domain:
            raise InvalidParameter("domain must hold at least one label")
        positive_integer("k", self.k)
        positive_integer("per_item", self.per_item)
        epsilon = rational("epsilon", self.epsilon, SMALLEST_RATE, LARGEST_PICK_EPSILON)
        set_fields(self, epsilon=epsilon)

    @property
    def rate(self) -> Fraction:
        """The inverse of the Gumbel noise scale: epsilon divided by per_item.

        per_item is the most that one user adds to a count.
        """
        return self.epsilon / self.per_item

    def guarantees(self) -> tuple[Use, ...]:
        """Return the privacy cost of one release: one use of epsilon-bounded range for each released group."""
        return (Use(BoundedRange(epsilon=float_above(self.epsilon)), min(self.k, len(self.domain))),)

    def preview(self, confidence: Fraction = CONFIDENCE) -> ErrorEstimate:
        """Return the expected error of the ranking, from the parameters alone, before any data is read.

        The field `shortfall` of the result bounds, in units of a count, by how much the exact count of a picked group
        may be below the highest exact count of the groups not picked yet. It holds for all k picks together with
        probability `confidence`.
        """
        confidence = probability("confidence", confidence)
        picks = min(self.k, len(self.domain))
        # One pick misses by s with probability at most |domain| exp(-rate s).
        odds = picks * len(self.domain) / float(1 - confidence)
        return ErrorEstimate(confidence=confidence, shortfall=math.ceil(math.log(odds) / float(self.rate)))

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return the groups with the k highest noisy counts, in order, without their counts.

        `histogram` has the exact counts of the groups, and `randomness` is the source of the noise.
        """
        order = gumbel_order(histogram.over(self.domain), self.rate, self.k, randomness)
        items = tuple(Item(label=self.domain[place]) for place in order)
        return Release(items=items, spent=self.guarantees(), complete=True)

"""Discrete Laplace noise on every count of a public domain."""

from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.guarantees import DiscreteLaplace
from setwise.accounting.use import Use
from setwise.mechanisms.histogram import Histogram, Label, distinct_labels
from setwise.mechanisms.interval import CONFIDENCE
from setwise.mechanisms.laplace_noise import LARGEST_NOISE, SMALLEST_NOISE, LaplaceNoise
from setwise.mechanisms.noise import with_noise
from setwise.mechanisms.preview import Preview
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.rational import binary, positive_integer, rational
from setwise.mechanisms.release import Release, ranked_items


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

    def preview(self, confidence: Fraction = CONFIDENCE) -> Preview:
        """Return the error to expect, before any data is touched."""
        noise = self.noise
        return Preview(confidence=confidence, expected_error=noise.expected_absolute, radius=noise.radius(confidence))

    def release(self, histogram: Histogram, randomness: Randomness) -> Release:
        """Return every label of the domain with its noisy count, highest first."""
        noisy = with_noise(histogram.over(self.domain), self.noise, randomness)
        return Release(
            items=ranked_items(self.domain, noisy.tolist()), spent=self.guarantees(), complete=True, noise=self.noise
        )

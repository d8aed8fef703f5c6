"""Gaussian noise, rounded, on every count of a public domain."""

from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.guarantees import Gaussian
from setwise.accounting.use import Use
from setwise.mechanisms.histogram import Histogram, Label, distinct_labels
from setwise.mechanisms.interval import CONFIDENCE
from setwise.mechanisms.laplace_noise import LARGEST_NOISE, SMALLEST_NOISE
from setwise.mechanisms.noise import with_noise
from setwise.mechanisms.preview import Preview
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.rational import binary, positive_integer, rational
from setwise.mechanisms.release import Release, ranked_items
from setwise.mechanisms.rounded_gaussian_noise import RoundedGaussianNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGaussian:
    """Add Gaussian noise of standard deviation per_item * sigma to every count of `domain`, zeros included.

    At most `contributions` counts change between neighbours, each by at most `per_item`: that many Gaussian steps,
    together exactly a Gaussian of sigma / sqrt(contributions). Rounding the noise to whole numbers costs nothing.

    Theorem: BalleWa18.

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
    def noise(self) -> RoundedGaussianNoise:
        """The noise on each count."""
        return RoundedGaussianNoise(sigma=binary(self.sigma) * self.per_item)

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release costs."""
        return (Use(Gaussian(sigma=float(binary(self.sigma))), min(self.contributions, max(1, len(self.domain)))),)

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

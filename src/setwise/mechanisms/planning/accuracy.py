"""How far a label with noise on its count must lead to come out in its place."""

import math
from fractions import Fraction
from typing import assert_never

from scipy.special import ndtri

from setwise.mechanisms.noise.gaussian import GaussianNoise
from setwise.mechanisms.noise.laplace import LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise
from setwise.mechanisms.release import Noise


def ranking_shortfall(noise: Noise, contests: int, confidence: Fraction) -> int:
    """Return a lead that no label loses in any of `contests` comparisons, with the given confidence.

    Two noises of a comparison differ by more than s with probability P[Z1 - Z2 > s]; the chances are added up. The laws
    are the continuous ones, of which the integer ones are within a unit.
    """
    miss = float(1 - confidence)
    match noise:
        case LaplaceNoise(scale=scale):
            return math.ceil(float(scale) * laplace_lead(contests, miss))
        case GaussianNoise() | RoundedGaussianNoise() | TruncatedGaussianNoise():
            return math.ceil(-math.sqrt(2.0) * float(noise.sigma) * float(ndtri(miss / contests)))
        case SharedGaussianNoise(own_sigma=sigma):
            return math.ceil(-math.sqrt(2.0) * float(sigma) * float(ndtri(miss / contests)))
        case _:
            assert_never(noise)


def laplace_lead(contests: int, miss: float) -> float:
    """Return the t with contests * exp(-t) (2 + t) / 4 = miss: the difference of two Laplace noises of scale 1.

    >>> round(laplace_lead(1, 0.5), 9)
    0.0
    """
    if not contests:
        return 0.0
    goal = math.log(contests / (4.0 * miss))
    lead = max(0.0, goal)
    for _ in range(60):  # t = goal + ln(2 + t) contracts, because its slope is at most a half
        lead = max(0.0, goal + math.log(2.0 + lead))
    return lead

"""The quotient of a noisy sum and a noisy number, such as a mean, with an interval that holds both noises."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from scipy.special import ndtri

from setwise.mechanisms.release import Estimate
from setwise.mechanisms.two_phase import Counts, GaussianCounts, LaplaceCounts, noise_of


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyRatio:
    """The quotient of a noisy sum and a noisy number, between -reach and reach, and its interval.

    `explained` returns how far sum - theta * number may be from 0 by noise alone, for a quotient theta. It is convex.
    """

    reach: int
    explained: Callable[[float], float]

    @classmethod
    def of(cls, reach: int, rows: int, noise: Counts, confidence: Fraction) -> "NoisyRatio":
        """Return the quotient of a sum and a number to which one user adds at most `rows * reach` and `rows`.

        Theorem: Fieller54 for Gaussian noise.
        """
        return cls(reach=reach, explained=_explained_by_noise(reach, rows, noise, 1 - confidence))

    def estimate(self, total: int, count: int) -> Estimate:
        """Return the quotient of a noisy sum and a noisy number, 0 where the number is not positive, and its interval.

        The interval holds every theta with |total - theta * count| <= explained(theta).
        """
        reach = float(self.reach)
        value = min(max(total / count, -reach), reach) if count > 0 else 0.0
        low, high = (sign * self._end(sign * total, count, sign * value) for sign in (-1, 1))
        return Estimate(value=value, interval=(low, high))

    def _end(self, total: int, count: int, value: float) -> float:
        """Return the largest theta up to reach with theta * count - total within what the noises explain.

        The excess is a concave function of theta that is not positive at `value`, so it turns positive at most once.
        """
        inside, outside = value, float(self.reach)
        if outside * count - total <= self.explained(outside):
            return outside
        for _ in range(60):
            middle = (inside + outside) / 2
            if middle * count - total <= self.explained(middle):
                inside = middle
            else:
                outside = middle
        return outside


def _explained_by_noise(reach: int, rows: int, noise: Counts, miss: Fraction) -> Callable[[float], float]:
    """Return a bound on |sum - theta * number| as a function of theta; noise exceeds it with probability `miss`.

    One user adds at most `rows * reach` to the sum and `rows` to the number.
    """
    match noise:
        case LaplaceCounts():  # both noises lie within their own radius, each missed with half the probability
            of_sum, of_number = (noise_of(noise, each).radius(1 - miss / 2) for each in (reach * rows, rows))
            return lambda theta: of_sum + abs(theta) * of_number
        case GaussianCounts(sigma=sigma):  # rounding moves each noise by at most a half
            spread = -float(ndtri(float(miss) / 2)) * float(sigma) * rows
            return lambda theta: spread * math.hypot(reach, theta) + (1 + abs(theta)) / 2
        case _:
            assert_never(noise)

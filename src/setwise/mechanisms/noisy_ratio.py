"""The quotient of a noisy sum and a noisy number of rows, such as a mean, with an interval that covers both noises."""

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
    """Divides a noisy sum by a noisy number of rows, and computes a confidence interval of the quotient.

    - `reach` is the largest absolute value that the quotient of the exact numbers can have. Quotients of noisy numbers
      are limited to [-reach, reach].
    - `explained` is a convex function that bounds what noise alone can do. If theta is the exact quotient, |noisy sum -
      theta * noisy number| is at most `explained(theta)`, except with a small probability, with which intervals may
      miss. So the interval has every theta for which this holds.
    """

    # The interval consists of the theta in [-reach, reach] with |sum - theta * number| <= explained(theta). These theta
    # form an interval because `explained` is convex.

    reach: int
    explained: Callable[[float], float]

    @classmethod
    def of(cls, reach: int, rows: int, noise: Counts, confidence: Fraction) -> "NoisyRatio":
        """Return the object that divides a noisy sum by a noisy number of rows, with an interval of the quotient.

        - `reach` is the most that one row adds to the sum, in absolute value.
        - `rows` is the most rows of one user. So one user adds at most reach times rows to the sum.
        - `noise` is the kind of noise, and its scale for a number to which one user adds at most 1. The noise on the
          sum has reach times rows times this scale, and the noise on the number of rows has rows times this scale.
        - `confidence` is the probability with which the interval of a quotient holds.

        Theorem: Fieller54 for Gaussian noise.
        """
        return cls(reach=reach, explained=_explained_by_noise(reach, rows, noise, 1 - confidence))

    def estimate(self, total: int, count: int) -> Estimate:
        """Return the noisy sum `total` divided by the noisy number of rows `count`, with its interval.

        The quotient is limited to [-reach, reach], where `reach` is the largest absolute value of the exact quotient.
        It is 0 if `count` is not positive. The interval has every possible exact quotient theta for which the noise can
        be the reason that `total` differs from theta * `count`: |total - theta * count| is at most `explained(theta)`,
        the bound on the noise in this object.
        """
        reach = float(self.reach)
        value = min(max(total / count, -reach), reach) if count > 0 else 0.0
        low, high = (sign * self._end(sign * total, count, sign * value) for sign in (-1, 1))
        return Estimate(value=value, interval=(low, high))

    def _end(self, total: int, count: int, value: float) -> float:
        """Return the upper end of the quotient's confidence interval, found by bisection.

        The end is limited to `self.reach`, the largest possible quotient. `total` is the noisy sum, `count` the noisy
        number of rows and `value` their quotient.
        """
        # The end is the largest theta with theta * count - total <= explained(theta), where explained(theta) bounds the
        # noise. The left side minus the right side is a concave function of theta that is not positive at `value`, so
        # it becomes positive at most once above `value`.
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
    """Return a function of theta: a bound on |noisy sum - theta * noisy number of rows| if theta is the exact quotient.

    The exact quotient is exact sum / exact number of rows. For it, the difference consists of noise only, so the bound
    fails with probability at most `miss`. The caller looks for every theta that is within the bound, to make a
    confidence interval. One user adds at most `rows * reach` to the sum and at most `rows` to the number of rows.
    `noise` is the kind of noise on both, and its scale for sensitivity 1.
    """
    match noise:
        case LaplaceCounts():  # each noise exceeds its radius with probability miss / 2
            of_sum, of_number = (
                noise_of(noise, sensitivity).radius(1 - miss / 2) for sensitivity in (reach * rows, rows)
            )
            return lambda theta: of_sum + abs(theta) * of_number
        case GaussianCounts(sigma=sigma):  # rounding to integers changes each noise by at most a half
            deviation = -float(ndtri(float(miss) / 2)) * float(sigma) * rows
            return lambda theta: deviation * math.hypot(reach, theta) + (1 + abs(theta)) / 2
        case _:
            assert_never(noise)

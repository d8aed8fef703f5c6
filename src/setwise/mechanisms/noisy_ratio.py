"""The quotient of a noisy sum and a noisy number, such as a mean, with an interval that covers both noises."""

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
    """Divides a noisy sum by a noisy number of rows; the quotient is limited to [-reach, reach] and has an interval.

    `reach` is the largest absolute value that a true quotient can have. `explained` is a convex function: for a
    possible value theta of the true quotient, `explained(theta)` bounds the size of the noise in sum - theta * number,
    with the confidence of the interval. The interval consists of the theta for which sum - theta * number is within
    explained(theta) of 0.
    """

    reach: int
    explained: Callable[[float], float]

    @classmethod
    def of(cls, reach: int, rows: int, noise: Counts, confidence: Fraction) -> "NoisyRatio":
        """Return the `NoisyRatio` for a sum and a number of rows that both have the noise `noise`.

        One user has at most `rows` rows. A row adds at most `reach` to the sum, in either direction, so quotients are
        limited to [-reach, reach]. `confidence` is the probability with which the interval of a quotient holds.

        Theorem: Fieller54 for Gaussian noise.
        """
        return cls(reach=reach, explained=_explained_by_noise(reach, rows, noise, 1 - confidence))

    def estimate(self, total: int, count: int) -> Estimate:
        """Return the quotient of the noisy sum `total` and the noisy number `count`, with its interval.

        The value is 0 if `count` is not positive. The interval holds every theta for which noise can explain the
        difference total - theta * count, that is |total - theta * count| <= explained(theta).
        """
        reach = float(self.reach)
        value = min(max(total / count, -reach), reach) if count > 0 else 0.0
        low, high = (sign * self._end(sign * total, count, sign * value) for sign in (-1, 1))
        return Estimate(value=value, interval=(low, high))

    def _end(self, total: int, count: int, value: float) -> float:
        """Return the upper end of the quotient's confidence interval, at most reach, found by bisection.

        reach is the largest absolute value of a quotient. `total` is the noisy sum, `count` the noisy number of rows
        and `value` the quotient. The end is the largest theta with theta * count - total <= explained(theta), the bound
        on the noise. The left side minus the right side is a concave function of theta that is not positive at `value`,
        so it becomes positive at most once.
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
    """Return a function that maps a quotient theta to a bound on the noise in sum - theta * number.

    The bound fails with probability at most `miss`. `reach` is the largest absolute value that a row adds to the sum.
    One user adds at most `rows * reach` to the sum and `rows` to the number of rows, and `noise` is the kind of noise
    on both.
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

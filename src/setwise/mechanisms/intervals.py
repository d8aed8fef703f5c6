"""Confidence intervals of exact counts that stay valid although noisy counts decided which items are listed.

`lower_ends` computes the lower ends; `Release.intervals` in release.py makes intervals of them.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from setwise.errors import InvalidParameter
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.shared_gaussian import SharedGaussianNoise
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise

CONFIDENCE = Fraction(95, 100)

Noise: TypeAlias = LaplaceNoise | RoundedGaussianNoise | SharedGaussianNoise | TruncatedGaussianNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The whole numbers from `lower` to `upper`, both included.

    Raises: `InvalidParameter` unless 0 <= lower <= upper.
    """

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not 0 <= self.lower <= self.upper:
            raise InvalidParameter(f"an interval needs 0 <= lower <= upper, not [{self.lower}, {self.upper}]")

    def __contains__(self, count: float) -> bool:
        return self.lower <= count <= self.upper


_TAIL_ERROR = 1e-3
"""Relative error assumed for a ratio of two tail probabilities; the interval is widened for it."""


def lower_ends(
    noisy: NDArray[np.int64], noise: Noise, miss: Fraction, *, threshold: int | None, least: int
) -> NDArray[np.int64]:
    """Return a lower confidence bound on the exact count behind each of the `noisy` counts.

    - `noise` was added to each exact count.
    - `miss` is the largest probability with which an exact count is below its bound.
    - `threshold`: only noisy counts above it were released (None: all were). Released counts then tend to have positive
      noise; the bounds are lowered to allow for that.
    - Bounds below `least`, the smallest value that an exact count can have, are raised to it.

    Theorem: docs/intervals.md, Lemma 2.
    Ensures: for an exact count c fixed beforehand and its noisy count x, P[bound > c | x > threshold] <= miss.
    Raises: `InvalidParameter` if there is a threshold and the counts share a part of their noise.
    """
    # Let Z be the noise. The end is the smallest c >= least with P[Z >= x - c | Z > threshold - c] > miss. If the exact
    # count were below it, a released noisy count would be x or higher with probability at most `miss`. Without a
    # threshold the end is x - r, where r is the smallest number with P[Z > r] <= miss. With a threshold it is found by
    # bisection, because the conditional probability rises with c (the noise laws are log-concave).
    ends = np.maximum(noisy - noise.radius(1 - 2 * miss), least)
    if threshold is None:
        return ends
    if isinstance(noise, SharedGaussianNoise):
        raise InvalidParameter(
            "intervals above a threshold need independent noise, but these counts share a part of it"
        )
    log_miss = math.log(miss) - _TAIL_ERROR

    def passes(x: NDArray[np.int64], c: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return, for each pair of a noisy count x in `x` and an exact count c in `c`, whether x can come from c.

        A noisy count is listed only if it exceeds `threshold`. The answer is yes if, among the listed noisy counts of a
        group with the exact count c, a count of x or more has a probability above `miss`: P[Z >= x - c | Z > threshold
        - c] > miss, where Z is the noise. The noise, `threshold` and `miss` are arguments of `lower_ends`, the function
        around this one. The lower end of an interval is the smallest c for which the answer is yes.
        """
        # Compare instead of subtracting logarithms: both tails are 0 if bounded noise cannot lift c over the threshold.
        released = noise.log_tail(threshold + 1 - c)
        return noise.log_tail(x - c) > released + log_miss - _ROUNDING * np.abs(released)

    # Far above the threshold the condition makes no difference, and no c below the end without threshold passes.
    affected = np.flatnonzero((ends > least) & passes(noisy, ends - 1))
    x, passing = noisy[affected], ends[affected] - 1
    failing = np.full(len(affected), least - 1)
    while (open_ := passing - failing > 1).any():
        middle = failing + (passing - failing) // 2
        right = passes(x, middle)
        passing = np.where(open_ & right, middle, passing)
        failing = np.where(open_ & ~right, middle, failing)
    ends[affected] = passing
    return ends


_ROUNDING = 1e-14
"""Relative rounding error of the logarithm of a tail."""


def radius_after_choice(radius: float, confidence: float, share: Fraction) -> float:
    """Return the radius of an interval that allows for showing only a `share` of released numbers, chosen by value.

    `radius` is the radius at `confidence`, in steps of the noise, whose law is symmetric and log-concave on the whole
    numbers.

    Theorem: docs/intervals.md, Lemma 3, whose lower end x - r(a share) needs the law of the noise; the result is at
    least that radius for every such law, and is the same, up to rounding, for Laplace noise.
    Ensures: noise exceeds the result, to either side together, with probability at most (1 - confidence) share.
    """
    # Let Z be the noise. The function -log(2 P[Z >= z]) is convex and at most 0 at z = 0, so it is at least t times as
    # large at t z as at z, for t >= 1. At z = radius + 1 it is at least log(1 / (1 - confidence)).
    if share == 1:
        return radius
    ratio = 1 - math.log(share) / -math.log1p(-confidence)
    return math.ceil(ratio * (radius + 1))


SHARES = np.linspace(0.0, 1.0, 501)
"""The shares, from 0 to 1, that are tested for the interval of the share of users, rows or pairs that are left out."""


def share_interval(passing: NDArray[np.intp]) -> tuple[float, float]:
    """Return the interval (lower, upper) of a share, given which of the tested shares the noise can explain.

    The shares 0%, 0.2%, 0.4%, ..., 100% in `SHARES` were tested. `passing` has the indices of those that noise can
    explain, in ascending order. The interval reaches one step of 0.2% further than these, because a share between two
    tested ones may be explained, too. For contribution bounds, the step also covers a rounding error: users are divided
    between bins in 1,024ths, and this rounding changes the number of a user's pairs by at most 0.05%. The interval is
    (0, 1) if `passing` is empty.
    """
    if not len(passing):
        return 0.0, 1.0
    step = float(SHARES[1])
    first, last = float(SHARES[passing[0]]), float(SHARES[passing[-1]])
    return max(0.0, round(first - step, 4)), min(1.0, round(last + step, 4))

"""Gaussian noise that counts share in part: one draw that is added to all counts, and one draw for each count.

Neighbouring tables differ by one user, so all counts change in the same direction. Noise that is common to all counts
hides such a change cheaply. So sharing makes the noise of a count smaller at the same privacy cost.

Theorem: docs/mechanisms.md, Theorem 1.
"""

# Fix d labels before noise is drawn; a user adds between 0 and tau to at most Delta of their counts. For theta in [0,
# 1/2] let Q be Delta (1 - 2 theta) + d theta^2, let r be at least sqrt(Q), and let f be r + theta. Each count gets
# independent noise of variance r f (tau sigma)^2, and all counts get one common noise of variance theta f (tau
# sigma)^2. This costs at most one Gaussian use of parameter sigma. Each count then has noise of standard deviation f
# tau sigma. Without sharing, theta is 0 and f is sqrt(Delta).

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from setwise.accounting.brackets import float_above, float_below
from setwise.errors import InvalidParameter
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, SMALLEST_NOISE
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.parameters import positive_integer, probability, rational
from setwise.mechanisms.randomness import WORD, Randomness
from setwise.records import set_fields

_CLOSE_TO_BEST = 1.01
"""The denominator of theta is the smallest for which f is within this factor of its minimum, because a larger
denominator needs larger tables."""

_LARGEST_DENOMINATOR = 64
_ROOT_BITS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGaussianNoise:
    """Integer noise for `labels` counts, which share a part of it: (Y + Z) / denominator, rounded.

    Y is drawn for each count, and Z once for all counts. Y is a Gaussian of standard deviation `own`, rounded to a
    whole number. Z is a Gaussian of standard deviation `common`, rounded to a whole number. A quotient halfway between
    two whole numbers is rounded up or down by a fair coin. If one user changes many counts in one direction, the shared
    part hides much of the change, so less noise is needed for each count.
    """

    # The noise is post-processing of Gaussian noise: for a whole count c, c plus this noise is (denominator * c + Y +
    # Z) / denominator, rounded.

    labels: int
    denominator: int
    own: Fraction
    common: Fraction

    def __post_init__(self) -> None:
        positive_integer("labels", self.labels)
        positive_integer("denominator", self.denominator, _LARGEST_DENOMINATOR)
        for name in ("own", "common"):
            set_fields(self, **{name: rational(name, getattr(self, name), SMALLEST_NOISE, LARGEST_NOISE)})

    def draw(self, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
        """Return one draw of noise for each of `count` counts; all draws share a part of the noise.

        The object is made for a fixed number of counts, the field `labels`, so `count` must be this number.
        `randomness` is the source of random words of `width` bits; `width` affects only the speed, not the
        distribution.

        Raises: `InvalidParameter` unless `count` equals `labels`.
        """
        if count != self.labels:
            raise InvalidParameter(f"the noise is for {self.labels} counts, not for {count}")
        own_noise = RoundedGaussianNoise(sigma=self.own).draw(count, randomness, width)
        common = RoundedGaussianNoise(sigma=self.common).draw(1, randomness, width)
        return self.combined(own_noise, common, randomness.words(count, 1).astype(np.int64))

    def combined(
        self, own_noise: NDArray[np.int64], common: NDArray[np.int64], coins: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the noise of each count: (its own noise + common noise) / `denominator`, rounded to a whole number.

        The field `denominator` makes the noise finer than whole numbers before it is rounded.

        - `own_noise` has one draw of rounded Gaussian noise for each count.
        - `common` has a single draw, which all counts share.
        - `coins` has a fair coin, 0 or 1, for each count. It decides if the quotient lies halfway between two whole
          numbers: 1 rounds down, and 0 rounds up.
        """
        doubled = 2 * (own_noise + common) + self.denominator
        tied = doubled % (2 * self.denominator) == 0
        return np.asarray(doubled // (2 * self.denominator) - np.where(tied, coins, 0), dtype=np.int64)

    @property
    def sigma(self) -> Fraction:
        """Upper bound on the standard deviation of the noise of one count, in units of a count.

        The noise is the sum of a part drawn for this count alone and a part that is common to all counts; the sum is
        then rounded to a whole number. The bound is for the sum before it is rounded.
        """
        return Fraction(root_above(self.own**2 + self.common**2)) / self.denominator

    @property
    def own_sigma(self) -> Fraction:
        """Standard deviation, before rounding, of the separate part of one count's noise, in units of a count.

        The noise of a count is the sum of a part drawn for this count alone and a part that is common to all counts.
        The difference of two noisy counts has noise of the separate parts alone, because the common part cancels.
        """
        return self.own / self.denominator

    def radius(self, confidence: Fraction) -> int:
        """Return an r such that the noise Z of one count has P[|Z| <= r] >= `confidence`, in units of a count.

        Z includes both the part drawn for this count alone and the part that is common to all counts.
        """
        # Z is (Y + Y') / denominator, rounded, where Y is the count's own noise and Y' the common noise. If |Z| > r,
        # then |Y + Y'| >= denominator (r + 1/2). Y and Y' are rounded Gaussians, so the sum of the two Gaussians is
        # within 1 of Y + Y'.
        outside = float_below(1 - probability("confidence", confidence))
        reach = float_above(self.sigma) * -float(ndtri(outside / 2)) * (1.0 + 1e-12)
        return max(0, math.ceil(reach + 1.0 / self.denominator - 0.5))

    @property
    def variance(self) -> Fraction:
        """The variance of the noise of one count, before the noise is rounded to a whole number.

        The noise of a count has a part that is drawn for this count alone, and a part that is common to all counts. The
        planner compares the result with sigma^2, the variance of rounded Gaussian noise that is independent for each
        count. The last rounding adds about 1/12 to either variance, so it is left out of both.
        """
        # The noise is (own part + common part) / denominator, rounded. Rounding each part adds 1/12, in units of
        # 1/denominator^2, and is included. Rounding the quotient adds about 1/12 more, which is left out, because
        # rounding adds it to a rounded Gaussian too. The true addition differs from 1/12 by a small amount, which
        # depends on whether ties are possible; this amount is included.
        ties = Fraction(1, 6) if self.denominator % 2 == 0 else Fraction(-1, 12)
        return self.sigma**2 + (Fraction(1, 6) + ties) / self.denominator**2

    @property
    def expected_absolute(self) -> float:
        """The approximate mean absolute value of the noise of one count, used to preview errors.

        The noise is the sum of a part drawn for this count alone and a part common to all counts. The result is
        computed for a rounded Gaussian of the same variance.
        """
        return RoundedGaussianNoise(sigma=root_above(self.variance)).expected_absolute

    @property
    def standard_deviation(self) -> float:
        """The approximate standard deviation of the noise of one count, used to preview errors.

        The noise is the sum of a part drawn for this count alone and a part common to all counts. The result is
        computed for a rounded Gaussian of the same variance.
        """
        return RoundedGaussianNoise(sigma=root_above(self.variance)).standard_deviation


def gaussian_count_noise(
    labels: int, contributions: int | None, per_item: int, sigma: Fraction
) -> RoundedGaussianNoise | SharedGaussianNoise:
    """Return the Gaussian noise to add to `labels` counts, independent for each count or partly shared.

    - `contributions` is the most counts that one user can change (None: all).
    - `per_item` is the most that one user adds to a count.
    - `sigma` sets the privacy cost of all counts together: as many Gaussian uses of this sigma as one user can change
      counts.

    Independent noise has the standard deviation per_item * sigma. If a user can change many counts, the counts share a
    part of their noise, because the noise of each count is then smaller at the same cost.

    >>> gaussian_count_noise(10, None, 1, Fraction(10)).radius(Fraction(95, 100))
    13
    """
    # The noise is independent if sharing would gain less than 1%, or less than the extra rounding loses.
    changeable = labels if contributions is None else min(labels, contributions)
    deviation = per_item * sigma
    theta = best_theta(labels, changeable)
    if theta:
        root = root_above(squared_sensitivity(labels, changeable, theta))
        unit = theta.denominator**2 * (root + theta) * deviation**2 / changeable
        own_sigma, common = (float_root_above(part * unit) for part in (root, theta))
        if min(own_sigma, common) >= SMALLEST_NOISE and max(own_sigma, common) <= LARGEST_NOISE:
            shared = SharedGaussianNoise(labels=labels, denominator=theta.denominator, own=own_sigma, common=common)
            if shared.variance < deviation**2:
                return shared
    return RoundedGaussianNoise(sigma=deviation)


def squared_sensitivity(labels: int, changeable: int, theta: Fraction) -> Fraction:
    """Return the squared l2-sensitivity of counts if all counts share a part of their noise, in units of tau^2.

    tau is the most that one user adds to a count. The noise scale for a given privacy cost is in proportion to the
    sensitivity. A user may add tau to `changeable` of the `labels` counts. The shared noise hides a change that is the
    same for all counts. So `theta` tau is subtracted from the change of every count, and the sensitivity is the l2 norm
    of what is left: (1 - `theta`) tau for the counts that the user changes, and -`theta` tau for all others.

    `theta` is a number from 0 to 1/2 that says how large the shared noise is; with 0 there is none.

    >>> squared_sensitivity(labels=4, changeable=4, theta=Fraction(1, 2))
    Fraction(1, 1)
    """
    # For theta up to 1/2 the change is largest if the user adds tau to `changeable` counts.
    return changeable * (1 - 2 * theta) + labels * theta**2


@lru_cache(maxsize=1024)
def relative_deviations(labels: int, changeable: int) -> tuple[float, float]:
    """Return (noise of a count, its part that is not shared), as standard deviations relative to independent noise.

    The planner predicts the error of Gaussian counts from these factors. Counts share a part of their noise if that
    makes the noise of each count smaller at the same privacy cost. Each number is divided by the standard deviation of
    noise that is drawn independently for every count and costs as much. So (0.66, 0.57) means that a count has 66% of
    the noise that independent noise would have. There are `labels` counts, of which one user changes at most
    `changeable`.

    >>> [round(part, 2) for part in relative_deviations(10, 10)]
    [0.66, 0.57]
    """
    theta, alone = best_theta(labels, changeable), math.sqrt(changeable)
    factor = _factor(labels, changeable, theta)
    return factor / alone, math.sqrt((factor - float(theta)) * factor) / alone


@lru_cache(maxsize=1024)
def best_theta(labels: int, changeable: int) -> Fraction:
    """Return the weight theta of the noise common to all counts, for which the noise of each count is about smallest.

    The noise of a count is the sum of a part drawn for this count alone and a part common to all counts; theta, from 0
    (no common part) to 1/2, says how large the common part is (see `squared_sensitivity`). There are `labels` counts,
    of which a user changes at most `changeable`.

    Of all theta for which a count's noise is within 1% of its minimum, the result has the smallest denominator, because
    a larger denominator needs larger tables. The result is 0 if no denominator up to 64 is enough.

    >>> best_theta(10, 10), best_theta(10, 5), best_theta(10, 1), best_theta(1000, 2)
    (Fraction(1, 2), Fraction(1, 3), Fraction(0, 1), Fraction(0, 1))
    """
    # The standard deviation of the noise is proportional to f = sqrt(Q) + theta, with Q from `squared_sensitivity`. f
    # is convex in theta, and its derivative is 0 where changeable - labels * theta = sqrt(Q).
    if changeable <= 1:
        return Fraction(0)
    stationary = (changeable - math.sqrt(changeable * (labels - changeable) / (labels - 1))) / labels
    ideal = min(0.5, stationary)
    most = _CLOSE_TO_BEST * _factor(labels, changeable, Fraction(ideal))
    for denominator in range(1, _LARGEST_DENOMINATOR + 1):
        theta = min(Fraction(round(ideal * denominator), denominator), Fraction(1, 2))
        if _factor(labels, changeable, theta) <= most:
            return theta
    return Fraction(0)


def _factor(labels: int, changeable: int, theta: Fraction) -> float:
    """Return the noise of one count relative to tau * sigma, if all counts share a part of their noise.

    The result is the standard deviation of the noise, divided by tau * sigma. tau is the most that one user adds to a
    count. sigma sets the privacy cost of all counts together: one Gaussian use of this sigma for each count that a user
    can change. There are `labels` counts, of which one user changes at most `changeable`. `theta`, from 0 to 1/2, says
    how large the common part is. `best_theta` compares the results of several `theta` to find a small one.

    The result is sqrt(Q) + `theta`, where Q is the squared sensitivity (`squared_sensitivity`).
    """
    return math.sqrt(squared_sensitivity(labels, changeable, theta)) + float(theta)


def root_above(value: Fraction) -> Fraction:
    """Return a fraction that is at least the square root of `value`, and above it by at most 2^-60.

    Noise scales are computed with it, because a scale that is rounded down would cost more privacy than is charged.
    """
    scaled = -(-(value.numerator << 2 * _ROOT_BITS) // value.denominator)
    root = math.isqrt(scaled)
    return Fraction(root if root * root == scaled else root + 1, 1 << _ROOT_BITS)


def float_root_above(value: Fraction) -> Fraction:
    """Return a fraction that a float can represent exactly and that is at least the square root of `value`.

    Noise scales are computed with it: rounding up never costs more privacy, and costs are computed with floats.
    """
    return Fraction(float_above(root_above(value)))

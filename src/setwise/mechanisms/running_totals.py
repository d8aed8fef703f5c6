"""Running totals of users over T periods, released once per period, at the privacy cost of a single release.

The cost of all releases together is that of one Gaussian mechanism. The release of a period is, for each group, a
weighted sum of the numbers of new users of this and earlier periods, plus Gaussian noise. The total up to a period is
then estimated from the releases so far, as a weighted sum of them, without private data. Good weights make its error
much smaller than that of a sum of noisy counts.

Proofs: docs/running-totals.md. live/series.py decides which periods are released.
"""

# Let x[g, t] be the number of users who are new in group g in period t. A user is new in a group once, and counts in at
# most Delta groups. The release of period t is y[g, t], the sum over s <= t of c[t-s] x[g, s], plus independent
# Gaussian noise of standard deviation sigma. The weights c are non-negative and non-increasing; they are the first
# column of a lower-triangular Toeplitz matrix C. All T releases together are one Gaussian use with mu = sqrt(Delta)
# ||c|| / sigma. The total up to period t is estimated by the sum over s <= t of B[t, s] y[g, s], where B is A C^-1 and
# A is the matrix of prefix sums.
#
# The weights are multiples of 2^-bits. So 2^bits C x is a vector of whole numbers, and the noise added to it is the
# exactly rounded Gaussian.

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from scipy.special import log_ndtr, ndtr, ndtri

from setwise.accounting.checks import check_failure
from setwise.accounting.guarantees import ApproxDP, Gaussian, Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.noise.discrete import LARGEST_NOISE, SMALLEST_NOISE
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.parameters import positive_integer, probability
from setwise.mechanisms.randomness import Randomness

MOST_PERIODS = 4000
"""Largest number of periods: ten years of days. Estimates multiply a T x T matrix of floats, which takes 128 MB at
this size."""

BITS = 20
"""The weights of earlier periods in a release are multiples of 2^-20, or of a larger power of 2 if the noise scale in
units of 2^-20 would exceed what can be drawn.
"""

_FLOAT_SLACK = 1e-9
"""Relative and absolute margin of thresholds and radii, far above the rounding error of the floats they are computed
from."""

_EXPONENTS = tuple(Fraction(step, 20) for step in range(21))
"""Candidates for the exponent a of a `Shape`, whose weights are the coefficients of (1 - x)^-a: 0 weighs the present
period alone, and 1/2 is the square root of the prefix sums.
"""

_CUTOFFS = (1, 2, 4)
"""If estimates sum windows of w periods, weights that are 0 from these multiples of w on are candidates too."""


class Purpose(StrEnum):
    """What a series of counts is for: which estimates from it should have the smallest error.

    The estimates are totals (sums of all periods so far), single periods, or windows (sums of the last few periods).
    """

    TOTALS = "totals"
    """The total from the first period up to every period."""
    PERIODS = "periods"
    """Each period by itself."""
    WINDOWS = "windows"
    """The sum of the last w periods, for one w."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The weights with which a release sums up a group's counts of the present and earlier periods.

    In each period of a series of counts, a weighted sum of the counts so far is released with noise. The count k
    periods ago has the weight c[k], the coefficient of x^k in the power series of (1 - x)^-exponent. For example, the
    exponent 1/2 gives the weights 1, 1/2, 3/8, and so on. Weights from the index `cutoff` on are 0 instead (None: all
    are used).
    """

    exponent: Fraction
    cutoff: int | None = None

    def __str__(self) -> str:
        """Return a phrase for people about the weights of earlier periods in a release, a noisy weighted sum of counts.

        Examples: "independent noise in every period", "the square root of the prefix sums".
        """
        if self.exponent == 0:
            return "independent noise in every period"
        root = "the square root of the prefix sums" if self.exponent == Fraction(1, 2) else None
        name = root or f"the power {float(self.exponent):g} of the prefix sums"
        return name if self.cutoff is None else f"{name}, cut off after {self.cutoff} periods"

    def coefficients(self, periods: int) -> NDArray[np.float64]:
        """Return the weights c[0], ..., c[periods - 1] as floats: c[k] is the weight of a group's count k periods ago.

        A release is the weighted sum of a group's counts of the present and earlier periods, plus noise. c[0] = 1, and
        c[k] = c[k-1] (a + k - 1) / k with a = exponent. The weights from the index `cutoff` on are 0.
        """
        steps = np.arange(1, periods, dtype=np.float64)
        ratios = (float(self.exponent) + steps - 1.0) / steps
        coefficients = np.concatenate(([1.0], np.cumprod(ratios)))
        if self.cutoff is not None:
            coefficients[self.cutoff :] = 0.0
        return coefficients


def choose_shape(periods: int, purpose: Purpose, window: int | None = None, participations: int = 1) -> Shape:
    """Return the weights (a `Shape`) with which releases sum up earlier periods, chosen for the smallest error.

    A release is a weighted sum of a group's counts of the present and earlier periods, plus noise. All weights are
    compared at the same privacy cost. The error is the standard deviation of the estimate for the last period, which is
    the largest of all periods. The result is the best of a list of candidates.

    - `periods` is the number of periods of the series.
    - `purpose` says which estimates should have the smallest error, such as totals or windows.
    - `window` is the number of periods of a window; it is needed for the purpose WINDOWS, and None for the others.
    - `participations` is the most periods in which a user adds to a group.

    Raises: `InvalidParameter` if a window is missing for WINDOWS or given for another purpose.
    """
    # The last period's estimate has the largest error.
    length = wanted_window(periods, purpose, window)
    shapes = [Shape(exponent=exponent) for exponent in _EXPONENTS]
    if length is not None:
        cutoffs = [factor * length for factor in _CUTOFFS if factor * length < periods]
        shapes += [Shape(exponent=exponent, cutoff=cutoff) for exponent in _EXPONENTS[1:] for cutoff in cutoffs]
    # The identity comes first, so that it is chosen if several candidates are equal, as they are for one period.
    return min(
        shapes, key=lambda shape: round(_relative_error(shape.coefficients(periods), length, participations), 12)
    )


def wanted_window(periods: int, purpose: Purpose, window: int | None) -> int | None:
    """Return the number of periods whose sum a series of counts is to estimate; None for all periods so far.

    `purpose` says what the series is for: the result is `window` for windows (sums of the last few periods), 1 for
    single periods, and None for totals. `periods` is the number of periods of the series, and `window` the number of
    periods in a window.

    Raises: `InvalidParameter` if a window is missing for WINDOWS or given for another purpose.
    """
    match purpose:
        case Purpose.WINDOWS:
            if window is None:
                raise InvalidParameter("say how many periods a window spans: give a window")
            return positive_integer("window", window, periods)
        case Purpose.PERIODS | Purpose.TOTALS:
            if window is not None:
                raise InvalidParameter(f"a window is for the purpose 'windows', not {str(purpose)!r}")
            return 1 if purpose is Purpose.PERIODS else None


def _relative_error(coefficients: NDArray[np.float64], window: int | None, participations: int) -> float:
    """Return the error of a series' last estimate, divided by the error of one noisy count of the same privacy cost.

    Both errors are standard deviations. In each period, the series releases for each group the weighted sum of its
    counts so far, plus noise. From these releases the number of users in the last `window` periods is estimated. The
    one noisy count costs as much privacy as the whole series. `choose_shape` looks for the weights with the smallest
    result.

    - `coefficients` are the weights of the present and earlier periods in a release.
    - `window` is the number of periods that the estimate sums; None for all.
    - `participations` is the largest number of periods in which a user adds to a group.
    """
    row = _window_row(_inverse_row(coefficients), window)
    largest_change = np.convolve(coefficients, np.ones(participations))[: len(coefficients)]
    return float(np.linalg.norm(row) * np.linalg.norm(largest_change))


def _inverse_row(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights b with which releases y are summed to estimate totals of all periods so far.

    The total up to period t is estimated as the sum over s <= t of b[t - s] y[s]. A release y[s] is a sum of the counts
    of period s and of earlier periods with the weights `coefficients`, plus noise. The weights b undo the weights of
    the releases, so that the estimate is the total plus noise.
    """
    # As a power series, b(x) is 1 / ((1 - x) c(x)), where c(x) = c[0] + c[1] x + ... has the `coefficients`. Rounding
    # errors do not grow exponentially along the recursion, because no zero of c(x) lies inside the unit circle
    # (Enestroem-Kakeya).
    row = np.empty(len(coefficients))
    for place in range(len(coefficients)):
        row[place] = 1.0 - float(coefficients[1 : place + 1] @ row[:place][::-1])
    return row


def _window_row(row: NDArray[np.float64], window: int | None) -> NDArray[np.float64]:
    """Return the weights with which releases are summed to estimate the total of the last `window` periods.

    `row` has weights b for the total of all periods so far: b[k] is the weight of the release k periods ago. The total
    of a window is the total up to now minus the total up to `window` periods ago. So its weights are b[k] - b[k -
    window], where b is 0 for negative indices. If `window` is None, or as long as the series, the result is `row`.
    """
    if window is None or window >= len(row):
        return row
    windowed = row.copy()
    windowed[window:] -= row[:-window]
    return windowed


def rounded_coefficients(shape: Shape, periods: int, bits: int) -> tuple[int, ...]:
    """Return the weights of the present and earlier periods in a release, as whole numbers in units of 2^-bits.

    A release is the weighted sum of a group's counts of the present and earlier periods, plus noise. `shape` gives the
    weights before rounding, latest period first, and there are `periods` of them. Rounded weights are never negative,
    and no weight is larger than the one before it.

    Ensures: the first weight is 2^bits, which stands for 1.
    """
    multiples: list[int] = []
    for coefficient in shape.coefficients(positive_integer("periods", periods, MOST_PERIODS)):
        nearest = round(coefficient * (1 << bits))
        multiples.append(min(nearest, multiples[-1]) if multiples else 1 << bits)
    return tuple(multiples)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTotals:
    """Releases, in each of several periods and for each group, a noisy weighted sum of the group's counts so far.

    The method `estimates` computes running totals from the releases; with good weights, these totals have much less
    noise than sums of noisy counts. All releases together cost one Gaussian use of `sigma`, and with private groups
    also an outright failure (an event in which everything may be revealed) of probability `failure`.

    - `coefficients`, in units of 2^-`bits`, are the weights of the counts of this and earlier periods, latest first.
      There is one for each period.
    - `sigma` is the noise's standard deviation divided by the l2-sensitivity of all releases.
    - `contributions` is the most groups to which one user adds.
    - `participations` is the most periods in which one user adds 1 to a group.
    - `failure` bounds the probability that a group of one user alone is ever shown; None if all groups are public.

    >>> totals = RunningTotals.plan(periods=365, contributions=10, sigma=4.0)
    >>> round(float(totals.deviations()[-1]))  # standard deviation of the total of all 365 periods, in users
    37
    """

    coefficients: tuple[int, ...]
    bits: int
    sigma: float
    contributions: int
    participations: int = 1
    failure: float | None = None

    def __post_init__(self) -> None:
        positive_integer("the number of periods", len(self.coefficients), MOST_PERIODS)
        positive_integer("bits", self.bits, 40)
        positive_integer("contributions", self.contributions)
        positive_integer("participations", self.participations, len(self.coefficients))
        if any(later > earlier for earlier, later in zip(self.coefficients, self.coefficients[1:], strict=False)):
            raise InvalidParameter("coefficients must not increase, because the sensitivity is that of the first ones")
        if self.coefficients[0] != 1 << self.bits or self.coefficients[-1] < 0:
            raise InvalidParameter("coefficients must begin at 1 and must not be negative")
        if self.failure is not None and not check_failure("failure", self.failure):
            raise InvalidParameter("the failure probability of private groups must be positive")
        Gaussian(sigma=self.sigma)
        if not SMALLEST_NOISE <= self.noise_scale <= LARGEST_NOISE:
            raise InvalidParameter(f"the noise of sigma {self.sigma:g} is out of the range that can be drawn")

    @classmethod
    def plan(
        cls,
        *,
        periods: int,
        contributions: int,
        sigma: float,
        shape: Shape | None = None,
        participations: int = 1,
        failure: float | None = None,
    ) -> "RunningTotals":
        """Return the mechanism that releases running totals of several groups over `periods` periods.

        In each period it releases one number per group: a weighted sum of the group's counts in this and all earlier
        periods, plus noise. The running totals are computed from these numbers.

        - `shape` gives the weights of the counts. None takes the weights with which running totals have the smallest
          error (see `choose_shape`).
        - `sigma` is the noise scale divided by the l2-sensitivity.
        - `contributions` is the most groups that one user adds to.
        - `participations` is the most periods in which one user adds 1 to the same group.
        - `failure` is for groups that are not public: the largest probability with which a group that only one user has
          is ever shown. None if groups are public.
        """
        # The weights are multiples of 2^-20. If the noise scale exceeds about 950 users, they are multiples of a larger
        # power of 2, because noise is drawn only up to a standard deviation of 10^9 such units.
        chosen = shape or choose_shape(periods, Purpose.TOTALS, participations=participations)
        for bits in range(BITS, 0, -1):
            coefficients = rounded_coefficients(chosen, periods, bits)
            if noise_units(coefficients, sigma, contributions, participations) <= LARGEST_NOISE or bits == 1:
                break
        return cls(
            coefficients=coefficients,
            bits=bits,
            sigma=sigma,
            contributions=contributions,
            participations=participations,
            failure=failure,
        )

    @property
    def periods(self) -> int:
        """Number of periods of the series; in each of them, noisy counts are released."""
        return len(self.coefficients)

    @property
    def noise_scale(self) -> int:
        """Standard deviation of the noise on a group's released value in each period, in units of 2^-bits users.

        `bits` is a field of this object: with 10 bits, for example, a noise scale of 2048 is 2 users.
        """
        return noise_units(self.coefficients, self.sigma, self.contributions, self.participations)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on a group's released value in each period, in users."""
        return math.ldexp(self.noise_scale, -self.bits)

    def uses(self) -> tuple[Use, ...]:
        """Return the privacy cost of the releases of all periods: guarantees and how often each is used.

        It is one Gaussian use. If groups are private, it is also one use that reveals nothing unless it fails, which
        happens with probability at most `failure`.

        Theorem: docs/running-totals.md, Theorems 1 and 2.
        """
        gaussian = Use(Gaussian(sigma=self.sigma))
        return (gaussian,) if self.failure is None else (gaussian, Use(ApproxDP(epsilon=0.0, delta=self.failure)))

    def draw(self, count: int, randomness: Randomness) -> NDArray[np.int64]:
        """Draw the noise for `count` released values, independently and exactly, as whole numbers of 2^-`bits` users.

        For example, with `bits` = 20 the number 2^20 stands for one user. The field `bits` is chosen when the mechanism
        is planned. A released value is a weighted sum of a group's counts so far, plus one such draw. `randomness` is
        the source of random words.
        """
        return RoundedGaussianNoise(sigma=Fraction(self.noise_scale)).draw(count, randomness)

    def release(self, new_users: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the released values: for each group and period, a weighted sum of its counts so far, plus noise.

        From these weighted sums the method `estimates` computes totals with much less noise than sums of noisy counts
        would have.

        - `new_users` has, for each group and period, the exact number of users who are counted in that period: the
          group's count.
        - `noise` has an independent draw of noise for each group and period (see `draw`), in the same unit as the
          result.

        The result has a row for each group and a column for each period. It is in units of 2^-bits users: with `bits`
        (a field) of 10, for example, 2048 is 2 users. The unit is so small because the weights (`coefficients`) are
        fractions, rounded to multiples of it.

        Raises: `InvalidParameter` if the two arrays have different shapes.
        """
        # A released value is a weighted sum of a group's numbers of the present and earlier periods, plus noise. The
        # arithmetic is exact: numbers and noise of up to 2^42 fit into 64 bits.
        if new_users.shape != noise.shape:
            raise InvalidParameter("every group and period needs one draw of noise")
        first = np.array(self.coefficients[: new_users.shape[1]], dtype=np.int64)
        lower = toeplitz(first, np.zeros_like(first))
        return np.asarray(new_users @ lower.T + noise, dtype=np.int64)

    def estimates(self, released: NDArray[np.int64], window: int | None = None) -> NDArray[np.float64]:
        """Return estimated totals of users, computed from the `released` values: groups in rows, periods in columns.

        A released value is a weighted sum of a group's counts so far, plus noise. Column t has an estimate of the sum
        of the counts themselves, over the last `window` periods up to t, or over all periods up to t if `window` is
        None.
        """
        row = self._row(window)[: released.shape[1]]
        lower = toeplitz(row, np.zeros_like(row))
        return np.asarray(np.ldexp(released.astype(np.float64), -self.bits) @ lower.T, dtype=np.float64)

    def deviations(self, window: int | None = None) -> NDArray[np.float64]:
        """Return, for every period of the series, the standard deviation, in users, of the total estimated for it.

        The total is that of the last `window` periods, or of all periods so far if `window` is None. It is estimated
        from noisy releases alone, so the deviation depends on the parameters and not on the data.
        """
        return self.deviation * np.sqrt(np.cumsum(self._row(window) ** 2))

    def radii(self, confidence: Fraction, window: int | None = None) -> NDArray[np.float64]:
        """Return, for every period, a radius in users: how far the estimated total may be from the exact one.

        With probability `confidence`, the error of the total is at most the radius. The total is that of the last
        `window` periods, or of all periods so far if `window` is None.
        """
        # The error of an estimate is a weighted sum of the noises of the releases, which are rounded normals. Rounding
        # changes each release by at most half a unit, so it changes the estimate by at most half the sum of the
        # absolute weights.
        outside = float(1 - probability("confidence", confidence))
        return self._widen(-float(ndtri(outside / 2)), window)

    def intervals(
        self,
        released: NDArray[np.int64],
        confidence: Fraction,
        window: int | None = None,
        shown_from: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (lower ends, upper ends), in users, of confidence intervals of the totals estimated from `released`.

        A released value is a noisy weighted sum of a group's counts so far.

        - `released` and both results have a row per group and a column per period.
        - `confidence` is the probability with which an interval holds; for private groups, given that the group is
          shown.
        - `window` is the number of periods whose total is estimated; None for all so far.
        - `shown_from` has, for private groups, the period in which each group was first shown; None for public groups.

        Theorem: docs/running-totals.md, Proposition 3.
        """
        # The estimate of a group that has just passed its threshold is more often too high than too low, so its
        # interval extends further down.
        estimates = self.estimates(released, window)
        if shown_from is None or not estimates.size:
            radii = self.radii(confidence, window)[: estimates.shape[1]]
            return estimates - radii, estimates + radii
        outside = float(1 - probability("confidence", confidence))
        periods = estimates.shape[1]
        totals = estimates if window is None else self.estimates(released)
        thresholds, deviations = self.thresholds()[:periods], self.deviations()[:periods]
        lowered = totals - self._widen(0.0, None)[:periods]  # subtract the most that rounding may have added
        latest = least_selected(lowered[:, -1:], thresholds[-1:], deviations[-1:], outside / 4)
        chance = np.maximum(ndtr((latest - thresholds[-1]) / deviations[-1]), 1e-300)
        deviations_of_window = self.deviations(window)[:periods]
        reach = -ndtri(0.375 * outside * chance) * deviations_of_window + self._widen(0.0, window)[:periods]
        lower, upper = estimates - reach, estimates + reach
        if window is None and (self._row(None) >= 0.0).all():
            later = np.arange(periods) >= shown_from[:, np.newaxis]
            lower = np.where(later, least_selected(lowered, thresholds, deviations, outside / 2), lower)
            upper = np.where(later, estimates + self.radii(confidence)[:periods], upper)
        return lower, upper

    def thresholds(self) -> NDArray[np.float64]:
        """Return for each period the threshold, in users, that a private group must exceed to be shown.

        The group's estimated total is compared with it. The total is the number of the group's users in all periods so
        far. The thresholds hide groups that only one user has: the probability that any such group of a user is shown
        in any period is at most the field `failure`.

        Theorem: docs/running-totals.md, Theorem 2.
        Raises: `InvalidParameter` if the groups are public, because these are shown without a threshold.
        """
        # Let Delta be `contributions`, T the number of periods, and TV the total variation distance of the Gaussian
        # use. The estimate of a group that only one user has exceeds the threshold with probability at most failure (1
        # - TV) / (Delta T). Summed over the Delta groups of a user and all T periods, this costs one outright failure
        # of probability `failure`, in addition to the Gaussian use.
        if self.failure is None:
            raise InvalidParameter("public groups have no threshold, because every one of them is shown")
        shared = 1.0 - (2.0 * float(ndtr(0.5 / self.sigma)) - 1.0)
        tail = self.failure * shared / (self.contributions * self.periods)
        return self.participations + self._widen(-float(ndtri(tail)), None)

    def _widen(self, quantile: float, window: int | None) -> NDArray[np.float64]:
        """Return, for every period, half the width of an interval around its estimated total, in users.

        The half width is `quantile` (a number of standard deviations, such as 1.96 for a 95% interval) times the
        standard deviation of the estimate, plus the largest effect that rounding the releases to whole units can have.
        `window` is the number of periods that the estimate sums, or None for all so far.
        """
        rounding = math.ldexp(0.5, -self.bits) * np.cumsum(np.abs(self._row(window)))
        return np.asarray((quantile * self.deviations(window) + rounding) * (1.0 + _FLOAT_SLACK) + _FLOAT_SLACK)

    def _row(self, window: int | None) -> NDArray[np.float64]:
        """Return the weights with which noisy releases are summed to estimate the total of the last `window` periods.

        The first weight belongs to the release of the present period, the next to the release of the period before, and
        so on. If `window` is None, the total is of all periods so far.
        """
        if window is not None:
            positive_integer("window", window, MOST_PERIODS)
        return _window_row(_estimating_row(self.coefficients, self.bits), window)


_FAR = 8.0
"""Standard deviations above its threshold from which on the selection of a group has no effect on its interval."""

_HALVINGS = 40


def least_selected(
    estimates: NDArray[np.float64], thresholds: NDArray[np.float64], deviations: NDArray[np.float64], tail: float
) -> NDArray[np.float64]:
    """Return lower confidence bounds on the exact totals of groups that are shown only above `thresholds`.

    - `estimates` are the noisy estimates of the totals. A group is shown if its estimate exceeds its entry of
      `thresholds`, so estimates of shown groups tend to be too high, which the bounds allow for. The bound is 0 for an
      estimate that does not exceed its threshold.
    - `deviations` are the standard deviations of the estimates.
    - `tail` is the probability of a miss: for a shown group whose exact total is at or below the bound, an estimate as
      high as the observed one has at most this probability.
    """
    # With s the standard deviation and N standard normal, the bound L >= 0 solves P[N > (estimate - L) / s] = tail *
    # P[N > (threshold - L) / s]. The quotient of the two probabilities grows with L, so L is found by bisection. For an
    # estimate below its threshold L is 0.
    tops, scale = np.broadcast_to(thresholds, estimates.shape), np.broadcast_to(deviations, estimates.shape)
    totals = np.maximum(estimates + float(ndtri(tail)) * scale, 0.0)
    near = estimates <= tops + _FAR * scale
    at, top, s = estimates[near], tops[near], scale[near]
    low, high = np.zeros_like(at), np.maximum(at, 0.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        refuted = log_ndtr((middle - at) / s) - log_ndtr((middle - top) / s) < math.log(tail)
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    totals[near] = np.where(at > top, low, 0.0)
    return totals


@lru_cache(maxsize=32)
def _estimating_row(coefficients: tuple[int, ...], bits: int) -> NDArray[np.float64]:
    """Return the weights with which releases are summed to estimate the total of all periods so far.

    A release is itself a weighted sum of the counts of the present and earlier periods, plus noise. `coefficients` are
    the weights of this sum, in units of 2^-bits (2^bits stands for the weight 1). The returned weights undo them, so
    that the estimate is the total plus noise. The result is cached and read-only.
    """
    row = _inverse_row(np.ldexp(np.array(coefficients, dtype=np.float64), -bits))
    row.flags.writeable = False
    return row


@lru_cache(maxsize=128)
def squared_sensitivity(coefficients: tuple[int, ...], participations: int = 1) -> int:
    """Return the squared l2-sensitivity of all releases of one group, from which their noise scale is computed.

    A user adds 1 to the group in at most `participations` periods. A release is a weighted sum of the counts of the
    present and earlier periods, plus noise. `coefficients` are these weights as whole numbers, the weight of the
    present period first: the weight 1 is 2^b for some b, and the result is then in units of 4^-b.

    With weights 1 and 1/2 (b = 1), a user adds 1 to one release and 1/2 to the next one, and 1 + 1/4 is 5 / 4^1:

    >>> squared_sensitivity((2, 1))
    5

    Theorem: docs/running-totals.md, Theorem 1.
    """
    # It is the squared norm of the sum of the first `participations` columns of the lower triangular Toeplitz matrix
    # whose first column is `coefficients`.
    column = np.zeros(len(coefficients), dtype=object)
    for start in range(participations):
        column[start:] += np.array(coefficients[: len(coefficients) - start], dtype=object)
    return int(sum(int(entry) ** 2 for entry in column))


def noise_units(coefficients: tuple[int, ...], sigma: float, contributions: int, participations: int) -> int:
    """Return the noise scale, a whole number, at which the releases of all periods cost one Gaussian use of `sigma`.

    A release is a weighted sum of a group's counts of the present and earlier periods, plus noise. The noise scale is
    `sigma` times the l2-sensitivity of all releases, rounded up. All weights are whole multiples of a small unit,
    2^-bits for some number of bits; the noise scale is in this unit too.

    - `coefficients` are the weights of the present and earlier periods' counts in a release, in the small unit.
    - `contributions` is the largest number of groups to which a user adds.
    - `participations` is the largest number of periods in which a user adds to one group.
    """
    # The noise scale is sigma times the square root of contributions * `squared_sensitivity`, rounded up. Rounding up
    # makes the noise larger, so the releases cost no more than that Gaussian use.
    squared = Fraction(sigma) ** 2 * contributions * squared_sensitivity(coefficients, participations)
    least = math.isqrt(math.ceil(squared))
    return least if least * least >= squared else least + 1

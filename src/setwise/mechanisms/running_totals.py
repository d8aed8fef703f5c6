"""Running totals over T periods for the price of one Gaussian release.

Let x[g, t] be the number of users who are new in group g in period t. A user is new in a group once, and keeps at most
Delta groups. With a lower-triangular Toeplitz matrix C, whose first column c is non-negative and non-increasing, the
release of period t is y[g, t] = sum over s <= t of c[t-s] x[g, s] plus independent Gaussian noise of deviation sigma.
All T releases together are one Gaussian use with mu = sqrt(Delta) ||c|| / sigma. The total up to period t is estimated
by sum over s <= t of B[t, s] y[g, s], where B = A C^-1 and A is the matrix of prefix sums.

The coefficients are multiples of 2^-bits, so that 2^bits C x is a vector of whole numbers, and the noise added to it is
the exactly rounded Gaussian. Proofs: docs/running-totals.md.
"""

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
"""Ten years of days. Estimates multiply a matrix of T x T floats, which takes 128 MB at this size."""

BITS = 20
"""Coefficients are multiples of 2^-20 unless the noise scale, in those units, would exceed what can be drawn."""

_FLOAT_SLACK = 1e-9
"""Relative and absolute margin of thresholds and radii, far above the rounding error of the floats behind them."""

_EXPONENTS = tuple(Fraction(step, 20) for step in range(21))
"""Exponents a of the candidates (1 - x)^-a: 0 is the identity, 1/2 the square root of the prefix sums."""

_CUTOFFS = (1, 2, 4)
"""Candidates for windows are also cut off after this many window lengths, from where on coefficients are 0."""


class Purpose(StrEnum):
    """What the estimates of a series are wanted for; the coefficients with the least error for it are chosen."""

    TOTALS = "totals"
    """The total from the first period up to every period."""
    PERIODS = "periods"
    """Each period by itself."""
    WINDOWS = "windows"
    """The sum of the last w periods, for one w."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The series (1 - x)^-exponent, cut off after `cutoff` coefficients (None keeps all): one choice of C."""

    exponent: Fraction
    cutoff: int | None = None

    def __str__(self) -> str:
        """Return the name of the choice for people."""
        if self.exponent == 0:
            return "independent noise in every period"
        root = "the square root of the prefix sums" if self.exponent == Fraction(1, 2) else None
        name = root or f"the power {float(self.exponent):g} of the prefix sums"
        return name if self.cutoff is None else f"{name}, cut off after {self.cutoff} periods"

    def coefficients(self, periods: int) -> NDArray[np.float64]:
        """Return the first `periods` coefficients as floats: c[0] = 1 and c[k] = c[k-1] (a + k - 1) / k."""
        steps = np.arange(1, periods, dtype=np.float64)
        ratios = (float(self.exponent) + steps - 1.0) / steps
        found = np.concatenate(([1.0], np.cumprod(ratios)))
        if self.cutoff is not None:
            found[self.cutoff :] = 0.0
        return found


def choose_shape(periods: int, purpose: Purpose, window: int | None = None) -> Shape:
    """Return the candidate with the least error, at an equal privacy cost, of what the series is wanted for.

    The error is that of the last period, which is the largest of all: the norm of the row that estimates it, times the
    norm of c, which the noise scale is proportional to.
    """
    length = wanted_window(periods, purpose, window)
    shapes = [Shape(exponent=exponent) for exponent in _EXPONENTS]
    if length is not None:
        cutoffs = [factor * length for factor in _CUTOFFS if factor * length < periods]
        shapes += [Shape(exponent=exponent, cutoff=cutoff) for exponent in _EXPONENTS[1:] for cutoff in cutoffs]
    # Identity comes first, so that it wins where several candidates are equal, as they are for one period.
    return min(shapes, key=lambda shape: round(_relative_error(shape.coefficients(periods), length), 12))


def wanted_window(periods: int, purpose: Purpose, window: int | None) -> int | None:
    """Return how many periods an estimate of this purpose spans; None spans all periods from the first on."""
    match purpose:
        case Purpose.WINDOWS:
            if window is None:
                raise InvalidParameter("say how many periods a window spans: give a window")
            return positive_integer("window", window, periods)
        case Purpose.PERIODS | Purpose.TOTALS:
            if window is not None:
                raise InvalidParameter(f"a window is for the purpose 'windows', not {str(purpose)!r}")
            return 1 if purpose is Purpose.PERIODS else None


def _relative_error(coefficients: NDArray[np.float64], window: int | None) -> float:
    """Return the deviation of the last estimate over the noise of one count that costs as much privacy."""
    row = _window_row(_inverse_row(coefficients), window)
    return float(np.linalg.norm(row) * np.linalg.norm(coefficients))


def _inverse_row(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return b with B[t, s] = b[t-s] for B = A C^-1: the series 1 / ((1 - x) c(x)).

    The zeros of c(x) do not lie inside the unit circle (Enestroem-Kakeya), so that rounding errors do not grow
    exponentially along the recursion.
    """
    row = np.empty(len(coefficients))
    for place in range(len(coefficients)):
        row[place] = 1.0 - float(coefficients[1 : place + 1] @ row[:place][::-1])
    return row


def _window_row(row: NDArray[np.float64], window: int | None) -> NDArray[np.float64]:
    """Return the coefficients that estimate the last `window` periods: b[k] - b[k - window]."""
    if window is None or window >= len(row):
        return row
    found = row.copy()
    found[window:] -= row[:-window]
    return found


def rounded_coefficients(shape: Shape, periods: int, bits: int) -> tuple[int, ...]:
    """Return the coefficients of a shape as multiples of 2^-bits, non-negative and non-increasing.

    Ensures: the first one is 2^bits, that is 1.
    """
    found: list[int] = []
    for coefficient in shape.coefficients(positive_integer("periods", periods, MOST_PERIODS)):
        nearest = round(coefficient * (1 << bits))
        found.append(min(nearest, found[-1]) if found else 1 << bits)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTotals:
    """The mechanism of one series: T releases that together cost one Gaussian use, and what is estimated from them.

    `coefficients` are multiples of 2^-`bits`; their number is T. `sigma` is the parameter of the Gaussian use that is
    charged: the noise scale over the l2-sensitivity. Each user adds one unit to each of at most `contributions` groups,
    in at most `participations` periods. `failure` is the probability with which a group of one user alone is ever shown
    (None where all groups are public).

    >>> totals = RunningTotals.plan(periods=365, contributions=10, sigma=4.0)
    >>> round(float(totals.deviations()[-1]))
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
        """Return the mechanism of a shape (by default the best for totals), with the finest lattice that can be drawn.

        Coefficients are multiples of 2^-20. A noise scale above 950 users takes a coarser lattice, because noise is
        drawn up to a deviation of 10^9 units.
        """
        chosen = choose_shape(periods, Purpose.TOTALS) if shape is None else shape
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
        """How many periods the series has."""
        return len(self.coefficients)

    @property
    def noise_scale(self) -> int:
        """The deviation of the noise of one release, in units of 2^-bits users."""
        return noise_units(self.coefficients, self.sigma, self.contributions, self.participations)

    @property
    def deviation(self) -> float:
        """The deviation of the noise of one release, in users."""
        return math.ldexp(self.noise_scale, -self.bits)

    def uses(self) -> tuple[Use, ...]:
        """Return what the whole series costs: one Gaussian use, and one failure where groups are private.

        Theorem: docs/running-totals.md, Theorems 1 and 2.
        """
        gaussian = Use(Gaussian(sigma=self.sigma))
        return (gaussian,) if self.failure is None else (gaussian, Use(ApproxDP(epsilon=0.0, delta=self.failure)))

    def draw(self, count: int, randomness: Randomness) -> NDArray[np.int64]:
        """Return `count` independent exact draws of the noise of one release, in units of 2^-bits users."""
        return RoundedGaussianNoise(sigma=Fraction(self.noise_scale)).draw(count, randomness)

    def release(self, new_users: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return y in units of 2^-bits users, for groups in rows and the first periods in columns.

        `new_users` has how many users are new in each group and period, `noise` an independent draw for each.
        Arithmetic is exact: counts and noise of up to 2^42 leave room in 64 bits.
        """
        if new_users.shape != noise.shape:
            raise InvalidParameter("every group and period needs one draw of noise")
        first = np.array(self.coefficients[: new_users.shape[1]], dtype=np.int64)
        lower = toeplitz(first, np.zeros_like(first))
        return np.asarray(new_users @ lower.T + noise, dtype=np.int64)

    def estimates(self, released: NDArray[np.int64], window: int | None = None) -> NDArray[np.float64]:
        """Return the estimated number of users, for groups in rows and periods in columns.

        In column t it is the total of the last `window` periods up to t, or of all periods up to t without a window.
        """
        row = self._row(window)[: released.shape[1]]
        lower = toeplitz(row, np.zeros_like(row))
        return np.asarray(np.ldexp(released.astype(np.float64), -self.bits) @ lower.T, dtype=np.float64)

    def deviations(self, window: int | None = None) -> NDArray[np.float64]:
        """Return the standard deviation of the estimate of every period, in users."""
        return self.deviation * np.sqrt(np.cumsum(self._row(window) ** 2))

    def radii(self, confidence: Fraction, window: int | None = None) -> NDArray[np.float64]:
        """Return for every period an r such that the estimate is within r of the truth with this confidence.

        The error is B times normal noise of deviation sigma, rounded: rounding moves each release by at most half a
        unit, and the estimate by at most that times the sum of |B[t, s]|.
        """
        outside = float(1 - probability("confidence", confidence))
        return self._widened(-float(ndtri(outside / 2)), window)

    def intervals(
        self,
        released: NDArray[np.int64],
        confidence: Fraction,
        window: int | None = None,
        shown_from: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and upper ends of the intervals of all estimates, groups in rows and periods in columns.

        For private groups `shown_from` has the period in which each was first shown. A group that has just passed its
        threshold is more often too high than too low, so that its interval reaches further down: each interval holds
        the truth with this confidence, given that its group is shown.

        Theorem: docs/running-totals.md, Proposition 3.
        """
        estimates = self.estimates(released, window)
        if shown_from is None or not estimates.size:
            radii = self.radii(confidence, window)[: estimates.shape[1]]
            return estimates - radii, estimates + radii
        outside = float(1 - probability("confidence", confidence))
        periods = estimates.shape[1]
        totals = estimates if window is None else self.estimates(released)
        thresholds, deviations = self.thresholds()[:periods], self.deviations()[:periods]
        lowered = totals - self._widened(0.0, None)[:periods]  # by what rounding may have added
        latest = least_selected(lowered[:, -1:], thresholds[-1:], deviations[-1:], outside / 4)
        chance = np.maximum(ndtr((latest - thresholds[-1]) / deviations[-1]), 1e-300)
        own = self.deviations(window)[:periods]
        reach = -ndtri(0.375 * outside * chance) * own + self._widened(0.0, window)[:periods]
        lower, upper = estimates - reach, estimates + reach
        if window is None and (self._row(None) >= 0.0).all():
            later = np.arange(periods) >= shown_from[:, np.newaxis]
            lower = np.where(later, least_selected(lowered, thresholds, deviations, outside / 2), lower)
            upper = np.where(later, estimates + self.radii(confidence)[:periods], upper)
        return lower, upper

    def thresholds(self) -> NDArray[np.float64]:
        """Return for every period the estimate above which a private group is shown, in users.

        A group that one user alone has is above it with probability at most failure (1 - TV) / (Delta T), where TV is
        the total variation distance of the Gaussian use: so that Delta groups in T periods together, beside the
        Gaussian use, cost one outright failure of probability `failure`.

        Theorem: docs/running-totals.md, Theorem 2.
        """
        if self.failure is None:
            raise InvalidParameter("groups are public, so that every one of them is shown")
        shared = 1.0 - (2.0 * float(ndtr(0.5 / self.sigma)) - 1.0)
        tail = self.failure * shared / (self.contributions * self.periods)
        return self.participations + self._widened(-float(ndtri(tail)), None)

    def _widened(self, quantile: float, window: int | None) -> NDArray[np.float64]:
        rounding = math.ldexp(0.5, -self.bits) * np.cumsum(np.abs(self._row(window)))
        return np.asarray((quantile * self.deviations(window) + rounding) * (1.0 + _FLOAT_SLACK) + _FLOAT_SLACK)

    def _row(self, window: int | None) -> NDArray[np.float64]:
        if window is not None:
            positive_integer("window", window, MOST_PERIODS)
        return _window_row(_estimating_row(self.coefficients, self.bits), window)


_FAR = 8.0
"""Deviations above its threshold from where on a group that is shown is as good as any other."""

_HALVINGS = 40


def least_selected(
    estimates: NDArray[np.float64], thresholds: NDArray[np.float64], deviations: NDArray[np.float64], tail: float
) -> NDArray[np.float64]:
    """Return the least totals that are not refuted by estimates of groups which were shown for their estimates.

    It is the L with P[N > (estimate - L) / s] = tail P[N > (threshold - L) / s], at least 0: where the total is L, a
    group that is shown has so high an estimate with probability at most `tail`. The quotient grows with L, which is
    found by halving. An estimate below its threshold refutes no total.
    """
    tops, scale = np.broadcast_to(thresholds, estimates.shape), np.broadcast_to(deviations, estimates.shape)
    found = np.maximum(estimates + float(ndtri(tail)) * scale, 0.0)
    near = estimates <= tops + _FAR * scale
    at, top, s = estimates[near], tops[near], scale[near]
    low, high = np.zeros_like(at), np.maximum(at, 0.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        refuted = log_ndtr((middle - at) / s) - log_ndtr((middle - top) / s) < math.log(tail)
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    found[near] = np.where(at > top, low, 0.0)
    return found


@lru_cache(maxsize=32)
def _estimating_row(coefficients: tuple[int, ...], bits: int) -> NDArray[np.float64]:
    row = _inverse_row(np.ldexp(np.array(coefficients, dtype=np.float64), -bits))
    row.flags.writeable = False
    return row


@lru_cache(maxsize=128)
def squared_sensitivity(coefficients: tuple[int, ...], participations: int = 1) -> int:
    """Return the squared norm of the sum of the first `participations` columns of C, in units of 2^-bits squared.

    It is the most by which one user's units in that many periods move the releases of one group.

    Theorem: docs/running-totals.md, Theorem 1.
    """
    column = np.zeros(len(coefficients), dtype=object)
    for start in range(participations):
        column[start:] += np.array(coefficients[: len(coefficients) - start], dtype=object)
    return int(sum(int(entry) ** 2 for entry in column))


def noise_units(coefficients: tuple[int, ...], sigma: float, contributions: int, participations: int) -> int:
    """Return the least whole noise scale S with S >= sigma sqrt(contributions) ||c||, computed without rounding.

    A larger scale than the real number costs no more privacy, so that the charge for `sigma` covers it.
    """
    squared = Fraction(sigma) ** 2 * contributions * squared_sensitivity(coefficients, participations)
    least = math.isqrt(math.ceil(squared))
    return least if least * least >= squared else least + 1

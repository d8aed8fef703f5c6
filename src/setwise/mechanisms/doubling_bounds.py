"""Private search for clipping bounds, from noisy numbers of values in bins.

A bin is an interval of values. Bin b from 1 to 84 holds the values above 2^(b - 21) and at most 2^(b - 20), and bin 85
holds all values above 2^64. Bin -b holds the negatives of the values of bin b. Bin 0 holds the values of at most 2^-20
in absolute value, which count as 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.guarantees import DiscreteLaplace
from setwise.errors import InvalidParameter
from setwise.mechanisms.intervals import SHARES, share_interval
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.noise.tail_estimates import estimate_tail, laplace_sums_radius
from setwise.mechanisms.parameters import binary
from setwise.mechanisms.randomness import Randomness

LEAST_EXPONENT, LARGEST_EXPONENT = -20, 64
"""Exponents of the bins' ends: values of at most 2^-20 in absolute value count as 0, and no bound beyond 2^64 is found,
which is more than any 64-bit integer."""

DOUBLINGS = LARGEST_EXPONENT - LEAST_EXPONENT + 1
"""Number of bins of either sign. Bin b > 0 holds values above 2^(b - 21) and at most 2^(b - 20); bin -b holds their
negatives. The last bin of either sign holds all values beyond 2^64. No bound is put around it, so the values in it are
counted as clipped."""

_MISTAKEN = Fraction(1, 1000)
"""Probability that some bin without users, anywhere, is taken for one that has users."""

_NEAR, _MISTAKEN_NEAR = 4, Fraction(1, 50)
"""Bins of either sign whose values are within a factor of 2^`_NEAR` of the largest ones found need a lower noisy count.
Some of them is taken for occupied without users with probability `_MISTAKEN_NEAR`. Such bins are few, and a mistake
among them changes the bounds by little."""

_MISTAKEN_NEIGHBOUR = Fraction(1, 10)
"""Probability that the two bins next to the bounds, one at either end, are taken for occupied without users. Such a
mistake doubles a bound, and so the noise; a missed bin clips the values of its users, and no interval says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedShare:
    """An estimate of the share, from 0 to 1, of users whose value lies outside of the clipping bounds.

    `share` is the estimate, and `lower` and `upper` are the ends of its confidence interval.
    """

    share: float
    lower: float
    upper: float

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object: the estimated "share" of users whose value is clipped, and its "interval".

        "interval" is the confidence interval, as [lower, upper].
        """
        return {"share": self.share, "interval": [self.lower, self.upper]}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRange:
    """Clipping bounds `low` < `high` that a private search chose, and the noisy numbers from which it chose them.

    The search counts users in 171 bins, numbered -85 to 85: intervals of values whose ends are powers of two (negative
    ones for the bins below 0), and one bin for zeros. `noisy` has the number of users whose value is in each bin, with
    Laplace noise of scale `scale`.
    """

    low: Fraction
    high: Fraction
    scale: float
    noisy: tuple[int, ...]

    def clipped_share(self, low: Fraction, high: Fraction, confidence: Fraction) -> ClippedShare:
        """Return an estimate of the share of users whose value is outside of [low, high], from the noisy numbers.

        `low` and `high` must be ends of bins, the intervals of values in which users were counted with noise. The
        interval of the share holds with probability `confidence`.

        Theorem: docs/statistics.md, "Bounds that are found".
        """
        # The interval has every share p that noise can explain. For the true p, (users outside) - p * (all users) is 0
        # in the exact numbers, so in the noisy numbers it is a sum of noise alone. The allowed probability of a miss is
        # divided among all pairs of bins, because the same noise chose the bounds.
        noisy = np.array(self.noisy, dtype=float)
        outside = np.array(
            [ends(place)[0] < low or ends(place)[1] > high for place in range(-DOUBLINGS, DOUBLINGS + 1)]
        )
        chance = float(1 - confidence) / (len(noisy) * (len(noisy) + 1) / 2)
        beyond, users = float(noisy[outside].sum()), float(noisy.sum())
        scales = np.stack([1 - SHARES, SHARES], axis=1) * self.scale
        radius = laplace_sums_radius(scales, np.array([outside.sum(), (~outside).sum()]), chance)
        passing = np.flatnonzero(np.abs(beyond - SHARES * users) <= radius)
        lower, upper = share_interval(passing)
        share = beyond / users if users > 0 else 0.0
        return ClippedShare(share=min(max(share, lower), upper), lower=lower, upper=upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoublingBounds:
    """A private search for clipping bounds, by noisy numbers of values in 171 bins, numbered -85 to 85.

    A bin is an interval of values whose ends are powers of two. Bins double in size from bin to bin, away from 0; bin 0
    has the zeros. In the example below, `ends` returns the ends of a bin: bin 21, for example, has the values from 1 to
    2.

    `scale` is the scale of the Laplace noise on the number of values in each bin. A user has at most one value, so the
    search is (1 / scale)-DP. The clipping bounds are the outer ends of the outermost bins whose noisy numbers show that
    they have values; `release` may move the bounds further out. They are 0 and 1 if only zeros are found.

    >>> ends(-3), ends(0), ends(21)
    ((Fraction(-1, 131072), Fraction(-1, 262144)), (Fraction(0, 1), Fraction(0, 1)), (Fraction(1, 1), Fraction(2, 1)))
    """

    # A bin is taken to have values if its noisy number exceeds a threshold, which is lower near a bin that has values;
    # if no number does, the bin with the highest noisy number is taken.

    scale: Fraction

    @property
    def guarantee(self) -> DiscreteLaplace:
        """The privacy guarantee of one search, which releases the noisy number of values in every bin.

        The guarantee is that of integer Laplace noise of sensitivity 1, because a user's value is in only one bin
        (interval of values).
        """
        return DiscreteLaplace(scale=float(binary(self.scale)), sensitivity=1)

    @property
    def threshold(self) -> int:
        """The number above which the noisy number of values in a bin (an interval) proves that the bin has values.

        The search for clipping bounds draws noise for all 171 bins. With probability 999/1000, no bin without values
        has a noisy number above this threshold.
        """
        return self._noise.radius(1 - _MISTAKEN / (2 * DOUBLINGS + 1))

    @property
    def near_threshold(self) -> int:
        """The lower of two thresholds on a bin's noisy number of values, used for bins near the outermost occupied bin.

        A bin is an interval of values; bins double in size away from bin 0, which has the zeros. First, bins whose
        noisy number exceeds `threshold`, the higher threshold, are taken to have values. The outermost of these has the
        values that are largest in absolute value. Bins with values up to 16 times smaller, on both sides of 0, are
        likely to have values too. For them this lower threshold is enough.
        """
        # If the outermost bin is b or -b, these are the bins b - `_NEAR` + 1 to b, and their negatives.
        return self._noise.radius(1 - _MISTAKEN_NEAR / (2 * _NEAR))

    @property
    def neighbour_threshold(self) -> int:
        """The threshold on the noisy number of values in the bin just outside the bins known to have values.

        The search for clipping bounds counts, with noise, the values in each bin (an interval of values). It first
        finds bins by other thresholds, which are higher. Then, if the next bin outwards exceeds this threshold, it is
        taken to have values too. The threshold can be low, because a mistake only doubles a clipping bound, while the
        values of a missed bin are clipped.
        """
        return self._noise.radius(1 - _MISTAKEN_NEIGHBOUR)

    @property
    def _noise(self) -> LaplaceNoise:
        """The integer Laplace noise that is added to the number of values in each bin, an interval of values."""
        return LaplaceNoise(scale=binary(self.scale))

    def release(
        self,
        counts: NDArray[np.int64],
        randomness: Randomness,
        noise_at: Callable[[float], float] | None = None,
        noise_of_width: float | None = None,
    ) -> FoundRange:
        """Draw noise, and return clipping bounds low < high with the noisy number of values in each bin.

        A bin is an interval of values whose ends are powers of two.

        - `counts` has the exact number of values in each of the 171 bins.
        - `noise_at(bound)`, for a sum: the error that noise adds if `bound` is the larger absolute clipping bound.
        - `noise_of_width`, for a mean: the noise on the sum of the values is in proportion to the distance between the
          two bounds, and this is its error for a distance of 1.

        Without `noise_at` and `noise_of_width`, the bounds are the outer ends of the outermost bins that are taken to
        have values. With one of the two, each bound is moved outwards to where this error plus the estimated clipped
        part of the sum is smallest.

        Raises: `InvalidParameter` unless there are 171 counts.
        """
        # The bounds are 0 and 1 if only bin 0, which holds the zeros, is taken to have values.
        if len(counts) != 2 * DOUBLINGS + 1:
            raise InvalidParameter(f"there are {2 * DOUBLINGS + 1} bins, but counts are for {len(counts)}")
        noisy = counts + self._noise.draw(len(counts), randomness)
        first, last = self._occupied_bins(noisy)
        # The last bin of either sign has no outer end, so the bounds end before it.
        is_beyond = first == -DOUBLINGS or last == DOUBLINGS  # no wider bounds would hold these values
        first, last = (min(max(place, 1 - DOUBLINGS), DOUBLINGS - 1) for place in (first, last))
        if noise_at is not None:
            last += self._steps_outwards(noisy[DOUBLINGS:], last, noise_at)
            first -= self._steps_outwards(noisy[DOUBLINGS::-1], -first, noise_at)
        if noise_of_width is not None and not is_beyond:
            users = self._estimate_users_outside(noisy.astype(float), first, last)
            # Both bounds start from the bins found, so neither depends on the order in which they are moved.
            first, last = -_widened(users[::-1], -first, noise_of_width), _widened(users, last, noise_of_width)
        low, high = ends(first)[0], ends(last)[1]
        if low >= high:
            low, high = Fraction(0), Fraction(1)
        return FoundRange(low=low, high=high, scale=float(self._noise.scale), noisy=tuple(noisy.tolist()))

    def _steps_outwards(self, noisy: NDArray[np.int64], outermost: int, noise_at: Callable[[float], float]) -> int:
        """Return by how many bins the clipping bound of a sum is moved away from 0, beyond the bin `outermost`.

        Values beyond `outermost` may be hidden by noise. A bound further out clips fewer values, but needs more noise
        on the sum; the result has the smallest sum of both errors.

        - `noisy` has the noisy numbers of users in the bins 0 to 85 of one sign; a bin is an interval of values.
        - `outermost` is the last of these bins that is taken to have values; if it is 0 or less, the result is 0.
        - `noise_at(bound)` is the error that noise adds to the sum if values are clipped at `bound`.
        """
        # The result minimises this error plus the estimated part of the sum that the bound clips. The estimate takes
        # the values of a bin to lie in its middle.
        if outermost <= 0:
            return 0
        users = estimate_tail(
            noisy[outermost + 1 : DOUBLINGS].astype(float), max(float(noisy[outermost]), 0.0), float(self.scale)
        )
        bounds = np.array([float(ends(place)[1]) for place in range(outermost, DOUBLINGS)])
        middles = 0.75 * bounds[1:]
        errors = [float(users @ np.maximum(middles - bound, 0.0)) + noise_at(float(bound)) for bound in bounds]
        return int(np.argmin(errors))

    def _estimate_users_outside(self, noisy: NDArray[np.float64], first: int, last: int) -> NDArray[np.float64]:
        """Return the estimated number of users in each bin outside of some bounds, and 0 for the bins inside.

        A bin is an interval of values. The bins are numbered -85 to 85, and double in size away from bin 0, which has
        the zeros. Clipping bounds are being chosen, and the caller needs the estimates to weigh how many values wider
        bounds would save from being clipped. The bins from number `first` to number `last` lie inside the bounds.
        `noisy` has the noisy numbers of users in all bins.
        """
        # A bin that is nearer to 0 than the farther of `first` and `last` is expected to have a fourth of the users of
        # the fullest bin between them, if it has any: values of a column do not end at 0, and bins near 0 are small.
        # Bins beyond are expected to have fewer users the farther they are from 0.
        scale = float(self.scale)
        widest = max(abs(first), abs(last))
        fullest = max(0.0, float(noisy[first + DOUBLINGS : last + DOUBLINGS + 1].max()))
        users = np.zeros(len(noisy))
        for place in (*range(-widest, first), *range(last + 1, widest + 1)):
            users[place + DOUBLINGS] = estimate_tail(noisy[[place + DOUBLINGS]], fullest, scale)[0]
        for sign, is_found in ((1, last == widest), (-1, first == -widest)):
            edge = DOUBLINGS + sign * widest
            before = max(0.0, float(noisy[edge])) if is_found else float(users[edge])
            beyond = noisy[edge + 1 :] if sign > 0 else noisy[:edge][::-1]
            estimates = estimate_tail(beyond, before, scale)
            if sign > 0:
                users[edge + 1 :] = estimates
            else:
                users[:edge] = estimates[::-1]
        return users

    def _occupied_bins(self, noisy: NDArray[np.int64]) -> tuple[int, int]:
        """Return the indices, -85 to 85, of the first and the last bin that are taken to have values.

        `noisy` has the noisy number of values in each of the 171 bins. A bin is taken to have values if this number
        exceeds `threshold`. Near such bins a lower threshold is enough (`near_threshold` for bins about as far from 0,
        `neighbour_threshold` for the next bin). If no bin exceeds `threshold`, the bin with the highest number is
        taken.
        """
        # Three steps. First, the bins above `threshold` are taken; if there are none, the bin with the highest number
        # is taken. Second, bins about as far from 0 as the outermost of these, on either side, are taken if they are
        # above `near_threshold`. Third, the range is extended at both ends, as long as the next bin is above
        # `neighbour_threshold`.
        standing = np.flatnonzero(noisy > self.threshold) - DOUBLINGS
        occupied = [int(np.argmax(noisy)) - DOUBLINGS] if len(standing) == 0 else standing.tolist()
        widest = max(abs(occupied[0]), abs(occupied[-1]))
        sizes = np.abs(np.arange(len(noisy)) - DOUBLINGS)
        near = (sizes > max(0, widest - _NEAR)) & (sizes <= widest) & (noisy > self.near_threshold)
        occupied = sorted([*occupied, *(np.flatnonzero(near) - DOUBLINGS).tolist()])
        first, last = occupied[0], occupied[-1]
        while first > -DOUBLINGS and noisy[first - 1 + DOUBLINGS] > self.neighbour_threshold:
            first -= 1
        while last < DOUBLINGS and noisy[last + 1 + DOUBLINGS] > self.neighbour_threshold:
            last += 1
        return first, last


def _widened(users: NDArray[np.float64], last: int, noise_of_width: float) -> int:
    """Return the index of the bin at whose upper end the values of a mean are clipped: `last`, or a bin above it.

    A mean is computed from a noisy sum. A bin is an interval of values. If values are clipped at the end of a higher
    bin, fewer values are clipped, but the sum needs more noise. The returned bin has the smallest sum of both errors.

    - `users` has the estimated number of users in each of the 171 bins; only the bins above `last` are read.
    - `last` is the index of the last bin that is taken to have values.
    - `noise_of_width` is by how much the error from noise grows if the bound rises by 1.

    The function finds an upper bound. For the lower bound, callers mirror the bins at 0: they pass `users` in reverse
    order, and minus the index.
    """
    # The returned bin minimises the sum of this error and the clipped part of the sum. The values of a bin are taken to
    # lie in its middle.
    places = range(last, DOUBLINGS)
    bounds = np.array([float(ends(place)[1]) for place in places])
    middles = np.array([float(sum(ends(place))) / 2 for place in range(last + 1, DOUBLINGS)])
    clipped = np.maximum(middles[None, :] - bounds[:, None], 0.0) @ users[last + 1 + DOUBLINGS : 2 * DOUBLINGS]
    return places[int(np.argmin(clipped + noise_of_width * bounds))]


def ends(place: int) -> tuple[Fraction, Fraction]:
    """Return the lower and the upper end of the bin with the index `place`, from -85 to 85, as exact values.

    - Bin b > 0 goes from 2^(b - 21) to 2^(b - 20).
    - Bin -b goes from -2^(b - 20) to -2^(b - 21), and bin 0 from 0 to 0.
    - The outer ends of the bins 85 and -85 are only nominal, because these bins also have all larger absolute values.
    """
    if place == 0:
        return Fraction(0), Fraction(0)
    outer = Fraction(2) ** (abs(place) + LEAST_EXPONENT)
    return (outer / 2, outer) if place > 0 else (-outer, -outer / 2)

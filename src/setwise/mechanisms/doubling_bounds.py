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
from setwise.mechanisms.noise.occupied_bins import most_probable_range
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

_SURE = 5.0
"""The evidence from which values of one sign are taken to exist. Noise alone has it with probability 1% (see
`occupied_bins`)."""

_LIKELY, _ALIKE = 2.0, 2
"""The evidence from which values of the other sign are taken to exist, if they are at most 2^`_ALIKE` times as large.

Delays of flights are such values. A mistake widens the bounds by little; a sign that is missed clips its values to 0.
"""

_LIKELY_BESIDE_ZEROS = 3.0
"""The evidence below which zeros that stand out from noise are taken to be the only values. It is lower than `_SURE`,
because a question about a column of zeros alone is rare."""

_MISTAKEN_ZERO = Fraction(1, 100)
"""Probability that zeros are taken to exist if there are none. The lower bound is then 0 and no longer above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedShare:
    """An estimate of the share, from 0 to 1, of users whose value lies outside of the clipping bounds.

    `share` is the estimate, and `lower` and `upper` are the ends of its confidence interval. `is_clear` is False if the
    clipping bounds themselves may be those of noise.
    """

    share: float
    lower: float
    upper: float
    is_clear: bool = True

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
    Laplace noise of scale `scale`. `is_clear` is False if noise alone has such numbers with a probability above 1%: the
    bounds may then be far from all values.
    """

    low: Fraction
    high: Fraction
    scale: float
    noisy: tuple[int, ...]
    is_clear: bool

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
        return ClippedShare(share=min(max(share, lower), upper), lower=lower, upper=upper, is_clear=self.is_clear)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoublingBounds:
    """A private search for clipping bounds, by noisy numbers of values in 171 bins, numbered -85 to 85.

    A bin is an interval of values whose ends are powers of two. Bins double in size from bin to bin, away from 0; bin 0
    has the zeros. In the example below, `ends` returns the ends of a bin: bin 21, for example, has the values from 1 to
    2.

    `scale` is the scale of the Laplace noise on the number of values in each bin. A user has at most one value, so the
    search is (1 / scale)-DP. The clipping bounds are the outer ends of the neighbouring bins that, by all noisy numbers
    together, most probably have the values; `release` may move the bounds further out. They are 0 and 1 if only zeros
    are found.

    >>> ends(-3), ends(0), ends(21)
    ((Fraction(-1, 131072), Fraction(-1, 262144)), (Fraction(0, 1), Fraction(0, 1)), (Fraction(1, 1), Fraction(2, 1)))
    """

    scale: Fraction

    @property
    def guarantee(self) -> DiscreteLaplace:
        """The privacy guarantee of one search, which releases the noisy number of values in every bin.

        The guarantee is that of integer Laplace noise of sensitivity 1, because a user's value is in only one bin
        (interval of values).
        """
        return DiscreteLaplace(scale=float(binary(self.scale)), sensitivity=1)

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
        first, last, is_clear = self._occupied_bins(noisy)
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
        scale = float(self._noise.scale)
        return FoundRange(low=low, high=high, scale=scale, noisy=tuple(noisy.tolist()), is_clear=is_clear)

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

    def _occupied_bins(self, noisy: NDArray[np.int64]) -> tuple[int, int, bool]:
        """Return the indices, -85 to 85, of the first and the last bin that are taken to have values, and a flag.

        The flag is False if the noisy numbers may be noise alone.

        `noisy` has the noisy number of values in each of the 171 bins. For either sign, the neighbouring bins that most
        probably have all values are found. The sign with more evidence is taken, and the other one too if its evidence
        is enough. Only zeros are taken to exist if they stand out from noise and neither sign has enough evidence.
        """
        scale = float(self.scale)
        sides = (noisy[DOUBLINGS + 1 :].astype(float), noisy[DOUBLINGS - 1 :: -1].astype(float))
        found = [most_probable_range(numbers, scale) for numbers in sides]
        sign = 0 if found[0].evidence >= found[1].evidence else 1
        main, other = found[sign], found[1 - sign]
        has_zeros = noisy[DOUBLINGS] > self._noise.radius(1 - 2 * _MISTAKEN_ZERO)
        if has_zeros and main.evidence < _LIKELY_BESIDE_ZEROS:
            return 0, 0, False
        places = [-place if sign else place for place in (main.first, main.last)]
        alike = most_probable_range(sides[1 - sign][: main.last + _ALIKE], scale)
        chosen = other if other.evidence > _SURE else alike if alike.evidence > _LIKELY else None
        if chosen is not None:
            places += [place if sign else -place for place in (chosen.first, chosen.last)]
        places += [0] if has_zeros else []
        both = main.evidence + (0.0 if chosen is None else chosen.evidence - _LIKELY)
        return min(places), max(places), both > _SURE


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

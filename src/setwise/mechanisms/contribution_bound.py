"""Private search for a contribution bound: the most groups, or the most rows in a group, with which one user counts.

The search sorts users into bins by their number of groups (or rows); each bin ends at up to twice the end of the bin
before it. It adds noise to the number of users in each bin. From these noisy numbers it chooses a bound, and it
estimates the share of the (user, group) pairs, or of the rows, that the bound leaves out.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import float_above
from setwise.accounting.guarantees import PureDP
from setwise.mechanisms.intervals import CONFIDENCE, SHARES, share_interval
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.noise.tail_estimates import estimate_tail, laplace_sums_radius
from setwise.mechanisms.parameters import binary, positive_integer
from setwise.mechanisms.randomness import Randomness

LARGEST_BOUND = 256
"""The largest contribution bound that can be found."""

MOST_GROUPS = 1024
"""A user with more groups than this counts as one with this many."""

MOST_ROWS = 2**15
"""A user with more rows than this in a group counts as one with this many; no larger bound on rows can be found."""

UNITS = 1024
"""Parts into which a user is divided between two bins (ranges of numbers of groups per user).

Every gap between powers of two up to `MOST_GROUPS` divides this number, so that no rounding is needed there. Numbers of
rows beyond are rounded by at most 0.05% of their size.
"""


_MISTAKEN = Fraction(1, 10_000)
"""The probability that some bin without users, anywhere, is taken for one that has some."""

_MISTAKEN_NEIGHBOUR = Fraction(1, 1000)
"""The probability that the bin after the last occupied one is taken for occupied without users. Such a mistake at most
doubles the contribution bound; a mistake anywhere else can raise it from 1 to 256."""

_MISTAKEN_ROWS = Fraction(1, 50)
"""The probability that the bin of rows after the last occupied one is taken for occupied without users; for the bin
d doublings after it the probability is 2^-(d - 1) of this. A mistake there multiplies the noise of the count by 2^d, so
all distances add the same to the expected noise. A bin that is missed leaves out most rows of its users, in a skewed
table most rows of all."""

_MISTAKEN_CHEAP, _CHEAP = Fraction(1, 4), 0.01
"""The same probability for a bin of rows whose end, as a bound, has noise of at most the share `_CHEAP` of the rows
that were seen: there a mistake costs little, and a bin that is missed may hold much of the table. For the bin d
doublings after the last occupied one the probability is 4^-(d - 1) of this, so that mistakes at all distances together
add at most as much to the expected noise as the noise without them. With 2^-(d - 1) they added five times as much, and
at any epsilon one question in ten got a bound of more than four times the rows of the user who has most."""

_NARROW = 0.05
"""Width up to which the interval of the share also counts the groups of users who have more than most users."""

_MOST_OF_FEW = 8
"""The most groups in the bin that is taken for the last one with users if none stands out from noise, as in a small
table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutShare:
    """The estimated share of (user, group) pairs, or of rows, that a contribution bound leaves out.

    - `share` is the estimate, between 0 and 1.
    - `lower` and `upper` are the ends of its 95% interval.
    - `of_first` limits the weight of single users: the share counts at most this many groups of a user. For example,
      with the bound 5 and an `of_first` of 40, a user with 1,000 groups adds 35 pairs to the pairs left out, and 40 to
      all pairs. Without this limit, the share would depend on a few users with very many groups, who cannot be told
      apart from noise. If the bound limits rows, `of_first` is a number of rows.
    """

    # Groups beyond `of_first` are in neither the numerator nor the denominator of the share.

    share: float
    lower: float
    upper: float
    of_first: int

    def to_dict(self) -> dict[str, object]:
        """Return a JSON object, for the answer, with the estimated share that a contribution bound leaves out.

        A contribution bound is the most groups (or rows) of one user that count. For example {"share": 0.12,
        "interval": [0.1, 0.14], "of_first": 64} says: about 12% of the (user, group) pairs, or of the rows, are left
        out, with a 95% interval from 10% to 14%. "of_first" limits the weight of single users: in the share, a user
        with more than 64 groups (or rows) counts as if they had 64.
        """
        return {"share": self.share, "interval": [self.lower, self.upper], "of_first": self.of_first}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundContributions:
    """A contribution bound that a private search chose, with an estimate of how much the bound leaves out.

    - `bound` is the largest number of groups of one user, or of rows of one user in a group, that are used.
    - `left_out` is the estimated share, with its interval, of the (user, group) pairs, or of the rows, that the bound
      leaves out.
    """

    bound: int
    left_out: LeftOutShare


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributionSearch:
    """A private search for a contribution bound: the most groups (or rows of a group) in which one user counts.

    The search releases the noisy number of users in each bin, and chooses the bound from these numbers. A bin is a
    range of numbers of groups per user; the example shows the upper ends of the bins, which double except at `most`.

    - `scale` is the scale, in users, of the Laplace noise on the number of users in each bin; one search is (1 /
      scale)-DP.
    - `least` is the smallest bound that may be chosen.
    - `most` is the largest bound that may be chosen.
    - `counted`: a user with more groups is taken to have `counted` groups, so that there are few bins.

    >>> ContributionSearch(scale=Fraction(10), most=5).ends
    (1, 2, 4, 5, 10, 20, 40, 80, 160, 320, 640, 1280)
    """

    # Users are counted in bins by their number of groups. A user whose number g lies between two ends is divided
    # between the two bins, in parts whose weighted average of the ends is g. So the numbers of (user, group) pairs, and
    # of pairs that a bound leaves out, are exact sums over the bins, and only noise makes them uncertain. A user adds 1
    # to all bins together.

    scale: Fraction
    most: int = LARGEST_BOUND
    least: int = 1
    counted: int = MOST_GROUPS

    def __post_init__(self) -> None:
        positive_integer("most", self.most, self.counted)
        _ = self._noise  # raises InvalidParameter for a scale that cannot be drawn, before anything is charged

    @property
    def guarantee(self) -> PureDP:
        """The privacy guarantee of releasing the noisy number of users in every bin: (1 / scale)-DP.

        A bin is a range of numbers of groups (or rows) per user, and `scale` the scale, in users, of the Laplace noise
        on its number of users. The guarantee holds because a user is in one bin, or divided between two, and so adds 1
        to the numbers of users of all bins together.
        """
        return PureDP(epsilon=float_above(UNITS / self._noise.scale))

    @property
    def ends(self) -> tuple[int, ...]:
        """The upper ends of the bins, smallest first, in groups (or rows) per user.

        Each bin has a number of users. A user with exactly as many groups (or rows) as the end of a bin is counted in
        this bin, and a user between two ends partly in each of the two bins. A user beyond the last end is counted in
        the last bin.
        """
        below = [2**power for power in range(self.most.bit_length()) if 2**power < self.most]
        above = [self.most]
        while above[-1] < self.counted:
            above.append(2 * above[-1])
        return (*below, *above)

    @property
    def bounds(self) -> tuple[int, ...]:
        """The contribution bounds among which the search chooses, ascending: ends of bins from `least` to `most`.

        A contribution bound is a number of groups per user, or of rows per user and group.
        """
        return tuple(end for end in self.ends if self.least <= end <= self.most)

    @property
    def _noise(self) -> LaplaceNoise:
        return LaplaceNoise(scale=binary(UNITS * self.scale))

    def release(
        self, users: NDArray[np.int64], noise_at: Callable[[int], float], randomness: Randomness
    ) -> FoundContributions:
        """Draw noise, and return the chosen contribution bound with the estimated share of pairs that it leaves out.

        A pair is a user and one of the user's groups.

        - `users[i]`, which is exact and private, is the number of users with i + 1 groups.
        - `noise_at(bound)` is the error, in pairs, that noise adds to the answer if `bound` is the contribution bound:
          a larger bound needs more noise.

        The chosen bound minimises this error plus the estimated number of pairs left out.
        """
        return self.choose(self.draw(users, randomness), noise_at)

    def draw(self, users: NDArray[np.int64], randomness: Randomness) -> NDArray[np.float64]:
        """Return the noisy number of users in each bin, which may be published.

        From these numbers alone the search then chooses a contribution bound: how many groups (or rows) of each user
        count. Bin i stands for `ends[i]` groups (or rows) per user. A user whose number lies between the ends of two
        bins is counted partly in the one and partly in the other, and adds 1 to both together (see `divide_users`).

        - `users[i]`, which is exact and private, is the number of users with i + 1 groups (or rows).
        - `randomness` is the source of the Laplace noise.
        """
        bins = divide_users(users, self.ends)
        return np.asarray((bins + self._noise.draw(len(bins), randomness)) / UNITS)

    def choose(self, noisy: NDArray[np.float64], noise_at: Callable[[int], float]) -> FoundContributions:
        """Return the chosen contribution bound with the estimated share of pairs that it leaves out; adds no noise.

        A pair is a user and one of the user's groups.

        - `noisy` has the noisy number of users in each bin, that is, in each range of numbers of groups per user.
        - `noise_at(bound)` is the error, in pairs, that noise adds to the answer if `bound` is the contribution bound:
          a larger bound needs more noise.

        The chosen bound minimises this error plus the estimated number of pairs left out.
        """
        ends = np.array(self.ends)
        last = self.last_occupied(noisy, noise_at)
        likely = self.likely_users(noisy, last)
        beyond = ((np.maximum(ends - bound, 0) * likely).sum() for bound in self.bounds)
        errors = [
            float(pairs_left_out) + noise_at(bound) for pairs_left_out, bound in zip(beyond, self.bounds, strict=True)
        ]
        return self.describe(noisy, self.bounds[int(np.argmin(errors))], last)

    def likely_users(self, noisy: NDArray[np.float64], last: int) -> NDArray[np.float64]:
        """Return the estimated number of users in each bin, never negative, from `noisy`, the noisy numbers of users.

        A bin is a range of numbers of groups (or rows) per user. From the estimates the search computes how much of the
        data each limit on a user's groups (or rows) would leave out.

        `last` is the index of the last bin that is known to have users. Later bins may have a few users whom noise
        hides; the function `estimate_tail` estimates how many.
        """
        scale = float(self._noise.scale) / UNITS
        standing = np.maximum(noisy[: last + 1], 0.0)
        return np.concatenate([standing, estimate_tail(noisy[last + 1 :], float(standing[-1]), scale)])

    def describe(self, noisy: NDArray[np.float64], bound: int, last: int) -> FoundContributions:
        """Return the chosen contribution bound with an estimate of the share of (user, group) pairs that it leaves out.

        - `noisy` has the noisy number of users in each bin; a bin is a range of numbers of groups per user.
        - `bound` is the chosen bound, in groups per user.
        - `last` is the index of the last bin that is known to have users.

        A few users with very many groups cannot be told apart from noise. So the share counts at most
        `LeftOutShare.of_first` groups of a user. This number is the end of a bin: the largest end with which the
        interval of the share is at most 0.05 wide. If no end gives so narrow an interval, the number is the end of the
        first bin that comes after both the bin `last` and the bin that ends at `bound`.
        """
        ends = self.ends
        nearest = min(max(last, ends.index(bound)) + 1, len(ends) - 1)
        shares = (self._share(noisy, bound, int(end)) for end in reversed(ends[nearest:]))
        left_out = next(
            share for share in shares if share.upper - share.lower <= _NARROW or share.of_first == ends[nearest]
        )
        return FoundContributions(bound=bound, left_out=left_out)

    def last_occupied(self, noisy: NDArray[np.float64], noise_at: Callable[[int], float]) -> int:
        """Return the index of the last bin that seems to have users: noise alone does not explain its number.

        A bin is a range of numbers of groups (or rows) per user. The search for a bound takes all later bins to have no
        users, except for a few that noise may hide. If noise alone could explain the numbers of all bins, the result is
        the bin with the highest noisy number among the bins of at most 8 groups (for rows, of at most `most` rows).

        - `noisy` has the noisy number of users in each bin.
        - `noise_at(bound)` is the error, in pairs or rows, that noise adds to the answer with that contribution bound.
          For rows, a bin is more readily taken to have users where this error is small, because a mistake does less
          harm.
        """
        # That bin is chosen among bins of at most 8 groups, or for rows among all bins up to the largest bound.
        # A bin is also taken to have users if the sum of its number and those of all later bins exceeds a threshold,
        # because users may be spread over many bins. Later bins are then tested with the lower thresholds of
        # `_next_occupied`, until it finds no further bin.
        alone, with_later = _standing_radii(self._noise.scale, len(self.ends), _MISTAKEN)
        with_later_bins = np.cumsum(noisy[::-1])[::-1]
        standing = np.flatnonzero((noisy > alone) | (with_later_bins > np.array(with_later)))
        few = _MOST_OF_FEW if self.counted == MOST_GROUPS else self.most
        last = int(standing[-1]) if len(standing) else int(np.argmax(noisy[np.array(self.ends) <= few]))
        while (later := self._next_occupied(noisy, last, noise_at)) is not None:
            last = later
        return last

    def _next_occupied(self, noisy: NDArray[np.float64], last: int, noise_at: Callable[[int], float]) -> int | None:
        """Return the index of a bin after the bin `last` that must have users, as noise does not explain its number.

        A bin is a range of numbers of groups (or rows) per user, such as 5 to 8 groups, and has the noisy number of
        users in this range. If there are several such bins, the farthest is returned; None if there is none. Users may
        be divided between two neighbouring bins. So the sum of two neighbours is tested too; if it is too large for
        noise, the one with the larger noisy number is returned.

        - `noisy` has the noisy number of users in each bin.
        - `noise_at(bound)` is the error that noise adds to the answer if `bound` is the contribution bound (the most
          groups or rows of one user that count). Where this error is small, a mistake does less harm; bins for rows are
          then tested with a lower threshold.
        """
        # Users who all have 400 rows are divided between the bins that end at 256 and 512, so sums of two neighbours
        # are tested too. Each of the two tests gets half of the probability that `_mistaken` returns.
        seen = float(np.maximum(noisy[: last + 1], 0.0) @ np.array(self.ends[: last + 1]))
        scale = self._noise.scale
        for place in range(len(noisy) - 1, last, -1):
            alone, together = _radii(scale, self._mistaken(place - last, noise_at(self.ends[place]) <= _CHEAP * seen))
            if noisy[place] > alone:
                return place
            pair = noisy[place : place + 2]
            if len(pair) == 2 and pair.sum() > together:
                return place + int(np.argmax(pair))
        return None

    def _mistaken(self, distance: int, cheap: bool) -> Fraction:
        """Return the largest allowed probability that the search takes a bin without users for one with users.

        A bin is a range of numbers of groups (or rows) per user, and the search sees only noisy numbers of users. From
        this probability the caller computes the threshold that the noisy number of a bin must exceed.

        - `distance` is how many bins this bin comes after the last one that is known to have users. A mistake at a
          farther bin does more harm, because it makes the contribution bound (the most groups or rows of one user that
          count) larger. So the probability is smaller there.
        - `cheap` says that the answer has little noise even if the end of this bin becomes the contribution bound, so
          that a mistake does less harm. It is ignored if the bins are for groups.
        """
        if self.counted == MOST_GROUPS:
            return _MISTAKEN_NEIGHBOUR if distance == 1 else _MISTAKEN / len(self.ends)
        chance, growth = (_MISTAKEN_CHEAP, 4) if cheap else (_MISTAKEN_ROWS, 2)
        return chance / Fraction(growth ** (distance - 1))

    def _share(self, noisy: NDArray[np.float64], bound: int, of_first: int) -> LeftOutShare:
        """Estimate which share of (user, group) pairs a contribution bound leaves out; the answer states this share.

        A contribution bound is the most groups in which one user counts. If the bound limits rows, the share is one of
        rows.

        - `noisy` has the noisy number of users in each bin; a bin is a range of numbers of groups per user.
        - `bound` is the contribution bound.
        - `of_first` limits the weight of single users: a user with more groups counts as if they had `of_first` groups,
          both among the pairs left out and among all pairs.

        Theorem: docs/statistics.md, "Contribution bounds that are found".
        """
        # The interval has every share p that noise can explain. For the true p, (left-out pairs) - p * (all pairs) is 0
        # in the exact numbers, so in the noisy numbers it is a sum of noise alone, which rarely exceeds a radius. The
        # allowed probability of a miss is divided among all combinations of `bound` and `of_first`, because the same
        # noise chose both.
        capped = np.minimum(np.array(self.ends), of_first)
        beyond = np.maximum(capped - bound, 0)
        weights, noise = _noise_of_shares(tuple(self.ends), bound, of_first, float(self._noise.scale))
        choices = sum(end > each for each in self.bounds for end in self.ends) + 1
        chance = float(1 - CONFIDENCE) / choices
        # Discrete noise is at most half a unit larger than continuous noise of the same scale.
        rounding = np.abs(weights).sum(axis=1) / (2 * UNITS)
        excess = np.maximum(np.abs(weights @ noisy) - rounding, 0.0)
        passing = np.flatnonzero(noise.exceeding(excess) >= chance)
        lower, upper = share_interval(passing)
        pairs = float(capped @ noisy)
        share = float(beyond @ noisy) / pairs if pairs > 0 else 0.0
        return LeftOutShare(share=min(max(share, lower), upper), lower=lower, upper=upper, of_first=of_first)


@lru_cache(maxsize=32)
def _noise_of_shares(
    ends: tuple[int, ...], bound: int, of_first: int, scale: float
) -> tuple[NDArray[np.float64], "LaplaceSums"]:
    """Return (weights, noise): what is needed to test which shares of left-out pairs the noisy numbers allow.

    A pair is a user and one of the user's groups. A contribution bound leaves out the pairs beyond a user's first
    `bound` groups. If their share is p, then (pairs left out) - p (all pairs) is 0. Computed from noisy numbers of
    users, the difference is not 0, but so small that noise explains it. The shares p for which noise explains it make
    up a confidence interval.

    - The weights have a row for each share p in `SHARES` and a column for each bin (a range of numbers of groups per
      user). A row times the noisy numbers of users in the bins gives the difference for p.
    - The noise has, for each row, the distribution of the difference if p is the true share.
    - `ends` has the most groups of a user in each bin.
    - `of_first`: a user with more groups counts as if they had this many.
    - `scale` is the noise scale of one bin, in 1,024ths of a user (`UNITS`).

    The result does not depend on the numbers of users. It is cached, because the sums of noise take 3 ms to compute.
    """
    capped = np.minimum(np.array(ends), of_first)
    weights = np.maximum(capped - bound, 0) - np.outer(SHARES, capped)
    return weights, LaplaceSums.of(np.abs(weights) * scale / UNITS)


@lru_cache(maxsize=1024)
def _radii(scale: Fraction, chance: Fraction) -> tuple[float, float]:
    """Return the noisy numbers of users above which one bin, or two bins together, are taken to have users.

    A bin is a range of numbers of groups (or rows) per user. The private search adds Laplace noise to the number of
    users in each bin. The result is (threshold for one bin, threshold for the sum of two bins), in users. The noise of
    an empty bin exceeds the first with probability at most `chance` / 2, and the noise of two empty bins together
    exceeds the second with probability at most `chance` / 2.

    `scale` is the noise scale of one bin, in 1,024ths of a user (`UNITS`), because a user may be divided between two
    bins.
    """
    alone = LaplaceNoise(scale=scale).radius(1 - chance / 2)
    # Discrete noise is at most half a unit larger than continuous noise of the same scale.
    together = float(laplace_sum_radius(np.array([[float(scale)] * 2]), float(chance) / 2)[0]) + 1
    return alone / UNITS, together / UNITS


@lru_cache(maxsize=1024)
def _standing_radii(scale: Fraction, bins: int, chance: Fraction) -> tuple[float, tuple[float, ...]]:
    """Return (threshold for one bin, thresholds for sums of bins), which noise without users hardly ever exceeds.

    A bin is a range of numbers of groups (or rows) per user, and a search adds Laplace noise to the number of users in
    each bin. If the noisy number exceeds the threshold for one bin, the bin is taken to have users. The i-th threshold
    for sums is for the sum of bin i and all later bins, because users may be spread over many bins. Thresholds are in
    users.

    - `scale` is the scale of the noise on one bin, in 1,024ths of a user (`UNITS`), because a user may be divided
      between two bins.
    - `bins` is the number of bins.
    - `chance` bounds the probability that noise alone exceeds any of the thresholds.
    """
    part = chance / (2 * bins)
    alone = LaplaceNoise(scale=scale).radius(1 - part)
    sums = (
        laplace_sums_radius(np.array([[float(scale)]]), np.array([bins - place]), float(part))[0]
        for place in range(bins)
    )
    return alone / UNITS, tuple(float(radius) / UNITS for radius in sums)


def row_search(scale: Fraction, most: int = MOST_ROWS) -> ContributionSearch:
    """Return the search for a good limit on how many rows of a user count in one group.

    The search chooses a limit from 2 to `most` rows. It never chooses 1: if only one row of each user counted, the
    number of rows would be the number of users. The search counts the users in each bin (a range of numbers of rows),
    and adds Laplace noise of scale `scale` to each number. A user adds 1 to these numbers in all, so one search is (1 /
    scale)-DP.
    """
    return ContributionSearch(scale=scale, most=min(most, MOST_ROWS), least=2, counted=MOST_ROWS)


def divide_users(users: NDArray[np.int64], ends: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the number of users in each bin, in 1,024ths of a user (`UNITS`), because users are divided between bins.

    A bin is a range of numbers of groups per user. `users[i]` is the number of users with i + 1 groups, and `ends` are
    the upper ends of the bins, in groups. A user whose number of groups lies between two ends is divided between the
    two bins, so that the average of the ends, weighted by the parts, is the number of groups.

    >>> divide_users(np.array([0, 0, 3]), (1, 2, 4)).tolist()  # three users of 3 groups: half of each at 2, half at 4
    [0, 1536, 1536]
    """
    groups = np.minimum(np.arange(1, len(users) + 1), ends[-1])
    upper = np.searchsorted(ends, groups)
    lower = np.maximum(upper - 1, 0)
    edges = np.array(ends)
    gaps = np.maximum(edges[upper] - edges[lower], 1)
    above = (UNITS * (groups - edges[lower]) + gaps // 2) // gaps
    above = np.where(upper == lower, UNITS, above)
    bins = np.zeros(len(ends), dtype=np.int64)
    np.add.at(bins, upper, users * above)
    np.add.at(bins, lower, users * (UNITS - above))
    return bins


_APART = 1.02
"""Factor by which noise scales are kept apart, so that the tail of their sum is a sum of plain exponentials."""


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceSums:
    """Several sums of independent Laplace noises; `exceeding` bounds the probability that each sum is large.

    The search for contribution bounds uses it to decide whether noise alone can explain a weighted sum of noisy
    numbers. Row i of `scales` has the scales of the noises in the i-th sum, no two of them equal. `factors` has the
    same shape: P[|i-th sum| > t] is the sum over j of factors[i, j] * exp(-t / scales[i, j]).
    """

    scales: NDArray[np.float64]
    factors: NDArray[np.float64]

    @classmethod
    def of(cls, scales: NDArray[np.float64]) -> "LaplaceSums":
        """Return, for each row of `scales`, the sum of independent Laplace noises with the scales in that row.

        The method `exceeding` computes the probability that a sum is large, by a formula that divides by differences
        between the squares of scales. So nearly equal scales are raised until they differ by 2%. This only raises the
        probability, so that `exceeding` returns an upper bound on it.
        """
        # For different scales s_i the probability that the absolute sum exceeds t is the sum over i of exp(-t / s_i) *
        # product over j of s_i^2 / (s_i^2 - s_j^2). Raising scales only raises that probability.
        apart = np.sort(np.maximum(scales, 1e-9), axis=1)
        for place in range(1, apart.shape[1]):
            apart[:, place] = np.maximum(apart[:, place], _APART * apart[:, place - 1])
        squares = apart**2
        differences = squares[:, :, None] - squares[:, None, :]
        places = np.arange(apart.shape[1])
        differences[:, places, places] = squares
        return cls(apart, np.prod(squares[:, :, None] / differences, axis=2))

    def exceeding(self, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each sum S of Laplace noises an upper bound on P[|S| > t], where t is its entry of `thresholds`.

        For example, a single noise of scale 10 exceeds 29.96, in either direction, with probability 5%:

        >>> LaplaceSums.of(np.array([[10.0]])).exceeding(np.array([29.96])).round(3).tolist()
        [0.05]
        """
        return np.asarray((self.factors * np.exp(-thresholds[:, None] / self.scales)).sum(axis=1))


def laplace_sum_radius(scales: NDArray[np.float64], chance: float) -> NDArray[np.float64]:
    """Return, for each row of `scales`, a number that a sum of Laplace noises rarely exceeds.

    A row has the noise scales of the terms of one sum. The sum of independent Laplace noises with these scales exceeds
    the result, in absolute value, with probability at most `chance`. A search for contribution bounds adds up noisy
    numbers of users; a larger sum is taken as a sign that there are users.

    >>> laplace_sum_radius(np.array([[10.0]]), 0.05).round(2).tolist()
    [29.96]
    """
    noise = LaplaceSums.of(scales)
    low = np.zeros(len(scales))
    # At the upper end each noise is exceeded with an equal part of the probability.
    high = noise.scales.sum(axis=1) * math.log(scales.shape[1] / chance)
    for _ in range(60):
        middle = (low + high) / 2
        tail = noise.exceeding(middle)
        low, high = np.where(tail > chance, middle, low), np.where(tail > chance, high, middle)
    return np.asarray(high)

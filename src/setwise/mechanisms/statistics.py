"""Sums, means and quantiles of groups, each a joint release in which one user changes few groups.

Groups are found once, by their users, unless they are public; every statistic is then released for the groups found.
Of j groups only min(j, contributions) can differ between neighbours, so a statistic costs that many uses. All values
are whole numbers: what a user adds to a group was clipped and rounded before it came here.

At the end the bounds that values are clipped to, found privately from noisy counts in bins whose ends double.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from setwise.accounting.guarantees import DiscreteLaplace, Guarantee, Use, merged
from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.parameters import binary, positive_integer
from setwise.mechanisms.quantile import GridQuantiles
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import CONFIDENCE, Estimate
from setwise.mechanisms.two_phase import (
    Counts,
    GaussianCounts,
    LaplaceCounts,
    TwoPhaseTopK,
    guarantee_of,
    noise_of,
)
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGaussian, UnknownGumbel, UnknownLaplace

HistogramMechanism: TypeAlias = (
    KnownLaplace
    | KnownGaussian
    | KnownGumbel
    | UnknownLaplace
    | UnknownGaussian
    | TruncatedGaussian
    | UnknownGumbel
    | TwoPhaseTopK
)
"""What releases a histogram, or the top k of one; each can find the groups of further statistics."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupTable:
    """The exact statistics of every group: what a mechanism is given, and never what it gives.

    `users` says how many users each group has. For each statistic, `totals` holds the sum of what users add to a group,
    `numbers` how many users add something, and `cells` of a quantile how many values each cell holds; all by label.
    """

    users: Histogram
    totals: tuple[Mapping[Label, int], ...]
    numbers: tuple[Mapping[Label, int], ...]
    cells: tuple[Mapping[Label, NDArray[np.int64]], ...]

    def cells_of(self, place: int, label: Label, length: int) -> NDArray[np.int64]:
        """Return how many values each cell of a group holds: none where nobody adds one."""
        return self.cells[place].get(label, np.zeros(length, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyTotal:
    """A sum to which one user adds at most `reach`, either way, with noise `reach` times as wide as `noise`."""

    reach: int
    noise: Counts

    def __post_init__(self) -> None:
        positive_integer("reach", self.reach)

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return what one group costs."""
        return (guarantee_of(self.noise, self.reach),)

    def release(
        self, totals: NDArray[np.int64], numbers: NDArray[np.int64], confidence: Fraction, randomness: Randomness
    ) -> list[Estimate]:
        """Return a noisy sum for every group."""
        del numbers
        noise = noise_of(self.noise, self.reach)
        radius = noise.radius(confidence)
        noisy = (totals + noise.draw(len(totals), randomness)).tolist()
        return [Estimate(value=value, interval=(value - radius, value + radius)) for value in noisy]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMean:
    """A noisy sum over a noisy number of users, or of rows, of which one user has at most `rows`.

    Every user or row adds at most `reach` to the sum, either way. Both are released for every group, so a group costs
    two uses; the noise of the sum is `reach` times as wide. The interval holds every ratio theta for which the noises
    explain sum - theta * number: of Gaussians this is Fieller's.

    Theorem: Fieller54 for the interval.
    """

    reach: int
    noise: Counts
    rows: int = 1

    def __post_init__(self) -> None:
        positive_integer("reach", self.reach)
        positive_integer("rows", self.rows)

    @property
    def reaches(self) -> tuple[int, int]:
        """How much one user adds at most to the sum, either way, and to the number."""
        return self.reach * self.rows, self.rows

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return what one group costs."""
        of_sum, of_number = self.reaches
        return guarantee_of(self.noise, of_sum), guarantee_of(self.noise, of_number)

    def release(
        self, totals: NDArray[np.int64], numbers: NDArray[np.int64], confidence: Fraction, randomness: Randomness
    ) -> list[Estimate]:
        """Return a noisy mean for every group, between -reach and reach."""
        explained = self._explained(confidence)
        of_sum, of_number = self.reaches
        sums = (totals + noise_of(self.noise, of_sum).draw(len(totals), randomness)).tolist()
        counts = (numbers + noise_of(self.noise, of_number).draw(len(numbers), randomness)).tolist()
        return [self._ratio(total, count, explained) for total, count in zip(sums, counts, strict=True)]

    def interval_reach(self, number: int, confidence: Fraction) -> float:
        """Return how far the interval of a mean reaches from it at most, wherever it lies, given a noisy `number`.

        An end theta explains number * |theta - mean| by noise, and noise explains most at the largest theta.
        """
        return self._explained(confidence)(float(self.reach)) / number

    def _ratio(self, total: int, count: int, explained: Callable[[float], float]) -> Estimate:
        reach = float(self.reach)
        value = min(max(total / count, -reach), reach) if count > 0 else 0.0
        low, high = (sign * self._end(sign * total, count, sign * value, explained) for sign in (-1, 1))
        return Estimate(value=value, interval=(low, high))

    def _end(self, total: int, count: int, value: float, explained: Callable[[float], float]) -> float:
        """Return the largest theta up to reach with theta * count - total within what the noises explain.

        The excess is a concave function of theta that is not positive at `value`, so it turns positive at most once.
        """
        inside, outside = value, float(self.reach)
        if outside * count - total <= explained(outside):
            return outside
        for _ in range(60):
            middle = (inside + outside) / 2
            if middle * count - total <= explained(middle):
                inside = middle
            else:
                outside = middle
        return outside

    def _explained(self, confidence: Fraction) -> Callable[[float], float]:
        """Return how far sum - theta * number may be from 0 by noise alone, as a function of theta."""
        miss = 1 - confidence
        match self.noise:
            case LaplaceCounts():  # both noises within their own radius, each missed with half the chance
                of_sum, of_number = (noise_of(self.noise, reach).radius(1 - miss / 2) for reach in self.reaches)
                return lambda theta: of_sum + abs(theta) * of_number
            case GaussianCounts(sigma=sigma):  # rounding moves each noise by at most a half
                spread = -float(ndtri(float(miss) / 2)) * float(sigma) * self.rows
                return lambda theta: spread * math.hypot(self.reach, theta) + (1 + abs(theta)) / 2
            case _:
                assert_never(self.noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersFound:
    """How many users a group has, as the discovery counted them: no further cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneQuantile:
    """One of the quantiles of the same values, which are picked together.

    `leader` is the place of the statistic whose cells are read and which pays for all of them.
    """

    quantiles: GridQuantiles
    number: int
    leader: int

    def rank_error(self, confidence: Fraction) -> int:
        """Return by how many values its rank is off at most, with the given confidence."""
        return self.quantiles.rank_error(self.number, confidence)


StatisticRelease: TypeAlias = NoisyTotal | NoisyMean | OneQuantile | UsersFound


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRelease:
    """The groups, the estimates of each, what was spent, and whether all groups asked for are there."""

    labels: tuple[Label, ...]
    estimates: tuple[tuple[Estimate, ...], ...]
    spent: tuple[Use, ...]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatistics:
    """Find groups by their users with `discovery`, or take those of the public `domain`; then release the statistics.

    A user adds to at most `contributions` groups (None: to any of them). With `k` at most k groups are found.

    Theorem: lem:peeling_lap for the number of uses of a joint release.
    """

    statistics: tuple[StatisticRelease, ...]
    contributions: int | None
    discovery: HistogramMechanism | None = None
    domain: tuple[Label, ...] = ()
    k: int | None = None

    def __post_init__(self) -> None:
        if self.contributions is not None:
            positive_integer("contributions", self.contributions)
        object.__setattr__(self, "domain", distinct_labels(self.domain))
        for statistic in self.statistics:
            if isinstance(statistic, OneQuantile):
                self._check_leader(statistic)
        if self.discovery is None and UsersFound() in self.statistics:
            raise InvalidParameter("without a discovery nobody has counted the users: ask for a noisy total")

    def _check_leader(self, quantile: OneQuantile) -> None:
        """Raise unless somebody pays for a quantile: its leader is there, with the same quantiles."""
        if quantile.leader in range(len(self.statistics)):
            leader = self.statistics[quantile.leader]
            if isinstance(leader, OneQuantile) and (leader.leader, leader.quantiles) == (
                quantile.leader,
                quantile.quantiles,
            ):
                return
        raise InvalidParameter(f"statistic {quantile.leader} does not lead the quantiles that it is to pay for")

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one release may cost."""
        found = () if self.discovery is None else self.discovery.guarantees()
        most = self.k or len(self.domain) or None
        return merged((*found, *self._uses(most)))

    def release(self, table: GroupTable, randomness: Randomness, confidence: Fraction = CONFIDENCE) -> GroupRelease:
        """Return the statistics of the groups found, in the order of the discovery or of the domain."""
        found = None if self.discovery is None else self.discovery.release(table.users, randomness)
        cut = found if found is None or self.k is None else found.top(self.k)
        labels = self.domain if cut is None else cut.labels
        columns: list[list[Estimate]] = []
        picked: dict[int, list[tuple[int, ...]]] = {}
        for place, statistic in enumerate(self.statistics):
            totals, numbers = (_over(values[place], labels) for values in (table.totals, table.numbers))
            match statistic:
                case NoisyTotal() | NoisyMean():
                    columns.append(statistic.release(totals, numbers, confidence, randomness))
                case OneQuantile(quantiles=quantiles, number=number, leader=leader):
                    if leader not in picked:
                        held = [table.cells_of(leader, label, quantiles.cells) for label in labels]
                        picked[leader] = [quantiles.pick(counts, randomness) for counts in held]
                    columns.append([Estimate(value=cells[number]) for cells in picked[leader]])
                case UsersFound():
                    assert cut is not None
                    pairs = zip(cut.items, cut.intervals(confidence), strict=True)
                    columns.append([_counted(item.count, interval) for item, interval in pairs])
                case _:
                    assert_never(statistic)
        return GroupRelease(
            labels=labels,
            estimates=tuple(zip(*columns, strict=True)) if labels else (),
            spent=merged((*(() if found is None else found.spent), *self._uses(len(labels)))),
            complete=found is None or found.complete,
        )

    def _uses(self, groups: int | None) -> tuple[Use, ...]:
        """Return the uses of all statistics for `groups` groups, None when their number has no bound."""
        bounds = [bound for bound in (groups, self.contributions) if bound is not None]
        if not bounds:
            raise InvalidParameter("a user must add to a bounded number of groups: give contributions, k or a domain")
        changed = min(bounds)
        each = [step for place, statistic in enumerate(self.statistics) for step in _steps(place, statistic)]
        return tuple(Use(step, changed) for step in each) if changed else ()


def _steps(place: int, statistic: StatisticRelease) -> tuple[Guarantee, ...]:
    """Return what a statistic costs in one group; quantiles picked together are paid for where their leader is."""
    match statistic:
        case NoisyTotal() | NoisyMean():
            return statistic.guarantees()
        case OneQuantile(quantiles=quantiles, leader=leader):
            return (quantiles.guarantee,) * quantiles.levels if place == leader else ()
        case UsersFound():
            return ()
        case _:
            assert_never(statistic)


def _over(values: Mapping[Label, int], labels: tuple[Label, ...]) -> NDArray[np.int64]:
    return np.array([values.get(label, 0) for label in labels], dtype=np.int64)


def _counted(count: float | None, interval: object) -> Estimate:
    assert count is not None
    lower, upper = getattr(interval, "lower", count), getattr(interval, "upper", count)
    return Estimate(value=count, interval=(lower, upper))


LEAST_EXPONENT, LARGEST_EXPONENT = -20, 40
"""What is at most 2^-20 counts as 0, and the last bin of either sign holds everything beyond 2^39."""

DOUBLINGS = LARGEST_EXPONENT - LEAST_EXPONENT
"""Bins of either sign: bin b > 0 holds what is above 2^(b - 21) and at most 2^(b - 20), bin -b its negative."""

_MISTAKEN = Fraction(1, 1000)
"""The probability that some bin without users is taken for one that has some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoublingBounds:
    """The ends of the outermost bins whose noisy counts stand out from noise, of -60, .., 0, .., 60.

    A user has at most one value, so one count changes by 1: all of them together are one use of Laplace noise. Where no
    count stands out, the highest is taken.

    >>> ends(-3), ends(0), ends(21)
    ((Fraction(-1, 131072), Fraction(-1, 262144)), (Fraction(0, 1), Fraction(0, 1)), (Fraction(1, 1), Fraction(2, 1)))
    """

    scale: Fraction

    @property
    def guarantee(self) -> DiscreteLaplace:
        """What the bounds cost."""
        return DiscreteLaplace(scale=float(binary(self.scale)), sensitivity=1)

    @property
    def threshold(self) -> int:
        """What a noisy count must exceed to stand out."""
        return self._noise.radius(1 - _MISTAKEN / (2 * DOUBLINGS + 1))

    @property
    def _noise(self) -> LaplaceNoise:
        return LaplaceNoise(scale=binary(self.scale))

    def release(self, counts: NDArray[np.int64], randomness: Randomness) -> tuple[Fraction, Fraction]:
        """Return low and high, low below high, given how many values each bin holds."""
        if len(counts) != 2 * DOUBLINGS + 1:
            raise InvalidParameter(f"there are {2 * DOUBLINGS + 1} bins, but counts are for {len(counts)}")
        noisy = counts + self._noise.draw(len(counts), randomness)
        standing = np.flatnonzero(noisy > self.threshold)
        found = [int(np.argmax(noisy))] if len(standing) == 0 else standing.tolist()
        low, high = ends(found[0] - DOUBLINGS)[0], ends(found[-1] - DOUBLINGS)[1]
        return (low, high) if low < high else (Fraction(0), Fraction(1))


def ends(place: int) -> tuple[Fraction, Fraction]:
    """Return the lower and the upper end of a bin."""
    if place == 0:
        return Fraction(0), Fraction(0)
    outer = Fraction(2) ** (abs(place) + LEAST_EXPONENT)
    return (outer / 2, outer) if place > 0 else (-outer, -outer / 2)

"""The statistic `Mean`: the mean of a column, over users or over rows, and when it is unreliable."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.statistics.estimates import HALF, covers_share, scale_estimate
from setwise.analytics.statistics.parameters import Number, check_column, radius_text
from setwise.analytics.statistics.statistic import (
    GROUP_BOUNDS,
    SOME_USERS,
    BoundedStatistic,
    ClipBounds,
    SqlFunction,
    Statistic,
    bounded_reach,
    read_bounds,
)
from setwise.mechanisms.parameters import positive_integer
from setwise.records import set_fields

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistic_release import StatisticRelease

_PRECISE_SHARE = Fraction(1, 16)
"""The share of the distance of bounds of both signs below which an interval makes a mean near 0 precise.

Between -60 and 60, an interval of less than 7.5 says that a mean of 0.1 is about 0, although it is wider than the mean.
"""

_AT_BOUND = Fraction(1, 200)
"""The share of the distance of the bounds up to which a mean counts as being at a bound, because noise moves it."""


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Mean(BoundedStatistic):
    """The mean of a column in a group: over users, or, if `per_user` is given, over rows.

    - Over users, the values that are averaged are the users' own means, each clipped to the clipping bounds.
    - Over rows, each row's value is clipped. A user with more than `per_user` rows has the weight of `per_user` rows.
    - `clip` has the clipping bounds (`low` and `high` of the constructor), and the step to whose multiples values are
      rounded. It is None until a private search has found the bounds.
    """

    kind: ClassVar[str] = "mean"
    summary: ClassVar[str] = "Average a column over users, each user's own mean clipped to between low and high."
    sql: ClassVar[Mapping[str, SqlFunction]] = {
        "AVG": SqlFunction(
            bounds=GROUP_BOUNDS, missing="say between which values a user's own mean counts, or AUTO to have it found"
        )
    }
    radius_unit: ClassVar[str] = f" of means over {SOME_USERS:,} users"

    column: str
    clip: ClipBounds | None
    per_user: int | None

    def __init__(
        self,
        *,
        column: str,
        low: Number | None = None,
        high: Number | None = None,
        step: Number | None = None,
        per_user: int | None = None,
        bounds: str | None = None,
    ) -> None:
        check_column("value", column)
        clip = read_bounds(low, high, step, bounds)
        if per_user is not None:
            positive_integer("per_user", per_user)
        set_fields(self, column=column, clip=clip, per_user=per_user)

    @property
    def _reach(self) -> int:
        """Half the distance between the clipping bounds, in rounding steps; rounded up, and at least 1.

        It is the sensitivity of a mean over users: the mean is computed from a noisy sum, to which each user adds the
        distance of their own mean from the middle between the bounds. In a mean over rows, a user adds this distance
        once for each of their rows that count. The sensitivity is then this number times the field `per_user`, the most
        rows of a user that count.

        Raises: `InvalidParameter` if the sensitivity is so large that noise for it cannot be sampled.
        """
        reach = math.ceil(self.clip_bounds.width / 2 / self.clip_bounds.known_step)
        bounded_reach(reach * (self.per_user or 1))
        return max(1, reach)

    def measures(self) -> tuple[Measure, ...]:
        """Return a tuple with one measure: the whole number that each user adds to a group, for computing the mean.

        The number is the difference between the user's own mean and the middle between the clipping bounds, divided by
        the rounding step (to whose multiples values are rounded). For a mean over rows, the difference is multiplied by
        min(n, `per_user`), where n is the user's number of values in the group.
        """
        return (
            Measure(
                column=self.column,
                averaged=True,
                rows=self.per_user,
                origin=self.clip_bounds.centre,
                step=self.clip_bounds.known_step,
                least=-self._reach,
                most=self._reach,
            ),
        )

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return the mechanism that releases the mean: it divides a noisy sum by a noisy count.

        It has a placeholder noise scale until the planner chooses one. `among`, the statistics of the query, is not
        used.
        """
        from setwise.mechanisms.statistics import NoisyMean
        from setwise.mechanisms.two_phase import UNIT_NOISE

        del among
        return NoisyMean(reach=self._reach, rows=self.per_user or 1, noise=UNIT_NOISE)

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return `estimate` converted to units of the column, with value and interval limited to the clipping bounds.

        The given estimate is in rounding steps from the middle between the bounds. Each user's own mean was rounded by
        at most half a step, so each end of the interval is moved outwards by half a step.
        """
        from setwise.mechanisms.release import Estimate

        clip = self.clip_bounds
        unclipped = scale_estimate(estimate, clip.centre, clip.known_step, clip.known_step / 2)
        assert unclipped.interval is not None
        least, most = float(clip.low), float(clip.high)
        lower, upper = (min(max(end, least), most) for end in unclipped.interval)
        return Estimate(value=min(max(unclipped.value, least), most), interval=(lower, upper))

    @property
    def subject(self) -> str:
        """The text "means of COLUMN"."""
        return f"means of {self.column}"

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return the half-width, in units of the column, of the 95% interval that this mean is planned to have.

        The half-width depends on the size of the group, so it is stated for 1,000 users (`SOME_USERS`), or 1,000 rows
        for a mean over rows. `release` is the mechanism with the noise scale that the planner chose. None if `release`
        is not the mechanism of a mean.
        """
        from setwise.mechanisms.intervals import CONFIDENCE
        from setwise.mechanisms.statistics import NoisyMean

        if not isinstance(release, NoisyMean):
            return None
        reach = Fraction(release.interval_reach(SOME_USERS, CONFIDENCE))
        return self.clip_bounds.known_step * (reach + Fraction(1, 2))

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return a phrase that says how close the mean of 1,000 users or rows (`SOME_USERS`) will be to the exact mean.

        `radii` has one entry, the half-width of the planned 95% interval, in units of the column.
        """
        over = f"{SOME_USERS:,} {'users' if self.per_user is None else 'rows'}"
        return f"a mean of {self.column} over {over} within ±{radius_text(radii[0])}"

    def description(self, together: Sequence[Statistic], where: str) -> str:
        """Return a text for headings: whether the mean is over users or rows, and to which bounds values are clipped.

        For example: "mean of age, a user's own per item between 0 and 99". `where` is " per item" if the query has
        groups, else ""; `together` is not used.
        """
        del together
        if self.per_user is None:
            return f"mean of {self.column}, a user's own{where} {self.between()}"
        return f"mean of {self.column} over events, each {self.between()}, at most {self.per_user:,} of a user{where}"

    @classmethod
    def over(cls, words: Mapping[str, Any]) -> str:
        """Return the words that follow the name of the mean in a text: " over events" for a mean over rows, else "".

        The mean is over rows if `words`, its parameters as JSON states them, has `per_user`, and over users otherwise.
        """
        return " over events" if words.get("per_user") else ""

    def is_unreliable(self, estimate: "Estimate", release: "StatisticRelease", users: float | None) -> bool:
        """Return whether a mean is at one of its clipping bounds, or its noise too large: it is marked as unreliable.

        The noise is too large in two cases:
        - The confidence interval of `estimate` is at least half as wide as the distance between the clipping bounds.
        - The interval is at least twice as wide as the absolute value of the mean. If one bound is below 0 and one
          above, the interval must also be at least a sixteenth as wide as the distance between them, because a mean
          near 0 can be precise.

        `estimate` is in units of the column; `release` and `users` are not used.
        """
        from setwise.mechanisms.release import noise_may_dominate

        del release, users
        low, high = self.clip_bounds.low, self.clip_bounds.high
        # A mean delay of 0.1 minutes between -60 and 60 is precise if its interval is 0.6 minutes wide. If the interval
        # is 14 minutes wide, a list of carriers by their mean delays puts the carrier in a place that noise chose.
        is_precise = low < 0 < high and not covers_share(estimate, low, high, _PRECISE_SHARE)
        return (
            self.is_at_bound(estimate)
            or covers_share(estimate, low, high, HALF)
            or (not is_precise and noise_may_dominate(estimate.value, estimate.interval))
        )

    def is_at_bound(self, estimate: "Estimate") -> bool:
        """Return whether the mean `estimate`, in units of the column, may be one of the clipping bounds.

        Noise or values beyond the bound may have put it there. The mean is then at most `_AT_BOUND` of the distance
        between the bounds away from it, and not farther than its interval is wide. A precise mean between 0 and 1 does
        not count, because 0 and 1 are the exact bounds of a share, and a share of all or no rows is common.
        """
        low, high = self.clip_bounds.low, self.clip_bounds.high
        is_share = low == 0 and high == 1 and not covers_share(estimate, low, high, _PRECISE_SHARE)
        if is_share or estimate.interval is None:
            return False
        near = min(float(_AT_BOUND * (high - low)), estimate.interval[1] - estimate.interval[0])
        return estimate.value - low <= near or high - estimate.value <= near

    @property
    def most_rows(self) -> int | None:
        """The most rows of a user that count in a group; None for a mean over users, in which each user counts once."""
        return self.per_user

    @property
    def clipped_values(self) -> str:
        """A clause for sentences below an answer, which says what is clipped and to which bounds.

        For a mean over rows it is, for example, "each row's age is clipped to 0 .. 120", and for a mean over users
        "each user's own mean of age is clipped to 0 .. 120".
        """
        values = f"each user's own mean of {self.column}" if self.per_user is None else f"each row's {self.column}"
        return f"{values} is clipped to {self.clip_text()}"

    @property
    def user_weight_note(self) -> str:
        """A sentence, without its full stop, on the equal weight of users, and on how to ask for a mean over rows.

        The text is "" for a mean over rows, which has `per_user` (the most rows of a user that count).
        """
        if self.per_user is not None:
            return ""
        return (
            f"AVG is the mean over users of each user's own mean; for the mean over rows ask SUM({self.column}) / "
            f"COUNT({self.column}) with wide bounds stated for both"
        )

    @property
    def interval_note(self) -> str:
        """A sentence about the interval of the mean: it allows for an error from rounding each user's own mean.

        The sentence states the largest such error, which is half of the rounding step.
        """
        half = float(self.clip_bounds.known_step / 2)
        return f"That of {self.name} allows for the rounding of each user's own mean, by at most {half:g}."

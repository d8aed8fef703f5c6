"""Means of a column, over users or over rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.statistics.statistic import (
    GROUP_BOUNDS,
    SOME_USERS,
    BoundedStatistic,
    ClipBounds,
    Number,
    SqlFunction,
    Statistic,
    bounded_reach,
    check_column,
    covers_half,
    read_bounds,
    scaled,
    set_fields,
)
from setwise.mechanisms.parameters import positive_integer

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistics import StatisticRelease


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Mean(BoundedStatistic):
    """The mean over users of their own mean of the column in a group, clipped to `low` .. `high`.

    With `per_user` the mean is over rows, each clipped. A user who has more than `per_user` rows in a group weighs as
    much as that many rows of their own mean, which is what a random choice among their rows would give on average.
    """

    kind: ClassVar[str] = "mean"
    summary: ClassVar[str] = "Average a column over users, each user's own mean clipped to between --low and --high."
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
        """How many steps a user's own mean is at most from the centre of the bounds."""
        reach = math.ceil(self.clipped.width / 2 / self.clipped.known_step)
        bounded_reach(reach * (self.per_user or 1))
        return max(1, reach)

    def measures(self) -> tuple[Measure, ...]:
        """Return each user's own mean in steps around the centre of the bounds, or that of their rows."""
        return (
            Measure(
                column=self.column,
                averaged=True,
                rows=self.per_user,
                origin=self.clipped.centre,
                step=self.clipped.known_step,
                least=-self._reach,
                most=self._reach,
            ),
        )

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return a noisy sum over a noisy number of users or rows."""
        from setwise.mechanisms.statistics import NoisyMean
        from setwise.mechanisms.two_phase import LaplaceCounts

        del among
        return NoisyMean(reach=self._reach, rows=self.per_user or 1, noise=LaplaceCounts(scale=Fraction(1)))

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return the estimate in units of the column, within the bounds.

        Its interval also covers the rounding of each user's own mean, which is at most half a step.
        """
        from setwise.mechanisms.release import Estimate

        clip = self.clipped
        found = scaled(estimate, clip.centre, clip.known_step, clip.known_step / 2)
        assert found.interval is not None
        least, most = float(clip.low), float(clip.high)
        lower, upper = (min(max(end, least), most) for end in found.interval)
        return Estimate(value=min(max(found.value, least), most), interval=(lower, upper))

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return half the width of the interval of a mean of `SOME_USERS` users or rows, rounding included."""
        from setwise.mechanisms.release import CONFIDENCE
        from setwise.mechanisms.statistics import NoisyMean

        if not isinstance(release, NoisyMean):
            return None
        reach = Fraction(release.interval_reach(SOME_USERS, CONFIDENCE))
        return self.clipped.known_step * (reach + Fraction(1, 2))

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return how close the mean of a group of a given size will be."""
        over = f"{SOME_USERS:,} {'users' if self.per_user is None else 'rows'}"
        return f"a mean of {self.column} over {over} within ±{float(radii[0]):.3g}"

    def described(self, together: Sequence[Statistic], where: str) -> str:
        """Return which mean it is, and between which values each user's own mean or each row counts."""
        del together
        if self.per_user is None:
            return f"mean of {self.column}, a user's own{where} {self.between()}"
        return f"mean of {self.column} over events, each {self.between()}, at most {self.per_user:,} of a user{where}"

    @classmethod
    def over(cls, words: Mapping[str, Any]) -> str:
        """Return " over events" where the mean is over rows."""
        return " over events" if words.get("per_user") else ""

    def is_unreliable(self, estimate: "Estimate", release: "StatisticRelease", users: float | None) -> bool:
        """Whether the interval of the mean covers half of the bounds or more."""
        del release, users
        return covers_half(estimate, self.clipped.low, self.clipped.high)

    @property
    def interval_note(self) -> str:
        """A sentence about the rounding that its interval allows for."""
        half = float(self.clipped.known_step / 2)
        return f"That of {self.name} allows for the rounding of each user's own mean, by at most {half:g}."

"""Variances and standard deviations of a column over rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.schema import Schema
from setwise.analytics.statistics.statistic import (
    ROW_BOUNDS,
    ROWS_BETWEEN,
    SOME_USERS,
    BoundedStatistic,
    ClipBounds,
    Number,
    SqlFunction,
    Statistic,
    check_column,
    covers_half,
    extreme_measures,
    read_bounds,
    set_fields,
)
from setwise.mechanisms.parameters import positive_integer

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistics import StatisticRelease

_RESOLUTION, _MOST_UNITS = 2**16, 2**20
"""Units of half the distance between the bounds in which rows are added up, and the most that one user adds.

What users add is rounded to a unit, so that an interval is wider by 2 / 2^16 of the largest variance. With more units
of a user, noise of the scale that small budgets need could no longer be drawn.
"""

_WRITTEN = SqlFunction(
    bounds=ROW_BOUNDS,
    missing=ROWS_BETWEEN,
    takes_rows=True,
)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Variance(BoundedStatistic):
    """The variance of a column over rows, each clipped to `low` .. `high`, at most `per_user` rows of a user.

    A user with more rows in a group weighs as much as `per_user` of them, which is what a random choice would give on
    average. Without `per_user` every user weighs as much as one row. It is the variance of the rows that count, which
    differs from that of a sample by one part in their number.
    """

    kind: ClassVar[str] = "variance"
    summary: ClassVar[str] = "Find the variance of a column over rows, each clipped to between --low and --high."
    sql: ClassVar[Mapping[str, SqlFunction]] = dict.fromkeys(("VARIANCE", "VAR_SAMP", "VAR_POP"), _WRITTEN)
    radius_unit: ClassVar[str] = f" of variances over {SOME_USERS:,} rows spread evenly between the bounds"
    over_rows: ClassVar[bool] = True
    noun: ClassVar[str] = "variance"

    column: str
    clip: ClipBounds | None
    per_user: int | None

    def __init__(
        self,
        *,
        column: str,
        low: Number | None = None,
        high: Number | None = None,
        per_user: int | None = None,
        bounds: str | None = None,
    ) -> None:
        check_column("value", column)
        if per_user is not None:
            positive_integer("per_user", per_user)
        set_fields(self, column=column, clip=read_bounds(low, high, None, bounds), per_user=per_user)

    def in_steps(self, schema: Schema) -> Statistic:
        """Return the statistic itself: its resolution does not depend on the column."""
        del schema
        return self

    @property
    def _reach(self) -> int:
        """How many units half the distance between the bounds has; fewer where more than 16 rows of a user count."""
        return max(1, min(_RESOLUTION, _MOST_UNITS // (self.per_user or 1)))

    @property
    def _half(self) -> Fraction:
        """Half the distance between the bounds: the largest standard deviation."""
        return self.clipped.width / 2

    def measures(self) -> tuple[Measure, ...]:
        """Return the sums of y and of 2 y^2 - 1 over rows, with y between -1 at the lower and 1 at the upper bound."""
        return tuple(
            Measure(
                column=self.column,
                averaged=True,
                rows=self.per_user or 1,
                squared=squared,
                origin=self.clipped.centre,
                step=self._half / self._reach,
                least=-self._reach,
                most=self._reach,
            )
            for squared in (False, True)
        )

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return both noisy sums over a noisy number of rows."""
        from setwise.mechanisms.statistics import NoisyVariance
        from setwise.mechanisms.two_phase import LaplaceCounts

        del among
        return NoisyVariance(reach=self._reach, rows=self.per_user or 1, noise=LaplaceCounts(scale=Fraction(1)))

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return the estimate in units of the column, squared."""
        return self._converted(estimate, lambda share: share * float(self._half) ** 2)

    def _converted(self, estimate: "Estimate", convert: Callable[[float], float]) -> "Estimate":
        """Return an estimate whose value and interval are converted, as shares of the largest variance."""
        from setwise.mechanisms.release import Estimate

        assert estimate.interval is not None
        lower, upper = (convert(end) for end in estimate.interval)
        return Estimate(value=convert(estimate.value), interval=(lower, upper))

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return half the width of the interval of `SOME_USERS` rows that are spread evenly between the bounds.

        The interval of a variance depends on the values: its planned width is that of a uniform distribution.
        """
        from setwise.mechanisms.release import CONFIDENCE
        from setwise.mechanisms.statistics import NoisyVariance

        if not isinstance(release, NoisyVariance):
            return None
        squares = -SOME_USERS * release.reach // 3  # the mean of 2 y^2 - 1 is -1/3
        planned = self.in_units(release.estimate(0, squares, SOME_USERS, release.ratio(CONFIDENCE)))
        assert planned.interval is not None
        return Fraction(max(planned.interval[1] - planned.value, planned.value - planned.interval[0]))

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return how close the statistic of a group of a given size will be."""
        over = f"{SOME_USERS:,} rows spread evenly between the bounds"
        return f"a {self.noun} of {self.column} over {over} within ±{float(radii[0]):.3g}"

    def described(self, together: Sequence[Statistic], where: str) -> str:
        """Return which statistic it is, between which values rows count, and how many of a user."""
        del together
        users = "every user weighs as much as one" if self.per_user is None else f"at most {self.per_user:,} of a user"
        return f"{self.noun} of {self.column} over events, each {self.between()}, {users}{where}"

    @classmethod
    def title(cls, words: Mapping[str, Any]) -> str:
        """Return what people call the statistic."""
        del words
        return cls.noun

    @classmethod
    def over(cls, words: Mapping[str, Any]) -> str:
        """Return " over events": it is always over rows."""
        del words
        return " over events"

    def is_unreliable(self, estimate: "Estimate", release: "StatisticRelease", users: float | None) -> bool:
        """Whether the interval covers half of what the statistic can be between the bounds, or more."""
        from setwise.mechanisms.release import Estimate

        del release, users
        largest = self.in_units(Estimate(value=1.0, interval=(0.0, 1.0))).value
        return covers_half(estimate, Fraction(0), Fraction(largest))

    def search_measures(self) -> tuple[Measure, ...]:
        """Return what the engine counts to find the bounds: the bins of each user's least and greatest row."""
        return extreme_measures(self.column)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class StandardDeviation(Variance):
    """The standard deviation of a column over rows: the square root of their `Variance`, with the same parameters."""

    kind: ClassVar[str] = "stddev"
    summary: ClassVar[str] = (
        "Find the standard deviation of a column over rows, each clipped to between --low and --high."
    )
    sql: ClassVar[Mapping[str, SqlFunction]] = dict.fromkeys(("STDDEV", "STDDEV_SAMP", "STDDEV_POP"), _WRITTEN)
    radius_unit: ClassVar[str] = f" of standard deviations over {SOME_USERS:,} rows spread evenly between the bounds"
    noun: ClassVar[str] = "standard deviation"

    @classmethod
    def heading(cls) -> str:
        """Return its title for a form."""
        return "Std. deviation"

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return the square root of the estimate in units of the column; its interval holds as often."""
        return self._converted(estimate, lambda share: math.sqrt(share) * float(self._half))

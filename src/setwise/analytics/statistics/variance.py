"""The statistics `Variance` and `StandardDeviation` of a column over rows, and when they are unreliable.

`NoisyVariance` in mechanisms/statistics.py adds their noise.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.schema import Schema
from setwise.analytics.statistics.estimates import HALF, covers_share
from setwise.analytics.statistics.parameters import Number, check_column, radius_text
from setwise.analytics.statistics.search_measures import extreme_measures, row_measure
from setwise.analytics.statistics.statistic import (
    ROW_BOUNDS,
    ROWS,
    ROWS_BETWEEN,
    SOME_USERS,
    BoundedStatistic,
    ClipBounds,
    SqlFunction,
    Statistic,
    read_bounds,
)
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import positive_integer
from setwise.records import copy_with, set_fields

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistic_release import StatisticRelease

_RESOLUTION, _MOST_UNITS = 2**16, 2**20
"""The number of units in half the distance between the bounds, and the most units that one user adds.

What a user adds is rounded to a unit, which widens an interval by 2 / 2^16 of the largest variance. If one user could
add more units, the noise scale that small budgets need could no longer be sampled.
"""

_SQL_FUNCTION = SqlFunction(
    bounds=ROW_BOUNDS,
    missing=ROWS_BETWEEN,
    takes_rows=True,
)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Variance(BoundedStatistic):
    """The population variance of a column over rows, with each row's value clipped to the bounds in `clip`.

    - A user with more than `per_user` rows in a group has the weight of `per_user` rows. With 1 every user has the same
      weight. None leaves the number to a private search.
    - `clip` has the clipping bounds (`low` and `high` of the constructor); None until a private search has found them.
    - `most_units` is the largest number of rounding steps that one user may add to a sum. It limits how finely values
      are rounded, because noise for a larger sensitivity could not be sampled.
    """

    kind: ClassVar[str] = "variance"
    summary: ClassVar[str] = "Find the variance of a column over rows, each clipped to between low and high."
    sql: ClassVar[Mapping[str, SqlFunction]] = dict.fromkeys(("VARIANCE", "VAR_SAMP", "VAR_POP"), _SQL_FUNCTION)
    radius_unit: ClassVar[str] = f" of variances over {SOME_USERS:,} rows spread evenly between the bounds"
    over_rows: ClassVar[bool] = True
    noun: ClassVar[str] = "variance"

    column: str
    clip: ClipBounds | None
    per_user: int | None
    most_units: int

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
        set_fields(
            self, column=column, clip=read_bounds(low, high, None, bounds), per_user=per_user, most_units=_MOST_UNITS
        )

    def in_steps(self, schema: Schema) -> Statistic:
        """Return this statistic unchanged, because a variance has no rounding step to fill in.

        Other statistics round a user's values to multiples of a step, which may depend on whether the column has
        integers; `schema` says so. A variance divides the distance from `low` to `high`, its clipping bounds, into a
        fixed number of parts instead, and does not use `schema`.
        """
        del schema
        return self

    @property
    def _reach(self) -> int:
        """The number of rounding steps in half the distance between the clipping bounds: 2^16, or fewer if necessary.

        What one user adds to a sum is rounded to whole steps. One user, with up to `per_user` rows that count, may add
        at most `most_units` steps to a sum (2^20, or less after a private search), because noise for a larger
        sensitivity could not be sampled. So with more than 16 rows per user, the steps are fewer and coarser.
        """
        return max(1, min(_RESOLUTION, self.most_units // self._known_rows))

    @property
    def _known_rows(self) -> int:
        """The most rows of one user in a group that count.

        Raises: `InvalidParameter` if the analyst left this number to a private search, and the search has not found it
        yet.
        """
        if self.per_user is None:
            raise InvalidParameter(f"how many rows of a user count in the {self.noun} is still to be found")
        return self.per_user

    @property
    def _half(self) -> Fraction:
        """Half the distance between the clipping bounds, which is the largest possible standard deviation."""
        return self.clip_bounds.width / 2

    def measures(self) -> tuple[Measure, ...]:
        """Return the two measures (numbers that each user adds to a group) from which the variance is computed.

        Each clipped value is scaled to a number y, which is -1 at the lower and 1 at the upper clipping bound. The
        first measure averages y over the user's rows, and the second averages 2 y^2 - 1. Each average is multiplied by
        the number of the user's rows, or by the most rows of a user that count (`_known_rows`) if the user has more.
        Averages are rounded to multiples of 1 / r, where r is at most 2^16 (`_reach`), because the engine adds up whole
        numbers.
        """
        return tuple(
            Measure(
                column=self.column,
                averaged=True,
                rows=self._known_rows,
                squared=squared,
                origin=self.clip_bounds.centre,
                step=self._half / self._reach,
                least=-self._reach,
                most=self._reach,
            )
            for squared in (False, True)
        )

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return the mechanism that releases the variance, which it computes from two noisy sums and a noisy count.

        It has a placeholder noise scale until the planner chooses one. `among`, the statistics of the query, is not
        used.
        """
        from setwise.mechanisms.statistics import NoisyVariance
        from setwise.mechanisms.two_phase import UNIT_NOISE

        del among
        return NoisyVariance(reach=self._reach, rows=self._known_rows, noise=UNIT_NOISE)

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return the variance in squared units of the column.

        The given `estimate` is a fraction of the largest variance that the clipping bounds allow.
        """
        return self._convert_estimate(estimate, lambda share: share * float(self._half) ** 2)

    def _convert_estimate(self, estimate: "Estimate", convert: Callable[[float], float]) -> "Estimate":
        """Return the estimate with `convert` applied to its value and to both ends of its interval.

        The numbers of `estimate` are variances, as fractions of the largest variance that the clipping bounds allow.
        `convert` takes such a fraction and returns a number in units of the answer.
        """
        from setwise.mechanisms.release import Estimate

        assert estimate.interval is not None
        lower, upper = (convert(end) for end in estimate.interval)
        return Estimate(value=convert(estimate.value), interval=(lower, upper))

    @property
    def subject(self) -> str:
        """The text "variances of COLUMN" or "standard deviations of COLUMN"."""
        return f"{self.noun}s of {self.column}"

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return the half-width of the 95% interval that this variance (or standard deviation) is planned to have.

        The half-width depends on the values in a group, so it is stated for a group of 1,000 rows (`SOME_USERS`) whose
        values are spread evenly between the clipping bounds. Its unit is the column's unit for a standard deviation,
        and the square of this unit for a variance. `release` is the planned mechanism. None if `release` is not the
        mechanism of a variance.
        """
        from setwise.mechanisms.intervals import CONFIDENCE
        from setwise.mechanisms.statistics import NoisyVariance

        if not isinstance(release, NoisyVariance):
            return None
        squares = -SOME_USERS * release.reach // 3  # the mean of 2 y^2 - 1 is -1/3 if y is uniform
        planned = self.in_units(release.estimate(0, squares, SOME_USERS, release.ratio(CONFIDENCE)))
        assert planned.interval is not None
        return Fraction(max(planned.interval[1] - planned.value, planned.value - planned.interval[0]))

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return a phrase that says how close the statistic will be to its exact value, for example in a preview.

        For example "a variance of age over 1,000 rows spread evenly between the bounds within ±12". The group is an
        assumed one, because the half-width depends on the group. `radii` has one entry, the half-width of the planned
        95% interval.
        """
        over = f"{SOME_USERS:,} rows spread evenly between the bounds"
        return f"a {self.noun} of {self.column} over {over} within ±{radius_text(radii[0])}"

    def description(self, together: Sequence[Statistic], where: str) -> str:
        """Return a text for headings: the statistic, the bounds of the clipping, and how many rows of a user count.

        For example: "variance of age over events, each between 0 and 99, at most 3 of a user per item". The last words
        are `where`: " per item" if the query has groups, else "". `together` is not used.
        """
        del together
        users = "every user weighs as much as one" if self.per_user == 1 else f"at most {self.per_user:,} of a user"
        return f"{self.noun} of {self.column} over events, each {self.between()}, {users}{where}"

    @classmethod
    def title(cls, words: Mapping[str, Any]) -> str:
        """Return the name of the statistic for people, "variance" or "standard deviation"; `words` is not used."""
        del words
        return cls.noun

    @classmethod
    def over(cls, words: Mapping[str, Any]) -> str:
        """Return the words that follow the name of the statistic in a text: " over events", meaning over rows.

        If the JSON parameters `words` state the most rows of a user that count, the text goes on with ", at most 5 of a
        user".
        """
        most = words.get("per_user")
        return " over events" + ("" if most is None else f", at most {most} of a user")

    def is_unreliable(self, estimate: "Estimate", release: "StatisticRelease", users: float | None) -> bool:
        """Return whether the answer should mark `estimate` as unreliable, because noise may hide the exact value.

        The result is True if the noise may be as large as the estimate, or as large as a quarter of the largest value
        that the clipping bounds allow. `estimate` is a variance, in squared units of the column, or a standard
        deviation, in units of the column. `release` and `users` are not used.
        """
        from setwise.mechanisms.release import Estimate, noise_may_dominate

        del release, users
        largest = self.in_units(Estimate(value=1.0, interval=(0.0, 1.0))).value
        covers = covers_share(estimate, Fraction(0), Fraction(largest), HALF)
        return covers or noise_may_dominate(estimate.value, estimate.interval)

    def search_measures(self) -> tuple[Measure, ...]:
        """Return the two measures (numbers per user) from which a private search finds the clipping bounds.

        They are the user's least and greatest value. For each of the two, the engine counts how many users lie in each
        of many value ranges (bins), whose ends are powers of two. The search adds noise to these counts, and places the
        bounds at the outermost bins that have users.
        """
        return extreme_measures(self.column)

    @property
    def finds_rows(self) -> bool:
        """Whether a private search must find the limit on a user's rows, because the analyst did not state it."""
        return self.per_user is None

    @property
    def most_rows(self) -> int | None:
        """The most rows of a user that count in a group; None until a search has found the number."""
        return self.per_user

    @property
    def rows_name(self) -> str:
        """The name under which an answer lists the limit on a user's rows that a search found: "rows of variance_age".

        It differs from the statistic's name, under which the answer lists the clipping bounds that a search found.
        """
        return f"rows of {self.name}"

    def row_measure(self) -> Measure:
        """Return the measure (a number per user) from which a private search finds the limit on a user's rows.

        The number is how many rows with a value the user has in the group where they have the most.
        """
        return row_measure(self.column)

    def with_rows(self, most: int, steps: int) -> Statistic:
        """Return the statistic with `most` as the most rows of a user that count, a limit that a private search found.

        Values are rounded to multiples of a rounding step, and added up as whole numbers of steps. The result rounds so
        coarsely that all rows of one user together add at most 2^20 steps, and at most 16 * `steps`. The noise is in
        proportion to this number. If the budget is so small that noise for 2^20 steps could not be sampled, the caller
        passes a smaller `steps`.
        """
        return copy_with(self, per_user=most, most_units=min(_MOST_UNITS, 16 * steps))

    def with_declared_rows(self, most: int | None) -> Statistic:
        """Return the statistic with `most` as its limit on a user's rows, unless it states this limit itself.

        The data holder declared for the dataset that at most `most` rows of a user count, so that no private search has
        to spend budget on finding a limit. If `most` is None, nothing was declared, and the statistic is unchanged.
        """
        return self if most is None or self.per_user is not None else copy_with(self, per_user=most)

    @property
    def user_weight_note(self) -> str:
        """A sentence, without its full stop, on the equal weight of users, and on how to weigh rows equally instead.

        It says that every user has the weight of one row. The text is "" unless the limit on a user's rows is 1,
        because otherwise users with more rows have more weight.
        """
        if self.per_user != 1:
            return ""
        return (
            f"The {self.noun} of {self.column} gives every user the weight of one row, however many rows they have; to "
            f"weigh rows alike, state that more rows of a user count: per_user = N, or in SQL {ROWS} => N"
        )


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class StandardDeviation(Variance):
    """The standard deviation of a column over rows: the square root of the `Variance` with the same parameters."""

    kind: ClassVar[str] = "stddev"
    summary: ClassVar[str] = "Find the standard deviation of a column over rows, each clipped to between low and high."
    sql: ClassVar[Mapping[str, SqlFunction]] = dict.fromkeys(("STDDEV", "STDDEV_SAMP", "STDDEV_POP"), _SQL_FUNCTION)
    radius_unit: ClassVar[str] = f" of standard deviations over {SOME_USERS:,} rows spread evenly between the bounds"
    noun: ClassVar[str] = "standard deviation"

    @classmethod
    def heading(cls) -> str:
        """Return the name of the statistic for a form: "Std. deviation"."""
        return "Std. deviation"

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return the standard deviation in units of the column.

        `estimate` is a variance divided by the largest variance that the bounds allow. The square root is taken of its
        value and of both ends of its interval. The confidence stays the same, because a square root keeps the order of
        numbers.
        """
        return self._convert_estimate(estimate, lambda share: math.sqrt(share) * float(self._half))

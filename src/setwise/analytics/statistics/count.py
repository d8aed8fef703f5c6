"""Counts of users or of rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.statistics.statistic import (
    AUTO,
    Statistic,
    bounded_reach,
    check_column,
    doubling_measure,
    shown,
)
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import positive_integer

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistics import StatisticRelease


LEAST_FOUND, LARGEST_FOUND = 2, 2**20
"""The range of the most rows of a user that can be found: a bound of 1 would count users, which is another statistic,
and one beyond a million says that nothing was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Statistic):
    """The number of users (`most` = 1), or of rows, at most `most` of a user in a group; None stands for 1.

    With a column, only rows where it is not null count, and users who have such a row. `bounds` = "auto" counts rows
    and leaves the most of a user to be found.
    """

    kind: ClassVar[str] = "count"
    summary: ClassVar[str] = "Count users, or events with a cap on each user."

    most: int | None = None
    column: str | None = None
    bounds: str | None = None

    def __post_init__(self) -> None:
        if self.bounds is not None and self.bounds != AUTO:
            raise InvalidParameter(f"bounds must be {AUTO!r}, or left out, not {shown(self.bounds)}")
        if self.bounds is not None and self.most is not None:
            raise InvalidParameter("the most of a user is found with bounds='auto': leave it out")
        if self.most is not None:
            positive_integer("most", self.most)
        if self.column is not None:
            check_column("column", self.column)

    @property
    def name(self) -> str:
        """The name of the count in an answer: users, rows, or count_COLUMN."""
        if self.column is not None:
            return f"count_{self.column}"
        return "users" if self._counts_users else "rows"

    @property
    def is_plain(self) -> bool:
        """Whether it counts all rows, and not those where a column is not null."""
        return self.column is None and not self.is_auto

    @property
    def is_auto(self) -> bool:
        """Whether the most rows of a user are to be found privately."""
        return self.bounds == AUTO

    def search_measures(self) -> tuple[Measure, ...]:
        """Return what the engine counts in doubling bins to find the bound: the number of each user's rows."""
        return (doubling_measure(self.column, averaged=False, counted=True),)

    def with_bounds(self, low: Fraction, high: Fraction) -> "Statistic":
        """Return the count with the most rows of a user that was found, at least 2: it stays a count of rows."""
        del low
        return Count(most=min(max(LEAST_FOUND, math.ceil(high)), LARGEST_FOUND), column=self.column)

    def found_bounds(self) -> tuple[float, float] | None:
        """Return 0 and the most rows of a user."""
        return None if self.most is None else (0.0, float(self.most))

    @property
    def per_item(self) -> int | None:
        """The most that one user adds to a group; None with a column, by which groups are not ranked."""
        return None if self.column is not None or self.is_auto else self.most or 1

    def ranking_words(self, *, grouped: bool) -> dict[str, object]:
        """Return the bound on a user's rows under the word that the query has for it."""
        return {"per_item" if grouped else "per_user": self.most}

    def filled(self, per_item: int | None) -> "Statistic":
        """Return the count with the data set's bound on a user's rows, where it has none of its own."""
        if self.most is not None or (self.is_auto and per_item is None):
            return self
        return Count(most=per_item, column=self.column)

    def measures(self) -> tuple[Measure, ...]:
        """Return the number of a user's rows, or of those with a value."""
        return (Measure(column=self.column, counted=self.column is not None, most=self.most or 1),)

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return the count of users that finding the groups releases, or a noisy sum of rows."""
        from setwise.mechanisms.statistics import UsersFound

        del among
        return UsersFound() if self.column is None and self._counts_users else noisy_total(self.measures()[0])

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return the estimate itself: a count has no unit."""
        return estimate

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return half the width of a count's interval; None for users as the groups were found."""
        return total_radius(release, Fraction(1))

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return how close the counts will be."""
        return f"counts within ±{float(radii[0]):,g}"

    def described(self, together: Sequence[Statistic], where: str) -> str:
        """Return what is counted and at most how much of it for a user."""
        del together
        if self._counts_users:
            return "users" if self.column is None else f"users who have {self.column}{where}"
        counted = "events" if self.column is None else f"events that have {self.column}"
        return f"{counted}, at most {self.most:,} of a user{where}"

    @classmethod
    def asked_in_words(cls, column: str | None, words: Mapping[str, Any], by: str) -> str:
        """Return a count as JSON has it in words."""
        del by
        counted = "users" if words.get("most", 1) == 1 else "events"
        return counted if column is None else f"{counted} with {column}"

    @property
    def kept_of_user(self) -> str:
        """How many rows of a user are counted at most; "" if users are counted."""
        return "" if self.most is None or self.most == 1 else f"{self.most:,} rows"

    @property
    def _counts_users(self) -> bool:
        return self.most in (None, 1) and not self.is_auto


def noisy_total(measure: Measure) -> "StatisticRelease":
    """Return the release of a noisy sum of what users add by a measure."""
    from setwise.mechanisms.statistics import NoisyTotal
    from setwise.mechanisms.two_phase import LaplaceCounts

    reach = bounded_reach(max(abs(measure.least), abs(measure.most)))
    return NoisyTotal(reach=reach, noise=LaplaceCounts(scale=Fraction(1)))


def total_radius(release: "StatisticRelease", step: Fraction) -> Fraction | None:
    """Return half the width of a noisy sum's interval in units of the column; None for users as they were found."""
    from setwise.mechanisms.release import CONFIDENCE
    from setwise.mechanisms.statistics import NoisyTotal

    if not isinstance(release, NoisyTotal):
        return None
    radius, _ = release.error(None, CONFIDENCE)
    return step * Fraction(radius or 0)

"""The statistic `Distinct`: the number of distinct values of a column, with a bound on how many one user adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.statistics.count import total_radius
from setwise.analytics.statistics.parameters import check_column
from setwise.analytics.statistics.statistic import Statistic, bounded_reach
from setwise.mechanisms.parameters import positive_integer

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistic_release import StatisticRelease

VALUES_PER_USER = 10
"""How many distinct values of a user are kept if a query gives no `per_user`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Statistic):
    """The number of distinct values of a column in a group, where at most `per_user` values of each user count.

    A user with more distinct values keeps a random choice of them. The number counts the values that at least one user
    keeps, so adding a user raises it by at most `per_user` and never lowers it.
    """

    kind: ClassVar[str] = "distinct"
    summary: ClassVar[str] = "Count the distinct values of a column, at most --per-user of one user."
    over_rows: ClassVar[bool] = True
    only_lowered: ClassVar[bool] = True

    column: str
    per_user: int = VALUES_PER_USER

    def __post_init__(self) -> None:
        check_column("value", self.column)
        positive_integer("per_user", self.per_user)

    @property
    def name(self) -> str:
        """The name of this statistic's column in an answer: distinct_COLUMN."""
        return f"distinct_{self.column}"

    def measures(self) -> tuple[Measure, ...]:
        """Return, in a tuple, the measure of this statistic: a user adds at most `per_user` distinct values to a group.

        The engine does not sum over users: it counts the values that at least one user adds.
        """
        return (Measure(column=self.column, distinct=self.per_user, in_cells=True),)

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return the mechanism that adds noise to the number of distinct values; its sensitivity is `per_user`.

        It has a placeholder noise scale until the planner chooses one. `among` is not used.
        """
        from setwise.mechanisms.statistics import NoisyTotal
        from setwise.mechanisms.two_phase import LaplaceCounts

        del among
        return NoisyTotal(reach=bounded_reach(self.per_user), noise=LaplaceCounts(scale=Fraction(1)))

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return `estimate`, a noisy number of distinct values, with a value or lower end below 0 raised to 0.

        If the value is raised, the upper end of the interval is raised by the same amount. Otherwise an interval below
        0 would become 0 .. 0, and state that the exact number is 0.
        """
        from setwise.mechanisms.release import Estimate

        assert estimate.interval is not None
        lower, upper = estimate.interval
        value = max(0, estimate.value)
        # If a negative upper end were only raised to 0, the interval would state that the exact number is 0.
        return Estimate(value=value, interval=(max(0, lower), upper + value - estimate.value))

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return the half-width, in distinct values, of the 95% interval that this count is planned to have.

        `release` is the mechanism with the noise scale that the planner chose; no row is read. The result is None only
        if `release` is not the mechanism of a noisy number.
        """
        return total_radius(release, Fraction(1))

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return a phrase such as "distinct values of page within ±12", which says how close the number will be.

        The first of `radii` is the half-width of the planned intervals.
        """
        return f"distinct values of {self.column} within ±{float(radii[0]):,g}"

    def description(self, together: Sequence[Statistic], where: str) -> str:
        """Return a text for headings: which distinct values are counted, and how many of them one user keeps at most.

        `where` is " per item" if the query has groups, else ""; `together` is not used.
        """
        del together
        return f"distinct values of {self.column}, at most {self.per_user:,} of a user{where}"

    @classmethod
    def asked_in_words(cls, column: str | None, words: Mapping[str, Any], by: str) -> str:
        """Return a phrase such as "distinct values of page, at most 10 of a user", followed by `by`.

        `column` is the column whose values are counted, here "page", and never None. `words` are the parameters of the
        statistic as JSON states them, and `by` is the text that names the groups.
        """
        return f"distinct values of {column}, at most {words.get('per_user', VALUES_PER_USER)} of a user{by}"

    @property
    def kept_of_user(self) -> str:
        """A phrase such as "10 distinct values of page", with the most distinct values of one user that count."""
        return f"{self.per_user:,} distinct values of {self.column}"

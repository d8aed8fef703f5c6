"""The number of distinct values of a column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.statistics.count import total_radius
from setwise.analytics.statistics.statistic import Statistic, bounded_reach, check_column
from setwise.mechanisms.parameters import positive_integer

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistics import StatisticRelease

VALUES_PER_USER = 10
"""How many distinct values of a user are kept unless a query says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Statistic):
    """The number of distinct values of a column in a group, of which every user keeps at most `per_user`.

    A user with more values keeps a random choice of them. The number counts values that at least one user keeps, so
    adding a user raises it by at most `per_user`, and never lowers it.
    """

    kind: ClassVar[str] = "distinct"
    summary: ClassVar[str] = "Count the distinct values of a column, at most --per-user of one user."
    over_rows: ClassVar[bool] = True

    column: str
    per_user: int = VALUES_PER_USER

    def __post_init__(self) -> None:
        check_column("value", self.column)
        positive_integer("per_user", self.per_user)

    @property
    def name(self) -> str:
        """The name of the number in an answer: distinct_COLUMN."""
        return f"distinct_{self.column}"

    def measures(self) -> tuple[Measure, ...]:
        """Return the distinct values that are kept by anybody."""
        return (Measure(column=self.column, distinct=self.per_user, in_cells=True),)

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return a noisy number, to which a user adds at most `per_user`."""
        from setwise.mechanisms.statistics import NoisyTotal
        from setwise.mechanisms.two_phase import LaplaceCounts

        del among
        return NoisyTotal(reach=bounded_reach(self.per_user), noise=LaplaceCounts(scale=Fraction(1)))

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return the estimate, raised to 0 where noise carried it below."""
        from setwise.mechanisms.release import Estimate

        assert estimate.interval is not None
        lower, upper = (max(0, end) for end in estimate.interval)
        return Estimate(value=max(0, estimate.value), interval=(lower, upper))

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return half the width of the number's interval."""
        return total_radius(release, Fraction(1))

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return how close the number will be."""
        return f"distinct values of {self.column} within ±{float(radii[0]):,g}"

    def described(self, together: Sequence[Statistic], where: str) -> str:
        """Return which values are counted, and how many of a user are kept."""
        del together
        return f"distinct values of {self.column}, at most {self.per_user:,} of a user{where}"

    @classmethod
    def asked_in_words(cls, column: str | None, words: Mapping[str, Any], by: str) -> str:
        """Return the number as JSON has it in words."""
        return f"distinct values of {column}, at most {words.get('per_user', VALUES_PER_USER)} of a user{by}"

    @property
    def kept_of_user(self) -> str:
        """How many distinct values of a user are counted at most."""
        return f"{self.per_user:,} distinct values of {self.column}"

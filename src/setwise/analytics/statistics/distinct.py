"""The statistic `Distinct`: the number of distinct values of a column, with a bound on how many one user adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.statistics.count import LARGEST_FOUND, total_radius
from setwise.analytics.statistics.estimates import raise_to_zero
from setwise.analytics.statistics.parameters import check_column, radius_text
from setwise.analytics.statistics.search_measures import distinct_measure
from setwise.analytics.statistics.statistic import Statistic, bounded_reach
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import positive_integer

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistic_release import StatisticRelease


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct(Statistic):
    """The number of distinct values of a column in a group, where at most `per_user` values of each user count.

    `per_user` is None if a private search is to find it. If a user has more distinct values in a group, `per_user` of
    them are chosen at random. The statistic is the number of values that are chosen for at least one user. So adding a
    user raises the number by at most `per_user` and never lowers it.
    """

    kind: ClassVar[str] = "distinct"
    summary: ClassVar[str] = "Count the distinct values of a column, at most per_user of one user."
    over_rows: ClassVar[bool] = True
    only_lowered: ClassVar[bool] = True

    column: str
    per_user: int | None = None

    def __post_init__(self) -> None:
        check_column("value", self.column)
        if self.per_user is not None:
            positive_integer("per_user", self.per_user)

    @property
    def name(self) -> str:
        """The name of this statistic's column in an answer: distinct_COLUMN."""
        return f"distinct_{self.column}"

    @property
    def finds_rows(self) -> bool:
        """Whether a private search is still to find the most distinct values of a user that count."""
        return self.per_user is None

    @property
    def most_rows(self) -> int | None:
        """The most distinct values of one user in a group that count; None if a private search has yet to find it."""
        return self.per_user

    @property
    def _known_rows(self) -> int:
        """The most distinct values of one user in a group that count.

        Raises: `InvalidParameter` if the analyst left this number to a private search, and the search has not found it
        yet.
        """
        if self.per_user is None:
            raise InvalidParameter(f"how many values of {self.column} count of a user is still to be found")
        return self.per_user

    def row_measure(self) -> Measure:
        """Return the measure (a number per user) from which a private search finds the limit on distinct values.

        The number is how many distinct values the user has in the group where they have the most.
        """
        return distinct_measure(self.column)

    def with_rows(self, most: int, steps: int) -> Statistic:
        """Return this count with at most `most` distinct values of each user, a limit that a private search found.

        `most` above 2^20 becomes 2^20. `steps` is not used.
        """
        del steps
        return Distinct(column=self.column, per_user=min(most, LARGEST_FOUND))

    def with_declared_rows(self, most: int | None) -> Statistic:
        """Return this count with `most` as its limit on a user's distinct values, unless it states a limit.

        The data holder declared for the dataset that at most `most` rows of a user count. A user has no more distinct
        values than rows, so no private search has to find another limit. If `most` is None, nothing was declared, and
        this count is returned unchanged.
        """
        return self if most is None or self.per_user is not None else Distinct(column=self.column, per_user=most)

    def clip_range(self) -> tuple[float, float] | None:
        """Return the bounds on what one user adds, (0, most distinct values of a user); None until they are known."""
        return None if self.per_user is None else (0.0, float(self.per_user))

    def measures(self) -> tuple[Measure, ...]:
        """Return what the engine computes for a group: the number of distinct values of its users.

        A value that several users have is counted once. A user contributes at most as many distinct values as the limit
        on one user allows. The result is a tuple with one `Measure`.
        """
        return (Measure(column=self.column, distinct=self._known_rows, in_cells=True),)

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return the mechanism that adds noise to the number of distinct values.

        Its sensitivity is the most values of one user that count. It has a placeholder noise scale until the planner
        chooses one. `among`, the statistics of the query, is not used.
        """
        from setwise.mechanisms.statistics import NoisyTotal
        from setwise.mechanisms.two_phase import UNIT_NOISE

        del among
        return NoisyTotal(reach=bounded_reach(self._known_rows), noise=UNIT_NOISE)

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return `estimate`, a noisy number of distinct values, raised to 0 if it is below."""
        return raise_to_zero(estimate)

    @property
    def subject(self) -> str:
        """The text "distinct values of COLUMN"."""
        return f"distinct values of {self.column}"

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return the half-width, in distinct values, of the 95% interval that this count is planned to have.

        `release` is the mechanism with the noise scale that the planner chose; no row is read. The result is None only
        if `release` is not the mechanism of a noisy number.
        """
        return total_radius(release, Fraction(1))

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return a phrase such as "distinct values of page within ±12", which says how close the number will be.

        `radii` has one entry, the half-width of the planned 95% interval, in distinct values.
        """
        return f"{self.subject} within ±{radius_text(radii[0])}"

    def description(self, together: Sequence[Statistic], where: str) -> str:
        """Return a text for headings: which distinct values are counted, and how many of them one user keeps at most.

        For example: "distinct values of page, at most 10 of a user per item". The last words are `where`: " per item"
        if the query has groups, else "". `together` is not used.
        """
        del together
        return f"distinct values of {self.column}, at most {self._known_rows:,} of a user{where}"

    @classmethod
    def asked_in_words(cls, column: str | None, words: Mapping[str, Any], by: str) -> str:
        """Return a phrase that says what a query asks for: "distinct values of page, at most 10 of a user by city".

        - `column` is the column whose values are counted, here "page"; it is never None.
        - `words` are the parameters of the statistic as in JSON. Without "per_user", which a search then finds, the
          part "at most 10 of a user" is left out.
        - `by` is the text that names the groups, here " by city".
        """
        most = words.get("per_user")
        return f"distinct values of {column}{'' if most is None else f', at most {most} of a user'}{by}"

    @property
    def kept_of_user(self) -> str:
        """A phrase such as "10 distinct values of page", with the most distinct values of one user that count."""
        values = "value" if self.per_user == 1 else "values"
        return f"{self._known_rows:,} distinct {values} of {self.column}"

    @property
    def counted_of_user(self) -> str:
        """The text "distinct values of COLUMN", which says what the limit on one user counts."""
        return f"distinct values of {self.column}"

"""The statistic `Count`: the number of users, or of rows with a bound on how many rows of one user count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.statistics.estimates import raise_to_zero
from setwise.analytics.statistics.parameters import check_column, radius_text, value_text
from setwise.analytics.statistics.search_measures import row_measure
from setwise.analytics.statistics.statistic import AUTO, Statistic, bounded_reach
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import positive_integer

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistic_release import StatisticRelease


LEAST_FOUND, LARGEST_FOUND = 2, 2**20
"""The range of the most rows of a user that a search can return. A bound of 1 would count users, which is another
statistic, and a bound beyond a million means that the search found nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Statistic):
    """The number of users in a group, or the number of its rows with at most `most` rows of each user.

    - `most` above 1 counts rows; 1 or None counts users.
    - `column` is a column whose nulls are not counted; None counts all users or rows.
    - `bounds` is "auto" if rows are counted and a private search is to find `most`; otherwise None.
    """

    kind: ClassVar[str] = "count"
    summary: ClassVar[str] = "Count users, or events with a cap on each user."
    only_lowered: ClassVar[bool] = True

    most: int | None = None
    column: str | None = None
    bounds: str | None = None

    def __post_init__(self) -> None:
        if self.bounds is not None and self.bounds != AUTO:
            raise InvalidParameter(f"bounds must be {AUTO!r}, or left out, not {value_text(self.bounds)}")
        if self.bounds is not None and self.most is not None:
            raise InvalidParameter("with auto for bounds, the most rows of a user are found: leave most out")
        if self.most is not None:
            positive_integer("most", self.most)
        if self.column is not None:
            check_column("column", self.column)

    @property
    def name(self) -> str:
        """The name of this count's column in an answer: "count_age" if nulls of the column "age" are not counted.

        Without such a column it is "users" if users are counted, and "rows" if rows are counted.
        """
        if self.column is not None:
            return f"count_{self.column}"
        return "users" if self._counts_users else "rows"

    @property
    def is_plain(self) -> bool:
        """Whether this count can be asked for by the command `count` and the Python method `count`.

        It can if it counts users or rows (not the filled cells of a `column`), and if its limit on a user's rows is not
        left to a private search. Other counts are asked for in a list of statistics or in SQL.
        """
        return self.column is None and not self.is_auto

    @property
    def finds_rows(self) -> bool:
        """Whether a private search is still to find the bound on how many rows of a user are counted."""
        return self.bounds == AUTO

    @property
    def most_rows(self) -> int | None:
        """The most rows of a user that are counted; None if users are counted, or if a search is to find it."""
        return self.most

    def row_measure(self) -> Measure:
        """Return the measure (a number per user) from which a private search finds the limit on a user's rows.

        The number is how many rows the user has in the group where they have the most. Rows in which the counted column
        is null are left out.
        """
        return row_measure(self.column)

    def with_rows(self, most: int, steps: int) -> "Statistic":
        """Return a count of rows with at most `most` rows of each user, where `most` was found by a private search.

        `most` below 2 becomes 2, because a count with at most 1 row would be a count of users, and `most` above 2^20
        becomes 2^20. `steps` is not used.
        """
        del steps
        return Count(most=min(max(LEAST_FOUND, most), LARGEST_FOUND), column=self.column)

    def clip_range(self) -> tuple[float, float] | None:
        """Return the least and the most that one user adds, (0, most rows of a user), to be shown in the answer.

        The result is None if the count states no limit on a user's rows, as a count of users usually does.
        """
        return None if self.most is None else (0.0, float(self.most))

    @property
    def per_item(self) -> int | None:
        """The most that one user adds to a group, for ranking groups by this count in a top k; else None.

        Groups cannot be ranked by a count that leaves out rows with a null in some column. Nor can they be ranked by a
        count of rows if a private search still has to find how many rows of a user count.
        """
        return None if self.column is not None or self.is_auto else self.most or 1

    def ranking_words(self, *, grouped: bool) -> dict[str, object]:
        """Return the count's limit on the rows of one user, as a dict with one key, for the JSON form of a query.

        `Query.to_dict` adds the dict to this form. The key is "per_item" if the query has groups (`grouped`), because
        the limit is then for each group, and otherwise "per_user". The value is None if users are counted instead of
        rows.

        >>> Count(most=5).ranking_words(grouped=True), Count().ranking_words(grouped=False)
        ({'per_item': 5}, {'per_user': None})
        """
        return {"per_item" if grouped else "per_user": self.most}

    def with_dataset_bound(self, per_item: int | None) -> "Statistic":
        """Return this count with the dataset's limit on the rows of one user, if the question states no limit itself.

        `per_item` is the limit that the dataset declares: the most rows of one user that count in a group; None if it
        declares none. A question without a limit counts users, because a count of rows needs a limit. With the limit of
        the dataset it counts rows, or still users if the limit is 1. A question that leaves the limit to a private
        search (`bounds` "auto") takes the dataset's limit, and the search is not needed. Without a limit of the
        dataset, the count is returned unchanged.
        """
        if self.most is not None or (self.is_auto and per_item is None):
            return self
        return Count(most=per_item, column=self.column)

    def measures(self) -> tuple[Measure, ...]:
        """Return a tuple with one measure (what each user adds to a group): how many rows the user has in the group.

        The number is at most `most`. If `most` is None, it is at most 1, so users are counted. If the count has a
        `column`, only rows in which this column is not null are counted.
        """
        return (Measure(column=self.column, counted=self.column is not None, most=self.most or 1),)

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return the mechanism that releases this count, with a placeholder noise scale until the planner chooses one.

        For a count of all users of a group it is `UsersFound()`, which costs nothing: the mechanism that finds private
        groups releases their numbers of users anyway. In a query that finds no groups in this way, the planner replaces
        `UsersFound()` by a noisy sum. `among`, the statistics of the query, is not used.
        """
        from setwise.mechanisms.statistics import UsersFound

        del among
        return UsersFound() if self.column is None and self._counts_users else noisy_total(self.measures()[0])

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return `estimate`, which is already in users or rows, raised to 0 if it is below."""
        return raise_to_zero(estimate)

    @property
    def subject(self) -> str:
        """The text "counts", or "counts of COLUMN" if nulls of a column are not counted."""
        return "counts" if self.column is None else f"counts of {self.column}"

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return the half-width, in users or rows, of the 95% interval that this count is planned to have.

        `release` is the mechanism with its noise scale. The result is None if the mechanism that finds the groups also
        counts their users.
        """
        return total_radius(release, Fraction(1))

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return a phrase such as "counts within ±12", which says how far counts may be from the exact counts.

        `radii` has one entry, the half-width of the planned 95% interval, in users or rows.
        """
        return f"{self.subject} within ±{radius_text(radii[0])}"

    def description(self, together: Sequence[Statistic], where: str) -> str:
        """Return a text for headings: what this count counts, and how many rows of one user count at most.

        For example: "events, at most 3 of a user per item". The last words are `where`: " per item" if the query has
        groups, else "". `together` is not used.
        """
        del together
        if self._counts_users:
            return "users" if self.column is None else f"users who have {self.column}{where}"
        counted = "events" if self.column is None else f"events that have {self.column}"
        return f"{counted}, at most {self.most:,} of a user{where}"

    @classmethod
    def asked_in_words(cls, column: str | None, words: Mapping[str, Any], by: str) -> str:
        """Return a text that says what a count counts: "users" or "events" (rows), and the column whose nulls it skips.

        For example, "users", or "events with price" if `column` is "price". A `column` of None skips no nulls. `words`
        are the parameters of the count as in JSON, which say whether users or rows are counted. `by` would be a text
        that names the groups, such as "by city"; it is not used.
        """
        del by
        counted = "users" if words.get("most", 1) == 1 and words.get("bounds") != AUTO else "events"
        return counted if column is None else f"{counted} with {column}"

    @property
    def _counts_users(self) -> bool:
        return self.most in (None, 1) and not self.is_auto


def noisy_total(measure: Measure) -> "StatisticRelease":
    """Return the mechanism of a noisy sum over users, with a noise scale of 1 until the planner chooses one.

    `measure` is the number that each user adds to the sum. The sensitivity is the largest absolute value that this
    number can have.
    """
    from setwise.mechanisms.statistics import NoisyTotal
    from setwise.mechanisms.two_phase import UNIT_NOISE

    reach = bounded_reach(max(abs(measure.least), abs(measure.most)))
    return NoisyTotal(reach=reach, noise=UNIT_NOISE)


def total_radius(release: "StatisticRelease", step: Fraction) -> Fraction | None:
    """Return the half-width, in units of the column, of the 95% interval that a noisy sum is planned to have.

    `release` is the mechanism, and `step` is the number of units of the column in one rounding step, because the noise
    is in steps. None if `release` is not the mechanism of a noisy sum.
    """
    from setwise.mechanisms.intervals import CONFIDENCE
    from setwise.mechanisms.statistics import NoisyTotal

    if not isinstance(release, NoisyTotal):
        return None
    radius, _ = release.error(None, CONFIDENCE)
    return step * Fraction(radius or 0)

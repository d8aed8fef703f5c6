"""The statistic `Sum`: the sum of a column, where each user's own sum is clipped to bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.statistics.count import noisy_total, total_radius
from setwise.analytics.statistics.estimates import raise_to_zero, scale_estimate
from setwise.analytics.statistics.parameters import (
    Number,
    check_column,
    exact_number,
    number_text,
    radius_text,
    whole_or_float,
)
from setwise.analytics.statistics.search_measures import doubling_measure
from setwise.analytics.statistics.statistic import (
    AUTO,
    GROUP_BOUNDS,
    BoundedStatistic,
    ClipBounds,
    SqlFunction,
    Statistic,
    read_bounds,
)
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import LARGEST_TAU, positive_integer
from setwise.records import set_fields

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistic_release import StatisticRelease


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Sum(BoundedStatistic):
    """The sum of a column, with each user's own sum in a group clipped to an interval.

    The arguments of the constructor are:
    - `low` and `high`: the ends of the interval, both or neither. If they are left out, as in a top k by sums, `low` is
      0, and `high` is the bound that the dataset declares, or else 1.
    - `bounds`: "auto" leaves both ends to a private search.
    - `step`: a user's own sum is rounded to a multiple of it. If it is left out, it is 1 for a column of integers (more
      if a bound is beyond 2^40), and a thousandth of high - low for other columns.

    The constructor stores them in two fields: `clip` has the interval and the step (None until a search has found the
    interval), and `has_high` says whether `high` was given.
    """

    kind: ClassVar[str] = "sum"
    summary: ClassVar[str] = "Add up a column, each user's own sum clipped to 0 .. clip, or to low .. high."
    sql: ClassVar[Mapping[str, SqlFunction]] = {
        "SUM": SqlFunction(bounds=GROUP_BOUNDS, missing="say what one user may add, or AUTO to have it found")
    }

    column: str
    clip: ClipBounds | None
    has_high: bool

    def __init__(
        self,
        *,
        column: str,
        low: Number | None = None,
        high: Number | None = None,
        step: Number | None = None,
        bounds: str | None = None,
    ) -> None:
        check_column("value", column)
        if bounds == AUTO:
            clip = read_bounds(low, high, step, bounds)
        else:
            _check_both_ends(low, high)
            least, most = Fraction(0) if low is None else low, Fraction(1) if high is None else high
            clip = read_bounds(least, most, step, bounds, from_zero=True)
        set_fields(self, column=column, clip=clip, has_high=high is not None)

    def words(self) -> dict[str, object]:
        """Return the sum's parameters that differ from their defaults, as JSON values; `Sum.read` accepts them.

        `low` and `high` are left out if the query left both out.
        """
        return {name: value for name, value in Statistic.words(self).items() if name != "low" or self.has_high}

    @property
    def high(self) -> Fraction | None:
        """The upper clipping bound of a user's own sum, in units of the column.

        None if the query left `high` out, or if a private search is still to find it.
        """
        return None if self.clip is None or not self.has_high else self.clip.high

    @property
    def per_item(self) -> int | None:
        """The most that one user adds to a group, if groups can be ranked by the sum, as in a top k; None otherwise.

        Groups can be ranked if the clipping bounds are 0 and an integer, and the rounding step is 1, so that the sum
        can be treated like a count of rows. An answer with such a sum has the columns of a count (count, lower, upper,
        noisy), and an answer with any other sum has other columns. The result is None also if a private search found
        the bounds: it may find integers or not, and the columns must not depend on that.
        """
        clip = self.clip
        # With bounds that a search found, the columns of the answer must not depend on their values.
        if clip is None or clip.from_search or clip.low != 0 or clip.high.denominator != 1 or clip.known_step != 1:
            return None
        if clip.has_fractions:
            return None
        if clip.step is None and clip.high > LARGEST_TAU:
            return None
        return positive_integer("high", int(clip.high))

    def ranking_words(self, *, grouped: bool) -> dict[str, object]:
        """Return the column and the upper bound on a user's own sum as a dict, for the JSON form of a query.

        `Query.to_dict` adds the dict to this form: {"value": "age", "per_item": 5} if the query has groups (`grouped`),
        because the bound is then for each group, and otherwise {"value": "age", "clip": 5}.
        """
        return {"value": self.column, "per_item" if grouped else "clip": self.high}

    def with_dataset_bound(self, per_item: int | None) -> Statistic:
        """Return the sum with `per_item` as its upper clipping bound, if the query leaves this bound to the dataset.

        `per_item` is the bound on what one user adds that the dataset declares; None if it declares none. The sum is
        returned unchanged if `per_item` is None, or if the query gave it a `high`, a `low` other than 0 or a `step`, or
        leaves its bounds to a private search.
        """
        if self.clip is None or self.has_high or self.clip.low != 0 or self.clip.step is not None:
            return self
        return self if per_item is None else Sum(column=self.column, low=0, high=positive_integer("per_item", per_item))

    def in_steps(self, schema: Schema) -> Statistic:
        """Return the sum with its rounding step: the given one, 1 for integers, or a thousandth of high - low.

        `schema` says whether the column has integers. If a bound of integers is beyond 2^40 (`LARGEST_TAU`), the step
        is 2^-16 of the larger absolute bound, because noise for a sensitivity of so many steps of 1 cannot be sampled.
        """
        clip = self.clip_bounds
        if schema.column(self.column).kind is not Kind.INTEGER:
            step = self.default_step(schema) if clip.step is None else clip.step
            return self.with_clip(replace(clip, step=step, has_fractions=True))
        if clip.step is not None:
            return self
        widest = max(abs(clip.low), abs(clip.high))
        if widest > LARGEST_TAU:
            return self.with_clip(replace(clip, step=widest / 2**16))
        ranks_groups = clip.low == 0 and clip.high.denominator == 1
        return self if ranks_groups else self.with_clip(replace(clip, step=Fraction(1)))

    def measures(self) -> tuple[Measure, ...]:
        """Return a tuple with one measure (what each user adds to a group): the user's own sum, in rounding steps.

        The user's own sum is clipped to the bounds first.
        """
        clip = self.clip_bounds
        least, most = round(clip.low / clip.known_step), round(clip.high / clip.known_step)
        return (Measure(column=self.column, step=clip.known_step, least=least, most=most),)

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return the mechanism that releases the sum, with a placeholder noise scale until the planner chooses one.

        Its sensitivity is the larger absolute value of the two clipping bounds, counted in rounding steps. `among`, the
        statistics of the query, is not used.
        """
        del among
        return noisy_total(self.measures()[0])

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return `estimate` in units of the column, raised to 0 if users' own sums are clipped to positive numbers.

        Mechanisms compute with whole numbers, so a noisy sum is a number of rounding steps; it is multiplied by the
        step here.
        """
        scaled = scale_estimate(estimate, Fraction(0), self.clip_bounds.known_step, Fraction(0))
        return raise_to_zero(scaled) if self.clip_bounds.low >= 0 else scaled

    @property
    def subject(self) -> str:
        """The text "sums of COLUMN"."""
        return f"sums of {self.column}"

    @property
    def error_unit(self) -> Fraction:
        """The rounding step, in units of the column: the noise is added to a whole number of steps."""
        return self.clip_bounds.known_step

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return the half-width, in units of the column, of the 95% interval that this sum is planned to have.

        `release` is the mechanism with the noise scale that the planner chose; no row is read. The result is None only
        if `release` is not the mechanism of a noisy sum.
        """
        return total_radius(release, self.clip_bounds.known_step)

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return a phrase such as "sums of price within ±12", which says how close sums will be to the exact sums.

        `radii` has one entry, the half-width of the planned 95% interval, in units of the column.
        """
        return f"{self.subject} within ±{radius_text(radii[0])}"

    def description(self, together: Sequence[Statistic], where: str) -> str:
        """Return a text for headings: the column that is added up, and the bounds of a user's own sum.

        For example: "sum of price, at most 50 of a user per item". `where` is " per item" if the query has groups, else
        ""; `together` is not used.
        """
        del together
        if self.clip_bounds.low == 0:
            return f"sum of {self.column}, at most {number_text(self.clip_bounds.high)} of a user{where}"
        return f"sum of {self.column}, a user's own{where} {self.between()}"

    @property
    def clipped_values(self) -> str:
        """The text "each user's own sum of COLUMN is clipped to LOW .. HIGH", with the names and numbers filled in."""
        return f"each user's own sum of {self.column} is clipped to {self.clip_text()}"

    @property
    def interval_note(self) -> str:
        """A sentence which says that each user's own sum is rounded to a multiple of the rounding step.

        The text is "" if the step is 1 and the column has integers, because nothing is rounded then.
        """
        step = self.clip_bounds.known_step
        if step == 1 and not self.clip_bounds.has_fractions:
            return ""
        rounded = f"rounded to a multiple of {float(step):g}, so by at most {float(step / 2):g}."
        return f"That of {self.name} is about what users add, each {rounded}"

    def search_measures(self) -> tuple[Measure, ...]:
        """Return a tuple with the measure (a number per user) from which a private search finds the clipping bounds.

        It is the user's own sum. The engine counts how many users' sums lie in each of many ranges (bins), whose ends
        are powers of two. The search adds noise to these counts, and places the bounds at the outermost bins that have
        users.
        """
        return (doubling_measure(self.column, averaged=False),)

    def with_bounds(self, low: Fraction, high: Fraction) -> Statistic:
        """Return the sum with the clipping bounds `low` and `high`, which a private search found.

        They are widened to contain 0, because a user without rows adds 0.
        """
        clip = ClipBounds(low=min(low, Fraction(0)), high=max(high, Fraction(0)), from_search=True)
        return self.with_clip(clip)


def _check_both_ends(low: Number | None, high: Number | None) -> None:
    """Raise `InvalidParameter` if only one of the clipping bounds `low` and `high` of a sum is given.

    A missing `low` is not taken to be 0, because negative sums of users would then count as 0 without the analyst
    knowing.
    """
    if (low is None) == (high is None):
        return
    if high is not None:
        raise InvalidParameter(
            "high is given without low, and what a user adds may be negative: give low and high, as in low=0, "
            f"high={whole_or_float(exact_number('high', high))} if sums below 0 may count as 0, or auto for bounds"
        )
    raise InvalidParameter("low is given without high: give low and high, or auto for bounds")

"""Sums of a column, each user's own sum clipped to bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from setwise.analytics.measure import Measure
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.statistics.count import noisy_total, total_radius
from setwise.analytics.statistics.statistic import (
    AUTO,
    GROUP_BOUNDS,
    BoundedStatistic,
    ClipBounds,
    Number,
    SqlFunction,
    Statistic,
    check_column,
    doubling_measure,
    number_text,
    read_bounds,
    scaled,
    set_fields,
)
from setwise.mechanisms.parameters import positive_integer

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistics import StatisticRelease


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Sum(BoundedStatistic):
    """The sum of a column, each user's own sum in a group clipped to `low` .. `high`.

    `bounds` = "auto" leaves low and high to be found. Values are added up in whole steps: of 1 for a column of
    integers, of a thousandth of high - low for others. `low` left out stands for 0, and `high` for 1 unless the data
    set fills it.
    """

    kind: ClassVar[str] = "sum"
    summary: ClassVar[str] = "Add up a column, each user's own sum clipped to 0 .. --clip, or to --low .. --high."
    sql: ClassVar[Mapping[str, SqlFunction]] = {
        "SUM": SqlFunction(bounds=GROUP_BOUNDS, missing="say what one user may add, or AUTO to have it found")
    }

    column: str
    clip: ClipBounds | None
    has_high: bool
    """Whether the upper bound was given; otherwise it is 1."""

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
            least, most = Fraction(0) if low is None else low, Fraction(1) if high is None else high
            clip = read_bounds(least, most, step, bounds, from_zero=True)
        set_fields(self, column=column, clip=clip, has_high=high is not None)

    def words(self) -> dict[str, object]:
        """Return the words that say more than their defaults; the lower bound is 0 by default."""
        return {name: value for name, value in Statistic.words(self).items() if (name, value) != ("low", 0)}

    @property
    def high(self) -> Fraction | None:
        """The upper bound; None if it was left out."""
        return None if self.clip is None or not self.has_high else self.clip.high

    @property
    def per_item(self) -> int | None:
        """The most that one user adds to a group, if whole numbers of 0 or more are added up; None otherwise.

        It is None as well for bounds that were found, so that an answer looks the same whatever they are.
        """
        clip = self.clip
        if clip is None or clip.found or clip.low != 0 or clip.high.denominator != 1 or clip.known_step != 1:
            return None
        return positive_integer("high", int(clip.high))

    def ranking_words(self, *, grouped: bool) -> dict[str, object]:
        """Return the column, and the bound on a user's sum under the word that the query has for it."""
        return {"value": self.column, "per_item" if grouped else "clip": self.high}

    def filled(self, per_item: int | None) -> Statistic:
        """Return the sum with the data set's upper bound, where it has no bounds of its own."""
        if self.clip is None or self.has_high or self.clip.low != 0 or self.clip.step is not None:
            return self
        return self if per_item is None else Sum(column=self.column, high=positive_integer("per_item", per_item))

    def in_steps(self, schema: Schema) -> Statistic:
        """Return the sum with its step: as given or by default, and none where whole numbers from 0 on are added up."""
        clip = self.clipped
        if clip.step is not None:
            return self
        if schema.column(self.column).kind is Kind.INTEGER:
            whole = clip.low == 0 and clip.high.denominator == 1
            return self if whole else self.with_clip(replace(clip, step=Fraction(1)))
        return self.with_clip(replace(clip, step=self.default_step(schema)))

    def measures(self) -> tuple[Measure, ...]:
        """Return each user's own sum in steps, clipped to the bounds."""
        clip = self.clipped
        least, most = round(clip.low / clip.known_step), round(clip.high / clip.known_step)
        return (Measure(column=self.column, step=clip.known_step, least=least, most=most),)

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return a noisy sum, to which a user adds at most the farther bound."""
        del among
        return noisy_total(self.measures()[0])

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return the estimate in units of the column."""
        return scaled(estimate, Fraction(0), self.clipped.known_step, Fraction(0))

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return half the width of the sum's interval, in units of the column."""
        return total_radius(release, self.clipped.known_step)

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return how close the sums will be."""
        return f"sums of {self.column} within ±{float(radii[0]):,g}"

    def described(self, together: Sequence[Statistic], where: str) -> str:
        """Return which sum it is, and between which values a user's own part lies."""
        del together
        if self.clipped.low == 0:
            return f"sum of {self.column}, at most {number_text(self.clipped.high)} of a user{where}"
        return f"sum of {self.column}, a user's own{where} {self.between()}"

    @property
    def interval_note(self) -> str:
        """A sentence about the rounding of what users add, unless they add whole numbers."""
        step = self.clipped.known_step
        if step == 1:
            return ""
        rounded = f"rounded to a multiple of {float(step):g}, so by at most {float(step / 2):g}."
        return f"That of {self.name} is about what users add, each {rounded}"

    def search_measures(self) -> tuple[Measure, ...]:
        """Return what the engine counts in doubling bins to find the bounds: each user's own sum."""
        return (doubling_measure(self.column, averaged=False),)

    def with_bounds(self, low: Fraction, high: Fraction) -> Statistic:
        """Return the sum with the bounds found, and 0 between them, because a user without rows adds 0."""
        clip = ClipBounds(low=min(low, Fraction(0)), high=max(high, Fraction(0)), found=True)
        return self.with_clip(clip)

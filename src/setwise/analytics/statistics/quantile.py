"""Quantiles of a column, which the exponential mechanism selects from a grid of values, and when one is unreliable."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from setwise.analytics.measure import Measure
from setwise.analytics.schema import Column, Kind, Schema
from setwise.analytics.statistics.parameters import (
    Number,
    check_column,
    exact_number,
    whole_or_float,
)
from setwise.analytics.statistics.search_measures import extreme_measures
from setwise.analytics.statistics.statistic import (
    ROW_BOUNDS,
    ROWS_BETWEEN,
    STEPS,
    BoundedStatistic,
    ClipBounds,
    SqlFunction,
    Statistic,
    read_bounds,
)
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import FINEST_RANK, probability
from setwise.records import copy_with, set_fields

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistic_release import StatisticRelease

Shares: TypeAlias = Number | Sequence[Number]
"""One share of users between 0 and 1, or several shares."""


def shares_of(at: object) -> Sequence[Any]:
    """Return the quantile levels in `at`, which is a list, a NumPy array or a single level, as a sequence.

    A quantile level is a number between 0 and 1, such as 0.5 for the median.
    Raises: `InvalidParameter` if the list is empty.
    """
    listed = at.tolist() if hasattr(at, "tolist") else at
    if isinstance(listed, list | tuple) and not listed:
        raise InvalidParameter("at needs at least one share")
    return listed if isinstance(listed, list | tuple) else (listed,)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Quantile(BoundedStatistic):
    """The quantile of `column` at the level `at`, such as 1/2 for the median, of a group's rows.

    All users have equal weight: a user's weight is divided evenly among their rows in the group. The released value is
    one of the numbers low, low + step, .., high. The field `clip` has low, high and step; it is None until a private
    search has found low and high.
    """

    kind: ClassVar[str] = "quantile"
    summary: ClassVar[str] = (
        "Find the value that a share of rows are below, one vote of a user: the median, unless at says otherwise."
    )
    sql: ClassVar[Mapping[str, SqlFunction]] = {
        "MEDIAN": SqlFunction(bounds=ROW_BOUNDS, missing=ROWS_BETWEEN),
        "PERCENTILE_CONT": SqlFunction(bounds=ROW_BOUNDS, missing=ROWS_BETWEEN, takes_share=True),
        "PRIVATE_MIN": SqlFunction(bounds=ROW_BOUNDS, missing=ROWS_BETWEEN, share=Fraction(1, 100)),
        "PRIVATE_MAX": SqlFunction(bounds=ROW_BOUNDS, missing=ROWS_BETWEEN, share=Fraction(99, 100)),
    }
    by_picks: ClassVar[bool] = True
    has_interval: ClassVar[bool] = False
    radius_unit: ClassVar[str] = " of quantiles in users of rank"

    column: str
    clip: ClipBounds | None
    at: Fraction

    def __init__(
        self,
        *,
        column: str,
        low: Number | None = None,
        high: Number | None = None,
        at: Number = Fraction(1, 2),
        step: Number | None = None,
        bounds: str | None = None,
    ) -> None:
        share = probability("at", exact_number("at", at))
        near = share.limit_denominator(FINEST_RANK)  # the float nearest to 1/3 stands for 1/3
        if abs(share - near) > 1e-12:
            raise InvalidParameter(f"at must be a share of at most six decimals, not {float(share)!r}")
        check_column("value", column)
        set_fields(self, column=column, clip=read_bounds(low, high, step, bounds), at=near)

    @classmethod
    def read(cls, words: Mapping[str, object]) -> list[Statistic]:
        """Return one `Quantile` for each quantile level that the JSON parameters `words` list under "at".

        The level is 0.5 (the median) if there is no "at".
        """
        shares = [dict(words) | {"at": share} for share in shares_of(words["at"])] if "at" in words else [dict(words)]
        return [one for share in shares for one in super(Quantile, cls).read(share)]

    @property
    def name(self) -> str:
        """The name of the quantile's column in an answer: median_COLUMN for the median, else quantile_LEVEL_COLUMN."""
        return f"median_{self.column}" if self.at == Fraction(1, 2) else f"quantile_{float(self.at):g}_{self.column}"

    def in_steps(self, schema: Schema) -> Statistic:
        """Return the quantile with the step of its grid of possible results filled in: the given step, or a default.

        The default is a thousandth of high - low. If no step is given and `schema` says that the column holds integers,
        the grid has only integers.
        """
        clip = self.clip_bounds
        if clip.step is not None or not _holds_integers(schema.column(self.column)):
            return BoundedStatistic.in_steps(self, schema)
        return self.with_clip(_integer_grid(clip))

    @property
    def _cells(self) -> int:
        """The number of values on the grid from the lower to the upper bound, which are the possible results.

        Raises: `InvalidParameter` if the number is above 100,000 (`LARGEST_GRID`).
        """
        from setwise.mechanisms.quantile import LARGEST_GRID

        cells = math.ceil(self.clip_bounds.width / self.clip_bounds.known_step) + 1
        if cells > LARGEST_GRID:
            raise InvalidParameter(
                f"a quantile has at most {LARGEST_GRID:,} steps between low and high, not {cells - 1:,}"
            )
        return cells

    def measures(self) -> tuple[Measure, ...]:
        """Return a tuple with one measure (what each user adds to a group): weight on the grid of possible results.

        Each user has a weight of 1,000 (`WEIGHT`), divided evenly among the user's rows in the group. The weight of a
        row is put on the grid point nearest to its value. The engine adds up the weights of all users at each grid
        point.
        """
        from setwise.mechanisms.quantile import WEIGHT

        return (
            Measure(
                column=self.column,
                weight=WEIGHT,
                origin=self.clip_bounds.low,
                step=self.clip_bounds.known_step,
                most=self._cells - 1,
                in_cells=True,
            ),
        )

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return the mechanism that releases the quantile: the exponential mechanism, which selects a value of a grid.

        The grid has the possible results, from the lower to the upper clipping bound in equal steps. The mechanism has
        a placeholder epsilon until the planner chooses one. `among` are all statistics of the query: quantiles of the
        same column and grid, at several levels, are selected together.
        """
        from setwise.mechanisms.quantile import WEIGHT, GridQuantiles
        from setwise.mechanisms.statistics import OneQuantile

        measures = self.measures()
        same = {
            other.at: place
            for place, other in enumerate(among)
            if isinstance(other, Quantile) and other.measures() == measures
        }
        shares = tuple(sorted(same))
        return OneQuantile(
            quantiles=GridQuantiles(shares=shares, cells=self._cells, epsilon=Fraction(1), weight=WEIGHT),
            number=shares.index(self.at),
            leader=min(same.values()),
        )

    def in_units(self, estimate: "Estimate") -> "Estimate":
        """Return the quantile as a value of the column, without an interval.

        The value of `estimate` is a whole number n, which the exponential mechanism selected: it stands for the number
        low + n * step between the clipping bounds low and high.
        """
        from setwise.mechanisms.release import Estimate

        value = min(
            self.clip_bounds.low + Fraction(estimate.value) * self.clip_bounds.known_step, self.clip_bounds.high
        )
        return Estimate(value=whole_or_float(value))

    @property
    def subject(self) -> str:
        """The text "quantiles of COLUMN, in users of rank", because noise moves the rank of a quantile."""
        return f"quantiles of {self.column}, in users of rank"

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return by how many users the rank of the released value is off at most, with probability 95%; never None.

        `release` is the exponential mechanism that picks the value, with the epsilon that the planner chose. No row is
        read.
        """
        from setwise.mechanisms.intervals import CONFIDENCE

        return Fraction(release.error(None, CONFIDENCE)[0] or 0)

    def planned_together(self) -> object:
        """Return a key that is equal for quantiles of the same column and grid; a plan describes them in one phrase."""
        return self.measures()

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return a phrase that says by how many users the ranks of the released quantiles of one column may be off.

        `radii` has, for each quantile of the column that the query asks for, the number of users by which its rank may
        be off.
        """
        *first, last = (f"{int(radius):,}" for radius in radii)
        name = "quantiles" if first else "a quantile"
        both = " and " if first else ""
        return f"{name} of {self.column} within {', '.join(first)}{both}{last} users in rank"

    def alike(self) -> Statistic:
        """Return a key that is equal for all quantiles of the same column and the same grid of possible values.

        An answer describes all quantiles with equal keys in one text (`description`). The key is the median (`Quantile`
        with level 1/2) of the same column and grid.
        """
        return copy_with(self, at=Fraction(1, 2))

    def description(self, together: Sequence[Statistic], where: str) -> str:
        """Return a heading for answers, such as "median of age over events, each between 0 and 99, one vote of a user".

        It names the quantiles and the clipping bounds, and says that all users have equal weights. `together` are the
        quantiles that the heading describes; `where` is " per item" if the query has groups, else "".
        """
        title = quantiles_in_words([float(other.at) for other in together if isinstance(other, Quantile)])
        return f"{title} of {self.column} over events, each {self.between()}, one vote of a user{where}"

    def is_unreliable(self, estimate: "Estimate", release: "StatisticRelease", users: float | None) -> bool:
        """Return whether the answer should mark a quantile as unreliable, because noise may move it too far.

        The result is True if noise may move the released value as far as the least or the greatest value of the group.

        - `release` is the mechanism with its epsilon, from which the possible error in rank follows.
        - `users` is the released number of the group's users. The result is False if it is None, because nothing is
          then known about the group's size.
        - `estimate` is not used.
        """
        from setwise.mechanisms.intervals import CONFIDENCE

        del estimate
        off = release.error(None, CONFIDENCE)[0]
        return users is not None and off is not None and off >= min(self.at, 1 - self.at) * max(0, users)

    @property
    def user_weight_note(self) -> str:
        """A sentence, without its full stop, which says that all rows of a user together have one vote in a quantile.

        It also names a SQL query that gives every row the same weight instead.
        """
        return (
            f"In quantiles of {self.column} all rows of a user together have one vote; to count rows alike, ask "
            f"COUNT(*) by bins, GROUP BY FLOOR({self.column} / 10)"
        )

    def search_measures(self) -> tuple[Measure, ...]:
        """Return the two measures (numbers per user) from which a private search finds the clipping bounds.

        They are the user's least and greatest value. For each of the two, the engine counts how many users lie in each
        of many value ranges (bins), whose ends are powers of two. The search adds noise to these counts, and places the
        bounds at the outermost bins that have users.
        """
        return extreme_measures(self.column)

    @classmethod
    def title(cls, words: Mapping[str, Any]) -> str:
        """Return the name of quantiles for people: {"at": [0.25, 0.75]} gives "0.25 and 0.75 quantiles".

        `words` are the JSON parameters of the quantiles. "at" has one level or a list of levels; if it is missing, the
        result is "median".
        """
        return quantiles_in_words(shares_of(words.get("at", 0.5)))


def _holds_integers(column: Column) -> bool:
    """Return whether all values of `column` are integers: its kind is integer, or decimal without decimal places."""
    return column.kind is Kind.INTEGER or (column.kind is Kind.DECIMAL and column.scale == 0)


def _integer_grid(clip: ClipBounds) -> ClipBounds:
    """Return `clip` with an integer step, and with its bounds rounded outwards to integers.

    Without the rounding, bounds such as 0.5 and 16 would give the grid 0.5, 1.5, 2.5, .., and every quantile of a
    column of integers would be off by 0.5. The step is 1 if the bounds are at most 10,000 apart, and otherwise about a
    thousandth of their distance. Bounds that a private search found become multiples of the step.
    """
    low, high = Fraction(math.floor(clip.low)), Fraction(math.ceil(clip.high))
    step = Fraction(1 if high - low <= 10 * STEPS else math.ceil((high - low) / STEPS))
    if clip.from_search:
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return replace(clip, low=low, high=high, step=step)


def quantiles_in_words(shares: Sequence[float]) -> str:
    """Return the name, as text, of the quantiles at the levels `shares`.

    >>> quantiles_in_words([0.5]), quantiles_in_words([0.25, 0.5, 0.75])
    ('median', '0.25, 0.5 and 0.75 quantiles')
    """
    if len(shares) == 1:
        return "median" if shares[0] == 0.5 else f"{shares[0]:g} quantile"
    *first, last = (f"{share:g}" for share in shares)
    return f"{', '.join(first)} and {last} quantiles"

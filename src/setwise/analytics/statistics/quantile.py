"""Quantiles of a column on a grid."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from setwise.analytics.measure import Measure
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.statistics.statistic import (
    ROW_BOUNDS,
    ROWS_BETWEEN,
    STEPS,
    BoundedStatistic,
    ClipBounds,
    Number,
    SqlFunction,
    Statistic,
    changed,
    check_column,
    exact_number,
    extreme_measures,
    read_bounds,
    set_fields,
    whole_or_float,
)
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import FINEST_RANK, probability

if TYPE_CHECKING:
    from setwise.mechanisms.release import Estimate
    from setwise.mechanisms.statistics import StatisticRelease

Shares: TypeAlias = Number | Sequence[Number]
"""One share of users, or several."""


def shares_of(at: object) -> Sequence[Any]:
    """Return the shares that `at` lists, or the one that it is; NumPy arrays are lists too."""
    listed = at.tolist() if hasattr(at, "tolist") else at
    if isinstance(listed, list | tuple) and not listed:
        raise InvalidParameter("at needs at least one share")
    return listed if isinstance(listed, list | tuple) else (listed,)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Quantile(BoundedStatistic):
    """The value below which the share `at` of the rows of a group have the column, every user with one vote.

    A user's vote is divided evenly among their rows in the group. The value is picked from the grid low, low + step,
    .., high, to which rows are clipped.
    """

    kind: ClassVar[str] = "quantile"
    summary: ClassVar[str] = (
        "Find the value that a share of rows are below, one vote of a user: the median, unless --at says otherwise."
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
        near = share.limit_denominator(FINEST_RANK)  # a third as a float is meant as a third
        if abs(share - near) > 1e-12:
            raise InvalidParameter(f"at must be a share of at most six decimals, not {float(share)!r}")
        check_column("value", column)
        set_fields(self, column=column, clip=read_bounds(low, high, step, bounds), at=near)

    @classmethod
    def read(cls, words: Mapping[str, object]) -> list[Statistic]:
        """Return a quantile for each of the shares that the words list."""
        shares = [dict(words) | {"at": share} for share in shares_of(words["at"])] if "at" in words else [dict(words)]
        return [one for share in shares for one in super(Quantile, cls).read(share)]

    @property
    def name(self) -> str:
        """The name of the quantile's column in an answer: median_COLUMN, or quantile_SHARE_COLUMN."""
        return f"median_{self.column}" if self.at == Fraction(1, 2) else f"quantile_{float(self.at):g}_{self.column}"

    def default_step(self, schema: Schema) -> Fraction:
        """Return 1 for short grids of integers, and a thousandth of the distance between the bounds for others."""
        width = self.clipped.width
        whole = schema.column(self.column).kind is Kind.INTEGER and 1 <= width <= 10 * STEPS
        return Fraction(1) if whole else width / STEPS

    @property
    def _cells(self) -> int:
        """The number of cells of the grid."""
        from setwise.mechanisms.quantile import LARGEST_GRID

        cells = math.ceil(self.clipped.width / self.clipped.known_step) + 1
        if cells > LARGEST_GRID:
            raise InvalidParameter(
                f"a quantile has at most {LARGEST_GRID:,} steps between low and high, not {cells - 1:,}"
            )
        return cells

    def measures(self) -> tuple[Measure, ...]:
        """Return the units of weight that users divide among the cells of their rows."""
        from setwise.mechanisms.quantile import WEIGHT

        return (
            Measure(
                column=self.column,
                weight=WEIGHT,
                origin=self.clipped.low,
                step=self.clipped.known_step,
                most=self._cells - 1,
                in_cells=True,
            ),
        )

    def release(self, among: Sequence[Statistic]) -> "StatisticRelease":
        """Return a pick of the grid, together with those of all quantiles of the same values (one column, one grid)."""
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
        """Return the value of the cell that was picked; it has no interval."""
        from setwise.mechanisms.release import Estimate

        value = min(self.clipped.low + Fraction(estimate.value) * self.clipped.known_step, self.clipped.high)
        return Estimate(value=whole_or_float(value))

    def planned_radius(self, release: "StatisticRelease") -> Fraction | None:
        """Return by how many users the rank of the quantile is off at most."""
        from setwise.mechanisms.release import CONFIDENCE

        return Fraction(release.error(None, CONFIDENCE)[0] or 0)

    def planned_together(self) -> object:
        """Return the measure: quantiles of the same values are told in one phrase."""
        return self.measures()

    def planned_words(self, radii: Sequence[Fraction]) -> str:
        """Return how close the quantiles will be in rank."""
        *first, last = (f"{int(radius):,}" for radius in radii)
        name = "quantiles" if first else "a quantile"
        both = " and " if first else ""
        return f"{name} of {self.column} within {', '.join(first)}{both}{last} users in rank"

    def alike(self) -> Statistic:
        """Return the median: quantiles of the same values are described in one phrase."""
        return changed(self, at=Fraction(1, 2))

    def described(self, together: Sequence[Statistic], where: str) -> str:
        """Return which quantiles they are, between which values rows count, and that a user has one vote."""
        title = quantiles_in_words([float(other.at) for other in together if isinstance(other, Quantile)])
        return f"{title} of {self.column} over events, each {self.between()}, one vote of a user{where}"

    def is_unreliable(self, estimate: "Estimate", release: "StatisticRelease", users: float | None) -> bool:
        """Whether noise may move the quantile past the least or the greatest value of its group.

        That is so when its rank is off by as many users as there are on the shorter side of it.
        """
        from setwise.mechanisms.release import CONFIDENCE

        del estimate
        off = release.error(None, CONFIDENCE)[0]
        return users is not None and off is not None and off >= min(self.at, 1 - self.at) * max(0, users)

    def search_measures(self) -> tuple[Measure, ...]:
        """Return what the engine counts to find the bounds: the bins of each user's least and greatest row."""
        return extreme_measures(self.column)

    @classmethod
    def title(cls, words: Mapping[str, Any]) -> str:
        """Return the name of the quantiles at the shares of the words."""
        return quantiles_in_words(shares_of(words.get("at", 0.5)))


def quantiles_in_words(shares: Sequence[float]) -> str:
    """Return the name of the quantiles at these shares.

    >>> quantiles_in_words([0.5]), quantiles_in_words([0.25, 0.5, 0.75])
    ('median', '0.25, 0.5 and 0.75 quantiles')
    """
    if len(shares) == 1:
        return "median" if shares[0] == 0.5 else f"{shares[0]:g} quantile"
    *first, last = (f"{share:g}" for share in shares)
    return f"{', '.join(first)} and {last} quantiles"

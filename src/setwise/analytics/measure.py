"""A measure: the whole number that one user adds to a group, which an engine computes and sums over users."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The whole number that one user adds to a group: (x - origin) / step, rounded and clipped to `least` .. `most`.

    What x is depends on the other fields. It is computed from the user's rows in the group:

    - the number of rows, if `column` is None; the number of rows where the column is not null, with `counted`;
    - otherwise the sum of the column, or its mean with `averaged`, or its least (-1) or greatest (1) value with
      `extreme`;
    - the number of groups that the user has, with `groups`.

    With `peak`, the user adds the greatest of these numbers over all their groups to each of the groups.

    A user adds nothing if all their values of the column are null or not numbers. The engine returns the sum of these
    numbers over users, or, with `in_cells`, how many users add each whole number. `doubling` replaces the number by the
    index of x among bins whose ends double (`DoublingBounds`).

    With `rows`, every value is clipped by itself, and a user adds the mean of their values times the number of their
    values, of which at most `rows` count; the engine then also returns that number of values instead of the number of
    users. `squared` replaces a value by most * (2 y^2 - 1) with y = (value - origin) / (most * step) between -1 and 1,
    so that the second moment has the same range as the first.

    With `weight`, every row is put into a cell by itself, and the user divides `weight` units among the cells in
    proportion to their rows, by largest remainders; the engine sums the units of each cell. With `distinct`, every user
    keeps at most that many distinct values of the column in a group, chosen at random, and the engine counts the
    distinct values that at least one user keeps.
    """

    column: str | None = None
    counted: bool = False
    averaged: bool = False
    rows: int | None = None
    squared: bool = False
    extreme: int = 0
    doubling: bool = False
    groups: bool = False
    peak: bool = False
    origin: Fraction = Fraction(0)
    step: Fraction = Fraction(1)
    least: int = 0
    most: int = 1
    in_cells: bool = False
    weight: int | None = None
    distinct: int | None = None

    @property
    def spans_groups(self) -> bool:
        """Whether the number depends on all groups of the user together (with `groups` or `peak`)."""
        return self.groups or self.peak

    @property
    def is_spread(self) -> bool:
        """Whether one user may add to several cells of a group by this measure (with `weight` or `distinct`)."""
        return self.weight is not None or self.distinct is not None

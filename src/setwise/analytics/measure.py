"""A measure: the whole number that one user adds to a group, which an engine computes and sums over users."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The whole number that one user adds to a group: (x - origin) / step, rounded and clipped to `least` .. `most`.

    For example, a sum of amounts clipped to 0 .. 100 in steps of 0.5 has the `step` 1/2 and the `most` 200: a user who
    spent 7.5 in the group adds 15.

    The number x is computed from the user's rows in the group. The number x is one of these:

    - the number of rows, if `column` is None;
    - the number of rows where the column is not null, if `counted`; with `unique`, the number of their distinct values;
    - the mean of the column, if `averaged`;
    - the least value of the column if `extreme` is -1, or the greatest if `extreme` is 1;
    - the number of groups that the user has, if `groups`;
    - otherwise the sum of the column.

    The engine returns for each group the sum over users. A user whose values are all null or not numbers adds nothing.
    The other fields change this:

    - `rows`, for means and variances over rows: every value is clipped by itself, and a user counts with at most `rows`
      rows. A user with n values adds (mean - origin) / step times min(n, `rows`), where mean is that of the clipped
      values. In place of the number of users, the engine returns the sum of min(n, `rows`) over users.
    - `squared`, for variances: a value is replaced by most * (2 y^2 - 1), where y = (value - origin) / (most * step) is
      between -1 and 1. So the squares have the same range as the values themselves, -most .. most, and need no more
      noise.
    - `doubling`, for a private search for clipping bounds: the user adds the number of the bin in which x lies. The
      ends of the bins are powers of two (see `DoublingBounds`).
    - `peak`: the user adds to each group the greatest of the numbers x that they have in any of their groups.
    - `in_cells`: the engine returns for each whole number (a cell) how many users add it, instead of the sum.
    - `weight`, for quantiles: a user has a weight of `weight` (a whole number), divided evenly among their rows. The
      weight of a row goes to the cell (the whole number) of the row's value, and the engine returns the sum of the
      weights in each cell.
    - `distinct`, for numbers of distinct values: every user keeps at most `distinct` distinct values of the column in a
      group, chosen at random. The engine returns the number of distinct values that at least one user keeps.
    - `by_rank`, with `distinct`: the values of each user are numbered (ranked) in the random order in which they are
      kept. The engine returns, for each bin of ranks (a cell), how many values have their smallest rank, among all
      users who have the value, in this bin. Bin 0 is rank 1, and bin i > 0 the ranks above 2^(i-1) and up to 2^i. So
      the bins 0 to i together have the values that are kept if every user keeps 2^i.
    """

    column: str | None = None
    counted: bool = False
    unique: bool = False
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
    by_rank: bool = False

    @property
    def spans_groups(self) -> bool:
        """Whether the number that a user adds to one group depends on the user's rows in other groups too.

        True in two cases: the number is how many groups the user has (field `groups`), or the greatest number that the
        user has in any of their groups (field `peak`).
        """
        return self.groups or self.peak

    @property
    def is_spread(self) -> bool:
        """Whether one user may add something for several values of a column in a group, and not just one number.

        True for quantiles (the user's weight, field `weight`, is divided among the values in the user's rows) and for
        numbers of distinct values (a user may have several of them, field `distinct`). In all other cases a user adds
        one number to a group.
        """
        return self.weight is not None or self.distinct is not None

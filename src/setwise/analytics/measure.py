"""A measure: the whole number that one user adds to a group, which an engine computes and adds up."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The whole number that one user adds to a group: (x - origin) / step, rounded and clipped to least .. most.

    x is the number of the user's rows in the group (`column` None), or the number of those where the column is not null
    (`counted`), or the sum of the column in them, or with `averaged` its mean. A user adds nothing when all values of
    the column there are missing or not numbers. `in_cells` asks how many users add each whole number, instead of the
    sum of what they add.

    With `rows` every value is clipped by itself, and a user adds their mean as many times as they have values, at most
    `rows` times; the engine then adds up that number of values beside the sum, instead of the number of users who add
    something. `squared` then takes most * (2 y^2 - 1) in place of a value, with y = (value - origin) / (most * step)
    between -1 and 1, so that the second moment reaches as far as the first.

    `doubling` asks for the place of x among bins whose ends double (`DoublingBounds`), and `groups` for the
    number of groups that a user has. `extreme` takes the least (-1) or the greatest (1) of a user's values as x.

    With `weight` every row of a user is put into a cell by itself, and the user divides that many units among the cells
    in proportion to their rows there, by largest remainders, so that the units of a user in a group add up to `weight`;
    the engine adds up the units of each cell. With `distinct` every user keeps at most so many distinct values of the
    column in a group, chosen at random, and the engine counts the distinct values that are kept by anybody.
    """

    column: str | None = None
    counted: bool = False
    averaged: bool = False
    rows: int | None = None
    squared: bool = False
    extreme: int = 0
    doubling: bool = False
    groups: bool = False
    origin: Fraction = Fraction(0)
    step: Fraction = Fraction(1)
    least: int = 0
    most: int = 1
    in_cells: bool = False
    weight: int | None = None
    distinct: int | None = None

    @property
    def is_spread(self) -> bool:
        """Whether one user may add to several cells of a group, so that it is not one number of a user."""
        return self.weight is not None or self.distinct is not None

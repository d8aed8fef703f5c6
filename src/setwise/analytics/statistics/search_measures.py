"""Measures from which private searches choose bounds: clipping bounds, and limits on a user's rows.

A measure is a number that the engine computes for each user, such as the user's greatest value of a column. A search
adds noise to the numbers of users in ranges of the measure.
"""

from dataclasses import replace
from fractions import Fraction

from setwise.analytics.measure import Measure

_DOUBLING_STEP = Fraction(1, 4)
"""The step of values that are assigned to doubling bins, in units of the first bin's end 2^-20: users' values are added
up in units of 2^-22."""


def extreme_measures(column: str) -> tuple[Measure, Measure]:
    """Return the two measures (numbers per user) from which a private search finds clipping bounds for `column`.

    They are the user's least and greatest value of the column. For each of the two, the engine assigns every user to a
    bin (a range of numbers) and counts the users in each bin. The ends of the bins are powers of two.
    """
    measure = doubling_measure(column, averaged=False)
    return replace(measure, extreme=-1), replace(measure, extreme=1)


def doubling_measure(column: str, *, averaged: bool) -> Measure:
    """Return the measure (a number per user) from which a private search finds clipping bounds for `column`.

    The number is the user's mean of `column` if `averaged`, otherwise their sum. The engine assigns every user to a bin
    (a range of numbers) and counts the users in each bin; the ends of the bins are powers of two. The search finds the
    clipping bounds from these counts, after adding noise.
    """
    from setwise.mechanisms.doubling_bounds import DOUBLINGS

    return Measure(
        column=column,
        averaged=averaged,
        doubling=True,
        step=_DOUBLING_STEP,
        least=-DOUBLINGS,
        most=DOUBLINGS,
        in_cells=True,
    )


def row_measure(column: str | None) -> Measure:
    """Return the measure (a number per user) from which a private search finds the limit on a user's rows.

    The number is how many rows the user has in the group where they have the most. Rows in which `column` is null are
    left out; if `column` is None, all rows count.
    """
    from setwise.mechanisms.contribution_bound import MOST_ROWS

    return Measure(column=column, counted=column is not None, peak=True, most=MOST_ROWS, in_cells=True)


def distinct_measure(column: str) -> Measure:
    """Return the measure from which a private search finds the limit on one user's distinct values in a group.

    A measure is a number per user, computed from the user's rows. Here it is how many distinct values of `column`
    the user has in the group where they have the most.
    """
    return replace(row_measure(column), unique=True)


def overlap_measure(column: str) -> Measure:
    """Return the measure from which a private search learns how many distinct values of `column` users have in common.

    The engine puts the values of each user into a random order, and counts the values by the smallest rank that they
    have at any user, in the bins of `OverlapMeasurement`.
    """
    from setwise.mechanisms.value_overlap import KEPT, RANK_BINS

    return Measure(column=column, distinct=KEPT[-1], by_rank=True, most=RANK_BINS - 1, in_cells=True)

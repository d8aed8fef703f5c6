"""`--within`, a budget stated as an accuracy: find the least epsilon whose planned intervals are narrow enough."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from setwise.analytics.budget import Within
from setwise.analytics.planning.bounds_search import open_bounds
from setwise.analytics.planning.missed_accuracy import AccuracyTarget, planned_radii
from setwise.analytics.planning.plan import ExecutablePlan
from setwise.analytics.statistics import STATISTICS
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.planning.request import LARGEST_TOTAL, Total
from setwise.mechanisms.statistics import GroupStatistics

_RATIO = 1.02
"""The ratio of neighbouring epsilons on the search grid. The epsilon that the search returns is at most 2% above the
least one that would do."""

_LEAST = Fraction(1, 1000)
"""The least epsilon that the search tries."""

_SURE = f"{float(CONFIDENCE):.0%}"


DEFAULT_CEILING = Fraction(1)
"""The largest epsilon that an accuracy may spend when the request names no epsilon, so that an interval that was made
too narrow by mistake does not spend the budget of a year."""


def plan_within(accuracy: Within, plan: Callable[[Total], ExecutablePlan]) -> ExecutablePlan:
    """Return the plan for nearly the least epsilon with which all intervals are within ±`accuracy.within`.

    The epsilon is at most 2% above the least one, and `accuracy.within` is the largest allowed half-width. `plan` plans
    the query for one budget. `accuracy.epsilon` is the largest epsilon that may be spent; None means 1
    (`DEFAULT_CEILING`).
    Raises: `Unattainable` if the accuracy needs a larger epsilon; the message names the epsilon that it needs.
    """
    cheapest = _with_target(_least(accuracy, plan), accuracy)
    assert cheapest.total is not None
    ceiling = DEFAULT_CEILING if accuracy.epsilon is None else accuracy.epsilon
    price = cheapest.total.epsilon
    if price <= ceiling:
        return cheapest
    at_ceiling = plan(accuracy.total(ceiling))
    radius = widest_radius(at_ceiling)
    # The ceiling lies between two epsilons of the search grid, so it may do although the next one on the grid is above.
    if radius <= accuracy.within:
        return _with_target(at_ceiling, accuracy)
    attainable = _describe_radius(radius, at_ceiling)
    limit = f"epsilon {float(ceiling):g} is the most that this question may spend"
    default = " unless it names an epsilon" if accuracy.epsilon is None else ""
    raise Unattainable(
        f"{_SURE} intervals within ±{float(accuracy.within):g} take epsilon {float(price):g}, and {limit}{default}; "
        f"give epsilon {float(price):g} as well, or an accuracy of {attainable}, "
        f"which epsilon {float(ceiling):g} pays for"
    ).proposing({"within": _radius_text(radius)})


def _with_target(executable: ExecutablePlan, accuracy: Within) -> ExecutablePlan:
    """Return the plan `executable` with the accuracy that it was planned for, with which its answer is compared."""
    mechanism = executable.mechanism
    radii = planned_radii(executable.query, mechanism) if isinstance(mechanism, GroupStatistics) else ()
    target = AccuracyTarget(
        within=accuracy.within,
        query=replace(executable.query, where=None),  # on which no half-width depends
        total=executable.total,
        radii=radii,
        weighable=executable.rounds is not None,
    )
    return replace(executable, target=target)


def widest_radius(executable: ExecutablePlan) -> Fraction:
    """Return the half-width of the widest 95% interval that the plan `executable` promises; no row is read.

    - The half-width is in the unit of the statistic: users or rows for counts, the column's unit for sums and means.
      For a mean it is the half-width in a group of 1,000 users (`SOME_USERS`), because it depends on the group's size.
    - A quantile has no interval of values. The number of users by which its rank may be off takes its place.
    Raises: `InvalidParameter` if the plan searches for bounds first, or if it releases labels without numbers.
    """
    mechanism = executable.mechanism
    if executable.search is not None:
        missing = open_bounds(executable.search.search.query)
        refusal = InvalidParameter(
            f"how close an answer is depends on the bounds found: give {' and '.join(missing)}, or leave within out"
        )
        refusal.needs_bounds = True
        raise refusal
    if not isinstance(mechanism, GroupStatistics):
        radius = executable.plan.error.radius
        if radius is None:
            raise InvalidParameter("an accuracy is about numbers, and only labels are asked for: leave within out")
        return Fraction(radius)
    radii = planned_radii(executable.query, mechanism)
    return max(_discovery_radius(mechanism) if radius is None else radius for radius in radii)


def _discovery_radius(mechanism: GroupStatistics) -> Fraction:
    """Return the half-width, in users, of the confidence interval of a noisy user count in the search for groups.

    `mechanism` finds private groups by noisy counts of their users, and then releases statistics of these groups. The
    result is 0 if no half-width is known.
    """
    assert mechanism.discovery is not None
    return Fraction(mechanism.discovery.preview().radius or 0)


def _describe_radius(radius: Fraction, executable: ExecutablePlan) -> str:
    """Return the half-width `radius` of the intervals of the plan `executable` as text, such as "±12", rounded up.

    If the half-width depends on the group or is a rank, a note in parentheses says what it refers to, such as "(that of
    means over 1,000 users)".
    """
    radius_units = {statistic.radius_unit for statistic in executable.query.statistics if statistic.radius_unit}
    units = dict.fromkeys(kind.radius_unit for kind in STATISTICS.values())  # in the order of the table
    about = " and".join(unit for unit in units if unit in radius_units)
    return f"±{_radius_text(radius)}{f' (that{about})' if about else ''}"


def _radius_text(radius: Fraction) -> str:
    """Return the half-width `radius` as text: whole numbers in full, others rounded up to four significant digits.

    A question can state this text as its accuracy, and then gets intervals of this half-width. The text has no
    separators of thousands, because the command line and JSON take none.

    >>> _radius_text(Fraction(12345)), _radius_text(Fraction(70601, 10000)), _radius_text(Fraction(1, 2))
    ('12345', '7.061', '0.5')
    """
    if radius.denominator == 1:
        return str(radius)
    unit = Fraction(10) ** (math.floor(math.log10(radius)) - 3)
    return f"{float(math.ceil(radius / unit) * unit):g}"


def _least(accuracy: Within, plan: Callable[[Total], ExecutablePlan]) -> ExecutablePlan:
    """Return the plan with the least epsilon, on a geometric grid of epsilons, whose intervals are narrow enough.

    `accuracy.within` is the largest allowed half-width, and `plan` plans the query for one budget.
    Raises: `Unattainable` if even an epsilon of 100 (`LARGEST_TOTAL`) is not large enough.
    """

    def plan_at(step: int) -> ExecutablePlan | None:
        """Return the plan with epsilon number `step` of an ascending grid of epsilons; None if it is too inaccurate.

        The enclosing function tries steps to find the smallest epsilon for which the result is not None. The result is
        None if the planned confidence intervals are wider than `accuracy.within`, if `plan` (like `accuracy`, an
        argument of the enclosing function) raises `Unattainable`, or if the epsilon is out of range.
        """
        if not _LEAST <= (epsilon := _epsilon(step)) <= LARGEST_TOTAL:
            return None
        try:
            executable = plan(accuracy.total(epsilon))
        except Unattainable:
            return None
        return executable if widest_radius(executable) <= accuracy.within else None

    top, bottom = _step_below(LARGEST_TOTAL), _step_below(_LEAST) + 1
    start = plan(accuracy.total(Fraction(1)))
    guess = min(max(_step_below(widest_radius(start) / accuracy.within), bottom), top)
    high, best, reach = guess, plan_at(guess), 1
    while best is None:
        if high == top:
            last = plan(accuracy.total(_epsilon(top)))
            raise Unattainable(
                f"no epsilon up to {float(LARGEST_TOTAL):g} plans {_SURE} intervals within "
                f"±{float(accuracy.within):g}: at that it is {_describe_radius(widest_radius(last), last)}"
            )
        high, reach = min(high + reach, top), 2 * reach
        best = plan_at(high)
    low, reach = high - 1, 1
    while low > bottom and (executable := plan_at(low)) is not None:
        high, best, low, reach = low, executable, max(low - reach, bottom), 2 * reach
    while high - low > 1:
        middle = (low + high) // 2
        executable = plan_at(middle)
        if executable is None:
            low = middle
        else:
            high, best = middle, executable
    return best


def _epsilon(step: int) -> Fraction:
    """Return the epsilon with the index `step` on a geometric grid of epsilons, rounded to three significant digits.

    Each epsilon on the grid is 1.02 times (`_RATIO`) the one before it, and the epsilon with the index 0 is 1.
    """
    return Fraction(f"{_RATIO**step:.2e}")


def _step_below(epsilon: Fraction) -> int:
    """Return the index, on the geometric grid of epsilons, of the largest epsilon that is at most `epsilon`.

    The epsilon with the index i is 1.02^i (see `_epsilon`).
    """
    step = 0
    while _epsilon(step) > epsilon:
        step -= 1
    while _epsilon(step + 1) <= epsilon:
        step += 1
    return step

"""By accuracy instead of epsilon: the least epsilon whose planned intervals are narrow enough."""

from collections.abc import Callable
from fractions import Fraction

from setwise.analytics.budget import Within
from setwise.analytics.planning import ExecutablePlan
from setwise.analytics.statistics import STATISTICS
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.planning.request import LARGEST_TOTAL, Total
from setwise.mechanisms.release import CONFIDENCE
from setwise.mechanisms.statistics import GroupStatistics

_RATIO = 1.02
"""Neighbouring epsilons that are tried: the one found is at most this much above the least."""

_LEAST = Fraction(1, 1000)
"""The least epsilon that is tried."""

_SURE = f"{float(CONFIDENCE):.0%}"


DEFAULT_CEILING = Fraction(1)
"""The largest epsilon that an accuracy may spend when the request names no epsilon: a narrow interval asked for by
mistake must not spend the budget of a year."""


def plan_within(accuracy: Within, plan: Callable[[Total], ExecutablePlan]) -> ExecutablePlan:
    """Return the plan with the least epsilon whose planned intervals are narrow enough.

    `accuracy.epsilon` is the most that may be spent; without one it is `DEFAULT_CEILING`. `plan` returns the plan for
    one budget.

    Raises: `Unattainable` if that takes more than may be spent; the message names the price.
    """
    cheapest = _least(accuracy, plan)
    assert cheapest.total is not None
    ceiling = DEFAULT_CEILING if accuracy.epsilon is None else accuracy.epsilon
    price = cheapest.total.epsilon
    if price <= ceiling:
        return cheapest
    at_ceiling = plan(accuracy.total(ceiling))
    limit = f"epsilon {float(ceiling):g} is the most that this question may spend"
    default = " unless it names an epsilon" if accuracy.epsilon is None else ""
    raise Unattainable(
        f"{_SURE} intervals within ±{float(accuracy.within):,g} take epsilon {float(price):g}, and {limit}{default}; "
        f"give epsilon {float(price):g} as well, or an accuracy of {_in_words(widest_radius(at_ceiling), at_ceiling)}, "
        f"which epsilon {float(ceiling):g} pays for"
    )


def widest_radius(executable: ExecutablePlan) -> Fraction:
    """Return half the width of the widest planned interval, each in units of what is asked for.

    It is that of the noise: where noisy counts choose the groups, intervals reach further down. Means are those of
    groups of `SOME_USERS` users, and quantiles are within so many users in rank.
    """
    mechanism = executable.mechanism
    if executable.search is not None:
        raise InvalidParameter("how close an answer is depends on the bounds found: give them, or an epsilon")
    if not isinstance(mechanism, GroupStatistics):
        radius = executable.plan.error.radius
        if radius is None:
            raise InvalidParameter("an accuracy is about numbers, and only labels are asked for: leave within out")
        return Fraction(radius)
    asked = zip(executable.query.statistics, mechanism.statistics, strict=True)
    found = [statistic.planned_radius(release) for statistic, release in asked]
    return max(_radius_found(mechanism) if radius is None else radius for radius in found)


def _radius_found(mechanism: GroupStatistics) -> Fraction:
    assert mechanism.discovery is not None
    return Fraction(mechanism.discovery.preview().radius or 0)


def _in_words(radius: Fraction, executable: ExecutablePlan) -> str:
    """Return a radius with what it is about, where that is no plain interval."""
    asked = {statistic.radius_unit for statistic in executable.query.statistics if statistic.radius_unit}
    units = dict.fromkeys(kind.radius_unit for kind in STATISTICS.values())  # in the order of the table
    about = " and".join(unit for unit in units if unit in asked)
    return f"±{float(radius):,g}{f' (that{about})' if about else ''}"


def _least(accuracy: Within, plan: Callable[[Total], ExecutablePlan]) -> ExecutablePlan:
    """Search a geometric grid: gallop from a guess to both sides of the accuracy, then halve."""

    def tried(step: int) -> ExecutablePlan | None:
        """Return the plan of an epsilon of the grid when it is close enough."""
        if not _LEAST <= (epsilon := _epsilon(step)) <= LARGEST_TOTAL:
            return None
        try:
            found = plan(accuracy.total(epsilon))
        except Unattainable:
            return None
        return found if widest_radius(found) <= accuracy.within else None

    top, bottom = _step_below(LARGEST_TOTAL), _step_below(_LEAST) + 1
    start = plan(accuracy.total(Fraction(1)))
    guess = min(max(_step_below(widest_radius(start) / accuracy.within), bottom), top)
    high, best, reach = guess, tried(guess), 1
    while best is None:
        if high == top:
            last = plan(accuracy.total(_epsilon(top)))
            raise Unattainable(
                f"no epsilon up to {float(LARGEST_TOTAL):g} plans {_SURE} intervals within "
                f"±{float(accuracy.within):,g}: at that it is {_in_words(widest_radius(last), last)}"
            )
        high, reach = min(high + reach, top), 2 * reach
        best = tried(high)
    low, reach = high - 1, 1
    while low > bottom and (found := tried(low)) is not None:
        high, best, low, reach = low, found, max(low - reach, bottom), 2 * reach
    while high - low > 1:
        middle = (low + high) // 2
        found = tried(middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return best


def _epsilon(step: int) -> Fraction:
    """Return an epsilon of the grid, with three digits."""
    return Fraction(f"{_RATIO**step:.2e}")


def _step_below(epsilon: Fraction) -> int:
    """Return the last step of the grid that is not above an epsilon."""
    step = 0
    while _epsilon(step) > epsilon:
        step -= 1
    while _epsilon(step + 1) <= epsilon:
        step += 1
    return step

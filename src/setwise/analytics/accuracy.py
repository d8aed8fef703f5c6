"""By accuracy instead of epsilon: the least epsilon whose planned intervals are narrow enough."""

from collections.abc import Callable
from fractions import Fraction
from typing import assert_never

from setwise.analytics.budget import Within
from setwise.analytics.planning import ExecutablePlan
from setwise.analytics.query import Count, Mean, Quantile, Sum
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.planning.request import LARGEST_TOTAL, Total
from setwise.mechanisms.release import CONFIDENCE
from setwise.mechanisms.statistics import GroupStatistics, NoisyTotal, UsersFound, noise_of

_RATIO = 1.02
"""Neighbouring epsilons that are tried: the one found is at most this much above the least."""

_LEAST = Fraction(1, 1000)
"""The least epsilon that is tried."""

_SURE = f"{float(CONFIDENCE):.0%}"


def plan_within(accuracy: Within, plan: Callable[[Total], ExecutablePlan]) -> ExecutablePlan:
    """Return the plan of the least epsilon whose planned intervals are within the accuracy, or raise `Unattainable`.

    With an epsilon of its own that plan is returned, unless it is not close enough: then the error says what it takes.
    """
    if accuracy.epsilon is None:
        return _least(accuracy, plan)
    given = plan(accuracy.total(accuracy.epsilon))
    if planned_radius(given) <= accuracy.within:
        return given
    would = _least(accuracy, plan)
    assert would.total is not None
    raise Unattainable(
        f"epsilon {float(accuracy.epsilon):g} plans {_SURE} intervals of ±{float(planned_radius(given)):,g}, not "
        f"±{float(accuracy.within):,g}: that takes an epsilon of {float(would.total.epsilon):g}, or leave epsilon out"
    )


def planned_radius(executable: ExecutablePlan) -> Fraction:
    """Return half the width of the widest planned interval, in units of what is asked for.

    It is that of the noise: where noisy counts choose the groups, intervals reach further down.
    """
    mechanism = executable.mechanism
    if executable.search is not None:
        raise InvalidParameter("how close an answer is depends on the bounds found: give them, or an epsilon")
    if not isinstance(mechanism, GroupStatistics):
        radius = executable.plan.error.radius
        if radius is None:
            raise InvalidParameter("an accuracy is about numbers, and only labels are asked for: leave within out")
        return Fraction(radius)
    found = []
    for statistic, release in zip(executable.query.statistics, mechanism.statistics, strict=True):
        match statistic:
            case Count() | Sum():
                step = Fraction(1) if isinstance(statistic, Count) or statistic.step is None else statistic.step
                found.append(step * _radius(mechanism, release))
            case Mean() | Quantile():
                kind = "mean depends on how many users there are" if isinstance(statistic, Mean) else "quantile is none"
                raise InvalidParameter(
                    f"the width of the interval of a {kind}, so it cannot be planned: leave within out, and preview"
                )
            case _:
                assert_never(statistic)
    return max(found)


def _radius(mechanism: GroupStatistics, release: object) -> Fraction:
    match release:
        case NoisyTotal(reach=reach, noise=noise):
            return Fraction(noise_of(noise, reach).radius(CONFIDENCE))
        case UsersFound():
            assert mechanism.discovery is not None
            return Fraction(mechanism.discovery.preview().radius or 0)
        case _:
            raise AssertionError("counts and sums are noisy totals, or users as they were found")


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
        return found if planned_radius(found) <= accuracy.within else None

    top, bottom = _step_below(LARGEST_TOTAL), _step_below(_LEAST) + 1
    start = plan(accuracy.total(Fraction(1)))
    guess = min(max(_step_below(planned_radius(start) / accuracy.within), bottom), top)
    high, best, reach = guess, tried(guess), 1
    while best is None:
        if high == top:
            widest = planned_radius(plan(accuracy.total(_epsilon(top))))
            raise Unattainable(
                f"no epsilon up to {float(LARGEST_TOTAL):g} plans {_SURE} intervals within "
                f"±{float(accuracy.within):,g}: at that it is ±{float(widest):,g}"
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

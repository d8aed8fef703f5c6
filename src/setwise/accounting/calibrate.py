"""Calibration: the noise, epsilon or count that meets a target for a planned set of uses.

A plan is a function from the free parameter to uses. What is found never violates the target: the parameter returned
is one that was checked, with its upper bound.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from setwise.accounting.adaptive.stages import proxy_saddle
from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.bounds import classify
from setwise.accounting.checks import LARGEST_COUNT, LARGEST_EPSILON, check_delta, check_total_epsilon
from setwise.accounting.compose import Composition, compose
from setwise.accounting.guarantees import KINDS, BoundedRange, Use, largest_loss
from setwise.accounting.methods.moments import zero_concentrated_sum
from setwise.accounting.notation import as_uses, parse_guarantee, parse_use
from setwise.errors import InvalidParameter, Unattainable

_CLOSE = 1e-9
"""Parameters are found to this relative accuracy, on the safe side, or as closely as brackets of delta tell."""

_CLEARLY = 0.25
"""A count is the largest when the next is estimated to exceed the target, and brackets are narrower than this share."""

_MOST_CERTIFIED = 60
"""Compositions certified in one search; a handful is usual."""

_OUT_OF_REACH = 60.0
"""Stands for log(delta found / delta wanted) where a composition is refused or delta vanishes."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The value found for the free parameter, the uses it makes, what they compose to, and their certified delta."""

    value: float
    uses: tuple[Use, ...]
    composition: Composition
    answer: Answer


UsesForParameter = Callable[[float], Sequence[Use]]
"""From the free parameter to uses."""


@dataclass(frozen=True, slots=True)
class _Target:
    """What a plan is to meet. An excess is log(delta found / delta wanted): a value is good when it is not positive.

    `certified` keeps what was found for each value.
    """

    plan: UsesForParameter
    epsilon: float
    delta: float
    interaction: Interaction
    certified: dict[float, Answer] = field(default_factory=dict)

    def excess(self, value: float) -> tuple[float, float]:
        """Return the certified excess of a value, and how much less it may be in truth."""
        try:
            found = compose(self.plan(value), self.interaction).quick_delta(self.epsilon)
        except Unattainable:
            return _OUT_OF_REACH, 0.0
        self.certified[value] = found
        return self._log(found.upper), self._log(found.upper) - self._log(found.lower)

    def estimated_excess(self, value: float) -> float:
        """Return about the excess of a value, in a moment: by the saddle point, every pick with one fixed answer."""
        uses = self.plan(value)
        kinds = classify(uses)
        if kinds.classes:
            return self._log(zero_concentrated_sum(uses).delta(self.epsilon).upper)
        if self.epsilon >= largest_loss([*kinds.linear, *((BoundedRange(epsilon=e), c) for e, c in kinds.ranges)]):
            return self._log(kinds.failure.upper)
        estimate = proxy_saddle(kinds.linear, kinds.ranges).log_delta(self.epsilon)
        return self._log(kinds.failure.upper + math.exp(min(estimate, 0.0)))

    def calibrated(self, value: float) -> Calibrated:
        """Return a value that was certified, with its delta compared with those of other interactions."""
        uses = tuple(self.plan(value))
        composition = compose(uses, self.interaction)
        return Calibrated(value, uses, composition, composition.compared(self.certified[value], self.epsilon))

    def _log(self, found: float) -> float:
        return min(max(math.log(found / self.delta), -_OUT_OF_REACH), _OUT_OF_REACH) if found > 0.0 else -_OUT_OF_REACH


def _crossing(height: Callable[[float], float], bad: float, good: float) -> float:
    """Return about where a height falls through 0 between a bad and a good value."""
    for _ in range(60):
        middle = 0.5 * (bad + good)
        if abs(good - bad) <= 1e-6 * max(1.0, abs(good)):
            break
        bad, good = (middle, good) if height(middle) > 0.0 else (bad, middle)
    return good


def _boundary(target: _Target, worst: float, best: float, what: str) -> float:
    """Return a good value at the boundary; values grow better from `worst` to `best`.

    The search starts where an estimate crosses the target and goes on by secants, all in the logarithm of the value.
    Only certified values are returned.
    """
    ends = math.log(worst), math.log(best)

    def at(point: float) -> float:
        return worst if point == ends[0] else best if point == ends[1] else math.exp(point)

    def estimate(point: float) -> float:
        return target.estimated_excess(math.exp(point))

    start = _crossing(estimate, *ends)
    rate = abs(estimate(start + 1e-3) - estimate(start - 1e-3)) / 2e-3
    found = _search(lambda point: target.excess(at(point)), start, rate, *ends, spacing=_CLOSE)
    if found is None:
        raise Unattainable(f"no {what} up to {best:g} meets the target; allow a larger epsilon or delta")
    return at(found)


def _search(
    excess: Callable[[float], tuple[float, float]],
    start: float,
    rate: float,
    worst: float,
    best: float,
    *,
    spacing: float,
) -> float | None:
    """Return a good point next to the boundary between `worst` and `best`, or None when even the best is bad.

    Near the start the excess changes by about `rate` per unit. With a spacing of 1 points are whole numbers. A good
    point is accepted when its excess may be 0 in truth, or when one more would clearly be too much.
    """
    whole = spacing == 1.0
    left, right = min(worst, best), max(worst, best)
    forward = 1.0 if best > worst else -1.0
    bad: tuple[float, float] | None = None
    good: tuple[float, float] | None = None
    further, width, slow = 1.0, math.inf, 0
    point = min(max(start, left), right)
    for _ in range(_MOST_CERTIFIED):
        value, slack = excess(point)
        if value > 0.0:
            if point == best:
                return None
            bad = (point, value)
        else:
            good = (point, value)
            if point == worst or (not whole and -value <= max(slack, 1e-12)):
                return point
            if whole and 0.0 < slack < _CLEARLY * (value + rate):
                return point
        if bad is None or good is None:  # go on to where the rate says, just on the good side, then further and further
            aim = value + 0.3 * slack
            move = further * max(abs(aim) / rate if rate > 0.0 else spacing, spacing)
            point, further = point + (forward if bad else -forward) * move, 4.0 * further
        elif abs(good[0] - bad[0]) <= spacing:
            return good[0]
        else:  # just beyond the crossing, on the good side; the middle where the excess jumps and secants crawl
            aim = min(0.3 * slack, -0.5 * good[1])
            share = min(max((bad[1] + aim) / (bad[1] - good[1]), 0.05), 0.95)
            now = abs(good[0] - bad[0])
            slow, width = (slow + 1 if now > 0.5 * width else 0), now
            point = bad[0] + (0.5 if slow > 2 else share + 0.02 * (1.0 - share)) * (good[0] - bad[0])
        if whole:
            point = float(round(point))
            if bad is not None and good is not None:
                point = min(max(point, min(bad[0], good[0]) + 1.0), max(bad[0], good[0]) - 1.0)
        point = min(max(point, left), right)
    return None if good is None else good[0]


def smallest_noise(
    plan: UsesForParameter,
    *,
    epsilon: float,
    delta: float,
    interaction: str | Interaction = Interaction.SETWISE,
    smallest: float = 2e-3,
    largest: float = 1e9,
) -> Calibrated:
    """Return the smallest noise for which the planned uses are together (epsilon, delta)-DP.

    >>> from setwise.accounting.guarantees import Gaussian
    >>> found = smallest_noise(lambda sigma: [Use(Gaussian(sigma=sigma), 25)], epsilon=1.0, delta=1e-6)
    >>> round(found.value, 2)
    21.12
    """
    how = Interaction.parse(interaction)
    check_total_epsilon(epsilon)
    check_delta(delta)
    target = _Target(plan, epsilon, delta, how)
    return target.calibrated(_boundary(target, smallest, largest, "noise"))


def largest_epsilon(
    plan: UsesForParameter,
    *,
    epsilon: float,
    delta: float,
    interaction: str | Interaction = Interaction.SETWISE,
) -> Calibrated:
    """Return the largest per-use epsilon for which the planned uses are together (epsilon, delta)-DP."""
    how = Interaction.parse(interaction)
    check_total_epsilon(epsilon)
    check_delta(delta)
    most = min(LARGEST_EPSILON, max(epsilon, 1.0) * 4)
    target = _Target(plan, epsilon, delta, how)
    return target.calibrated(_boundary(target, most, 1e-9, "per-use epsilon"))


def largest_count(
    plan: Callable[[int], Sequence[Use]],
    *,
    epsilon: float,
    delta: float,
    interaction: str | Interaction = Interaction.SETWISE,
    most: int = LARGEST_COUNT,
) -> Calibrated:
    """Return the largest count for which the planned uses are together (epsilon, delta)-DP.

    >>> from setwise.accounting.guarantees import PureDP
    >>> largest_count(lambda n: [Use(PureDP(epsilon=0.1), n)], epsilon=2.0, delta=1e-6).value
    24
    """
    how = Interaction.parse(interaction)
    check_total_epsilon(epsilon)
    check_delta(delta)

    target = _Target(lambda value: plan(int(value)), epsilon, delta, how)
    start = float(round(math.exp(_crossing(lambda at: target.estimated_excess(math.exp(at)), math.log(most), 0.0))))
    apart = max(1.0, 1e-3 * start)
    rate = abs(target.estimated_excess(start + apart) - target.estimated_excess(start)) / apart
    found = _search(target.excess, start, rate, float(most), 1.0, spacing=1.0)
    if found is None:
        raise Unattainable(f"not even one use meets epsilon = {epsilon:g} at delta = {delta:g}")
    return replace(target.calibrated(found), value=int(found))


_FREE = "?"
_PLANNED = re.compile(r"(?P<kind>[a-z-]+):\?(?:x(?P<count>[0-9]{1,12}))?|(?P<fixed>[a-z-]+:[^x?]+)x\?")


def parse_plan(texts: Sequence[str]) -> tuple[str, Callable[[float], list[Use]]]:
    """Read uses of which exactly one has a ``?``: ``gaussian:?x10``, ``pure:?x25``, ``bounded-range:0.1x?``.

    Returns what is free ("noise", "epsilon" or "count") and the plan.

    >>> parse_plan(["gaussian:?x10", "pure:0.1x5"])[0]
    'noise'
    """
    free = [text for text in texts if _FREE in text]
    if len(free) != 1 or free[0].count(_FREE) != 1:
        raise InvalidParameter(f"exactly one use must have a ? in it, such as gaussian:?x10, not {' '.join(texts)!r}")
    (open_use,) = free
    place = texts.index(open_use)
    before, after = (list(as_uses(part)) if part else [] for part in (texts[:place], texts[place + 1 :]))
    form = _PLANNED.fullmatch(open_use)
    if form is None:
        raise InvalidParameter(f"{open_use!r} is not a plan such as gaussian:?x10, pure:?x25 or bounded-range:0.1x?")
    if form["fixed"]:
        parse_use(form["fixed"])  # refuses what cannot be counted
        return "count", lambda count: [*before, parse_use(f"{form['fixed']}x{int(count)}"), *after]
    kind, count = KINDS.get(form["kind"]), int(form["count"] or 1)
    if kind is None or kind.calibrates is None:
        known = ", ".join(name for name, each in KINDS.items() if each.calibrates)
        raise InvalidParameter(f"a ? can stand for the parameter of {known}, or for a count, not in {open_use!r}")
    return kind.calibrates, lambda value: [*before, Use(parse_guarantee(kind.kind, [value]), count), *after]

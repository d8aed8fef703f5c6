"""Calibration: the noise, epsilon or count that meets a target for a planned set of uses.

A plan is a function from the free parameter to uses. What is found never violates the target: the parameter returned
is one that was checked, with its upper bound.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from setwise.accounting.brackets import CertifiedBound, Interaction
from setwise.accounting.checks import LARGEST_COUNT, LARGEST_EPSILON, check_delta, check_total_epsilon
from setwise.accounting.compose import Composition, compose
from setwise.accounting.estimates import estimated_delta
from setwise.accounting.guarantees import KINDS, Use
from setwise.accounting.notation import as_uses, parse_guarantee, parse_use
from setwise.errors import InvalidParameter, Unattainable


@dataclass(frozen=True, slots=True)
class CalibrationConfig:
    """How a boundary is searched. The value returned was certified, whatever these numbers are.

    An excess is log(delta found / delta wanted). Values other than counts are searched by their logarithm.
    """

    spacing: float = 1e-9
    """Distance in log value at which a good and a bad value are neighbours; counts are neighbours at 1."""
    rounding: float = 1e-12
    """Excess below which a good value is at the boundary whatever its bracket: about the rounding of delta."""
    clearly: float = 0.25
    """A count is the largest when its bracket is narrower than this share of what one more is estimated to add."""
    most_certified: int = 60
    """Compositions certified in one search; a handful is usual."""
    out_of_reach: float = 60.0
    """Excess that stands for a composition that is refused, or with the other sign for a delta that vanishes."""
    most_estimates: int = 60
    estimate_close: float = 1e-6
    """Bisections of the estimate at most, and the relative distance at which they end: far closer than it is right."""
    rate_apart: float = 1e-3
    """Distance in log value, or share of a count, over which the slope of the estimate is taken."""
    inside: float = 0.3
    """Share of a bracket by which points aim below the target, so that what is certified is good."""
    most_inside: float = 0.5
    """That aim as a share of the excess of the last good value at most: each step must gain."""
    further: float = 4.0
    """Factor on each step away from the start while only one side of the boundary is known."""
    least_share: float = 0.05
    most_share: float = 0.95
    """Part of the way from the bad to the good value where a secant may point: nearer the ends it would crawl."""
    beyond: float = 0.02
    """Part of the rest of the way that a secant goes further, to end on the good side."""
    slow_steps: int = 2
    """Steps that do not halve the interval before one takes its middle."""
    least_epsilon: float = 1e-9
    """The smallest per-use epsilon that is tried."""
    largest_epsilon: float = 4.0
    """The largest per-use epsilon that is tried, over the larger of the total and 1: one use loses up to its own."""


CONFIG = CalibrationConfig()


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The value found for the free parameter, the uses it makes, what they compose to, and their certified delta."""

    value: float
    uses: tuple[Use, ...]
    composition: Composition
    answer: CertifiedBound


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
    certified: dict[float, CertifiedBound] = field(default_factory=dict)

    def excess(self, value: float) -> tuple[float, float]:
        """Return the certified excess of a value, and how much less it may be in truth."""
        try:
            found = compose(self.plan(value), self.interaction).quick_delta(self.epsilon)
        except Unattainable:
            return CONFIG.out_of_reach, 0.0
        self.certified[value] = found
        return self._log(found.upper), self._log(found.upper) - self._log(found.lower)

    def estimated_excess(self, value: float) -> float:
        """Return about the excess of a value, in a moment."""
        return self._log(estimated_delta(self.plan(value), self.epsilon))

    def calibrated(self, value: float) -> Calibrated:
        """Return a value that was certified, with its delta compared with those of other interactions."""
        uses = tuple(self.plan(value))
        composition = compose(uses, self.interaction)
        return Calibrated(value, uses, composition, composition.compared(self.certified[value], self.epsilon))

    def _log(self, found: float) -> float:
        excess = math.log(found / self.delta) if found > 0.0 else -math.inf
        return min(max(excess, -CONFIG.out_of_reach), CONFIG.out_of_reach)


def _crossing(height: Callable[[float], float], bad: float, good: float) -> float:
    """Return about where a height falls through 0 between a bad and a good value."""
    for _ in range(CONFIG.most_estimates):
        middle = 0.5 * (bad + good)
        if abs(good - bad) <= CONFIG.estimate_close * max(1.0, abs(good)):
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
    apart = CONFIG.rate_apart
    rate = abs(estimate(start + apart) - estimate(start - apart)) / (2 * apart)
    found = _search(lambda point: target.excess(at(point)), start, rate, *ends, spacing=CONFIG.spacing)
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
    for _ in range(CONFIG.most_certified):
        value, slack = excess(point)
        if value > 0.0:
            if point == best:
                return None
            bad = (point, value)
        else:
            good = (point, value)
            if point == worst or (not whole and -value <= max(slack, CONFIG.rounding)):
                return point
            if whole and 0.0 < slack < CONFIG.clearly * (value + rate):
                return point
        if bad is None or good is None:  # go on to where the rate says, just on the good side, then further and further
            aim = value + CONFIG.inside * slack
            move = further * max(abs(aim) / rate if rate > 0.0 else spacing, spacing)
            point, further = point + (forward if bad else -forward) * move, CONFIG.further * further
        elif abs(good[0] - bad[0]) <= spacing:
            return good[0]
        else:  # just beyond the crossing, on the good side; the middle where the excess jumps and secants crawl
            aim = min(CONFIG.inside * slack, -CONFIG.most_inside * good[1])
            share = min(max((bad[1] + aim) / (bad[1] - good[1]), CONFIG.least_share), CONFIG.most_share)
            now = abs(good[0] - bad[0])
            slow, width = (slow + 1 if now > 0.5 * width else 0), now
            share = 0.5 if slow > CONFIG.slow_steps else share + CONFIG.beyond * (1.0 - share)
            point = bad[0] + share * (good[0] - bad[0])
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
    most = min(LARGEST_EPSILON, max(epsilon, 1.0) * CONFIG.largest_epsilon)
    target = _Target(plan, epsilon, delta, how)
    return target.calibrated(_boundary(target, most, CONFIG.least_epsilon, "per-use epsilon"))


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
    about = math.exp(_crossing(lambda at: target.estimated_excess(math.exp(at)), math.log(most), 0.0))
    start = min(max(float(round(about)), 1.0), float(most))
    apart = max(1.0, CONFIG.rate_apart * start)
    further = start + apart if start + apart <= most else max(start - apart, 1.0)  # no count beyond `most` is tried
    rate = abs(target.estimated_excess(further) - target.estimated_excess(start)) / apart
    found = _search(target.excess, start, rate, float(most), 1.0, spacing=1.0)
    if found is None:
        raise Unattainable(f"not even one use meets epsilon = {epsilon:g} at delta = {delta:g}")
    return replace(target.calibrated(found), value=int(found))


FIND: dict[str, Callable[..., Calibrated]] = {
    "noise": smallest_noise,
    "epsilon": largest_epsilon,
    "count": largest_count,
}
"""What finds the value of the ? in a plan, by what it stands for."""

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

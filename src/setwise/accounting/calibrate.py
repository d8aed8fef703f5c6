"""Calibration: the noise, epsilon or count with which a planned set of uses meets an (epsilon, delta) target.

A plan is a function from its one free parameter (the noise scale, the epsilon of a use, or the number of uses) to a
list of uses. The returned parameter never violates the target, because the delta of its uses was certified.
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
    """Constants of the search for the noise scale, the epsilon per use or the number of uses that just meets a budget.

    No guarantee depends on the constants, because the delta of the returned value is certified. The texts below the
    constants use these words:

    - A value is a noise scale, an epsilon per use or a number of uses. Noise scales and epsilons are searched on a
      logarithmic scale.
    - The excess of a value is log(delta of the planned uses at this value / wanted delta). This delta is known only as
      a bracket (a certified interval).
    - A value is good if its excess is at most 0, that is, if it meets the budget; otherwise it is bad. The search goes
      on between a good and a bad value.
    """

    # Noise scales and epsilons are searched on a logarithmic scale, numbers of uses on a linear one.

    spacing: float = 1e-9
    """The search ends if the logarithms of the good and the bad value differ by at most this. Numbers of uses may
    differ by 1."""
    rounding: float = 1e-12
    """A good value with an excess above minus this is returned at once; it is about the rounding error of delta."""
    clearly: float = 0.25
    """A number of uses is accepted as the largest if the bracket of its log delta is narrower than this share of what
    one more use is estimated to add."""
    most_certified: int = 60
    """Largest number of values whose delta is certified in one search; a handful is usual."""
    out_of_reach: float = 60.0
    """Excess of a value for which no bound on delta can be computed. Minus this is the excess of a delta of 0."""
    most_estimates: int = 60
    estimate_close: float = 1e-6
    """The search starts where a quick estimate of delta has the wanted value. That value is found by bisection, which
    ends at this relative distance, or after `most_estimates` steps. The estimate itself is far less accurate."""
    rate_apart: float = 1e-3
    """Distance in the logarithm of a value, or share of a number of uses, over which the slope of the estimate is
    measured."""
    inside: float = 0.3
    """A step aims below the target by this share of the last bracket, so that the next value is certified to be
    good."""
    most_inside: float = 0.5
    """It aims below the target by at most this share of the excess of the last good value, so that each step gains."""
    further: float = 4.0
    """Factor by which steps grow from one to the next while only good values, or only bad values, are known."""
    least_share: float = 0.05
    most_share: float = 0.95
    """A secant step goes from the bad value towards the good value: at least the share `least_share` of the way, and at
    most this share. Nearer to the ends the search would slow down."""
    beyond: float = 0.02
    """Share of the remaining way to the good value by which a secant step is lengthened, so that it ends at a good
    value."""
    slow_steps: int = 2
    """Number of steps in a row that may fail to halve the distance of the good and the bad value before the middle is
    tried."""
    least_epsilon: float = 1e-9
    """Smallest per-use epsilon that is tried."""
    largest_epsilon: float = 4.0
    """Largest per-use epsilon that is tried, as a multiple of the larger of the overall epsilon and 1."""


CONFIG = CalibrationConfig()


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Result of a calibration: the noise, epsilon or count with which planned uses meet an (epsilon, delta) target.

    `value` is this noise, epsilon or count. `uses` are the planned mechanism uses (guarantees with counts) at this
    value, and `composition` is their composition. `answer` is their certified delta at the target epsilon.
    """

    value: float
    uses: tuple[Use, ...]
    composition: Composition
    answer: CertifiedBound


UsesForParameter = Callable[[float], Sequence[Use]]
"""A plan: a function from the free parameter to uses."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The target of a calibration: the (epsilon, delta)-DP that the uses of a plan must satisfy together.

    - `plan` maps the value of its one free parameter (noise, epsilon or count) to uses.
    - `interaction` says what the analyst may choose on the fly.
    - `certified` maps each value of the parameter tried so far to its certified bound on delta.
    """

    # The excess of a value is log(d / `delta`), where d is the delta of the uses at `epsilon`; a value is good if its
    # excess is not positive.

    plan: UsesForParameter
    epsilon: float
    delta: float
    interaction: Interaction
    certified: dict[float, CertifiedBound] = field(default_factory=dict)

    def excess(self, value: float) -> tuple[float, float]:
        """Return (log(d / wanted delta), log(d / c)), where the delta of the plan is certified to lie between c and d.

        `value` is the value of the plan's free parameter: its noise, epsilon or count. The first number is at most 0 if
        `value` meets the target; the second is the uncertainty of the first.
        """
        # If no bound on delta can be computed, the result is (`CONFIG.out_of_reach`, 0), so that `value` is taken to
        # violate the target.
        try:
            bound = compose(self.plan(value), self.interaction).quick_delta(self.epsilon)
        except Unattainable:
            return CONFIG.out_of_reach, 0.0
        self.certified[value] = bound
        return self._log(bound.upper), self._log(bound.upper) - self._log(bound.lower)

    def estimated_excess(self, value: float) -> float:
        """Return approximately log(delta / wanted delta), where delta is the delta of the planned uses.

        `value` is the value of the plan's free parameter: its noise, epsilon or count. The estimate takes about a
        millisecond and is not certified.
        """
        return self._log(estimated_delta(self.plan(value), self.epsilon))

    def calibrated(self, value: float) -> Calibrated:
        """Return the result of the calibration: the plan with its free parameter set to `value`, and certified bounds.

        The free parameter is a noise scale, an epsilon or a count. The bounds are on the delta of the plan's uses. They
        were computed when `excess` tried `value`, and are tightened here by bounds for other interactions (what an
        adversary may choose on the fly). An adversary who may choose more reaches at least this delta, so an upper
        bound for that interaction is valid here too. Likewise, a lower bound is valid here if it holds for an adversary
        who may choose less.

        Requires: `excess(value)` was called before and found a bound.
        """
        uses = tuple(self.plan(value))
        composition = compose(uses, self.interaction)
        return Calibrated(value, uses, composition, composition.compared(self.certified[value], self.epsilon))

    def _log(self, delta: float) -> float:
        """Return log(`delta` / wanted delta), which is at most 0 if `delta` meets the target.

        The result is limited to ±`CONFIG.out_of_reach`, so that it is finite if `delta` is 0.
        """
        excess = math.log(delta / self.delta) if delta > 0.0 else -math.inf
        return min(max(excess, -CONFIG.out_of_reach), CONFIG.out_of_reach)


def _crossing(height: Callable[[float], float], bad: float, good: float) -> float:
    """Return approximately the point at which the falling function `height` crosses 0, found by bisection.

    The search for a noise scale or epsilon starts from this point, which is computed from quick estimates of delta.
    `height` is positive at the point `bad` and not positive at the point `good`.
    """
    for _ in range(CONFIG.most_estimates):
        middle = 0.5 * (bad + good)
        if abs(good - bad) <= CONFIG.estimate_close * max(1.0, abs(good)):
            break
        bad, good = (middle, good) if height(middle) > 0.0 else (bad, middle)
    return good


def _boundary(target: _Target, worst: float, best: float, name: str) -> float:
    """Return the noise or the epsilon of a plan that meets `target`, a limit on delta, with hardly anything to spare.

    A plan has one free parameter, a noise scale or an epsilon, and `name` is its name for the error message. The
    returned value is certified to meet the target. The value lies between `worst`, the value with the largest delta
    (least noise or largest epsilon), and `best`, the value with the smallest delta.

    Raises: `Unattainable` if even `best` does not meet the target.
    """
    # The search is in the logarithm of the parameter. It starts where a quick estimate of delta has the wanted value,
    # and goes on by secants. Only values whose delta was certified are returned.
    ends = math.log(worst), math.log(best)

    def at(point: float) -> float:
        """Return the value of the plan's free parameter (noise or epsilon) whose logarithm is `point`.

        The variables `worst` and `best` of the function around this one are the first and the last value to try. If
        `point` is the logarithm of one of them, the result is exactly this one, without rounding errors.
        """
        return worst if point == ends[0] else best if point == ends[1] else math.exp(point)

    def estimate(point: float) -> float:
        """Return the estimated log(delta / wanted delta) of the plan at the parameter value exp(`point`).

        The parameter is the noise or the epsilon of the plan. The result is at most 0 if the value seems to meet the
        target.
        """
        return target.estimated_excess(math.exp(point))

    start = _crossing(estimate, *ends)
    apart = CONFIG.rate_apart
    rate = abs(estimate(start + apart) - estimate(start - apart)) / (2 * apart)
    point_found = _search(lambda point: target.excess(at(point)), start, rate, *ends, spacing=CONFIG.spacing)
    if point_found is None:
        raise Unattainable(f"not even a {name} of {best:g} meets the target; allow a larger epsilon or delta")
    return at(point_found)


def _search(
    excess: Callable[[float], tuple[float, float]],
    start: float,
    rate: float,
    worst: float,
    best: float,
    *,
    spacing: float,
) -> float | None:
    """Return a point between `worst` and `best` whose delta just meets the wanted delta; None if even `best` does not.

    A point is a value of the one number that a plan leaves open: the logarithm of its noise or epsilon or, if `spacing`
    is 1, its number of uses.

    - `worst` is the point with the largest delta, and `best` the point with the smallest.
    - `excess` maps a point to two numbers: log(d / wanted delta), where d is an upper bound on delta, and log(d / c),
      where c is a lower bound. The point meets the target if the first number is at most 0; the second is its
      uncertainty.
    - `start` is the point evaluated first. `rate` is roughly how much log delta changes near `start` if the point
      changes by 1.
    - `spacing`: the search ends when a point that meets the target, and a point that does not, are at most this far
      apart. It ends earlier if the uncertainty is too large to tell whether another point is better.
    """
    # The search also ends if further steps could not show that a better point exists. For logarithms, they could not if
    # the excess of the point is no further below 0 than its uncertainty. For numbers of uses, they could not if the
    # bracket already shows that one more use would be too much.
    counts_uses = spacing == 1.0
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
            if point == worst or (not counts_uses and -value <= max(slack, CONFIG.rounding)):
                return point
            if counts_uses and 0.0 < slack < CONFIG.clearly * (value + rate):
                return point
        if bad is None or good is None:  # only one side is known: step as far as `rate` suggests, then ever further
            aim = value + CONFIG.inside * slack
            move = further * max(abs(aim) / rate if rate > 0.0 else spacing, spacing)
            point, further = point + (forward if bad else -forward) * move, CONFIG.further * further
        elif abs(good[0] - bad[0]) <= spacing:
            return good[0]
        else:  # secant to just beyond the crossing, on the good side; the middle if secants make slow progress
            aim = min(CONFIG.inside * slack, -CONFIG.most_inside * good[1])
            share = min(max((bad[1] + aim) / (bad[1] - good[1]), CONFIG.least_share), CONFIG.most_share)
            now = abs(good[0] - bad[0])
            slow, width = (slow + 1 if now > 0.5 * width else 0), now
            share = 0.5 if slow > CONFIG.slow_steps else share + CONFIG.beyond * (1.0 - share)
            point = bad[0] + share * (good[0] - bad[0])
        if counts_uses:
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
    """Return, as a `Calibrated`, about the smallest noise scale at which planned uses together are (epsilon, delta)-DP.

    The returned noise scale is certified to meet the target.

    - `plan` maps a noise scale to uses. Noise scales from `smallest` to `largest` are tried.
    - `epsilon` and `delta` are the target for all uses together.
    - `interaction` says what the analyst may choose on the fly: "batch", "ordered", "setwise" or "adaptive".

    Raises: `Unattainable` if even `largest` does not meet the target.

    >>> from setwise.accounting.guarantees import Gaussian
    >>> found = smallest_noise(lambda sigma: [Use(Gaussian(sigma=sigma), 25)], epsilon=1.0, delta=1e-6)
    >>> round(found.value, 2)
    21.12
    """
    how = Interaction.parse(interaction)
    check_total_epsilon(epsilon)
    check_delta(delta)
    target = _Target(plan, epsilon, delta, how)
    return target.calibrated(_boundary(target, smallest, largest, "noise scale"))


def largest_epsilon(
    plan: UsesForParameter,
    *,
    epsilon: float,
    delta: float,
    interaction: str | Interaction = Interaction.SETWISE,
) -> Calibrated:
    """Return, as a `Calibrated`, about the largest per-use epsilon at which planned uses are (epsilon, delta)-DP.

    The returned per-use epsilon is certified to meet the target.

    - `plan` maps a per-use epsilon to uses.
    - `epsilon` and `delta` are the target for all uses together.
    - `interaction` says what the analyst may choose on the fly: "batch", "ordered", "setwise" or "adaptive".

    Raises: `Unattainable` if even the smallest epsilon tried does not meet the target.
    """
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
    """Return, as a `Calibrated`, the largest count certified to keep the planned uses (epsilon, delta)-DP together.

    - `plan` maps a count to uses. Counts from 1 to `most` are tried.
    - `epsilon` and `delta` are the target for all uses together.
    - `interaction` says what the analyst may choose on the fly: "batch", "ordered", "setwise" or "adaptive".

    Raises: `Unattainable` if not even one use meets the target.

    >>> from setwise.accounting.guarantees import PureDP
    >>> largest_count(lambda n: [Use(PureDP(epsilon=0.1), n)], epsilon=2.0, delta=1e-6).value
    24
    """
    how = Interaction.parse(interaction)
    check_total_epsilon(epsilon)
    check_delta(delta)

    target = _Target(lambda value: plan(int(value)), epsilon, delta, how)
    estimate = math.exp(_crossing(lambda at: target.estimated_excess(math.exp(at)), math.log(most), 0.0))
    start = min(max(float(round(estimate)), 1.0), float(most))
    apart = max(1.0, CONFIG.rate_apart * start)
    further = start + apart if start + apart <= most else max(start - apart, 1.0)  # no count beyond `most` is tried
    rate = abs(target.estimated_excess(further) - target.estimated_excess(start)) / apart
    count = _search(target.excess, start, rate, float(most), 1.0, spacing=1.0)
    if count is None:
        raise Unattainable(
            f"not even one use meets epsilon = {epsilon:g} at delta = {delta:g}; allow a larger epsilon or delta"
        )
    return replace(target.calibrated(count), value=int(count))


FIND: dict[str, Callable[..., Calibrated]] = {
    "noise": smallest_noise,
    "epsilon": largest_epsilon,
    "count": largest_count,
}
"""The function that finds the value of the "?" in a plan, by the kind of value that it stands for."""

_FREE = "?"
_PLANNED = re.compile(r"(?P<kind>[a-z-]+):\?(?:x(?P<count>[0-9]{1,12}))?|(?P<fixed>[a-z-]+:[^x?]+)x\?")


def parse_plan(texts: Sequence[str]) -> tuple[str, Callable[[float], list[Use]]]:
    """Return (name of the free parameter of a written plan, the plan as a function).

    The name is "noise", "epsilon" or "count". The function maps a value of the free parameter to the list of uses.
    `texts` are uses of which exactly one contains a ``?``, such as ``gaussian:?x10``, ``pure:?x25``,
    ``bounded-range:0.1x?``.

    Raises: `InvalidParameter` if there is not exactly one ``?``, or it stands where none is allowed.

    >>> parse_plan(["gaussian:?x10", "pure:0.1x5"])[0]
    'noise'
    """
    free = [text for text in texts if _FREE in text]
    if len(free) != 1 or free[0].count(_FREE) != 1:
        raise InvalidParameter(f"exactly one use must have a ? in it, such as gaussian:?x10, not {' '.join(texts)!r}")
    (open_use,) = free
    index = texts.index(open_use)
    before, after = (list(as_uses(group)) if group else [] for group in (texts[:index], texts[index + 1 :]))
    form = _PLANNED.fullmatch(open_use)
    if form is None:
        raise InvalidParameter(f"{open_use!r} is not a plan such as gaussian:?x10, pure:?x25 or bounded-range:0.1x?")
    if form["fixed"]:
        parse_use(form["fixed"])  # raises `InvalidParameter` for a malformed use now, not when the plan is called
        return "count", lambda count: [*before, parse_use(f"{form['fixed']}x{int(count)}"), *after]
    kind, count = KINDS.get(form["kind"]), int(form["count"] or 1)
    if kind is None or kind.calibrates is None:
        known = ", ".join(name for name, guarantee in KINDS.items() if guarantee.calibrates)
        raise InvalidParameter(f"a ? can stand for the parameter of {known}, or for a count, not in {open_use!r}")
    return kind.calibrates, lambda value: [*before, Use(parse_guarantee(kind.kind, [value]), count), *after]

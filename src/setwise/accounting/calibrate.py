"""Calibration: the noise, epsilon or count that meets a target for a planned set of uses.

A plan is a function from the free parameter to uses. What is found never violates the target: the parameter returned
is one that was checked, with its upper bound.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from setwise.accounting.answer import Interaction
from setwise.accounting.checks import LARGEST_COUNT, LARGEST_EPSILON, check_delta, check_total_epsilon
from setwise.accounting.compose import Composition, as_uses, compose
from setwise.accounting.guarantees import KINDS, Use
from setwise.accounting.notation import parse_guarantee, parse_use
from setwise.errors import InvalidParameter, Unattainable

_CLOSE = 1e-9
"""Parameters are found to this relative accuracy, on the safe side."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The value found for the free parameter, the uses it makes, and what they compose to."""

    value: float
    uses: tuple[Use, ...]
    composition: Composition


def _meets(uses: Iterable[Use], epsilon: float, delta: float, interaction: Interaction) -> bool:
    try:
        return compose(uses, interaction).delta(epsilon).upper <= delta
    except Unattainable:
        return False


def _boundary(good: Callable[[float], bool], worst: float, best: float, what: str) -> float:
    """Return a good value within `_CLOSE` of the boundary; values grow better from `worst` to `best`."""
    if good(worst):
        return worst
    if not good(best):
        raise Unattainable(f"no {what} up to {best:g} meets the target; allow a larger epsilon or delta")
    low, high = math.log(worst), math.log(best)
    while abs(high - low) > _CLOSE:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if good(math.exp(middle)) else (middle, high)
    return math.exp(high)


def smallest_noise(
    plan: Callable[[float], Sequence[Use]],
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
    value = _boundary(lambda noise: _meets(plan(noise), epsilon, delta, how), smallest, largest, "noise")
    return _found(value, plan(value), how)


def largest_epsilon(
    plan: Callable[[float], Sequence[Use]],
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
    value = _boundary(lambda each: _meets(plan(each), epsilon, delta, how), most, 1e-9, "per-use epsilon")
    return _found(value, plan(value), how)


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

    def good(count: int) -> bool:
        return _meets(plan(count), epsilon, delta, how)

    if not good(1):
        raise Unattainable(f"not even one use meets epsilon = {epsilon:g} at delta = {delta:g}")
    low, high = 1, 2
    while high < most and good(high):
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(middle) else (low, middle)
    best = high if high == most and good(high) else low
    return _found(best, plan(best), how)


def _found(value: float, uses: Sequence[Use], interaction: Interaction) -> Calibrated:
    return Calibrated(value, tuple(uses), compose(uses, interaction))


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

"""From delta to epsilon: the inverse of a certified, falling curve."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from setwise.accounting.brackets import Bracket
from setwise.errors import Unattainable


@dataclass(frozen=True, slots=True)
class Tuning:
    """When a search for a crossing ends. What is returned was evaluated, whatever these numbers are."""

    most_steps: int = 200
    """Evaluations; a dozen is usual."""
    close: float = 1e-13
    """Distance of log delta from the target's at which a point is near enough: about its rounding."""
    halve_every: int = 6
    """Steps of which one is a bisection, so that a curve with a jump is enclosed as well."""
    largest: float = 1e30
    """Epsilon beyond which none is looked for."""
    lowest: float = -60.0
    """Stands in for log(delta(x) / delta) where delta(x) vanishes."""


TUNING = Tuning()


def epsilon_at(delta: float, curve: Callable[[float], Bracket], guess: float = 1.0) -> Bracket:
    """Return the bracket of the smallest epsilon >= 0 whose delta is at most `delta`.

    Requires: the truth inside `curve(x)` does not rise with x and reaches `delta`.
    Ensures: curve(upper).upper <= delta, and curve(lower).lower > delta unless lower is 0. Where a curve ends flat at
    just delta, as an outright failure does, upper is where that begins.
    """
    seen: dict[float, Bracket] = {}

    def at(x: float) -> Bracket:
        if x not in seen:
            seen[x] = curve(x)
        return seen[x]

    def upper(x: float) -> float:
        return _height(at(x).upper, delta)

    def lower(x: float) -> float:
        return _height(at(x).lower, delta)

    if upper(0.0) <= 0.0:
        return Bracket(0.0, 0.0)
    high = crossing(upper, 0.0, _beyond(upper, max(guess, 1e-9), delta), keep_left=False)
    if lower(0.0) <= 0.0:
        return Bracket(0.0, high)
    return Bracket(crossing(lower, 0.0, high, keep_left=True), high)


def _height(value: float, delta: float) -> float:
    return max(math.log(value / delta), TUNING.lowest) if value > 0.0 else TUNING.lowest


def _beyond(height: Callable[[float], float], start: float, delta: float) -> float:
    while height(start) > 0.0:
        start *= 2.0
        if start > TUNING.largest:
            raise Unattainable(f"no epsilon brings delta down to {delta!r} for these uses")
    return start


def crossing(height: Callable[[float], float], left: float, right: float, *, keep_left: bool) -> float:
    """Return a point just left (height > 0) or just right (height <= 0) of where the falling height crosses 0."""
    f_left, f_right = height(left), height(right)
    if keep_left and f_right > 0.0:
        return right
    weight_left, weight_right = f_left, f_right
    side = 0
    for step in range(TUNING.most_steps):
        if right - left <= 4 * math.ulp(right) or (
            f_left <= TUNING.close if keep_left else -TUNING.close <= f_right < 0.0
        ):
            break
        point = left + (right - left) * weight_left / (weight_left - weight_right)
        if step % TUNING.halve_every == TUNING.halve_every - 1 or not left < point < right:
            point = 0.5 * (left + right)
        elif keep_left:
            point = max(left + 0.5 * math.ulp(right), point - 2 * math.ulp(right))
        else:
            point = min(right - 0.5 * math.ulp(right), point + 2 * math.ulp(right))
        value = height(point)
        if value > 0.0:
            left, f_left, weight_left = point, value, value
            weight_right = weight_right / 2 if side == 1 else f_right  # the Illinois remedy against a stuck end
            side = 1
        else:
            right, f_right, weight_right = point, value, value
            weight_left = weight_left / 2 if side == -1 else f_left
            side = -1
    return left if keep_left else right

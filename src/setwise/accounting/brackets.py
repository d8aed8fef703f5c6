"""Certified intervals around numbers that cannot be computed exactly, and what a composition answers.

First directed rounding and the inverse of a curve of delta over epsilon; then the kinds of interaction, what is asked
of a composition (`Target`), how much work an answer is worth (`Effort`), and the answer (`CertifiedBound`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache
from typing import Literal

from setwise.accounting.checks import check_choice
from setwise.errors import InvalidParameter, Unattainable


@dataclass(frozen=True, slots=True)
class Bracket:
    """A certified [lower, upper]: the truth is inside.

    The upper end is what is promised; the lower end says how much could still be gained.

    >>> Bracket(0.25, 0.5).width
    0.25
    >>> 0.3 in Bracket(0.25, 0.5)
    True
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise InvalidParameter(f"a bracket needs lower <= upper, not [{self.lower}, {self.upper}]")

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    @property
    def width(self) -> float:
        """The distance between the ends."""
        return self.upper - self.lower

    @property
    def relative_width(self) -> float:
        """The width over the upper end; 0 when both ends are 0."""
        return self.width / self.upper if self.upper else 0.0

    def overlaps(self, other: "Bracket") -> bool:
        """Whether some number lies in both."""
        return self.lower <= other.upper and other.lower <= self.upper


UNIT = 2.0**-53
"""Half the distance between 1 and the next float: the relative error of one correctly rounded operation."""

ELEMENTARY = 8.0
"""Units charged for one call of exp, expm1, log, log1p, sqrt."""

SPECIAL = 1000.0
"""Units charged for one call of erfc, erfcx, ndtr: about 1e-13, the accuracy documented for them."""


def up(value: float) -> float:
    """Return the next float above."""
    return math.nextafter(value, math.inf)


def down(value: float) -> float:
    """Return the next float below."""
    return math.nextafter(value, -math.inf)


def float_below(exact: Fraction) -> float:
    """Return the largest float that is at most `exact`.

    >>> Fraction(float_below(Fraction(1, 10))) <= Fraction(1, 10)
    True
    """
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else down(nearest)


def float_above(exact: Fraction) -> float:
    """Return the smallest float that is at least `exact`."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else up(nearest)


def cover_rounding(value: float) -> float:
    """Return the value raised by 32 units: more than the few roundings and elementary functions behind it lost."""
    return value * (1.0 + 4 * ELEMENTARY * UNIT)


def sum_above(first: float, second: float) -> float:
    """Return the sum of two floats, rounded up only where it is not exact.

    >>> sum_above(0.0, 1e-6), sum_above(1.0, 1e-20) > 1.0
    (1e-06, True)
    """
    total = first + second
    return total if Fraction(total) >= Fraction(first) + Fraction(second) else up(total)


def probability(value: float, error: float) -> Bracket:
    """Return the bracket of a probability computed as `value` with at most `error` of absolute error.

    Where either is not a number, the bracket is [0, 1].
    """
    if math.isnan(value) or math.isnan(error):
        return Bracket(0.0, 1.0)
    lower = max(0.0, min(1.0, down(value - error))) if value > error else 0.0
    return Bracket(lower, max(lower, min(1.0, up(value + error))) if value + error > 0.0 else 0.0)


def either_fails(first: Bracket, second: Bracket) -> Bracket:
    """Return 1 - (1 - a)(1 - b), written without cancellation: either of two independent failures.

    >>> either_fails(Bracket(0.0, 0.0), Bracket(0.25, 0.25))
    Bracket(lower=0.25, upper=0.25)
    """
    if first.upper == 0.0:
        return second
    if second.upper == 0.0:
        return first
    lower = first.lower + (1.0 - first.lower) * second.lower
    upper = first.upper + (1.0 - first.upper) * second.upper
    return Bracket(max(0.0, lower * (1 - 4 * UNIT)), min(1.0, upper * (1 + 4 * UNIT)))


def any_fails(deltas: Sequence[tuple[float, int]]) -> Bracket:
    """Return 1 - prod (1 - delta_i)^count_i: the chance that any of several independent failures happens.

    >>> any_fails([])
    Bracket(lower=0.0, upper=0.0)
    """
    failing = [(delta, count) for delta, count in deltas if delta > 0.0]
    if len(failing) == 1 and failing[0][1] == 1:
        return Bracket(failing[0][0], failing[0][0])
    exponent = sum(count * math.log1p(-delta) for delta, count in failing)
    if exponent == 0.0:
        return Bracket(0.0, 0.0)
    value = -math.expm1(exponent)
    return probability(value, value * (len(deltas) + 2 * ELEMENTARY) * UNIT)


@dataclass(frozen=True, slots=True)
class CrossingConfig:
    """When a search for a crossing ends. What is returned was evaluated, whatever these numbers are."""

    most_steps: int = 200
    """Evaluations; a dozen is usual."""
    close: float = 1e-13
    """Distance of log delta from the target's at which a point is near enough: about its rounding."""
    halve_every: int = 6
    """Steps of which one is a bisection, so that a curve with a jump is enclosed as well."""
    first_lower: float = 0.99
    """Share of the upper end at which the search for the lower end begins; from 0 where that is too much."""
    largest: float = 1e30
    """Epsilon beyond which none is looked for."""
    lowest: float = -60.0
    """Stands in for log(delta(x) / delta) where delta(x) vanishes."""


CONFIG = CrossingConfig()


def epsilon_at(delta: float, curve: Callable[[float], Bracket], guess: float = 1.0) -> Bracket:
    """Return the bracket of the smallest epsilon >= 0 whose delta is at most `delta`.

    Requires: the truth inside `curve(x)` does not rise with x and reaches `delta`.
    Ensures: curve(upper).upper <= delta, and curve(lower).lower > delta unless lower is 0. Where a curve ends flat at
    just delta, as an outright failure does, upper is where that begins.
    """
    at = cache(curve)
    return epsilon_between(delta, lambda x: at(x).upper, lambda x: at(x).lower, guess, near=0.0)


def epsilon_between(
    delta: float, upper: Callable[[float], float], lower: Callable[[float], float], guess: float, near: float
) -> Bracket:
    """Return what `epsilon_at` does where the ends of a curve are read one by one, each end to the share `near`."""

    @cache
    def from_above(x: float) -> float:
        return _height(upper(x), delta)

    @cache
    def from_below(x: float) -> float:
        return _height(lower(x), delta)

    if from_above(0.0) <= 0.0:
        return Bracket(0.0, 0.0)
    high = crossing(from_above, *_enclosed(from_above, max(guess, 1e-9), delta), keep_left=False, near=near)
    below = next((low for low in (CONFIG.first_lower * high, 0.0) if from_below(low) > 0.0), None)
    return Bracket(0.0 if below is None else crossing(from_below, below, high, keep_left=True, near=near), high)


def _height(value: float, delta: float) -> float:
    return max(math.log(value / delta), CONFIG.lowest) if value > 0.0 else CONFIG.lowest


def _enclosed(height: Callable[[float], float], start: float, delta: float) -> tuple[float, float]:
    """Return a point where the height is positive and one where it is not, by doubling from the start."""
    left = 0.0
    while height(start) > 0.0:
        left, start = start, 2.0 * start
        if start > CONFIG.largest:
            raise Unattainable(f"no epsilon brings delta down to {delta!r} for these uses")
    return left, start


def crossing(
    height: Callable[[float], float], left: float, right: float, *, keep_left: bool, near: float = 0.0
) -> float:
    """Return a point just left (height > 0) or just right (height <= 0) of where the falling height crosses 0.

    It is at most a share `near` away from there, or as near as floats are, or `CONFIG.close` in height.
    """
    f_left, f_right = height(left), height(right)
    if keep_left and f_right > 0.0:
        return right
    weight_left, weight_right = f_left, f_right
    side = 0
    for step in range(CONFIG.most_steps):
        if right - left <= max(4 * math.ulp(right), near * right) or (
            f_left <= CONFIG.close if keep_left else -CONFIG.close <= f_right < 0.0
        ):
            break
        point = left + (right - left) * weight_left / (weight_left - weight_right)
        if step % CONFIG.halve_every == CONFIG.halve_every - 1 or not left < point < right:
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


Progress = Callable[[float], None]
"""A function that a long computation calls with the share done, from 0 to 1."""


def quiet(_: float) -> None:
    """Report no progress."""


class Interaction(StrEnum):
    """What an analyst may decide after seeing earlier answers.

    Each kind allows all that the one before it allows, so a bound for a later kind holds for the earlier ones.
    """

    BATCH = "batch"
    """Every mechanism is chosen up front."""
    ORDERED = "ordered"
    """Parameters come in a fixed order; each mechanism may depend on earlier answers."""
    SETWISE = "setwise"
    """Parameters are drawn from a preregistered multiset in any order; order and mechanisms may depend on answers."""
    ADAPTIVE = "adaptive"
    """Parameters too are chosen on the fly; a filter stops the analyst at the budget."""

    @classmethod
    def parse(cls, value: "str | Interaction") -> "Interaction":
        """Return the interaction of that name or raise `InvalidParameter`."""
        return check_choice("interaction", value, cls)


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked of a composition: the delta at the epsilon `given`, or the epsilon at the delta `given`."""

    wanted: Literal["delta", "epsilon"]
    given: float

    def point(self, answer: float) -> tuple[float, float]:
        """Return epsilon and delta when the answer is `answer`."""
        return (self.given, answer) if self.wanted == "delta" else (answer, self.given)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work an answer is worth: the relative width that grids aim for when none is asked for.

    A bracket that is no wider than `enough` is not compared with other bounds and weaker interactions. `progress` is
    told the share done. Without `pricing`, no draws of many parameters are priced, which takes seconds.
    """

    width: float = 1e-3
    enough: float = 1e-2
    progress: Progress = quiet
    pricing: bool = True


USUAL = Effort()
"""What an answer is worth unless something else is said."""


@dataclass(frozen=True, slots=True)
class CertifiedBound:
    """What a composition answers: a certified bracket of an epsilon or a delta, and what the bracket rests on.

    `upper` is what is promised. `lower` is reached by some analyst, so the difference is what a better proof could
    still gain. `interaction` says what the analyst may decide on the way, `method` names the computation, and
    `statement` the theorem or the section of the documentation with its proof.
    """

    lower: float
    upper: float
    interaction: Interaction
    method: str
    statement: str

    @property
    def bracket(self) -> Bracket:
        """The bare bracket."""
        return Bracket(self.lower, self.upper)

    @property
    def width(self) -> float:
        """The distance between the ends."""
        return self.upper - self.lower

    def to_dict(self, *, epsilon: float | None = None, delta: float | None = None) -> dict[str, object]:
        """Return the JSON object of a composition: the epsilon found for a delta, or the delta for an epsilon."""
        found = {"lower": self.lower, "upper": self.upper}
        return {
            "interaction": str(self.interaction),
            "epsilon": found if epsilon is None else {"lower": epsilon, "upper": epsilon},
            "delta": found if delta is None else {"lower": delta, "upper": delta},
            "method": self.method,
            "statement": self.statement,
        }

"""Certified brackets of numbers that floats only approximate: outward rounding, bisection, results of compositions.

The question that a composition answers is a `Target`, the work to spend on the answer an `Effort`, and the answer a
`CertifiedBound`. The module also has directed rounding, the inverse of delta as a function of epsilon, and the kinds of
interaction with an analyst.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Literal

from setwise.accounting.checks import check_choice
from setwise.errors import InvalidParameter, Unattainable

if TYPE_CHECKING:
    from setwise.contract import BracketRecord, CompositionRecord


@dataclass(frozen=True, slots=True)
class Bracket:
    """A certified interval [lower, upper] that contains the true value.

    The true value is an epsilon, a delta or a probability. The upper end is what is promised. The lower end shows how
    far a better proof could lower the upper end.

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
        """Length of the bracket: its upper end minus its lower end."""
        return self.upper - self.lower

    @property
    def relative_width(self) -> float:
        """Length of the bracket divided by its upper end; 0 if both ends are 0."""
        return self.width / self.upper if self.upper else 0.0

    def overlaps(self, other: "Bracket") -> bool:
        """Return whether some number lies both in this bracket and in the bracket `other`."""
        return self.lower <= other.upper and other.lower <= self.upper


UNIT = 2.0**-53
"""Half the distance between 1 and the next float: the relative error of one correctly rounded operation."""

ELEMENTARY = 8.0
"""Relative error assumed for one call of exp, expm1, log, log1p or sqrt, in multiples of `UNIT`."""

SPECIAL = 1000.0
"""Relative error assumed for one call of erfc, erfcx or ndtr, in multiples of `UNIT`: about 1e-13, their documented
accuracy."""


def up(value: float) -> float:
    """Return the next float above `value`, so that an upper bound stays one although `value` was rounded."""
    return math.nextafter(value, math.inf)


def down(value: float) -> float:
    """Return the next float below `value`, so that a lower bound stays one although `value` was rounded."""
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
    """Return an upper bound on the exact value of a number that was computed as `value` in a few operations.

    The bound is `value` times 1 + 32 * 2^-53, more than the rounding errors of a few sums, products and elementary
    functions (such as exp).

    Requires: the exact value is at least 0.
    """
    return value * (1.0 + 4 * ELEMENTARY * UNIT)


def sum_above(first: float, second: float) -> float:
    """Return the sum of the floats `first` and `second`, rounded up if it is not exact.

    >>> sum_above(0.0, 1e-6), sum_above(1.0, 1e-20) > 1.0
    (1e-06, True)
    """
    total = first + second
    return total if Fraction(total) >= Fraction(first) + Fraction(second) else up(total)


def probability(value: float, error: float) -> Bracket:
    """Return a bracket for a probability that was computed as `value` with an absolute error of at most `error`.

    The bracket (a certified interval) goes from `value` - `error` to `value` + `error`, but not beyond [0, 1]. The
    result is [0, 1] if `value` or `error` is NaN.
    """
    if math.isnan(value) or math.isnan(error):
        return Bracket(0.0, 1.0)
    lower = max(0.0, min(1.0, down(value - error))) if value > error else 0.0
    return Bracket(lower, max(lower, min(1.0, up(value + error))) if value + error > 0.0 else 0.0)


def either_fails(first: Bracket, second: Bracket) -> Bracket:
    """Return a bracket for 1 - (1 - a)(1 - b), the probability that at least one of two independent failures happens.

    `first` is a bracket for the probability a of one failure, `second` for the probability b of the other. The
    computation loses no digits to cancellation.

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
    """Return a bracket for 1 - prod (1 - delta_i)^count_i, the probability that at least one of many failures happens.

    `deltas` are pairs (delta_i, count_i): a probability, and the number of independent failures that have it.

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
    """Constants of the search for the epsilon at which delta, a falling function of epsilon, has a wanted value.

    The search looks for the epsilon at which log(delta / wanted delta) crosses 0. The result is a bracket, whose ends
    are just left and just right of the crossing. Both ends were evaluated, so no proof depends on these numbers. The
    text below each constant says what it decides.
    """

    most_steps: int = 200
    """Largest number of evaluations; a dozen is usual."""
    close: float = 1e-13
    """An epsilon is close enough to the crossing if log(delta / wanted delta) is at most this, which is about its
    rounding error."""
    halve_every: int = 6
    """One in this many steps halves the interval, so that the search also ends if delta has a jump."""
    first_lower: tuple[float, ...] = (1.0 - 1e-7, 0.99)
    """The search for the lower end starts at the first of these shares of the upper end at which delta is still above
    the wanted delta, or at 0. The first share saves evaluations where upper and lower bounds on delta nearly agree."""
    first_step: float = 0.01
    """First step from the caller's guess towards an epsilon on the other side of the crossing, as a share of the
    guess."""
    lower_near: float = 30.0
    """Relative accuracy of the lower end of a bracket, as a multiple of that of the upper end."""
    largest: float = 1e30
    """Largest epsilon that is tried."""
    lowest: float = -60.0
    """Smallest value of log(delta / wanted delta) that the search works with; it stands for -infinity where delta is
    0."""


CONFIG = CrossingConfig()


def epsilon_at(delta: float, curve: Callable[[float], Bracket], guess: float = 1.0) -> Bracket:
    """Return a bracket for the smallest epsilon >= 0 whose delta is at most `delta`.

    `curve` maps an epsilon to a bracket for its delta, and `guess` is the epsilon where the search starts.

    Requires: the true delta inside `curve(x)` does not rise with x and reaches `delta`.
    Ensures: curve(upper).upper <= delta, and curve(lower).lower > delta unless lower is 0. If the curve is constant and
    equal to delta from some epsilon on, upper is that epsilon.
    Raises: `Unattainable` if no epsilon up to 1e30 brings delta down to `delta`.
    """
    # If the curve is constant and equal to delta from some epsilon on, because only outright failures (in which
    # everything may be revealed) remain, upper is that epsilon.
    at = cache(curve)
    return epsilon_between(delta, lambda x: at(x).upper, lambda x: at(x).lower, guess, near=0.0)


def epsilon_between(
    delta: float, upper: Callable[[float], float], lower: Callable[[float], float], guess: float, near: float
) -> Bracket:
    """Return a bracket for the smallest epsilon >= 0 whose delta is at most `delta`, from two bounds on delta.

    - `upper` and `lower` map an epsilon to an upper and a lower bound on its delta.
    - `guess` is the epsilon where the search starts.
    - `near` is the relative accuracy of the upper end. The lower end has only the accuracy `CONFIG.lower_near` times
      `near`, because no promise depends on it.

    Raises: `Unattainable` if no epsilon up to 1e30 brings `upper` down to `delta`.
    """
    # The upper end is promised; no promise depends on the lower end.

    @cache
    def from_above(x: float) -> float:
        """Return log(d / `delta`), where d is the upper bound on delta at the epsilon `x`.

        `delta`, a variable of the function around this one, is the wanted delta. The result falls with `x`. The
        function around this one searches for the `x` at which the result is 0, and returns this epsilon as the upper
        end of a bracket.
        """
        return _height(upper(x), delta)

    @cache
    def from_below(x: float) -> float:
        """Return log(d / `delta`), where d is the lower bound on delta at the epsilon `x`.

        `delta`, a variable of the function around this one, is the wanted delta. The result falls with `x`. The
        function around this one searches for the `x` at which the result is 0, and returns this epsilon as the lower
        end of a bracket.
        """
        return _height(lower(x), delta)

    if from_above(0.0) <= 0.0:
        return Bracket(0.0, 0.0)
    high = crossing(from_above, *_enclose_root(from_above, max(guess, 1e-9), delta), keep_left=False, near=near)
    lower_near = CONFIG.lower_near * near
    below = next((share * high for share in (*CONFIG.first_lower, 0.0) if from_below(share * high) > 0.0), None)
    return Bracket(0.0 if below is None else crossing(from_below, below, high, keep_left=True, near=lower_near), high)


def _height(value: float, delta: float) -> float:
    """Return log(value / delta), where `value` is a computed delta and `delta` the wanted one.

    A search for the epsilon with the wanted delta looks for the zero of this number, which is positive if the computed
    delta is too large. The result is at least `CONFIG.lowest`, so that it is finite if `value` is 0.
    """
    return max(math.log(value / delta), CONFIG.lowest) if value > 0.0 else CONFIG.lowest


def _enclose_root(height: Callable[[float], float], start: float, delta: float) -> tuple[float, float]:
    """Return (left, right), two epsilons between which `height`, a falling function of epsilon, crosses 0.

    The caller then narrows this interval down to the epsilon at which delta has the wanted value: `height` is positive
    where delta is above the wanted `delta`, and negative where delta is below. At right, `height` is 0 or negative. At
    left, it is positive, unless left is 0. The search begins at the epsilon `start` and walks away from it in growing
    steps. The message of the error states `delta`, which has no other use here.

    Raises: `Unattainable` if `height` is still positive at `CONFIG.largest`.
    """
    # The first step is the share `CONFIG.first_step` of `start`, so that a good guess is enclosed closely. Each step is
    # four times the one before.
    left = right = start
    step = CONFIG.first_step
    if height(start) <= 0.0:
        while height(left) <= 0.0:
            if step >= 1.0:
                return 0.0, right
            left, right = left * (1.0 - step), left
            step *= 4.0
        return left, right
    while height(right) > 0.0:
        left, right = right, right * (1.0 + min(step, 1.0))
        step *= 4.0
        if right > CONFIG.largest:
            raise Unattainable(f"no epsilon brings delta down to {delta!r} for these uses; ask for a larger delta")
    return left, right


def crossing(
    height: Callable[[float], float], left: float, right: float, *, keep_left: bool, near: float = 0.0
) -> float:
    """Return a point just left or just right of the zero of the falling function `height`, between `left` and `right`.

    - `keep_left`: True returns a point just left of the zero, where `height` is still positive (or `right` if `height`
      is positive there too). False returns a point just right of the zero, where `height` is no longer positive.
    - `near` is the largest distance from the zero that is accepted, as a share of `right`; 0 asks for the accuracy of
      floats.

    Callers need the right side if the result is promised: a point on the wrong side would not keep the promise.

    >>> crossing(lambda x: 1.0 - x, 0.0, 2.0, keep_left=True) < 1.0
    True
    >>> crossing(lambda x: 1.0 - x, 0.0, 2.0, keep_left=False) >= 1.0
    True
    """
    # The search narrows an interval that contains the crossing. It ends when the interval is no longer than `near`
    # times its right end, or than a few units in the last place, or when the height at the point is within
    # `CONFIG.close` of 0.
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
            weight_right = weight_right / 2 if side == 1 else f_right  # Illinois method: keeps the other end moving
            side = 1
        else:
            right, f_right, weight_right = point, value, value
            weight_left = weight_left / 2 if side == -1 else f_left
            side = -1
    return left if keep_left else right


Progress = Callable[[float], None]
"""A function that a long computation calls with the share of work done, from 0 to 1."""


def quiet(_: float) -> None:
    """Do nothing: the progress callback (called with the share of work done) for callers who want no reports."""


class Interaction(StrEnum):
    """What an analyst may decide after seeing earlier answers. Bounds hold for the worst analyst, the adversary.

    - batch: nothing. The analyst chooses all mechanisms up front.
    - ordered: which mechanism to use next. The parameters of the mechanisms, such as their epsilons, come in an order
      that was fixed up front.
    - set-wise: also in which order the parameters come. How often each parameter comes was fixed up front.
    - adaptive: also the parameters themselves, as long as a budget allows them.

    Each kind allows everything that the kind before it allows, so a bound for a later kind also holds for earlier ones.
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
        """Return the interaction named `value`: "batch", "ordered", "setwise" or "adaptive".

        A value that is an `Interaction` already is returned unchanged.

        Raises: `InvalidParameter` for any other name.
        """
        return check_choice("interaction", value, cls)


@dataclass(frozen=True, slots=True)
class Target:
    """The question that a composition answers: the delta at the epsilon `given`, or the epsilon at the delta `given`.

    `wanted` is "delta" or "epsilon".
    """

    wanted: Literal["delta", "epsilon"]
    given: float

    def point(self, answer: float) -> tuple[float, float]:
        """Return (epsilon, delta): one is `answer`, the number that this target asks for, and the other is `given`.

        >>> Target(wanted="epsilon", given=1e-6).point(0.5)
        (0.5, 1e-06)
        """
        return (self.given, answer) if self.wanted == "delta" else (answer, self.given)


@dataclass(frozen=True, slots=True)
class Effort:
    """How narrow a bracket (a certified interval for an epsilon or a delta) should be, and how much work it may take.

    A width is the length of a bracket divided by its upper end.

    - `width` is what computations on a grid of epsilons aim for if the caller asks for no width.
    - `enough`: several proven bounds are computed one after another, until the width is at most this.
    - `progress` is called with the share of work done, from 0 to 1.
    - `pricing`: True also computes an upper bound that takes seconds, for bounded-range uses of many epsilons.
    - `one_gaussian`: many bounded-range uses of one epsilon have a quick bound, in which one Gaussian mechanism
      replaces them. If its width is at most this, no slower bound is computed; 0 always computes the slower bound.
    - `tolerance`: to save time, privacy losses may be rounded to equally spaced values. The rounding may raise their
      variance by at most this share; None takes the default.
    """

    width: float = 1e-3
    enough: float = 1e-2
    progress: Progress = quiet
    pricing: bool = True
    one_gaussian: float = 0.0
    tolerance: float | None = None


USUAL = Effort()
"""The default effort."""


@dataclass(frozen=True, slots=True)
class CertifiedBound:
    """The result of a composition: a certified bracket for an epsilon or a delta, and its proof.

    - `upper` is what is promised.
    - `lower`: with some mechanisms that satisfy the guarantees, and some adversary who chooses among them, the epsilon
      or delta is at least this, so no proof could lower `upper` below `lower`. A `lower` of 0 says nothing.
    - `interaction` says what an adversary may decide on the fly.
    - `method` names the computation.
    - `statement` names the theorem, or the section of the documentation, that proves it.
    """

    lower: float
    upper: float
    interaction: Interaction
    method: str
    statement: str

    @property
    def bracket(self) -> Bracket:
        """The certified lower and upper bound on the composition's epsilon or delta, as a `Bracket`."""
        return Bracket(self.lower, self.upper)

    @property
    def width(self) -> float:
        """Length of the certified bracket for epsilon or delta: its upper end minus its lower end."""
        return self.upper - self.lower

    def to_dict(self, *, epsilon: float | None = None, delta: float | None = None) -> "CompositionRecord":
        """Return the bound as a JSON object: brackets of epsilon and delta, the interaction, the method and its proof.

        Give exactly one of `epsilon` and `delta`: the number at which the other one was bounded. For example, if this
        is a bound on epsilon at delta 1e-6, give `delta=1e-6`. Then the bracket of epsilon has this bound's `lower` and
        `upper`, and the bracket of delta has 1e-6 as both ends.
        """
        bracket: BracketRecord = {"lower": self.lower, "upper": self.upper}
        return {
            "interaction": str(self.interaction),
            "epsilon": bracket if epsilon is None else {"lower": epsilon, "upper": epsilon},
            "delta": bracket if delta is None else {"lower": delta, "upper": delta},
            "method": self.method,
            "statement": self.statement,
        }

"""One proven bound on delta and epsilon: how it is evaluated, inverted, cached and intersected with others.

A `Bound` answers one `Target`: the delta at an epsilon, or the epsilon at a delta. `linear_bound` covers uses with
fixed dominating pairs; most other bounds are made from it.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from setwise.accounting.brackets import Bracket, Effort, Target, epsilon_at
from setwise.accounting.classified_uses import ClassifiedUses
from setwise.accounting.guarantees import Gaussian, largest_loss
from setwise.accounting.losses.tilting import coarse_saddle
from setwise.accounting.promises import delta_too_small
from setwise.errors import Unattainable

LINEAR = "docs/optimal-composition.md, linear mechanisms"
"""The statement that proves the bound on uses with fixed dominating pairs."""

SMALL_LOSSES = "docs/optimal-composition.md, losses that hardly count"
"""The statement that proves the bounds in which uses with small losses enter by their sums."""

AnswerTarget = Callable[[Target, float | None], Bracket]
"""A function from a target and a relative width (None for the default) to a certified bracket for the wanted number."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One proven bound on the delta or epsilon of a composition of mechanisms.

    - `answer` computes the bound. The function maps a `Target` (which asks for the delta at an epsilon or the epsilon
      at a delta) and a wanted relative width to a bracket: a certified interval [lower, upper].
    - `method` and `statement` name the computation and its proof in results.
    - `tight`: whether the lower ends of the brackets are lower bounds too, that is, whether some adversary (with some
      mechanisms that satisfy the guarantees) attains them. If not, only the upper ends are used.
    - `preliminary`: whether this is a quick bound, which is usually followed by a better one.
    - `enough`: if a caller wants no particular width, bounds are computed one after another until the bracket is narrow
      enough. After this bound, a width of `enough`, relative to the upper end, is narrow enough. None leaves this to
      the caller's `Effort`: its field `width` after a preliminary bound, and its larger field `enough` after others.
    - `registered` is for bounds by a privacy filter, whose proof also covers parameters that are chosen on the fly. If
      all parameters were registered in advance, a simpler method and proof give the same bound, and results name them
      instead: `registered` is this pair (method, statement). None for other bounds.
    """

    # If `enough` is None, the width is `Effort.width` for a `preliminary` bound, and `Effort.enough` for any other
    # bound. Some bounds of privacy filters have `registered`.

    method: str
    statement: str
    tight: bool
    answer: AnswerTarget
    preliminary: bool = False
    enough: float | None = None
    registered: tuple[str, str] | None = None

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return the bracket (certified interval) that this bound gives for the delta of the composition at `epsilon`.

        `width` is the wanted width of the bracket, relative to its upper end; None takes the default.
        """
        return self.answer(Target("delta", epsilon), width)

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return the bracket (certified interval) that this bound gives for the epsilon of the composition at `delta`.

        `width` is the wanted width of the bracket, relative to its upper end; None takes the default.
        """
        return self.answer(Target("epsilon", delta), width)


class Solver(Hashable, Protocol):
    """Protocol of an object that computes brackets for the delta at an epsilon and for the epsilon at a delta.

    The delta and epsilon are those of the composition of some mechanisms. A bracket is a certified interval. The object
    is hashable, so that its results can be cached.
    """

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return a bracket (a certified interval) for the delta of this object's composition at `epsilon`.

        The composition is that of the mechanism uses which the object was made for. `width` is the wanted width of the
        bracket, relative to its upper end; None takes the default.
        """
        ...

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return a bracket (a certified interval) for the epsilon of this object's composition at `delta`.

        The composition is that of the mechanism uses which the object was made for. `width` is the wanted width of the
        bracket, relative to its upper end; None takes the default.
        """
        ...


def solved_by(solver: Solver) -> AnswerTarget:
    """Return a function (target, width) -> bracket that calls `solver`; a `Bound` keeps it in its field `answer`.

    A target asks for the delta at an epsilon or for the epsilon at a delta. `solver` has a method for each of the two,
    and the returned function calls the right one. A bracket is a certified interval. The width is relative to the
    bracket's upper end, or None for the default.
    """
    return lambda target, width: _solve(solver, target, width)


@lru_cache(maxsize=128)
def _solve(solver: Solver, target: Target, width: float | None) -> Bracket:
    """Return the bracket that `solver` computes for `target`: for the delta at an epsilon, or the epsilon at a delta.

    A bracket is a certified interval. `width` is its wanted width, relative to its upper end, or None for the default.
    Brackets are cached, because the bounds for different interactions (what an adversary may choose on the fly) often
    need the same bracket.
    """
    return solver.delta(target.given, width) if target.wanted == "delta" else solver.epsilon(target.given, width)


def from_curve(
    method: str,
    statement: str,
    curve: Callable[[float], Bracket],
    failure: Bracket,
    *,
    tight: bool,
    largest: float = math.inf,
    guess: Callable[[float], float] | None = None,
) -> Bound:
    """Return the bound, named by `method` and `statement`, whose bracket for delta at an epsilon is `curve(epsilon)`.

    The bracket for the epsilon at a delta is found by a search for the epsilon at which `curve` has that delta.

    - `failure` is a bracket for the probability of outright failure; for a delta below it the bound raises
      `Unattainable`.
    - `tight` says whether some adversary attains the lower ends of the brackets, so that they are lower bounds on the
      largest delta or epsilon.
    - `largest` is the largest privacy loss without an outright failure (in which everything may be revealed); no larger
      epsilon is returned.
    - `guess` maps a delta to an estimate of its epsilon, where the search for the epsilon starts; None starts it at
      epsilon = 1.
    """
    # The bracket for the epsilon at a delta is found by inverting `curve`, from `guess` on; a good guess saves
    # evaluations of a slow curve. Its upper end is at most `largest`.

    def answer(target: Target, _: float | None) -> Bracket:
        if target.wanted == "delta":
            return curve(target.given)
        if target.given < failure.lower:
            raise Unattainable(delta_too_small(target.given, failure.upper))
        start = 1.0 if guess is None or target.given <= failure.upper else guess(target.given - failure.upper)
        bracket = epsilon_at(target.given, curve, start)
        most = largest if failure.upper <= target.given else math.inf
        return Bracket(min(bracket.lower, most), min(bracket.upper, most))

    return Bound(method, statement, tight, answer)


def evaluate_bounds(
    bounds: Iterator[Bound], target: Target, width: float | None, effort: Effort, below: float = 0.0
) -> tuple[Bracket, Bound]:
    """Return the intersection of the brackets of `bounds` for `target`, and the bound with the smallest upper end.

    A bracket is a certified interval for the delta or epsilon that `target` asks for. Bounds are evaluated in order,
    until the intersection is narrow enough or its upper end is low enough.

    - `width` is the width that is narrow enough, relative to the upper end. If it is None, the bound that was evaluated
      last states this width (`Bound.enough`) or, if it states none, `effort` does.
    - `below` is the upper end that is low enough. Some callers only ask whether the delta or epsilon is at most a given
      number; they pass this number. 0 if the bracket itself is wanted.

    Raises: the `Unattainable` of the first bound, if every bound raises `Unattainable`.
    """
    # Without `width`: the `enough` of the bound evaluated last if it has one, else `effort.width` if it is preliminary,
    # else `effort.enough`.
    results: list[tuple[Bracket, Bound]] = []
    refusals: list[Unattainable] = []
    for bound in bounds:
        try:
            bracket = bound.answer(target, width)
        except Unattainable as refusal:
            refusals.append(refusal)
            continue
        results.append((bracket, bound))
        wanted_width = width or bound.enough or (effort.width if bound.preliminary else effort.enough)
        together = _intersection(results)
        if together.relative_width <= wanted_width or together.upper <= below:
            break
    if not results:
        raise refusals[0]
    return _intersection(results), min(results, key=lambda pair: pair[0].upper)[1]


def _intersection(results: Sequence[tuple[Bracket, Bound]]) -> Bracket:
    """Return the intersection of several brackets (certified intervals) for the same delta or epsilon.

    `results` are pairs of a bracket and the bound that gave it. The lower end of a bracket is used only if the field
    `tight` of its bound is True, because no adversary is known to attain the lower ends of other bounds.
    """
    upper = min(bracket.upper for bracket, _ in results)
    return Bracket(min(upper, max([0.0, *(bracket.lower for bracket, bound in results if bound.tight)])), upper)


def either(first: Bound, second: Bound) -> Bound:
    """Return a bound that evaluates `first`, and falls back on `second` if `first` raises `Unattainable`.

    Both must be bounds on the same mechanism uses. Results name the method and statement of `first`.
    """

    def answer(target: Target, width: float | None) -> Bracket:
        """Return the bracket of `first` for `target`, or of `second` if `first` raises `Unattainable`.

        The variables `first` and `second` of the function around this one are two bounds on the same uses; `second` is
        the fallback. `target` asks for a delta or an epsilon, and `width` is the wanted width of the bracket, relative
        to its upper end, or None for the default.
        """
        try:
            return first.answer(target, width)
        except Unattainable:
            return second.answer(target, width)

    return replace(first, answer=answer)


_SLOW_ATOMS = 300
"""From this many enumerated losses on, an evaluation of the exact delta takes so long that a good guess of epsilon,
which saves evaluations, is worth its millisecond."""


def linear_bound(kinds: ClassifiedUses, most_atoms: int | None = None, tolerance: float | None = None) -> Bound:
    """Return the bound on the delta and epsilon of those uses in `kinds` that have fixed dominating pairs.

    The bound is nearly exact. It holds whatever mechanisms and order an adversary chooses on the fly, because the delta
    of such uses is the same in every order.

    - `kinds` are mechanism uses, sorted by how they compose. Of the uses without a fixed dominating pair, only the
      probability of outright failure (in which everything may be revealed) is included.
    - `most_atoms` is the largest number of different privacy losses to enumerate; with more, losses are rounded to
      equally spaced values. None allows as many as take about a second.
    - `tolerance` is the share by which this rounding may raise the variance of the loss; None takes the default.
    """
    # The bound is valid whatever the analyst may choose on the fly: these uses act on privacy profiles as linear
    # operators that commute, so their order does not change delta. If there are more losses than `most_atoms`, they are
    # rounded to a lattice (equally spaced losses).
    from setwise.accounting.methods.exact import MOST_ATOMS, exact_linear, nearly_no_noise

    exact = exact_linear(kinds.linear, kinds.failure, MOST_ATOMS if most_atoms is None else most_atoms)
    if exact is None:
        from setwise.accounting.losses import pld

        lattice = pld.LatticeSum(kinds.linear, kinds.failure, tolerance or pld.CONFIG.tolerance)
        bound = Bound("privacy-loss-lattice", LINEAR, True, solved_by(lattice))
        certain = nearly_no_noise(kinds.linear, kinds.failure)
        return (
            bound
            if certain is None
            else either(from_curve("exact", LINEAR, certain.delta, kinds.failure, tight=True), bound)
        )
    if kinds.pure_epsilons() is not None:
        statement = "thm:opt_DPCOMP" if len(kinds.linear) == 1 and not kinds.failed else "MurtaghVa16"
    else:
        statement = "lem:AGM" if len(kinds.linear) == 1 and isinstance(kinds.linear[0][0], Gaussian) else LINEAR
    largest = largest_loss(kinds.linear)
    guess = coarse_saddle(kinds.linear).epsilon if exact.outer.size >= _SLOW_ATOMS else None
    return from_curve("exact", statement, exact.delta, kinds.failure, tight=True, largest=largest, guess=guess)

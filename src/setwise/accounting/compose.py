"""The front door: any mixture of uses, any interaction, the best proven bound.

>>> from setwise.accounting.guarantees import BoundedRange, PureDP
>>> both = compose([Use(PureDP(epsilon=0.1), 25), Use(BoundedRange(epsilon=0.1), 25)])
>>> answer = both.epsilon(1e-6)
>>> answer.lower < 2.4325 < answer.upper
True
>>> answer.interaction, answer.method
(<Interaction.SETWISE: 'setwise'>, 'certified-optimum')
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from setwise.accounting.answer import Answer, Interaction, Progress, quiet
from setwise.accounting.brackets import Bracket
from setwise.accounting.checks import check_delta, check_total_epsilon
from setwise.accounting.guarantees import BoundedRange, Guarantee, Use
from setwise.accounting.notation import as_uses
from setwise.errors import InvalidParameter, Unattainable

if TYPE_CHECKING:
    from setwise.accounting.bounds import Bound

_Ask = Callable[["Bound", float | None], Bracket]
"""What is asked of a bound: an epsilon or a delta, to a relative width or none."""

_NARROW = 0.01
"""A bracket of the optimum wider than this, relative to its upper end, is compared with the other bounds."""

_EXACT = 1e-9
"""A bracket narrower than this is not compared with those of other interactions."""

_MOST_COMPARED = 500
"""Bounded-range uses up to which lower ends are compared with those of weaker interactions."""


@dataclass(frozen=True, slots=True)
class Composition:
    """What a set of uses adds up to when an analyst interacts with it in the given way."""

    uses: tuple[Use, ...]
    interaction: Interaction
    progress: Progress = quiet

    def delta(self, epsilon: float, *, width: float | None = None) -> Answer:
        """Return the smallest delta for which the uses are together (epsilon, delta)-DP.

        With `width`, the bracket is no wider than that share of its upper end, or `Unattainable` says it cannot be.
        """
        x = check_total_epsilon(epsilon)
        return self._answer(lambda bound, width: bound.delta(x, width), _check_width(width))

    def epsilon(self, delta: float, *, width: float | None = None) -> Answer:
        """Return the smallest epsilon for which the uses are together (epsilon, delta)-DP.

        With `width`, the bracket is no wider than that share of its upper end, or `Unattainable` says it cannot be.
        """
        p = check_delta(delta)
        return self._answer(lambda bound, width: bound.epsilon(p, width), _check_width(width))

    def quick_delta(self, epsilon: float) -> Bracket:
        """Return a certified delta that is not compared with other interactions: for searches."""
        x = check_total_epsilon(epsilon)
        return self._certified(self.interaction, lambda bound, width: bound.delta(x, width), None)[0]

    def _answer(self, ask: _Ask, width: float | None) -> Answer:
        """Return the default answer where it is narrow enough, else one as narrow as asked for."""
        found = self._coherent(self._best(ask, None), ask)
        if width is None or found.width <= width * found.upper:
            return found
        finer = self._best(ask, width)
        lower = max(finer.lower, min(found.lower, finer.upper))
        return replace(finer if finer.upper <= found.upper else found, lower=lower)

    def _coherent(self, own: Answer, ask: _Ask) -> Answer:
        """Return the answer in line with those of other interactions.

        A stronger interaction allows all that a weaker one does, so its upper ends hold for the weaker, and the lower
        ends of the weaker for it. Upper ends are taken over. So are lower ends that are quick to have; a lower end that
        is above that of a stronger interaction, within the width of its bracket, is lowered to it.
        """
        if own.width <= _EXACT * own.upper:
            return own
        from setwise.accounting.bounds import closed_form

        order = list(Interaction)
        strength = order.index(self.interaction)
        ranges = sum(use.count for use in self.uses if isinstance(use.guarantee, BoundedRange))
        stronger = order[strength + 1 :] if ranges else [Interaction.ADAPTIVE]
        for other in stronger:
            if other is self.interaction:
                continue
            with contextlib.suppress(Unattainable):
                found, bound = self._certified(other, ask, None)
                if found.upper < own.upper:
                    own = replace(own, upper=found.upper, method=bound.method, statement=bound.statement)
                if other is not Interaction.ADAPTIVE:
                    own = replace(own, lower=min(own.lower, found.lower))
        if ranges > _MOST_COMPARED:
            return own
        for other in order[:strength]:
            with contextlib.suppress(Unattainable):
                if other is Interaction.SETWISE:
                    lower = self._certified(other, ask, None)[0].lower
                else:
                    exact = closed_form(self.uses, other)
                    lower = 0.0 if exact is None else ask(exact, None).lower
                own = replace(own, lower=max(own.lower, min(lower, own.upper)))
        return own

    def _best(self, ask: _Ask, width: float | None) -> Answer:
        """Return the answer for this interaction alone; known mechanisms stand in for a lower end that is missing."""
        from setwise.accounting.bounds import lower_bound

        best, bound = self._certified(self.interaction, ask, width)
        if best.lower == 0.0 < best.upper:
            with contextlib.suppress(Unattainable):
                best = Bracket(min(ask(lower_bound(self.uses), None).lower, best.upper), best.upper)
        if width is not None and best.relative_width > width:
            raise Unattainable(
                f"no proven bound for these uses has a relative width of {width:g}; leave it out to get the best"
            )
        return Answer(float(best.lower), float(best.upper), self.interaction, bound.method, bound.statement)

    def _certified(self, interaction: Interaction, ask: _Ask, width: float | None) -> "tuple[Bracket, Bound]":
        """Return what the bounds say together: of the first to bracket the optimum narrowly, else of all."""
        from setwise.accounting.bounds import bounds_for

        found: list[tuple[Bracket, Bound]] = []
        refusals: list[Unattainable] = []
        for bound in bounds_for(self.uses, interaction, self.progress):
            try:
                bracket = ask(bound, width)
            except Unattainable as refusal:
                refusals.append(refusal)
                continue
            found.append((bracket, bound))
            if _bracketed(found).relative_width <= (width or _NARROW):
                break
        if not found:
            raise refusals[0]
        return _bracketed(found), min(found, key=lambda pair: pair[0].upper)[1]


def _bracketed(found: "Sequence[tuple[Bracket, Bound]]") -> Bracket:
    """Return what the bounds say together: only tight ones have a lower end that some analyst reaches."""
    upper = min(bracket.upper for bracket, _ in found)
    return Bracket(min(upper, max([0.0, *(bracket.lower for bracket, bound in found if bound.tight)])), upper)


def _check_width(width: float | None) -> float | None:
    if width is not None and not 0.0 < width < 1.0:
        raise InvalidParameter(f"width must lie strictly between 0 and 1, not {width!r}")
    return width


def compose(
    uses: Iterable[Use | Guarantee | str],
    interaction: str | Interaction = Interaction.SETWISE,
    *,
    progress: Progress = quiet,
) -> Composition:
    """Return the composition of the uses under an interaction: ask it for `.epsilon(delta)` or `.delta(epsilon)`.

    `uses` are `Use` values, bare guarantees (one use each) or written forms such as ``"pure:0.1x25"``; their order
    matters only when `interaction` is "ordered". `progress` is called with the share done during long computations.
    """
    return Composition(as_uses(uses), Interaction.parse(interaction), progress)

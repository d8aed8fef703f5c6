"""The front door: any mixture of uses, any interaction, the best proven bound.

>>> from setwise.accounting.guarantees import BoundedRange, PureDP
>>> both = compose([Use(PureDP(epsilon=0.1), 25), Use(BoundedRange(epsilon=0.1), 25)])
>>> answer = both.epsilon(1e-6)
>>> answer.lower < 2.4325 < answer.upper
True
>>> answer.interaction, answer.method
(<Interaction.SETWISE: 'setwise'>, 'certified-optimum')
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from setwise.accounting.answer import Answer, Interaction, Progress, quiet
from setwise.accounting.bounds import Bound, bounds_for, lower_bound
from setwise.accounting.checks import check_delta, check_total_epsilon
from setwise.accounting.guarantees import Guarantee, Use
from setwise.accounting.intervals import Bracket
from setwise.accounting.notation import parse_use
from setwise.errors import InvalidParameter, Unattainable

_NARROW = 0.01
"""A bracket of the optimum wider than this, relative to its upper end, is compared with the other bounds."""


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
        _check_width(width)
        return self._best(lambda bound: bound.delta(x, width), lambda low: low.delta(x, None).lower, width)

    def epsilon(self, delta: float, *, width: float | None = None) -> Answer:
        """Return the smallest epsilon for which the uses are together (epsilon, delta)-DP.

        With `width`, the bracket is no wider than that share of its upper end, or `Unattainable` says it cannot be.
        """
        p = check_delta(delta)
        _check_width(width)
        return self._best(lambda bound: bound.epsilon(p, width), lambda low: low.epsilon(p, None).lower, width)

    def _best(
        self, ask: Callable[[Bound], Bracket], ask_lower: Callable[[Bound], float], width: float | None
    ) -> Answer:
        """Return the least upper bound: of the first to bracket the optimum narrowly together, else of all."""
        found: list[tuple[Bracket, Bound]] = []
        refusals: list[Unattainable] = []
        for bound in bounds_for(self.uses, self.interaction, self.progress):
            try:
                bracket = ask(bound)
            except Unattainable as refusal:
                if width is not None and bound.tight:
                    raise
                refusals.append(refusal)
                continue
            found.append((bracket, bound))
            if _bracketed(found).relative_width <= _NARROW:
                break
        if not found:
            raise refusals[0]
        best, bound = min(found, key=lambda pair: pair[0].upper)
        lower = _bracketed(found).lower
        if not any(source.tight for _, source in found):
            try:
                lower = min(ask_lower(lower_bound(self.uses)), best.upper)
            except Unattainable:
                lower = 0.0
        if width is not None and best.upper - lower > width * best.upper:
            raise Unattainable(
                f"no proven bound for these uses has a relative width of {width:g}; leave it out to get the best"
            )
        return Answer(float(lower), float(best.upper), self.interaction, bound.method, bound.statement)


def _bracketed(found: Sequence[tuple[Bracket, Bound]]) -> Bracket:
    """Return what the bounds say together: only tight ones have a lower end that some analyst reaches."""
    upper = min(bracket.upper for bracket, _ in found)
    return Bracket(min(upper, max([0.0, *(bracket.lower for bracket, bound in found if bound.tight)])), upper)


def _check_width(width: float | None) -> None:
    if width is not None and not 0.0 < width < 1.0:
        raise InvalidParameter(f"width must lie strictly between 0 and 1, not {width!r}")


def as_uses(uses: Iterable[Use | Guarantee | str]) -> tuple[Use, ...]:
    """Return uses from uses, bare guarantees and written forms such as ``pure:0.1x25``."""
    if isinstance(uses, str | Use):
        uses = [uses]
    found = []
    for use in uses:
        if isinstance(use, Use):
            found.append(use)
        elif isinstance(use, str):
            found.append(parse_use(use))
        else:
            found.append(Use(use))
    if not found:
        raise InvalidParameter("there is nothing to compose: give at least one use, such as pure:0.1x25")
    return tuple(found)


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

"""Compose any mixture of uses under any interaction, by the best proven bound.

>>> from setwise.accounting.guarantees import BoundedRange, PureDP
>>> both = compose([Use(PureDP(epsilon=0.1), 25), Use(BoundedRange(epsilon=0.1), 25)])
>>> answer = both.epsilon(1e-6)
>>> answer.lower < 2.4325 < answer.upper
True
>>> answer.interaction, answer.method
(<Interaction.SETWISE: 'setwise'>, 'certified-optimum')
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, overload

from setwise.accounting.brackets import Bracket, CertifiedBound, Effort, Interaction, Progress, Target, quiet
from setwise.accounting.checks import check_delta, check_total_epsilon
from setwise.accounting.guarantees import BoundedRange, Guarantee, Use
from setwise.accounting.notation import as_uses
from setwise.errors import InvalidParameter, Unattainable

if TYPE_CHECKING:
    from setwise.accounting.bounds import Bound, ClassifiedUses

_QUICK = Effort(width=1e-2, enough=0.1)
"""For searches: ten percent of delta is less than one of epsilon."""

_EXACT = 1e-9
"""A bracket narrower than this is not compared with those of other interactions."""

_MOST_PRICED = 4
"""Different bounded-range parameters of a batch up to which its upper end is compared with that of priced draws."""

_MOST_COMPARED = 500
"""Bounded-range uses up to which lower ends are compared with those of weaker interactions."""


@dataclass(frozen=True, slots=True)
class Composition:
    """What a set of uses adds up to when an analyst interacts with it in the given way."""

    uses: tuple[Use, ...]
    interaction: Interaction
    progress: Progress = quiet

    @overload
    def delta(self, epsilon: float, *, width: float | None = None) -> CertifiedBound: ...
    @overload
    def delta(self, epsilon: Iterable[float], *, width: float | None = None) -> tuple[CertifiedBound, ...]: ...
    def delta(
        self, epsilon: float | Iterable[float], *, width: float | None = None
    ) -> CertifiedBound | tuple[CertifiedBound, ...]:
        """Return the smallest delta for which the uses are together (epsilon, delta)-DP; one for each of several.

        With `width`, the bracket is no wider than that share of its upper end, or `Unattainable` says it cannot be.
        """
        if isinstance(epsilon, Iterable) and not isinstance(epsilon, str):
            return tuple(self.delta(each, width=width) for each in epsilon)
        return self._answer(Target("delta", check_total_epsilon(epsilon)), _check_width(width))

    @overload
    def epsilon(self, delta: float, *, width: float | None = None) -> CertifiedBound: ...
    @overload
    def epsilon(self, delta: Iterable[float], *, width: float | None = None) -> tuple[CertifiedBound, ...]: ...
    def epsilon(
        self, delta: float | Iterable[float], *, width: float | None = None
    ) -> CertifiedBound | tuple[CertifiedBound, ...]:
        """Return the smallest epsilon for which the uses are together (epsilon, delta)-DP; one for each of several.

        With `width`, the bracket is no wider than that share of its upper end, or `Unattainable` says it cannot be.
        """
        if isinstance(delta, Iterable) and not isinstance(delta, str):
            return tuple(self.epsilon(each, width=width) for each in delta)
        return self._answer(Target("epsilon", check_delta(delta)), _check_width(width))

    def quick_delta(self, epsilon: float) -> CertifiedBound:
        """Return a certified delta to a few percent, not compared with other interactions: for searches."""
        return self._best(Target("delta", check_total_epsilon(epsilon)), None, _QUICK)

    def quick_epsilon(self, delta: float) -> CertifiedBound:
        """Return a certified epsilon, not compared with other interactions, which could only lower it: for searches."""
        return self._best(Target("epsilon", check_delta(delta)), None, Effort(progress=self.progress))

    def compared(self, quick: CertifiedBound, epsilon: float) -> CertifiedBound:
        """Return what `quick_delta(epsilon)` found in line with the deltas of other interactions."""
        return self._coherent(quick, Target("delta", epsilon), _QUICK)

    def compared_epsilon(self, quick: CertifiedBound, delta: float) -> CertifiedBound:
        """Return what `quick_epsilon(delta)` found in line with other interactions: the same as `epsilon(delta)`."""
        return self._coherent(quick, Target("epsilon", delta), Effort(progress=self.progress))

    def _answer(self, target: Target, width: float | None) -> CertifiedBound:
        """Return the default answer where it is narrow enough, else one as narrow as asked for."""
        effort = Effort(progress=self.progress)
        found = self._coherent(self._best(target, None, effort), target, effort)
        if width is None or found.width <= width * found.upper:
            return found
        finer = self._best(target, width, effort)
        lower = max(finer.lower, min(found.lower, finer.upper))
        return replace(finer if finer.upper <= found.upper else found, lower=lower)

    def _coherent(self, own: CertifiedBound, target: Target, effort: Effort) -> CertifiedBound:
        """Return the answer in line with those of other interactions.

        A stronger interaction allows all that a weaker one does, so its upper ends hold for the weaker, and the lower
        ends of the weaker for it. Upper ends are taken over. So are lower ends that are quick to have; a lower end
        above that of a stronger interaction is lowered to it.
        """
        if own.width <= _EXACT * own.upper:
            return own
        order = list(Interaction)
        strength = order.index(self.interaction)
        if self.interaction is Interaction.BATCH and len(_classified(self.uses).ranges) > _MOST_PRICED:
            effort = replace(effort, pricing=False)  # adapting gains more than prices could take away
        ranges = sum(use.count for use in self.uses if isinstance(use.guarantee, BoundedRange))
        for other in order[strength + 1 :]:
            if other is Interaction.ADAPTIVE:
                worth_asking = self._filter_may_be_below(*target.point(own.upper))
            else:
                worth_asking = ranges > 0  # without bounded ranges interactions up to set-wise agree
            if worth_asking:
                own = self._below_stronger(own, other, target, effort)
        if ranges <= _MOST_COMPARED:
            for other in order[:strength]:
                own = self._above_weaker(own, other, target, effort)
        return own

    def _filter_may_be_below(self, epsilon: float, delta: float) -> bool:
        """Return whether a filter over all uses might promise epsilon at less than delta.

        Each use costs a filter at least twice its mean loss, so its bound is at least that of the Gaussian mechanism
        with mu^2 twice the sum of the means. Where rounding leaves that open, the filter is asked.
        """
        parameters = [(use.guarantee.zero_concentrated(), use.count) for use in self.uses]
        mu = math.sqrt(max(0.0, 2.0 * math.fsum(count * (each.xi + each.rho) for each, count in parameters)))
        if mu == 0.0 or epsilon > 700.0:
            return True
        above, below = (0.5 * math.erfc((epsilon / mu + side * mu / 2) * math.sqrt(0.5)) for side in (-1, 1))
        gaussian = above - math.exp(epsilon) * below
        return gaussian <= max(delta * (1.0 + 1e-6), 1e-6 * above)

    def _below_stronger(
        self, own: CertifiedBound, other: Interaction, target: Target, effort: Effort
    ) -> CertifiedBound:
        """Return the answer with the upper end of a stronger interaction, if that is lower."""
        try:
            found, bound = self._certified(other, target, None, effort)
        except Unattainable:
            return own
        if found.upper < own.upper:
            method, statement = bound.registered or (bound.method, bound.statement)
            own = replace(own, upper=found.upper, method=method, statement=statement)
        if other is not Interaction.ADAPTIVE:
            own = replace(own, lower=min(own.lower, found.lower))
        return own

    def _above_weaker(self, own: CertifiedBound, other: Interaction, target: Target, effort: Effort) -> CertifiedBound:
        """Return the answer with the lower end of a weaker interaction, if that is quick to have and higher."""
        from setwise.accounting.bounds import closed_form

        try:
            if other is Interaction.SETWISE:
                lower = self._certified(other, target, None, effort)[0].lower
            else:
                exact = closed_form(_classified(self.uses), other)
                lower = 0.0 if exact is None else exact.answer(target, None).lower
        except Unattainable:
            return own
        return replace(own, lower=max(own.lower, min(lower, own.upper)))

    def _best(self, target: Target, width: float | None, effort: Effort) -> CertifiedBound:
        """Return the answer for this interaction alone.

        Where bounds say little from below, the lower end is that of known mechanisms which satisfy the guarantees.
        """
        from setwise.accounting.bounds import lower_bound

        best, bound = self._certified(self.interaction, target, width, effort)
        if best.upper > 0.0 and best.relative_width > effort.enough:
            reached = lower_bound(_classified(self.uses)).answer(target, None).lower
            best = Bracket(max(best.lower, min(reached, best.upper)), best.upper)
        if width is not None and best.relative_width > width:
            raise Unattainable(
                f"no proven bound for these uses has a relative width of {width:g}; leave it out to get the best"
            )
        return CertifiedBound(float(best.lower), float(best.upper), self.interaction, bound.method, bound.statement)

    def _certified(
        self, interaction: Interaction, target: Target, width: float | None, effort: Effort
    ) -> "tuple[Bracket, Bound]":
        """Return what the bounds for an interaction say together, and the one with the least upper end."""
        from setwise.accounting.bounds import bounds_for, certified

        return certified(bounds_for(_classified(self.uses), interaction, effort), target, width, effort)


@lru_cache(maxsize=64)
def _classified(uses: tuple[Use, ...]) -> "ClassifiedUses":
    """Return the uses classified by how they compose, once for all interactions that are asked."""
    from setwise.accounting.bounds import classify

    return classify(uses)


def _check_width(width: float | None) -> float | None:
    if width is not None and not 0.0 < width < 1.0:
        raise InvalidParameter(f"width must lie strictly between 0 and 1, not {width!r}")
    return width


def compose(
    uses: Iterable[Use | Guarantee | str] | Use | Guarantee | str,
    interaction: str | Interaction = Interaction.SETWISE,
    *,
    progress: Progress = quiet,
) -> Composition:
    """Return the composition of the uses under an interaction: ask it for `.epsilon(delta)` or `.delta(epsilon)`.

    `uses` are `Use` values, bare guarantees (one use each) or written forms such as ``"pure:0.1x25"``, one or several;
    their order matters only when `interaction` is "ordered". `progress` is called with the share done during long
    computations.
    """
    return Composition(as_uses(uses), Interaction.parse(interaction), progress)

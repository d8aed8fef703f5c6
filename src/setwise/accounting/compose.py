"""Composition of any mixture of mechanism uses, under any interaction with the analyst, by the best proven bound.

>>> from setwise.accounting.guarantees import BoundedRange, PureDP
>>> both = compose([Use(PureDP(epsilon=0.1), 25), Use(BoundedRange(epsilon=0.1), 25)])
>>> answer = both.epsilon(1e-6)
>>> answer.lower < 2.4325 < answer.upper
True
>>> answer.interaction, answer.method
(<Interaction.SETWISE: 'setwise'>, 'certified-optimum')
"""

import contextlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, overload

from setwise.accounting.bound import SMALL_LOSSES
from setwise.accounting.brackets import (
    Bracket,
    CertifiedBound,
    Effort,
    Interaction,
    Progress,
    Target,
    down,
    quiet,
    up,
)
from setwise.accounting.checks import check_delta, check_total_epsilon
from setwise.accounting.guarantees import BoundedRange, Guarantee, Use
from setwise.accounting.notation import as_uses
from setwise.errors import InvalidParameter, Unattainable

if TYPE_CHECKING:
    from setwise.accounting.bound import Bound
    from setwise.accounting.classified_uses import ClassifiedUses

_QUICK = Effort(width=1e-2, enough=0.1)
"""Effort for searches: a change of delta by ten percent moves epsilon by less than one percent."""

_ONE_GAUSSIAN = 2.5e-3
"""Largest relative width of the bracket that a search for noise accepts from the bound by one Gaussian. Its upper end
was at most 0.15% above the usual one, because the lower end, reached without adapting, is as far away. That is less
than the 0.3% of epsilon which the search leaves unspent."""

_SEARCH_TOLERANCE = 1e-6
"""Share of the variance of the loss that rounding to a lattice may add in a search. It raises epsilon by a few parts in
a hundred thousand at most, and the lattice has a fifth of the usual number of losses."""

_EXACT = 1e-9
"""A bracket with a relative width below this is not compared with those of other interactions."""

_MOST_PRICED = 4
"""Largest number of distinct bounded-range parameters of a batch for which its upper end is compared with that of
priced draws."""

_MOST_COMPARED = 500
"""Largest number of bounded-range uses for which the lower end is compared with those of weaker interactions."""

_SMALL_SHARE = 0.02
"""Kinds of uses that together have at most this share of the whole rho are small: a set is compared with the sets that
remain without some of them. Larger kinds raise epsilon by more than the width of a bracket."""


_MOST_PARTS = 2
"""Largest number of such smaller sets that are composed, so that a set with small kinds takes no longer than three
compositions."""


@dataclass(frozen=True, slots=True)
class Composition:
    """The composition of `uses` (guarantees with counts) by an adversary who may decide some things on the fly.

    `interaction` says what the adversary, the worst-case analyst, may decide after seeing earlier answers: nothing
    (batch), the mechanisms (ordered), also their order (set-wise) or also their parameters (adaptive). `progress` is
    called with the share of work done during long computations.
    """

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
        """Return a certified bracket for the smallest delta at which the uses together are (epsilon, delta)-DP.

        For several epsilons the result is a tuple with one bound for each. `width` is the wanted width of the bracket,
        relative to its upper end; None accepts what the default computation gives.

        Raises: `Unattainable` if the bracket cannot be made as narrow as `width`.
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
        """Return a certified bracket for the smallest epsilon at which the uses together are (epsilon, delta)-DP.

        For several deltas the result is a tuple with one bound for each. `width` is the wanted width of the bracket,
        relative to its upper end; None accepts what the default computation gives.

        Raises: `Unattainable` if `delta` is not above the probability of outright failure (in which everything may be
        revealed), or if the bracket cannot be made as narrow as `width`.
        """
        if isinstance(delta, Iterable) and not isinstance(delta, str):
            return tuple(self.epsilon(each, width=width) for each in delta)
        return self._answer(Target("epsilon", check_delta(delta)), _check_width(width))

    def quick_delta(self, epsilon: float) -> CertifiedBound:
        """Return a certified bracket for the delta of the composition at `epsilon`, quickly.

        The bracket is for searches that evaluate many compositions, such as a search for the least noise within a
        budget. Bounds are tried until its width is at most ten percent of its upper end, or no further bound is known.
        Ten percent of delta change epsilon by less than one percent, which is enough for a search.
        """
        # To save time, the bracket is not tightened by bounds for other interactions (analysts who may choose more, or
        # less, on the fly); `compared` does that.
        return self._best(Target("delta", check_total_epsilon(epsilon)), None, _QUICK)

    def quick_epsilon(self, delta: float) -> CertifiedBound:
        """Return a certified bracket for the epsilon of the composition at `delta`, quickly, for searches.

        With hundreds of equal bounded-range uses, the upper end may be up to 0.25% above the upper end of
        `epsilon(delta)`, because the bound then replaces these uses by one Gaussian mechanism that reveals at least as
        much.
        """
        # To save time, the bracket is not tightened by bounds for other interactions (analysts who may choose more, or
        # less, on the fly); `compared_epsilon` does that.
        effort = Effort(progress=self.progress, one_gaussian=_ONE_GAUSSIAN, tolerance=_SEARCH_TOLERANCE)
        return self._best(Target("epsilon", check_delta(delta)), None, effort)

    def compared(self, quick: CertifiedBound, epsilon: float) -> CertifiedBound:
        """Return the bound `quick`, a result of `quick_delta(epsilon)`, made narrower by bounds for other interactions.

        An interaction is what an adversary may decide on the fly; from weakest to strongest the interactions are batch,
        ordered, set-wise and adaptive. An adversary with a stronger interaction can do all that an adversary with a
        weaker one can. So two kinds of bounds are valid for this composition too: upper bounds for a stronger
        interaction, and lower bounds for a weaker one.
        """
        return self._tighten(quick, Target("delta", epsilon), _QUICK)

    def compared_epsilon(self, quick: CertifiedBound, delta: float) -> CertifiedBound:
        """Return the bracket `quick` for the epsilon at `delta`, made narrower by bounds for other interactions.

        `quick` is a result of `quick_epsilon(delta)`. An interaction is what an adversary may decide after seeing
        answers; one who may decide more can reach at least the same epsilon. So the upper end of a bracket for a
        stronger interaction, and the lower end of one for a weaker interaction, hold for this composition too.

        The upper end of the result is slightly above the upper end of `epsilon(delta)`, which takes longer to compute:
        by at most 0.15% if `quick` replaces hundreds of bounded-range uses by one Gaussian, and otherwise by at most
        0.005%, because `quick` rounds privacy losses more coarsely.
        """
        # The upper end of a stronger interaction, and the lower end of a weaker one, are valid for this composition
        # too.
        return self._tighten(quick, Target("epsilon", delta), Effort(progress=self.progress))

    def _answer(self, target: Target, width: float | None) -> CertifiedBound:
        """Return the certified bound for the delta or epsilon that `target` asks for.

        The bound has a bracket: an interval that contains the worst value over all adversaries. This composition's
        interaction says what an adversary may decide after seeing answers. Bounds for other interactions make the
        bracket narrower. An adversary who may decide more can do everything that is possible here, so the upper end for
        this adversary is valid here too. Likewise, the lower end for an adversary who may decide less is valid here.

        `width` is the wanted width of the bracket, relative to its upper end. None accepts the bracket that the default
        computation gives.

        Raises: `Unattainable` if `width` cannot be reached.
        """
        effort = Effort(progress=self.progress)
        if width is None and (shifted := self._without_small_losses(target, effort)) is not None:
            return shifted
        default = self._not_below_parts(self._tighten(self._best(target, None, effort), target, effort), target)
        if width is None or default.width <= width * default.upper:
            return default
        finer = self._best(target, width, effort)
        lower = max(finer.lower, min(default.lower, finer.upper))
        return replace(finer if finer.upper <= default.upper else default, lower=lower)

    def _without_small_losses(self, target: Target, effort: Effort) -> CertifiedBound | None:
        """Return a bound in which uses of tiny loss only shift the epsilon of other uses; None if it does not apply.

        The other uses are computed on a grid, whose errors may be larger than the effect of one use of tiny loss.
        Without this bound, one more such use could therefore lower the result.

        Let s be the sum of the largest losses of the uses of tiny loss. If the caller asks for the epsilon at a delta,
        the result is the epsilon of the other uses plus s. If the caller asks for the delta at an epsilon, the result
        is the delta of the other uses at the smaller epsilon that is left after subtracting s.

        - `target` says what the caller asks for: an epsilon or a delta, and the other number.
        - `effort` says how narrow a bracket (a certified interval) must be.

        The bound does not apply if there are no uses of tiny loss, if parameters are chosen on the fly, or if `target`
        gives an epsilon of at most 2 s.

        Theorem: docs/optimal-composition.md, "Losses that hardly count".
        """
        # If `target` asks for an epsilon, the shift is added to the upper end. If it asks for a delta, the upper end is
        # the delta at the epsilon of `target` minus the shift. So one more use of tiny loss never lowers an upper end.
        # The bound does not apply if parameters are chosen on the fly (adaptive), or if the epsilon of `target` is at
        # most twice the shift.
        from setwise.accounting.bounds import small_losses_apart

        split = None if self.interaction is Interaction.ADAPTIVE else small_losses_apart(_classify(self.uses))
        if split is None:
            return None
        others, shift = split
        composition = Composition(others, self.interaction, self.progress)
        if target.wanted == "delta" and target.given <= 2.0 * shift:
            return None
        bound = composition._answer(target, None)
        if target.wanted == "epsilon":
            bound = replace(bound, upper=up(bound.upper + shift), statement=SMALL_LOSSES)
        else:
            above = composition._answer(Target("delta", down(target.given - shift)), None)
            bound = replace(above, lower=min(bound.lower, above.upper), statement=SMALL_LOSSES)
        if self._filter_may_be_below(*target.point(bound.upper)):
            bound = self._below_stronger(bound, Interaction.ADAPTIVE, target, effort)
        return replace(bound, lower=min(bound.lower, bound.upper))

    def _not_below_parts(self, bound: CertifiedBound, target: Target) -> CertifiedBound:
        """Return `bound` with its ends raised to the ends of bounds for subsets of the uses, where those are higher.

        All uses together have at least the worst delta (or epsilon) of any subset. But computed upper ends are above
        the worst value by the error of a grid. So without this step, one more use could lower the upper end, which
        would look wrong to a caller. The subsets leave out the smallest uses; their bounds are computed here. `target`
        says whether a delta or an epsilon is bounded.

        Theorem: docs/numerics.md, "Upper ends of growing sets".
        """
        # The optimum for a set of uses is at least the optimum for each subset. But every computed upper end exceeds
        # its optimum by a grid error, which may be larger than the effect of one use. The subsets leave out the
        # smallest kinds of uses (see `_sets_without_small_kinds`).
        effort = Effort(progress=self.progress)
        lower, upper = bound.lower, bound.upper
        for uses in _sets_without_small_kinds(self.uses):
            part = Composition(uses, self.interaction, self.progress)
            with contextlib.suppress(Unattainable):
                of_part = part._best(target, None, effort, below=upper)
                # Bounds for stronger interactions only lower both ends, which matters only where an end is the maximum.
                if of_part.upper > upper or of_part.lower > lower or part._has_quick_weaker_bounds:
                    of_part = part._tighten(of_part, target, effort)
                lower, upper = max(lower, of_part.lower), max(upper, of_part.upper)
        return replace(bound, lower=min(lower, upper), upper=upper)

    def _tighten(self, bound: CertifiedBound, target: Target, effort: Effort) -> CertifiedBound:
        """Return `bound`, a certified bracket for this composition, made narrower by bounds for other interactions.

        An interaction is what the adversary may decide after seeing earlier answers. An adversary who may decide more
        can do everything that is possible here, so the upper end for such an adversary is valid here too. Likewise, the
        lower end for an adversary who may decide less is valid here. The lower end may also fall, to that of an
        adversary who may decide more, so that results never say that deciding less reveals more. `target` asks for a
        delta or an epsilon, and `effort` says how much work may be done.
        """
        # From weakest to strongest they are batch, ordered, set-wise and adaptive. A stronger one allows everything
        # that a weaker one allows. So the upper end of a stronger interaction is valid for this composition too. So is
        # the lower end of a weaker interaction, which is used if it is quick to compute. The lower end of `bound` is
        # also lowered to that of each stronger interaction up to set-wise, if that is smaller. Otherwise results could
        # show that a weaker analyst learns more than a stronger one.
        if bound.width <= _EXACT * bound.upper:
            return bound
        order = list(Interaction)
        strength = order.index(self.interaction)
        if self.interaction is Interaction.BATCH and len(_classify(self.uses).ranges) > _MOST_PRICED:
            effort = replace(effort, pricing=False)  # the adaptive optimum would be above the batch bound anyway
        for other in order[strength + 1 :]:
            if other is Interaction.ADAPTIVE:
                worth_asking = self._filter_may_be_below(*target.point(bound.upper))
            else:
                # Without bounded-range uses, interactions up to set-wise have equal optima.
                worth_asking = self._bounded_range_uses > 0
            if worth_asking and not self._adapting_exceeds(bound.upper, other, target):
                bound = self._below_stronger(bound, other, target, effort)
        if self._has_quick_weaker_bounds:
            for other in order[:strength]:
                bound = self._above_weaker(bound, other, target, effort)
        return bound

    @property
    def _bounded_range_uses(self) -> int:
        """The number of uses of bounded-range mechanisms in this composition.

        With many of them, some comparisons with other interactions are left out to save time.
        """
        return sum(use.count for use in self.uses if isinstance(use.guarantee, BoundedRange))

    @property
    def _has_quick_weaker_bounds(self) -> bool:
        """Whether this composition's lower end is compared with that of a weaker interaction.

        An interaction is what an adversary may decide on the fly. Everything that is possible in a weaker one is
        possible here, too. So a lower end for it is valid here, and may be higher. False for a batch, in which nothing
        is decided on the fly, and False if there are so many bounded-range uses that the comparison would take long.
        """
        return self.interaction is not Interaction.BATCH and self._bounded_range_uses <= _MOST_COMPARED

    def _adapting_exceeds(self, upper: float, other: Interaction, target: Target) -> bool:
        """Return whether an adversary with the interaction `other` is known to reach at least `upper`.

        `other` is a stronger interaction, which lets the adversary decide more on the fly than in this composition.
        `upper` is the upper end of the bracket for this composition. A bound for a stronger interaction holds here too,
        and could lower `upper`. If the result is True, it cannot, so the caller need not compute that bound.

        `target` says whether a delta or an epsilon is bounded. The result is False if no such adversary is known, even
        if there is one.
        """
        # If so, the upper end under `other` cannot be below `upper`, and need not be computed, which would take
        # seconds. One analyst is tried on a coarse grid, if the batch has bounded-range uses with several epsilons. The
        # result is False in all other cases.
        from setwise.accounting.bounds import reached_by_adapting

        kinds = _classify(self.uses)
        several = self.interaction is Interaction.BATCH and len(kinds.ranges) > 1 and not kinds.classes
        if not several or other is Interaction.ADAPTIVE:
            return False
        try:
            return reached_by_adapting(kinds, other, target) >= upper
        except Unattainable:
            return False

    def _filter_may_be_below(self, epsilon: float, delta: float) -> bool:
        """Return False if a privacy filter surely proves no smaller delta at `epsilon` than `delta`; otherwise True.

        `delta` is a bound that was found already. If the result is False, the filter cannot improve it, and the caller
        saves the computation of the filter's bound.

        A privacy filter bounds uses whose parameters are chosen on the fly. It has a budget of mu squared, pays each
        use from it, and proves that all uses together are no worse than one Gaussian mechanism with this mu squared.
        """
        # The charge is at least twice the mean privacy loss of the use. So the filter's delta is at least the delta of
        # the Gaussian mechanism whose mu squared is twice the sum of the mean losses. The result is False if the delta
        # of this Gaussian is clearly above `delta`; if rounding leaves the comparison open, it is True.
        parameters = [(use.guarantee.zero_concentrated(), use.count) for use in self.uses]
        mu = math.sqrt(max(0.0, 2.0 * math.fsum(count * (zcdp.xi + zcdp.rho) for zcdp, count in parameters)))
        if mu == 0.0 or epsilon > 700.0:
            return True
        above, below = (0.5 * math.erfc((epsilon / mu + side * mu / 2) * math.sqrt(0.5)) for side in (-1, 1))
        gaussian = above - math.exp(epsilon) * below
        return gaussian <= max(delta * (1.0 + 1e-6), 1e-6 * above)

    def _below_stronger(
        self, weaker: CertifiedBound, other: Interaction, target: Target, effort: Effort
    ) -> CertifiedBound:
        """Return `weaker`, a bound of this composition, with its upper end lowered by a bound for another interaction.

        An interaction is what the adversary may decide on the fly. An adversary with more freedom can do all that this
        composition's adversary can, so an upper bound for the freer adversary is valid here too.

        - `other` is an interaction with more freedom than this composition's.
        - `target` is the delta or epsilon that is bounded.
        - `effort` says how narrow the bracket (a certified interval) for `other` must be.

        The lower end may be lowered too. Otherwise the results for the two interactions could seem to say that an
        adversary with less freedom learns more. It is not lowered if `other` is adaptive, or if some use has neither a
        fixed dominating pair nor bounded range, because the lower end for `other` then says little.
        """
        # A smaller lower end under `other` replaces the lower end of `weaker`, so that results never show a weaker
        # analyst learning more. It does not if `other` is adaptive, or if some use has neither a dominating pair nor
        # bounded range, because the lower end under `other` then says little.
        try:
            stronger, bound = self._certify(other, target, None, effort)
        except Unattainable:
            return weaker
        if stronger.upper < weaker.upper:
            method, statement = bound.registered or (bound.method, bound.statement)
            weaker = replace(weaker, upper=stronger.upper, method=method, statement=statement)
        # Bounds on classes of mechanisms, such as zCDP, have no lower ends of their own.
        if other is not Interaction.ADAPTIVE and not _classify(self.uses).classes:
            weaker = replace(weaker, lower=min(weaker.lower, stronger.lower))
        return weaker

    def _above_weaker(
        self, stronger: CertifiedBound, other: Interaction, target: Target, effort: Effort
    ) -> CertifiedBound:
        """Return `stronger`, this composition's bound, with its lower end raised by a bound for a weaker interaction.

        - `other` is the weaker interaction, in which the adversary may decide less on the fly, so its lower end is
          valid here too. The lower end is used only if it is quick to compute.
        - `target` asks for a delta or an epsilon.
        - `effort` says how narrow the bracket (a certified interval) under `other` must be.
        """
        # The lower end is used only if it is quick to compute: a closed form, or the set-wise bound.
        from setwise.accounting.bounds import closed_form, reached_by_adapting

        try:
            kinds = _classify(self.uses)
            if other is Interaction.SETWISE:
                lower = self._certify(other, target, None, effort)[0].lower
            elif other is Interaction.ORDERED and len(kinds.ranges) > 1 and not kinds.classes:
                # A batch is compared with this analyst (`_adapting_exceeds`), so set-wise lower ends must not be below.
                lower = reached_by_adapting(kinds, Interaction.SETWISE, target)
            else:
                exact = closed_form(_classify(self.uses), other)
                lower = 0.0 if exact is None else exact.answer(target, None).lower
        except Unattainable:
            return stronger
        return replace(stronger, lower=max(stronger.lower, min(lower, stronger.upper)))

    def _best(self, target: Target, width: float | None, effort: Effort, *, below: float = 0.0) -> CertifiedBound:
        """Return the bound for the delta or epsilon that `target` asks for, by proofs for this interaction alone.

        An interaction is what the adversary may choose on the fly; the caller tightens the result by bounds for other
        interactions. `effort` says how narrow the bracket (a certified interval) should be. Once the upper end is at
        most `below`, no further bound is tried.

        Raises: `Unattainable` if the bracket is wider than `width`, relative to its upper end; None accepts any width.
        """
        # If the bracket is wider than `effort.enough`, known mechanisms with the same guarantees are composed, and
        # their delta or epsilon raises the lower end.
        from setwise.accounting.bounds import lower_bound

        best, bound = self._certify(self.interaction, target, width, effort, below)
        if best.upper > 0.0 and best.relative_width > effort.enough:
            reached = lower_bound(_classify(self.uses)).answer(target, None).lower
            reached = max(reached, self._reached_without_classes(target, effort))
            best = Bracket(max(best.lower, min(reached, best.upper)), best.upper)
        if width is not None and best.relative_width > width:
            raise Unattainable(
                f"no proven bound for these uses has a relative width of {width:g}; leave it out to get the best"
            )
        return CertifiedBound(float(best.lower), float(best.upper), self.interaction, bound.method, bound.statement)

    def _reached_without_classes(self, target: Target, effort: Effort) -> float:
        """Return a lower bound on the delta or epsilon that `target` asks for, from a part of the uses.

        The part has the uses with a dominating pair or bounded range, for which the worst case over all adversaries can
        be computed. Leaving the other uses out reveals less, so a lower bound for the part is valid for all uses.
        `effort` says how closely the worst case is computed. The result is 0 if the part is empty, if its worst case
        cannot be computed, or if it has all uses, because the caller then has the bound already.
        """
        # Their optimum can be computed. Leaving the other uses out reveals less, so the lower end of the bracket for
        # these uses is a lower bound for all uses. If all uses are of these two kinds, the caller has their bracket
        # already.
        known = tuple(use for use in self.uses if not _classify((use,)).classes)
        if not known or len(known) == len(self.uses):
            return 0.0
        interaction = Interaction.SETWISE if self.interaction is Interaction.ADAPTIVE else self.interaction
        try:
            return Composition(known, interaction, self.progress)._best(target, None, effort).lower
        except Unattainable:
            return 0.0

    def _certify(
        self, interaction: Interaction, target: Target, width: float | None, effort: Effort, below: float = 0.0
    ) -> "tuple[Bracket, Bound]":
        """Return the bracket for the delta or epsilon that `target` asks for, and the bound that gave its upper end.

        A bracket is a certified interval.

        - `interaction` is what the adversary may choose on the fly.
        - `width` is the wanted width of the bracket, relative to its upper end; None takes the widths in `effort`.
        - `effort` says how narrow the bracket should be without `width`, and how much work may be done.
        - `below`: once the upper end is at most this number, no further bound is tried, because the caller only needs
          to know whether the value is below it. 0 if the caller needs the value.
        """
        # Several proven bounds are evaluated one after another and their brackets intersected, until one of the
        # conditions holds.
        from setwise.accounting.bound import evaluate_bounds
        from setwise.accounting.bounds import bounds_for

        return evaluate_bounds(bounds_for(_classify(self.uses), interaction, effort), target, width, effort, below)


def _sets_without_small_kinds(uses: tuple[Use, ...]) -> Iterator[tuple[Use, ...]]:
    """Yield `uses` without the smallest kind of use, then without the two smallest kinds, and so on.

    A kind is all uses with the same guarantee. Each use implies (xi, rho)-zCDP, and the size of a kind is the sum of
    rho + max(xi, 0) over its uses. All kinds left out together have at most the share `_SMALL_SHARE` of the sum of all
    sizes, and at most `_MOST_PARTS` sets are yielded.

    All uses together reveal at least as much as a yielded set. So the caller raises the bound for all uses to the bound
    for each yielded set. Otherwise the error of a computation could make the bound fall when a small use is added.
    """
    # The size of a kind is its number of uses times rho + max(xi, 0), where the guarantee implies (xi, rho)-zCDP. Kinds
    # of equal size are ordered by the text of the guarantee. At most `_MOST_PARTS` sets are yielded, and the kinds left
    # out have together at most the share `_SMALL_SHARE` of the sum of all sizes. Uses that reveal nothing unless they
    # fail outright have no size and stay in every set.
    sizes: dict[Guarantee, float] = {}
    for use in uses:
        if use.guarantee.split_off_failure()[0] is None:
            continue
        zcdp = use.guarantee.zero_concentrated()
        sizes[use.guarantee] = sizes.get(use.guarantee, 0.0) + use.count * (zcdp.rho + max(zcdp.xi, 0.0))
    smallest_first = sorted(sizes, key=lambda guarantee: (sizes[guarantee], repr(guarantee)))
    allowed, removed = _SMALL_SHARE * math.fsum(sizes.values()), 0.0
    for position, guarantee in enumerate(smallest_first[:-1][:_MOST_PARTS]):
        removed += sizes[guarantee]
        if removed > allowed:
            return
        left_out = set(smallest_first[: position + 1])
        yield tuple(use for use in uses if use.guarantee not in left_out)


@lru_cache(maxsize=64)
def _classify(uses: tuple[Use, ...]) -> "ClassifiedUses":
    """Return `uses` classified by how they compose: fixed dominating pairs, bounded range, and others.

    The result is cached, because the same uses are often composed several times, once for each interaction (what the
    adversary may choose on the fly).
    """
    from setwise.accounting.classified_uses import classify

    return classify(uses)


def _check_width(width: float | None) -> float | None:
    """Return `width`, the wanted width of a bracket relative to its upper end, or None if no width is wanted.

    Raises: `InvalidParameter` unless it is None or strictly between 0 and 1.
    """
    if width is not None and not 0.0 < width < 1.0:
        raise InvalidParameter(f"width must lie strictly between 0 and 1, not {width!r}")
    return width


def compose(
    uses: Iterable[Use | Guarantee | str] | Use | Guarantee | str,
    interaction: str | Interaction = Interaction.SETWISE,
    *,
    progress: Progress = quiet,
) -> Composition:
    """Return the composition of `uses`; its methods `.epsilon(delta)` and `.delta(epsilon)` give certified bounds.

    - `uses` are `Use` values (a guarantee and a count), bare guarantees or written forms such as ``"pure:0.1x25"``.
    - `interaction` says what the analyst may choose on the fly: "batch", "ordered", "setwise" or "adaptive". Only for
      "ordered" the order of `uses` matters.
    - `progress` is called with the share of work done during long computations.
    """
    return Composition(as_uses(uses), Interaction.parse(interaction), progress)

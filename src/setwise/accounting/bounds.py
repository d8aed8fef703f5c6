"""The proven bounds on the delta or epsilon of a composition, tightest first.

Which bounds apply depends on the uses and on the interaction (what an adversary may choose on the fly). Uses are
classified once by how they compose: linear (a fixed dominating pair), bounded range, or a class of mechanisms of which
only moments of the privacy loss are known. A `Bound` answers one `Target`: the delta at an epsilon, or the epsilon at a
delta.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from setwise.accounting.adaptive.dynamic_program import Group, quick_in_any_order, quick_in_one_order, quick_when_priced
from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.adaptive.stages import LinearStage, RangeStage, Stage, proxy_saddle, upper_bound_order
from setwise.accounting.bound import Bound, either, evaluate_bounds, from_curve, linear_bound, solved_by
from setwise.accounting.brackets import Bracket, Effort, Interaction, Target, up
from setwise.accounting.classified_uses import ClassifiedUses, classify
from setwise.accounting.guarantees import (
    BoundedRange,
    DiscreteGaussian,
    Use,
    largest_loss,
)
from setwise.accounting.losses.dominating_pairs import (
    enumerate_losses,
    variance_and_continuous_mass,
)
from setwise.accounting.moment_bounds import LARGEST_WALLET, MAJORANT, filter_bounds, moment_bounds
from setwise.accounting.worst_examples import (
    WORST_EXAMPLES,
    guarantees_in,
    moderate_tilt,
    worst_laws,
    worst_responses,
)
from setwise.errors import Unattainable

# Methods are imported inside functions, because most compositions need only one or two of them and imports take time.


_SETWISE = "docs/optimal-composition.md, the set-wise optimum"
_MIXTURE = "docs/closed-forms.md, batch mixtures"


@dataclass(frozen=True, slots=True)
class BoundsConfig:
    """Constants that decide which proven bounds on delta and epsilon are tried, and for how many mechanism uses.

    Two bounds are the most frequent. In the bound by a grid, delta is a function on a grid of epsilons, to which one
    use after the other is added: tight but slow. The bound by one Gaussian replaces bounded-range uses by one Gaussian
    mechanism that dominates them: quick but a little too large. The constants affect time and accuracy only: each bound
    holds, whatever these numbers are. The text below each constant says what it decides.
    """

    equal_ranges: int = 250
    """From this many bounded-range uses of one epsilon on, a search (for example for the least noise) tries the bound
    by one Gaussian before the grid. With fewer uses the bracket of this bound would be wider than a search accepts."""
    many_ranges: int = 1_000
    """From this many bounded-range uses on, the bound by one Gaussian is about as tight as the grid, and it changes
    smoothly with the number of uses."""
    most_in_batch: int = 50_000
    """Largest number of bounded-range uses of a batch (all chosen up front) for which the closed form is maximised over
    t, the parameter of the randomized responses that are its worst case."""
    most_integer_gaussians: int = 16
    """Largest number of integer Gaussian mechanisms with different noise that are tabulated one by one."""
    most_alone: int = 20
    """Lower bounds are computed for all uses together, and, with at most this many uses, also for each use alone."""
    small_losses: float = 1e-5
    """Uses are left out, and their largest losses added to epsilon, if the sum of these losses is at most this share of
    the standard deviation of the loss of all other uses. The bracket becomes wider by about this share."""
    closer: float = 0.75
    """To save time on the grid, each bounded-range use may get a price, so that only the sum of the prices of the
    remaining uses is tracked. This raises the bound a little. Another way to save time, one Gaussian in place of the
    uses of small epsilon, raises the bound too. Prices are used if their raise is at most this share of the other."""
    as_close: float = 2.0
    """The bound by one Gaussian may replace all bounded-range uses, or only the uses of small epsilon. One of the two
    ways is left out if it raises the bound more than this many times as much as the other."""
    rough_batch: int = 200
    rough_width: float = 2e-3
    """From `rough_batch` bounded-range uses of many epsilons on, the grid for the upper end of a batch (all chosen up
    front) aims for this relative width. A finer grid takes twice as long, and the bracket is wider than that for other
    reasons."""
    most_beside: int = 100_000
    """Largest number of different losses of the uses with fixed dominating pairs that are listed one by one, next to a
    batch of bounded-range uses or next to a single bounded-range use."""


CONFIG = BoundsConfig()


def bounds_for(kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Iterator[Bound]:
    """Yield the proven bounds on the delta and epsilon of the mechanism uses in `kinds`, tight bounds first.

    - `kinds` are the uses, sorted by how they compose.
    - `interaction` says what an adversary may choose on the fly.
    - `effort` says how narrow the certified interval [lower, upper] for the delta or epsilon (the bracket) should be.

    Every yielded bound is valid, so a caller may stop at the first one whose bracket is narrow enough.
    """
    # A bound is tight if some analyst attains its lower end.
    if interaction is Interaction.ADAPTIVE:
        yield from filter_bounds(kinds)
        return
    if not kinds.classes:
        yield from _optimal(kinds, interaction, effort)
    yield from moment_bounds(kinds)


def _optimal(kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Iterator[Bound]:
    """Yield bounds on the largest delta, or epsilon, over all adversaries who make the uses in `kinds`.

    For an epsilon, a bound gives a bracket (a certified interval) for the largest delta over all adversaries. For a
    delta, it gives a bracket for the smallest epsilon at which the largest delta is at most that delta. Brackets can be
    made narrow, because every use has a dominating pair or bounded range.

    - `kinds` are the mechanism uses, sorted by how they compose.
    - `interaction` says what an adversary may choose on the fly.
    - `effort` says how narrow a bracket must be.
    """
    # If there is a closed form, it is the only bound. Otherwise bounds are computed numerically, quick bounds first.
    merged = _merged_integer_gaussians(kinds, interaction, effort)
    if merged is not None:
        yield merged
        return
    if not kinds.ranges:
        yield linear_bound(kinds, tolerance=effort.tolerance)
        return
    closed = _closed_form(kinds, interaction)
    if closed is not None:
        yield closed
        return
    # The caller stops at the first narrow bracket. So the grid comes first if it is quick, and otherwise the Gaussian
    # majorant. If the grid is quick but rough, or there are many draws, both are evaluated.
    on_the_grid = _on_the_grid(kinds, interaction, effort)
    any_order = interaction is Interaction.SETWISE
    if (quick_in_any_order if any_order else quick_in_one_order)(kinds.ranges):
        if any_order and effort.one_gaussian and len(kinds.ranges) == 1 and kinds.ranges[0][1] >= CONFIG.equal_ranges:
            yield from _for_search(kinds, effort)
        if sum(count for _, count in kinds.ranges) >= CONFIG.many_ranges:
            yield _all_in_one_gaussian(kinds)
        yield from on_the_grid
        yield _majorant(kinds, interaction, effort)
    else:
        worth_pricing = any_order and effort.pricing and quick_when_priced(kinds.ranges)
        yield replace(_majorant(kinds, interaction, effort), preliminary=worth_pricing)
        closer = partial(_prices_are_closer, kinds) if worth_pricing else lambda _: False
        yield from (_only_if(closer, bound) for bound in on_the_grid)


def _on_the_grid(kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Iterator[Bound]:
    """Yield the slow bounds, most of them computed on a grid of epsilons, for uses whose delta has no closed form.

    For an epsilon, a bound gives a bracket (a certified interval) for the largest delta over all adversaries. For a
    delta, it gives a bracket for the smallest epsilon at which the largest delta is at most that delta.

    - `kinds` are bounded-range uses, and possibly uses with fixed dominating pairs.
    - `interaction` says what an adversary may choose on the fly: nothing (batch), the mechanisms (ordered), or also
      their order (set-wise). For a batch, some bounds come from a search over randomized responses or from an exact sum
      instead of a grid.
    - `effort` says how narrow a bracket must be.
    """
    # Ordered and set-wise optima are computed by recursion on a grid of epsilons. Batches are bounded by such a
    # recursion and by branch and bound.
    match interaction:
        case Interaction.ORDERED:
            yield _optimum(_stages_in_order(kinds.uses), kinds.failure, effort, "lem:adap_recursion_hetero", tight=True)
        case Interaction.BATCH:
            yield from _batch_mixture(kinds, effort)
        case _:
            yield _optimum(_stages_in_worst_order(kinds), kinds.failure, effort, _SETWISE, tight=True)


def _merged_integer_gaussians(kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Bound | None:
    """Return a bound in which Gaussian mechanisms replace integer Gaussian mechanisms with many different noise scales.

    The losses of many different integer Gaussians are slow to add up. Continuous Gaussians are quick, because several
    of them have the loss of a single one. For the upper end of the bracket (a certified interval), one Gaussian that
    dominates all integer Gaussians replaces them. For the lower end, Gaussians with a little more noise replace them.

    - `kinds` are the mechanism uses, sorted by how they compose.
    - `interaction` says what an adversary may choose on the fly.
    - `effort` says how narrow a bracket must be.

    Returns None if `kinds` has few different integer Gaussians, or if the dominating Gaussian would have so little
    noise that its mu squared, (sensitivity / sigma)^2, exceeds `LARGEST_WALLET`, the largest mu squared with which
    bounds by one Gaussian are computed.
    """
    # The other uses in `kinds` stay as they are. Few means at most `CONFIG.most_integer_gaussians`.
    merged = [(noise, count) for noise, count in kinds.linear if isinstance(noise, DiscreteGaussian)]
    if len(merged) <= CONFIG.most_integer_gaussians:
        return None
    from setwise.accounting.methods.gaussian_majorant import in_any_order
    from setwise.accounting.methods.integer_gaussians import gaussians_below
    from setwise.accounting.wallet import gaussian_of

    size = in_any_order(merged)
    if size > LARGEST_WALLET:
        return None
    below = gaussians_below(merged)
    others = [use for use in kinds.uses if not isinstance(use.guarantee.split_off_failure()[0], DiscreteGaussian)]
    with_one_above = classify([*others, Use(gaussian_of(size))])
    with_some_below = classify([*others, *(Use(noise, count) for noise, count in below.gaussians)])

    def answer(target: Target, width: float | None) -> Bracket:
        """Return a bracket (a certified interval) for the delta or epsilon of all uses that `target` asks for.

        Both ends are computed with continuous Gaussians in place of the integer Gaussians.

        - For the upper end, one Gaussian replaces them all, and it reveals at least as much.
        - For the lower end, Gaussians take their place that reveal at most slightly more. The small difference has a
          known bound, which is subtracted. The lower end is 0 if it cannot be computed.

        `width` is the wanted width of the bracket, relative to its upper end, or None for the default.
        """
        upper = _first_narrow(with_one_above, interaction, target, width, effort).upper
        with contextlib.suppress(Unattainable):
            # delta is at least exp(-ripple) times the delta of `below.gaussians` at an epsilon larger by the ripple
            shrink = math.exp(-below.ripple) * (1.0 - 1e-15)
            if target.wanted == "delta":
                at = Target("delta", up(target.given + below.ripple))
                lower = shrink * _first_narrow(with_some_below, interaction, at, width, effort).lower
            else:
                at = Target("epsilon", min(up(target.given / shrink), 1.0 - 1e-16))
                lower = _first_narrow(with_some_below, interaction, at, width, effort).lower - below.ripple * (1 + 1e-9)
            return Bracket(max(0.0, min(lower, upper)), upper)
        return Bracket(0.0, upper)

    return Bound("gaussian-majorant", MAJORANT, True, answer)


def small_losses_apart(kinds: ClassifiedUses) -> tuple[tuple[Use, ...], float] | None:
    """Return (uses, s): the uses in `kinds` without some of tiny loss, and a bound s on the loss of those left out.

    s is the sum of the largest losses of the uses left out. The caller bounds only the returned uses and adds s to
    their epsilon, which gives a bound for all uses. The reason: bounds are computed on a grid of epsilons, and the
    error of the grid may be larger than the effect of a use of tiny loss. Without this step, one more such use could
    make a bound smaller, which would look wrong.

    Returns None if no use can be left out, if no use has bounded range, if some use may fail outright, or if some use
    has neither a dominating pair nor bounded range.
    """
    # In any order, the uses left out raise a privacy profile f (delta as a function of epsilon) at epsilon x to at most
    # f(x - s) (docs/optimal-composition.md, "Losses that hardly count"). Uses with the smallest losses are left out, as
    # long as s is at most the share `CONFIG.small_losses` of the standard deviation of the loss of the other uses.
    if kinds.classes or kinds.failed or not kinds.ranges:
        return None
    known = [*kinds.linear, *((BoundedRange(epsilon=epsilon), count) for epsilon, count in kinds.ranges)]
    variances = [
        count * (use.epsilon**2 / 4 if isinstance(use, BoundedRange) else variance_and_continuous_mass(use)[0])
        for use, count in known
    ]
    smallest_first = sorted(range(len(known)), key=lambda index: largest_loss([known[index]]))
    remaining, apart = math.fsum(variances), list[int]()
    for index in smallest_first[:-1]:
        remaining -= variances[index]
        total = largest_loss([known[i] for i in (*apart, index)])
        if not total <= CONFIG.small_losses * math.sqrt(max(remaining, 0.0)):
            break
        apart.append(index)
    if not apart:
        return None
    small = {known[index][0] for index in apart}
    others = tuple(use for use in kinds.uses if use.guarantee.split_off_failure()[0] not in small)
    return others, largest_loss([known[index] for index in apart])


def reached_by_adapting(kinds: ClassifiedUses, interaction: Interaction, target: Target) -> float:
    """Return a lower bound on the largest delta, or epsilon, over all adversaries, computed quickly.

    The adversaries make the uses in `kinds`, and choose mechanisms after seeing earlier answers. `interaction` says
    whether the order of the uses is fixed (ordered) or chosen by the adversary (set-wise).

    - If `target` gives an epsilon, the result is a delta. The largest delta at the given epsilon is at least the
      result.
    - If `target` gives a delta, the result is an epsilon. At every smaller epsilon, the largest delta is above the
      given one.

    Raises: `Unattainable` if the computation would take long.
    """
    # For set-wise interaction the result is the delta or epsilon of one good order: uses with fixed dominating pairs
    # first, then bounded-range uses with rising epsilons.
    if interaction is Interaction.ORDERED:
        stages = _stages_in_order(kinds.uses)
    else:
        first = (LinearStage(kinds.linear),) if kinds.linear else ()
        stages = (*first, *(RangeStage((group,)) for group in sorted(kinds.ranges)))
    return Optimum(stages, kinds.failure).reached(target)


def _first_narrow(
    kinds: ClassifiedUses, interaction: Interaction, target: Target, width: float | None, effort: Effort
) -> Bracket:
    """Return a bracket (a certified interval) for the delta or epsilon that `target` asks for, by the best bounds.

    The delta at an epsilon is the largest over all adversaries, and the epsilon at a delta is the smallest one at which
    that largest delta is at most the given one. Bounds are evaluated one after another, and their brackets intersected,
    until the result is as narrow as wanted.

    - `kinds` are the mechanism uses, sorted by how they compose.
    - `interaction` says what an adversary may choose on the fly.
    - `width` is the wanted width, relative to the upper end; None takes the widths of `effort`.
    """
    return evaluate_bounds(_optimal(kinds, interaction, effort), target, width, effort)[0]


def _all_in_one_gaussian(kinds: ClassifiedUses) -> Bound:
    """Return the upper bound on delta and epsilon in which one Gaussian replaces all bounded-range uses in `kinds`.

    The bound is valid because the Gaussian mechanism dominates these uses in any adaptive order. The bound is quick to
    compute. With many bounded-range uses it is nearly the best one, because some adversary reaches nearly this delta.
    """
    from setwise.accounting.methods.gaussian_majorant import in_any_order
    from setwise.accounting.wallet import gaussian_of

    size = in_any_order([(BoundedRange(epsilon=epsilon), count) for epsilon, count in kinds.ranges])
    stand_in = gaussian_of(min(size, LARGEST_WALLET))
    merged = classify([Use(stand_in), *(Use(noise, count) for noise, count in guarantees_in(kinds.linear))])
    above = linear_bound(replace(merged, failed=kinds.failed))

    def answer(target: Target, width: float | None) -> Bracket:
        """Return [0, upper end] for the delta or epsilon that `target` asks for.

        The upper end is computed with one Gaussian for all bounded-range uses, and is valid because the Gaussian
        dominates these uses. `width` is the wanted width of the bracket, relative to its upper end, or None for the
        default.

        Raises: `Unattainable` if the mu squared of the Gaussian is above `LARGEST_WALLET`, the largest for which such
        bounds are computed.
        """
        if size > LARGEST_WALLET:
            raise Unattainable(
                "these uses have too little noise for a bound by one Gaussian; add noise, or compose fewer uses"
            )
        return Bracket(0.0, above.answer(target, width).upper)

    return Bound("gaussian-majorant", MAJORANT, False, answer)


def _for_search(kinds: ClassifiedUses, effort: Effort) -> Iterator[Bound]:
    """Yield two bounds on the composition of hundreds of equal bounded-range uses: a quick one, and then a tighter one.

    They are for searches, for example for the least noise within a budget, which evaluate a bound many times. The
    caller needs the tighter bound only if the bracket (a certified interval) of the quick one is wider than
    `effort.one_gaussian`, a width relative to the upper end of the bracket.

    `kinds` has the uses: bounded-range uses of one epsilon, and possibly uses with fixed dominating pairs.
    """
    # In the first bound one Gaussian replaces all bounded-range uses, which takes milliseconds. The second bound is
    # computed on a grid. The lower end of both bounds is attained by an analyst who does not adapt to earlier answers
    # and uses the worst randomized responses. If an epsilon is wanted and this lower end makes the bracket narrow
    # enough, no lower bounds are computed on the grid, which halves the work.
    above = _all_in_one_gaussian(kinds)

    @cache
    def reached(target: Target) -> float:
        """Return a lower bound on the delta or epsilon that `target` asks for; 0 if none is known.

        `target` asks for the largest delta (or epsilon) over all mechanisms that satisfy the guarantees of `kinds`, a
        variable of the enclosing function. The bound is the delta (or epsilon) of an example: each bounded-range use is
        a randomized response that satisfies its guarantee.
        """
        return max((bound.answer(target, None).lower for bound in worst_responses(kinds, target)), default=0.0)

    def by_one_gaussian(target: Target, width: float | None) -> Bracket:
        """Return a bracket for the delta or epsilon that `target` asks for, with one Gaussian for its upper end.

        The Gaussian replaces all bounded-range uses, which it dominates. The lower end is the delta or epsilon of known
        mechanisms with the same guarantees. `width` is the wanted width of the bracket, relative to its upper end, or
        None for the default.

        Raises: `Unattainable` if the mu squared of the Gaussian is above `LARGEST_WALLET`, the largest for which such
        bounds are computed.
        """
        upper = above.answer(target, width).upper
        return Bracket(min(reached(target), upper), upper)

    def by_grid(target: Target, width: float | None) -> Bracket:
        """Return a bracket for the delta or epsilon that `target` asks for, computed on a grid of epsilons.

        The bracket (a certified interval) takes longer to compute than one in which a Gaussian replaces all
        bounded-range uses, but has a lower upper end. `width` is its wanted width, relative to the upper end, or None
        for the default.

        Raises: `Unattainable` if the grid is too short for the target, or if `width` cannot be met.
        """
        floor = reached(target) if target.wanted == "epsilon" else None
        wider = replace(effort, width=effort.one_gaussian)
        return solved_by(Optimum(_stages_in_worst_order(kinds), kinds.failure, wider, floor))(target, width)

    yield Bound(above.method, above.statement, True, by_one_gaussian, enough=effort.one_gaussian)
    yield Bound("certified-optimum", _SETWISE, True, by_grid, enough=effort.one_gaussian)


def _majorant(kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Bound:
    """Return the bound on delta and epsilon in which one Gaussian mechanism replaces some of the uses in `kinds`.

    It replaces the bounded-range uses of small epsilon. The upper end of its bracket (a certified interval) is valid
    because the Gaussian dominates the replaced uses. The lower end is the delta or epsilon of known mechanisms with the
    same guarantees. `interaction` says what an adversary may choose on the fly, and `effort` how narrow a bracket must
    be.
    """
    # The Gaussian dominates these uses in any order, so the composition with it gives the upper end. The lower end is
    # the delta or epsilon of known mechanisms that satisfy the same guarantees and are chosen up front (a batch). If
    # `interaction` is set-wise, a second lower end may be larger. It comes from an analyst who first uses randomized
    # responses in place of the bounded-range uses of small epsilon, and then the bounded-range uses of large epsilon,
    # smallest epsilon first.
    from setwise.accounting.methods import gaussian_majorant
    from setwise.accounting.wallet import gaussian_of

    linear = [Use(noise, count) for noise, count in guarantees_in(kinds.linear)]

    def bound(others: Sequence[Use], *stages: tuple[Group, ...]) -> Bound:
        """Return a bound on the delta and epsilon of the uses in `linear` and `others`, followed by those in `stages`.

        The caller computes an upper and a lower bound with it. For the upper bound, `others` is a Gaussian mechanism
        that dominates the bounded-range uses of small epsilon. For the lower bound, `others` are randomized responses
        that satisfy the guarantees of these uses.

        - `others` have fixed dominating pairs. They come first, together with `linear`, a variable of the function
          around this one that has the original uses with fixed dominating pairs.
        - `stages` are the bounded-range uses that come afterwards, as tuples of pairs (epsilon, count). The uses of one
          stage may come in any order, and the stages come one after the other.
        """
        merged = replace(classify([*linear, *others]), failed=kinds.failed)
        if not (ranges := [RangeStage(groups) for groups in stages if groups]):
            return linear_bound(merged)
        first = (LinearStage(merged.linear),) if merged.linear else ()
        return _optimum((*first, *ranges), kinds.failure, effort, _SETWISE, tight=True)

    variance = math.fsum(count * variance_and_continuous_mass(noise)[0] for noise, count in kinds.linear)
    splits = gaussian_majorant.splits_of(kinds.ranges, variance)

    @cache
    def above(split: gaussian_majorant.RangeSplit) -> Bound:
        """Return an upper bound on delta and epsilon, in which one Gaussian replaces the small epsilons of `split`.

        `split` divides the bounded-range uses into small and large epsilons. The bound is valid because the Gaussian
        dominates all uses of small epsilon. The uses of large epsilon come after the Gaussian and are computed on a
        grid.
        """
        return bound([Use(gaussian_of(split.wallet))] if split.small else [], split.large)

    @cache
    def below(split: gaussian_majorant.RangeSplit) -> Bound:
        """Return a lower bound on the largest delta (or epsilon) over all adversaries who make all uses.

        `split` divides the bounded-range uses into those of small and of large epsilon. For each use of small epsilon
        the bound takes one fixed mechanism with this guarantee, a randomized response. An adversary can choose these
        mechanisms, so the largest delta is at least the delta with them. The randomized responses come first. The uses
        of large epsilon follow, smallest epsilon first, and their worst mechanisms are computed on a grid of epsilons.
        """
        attained = [
            Use(noise, count)
            for epsilon, count in split.small
            if (noise := BoundedRange(epsilon=epsilon).worst_known_example()) is not None
        ]
        return bound(attained, *((group,) for group in sorted(split.large)))

    def answer(target: Target, _: float | None) -> Bracket:
        """Return the bracket for the delta or epsilon that `target` asks for, from several divisions of the uses.

        A division (split) has bounded-range uses of small epsilon, which one Gaussian replaces, and bounded-range uses
        of large epsilon, which are computed on a grid. The bracket (a certified interval) has the lowest upper end and
        the highest lower end of all splits tried. The second argument, a wanted width of the bracket (or None), is
        ignored.

        Raises: `Unattainable` if no upper bound is finite.
        """
        # If the bracket is wide, one more split with more uses on the grid is tried. It is not tried for a batch (uses
        # that are all chosen up front), which has a tighter bound of its own, or if `effort.pricing` is False.

        def ask(bound: Bound) -> Bracket:
            """Return the bracket (certified interval) of `bound` for what `target` asks for, or else [0, infinity].

            The result is [0, infinity], which is always true, if `bound` raises `Unattainable`. `target`, a variable of
            the enclosing function, asks for the delta at an epsilon, or for the epsilon at a delta.
            """
            with contextlib.suppress(Unattainable):
                return bound.answer(target, None)
            return Bracket(0.0, math.inf)

        def narrowed(bracket: Bracket, tried: Sequence[gaussian_majorant.RangeSplit]) -> Bracket:
            """Return `bracket` with its ends moved inwards by the bounds that the splits in `tried` give.

            The bracket is a certified interval for the delta or epsilon that `target`, a variable of the enclosing
            function, asks for. A split divides the bounded-range uses in two: one Gaussian replaces the uses of small
            epsilon, and delta with the uses of large epsilon is computed on a grid.

            - The upper end becomes the smallest of the splits' upper bounds, if it is lower. A split whose Gaussian has
              too little noise has no upper bound.
            - The lower end is raised by a lower bound from the last split, which takes longer. It is computed only if
              the order of uses is chosen on the fly (set-wise), if the split has uses of large epsilon, and if the
              bracket is still wider than wanted.
            """
            uppers = [ask(above(split)).upper for split in tried if split.wallet < LARGEST_WALLET]
            upper, lower = min([bracket.upper, *uppers]), bracket.lower
            if interaction is Interaction.SETWISE and tried[-1].large and upper - lower > effort.width * upper:
                lower = max(lower, ask(below(tried[-1])).lower)
            return Bracket(min(lower, upper), upper)

        close = splits
        if (tilt := moderate_tilt(kinds, target)) > 0.0:
            least = min(split.excess(tilt) for split in splits)
            close = [split for split in splits if split.excess(tilt) <= CONFIG.as_close * least]
        bracket = narrowed(Bracket(ask(lower_bound(kinds)).lower, math.inf), close)
        if bracket.upper == math.inf:
            raise Unattainable("no bound by one Gaussian is known for these uses; add noise, or compose fewer uses")
        # A batch has a tighter bound of its own, so a finer split takes time and changes nothing there.
        worth_more = interaction is not Interaction.BATCH and effort.pricing
        if worth_more and bracket.relative_width > gaussian_majorant.CONFIG.wide:
            finer = gaussian_majorant.splits_of(kinds.ranges, variance, thorough=True)[-1]
            if finer.large != splits[-1].large:
                bracket = narrowed(bracket, [finer])
        return bracket

    return Bound("gaussian-majorant", MAJORANT, True, answer)


def _closed_form(kinds: ClassifiedUses, interaction: Interaction) -> Bound | None:
    """Return an exact bound on the largest delta over all adversaries, by a closed form; None if none is known.

    - `kinds` are bounded-range uses, and possibly uses with fixed dominating pairs.
    - `interaction` says what an adversary may choose on the fly.

    The result is None also if the closed form is a sum with too many terms to compute.
    """
    uses = kinds.uses
    if interaction is Interaction.ORDERED:
        from setwise.accounting.methods.closed_forms import three_in_order

        three = three_in_order(uses)
        if three is not None:
            return from_curve("three-closed-form", "lem:ordbrdp2", three, kinds.failure, tight=True)
    pure = kinds.pure_epsilons()
    one_range = sum(count for _, count in kinds.ranges) == 1
    alone = one_range and pure is not None and len({kinds.ranges[0][0], *pure}) == 1
    linear_first = interaction is Interaction.SETWISE or (
        interaction is Interaction.ORDERED and isinstance(uses[-1].guarantee, BoundedRange)
    )
    if linear_first and one_range and not alone:
        return _one_range(kinds)
    if interaction is not Interaction.BATCH and not alone:
        return None
    batch = _batch(kinds)
    if batch is None:
        return None
    statement = "thm:opt_nonadaptive" if kinds.linear else "thm:non-adaptive"
    if interaction is not Interaction.BATCH and kinds.linear:
        statement = f"prop:sbr-ord with {statement}"
    many = sum(count for _, count in kinds.ranges) >= CONFIG.equal_ranges
    guess = proxy_saddle(kinds.linear, kinds.ranges).epsilon if many else None
    return from_curve("batch-optimum", statement, batch, kinds.failure, tight=True, guess=guess)


def _one_range(kinds: ClassifiedUses) -> Bound | None:
    """Return the exact bound on the delta and epsilon of uses of which exactly one has bounded range.

    All other uses in `kinds` have fixed dominating pairs. Exact means that the bound is the largest delta over all
    adversaries, including those who choose the order on the fly. The result is None if the uses with fixed dominating
    pairs have too many different privacy losses to list.
    """
    from setwise.accounting.methods.exact import ExactLinear, OneRange

    before = enumerate_losses(kinds.linear, CONFIG.most_beside)
    if before is None:
        return None
    exact = ExactLinear(before, OneRange(kinds.ranges[0][0]), kinds.failure)
    largest = largest_loss([*kinds.linear, (BoundedRange(epsilon=kinds.ranges[0][0]), 1)])
    return from_curve("exact", _SETWISE, exact.delta, kinds.failure, tight=True, largest=largest)


def closed_form(kinds: ClassifiedUses, interaction: Interaction) -> Bound | None:
    """Return an exact bound on the largest delta over all adversaries, by a closed form; None if none is known.

    The adversaries make the uses in `kinds`, and `interaction` says what they may choose on the fly.
    """
    # There is a closed form only if some uses have bounded range and all others have fixed dominating pairs.
    return _closed_form(kinds, interaction) if kinds.ranges and not kinds.classes else None


def _batch(kinds: ClassifiedUses) -> Callable[[float], Bracket] | None:
    """Return the largest delta of a batch of uses as a function of epsilon, by a closed form; None if there is none.

    A batch is a set of uses that are all chosen up front; `kinds` has its uses. The function returns a bracket (a
    certified interval) for delta. The result is None also if the closed form is a sum with too many terms to compute.
    """
    # The closed form needs bounded-range uses of a single epsilon; all other uses must be pure DP, with epsilons that
    # are multiples of half that epsilon.
    from setwise.accounting.methods.closed_forms import BatchBoundedRange, shared_offset

    epsilons = kinds.pure_epsilons()
    if len(kinds.ranges) != 1 or epsilons is None or not shared_offset(kinds.ranges[0][0], epsilons):
        return None
    epsilon, count = kinds.ranges[0]
    if count > CONFIG.most_in_batch:
        return None
    beside = enumerate_losses(kinds.linear, CONFIG.most_beside)
    return None if beside is None else BatchBoundedRange(epsilon, count, beside, kinds.failure).delta


def _batch_mixture(kinds: ClassifiedUses, effort: Effort) -> Iterator[Bound]:
    """Yield bounds on the delta and epsilon of a batch, in cases without a closed form.

    In a batch, all mechanisms are chosen up front. There is no closed form, for example, if the bounded-range uses have
    several epsilons. The bounds come from a search for the worst randomized responses in place of the bounded-range
    uses, and from grids of epsilons.

    `kinds` are the uses: bounded-range uses, and possibly uses with fixed dominating pairs. `effort` says how narrow a
    bracket (a certified interval) must be.
    """
    # There is no closed form if there are several bounded-range epsilons, or if the losses of the other uses are not
    # multiples of one unit.
    from setwise.accounting.methods import batch_mixture

    mixture = batch_mixture.batch_mixture(kinds.ranges, kinds.linear, kinds.failure)
    # Without the closed form of the batch, its lower end is that of known mechanisms.
    bounds = [lower_bound(kinds) if mixture is None else Bound("batch-optimum", _MIXTURE, True, solved_by(mixture))]
    uses = sum(count for _, count in kinds.ranges)
    if uses == 1 and (exact := _one_range(kinds)) is not None:
        yield replace(exact, tight=False)
        yield from bounds
        return
    one_order = upper_bound_order(kinds.ranges, kinds.linear)
    if len(kinds.ranges) > batch_mixture.CONFIG.most_fixed and uses >= CONFIG.rough_batch:
        effort = replace(effort, width=max(effort.width, CONFIG.rough_width))
    in_order = _optimum(one_order, kinds.failure, effort, _MIXTURE, tight=False)
    bounds.append(
        either(in_order, _optimum(_stages_in_worst_order(kinds), kinds.failure, effort, _SETWISE, tight=False))
    )
    # With one or two distinct epsilons the batch optimum is narrow; with more, either bound may be the better one.
    yield from bounds if len(kinds.ranges) <= batch_mixture.CONFIG.most_fixed else reversed(bounds)


def _optimum(stages: tuple[Stage, ...], failure: Bracket, effort: Effort, statement: str, *, tight: bool) -> Bound:
    """Return the bound on the largest delta over adversaries who go through `stages` in order, computed on a grid.

    A stage is a set of mechanism uses; an adversary makes them all, in any order, before the next stage, and chooses
    each mechanism after seeing earlier answers. The bound has certified lower and upper ends. The grid is one of
    epsilons.

    - `failure` is a bracket (a certified interval) for the probability of outright failure, in which everything may be
      revealed.
    - `effort` says how narrow the resulting bracket must be.
    - `statement` names the theorem that the bound rests on.
    - `tight`: True if an adversary in the caller's interaction can go through these stages, so that the lower end is a
      lower bound there too. If False, only the upper end is used.
    """
    return Bound("certified-optimum", statement, tight, solved_by(Optimum(stages, failure, effort)))


def _only_if(closer: Callable[[Target], bool], bound: Bound) -> Bound:
    """Return the slow `bound`, changed so that it is computed only where it is probably worth its time.

    The result is for callers that have quicker bounds already. If a caller asks for a certain width of the bracket (a
    certified interval), the slow bound is always computed. If not, it is computed only if `closer(target)` is True, and
    otherwise raises `Unattainable`. `closer` says whether, for a `target` (the delta or epsilon that is asked for), the
    slow bound probably has a narrower bracket than the quicker bounds.
    """

    def answer(target: Target, width: float | None) -> Bracket:
        """Return the bracket (certified interval) of `bound`, which takes long, for the delta or epsilon of `target`.

        `width` is the wanted width of the bracket, divided by its upper end. If the caller states a width, `bound` is
        always computed. If `width` is None, the caller is content with quicker bounds, whose brackets may be wider.
        Then `bound` is computed only if `closer(target)` says that its bracket is probably narrower. The variables
        `bound` and `closer` are arguments of the enclosing function.

        Raises: `Unattainable` if `width` is None and the bracket is probably not narrower.
        """
        if width is None and not closer(target):
            raise Unattainable("the grid for these uses takes long, so it is computed only on request; give a width")
        return bound.answer(target, width)

    return replace(bound, answer=answer)


def _prices_are_closer(kinds: ClassifiedUses, target: Target) -> bool:
    """Return whether the slower of two upper bounds is probably the lower one, so that it is worth its time.

    Both bounds are about the uses `kinds`, and bound the delta or epsilon that `target` asks for.

    - The quick bound replaces all bounded-range uses of small epsilon by one Gaussian, which reveals a little more.
    - The slow bound finds on a grid of epsilons which next use is worst. It would have to know which uses remain, and
      there are too many cases. So it gives every bounded-range use a price, and tracks only the sum of the prices of
      the remaining uses. This makes the bound a little larger.
    """
    # Both bounds raise log E[exp(tilt L)], with L the loss of all uses, above what it can be; this is compared at the
    # tilt of `target`.
    from setwise.accounting.methods.gaussian_majorant import splits_of

    tilt = moderate_tilt(kinds, target)
    if tilt <= 0.0:
        return True
    variance = math.fsum(count * variance_and_continuous_mass(noise)[0] for noise, count in kinds.linear)
    by_gaussian = min(split.excess(tilt) for split in splits_of(kinds.ranges, variance))
    return Optimum(_stages_in_worst_order(kinds), kinds.failure).excess(tilt) <= CONFIG.closer * by_gaussian


def _stages_in_worst_order(kinds: ClassifiedUses) -> tuple[Stage, ...]:
    """Return the uses in `kinds` as stages in the order with the largest delta: bounded-range uses come last.

    A stage is a set of uses, made in any order. The first stage has all uses with fixed dominating pairs (called linear
    here), if there are any. The last stage has all bounded-range uses. Callers bound the delta of adversaries who may
    choose the order: no order has a larger delta than this one.
    """
    ranges = RangeStage(kinds.ranges)
    return (LinearStage(kinds.linear), ranges) if kinds.linear else (ranges,)


def _stages_in_order(uses: Sequence[Use]) -> tuple[Stage, ...]:
    """Return `uses` as stages (sets of uses) that are made one after the other, in the given order.

    Neighbouring uses with fixed dominating pairs share a stage, because their order among each other does not change
    delta.
    """
    stages: list[Stage] = []
    waiting: list[Use] = []
    for use in uses:
        kinds = classify([use])
        if kinds.ranges:
            if waiting:
                stages.append(LinearStage(classify(waiting).linear))
                waiting = []
            stages.append(RangeStage(kinds.ranges))
        elif kinds.linear:
            waiting.append(use)
    if waiting:
        stages.append(LinearStage(classify(waiting).linear))
    return tuple(stages)


def lower_bound(kinds: ClassifiedUses) -> Bound:
    """Return lower bounds on delta and epsilon, from known mechanisms with the guarantees in `kinds`.

    The known mechanisms are chosen up front (as a batch) and composed exactly. No proof from the guarantees alone can
    promise less than their delta or epsilon. The brackets (certified intervals) of the returned bound are [lower bound,
    infinity].
    """

    def answer(target: Target, width: float | None) -> Bracket:
        """Return [lower bound, infinity] for the delta or epsilon that `target` asks for.

        The lower bound is the largest delta or epsilon of known mechanisms with the guarantees in `kinds`, a variable
        of the function around this one; 0 if no such mechanisms are known. No proof can promise less for these
        guarantees. Several sets of mechanisms are tried. `width` is the wanted relative width of the bracket for each,
        or None for the default.
        """
        best = 0.0
        for witnesses in (_fixed_witnesses, worst_responses, worst_laws):
            for bound in witnesses(kinds, target):
                with contextlib.suppress(Unattainable):
                    best = max(best, bound.answer(target, width).lower)
        return Bracket(best, math.inf)

    return Bound("witnesses", "mechanisms that satisfy the guarantees", True, answer)


def epsilon_reached(uses: Sequence[Use], delta: float) -> float:
    """Return a lower bound on the epsilon that any proof can promise at `delta` for the guarantees of `uses`.

    Known mechanisms that satisfy these guarantees have a delta above `delta` at every epsilon below the result. So no
    better proof can promise less. The result is 0 if no such mechanisms are known.
    """
    return lower_bound(classify(uses)).epsilon(delta).lower


def _fixed_witnesses(kinds: ClassifiedUses, _: Target) -> Iterator[Bound]:
    """Yield lower bounds on delta and epsilon, from bad mechanisms that satisfy the guarantees in `kinds`.

    For some guarantees an example is known: a mechanism that satisfies the guarantee and still loses much privacy, such
    as randomized response for bounded range. No promise that rests on the guarantees alone can be below what the
    examples lose together.

    The first bound composes the examples of all guarantees that have one. If there are several examples, but few, one
    more bound follows for each example alone, with its count. Leaving the other uses out reveals less, so these bounds
    are valid too. The second argument (the delta or epsilon that is asked for) is ignored.
    """
    witnesses = [
        Use(noise, use.count) for use in kinds.uses if (noise := use.guarantee.worst_known_example()) is not None
    ]
    singles = [[use] for use in witnesses] if 1 < len(witnesses) <= CONFIG.most_alone else []
    for uses in (witnesses, *singles):
        merged = classify(uses)
        integers = _merged_integer_gaussians(merged, Interaction.BATCH, Effort())
        if uses:
            yield linear_bound(merged, WORST_EXAMPLES.most_witnessed) if integers is None else integers

"""Which proven bounds cover which uses under which interaction, tightest first.

Uses are classified once by how they compose: linear (a fixed dominating pair), bounded range, or a class of which only
moments are known. A `Bound` answers one `Target`: the delta at an epsilon, or the epsilon at a delta.
"""

import contextlib
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from setwise.accounting.adaptive.dynamic_program import Group, quick_in_any_order, quick_in_one_order, quick_when_priced
from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.adaptive.stages import LinearStage, RangeStage, Stage, proxy_saddle, upper_bound_order
from setwise.accounting.brackets import Bracket, Effort, Interaction, Target, any_fails, either_fails, epsilon_at, up
from setwise.accounting.guarantees import (
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Guarantee,
    PureDP,
    Use,
    ZeroConcentratedDP,
    largest_loss,
)
from setwise.accounting.losses.dominating_pairs import KnownNoise, TwoPointLaw, enumerated, spread
from setwise.accounting.losses.lattice import worst_t
from setwise.errors import Unattainable

# Methods are imported where they are tried: most compositions need one or two of them.


@dataclass(frozen=True, slots=True)
class ClassifiedUses:
    """A multiset of uses: `linear` have fixed dominating pairs, `ranges` are bounded-range, `classes` all others.

    `uses` are the uses as they were given, in their order. `failed` lists (delta, count) of outright failures. They
    separate from everything else, because a profile that is raised by a constant share stays so under every operator.
    """

    uses: tuple[Use, ...]
    linear: tuple[tuple[KnownNoise, int], ...]
    ranges: tuple[Group, ...]
    failed: tuple[Group, ...]
    classes: tuple[Use, ...]

    @property
    def failure(self) -> Bracket:
        """The chance that any use fails outright."""
        return any_fails(self.failed)

    def pure_epsilons(self) -> list[float] | None:
        """Return the epsilons of the linear uses when all are pure DP, else None."""
        epsilons = [known.epsilon for known, _ in self.linear if isinstance(known, PureDP)]
        return epsilons if len(epsilons) == len(self.linear) else None


def classify(uses: Sequence[Use]) -> ClassifiedUses:
    """Classify the uses, merging equal ones and all Gaussians."""
    linear: dict[KnownNoise, int] = {}
    ranges: dict[float, int] = {}
    failed: list[Group] = []
    classes: list[Use] = []
    gaussians: list[tuple[Gaussian, int]] = []
    for use in uses:
        successful, failure = use.guarantee.split_off_failure()
        if failure:
            failed.append((failure, use.count))
        match successful:
            case None:
                pass
            case BoundedRange(epsilon=epsilon):
                ranges[epsilon] = ranges.get(epsilon, 0) + use.count
            case Gaussian():
                gaussians.append((successful, use.count))
            case _ if isinstance(successful, KnownNoise):
                linear[successful] = linear.get(successful, 0) + use.count
            case _:
                classes.append(Use(successful, use.count))
    if gaussians:
        linear[Gaussian.merged(gaussians)] = 1
    return ClassifiedUses(
        tuple(uses), tuple(linear.items()), tuple(sorted(ranges.items())), tuple(failed), tuple(classes)
    )


_OUT_OF_REACH = (
    "delta = {delta!r} is not above {failure:.3g}, the chance that some use fails outright; ask for a larger delta"
)

_SETWISE = "docs/optimal-composition.md, the set-wise optimum"
_LINEAR = "docs/optimal-composition.md, linear mechanisms"
_MIXTURE = "docs/closed-forms.md, batch mixtures"
_WALLETS = "docs/optimal-composition.md, Gaussian wallets"
_MAJORANT = "docs/optimal-composition.md, the Gaussian majorant"
_ZCDP = "lem:zCDPgenbound with CanonneKaSt20"
_CLASSES = "docs/optimal-composition.md, classes beside linear mechanisms"


@dataclass(frozen=True, slots=True)
class BoundsConfig:
    """Which bounds are tried; each of them holds, whatever these numbers are."""

    largest_wallet: float = 1e6
    """mu^2 beyond which a Gaussian promises nothing."""
    many_ranges: int = 1_000
    """Bounded-range uses from which on one Gaussian is about as tight as the grid, and follows the count smoothly."""
    most_in_batch: int = 50_000
    """Bounded-range uses up to which the closed form of a batch is searched for its worst t."""
    most_integer_gaussians: int = 16
    """Integer Gaussian mechanisms with different noise up to which each is tabulated."""
    most_witnessed: int = 20_000
    """Losses up to which a lower bound is enumerated; a lattice is quicker beyond."""
    most_laws: int = 40
    """Uses of one zCDP class up to which they are composed as losses with two values."""
    law_rounds: int = 3
    """Times that such a loss is fitted to the epsilon that the last one reached."""
    most_beside: int = 100_000
    """Atoms of linear uses beside it, or beside one bounded-range use, up to which these are enumerated."""


CONFIG = BoundsConfig()

AnswerTarget = Callable[[Target, float | None], Bracket]
"""From a target and a relative width, or None for the usual one, to a certified bracket of what the target wants."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One proven bound: its name, the statement it rests on, and what it answers.

    Some analyst reaches the lower ends of a `tight` bound; lower ends of other bounds say nothing. A `preliminary`
    bound is quick, and the next one is asked unless the bracket is already as narrow as grids aim for. `registered`
    are the name and the statement when parameters are preregistered, where a filter's words do not fit.
    """

    method: str
    statement: str
    tight: bool
    answer: AnswerTarget
    preliminary: bool = False
    registered: tuple[str, str] | None = None

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return the bracket of delta at epsilon."""
        return self.answer(Target("delta", epsilon), width)

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return the bracket of epsilon at delta."""
        return self.answer(Target("epsilon", delta), width)


class Solver(Hashable, Protocol):
    """A computation that answers both kinds of target; it is a value, so that its answers can be kept."""

    def delta(self, epsilon: float, width: float | None = None) -> Bracket:
        """Return the bracket of delta at epsilon."""
        ...

    def epsilon(self, delta: float, width: float | None = None) -> Bracket:
        """Return the bracket of epsilon at delta."""
        ...


def _solved_by(solver: Solver) -> AnswerTarget:
    """Return the answers of a solver, which is a value."""
    return lambda target, width: _solve(solver, target, width)


@lru_cache(maxsize=128)
def _solve(solver: Solver, target: Target, width: float | None) -> Bracket:
    """Return what a solver answers, computed once: several interactions of the same uses ask for the same."""
    return solver.delta(target.given, width) if target.wanted == "delta" else solver.epsilon(target.given, width)


def _from_curve(
    method: str,
    statement: str,
    curve: Callable[[float], Bracket],
    failure: Bracket,
    *,
    tight: bool,
    largest: float = math.inf,
) -> Bound:
    """Return a bound from its delta; epsilon is found by inverting it, unless delta is below the chance of failure.

    Only failures lose more than `largest`.
    """

    def answer(target: Target, _: float | None) -> Bracket:
        if target.wanted == "delta":
            return curve(target.given)
        if target.given < failure.lower:
            raise Unattainable(_OUT_OF_REACH.format(delta=target.given, failure=failure.upper))
        found = epsilon_at(target.given, curve)
        most = largest if failure.upper <= target.given else math.inf
        return Bracket(min(found.lower, most), min(found.upper, most))

    return Bound(method, statement, tight, answer)


def bounds_for(kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Iterator[Bound]:
    """Yield the bounds that cover the uses, the tight ones first."""
    if interaction is Interaction.ADAPTIVE:
        yield from _adaptive_bounds(kinds)
        return
    if not kinds.classes:
        yield from _optimal(kinds, interaction, effort)
    yield from _by_moments(kinds)


def _optimal(kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Iterator[Bound]:
    """Yield bounds that bracket the optimum: exact where there is a closed form, certified numerics elsewhere."""
    merged = _merged_integer_gaussians(kinds, interaction, effort)
    if merged is not None:
        yield merged
        return
    if not kinds.ranges:
        yield linear_bound(kinds)
        return
    closed = _closed_form(kinds, interaction)
    if closed is not None:
        yield closed
        return
    # The first to be narrow ends the search: the grid where it is quick, else the majorant. Where the grid is quick but
    # rough, or draws are many, both are asked.
    on_the_grid = _on_the_grid(kinds, interaction, effort)
    any_order = interaction is Interaction.SETWISE
    if (quick_in_any_order if any_order else quick_in_one_order)(kinds.ranges):
        if sum(count for _, count in kinds.ranges) >= CONFIG.many_ranges:
            yield _all_in_one_gaussian(kinds)
        yield from on_the_grid
        yield _majorant(kinds, interaction, effort)
    else:
        worth_pricing = any_order and effort.pricing and quick_when_priced(kinds.ranges)
        yield replace(_majorant(kinds, interaction, effort), preliminary=worth_pricing)
        yield from on_the_grid if worth_pricing else map(_if_asked, on_the_grid)


def _on_the_grid(kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Iterator[Bound]:
    """Yield the certified optimum of bounded-range uses beside linear ones."""
    match interaction:
        case Interaction.ORDERED:
            yield _optimum(_in_order(kinds.uses), kinds.failure, effort, "lem:adap_recursion_hetero", tight=True)
        case Interaction.BATCH:
            yield from _batch_mixture(kinds, effort)
        case _:
            yield _optimum(_linear_first(kinds), kinds.failure, effort, _SETWISE, tight=True)


def _merged_integer_gaussians(kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Bound | None:
    """Return the bound in which one Gaussian stands for many integer Gaussians with different noise, None for few.

    From above they are priced in any order; from below they are Gaussians with a little more noise.
    """
    merged = [(known, count) for known, count in kinds.linear if isinstance(known, DiscreteGaussian)]
    if len(merged) <= CONFIG.most_integer_gaussians:
        return None
    from setwise.accounting.methods.gaussian_majorant import in_any_order
    from setwise.accounting.methods.integer_gaussians import gaussians_below
    from setwise.accounting.wallet import gaussian_of

    size = in_any_order(merged)
    if size > CONFIG.largest_wallet:
        return None
    below = gaussians_below(merged)
    others = [use for use in kinds.uses if not isinstance(use.guarantee.split_off_failure()[0], DiscreteGaussian)]
    with_one_above = classify([*others, Use(gaussian_of(size))])
    with_some_below = classify([*others, *(Use(known, count) for known, count in below.gaussians)])

    def answer(target: Target, width: float | None) -> Bracket:
        upper = _first_narrow(with_one_above, interaction, target, width, effort).upper
        with contextlib.suppress(Unattainable):
            # delta is at least exp(-ripple) times that of the Gaussians below, at an epsilon larger by the ripple
            shrink = math.exp(-below.ripple) * (1.0 - 1e-15)
            if target.wanted == "delta":
                at = Target("delta", up(target.given + below.ripple))
                lower = shrink * _first_narrow(with_some_below, interaction, at, width, effort).lower
            else:
                at = Target("epsilon", min(up(target.given / shrink), 1.0 - 1e-16))
                lower = _first_narrow(with_some_below, interaction, at, width, effort).lower - below.ripple * (1 + 1e-9)
            return Bracket(max(0.0, min(lower, upper)), upper)
        return Bracket(0.0, upper)

    return Bound("gaussian-majorant", _MAJORANT, True, answer)


def _first_narrow(
    kinds: ClassifiedUses, interaction: Interaction, target: Target, width: float | None, effort: Effort
) -> Bracket:
    """Return what the bounds that bracket the optimum say together, up to the first that is narrow."""
    return certified(_optimal(kinds, interaction, effort), target, width, effort)[0]


def certified(bounds: Iterator[Bound], target: Target, width: float | None, effort: Effort) -> tuple[Bracket, Bound]:
    """Return the bracket that bounds give together, and the bound with the least upper end.

    Bounds are asked until the bracket is narrow: to the relative `width`, or else to what the effort calls enough.
    """
    found: list[tuple[Bracket, Bound]] = []
    refusals: list[Unattainable] = []
    for bound in bounds:
        try:
            bracket = bound.answer(target, width)
        except Unattainable as refusal:
            refusals.append(refusal)
            continue
        found.append((bracket, bound))
        enough = width or (effort.width if bound.preliminary else effort.enough)
        if _together(found).relative_width <= enough:
            break
    if not found:
        raise refusals[0]
    return _together(found), min(found, key=lambda pair: pair[0].upper)[1]


def _together(found: Sequence[tuple[Bracket, Bound]]) -> Bracket:
    """Return the intersection of brackets: only tight bounds have a lower end that some analyst reaches."""
    upper = min(bracket.upper for bracket, _ in found)
    return Bracket(min(upper, max([0.0, *(bracket.lower for bracket, bound in found if bound.tight)])), upper)


def _all_in_one_gaussian(kinds: ClassifiedUses) -> Bound:
    """Return the bound in which one Gaussian stands for all bounded-range uses: quick, and tight when they are many."""
    from setwise.accounting.methods.gaussian_majorant import in_any_order
    from setwise.accounting.wallet import gaussian_of

    size = in_any_order([(BoundedRange(epsilon=epsilon), count) for epsilon, count in kinds.ranges])
    stand_in = gaussian_of(min(size, CONFIG.largest_wallet))
    merged = classify([Use(stand_in), *(Use(known, count) for known, count in _guarantees(kinds.linear))])
    above = linear_bound(replace(merged, failed=kinds.failed))

    def answer(target: Target, width: float | None) -> Bracket:
        if size > CONFIG.largest_wallet:
            raise Unattainable("a Gaussian that stands for these uses promises nothing")
        return Bracket(0.0, above.answer(target, width).upper)

    return Bound("gaussian-majorant", _MAJORANT, False, answer)


def _guarantees(linear: Sequence[tuple[KnownNoise, int]]) -> list[tuple[Guarantee, int]]:
    """Return the linear uses that are guarantees, all but two-point laws."""
    return [(known, count) for known, count in linear if not isinstance(known, TwoPointLaw)]


def _majorant(kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Bound:
    """Return the bound in which one Gaussian stands for the small bounded-range parameters.

    It covers every order. The lower end is that of a batch; if the interaction is set-wise, also that of an analyst
    who draws the small ones as randomized responses and then the large ones, the smaller first.
    """
    from setwise.accounting.methods.gaussian_majorant import splits_of
    from setwise.accounting.wallet import gaussian_of

    linear = [Use(known, count) for known, count in _guarantees(kinds.linear)]

    def bound(others: Sequence[Use], *stages: tuple[Group, ...]) -> Bound:
        """Return the bound of the others and then of bounded-range uses, in any order within each stage."""
        merged = replace(classify([*linear, *others]), failed=kinds.failed)
        ranges = [RangeStage(groups) for groups in stages if groups]
        if not ranges:
            return linear_bound(merged)
        first = [LinearStage(merged.linear)] if merged.linear else []
        return _optimum((*first, *ranges), kinds.failure, effort, _SETWISE, tight=True)

    splits = splits_of(kinds.ranges, math.fsum(count * spread(known)[0] for known, count in kinds.linear))
    above = [
        bound([Use(gaussian_of(part.wallet))] if part.small else [], part.large)
        for part in splits
        if part.wallet < CONFIG.largest_wallet
    ]
    below = [lower_bound(kinds)]
    if interaction is Interaction.SETWISE and splits[-1].large:
        attained = [
            Use(known, count)
            for epsilon, count in splits[-1].small
            if (known := BoundedRange(epsilon=epsilon).worst_known_example()) is not None
        ]
        below.append(bound(attained, *((group,) for group in sorted(splits[-1].large))))

    def answer(target: Target, _: float | None) -> Bracket:
        def ask(bound: Bound) -> Bracket:
            try:
                return bound.answer(target, None)
            except Unattainable:
                return Bracket(0.0, math.inf)

        upper = min((ask(each).upper for each in above), default=math.inf)
        if upper == math.inf:
            raise Unattainable("no Gaussian is known to stand for these uses")
        lower = 0.0
        for each in below:
            lower = max(lower, min(ask(each).lower, upper))
            if upper - lower <= effort.width * upper:
                break
        return Bracket(lower, upper)

    return Bound("gaussian-majorant", _MAJORANT, True, answer)


def _closed_form(kinds: ClassifiedUses, interaction: Interaction) -> Bound | None:
    """Return the optimum of bounded-range uses beside linear ones where it has a closed form, else None."""
    uses = kinds.uses
    if interaction is Interaction.ORDERED:
        from setwise.accounting.methods.closed_forms import three_in_order

        three = three_in_order(uses)
        if three is not None:
            return _from_curve("three-closed-form", "lem:ordbrdp2", three, kinds.failure, tight=True)
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
    return _from_curve("batch-optimum", statement, batch, kinds.failure, tight=True)


def _one_range(kinds: ClassifiedUses) -> Bound | None:
    """Return the set-wise optimum of one bounded-range use after linear ones whose losses can be enumerated."""
    from setwise.accounting.methods.exact import ExactLinear, OneRange

    before = enumerated(kinds.linear, CONFIG.most_beside)
    if before is None:
        return None
    exact = ExactLinear(before, OneRange(kinds.ranges[0][0]), kinds.failure)
    largest = largest_loss([*kinds.linear, (BoundedRange(epsilon=kinds.ranges[0][0]), 1)])
    return _from_curve("exact", _SETWISE, exact.delta, kinds.failure, tight=True, largest=largest)


def closed_form(kinds: ClassifiedUses, interaction: Interaction) -> Bound | None:
    """Return the optimum of bounded-range uses, beside others or not, where it has a closed form, else None."""
    return _closed_form(kinds, interaction) if kinds.ranges and not kinds.classes else None


def _batch(kinds: ClassifiedUses) -> Callable[[float], Bracket] | None:
    """Return the optimal batch delta when all bounded-range epsilons agree and the rest is pure DP on their lattice."""
    from setwise.accounting.methods.closed_forms import BatchBoundedRange, shared_offset

    epsilons = kinds.pure_epsilons()
    if len(kinds.ranges) != 1 or epsilons is None or not shared_offset(kinds.ranges[0][0], epsilons):
        return None
    epsilon, count = kinds.ranges[0]
    if count > CONFIG.most_in_batch:
        return None
    beside = enumerated(kinds.linear, CONFIG.most_beside)
    return None if beside is None else BatchBoundedRange(epsilon, count, beside, kinds.failure).delta


def _batch_mixture(kinds: ClassifiedUses, effort: Effort) -> Iterator[Bound]:
    """Yield the bounds of a batch of bounded-range mechanisms without a common lattice."""
    from setwise.accounting.methods import batch_mixture

    mixture = batch_mixture.batch_mixture(kinds.ranges, kinds.linear, kinds.failure)
    found = [] if mixture is None else [Bound("batch-optimum", _MIXTURE, True, _solved_by(mixture))]
    one_range = sum(count for _, count in kinds.ranges) == 1
    if one_range and (exact := _one_range(kinds)) is not None:
        yield replace(exact, tight=False)
        yield from found
        return
    one_order = upper_bound_order(kinds.ranges, kinds.linear)
    in_order = _optimum(one_order, kinds.failure, effort, _MIXTURE, tight=False)
    found.append(_either(in_order, _optimum(_linear_first(kinds), kinds.failure, effort, _SETWISE, tight=False)))
    # With one or two distinct epsilons the first is narrow; with more, either may be the better one.
    yield from found if len(kinds.ranges) <= batch_mixture.CONFIG.most_fixed else reversed(found)


def _optimum(stages: tuple[Stage, ...], failure: Bracket, effort: Effort, statement: str, *, tight: bool) -> Bound:
    return Bound("certified-optimum", statement, tight, _solved_by(Optimum(stages, failure, effort)))


def _if_asked(bound: Bound) -> Bound:
    """Return the bound for answers of which a width is asked: it is slow, and mostly wider than those before it."""

    def answer(target: Target, width: float | None) -> Bracket:
        if width is None:
            raise Unattainable("the grid of these uses takes long; ask for a width")
        return bound.answer(target, width)

    return replace(bound, answer=answer)


def _either(first: Bound, second: Bound) -> Bound:
    """Return the first bound, with the second where that refuses; both must cover the same."""

    def answer(target: Target, width: float | None) -> Bracket:
        try:
            return first.answer(target, width)
        except Unattainable:
            return second.answer(target, width)

    return replace(first, answer=answer)


def linear_bound(kinds: ClassifiedUses, most_atoms: int | None = None) -> Bound:
    """Return the optimum of linear uses alone, whatever the interaction: they commute.

    Up to `most_atoms` losses are enumerated, or as many as takes about a second.
    """
    from setwise.accounting.methods.exact import MOST_ATOMS, exact_linear, nearly_no_noise

    exact = exact_linear(kinds.linear, kinds.failure, MOST_ATOMS if most_atoms is None else most_atoms)
    if exact is None:
        from setwise.accounting.losses.pld import LatticeSum

        lattice = LatticeSum(kinds.linear, kinds.failure)
        bound = Bound("privacy-loss-lattice", _LINEAR, True, _solved_by(lattice))
        certain = nearly_no_noise(kinds.linear, kinds.failure)
        return (
            bound
            if certain is None
            else _either(_from_curve("exact", _LINEAR, certain.delta, kinds.failure, tight=True), bound)
        )
    if kinds.pure_epsilons() is not None:
        statement = "thm:opt_DPCOMP" if len(kinds.linear) == 1 and not kinds.failed else "MurtaghVa16"
    else:
        statement = "lem:AGM" if len(kinds.linear) == 1 and isinstance(kinds.linear[0][0], Gaussian) else _LINEAR
    largest = largest_loss(kinds.linear)
    return _from_curve("exact", statement, exact.delta, kinds.failure, tight=True, largest=largest)


def _linear_first(kinds: ClassifiedUses) -> tuple[Stage, ...]:
    ranges = RangeStage(kinds.ranges)
    return (LinearStage(kinds.linear), ranges) if kinds.linear else (ranges,)


def _in_order(uses: Sequence[Use]) -> tuple[Stage, ...]:
    """Return the uses as stages in their order, neighbouring linear ones together."""
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


def _by_moments(kinds: ClassifiedUses) -> Iterator[Bound]:
    """Yield the bounds that need only sums over the uses; they hold in any adaptive order."""
    uses = kinds.uses
    from setwise.accounting.methods.moments import subgaussian_sum, zero_concentrated_sum

    subgaussian = subgaussian_sum(uses)
    if subgaussian is not None:
        yield _from_curve("subgaussian-sum", "lem:genbound", subgaussian.delta, subgaussian.failure, tight=False)
    zcdp = zero_concentrated_sum(uses)
    beside = _beside_gaussians(kinds)
    if beside is not None:
        yield beside
    yield _from_curve("zcdp-sum", _ZCDP, zcdp.delta, zcdp.failure, tight=False)
    yield from _basic(uses, kinds.failure)


def _beside_gaussians(kinds: ClassifiedUses) -> Bound | None:
    """Return the bound of classes beside Gaussian noise, None where either is missing."""
    from setwise.accounting.methods.moments import ClassesBesideGaussian, zero_concentrated_sum

    gaussians = [known for known, _ in kinds.linear if isinstance(known, Gaussian)]
    rest = zero_concentrated_sum([use for use in kinds.uses if not isinstance(use.guarantee, Gaussian)])
    if not (kinds.classes and gaussians) or rest.rho == 0.0:
        return None
    together = ClassesBesideGaussian(rest.xi, rest.rho, gaussians[0].sigma, rest.failure)
    return _from_curve("zcdp-beside-gaussian", _CLASSES, together.delta, rest.failure, tight=False)


def _basic(uses: Sequence[Use], failure: Bracket) -> Iterator[Bound]:
    from setwise.accounting.methods.exact import BASIC, BASIC_STATEMENT, BasicSum

    total = largest_loss((use.guarantee, use.count) for use in uses)
    if total == math.inf:
        return

    basic = BasicSum(total, failure)

    def answer(target: Target, _: float | None) -> Bracket:
        if target.wanted == "delta":
            return basic.delta(target.given)
        if target.given < failure.upper:
            raise Unattainable(_OUT_OF_REACH.format(delta=target.given, failure=failure.upper))
        return Bracket(0.0, total)

    yield Bound(BASIC, BASIC_STATEMENT, False, answer)


def _adaptive_bounds(kinds: ClassifiedUses) -> Iterator[Bound]:
    """Yield the bounds of filters: they hold when parameters too are chosen on the fly, up to these totals."""
    uses = kinds.uses
    from setwise.accounting.filters import filter_parameters
    from setwise.accounting.methods.gaussian_majorant import in_any_order
    from setwise.accounting.wallet import gaussian_of

    spent = filter_parameters(uses)
    size = in_any_order([(use.guarantee, use.count) for use in uses])
    if size < CONFIG.largest_wallet:
        budget = f"a wallet of mu = {up(math.sqrt(size)):.9g}, if no larger one is enforced"
        wallet = linear_bound(classify([Use(gaussian_of(size))] if size else []))

        def paid(x: float) -> Bracket:
            return Bracket(0.0, either_fails(spent.failure, wallet.delta(x)).upper)

        bound = _from_curve("gaussian-wallet", f"{_WALLETS}: {budget}", paid, spent.failure, tight=False)
        yield replace(bound, registered=("gaussian-majorant", _MAJORANT))
    budget = f"rho = {spent.rho:.9g}, if no larger one is enforced"
    statement = f"WhitehouseRaRoWu23 with CanonneKaSt20: {budget}"
    bound = _from_curve("zcdp-filter", statement, spent.delta, spent.failure, tight=False)
    yield replace(bound, registered=("zcdp-sum", _ZCDP))
    yield from _basic(uses, spent.failure)


def lower_bound(kinds: ClassifiedUses) -> Bound:
    """Return the exact composition of mechanisms that satisfy the guarantees, in a batch: no promise can be below it.

    Of the upper ends of this bound nothing is claimed.
    """

    def answer(target: Target, width: float | None) -> Bracket:
        best = 0.0
        for witnesses in (_fixed_witnesses, _worst_responses, _worst_laws):
            for bound in witnesses(kinds, target):
                with contextlib.suppress(Unattainable):
                    best = max(best, bound.answer(target, width).lower)
        return Bracket(best, math.inf)

    return Bound("witnesses", "mechanisms that satisfy the guarantees", True, answer)


def epsilon_reached(uses: Sequence[Use], delta: float) -> float:
    """Return an epsilon at which mechanisms that satisfy the guarantees are known to exceed `delta`, or 0."""
    return lower_bound(classify(uses)).epsilon(delta).lower


def _fixed_witnesses(kinds: ClassifiedUses, _: Target) -> Iterator[Bound]:
    """Yield the composition of one known example of each guarantee, and each of them alone: fewer uses betray less."""
    witnesses = [
        Use(known, use.count) for use in kinds.uses if (known := use.guarantee.worst_known_example()) is not None
    ]
    for uses in (witnesses, *([use] for use in witnesses if len(witnesses) > 1)):
        merged = classify(uses)
        integers = _merged_integer_gaussians(merged, Interaction.BATCH, Effort())
        if uses:
            yield linear_bound(merged, CONFIG.most_witnessed) if integers is None else integers


def _worst_responses(kinds: ClassifiedUses, target: Target) -> Iterator[Bound]:
    """Yield the composition in which bounded-range uses are the generalized responses that are worst at the target.

    Their t is the best one against a tail that falls like exp(-tilt x), with the tilt that points at the target.
    """
    if not kinds.ranges or kinds.classes:
        return
    saddle = proxy_saddle(kinds.linear, kinds.ranges)
    if target.wanted == "delta":
        tilt = saddle.for_loss(target.given)
    else:
        spare = target.given - kinds.failure.upper
        tilt = saddle.for_delta(spare) if spare > 0.0 else 0.0
    if tilt <= 0.0:
        return
    highs = ((epsilon, count, worst_t(epsilon, tilt)) for epsilon, count in kinds.ranges)
    responses = tuple((TwoPointLaw(high, high - epsilon), count) for epsilon, count, high in highs)
    yield linear_bound(replace(kinds, linear=(*kinds.linear, *responses), ranges=()), CONFIG.most_witnessed)


def _worst_laws(kinds: ClassifiedUses, target: Target) -> Iterator[Bound]:
    """Yield the composition in which the zCDP uses of one kind have the worst losses with two values.

    These are all uses of the kind with the largest sum of rho; other classes are Gaussian noise. The law is fitted to
    the epsilon that the sum of zCDP promises, and then to the epsilon that it reaches.
    """
    from setwise.accounting.methods.concentrated_laws import best_high

    concentrated = [use for use in kinds.classes if isinstance(use.guarantee, ZeroConcentratedDP)]
    if not concentrated or kinds.ranges:
        return
    worst = max(concentrated, key=lambda use: use.count * (use.guarantee.zero_concentrated().rho))
    parameters = worst.guarantee.zero_concentrated()
    xi, rho = parameters.xi, parameters.rho
    if not (rho > 1e-12 and xi + rho > 0.0) or worst.count > CONFIG.most_laws:
        return
    witnesses = [known for use in kinds.classes if use is not worst for known in [use.guarantee.worst_known_example()]]
    counts = [use.count for use in kinds.classes if use is not worst]
    others = [Use(known, count) for known, count in zip(witnesses, counts, strict=True) if known is not None]
    beside = classify([*(Use(known, count) for known, count in _guarantees(kinds.linear)), *others])
    if enumerated([(known, count) for known, count in beside.linear if not isinstance(known, Gaussian)], 1000) is None:
        return

    def composed(law: TwoPointLaw) -> Bound:
        linear = (*beside.linear, (law, worst.count))
        return linear_bound(replace(beside, linear=linear, failed=kinds.failed))

    epsilon = target.given if target.wanted == "delta" else epsilon_at(target.given, _concentrated_above(kinds)).upper
    for _ in range(1 if target.wanted == "delta" else CONFIG.law_rounds):
        at = max(epsilon, 1e-9)

        def reached(candidate: TwoPointLaw, at: float = at) -> float:
            return composed(candidate).delta(at).lower

        law = best_high(xi, rho, reached, (at + math.sqrt(rho)) / worst.count + math.sqrt(rho))
        if law is None:
            return
        yield composed(law)
        if target.wanted == "epsilon":
            with contextlib.suppress(Unattainable):
                epsilon = composed(law).epsilon(target.given).lower


def _concentrated_above(kinds: ClassifiedUses) -> Callable[[float], Bracket]:
    """Return the delta that the sum of the zCDP parameters promises."""
    from setwise.accounting.methods.moments import zero_concentrated_sum

    return zero_concentrated_sum(kinds.uses).delta

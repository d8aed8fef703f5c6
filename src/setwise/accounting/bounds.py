"""Which proven bounds cover which uses under which interaction, tightest first.

Uses are classified by how they compose: linear (a fixed dominating pair), bounded range, or by moments only.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from setwise.accounting.adaptive.dynamic_program import Group, quick_in_any_order, quick_in_one_order, quick_when_priced
from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.adaptive.stages import LinearStage, RangeStage, Stage, upper_bound_order
from setwise.accounting.brackets import Bracket, Effort, Interaction, any_fails, either_fails, epsilon_at, up
from setwise.accounting.guarantees import BoundedRange, Gaussian, PureDP, Use, largest_loss
from setwise.accounting.losses.dominating_pairs import KnownNoise, enumerated, spread
from setwise.errors import Unattainable

# Methods are imported where they are tried: most compositions need one or two of them.


@dataclass(frozen=True, slots=True)
class ClassifiedUses:
    """A multiset of uses: `linear` have fixed dominating pairs, `ranges` are bounded-range, `classes` the rest.

    `failed` lists (delta, count) of outright failures. They separate from everything else, because a profile that is
    raised by a constant share stays so under every operator.
    """

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
        rest, failure = use.guarantee.split_off_failure()
        if failure:
            failed.append((failure, use.count))
        match rest:
            case None:
                pass
            case BoundedRange(epsilon=epsilon):
                ranges[epsilon] = ranges.get(epsilon, 0) + use.count
            case Gaussian():
                gaussians.append((rest, use.count))
            case _ if isinstance(rest, KnownNoise):
                linear[rest] = linear.get(rest, 0) + use.count
            case _:
                classes.append(Use(rest, use.count))
    if gaussians:
        linear[Gaussian.merged(gaussians)] = 1
    return ClassifiedUses(tuple(linear.items()), tuple(sorted(ranges.items())), tuple(failed), tuple(classes))


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
class Tuning:
    """Which bounds are tried; each of them holds, whatever these numbers are."""

    largest_wallet: float = 1e6
    """mu^2 beyond which a Gaussian promises nothing."""
    many_ranges: int = 1_000
    """Bounded-range uses from which on one Gaussian is about as tight as the grid, and follows the count smoothly."""
    most_in_batch: int = 50_000
    """Bounded-range uses up to which the closed form of a batch is searched for its worst t."""
    most_beside: int = 100_000
    """Atoms of linear uses beside it, or beside one bounded-range use, up to which these are enumerated."""


TUNING = Tuning()

Answering = Callable[[float, float | None], Bracket]
"""From an epsilon or a delta, and a width or none, to a bracket of the other."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One proven bound: its name, the statement it rests on, and its two directions.

    `tight` brackets are of the optimum itself, so no other bound can improve on them by more than their width.
    `registered` are the name and the statement when parameters are preregistered, where a filter's words do not fit.
    """

    method: str
    statement: str
    tight: bool
    delta: Answering
    epsilon: Answering
    registered: tuple[str, str] | None = None


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

    def epsilon(delta: float, _: float | None) -> Bracket:
        if delta < failure.lower:
            raise Unattainable(_OUT_OF_REACH.format(delta=delta, failure=failure.upper))
        found = epsilon_at(delta, curve)
        most = largest if failure.upper <= delta else math.inf
        return Bracket(min(found.lower, most), min(found.upper, most))

    return Bound(method, statement, tight, lambda x, _: curve(x), epsilon)


def bounds_for(uses: Sequence[Use], interaction: Interaction, effort: Effort) -> Iterator[Bound]:
    """Yield the bounds that cover the uses, the tight ones first."""
    if interaction is Interaction.ADAPTIVE:
        yield from _adaptive_bounds(uses)
        return
    kinds = classify(uses)
    if not kinds.classes:
        yield from _optimal(uses, kinds, interaction, effort)
    yield from _by_moments(uses, kinds)


def _optimal(uses: Sequence[Use], kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Iterator[Bound]:
    """Yield bounds that bracket the optimum: exact where there is a closed form, certified numerics elsewhere."""
    if not kinds.ranges:
        yield linear_bound(kinds)
        return
    closed = _closed_form(uses, kinds, interaction)
    if closed is not None:
        yield closed
        return
    # The first to be narrow ends the search: the grid where it is quick, else the majorant. Where the grid is quick but
    # rough, or draws are many, both are tried: a bound that is not called tight ends nothing.
    on_the_grid = _on_the_grid(uses, kinds, interaction, effort)
    any_order = interaction is Interaction.SETWISE
    if (quick_in_any_order if any_order else quick_in_one_order)(kinds.ranges):
        if sum(count for _, count in kinds.ranges) >= TUNING.many_ranges:
            yield _all_in_one_gaussian(kinds)
        yield from on_the_grid
        yield _majorant(uses, kinds, interaction, effort)
    else:
        majorant = _majorant(uses, kinds, interaction, effort)
        on_purpose = any_order and not quick_when_priced(kinds.ranges)
        yield replace(majorant, tight=not any_order or on_purpose)
        yield from map(_if_asked, on_the_grid) if on_purpose else on_the_grid


def _on_the_grid(
    uses: Sequence[Use], kinds: ClassifiedUses, interaction: Interaction, effort: Effort
) -> Iterator[Bound]:
    """Yield the certified optimum of bounded-range uses beside linear ones."""
    match interaction:
        case Interaction.ORDERED:
            yield _optimum(_in_order(uses), kinds.failure, effort, "lem:adap_recursion_hetero", tight=True)
        case Interaction.BATCH:
            yield from _batch_mixture(kinds, effort)
        case _:
            yield _optimum(_linear_first(kinds), kinds.failure, effort, _SETWISE, tight=True)


def _all_in_one_gaussian(kinds: ClassifiedUses) -> Bound:
    """Return the bound in which one Gaussian stands for all bounded-range uses: quick, and tight when they are many."""
    from setwise.accounting.methods.gaussian_majorant import in_any_order
    from setwise.accounting.wallet import gaussian_of

    size = in_any_order([(BoundedRange(epsilon=epsilon), count) for epsilon, count in kinds.ranges])
    stand_in = gaussian_of(min(size, TUNING.largest_wallet))
    merged = classify([Use(stand_in), *(Use(known, count) for known, count in kinds.linear)])
    above = linear_bound(replace(merged, failed=kinds.failed))

    def asked(answer: Answering) -> Answering:
        def ask(value: float, width: float | None) -> Bracket:
            if size > TUNING.largest_wallet:
                raise Unattainable("a Gaussian that stands for these uses promises nothing")
            return Bracket(0.0, answer(value, width).upper)

        return ask

    return Bound("gaussian-majorant", _MAJORANT, False, asked(above.delta), asked(above.epsilon))


def _majorant(uses: Sequence[Use], kinds: ClassifiedUses, interaction: Interaction, effort: Effort) -> Bound:
    """Return the bound in which one Gaussian stands for the small bounded-range parameters.

    It covers every order. From below the small ones are randomized responses, and the large ones, too, unless the
    interaction is set-wise: then they are drawn after these, the smaller first.
    """
    from setwise.accounting.methods.gaussian_majorant import splits_of
    from setwise.accounting.wallet import gaussian_of

    linear = [Use(known, count) for known, count in kinds.linear]

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
        if part.wallet < TUNING.largest_wallet
    ]
    if interaction is Interaction.SETWISE:
        attained = [
            Use(known, count)
            for epsilon, count in splits[-1].small
            if (known := BoundedRange(epsilon=epsilon).worst_known_example()) is not None
        ]
        below = bound(attained, *((group,) for group in sorted(splits[-1].large)))
    else:
        below = lower_bound(uses)

    def between(ask: Callable[[Bound], Bracket]) -> Bracket:
        def asked(bound: Bound) -> Bracket:
            try:
                return ask(bound)
            except Unattainable:
                return Bracket(0.0, math.inf)

        upper = min((asked(each).upper for each in above), default=math.inf)
        if upper == math.inf:
            raise Unattainable("no Gaussian is known to stand for these uses")
        return Bracket(min(asked(below).lower, upper), upper)

    return Bound(
        "gaussian-majorant",
        _MAJORANT,
        True,
        lambda x, _: between(lambda bound: bound.delta(x, None)),
        lambda p, _: between(lambda bound: bound.epsilon(p, None)),
    )


def _closed_form(uses: Sequence[Use], kinds: ClassifiedUses, interaction: Interaction) -> Bound | None:
    """Return the optimum of bounded-range uses beside linear ones where it has a closed form, else None."""
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

    before = enumerated(kinds.linear, TUNING.most_beside)
    if before is None:
        return None
    exact = ExactLinear(before, OneRange(kinds.ranges[0][0]), kinds.failure)
    largest = largest_loss([*kinds.linear, (BoundedRange(epsilon=kinds.ranges[0][0]), 1)])
    return _from_curve("exact", _SETWISE, exact.delta, kinds.failure, tight=True, largest=largest)


def closed_form(uses: Sequence[Use], interaction: Interaction) -> Bound | None:
    """Return the optimum of bounded-range uses, beside others or not, where it has a closed form, else None."""
    kinds = classify(uses)
    return _closed_form(uses, kinds, interaction) if kinds.ranges and not kinds.classes else None


def _batch(kinds: ClassifiedUses) -> Callable[[float], Bracket] | None:
    """Return the optimal batch delta when all bounded-range epsilons agree and the rest is pure DP on their lattice."""
    from setwise.accounting.methods.closed_forms import BatchBoundedRange, shared_offset

    epsilons = kinds.pure_epsilons()
    if len(kinds.ranges) != 1 or epsilons is None or not shared_offset(kinds.ranges[0][0], epsilons):
        return None
    epsilon, count = kinds.ranges[0]
    if count > TUNING.most_in_batch:
        return None
    beside = enumerated(kinds.linear, TUNING.most_beside)
    return None if beside is None else BatchBoundedRange(epsilon, count, beside, kinds.failure).delta


def _batch_mixture(kinds: ClassifiedUses, effort: Effort) -> Iterator[Bound]:
    """Yield the bounds of a batch of bounded-range mechanisms without a common lattice."""
    from setwise.accounting.methods import batch_mixture

    mixture = batch_mixture.batch_mixture(kinds.ranges, kinds.linear, kinds.failure)
    found = [] if mixture is None else [Bound("batch-optimum", _MIXTURE, True, mixture.delta, mixture.epsilon)]
    one_range = sum(count for _, count in kinds.ranges) == 1
    if one_range and (exact := _one_range(kinds)) is not None:
        yield replace(exact, tight=False)
        yield from found
        return
    one_order = upper_bound_order(kinds.ranges, kinds.linear)
    in_order = _optimum(one_order, kinds.failure, effort, _MIXTURE, tight=False)
    found.append(_either(in_order, _optimum(_linear_first(kinds), kinds.failure, effort, _SETWISE, tight=False)))
    # With one or two distinct epsilons the first is narrow; with more, either may be the better one.
    yield from found if len(kinds.ranges) <= batch_mixture.TUNING.most_fixed else reversed(found)


def _optimum(stages: tuple[Stage, ...], failure: Bracket, effort: Effort, statement: str, *, tight: bool) -> Bound:
    optimum = Optimum(stages, failure, effort)
    return Bound("certified-optimum", statement, tight, optimum.delta, optimum.epsilon)


def _if_asked(bound: Bound) -> Bound:
    """Return the bound for answers of which a width is asked: it is slow, and mostly wider than those before it."""

    def asked(answer: Answering) -> Answering:
        def ask(value: float, width: float | None) -> Bracket:
            if width is None:
                raise Unattainable("the grid of these uses takes long; ask for a width")
            return answer(value, width)

        return ask

    return replace(bound, delta=asked(bound.delta), epsilon=asked(bound.epsilon))


def _either(first: Bound, second: Bound) -> Bound:
    """Return the first bound, with the second where that refuses; both must cover the same."""

    def asked(one: Answering, other: Answering) -> Answering:
        def ask(value: float, width: float | None) -> Bracket:
            try:
                return one(value, width)
            except Unattainable:
                return other(value, width)

        return ask

    return replace(first, delta=asked(first.delta, second.delta), epsilon=asked(first.epsilon, second.epsilon))


def linear_bound(kinds: ClassifiedUses) -> Bound:
    """Return the optimum of linear uses alone, whatever the interaction: they commute."""
    from setwise.accounting.methods.exact import exact_linear, nearly_no_noise

    exact = exact_linear(kinds.linear, kinds.failure)
    if exact is None:
        from setwise.accounting.losses.pld import LatticeSum

        lattice = LatticeSum(kinds.linear, kinds.failure)
        bound = Bound("privacy-loss-lattice", _LINEAR, True, lattice.delta, lattice.epsilon)
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


def _by_moments(uses: Sequence[Use], kinds: ClassifiedUses) -> Iterator[Bound]:
    """Yield the bounds that need only sums over the uses; they hold in any adaptive order."""
    from setwise.accounting.methods.moments import subgaussian_sum, zero_concentrated_sum

    subgaussian = subgaussian_sum(uses)
    if subgaussian is not None:
        yield _from_curve("subgaussian-sum", "lem:genbound", subgaussian.delta, subgaussian.failure, tight=False)
    zcdp = zero_concentrated_sum(uses)
    beside = _beside_gaussians(uses, kinds)
    if beside is not None:
        yield beside
    yield _from_curve("zcdp-sum", _ZCDP, zcdp.delta, zcdp.failure, tight=False)
    yield from _basic(uses, kinds.failure)


def _beside_gaussians(uses: Sequence[Use], kinds: ClassifiedUses) -> Bound | None:
    """Return the bound of classes beside Gaussian noise, None where either is missing."""
    from setwise.accounting.methods.moments import ClassesBesideGaussian, zero_concentrated_sum

    gaussians = [known for known, _ in kinds.linear if isinstance(known, Gaussian)]
    rest = zero_concentrated_sum([use for use in uses if not isinstance(use.guarantee, Gaussian)])
    if not (kinds.classes and gaussians) or rest.rho == 0.0:
        return None
    together = ClassesBesideGaussian(rest.xi, rest.rho, gaussians[0].sigma, rest.failure)
    return _from_curve("zcdp-beside-gaussian", _CLASSES, together.delta, rest.failure, tight=False)


def _basic(uses: Sequence[Use], failure: Bracket) -> Iterator[Bound]:
    from setwise.accounting.methods.exact import BASIC, BASIC_STATEMENT, BasicSum

    total = largest_loss((use.guarantee, use.count) for use in uses)
    if total == math.inf:
        return

    def epsilon(delta: float, _: float | None) -> Bracket:
        if delta < failure.upper:
            raise Unattainable(_OUT_OF_REACH.format(delta=delta, failure=failure.upper))
        return Bracket(0.0, total)

    basic = BasicSum(total, failure)
    yield Bound(BASIC, BASIC_STATEMENT, False, lambda x, _: basic.delta(x), epsilon)


def _adaptive_bounds(uses: Sequence[Use]) -> Iterator[Bound]:
    """Yield the bounds of filters: they hold when parameters too are chosen on the fly, up to these totals."""
    from setwise.accounting.filters import filter_parameters
    from setwise.accounting.methods.gaussian_majorant import in_any_order
    from setwise.accounting.wallet import gaussian_of

    spent = filter_parameters(uses)
    size = in_any_order([(use.guarantee, use.count) for use in uses])
    if size < TUNING.largest_wallet:
        budget = f"a wallet of mu = {up(math.sqrt(size)):.9g}, if no larger one is enforced"
        wallet = linear_bound(ClassifiedUses(((gaussian_of(size), 1),) if size else (), (), (), ()))

        def paid(x: float) -> Bracket:
            return Bracket(0.0, either_fails(spent.failure, wallet.delta(x, None)).upper)

        bound = _from_curve("gaussian-wallet", f"{_WALLETS}: {budget}", paid, spent.failure, tight=False)
        yield replace(bound, registered=("gaussian-majorant", _MAJORANT))
    budget = f"rho = {spent.rho:.9g}, if no larger one is enforced"
    statement = f"WhitehouseRaRoWu23 with CanonneKaSt20: {budget}"
    bound = _from_curve("zcdp-filter", statement, spent.delta, spent.failure, tight=False)
    yield replace(bound, registered=("zcdp-sum", _ZCDP))
    yield from _basic(uses, spent.failure)


def lower_bound(uses: Sequence[Use]) -> Bound:
    """Return the exact composition of mechanisms that satisfy the guarantees: no promise can be below it."""
    witnesses = [Use(known, use.count) for use in uses if (known := use.guarantee.worst_known_example()) is not None]
    if not witnesses:
        return _from_curve("nothing", "nothing", lambda _: Bracket(0.0, 0.0), Bracket(0.0, 0.0), tight=True)
    together, *alone = (linear_bound(classify(each)) for each in (witnesses, *([use] for use in witnesses)))

    def asked(answer: Callable[[Bound], Answering]) -> Answering:
        def ask(value: float, width: float | None) -> Bracket:
            found = Bracket(0.0, math.inf)
            with contextlib.suppress(Unattainable):
                found = answer(together)(value, width)
            for bound in alone if found.lower == 0.0 else ():  # fewer uses betray less
                with contextlib.suppress(Unattainable):
                    found = Bracket(max(found.lower, min(answer(bound)(value, width).lower, found.upper)), found.upper)
            return found

        return ask

    return replace(together, delta=asked(lambda bound: bound.delta), epsilon=asked(lambda bound: bound.epsilon))

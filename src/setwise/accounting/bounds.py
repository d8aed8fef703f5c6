"""Which proven bounds cover which uses under which interaction, tightest first."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from setwise.accounting.adaptive.dynamic_program import Progress
from setwise.accounting.adaptive.linear_stage import LinearStage
from setwise.accounting.adaptive.optimum import Optimum, RangeStage, Stage
from setwise.accounting.answer import Interaction
from setwise.accounting.classify import Sorted, sort_uses, witness
from setwise.accounting.filters import filter_parameters
from setwise.accounting.guarantees import PureDP, Use
from setwise.accounting.intervals import Bracket
from setwise.accounting.losses.discrete import NOTHING, atoms_of
from setwise.accounting.losses.dominating_pairs import largest_loss
from setwise.accounting.losses.two_point import randomized_response
from setwise.accounting.methods.batch import BatchBoundedRange, shared_offset
from setwise.accounting.methods.batch_mixture import MOST_FIXED, batch_mixture, kindly_ordered
from setwise.accounting.methods.exact import MOST_ATOMS, exact_linear
from setwise.accounting.methods.moments import BasicSum, subgaussian_sum, zero_concentrated_sum
from setwise.accounting.methods.pld import LatticeSum
from setwise.accounting.methods.three_mechanisms import three_in_order
from setwise.accounting.root_finding import epsilon_at
from setwise.errors import Unattainable

_OUT_OF_REACH = (
    "delta = {delta!r} is not above {failure:.3g}, the chance that some use fails outright; ask for a larger delta"
)


_SETWISE = "docs/optimal-composition.md, the set-wise optimum"
_MIXTURE = "docs/closed-forms.md, batch mixtures"

_MOST_IN_BATCH = 50_000
"""Bounded-range mechanisms up to which the batch optimum is searched."""


Answering = Callable[[float, float | None], Bracket]
"""From an epsilon or a delta, and a width or none, to a bracket of the other."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One proven bound: its name, the statement it rests on, and its two directions.

    `tight` brackets are of the optimum itself, so no other bound can improve on them by more than their width.
    """

    method: str
    statement: str
    tight: bool
    delta: Answering
    epsilon: Answering


def _from_curve(
    method: str, statement: str, curve: Callable[[float], Bracket], failure: Bracket, *, tight: bool
) -> Bound:
    """Return a bound from its delta; epsilon is found by inverting it, unless delta is below the chance of failure."""

    def epsilon(delta: float, _: float | None) -> Bracket:
        if delta < failure.lower:
            raise Unattainable(_OUT_OF_REACH.format(delta=delta, failure=failure.upper))
        return epsilon_at(delta, curve)

    return Bound(method, statement, tight, lambda x, _: curve(x), epsilon)


def bounds_for(uses: Sequence[Use], interaction: Interaction, progress: Progress) -> Iterator[Bound]:
    """Yield the bounds that cover the uses, the tight ones first."""
    if interaction is Interaction.ADAPTIVE:
        yield from _on_the_fly(uses)
        return
    kinds = sort_uses(uses)
    if not kinds.classes:
        yield from _optimal(uses, kinds, interaction, progress)
    yield from _by_moments(uses, kinds)


def _optimal(uses: Sequence[Use], kinds: Sorted, interaction: Interaction, progress: Progress) -> Iterator[Bound]:
    """Yield bounds that bracket the optimum: exact where there is a closed form, certified numerics elsewhere."""
    if not kinds.ranges:
        yield linear_bound(kinds)
        return
    if interaction is Interaction.ORDERED and (three := three_in_order(uses)) is not None:
        yield _from_curve("three-closed-form", "lem:ordbrdp2", three, kinds.failure, tight=True)
        return
    one_epsilon = len({*(e for e, _ in kinds.ranges), *(_pure_epsilons(kinds) or [math.nan])}) == 1
    alone = sum(count for _, count in kinds.ranges) == 1 and one_epsilon
    batch = _batch(kinds)
    if batch is not None and interaction is Interaction.BATCH:
        statement = "thm:opt_nonadaptive" if kinds.linear else "thm:non-adaptive"
        yield _from_curve("batch-optimum", statement, batch.delta, kinds.failure, tight=True)
        return
    if batch is not None and alone:
        yield _from_curve(
            "batch-optimum", "prop:sbr-ord with thm:opt_nonadaptive", batch.delta, kinds.failure, tight=True
        )
        return
    match interaction:
        case Interaction.ORDERED:
            yield _optimum(_in_order(uses), kinds.failure, progress, "lem:adap_recursion_hetero", tight=True)
        case Interaction.BATCH:
            mixture = batch_mixture(kinds.ranges, kinds.linear, kinds.failure)
            found = [] if mixture is None else [Bound("batch-optimum", _MIXTURE, True, mixture.delta, mixture.epsilon)]
            kindly = kindly_ordered(kinds.ranges, kinds.linear)
            in_order = _optimum(kindly, kinds.failure, progress, _MIXTURE, tight=False)
            found.append(
                _either(in_order, _optimum(_linear_first(kinds), kinds.failure, progress, _SETWISE, tight=False))
            )
            # With one or two distinct epsilons the first is narrow; with more, either may be the better one.
            yield from found if len(kinds.ranges) <= MOST_FIXED else reversed(found)
        case _:
            yield _optimum(_linear_first(kinds), kinds.failure, progress, _SETWISE, tight=True)


def _optimum(stages: tuple[Stage, ...], failure: Bracket, progress: Progress, statement: str, *, tight: bool) -> Bound:
    optimum = Optimum(stages, failure, progress)
    return Bound("certified-optimum", statement, tight, optimum.delta, optimum.epsilon)


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


def linear_bound(kinds: Sorted) -> Bound:
    """Return the optimum of linear uses alone, whatever the interaction: they commute."""
    parts = kinds.structured()
    exact = exact_linear(parts) if parts is not None else None
    if exact is None:
        lattice = LatticeSum(kinds.linear, kinds.failure)
        statement = "docs/optimal-composition.md, linear mechanisms"
        return Bound("privacy-loss-lattice", statement, True, lattice.delta, lattice.epsilon)
    assert parts is not None
    if parts.inverse_variance and not parts.responses:
        statement = "lem:AGM"
    elif parts.inverse_variance:
        statement = "docs/optimal-composition.md, linear mechanisms"
    elif len(parts.responses) == 1 and not parts.failed:
        statement = "thm:opt_DPCOMP"
    else:
        statement = "MurtaghVa16"
    return _from_curve("exact", statement, exact.delta, kinds.failure, tight=True)


def _pure_epsilons(kinds: Sorted) -> list[float] | None:
    """Return the epsilons of the linear uses when all are pure DP, else None."""
    found = []
    for known, _ in kinds.linear:
        match known:
            case PureDP(epsilon=epsilon):
                found.append(epsilon)
            case _:
                return None
    return found


def _batch(kinds: Sorted) -> BatchBoundedRange | None:
    """Return the optimal batch bound when all bounded-range epsilons agree and the rest is pure DP on their lattice."""
    epsilons = _pure_epsilons(kinds)
    if len(kinds.ranges) != 1 or epsilons is None or not shared_offset(kinds.ranges[0][0], epsilons):
        return None
    epsilon, count = kinds.ranges[0]
    if count > _MOST_IN_BATCH:
        return None
    beside = NOTHING
    for known, number in kinds.linear:
        group = atoms_of(randomized_response(known.epsilon, number, 1e-120))  # type: ignore[union-attr]
        if beside.size * group.size > MOST_ATOMS // 10:
            return None
        beside = beside.times(group)
    return BatchBoundedRange(epsilon, count, beside, kinds.failure)


def _linear_first(kinds: Sorted) -> tuple[Stage, ...]:
    ranges = RangeStage(kinds.ranges)
    return (LinearStage(kinds.linear), ranges) if kinds.linear else (ranges,)


def _in_order(uses: Sequence[Use]) -> tuple[Stage, ...]:
    """Return the uses as stages in their order, neighbouring linear ones together."""
    stages: list[Stage] = []
    waiting: list[Use] = []
    for use in uses:
        kinds = sort_uses([use])
        if kinds.ranges:
            if waiting:
                stages.append(LinearStage(sort_uses(waiting).linear))
                waiting = []
            stages.append(RangeStage(kinds.ranges))
        elif kinds.linear:
            waiting.append(use)
    if waiting:
        stages.append(LinearStage(sort_uses(waiting).linear))
    return tuple(stages)


def _by_moments(uses: Sequence[Use], kinds: Sorted) -> Iterator[Bound]:
    """Yield the bounds that need only sums over the uses; they hold in any adaptive order."""
    subgaussian = subgaussian_sum(uses)
    if subgaussian is not None:
        yield _from_curve("subgaussian-sum", "lem:genbound", subgaussian.delta, subgaussian.failure, tight=False)
    zcdp = zero_concentrated_sum(uses)
    yield _from_curve("zcdp-sum", "lem:zCDPgenbound with CanonneKaSt20", zcdp.delta, zcdp.failure, tight=False)
    if not kinds.classes:
        yield from _basic(kinds, kinds.failure)


def _basic(kinds: Sorted, failure: Bracket) -> Iterator[Bound]:
    total = math.fsum([largest_loss(known) * count for known, count in kinds.linear] + [e * c for e, c in kinds.ranges])
    if total < math.inf:
        basic = BasicSum(total * (1 + 1e-15), failure)
        yield _from_curve("basic-composition", "DworkKeMcMiNa06", basic.delta, basic.failure, tight=False)


def _on_the_fly(uses: Sequence[Use]) -> Iterator[Bound]:
    """Yield the bounds of filters: they hold when parameters too are chosen on the fly, up to these totals."""
    spent = filter_parameters(uses)
    yield _from_curve("zcdp-filter", "WhitehouseRaRoWu23 with CanonneKaSt20", spent.delta, spent.failure, tight=False)
    kinds = sort_uses(uses)
    if not kinds.classes:
        yield from _basic(kinds, spent.failure)


def lower_bound(uses: Sequence[Use]) -> Bound:
    """Return the exact composition of mechanisms that satisfy the guarantees: no promise can be below it."""
    witnesses = [Use(w, use.count) for use in uses if (w := witness(use.guarantee)) is not None]
    if not witnesses:
        return _from_curve("nothing", "nothing", lambda _: Bracket(0.0, 0.0), Bracket(0.0, 0.0), tight=True)
    return linear_bound(sort_uses(witnesses))

"""From a query and what may be spent on it to a plan, reading metadata alone.

Which mechanism it is, with how much noise, is chosen in mechanisms/planning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any, assert_never

from setwise.accounting.brackets import Bracket, CertifiedBound, Interaction, float_below
from setwise.accounting.guarantees import Guarantee, Use, merged
from setwise.accounting.notation import format_use, parse_use
from setwise.analytics.account_mechanism import drawn_mechanism, drawn_statistics
from setwise.analytics.bins import group_of
from setwise.analytics.bounds_search import (
    COARSE_STEPS,
    FINE_STEPS,
    FoundBounds,
    Search,
    budgeted_query,
    has_open_bounds,
    search_for,
)
from setwise.analytics.budget import Budget, Draws
from setwise.analytics.engines.aggregation import Aggregation, check_suitable, columns_read
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.precision import releases_of, statistics_error, statistics_in_words
from setwise.analytics.present.order import Axis, axis_of
from setwise.analytics.query import Query
from setwise.analytics.schema import Column, Schema
from setwise.analytics.tables.domain import fitted, fitted_null_item
from setwise.errors import BudgetExhausted, InvalidParameter, UnsuitableTable
from setwise.ledger.records import canonical, check_text
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.planning.cost import certified_price
from setwise.mechanisms.planning.planner import Mechanism, plan
from setwise.mechanisms.planning.request import CountNoise, Total
from setwise.mechanisms.planning.statistics import StatisticsChoice, plan_statistics
from setwise.mechanisms.release import ErrorEstimate
from setwise.mechanisms.statistics import GroupStatistics
from setwise.mechanisms.two_phase import TwoPhaseTopK
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGaussian, UnknownGumbel, UnknownLaplace


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a question would be answered: mechanism, cost and expected error; `preview` returns one, for free.

    `uses` is the most that can be spent; `epsilon` brackets what this question alone is promised to cost at `delta`.
    `why` says in a sentence what the choice of mechanism was between. `alone` is the (epsilon, delta) of this question
    by itself where it brought a total of its own to an account.
    """

    mechanism: str
    uses: tuple[Use, ...]
    interaction: Interaction
    epsilon: Bracket
    delta: float
    method: str
    statement: str
    error: ErrorEstimate
    why: str
    alone: tuple[float, float] | None = None

    def __str__(self) -> str:
        uses = "  ".join(format_use(use) for use in self.uses)
        return f"{self.mechanism}, at most {uses}; {self.why}"

    def to_dict(self) -> dict[str, object]:
        """Return the plan as the command line and the service show it."""
        return {
            "mechanism": self.mechanism,
            "why": self.why,
            "uses": [format_use(use) for use in self.uses],
            "interaction": str(self.interaction),
            "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
            "delta": self.delta,
            "method": self.method,
            "statement": self.statement,
            **{name: getattr(self.error, name) for name in _EXPECTED},
            "confidence": float(self.error.confidence),
            "alone": None if self.alone is None else dict(zip(("epsilon", "delta"), self.alone, strict=True)),
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "Plan":
        """Return the plan that `to_dict` wrote."""
        expected = {name: found[name] for name in _EXPECTED}
        return cls(
            uses=tuple(parse_use(use) for use in found["uses"]),
            interaction=Interaction.parse(found["interaction"]),
            epsilon=Bracket(found["epsilon"]["lower"], found["epsilon"]["upper"]),
            error=ErrorEstimate(confidence=Fraction(str(found["confidence"])), **expected),
            alone=None if found["alone"] is None else (found["alone"]["epsilon"], found["alone"]["delta"]),
            **{name: found[name] for name in ("mechanism", "delta", "method", "statement", "why")},
        )


_EXPECTED = ("expected_error", "radius", "detectable", "shortfall")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutablePlan:
    """A plan with what is needed to run it: what the engine is asked for, and the mechanism.

    `account_names` maps the mechanism's own guarantees to those that the account registered. `shows_counts` is False
    when only labels were asked for. `total` is the question's own, if it brought one. `from_text` are the columns whose
    cells are text that is read as another kind. `version` is that of a lake table. `axes` says of each group column
    whether its labels are names, numbers or times.
    """

    query: Query
    plan: Plan
    aggregation: Aggregation
    mechanism: Mechanism | GroupStatistics
    shows_counts: bool
    account_names: tuple[tuple[Guarantee, Guarantee], ...] = ()
    from_text: tuple[Column, ...] = ()
    version: str = ""
    axes: tuple[Axis, ...] = ()
    total: Total | None = None
    search: "BoundsSearch | None" = None

    @property
    def most(self) -> int | None:
        """How many of the highest groups the mechanism reads; None when it reads all."""
        return None if isinstance(self.mechanism, GroupStatistics) else groups_read(self.mechanism)

    def in_account_names(self, spent: Sequence[Use]) -> tuple[Use, ...]:
        """Return the mechanism's uses as the account names them."""
        names = dict(self.account_names)
        return merged(Use(names.get(use.guarantee, use.guarantee), use.count) for use in spent)

    def unused(self, spent: Sequence[Use]) -> tuple[Use, ...]:
        """Return what was charged and not spent; `spent` is as the account names it."""
        gone = {use.guarantee: use.count for use in merged(spent)}
        left = ((use.guarantee, use.count - gone.get(use.guarantee, 0)) for use in merged(self.plan.uses))
        return tuple(Use(guarantee, count) for guarantee, count in left if count > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsSearch:
    """A search for bounds with what the engine reads for it, and what the second plan needs.

    `steps` is how many steps the larger bound of a sum of integers may have (see `Search.bounded_query`).
    """

    search: Search
    aggregation: Aggregation
    user: str
    schema: Schema
    steps: int

    def plan_bounded(self, found: FoundBounds) -> ExecutablePlan:
        """Return the plan of the query with the bounds found, within the budget that remains after the search.

        Ensures: does not raise for any bounds that the search can find, because `_with_search` has planned a query that
            is at least as costly. A test plans every pair of bounds for every statistic and kind of column.
        """
        query = self.search.bounded_query(found, self.schema, self.steps)
        return plan_query(query, self.search.remaining, self.user, self.schema, None)


def groups_read(mechanism: Mechanism) -> int | None:
    """Return how many of the highest groups a mechanism reads: one past its limit, or None for all."""
    match mechanism:
        case UnknownGumbel(limit=limit) | TwoPhaseTopK(discovery=UnknownGumbel(limit=limit)):
            return limit + 1
        case UnknownLaplace(limit=int() as limit):
            return limit + 1
        case KnownLaplace() | KnownGaussian() | KnownGumbel() | TwoPhaseTopK():
            return None
        case UnknownLaplace() | UnknownGaussian() | TruncatedGaussian():
            return None
        case _:
            assert_never(mechanism)


def plan_query(query: Query, budget: Budget, user: str, schema: Schema, status: AccountStatus | None) -> ExecutablePlan:
    """Return how the query will be answered, or raise what is wrong with it; no row of the table is read.

    `status` is that of the account that pays, None when the question brings its own total.
    """
    _check_encodable(query)
    if isinstance(budget, Total) and (search := search_for(query, budget)) is not None:
        return _with_search(search, budget, user, schema, status)
    if has_open_bounds(query):
        raise InvalidParameter("bounds are found within a total: give an epsilon, or say low, high and contributions")
    fit = _fitted_query(query, schema)
    aggregation = aggregation_of(fit, user, schema)
    check_suitable(aggregation, schema)
    match budget:
        case Total():
            executable = _from_total(fit, aggregation, budget, status)
        case Draws():
            if status is None:
                raise InvalidParameter("draws need an account to draw from: give an account, or an epsilon and a delta")
            executable = _from_draws(fit, aggregation, budget, status)
        case _:
            assert_never(budget)
    read = columns_read(aggregation)
    groups = (group_of(text, schema) for text in query.groups)
    return replace(
        executable,
        from_text=tuple(each for each in schema if each.from_text and each.name in read),
        version=schema.version,
        axes=tuple(axis_of(group, schema, public=query.domain is not None) for group in groups),
    )


def _check_encodable(query: Query) -> None:
    """Raise `InvalidParameter` if a column or filter of the query holds text that UTF-8 cannot write.

    A lone surrogate is such text. Engines and ledgers cannot take it. Labels have been checked by `distinct_labels`.
    """
    check_text(canonical(replace(query, domain=None, k=None).to_dict()), "a question")


def _with_search(
    search: Search, total: Total, user: str, schema: Schema, status: AccountStatus | None
) -> ExecutablePlan:
    """Return a plan that searches for bounds first, and then answers with one use of the remaining budget.

    Raises what is wrong with the query or its budget, for whichever bounds the search may find.
    """
    costliest, steps = _plan_costliest(search, user, schema)
    overall, delta, alone = _promise(search.uses(), total, status)
    words = f"bounds are found first, within a tenth of epsilon; then {costliest.plan.mechanism}"
    unknown = ErrorEstimate(
        confidence=costliest.plan.error.confidence, expected_error=None, radius=None, detectable=None, shortfall=None
    )
    plan = _plan(f"auto+{costliest.plan.mechanism}", search.uses(), overall, delta, unknown, words, alone)
    before = BoundsSearch(
        search=search, aggregation=search.aggregation(costliest.aggregation), user=user, schema=schema, steps=steps
    )
    return replace(costliest, query=search.query, plan=plan, search=before)


def _plan_costliest(search: Search, user: str, schema: Schema) -> tuple[ExecutablePlan, int]:
    """Return the plan of the costliest query that the search can lead to, and how many steps its sums may have.

    The finer steps are refused where they need noise that is too wide to be drawn; then the coarser ones are planned.
    """
    for steps in (FINE_STEPS, COARSE_STEPS):
        try:
            return plan_query(budgeted_query(search.query, steps), search.remaining, user, schema, None), steps
        except InvalidParameter:
            if steps == COARSE_STEPS:
                raise
    raise AssertionError("the loop returns or raises")


def _promise(
    uses: tuple[Use, ...], total: Total, status: AccountStatus | None
) -> tuple[CertifiedBound, float, tuple[float, float] | None]:
    """Return what the uses cost, at which delta, and by themselves where an account states it at another."""
    own = float_below(total.delta)
    if status is None:
        return certified_price(uses, own, Interaction.SETWISE), own, None
    interaction = Interaction.ADAPTIVE
    if status.kind == "setwise":
        interaction = Interaction.SETWISE
        _check_planned(uses, status)
    alone = (certified_price(uses, own, Interaction.SETWISE).upper, own)
    return certified_price(uses, status.delta, interaction), status.delta, alone


def promise_of(
    uses: tuple[Use, ...], budget: Budget, status: AccountStatus | None
) -> tuple[CertifiedBound, float, tuple[float, float] | None]:
    """Return what the uses of several queries cost together, at which delta, and by themselves (see `_promise`)."""
    if isinstance(budget, Total):
        return _promise(uses, budget, status)
    if status is None:
        raise InvalidParameter("draws need an account to draw from: give an account, or an epsilon and a delta")
    interaction = Interaction.SETWISE if status.kind == "setwise" else Interaction.ADAPTIVE
    if interaction is Interaction.SETWISE:
        _check_registered(uses, status)
    return certified_price(uses, status.delta, interaction), status.delta, None


def aggregation_of(query: Query, user: str, schema: Schema) -> Aggregation:
    """Return what the engine is asked for: counts or whole sums to rank groups by, or the measures of each group."""
    counted = query.counted
    return Aggregation(
        user=user,
        item=None if query.item is None else tuple(group_of(text, schema) for text in query.groups),
        value=None if counted is None else counted.column,
        contributions=query.contributions,
        per_item=query.per_item,
        where=None if query.where is None else parse_filter(query.where, schema),
        domain=query.domain,
        null_item=fitted_null_item(query.null_item, [group_of(text, schema).labels(schema) for text in query.groups]),
        measures=() if counted is not None else tuple(chain(*(each.measures() for each in query.statistics))),
    )


def _fitted_query(query: Query, schema: Schema) -> Query:
    """Return the query with its labels as the item columns have them, and its statistics in steps of their columns."""
    columns = [group_of(text, schema).labels(schema) for text in query.groups]
    fit = replace(
        query,
        domain=None if query.domain is None else fitted(query.domain, columns),
        statistics=tuple(statistic.in_steps(schema) for statistic in query.statistics),
    )
    if query.k is not None and query.counted is not None and fit.counted is None:
        kind = schema.column(query.counted.column or "").kind
        raise UnsuitableTable(
            f"a top k ranks by users, rows or whole sums, and the value column {query.counted.column!r} is {kind}: "
            "declare it an integer, or ask for the sum as a statistic of the groups with the most users"
        )
    return fit


def _from_total(query: Query, aggregation: Aggregation, total: Total, status: AccountStatus | None) -> ExecutablePlan:
    mechanism: Mechanism | GroupStatistics
    if query.counted is None:
        choice = plan_statistics(query.bounds, total, releases_of(query.statistics))
        mechanism, name, shows_counts = choice.mechanism, choice.name, True
        error, why = statistics_error(choice), f"{choice.name}: {statistics_in_words(query, choice)}"
    else:
        found = plan(query.bounds, total)
        mechanism, name, why = found.mechanism, found.name, found.why
        shows_counts = total.counts is not CountNoise.NONE
        error = found.preview if shows_counts else replace(found.preview, expected_error=None, radius=None)
    uses = merged(mechanism.guarantees())
    overall, delta, alone = _promise(uses, total, status)
    return ExecutablePlan(
        query=query,
        plan=_plan(name, uses, overall, delta, error, why, alone),
        aggregation=aggregation,
        mechanism=mechanism,
        shows_counts=shows_counts,
        total=total,
    )


def _from_draws(query: Query, aggregation: Aggregation, draws: Draws, status: AccountStatus) -> ExecutablePlan:
    if query.counted is None:
        drawn = drawn_statistics(query.bounds, releases_of(query.statistics), draws, status)
    else:
        drawn = drawn_mechanism(query.bounds, draws, status)
    given = f"{drawn.name}: given by what is drawn from the account"
    if isinstance(drawn.mechanism, GroupStatistics):
        choice = StatisticsChoice(mechanism=drawn.mechanism, name=drawn.name, discovery=None)
        error, why = statistics_error(choice), f"{given}; {statistics_in_words(query, choice)}"
    else:
        error, why = drawn.mechanism.preview(), given
    names = dict(drawn.account_names)
    uses = merged(Use(names.get(use.guarantee, use.guarantee), use.count) for use in drawn.mechanism.guarantees())
    interaction = Interaction.ADAPTIVE
    if status.kind == "setwise":
        interaction = Interaction.SETWISE
        _check_registered(uses, status)
    overall = certified_price(uses, status.delta, interaction)
    return ExecutablePlan(
        query=query,
        plan=_plan(drawn.name, uses, overall, status.delta, error, why),
        aggregation=aggregation,
        mechanism=drawn.mechanism,
        shows_counts=draws.counts is not None,
        account_names=drawn.account_names,
    )


def _plan(
    mechanism: str,
    uses: tuple[Use, ...],
    overall: CertifiedBound,
    delta: float,
    error: ErrorEstimate,
    why: str,
    alone: tuple[float, float] | None = None,
) -> Plan:
    return Plan(
        mechanism=mechanism,
        uses=uses,
        interaction=overall.interaction,
        epsilon=Bracket(overall.lower, overall.upper),
        delta=delta,
        method=overall.method,
        statement=overall.statement,
        error=error,
        why=why,
        alone=alone,
    )


def _check_planned(uses: tuple[Use, ...], status: AccountStatus) -> None:
    """Raise unless the account registers just what was planned for an epsilon, as that of a report does."""
    registered = {use.guarantee for use in status.terms.uses}
    if status.terms.totals is None and not all(use.guarantee in registered for use in uses):
        raise InvalidParameter(
            f"the account {status.name!r} holds registered draws: say which to draw (discover, counts) "
            "instead of an epsilon"
        )
    _check_registered(uses, status)


def _check_registered(uses: tuple[Use, ...], status: AccountStatus) -> None:
    """Raise unless the account was opened with as many of these draws, or has a wallet for those it does not register.

    Their guarantee is composed next, which is quick for what an account holds but not for whatever anybody may ask.
    """
    registered = status.terms.uses
    counts = {use.guarantee: use.count for use in registered}
    for use in uses:
        if use.guarantee not in counts:
            if status.terms.totals is not None:
                continue
            raise InvalidParameter(
                f"{format_use(use)} is not registered with the account {status.name!r}, "
                f"which has {', '.join(format_use(each) for each in registered)}"
            )
        if use.count > counts[use.guarantee]:
            has = format_use(Use(use.guarantee, counts[use.guarantee]))
            raise BudgetExhausted(f"the account {status.name!r} cannot pay for {format_use(use)}: it has only {has}")

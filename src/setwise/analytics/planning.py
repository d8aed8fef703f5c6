"""From a query and what may be spent on it to a plan, reading metadata alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.guarantees import Guarantee, Use, merged
from setwise.accounting.notation import format_use
from setwise.analytics.account_mechanism import drawn_mechanism
from setwise.analytics.budget import Draws, Spending, Total
from setwise.analytics.engines.base import EVERYTHING, Aggregation, check_suitable
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.query import Count, HistogramQuery, Query, Sum, TopK
from setwise.analytics.schema import Schema
from setwise.analytics.tables.domain import fitted
from setwise.errors import BudgetExhausted, InvalidParameter
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.parameters import float_below
from setwise.mechanisms.planning.cost import certified_price
from setwise.mechanisms.planning.planner import Mechanism, plan
from setwise.mechanisms.planning.request import CountNoise, Question
from setwise.mechanisms.release import Preview
from setwise.mechanisms.two_phase import TwoPhaseTopK
from setwise.mechanisms.unknown_gaussian import TruncatedGaussian, UnknownGaussian
from setwise.mechanisms.unknown_gumbel import UnknownGumbel
from setwise.mechanisms.unknown_laplace import UnknownLaplace


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What will be run, what it is charged, and what to expect; `session.preview` returns one, for free.

    `uses` is the most that can be spent. `overall` is the guarantee of this question alone at `delta`, and `why` says
    in a sentence what the choice of mechanism was between. `prices` translates the mechanism's own guarantees into
    what the account registered. `shows_counts` is False when only labels were asked for. `alone` is the
    (epsilon, delta) of this question by itself where it brought a total of its own to an account.
    """

    query: Query
    aggregation: Aggregation
    mechanism: Mechanism
    name: str
    uses: tuple[Use, ...]
    overall: Answer
    delta: float
    preview: Preview
    why: str
    shows_counts: bool
    prices: tuple[tuple[Guarantee, Guarantee], ...] = ()
    alone: tuple[float, float] | None = None

    @property
    def most(self) -> int | None:
        """How many of the highest groups the mechanism reads; None when it reads all."""
        return groups_read(self.mechanism)

    def priced(self, spent: Sequence[Use]) -> tuple[Use, ...]:
        """Return the mechanism's uses in the words of the account."""
        words = dict(self.prices)
        return merged(Use(words.get(use.guarantee, use.guarantee), use.count) for use in spent)

    def unused(self, spent: Sequence[Use]) -> tuple[Use, ...]:
        """Return what was charged and not spent; `spent` is in the words of the account."""
        gone = {use.guarantee: use.count for use in merged(spent)}
        left = ((use.guarantee, use.count - gone.get(use.guarantee, 0)) for use in merged(self.uses))
        return tuple(Use(guarantee, count) for guarantee, count in left if count > 0)

    def __str__(self) -> str:
        uses = "  ".join(format_use(use) for use in self.uses)
        return f"{self.name}, at most {uses}; {self.why}"


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


def plan_query(query: Query, spending: Spending, user: str, schema: Schema, standing: AccountStatus | None) -> Planned:
    """Return how the query will be answered, or raise what is wrong with it; no row of the table is read.

    `standing` is the account's that pays, None when the question brings its own total.
    """
    fit = _fitted_query(query, schema)
    aggregation = aggregation_of(fit, user, schema)
    check_suitable(aggregation, schema)
    match spending:
        case Total():
            if standing is not None and standing.kind == "setwise":
                raise InvalidParameter(
                    f"the account {standing.name!r} holds registered draws: say which to draw (discover, counts) "
                    "instead of an epsilon"
                )
            return _planned_from_total(fit, aggregation, spending, standing)
        case Draws():
            if standing is None:
                raise InvalidParameter("draws need an account to draw from: give an account, or an epsilon and a delta")
            return _planned_from_draws(fit, aggregation, spending, standing)
        case _:
            assert_never(spending)


def aggregation_of(query: Query, user: str, schema: Schema) -> Aggregation:
    """Return what the engine is asked for."""
    where = None if query.where is None else parse_filter(query.where, schema)
    match query:
        case TopK() | HistogramQuery():
            return Aggregation(
                user=user,
                item=query.item,
                value=query.value,
                contributions=query.contributions,
                per_item=query.per_item,
                where=where,
                domain=query.domain,
                null_item=query.null_item,
            )
        case Count(per_user=most):
            return Aggregation(user=user, per_item=most, where=where)
        case Sum(value=value, clip=clip):
            return Aggregation(user=user, value=value, per_item=clip, where=where)
        case _:
            assert_never(query)


def _fitted_query(query: Query, schema: Schema) -> Query:
    """Return the query with its labels as the item column has them."""
    match query:
        case TopK() | HistogramQuery():
            column = schema.column(query.item)
            return replace(
                query,
                domain=None if query.domain is None else fitted(query.domain, column),
                null_item=None if query.null_item is None else fitted((query.null_item,), column)[0],
            )
        case Count() | Sum():
            return query
        case _:
            assert_never(query)


def _planned_from_total(
    query: Query, aggregation: Aggregation, total: Total, standing: AccountStatus | None
) -> Planned:
    match query:
        case TopK() | HistogramQuery():
            question = Question(
                epsilon=total.epsilon,
                delta=total.delta,
                k=query.k if isinstance(query, TopK) else None,
                contributions=query.contributions,
                per_item=query.per_item,
                domain=query.domain,
                counts=total.counts,
                limit=query.limit,
                mechanism=total.mechanism,
            )
        case Count() | Sum():
            question = Question(
                epsilon=total.epsilon,
                delta=total.delta,
                contributions=1,
                per_item=aggregation.per_item,
                domain=(EVERYTHING,),
                counts=total.counts,
                mechanism=total.mechanism,
            )
        case _:
            assert_never(query)
    found = plan(question)
    interaction = Interaction.SETWISE if standing is None else Interaction.ADAPTIVE
    own = float_below(total.delta)
    delta = own if standing is None else standing.delta
    uses = merged(found.mechanism.guarantees())
    return Planned(
        query=query,
        aggregation=aggregation,
        mechanism=found.mechanism,
        name=found.name,
        uses=uses,
        overall=overall(uses, interaction, delta),
        delta=delta,
        preview=found.preview,
        why=found.why,
        shows_counts=total.counts is not CountNoise.NONE,
        alone=None if standing is None else (overall(uses, Interaction.SETWISE, own).upper, own),
    )


def _planned_from_draws(query: Query, aggregation: Aggregation, draws: Draws, standing: AccountStatus) -> Planned:
    drawn = drawn_mechanism(query, draws, standing)
    words = dict(drawn.prices)
    uses = merged(Use(words.get(use.guarantee, use.guarantee), use.count) for use in drawn.mechanism.guarantees())
    interaction = Interaction.ADAPTIVE
    if standing.kind == "setwise":
        interaction = Interaction.SETWISE
        _check_registered(uses, standing)
    return Planned(
        query=query,
        aggregation=aggregation,
        mechanism=drawn.mechanism,
        name=drawn.name,
        uses=uses,
        overall=overall(uses, interaction, standing.delta),
        delta=standing.delta,
        preview=drawn.mechanism.preview(),
        why=f"{drawn.name}: the draws decide",
        shows_counts=draws.counts is not None,
        prices=drawn.prices,
    )


def _check_registered(uses: tuple[Use, ...], standing: AccountStatus) -> None:
    """Raise unless the account was opened with as many of these draws.

    Their guarantee is composed next, which is quick for what an account holds but not for whatever anybody may ask.
    """
    registered = merged((*standing.left, *standing.spent))
    counts = {use.guarantee: use.count for use in registered}
    for use in uses:
        if use.guarantee not in counts:
            raise InvalidParameter(
                f"{format_use(use)} is not registered with the account {standing.name!r}, "
                f"which has {', '.join(format_use(each) for each in registered)}"
            )
        if use.count > counts[use.guarantee]:
            has = format_use(Use(use.guarantee, counts[use.guarantee]))
            raise BudgetExhausted(f"the account {standing.name!r} cannot pay for {format_use(use)}: it has only {has}")


def overall(uses: tuple[Use, ...], interaction: Interaction, delta: float) -> Answer:
    """Return the guarantee of the uses together at delta, which may be 0; recent answers are remembered."""
    return certified_price(uses, delta, interaction)

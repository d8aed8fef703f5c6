"""The way of a question: charge, then data, then noise, then the stored answer."""

from dataclasses import replace

from setwise.accounting.answer import Interaction
from setwise.accounting.intervals import Bracket
from setwise.analytics.answer import AnswerItem, PrivateAnswer
from setwise.analytics.engines.base import EVERYTHING, Engine
from setwise.analytics.payer import Budget
from setwise.analytics.planning import Planned
from setwise.analytics.present.text import ending, measured
from setwise.analytics.query import Count, Query, Sum, TopK, query_kind
from setwise.mechanisms.histogram import Histogram, Label
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.release import Release


def ask(
    planned: Planned, engine: Engine, budget: Budget, *, key: str, request: str, randomness: Randomness
) -> PrivateAnswer:
    """Charge the plan, run it, store its answer and return what is stored.

    Ensures: no row is read before the charge is made, and nothing is shown before it is stored. A key that was
        answered before gets that answer again. Unused draws go back where they were registered beforehand.
    """
    receipt = budget.charge(planned.uses, key=key, request=request)
    if receipt.answer is not None:
        return replace(PrivateAnswer.from_stored(receipt.answer), replayed=True)
    release = planned.mechanism.release(_read(planned, engine), randomness)
    answer = _answered(planned, release)
    registered = planned.overall.interaction is Interaction.SETWISE
    returned = planned.unused(answer.spent) if registered else ()
    return PrivateAnswer.from_stored(budget.settle(receipt, answer=answer.stored(), returned=returned))


def _read(planned: Planned, engine: Engine) -> Histogram:
    """Return what the mechanism reads, and no more of it than it needs."""
    if planned.most is None:
        return engine.histogram(planned.aggregation)
    return engine.top(planned.aggregation, planned.most)


def _answered(planned: Planned, release: Release) -> PrivateAnswer:
    query = planned.query
    cut = release.top(query.k) if isinstance(query, TopK) else release
    intervals = cut.intervals(planned.preview.confidence)
    items = tuple(
        AnswerItem(
            item=_label(query, item.label),
            count=item.count if planned.shows_counts else None,
            interval=None if interval is None or not planned.shows_counts else (interval.lower, interval.upper),
        )
        for item, interval in zip(cut.items, intervals, strict=True)
    )
    return PrivateAnswer(
        kind=query_kind(query),
        measure=measured(query),
        items=items,
        mechanism=planned.name,
        interaction=planned.overall.interaction,
        epsilon=Bracket(planned.overall.lower, planned.overall.upper),
        delta=planned.delta,
        method=planned.overall.method,
        statement=planned.overall.statement,
        spent=planned.priced(release.spent),
        complete=len(items) == query.k if isinstance(query, TopK) else release.complete,
        reason=ending(query, len(items), release.complete),
        why=planned.why,
        confidence=float(planned.preview.confidence),
        alone=planned.alone,
    )


def _label(query: Query, label: Label) -> Label:
    """Return the item's name in the answer; the one group of a count or sum is called by what it counts."""
    if label != EVERYTHING:
        return label
    match query:
        case Count(per_user=most):
            return "users" if most == 1 else "events"
        case Sum(value=value):
            return value
        case _:
            return label

"""The price of several queries as a whole: the largest budgets whose uses together keep one (epsilon, delta).

A report and a SQL statement with several releasing SELECTs are priced this way.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from setwise.accounting.brackets import CertifiedBound, Interaction
from setwise.accounting.guarantees import Use, merged
from setwise.analytics.planning import Plan, plan_query
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.planning.cost import certified_price, estimated_price, searched_price
from setwise.mechanisms.planning.request import CountNoise, Total

_CLOSE = 0.99
"""The search ends when the questions take at least this share of epsilon."""

_MOST_STEPS = 8

_FAILURES = Fraction(1, 2)
"""The share of delta that several questions may fail with; the rest is for composing them."""


class WeightedQuery(Protocol):
    """A query with its share of the budget, in proportion to `weight`."""

    @property
    def query(self) -> Query:
        """The query."""
        ...

    @property
    def weight(self) -> float:
        """Its share of the budget."""
        ...


@dataclass(frozen=True, slots=True)
class Priced:
    """The total of each question and its plan, and what all of them are promised to cost together."""

    totals: tuple[Total, ...]
    plans: tuple[Plan, ...]
    promise: CertifiedBound

    @property
    def uses(self) -> tuple[Use, ...]:
        """All that the questions may draw: what is registered before the first is asked."""
        return _uses(self.plans)


def price(
    questions: Sequence[WeightedQuery],
    *,
    user: str,
    schemas: Sequence[Schema],
    epsilon: float,
    delta: float,
) -> Priced:
    """Return the largest totals, in proportion to the weights, that together keep (epsilon, delta)-DP.

    `schemas` are the columns that each question is about.

    All questions are fixed before the first is asked, so their uses compose set-wise: in whatever order they are asked,
    and whatever is made of the answers in between. No row is read.
    """
    drafts = []
    for counts in (CountNoise.BEST, CountNoise.GAUSSIAN):  # what is best alone may not be best among many
        with contextlib.suppress(Unattainable, InvalidParameter):
            drafts.append(_Drafts(questions, counts, user, schemas, delta).largest(estimated_price, epsilon))
    if not drafts:  # say what is wrong with them
        drafts.append(_Drafts(questions, CountNoise.BEST, user, schemas, delta).largest(estimated_price, epsilon))
    for draft in sorted(drafts, key=lambda each: _mean_log_error(questions, each.plans)):
        with contextlib.suppress(Unattainable):
            found = draft.source.largest(searched_price, epsilon, draft.scale)
            return Priced(found.totals, found.plans, certified_price(_uses(found.plans), delta, Interaction.SETWISE))
    raise Unattainable(_TOO_LITTLE.format(epsilon=epsilon, delta=delta))


_TOO_LITTLE = "these questions cannot keep epsilon = {epsilon:g} at delta = {delta:g}: give them more"


@dataclass(frozen=True, slots=True)
class _Draft:
    """Totals in proportion to the weights, `scale` for a weight of 1, and the plans of the questions with them."""

    source: "_Drafts"
    scale: float
    totals: tuple[Total, ...]
    plans: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class _Drafts:
    """The questions, with one kind of noise on counts, at any scale of their totals."""

    questions: Sequence[WeightedQuery]
    counts: CountNoise
    user: str
    schemas: Sequence[Schema]
    delta: float

    def at(self, scale: float) -> _Draft:
        """Return the draft of a scale; an epsilon of each question is the scale times its weight."""
        failure = Fraction(self.delta) * (_FAILURES if len(self.questions) > 1 else 1) / len(self.questions)
        totals = tuple(
            Total(epsilon=Fraction(scale * each.weight), delta=failure, counts=self.counts) for each in self.questions
        )
        plans = tuple(
            plan_query(each.query, total, self.user, schema, None).plan
            for each, total, schema in zip(self.questions, totals, self.schemas, strict=True)
        )
        return _Draft(self, scale, totals, plans)

    def largest(
        self, price: Callable[[tuple[Use, ...], float], float], epsilon: float, first: float | None = None
    ) -> _Draft:
        """Return the draft of the largest scale whose price is at most epsilon.

        The first scale tried is that of the plain sum unless one is given; each next one is where a line from the
        origin to the last would meet epsilon.
        """
        best: _Draft | None = None
        fits, fails = 0.0, float("inf")
        scale = epsilon / sum(each.weight for each in self.questions) if first is None else first
        for _ in range(_MOST_STEPS):
            found = self.at(scale)
            cost = price(_uses(found.plans), self.delta)
            if cost <= epsilon:
                best, fits = found, scale
                if cost >= _CLOSE * epsilon:
                    break
            else:
                fails = scale
            scale *= (_CLOSE + 1.0) / 2 * epsilon / cost
            if not fits < scale < fails:
                scale = (fits + fails) / 2
        if best is None:
            raise Unattainable(_TOO_LITTLE.format(epsilon=epsilon, delta=self.delta))
        return best


def _uses(plans: Sequence[Plan]) -> tuple[Use, ...]:
    return merged(use for plan in plans for use in plan.uses)


def _mean_log_error(questions: Sequence[WeightedQuery], plans: Sequence[Plan]) -> float:
    """Return how far off counts are expected to be, in the mean over questions that have any; 0 if none has."""
    errors = [
        (each.weight, math.log(plan.error.expected_error))
        for each, plan in zip(questions, plans, strict=True)
        if plan.error.expected_error
    ]
    return sum(weight * error for weight, error in errors) / (sum(weight for weight, _ in errors) or 1.0)

"""The price of a report as a whole: the largest totals of its questions whose uses together keep its promise."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.guarantees import Use, merged
from setwise.analytics.planning import Plan, plan_query
from setwise.analytics.schema import Schema
from setwise.errors import InvalidParameter, Unattainable
from setwise.mechanisms.planning.cost import certified_price
from setwise.mechanisms.planning.request import CountNoise, Total
from setwise.reports.report import Question

_CLOSE = 0.99
"""The search ends when the questions take at least this share of epsilon."""

_MOST_STEPS = 8

_FAILURES = Fraction(1, 2)
"""The share of delta that several questions may fail with; the rest is for composing them."""


@dataclass(frozen=True, slots=True)
class Priced:
    """The total of each question and its plan, and what all of them are promised to cost together."""

    totals: tuple[Total, ...]
    plans: tuple[Plan, ...]
    promise: Answer

    @property
    def uses(self) -> tuple[Use, ...]:
        """All that the questions may draw: what is registered before the first is asked."""
        return merged(use for plan in self.plans for use in plan.uses)


def price(
    questions: Sequence[Question],
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
    found = []
    for counts in (CountNoise.BEST, CountNoise.GAUSSIAN):  # what is best alone may not be best among many
        with contextlib.suppress(Unattainable, InvalidParameter):
            found.append(_largest(questions, counts, user, schemas, epsilon, delta))
    if not found:  # say what is wrong with them
        found.append(_largest(questions, CountNoise.BEST, user, schemas, epsilon, delta))
    return min(found, key=lambda priced: _mean_log_error(questions, priced))


def _largest(
    questions: Sequence[Question],
    counts: CountNoise,
    user: str,
    schemas: Sequence[Schema],
    epsilon: float,
    delta: float,
) -> Priced:
    failure = Fraction(delta) * (_FAILURES if len(questions) > 1 else 1) / len(questions)

    def at(scale: float) -> Priced:
        totals = tuple(Total(epsilon=Fraction(scale * each.weight), delta=failure, counts=counts) for each in questions)
        plans = tuple(
            plan_query(each.query, total, user, schema, None).plan
            for each, total, schema in zip(questions, totals, schemas, strict=True)
        )
        uses = merged(use for plan in plans for use in plan.uses)
        return Priced(totals, plans, certified_price(uses, delta, Interaction.SETWISE))

    best: Priced | None = None
    search = _Search(epsilon / sum(each.weight for each in questions), epsilon)
    for scale in search:
        found = at(scale)
        search.tell(found.promise.upper)
        if found.promise.upper <= epsilon:
            best = found
    if best is None:
        raise Unattainable(f"these questions cannot keep epsilon = {epsilon:g} at delta = {delta:g}: give them more")
    return best


def _mean_log_error(questions: Sequence[Question], priced: Priced) -> float:
    """Return how far off counts are expected to be, in the mean over questions that have any; 0 if none has."""
    errors = [
        (each.weight, math.log(plan.error.expected_error))
        for each, plan in zip(questions, priced.plans, strict=True)
        if plan.error.expected_error
    ]
    return sum(weight * error for weight, error in errors) / (sum(weight for weight, _ in errors) or 1.0)


class _Search:
    """Scales to try: the first is that of the plain sum; the next are where a line to the last would meet epsilon."""

    def __init__(self, first: float, epsilon: float) -> None:
        self._scale = first
        self._epsilon = epsilon
        self._fits, self._fails = 0.0, float("inf")
        self._done = False
        self._steps = 0

    def __iter__(self) -> Iterator[float]:
        while not self._done and self._steps < _MOST_STEPS:
            self._steps += 1
            yield self._scale

    def tell(self, cost: float) -> None:
        """Take note of what the last scale cost."""
        if cost <= self._epsilon:
            self._fits = self._scale
            self._done = cost >= _CLOSE * self._epsilon
        else:
            self._fails = self._scale
        guess = self._scale * (_CLOSE + 1.0) / 2 * self._epsilon / cost
        if not self._fits < guess < self._fails:
            guess = (self._fits + self._fails) / 2
        self._scale = guess

"""Joint pricing of several queries: the largest budgets with which all of them together satisfy one (epsilon, delta).

A report (several questions in one file) and a SQL statement with several SELECTs over private rows are priced this way.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from setwise.accounting.brackets import Bracket, CertifiedBound, Interaction
from setwise.accounting.guarantees import Use, merged
from setwise.analytics.budget import AskedBudget, Budget, Draws, Within
from setwise.analytics.planning.accuracy import Accuracy
from setwise.analytics.planning.charges import promise_of
from setwise.analytics.planning.plan import ExecutablePlan, Plan, draft_plan, plan_query
from setwise.analytics.planning.within import DEFAULT_CEILING, plan_within
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.errors import InvalidParameter, Unattainable
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.planning.cost import certified_price, estimated_price, searched_price
from setwise.mechanisms.planning.request import LARGEST_TOTAL, CountNoise, Total

_CLOSE = 0.99
"""The search for budgets stops when the queries together cost at least this share of epsilon."""

_MOST_STEPS = 8
"""The most scales of the budgets that the search plans and prices."""

_FAILURES = Fraction(1, 2)
"""The share of delta that the mechanisms of several queries may use together; the remaining share is for composing
them."""


class WeightedQuery(Protocol):
    """A query with a weight. Queries that are charged together get epsilons in proportion to their weights."""

    @property
    def query(self) -> Query:
        """The query whose budget is to be found."""
        ...

    @property
    def weight(self) -> float:
        """The query's weight, a number above 0, in the division of a budget among several queries.

        The epsilon of each query is in proportion to its weight.
        """
        ...


@dataclass(frozen=True, slots=True)
class Priced:
    """Budgets and plans for several queries that are charged together, and their certified joint cost.

    - `totals` and `plans` have the budget and the plan of each query, in the order of the queries.
    - `promise` is the joint cost: the epsilon of all queries together, at the delta of all of them.
    """

    totals: tuple[Total, ...]
    plans: tuple[Plan, ...]
    promise: CertifiedBound

    @property
    def uses(self) -> tuple[Use, ...]:
        """The mechanisms of all planned queries (privacy guarantees and numbers of runs), which are charged."""
        return _uses(self.plans)


def price(
    questions: Sequence[WeightedQuery],
    *,
    user: str,
    schemas: Sequence[Schema],
    epsilon: float,
    delta: float,
) -> Priced:
    """Return budgets and plans for the weighted queries `questions`, which together satisfy (`epsilon`, `delta`)-DP.

    The epsilons of the budgets are in proportion to the queries' weights, and nearly as large as the joint cost allows.
    The joint cost holds for any order in which the queries are asked, even one that depends on earlier answers. `user`
    is the user column of all tables, and `schemas` describes the table of each query.
    Raises: `Unattainable` if no budgets satisfy (epsilon, delta); `InvalidParameter` if a query cannot be planned.
    """
    for candidate in _largest_budgets(questions, user, schemas, epsilon, delta):
        with contextlib.suppress(Unattainable):
            each = zip(questions, candidate.totals, schemas, strict=True)
            plans = tuple(
                plan_query(question.query, total, user, schema, None).plan for question, total, schema in each
            )
            return Priced(candidate.totals, plans, certified_price(_uses(plans), delta, Interaction.SETWISE))
    raise Unattainable(_TOO_LITTLE.format(epsilon=epsilon, delta=delta))


def _largest_budgets(
    questions: Sequence[WeightedQuery], user: str, schemas: Sequence[Schema], epsilon: float, delta: float
) -> "Iterator[_BudgetCandidate]":
    """Yield at most two candidates for the budgets of `questions`, each with a draft plan of every query.

    The epsilons of a candidate are in proportion to the queries' weights. They are about the largest for which the
    joint cost of the queries is at most `epsilon` at `delta`. In one candidate, each query's counts have the noise that
    is best for this query alone. In the other, all counts have Gaussian noise, which may cost less for all queries
    together. The candidate with the smaller estimated error comes first. `schemas` has the columns of the table of each
    query, and `user` is the user column.

    Raises: `InvalidParameter` or `Unattainable` if neither kind of noise gives a draft plan.
    """
    drafts = []
    for counts in (CountNoise.BEST, CountNoise.GAUSSIAN):  # the best noise for one query may not be best for several
        with contextlib.suppress(Unattainable, InvalidParameter):
            drafts.append(_BudgetCandidates(questions, counts, user, schemas, delta).largest(estimated_price, epsilon))
    if not drafts:  # plan once more without suppressing errors, to raise the one that says what is wrong
        drafts.append(
            _BudgetCandidates(questions, CountNoise.BEST, user, schemas, delta).largest(estimated_price, epsilon)
        )
    for draft in sorted(drafts, key=lambda each: _mean_log_error(questions, each.plans)):
        with contextlib.suppress(Unattainable):
            yield draft.source.largest(searched_price, epsilon, draft.scale)


_TOO_LITTLE = "these questions cannot keep epsilon = {epsilon:g} at delta = {delta:g}: give them more"


@dataclass(frozen=True, slots=True)
class _BudgetCandidate:
    """One candidate in the search for the largest budgets of several queries that are charged together.

    - `scale`: the epsilon of each query's budget is `scale` times the weight that the caller gave to the query.
    - `totals` has the budgets, in the order of the queries.
    - `plans` has a draft plan for each query (its mechanism runs and their cost, see `draft_plan`), in the same order.
    - `source` makes candidates with other scales.
    """

    source: "_BudgetCandidates"
    scale: float
    totals: tuple[Total, ...]
    plans: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class _BudgetCandidates:
    """Makes candidates for the budgets of several queries. The epsilon of a query is its weight times a common scale.

    - `questions` are the queries with their weights.
    - `counts` is the kind of noise of their counts.
    - `user` is the user column, and `schemas` describes the table of each query.
    - `delta` is the delta of all queries together.
    """

    questions: Sequence[WeightedQuery]
    counts: CountNoise
    user: str
    schemas: Sequence[Schema]
    delta: float

    def at(self, scale: float) -> _BudgetCandidate:
        """Return a candidate for the budgets of queries: each query's epsilon is `scale` times its weight.

        The candidate also has a draft plan for each query. An epsilon above 100 (`LARGEST_TOTAL`), the most for a
        single query, is lowered to 100. A single query gets the whole delta. Several queries get half of delta, in
        equal parts; the other half is needed to compose them, that is, to certify their cost together.
        """
        # Composing several queries needs the other half of delta.
        failure = Fraction(self.delta) * (_FAILURES if len(self.questions) > 1 else 1) / len(self.questions)
        totals = tuple(
            Total(epsilon=min(Fraction(scale * question.weight), LARGEST_TOTAL), delta=failure, counts=self.counts)
            for question in self.questions
        )
        drafts: dict[tuple[Query, Total, Schema], Plan] = {}
        plans = []
        for question, total, schema in zip(self.questions, totals, self.schemas, strict=True):
            key = (replace(question.query, where=None), total, schema)  # which rows are read does not change the cost
            if key not in drafts:
                drafts[key] = draft_plan(question.query, total, self.user, schema)
            plans.append(drafts[key])
        return _BudgetCandidate(self, scale, totals, tuple(plans))

    def largest(
        self, price: Callable[[tuple[Use, ...], float], float], epsilon: float, first: float | None = None
    ) -> _BudgetCandidate:
        """Return budgets of the queries that together cost at most `epsilon`, and are nearly as large as possible.

        Each query has a weight, and the epsilon of its budget is this weight times a scale, which is the same for all
        queries. Several scales are tried. The result belongs to the largest of them that costs at most `epsilon`.

        - `price(uses, delta)` returns the epsilon, at `delta`, of the mechanisms of all queries together.
        - `first` is the scale that is tried first; None starts where the epsilons of the queries add up to `epsilon`.

        Raises: `Unattainable` if every scale that was tried costs more than `epsilon`.
        """
        best: _BudgetCandidate | None = None
        fits, fails = 0.0, float("inf")
        scale = epsilon / sum(each.weight for each in self.questions) if first is None else first
        for _ in range(_MOST_STEPS):
            candidate = self.at(scale)
            cost = price(_uses(candidate.plans), self.delta)
            if cost <= epsilon:
                best, fits = candidate, scale
                if cost >= _CLOSE * epsilon or min(total.epsilon for total in candidate.totals) == LARGEST_TOTAL:
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
    """Return the mean of log(expected error) over `plans`, to compare ways of dividing a budget; lower is better.

    `plans` has one plan for each of `questions`, in order. The mean is weighted by the weights of the questions. A plan
    whose expected error is not known is left out; the result is 0 if no expected error is known.
    """
    errors = [
        (question.weight, math.log(plan.error.expected_error))
        for question, plan in zip(questions, plans, strict=True)
        if plan.error.expected_error
    ]
    return sum(weight * error for weight, error in errors) / (sum(weight for weight, _ in errors) or 1.0)


@dataclass(frozen=True, slots=True)
class _EqualShare:
    """One of several SELECTs of a statement, as a query with the weight 1, so that all SELECTs get the same epsilon."""

    query: Query
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPlan:
    """The plans of the SELECTs of one statement, which is charged once.

    - `parts` are the plans of the SELECTs, in order.
    - `plan` is the plan of the whole statement: the mechanism runs of all `parts`, and their certified joint cost.
    - `budgets` has one budget per SELECT, which is a part of the SELECT's request text. If a statement is asked again,
      its request texts are equal, so it is recognised and not charged again. If the statement states an (epsilon,
      delta) or registered guarantees, every SELECT has this same budget. If the statement states an accuracy, a SELECT
      has the (epsilon, delta) with which it reaches the accuracy.
    """

    parts: tuple[ExecutablePlan, ...]
    plan: Plan
    budgets: tuple[Budget, ...]

    @property
    def total(self) -> None:
        """Always None, because a statement with several SELECTs has one budget for each SELECT (`budgets`).

        This property exists so that callers can read `total` of a `JointPlan` and of an `ExecutablePlan` alike.
        """
        return None


def plan_together(
    queries: Sequence[Query],
    schemas: Sequence[Schema],
    *,
    user: str,
    budget: AskedBudget,
    status: AccountStatus | None,
    plan: Callable[[int, Budget], ExecutablePlan],
) -> JointPlan:
    """Return the plans of several queries that are charged once, together; no row is read.

    - `schemas` describes the table of each query, and `user` is the user column of all tables.
    - `budget` is for all queries together if it is an (epsilon, delta) or an accuracy (`Within`). If it is `Draws`
      (guarantees that an account registered in advance), each query is planned with these guarantees.
    - `status` is the status of the account that pays; None if no account pays.
    - `plan(index, budget)` returns the plan of the query with this index.
    Raises: `Unattainable` if no budgets satisfy (epsilon, delta), or if all queries together need a larger epsilon for
    the accuracy than `budget` allows.
    """
    match budget:
        case Total() as total:
            epsilon, delta = float(total.epsilon), float(total.delta)
            shares = [_EqualShare(query) for query in queries]
            refusal: Unattainable | None = None
            for candidate in _largest_budgets(shares, user, schemas, epsilon, delta):
                try:
                    plans = tuple(plan(place, each) for place, each in enumerate(candidate.totals))
                    break
                except Unattainable as error:
                    refusal = refusal or error
            else:
                raise refusal or Unattainable(_TOO_LITTLE.format(epsilon=epsilon, delta=delta))
            stated: tuple[Budget, ...] = (total,) * len(queries)
            whole: Budget = total
        case Draws() as draws:
            stated = (draws,) * len(queries)
            plans = tuple(plan(place, draws) for place in range(len(queries)))
            whole = draws
        case Within() as accuracy:
            plans = _plan_each_within(accuracy, len(queries), plan)
            stated = tuple(planned.total for planned in plans if planned.total is not None)
            whole = accuracy.total(DEFAULT_CEILING if accuracy.epsilon is None else accuracy.epsilon)
    joint = _join_plans(plans, whole, status)
    if isinstance(budget, Within) and isinstance(whole, Total):
        cost = joint.epsilon.upper if joint.alone is None else joint.alone[0]
        if cost > whole.epsilon:
            raise Unattainable(
                f"intervals within ±{float(budget.within):,g} of {len(queries)} SELECTs take epsilon {cost:.3g} "
                f"together, and epsilon {float(whole.epsilon):g} is the most that this statement may spend; "
                f"give epsilon {cost * 1.01:.3g} as well, or a wider accuracy"
            )
    return JointPlan(parts=plans, plan=joint, budgets=stated)


def _plan_each_within(
    accuracy: Within, count: int, plan: Callable[[int, Budget], ExecutablePlan]
) -> tuple[ExecutablePlan, ...]:
    """Return the plans of `count` queries, each with the least epsilon whose confidence intervals are narrow enough.

    The widest half-width that is allowed is `accuracy.within`. `plan` takes the index of a query and a budget, and
    returns the plan. All queries together use half of the delta of `accuracy`, in equal parts; the other half is needed
    to compose the queries, that is, to certify their cost together.

    The limit `accuracy.epsilon` is for all queries together. It is not checked here; the caller checks the joint cost.
    """
    share = replace(accuracy, delta=accuracy.delta * _FAILURES / count, epsilon=LARGEST_TOTAL)
    plans = []
    for place in range(count):

        def plan_one(total: Total, place: int = place) -> ExecutablePlan:
            return plan(place, total)

        planned = plan_within(share, plan_one)
        if planned.target is not None:  # no epsilon of the statement is known that would do for one SELECT
            planned = replace(planned, target=replace(planned.target, total=None))
        plans.append(planned)
    return tuple(plans)


def _join_plans(plans: Sequence[ExecutablePlan], budget: Budget, status: AccountStatus | None) -> Plan:
    """Return one plan for a statement with several SELECTs, which is what a preview of the statement shows.

    The plan has the mechanism runs of all SELECTs, and one certified cost for all of them together.

    - `plans` are the plans of the SELECTs.
    - `budget` is the budget of the statement.
    - `status` is the status of the account that pays; None if no account pays.
    """
    uses = merged(use for planned in plans for use in planned.plan.uses)
    overall, delta, alone = promise_of(uses, budget, status)
    last = plans[-1].plan
    return replace(
        last,
        mechanism=" and ".join(planned.plan.mechanism for planned in plans),
        uses=uses,
        interaction=overall.interaction,
        epsilon=Bracket(overall.lower, overall.upper),
        delta=delta,
        method=overall.method,
        statement=overall.statement,
        why=f"{len(plans)} SELECTs over private rows, priced together: {last.why}",
        accuracy=Accuracy.of_all([planned.plan.accuracy for planned in plans]),
        alone=alone,
    )

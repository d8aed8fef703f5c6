"""From a request to a plan or an answer: what may be asked of a data set, by whom, from which account."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from setwise.analytics.budget import Draws, Spending, Total
from setwise.analytics.execute import ask
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.query import Count, HistogramQuery, Query, Sum, TopK, query_from_dict
from setwise.analytics.schema import Schema
from setwise.analytics.session import Session
from setwise.errors import InvalidParameter, UnknownColumn, UnknownName
from setwise.mechanisms.randomness import Randomness
from setwise.service.api.problems import at_field
from setwise.service.api.schemas import DrawsBody, QuestionBody, TotalBody
from setwise.service.auth.people import Identity
from setwise.service.queries.engine_pool import Engines
from setwise.service.queries.timing import Pace, PacedAccount
from setwise.service.storage.accounts import Accounts, Holding
from setwise.service.storage.datasets import Dataset, Datasets
from setwise.service.workers.pool import Planner, PlanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request that was checked against what the data set's steward allows and the person's account."""

    dataset: Dataset
    holding: Holding
    query: Query
    spending: Spending


class Questions:
    """Checks, previews and answers questions."""

    def __init__(
        self, datasets: Datasets, accounts: Accounts, engines: Engines, planner: Planner, randomness: Randomness
    ) -> None:
        self._datasets = datasets
        self._accounts = accounts
        self._engines = engines
        self._planner = planner
        self._randomness = randomness

    def checked(self, identity: Identity, body: QuestionBody) -> Question:
        """Return the question, or raise what is wrong with it, naming the field; no data is touched."""
        with at_field("account"):
            holding = self._accounts.own(identity, body.account)
        with at_field("dataset"):
            if body.dataset != holding.dataset:
                raise UnknownName(f"the account {body.account!r} is not on a data set named {body.dataset!r}")
            dataset = self._datasets.get(body.dataset)
        with at_field("query"):
            given = {name: value for name, value in body.query.model_dump().items() if value is not None}
            query = _bounded(query_from_dict(_with_bounds(given, dataset)), dataset)
        _check_columns(query, dataset, self._engines.schema(dataset))
        with at_field("spend"):
            spending = _spending(body.spend)
        return Question(dataset=dataset, holding=holding, query=query, spending=spending)

    def to_plan(self, question: Question) -> PlanRequest:
        """Return what the plan of the question depends on, as it is now."""
        return PlanRequest(
            query=question.query,
            spending=question.spending,
            user=question.dataset.user,
            schema=self._engines.schema(question.dataset),
            standing=question.holding.account.status(),
        )

    def work(self, question: Question, key: str) -> Callable[[Pace], str]:
        """Return what answers the question in a thread; called in the event loop."""
        loop = asyncio.get_running_loop()
        return lambda pace: self._answered(question, key, pace, loop)

    def _answered(self, question: Question, key: str, pace: Pace, loop: asyncio.AbstractEventLoop) -> str:
        """Plan, charge, run, and return the text of the answer that is stored."""
        planned = self._planner.plan_for(self.to_plan(question), pace, loop)
        dataset, account = question.dataset, PacedAccount(question.holding.account, pace)
        with self._engines.lent(dataset) as engine, pace.using(engine):
            session = Session(
                engine, user=dataset.user, name=dataset.name, randomness=self._randomness, account=account
            )
            with at_field("query"):
                engine.check(planned.aggregation)
                answer = ask(
                    planned,
                    engine,
                    account,
                    key=key,
                    request=session.request(question.query, question.spending),
                    randomness=self._randomness,
                )
        return answer.stored()


def _with_bounds(given: dict[str, object], dataset: Dataset) -> dict[str, object]:
    """Fill in the data set's bounds where the request leaves them out."""
    if given["kind"] not in {"top-k", "histogram"}:
        return given
    registered = {"contributions": dataset.contributions, "per_item": dataset.per_item}
    return {name: bound for name, bound in registered.items() if bound is not None} | given


def _bounded(query: Query, dataset: Dataset) -> Query:
    match query:
        case TopK() | HistogramQuery():
            for name in ("contributions", "per_item"):
                most, asked = getattr(dataset, name), getattr(query, name)
                if most is not None and (asked is None or asked > most):
                    with at_field(f"query.{name}"):
                        raise InvalidParameter(f"{name} must be at most {most} on this data set, not {asked}")
        case Count() | Sum():
            pass
    return query


def _check_columns(query: Query, dataset: Dataset, schema: Schema) -> None:
    """Raise `UnknownColumn` or `InvalidFilter` for columns that the steward has not allowed."""
    for name, allowed in (("item", dataset.items), ("value", dataset.values)):
        column = getattr(query, name, None)
        if column is not None and column not in allowed:
            with at_field(f"query.{name}"):
                listed = ", ".join(map(repr, allowed)) or "none"
                raise UnknownColumn(f"{name} must be one of the columns allowed here ({listed}), not {column!r}")
    if query.where is not None:
        with at_field("query.where"):
            parse_filter(query.where, schema, dataset.filters)


def _spending(body: DrawsBody | TotalBody) -> Spending:
    match body:
        case DrawsBody():
            return Draws(
                discover=body.discover,  # type: ignore[arg-type]  # written forms do as well
                counts=body.counts,  # type: ignore[arg-type]
                threshold_delta=body.threshold_delta,
            )
        case TotalBody():
            return Total(
                epsilon=body.epsilon,  # type: ignore[arg-type]  # any number does as well
                delta=body.delta,  # type: ignore[arg-type]
                counts=body.counts,
                mechanism=body.mechanism,
            )

"""From a request to a plan or an answer: what may be asked of a data set, by whom, from which account."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from setwise.accounting.guarantees import Use
from setwise.analytics.bins import group_of
from setwise.analytics.budget import Budget, budget_of
from setwise.analytics.execute import execute, request_text
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.planning import ExecutablePlan, Plan
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.analytics.sql.parser import Statement, parse_sql
from setwise.analytics.suggestions import what_fits
from setwise.errors import BudgetExhausted, InvalidParameter, Unattainable, UnknownColumn, UnknownName
from setwise.ledger.account import Account
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import Randomness
from setwise.service.auth.accounts import Accounts
from setwise.service.auth.people import Identity
from setwise.service.problems import at_field
from setwise.service.queries.engine_pool import Engines, TableReader
from setwise.service.queries.runner import RunningQuery, Work
from setwise.service.queries.timing import TimedAccount
from setwise.service.storage.database import Threads
from setwise.service.storage.datasets import Dataset, Datasets
from setwise.service.telemetry import stage_span
from setwise.service.workers.pool import WorkerPool
from setwise.service.workers.tasks import PlanQuestion

_LARGEST_REMEMBERED = 1000
"""Labels of the largest domain whose plan is remembered: one with more is not worth the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawQuestion:
    """What a person asks of which data set, who pays, and how much, unless SQL says so: not checked yet."""

    dataset: str
    account: str
    query: Mapping[str, object]
    spending: Callable[[], Budget] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuestion:
    """A question that was checked against what the data set's steward allows and the person's account.

    `is_explained` says that its SQL is an EXPLAIN, which has a preview and no answer.
    """

    dataset: Dataset
    account: Account
    query: Query
    spending: Budget
    schema: Schema
    is_explained: bool = False


class QuestionService:
    """Checks, previews and answers questions."""

    def __init__(
        self, datasets: Datasets, accounts: Accounts, engines: Engines, workers: WorkerPool, randomness: Randomness
    ) -> None:
        self._datasets = datasets
        self._accounts = accounts
        self._engines = engines
        self._workers = workers
        self._randomness = randomness

    async def preview(self, identity: Identity, raw: RawQuestion, threads: Threads) -> tuple[Plan, tuple[Use, ...]]:
        """Return the plan of a question, and what is left of the account that would pay; no data is touched."""
        question = await threads.run(self._checked, identity, raw)
        with _at_plan():
            planned: ExecutablePlan = await self._workers.run(_to_plan(question), remember=_is_small(question.query))
        return planned.plan, (await threads.run(question.account.status)).left

    def work(self, identity: Identity, raw: RawQuestion) -> Work:
        """Return what answers the question in a thread of the runner."""
        return lambda running: self._answered(identity, raw, running)

    def statement(self, asked: Mapping[str, Any]) -> Statement | None:
        """Return what the SQL of a stored request asks, unless only another version could read it."""
        try:
            return read_sql(asked["query"], self._datasets.get(asked["dataset"]))
        except InvalidParameter:
            return None

    def _answered(self, identity: Identity, raw: RawQuestion, running: RunningQuery) -> str:
        """Check, plan, charge, run, and return the text of the answer that is stored."""
        question = self._checked(identity, raw)
        if question.is_explained:
            with at_field("query.text"):
                raise InvalidParameter("EXPLAIN has a plan and no rows: ask for a preview of the SELECT")
        running.resume()
        with _at_plan(), stage_span("plan"):
            planned: ExecutablePlan = self._workers.calculate(
                _to_plan(question), remember=_is_small(question.query), check=running.timing.check
            )
        dataset = question.dataset
        reader = TableReader(self._engines, dataset, running.timing)
        with at_field("query"):
            reader.check(planned.aggregation)
        try:
            answer = execute(
                planned,
                reader,
                TimedAccount(question.account, running.timing, running.charged),
                key=running.asked.key,
                request=request_text(dataset.name, dataset.user, question.query, question.spending),
                randomness=self._randomness,
            )
        except BudgetExhausted as error:
            fits = self._what_fits(question, planned.plan.uses)
            raise (error if fits is None else BudgetExhausted(f"{error}; {fits}")) from None
        return answer.stored()

    def _what_fits(self, question: CheckedQuestion, needed: Sequence[Use]) -> str | None:
        """Return in words a smaller total that the account would pay for, or None."""
        account = question.account
        if not isinstance(question.spending, Total):
            return None

        def fits(other: Total) -> bool:
            planned: ExecutablePlan = self._workers.calculate(_to_plan(replace(question, spending=other)))
            return account.shortage(planned.plan.uses) is None

        return what_fits(question.spending, needed, account.status(), fits)

    def _checked(self, identity: Identity, raw: RawQuestion) -> CheckedQuestion:
        """Return the question, or raise what is wrong with it, naming the field; no data is touched."""
        with at_field("account"):
            account = self._accounts.own(identity, raw.account)
        with at_field("dataset"):
            if raw.dataset != account.terms.dataset:
                raise UnknownName(f"the account {raw.account!r} is not on a data set named {raw.dataset!r}")
            dataset = self._datasets.get(raw.dataset)
        with at_field("query"):
            query, spending, is_explained = _read(raw, dataset)
            query = _bounded(query, dataset)
        if query.kind == "histogram" and query.contributions is None and query.domain is None:
            with at_field("query.contributions"):
                raise InvalidParameter(
                    "a histogram of this data set needs contributions or a domain: give either, or ask for a top k"
                )
        schema = self._engines.schema(dataset)
        _check_columns(query, dataset, schema)
        return CheckedQuestion(
            dataset=dataset,
            account=account,
            query=query,
            spending=spending,
            schema=schema,
            is_explained=is_explained,
        )


def read_sql(asked: Mapping[str, object], dataset: Dataset) -> Statement:
    """Return what the SQL of a request asks of a data set, or raise what is wrong with it."""
    given: dict[str, Any] = {name: asked.get(name) for name in ("contributions", "domain")}
    with at_field("query.text"):
        statement = parse_sql(str(asked["text"]), user=dataset.user, **given)
        if statement.table != dataset.name:
            raise InvalidParameter(
                f"the data set is called {dataset.name!r}, not {statement.table!r}: write it after FROM"
            )
    return statement


def _read(raw: RawQuestion, dataset: Dataset) -> tuple[Query, Budget, bool]:
    """Return the query, what may be spent on it, which SQL may say itself, and whether it is an EXPLAIN."""
    if raw.query.get("kind") != "sql":
        query = Query.from_dict(raw.query)
        with at_field("spend"):
            if raw.spending is None:
                raise InvalidParameter("say what to spend: draws from the account, or a total")
            return query, raw.spending(), False
    statement = read_sql(raw.query, dataset)
    said = statement.paid_by({})
    with at_field("spend"):
        if said["epsilon"] is None and said["delta"] is None:
            if raw.spending is None:
                raise InvalidParameter("say what to spend: OPTIONS (epsilon = .., delta = ..), or spend beside the SQL")
            return statement.query, raw.spending(), statement.explain
        if raw.spending is not None:
            raise InvalidParameter("what to spend is said twice, in OPTIONS and beside the SQL: say it once")
        return statement.query, budget_of(said), statement.explain


def _to_plan(question: CheckedQuestion) -> PlanQuestion:
    return PlanQuestion(
        query=question.query,
        spending=question.spending,
        user=question.dataset.user,
        schema=question.schema,
        terms=question.account.terms,
    )


def _is_small(query: Query) -> bool:
    """Whether the plan of a query is worth its memory."""
    return len(query.domain or ()) <= _LARGEST_REMEMBERED


@contextmanager
def _at_plan() -> Iterator[None]:
    """Name the part that a plan refuses: what to spend where a number is at fault, else the query."""
    with at_field("query"):
        try:
            yield
        except (InvalidParameter, Unattainable):
            with at_field("spend"):
                raise


def _bounded(query: Query, dataset: Dataset) -> Query:
    """Return the query with the data set's bounds where it leaves its own out, or raise when it exceeds them."""
    if query.item is None:
        return query
    filled = query.filled(contributions=dataset.contributions, per_item=dataset.per_item)
    for name, asked in (("contributions", filled.contributions), ("per_item", filled.per_item)):
        most = getattr(dataset, name)
        if most is not None and (asked is None or asked > most):
            with at_field(f"query.{name}"):
                raise InvalidParameter(f"{name} must be at most {most} on this data set, not {asked}")
    return filled


def _check_columns(query: Query, dataset: Dataset, schema: Schema) -> None:
    """Raise `UnknownColumn` or `InvalidFilter` for columns that the steward has not allowed."""
    grouped = [group_of(text, schema).column for text in query.groups]
    for name, columns, allowed in (("item", grouped, dataset.items), ("value", query.values, dataset.values)):
        for column in columns:
            if column not in allowed:
                with at_field(f"query.{name}"):
                    listed = ", ".join(map(repr, allowed)) or "none"
                    raise UnknownColumn(f"{name} must be one of the columns allowed here ({listed}), not {column!r}")
    if query.where is not None:
        with at_field("query.where"):
            parse_filter(query.where, schema, dataset.filters)

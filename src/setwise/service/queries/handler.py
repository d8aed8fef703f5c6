"""From a request to a plan or an answer: what may be asked of a data set, by whom, from which account."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from setwise.accounting.guarantees import Use
from setwise.analytics.bins import group_of
from setwise.analytics.bounds_search import SearchMemory
from setwise.analytics.budget import AskedBudget, Draws, Within, budget_of
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.execute import execute
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.identity import TableIdentity, request_text
from setwise.analytics.payer import what_fits
from setwise.analytics.planning import Plan
from setwise.analytics.query import Query
from setwise.analytics.rows.derivation import NOT_DERIVED, Derivation, columns_computed_with
from setwise.analytics.schema import Schema
from setwise.analytics.sql.parser import Statement, TableFacts, parse_sql
from setwise.errors import BudgetExhausted, InvalidParameter, Unattainable, UnknownColumn, UnknownName
from setwise.ledger.account import Account, Receipt
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.statistics import GroupTable
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import Accounts
from setwise.service.problems import at_field
from setwise.service.queries.engine_pool import Engines
from setwise.service.queries.runner import QueryTiming, Question, RunningQuery
from setwise.service.shares import Threads
from setwise.service.storage.datasets import Dataset, Datasets
from setwise.service.telemetry import stage_span
from setwise.service.workers.pool import WorkerPool
from setwise.service.workers.tasks import PlanQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuestion:
    """A question that was checked against what the data set's steward allows and the person's account.

    `is_explained` says that its SQL is an EXPLAIN, which has a preview and no answer.
    """

    dataset: Dataset
    account: Account
    query: Query
    spending: AskedBudget
    schema: Schema
    joins: tuple[Join, ...] = ()
    derivation: Derivation = NOT_DERIVED
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
        self._searches = SearchMemory()

    async def preview(self, identity: Identity, raw: Question, threads: Threads) -> tuple[Plan, tuple[Use, ...]]:
        """Return the plan of a question, and what is left of the account that would pay; no data is touched."""
        question = await threads.run(self._checked, identity, raw)
        with _at_plan():
            planned = await self._workers.run(_to_plan(question))
        return planned.plan, (await threads.run(question.account.status)).left

    def answer(self, running: RunningQuery) -> str:
        """Check, plan, charge, run, and return the text of the answer that is stored."""
        question = self._checked(running.request.identity, running.request.question)
        if question.is_explained:
            with at_field("query.text"):
                raise InvalidParameter("EXPLAIN has a plan and no rows: ask for a preview of the SELECT")
        running.resume()
        with _at_plan(), stage_span("plan"):
            planned = self._workers.calculate(_to_plan(question), check=running.timing.raise_if_cancelled)
        dataset, spending = question.dataset, question.spending
        if isinstance(spending, Within):
            assert planned.total is not None, "an accuracy is bought with a total"
            spending = planned.total
        reader = TableReader(self._engines, dataset, running.timing, question.joins, question.derivation)
        with at_field("query"):
            reader.check(planned.aggregation)
        try:
            stored, _ = execute(
                planned,
                reader,
                TimedAccount(question.account, running.timing, running.charged),
                key=running.request.key,
                request=request_text(self._identity(question), question.query, spending, question.schema),
                randomness=self._randomness,
                searches=self._searches,
            )
        except BudgetExhausted as error:
            fits = self._what_fits(replace(question, spending=spending), planned.plan.uses)
            raise (error if fits is None else BudgetExhausted(f"{error}; {fits}")) from None
        return stored

    def _identity(self, question: CheckedQuestion) -> TableIdentity:
        """Return what identifies the tables that a question reads: where the steward registered each of them."""
        dataset = question.dataset
        return TableIdentity(
            name=dataset.name,
            user=dataset.user,
            sources={dataset.name: f"{dataset.engine} {dataset.table}"} | dict(dataset.public),
            joins=question.joins,
            derivation=str(question.derivation),
        )

    def statement(self, asked: Mapping[str, Any]) -> Statement | None:
        """Return the SQL of a stored request as it is parsed; None for other kinds, and for SQL of another version."""
        if asked["query"]["kind"] != "sql":
            return None
        try:
            return self._read_sql(asked["query"], self._datasets.get(asked["dataset"]))
        except InvalidParameter:
            return None

    def _read(self, raw: Question, dataset: Dataset) -> tuple[Query, AskedBudget, Statement | None]:
        """Return the query, what may be spent on it, and the SQL that it was read from, if it was."""
        if raw.query.get("kind") != "sql":
            return Query.from_dict(raw.query), _spending(raw, None), None
        statement = self._read_sql(raw.query, dataset)
        spending = _spending(raw, statement)
        statement = statement.filled(finds_bounds=not isinstance(spending, Draws))
        return statement.query, spending, statement

    def _read_sql(self, asked: Mapping[str, object], dataset: Dataset) -> Statement:
        """Return what the SQL of a request asks of a data set, or raise what is wrong with it."""
        text = str(asked["text"])
        given: dict[str, Any] = {name: asked.get(name) for name in ("contributions", "domain")}
        allowed = _Allowed(dataset, self._engines.schema(dataset))

        def schema_of(table: str, joins: tuple[Join, ...]) -> Schema:
            if table != dataset.name:
                raise InvalidParameter(f"the data set is called {dataset.name!r}, not {table!r}: write it after FROM")
            for key in (key for join in joins for key in join.keys):
                allowed.check_key(key)
            return self._engines.schema(dataset, joins)

        facts = TableFacts(public=tuple(name for name, _ in dataset.public), schema_of=schema_of)
        with at_field("query.text"):
            statement = parse_sql(text, user=dataset.user, **given, facts=facts)
            if len(statement.cores) > 1 or (statement.shell is not None and statement.shell.public):
                raise InvalidParameter(
                    "the service answers one SELECT over the data set at a time, and joins public tables to its rows: "
                    "ask the SELECTs one by one"
                )
            allowed.check_derivation(statement.derivation)
            if statement.shell is not None:
                schema = self._engines.schema(dataset, statement.joins, statement.derivation)
                statement.check_shell([schema])
            return statement

    def _what_fits(self, question: CheckedQuestion, needed: Sequence[Use]) -> str | None:
        """Return in words a smaller total that the account would pay for, or None."""
        account = question.account
        if not isinstance(question.spending, Total):
            return None

        def fits(other: Total) -> bool:
            planned = self._workers.calculate(_to_plan(replace(question, spending=other)))
            return account.shortage(planned.plan.uses) is None

        return what_fits(question.spending, needed, account, fits)

    def _checked(self, identity: Identity, raw: Question) -> CheckedQuestion:
        """Return the question, or raise what is wrong with it, naming the field; no data is touched."""
        with at_field("account"):
            account = self._accounts.own(identity, raw.account)
        with at_field("dataset"):
            if raw.dataset != account.terms.dataset:
                raise UnknownName(f"the account {raw.account!r} is not on a data set named {raw.dataset!r}")
            dataset = self._datasets.get(raw.dataset)
        with at_field("query"):
            query, spending, statement = self._read(raw, dataset)
            query = _bounded(query, dataset)
        if query.kind == "histogram" and query.contributions is None and query.domain is None:
            with at_field("query.contributions"):
                raise InvalidParameter(
                    "a histogram of this data set needs contributions or a domain: give either, or ask for a top k"
                )
        joins = () if statement is None else statement.joins
        derivation = NOT_DERIVED if statement is None else statement.derivation
        schema = self._engines.schema(dataset, joins, derivation)
        _check_columns(query, dataset, schema, _Allowed(dataset, self._engines.schema(dataset)))
        return CheckedQuestion(
            dataset=dataset,
            account=account,
            query=query,
            spending=spending,
            schema=schema,
            joins=joins,
            derivation=derivation,
            is_explained=statement is not None and statement.explain,
        )


def _spending(raw: Question, statement: Statement | None) -> AskedBudget:
    """Return what may be spent, which SQL may say itself."""
    with at_field("spend"):
        if statement is None or not statement.says_what_to_spend:
            if raw.spending is None:
                words = "draws from the account, or a total" if statement is None else "in OPTIONS, or beside the SQL"
                raise InvalidParameter(f"say what to spend: {words}")
            return raw.spending()
        if raw.spending is not None:
            raise InvalidParameter("what to spend is said twice, in OPTIONS and beside the SQL: say it once")
        return budget_of(statement.paid_by({}))


def _to_plan(question: CheckedQuestion) -> PlanQuestion:
    return PlanQuestion(
        query=question.query,
        spending=question.spending,
        user=question.dataset.user,
        schema=question.schema,
        terms=question.account.terms,
    )


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


class _Allowed:
    """The columns that a question may name: those that the steward lists, and all of public tables."""

    def __init__(self, dataset: Dataset, schema: Schema) -> None:
        self._dataset = dataset
        self._own = schema.names

    def own(self, name: str) -> str | None:
        """Return the data set's own column that a column of a join is; None for one of a public table."""
        plain = name.removeprefix(f"{self._dataset.name}.")
        return next((each for each in (name, plain) if each in self._own), None)

    def check(self, what: str, name: str, listed: tuple[str, ...], there: bool) -> None:
        """Raise `UnknownColumn` for a column that is not there, or is the data set's own and not listed."""
        own = self.own(name)
        if not there or (own is not None and own not in listed):
            names = ", ".join(map(repr, listed)) or "none"
            raise UnknownColumn(f"{what} must be one of the columns allowed here ({names}), not {name!r}")

    def check_derivation(self, derivation: Derivation) -> None:
        """Raise unless every own column that SQL computes with may be grouped or filtered by, or is added up.

        A column that the steward lists as a value alone may stand in sums of numbers. In a condition or as a key it
        would be filtered or grouped by.
        """
        for name, is_number in columns_computed_with(derivation):
            own = self.own(name)
            listed = (*self._dataset.items, *self._dataset.filters, *(self._dataset.values if is_number else ()))
            if own is not None and own not in (*listed, self._dataset.user):
                names = ", ".join(map(repr, listed)) or "none"
                raise UnknownColumn(f"SQL may compute with the columns allowed here ({names}), not with {name!r}")

    def check_key(self, key: Key) -> None:
        """Raise unless the data set's own column may be grouped or filtered by: a join can do either."""
        if key.earlier in (None, self._dataset.name) and key.column in self._own:
            listed = (*self._dataset.items, *self._dataset.filters)
            self.check("a column to join on", key.column, listed, there=True)


def _check_columns(query: Query, dataset: Dataset, schema: Schema, allowed: _Allowed) -> None:
    """Raise `UnknownColumn` or `InvalidFilter` for columns that the steward has not allowed."""
    grouped = [group_of(text, schema).column for text in query.groups]
    for name, columns, listed in (("item", grouped, dataset.items), ("value", query.values, dataset.values)):
        for column in columns:
            with at_field(f"query.{name}"):
                allowed.check(name, column, listed, column in schema.names)
    if query.where is not None:
        filters = [name for name in schema.names if (own := allowed.own(name)) is None or own in dataset.filters]
        with at_field("query.where"):
            parse_filter(query.where, schema, filters)


class TimedAccount:
    """An account whose charges wait for a turn and whose answers are stored at padded moments.

    `charged` is called when a charge is on disk, before the turn.
    """

    def __init__(self, account: Account, timing: QueryTiming, charged: Callable[[], None]) -> None:
        self._account = account
        self._timing = timing
        self._charged = charged

    def charge(self, uses: Sequence[Use], *, key: str, request: str) -> Receipt:
        """Charge; then wait for a turn, unless the answer is there already."""
        receipt = self._account.charge(uses, key=key, request=request)
        self._charged()
        if receipt.answer is None:
            self._timing.acquire_slot()
        return receipt

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use] = ()) -> str:
        """Store the answer, at a padded moment, unless the query was stopped before that moment."""
        self._timing.wait_for_padded_time()
        self._timing.raise_if_cancelled()
        return self._account.settle(receipt, answer=answer, returned=returned)


class TableReader:
    """Reads a registered table for one query, with an engine that is borrowed for each call.

    A query that waits for its turn holds none, so that there are never many more engines than turns.
    """

    def __init__(
        self,
        engines: Engines,
        dataset: Dataset,
        timing: QueryTiming,
        joins: tuple[Join, ...],
        derivation: Derivation = NOT_DERIVED,
    ) -> None:
        self._engines = engines
        self._dataset = dataset
        self._timing = timing
        self._joins = joins
        self._derivation = derivation

    def check(self, aggregation: Aggregation) -> None:
        """Raise what metadata tells is wrong with an aggregation."""
        with self._engines.borrow_to_check(self._dataset, self._joins, self._derivation) as engine:
            engine.check(aggregation)

    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return every positive group with its exact bounded count."""
        with self._reading() as engine:
            return engine.histogram(aggregation)

    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the `most` highest groups, highest first."""
        with self._reading() as engine:
            return engine.top(aggregation, most)

    def statistics(self, aggregation: Aggregation) -> GroupTable:
        """Return the exact measures of every group."""
        with self._reading() as engine:
            return engine.statistics(aggregation)

    @contextmanager
    def _reading(self) -> Iterator[Engine]:
        lent = self._engines.borrow(self._dataset, self._joins, self._derivation)
        with lent as engine, self._timing.using(engine):
            yield engine

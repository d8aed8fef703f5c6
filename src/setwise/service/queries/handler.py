"""Turns a request into a preview or an answer: permissions, plan, charge, run, and the suggestion of a smaller budget.

A question becomes, one after the other: a `Question` (the parsed request body), a `CheckedQuestion` (with its account,
dataset, and parsed SQL and filter), an `ExecutablePlan` (the mechanism and its cost), and the text of the stored
answer.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date
from fractions import Fraction

from setwise.accounting.guarantees import ApproxDP, Use
from setwise.accounting.notation import format_use
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.budget import AskedBudget, Budget, Draws, Within, budget_of, default_delta, drawn_for
from setwise.analytics.engines.joins import Join
from setwise.analytics.execute import StatementPart, execute, execute_parts
from setwise.analytics.filter.expression import Filter
from setwise.analytics.payer import BudgetSuggestion, first_payable, payable_plan, suggest_budget, with_suggestion
from setwise.analytics.planning.bounds_search import SearchMemory, has_open_bounds
from setwise.analytics.planning.joint_pricing import JointPlan
from setwise.analytics.planning.plan import ExecutablePlan, Plan
from setwise.analytics.query import Query
from setwise.analytics.request_identity import TableIdentity, request_text
from setwise.analytics.rows.derivation import NOT_DERIVED, Derivation
from setwise.analytics.schema import Schema
from setwise.analytics.sql.core import Core
from setwise.analytics.sql.statement import Statement
from setwise.errors import (
    BudgetExhausted,
    EngineFailed,
    InvalidParameter,
    Unattainable,
    UnsuitableTable,
)
from setwise.ledger.account import Account
from setwise.ledger.terms import Terms
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import Randomness
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import Accounts
from setwise.service.problems import at_field, each_of
from setwise.service.queries.allowed_columns import AllowedColumns, check_columns
from setwise.service.queries.dataset_bounds import bounded_query
from setwise.service.queries.engine_pool import Engines
from setwise.service.queries.exact_results import ExactResults
from setwise.service.queries.jobs import Job
from setwise.service.queries.parsed_statements import ParsedStatements, utc_day
from setwise.service.queries.runner import Question, RunningQuery, SqlSelect
from setwise.service.queries.table_reader import TableReader, TimedAccount
from setwise.service.slots import Threads
from setwise.service.storage.datasets import Dataset, Datasets
from setwise.service.telemetry import stage_span
from setwise.service.workers.answers import (
    StoredAnswer,
    WriteRows,
    make,
    read_arrow,
)
from setwise.service.workers.pool import RememberedResults, WorkerPool
from setwise.service.workers.tasks import PlanQuestion, PlanStatement, Task

_ROW_CHARACTERS = 4 << 20
"""The most characters of the cached rows of all answers to SQL."""

_LONGEST_ROWS = 64 << 10
"""The most characters of the cached rows of one answer, so that one large answer does not displace others."""


_USED_UP = 20
"""An account of which less than one twentieth is left is called used up, if that is no half of what a question needs.

An epsilon of 0.001 would still be paid, but its answers would be noise."""

_USED_UP_TEXT = (
    "the account is used up: answers that it has paid for stay free under their keys, and a steward can open another "
    "account"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPart:
    """One query over private rows, checked against the columns that the steward allows.

    - `query`: the query, with the dataset's values for bounds that the request left out
    - `schema`: the columns of the table that the query reads
    - `where`: the parsed filter, or None
    - `joins`: the public tables (tables without users) that SQL joins to the dataset; empty without SQL
    - `derivation`: the steps by which SQL computes each user's rows; empty without SQL
    """

    query: Query
    schema: Schema
    where: Filter | None = None
    joins: tuple[Join, ...] = ()
    derivation: Derivation = NOT_DERIVED


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuestion:
    """A question that was checked: its account is the person's own, and the steward allows its columns and bounds.

    - `dataset`: the dataset. If its tables have versions (Delta, Iceberg, files in an object store), their paths end
      with the versions that the question reads
    - `account`: the account that pays for the question
    - `budget`: what the question may spend from the account
    - `parts`: the queries over private rows, in the order in which they are run
    - `statement`: the parsed SQL, or None if the question was not asked in SQL
    """

    dataset: Dataset
    account: Account
    budget: AskedBudget
    parts: tuple[CheckedPart, ...]
    statement: Statement | None = None

    def to_plan(self) -> Task[ExecutablePlan | JointPlan]:
        """Return the task for a worker process that plans this question: chooses the mechanism, the noise and the cost.

        The service caches the results of tasks. If the plan does not depend on the question's filter, the task has no
        filter, so that questions which differ only in their filters share one cached plan. `complete_plan` then adds
        the filter.
        """
        parts = [replace(part, query=replace(part.query, where=None), where=None) for part in self.parts]
        tasks = tuple(
            PlanQuestion(
                query=part.query,
                spending=self.budget,
                user=self.dataset.protected,
                schema=part.schema,
                terms=self.account.terms,
                where=part.where,
            )
            for part in (parts if self._is_planned_unfiltered else self.parts)
        )
        return tasks[0] if len(tasks) == 1 else PlanStatement(parts=tasks)

    def complete_plan(self, planned: ExecutablePlan | JointPlan) -> ExecutablePlan | JointPlan:
        """Return the plan `planned` (mechanism, noise and cost) with the question's filter added, if it was left out.

        `planned` is the result of the task that `to_plan` returned. Raises `UnsuitableTable` for a filter that the
        columns do not allow.
        """
        if not self._is_planned_unfiltered or isinstance(planned, JointPlan):
            return planned
        (part,) = self.parts
        return planned.with_filter(part.query, part.where, part.schema)

    @property
    def _is_planned_unfiltered(self) -> bool:
        """Whether `to_plan` leaves the question's filter out, so that one cached plan serves all filters.

        A plan has the mechanism, the noise and the cost, which do not depend on the filter; `complete_plan` adds the
        filter afterwards. The result is True for a question with a single query that has a filter, unless the query
        leaves one of its bounds (clipping bounds, the most groups in which one user counts, or the most rows of a user)
        to a private search. Such a plan first runs another query with noise, to find a good bound, and `complete_plan`
        could not add the filter to that query.
        """
        # Bounds that are left out are first searched for privately, and the plan of this search has a query of its own,
        # to which `complete_plan` could not add the filter.
        return len(self.parts) == 1 and self.parts[0].where is not None and not has_open_bounds(self.parts[0].query)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The plan of a question, and whether its account could pay for it now.

    - `left`: the registered uses that remain in the account, such as 25 uses of 0.1-DP mechanisms; for an account with
      an (epsilon, delta) budget, the largest single use that it can still pay for
    - `shortage`: a sentence that says what is lacking in the account, or in the joint budget of its dataset, and which
      smaller budget the account could pay, if there is one; None if the account can pay
    - `warning`: a sentence, or None. The joint budget of a dataset may be able to pay in two ways: from a sum of mu
      squared, and from a sum of epsilons. The sentence warns that it can pay for this question in one of the two ways
      only, because the charge then ends the other way for all accounts on the dataset
    """

    plan: Plan
    left: tuple[Use, ...]
    shortage: str | None
    warning: str | None


class QuestionService:
    """Checks, previews, charges and answers the questions of people to datasets.

    - `datasets`: the store of registered datasets
    - `accounts`: the accounts, with the check of who may spend from which
    - `engines`: the pool of engines, which read tables
    - `workers`: the worker processes that plan questions
    - `randomness`: the source of noise
    """

    def __init__(
        self, datasets: Datasets, accounts: Accounts, engines: Engines, workers: WorkerPool, randomness: Randomness
    ) -> None:
        self._datasets = datasets
        self._accounts = accounts
        self._engines = engines
        self._workers = workers
        self._randomness = randomness
        self._searches = SearchMemory()
        self._results = ExactResults()
        self._statements = ParsedStatements(engines, workers)
        self._rows = RememberedResults(most=_ROW_CHARACTERS, largest=_LONGEST_ROWS)
        self._lock = threading.Lock()
        """Held while the cache of rows is read or written."""

    async def preview(self, identity: Identity, question: Question, threads: Threads) -> Preview:
        """Return the preview of a question: its plan (mechanism and cost), and what its account lacks to pay for it.

        `identity` is the person who asks. A preview charges nothing and reads no rows. `threads` are the threads in
        which short work with the database is done, so that it does not block the event loop.
        """
        checked = await threads.run(self._check, identity, question)
        remaining = (await threads.run(checked.account.status)).left
        # A budget that fits is searched by planning other budgets, so this may take as long as several plans.
        return await self._workers.call(self._preview, checked, remaining)

    def answer(self, running: RunningQuery) -> str:
        """Check, plan, charge and run the query `running`, and return its stored answer as JSON text.

        Raises, and nothing is charged:

        - `BudgetExhausted`: the account cannot pay
        - another `SetwiseError`: the question is not valid

        Raises `RunsElsewhere` if the query was answered before or another process of the service runs it; the one
        charge of the query pays for this request too. After the charge, raises `AnswerWithheld` if the query cannot be
        answered, and errors of the ledger and of reading the table.
        """
        earlier = running.jobs.find(account=running.question.account, key=running.key)
        day = utc_day(None if earlier is None else earlier.created_at)
        checked = self._check(running.identity, running.question, running.key, day)
        if checked.statement is not None and checked.statement.explain:
            with at_field("query.text"):
                raise InvalidParameter("EXPLAIN has a plan and no rows: ask for a preview of the SELECT")
        running.resume(earlier)
        payer = TimedAccount(checked.account, running.timing, running.record_charge)

        def attempt(budget: AskedBudget) -> str:
            tried = replace(checked, budget=budget)
            planned = self._plan(tried, running.timing.raise_if_cancelled)
            if isinstance(planned, JointPlan):
                return self._answer_parts(tried, planned, running, payer)
            return self._answer_one(tried, planned, running, payer)

        def uses_of(budget: AskedBudget) -> Sequence[Use]:
            return self._plan(replace(checked, budget=budget), running.timing.raise_if_cancelled).plan.uses

        try:
            return first_payable(checked.budget, attempt, checked.account.status, uses_of)
        except BudgetExhausted as error:
            fitting = self._fitting_budget(checked, self._plan(checked, running.timing.raise_if_cancelled))
            if fitting is None:
                raise
            raise BudgetExhausted(with_suggestion(str(error), fitting)) from None

    def _plan(self, checked: CheckedQuestion, check: Callable[[], None] = lambda: None) -> ExecutablePlan | JointPlan:
        """Return the plan (mechanism, noise and cost) of the question `checked`, from a worker process or its cache.

        `check` is called while the plan is computed, and raises an error if the question was cancelled.
        """
        with _at_plan(), stage_span("plan"):
            return checked.complete_plan(self._workers.calculate(checked.to_plan(), check=check))

    def _answer_one(
        self, checked: CheckedQuestion, planned: ExecutablePlan, running: RunningQuery, payer: TimedAccount
    ) -> str:
        """Charge and run the question `checked`, which has one query over private rows; return its stored answer.

        - `planned`: the plan of the question (mechanism, noise and cost)
        - `running`: the state of the run, with its idempotency key and its engine slot (the right to read a table)
        - `payer`: the account, which is charged before the query waits for its slot
        """
        (part,) = checked.parts
        budget = checked.budget
        if isinstance(budget, Within):
            assert planned.total is not None, "an accuracy is bought with a budget of its own"
            budget = planned.total
        planned = planned.at_version(part.schema.version)
        reader = self._table_reader(checked, running, part.joins, part.derivation)
        with at_field("query"):
            reader.check(planned.aggregation)
        stored, _ = execute(
            planned,
            reader,
            payer,
            key=running.key,
            request=self._request_text(checked, part, budget),
            randomness=self._randomness,
            searches=self._searches,
            unit=checked.dataset.unit,
        )
        return stored

    def _answer_parts(
        self, checked: CheckedQuestion, planned: JointPlan, running: RunningQuery, payer: TimedAccount
    ) -> str:
        """Charge a SQL statement once, run all its SELECTs over private rows, and return the answer as JSON text.

        - `checked`: the question with the statement
        - `planned`: the plan of each SELECT (mechanism, noise and cost), and the cost of all of them together
        - `running`: the state of the run, with its idempotency key and its engine slot (the right to read a table)
        - `payer`: the account, which is charged before the query waits for its slot
        """
        statement, dataset = checked.statement, checked.dataset
        assert statement is not None, "only SQL has several queries over private rows"
        parts = []
        public = {name: read_arrow(table) for name, table in self._engines.public_tables(dataset, statement.public)}
        for part, plan in zip(checked.parts, planned.parts, strict=True):
            executable = plan.at_version(part.schema.version)
            with at_field("query"):
                self._table_reader(checked, running, part.joins, part.derivation).check(executable.aggregation)

            def reader(answers: Sequence[PrivateAnswer], part: CheckedPart = part) -> TableReader:
                derivation = statement.with_released(part.derivation, answers, public)
                return self._table_reader(checked, running, part.joins, derivation)

            parts.append(StatementPart(planned=executable, reader=reader))
        pairs = zip(checked.parts, planned.budgets, strict=True)
        texts = [self._request_text(checked, part, budget) for part, budget in pairs]
        stored, _ = execute_parts(
            parts,
            planned.plan,
            payer,
            key=running.key,
            request=statement.request_text(texts, self._versions(dataset)),
            randomness=self._randomness,
            searches=self._searches,
            unit=checked.dataset.unit,
        )
        return stored

    def _table_reader(
        self, checked: CheckedQuestion, running: RunningQuery, joins: tuple[Join, ...], derivation: Derivation
    ) -> TableReader:
        """Return a reader of the dataset's table, or of the table that SQL derives from it, for one question.

        - `checked` is the question, which names the dataset and the account that pays
        - `running` is the query; the reader reads while the query holds its engine slot (the right to read a table)
        - `joins` are the public tables (tables without users) that the SQL joins to the dataset's table
        - `derivation` has the steps by which the SQL computes new rows of each user, as in a subquery
        """
        account = checked.account.name
        return TableReader(
            self._engines, checked.dataset, running.timing, joins, derivation, account=account, results=self._results
        )

    def statement(self, job: Job) -> Statement | None:
        """Return the parsed SQL of the charged query `job`.

        The SQL is parsed for the table versions that the charge recorded, and for the day of the charge. Returns None
        if the query was not asked in SQL, if this release of the program refuses the SQL, or if a recorded version no
        longer exists.
        """
        request = json.loads(job.request)
        if request["query"]["kind"] != "sql":
            return None
        try:
            dataset = self._pin(self._datasets.get(request["dataset"]), request["account"], job.key)
            return self._statements.parse(SqlSelect.from_dict(request["query"]), dataset, utc_day(job.created_at))
        except (InvalidParameter, EngineFailed, UnsuitableTable):
            return None

    def _pin(self, dataset: Dataset, account: str, key: str | None) -> Dataset:
        """Return `dataset` with the versions to read added to the paths or URLs of its tables, as in `events@7`.

        The tables that have versions are lake tables (Delta, Iceberg) and objects in an object store. If `account` was
        charged under the idempotency `key`, the versions are those that the charge recorded, so that a retry reads the
        rows that were paid for. Otherwise they are the current versions.
        """
        current = self._engines.pin(dataset)
        if key is None or current == dataset:
            return current
        request = self._accounts.account(account).charged_request(key)
        versions = None if request is None else json.loads(request).get("versions")
        return current if versions is None else self._engines.pin(dataset, versions)

    def _request_text(self, checked: CheckedQuestion, part: CheckedPart, budget: Budget) -> str:
        """Return the canonical JSON text that the ledger stores for `part`, one query of the question `checked`.

        The ledger compares this text with that of a later request under the same idempotency key, and refuses the later
        request if it asks something else. `budget` is the budget that the query is charged with.
        """
        dataset = checked.dataset
        identity = TableIdentity(
            name=dataset.name,
            user=dataset.protected,
            sources={dataset.name: f"{dataset.engine} {dataset.table}"} | dict(dataset.public),
            joins=part.joins,
            versions=self._versions(dataset),
            derivation=str(part.derivation),
        )
        return request_text(identity, part.query, budget, part.schema, part.where)

    def _versions(self, dataset: Dataset) -> dict[str, str]:
        """Return the versions of lake tables and stored objects that `dataset` reads, by the names of the tables.

        For example: `{"events": "7"}`. Lake tables are Delta and Iceberg tables. `dataset` is the result of `_pin`,
        which has added a version to the path or URL of each of these tables, as in `events@7`.
        """
        registered = self._datasets.get(dataset.name)
        pinned = {dataset.name: dataset.table} | dict(dataset.public)
        plain = {registered.name: registered.table} | dict(registered.public)
        return {name: table.rpartition("@")[2] for name, table in pinned.items() if table != plain[name]}

    def stored_answer(self, job: Job, statement: Statement | None) -> StoredAnswer:
        """Return the stored answer of the query `job`, with its parsed SQL and the public tables that the SQL joins.

        Public tables are tables without users. `statement` is the parsed SQL, or None if the query was not asked in
        SQL. Public tables are read here, because the worker process that computes the rows can open no file.
        """
        assert job.answer is not None
        public: tuple[tuple[str, bytes], ...] = ()
        if statement is not None and statement.public:
            request = json.loads(job.request)
            dataset = self._pin(self._datasets.get(request["dataset"]), request["account"], job.key)
            public = self._engines.public_tables(dataset, statement.public)
        return StoredAnswer(text=job.answer, statement=statement, public=public)

    def render_rows(self, job: Job, renderers: WorkerPool) -> dict[str, str]:
        """Return the rows of the answer to the query `job`, asked in SQL, as a dict of JSON texts.

        - `columns`: the columns that the SQL selects
        - `rows`: the rows; left out if the query has no answer yet
        - `row_problem`: why the SQL that computes with the answer's noisy rows failed; left out if it did not fail
        - `row_notes`: sentences about the rows; left out if there are none

        The dict is empty if the query was not asked in SQL, or if its SQL cannot be parsed any more. The worker
        processes of `renderers` compute the texts of large answers.
        """
        with self._lock:
            remembered: dict[str, str] | None = self._rows.get(job.id)
        if remembered is not None:
            return remembered
        statement = self.statement(job)
        if statement is None:
            return {}
        if job.answer is None:
            return {"columns": json.dumps([asdict(output) for output in statement.outputs], ensure_ascii=False)}
        stored = self.stored_answer(job, statement)
        texts = make(WriteRows(stored), stored, renderers)
        with self._lock:
            self._rows.add(job.id, texts, sum(map(len, texts.values())))
        return texts

    def _check(
        self, identity: Identity, question: Question, key: str | None = None, day: date | None = None
    ) -> CheckedQuestion:
        """Return `question` with its account, its dataset and its checked queries; no row is read.

        `identity` is the person who asks, and `day` the value of CURRENT_DATE in SQL (None: today in UTC). If `key` was
        charged before, lake tables (Delta, Iceberg) are read at the versions of that charge, otherwise at the current
        versions. Raises `UnknownAccount`, `UnknownName`, `InvalidParameter`, `InvalidFilter` or `UnknownColumn`, with
        the name of the request field at fault.
        """
        with at_field("account"):
            account = self._accounts.own(identity, question.account)
        with at_field("dataset"):
            dataset = self._pin(self._datasets.of_account(account.terms, question.dataset), question.account, key)
        schema = self._engines.schema(dataset)
        allowed = AllowedColumns(dataset, schema)
        if isinstance(question.query, SqlSelect):
            with at_field("query"):
                statement = self._statements.parse(question.query, dataset, day or utc_day(None))
                budget = _budget_of(question, statement, account.terms)
                statement = statement.filled(finds_bounds=not isinstance(budget, Draws))
            parts = tuple(self._check_core(core, dataset, allowed) for core in statement.cores)
            return CheckedQuestion(dataset=dataset, account=account, budget=budget, parts=parts, statement=statement)
        with at_field("query"):
            budget = _budget_of(question, None, account.terms)
        # The noise of public groups can be told without a bound, so an accuracy is answered without a search.
        is_told = isinstance(budget, Within) and question.query.domain is not None
        finds_bounds = not isinstance(budget, Draws) and not is_told
        query, where = _bounded_and_checked(question.query, dataset, schema, allowed, finds_bounds=finds_bounds)
        part = CheckedPart(query=query, schema=schema, where=where)
        return CheckedQuestion(dataset=dataset, account=account, budget=budget, parts=(part,))

    def _check_core(self, core: Core, dataset: Dataset, allowed: AllowedColumns) -> CheckedPart:
        """Check and return the query of `core`, a SELECT in an SQL statement that aggregates private rows of `dataset`.

        `allowed` has the columns that the steward allows. If the steward does not allow the query's bounds or columns,
        raises `InvalidParameter`, `InvalidFilter` or `UnknownColumn` with the name of the request field at fault.
        """
        joins, derivation = core.source.joins, core.source.derivation
        schema = self._engines.schema(dataset, joins, derivation)
        query, where = _bounded_and_checked(core.query, dataset, schema, allowed, finds_bounds=False)
        return CheckedPart(query=query, schema=schema, where=where, joins=joins, derivation=derivation)

    def _preview(self, checked: CheckedQuestion, remaining: tuple[Use, ...]) -> Preview:
        """Return the preview of the question `checked`: its plan, and what its account lacks to pay for the plan.

        `remaining` is copied into the preview: what is left in the account, as guarantees with counts of mechanisms.
        """
        account = checked.account
        planned = payable_plan(
            checked.budget,
            lambda budget: self._plan(replace(checked, budget=budget)),
            lambda planned: account.shortage(planned.plan.uses) is None,
            account.status,
            lambda planned: planned.plan.uses,
        )
        uses = planned.plan.uses
        shortage = account.shortage(uses)
        lacks = None if shortage is None else with_suggestion(shortage, self._fitting_budget(checked, planned))
        warning = account.warning(uses) if shortage is None else None
        columns = [column for part in checked.parts for column in part.query.columns]
        plan = planned.plan.in_units(checked.dataset.unit, columns)
        return Preview(plan=plan, left=remaining, shortage=lacks, warning=warning)

    def _fitting_budget(self, checked: CheckedQuestion, planned: ExecutablePlan | JointPlan) -> BudgetSuggestion | None:
        """Return a suggestion of a budget that the account can pay, or None if no such budget is found.

        Its text is, for example: "it would fit with an epsilon of 0.4". The caller adds it to the error for
        `checked`, a question whose plan, `planned`, costs more than the account can pay. If only a small remainder of
        the account's epsilon would fit, the text says that the account is used up, and what to do. The result is also
        None if the question does not spend an (epsilon, delta), but guarantees that were registered when the account
        was opened.
        """
        account = checked.account
        total = planned.total if isinstance(checked.budget, Within) else checked.budget
        if not isinstance(total, Total):
            return None

        def fits(other: Total) -> bool:
            planned = self._workers.calculate(replace(checked, budget=other).to_plan())
            return account.shortage(planned.plan.uses) is None

        suggestion = suggest_budget(total, planned.plan.uses, account, fits, in_json=True)
        status = account.status()
        fitting = 0.0 if suggestion is None else float(suggestion.parameters.get("epsilon") or total.epsilon)
        is_little = fitting < status.epsilon.upper / _USED_UP and fitting < float(total.epsilon) / 2
        if is_little and status.share_left < 1 / _USED_UP:
            return BudgetSuggestion(_USED_UP_TEXT, {})
        return suggestion


def _bounded_and_checked(
    query: Query, dataset: Dataset, schema: Schema, allowed: AllowedColumns, *, finds_bounds: bool
) -> tuple[Query, Filter | None]:
    """Return `query` with the contribution bounds of `dataset`, and its parsed filter; all that is wrong is named.

    `schema` has the columns of the table that the query reads, and `allowed` those that the steward allows.
    `finds_bounds` says whether a private search may find in how many groups a user counts. Raises
    `InvalidParameter`, `InvalidFilter` or `UnknownColumn` with the name of the request field at fault.
    """

    def bounded() -> Query:
        with at_field("query"):
            return bounded_query(query, dataset, finds_bounds=finds_bounds)

    where, bounded_by_dataset = each_of(lambda: check_columns(query, schema, allowed), bounded)
    return bounded_by_dataset, where


_EXAMPLE_EPSILON = 0.5
"""The epsilon in an error that shows how a request states its budget."""


def _spend_example(terms: Terms) -> dict[str, object]:
    """Return the field `spend` of a request, as an example of what a question to an account with `terms` may spend."""
    if terms.kind != "setwise":
        return {"kind": "total", "epsilon": _EXAMPLE_EPSILON, "delta": default_delta(terms)}
    by_role = {drawn_for(use.guarantee): use.guarantee for use in reversed(terms.uses)}
    spend: dict[str, object] = {"kind": "draws"}
    spend |= {role: format_use(Use(by_role[role])) for role in ("discover", "counts") if role in by_role}
    threshold = by_role.get("threshold")
    return spend | ({"threshold_delta": threshold.delta} if isinstance(threshold, ApproxDP) else {})


def _budget_of(question: Question, statement: Statement | None, terms: Terms) -> AskedBudget:
    """Return the budget of a question, from the request or from the OPTIONS clause of its SQL `statement`.

    `statement` is None for a question that is not in SQL, and `terms` are those of the account that pays. A question in
    SQL that states an epsilon and no delta gets the account's default delta if its groups are private, and 0 if they
    are public. Raises `InvalidParameter` if neither the request nor the SQL states a budget, or if both do.
    """
    delta = default_delta(terms)
    with at_field("spend"):
        if statement is None or not statement.says_what_to_spend:
            if question.budget is None:
                example = json.dumps(_spend_example(terms))
                where = "" if statement is None else " in OPTIONS of the SQL, or"
                raise InvalidParameter(f'say what to spend{where} beside the query: "spend": {example}')
            if question.is_delta_open and statement is not None and not isinstance(question.budget, Draws):
                needed = Fraction(str(delta)) if statement.has_private_groups else Fraction(0)
                return replace(question.budget, delta=needed)
            return question.budget
        if question.budget is not None:
            raise InvalidParameter("what to spend is said twice, in OPTIONS and beside the SQL: say it once")
        return budget_of(statement.paid_by({}, delta))


@contextmanager
def _at_plan() -> Iterator[None]:
    """Context manager around the planning of a question: it adds to an error the name of the request field at fault.

    The field is `spend`, the question's budget, for `InvalidParameter` and `Unattainable`: the budget cannot be used,
    or the wanted accuracy cannot be reached. It is `query` for every other error.
    """
    with at_field("query"):
        try:
            yield
        except (InvalidParameter, Unattainable):
            with at_field("spend"):
                raise

"""Answers the SQL statements of one client of PostgreSQL's protocol, with their budgets, keys and SQLSTATE codes.

A statement passes the same checks, charges and limits as a question over REST, and is asked under an idempotency key: a
repeated statement with the same key gets its stored answer. As over REST, answers leave only at 1, 2, 4, ... times a
fixed number of seconds after the statement, which hides how long the engine read private rows.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from fastapi.exceptions import RequestValidationError

from setwise.accounting.promises import epsilon_at_delta
from setwise.errors import EngineFailed
from setwise.ledger.account import Account
from setwise.ledger.status import AccountStatus
from setwise.service.api.queries import parse_question, render_query
from setwise.service.auth.people import Identity
from setwise.service.postgres.notices import answer_notices, budget_left, in_sql, sentences_of
from setwise.service.postgres.replies import ReadSelect, Rejected
from setwise.service.postgres.selects import SelectTask, ShownTables, mentions_clock
from setwise.service.postgres.session import Answer, AskedBudget
from setwise.service.postgres.statements import as_question
from setwise.service.queries.jobs import JobState
from setwise.service.queries.parsed_statements import utc_day
from setwise.service.queries.runner import Question, RunningQuery
from setwise.service.replica import Service
from setwise.service.storage.datasets import Dataset
from setwise.service.workers.pool import WorkerPool

_CANCELLED = "canceling statement due to user request"
"""PostgreSQL's own message for a cancelled statement, by which drivers recognise it."""

_POLL_SECONDS = 0.1
"""Seconds between two polls of a query that is still running."""

_CLAUSE = re.compile(r"\bDIFFERENTIAL_PRIVACY\b", re.IGNORECASE)
_BUDGET = re.compile(r"\b(?:epsilon|within)\s*=", re.IGNORECASE)
"""Patterns of a statement that states its own budget in GoogleSQL's clause: the clause, and after it a budget.

They are searched one after the other, because one pattern for both takes quadratic time where the clause is repeated.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """What is known about one PostgreSQL connection after the sign-in.

    - `token`, `address`: the person's token, and the network address of the client
    - `account`, `dataset`: the account that pays for questions, and the dataset to which the account's questions go
    - `shown`: the names and columns of the tables that the client sees
    - `readers`: the worker processes that parse the client's SELECTs
    """

    token: str
    address: str
    account: Account
    dataset: Dataset
    shown: ShownTables
    readers: WorkerPool


class ServiceAsker:
    """Parses and answers the SQL statements of one PostgreSQL connection one by one, or says what they would cost.

    `connected` has what is known about the connection after the sign-in, such as the account that pays. `service` is
    the replica (process of the service) that runs the questions.
    """

    def __init__(self, service: Service, connected: Connected) -> None:
        self._service = service
        self._connected = connected
        self._running: RunningQuery | None = None
        self._cancelled = False

    async def read(self, sql: str) -> ReadSelect:
        """Parse the SELECT `sql`, and answer it if it reads only PostgreSQL's catalogue (system tables).

        For any other SELECT the result has no rows, because it must be asked as a question. Nothing is charged. The
        statement counts against the person's rate limit.
        Raises `Rejected` if the client cancels the statement, `InvalidParameter` if the catalogue cannot answer it, and
        `Unattainable` if it takes more time or memory than is allowed.
        """
        identity = await self._identity()
        self._service.authenticator.count_body(identity, len(sql))
        self._cancelled = False
        task, readers = SelectTask.of(self._connected.shown, sql), self._connected.readers
        return await readers.call(readers.calculate, task, check=self._raise_if_cancelled)

    async def ask(self, sql: str, budget: AskedBudget) -> Answer:
        """Ask the SQL statement `sql` as a question: charge the account, and return the answer's rows.

        `budget` has the epsilon and delta to spend if the statement states none, and the idempotency key of the
        question. If the key is None, a key is made from the statement (see `_key`). A repeated statement then gets its
        stored answer without a charge, for as many hours as a steward has set for the account (`fresh_hours`), unless
        the table is known to have changed.

        Raises `Rejected` if the statement is cancelled or fails, and a `SetwiseError` if the question is refused.
        """
        service = self._service
        identity = await self._identity(counted=False)
        question = await self._read(sql, budget)
        key = budget.key or await self._key(question)
        self._raise_if_cancelled()
        self._running = service.runner.start(identity, question, key)
        try:
            job = await service.runner.answered(self._running)
            while job.state is JobState.RUNNING:
                await asyncio.sleep(_POLL_SECONDS)
                job = await service.threads.run(service.jobs.get, job.id)
        except EngineFailed:
            if self._cancelled:
                raise Rejected("57014", _CANCELLED) from None
            raise
        finally:
            self._running = None
        if job.state is JobState.CANCELLED:
            raise Rejected("57014", _CANCELLED)
        if job.state is JobState.FAILED:
            assert job.problem is not None
            problem = json.loads(job.problem)
            raise Rejected(_CODE_OF_STATUS.get(problem["status"], "58000"), problem["detail"])
        status = await service.threads.run(self._connected.account.status)
        return await service.rendering.run(lambda: _answer(json.loads(render_query(service, job)), status))

    async def explain(self, sql: str, budget: AskedBudget) -> Sequence[str]:
        """Return the preview of the SQL statement `sql` (cost, accuracy, remaining budget) as sentences.

        `budget` has the epsilon and delta that the preview assumes if the statement states none. Nothing is charged.
        """
        identity = await self._identity()
        question = await self._read(sql, budget)
        preview = await self._service.questions.preview(identity, question, self._service.threads)
        plan = preview.plan
        status = await self._service.threads.run(self._connected.account.status)
        texts = [
            f"cost: {epsilon_at_delta(plan.epsilon.upper, plan.delta, 3)}",
            f"accuracy: {plan.why}",
            budget_left(status),
            f"too little is left: {preview.shortage}" if preview.shortage else "",
            f"warning: {preview.warning}" if preview.warning else "",
        ]
        return [line for text in texts for line in sentences_of(in_sql(text))]

    async def cancel(self) -> None:
        """Cancel the question or the query of PostgreSQL's catalogue that this connection runs, if there is one."""
        self._cancelled = True
        if self._running is not None:
            await self._service.runner.cancel_running(self._running)

    def _raise_if_cancelled(self) -> None:
        """Raise `Rejected` if the client has cancelled the statement that is running."""
        if self._cancelled:
            raise Rejected("57014", _CANCELLED)

    async def _identity(self, *, counted: bool = True) -> Identity:
        """Return the identity of the connection's person, looked up by the connection's token at each call.

        A token that was revoked after the connection was opened is therefore refused with `NotSignedIn`. If `counted`,
        the call counts as one request against the person's rate limit.
        """
        connected, authenticator = self._connected, self._service.authenticator
        return await authenticator.identify_token(connected.token, connected.address, counted=counted)

    async def _read(self, sql: str, budget: AskedBudget) -> Question:
        """Return the SQL statement `sql` as a question to the connection's dataset, to be paid by its account.

        If the statement states no budget, the question gets the epsilon and delta of `budget` (the session's settings).
        Where these are None, it gets the account's defaults. Raises `Rejected` if the statement cannot be asked.
        """
        connected = self._connected
        text = as_question(sql)
        body: dict[str, object] = {
            "dataset": connected.dataset.name,
            "account": connected.account.name,
            "query": {"kind": "sql", "text": text},
        }
        clause = _CLAUSE.search(sql)
        if clause is None or _BUDGET.search(sql, clause.end()) is None:
            question_budget = await self._service.threads.run(self._service.question_budgets.of, connected.account.name)
            body["spend"] = {
                "kind": "total",
                "epsilon": question_budget.epsilon if budget.epsilon is None else budget.epsilon,
                "delta": question_budget.delta if budget.delta is None else budget.delta,
            }
        try:
            return parse_question(json.dumps(body))
        except RequestValidationError as error:
            raise Rejected("22023", f"this statement cannot be asked: {error.errors()[0]['msg']}") from None

    async def _key(self, question: Question) -> str:
        """Return the idempotency key under which a question of a PostgreSQL client is asked.

        The question gets the same key again if its text, its budget and the version of the table are the same, for at
        most `fresh_hours` hours after it was first asked (a steward sets this number for the account). The service sees
        no versions of a table on a server, so that such a table counts as unchanged. Asking again under the same key
        returns the stored answer and charges nothing.
        """
        service, account = self._service, self._connected.account.name
        question_budget = await service.threads.run(service.question_budgets.of, account)
        version = await service.threads.run(service.engines.version, self._connected.dataset)
        now, seconds = service.authenticator.now(), 3600.0 * question_budget.fresh_hours
        period, day = int(now // seconds), utc_day(now)
        earlier = _key_of(question, version, period - 1, day)
        asked_at = await service.threads.run(partial(service.jobs.asked_at, account=account, key=earlier))
        is_fresh = asked_at is not None and now - asked_at < seconds
        return earlier if is_fresh else _key_of(question, version, period, day)


def _key_of(question: Question, version: object, period: int, day: date) -> str:
    """Return the idempotency key of `question`: a hash of its text, the table's `version` and the number `period`.

    The time since 1970 is divided into spans of `fresh_hours` hours, the time for which stored answers are repeated.
    `period` is the number of a span: of the present one or, while an answer from the span before is fresh, of that one.
    In a later span, the same question gets another key, and is asked anew. The key of a question that names the current
    date or time also changes with the `day`, because yesterday's answer is about other rows.
    """
    parts = [question.text, version, period]
    if mentions_clock(question.text):
        parts.append(day.isoformat())
    return f"pg:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]}"


def _answer(record: dict[str, object], status: AccountStatus) -> Answer:
    """Return an answered query as columns and rows, with notices of its guarantee, its accuracy and what is left.

    `record` is the query's JSON record as the API returns it, and `status` the status of its account.
    """
    rows = record["rows"]
    columns = record["columns"]
    assert isinstance(rows, list)
    assert isinstance(columns, list)
    names = tuple(column["name"] for column in columns)
    return Answer(columns=names, rows=rows, notices=answer_notices(record, status))


_CODE_OF_STATUS = {402: "53400", 404: "42P01", 409: "23505", 422: "22023", 429: "53300", 503: "58030"}

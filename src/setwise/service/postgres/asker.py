"""Asks questions of the service for one connection: the same checks, charges, padding and limits as over REST."""

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi.exceptions import RequestValidationError

from setwise.accounting.notation import promise_in_words, rounded_down, rounded_up
from setwise.analytics.schema import Schema
from setwise.errors import EngineFailed, Forbidden, NotSignedIn, UnknownAccount
from setwise.ledger.account import Account
from setwise.ledger.status import AccountStatus
from setwise.service.api.queries import ReadQuestion, render_query, start_query
from setwise.service.auth.people import Identity
from setwise.service.postgres.catalogue import Catalogue
from setwise.service.postgres.session import Answer, AskedBudget, Rejected, Session
from setwise.service.postgres.values import TYPE_OF_KIND
from setwise.service.queries.jobs import JobState
from setwise.service.queries.runner import RunningQuery
from setwise.service.replica import Service
from setwise.service.storage.datasets import Dataset

_CANCELLED = "canceling statement due to user request"
"""PostgreSQL's own words, by which drivers know a cancelled statement."""

_POLL_SECONDS = 0.1
"""Between two looks at a query that still runs."""

_OWN_BUDGET = re.compile(r"\bDIFFERENTIAL_PRIVACY\b.*?\b(?:epsilon|within)\s*=", re.IGNORECASE | re.DOTALL)
"""A statement that says its own budget in GoogleSQL's clause."""

_SCHEMA = re.compile(r"""('(?:[^']|'')*')|(?:"public"|\bpublic)\s*\.\s*(?=["\w])""", re.IGNORECASE)
"""The schema `public` before a table, which tools write; text in quotes is left as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """Who is connected to what: the person's token, the account that pays, and the data set it is for."""

    token: str
    address: str
    account: Account
    dataset: Dataset


class ServiceAsker:
    """Asks for one connection; one question runs at a time."""

    def __init__(self, service: Service, connected: Connected) -> None:
        self._service = service
        self._connected = connected
        self._running: RunningQuery | None = None
        self._cancelled = False

    async def ask(self, sql: str, budget: AskedBudget) -> Answer:
        """Charge, answer and return; the same statement on the same version of the table replays its stored answer."""
        service = self._service
        identity = await self._identity()
        read = await self._read(sql, budget)
        key = budget.key or await self._key(read)
        self._cancelled = False
        self._running = start_query(service, identity, read, key)
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
        shown = json.loads(await service.rendering.run(render_query, service, job))
        status = await service.threads.run(self._connected.account.status)
        return _answer(shown, status)

    async def explain(self, sql: str, budget: AskedBudget) -> Sequence[str]:
        """Return the preview of a question as lines of text; nothing is charged."""
        identity = await self._identity()
        read = await self._read(sql, budget)
        plan, _ = await self._service.questions.preview(identity, read.question, self._service.threads)
        status = await self._service.threads.run(self._connected.account.status)
        shortage = await self._service.threads.run(self._connected.account.shortage, plan.uses)
        lines = [
            f"cost: epsilon {rounded_up(plan.epsilon.upper, 3)} at delta {rounded_up(plan.delta, 3)}",
            f"accuracy: {plan.why}",
            _budget_left(status),
        ]
        return [*lines, f"too little is left: {shortage}"] if shortage else lines

    async def cancel(self) -> None:
        """Stop the question that runs, if one does."""
        self._cancelled = True
        if self._running is not None:
            await self._service.runner.cancel_running(self._running)

    async def _identity(self) -> Identity:
        """Return who asks, looked up again: a token that was revoked meanwhile asks no further question."""
        connected = self._connected
        return await self._service.authenticator.identify_token(connected.token, connected.address)

    async def _read(self, sql: str, budget: AskedBudget) -> ReadQuestion:
        connected = self._connected
        text = _SCHEMA.sub(lambda found: found[1] or "", sql)
        body: dict[str, object] = {
            "dataset": connected.dataset.name,
            "account": connected.account.name,
            "query": {"kind": "sql", "text": text},
        }
        if not _OWN_BUDGET.search(sql):
            default = await self._service.threads.run(self._service.question_budgets.of, connected.account.name)
            body["spend"] = {
                "kind": "total",
                "epsilon": default.epsilon if budget.epsilon is None else budget.epsilon,
                "delta": default.delta if budget.delta is None else budget.delta,
            }
        try:
            return ReadQuestion.parse(json.dumps(body))
        except RequestValidationError as error:
            raise Rejected("22023", f"this statement cannot be asked: {error.errors()[0]['msg']}") from None

    async def _key(self, read: ReadQuestion) -> str:
        """Return the key of a statement: the same for the same text and budget on one version of the table.

        A version lasts until a file of the table changes, and no longer than the steward's `fresh_hours`.
        """
        service, connected = self._service, self._connected
        default = await service.threads.run(service.question_budgets.of, connected.account.name)
        version = await service.threads.run(service.engines.version, connected.dataset)
        window = int(time.time() // (3600.0 * default.fresh_hours))
        parts = json.dumps([read.text, version, window])
        return f"pg:{hashlib.sha256(parts.encode()).hexdigest()[:40]}"


async def open_session(service: Service, user: str, database: str, password: str, address: str) -> Session:
    """Return the session of a person on an account: the user is the person, the password a token of theirs.

    Raises: `NotSignedIn` for a token that is not the person's, and `UnknownAccount` for an account that is not theirs.
    """
    identity = await service.authenticator.identify_token(password, address)
    if identity.person.name != user:
        raise NotSignedIn("the token is another person's")
    if identity.is_monitor:
        raise Forbidden("a monitor reads the metrics and nothing else")
    account = await service.threads.run(service.accounts.own, identity, database)
    if account.terms.dataset is None:
        raise UnknownAccount(f"the account {database!r} is not on a data set")
    dataset = await service.threads.run(service.datasets.get, account.terms.dataset)
    tables = await service.threads.run(_tables, service, dataset)
    connected = Connected(token=password, address=address, account=account, dataset=dataset)
    return Session(
        asker=ServiceAsker(service, connected),
        catalogue=Catalogue(database, user, tables),
        user_column=dataset.user,
    )


def _tables(service: Service, dataset: Dataset) -> dict[str, list[tuple[str, int]]]:
    """Return the tables of the catalogue: the data set with the columns that may be asked, and its public tables."""
    schema = service.engines.schema(dataset)
    found = {dataset.name: _columns(schema, dataset.columns)}
    for name, public in service.engines.public_schemas(dataset).items():
        found[name] = _columns(public, public.names)
    return found


def _columns(schema: Schema, names: Sequence[str]) -> list[tuple[str, int]]:
    return [(name, TYPE_OF_KIND[schema.column(name).kind]) for name in names]


def _answer(shown: dict[str, object], status: AccountStatus) -> Answer:
    """Return the rows of a query, with the promise and the remaining budget as notices."""
    answer = shown["answer"]
    assert isinstance(answer, dict)
    rows = shown["rows"]
    columns = shown["columns"]
    assert isinstance(rows, list)
    assert isinstance(columns, list)
    notices = [
        promise_in_words(answer["epsilon"]["upper"], answer["delta"]),
        *filter(None, [answer.get("left_out", "")]),
        _budget_left(status),
    ]
    names = tuple(column["name"] if isinstance(column, dict) else str(column) for column in columns)
    return Answer(columns=names, rows=rows, notices=tuple(notices))


def _budget_left(status: AccountStatus) -> str:
    total = rounded_up(status.epsilon.upper, 3)
    left = rounded_down(status.share_left * status.epsilon.upper, 2)
    return f"Budget: about epsilon {left} of {total} is left in the account {status.name}."


_CODE_OF_STATUS = {402: "53400", 404: "42P01", 409: "23505", 422: "22023", 429: "53300", 503: "58030"}

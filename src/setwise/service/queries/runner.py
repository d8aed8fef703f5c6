"""Runs queries in threads: how many at once, deadlines (timeouts), heartbeats, cancellation, and padded times.

If a query has read data, an analyst sees it end only at a padded time: 1, 2, 4, ... times a fixed number of seconds
after the request (`QueryTiming`). The time at which the engine finishes would reveal something about private rows.
"""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

from setwise.analytics.budget import AskedBudget
from setwise.analytics.engines.base import Engine
from setwise.analytics.execute import padded
from setwise.analytics.query import Query
from setwise.errors import EngineFailed, KeyConflict, SetwiseError, StoreFailed, TooManyRequests
from setwise.mechanisms.labels import Label
from setwise.service.auth.people import Identity
from setwise.service.problems import Problem, defect, log_store_failure, problem_of
from setwise.service.queries.jobs import Job, Jobs, JobState, Progress
from setwise.service.settings import Settings
from setwise.service.slots import FairSlots, Threads
from setwise.service.telemetry import Metrics

CANCELLED = "the query was cancelled; ask again under the same key to run it at no further charge"
_LEAVING = "the replica is shutting down; ask again under the same key"
_LARGE_REQUEST = 64 * 1024
"""Characters of a request above which its query reads data only while no other such query does.

An answer with as many items as such a request has labels holds the interpreter for a second, in steps of up to 60 ms.
Two such answers at once would double the time that every other request waits.
"""

_LOOK_AGAIN = 0.1
"""Seconds between two checks whether a query has ended, or whether a query that waits for a slot was cancelled."""


class EngineSlots(Protocol):
    """The engine slots of a replica (one process of the service), as one query acquires and releases them.

    An engine slot is the right of one query to read a table; a replica has only a few.
    """

    def acquire(self, *, timeout: float) -> bool:
        """Wait up to `timeout` seconds for an engine slot (the right to read a table); return whether one was free."""
        ...

    def release(self) -> None:
        """Release the engine slot (the right to read a table) that the query holds."""
        ...


class BothSlots:
    """Two kinds of engine slots (rights to read a table) used as one: a query acquires a slot of each kind, or none.

    A query with a large request needs such a pair: a slot that every query needs, and the only slot for large requests
    in this process. The slot of `first` is acquired before the slot of `second`.
    """

    def __init__(self, first: EngineSlots, second: EngineSlots) -> None:
        self._first = first
        self._second = second

    def acquire(self, *, timeout: float) -> bool:
        """Wait for an engine slot of each kind, at most `timeout` seconds for each; return whether both were acquired.

        An engine slot is the right of one query to read a table. If the second slot is not free in time, the first is
        released again.
        """
        if not self._first.acquire(timeout=timeout):
            return False
        if not self._second.acquire(timeout=timeout):
            self._first.release()
            return False
        return True

    def release(self) -> None:
        """Release both engine slots (rights to read a table) that the query holds."""
        self._second.release()
        self._first.release()


class QueryTiming:
    """The engine slot, the deadline and the cancellation of one query.

    - `slots`: the slots for reading tables, of which the query takes one; an engine slot is the right to read a table
    - `seconds`: the longest time for which the query may hold its slot
    - `step`: the query's answer, refund or failure is held back until 1, 2, 4, ... times this many seconds after the
      request, because the time at which the engine finishes reveals something about private rows
    - `monotonic`, `sleep`: the clock, which returns seconds, and the function that waits for a number of seconds
    """

    def __init__(
        self,
        slots: EngineSlots,
        *,
        step: float,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slots = slots
        self._step = step
        self._seconds = seconds
        self._monotonic = monotonic
        self._sleep = sleep
        self._requested = monotonic()
        self._began: float | None = None
        self._has_read = False
        self._engine: Engine | None = None
        self._stop: str | None = None
        self._lock = threading.Lock()
        self.progress = Progress.WAITING

    @contextmanager
    def using(self, engine: Engine) -> Iterator[None]:
        """Context manager: while its `with` block runs, `stop` also cancels what `engine` is running.

        An engine is a connection that reads a table. Use it in the block to run a statement for this query. After the
        block, the engine may serve another query, and is no longer cancelled. Raises `EngineFailed` if this query was
        stopped before.
        """
        with self._lock:
            self._engine = engine
        try:
            self.raise_if_cancelled()
            yield
        finally:
            with self._lock:
                self._engine = None

    def stop(self, reason: str) -> None:
        """Stop the query; may be called from any thread.

        The query then raises `EngineFailed` with the message `reason`, whether it waits or reads the table. If it is
        stopped twice, the first reason stays.
        """
        with self._lock:
            self._stop = self._stop or reason
            if self._engine is not None and self._began is not None:
                self._engine.cancel()  # under the lock, so that the engine is not lent to another query meanwhile

    @property
    def stopped(self) -> str | None:
        """The error message with which the query was stopped, or None if it was not stopped."""
        return self._stop

    @property
    def is_reading(self) -> bool:
        """Whether the query holds an engine slot (the right to read a table), and so may be reading data."""
        return self._began is not None

    @property
    def is_overdue(self) -> bool:
        """Whether the query has held its engine slot for longer than the time limit of queries.

        An engine slot is the right of one query to read a table.
        """
        began = self._began
        return began is not None and self._monotonic() - began > self._seconds

    def acquire_slot(self) -> None:
        """Block until an engine slot (the right to read a table) is free, then start the query's time limit.

        Raises `EngineFailed` if the query was cancelled while it waited.
        """
        self.progress = Progress.CHARGED
        while not self._slots.acquire(timeout=_LOOK_AGAIN):
            self.raise_if_cancelled()
        with self._lock:
            self._began = self._monotonic()
        self._has_read = True
        self.progress = Progress.READING
        self.raise_if_cancelled()

    def release_slot(self) -> None:
        """Release the engine slot (the right to read a table); does nothing if it was released before.

        The query's `progress`, which callers can see, stays at the value for reading. Otherwise a caller could see when
        the engine finished, and that time depends on private rows.
        """
        with self._lock:
            had_slot, self._began = self._began is not None, None
        if had_slot:
            self._slots.release()

    def wait_for_padded_time(self) -> None:
        """Release the engine slot (the right to read a table) and, if data was read, sleep until the next padded time.

        Padded times are 1, 2, 4, 8, ... times a fixed number of seconds (`step`) after the request. Answers and
        failures both leave at a padded time, so that an analyst learns only between which two padded times the engine
        finished.
        """
        self.release_slot()
        if self._has_read:
            self._has_read = False
            elapsed = self._monotonic() - self._requested
            remaining = padded(elapsed, self._step) - elapsed
            if remaining > 0.0:
                self._sleep(remaining)

    def raise_if_cancelled(self) -> None:
        """Raise `EngineFailed` if the query was stopped, even if its table has been read already.

        The time at which reading ends reveals something about the rows. If a query could not be stopped after that
        time, an analyst would learn the time by trying to stop the query.
        """
        # Also called after the wait for a padded time. If a query could not be stopped once the engine has finished,
        # stopping and repeating it under one charge would reveal when the engine finishes.
        if self._stop is not None:
            raise EngineFailed(self._stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSelect:
    """A question in SQL as a request states it: the text of one SELECT, a contribution bound and public groups.

    - `contributions`: the most groups in which one user counts; "auto" spends a part of the epsilon on finding a good
      bound. None takes the bound that the SQL states. If the SQL states none, the bound of the dataset is taken; for
      private groups, a part of the epsilon may then be spent on finding a smaller bound
    - `domain`: the public groups; None takes the groups that the dataset declares. If it declares none, groups are
      private: noise decides which of them are shown
    """

    text: str
    contributions: int | Literal["auto"] | None = None
    domain: tuple[Label, ...] | None = None

    @staticmethod
    def from_dict(words: Mapping[str, Any]) -> "SqlSelect":
        """Return the SQL question in `words`, the JSON object under `query` in a request of kind "sql"."""
        domain = words.get("domain")
        labels = None if domain is None else tuple(tuple(each) if isinstance(each, list) else each for each in domain)
        return SqlSelect(text=words["text"], contributions=words.get("contributions"), domain=labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as a request body states it.

    - `query`: what is asked about the dataset `dataset`
    - `account`: the account that pays
    - `budget`: what the question may spend, or None if the SQL states its own budget
    - `text`: the request body as JSON, without the fields that the caller left out; everybody who may see the query
      sees this text
    - `is_delta_open`: True if the request of a question in SQL has an epsilon and no delta. The delta then follows from
      the SQL: it is 0 if the groups are public, and a default above 0 if they are private
    """

    dataset: str
    account: str
    query: Query | SqlSelect
    budget: AskedBudget | None
    text: str
    is_delta_open: bool = False


class RunsElsewhere(Exception):
    """Raised for a query that this request need not run: it was answered before, or another replica is running it.

    A replica is one process of the service.
    """


@dataclass(eq=False, slots=True, kw_only=True)
class RunningQuery:
    """One query from its request to its answer, as this process of the service runs it.

    - `identity`: the person who asked the `question` under the idempotency `key`
    - `timing`: the query's engine slot (the right to read a table), its deadline, its cancellation, and the times at
      which its answer may leave
    - `jobs`: the store of charged queries
    - `job`: the query's row in that store, or None until the query is charged
    - `task`: a future that is done when the query has ended, and then has the query's row or its error
    """

    identity: Identity
    question: Question
    key: str
    timing: QueryTiming
    jobs: Jobs = field(repr=False)
    job: Job | None = None
    task: "asyncio.Future[Job] | None" = None

    @property
    def place(self) -> tuple[str, str, str]:
        """The triple that identifies the query: (name of the person, name of the account, idempotency key)."""
        return self.identity.person.name, self.question.account, self.key

    def resume(self, earlier: Job | None) -> None:
        """Claim a query that was charged before, so that this replica (process of the service) runs it again.

        This is done for a query that failed, was cancelled or lost its replica. `earlier` is the row of the query as it
        was read at the start of this request; if it is None, the query was not charged before, and nothing is done.

        Raises: `RunsElsewhere` if the query was answered or another replica runs it, and `KeyConflict` if the query's
        idempotency key was used for another request.
        """
        if earlier is None:
            return
        self.job, is_ours = self.jobs.resume(earlier, request=self.question.text)
        if not is_ours:
            raise RunsElsewhere

    def record_charge(self) -> None:
        """Insert the row of the query, which was charged just now; does nothing if the query has a row.

        Raises `RunsElsewhere` if another replica (process of the service) has inserted the row first, and runs or has
        answered the query. Raises `KeyConflict` if that row is about another request.
        """
        if self.job is None:
            person, account, key = self.place
            self.job, is_ours = self.jobs.begin(person=person, account=account, key=key, request=self.question.text)
            if not is_ours:
                raise RunsElsewhere


class Runner:
    """The queries that this replica (one process of the service) runs, and the methods to start, await and stop them.

    - `answer`: the function that checks, plans, charges and runs a query, and returns the stored answer as text
    - `jobs`: the store of charged queries
    - `metrics`: the counters of how queries end
    - `store`: the threads for short work with the database
    - `slots`: the replica's engine slots (rights to read a table)
    - `settings`: have the limits on the number of queries and on their time
    """

    def __init__(
        self,
        answer: Callable[[RunningQuery], str],
        jobs: Jobs,
        metrics: Metrics,
        store: Threads,
        slots: FairSlots,
        settings: Settings,
    ) -> None:
        self._answer = answer
        self._jobs = jobs
        self._metrics = metrics
        self._store = store
        self._settings = settings
        self._threads = ThreadPoolExecutor(settings.waiting, thread_name_prefix="setwise-query")
        self._slots = slots
        self._large_slots = FairSlots(1)
        self._most_each = max(1, settings.waiting // 2)
        self._running: dict[tuple[str, str, str], RunningQuery] = {}
        self._closing = False

    def start(self, identity: Identity, question: Question, key: str) -> RunningQuery:
        """Start a query for `question`, asked by the person of `identity` under the idempotency `key`, and return it.

        If this process already runs a query of the same person, account and key, that query is returned. Raises
        `KeyConflict` if that query has a different request, and `TooManyRequests` if too many queries wait or run in
        this process, in all or for the person.
        """
        person = identity.person.name
        place = (person, question.account, key)
        if (running := self._running.get(place)) is not None:
            if running.question.text != question.text:
                raise KeyConflict.used_before(key, question.account)
            return running
        if len(self._running) >= self._settings.waiting:
            raise TooManyRequests("too many queries are waiting; try again in 1 s")
        if sum(owner == person for owner, _, _ in self._running) >= self._most_each:
            raise TooManyRequests("too many of your queries are waiting; try again in 1 s")
        slots: EngineSlots = self._slots.of(person)
        if len(question.text) > _LARGE_REQUEST:
            slots = BothSlots(self._large_slots.of(person), slots)
        timing = QueryTiming(slots, step=self._settings.answer_step, seconds=self._settings.query_seconds)
        if self._closing:
            timing.stop(_LEAVING)
        running = RunningQuery(identity=identity, question=question, key=key, timing=timing, jobs=self._jobs)
        run = partial(copy_context().run, self._run, running)
        running.task = asyncio.get_running_loop().run_in_executor(self._threads, run)
        running.task.add_done_callback(lambda task: self._forget_ended(place, task))
        self._running[place] = running
        self._metrics.running.set(len(self._running))
        return running

    async def answered(self, running: RunningQuery) -> Job:
        """Wait until the query `running` has ended, and return its database row (`Job`).

        The wait ends after `wait_seconds`, a setting: if the query still runs then, its row is returned as it is, so
        that the caller can poll. A query that is not charged yet has no row; then the wait goes on until the query is
        charged or refused. Raises the error of a refused query.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.wait_seconds
        assert running.task is not None
        await asyncio.wait([running.task], timeout=self._settings.wait_seconds)
        # A query that is not charged yet has no id that could be polled.
        while not running.task.done():
            if running.job is not None and running.job.state is JobState.RUNNING:
                return replace(running.job, progress=running.timing.progress)
            await asyncio.wait([running.task], timeout=_LOOK_AGAIN)
        job = await asyncio.shield(running.task)
        while job.state is JobState.RUNNING and loop.time() < until:  # on another replica
            await asyncio.sleep(_LOOK_AGAIN)
            job = await self._store.run(self._jobs.get, job.id)
        return job

    async def cancel(self, id_: str) -> None:
        """Stop the query with the id `id_` if this replica (process of the service) runs it; otherwise do nothing."""
        for running in list(self._running.values()):
            if running.job is not None and running.job.id == id_:
                await self._stop(running, CANCELLED)

    async def cancel_running(self, running: RunningQuery) -> None:
        """Stop the query `running`, which runs in this process, whether or not it was charged yet."""
        await self._stop(running, CANCELLED)

    async def beat(self) -> None:
        """Record regularly in the database that this replica still runs its queries (heartbeats); never returns.

        A replica is one process of the service. A query that misses ten heartbeats counts as abandoned, so that another
        replica may run it. Each round also stops queries that exceed their time limit, and queries that somebody has
        cancelled through another replica.
        """
        while True:
            await asyncio.sleep(self._settings.heartbeat_seconds)
            self._metrics.reading.set(sum(running.timing.is_reading for running in self._running.values()))
            for running in list(self._running.values()):
                if running.timing.is_overdue:
                    await self._stop(running, _overdue_message(self._settings.query_seconds))
            charged = [(running.job, running.timing) for running in self._running.values()]
            progress = {job.id: timing.progress for job, timing in charged if job is not None}
            if progress:
                with contextlib.suppress(StoreFailed):  # requests report it; the next heartbeat may reach the database
                    for id_ in await self._store.run(self._jobs.beat, progress):
                        await self.cancel(id_)

    async def close(self) -> None:
        """Stop every query that this replica (process of the service) runs, and wait until all of them have ended."""
        self._closing = True
        queries = list(self._running.values())
        for running in queries:
            await self._stop(running, _LEAVING)
        await asyncio.gather(*(running.task for running in queries if running.task is not None), return_exceptions=True)
        self._threads.shutdown(wait=True)

    async def _stop(self, running: RunningQuery, reason: str) -> None:
        """Stop the query `running`, which then fails with the message `reason`.

        A thread stops the query, because cancelling its engine may take a moment.
        """
        await self._store.run(running.timing.stop, reason)  # cancelling an engine may take a moment

    def _forget_ended(self, place: tuple[str, str, str], task: "asyncio.Future[Job]") -> None:
        """Remove an ended query from the running ones, and count how it ended (done, failed, cancelled or refused).

        `place` identifies the query: (name of the person, name of the account, idempotency key). `task` has its result
        or its error.
        """
        del self._running[place]
        self._metrics.running.set(len(self._running))
        if task.cancelled() or task.exception() is not None:  # the request raises it
            self._metrics.query("refused")
        elif (state := task.result().state) is not JobState.RUNNING:
            self._metrics.query(str(state))

    def _run(self, running: RunningQuery) -> Job:
        """Run the query `running` to its end, and return its row in the database.

        Raises the error of a query that was refused before its charge; an error after the charge is recorded in the
        row.
        """
        timing = running.timing
        try:
            answer = self._answer(running)
        except RunsElsewhere:
            assert running.job is not None
            return running.job
        except Exception as error:
            timing.wait_for_padded_time()
            reported = EngineFailed(timing.stopped) if timing.stopped and isinstance(error, SetwiseError) else error
            if running.job is None:
                raise reported from None
            state = JobState.CANCELLED if timing.stopped == CANCELLED else JobState.FAILED
            return self._jobs.stopped(running.job, state, json.dumps(_problem(reported).document()))
        assert running.job is not None
        return self._jobs.done(running.job, answer)


def _problem(error: Exception) -> Problem:
    """Return the problem document for `error`, with which a query failed after its charge.

    Also logs details of the error for the operator.
    """
    if not isinstance(error, SetwiseError):
        return defect(error)
    if isinstance(error, StoreFailed):
        log_store_failure(error)
    return problem_of(error)


def _overdue_message(seconds: float) -> str:
    """Return the error message for a query that was stopped because it took longer than `seconds`."""
    return f"the query took longer than {seconds:g} s and was stopped; narrow it, or ask a steward to prepare the table"

"""Runs queries beside the event loop: a bounded number at once, with a heartbeat, a time limit and cancelling.

What an analyst can see of a query that touched data happens at padded moments (`QueryTiming`).
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
from typing import Protocol

from setwise.analytics.budget import AskedBudget
from setwise.analytics.engines.base import Engine
from setwise.analytics.execute import padded
from setwise.errors import EngineFailed, KeyConflict, SetwiseError, StoreFailed, TooManyRequests
from setwise.service.auth.people import Identity
from setwise.service.problems import Problem, defect, log_store_failure, problem_of
from setwise.service.queries.jobs import Job, Jobs, JobState, Progress
from setwise.service.settings import Settings
from setwise.service.shares import FairSlots, Threads
from setwise.service.telemetry import Metrics

CANCELLED = "the query was cancelled; ask again under the same key to run it at no further charge"
_LEAVING = "the replica is shutting down; ask again under the same key"
_LARGE_REQUEST = 64 * 1024
"""Characters of a request beyond which queries read one at a time.

An answer with as many items as such a request has labels takes a second of the interpreter, in steps of up to 60 ms in
which nothing else runs. Two of them at once would double the wait of every other request.
"""

_LOOK_AGAIN = 0.1
"""Seconds between two looks at a query that has not ended yet, or at whether one that waits for its turn is to stop."""


class EngineSlots(Protocol):
    """The slots in which queries read tables, as one query waits for one and gives it back."""

    def acquire(self, *, timeout: float) -> bool:
        """Wait for a slot for at most `timeout` seconds; return whether there was one."""
        ...

    def release(self) -> None:
        """Give the slot back."""
        ...


class BothSlots:
    """Two kinds of slots of which a query needs one each."""

    def __init__(self, first: EngineSlots, second: EngineSlots) -> None:
        self._first = first
        self._second = second

    def acquire(self, *, timeout: float) -> bool:
        """Wait for a slot of each kind for at most `timeout` seconds each; hold both or none."""
        if not self._first.acquire(timeout=timeout):
            return False
        if not self._second.acquire(timeout=timeout):
            self._first.release()
            return False
        return True

    def release(self) -> None:
        """Give both back."""
        self._second.release()
        self._first.release()


class QueryTiming:
    """Holds a query back until an engine is free, and its end until a padded moment after it was request.

    What an analyst can see of a query that touched data (its answer, the draws given back, its failure) happens at
    padded moments only.
    """

    def __init__(
        self,
        turns: EngineSlots,
        *,
        step: float,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._turns = turns
        self._step = step
        self._seconds = seconds
        self._monotonic = monotonic
        self._sleep = sleep
        self._asked = monotonic()
        self._began: float | None = None
        self._touched = False
        self._engine: Engine | None = None
        self._stop: str | None = None
        self._lock = threading.Lock()
        self.progress = Progress.WAITING

    @contextmanager
    def using(self, engine: Engine) -> Iterator[None]:
        """Have stopping the query stop this engine, until it is given back: then it may serve another query."""
        with self._lock:
            self._engine = engine
        try:
            self.raise_if_cancelled()
            yield
        finally:
            with self._lock:
                self._engine = None

    def stop(self, reason: str) -> None:
        """Stop the query, from any thread: while it waits, in the engine, or until its padded moment."""
        with self._lock:
            self._stop = self._stop or reason
            if self._engine is not None and self._began is not None:
                self._engine.cancel()  # under the lock, so that the engine is not given back meanwhile

    @property
    def stopped(self) -> str | None:
        """Why the query was stopped, or None."""
        return self._stop

    @property
    def is_reading(self) -> bool:
        """Whether the query has its turn with the engine."""
        return self._began is not None

    @property
    def is_overdue(self) -> bool:
        """Whether the query has had its engine for longer than it may."""
        began = self._began
        return began is not None and self._monotonic() - began > self._seconds

    def acquire_slot(self) -> None:
        """Block until an engine slot is free, then start the deadline clock.

        Raises `EngineFailed` if the query was cancelled while it waited.
        """
        self.progress = Progress.CHARGED
        while not self._turns.acquire(timeout=_LOOK_AGAIN):
            self.raise_if_cancelled()
        with self._lock:
            self._began = self._monotonic()
        self._touched = True
        self.progress = Progress.READING
        self.raise_if_cancelled()

    def release_slot(self) -> None:
        """Release the engine slot; does nothing if it was released before.

        `progress` stays READING, so that a caller cannot see when the engine finished.
        """
        with self._lock:
            had, self._began = self._began is not None, None
        if had:
            self._turns.release()

    def wait_for_padded_time(self) -> None:
        """Release the engine slot and sleep until the next padded time after the request, if data was read.

        Answers and failures both leave at such a time, so that it reveals only the number of steps.
        """
        self.release_slot()
        if self._touched:
            self._touched = False
            elapsed = self._monotonic() - self._asked
            self._sleep(max(0.0, padded(elapsed, self._step) - elapsed))

    def raise_if_cancelled(self) -> None:
        """Raise `EngineFailed` if the query was stopped.

        Also called after the padded wait. If a finished query could no longer be stopped, stopping again and again
        under one charge would reveal when the engine finished.
        """
        if self._stop is not None:
            raise EngineFailed(self._stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as its body states it, still to be checked: the data set, the paying account, the query, the budget.

    `spending` is None where the SQL of the query states its own budget.
    """

    dataset: str
    account: str
    query: Mapping[str, object]
    spending: Callable[[], AskedBudget] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """A request to answer a query: who asks, the question, its idempotency key, and the text that is stored of it."""

    identity: Identity
    question: Question
    key: str
    text: str

    @property
    def place(self) -> tuple[str, str]:
        """The account and the key; together they name one query."""
        return self.question.account, self.key


class RunsElsewhere(Exception):
    """Another request or replica has answered this query or runs it."""


@dataclass(eq=False, slots=True, kw_only=True)
class RunningQuery:
    """A query that this replica plans, waits with or runs; `job` is there once it is charged."""

    request: QueryRequest
    timing: QueryTiming
    jobs: Jobs = field(repr=False)
    job: Job | None = None
    task: "asyncio.Future[Job] | None" = None

    def resume(self) -> None:
        """Take up what is known of the query; raise `RunsElsewhere` when it has been answered or runs already."""
        account, key = self.request.place
        self.job, ours = self.jobs.resume(account=account, key=key, request=self.request.text)
        if self.job is not None and not ours:
            raise RunsElsewhere

    def charged(self) -> None:
        """Record the query, unless it is; raise `RunsElsewhere` when another has recorded it since."""
        if self.job is None:
            account, key = self.request.place
            self.job, ours = self.jobs.begin(
                person=self.request.identity.person.name, account=account, key=key, request=self.request.text
            )
            if not ours:
                raise RunsElsewhere


class Runner:
    """The queries that this replica runs.

    `answer` checks, plans, charges and answers a query, and returns the stored answer.
    """

    def __init__(
        self,
        answer: Callable[[RunningQuery], str],
        jobs: Jobs,
        metrics: Metrics,
        store: Threads,
        settings: Settings,
    ) -> None:
        self._answer = answer
        self._jobs = jobs
        self._metrics = metrics
        self._store = store
        self._settings = settings
        self._threads = ThreadPoolExecutor(settings.waiting, thread_name_prefix="setwise-query")
        self._turns = FairSlots(settings.workers)
        self._large_turns = FairSlots(1)
        self._most_each = max(1, settings.waiting // 2)
        self._running: dict[tuple[str, str, str], RunningQuery] = {}
        self._closing = False

    def start(self, request: QueryRequest) -> RunningQuery:
        """Start a query, or return the one that runs here under the same key.

        Raise `KeyConflict` when that is another request, and `TooManyRequests` when there is no room.
        """
        place = (request.identity.person.name, *request.place)
        if (running := self._running.get(place)) is not None:
            if running.request.text != request.text:
                raise KeyConflict(f"the key {request.key!r} is in use for a different request on this account")
            return running
        person = request.identity.person.name
        if len(self._running) >= self._settings.waiting:
            raise TooManyRequests("too many queries are waiting; try again in 1 s")
        if sum(owner == person for owner, _, _ in self._running) >= self._most_each:
            raise TooManyRequests("too many of your queries are waiting; try again in 1 s")
        slots: EngineSlots = self._turns.of(person)
        if len(request.text) > _LARGE_REQUEST:
            slots = BothSlots(self._large_turns.of(person), slots)
        timing = QueryTiming(slots, step=self._settings.answer_step, seconds=self._settings.query_seconds)
        if self._closing:
            timing.stop(_LEAVING)
        running = RunningQuery(request=request, timing=timing, jobs=self._jobs)
        run = partial(copy_context().run, self._run, running)
        running.task = asyncio.get_running_loop().run_in_executor(self._threads, run)
        running.task.add_done_callback(lambda task: self._ended(place, task))
        self._running[place] = running
        self._metrics.running.set(len(self._running))
        return running

    async def answered(self, running: RunningQuery) -> Job:
        """Return the query when it has ended, wherever it runs, or once it is charged and a request may wait no longer.

        Raise what is wrong with it when it was refused before it was charged.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.wait_seconds
        assert running.task is not None
        await asyncio.wait([running.task], timeout=self._settings.wait_seconds)
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
        """Stop a query, if this replica runs it."""
        for running in list(self._running.values()):
            if running.job is not None and running.job.id == id_:
                await self._stop(running, CANCELLED)

    async def cancel_running(self, running: RunningQuery) -> None:
        """Stop a query of this replica for the person who asked it, whether or not it was charged yet."""
        await self._stop(running, CANCELLED)

    async def beat(self) -> None:
        """Tell the database which queries are alive, and stop those that are overdue or to be cancelled; for ever."""
        while True:
            await asyncio.sleep(self._settings.heartbeat_seconds)
            self._metrics.reading.set(sum(each.timing.is_reading for each in self._running.values()))
            for running in list(self._running.values()):
                if running.timing.is_overdue:
                    await self._stop(running, _overdue(self._settings.query_seconds))
            progress = {each.job.id: each.timing.progress for each in self._running.values() if each.job is not None}
            if progress:
                with contextlib.suppress(StoreFailed):  # seen by whoever asks; the next beat may reach it
                    for id_ in await self._store.run(self._jobs.beat, progress):
                        await self.cancel(id_)

    async def close(self) -> None:
        """Stop every query and wait for them to end."""
        self._closing = True
        running = list(self._running.values())
        for each in running:
            await self._stop(each, _LEAVING)
        await asyncio.gather(*(each.task for each in running if each.task is not None), return_exceptions=True)
        self._threads.shutdown(wait=True)

    async def _stop(self, running: RunningQuery, reason: str) -> None:
        await self._store.run(running.timing.stop, reason)  # cancelling an engine may take a moment

    def _ended(self, place: tuple[str, str, str], task: "asyncio.Future[Job]") -> None:
        del self._running[place]
        self._metrics.running.set(len(self._running))
        if task.cancelled() or task.exception() is not None:  # told to whoever asks
            self._metrics.query("refused")
        elif (state := task.result().state) is not JobState.RUNNING:
            self._metrics.query(str(state))

    def _run(self, running: RunningQuery) -> Job:
        """Run a query to its end and return it as it is then; raise what is wrong with it if it was not charged."""
        timing = running.timing
        try:
            answer = self._answer(running)
        except RunsElsewhere:
            assert running.job is not None
            return running.job
        except Exception as error:
            timing.wait_for_padded_time()
            told = EngineFailed(timing.stopped) if timing.stopped and isinstance(error, SetwiseError) else error
            if running.job is None:
                raise told from None
            state = JobState.CANCELLED if timing.stopped == CANCELLED else JobState.FAILED
            return self._jobs.stopped(running.job, state, json.dumps(_problem(told).document()))
        assert running.job is not None
        return self._jobs.done(running.job, answer)


def _problem(error: Exception) -> Problem:
    """Return the problem of a query that was charged; what the operator should know of it is logged."""
    if not isinstance(error, SetwiseError):
        return defect(error)
    if isinstance(error, StoreFailed):
        log_store_failure(error)
    return problem_of(error)


def _overdue(seconds: float) -> str:
    return f"the query took longer than {seconds:g} s and was stopped; narrow it, or ask a steward to prepare the table"

"""Runs queries beside the event loop: a bounded number at once, with a heartbeat, a time limit and cancelling."""

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from setwise.errors import EngineFailed, SetwiseError, StoreFailed, TooManyRequests
from setwise.service.api.error_responses import log_store_failure
from setwise.service.api.problems import Problem, problem_of
from setwise.service.metrics import Metrics
from setwise.service.queries.jobs import Job, Jobs, JobState
from setwise.service.queries.timing import Pace
from setwise.service.settings import Settings
from setwise.service.workers.threads import Pool

Work = Callable[[Pace], str]
"""Answers a query at the given pace and returns the stored answer."""

CANCELLED = "the query was cancelled; ask again under the same key to run it at no further charge"

_log = logging.getLogger("setwise.service")


class Runner:
    """The queries that this replica runs."""

    def __init__(self, jobs: Jobs, metrics: Metrics, pool: Pool, settings: Settings) -> None:
        self._jobs = jobs
        self._metrics = metrics
        self._pool = pool
        self._settings = settings
        self._threads = ThreadPoolExecutor(settings.waiting, thread_name_prefix="setwise-query")
        self._turns = threading.Semaphore(settings.workers)
        self._running: dict[str, tuple[Pace, asyncio.Task[None]]] = {}

    def check_room(self) -> None:
        """Raise `TooManyRequests` when as many queries wait as may."""
        if len(self._running) >= self._settings.waiting:
            raise TooManyRequests("too many queries are waiting; try again in 1 s")

    def start(self, job: Job, work: Work) -> None:
        """Start a query that this replica has taken up; one that runs here already is left to it."""
        if job.id in self._running:
            return
        pace = Pace(self._turns, step=self._settings.answer_step, seconds=self._settings.query_seconds)
        task = asyncio.create_task(self._follow(job, work, pace))
        self._running[job.id] = (pace, task)

    async def wait(self, id_: str, seconds: float) -> None:
        """Return when the query has ended, if this replica runs it, or after so many seconds."""
        if id_ in self._running:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._running[id_][1]), seconds)

    async def cancel(self, id_: str) -> None:
        """Stop a query, if this replica runs it."""
        if id_ in self._running:
            await self._pool.run(self._running[id_][0].stop, CANCELLED)

    async def beat(self) -> None:
        """Tell the database which queries are alive, and stop those that are overdue or to be cancelled; for ever."""
        while True:
            await asyncio.sleep(self._settings.heartbeat_seconds)
            for pace, _ in list(self._running.values()):
                if pace.is_overdue:
                    await self._pool.run(pace.stop, _overdue(self._settings.query_seconds))
            if self._running:
                progress = {id_: pace.progress for id_, (pace, _) in self._running.items()}
                with contextlib.suppress(StoreFailed):  # seen by whoever asks; the next beat may reach it
                    for id_ in await self._pool.run(self._jobs.beat, progress):
                        await self.cancel(id_)

    async def close(self) -> None:
        """Stop every query and wait for them to end."""
        running = list(self._running.values())
        for pace, _ in running:
            await self._pool.run(pace.stop, "the replica is shutting down; ask again under the same key")
        await asyncio.gather(*(task for _, task in running), return_exceptions=True)
        self._threads.shutdown(wait=True)

    async def _follow(self, job: Job, work: Work, pace: Pace) -> None:
        try:
            outcome = await asyncio.get_running_loop().run_in_executor(self._threads, self._run, job, work, pace)
            self._metrics.query(outcome)
        finally:
            del self._running[job.id]

    def _run(self, job: Job, work: Work, pace: Pace) -> str:
        """Run a query to its end and record that; return how it ended."""
        try:
            answer = work(pace)
        except SetwiseError as error:
            if isinstance(error, StoreFailed):
                log_store_failure(error)
            found = problem_of(EngineFailed(pace.stopped) if pace.stopped else error)
        except Exception as error:  # a defect of ours: its words may hold data
            _log.error("unexpected %s while answering a query", type(error).__name__)
            found = Problem(name="InternalError", status=500, detail="the service failed to answer the query")
        else:
            return self._recorded(JobState.DONE, lambda: self._jobs.done(job, answer))
        finally:
            pace.pad()
        state = JobState.CANCELLED if pace.stopped == CANCELLED else JobState.FAILED
        return self._recorded(state, lambda: self._jobs.stopped(job, state, json.dumps(found.document())))

    def _recorded(self, state: JobState, record: Callable[[], None]) -> str:
        """Record an end; should the database not answer, the query is lost and taken up again by whoever asks."""
        try:
            record()
        except StoreFailed as error:
            log_store_failure(error)
            return "unrecorded"
        return str(state)


def _overdue(seconds: float) -> str:
    return f"the query took longer than {seconds:g} s and was stopped; narrow it, or ask a steward to prepare the table"

"""Calculations with limits of time and memory, in processes that can be ended; recent results are remembered."""

import asyncio
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from setwise.errors import SetwiseError, TooManyRequests, Unattainable
from setwise.service.shares import FairSlots, PersonalLimit, current_person
from setwise.service.workers.tasks import Task, work

R = TypeVar("R")

_REMEMBERED_BYTES = 8 << 20
"""Pickled bytes of all tasks and results that are remembered; as objects they take up to ten times as much memory."""

_LARGEST_REMEMBERED = 64 << 10
"""Pickled bytes of the largest task with its result that is remembered: a larger one would drop many others."""

_MOST_WAITING = 64
_MOST_WAITING_EACH = 16
"""Calculations that may wait or run, and those of one person among them."""

_LOOK_AGAIN = 0.05
"""Seconds between two looks at whether whoever waits has been stopped."""


def _go_on() -> None:
    """Nobody stops this calculation."""


class RememberedResults:
    """The results of recent tasks, at most `most` bytes of them by their pickled size; the oldest are dropped first."""

    def __init__(self, most: int = _REMEMBERED_BYTES, largest: int = _LARGEST_REMEMBERED) -> None:
        self._most = most
        self._largest = largest
        self._results: OrderedDict[Task[Any], tuple[Any, int]] = OrderedDict()
        self.size = 0

    def __contains__(self, task: Task[Any]) -> bool:
        return task in self._results

    def get(self, task: Task[R]) -> R:
        """Return the result of a task that is remembered."""
        self._results.move_to_end(task)
        result: R = self._results[task][0]
        return result

    def add(self, task: Task[R], result: R, size: int) -> None:
        """Remember a result whose task and pickle have `size` bytes together, unless that is too large."""
        if size > self._largest or task in self._results:
            return
        self._results[task] = result, size
        self.size += size
        while self.size > self._most:
            _, (_, dropped) = self._results.popitem(last=False)
            self.size -= dropped


@dataclass(frozen=True, slots=True)
class _Reply(Generic[R]):
    """The result of a task, or the error it ended in, and the pickled bytes of task and result."""

    result: R | SetwiseError | MemoryError
    size: int


class WorkerPool:
    """A few processes that run `work` of tasks.py, started when first needed.

    Tasks and results travel pickled between these processes, over sockets that nobody else holds. A calculation may
    take `seconds` and `memory` bytes. One person gets all processes but one, so that another never waits for them.
    """

    def __init__(self, *, processes: int, seconds: float, memory: int, remedy: str, remember: bool = True) -> None:
        self._slots = FairSlots(processes, each=max(1, processes - 1))
        self._limit = PersonalLimit(_MOST_WAITING_EACH)
        self._seconds = seconds
        self._memory = memory
        self._remedy = remedy
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._remembered = RememberedResults(most=_REMEMBERED_BYTES if remember else 0)
        self._threads = ThreadPoolExecutor(_MOST_WAITING, thread_name_prefix="setwise-calculation")
        self.waiting = 0

    def calculate(self, task: Task[R], *, check: Callable[[], None] = _go_on) -> R:
        """Return the result of a task, or raise the error it ended in; `Unattainable` beyond a limit.

        `check` is called now and then, and raises when the result is not wanted any more.
        """
        person = current_person.get()
        with self._lock:
            if task in self._remembered:
                return self._remembered.get(task)
            if self.waiting >= _MOST_WAITING:
                raise TooManyRequests("too many calculations are waiting; try again in 1 s")
            self.waiting += 1
        try:
            with self._limit.counting(person):
                reply = self._compute(task, person, check)
        finally:
            with self._lock:
                self.waiting -= 1
        if isinstance(reply.result, MemoryError):
            megabytes = self._memory >> 20
            raise Unattainable(f"the calculation needs more memory than {megabytes} MiB; {self._remedy}")
        if isinstance(reply.result, SetwiseError):
            raise reply.result
        with self._lock:
            self._remembered.add(task, reply.result, reply.size)
        return reply.result

    async def run(self, task: Task[R]) -> R:
        """Return the result of a task without holding up the event loop."""
        calculate = partial(copy_context().run, self.calculate, task)
        return await asyncio.get_running_loop().run_in_executor(self._threads, calculate)

    def close(self) -> None:
        """End every process and what waits for one."""
        with self._lock:
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.end()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _compute(self, task: Task[R], person: str, check: Callable[[], None]) -> _Reply[R]:
        """Wait for a process of the person's share and have it compute a task."""
        while not self._slots.acquire(person, timeout=_LOOK_AGAIN):
            check()
        try:
            with self._lock:
                worker = self._idle.pop() if self._idle else _Worker(self._memory)
                self._busy.add(worker)
            keep = False
            try:
                worker.wait_until_ready(check)
                reply = worker.ask(task, self._seconds, check)
                keep = not isinstance(reply.result, MemoryError)  # its memory may stay in pieces
            except TimeoutError:
                raise Unattainable(f"the calculation takes longer than {self._seconds:g} s; {self._remedy}") from None
            except (EOFError, OSError):  # the process died or was never well
                raise Unattainable(f"the calculation failed; {self._remedy}") from None
            finally:
                with self._lock:
                    self._busy.discard(worker)
                    if keep:
                        self._idle.append(worker)
                if not keep:
                    worker.end()
        finally:
            self._slots.release(person)
        return reply


class _Worker:
    """One process and our end of the socket pair."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        ours, theirs = socket.socketpair()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SETWISE_")}
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-c", f"from {work.__module__} import work; work({theirs.fileno()}, {memory})"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=kept,
                pass_fds=[theirs.fileno()],
            )
        self._connection = Connection(ours.detach())
        self._ready = False

    def wait_until_ready(self, check: Callable[[], None]) -> None:
        """Wait until the process has loaded everything: that is no part of the time of a calculation."""
        if not self._ready:
            while not self._connection.poll(_LOOK_AGAIN):
                check()
            self._connection.recv()
            self._ready = True

    def ask(self, task: Task[R], seconds: float, check: Callable[[], None]) -> _Reply[R]:
        """Return the reply to a task, or raise `TimeoutError`."""
        until = time.monotonic() + seconds
        asked = pickle.dumps(task, pickle.HIGHEST_PROTOCOL)
        self._connection.send_bytes(asked)
        while not self._connection.poll(min(_LOOK_AGAIN, seconds)):
            check()
            if time.monotonic() >= until:
                raise TimeoutError
        pickled = self._connection.recv_bytes()
        return _Reply(pickle.loads(pickled), len(asked) + len(pickled))  # noqa: S301 - our own process wrote it

    def end(self) -> None:
        """End the process; whoever waits for its reply is told that it failed."""
        self._process.kill()
        self._process.wait()

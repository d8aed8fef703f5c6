"""A pool of worker processes for calculations: timeouts and memory limits, the queue, and a cache of recent results."""

import asyncio
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Generic, ParamSpec, TypeVar

from setwise.errors import SetwiseError, TooManyRequests, Unattainable
from setwise.service.slots import FairSlots, PersonalLimit, current_person
from setwise.service.workers.tasks import Task, work

R = TypeVar("R")
Given = ParamSpec("Given")

_REMEMBERED_BYTES = 8 << 20
"""Pickled bytes of all cached tasks and results; as objects they take up to ten times as much memory."""

_LARGEST_REMEMBERED = 64 << 10
"""Pickled bytes of the largest task with its result that is cached: a larger one would displace many others."""

_MOST_WAITING = 64
_MOST_WAITING_EACH = 16
"""The most calculations that may wait or run (`_MOST_WAITING`), and the most of one person among them."""

_CHECK_SECONDS = 0.05
"""Seconds between two checks whether the waiting caller has been cancelled."""


def _never_cancelled() -> None:
    """Do nothing. A calculation that nobody can cancel gets this function as its `check`.

    Any other calculation has a `check` that raises an error once the result is no longer wanted.
    """


class HashedOnce:
    """A dictionary key that wraps `key` and computes the hash of `key` only once.

    Most keys are tasks of worker processes. A task is looked up several times, and computing its hash takes long,
    because the hash covers the task's whole query and schema.
    """

    __slots__ = ("_hash", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashedOnce) and self._hash == other._hash and self.key == other.key


class RememberedResults:
    """A cache of recent results, in which every result has a size, such as bytes or characters.

    The sizes of all results together are at most `most`, and the size of each result is at most `largest`. The caller
    states the size of a result when adding it, and must hold a lock around every call. Results that were used least
    recently are dropped first.
    """

    def __init__(self, most: int = _REMEMBERED_BYTES, largest: int = _LARGEST_REMEMBERED) -> None:
        self._most = most
        self._largest = largest
        self._results: OrderedDict[HashedOnce, tuple[Any, int]] = OrderedDict()
        self.size = 0

    def __contains__(self, key: Hashable) -> bool:
        return HashedOnce(key) in self._results

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 - as it was added
        """Return the result that is cached under `key`; None if there is none."""
        hashed = HashedOnce(key)
        entry = self._results.get(hashed)
        if entry is None:
            return None
        self._results.move_to_end(hashed)
        return entry[0]

    def add(self, key: Hashable, result: object, size: int) -> None:
        """Cache `result` under `key`, and drop the results that were used least recently if there is no room.

        `size` is the size of the result, in the unit of this cache (such as bytes). Does nothing if the result is
        larger than the cache allows for one result, or if the key has a result already.
        """
        hashed = HashedOnce(key)
        if size > self._largest or hashed in self._results:
            return
        self._results[hashed] = result, size
        self.size += size
        while self.size > self._most:
            _, (_, dropped) = self._results.popitem(last=False)
            self.size -= dropped


@dataclass(frozen=True, slots=True)
class _Reply(Generic[R]):
    """A worker process's reply to a task: the result of the task, or the error that the task raised.

    `size` is the number of bytes of the pickled task and result together, which a cache of results counts.
    """

    result: R | SetwiseError | MemoryError
    size: int


class WorkerPool:
    """A pool of worker processes that run tasks for the service; a process is started when it is first needed.

    - `processes`: the number of processes. One person may use all of them but one, so that others need not wait; if
      there is only one process, everybody may use it
    - `seconds`, `memory`: the most seconds, and bytes of memory, that one task may take
    - `remedy`: the advice at the end of the error for a task that takes more
    - `remember`: whether results are cached
    - `preload`: the name of a module that each process imports before its first task; "" for none
    """

    def __init__(
        self, *, processes: int, seconds: float, memory: int, remedy: str, remember: bool = True, preload: str = ""
    ) -> None:
        self._slots = FairSlots(processes, each=max(1, processes - 1))
        self._limit = PersonalLimit(_MOST_WAITING_EACH)
        self._seconds = seconds
        self._memory = memory
        self._remedy = remedy
        self._preload = preload
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._remembered = RememberedResults(most=_REMEMBERED_BYTES if remember else 0)
        self._threads = ThreadPoolExecutor(_MOST_WAITING, thread_name_prefix="setwise-calculation")
        self.waiting = 0

    def calculate(self, task: Task[R], *, check: Callable[[], None] = _never_cancelled) -> R:
        """Return the result of `task`, from the cache or from a worker process; blocks until the result is there.

        `check` is called every 0.05 seconds while waiting, and raises an error if the result is not wanted any more.
        Raises the error of the task, `Unattainable` if the task takes more time or memory than allowed, and
        `TooManyRequests` if too many tasks wait or run, in all or for the person whose request is being handled.
        """
        person = current_person.get()
        with self._lock:
            remembered: R | None = self._remembered.get(task)
            if remembered is not None:
                return remembered
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
        """Return the result of `task`, from the cache or from a worker process, without blocking the event loop.

        Raises the same errors as `calculate`, such as `Unattainable` if the task takes too much time or memory.
        """
        return await self.call(self.calculate, task)

    async def call(self, function: Callable[Given, R], *args: Given.args, **kwargs: Given.kwargs) -> R:
        """Call `function` with `args` and `kwargs` in a thread, and return its result without blocking the event loop.

        The function may call `calculate` several times; each of these calls blocks the thread, but not the event loop.
        """
        call = partial(copy_context().run, function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def close(self) -> None:
        """Kill every worker process and cancel waiting tasks; return when the threads of this pool have ended."""
        with self._lock:
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.end()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _compute(self, task: Task[R], person: str, check: Callable[[], None]) -> _Reply[R]:
        """Wait for a free worker process, let it compute `task`, and return its reply.

        `person` is the name of the person who waits for the result; if the pool has several processes, one person may
        use all but one. `check` is called while waiting, and raises an error to stop the wait.
        """
        while not self._slots.acquire(person, timeout=_CHECK_SECONDS):
            check()
        try:
            with self._lock:
                worker = self._idle.pop() if self._idle else _Worker(self._memory, self._preload)
                self._busy.add(worker)
            keep = False
            try:
                worker.wait_until_ready(check)
                reply = worker.ask(task, self._seconds, check)
                keep = not isinstance(reply.result, MemoryError)  # the memory of such a process may stay fragmented
            except TimeoutError:
                raise Unattainable(f"the calculation takes longer than {self._seconds:g} s; {self._remedy}") from None
            except (EOFError, OSError):  # the process died or failed to start
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
    """One worker process, with this process's end of the socket pair over which both talk.

    Tasks in the process may allocate `memory` bytes. The process first imports the module `preload` ("" for none).
    """

    def __init__(self, memory: int, preload: str) -> None:
        self.memory, self.preload = memory, preload
        ours, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SETWISE_")}
        imported = f"import {preload}; " if preload else ""
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [
                    sys.executable,
                    "-c",
                    f"{imported}from {work.__module__} import work; work({theirs.fileno()}, {memory})",
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                pass_fds=[theirs.fileno()],
            )
        self._connection = Connection(ours.detach())
        self._ready = False

    def wait_until_ready(self, check: Callable[[], None]) -> None:
        """Wait until this worker process has loaded its modules, which does not count as time of a calculation.

        `check` is called while waiting, and raises an error to stop the wait.
        """
        if not self._ready:
            while not self._connection.poll(_CHECK_SECONDS):
                check()
            self._connection.recv()
            self._ready = True

    def ask(self, task: Task[R], seconds: float, check: Callable[[], None]) -> _Reply[R]:
        """Send `task` to this worker process and return its reply; raise `TimeoutError` after `seconds` seconds.

        `check` is called while waiting, and raises an error to stop the wait.
        """
        until = time.monotonic() + seconds
        request = pickle.dumps(task, pickle.HIGHEST_PROTOCOL)
        self._connection.send_bytes(request)
        while not self._connection.poll(min(_CHECK_SECONDS, seconds)):
            check()
            if time.monotonic() >= until:
                raise TimeoutError
        pickled = self._connection.recv_bytes()
        return _Reply(pickle.loads(pickled), len(request) + len(pickled))  # noqa: S301 - our own process wrote it

    def end(self) -> None:
        """Kill the worker process; a caller that waits for its reply gets an `EOFError` or `OSError`."""
        self._process.kill()
        self._process.wait()

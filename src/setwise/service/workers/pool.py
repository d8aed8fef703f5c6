"""Calculations with a time limit, in processes that can be ended; recent results are remembered."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from setwise.errors import SetwiseError, TooManyRequests, Unattainable
from setwise.service.workers.tasks import Task, work

R = TypeVar("R")

_MOST_REMEMBERED = 2048
_MOST_WAITING = 64
_LOOK_AGAIN = 0.05
"""Seconds between two looks at whether whoever waits has been stopped."""


def _go_on() -> None:
    """Nobody stops this calculation."""


class WorkerPool:
    """A few processes that run `work` of tasks.py, started when first needed.

    Tasks and results travel pickled between these processes, over sockets that nobody else holds.
    """

    def __init__(self, *, processes: int, seconds: float, remedy: str) -> None:
        self._places = threading.Semaphore(processes)
        self._seconds = seconds
        self._remedy = remedy
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._remembered: OrderedDict[Task[Any], Any] = OrderedDict()
        self._threads = ThreadPoolExecutor(_MOST_WAITING, thread_name_prefix="setwise-calculation")
        self.waiting = 0

    def calculate(self, task: Task[R], *, remember: bool = True, check: Callable[[], None] = _go_on) -> R:
        """Return the result of a task, or raise the error it ended in; `Unattainable` after the time limit.

        `check` is called now and then, and raises when the result is not wanted any more.
        """
        with self._lock:
            if task in self._remembered:
                self._remembered.move_to_end(task)
                known: R = self._remembered[task]
                return known
            if self.waiting >= _MOST_WAITING:
                raise TooManyRequests("too many calculations are waiting; try again in 1 s")
            self.waiting += 1
        try:
            result = self._computed(task, check)
        finally:
            with self._lock:
                self.waiting -= 1
        if remember:
            with self._lock:
                self._remembered[task] = result
                if len(self._remembered) > _MOST_REMEMBERED:
                    self._remembered.popitem(last=False)
        return result

    async def run(self, task: Task[R], *, remember: bool = True) -> R:
        """Return the result of a task without holding up the event loop."""
        calculate = partial(self.calculate, task, remember=remember)
        return await asyncio.get_running_loop().run_in_executor(self._threads, calculate)

    def close(self) -> None:
        """End every process and what waits for one."""
        with self._lock:
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.end()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _computed(self, task: Task[R], check: Callable[[], None]) -> R:
        while not self._places.acquire(timeout=_LOOK_AGAIN):
            check()
        try:
            with self._lock:
                worker = self._idle.pop() if self._idle else _Worker()
                self._busy.add(worker)
            keep = False
            try:
                worker.wait_until_ready(check)
                reply = worker.ask(task, self._seconds, check)
                keep = True
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
            self._places.release()
        if isinstance(reply, SetwiseError):
            raise reply
        return reply


class _Worker:
    """One process and our end of the socket pair."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SETWISE_")}
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-c", f"from {work.__module__} import work; work({theirs.fileno()})"],
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

    def ask(self, task: Task[R], seconds: float, check: Callable[[], None]) -> R | SetwiseError:
        """Return the reply to a task, or raise `TimeoutError`."""
        until = time.monotonic() + seconds
        self._connection.send(task)
        while not self._connection.poll(min(_LOOK_AGAIN, seconds)):
            check()
            if time.monotonic() >= until:
                raise TimeoutError
        reply: R | SetwiseError = self._connection.recv()
        return reply

    def end(self) -> None:
        """End the process; whoever waits for its reply is told that it failed."""
        self._process.kill()
        self._process.wait()

"""Fair shares of what a replica has few of: threads, worker processes and engine slots, divided among people.

One analyst may have many requests under way. Without shares these would fill every line first, and another analyst's
single request would wait for all of them.
"""

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from setwise.errors import TooManyRequests

Given = ParamSpec("Given")
Result = TypeVar("Result")

current_person: ContextVar[str] = ContextVar("current_person", default="")
"""The name of the person whose request is being answered; empty for the replica's own work and for strangers."""

_MOST_REMEMBERED = 10_000
"""People whose last turn is remembered; when there are more, everybody is forgotten, which costs one unfair turn."""

_BUSY = "too many of your requests are waiting; try again in 1 s"


class FairSlots:
    """A semaphore whose free slots go to the person who holds the fewest, then to the one who was served longest ago.

    `each` is the largest number of slots that one person may hold at once; without it, a person alone gets all of them.

    >>> slots = FairSlots(2, each=1)
    >>> slots.acquire("ada"), slots.acquire("ada", timeout=0.0), slots.acquire("bob")
    (True, False, True)
    """

    def __init__(self, count: int, *, each: int | None = None) -> None:
        self._free = count
        self._each = count if each is None else each
        self._condition = threading.Condition()
        self._lines: dict[str, deque[object]] = {}
        self._held: Counter[str] = Counter()
        self._served: dict[str, float] = {}

    def acquire(self, person: str = "", *, timeout: float | None = None) -> bool:
        """Wait for a slot; return whether there was one within `timeout` seconds."""
        ticket = object()
        with self._condition:
            self._lines.setdefault(person, deque()).append(ticket)
            try:
                granted = self._condition.wait_for(lambda: self._next() is ticket, timeout)
            finally:
                self._lines[person].remove(ticket)
                if not self._lines[person]:
                    del self._lines[person]
            if granted:
                self._free -= 1
                self._held[person] += 1
                if len(self._served) >= _MOST_REMEMBERED:
                    self._served.clear()
                self._served[person] = time.monotonic()
            self._condition.notify_all()
        return granted

    def release(self, person: str = "") -> None:
        """Give back a slot that the person holds."""
        with self._condition:
            self._free += 1
            self._held[person] -= 1
            if not self._held[person]:
                del self._held[person]
            self._condition.notify_all()

    def of(self, person: str) -> "PersonalSlots":
        """Return the slots as one person sees them."""
        return PersonalSlots(self, person)

    def _next(self) -> object | None:
        """Return the ticket whose turn it is, or None if no slot is free or nobody who waits may have one."""
        if self._free <= 0:
            return None
        waiting = [person for person in self._lines if self._held[person] < self._each]
        if not waiting:
            return None
        first = min(waiting, key=lambda person: (self._held[person], self._served.get(person, 0.0)))
        return self._lines[first][0]


class PersonalSlots:
    """The slots of a `FairSlots` as one person acquires and releases them."""

    def __init__(self, slots: FairSlots, person: str) -> None:
        self._slots = slots
        self._person = person

    def acquire(self, *, timeout: float | None = None) -> bool:
        """Wait for a slot; return whether there was one within `timeout` seconds."""
        return self._slots.acquire(self._person, timeout=timeout)

    def release(self) -> None:
        """Give the slot back."""
        self._slots.release(self._person)


class PersonalLimit:
    """A limit on how many of something each person may have at once; beyond it `TooManyRequests` is raised."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._count: Counter[str] = Counter()

    @contextmanager
    def counting(self, person: str) -> Iterator[None]:
        """Count one more for the length of the block; the replica's own work, under no name, is never refused."""
        with self._lock:
            if person and self._count[person] >= self._most:
                raise TooManyRequests(_BUSY)
            self._count[person] += 1
        try:
            yield
        finally:
            with self._lock:
                self._count[person] -= 1
                if not self._count[person]:
                    del self._count[person]


class Threads:
    """A bounded number of threads, so that slow work of one kind, or of one person, never starves the rest.

    `each` threads at most work for one person at a time, and `waiting` more of a person's calls may wait for them.
    """

    def __init__(self, threads: int, name: str, *, each: int | None = None, waiting: int = 64) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._each = threads if each is None else each
        self._limit = PersonalLimit(self._each + waiting)
        self._personal: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """Each kept for as long as a call of its person waits or runs."""

    async def run(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Return the result of the function, called in one of the threads for the person whose request this is."""
        person = current_person.get()
        call = partial(copy_context().run, function, *args, **kwargs)
        with self._limit.counting(person):
            personal = self._personal.setdefault(person, asyncio.Semaphore(self._each))
            async with personal:
                return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def close(self) -> None:
        """Wait for what runs, and end the threads."""
        self._executor.shutdown(wait=True, cancel_futures=True)

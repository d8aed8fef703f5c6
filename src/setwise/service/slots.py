"""Fair queues for the scarce resources of a replica (threads, worker processes, engine slots), and limits per person.

An engine slot is the right of one query to read a table. One analyst may have many requests in progress. If these could
fill every queue, another analyst's single request would wait for all of them. replica.py makes the slots for reading
tables; queries/runner.py and queries/series.py acquire them.
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
"""The most people whose last time of service is kept; beyond it all are dropped, which costs one unfair choice."""

_BUSY = "too many of your requests are waiting; try again in 1 s"


class FairSlots:
    """A semaphore whose free slots go to the waiting person who holds the fewest slots.

    A slot is the right to use a scarce resource, such as a thread. `count` is the number of slots, and `each` the most
    that one person may hold (None: all). Among persons with equally few slots, the person who was served longest ago is
    next.

    >>> slots = FairSlots(2, each=1)
    >>> slots.acquire("ada"), slots.acquire("ada", timeout=0.0), slots.acquire("bob")
    (True, False, True)
    """

    def __init__(self, count: int, *, each: int | None = None) -> None:
        self._free = count
        self._each = count if each is None else each
        self._lock = threading.Lock()
        self._queues: dict[str, deque[threading.Event]] = {}
        """For each person, the events that their waiting calls of `acquire` wait for, the earliest call first."""
        self._held: Counter[str] = Counter()
        self._served: dict[str, float] = {}

    def acquire(self, person: str = "", *, timeout: float | None = None) -> bool:
        """Wait for a slot for `person`, and return whether one was acquired.

        A slot is the right to use a scarce resource, such as a thread; `release` gives it back. The wait ends after
        `timeout` seconds; None waits without limit.
        """
        granted = threading.Event()
        with self._lock:
            self._queues.setdefault(person, deque()).append(granted)
            self._grant()
        if granted.wait(timeout):
            return True
        with self._lock:
            if granted.is_set():  # granted between the end of the wait and this block
                return True
            self._leave(person, granted)
        return False

    def release(self, person: str = "") -> None:
        """Give back one slot that `person` acquired, so that another waiting call of `acquire` can have it.

        A slot is the right to use a scarce resource, such as a thread.
        """
        with self._lock:
            self._free += 1
            self._held[person] -= 1
            if not self._held[person]:
                del self._held[person]
            self._grant()

    def of(self, person: str) -> "PersonalSlots":
        """Return an object with which the person called `person` acquires and releases these slots.

        A slot is the right to use a scarce resource, such as a thread, which is shared fairly among people. The object
        has the person's name, so that code which uses a slot need not know whose slot it is.
        """
        return PersonalSlots(self, person)

    def _grant(self) -> None:
        """Give the free slots to the waiting calls of `acquire` that are next, and wake only these calls.

        A slot is the right to use a scarce resource, such as a thread. If every waiting call were woken to see whether
        it is next, 64 waiting queries would take more processor time than the two queries that read tables. The caller
        holds the lock.
        """
        while self._free > 0:
            waiting = [person for person in self._queues if self._held[person] < self._each]
            if not waiting:
                return
            person = min(waiting, key=lambda person: (self._held[person], self._served.get(person, 0.0)))
            granted = self._queues[person][0]
            self._leave(person, granted)
            self._free -= 1
            self._held[person] += 1
            if len(self._served) >= _MOST_REMEMBERED:
                self._served.clear()
            self._served[person] = time.monotonic()
            granted.set()

    def _leave(self, person: str, granted: threading.Event) -> None:
        """Remove one waiting call of `acquire` from the queue of `person`, because it got a slot or its time is up.

        `granted` is the event that the call waits for; it identifies the call. The caller of this method holds the
        lock.
        """
        self._queues[person].remove(granted)
        if not self._queues[person]:
            del self._queues[person]


class PersonalSlots:
    """The slots of the semaphore `slots`, as one person acquires and releases them.

    A slot is the right to use a scarce resource, such as a thread. This object adds the person's name to each call, so
    that code which uses a slot need not know whose slot it is.
    """

    def __init__(self, slots: FairSlots, person: str) -> None:
        self._slots = slots
        self._person = person

    def acquire(self, *, timeout: float | None = None) -> bool:
        """Wait until this person gets a free slot, and return True; return False if `timeout` seconds pass before.

        A slot is a share of a scarce resource, such as the right of one query to read a table. With a `timeout` of None
        the wait has no limit.
        """
        return self._slots.acquire(self._person, timeout=timeout)

    def release(self) -> None:
        """Release a slot that this person holds, so that another waiting call can have it.

        A slot is the right to use a scarce resource, such as a thread.
        """
        self._slots.release(self._person)


class PersonalLimit:
    """A limit: each person may have `most` things of one kind at a time, such as running calls or connections."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._count: Counter[str] = Counter()

    @contextmanager
    def counting(self, person: str) -> Iterator[None]:
        """Context manager that counts one more call (or connection) of `person` while its `with` block runs.

        Raises `TooManyRequests` if the person has reached the limit. Work that the service does for itself, for which
        `person` is "", is never refused.
        """
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
    """A pool of threads that are shared among people, so that slow work of one person cannot use up all of them.

    The pool has `threads` threads, whose names begin with `name`. At most `each` of them work for one person at a time
    (None: all), and at most `waiting` more calls of that person wait for a thread.
    """

    def __init__(self, threads: int, name: str, *, each: int | None = None, waiting: int = 64) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._each = threads if each is None else each
        self._limit = PersonalLimit(self._each + waiting)
        self._personal: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """One semaphore per person, kept for as long as a call of that person waits or runs."""

    async def run(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Call `function` with `args` and `kwargs` in one of the threads, and return its result.

        The call counts as work of the person whose request the calling task handles. Raises `TooManyRequests` if too
        many calls of this person wait.
        """
        person = current_person.get()
        call = partial(copy_context().run, function, *args, **kwargs)
        with self._limit.counting(person):
            personal = self._personal.setdefault(person, asyncio.Semaphore(self._each))
            async with personal:
                return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def close(self) -> None:
        """Wait for the calls that are running, drop the waiting ones, and end the threads."""
        self._executor.shutdown(wait=True, cancel_futures=True)

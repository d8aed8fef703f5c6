"""The timing of one query: its turn with the engine, its end at a padded moment, and whether it is to stop."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from setwise.accounting.guarantees import Use
from setwise.analytics.engines.base import Engine
from setwise.analytics.execute import padded
from setwise.errors import EngineFailed
from setwise.ledger.account import Account, Receipt

_LOOK_AGAIN = 0.05


class Progress:
    """The share done at each stage; stages do not depend on the data."""

    WAITING = 0.0
    CHARGED = 0.1
    READING = 0.25
    DONE = 1.0


class QueryTiming:
    """Holds a query back until an engine is free, and its end until a padded moment after it was asked.

    What an analyst can see of a query that touched data (its answer, the draws given back, its failure) happens at
    padded moments only.
    """

    def __init__(
        self,
        turns: threading.Semaphore,
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
            self.check()
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

    def begin(self) -> None:
        """Wait for a turn with the engine."""
        self.progress = Progress.CHARGED
        while not self._turns.acquire(timeout=_LOOK_AGAIN):
            self.check()
        with self._lock:
            self._began = self._monotonic()
        self._touched = True
        self.progress = Progress.READING
        self.check()

    def end(self) -> None:
        """Give the turn back; doing so twice is doing so once. Progress does not tell: when is not to be seen."""
        with self._lock:
            had, self._began = self._began is not None, None
        if had:
            self._turns.release()

    def pad(self) -> None:
        """Give the turn back and wait for the padded moment, when data was touched; once."""
        self.end()
        if self._touched:
            self._touched = False
            elapsed = self._monotonic() - self._asked
            self._sleep(max(0.0, padded(elapsed, self._step) - elapsed))

    def check(self) -> None:
        """Raise `EngineFailed` when the query was stopped.

        Asked once more at the padded moment: were an answer that is ready kept from being stopped, stopping would tell
        when the engine was done, again and again under one charge.
        """
        if self._stop is not None:
            raise EngineFailed(self._stop)


class TimedAccount:
    """An account whose charges wait for a turn and whose answers are stored at padded moments.

    `charged` is called when a charge is on disk, before the turn.
    """

    def __init__(self, account: Account, timing: QueryTiming, charged: Callable[[], None]) -> None:
        self._account = account
        self._timing = timing
        self._charged = charged

    def charge(self, uses: Sequence[Use], *, key: str, request: str) -> Receipt:
        """Charge; then wait for a turn, unless the answer is there already."""
        receipt = self._account.charge(uses, key=key, request=request)
        self._charged()
        if receipt.answer is None:
            self._timing.begin()
        return receipt

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use] = ()) -> str:
        """Store the answer, at a padded moment, unless the query was stopped before that moment."""
        self._timing.pad()
        self._timing.check()
        return self._account.settle(receipt, answer=answer, returned=returned)

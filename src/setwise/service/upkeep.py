"""Scheduled work of a replica: signing heads of the ledger, verifying it, and deleting rows of old queries."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

from setwise.errors import SetwiseError, StoreFailed
from setwise.ledger.audit.chain import Fault
from setwise.ledger.audit.heads import CLOCK_SLACK, HeadFile, read_key
from setwise.ledger.audit.verification import Verification
from setwise.ledger.ledger import Ledger
from setwise.service.problems import log_store_failure
from setwise.service.queries.jobs import Jobs
from setwise.service.settings import Settings
from setwise.service.shares import Threads
from setwise.service.storage.schema import Clock
from setwise.service.telemetry import Metrics

_log = logging.getLogger("setwise.service")

_TICK_SECONDS = 30.0
_FORGET_SECONDS = 3600.0


class Upkeep:
    """Runs each scheduled duty of the settings when it is due, in one thread, for as long as the replica runs.

    Replicas share the signing: a recent head that another replica signed counts. Each replica deletes old queries and
    verifies the ledger for itself. `table_faults` compares the service's own tables with the ledger.
    """

    def __init__(
        self,
        ledger: Ledger,
        jobs: Jobs,
        metrics: Metrics,
        settings: Settings,
        *,
        table_faults: Callable[[], Iterable[Fault]] = tuple,
        clock: Clock = time.time,
    ) -> None:
        self._ledger = ledger
        self._jobs = jobs
        self._metrics = metrics
        self._settings = settings
        self._table_faults = table_faults
        self._clock = clock
        self._threads = Threads(1, "setwise-upkeep")
        self._key = None if settings.head_key is None else read_key(settings.head_key)
        self._last_head = _head_file(settings)
        if self._last_head is not None:
            self._last_head.check_writable()
        self._signed_at = self._verified_at = self._forgotten_at = float("-inf")

    async def run(self) -> None:
        """Do what is due, and look again every 30 seconds, until cancelled."""
        while True:
            await self._threads.run(self.do_what_is_due)
            await asyncio.sleep(_TICK_SECONDS)

    def do_what_is_due(self) -> None:
        """Do every duty that is due; a duty that fails is logged and tried again at the next tick."""
        duties: list[Callable[[], None]] = [self._sign, self._verify, self._forget]
        for duty in duties:
            try:
                duty()
            except StoreFailed as error:
                log_store_failure(error)
            except SetwiseError as error:
                _log.error("upkeep failed: %s", type(error).__name__)

    def close(self) -> None:
        """Wait for the duty that is running."""
        self._threads.close()

    def verify(self, *, head: str | None = None) -> Verification:
        """Verify the ledger and the service's tables with everything that this replica knows.

        With a key that is: every head is signed with the key, the last within twice the hours between signatures, and
        the ledger still has the head that is kept outside the database. With `head`, nothing may be new since then.
        """
        within = None if self._key is None else timedelta(hours=2.0 * self._settings.head_hours)
        found = self._ledger.verify(head=head, key=self._key, within=within, last_head=self._last_head)
        return replace(found, faults=(*found.faults, *self._table_faults()))

    def _sign(self) -> None:
        """Sign a head unless some replica did recently; either way check the ledger against the head kept outside."""
        seconds, now = 3600.0 * self._settings.head_hours, self._clock()
        if self._key is None or self._last_head is None or now < self._signed_at + seconds:
            return
        stamps = [record.moment.timestamp() for record in self._ledger.acts() if record.kind == "head"]
        recent = [stamp for stamp in stamps if now - seconds < stamp <= now + CLOCK_SLACK.total_seconds()]
        within = timedelta(seconds=2.0 * seconds)
        try:
            if recent:
                self._ledger.keep_head(self._key, self._last_head, within=within)
            else:
                signed = self._ledger.sign(self._key, last_head=self._last_head, within=within)
                recent = [signed.moment.timestamp()]
        except StoreFailed:
            self._metrics.audited(1, now)
            raise
        self._signed_at = min(max(recent), now)
        self._metrics.signed.set(max(recent))

    def _verify(self) -> None:
        hours = self._settings.verify_hours
        if hours is None or self._clock() < self._verified_at + 3600.0 * hours:
            return
        found = self.verify()
        self._verified_at = self._clock()
        self._metrics.audited(len(found.faults), self._verified_at)
        if found.faults:
            _log.error("the ledger has %d faults; GET /api/v1/audit names them", len(found.faults))

    def _forget(self) -> None:
        days, now = self._settings.query_days, self._clock()
        if days is None or now < self._forgotten_at + _FORGET_SECONDS:
            return
        self._jobs.forget(before=now - 86400.0 * days)
        self._forgotten_at = now


def _head_file(settings: Settings) -> HeadFile | None:
    """Return the file that keeps the last signed head: the one of the settings, else the one beside the key."""
    if settings.head_key is None:
        return None
    return HeadFile.beside(settings.head_key) if settings.head_file is None else HeadFile(settings.head_file)

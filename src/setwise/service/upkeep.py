"""Scheduled tasks of a replica, and how often each runs.

A replica signs a head, records what datasets read, verifies the ledger, and deletes rows of old queries.

A head is a signed record of where every account's hash chain ends.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

from setwise.errors import SetwiseError, StoreFailed
from setwise.ledger.audit.chain_check import Fault
from setwise.ledger.audit.heads import CLOCK_SLACK, HeadFile, read_key
from setwise.ledger.audit.verification import Verification
from setwise.ledger.ledger import Ledger
from setwise.service.problems import log_store_failure
from setwise.service.queries.jobs import Jobs
from setwise.service.settings import Settings
from setwise.service.slots import Threads
from setwise.service.storage.schema import Clock
from setwise.service.telemetry import Metrics

_log = logging.getLogger("setwise.service")

_TICK_SECONDS = 30.0
_FORGET_SECONDS = 3600.0
_RECORD_SECONDS = 3600.0


class Upkeep:
    """Runs the scheduled tasks of a replica in one thread: sign, record what datasets read, verify, delete old queries.

    A replica is one process of the service, and a head is a signed record of where every account's hash chain ends.

    - `ledger`: the ledger to sign and verify
    - `jobs`: the store of queries, in which old rows are deleted
    - `metrics`: the counters and gauges to which the number of faults of a verification is written
    - `settings`: how often each task is due, and the key for signing
    - `table_faults`: a function that compares the service's own tables with the ledger; it is called whenever the
      ledger is verified
    - `record_sources`: a function that records in the ledger which datasets read the same data, and returns a fault for
      each dataset that should share the cap (joint budget) of another dataset and cannot; it is called at the start,
      for datasets that an earlier version registered, and then once an hour
    - `clock`: returns the time in seconds since 1970
    """

    def __init__(
        self,
        ledger: Ledger,
        jobs: Jobs,
        metrics: Metrics,
        settings: Settings,
        *,
        table_faults: Callable[[], Iterable[Fault]] = tuple,
        record_sources: Callable[[], Iterable[Fault]] = tuple,
        clock: Clock = time.time,
    ) -> None:
        self._ledger = ledger
        self._jobs = jobs
        self._metrics = metrics
        self._settings = settings
        self._table_faults = table_faults
        self._record_sources = record_sources
        self._source_faults: tuple[Fault, ...] = ()
        """The faults that the last call of `record_sources` returned."""
        self._clock = clock
        self._threads = Threads(1, "setwise-upkeep")
        self._key = None if settings.head_key is None else read_key(settings.head_key)
        self._last_head = _head_file(settings)
        if self._last_head is not None:
            self._last_head.check_writable()
        self._signed_at = self._recorded_at = self._verified_at = self._forgotten_at = float("-inf")

    async def run(self) -> None:
        """Run the scheduled tasks that are due, and check again every 30 seconds, until the coroutine is cancelled."""
        while True:
            await self._threads.run(self.do_what_is_due)
            await asyncio.sleep(_TICK_SECONDS)

    def do_what_is_due(self) -> None:
        """Run every scheduled task that is due. A task that fails is logged and tried again at the next call."""
        duties: list[Callable[[], None]] = [self._sign, self._record, self._verify, self._forget]
        for duty in duties:
            try:
                duty()
            except StoreFailed as error:
                log_store_failure(error)
            except SetwiseError as error:
                _log.error("upkeep failed: %s", type(error).__name__)

    def close(self) -> None:
        """Wait for the scheduled task that is running, and start no more."""
        self._threads.close()

    def verify(self, *, head: str | None = None) -> Verification:
        """Verify the ledger and the service's tables, and return the result with every fault.

        `head` is the digest that an earlier verification returned, or None. If it is given, it is a fault if anything
        in the ledger was changed or added since then. With a signing key, every signed record of where the hash chains
        end must be valid, and the latest one at most twice `head_hours` hours old.
        """
        within = None if self._key is None else timedelta(hours=2.0 * self._settings.head_hours)
        verification = self._ledger.verify(head=head, key=self._key, within=within, last_head=self._last_head)
        return replace(verification, faults=(*verification.faults, *self._table_faults(), *self._source_faults))

    def _sign(self) -> None:
        """Sign a head of the ledger, which is a record of where each account's hash chain ends.

        Does nothing without a signing key, or if the last head that this process knows is at most `head_hours` hours
        old. Otherwise the ledger is first compared with the head that a file outside the database keeps, so that a
        ledger that has lost entries is not signed; such a ledger raises `StoreFailed`. If another process of the
        service has signed a head in the last `head_hours` hours, that head is written to the file, and no further head
        is signed.
        """
        seconds, now = 3600.0 * self._settings.head_hours, self._clock()
        if self._key is None or self._last_head is None or now < self._signed_at + seconds:
            return
        # One head serves all replicas, so this replica signs none while a recent one exists.
        head_times = [record.moment.timestamp() for record in self._ledger.acts() if record.kind == "head"]
        recent = [stamp for stamp in head_times if now - seconds < stamp <= now + CLOCK_SLACK.total_seconds()]
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

    def _record(self) -> None:
        """Record which datasets read the same data, at most once an hour; keep the faults for the next verification.

        A verification does not record this itself, because it must not change the ledger that it verifies.
        """
        now = self._clock()
        if now < self._recorded_at + _RECORD_SECONDS:
            return
        self._source_faults = tuple(self._record_sources())
        self._recorded_at = now

    def _verify(self) -> None:
        """Verify the ledger if this is due, record the number of faults in the metrics, and log it if there are any."""
        hours = self._settings.verify_hours
        if hours is None or self._clock() < self._verified_at + 3600.0 * hours:
            return
        verification = self.verify()
        self._verified_at = self._clock()
        self._metrics.audited(len(verification.faults), self._verified_at)
        if verification.faults:
            _log.error("the ledger has %d faults; GET /api/v1/audit names them", len(verification.faults))

    def _forget(self) -> None:
        """Delete the rows of ended queries that were asked more than `query_days` days ago, at most once an hour."""
        days, now = self._settings.query_days, self._clock()
        if days is None or now < self._forgotten_at + _FORGET_SECONDS:
            return
        self._jobs.forget(before=now - 86400.0 * days)
        self._forgotten_at = now


def _head_file(settings: Settings) -> HeadFile | None:
    """Return the file that keeps the last signed head: the one in the settings, or one beside the signing key.

    A head is a record of where every account's hash chain ends. Returns None if the settings have no key.
    """
    if settings.head_key is None:
        return None
    return HeadFile.beside(settings.head_key) if settings.head_file is None else HeadFile(settings.head_file)

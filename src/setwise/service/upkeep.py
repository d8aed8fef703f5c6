"""What a replica does by the clock: sign heads of the ledger, verify it, and forget old queries."""

import asyncio
import logging
import time
from collections.abc import Callable

from setwise.errors import SetwiseError, StoreFailed
from setwise.ledger.audit.verification import read_key
from setwise.ledger.ledger import Ledger
from setwise.service.problems import log_store_failure
from setwise.service.queries.jobs import Jobs
from setwise.service.settings import Settings
from setwise.service.storage.database import Threads
from setwise.service.storage.schema import Clock
from setwise.service.telemetry import Metrics

_log = logging.getLogger("setwise.service")

_TICK_SECONDS = 30.0
_FORGET_SECONDS = 3600.0


class Upkeep:
    """Runs each duty that the settings ask for when its time has come, in one thread, for as long as the replica does.

    Replicas share the signing: a head that another has signed counts. Each forgets old queries and verifies for itself.
    """

    def __init__(
        self, ledger: Ledger, jobs: Jobs, metrics: Metrics, settings: Settings, *, clock: Clock = time.time
    ) -> None:
        self._ledger = ledger
        self._jobs = jobs
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._threads = Threads(1, "setwise-upkeep")
        self._key = None if settings.head_key is None else read_key(settings.head_key)
        self._signed_at = self._verified_at = self._forgotten_at = float("-inf")

    async def run(self) -> None:
        """Do what is due, and look again after a while; for ever."""
        while True:
            await self._threads.run(self.do_what_is_due)
            await asyncio.sleep(_TICK_SECONDS)

    def do_what_is_due(self) -> None:
        """Do every duty whose time has come; one that fails is logged and tried again at the next tick."""
        duties: list[Callable[[], None]] = [self._sign, self._verify, self._forget]
        for duty in duties:
            try:
                duty()
            except StoreFailed as error:
                log_store_failure(error)
            except SetwiseError as error:
                _log.error("upkeep failed: %s", type(error).__name__)

    def close(self) -> None:
        """Wait for the duty that runs."""
        self._threads.close()

    def _sign(self) -> None:
        seconds = 3600.0 * self._settings.head_hours
        if self._key is None or self._clock() < self._signed_at + seconds:
            return
        heads = [record.moment.timestamp() for record in self._ledger.acts() if record.kind == "head"]
        if not heads or self._clock() >= heads[-1] + seconds:
            heads.append(self._ledger.sign(self._key).moment.timestamp())
        self._signed_at = heads[-1]
        self._metrics.signed.set(heads[-1])

    def _verify(self) -> None:
        hours = self._settings.verify_hours
        if hours is None or self._clock() < self._verified_at + 3600.0 * hours:
            return
        found = self._ledger.verify(key=self._key)
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

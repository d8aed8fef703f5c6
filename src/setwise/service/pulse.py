"""Whether the database answers, asked at most once a second however often one wants to know."""

import time
from collections.abc import Callable

from sqlalchemy import text

from setwise.service.database import Database
from setwise.service.pool import Pool

_SECONDS = 1.0


class Pulse:
    """The last time the database answered."""

    def __init__(self, database: Database, pool: Pool, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._pool = pool
        self._monotonic = monotonic
        self._answered = float("-inf")

    async def check(self) -> None:
        """Return when the database answers, or raise `StoreFailed`."""
        if self._monotonic() - self._answered > _SECONDS:
            await self._pool.run(self._ask)
            self._answered = self._monotonic()

    def _ask(self) -> None:
        with self._database.reading() as connection:
            connection.execute(text("SELECT 1"))

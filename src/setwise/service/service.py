"""Everything a replica holds while it runs."""

import secrets
import time
from dataclasses import dataclass

from setwise.service.calculator import Calculator
from setwise.service.database import Database, open_database
from setwise.service.doorkeeper import Doorkeeper
from setwise.service.limits import Buckets
from setwise.service.metrics import Metrics
from setwise.service.people import Clock, People
from setwise.service.pool import Pool
from setwise.service.pulse import Pulse
from setwise.service.sessions import BrowserSessions
from setwise.service.settings import Settings

_STORE_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The parts of one replica; routes and pages find it as `app.state.service`."""

    settings: Settings
    replica: str
    database: Database
    people: People
    sessions: BrowserSessions
    doorkeeper: Doorkeeper
    calculator: Calculator
    metrics: Metrics
    pool: Pool
    pulse: Pulse

    async def close(self) -> None:
        """Let go of everything."""
        await self.calculator.close()
        self.pool.close()
        self.database.close()


def open_service(settings: Settings, *, clock: Clock = time.time) -> Service:
    """Open the stores and put the parts together."""
    database = open_database(settings.ledger)
    pool = Pool(_STORE_THREADS, "setwise-store")
    people = People(database, clock=clock)
    sessions = BrowserSessions(database, people, hours=settings.session_hours, clock=clock)
    buckets = Buckets(per_second=settings.requests_per_second, burst=settings.burst)
    return Service(
        settings=settings,
        replica=secrets.token_hex(8),
        database=database,
        people=people,
        sessions=sessions,
        doorkeeper=Doorkeeper(people, sessions, buckets, pool, cache_seconds=settings.token_cache_seconds, clock=clock),
        calculator=Calculator(processes=settings.calculators, seconds=settings.calculator_seconds),
        metrics=Metrics(),
        pool=pool,
        pulse=Pulse(database, pool),
    )

"""Everything a replica holds while it runs."""

import secrets
import time
from dataclasses import dataclass

from setwise.ledger.ledger import Ledger
from setwise.mechanisms.randomness import SystemRandomness
from setwise.service.auth.authenticator import Doorkeeper
from setwise.service.auth.browser_sessions import BrowserSessions
from setwise.service.auth.people import Clock, People
from setwise.service.auth.rate_limit import Buckets
from setwise.service.metrics import Metrics
from setwise.service.queries.engine_pool import Engines
from setwise.service.queries.handler import Questions
from setwise.service.queries.jobs import Jobs
from setwise.service.queries.runner import Runner
from setwise.service.settings import Settings
from setwise.service.storage.accounts import Accounts
from setwise.service.storage.database import Database, Pulse, open_database
from setwise.service.storage.datasets import Datasets
from setwise.service.workers.pool import Calculator, Planner
from setwise.service.workers.threads import Pool

_STORE_THREADS = 8
_MOST_PEOPLE = 1_000_000
"""Stewards add people, strangers cannot: their rates are kept apart from those of addresses."""
_FEWER_USES = "ask for fewer or more equal uses"
_SMALLER_QUESTION = "ask for fewer items or contributions, a larger delta, or name the mechanism"


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
    planner: Planner
    pulse: Pulse
    ledger: Ledger
    accounts: Accounts
    datasets: Datasets
    engines: Engines
    questions: Questions
    jobs: Jobs
    runner: Runner

    async def close(self) -> None:
        """Let go of everything."""
        await self.runner.close()
        await self.calculator.close()
        await self.planner.close()
        self.pool.close()
        self.engines.close()
        self.ledger.close()
        self.database.close()


def open_service(settings: Settings, *, clock: Clock = time.time) -> Service:
    """Open the stores and put the parts together."""
    ledger = Ledger.open(settings.ledger)
    database = open_database(settings.ledger)
    replica = secrets.token_hex(8)
    pool = Pool(_STORE_THREADS, "setwise-store")
    people = People(database, clock=clock)
    sessions = BrowserSessions(database, people, hours=settings.session_hours, clock=clock)
    metrics = Metrics()
    accounts, datasets, engines = Accounts(ledger), Datasets(database, clock=clock), Engines(settings)
    planner = Planner(_calculator(settings, _SMALLER_QUESTION))
    jobs = Jobs(database, replica=replica, heartbeat_seconds=settings.heartbeat_seconds, clock=clock)
    return Service(
        settings=settings,
        replica=replica,
        database=database,
        people=people,
        sessions=sessions,
        doorkeeper=Doorkeeper(
            people,
            sessions,
            Buckets(per_second=settings.requests_per_second, burst=settings.burst, most=_MOST_PEOPLE),
            Buckets(per_second=settings.requests_per_second, burst=settings.burst),
            pool,
            cache_seconds=settings.token_cache_seconds,
            clock=clock,
        ),
        calculator=_calculator(settings, _FEWER_USES),
        metrics=metrics,
        pool=pool,
        planner=planner,
        pulse=Pulse(database, pool),
        ledger=ledger,
        accounts=accounts,
        datasets=datasets,
        engines=engines,
        questions=Questions(datasets, accounts, engines, planner, SystemRandomness()),
        jobs=jobs,
        runner=Runner(jobs, metrics, pool, settings),
    )


def _calculator(settings: Settings, remedy: str) -> Calculator:
    """Return processes for one kind of calculation, so that plans hold up only plans."""
    return Calculator(processes=settings.calculators, seconds=settings.calculator_seconds, remedy=remedy)

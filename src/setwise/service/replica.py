"""One replica, a running process of the service: how its stores, thread pools, workers and tasks are put together."""

import secrets
import time
from dataclasses import dataclass

from setwise.ledger.ledger import Ledger
from setwise.mechanisms.randomness import SystemRandomness
from setwise.service.auth.authenticator import Authenticator
from setwise.service.auth.openid import SignOn
from setwise.service.auth.people import People
from setwise.service.auth.permissions import Accounts
from setwise.service.queries.engine_pool import Engines
from setwise.service.queries.handler import QuestionService
from setwise.service.queries.jobs import Jobs
from setwise.service.queries.runner import Runner
from setwise.service.queries.series import SeriesService
from setwise.service.reconciliation import has_definition, record_shared_data, record_sources, table_faults
from setwise.service.settings import Settings
from setwise.service.slots import FairSlots, PersonalLimit, Threads
from setwise.service.storage.database import Database, DatabaseProbe, open_database
from setwise.service.storage.datasets import Datasets
from setwise.service.storage.question_budgets import QuestionBudgets
from setwise.service.storage.schema import Clock
from setwise.service.telemetry import Metrics
from setwise.service.upkeep import Upkeep
from setwise.service.workers.pool import WorkerPool

_STORE_THREADS = 8
"""Threads for short work with the stores; at most half of them work for one person."""

_RENDERING_THREADS = 2
_RENDERINGS_WAITING = 8
"""Threads that write large answers and pages, one per person at a time, and the most that may wait per person.

Between two turns of the event loop, two threads hold the interpreter lock at most twice, for about 10 ms.
"""

_UNSENT_RESPONSES = 4
"""The most large responses of one person that may wait for their reader."""

_FEWER_USES = "ask for fewer or more equal uses"
_SMALLER_ANSWER = "ask for fewer groups, or compute less of the released rows"
_SMALLER_QUESTION = "ask for fewer items or contributions, a larger delta, or name the mechanism"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The stores, pools and settings of one replica (process of the service); routes and pages get it by `service_of`.

    - `threads`, `rendering`: the threads for short work with the database, and those that make large responses
    - `unsent`: limits how many large responses to one person may be waiting to be sent
    - `probe`: tests whether the database answers
    - `metrics`: the counters and gauges for Prometheus
    - `authenticator`: identifies callers by token or cookie
    - `sign_on`: signs people on with an OpenID provider, or None
    - `ledger`, `accounts`: the ledger of accounts, and the check of which accounts a person may see
    - `people`, `datasets`, `question_budgets`, `jobs`: stores in `database`; `jobs` has the queries with their answers
    - `engines`: the pool of engines, which read tables
    - `calculators`, `planners`, `renderers`: worker processes that compose privacy guarantees, plan questions, and
      compute the rows of large answers
    - `questions`: checks and answers questions
    - `runner`: runs queries in threads, with their deadlines and cancellation
    - `series`: manages live series (user counts that are released period by period)
    - `upkeep`: runs scheduled tasks, such as verifying the ledger
    """

    settings: Settings
    database: Database
    threads: Threads
    rendering: Threads
    unsent: PersonalLimit
    probe: DatabaseProbe
    metrics: Metrics
    people: People
    authenticator: Authenticator
    sign_on: SignOn | None
    ledger: Ledger
    accounts: Accounts
    datasets: Datasets
    question_budgets: QuestionBudgets
    engines: Engines
    calculators: WorkerPool
    planners: WorkerPool
    renderers: WorkerPool
    questions: QuestionService
    series: SeriesService
    jobs: Jobs
    runner: Runner
    upkeep: Upkeep

    async def close(self) -> None:
        """Stop all work of this replica, and close its processes, threads and connections."""
        await self.runner.close()
        await self.series.close_updates()
        self.upkeep.close()
        if self.sign_on is not None:
            await self.sign_on.provider.close()
        self.calculators.close()
        self.planners.close()
        self.renderers.close()
        self.threads.close()
        self.rendering.close()
        self.engines.close()
        self.ledger.close()
        self.database.close()


def open_service(settings: Settings, *, clock: Clock = time.time) -> Service:
    """Open the databases and start the pools that `settings` name; return all parts of this process of the service.

    `clock` returns the time in seconds since 1970. If the ledger does not say which tables a dataset reads, because an
    earlier version registered the dataset, this is recorded in the ledger now.
    """
    ledger = Ledger.open(settings.ledger)
    database = open_database(settings.ledger)
    threads = Threads(_STORE_THREADS, "setwise-store", each=_STORE_THREADS // 2)
    people = People(database, settings, clock=clock)
    metrics = Metrics()
    accounts, datasets, engines = Accounts(ledger), Datasets(database, clock=clock), Engines(settings)
    calculators, planners = _workers(settings, _FEWER_USES), _workers(settings, _SMALLER_QUESTION)
    metrics.calculating.set_function(lambda: calculators.waiting + planners.waiting)
    unrecorded = {name for name in datasets.definitions() if not has_definition(ledger, name)}
    record_sources(ledger, datasets, engines, names=unrecorded)
    jobs = Jobs(database, replica=secrets.token_hex(8), heartbeat_seconds=settings.heartbeat_seconds, clock=clock)
    authenticator = Authenticator(database, threads, settings, clock=clock)
    questions = QuestionService(datasets, accounts, engines, planners, SystemRandomness())
    slots = FairSlots(settings.workers)
    sign_on = None
    if settings.oidc_issuer is not None:
        sign_on = SignOn(settings, people, authenticator, ledger, threads, clock=clock)
    return Service(
        settings=settings,
        database=database,
        threads=threads,
        rendering=Threads(_RENDERING_THREADS, "setwise-rendering", each=1, waiting=_RENDERINGS_WAITING),
        unsent=PersonalLimit(_UNSENT_RESPONSES),
        probe=DatabaseProbe(database),
        metrics=metrics,
        people=people,
        authenticator=authenticator,
        sign_on=sign_on,
        ledger=ledger,
        accounts=accounts,
        datasets=datasets,
        question_budgets=QuestionBudgets(database),
        engines=engines,
        calculators=calculators,
        planners=planners,
        renderers=_workers(settings, _SMALLER_ANSWER, remember=False),
        questions=questions,
        series=SeriesService(ledger, datasets, accounts, engines, slots, settings, SystemRandomness()),
        jobs=jobs,
        runner=Runner(questions.answer, jobs, metrics, threads, slots, settings),
        upkeep=Upkeep(
            ledger,
            jobs,
            metrics,
            settings,
            table_faults=lambda: table_faults(ledger, database, datasets),
            record_sources=lambda: record_shared_data(ledger, datasets, engines),
            clock=clock,
        ),
    )


def _workers(settings: Settings, remedy: str, *, remember: bool = True) -> WorkerPool:
    """Return a pool of worker processes for one kind of calculation, so that no kind delays the others.

    `settings` have the number of processes, and the limits on the time and memory of one calculation. `remedy` is the
    advice at the end of the error for a calculation that exceeds a limit. With `remember`, results are cached.
    """
    return WorkerPool(
        processes=settings.calculators,
        seconds=settings.calculator_seconds,
        memory=settings.calculator_megabytes << 20,
        remedy=remedy,
        remember=remember,
    )

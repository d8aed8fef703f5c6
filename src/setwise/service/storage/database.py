"""The database that the service shares with the ledger: connections, schema versions, threads, and a probe."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, insert, select, text
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError, SQLAlchemyError

from setwise.errors import StoreFailed
from setwise.ledger.stores.connect import sqlite_path
from setwise.ledger.stores.sqlite import write_lock
from setwise.service.storage import schema

Given = ParamSpec("Given")
Result = TypeVar("Result")

_MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    schema.metadata.create_all,
    schema.add_removal_of_people,
    schema.add_sign_on,
)
"""Step n takes the schema from version n to n + 1; steps are appended, never changed."""

_MIGRATION_LOCK = 0x73657477
"""The advisory lock under which a PostgreSQL schema is migrated."""

_BUSY_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Database:
    """Connections to the service's tables; what the driver raises becomes `StoreFailed`, in words for the operator.

    Transactions of `relaxed` do not wait for the disk. `writer` is held while a SQLite file is written.
    """

    engine: Engine
    relaxed: Engine
    writer: AbstractContextManager[object]

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection for reading."""
        with _one_sentence(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Connection]:
        """Yield a connection in a transaction that is committed at the end.

        One that is not `durable` may be lost when the machine, not the replica, goes down: for what can be redone.
        """
        with _one_sentence(), self.writer, (self.engine if durable else self.relaxed).begin() as connection:
            yield connection

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()
        self.relaxed.dispose()


def open_database(url: str) -> Database:
    """Open the database of a ledger that was opened before, and bring the service's tables to the current version."""
    path = sqlite_path(url)
    pool = {"pool_pre_ping": path is None, "pool_size": 16, "max_overflow": 16}
    writer: AbstractContextManager[object] = nullcontext()
    if path is None:
        address = "postgresql+psycopg://" + url.partition("://")[2]
        engine = create_engine(address, **pool)
        relaxed = create_engine(address, **pool, connect_args={"options": "-c synchronous_commit=off"})
    else:
        engine, relaxed = create_engine(f"sqlite:///{path}", **pool), create_engine(f"sqlite:///{path}", **pool)
        event.listen(engine, "connect", partial(_prepare_sqlite, synchronous="FULL"))
        event.listen(relaxed, "connect", partial(_prepare_sqlite, synchronous="NORMAL"))
        writer = write_lock(Path(path))
    database = Database(engine, relaxed, writer)
    _migrate(database)
    return database


def _prepare_sqlite(connection: Any, _record: object, *, synchronous: str) -> None:  # noqa: ANN401 - a driver's own
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA busy_timeout = {1000 * _BUSY_SECONDS}")


def _migrate(database: Database) -> None:
    """Run the steps that are missing, one replica at a time."""
    with database.writing() as connection:
        if database.engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        schema.versions.create(connection, checkfirst=True)
        version = max(connection.scalars(select(schema.versions.c.version)), default=0)
        if version > len(_MIGRATIONS):
            raise StoreFailed(
                f"the service's tables are of version {version}, newer than this program's {len(_MIGRATIONS)}: "
                "upgrade setwise"
            )
        for step in range(version, len(_MIGRATIONS)):
            _MIGRATIONS[step](connection)
            connection.execute(insert(schema.versions).values(version=step + 1))


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except IntegrityError:  # a name or key that is taken: the caller knows what it means
        raise
    except (OperationalError, InterfaceError) as error:  # of connections and locks: their words hold no values
        said = (str(error.orig).splitlines() or [type(error).__name__])[0]
        raise StoreFailed(f"the service's database did not answer ({said}); try again in a moment") from None
    except SQLAlchemyError as error:
        kind = type(error).__name__
        raise StoreFailed(f"the service's database did not answer ({kind}); try again in a moment") from None


class Threads:
    """A bounded number of threads for short work with the stores, so that slow queries never starve short requests."""

    def __init__(self, threads: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, function: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Return what the function returns, called in one of the threads."""
        call = partial(copy_context().run, function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def close(self) -> None:
        """Wait for what runs, and end the threads."""
        self._executor.shutdown(wait=True, cancel_futures=True)


_PROBE_SECONDS = 1.0
"""How long an answer of the database counts as recent."""


class DatabaseProbe:
    """Asks the database for a sign of life, at most once a second and in a thread that nothing else uses."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = Threads(1, "setwise-probe")
        self._answered = float("-inf")

    async def check(self) -> None:
        """Return when the database answers, or raise `StoreFailed`."""
        if time.monotonic() - self._answered > _PROBE_SECONDS:
            await self._threads.run(self._ask)
            self._answered = time.monotonic()

    def close(self) -> None:
        """End the thread."""
        self._threads.close()

    def _ask(self) -> None:
        with self._database.reading() as connection:
            connection.execute(text("SELECT 1"))

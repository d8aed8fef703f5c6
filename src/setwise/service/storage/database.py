"""The database that the service shares with the ledger: connections, schema versions, and a probe of its health."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, delete, event, insert, select, text
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError, SQLAlchemyError

from setwise.errors import StoreFailed
from setwise.ledger.stores.connect import sqlite_path
from setwise.ledger.stores.sqlite import write_lock
from setwise.service.storage import schema

_MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    schema.metadata.create_all,
    schema.add_removal_of_people,
    schema.add_sign_on,
    schema.add_question_budgets,
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


class DatabaseState(StrEnum):
    """What a database that answers can be used for."""

    OK = "ok"
    """Rows can be read and written."""
    READ_ONLY = "read-only"
    """Rows can be read; nothing can be charged, so that only stored answers are given."""


_PROBE_SECONDS = 1.0
"""How long an answer of the database counts as recent: it is asked no more often than this."""

_PATIENT_SECONDS = 0.1
"""How long a request waits for a probe under way, so that health is answered while the database hangs."""

_SILENT_SECONDS = 5.0
"""How long after its last answer the database counts as gone: longer than a checkpoint or a long transaction takes."""


class DatabaseProbe:
    """Asks the database for a sign of life, at most once a second and in a thread that nothing else uses.

    A probe may hang for as long as the database does. Requests wait a tenth of a second for it at most, and are then
    answered from the probe before.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._probe: asyncio.Future[DatabaseState] | None = None
        self._started = float("-inf")
        self._answered = float("-inf")
        self._state = DatabaseState.OK

    async def check(self) -> DatabaseState:
        """Return what the database can be used for, or raise `StoreFailed` if it failed or has been silent for long."""
        now = time.monotonic()
        if self._probe is None or (self._probe.done() and now - self._started > _PROBE_SECONDS):
            self._probe, self._started = self._start(), now
        if not self._probe.done():
            await asyncio.wait([self._probe], timeout=_PATIENT_SECONDS)
        if self._probe.done():
            self._state = self._probe.result()
            self._answered = time.monotonic()
        elif now - self._answered > _SILENT_SECONDS:
            raise StoreFailed("the service's database does not answer a probe; see whether it hangs")
        return self._state

    def _start(self) -> "asyncio.Future[DatabaseState]":
        """Start a probe in a daemon thread, which does not keep the replica from stopping while the database hangs."""
        loop = asyncio.get_running_loop()
        probe: asyncio.Future[DatabaseState] = loop.create_future()
        probe.add_done_callback(lambda ended: ended.exception())  # retrieved, also if nobody asks again

        def ask() -> None:
            with suppress(RuntimeError):  # the loop is closed: the replica has stopped
                try:
                    state = probe_state(self._database)
                except StoreFailed as error:
                    loop.call_soon_threadsafe(probe.set_exception, error)
                else:
                    loop.call_soon_threadsafe(probe.set_result, state)

        threading.Thread(target=ask, name="setwise-probe", daemon=True).start()
        return probe


def probe_state(database: Database) -> DatabaseState:
    """Ask a database whether it takes writes; raise `StoreFailed` if it does not answer."""
    with database.reading() as connection:
        if database.engine.dialect.name != "sqlite":
            read_only = connection.scalar(text("SHOW transaction_read_only")) == "on"  # on a standby too
            return DatabaseState.READ_ONLY if read_only else DatabaseState.OK
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        try:  # a statement that writes takes the lock for it, although no row has such a version
            connection.execute(delete(schema.versions).where(schema.versions.c.version < 0))
        except OperationalError as error:
            if "readonly" in str(error.orig):
                return DatabaseState.READ_ONLY
            if "locked" not in str(error.orig):  # by somebody who writes, which shows that one can
                raise
        finally:
            connection.rollback()
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {1000 * _BUSY_SECONDS}")
        return DatabaseState.OK

"""The service's database, shared with the ledger: connection pool, migrations of the service's tables, health probe.

The ledger's tables have migrations of their own, in ledger/stores/migrations.py.
"""

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
"""Step n migrates the schema from version n to n + 1; steps are appended, never changed."""

_MIGRATION_LOCK = 0x73657477
"""The key of the PostgreSQL advisory lock under which the schema is migrated, so that one replica does it at a time."""

_BUSY_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Database:
    """Connections to the service's tables; their errors become `StoreFailed`, with a sentence for the operator.

    - `engine`: a SQLAlchemy engine whose commits wait until data is on disk
    - `relaxed`: a SQLAlchemy engine whose commits do not wait, and so may be lost in a power cut
    - `writer`: a lock that is held while a SQLite file is written; for PostgreSQL it does nothing
    """

    engine: Engine
    relaxed: Engine
    writer: AbstractContextManager[object]

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Context manager that yields a connection for reading the service's tables.

        Raises `StoreFailed` for an error of the database.
        """
        with _as_store_failed(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Connection]:
        """Context manager that yields a connection in a transaction, which commits at the end of the `with` block.

        If not `durable`, the commit does not wait for the disk and may be lost if the machine goes down, so it is for
        data that can be made again. Raises `IntegrityError` if a value that must be unique exists already, and
        `StoreFailed` for any other error of the database.
        """
        with _as_store_failed(), self.writer, (self.engine if durable else self.relaxed).begin() as connection:
            yield connection

    def close(self) -> None:
        """Close every connection to the service's tables."""
        self.engine.dispose()
        self.relaxed.dispose()


def open_database(url: str) -> Database:
    """Open the database at `url`, in which a ledger exists, and migrate the service's tables to the current version.

    Raises `StoreFailed` if the tables are of a later version, or the database does not answer.
    """
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
    """Set the options (pragmas) of `connection`, a new SQLite connection, such as how long it waits for a lock.

    `synchronous` is "FULL" if commits shall wait for the disk, and "NORMAL" if not. SQLAlchemy calls this function and
    also passes `_record`, its own record of the connection, which is not used.
    """
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA busy_timeout = {1000 * _BUSY_SECONDS}")


def _migrate(database: Database) -> None:
    """Run the migration steps that the database has not had yet, under a lock.

    The lock makes other replicas (processes of the service), which may start at the same time, wait.
    """
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
def _as_store_failed() -> Iterator[None]:
    """Context manager that turns database errors in its `with` block into `StoreFailed` with a message of one sentence.

    An `IntegrityError`, which says that a value must be unique and exists already, is passed on: the caller then tells
    which name or key is taken.
    """
    try:
        yield
    except IntegrityError:
        raise
    except (OperationalError, InterfaceError) as error:  # about connections and locks; their messages quote no values
        message = (str(error.orig).splitlines() or [type(error).__name__])[0]
        raise StoreFailed(f"the service's database did not answer ({message}); try again in a moment") from None
    except SQLAlchemyError as error:
        kind = type(error).__name__
        raise StoreFailed(f"the service's database did not answer ({kind}); try again in a moment") from None


class DatabaseState(StrEnum):
    """What a database lets the service do: read and write, or only read."""

    OK = "ok"
    """Rows can be read and written."""
    READ_ONLY = "read-only"
    """Rows can be read. Nothing can be charged, so only stored answers are given."""


_PROBE_SECONDS = 1.0
"""Seconds for which an answer of the database counts as recent; the database is probed no more often than this."""

_PATIENT_SECONDS = 0.1
"""Seconds that a request waits for a running probe, so that health requests are answered while the database hangs."""

_SILENT_SECONDS = 5.0
"""Seconds for which a test may wait until the database counts as gone; a checkpoint or long transaction takes less."""


class DatabaseProbe:
    """Tests whether the database answers, at most once a second and in a thread of its own.

    A test may hang for as long as the database does. A health request therefore waits for a test at most a tenth of a
    second, and then gets the result of the previous test instead. Before the first test has ended, the database counts
    as answering, because `open_database` has just read the version of its tables.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._probe: asyncio.Future[DatabaseState] | None = None
        """The test that is running or, if none is running, the last one."""
        self._previous: asyncio.Future[DatabaseState] | None = None
        """The test before that one, which has ended."""
        self._started = float("-inf")
        """The time at which the test `_probe` was started."""

    async def check(self) -> DatabaseState:
        """Return whether the database can be read and written, or only read.

        Raises `StoreFailed` if the last test that ended has failed, or if a test has been running for 5 seconds.
        """
        now = time.monotonic()
        if self._probe is None or (self._probe.done() and now - self._started > _PROBE_SECONDS):
            self._previous, self._probe, self._started = self._probe, self._start(), now
        if not self._probe.done():
            await asyncio.wait([self._probe], timeout=_PATIENT_SECONDS)
        if self._probe.done():
            return self._probe.result()
        # The time counts from the start of the test and not from the last answer, which may be old only because nobody
        # has asked for the health of the replica.
        if now - self._started > _SILENT_SECONDS:
            raise StoreFailed("the service's database does not answer a probe; see whether it hangs")
        return DatabaseState.OK if self._previous is None else self._previous.result()

    def _start(self) -> "asyncio.Future[DatabaseState]":
        """Start a test of the database in a daemon thread, and return the future of its result.

        A daemon thread does not keep this process from ending while the database hangs.
        """
        loop = asyncio.get_running_loop()
        probe: asyncio.Future[DatabaseState] = loop.create_future()
        probe.add_done_callback(lambda ended: ended.exception())  # so that asyncio does not log an unretrieved error

        def ask() -> None:
            """Test the database in this thread, and set its state, or the error, as the result of the future `probe`.

            The function around this one has made `probe`. A future may be set only in its event loop, which is `loop`.
            """
            with suppress(RuntimeError):  # raised if the event loop is closed because the replica has stopped
                try:
                    state = probe_state(self._database)
                except StoreFailed as error:
                    loop.call_soon_threadsafe(probe.set_exception, error)
                else:
                    loop.call_soon_threadsafe(probe.set_result, state)

        threading.Thread(target=ask, name="setwise-probe", daemon=True).start()
        return probe


def probe_state(database: Database) -> DatabaseState:
    """Return whether the database can be read and written, or only read. Raises `StoreFailed` if it does not answer."""
    with database.reading() as connection:
        if database.engine.dialect.name != "sqlite":
            read_only = connection.scalar(text("SHOW transaction_read_only")) == "on"  # also "on" on a standby server
            return DatabaseState.READ_ONLY if read_only else DatabaseState.OK
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        try:  # deletes nothing, because no row has such a version, but takes the write lock like any write
            connection.execute(delete(schema.versions).where(schema.versions.c.version < 0))
        except OperationalError as error:
            if "readonly" in str(error.orig):
                return DatabaseState.READ_ONLY
            if "locked" not in str(error.orig):  # a lock means that somebody else is writing, so writes are possible
                raise
        finally:
            connection.rollback()
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {1000 * _BUSY_SECONDS}")
        return DatabaseState.OK

"""The ledger in a SQLite file: write-ahead log, flushed at every commit, one writer at a time.

`append_in` writes a charge; the triggers of sqlite_triggers.py keep the balances and refuse what overdraws one.
"""

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from setwise.errors import StoreFailed
from setwise.ledger.records import Entry, link
from setwise.ledger.stores.base import OPTIMISTIC_ATTEMPTS, Draft, Overtaken, Refused, cause

PATIENCE = 60.0
"""Seconds that a writer waits for the write lock."""

_LONGEST_PAUSE = 0.004
"""Seconds between two looks at the write lock; SQLite's own pauses grow to a tenth of a second and starve writers."""

_LAST = "SELECT entries, head FROM ledger_accounts WHERE holder = ?"
_ENTRY = """
INSERT INTO ledger_entries (holder, position, kind, key, period, at, uses, content, moves, digest, previous, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


_write_locks: dict[Path, threading.Lock] = {}


def write_lock(path: Path) -> threading.Lock:
    """Return the lock on which the threads of this process queue to write a file, whoever opened it."""
    return _write_locks.setdefault(path.resolve(), threading.Lock())


class SqliteStore:
    """A SQLite file that keeps a ledger."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self._path = Path(path)
        self._writer = write_lock(self._path)
        if not read_only:
            _make_private(self._path)
        self._engine = _engine(self._path, read_only=read_only)

    @property
    def address(self) -> str:
        """The path of the file."""
        return str(self._path)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a consistent view: a deferred transaction sees one state of the log."""
        with self._connection() as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                _abandon(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that holds the file's only write lock; threads of this process queue before it."""
        with self._writer, self._connection() as connection:
            self._begin(_driver(connection))
            try:
                yield connection
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                _abandon(connection)
                raise

    def append(self, draft: Draft) -> Entry:
        """Append an entry with its movements, durably; raise `Refused` when a constraint forbids it."""
        with self.writing() as connection:
            return self.append_in(connection, draft)

    def append_priced(self, holder: int, drafts: Callable[[Connection], Sequence[Draft]]) -> Entry:  # noqa: ARG002 - one writer
        """Append, all or none, drafts that nobody else's entry comes between; return the last entry.

        They are first made without holding the file, which others would have to wait for.
        """
        for _ in range(OPTIMISTIC_ATTEMPTS):
            with self.reading() as connection:
                made = drafts(connection)
            if len(made) > 1:
                break
            with suppress(Overtaken):
                return self.append(made[0])
        with self.writing() as connection:
            return [self.append_in(connection, draft) for draft in drafts(connection)][-1]

    def append_in(self, connection: Connection, draft: Draft) -> Entry:
        """Append an entry inside a transaction of `writing`."""
        count, head = connection.exec_driver_sql(_LAST, (draft.holder,)).one()
        contents, position, at = draft.contents_with_moves(), count + 1, draft.at
        if draft.position not in (None, position):
            raise Overtaken
        own = contents.digest()
        hashed = link(head, position, at, own)
        said = (contents.kind, contents.key, contents.period, at, contents.uses, contents.text, contents.moves)
        try:
            connection.exec_driver_sql(_ENTRY, (draft.holder, position, *said, own, head, hashed))
        except IntegrityError:
            raise Refused from None
        return Entry(contents=contents, position=position, at=at, previous=head, hash=hashed)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _begin(self, driver: sqlite3.Connection) -> None:
        """Take the write lock, with short random pauses while another process has it."""
        deadline = time.monotonic() + PATIENCE
        driver.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    driver.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                    if not busy or time.monotonic() > deadline:
                        raise StoreFailed(f"the ledger {self.address} failed: {error}") from None
                    time.sleep(random.uniform(0.0, _LONGEST_PAUSE))  # noqa: S311 - a pause, not a secret
                else:
                    return
        finally:
            driver.execute(f"PRAGMA busy_timeout = {round(1000 * PATIENCE)}")

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreFailed(f"the ledger {self.address} failed: {cause(error)}") from None
        except UnicodeDecodeError:
            raise StoreFailed(f"the ledger {self.address} is damaged: it holds text that is not UTF-8") from None


def _make_private(path: Path) -> None:
    """Create the file if it is missing, for its owner alone; SQLite gives its log the same permissions."""
    with suppress(OSError):  # the driver says what is wrong with the path
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _mode_to_read(path: Path) -> str:
    """Return how to open a file for reading: as one that nobody changes, where no log can be kept beside it."""
    log = path.with_name(f"{path.name}-wal")
    alone = not log.exists() or log.stat().st_size == 0
    return "immutable=1" if alone and not os.access(path.parent, os.W_OK) else "mode=ro"


_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON")


def _engine(path: Path, *, read_only: bool) -> Engine:
    address = f"sqlite:///file:{quote(str(path))}?{_mode_to_read(path)}&uri=true" if read_only else ""
    engine = create_engine(
        address or URL.create("sqlite", database=str(path)),
        isolation_level="AUTOCOMMIT",
        connect_args={"timeout": PATIENCE, "check_same_thread": False},
        poolclass=QueuePool,
        pool_size=8,
        max_overflow=32,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        for pragma in _PRAGMAS[1:] if read_only else _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").close()

    return engine


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast(sqlite3.Connection, connection.connection.driver_connection)


def _abandon(connection: Connection) -> None:
    """Roll back; some errors of SQLite have ended the transaction already."""
    if not connection.invalidated and _driver(connection).in_transaction:
        connection.exec_driver_sql("ROLLBACK")

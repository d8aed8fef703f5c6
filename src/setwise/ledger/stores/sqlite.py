"""The ledger in a SQLite file: write-ahead log, locks and waiting for them, pragmas, one writer at a time.

Entries that threads append at the same time are committed together: a flush of the disk takes most of the time of a
commit, and serves any number of entries.

`append_in` writes a charge. The triggers of sqlite_triggers.py then update the balances, and the check `OVERSPENT` of
schema.py refuses an update that would overdraw one.
"""

import os
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from setwise.errors import StoreFailed
from setwise.ledger.records import Entry, link
from setwise.ledger.stores.base import OPTIMISTIC_ATTEMPTS, Draft, Overtaken, Refused, cause

PATIENCE = 60.0
"""Seconds that a writer waits for the write lock."""

_LONGEST_PAUSE = 0.004
"""Seconds between two attempts to take the write lock.

SQLite's own pauses grow to a tenth of a second, so that a writer can wait in vain while others come and go.
"""

_MOST_TOGETHER = 64
"""The most entries that one transaction appends, so that none waits long for the entries after it."""

_LAST = "SELECT entries, head FROM ledger_accounts WHERE holder = ?"
_ENTRY = """
INSERT INTO ledger_entries (holder, position, kind, key, period, at, uses, content, moves, digest, previous, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


_write_locks: dict[Path, threading.Lock] = {}


def write_lock(path: Path) -> threading.Lock:
    """Return the lock that threads of this process take before they write the SQLite file at `path`.

    All stores of this process on the same path share one lock.
    """
    return _write_locks.setdefault(path.resolve(), threading.Lock())


@dataclass(eq=False, slots=True)
class _Append:
    """An entry that a thread waits to append: its `draft`, and afterwards the appended `entry` or the `error`.

    The waiting thread sleeps until `woken` is set. `woken` is set once another thread has appended the entry or got an
    error for it, or once the entry is the first in the queue, so that the waiting thread must append the entries of the
    queue.
    """

    draft: Draft
    entry: Entry | None = None
    error: Exception | None = None
    woken: threading.Event = field(default_factory=threading.Event)

    @property
    def is_done(self) -> bool:
        """Whether the waiting thread can go on, because its entry was appended or got an error."""
        return self.entry is not None or self.error is not None


class SqliteStore:
    """A SQLite file, at `path`, that keeps a ledger; with `read_only` it is never written."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self._path = Path(path)
        self._writer = write_lock(self._path)
        self._appends: deque[_Append] = deque()
        self._queueing = threading.Lock()
        """Held while `_appends`, the entries that threads wait to append, is read or changed."""
        if not read_only:
            _make_private(self._path)
        self._engine = _engine(self._path, read_only=read_only)
        self._idle: list[Connection] = []
        """Open connections that no thread uses: taking one from SQLAlchemy's pool takes longer than SQLite's work."""

    @property
    def address(self) -> str:
        """The path of the SQLite file."""
        return str(self._path)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection whose transaction sees one consistent state of the file."""
        with self._connection() as connection:
            _driver(connection).execute("BEGIN")
            try:
                yield connection
            finally:
                _abandon(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection whose transaction has the file's only write lock; it is committed at the end of the block.

        Threads first wait for a lock of this process, and only then for the lock of the file.
        """
        with self._writer, self._transaction() as connection:
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Yield a connection whose transaction is committed at the end of the block, or rolled back if that raises.

        The caller must hold `_writer`, the lock that threads of this process take before they write the file.
        """
        with self._connection() as connection:
            self._begin(_driver(connection))
            try:
                yield connection
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                _abandon(connection)
                raise

    def append(self, draft: Draft) -> Entry:
        """Append the entry `draft` with its balance changes durably, and return the entry with its position and hash.

        Raises `Refused` if a constraint forbids the entry, and `Overtaken` if another entry has the position in
        `draft`.
        """
        append = _Append(draft)
        try:
            with self._queueing:
                self._appends.append(append)
                self._appends[0].woken.set()
            append.woken.wait()
            if not append.is_done:
                with self._writer:  # the first thread in the queue appends for all that came while it waited
                    if not append.is_done:
                        self._append_together()
        except BaseException:  # an interrupt: the threads after this one must not wait for it
            self._leave_queue([append])
            raise
        with self._errors():
            if append.error is not None:
                raise append.error
        assert append.entry is not None
        return append.entry

    def _append_together(self) -> None:
        """Append the first entries of the queue in one transaction, and wake the threads that wait for these entries.

        Each thread gets its appended entry or its error. If the database refuses an entry, the other entries are still
        appended; if the transaction fails, every thread gets an error. The caller must hold `_writer`, the lock for
        writing the file.
        """
        with self._queueing:
            appends = list(self._appends)[:_MOST_TOGETHER]
        outcomes: list[Entry | Exception] = []
        failure = f"the ledger {self.address} failed: interrupted"
        is_committed = False
        try:
            with self._transaction() as connection:
                for append in appends:
                    try:
                        outcomes.append(self.append_in(connection, append.draft))
                    except Exception as error:
                        if not _driver(connection).in_transaction:  # all entries are undone, as when the disk is full
                            raise
                        outcomes.append(error)  # this entry alone is undone
            is_committed = True
        except StoreFailed as error:
            failure = str(error)
        finally:  # also after an interrupt: no thread may wait for an entry that nobody appends any more
            for place, append in enumerate(appends):
                outcome = outcomes[place] if is_committed else StoreFailed(failure)
                if isinstance(outcome, Entry):
                    append.entry = outcome
                else:
                    append.error = outcome
            self._leave_queue(appends)

    def _leave_queue(self, appends: Sequence[_Append]) -> None:
        """Remove `appends` (entries that threads wait to append) from the queue, and wake the threads.

        The thread whose entry is now the first in the queue is woken, too: its turn to append has come.
        """
        with self._queueing:
            for append in appends:
                with suppress(ValueError):  # an interrupted thread has removed it before
                    self._appends.remove(append)
                append.woken.set()
            if self._appends:
                self._appends[0].woken.set()

    def append_priced(self, holder: int, drafts: Callable[[Connection], Sequence[Draft]]) -> Entry:  # noqa: ARG002 - one writer
        """Append one or more entries to an account in one transaction, with no other entry between; return the last.

        `holder` is the number of the ledger record that opened the account. `drafts(connection)` reads the account's
        balances and returns the entries, with prices computed from these balances. If another entry is appended
        meanwhile, the prices may be wrong, so `drafts` is called again.
        """
        # Without the write lock at first, so that other writers need not wait for prices.
        for _ in range(OPTIMISTIC_ATTEMPTS):
            with self.reading() as connection:
                entries_to_append = drafts(connection)
            if len(entries_to_append) > 1:
                break
            with suppress(Overtaken):
                return self.append(entries_to_append[0])
        with self.writing() as connection:
            return [self.append_in(connection, draft) for draft in drafts(connection)][-1]

    def append_in(self, connection: Connection, draft: Draft) -> Entry:
        """Append an entry inside a transaction that the caller opened with `writing`; return it with position and hash.

        Nothing is committed here. Raises `Overtaken` if another entry has the position in `draft`, and `Refused` if a
        constraint forbids the entry.
        """
        driver = _driver(
            connection
        )  # SQLAlchemy's own layers take several times as long as SQLite for these statements
        count, head = driver.execute(_LAST, (draft.holder,)).fetchone()
        contents, position, at = draft.contents_with_moves(), count + 1, draft.at
        if draft.position not in (None, position):
            raise Overtaken
        contents_digest = contents.digest()
        hashed = link(head, position, at, contents_digest)
        values = (contents.kind, contents.key, contents.period, at, contents.uses, contents.text, contents.moves)
        try:
            driver.execute(_ENTRY, (draft.holder, position, *values, contents_digest, head, hashed))
        except sqlite3.IntegrityError:
            raise Refused from None
        return Entry(contents=contents, position=position, at=at, previous=head, hash=hashed)

    def close(self) -> None:
        """Close every connection to the SQLite file."""
        while self._idle:
            self._idle.pop().close()
        self._engine.dispose()

    def _begin(self, driver: sqlite3.Connection) -> None:
        """Start a transaction with the file's write lock on the connection `driver`.

        While another process has the lock, this tries again after random pauses. Raises `StoreFailed` after 60 seconds,
        or for any other error of the file.
        """
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
        """Yield a connection that no other thread uses, and turn database errors into `StoreFailed`."""
        with self._errors():
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._engine.connect()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Context manager that turns database errors inside its block into `StoreFailed`."""
        try:
            yield
        except SQLAlchemyError as error:
            raise StoreFailed(f"the ledger {self.address} failed: {cause(error)}") from None
        except sqlite3.Error as error:  # of a statement that went past SQLAlchemy
            raise StoreFailed(f"the ledger {self.address} failed: {str(error).rstrip('.')}") from None
        except UnicodeDecodeError:
            raise StoreFailed(f"the ledger {self.address} is damaged: it holds text that is not UTF-8") from None


def _make_private(path: Path) -> None:
    """Create the SQLite file at `path` if it is missing, readable for its owner alone.

    SQLite gives the file's write-ahead log the same permissions.
    """
    with suppress(OSError):  # opening the database reports what is wrong with the path
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _mode_to_read(path: Path) -> str:
    """Return the URI option with which SQLite opens the file at `path` for reading only.

    It is "mode=ro" in general. With this option, SQLite may have to create a write-ahead log beside the file. If there
    is no log and the folder cannot be written, the option is "immutable=1", with which SQLite needs no log.
    """
    log = path.with_name(f"{path.name}-wal")
    alone = not log.exists() or log.stat().st_size == 0
    return "immutable=1" if alone and not os.access(path.parent, os.W_OK) else "mode=ro"


_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON")


def _engine(path: Path, *, read_only: bool) -> Engine:
    """Return a SQLAlchemy engine with a connection pool on the SQLite file at `path`.

    If `read_only`, its connections cannot write, and a file that is damaged or read-only can still be opened.
    """
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
        """Set the pragmas (SQLite settings) of a `connection` that the pool has just opened.

        The journal mode of a read-only connection is left as it is.
        """
        for pragma in _PRAGMAS[1:] if read_only else _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").close()

    return engine


def _driver(connection: Connection) -> sqlite3.Connection:
    """Return the sqlite3 connection behind a SQLAlchemy connection."""
    return cast(sqlite3.Connection, connection.connection.driver_connection)


def _abandon(connection: Connection) -> None:
    """Roll back the transaction of `connection`, unless an error of SQLite has ended it already."""
    if not connection.invalidated and _driver(connection).in_transaction:
        _driver(connection).execute("ROLLBACK")

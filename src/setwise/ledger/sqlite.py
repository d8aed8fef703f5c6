"""The ledger in a SQLite file: write-ahead log, flushed at every commit, one writer at a time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from setwise.errors import StoreFailed
from setwise.ledger.entry import Entry, link
from setwise.ledger.rows import last_of
from setwise.ledger.store import SKEW, Draft, Refused
from setwise.ledger.tables import entries, movements

PATIENCE = 60.0
"""Seconds a writer waits for the others."""


class SqliteStore:
    """A SQLite file that keeps a ledger."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._writer = threading.Lock()
        self._engine = _engine(self._path)

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
                connection.exec_driver_sql("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that holds the file's only write lock; threads of this process queue before it."""
        with self._writer, self._connection() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
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

    def append_in(self, connection: Connection, draft: Draft) -> Entry:
        """Append an entry inside a transaction of `writing`."""
        last = last_of(connection, draft.holder)
        if draft.contents.kind == "charge" and draft.at < last.at - SKEW:
            raise Refused
        position, at, contents = last.entries + 1, max(last.at, draft.at), draft.contents
        own = contents.digest()
        hashed = link(last.head, position, at, own)
        row = {
            "holder": draft.holder,
            "position": position,
            "kind": contents.kind,
            "key": contents.key,
            "period": contents.period,
            "at": at,
            "uses": contents.uses,
            "content": contents.text,
            "digest": own,
            "previous": last.head,
            "hash": hashed,
        }
        try:
            connection.execute(insert(entries), row)
            for movement in draft.movements:
                connection.execute(
                    insert(movements), {"account": draft.holder, "position": position, **asdict(movement)}
                )
        except IntegrityError:
            raise Refused from None
        return Entry(contents=contents, position=position, at=at, previous=last.head, hash=hashed)

    def close(self) -> None:
        """Let go of every connection."""
        self._engine.dispose()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreFailed(f"the ledger {self.address} failed: {_cause(error)}") from None


def _engine(path: Path) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        isolation_level="AUTOCOMMIT",
        connect_args={"timeout": PATIENCE, "check_same_thread": False},
        poolclass=QueuePool,
        pool_size=8,
        max_overflow=32,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: object, _: object) -> None:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


def _abandon(connection: Connection) -> None:
    """Roll back; some errors of SQLite have ended the transaction already."""
    try:
        connection.exec_driver_sql("ROLLBACK")
    except OperationalError:
        connection.invalidate()


def _cause(error: SQLAlchemyError) -> str:
    """Return the first line of what the driver said."""
    said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    return (said.splitlines() or ["no reason was given"])[0].rstrip(".")

"""The ledger in PostgreSQL 15 or later: an entry and its movements in one statement.

Triggers (postgresql_triggers.py) check the entry and bring balances up to date in the same transaction.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from setwise.errors import MissingExtra, StoreFailed
from setwise.ledger.records import Entry
from setwise.ledger.stores.base import OPTIMISTIC_ATTEMPTS, Draft, Overtaken, Refused, cause

_ALONE = 0x5345545749534531
"""The advisory lock of whoever changes what is opened."""

_SESSION = """
SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'; SET client_encoding = 'UTF8';
SET lock_timeout = '60s'
"""
"""Durable whatever the server's defaults are, and no waiting for ever."""

_APPEND = """
INSERT INTO ledger_entries (holder, position, kind, key, period, at, uses, content, moves, digest)
     VALUES (%(holder)s, %(position)s, %(kind)s, %(key)s, %(period)s, %(at)s, %(uses)s, %(content)s, %(moves)s,
             %(digest)s)
  RETURNING position, previous, hash
"""

_INTEGRITY = "23"
"""The class of the errors that say a constraint forbids it."""


_SERIALIZATION = "40001"
"""The error that says another entry came first."""

_Found = TypeVar("_Found")


class PostgresqlStore:
    """A PostgreSQL database that keeps a ledger."""

    def __init__(self, url: URL) -> None:
        shown = url.set(drivername="postgresql").difference_update_query(["password", "sslpassword"])
        self._address = shown.render_as_string(hide_password=True)
        self._engine = _engine(url)

    @property
    def address(self) -> str:
        """The address, without any password."""
        return self._address

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a consistent view: every query in it sees the same state."""
        with self._as_store_failed(), self._begun("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            try:
                yield connection
            finally:
                _abandon(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that is alone in changing what is opened; charges go on meanwhile."""
        with self._as_store_failed(), self._transaction("SELECT pg_advisory_xact_lock(%s)", _ALONE) as connection:
            yield connection

    def append(self, draft: Draft) -> Entry:
        """Append an entry with its movements, durably; raise `Refused` when a constraint forbids it."""
        return self._retry_once(lambda: self._append_once(draft))

    def append_priced(self, holder: int, drafts: Callable[[Connection], Sequence[Draft]]) -> Entry:
        """Append, all or none, drafts that nobody else's entry comes between; return the last entry.

        A single draft is first tried without holding the account, which others would have to wait for.
        """

        def hopefully() -> Entry | None:
            with self._engine.connect() as connection:
                for _ in range(OPTIMISTIC_ATTEMPTS):
                    made = drafts(connection)
                    if len(made) > 1:
                        break
                    with suppress(Overtaken):
                        return self.append_in(connection, made[0])
            return None

        def alone() -> Entry:
            lock = "SELECT 1 FROM ledger_accounts WHERE holder = %s FOR UPDATE"
            with self._transaction(lock, holder) as connection:
                return [self.append_in(connection, draft) for draft in drafts(connection)][-1]

        entry = self._retry_once(hopefully)
        return self._retry_once(alone) if entry is None else entry

    def _retry_once(self, append: Callable[[], _Found]) -> _Found:
        """Append, a second time when the connection was cut: a key is used once, so that is safe."""
        with self._as_store_failed():
            try:
                return append()
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            return append()

    @contextmanager
    def _transaction(self, lock: str, what: int) -> Iterator[Connection]:
        with self._begun("BEGIN") as connection:
            try:
                connection.exec_driver_sql(lock, (what,))
                yield connection
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                _abandon(connection)
                raise

    def append_in(self, connection: Connection, draft: Draft) -> Entry:
        """Append an entry inside a transaction of `writing`."""
        contents = draft.contents_with_moves()
        values = {
            "holder": draft.holder,
            "position": draft.position,
            "kind": contents.kind,
            "key": contents.key,
            "period": contents.period,
            "at": draft.at,
            "uses": contents.uses,
            "content": contents.text,
            "digest": contents.digest(),
            "moves": contents.moves,
        }
        try:
            position, previous, hashed = connection.exec_driver_sql(_APPEND, values).one()
        except DBAPIError as error:
            state = str(getattr(error.orig, "sqlstate", ""))
            if state.startswith(_INTEGRITY):
                raise Refused from None
            if state == _SERIALIZATION:
                raise Overtaken from None
            raise
        return Entry(contents=contents, position=position, at=draft.at, previous=previous, hash=hashed)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _append_once(self, draft: Draft) -> Entry:
        with self._engine.connect() as connection:  # one statement, committed as it ends
            return self.append_in(connection, draft)

    @contextmanager
    def _begun(self, begin: str) -> Iterator[Connection]:
        """Yield a connection with a transaction begun, over a fresh connection when the pooled one was cut."""
        connection = self._engine.connect()
        try:
            try:
                connection.exec_driver_sql(begin)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                connection.close()
                connection = self._engine.connect()
                connection.exec_driver_sql(begin)
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _as_store_failed(self) -> Iterator[None]:
        """Turn what goes wrong with the database into one sentence."""
        try:
            yield
        except SQLAlchemyError as error:
            raise StoreFailed(f"the ledger {self.address} failed: {cause(error)}") from None


def _engine(url: URL) -> Engine:
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            isolation_level="AUTOCOMMIT",
            connect_args={"connect_timeout": 10, "application_name": "setwise"},
            pool_size=8,
            max_overflow=32,
        )
    except ModuleNotFoundError:
        raise MissingExtra("a ledger in PostgreSQL needs psycopg: pip install 'setwise[postgres]'") from None

    @event.listens_for(engine, "connect")
    def prepare(connection: object, _: object) -> None:
        connection.autocommit = True  # type: ignore[attr-defined]
        connection.execute(_SESSION)  # type: ignore[attr-defined]

    return engine


def _abandon(connection: Connection) -> None:
    """Roll back, unless the connection is gone and the transaction with it."""
    if connection.invalidated or connection.closed:
        return
    try:
        connection.exec_driver_sql("ROLLBACK")
    except DBAPIError:
        connection.invalidate()

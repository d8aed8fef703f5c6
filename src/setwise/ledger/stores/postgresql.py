"""The ledger in PostgreSQL 15 or later: one statement writes an entry and its balance changes; locks and retries.

Triggers (postgresql_triggers.py) check the entry and update the balances in the same transaction.
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
"""The key of the advisory lock that a transaction of `writing` holds, so that only one of them runs at a time."""

_SESSION = """
SET synchronous_commit = on; SET default_transaction_isolation = 'read committed'; SET client_encoding = 'UTF8';
SET lock_timeout = '60s'
"""
"""Settings of every connection: commits are durable whatever the server's defaults, and lock waits end after 60 s."""

_APPEND = """
INSERT INTO ledger_entries (holder, position, kind, key, period, at, uses, content, moves, digest)
     VALUES (%(holder)s, %(position)s, %(kind)s, %(key)s, %(period)s, %(at)s, %(uses)s, %(content)s, %(moves)s,
             %(digest)s)
  RETURNING position, previous, hash
"""

_INTEGRITY = "23"
"""The class of SQLSTATE codes by which PostgreSQL says that a constraint forbids the statement."""


_SERIALIZATION = "40001"
"""The SQLSTATE code with which the trigger says that another entry has taken the position."""

_Result = TypeVar("_Result")


class PostgresqlStore:
    """A PostgreSQL database, at the address `url`, that keeps a ledger."""

    def __init__(self, url: URL) -> None:
        shown = url.set(drivername="postgresql").difference_update_query(["password", "sslpassword"])
        self._address = shown.render_as_string(hide_password=True)
        self._engine = _engine(url)

    @property
    def address(self) -> str:
        """The URL of the database, without any password."""
        return self._address

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection whose read-only transaction sees one consistent state of the database."""
        with (
            self._as_store_failed(),
            self._begin_transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection,
        ):
            try:
                yield connection
            finally:
                _abandon(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that alone may write the register (openings and audit events).

        The transaction is committed at the end of the block. Charges in other transactions go on meanwhile.
        """
        with self._as_store_failed(), self._transaction("SELECT pg_advisory_xact_lock(%s)", _ALONE) as connection:
            yield connection

    def append(self, draft: Draft) -> Entry:
        """Append the entry `draft` with its balance changes durably, and return the entry with its position and hash.

        An entry is, for example, a charge or an answer in an account's hash chain. Raises `Refused` if a constraint of
        the database forbids the entry, and `Overtaken` if another entry has the position that `draft` asks for.
        """
        return self._retry_once(lambda: self._append_once(draft))

    def append_priced(self, holder: int, drafts: Callable[[Connection], Sequence[Draft]]) -> Entry:
        """Append one or more entries to an account in one transaction, with no other entry between; return the last.

        - `holder` is the number of the ledger record that opened the account.
        - `drafts(connection)` reads the account's balances and returns the entries with the prices that follow from
          these balances. The function may be called several times, for example if a concurrent entry has made the
          prices outdated.
        """

        def append_without_lock() -> Entry | None:
            """Price and append a single entry without locking the account, and return the entry.

            The result is None if there are several entries to append, or if at every attempt another transaction
            appended an entry first, so that the price was outdated. The caller then locks the account.
            """
            with self._engine.connect() as connection:
                for _ in range(OPTIMISTIC_ATTEMPTS):
                    entries_to_append = drafts(connection)
                    if len(entries_to_append) > 1:
                        break
                    with suppress(Overtaken):
                        return self.append_in(connection, entries_to_append[0])
            return None

        def append_with_lock() -> Entry:
            """Lock the account, then compute the prices of all its new entries and append them; return the last entry.

            The lock keeps other transactions from appending an entry first, which would make the prices outdated. All
            entries are appended in one transaction.
            """
            lock = "SELECT 1 FROM ledger_accounts WHERE holder = %s FOR UPDATE"
            with self._transaction(lock, holder) as connection:
                return [self.append_in(connection, draft) for draft in drafts(connection)][-1]

        entry = self._retry_once(append_without_lock)
        return self._retry_once(append_with_lock) if entry is None else entry

    def _retry_once(self, append: Callable[[], _Result]) -> _Result:
        """Call the function `append`, which writes an entry, and call it again if the connection was cut.

        The second call cannot write the entry twice: if the first call was committed after all, the entry's key is
        taken, and the database refuses the second.
        """
        with self._as_store_failed():
            try:
                return append()
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            return append()

    @contextmanager
    def _transaction(self, lock: str, lock_key: int) -> Iterator[Connection]:
        """Yield a connection in a transaction that holds a lock, which the SQL statement `lock` takes.

        `lock_key` is the parameter of the statement: an account's number, or a fixed number for the whole register. The
        transaction is committed at the end of the block, or rolled back if the block raises.
        """
        with self._begin_transaction("BEGIN") as connection:
            try:
                connection.exec_driver_sql(lock, (lock_key,))
                yield connection
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                _abandon(connection)
                raise

    def append_in(self, connection: Connection, draft: Draft) -> Entry:
        """Append an entry inside a transaction that the caller opened, and return the entry with its position and hash.

        Nothing is committed here. `draft` may ask for a position in the account's chain, the only one for which its
        price was computed. Raises `Overtaken` if another entry has this position, and `Refused` if a constraint forbids
        the entry.
        """
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
        """Close every connection to the PostgreSQL server."""
        self._engine.dispose()

    def _append_once(self, draft: Draft) -> Entry:
        """Append the entry `draft` by a single SQL statement, which commits by itself; return the entry."""
        with self._engine.connect() as connection:
            return self.append_in(connection, draft)

    @contextmanager
    def _begin_transaction(self, begin: str) -> Iterator[Connection]:
        """Yield a connection on which the SQL statement `begin` has started a transaction.

        If the connection from the pool turns out to be cut, a fresh connection is used.
        """
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
        """Context manager that turns database errors into `StoreFailed`.

        The message has the database's address and the first line of the driver's message.
        """
        try:
            yield
        except SQLAlchemyError as error:
            raise StoreFailed(f"the ledger {self.address} failed: {cause(error)}") from None


def _engine(url: URL) -> Engine:
    """Return a SQLAlchemy engine with a connection pool on the database at `url`.

    Raises `MissingExtra` if psycopg is not installed.
    """
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
        """Apply the ledger's session settings to a connection that the pool has just opened."""
        connection.autocommit = True  # type: ignore[attr-defined]
        connection.execute(_SESSION)  # type: ignore[attr-defined]

    return engine


def _abandon(connection: Connection) -> None:
    """Roll back the transaction of `connection`, unless the connection is lost, which ends the transaction anyway."""
    if connection.invalidated or connection.closed:
        return
    try:
        connection.exec_driver_sql("ROLLBACK")
    except DBAPIError:
        connection.invalidate()

"""Open the store at an address: a SQLite file, or a PostgreSQL database.

A new store implements `Store` of base.py, has triggers that update balances, and is chosen in `_store`.
"""

from shlex import quote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from setwise.errors import InvalidParameter, StoreFailed
from setwise.ledger.stores.base import Store
from setwise.ledger.stores.migrations import MIGRATIONS, check_version, migrate, schema_faults, version_of
from setwise.ledger.stores.postgresql import PostgresqlStore
from setwise.ledger.stores.sqlite import SqliteStore

_FORMS = "a path such as setwise.db, or postgresql://user@host/database"


def connect(url: str, at: int) -> Store:
    """Open the store (the database that keeps a ledger) at `url`; create or migrate its tables if needed.

    `url` is the path of a SQLite file or the address of a PostgreSQL database. `at` is the timestamp, in microseconds
    since 1970, with which migrations are recorded.

    Raises `InvalidParameter` for an address of another form, and `StoreFailed` for a database whose tables or triggers
    were changed by something else than Setwise.
    """
    store = _store(url)
    try:
        if _version(store) < len(MIGRATIONS):
            with store.writing() as connection:
                migrate(connection, store.address, at)
        with store.reading() as connection:
            if faults := schema_faults(connection):
                verify = f"setwise ledger verify --ledger {quote(store.address)}"
                raise StoreFailed(f"the ledger {store.address} {faults[0]}; {verify} lists what is wrong")
    except BaseException:
        store.close()
        raise
    return store


def connect_to_read(url: str) -> Store:
    """Open the store at `url` for reading only, so that a damaged or read-only ledger can be inspected.

    No table is created, migrated or checked. Raises `StoreFailed` if the tables are of another version of the schema
    than this version of Setwise uses.
    """
    path = sqlite_path(url)
    store = _store(url) if path is None else SqliteStore(path, read_only=True)
    try:
        if (version := _version(store)) < len(MIGRATIONS):
            raise StoreFailed(
                f"the ledger {store.address} is of the earlier version {version}; setwise ledger show --ledger "
                f"{quote(store.address)} brings it up to date where it can be written"
            )
    except BaseException:
        store.close()
        raise
    return store


def _version(store: Store) -> int:
    """Return the schema version of a store; raise `StoreFailed` if a later version of Setwise wrote the store."""
    with store.reading() as connection:
        version = version_of(connection)
    check_version(version, store.address)
    return version


def sqlite_path(url: str) -> str | None:
    """Return the file path in `url`, the address of a SQLite ledger; None if it is the address of another database.

    Raises `InvalidParameter` for an empty address, or for a database in memory, which would be lost with the process.
    """
    if not isinstance(url, str) or not url.strip():
        raise InvalidParameter(f"a ledger's address is {_FORMS}, not {url!r}")
    if "://" not in url:
        path = url
    elif url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
    else:
        return None
    if path in ("", ":memory:") or "\0" in path:
        raise InvalidParameter("a ledger in memory would be lost when the process ends; give the path of a file")
    return path


def _store(url: str) -> Store:
    """Return the store (SQLite file or PostgreSQL database) at `url`, without creating or checking its tables."""
    path = sqlite_path(url)
    return PostgresqlStore(_postgresql(url)) if path is None else SqliteStore(path)


def _postgresql(url: str) -> URL:
    """Return `url`, the address of a PostgreSQL database, as a parsed URL.

    Raises `InvalidParameter` for any other address. The message does not repeat the address, which may contain a
    password.
    """
    scheme = url.partition("://")[0]
    if scheme not in ("postgresql", "postgres"):
        raise InvalidParameter(f"a ledger's address is {_FORMS}, not {scheme}://...")
    try:
        return make_url(url).set(drivername="postgresql")
    except (ArgumentError, ValueError):
        raise InvalidParameter("the ledger's postgresql:// address cannot be read") from None

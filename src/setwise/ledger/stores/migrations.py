"""The versions of the schema, in order; opening a store brings it up to the last."""

from collections.abc import Callable

from sqlalchemy import Connection, func, insert, inspect, select

from setwise.errors import StoreFailed
from setwise.ledger.stores import postgresql_triggers, sqlite_triggers
from setwise.ledger.stores.schema import SCHEMA, versions


def _tables(connection: Connection) -> None:
    SCHEMA.create_all(connection)


def _triggers(connection: Connection) -> None:
    triggers = {"sqlite": sqlite_triggers, "postgresql": postgresql_triggers}[connection.dialect.name]
    for statement in triggers.statements():
        connection.exec_driver_sql(statement)


MIGRATIONS: tuple[tuple[str, Callable[[Connection], None]], ...] = (
    ("tables", _tables),
    ("triggers", _triggers),
)
"""Never changed once released, only added to: a store of version n has had the first n."""


def version_of(connection: Connection) -> int:
    """Return the version of the store, 0 when there is no ledger in it yet."""
    if not inspect(connection).has_table(versions.name):
        return 0
    return int(connection.execute(select(func.coalesce(func.max(versions.c.version), 0))).scalar_one())


def check_version(version: int, address: str) -> None:
    """Raise `StoreFailed` for a store that a later Setwise has written."""
    if version > len(MIGRATIONS):
        raise StoreFailed(
            f"the ledger {address} has version {version}, and this Setwise knows versions up to {len(MIGRATIONS)}; "
            "install a later Setwise"
        )


def migrate(connection: Connection, address: str, at: int) -> None:
    """Bring the store up to the last version, inside the caller's transaction."""
    version = version_of(connection)
    check_version(version, address)
    if version == 0:
        versions.create(connection, checkfirst=True)
    for number, (name, apply) in enumerate(MIGRATIONS[version:], version + 1):
        apply(connection)
        connection.execute(insert(versions), {"version": number, "name": name, "at": at})

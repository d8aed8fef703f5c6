"""The versions of the schema, in order; opening a store brings it up to the last."""

import json
from collections.abc import Callable

from sqlalchemy import Connection, Table, func, insert, inspect, select, update
from sqlalchemy.schema import CreateTable

from setwise.errors import StoreFailed
from setwise.ledger.stores import postgresql_triggers, sqlite_triggers
from setwise.ledger.stores.schema import SCHEMA, accounts, entries, openings, versions


def _tables(connection: Connection) -> None:
    SCHEMA.create_all(connection)


def renew_triggers(connection: Connection) -> None:
    """Drop every trigger of the ledger and create those of this version."""
    drop_triggers(connection)
    triggers = {"sqlite": sqlite_triggers, "postgresql": postgresql_triggers}[connection.dialect.name]
    for statement in triggers.statements():
        connection.exec_driver_sql(statement)


def drop_triggers(connection: Connection) -> None:
    """Drop every trigger of the ledger, inside a transaction that creates them again before it ends."""
    if connection.dialect.name == "sqlite":
        found = "SELECT 'DROP TRIGGER ' || name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB 'ledger_*'"
    else:
        found = (
            "SELECT 'DROP FUNCTION ' || oid::regprocedure || ' CASCADE' FROM pg_proc "
            "WHERE pronamespace = current_schema()::regnamespace AND starts_with(proname, 'ledger_')"
        )
    for statement in connection.exec_driver_sql(found).scalars().all():
        connection.exec_driver_sql(statement)


def _acts(connection: Connection) -> None:
    """Let the register hold acts, and accounts a state and their analyst."""
    if "state" not in {column["name"] for column in inspect(connection).get_columns(accounts.name)}:
        drop_triggers(connection)
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("ALTER TABLE ledger_accounts ADD COLUMN analyst TEXT NOT NULL DEFAULT ''")
            connection.exec_driver_sql("ALTER TABLE ledger_accounts ADD COLUMN state TEXT NOT NULL DEFAULT 'open'")
            _rewrite_checks(connection, accounts, openings)
        else:
            for statement in _ACTS_IN_POSTGRESQL:
                connection.exec_driver_sql(statement)
        for index in accounts.indexes:
            index.create(connection, checkfirst=True)
        for holder, body in connection.execute(select(openings.c.holder, openings.c.body)).all():
            analyst = json.loads(body)["analyst"]
            connection.execute(update(accounts).where(accounts.c.holder == holder).values(analyst=analyst))
    renew_triggers(connection)


_ACTS_IN_POSTGRESQL = (
    """ALTER TABLE ledger_accounts ADD COLUMN analyst text COLLATE "C" NOT NULL DEFAULT '',
             ADD COLUMN state text COLLATE "C" NOT NULL DEFAULT 'open'
             CONSTRAINT ledger_state_of_account CHECK (state IN ('open', 'frozen', 'closed'))""",
    "ALTER TABLE ledger_openings DROP CONSTRAINT ledger_openings_kind_check",
    """ALTER TABLE ledger_openings ADD CONSTRAINT ledger_kind_of_opening CHECK
             (kind IN ('setwise', 'filter', 'cap', 'dataset', 'freeze', 'thaw', 'close', 'act', 'head'))""",
)


def _slices(connection: Connection) -> None:
    """Let accounts have entries that move units between a cap and what they hold of it."""
    drop_triggers(connection)
    if connection.dialect.name == "sqlite":
        _rewrite_checks(connection, entries)
    else:
        for name in ("ledger_entries_kind_check", "ledger_kind_of_entry"):
            connection.exec_driver_sql(f"ALTER TABLE ledger_entries DROP CONSTRAINT IF EXISTS {name}")
        connection.exec_driver_sql(
            "ALTER TABLE ledger_entries ADD CONSTRAINT ledger_kind_of_entry "
            "CHECK (kind IN ('charge', 'settle', 'slice'))"
        )
    renew_triggers(connection)


def _rewrite_checks(connection: Connection, *changed: Table) -> None:
    """Give the changed tables of a SQLite file the text that new ones have: only CHECK constraints differ.

    SQLite has no statement for that; https://sqlite.org/lang_altertable.html describes this procedure.
    """
    version = connection.exec_driver_sql("PRAGMA schema_version").scalar_one()
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    for table in changed:
        text = str(CreateTable(table).compile(dialect=connection.dialect)).strip()
        connection.exec_driver_sql(
            "UPDATE sqlite_schema SET sql = ? WHERE type = 'table' AND name = ?", (text, table.name)
        )
    connection.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    connection.exec_driver_sql("PRAGMA writable_schema = RESET")


MIGRATIONS: tuple[tuple[str, Callable[[Connection], None]], ...] = (
    ("tables", _tables),
    ("triggers", renew_triggers),
    ("acts", _acts),
    ("slices", _slices),
)
"""A store of version n has had the first n. The first makes the tables as they are now; later ones keep them."""


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

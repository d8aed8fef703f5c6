"""Migrations of the schema of the ledger, applied when a store is opened, and the check for changes by others.

The service's own tables, in the same database, have migrations of their own: `_MIGRATIONS` in
service/storage/database.py. They are apart because a ledger is also used without the service.
The check compares the tables, constraints and triggers of a database with those that this version creates.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache

from sqlalchemy import (
    CheckConstraint,
    Connection,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    bindparam,
    create_engine,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.schema import CreateTable

from setwise.errors import StoreFailed
from setwise.ledger.stores import postgresql_triggers, sqlite_triggers
from setwise.ledger.stores.read_queries import moves_of
from setwise.ledger.stores.schema import SCHEMA, accounts, entries, openings, versions
from setwise.ledger.stores.seal import moves_digest, write_seal


def _tables(connection: Connection, _: int) -> None:
    """Migration 1 of the ledger's schema: create the tables. The second argument, a timestamp, is not used."""
    SCHEMA.create_all(connection)


def _triggers(connection: Connection, _: int) -> None:
    """Migration 2 of the ledger's schema: create the triggers. The second argument, a timestamp, is not used."""
    renew_triggers(connection)


def renew_triggers(connection: Connection) -> None:
    """Drop all triggers of the ledger's tables and create the triggers of this version of Setwise.

    By these triggers the database itself refuses to change or delete entries, and updates the balances.
    """
    drop_triggers(connection)
    if connection.dialect.name == "sqlite":
        statements = sqlite_triggers.statements()
    else:
        schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
        statements = postgresql_triggers.statements(schema)
    for statement in statements:
        connection.exec_driver_sql(statement)


def drop_triggers(connection: Connection) -> None:
    """Drop every trigger of the ledger; the caller must create them again before its transaction ends."""
    if connection.dialect.name == "sqlite":
        query = "SELECT 'DROP TRIGGER ' || name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB 'ledger_*'"
    else:
        query = (
            "SELECT 'DROP FUNCTION ' || oid::regprocedure || ' CASCADE' FROM pg_proc "
            "WHERE pronamespace = current_schema()::regnamespace AND starts_with(proname, 'ledger_')"
        )
    for statement in connection.exec_driver_sql(query).scalars().all():
        connection.exec_driver_sql(statement)


def _acts(connection: Connection, _: int) -> None:
    """Migration 3 of the ledger's schema: allow audit events, and add the columns `state` and `analyst` to accounts.

    The second argument, a timestamp, is not used.
    """
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


def _slices(connection: Connection, _: int) -> None:
    """Migration 4 of the ledger's schema: allow slice entries.

    A slice entry moves units between a cap (the joint budget of a dataset's accounts) and a slice (the part of the cap
    that is reserved for one account). The second argument, a timestamp, is not used.
    """
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


def _moves(connection: Connection, at: int) -> None:
    """Migration 5 of the ledger's schema: store each entry's balance changes in the entry, and allow releases.

    - Before, balance changes were in a table of their own only, and the hashes of entries did not cover them. Existing
      hashes must stay as they are. So one new audit record, the seal, gets digests of all earlier balance changes. `at`
      is its timestamp, in microseconds since 1970. An empty ledger gets no seal.
    - A release is an entry of a new kind, which stores the answer to one part of a question.
    """
    drop_triggers(connection)
    if "moves" not in {column["name"] for column in inspect(connection).get_columns(entries.name)}:
        kind = "TEXT" if connection.dialect.name == "sqlite" else 'text COLLATE "C"'
        connection.exec_driver_sql(f"ALTER TABLE ledger_entries ADD COLUMN moves {kind} NOT NULL DEFAULT ''")
    if connection.dialect.name == "sqlite":
        _rewrite_checks(connection, entries, openings)
    else:
        for statement in _MOVES_IN_POSTGRESQL:
            connection.exec_driver_sql(statement)
    ends = {}
    for holder, name in connection.execute(select(accounts.c.holder, accounts.c.name).order_by(accounts.c.holder)):
        moves = moves_of(connection, holder)
        if moves:
            _write_moves(connection, holder, moves)
            ends[name] = (len(moves), moves_digest(moves))
    # The hashes of existing entries do not cover their balance changes. The hashes stay, because signed heads (records
    # of where every account's chain ended) refer to them, so a digest of the changes goes into a new record, the seal.
    if ends:
        write_seal(connection, ends, at)
    renew_triggers(connection)


_MOVES_IN_POSTGRESQL = (
    "ALTER TABLE ledger_openings DROP CONSTRAINT IF EXISTS ledger_kind_of_opening",
    """ALTER TABLE ledger_openings ADD CONSTRAINT ledger_kind_of_opening CHECK
             (kind IN ('setwise', 'filter', 'cap', 'dataset', 'freeze', 'thaw', 'close', 'act', 'head', 'seal'))""",
    "ALTER TABLE ledger_entries DROP CONSTRAINT IF EXISTS ledger_kind_of_entry",
    """ALTER TABLE ledger_entries ADD CONSTRAINT ledger_kind_of_entry CHECK
             (kind IN ('charge', 'settle', 'slice', 'release'))""",
)


def _write_moves(connection: Connection, holder: int, moves: list[str]) -> None:
    """Store the balance changes of an account's entries in the column `moves` of these entries.

    `moves` has one JSON text per entry, in the order of the account's entries: the first text is for the entry with the
    position 1. `holder` is the number of the ledger record that opened the account.
    """
    entry_of_row = (entries.c.holder == holder) & (entries.c.position == bindparam("place"))
    rows = [{"place": position, "text": text} for position, text in enumerate(moves, 1)]
    connection.execute(update(entries).where(entry_of_row).values(moves=bindparam("text")), rows)


def _rewrite_checks(connection: Connection, *changed: Table) -> None:
    """Replace the CREATE TABLE text that SQLite has stored for the tables `changed` by the text of this version.

    The two texts may differ only in CHECK constraints. SQLite has no statement that changes such constraints;
    https://sqlite.org/lang_altertable.html describes this procedure instead.
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


MIGRATIONS: tuple[tuple[str, Callable[[Connection, int], None]], ...] = (
    ("tables", _tables),
    ("triggers", _triggers),
    ("acts", _acts),
    ("slices", _slices),
    ("moves", _moves),
)
"""All migrations, each with its name; a store of version n has had the first n.

The first creates the tables as they are now; later migrations leave such tables as they are.
"""

_CHANGES_OF_EARLIER_TABLES = (_acts, _slices, _moves)
"""Migrations that leave the tables and triggers of a new SQLite file exactly as they are."""


def version_of(connection: Connection) -> int:
    """Return the schema version of the store (the database that keeps a ledger); 0 if it contains no ledger yet."""
    if not inspect(connection).has_table(versions.name):
        return 0
    return int(connection.execute(select(func.coalesce(func.max(versions.c.version), 0))).scalar_one())


def check_version(version: int, address: str) -> None:
    """Raise `StoreFailed` if the schema `version` of a ledger is higher than this version of Setwise knows.

    `address` names the store in the message.
    """
    if version > len(MIGRATIONS):
        raise StoreFailed(
            f"the ledger {address} has version {version}, and this Setwise knows versions up to {len(MIGRATIONS)}; "
            "install a later Setwise"
        )


def migrate(connection: Connection, address: str, at: int) -> None:
    """Apply all migrations of the schema that the database still lacks, inside the caller's transaction.

    `address` names the database in error messages, and `at` is the timestamp, in microseconds since 1970, with which
    the migrations are recorded.
    """
    version = version_of(connection)
    check_version(version, address)
    if version == 0:
        versions.create(connection, checkfirst=True)
    is_new_file = version == 0 and connection.dialect.name == "sqlite"
    for number, (name, apply) in enumerate(MIGRATIONS[version:], version + 1):
        # Rewriting the same checks and triggers again would take longer than all else in opening a new ledger.
        if not (is_new_file and apply in _CHANGES_OF_EARLIER_TABLES):
            apply(connection, at)
        connection.execute(insert(versions), {"version": number, "name": name, "at": at})


Objects = dict[str, str]
"""The objects of a schema: the name of each, and its definition in a form that can be compared."""


def schema_faults(connection: Connection) -> list[str]:
    """Return a sentence for every table, column, constraint or trigger that is missing, changed or unknown.

    The list is empty if the schema is the one that this version creates.
    """
    if connection.dialect.name == "sqlite":
        present, expected = _in_sqlite(connection), _expected_in_sqlite()
    else:
        present, expected = _in_postgresql(connection), _expected_in_postgresql()
    faults = [f"lacks the {name}" for name in sorted(expected.keys() - present.keys())]
    faults += [f"has an unknown {name}" for name in sorted(present.keys() - expected.keys())]
    faults += [
        f"has a changed {name}" for name in sorted(expected) if name in present and present[name] != expected[name]
    ]
    return faults


def _in_sqlite(connection: Connection) -> Objects:
    """Return the ledger's tables, indexes and triggers in a SQLite database: a dict from type and name to SQL text."""
    rows = connection.exec_driver_sql(
        "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE tbl_name GLOB 'ledger_*' AND sql NOT NULL"
    )
    return {name: " ".join(sql.split()) for name, sql in rows}


@cache
def _expected_in_sqlite() -> Objects:
    """Return the tables, indexes and triggers of a new SQLite ledger, which is created in memory to read them.

    The result is a dict from type and name to SQL text.
    """
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        versions.create(connection)
        SCHEMA.create_all(connection)
        renew_triggers(connection)
        return _in_sqlite(connection)


_FUNCTIONS = """
SELECT 'function ' || proname,
       CASE WHEN proconfig = ARRAY['search_path=' || quote_ident(current_schema()) || ', pg_temp'] AND NOT prosecdef
            THEN prosrc ELSE 'with another search path: ' || prosrc END
  FROM pg_proc
 WHERE pronamespace = current_schema()::regnamespace AND starts_with(proname, 'ledger_')
"""
_TRIGGERS = """
SELECT 'trigger ' || t.tgname || ' of ' || c.relname, t.tgenabled::text || ' ' || pg_get_triggerdef(t.oid)
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = current_schema()::regnamespace AND starts_with(c.relname, 'ledger_') AND NOT t.tgisinternal
"""
_CONSTRAINTS = """
SELECT c.relname, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
 WHERE c.relnamespace = current_schema()::regnamespace AND starts_with(c.relname, 'ledger_')
   AND k.contype IN ('p', 'u', 'f', 'c') AND k.convalidated
"""
_COLUMNS = """
SELECT 'column ' || a.attname || ' of ' || c.relname, format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
 WHERE c.relnamespace = current_schema()::regnamespace AND starts_with(c.relname, 'ledger_') AND c.relkind = 'r'
   AND a.attnum > 0 AND NOT a.attisdropped
"""


def _in_postgresql(connection: Connection) -> Objects:
    """Return the ledger's columns, constraints, triggers and functions in a PostgreSQL database.

    The result is a dict from type and name to definition.
    """

    def rows(statement: str) -> Iterator[tuple[str, str]]:
        return (tuple(row) for row in connection.exec_driver_sql(statement))

    objects: Objects = {**dict(rows(_FUNCTIONS)), **dict(rows(_COLUMNS))}
    objects |= {name: re.sub(r" ON \S*?(ledger_\w+) ", r" ON \1 ", text) for name, text in rows(_TRIGGERS)}
    for name in objects:
        if name.startswith("trigger"):
            objects[name] = re.sub(r"FUNCTION \S*?(ledger_\w+\(\))", r"FUNCTION \1", objects[name])
    objects |= {f"constraint {_normalised_definition(text)} of {table}": "" for table, text in rows(_CONSTRAINTS)}
    return objects


def _normalised_definition(definition: str) -> str:
    """Return the SQL `definition` of a constraint in a form in which it can be compared with PostgreSQL's print of it.

    PostgreSQL prints a constraint differently from the text that created it. So brackets, spaces, double quotes, casts
    to text and the schema of a referenced table are removed, and lists of values are written in one way.

    >>> printed = _normalised_definition("CHECK ((kind)::text = ANY (ARRAY['a'::text, 'b'::text]))")
    >>> printed == _normalised_definition("CHECK (kind IN ('a', 'b'))")
    True
    """
    text = re.sub(r"REFERENCES \S*?(ledger_\w+)", r"REFERENCES \1", definition)
    text = text.replace("::text", "").replace(" = ANY (ARRAY[", " IN (")
    return re.sub(r"[\s()\[\]\"]", "", text)


@cache
def _expected_in_postgresql() -> Objects:
    """Return the columns, constraints, triggers and functions that a new PostgreSQL ledger has.

    The result is a dict from type and name to definition.
    """
    tables = (*SCHEMA.sorted_tables, versions)
    objects = {f"function {name}": source for name, source in postgresql_triggers.functions().items()}
    objects |= {f"trigger {name} of {table}": f"O {text}" for name, table, text in postgresql_triggers.triggers()}
    for table in tables:
        for column in table.c:
            kind, required = _TYPES[str(column.type).split()[0]], str(not column.nullable).lower()
            objects[f"column {column.name} of {table.name}"] = f"{kind} {required}"
    objects |= {
        f"constraint {_normalised_definition(text)} of {table.name}": ""
        for table in tables
        for text in _constraints(table)
    }
    return objects


_TYPES = {"TEXT": "text", "INTEGER": "integer", "BIGINT": "bigint"}


def _constraints(table: Table) -> Iterator[str]:
    """Yield the SQL definition of every constraint of `table`, written as PostgreSQL prints definitions."""
    for constraint in (
        *table.constraints,
        *(constraint_of_column for column in table.c for constraint_of_column in column.constraints),
    ):
        match constraint:
            case PrimaryKeyConstraint(columns=columns):
                yield f"PRIMARY KEY ({', '.join(columns.keys())})"
            case UniqueConstraint(columns=columns):
                yield f"UNIQUE ({', '.join(columns.keys())})"
            case ForeignKeyConstraint(columns=columns, elements=elements):
                others = ", ".join(element.column.name for element in elements)
                yield f"FOREIGN KEY ({', '.join(columns.keys())}) REFERENCES {elements[0].column.table.name}({others})"
            case CheckConstraint(sqltext=text):
                yield f"CHECK ({text})"

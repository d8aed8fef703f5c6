"""Whether the tables, constraints and triggers of a store are those that this version makes."""

import re
from collections.abc import Iterator
from functools import cache

from sqlalchemy import (
    CheckConstraint,
    Connection,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    create_engine,
)

from setwise.ledger.stores import postgresql_triggers
from setwise.ledger.stores.migrations import renew_triggers
from setwise.ledger.stores.schema import SCHEMA, versions

Objects = dict[str, str]
"""What is in a schema: the name of each object, and its definition in a form that can be compared."""


def schema_faults(connection: Connection) -> list[str]:
    """Return in words what is missing, changed or strange in the schema; nothing when it is as it should be."""
    if connection.dialect.name == "sqlite":
        found, expected = _in_sqlite(connection), _expected_in_sqlite()
    else:
        found, expected = _in_postgresql(connection), _expected_in_postgresql()
    faults = [f"lacks the {name}" for name in sorted(expected.keys() - found.keys())]
    faults += [f"has a strange {name}" for name in sorted(found.keys() - expected.keys())]
    faults += [f"has another {name}" for name in sorted(expected) if name in found and found[name] != expected[name]]
    return faults


def _in_sqlite(connection: Connection) -> Objects:
    rows = connection.exec_driver_sql(
        "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE tbl_name GLOB 'ledger_*' AND sql NOT NULL"
    )
    return {name: " ".join(sql.split()) for name, sql in rows}


@cache
def _expected_in_sqlite() -> Objects:
    """Return what a new SQLite file has; made in memory."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        versions.create(connection)
        SCHEMA.create_all(connection)
        renew_triggers(connection)
        return _in_sqlite(connection)


_FUNCTIONS = """
SELECT 'function ' || proname, prosrc FROM pg_proc
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
    def rows(statement: str) -> Iterator[tuple[str, str]]:
        return (tuple(row) for row in connection.exec_driver_sql(statement))

    found: Objects = {**dict(rows(_FUNCTIONS)), **dict(rows(_COLUMNS))}
    found |= {name: re.sub(r" ON \S*?(ledger_\w+) ", r" ON \1 ", text) for name, text in rows(_TRIGGERS)}
    for name in found:
        if name.startswith("trigger"):
            found[name] = re.sub(r"FUNCTION \S*?(ledger_\w+\(\))", r"FUNCTION \1", found[name])
    found |= {f"constraint {_plain(text)} of {table}": "" for table, text in rows(_CONSTRAINTS)}
    return found


def _plain(definition: str) -> str:
    """Return a constraint without the brackets, casts, schemas and spaces that databases write differently."""
    text = re.sub(r"REFERENCES \S*?(ledger_\w+)", r"REFERENCES \1", definition)
    text = text.replace("::text", "").replace(" = ANY (ARRAY[", " IN (")
    return re.sub(r"[\s()\[\]\"]", "", text)


@cache
def _expected_in_postgresql() -> Objects:
    tables = (*SCHEMA.sorted_tables, versions)
    found = {f"function {name}": source for name, source in postgresql_triggers.functions().items()}
    found |= {f"trigger {name} of {table}": f"O {text}" for name, table, text in postgresql_triggers.triggers()}
    for table in tables:
        for column in table.c:
            kind, required = _TYPES[str(column.type).split()[0]], str(not column.nullable).lower()
            found[f"column {column.name} of {table.name}"] = f"{kind} {required}"
    found |= {f"constraint {_plain(text)} of {table.name}": "" for table in tables for text in _constraints(table)}
    return found


_TYPES = {"TEXT": "text", "INTEGER": "integer", "BIGINT": "bigint"}


def _constraints(table: Table) -> Iterator[str]:
    for constraint in (*table.constraints, *(each for column in table.c for each in column.constraints)):
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

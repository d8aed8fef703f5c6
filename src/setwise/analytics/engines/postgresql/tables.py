"""What is read of a PostgreSQL server: a table or view by its name, or several of them joined."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg

from setwise.analytics.engines.joins import Join, JoinedTables, NamedTable, Part
from setwise.analytics.engines.postgresql.dialect import PostgresqlDialect, postgresql_column
from setwise.analytics.engines.postgresql.encodings import sound_relation
from setwise.analytics.engines.postgresql.prepared import stored_manifest, table_fingerprint
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.schema import Schema
from setwise.errors import UnsuitableTable

LONGEST_NAME = 63
"""Bytes of a name; the server cuts longer ones, and two of them could become one."""

_RELATION = """
    SELECT c.oid, n.nspname, c.relname, c.reltuples::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass(%(name)s) AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
"""
_COLUMNS = """
    SELECT a.attname, t.typname, t.typtype = 'e', a.atttypmod FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %(relation)s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What stands after FROM, its columns, about how many rows it has, and what it was prepared from, if it was."""

    text: str
    schema: Schema
    rows: int | None
    manifest: Manifest | None = None


class PostgresqlSource(Protocol):
    """What an engine can be opened on."""

    def found(self, connection: psycopg.Connection[Any]) -> Relation:
        """Look up the source in the server's catalogue, or raise `UnsuitableTable`."""
        ...

    def origin(self, connection: psycopg.Connection[Any]) -> tuple[str, str]:
        """Return its name and the fingerprint of what the server counts about it, or raise `UnsuitableTable`."""
        ...


@dataclass(frozen=True, slots=True)
class PostgresqlTable:
    """A table or view by its name, with or without a schema, in the case in which it is stored."""

    name: str

    def found(self, connection: psycopg.Connection[Any]) -> Relation:
        """Look up the table in the catalogue."""
        quoted = quoted_table(self.name)
        row = connection.execute(_RELATION, {"name": quoted}).fetchone()
        if row is None:
            raise UnsuitableTable(f"the PostgreSQL database has no table {self.name!r} that this login may see")
        oid, namespace, name, tuples = row
        columns = connection.execute(_COLUMNS, {"relation": oid}).fetchall()
        schema = Schema(tuple(postgresql_column(*column) for column in columns))
        dialect = PostgresqlDialect()
        text = f"{dialect.name(namespace)}.{dialect.name(name)}"
        manifest = stored_manifest(connection, quoted)
        if manifest is None:  # what was prepared holds nothing that the server cannot send
            text = sound_relation(connection, text, schema.columns)
        return Relation(text=text, schema=schema, rows=int(tuples) if tuples >= 0 else None, manifest=manifest)

    def origin(self, connection: psycopg.Connection[Any]) -> tuple[str, str]:
        """Return the table's name and the fingerprint of what the server counts about it."""
        return self.name, table_fingerprint(connection, self.name, quoted_table(self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresqlJoin:
    """Tables of one database, the first of them private, that are joined by the server."""

    tables: Sequence[NamedTable[PostgresqlTable]]
    joins: Sequence[Join]
    user: str

    def found(self, connection: psycopg.Connection[Any]) -> Relation:
        """Look up every table in the catalogue, and see that the join is one."""
        relations = [each.table.found(connection) for each in self.tables]
        if any(each.manifest is not None for each in relations):
            raise UnsuitableTable("what was prepared cannot be joined: join its source")
        parts = [
            Part(name=each.name, schema=relation.schema, private=each.private)
            for each, relation in zip(self.tables, relations, strict=True)
        ]
        joined = JoinedTables(parts, self.joins, self.user)
        for column in joined.columns:
            if column.name != column.column.name and len(column.name.encode()) > LONGEST_NAME:
                raise UnsuitableTable(
                    f"several tables have the column {column.column.name!r}, and {column.name!r} is longer than the "
                    f"{LONGEST_NAME} bytes of a name in PostgreSQL: give the table a shorter name"
                )
        text = joined.statement([relation.text for relation in relations], PostgresqlDialect())
        return Relation(text=text, schema=joined.schema, rows=relations[0].rows)

    def origin(self, connection: psycopg.Connection[Any]) -> tuple[str, str]:
        """Refuse: a prepared dataset is made of one table."""
        del connection
        raise UnsuitableTable("a join cannot be prepared: write it to a table and prepare that")


def quoted_table(table: str) -> str:
    """Return the name of a table, with or without a schema, in quotes."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))

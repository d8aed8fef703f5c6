"""Lookup of tables, views and joins of a PostgreSQL server, and storage of prepared datasets.

The server converts text to UTF-8 when it sends it, and fails on a byte that its own encoding does not define. One such
label would decide whether a query is answered. Therefore, in a database whose encoding is not UTF-8, text with such a
byte is read as null, as it is in files. A prepared dataset (users' groups, ranked in advance) is a table whose comment
is its manifest.
"""

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg

from setwise.analytics.engines.joins import Relation, ServerJoin
from setwise.analytics.engines.postgresql.definitions import computed_columns
from setwise.analytics.engines.postgresql.dialect import PostgresqlDialect, postgresql_column
from setwise.analytics.engines.prepared import MARK, Manifest, not_replaceable
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import UnsuitableTable

_SINGLE_BYTE = ("LATIN", "WIN", "ISO_8859_", "KOI8")
_HOLES: dict[str, bytes] = {}
"""The undefined bytes of each encoding seen so far; a server's conversion tables do not change while it runs."""


def sound_relation(connection: psycopg.Connection[Any], relation: str, columns: Sequence[Column]) -> str:
    """Return SQL, to stand after FROM, that reads `relation` with null for text that cannot be sent as UTF-8.

    `relation` is SQL text after FROM, and `columns` are its columns. `relation` is returned unchanged if all text of
    the database behind `connection` can be sent.

    Raises: `UnsuitableTable` if the encoding uses several bytes per character and is not UTF-8.
    """
    row = connection.execute("SELECT getdatabaseencoding()").fetchone()
    encoding = str((row or ("",))[0])
    if encoding == "UTF8":
        return relation
    if not encoding.startswith(_SINGLE_BYTE):
        raise UnsuitableTable(
            f"the PostgreSQL database has the encoding {encoding}, in which text need not be made of characters: "
            "copy the table to a database in UTF8"
        )
    if encoding not in _HOLES:
        _HOLES[encoding] = _undefined_bytes(connection)
    if not _HOLES[encoding]:
        return relation
    chosen = ", ".join(_sound_cell(column, _HOLES[encoding]) for column in columns)
    return f"(SELECT {chosen} FROM {relation}) AS source"


def _undefined_bytes(connection: psycopg.Connection[Any]) -> bytes:
    """Return the bytes from 128 to 255 that are no character in the encoding of the database behind `connection`."""
    undefined = bytearray()
    for byte in range(128, 256):
        try:
            with connection.transaction():
                connection.execute("SELECT convert_from(%s, getdatabaseencoding())", (bytes([byte]),)).fetchall()
        except psycopg.Error:
            undefined.append(byte)
    return bytes(undefined)


def _sound_cell(column: Column, undefined: bytes) -> str:
    """Return SQL for `column` in a SELECT list, with null for text that contains one of the bytes `undefined`.

    These bytes are no characters in the database's encoding, so the server would fail when it sends text with them.
    """
    name = PostgresqlDialect().name(column.name)
    if column.kind is not Kind.TEXT:
        return name
    class_of = f"'[' || convert_from(decode('{undefined.hex()}', 'hex'), getdatabaseencoding()) || ']'"
    return f'CASE WHEN CAST({name} AS text) COLLATE "C" !~ ({class_of}) THEN CAST({name} AS text) END AS {name}'


_COMMENT = "SELECT obj_description(to_regclass(%(name)s), 'pg_class')"
_COUNTED = """
    SELECT c.oid, c.relfilenode, pg_relation_size(c.oid), pg_stat_get_tuples_inserted(c.oid),
           pg_stat_get_tuples_updated(c.oid), pg_stat_get_tuples_deleted(c.oid)
    FROM pg_class c WHERE c.oid = to_regclass(%(name)s) AND c.relkind IN ('r', 'm')
"""


def stored_manifest(connection: psycopg.Connection[Any], name: str) -> Manifest | None:
    """Return the manifest in the comment of the table `name`, read through `connection`, or None if there is none.

    A manifest describes a prepared dataset (a stored random ranking of each user's groups); other tables have none.
    """
    row = connection.execute(_COMMENT, {"name": name}).fetchone()
    return Manifest.in_comment(None if row is None else row[0])


def table_fingerprint(connection: psycopg.Connection[Any], table: str, name: str) -> str:
    """Return a digest that changes when the rows of a PostgreSQL table change.

    The digest may lag by some seconds, because the server updates its statistics late. `connection` reads them. `table`
    is the table's name for messages, and `name` its quoted form.

    Raises: `UnsuitableTable` if it is not a plain table, because changes could not be noticed.
    """
    # The table's file, its size, and the numbers of rows ever inserted, updated and deleted, which are updated late.
    row = connection.execute(_COUNTED, {"name": name}).fetchone()
    if row is None:
        raise UnsuitableTable(
            f"{table!r} is not a plain table, so changes of it would not be noticed: prepare a plain table"
        )
    return hashlib.sha256(repr(row).encode()).hexdigest()


def store_table(
    connection: psycopg.Connection[Any], name: str, prepared: str, parameters: dict[str, object], manifest: Manifest
) -> None:
    """Create the prepared dataset `name` (a stored random ranking of each user's groups) from the SQL text `prepared`.

    An earlier prepared dataset of that name is replaced. `connection` runs the statements. `name` is quoted,
    `parameters` are the parameters of the statement `prepared`, and `manifest`, the description of the dataset, becomes
    the table's comment.

    Raises: `InvalidParameter` if `name` exists and is not a prepared dataset.
    """
    exists = connection.execute("SELECT to_regclass(%(name)s) IS NOT NULL", {"name": name}).fetchone() == (True,)
    escaped = name.replace("%", "%%")
    if exists:
        if stored_manifest(connection, name) is None:
            raise not_replaceable(name)
        connection.execute(f"DROP TABLE {escaped}", {})
    # CREATE TABLE AS takes no parameters, so the driver writes them into the statement as quoted constants.
    psycopg.ClientCursor(connection).execute(f"CREATE TABLE {escaped} AS {prepared}", parameters)
    comment = "'" + (MARK + manifest.to_text()).replace("'", "''").replace("%", "%%") + "'"
    connection.execute(f"COMMENT ON TABLE {escaped} IS {comment}", {})


_READ_RELATIONS = """
    WITH RECURSIVE read (oid) AS (
      SELECT to_regclass(%(name)s)::oid
      UNION
      SELECT below.oid FROM read, LATERAL (
        SELECT d.refobjid AS oid FROM pg_rewrite w
          JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
                          AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> read.oid
          WHERE w.ev_class = read.oid
        UNION SELECT inhrelid FROM pg_inherits WHERE inhparent = read.oid) below)
    SELECT n.nspname, c.relname FROM read JOIN pg_class c ON c.oid = read.oid
      JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2
"""


def read_relations(connection: psycopg.Connection[Any], table: str) -> tuple[str, ...]:
    """Return the schema-qualified names of `table` and of all tables and views that it reads.

    A view reads those in its definition, and a table reads its partitions and the tables that inherit from it.

    The catalogue is read through `connection`.
    """
    rows = connection.execute(_READ_RELATIONS, {"name": quoted_table(table)}).fetchall()
    return tuple(f"{schema}.{name}" for schema, name in rows)


LONGEST_NAME = 63
"""Most bytes of a column's name: the server truncates longer names, which could make two names equal."""

_RELATION = """
    SELECT c.oid, n.nspname, c.relname, c.reltuples::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass(%(name)s) AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
"""
_COLUMNS = """
    SELECT a.attname, t.typname, t.typtype = 'e', a.atttypmod FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %(relation)s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


def find_table(connection: psycopg.Connection[Any], table: str) -> Relation:
    """Return the `Relation` (SQL text and columns) of a table or view, looked up through `connection`.

    `table` is the name, in upper and lower case as the server stores it, with or without a schema. Virtual columns are
    left out, because the server computes them while it reads rows: the computation could fail on a row and so reveal
    its values.

    Raises: `UnsuitableTable` if there is no such table, or if reading its stored columns could fail as well.
    """
    quoted = quoted_table(table)
    row = connection.execute(_RELATION, {"name": quoted}).fetchone()
    if row is None:
        raise UnsuitableTable(f"the PostgreSQL database has no table {table!r} that this login may see")
    oid, namespace, name, tuples = row
    computed = computed_columns(connection, oid, table)
    columns = connection.execute(_COLUMNS, {"relation": oid}).fetchall()
    stored = tuple(postgresql_column(*column) for column in columns if column[0] not in computed)
    reason = "PostgreSQL computes it as it reads the table, so one row could make every question fail: make it STORED"
    schema = Schema(stored, left_out=dict.fromkeys(computed, reason))
    dialect = PostgresqlDialect()
    text = f"{dialect.name(namespace)}.{dialect.name(name)}"
    manifest = stored_manifest(connection, quoted)
    if manifest is None:  # a prepared dataset contains only text that the server can send
        text = sound_relation(connection, text, schema.columns)
    rows = int(tuples) if tuples >= 0 else None
    return Relation(text=text, schema=schema, rows=rows, manifest=manifest, origin=table)


def find_join(connection: psycopg.Connection[Any], join: ServerJoin) -> Relation:
    """Return `join`, a join of tables of the server behind `connection`, as one `Relation` (SQL text and columns).

    Raises: `UnsuitableTable` if a column of the join has a name that is too long for PostgreSQL, or if a table cannot
    be joined; `InvalidParameter` or `UnknownColumn` if the join is not allowed.
    """
    relation = join.look_up(partial(find_table, connection), PostgresqlDialect())
    for column in relation.schema.names:
        if len(column.encode()) > LONGEST_NAME:
            raise UnsuitableTable(
                f"{column!r}, a column that several tables have, is longer than the {LONGEST_NAME} bytes of a name in "
                "PostgreSQL: give the table a shorter name"
            )
    return relation


def quoted_table(table: str) -> str:
    """Return the name of a table, with or without a schema, quoted for SQL."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))

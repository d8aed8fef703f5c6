"""A prepared dataset as a table of PostgreSQL, whose comment is the manifest."""

import hashlib
from typing import Any

import psycopg

from setwise.analytics.engines.prepared import Manifest
from setwise.errors import InvalidParameter, UnsuitableTable

MARK = "setwise prepared dataset: "

_COMMENT = "SELECT obj_description(to_regclass(%(name)s), 'pg_class')"
_COUNTED = """
    SELECT c.oid, c.relfilenode, pg_relation_size(c.oid), pg_stat_get_tuples_inserted(c.oid),
           pg_stat_get_tuples_updated(c.oid), pg_stat_get_tuples_deleted(c.oid)
    FROM pg_class c WHERE c.oid = to_regclass(%(name)s) AND c.relkind IN ('r', 'm')
"""


def stored_manifest(connection: psycopg.Connection[Any], name: str) -> Manifest | None:
    """Return the manifest of a table that is a prepared dataset, or None."""
    found = connection.execute(_COMMENT, {"name": name}).fetchone()
    comment = None if found is None else found[0]
    return Manifest.read(comment[len(MARK) :]) if comment and comment.startswith(MARK) else None


def table_fingerprint(connection: psycopg.Connection[Any], table: str, name: str) -> str:
    """Return a digest of which file of what size holds a table, and how many rows were ever written or deleted.

    The server adds up the latter at the end of transactions and up to some seconds late.
    """
    found = connection.execute(_COUNTED, {"name": name}).fetchone()
    if found is None:
        raise UnsuitableTable(
            f"{table!r} is not a plain table, so changes of it would not be noticed: prepare a plain table"
        )
    return hashlib.sha256(repr(found).encode()).hexdigest()


def store_table(
    connection: psycopg.Connection[Any], name: str, prepared: str, parameters: dict[str, object], manifest: Manifest
) -> None:
    """Make the table and its comment, in place of a prepared dataset of that name."""
    exists = connection.execute("SELECT to_regclass(%(name)s) IS NOT NULL", {"name": name}).fetchone() == (True,)
    escaped = name.replace("%", "%%")
    if exists:
        if stored_manifest(connection, name) is None:
            raise InvalidParameter(f"{name} exists and is not a prepared dataset: name another destination")
        connection.execute(f"DROP TABLE {escaped}", {})
    # The server takes no parameters here, so the driver writes them into the statement as quoted constants.
    psycopg.ClientCursor(connection).execute(f"CREATE TABLE {escaped} AS {prepared}", parameters)
    written = "'" + (MARK + manifest.written()).replace("'", "''").replace("%", "%%") + "'"
    connection.execute(f"COMMENT ON TABLE {escaped} IS {written}", {})

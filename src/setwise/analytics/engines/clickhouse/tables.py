"""Tables and views of ClickHouse in its catalogue, and prepared datasets.

A prepared dataset is a MergeTree table whose comment is the manifest.
"""

import hashlib

from setwise.analytics.engines.clickhouse.connection import Ask
from setwise.analytics.engines.clickhouse.dialect import clickhouse_column, quoted
from setwise.analytics.engines.joins import Relation
from setwise.analytics.engines.prepared import MARK, Manifest, not_replaceable
from setwise.analytics.schema import Schema
from setwise.errors import UnsuitableTable

_TABLE = """
    SELECT engine, total_rows, comment FROM system.tables
    WHERE database = if(empty({database:String}), currentDatabase(), {database:String}) AND name = {table:String}
"""
_COLUMNS = """
    SELECT name, type FROM system.columns
    WHERE database = if(empty({database:String}), currentDatabase(), {database:String}) AND table = {table:String}
        AND default_kind NOT IN ('ALIAS', 'EPHEMERAL')
    ORDER BY position
"""
_STORED = ("Memory", "Log", "TinyLog", "StripeLog", "Buffer", "Dictionary")
_OF_OTHERS = ("Distributed", "Merge", "View", "MaterializedView")
_PARTS = """
    SELECT partition_id, sum(rows) AS held, min(min_block_number) AS first, max(max_block_number) AS last,
        maxIf(data_version, data_version > max_block_number) AS mutated
    FROM system.parts
    WHERE active AND database = if(empty({database:String}), currentDatabase(), {database:String})
        AND table = {table:String}
    GROUP BY partition_id ORDER BY partition_id
"""
_UUID = """
    SELECT uuid, engine LIKE '%MergeTree' AS parted FROM system.tables
    WHERE database = if(empty({database:String}), currentDatabase(), {database:String}) AND name = {table:String}
"""


def found_table(ask: Ask, table: str) -> Relation:
    """Look up a table or view by its name, with or without a database.

    Computed columns (ALIAS) are left out, because a row could make their expressions fail.
    """
    found = ask(_TABLE, _parts(table))
    if not found:
        raise UnsuitableTable(f"ClickHouse has no table {table!r} that this login may see")
    engine, rows, comment = str(found["engine"][0]), found["total_rows"][0], str(found["comment"][0])
    if not engine.endswith("MergeTree") and engine not in (*_STORED, *_OF_OTHERS):
        raise UnsuitableTable(
            f"{table!r} is a table of the engine {engine}, whose rows are converted when they are read: "
            "copy it to a MergeTree table"
        )
    columns = ask(_COLUMNS, _parts(table))
    return Relation(
        text=_quoted_table(table),
        schema=Schema(tuple(map(clickhouse_column, columns["name"], columns["type"]))),
        rows=None if rows is None else int(rows),
        manifest=Manifest.in_comment(comment),
        origin=table,
    )


def table_fingerprint(ask: Ask, table: str) -> str:
    """Return a digest of which table it is, and of the rows, block numbers and last mutation of its partitions.

    Merges in the background leave all of them as they are.
    """
    found = ask(_UUID, _parts(table))
    if not found or not found["parted"][0]:
        raise UnsuitableTable(f"{table!r} is no MergeTree table, so changes of it would not be noticed: prepare one")
    held = ask(_PARTS, _parts(table))
    told = [str(found["uuid"][0]), *(list(map(str, column)) for column in held.values())]
    return hashlib.sha256(repr(told).encode()).hexdigest()


def store_table(ask: Ask, table: str, prepared: str, parameters: dict[str, object], manifest: Manifest) -> None:
    """Make the table with the manifest as its comment, in place of a prepared dataset of that name."""
    there = ask(_TABLE, _parts(table))
    if there and not str(there["comment"][0]).startswith(MARK):
        raise not_replaceable(table)
    told = (MARK + manifest.written()).replace("\\", "\\\\").replace("'", "\\'")
    made = f"CREATE OR REPLACE TABLE {_quoted_table(table)} ENGINE = MergeTree ORDER BY rank COMMENT '{told}'"
    ask(f"{made} AS {prepared}", parameters)


def _parts(table: str) -> dict[str, str]:
    """Return the database, empty for that of the connection, and the name in it, as parameters."""
    database, _, name = table.rpartition(".")
    return {"database": database, "table": name}


def _quoted_table(table: str) -> str:
    return ".".join(quoted(part) for part in _parts(table).values() if part)

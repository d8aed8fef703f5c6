"""A prepared dataset as a MergeTree table of ClickHouse, whose comment is the manifest."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from setwise.analytics.engines.prepared import MARK, Manifest
from setwise.errors import InvalidParameter, UnsuitableTable

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


def stored_manifest(comment: str) -> Manifest | None:
    """Return the manifest in the comment of a table that is a prepared dataset, or None."""
    return Manifest.read(comment[len(MARK) :]) if comment.startswith(MARK) else None


def table_fingerprint(
    ask: Callable[[str, Mapping[str, object]], Mapping[str, Sequence[Any]]], table: str, named: Mapping[str, object]
) -> str:
    """Return a digest of which table it is, and of the rows, block numbers and last mutation of its partitions.

    Merges in the background leave all of them as they are.
    """
    found = ask(_UUID, named)
    if not found or not found["parted"][0]:
        raise UnsuitableTable(f"{table!r} is no MergeTree table, so changes of it would not be noticed: prepare one")
    held = ask(_PARTS, named)
    told = [str(found["uuid"][0]), *(list(map(str, column)) for column in held.values())]
    return hashlib.sha256(repr(told).encode()).hexdigest()


def check_replaceable(destination: str, comment: str | None) -> None:
    """Raise unless nothing is there, or a dataset prepared earlier, as the comment of what is there tells."""
    if comment is not None and not comment.startswith(MARK):
        raise InvalidParameter(f"{destination} exists and is not a prepared dataset: name another destination")


def storing(name: str, prepared: str, manifest: Manifest) -> str:
    """Return the statement that makes a table with the manifest as its comment, in place of what has its name."""
    told = (MARK + manifest.written()).replace("\\", "\\\\").replace("'", "\\'")
    return f"CREATE OR REPLACE TABLE {name} ENGINE = MergeTree ORDER BY rank COMMENT '{told}' AS {prepared}"

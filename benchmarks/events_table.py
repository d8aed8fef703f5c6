"""A table of events to measure on: items of a Zipf law, users of unequal diligence."""

from pathlib import Path

import duckdb


def write_events(path: Path, *, rows: int, users: int, items: int) -> Path:
    """Write the table as Parquet with integer columns user_id and item, and return its path."""
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET memory_limit = '2GiB'")
        connection.execute(
            f"""COPY (SELECT CAST(floor({users} * pow(random(), 1.5)) AS BIGINT) AS user_id,
                             CAST(floor(pow({items}, random())) AS INTEGER) AS item FROM range({rows}))
                TO '{path}' (FORMAT parquet)"""
        )
    return path

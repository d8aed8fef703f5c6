"""Open the private state of a live series by its address: a file, or the database that has the data.

A live series is a set of noisy user counts that is released period by period. Its private state stores which users were
counted, and the noise.
"""

import re
from pathlib import Path

from setwise.analytics.engines.registry import CLICKHOUSE, POSTGRESQL, SPARK, engine_type
from setwise.errors import InvalidParameter
from setwise.live.states.base import SeriesState

_SPARK = re.compile(r"spark(:.*)?|local(\[.*\])?|yarn|k8s://.*")
"""Pattern of the address of a state that Spark keeps.

The address is that of an engine, or spark:FOLDER, as in spark:hdfs://host/states. The registry's own test of addresses
is wider, and would take a file called local.db for an engine.
"""


def default_state(name: str, engine: str) -> str:
    """Return the default address of the private state (counted users and noise) of the live series `name`.

    `engine` is the address of the engine that reads the data. If it is a PostgreSQL or ClickHouse server or Spark, the
    state is kept there, and `engine` is returned. Otherwise the address is the file NAME.live.db in the working
    directory.
    """
    return engine if engine_type(engine) in (POSTGRESQL, CLICKHOUSE, SPARK) else f"{name}.live.db"


def is_file(address: str) -> bool:
    """Return whether the `address` of a private state (counted users and noise) is a file on this machine.

    Otherwise the state is in a database or on Spark.
    """
    return "://" not in address and _SPARK.fullmatch(address) is None


def open_state(address: str, name: str) -> SeriesState:
    """Return the private state (counted users and noise) of the live series `name` at `address`; creates nothing.

    Raises `InvalidParameter` for an address that is neither a file, a PostgreSQL or ClickHouse database, nor Spark, and
    `MissingExtra` if the driver of the database is not installed.
    """
    if _SPARK.fullmatch(address):
        from setwise.live.states.spark import SparkState

        return SparkState(address, name)
    kind = None if is_file(address) else engine_type(address)
    if kind is POSTGRESQL:
        from setwise.live.states.postgresql import PostgresqlState

        return PostgresqlState(address, name)
    if kind is CLICKHOUSE:
        from setwise.live.states.clickhouse import ClickHouseState

        return ClickHouseState(address, name)
    if not is_file(address):
        raise InvalidParameter(f"a state is a file or a server with the data, not {address.partition('://')[0]}://")
    from setwise.live.states.duckdb import DuckDBState

    return DuckDBState(Path(address).absolute(), name)

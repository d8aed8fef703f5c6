"""Open the state of a series by its address: a file, or the server that holds the data."""

from pathlib import Path

from setwise.errors import InvalidParameter
from setwise.live.states.base import SeriesState

_POSTGRESQL = ("postgresql://", "postgres://")


def default_state(name: str, engine: str) -> str:
    """Return where the state of a series is kept unless the data holder says: in tables beside the data, or in a file.

    Tables hold it on PostgreSQL alone, because the pairs and the noise of an update must be stored in one transaction.
    """
    return engine if engine.startswith(_POSTGRESQL) else f"{name}.live.db"


def open_state(address: str, name: str) -> SeriesState:
    """Return the state of a series; nothing is made or read yet."""
    if address.startswith(_POSTGRESQL):
        from setwise.live.states.postgresql import PostgresqlState

        return PostgresqlState(address, name)
    if "://" in address:
        raise InvalidParameter(f"a state is a file or a server with the data, not {address.partition('://')[0]}://")
    from setwise.live.states.duckdb import DuckDBState

    return DuckDBState(Path(address).absolute(), name)

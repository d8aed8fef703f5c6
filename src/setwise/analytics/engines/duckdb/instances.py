"""DuckDB instances in memory that are kept for later callers, and the instances on which tables are scanned."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

from setwise.analytics.engines.duckdb.tables import DuckDBTable

_MOST_IDLE = 4
"""The most idle instances that are kept of one kind. An instance takes about a megabyte."""


class KeptInstances:
    """In-memory DuckDB instances of one kind, kept for later callers because opening one takes 10 ms of processor time.

    `connect` opens a new instance and returns a connection to it.
    """

    def __init__(self, connect: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._connect = connect
        self._idle: dict[int, list[duckdb.DuckDBPyConnection]] = {}
        """Idle instances by the id of the process that opened them.

        After a fork the child leaves its parent's instances alone, because their threads do not run in the child.
        """

    @contextmanager
    def borrow(self, *, keep: bool = True) -> Iterator[duckdb.DuckDBPyConnection]:
        """Context manager that yields a cursor of a DuckDB instance in memory that no other caller uses meanwhile.

        Registered tables and TEMP tables are gone when the cursor is closed. Then the instance is kept for a later
        caller. It is closed instead if `keep` is False, if the `with` block raises, or if enough instances are kept
        already.
        """
        # Threads do not share an instance, so that they do not share its memory limit.
        idle = self._idle.setdefault(os.getpid(), [])
        try:
            instance = idle.pop()
        except IndexError:
            instance = self._connect()
        succeeded = False
        try:
            with instance.cursor() as cursor:
                yield cursor
            succeeded = True
        finally:
            if succeeded and keep and len(idle) < _MOST_IDLE:
                idle.append(instance)
            else:
                instance.close()


_SCANNING = KeptInstances(lambda: duckdb.connect(":memory:"))


@contextmanager
def scanning(table: DuckDBTable) -> Iterator[duckdb.DuckDBPyConnection]:
    """Context manager that yields a connection that can read `table`, for exact counts that only the data holder sees.

    Raises: `UnsuitableTable` or another `SetwiseError` if the table cannot be read.
    """
    # A kept instance would go on holding an attached database file, which no other process could then write.
    with _SCANNING.borrow(keep=not table.attaches_file) as connection:
        table.attach(connection)
        yield connection

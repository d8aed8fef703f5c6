"""DuckDB instances in memory: isolated ones for SQL of strangers, ones kept for later callers, ones that scan tables.

An isolated instance opens no file or address and loads no extension, so that SQL of an analyst or of a client of
PostgreSQL's protocol can run in it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import duckdb

from setwise.analytics.engines.duckdb.dialect import sql_text
from setwise.analytics.engines.duckdb.tables import DuckDBTable

_MOST_IDLE = 4
"""The most idle instances that are kept of one kind. An instance takes about a megabyte."""


NO_EXTENSIONS = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
"""The configuration of an instance that neither installs nor loads extensions."""


def connect_isolated(memory: str) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB instance in memory for SQL that strangers wrote; the caller adds tables and then calls `lock`.

    It has one thread and at most `memory`, such as "256MB". It loads no extensions, reads no Python variables, and
    writes no temporary files, which would otherwise land in the service's folder.
    """
    config = {"threads": "1", "memory_limit": memory, "temp_directory": "", "python_enable_replacements": "false"}
    return duckdb.connect(":memory:", config={**NO_EXTENSIONS, **config})


def lock(connection: duckdb.DuckDBPyConnection, changeable: Sequence[str] = ()) -> None:
    """Forbid the instance of `connection` to open files and addresses and to change its settings, until it is closed.

    `changeable` are the settings that may still be changed. Files in the setting `allowed_paths` can still be read.
    """
    connection.execute("SET enable_external_access = false")
    if changeable:
        connection.execute(f"SET allowed_configs = [{', '.join(sql_text(name) for name in changeable)}]")
    connection.execute("SET lock_configuration = true")


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


_MOST_INSTANCES = 3
"""How many DuckDB instances are tried for a scan, until one can attach the database file."""


@contextmanager
def scanning(*tables: DuckDBTable) -> Iterator[duckdb.DuckDBPyConnection]:
    """Context manager that yields a DuckDB connection on which `tables` can be read, in full and without noise.

    It is for exact counts that only the data holder sees.
    Raises: `UnsuitableTable` or another `SetwiseError` if a table cannot be read.
    """
    # A kept instance would go on holding an attached database file, which no other process could then write.
    keep = not any(table.attaches_file for table in tables)
    with ExitStack() as instances:
        for attempt in range(_MOST_INSTANCES):
            # An instance that cannot attach a file stays open meanwhile, so that the next one has another address.
            connection = instances.enter_context(_SCANNING.borrow(keep=keep))
            try:
                for table in tables:
                    table.attach(connection)
                break
            except duckdb.BinderException:
                if attempt == _MOST_INSTANCES - 1:
                    raise
        yield connection

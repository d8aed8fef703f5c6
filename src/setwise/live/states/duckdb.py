"""The private state of a live series (counted users and noise) in a DuckDB file that only its owner can read.

A live series is a set of noisy user counts that is charged once and released period by period.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from setwise.errors import EngineFailed, InvalidParameter
from setwise.live.states.base import (
    SELECTION,
    UNSEEN,
    Batch,
    SeriesState,
    StateUpdate,
    busy,
    text_candidates,
)

if TYPE_CHECKING:
    import pyarrow as pa

_OWNER_ONLY = 0o077
_UMASK = threading.RLock()
"""A lock for changing the file-creation mask, which belongs to the whole process: one thread at a time changes it."""


@contextmanager
def _owner_only() -> Iterator[None]:
    """Context manager in which new files, including the log of a transaction, are readable by their owner alone."""
    with _UMASK:
        before = os.umask(_OWNER_ONLY)
        try:
            yield
        finally:
            os.umask(before)


class DuckDBState(SeriesState):
    """The private state of the live series `name` in the DuckDB file at `path`, which one process at a time can open.

    The private state stores which users were counted, and the noise.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._connection: duckdb.DuckDBPyConnection | None = None

    def token(self) -> str | None:
        if self._connection is None and not self._path.exists():
            return None
        with self._working() as connection:
            tables = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
            if not tables:
                return None
            if ("series",) not in tables:
                raise InvalidParameter(f"{self._path} is a database, but not the state of a series: give another state")
            row = connection.execute("SELECT token FROM series").fetchone()
            self._hide()
            return None if row is None else str(row[0])

    def create(self, token: str) -> None:
        with self._working() as connection, _transaction(connection):
            connection.execute("CREATE TABLE IF NOT EXISTS series (token VARCHAR)")
            connection.execute("CREATE TABLE IF NOT EXISTS pairs (u VARCHAR, g VARCHAR, period INTEGER)")
            connection.execute("CREATE TABLE IF NOT EXISTS batches (start INTEGER PRIMARY KEY, body VARCHAR)")
            if connection.execute("SELECT 1 FROM series").fetchone() is None:
                connection.execute("INSERT INTO series VALUES ($token)", {"token": token})
        self._hide()

    def _hide(self) -> None:
        """Make the state's file readable by its owner alone; the file may have been made with wider permissions.

        Call this only once the file is known to be a private state (counted users and noise), because the option
        `--state` may name another database by mistake.
        """
        with suppress(OSError):
            self._path.chmod(0o600)

    def batches(self) -> list[Batch]:
        with self._working() as connection:
            rows = connection.execute("SELECT body FROM batches ORDER BY start").fetchall()
        return [Batch.read(body) for (body,) in rows]

    def count(self, candidates: "pa.Table", update: StateUpdate) -> Batch:
        rows, label_of = text_candidates(candidates)
        with self._working() as connection, _transaction(connection):
            connection.register("candidates", rows)
            new = SELECTION.format(
                candidates="candidates",
                pairs="pairs",
                unseen=UNSEEN.format(pairs="pairs"),
                order="md5(concat((SELECT token FROM series), fresh.u, chr(10), fresh.g))",
                contributions=int(update.contributions),
            )
            connection.execute(f"INSERT INTO pairs {new}")
            connection.unregister("candidates")
            counted = connection.execute(
                "SELECT g, period, COUNT(*) FROM pairs WHERE period >= $first GROUP BY ALL", {"first": update.first}
            ).fetchall()
            counts = [(label_of(group), int(period), int(count)) for group, period, count in counted]
            batch = update.batch(counts)
            connection.execute(
                "INSERT INTO batches VALUES ($start, $body)", {"start": update.first, "body": batch.to_text()}
            )
        return batch

    def destroy(self) -> None:
        self.close()
        for path in (self._path, self._path.with_name(f"{self._path.name}.wal")):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with _owner_only():
                connection.close()

    @contextmanager
    def _working(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield the connection to the state's file, and turn the driver's errors into `EngineFailed`.

        The driver's own messages may quote users, so they are dropped.
        """
        engine_error: Exception
        try:
            with _owner_only():
                if self._connection is None:
                    self._connection = duckdb.connect(str(self._path))
                yield self._connection
                return
        except duckdb.IOException as error:
            locked = "lock" in str(error).lower()
            engine_error = (
                busy(self._name) if locked else EngineFailed(f"the state {self._path} cannot be read or written")
            )
        except duckdb.Error:
            engine_error = EngineFailed(f"the state {self._path} cannot be read or written")
        raise engine_error


@contextmanager
def _transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Run the block in a transaction of `connection`, which is rolled back if the block raises."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")

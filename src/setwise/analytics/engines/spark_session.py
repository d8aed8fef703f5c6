"""The Spark session that is started for tables here, shared by them and stopped with the last."""

import threading

from pyspark import SparkContext
from pyspark.sql import SparkSession


class SharedSession:
    """Counts the engines on a session started here: a process has one session, and stopping it stops every query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: SparkSession | None = None
        self._engines = 0

    def join(self, master: str | None) -> tuple[SparkSession, bool]:
        """Return the session of this process and whether it is to be left with `leave`: the caller's own is not."""
        with self._lock:
            # Asked of the process, for a thread does not know of a session that another thread has started.
            theirs = self._engines == 0 and SparkContext._active_spark_context is not None
            builder = SparkSession.builder.appName("setwise")
            session = (builder if master is None else builder.master(master)).getOrCreate()
            if not theirs:
                self._started = session
                self._engines += 1
            return session, not theirs

    def leave(self) -> None:
        """Stop the session when the last engine on it is closed."""
        with self._lock:
            self._engines -= 1
            if self._engines == 0 and self._started is not None:
                self._started.stop()
                self._started = None

"""A thread beside a long query: it reports progress and stops a query that would fill the disk."""

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from setwise.analytics.engine import Progress

INTERVAL = 0.1


class Watch:
    """Runs while a query does: asks how far it is, and measures its scratch directory against a limit."""

    def __init__(
        self,
        *,
        share: Callable[[], float],
        progress: Progress,
        scratch: Path,
        limit: int,
        interrupt: Callable[[], None],
    ) -> None:
        self._share = share
        self._progress = progress
        self._scratch = scratch
        self._limit = limit
        self._interrupt = interrupt
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="setwise-watch", daemon=True)
        self.overflowed = False
        self.most_spilled = 0

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Joined before anything else: a thread still alive at exit makes DuckDB's binding complain.
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(INTERVAL):
            self.most_spilled = max(self.most_spilled, directory_size(self._scratch))
            if self.most_spilled > self._limit:
                self.overflowed = True
                self._interrupt()
                return
            share = self._share()
            if share >= 0:
                self._progress(min(1.0, share))


def directory_size(directory: Path) -> int:
    """Return how many bytes the files in a directory take."""
    total = 0
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # gone since it was listed
                total += entry.stat().st_blocks * 512 if entry.is_file() else 0
    return total

"""A thread that polls a running query at regular intervals, for progress, disk use or a cancellation."""

import threading
from collections.abc import Callable
from types import TracebackType

INTERVAL = 0.1


class Poller:
    """Calls `look` every tenth of a second while the block runs, until it returns True."""

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="setwise-watch", daemon=True)

    def __enter__(self) -> "Poller":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Joined before anything else: a thread still alive at exit makes DuckDB's binding complain.
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(INTERVAL) and not self._look():
            pass
